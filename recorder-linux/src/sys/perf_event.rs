//! `perf_event_open(2)` and its structures, from `include/uapi/linux/perf_event.h`.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use recording::info::EventCounts;
use rustix::io::retry_on_intr;

use super::{last_error, retry};

/// `struct perf_event_attr` up to `PERF_ATTR_SIZE_VER5` (Linux 4.8). Older kernels accept it as long as the fields that
/// they lack are zero (`perf_copy_attr` in kernel/events/core.c).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Attr {
    pub(crate) kind: u32,
    pub(crate) size: u32,
    pub(crate) config: u64,
    pub(crate) sample_period_or_freq: u64,
    pub(crate) sample_type: u64,
    pub(crate) read_format: u64,
    pub(crate) flags: u64,
    pub(crate) wakeup_watermark: u32,
    pub(crate) bp_type: u32,
    pub(crate) config1: u64,
    pub(crate) config2: u64,
    pub(crate) branch_sample_type: u64,
    pub(crate) sample_regs_user: u64,
    pub(crate) sample_stack_user: u32,
    pub(crate) clockid: i32,
    pub(crate) sample_regs_intr: u64,
    pub(crate) aux_watermark: u32,
    pub(crate) sample_max_stack: u16,
    pub(crate) reserved: u16,
}

const _: () = assert!(size_of::<Attr>() == 112, "PERF_ATTR_SIZE_VER5");

pub(crate) const TYPE_HARDWARE: u32 = 0;
pub(crate) const TYPE_SOFTWARE: u32 = 1;
pub(crate) const HW_CPU_CYCLES: u64 = 0;
pub(crate) const HW_INSTRUCTIONS: u64 = 1;
pub(crate) const HW_CACHE_REFERENCES: u64 = 2;
pub(crate) const HW_CACHE_MISSES: u64 = 3;
pub(crate) const HW_BRANCH_INSTRUCTIONS: u64 = 4;
pub(crate) const HW_BRANCH_MISSES: u64 = 5;
pub(crate) const SW_CPU_CLOCK: u64 = 0;
pub(crate) const SW_TASK_CLOCK: u64 = 1;
pub(crate) const SW_CONTEXT_SWITCHES: u64 = 3;
pub(crate) const SW_CPU_MIGRATIONS: u64 = 4;
pub(crate) const SW_PAGE_FAULTS_MIN: u64 = 5;
pub(crate) const SW_PAGE_FAULTS_MAJ: u64 = 6;
/// Counts nothing; carries side-band records.
pub(crate) const SW_DUMMY: u64 = 9;

/// Bits of `perf_event_attr`'s bit field, in the order in which the header declares them.
pub(crate) mod flag {
    pub(crate) const DISABLED: u64 = 1 << 0;
    pub(crate) const INHERIT: u64 = 1 << 1;
    pub(crate) const EXCLUDE_USER: u64 = 1 << 4;
    pub(crate) const EXCLUDE_KERNEL: u64 = 1 << 5;
    pub(crate) const EXCLUDE_HV: u64 = 1 << 6;
    pub(crate) const EXCLUDE_IDLE: u64 = 1 << 7;
    pub(crate) const MMAP: u64 = 1 << 8;
    pub(crate) const COMM: u64 = 1 << 9;
    pub(crate) const FREQ: u64 = 1 << 10;
    pub(crate) const ENABLE_ON_EXEC: u64 = 1 << 12;
    pub(crate) const TASK: u64 = 1 << 13;
    pub(crate) const WATERMARK: u64 = 1 << 14;
    pub(crate) const SAMPLE_ID_ALL: u64 = 1 << 18;
    pub(crate) const EXCLUDE_GUEST: u64 = 1 << 20;
    pub(crate) const EXCLUDE_CALLCHAIN_USER: u64 = 1 << 22;
    pub(crate) const MMAP2: u64 = 1 << 23;
    pub(crate) const COMM_EXEC: u64 = 1 << 24;
    pub(crate) const USE_CLOCKID: u64 = 1 << 25;
    pub(crate) const CONTEXT_SWITCH: u64 = 1 << 26;
    pub(crate) const KSYMBOL: u64 = 1 << 29;
    pub(crate) const BUILD_ID: u64 = 1 << 34;
    pub(crate) const REMOVE_ON_EXEC: u64 = 1 << 36;
}

/// `enum perf_event_read_format`.
pub(crate) mod read_format {
    pub(crate) const TOTAL_TIME_ENABLED: u64 = 1 << 0;
    pub(crate) const TOTAL_TIME_RUNNING: u64 = 1 << 1;
    pub(crate) const LOST: u64 = 1 << 4;
}

const FLAG_FD_CLOEXEC: libc::c_ulong = 1 << 3;
/// `PERF_EVENT_IOC_ENABLE`, `_IO('$', 0)`; also reaches inherited events.
const IOC_ENABLE: libc::c_ulong = 0x2400;
/// `PERF_EVENT_IOC_DISABLE`, `_IO('$', 1)`; also reaches inherited events.
const IOC_DISABLE: libc::c_ulong = 0x2401;
/// `PERF_EVENT_IOC_SET_OUTPUT`, `_IO('$', 5)`.
const IOC_SET_OUTPUT: libc::c_ulong = 0x2405;
/// `PERF_EVENT_IOC_ID`, `_IOR('$', 7, __u64 *)`.
const IOC_ID: libc::c_ulong = 0x8008_2407;

/// Instead of a task: all tasks on the CPU.
pub(crate) const EVERY_TASK: libc::pid_t = -1;
/// Instead of a task: the thread that opens the event.
pub(crate) const THIS_THREAD: libc::pid_t = 0;

/// What `read(2)` of an event returns, summed over the task and all that inherited the event.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    /// How often the event happened while it was counted.
    pub(crate) value: u64,
    /// Nanoseconds for which the event was wanted (the task was on this CPU).
    pub(crate) enabled_ns: u64,
    /// Nanoseconds for which it counted: less than `enabled_ns` if events took turns on too few counters.
    pub(crate) running_ns: u64,
    /// Records that found no room in the ring. 0 before Linux 6.0.
    pub(crate) lost: u64,
}

impl Counts {
    /// Adds the counts of another CPU.
    pub(crate) fn add_to(self, sum: &mut EventCounts) {
        sum.counted = sum.counted.saturating_add(self.value);
        sum.lost = sum.lost.saturating_add(self.lost);
        sum.enabled_ns = sum.enabled_ns.saturating_add(self.enabled_ns);
        sum.running_ns = sum.running_ns.saturating_add(self.running_ns);
    }
}

/// An open event.
#[derive(Debug)]
pub(crate) struct EventFd {
    fd: OwnedFd,
    read_format: u64,
}

/// Readable when its ring is as full as `wakeup_watermark` says.
impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl EventFd {
    /// Opens `attr` for one task, or for [`EVERY_TASK`], on one CPU.
    pub(crate) fn open(attr: &Attr, pid: libc::pid_t, cpu: u32) -> io::Result<EventFd> {
        let cpu = libc::c_int::try_from(cpu).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
        EventFd::open_on(attr, pid, cpu)
    }

    /// Opens `attr` for one task, on whatever CPU it runs. Such an event has no ring if others inherit it.
    pub(crate) fn open_on_all_cpus(attr: &Attr, pid: libc::pid_t) -> io::Result<EventFd> {
        EventFd::open_on(attr, pid, -1)
    }

    fn open_on(attr: &Attr, pid: libc::pid_t, cpu: libc::c_int) -> io::Result<EventFd> {
        let attr = Attr {
            size: size_of::<Attr>() as u32,
            ..*attr
        };
        // SAFETY: `attr` is a live `perf_event_attr` whose `size` field states its true size; the kernel reads that
        // many bytes and writes at most its own size back into the `size` field on E2BIG, so it is passed as a private
        // copy.
        let fd = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                &raw const attr,
                pid,
                cpu,
                -1 as libc::c_int,
                FLAG_FD_CLOEXEC,
            )
        };
        if fd < 0 {
            return Err(last_error());
        }
        // SAFETY: the call returned a new descriptor that nothing else owns.
        let fd = unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) };
        Ok(EventFd {
            fd,
            read_format: attr.read_format,
        })
    }

    /// Stops the event for the task and everything that inherited it.
    pub(crate) fn disable(&self) -> io::Result<()> {
        // SAFETY: PERF_EVENT_IOC_DISABLE takes an integer argument and touches no memory of ours.
        retry(|| unsafe { libc::ioctl(self.fd.as_raw_fd(), IOC_DISABLE as _, 0) } as isize)?;
        Ok(())
    }

    /// Starts the event, opened disabled, for the task and everything that inherited it meanwhile.
    pub(crate) fn enable(&self) -> io::Result<()> {
        // SAFETY: PERF_EVENT_IOC_ENABLE takes an integer argument and touches no memory of ours.
        retry(|| unsafe { libc::ioctl(self.fd.as_raw_fd(), IOC_ENABLE as _, 0) } as isize)?;
        Ok(())
    }

    /// Sends the records of this event, and of all events that inherit it, to the ring of `other`, an event of the same
    /// CPU.
    pub(crate) fn redirect_to(&self, other: &EventFd) -> io::Result<()> {
        // SAFETY: PERF_EVENT_IOC_SET_OUTPUT takes a descriptor and touches no memory of ours.
        retry(|| unsafe { libc::ioctl(self.fd.as_raw_fd(), IOC_SET_OUTPUT as _, other.fd.as_raw_fd()) } as isize)?;
        Ok(())
    }

    /// What records carry as PERF_SAMPLE_ID.
    pub(crate) fn id(&self) -> io::Result<u64> {
        let mut id = 0u64;
        // SAFETY: PERF_EVENT_IOC_ID writes 8 bytes to the live integer.
        retry(|| unsafe { libc::ioctl(self.fd.as_raw_fd(), IOC_ID as _, &raw mut id) } as isize)?;
        Ok(id)
    }

    /// Reads the event's counts.
    pub(crate) fn counts(&self) -> io::Result<Counts> {
        let mut words = [[0u8; 8]; 4];
        let got = retry_on_intr(|| rustix::io::read(&self.fd, words.as_flattened_mut()))?;
        if got < 24 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // Order per the header: value, time_enabled, time_running, [id], [lost].
        let [value, enabled_ns, running_ns, lost] = words.map(u64::from_ne_bytes);
        let has_lost = self.read_format & read_format::LOST != 0;
        Ok(Counts {
            value,
            enabled_ns,
            running_ns,
            lost: if has_lost { lost } else { 0 },
        })
    }

    pub(super) fn raw(&self) -> libc::c_int {
        self.fd.as_raw_fd()
    }
}
