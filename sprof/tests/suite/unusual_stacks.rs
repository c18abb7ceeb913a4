//! Stacks of code that is not as compilers make it: assembly, coroutines, `vfork`, a C library without unwind tables.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use crate::support::machine::one_cpu;
use crate::support::perf::{load, perf_record};
use crate::support::profile::is_mark;
use crate::support::skip::{kernel_samples, perf, perf_events};
use crate::support::steal::undisturbed_or_right;
use crate::support::{Profile, program, record, temp_dir};

const CPU_MS: &str = "300";
/// How many samples the functions that spin have at least, of 300 at 1 kHz: a host that takes CPU time away may leave a
/// third of them.
const MANY: u64 = 50;

fn recorded(way: &str) -> Profile {
    record().profile(program("stacks").unwrap(), &[way, CPU_MS]).1
}

/// The functions and marks of a stack from `first` on, without what interrupted the program. Without `first`, from the
/// root on.
fn user_part<'a>(names: &[&'a str], first: &str, spinning: &str) -> Option<Vec<&'a str>> {
    let last = names.iter().rposition(|name| *name == spinning)?;
    let from = names.iter().position(|name| *name == first).unwrap_or(0);
    Some(names[from.min(last)..=last].to_vec())
}

/// All stacks with the function that spins are these: functions from the root on.
fn assert_stacks(profile: &Profile, stack: &[&str]) {
    let (first, spinning) = (stack[0], *stack.last().unwrap());
    let share = profile.share(
        |names| names.contains(&spinning),
        |names| user_part(names, first, spinning).as_deref() == Some(stack),
    );
    assert!(
        share.of >= MANY,
        "{} samples of {spinning}\n{}",
        share.of,
        profile.summary()
    );
    assert_eq!(share.hits, share.of, "{stack:?}\n{}", profile.summary());
}

/// The same, and no stack is cut.
fn assert_whole(profile: &Profile, stack: &[&str]) {
    assert_stacks(profile, stack);
    let cut = profile.share(
        |names| names.contains(stack.last().unwrap()),
        |names| names.iter().any(|name| is_mark(name)),
    );
    assert_eq!(cut.hits, 0, "{}", profile.summary());
}

#[test]
fn a_zero_that_is_no_return_address_ends_no_stack() {
    let Some(()) = perf_events() else { return };
    let subroutine = recorded("subroutine");
    assert_whole(&subroutine, &["main", "calls", "with_subroutine", "with_subroutine"]);
    // The rules are wrong, and nothing says how: the stack is cut, and counted as such.
    let wrong = recorded("wrong_rule");
    assert_stacks(&wrong, &["[truncated: no unwind information]", "with_wrong_rule"]);
    let cut = wrong.figure(&["no unwind information"]);
    assert!(cut >= MANY as f64, "{cut}\n{:?}", wrong.quality());
}

#[test]
fn the_first_function_of_a_coroutine_is_a_root() {
    let Some(()) = perf_events() else { return };
    assert_root("context", &["__start_context", "context", "spins"]);
    assert_root("started", &["coroutine_start", "coroutine", "spins"]);
    assert_root("zero", &["coroutine", "spins"]);
    assert_root("crash", &["crash", "coroutine", "spins"]);
}

/// All stacks begin with the first of these functions. glibc's own function has no name without debug info.
fn assert_root(way: &str, stack: &[&str]) {
    let profile = recorded(way);
    let is_one = |names: &[&str]| match names.split_first() {
        Some((root, rest)) => {
            let is_glibcs = stack[0] == "__start_context" && root.starts_with("fun_");
            (*root == stack[0] || is_glibcs) && rest.starts_with(&stack[1..])
        }
        None => false,
    };
    let share = profile.share(|names| names.contains(&"spins"), is_one);
    assert!(share.of >= MANY, "{way}: {} samples\n{}", share.of, profile.summary());
    assert_eq!(share.hits, share.of, "{way}\n{}", profile.summary());
}

const ALIGNED: &[&str] = &["main", "calls", "with_aligned_stack"];
const REGISTER: &[&str] = &["main", "calls", "with_register"];

#[test]
fn rules_that_need_other_registers_are_followed() {
    let Some(()) = perf_events() else { return };
    assert_whole(&recorded("aligned"), ALIGNED);
    assert_whole(&recorded("register"), REGISTER);
}

#[test]
fn rules_that_need_other_registers_are_followed_with_ptrace() {
    one_cpu();
    for (way, stack) in [("aligned", ALIGNED), ("register", REGISTER)] {
        // A host that takes the CPU away while mappings are read makes the reading take long, and the next one late.
        undisturbed_or_right(|| assert_whole_with_ptrace(way, stack));
    }
}

fn assert_whole_with_ptrace(way: &str, stack: &[&str]) {
    let (_, profile) = record()
        .under(&[program("refuse").unwrap().to_str().unwrap(), "eperm"])
        .options(&["--rate", "1000"])
        .profile(program("stacks").unwrap(), &[way, "1000"]);
    assert_eq!(profile.quality()["Event"], "ptrace");
    // After a sample in the loader, mappings are read again 20 times as late as the reading took: `ptrace/maps.rs`.
    // Until then the C library is not known, and stacks are cut there. Once it is known, none is.
    let samples = profile.threads.iter().flat_map(|thread| &thread.samples);
    let is_whole = samples.filter_map(|sample| {
        let names: Vec<&str> = profile.names(sample.stack?).collect();
        let part = user_part(&names, stack[0], stack.last()?)?;
        Some(part == stack && !names.iter().any(|name| is_mark(name)))
    });
    let known: Vec<bool> = is_whole.skip_while(|is_whole| !is_whole).collect();
    let cut = known.iter().filter(|is_whole| !**is_whole).count();
    assert!(
        known.len() as u64 >= MANY && cut == 0,
        "{cut} of {} are cut\n{}",
        known.len(),
        profile.summary()
    );
}

#[test]
fn rules_that_need_other_registers_are_followed_in_files_of_perf() {
    let Some(()) = perf() else { return };
    for (way, stack) in [("aligned", ALIGNED), ("register", REGISTER)] {
        let dir = temp_dir();
        let file = dir.path().join("perf.data");
        let options = ["-e", "cpu-clock", "-F", "1000", "--call-graph", "dwarf,4096"];
        perf_record(&file, &options, &program("stacks").unwrap(), &[way, CPU_MS]);
        assert_whole(&load(&file, &[]).0, stack);
    }
}

/// Samples in which at least one frame was found by the code of a function.
fn from_code(profile: &Profile) -> f64 {
    profile.figure(&["found from code"])
}

#[test]
fn assembly_without_unwind_tables_is_unwound_by_its_code() {
    let Some(()) = perf_events() else { return };
    let profile = recorded("no_rules");
    assert_whole(&profile, &["main", "calls", "without_rules"]);
    assert!(from_code(&profile) >= MANY as f64, "{:?}", profile.quality());
}

/// Records a program of musl. All stacks are whole and rooted, but those of its start and its end.
fn assert_musl(name: &str, is_rooted: impl Fn(&[&str]) -> bool) {
    let Some(path) = program(name) else { return };
    let (_, profile) = record().profile(path, &["300"]);
    // Of each thread, from its first to its last rooted stack.
    let (mut whole, mut of) = (0, 0);
    for thread in &profile.threads {
        let is_whole = |stack: usize| {
            let names: Vec<&str> = profile.names(stack).collect();
            is_rooted(&names) && !names.iter().any(|name| is_mark(name))
        };
        let are_whole = thread.samples.iter().filter_map(|sample| sample.stack.map(is_whole));
        let known: Vec<bool> = are_whole.skip_while(|is_whole| !is_whole).collect();
        let end = known.iter().rposition(|is_whole| *is_whole).map_or(0, |last| last + 1);
        of += end as u64;
        whole += known[..end].iter().filter(|is_whole| **is_whole).count() as u64;
    }
    assert!(of >= 3 * MANY, "{name}: {of} samples\n{}", profile.summary());
    assert!(whole * 100 >= of * 98, "{name}: {whole} of {of}\n{}", profile.summary());
    assert!(from_code(&profile) >= 3.0 * MANY as f64, "{:?}", profile.quality());
}

#[test]
fn stacks_through_musl_are_whole() {
    let Some(()) = perf_events() else { return };
    assert_musl("sorts_musl_static", |names| {
        let is_thread = names.starts_with(&["__clone", "start", "thread_body", "sorts"]);
        is_thread
            || (names[0] == "_start"
                && names
                    .get(2..)
                    .is_some_and(|names| names.starts_with(&["main", "sorts"])))
    });
    // Its own functions have no names in the shared library.
    assert_musl("sorts_musl", |names| {
        let own = names.iter().position(|name| *name == "sorts");
        own.is_some_and(|at| at >= 2 && ["main", "thread_body"].contains(&names[at - 1]))
    });
    assert_musl("sorts_musl_stripped", |names| names.len() >= 4);
}

#[test]
fn waits_in_musls_vfork_have_their_callers() {
    let Some(()) = kernel_samples() else { return };
    let Some(path) = program("spawns_musl") else { return };
    let (_, profile) = record().options(&["--off-cpu"]).profile(path, &["20", "10"]);
    assert_children(&profile, 20);
}

/// So many waits in vfork, at least, are for a child and have their callers. Others are for a CPU, or for memory.
fn assert_children(profile: &Profile, waits: u64) {
    let in_vfork = |names: &[&str]| names.iter().any(|name| name.ends_with("vfork")) && names.contains(&"[off-CPU]");
    let callers = profile.share(in_vfork, |names| {
        names.contains(&"main") && names.contains(&"spawn_one") && !names.contains(&"[off-CPU: other]")
    });
    assert_eq!(callers.hits, callers.of, "{}", profile.summary());
    let children = profile.share(in_vfork, |names| names.last() == Some(&"[off-CPU: child process]"));
    // A parent that is stopped just before it waits, for as long as its child lives, does not wait. That is a matter of
    // microseconds, so it does not happen to three of 20.
    assert!(children.hits + 2 >= waits, "{children:?}\n{}", profile.summary());
}

#[test]
fn waits_for_a_child_in_vfork_have_their_callers() {
    let Some(()) = kernel_samples() else { return };
    let (_, profile) = record()
        .options(&["--off-cpu"])
        .profile(program("spawns").unwrap(), &["20", "10"]);
    assert_children(&profile, 20);
}

#[test]
fn waits_for_a_child_in_vfork_have_their_callers_in_files_of_perf() {
    let Some(()) = kernel_samples() else { return };
    let Some(()) = perf() else { return };
    let dir = temp_dir();
    let file = dir.path().join("perf.data");
    let switches = ["-e", "context-switches", "-c", "1", "--switch-events"];
    let options = [&switches[..], &["--call-graph", "dwarf,4096"]].concat();
    perf_record(&file, &options, &program("spawns").unwrap(), &["20", "10"]);
    assert_children(&load(&file, &[]).0, 20);
}
