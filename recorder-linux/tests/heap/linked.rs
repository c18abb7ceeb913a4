//! Allocators that are linked into the program.

use recorder_linux::heap::patch_answers::PatchAnswers;
use recorder_linux::heap::wire::{Answer, Outcome, PATCH_STEPS, Question};
use recording::heap::HeapPatches;

use super::*;

pub(crate) const PATCHED: Outcome = Outcome {
    refused_step: 0,
    error: 0,
};

/// All allocations, in a smaller memory, which takes less time.
pub(crate) const ALL: Settings = Settings {
    ring_bytes: 64 << 20,
    ..Settings::EACH
};

/// How programs are linked with each allocator that this system has as an archive.
fn linked() -> Vec<(&'static str, Vec<String>)> {
    let archives = [
        ("jemalloc", "libjemalloc.a", &["-lm"][..]),
        ("tcmalloc", "libtcmalloc_minimal.a", &["-lstdc++", "-lm"]),
    ];
    let archives = archives.map(|(name, archive, libraries)| {
        let found = Command::new("cc")
            .arg(format!("-print-file-name={archive}"))
            .output()
            .unwrap();
        let found = String::from_utf8(found.stdout).unwrap().trim_end().to_owned();
        if !Path::new(&found).is_absolute() {
            assert!(!is_required("allocators"), "no {archive}");
            let _ = writeln!(std::io::stderr(), "skipped: {name}: no {archive}");
            return None;
        }
        let libraries = libraries.iter().map(|&library| library.to_owned());
        Some((name, [found].into_iter().chain(libraries).collect()))
    });
    archives.into_iter().flatten().collect()
}

/// A C program that is linked with an allocator.
fn c_with(source: &str, flags: &[String]) -> PathBuf {
    let flags = flags.iter().map(String::as_str);
    let all: Vec<&str> = ["-O1", "-g0", "-fno-builtin", "-pthread"]
        .into_iter()
        .chain(flags)
        .collect();
    build("cc", source, &all).unwrap()
}

/// What a run of `truth.c` or `truth.rs` has of N rounds, and what the program has counted.
pub(crate) fn seen_and_truth(program: &Path, rounds: &str, settings: Settings) -> ([u64; 3], [u64; 3]) {
    let counts = |rounds: &str| {
        let recorded = run(program, &[rounds], settings);
        assert_eq!(recorded.outcomes, [PATCHED]);
        assert_eq!(recorded.counts.lost_samples, 0);
        recorded.kept();
        (seen(&recorded), truth(&recorded))
    };
    // What libraries and std allocate is the same each time.
    let ((seen_0, truth_0), (seen, truth)) = (counts("0"), counts(rounds));
    let difference = |more: [u64; 3], less: [u64; 3]| std::array::from_fn(|index| more[index] - less[index]);
    (difference(seen, seen_0), difference(truth, truth_0))
}

#[test]
fn each_call_of_a_linked_allocator_is_seen_once() {
    for (allocator, flags) in linked() {
        let program = c_with("truth.c", &flags);
        let (seen, truth) = seen_and_truth(&program, "30000", ALL);
        assert_eq!(seen, truth, "{allocator}");
        assert!(truth[0] > 20_000, "{truth:?}");
    }
}

/// Here the fast path counts.
#[test]
fn a_linked_allocator_counts_once_in_estimates() {
    for (allocator, flags) in linked() {
        let program = c_with("truth.c", &flags);
        let recorded = run(&program, &["200000"], Settings::with_interval(16 << 10));
        recorded.kept();
        let (estimate, variance) = recorded.estimate();
        assert_within_5_sigma(allocator, estimate, variance, truth(&recorded)[1] as f64);
    }
}

/// The functions of C then are libc's.
#[test]
fn an_allocator_with_names_of_its_own_is_seen_beside_that_of_libc() {
    let Some((_, flags)) = linked().into_iter().find(|(name, _)| *name == "jemalloc") else {
        return;
    };
    let names = [
        "malloc",
        "calloc",
        "realloc",
        "free",
        "aligned_alloc",
        "memalign",
        "posix_memalign",
        "valloc",
    ];
    let archive = folder().join("libprefixed.a");
    let renames = names.map(|name| format!("--redefine-sym={name}=_rjem_{name}"));
    let renamed = Command::new("objcopy")
        .args(renames)
        .arg("--redefine-sym=je_arena_boot=_rjem_je_arena_boot")
        .arg(&flags[0])
        .arg(&archive)
        .status();
    assert!(renamed.unwrap().success());
    let mut prefixed = names.map(|name| format!("-D{name}=_rjem_{name}")).to_vec();
    prefixed.push("-DNO_REALLOCARRAY".to_owned());
    prefixed.extend([archive.to_str().unwrap().to_owned(), "-lm".to_owned()]);
    let program = c_with("truth.c", &prefixed);
    let (seen, truth) = seen_and_truth(&program, "30000", ALL);
    assert_eq!(seen, truth);
    assert!(truth[0] > 20_000, "{truth:?}");
}

#[test]
fn programs_do_the_same_with_patched_allocators() {
    for (allocator, flags) in linked() {
        let program = c_with("robust.c", &flags);
        let plain = Command::new(&program).arg("argument").output().unwrap();
        for interval in [1, 64 << 10] {
            let settings = Settings {
                stack_bytes: 8192,
                ring_bytes: 4 << 20,
                ..Settings::with_interval(interval)
            };
            let recorded = run(&program, &["argument"], settings);
            assert_eq!(recorded.output, plain, "{allocator}, interval {interval}");
            let is_patched = |outcome: &Outcome| *outcome == PATCHED;
            assert!(!recorded.outcomes.is_empty() && recorded.outcomes.iter().all(is_patched));
        }
    }
}

/// gcc keeps values in registers over a call of a function that does not change them (`-fipa-ra`).
#[test]
fn patched_functions_change_no_registers() {
    let program = c_with("registers.c", &[]);
    let plain = Command::new(&program).arg("5000").output().unwrap();
    for interval in [0, 64 << 10] {
        let recorded = run(&program, &["5000"], Settings::with_interval(interval));
        assert_eq!(recorded.output, plain, "interval {interval}");
        assert_eq!(recorded.outcomes, [PATCHED]);
        assert!(recorded.allocations().count() > 50 && recorded.frees() > 50);
    }
}

#[test]
fn what_a_patched_function_throws_is_caught_with_the_callers_registers() {
    let Some((_, flags)) = linked().into_iter().find(|(name, _)| *name == "tcmalloc") else {
        return;
    };
    let flags: Vec<&str> = ["-O2"].into_iter().chain(flags.iter().map(String::as_str)).collect();
    let program = build("c++", "throws.cc", &flags).unwrap();
    let recorded = run(&program, &["50"], ALL);
    let sum: u64 = (0..50).map(|i| 40 * i + 3 + 10 + 21 + 44 + 65).sum();
    assert_eq!(
        (recorded.stdout().trim(), &recorded.outcomes[..]),
        (&*sum.to_string(), &[PATCHED][..])
    );
}

#[test]
fn forks_and_threads_of_a_patched_program_pair() {
    for (allocator, flags) in linked() {
        let recorded = run(&c_with("forks.c", &flags), &[], ALL);
        let stdout = recorded.stdout();
        let keeps = stdout.lines().filter_map(|line| line.split_once(" keeps "));
        let kept = recorded.kept();
        let mut processes = 0;
        for (pid, bytes) in keeps {
            let bytes: u64 = bytes.parse().unwrap();
            let extra = kept[&pid.parse().unwrap()] - bytes;
            // Of libraries.
            assert!(extra < SIZE_OF_FORKS, "{allocator}: {extra}");
            processes += 1;
        }
        assert_eq!(processes, 4, "{allocator}");
        let recorded = run(&c_with("storm.c", &flags), &[], Settings::with_interval(4096));
        assert!(recorded.kept().values().sum::<u64>() < 1_000_000, "{allocator}");
        assert!(recorded.allocations().count() > 1000, "{allocator}");
    }
}

/// A block in `forks.c`.
const SIZE_OF_FORKS: u64 = 100_000;

/// A library whose constructor allocates from the program's allocator, and a program that is linked with both.
fn with_constructor(flags: &[String], library_flags: &[&str]) -> PathBuf {
    let all: Vec<&str> = ["-O1", "-fno-builtin", "-shared", "-fPIC", "-DLIBRARY"]
        .into_iter()
        .chain(library_flags.iter().copied())
        .collect();
    let library = build("cc", "starts.c", &all).unwrap();
    let named = library.with_extension("so");
    fs::rename(&library, &named).unwrap();
    let flags: Vec<String> = [named.to_str().unwrap().to_owned()]
        .into_iter()
        .chain(flags.iter().cloned())
        .collect();
    c_with("starts.c", &flags)
}

/// glibc calls this library's constructor first, also where no function of this library is ever called.
#[test]
fn what_constructors_of_libraries_take_from_a_linked_allocator_is_seen() {
    for (allocator, flags) in linked() {
        let program = with_constructor(&flags, &[]);
        let recorded = run(&program, &[], ALL);
        assert_eq!(recorded.output.status.code(), Some(5));
        assert_eq!(recorded.outcomes, [PATCHED]);
        for size in [1 << 20, 64 << 20] {
            let blocks = recorded.allocations().filter(|record| record.head.size == size);
            assert_eq!(blocks.count(), 1, "{allocator}: {size}");
        }
    }
}

/// A library that wants to be first as well, and comes later in the list, is first.
#[test]
fn a_program_with_threads_is_not_patched() {
    let Some((_, flags)) = linked().into_iter().next() else {
        return;
    };
    let program = with_constructor(&flags, &["-DTHREAD", "-Wl,-z,initfirst"]);
    let recorded = run(&program, &[], ALL);
    assert_eq!(recorded.output.status.code(), Some(5));
    assert_eq!(recorded.outcomes.len(), 1);
    assert_eq!(
        PATCH_STEPS[recorded.outcomes[0].refused_step as usize],
        "it had several threads"
    );
    assert_eq!(recorded.allocations().count(), 0);
}

/// Makes these system calls fail, if their third argument is `third` or that does not matter.
fn refuse(command: &mut Command, refused: &'static [(libc::c_long, Option<u32>)]) {
    let filter = move || {
        let statement = |code: u32, k: u32, jt: u8, jf: u8| libc::sock_filter {
            code: code as u16,
            jt,
            jf,
            k,
        };
        let (load, equal, give) = (
            libc::BPF_LD | libc::BPF_W | libc::BPF_ABS,
            libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
            libc::BPF_RET | libc::BPF_K,
        );
        let mut code = [statement(give, libc::SECCOMP_RET_ALLOW, 0, 0); 16];
        let mut at = 0;
        for (call, third) in refused {
            // Number of the call, and the lower half of its third argument (seccomp(2)).
            code[at] = statement(load, 0, 0, 0);
            code[at + 1] = statement(equal, *call as u32, 0, 3);
            code[at + 2] = statement(load, 32, 0, 0);
            code[at + 3] = statement(equal, third.unwrap_or(0), u8::from(third.is_none()), 1);
            if third.is_none() {
                code[at + 3] = statement(libc::BPF_JMP | libc::BPF_JA, 0, 0, 0);
            }
            code[at + 4] = statement(give, libc::SECCOMP_RET_ERRNO | libc::EACCES as u32, 0, 0);
            at += 5;
        }
        let program = libc::sock_fprog {
            len: code.len() as u16,
            filter: code.as_mut_ptr(),
        };
        // SAFETY: takes numbers.
        let privileges = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
        // SAFETY: the program is there.
        match unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) } {
            0 if privileges == 0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    };
    // SAFETY: prctl(2) may be called between fork and exec, and nothing is allocated.
    unsafe { command.pre_exec(filter) };
}

#[test]
fn code_is_changed_without_its_file_or_not_at_all() {
    let Some((_, flags)) = linked().into_iter().next() else {
        return;
    };
    let program = c_with("blocks.c", &flags);
    const CHANGED: u32 = 7;
    for (refused, step, error) in [
        (&[(libc::SYS_pwrite64, None)][..], 0, 0),
        (
            &[(libc::SYS_pwrite64, None), (libc::SYS_mprotect, Some(CHANGED))],
            5,
            libc::EACCES as u32,
        ),
    ] {
        let mut command = Command::new(&program);
        command.args(["1000", "2000", "100"]);
        refuse(&mut command, refused);
        let recorded = record(&mut command, ALL);
        assert_eq!(
            (recorded.stdout().trim(), recorded.output.status.code()),
            ("done", Some(5))
        );
        assert_eq!(
            recorded.outcomes,
            [Outcome {
                refused_step: step,
                error
            }]
        );
        let blocks = recorded.allocations().filter(|record| record.head.size == 1000);
        assert_eq!(blocks.count(), if step == 0 { 2000 } else { 0 });
    }
}

/// The header of a program's segment with code.
fn code_segment(elf: &mut [u8]) -> &mut [u8] {
    // elf.h: 56 bytes for each segment, at the place in the header's fifth word. `PT_LOAD` with `PF_R | PF_X`.
    let segments = usize::try_from(u64::from_le_bytes(elf[32..40].try_into().unwrap())).unwrap();
    { elf[segments..].chunks_exact_mut(56) }
        .find(|segment| segment[..8] == [1, 0, 0, 0, 5, 0, 0, 0])
        .unwrap()
}

/// A program may change its code, if its file says so.
#[test]
fn code_that_a_program_may_write_stays_so() {
    let program = c_with("registers.c", &[]);
    let mut bytes = fs::read(&program).unwrap();
    code_segment(&mut bytes)[4] = 7;
    let changed = program.with_extension("changed");
    fs::write(&changed, bytes).unwrap();
    copy_program(&changed, &program);
    let mut command = Command::new(&program);
    command.args(["100", "writes"]);
    refuse(&mut command, &[(libc::SYS_pwrite64, None)]);
    let recorded = record(&mut command, ALL);
    assert_eq!(
        (recorded.stdout().trim(), recorded.output.status.code()),
        ("200", Some(0))
    );
    assert_eq!(recorded.outcomes, [PATCHED]);
}

#[test]
fn an_allocator_whose_patches_have_no_place_is_told_of() {
    let program = c_with("registers.c", &[]);
    let mut child = Command::new(program).arg("1000000000").spawn().unwrap();
    let question = Question {
        bias: 0,
        code: 1 << 46,
        countdown: -64,
        slow: 0,
        filter: 0,
    };
    let (answer, found) = PatchAnswers::new(HeapPatches::All).answer(child.id() as i32, &question);
    child.kill().unwrap();
    child.wait().unwrap();
    let nothing = Answer {
        code_bytes: 0,
        writes: 0,
    };
    let words = nothing.to_words();
    assert_eq!(answer, words.map(u64::to_ne_bytes).concat());
    let (_, refused) = found.unwrap();
    assert_eq!(
        PATCH_STEPS[refused.unwrap().refused_step as usize],
        "no memory near its code"
    );
}

/// Whoever answers, and whatever: the program runs.
#[test]
fn programs_run_with_answers_of_all_kinds() {
    let Some((_, flags)) = linked().into_iter().next() else {
        return;
    };
    let program = c_with("blocks.c", &flags);
    let mut file = fs::read(&program).unwrap();
    let code_start = u64::from_le_bytes(code_segment(&mut file)[16..24].try_into().unwrap());
    let write = |address: u64, bytes: u64| [address, bytes, 0xcccc_cccc_cccc_cccc, 0];
    let start = |code_bytes, writes| Answer { code_bytes, writes }.to_words();
    // Stands for the start of the code.
    const CODE: u64 = 0xc0de;
    let answers: [(&str, Vec<u64>, Option<&str>); 7] = [
        ("nothing", start(0, 0).to_vec(), None),
        ("nonsense", vec![u64::MAX; 2], Some("sprof's answer made no sense")),
        (
            "too much",
            start(1 << 20, 1).to_vec(),
            Some("sprof's answer made no sense"),
        ),
        ("too short", start(8, 1).to_vec(), Some("sprof did not answer in time")),
        (
            "elsewhere",
            [&start(0x100, 1)[..], &[0; 32], &write(0x10_0000, 5)].concat(),
            Some("sprof's answer made no sense"),
        ),
        (
            "long",
            [&start(0x100, 1)[..], &[0; 32], &write(u64::MAX, u64::MAX)].concat(),
            Some("sprof's answer made no sense"),
        ),
        (
            "other code",
            [&start(0x100, 1)[..], &[0; 32], &write(CODE, 5)].concat(),
            Some("its code in memory is not that of its file"),
        ),
    ];
    for (what, mut words, step) in answers {
        let name = format!("sprof-heap-test-{}-{what}", std::process::id());
        let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        let child = Command::new(&program)
            .args(["1000", "20000", "100"])
            .env("LD_PRELOAD", library())
            .env(VARIABLE, format!("1000:0:65536:1:@{name}"))
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        let mut message = [0; 8 * MESSAGE_WORDS];
        stream.read_exact(&mut message).unwrap();
        let bias = u64::from_ne_bytes(message[8..16].try_into().unwrap());
        if let Some(word) = words.iter_mut().find(|word| **word == CODE) {
            *word = bias + code_start;
        }
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        stream.write_all(&bytes).unwrap();
        if what == "too short" {
            stream.shutdown(std::net::Shutdown::Write).unwrap();
        }
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).unwrap();
        let words = rest.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word));
        let outcome = words
            .collect::<Vec<_>>()
            .first_chunk()
            .copied()
            .and_then(Outcome::from_words);
        assert_eq!(
            outcome.map(|outcome| PATCH_STEPS[outcome.refused_step as usize]),
            step,
            "{what}"
        );
        drop(listener);
        let output = child.wait_with_output().unwrap();
        assert_eq!(
            (output.status.code(), &output.stdout[..]),
            (Some(5), &b"done\n"[..]),
            "{what}"
        );
    }
}

/// /proc/self/exe is the loader then.
#[test]
fn a_program_that_its_loader_starts_is_left_alone() {
    let Some((_, flags)) = linked().into_iter().next() else {
        return;
    };
    let program = c_with("truth.c", &flags);
    let recorded = run(
        Path::new("/lib64/ld-linux-x86-64.so.2"),
        &[program.to_str().unwrap(), "2000"],
        ALL,
    );
    assert_eq!((recorded.outcomes.len(), recorded.allocations().count()), (0, 0));
}

/// Rust programs as people build them: the linker has dropped what they do not call, and with LTO the allocator's C and
/// C++ are all that has names.
#[test]
#[ignore = "compiles three allocators, which takes minutes"]
fn rust_programs_with_allocators_are_seen_call_by_call() {
    let project = Path::new(env!("CARGO_TARGET_TMPDIR")).join("heap-crates");
    let manifest = "[package]\nname = 'allocators'\nversion = '0.1.0'\nedition = '2024'\n\
                    [dependencies]\nmimalloc = '0.1'\ntikv-jemallocator = '0.7'\n\
                    snmalloc-rs = { version = '0.7', default-features = false, features = ['build_cc'] }\n\
                    [profile.fat]\ninherits = 'release'\nlto = 'fat'\ncodegen-units = 1\n[workspace]\n";
    let system = "use std::alloc::{GlobalAlloc, Layout, System};";
    let source = include_str!("programs/truth.rs");
    assert!(source.contains(system));
    let allocators = [
        ("mimalloc", "mimalloc::MiMalloc"),
        ("jemalloc", "tikv_jemallocator::Jemalloc"),
        ("snmalloc", "snmalloc_rs::SnMalloc"),
    ];
    fs::create_dir_all(project.join("src/bin")).unwrap();
    fs::write(project.join("Cargo.toml"), manifest).unwrap();
    for (name, allocator) in allocators {
        let import = format!("use std::alloc::{{GlobalAlloc, Layout}};\nuse {allocator} as System;");
        let program = project.join("src/bin").join(name).with_extension("rs");
        fs::write(program, source.replace(system, &import)).unwrap();
    }
    for profile in ["release", "fat"] {
        let built = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--profile", profile])
            .current_dir(&project)
            .env("CARGO_TARGET_DIR", project.join("target"))
            .status();
        assert!(built.unwrap().success(), "{profile}");
        for (name, _) in allocators {
            let program = project.join("target").join(profile).join(name);
            let (seen, truth) = seen_and_truth(&program, "20000", ALL);
            assert_eq!(seen, truth, "{name}, {profile}");
            assert!(truth[0] > 50_000, "{truth:?}");
            let recorded = run(&program, &["100000"], Settings::with_interval(64 << 10));
            let (estimate, variance) = recorded.estimate();
            assert_within_5_sigma(name, estimate, variance, self::truth(&recorded)[1] as f64);
        }
    }
}
