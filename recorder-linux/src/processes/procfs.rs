//! Facts about running processes, from /proc. Parsing is pure. For an ended process, reading returns `None` or nothing.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileExt, MetadataExt};

use recording::cpu_account::MachineTime;
use recording::event::Thread;
use recording::pace::ThreadReading;
use recording::proc::{self, MapsLine};

use crate::sys::process::ticks_per_second;
use crate::sys::ring::page_bytes;

/// `PF_KTHREAD` of `include/linux/sched.h`, in the flags of `/proc/PID/stat`.
const PF_KTHREAD: u32 = 0x0020_0000;
/// Most descriptors of a process to look at.
const MAX_DESCRIPTORS: usize = 4096;
/// VM_EXEC mappings of the legacy page that every x86_64 process has and perf never reports.
const VSYSCALL: &[u8] = b"[vsyscall]";

/// `/proc/PID/stat` or `/proc/PID/task/TID/stat` (proc_pid_stat(5)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    /// At most 15 bytes.
    pub(crate) name: Vec<u8>,
    /// A letter; `Z` for a process that has ended and waits for its parent.
    pub(crate) state: u8,
    pub(crate) parent: i32,
    pub(crate) is_kernel_thread: bool,
    pub(crate) minor_faults: u64,
    pub(crate) major_faults: u64,
    /// User and system time, in clock ticks of 10 ms.
    pub(crate) cpu_ticks: u64,
    /// User and system time of all children that the process waited for, in clock ticks.
    pub(crate) children_ticks: u64,
    /// Of the process and of all children that it waited for.
    pub(crate) all_user_ticks: u64,
    pub(crate) all_system_ticks: u64,
    pub(crate) all_minor_faults: u64,
    pub(crate) all_major_faults: u64,
    /// Number of threads.
    pub(crate) threads: u64,
    /// Ticks after the boot.
    pub(crate) start_ticks: u64,
    /// The CPU that the thread ran on last.
    pub(crate) cpu: u32,
}

impl Stat {
    /// True if the thread is on a CPU, or waits for a CPU.
    pub(crate) fn can_run(&self) -> bool {
        self.state == b'R'
    }

    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.state, b'Z' | b'X')
    }
}

/// The stat of a thread.
pub(crate) fn stat(pid: i32, tid: i32) -> Option<Stat> {
    parse_stat(&fs::read(format!("/proc/{pid}/task/{tid}/stat")).ok()?)
}

/// The stat of a process: the sums over all its threads.
pub(crate) fn process_stat(pid: i32) -> Option<Stat> {
    parse_stat(&fs::read(format!("/proc/{pid}/stat")).ok()?)
}

/// CPU time of the whole machine since its start; `None` if the first line of /proc/stat has another form.
pub(crate) fn machine_time() -> Option<MachineTime> {
    parse_machine_time(&fs::read_to_string("/proc/stat").ok()?, ticks_per_second())
}

/// `cpu  user nice system idle iowait irq softirq steal ...` (proc_stat(5)), in clock ticks.
pub(crate) fn parse_machine_time(stat: &str, ticks_per_second: u64) -> Option<MachineTime> {
    let mut words = stat.lines().next()?.split_ascii_whitespace();
    if words.next() != Some("cpu") {
        return None;
    }
    let mut ticks = [0u64; 8];
    for tick in &mut ticks {
        *tick = words.next()?.parse().ok()?;
    }
    let [user, nice, system, _idle, _iowait, irq, softirq, steal] = ticks;
    let used = [user, nice, system, irq, softirq]
        .iter()
        .fold(0, |sum: u64, more| sum.saturating_add(*more));
    let ns = |ticks: u64| ticks.saturating_mul(1_000_000_000 / ticks_per_second);
    Some(MachineTime {
        used_ns: ns(used),
        stolen_ns: ns(steal),
    })
}

/// Bytes of a process's memory that are in RAM, and the part of them that is of no file and not shared, from
/// `/proc/PID/statm` (proc_pid_statm(5)). The kernel adds pages up in batches, so the numbers are some hundred KiB too
/// low or too high.
pub(crate) fn parse_statm(text: &str) -> Option<(u64, u64)> {
    let [_, resident, shared] = pages(text)?;
    let bytes = |pages: u64| pages.checked_mul(page_bytes() as u64);
    Some((bytes(resident)?, bytes(resident.saturating_sub(shared))?))
}

/// Pages of all memory, of what is in RAM, and the part of the latter that files and shared memory have.
fn pages(statm: &str) -> Option<[u64; 3]> {
    let mut numbers = statm.split_ascii_whitespace().map_while(|number| number.parse().ok());
    Some([numbers.next()?, numbers.next()?, numbers.next()?])
}

/// `cpu_ns waited_ns slices` of a thread, Documentation/scheduler/sched-stats.rst; `None` if there are no slices.
pub(crate) fn parse_schedstat(text: &str) -> Option<ThreadReading> {
    let mut fields = text.split_ascii_whitespace().map(|field| field.parse().ok());
    let reading = ThreadReading {
        cpu_ns: fields.next()??,
        waited_ns: fields.next()??,
        slices: fields.next()??,
    };
    (reading.slices > 0).then_some(reading)
}

/// Most bytes of a title.
const TITLE_BYTES: usize = 512;

/// The title that a process wrote over its command line.
pub(crate) fn title(pid: i32) -> Option<String> {
    let mut cmdline = [0; TITLE_BYTES];
    let length = File::open(format!("/proc/{pid}/cmdline"))
        .ok()?
        .read_at(&mut cmdline, 0)
        .ok()?;
    title_in(cmdline.get(..length)?)
}

/// Finds the title in a command line; `None` if the program wrote none. exec leaves one zero behind each argument. A
/// program that writes its title there fills the rest with zeros, or writes over the last zero; then the kernel
/// continues to the next zero (get_mm_cmdline in fs/proc/base.c).
fn title_in(cmdline: &[u8]) -> Option<String> {
    let length = cmdline.iter().rposition(|byte| *byte != 0)? + 1;
    let (text, zeros) = cmdline.split_at(length);
    let is_rewritten = zeros.len() != 1 && !text.contains(&0) && length < TITLE_BYTES;
    is_rewritten.then(|| String::from_utf8_lossy(text).trim_end().to_owned())
}

/// Size of the address space in pages. Each new mapping changes it.
pub(crate) fn mapped_pages(pid: i32) -> Option<u64> {
    Some(pages(&fs::read_to_string(format!("/proc/{pid}/statm")).ok()?)?[0])
}

/// The process that a thread belongs to (for a process: itself), and that process's parent.
pub(crate) fn process_of(tid: i32) -> Option<(i32, i32)> {
    let status = fs::read(format!("/proc/{tid}/status")).ok()?;
    let status = String::from_utf8_lossy(&status);
    let field = |name: &str| {
        let mut lines = status.lines();
        lines.find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
    };
    Some((field("Tgid:")?, field("PPid:")?))
}

/// Threads of a process, ended ones left out.
pub(crate) fn threads(pid: i32) -> Vec<i32> {
    thread_numbers(pid)
        .filter(|tid| stat(pid, *tid).is_some_and(|stat| !stat.has_ended()))
        .collect()
}

/// Threads of a process, ended ones that nobody has waited for included.
pub(crate) fn thread_numbers(pid: i32) -> impl Iterator<Item = i32> {
    numbers(&format!("/proc/{pid}/task"))
}

/// The numbers of a thread and of its process in the innermost PID namespace that it is in. `None` if the thread has
/// ended.
pub(crate) fn numbers_inside(tid: i32) -> Option<Thread> {
    let status = fs::read(format!("/proc/{tid}/status")).ok()?;
    let status = String::from_utf8_lossy(&status);
    // From the namespace of /proc inwards.
    let last = |name: &str| {
        let mut lines = status.lines();
        let numbers = lines.find_map(|line| line.strip_prefix(name))?;
        let number = numbers.split_ascii_whitespace().next_back()?.parse::<i32>().ok();
        // The kernel writes 0 for a thread that goes at this moment.
        number.filter(|number| *number != 0)
    };
    Some(Thread::new(last("NStgid:")?, last("NSpid:")?))
}

/// All processes.
pub(crate) fn processes() -> Vec<i32> {
    numbers("/proc").collect()
}

/// The given processes, then all below them.
pub(crate) fn with_descendants(roots: &[i32]) -> Vec<i32> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for pid in processes() {
        if let Some(stat) = stat(pid, pid) {
            children.entry(stat.parent).or_default().push(pid);
        }
    }
    let mut found: Vec<i32> = Vec::new();
    let mut known: HashSet<i32> = HashSet::new();
    found.extend(roots.iter().filter(|pid| known.insert(**pid)));
    let mut next = 0;
    while let Some(pid) = found.get(next) {
        let new = children.remove(pid).unwrap_or_default();
        found.extend(new.into_iter().filter(|pid| known.insert(*pid)));
        next += 1;
    }
    found
}

fn numbers(folder: &str) -> impl Iterator<Item = i32> + use<> {
    fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Parses "pid (name) state ppid ...". The name may hold anything, also a parenthesis.
pub(crate) fn parse_stat(text: &[u8]) -> Option<Stat> {
    let open = text.iter().position(|byte| *byte == b'(')?;
    let close = text.iter().rposition(|byte| *byte == b')')?;
    let name = text.get(open + 1..close)?.to_vec();
    let mut fields = std::str::from_utf8(text.get(close + 1..)?)
        .ok()?
        .split_ascii_whitespace();
    let state = *fields.next()?.as_bytes().first()?;
    let parent = fields.next()?.parse().ok()?;
    // Fields 9 to 17, 20, 22 and 39 of the man page, which counts from 1 and the state as 3.
    let flags: u32 = fields.nth(4)?.parse().ok()?;
    let minor_faults: u64 = fields.next()?.parse().ok()?;
    let children_minor_faults: u64 = fields.next()?.parse().ok()?;
    let major_faults: u64 = fields.next()?.parse().ok()?;
    let children_major_faults: u64 = fields.next()?.parse().ok()?;
    let user_ticks: u64 = fields.next()?.parse().ok()?;
    let system_ticks: u64 = fields.next()?.parse().ok()?;
    let children_user_ticks: u64 = fields.next()?.parse().ok()?;
    let children_system_ticks: u64 = fields.next()?.parse().ok()?;
    let threads = fields.nth(2)?.parse().ok()?;
    let start_ticks = fields.nth(1)?.parse().ok()?;
    let cpu = fields.nth(16)?.parse().ok()?;
    Some(Stat {
        name,
        state,
        parent,
        is_kernel_thread: flags & PF_KTHREAD != 0,
        minor_faults,
        major_faults,
        cpu_ticks: user_ticks.saturating_add(system_ticks),
        children_ticks: children_user_ticks.saturating_add(children_system_ticks),
        all_user_ticks: user_ticks.saturating_add(children_user_ticks),
        all_system_ticks: system_ticks.saturating_add(children_system_ticks),
        all_minor_faults: minor_faults.saturating_add(children_minor_faults),
        all_major_faults: major_faults.saturating_add(children_major_faults),
        threads,
        start_ticks,
        cpu,
    })
}

/// The executable mappings of a process, read from one of its threads: a main thread that has ended has none. An error
/// if they may not be read.
pub(crate) fn executable_mappings(pid: i32, tid: i32) -> std::io::Result<Vec<MapsLine>> {
    Ok(code_in(&fs::read(format!("/proc/{pid}/task/{tid}/maps"))?))
}

/// The files of spans that a process has open, as if it mapped them now: it did so for a moment, long ago. A child has
/// those of its parent open.
pub(crate) fn open_span_files(pid: i32) -> Vec<MapsLine> {
    let links = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten();
    let found = links.take(MAX_DESCRIPTORS).filter_map(|link| {
        let link = link.ok()?.path();
        let mut line = MapsLine {
            start: 0,
            len: 0,
            file_offset: 0,
            is_executable: true,
            inode: None,
            path: fs::read_link(&link).ok()?.into_os_string().into_vec(),
        };
        let name = line.as_mapping().span_file()?;
        let own = numbers_inside(pid)?.pid;
        line.inode = Some((0, 0, fs::metadata(&link).ok()?.ino()));
        (name.pid == own.0).then_some(line)
    });
    found.collect()
}

fn code_in(maps: &[u8]) -> Vec<MapsLine> {
    let is_code = |mapping: &MapsLine| mapping.is_executable && mapping.path != VSYSCALL;
    proc::mappings(maps).filter(is_code).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_the_machine_is_the_first_line_s() {
        let stat = "cpu  4261194 842823 325320 1056830 5124 7 14566 216850 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n";
        let time = parse_machine_time(stat, 100).unwrap();
        assert_eq!(time.stolen_ns, 216_850 * 10_000_000);
        assert_eq!(time.used_ns, (4_261_194 + 842_823 + 325_320 + 7 + 14_566) * 10_000_000);
        for other in ["", "cpu0 1 1 1 1 1 1 1 1", "cpu  1 2 3 4 5 6 7", "cpu  1 2 3 4 5 6 7 x"] {
            assert_eq!(parse_machine_time(other, 100), None);
        }
    }

    #[test]
    fn counts_of_the_scheduler() {
        let reading = ThreadReading {
            cpu_ns: 12,
            waited_ns: 3,
            slices: 4,
        };
        assert_eq!(parse_schedstat("12 3 4\n"), Some(reading));
        assert_eq!(parse_schedstat("0 0 0\n"), None);
        assert_eq!(parse_schedstat("12 3"), None);
        assert_eq!(parse_schedstat(""), None);
    }

    #[test]
    fn a_title_is_what_no_exec_leaves_behind() {
        for (cmdline, expected) in [
            (&b"postgres: checkpointer \0\0\0\0"[..], Some("postgres: checkpointer")),
            // The title fills the area, and continues behind it.
            (b"nginx: worker process", Some("nginx: worker process")),
            (b"/usr/bin/app\0", None),
            (b"app\0-c\0file\0", None),
            (b"app\0-c\0\0", None),
            (b"", None),
            (b"\0\0", None),
        ] {
            assert_eq!(title_in(cmdline).as_deref(), expected, "{}", cmdline.escape_ascii());
        }
        assert_eq!(title_in(&[b'a'; TITLE_BYTES]), None);
    }

    #[test]
    fn names_in_stat_may_hold_parentheses_and_spaces() {
        let text = b"42 (a) R (b) S 7 42 42 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 3 0 123456 99 1 18446744073709551615 \
                     1 1 0 0 0 0 0 0 65536 0 0 0 17 3 0 0 0 0 0 0 0 0 0 0 0 0 0\n";
        let expected = Stat {
            name: b"a) R (b".to_vec(),
            state: b'S',
            parent: 7,
            is_kernel_thread: false,
            minor_faults: 1,
            major_faults: 3,
            cpu_ticks: 11,
            children_ticks: 15,
            all_user_ticks: 12,
            all_system_ticks: 14,
            all_minor_faults: 3,
            all_major_faults: 7,
            threads: 3,
            start_ticks: 123_456,
            cpu: 3,
        };
        assert_eq!(parse_stat(text), Some(expected));
        let short =
            b"7 (a) b (c) S 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4321 9 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 17 3";
        assert_eq!(parse_stat(short).unwrap().start_ticks, 4321);
        assert_eq!(parse_stat(b"42 (a"), None);
        assert_eq!(parse_stat(b"42 (a) S 7"), None);
    }

    #[test]
    fn our_own_stat_is_read() {
        let pid = i32::try_from(std::process::id()).unwrap();
        let stat = stat(pid, pid).unwrap();
        assert!(!stat.is_kernel_thread && !stat.has_ended());
        assert_eq!(process_of(pid), Some((pid, stat.parent)));
        assert!(mapped_pages(pid).unwrap() > 0);
        assert!(threads(pid).contains(&pid));
        let code = executable_mappings(pid, pid).unwrap();
        assert!(code.iter().any(|mapping| mapping.path == b"[vdso]"));
        assert!(with_descendants(&[stat.parent]).contains(&pid));
    }

    #[test]
    fn memory_without_code_and_the_vsyscall_page_are_left_out() {
        let maps = b"1000-2000 r-xp 00000000 00:01 5 /x\n7f0000000000-7f0000001000 rw-p 00000000 00:00 0 [stack]\n\
                     7f27c5c00000-7f27c5c28000 r--p 00000000 fe:01 263041 /usr/lib/libc.so.6\n\
                     ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]\n";
        let code = code_in(maps);
        assert_eq!(code.len(), 1);
        assert_eq!(code[0].path, b"/x");
    }
}
