//! Finds the object files that a debug map names, and refuses those that were written to since the program was linked.

use std::ffi::OsStr;
use std::fs;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use object::read::archive::ArchiveFile;
use object::read::macho::MachOSection64;
use object::{Endianness, Object, ObjectSection, macho};
use rustc_hash::FxHashMap;

use crate::error::SymbolError;
use crate::files::object_file::ObjectFile;
use crate::files::options::SymbolOptions;
use crate::files::universal;
use crate::sys::Mapping;

/// Why an object file is not used.
pub(super) enum ObjectFileMiss {
    Missing,
    /// It was written to after the program was linked.
    Changed,
    Damaged(SymbolError),
}

/// Where to look for object files, and the archives that were opened.
pub(super) struct ObjectFiles {
    /// Folder of the linked file: relative paths start there.
    folder: PathBuf,
    symbol_dirs: Vec<PathBuf>,
    arch: Option<&'static str>,
    /// When the linked file was written, in seconds since 1970.
    linked: Option<i64>,
    archives: FxHashMap<PathBuf, Archive>,
}

/// An archive of object files.
struct Archive {
    mapping: Arc<Mapping>,
    /// Place and time of the members, by name, which need not be unique.
    members: FxHashMap<Vec<u8>, Vec<(Range<usize>, u64)>>,
}

impl ObjectFiles {
    pub(super) fn new(image: &ObjectFile, options: &SymbolOptions) -> ObjectFiles {
        let path = image.path();
        ObjectFiles {
            folder: path.parent().unwrap_or(Path::new("/")).to_owned(),
            symbol_dirs: options.symbol_dirs.clone(),
            arch: image.arch(),
            linked: fs::metadata(path).ok().map(|metadata| metadata.mtime()),
            archives: FxHashMap::default(),
        }
    }

    /// Where an object file or an archive may be, the place that the linker knew first.
    pub(super) fn candidates(&self, file: &[u8]) -> Vec<PathBuf> {
        let file = Path::new(OsStr::from_bytes(file));
        let mut paths = vec![self.folder.join(file)];
        for dir in &self.symbol_dirs {
            paths.extend(file.is_relative().then(|| dir.join(file)));
            paths.extend(file.file_name().map(|name| dir.join(name)));
        }
        paths
    }

    /// Opens the object file that the map names by this path, written at this time. `functions` finds what is wanted of
    /// a file; of several members with one name it is the one with the most.
    pub(super) fn open<T>(
        &mut self,
        path: &[u8],
        written: u64,
        functions: impl Fn(&ObjectFile) -> Vec<T>,
    ) -> Result<(ObjectFile, Vec<T>), ObjectFileMiss> {
        let (file, member) = file_and_member(path);
        let mut why = ObjectFileMiss::Missing;
        for path in self.candidates(file) {
            let Ok(metadata) = fs::metadata(&path) else { continue };
            let opened = match member {
                None if self.is_of_this_time(written, metadata.mtime(), metadata.mtime()) => self.open_file(&path),
                Some(member) => self.open_members(&path, member, written, metadata.mtime()),
                None => Ok(Vec::new()),
            };
            let opened = opened.and_then(|files| files.into_iter().map(checked).collect::<Result<Vec<_>, _>>());
            let opened = match opened {
                Ok(opened) => opened,
                Err(error) => {
                    why = ObjectFileMiss::Damaged(error);
                    continue;
                }
            };
            let with_functions = opened.into_iter().map(|file| {
                let found = functions(&file);
                (file, found)
            });
            match with_functions.max_by_key(|(_, found)| found.len()) {
                Some(best) => return Ok(best),
                None if matches!(why, ObjectFileMiss::Missing) => why = ObjectFileMiss::Changed,
                None => {}
            }
        }
        Err(why)
    }

    /// The map's time of a file must be its own. Without one (builds that are to be the same each time), the file on
    /// disk must not be younger than the program.
    fn is_of_this_time(&self, in_map: u64, own: i64, of_file: i64) -> bool {
        match i64::try_from(in_map) {
            Ok(0) => self.linked.is_some_and(|linked| of_file <= linked),
            Ok(in_map) => in_map == own,
            Err(_) => false,
        }
    }

    fn open_file(&self, path: &Path) -> Result<Vec<ObjectFile>, SymbolError> {
        let mapping = Mapping::open(path).map_err(|error| SymbolError::unreadable(path, error))?;
        let part = universal::part_of(mapping.bytes(), self.arch)
            .ok_or_else(|| SymbolError::unreadable(path, "it has no part for the processor of the program"))?;
        Ok(vec![ObjectFile::copied(path, mapping, part)?])
    }

    /// The members of this name and time.
    fn open_members(
        &mut self,
        path: &Path,
        member: &[u8],
        written: u64,
        of_file: i64,
    ) -> Result<Vec<ObjectFile>, SymbolError> {
        if !self.archives.contains_key(path) {
            let archive = Archive::open(path, self.arch)?;
            self.archives.insert(path.to_owned(), archive);
        }
        let Some(archive) = self.archives.get(path) else {
            return Ok(Vec::new());
        };
        let members = archive.members.get(member).map_or(&[][..], Vec::as_slice);
        let of_this_time = members.iter().filter(|(_, own)| {
            let own = i64::try_from(*own).unwrap_or(i64::MAX);
            self.is_of_this_time(written, own, of_file)
        });
        of_this_time
            .map(|(part, _)| ObjectFile::part(path, &archive.mapping, part.clone()))
            .collect()
    }

    /// Heap bytes, about.
    pub(super) fn held_bytes(&self) -> usize {
        const MEMBER_BYTES: usize = 100;
        self.archives
            .values()
            .map(|archive| archive.members.len() * MEMBER_BYTES)
            .sum()
    }
}

impl Archive {
    fn open(path: &Path, arch: Option<&str>) -> Result<Archive, SymbolError> {
        let mapping = Mapping::open(path).map_err(|error| SymbolError::unreadable(path, error))?;
        let damaged = || SymbolError::unreadable(path, "not a valid archive; is it complete?");
        let whole = universal::part_of(mapping.bytes(), arch).ok_or_else(damaged)?;
        let bytes = mapping.bytes().get(whole.clone()).unwrap_or_default();
        let archive = ArchiveFile::parse(bytes).map_err(|_| damaged())?;
        let mut members: FxHashMap<Vec<u8>, Vec<(Range<usize>, u64)>> = FxHashMap::default();
        // What stands before the damage is valid.
        for member in archive
            .members()
            .map_while(Result::ok)
            .filter(|member| !member.is_thin())
        {
            let (offset, size) = member.file_range();
            let (Ok(offset), Ok(size)) = (usize::try_from(offset), usize::try_from(size)) else {
                continue;
            };
            let Some(end) = offset.checked_add(size).filter(|end| *end <= bytes.len()) else {
                continue;
            };
            let part = whole.start + offset..whole.start + end;
            members
                .entry(member.name().to_vec())
                .or_default()
                .push((part, member.date().unwrap_or(0)));
        }
        Ok(Archive {
            mapping: Arc::new(mapping),
            members,
        })
    }
}

/// `/build/lib.a(app.o)` is the member `app.o` of an archive.
pub(super) fn file_and_member(path: &[u8]) -> (&[u8], Option<&[u8]>) {
    let of_archive = path.strip_suffix(b")").and_then(|path| {
        let open = memchr::memrchr(b'(', path)?;
        Some((&path[..open], Some(&path[open + 1..])))
    });
    of_archive.unwrap_or((path, None))
}

/// Refuses debug info that is not complete without its relocations. LLVM's compilers write addresses within their
/// section, which are right as they are (`r_extern` is 0: `mach-o/reloc.h`).
fn checked(file: ObjectFile) -> Result<ObjectFile, SymbolError> {
    let is_relative = match file.object()? {
        object::File::MachO64(object) => {
            let endian = object.endian();
            let is_debug_info = |section: &MachOSection64<'_, '_>| section.segment_name() == Ok(Some("__DWARF"));
            let sections = object.sections().filter(is_debug_info);
            let relocations = sections.flat_map(|section| section.macho_relocations().unwrap_or_default());
            // Sections of hostile files share their relocations.
            let most = file.len() / size_of::<macho::Relocation<Endianness>>();
            relocations
                .take(most)
                .all(|relocation| !relocation.info(endian).r_extern)
        }
        _ => false,
    };
    let path = file.path().to_owned();
    if is_relative {
        Ok(file)
    } else {
        Err(SymbolError::unreadable(
            path,
            "its debug info has addresses relative to symbols, which sprof does not read; make a .dSYM with `dsymutil`",
        ))
    }
}
