//! What lives at a time of the recording: processes with their mappings, threads, and whether threads wait.

use std::collections::BTreeMap;
use std::sync::Arc;

use recording::address::Avma;
use recording::clock::Timestamp;
use recording::event::{
    BpfProgram, Event, EventKind, InitialState, Mapping, Pid, ProcessEvent, RecordingEvent, Role, Sample, Thread,
    ThreadEvent, Tid,
};
use recording::module::Image;
use recording::outbox::OwnedMapping;
use recording::sink::EventSink;
use recording::space::{AddressSpace, MappedRange};
use recording::stack::{Frame, Stack};
use recording::wait::WaitReason;
use rustc_hash::FxHashMap;

/// All that lives, by the events so far.
#[derive(Clone, Default)]
pub(super) struct Living {
    is_paused: bool,
    /// BPF programs: length and name by first address.
    bpf: BTreeMap<u64, (u64, Box<str>)>,
    processes: FxHashMap<Pid, LivingProcess>,
}

#[derive(Clone)]
struct LivingProcess {
    start: Timestamp,
    parent: Option<Pid>,
    name: Option<Box<str>>,
    title: Option<Box<str>>,
    code: AddressSpace<LivingCode>,
    threads: FxHashMap<Tid, LivingThread>,
}

/// A mapping of code, or what others have left of it.
#[derive(Clone)]
struct LivingCode {
    start: Avma,
    end: Avma,
    /// As it was mapped. `None`: only the module is known.
    mapping: Option<Arc<OwnedMapping>>,
    /// `None`: its module is not known.
    image: Option<Image>,
}

impl MappedRange for LivingCode {
    fn range(&self) -> (Avma, Avma) {
        (self.start, self.end)
    }

    fn with_range(&self, start: Avma, end: Avma) -> LivingCode {
        LivingCode {
            start,
            end,
            mapping: self.mapping.clone(),
            image: self.image.as_ref().map(|image| image.with_range(start, end)),
        }
    }
}

#[derive(Clone)]
struct LivingThread {
    start: Timestamp,
    name: Option<Box<str>>,
    place: SwitchedTo,
    /// The stack that was sampled at the start of its wait, leaf first; empty if none was.
    wait_stack: Vec<Frame>,
}

/// What the last switch of a thread says.
#[derive(Clone, Copy)]
enum SwitchedTo {
    Unknown,
    Cpu,
    /// `None`: it could run.
    Waiting(Option<WaitReason>),
}

impl Living {
    /// True for events that change what lives.
    pub(super) fn concerns(kind: &EventKind<'_>) -> bool {
        match kind {
            EventKind::Recording(what) => matches!(what, RecordingEvent::Sampling(_)),
            EventKind::Bpf(_) => true,
            EventKind::Process(_, what) => !matches!(what, ProcessEvent::Plot(..) | ProcessEvent::Counter(..)),
            EventKind::Thread(_, ThreadEvent::Sample(sample)) => sample.role == Role::WaitStack,
            EventKind::Thread(_, what) => !matches!(what, ThreadEvent::Span(_) | ThreadEvent::Freed { .. }),
        }
    }

    pub(super) fn note(&mut self, event: &Event<'_>) {
        if !Living::concerns(&event.kind) {
            return;
        }
        match event.kind {
            EventKind::Recording(what) => {
                if let RecordingEvent::Sampling(is_on) = what {
                    self.is_paused = !is_on;
                }
            }
            EventKind::Bpf(BpfProgram {
                start,
                len,
                name,
                is_loaded,
            }) => {
                self.bpf.remove(&start);
                if is_loaded {
                    self.bpf.insert(start, (len, name.into()));
                }
            }
            EventKind::Process(pid, what) => self.process(event.time, pid, what),
            EventKind::Thread(thread, what) => self.thread(event.time, thread, what),
        }
    }

    fn process(&mut self, time: Timestamp, pid: Pid, what: ProcessEvent<'_>) {
        let forked_from = match what {
            ProcessEvent::End => {
                self.processes.remove(&pid);
                return;
            }
            ProcessEvent::Start { parent: Some(parent) } => self.processes.get(&parent).map(|of| (parent, of.clone())),
            _ => None,
        };
        if let Some((parent, of)) = forked_from {
            let child = LivingProcess {
                start: time,
                parent: Some(parent),
                threads: FxHashMap::default(),
                ..of
            };
            self.processes.insert(pid, child);
            return;
        }
        let process = self.known(pid, time);
        match what {
            ProcessEvent::Start { .. } => process.start = process.start.min(time),
            ProcessEvent::Exec(name) => {
                (process.name, process.title) = (Some(name.into()), None);
                process.code.clear();
                process.threads.retain(|tid, _| tid.0 == pid.0);
            }
            ProcessEvent::Map(mapping) => process.code.insert(LivingCode {
                start: Avma(mapping.start),
                end: Avma(mapping.start.saturating_add(mapping.len)),
                mapping: Some(Arc::new(mapping.into())),
                image: None,
            }),
            ProcessEvent::Image(image) => {
                let mapping = process.code.find(image.start).and_then(|code| code.mapping.clone());
                process.code.insert(LivingCode {
                    start: image.start,
                    end: image.end,
                    mapping,
                    image: Some(image.clone()),
                });
            }
            ProcessEvent::Title(title) => process.title = Some(title.into()),
            ProcessEvent::End | ProcessEvent::Plot(..) | ProcessEvent::Counter(..) => {}
        }
    }

    fn known(&mut self, pid: Pid, time: Timestamp) -> &mut LivingProcess {
        self.processes.entry(pid).or_insert_with(|| LivingProcess {
            start: time,
            parent: None,
            name: None,
            title: None,
            code: AddressSpace::default(),
            threads: FxHashMap::default(),
        })
    }

    fn thread(&mut self, time: Timestamp, thread: Thread, what: ThreadEvent<'_>) {
        // The last switch of an exit comes after the end of the thread.
        let is_known = (self.processes.get(&thread.pid)).is_some_and(|of| of.threads.contains_key(&thread.tid));
        if !is_known && matches!(what, ThreadEvent::SwitchOut { .. } | ThreadEvent::End) {
            return;
        }
        let process = self.known(thread.pid, time);
        match what {
            ThreadEvent::End => {
                process.threads.remove(&thread.tid);
                return;
            }
            ThreadEvent::Name(name) if thread.is_main() => process.name = Some(name.into()),
            _ => {}
        }
        let name = process.name.clone();
        let of_thread = process.threads.entry(thread.tid).or_insert_with(|| LivingThread {
            start: time,
            name,
            place: SwitchedTo::Unknown,
            wait_stack: Vec::new(),
        });
        match what {
            ThreadEvent::Name(name) => of_thread.name = Some(name.into()),
            ThreadEvent::Sample(Sample {
                stack: Stack::Frames(frames),
                ..
            }) => {
                of_thread.wait_stack.clear();
                of_thread.wait_stack.extend_from_slice(frames);
            }
            ThreadEvent::InitialState(state) => of_thread.place = SwitchedTo::Waiting(state.waits_for),
            ThreadEvent::SwitchOut { preempted } => {
                of_thread.place = SwitchedTo::Waiting((!preempted).then_some(WaitReason::Unknown));
            }
            ThreadEvent::SwitchIn => {
                of_thread.place = SwitchedTo::Cpu;
                of_thread.wait_stack.clear();
            }
            _ => {}
        }
    }

    /// Sends all that lives at this time, as a recorder sends what it finds when it begins.
    pub(super) fn send(&self, at: Timestamp, sink: &mut dyn EventSink) {
        for (start, (len, name)) in &self.bpf {
            let program = BpfProgram {
                start: *start,
                len: *len,
                name,
                is_loaded: true,
            };
            sink.on_event(&Event::bpf(at, program));
        }
        if self.is_paused {
            sink.on_event(&Event::recording(at, RecordingEvent::Sampling(false)));
        }
        let mut processes: Vec<(&Pid, &LivingProcess)> = self.processes.iter().collect();
        processes.sort_by_key(|(pid, process)| (process.start, **pid));
        // A start copies the mappings and the name of the parent: these come later.
        for (pid, process) in &processes {
            let parent = process.parent;
            sink.on_event(&Event::process(process.start, **pid, ProcessEvent::Start { parent }));
            sink.on_event(&Event::thread(process.start, Thread::main(**pid), ThreadEvent::Start));
        }
        for (pid, process) in processes {
            process.send(*pid, at, sink);
        }
    }
}

impl LivingProcess {
    fn send(&self, pid: Pid, at: Timestamp, sink: &mut dyn EventSink) {
        let mut threads: Vec<(&Tid, &LivingThread)> = self.threads.iter().collect();
        threads.sort_by_key(|(tid, thread)| (thread.start, **tid));
        // A new thread takes the name of its process, and another name would be a change.
        let others = threads.iter().filter(|(tid, _)| tid.0 != pid.0);
        for (tid, thread) in others {
            let id = Thread { pid, tid: **tid };
            sink.on_event(&Event::thread(thread.start, id, ThreadEvent::Start));
            if let Some(name) = &thread.name {
                sink.on_event(&Event::thread(thread.start, id, ThreadEvent::Name(name)));
            }
        }
        if let Some(name) = &self.name {
            sink.on_event(&Event::thread(self.start, Thread::main(pid), ThreadEvent::Name(name)));
        }
        if let Some(title) = &self.title {
            sink.on_event(&Event::process(at, pid, ProcessEvent::Title(title)));
        }
        for code in self.code.all() {
            if let Some(mapping) = &code.mapping {
                let mapping = Mapping {
                    start: code.start.0,
                    len: code.end.0 - code.start.0,
                    file_offset: mapping.file_offset + code.start.0.saturating_sub(mapping.start),
                    ..mapping.as_mapping()
                };
                sink.on_event(&Event::process(at, pid, ProcessEvent::Map(&mapping)));
            }
            if let Some(image) = &code.image {
                sink.on_event(&Event::process(at, pid, ProcessEvent::Image(image)));
            }
        }
        for (tid, thread) in threads {
            let id = Thread { pid, tid: *tid };
            if !thread.wait_stack.is_empty() {
                let sample = Sample::new(Role::WaitStack, 0, Stack::Frames(&thread.wait_stack));
                sink.on_event(&Event::sample(at, id, sample));
            }
            let what = match thread.place {
                SwitchedTo::Unknown => continue,
                SwitchedTo::Cpu => ThreadEvent::SwitchIn,
                SwitchedTo::Waiting(waits_for) => ThreadEvent::InitialState(InitialState {
                    switches_from: at,
                    seen_at: at,
                    waits_for,
                }),
            };
            sink.on_event(&Event::thread(at, id, what));
        }
    }
}
