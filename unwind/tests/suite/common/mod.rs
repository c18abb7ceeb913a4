//! This process as a target: its mappings, its memory, its stacks.

#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    clippy::expect_used,
    reason = "shared by test programs, each uses a part"
)]

#[allow(unsafe_code, reason = "reads registers")]
pub mod sys;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, LazyLock};

use recording::address::Avma;
use recording::clock::Timestamp;
use recording::event::{Event, EventKind, Mapping, Pid, ProcessEvent, Role, Sample, Thread, ThreadEvent, Tid};
use recording::module::Image;
use recording::sink::{Completion, EventSink, InMemory, ModuleFile, ModuleFiles, ModuleMiss, ReadAt, TargetMemory};
use recording::stack::{Frame, FurtherRegisters, Registers, Snapshot, Stack};
use unwind::{UnwindOptions, Unwinder};

pub const PID: Pid = Pid(1);
pub const TID: Tid = Tid(1);

/// A file.
pub struct OnDisk(pub File);

impl ReadAt for OnDisk {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> std::io::Result<()> {
        self.0.read_exact_at(buffer, offset)
    }
    fn len(&self) -> u64 {
        self.0.metadata().map_or(0, |metadata| metadata.len())
    }
}

/// Opens the mapping's path; the vdso comes from memory.
#[derive(Default)]
pub struct OwnFiles {
    pub vdso: Vec<u8>,
    /// Modules with this in their path can't be opened; empty: all can.
    pub hidden: &'static str,
}

impl ModuleFiles for OwnFiles {
    fn open(&mut self, _pid: Pid, mapping: &Mapping<'_>) -> Result<ModuleFile, ModuleMiss> {
        if mapping.path == b"[vdso]" {
            return Ok(ModuleFile {
                readable_path: None,
                bytes: Arc::new(InMemory(self.vdso.clone())),
            });
        }
        let path = String::from_utf8_lossy(mapping.path);
        if !self.hidden.is_empty() && path.contains(self.hidden) {
            return Err(ModuleMiss::PermissionDenied);
        }
        let file = File::open(path.as_ref()).map_err(|_| ModuleMiss::NotFound)?;
        Ok(ModuleFile {
            readable_path: None,
            bytes: Arc::new(OnDisk(file)),
        })
    }
}

/// The memory of this process.
pub struct OwnMemory(pub File);

impl OwnMemory {
    pub fn open() -> Self {
        OwnMemory(File::open("/proc/self/mem").expect("open /proc/self/mem"))
    }
}

impl TargetMemory for OwnMemory {
    fn read(&mut self, _pid: Pid, address: u64, buffer: &mut [u8]) -> usize {
        self.0.read_at(buffer, address).unwrap_or(0)
    }

    /// The thread stands still between its sample and this reading: all is of one time.
    fn now(&self) -> Timestamp {
        Timestamp(0)
    }
}

/// Keeps what it is sent.
#[derive(Default)]
pub struct Collector {
    pub stacks: Vec<Vec<Frame>>,
    pub images: Vec<Image>,
}

impl EventSink for Collector {
    fn on_event(&mut self, event: &Event<'_>) {
        match event.kind {
            EventKind::Thread(_, ThreadEvent::Sample(sample)) => {
                if let Stack::Frames(frames) = sample.stack {
                    self.stacks.push(frames.to_vec());
                }
            }
            EventKind::Process(_, ProcessEvent::Image(image)) => self.images.push(image.clone()),
            _ => {}
        }
    }

    fn end_round(&mut self, _: Timestamp) -> Completion {
        Completion::default()
    }
}

/// Registers and stack bytes, as a recorder would deliver them.
#[derive(Clone)]
pub struct Captured {
    pub registers: Registers,
    pub bytes: Vec<u8>,
}

/// Captures the caller's stack, at most `limit` bytes. Inlined, so that the registers are the caller's.
#[inline(always)]
pub fn capture(limit: usize) -> Captured {
    let registers = sys::registers();
    copy_stack(registers, limit)
}

#[inline(never)]
pub fn copy_stack(registers: Registers, limit: usize) -> Captured {
    let mut bytes = vec![0; limit];
    let len = OwnMemory::open().read(PID, sp(&registers), &mut bytes);
    bytes.truncate(len);
    Captured { registers, bytes }
}

pub fn sp(registers: &Registers) -> u64 {
    match *registers {
        Registers::X86_64 { sp, .. } | Registers::Aarch64 { sp, .. } => sp,
    }
}

pub fn sample(captured: &Captured) -> Event<'_> {
    sample_of(Thread { pid: PID, tid: TID }, captured)
}

pub fn sample_of(thread: Thread, captured: &Captured) -> Event<'_> {
    let stack = Stack::Snapshot(Snapshot {
        kernel: &[],
        registers: captured.registers,
        further: FurtherRegisters::default(),
        stack_bytes: &captured.bytes,
        next_copy: None,
    });
    Event::sample(Timestamp(0), thread, Sample::new(Role::Running, 1, stack))
}

/// An unwinder that knows this process's executable mappings.
pub fn unwinder<'a>(memory: impl TargetMemory + 'a) -> Unwinder<'a, Collector> {
    unwinder_without("", memory)
}

/// The same, where modules with `hidden` in their path can't be opened.
pub fn unwinder_without<'a>(hidden: &'static str, memory: impl TargetMemory + 'a) -> Unwinder<'a, Collector> {
    let maps = read_mappings();
    let mut files = OwnFiles {
        hidden,
        ..OwnFiles::default()
    };
    if let Some((start, len, ..)) = maps.iter().find(|map| map.3 == "[vdso]") {
        files.vdso.resize(*len as usize, 0);
        OwnMemory::open().read(PID, *start, &mut files.vdso);
    }
    let mut unwinder = Unwinder::new(Collector::default(), memory, files, UnwindOptions::default());
    let start = ProcessEvent::Start { parent: None };
    unwinder.on_event(&Event::process(Timestamp(0), PID, start));
    for (start, len, file_offset, path) in &maps {
        map(&mut unwinder, PID, *start, *len, *file_offset, path.as_bytes());
    }
    unwinder
}

/// Sends a mapping to `sink`.
pub fn map(sink: &mut impl EventSink, pid: Pid, start: u64, len: u64, file_offset: u64, path: &[u8]) {
    let mapping = Mapping {
        start,
        len,
        file_offset,
        path,
        build_id: None,
        inode: None,
    };
    sink.on_event(&Event::process(Timestamp(0), pid, ProcessEvent::Map(&mapping)));
}

/// The executable mappings of this process at the first call: start, length, file offset, path.
pub fn own_mappings() -> &'static [(u64, u64, u64, String)] {
    static MAPS: LazyLock<Vec<(u64, u64, u64, String)>> = LazyLock::new(read_mappings);
    &MAPS
}

fn read_mappings() -> Vec<(u64, u64, u64, String)> {
    let maps = std::fs::read("/proc/self/maps").expect("read /proc/self/maps");
    let code = recording::proc::mappings(&maps).filter(|line| line.is_executable);
    code.map(|line| {
        let path = String::from_utf8(line.path).expect("a path in UTF-8");
        (line.start, line.len, line.file_offset, path)
    })
    .collect()
}

/// Names of the frames' functions by this program's own symbol table; `?` where there is none.
pub fn names(images: &[Image], frames: &[Frame]) -> Vec<String> {
    let own = std::env::current_exe().expect("own path");
    let table = symbols(&own);
    let name = |address: Avma| {
        let image = images
            .iter()
            .find(|image| image.start <= address && address < image.end)?;
        if image.module.path != own {
            return Some(format!("<{}>", image.module.name()));
        }
        let relative = image.relative(address).0;
        let at = table.partition_point(|(start, _)| *start <= relative).checked_sub(1)?;
        let name = format!("{:#}", rustc_demangle::demangle(&table[at].1));
        Some(name.rsplit("::").next().unwrap_or_default().to_owned())
    };
    let label = |frame: &Frame| match frame {
        Frame::Mark(mark) => mark.label().to_owned(),
        frame => frame.lookup_address().and_then(name).unwrap_or_else(|| "?".to_owned()),
    };
    frames.iter().map(label).collect()
}

/// Function symbols of a file, by address relative to its lowest `PT_LOAD`.
fn symbols(path: &std::path::Path) -> Vec<(u64, String)> {
    use object::{Object, ObjectSegment, ObjectSymbol, SymbolKind};
    let bytes = std::fs::read(path).expect("read own file");
    let file = object::File::parse(&*bytes).expect("parse own file");
    let base = file.segments().map(|segment| segment.address()).min().unwrap_or(0);
    let functions = file
        .symbols()
        .filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.is_definition());
    let mut table: Vec<_> = functions
        .filter_map(|symbol| Some((symbol.address() - base, symbol.name().ok()?.to_owned())))
        .collect();
    table.sort();
    table
}
