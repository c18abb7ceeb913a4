//! The one exit of every recorder, and what it may ask of the target in return.

use std::sync::Arc;

use crate::clock::Timestamp;
use crate::event::{Event, Mapping, Pid};
use crate::module::{BuildId, FileId};

/// Takes events in time order. A stage is a sink that owns the next one.
pub trait EventSink {
    /// Takes one event. What it borrows is valid only during the call.
    fn on_event(&mut self, event: &Event<'_>);

    /// Ends a round: all events before `until` have come, and the recorder rests before it delivers more. A stage
    /// passes on what it collects, such as bytes for a file, and ends the round of its next stage.
    ///
    /// Returns how the stacks of this round were completed. A stage in front of the unwinder returns what its next
    /// stage does; a stage that unwinds nothing, and is the last one, returns zeros. A recorder that sees many stacks
    /// incomplete copies more of each, or ends its rounds sooner.
    fn end_round(&mut self, until: Timestamp) -> Completion;
}

/// How the stacks of one round were completed, by the role of their samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Completion {
    /// Stacks of samples ([`Role::Running`](crate::event::Role::Running)).
    pub samples: CompletionCounts,
    /// Stacks of waits ([`Role::WaitStack`](crate::event::Role::WaitStack)).
    pub waits: CompletionCounts,
}

/// Counts of stacks that the bytes of their samples did not complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompletionCounts {
    /// Stacks that needed more bytes than their samples have.
    pub beyond_sample: u64,
    /// Number of those stacks that were completed from the target's memory without proof that the memory was the same
    /// when the sample was taken: the reading before the sample found something else, did not reach as far, or was not
    /// made; or the readings of this thread often differ.
    pub unverified: u64,
}

/// Reads the memory of a live target. The macOS recorder, the Linux recorder and the tests each have one.
pub trait TargetMemory {
    /// Reads up to `buffer.len()` bytes at `address` of process `pid`, and returns how many could be read, from the
    /// start. 0 if the process is gone, the page is not mapped or reading is not permitted.
    fn read(&mut self, pid: Pid, address: u64, buffer: &mut [u8]) -> usize;

    /// Reads the 8 bytes at each of these addresses, which ascend, and appends the numbers to `words`; as many, from
    /// the first on, as could be read.
    fn read_words(&mut self, pid: Pid, addresses: &[u64], words: &mut Vec<u64>) {
        for address in addresses {
            let mut bytes = [0; 8];
            if self.read(pid, *address, &mut bytes) < bytes.len() {
                return;
            }
            words.push(u64::from_le_bytes(bytes));
        }
    }

    /// The present, on the clock of the events: what was read just now is the memory as of this time.
    fn now(&self) -> Timestamp;
}

/// A target without readable memory: replayed recordings.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoMemory;

impl TargetMemory for NoMemory {
    fn read(&mut self, _pid: Pid, _address: u64, _buffer: &mut [u8]) -> usize {
        0
    }

    fn now(&self) -> Timestamp {
        Timestamp(u64::MAX)
    }
}

/// Opens the file behind a mapping.
pub trait ModuleFiles {
    /// Opens the file as the process `pid` saw it.
    ///
    /// # Errors
    ///
    /// Why the file can't be used for this mapping.
    fn open(&mut self, pid: Pid, mapping: &Mapping<'_>) -> Result<ModuleFile, ModuleMiss>;

    /// The file that [`ModuleFiles::open`] would open first, without opening it. `None`: not known.
    fn file_id(&mut self, _pid: Pid, _mapping: &Mapping<'_>) -> Option<FileId> {
        None
    }
}

/// The opened file of a module. It stays open until its names are looked up: by then it may be on no path.
pub type KeptFile = Arc<dyn ReadAt + Send + Sync>;

/// An opened module file.
#[derive(Clone)]
pub struct ModuleFile {
    /// Where it was opened, if that is not the mapping's own path.
    pub readable_path: Option<std::path::PathBuf>,
    /// Reads ranges of the file.
    pub bytes: KeptFile,
}

/// Positioned reading. Reading, not mapping: a file that is cut short while it is mapped kills the reader with SIGBUS.
pub trait ReadAt {
    /// Fills `buffer` from `offset`.
    ///
    /// # Errors
    ///
    /// The file is shorter, or can't be read.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> std::io::Result<()>;
    /// File size in bytes.
    fn len(&self) -> u64;
    /// True if the size is 0.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// A path that leads to these very bytes while this object lives, also after the file was deleted or its mount
    /// namespace is gone. `None`: there is none.
    fn own_path(&self) -> Option<std::path::PathBuf> {
        None
    }
    /// The file, as [`ModuleFiles::file_id`] gives it. `None`: not known.
    fn file_id(&self) -> Option<FileId> {
        None
    }
    /// What the offsets are.
    fn layout(&self) -> Layout {
        Layout::File
    }
}

/// Where the bytes of a module are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// At their offset in the file.
    File,
    /// At their address, counted from the module's header, in memory: up to the end of its last segment. The libraries
    /// of macOS are in no file of their own, and their load commands have offsets in other files.
    Memory,
}

/// A file whose bytes are in memory.
pub struct InMemory<B>(pub B);

impl<B: AsRef<[u8]>> ReadAt for InMemory<B> {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> std::io::Result<()> {
        let rest = usize::try_from(offset).ok().and_then(|at| self.0.as_ref().get(at..));
        let source = rest.and_then(|rest| rest.get(..buffer.len()));
        buffer.copy_from_slice(source.ok_or(std::io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn len(&self) -> u64 {
        self.0.as_ref().len() as u64
    }
}

/// A file on a disk.
pub struct OnDisk(pub std::fs::File);

impl ReadAt for OnDisk {
    #[cfg(unix)]
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> std::io::Result<()> {
        std::os::unix::fs::FileExt::read_exact_at(&self.0, buffer, offset)
    }

    #[cfg(not(unix))]
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> std::io::Result<()> {
        use std::io::{Read, Seek, SeekFrom};
        (&self.0).seek(SeekFrom::Start(offset))?;
        (&self.0).read_exact(buffer)
    }

    fn len(&self) -> u64 {
        self.0.metadata().map_or(0, |metadata| metadata.len())
    }
}

/// Why a module's file could not be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ModuleMiss {
    /// Anonymous memory: JIT code, or a stack that someone made executable.
    Anonymous,
    /// The file is gone or cannot be reached.
    NotFound,
    /// The file is there, but reading it is not permitted.
    PermissionDenied,
    /// sprof may open no more files (`ulimit -n`).
    TooManyOpen,
    /// Another file is there now: its build id or inode is not the mapped one's.
    Replaced,
    /// A file is there, but the recording has neither build id nor inode to identify the mapped file.
    NotIdentified,
    /// The file is not an ELF or Mach-O file that can be read to the end.
    Malformed,
}

/// Compares what the kernel said of the mapped file with what was found in the file.
pub fn same_build(mapped: Option<&BuildId>, found: Option<&BuildId>) -> bool {
    match (mapped, found) {
        (Some(mapped), Some(found)) => mapped == found,
        _ => true,
    }
}
