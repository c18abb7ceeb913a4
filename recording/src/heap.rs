//! Recordings of the heap: what is asked for, and how much of it was seen.

use std::path::PathBuf;

use crate::event::Pid;

/// Bytes between two samples of the heap on average, where the user does not choose.
pub const USUAL_HEAP_INTERVAL: u64 = 512 << 10;
/// The longest interval.
pub const MAX_HEAP_INTERVAL: u64 = 1 << 40;
/// A list of processes has at most this many; the others are counted.
pub const MOST_UNSEEN: usize = 100;

/// Begins the names of variables that are for a [runner](HeapOptions::runner).
pub const RUNNER_PREFIX: &str = "SPROF_RUNNER_";

/// How to record the heap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeapOptions {
    /// Mean distance of chosen bytes, as in [`Allocation::interval`](crate::event::Allocation::interval); at most
    /// [`MAX_HEAP_INTERVAL`].
    pub interval: u64,
    /// Choose fewer bytes of a program that allocates fast.
    pub may_raise: bool,
    /// Allocators whose code is changed.
    pub patches: HeapPatches,
    /// Folder of what is kept from recording to recording; `None` if nothing is.
    pub cache: Option<PathBuf>,
    /// Name of a program that the command executes in place of each program to record, and that executes that program.
    /// The command gets the variables of the recording with [`RUNNER_PREFIX`] before their names, and this program
    /// renames them. `None`: the command itself is recorded.
    pub runner: Option<String>,
}

/// Which allocators that are linked into programs have their code changed, so that their blocks are seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeapPatches {
    /// None of them.
    None,
    /// Those that are known by their own symbols: mimalloc, jemalloc, snmalloc, tcmalloc, rpmalloc.
    Known,
    /// Also a `malloc` and `free` that only have these names.
    All,
}

/// How much of the heap was seen, over all processes of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeapCoverage {
    /// [`HeapOptions::interval`].
    pub interval: u64,
    /// The longest interval that was used; the samples have their own.
    pub longest_interval: u64,
    /// Programs whose blocks were sampled. A process that executes another program is two. A program that allocates
    /// less than the interval may have no sample.
    pub programs: u64,
    /// Sampled blocks.
    pub blocks: u64,
    /// Frees of sampled blocks.
    pub frees: u64,
    /// What was lost; `None` if the recording was cut short, so that nobody knows.
    pub lost: Option<HeapLoss>,
    /// Allocators that are linked into programs, and whose blocks were sampled; once for each program.
    pub linked: Vec<LinkedAllocator>,
    /// Programs that were executed and whose blocks were not sampled.
    pub unseen: Vec<UnseenProgram>,
    /// Number of such programs that are not in the list.
    pub unseen_more: u64,
    /// Programs that have loaded the library, and of which no block came: they took too little for a sample, or could
    /// not reach sprof (another file system, a sandbox, no free descriptor).
    pub silent: u64,
    /// How much of their memory was seen; `None` if it is not known, and until a profile is built.
    pub growth: Option<HeapGrowth>,
}

/// The anonymous memory of processes ([`Counter::AnonymousBytes`](crate::counter::Counter)) beside their sampled heaps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeapGrowth {
    /// The most bytes of the living sampled blocks of each process, as a sum. Of a process, no more than `grown`:
    /// programs do not use all that they allocate.
    pub seen: u64,
    /// The most bytes that each process had in RAM, without what it had from its parent, as a sum.
    pub grown: u64,
    /// The processes of both sums.
    pub processes: u64,
    /// Processes whose memory was not read, or only before it grew.
    pub unmeasured: u64,
}

/// What of the heap was lost. All counts are 0 in a recording that is whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeapLoss {
    /// Sampled blocks that found no room in shared memory.
    pub blocks: u64,
    /// The bytes that they stand for.
    pub bytes: u64,
    /// Frees that found no room, or came from threads that are not known: their blocks look as if they were never
    /// freed.
    pub frees: u64,
    /// Sampled blocks whose free was not watched, because a table in the program was full: they look never freed.
    pub untracked: u64,
    /// Sampled blocks of processes and threads that are not known: the kernel's record of their start was lost, or they
    /// are not of this recording.
    pub unknown: u64,
    /// The bytes that these stand for.
    pub unknown_bytes: u64,
    /// Records, shared memory and connections that made no sense.
    pub refused: u64,
}

/// An allocator that is linked into a program, and whose functions were made to count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkedAllocator {
    /// Name of the program's file.
    pub program: String,
    /// Name of the allocator, or names.
    pub allocators: String,
    /// How many functions count.
    pub functions: u64,
    /// Functions that can't, each with the reason: what they take is not seen.
    pub left_out: Vec<String>,
}

/// A program whose blocks were not sampled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnseenProgram {
    /// The process.
    pub pid: Pid,
    /// Name of the program's file.
    pub name: String,
    /// The reason.
    pub cause: UnseenCause,
}

/// Why the blocks of a program were not sampled.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum UnseenCause {
    /// It is linked statically: it has no loader. A launched program whose allocator can be patched gets the library
    /// without one.
    Static,
    /// It is for another kind of processor than sprof, such as a 32-bit program.
    OtherMachine,
    /// It runs with rights of its file (set-user-ID, capabilities): the system loads no library into it.
    SetUserId,
    /// It has an allocator of a sanitizer of gcc or clang, which can't be sampled.
    Sanitizer,
    /// This allocator is linked into it, and no library stands before it. What the program takes from libc is sampled.
    OwnAllocator(&'static str),
    /// This allocator is linked into it and could have been sampled; the reason why it was not.
    NotPatched(String, String),
    /// It has loaded this allocator, whose `operator new` calls no `malloc`. What it takes by `malloc` is sampled.
    OwnNew(&'static str),
    /// The library was not loaded, and the file does not show why: `LD_PRELOAD` was changed in its environment, the
    /// library is not in its file system, or the file has capabilities.
    NotLoaded,
    /// The library was loaded, and the system refused it memory: the system call and the error.
    Refused(String),
    /// It ran in another PID namespace than sprof, and ended before its number in sprof's was known.
    OtherPidNamespace,
    /// The memory that it shares with sprof can't be read any more: the reason. Earlier blocks were sampled.
    Damaged(String),
    /// Too many programs were sampled at the same time.
    OverLimit,
    /// Most of its memory is in no sampled block, and has this owner, as far as its files say.
    OtherMemory(Option<MemoryOwner>),
}

/// A run-time system that maps memory for what programs take from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MemoryOwner {
    /// CPython, whose allocator of small objects maps arenas.
    Python,
    /// The engine of node.
    V8,
    /// A Java virtual machine.
    Java,
}

impl MemoryOwner {
    /// The run-time system that a program or a library has, by the name of its file.
    pub fn of_file(name: &str) -> Option<MemoryOwner> {
        let begins = |with: &str| name.starts_with(with);
        match name {
            "node" | "nodejs" | "deno" => Some(MemoryOwner::V8),
            "libjvm.so" => Some(MemoryOwner::Java),
            _ if begins("python") || begins("libpython") => Some(MemoryOwner::Python),
            _ => begins("libnode.so").then_some(MemoryOwner::V8),
        }
    }
}

impl UnseenCause {
    /// Whether other blocks of the program were sampled.
    pub fn is_partial(&self) -> bool {
        matches!(self, UnseenCause::OwnNew(_) | UnseenCause::OtherMemory(_))
    }

    /// The reason in a few words.
    pub fn label(&self) -> String {
        match self {
            UnseenCause::Static => "static: --heap=patch sees it on x86_64 if sprof itself starts it, and its file has the \
                                    names of malloc and free (not after strip); linked dynamically, its calls of malloc \
                                    are seen"
                .to_owned(),
            UnseenCause::OtherMachine => "32-bit, or for another processor".to_owned(),
            UnseenCause::SetUserId => "set-user-ID, or its file has capabilities".to_owned(),
            UnseenCause::Sanitizer => "it has a sanitizer's allocator".to_owned(),
            UnseenCause::OwnAllocator(name) => format!("{name} is linked into it"),
            UnseenCause::NotPatched(name, reason) => format!("{name} is linked into it, and is not seen: {reason}"),
            UnseenCause::OwnNew(name) => format!("what C++ code takes by {name}'s own operator new is not seen"),
            UnseenCause::NotLoaded => {
                "the library was not loaded (LD_PRELOAD changed, another file system, or rights of the file)".to_owned()
            }
            UnseenCause::Refused(what) => what.clone(),
            UnseenCause::OtherPidNamespace => "it was in another PID namespace, and ended too early".to_owned(),
            UnseenCause::Damaged(error) => {
                format!("the memory that it shares with sprof is damaged ({error}): its later blocks are lost")
            }
            UnseenCause::OverLimit => "too many programs were recorded at once".to_owned(),
            UnseenCause::OtherMemory(owner) => {
                let owner = match owner {
                    Some(MemoryOwner::Python) => {
                        "Python's allocator maps it; with PYTHONMALLOC=malloc in the environment, blocks are seen"
                    }
                    Some(MemoryOwner::V8) => "V8 maps it for objects of JavaScript",
                    Some(MemoryOwner::Java) => "the virtual machine maps it for objects of Java",
                    None => "it is mapped, or of an allocator that is not seen",
                };
                format!("most of its memory does not come from malloc: {owner}")
            }
        }
    }
}

impl HeapCoverage {
    /// Those of two recordings together.
    pub fn plus(mut self, other: HeapCoverage) -> HeapCoverage {
        let room = MOST_UNSEEN.saturating_sub(self.unseen.len());
        self.linked.extend(other.linked);
        self.linked.truncate(MOST_UNSEEN);
        let dropped = other.unseen.len().saturating_sub(room) as u64;
        self.unseen.extend(other.unseen.into_iter().take(room));
        HeapCoverage {
            interval: self.interval.max(other.interval),
            longest_interval: self.longest_interval.max(other.longest_interval),
            programs: self.programs.saturating_add(other.programs),
            blocks: self.blocks.saturating_add(other.blocks),
            frees: self.frees.saturating_add(other.frees),
            lost: self.lost.zip(other.lost).map(|(lost, more)| lost.plus(more)),
            linked: self.linked,
            unseen: self.unseen,
            unseen_more: self.unseen_more.saturating_add(other.unseen_more + dropped),
            silent: self.silent.saturating_add(other.silent),
            growth: None,
        }
    }

    /// Adds a program that was not seen.
    pub fn add_unseen(&mut self, program: UnseenProgram) {
        match self.unseen.len() < MOST_UNSEEN {
            true => self.unseen.push(program),
            false => self.unseen_more += 1,
        }
    }
}

impl HeapLoss {
    /// The sum of two.
    pub fn plus(self, other: HeapLoss) -> HeapLoss {
        HeapLoss {
            blocks: self.blocks.saturating_add(other.blocks),
            bytes: self.bytes.saturating_add(other.bytes),
            frees: self.frees.saturating_add(other.frees),
            untracked: self.untracked.saturating_add(other.untracked),
            unknown: self.unknown.saturating_add(other.unknown),
            unknown_bytes: self.unknown_bytes.saturating_add(other.unknown_bytes),
            refused: self.refused.saturating_add(other.refused),
        }
    }
}
