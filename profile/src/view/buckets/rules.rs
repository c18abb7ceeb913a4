//! The rules of the buckets. A new library needs one more row.

use names::v8::without_place;

use super::Bucket;
use crate::view::names::bare;

/// A condition on a name without generic arguments and parameters.
enum NameRule {
    Is(&'static [&'static str]),
    /// Ignores the leading `<` and `&` of `<T as Trait>` and `<T>`.
    Starts(&'static [&'static str]),
    Ends(&'static [&'static str]),
    Has(&'static [&'static str]),
    /// `Foo::~Foo()`
    Destructor,
    /// `Foo::Foo(Foo const&)`
    CopyConstructor,
}

use NameRule::{CopyConstructor, Destructor, Ends, Has, Is, Starts};

/// Rust paths as both manglings show them (`alloc::vec::Vec<T>::f`, `<alloc::vec::Vec<T>>::f`), glibc, musl, libstdc++,
/// libc++, mimalloc, jemalloc, tcmalloc and Linux.
const RULES: &[(Bucket, &[NameRule])] = &[
    (
        Bucket::Drop,
        &[
            Starts(&["core::ptr::drop_in_place", "core::ptr::drop_glue"]),
            Is(&["core::mem::drop"]),
            Has(&[" as core::ops::drop::Drop>::drop"]),
            Destructor,
            Has(&[
                "std::_Destroy",
                "::_M_release",
                "std::__destroy",
                // What a container's destructor calls, which is inlined.
                "::_M_deallocate_nodes",
                "::_M_destroy_data",
                "std::_List_base::_M_clear",
            ]),
            Is(&["std::_Rb_tree::_M_erase", "std::__tree::destroy"]),
        ],
    ),
    (
        Bucket::Clone,
        &[
            Has(&[
                " as core::clone::Clone>::clone",
                " as alloc::borrow::ToOwned>::to_owned",
            ]),
            Starts(&["alloc::slice::hack::"]),
            Ends(&["::to_vec", "::to_vec_in"]),
            CopyConstructor,
        ],
    ),
    (
        Bucket::Panic,
        &[
            Is(&[
                "rust_panic",
                "rust_begin_unwind",
                "__rust_start_panic",
                "rust_eh_personality",
                "__cxa_throw",
                "__cxa_rethrow",
                "__cxa_allocate_exception",
                "__cxa_begin_catch",
                "__cxa_end_catch",
                "__gxx_personality_v0",
                "_Unwind_RaiseException",
                "_Unwind_Resume",
                "_Unwind_ForcedUnwind",
                "std::panicking::begin_panic",
                "std::panicking::begin_panic_handler",
                "std::panicking::rust_panic_with_hook",
                "std::panicking::rust_panic",
                "std::panicking::default_hook",
            ]),
            Starts(&[
                "core::panicking::",
                "std::panicking::begin_panic",
                "std::panicking::default_hook",
                "core::result::unwrap_failed",
                "core::option::unwrap_failed",
                "core::option::expect_failed",
            ]),
        ],
    ),
    (
        Bucket::Alloc,
        &[
            Is(&[
                "malloc",
                "calloc",
                "realloc",
                "reallocarray",
                "free",
                "cfree",
                "aligned_alloc",
                "memalign",
                "posix_memalign",
                "valloc",
                "malloc_consolidate",
                "unlink_chunk",
                "sysmalloc",
                "systrim",
                "brk",
                "sbrk",
                "operator new",
                "operator new[]",
                "operator delete",
                "operator delete[]",
                "alloc_perturb",
                "arena_get2",
            ]),
            Starts(&[
                "__libc_malloc",
                "__libc_calloc",
                "__libc_realloc",
                "__libc_free",
                "__libc_memalign",
                "__GI___libc_malloc",
                "__GI___libc_free",
                "__malloc",
                "_int_malloc",
                "_int_free",
                "_int_realloc",
                "_int_memalign",
                "tcache_",
                "sysmalloc",
                "checked_request2size",
                "__rust_alloc",
                "__rust_dealloc",
                "__rust_realloc",
                "__rustc::__rust_",
                "__rustc::__rdl_",
                "__rustc::__rg_",
                "__rdl_",
                "__rg_",
                "alloc::alloc::",
                "alloc::raw_vec::",
                "std::alloc::",
                "std::sys::alloc::",
                "mi_",
                "_mi_",
                "je_",
                "_rjem_",
                "tc_malloc",
                "tc_free",
                "tc_new",
                "tc_delete",
                "tcmalloc::",
                "std::__new_allocator",
                "std::allocator_traits::allocate",
                "std::allocator_traits::deallocate",
                "__x64_sys_brk",
                "__do_sys_brk",
            ]),
            Has(&["as core::alloc::global::GlobalAlloc>::", "as core::alloc::Allocator>::"]),
        ],
    ),
    (
        Bucket::Memcpy,
        &[
            Is(&[
                "memcpy",
                "memmove",
                "memset",
                "mempcpy",
                "bcopy",
                "bzero",
                "explicit_bzero",
            ]),
            Starts(&[
                "__memcpy",
                "__memmove",
                "__memset",
                "__mempcpy",
                "memcpy@",
                "memmove@",
                "memset@",
                "core::intrinsics::copy",
                "core::intrinsics::write_bytes",
                "core::ptr::copy",
                "core::ptr::write_bytes",
                "compiler_builtins::mem::",
            ]),
            Ends(&[
                "::copy_from_slice",
                "::copy_to_nonoverlapping",
                "::copy_from_nonoverlapping",
            ]),
            Has(&["std::__copy_move", "std::__fill"]),
        ],
    ),
    (
        Bucket::PageFault,
        &[Is(&[
            "asm_exc_page_fault",
            "exc_page_fault",
            "page_fault",
            "do_page_fault",
            "do_user_addr_fault",
            "handle_mm_fault",
            "__handle_mm_fault",
            "do_anonymous_page",
            "do_mem_abort",
            "el0_da",
            "el0_ia",
        ])],
    ),
    (
        Bucket::Lock,
        &[Starts(&[
            "pthread_mutex_",
            "__pthread_mutex_",
            "___pthread_mutex_",
            "pthread_rwlock_",
            "__pthread_rwlock_",
            "___pthread_rwlock_",
            "pthread_cond_",
            "__pthread_cond_",
            "___pthread_cond_",
            "pthread_spin_",
            "__lll_lock",
            "__lll_unlock",
            "__GI___lll_lock",
            "futex_wait",
            "futex_wake",
            "__futex_",
            "do_futex",
            "__x64_sys_futex",
            "std::sync::mutex::",
            "std::sync::rwlock::",
            "std::sync::condvar::",
            "std::sync::poison::mutex::",
            "std::sync::poison::rwlock::",
            "std::sync::poison::condvar::",
            "std::sys::sync::mutex",
            "std::sys::sync::rwlock",
            "std::sys::sync::condvar",
            "std::sys::pal::unix::futex",
            "parking_lot::",
            "parking_lot_core::",
            "lock_api::",
            "spin::",
            "std::mutex::",
            "std::shared_mutex::",
            "std::unique_lock",
            "std::lock_guard",
            "std::condition_variable",
            "absl::Mutex",
            "absl::base_internal::SpinLock",
        ])],
    ),
    (
        Bucket::Format,
        &[
            Starts(&[
                "core::fmt::",
                "alloc::fmt::",
                "std::fmt::",
                "core::num::flt2dec",
                "core::num::fmt",
                "itoa::",
                "ryu::",
                "__vfprintf",
                "__printf_",
                "__vsnprintf",
                "__vsprintf",
                "_itoa",
                "fmt::v",
                "std::vformat",
                "std::format",
                "std::__format",
                "std::to_string",
            ]),
            Is(&[
                "printf",
                "fprintf",
                "sprintf",
                "snprintf",
                "vprintf",
                "vfprintf",
                "vsprintf",
                "vsnprintf",
                "dprintf",
                "asprintf",
                "vasprintf",
            ]),
            Ends(&["::write_fmt", "ToString>::to_string", "::spec_to_string"]),
            Has(&[
                " as core::fmt::",
                "std::ostream::operator<<",
                "std::basic_ostream::operator<<",
                "std::operator<<",
                "std::ostream::_M_insert",
                "std::__ostream_insert",
                "std::num_put",
            ]),
        ],
    ),
    (
        Bucket::Hash,
        &[
            Has(&[
                " as core::hash::Hash>::hash",
                " as core::hash::Hasher>::",
                " as core::hash::BuildHasher>::",
            ]),
            Starts(&[
                "core::hash::",
                "std::hash::",
                "std::collections::hash::",
                "hashbrown::",
                "indexmap::",
                "ahash::",
                "fxhash::",
                "rustc_hash::",
                "foldhash::",
                "twox_hash::",
                "siphasher::",
                "std::_Hash_bytes",
                "std::_Hashtable",
                "std::__detail::_Hash",
                "std::__detail::_Map_base",
                "std::__detail::_Insert",
                "std::hash",
                "std::unordered_",
                "std::__hash_table",
                "absl::hash_internal",
                "absl::container_internal",
                "XXH",
            ]),
        ],
    ),
    (
        Bucket::Async,
        &[Starts(&[
            "tokio::",
            "tokio_util::",
            "mio::",
            "polling::",
            "async_std::",
            "async_io::",
            "async_executor::",
            "async_task::",
            "smol::",
            "futures_util::",
            "futures_executor::",
            "futures_core::",
            "boost::asio::",
        ])],
    ),
];

/// What stands between an allocator and the code that wants memory: containers that grow, strings that are copied, and
/// functions of large programs and libraries that do nothing but pass a call on and look at the result.
const GROWTH: &[NameRule] = &[
    Starts(&[
        "alloc::",
        "hashbrown::",
        "indexmap::",
        "smallvec::",
        "std::collections::",
        "core::iter::",
        "core::clone::",
        "core::convert::",
        "std::allocator",
        "std::vector",
        "std::deque",
        "std::list",
        "std::map",
        "std::set",
        "std::unordered_",
        "std::basic_string",
        "std::string",
        "std::make_",
        "std::shared_ptr",
        "std::unique_ptr",
        "std::function",
        "std::_",
        "__gnu_cxx::",
        "void std::_",
        "strdup",
        "strndup",
        "__strdup",
        "__strndup",
        "getdelim",
        "__getdelim",
        "asprintf",
        "vasprintf",
        "__vasprintf",
        "__asprintf",
        "__allocate_stack",
        "g_malloc",
        "g_realloc",
        "g_strdup",
        "_PyMem_",
        "PyMem_",
        "PyObject_Malloc",
        "PyObject_Calloc",
        "PyObject_Realloc",
        "_PyObject_Malloc",
        // LLVM, node.
        "llvm::safe_",
        "llvm::SmallVectorBase",
        "node::NodeArrayBufferAllocator::",
    ]),
    Is(&[
        // GNU programs, Git.
        "xmalloc",
        "xcalloc",
        "xrealloc",
        "xstrdup",
        // OpenSSL.
        "CRYPTO_malloc",
        "CRYPTO_zalloc",
        "CRYPTO_realloc",
        "CRYPTO_strdup",
        "CRYPTO_memdup",
        // redis.
        "zmalloc",
        "zmalloc_usable",
        "zcalloc",
        "zcalloc_usable",
        "zrealloc",
        "zrealloc_usable",
        // nginx.
        "ngx_alloc",
        "ngx_calloc",
        "ngx_memalign",
        // The JVM, V8, LLVM.
        "os::malloc",
        "os::realloc",
        "AllocateHeap",
        "v8::internal::AllocAtLeastWithRetry",
        "v8::internal::AllocWithRetry",
        "llvm::allocate_buffer",
    ]),
    Has(&[
        " as core::iter::",
        " as core::clone::Clone>::clone",
        " as alloc::",
        " as core::convert::",
    ]),
];

/// True if the function takes memory for its caller: an allocator, `operator new`, a container that grows.
pub(in crate::view) fn takes_memory(name: &str) -> bool {
    bucket_of(name) == Some(Bucket::Alloc)
        || without_place(name) == name && {
            let bare = without_inline_namespaces(bare(name));
            GROWTH.iter().any(|rule| rule.knows(name, &bare))
        }
}

/// The bucket of a function name; `None` for most functions, whose time is not avoidable.
pub fn bucket_of(name: &str) -> Option<Bucket> {
    // The names are of C, C++, Rust and Go. A function of JavaScript may also be called `malloc`.
    if without_place(name) != name {
        return None;
    }
    let bare = without_inline_namespaces(bare(name));
    let knows = |(_, rules): &&(Bucket, &[NameRule])| rules.iter().any(|rule| rule.knows(name, &bare));
    RULES.iter().find(knows).map(|(bucket, _)| *bucket)
}

impl NameRule {
    fn knows(&self, name: &str, bare: &str) -> bool {
        let start = bare.trim_start_matches(['<', '&']);
        match self {
            Is(names) => names.contains(&bare),
            Starts(starts) => starts.iter().any(|prefix| start.starts_with(prefix)),
            Ends(ends) => ends.iter().any(|end| bare.ends_with(end)),
            Has(parts) => parts.iter().any(|part| bare.contains(part)),
            Destructor => bare.rsplit("::").next().is_some_and(|last| last.starts_with('~')),
            CopyConstructor => is_copy_constructor(name, bare),
        }
    }
}

/// `std::__cxx11::to_string`, `std::__1::map`, `absl::lts_20220623::StrCat`: inline namespaces hold versions of a
/// library.
fn without_inline_namespaces(bare: String) -> String {
    let is_version = |part: &str| {
        let is_number = |rest: &str| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit());
        let numbered = |start: &str| part.strip_prefix(start).is_some_and(is_number);
        part == "__cxx11" || numbered("__") || numbered("__ndk") || numbered("lts_")
    };
    if !bare.contains("::__") && !bare.contains("::lts_") {
        return bare;
    }
    let mut parts = bare.split("::");
    let first = parts.next().unwrap_or_default().to_owned();
    parts
        .filter(|part| !is_version(part))
        .fold(first, |path, part| path + "::" + part)
}

/// `ns::Foo<int>::Foo(ns::Foo<int> const&)`
fn is_copy_constructor(name: &str, bare: &str) -> bool {
    let mut parts = bare.rsplit("::");
    let (Some(last), Some(class)) = (parts.next(), parts.next()) else {
        return false;
    };
    let class = class.rsplit(' ').next().unwrap_or(class);
    let parameter = name
        .rfind('(')
        .map(|at| &name[at + 1..])
        .and_then(|rest| rest.strip_suffix(" const&)"));
    let of_parameter = parameter.map(self::bare);
    last == class && of_parameter.is_some_and(|of| of.rsplit("::").next() == Some(class))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names as `perf report`, `sprof` and `nm -C` showed them.
    #[test]
    fn real_names_are_known() {
        use Bucket::*;
        for (name, expected) in [
            ("core::ptr::drop_in_place<alloc::vec::Vec<u8>>", Some(Drop)),
            ("malloc app.js:1:2", None),
            ("core::ptr::drop_in_place::<alloc::string::String>", Some(Drop)),
            ("<alloc::vec::Vec<T,A> as core::ops::drop::Drop>::drop", Some(Drop)),
            (
                "<hashbrown::raw::RawTable<(u8, u8)> as core::ops::drop::Drop>::drop",
                Some(Drop),
            ),
            ("std::vector<int, std::allocator<int> >::~vector()", Some(Drop)),
            ("std::string::~string()", Some(Drop)),
            ("<alloc::string::String as core::clone::Clone>::clone", Some(Clone)),
            ("<alloc::vec::Vec<T,A> as core::clone::Clone>::clone", Some(Clone)),
            ("alloc::slice::<impl [T]>::to_vec", Some(Clone)),
            ("<[u8]>::to_vec", Some(Clone)),
            (
                "std::vector<int, std::allocator<int> >::vector(std::vector<int, std::allocator<int> > const&)",
                Some(Clone),
            ),
            ("ns::Foo::Foo(ns::Foo const&)", Some(Clone)),
            ("ns::Foo::Foo(ns::Bar const&)", None),
            ("__do_sys_clone", None),
            ("clone3", None),
            ("core::panicking::panic_fmt", Some(Panic)),
            ("std::panicking::try", None),
            ("std::panicking::catch_unwind", None),
            ("std::sys::backtrace::__rust_begin_short_backtrace", None),
            ("_Unwind_RaiseException", Some(Panic)),
            ("__cxa_throw", Some(Panic)),
            ("malloc", Some(Alloc)),
            ("_int_malloc", Some(Alloc)),
            ("__libc_free", Some(Alloc)),
            ("operator new(unsigned long)", Some(Alloc)),
            ("operator delete(void*, unsigned long)", Some(Alloc)),
            ("__rustc::__rust_alloc", Some(Alloc)),
            ("alloc::raw_vec::RawVec<T,A>::grow_one", Some(Alloc)),
            ("<alloc::raw_vec::RawVecInner>::finish_grow", Some(Alloc)),
            ("alloc::raw_vec::finish_grow", Some(Alloc)),
            ("mi_malloc", Some(Alloc)),
            ("_rjem_je_arena_malloc_hard", Some(Alloc)),
            ("freeze", None),
            ("__memmove_avx_unaligned_erms", Some(Memcpy)),
            ("memcpy", Some(Memcpy)),
            ("asm_exc_page_fault", Some(PageFault)),
            ("do_user_addr_fault", Some(PageFault)),
            ("___pthread_mutex_lock", Some(Lock)),
            ("std::sync::poison::mutex::Mutex<T>::lock", Some(Lock)),
            ("std::sys::sync::mutex::futex::Mutex::lock_contended", Some(Lock)),
            ("parking_lot::raw_mutex::RawMutex::lock_slow", Some(Lock)),
            ("futex_wake", Some(Lock)),
            ("core::fmt::write", Some(Format)),
            ("<alloc::string::String as core::fmt::Write>::write_str", Some(Format)),
            (
                "core::fmt::num::imp::<impl core::fmt::Display for u64>::fmt",
                Some(Format),
            ),
            ("<my::Type as core::fmt::Display>::fmt", Some(Format)),
            ("__vfprintf_internal", Some(Format)),
            (
                "std::basic_ostream<char, std::char_traits<char> >::operator<<(int)",
                Some(Format),
            ),
            ("std::ostream& std::ostream::_M_insert<long>(long)", Some(Format)),
            ("<core::hash::sip::Hasher<S> as core::hash::Hasher>::write", Some(Hash)),
            ("hashbrown::map::HashMap<K,V,S,A>::insert", Some(Hash)),
            ("<hashbrown::raw::RawTable<(u8, u8)>>::reserve_rehash", Some(Hash)),
            ("core::hash::BuildHasher::hash_one", Some(Hash)),
            (
                "std::_Hash_bytes(void const*, unsigned long, unsigned long)",
                Some(Hash),
            ),
            (
                "tokio::runtime::scheduler::multi_thread::worker::Context::run",
                Some(Async),
            ),
            ("my_program::tokio_like", None),
            ("std::__cxx11::to_string(int)", Some(Format)),
            ("std::__1::unordered_map<int, int>::find(int const&)", Some(Hash)),
            (
                "absl::lts_20220623::container_internal::raw_hash_set<P, H>::prefetch_heap_block()",
                Some(Hash),
            ),
            ("absl::lts_20220623::StrCat(absl::lts_20220623::AlphaNum const&)", None),
            ("absl::lts_20220623::Mutex::Lock()", Some(Lock)),
            (
                "std::_Rb_tree<int, int, std::less<int> >::_M_erase(std::_Rb_tree_node<int>*)",
                Some(Drop),
            ),
            ("sixty", None),
            ("main", None),
        ] {
            assert_eq!(bucket_of(name), expected, "{name}");
        }
    }

    #[test]
    fn functions_that_pass_calls_on_to_an_allocator_take_memory_for_their_callers() {
        for (name, expected) in [
            ("malloc", true),
            ("std::vector<int, std::allocator<int> >::push_back(int const&)", true),
            ("g_malloc0", true),
            ("zmalloc_usable", true),
            ("zmalloc_get_rss", false),
            ("os::malloc(unsigned long, MEMFLAGS, NativeCallStack const&)", true),
            ("os::init()", false),
            (
                "llvm::SmallVectorBase<unsigned int>::grow_pod(void*, unsigned long, unsigned long)",
                true,
            ),
            ("llvm::allocate_buffer(unsigned long, unsigned long)", true),
            ("malloc script.js:1", false),
            ("main", false),
        ] {
            assert_eq!(takes_memory(name), expected, "{name}");
        }
    }
}
