//! Programs that came into memory in another way than as the one file that a new process executes.
#![cfg(target_os = "linux")]

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support;
use crate::support::machine::one_cpu;
use crate::support::perf::{load, perf_record, perf_script};
use crate::support::playground::Playground;
use crate::support::profile::{Thread, is_mark};
use crate::support::skip::{Need, has, paranoid, perf_events, root};
use crate::support::steal::undisturbed_or_right;
use crate::support::{Profile, copy_program, program, record};

/// All samples with `leaf` have all these callers, root first, and nothing is missing. There are more than 30: a host
/// that takes CPU time away may leave a third.
fn assert_stacks(profile: &Profile, leaf: &str, callers: &[&str]) {
    let found = profile.share(
        |names| names.contains(&leaf),
        |names| {
            let mut names_left = names.iter();
            let in_order = callers.iter().all(|caller| names_left.any(|name| name == caller));
            in_order && !names.iter().any(|name| is_mark(name))
        },
    );
    assert!(found.of > 30, "{}", profile.summary());
    assert_eq!(found.hits, found.of, "{}", profile.summary());
}

/// Most samples are in `leaf`: the others are of the program's start. A host that takes CPU time away may leave all of
/// these, and a third of the samples in `leaf`.
fn assert_most(profile: &Profile, leaf: &str) {
    let share = profile.share_of(leaf);
    assert!(share.percent() > 75.0, "{share:?}\n{}", profile.summary());
}

fn copies_of(name: &str, folder: &Path, names: [&str; 3]) -> [PathBuf; 3] {
    names.map(|copy| {
        let path = folder.join(copy);
        copy_program(program(name).unwrap(), &path);
        path
    })
}

const CHAIN: [&str; 3] = ["one", "two", "three"];

/// The CPU time of samples. With ptrace they stand for times of different lengths.
fn cpu_time(thread: &Thread) -> f64 {
    thread.samples.iter().map(|sample| sample.weight).sum()
}

/// Each of the three programs has about a third of the time, under its own name, and no code of another one.
fn assert_thirds(profile: &Profile) {
    let libs = |lib: usize| profile.json["libs"][lib]["name"].as_str().unwrap();
    let of_chain = |lib: &usize| CHAIN.contains(&libs(*lib));
    let mut pids = Vec::new();
    for name in CHAIN {
        let threads = profile.threads.iter().filter(|thread| thread.process_name == name);
        let found: Vec<_> = threads.filter(|thread| thread.samples.len() > 20).collect();
        let [thread] = found[..] else {
            panic!("{} threads of {name}\n{}", found.len(), profile.summary())
        };
        let percent = 100.0 * cpu_time(thread) / profile.threads.iter().map(cpu_time).sum::<f64>();
        assert!(
            (25.0..42.0).contains(&percent),
            "{name}: {percent} %\n{}",
            profile.summary()
        );
        let stacks = thread.samples.iter().filter_map(|sample| sample.stack);
        let frames = stacks.flat_map(|stack| profile.stack_frames(stack));
        let mut programs = frames.filter_map(|frame| frame.lib).filter(of_chain);
        assert!(programs.all(|lib| libs(lib) == name), "{name}\n{}", profile.summary());
        pids.push(thread.pid.split('.').next().unwrap().to_owned());
    }
    assert!(pids.iter().all(|pid| *pid == pids[0]), "{pids:?}");
}

#[test]
fn programs_that_one_process_executes_have_their_time_under_their_own_names() {
    let dir = support::temp_dir();
    let [one, two, three] = copies_of("chain", dir.path(), CHAIN);
    let words = ["300", two.to_str().unwrap(), "300", three.to_str().unwrap(), "300"];
    one_cpu();
    if perf_events().is_some() {
        undisturbed_or_right(|| {
            let (recording, profile) = record().options(&["--rate", "2000"]).profile(&one, &words);
            assert_thirds(&profile);
            assert!(recording.stderr.contains("1 process, 1 thread"), "{}", recording.stderr);
        });
    }
    let refuse = program("refuse").unwrap();
    undisturbed_or_right(|| {
        let by_ptrace = record().under(&[refuse.to_str().unwrap(), "eperm"]);
        let (_, profile) = by_ptrace.options(&["--rate", "1000"]).profile(&one, &words);
        assert_thirds(&profile);
    });
    let have_perf = Command::new("perf").arg("--version").output().is_ok();
    if perf_events().is_some() && has(Need::Perf, have_perf, "perf is not installed") {
        undisturbed_or_right(|| {
            let file = dir.path().join("perf.data");
            let options = ["-q", "-F", "2000", "-e", "cpu-clock", "--call-graph", "dwarf,8192"];
            perf_record(&file, &options, &one, &words);
            assert_thirds(&load(&file, &[]).0);
            // The text has a name at each sample, and no exec.
            let script = dir.path().join("script.txt");
            for options in [&[][..], &["-F", "+pid"]] {
                std::fs::write(&script, perf_script(&file, options)).unwrap();
                assert_thirds(&load(&script, &[]).0);
            }
        });
    }
}

/// The loaders that are here.
fn loaders() -> impl Iterator<Item = (&'static str, &'static str)> {
    let all = [
        ("chain", "/lib64/ld-linux-x86-64.so.2"),
        ("chain", "/lib/ld-linux-aarch64.so.1"),
        ("chain_musl", "/lib/ld-musl-x86_64.so.1"),
    ];
    all.into_iter().filter(|(_, loader)| Path::new(loader).exists())
}

#[test]
fn a_program_that_its_loader_was_executed_to_run_has_its_name_and_its_code() {
    let Some(()) = perf_events() else { return };
    for (name, loader) in loaders() {
        let Some(path) = program(name) else { continue };
        let (recording, profile) = record()
            .options(&["--rate", "2000"])
            .profile(loader, &[path.to_str().unwrap(), "300"]);
        assert!(
            recording.stderr.contains(&format!("recorded {name} in")),
            "{}",
            recording.stderr
        );
        assert_most(&profile, "work_of");
        let threads: Vec<_> = profile.threads.iter().map(|thread| &*thread.process_name).collect();
        assert_eq!(threads, [name], "{loader}");
        let work = profile.frames.iter().find(|frame| frame.function == "work_of").unwrap();
        assert_eq!(work.category, "Program", "{loader}");
        let of_loader = |frame: &&support::profile::FrameInfo| {
            frame.lib.is_some_and(|lib| {
                let lib = profile.json["libs"][lib]["path"].as_str().unwrap();
                std::fs::canonicalize(lib).ok() == std::fs::canonicalize(loader).ok()
            })
        };
        for frame in profile.frames.iter().filter(of_loader) {
            assert_ne!(frame.category, "Program", "{loader}: {}", frame.function);
        }
    }
}

fn assert_from_memory(profile: &Profile) {
    assert_most(profile, "from_memory_leaf");
    assert_stacks(profile, "from_memory_leaf", &["main", "from_memory"]);
    let leaf = profile.frames.iter().find(|frame| frame.function == "from_memory_leaf");
    assert_eq!(leaf.unwrap().category, "Program");
}

#[test]
fn programs_in_memory_files_have_names_and_stacks() {
    let Some(()) = perf_events() else { return };
    let path = program("memory_file").unwrap();
    let (_, profile) = record().options(&["--rate", "2000"]).profile(&path, &["memfd"]);
    assert_from_memory(&profile);
    let file = format!("/dev/shm/sprof-test-{}", std::process::id());
    let (_, profile) = record().options(&["--rate", "2000"]).profile(&path, &["shm", &file]);
    assert_from_memory(&profile);
    if root() {
        let library = program("library.so").unwrap();
        let words = ["library", library.to_str().unwrap()];
        let (_, profile) = record().options(&["--rate", "2000"]).profile(&path, &words);
        assert_stacks(&profile, "library_leaf", &["main", "library_work"]);
    }
}

#[test]
fn an_ordinary_user_gets_programs_in_memory_files_too() {
    let Some(()) = perf_events() else { return };
    let level_allows = paranoid().is_some_and(|level| level <= 2);
    if !root() || !has(Need::PerfEvents, level_allows, "perf_event_paranoid is above 2") {
        return;
    }
    let playground = Playground::new(&["memory_file", "library.so"]);
    for words in [&["memfd"][..], &["shm", "/dev/shm/sprof-test-of-nobody"]] {
        let (output, path) = playground.record(&["-r", "2000"], "memory_file", words);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_from_memory(&Profile::read(&path));
    }
    // The library is on no path, and its descriptor is closed: its memory has what a loader needs.
    let library = playground.path("library.so");
    let (output, path) = playground.record(&["-r", "2000"], "memory_file", &["library", library.to_str().unwrap()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_stacks(&Profile::read(&path), "library_leaf", &["main", "library_work"]);
}

#[test]
fn code_that_a_program_moves_to_memory_without_a_file_is_the_same_code() {
    let Some(()) = perf_events() else { return };
    if !cfg!(target_arch = "x86_64") {
        return;
    }
    let path = program("copied_text").unwrap();
    for mode in ["before", "at-once"] {
        let (_, profile) = record().options(&["--rate", "2000"]).profile(&path, &[mode, "200"]);
        assert_stacks(&profile, "before_move", &["main", "before_move", "spin"]);
        assert_stacks(&profile, "inner_after", &["main", "outer_after", "inner_after", "spin"]);
    }
}

#[test]
fn code_that_an_attached_program_has_moved_before_is_the_same_code() {
    let Some(()) = perf_events() else { return };
    if !cfg!(target_arch = "x86_64") {
        return;
    }
    let mut target = Command::new(program("copied_text").unwrap());
    let mut target = target.args(["before", "10000"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(target.stdout.as_mut().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert_eq!(line, "moved\n");
    let pid = target.id().to_string();
    let running = record().options(&["--rate", "2000", "-p", &pid, "-d", "1"]).attach();
    let recording = running.finish();
    target.kill().unwrap();
    target.wait().unwrap();
    assert_eq!(recording.code, Some(0), "{}", recording.stderr);
    let profile = recording.profile();
    assert_stacks(&profile, "inner_after", &["main", "outer_after", "inner_after", "spin"]);
}

#[test]
fn a_process_in_the_memory_of_another_has_the_libraries_that_the_other_loads() {
    one_cpu();
    let path = program("shared_memory").unwrap();
    let library = program("library.so").unwrap();
    if perf_events().is_some() {
        let (_, profile) = record().options(&["--rate", "2000"]).profile(&path, &[&library]);
        assert_stacks(&profile, "library_leaf", &["second", "library_work"]);
    }
    let refuse = program("refuse").unwrap();
    // A host that takes the CPU away while mappings are read makes the reading take long, and the next one late.
    undisturbed_or_right(|| {
        let by_ptrace = record().under(&[refuse.to_str().unwrap(), "eperm"]);
        let (_, profile) = by_ptrace.options(&["--rate", "1000"]).profile(&path, &[&library]);
        assert_stacks(&profile, "library_leaf", &["second", "library_work"]);
    });
}
