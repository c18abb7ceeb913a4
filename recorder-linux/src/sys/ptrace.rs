//! `ptrace(2)` and the waiting that belongs to it. All requests for a thread must come from the thread that seized it;
//! when that thread ends, the kernel releases its tracees, and they run on.

use std::ffi::CString;
use std::io;

use rustix::io::{Errno, retry_on_intr};
use rustix::process::{Pid, WaitId, WaitIdOptions, WaitOptions, waitid};

use recording::stack::Registers;

use recording::program::ProgramImage;

use super::process::{WaitStatus, fork_stopped};
use super::signals::Signals;
use super::{last_error, memory};
use crate::machine::refusal::OWN_PROC;

/// What the kernel reports of every seized thread. Threads and processes that a seized thread starts are seized. Not
/// PTRACE_O_EXITKILL: the program must outlive sprof.
const OPTIONS: libc::c_int = libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_TRACEEXEC
    | libc::PTRACE_O_TRACEEXIT;

/// Starts to trace a thread, and all that it starts, without stopping it.
pub(crate) fn seize(tid: i32) -> io::Result<()> {
    seize_with(tid, OPTIONS)
}

/// Starts to trace a process that waits for its exec, where it stops. What it starts is not traced.
pub(crate) fn seize_until_exec(pid: i32) -> io::Result<()> {
    seize_with(pid, libc::PTRACE_O_TRACEEXEC)
}

fn seize_with(tid: i32, options: libc::c_int) -> io::Result<()> {
    // SAFETY: PTRACE_SEIZE takes a thread id and options by value.
    check(unsafe { libc::ptrace(libc::PTRACE_SEIZE, tid, 0usize, options as usize) })
}

/// Asks a running thread to stop. It reports a [`Stop::Trap`] soon, or whatever else stops it first.
pub(crate) fn interrupt(tid: i32) -> io::Result<()> {
    // SAFETY: PTRACE_INTERRUPT takes a thread id; the rest is ignored.
    check(unsafe { libc::ptrace(libc::PTRACE_INTERRUPT, tid, 0usize, 0usize) })
}

/// Lets a stopped thread run, with this signal delivered to it; 0 is none.
pub(crate) fn resume(tid: i32, signal: i32) -> io::Result<()> {
    // SAFETY: PTRACE_CONT takes a thread id and a signal number by value; the kernel checks the number.
    check(unsafe { libc::ptrace(libc::PTRACE_CONT, tid, 0usize, signal as usize) })
}

/// Lets a stopped thread run to the end of its system call, or to the start of the next one, where it reports a
/// [`Stop::Signal`] of SIGTRAP.
pub(crate) fn finish_call(tid: i32) -> io::Result<()> {
    // SAFETY: PTRACE_SYSCALL takes a thread id and a signal number, here none, by value.
    check(unsafe { libc::ptrace(libc::PTRACE_SYSCALL, tid, 0usize, 0usize) })
}

/// Lets a stopped thread run, no longer traced.
pub(crate) fn detach(tid: i32) -> io::Result<()> {
    // SAFETY: PTRACE_DETACH takes a thread id and a signal number, here none, by value.
    check(unsafe { libc::ptrace(libc::PTRACE_DETACH, tid, 0usize, 0usize) })
}

/// Blocks these signals in a stopped thread, and no others. Returns those that were blocked.
pub(crate) fn set_signal_mask(tid: i32, mask: u64) -> io::Result<u64> {
    let mut before = 0_u64;
    // The libc crate has another type for these in musl than for all other requests.
    // SAFETY: the kernel writes a mask of this length to `before`.
    check(unsafe { libc::ptrace(libc::PTRACE_GETSIGMASK as _, tid, size_of::<u64>(), &raw mut before) })?;
    // SAFETY: the kernel reads a mask of this length.
    check(unsafe { libc::ptrace(libc::PTRACE_SETSIGMASK as _, tid, size_of::<u64>(), &raw const mask) })?;
    Ok(before)
}

/// Leaves a thread in its group-stop, but hears of what ends it.
pub(crate) fn listen(tid: i32) -> io::Result<()> {
    // SAFETY: PTRACE_LISTEN takes a thread id; the rest is ignored.
    check(unsafe { libc::ptrace(libc::PTRACE_LISTEN, tid, 0usize, 0usize) })
}

/// What an event stop is about: the new thread's id for [`Stop::NewTask`], the former one for [`Stop::Exec`].
pub(crate) fn event_message(tid: i32) -> io::Result<i32> {
    let mut message: libc::c_ulong = 0;
    // SAFETY: PTRACE_GETEVENTMSG writes one unsigned long to `data`, and `message` is one.
    check(unsafe { libc::ptrace(libc::PTRACE_GETEVENTMSG, tid, 0usize, &raw mut message) })?;
    i32::try_from(message).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// `NT_PRSTATUS`, include/uapi/linux/elf.h.
const NT_PRSTATUS: usize = 1;

/// The user registers of a thread.
#[derive(Debug)]
pub(crate) struct UserRegisters {
    pub(crate) usual: Registers,
    /// All of them, 8 bytes each.
    pub(crate) words: Box<[u8]>,
}

/// The user registers of a stopped thread; `None` for a 32-bit one.
pub(crate) fn registers(tid: i32) -> io::Result<Option<UserRegisters>> {
    Ok(register_words(tid)?.map(|words| UserRegisters {
        usual: native(&words),
        words: words.iter().flat_map(|word| word.to_ne_bytes()).collect(),
    }))
}

/// `struct user_regs_struct`: 27 words on x86_64, 34 on aarch64.
pub(crate) type RegisterWords = [u64; NATIVE_WORDS];

/// The same as words.
pub(crate) fn register_words(tid: i32) -> io::Result<Option<RegisterWords>> {
    // The registers of 32-bit threads take fewer bytes.
    let mut words = [0u64; NATIVE_WORDS];
    let mut iov = libc::iovec {
        iov_base: words.as_mut_ptr().cast(),
        iov_len: size_of_val(&words),
    };
    // SAFETY: `iov` describes exactly `words`, which is writable; the kernel writes at most that, and how much, to
    // `iov`.
    check(unsafe { libc::ptrace(libc::PTRACE_GETREGSET, tid, NT_PRSTATUS, &raw mut iov) })?;
    Ok((iov.iov_len == size_of_val(&words)).then_some(words))
}

/// Sets the user registers of a stopped thread.
pub(crate) fn set_register_words(tid: i32, words: &RegisterWords) -> io::Result<()> {
    let iov = libc::iovec {
        iov_base: words.as_ptr().cast_mut().cast(),
        iov_len: size_of_val(words),
    };
    // SAFETY: `iov` describes exactly `words`, which the kernel reads.
    check(unsafe { libc::ptrace(libc::PTRACE_SETREGSET, tid, NT_PRSTATUS, &raw const iov) })
}

/// Lets a stopped thread go on from another instruction.
pub(crate) fn set_instruction_pointer(tid: i32, address: u64) -> io::Result<()> {
    let mut words = register_words(tid)?.ok_or(io::ErrorKind::Unsupported)?;
    words[INSTRUCTION_POINTER] = address;
    set_register_words(tid, &words)
}

/// `int3`, and by how much the instruction pointer is then behind it.
#[cfg(target_arch = "x86_64")]
pub(crate) const TRAP: [u8; 1] = [0xcc];
#[cfg(target_arch = "x86_64")]
pub(crate) const TRAP_SKIPS: u64 = 1;
/// `brk #0`, where the instruction pointer stays.
#[cfg(target_arch = "aarch64")]
pub(crate) const TRAP: [u8; 4] = [0x00, 0x00, 0x20, 0xd4];
#[cfg(target_arch = "aarch64")]
pub(crate) const TRAP_SKIPS: u64 = 0;

#[cfg(target_arch = "x86_64")]
const NATIVE_WORDS: usize = 27;
#[cfg(target_arch = "x86_64")]
const INSTRUCTION_POINTER: usize = 16;

/// Indexes in `struct user_regs_struct`, arch/x86/include/asm/user_64.h. A 32-bit task on a 64-bit kernel has
/// a smaller structure.
#[cfg(target_arch = "x86_64")]
fn native(words: &[u64; NATIVE_WORDS]) -> Registers {
    Registers::X86_64 {
        ip: words[16],
        sp: words[19],
        bp: words[4],
    }
}

/// By DWARF number: the index of a register in that structure.
#[cfg(target_arch = "x86_64")]
pub(crate) const WORD_OF_REGISTER: &[u8] = &[10, 12, 11, 5, 13, 14, 4, 19, 9, 8, 7, 6, 3, 2, 1, 0, 16];

#[cfg(target_arch = "aarch64")]
const NATIVE_WORDS: usize = 34;
#[cfg(target_arch = "aarch64")]
const INSTRUCTION_POINTER: usize = 32;

/// By DWARF number: the index of a register in `struct user_pt_regs`.
#[cfg(target_arch = "aarch64")]
pub(crate) const WORD_OF_REGISTER: &[u8] = &[
    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30,
    31, 32,
];

/// `struct user_pt_regs`, arch/arm64/include/uapi/asm/ptrace.h: x0 to x30, sp, pc, pstate.
#[cfg(target_arch = "aarch64")]
fn native(words: &[u64; NATIVE_WORDS]) -> Registers {
    Registers::Aarch64 {
        fp: words[29],
        lr: words[30],
        sp: words[31],
        pc: words[32],
    }
}

/// What became of a traced thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waited {
    /// The thread is gone; with the first thread of a process, all its threads are.
    Ended(WaitStatus),
    /// The thread waits for sprof.
    Stopped(Stop),
}

/// Why a traced thread stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// A signal is about to be delivered.
    Signal(i32),
    /// The whole process is stopped by this signal, as by Ctrl-Z.
    Group,
    /// sprof interrupted the thread, it is new, or it was continued after a group-stop.
    Trap,
    /// It started a thread or a process.
    NewTask,
    /// It has a new program.
    Exec,
    /// It is about to end, by itself or by a signal.
    Exit,
}

/// The next change of a thread that this thread traces; `None` if there is none now.
pub(crate) fn next_change() -> io::Result<Option<(i32, Waited)>> {
    // __WNOTHREAD: what other threads of this process started is theirs to wait for.
    let options = wait_options(libc::__WALL | libc::__WNOTHREAD | libc::WNOHANG);
    match retry_on_intr(|| rustix::process::wait(options)) {
        Ok(changed) => Ok(changed.map(|(tid, status)| (tid.as_raw_pid(), Waited::of(status.as_raw())))),
        Err(Errno::CHILD) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Waits until a traced child stops. `None`: it has ended, and is still to be reaped.
pub(crate) fn wait_for_stop(pid: i32) -> io::Result<Option<Stop>> {
    let wait = |options| match Pid::from_raw(pid) {
        Some(pid) => retry_on_intr(|| waitid(WaitId::Pid(pid), options)),
        None => Err(Errno::SRCH),
    };
    wait(WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)?;
    let stopped = wait(WaitIdOptions::STOPPED | WaitIdOptions::NOHANG)?;
    Ok(stopped.and_then(|status| status.trapping_signal()).map(Stop::of))
}

/// rustix has no names for the options that Linux alone has.
fn wait_options(flags: libc::c_int) -> WaitOptions {
    WaitOptions::from_bits_retain(flags as u32)
}

impl Waited {
    /// Takes a status of waitpid apart: `signal | event << 8` above the low byte, ptrace(2).
    fn of(raw: libc::c_int) -> Waited {
        if let Some(ended) = WaitStatus::of_ended(raw) {
            return Waited::Ended(ended);
        }
        Waited::Stopped(Stop::of(raw >> 8))
    }
}

impl Stop {
    /// Takes `signal | event << 8` apart.
    fn of(code: libc::c_int) -> Stop {
        let signal = code & 0xff;
        match code >> 8 {
            0 => Stop::Signal(signal),
            libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK | libc::PTRACE_EVENT_CLONE => Stop::NewTask,
            libc::PTRACE_EVENT_EXEC => Stop::Exec,
            libc::PTRACE_EVENT_EXIT => Stop::Exit,
            libc::PTRACE_EVENT_STOP if signal != libc::SIGTRAP => Stop::Group,
            _ => Stop::Trap,
        }
    }
}

/// Tries all that a ptrace recording needs on a child of our own: to seize it, to stop it, to read its registers and
/// its stack, and [`OWN_PROC`]. Says what was refused.
pub(crate) fn try_out(signals: &Signals) -> Result<(), (&'static str, io::Error)> {
    std::fs::metadata(OWN_PROC).map_err(|error| (OWN_PROC, error))?;
    let nothing = ProgramImage {
        path: CString::default(),
        args: Vec::new(),
        env: Vec::new(),
    };
    let child = fork_stopped(&nothing, signals).map_err(|error| ("fork", error))?;
    let tid = child.pid();
    // Without options: no thread would answer the stop at its exit.
    let tried = seize_with(tid, 0)
        .map_err(|error| ("ptrace(PTRACE_SEIZE)", error))
        .and_then(|()| try_out_seized(tid));
    child.kill();
    tried
}

fn try_out_seized(tid: i32) -> Result<(), (&'static str, io::Error)> {
    interrupt(tid).map_err(|error| ("ptrace(PTRACE_INTERRUPT)", error))?;
    // The child waits in a read(2), which a stop interrupts at once.
    retry_on_intr(|| rustix::process::waitpid(Pid::from_raw(tid), wait_options(libc::__WALL)))
        .map_err(|error| ("waitpid", error.into()))?;
    let registers = registers(tid).map_err(|error| ("ptrace(PTRACE_GETREGSET)", error))?;
    let Some(registers) = registers else {
        return Err(("ptrace(PTRACE_GETREGSET)", io::ErrorKind::InvalidData.into()));
    };
    let mut word = [0u8; 8];
    if memory::read(tid, registers.usual.sp(), &mut word) < word.len() {
        return Err(("process_vm_readv", last_error()));
    }
    Ok(())
}

/// ptrace(2) returns -1 on failure, for the requests used here.
fn check(result: libc::c_long) -> io::Result<()> {
    if result == -1 { Err(last_error()) } else { Ok(()) }
}

/// Makes sure that stops of tracees are reported by SIGCHLD, also if the parent of sprof ignored the signal.
pub(crate) fn hear_of_children() {
    // SAFETY: the default disposition; async-signal-safe, and this process has no handler of its own for it.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Statuses as ptrace(2) gives them: `status >> 8 == signal | event << 8`.
    fn stopped(signal: i32, event: i32) -> Waited {
        Waited::of(((signal | event << 8) << 8) | 0x7f)
    }

    #[test]
    fn stops_are_distinguished() {
        assert_eq!(stopped(libc::SIGUSR1, 0), Waited::Stopped(Stop::Signal(libc::SIGUSR1)));
        assert_eq!(stopped(libc::SIGTRAP, 0), Waited::Stopped(Stop::Signal(libc::SIGTRAP)));
        assert_eq!(stopped(libc::SIGTRAP, 128), Waited::Stopped(Stop::Trap));
        assert_eq!(stopped(libc::SIGTSTP, 128), Waited::Stopped(Stop::Group));
        assert_eq!(stopped(libc::SIGTRAP, 1), Waited::Stopped(Stop::NewTask));
        assert_eq!(stopped(libc::SIGTRAP, 3), Waited::Stopped(Stop::NewTask));
        assert_eq!(stopped(libc::SIGTRAP, 4), Waited::Stopped(Stop::Exec));
        assert_eq!(stopped(libc::SIGTRAP, 6), Waited::Stopped(Stop::Exit));
        assert_eq!(Waited::of(3 << 8), Waited::Ended(WaitStatus::Exited(3)));
        assert_eq!(
            Waited::of(libc::SIGKILL),
            Waited::Ended(WaitStatus::Signaled(libc::SIGKILL))
        );
    }
}
