//! The shared cache of dyld: the libraries of macOS, which has no files of their own since version 11.
//! `dyld_cache_format.h` of dyld.
//!
//! What look-ups need of a library is put together as a file of its own: its code, its symbols out of the table of all
//! libraries, and where its functions begin. All else is then as for other Mach-O files.

use std::fs;
use std::path::{Path, PathBuf};

use object::endian::{U32, U64};
use object::pod::bytes_of;
use object::read::macho::{DyldCache, DyldCacheImage, MachOFile64, Nlist, Segment};
use object::{Endianness, Object, ObjectSection, macho};

use super::mach_o::{MachO, command, exports_trie};
use super::object_file::{ObjectFile, is_code};
use crate::error::SymbolError;
use crate::sys::Mapping;

/// Where macOS has its caches: since version 13, and before.
const FOLDERS: [&str; 2] = [
    "/System/Volumes/Preboot/Cryptexes/OS/System/Library/dyld",
    "/System/Library/dyld",
];

/// Most files of a cache. Those of macOS 15 have about 60.
const MAX_FILES: usize = 512;

/// Most bytes of a library's code to copy. WebCore, a large one, has about 50 MB.
const MAX_CODE_BYTES: usize = 128 << 20;

/// Most bytes of a library's names, and of each further table, to copy.
const MAX_TABLE_BYTES: usize = 64 << 20;

/// The caches that may have a library, caches in the user's folders first. Further files of a cache have another
/// ending: `dyld_shared_cache_arm64e.01`.
pub(crate) fn caches(library: &Path, symbol_dirs: &[PathBuf]) -> Vec<PathBuf> {
    if !["/usr/lib", "/System"].iter().any(|folder| library.starts_with(folder)) {
        return Vec::new();
    }
    let is_first = |name: &str| name.starts_with("dyld_shared_cache_") && !name.contains('.');
    let folders = symbol_dirs.iter().map(PathBuf::as_path).chain(FOLDERS.map(Path::new));
    let in_folder = |folder: &Path| {
        let files = fs::read_dir(folder).into_iter().flatten().flatten();
        let first = files.filter(|file| file.file_name().to_str().is_some_and(is_first));
        let mut caches: Vec<PathBuf> = first.map(|file| file.path()).collect();
        caches.sort();
        caches
    };
    folders.flat_map(in_folder).collect()
}

/// A library of a cache. `None` if the cache has no library of this path.
pub(crate) fn open(cache: &Path, library: &Path) -> Result<Option<ObjectFile>, SymbolError> {
    let unreadable = |path: &Path, error: &dyn std::fmt::Display| SymbolError::unreadable(path, error);
    let first = Mapping::open(cache).map_err(|error| unreadable(cache, &error))?;
    let endings =
        DyldCache::<Endianness>::subcache_suffixes(first.bytes()).map_err(|error| unreadable(cache, &error))?;
    if endings.len() > MAX_FILES {
        return Err(unreadable(cache, &"it names more files than any cache has"));
    }
    let mut further = Vec::new();
    for ending in endings {
        let mut path = cache.as_os_str().to_owned();
        path.push(&ending);
        further.push(Mapping::open(Path::new(&path)).map_err(|error| unreadable(Path::new(&path), &error))?);
    }
    let bytes: Vec<&[u8]> = further.iter().map(Mapping::bytes).collect();
    let parsed = DyldCache::<Endianness>::parse(first.bytes(), &bytes).map_err(|error| unreadable(cache, &error))?;
    let is_it = |image: &DyldCacheImage<'_, '_>| image.path().is_ok_and(|path| Path::new(path) == library);
    let Some(image) = parsed.images().find(is_it) else {
        return Ok(None);
    };
    let bytes = MachOFile64::parse_dyld_cache_image(&image)
        .map(|object| put_together(&parsed, &object))
        .map_err(|error| unreadable(cache, &error))?;
    let is_unchanged = further.iter().chain([&first]).all(Mapping::check_unchanged);
    if is_unchanged {
        ObjectFile::from_bytes(cache, bytes).map(Some)
    } else {
        Err(SymbolError::Rewritten { path: cache.to_owned() })
    }
}

/// A file with what look-ups read: `mach-o/loader.h`.
fn put_together(cache: &DyldCache<'_>, object: &MachO<'_>) -> Vec<u8> {
    let endian = object.endian();
    let link_edit = segment(object, macho::SEG_LINKEDIT)
        .and_then(|segment| cache.data_and_offset_for_address(segment.vmaddr.get(endian)))
        .map_or(&[][..], |(data, _)| data);
    let mut out = FileBuilder {
        endian,
        commands: Vec::new(),
        count: 0,
        content: Vec::new(),
        content_at: content_at(object),
    };
    out.put_code(object);
    if let Ok(Some(uuid)) = object.mach_uuid() {
        out.command(&macho::UuidCommand {
            cmd: U32::new(endian, macho::LC_UUID),
            cmdsize: U32::new(endian, size_of::<macho::UuidCommand<Endianness>>() as u32),
            uuid,
        });
    }
    out.put_symbols(object);
    let starts = command(object, macho::LC_FUNCTION_STARTS).and_then(|command| command.data(endian, link_edit).ok());
    out.put_data(macho::LC_FUNCTION_STARTS, starts.unwrap_or_default());
    out.put_data(
        macho::LC_DYLD_EXPORTS_TRIE,
        exports_trie(object, link_edit).unwrap_or_default(),
    );
    out.finish(object)
}

fn segment<'a>(object: &MachO<'a>, name: &str) -> Option<&'a macho::SegmentCommand64<Endianness>> {
    let mut commands = object.macho_load_commands().ok()?;
    while let Some(command) = commands.next().ok()? {
        if let Some((segment, _)) = command
            .segment_64()
            .ok()?
            .filter(|(segment, _)| segment.name() == name.as_bytes())
        {
            return Some(segment);
        }
    }
    None
}

/// Room for header and commands: one of each kind, and a section for each of the image.
fn content_at(object: &MachO<'_>) -> usize {
    const COMMANDS: usize = 256;
    let sections = object.sections().count() * size_of::<macho::Section64<Endianness>>();
    let header = size_of::<macho::MachHeader64<Endianness>>() + size_of::<macho::SegmentCommand64<Endianness>>();
    (header + COMMANDS + sections).next_multiple_of(16)
}

/// A file that grows.
struct FileBuilder {
    endian: Endianness,
    commands: Vec<u8>,
    count: u32,
    content: Vec<u8>,
    /// Where the content begins in the file.
    content_at: usize,
}

impl FileBuilder {
    fn command<T: object::pod::Pod>(&mut self, command: &T) {
        self.commands.extend(bytes_of(command));
        self.count += 1;
    }

    /// Appends content. Returns its offset in the file.
    fn append(&mut self, content: &[u8]) -> u32 {
        self.content.resize(self.content.len().next_multiple_of(16), 0);
        let offset = self.content_at + self.content.len();
        self.content.extend_from_slice(content);
        u32::try_from(offset).unwrap_or(u32::MAX)
    }

    fn put_code(&mut self, object: &MachO<'_>) {
        let endian = self.endian;
        let mut left = MAX_CODE_BYTES;
        let mut sections = Vec::new();
        for section in object.sections().filter(is_code) {
            let code = section.data().ok().filter(|code| code.len() <= left);
            left -= code.map_or(0, <[u8]>::len);
            // Code that is not copied is behind the end of the file.
            let offset = code.map_or(u32::MAX, |code| self.append(code));
            sections.push(macho::Section64 {
                offset: U32::new(endian, offset),
                reloff: U32::new(endian, 0),
                nreloc: U32::new(endian, 0),
                ..*section.macho_section()
            });
        }
        let Some(text) = segment(object, macho::SEG_TEXT) else {
            return;
        };
        let bytes = size_of::<macho::SegmentCommand64<Endianness>>() + size_of_val(&*sections);
        self.command(&macho::SegmentCommand64 {
            cmdsize: U32::new(endian, bytes as u32),
            fileoff: U64::new(endian, 0),
            filesize: U64::new(endian, 0),
            nsects: U32::new(endian, sections.len() as u32),
            ..*text
        });
        sections
            .iter()
            .for_each(|section| self.commands.extend(bytes_of(section)));
    }

    /// Those of the image's own functions and data.
    fn put_symbols(&mut self, object: &MachO<'_>) {
        let (endian, table) = (self.endian, object.macho_symbol_table());
        let (mut symbols, mut count, mut names) = (Vec::new(), 0u32, vec![0]);
        for symbol in table.symbols() {
            if symbol.is_stab() || symbol.n_type().typ() != macho::N_SECT {
                continue;
            }
            // A table of names that has no end is searched once.
            let Ok(name) = symbol.name(endian, table.strings()) else {
                break;
            };
            if names.len() + name.len() >= MAX_TABLE_BYTES {
                break;
            }
            symbols.extend(bytes_of(&macho::Nlist64 {
                n_strx: U32::new(endian, names.len() as u32),
                ..*symbol
            }));
            count += 1;
            names.extend_from_slice(name);
            names.push(0);
        }
        let (symbols_at, names_at) = (self.append(&symbols), self.append(&names));
        self.command(&macho::SymtabCommand {
            cmd: U32::new(endian, macho::LC_SYMTAB),
            cmdsize: U32::new(endian, size_of::<macho::SymtabCommand<Endianness>>() as u32),
            symoff: U32::new(endian, symbols_at),
            nsyms: U32::new(endian, count),
            stroff: U32::new(endian, names_at),
            strsize: U32::new(endian, names.len() as u32),
        });
    }

    fn put_data(&mut self, kind: macho::LoadCommandType, data: &[u8]) {
        let endian = self.endian;
        let data = if data.len() <= MAX_TABLE_BYTES { data } else { &[] };
        let offset = self.append(data);
        self.command(&macho::LinkeditDataCommand {
            cmd: U32::new(endian, kind),
            cmdsize: U32::new(endian, size_of::<macho::LinkeditDataCommand<Endianness>>() as u32),
            dataoff: U32::new(endian, offset),
            datasize: U32::new(endian, data.len() as u32),
        });
    }

    fn finish(self, object: &MachO<'_>) -> Vec<u8> {
        let mut file = bytes_of(&macho::MachHeader64 {
            ncmds: U32::new(self.endian, self.count),
            sizeofcmds: U32::new(self.endian, self.commands.len() as u32),
            ..*object.macho_header()
        })
        .to_vec();
        file.extend(self.commands);
        file.resize(self.content_at, 0);
        file.extend(self.content);
        file
    }
}
