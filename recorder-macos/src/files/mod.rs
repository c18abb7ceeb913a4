//! The memory and the files of targets, for the unwinder and others.
//!
//! - this file: rights to tasks, kept by process; files by path and UUID.
//! - `in_memory`: images without a file, put together from memory: images of the shared cache, and deleted files.
//! - `perf_map`: the names of JIT code.

mod in_memory;
pub(crate) mod on_disk;
mod perf_map;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use recording::clock::Timestamp;
use recording::event::{Mapping, Pid};
use recording::module::{BuildId, path_of};
use recording::regular_file;
use recording::sink::{InMemory, KeptFile, ModuleFile, ModuleFiles, ModuleMiss, ReadAt, TargetMemory};

use crate::codesign;
use crate::images::header::ImageHeader;
use crate::kernel::{Mach, MachError};
use in_memory::ImageFile;
use on_disk::OnDisk;

pub use perf_map::open_perf_map;

/// Pages of all processors end at multiples of this. Memory is readable page by page.
const PAGE: u64 = 4 << 10;
/// Bytes of images that are copied at most, of all together: they stay in memory.
const MOST_COPIED: u64 = 256 << 20;

/// Calls that may be made from any thread.
pub trait SharedMach: Mach + Clone + Send + Sync + 'static {}

impl<M: Mach + Clone + Send + Sync + 'static> SharedMach for M {}

/// Rights to tasks by process.
struct Tasks<M: Mach> {
    mach: M,
    known: BTreeMap<i32, Option<M::Task>>,
}

impl<M: Mach> Tasks<M> {
    fn new(mach: M) -> Tasks<M> {
        Tasks {
            mach,
            known: BTreeMap::new(),
        }
    }

    /// Makes a call about a task. If the task has died, asks for the right again: after an exec there is another task.
    /// `None` if the call failed.
    fn with<T>(&mut self, pid: i32, mut call: impl FnMut(&M, &M::Task) -> Result<T, MachError>) -> Option<T> {
        for _ in 0..2 {
            let mach = &self.mach;
            let task = self.known.entry(pid).or_insert_with(|| mach.task(pid).ok());
            match call(mach, task.as_ref()?) {
                Ok(result) => return Some(result),
                Err(MachError::Gone) => self.known.remove(&pid),
                Err(MachError::Code(_)) => return None,
            };
        }
        None
    }
}

/// Reads a live target's memory.
pub struct MachMemory<M: Mach>(Tasks<M>);

impl<M: Mach> MachMemory<M> {
    /// Reads by these calls.
    pub fn new(mach: M) -> MachMemory<M> {
        MachMemory(Tasks::new(mach))
    }
}

impl<M: Mach + Default> Default for MachMemory<M> {
    fn default() -> Self {
        MachMemory::new(M::default())
    }
}

impl<M: Mach> TargetMemory for MachMemory<M> {
    fn read(&mut self, pid: Pid, address: u64, buffer: &mut [u8]) -> usize {
        // The call fails as a whole, so that a second one goes page by page.
        let whole = self.0.with(pid.0, |mach, task| mach.read(task, address, buffer));
        match whole {
            Some(()) => buffer.len(),
            None => {
                let read = |at, page: &mut [u8]| {
                    let read = self.0.with(pid.0, |mach, task| mach.read(task, at, page));
                    read.ok_or(MachError::Gone)
                };
                read_pages(read, address, buffer)
            }
        }
    }

    fn now(&self) -> Timestamp {
        Timestamp(self.0.mach.now_ns())
    }
}

/// Opens mapped files: by path, if the file there has the UUID of the mapped one. Otherwise the image is read from
/// memory. Libraries of macOS have no files: they are in the shared cache, which this process also has mapped.
pub struct MachFiles<M: Mach> {
    tasks: Tasks<M>,
    copied: u64,
}

impl<M: SharedMach> MachFiles<M>
where
    M::Task: Send + Sync,
{
    /// Reads memory by these calls.
    pub fn new(mach: M) -> MachFiles<M> {
        MachFiles {
            tasks: Tasks::new(mach),
            copied: 0,
        }
    }

    /// The image in memory: in this process's memory, if it has the same image at the same address, else a copy of the
    /// target's. `None` if neither can be read, or all copies would get too large.
    fn in_memory(&mut self, pid: Pid, mapping: &Mapping<'_>) -> Option<KeptFile> {
        let mach = self.tasks.mach.clone();
        let own = i32::try_from(std::process::id()).ok()?;
        if let Some(header) = self.header(own, mapping) {
            let task = mach.task(own).ok()?;
            let read = move |address, buffer: &mut [u8]| mach.read(&task, address, buffer);
            return Some(Arc::new(ImageFile::new(header, mapping.start, read)?));
        }
        let header = self.header(pid.0, mapping)?;
        let task = mach.task(pid.0).ok()?;
        let image = ImageFile::new(header, mapping.start, |address, buffer: &mut [u8]| {
            read_pages(|at, page| mach.read(&task, at, page), address, buffer);
            Ok(())
        })?;
        let len = image.len();
        if len > MOST_COPIED.saturating_sub(self.copied) {
            return None;
        }
        self.copied += len;
        let mut bytes = vec![0; usize::try_from(len).ok()?];
        image.read_exact_at(&mut bytes, 0).ok()?;
        Some(Arc::new(InMemory(bytes)))
    }

    /// The header at the address of an image; `None` if the memory there is another image.
    fn header(&mut self, pid: i32, mapping: &Mapping<'_>) -> Option<ImageHeader> {
        let header = self
            .tasks
            .with(pid, |mach, task| ImageHeader::read(mach, task, mapping.start))?;
        (header.build_id() == mapping.build_id).then_some(header)
    }
}

impl<M: SharedMach + Default> Default for MachFiles<M>
where
    M::Task: Send + Sync,
{
    fn default() -> Self {
        MachFiles::new(M::default())
    }
}

impl<M: SharedMach> ModuleFiles for MachFiles<M>
where
    M::Task: Send + Sync,
{
    fn open(&mut self, pid: Pid, mapping: &Mapping<'_>) -> Result<ModuleFile, ModuleMiss> {
        if !mapping.path.starts_with(b"/") || mapping.path.starts_with(b"//") {
            return Err(ModuleMiss::Anonymous);
        }
        let miss = match open_build(mapping) {
            Ok(file) => {
                return Ok(ModuleFile {
                    readable_path: None,
                    bytes: Arc::new(file),
                });
            }
            Err(miss) => miss,
        };
        // Without a UUID nothing would show that the memory is the image's.
        let bytes = mapping.build_id.as_ref().and_then(|_| self.in_memory(pid, mapping));
        Ok(ModuleFile {
            readable_path: None,
            bytes: bytes.ok_or(miss)?,
        })
    }
}

/// Reads page by page, up to the first page that can't be read. Returns the number of bytes read.
fn read_pages(mut read: impl FnMut(u64, &mut [u8]) -> Result<(), MachError>, address: u64, buffer: &mut [u8]) -> usize {
    let mut done = 0;
    while done < buffer.len() {
        let Some(at) = address.checked_add(done as u64) else {
            break;
        };
        let end = buffer.len().min(done + (PAGE - at % PAGE) as usize);
        if read(at, &mut buffer[done..end]).is_err() {
            break;
        }
        done = end;
    }
    done
}

/// Opens the file at the path of a mapping. An error if it is of another build, or can't be read.
fn open_build(mapping: &Mapping<'_>) -> Result<OnDisk, ModuleMiss> {
    let path = path_of(mapping.path);
    let miss = |error: io::Error| match error.kind() {
        io::ErrorKind::PermissionDenied => ModuleMiss::PermissionDenied,
        _ => ModuleMiss::NotFound,
    };
    let file = OnDisk(regular_file::open(&path).map_err(miss)?);
    if mapping.is_jitdump() {
        return Ok(file);
    }
    let builds = codesign::builds(&file).map_err(|_| ModuleMiss::Malformed)?;
    let is_it = |build: &BuildId| mapping.build_id.as_ref().is_none_or(|wanted| wanted == build);
    if builds.iter().any(is_it) || mapping.build_id.is_none() {
        Ok(file)
    } else {
        Err(ModuleMiss::Replaced)
    }
}
