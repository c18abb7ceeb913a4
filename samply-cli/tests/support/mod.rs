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

use std::fs::File;
use std::path::{Path, PathBuf};

/// The folder of the test files.
pub(crate) fn tests_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

/// Holds the machine for one recording. Shares and losses mean nothing while another test keeps the CPUs busy;
/// a file lock also keeps apart test runners that use one process a test.
pub(crate) fn whole_machine() -> File {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("recording.lock");
    let file = File::create(&path).unwrap();
    file.lock().unwrap();
    file
}

/// A fresh directory that is removed when the test ends.
pub(crate) fn temp_dir() -> tempfile::TempDir {
    tempfile::Builder::new()
        .prefix("sprof-test-")
        .tempdir_in(env!("CARGO_TARGET_TMPDIR"))
        .unwrap()
}
