//! Bytes of a perf record to a `Record`: a pure function, the same for the live ring and for a file.
//!
//! Layouts are those of `include/uapi/linux/perf_event.h`, "enum perf_event_type", for the one sample type that
//! `open` asks for; [`SampleLayout`] says which of its optional parts are there.

use recording::module::BuildId;
use recording::stack::StackCopy;

use crate::abi::{context, misc, record_type, sample_type as has};

/// Size of `struct perf_event_header`.
pub const HEADER_BYTES: usize = 8;

/// `sample_type` bits of every event that is opened.
pub const SAMPLE_TYPE: u64 = ID_TYPE | has::IP | has::PERIOD | has::REGS_USER | has::STACK_USER;
/// The part of [`SAMPLE_TYPE`] that records other than samples have: enough for an event that writes no samples.
pub const ID_TYPE: u64 = has::TID | has::TIME | has::ID | has::CPU;
/// PERF_SAMPLE_CALLCHAIN: the kernel's part of the stack.
pub const SAMPLE_CALLCHAIN: u64 = has::CALLCHAIN;
/// PERF_SAMPLE_PERIOD, a part of [`SAMPLE_TYPE`].
pub const SAMPLE_PERIOD: u64 = has::PERIOD;
/// PERF_SAMPLE_RAW: the fields of a tracepoint.
pub const SAMPLE_RAW: u64 = has::RAW;

/// With `sample_id_all` and [`SAMPLE_TYPE`], every record but samples ends with pid, tid, time, id, cpu and padding.
const SAMPLE_ID_BYTES: usize = 32;

/// `struct perf_event_header`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHeader {
    /// `enum perf_event_type`.
    pub kind: u32,
    /// PERF_RECORD_MISC_*.
    pub misc: u16,
    /// Bytes, header included.
    pub size: u16,
}

impl RecordHeader {
    /// Takes the header apart.
    pub fn parse(bytes: &[u8; HEADER_BYTES]) -> RecordHeader {
        let [a, b, c, d, e, f, g, h] = *bytes;
        RecordHeader {
            kind: u32::from_ne_bytes([a, b, c, d]),
            misc: u16::from_ne_bytes([e, f]),
            size: u16::from_ne_bytes([g, h]),
        }
    }
}

/// The kind of machine whose registers a sample holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegisterSet {
    /// `enum perf_event_x86_regs`.
    X86_64,
    /// `enum perf_event_arm_regs` of arm64.
    Aarch64,
}

impl Default for RegisterSet {
    fn default() -> RegisterSet {
        RegisterSet::NATIVE
    }
}

impl RegisterSet {
    /// The set of the architecture that this was compiled for.
    pub const NATIVE: RegisterSet = if cfg!(target_arch = "aarch64") {
        RegisterSet::Aarch64
    } else {
        RegisterSet::X86_64
    };

    /// `sample_regs_user` of the events that are opened: all that unwind rules may need. The 14 beside the
    /// needed ones are 0.7 % of a record on x86_64, and the 29 of arm64 1.4 %.
    pub fn mask(self) -> u64 {
        match self {
            RegisterSet::X86_64 => 0x1ff | 0xff << 16,
            RegisterSet::Aarch64 => (1 << 33) - 1,
        }
    }

    /// Those without which nothing can be unwound.
    pub(crate) fn needed(self) -> u64 {
        match self {
            RegisterSet::X86_64 => 1 << BP | 1 << SP | 1 << IP,
            RegisterSet::Aarch64 => 1 << X29 | 1 << X30 | 1 << X31 | 1 << PC,
        }
    }

    /// The bits of registers in their masks, by DWARF number (System V ABI for AMD64, figure 3.36; DWARF for the Arm
    /// 64-bit Architecture, 4.1).
    pub(crate) fn bits(self) -> &'static [u8] {
        const X86_64: [u8; 17] = [0, 3, 2, 1, 4, 5, BP, SP, 16, 17, 18, 19, 20, 21, 22, 23, IP];
        const AARCH64: [u8; 33] = {
            let mut bits = [0; 33];
            let mut at = 0;
            while at < 33 {
                bits[at] = at as u8;
                at += 1;
            }
            bits
        };
        match self {
            RegisterSet::X86_64 => &X86_64,
            RegisterSet::Aarch64 => &AARCH64,
        }
    }

    fn stack_pointer(self) -> u8 {
        match self {
            RegisterSet::X86_64 => SP,
            RegisterSet::Aarch64 => X31,
        }
    }
}

/// `PERF_REG_X86_*`.
pub(crate) const BP: u8 = 6;
pub(crate) const SP: u8 = 7;
pub(crate) const IP: u8 = 8;
/// `PERF_REG_ARM64_*`.
pub(crate) const X29: u8 = 29;
pub(crate) const X30: u8 = 30;
pub(crate) const X31: u8 = 31;
pub(crate) const PC: u8 = 32;

/// What the samples of an event hold beyond [`SAMPLE_TYPE`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SampleLayout {
    /// Registers.
    pub registers: RegisterSet,
    /// [`SAMPLE_CALLCHAIN`] was asked for.
    pub call_chain: bool,
    /// `sample_stack_user`.
    pub stack_bytes: u32,
    /// The period of each sample, where PERF_SAMPLE_PERIOD was not asked for.
    pub period: Option<u64>,
    /// PERF_SAMPLE_RAW was asked for.
    pub raw: bool,
}

/// One record. Borrows from the ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Record<'a> {
    /// PERF_RECORD_SAMPLE.
    Sample(RawSample<'a>),
    /// PERF_RECORD_MMAP2.
    Mmap {
        pid: i32,
        start: u64,
        len: u64,
        file_offset: u64,
        /// Device and inode, unless there is a build id.
        inode: Option<(u32, u32, u64)>,
        build_id: Option<BuildId>,
        executable: bool,
        /// Without the terminating NUL.
        path: &'a [u8],
    },
    /// PERF_RECORD_COMM.
    Comm {
        pid: i32,
        tid: i32,
        /// The name comes from exec.
        exec: bool,
        /// Without the terminating NUL.
        name: &'a [u8],
    },
    /// PERF_RECORD_FORK: a process or (`pid == parent_pid`) a thread.
    Fork { pid: i32, parent_pid: i32, tid: i32 },
    /// PERF_RECORD_EXIT of one task.
    Exit { pid: i32, tid: i32 },
    /// PERF_RECORD_LOST.
    Lost { count: u64 },
    /// PERF_RECORD_LOST_SAMPLES.
    LostSamples { count: u64 },
    /// PERF_RECORD_KSYMBOL of a BPF program.
    Bpf {
        start: u64,
        len: u32,
        is_loaded: bool,
        /// Without the terminating NUL.
        name: &'a [u8],
    },
    /// PERF_RECORD_THROTTLE.
    Throttle,
    /// PERF_RECORD_SWITCH and PERF_RECORD_SWITCH_CPU_WIDE: a task leaves its CPU, or gets one.
    Switch {
        pid: i32,
        tid: i32,
        out: bool,
        /// It leaves, and could have gone on.
        preempted: bool,
    },
    /// Known or unknown, and of no interest.
    Other,
}

/// PERF_RECORD_SAMPLE, taken apart but not interpreted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RawSample<'a> {
    /// Process, 0 or -1 if the task has none that is visible here.
    pub(crate) pid: i32,
    pub(crate) tid: i32,
    pub(crate) cpu: u32,
    /// What the sample stands for, in the event's unit.
    pub(crate) period: u64,
    /// The interrupted instruction, user or kernel.
    pub(crate) ip: u64,
    /// The sample interrupted the kernel.
    pub(crate) in_kernel: bool,
    /// Call-chain words, markers (`PERF_CONTEXT_*`) included; 8 bytes each.
    pub(crate) call_chain: &'a [u8],
    /// User registers; `None`: a kernel thread or an exiting task.
    pub(crate) registers: Option<RawRegisters<'a>>,
    /// Bytes from the stack pointer upwards.
    pub(crate) stack: &'a [u8],
    /// What the event itself wrote (PERF_SAMPLE_RAW); empty if that was not asked for.
    pub(crate) raw: &'a [u8],
    /// Neither registers nor stack bytes were asked for: the call chain is the whole stack, with its user part.
    pub(crate) unwound: bool,
    /// The addresses of callers are those of their calls, not those that these return to.
    pub(crate) at_calls: bool,
}

/// User registers of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RawRegisters<'a> {
    /// PERF_SAMPLE_REGS_ABI_32.
    pub(crate) is_32_bit: bool,
    /// Which registers there are.
    pub(crate) mask: u64,
    /// 8 bytes each, in the order of the bits of `mask`.
    pub(crate) words: &'a [u8],
}

impl RawRegisters<'_> {
    /// The register with a bit of `mask`.
    pub(crate) fn get(&self, bit: u8) -> u64 {
        word(self.words, (self.mask & ((1 << bit) - 1)).count_ones() as usize)
    }
}

impl<'a> RawSample<'a> {
    /// The copy of the user stack; empty without one.
    pub(crate) fn stack_copy(&self, registers: RegisterSet) -> StackCopy<'a> {
        let start = self.registers.map(|values| values.get(registers.stack_pointer()));
        start.map_or_else(StackCopy::default, |start| StackCopy {
            start,
            bytes: self.stack,
        })
    }

    /// The call chain's addresses, leaf first, markers left out.
    pub(crate) fn kernel_chain(&self) -> impl Iterator<Item = u64> + '_ {
        (0..self.call_chain.len() / 8)
            .map(|index| word(self.call_chain, index))
            .filter(|address| *address < context::MAX)
    }

    /// All addresses of the call chain, leaf first, each with whether it is the kernel's.
    pub(crate) fn whole_chain(&self) -> impl Iterator<Item = (u64, bool)> + '_ {
        let mut in_kernel = self.in_kernel;
        (0..self.call_chain.len() / 8).filter_map(move |index| {
            let address = word(self.call_chain, index);
            if address < context::MAX {
                return Some((address, in_kernel));
            }
            in_kernel = address == context::KERNEL;
            None
        })
    }
}

fn word(bytes: &[u8], index: usize) -> u64 {
    bytes
        .get(index * 8..index * 8 + 8)
        .and_then(|word| word.try_into().ok())
        .map_or(0, u64::from_ne_bytes)
}

/// A record that is shorter than its type and size promise, in a few words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed(pub(crate) &'static str);

/// The time of a record, without decoding the rest. `None` if the record is too short for a time.
pub fn time(record: &[u8]) -> Option<u64> {
    // Samples have ip, pid, tid, then the time.
    field(record, 16, 8).map(u64::from_ne_bytes)
}

/// True for PERF_RECORD_SAMPLE.
pub fn is_sample(record: &[u8]) -> bool {
    record.first_chunk().map(RecordHeader::parse).map(|header| header.kind) == Some(record_type::SAMPLE)
}

/// True for a thread that starts in its own process, a task that ends, and a name without an exec: no file is to be
/// opened for them.
pub fn opens_no_file(record: &[u8]) -> bool {
    let Some(header) = record.first_chunk().map(RecordHeader::parse) else {
        return false;
    };
    match header.kind {
        record_type::EXIT => true,
        record_type::COMM => header.misc & misc::COMM_EXEC == 0,
        // pid, then the pid of the parent.
        record_type::FORK => {
            let pids = record.get(HEADER_BYTES..).and_then(|body| body.first_chunk::<8>());
            pids.is_some_and(|pids| pids[..4] == pids[4..])
        }
        _ => false,
    }
}

/// PERF_SAMPLE_ID of a record: the event as it was opened, also where the thread has it by inheritance. `None` if the
/// record is too short.
pub fn event_id(record: &[u8]) -> Option<u64> {
    field(record, 24, 16).map(u64::from_ne_bytes)
}

/// A sample at the beginning or the end of a function's call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallHit {
    /// The process.
    pub pid: i32,
    /// The thread.
    pub tid: i32,
    /// The stack pointer, which both ends of a call have in common.
    pub stack_pointer: u64,
}

impl CallHit {
    /// Takes a sample of this layout apart; `None` if it has no registers.
    pub fn decode(record: &[u8], layout: &SampleLayout) -> Option<CallHit> {
        let Ok(Record::Sample(sample)) = decode(record, layout) else {
            return None;
        };
        Some(CallHit {
            pid: sample.pid,
            tid: sample.tid,
            stack_pointer: sample.registers?.get(layout.registers.stack_pointer()),
        })
    }
}

/// True for a record that says that others were lost.
pub fn reports_loss(record: &[u8]) -> bool {
    let kind = record.first_chunk().map(RecordHeader::parse).map(|header| header.kind);
    matches!(kind, Some(record_type::LOST | record_type::LOST_SAMPLES))
}

/// A field that stands behind the header of a sample, and in the sample id of other records.
fn field<const BYTES: usize>(record: &[u8], in_sample: usize, in_id: usize) -> Option<[u8; BYTES]> {
    let at = match is_sample(record) {
        true => HEADER_BYTES + in_sample,
        false => record.len().checked_sub(SAMPLE_ID_BYTES)? + in_id,
    };
    record.get(at..)?.first_chunk().copied()
}

/// Which event wrote a record, about which thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// PERF_SAMPLE_ID: the event as it was opened, also where the thread has it by inheritance.
    pub event_id: u64,
    /// The thread that ran; for a fork that is the one that forked.
    pub tid: i32,
    /// What happened to it.
    pub what: ThreadRecord,
}

/// What a record about a thread says, as far as [`Origin`] needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadRecord {
    /// It was sampled.
    Sample,
    /// It made this thread, in its own process or as a new one.
    Fork(i32),
    /// It ended.
    Exit,
    /// It mapped something, was renamed, left its CPU or got one.
    Other,
}

/// The origin of a record about a thread: a sample, a mapping, a name, a switch, a fork or an exit. `None` for those
/// about the ring or the CPU, and for those that are too short.
pub fn origin(record: &[u8]) -> Option<Origin> {
    let header = RecordHeader::parse(record.first_chunk()?);
    let number = |at: usize| Some(i32::from_ne_bytes(*record.get(at..)?.first_chunk()?));
    let what = match header.kind {
        record_type::SAMPLE => ThreadRecord::Sample,
        // pid, ppid, then the new tid.
        record_type::FORK => ThreadRecord::Fork(number(HEADER_BYTES + 8)?),
        record_type::EXIT => ThreadRecord::Exit,
        record_type::MMAP2 | record_type::COMM | record_type::SWITCH => ThreadRecord::Other,
        _ => return None,
    };
    Some(Origin {
        event_id: event_id(record)?,
        tid: field(record, 12, 4).map(i32::from_ne_bytes)?,
        what,
    })
}

/// What a record says of the life of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskRecord {
    /// It was started: the first thread of a process, or a further one.
    Fork {
        /// It is the first one.
        is_process: bool,
        /// The new thread.
        tid: i32,
    },
    /// It executed another program.
    Exec {
        /// The thread.
        tid: i32,
    },
    /// It ended.
    Exit {
        /// The thread.
        tid: i32,
    },
    /// It left its CPU, or got one.
    Switch {
        /// The thread.
        tid: i32,
        /// It left.
        is_out: bool,
        /// It left, and could have gone on.
        is_preempted: bool,
    },
    /// Records found no room.
    Lost,
}

/// What a record says of the life of a task; `None` for all other records.
pub fn task_record(record: &[u8]) -> Option<TaskRecord> {
    Some(match decode(record, &SampleLayout::default()).ok()? {
        Record::Fork { pid, parent_pid, tid } => TaskRecord::Fork {
            is_process: pid != parent_pid,
            tid,
        },
        Record::Comm { tid, exec: true, .. } => TaskRecord::Exec { tid },
        Record::Exit { tid, .. } => TaskRecord::Exit { tid },
        Record::Switch {
            tid, out, preempted, ..
        } => TaskRecord::Switch {
            tid,
            is_out: out,
            is_preempted: preempted,
        },
        Record::Lost { .. } => TaskRecord::Lost,
        _ => return None,
    })
}

/// Takes one whole record apart.
pub(crate) fn decode<'a>(record: &'a [u8], layout: &SampleLayout) -> Result<Record<'a>, Malformed> {
    let (header, body) = record.split_first_chunk::<HEADER_BYTES>().ok_or(Malformed("header"))?;
    let header = RecordHeader::parse(header);
    if header.kind == record_type::SAMPLE {
        return sample(header, body, layout)
            .ok_or(Malformed("sample"))
            .map(Record::Sample);
    }
    let (body, sample_id) = (body.len().checked_sub(SAMPLE_ID_BYTES))
        .and_then(|body_bytes| body.split_at_checked(body_bytes))
        .ok_or(Malformed("record without sample id"))?;
    if matches!(header.kind, record_type::SWITCH | record_type::SWITCH_CPU_WIDE) {
        return switch(header, &mut Reader(sample_id)).ok_or(Malformed("switch"));
    }
    // `open` asks for build ids wherever the kernel knows them.
    side_band(header, body, true)
}

/// Takes a record apart that is neither a sample nor a switch, without its header and its sample id. `build_ids`: the
/// event that it was written for asked for them (`perf_event_attr.build_id`).
pub(crate) fn side_band(header: RecordHeader, body: &[u8], build_ids: bool) -> Result<Record<'_>, Malformed> {
    let mut body = Reader(body);
    match header.kind {
        record_type::MMAP2 => mmap2(header, &mut body, build_ids).ok_or(Malformed("mapping")),
        record_type::COMM => comm(header, &mut body).ok_or(Malformed("name")),
        record_type::FORK => fork(&mut body).ok_or(Malformed("fork")),
        record_type::EXIT => exit(&mut body).ok_or(Malformed("exit")),
        record_type::LOST => lost(&mut body).ok_or(Malformed("lost")),
        record_type::LOST_SAMPLES => body
            .u64()
            .map(|count| Record::LostSamples { count })
            .ok_or(Malformed("lost samples")),
        record_type::KSYMBOL => ksymbol(&mut body).ok_or(Malformed("kernel symbol")),
        record_type::THROTTLE => Ok(Record::Throttle),
        record_type::UNTHROTTLE => Ok(Record::Other),
        _ => Ok(Record::Other),
    }
}

fn sample<'a>(header: RecordHeader, body: &'a [u8], layout: &SampleLayout) -> Option<RawSample<'a>> {
    let mut body = Reader(body);
    let sample = before_stack(header, &mut body, layout)?;
    // "u64 size; char data[size]; u64 dyn_size": dyn_size says how much of the data is real, and is there only if
    // size is not 0.
    let size = usize::try_from(body.u64()?).ok()?;
    let stack = if size == 0 {
        &[][..]
    } else {
        let data = body.bytes(size)?;
        let real = usize::try_from(body.u64()?).ok()?;
        data.get(..real)?
    };
    Some(RawSample { stack, ..sample })
}

/// The copy of the stack that a sample has. Reads nothing behind it: its last bytes may not have been filled. `None`:
/// the record is no sample, or has no copy.
pub(crate) fn stack_copy<'a>(record: &'a [u8], layout: &SampleLayout) -> Option<StackCopy<'a>> {
    let (header, body) = record.split_first_chunk::<HEADER_BYTES>()?;
    let header = RecordHeader::parse(header);
    if header.kind != record_type::SAMPLE {
        return None;
    }
    let mut body = Reader(body);
    let sample = before_stack(header, &mut body, layout)?;
    let size = usize::try_from(body.u64()?).ok()?;
    let stack = body.bytes(size)?;
    let copy = RawSample { stack, ..sample }.stack_copy(layout.registers);
    Some(copy).filter(|copy| !copy.bytes.is_empty())
}

/// All of a sample that stands before its stack.
fn before_stack<'a>(header: RecordHeader, body: &mut Reader<'a>, layout: &SampleLayout) -> Option<RawSample<'a>> {
    let ip = body.u64()?;
    let pid = body.i32()?;
    let tid = body.i32()?;
    let _time = body.u64()?;
    let _event_id = body.u64()?;
    let cpu = body.u32()?;
    let _reserved = body.u32()?;
    let period = match layout.period {
        Some(period) => period,
        None => body.u64()?,
    };
    let call_chain = if layout.call_chain {
        let entries = usize::try_from(body.u64()?).ok()?;
        body.bytes(entries.checked_mul(8)?)?
    } else {
        &[]
    };
    // u32 size; char data[size], padded so that what follows is aligned.
    let raw = if layout.raw {
        let bytes = usize::try_from(body.u32()?).ok()?;
        body.bytes(bytes)?
    } else {
        &[]
    };
    const ABI_NONE: u64 = 0;
    const ABI_32: u64 = 1;
    let registers = match body.u64()? {
        ABI_NONE => None,
        abi => Some(RawRegisters {
            is_32_bit: abi == ABI_32,
            mask: layout.registers.mask(),
            words: body.bytes(layout.registers.mask().count_ones() as usize * 8)?,
        }),
    };
    Some(RawSample {
        pid,
        tid,
        cpu,
        period,
        ip,
        in_kernel: header.misc & misc::CPUMODE_MASK == misc::KERNEL,
        call_chain,
        registers,
        stack: &[],
        raw,
        unwound: false,
        at_calls: false,
    })
}

fn mmap2<'a>(header: RecordHeader, body: &mut Reader<'a>, build_ids: bool) -> Option<Record<'a>> {
    const PROT_EXEC: u32 = 4;
    let pid = body.i32()?;
    let _tid = body.i32()?;
    let start = body.u64()?;
    let len = body.u64()?;
    let file_offset = body.u64()?;
    let identity = body.bytes(24)?;
    let build_id = if header.misc & misc::MMAP_BUILD_ID != 0 {
        build_id_in(identity, build_ids)
    } else {
        None
    };
    let inode = if build_id.is_none() {
        let mut identity = Reader(identity);
        let (major, minor, inode) = (identity.u32()?, identity.u32()?, identity.u64()?);
        (inode != 0).then_some((major, minor, inode))
    } else {
        None
    };
    let protection = body.u32()?;
    let _flags = body.u32()?;
    Some(Record::Mmap {
        pid,
        start,
        len,
        file_offset,
        inode,
        build_id,
        executable: protection & PROT_EXEC != 0,
        path: body.c_string(),
    })
}

/// u8 build_id_size, u8 reserved, u16 reserved, u8 build_id\[20\].
///
/// The flag that says so may be another listener's: Linux (seen with 6.18; `perf_event_mmap_output` in
/// kernel/events/core.c) sets it in the one header that all listeners of a mapping get, also those after it that get
/// device and inode. A `perf record` beside a `sprof record -a` has such records. If none was asked for, it must look
/// like one: records that perf made itself, of what was mapped before, are read for the first event of the file, which
/// need not be the one that asked.
fn build_id_in(identity: &[u8], asked: bool) -> Option<BuildId> {
    let (&[size, reserved @ ..], id) = identity.split_first_chunk::<4>()?;
    let (id, rest) = id.split_at_checked(usize::from(size))?;
    let is_usual = matches!(size, 8 | 16 | 20) && reserved == [0; 3] && rest.iter().all(|byte| *byte == 0);
    (size > 0 && (asked || is_usual)).then(|| BuildId(id.to_vec()))
}

fn comm<'a>(header: RecordHeader, body: &mut Reader<'a>) -> Option<Record<'a>> {
    let pid = body.i32()?;
    let tid = body.i32()?;
    let name = body.c_string();
    Some(Record::Comm {
        pid,
        tid,
        exec: header.misc & misc::COMM_EXEC != 0,
        name: &name[..name.len().min(MAX_COMM_BYTES)],
    })
}

/// Longest name of a thread. Linux has 16 bytes (`TASK_COMM_LEN`). Each fork copies the name.
const MAX_COMM_BYTES: usize = 256;

/// u64 addr; u32 len; u16 ksym_type; u16 flags; char name\[\] (`enum perf_event_type` in
/// include/uapi/linux/perf_event.h).
fn ksymbol<'a>(body: &mut Reader<'a>) -> Option<Record<'a>> {
    /// PERF_RECORD_KSYMBOL_TYPE_BPF. The other type is of code that probes made, which has no name of the user's.
    const TYPE_BPF: u32 = 1;
    /// PERF_RECORD_KSYMBOL_FLAGS_UNREGISTER.
    const UNREGISTER: u32 = 1;
    let (start, len, type_and_flags) = (body.u64()?, body.u32()?, body.u32()?);
    if type_and_flags & 0xffff != TYPE_BPF {
        return Some(Record::Other);
    }
    Some(Record::Bpf {
        start,
        len,
        is_loaded: (type_and_flags >> 16) & UNREGISTER == 0,
        name: body.c_string(),
    })
}

fn fork(body: &mut Reader<'_>) -> Option<Record<'static>> {
    let pid = body.i32()?;
    let parent_pid = body.i32()?;
    let tid = body.i32()?;
    Some(Record::Fork { pid, parent_pid, tid })
}

fn exit(body: &mut Reader<'_>) -> Option<Record<'static>> {
    let pid = body.i32()?;
    let _parent_pid = body.i32()?;
    let tid = body.i32()?;
    Some(Record::Exit { pid, tid })
}

fn lost(body: &mut Reader<'_>) -> Option<Record<'static>> {
    let _id = body.u64()?;
    Some(Record::Lost { count: body.u64()? })
}

/// Whose switch it is stands in the sample id; a CPU-wide record's body names the other task.
pub(crate) fn switch(header: RecordHeader, sample_id: &mut Reader<'_>) -> Option<Record<'static>> {
    let out = header.misc & misc::SWITCH_OUT != 0;
    Some(Record::Switch {
        pid: sample_id.i32()?,
        tid: sample_id.i32()?,
        out,
        preempted: out && header.misc & misc::SWITCH_OUT_PREEMPT != 0,
    })
}

/// Reads native-endian fields from the front.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(front)
    }

    fn chunk<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (front, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*front)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.chunk().map(u64::from_ne_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.chunk().map(u32::from_ne_bytes)
    }

    pub(crate) fn i32(&mut self) -> Option<i32> {
        self.chunk().map(i32::from_ne_bytes)
    }

    pub(crate) fn c_string(&mut self) -> &'a [u8] {
        let end = self.0.iter().position(|byte| *byte == 0).unwrap_or(self.0.len());
        &self.0[..end]
    }
}

#[cfg(test)]
mod tests;
