//! Records small programs whose behaviour is known, and answers questions about the profiles.
//!
//! [`programs`] builds the programs, [`run`] records them with the `sprof` that cargo just built, [`profile`] reads
//! what was written, [`store`] stands in for the store of shared profiles, [`bucket`] for object storage, [`chance`]
//! says how far shares may be from the truth, [`steal`] when nothing can be measured, and [`skip`] is the only way for
//! a test not to run.

#![allow(dead_code, unused_imports, reason = "benchmarks use a part")]

pub(crate) mod bucket;
pub(crate) mod cargo;
pub(crate) mod chance;
pub(crate) mod client;
pub(crate) mod events;
pub(crate) mod machine;
pub(crate) mod perf;
pub(crate) mod playground;
pub(crate) mod profile;
pub(crate) mod programs;
pub(crate) mod run;
pub(crate) mod scripted;
pub(crate) mod skip;
pub(crate) mod steal;
pub(crate) mod store;
pub(crate) mod target;
pub(crate) mod waits;

pub(crate) use profile::Profile;
pub(crate) use programs::program;
pub(crate) use run::{Recorder, Recording, record, sprof, sprof_without_part};

use std::path::{Path, PathBuf};

/// The folder of the test files.
pub(crate) fn tests_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

/// A fresh directory that is removed when the test ends.
pub(crate) fn temp_dir() -> tempfile::TempDir {
    machine::share();
    tempfile::Builder::new()
        .prefix("sprof-test-")
        .tempdir_in(env!("CARGO_TARGET_TMPDIR"))
        .unwrap()
}

/// `sixty`, `thirty` and `ten` have these shares, within 2 points, of the samples that are inside `run_split`. Give it
/// 10,000 samples: one that falls on each by chance has a standard deviation of half a point then, of 1.1 points at
/// 2,000.
pub(crate) fn assert_split(profile: &Profile, prefix: &str) {
    let name = |function: &str| format!("{prefix}{function}");
    let run_split = name("run_split");
    for (function, expected) in [("sixty", 60.0), ("thirty", 30.0), ("ten", 10.0)] {
        let function = name(function);
        let share = profile.share(
            |names| names.contains(&&*run_split),
            |names| names.contains(&&*function),
        );
        assert!(share.of > 8000, "only {} samples\n{}", share.of, profile.summary());
        share.assert_is(expected, 2.0, &function, profile);
    }
}
