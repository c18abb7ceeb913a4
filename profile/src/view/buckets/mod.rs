//! Finds avoidable costs of Rust and C++ programs by function names. A bucket has a function's own time, and that of
//! what can only be its means: the allocator below a destructor, memmove below a copy. Other code ends it: the
//! destructor of Node's callback scope runs all JavaScript after the first `await`, a hash table calls the program's
//! comparison, `write!` calls the program's `Display`. Each sample is in at most one bucket.

mod codes;
mod rules;

use rustc_hash::FxHashMap;

pub use rules::bucket_of;
pub(super) use rules::takes_memory;

use super::cost::Cost;
use super::select::Selection;
use codes::CodeTable;

/// A kind of cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Bucket {
    /// Destructors.
    Drop,
    /// Copies of values: `clone`, `to_owned`, C++ copy constructors.
    Clone,
    /// Unwinding and the code that starts it.
    Panic,
    /// The memory allocator.
    Alloc,
    /// memcpy, memmove, memset.
    Memcpy,
    /// Page faults: the kernel maps memory or reads a mapped file.
    PageFault,
    /// Mutexes and their parts.
    Lock,
    /// Formatting of values as text.
    Format,
    /// Hash functions and hash tables.
    Hash,
    /// Executors and I/O drivers, without the tasks that they run.
    Async,
}

impl Bucket {
    /// All buckets in the order of the rules: if two match a name, the first one counts.
    pub const ALL: [Bucket; 10] = [
        Bucket::Drop,
        Bucket::Clone,
        Bucket::Panic,
        Bucket::Alloc,
        Bucket::Memcpy,
        Bucket::PageFault,
        Bucket::Lock,
        Bucket::Format,
        Bucket::Hash,
        Bucket::Async,
    ];

    /// For machines.
    pub fn id(self) -> &'static str {
        match self {
            Bucket::Drop => "drop",
            Bucket::Clone => "clone",
            Bucket::Panic => "panic",
            Bucket::Alloc => "alloc",
            Bucket::Memcpy => "memcpy",
            Bucket::PageFault => "page_fault",
            Bucket::Lock => "lock",
            Bucket::Format => "format",
            Bucket::Hash => "hash",
            Bucket::Async => "async",
        }
    }

    /// For people.
    pub fn label(self) -> &'static str {
        match self {
            Bucket::Drop => "dropping, destructors",
            Bucket::Clone => "cloning, copy constructors",
            Bucket::Panic => "panics, exceptions",
            Bucket::Alloc => "allocating and freeing",
            Bucket::Memcpy => "memcpy, memmove, memset",
            Bucket::PageFault => "page faults",
            Bucket::Lock => "locks",
            Bucket::Format => "formatting",
            Bucket::Hash => "hashing, hash tables",
            Bucket::Async => "async runtime",
        }
    }

    /// The kinds that are this one's means when its function calls theirs: they do nothing else for it. `of_library` is
    /// true if the function is of a standard library, and so are all that it calls for its own purpose.
    fn has_means(self, kind: Bucket, of_library: bool) -> bool {
        let means: &[Bucket] = match self {
            Bucket::Drop if of_library => &[Bucket::Alloc, Bucket::Hash],
            Bucket::Drop => &[Bucket::Alloc],
            Bucket::Clone if of_library => &[Bucket::Alloc, Bucket::Memcpy, Bucket::Hash],
            Bucket::Clone | Bucket::Format | Bucket::Hash => &[Bucket::Alloc, Bucket::Memcpy],
            Bucket::Panic => &[Bucket::Alloc, Bucket::Memcpy, Bucket::Lock, Bucket::Format],
            Bucket::Alloc => &[Bucket::Memcpy, Bucket::Lock],
            Bucket::Async => &[Bucket::Alloc, Bucket::Memcpy, Bucket::Lock],
            // The kernel copies and clears memory.
            Bucket::PageFault => &[Bucket::Memcpy],
            Bucket::Memcpy | Bucket::Lock => &[],
        };
        self == kind || means.contains(&kind)
    }

    /// System calls that are this kind's means. println! ends in a system call, which is output and not formatting.
    fn system_calls(self) -> &'static [&'static str] {
        match self {
            Bucket::Alloc => &[
                "brk",
                "mmap",
                "munmap",
                "mremap",
                "madvise",
                "mprotect",
                "process_madvise",
            ],
            Bucket::Lock => &["futex", "futex_wait", "futex_wake", "futex_waitv"],
            Bucket::Async => &[
                "epoll_wait",
                "epoll_pwait",
                "epoll_pwait2",
                "epoll_ctl",
                "futex",
                "io_uring_enter",
            ],
            _ => &[],
        }
    }
}

/// What a frame's code is to its caller's bucket.
#[derive(Clone, Copy)]
enum CalledCode {
    /// A function with a rule.
    Ruled { bucket: Bucket, of_library: bool },
    /// Standard library code without a rule.
    Library,
    /// Code of a shared library, with a C name.
    SharedLibrary,
    /// The kernel: where an interrupt or an exception begins to be served.
    Interrupt,
    /// The kernel: a system call.
    SystemCall,
    /// The kernel's other code.
    Kernel,
    /// The program's own code, and code that may call it.
    Other,
}

/// The bucket of a stack: the outermost function of an unbroken chain of means decides.
#[derive(Clone, Copy)]
struct BucketChain {
    bucket: Bucket,
    /// The function that `bucket` is of.
    func: u32,
    /// The kind of the innermost function with a rule.
    innermost: Bucket,
    /// True if that function is of a standard library.
    of_library: bool,
}

impl BucketChain {
    /// The chain of a stack whose caller has the chain `caller`, and whose function is `func`, with this name and code.
    fn from_caller(
        caller: Option<BucketChain>,
        code: CalledCode,
        func: u32,
        name: &str,
        same_lib: bool,
    ) -> Option<BucketChain> {
        if let CalledCode::Ruled { bucket, of_library } = code {
            let means = caller
                .filter(|caller| caller.bucket != bucket && caller.innermost.has_means(bucket, caller.of_library));
            return Some(BucketChain {
                innermost: bucket,
                of_library,
                ..means.unwrap_or(BucketChain {
                    bucket,
                    func,
                    innermost: bucket,
                    of_library,
                })
            });
        }
        caller.filter(|caller| match code {
            CalledCode::Ruled { .. } | CalledCode::Interrupt | CalledCode::Other => false,
            CalledCode::Library => caller.of_library && caller.innermost != Bucket::PageFault,
            // An allocator's functions without a prefix: those of jemalloc and tcmalloc.
            CalledCode::SharedLibrary => same_lib && caller.innermost == Bucket::Alloc,
            CalledCode::SystemCall => {
                system_call(name).is_some_and(|call| caller.innermost.system_calls().contains(&call))
            }
            CalledCode::Kernel => caller.innermost == Bucket::PageFault || !caller.innermost.system_calls().is_empty(),
        })
    }
}

/// The system call of a kernel function: `futex` of `__x64_sys_futex`.
fn system_call(name: &str) -> Option<&str> {
    const STARTS: [&str; 6] = [
        "__x64_sys_",
        "__arm64_sys_",
        "__do_sys_",
        "__se_sys_",
        "__ia32_sys_",
        "ksys_",
    ];
    let call = STARTS.iter().find_map(|start| name.strip_prefix(start))?;
    // `__do_sys_brk.isra.0`, and `ksys_mmap_pgoff` of `__x64_sys_mmap`.
    let call = call.split('.').next()?;
    Some(call.strip_suffix("_pgoff").unwrap_or(call))
}

/// The cost of a bucket.
#[derive(Clone, Debug, PartialEq)]
pub struct BucketRow {
    /// The bucket.
    pub bucket: Bucket,
    /// Cost of its samples.
    pub cost: Cost,
    /// The functions that matched its rules, largest cost first.
    pub functions: Vec<(u32, Cost)>,
}

/// Buckets with samples, largest first.
pub fn buckets(selection: &Selection<'_>) -> Vec<BucketRow> {
    let data = selection.data;
    let codes = CodeTable::new(data);
    let mut chains: Vec<Option<BucketChain>> = Vec::with_capacity(selection.stacks.len());
    for (index, stack) in (0..).zip(selection.stacks.iter()) {
        let frame = data.frames[stack.frame as usize];
        let caller = chains.get(stack.prefix as usize).copied().flatten();
        let code = codes.of_frame(&frame);
        let same_lib = (selection.stacks.get(stack.prefix as usize))
            .is_some_and(|caller| data.frames[caller.frame as usize].lib == frame.lib);
        let name = data.func_name(frame.func);
        chains.push(BucketChain::from_caller(
            caller,
            code,
            selection.func(index),
            name,
            same_lib,
        ));
    }
    let mut sums: FxHashMap<Bucket, FxHashMap<u32, Cost>> = FxHashMap::default();
    for (chain, cost) in chains.into_iter().zip(&selection.own) {
        if let Some(chain) = chain
            && !cost.is_zero()
        {
            *sums.entry(chain.bucket).or_default().entry(chain.func).or_default() += *cost;
        }
    }
    let mut rows: Vec<BucketRow> = (sums.into_iter())
        .map(|(bucket, functions)| {
            let mut functions: Vec<(u32, Cost)> = functions.into_iter().collect();
            functions.sort_by(|a, b| b.1.weight.total_cmp(&a.1.weight).then(a.0.cmp(&b.0)));
            BucketRow {
                bucket,
                cost: functions.iter().map(|(_, cost)| *cost).sum(),
                functions,
            }
        })
        .collect();
    rows.sort_by(|a, b| b.cost.weight.total_cmp(&a.cost.weight).then(a.bucket.cmp(&b.bucket)));
    rows
}
