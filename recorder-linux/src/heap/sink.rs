//! The stage that sends samples of the heap among the events of a recorder.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use recording::clock::Timestamp;
use recording::counter::Counter;
use recording::event::{
    Event, EventKind, LostCause, Pid, ProcessEvent, RecordingEvent, Role, Sample, ThreadEvent, Tid,
};
use recording::heap::{HeapCoverage, HeapLoss, HeapPatches, MOST_UNSEEN, UnseenCause, UnseenProgram};
use recording::sink::{Completion, EventSink};
use recording::stack::{Registers, Snapshot, Stack};

use super::patch_answers::PatchedProcess;
use super::program::{self, name_of};
use super::recorder::HeapRecorder;
use crate::sys::process::monotonic_ns;

/// Why nothing is patched.
const INTERPOSING: &str = "--heap=interpose leaves code alone";

/// Sends the events of a recorder on, and those of the heap that come before each, if the heap is recorded.
pub(crate) struct HeapSink<'a> {
    next: &'a mut dyn EventSink,
    heap: Option<HeapRecorder>,
    /// The processes that have not ended, and what each executes.
    processes: HashMap<Pid, ExecutedProgram>,
    threads: HashMap<Tid, Pid>,
    /// Why the library was not loaded into programs that were seen before, by path.
    causes: HashMap<PathBuf, UnseenCause>,
    /// Programs that have loaded the library, the first process of each, and the files that it has mapped.
    with_library: BTreeMap<PathBuf, (Pid, Vec<Arc<Path>>)>,
    /// All files that are mapped as code.
    files: HashSet<Arc<Path>>,
    /// Time of the last event of the heap that was sent.
    sent_ns: u64,
    reported_lost: u64,
}

/// The program of a process.
#[derive(Clone, Debug, Default)]
struct ExecutedProgram {
    /// The first file that was mapped.
    path: Option<PathBuf>,
    has_library: bool,
    /// The files that it has mapped, but for the library.
    files: Vec<Arc<Path>>,
    /// Its patched code.
    patched: Option<PatchedProcess>,
    /// A block of this process, or of the parent that executed it, came.
    has_blocks: bool,
    /// It was executed by this process. A fork has the program of its parent.
    is_own: bool,
    /// The process, or an ancestor of it, has executed the runner.
    is_of_runner: bool,
}

impl<'a> HeapSink<'a> {
    pub(crate) fn new(next: &'a mut dyn EventSink, heap: Option<HeapRecorder>) -> HeapSink<'a> {
        HeapSink {
            next,
            heap,
            processes: HashMap::new(),
            threads: HashMap::new(),
            causes: HashMap::new(),
            with_library: BTreeMap::new(),
            files: HashSet::new(),
            sent_ns: 0,
            reported_lost: 0,
        }
    }

    /// How full the fullest ring of a program is; `None` while no program's heap is sampled.
    pub(crate) fn fill(&self) -> Option<f64> {
        let heap = self.heap.as_ref().filter(|heap| heap.has_programs())?;
        Some(heap.fill())
    }

    /// Sends what is left, up to the end of the recording. Returns what was seen.
    pub(crate) fn finish(mut self, end: Timestamp) -> Option<HeapCoverage> {
        self.read(true);
        self.send_until(end.0);
        self.report_lost(end);
        for (pid, executed) in std::mem::take(&mut self.processes) {
            self.note_if_unseen(pid, &executed);
        }
        let mut heap = self.heap?;
        for (path, (pid, files)) in self.with_library {
            let loaded = files.iter().find_map(|file| {
                let allocator = program::own_new(file)?;
                let mut others = files.iter().filter(|other| *other != file);
                let is_called = others.any(|other| program::imports_new(other));
                is_called.then_some(UnseenCause::OwnNew(allocator))
            });
            let linked = { program::own_allocator(&path) }
                .filter(|_| !heap.with_outcome.contains(&path))
                .map(|allocator| {
                    match heap.options.patches != HeapPatches::None || cfg!(not(target_arch = "x86_64")) {
                        true => UnseenCause::OwnAllocator(allocator),
                        false => UnseenCause::NotPatched(allocator.to_owned(), INTERPOSING.to_owned()),
                    }
                });
            for cause in linked.into_iter().chain(loaded) {
                let name = name_of(&path);
                heap.coverage.add_unseen(UnseenProgram { pid, name, cause });
            }
        }
        heap.coverage.lost = Some(heap.lost);
        heap.coverage.unseen.sort_by_key(|program| program.pid);
        Some(heap.coverage)
    }

    fn read(&mut self, is_last: bool) {
        let Some(heap) = &mut self.heap else { return };
        heap.read(monotonic_ns(), is_last);
    }

    /// Sends the records with times up to `until_ns`.
    fn send_until(&mut self, until_ns: u64) {
        let Some(heap) = &mut self.heap else { return };
        while let Some(record) = heap.queue.next_until(until_ns) {
            let allocation = &record.allocation;
            let program = heap.programs.get_mut(&record.program);
            let found = program.and_then(|program| Some((program.thread(&record)?, program)));
            let is_of_process = found.is_some();
            let known = found.filter(|(thread, _)| self.threads.get(&thread.tid) == Some(&thread.pid));
            let Some((thread, program)) = known else {
                heap.lost = heap.lost.plus(HeapLoss {
                    unknown: u64::from(allocation.is_some()),
                    unknown_bytes: allocation.map_or(0, |allocation| allocation.block.weight() as u64),
                    frees: u64::from(allocation.is_none() && is_of_process),
                    ..HeapLoss::default()
                });
                continue;
            };
            if let Some(process) = self.processes.get_mut(&thread.pid) {
                process.has_blocks = true;
            }
            if !std::mem::replace(&mut program.is_counted, true) {
                heap.coverage.programs += 1;
            }
            // What comes late is sent late. Of one address, events come in the order of their times.
            self.sent_ns = self.sent_ns.max(record.time_ns);
            let time = Timestamp(self.sent_ns);
            match allocation {
                None => {
                    heap.coverage.frees += 1;
                    let address = record.address;
                    let what = ThreadEvent::Freed { address };
                    self.next.on_event(&Event::thread(time, thread, what));
                }
                Some(allocation) => {
                    heap.coverage.blocks += 1;
                    let stack = Stack::Snapshot(heap.queue.snapshot(allocation));
                    let sample = Sample {
                        allocation: Some(&allocation.block),
                        ..Sample::new(Role::Allocation, allocation.block.size, stack)
                    };
                    self.next.on_event(&Event::sample(time, thread, sample));
                }
            }
        }
    }

    fn report_lost(&mut self, time: Timestamp) {
        let Some(heap) = &mut self.heap else { return };
        let count = heap.lost.blocks - self.reported_lost;
        if count > 0 {
            self.reported_lost = heap.lost.blocks;
            let (role, cause) = (Role::Allocation, LostCause::RingFull);
            let what = RecordingEvent::Lost { count, role, cause };
            self.next.on_event(&Event::recording(time, what));
        }
    }

    fn on_process(&mut self, time: Timestamp, pid: Pid, what: &ProcessEvent<'_>) {
        let Some(heap) = &mut self.heap else { return };
        match what {
            ProcessEvent::Start { parent } => {
                let of_parent = parent.and_then(|parent| self.processes.get(&parent)).cloned();
                let own = ExecutedProgram {
                    is_own: false,
                    ..of_parent.unwrap_or_default()
                };
                self.processes.insert(pid, own);
                for program in heap.programs.values_mut() {
                    if parent.is_some_and(|parent| program.pids.contains(&parent)) {
                        program.pids.insert(pid);
                    }
                }
            }
            ProcessEvent::Exec(name) => {
                let programs = heap.programs.values_mut();
                programs.for_each(|program| program.executed(pid, time.0));
                let is_of_runner = { self.processes.get(&pid) }.is_some_and(|process| process.is_of_runner);
                let new = ExecutedProgram {
                    // The runner itself is not recorded.
                    is_own: heap.runner() != Some(name),
                    is_of_runner: is_of_runner || heap.runner() == Some(name),
                    ..ExecutedProgram::default()
                };
                if let Some(before) = self.processes.insert(pid, new) {
                    self.note_if_unseen(pid, &before);
                }
            }
            ProcessEvent::Map(mapping) => {
                let Some(process) = self.processes.get_mut(&pid) else {
                    return;
                };
                let path = Path::new(std::ffi::OsStr::from_bytes(mapping.path));
                if !path.is_absolute() {
                    return;
                }
                if path == heap.library() {
                    process.has_library = true;
                } else if process.files.iter().all(|known| **known != *path) {
                    process.path.get_or_insert_with(|| path.to_owned());
                    let file = self.files.get(path).cloned().unwrap_or_else(|| path.into());
                    self.files.insert(file.clone());
                    process.files.push(file);
                }
            }
            ProcessEvent::End => {
                self.threads.retain(|_, of| *of != pid);
                // Another process may get the number.
                for program in heap.programs.values_mut() {
                    program.pids.remove(&pid);
                }
                if let Some(ended) = self.processes.remove(&pid) {
                    self.note_if_unseen(pid, &ended);
                }
            }
            ProcessEvent::Image(_) | ProcessEvent::Title(_) | ProcessEvent::Plot(..) | ProcessEvent::Counter(..) => {}
        }
    }

    /// Notes the processes that may run patched code at this time.
    fn note_patched(&mut self, time: Timestamp) {
        let Some(heap) = &mut self.heap else { return };
        while let Some(patched) = heap.patched.pop_front_if(|patched| patched.time_ns <= time.0) {
            if let Some(process) = self.processes.get_mut(&patched.pid) {
                process.patched = Some(patched);
            }
        }
    }

    /// Notes a program that was executed without the library.
    fn note_if_unseen(&mut self, pid: Pid, executed: &ExecutedProgram) {
        let (Some(heap), Some(path)) = (&mut self.heap, &executed.path) else {
            return;
        };
        let is_wanted = executed.has_library || executed.is_of_runner || heap.runner().is_none();
        if !executed.is_own || !is_wanted {
            return;
        }
        if executed.has_library {
            // What the system refused to a program is said already.
            let is_named = heap.coverage.unseen.iter().any(|program| program.pid == pid);
            heap.coverage.silent += u64::from(!executed.has_blocks && !is_named);
            if self.with_library.len() < MOST_UNSEEN {
                self.with_library
                    .entry(path.clone())
                    .or_insert((pid, executed.files.clone()));
            }
            return;
        }
        if heap.with_outcome.contains(path) {
            return;
        }
        let cause = match self.causes.get(path) {
            Some(cause) => cause.clone(),
            None => {
                let cause = program::obstacle(path).unwrap_or(UnseenCause::NotLoaded);
                self.causes.insert(path.clone(), cause.clone());
                cause
            }
        };
        heap.coverage.add_unseen(UnseenProgram {
            pid,
            name: name_of(path),
            cause,
        });
    }
}

/// A snapshot in patched code, as one of the function that is patched there: with its name and its unwind rules.
fn in_original<'a>(snapshot: &Snapshot<'a>, patched: &PatchedProcess) -> Option<Snapshot<'a>> {
    let Registers::X86_64 { ip, sp, bp } = snapshot.registers else {
        return None;
    };
    let ip = patched.original(ip)?;
    let registers = Registers::X86_64 { ip, sp, bp };
    Some(Snapshot { registers, ..*snapshot })
}

impl EventSink for HeapSink<'_> {
    fn on_event(&mut self, event: &Event<'_>) {
        let Some(heap) = &self.heap else {
            // Nothing but the heap's coverage needs it.
            if !matches!(
                event.kind,
                EventKind::Process(_, ProcessEvent::Counter(Counter::AnonymousBytes, _))
            ) {
                self.next.on_event(event);
            }
            return;
        };
        // Figures are of now, while records of before are still on their way.
        let is_in_order = !matches!(
            event.kind,
            EventKind::Process(
                _,
                ProcessEvent::Counter(..) | ProcessEvent::Title(_) | ProcessEvent::Plot(..)
            ) | EventKind::Thread(_, ThreadEvent::Span(_))
                | EventKind::Recording(RecordingEvent::Counter(..) | RecordingEvent::Unread(..))
        );
        if is_in_order {
            if heap.is_due(event.time.0) {
                self.read(false);
            }
            self.send_until(event.time.0.saturating_sub(1));
            self.note_patched(event.time);
        }
        match &event.kind {
            EventKind::Process(pid, what) => self.on_process(event.time, *pid, what),
            EventKind::Thread(thread, ThreadEvent::Start) => {
                self.threads.insert(thread.tid, thread.pid);
            }
            EventKind::Thread(thread, ThreadEvent::End) => {
                self.threads.remove(&thread.tid);
                let programs = { self.heap.as_mut() }.map(|heap| heap.programs.values_mut());
                for namespace in programs
                    .into_iter()
                    .flatten()
                    .filter_map(|program| program.namespace.as_mut())
                {
                    namespace.ended(thread.tid);
                }
            }
            EventKind::Thread(thread, ThreadEvent::Sample(sample)) => {
                let process = self.processes.get(&thread.pid);
                if let Some(patched) = process.and_then(|process| process.patched.as_ref())
                    && let Stack::Snapshot(snapshot) = &sample.stack
                    && let Some(snapshot) = in_original(snapshot, patched)
                {
                    let stack = Stack::Snapshot(snapshot);
                    let sample = Sample { stack, ..*sample };
                    return self.next.on_event(&Event::sample(event.time, *thread, sample));
                }
            }
            EventKind::Thread(..) | EventKind::Recording(_) | EventKind::Bpf(_) => {}
        }
        self.next.on_event(event);
    }

    fn end_round(&mut self, until: Timestamp) -> Completion {
        if self.heap.as_ref().is_some_and(|heap| heap.is_due(until.0)) {
            self.read(false);
        }
        self.send_until(until.0);
        self.report_lost(until);
        if let Some(heap) = &mut self.heap {
            heap.forget_sent(until.0, |pid| self.processes.contains_key(pid));
        }
        self.next.end_round(until)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;

    use recording::event::{Mapping, Thread};

    use super::super::recorder::tests::{connect, recorder};
    use super::super::shared_memory::tests::{Program, allocation, free};
    use super::*;

    struct Nobody;

    impl EventSink for Nobody {
        fn on_event(&mut self, _: &Event<'_>) {}

        fn end_round(&mut self, _: Timestamp) -> Completion {
            Completion::default()
        }
    }

    #[test]
    fn blocks_of_unknown_threads_and_programs_without_blocks_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let mut recorder = recorder(folder.path());
        let library = recorder.library().as_os_str().as_bytes().to_owned();
        let (mut program, memory) = Program::with_ring(4 << 20);
        connect(&mut recorder, memory);
        for head in [
            allocation(7, 10, 16, 0),
            allocation(8, 11, 32, 0),
            free(8, 12, 16),
            free(7, 13, 48),
        ] {
            program.record(head, &[0; 128], true);
        }
        let mut nobody = Nobody;
        let mut sink = HeapSink::new(&mut nobody, Some(recorder));
        for pid in [7, 9] {
            sink.on_event(&Event::process(
                Timestamp(1),
                Pid(pid),
                ProcessEvent::Start { parent: None },
            ));
            sink.on_event(&Event::thread(Timestamp(1), Thread::new(pid, pid), ThreadEvent::Start));
            sink.on_event(&Event::process(Timestamp(2), Pid(pid), ProcessEvent::Exec("app")));
            for path in [b"/bin/app", &library[..]] {
                let mapping = Mapping {
                    start: 0,
                    len: 4096,
                    file_offset: 0,
                    path,
                    build_id: None,
                    inode: None,
                };
                sink.on_event(&Event::process(Timestamp(3), Pid(pid), ProcessEvent::Map(&mapping)));
            }
        }
        let coverage = sink.finish(Timestamp(monotonic_ns())).unwrap();
        assert_eq!((coverage.programs, coverage.blocks, coverage.frees), (1, 1, 1));
        assert_eq!((coverage.silent, coverage.unseen.len()), (1, 0));
        let lost = coverage.lost.unwrap();
        // A block of 100 bytes, of which one byte in 1,000 was chosen.
        assert_eq!(
            (lost.unknown, lost.unknown_bytes, lost.frees, lost.refused),
            (1, 1050, 1, 0)
        );
    }
}
