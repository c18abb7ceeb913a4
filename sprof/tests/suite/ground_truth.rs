//! Recordings of programs whose stacks and CPU time are known.
#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::machine::{alone, one_cpu};
use crate::support::profile::is_mark;
use crate::support::skip::{kernel_samples, perf_events};
use crate::support::steal::undisturbed_or_right;
use crate::support::{Profile, Recorder, assert_split_within, program, record};

/// Every sample with user code of ours in it reaches `root`; at most `allowed_percent` do not.
fn assert_rooted(profile: &Profile, root: &str, at_least_percent: f64) {
    let rooted = profile.rooted_in(root);
    assert!(rooted.of > 200, "only {} samples\n{}", rooted.of, profile.summary());
    assert!(
        rooted.percent() >= at_least_percent,
        "{:.2} % of {} samples are rooted in {root}\n{}",
        rooted.percent(),
        rooted.of,
        profile.summary()
    );
}

/// Without what came before the first stack with `function` that reaches `root`: less than half of all. Stacks that are
/// completed from memory are unverified until their memory was read once, and a recorder that waits for a CPU reads it
/// late.
fn from_first_rooted(mut profile: Profile, function: &str, root: &str) -> Profile {
    let all = profile.sample_count();
    let is_rooted = |stack: usize| {
        let names: Vec<&str> = profile.names(stack).collect();
        names.contains(&function) && names.contains(&root) && !names.iter().any(|name| is_mark(name))
    };
    let rooted = profile.samples().filter(|sample| sample.stack.is_some_and(is_rooted));
    let first = rooted.map(|sample| sample.time_ms).fold(f64::MAX, f64::min);
    for thread in &mut profile.threads {
        thread.samples.retain(|sample| sample.time_ms >= first);
    }
    assert!(2 * profile.sample_count() > all, "{}", profile.summary());
    profile
}

/// The functions of the split program have their shares, within 5 standard deviations: 2 points of 15,000 samples. A
/// host that takes CPU time away may leave a third of these.
fn assert_split(profile: &Profile, prefix: &str) {
    assert_split_within(profile, prefix, 4000, 4.0);
}

/// Of all stacks with `function` in them, each reaches `root` or says that it does not. There are enough of them also
/// where the host took most of the samples away.
fn assert_honest(profile: &Profile, function: &str, root: &str) {
    let honest = profile.share(
        |names| names.contains(&function),
        |names| names.contains(&root) || names.iter().any(|name| is_mark(name)),
    );
    assert!(honest.of > 200, "{}", profile.summary());
    assert_eq!(honest.hits, honest.of, "{}", profile.summary());
}

/// Every stack below `run_split` is rooted in `main`. Samples elsewhere are the loader's: before `main`, and after it.
fn assert_split_rooted(profile: &Profile, root: &str) {
    let ours = ["sixty", "thirty", "ten"];
    let in_split = |names: &[&str]| {
        names
            .iter()
            .any(|name| ours.contains(&name.rsplit("::").next().unwrap()))
    };
    let rooted = profile.share(in_split, |names| {
        names.contains(&root) && !names.iter().any(|name| is_mark(name))
    });
    assert!(rooted.of > 1000, "only {} samples\n{}", rooted.of, profile.summary());
    assert_eq!(
        rooted.hits,
        rooted.of,
        "not every stack is rooted in {root}\n{}",
        profile.summary()
    );
    // The loader's part of a program that runs for seconds: a few samples.
    assert_rooted(profile, root, 99.0);
}

/// How the split program is recorded. At 20 kHz `ten` had 0.4 to 1.4 points too much on a slow machine: a sample each
/// 50 us takes time from loops of 5 to 280 us.
const SPLIT_RATE: [&str; 2] = ["--rate", "8000"];
const SPLIT_ROUNDS: &str = "2000";

/// Records a build of the split program; its functions have their shares, and the profile is otherwise right.
fn split(path: PathBuf, assert_more: impl Fn(&Profile)) {
    undisturbed_or_right(|| {
        let (_, profile) = record().options(&SPLIT_RATE).profile(&path, &[SPLIT_ROUNDS]);
        assert_split(&profile, "");
        assert_more(&profile);
    });
}

#[test]
fn split_of_cpu_time_without_frame_pointers() {
    let Some(()) = perf_events() else { return };
    one_cpu();
    split(program("split").unwrap(), |profile| {
        assert_split_rooted(profile, "main")
    });
}

/// The fixture has rules for all its code, so both engines find each stack whole.
#[test]
fn both_unwinders_find_the_same_split() {
    let Some(()) = perf_events() else { return };
    one_cpu();
    for engine in ["sprof", "framehop"] {
        undisturbed_or_right(|| {
            let (_, profile) = record()
                .options(&SPLIT_RATE)
                .options(&["--unwinder", engine])
                .profile(program("split").unwrap(), &[SPLIT_ROUNDS]);
            assert_split(&profile, "");
            assert_split_rooted(&profile, "main");
            let by_framehop = profile.json["meta"]["sprof"]["recorded"]["byFramehop"].as_u64();
            assert_eq!(by_framehop > Some(0), engine == "framehop", "{by_framehop:?}");
        });
    }
}

#[test]
fn split_of_cpu_time_in_rust_on_two_named_threads() {
    let Some(()) = perf_events() else { return };
    alone();
    undisturbed_or_right(|| {
        let (_, profile) = record()
            .options(&SPLIT_RATE)
            .profile(program("split_rs").unwrap(), &[SPLIT_ROUNDS]);
        assert_split(&profile, "split::");
        for name in ["left", "right"] {
            let thread = profile
                .threads_named(name)
                .next()
                .unwrap_or_else(|| panic!("no thread {name}"));
            assert!(thread.samples.len() > 200, "{name}: {} samples", thread.samples.len());
        }
        // Rust's threads start in std's closure under `thread_start`; `run_split` is its only work.
        let rooted = profile.share(
            |names| names.contains(&"split::run_split"),
            |names| names.iter().any(|name| name.contains("thread_start")) && !names.iter().any(|name| is_mark(name)),
        );
        assert_eq!(rooted.hits, rooted.of, "{}", profile.summary());
    });
}

#[test]
fn split_of_cpu_time_on_four_threads() {
    let Some(()) = perf_events() else { return };
    alone();
    undisturbed_or_right(|| {
        let (_, profile) = record()
            .options(&["--rate", "8000"])
            .profile(program("split").unwrap(), &["500", "4"]);
        assert_split(&profile, "");
        assert_split_rooted(&profile, "thread_main");
        for i in 0..4 {
            let name = format!("splitter-{i}");
            let samples: usize = profile.threads_named(&name).map(|thread| thread.samples.len()).sum();
            // Of 4000, a host that takes CPU time away may leave a third.
            assert!(
                (1200..5200).contains(&samples),
                "{name} used 500 ms of CPU time and has {samples} samples at 8 kHz"
            );
        }
    });
}

#[test]
fn split_of_cpu_time_in_a_static_binary_at_a_fixed_address() {
    let Some(()) = perf_events() else { return };
    one_cpu();
    let Some(path) = program("split_static") else { return };
    split(path, |profile| assert_split_rooted(profile, "main"));
}

#[test]
fn split_of_cpu_time_in_a_binary_linked_by_lld() {
    let Some(()) = perf_events() else { return };
    one_cpu();
    let Some(path) = program("split_lld") else { return };
    split(path, |profile| assert_split_rooted(profile, "main"));
}

#[test]
fn split_of_cpu_time_without_unwind_tables() {
    let Some(()) = perf_events() else { return };
    one_cpu();
    split(program("split_frame_pointer").unwrap(), |profile| {
        // The loops are leaf functions, which push no frame of their own: a frame-pointer walk that starts at rbp
        // misses their caller `one_round`, and their code does not.
        let rounds = profile.share(|names| names.contains(&"sixty"), |names| names.contains(&"one_round"));
        assert_eq!(rounds.hits, rounds.of, "{}", profile.summary());
        assert_rooted(profile, "main", 99.0);
        assert!(profile.figure(&["found from code"]) > 0.0, "{:?}", profile.quality());
    });
}

#[test]
fn split_of_cpu_time_with_debug_frame_only() {
    let Some(()) = perf_events() else { return };
    one_cpu();
    // -fno-asynchronous-unwind-tables -g: the rules are in `.debug_frame`, and rbp is no frame pointer. The C library's
    // start code in the same file has `.eh_frame`.
    split(program("split_debug_frame").unwrap(), |profile| {
        assert_split_rooted(profile, "main");
        // A sample in the first instructions of the dynamic linker, which have no rules, is none of these: seen once in
        // 15,193.
        let elsewhere = profile.share(|_| true, |names| !names.contains(&"run_split")).hits;
        let figures = profile.quality();
        let guessed = figures.iter().filter(|(label, _)| label.contains("frame pointer"));
        let guessed: f64 = guessed.map(|(_, count)| count.as_f64().unwrap()).sum();
        assert!(guessed <= elsewhere as f64, "{:?}", profile.quality());
    });
}

#[test]
fn a_stripped_binary_is_unwound_to_the_root_and_its_functions_are_told_apart() {
    let Some(()) = perf_events() else { return };
    one_cpu();
    let (recording, profile) = record().profile(program("split_stripped").unwrap(), &["1000"]);
    // Of the samples in its own code: those of the loader and of the kernel are more on a slow machine. By its
    // function, which has unwind rules: the three loops, and few more.
    let (mut rooted, mut of) = (0, 0);
    let mut leaves: BTreeMap<String, u64> = BTreeMap::new();
    for stack in profile.samples().filter_map(|sample| sample.stack) {
        let leaf = profile.stack_frames(stack).next_back().unwrap();
        assert_ne!(leaf.function, "sixty");
        let is_own = |lib: usize| profile.json["libs"][lib]["name"] == "split_stripped";
        if !leaf.lib.is_some_and(is_own) {
            continue;
        }
        *leaves.entry(leaf.function.clone()).or_default() += 1;
        let names: Vec<&str> = profile.names(stack).collect();
        let is_start = |name: &&str| name.contains("libc_start");
        of += 1;
        rooted += u64::from(names.iter().any(is_start) && !names.iter().any(|name| is_mark(name)));
    }
    assert!(of > 200, "{}", profile.summary());
    assert!(rooted * 100 >= of * 99, "{rooted} of {of}\n{}", profile.summary());
    let mut functions: Vec<u64> = leaves
        .iter()
        .filter(|(name, _)| name.starts_with("fun_"))
        .map(|(_, n)| *n)
        .collect();
    functions.sort_unstable_by(|a, b| b.cmp(a));
    let largest: u64 = functions.iter().take(3).sum();
    assert!(largest * 100 >= of * 90, "{leaves:?}");
    assert!(!leaves.keys().any(|name| name.starts_with("0x")), "{leaves:?}");
    assert!(
        recording.stderr.to_lowercase().contains("symbol"),
        "not announced: {}",
        recording.stderr
    );
}

/// What is deeper than a sample is completed from memory, however many stacks are.
fn from_memory() -> Recorder {
    record().options(&["--stack-size", "16384"])
}

#[test]
fn stacks_of_27_kb_are_rooted() {
    let Some(()) = perf_events() else { return };
    one_cpu();
    let (_, profile) = from_memory().profile(program("deep").unwrap(), &["spin", "27", "2000"]);
    let profile = from_first_rooted(profile.without_its_end(), "deep_leaf", "main");
    assert_rooted(&profile, "main", 99.2);
    // A frame of `descend` is about 250 bytes: 27 KB hold more than a hundred.
    let deep = profile.share(
        |_| true,
        |names| names.iter().filter(|name| **name == "descend").count() > 80,
    );
    assert!(deep.percent() >= 98.0, "{deep:?}\n{}", profile.summary());
}

#[test]
fn stacks_of_200_kb_are_rooted_or_marked() {
    let Some(()) = perf_events() else { return };
    one_cpu();
    let (_, profile) = record().profile(program("deep").unwrap(), &["spin", "210", "1500"]);
    let honest = profile.share(
        |names| names.contains(&"deep_leaf"),
        |names| names.contains(&"main") || names.iter().any(|name| is_mark(name)),
    );
    // Of 1500, a host that takes CPU time away may leave a third.
    assert!(honest.of > 300, "{}", profile.summary());
    assert_eq!(honest.hits, honest.of, "{}", profile.summary());
}

/// The frame goes beyond the dump, and where its return address was, there is 0 when that is read.
#[test]
fn stacks_whose_memory_was_cleared_since_are_marked() {
    let Some(()) = perf_events() else { return };
    one_cpu();
    let recorder = from_memory().options(&["--rate", "4000"]);
    let (_, profile) = recorder.profile(program("deep").unwrap(), &["cleared", "64", "300"]);
    assert_honest(&profile, "large_frame", "main");
}

#[test]
fn stacks_that_keep_growing_and_shrinking_are_rooted_or_marked() {
    let Some(()) = perf_events() else { return };
    alone();
    let (_, profile) = from_memory().profile(program("deep").unwrap(), &["updown", "64", "1500"]);
    assert_growing_and_shrinking(&profile);
}

/// A thread that has to wait for its CPU does so where it last asked for the time, again and again: its stack is read
/// when it is always the same other one.
#[test]
fn stacks_that_keep_growing_and_shrinking_on_a_busy_machine_are_rooted_or_marked() {
    let Some(()) = perf_events() else { return };
    alone();
    let profile = with_busy_cpus(|| {
        from_memory()
            .profile(program("deep").unwrap(), &["updown", "64", "1500"])
            .1
    });
    assert_growing_and_shrinking(&profile);
}

/// Runs something while every CPU has something else to do, too.
fn with_busy_cpus<T>(run: impl FnOnce() -> T) -> T {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().unwrap().get() {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        // Also when it panics: the scope waits for its threads.
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
        done.store(true, Ordering::Relaxed);
        result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn assert_growing_and_shrinking(profile: &Profile) {
    let honest = profile.share(
        |names| names.contains(&"down_and_up"),
        |names| names.contains(&"main") || names.iter().any(|name| is_mark(name)),
    );
    // Of 1500, a host that takes CPU time away may leave a third.
    assert!(honest.of > 300, "{}", profile.summary());
    assert_eq!(honest.hits, honest.of, "{}", profile.summary());
    // What is passed off as verified is right: `wander` calls `down_and_up`, once in every stack.
    let verified = profile.share(
        |names| names.contains(&"down_and_up") && !names.iter().any(|name| is_mark(name)),
        |names| {
            let rest: Vec<_> = names.iter().skip_while(|name| **name != "main").collect();
            rest.first() == Some(&&"main") && rest.get(1) == Some(&&"wander") && rest.get(2) == Some(&&"down_and_up")
        },
    );
    assert_eq!(verified.hits, verified.of, "{}", profile.summary());
}

/// The memory of two paths that are taken by turns is the same but for one return address, which is read when it is
/// always one of the two. Each leaf is called on one path only, so the right answer is known.
fn assert_the_other_path_is_not_passed_off_as_verified(turn_us: &str) {
    let (_, profile) = record().profile(program("deep").unwrap(), &["turns", "100", "4000", turn_us]);
    // At first readings agree by chance, until some have not: of a recorder that is slow, up to 3 % of all samples were
    // wrong, all in the first 0.2 s.
    let (mut samples, mut wrong, mut wrong_at_first) = (0, 0, 0);
    for sample in profile.samples() {
        let Some(stack) = sample.stack else { continue };
        let names: Vec<&str> = profile.names(stack).collect();
        let other = if names.contains(&"left_leaf") {
            "right"
        } else if names.contains(&"right_leaf") {
            "left"
        } else {
            continue;
        };
        samples += 1;
        let is_wrong = names.contains(&other) && !names.iter().any(|name| is_mark(name));
        if sample.time_ms < 300.0 {
            wrong_at_first += u32::from(is_wrong);
        } else {
            wrong += u32::from(is_wrong);
        }
    }
    // Of 4000, a host that takes CPU time away may leave a third.
    assert!(samples > 1000, "{samples}\n{}", profile.summary());
    // Measured: 0.2 %. Five standard deviations of that share of 1300 samples are 0.6 %; the rest is for a busy
    // machine.
    assert!(wrong * 100 <= samples, "{wrong} of {samples}\n{}", profile.summary());
    assert!(
        wrong_at_first * 25 <= samples,
        "{wrong_at_first} of {samples}, at first"
    );
}

#[test]
fn of_two_paths_that_are_taken_by_turns_the_other_one_is_not_passed_off_as_verified() {
    let Some(()) = perf_events() else { return };
    alone();
    undisturbed_or_right(|| assert_the_other_path_is_not_passed_off_as_verified("2000"));
}

#[test]
fn of_two_paths_that_are_taken_by_turns_more_often_than_samples_come_the_other_one_is_not_passed_off_as_verified() {
    let Some(()) = perf_events() else { return };
    alone();
    undisturbed_or_right(|| assert_the_other_path_is_not_passed_off_as_verified("500"));
}

/// Four times as many samples as usual: enough of them also where the host takes most of the CPU time away.
fn record_more() -> Recorder {
    record().options(&["--rate", "4000"])
}

/// Samples inside the handler show what was interrupted, down to `main`.
fn assert_handler_is_rooted(stack: &str) {
    let (_, profile) = record().profile(program("sighandler").unwrap(), &[stack, "1500"]);
    let profile = from_first_rooted(profile.without_its_end(), "handler_spin", "main");
    let rooted = profile.share(
        |names| names.contains(&"handler_spin"),
        |names| {
            let order = ["main", "outer", "interrupted_work", "on_timer", "handler_spin"];
            let mut wanted = order.iter().peekable();
            for name in names {
                if wanted.peek() == Some(&name) {
                    wanted.next();
                }
            }
            wanted.peek().is_none() && !names.iter().any(|name| is_mark(name))
        },
    );
    // Up to 1100. The handler's time is that of the wall, and the host may take CPU time away.
    assert!(
        rooted.of > 200,
        "only {} samples inside the handler\n{}",
        rooted.of,
        profile.summary()
    );
    assert!(
        rooted.percent() >= 98.0,
        "{:.2} %\n{}",
        rooted.percent(),
        profile.summary()
    );
}

#[test]
fn samples_inside_a_signal_handler_reach_main() {
    let Some(()) = perf_events() else { return };
    one_cpu();
    undisturbed_or_right(|| assert_handler_is_rooted("normal"));
}

#[test]
fn samples_inside_a_signal_handler_on_an_alternate_stack_reach_main() {
    let Some(()) = perf_events() else { return };
    one_cpu();
    undisturbed_or_right(|| assert_handler_is_rooted("alternate"));
}

#[test]
fn a_callback_is_seen_through_libc() {
    let Some(()) = perf_events() else { return };
    one_cpu();
    let (_, profile) = record_more().profile(program("callback").unwrap(), &["1000"]);
    let rooted = profile.share(
        |names| names.contains(&"compare_leaf"),
        |names| names.contains(&"compare") && names.contains(&"sort_all") && names.contains(&"main"),
    );
    assert!(rooted.of > 700, "{}", profile.summary());
    assert!(
        rooted.percent() >= 99.0,
        "{:.2} %\n{}",
        rooted.percent(),
        profile.summary()
    );
}

/// A library that was loaded later has names, and its stacks reach `main`.
fn assert_library_is_seen(library: &str, leaf: &str) {
    let library = program(library).unwrap();
    let (_, profile) = record_more().profile(program("dlopen").unwrap(), &[library.to_str().unwrap(), "1000"]);
    let rooted = profile.share(
        |names| names.contains(&leaf),
        |names| names.contains(&"through_library") && names.contains(&"main"),
    );
    assert!(rooted.of > 700, "{}", profile.summary());
    assert!(
        rooted.percent() >= 99.0,
        "{:.2} %\n{}",
        rooted.percent(),
        profile.summary()
    );
}

#[test]
fn a_library_loaded_while_the_program_runs_is_seen() {
    let Some(()) = perf_events() else { return };
    one_cpu();
    assert_library_is_seen("library.so", "library_leaf");
}

#[test]
fn a_library_without_unwind_tables_is_walked_by_frame_pointer() {
    let Some(()) = perf_events() else { return };
    one_cpu();
    assert_library_is_seen("library_frame_pointer.so", "library_leaf");
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_number_in_the_frame_of_code_without_rules_is_no_caller() {
    let Some(()) = perf_events() else { return };
    one_cpu();
    let (_, profile) = record().profile(program("builtin").unwrap(), &["1000"]);
    let right = profile.share(
        |names| names.contains(&"builtin"),
        |names| {
            names
                .windows(3)
                .any(|names| names == ["main", "uses_builtin", "builtin"])
        },
    );
    // Of 1000, a host that takes CPU time away may leave a third.
    assert!(right.of > 200, "{}", profile.summary());
    assert_eq!(right.hits, right.of, "{}", profile.summary());
}

/// Of Go's stacks, the goroutines' end in `runtime.goexit`. Those of the runtime end where its threads begin, or where
/// it came from a goroutine's stack, which is said.
#[test]
fn stacks_of_go_end_where_its_toolchain_says() {
    let Some(()) = perf_events() else { return };
    alone();
    let Some(path) = program("runtime_go") else { return };
    let (_, profile) = record().profile(path, &["1500"]);
    let whole = profile.share(
        |names| names.iter().any(|name| name.starts_with("main.handOver")),
        |names| names[0] == "runtime.goexit",
    );
    // It runs for a time on the wall: a host that takes CPU time away leaves a third of the samples.
    assert!(whole.of > 50, "{}", profile.summary());
    assert_eq!(whole.hits, whole.of, "{}", profile.summary());
    let on_g0 = "[system stack of a Go thread (g0)]";
    let switched = ["runtime.mcall", "runtime.systemstack", "runtime.morestack", "time.now"];
    let said = profile.share(
        |names| names.iter().any(|name| switched.contains(name)) && !names.contains(&"runtime.goexit"),
        |names| names[0] == on_g0 && switched.contains(&names[1]),
    );
    assert!(said.of > 5, "{}", profile.summary());
    assert_eq!(said.hits, said.of, "{}", profile.summary());
    // Nothing else ends anywhere but where the program and its threads start.
    let starts = [
        "runtime.goexit",
        "runtime.mstart",
        "runtime.rt0_go",
        "_rt0_amd64_linux",
        on_g0,
    ];
    let ends = profile.share(
        |names| names.iter().any(|name| name.starts_with("runtime.")),
        |names| starts.contains(&names[0]),
    );
    assert!(ends.percent() >= 99.0, "{ends:?}\n{}", profile.summary());
}

#[test]
fn kernel_functions_appear_under_read() {
    let Some(()) = kernel_samples() else { return };
    one_cpu();
    let (_, profile) = record_more().profile(program("reader").unwrap(), &["1500"]);
    // The C library's `read`, and below it kernel functions: `vfs_read` and what the device does.
    let kernel = profile.share(
        |names| names.contains(&"read_all_zeros"),
        |names| {
            let at = |wanted: &dyn Fn(&str) -> bool| names.iter().position(|name| wanted(name));
            let system_call = at(&|name| name == "read" || name.ends_with("libc_read"));
            let kernel = at(&|name| name == "vfs_read");
            system_call.is_some() && system_call < kernel
        },
    );
    assert!(kernel.of > 700, "{}", profile.summary());
    assert!(
        kernel.percent() >= 90.0,
        "{:.2} %\n{}",
        kernel.percent(),
        profile.summary()
    );
    let categories: Vec<_> = profile
        .samples()
        .filter_map(|sample| profile.stack_frames(sample.stack?).next_back())
        .filter(|frame| frame.category.to_lowercase().contains("kernel"))
        .collect();
    assert!(
        categories.len() > 500,
        "kernel frames have a category of their own: {}",
        categories.len()
    );
    // And down to `main`, through the C library.
    let rooted = profile.share(
        |names| names.contains(&"read_all_zeros"),
        |names| names.contains(&"main") && !names.iter().any(|name| is_mark(name)),
    );
    assert!(rooted.percent() >= 99.0, "{rooted:?}\n{}", profile.summary());
}
