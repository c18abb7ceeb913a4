//! The only folder with `unsafe`: maps files, which may be cut short meanwhile.
#![allow(unsafe_code)]

mod fault;
mod mapping;

pub(crate) use mapping::{Mapping, identity_of};
