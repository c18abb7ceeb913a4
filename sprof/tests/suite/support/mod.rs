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
pub(crate) mod schema;
pub(crate) mod scripted;
pub(crate) mod skip;
pub(crate) mod steal;
pub(crate) mod store;
pub(crate) mod target;
pub(crate) mod waits;

pub(crate) use profile::{Profile, Share};
pub(crate) use programs::{copy_program, program};
pub(crate) use run::{Recorder, Recording, record, sprof, wait_until};

use std::path::{Path, PathBuf};

/// The folder of the test files.
pub(crate) fn tests_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

/// The certificates of the tests: its README says how they were made.
pub(crate) fn tls_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../share/tests/tls")
}

/// A fresh directory that is removed when the test ends.
pub(crate) fn temp_dir() -> tempfile::TempDir {
    machine::share();
    tempfile::Builder::new()
        .prefix("sprof-test-")
        .tempdir_in(env!("CARGO_TARGET_TMPDIR"))
        .unwrap()
}

/// `sixty`, `thirty` and `ten` have these shares of the samples inside `run_split`: within 2 points, which is 5
/// standard deviations of 15,000 samples.
pub(crate) fn assert_split(profile: &Profile, prefix: &str) {
    assert_split_within(profile, prefix, 10_000, 2.0);
}

/// The same of at least `samples` samples, within `points`. `prefix` stands before the names of the functions.
pub(crate) fn assert_split_within(profile: &Profile, prefix: &str, samples: u64, points: f64) {
    let name = |function: &str| format!("{prefix}{function}");
    let run_split = name("run_split");
    let share = |function: &str| {
        let function = name(function);
        profile.share(
            |names| names.contains(&&*run_split),
            |names| names.contains(&&*function),
        )
    };
    assert_split_of(share, samples, points, || profile.summary());
}

/// The same of shares that were found in some other way.
pub(crate) fn assert_split_of(share: impl Fn(&str) -> Share, samples: u64, points: f64, context: impl Fn() -> String) {
    for (function, expected) in [("sixty", 60.0), ("thirty", 30.0), ("ten", 10.0)] {
        let share = share(function);
        assert!(share.of >= samples, "only {} samples\n{}", share.of, context());
        share.assert_is_within(expected, points, function, &context);
    }
}
