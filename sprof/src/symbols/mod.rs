//! Names for a profile: from files and servers, and what helps where names are missing.
//!
//! [`look_ups`] looks up the names of each [`library`]; [`build_ids`] checks them, [`downloads`] gets debug info from
//! servers. [`kernel`]: the kernel's image, and its functions that wait. [`sources`]: source files for the profile.
//! [`advice`]: what helps if the result is poor; [`packages`]: the packages of debug symbols.

pub(crate) mod advice;
pub(crate) mod build_ids;
mod downloads;
pub(crate) mod kernel;
pub(crate) mod library;
pub(crate) mod look_ups;
mod packages;
pub(crate) mod sources;
