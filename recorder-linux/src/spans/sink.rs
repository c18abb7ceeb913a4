//! The stage that sends spans of programs among the events of a recorder.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::OwnedFd;

use recording::clock::Timestamp;
use recording::event::{
    Event, EventKind, LostCause, Mapping, Pid, ProcessEvent, RecordingEvent, Role, Thread, ThreadEvent,
};
use recording::heap::HeapCoverage;
use recording::sink::{Completion, EventSink};
use recording::span::{Span, SpanFieldsBuffer, SpanFlow, SpanValue};
use spans::format::{INSTANT, PLOT, Record, Value};

use super::clock::CounterClock;
use super::found;
use super::memory::{MOST_WORDS_IN_ROUND, SiteNames, SpanCopy, SpanLoss, SpanMemory};
use super::socket::{self, SpanSocket};
use super::switches::{SamplingSwitch, SamplingTimes};
use crate::heap::{HeapSink, NamespaceThreads};
use crate::processes::procfs::numbers_inside;
use crate::sys::process::monotonic_ns;
use perf_data::merge::SETTLE_NS;

/// Programs whose memory is held open at one time.
const MOST_PROGRAMS: usize = 512;
/// How often mappings of one program are looked into: to look takes time, and a program can map its memory any number
/// of times. Libraries may have memory of their own.
const MOST_MAPPINGS: u32 = 8;
/// What is said of single programs at the end.
const MOST_NOTES: usize = 5;

/// Sends the events of a recorder on, but for samples while it is paused, and after each round the spans of the round.
pub(crate) struct SpanSink<'a> {
    pub(crate) next: HeapSink<'a>,
    reader: SpanReader,
    sampling: SamplingTimes,
    /// All switches up to this time are known.
    known_ns: u64,
}

struct SpanReader {
    socket: Option<SpanSocket>,
    /// See `READER` of the format.
    number: u64,
    start_ns: u64,
    clock: CounterClock,
    programs: Vec<SpanProgram>,
    /// Mappings that were seen in this round.
    found: Vec<(Pid, u64, u64)>,
    /// How many mappings of each process were seen.
    seen: HashMap<Pid, u32>,
    /// The processes that have not ended.
    processes: HashSet<Pid>,
    /// Those that have ended in this round.
    ended: HashSet<Pid>,
    copy: SpanCopy,
    /// Spans of the last round.
    spans_in_round: u64,
    /// Processes whose spans can't be read, and why.
    unread: HashMap<Pid, String>,
}

struct SpanProgram {
    /// `None`: the memory is of its parent, which is not recorded. The process makes its own at its next span.
    pid: Option<Pid>,
    memory: SpanMemory,
    /// Its threads, if its numbers are of another PID namespace.
    namespace: Option<NamespaceThreads>,
    is_over: bool,
}

impl<'a> SpanSink<'a> {
    /// `start`: of the recording.
    pub(crate) fn new(
        next: HeapSink<'a>,
        socket: Option<SpanSocket>,
        switch: SamplingSwitch,
        start: Timestamp,
    ) -> SpanSink<'a> {
        let random = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0);
        let reader = SpanReader {
            socket,
            number: u64::from(std::process::id()) << 32 | random >> 32,
            start_ns: monotonic_ns(),
            clock: CounterClock::new(),
            programs: Vec::new(),
            found: Vec::new(),
            seen: HashMap::new(),
            processes: HashSet::new(),
            ended: HashSet::new(),
            copy: SpanCopy::default(),
            spans_in_round: 0,
            unread: HashMap::new(),
        };
        let sampling = SamplingTimes::new(switch, start.0);
        SpanSink {
            next,
            reader,
            sampling,
            known_ns: 0,
        }
    }

    /// Reads which programs have paused or resumed the recording.
    fn read_switches(&mut self) {
        let now_ns = monotonic_ns();
        self.reader.open(now_ns);
        let sampling = &mut self.sampling;
        for program in &mut self.reader.programs {
            let mut switches = Vec::new();
            // If that fails, so does the reading of spans, which says so.
            let lost = program.memory.take_switches(&mut |time, on| switches.push((time, on)));
            if let Ok(lost @ 1..) = lost {
                sampling.lost = sampling.lost.saturating_add(lost);
                sampling.add(self.known_ns, false);
            }
            { switches.into_iter() }.for_each(|(time, on)| sampling.add(time.min(now_ns), on));
        }
        self.known_ns = now_ns.saturating_sub(SETTLE_NS);
    }

    /// Goes on to an event of this time. Returns whether it is sampled.
    fn pass(&mut self, time: Timestamp) -> bool {
        if time.0 > self.known_ns {
            self.read_switches();
        }
        let next = &mut self.next;
        self.sampling.pass(time.0, &mut |at, on| {
            next.on_event(&Event::recording(Timestamp(at), RecordingEvent::Sampling(on)));
        })
    }

    /// How full the fullest ring of a program was; `None` if no span came in the last round.
    pub(crate) fn fill(&self) -> Option<f64> {
        let fills = self.reader.programs.iter().map(|program| program.memory.fill);
        (self.reader.spans_in_round > 0).then(|| fills.fold(0.0, f64::max))
    }

    /// Sends what is left, up to the end of the recording. Returns what was seen of heaps, and what was not of spans.
    pub(crate) fn finish(mut self, end: Timestamp) -> (Option<HeapCoverage>, Vec<String>) {
        self.read_switches();
        // The next run begins as this one did.
        let (samples, begins_with) = (self.pass(end), !self.sampling.begins_paused());
        if samples != begins_with {
            let what = RecordingEvent::Sampling(begins_with);
            self.next.on_event(&Event::recording(end, what));
        }
        self.reader.programs.iter().for_each(|program| program.memory.end());
        self.reader.read(end, end, u64::MAX, &mut self.next);
        self.reader.programs.iter().for_each(|program| program.memory.forget());
        let mut unread: Vec<(Pid, String)> = self.reader.unread.drain().collect();
        unread.sort();
        let more = unread.len().saturating_sub(MOST_NOTES);
        let notes = unread
            .iter()
            .take(MOST_NOTES)
            .map(|(pid, cause)| format!("the spans of process {} are not recorded: {cause}", pid.0));
        let more = (more > 0).then(|| format!("the spans of {more} more processes are not recorded"));
        let notes = notes.chain(more).chain(self.sampling.notes()).collect();
        (self.next.finish(end), notes)
    }
}

impl SpanReader {
    /// Opens the memory of programs that have sent it, or whose mapping was seen.
    fn open(&mut self, now_ns: u64) {
        let mut socket = self.socket.take();
        if let Some(socket) = &mut socket {
            // What is sent is whole.
            socket.take(&mut |pid, memory| {
                self.add(pid, memory, now_ns);
            });
        }
        self.socket = socket;
        for (pid, start, end) in std::mem::take(&mut self.found) {
            match found::open(pid, start, end) {
                Ok(memory) => {
                    if !self.add(pid, memory, now_ns) && !self.look_for(pid, start, end) {
                        self.say_unread(pid, "it has not finished making their memory".to_owned());
                    }
                }
                Err(error) if self.is_known(pid) => drop(error),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    self.say_unread(pid, "it ended, or closed their memory, before it was seen".to_owned());
                }
                Err(error) => self.say_unread(pid, format!("cannot open their memory: {error}")),
            }
        }
    }

    fn on_mapping(&mut self, pid: Pid, mapping: &Mapping<'_>) {
        self.look_for(pid, mapping.start, mapping.start.saturating_add(mapping.len));
    }

    /// Looks into a mapping in the next round. Returns false if this process was looked into too often.
    fn look_for(&mut self, pid: Pid, start: u64, end: u64) -> bool {
        let seen = self.seen.entry(pid).or_default();
        *seen = seen.saturating_add(1);
        let is_allowed = *seen <= MOST_MAPPINGS;
        if is_allowed {
            self.found.push((pid, start, end));
        }
        is_allowed
    }

    fn is_known(&self, pid: Pid) -> bool {
        self.programs.iter().any(|program| program.pid == Some(pid))
    }

    fn say_unread(&mut self, pid: Pid, cause: String) {
        if self.unread.len() < MOST_PROGRAMS {
            self.unread.insert(pid, cause);
        }
    }

    /// Returns false if the process has not finished making it.
    fn add(&mut self, pid: Pid, descriptor: OwnedFd, now_ns: u64) -> bool {
        if self.programs.len() >= MOST_PROGRAMS {
            self.say_unread(pid, format!("there are {MOST_PROGRAMS} others"));
            return true;
        }
        let id = rustix::fs::fstat(&descriptor).map(|stat| (stat.st_dev, stat.st_ino));
        let inner = numbers_inside(pid.0).map(|inner| inner.pid);
        let known = self.programs.iter_mut().find(|program| Ok(program.memory.id) == id);
        let program = match known {
            Some(known) => known,
            None => match SpanMemory::begin(descriptor, self.number, socket::state(), now_ns) {
                Ok(memory) => {
                    let (namespace, is_over) = (None, false);
                    self.programs.push(SpanProgram {
                        pid: None,
                        memory,
                        namespace,
                        is_over,
                    });
                    let Some(added) = self.programs.last_mut() else {
                        return true;
                    };
                    added
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
                Err(error) => {
                    self.say_unread(pid, error.to_string());
                    return true;
                }
            },
        };
        // A process that has ended says nothing of itself.
        let memory_of = i32::try_from(program.memory.inner_pid).map(Pid);
        if inner.is_none_or(|inner| memory_of == Ok(inner)) {
            program.namespace = (memory_of != Ok(pid)).then(NamespaceThreads::default);
            program.pid = Some(pid);
            program.is_over = self.ended.contains(&pid);
        }
        true
    }

    /// Sends the spans of all programs that ended before `end`. `time`: of losses. `most_words`: of each program.
    fn read(&mut self, time: Timestamp, end: Timestamp, most_words: u64, next: &mut HeapSink<'_>) {
        self.clock.look();
        self.spans_in_round = 0;
        let mut loss = SpanLoss::default();
        let mut fields = SpanFieldsBuffer::default();
        for program in &mut self.programs {
            let SpanProgram {
                pid,
                memory,
                namespace,
                is_over,
            } = program;
            // The record of its start may still come.
            let is_recorded = pid.is_some_and(|pid| self.processes.contains(&pid));
            if pid.is_some() && !is_recorded && !*is_over {
                continue;
            }
            if let Some(namespace) = namespace {
                namespace.begin_round();
            }
            let (clock, has_counter) = (&self.clock, memory.has_counter);
            let ns = |time| if has_counter { clock.ns(time) } else { time };
            let inner = i32::try_from(memory.inner_pid).unwrap_or_default();
            let latest = monotonic_ns();
            let mut malformed = 0;
            let read = memory.read(latest, most_words, &mut self.copy, &mut |record, names, tid| {
                let Some(pid) = *pid else { return };
                let mut thread_of = |tid: u32| {
                    let tid = i32::try_from(tid).unwrap_or(pid.0);
                    let Some(namespace) = namespace else {
                        return Thread::new(pid.0, tid);
                    };
                    let found = namespace.find_once(Thread::new(inner, tid), std::iter::once(pid));
                    found.unwrap_or(Thread::main(pid))
                };
                let tid = record.lane().map_or(tid, |(_, tid)| tid);
                let ended = ns(record.time());
                let began = (![INSTANT, PLOT].contains(&record.kind)).then(|| ns(record.began()));
                // A program goes on while it is read.
                if ended > latest + 1_000_000_000 || began.is_some_and(|began| began > ended) {
                    malformed += 1;
                } else if ended <= end.0 && began.unwrap_or(ended) >= self.start_ns {
                    self.spans_in_round += 1;
                    send(record, names, thread_of(tid), (began, ended), &mut fields, next);
                }
            });
            match read {
                Ok(read) => {
                    loss.no_room += read.no_room;
                    loss.malformed += read.malformed + malformed;
                }
                Err(error) => {
                    *is_over = true;
                    if let Some(pid) = *pid {
                        self.unread.insert(pid, error.to_string());
                    }
                }
            }
        }
        self.programs.retain(|program| !program.is_over);
        self.ended.clear();
        for (count, cause) in [
            (loss.no_room, LostCause::RingFull),
            (loss.malformed, LostCause::NotUnderstood),
        ] {
            let role = Role::Span;
            if count > 0 {
                next.on_event(&Event::recording(time, RecordingEvent::Lost { count, role, cause }));
            }
        }
    }

    fn on_process(&mut self, time: Timestamp, pid: Pid, what: &ProcessEvent<'_>) {
        let end = |programs: &mut Vec<SpanProgram>, until: u64| {
            let of_process = programs.iter_mut().filter(|program| program.pid == Some(pid));
            of_process.for_each(|program| program.is_over |= program.memory.made_ns < until);
        };
        match what {
            ProcessEvent::Start { .. } => {
                self.processes.insert(pid);
            }
            ProcessEvent::Exec(_) => {
                self.seen.remove(&pid);
                end(&mut self.programs, time.0);
            }
            ProcessEvent::End => {
                self.seen.remove(&pid);
                self.processes.remove(&pid);
                self.ended.insert(pid);
                end(&mut self.programs, u64::MAX);
            }
            _ => {}
        }
    }
}

fn send(
    record: &Record<'_>,
    names: &SiteNames,
    thread: Thread,
    (began, ended): (Option<u64>, u64),
    fields: &mut SpanFieldsBuffer,
    next: &mut HeapSink<'_>,
) {
    if record.kind == PLOT {
        let plot = ProcessEvent::Plot(&names.name, record.plotted());
        return next.on_event(&Event::process(Timestamp(ended), thread.pid, plot));
    }
    fields.clear();
    let mut flow = None;
    // They fit: a record has fewer bytes.
    let mut push = |name: &str, value: SpanValue<'_>| {
        let _ = fields.push(name, value);
    };
    for (index, value) in record.values() {
        let Some(key) = names.keys.get(index) else { continue };
        match value {
            Value::Signed(value) => push(key, SpanValue::Signed(value)),
            Value::Unsigned(value) => push(key, SpanValue::Unsigned(value)),
            Value::Float(value) => push(key, SpanValue::Float(value)),
            Value::Bool(value) => push(key, SpanValue::Bool(value)),
            Value::Flow(id, ends) => flow = Some(SpanFlow { id, ends }),
            Value::Text(text) => {
                let bytes: Vec<u8> = text.bytes().collect();
                let mut value = String::from_utf8_lossy(&bytes).into_owned();
                if text.is_cut {
                    value = value.trim_end_matches('\u{fffd}').to_owned() + "…";
                }
                push(key, SpanValue::Text(&value));
            }
        }
    }
    let span = Span {
        fields: fields.fields(),
        lane: record.lane().map(|(lane, _)| lane),
        flow,
        ..Span::new(&names.name, began.map(Timestamp))
    };
    next.on_event(&Event::thread(Timestamp(ended), thread, ThreadEvent::Span(span)));
}

impl EventSink for SpanSink<'_> {
    fn on_event(&mut self, event: &Event<'_>) {
        if let EventKind::Process(pid, what) = &event.kind {
            if let ProcessEvent::Map(mapping) = what
                && found::is_of_spans(mapping)
            {
                // No code: it is mapped so that it is found.
                return self.reader.on_mapping(*pid, mapping);
            }
            self.reader.on_process(event.time, *pid, what);
        }
        if let EventKind::Thread(_, what) = &event.kind {
            let is_sampled = match what {
                // What a thread waits for may be known from before it was resumed.
                ThreadEvent::Sample(sample) => self.pass(event.time) || sample.role == Role::WaitStack,
                ThreadEvent::SwitchOut { .. } | ThreadEvent::SwitchIn => {
                    self.pass(event.time);
                    true
                }
                _ => true,
            };
            if !is_sampled {
                return;
            }
        }
        self.next.on_event(event);
    }

    fn end_round(&mut self, until: Timestamp) -> Completion {
        self.read_switches();
        self.reader
            .read(until, Timestamp(u64::MAX), MOST_WORDS_IN_ROUND, &mut self.next);
        self.next.end_round(until)
    }
}
