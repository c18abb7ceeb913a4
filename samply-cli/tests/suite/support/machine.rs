//! The machine, which tests share, and which a test that measures has alone: shares, losses, rates and times mean
//! nothing while another test keeps the CPUs busy. A test that measures a program of one thread needs one CPU: as many
//! of these run at once as there are CPUs, and nothing beside them.
//!
//! A test holds its part until its thread ends. It takes it before it waits for anything that another test may own (a
//! program that is being built, a recording that several use), or the two would wait for each other.
//!
//! Tests that share go before those that measure, as long as the runner starts any: a test that measures leaves a CPU
//! idle, and so does one that waits for the last of those that share. The more threads the runner has (`.ci/run` gives
//! it some), the seldomer that is. There are only so many parts.

use std::cell::RefCell;
use std::fs::{File, TryLockError};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A file lock also keeps apart test runners that use one process a test.
enum Held {
    Nothing,
    Part(#[expect(dead_code, reason = "held, not used")] [File; 2]),
    Cpu(Cpu),
    Whole(#[expect(dead_code, reason = "held, not used")] File),
}

thread_local! {
    static HELD: RefCell<Held> = const { RefCell::new(Held::Nothing) };
}

/// Takes a part of the machine, unless this test has one.
pub(crate) fn share() {
    HELD.with_borrow_mut(|held| {
        if matches!(held, Held::Nothing) {
            let part = take_part();
            let machine = open("machine.lock");
            machine.lock_shared().unwrap();
            *held = Held::Part([part, machine]);
        }
    });
}

/// Takes a CPU, instead of a part: the first thing that a test does that measures a program of one thread, once it
/// knows that it can.
pub(crate) fn one_cpu() {
    take_cpu(Recorder::Sprof);
}

/// The same, for a program that perf records: no recording of sprof is beside it.
pub(crate) fn one_cpu_for_perf() {
    take_cpu(Recorder::Perf);
}

#[derive(Clone, Copy, PartialEq)]
enum Recorder {
    Sprof,
    Perf,
}

fn take_cpu(recorder: Recorder) {
    HELD.with_borrow_mut(|held| {
        if !matches!(held, Held::Cpu(_) | Held::Whole(_)) {
            // Two tests that keep their parts would wait for each other.
            *held = Held::Nothing;
            *held = Held::Cpu(Cpu::take(recorder));
        }
    });
}

/// The tests of this process that have a CPU each.
struct OfCpus {
    tests: usize,
    recorder: Recorder,
    /// The lock that keeps away all others.
    _machine: File,
}

static OF_CPUS: Mutex<Option<OfCpus>> = Mutex::new(None);

/// Waits until no other test is before this one, without using a CPU.
fn first_in(row: &'static Mutex<()>) -> MutexGuard<'static, ()> {
    row.lock().unwrap_or_else(PoisonError::into_inner)
}

fn of_cpus() -> MutexGuard<'static, Option<OfCpus>> {
    OF_CPUS.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Cpu;

impl Cpu {
    fn take(recorder: Recorder) -> Cpu {
        static ROWS: [Mutex<()>; 2] = [const { Mutex::new(()) }; 2];
        let _first = first_in(&ROWS[recorder as usize]);
        loop {
            match &mut *of_cpus() {
                Some(of) if of.recorder == recorder && of.tests < cpus() => {
                    of.tests += 1;
                    return Cpu;
                }
                Some(_) => {}
                none => {
                    let machine = open("machine.lock");
                    machine.lock().unwrap();
                    *none = Some(OfCpus {
                        tests: 1,
                        recorder,
                        _machine: machine,
                    });
                    return Cpu;
                }
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Cpu {
    fn drop(&mut self) {
        let mut of_cpus = of_cpus();
        match &mut *of_cpus {
            Some(of) if of.tests > 1 => of.tests -= 1,
            _ => *of_cpus = None,
        }
    }
}

/// Takes the whole machine: the first thing that a test does that measures.
pub(crate) fn alone() {
    HELD.with_borrow_mut(|held| {
        if !matches!(held, Held::Whole(_)) {
            // Two tests that keep their parts would wait for each other.
            *held = Held::Nothing;
            let machine = open("machine.lock");
            machine.lock().unwrap();
            *held = Held::Whole(machine);
        }
    });
}

/// Gives back all but a part, when what is left is to look at what was measured.
pub(crate) fn share_again() {
    HELD.with_borrow_mut(|held| *held = Held::Nothing);
    share();
}

/// True if nothing runs beside this test but other tests that measure.
pub(crate) fn is_measuring() -> bool {
    HELD.with_borrow(|held| matches!(held, Held::Cpu(_) | Held::Whole(_)))
}

fn open(name: &str) -> File {
    File::create(Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)).unwrap()
}

fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn take_part() -> File {
    // Tests wait in a row. When all that wait looked for a part every 10 ms, that took a fifth of two CPUs.
    static ROW: Mutex<()> = Mutex::new(());
    let _first = first_in(&ROW);
    loop {
        // Twice as many parts as there are CPUs: tests wait for their programs half of the time.
        for index in 0..2 * cpus() {
            let file = open(&format!("machine.part-{index}"));
            match file.try_lock() {
                Ok(()) => return file,
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => panic!("machine.part-{index}: {error}"),
            }
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
