//! Which function of the kernel waits for what.
//!
//! A thread that leaves its CPU does so at the end of a chain of kernel functions; the innermost one that is in this
//! list says what it waits for. Names of Linux 4.18 to 6.18, as they stand in /proc/kallsyms.

use recording::wait::WaitReason::{self, Channel, Child, Io, Lock, PageFault, Poll, Signal, Sleep};

/// What a thread waits for in this function; `None` for functions like `schedule`, which wait for anything.
pub fn reason_of_function(name: &str) -> Option<WaitReason> {
    // The compiler's variants: `pipe_read.isra.0`, `do_wait.part.0`.
    let name = name.split('.').next().unwrap_or_default();
    let is_one = |functions: &[&str]| functions.contains(&name);
    let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    // Page faults first: the reason is taken from the innermost function, but for these, which win from anywhere.
    if is_one(PAGE_FAULT) || starts(PAGE_FAULT_PREFIXES) {
        return Some(PageFault);
    }
    let groups: [(&[&str], &[&str], WaitReason); 8] = [
        (SLEEP, &[], Sleep),
        (POLL, POLL_PREFIXES, Poll),
        (CHANNEL, CHANNEL_PREFIXES, Channel),
        (LOCK, LOCK_PREFIXES, Lock),
        (CHILD, &[], Child),
        (SIGNAL, SIGNAL_PREFIXES, Signal),
        (IO, IO_PREFIXES, Io),
        (&[], FILE_SYSTEM_PREFIXES, Io),
    ];
    (groups.into_iter())
        .find(|(functions, prefixes, _)| is_one(functions) || starts(prefixes))
        .map(|(_, _, reason)| reason)
}

const PAGE_FAULT: &[&str] = &[
    "asm_exc_page_fault",
    "exc_page_fault",
    "do_user_addr_fault",
    "do_page_fault",
    "do_mem_abort",
    "handle_mm_fault",
    "do_swap_page",
    "faultin_page",
];
const PAGE_FAULT_PREFIXES: &[&str] = &["handle_userfault"];

const SLEEP: &[&str] = &[
    "do_nanosleep",
    "hrtimer_nanosleep",
    "common_nsleep",
    "msleep",
    "msleep_interruptible",
    "usleep_range_state",
    "timerfd_read",
    "timerfd_read_iter",
    "alarm_timer_nsleep",
    "posix_cpu_nsleep",
];

const POLL: &[&str] = &[
    "do_sys_poll",
    "do_poll",
    "do_select",
    "core_sys_select",
    "ep_poll",
    "do_epoll_wait",
];
const POLL_PREFIXES: &[&str] = &["poll_schedule_timeout"];

const CHANNEL: &[&str] = &[
    "pipe_read",
    "pipe_write",
    "anon_pipe_read",
    "anon_pipe_write",
    "pipe_wait_readable",
    "pipe_wait_writable",
    "wait_for_partner",
    "fifo_open",
    "eventfd_read",
    "eventfd_write",
    "inotify_read",
    "fanotify_read",
    "do_msgrcv",
    "do_msgsnd",
    "do_mq_timedreceive",
    "wq_sleep",
    "n_tty_read",
    "n_tty_write",
    "tty_wait_until_sent",
    "wait_for_unix_gc",
];
const CHANNEL_PREFIXES: &[&str] = &[
    "sk_wait_",
    "sk_stream_wait_",
    "__skb_wait_for",
    "skb_wait_for",
    "unix_",
    "tcp_",
    "udp_",
    "udpv6_",
    "inet_",
    "inet6_",
    "netlink_",
    "packet_recvmsg",
    "sock_",
    "__sock_",
    "vsock_",
    "vmci_",
    "virtio_transport",
    "wait_for_connect",
    "lock_sock",
    "__lock_sock",
];

const LOCK: &[&str] = &[
    "do_semtimedop",
    "__do_semtimedop",
    "__down_common",
    "down",
    "down_interruptible",
    "percpu_rwsem_wait",
    "__percpu_down_read",
    "flock_lock_inode_wait",
    "locks_lock_inode_wait",
    "fcntl_setlk",
    "do_lock_file_wait",
    "drm_modeset_lock",
];
const LOCK_PREFIXES: &[&str] = &[
    "futex_",
    "__futex_",
    "do_futex",
    "rwsem_down_",
    "__rt_mutex_",
    "rt_mutex_",
    "rt_spin_lock",
    "__mutex_lock",
    "mutex_lock",
    "__ww_mutex",
    "rwbase_",
];

/// `wait_for_vfork_done` is inlined into `kernel_clone` (`_do_fork` before Linux 5.10).
const CHILD: &[&str] = &[
    "do_wait",
    "kernel_wait4",
    "kernel_waitid",
    "wait_for_vfork_done",
    "kernel_clone",
    "_do_fork",
];

const SIGNAL: &[&str] = &[
    "__do_sys_pause",
    "sys_pause",
    "sigsuspend",
    "do_sigtimedwait",
    "signalfd_read",
    "signalfd_read_iter",
    "do_signal_stop",
    "do_jobctl_trap",
    "get_signal",
    "do_freezer_trap",
    "__refrigerator",
];
const SIGNAL_PREFIXES: &[&str] = &["ptrace_stop", "ptrace_do_notify", "ptrace_notify"];

const IO: &[&str] = &[
    "io_schedule",
    "io_schedule_timeout",
    "balance_dirty_pages",
    "submit_bio_wait",
    "read_events",
    "vfs_fsync_range",
    "do_fsync",
    "ksys_sync",
    "request_wait_answer",
    "iterate_dir",
    "blkdev_issue_flush",
    "wait_current_trans",
];
const IO_PREFIXES: &[&str] = &[
    "folio_wait_",
    "wait_on_page_",
    "filemap_",
    "blk_",
    "__blk",
    "bio_",
    "iomap_",
    "io_cqring_wait",
    "__io_cqring",
    "jbd2_",
    "rq_qos_wait",
    "wait_on_buffer",
    "__wait_on_buffer",
    "p9_",
    "rpc_wait",
    "scsi_",
    "nvme_",
    "virtblk_",
    "d_alloc_parallel",
];
const FILE_SYSTEM_PREFIXES: &[&str] = &[
    "ext4_",
    "xfs_",
    "btrfs_",
    "fuse_",
    "nfs",
    "ovl_",
    "f2fs_",
    "cifs_",
    "v9fs_",
    "virtio_fs_",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_known_with_the_suffixes_of_the_compiler() {
        assert_eq!(reason_of_function("pipe_read"), Some(Channel));
        assert_eq!(reason_of_function("do_wait.part.0"), Some(Child));
        assert_eq!(reason_of_function("__futex_wait"), Some(Lock));
        assert_eq!(reason_of_function("do_nanosleep"), Some(Sleep));
        assert_eq!(reason_of_function("handle_mm_fault"), Some(PageFault));
    }

    #[test]
    fn functions_that_wait_for_anything_say_nothing() {
        for name in [
            "schedule",
            "__schedule",
            "schedule_timeout",
            "do_syscall_64",
            "vfs_read",
            "",
        ] {
            assert_eq!(reason_of_function(name), None, "{name}");
        }
    }
}
