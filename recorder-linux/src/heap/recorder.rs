//! The programs whose heap is sampled: what each has written, and how it goes on.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use recording::event::{Pid, Thread};
use recording::heap::{
    HeapCoverage, HeapLoss, HeapOptions, HeapPatches, LinkedAllocator, MAX_HEAP_INTERVAL, MOST_UNSEEN, RUNNER_PREFIX,
    UnseenCause, UnseenProgram,
};
use recording::program::ProgramImage;

use super::library;
use super::patch_answers::{PatchAnswers, PatchOutcome, PatchedProcess};
use super::pid_namespace::NamespaceThreads;
use super::program::{self, OWN_MACHINE};
use super::queue::{HeapQueue, HeapRecord};
use super::shared_memory::{ProgramCounts, RingCopy, SharedMemory};
use super::socket::{ConnectedProgram, HeapSocket, ProgramMessage};
use super::static_program::StaticStart;
use super::wire::{MAX_STACK_BYTES, STEPS, VARIABLE};
use crate::processes::procfs::numbers_inside;
use crate::sys::process::monotonic_ns;

/// Length of the ring of a program. All of it is allocated when the program connects, which takes it some 0.5 ms for
/// each MiB.
const RING_BYTES: u64 = 4 << 20;
/// Stack bytes of each sample at first: most programs need less than 6 KiB.
const FIRST_STACK_BYTES: u64 = 8 << 10;
/// Once more than this share of a program's stacks is deeper than their copies, the copies become larger.
const DEEP_SHARE: f64 = 0.02;
/// Samples that decide on that.
const ENOUGH_SAMPLES: u64 = 50;
/// A program that has more samples a second gets a longer interval.
const MOST_SAMPLES_A_SECOND: f64 = 2000.0;
/// The time over which samples are counted for that.
const RATE_NS: u64 = 250_000_000;
/// Programs that are sampled at the same time, at most: each needs a descriptor, and memory.
const MOST_PROGRAMS: usize = 2048;
/// Between two looks at rings that could not be read to the end.
const AGAIN_NS: u64 = 1_000_000;
/// A record may come this much later than its time.
const SETTLE_NS: u64 = 500_000;

/// The heap of one recording.
#[derive(Debug)]
pub(crate) struct HeapRecorder {
    pub(super) options: HeapOptions,
    library: PathBuf,
    socket: HeapSocket,
    /// How the program starts, if no loader loads the library into it.
    static_start: Option<StaticStart>,
    /// By a number that is never used again.
    pub(super) programs: BTreeMap<u64, SampledProgram>,
    next_program: u64,
    copy: RingCopy,
    pub(super) queue: HeapQueue,
    /// Processes that may run patched code, by the time from which on, which `HeapSink` takes.
    pub(super) patched: VecDeque<PatchedProcess>,
    /// Executables of which is known whether their allocator was patched.
    pub(super) with_outcome: HashSet<PathBuf>,
    /// Everything before was read, unless a ring `is_behind`.
    read_until_ns: u64,
    /// A ring has a record that is not whole, or was not read for lack of room.
    is_behind: bool,
    pub(super) coverage: HeapCoverage,
    pub(super) lost: HeapLoss,
    /// How full the fullest ring was at the last reading, 0 to 1.
    fill: f64,
}

/// One program that has connected: an image of a process, and its forks.
#[derive(Debug)]
pub(super) struct SampledProgram {
    memory: SharedMemory,
    /// The process that connected.
    pid: Pid,
    /// The processes that write into it, as far as they run.
    pub(super) pids: HashSet<Pid>,
    /// Its threads, if its numbers are of another PID namespace.
    pub(super) namespace: Option<NamespaceThreads>,
    /// The time of its first record.
    first_ns: Option<u64>,
    counts: ProgramCounts,
    interval: u64,
    stack_bytes: u64,
    /// Samples with this much of the stack, and how many of them were deeper.
    samples_so_far: u64,
    deep: u64,
    /// Samples since a time, and their loss.
    rate_since_ns: u64,
    rate_samples: u64,
    connected_ns: u64,
    /// It can't be read any more, or nobody writes into it.
    is_over: bool,
    /// A process that the recording has sent a record of it. Another one may have the socket's name, too.
    pub(super) is_counted: bool,
}

impl HeapRecorder {
    /// Prepares the recording of a program and of what it starts: adds to its environment. Also returns an announcement
    /// if the program itself can't be recorded.
    ///
    /// # Errors
    ///
    /// The library or the socket has no place here.
    pub(crate) fn prepare(
        options: &HeapOptions,
        image: &mut ProgramImage,
    ) -> Result<(HeapRecorder, Option<String>), String> {
        let path = Path::new(std::ffi::OsStr::from_bytes(image.path.as_bytes()));
        let mut patches = PatchAnswers::new(options.patches);
        let obstacle = program::obstacle(path).filter(|_| options.runner.is_none());
        let is_static = options.patches == HeapPatches::All && obstacle == Some(UnseenCause::Static);
        let plan = is_static.then(|| patches.plan(path)).flatten();
        let obstacle = obstacle.filter(|_| plan.is_none());
        let announcement = obstacle.as_ref().map(|cause| {
            format!(
                "the heap of {} can't be recorded: {}{}",
                path.display(),
                cause.label(),
                remedy(cause)
            )
        });
        let cannot = |what: &str, error: &dyn std::fmt::Display| format!("cannot record the heap: {what}: {error}");
        let library = library::install(options.cache.as_deref())
            .map_err(|error| cannot("no place for the library that programs load", &error))?;
        let socket = HeapSocket::open(patches).map_err(|error| cannot("no socket for programs", &error))?;
        let static_start = plan.map(|plan| StaticStart::new(library.clone(), path, plan, socket.messages()));
        let recorder = HeapRecorder {
            coverage: HeapCoverage {
                interval: options.interval,
                longest_interval: options.interval,
                ..HeapCoverage::default()
            },
            options: options.clone(),
            library,
            socket,
            static_start,
            programs: BTreeMap::new(),
            next_program: 0,
            copy: RingCopy::default(),
            queue: HeapQueue::default(),
            patched: VecDeque::new(),
            with_outcome: HashSet::new(),
            read_until_ns: 0,
            is_behind: false,
            lost: HeapLoss::default(),
            fill: 0.0,
        };
        // With our library such a program works, too, but not always.
        if obstacle != Some(UnseenCause::Sanitizer) {
            let added = recorder.add_environment(&mut image.env);
            added.map_err(|error| cannot("the environment", &error))?;
        }
        Ok((recorder, announcement))
    }

    fn add_environment(&self, env: &mut Vec<CString>) -> io::Result<()> {
        let HeapOptions { interval, patches, .. } = self.options;
        let socket = self.socket.path().as_os_str().as_bytes();
        // The library chooses each block at 0. At 1 it would choose bytes by chance, too, and miss small blocks.
        let interval = if interval == 1 { 0 } else { interval };
        let may_patch = u8::from(patches != HeapPatches::None);
        let settings = format!("{interval}:{FIRST_STACK_BYTES}:{RING_BYTES}:{may_patch}:");
        let library = self.library.as_os_str().as_bytes();
        let prefix = { self.options.runner.as_ref() }.map_or("", |_| RUNNER_PREFIX);
        // The first one that is loaded is called first.
        extend(env, prefix, "LD_PRELOAD", |own| match own {
            [] => library.to_vec(),
            own => [library, b":", own].concat(),
        })?;
        extend(env, prefix, VARIABLE, |_| [settings.as_bytes(), socket].concat())?;
        // gcc's runtime of AddressSanitizer ends a program into which a library was loaded before it.
        extend(env, prefix, "ASAN_OPTIONS", |own| match own {
            [] => b"verify_asan_link_order=0".to_vec(),
            own => [own, b":verify_asan_link_order=0"].concat(),
        })
    }

    /// How the program starts, if that is not by its exec alone. Once.
    pub(crate) fn take_static_start(&mut self) -> Option<StaticStart> {
        self.static_start.take()
    }

    /// The path of the library, as the kernel reports it in mappings.
    pub(super) fn library(&self) -> &Path {
        &self.library
    }

    /// [`HeapOptions::runner`].
    pub(super) fn runner(&self) -> Option<&str> {
        self.options.runner.as_deref()
    }

    /// The coverage of a recording that goes on.
    pub(crate) fn coverage_so_far(&self) -> HeapCoverage {
        self.coverage.clone()
    }

    /// True if some program is sampled.
    pub(super) fn has_programs(&self) -> bool {
        !self.programs.is_empty()
    }

    /// How full the fullest ring was at the last reading, 0 to 1.
    pub(super) fn fill(&self) -> f64 {
        self.fill
    }

    /// True if what was written before a time may be unread.
    pub(super) fn is_due(&self, time_ns: u64) -> bool {
        time_ns > self.read_until_ns || self.is_behind && monotonic_ns() > self.read_until_ns + SETTLE_NS + AGAIN_NS
    }

    /// Takes what all programs have written, sorted by time. `is_last`: nothing comes afterwards.
    pub(super) fn read(&mut self, now_ns: u64, is_last: bool) {
        let messages: Vec<_> = self.socket.take().collect();
        for message in messages {
            match message {
                ProgramMessage::Hello(connected) => self.connect(connected, now_ns),
                ProgramMessage::Patched(process) => self.patched.push_back(process),
                ProgramMessage::PatchOutcome(outcome) => self.note_outcome(outcome),
            }
        }
        self.lost.refused = self.lost.refused.saturating_add(self.socket.take_refused());
        if self.queue.is_full() {
            self.queue.drop_sent();
        }
        let (mut fill, mut is_behind) = (0.0_f64, false);
        for (number, program) in &mut self.programs {
            if program.is_over {
                continue;
            }
            if self.queue.is_full() {
                is_behind = true;
                continue;
            }
            let has_ended = program.pids.is_empty();
            let malformed = program.memory.malformed;
            let (mut deep, mut samples) = (0, 0);
            let read = program
                .memory
                .read(now_ns, is_last || has_ended, &mut self.copy, &mut |head, body| {
                    let record = self.queue.push(head, body, *number);
                    program.first_ns = program.first_ns.into_iter().chain([record.time_ns]).min();
                    if let Some(allocation) = &record.allocation {
                        samples += 1;
                        deep += u64::from(allocation.stack_bytes as u64 + 8 > program.stack_bytes);
                    }
                });
            let malformed = program.memory.malformed.saturating_sub(malformed);
            self.lost.refused = self.lost.refused.saturating_add(malformed);
            program.is_over = has_ended || read.is_err();
            if let Err(error) = read {
                self.coverage
                    .add_unseen(unseen(program.pid, UnseenCause::Damaged(error.to_string())));
            }
            fill = fill.max(program.memory.fill);
            is_behind |= program.memory.is_stuck;
            let lost = program.add_counts(&mut self.lost);
            if !program.is_over {
                program.adapt(&self.options, samples, deep, lost, now_ns);
                self.coverage.longest_interval = self.coverage.longest_interval.max(program.interval);
            }
        }
        self.fill = fill;
        self.is_behind = is_behind && !is_last;
        self.read_until_ns = now_ns.saturating_sub(SETTLE_NS);
        self.queue.sort();
    }

    fn connect(&mut self, connected: ConnectedProgram, now_ns: u64) {
        let ConnectedProgram { pid, hello, memory } = connected;
        let inside = numbers_inside(pid);
        let has_own_number = i32::try_from(hello.pid) == Ok(inside.map_or(pid, |inside| inside.pid.0));
        let cause = match hello {
            _ if hello.machine != OWN_MACHINE => Some(UnseenCause::OtherMachine),
            _ if !has_own_number => Some(UnseenCause::OtherPidNamespace),
            _ if self.programs.len() >= MOST_PROGRAMS => Some(UnseenCause::OverLimit),
            _ if hello.refused_step > 0 => {
                let step = STEPS
                    .get(hello.refused_step as usize)
                    .copied()
                    .unwrap_or("shared memory");
                let error = io::Error::from_raw_os_error(hello.error as i32);
                Some(UnseenCause::Refused(format!("{step}: {error}")))
            }
            _ => None,
        };
        if let Some(cause) = cause {
            return self.coverage.add_unseen(unseen(Pid(pid), cause));
        }
        let memory = memory.filter(|_| hello.ring_bytes == RING_BYTES);
        let memory = memory.and_then(|memory| SharedMemory::new(memory, RING_BYTES).ok());
        // Whoever sends one memory many times would have its records read as many times.
        let is_new = |memory: &SharedMemory| self.programs.values().all(|other| other.memory.id != memory.id);
        let Some(memory) = memory.filter(is_new) else {
            self.lost.refused = self.lost.refused.saturating_add(1);
            return;
        };
        let program = SampledProgram {
            memory,
            pid: Pid(pid),
            pids: [Pid(pid)].into(),
            namespace: inside
                .filter(|inside| inside.pid.0 != pid)
                .map(|_| NamespaceThreads::default()),
            first_ns: None,
            counts: ProgramCounts::default(),
            interval: self.options.interval,
            stack_bytes: FIRST_STACK_BYTES,
            samples_so_far: 0,
            deep: 0,
            rate_since_ns: now_ns,
            rate_samples: 0,
            connected_ns: now_ns,
            is_over: false,
            is_counted: false,
        };
        self.programs.insert(self.next_program, program);
        self.next_program += 1;
    }

    /// Notes, once for each executable, whether its allocator is sampled.
    fn note_outcome(&mut self, outcome: PatchOutcome) {
        if self.with_outcome.len() >= MOST_UNSEEN || !self.with_outcome.insert(outcome.path.clone()) {
            return;
        }
        let name = program::name_of(&outcome.path);
        let allocators = outcome.allocators();
        match outcome.refused {
            None => self.coverage.linked.push(LinkedAllocator {
                program: name,
                allocators,
                functions: outcome.functions(),
                left_out: outcome.left_out(),
            }),
            Some(reason) => self.coverage.add_unseen(UnseenProgram {
                pid: outcome.pid,
                name,
                cause: UnseenCause::NotPatched(allocators, reason),
            }),
        }
    }

    /// Drops the records that were sent, and the memory of programs that have ended. Processes that connected before
    /// `until_ns` have ended unless they are `is_running`.
    pub(super) fn forget_sent(&mut self, until_ns: u64, is_running: impl Fn(&Pid) -> bool) {
        self.queue.drop_sent();
        self.programs.retain(|number, program| {
            if program.connected_ns < until_ns {
                program.pids.retain(&is_running);
            }
            if let Some(namespace) = &mut program.namespace {
                namespace.begin_round();
            }
            !program.is_over || self.queue.has_records_of(*number)
        });
    }
}

impl SampledProgram {
    /// Adds what was lost since the last time; returns the number of blocks.
    fn add_counts(&mut self, lost: &mut HeapLoss) -> u64 {
        let (now, before) = (self.memory.counts, self.counts);
        let more = |now: u64, before: u64| now.saturating_sub(before);
        let blocks = more(now.lost_blocks, before.lost_blocks);
        *lost = lost.plus(HeapLoss {
            blocks,
            bytes: more(now.lost_bytes, before.lost_bytes),
            frees: more(now.lost_frees, before.lost_frees),
            untracked: more(now.untracked, before.untracked),
            ..HeapLoss::default()
        });
        self.counts = now;
        blocks
    }

    /// Copies more of each stack where many are deeper, and samples less often where samples come fast.
    fn adapt(&mut self, options: &HeapOptions, samples: u64, deep: u64, lost: u64, now_ns: u64) {
        self.samples_so_far += samples;
        self.deep += deep;
        if self.samples_so_far >= ENOUGH_SAMPLES {
            if self.deep as f64 > self.samples_so_far as f64 * DEEP_SHARE && self.stack_bytes < MAX_STACK_BYTES {
                self.stack_bytes *= 2;
                self.memory.set_stack_bytes(self.stack_bytes);
            }
            (self.samples_so_far, self.deep) = (0, 0);
        }
        self.rate_samples += samples + lost;
        let elapsed_ns = now_ns.saturating_sub(self.rate_since_ns);
        if elapsed_ns < RATE_NS && lost == 0 {
            return;
        }
        let rate = self.rate_samples as f64 * 1e9 / elapsed_ns.max(RATE_NS) as f64;
        (self.rate_since_ns, self.rate_samples) = (now_ns, 0);
        let factor = (rate / MOST_SAMPLES_A_SECOND).max(if lost > 0 { 2.0 } else { 0.0 });
        if options.may_raise && factor > 1.0 {
            self.interval = ((self.interval as f64 * factor) as u64).min(MAX_HEAP_INTERVAL);
            self.memory.set_interval(self.interval);
        }
    }

    /// The thread of a record, as sprof knows it. `None` if it is of none of the program's processes.
    pub(super) fn thread(&mut self, record: &HeapRecord) -> Option<Thread> {
        let thread = match &mut self.namespace {
            None => Some(record.thread),
            Some(namespace) => namespace.find(record.thread, self.pids.iter().copied()),
        };
        thread.filter(|thread| self.pids.contains(&thread.pid))
    }

    /// A process has executed another program: it does not write here any more, if it did before.
    pub(super) fn executed(&mut self, pid: Pid, time_ns: u64) {
        // What connected after the exec, and was accepted in the same round, is the other program.
        if self.first_ns.is_some_and(|first_ns| first_ns < time_ns) {
            self.pids.remove(&pid);
        }
    }
}

/// A process that has the library, and whose blocks are not sampled.
fn unseen(pid: Pid, cause: UnseenCause) -> UnseenProgram {
    let name = std::fs::read_to_string(format!("/proc/{}/comm", pid.0)).unwrap_or_default();
    UnseenProgram {
        pid,
        name: name.trim_end().to_owned(),
        cause,
    }
}

/// What helps against an obstacle.
fn remedy(cause: &UnseenCause) -> &'static str {
    match cause {
        UnseenCause::Sanitizer => "; build it without -fsanitize",
        _ => " (its children are recorded)",
    }
}

/// Changes the value of a variable, which is empty if the variable is not set. With a prefix, sets the variable with
/// the prefix before its name instead.
fn extend(env: &mut Vec<CString>, prefix: &str, name: &str, change: impl Fn(&[u8]) -> Vec<u8>) -> io::Result<()> {
    let of = |prefix: &str| [prefix.as_bytes(), name.as_bytes(), b"="].concat();
    let own = env.iter().find_map(|entry| entry.as_bytes().strip_prefix(&of("")[..]));
    let changed = of(prefix);
    let entry = [&changed[..], &change(own.unwrap_or_default())].concat();
    env.retain(|entry| !entry.as_bytes().starts_with(&changed));
    env.push(CString::new(entry).map_err(io::Error::other)?);
    Ok(())
}

#[cfg(test)]
pub(super) mod tests {
    use std::os::unix::fs::FileExt as _;

    use super::super::queue::tests::{fill, len};
    use super::super::shared_memory::tests::{Program, allocation, free};
    use super::super::wire::{Header, Hello};
    use super::*;

    pub(in crate::heap) fn recorder(folder: &Path) -> HeapRecorder {
        let options = HeapOptions {
            interval: 1,
            may_raise: false,
            patches: HeapPatches::All,
            cache: Some(folder.to_owned()),
            runner: None,
        };
        let mut image = ProgramImage {
            path: c"/bin/true".into(),
            args: Vec::new(),
            env: Vec::new(),
        };
        HeapRecorder::prepare(&options, &mut image).unwrap().0
    }

    #[test]
    fn the_library_chooses_each_block_where_the_interval_is_one_byte() {
        let folder = tempfile::tempdir().unwrap();
        let mut recorder = recorder(folder.path());
        for (interval, expected) in [(1, "=0:"), (2, "=2:")] {
            recorder.options.interval = interval;
            let mut env = Vec::new();
            recorder.add_environment(&mut env).unwrap();
            let settings = env[1].to_str().unwrap();
            assert!(settings.starts_with(&format!("{VARIABLE}{expected}")), "{settings}");
        }
    }

    pub(in crate::heap) fn connect(recorder: &mut HeapRecorder, memory: std::os::fd::OwnedFd) {
        let hello = Hello {
            machine: OWN_MACHINE,
            pid: 7,
            ring_bytes: RING_BYTES,
            refused_step: 0,
            error: 0,
        };
        let memory = Some(memory);
        recorder.connect(ConnectedProgram { pid: 7, hello, memory }, 0);
    }

    #[test]
    fn a_memory_that_is_sent_again_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let mut recorder = recorder(folder.path());
        let (_, memory) = Program::with_ring(RING_BYTES);
        let (_, other) = Program::with_ring(RING_BYTES);
        connect(&mut recorder, memory.try_clone().unwrap());
        connect(&mut recorder, memory);
        connect(&mut recorder, other);
        assert_eq!((recorder.programs.len(), recorder.lost.refused), (2, 1));
    }

    #[test]
    fn what_has_no_room_stays_in_its_ring_until_others_were_sent() {
        let folder = tempfile::tempdir().unwrap();
        let mut recorder = recorder(folder.path());
        let (mut program, memory) = Program::with_ring(RING_BYTES);
        connect(&mut recorder, memory);
        // Frees alone, without a stack.
        let full = fill(&mut recorder.queue);
        program.record(free(7, 2, 32), &[], true);
        recorder.read(10, false);
        assert_eq!((len(&recorder.queue), recorder.is_due(0)), (full, true));
        while recorder.queue.next_until(1).is_some() {}
        recorder.read(11, false);
        assert_eq!((len(&recorder.queue), recorder.is_behind), (1, false));
    }

    #[test]
    fn a_ring_with_a_record_that_is_not_whole_is_not_read_for_each_event() {
        let folder = tempfile::tempdir().unwrap();
        let mut recorder = recorder(folder.path());
        let (mut program, memory) = Program::with_ring(RING_BYTES);
        connect(&mut recorder, memory);
        program.record(free(7, 2, 32), &[], false);
        let later_ns = monotonic_ns() + 60_000_000_000;
        recorder.read(later_ns, false);
        assert!(recorder.is_behind);
        assert!(!recorder.is_due(later_ns - SETTLE_NS) && recorder.is_due(later_ns));
        recorder.read(1, false);
        assert!(recorder.is_due(0));
    }

    #[test]
    fn a_program_that_takes_samples_fast_gets_a_longer_interval_unless_the_user_chose_it() {
        let folder = tempfile::tempdir().unwrap();
        let interval_after = |may_raise: bool, samples: u64| {
            let mut recorder = recorder(folder.path());
            recorder.options.interval = 1000;
            recorder.options.may_raise = may_raise;
            let (mut program, memory) = Program::with_ring(RING_BYTES);
            connect(&mut recorder, memory);
            for time_ns in 1..=samples {
                program.record(allocation(7, time_ns, 16, 0), &[0; 128], true);
            }
            recorder.read(RATE_NS, false);
            let mut interval = [0; 8];
            let at = std::mem::offset_of!(Header, interval) as u64;
            program.file.read_exact_at(&mut interval, at).unwrap();
            (u64::from_ne_bytes(interval), recorder.coverage.longest_interval)
        };
        // 2,000 a second, and six times as many.
        assert_eq!(interval_after(true, 500), (0, 1000));
        assert_eq!(interval_after(true, 3000), (6000, 6000));
        assert_eq!(interval_after(false, 3000), (0, 1000));
    }

    #[test]
    fn a_program_whose_memory_is_damaged_is_named_and_what_came_before_stays() {
        let folder = tempfile::tempdir().unwrap();
        let mut recorder = recorder(folder.path());
        let (mut program, memory) = Program::with_ring(RING_BYTES);
        connect(&mut recorder, memory);
        program.record(free(7, 1, 16), &[], true);
        recorder.read(1, false);
        program.word(Program::head_at(), 3);
        recorder.read(2, false);
        recorder.read(3, false);
        let [UnseenProgram { pid: Pid(7), cause, .. }] = &recorder.coverage.unseen[..] else {
            panic!("{:?}", recorder.coverage);
        };
        assert!(matches!(cause, UnseenCause::Damaged(_)), "{cause:?}");
        assert_eq!((len(&recorder.queue), recorder.lost.refused), (1, 0));
    }
}
