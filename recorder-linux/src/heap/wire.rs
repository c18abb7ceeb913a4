//! The contract between the recorder and its library in programs (`preload/`, which includes this file). Needs `core`
//! alone.
//!
//! 1. The recorder puts the library's path first into `LD_PRELOAD`, and [`VARIABLE`] into the environment. Children
//!    inherit both.
//! 2. On x86_64, a program that may have an allocator linked into it (it defines `malloc`, or its file has a table of
//!    symbols) connects to the socket when it starts, and asks how its allocator is to be patched: [`Question`],
//!    [`Answer`], [`Outcome`]. A program that can't be patched sends the outcome alone.
//! 3. A program that makes its first sample connects to the socket, and sends one [`Hello`] as one message. Beside the
//!    hello is the descriptor of the shared memory (`SCM_RIGHTS`), unless the hello says that it was refused. The
//!    program closes its own descriptors of both, and expects no answer. It waits at most [`SEND_MS`]. After `execve`,
//!    and after a fork of a process that had not connected, the process sends a hello of its own.
//! 4. The shared memory (a memfd of [`memory_bytes`], sealed against a change of its size) has one [`Header`], zeros up
//!    to [`RING_OFFSET`], and the ring. A fork writes into the memory of its parent; each record names its process.
//! 5. The ring has records ([`RecordHead`]), of all threads: there are too few for threads to wait for each other. The
//!    recorder sorts by time. A record is written at most some microseconds after its time.
//!
//! **Reading the ring.** Positions count bytes from the start, and never wrap: position `p` lies at `p % ring_bytes` in
//! the ring, and is a multiple of [`ALIGNMENT`]. The recorder reads from [`RingState::tail`] on, up to
//! [`RingState::head`], and moves the tail. The first word of a record is `!p` once it is whole; before, the word is
//! something else, since each position occurs once. A record never wraps: one of kind [`FILLER`] skips the end of the
//! ring. A record may be the last [`ALIGNMENT`] bytes of the memory.
//!
//! **A record that never becomes whole** (a thread was killed while it wrote, or a signal handler jumped out of it):
//! the recorder looks at each further multiple of [`ALIGNMENT`] for the next whole one, and counts what it skipped.
//!
//! **Pairs.** An allocation is followed by at most one [`FREE`] of its address in its process, unless it has the flag
//! [`UNTRACKED`]. A fork has copies of all allocations that were live in its parent at the time of the fork. The kernel
//! knows that time; the first record of the child may come when the parent has freed some. A sample of `size` bytes
//! stands for `size / (1 - exp(-size / interval))` bytes, and so does its free.
//!
//! The program can write anything into this memory at any time, and so can the recorder: each checks what it reads.

use core::sync::atomic::AtomicU64;

/// `SPROF_HEAP_PRELOAD=INTERVAL:STACK_BYTES:RING_BYTES:PATCH:SOCKET`. Another form means that the program is not
/// sampled.
///
/// - INTERVAL: the mean number of bytes between samples. 0: every allocation is a sample, also one of 0 bytes.
/// - STACK_BYTES: how much of the stack a sample has at first, at most [`MAX_STACK_BYTES`].
/// - RING_BYTES: the length of the ring: a power of two from [`MIN_RING_BYTES`] to [`MAX_RING_BYTES`].
/// - PATCH: 1 if the program asks for patches of an allocator that is linked into it, else 0.
/// - SOCKET: the path of a Unix stream socket, or `@` and an abstract name; at most [`MAX_SOCKET_BYTES`]. The
///   program sends nothing unless root or its own user listens there.
pub const VARIABLE: &str = "SPROF_HEAP_PRELOAD";
/// The largest stack copy. The program reads larger values of [`Header::stack_bytes`] as this.
pub const MAX_STACK_BYTES: u64 = 64 << 10;
/// The shortest ring. One record has at most a half of a ring; larger stacks are cut to fit.
pub const MIN_RING_BYTES: u64 = 16 << 10;
/// The longest ring.
pub const MAX_RING_BYTES: u64 = 256 << 20;
/// What fits into `sun_path` of `sockaddr_un` (unix(7)) with its terminator.
pub const MAX_SOCKET_BYTES: usize = 107;
/// How long a program waits for the recorder to take a message, or to answer, ms.
pub const SEND_MS: u32 = 2000;

/// `sprofhp`, and the version of this format.
pub const MAGIC: u64 = u64::from_le_bytes(*b"sprofhp\x02");
/// The first word of a question, of its answer, and of the outcome.
const QUESTION: u64 = u64::from_le_bytes(*b"sprofhq\x02");
const ANSWER: u64 = u64::from_le_bytes(*b"sprofha\x02");
const OUTCOME: u64 = u64::from_le_bytes(*b"sprofho\x02");
/// Where the ring begins in the shared memory.
pub const RING_OFFSET: u64 = 4096;
/// Positions and lengths of records are multiples of this.
pub const ALIGNMENT: u64 = 64;
/// Length of a [`RecordHead`] with the commit word before it.
pub const HEAD_BYTES: u64 = 64;
/// Registers behind the head of an allocation, each 8 bytes. The stack bytes follow, from the stack pointer upwards.
///
/// - x86_64: rip, rsp, rbp, rbx, r12, r13, r14, r15, then zeros.
/// - aarch64: lr, sp, x29, x19 to x28, then zeros.
///
/// All are those of the caller just after the call, so the first is a return address.
pub const REGISTERS: usize = 16;

/// The length of the shared memory.
pub const fn memory_bytes(ring_bytes: u64) -> u64 {
    RING_OFFSET + ring_bytes
}

/// Length of each message of a program, words in the byte order of the machine. Zeros follow what it has.
pub const MESSAGE_WORDS: usize = 8;

/// A program's message with its shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// `EM_X86_64` (62) or `EM_AARCH64` (183) of elf.h: the order of registers.
    pub machine: u32,
    /// The process, in its own pid namespace, as in its records. `SO_PEERCRED` has the number in the recorder's.
    pub pid: u32,
    /// The length of the ring.
    pub ring_bytes: u64,
    /// What was refused, of [`STEPS`]: then no descriptor is beside the hello, and this process is not sampled.
    pub refused_step: u32,
    /// The error of that step (`errno`), or 0.
    pub error: u32,
}

/// Names of what a system can refuse, by [`Hello::refused_step`].
pub const STEPS: [&str; 6] = [
    "nothing",
    "memfd_create",
    "ftruncate",
    "F_ADD_SEALS",
    "mmap",
    "fallocate",
];

impl Hello {
    /// [`MAGIC`], pid and machine, `ring_bytes`, error and step.
    pub const fn to_words(self) -> [u64; MESSAGE_WORDS] {
        let step = join(self.refused_step, self.error);
        [MAGIC, join(self.machine, self.pid), self.ring_bytes, step, 0, 0, 0, 0]
    }

    /// The hello in these words. `None` if they are not a hello, or a hello of another version.
    pub const fn from_words(words: [u64; MESSAGE_WORDS]) -> Option<Hello> {
        let [MAGIC, process, ring_bytes, step, 0, 0, 0, 0] = words else {
            return None;
        };
        let (machine, pid) = split(process);
        let (refused_step, error) = split(step);
        Some(Hello {
            machine,
            pid,
            ring_bytes,
            refused_step,
            error,
        })
    }
}

/// Asks for patches of the executable's own allocator. All addresses are those of the asking process, which has one
/// thread and waits at most [`SEND_MS`] for the [`Answer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// Address minus stated address of the executable.
    pub bias: u64,
    /// Where [`PATCH_CODE_BYTES`] are free for code, within 2 GiB of the executable's code.
    pub code: u64,
    /// Offset of the thread's countdown from the thread pointer (fs).
    pub countdown: i64,
    /// Where a call goes that may be a sample or free one, with the address of its [`Descriptor`] in r11.
    pub slow: u64,
    /// Counters of the addresses of samples, by the lower 16 bits of `address >> 6 ^ address >> 15`.
    pub filter: u64,
}

/// Room for the code of an answer, and as much for its writes until they are made.
pub const PATCH_CODE_BYTES: usize = 64 << 10;

impl Question {
    /// The words of the message.
    pub const fn to_words(self) -> [u64; MESSAGE_WORDS] {
        let countdown = self.countdown.cast_unsigned();
        [QUESTION, self.bias, self.code, countdown, self.slow, self.filter, 0, 0]
    }

    /// The question in these words; `None` if they are none.
    pub const fn from_words(words: [u64; MESSAGE_WORDS]) -> Option<Question> {
        let [QUESTION, bias, code, countdown, slow, filter, 0, 0] = words else {
            return None;
        };
        let countdown = countdown.cast_signed();
        Some(Question {
            bias,
            code,
            countdown,
            slow,
            filter,
        })
    }
}

/// The start of an answer. The code and the writes follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Length of the code for [`Question::code`]: a multiple of 8. 0: there is nothing to patch.
    pub code_bytes: u32,
    /// Number of writes: an address in the executable's code, a number of bytes from 1 to 8, and these bytes; a word
    /// each.
    pub writes: u32,
}

/// Length of the start of an answer, words.
pub const ANSWER_WORDS: usize = 2;
/// Length of a write, words: address, number of bytes, the bytes, and those that the file has there.
pub const WRITE_WORDS: usize = 4;

impl Answer {
    /// The words of the message.
    pub const fn to_words(self) -> [u64; ANSWER_WORDS] {
        [ANSWER, join(self.code_bytes, self.writes)]
    }

    /// The start of an answer that has room; `None` if these words are none.
    pub const fn from_words(words: [u64; ANSWER_WORDS]) -> Option<Answer> {
        let [ANSWER, counts] = words else { return None };
        let (code_bytes, writes) = split(counts);
        let has_room = code_bytes as usize <= PATCH_CODE_BYTES
            && writes as usize <= PATCH_CODE_BYTES / (8 * WRITE_WORDS)
            && code_bytes.is_multiple_of(8);
        if has_room {
            Some(Answer { code_bytes, writes })
        } else {
            None
        }
    }
}

/// What became of the patches. All of them were written, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// What was refused, of [`PATCH_STEPS`].
    pub refused_step: u32,
    /// The error of that step (`errno`), or 0.
    pub error: u32,
}

/// Names of what can keep a program from being patched, by [`Outcome::refused_step`].
pub const PATCH_STEPS: [&str; 8] = [
    "nothing",
    "it had several threads",
    "no memory near its code",
    "sprof did not answer in time",
    "sprof's answer made no sense",
    "its code can't be changed",
    "it has more functions and calls than sprof changes",
    "its code in memory is not that of its file",
];

impl Outcome {
    /// The words of the message.
    pub const fn to_words(self) -> [u64; MESSAGE_WORDS] {
        [OUTCOME, join(self.refused_step, self.error), 0, 0, 0, 0, 0, 0]
    }

    /// The outcome in these words; `None` if they are none.
    pub const fn from_words(words: [u64; MESSAGE_WORDS]) -> Option<Outcome> {
        let [OUTCOME, step, 0, 0, 0, 0, 0, 0] = words else {
            return None;
        };
        let (refused_step, error) = split(step);
        Some(Outcome { refused_step, error })
    }
}

/// What a function of an allocator takes and does. Its arguments are counted from 0, at most 5.
#[repr(C)]
#[derive(Debug)]
pub struct Descriptor {
    /// Address of the function, without this library before it; 0 if it is not known.
    pub function: AtomicU64,
    /// [`ALLOCATES`], [`FREES`], [`REALLOCATES`] or [`STORES`].
    pub class: u8,
    /// The argument with the number of bytes.
    pub size: u8,
    /// The argument to multiply them with, or [`NO_ARGUMENT`].
    pub multiplier: u8,
    /// The argument with the block, or with the place for its address ([`STORES`]).
    pub pointer: u8,
    /// The index in [`FUNCTIONS`], or a number above them.
    pub index: u32,
}

/// It returns a block.
pub const ALLOCATES: u8 = 0;
/// It frees a block.
pub const FREES: u8 = 1;
/// It returns a block in place of another one.
pub const REALLOCATES: u8 = 2;
/// It stores the address of a block, and returns 0.
pub const STORES: u8 = 3;
/// No argument.
pub const NO_ARGUMENT: u8 = 255;

/// The start of the shared memory.
#[repr(C)]
#[derive(Debug)]
pub struct Header {
    /// [`MAGIC`].
    pub magic: AtomicU64,
    /// As INTERVAL of [`VARIABLE`]. The recorder may change it: it is in effect from the next sample of each thread on.
    pub interval: AtomicU64,
    /// As STACK_BYTES of [`VARIABLE`]. The recorder may change it.
    pub stack_bytes: AtomicU64,
    /// Zeros.
    pub reserved: [AtomicU64; 5],
    /// What belongs to the ring.
    pub ring: RingState,
}

/// Positions and counts of the ring. All but the tail are written by the program alone, and only grow.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct RingState {
    /// Where the next record will be.
    pub head: AtomicU64,
    /// What the recorder has read. It alone writes this.
    pub tail: AtomicU64,
    /// Allocations in records.
    pub samples: AtomicU64,
    /// Samples without a record: the ring was full, or the shared memory was not ready.
    pub lost_samples: AtomicU64,
    /// The bytes that the lost samples stand for.
    pub lost_bytes: AtomicU64,
    /// Frees of sampled allocations without a record: the ring was full. The allocations then look live for ever.
    pub lost_frees: AtomicU64,
    /// Samples that are flagged [`UNTRACKED`].
    pub untracked: AtomicU64,
    /// Bytes that were allocated inside of an allocation, and so not counted: by an allocator that calls itself, or by
    /// a signal handler. Only allocations that are recorded, or free a sample, notice these.
    pub nested_bytes: AtomicU64,
}

/// Kind of a record: an allocation, with registers and stack. A reallocation is a free and an allocation.
pub const ALLOCATION: u16 = 0;
/// Kind of a record: a free of a sampled allocation. It has a head alone.
pub const FREE: u16 = 1;
/// Kind of a record: it skips the end of a ring. Only its length counts.
pub const FILLER: u16 = 9;

/// Flag of an allocation: its free will not be recorded, because the table of live samples was full.
pub const UNTRACKED: u16 = 1 << 15;
/// Which of [`FUNCTIONS`] was called, in the flags of an allocation.
pub const FUNCTION_MASK: u16 = 0xff;

/// The functions that the library interposes.
pub const FUNCTIONS: [&str; 10] = [
    "malloc",
    "calloc",
    "realloc",
    "free",
    "aligned_alloc",
    "memalign",
    "posix_memalign",
    "valloc",
    "pvalloc",
    "reallocarray",
];

/// What follows the commit word of a record, in the byte order of the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordHead {
    /// Length of the whole record: a multiple of [`ALIGNMENT`].
    pub bytes: u32,
    /// [`ALLOCATION`], [`FREE`] or [`FILLER`].
    pub kind: u16,
    /// [`FUNCTION_MASK`], [`UNTRACKED`].
    pub flags: u16,
    /// The process, in its own pid namespace.
    pub pid: u32,
    /// The thread, in the same namespace.
    pub tid: u32,
    /// `CLOCK_MONOTONIC`, ns. An allocation has the time after it, a free the time before it: an address is never live
    /// twice.
    pub time_ns: u64,
    /// What was allocated or freed.
    pub address: u64,
    /// Bytes that were asked for; 0 in a free.
    pub size: u64,
    /// The interval with which this sample was drawn; 0 in a free.
    pub interval: u64,
    /// How much of the stack is valid behind the registers. Less than asked for: the stack ends there.
    pub stack_bytes: u64,
}

impl RecordHead {
    /// The words of the memory.
    pub const fn to_words(self) -> [u64; 7] {
        let kind = self.kind as u32 | (self.flags as u32) << 16;
        [
            join(self.bytes, kind),
            join(self.pid, self.tid),
            self.time_ns,
            self.address,
            self.size,
            self.interval,
            self.stack_bytes,
        ]
    }

    /// The head in these words, unchecked.
    pub const fn from_words(words: [u64; 7]) -> RecordHead {
        let [kind, thread, time_ns, address, size, interval, stack_bytes] = words;
        let (bytes, kind) = split(kind);
        let (pid, tid) = split(thread);
        RecordHead {
            bytes,
            kind: kind as u16,
            flags: (kind >> 16) as u16,
            pid,
            tid,
            time_ns,
            address,
            size,
            interval,
            stack_bytes,
        }
    }
}

const fn join(low: u32, high: u32) -> u64 {
    low as u64 | (high as u64) << 32
}

const fn split(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}
