//! Definitions of probes in the kernel: they come, and they go. As root; elsewhere the reason is what is tested.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test")]

use std::io::Write as _;
use std::path::Path;
#[cfg(target_arch = "x86_64")]
use std::sync::{Mutex, MutexGuard, PoisonError};
#[cfg(target_arch = "x86_64")]
use std::{fs, path::PathBuf};

use recorder_linux::probes::{ProbeError, Probes};
use recording::probe::{FilePlace, ProbePlace};

/// The kernel's list is read in pieces: where another test takes a definition out meanwhile, one is missed.
#[cfg(target_arch = "x86_64")]
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `None`, said, where probes can't be defined.
fn define(probes: &[ProbePlace]) -> Option<Result<Probes, ProbeError>> {
    match Probes::define(probes) {
        Err(
            error @ (ProbeError::NotAllowed { .. }
            | ProbeError::NotMounted
            | ProbeError::NotInKernel
            | ProbeError::ReadOnly { .. }),
        ) => {
            let name = std::thread::current().name().unwrap_or("?").to_owned();
            let _ = writeln!(std::io::stderr(), "skipped: {name}: {error}");
            None
        }
        result => Some(result),
    }
}

#[cfg(target_arch = "x86_64")]
fn list() -> String {
    fs::read_to_string("/sys/kernel/tracing/uprobe_events").unwrap_or_default()
}

fn probe(path: &Path, file_offset: u64) -> ProbePlace {
    ProbePlace::File(FilePlace {
        path: path.to_owned(),
        file_offset,
        semaphore: None,
        arguments: String::new(),
    })
}

/// A file with these instructions. In the folder of the tests: what is in /tmp may not be executable.
#[cfg(target_arch = "x86_64")]
fn code(name: &str, bytes: &[u8]) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    fs::write(&path, bytes).unwrap();
    path
}

/// `nop` and `hlt`, which no program may execute and the kernel's instruction decoder refuses.
#[cfg(target_arch = "x86_64")]
const CODE: &[u8] = &[0x90, 0x90, 0xf4, 0x90];

#[cfg(target_arch = "x86_64")]
#[test]
fn definitions_stand_in_the_kernel_as_long_as_they_are_held() {
    let _alone = alone();
    let path = code("held code", CODE);
    let Some(probes) = define(&[probe(&path, 0), probe(&path, 1)]) else {
        return;
    };
    let probes = probes.unwrap();
    let names: Vec<String> = probes
        .tracepoints()
        .map(|(group, event)| format!("{group}/{event}"))
        .collect();
    assert_eq!(names.len(), 1, "both places are one event");
    assert_eq!(list().matches(&format!("p:{} ", names[0])).count(), 2, "{}", list());
    assert!(
        names[0].starts_with(&format!("sprof_{}_", std::process::id())),
        "{names:?}"
    );
    for name in &names {
        assert!(list().contains(&format!("p:{name} ")), "{}", list());
    }
    drop(probes);
    for name in &names {
        assert!(!list().contains(&format!("{name} ")), "{}", list());
    }
    fs::remove_file(path).unwrap();
}

#[cfg(target_arch = "x86_64")]
#[test]
fn what_the_kernel_can_not_probe_is_an_error_and_not_silence() {
    let _alone = alone();
    let path = code("hlt", CODE);
    for (offset, reason) in [(2, "the instruction there"), (0x1000, "the file has only 0x4 bytes")] {
        let before = || list().lines().filter(|line| line.contains("hlt-")).count();
        let Some(result) = define(&[probe(&path, 0), probe(&path, offset)]) else {
            return;
        };
        let error = result.err().unwrap().to_string();
        assert!(
            error.contains(reason) && error.contains(&format!("{offset:#x}")),
            "{error}"
        );
        assert_eq!(
            before(),
            0,
            "the first one was defined, and is gone with the second\n{}",
            list()
        );
    }
    fs::remove_file(path).unwrap();
}

#[test]
fn a_file_that_is_not_there_is_named() {
    if let Some(result) = define(&[probe(Path::new("/nonexistent/app"), 0)]) {
        let error = result.err().unwrap().to_string();
        assert!(
            error.contains("/nonexistent/app") && error.contains("No such file"),
            "{error}"
        );
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn two_recordings_of_one_process_do_not_take_each_other_s_names() {
    let _alone = alone();
    let path = code("two", CODE);
    let Some(first) = define(&[probe(&path, 0)]) else {
        return;
    };
    let first = first.unwrap();
    let second = define(&[probe(&path, 0)]).unwrap().unwrap();
    let name = |probes: &Probes| probes.tracepoints().next().map(|(_, event)| event.to_owned());
    assert_ne!(name(&first), name(&second));
    first.remove().unwrap();
    assert!(list().contains(&format!("{} ", name(&second).unwrap())));
    second.remove().unwrap();
    fs::remove_file(path).unwrap();
}
