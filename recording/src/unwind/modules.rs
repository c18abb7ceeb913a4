//! The modules of a recording: identified when first mapped, their tables read when first sampled. Processes share them.

use std::path::PathBuf;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::elf::{self, Elf};
use super::space::{ANONYMOUS, ModuleIndex, Region};
use super::tables::Tables;
use crate::address::Avma;
use crate::event::{Mapping, Pid};
use crate::module::{BuildId, Image, Module, ModuleKind};
use crate::quality::Quality;
use crate::sink::{ModuleFile, ModuleFiles, ModuleMiss, same_build};

/// Files that are kept open between being mapped and being sampled. A build runs thousands of programs, most of them
/// never sampled, and a process may have 1024 files open: later ones are opened a second time.
const MAX_KEPT_OPEN: usize = 256;

/// What makes two mappings the same file.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Identity {
    path: Box<[u8]>,
    build_id: Option<BuildId>,
    inode: Option<(u32, u32, u64)>,
}

struct Entry {
    module: Arc<Module>,
    elf: Option<Elf>,
    tables: State,
}

enum State {
    /// Not sampled yet. The file, if it is kept open, and whom to open it for, if not.
    Untouched {
        file: Option<ModuleFile>,
        identity: Identity,
        pid: Pid,
    },
    Read(Tables),
    None,
}

/// All modules so far.
pub(super) struct Modules<F> {
    files: F,
    by_identity: FxHashMap<Identity, ModuleIndex>,
    entries: Vec<Entry>,
    kept_open: usize,
}

impl<F: ModuleFiles> Modules<F> {
    pub(super) fn new(files: F) -> Self {
        Modules {
            files,
            by_identity: FxHashMap::default(),
            entries: Vec::new(),
            kept_open: 0,
        }
    }

    /// Identifies what was mapped, and where its relative address 0 is.
    pub(super) fn region(&mut self, mapping: &Mapping<'_>, quality: &mut Quality) -> Region {
        let (start, end) = (mapping.start, mapping.start.saturating_add(mapping.len));
        let identity = Identity {
            path: mapping.path.into(),
            build_id: mapping.build_id.clone(),
            inode: mapping.inode,
        };
        let module = match self.by_identity.get(&identity) {
            Some(module) => *module,
            None => {
                let module = self.identify(mapping, identity.clone(), quality);
                self.by_identity.insert(identity, module);
                module
            }
        };
        let elf = self.entries.get(module as usize).and_then(|entry| entry.elf.as_ref());
        let bias = elf.and_then(|elf| Some(elf.bias(start, mapping.file_offset)?.wrapping_add(elf.base_svma)));
        let base = bias.unwrap_or_else(|| start.wrapping_sub(mapping.file_offset));
        Region {
            start,
            end,
            base,
            module,
        }
    }

    /// The image of a region, unless it is anonymous.
    pub(super) fn image(&self, region: &Region) -> Option<Image> {
        let module = self.entries.get(region.module as usize)?.module.clone();
        Some(Image {
            start: Avma(region.start),
            end: Avma(region.end),
            base: Avma(region.base),
            module,
        })
    }

    fn identify(&mut self, mapping: &Mapping<'_>, identity: Identity, quality: &mut Quality) -> ModuleIndex {
        let found = if is_anonymous(mapping.path) {
            Err(ModuleMiss::Anonymous)
        } else {
            self.open(mapping)
        };
        let (file, elf) = match found {
            Ok((file, elf)) => (Some(file), Some(elf)),
            Err(miss) => {
                *quality.module_misses.entry(miss).or_default() += 1;
                if miss == ModuleMiss::Anonymous {
                    return ANONYMOUS;
                }
                (None, None)
            }
        };
        let module = Arc::new(Module {
            kind: if mapping.path == b"[vdso]" {
                ModuleKind::Vdso
            } else {
                ModuleKind::File
            },
            path: path_of(mapping.path),
            readable_path: file.as_ref().and_then(|file| file.readable_path.clone()),
            build_id: mapping.build_id.clone().or_else(|| elf.as_ref()?.build_id.clone()),
            arch: elf.as_ref().and_then(|elf| match elf.machine {
                elf::EM_X86_64 => Some("x86_64"),
                elf::EM_AARCH64 => Some("aarch64"),
                _ => None,
            }),
        });
        let tables = match file {
            Some(file) => {
                let keep = self.kept_open < MAX_KEPT_OPEN;
                self.kept_open += usize::from(keep);
                State::Untouched {
                    file: keep.then_some(file),
                    identity,
                    pid: mapping.pid,
                }
            }
            None => State::None,
        };
        self.entries.push(Entry { module, elf, tables });
        // 4 billion files: other limits come first.
        (self.entries.len() - 1) as ModuleIndex
    }

    fn open(&mut self, mapping: &Mapping<'_>) -> Result<(ModuleFile, Elf), ModuleMiss> {
        let file = self.files.open(mapping)?;
        let Some(elf) = Elf::read(&*file.bytes) else {
            // Code that was written into a memory file is JIT code more often than a library.
            let is_memory = mapping.path.starts_with(b"/memfd:");
            return Err(if is_memory {
                ModuleMiss::Anonymous
            } else {
                ModuleMiss::Malformed
            });
        };
        if !same_build(mapping.build_id.as_ref(), elf.build_id.as_ref()) {
            return Err(ModuleMiss::Replaced);
        }
        Ok((file, elf))
    }

    /// True if the data at a relative address cannot change once the program runs.
    pub(super) fn is_fixed_at_start(&self, module: ModuleIndex, relative: u64) -> bool {
        let elf = self.entries.get(module as usize).and_then(|entry| entry.elf.as_ref());
        elf.is_some_and(|elf| elf.is_fixed_at_start(relative))
    }

    /// The unwind tables of a module, read now if that was not done yet. `None` if it has none.
    pub(super) fn tables(&mut self, module: ModuleIndex, quality: &mut Quality) -> Option<&mut Tables> {
        let entry = self.entries.get_mut(module as usize)?;
        if let State::Untouched { file, identity, pid } = &mut entry.tables {
            let tables = match (file.take(), &entry.elf) {
                (Some(file), Some(elf)) => {
                    self.kept_open -= 1;
                    Ok(Tables::read(elf, &*file.bytes))
                }
                (None, Some(elf)) => reopen(&mut self.files, identity, *pid, elf),
                (_, None) => Ok(None),
            };
            entry.tables = match tables {
                Ok(Some(tables)) => State::Read(tables),
                Ok(None) => State::None,
                Err(miss) => {
                    *quality.module_misses.entry(miss).or_default() += 1;
                    State::None
                }
            };
        }
        match &mut entry.tables {
            State::Read(tables) => Some(tables),
            _ => None,
        }
    }
}

fn reopen(
    files: &mut impl ModuleFiles,
    identity: &Identity,
    pid: Pid,
    elf: &Elf,
) -> Result<Option<Tables>, ModuleMiss> {
    let file = files.open(&Mapping {
        time: Default::default(),
        pid,
        start: 0,
        len: 0,
        file_offset: 0,
        path: &identity.path,
        build_id: identity.build_id.clone(),
        inode: identity.inode,
    })?;
    let again = Elf::read(&*file.bytes).ok_or(ModuleMiss::Malformed)?;
    if again.build_id != elf.build_id {
        return Err(ModuleMiss::Replaced);
    }
    Ok(Tables::read(elf, &*file.bytes))
}

/// Names that the kernel gives to memory without a file: `//anon` (perf), `[heap]`, `[stack]`, `[anon:name]`, and shared
/// memory by its device. See `perf_event_mmap_event` in kernel/events/core.c.
fn is_anonymous(path: &[u8]) -> bool {
    const PREFIXES: [&[u8]; 6] = [
        b"//anon",
        b"[",
        b"/dev/zero",
        b"/SYSV",
        b"anon_inode:",
        b"/anon_hugepage",
    ];
    path.is_empty() || (path != b"[vdso]" && PREFIXES.iter().any(|prefix| path.starts_with(prefix)))
}

#[cfg(unix)]
fn path_of(path: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    std::ffi::OsStr::from_bytes(path).into()
}

#[cfg(not(unix))]
fn path_of(path: &[u8]) -> PathBuf {
    String::from_utf8_lossy(path).into_owned().into()
}
