//! Attaching to running processes: events for every thread, and for all threads and processes that they start.
//!
//! Nothing is sent to a target and nothing stops it. Its events end with sprof, also when sprof is killed. Order
//! matters: first all threads are listed, then events are opened and enabled, then /proc is read again. So a thread
//! that starts meanwhile has inherited its events or is found; [`Origins`] makes sure that it does not count twice.
//!
//! Events are enabled more than once. A thread that is cloned while its parent's events are being enabled inherits them
//! disabled. Then the kernel may give the clone's events to the parent: at a switch from one to the other it swaps
//! their contexts, because they are equal but for that (perf_event_context_sched_out in kernel/events/core.c). Seen: in
//! 2 of 100 attempts to attach to a program that starts threads all the time, no thread had a sample from then on.
//! Enabling an event also enables all that was inherited from it.
//!
//! Each thread gets one event per CPU, which writes to the one ring of that CPU: the kernel refuses a ring for an
//! inherited event of all CPUs (perf_mmap in kernel/events/core.c). 64 threads on 2 CPUs are 128 descriptors, and as
//! many for larger stacks.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use recording::clock::Timestamp;
use recording::command::own;

use crate::machine::cpus;
use crate::open::{self, OpenError, OpenedEvents, Scope, WantedEvents};
use crate::processes::procfs;
use crate::processes::watched::Watched;
use crate::session::existing::Existing;
use crate::session::initial_waits::InitialWaits;
use crate::session::ring_copier::RingCopier;
use crate::sys::memory;
use crate::sys::perf_event::EVERY_TASK;
use crate::sys::process::{self, HeldProcess, monotonic_ns};
use perf_data::origins::Origins;

/// A clone(2) that began while events were opened has almost certainly ended after this time.
const SETTLE: Duration = Duration::from_millis(5);
/// Most searches for new threads. Programs that start threads all the time have new ones at each search. The threads of
/// the last search are children of threads that have all their events.
const ROUNDS: u32 = 5;

/// Most events for larger stacks. Larger stacks of samples take one more event for each thread and CPU, and larger
/// stacks of waits another one. Other events and binaries also need descriptors.
const MOST_EVENTS_FOR_LARGER_STACKS: usize = 512;

/// Running processes whose events are enabled.
#[derive(Debug)]
pub(crate) struct RunningTarget {
    pub(crate) watched: Watched,
    /// Names of the processes that the user named.
    pub(crate) names: Vec<String>,
    /// When events were enabled.
    pub(crate) start: Timestamp,
    /// All recorded processes, as they were at that time.
    pub(crate) existing: Existing,
    /// Processes below the named ones for which no events were allowed.
    pub(crate) refused: Vec<i32>,
    /// Threads of those processes that are off-CPU when recording starts; `None` if waits are not recorded.
    pub(crate) initial_waits: Option<InitialWaits>,
    /// Holds the rings until they are read.
    pub(crate) ring_copier: Option<RingCopier>,
}

/// Attaches to processes and all below them. Call it when signals are blocked. The error is for the user.
pub(crate) fn to_processes(named: &[i32], wanted: &WantedEvents<'_>) -> Result<(OpenedEvents, RunningTarget), String> {
    let mut seen = HashSet::new();
    let named: Vec<i32> = named.iter().copied().filter(|pid| seen.insert(*pid)).collect();
    same_pid_namespace()?;
    let mut held = Vec::new();
    let mut names = Vec::new();
    for pid in &named {
        // Held first: from then on the pid means this process, or it has ended.
        let process = HeldProcess::open(*pid);
        names.push(check(*pid)?);
        held.push(process.ok_or_else(|| no_such_process(*pid))?);
    }
    process::raise_open_file_limit();

    let mut known: HashSet<i32> = HashSet::new();
    let (mut opened, mut refused) = (None, HashSet::new());
    let listed = list(&named);
    let cpus = cpus::online(Path::new("/")).map_or(1, |cpus| cpus.len());
    let kinds_of_stacks = 1 + usize::from(wanted.off_cpu);
    let may_be_larger = listed.len() * cpus * kinds_of_stacks <= MOST_EVENTS_FOR_LARGER_STACKS;
    let wanted = &WantedEvents {
        larger_stacks: wanted.larger_stacks && may_be_larger,
        larger_wait_stacks: wanted.larger_wait_stacks && may_be_larger,
        ..*wanted
    };
    for (pid, tid) in &listed {
        known.insert(*tid);
        match open_thread(&mut opened, *tid, wanted) {
            Ok(()) => {}
            Err(OpenThreadError::Ended) => {}
            Err(OpenThreadError::Refused) if !named.contains(pid) => {
                refused.insert(*pid);
            }
            Err(OpenThreadError::Refused) => return Err(not_permitted(*pid)),
            Err(OpenThreadError::Failed(message)) => return Err(message),
            Err(OpenThreadError::TooManyFiles) => return Err(too_many_files(listed.len(), &opened, wanted)),
        }
    }
    let mut opened = opened.ok_or_else(|| format!("process {} ended before it could be recorded", named[0]))?;
    if !refused.is_empty() {
        opened.announcements.push(format!(
            "{} of the processes below belong to other users and are not recorded; run sprof as root to have them",
            refused.len()
        ));
    }

    opened.announcements.extend(unreadable_memory(named[0]));

    let mut initial_waits = wanted.off_cpu.then(InitialWaits::new);
    let start = Timestamp(monotonic_ns());
    let ring_copier = RingCopier::begin(&mut opened);
    enable(&opened)?;
    let mut threads = listed;
    threads.retain(|(pid, _)| !refused.contains(pid));
    if let Some(initial_waits) = &mut initial_waits {
        initial_waits.look(&threads);
    }
    let pids = follow_up(&mut opened, &named, known, &refused, initial_waits.as_mut())?;
    let existing = Existing::read(&pids, start);
    let threads = opened.events.tasks();
    opened.announcements.push(format!(
        "recording {} ({} {}, {threads} {}); Ctrl-C ends the recording, and nothing else",
        names.join(", "),
        pids.len(),
        if pids.len() == 1 { "process" } else { "processes" },
        if threads == 1 { "thread" } else { "threads" },
    ));
    let running = RunningTarget {
        watched: Watched::Others(held),
        names,
        start,
        existing,
        refused: refused.into_iter().collect(),
        initial_waits,
        ring_copier,
    };
    Ok((opened, running))
}

/// Records all tasks on the machine. Call it when signals are blocked.
pub(crate) fn to_whole_machine(wanted: &WantedEvents<'_>) -> Result<(OpenedEvents, RunningTarget), String> {
    same_pid_namespace()?;
    process::raise_open_file_limit();
    let mut opened = open::open(Scope::Machine, EVERY_TASK, wanted).map_err(|error| error.to_string())?;
    let initial_waits = wanted
        .off_cpu
        .then(|| (InitialWaits::new(), threads_of(procfs::processes())));
    let start = Timestamp(monotonic_ns());
    let ring_copier = RingCopier::begin(&mut opened);
    enable(&opened)?;
    let initial_waits = initial_waits.map(|(mut initial_waits, threads)| {
        initial_waits.look(&threads);
        initial_waits
    });
    if !in_first_pid_namespace() {
        let outside = "sprof runs in a PID namespace of its own: what runs outside of it is recorded as one process, without \
                       user stacks; run sprof outside of the container to see all";
        opened.announcements.push(outside.to_owned());
    }
    let announcement = "recording the whole machine; Ctrl-C ends the recording";
    opened.announcements.push(announcement.to_owned());
    let running = RunningTarget {
        watched: Watched::Machine,
        names: vec!["whole machine".to_owned()],
        start,
        existing: Existing::read(&procfs::processes(), start),
        refused: Vec::new(),
        initial_waits,
        ring_copier,
    };
    Ok((opened, running))
}

/// Finds threads that started while events were being opened, and opens events for them. Returns the processes.
fn follow_up(
    opened: &mut OpenedEvents,
    named: &[i32],
    mut known: HashSet<i32>,
    refused: &HashSet<i32>,
    mut initial_waits: Option<&mut InitialWaits>,
) -> Result<Vec<i32>, String> {
    // In these processes a new thread may come from a thread that lacked some of its events.
    let mut doubtful: Option<HashSet<i32>> = None;
    let mut failures: Vec<io::Error> = Vec::new();
    for round in 0..=ROUNDS {
        std::thread::sleep(SETTLE);
        enable(opened)?;
        if round == ROUNDS {
            break;
        }
        let mut young: Vec<(i32, i32)> = list(named);
        young.retain(|(pid, tid)| !known.contains(tid) && !refused.contains(pid));
        known.extend(young.iter().map(|(_, tid)| *tid));
        if let Some(doubtful) = &mut doubtful {
            // Parents come before their children: a doubtful child makes its own children doubtful.
            young.retain(|(pid, _)| {
                let is_doubtful = doubtful.contains(pid)
                    || procfs::stat(*pid, *pid).is_some_and(|stat| doubtful.contains(&stat.parent));
                if is_doubtful {
                    doubtful.insert(*pid);
                }
                is_doubtful
            });
        }
        if young.is_empty() {
            break;
        }
        for (pid, tid) in &young {
            // Without events of its own the thread keeps the events that it inherited.
            let added = add_young(opened, *tid);
            if added.is_ok()
                && let Some(initial_waits) = &mut initial_waits
            {
                initial_waits.look(&[(*pid, *tid)]);
            }
            failures.extend(added.err().filter(|error| error.raw_os_error() != Some(libc::ESRCH)));
        }
        doubtful = Some(young.into_iter().map(|(pid, _)| pid).collect());
    }
    opened
        .notes
        .extend(failures.first().map(|error| without_own_events(failures.len(), error)));
    let mut pids = below(named);
    pids.retain(|pid| !refused.contains(pid));
    Ok(pids)
}

fn without_own_events(threads: usize, error: &io::Error) -> String {
    let threads = match threads {
        1 => "1 thread".to_owned(),
        more => format!("{more} threads"),
    };
    format!(
        "could not open events for {threads} that started while sprof attached: {error}; their samples may be missing"
    )
}

fn add_young(opened: &mut OpenedEvents, tid: i32) -> io::Result<()> {
    let mut origins = match opened.origins.take() {
        Some(origins) => origins,
        None => {
            let mut origins = Origins::default();
            for event in opened.events.since(0) {
                origins.add(event.id()?, 0);
            }
            origins
        }
    };
    // A number above those of all sets before.
    let set = u32::try_from(opened.events.sampling_events()).unwrap_or(u32::MAX);
    let added = opened.events.add(tid).and_then(|mark| {
        for event in opened.events.since(mark) {
            origins.add(event.id()?, set);
        }
        opened.events.usual_since(mark).try_for_each(|event| event.enable())?;
        origins.own(tid, set, monotonic_ns());
        Ok(())
    });
    opened.origins = Some(origins);
    added
}

fn enable(opened: &OpenedEvents) -> Result<(), String> {
    opened
        .events
        .usual_since(0)
        .try_for_each(|event| event.enable())
        .map_err(|error| format!("cannot start the perf events: {error}"))
}

/// Why one thread's events could not be opened.
enum OpenThreadError {
    Ended,
    Refused,
    TooManyFiles,
    Failed(String),
}

fn open_thread(opened: &mut Option<OpenedEvents>, tid: i32, wanted: &WantedEvents<'_>) -> Result<(), OpenThreadError> {
    let Some(opened) = opened else {
        match open::open(Scope::Running, tid, wanted) {
            Ok(first) => *opened = Some(first),
            Err(OpenError::NoSuchTask) => return Err(OpenThreadError::Ended),
            Err(OpenError::NotThisTask) => return Err(OpenThreadError::Refused),
            Err(error) => return Err(OpenThreadError::Failed(error.to_string())),
        }
        return Ok(());
    };
    let added = opened.events.add(tid).map(|_| ());
    added.map_err(|error| match error.raw_os_error() {
        Some(libc::ESRCH) => OpenThreadError::Ended,
        Some(libc::EACCES | libc::EPERM) => OpenThreadError::Refused,
        Some(libc::EMFILE | libc::ENFILE) => OpenThreadError::TooManyFiles,
        _ => OpenThreadError::Failed(format!("cannot open perf events for thread {tid}: {error}")),
    })
}

/// A warning if the target's memory can't be read, from which deep stacks are completed. The Yama security module
/// allows that only to parents and root.
fn unreadable_memory(pid: i32) -> Option<String> {
    let mapping = procfs::executable_mappings(pid, pid).ok()?.into_iter().next()?;
    if memory::read(pid, mapping.start, &mut [0]) > 0 {
        return None;
    }
    let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    let reason = match scope.trim() {
        "" | "0" => "run sprof as root to have them whole".to_owned(),
        scope => {
            format!(
                "kernel.yama.ptrace_scope is {scope}, `sudo sysctl kernel.yama.ptrace_scope=0` allows to complete them"
            )
        }
    };
    Some(format!(
        "stacks deeper than what a sample copies (--stack-size) are cut, because the memory of process {pid} may not be read: {reason}"
    ))
}

/// All threads of the processes and of all below them, each with its process. Includes threads that may not be read.
fn list(named: &[i32]) -> Vec<(i32, i32)> {
    threads_of(below(named))
}

fn threads_of(pids: Vec<i32>) -> Vec<(i32, i32)> {
    pids.into_iter()
        .flat_map(|pid| procfs::threads(pid).into_iter().map(move |tid| (pid, tid)))
        .collect()
}

/// The given processes and all below them, without sprof itself: a shell may record itself and all its children.
fn below(named: &[i32]) -> Vec<i32> {
    let own = own_pid();
    let mut pids = procfs::with_descendants(named);
    pids.retain(|pid| *pid != own);
    pids
}

fn own_pid() -> i32 {
    i32::try_from(std::process::id()).unwrap_or(0)
}

pub(crate) fn in_first_pid_namespace() -> bool {
    // PROC_PID_INIT_INO in include/linux/proc_ns.h.
    fs::read_link("/proc/self/ns/pid").is_ok_and(|link| link.as_os_str() == "pid:[4026531836]")
}

/// perf reports ids of this process's PID namespace. /proc may be mounted from another one.
fn same_pid_namespace() -> Result<(), String> {
    match fs::read_link("/proc/self") {
        Ok(link) if link.as_os_str() == own_pid().to_string().as_str() => Ok(()),
        Ok(_) => Err("/proc shows another PID namespace than the one that sprof runs in; \
                      mount the right one with `mount -t proc proc /proc`"
            .to_owned()),
        Err(error) => Err(format!(
            "cannot read /proc: {error}; sprof needs it to find processes, mount it with `mount -t proc proc /proc`"
        )),
    }
}

/// The name of a process, or why it can't be recorded, as far as that is known beforehand.
fn check(pid: i32) -> Result<String, String> {
    if pid == own_pid() {
        return Err(format!("process {pid} is this sprof; name another process"));
    }
    let stat = procfs::stat(pid, pid);
    match procfs::process_of(pid) {
        Some((process, _)) if process != pid => {
            return Err(format!(
                "{pid} is a thread of process {process}; `-p {process}` records all threads of it"
            ));
        }
        _ => {}
    }
    let stat = stat.ok_or_else(|| no_such_process(pid))?;
    let name = String::from_utf8_lossy(&stat.name).into_owned();
    // The main thread may have ended before the others.
    if stat.has_ended() && procfs::threads(pid).is_empty() {
        return Err(format!(
            "process {pid} ({name}) has already ended: it is a zombie, which waits for its parent, process {}; \
             record that one, or start the program again",
            stat.parent
        ));
    }
    match fs::File::open(format!("/proc/{pid}/maps")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(no_such_process(pid)),
        Err(_) => Err(not_permitted(pid)),
        Ok(_) => Ok(name),
    }
}

pub(crate) fn no_such_process(pid: i32) -> String {
    format!("there is no process {pid}; `ps -e` lists all that run")
}

fn not_permitted(pid: i32) -> String {
    let uid = |path: String| fs::metadata(path).map(|meta| meta.uid()).ok();
    let (theirs, ours) = (uid(format!("/proc/{pid}")), uid("/proc/self".to_owned()));
    let stat = procfs::stat(pid, pid);
    let name = stat
        .as_ref()
        .map(|stat| String::from_utf8_lossy(&stat.name).into_owned());
    let what = format!("cannot record process {pid} ({})", name.unwrap_or_default());
    if ours == Some(0) {
        return format!(
            "{what}: the kernel protects it, also from root: it belongs to another user namespace, or a security module \
             guards it; run sprof outside of the container"
        );
    }
    let whose = if stat.is_some_and(|stat| stat.is_kernel_thread) {
        "it is a thread of the kernel".to_owned()
    } else {
        match theirs {
            Some(uid) if theirs != ours => format!("it belongs to another user (user id {uid})"),
            _ => "the kernel protects it, for it has or had more rights than you".to_owned(),
        }
    };
    format!("{what}: {whose}; root may: `sudo {} record -p {pid}`", own())
}

fn too_many_files(threads: usize, opened: &Option<OpenedEvents>, wanted: &WantedEvents<'_>) -> String {
    let cpus = opened.as_ref().map_or(1, |opened| opened.events.cpus().len());
    let (events, less) = match wanted.off_cpu {
        false if wanted.switches => (
            2,
            "raise `ulimit -Hn`, leave out --parallelism, or record one of the processes alone",
        ),
        true => (
            3,
            "raise `ulimit -Hn`, leave out --off-cpu, or record one of the processes alone",
        ),
        false => (1, "raise `ulimit -Hn`, or record one of the processes alone"),
    };
    format!(
        "cannot open perf events for {threads} threads on {cpus} CPUs: that takes {} open files, more than allowed here; \
         {less}",
        threads * cpus * events
    )
}
