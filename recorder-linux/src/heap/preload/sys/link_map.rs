//! Finds functions in the libraries of this process. dlsym(3) allocates, and is not there in every libc version under
//! one name.
//!
//! The list of libraries is that of debuggers: `DT_DEBUG` of the executable leads to an `r_debug`, and that to a list
//! of `link_map` in the order of symbol lookup (link.h; musl has the same words).

use core::ptr::null;

/// Types of program headers, symbols and entries of dynamic sections (elf.h).
const PT_DYNAMIC: u32 = 2;
const PT_PHDR: u32 = 6;
const DT_STRTAB: usize = 5;
const DT_SYMTAB: usize = 6;
const DT_DEBUG: usize = 21;
const DT_HASH: usize = 4;
const DT_GNU_HASH: usize = 0x6fff_fef5;
const STT_GNU_IFUNC: u8 = 10;
const SHN_UNDEF: u16 = 0;

#[repr(C)]
struct ProgramHeader {
    kind: u32,
    flags: u32,
    offset: usize,
    address: usize,
    rest: [usize; 4],
}

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

/// The libraries of this process in the order of symbol lookup, the executable first.
///
/// # Safety
///
/// The executable, whose program headers are these (`AT_PHDR` and `AT_PHNUM` of the auxiliary vector), has been loaded
/// by a dynamic loader, and no library is being loaded or unloaded by another thread.
pub(super) unsafe fn libraries(headers: usize, count: usize) -> impl Iterator<Item = &'static Library> + Clone {
    // SAFETY: the kernel has mapped that many.
    let headers = unsafe { core::slice::from_raw_parts(headers as *const ProgramHeader, count) };
    let own_header = headers.iter().find(|header| header.kind == PT_PHDR);
    let base = own_header.map_or(0, |header| (headers.as_ptr() as usize).wrapping_sub(header.address));
    // SAFETY: the executable is at `base`, and its loader has filled in its dynamic section.
    let debugger = unsafe { dynamic_entry(dynamic_section(headers, base), DT_DEBUG) } as *const Debugger;
    // SAFETY: null, or what the loader keeps for debuggers.
    let first = unsafe { debugger.as_ref() }.map_or(null(), |debugger| debugger.libraries);
    // SAFETY: the loader's list ends with null.
    let library = |pointer: *const Library| unsafe { pointer.as_ref() };
    core::iter::successors(library(first), move |found| library(found.next))
}

/// The function of the vDSO, whose ELF header is here (`AT_SYSINFO_EHDR`), or 0.
///
/// # Safety
///
/// `header` is that, or 0.
pub(super) unsafe fn vdso_function(header: usize, name: &str) -> usize {
    /// `e_phoff` and `e_phnum` of `Elf64_Ehdr`.
    const HEADERS_OFFSET: usize = 32;
    const HEADER_COUNT: usize = 56;
    if header == 0 {
        return 0;
    }
    // SAFETY: the kernel has mapped the vDSO's header.
    let offset = unsafe { *((header + HEADERS_OFFSET) as *const usize) };
    // SAFETY: the same.
    let count = unsafe { *((header + HEADER_COUNT) as *const u16) };
    // SAFETY: the kernel has mapped that many.
    let headers = unsafe { core::slice::from_raw_parts((header + offset) as *const ProgramHeader, count.into()) };
    let dynamic = dynamic_section(headers, header);
    let vdso = Library {
        base: header,
        name: null(),
        dynamic,
        next: null(),
    };
    // SAFETY: the vDSO is mapped for as long as the process runs.
    unsafe { vdso.symbol(name) }
}

fn dynamic_section(headers: &[ProgramHeader], base: usize) -> *const [usize; 2] {
    let dynamic = headers.iter().find(|header| header.kind == PT_DYNAMIC);
    dynamic.map_or(null(), |header| base.wrapping_add(header.address) as *const [usize; 2])
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
