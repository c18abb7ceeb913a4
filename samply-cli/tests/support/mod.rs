//! Records small programs whose behaviour is known, and answers questions about the profiles.
//!
//! [`programs`] builds the programs, [`run`] records them with the `sprof` that cargo just built, [`profile`] reads
//! what was written, and [`skip`] is the only way for a test not to run.

#![allow(dead_code, unused_imports, reason = "each test file uses a part")]

pub(crate) mod client;
pub(crate) mod profile;
pub(crate) mod programs;
pub(crate) mod run;
pub(crate) mod skip;

pub(crate) use profile::Profile;
pub(crate) use programs::program;
pub(crate) use run::{Recording, record, sprof};

use std::path::{Path, PathBuf};

/// The folder of the test files.
pub(crate) fn tests_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

/// A fresh directory that is removed when the test ends.
pub(crate) fn temp_dir() -> tempfile::TempDir {
    tempfile::Builder::new()
        .prefix("sprof-test-")
        .tempdir_in(env!("CARGO_TARGET_TMPDIR"))
        .unwrap()
}
