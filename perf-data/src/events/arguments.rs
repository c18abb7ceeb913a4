//! Names of the constants that system calls take: `O_WRONLY|O_CREAT|O_CLOEXEC` for 524353.
//!
//! Values are those of include/uapi of Linux, which all architectures share but for [`OPEN_X86_64`] and
//! [`OPEN_AARCH64`]. Numbers that are not in the tables stay numbers.

use std::fmt::Write as _;

use crate::decode::RegisterSet;

/// What the number in a field stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ArgumentMeaning {
    /// Bits. Combinations stand before their parts.
    Bits(Bits),
    /// Flags of open(2): these, those of the architecture, and the access mode in the lowest two bits.
    Open(Bits),
    /// One of these names.
    One(Ones),
    /// One of these names below the mask, and bits above.
    OneAndBits(u32, Ones, Bits),
    /// Permissions of a file.
    Octal,
    /// What a system call returns: an error if it is negative.
    Result,
}

type Bits = &'static [(u32, &'static str)];
type Ones = &'static [(i32, &'static str)];

impl ArgumentMeaning {
    /// The meaning of a field of a tracepoint, if it is an argument or the result of a system call. `None` for other
    /// fields.
    pub(super) fn find(event: &str, field: &str, registers: RegisterSet) -> Option<ArgumentMeaning> {
        if event.starts_with("sys_exit_") {
            return (field == "ret").then_some(ArgumentMeaning::Result);
        }
        let call = event.strip_prefix("sys_enter_")?;
        Some(match (call, field) {
            (_, "dfd" | "olddfd" | "newdfd" | "from_dfd" | "to_dfd") | ("execveat", "fd") => {
                ArgumentMeaning::One(FOLDERS)
            }
            ("open" | "openat" | "open_by_handle_at" | "mq_open", "flags" | "oflag") => {
                ArgumentMeaning::Open(match registers {
                    RegisterSet::X86_64 => OPEN_X86_64,
                    RegisterSet::Aarch64 => OPEN_AARCH64,
                })
            }
            (
                "pipe2" | "dup3" | "epoll_create1" | "eventfd2" | "timerfd_create" | "signalfd4" | "inotify_init1",
                "flags",
            ) => ArgumentMeaning::Bits(OPEN),
            ("access" | "faccessat" | "faccessat2", "mode") => ArgumentMeaning::Bits(ACCESS),
            (
                "open" | "openat" | "creat" | "mkdir" | "mkdirat" | "chmod" | "fchmod" | "fchmodat" | "fchmodat2"
                | "mknod" | "mknodat" | "mq_open",
                "mode",
            )
            | ("umask", "mask") => ArgumentMeaning::Octal,
            ("mmap", "flags") => ArgumentMeaning::OneAndBits(3, MAP_KINDS, MAP),
            ("mmap", "fd") => ArgumentMeaning::One(&[(-1, "-1")]),
            ("mmap" | "mprotect" | "pkey_mprotect", "prot") => ArgumentMeaning::Bits(PROT),
            ("unlinkat", "flag" | "flags") => ArgumentMeaning::Bits(&[(0x200, "AT_REMOVEDIR")]),
            (
                "newfstatat" | "statx" | "linkat" | "faccessat2" | "execveat" | "fchownat" | "utimensat" | "fchmodat2"
                | "name_to_handle_at",
                "flag" | "flags",
            ) => ArgumentMeaning::Bits(AT),
            ("socket" | "socketpair", "family") => ArgumentMeaning::One(FAMILIES),
            ("socket" | "socketpair", "type") => ArgumentMeaning::OneAndBits(0xf, SOCKETS, SOCKET_FLAGS),
            ("accept4", "flags") => ArgumentMeaning::Bits(SOCKET_FLAGS),
            ("sendto" | "recvfrom" | "sendmsg" | "recvmsg" | "sendmmsg" | "recvmmsg", "flags") => {
                ArgumentMeaning::Bits(MESSAGE)
            }
            ("shutdown", "how") => ArgumentMeaning::One(&[(0, "SHUT_RD"), (1, "SHUT_WR"), (2, "SHUT_RDWR")]),
            ("futex", "op") => ArgumentMeaning::OneAndBits(0x7f, FUTEX, FUTEX_FLAGS),
            ("lseek", "whence") => ArgumentMeaning::One(WHENCE),
            ("madvise" | "process_madvise", "behavior") => ArgumentMeaning::One(ADVICE),
            ("fcntl", "cmd") => ArgumentMeaning::One(FCNTL),
            ("flock", "cmd") => {
                ArgumentMeaning::Bits(&[(1, "LOCK_SH"), (2, "LOCK_EX"), (8, "LOCK_UN"), (4, "LOCK_NB")])
            }
            ("epoll_ctl", "op") => {
                ArgumentMeaning::One(&[(1, "EPOLL_CTL_ADD"), (2, "EPOLL_CTL_DEL"), (3, "EPOLL_CTL_MOD")])
            }
            ("kill" | "tkill" | "tgkill" | "rt_sigaction" | "rt_sigqueueinfo" | "rt_tgsigqueueinfo", "sig") => {
                ArgumentMeaning::One(SIGNALS)
            }
            ("rt_sigprocmask", "how") => {
                ArgumentMeaning::One(&[(0, "SIG_BLOCK"), (1, "SIG_UNBLOCK"), (2, "SIG_SETMASK")])
            }
            ("clone", "clone_flags") => ArgumentMeaning::OneAndBits(0xff, SIGNALS, CLONE),
            ("unshare", "unshare_flags") | ("setns", "flags") => ArgumentMeaning::Bits(CLONE),
            (_, "which_clock" | "clockid") => ArgumentMeaning::One(CLOCKS),
            ("wait4" | "waitid", "options") => {
                ArgumentMeaning::Bits(&[(1, "WNOHANG"), (2, "WUNTRACED"), (4, "WEXITED"), (8, "WCONTINUED")])
            }
            ("memfd_create", "flags") => ArgumentMeaning::Bits(&[(1, "MFD_CLOEXEC"), (2, "MFD_ALLOW_SEALING")]),
            ("getrandom", "flags") => ArgumentMeaning::Bits(&[(1, "GRND_NONBLOCK"), (2, "GRND_RANDOM")]),
            _ => return None,
        })
    }

    /// The names; `None` if the number says more.
    pub(super) fn text(self, value: u64) -> Option<String> {
        // A flag is an `int` in a register, whose upper half may be anything.
        let low = value as u32;
        match self {
            ArgumentMeaning::Bits(bits) => Some(joined(Vec::new(), low, bits)),
            ArgumentMeaning::Open(of_architecture) => {
                let access = ["O_RDONLY", "O_WRONLY", "O_RDWR"].get((low & 3) as usize)?;
                let (of_architecture, rest) = taken(low & !3, of_architecture);
                let names = [*access].into_iter().chain(of_architecture).collect();
                Some(joined(names, rest, OPEN))
            }
            ArgumentMeaning::One(ones) => name(low.cast_signed(), ones).map(str::to_owned),
            ArgumentMeaning::OneAndBits(mask, ones, bits) => {
                let one = low & mask;
                let names = match name(one.cast_signed(), ones) {
                    Some(name) => vec![name],
                    None if one == 0 => Vec::new(),
                    None => return None,
                };
                Some(joined(names, low & !mask, bits))
            }
            ArgumentMeaning::Octal => (low != 0).then(|| format!("0{low:o}")),
            ArgumentMeaning::Result => {
                let error = name(i32::try_from(value.cast_signed().checked_neg()?).ok()?, ERRORS)?;
                Some(format!("{} ({error})", value.cast_signed()))
            }
        }
    }
}

fn name(value: i32, ones: Ones) -> Option<&'static str> {
    ones.iter().find(|(one, _)| *one == value).map(|(_, name)| *name)
}

/// The names of the bits that are set, and the other bits.
fn taken(mut value: u32, bits: Bits) -> (Vec<&'static str>, u32) {
    let mut names = Vec::new();
    for (bit, name) in bits {
        if value & bit == *bit {
            names.push(*name);
            value &= !bit;
        }
    }
    (names, value)
}

fn joined(mut names: Vec<&'static str>, value: u32, bits: Bits) -> String {
    let (more, rest) = taken(value, bits);
    names.extend(more);
    let mut text = names.join("|");
    if rest != 0 || text.is_empty() {
        if !text.is_empty() {
            text.push('|');
        }
        // Writing to a string does not fail.
        let _ = match rest {
            0 => write!(text, "0"),
            rest => write!(text, "{rest:#x}"),
        };
    }
    text
}

const FOLDERS: Ones = &[(-100, "AT_FDCWD")];

const OPEN: Bits = &[
    (0o4_010_000, "O_SYNC"),
    (0o100, "O_CREAT"),
    (0o200, "O_EXCL"),
    (0o400, "O_NOCTTY"),
    (0o1_000, "O_TRUNC"),
    (0o2_000, "O_APPEND"),
    (0o4_000, "O_NONBLOCK"),
    (0o10_000, "O_DSYNC"),
    (0o20_000, "O_ASYNC"),
    (0o1_000_000, "O_NOATIME"),
    (0o2_000_000, "O_CLOEXEC"),
    (0o10_000_000, "O_PATH"),
];

const OPEN_X86_64: Bits = &[
    (0o20_200_000, "O_TMPFILE"),
    (0o40_000, "O_DIRECT"),
    (0o100_000, "O_LARGEFILE"),
    (0o200_000, "O_DIRECTORY"),
    (0o400_000, "O_NOFOLLOW"),
];

const OPEN_AARCH64: Bits = &[
    (0o20_040_000, "O_TMPFILE"),
    (0o40_000, "O_DIRECTORY"),
    (0o100_000, "O_NOFOLLOW"),
    (0o200_000, "O_DIRECT"),
    (0o400_000, "O_LARGEFILE"),
];

const ACCESS: Bits = &[(4, "R_OK"), (2, "W_OK"), (1, "X_OK")];

const AT: Bits = &[
    (0x100, "AT_SYMLINK_NOFOLLOW"),
    (0x200, "AT_EACCESS"),
    (0x400, "AT_SYMLINK_FOLLOW"),
    (0x800, "AT_NO_AUTOMOUNT"),
    (0x1000, "AT_EMPTY_PATH"),
    (0x2000, "AT_STATX_FORCE_SYNC"),
    (0x4000, "AT_STATX_DONT_SYNC"),
];

const PROT: Bits = &[(1, "PROT_READ"), (2, "PROT_WRITE"), (4, "PROT_EXEC")];

const MAP_KINDS: Ones = &[(1, "MAP_SHARED"), (2, "MAP_PRIVATE"), (3, "MAP_SHARED_VALIDATE")];

const MAP: Bits = &[
    (0x10, "MAP_FIXED"),
    (0x20, "MAP_ANONYMOUS"),
    (0x100, "MAP_GROWSDOWN"),
    (0x800, "MAP_DENYWRITE"),
    (0x2000, "MAP_LOCKED"),
    (0x4000, "MAP_NORESERVE"),
    (0x8000, "MAP_POPULATE"),
    (0x1_0000, "MAP_NONBLOCK"),
    (0x2_0000, "MAP_STACK"),
    (0x4_0000, "MAP_HUGETLB"),
    (0x10_0000, "MAP_FIXED_NOREPLACE"),
];

const FAMILIES: Ones = &[
    (1, "AF_UNIX"),
    (2, "AF_INET"),
    (10, "AF_INET6"),
    (16, "AF_NETLINK"),
    (17, "AF_PACKET"),
    (40, "AF_VSOCK"),
];

const SOCKETS: Ones = &[
    (1, "SOCK_STREAM"),
    (2, "SOCK_DGRAM"),
    (3, "SOCK_RAW"),
    (5, "SOCK_SEQPACKET"),
];

const SOCKET_FLAGS: Bits = &[(0o4_000, "SOCK_NONBLOCK"), (0o2_000_000, "SOCK_CLOEXEC")];

const MESSAGE: Bits = &[
    (1, "MSG_OOB"),
    (2, "MSG_PEEK"),
    (0x20, "MSG_TRUNC"),
    (0x40, "MSG_DONTWAIT"),
    (0x100, "MSG_WAITALL"),
    (0x4000, "MSG_NOSIGNAL"),
    (0x8000, "MSG_MORE"),
    (0x4000_0000, "MSG_CMSG_CLOEXEC"),
];

const FUTEX: Ones = &[
    (0, "FUTEX_WAIT"),
    (1, "FUTEX_WAKE"),
    (3, "FUTEX_REQUEUE"),
    (4, "FUTEX_CMP_REQUEUE"),
    (5, "FUTEX_WAKE_OP"),
    (6, "FUTEX_LOCK_PI"),
    (7, "FUTEX_UNLOCK_PI"),
    (9, "FUTEX_WAIT_BITSET"),
    (10, "FUTEX_WAKE_BITSET"),
];

const FUTEX_FLAGS: Bits = &[(128, "FUTEX_PRIVATE_FLAG"), (256, "FUTEX_CLOCK_REALTIME")];

const WHENCE: Ones = &[
    (0, "SEEK_SET"),
    (1, "SEEK_CUR"),
    (2, "SEEK_END"),
    (3, "SEEK_DATA"),
    (4, "SEEK_HOLE"),
];

const ADVICE: Ones = &[
    (0, "MADV_NORMAL"),
    (1, "MADV_RANDOM"),
    (2, "MADV_SEQUENTIAL"),
    (3, "MADV_WILLNEED"),
    (4, "MADV_DONTNEED"),
    (8, "MADV_FREE"),
    (10, "MADV_DONTFORK"),
    (14, "MADV_HUGEPAGE"),
    (15, "MADV_NOHUGEPAGE"),
    (16, "MADV_DONTDUMP"),
    (20, "MADV_COLD"),
    (21, "MADV_PAGEOUT"),
    (23, "MADV_POPULATE_WRITE"),
];

const FCNTL: Ones = &[
    (0, "F_DUPFD"),
    (1, "F_GETFD"),
    (2, "F_SETFD"),
    (3, "F_GETFL"),
    (4, "F_SETFL"),
    (5, "F_GETLK"),
    (6, "F_SETLK"),
    (7, "F_SETLKW"),
    (1030, "F_DUPFD_CLOEXEC"),
    (1033, "F_ADD_SEALS"),
];

const CLOCKS: Ones = &[
    (0, "CLOCK_REALTIME"),
    (1, "CLOCK_MONOTONIC"),
    (2, "CLOCK_PROCESS_CPUTIME_ID"),
    (3, "CLOCK_THREAD_CPUTIME_ID"),
    (4, "CLOCK_MONOTONIC_RAW"),
    (7, "CLOCK_BOOTTIME"),
];

const CLONE: Bits = &[
    (0x100, "CLONE_VM"),
    (0x200, "CLONE_FS"),
    (0x400, "CLONE_FILES"),
    (0x800, "CLONE_SIGHAND"),
    (0x1000, "CLONE_PIDFD"),
    (0x4000, "CLONE_VFORK"),
    (0x8000, "CLONE_PARENT"),
    (0x1_0000, "CLONE_THREAD"),
    (0x2_0000, "CLONE_NEWNS"),
    (0x4_0000, "CLONE_SYSVSEM"),
    (0x8_0000, "CLONE_SETTLS"),
    (0x10_0000, "CLONE_PARENT_SETTID"),
    (0x20_0000, "CLONE_CHILD_CLEARTID"),
    (0x100_0000, "CLONE_CHILD_SETTID"),
    (0x1000_0000, "CLONE_NEWUSER"),
    (0x2000_0000, "CLONE_NEWPID"),
    (0x4000_0000, "CLONE_NEWNET"),
];

const SIGNALS: Ones = &[
    (1, "SIGHUP"),
    (2, "SIGINT"),
    (3, "SIGQUIT"),
    (4, "SIGILL"),
    (5, "SIGTRAP"),
    (6, "SIGABRT"),
    (7, "SIGBUS"),
    (8, "SIGFPE"),
    (9, "SIGKILL"),
    (10, "SIGUSR1"),
    (11, "SIGSEGV"),
    (12, "SIGUSR2"),
    (13, "SIGPIPE"),
    (14, "SIGALRM"),
    (15, "SIGTERM"),
    (17, "SIGCHLD"),
    (18, "SIGCONT"),
    (19, "SIGSTOP"),
    (23, "SIGURG"),
    (28, "SIGWINCH"),
];

const ERRORS: Ones = &[
    (1, "EPERM"),
    (2, "ENOENT"),
    (3, "ESRCH"),
    (4, "EINTR"),
    (5, "EIO"),
    (6, "ENXIO"),
    (9, "EBADF"),
    (10, "ECHILD"),
    (11, "EAGAIN"),
    (12, "ENOMEM"),
    (13, "EACCES"),
    (14, "EFAULT"),
    (16, "EBUSY"),
    (17, "EEXIST"),
    (18, "EXDEV"),
    (19, "ENODEV"),
    (20, "ENOTDIR"),
    (21, "EISDIR"),
    (22, "EINVAL"),
    (23, "ENFILE"),
    (24, "EMFILE"),
    (25, "ENOTTY"),
    (26, "ETXTBSY"),
    (28, "ENOSPC"),
    (29, "ESPIPE"),
    (30, "EROFS"),
    (32, "EPIPE"),
    (34, "ERANGE"),
    (36, "ENAMETOOLONG"),
    (38, "ENOSYS"),
    (39, "ENOTEMPTY"),
    (40, "ELOOP"),
    (61, "ENODATA"),
    (88, "ENOTSOCK"),
    (95, "EOPNOTSUPP"),
    (98, "EADDRINUSE"),
    (104, "ECONNRESET"),
    (107, "ENOTCONN"),
    (110, "ETIMEDOUT"),
    (111, "ECONNREFUSED"),
    (115, "EINPROGRESS"),
    // Calls that the kernel will begin again.
    (512, "ERESTARTSYS"),
    (514, "ERESTARTNOHAND"),
    (516, "ERESTART_RESTARTBLOCK"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(event: &str, field: &str, value: i64) -> Option<String> {
        ArgumentMeaning::find(event, field, RegisterSet::X86_64)?.text(value.cast_unsigned())
    }

    #[test]
    fn arguments_have_the_names_of_the_headers() {
        let some = |event: &str, field: &str, value: i64| shown(event, field, value).unwrap_or_default();
        assert_eq!(some("sys_enter_openat", "dfd", -100), "AT_FDCWD");
        assert_eq!(some("sys_enter_openat", "dfd", 0xffff_ff9c), "AT_FDCWD");
        assert_eq!(some("sys_enter_openat", "flags", 0o2_000_000), "O_RDONLY|O_CLOEXEC");
        assert_eq!(
            some("sys_enter_openat", "flags", 0o2_001_101),
            "O_WRONLY|O_CREAT|O_TRUNC|O_CLOEXEC"
        );
        assert_eq!(
            some("sys_enter_openat", "flags", 0o2_204_000),
            "O_RDONLY|O_DIRECTORY|O_NONBLOCK|O_CLOEXEC"
        );
        assert_eq!(some("sys_enter_openat", "mode", 0o644), "0644");
        assert_eq!(some("sys_enter_mmap", "flags", 0x22), "MAP_PRIVATE|MAP_ANONYMOUS");
        assert_eq!(some("sys_enter_mmap", "prot", 0), "0");
        assert_eq!(some("sys_enter_mprotect", "prot", 5), "PROT_READ|PROT_EXEC");
        assert_eq!(
            some("sys_enter_socket", "type", 0o2_000_001),
            "SOCK_STREAM|SOCK_CLOEXEC"
        );
        assert_eq!(
            some("sys_enter_futex", "op", 137),
            "FUTEX_WAIT_BITSET|FUTEX_PRIVATE_FLAG"
        );
        assert_eq!(some("sys_enter_newfstatat", "flag", 0x100), "AT_SYMLINK_NOFOLLOW");
        assert_eq!(some("sys_enter_clone", "clone_flags", 0x1_0011), "SIGCHLD|CLONE_THREAD");
        assert_eq!(some("sys_exit_openat", "ret", -2), "-2 (ENOENT)");
        assert_eq!(some("sys_enter_pipe2", "flags", 0x4000_0000), "0x40000000");
    }

    #[test]
    fn numbers_without_a_name_stay_numbers() {
        assert_eq!(shown("sys_enter_openat", "dfd", 7), None);
        assert_eq!(shown("sys_enter_openat", "flags", 3), None);
        assert_eq!(shown("sys_exit_openat", "ret", 3), None);
        assert_eq!(shown("sys_exit_mmap", "ret", i64::MIN), None);
        assert_eq!(shown("sys_enter_read", "fd", -100), None);
        assert_eq!(shown("sched_switch", "mode", 1), None);
    }
}
