//! Starting the program stopped before its exec, signalling and reaping it.

use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;
use std::ptr;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::SigSet;
use nix::time::{ClockId, clock_gettime};
use rustix::io::{read, retry_on_intr, write};
use rustix::pipe::{PipeFlags, pipe_with};
pub(crate) use rustix::process::Signal;
use rustix::process::{Pid, PidfdFlags, WaitOptions, pidfd_open};

use recording::program::ProgramImage;
use recording::session::ProgramExit;

use super::signals::Signals;
use super::{last_error, retry};

/// A forked child that waits for [`Stopped::start`]. If this is dropped, the child exits without running anything.
#[derive(Debug)]
pub(crate) struct Stopped {
    child: Child,
    exec_error: OwnedFd,
}

/// A child process, reaped by [`Child::wait`].
#[derive(Debug)]
pub(crate) struct Child {
    pid: Pid,
    pidfd: OwnedFd,
    reaped: Option<WaitStatus>,
    /// The child waits for a byte from this pipe before its exec, and exits if it is closed. `None`: the child was let
    /// go.
    go: Option<OwnedFd>,
}

impl Drop for Child {
    fn drop(&mut self) {
        if let Some(go) = self.go.take() {
            drop(go);
            self.wait();
        }
    }
}

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitStatus {
    Exited(i32),
    Signaled(i32),
}

impl WaitStatus {
    /// The end in a status of waitpid; `None` for a stop.
    pub(crate) fn of_ended(raw: libc::c_int) -> Option<WaitStatus> {
        if libc::WIFSIGNALED(raw) {
            return Some(WaitStatus::Signaled(libc::WTERMSIG(raw)));
        }
        libc::WIFEXITED(raw).then(|| WaitStatus::Exited(libc::WEXITSTATUS(raw)))
    }
}

impl From<WaitStatus> for ProgramExit {
    fn from(status: WaitStatus) -> ProgramExit {
        match status {
            WaitStatus::Exited(code) => ProgramExit::Code(code),
            WaitStatus::Signaled(signal) => ProgramExit::Signal(signal),
        }
    }
}

/// What an ended process and all processes that it waited for have taken (getrusage(2)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProcessUsage {
    pub(crate) user_ns: u64,
    pub(crate) system_ns: u64,
    /// Most memory in RAM of one process, KiB.
    pub(crate) peak_kib: u64,
    pub(crate) minor_faults: u64,
    pub(crate) major_faults: u64,
    pub(crate) voluntary_switches: u64,
    pub(crate) forced_switches: u64,
    /// Blocks of 512 bytes from disks, and to disks.
    pub(crate) read_blocks: u64,
    pub(crate) written_blocks: u64,
}

/// Forks a child that blocks until [`Stopped::start`], then executes `image`, which was built before because the child
/// may not allocate, with the signal mask from before `signals`.
pub(crate) fn fork_stopped(image: &ProgramImage, signals: &Signals) -> io::Result<Stopped> {
    let (go_read, go_write) = pipe_with(PipeFlags::CLOEXEC)?;
    let (error_read, error_write) = pipe_with(PipeFlags::CLOEXEC)?;
    let args = pointers(&image.args);
    let env = pointers(&image.env);
    // A script without `#!` is run by the shell, as execvp(3) and every shell do.
    let shell_args: Vec<CString> = [c"/bin/sh".to_owned(), image.path.clone()]
        .into_iter()
        .chain(image.args.iter().skip(1).cloned())
        .collect();
    let shell_args = pointers(&shell_args);
    let mask = signals.mask_before();

    // SAFETY: other threads may hold locks, in tests at least. So the child calls only async-signal-safe functions on
    // memory that was prepared above, and allocates nothing, until it execs or exits.
    let pid = unsafe { libc::fork() };
    if pid < 0 {
        return Err(last_error());
    }
    let Some(pid) = Pid::from_raw(pid) else {
        // SAFETY: we are the child of the fork above; all pointers are null-terminated arrays of live C strings.
        unsafe {
            child_main(
                &image.path,
                &args,
                &env,
                &shell_args,
                &mask,
                &go_read,
                go_write,
                &error_write,
            )
        }
    };
    drop((go_read, error_write));
    // The child is not reaped, so the pid is its own. Before Linux 5.3 this fails; the child sees `go_write` close, and
    // exits.
    let pidfd = pidfd_open(pid, PidfdFlags::empty())?;
    Ok(Stopped {
        child: Child {
            pid,
            pidfd,
            reaped: None,
            go: Some(go_write),
        },
        exec_error: error_read,
    })
}

/// # Safety
/// Only in the child of a fork: it allocates nothing and takes no lock, because another thread of the parent may have
/// held one. The arrays are null-terminated and point to live C strings.
#[expect(clippy::too_many_arguments, reason = "everything the child may touch is named here")]
unsafe fn child_main(
    path: &CString,
    args: &[*const libc::c_char],
    env: &[*const libc::c_char],
    shell_args: &[*const libc::c_char],
    mask: &SigSet,
    go_read: &OwnedFd,
    go_write: OwnedFd,
    error_write: &OwnedFd,
) -> ! {
    // Our own end of the pipe must be closed, or the read below would never see that the parent is gone.
    drop(go_write);
    let got = retry_on_intr(|| read(go_read, &mut [0u8]));
    if !matches!(got, Ok(1)) {
        // SAFETY: _exit is async-signal-safe.
        unsafe { libc::_exit(0) };
    }
    // Rust's runtime ignores SIGPIPE, and ignored signals stay ignored across exec; the program expects the default.
    // SAFETY: async-signal-safe, default disposition.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    // pthread_sigmask(3) is async-signal-safe.
    let _ = mask.thread_set_mask();
    // SAFETY: by this function's contract.
    unsafe { libc::execve(path.as_ptr(), args.as_ptr(), env.as_ptr()) };
    if last_error().raw_os_error() == Some(libc::ENOEXEC) {
        // SAFETY: by this function's contract.
        unsafe { libc::execve(c"/bin/sh".as_ptr(), shell_args.as_ptr(), env.as_ptr()) };
    }
    let errno = last_error().raw_os_error().unwrap_or(libc::EINVAL).to_ne_bytes();
    // The pipe has room for four bytes.
    let _ = write(error_write, &errno);
    // SAFETY: _exit is async-signal-safe.
    unsafe { libc::_exit(127) }
}

impl Stopped {
    pub(crate) fn pid(&self) -> i32 {
        self.child.pid()
    }

    /// Lets the child exec. Returns when it has, or with the error of its execve.
    pub(crate) fn start(self) -> io::Result<Child> {
        self.start_and(|| {})
    }

    /// The same, and does this in between.
    pub(crate) fn start_and(self, meanwhile: impl FnOnce()) -> io::Result<Child> {
        let (mut child, exec) = self.release()?;
        meanwhile();
        match exec.error()? {
            None => Ok(child),
            Some(error) => {
                child.wait();
                Err(error)
            }
        }
    }

    /// Lets the child go on to its exec, and does not wait for that.
    pub(crate) fn release(self) -> io::Result<(Child, ExecReport)> {
        let Stopped { mut child, exec_error } = self;
        if let Some(go) = &child.go {
            retry_on_intr(|| write(go, b"g"))?;
        }
        child.go = None;
        Ok((child, ExecReport(exec_error)))
    }

    /// Kills the child, which is reaped when this is dropped.
    pub(crate) fn kill(&self) {
        self.child.signal(Signal::KILL);
    }
}

/// The result of a released child's exec.
#[derive(Debug)]
pub(crate) struct ExecReport(OwnedFd);

impl ExecReport {
    /// Waits until the child has another program, or the error of its execve.
    pub(crate) fn error(self) -> io::Result<Option<io::Error>> {
        let mut errno = [0u8; 4];
        // The write end is close-on-exec: a successful exec reads as end of file.
        let got = retry_on_intr(|| read(&self.0, &mut errno))?;
        Ok((got > 0).then(|| io::Error::from_raw_os_error(i32::from_ne_bytes(errno))))
    }
}

impl Child {
    pub(crate) fn pid(&self) -> i32 {
        self.pid.as_raw_pid()
    }

    /// Readable when the child has ended.
    pub(crate) fn pidfd(&self) -> &OwnedFd {
        &self.pidfd
    }

    /// Sends a signal; does nothing once the child is reaped.
    pub(crate) fn signal(&self, signal: Signal) {
        if self.reaped.is_none() {
            // The child is not reaped, so the pid is still its own.
            let _ = rustix::process::kill_process(self.pid, signal);
        }
    }

    /// The tracer has waited for the child's end.
    pub(crate) fn was_reaped(&mut self, status: WaitStatus) {
        self.reaped = Some(status);
    }

    /// What the child, which has ended, and all processes that it waited for have taken. It is still to be reaped.
    ///
    /// The sum of CPU time is from the scheduler's clock, ended threads included, to the microsecond. Its two parts are
    /// estimates by ticks.
    pub(crate) fn usage(&self) -> Option<ProcessUsage> {
        if self.reaped.is_some() {
            return None;
        }
        // SAFETY: both are plain C structures for which all zeros are a valid value.
        let (mut info, mut usage): (libc::siginfo_t, libc::rusage) = unsafe { std::mem::zeroed() };
        // The C library's function lacks the fifth argument of the system call. wait_task_zombie() in kernel/exit.c
        // fills it even with WNOWAIT. SAFETY: live structures of the system's own layout, and integers.
        let got = retry(|| unsafe {
            libc::syscall(
                libc::SYS_waitid,
                libc::P_PID,
                self.pid(),
                &raw mut info,
                libc::WEXITED | libc::WNOWAIT | libc::WNOHANG,
                &raw mut usage,
            ) as isize
        });
        // SAFETY: the kernel filled in the child's fields, or left zeros where no child has ended.
        let has_ended = got.is_ok() && unsafe { info.si_pid() } == self.pid();
        let ns = |time: libc::timeval| {
            let (seconds, micros) = (u64::try_from(time.tv_sec).ok()?, u64::try_from(time.tv_usec).ok()?);
            Some(seconds.saturating_mul(1_000_000_000).saturating_add(micros * 1000))
        };
        let count = |number: libc::c_long| u64::try_from(number).unwrap_or_default();
        has_ended.then_some(ProcessUsage {
            user_ns: ns(usage.ru_utime)?,
            system_ns: ns(usage.ru_stime)?,
            peak_kib: count(usage.ru_maxrss),
            minor_faults: count(usage.ru_minflt),
            major_faults: count(usage.ru_majflt),
            voluntary_switches: count(usage.ru_nvcsw),
            forced_switches: count(usage.ru_nivcsw),
            read_blocks: count(usage.ru_inblock),
            written_blocks: count(usage.ru_oublock),
        })
    }

    /// Waits for the child's end.
    pub(crate) fn wait(&mut self) -> WaitStatus {
        if let Some(status) = self.reaped {
            return status;
        }
        let status = loop {
            let waited = retry_on_intr(|| rustix::process::waitpid(Some(self.pid), WaitOptions::empty()));
            // The kernel has reaped the child, because the parent of sprof ignored SIGCHLD: the status is lost.
            let Ok(Some((_, status))) = waited else {
                break WaitStatus::Exited(0);
            };
            // Else it is a stop that a ptrace recording left behind; its thread, and with it the tracing, has ended.
            if let Some(ended) = WaitStatus::of_ended(status.as_raw()) {
                break ended;
            }
        };
        self.reaped = Some(status);
        status
    }
}

/// Another process, held so that its pid can't come to mean a different one.
#[derive(Debug)]
pub(crate) struct HeldProcess(OwnedFd);

impl HeldProcess {
    /// Takes hold of a process; `None` if it is gone.
    pub(crate) fn open(pid: i32) -> Option<HeldProcess> {
        // `from_raw` asserts that the pid is not negative.
        let pid = Pid::from_raw(pid.max(0))?;
        pidfd_open(pid, PidfdFlags::empty()).ok().map(HeldProcess)
    }

    /// Sends a signal; nothing happens if it has ended.
    pub(crate) fn signal(&self, signal: Signal) {
        let _ = rustix::process::pidfd_send_signal(&self.0, signal);
    }

    /// Readable when it has ended.
    pub(crate) fn pidfd(&self) -> &OwnedFd {
        &self.0
    }
}

/// Nanoseconds on CLOCK_MONOTONIC: the clock of the samples.
pub(crate) fn monotonic_ns() -> u64 {
    clock_ns(ClockId::CLOCK_MONOTONIC)
}

/// Nanoseconds of CPU time that this thread has used.
pub fn thread_cpu_ns() -> u64 {
    clock_ns(ClockId::CLOCK_THREAD_CPUTIME_ID)
}

/// Makes the allocator give large blocks back to the kernel when they are freed. glibc's keeps up to 64 MB in each of
/// its arenas once one such block was freed (M_TRIM_THRESHOLD in mallopt(3)), and threads that live at one time have
/// arenas of their own: a recording of the last 5 s had 35 MB after eleven files of triggers, and has 6.
pub fn return_freed_memory() {
    #[cfg(target_env = "gnu")]
    {
        const MOST_KEPT: libc::c_int = 128 << 10;
        // SAFETY: it stores a number under the lock of the first arena. A thread that allocates meanwhile reads the
        // earlier number or this one.
        unsafe { libc::mallopt(libc::M_TRIM_THRESHOLD, MOST_KEPT) };
    }
}

/// Nanoseconds of CPU time of a process's threads, ended ones included. `None` if the process is gone.
pub(crate) fn process_cpu_ns(pid: i32) -> Option<u64> {
    // 0 is the caller here, and what is outside of this PID namespace in perf's records. Numbers above PID_MAX_LIMIT of
    // include/linux/threads.h would lose their upper bits.
    if !(1..=1 << 22).contains(&pid) {
        return None;
    }
    // MAKE_PROCESS_CPUCLOCK of include/linux/posix-timers_types.h, with CPUCLOCK_SCHED: what clock_getcpuclockid(3)
    // gives.
    read_clock(ClockId::from_raw((!pid << 3) | 2))
}

/// Nanoseconds on a clock that every kernel has.
fn clock_ns(clock: ClockId) -> u64 {
    read_clock(clock).unwrap_or(0)
}

/// By nix: rustix has no clocks of other processes.
fn read_clock(clock: ClockId) -> Option<u64> {
    let now = clock_gettime(clock).ok()?;
    Some((now.tv_sec() as u64) * 1_000_000_000 + now.tv_nsec() as u64)
}

/// Nanoseconds on CLOCK_BOOTTIME: what /proc counts start times on, suspended time included.
pub(crate) fn boottime_ns() -> u64 {
    clock_ns(ClockId::CLOCK_BOOTTIME)
}

/// Clock ticks a second, the unit of start times in /proc.
pub(crate) fn ticks_per_second() -> u64 {
    rustix::param::clock_ticks_per_second()
}

/// Raises the soft limit of open files to the hard one: one event per CPU is open. By nix: rustix expects that the
/// limit can be read, and a sandbox may refuse it.
pub(crate) fn raise_open_file_limit() {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft != hard
    {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

fn pointers(strings: &[CString]) -> Vec<*const libc::c_char> {
    strings
        .iter()
        .map(|string| string.as_ptr())
        .chain([ptr::null()])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_is_no_pid_is_not_held() {
        assert!(HeldProcess::open(-1).is_none());
        assert!(HeldProcess::open(0).is_none());
        assert!(HeldProcess::open(std::process::id() as i32).is_some());
    }
}
