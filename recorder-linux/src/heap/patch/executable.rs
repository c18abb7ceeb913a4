//! What a plan needs of an executable: its code, and where its functions are.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CStr;
use std::ops::Range;

use iced_x86::{Decoder, DecoderOptions, Instruction, OpKind};
use object::Endianness;
use object::elf::{DF_TEXTREL, DT_FLAGS, DT_TEXTREL, EM_X86_64, ET_EXEC, PF_W, PF_X, PT_INTERP, STB_LOCAL, STT_FUNC};
use object::read::elf::{ElfFile64, FileHeader as _, ProgramHeader as _, SectionHeader as _, Sym as _};
use object::read::{Object as _, ObjectSection as _, ObjectSegment as _, ObjectSymbol as _, ReadRef};

use super::functions::{
    KnownFunction, OWN_MALLOC, anchored_allocators, is_anchor, is_of_allocator, is_slow_path, known_functions,
};

/// Code and functions of an executable for x86_64. All addresses are those in the file.
#[derive(Default)]
pub(super) struct Executable<'data> {
    /// Executable segments.
    code: Vec<(u64, &'data [u8])>,
    /// All segments: tables of distances are in any.
    segments: Vec<(u64, &'data [u8])>,
    /// Where addresses are stated: in all segments of a file with a fixed address, else in what the loader changes, and
    /// in its list of that. In the rest, short texts look like addresses.
    stated: Vec<(u64, &'data [u8])>,
    /// Its instructions may have addresses as immediates.
    is_fixed: bool,
    /// Start and length of each function, ascending. Length 0: not known.
    functions: Vec<(u64, u64)>,
    /// Functions of allocators with their names, by start.
    pub(super) known: BTreeMap<u64, Vec<(&'data str, KnownFunction)>>,
    /// Start of each of these that libraries can call.
    pub(super) exported: BTreeSet<u64>,
    /// What fast paths of an allocator end in, with names.
    pub(super) slow_paths: BTreeMap<u64, &'data str>,
    /// Allocators whose own symbols it has, also where no function of them is left that programs call.
    anchored: BTreeSet<&'static str>,
    /// It has a global `malloc`: that of libraries is not called, except by that one.
    defines_malloc: bool,
    /// Start of each function that is an allocator's by its name, of any allocator.
    of_allocators: BTreeSet<u64>,
    /// Bytes of code that were decoded.
    decoded: Cell<u64>,
}

/// An instruction that states an address: it jumps there, calls what is there, or uses the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reference {
    /// Address of the instruction.
    pub(super) at: u64,
    /// Address behind it.
    pub(super) next: u64,
    pub(super) target: u64,
    pub(super) kind: ReferenceKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReferenceKind {
    /// A call or jump whose last 4 bytes state the target.
    Jump,
    /// A jump whose last byte states the target.
    ShortJump,
    Address,
}

/// How far a jump with one byte leads, and the longest instruction.
const SHORT_REACH: u64 = 128 + 15;
/// A longer function is cut here.
const MAX_FUNCTION: u64 = 1 << 20;
/// Programs have lower addresses.
const ADDRESS_END: u64 = 1 << 47;
/// More functions of allocators are nonsense: all allocators here have 400 names.
const MOST_KNOWN: usize = 1024;
/// Longer constants and segments are not read.
const MOST_BYTES: u64 = 1 << 30;
/// Code that is decoded for one plan, at most. A file can have many functions that all are long, and overlap.
const MOST_DECODED: u64 = 16 << 20;

/// Entries of a table of distances that are looked at.
const MOST_CASES: usize = 1024;
/// An executable with a `malloc` of its own that has one of these from a library passes calls on.
const OF_EACH_MALLOC: [&str; 5] = ["calloc", "realloc", "memalign", "aligned_alloc", "posix_memalign"];

/// Names of the allocators that are linked into an ELF file, on any machine.
pub(in crate::heap) fn linked_allocators<'data>(
    elf: impl ReadRef<'data>,
) -> Result<BTreeSet<&'static str>, object::Error> {
    let mut executable = Executable::default();
    executable.read_symbols(&ElfFile64::parse(elf)?, elf)?;
    let mut allocators = executable.allocators();
    if allocators.is_empty() && executable.defines_malloc {
        allocators.insert(OWN_MALLOC);
    }
    Ok(allocators)
}

impl<'data> Executable<'data> {
    /// Reads an ELF file. It is empty without an allocator, and for another machine.
    pub(super) fn read(elf: impl ReadRef<'data>) -> Result<Executable<'data>, object::Error> {
        Executable::read_with(elf, |_| {})
    }

    /// Reads an ELF file in which other functions are known than those of allocators.
    pub(super) fn read_with(
        elf: impl ReadRef<'data>,
        change_known: impl FnOnce(&mut Executable<'data>),
    ) -> Result<Executable<'data>, object::Error> {
        let file = ElfFile64::<Endianness, _>::parse(elf)?;
        let endian = file.endian();
        let mut executable = Executable::default();
        if file.elf_header().e_machine(endian) != EM_X86_64 {
            return Ok(executable);
        }
        executable.read_symbols(&file, elf)?;
        // The loader changes its code: memory and file differ.
        let has_text_relocations = file.elf_dynamic_table().is_ok_and(|table| {
            { table.iter() }
                .any(|entry| entry.tag == DT_TEXTREL || entry.tag == DT_FLAGS && entry.val & DF_TEXTREL.0 != 0)
        });
        if has_text_relocations {
            executable.known.clear();
        }
        change_known(&mut executable);
        if executable.known.is_empty() {
            return Ok(executable);
        }
        executable.is_fixed = file.elf_header().e_type(endian) == ET_EXEC;
        for segment in file.segments() {
            if segment.address() >= ADDRESS_END || segment.elf_program_header().p_filesz(endian) > MOST_BYTES {
                continue;
            }
            let content = (segment.address(), segment.data()?);
            executable.segments.push(content);
            let flags = segment.elf_program_header().p_flags(endian);
            if flags.contains(PF_X) {
                executable.code.push(content);
            }
            if executable.is_fixed || flags.contains(PF_W) {
                executable.stated.push(content);
            }
        }
        let relocations = file
            .section_by_name(".rela.dyn")
            .filter(|section| section.size() <= MOST_BYTES);
        if let Some(section) = relocations {
            executable.stated.push((section.address(), section.data()?));
        }
        Ok(executable)
    }

    /// Reads where functions are, and which of them are an allocator's.
    fn read_symbols<R: ReadRef<'data>>(
        &mut self,
        file: &ElfFile64<'data, Endianness, R>,
        elf: R,
    ) -> Result<(), object::Error> {
        let endian = file.endian();
        let (names, mut functions) = (known_functions(), Vec::new());
        let (mut has_dlsym, mut is_in_part, mut anchors) = (false, false, BTreeSet::new());
        let mut headers = file.elf_program_headers().iter();
        // The start of glibc's static programs. In a static-pie, what glibc hides is local.
        let is_static = headers.all(|header| header.p_type(endian) != PT_INTERP)
            && file.symbols().any(|symbol| symbol.name() == Ok("__libc_setup_tls"));
        let (mut places, mut ambiguous) = (BTreeMap::new(), BTreeSet::new());
        for (table, is_dynamic) in [
            (file.elf_symbol_table(), false),
            (file.elf_dynamic_symbol_table(), true),
        ] {
            if table.is_empty() {
                continue;
            }
            // At once: a file that is read in pieces takes ten times as long.
            let strings = file.elf_section_table().section(table.string_section())?;
            let strings = strings.data(endian, elf)?;
            for symbol in table.iter() {
                let name = strings.get(symbol.st_name(endian) as usize..).unwrap_or_default();
                let name = CStr::from_bytes_until_nul(name).map_or("", |name| name.to_str().unwrap_or_default());
                let is_import = symbol.is_undefined(endian);
                has_dlsym |= is_import && ["dlsym", "dlvsym"].contains(&name);
                is_in_part |= is_import && OF_EACH_MALLOC.contains(&name);
                // The symbol of a function that is chosen at run time (STT_GNU_IFUNC) has the address of what chooses.
                let address = symbol.st_value(endian);
                if is_import || address >= ADDRESS_END {
                    continue;
                }
                // Other files can't call a local `malloc`: it need not be that of C, and is not known to be if there
                // are two.
                let known = names
                    .get(name)
                    .filter(|known| known.allocator != OWN_MALLOC || symbol.st_bind() != STB_LOCAL || is_static);
                let other = known.filter(|_| is_static).and_then(|_| places.insert(name, address));
                if other.is_some_and(|other| other != address) {
                    ambiguous.insert(name);
                }
                if is_anchor(name) && (known.is_some() || !names.contains_key(name)) {
                    anchors.insert(name);
                }
                if symbol.st_type() != STT_FUNC {
                    continue;
                }
                functions.push((address, symbol.st_size(endian)));
                if is_of_allocator(name) || names.contains_key(name) {
                    self.of_allocators.insert(address);
                }
                if is_slow_path(name) {
                    self.slow_paths.insert(address, name);
                }
                if let Some(known) = known {
                    if is_dynamic {
                        self.exported.insert(address);
                    }
                    let same_start = self.known.entry(address).or_default();
                    if !same_start.iter().any(|(other, _)| *other == name) {
                        same_start.push((name, *known));
                    }
                }
            }
        }
        // The longest of those with one start.
        functions.sort_unstable_by_key(|&(start, size)| (start, Reverse(size)));
        functions.dedup_by_key(|(start, _)| *start);
        self.functions = functions;
        anchors.retain(|anchor| !ambiguous.contains(anchor));
        for names in self.known.values_mut() {
            names.retain(|(name, _)| !ambiguous.contains(name));
            names.retain(|(_, known)| known.anchors.iter().all(|anchor| anchors.contains(anchor)));
        }
        self.known.retain(|_, names| !names.is_empty());
        self.anchored = anchored_allocators(&anchors);
        self.defines_malloc = anchors.contains("malloc");
        let constants = file
            .section_by_name(".rodata")
            .filter(|section| has_dlsym && section.size() <= MOST_BYTES);
        let constants = constants.map_or(Ok(&[][..]), |section| section.data())?;
        // It looks for the `malloc` of a library (dlsym(3)): its own goes on to that one, and both would count. Linkers
        // let texts share an end.
        let looks_for_malloc = { constants.split(|byte| *byte == 0) }.any(|text| text.ends_with(b"malloc"));
        let is_other = self.allocators().iter().any(|allocator| *allocator != OWN_MALLOC);
        // The same where a part of the family is a library's: it would not know the blocks of the rest.
        let is_wrapper = (looks_for_malloc || is_in_part) && !is_other;
        if is_wrapper || self.known.len() > MOST_KNOWN {
            self.known.clear();
        }
        Ok(())
    }

    /// Names of its allocators.
    pub(super) fn allocators(&self) -> BTreeSet<&'static str> {
        let known = self.known.values().flatten();
        let mut allocators: BTreeSet<_> = known.map(|(_, known)| known.allocator).collect();
        allocators.extend(&self.anchored);
        if allocators.len() > 1 {
            allocators.remove(OWN_MALLOC);
        }
        allocators
    }

    /// The code from an address on, to the end of its segment.
    pub(super) fn code_from(&self, address: u64) -> Option<&'data [u8]> {
        self.code.iter().find_map(|(start, code)| {
            let at = usize::try_from(address.checked_sub(*start)?).ok()?;
            code.get(at..).filter(|rest| !rest.is_empty())
        })
    }

    /// What the file has at an address of its code, or zeros.
    pub(super) fn bytes_at<const COUNT: usize>(&self, address: u64) -> [u8; COUNT] {
        let bytes = self.code_from(address).and_then(<[u8]>::first_chunk);
        bytes.copied().unwrap_or([0; COUNT])
    }

    /// Where the function that starts here ends: by its symbol, or where the next one starts.
    pub(super) fn function_end(&self, start: u64) -> u64 {
        let next = self.functions.partition_point(|(other, _)| *other <= start);
        let of_symbol = next.checked_sub(1).and_then(|index| self.functions.get(index));
        let size = of_symbol
            .filter(|(found, _)| *found == start)
            .map_or(0, |(_, size)| *size);
        match size {
            0 => self.functions.get(next).map_or(u64::MAX, |(next, _)| *next),
            size => start.saturating_add(size),
        }
    }

    #[cfg(all(test, target_arch = "x86_64"))]
    pub(super) fn function_starts(&self) -> impl Iterator<Item = u64> {
        self.functions.iter().map(|(start, _)| *start)
    }

    /// Start of the next function behind an address.
    pub(super) fn next_function(&self, address: u64) -> u64 {
        let next = self.functions.partition_point(|(start, _)| *start < address);
        self.functions.get(next).map_or(u64::MAX, |(start, _)| *start)
    }

    /// The instructions of a function.
    pub(super) fn instructions(&self, start: u64) -> impl Iterator<Item = Instruction> {
        let length = self.function_end(start).saturating_sub(start).min(MAX_FUNCTION);
        let code = self.code_from(start).unwrap_or_default();
        let code = code.get(..length as usize).unwrap_or(code);
        self.decoded.set(self.decoded.get() + code.len() as u64);
        let code = if self.is_too_much() { &[] } else { code };
        Decoder::with_ip(64, code, start, DecoderOptions::NONE).into_iter()
    }

    /// Whether more was to be decoded than is: then what is known of the executable has gaps.
    pub(super) fn is_too_much(&self) -> bool {
        self.decoded.get() > MOST_DECODED
    }

    /// The addresses that the instructions of a function state.
    pub(super) fn references(&self, start: u64) -> impl Iterator<Item = Reference> {
        self.instructions(start)
            .filter_map(|instruction| reference(&instruction, self.is_fixed))
    }

    /// What refers to these addresses, from anywhere in the code. They are ascending.
    pub(super) fn references_to(&self, targets: &[u64]) -> Vec<Reference> {
        let (Some(&first), Some(&last)) = (targets.first(), targets.last()) else {
            return Vec::new();
        };
        let is_target = |address: &u64| targets.binary_search(address).is_ok();
        // The longest immediate behind a distance has 4 bytes.
        let bounds = first.saturating_sub(4)..=last;
        // Functions with bytes that look like a distance to a target, as 4 bytes may by chance.
        let mut functions = BTreeSet::new();
        let mut found = Vec::new();
        for (start, code) in &self.code {
            for (at, bytes) in code.windows(4).enumerate() {
                let word = bytes.first_chunk().map_or(0, |bytes| i32::from_le_bytes(*bytes));
                let next = start.wrapping_add(at as u64 + 4);
                let end = next.wrapping_add_signed(word.into());
                let absolute = u64::from(word.cast_unsigned());
                let is_absolute = self.is_fixed && bounds.contains(&absolute);
                if !bounds.contains(&end) && !is_absolute {
                    continue;
                }
                let ends = [0, 1, 2, 4].map(|immediate| end.wrapping_add(immediate));
                let Some(target) = ends.into_iter().chain([absolute]).find(is_target) else {
                    continue;
                };
                let opcode = code.get(at.saturating_sub(2)..at).unwrap_or_default();
                let is_jump = target == end && matches!(opcode, [_, 0xe8 | 0xe9] | [0x0f, 0x80..=0x8f]);
                if let Some(function) = self.function_of(next.wrapping_sub(4)) {
                    functions.insert(function);
                } else if is_jump {
                    // No symbol says where instructions begin.
                    found.push(Reference {
                        at: next.wrapping_sub(5),
                        next,
                        target,
                        kind: ReferenceKind::Jump,
                    });
                }
            }
        }
        for target in targets {
            let near = target.saturating_sub(SHORT_REACH)..target.saturating_add(SHORT_REACH);
            // The one before may reach in.
            let from = self
                .functions
                .partition_point(|(start, _)| *start < near.start)
                .saturating_sub(1);
            let neighbours = self.functions.iter().skip(from).map(|(start, _)| *start);
            functions.extend(neighbours.take_while(|start| *start < near.end));
        }
        let of_functions = functions.into_iter().flat_map(|function| self.references(function));
        found.extend(of_functions.filter(|reference| is_target(&reference.target)));
        found
    }

    /// Those of these addresses that data has, for example tables of functions, and relocations. They are ascending.
    pub(super) fn in_data(&self, addresses: &[u64]) -> BTreeSet<u64> {
        let aligned = self.stated.iter().map(|(start, content)| {
            let skipped = start.wrapping_neg() % 8;
            content.get(skipped as usize..).unwrap_or_default()
        });
        let words = aligned.flat_map(|content| content.as_chunks::<8>().0);
        let words = words.map(|word| u64::from_le_bytes(*word));
        words.filter(|word| addresses.binary_search(word).is_ok()).collect()
    }

    /// Whether a table of distances from its start, of 4 bytes each, that a function uses leads to one of these
    /// addresses: a `switch` in a loop.
    pub(super) fn has_table_into(&self, function: u64, addresses: Range<u64>) -> bool {
        let tables = self
            .references(function)
            .filter(|found| found.kind == ReferenceKind::Address);
        let content_from = |address: u64| {
            self.segments.iter().find_map(|(start, content)| {
                let at = usize::try_from(address.checked_sub(*start)?).ok()?;
                content.get(at..).filter(|rest| !rest.is_empty())
            })
        };
        tables.map(|table| table.target).any(|table| {
            let words = content_from(table).unwrap_or_default().as_chunks().0.iter();
            { words.take(MOST_CASES) }
                .map(|word| table.wrapping_add_signed(i32::from_le_bytes(*word).into()))
                .take_while(|target| self.function_of(*target).is_some())
                .any(|target| addresses.contains(&target))
        })
    }

    /// Whether a function of an allocator, by its name, has this instruction.
    pub(super) fn is_in_allocator(&self, address: u64) -> bool {
        let function = self.function_of(address);
        function.is_some_and(|function| self.of_allocators.contains(&function))
    }

    /// Start of the function that has this address. `None` between functions that have a symbol.
    pub(super) fn function_of(&self, address: u64) -> Option<u64> {
        let after = self.functions.partition_point(|(start, _)| *start <= address);
        let (start, _) = self.functions.get(after.checked_sub(1)?)?;
        (address < self.function_end(*start)).then_some(*start)
    }
}

/// The address that an instruction states. In a file with a fixed address, it may be an immediate.
fn reference(instruction: &Instruction, is_fixed: bool) -> Option<Reference> {
    let (target, kind) = if instruction.op0_kind() == OpKind::NearBranch64 {
        let kind = match instruction.len() {
            // Short ones have a prefix at most.
            5.. => ReferenceKind::Jump,
            _ => ReferenceKind::ShortJump,
        };
        (instruction.near_branch_target(), kind)
    } else if instruction.is_ip_rel_memory_operand() {
        (instruction.ip_rel_memory_address(), ReferenceKind::Address)
    } else {
        let mut operands = 0..if is_fixed { instruction.op_count() } else { 0 };
        let immediate = operands.find_map(|operand| instruction.try_immediate(operand).ok())?;
        (immediate, ReferenceKind::Address)
    };
    Some(Reference {
        at: instruction.ip(),
        next: instruction.next_ip(),
        target,
        kind,
    })
}
