//! The machine, which tests share, and which a test that measures has alone: shares, losses, rates and times mean nothing
//! while another test keeps the CPUs busy. A test that measures a program of one thread needs one CPU: as many of these run at once
//! as there are CPUs, and nothing beside them.
//!
//! A test holds its part until its thread ends. It takes it before it waits for anything that another test may own (a program
//! that is being built, a recording that several use), or the two would wait for each other.
//!
//! Tests that share go before those that measure, as long as the runner starts any: a test that measures leaves a CPU idle, and
//! so does one that waits for the last of those that share. The more threads the runner has (`.ci/run` gives it some), the
//! seldomer that is. There are only so many parts.

use std::cell::RefCell;
use std::fs::{File, TryLockError};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A file lock also keeps apart test runners that use one process a test.
enum Held {
    Nothing,
    Part(#[expect(dead_code, reason = "held, not used")] [File; 2]),
    Cpu(#[expect(dead_code, reason = "held, not used")] Cpu),
    Whole(#[expect(dead_code, reason = "held, not used")] File),
}

thread_local! {
    static HELD: RefCell<Held> = const { RefCell::new(Held::Nothing) };
}

/// Takes a part of the machine, unless this test has one.
pub(crate) fn share() {
    HELD.with_borrow_mut(|held| {
        if matches!(held, Held::Nothing) {
            // One part more than there are CPUs: some tests wait for their programs.
            let part = take_one("part", cpus() + 1);
            let machine = open("machine.lock");
            machine.lock_shared().unwrap();
            *held = Held::Part([part, machine]);
        }
    });
}

/// Takes a CPU: the first thing that a test does that measures a program of one thread.
pub(crate) fn one_cpu() {
    HELD.with_borrow_mut(|held| {
        if matches!(held, Held::Nothing) {
            *held = Held::Cpu(Cpu::take());
        }
    });
}

/// The machine of the tests of this process that have a CPU each: how many there are, and the lock that keeps away all others.
static OF_CPUS: Mutex<(usize, Option<File>)> = Mutex::new((0, None));

fn of_cpus() -> MutexGuard<'static, (usize, Option<File>)> {
    OF_CPUS.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Cpu(#[expect(dead_code, reason = "held, not used")] File);

impl Cpu {
    fn take() -> Cpu {
        let cpu = take_one("cpu", cpus());
        let (tests, machine) = &mut *of_cpus();
        if machine.is_none() {
            let file = open("machine.lock");
            file.lock().unwrap();
            *machine = Some(file);
        }
        *tests += 1;
        Cpu(cpu)
    }
}

impl Drop for Cpu {
    fn drop(&mut self) {
        let (tests, machine) = &mut *of_cpus();
        *tests -= 1;
        if *tests == 0 {
            *machine = None;
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

/// True if no other test runs.
pub(crate) fn is_alone() -> bool {
    HELD.with_borrow(|held| matches!(held, Held::Whole(_)))
}

fn open(name: &str) -> File {
    File::create(Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)).unwrap()
}

fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// One of so many locks of a kind.
fn take_one(kind: &str, count: usize) -> File {
    loop {
        for index in 0..count {
            let file = open(&format!("machine.{kind}-{index}"));
            match file.try_lock() {
                Ok(()) => return file,
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => panic!("machine.{kind}-{index}: {error}"),
            }
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
