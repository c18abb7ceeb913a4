//! The one place with `unsafe`: mapping files.
#![allow(unsafe_code)]

mod mapping;

pub(crate) use mapping::Mapping;
