//! Files that claim the build id of another file.
#![cfg(target_os = "linux")]

use std::path::PathBuf;
use std::process::Command;

use crate::support;
use crate::support::run::output;
use crate::support::skip::{IN_NAMESPACE, mount_namespaces, perf_events};
use crate::support::{Profile, copy_program, program, record, sprof};

/// A folder with the programs `good/prog` and `evil/prog`, which have one build id. Their functions are called so.
fn programs() -> (tempfile::TempDir, [PathBuf; 2]) {
    let dir = support::temp_dir();
    let paths = ["good", "evil"].map(|name| {
        let folder = dir.path().join(name);
        std::fs::create_dir(&folder).unwrap();
        let path = folder.join("prog");
        let built = Command::new("cc")
            .args(["-O1", "-g", "-Wl,--build-id=0x4620b32d196a2e91a6c0d45f09caadb3b4174049"])
            .arg(format!("-DNAME={name}_function"))
            .arg("-o")
            .args([&*path, &support::tests_dir().join("programs/forged.c")])
            .status();
        assert!(built.unwrap().success());
        path
    });
    (dir, paths)
}

/// The functions of each process of this name, in the order of their starts.
fn functions(profile: &Profile) -> Vec<[u64; 2]> {
    let mut threads: Vec<_> = (profile.threads.iter())
        .filter(|thread| thread.process_name == "prog")
        .collect();
    threads.sort_by(|a, b| a.start_ms.total_cmp(&b.start_ms));
    let count = |thread: &support::profile::Thread, function: &str| {
        let stacks = thread.samples.iter().filter_map(|sample| sample.stack);
        stacks
            .filter(|stack| profile.names(*stack).any(|name| name == function))
            .count() as u64
    };
    (threads.into_iter())
        .map(|thread| ["good_function", "evil_function"].map(|function| count(thread, function)))
        .collect()
}

fn assert_own(functions: &[[u64; 2]], order: [usize; 2]) {
    assert_eq!(functions.len(), 2, "{functions:?}");
    for (of_process, own) in functions.iter().zip(order) {
        // A fast processor makes the least number of calls in 30 ms.
        assert!(of_process[own] > 20 && of_process[1 - own] == 0, "{functions:?}");
    }
}

#[test]
fn each_of_two_programs_with_one_build_id_has_its_own_names() {
    let Some(()) = perf_events() else { return };
    let (_dir, paths) = programs();
    for order in [[0, 1], [1, 0]] {
        let [first, second] = order.map(|program: usize| paths[program].to_str().unwrap());
        let (recording, profile) = record().profile("sh", &["-c", &format!("{first} 300; {second} 300")]);
        assert_own(&functions(&profile), order);
        let warned = recording.stderr.contains("are two files with one build id");
        assert!(warned, "{}", recording.stderr);
        // What needs the file, too: each function is in its own.
        for name in ["good_function", "evil_function"] {
            let shown = output(sprof().arg("annotate").arg(&recording.output).arg(name));
            let text = String::from_utf8_lossy(&shown.stdout);
            assert!(text.contains(&format!("{name} at 0x")), "{text}");
        }
    }
}

#[test]
fn a_program_in_a_container_does_not_name_the_one_at_its_path_outside() {
    let Some(()) = perf_events() else { return };
    if !mount_namespaces() {
        return;
    }
    let (_dir, [good, evil]) = programs();
    let inside = format!("mount --bind {} {}; exec {1} 300", evil.display(), good.display());
    let container = [&["unshare"], IN_NAMESPACE].concat().join(" ");
    for (script, order) in [
        (format!("{0} 300; {container} '{inside}'", good.display()), [0, 1]),
        (format!("{container} '{inside}'; {0} 300", good.display()), [1, 0]),
    ] {
        let (_, profile) = record().profile("sh", &["-c", &script]);
        assert_own(&functions(&profile), order);
    }
}

#[test]
fn copies_of_one_program_are_no_reason_to_warn() {
    let Some(()) = perf_events() else { return };
    let dir = support::temp_dir();
    let copies = ["a", "b"].map(|name| {
        let folder = dir.path().join(name);
        std::fs::create_dir(&folder).unwrap();
        let copy = folder.join("work");
        copy_program(program("work").unwrap(), &copy);
        copy
    });
    let [a, b] = copies.each_ref().map(|path: &PathBuf| path.to_str().unwrap());
    let (recording, profile) = record().profile("sh", &["-c", &format!("{a} 100; {b} 100")]);
    assert!(!recording.stderr.contains("one build id"), "{}", recording.stderr);
    // The rounds of both take 240 ms at 5 GHz.
    assert!(profile.share_of("fixed_work").hits > 100, "{}", profile.summary());
}
