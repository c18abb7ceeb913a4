//! Static programs, which get the library as sprof starts them.

use crate::linked::{ALL, PATCHED, seen_and_truth};

use super::*;

const STATIC: Settings = Settings { is_static: true, ..ALL };

/// For each libc that this system has as an archive: how a position-dependent program is linked, and a static-pie.
fn kinds() -> Vec<(&'static str, Vec<&'static str>)> {
    let mut kinds = Vec::new();
    let archive = Command::new("cc").arg("-print-file-name=libc.a").output().unwrap();
    if archive.stdout.starts_with(b"/") {
        kinds.extend([("cc", vec!["-static"]), ("cc", vec!["-static-pie"])]);
    } else {
        assert!(!is_required("static-libc"), "no libc.a");
        let _ = writeln!(std::io::stderr(), "skipped: static programs: no libc.a");
    }
    kinds.push(("musl-gcc", vec!["-static"]));
    // Its wrapper of gcc knows no static-pie.
    let start = "/usr/lib/x86_64-linux-musl/rcrt1.o";
    if Path::new(start).exists() {
        let flags = [
            "-static",
            "-fPIE",
            "-nostartfiles",
            start,
            "-Wl,-pie,--no-dynamic-linker",
        ];
        kinds.push(("musl-gcc", flags.to_vec()));
    }
    kinds
}

/// A program of each kind.
fn each_kind(source: &str, flags: &[&str], test: impl FnMut(&Path, &str)) {
    each_of(kinds(), source, flags, test);
}

/// A static-pie of glibc, and a position-dependent program of musl.
fn two_kinds(source: &str, flags: &[&str], test: impl FnMut(&Path, &str)) {
    let mut kinds = kinds();
    kinds.retain(|(compiler, kind)| (*compiler == "cc") == (kind[0] == "-static-pie") && kind.len() == 1);
    each_of(kinds, source, flags, test);
}

fn each_of(
    kinds: Vec<(&'static str, Vec<&'static str>)>,
    source: &str,
    flags: &[&str],
    mut test: impl FnMut(&Path, &str),
) {
    for (compiler, kind) in kinds {
        let usual = ["-O1", "-g0", "-fno-builtin", "-pthread", "-w"];
        let all: Vec<&str> = usual.iter().chain(&kind).chain(flags).copied().collect();
        if let Some(program) = build(compiler, source, &all) {
            test(&program, &format!("{compiler} {kind:?} {flags:?}"));
        }
    }
}

#[test]
fn each_call_of_a_static_program_is_seen_once() {
    each_kind("truth.c", &[], |program, kind| {
        let (seen, truth) = seen_and_truth(program, "30000", STATIC);
        assert_eq!(seen, truth, "{kind}");
        assert!(truth[0] > 20_000, "{truth:?}");
    });
}

#[test]
fn static_programs_do_the_same() {
    two_kinds("robust.c", &[], |program, kind| {
        let plain = Command::new(program).arg("argument").output().unwrap();
        assert_eq!(plain.status.code(), Some(7));
        let settings = Settings {
            is_static: true,
            stack_bytes: 8192,
            ring_bytes: 4 << 20,
            ..Settings::with_interval(4096)
        };
        let recorded = run(program, &["argument"], settings);
        assert_eq!((recorded.output, recorded.loaded), (plain, Ok(())), "{kind}");
        assert_eq!(recorded.outcomes[0], PATCHED, "{kind}");
        assert!(!recorded.hellos.is_empty(), "{kind}");
    });
}

#[test]
fn forks_and_threads_of_a_static_program_pair() {
    each_kind("forks.c", &[], |program, kind| {
        let recorded = run(program, &[], STATIC);
        let stdout = recorded.stdout();
        let kept = recorded.kept();
        let keeps: Vec<_> = stdout.lines().filter_map(|line| line.split_once(" keeps ")).collect();
        assert_eq!((keeps.len(), recorded.hellos.len()), (4, 1), "{kind}");
        for (pid, bytes) in keeps {
            // glibc takes some itself.
            let extra = kept[&pid.parse().unwrap()] - bytes.parse::<u64>().unwrap();
            assert!(extra < 10_000, "{kind}: {extra}");
        }
    });
    two_kinds("storm.c", &[], |program, kind| {
        let recorded = run(
            program,
            &[],
            Settings {
                interval: 4096,
                ..STATIC
            },
        );
        assert!(recorded.kept().values().sum::<u64>() < 1_000_000, "{kind}");
        assert!(recorded.allocations().count() > 1000, "{kind}");
    });
}

/// The library has a place among them.
#[test]
fn variables_of_threads_in_a_static_program_are_as_without_the_library() {
    let mut test = |program: &Path, kind: &str| {
        let recorded = run(program, &[], STATIC);
        assert_eq!(recorded.stdout(), "21 right\n", "{kind}");
        let blocks = recorded.allocations().filter(|record| record.head.size == 2000);
        assert_eq!(blocks.count(), 21_000, "{kind}");
        recorded.kept();
    };
    each_kind("variables.c", &["-DALIGNMENT=1024"], &mut test);
    two_kinds("variables.c", &["-Wl,-z,pack-relative-relocs"], test);
}

/// An allocator that signals may interrupt is linked into it.
#[test]
fn signal_handlers_of_a_static_program_may_allocate_and_jump() {
    let bump = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/heap/programs/bump.c");
    two_kinds("signals.c", &[bump.to_str().unwrap()], |program, kind| {
        for mode in ["allocate", "jump"] {
            let recorded = run(
                program,
                &[mode],
                Settings {
                    interval: 64 << 10,
                    ..STATIC
                },
            );
            assert_eq!(recorded.stdout(), "done\n", "{kind}, {mode}");
            recorded.kept();
            let blocks = recorded.allocations().filter(|record| record.head.size == 1000);
            assert!(blocks.count() > 2000, "{kind}, {mode}");
        }
    });
}

#[test]
fn a_static_program_without_names_runs_as_before() {
    each_kind("blocks.c", &["-s"], |program, kind| {
        let recorded = run(program, &["1000", "2000", "100"], STATIC);
        assert_eq!(
            (recorded.stdout().trim(), recorded.output.status.code()),
            ("done", Some(5)),
            "{kind}"
        );
        assert_eq!(
            recorded.loaded,
            Err("its C library is neither glibc nor musl".to_owned()),
            "{kind}"
        );
        assert_eq!((recorded.hellos.len(), recorded.outcomes.len()), (0, 0), "{kind}");
    });
}
