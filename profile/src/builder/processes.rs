//! Living processes and threads, by their present pids and tids.

use std::path::PathBuf;
use std::sync::Arc;

use recording::address::Avma;
use recording::counter::Counter;
use recording::event::{Pid, Thread, Tid};
use recording::heap::MemoryOwner;
use recording::module::{FileRole, Image, Images, Module, ModuleKind};
use recording::stack::Frame;
use rustc_hash::FxHashMap;

use super::mapped_code::{MappedCode, ResolvedFrames};
use super::offcpu::ThreadWaits;
use crate::category::CodeKind;
use crate::recorded::heap::RecordedHeap;
use crate::recorded::samples::PackedSamples;
use crate::recorded::spans::PlotSeries;
use crate::recorded::stacks::StackId;
use crate::recorded::thread::{ProcessId, RecordedMarker};
use crate::recorded::usage::{AnonymousReadings, ProcessUsage};

/// A process while events come in.
#[derive(Clone, Default)]
pub(super) struct LiveProcess {
    pub(super) id: String,
    pub(super) pid: i32,
    pub(super) name: Option<String>,
    /// The last title that the process wrote over its command line.
    pub(super) title: Option<String>,
    pub(super) parent: Option<ProcessId>,
    pub(super) start: i64,
    pub(super) end: Option<i64>,
    pub(super) threads: Vec<usize>,
    pub(super) code: MappedCode,
    /// Changes with each change of the mappings. What threads remember of an older epoch is void.
    pub(super) epoch: u32,
    /// True if another event than the start announced the process: the start may still come.
    pub(super) implied: bool,
    pub(super) program: ProgramFile,
    /// The name that the process had while its loader alone ran; Linux keeps the first 15 bytes of what was executed.
    pub(super) loader_name: Option<String>,
    pub(super) usage: ProcessUsage,
    /// Counters of the program, by name.
    pub(super) plots: Vec<(String, PlotSeries)>,
    pub(super) heap: RecordedHeap,
    /// It began with a copy of its parent's memory, and executed no program since.
    pub(super) has_parents_memory: bool,
    /// The blocks of `heap` that are not freed: their weight, by address.
    pub(super) living_blocks: FxHashMap<u64, u64>,
    /// A file that it has mapped has an allocator of its own.
    pub(super) memory_owner: Option<MemoryOwner>,
}

/// The file that a process executes.
#[derive(Clone, Default)]
pub(super) enum ProgramFile {
    #[default]
    Unknown,
    /// The first mapped file is a loader. The program follows, or else the loader is the program.
    Loader(Arc<Module>),
    Known,
}

/// A thread while events come in.
#[derive(Clone, Default)]
pub(super) struct LiveThread {
    pub(super) process: usize,
    pub(super) tid: i32,
    pub(super) id: String,
    pub(super) is_main: bool,
    pub(super) name: Option<String>,
    pub(super) start: i64,
    pub(super) end: Option<i64>,
    pub(super) samples: PackedSamples,
    pub(super) waits: ThreadWaits,
    pub(super) markers: Vec<RecordedMarker>,
    /// The last sample's stack, root first, and its number, as in [`SameFrames`](recording::stack::SameFrames).
    pub(super) chain: Vec<(Frame, StackId)>,
    pub(super) chain_number: u64,
    pub(super) chain_epoch: u32,
    pub(super) implied: bool,
    /// Thread and event, if this is the track of a named event and not a thread.
    pub(super) track_of: Option<(usize, u32)>,
    /// Number of markers of points.
    pub(super) points: usize,
    /// Number of markers of spans.
    pub(super) spans: usize,
    /// Its index in [`RecordedHeap::threads`], if a sampled block is its.
    pub(super) heap_thread: Option<u32>,
    /// Its index among all threads, while building ends.
    pub(super) index: usize,
}

impl LiveThread {
    /// Forgets the last stack if the mappings of the process have changed since.
    pub(super) fn forget_old_chain(&mut self, process: &LiveProcess) {
        if self.chain_epoch != process.epoch {
            self.chain.clear();
            self.chain_epoch = process.epoch;
        }
    }

    /// True if its track shows anything.
    pub(super) fn has_content(&self) -> bool {
        self.samples.len() > 0 || self.points > 0 || self.spans > 0 || self.heap_thread.is_some()
    }
}

/// All processes and threads seen so far, and those of the pids and tids in use now.
#[derive(Clone)]
pub(super) struct Processes {
    /// Represents code without a file.
    nameless: Arc<Module>,
    pub(super) processes: Vec<LiveProcess>,
    pub(super) threads: Vec<LiveThread>,
    /// The threads that stand for CPUs.
    pub(super) cpus: Vec<usize>,
    /// The tracks of further events, by thread and event.
    pub(super) tracks: FxHashMap<(usize, u32), usize>,
    pids: FxHashMap<Pid, usize>,
    tids: FxHashMap<Thread, usize>,
    /// Threads that have ended, until their number is in use again: the last samples of an exit come after its record.
    ended: FxHashMap<Thread, usize>,
    /// Number of programs that replaced a program with samples in the same process.
    pub(super) further_programs: usize,
    /// How often each number has been given out.
    pid_uses: FxHashMap<Pid, u32>,
    tid_uses: FxHashMap<Tid, u32>,
}

impl Default for Processes {
    fn default() -> Self {
        Processes {
            nameless: Arc::new(Module {
                kind: ModuleKind::Jit,
                path: PathBuf::new(),
                readable_path: None,
                build_id: None,
                arch: None,
            }),
            processes: Vec::new(),
            threads: Vec::new(),
            cpus: Vec::new(),
            tracks: FxHashMap::default(),
            pids: FxHashMap::default(),
            tids: FxHashMap::default(),
            ended: FxHashMap::default(),
            further_programs: 0,
            pid_uses: FxHashMap::default(),
            tid_uses: FxHashMap::default(),
        }
    }
}

impl Processes {
    pub(super) fn start(&mut self, pid: Pid, parent: Option<Pid>, at: i64) {
        let is_fork = parent.is_some();
        // An unknown parent is not recorded: it is the process that started the recording.
        let parent = parent.filter(|parent| *parent != pid);
        let parent = parent.and_then(|parent| self.pids.get(&parent).copied());
        if let Some(&known) = self.pids.get(&pid) {
            let process = &mut self.processes[known];
            // The process was known before its start was reported, or was found again while attaching.
            if process.implied || !is_fork {
                process.implied = false;
                process.start = process.start.min(at);
                process.parent = process.parent.or(parent.map(ProcessId));
                return;
            }
            // The pid is in use again, so the earlier process has ended; the record of its end was lost.
            self.end(pid, at);
        }
        let new = self.create(pid, at);
        self.processes[new].implied = false;
        if let Some(parent) = parent {
            let images = self.processes[parent].code.images.clone();
            let name = self.processes[parent].name.clone();
            let program = self.processes[parent].program.clone();
            let title = self.processes[parent].title.clone();
            let memory_owner = self.processes[parent].memory_owner;
            let process = &mut self.processes[new];
            process.parent = Some(ProcessId(parent));
            process.has_parents_memory = true;
            process.code.images = images;
            process.name = name;
            process.program = program;
            process.title = title;
            process.memory_owner = memory_owner;
        }
    }

    /// A title is more than the program's name: `prog ''` has a command line that looks like one.
    pub(super) fn set_title(&mut self, pid: Pid, title: &str) {
        let Some(&index) = self.pids.get(&pid) else { return };
        let process = &mut self.processes[index];
        let program = process.name.as_deref().unwrap_or_default();
        let file = title.rsplit('/').next().unwrap_or_default();
        if !file.starts_with(program) || file.contains([' ', ':']) {
            process.title = Some(title.to_owned());
        }
    }

    pub(super) fn end(&mut self, pid: Pid, at: i64) {
        let Some(index) = self.pids.remove(&pid) else { return };
        let process = &mut self.processes[index];
        process.end = Some(at);
        // Nothing looks them up again, and there may be thousands of ended processes.
        process.code.resolved = ResolvedFrames::default();
        process.code.images = Images::default();
        process.living_blocks = FxHashMap::default();
        self.end_threads(index, pid, at, |_| true);
    }

    /// Keeps a reading of a counter of a process.
    pub(super) fn add_reading(&mut self, pid: Pid, at: i64, counter: Counter, value: u64) {
        if let Some(&index) = self.pids.get(&pid) {
            let process = &mut self.processes[index];
            let start = (process.start > 0 && !process.implied).then_some(process.start);
            process.usage.push(counter, at, value, start);
        }
    }

    pub(super) fn start_thread(&mut self, thread: Thread, at: i64) {
        if let Some(&known) = self.tids.get(&thread) {
            let live = &mut self.threads[known];
            if live.implied || live.is_main {
                live.implied = false;
                live.start = live.start.min(at);
                return;
            }
            self.end_thread(thread, at);
        }
        let index = self.thread(thread, at);
        self.threads[index].implied = false;
    }

    pub(super) fn end_thread(&mut self, thread: Thread, at: i64) {
        if let Some(index) = self.tids.remove(&thread) {
            self.ended.insert(thread, index);
            let thread = &mut self.threads[index];
            thread.end = Some(at);
            thread.chain = Vec::new();
        }
    }

    /// Gives the process a new program. Returns its old name, if it had one.
    ///
    /// What ran before keeps its name: if it has samples, the new program is a process of its own with the same number.
    pub(super) fn exec(&mut self, pid: Pid, at: i64, name: &str) -> Option<String> {
        let index = self.process(pid, at);
        let mut threads = self.processes[index].threads.iter();
        if threads.any(|thread| self.threads[*thread].has_content()) {
            return self.next_program(pid, at, name);
        }
        self.end_threads(index, pid, at, |thread| !thread.is_main);
        let main = self.thread(Thread::main(pid), at);
        self.threads[main].name = None;
        let process = &mut self.processes[index];
        process.code.images.clear();
        process.program = ProgramFile::Unknown;
        process.title = None;
        process.has_parents_memory = false;
        process.memory_owner = None;
        process.usage.anonymous = AnonymousReadings::default();
        process.images_changed();
        process.name.replace(name.to_owned())
    }

    fn next_program(&mut self, pid: Pid, at: i64, name: &str) -> Option<String> {
        let old = self.process(pid, at);
        let main = self.thread(Thread::main(pid), at);
        let waits = self.threads[main].waits.hand_over();
        self.end(pid, at);
        let new = self.create(pid, at);
        let (parent, from) = (self.processes[old].parent, self.processes[old].name.clone());
        let usage = self.processes[old].usage.of_next_program();
        let process = &mut self.processes[new];
        process.usage = usage;
        (process.parent, process.name, process.implied) = (parent, Some(name.to_owned()), false);
        let main = self.thread(Thread::main(pid), at);
        (self.threads[main].waits, self.threads[main].implied) = (waits, false);
        self.further_programs += 1;
        from
    }

    /// Returns the old name, if there was one and it was another.
    pub(super) fn rename(&mut self, thread: Thread, at: i64, name: &str) -> Option<String> {
        let thread = self.thread(thread, at);
        let thread = &mut self.threads[thread];
        let old = if thread.is_main {
            self.processes[thread.process].name.replace(name.to_owned())
        } else {
            thread.name.replace(name.to_owned())
        };
        old.filter(|old| old != name)
    }

    /// Returns the module if it is the process's program: the first file that is mapped, or what that file, a loader,
    /// maps (`/lib64/ld-linux-x86-64.so.2 ./program`). The process then has the program's name.
    pub(super) fn map(&mut self, pid: Pid, at: i64, image: &Image) -> Option<Arc<Module>> {
        let index = self.process(pid, at);
        let process = &mut self.processes[index];
        process.code.images.insert(image.clone());
        process.memory_owner = process
            .memory_owner
            .or_else(|| MemoryOwner::of_file(&image.module.name()));
        process.images_changed();
        if image.module.kind != ModuleKind::File || CodeKind::of_module(&image.module) == CodeKind::Jit {
            return None;
        }
        match (&process.program, image.role) {
            (ProgramFile::Unknown, FileRole::Library) => {
                process.program = ProgramFile::Loader(image.module.clone());
                None
            }
            (ProgramFile::Unknown, _) => {
                process.program = ProgramFile::Known;
                Some(image.module.clone())
            }
            (ProgramFile::Loader(_), FileRole::Program) => {
                process.loader_name = process.name.replace(image.module.name());
                process.program = ProgramFile::Known;
                Some(image.module.clone())
            }
            _ => None,
        }
    }

    /// The programs of processes whose first file was taken for a loader, and that mapped no other program.
    pub(super) fn loaders_alone(&self) -> impl Iterator<Item = Arc<Module>> {
        let loader = |process: &LiveProcess| match &process.program {
            ProgramFile::Loader(loader) => Some(loader.clone()),
            _ => None,
        };
        self.processes.iter().filter_map(loader)
    }

    /// Executable memory whose module is not known, or not yet.
    pub(super) fn map_nameless(&mut self, pid: Pid, at: i64, start: u64, len: u64) {
        let index = self.process(pid, at);
        let image = Image {
            start: Avma(start),
            end: Avma(start.saturating_add(len)),
            base: Avma(0),
            module: self.nameless.clone(),
            role: FileRole::default(),
        };
        let process = &mut self.processes[index];
        // JIT compilers that keep memory either writable or executable map the same again for each function.
        let known = process.code.images.find(image.start);
        let same = known.is_some_and(|known| {
            known.start <= image.start && known.end >= image.end && known.module.kind == ModuleKind::Jit
        });
        if !same && image.start < image.end {
            process.code.images.insert(image);
            process.images_changed();
        }
    }

    pub(super) fn forget_resolved(&mut self) {
        self.processes.iter_mut().for_each(LiveProcess::images_changed);
    }

    /// Forgets the frames of addresses, and the last stacks of threads if nothing refers to them.
    pub(super) fn forget_frames(&mut self, with_stacks: bool) {
        for process in &mut self.processes {
            process.code.resolved = ResolvedFrames::default();
        }
        for thread in self.threads.iter_mut().filter(|_| with_stacks) {
            thread.chain = Vec::new();
        }
    }

    /// The thread that a sample is of, with its process; both come to be if they were never announced.
    pub(super) fn thread_for_sample(&mut self, thread: Thread, at: i64) -> (&mut LiveProcess, &mut LiveThread) {
        let index = self.index_for_sample(thread, at);
        let thread = &mut self.threads[index];
        (&mut self.processes[thread.process], thread)
    }

    /// Index in `threads` of the thread that a sample is of.
    pub(super) fn index_for_sample(&mut self, thread: Thread, at: i64) -> usize {
        if let Some(&index) = self.tids.get(&thread) {
            return index;
        }
        match self.ended.get(&thread) {
            Some(&index) => {
                let ended = &mut self.threads[index];
                ended.end = ended.end.max(Some(at));
                let process = &mut self.processes[ended.process];
                process.end = process.end.map(|end| end.max(at));
                index
            }
            None => self.thread(thread, at),
        }
    }

    fn end_threads(&mut self, process: usize, pid: Pid, at: i64, which: impl Fn(&LiveThread) -> bool) {
        for &index in &self.processes[process].threads {
            let thread = &mut self.threads[index];
            if thread.end.is_none() && thread.track_of.is_none() && which(thread) {
                thread.end = Some(at);
                thread.chain = Vec::new();
                let thread = Thread::new(pid.0, thread.tid);
                self.ended.extend(self.tids.remove_entry(&thread));
            }
        }
    }

    fn process(&mut self, pid: Pid, at: i64) -> usize {
        match self.pids.get(&pid) {
            Some(&index) => index,
            None => self.create(pid, at),
        }
    }

    fn create(&mut self, pid: Pid, at: i64) -> usize {
        let index = self.processes.len();
        self.processes.push(LiveProcess {
            id: numbered(pid.0, self.pid_uses.entry(pid).or_default()),
            pid: pid.0,
            start: at,
            implied: true,
            ..LiveProcess::default()
        });
        self.pids.insert(pid, index);
        index
    }

    fn thread(&mut self, thread: Thread, at: i64) -> usize {
        if let Some(&index) = self.tids.get(&thread) {
            return index;
        }
        let process = self.process(thread.pid, at);
        let is_main = thread.is_main();
        let index = self.threads.len();
        self.threads.push(LiveThread {
            process,
            tid: thread.tid.0,
            id: numbered(thread.tid.0, self.tid_uses.entry(thread.tid).or_default()),
            is_main,
            // A thread starts with the name of the one that made it (Linux: copy_process keeps `comm`).
            name: (!is_main).then(|| self.processes[process].name.clone()).flatten(),
            start: at,
            implied: true,
            ..LiveThread::default()
        });
        self.processes[process].threads.push(index);
        self.tids.insert(thread, index);
        self.ended.remove(&thread);
        index
    }
}

impl LiveProcess {
    fn images_changed(&mut self) {
        self.code.resolved = ResolvedFrames::default();
        self.epoch += 1;
    }
}

/// `1234`, then `1234.1`, `1234.2`.
fn numbered(number: i32, uses: &mut u32) -> String {
    let id = if *uses == 0 {
        number.to_string()
    } else {
        format!("{number}.{uses}")
    };
    *uses += 1;
    id
}
