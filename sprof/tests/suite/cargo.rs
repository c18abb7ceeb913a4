//! What cargo builds and runs: `sprof record cargo ...`.
#![cfg(target_os = "linux")]

use std::collections::BTreeMap;

use serde_json::Value;

use crate::support;
use crate::support::Profile;
use crate::support::cargo::{Recorded, cargo, cargo_sprof, crates, nextest, record_cargo, run, workspace};

/// Names of the processes with samples, and how many.
fn processes(profile: &Profile) -> BTreeMap<&str, usize> {
    let mut processes = BTreeMap::new();
    for thread in &profile.threads {
        *processes.entry(thread.process_name.as_str()).or_default() += thread.samples.len();
    }
    processes.retain(|_, samples| *samples > 0);
    processes
}

/// Where a comment stands in a file of the workspace.
fn line_of(file: &str, comment: &str) -> u32 {
    let text = std::fs::read_to_string(workspace().join(file)).unwrap();
    let at = text.lines().position(|line| line.contains(comment)).unwrap();
    u32::try_from(at + 1).unwrap()
}

/// Samples with this function inlined into the other, at the line of the comment.
fn inlined(profile: &Profile, function: &str, into: &str, file: &str, comment: &str) -> usize {
    let line = line_of(file, comment);
    let samples = profile.samples().filter_map(|sample| sample.stack);
    samples
        .filter(|&stack| {
            let mut frames = profile.stack_frames(stack);
            let mut found_into = false;
            frames.any(|frame| {
                found_into |= frame.function.contains(into);
                found_into
                    && frame.function.contains(function)
                    && frame.inline_depth > 0
                    && frame.line == Some(line)
                    && frame.file.as_deref().is_some_and(|path| path.ends_with(file))
            })
        })
        .count()
}

/// Of each benchmark or test: its thread, and from when to when it ran.
fn marked(profile: &Profile) -> BTreeMap<String, (usize, f64, f64)> {
    let mut marked = BTreeMap::new();
    for (index, thread) in profile.threads.iter().enumerate() {
        let times = &profile.json["threads"][index]["markers"];
        for (at, (name, data)) in thread.marker_names.iter().zip(&thread.markers).enumerate() {
            if data["type"] == "Benchmark or test" {
                let time = |column: &str| times[column][at].as_f64().unwrap();
                assert_eq!(data["name"], name.as_str());
                marked.insert(name.clone(), (index, time("startTime"), time("endTime")));
            }
        }
    }
    marked
}

/// Samples with this function: those while the marker lasts, and all of its process.
fn while_marked(profile: &Profile, name: &str, function: &str) -> (usize, usize) {
    let marked = marked(profile);
    let (thread, start, end) = marked
        .get(name)
        .copied()
        .unwrap_or_else(|| panic!("no {name} in {marked:?}"));
    let process = &profile.threads[thread].pid;
    let threads = profile.threads.iter().filter(|thread| thread.pid == *process);
    let samples = threads.flat_map(|thread| &thread.samples);
    let is_meant = |name: &str| name == function || name.ends_with(&format!("::{function}"));
    let of_function = samples.filter(|sample| sample.stack.is_some_and(|stack| profile.names(stack).any(is_meant)));
    let of_function: Vec<_> = of_function.collect();
    let inside = of_function
        .iter()
        .filter(|sample| (start..=end).contains(&sample.time_ms));
    (inside.count(), of_function.len())
}

/// No sample is of what builds.
fn assert_no_builder(profile: &Profile) {
    for builder in ["cargo", "rustc", "rustup", "cc", "ld", "sprof", "build-script"] {
        let found = profile.threads.iter().find(|thread| {
            [&thread.process_name, &thread.name]
                .iter()
                .any(|name| name.starts_with(builder))
        });
        assert!(found.is_none(), "{builder}: {:?}", processes(profile));
    }
    let rustc = profile.share(|_| true, |names| names.iter().any(|name| name.contains("rustc_driver")));
    assert_eq!(rustc.hits, 0, "{}", profile.summary());
}

/// The crates of all functions of this name, with any path.
fn crates_of(profile: &Profile, function: &str) -> Vec<String> {
    let (texts, table) = (
        &profile.json["shared"]["stringArray"],
        &profile.json["shared"]["funcTable"],
    );
    let text = |index: &Value| index.as_u64().and_then(|index| texts[index as usize].as_str());
    let names = table["name"].as_array().unwrap().iter();
    let is_it = |name: &Value| text(name).unwrap().rsplit("::").next() == Some(function);
    (0..)
        .zip(names)
        .filter(|(_, name)| is_it(name))
        .map(|(at, _): (usize, _)| text(&table["crate"][at]).unwrap_or("none").to_owned())
        .collect()
}

fn assert_nothing_built(recorded: &Recorded) {
    assert!(!recorded.stderr.contains("Compiling"), "{}", recorded.stderr);
    assert!(recorded.stderr.contains("Finished"), "{}", recorded.stderr);
}

#[test]
#[ignore = "long: builds criterion and divan; programs and tests that cargo runs have the same rules"]
fn each_benchmark_is_a_process_with_names_lines_and_inlined_functions_and_the_second_run_builds_nothing() {
    let Some(()) = crates() else { return };
    let recorded = record_cargo(&[], &["bench"], &[]);
    assert_eq!(recorded.code, Some(0), "{}", recorded.stderr);
    // What was built before was built by another sprof, with the same settings.
    assert_nothing_built(&recorded);
    assert!(
        recorded
            .stderr
            .contains("CARGO_PROFILE_BENCH_DEBUG=limited CARGO_PROFILE_BENCH_STRIP=none"),
        "{}",
        recorded.stderr
    );
    let profile = recorded.profile();
    let processes = processes(&profile);
    for name in ["sort (bench)", "hash-rounds (bench)", "divided (bench)"] {
        assert!(
            processes.get(name).is_some_and(|samples| *samples > 20),
            "{name}: {processes:?}"
        );
    }
    assert_no_builder(&profile);
    for (function, into, file, comment) in [
        ("scattered", "added", "measured/benches/sort.rs", "SCATTERED_LINE"),
        ("mixed", "rounds", "work/src/lib.rs", "MIXED_LINE"),
    ] {
        let found = inlined(&profile, function, into, file, comment);
        assert!(found > 50, "{function}: {found}\n{}", profile.summary());
    }
    // Inlined functions have no symbol of their own with this debug info: their file has their crate.
    for (function, krate) in [("scattered", "sort"), ("added", "sort"), ("mixed", "work")] {
        let found = crates_of(&profile, function);
        assert!(
            !found.is_empty() && found.iter().all(|found| found == krate),
            "{function}: {found:?}"
        );
    }
    // Each benchmark's samples are those while its marker lasts. Criterion's names have parameters; divan's cases of
    // one function are one benchmark here.
    for (name, function, other) in [
        ("only adding", "added", "sorted"),
        ("sorting/numbers/500", "sorted", "added"),
        ("sorting/numbers/5000", "sorted", "added"),
        ("rounds of work", "mixed", "sorted"),
        ("many_rounds", "many_rounds", "rounds_of"),
        ("rounds_of", "rounds_of", "many_rounds"),
    ] {
        let (inside, all) = while_marked(&profile, name, function);
        assert!(inside > 20, "{name}: {inside} of {all}");
        assert!(
            inside == all || name.starts_with("sorting"),
            "{name}: {inside} of {all}"
        );
        assert_eq!(while_marked(&profile, name, other).0, 0, "{name}");
    }
    let both = ["sorting/numbers/500", "sorting/numbers/5000"].map(|name| while_marked(&profile, name, "sorted"));
    assert_eq!(both[0].0 + both[1].0, both[0].1, "{both:?}");
    // The busiest one is shown first.
    let shown = profile.json["meta"]["initialSelectedThreads"][0].as_u64().unwrap();
    assert!(profile.threads[shown as usize].process_name.ends_with(" (bench)"));
    // Of the time of a short benchmark, Criterion's statistics take most.
    assert!(recorded.stderr.contains("`-- --profile-time 5`"), "{}", recorded.stderr);
}

#[test]
#[ignore = "long: builds criterion and divan; programs and tests that cargo runs have the same rules"]
fn a_benchmark_without_statistics_is_not_advised_about_them() {
    let Some(()) = crates() else { return };
    let words = [
        "bench",
        "-p",
        "measured",
        "--bench",
        "hash-rounds",
        "--",
        "--profile-time",
        "1",
    ];
    let folder = support::temp_dir();
    let own_results = [("CRITERION_HOME", folder.path().to_str().unwrap())];
    let recorded = record_cargo(&[], &words, &own_results);
    assert_eq!(recorded.code, Some(0), "{}", recorded.stderr);
    assert!(!recorded.stderr.contains("statistics"), "{}", recorded.stderr);
    let profile = recorded.profile();
    let found = inlined(&profile, "mixed", "rounds", "work/src/lib.rs", "MIXED_LINE");
    assert!(found > 50, "{found}\n{}", profile.summary());
}

#[test]
fn tests_run_with_their_own_status_and_the_failing_one_fails_cargo() {
    let Some(()) = cargo() else { return };
    let words = ["test", "-p", "work"];
    let recorded = record_cargo(&[], &words, &[]);
    assert_eq!(recorded.code, Some(0), "{}", recorded.stderr);
    assert!(
        recorded
            .stdout
            .contains("test tests::rounds_of_another_test_with_a_long_name ... ok"),
        "{}",
        recorded.stdout
    );
    assert!(
        recorded.stdout.contains("work/src/lib.rs - rounds"),
        "{}",
        recorded.stdout
    );
    let profile = recorded.profile();
    assert_no_builder(&profile);
    let processes = processes(&profile);
    for name in ["work (unit tests)", "from_outside (test)"] {
        assert!(
            processes.get(name).is_some_and(|samples| *samples > 20),
            "{name}: {processes:?}"
        );
    }
    let found = inlined(&profile, "mixed", "rounds", "work/src/lib.rs", "MIXED_LINE");
    assert!(found > 20, "{found}\n{}", profile.summary());

    // The kernel keeps 15 bytes of a thread's name.
    for name in [
        "tests::rounds_of_a_test_with_a_rather_long_name",
        "tests::rounds_of_another_test_with_a_long_name",
    ] {
        let (inside, _) = while_marked(&profile, name, name);
        let (thread, ..) = marked(&profile)[name];
        assert!(
            inside > 10 && profile.threads[thread].name == "tests::rounds_o",
            "{name}: {inside}"
        );
    }
    assert!(while_marked(&profile, "a_test_that_passes_after_a_while", "rounds").0 > 10);

    let recorded = record_cargo(&[], &words, &[("WORK_FAILS", "1")]);
    assert_eq!(recorded.code, Some(101), "{}", recorded.stderr);
    assert_nothing_built(&recorded);
    assert!(recorded.has_profile());
}

#[test]
fn an_example_has_its_own_arguments_output_status_and_environment() {
    let Some(()) = cargo() else { return };
    let words = ["run", "--release", "--example", "spin", "--", "40000000", "7"];
    let recorded = record_cargo(&[], &words, &[]);
    assert_eq!(recorded.code, Some(7), "{}", recorded.stderr);
    // The example prints what it finds of sprof's own variables.
    assert_eq!(recorded.stdout.lines().count(), 1, "{}", recorded.stdout);
    let profile = recorded.profile();
    assert_eq!(processes(&profile).into_keys().collect::<Vec<_>>(), ["spin (example)"]);
    let found = inlined(&profile, "step", "spin", "work/examples/spin.rs", "STEP_LINE");
    assert!(found > 20, "{found}\n{}", profile.summary());
    assert_nothing_built(&record_cargo(&[], &words, &[]));
}

/// Each block: the program takes few. It prints what it finds of sprof's own variables.
#[test]
fn the_heap_is_that_of_what_cargo_runs_and_not_of_cargo() {
    let Some(()) = cargo() else { return };
    let words = ["run", "--release", "--example", "spin", "--", "1000000", "7"];
    let recorded = record_cargo(&["--heap", "--heap-interval", "1"], &words, &[]);
    assert_eq!(recorded.code, Some(7), "{}", recorded.stderr);
    assert_eq!(recorded.stdout.lines().count(), 1, "{}", recorded.stdout);
    assert!(
        recorded.stderr.contains(" of 1 program recorded") && !recorded.stderr.contains("heap not recorded"),
        "{}",
        recorded.stderr
    );
    let profile = recorded.profile();
    let blocks = &profile.json["threads"][0]["nativeAllocations"];
    assert!(
        blocks["length"].as_u64().unwrap_or_default() > 5,
        "{}",
        profile.summary()
    );
}

#[test]
fn a_runner_of_the_user_runs_the_program() {
    let Some(()) = cargo() else { return };
    let words = ["run", "--release", "--example", "spin", "--", "40000000"];
    let name = format!(
        "CARGO_TARGET_{}_UNKNOWN_LINUX_GNU_RUNNER",
        std::env::consts::ARCH.to_uppercase()
    );
    let by_variable = record_cargo(&[], &words, &[(&name, "env MADE_BY_RUNNER=1")]);
    let config = ["--config", "target.'cfg(unix)'.runner = ['env', 'MADE_BY_RUNNER=2']"];
    let by_config = record_cargo(&[], &[&config[..], &words].concat(), &[]);
    for (recorded, value) in [(by_variable, "1"), (by_config, "2")] {
        assert_eq!(recorded.code, Some(0), "{}", recorded.stderr);
        assert!(
            recorded.stdout.contains(&format!("MADE_BY_RUNNER={value}\n")),
            "{}",
            recorded.stdout
        );
        let has_own = recorded.stdout.contains("_RUNNER=env MADE_BY_RUNNER=1");
        assert_eq!(has_own, value == "1", "{}", recorded.stdout);
        let profile = recorded.profile();
        assert_eq!(processes(&profile).into_keys().collect::<Vec<_>>(), ["spin (example)"]);
    }
}

#[test]
fn cargo_s_profiles_are_left_as_they_are_where_asked() {
    let Some(()) = cargo() else { return };
    let words = [
        "run",
        "--profile",
        "thorough-check",
        "--example",
        "spin",
        "--",
        "30000000",
    ];
    let set = record_cargo(&[], &words, &[]);
    assert!(
        set.stderr.contains("CARGO_PROFILE_THOROUGH_CHECK_STRIP=none"),
        "{}",
        set.stderr
    );
    assert!(set.profile().share_of("spin::step").hits > 10);
    let left = record_cargo(&["--no-cargo-env"], &words, &[]);
    assert_eq!(left.code, Some(0), "{}", left.stderr);
    assert!(!left.stderr.contains("CARGO_PROFILE"), "{}", left.stderr);
    // `strip = true` holds.
    assert_eq!(left.profile().share_of("spin::step").hits, 0);
    let own = record_cargo(&[], &words, &[("CARGO_PROFILE_THOROUGH_CHECK_STRIP", "symbols")]);
    assert!(
        own.stderr.contains("CARGO_PROFILE_THOROUGH_CHECK_STRIP=symbols stays"),
        "{}",
        own.stderr
    );
}

#[test]
fn the_build_is_recorded_only_where_asked() {
    let Some(()) = cargo() else { return };
    let folder = support::temp_dir();
    let target = folder.path().to_str().unwrap();
    let build = |part: &str, options: &[&str]| {
        let folder = format!("{target}/{part}");
        let words = [
            "run",
            "--target-dir",
            &folder,
            "-p",
            "work",
            "--example",
            "spin",
            "--",
            "3000000",
        ];
        let recorded = record_cargo(options, &words, &[]);
        assert_eq!(recorded.code, Some(0), "{}", recorded.stderr);
        assert!(recorded.stderr.contains("Compiling"), "{}", recorded.stderr);
        recorded
    };
    let profile = build("without", &[]).profile();
    assert_eq!(processes(&profile).into_keys().collect::<Vec<_>>(), ["spin (example)"]);
    let profile = build("with", &["--include-build"]).profile();
    let processes = processes(&profile);
    // By the crate: a build has many of them.
    assert!(processes.contains_key("rustc work"), "{processes:?}");
    assert!(processes.contains_key("rustc spin"), "{processes:?}");
    assert!(processes.contains_key("spin (example)"), "{processes:?}");
}

#[test]
fn what_does_not_compile_is_cargo_s_to_tell() {
    let Some(()) = cargo() else { return };
    let recorded = record_cargo(&[], &["run", "--example", "no-such-example"], &[]);
    assert_eq!(recorded.code, Some(101), "{}", recorded.stderr);
    assert!(recorded.stderr.contains("no-such-example"), "{}", recorded.stderr);
    assert!(recorded.stderr.contains("cargo ran no program"), "{}", recorded.stderr);
    assert!(!recorded.has_profile());
}

#[test]
fn each_test_of_nextest_is_a_process() {
    let Some(()) = nextest() else { return };
    let recorded = record_cargo(&[], &["nextest", "run", "-p", "work"], &[]);
    assert_eq!(recorded.code, Some(0), "{}", recorded.stderr);
    let profile = recorded.profile();
    assert_no_builder(&profile);
    let of_tests = profile
        .threads
        .iter()
        .filter(|thread| thread.is_main && thread.process_name == "work (unit tests)");
    assert_eq!(of_tests.count(), 2, "{:?}", processes(&profile));
    let found = inlined(&profile, "mixed", "rounds", "work/src/lib.rs", "MIXED_LINE");
    assert!(found > 20, "{found}\n{}", profile.summary());
}

#[test]
fn cargo_sprof_knows_targets_as_cargo_does() {
    let Some(()) = cargo() else { return };
    for (words, process, function) in [
        (
            &["run", "-p", "work", "--example", "spin", "--", "40000000"][..],
            "spin (example)",
            "spin",
        ),
        (
            &["--example", "spin", "--dev", "--", "2000000"],
            "spin (example)",
            "spin",
        ),
        (&["example", "spin", "--", "40000000"], "spin (example)", "spin"),
        (
            &["test", "-p", "work", "--test", "from_outside"],
            "from_outside (test)",
            "rounds",
        ),
        (
            &["--unit-test", "work", "--", "rounds_of_a_test"],
            "work (unit tests)",
            "rounds",
        ),
    ] {
        let recorded = cargo_sprof(words, &[]);
        assert_eq!(recorded.code, Some(0), "{words:?}\n{}", recorded.stderr);
        let profile = recorded.profile();
        assert_eq!(
            processes(&profile).into_keys().collect::<Vec<_>>(),
            [process],
            "{words:?}"
        );
        let named = profile.share(|_| true, |names| names.iter().any(|name| name.contains(function)));
        assert!(named.hits > 10, "{words:?}\n{}", profile.summary());
        assert_no_builder(&profile);
    }
    let recorded = cargo_sprof(&["example", "spin", "--", "1", "9"], &[]);
    assert_eq!(recorded.code, Some(9), "{}", recorded.stderr);
    assert!(
        recorded
            .stderr
            .contains("recording cargo run --example spin --release -- 1 9"),
        "{}",
        recorded.stderr
    );
    let folder = support::temp_dir();
    let drawn = folder.path().join("spin.svg");
    let svg = drawn.to_str().unwrap();
    let recorded = cargo_sprof(&["flamegraph", "--example", "spin", "-o", svg, "--", "40000000"], &[]);
    assert_eq!(recorded.code, Some(0), "{}", recorded.stderr);
    let text = std::fs::read_to_string(&drawn).unwrap();
    assert!(text.contains("<title>spin"), "{}", recorded.stderr);
    let recorded = run(&["flamegraph", "-o", svg, "--example", "spin", "--", "1", "9"], &[]);
    assert_eq!(recorded.code, Some(9), "{}", recorded.stderr);
    let recorded = cargo_sprof(&["--unit-test", "nothing"], &[]);
    assert_eq!(recorded.code, Some(125));
    assert!(
        recorded.stderr.contains("no library or program called nothing"),
        "{}",
        recorded.stderr
    );
}

#[test]
fn unit_tests_of_all_targets_need_no_library() {
    let Some(()) = cargo() else { return };
    let folder = support::temp_dir();
    let manifest = folder.path().join("Cargo.toml");
    let text = "[package]\nname = \"alone\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[workspace]\n";
    std::fs::write(&manifest, text).unwrap();
    std::fs::create_dir(folder.path().join("src")).unwrap();
    // Without optimisation that is some 100 ms of work, however much of the time the machine gives to it.
    let source = "fn main() {}\n#[test]\nfn works() { let mut n = 0u32; while std::hint::black_box(n) < 50_000_000 { n += 1 } }\n";
    std::fs::write(folder.path().join("src/main.rs"), source).unwrap();
    let target = folder.path().join("target");
    let own_target = [("CARGO_TARGET_DIR", target.to_str().unwrap())];
    let words = ["--unit-test", "--manifest-path", manifest.to_str().unwrap()];
    let recorded = cargo_sprof(&words, &own_target);
    assert_eq!(recorded.code, Some(0), "{}", recorded.stderr);
    assert_eq!(
        processes(&recorded.profile()).into_keys().collect::<Vec<_>>(),
        ["alone (unit tests of the program)"]
    );
}

#[test]
#[ignore = "long: builds criterion and divan; programs and tests that cargo runs have the same rules"]
fn cargo_sprof_bench_runs_the_benchmarks_that_are_named() {
    let Some(()) = crates() else { return };
    let folder = support::temp_dir();
    let own_results = [("CRITERION_HOME", folder.path().to_str().unwrap())];
    let words = ["bench", "-F", "2000", "--bench", "sort", "--", "only adding"];
    let recorded = cargo_sprof(&words, &own_results);
    assert_eq!(recorded.code, Some(0), "{}", recorded.stderr);
    assert_nothing_built(&recorded);
    let profile = recorded.profile();
    assert_eq!(processes(&profile).into_keys().collect::<Vec<_>>(), ["sort (bench)"]);
    assert_eq!(marked(&profile).into_keys().collect::<Vec<_>>(), ["only adding"]);
    assert_eq!(profile.json["meta"]["interval"].as_f64(), Some(0.5));
}
