//! Starting the program stopped before its exec, signalling and reaping it.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;

use super::signals::Signals;
use super::{last_error, retry};

/// What the child executes; built before the fork, because the child may not allocate.
pub(crate) struct Image {
    pub(crate) path: CString,
    pub(crate) args: Vec<CString>,
    pub(crate) env: Vec<CString>,
}

/// A forked child that waits for [`Stopped::start`]. If this is dropped, the child exits without running anything.
#[derive(Debug)]
pub(crate) struct Stopped {
    child: Child,
    exec_error: OwnedFd,
}

/// A child process, reaped by [`Child::wait`].
#[derive(Debug)]
pub(crate) struct Child {
    pub(crate) pid: libc::pid_t,
    pidfd: OwnedFd,
    reaped: Option<WaitStatus>,
    /// The child waits for a byte from this pipe before its exec, and exits if it is closed. `None`: the child was let go.
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

/// CPU time of processes, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CpuTime {
    pub(crate) user_ns: u64,
    pub(crate) system_ns: u64,
}

/// Forks a child that blocks until [`Stopped::start`], then executes `image` with the signal mask from before `signals`.
pub(crate) fn fork_stopped(image: &Image, signals: &Signals) -> io::Result<Stopped> {
    let (go_read, go_write) = pipe()?;
    let (error_read, error_write) = pipe()?;
    let args = pointers(&image.args);
    let env = pointers(&image.env);
    // A script without `#!` is run by the shell, as execvp(3) and every shell do.
    let shell_args: Vec<CString> = [c"/bin/sh".to_owned(), image.path.clone()]
        .into_iter()
        .chain(image.args.iter().skip(1).cloned())
        .collect();
    let shell_args = pointers(&shell_args);
    let mask = signals.mask_before();

    // SAFETY: this process has one thread (`Signals` requires it), and the child calls only async-signal-safe functions
    // on memory that was prepared above, until it execs or exits.
    let pid = unsafe { libc::fork() };
    if pid < 0 {
        return Err(last_error());
    }
    if pid == 0 {
        // SAFETY: we are the child of the fork above; all pointers are null-terminated arrays of live C strings.
        unsafe {
            child_main(
                &image.path,
                &args,
                &env,
                &shell_args,
                &mask,
                &go_read,
                &go_write,
                &error_write,
            )
        }
    }
    drop((go_read, error_write));
    // The child is not reaped, so the pid is its own. Before Linux 5.3 this fails; the child sees `go_write` close, and exits.
    let pidfd = open_pidfd(pid)?;
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
/// Only in a child forked from a one-thread process. The arrays are null-terminated and point to live C strings.
#[expect(clippy::too_many_arguments, reason = "everything the child may touch is named here")]
unsafe fn child_main(
    path: &CString,
    args: &[*const libc::c_char],
    env: &[*const libc::c_char],
    shell_args: &[*const libc::c_char],
    mask: &libc::sigset_t,
    go_read: &OwnedFd,
    go_write: &OwnedFd,
    error_write: &OwnedFd,
) -> ! {
    // Our own end of the pipe must be closed, or the read below would never see that the parent is gone.
    // SAFETY: closing a descriptor that the child never uses again; it does not run destructors.
    unsafe { libc::close(go_write.as_raw_fd()) };
    let mut byte = 0u8;
    // SAFETY: one writable byte.
    let got = retry(|| unsafe { libc::read(go_read.as_raw_fd(), (&raw mut byte).cast(), 1) });
    if !matches!(got, Ok(1)) {
        // SAFETY: _exit is async-signal-safe.
        unsafe { libc::_exit(0) };
    }
    // Rust's runtime ignores SIGPIPE, and ignored signals stay ignored across exec; the program expects the default.
    // SAFETY: async-signal-safe, default disposition.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    // SAFETY: async-signal-safe, and `mask` is the parent's mask from before the recording.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, mask, ptr::null_mut()) };
    // SAFETY: by this function's contract.
    unsafe { libc::execve(path.as_ptr(), args.as_ptr(), env.as_ptr()) };
    if last_error().raw_os_error() == Some(libc::ENOEXEC) {
        // SAFETY: by this function's contract.
        unsafe { libc::execve(c"/bin/sh".as_ptr(), shell_args.as_ptr(), env.as_ptr()) };
    }
    let errno = last_error().raw_os_error().unwrap_or(libc::EINVAL).to_ne_bytes();
    // SAFETY: four readable bytes; the pipe has room for them.
    unsafe { libc::write(error_write.as_raw_fd(), errno.as_ptr().cast(), errno.len()) };
    // SAFETY: _exit is async-signal-safe.
    unsafe { libc::_exit(127) }
}

impl Stopped {
    pub(crate) fn pid(&self) -> libc::pid_t {
        self.child.pid
    }

    /// Lets the child exec. Returns when it has, or with the error of its execve.
    pub(crate) fn start(self) -> io::Result<Child> {
        let (mut child, exec) = self.release()?;
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
            // SAFETY: one readable byte.
            retry(|| unsafe { libc::write(go.as_raw_fd(), b"g".as_ptr().cast(), 1) })?;
        }
        child.go = None;
        Ok((child, ExecReport(exec_error)))
    }

    /// Kills the child, which is reaped when this is dropped.
    pub(crate) fn kill(&self) {
        self.child.signal(libc::SIGKILL);
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
        // SAFETY: four writable bytes.
        let got = retry(|| unsafe { libc::read(self.0.as_raw_fd(), errno.as_mut_ptr().cast(), 4) })?;
        Ok((got > 0).then(|| io::Error::from_raw_os_error(i32::from_ne_bytes(errno))))
    }
}

impl Child {
    /// Readable when the child has ended.
    pub(crate) fn pidfd(&self) -> &OwnedFd {
        &self.pidfd
    }

    /// Sends a signal; does nothing once the child is reaped.
    pub(crate) fn signal(&self, signal: i32) {
        if self.reaped.is_none() {
            // SAFETY: the child is not reaped, so the pid is still its own.
            unsafe { libc::kill(self.pid, signal) };
        }
    }

    /// The tracer has waited for the child's end.
    pub(crate) fn was_reaped(&mut self, status: WaitStatus) {
        self.reaped = Some(status);
    }

    /// CPU time of the child, which has ended, and of all processes that it waited for. It is still to be reaped.
    ///
    /// The sum is from the scheduler's clock, ended threads included, to the microsecond. Its two parts are estimates by ticks.
    pub(crate) fn cpu_time(&self) -> Option<CpuTime> {
        if self.reaped.is_some() {
            return None;
        }
        // SAFETY: both are plain C structures, of which zeros are a value.
        let (mut info, mut usage): (libc::siginfo_t, libc::rusage) = unsafe { std::mem::zeroed() };
        // The C library's function lacks the fifth argument of the system call, which wait_task_zombie() in kernel/exit.c fills with
        // WNOWAIT, too.
        // SAFETY: live structures of the system's own layout, and integers.
        let got = retry(|| unsafe {
            libc::syscall(
                libc::SYS_waitid,
                libc::P_PID,
                self.pid,
                &raw mut info,
                libc::WEXITED | libc::WNOWAIT | libc::WNOHANG,
                &raw mut usage,
            ) as isize
        });
        // SAFETY: the kernel filled in the child's fields, or left zeros where no child has ended.
        let has_ended = got.is_ok() && unsafe { info.si_pid() } == self.pid;
        let ns = |time: libc::timeval| {
            let (seconds, micros) = (u64::try_from(time.tv_sec).ok()?, u64::try_from(time.tv_usec).ok()?);
            Some(seconds.saturating_mul(1_000_000_000).saturating_add(micros * 1000))
        };
        has_ended.then_some(CpuTime {
            user_ns: ns(usage.ru_utime)?,
            system_ns: ns(usage.ru_stime)?,
        })
    }

    /// Waits for the child's end.
    pub(crate) fn wait(&mut self) -> WaitStatus {
        if let Some(status) = self.reaped {
            return status;
        }
        let mut raw = 0;
        let status = loop {
            // SAFETY: `raw` is a live integer.
            let got = retry(|| unsafe { libc::waitpid(self.pid, &raw mut raw, 0) } as isize);
            match (got, WaitStatus::of_ended(raw)) {
                (Ok(_), Some(status)) => break status,
                // A stop that a ptrace recording left behind; its thread, and with it the tracing, has ended.
                (Ok(_), None) => {}
                // The kernel has reaped the child, because the parent of sprof ignored SIGCHLD: the status is lost.
                (Err(_), _) => break WaitStatus::Exited(0),
            }
        };
        self.reaped = Some(status);
        status
    }
}

fn open_pidfd(pid: libc::pid_t) -> io::Result<OwnedFd> {
    // SAFETY: pidfd_open takes a pid and flags.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    if fd < 0 {
        return Err(last_error());
    }
    // SAFETY: a new descriptor that nothing else owns (pidfds are close-on-exec).
    Ok(unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) })
}

/// Another process, held so that its pid can't come to mean a different one.
#[derive(Debug)]
pub(crate) struct Held(OwnedFd);

impl Held {
    /// Takes hold of a process; `None` if it is gone.
    pub(crate) fn open(pid: i32) -> Option<Held> {
        open_pidfd(pid).ok().map(Held)
    }

    /// Sends a signal; nothing happens if it has ended.
    pub(crate) fn signal(&self, signal: i32) {
        // SAFETY: no siginfo is passed.
        unsafe {
            libc::syscall(
                libc::SYS_pidfd_send_signal,
                self.0.as_raw_fd(),
                signal,
                ptr::null::<libc::siginfo_t>(),
                0,
            )
        };
    }

    /// Readable when it has ended.
    pub(crate) fn pidfd(&self) -> &OwnedFd {
        &self.0
    }
}

/// Nanoseconds on CLOCK_MONOTONIC: the clock of the samples.
pub(crate) fn monotonic_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// Nanoseconds of CPU time that this thread has used.
pub(crate) fn thread_cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Nanoseconds of CPU time of a process's threads, ended ones included. `None` if there is no such process.
pub(crate) fn process_cpu_ns(pid: i32) -> Option<u64> {
    // 0 is the caller here, and what is outside of this PID namespace in perf's records. Numbers above PID_MAX_LIMIT of
    // include/linux/threads.h would lose their upper bits.
    if !(1..=1 << 22).contains(&pid) {
        return None;
    }
    // MAKE_PROCESS_CPUCLOCK of include/linux/posix-timers_types.h, with CPUCLOCK_SCHED: what clock_getcpuclockid(3) gives.
    let clock = (!pid << 3) | 2;
    read_clock(clock)
}

/// Nanoseconds on a clock that every kernel has.
fn clock_ns(clock: libc::clockid_t) -> u64 {
    read_clock(clock).unwrap_or(0)
}

fn read_clock(clock: libc::clockid_t) -> Option<u64> {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a live timespec.
    let result = unsafe { libc::clock_gettime(clock, &raw mut now) };
    (result == 0).then_some((now.tv_sec as u64) * 1_000_000_000 + now.tv_nsec as u64)
}

/// Nanoseconds on CLOCK_BOOTTIME: what /proc counts start times on, suspended time included.
pub(crate) fn boottime_ns() -> u64 {
    clock_ns(libc::CLOCK_BOOTTIME)
}

/// Clock ticks a second, the unit of start times in /proc.
pub(crate) fn ticks_per_second() -> u64 {
    // SAFETY: sysconf has no preconditions.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    u64::try_from(ticks).ok().filter(|ticks| *ticks > 0).unwrap_or(100)
}

/// Raises the soft limit of open files to the hard one: one event per CPU is open.
pub(crate) fn raise_open_file_limit() {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: a live rlimit.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } == 0 && limit.rlim_cur < limit.rlim_max {
        limit.rlim_cur = limit.rlim_max;
        // SAFETY: a live rlimit.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
    }
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut fds = [0; 2];
    // SAFETY: room for two descriptors.
    if unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return Err(last_error());
    }
    // SAFETY: a new descriptor that nothing else owns.
    let read = unsafe { OwnedFd::from_raw_fd(fds[0]) };
    // SAFETY: likewise.
    let write = unsafe { OwnedFd::from_raw_fd(fds[1]) };
    Ok((read, write))
}

fn pointers(strings: &[CString]) -> Vec<*const libc::c_char> {
    strings
        .iter()
        .map(|string| string.as_ptr())
        .chain([ptr::null()])
        .collect()
}
