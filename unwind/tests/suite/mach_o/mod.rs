//! Mach-O programs of both processors, whose stack is known at each instruction: an emulated processor has run them.
//! The script that made the fixtures is tests/fixtures/mach-o/make.py.

mod files;
mod trace;

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use crate::common::{Captured, Collector, PID, map, sample};
use recording::address::Avma;
use recording::clock::Timestamp;
use recording::event::{Mapping, Pid};
use recording::quality::Quality;
use recording::sink::{EventSink, InMemory, KeptFile, ModuleFile, ModuleFiles, ModuleMiss, NoMemory, TargetMemory};
use recording::stack::{Frame, Registers};
use trace::{Caller, State, Trace};
use unwind::{UnwindOptions, Unwinder};

/// Files by name.
struct Files(Vec<(String, KeptFile)>);

impl ModuleFiles for Files {
    fn open(&mut self, _pid: Pid, mapping: &Mapping<'_>) -> Result<ModuleFile, ModuleMiss> {
        let file = self.0.iter().find(|(name, _)| name.as_bytes() == mapping.path);
        Ok(ModuleFile {
            readable_path: None,
            bytes: file.ok_or(ModuleMiss::NotFound)?.1.clone(),
        })
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/mach-o")
}

fn fixture(name: &str) -> PathBuf {
    folder().join(format!("{name}.gz"))
}

/// The true stack, leaf first.
fn truth(state: &State<'_>) -> Vec<Frame> {
    let (Registers::Aarch64 { pc, .. } | Registers::X86_64 { ip: pc, .. }) = state.registers;
    let callers = state.callers.iter().rev().map(|caller| match *caller {
        Caller::Called(address) => Frame::ReturnAddress(Avma(address)),
        Caller::Interrupted(address) => Frame::InstructionPointer(Avma(address)),
    });
    [Frame::InstructionPointer(Avma(pc))]
        .into_iter()
        .chain(callers)
        .collect()
}

/// The stack of a state: what lies beyond the sample.
#[derive(Clone, Default)]
struct Beyond(Rc<RefCell<(u64, Vec<u8>)>>);

impl TargetMemory for Beyond {
    fn read(&mut self, _pid: Pid, address: u64, buffer: &mut [u8]) -> usize {
        let (start, bytes) = &*self.0.borrow();
        let rest = { address.checked_sub(*start) }.and_then(|at| bytes.get(usize::try_from(at).ok()?..));
        let rest = rest.unwrap_or_default();
        let len = rest.len().min(buffer.len());
        buffer[..len].copy_from_slice(&rest[..len]);
        len
    }

    /// The thread stands still between its samples.
    fn now(&self) -> Timestamp {
        Timestamp(0)
    }
}

fn unwinder<'a>(
    trace: &Trace,
    memory: impl TargetMemory + 'a,
    file: impl Fn(&[u8]) -> KeptFile,
) -> Unwinder<'a, Collector> {
    let files = { trace.images.iter() }.map(|image| (image.name.clone(), file(&image.file)));
    let mut unwinder = Unwinder::new(
        Collector::default(),
        memory,
        Files(files.collect()),
        UnwindOptions::default(),
    );
    for image in &trace.images {
        // More than any of them has of code.
        map(&mut unwinder, PID, image.base, 0x10_0000, 0, image.name.as_bytes());
    }
    unwinder
}

/// Unwinds all states of a trace, with files made of its images: how many there are, and those whose stack is not the
/// true one.
fn compare(trace: &Trace, file: impl Fn(&[u8]) -> KeptFile) -> (usize, Vec<String>, Quality) {
    let mut unwinder = unwinder(trace, NoMemory, file);
    let (mut count, mut wrong) = (0, Vec::new());
    trace.states(|state| {
        let captured = Captured {
            registers: state.registers,
            bytes: state.stack.to_vec(),
        };
        unwinder.on_event(&sample(&captured));
        let found = unwinder.next_mut().stacks.pop().unwrap();
        let truth = truth(&state);
        count += 1;
        if found != truth {
            wrong.push(format!("{:x?}\nfound {found:x?}\ntrue  {truth:x?}", state.registers));
        }
    });
    let (_, quality) = unwinder.finish();
    (count, wrong, quality)
}

#[test]
fn every_instruction_has_the_true_stack() {
    let files = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = files
        .filter(|path| path.extension().is_some_and(|end| end == "gz"))
        .collect();
    files.sort();
    let mut total = 0;
    for path in files {
        let (count, wrong, quality) = compare(&Trace::read(&path), |file| Arc::new(InMemory(file.to_vec())));
        let place = path.display();
        assert!(
            wrong.is_empty(),
            "{place}: {} of {count} are wrong, the first: {}",
            wrong.len(),
            wrong[0]
        );
        // By rules, each of them.
        assert_eq!(
            (quality.rooted, quality.by_frame_pointer),
            (count as u64, 0),
            "{place}: {quality:?}"
        );
        total += count;
    }
    assert!(total > 20_000, "{total} states");
}

#[test]
fn stacks_beyond_the_sample_are_completed_from_memory() {
    for name in [
        "aarch64-c-o2-compact",
        "aarch64-c-o2-no-fp-dwarf",
        "x86_64-c-o2-no-fp-compact",
        "x86_64-rust-o0",
    ] {
        let trace = Trace::read(&fixture(name));
        let memory = Beyond::default();
        let mut unwinder = unwinder(&trace, memory.clone(), |file| Arc::new(InMemory(file.to_vec())));
        let mut beyond_sample = 0;
        trace.states(|state| {
            // Memory is read in pages.
            let below = state.registers.sp() % 4096;
            let pages = [&vec![0; below as usize], state.stack].concat();
            *memory.0.borrow_mut() = (state.registers.sp() - below, pages);
            // A return address of 0 that was read later is believed where a sample has shown it.
            let has_root = state.callers.len() <= 1;
            let len = if has_root { usize::MAX } else { 48 };
            let captured = Captured {
                registers: state.registers,
                bytes: state.stack[..state.stack.len().min(len)].to_vec(),
            };
            // The first reading confirms the second one.
            unwinder.on_event(&sample(&captured));
            unwinder.on_event(&sample(&captured));
            beyond_sample += unwinder.end_round(Timestamp(0)).samples.beyond_sample / 2;
            let found = unwinder.next_mut().stacks.pop().unwrap();
            assert_eq!(found, truth(&state), "{name}: {:x?}", state.registers);
        });
        assert!(beyond_sample > 300, "{name}: {beyond_sample}");
    }
}
