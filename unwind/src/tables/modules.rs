//! The modules of a recording: identified when first mapped, their tables read when first sampled. Processes share
//! them.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::arch::Arch;
use crate::files::machine::Machine;
use crate::files::object::ObjectFile;
use crate::tables::file_tables::FileTables;
use crate::tables::mappings::{ANONYMOUS, ModuleIndex, Region};
use recording::address::Avma;
use recording::event::{Mapping, Pid, is_shared_memory};
use recording::module::{BuildId, FileId, Image, Module, ModuleKind, path_of};
use recording::quality::Quality;
use recording::sink::{KeptFile, Layout, ModuleFile, ModuleFiles, ModuleMiss, same_build};

/// Files that are kept open between being mapped and being sampled. A build runs thousands of programs, most of them
/// never sampled, and a process may have 1024 files open: later ones are opened a second time.
const MAX_KEPT_OPEN: usize = 256;
/// Files that are kept open after being sampled, until their symbols are looked up: by then the file may be deleted and
/// the target's mount namespace gone. Later ones are looked up by path.
const MAX_KEPT_SAMPLED: usize = 512;
/// Bytes of a region that are compared with its file at most, and at once.
const MAX_COMPARED: u64 = 16 << 20;
const COMPARED_AT_ONCE: u64 = 64 << 10;
const PAGE: u64 = 4 << 10;
/// What the kernel appends to the path of a file that is gone (d_path).
const DELETED: &[u8] = b" (deleted)";

/// What makes two mappings the same file.
#[derive(Clone, PartialEq, Eq, Hash)]
struct FileIdentity {
    path: Box<[u8]>,
    build_id: Option<BuildId>,
    inode: Option<(u32, u32, u64)>,
    /// The kernel reports a build id or an inode. Build ids can be forged, and other mount namespaces have other files
    /// at a path.
    file: Option<FileId>,
}

impl FileIdentity {
    fn has_build_id_alone(&self) -> bool {
        self.build_id.is_some() && self.inode.is_none()
    }
}

struct ModuleEntry {
    module: Arc<Module>,
    object: Option<ObjectFile>,
    tables: TablesState,
    /// After it was sampled.
    file: Option<KeptFile>,
}

enum TablesState {
    /// Not sampled yet. The file, if it is kept open, and where it was mapped, if not.
    Untouched {
        file: Option<KeptFile>,
        identity: FileIdentity,
        place: FirstMapping,
    },
    Read(Box<FileTables>),
    None,
}

/// Where a file was mapped when it was first seen.
#[derive(Clone, Copy)]
struct FirstMapping {
    pid: Pid,
    start: u64,
    len: u64,
    file_offset: u64,
}

/// All modules so far.
pub(crate) struct Modules<'f> {
    files: Box<dyn ModuleFiles + 'f>,
    by_identity: FxHashMap<FileIdentity, ModuleIndex>,
    entries: Vec<ModuleEntry>,
    kept_open: usize,
    kept_sampled: usize,
}

impl<'f> Modules<'f> {
    pub(crate) fn new(files: impl ModuleFiles + 'f) -> Self {
        Modules {
            files: Box::new(files),
            by_identity: FxHashMap::default(),
            entries: Vec::new(),
            kept_open: 0,
            kept_sampled: 0,
        }
    }

    /// The files of the modules that samples fell into, as far as they are still open. Memory is none: what is read
    /// there has offsets of its own.
    pub(crate) fn kept(&self) -> Vec<(Arc<Module>, KeptFile)> {
        let is_file = |file: &KeptFile| file.layout() == Layout::File;
        let kept = |entry: &ModuleEntry| Some((entry.module.clone(), entry.file.clone().filter(is_file)?));
        self.entries.iter().filter_map(kept).collect()
    }

    /// Identifies what was mapped, and where its relative address 0 is.
    pub(crate) fn region(&mut self, pid: Pid, mapping: &Mapping<'_>, quality: &mut Quality) -> Region {
        let (start, end) = (mapping.start, mapping.start.saturating_add(mapping.len));
        let mut identity = FileIdentity {
            path: mapping.path.into(),
            build_id: mapping.build_id.clone(),
            inode: mapping.inode,
            file: None,
        };
        if identity.has_build_id_alone() {
            identity.file = self.files.file_id(pid, mapping);
        }
        let module = match self.by_identity.get(&identity) {
            Some(module) => *module,
            None => self.identify(pid, mapping, identity, quality),
        };
        let object = self.object(module);
        let bias = object.and_then(|object| {
            Some(
                object
                    .bias(start, mapping.file_offset)?
                    .wrapping_add(object.base_svma()),
            )
        });
        let base = bias.unwrap_or_else(|| start.wrapping_sub(mapping.file_offset));
        Region {
            start,
            end,
            base,
            module,
        }
    }

    /// The image of a region, unless it is anonymous.
    pub(crate) fn image(&self, region: &Region) -> Option<Image> {
        let entry = self.entries.get(region.module as usize)?;
        let module = entry.module.clone();
        let role = entry.object.as_ref().map(ObjectFile::role).unwrap_or_default();
        Some(Image {
            start: Avma(region.start),
            end: Avma(region.end),
            base: Avma(region.base),
            module,
            role,
        })
    }

    fn identify(
        &mut self,
        pid: Pid,
        mapping: &Mapping<'_>,
        mut identity: FileIdentity,
        quality: &mut Quality,
    ) -> ModuleIndex {
        let found = if is_anonymous(mapping.path) || mapping.is_for_profilers() {
            Err(ModuleMiss::Anonymous)
        } else {
            self.open(pid, mapping)
        };
        let (file, object) = match found {
            Ok((file, object)) => (Some(file), Some(object)),
            Err(miss) => {
                *quality.module_misses.entry(miss).or_default() += 1;
                if miss == ModuleMiss::Anonymous {
                    self.by_identity.insert(identity, ANONYMOUS);
                    return ANONYMOUS;
                }
                (None, None)
            }
        };
        // Another file may have taken the place since its inode was read.
        let opened = file.as_ref().and_then(|file| file.bytes.file_id());
        if identity.has_build_id_alone() && opened.is_some() && identity.file != opened {
            identity.file = opened;
            if let Some(known) = self.by_identity.get(&identity) {
                return *known;
            }
        }
        // 4 billion files: other limits come first.
        let index = self.entries.len() as ModuleIndex;
        self.by_identity.insert(identity.clone(), index);
        // For processes that end before their file is looked at.
        let unknown = FileIdentity {
            file: None,
            ..identity.clone()
        };
        self.by_identity.entry(unknown).or_insert(index);
        let module = Arc::new(Module {
            kind: if mapping.path == b"[vdso]" {
                ModuleKind::Vdso
            } else {
                ModuleKind::File
            },
            path: path_of(mapping.path.strip_suffix(DELETED).unwrap_or(mapping.path)),
            readable_path: file.as_ref().and_then(|file| self.readable_path(file, &identity)),
            build_id: mapping
                .build_id
                .clone()
                .or_else(|| object.as_ref()?.build_id().cloned()),
            arch: object
                .as_ref()
                .and_then(ObjectFile::machine)
                .map(|machine| match machine {
                    Machine::X86_64 => "x86_64",
                    Machine::Aarch64 => "aarch64",
                }),
        });
        let tables = match file {
            Some(file) => {
                let keep = self.kept_open < MAX_KEPT_OPEN;
                self.kept_open += usize::from(keep);
                TablesState::Untouched {
                    file: keep.then_some(file.bytes),
                    identity,
                    place: FirstMapping {
                        pid,
                        start: mapping.start,
                        len: mapping.len,
                        file_offset: mapping.file_offset,
                    },
                }
            }
            None => TablesState::None,
        };
        self.entries.push(ModuleEntry {
            module,
            object,
            tables,
            file: None,
        });
        index
    }

    /// Where to find the file, if not at its path. Two files of one path without build ids (a program was replaced
    /// while it ran) differ in this.
    fn readable_path(&self, file: &ModuleFile, identity: &FileIdentity) -> Option<PathBuf> {
        let other = |known: &FileIdentity| known.path == identity.path && known.build_id.is_none() && known != identity;
        if identity.build_id.is_none() && self.by_identity.keys().any(other) {
            return file.bytes.own_path().or_else(|| file.readable_path.clone());
        }
        file.readable_path.clone()
    }

    /// The file of a mapping, also if it has no code.
    pub(crate) fn open_plain(&mut self, pid: Pid, mapping: &Mapping<'_>) -> Option<KeptFile> {
        Some(self.files.open(pid, mapping).ok()?.bytes)
    }

    fn open(&mut self, pid: Pid, mapping: &Mapping<'_>) -> Result<(ModuleFile, ObjectFile), ModuleMiss> {
        let file = self.files.open(pid, mapping)?;
        let object = ObjectFile::read(&*file.bytes, mapping.build_id.as_ref()).map_err(|miss| match miss {
            // Code that was written into shared memory is JIT code more often than a library.
            ModuleMiss::Malformed if is_shared_memory(mapping.path) => ModuleMiss::Anonymous,
            miss => miss,
        })?;
        if !same_build(mapping.build_id.as_ref(), object.build_id()) {
            return Err(ModuleMiss::Replaced);
        }
        Ok((file, object))
    }

    /// What the file has at a relative address; `None` if that is not all there, or the file is not open any more.
    pub(crate) fn bytes_on_disk(&self, module: ModuleIndex, relative: u64, len: usize) -> Option<Vec<u8>> {
        let entry = self.entries.get(module as usize)?;
        let (object, file) = (entry.object.as_ref()?, entry.file.as_ref()?);
        let piece = object.rest_from(object.base_svma().wrapping_add(relative))?;
        let mut bytes = vec![0; usize::try_from(piece.size).ok()?.min(len)];
        file.read_exact_at(&mut bytes, piece.offset).ok()?;
        (bytes.len() == len).then_some(bytes)
    }

    /// True if nothing is known of the code of a module: it is in no file, or in one that can't be read as a file of
    /// code.
    pub(crate) fn is_unreadable(&self, module: ModuleIndex) -> bool {
        self.object(module).is_none()
    }

    /// Where a file that is mapped at `base` would have its code, in whole pages. Of ELF files.
    pub(crate) fn code_at(&self, module: ModuleIndex, base: u64) -> Vec<Region> {
        let Some(ObjectFile::Elf(elf)) = self.object(module) else {
            return Vec::new();
        };
        let address = |svma: u64| base.wrapping_add(svma.wrapping_sub(elf.base_svma));
        let region = |code: Range<u64>| Region {
            start: address(code.start) & !(PAGE - 1),
            end: address(code.end).saturating_add(PAGE - 1) & !(PAGE - 1),
            base,
            module,
        };
        elf.code().map(region).collect()
    }

    /// True if memory that lies over a region of a file has the file's bytes there. Of a large region parts are
    /// compared.
    pub(crate) fn has_bytes_of(
        &mut self,
        region: &Region,
        quality: &mut Quality,
        mut read: impl FnMut(u64, &mut [u8]) -> usize,
    ) -> bool {
        // Opens the file, if that was not done.
        self.tables(region.module, quality);
        let entry = self.entries.get(region.module as usize);
        let Some((object, file)) = entry.and_then(|entry| Some((entry.object.as_ref()?, entry.file.as_ref()?))) else {
            return false;
        };
        let step = ((region.end - region.start) / MAX_COMPARED).max(1) * COMPARED_AT_ONCE;
        let mut is_compared = false;
        let (mut in_file, mut in_memory) = (vec![0; COMPARED_AT_ONCE as usize], vec![0; COMPARED_AT_ONCE as usize]);
        let mut at = region.start;
        while at < region.end {
            let svma = object.base_svma().wrapping_add(at.wrapping_sub(region.base));
            let Some(piece) = object.rest_from(svma) else {
                // The rest of a page that the segment begins or ends in.
                at = at.saturating_add(PAGE);
                continue;
            };
            let len = piece.size.min(region.end - at).min(COMPARED_AT_ONCE) as usize;
            let (file_bytes, memory_bytes) = (&mut in_file[..len], &mut in_memory[..len]);
            if file.read_exact_at(file_bytes, piece.offset).is_err() || read(at, memory_bytes) < len {
                return false;
            }
            if !is_same_code(file_bytes, memory_bytes) {
                return false;
            }
            is_compared = true;
            at = at.saturating_add(step);
        }
        is_compared
    }

    /// True if the data at a relative address cannot change once the program runs.
    pub(crate) fn is_fixed_at_start(&self, module: ModuleIndex, relative: u64) -> bool {
        self.object(module)
            .is_some_and(|object| object.is_fixed_at_start(relative))
    }

    /// True if the caller's stack pointer follows from a frame pointer in all code of the module.
    pub(crate) fn records_top_frames(&self, module: ModuleIndex) -> bool {
        self.object(module).is_some_and(ObjectFile::records_top_frames)
    }

    fn object(&self, module: ModuleIndex) -> Option<&ObjectFile> {
        self.entries.get(module as usize)?.object.as_ref()
    }

    /// The unwind tables of a module, if they are for this machine.
    pub(crate) fn tables_for<A: Arch>(
        &mut self,
        module: ModuleIndex,
        quality: &mut Quality,
    ) -> Option<&mut FileTables> {
        self.tables(module, quality).and_then(FileTables::of::<A>)
    }

    /// The unwind tables of a module, read now if that was not done yet. `None` if it has none.
    pub(crate) fn tables(&mut self, module: ModuleIndex, quality: &mut Quality) -> Option<&mut FileTables> {
        let entry = self.entries.get_mut(module as usize)?;
        if let TablesState::Untouched { file, identity, place } = &mut entry.tables
            && let Some(object) = &entry.object
        {
            self.kept_open -= usize::from(file.is_some());
            let file = match file.take() {
                Some(file) => Ok(file),
                None => reopen(&mut *self.files, identity, *place, object),
            };
            entry.tables = match file {
                Ok(file) => {
                    let is_kept = self.kept_sampled < MAX_KEPT_SAMPLED;
                    let tables = FileTables::read(object, &file, is_kept);
                    if is_kept {
                        self.kept_sampled += 1;
                        entry.file = Some(file);
                    }
                    tables.map_or(TablesState::None, |tables| TablesState::Read(Box::new(tables)))
                }
                Err(miss) => {
                    *quality.module_misses.entry(miss).or_default() += 1;
                    TablesState::None
                }
            };
        }
        match &mut entry.tables {
            TablesState::Read(tables) => Some(tables),
            _ => None,
        }
    }
}

/// True if code is the same, but for breakpoints of probes and debuggers.
fn is_same_code(in_file: &[u8], in_memory: &[u8]) -> bool {
    const INT3: u8 = 0xcc;
    in_file == in_memory
        || in_file
            .iter()
            .zip(in_memory)
            .all(|(file, memory)| file == memory || *memory == INT3)
}

fn reopen(
    files: &mut dyn ModuleFiles,
    identity: &FileIdentity,
    place: FirstMapping,
    object: &ObjectFile,
) -> Result<KeptFile, ModuleMiss> {
    let mapping = Mapping {
        start: place.start,
        len: place.len,
        file_offset: place.file_offset,
        path: &identity.path,
        build_id: identity.build_id.clone(),
        inode: identity.inode,
    };
    let file = files.open(place.pid, &mapping)?;
    if let (Some(known), Some(found)) = (identity.file, file.bytes.file_id())
        && known != found
    {
        return Err(ModuleMiss::Replaced);
    }
    let again = ObjectFile::read(&*file.bytes, object.build_id())?;
    if again.build_id() != object.build_id() {
        return Err(ModuleMiss::Replaced);
    }
    Ok(file.bytes)
}

/// Names that the kernel gives to memory without a file: `//anon` (perf), `[heap]`, `[stack]`, `[anon:name]`. See
/// `perf_event_mmap_event` in kernel/events/core.c.
fn is_anonymous(path: &[u8]) -> bool {
    const PREFIXES: [&[u8]; 3] = [b"//anon", b"[", b"anon_inode:"];
    path.is_empty() || (path != b"[vdso]" && PREFIXES.iter().any(|prefix| path.starts_with(prefix)))
}
