//! The one place with `unsafe`: mapping files, also such as are cut short meanwhile.
#![allow(unsafe_code)]

mod fault;
mod mapping;

pub(crate) use mapping::Mapping;
