//! Finds functions in the libraries of this process. dlsym(3) allocates, and is not there in every libc version under
//! one name.
//!
//! The list of libraries is that of debuggers: a variable of the loader leads to a list of `link_map` in the order of
//! symbol lookup (`r_debug` of link.h; musl has the same words). `DT_DEBUG` of the executable leads to the same list.
//! But the auxiliary vector, which has the place of the executable, can't be relied on: after `ld.so PROGRAM` it has
//! the loader's, and before Linux 6.4 a program whose file may not be read can't read it.

use core::ptr::null;

use super::machine::debugger_variables;

/// Types of symbols and entries of dynamic sections (elf.h).
const DT_STRTAB: usize = 5;
const DT_SYMTAB: usize = 6;
const DT_HASH: usize = 4;
const DT_GNU_HASH: usize = 0x6fff_fef5;
const STT_GNU_IFUNC: u8 = 10;
const SHN_UNDEF: u16 = 0;

#[repr(C)]
struct Symbol {
    name: u32,
    info: u8,
    other: u8,
    section: u16,
    value: usize,
    size: usize,
}

#[repr(C)]
pub(super) struct Library {
    base: usize,
    name: *const u8,
    dynamic: *const [usize; 2],
    next: *const Library,
}

#[repr(C)]
struct Debugger {
    version: i32,
    libraries: *const Library,
}

/// The libraries of this process in the order of symbol lookup, the executable first. The vDSO is one of them.
///
/// # Safety
///
/// No library is being loaded or unloaded by another thread.
pub(super) unsafe fn libraries() -> impl Iterator<Item = &'static Library> + Clone {
    let [glibc, musl] = debugger_variables();
    // SAFETY: null, or musl's pointer to what its loader keeps for debuggers.
    let musl = unsafe { (musl as *const *const Debugger).as_ref() }.map_or(null(), |pointer| *pointer);
    let debugger = if glibc == 0 { musl } else { glibc as *const Debugger };
    // SAFETY: null, or what the loader keeps for debuggers.
    let first = unsafe { debugger.as_ref() }.map_or(null(), |debugger| debugger.libraries);
    // SAFETY: the loader's list ends with null.
    let library = |pointer: *const Library| unsafe { pointer.as_ref() };
    core::iter::successors(library(first), move |found| library(found.next))
}

/// The value of the last entry of this type, or 0.
///
/// # Safety
///
/// The section is mapped, or null.
unsafe fn dynamic_entry(section: *const [usize; 2], kind: usize) -> usize {
    let mut value = 0;
    let mut entry = section;
    // SAFETY: the section ends with an entry of type 0.
    while let Some([entry_kind, entry_value]) = unsafe { entry.as_ref() }
        && *entry_kind != 0
    {
        if *entry_kind == kind {
            value = *entry_value;
        }
        entry = entry.wrapping_add(1);
    }
    value
}

impl Library {
    /// Address minus stated address.
    pub(super) fn bias(&self) -> usize {
        self.base
    }

    /// Whether this address is that of the library's dynamic section.
    pub(super) fn has_dynamic_section(&self, address: usize) -> bool {
        self.dynamic as usize == address
    }

    /// The address of a symbol that this library defines, or 0. Functions that are chosen at run time (`STT_GNU_IFUNC`)
    /// are not found: no allocator's are.
    ///
    /// # Safety
    ///
    /// The library is loaded.
    pub(super) unsafe fn symbol(&self, name: &str) -> usize {
        // glibc has relocated the addresses in most libraries' sections, but not in the vDSO's; musl in none.
        let table = |kind| {
            // SAFETY: the library is loaded, so its dynamic section is mapped.
            let address = unsafe { dynamic_entry(self.dynamic, kind) };
            if address != 0 && address < self.base {
                self.base + address
            } else {
                address
            }
        };
        let (symbols, names) = (table(DT_SYMTAB) as *const Symbol, table(DT_STRTAB) as *const u8);
        let defined = |index: usize| {
            // SAFETY: a hash table has indexes of this table.
            let symbol = unsafe { &*symbols.wrapping_add(index) };
            // SAFETY: names are C strings in this table.
            let rest = unsafe { after(names.wrapping_add(symbol.name as usize), name) };
            // SAFETY: the name has not ended before.
            let is_named = rest.is_some_and(|rest| unsafe { *rest } == 0);
            let is_defined = symbol.section != SHN_UNDEF && symbol.info & 15 != STT_GNU_IFUNC;
            (is_named && is_defined).then(|| self.base.wrapping_add(symbol.value))
        };
        if symbols.is_null() || names.is_null() {
            return 0;
        }
        let (gnu, sysv) = (table(DT_GNU_HASH), table(DT_HASH));
        let found = if gnu != 0 {
            // SAFETY: this is the library's table.
            unsafe { find_by_gnu_hash(gnu as *const u32, name, defined) }
        } else if sysv != 0 {
            // SAFETY: the second word of this table is the number of symbols.
            let count = unsafe { *(sysv as *const u32).wrapping_add(1) };
            (1..count as usize).find_map(defined)
        } else {
            None
        };
        found.unwrap_or(0)
    }
}

/// Tries each symbol that has the name's hash, by the library's `DT_GNU_HASH`: four words, the bloom filter, the
/// buckets, and for each symbol its hash, whose lowest bit is 1 at the end of a bucket.
///
/// # Safety
///
/// `table` is such a table.
unsafe fn find_by_gnu_hash(table: *const u32, name: &str, defined: impl Fn(usize) -> Option<usize>) -> Option<usize> {
    // SAFETY: the caller's contract; each index below is one that the table gives.
    let word = |index: usize| unsafe { *table.wrapping_add(index) };
    let step = |hash: u32, byte: u8| hash.wrapping_mul(33).wrapping_add(byte.into());
    let hash = name.bytes().fold(5381, step);
    let (buckets, first, bloom) = (word(0), word(1) as usize, word(2) as usize);
    let buckets_at = 4 + 2 * bloom;
    let mut index = word(buckets_at + hash.checked_rem(buckets)? as usize) as usize;
    // An empty bucket has 0.
    while index >= first && index != 0 {
        let entry = word(buckets_at + buckets as usize + index - first);
        if entry | 1 == hash | 1
            && let Some(address) = defined(index)
        {
            return Some(address);
        }
        if entry & 1 == 1 {
            break;
        }
        index += 1;
    }
    None
}

/// What follows `text` at the start of a C string.
///
/// # Safety
///
/// `string` is a C string.
pub(super) unsafe fn after(string: *const u8, text: &str) -> Option<*const u8> {
    // SAFETY: a byte is read only if all before are those of `text`, and so not the end.
    let byte = |index: usize| unsafe { *string.wrapping_add(index) };
    let is_start = text.bytes().enumerate().all(|(index, wanted)| byte(index) == wanted);
    is_start.then(|| string.wrapping_add(text.len()))
}
