//! Turns stack snapshots into frames.
//!
//! Gets: all events of a recorder. Gives: the same events, an [`Image`](recording::event::ProcessEvent::Image) after
//! each mapping of a module, and every sample's stack as [`Stack::Frames`](recording::stack::Stack::Frames), leaf
//! first: kernel frames, user frames, and a [`Frame::Mark`](recording::stack::Frame::Mark) where something is missing
//! or not verified. Out of scope: names, system calls (memory and files are parameters), and how a recorder takes its
//! snapshots.
//!
//! ```
//! use recording::clock::Timestamp;
//! use recording::event::{Event, EventKind, Mapping, Pid, ProcessEvent, Role, Sample, Thread, ThreadEvent};
//! use recording::sink::{Completion, EventSink, ModuleFile, ModuleFiles, ModuleMiss, NoMemory};
//! use recording::stack::{FurtherRegisters, Registers, Snapshot, Stack};
//! use unwind::{UnwindOptions, Unwinder};
//!
//! /// The next stage: counts frames.
//! #[derive(Default)]
//! struct Frames(usize);
//!
//! impl EventSink for Frames {
//!     fn on_event(&mut self, event: &Event<'_>) {
//!         if let EventKind::Thread(_, ThreadEvent::Sample(sample)) = event.kind
//!             && let Stack::Frames(frames) = sample.stack
//!         {
//!             self.0 += frames.len();
//!         }
//!     }
//!
//!     fn end_round(&mut self, _until: Timestamp) -> Completion {
//!         Completion::default()
//!     }
//! }
//!
//! /// A target without files.
//! struct NoFiles;
//!
//! impl ModuleFiles for NoFiles {
//!     fn open(&mut self, _pid: Pid, _mapping: &Mapping<'_>) -> Result<ModuleFile, ModuleMiss> {
//!         Err(ModuleMiss::NotFound)
//!     }
//! }
//!
//! let mut unwinder = Unwinder::new(Frames::default(), NoMemory, NoFiles, UnwindOptions::default());
//! let code = Mapping { start: 0x10000, len: 0x1000, file_offset: 0, path: b"//anon", build_id: None, inode: None };
//! unwinder.on_event(&Event::process(Timestamp(0), Pid(7), ProcessEvent::Map(&code)));
//!
//! // A frame record: the caller's frame pointer, which is 0 in the root, and the return address.
//! let stack_bytes = [0u64, 0x10020].map(u64::to_le_bytes).concat();
//! let snapshot = Snapshot {
//!     kernel: &[],
//!     registers: Registers::X86_64 { ip: 0x10100, sp: 0x7000, bp: 0x7000 },
//!     further: FurtherRegisters::default(),
//!     stack_bytes: &stack_bytes,
//!     next_copy: None,
//! };
//! let sample = Sample::new(Role::Running, 1, Stack::Snapshot(snapshot));
//! unwinder.on_event(&Event::sample(Timestamp(1), Thread::main(Pid(7)), sample));
//!
//! let (frames, quality) = unwinder.finish();
//! assert_eq!((frames.0, quality.rooted, quality.by_frame_pointer), (2, 1, 1));
//! ```
//!
//! The journey, in reading order; each room imports only those below it in this list:
//!
//! 1. `stage`: [`Unwinder`], a sink that owns the next one; the stacks of all threads; one of them.
//! 2. `completion`: verifies stacks that were completed from live memory.
//! 3. `walk`: one stack from leaf to root, three ways to take a step, and whether a caller can have called its callee.
//! 4. `tables`: the modules of all processes and the unwind rules of their files.
//! 5. `arch`: what is special to x86-64 and aarch64: registers, prologues, the frame by the code of a whole function,
//!    signal frames.
//! 6. `files`: ELF, Mach-O and jitdump files, [`compression`] of their sections, call frame information.

mod address;
mod arch;
mod completion;
mod files;
mod stage;
mod tables;
mod walk;

use recording::module::BuildId;
use recording::sink::ReadAt;

pub use files::{compression, jitdump};
pub use stage::{UnwindEngine, UnwindOptions, Unwinder};
pub use tables::functions::Functions;

/// The build id of an ELF file by its headers, or the UUID of a Mach-O file with code for one processor. `None`: the
/// file has no build id, or is neither kind of file.
pub fn build_id_of(file: &dyn ReadAt) -> Option<BuildId> {
    let object = files::object::ObjectFile::read(file, None).ok()?;
    object.build_id().cloned()
}
