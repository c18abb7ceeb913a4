//! Look-ups from several threads, within a limit of memory, and in files that change.

use std::path::Path;
use std::process::Command;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};

use object::{Object, ObjectSymbol};
use proptest::prelude::*;
use recording::sink::ReadAt;

use super::*;

/// A file that counts how often it was opened.
struct Counted {
    path: PathBuf,
    opened: AtomicUsize,
}

impl ReadAt for Counted {
    fn read_exact_at(&self, _: &mut [u8], _: u64) -> std::io::Result<()> {
        Err(std::io::ErrorKind::Unsupported.into())
    }

    fn len(&self) -> u64 {
        0
    }

    fn own_path(&self) -> Option<PathBuf> {
        self.opened.fetch_add(1, Ordering::Relaxed);
        Some(self.path.clone())
    }
}

/// A program of functions that no other one has, and the relative address of each.
struct Program {
    module: Module,
    file: Arc<Counted>,
    functions: Vec<(u64, String)>,
}

fn program(dir: &Path, name: &str) -> Program {
    let (source, path) = (dir.join(format!("{name}.c")), dir.join(name));
    let functions = ["first", "second", "third"].map(|function| format!("{function}_of_{name}"));
    let text: String = (functions.iter())
        .map(|function| format!("int {function}(int n) {{ return n + 1; }}\n"))
        .collect();
    std::fs::write(&source, text + "int main(void) { return 0; }\n").unwrap();
    let built = Command::new("cc")
        .args(["-g", "-O1", "-Wl,--build-id", "-o"])
        .args([&path, &source])
        .status();
    assert!(built.unwrap().success());
    let bytes = std::fs::read(&path).unwrap();
    let object = object::File::parse(&*bytes).unwrap();
    let address = |name: &str| object.symbol_by_name(name).unwrap().address() - object.relative_address_base();
    Program {
        functions: functions.map(|name| (address(&name), name)).into(),
        file: Arc::new(Counted {
            path: path.clone(),
            opened: AtomicUsize::new(0),
        }),
        module: Module {
            kind: ModuleKind::File,
            path,
            readable_path: None,
            build_id: object
                .build_id()
                .unwrap()
                .map(|id| recording::module::BuildId(id.to_vec())),
            arch: None,
        },
    }
}

fn symbolicator(programs: &[Program], max_held_bytes: usize) -> Symbolicator {
    let symbolicator = Symbolicator {
        held: ModuleCache::new(max_held_bytes),
        ..Symbolicator::new(SymbolOptions::default())
    };
    for program in programs {
        program.file.opened.store(0, Ordering::Relaxed);
        symbolicator.add_kept_file(&program.module, Arc::<Counted>::clone(&program.file));
    }
    symbolicator
}

/// Looks up all functions of a program, and checks name, line and what else is known of it.
fn check(symbolicator: &Symbolicator, program: &Program) {
    let addresses: Vec<u64> = program.functions.iter().map(|(address, _)| *address).collect();
    let answers = symbolicator.lookup(&program.module, &addresses).unwrap();
    for ((answer, (_, name)), line) in answers.iter().zip(&program.functions).zip(1..) {
        assert_eq!(answer.function.as_ref().unwrap().name, *name);
        let frame = &answer.frames[0];
        assert_eq!((frame.function.as_ref(), frame.line), (Some(name), Some(line)));
    }
}

/// Heap bytes of each program that is in memory now.
fn held(symbolicator: &Symbolicator, programs: &[Program]) -> Vec<usize> {
    let held = |program: &Program| {
        let entry = symbolicator.entry(&program.module);
        let opened = lock(&entry.opened);
        opened.engine.as_ref().map(Engine::held_bytes)
    };
    programs.iter().filter_map(held).collect()
}

#[test]
fn many_look_ups_at_once_read_a_module_once() {
    let dir = tempfile::tempdir().unwrap();
    let programs = [program(dir.path(), "a"), program(dir.path(), "b")];
    let symbolicator = symbolicator(&programs, usize::MAX);
    let barrier = Barrier::new(8);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                barrier.wait();
                programs.iter().for_each(|program| check(&symbolicator, program));
            });
        }
    });
    let opened = programs.map(|program| program.file.opened.load(Ordering::Relaxed));
    assert_eq!(opened, [1, 1]);
}

#[test]
fn what_was_read_of_many_modules_stays_within_the_limit_and_answers_stay_right() {
    let dir = tempfile::tempdir().unwrap();
    let programs: Vec<Program> = (0..6).map(|n| program(dir.path(), &format!("program{n}"))).collect();
    let unlimited = symbolicator(&programs, usize::MAX);
    programs.iter().for_each(|program| check(&unlimited, program));
    let all = held(&unlimited, &programs);
    assert_eq!(all.len(), 6);
    let one = *all.iter().max().unwrap();
    let files = SymbolSource::Files {
        symbol_table: true,
        debug_info: true,
    };
    let orders = proptest::collection::vec(0..programs.len(), 1..40);
    let limits = prop_oneof![Just(0), Just(one * 2), Just(one * 4), Just(usize::MAX)];
    let round_robin: Vec<usize> = (0..18).map(|n| n % 6).collect();
    let check_order = |order: &[usize], limit: usize| {
        let limited = symbolicator(&programs, limit);
        for (at, index) in order.iter().enumerate() {
            check(&limited, &programs[*index]);
            let held = held(&limited, &programs);
            assert!(held.len() == 1 || held.iter().sum::<usize>() <= limit, "{held:?}");
            // What is known of those that were dropped stays known.
            let asked = &order[..=at];
            assert!(
                asked
                    .iter()
                    .all(|asked| limited.looked_up_in(&programs[*asked].module) == files)
            );
        }
        let opened = programs
            .iter()
            .map(|program| program.file.opened.load(Ordering::Relaxed));
        (held(&limited, &programs).len(), opened.sum::<usize>())
    };
    assert_eq!(check_order(&round_robin, 0), (1, 18));
    assert_eq!(check_order(&round_robin, usize::MAX), (6, 6));
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        // The same cases in each run.
        rng_seed: proptest::test_runner::RngSeed::Fixed(1),
        failure_persistence: None,
        ..ProptestConfig::with_cases(32)
    });
    runner
        .run(&(orders, limits), |(order, limit)| {
            check_order(&order, limit);
            Ok(())
        })
        .unwrap();
}

#[test]
fn a_module_whose_file_is_gone_stays_in_memory() {
    let dir = tempfile::tempdir().unwrap();
    let programs = [program(dir.path(), "gone"), program(dir.path(), "other")];
    let symbolicator = Symbolicator {
        held: ModuleCache::new(0),
        ..Symbolicator::new(SymbolOptions::default())
    };
    check(&symbolicator, &programs[0]);
    std::fs::remove_file(&programs[0].module.path).unwrap();
    for _ in 0..2 {
        check(&symbolicator, &programs[1]);
        check(&symbolicator, &programs[0]);
    }
}

#[test]
fn a_file_that_is_cut_short_while_it_is_read_gives_no_names_and_ends_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("program");
    let copy = || std::fs::copy(std::env::current_exe().unwrap(), &path).unwrap();
    let len = copy();
    let module = Module {
        kind: ModuleKind::File,
        path: path.clone(),
        readable_path: None,
        build_id: None,
        arch: None,
    };
    let symbolicator = Symbolicator::new(SymbolOptions::default());
    let entry = symbolicator.entry(&module);
    let addresses: Vec<u64> = (0x1000..len).step_by(len as usize / 1024).collect();
    // Cut in all parts: headers, code, symbols, debug info.
    for kept in [0, 100, 4096, len / 4, len / 2, len - 100_000] {
        copy();
        assert!(symbolicator.lookup(&module, &addresses).is_ok());
        copy();
        let answer = symbolicator.with_engine(&entry, |engine| {
            let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
            file.set_len(kept).unwrap();
            match engine {
                Engine::Object(file) => Ok(file.lookup(&addresses)),
                _ => unreachable!(),
            }
        });
        assert!(
            matches!(answer, Err(SymbolError::Rewritten { .. })),
            "{kept}: {answer:?}"
        );
    }
    copy();
    let names = symbolicator.lookup(&module, &addresses).unwrap();
    assert!(names.iter().any(|info| info.function.is_some()));
}
