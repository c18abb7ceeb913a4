//! Finds avoidable costs of Rust and C++ programs by function names. Each sample is in at most one bucket: that of the innermost function
//! on its stack with a rule.

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

    /// Which callees of a matching function the bucket includes.
    fn reach(self) -> Reach {
        match self {
            Bucket::Drop | Bucket::Clone | Bucket::Panic | Bucket::Alloc | Bucket::Memcpy | Bucket::PageFault => {
                Reach::All
            }
            // println! ends in a system call, which is output and not formatting.
            Bucket::Format => Reach::ToSystemCalls,
            // These call user code: `HashMap::retain`, `Once::call_once`, every future.
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

/// Rust paths that do not end a bucket with [`Reach::ToOtherCode`].
const LIBRARY: &[&str] = &["core::", "alloc::", "std::", "__rust", "__pthread", "pthread_"];

/// The effect of a function on its caller's bucket.
#[derive(Clone, Copy)]
struct Class {
    own: Option<Bucket>,
    is_system_call: bool,
    is_library: bool,
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
                // C names have no paths: the C library, the kernel, and the program's own C code.
                is_library: !name.contains("::")
                    || LIBRARY
                        .iter()
                        .any(|start| name.trim_start_matches(['<', '&']).starts_with(start)),
            }
        })
        .collect();
    // For each stack: its bucket, and the function that matched.
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
