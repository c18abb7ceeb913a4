//! The only folder with `unsafe`: maps files, which may be cut short meanwhile, and calls the system's debuginfod
//! client.
#![allow(unsafe_code)]

mod fault;
mod libdebuginfod;
mod mapping;

pub(crate) use libdebuginfod::{DebuginfodClient, WantedFile};
pub(crate) use mapping::{Mapping, identity_of};
