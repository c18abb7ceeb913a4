//! The functions of linked allocators that programs call, and their arguments. By the headers of mimalloc 2 and 3,
//! jemalloc 5.3, gperftools 2.10, snmalloc 0.7 and rpmalloc 1.4.

use std::collections::{BTreeSet, HashMap};

use super::LeftOut;

/// What a call does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum CallClass {
    /// Returns an address.
    Allocate = 0,
    Free = 1,
    Reallocate = 2,
    /// Returns 0, and writes the address to where the pointer argument points.
    PosixMemalign = 3,
}

/// What a call does, and with which of its arguments. Their numbers begin with 0; all are in registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CallSignature {
    pub(super) class: CallClass,
    /// Bytes that are asked for. Without meaning in `Free`.
    pub(super) size: u8,
    /// What the bytes are multiplied by.
    pub(super) multiplier: Option<u8>,
    /// What is freed, or where the address is written to. Without meaning in `Allocate`.
    pub(super) pointer: u8,
}

/// What the name of a function says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KnownFunction {
    pub(super) allocator: &'static str,
    /// Position in [`CALLS`], for records.
    pub(super) index: u32,
    pub(super) call: Result<CallSignature, LeftOut>,
    /// The symbols that the file must have as well: others call functions of their own so.
    pub(super) anchors: &'static [&'static str],
}

/// What an allocator is called whose functions have the names of C.
pub(super) const OWN_MALLOC: &str = "a malloc of its own";

/// Which functions a prefix can stand before.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NameSet {
    /// Of C, and with a heap before the other arguments.
    Core,
    C,
    Jemalloc,
    Mimalloc,
    /// Of mimalloc, also with a heap before the other arguments.
    MimallocHeap,
    Snmalloc,
    Tcmalloc,
    Rpmalloc,
    Operators,
}
use NameSet::{C, Core, Jemalloc, Mimalloc, MimallocHeap, Operators, Rpmalloc, Snmalloc, Tcmalloc};

/// Prefix, allocator, the names behind the prefix, how many arguments are before those in [`CALLS`], and the symbols
/// that a file with this allocator always has. These are of the archives that distributions have and of the crates,
/// after a linker has dropped what nobody calls. C programs also have a `tc_new`, `mi_malloc` or `rpfree` of their own.
type Prefix = (
    &'static str,
    &'static str,
    &'static [NameSet],
    u8,
    &'static [&'static str],
);

#[rustfmt::skip]
const PREFIXES: [Prefix; 10] = [
    ("mi_", "mimalloc", &[Core, C, Mimalloc, MimallocHeap], 0, &["_mi_page_empty"]),
    ("mi_heap_", "mimalloc", &[Core, MimallocHeap], 1, &["_mi_page_empty"]),
    ("mi_theap_", "mimalloc", &[Core, MimallocHeap], 1, &["_mi_page_empty"]),
    ("_rjem_", "jemalloc", &[Core, C, Jemalloc], 0, &["_rjem_je_arena_boot"]),
    ("je_", "jemalloc", &[Core, C, Jemalloc], 0, &["je_arena_boot"]),
    ("sn_", "snmalloc", &[Core, C, Snmalloc], 0, &["sn_rust_alloc"]),
    ("tc_", "tcmalloc", &[Core, C, Tcmalloc], 0, &["_ZTV15MallocExtension"]),
    ("rp", "rpmalloc", &[Core, C, Rpmalloc], 0, &["rpmalloc_initialize"]),
    ("", "jemalloc", &[Jemalloc], 0, &["mallocx", "malloc", "free"]),
    ("", OWN_MALLOC, &[Core, C, Operators], 0, &["malloc", "free"]),
];

/// Whether a symbol says that a file has an allocator.
pub(super) fn is_anchor(name: &str) -> bool {
    PREFIXES.iter().any(|(.., anchors)| anchors.contains(&name))
}

/// The allocators whose own names are among these symbols.
pub(super) fn anchored_allocators(anchors: &BTreeSet<&str>) -> BTreeSet<&'static str> {
    let is_there = |anchor: &&str| is_of_allocator(anchor) && anchors.contains(anchor);
    let anchored = PREFIXES.iter().filter(|(.., needed)| needed.iter().all(is_there));
    anchored.map(|(_, allocator, ..)| *allocator).collect()
}

/// What fast paths of allocators end in, without `_rjem_` and `je_`: where a function of the program calls one of
/// these, the compiler has put a fast path into it.
const SLOW_PATHS: [&str; 8] = [
    "_mi_malloc_generic",
    "_mi_free_generic",
    "_mi_page_retire",
    "_mi_heap_realloc_zero",
    "_mi_theap_realloc_zero",
    "malloc_default",
    "free_default",
    "sdallocx_default",
];

/// Whether only an allocator's own functions call this one.
pub(super) fn is_slow_path(name: &str) -> bool {
    // Compilers put a dot before the number of a copy.
    let name = name.split('.').next().unwrap_or_default();
    let own = name.strip_prefix("_rjem_").unwrap_or(name);
    let own = own.strip_prefix("je_").unwrap_or(own);
    SLOW_PATHS.contains(&own) && is_of_allocator(name)
}

/// How the names of an allocator's functions begin, also of those that programs do not call. mimalloc has names of
/// glibc and BSD beside its own.
const OWN_NAMES: [&str; 6] = ["mi_", "_mi_", "_rjem_", "je_", "__libc_", "vfree"];

/// Whether a function is one of an allocator, by its name.
pub(super) fn is_of_allocator(name: &str) -> bool {
    OWN_NAMES.iter().any(|own| name.starts_with(own))
}

/// Arguments of a call, and the names of functions that have them.
type Calls = (NameSet, Result<CallSignature, LeftOut>, &'static str);

const fn calls(set: NameSet, class: CallClass, size: u8, multiplier: Option<u8>, names: &'static str) -> Calls {
    let call = CallSignature {
        class,
        size,
        multiplier,
        pointer: 0,
    };
    (set, Ok(call), names)
}

const fn frees(set: NameSet, names: &'static str) -> Calls {
    calls(set, CallClass::Free, 0, None, names)
}

use CallClass::{Allocate, PosixMemalign, Reallocate};
#[rustfmt::skip]
const CALLS: [Calls; 36] = [
    calls(Core, Allocate, 0, None, "malloc"),
    calls(Core, Allocate, 0, Some(1), "calloc"),
    calls(Core, Reallocate, 1, None, "realloc"),
    (Core, Err(LeftOut::FreesOnFailure), "reallocf"),
    calls(C, Allocate, 0, None, "valloc pvalloc"),
    calls(C, Allocate, 1, None, "aligned_alloc memalign"),
    calls(C, PosixMemalign, 2, None, "posix_memalign"),
    calls(C, Reallocate, 1, Some(2), "reallocarray"),
    frees(C, "free cfree free_sized free_aligned_sized"),
    calls(Jemalloc, Allocate, 0, None, "mallocx"),
    calls(Jemalloc, Reallocate, 1, None, "rallocx"),
    frees(Jemalloc, "dallocx sdallocx"),
    (Jemalloc, Err(LeftOut::InPlace), "xallocx"),
    calls(MimallocHeap, Allocate, 0, None, "zalloc malloc_small zalloc_small malloc_aligned malloc_aligned_at \
        zalloc_aligned zalloc_aligned_at alloc_new"),
    calls(MimallocHeap, Allocate, 0, Some(1), "mallocn alloc_new_n calloc_aligned calloc_aligned_at"),
    calls(MimallocHeap, Reallocate, 1, None, "rezalloc realloc_aligned realloc_aligned_at rezalloc_aligned \
        rezalloc_aligned_at"),
    calls(MimallocHeap, Reallocate, 1, Some(2), "reallocn recalloc recalloc_aligned recalloc_aligned_at"),
    (MimallocHeap, Err(LeftOut::UnknownSize), "strdup strndup realpath"),
    (MimallocHeap, Err(LeftOut::FreesMany), "destroy"),
    calls(Mimalloc, Allocate, 0, None, "umalloc umalloc_small uzalloc_small umalloc_aligned uzalloc_aligned new \
        new_nothrow new_aligned new_aligned_nothrow"),
    calls(Mimalloc, Allocate, 0, Some(1), "ucalloc new_n"),
    calls(Mimalloc, Reallocate, 1, None, "urealloc new_realloc"),
    calls(Mimalloc, Reallocate, 1, Some(2), "new_reallocn aligned_recalloc aligned_offset_recalloc"),
    frees(Mimalloc, "ufree free_small free_size free_size_aligned free_aligned"),
    (Mimalloc, Err(LeftOut::UnknownSize), "mbsdup wcsdup dupenv_s wdupenv_s"),
    calls(Snmalloc, Allocate, 1, None, "rust_alloc rust_alloc_zeroed"),
    calls(Snmalloc, Reallocate, 3, None, "rust_realloc"),
    frees(Snmalloc, "rust_dealloc"),
    calls(Tcmalloc, Allocate, 0, None, "malloc_skip_new_handler new new_nothrow new_aligned new_aligned_nothrow \
        newarray newarray_nothrow newarray_aligned newarray_aligned_nothrow"),
    frees(Tcmalloc, "delete delete_nothrow delete_sized delete_aligned delete_aligned_nothrow delete_sized_aligned \
        deletearray deletearray_nothrow deletearray_sized deletearray_aligned deletearray_aligned_nothrow \
        deletearray_sized_aligned"),
    calls(Rpmalloc, Allocate, 0, None, "zalloc"),
    calls(Rpmalloc, Allocate, 1, None, "aligned_zalloc"),
    calls(Rpmalloc, Allocate, 1, Some(2), "aligned_calloc"),
    calls(Rpmalloc, Reallocate, 2, None, "aligned_realloc"),
    calls(Operators, Allocate, 0, None, "_Znwm _Znam _ZnwmRKSt9nothrow_t _ZnamRKSt9nothrow_t _ZnwmSt11align_val_t \
        _ZnamSt11align_val_t _ZnwmSt11align_val_tRKSt9nothrow_t _ZnamSt11align_val_tRKSt9nothrow_t"),
    frees(Operators, "_ZdlPv _ZdaPv _ZdlPvm _ZdaPvm _ZdlPvRKSt9nothrow_t _ZdaPvRKSt9nothrow_t _ZdlPvSt11align_val_t \
        _ZdaPvSt11align_val_t _ZdlPvmSt11align_val_t _ZdaPvmSt11align_val_t _ZdlPvSt11align_val_tRKSt9nothrow_t \
        _ZdaPvSt11align_val_tRKSt9nothrow_t"),
];

/// All functions that are known, by name.
pub(super) fn known_functions() -> HashMap<String, KnownFunction> {
    let names = CALLS
        .iter()
        .flat_map(|&(set, call, names)| names.split_whitespace().map(move |name| (set, call, name)));
    let mut known = HashMap::new();
    for (index, (set, call, name)) in names.enumerate() {
        for (prefix, allocator, _, arguments, anchors) in PREFIXES.iter().filter(|(_, _, sets, ..)| sets.contains(&set))
        {
            let function = KnownFunction {
                allocator,
                index: index as u32,
                call: call.map(|call| call.after(*arguments)),
                anchors,
            };
            known.insert(format!("{prefix}{name}"), function);
        }
    }
    known
}

impl CallSignature {
    /// The same call where other arguments come first.
    fn after(self, arguments: u8) -> CallSignature {
        CallSignature {
            class: self.class,
            size: self.size + arguments,
            multiplier: self.multiplier.map(|multiplier| multiplier + arguments),
            pointer: self.pointer + arguments,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_the_allocator_and_the_arguments() {
        let known = known_functions();
        let call = |class, size, multiplier, pointer| {
            Ok(CallSignature {
                class,
                size,
                multiplier,
                pointer,
            })
        };
        for (name, allocator, expected) in [
            ("malloc", OWN_MALLOC, call(Allocate, 0, None, 0)),
            ("mi_calloc", "mimalloc", call(Allocate, 0, Some(1), 0)),
            ("mi_heap_recalloc", "mimalloc", call(Reallocate, 2, Some(3), 1)),
            ("mi_theap_malloc", "mimalloc", call(Allocate, 1, None, 1)),
            ("mi_heap_destroy", "mimalloc", Err(LeftOut::FreesMany)),
            ("mi_heap_reallocf", "mimalloc", Err(LeftOut::FreesOnFailure)),
            ("_rjem_sdallocx", "jemalloc", call(CallClass::Free, 0, None, 0)),
            ("rallocx", "jemalloc", call(Reallocate, 1, None, 0)),
            ("sn_rust_realloc", "snmalloc", call(Reallocate, 3, None, 0)),
            ("rpaligned_calloc", "rpmalloc", call(Allocate, 1, Some(2), 0)),
            ("tc_posix_memalign", "tcmalloc", call(PosixMemalign, 2, None, 0)),
            ("_ZnwmSt11align_val_t", OWN_MALLOC, call(Allocate, 0, None, 0)),
        ] {
            let found = known.get(name).map(|known| (known.allocator, known.call));
            assert_eq!(found, Some((allocator, expected)), "{name}");
        }
        for other in [
            "mi_rust_alloc",
            "zalloc",
            "_ZnwmPv",
            "heap_malloc",
            "mi_",
            "",
            "tc_heap_malloc",
            "new",
        ] {
            assert_eq!(known.get(other), None, "{other}");
        }
    }

    #[test]
    fn each_name_stands_once_and_all_arguments_are_in_registers() {
        let known = known_functions();
        let names_of = |set: &NameSet| -> usize {
            let of_set = CALLS.iter().filter(|(other, ..)| set == other);
            of_set.map(|(.., names)| names.split_whitespace().count()).sum()
        };
        let names = PREFIXES.map(|(_, _, sets, ..)| sets.iter().map(names_of).sum::<usize>());
        assert_eq!(known.len(), names.iter().sum());
        for (name, function) in &known {
            let last = function
                .call
                .map(|call| call.size.max(call.pointer).max(call.multiplier.unwrap_or(0)));
            assert!(last.is_err() || last.is_ok_and(|last| last < 6), "{name}");
            // A record has 8 bits for these functions and those that are interposed.
            let number = crate::heap::wire::FUNCTIONS.len() as u32 + function.index;
            assert!(number <= crate::heap::wire::FUNCTION_MASK.into(), "{name}");
        }
    }
}
