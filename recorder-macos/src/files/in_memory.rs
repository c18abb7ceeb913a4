//! A Mach-O file, put together from an image in memory.
//!
//! The shared cache has rearranged the segments of its images, and all of them share one `__LINKEDIT` of some hundred
//! megabytes. So the file has the image's `__TEXT`, which has the unwind tables, and behind it a `__LINKEDIT` with the
//! image's own symbols and its list of functions alone. Memory is read when the file is, and symbols are copied when
//! the first of them is asked for: most images have no samples. Segments that are left out have no bytes. What points
//! into a left-out part is emptied.

use std::io;
use std::sync::OnceLock;

use object::macho::{
    LC_CODE_SIGNATURE, LC_DATA_IN_CODE, LC_DYLD_CHAINED_FIXUPS, LC_DYLD_EXPORTS_TRIE, LC_DYLD_INFO, LC_DYLD_INFO_ONLY,
    LC_DYSYMTAB, LC_FUNCTION_STARTS, LC_SEGMENT_64, LC_SEGMENT_SPLIT_INFO, LC_SYMTAB, SEG_LINKEDIT,
};
use recording::little_endian::{u32_at, u64_at};
use recording::sink::ReadAt;

use crate::images::header::{ImageHeader, Segment};
use crate::kernel::MachError;

/// Bytes of code of one image at most.
const MOST_TEXT: u64 = 1 << 30;
/// Symbols of one image at most.
const MOST_SYMBOLS: u32 = 1 << 20;
/// `nlist_64`.
const SYMBOL: usize = 16;
/// Bytes for the name of a symbol on average: the size of the file is known before the names are. Names without room
/// are left out.
const NAME: usize = 256;
/// Names are read in pieces of this size, which end with pages.
const PIECE: u64 = 4 << 10;
/// Maximum bytes of a name. Names of C++ and Swift are long.
const MOST_NAME: usize = 16 << 10;
/// Bytes of the list of functions at most: a function has one or two.
const MOST_STARTS: u32 = 16 << 20;

/// An image as a file. `R` fills a buffer from memory.
pub(super) struct ImageFile<R> {
    header: ImageHeader,
    text: Segment,
    /// From addresses in load commands to those in memory.
    slide: u64,
    /// The header and load commands of the file.
    commands: Vec<u8>,
    symbols: Option<SymbolTable>,
    starts: Option<FunctionStarts>,
    /// The symbols, then their names.
    named: OnceLock<Vec<u8>>,
    read: R,
}

/// The symbol table in memory: first symbol, how many, first name, bytes of names.
struct SymbolTable {
    at: u64,
    count: u32,
    names_at: u64,
    names_len: u64,
}

/// The list of functions in memory. Without it, the unwinder takes functions with equal compact entries for one.
struct FunctionStarts {
    at: u64,
    len: u32,
}

impl<R: Fn(u64, &mut [u8]) -> Result<(), MachError>> ImageFile<R> {
    /// The image whose header is at `address`. `None` if it has no code, or more than [`MOST_TEXT`].
    pub(super) fn new(header: ImageHeader, address: u64, read: R) -> Option<ImageFile<R>> {
        let text = header.text().filter(|text| text.size <= MOST_TEXT)?;
        let mut image = ImageFile {
            slide: address.wrapping_sub(text.address),
            commands: header.bytes().to_vec(),
            symbols: None,
            starts: None,
            named: OnceLock::new(),
            header,
            text,
            read,
        };
        image.symbols = image.find_symbols();
        image.starts = image.find_starts();
        image.commands = image.commands_of_file();
        Some(image)
    }

    fn count(&self) -> usize {
        self.symbols.as_ref().map_or(0, |symbols| symbols.count as usize)
    }

    fn named_len(&self) -> usize {
        self.count() * (SYMBOL + NAME)
    }

    fn starts_len(&self) -> usize {
        self.starts.as_ref().map_or(0, |starts| starts.len as usize)
    }

    fn linkedit_len(&self) -> usize {
        self.named_len() + self.starts_len()
    }

    fn commands_of_file(&self) -> Vec<u8> {
        let linkedit_at = self.text.size as usize;
        let mut commands = self.header.bytes().to_vec();
        self.place_segments(&mut commands, linkedit_at, linkedit_at + self.linkedit_len());
        self.empty_references(&mut commands);
        if let Some(symtab) = self.header.commands(LC_SYMTAB.0).next() {
            let names_at = linkedit_at + self.count() * SYMBOL;
            let numbers = [linkedit_at, self.count(), names_at, self.count() * NAME];
            for (index, number) in numbers.into_iter().enumerate() {
                put32(&mut commands, symtab.start + 8 + 4 * index, number);
            }
        }
        if let Some(list) = self.header.commands(LC_FUNCTION_STARTS.0).next() {
            put32(&mut commands, list.start + 8, linkedit_at + self.named_len());
            put32(&mut commands, list.start + 12, self.starts_len());
        }
        commands
    }

    /// The symbols, then their names. All zeros if the table can't be read.
    fn named(&self) -> &[u8] {
        self.named.get_or_init(|| {
            let mut bytes = vec![0; self.named_len()];
            if let Some(table) = &self.symbols {
                let (symbols, names) = bytes.split_at_mut(self.count() * SYMBOL);
                copy_symbols(table, &self.read, symbols, names);
            }
            bytes
        })
    }

    /// Writes where the file has each segment and section: `__TEXT` at 0, `__LINKEDIT` behind it, no others.
    fn place_segments(&self, commands: &mut [u8], linkedit_at: usize, end: usize) {
        let linkedit = self.header.segment(SEG_LINKEDIT).map(|linkedit| linkedit.command);
        for command in self.header.commands(LC_SEGMENT_64.0) {
            let is_text = command == self.text.command;
            let (offset, len) = match () {
                () if is_text => (0, linkedit_at),
                () if Some(&command) == linkedit.as_ref() => (linkedit_at, end - linkedit_at),
                () => (0, 0),
            };
            put64(commands, command.start + 40, offset as u64);
            put64(commands, command.start + 48, len as u64);
            if Some(&command) == linkedit.as_ref() {
                put64(commands, command.start + 32, len as u64);
            }
            let segment = Segment {
                command,
                ..self.text.clone()
            };
            for section in self.header.sections(&segment) {
                let address = u64_at(self.header.bytes(), section + 32).unwrap_or(0);
                let offset = address.wrapping_sub(self.text.address);
                let offset = usize::try_from(offset)
                    .ok()
                    .filter(|offset| is_text && *offset < linkedit_at);
                put32(commands, section + 48, offset.unwrap_or(0));
            }
        }
    }

    /// Sets the references of load commands to other parts of `__LINKEDIT` to zero. Each is an offset and a size.
    fn empty_references(&self, commands: &mut [u8]) {
        let pairs = [
            LC_CODE_SIGNATURE,
            LC_SEGMENT_SPLIT_INFO,
            LC_FUNCTION_STARTS,
            LC_DATA_IN_CODE,
            LC_DYLD_EXPORTS_TRIE,
            LC_DYLD_CHAINED_FIXUPS,
            LC_DYSYMTAB,
            LC_DYLD_INFO,
            LC_DYLD_INFO_ONLY,
        ];
        for kind in pairs {
            for command in self.header.commands(kind.0) {
                if let Some(rest) = commands.get_mut(command.start + 8..command.end) {
                    rest.fill(0);
                }
            }
        }
    }

    fn find_symbols(&self) -> Option<SymbolTable> {
        let symtab = self.header.commands(LC_SYMTAB.0).next()?;
        let number = |index: usize| u32_at(self.header.bytes(), symtab.start + 8 + 4 * index);
        Some(SymbolTable {
            at: self.in_memory(number(0)?)?,
            count: number(1)?.min(MOST_SYMBOLS),
            names_at: self.in_memory(number(2)?)?,
            names_len: number(3)?.into(),
        })
    }

    fn find_starts(&self) -> Option<FunctionStarts> {
        let list = self.header.commands(LC_FUNCTION_STARTS.0).next()?;
        let number = |index: usize| u32_at(self.header.bytes(), list.start + 8 + 4 * index);
        Some(FunctionStarts {
            at: self.in_memory(number(0)?)?,
            len: number(1).filter(|len| *len <= MOST_STARTS)?,
        })
    }

    /// The address of a part of `__LINKEDIT` whose offset a load command states.
    fn in_memory(&self, offset: u32) -> Option<u64> {
        let linkedit = self.header.segment(SEG_LINKEDIT)?;
        let linkedit_offset = u64_at(self.header.bytes(), linkedit.command.start + 40)?;
        let from_start = u64::from(offset).checked_sub(linkedit_offset)?;
        (from_start < linkedit.size).then(|| linkedit.address.wrapping_add(self.slide).wrapping_add(from_start))
    }
}

impl<R: Fn(u64, &mut [u8]) -> Result<(), MachError>> ReadAt for ImageFile<R> {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let end = offset.checked_add(buffer.len() as u64);
        if end.is_none_or(|end| end > self.len()) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // Four parts. The first one, the commands, lies over the second one.
        let in_text = self.text.size.saturating_sub(offset).min(buffer.len() as u64) as usize;
        let (text, linkedit) = buffer.split_at_mut(in_text);
        let from = offset.saturating_sub(self.text.size) as usize;
        let in_named = self.named_len().saturating_sub(from).min(linkedit.len());
        let (named, listed) = linkedit.split_at_mut(in_named);
        if !named.is_empty() {
            let found = self.named().get(from..from + named.len());
            named.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        }
        if let Some(starts) = self.starts.as_ref().filter(|_| !listed.is_empty()) {
            let into = from.saturating_sub(self.named_len()) as u64;
            // A list of zeros has no functions.
            if (self.read)(starts.at.wrapping_add(into), listed).is_err() {
                listed.fill(0);
            }
        }
        if !text.is_empty() {
            let at = self.text.address.wrapping_add(self.slide).wrapping_add(offset);
            (self.read)(at, text).map_err(|_| io::ErrorKind::UnexpectedEof)?;
            let patched = usize::try_from(offset)
                .ok()
                .and_then(|offset| self.commands.get(offset..));
            let patched = patched.unwrap_or_default();
            let len = patched.len().min(text.len());
            text[..len].copy_from_slice(&patched[..len]);
        }
        Ok(())
    }

    fn len(&self) -> u64 {
        self.text.size.saturating_add(self.linkedit_len() as u64)
    }
}

/// Copies symbols and their names, while there is room. The names of all images in the shared cache are one table.
fn copy_symbols(
    table: &SymbolTable,
    read: &impl Fn(u64, &mut [u8]) -> Result<(), MachError>,
    symbols: &mut [u8],
    names: &mut [u8],
) {
    if read(table.at, symbols).is_err() {
        symbols.fill(0);
        return;
    }
    let mut pieces = TextReader {
        read,
        at: 0,
        bytes: Vec::new(),
    };
    // Offset 0 is the name of what has none.
    let mut used = 1;
    for symbol in symbols.chunks_exact_mut(SYMBOL) {
        let offset = u64::from(u32_at(symbol, 0).unwrap_or(0));
        put32(symbol, 0, 0);
        if offset == 0 || offset >= table.names_len {
            continue;
        }
        let name = pieces.text(table.names_at.wrapping_add(offset)).unwrap_or_default();
        // A zero byte follows.
        if let Some(place) = names.get_mut(used..used + name.len() + 1) {
            place[..name.len()].copy_from_slice(&name);
            put32(symbol, 0, used);
            used += name.len() + 1;
        }
    }
}

/// Reads texts in memory. Many lie close to each other.
struct TextReader<'r, R> {
    read: &'r R,
    at: u64,
    bytes: Vec<u8>,
}

impl<R: Fn(u64, &mut [u8]) -> Result<(), MachError>> TextReader<'_, R> {
    fn text(&mut self, address: u64) -> Option<Vec<u8>> {
        let mut text = Vec::new();
        while text.len() < MOST_NAME {
            let at = address.checked_add(text.len() as u64)?;
            let piece = at - at % PIECE;
            if piece != self.at || self.bytes.is_empty() {
                let mut bytes = vec![0; PIECE as usize];
                (self.read)(piece, &mut bytes).ok()?;
                (self.at, self.bytes) = (piece, bytes);
            }
            let rest = self.bytes.get((at - piece) as usize..)?;
            match rest.iter().position(|byte| *byte == 0) {
                Some(len) => {
                    text.extend_from_slice(&rest[..len]);
                    return Some(text);
                }
                None => text.extend_from_slice(rest),
            }
        }
        None
    }
}

fn put32(bytes: &mut [u8], at: usize, number: usize) {
    let number = u32::try_from(number).unwrap_or(0);
    if let Some(place) = bytes.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) {
        *place = number.to_le_bytes();
    }
}

fn put64(bytes: &mut [u8], at: usize, number: u64) {
    if let Some(place) = bytes.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) {
        *place = number.to_le_bytes();
    }
}

#[cfg(test)]
mod tests {
    use object::macho::LinkeditDataCommand;
    use object::read::macho::MachOFile64;
    use object::{Endianness, Object, ObjectSection, ObjectSymbol};

    use super::*;

    const TEXT: u64 = 0x1_8000_0000;
    const LINKEDIT: u64 = 0x1_f000_0000;
    /// Where the cache's file has `__LINKEDIT`.
    const LINKEDIT_OFFSET: u32 = 0x5000_0000;
    const SLIDE: u64 = 0x123_4000;

    /// Memory with one image as the shared cache has it: pieces and their addresses.
    fn memory() -> Vec<(u64, Vec<u8>)> {
        let mut commands = Vec::new();
        let name = |name: &str| {
            let mut bytes = name.as_bytes().to_vec();
            bytes.resize(16, 0);
            bytes
        };
        let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
        let longs = |longs: &[u64]| longs.iter().flat_map(|long| long.to_le_bytes()).collect::<Vec<u8>>();
        let mut segment = |segment: &str, numbers: [u64; 4], sections: &[(&str, u64, u64, u32)]| {
            commands.extend(words(&[0x19, 72 + 80 * sections.len() as u32]));
            commands.extend(name(segment));
            commands.extend(longs(&numbers));
            commands.extend(words(&[5, 5, sections.len() as u32, 0]));
            for (section, address, size, offset) in sections {
                commands.extend(name(section));
                commands.extend(name(segment));
                commands.extend(longs(&[*address, *size]));
                commands.extend(words(&[*offset, 0, 0, 0, 0, 0, 0, 0]));
            }
        };
        segment(
            "__TEXT",
            [TEXT, 0x5000, 0x2000_0000, 0x5000],
            &[("__text", TEXT + 0x4800, 0x100, 0x2000_4800)],
        );
        segment(
            "__DATA",
            [TEXT + 0x1000_0000, 0x1000, 0x3000_0000, 0x1000],
            &[("__data", TEXT + 0x1000_0000, 8, 0x3000_0000)],
        );
        segment(
            "__LINKEDIT",
            [LINKEDIT, 0x4_0000, LINKEDIT_OFFSET.into(), 0x4_0000],
            &[],
        );
        commands.extend(words(&[
            2,
            24,
            LINKEDIT_OFFSET + 0x100,
            3,
            LINKEDIT_OFFSET + 0x800,
            0x3_0000,
        ]));
        commands.extend(words(&[0x26, 16, LINKEDIT_OFFSET + 0x9000, 64]));
        commands.extend(words(&[0x1b, 24, 1, 2, 3, 4]));
        let mut text = words(&[0xfeed_facf, 0x0100_000c, 0, 6, 6, commands.len() as u32, 0, 0]);
        text.extend(commands);
        text.resize(0x5000, 0);
        text[0x4800..0x4900].copy_from_slice(&[0xd5; 0x100]);
        let mut linkedit = vec![0; 0x4_0000];
        // Names far apart, as in a table that many images share. The last symbol has none.
        let symbols = [(0x11_u32, TEXT + 0x4800), (0x2_5000, TEXT + 0x4880), (0, TEXT)];
        for (index, (name, address)) in symbols.into_iter().enumerate() {
            let symbol = [words(&[name, 0x010f]), longs(&[address])].concat();
            linkedit[0x100 + 16 * index..][..16].copy_from_slice(&symbol);
        }
        linkedit[0x811..0x818].copy_from_slice(b"_first\0");
        linkedit[0x2_5800..0x2_5808].copy_from_slice(b"_second\0");
        // Functions at 0x4800 and 0x4880: ULEB128.
        linkedit[0x9000..0x9005].copy_from_slice(&[0x80, 0x90, 0x01, 0x80, 0x01]);
        vec![(TEXT + SLIDE, text), (LINKEDIT + SLIDE, linkedit)]
    }

    fn read(memory: &[(u64, Vec<u8>)], address: u64, buffer: &mut [u8]) -> Result<(), MachError> {
        let found = memory.iter().find_map(|(start, bytes)| {
            let from = usize::try_from(address.checked_sub(*start)?).ok()?;
            bytes.get(from..from.checked_add(buffer.len())?)
        });
        buffer.copy_from_slice(found.ok_or(MachError::Code(1))?);
        Ok(())
    }

    fn image() -> ImageFile<impl Fn(u64, &mut [u8]) -> Result<(), MachError>> {
        let memory = memory();
        let header = ImageHeader::from_bytes(memory[0].1.clone()).unwrap();
        ImageFile::new(header, TEXT + SLIDE, move |address, buffer: &mut [u8]| {
            read(&memory, address, buffer)
        })
        .unwrap()
    }

    #[test]
    fn an_image_of_the_shared_cache_becomes_a_file_with_its_code_and_its_own_symbols() {
        let image = image();
        let mut bytes = vec![0; image.len() as usize];
        image.read_exact_at(&mut bytes, 0).unwrap();
        let file = MachOFile64::<Endianness, _>::parse(&*bytes).unwrap();
        assert_eq!(file.mach_uuid().unwrap().unwrap()[..8], [1, 0, 0, 0, 2, 0, 0, 0]);
        let text = file.section_by_name("__text").unwrap();
        assert_eq!(
            (text.address(), text.data().unwrap()),
            (TEXT + 0x4800, &[0xd5; 0x100][..])
        );
        let symbols = file.symbols().map(|symbol| (symbol.name().unwrap(), symbol.address()));
        let named: Vec<_> = symbols.filter(|(name, _)| !name.is_empty()).collect();
        assert_eq!(named, [("_first", TEXT + 0x4800), ("_second", TEXT + 0x4880)]);
        let mut commands = file.macho_load_commands().unwrap();
        let list = std::iter::from_fn(|| commands.next().unwrap())
            .find(|command| command.cmd() == LC_FUNCTION_STARTS)
            .unwrap();
        let list: &LinkeditDataCommand<Endianness> = list.data().unwrap();
        let starts = list.function_starts(file.endian(), file.data(), 0).unwrap();
        let starts: Vec<u64> = starts.map(Result::unwrap).collect();
        assert_eq!(starts, [0x4800, 0x4880]);
    }

    #[test]
    fn symbols_are_not_copied_for_the_list_of_functions() {
        let image = image();
        let mut list = [0; 5];
        image.read_exact_at(&mut list, image.len() - 64).unwrap();
        assert_eq!(list, [0x80, 0x90, 0x01, 0x80, 0x01]);
        assert!(image.named.get().is_none());
    }

    #[test]
    fn every_part_of_the_file_reads_as_in_the_whole() {
        let image = image();
        let mut whole = vec![0; image.len() as usize];
        image.read_exact_at(&mut whole, 0).unwrap();
        for (at, len) in [
            (0, 16),
            (100, 5000),
            (0x4ff0, 64),
            (0x5000, 48),
            (whole.len() - 64 - 3, 20),
            (whole.len() - 1, 1),
            (16, 0),
        ] {
            let mut part = vec![1; len];
            image.read_exact_at(&mut part, at as u64).unwrap();
            assert_eq!(part, whole[at..at + len], "{at}");
        }
        assert!(image.read_exact_at(&mut [0; 2], whole.len() as u64 - 1).is_err());
    }

    #[test]
    fn any_change_of_the_header_is_a_file_or_none() {
        let memory = memory();
        for at in 0..600 {
            for value in [0, 1, 0x7f, 0xff] {
                let mut changed = memory.clone();
                changed[0].1[at] = value;
                let Some(header) = ImageHeader::from_bytes(changed[0].1.clone()) else {
                    continue;
                };
                let read = |address: u64, buffer: &mut [u8]| read(&changed, address, buffer);
                if let Some(image) = ImageFile::new(header, TEXT + SLIDE, read) {
                    let mut buffer = vec![0; image.len().min(0x10_0000) as usize];
                    let _ = image.read_exact_at(&mut buffer, 0);
                }
            }
        }
    }
}
