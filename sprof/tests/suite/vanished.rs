//! Programs and libraries that are not where their path says: in another mount namespace, deleted, replaced.
#![cfg(target_os = "linux")]

use std::path::{Path, PathBuf};

use crate::support;
use crate::support::profile::is_mark;
use crate::support::programs::{ONCE_IT_WORKS, line_of};
use crate::support::skip::{IN_NAMESPACE, mount_namespaces, perf_events, root};
use crate::support::{Profile, copy_program, program, record};

/// Of 16,000 samples: a host that takes two thirds of the CPU time away leaves half, and sprof, which shares the
/// machine here, may lose some. 3.5 points are 5 standard deviations of 5,000.
fn assert_split(profile: &Profile) {
    support::assert_split_within(profile, "", 5000, 3.5);
}

/// Every sample in `leaf` reaches `main` over `caller`; there are more than `at_least`: less than half of what there is
/// where the host takes no time away.
fn assert_named_and_rooted(profile: &Profile, leaf: &str, caller: &str, at_least: u64) {
    let rooted = profile.share(
        |names| names.contains(&leaf),
        |names| names.contains(&caller) && names.contains(&"main") && !names.iter().any(|name| is_mark(name)),
    );
    assert!(rooted.of > at_least, "{}", profile.summary());
    assert_eq!(rooted.hits, rooted.of, "{}", profile.summary());
}

/// Copies a test program to a folder.
fn copy_of(name: &str, folder: &Path) -> PathBuf {
    let copy = folder.join(name);
    copy_program(program(name).unwrap(), &copy);
    copy
}

#[test]
fn a_program_and_its_library_that_only_another_mount_namespace_has_are_named() {
    let Some(()) = perf_events() else { return };
    if !mount_namespaces() {
        return;
    }
    let dir = support::temp_dir();
    let (app, library) = (program("dlopen").unwrap(), program("library.so").unwrap());
    let script = format!(
        "mount -t tmpfs none {0}; cp {1} {0}/app; cp {2} {0}/plugin.so; exec {0}/app {0}/plugin.so 1000",
        dir.path().display(),
        app.display(),
        library.display()
    );
    let (_, profile) = record().profile("unshare", &[IN_NAMESPACE, &[&script]].concat());
    assert!(!dir.path().join("app").exists(), "the mount is seen here");
    assert_named_and_rooted(&profile, "library_leaf", "through_library", 300);
}

#[test]
fn of_two_files_at_one_path_each_namespace_has_its_own() {
    let Some(()) = perf_events() else { return };
    if !mount_namespaces() {
        return;
    }
    let dir = support::temp_dir();
    // Here `app` is another program than there.
    let app = dir.path().join("app");
    copy_program(program("callback").unwrap(), &app);
    let script = format!(
        "mount --bind {1} {0}; exec {0} 1600",
        app.display(),
        program("split").unwrap().display()
    );
    let (_, profile) = record()
        .options(&["--rate", "10000"])
        .profile("unshare", &[IN_NAMESPACE, &[&script]].concat());
    assert_split(&profile);
    assert_named_and_rooted(&profile, "sixty", "one_round", 1500);
    assert_eq!(profile.share_of("compare_leaf").hits, 0, "{}", profile.summary());
}

#[test]
fn processes_in_another_pid_namespace_have_the_pids_that_ps_shows_here() {
    let Some(()) = perf_events() else { return };
    if !mount_namespaces() {
        return;
    }
    let split = program("split").unwrap();
    // `split` is process 1 there. /proc is the one from here, and has its number here (proc_pid_stat(5)).
    let script = format!(
        "read -r pid rest </proc/self/stat; echo pid=$pid; exec {} 800",
        split.display()
    );
    let (recording, profile) = record().profile("unshare", &["-p", "-f", "sh", "-c", &script]);
    let pid = recording.printed("pid").to_string();
    let of_split = profile.threads_of(&pid, "split");
    assert!(
        pid != "1" && of_split.map(|thread| thread.samples.len()).sum::<usize>() > 0,
        "{pid} {:?}",
        profile.pids()
    );
    assert_named_and_rooted(&profile, "sixty", "one_round", 150);
}

#[test]
fn a_binary_that_is_deleted_while_it_runs_keeps_its_names() {
    let Some(()) = perf_events() else { return };
    let dir = support::temp_dir();
    let copy = copy_of("split", dir.path());
    let script = format!("{0} 1600 & {ONCE_IT_WORKS}; rm {0}; wait", copy.display());
    let (_, profile) = record().options(&["--rate", "10000"]).profile("sh", &["-c", &script]);
    assert_split(&profile);
    assert_named_and_rooted(&profile, "sixty", "one_round", 3000);
}

#[test]
fn a_binary_that_is_deleted_at_once_keeps_its_inline_frames_and_lines() {
    let Some(()) = perf_events() else { return };
    let dir = support::temp_dir();
    let copy = copy_of("inline_dwarf5", dir.path());
    // Deleted as soon as it runs: what is left of it is the mapping. `-ef` is built into the shell, and so takes no
    // time in which the program could be sampled; without it, `rm` can be faster than the program's start.
    let script = format!(
        "exec 9<{0}; {0} 1000 & until [ /proc/$!/exe -ef {0} ]; do :; done; rm {0}; wait",
        copy.display()
    );
    let (_, profile) = record().profile("bash", &["-c", &script]);
    assert_inline_frames_and_lines(&profile);
}

#[test]
fn a_binary_that_is_deleted_before_it_starts_keeps_its_inline_frames_and_lines() {
    let Some(()) = perf_events() else { return };
    let dir = support::temp_dir();
    let copy = copy_of("inline_dwarf5", dir.path());
    let script = format!("exec 9<{0}; rm {0}; /proc/self/fd/9 1000", copy.display());
    let (_, profile) = record().profile("bash", &["-c", &script]);
    assert_inline_frames_and_lines(&profile);
}

fn assert_inline_frames_and_lines(profile: &Profile) {
    let (inner, line) = ("innermost", line_of("inline.c", "OUTER_LINE"));
    let of = profile.share(|names| names.contains(&"main"), |names| names.contains(&inner));
    // Of 1,000: a host that takes two thirds of the CPU time away leaves half.
    assert!(of.of > 250 && of.percent() > 95.0, "{of:?}\n{}", profile.summary());
    let outer = profile
        .frames
        .iter()
        .find(|frame| frame.function == "not_inlined" && frame.line == Some(line));
    assert!(outer.is_some(), "no line of `not_inlined`\n{}", profile.summary());
}

#[test]
fn a_library_that_is_deleted_once_it_is_loaded_keeps_its_names() {
    let Some(()) = perf_events() else { return };
    let dir = support::temp_dir();
    let library = copy_of("library.so", dir.path());
    let script = format!(
        "{} {1} 1000 & {ONCE_IT_WORKS}; rm {1}; wait",
        program("dlopen").unwrap().display(),
        library.display()
    );
    let (_, profile) = record().profile("sh", &["-c", &script]);
    assert_named_and_rooted(&profile, "library_leaf", "through_library", 300);
}

#[test]
fn a_library_that_deletes_itself_before_anyone_can_look_has_its_names_for_root() {
    let Some(()) = perf_events() else { return };
    if !root() {
        return;
    }
    let dir = support::temp_dir();
    let library = copy_of("library.so", dir.path());
    let (_, profile) = record().profile(
        program("dlopen").unwrap(),
        &[library.to_str().unwrap(), "1000", "unlink"],
    );
    assert!(!library.exists());
    assert_named_and_rooted(&profile, "library_leaf", "through_library", 300);
}

#[test]
fn a_binary_replaced_by_another_build_while_it_runs_has_its_own_names() {
    let Some(()) = perf_events() else { return };
    let dir = support::temp_dir();
    let copy = copy_of("split", dir.path());
    let script = format!(
        "{0} 800 & {ONCE_IT_WORKS}; rm {0}; cp {1} {0}; {0} 800; wait",
        copy.display(),
        program("callback").unwrap().display()
    );
    let (_, profile) = record().profile("sh", &["-c", &script]);
    assert_named_and_rooted(&profile, "sixty", "one_round", 150);
    assert_named_and_rooted(&profile, "compare_leaf", "sort_all", 150);
    let mixed = profile.share(
        |names| names.contains(&"sort_all"),
        |names| names.contains(&"one_round") || names.contains(&"run_split"),
    );
    assert_eq!(mixed.hits, 0, "{}", profile.summary());
}

#[test]
fn a_binary_without_build_id_that_is_replaced_while_it_runs_has_its_own_names() {
    let Some(()) = perf_events() else { return };
    let dir = support::temp_dir();
    let copy = dir.path().join("app");
    copy_program(program("split_without_build_id").unwrap(), &copy);
    let script = format!(
        "{0} 800 & {ONCE_IT_WORKS}; mv {0} {0}.old; cp {1} {0}; {0} 800; wait",
        copy.display(),
        program("callback_without_build_id").unwrap().display()
    );
    let (_, profile) = record().profile("sh", &["-c", &script]);
    assert_named_and_rooted(&profile, "sixty", "one_round", 150);
    assert_named_and_rooted(&profile, "compare_leaf", "sort_all", 150);
}
