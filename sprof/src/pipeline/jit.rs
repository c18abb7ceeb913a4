//! Finds the files that JIT compilers write: in the stream of events, opened while the target runs, read at the end.
//!
//! A compiler maps its jitdump file, so the mapping is an event. On macOS the recorder sends one for the open file. A
//! perf map is never mapped: it is looked for in processes with anonymous executable memory. Both are kept open,
//! because a container's files disappear with its last process.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use profile::Profile;
use profile::builder::{Builder, CodePlace, CodeSince, PidLifetime};
use recording::clock::Timestamp;
use recording::event::{Event, EventKind, Mapping, Pid, ProcessEvent, Role, ThreadEvent};
use recording::info::RecordingInfo;
use recording::module::{Module, ModuleKind};
use recording::quality::Quality;
use recording::sink::KeptFile;
use recording::sink::{Completion, EventSink, ModuleFiles};
use symbolicator::jit::{CodeAt, JitSymbols, Timeline};

use crate::recorder;

/// Time between two searches for a perf map. The compiler creates the file with its first function, without an event.
/// So sprof searches while samples fall into a process that may have one.
const LOOK_AGAIN_NS: u64 = 50_000_000;
/// Most files that are kept open, over all processes. Modules need most of the 1024 files that a user may have open.
const MAX_FILES: usize = 128;
/// Generations of parents to search: a process that forked without exec has its parent's code.
const MAX_ANCESTORS: usize = 16;

/// A sink that finds the files of JIT compilers, and owns the next sink.
pub(crate) struct JitWatch<N> {
    next: N,
    files: recorder::Files,
    lives: Vec<Life>,
    /// Index of the life of each running process.
    alive: HashMap<Pid, usize>,
    opened: usize,
}

/// A process from its start or exec to its end or exec, if it has code without a file.
#[derive(Clone)]
struct Life {
    pid: Pid,
    from: Timestamp,
    until: Timestamp,
    parent: Option<usize>,
    dumps: Vec<(PathBuf, KeptFile)>,
    map: Option<(PathBuf, KeptFile)>,
    look_again: u64,
}

impl<N: EventSink> JitWatch<N> {
    pub(crate) fn new(next: N) -> Self {
        JitWatch {
            next,
            files: recorder::Files::default(),
            lives: Vec::new(),
            alive: HashMap::new(),
            opened: 0,
        }
    }

    /// The next sink. Events must go through [`on_event`](EventSink::on_event).
    pub(crate) fn next_mut(&mut self) -> &mut N {
        &mut self.next
    }

    /// The files so far.
    pub(crate) fn code(&self) -> JitCode {
        let lives = self.lives.clone();
        JitCode { lives }
    }

    /// Ends the watch; returns the next sink and the files.
    pub(crate) fn finish(mut self) -> (N, JitCode) {
        let pids: Vec<Pid> = self.alive.keys().copied().collect();
        for pid in pids {
            self.look_for_map(pid, Timestamp(u64::MAX));
        }
        (self.next, JitCode { lives: self.lives })
    }

    fn begin(&mut self, pid: Pid, from: Timestamp, parent: Option<usize>) -> usize {
        self.lives.push(Life {
            pid,
            from,
            until: Timestamp(u64::MAX),
            parent,
            dumps: Vec::new(),
            map: None,
            look_again: 0,
        });
        self.alive.insert(pid, self.lives.len() - 1);
        self.lives.len() - 1
    }

    fn end(&mut self, pid: Pid, until: Timestamp) {
        if self.alive.contains_key(&pid) {
            self.look_for_map(pid, Timestamp(u64::MAX));
        }
        if let Some(life) = self.alive.remove(&pid) {
            self.lives[life].until = until;
        }
    }

    fn on_map(&mut self, time: Timestamp, pid: Pid, mapping: &Mapping<'_>) {
        let is_dump = mapping.is_jitdump();
        if !is_dump && is_named(mapping.path) {
            return;
        }
        let life = match self.alive.get(&pid) {
            Some(life) => *life,
            None => self.begin(pid, time, None),
        };
        if is_dump && self.opened < MAX_FILES {
            let path = PathBuf::from(String::from_utf8_lossy(mapping.path).into_owned());
            let known = self.lives[life].dumps.iter().any(|(known, _)| *known == path);
            if !known && let Ok(file) = self.files.open(pid, mapping) {
                self.opened += 1;
                self.lives[life].dumps.push((path, file.bytes));
            }
        }
        self.look_for_map(pid, time);
    }

    fn look_for_map(&mut self, pid: Pid, now: Timestamp) {
        let Some(life) = self.alive.get(&pid).and_then(|life| self.lives.get_mut(*life)) else {
            return;
        };
        if life.map.is_some() || now.0 < life.look_again || self.opened >= MAX_FILES {
            return;
        }
        life.look_again = now.0.saturating_add(LOOK_AGAIN_NS);
        life.map = recorder::open_perf_map(pid, life.from.0);
        self.opened += usize::from(life.map.is_some());
    }
}

impl<N: EventSink> EventSink for JitWatch<N> {
    fn end_round(&mut self, until: Timestamp) -> Completion {
        self.next.end_round(until)
    }

    fn on_event(&mut self, event: &Event<'_>) {
        let time = event.time;
        match event.kind {
            EventKind::Thread(thread, ThreadEvent::Sample(sample))
                if sample.role == Role::Running && !self.alive.is_empty() =>
            {
                self.look_for_map(thread.pid, time);
            }
            EventKind::Process(pid, ProcessEvent::Map(mapping)) => self.on_map(time, pid, mapping),
            EventKind::Process(pid, ProcessEvent::Start { parent: Some(parent) }) => {
                if let Some(parent) = self.alive.get(&parent).copied() {
                    self.begin(pid, time, Some(parent));
                }
            }
            EventKind::Process(pid, ProcessEvent::Exec(_) | ProcessEvent::End) => self.end(pid, time),
            _ => {}
        }
        self.next.on_event(event);
    }
}

/// True for mappings of files on disk, which hold no JIT code. A JIT compiler may use a memory file.
fn is_named(path: &[u8]) -> bool {
    let is_path = path.starts_with(b"/") && !path.starts_with(b"//anon") && !path.starts_with(b"/memfd:");
    is_path || path == b"[vdso]" || path == b"[vsyscall]" || path == b"[uprobes]"
}

/// The modules of JIT code with samples, each with its symbols.
pub(crate) type JitModules = Vec<(Arc<Module>, Arc<JitSymbols>)>;

/// The files that were found.
pub(crate) struct JitCode {
    lives: Vec<Life>,
}

/// A file that was read, and its module.
#[derive(Clone)]
struct JitFile {
    module: Arc<Module>,
    symbols: Arc<JitSymbols>,
}

impl JitCode {
    /// Ends the build: frames in JIT code get addresses in the modules of the files. Returns the profile, and those
    /// modules. Files without samples are not read.
    pub(crate) fn finish(
        &self,
        builder: Builder,
        info: RecordingInfo,
        quality: Quality,
        mut note: impl FnMut(String),
    ) -> (Profile, JitModules) {
        let mut read: HashMap<usize, Vec<JitFile>> = HashMap::new();
        let profile = builder.finish_with_jit(info, quality, |lifetime, addresses| {
            let mut histories = vec![Vec::new(); addresses.len()];
            for (index, life) in self.lives.iter().enumerate() {
                if !life.is_within(lifetime) {
                    continue;
                }
                let mut of_life: Vec<Vec<CodeSince>> = vec![Vec::new(); addresses.len()];
                for source in self.sources(index, &mut read, &mut note) {
                    let timelines = source.symbols.timelines(addresses);
                    // A jitdump, which has times, comes first; a perf map adds what the jitdump lacks.
                    for (history, timeline) in of_life.iter_mut().zip(timelines) {
                        if history.is_empty() {
                            *history = source.history(&timeline, life);
                        }
                    }
                }
                for (history, of_life) in histories.iter_mut().zip(of_life) {
                    history.extend(of_life);
                }
            }
            histories
        });
        let sources = read.into_values().flatten();
        (profile, sources.map(|source| (source.module, source.symbols)).collect())
    }

    /// The files for the code of a process: its own, then those of the processes that it was forked from.
    fn sources(
        &self,
        life: usize,
        read: &mut HashMap<usize, Vec<JitFile>>,
        note: &mut impl FnMut(String),
    ) -> Vec<JitFile> {
        let mut sources = Vec::new();
        let mut next = Some(life);
        for _ in 0..MAX_ANCESTORS {
            let Some(index) = next else { break };
            let life = &self.lives[index];
            let of_life = read.entry(index).or_insert_with(|| life.read(note));
            sources.extend(of_life.iter().cloned());
            next = life.parent;
        }
        sources
    }
}

impl JitFile {
    /// The history of an address during a life.
    fn history(&self, timeline: &Timeline, life: &Life) -> Vec<CodeSince> {
        let time_is_known = self.symbols.has_times();
        let since = |at: &CodeAt| {
            let place = at.relative.map(|address| CodePlace {
                module: self.module.clone(),
                address,
                time_is_known,
            });
            // A forked process has its parent's code from its start.
            (Timestamp(at.from_ns).max(life.from), place)
        };
        let mut history: Vec<CodeSince> = timeline
            .iter()
            .map(since)
            .filter(|(from, _)| *from < life.until)
            .collect();
        if !history.is_empty() && life.until.0 < u64::MAX {
            history.push((life.until, None));
        }
        history
    }
}

impl Life {
    fn is_within(&self, lifetime: PidLifetime) -> bool {
        self.pid == lifetime.pid && self.from < lifetime.until && self.until > lifetime.from
    }

    fn read(&self, note: &mut impl FnMut(String)) -> Vec<JitFile> {
        let dumps = self
            .dumps
            .iter()
            .map(|(path, file)| (path, JitSymbols::read_dump(path, &**file)));
        let maps = self
            .map
            .iter()
            .map(|(path, file)| (path, JitSymbols::read_perf_map(path, &**file)));
        let mut sources = Vec::new();
        for (path, symbols) in dumps.chain(maps) {
            match symbols {
                // What the file lacks is reported with the look-up of names.
                Ok(symbols) => sources.push(JitFile {
                    module: Arc::new(module(path, &symbols)),
                    symbols: Arc::new(symbols),
                }),
                Err(error) => note(error.to_string()),
            }
        }
        sources
    }
}

fn module(path: &Path, symbols: &JitSymbols) -> Module {
    Module {
        kind: ModuleKind::Jit,
        path: path.to_owned(),
        readable_path: None,
        build_id: symbols.id(),
        arch: symbols.arch(),
    }
}
