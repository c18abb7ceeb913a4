//! Names for the stubs of the procedure linkage table, which no symbol table has.

use object::{
    Architecture, Object, ObjectSection, ObjectSymbol, ObjectSymbolTable, Relocation, RelocationFlags,
    RelocationTarget, SymbolFlags, elf,
};
use rustc_hash::FxHashMap;

use super::symbol::{NameRank, Symbol, SymbolBinding, SymbolClass};
use crate::files::object_file::{ObjectFile, offset_in};

pub(super) struct PltStub {
    /// Stated virtual address.
    pub(super) address: u64,
    /// Size in bytes.
    pub(super) size: u64,
    /// File offset of the name of the function that the stub jumps to.
    pub(super) name_offset: u64,
}

/// Stubs in the sections `.plt`, `.plt.sec` (with IBT), `.plt.got` (functions whose address is also taken) and `.iplt`
/// (lld, for functions that a resolver chooses).
///
/// A stub jumps through a slot of the global offset table. The relocation of this slot names the function, or its
/// resolver.
pub(super) fn stubs(file: &ObjectFile, object: &object::File<'_>) -> Vec<PltStub> {
    let mut stubs = Vec::new();
    // (section, bytes of an entry): psABI x86-64 section 5.2, AAELF64. `.plt.got` has 16 with IBT, else 8.
    let (entry_sizes, slot_of): (&[(&str, usize)], SlotOf) = match object.architecture() {
        Architecture::X86_64 => (
            &[(".plt", 16), (".plt.sec", 16), (".plt.got", 8), (".iplt", 16)],
            x86_64_slot,
        ),
        Architecture::Aarch64 => (&[(".plt", 16), (".iplt", 16)], aarch64_slot),
        _ => return stubs,
    };
    let mut names: Option<FxHashMap<u64, u64>> = None;
    for (name, entry_size) in entry_sizes {
        let Some(section) = object.section_by_name(name) else {
            continue;
        };
        let Ok(bytes) = section.data() else { continue };
        let names = names.get_or_insert_with(|| slot_names(file, object));
        let entry_size = match bytes {
            // In `.plt.got` an entry with IBT has 16 bytes, and starts with `endbr64`.
            _ if bytes.starts_with(&ENDBR64) => 16,
            // In the `.plt` of a static program, bfd leaves out what binds a function when it is first called.
            [0xff, 0x25, _, _, _, _, _, _] | [0xff, 0x25, _, _, _, _, _, _, 0xff, 0x25, ..] => 8,
            _ => *entry_size,
        };
        for (index, entry) in bytes.chunks_exact(entry_size).enumerate() {
            let address = section.address().wrapping_add((index * entry_size) as u64);
            let name = slot_of(entry, address).and_then(|slot| names.get(&slot));
            if let Some(name_offset) = name {
                stubs.push(PltStub {
                    address,
                    size: entry_size as u64,
                    name_offset: *name_offset,
                });
            }
        }
    }
    stubs
}

type SlotOf = fn(&[u8], u64) -> Option<u64>;

/// File offsets of function names, by the stated virtual address of their slot in the global offset table.
pub(super) fn slot_names(file: &ObjectFile, object: &object::File<'_>) -> FxHashMap<u64, u64> {
    let mut names = FxHashMap::default();
    // Others put the address of a function into the program's own data, or copy a variable there.
    let (of_slot, of_resolver) = match object.architecture() {
        Architecture::X86_64 => (
            [elf::R_X86_64_GLOB_DAT, elf::R_X86_64_JUMP_SLOT],
            elf::R_X86_64_IRELATIVE,
        ),
        Architecture::Aarch64 => (
            [elf::R_AARCH64_GLOB_DAT, elf::R_AARCH64_JUMP_SLOT],
            elf::R_AARCH64_IRELATIVE,
        ),
        _ => return names,
    };
    let symbols = object.dynamic_symbol_table();
    let mut resolved: Option<FxHashMap<u64, u64>> = None;
    for (slot, relocation) in relocations(object) {
        let name = match (relocation.flags(), relocation.target()) {
            (RelocationFlags::Elf { r_type }, _) if r_type == of_resolver => {
                let resolved = resolved.get_or_insert_with(|| resolved_names(file, object));
                resolved.get(&relocation.addend().cast_unsigned()).copied()
            }
            (RelocationFlags::Elf { r_type }, RelocationTarget::Symbol(index)) if of_slot.contains(&r_type) => {
                let symbol = symbols.as_ref().and_then(|symbols| symbols.symbol_by_index(index).ok());
                symbol.and_then(|symbol| {
                    let name = symbol.name_bytes().ok().filter(|name| !name.is_empty())?;
                    offset_in(file, name)
                })
            }
            _ => None,
        };
        names.extend(name.map(|name| (slot, name)));
    }
    names
}

/// The relocations that a program is loaded with. Those of a static program refer to `.symtab`, and count as the ones
/// of a section.
fn relocations(object: &object::File<'_>) -> impl Iterator<Item = (u64, Relocation)> {
    let of_static = [".got", ".got.plt"]
        .into_iter()
        .filter_map(|name| object.section_by_name(name));
    let of_static = of_static.flat_map(|section| section.relocations().collect::<Vec<_>>());
    object.dynamic_relocations().into_iter().flatten().chain(of_static)
}

/// File offsets of the names of functions that are chosen when the program starts (`STT_GNU_IFUNC`), by the stated
/// virtual address of their resolver.
fn resolved_names(file: &ObjectFile, object: &object::File<'_>) -> FxHashMap<u64, u64> {
    let mut best: FxHashMap<u64, (NameRank<'_>, u64)> = FxHashMap::default();
    for symbol in object.symbols().chain(object.dynamic_symbols()) {
        let SymbolFlags::Elf { st_info, .. } = symbol.flags() else {
            continue;
        };
        if st_info.st_type() != elf::STT_GNU_IFUNC || symbol.is_undefined() {
            continue;
        }
        let Some(name_offset) = symbol.name_bytes().ok().and_then(|name| offset_in(file, name)) else {
            continue;
        };
        let found = Symbol {
            start: symbol.address(),
            size: symbol.size(),
            name_offset,
            file: 0,
            kind: SymbolClass::Function,
            binding: SymbolBinding::from_elf(st_info.st_bind()),
        };
        let Some(rank) = found.rank(file) else { continue };
        let best = best.entry(found.start).or_insert((rank, name_offset));
        *best = (*best).min((rank, name_offset));
    }
    best.into_iter().map(|(resolver, (_, name))| (resolver, name)).collect()
}

const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];

/// `[endbr64] [bnd] jmp *disp(%rip)`: slot = end of the instruction + disp.
fn x86_64_slot(entry: &[u8], address: u64) -> Option<u64> {
    let mut at = 0;
    if entry.starts_with(&ENDBR64) {
        at = ENDBR64.len();
    }
    if entry.get(at) == Some(&0xf2) {
        at += 1;
    }
    let disp = entry[at..].strip_prefix(&[0xff, 0x25])?.first_chunk::<4>()?;
    let next = address.wrapping_add(at as u64 + 6);
    Some(next.wrapping_add_signed(i64::from(i32::from_le_bytes(*disp))))
}

/// `[bti c] adrp x16, page; ldr x17, [x16, #offset]`: slot = page + offset.
fn aarch64_slot(entry: &[u8], address: u64) -> Option<u64> {
    let words: Vec<u32> = entry
        .chunks_exact(4)
        .map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
        .collect();
    let at = words.iter().position(|word| word & 0x9f00_001f == 0x9000_0010)?;
    let (adrp, ldr) = (words[at], *words.get(at + 1)?);
    // ldr x17, [x16, #imm12 * 8]
    if ldr & 0xffc0_03ff != 0xf940_0211 {
        return None;
    }
    let imm = ((adrp >> 5 & 0x7_ffff) << 2 | adrp >> 29 & 3) as i32;
    let pages = i64::from(imm << 11 >> 11);
    let page = (address.wrapping_add(at as u64 * 4) & !0xfff).wrapping_add_signed(pages << 12);
    Some(page.wrapping_add(u64::from(ldr >> 10 & 0xfff) * 8))
}
