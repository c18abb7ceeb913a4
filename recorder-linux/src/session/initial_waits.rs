//! Threads that are off-CPU when recording starts: what they wait for, and their stacks, from /proc. When these waits
//! began is not known.
//!
//! Nothing stops a thread for this. /proc is read while the thread waits: its state, the kernel function that waits,
//! and the stack above the stack pointer with which the thread entered the kernel. The record of its first switch
//! proves later that the thread did not run meanwhile.

use std::collections::{BTreeMap, HashSet};
use std::fs;

use recording::address::Avma;
use recording::clock::Timestamp;
use recording::event::{Event, InitialState, Role, Sample, Thread, ThreadEvent};
use recording::proc::KernelSymbol;
use recording::sink::EventSink;
use recording::stack::{Frame, FurtherRegisters, MissingStack, Registers, Snapshot, Stack};
use recording::wait::WaitReason;

use crate::processes::procfs;
use crate::sys::memory;
use crate::sys::process::monotonic_ns;
use perf_data::wait::reason_of_function;

/// As for a traced thread: a stack that does not change can be copied up to its root.
const STACK_BYTES: usize = 256 << 10;
/// /proc has no frame pointer. No memory is at this address, so a frame that needs the frame pointer ends the stack.
const UNKNOWN_FRAME_POINTER: u64 = 0x7ff0_0000_0000_0000;

/// The threads that existed when their events were enabled, with what they were doing then.
#[derive(Debug)]
pub(crate) struct InitialWaits {
    looked: Vec<InitialThread>,
    kallsyms: String,
}

/// A thread as /proc has it.
#[derive(Debug)]
struct InitialThread {
    pid: i32,
    tid: i32,
    switches_from: Timestamp,
    at: Timestamp,
    waits_for: Option<WaitReason>,
    is_kernel_thread: bool,
    kernel: Vec<KernelPlace>,
    user: Option<UserStack>,
}

/// A line of `/proc/PID/stack`: a function, an offset in it, and its size.
#[derive(Clone, Debug, PartialEq, Eq)]
struct KernelPlace {
    function: String,
    offset: u64,
    size: u64,
}

#[derive(Debug)]
struct UserStack {
    ip: u64,
    sp: u64,
    /// The arguments of the system call, 8 bytes each.
    arguments: Vec<u8>,
    bytes: Vec<u8>,
}

/// Argument of a system call for each register, by DWARF number. x86_64 (rdi, rsi, rdx, r10, r8, r9): glibc's `vfork`
/// has its return address in rdi. arm64: x0 to x5.
const ARGUMENT_OF_REGISTER: &[u8] = if cfg!(target_arch = "aarch64") {
    &[0, 1, 2, 3, 4, 5]
} else {
    const NONE: u8 = u8::MAX;
    &[NONE, 2, NONE, NONE, 1, 0, NONE, NONE, 4, 5, 3]
};

impl InitialWaits {
    /// Reads the kernel's symbols: call it before events are enabled, because it takes long.
    pub(crate) fn new() -> InitialWaits {
        InitialWaits {
            looked: Vec::new(),
            kallsyms: fs::read_to_string("/proc/kallsyms").unwrap_or_default(),
        }
    }

    /// Reads what the given threads (process, thread) are doing. All their events must be enabled.
    pub(crate) fn look(&mut self, threads: &[(i32, i32)]) {
        let switches_from = Timestamp(monotonic_ns());
        let mut buffer = vec![0; STACK_BYTES];
        let looked = threads
            .iter()
            .filter_map(|(pid, tid)| look_at(*pid, *tid, switches_from, &mut buffer));
        self.looked.extend(looked);
    }

    /// Reports what the threads were doing. Their starts and mappings must have been reported.
    pub(crate) fn report(&self, start: Timestamp, sink: &mut dyn EventSink) {
        let addresses = addresses_of(&self.looked, &self.kallsyms);
        for thread in &self.looked {
            let kernel: Vec<Frame> = (thread.kernel.iter())
                .filter_map(|place| {
                    let start = addresses.get(&(place.function.as_str(), place.size))?;
                    Some(Frame::KernelReturnAddress(Avma(start.saturating_add(place.offset))))
                })
                .collect();
            let stack = match &thread.user {
                Some(user) => Some(Stack::Snapshot(Snapshot {
                    kernel: &kernel,
                    registers: user.registers(),
                    further: FurtherRegisters {
                        bits: ARGUMENT_OF_REGISTER,
                        mask: u64::MAX,
                        words: &user.arguments,
                    },
                    stack_bytes: &user.bytes,
                    next_copy: None,
                })),
                None if kernel.is_empty() => None,
                None if thread.is_kernel_thread => Some(Stack::Frames(&kernel)),
                None => Some(Stack::Missing {
                    kernel: &kernel,
                    reason: MissingStack::NoRegisters,
                }),
            };
            let of = Thread::new(thread.pid, thread.tid);
            if let Some(stack) = stack {
                sink.on_event(&Event::sample(start, of, Sample::new(Role::WaitStack, 0, stack)));
            }
            let state = InitialState {
                switches_from: thread.switches_from,
                seen_at: thread.at,
                waits_for: thread.waits_for,
            };
            sink.on_event(&Event::thread(start, of, ThreadEvent::InitialState(state)));
        }
    }
}

impl UserStack {
    fn registers(&self) -> Registers {
        if cfg!(target_arch = "aarch64") {
            return Registers::Aarch64 {
                pc: self.ip,
                sp: self.sp,
                fp: UNKNOWN_FRAME_POINTER,
                lr: UNKNOWN_FRAME_POINTER,
            };
        }
        Registers::X86_64 {
            ip: self.ip,
            sp: self.sp,
            bp: UNKNOWN_FRAME_POINTER,
        }
    }
}

fn look_at(pid: i32, tid: i32, switches_from: Timestamp, buffer: &mut [u8]) -> Option<InitialThread> {
    let stat = procfs::stat(pid, tid)?;
    if stat.has_ended() {
        return None;
    }
    let can_run = stat.can_run();
    let (mut waits_for, mut kernel, mut user) = (None, Vec::new(), None);
    if !can_run {
        let read = |name: &str| fs::read_to_string(format!("/proc/{pid}/task/{tid}/{name}")).unwrap_or_default();
        kernel = read("stack").lines().filter_map(parse_kernel_place).collect();
        waits_for = Some(match read("wchan").trim() {
            "" | "0" => WaitReason::Unknown,
            function => reason_of_function(function).unwrap_or(WaitReason::Other),
        });
        user = parse_syscall(&read("syscall")).and_then(|(arguments, sp, ip)| {
            let len = memory::read(pid, sp, buffer);
            (len > 0).then(|| UserStack {
                ip,
                sp,
                arguments,
                bytes: buffer[..len].to_vec(),
            })
        });
    }
    Some(InitialThread {
        pid,
        tid,
        switches_from,
        at: Timestamp(monotonic_ns()),
        waits_for,
        is_kernel_thread: stat.is_kernel_thread,
        kernel,
        user,
    })
}

/// `[<0>] anon_pipe_read+0x366/0x410`, and behind it the module's name.
fn parse_kernel_place(line: &str) -> Option<KernelPlace> {
    let place = line.split_ascii_whitespace().nth(1)?;
    let (function, numbers) = place.split_once('+')?;
    let (offset, size) = numbers.split_once('/')?;
    let hex = |text: &str| u64::from_str_radix(text.strip_prefix("0x")?, 16).ok();
    Some(KernelPlace {
        function: function.to_owned(),
        offset: hex(offset)?,
        size: hex(size)?,
    })
}

/// `NUMBER ARGUMENTS... SP PC`, or `-1 SP PC` outside of a system call (a page fault), or `running`
/// (proc_pid_syscall(5)). Gives the arguments, 8 bytes each, the stack pointer and the program counter.
fn parse_syscall(text: &str) -> Option<(Vec<u8>, u64, u64)> {
    let hex = |word: &str| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok();
    let words: Option<Vec<u64>> = text.split_ascii_whitespace().skip(1).map(hex).collect();
    match &words?[..] {
        [arguments @ .., sp, ip] => Some((arguments.iter().flat_map(|word| word.to_ne_bytes()).collect(), *sp, *ip)),
        _ => None,
    }
}

/// First addresses of kernel functions, by name and size. Functions with the same name and size are left out.
fn addresses_of<'a>(looked: &'a [InitialThread], kallsyms: &str) -> BTreeMap<(&'a str, u64), u64> {
    let wanted: HashSet<(&str, u64)> = (looked.iter().flat_map(|thread| &thread.kernel))
        .map(|place| (place.function.as_str(), place.size))
        .collect();
    if wanted.is_empty() {
        return BTreeMap::new();
    }
    find_functions(&wanted, kallsyms)
}

fn find_functions<'a>(wanted: &HashSet<(&'a str, u64)>, kallsyms: &str) -> BTreeMap<(&'a str, u64), u64> {
    let names: HashSet<&str> = wanted.iter().map(|(name, _)| *name).collect();
    // Modules come after the kernel, so that addresses do not ascend throughout.
    let mut starts: Vec<u64> = Vec::new();
    let mut candidates: Vec<(&str, u64)> = Vec::new();
    // Hidden addresses are 0.
    for symbol in (kallsyms.lines().filter_map(KernelSymbol::parse)).filter(|symbol| symbol.address != 0) {
        starts.push(symbol.address);
        if let Some(name) = names.get(symbol.name) {
            candidates.push((name, symbol.address));
        }
    }
    starts.sort_unstable();
    let mut found: BTreeMap<(&str, u64), Option<u64>> = BTreeMap::new();
    for (name, address) in candidates {
        let next = starts.get(starts.partition_point(|start| *start <= address));
        let Some(size) = next.map(|next| next - address) else {
            continue;
        };
        if wanted.contains(&(name, size)) {
            (found.entry((name, size)).and_modify(|other| *other = None)).or_insert(Some(address));
        }
    }
    found
        .into_iter()
        .filter_map(|(place, address)| Some((place, address?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::unwrap_used, reason = "a test")]
    fn lines_of_proc_are_taken_apart() {
        let place = parse_kernel_place("[<0>] anon_pipe_read+0x366/0x410");
        let expected = KernelPlace {
            function: "anon_pipe_read".to_owned(),
            offset: 0x366,
            size: 0x410,
        };
        assert_eq!(place, Some(expected));
        assert_eq!(parse_kernel_place("[<0>] 0xffffffffffffffff"), None);
        let pipe = "0 0x0 0x7fffa9791b9f 0x1 0x7f5453f3db60 0x0 0x7f54541296d0 0x7fffa9791b88 0x7f54540262ad\n";
        let (arguments, sp, ip) = parse_syscall(pipe).unwrap();
        assert_eq!((sp, ip), (0x7fff_a979_1b88, 0x7f54_5402_62ad));
        assert_eq!(
            (arguments.len(), &arguments[8..16]),
            (48, &0x7fff_a979_1b9fu64.to_ne_bytes()[..])
        );
        assert_eq!(parse_syscall("-1 0x7ffe0 0x55d0"), Some((Vec::new(), 0x7ffe0, 0x55d0)));
        assert_eq!(parse_syscall("running\n"), None);
        assert_eq!(parse_syscall(""), None);
    }

    #[test]
    fn a_function_is_known_by_its_name_and_its_size() {
        let kallsyms = "ffffffff81000000 T first\nffffffff81000040 t twice\nffffffff81000060 t other\n\
                        ffffffff81000100 t twice\nffffffff81000180 T last\nffffffffc0000000 t twice [module]\n\
                        ffffffffc0000080 t end [module]\n";
        let wanted = HashSet::from([("twice", 0x20), ("twice", 0x80), ("other", 0x10)]);
        let found = find_functions(&wanted, kallsyms);
        assert_eq!(found, BTreeMap::from([(("twice", 0x20), 0xffff_ffff_8100_0040)]));
    }
}
