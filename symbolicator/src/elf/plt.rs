//! Names for the stubs of the procedure linkage table, which no symbol table has.

use object::{
    Architecture, Object, ObjectSection, ObjectSymbol, ObjectSymbolTable, RelocationFlags, RelocationTarget, elf,
};
use rustc_hash::FxHashMap;

use super::file::{ElfFile, offset_in};

pub(super) struct Stub {
    /// Stated virtual address.
    pub(super) address: u64,
    /// Size in bytes.
    pub(super) size: u64,
    /// File offset of the name of the function that the stub jumps to.
    pub(super) name_offset: u64,
}

/// Stubs in the sections `.plt`, `.plt.sec` (with IBT) and `.plt.got` (functions whose address is also taken).
///
/// A stub jumps through a slot of the global offset table. The relocation of this slot names the function.
pub(super) fn stubs(file: &ElfFile, object: &object::File<'_>) -> Vec<Stub> {
    let mut stubs = Vec::new();
    // (section, bytes of an entry): psABI x86-64 section 5.2, AAELF64. `.plt.got` has 16 with IBT, else 8.
    let (entry_sizes, slot_of): (&[(&str, usize)], SlotOf) = match object.architecture() {
        Architecture::X86_64 => (&[(".plt", 16), (".plt.sec", 16), (".plt.got", 8)], x86_64_slot),
        Architecture::Aarch64 => (&[(".plt", 16)], aarch64_slot),
        _ => return stubs,
    };
    let mut names: Option<FxHashMap<u64, u64>> = None;
    for (name, entry_size) in entry_sizes {
        let Some(section) = object.section_by_name(name) else {
            continue;
        };
        let Ok(bytes) = section.data() else { continue };
        let names = names.get_or_insert_with(|| slot_names(file, object));
        // In `.plt.got` an entry with IBT has 16 bytes, and starts with `endbr64`.
        let entry_size = if bytes.starts_with(&ENDBR64) { 16 } else { *entry_size };
        for (index, entry) in bytes.chunks_exact(entry_size).enumerate() {
            let address = section.address().wrapping_add((index * entry_size) as u64);
            let name = slot_of(entry, address).and_then(|slot| names.get(&slot));
            if let Some(name_offset) = name {
                stubs.push(Stub {
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
pub(super) fn slot_names(file: &ElfFile, object: &object::File<'_>) -> FxHashMap<u64, u64> {
    let mut names = FxHashMap::default();
    let (Some(relocations), Some(symbols)) = (object.dynamic_relocations(), object.dynamic_symbol_table()) else {
        return names;
    };
    // Others put the address of a function into the program's own data, or copy a variable there.
    let of_slot = match object.architecture() {
        Architecture::X86_64 => [elf::R_X86_64_GLOB_DAT, elf::R_X86_64_JUMP_SLOT],
        Architecture::Aarch64 => [elf::R_AARCH64_GLOB_DAT, elf::R_AARCH64_JUMP_SLOT],
        _ => return names,
    };
    for (slot, relocation) in relocations {
        let is_slot = matches!(relocation.flags(), RelocationFlags::Elf { r_type } if of_slot.contains(&r_type));
        let RelocationTarget::Symbol(index) = relocation.target() else {
            continue;
        };
        if !is_slot {
            continue;
        }
        let name = symbols.symbol_by_index(index).and_then(|symbol| symbol.name_bytes());
        let Some(offset) = name
            .ok()
            .filter(|name| !name.is_empty())
            .and_then(|name| offset_in(file, name))
        else {
            continue;
        };
        names.insert(slot, offset);
    }
    names
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
