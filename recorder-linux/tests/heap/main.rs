//! The library in programs whose heap is recorded, in real programs: it sees all that they allocate, and they do what
//! they do without it.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(clippy::unwrap_used, reason = "a test")]
#![allow(unsafe_code, reason = "a message with a descriptor")]

#[path = "../../src/heap/preload/draw.rs"]
mod draw;
mod linked;
mod recorder;
mod static_programs;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use object::elf::{R_X86_64_GLOB_DAT, R_X86_64_RELATIVE, R_X86_64_TPOFF64};
use object::read::elf::ElfFile64;
use object::{Object, ObjectSection, ObjectSymbol, RelocationFlags};
use recorder::{Recorded, Settings, folder, library, record, record_by, record_with_nonsense};
use recorder_linux::heap::PRELOAD;
use recorder_linux::heap::wire::{
    FUNCTION_MASK, FUNCTIONS, MAX_STACK_BYTES, MESSAGE_WORDS, MIN_RING_BYTES, REGISTERS, STEPS, VARIABLE,
};

/// True if a test that lacks this fails, and is not left out.
fn is_required(need: &str) -> bool {
    std::env::var("SPROF_REQUIRE").is_ok_and(|needs| needs.split(',').any(|required| required == need))
}

/// Compiles a program. `None`, said, where there is no such compiler.
fn build(compiler: &str, source: &str, flags: &[&str]) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/heap/programs")
        .join(source);
    let name = format!("{:?}-{compiler}", std::thread::current().id());
    let program = folder().join(format!("{}-{name}", source.file_stem().unwrap().to_str().unwrap()));
    let result = Command::new(compiler)
        .arg(&source)
        .args(flags)
        .arg("-o")
        .arg(&program)
        .output();
    let Ok(output) = result else {
        assert!(compiler == "musl-gcc" && !is_required("musl"), "no {compiler}");
        let _ = writeln!(std::io::stderr(), "skipped: {name}: no {compiler}");
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(program)
}

/// Copies a program, by another process: a child that another test starts while this process writes has the open file
/// until it executes its own program, and a file that is open to be written can't be executed (ETXTBSY in execve(2)).
fn copy_program(from: &Path, to: &Path) {
    let status = Command::new("cp").args([from, to]).status();
    assert!(status.unwrap().success(), "cp {}", from.display());
}

/// False, said, where this is not root.
fn is_root(test: &str) -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        assert!(!is_required("root"), "{test}: needs root");
        let _ = writeln!(std::io::stderr(), "skipped: {test}: needs root");
    }
    is_root
}

/// A C program whose calls of malloc stay.
fn c(compiler: &str, source: &str) -> Option<PathBuf> {
    build(compiler, source, &["-O1", "-g0", "-fno-builtin", "-pthread"])
}

fn run(program: &Path, args: &[&str], settings: Settings) -> Recorded {
    let recorded = record(Command::new(program).args(args), settings);
    let stderr = String::from_utf8_lossy(&recorded.output.stderr).into_owned();
    assert_eq!(stderr, "", "{program:?}");
    recorded
}

/// Number of allocations, their bytes, and number of frees.
fn seen(recorded: &Recorded) -> [u64; 3] {
    let bytes = recorded.allocations().map(|record| record.head.size).sum();
    [recorded.allocations().count() as u64, bytes, recorded.frees() as u64]
}

/// The same, as the program has counted it.
fn truth(recorded: &Recorded) -> [u64; 3] {
    let counts: Vec<u64> = recorded
        .stdout()
        .split_whitespace()
        .map(|count| count.parse().unwrap())
        .collect();
    counts.try_into().unwrap()
}

fn assert_within_5_sigma(what: &str, estimate: f64, variance: f64, truth: f64) {
    let sigma = (estimate - truth).abs() / variance.sqrt().max(1.0);
    assert!(
        sigma <= 5.0,
        "{what}: {estimate} of {truth}, {sigma} standard deviations"
    );
}

#[test]
fn each_call_of_each_function_is_seen_once() {
    for compiler in ["cc", "musl-gcc"] {
        let Some(program) = c(compiler, "truth.c") else {
            continue;
        };
        let recorded = run(&program, &["60000"], Settings::EACH);
        recorded.kept();
        assert_eq!(recorded.counts.lost_samples, 0, "{compiler}");
        assert_eq!(seen(&recorded), truth(&recorded), "{compiler}");
        assert_eq!(recorded.outcomes, [], "nothing is to be patched");
        let names: BTreeSet<&str> = recorded
            .allocations()
            .map(|record| FUNCTIONS[usize::from(record.head.flags & FUNCTION_MASK)])
            .collect();
        // Those that call another one count by it, once that is known.
        assert_eq!(names.len(), 8, "{compiler}: {names:?}");
    }
}

/// The auxiliary vector then has the loader's place, and not the program's.
#[test]
fn a_program_that_its_loader_starts_by_name_is_seen_as_well() {
    for (compiler, loader) in [
        ("cc", "/lib64/ld-linux-x86-64.so.2"),
        ("musl-gcc", "/lib/ld-musl-x86_64.so.1"),
    ] {
        let Some(program) = c(compiler, "truth.c") else {
            continue;
        };
        let recorded = run(Path::new(loader), &[program.to_str().unwrap(), "2000"], Settings::EACH);
        recorded.kept();
        assert_eq!(seen(&recorded), truth(&recorded), "{compiler}");
    }
}

#[test]
fn a_program_whose_file_its_user_may_not_read_is_seen_as_well() {
    if !is_root("a_program_whose_file_its_user_may_not_read_is_seen_as_well") {
        return;
    }
    let hidden = c("cc", "hidden.c").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let copy = |from: &Path, name: &str, mode: u32| {
        let to = folder.path().join(name);
        copy_program(from, &to);
        fs::set_permissions(&to, fs::Permissions::from_mode(mode)).unwrap();
        to
    };
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let library = copy(&library(), "library.so", 0o755);
    for compiler in ["cc", "musl-gcc"] {
        let Some(program) = c(compiler, "truth.c") else {
            continue;
        };
        let program = copy(&program, compiler, 0o711);
        let mut command = Command::new(&hidden);
        command.arg(program).arg("2000");
        let recorded = record_by(&library, &mut command, Settings::EACH);
        assert_eq!(String::from_utf8_lossy(&recorded.output.stderr), "", "{compiler}");
        recorded.kept();
        assert_eq!(seen(&recorded), truth(&recorded), "{compiler}");
    }
}

/// Here the fast path counts, and functions that call another one must not count twice.
#[test]
fn functions_that_call_another_one_count_once_in_estimates() {
    for compiler in ["cc", "musl-gcc"] {
        let Some(program) = c(compiler, "truth.c") else {
            continue;
        };
        let recorded = run(&program, &["200000"], Settings::with_interval(16 << 10));
        recorded.kept();
        let (estimate, variance) = recorded.estimate();
        assert_within_5_sigma(compiler, estimate, variance, truth(&recorded)[1] as f64);
    }
}

#[test]
fn a_rust_program_with_the_system_allocator_is_seen_call_by_call() {
    let program = build("rustc", "truth.rs", &["--edition=2024", "-O"]).unwrap();
    let counts = |rounds: &str| {
        let recorded = run(&program, &[rounds], Settings::EACH);
        assert_eq!(recorded.counts.lost_samples, 0);
        recorded.kept();
        (seen(&recorded), truth(&recorded))
    };
    // What std allocates beside its allocator is the same each time.
    let ((seen_0, truth_0), (seen, truth)) = (counts("0"), counts("20000"));
    for index in 0..3 {
        assert_eq!(seen[index] - seen_0[index], truth[index] - truth_0[index]);
    }
    assert!(truth[0] > 50_000, "{truth:?}");
}

#[test]
fn estimates_are_right_for_all_sizes() {
    let program = c("cc", "blocks.c").unwrap();
    for (size, interval) in [
        (16, 16 << 10),
        (1000, 16 << 10),
        (16 << 10, 16 << 10),
        (64 << 10, 512 << 10),
        (512 << 10, 512 << 10),
        (4 << 20, 512 << 10),
        (64 << 20, 512 << 10),
    ] {
        let total: u64 = 256 << 20;
        let args = [size.to_string(), (total / size).to_string(), "1".to_owned()];
        let recorded = run(
            &program,
            &args.each_ref().map(|arg| &**arg),
            Settings::with_interval(interval),
        );
        recorded.kept();
        assert_eq!(
            (recorded.stdout().trim(), recorded.output.status.code()),
            ("done", Some(5))
        );
        assert_eq!(recorded.counts.lost_samples, 0);
        let blocks = total / size;
        let chance = -(-(size as f64) / interval as f64).exp_m1();
        let weight = size as f64 / chance;
        let sigma = weight * (blocks as f64 * chance * (1.0 - chance)).sqrt();
        let (estimate, _) = recorded.estimate();
        let error = (estimate - (blocks * size) as f64).abs();
        // Where nearly all blocks are samples, the number of the others is no normal distribution.
        assert!(error <= 5.0 * sigma + 3.0 * weight, "{size}: {estimate}, sigma {sigma}");
    }
}

/// How many samples a thread takes of blocks of one size, as its countdown draws them.
fn sampled(size: u64, blocks: u64, interval: u64, seed: u64) -> u64 {
    let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let (mut samples, mut block) = (0, 0);
    loop {
        // The block with the byte that was drawn is the sample.
        block += draw::bytes_to_next(&mut random, interval).div_ceil(size);
        if block > blocks {
            return samples;
        }
        samples += 1;
    }
}

/// Of 20 threads each, the sum and the spread of what their samples stand for.
#[test]
fn samples_are_as_many_and_spread_as_theory_says() {
    const RUNS: u64 = 20;
    let interval = 512 << 10;
    for (size, blocks) in [
        (16, 64 << 20),
        (1000, 1 << 20),
        (64 << 10, 16 << 10),
        (512 << 10, 2 << 10),
        // 10 of them are no samples.
        (4 << 20, 30_000),
    ] {
        let chance = -(-(size as f64) / interval as f64).exp_m1();
        let (mean, variance) = (blocks as f64 * chance, blocks as f64 * chance * (1.0 - chance));
        let counts = (1..=RUNS).map(|seed| sampled(size, blocks, interval, seed) as f64);
        let counts: Vec<f64> = counts.collect();
        let runs = RUNS as f64;
        assert_within_5_sigma(
            &format!("{size}, sum"),
            counts.iter().sum(),
            runs * variance,
            runs * mean,
        );
        // The cube root of chi-square divided by its degrees of freedom is nearly normal (Wilson and Hilferty 1931).
        let chi_square: f64 = counts.iter().map(|count| (count - mean).powi(2) / variance).sum();
        let spread = 2.0 / (9.0 * runs);
        let (found, expected) = (((chi_square / runs).cbrt() - 1.0) / spread.sqrt(), -spread.sqrt());
        assert_within_5_sigma(&format!("{size}, chi-square {chi_square}"), found, 1.0, expected);
    }
}

#[test]
fn the_weight_of_a_lost_sample_is_right_to_a_hundredth_or_a_byte() {
    for interval in [1, 1000, 64 << 10, 512 << 10, 1 << 40] {
        for size in (0..44).flat_map(|bits| [1 << bits, (1 << bits) * 5 / 3]) {
            let exact = size as f64 / -(-(size as f64) / interval as f64).exp_m1();
            let weight = draw::weight(size, interval) as f64;
            assert!(
                (weight - exact).abs() < 1.0 + exact / 100.0,
                "{size} {interval}: {weight}, not {exact}"
            );
        }
    }
}

#[test]
fn a_fork_has_its_own_copies_of_what_is_live() {
    let program = c("cc", "forks.c").unwrap();
    let recorded = run(&program, &[], Settings::EACH);
    let mut kept = recorded.kept();
    let stdout = recorded.stdout();
    let keeps = stdout.lines().filter_map(|line| line.split_once(" keeps "));
    let truth: BTreeMap<u32, u64> = keeps
        .map(|(pid, bytes)| (pid.parse().unwrap(), bytes.parse().unwrap()))
        .collect();
    assert_eq!(truth.len(), 4);
    kept.retain(|_, bytes| *bytes > 0);
    assert_eq!(kept, truth.into_iter().filter(|(_, bytes)| *bytes > 0).collect());
    assert_eq!(recorded.hellos.len(), 1);
}

#[test]
fn frees_pair_when_many_threads_reallocate_and_pass_blocks_on() {
    let program = c("cc", "storm.c").unwrap();
    let recorded = run(&program, &[], Settings::with_interval(4096));
    // Of threads, which libc keeps.
    assert!(recorded.kept().values().sum::<u64>() < 1_000_000);
    assert_eq!(recorded.counts.lost_samples, 0);
    assert!(recorded.allocations().count() > 1000);
}

#[test]
fn a_sample_has_the_registers_and_the_stack_of_the_caller() {
    let program = c("cc", "blocks.c").unwrap();
    let settings = Settings {
        stack_bytes: 4096,
        ..Settings::with_interval(1 << 20)
    };
    let recorded = run(&program, &["1000000", "200", "1"], settings);
    let mut stacks = BTreeSet::new();
    for record in recorded.allocations().filter(|record| record.head.size == 1_000_000) {
        let [pc, sp] = [record.body[0], record.body[1]];
        assert_eq!(sp % 16, 0);
        // From main's frame to the arguments of the program.
        assert!((64..=4096).contains(&record.head.stack_bytes), "{:?}", record.head);
        let stack = &record.body[REGISTERS..][..record.head.stack_bytes as usize / 8];
        stacks.insert((pc, sp, stack.len()));
    }
    // One call, in one frame.
    assert_eq!(stacks.len(), 1);
}

#[test]
fn what_does_not_fit_into_the_rings_is_counted_with_its_weight() {
    let program = c("cc", "blocks.c").unwrap();
    let settings = Settings {
        ring_bytes: MIN_RING_BYTES,
        is_read: false,
        ..Settings::with_interval(64 << 10)
    };
    let recorded = run(&program, &["1000", "1000000", "1"], settings);
    assert_eq!(recorded.output.status.code(), Some(5));
    assert_eq!(recorded.counts.samples, recorded.allocations().count() as u64);
    assert!(recorded.counts.lost_samples > 5000, "{:?}", recorded.counts);
    let (estimate, variance) = recorded.estimate();
    let lost = recorded.counts.lost_bytes as f64;
    let lost_variance = recorded.counts.lost_samples as f64 * (65536.0 * 65536.0);
    assert_within_5_sigma("with what is lost", estimate + lost, variance + lost_variance, 1e9);
    // Nothing was read, so frees were kept out as well in the end.
    assert!(recorded.counts.lost_frees <= recorded.counts.samples);
}

#[test]
fn what_does_not_fit_into_the_table_of_live_samples_is_flagged() {
    let program = c("cc", "blocks.c").unwrap();
    let recorded = run(&program, &["100", "160000", "150000"], Settings::EACH);
    recorded.kept();
    assert_eq!(recorded.counts.lost_samples, 0);
    assert!(recorded.counts.untracked > 10_000, "{:?}", recorded.counts);
    assert!(seen(&recorded)[1] >= 16_000_000);
}

#[test]
fn signal_handlers_may_allocate_in_the_slow_path_and_jump_out_of_it() {
    let bump = build("cc", "bump.c", &["-O1", "-fno-builtin", "-shared", "-fPIC"]).unwrap();
    let bump = bump.to_str().unwrap();
    let program = build("cc", "signals.c", &["-O1", "-fno-builtin", bump]).unwrap();
    for mode in ["allocate", "jump"] {
        let recorded = run(&program, &[mode], Settings::with_interval(64 << 10));
        assert_eq!(recorded.stdout(), "done\n", "{mode}");
        recorded.kept();
        assert!(mode == "jump" || recorded.gaps == 0);
        // The thread is sampled as before.
        let phase = recorded
            .records
            .iter()
            .position(|record| record.head.size == 77_777_777)
            .unwrap();
        let after = recorded.records[phase + 1..]
            .iter()
            .filter(|record| record.head.size == 1000);
        let blocks = ((256 << 20) / 1000) as f64;
        let chance = -(-1000.0 / 65536.0_f64).exp_m1();
        let variance = blocks * chance * (1.0 - chance);
        assert_within_5_sigma(mode, after.count() as f64, variance, blocks * chance);
    }
}

/// A child of vfork(2) has its parent's memory, and another number.
#[test]
fn a_child_of_vfork_does_not_connect_for_its_parent() {
    let Some(program) = c("cc", "vforks.c") else { return };
    let recorded = run(&program, &[], Settings::EACH);
    let pid: u32 = recorded.stdout().trim().parse().unwrap();
    assert_eq!(recorded.hellos.iter().map(|hello| hello.pid).collect::<Vec<_>>(), [pid]);
    // Of two children. The third one takes its block when the parent has connected.
    assert_eq!(recorded.counts.lost_samples, 2);
    // The first thread has the number of its process.
    let blocks = recorded
        .allocations()
        .map(|record| [record.head.pid, record.head.tid, record.head.size as u32]);
    assert_eq!(blocks.collect::<Vec<_>>(), [[pid, pid, 6000], [pid, pid, 5000]]);
    assert_eq!(recorded.kept().get(&pid), Some(&6000));
}

#[test]
fn programs_do_the_same_with_the_library() {
    let args = ["argument"];
    for compiler in ["cc", "musl-gcc"] {
        let Some(program) = c(compiler, "robust.c") else {
            continue;
        };
        let plain = Command::new(&program).args(args).output().unwrap();
        assert_eq!(plain.status.code(), Some(7));
        assert!(!String::from_utf8_lossy(&plain.stdout).contains("WRONG"));
        for interval in [1, 4096, 512 << 10] {
            let settings = Settings {
                stack_bytes: 8192,
                ring_bytes: 4 << 20,
                ..Settings::with_interval(interval)
            };
            let recorded = run(&program, &args, settings);
            assert_eq!(recorded.output, plain, "{compiler}, interval {interval}");
            // The program, and what it executes, if that has samples.
            assert!(!recorded.hellos.is_empty());
        }
    }
}

/// The user's own library is behind sprof's.
#[test]
fn allocators_that_a_user_loads_are_seen_call_by_call() {
    let truth_program = c("cc", "truth.c").unwrap();
    let robust = c("cc", "robust.c").unwrap();
    for allocator in ["libjemalloc.so.2", "libmimalloc.so.2", "libtcmalloc_minimal.so.4"] {
        // The loader finds it by its name, or says on stderr that it does not.
        let loaded = Command::new("true").env("LD_PRELOAD", allocator).output().unwrap();
        if !loaded.stderr.is_empty() {
            assert!(!is_required("allocators"), "no {allocator}");
            let _ = writeln!(std::io::stderr(), "skipped: {allocator} is not installed");
            continue;
        }
        let preload = format!("{}:{allocator}", library().display());
        let record = |program: &Path, argument: &str, settings| {
            record_by(Path::new(&preload), Command::new(program).arg(argument), settings)
        };
        // What libraries take as they start is the same each time.
        let [none, many] = ["0", "20000"].map(|rounds| record(&truth_program, rounds, Settings::EACH));
        many.kept();
        for at in 0..3 {
            assert_eq!(seen(&many)[at] - seen(&none)[at], truth(&many)[at], "{allocator}");
        }
        let plain = Command::new(&robust)
            .arg("argument")
            .env("LD_PRELOAD", allocator)
            .output();
        let settings = Settings {
            stack_bytes: 8192,
            ring_bytes: 4 << 20,
            ..Settings::with_interval(4096)
        };
        assert_eq!(
            record(&robust, "argument", settings).output,
            plain.unwrap(),
            "{allocator}"
        );
    }
}

/// Samples with a record, and without.
#[test]
fn the_floating_point_environment_stays() {
    let program = c("cc", "floats.c").unwrap();
    let settings = Settings {
        ring_bytes: MIN_RING_BYTES,
        is_read: false,
        ..Settings::with_interval(64 << 10)
    };
    let recorded = run(&program, &[], settings);
    assert_eq!(recorded.output.status.code(), Some(5), "{:?}", recorded.output.status);
    assert!(recorded.counts.samples > 0 && recorded.counts.lost_samples > 0);
}

#[test]
fn programs_run_where_the_recorder_or_the_system_refuses() {
    let program = c("cc", "blocks.c").unwrap();
    let args = ["1000", "20000", "100"];
    let is_right = |output: &std::process::Output| {
        output.status.code() == Some(5) && output.stdout == b"done\n" && output.stderr.is_empty()
    };
    // Settings of all kinds, and nobody who listens.
    for value in [
        "",
        "x",
        "1",
        "1:2:3:",
        "1:2:65536:",
        "1:2:65536:1:@",
        "1:2:65536:1:@nobody",
        "1:2:65536:@nobody",
        "1:2:65536:1:/none",
        "1:2:65536:2:/none",
        "1:2:65535:1:/none",
    ] {
        let mut command = Command::new(&program);
        command.args(args).env("LD_PRELOAD", library()).env(VARIABLE, value);
        assert!(is_right(&command.output().unwrap()), "{value}");
    }
    let long = format!("1:2:65536:1:{}", "x".repeat(500));
    let output = Command::new(&program)
        .args(args)
        .env("LD_PRELOAD", library())
        .env(VARIABLE, long)
        .output();
    assert!(is_right(&output.unwrap()));
    // No setting at all.
    assert!(is_right(
        &Command::new(&program)
            .args(args)
            .env("LD_PRELOAD", library())
            .output()
            .unwrap()
    ));
    // A file may not be that large, for which Linux would send SIGXFSZ; and there is one descriptor, for the socket.
    for (limit, value, step, error) in [
        (libc::RLIMIT_FSIZE, 1, "ftruncate", libc::EFBIG),
        (libc::RLIMIT_NOFILE, 4, "memfd_create", libc::EMFILE),
    ] {
        let mut command = Command::new(&program);
        let limits = libc::rlimit {
            rlim_cur: value,
            rlim_max: value,
        };
        let set_limit = move || {
            // SAFETY: the limits are there.
            match unsafe { libc::setrlimit(limit, &limits) } {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        };
        // SAFETY: setrlimit(2) may be called between fork and exec.
        unsafe { command.args(args).pre_exec(set_limit) };
        let recorded = record(&mut command, Settings::with_interval(1000));
        assert!(is_right(&recorded.output), "{step}");
        let [hello] = &recorded.hellos[..] else {
            panic!("{step}: {:?}", recorded.hellos)
        };
        assert_eq!((STEPS[hello.refused_step as usize], hello.error as i32), (step, error));
    }
}

/// The ring is larger than what such a program may still take.
#[test]
fn a_program_at_the_limit_of_its_control_group_is_not_ended() {
    const TEST: &str = "a_program_at_the_limit_of_its_control_group_is_not_ended";
    if !is_root(TEST) {
        return;
    }
    let name = format!("sprof-heap-test-{}", std::process::id());
    // Version 2 of control groups, and version 1.
    let kinds = [
        ("/sys/fs/cgroup", "memory.max"),
        ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
    ];
    let made = kinds.into_iter().find_map(|(root, limit)| {
        let group = Path::new(root).join(&name);
        fs::create_dir(&group).ok()?;
        let is_limited = group.join(limit).exists() && fs::write(group.join(limit), "3145728").is_ok();
        if !is_limited {
            fs::remove_dir(&group).unwrap();
        }
        is_limited.then_some(group)
    });
    let Some(group) = made else {
        let _ = writeln!(
            std::io::stderr(),
            "skipped: {TEST}: no memory control group can be made"
        );
        return;
    };
    let program = c("cc", "blocks.c").unwrap();
    let mut command = Command::new("sh");
    let script = format!(
        "echo $$ > '{}'; exec '{}' 1000 20000 100",
        group.join("cgroup.procs").display(),
        program.display()
    );
    command.args(["-c", &script]);
    let settings = Settings {
        ring_bytes: 4 << 20,
        ..Settings::with_interval(64 << 10)
    };
    let recorded = record(&mut command, settings);
    fs::remove_dir(&group).unwrap();
    assert_eq!(
        (recorded.stdout().trim(), recorded.output.status.code()),
        ("done", Some(5))
    );
    assert!(recorded.allocations().count() > 100 && recorded.counts.lost_samples == 0);
}

/// After a recording, anybody can make a socket of the same name.
#[test]
fn a_listener_who_is_another_user_gets_nothing() {
    if !is_root("a_listener_who_is_another_user_gets_nothing") {
        return;
    }
    for (user, strip, bytes) in [(0, "-s", 8 * MESSAGE_WORDS), (65534, "-s", 0), (65534, "-O1", 0)] {
        // With a table of symbols, the program also asks for patches.
        let program = build("cc", "blocks.c", &["-fno-builtin", strip]).unwrap();
        let name = format!("sprof-heap-test-{}-of-{user}{strip}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let listen = move || {
            // SAFETY: takes numbers. The kernel changes the user of this thread alone, which ends.
            assert_eq!(unsafe { libc::syscall(libc::SYS_setresuid, -1, user, -1) }, 0);
            UnixListener::bind_addr(&address).unwrap()
        };
        let listener = std::thread::spawn(listen).join().unwrap();
        let output = Command::new(&program)
            .args(["1000", "20000", "100"])
            .env("LD_PRELOAD", library())
            .env(VARIABLE, format!("1000:0:65536:1:@{name}"))
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(5));
        let mut sent = Vec::new();
        listener.accept().unwrap().0.read_to_end(&mut sent).unwrap();
        assert_eq!(sent.len(), bytes, "{user}");
    }
}

/// The recorder may write anything into the shared memory.
#[test]
fn programs_run_with_nonsense_in_the_shared_memory() {
    let program = c("cc", "blocks.c").unwrap();
    let settings = Settings {
        stack_bytes: MAX_STACK_BYTES,
        ring_bytes: MIN_RING_BYTES,
        ..Settings::with_interval(1000)
    };
    let mut command = Command::new(&program);
    command.args(["1000", "300000", "100"]);
    let recorded = record_with_nonsense(&mut command, settings);
    assert_eq!(
        (recorded.stdout().trim(), recorded.output.status.code()),
        ("done", Some(5))
    );
}

#[test]
fn the_library_needs_nothing() {
    let file = ElfFile64::<object::Endianness>::parse(PRELOAD).unwrap();
    let symbols = || file.dynamic_symbols();
    let undefined = symbols().filter(|symbol| symbol.is_undefined());
    let undefined: BTreeSet<_> = undefined
        .map(|symbol| (symbol.name().unwrap(), symbol.is_weak()))
        .collect();
    // Each loader has one of them.
    assert_eq!(
        undefined,
        BTreeSet::from([("_r_debug", true), ("_dl_debug_addr", true)])
    );
    let defined = symbols().filter(|symbol| !symbol.is_undefined());
    let names: BTreeSet<&str> = defined.map(|symbol| symbol.name().unwrap()).collect();
    // The start in static programs.
    let start = ["sprof_heap_start"];
    assert_eq!(names, FUNCTIONS.into_iter().chain(start).collect());
    let dynamic = file.section_by_name(".dynamic").unwrap().data().unwrap();
    let tags: Vec<u64> = dynamic
        .chunks_exact(16)
        .map(|entry| u64::from_le_bytes(entry[..8].try_into().unwrap()))
        .collect();
    // elf.h
    let (needed, init) = (1, 12);
    assert!([needed, init].iter().all(|tag| !tags.contains(tag)), "{tags:?}");
    let kinds: BTreeSet<_> = file
        .dynamic_relocations()
        .unwrap()
        .map(|(_, relocation)| match relocation.flags() {
            RelocationFlags::Elf { r_type } => r_type,
            flags => panic!("{flags:?}"),
        })
        .collect();
    assert_eq!(
        kinds,
        BTreeSet::from([R_X86_64_GLOB_DAT, R_X86_64_RELATIVE, R_X86_64_TPOFF64])
    );
}
