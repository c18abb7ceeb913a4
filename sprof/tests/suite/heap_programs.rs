//! Programs in which sprof's library is not the only one that stands before `malloc`, or may not be there: they do what
//! they do without sprof.
#![cfg(target_os = "linux")]

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use serde_json::Value;

use crate::heap::{exact, heap_of, taken};
use crate::support::playground::Playground;
use crate::support::run::output;
use crate::support::schema::parsed;
use crate::support::skip::{Need, has, is_root};
use crate::support::{Recorder, Recording, copy_program, program, record, sprof, temp_dir};

/// The allocator of a sanitizer has to come first.
#[test]
fn programs_with_a_sanitizer_are_left_alone_and_named() {
    for name in ["heap_asan", "heap_tsan"] {
        let Some(program) = program(name) else { continue };
        // Sanitizers choose addresses, which by chance are others' where those are random.
        let fixed = ["env", "ASAN_OPTIONS=detect_leaks=0", "setarch", "-R"];
        let words = [program.to_str().unwrap(), "1", "64", "thread"];
        let plain = output(Command::new(fixed[0]).args(&fixed[1..]).args(words));
        let stderr = String::from_utf8_lossy(&plain.stderr);
        if !has(
            Need::Sanitizers,
            plain.status.code() == Some(7),
            &format!("{name}: {stderr}"),
        ) {
            continue;
        }
        let (recording, seen) = heap_of(exact(record().under(&fixed)), &words);
        assert_same(&recording, &plain);
        let unseen = &seen["unseen"][0];
        assert_eq!(
            (&unseen["name"], &unseen["cause"]),
            (&name.into(), &"it has a sanitizer's allocator".into()),
            "{seen}"
        );
    }
}

/// It looks for addresses of blocks in the memory of all libraries.
#[test]
fn leaks_that_a_sanitizer_finds_are_found_as_well() {
    let Some(program) = program("heap_lsan") else { return };
    let words = [program.to_str().unwrap(), "1", "64"];
    let plain = output(Command::new(words[0]).args(&words[1..]));
    let leaks = |stderr: &str| {
        let summary = stderr.lines().find(|line| line.contains("SUMMARY: LeakSanitizer"));
        summary.map(str::to_owned)
    };
    let found = leaks(&String::from_utf8_lossy(&plain.stderr));
    if has(Need::Sanitizers, found.is_some(), "no leak is found") {
        let (recording, seen) = heap_of(exact(record()), &words);
        assert_eq!((recording.code, leaks(&recording.stderr)), (plain.status.code(), found));
        assert_eq!(seen["unseen"][0]["cause"], "it has a sanitizer's allocator", "{seen}");
    }
}

/// The same status, and the same output but for what sprof adds to it.
fn assert_same(recording: &Recording, plain: &std::process::Output) {
    let Recording {
        code, stdout, stderr, ..
    } = recording;
    assert_eq!(*code, plain.status.code(), "{stderr}");
    assert!(stdout.as_bytes().starts_with(&plain.stdout), "{stdout}");
    for line in String::from_utf8_lossy(&plain.stderr).lines() {
        assert!(stderr.contains(line), "{stderr}");
    }
    assert!(!stderr.contains("ld.so"), "{stderr}");
}

#[test]
fn a_library_that_the_user_loads_comes_next_and_sees_what_the_program_takes() {
    let (heap, library) = (program("heap").unwrap(), program("preloaded.so").unwrap());
    let words = [heap.to_str().unwrap(), "1", "4"];
    let plain = output(Command::new(&heap).args(&words[1..]).env("LD_PRELOAD", &library));
    // 256 that stay, as many that are freed, and the buffer of stdout.
    assert!(String::from_utf8_lossy(&plain.stdout).ends_with("preloaded: 513\n"));
    let preload = format!("LD_PRELOAD={}", library.display());
    let (recording, seen) = heap_of(exact(record().under(&["env", &preload])), &words);
    assert_same(&recording, &plain);
    // The list of those that stay.
    assert_eq!(
        (&seen["blocks"], &seen["unseen"]),
        (&514.into(), &serde_json::json!([]))
    );
}

#[test]
fn a_set_user_id_program_gets_its_rights_and_no_library() {
    if !has(Need::Root, is_root(), "only root can make such a program") {
        return;
    }
    let playground = Playground::new(&["heap"]);
    // Says so where the rights count for nothing.
    if playground.processes_of_root("processes", 0o4755).is_none() {
        return;
    }
    let of_root = playground.path("of-root");
    copy_program(playground.path("heap"), &of_root);
    std::fs::set_permissions(&of_root, Permissions::from_mode(0o4755)).unwrap();
    let script = format!("{} 1 4; exit $?", of_root.display());
    let words = ["sh", "-c", &script];
    let plain = output(playground.as_nobody_with_rights(words[0]).args(&words[1..]));
    assert_eq!(plain.status.code(), Some(7));
    let profile = playground.path("profile.json.gz");
    let mut command = playground.as_nobody_with_rights(playground.path("sprof"));
    command.args(["record", "--heap", "--save-only", "-o"]).arg(&profile);
    let recorded = output(command.arg("--").args(words));
    let stderr = String::from_utf8_lossy(&recorded.stderr);
    assert_eq!(
        (recorded.status, &recorded.stdout),
        (plain.status, &plain.stdout),
        "{stderr}"
    );
    assert!(!stderr.contains("ld.so"), "{stderr}");
}

/// Runs a command with and without sprof. Returns what sprof says of the heap, and what the command itself wrote to
/// stderr beside it.
fn runs_the_same(recorder: Recorder, words: &[&str]) -> (Recording, Value) {
    let plain = output(Command::new(words[0]).args(&words[1..]));
    let (recording, seen) = heap_of(recorder, words);
    assert_same(&recording, &plain);
    (recording, seen)
}

/// Their garbage collectors map memory themselves; libraries of theirs call `malloc`.
#[test]
fn programs_of_go_node_and_java_do_the_same() {
    // More often, node takes more in its first milliseconds than a ring has room for, after it has waited for sprof to
    // read its 110,000 symbols.
    let often = || record().options(&["--heap", "--heap-interval", "64K"]);
    if let Some(go) = program("split_go") {
        runs_the_same(often(), &[go.to_str().unwrap(), "20"]);
    }
    let keeps =
        "const kept = []; for (let i = 0; i < 20; i++) kept.push(Buffer.alloc(1 << 20, i)); console.log(kept[19][5])";
    for (need, words, bytes) in [
        // The buffers are `malloc`'s.
        (Need::Node, &["node", "-e", keeps][..], 20 << 20),
        (
            Need::Java,
            &["java", "-Xmx64m", "-Xshare:auto", "--list-modules"],
            1 << 20,
        ),
    ] {
        let version = Command::new(words[0]).arg("--version").output();
        if has(need, version.is_ok(), &format!("no {}", words[0])) {
            let (recording, seen) = runs_the_same(often(), words);
            // On a busy machine the ring may have no room for a block, or a thread may not end its record
            // in time. A block has at most 1 MB.
            let lost = ["blocks", "refused"].map(|cause| seen["lost"][cause].as_f64().unwrap());
            let lost = lost.iter().sum::<f64>() * f64::from(1 << 20);
            let allocated = weight(&recording, "allocated");
            assert!(allocated + lost > f64::from(bytes), "{words:?}: {allocated}, {seen}");
        }
    }
}

/// rustc has an allocator of its own.
#[test]
fn what_rustc_compiles_is_the_same_with_patches() {
    let sysroot = Command::new("rustc").args(["--print", "sysroot"]).output();
    if !has(Need::Cargo, sysroot.is_ok(), "no rustc") {
        return;
    }
    let sysroot = String::from_utf8(sysroot.unwrap().stdout).unwrap();
    let rustc = format!("{}/bin/rustc", sysroot.trim());
    let folder = temp_dir();
    let source = folder.path().join("lib.rs");
    std::fs::write(&source, "pub fn sum(of: &[u8]) -> String { format!(\"{of:?}\") }\n").unwrap();
    let object = folder.path().join("lib.o");
    let (source, to) = (source.to_str().unwrap(), object.to_str().unwrap());
    let words = [&rustc, "--crate-type", "lib", "--emit", "obj", "-o", to, source];
    let plain = output(Command::new(words[0]).args(&words[1..]));
    assert!(plain.status.success(), "{plain:?}");
    let compiled = std::fs::read(&object).unwrap();
    std::fs::remove_file(&object).unwrap();
    let (recording, seen) = heap_of(record().options(&["--heap", "--heap-interval", "64K"]), &words);
    assert_same(&recording, &plain);
    assert!(std::fs::read(&object).unwrap() == compiled, "another object file");
    // Of 8 MB.
    assert!(taken(&seen) > 50, "{seen}");
}

/// The loader of such a program says that it can't load the library, and goes on.
#[test]
fn a_program_of_32_bits_runs_and_is_named() {
    let Some(program) = program("spin_32_loaded") else {
        return;
    };
    let script = format!("{}; exit 9", program.display());
    let (recording, seen) = heap_of(exact(record()), &["sh", "-c", &script]);
    assert_eq!(recording.code, Some(9), "{}", recording.stderr);
    let said = recording.stderr.lines().filter(|line| line.contains("ld.so"));
    assert!(
        said.clone().count() == 1 && recording.stderr.contains("wrong ELF class"),
        "{}",
        recording.stderr
    );
    let unseen = &seen["unseen"][0];
    assert_eq!(
        (&unseen["name"], &unseen["cause"]),
        (&"spin_32_loaded".into(), &"32-bit, or for another processor".into()),
        "{seen}"
    );
}

/// The bytes of a measure.
fn weight(recording: &Recording, measure: &str) -> f64 {
    let mut report = sprof();
    report.arg("report").arg(&recording.output);
    let report = output(report.args(["--measure", measure, "-f", "json"]));
    let report: Value = parsed(&report.stdout);
    report["selection"]["weight"].as_f64().unwrap()
}

/// Small objects of Python are in memory that its own allocator maps.
#[test]
fn what_python_takes_is_seen_where_its_own_allocator_is_off() {
    let script = "a = [str(i) * 3 for i in range(100000)]\nprint(len(a))";
    let words = ["-c", script];
    let plain = Command::new("python3").args(words).output();
    if !has(Need::Python, plain.is_ok(), "no Python (Debian: python3)") {
        return;
    }
    let peak = |environment: &str| {
        // All blocks have room in the ring (150 of at most 16 KiB), also if nobody reads it before Python ends.
        let recorder = record().options(&["--heap", "--heap-interval", "64K", "--no-symbolicate"]);
        let recording = recorder.run("env", &[&[environment, "python3"], &words[..]].concat());
        assert_same(&recording, plain.as_ref().unwrap());
        weight(&recording, "peak")
    };
    // 100,000 strings of 64 bytes and more: 6.4 MB. Five standard deviations of a difference of 9.2 and 2.8 MB are 4.5.
    let (own, libc) = (peak("PYTHONMALLOC=default"), peak("PYTHONMALLOC=malloc"));
    assert!(libc - own > 1.9e6, "{libc} and {own}");
}
