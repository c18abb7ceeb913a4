//! What Rust and C++ programs waste time on, by the names of functions: each sample is in one bucket at most, by the
//! innermost function of its stack that a rule knows.

mod rules;

use rustc_hash::FxHashMap;

pub use rules::bucket_of;

use super::cost::Cost;
use super::select::Selection;
use crate::data::NONE;

/// A kind of cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Bucket {
    /// Destructors.
    Drop,
    /// Copies of values: `clone`, `to_owned`, C++ copy constructors.
    Clone,
    /// Unwinding and what leads to it.
    Panic,
    /// The memory allocator.
    Alloc,
    /// memcpy, memmove, memset.
    Memcpy,
    /// The kernel gives memory, or reads a mapped file.
    PageFault,
    /// Mutexes and what they are made of.
    Lock,
    /// Values to text.
    Format,
    /// Hash functions and hash tables.
    Hash,
    /// Executors and I/O drivers; not what they run.
    Async,
}

impl Bucket {
    /// All, in the order of the rules: of two that know a name, the first counts.
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

    /// How far below the function that a rule knows a sample still counts.
    fn reach(self) -> Reach {
        match self {
            Bucket::Drop | Bucket::Clone | Bucket::Panic | Bucket::Alloc | Bucket::Memcpy | Bucket::PageFault => {
                Reach::All
            }
            // println! ends in a system call: that is output, not formatting.
            Bucket::Format => Reach::ToSystemCalls,
            // These call back: `HashMap::retain`, `Once::call_once`, every future.
            Bucket::Lock | Bucket::Hash | Bucket::Async => Reach::ToOtherCode,
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Reach {
    All,
    ToSystemCalls,
    ToOtherCode,
}

/// Rust paths that a bucket with [`Reach::ToOtherCode`] goes on through.
const LIBRARY: &[&str] = &["core::", "alloc::", "std::", "__rust", "__pthread", "pthread_"];

/// What a function does to the bucket of its caller.
#[derive(Clone, Copy)]
struct Class {
    own: Option<Bucket>,
    is_system_call: bool,
    is_library: bool,
}

/// The cost of a bucket.
#[derive(Clone, Debug, PartialEq)]
pub struct BucketRow {
    /// Which.
    pub bucket: Bucket,
    /// Of its samples.
    pub cost: Cost,
    /// The functions that put them there, the most expensive first.
    pub functions: Vec<(u32, Cost)>,
}

/// Buckets that have samples, the largest first.
pub fn buckets(selection: &Selection<'_>) -> Vec<BucketRow> {
    let data = selection.data;
    let is_kernel: Vec<bool> = data
        .categories
        .iter()
        .map(|category| category.name == "Kernel")
        .collect();
    let classes: Vec<Class> = (0..data.funcs.len() as u32)
        .map(|func| {
            let name = data.func_name(func);
            Class {
                own: bucket_of(name),
                is_system_call: [
                    "entry_SYSCALL",
                    "do_syscall_64",
                    "el0_svc",
                    "__x64_sys_",
                    "__arm64_sys_",
                ]
                .iter()
                .any(|start| name.starts_with(start)),
                // C has no paths: the C library, the kernel, and what a program itself wrote in C.
                is_library: !name.contains("::")
                    || LIBRARY
                        .iter()
                        .any(|start| name.trim_start_matches(['<', '&']).starts_with(start)),
            }
        })
        .collect();
    // For each stack: its bucket, and the function that put it there.
    let mut of_stack: Vec<(Option<Bucket>, u32)> = Vec::with_capacity(selection.stacks.len());
    for (index, stack) in selection.stacks.iter().enumerate() {
        let frame = data.frames[stack.frame as usize];
        let class = classes[frame.func as usize];
        let kernel = is_kernel.get(frame.category as usize).is_some_and(|kernel| *kernel);
        let inherited = of_stack.get(stack.prefix as usize).copied().unwrap_or((None, NONE));
        of_stack.push(match (class.own, inherited.0) {
            (Some(bucket), _) => (Some(bucket), selection.func(index as u32)),
            (None, None) => inherited,
            (None, Some(bucket)) => match bucket.reach() {
                Reach::ToSystemCalls if class.is_system_call || kernel => (None, NONE),
                Reach::ToOtherCode if !class.is_library && !kernel => (None, NONE),
                _ => inherited,
            },
        });
    }
    let mut sums: FxHashMap<Bucket, FxHashMap<u32, Cost>> = FxHashMap::default();
    for ((bucket, func), cost) in of_stack.into_iter().zip(&selection.own) {
        if let Some(bucket) = bucket
            && !cost.is_zero()
        {
            *sums.entry(bucket).or_default().entry(func).or_default() += *cost;
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
