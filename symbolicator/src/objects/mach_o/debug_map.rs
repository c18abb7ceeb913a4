//! Debug info that the linker left in the object files. The linked file has a map: for each function the object file
//! that it is from (stabs N_OSO and N_FUN, `mach-o/stab.h`).
//!
//! A function has other addresses in its object file. The linker may place each function of a file elsewhere and drops
//! some, so each look-up is translated by the symbol of its function. An object file is opened at the first look-up of
//! one of its functions.

use std::borrow::Cow;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use names::symbol::{FunctionSymbol, SourceFrame};
use object::macho;
use object::read::macho::Nlist;
use rustc_hash::FxHashMap;

use super::object_files::{ObjectFileMiss, ObjectFiles, file_and_member};
use super::symbols::StringTable;
use crate::error::SymbolError;
use crate::files::object_file::ObjectFile;
use crate::files::options::SymbolOptions;
use crate::files::separate::SplitDwarfPaths;
use crate::objects::dwarf::{Dwarf, DwarfFiles};
use crate::sys::identity_of;

/// The map of a linked file, and what was read of its object files.
pub(in crate::objects) struct DebugMap {
    image: Arc<ObjectFile>,
    /// By address.
    functions: Vec<MappedFunction>,
    /// The places of all functions, by object file.
    by_object: Vec<u32>,
    objects: Vec<DebugMapObject>,
    files: ObjectFiles,
    cache: Option<PathBuf>,
    /// Object files that are not used, a sentence each, since the last call of [`DebugMap::take_flaws`].
    damage: Vec<String>,
}

/// A function of the image.
struct MappedFunction {
    /// Relative address.
    start: u64,
    size: u64,
    object: u32,
    /// File offset of the name of its symbol.
    name: u64,
    /// Its address in the object file. `None` until that was read, and where it has no such function.
    in_object: Option<u64>,
}

/// An object file, as the map names it.
struct DebugMapObject {
    /// File offset of its path: `/build/app.o`, or `/build/lib.a(app.o)`.
    path: u64,
    /// When it was written, in seconds since 1970. 0 if the linker or the archive keeps no times.
    written: u64,
    state: ObjectFileState,
}

enum ObjectFileState {
    Unread,
    Missing,
    /// It is changed or damaged.
    Unusable,
    Read(Box<Dwarf>),
}

impl DebugMap {
    /// `None` if the linker left no map.
    pub(in crate::objects) fn read(image: &Arc<ObjectFile>, options: &SymbolOptions) -> Option<DebugMap> {
        if !image.is_mach_o() {
            return None;
        }
        let object::File::MachO64(object) = image.object().ok()? else {
            return None;
        };
        let (endian, strings) = (object.endian(), StringTable::find(&object)?);
        let mut map = DebugMap {
            image: Arc::clone(image),
            functions: Vec::new(),
            by_object: Vec::new(),
            objects: Vec::new(),
            files: ObjectFiles::new(image, options),
            cache: options.cache.clone(),
            damage: Vec::new(),
        };
        // Hostile maps name one file many times.
        let mut known: FxHashMap<(&[u8], u64), u32> = FxHashMap::default();
        let mut paths = BoundedTexts::new(image);
        let (mut current, mut function) = (None, None);
        for symbol in object.macho_symbol_table().symbols() {
            let value = symbol.n_value(endian);
            let name = strings.raw_offset(symbol.n_strx(endian));
            let name = name.filter(|name| !starts_empty(image, *name));
            match symbol.n_type().stab() {
                Some(macho::N_SO) => current = None,
                Some(macho::N_OSO) => {
                    current = name.and_then(|path| {
                        let new = map.objects.len() as u32;
                        let file = paths.read(path)?;
                        let object = *known.entry((file, value)).or_insert(new);
                        if object == new {
                            map.objects.push(DebugMapObject {
                                path,
                                written: value,
                                state: ObjectFileState::Unread,
                            });
                        }
                        Some(object)
                    });
                }
                // The second one of a function has its size.
                Some(macho::N_FUN) => match (name, current, function.take()) {
                    (Some(name), _, _) => function = Some((value, name)),
                    (None, Some(object), Some((start, name))) => map.functions.push(MappedFunction {
                        start: start.wrapping_sub(image.base_svma()),
                        size: value,
                        object,
                        name,
                        in_object: None,
                    }),
                    _ => {}
                },
                _ => {}
            }
        }
        // A look-up takes the last one. lld gives the further names of a function the size 0.
        map.functions.sort_by_key(|function| (function.start, function.size));
        map.by_object = (0..map.functions.len() as u32).collect();
        let functions = &map.functions;
        map.by_object
            .sort_by_key(|place| functions.get(*place as usize).map(|function| function.object));
        (!map.functions.is_empty()).then_some(map)
    }

    /// The state of all object files: answers are kept as long as it is the same.
    pub(in crate::objects) fn identity(&self) -> Vec<u8> {
        let mut identity = Vec::new();
        for object in &self.objects {
            let path = text(&self.image, object.path);
            let (file, _) = file_and_member(path);
            let found = self
                .files
                .candidates(file)
                .into_iter()
                .find_map(|path| fs::metadata(path).ok());
            identity.extend_from_slice(&(path.len() as u64).to_le_bytes());
            identity.extend_from_slice(path);
            identity.extend(found.as_ref().map(identity_of).unwrap_or_default());
        }
        identity
    }

    /// The frames at a relative address, innermost first, and the outer function.
    pub(in crate::objects) fn find(&mut self, address: u64) -> (Vec<SourceFrame>, Option<FunctionSymbol>) {
        let Some((dwarf, start, to_object)) = self.object_of(address) else {
            return (Vec::new(), None);
        };
        let (frames, function) = dwarf.find(address.wrapping_add(to_object));
        // The line table of an object file goes on over the padding behind a function, which is in no function. All of
        // assembly is in none.
        if function.is_none() && dwarf.find(start.wrapping_add(to_object)).1.is_some() {
            return (Vec::new(), None);
        }
        let function = function.map(|function| FunctionSymbol {
            start: function.start.wrapping_sub(to_object),
            ..function
        });
        (frames, function)
    }

    /// The debug info of the function that holds a relative address, the start of the function, and what to add to its
    /// addresses there.
    fn object_of(&mut self, address: u64) -> Option<(&mut Dwarf, u64, u64)> {
        let after = self.functions.partition_point(|function| function.start <= address);
        let at = after.checked_sub(1)?;
        let function = self
            .functions
            .get(at)
            .filter(|function| address - function.start < function.size)?;
        let index = function.object;
        if let ObjectFileState::Unread = self.objects.get(index as usize)?.state {
            let state = self.open(index);
            self.objects.get_mut(index as usize)?.state = state;
        }
        let function = self.functions.get(at)?;
        let (start, to_object) = (function.start, function.in_object?.wrapping_sub(function.start));
        match &mut self.objects.get_mut(index as usize)?.state {
            ObjectFileState::Read(dwarf) => Some((dwarf, start, to_object)),
            ObjectFileState::Unread | ObjectFileState::Missing | ObjectFileState::Unusable => None,
        }
    }

    fn open(&mut self, index: u32) -> ObjectFileState {
        let Some(object) = self.objects.get(index as usize) else {
            return ObjectFileState::Unusable;
        };
        let (path, written) = (text(&self.image, object.path), object.written);
        let wanted = functions_of(index, &self.image, &self.functions, &self.by_object);
        let opened = self.files.open(path, written, |file| addresses(file, &wanted));
        let opened =
            opened.and_then(|(file, found)| Ok((self.read_dwarf(file).map_err(ObjectFileMiss::Damaged)?, found)));
        match opened {
            Ok((dwarf, found)) => {
                for (place, address) in found {
                    if let Some(function) = self.functions.get_mut(place) {
                        function.in_object = Some(address);
                    }
                }
                ObjectFileState::Read(Box::new(dwarf))
            }
            Err(ObjectFileMiss::Missing) => ObjectFileState::Missing,
            Err(ObjectFileMiss::Changed) => {
                self.damage.push(format!(
                    "{} has debug info of {}, and was written to after that was linked: it is not used; link and record again",
                    path_text(path),
                    self.image.path().display()
                ));
                ObjectFileState::Unusable
            }
            Err(ObjectFileMiss::Damaged(error)) => {
                self.damage.push(error.to_string());
                ObjectFileState::Unusable
            }
        }
    }

    fn read_dwarf(&self, file: ObjectFile) -> Result<Dwarf, SymbolError> {
        let split = SplitDwarfPaths::new(file.path().to_owned(), Vec::new());
        Dwarf::open(DwarfFiles {
            main: Arc::new(file),
            supplementary: None,
            split,
            cache: self.cache.clone(),
        })
    }

    fn read_objects(&self) -> impl Iterator<Item = &Dwarf> {
        self.objects.iter().filter_map(|object| match &object.state {
            ObjectFileState::Read(dwarf) => Some(&**dwarf),
            ObjectFileState::Unread | ObjectFileState::Missing | ObjectFileState::Unusable => None,
        })
    }

    fn read_objects_mut(&mut self) -> impl Iterator<Item = &mut Dwarf> {
        self.objects.iter_mut().filter_map(|object| match &mut object.state {
            ObjectFileState::Read(dwarf) => Some(&mut **dwarf),
            ObjectFileState::Unread | ObjectFileState::Missing | ObjectFileState::Unusable => None,
        })
    }

    /// Starts a batch of look-ups.
    pub(in crate::objects) fn begin_batch(&mut self) {
        self.read_objects_mut().for_each(Dwarf::begin_batch);
    }

    /// Damage found since the last call, each as a sentence.
    pub(in crate::objects) fn take_flaws(&mut self) -> Vec<String> {
        let mut flaws = std::mem::take(&mut self.damage);
        flaws.extend(self.read_objects_mut().flat_map(Dwarf::take_flaws));
        flaws
    }

    /// The object files that were read.
    pub(in crate::objects) fn files(&self) -> impl Iterator<Item = &ObjectFile> {
        self.read_objects().map(Dwarf::main_file)
    }

    /// Which object files were needed and not found, a sentence.
    pub(in crate::objects) fn note(&self) -> Option<String> {
        let is_missing = |object: &&DebugMapObject| matches!(object.state, ObjectFileState::Missing);
        let mut missing = self.objects.iter().filter(is_missing);
        let first = path_text(text(&self.image, missing.next()?.path));
        Some(format!(
            "the debug info of {} is in object files of which {} were not found, the first is {first}: give their folder with --symbol-dir, or make a \
             .dSYM with `dsymutil` where the program is built",
            self.image.path().display(),
            missing.count() + 1
        ))
    }

    /// Heap bytes, about.
    pub(in crate::objects) fn held_bytes(&self) -> usize {
        let of_object = |dwarf: &Dwarf| dwarf.held_bytes() + dwarf.main_file().held_bytes();
        let objects = self.read_objects().map(of_object).sum::<usize>();
        size_of_val(&*self.functions)
            + size_of_val(&*self.by_object)
            + size_of_val(&*self.objects)
            + objects
            + self.files.held_bytes()
    }
}

fn starts_empty(file: &ObjectFile, offset: u64) -> bool {
    let first = usize::try_from(offset).ok().and_then(|offset| file.get(offset));
    first.is_none_or(|first| *first == 0)
}

/// Longest name that is read.
const MAX_TEXT_BYTES: usize = 64 << 10;

/// The text at a file offset, up to its end.
fn text(file: &ObjectFile, offset: u64) -> &[u8] {
    let rest = usize::try_from(offset)
        .ok()
        .and_then(|offset| file.get(offset..))
        .unwrap_or_default();
    let rest = &rest[..rest.len().min(MAX_TEXT_BYTES)];
    memchr::memchr(0, rest).map_or(rest, |end| &rest[..end])
}

/// Reads texts of a file, in all at most as many bytes as the file has. In hostile files many symbols share a long
/// text.
struct BoundedTexts<'f> {
    file: &'f ObjectFile,
    /// Bytes that may still be read.
    left: usize,
}

impl<'f> BoundedTexts<'f> {
    fn new(file: &'f ObjectFile) -> BoundedTexts<'f> {
        BoundedTexts { file, left: file.len() }
    }

    /// The text at a file offset; `None` once too much was read.
    fn read(&mut self, offset: u64) -> Option<&'f [u8]> {
        if self.left == 0 {
            return None;
        }
        let text = text(self.file, offset);
        self.left = self.left.saturating_sub(text.len());
        Some(text)
    }
}

fn path_text(path: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(path)
}

/// The places of an object file's functions, by name.
fn functions_of<'f>(
    object: u32,
    image: &'f ObjectFile,
    functions: &[MappedFunction],
    by_object: &[u32],
) -> FxHashMap<&'f [u8], Vec<usize>> {
    let of = |place: &u32| functions.get(*place as usize).map_or(0, |function| function.object);
    let from = by_object.partition_point(|place| of(place) < object);
    let own = by_object.get(from..).unwrap_or_default().iter();
    let mut names = BoundedTexts::new(image);
    let mut wanted: FxHashMap<&[u8], Vec<usize>> = FxHashMap::default();
    for place in own.take_while(|place| of(place) == object).map(|place| *place as usize) {
        if let Some(name) = functions.get(place).and_then(|function| names.read(function.name)) {
            wanted.entry(name).or_default().push(place);
        }
    }
    wanted
}

/// The addresses of the wanted functions in an object file. A name that stands for several is none of them.
fn addresses(file: &ObjectFile, wanted: &FxHashMap<&[u8], Vec<usize>>) -> Vec<(usize, u64)> {
    let Ok(object::File::MachO64(object)) = file.object() else {
        return Vec::new();
    };
    let Some(strings) = StringTable::find(&object) else {
        return Vec::new();
    };
    let endian = object.endian();
    let mut names = BoundedTexts::new(file);
    let mut found: FxHashMap<&[u8], Option<u64>> = FxHashMap::default();
    for symbol in object.macho_symbol_table().symbols() {
        if symbol.n_type().is_stab() || symbol.n_type().typ() != macho::N_SECT {
            continue;
        }
        let name = strings
            .raw_offset(symbol.n_strx(endian))
            .and_then(|name| names.read(name));
        let Some((name, _)) = name.and_then(|name| wanted.get_key_value(name)) else {
            continue;
        };
        let address = symbol.n_value(endian);
        let is_same = |known: &mut Option<u64>| *known = known.filter(|known| *known == address);
        found.entry(name).and_modify(is_same).or_insert(Some(address));
    }
    let places = |(name, address): (&[u8], Option<u64>)| {
        let places = wanted.get(name).filter(|places| places.len() == 1)?;
        Some((*places.first()?, address?))
    };
    found.into_iter().filter_map(places).collect()
}
