//! Events to perf's records, and samples to own ones.

use recording::event::{
    Allocation, BpfProgram, Event, EventKind, LostCause, ProcessEvent, RecordingEvent, Role, Sample,
};
use recording::event::{EventValue, Thread, ThreadEvent};
use recording::info::EventInfo;
use recording::module::BuildId;
use recording::outbox::OwnedMapping;
use recording::sample_bytes::SampleHeader;
use recording::stack::{Frame, Stack, StackMark};

use super::record::{
    EVENT_ID, FIRST_NAMED_ID, HEAP_EVENT_ID, WAIT_EVENT_ID, pair, put_c_string, put_lost, put_record, put_sample_id,
    put_words,
};
use super::samples::SampleEncoder;
use super::sprof_records;
use crate::abi::{misc, record_type, sample_type as has};
use crate::decode::Reader;

/// What each sample holds.
pub(super) const SAMPLE_TYPE: u64 =
    has::IDENTIFIER | has::IP | has::TID | has::TIME | has::CPU | has::PERIOD | has::CALLCHAIN;
/// PERF_SAMPLE_RAW, after the call chain: only point events have it.
pub(super) const SAMPLE_RAW: u64 = 1 << 10;

/// Longest path in a mapping: PATH_MAX.
const MAX_PATH: usize = 4096;

/// Writes one event after the other. A mapping waits for the next event, which may have its build id.
#[derive(Debug, Default)]
pub(super) struct Encoder {
    waiting: Option<WaitingMapping>,
    samples: SampleEncoder,
    /// The names of the values of each event that was named.
    fields: Vec<Vec<String>>,
    /// The events that stand for all of their role where records were lost.
    counted_id: u64,
    points_id: u64,
}

/// A mapping that waits for the next event.
#[derive(Debug)]
struct WaitingMapping {
    time: u64,
    pid: i32,
    mapping: OwnedMapping,
}

impl Encoder {
    /// Sets the events that the user named.
    pub(super) fn set_events(&mut self, events: &[EventInfo]) {
        let first = |role| (FIRST_NAMED_ID..).zip(events).find(|(_, event)| event.role == role);
        self.counted_id = first(Role::Counted).map_or(EVENT_ID, |(id, _)| id);
        self.points_id = first(Role::Point).map_or(EVENT_ID, |(id, _)| id);
        self.fields = events.iter().map(|event| event.fields.clone()).collect();
    }

    /// What follows can be read without what was written so far.
    pub(super) fn restart(&mut self) {
        self.samples.restart();
    }

    /// The next sample of this event's thread does not go on from the thread's last stack: this event gets no record.
    pub(super) fn leave_out(&mut self, event: &Event<'_>) {
        if let EventKind::Thread(thread, _) = event.kind {
            self.samples.forget(thread.tid.0);
        }
    }

    /// Appends the records of an event.
    pub(super) fn event(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        if let EventKind::Process(pid, ProcessEvent::Image(image)) = event.kind
            && let Some(waiting) = &mut self.waiting
            && (waiting.pid, waiting.mapping.start) == (pid.0, image.start.0)
            && waiting.mapping.build_id.is_none()
        {
            waiting.mapping.build_id.clone_from(&image.module.build_id);
        }
        if let Some(mapping) = self.waiting.take() {
            put_mapping(out, &mapping);
        }
        match event.kind {
            EventKind::Recording(what) => self.recording(event.time.0, what, out),
            EventKind::Bpf(program) => put_bpf(out, &program, event.time.0),
            EventKind::Process(pid, what) => self.process(event.time.0, pid.0, what, out),
            EventKind::Thread(thread, what) => self.thread(event.time.0, thread, what, out),
        }
    }

    fn recording(&self, time: u64, what: RecordingEvent, out: &mut Vec<u8>) {
        match what {
            RecordingEvent::Lost {
                count,
                role: Role::Span,
                cause,
            } => sprof_records::put_lost_spans(out, time, count, cause),
            RecordingEvent::Lost { count, role, cause } => {
                let event = match role {
                    Role::Running => EVENT_ID,
                    Role::Switch | Role::WaitStack | Role::Wait => WAIT_EVENT_ID,
                    Role::Counted => self.counted_id,
                    Role::Point => self.points_id,
                    Role::Allocation => HEAP_EVENT_ID,
                    Role::Span => return,
                };
                put_lost(out, sprof_records::misc_of_cause(cause), count, time, event);
            }
            RecordingEvent::Throttled => put_record(out, record_type::THROTTLE, 0, |body| {
                put_words(body, &[time, EVENT_ID, EVENT_ID]);
                put_sample_id(body, [0, 0], time, EVENT_ID);
            }),
            RecordingEvent::Unwound {
                completed_live,
                by_frame_pointer,
                by_code,
                by_framehop,
            } => sprof_records::put_unwound(out, &[time, completed_live, by_frame_pointer, by_code, by_framehop]),
            RecordingEvent::Sampling(on) => sprof_records::put_sampling(out, time, on),
            RecordingEvent::Malformed(_) => sprof_records::put_malformed(out, time),
            RecordingEvent::Counter(counter, device, value) => {
                sprof_records::put_machine_counter(out, time, counter, device, value);
            }
            RecordingEvent::Unread(counter, cause) => sprof_records::put_unread(out, time, counter, cause),
        }
    }

    fn process(&mut self, time: u64, pid: i32, what: ProcessEvent<'_>, out: &mut Vec<u8>) {
        match what {
            ProcessEvent::Start { parent: Some(parent) } => {
                put_task(out, record_type::FORK, [pid, parent.0, pid, parent.0], time);
            }
            ProcessEvent::Exec(name) => put_name(out, misc::COMM_EXEC, [pid, pid], name, time),
            ProcessEvent::Map(mapping) => {
                let mapping = OwnedMapping::from(mapping);
                self.waiting = Some(WaitingMapping { time, pid, mapping });
            }
            ProcessEvent::Plot(name, value) => sprof_records::put_plot(out, time, pid, name, value),
            ProcessEvent::Counter(counter, value) => sprof_records::put_counter(out, time, pid, counter, value),
            // A file of perf has no titles, and the reader of the file finds the others out again.
            ProcessEvent::Title(_)
            | ProcessEvent::Start { parent: None }
            | ProcessEvent::End
            | ProcessEvent::Image(_) => {}
        }
    }

    fn thread(&mut self, time: u64, thread: Thread, what: ThreadEvent<'_>, out: &mut Vec<u8>) {
        let (pid, tid) = (thread.pid.0, thread.tid.0);
        match what {
            // The first thread of a process starts with its process.
            ThreadEvent::Start if thread.is_main() => {}
            ThreadEvent::Start => put_task(out, record_type::FORK, [pid, pid, tid, pid], time),
            ThreadEvent::End => {
                self.samples.forget(tid);
                put_task(out, record_type::EXIT, [pid, pid, tid, tid], time);
            }
            ThreadEvent::Name(name) => put_name(out, 0, [pid, tid], name, time),
            ThreadEvent::Sample(sample) => {
                let named = FIRST_NAMED_ID + u64::from(sample.event);
                match sample.role {
                    Role::Running => self.sample(time, thread, &sample, EVENT_ID, None, out),
                    Role::WaitStack => self.sample(time, thread, &sample, WAIT_EVENT_ID, None, out),
                    Role::Counted => self.sample(time, thread, &sample, named, None, out),
                    Role::Point => {
                        let names = self.fields.get(sample.event as usize).map_or(&[][..], Vec::as_slice);
                        let raw = raw(names, sample.values);
                        self.sample(time, thread, &sample, named, Some(&raw), out);
                    }
                    Role::Allocation => {
                        let raw = sample.allocation.map(block);
                        self.sample(
                            time,
                            thread,
                            &sample,
                            HEAP_EVENT_ID,
                            raw.as_ref().map(|raw| &raw[..]),
                            out,
                        );
                    }
                    // Of imported files only, or none at all.
                    Role::Wait | Role::Switch | Role::Span => {}
                }
            }
            // As if its wait had begun then.
            ThreadEvent::InitialState(state) if state.waits_for.is_some() => {
                put_switch_out(out, [pid, tid], state.switches_from.0, false);
            }
            ThreadEvent::InitialState(_) => {}
            ThreadEvent::Freed { address } => sprof_records::put_freed(out, time, pair(pid, tid), address),
            ThreadEvent::Span(span) => sprof_records::put_span(out, time, pair(pid, tid), &span),
            ThreadEvent::SwitchOut { preempted } => put_switch_out(out, [pid, tid], time, preempted),
            ThreadEvent::SwitchIn => put_record(out, record_type::SWITCH, 0, |body| {
                put_sample_id(body, [pid, tid], time, EVENT_ID);
            }),
        }
    }

    fn sample(
        &mut self,
        time: u64,
        thread: Thread,
        sample: &Sample<'_>,
        event: u64,
        raw: Option<&[u8]>,
        out: &mut Vec<u8>,
    ) {
        let (frames, missing) = match sample.stack {
            Stack::Frames(frames) => (frames, None),
            Stack::Missing { kernel, reason } => (kernel, Some(Frame::Mark(StackMark::Missing(reason)))),
            // After the unwinder there are none.
            Stack::Snapshot(snapshot) => (snapshot.kernel, Some(Frame::Mark(StackMark::TruncatedNoRule))),
        };
        let header = SampleHeader {
            time,
            thread,
            event,
            cpu: sample.cpu,
            period: sample.period,
        };
        if !self.samples.put(header, sample.same, frames, missing, raw, out) {
            self.samples.forget(thread.tid.0);
            put_lost(out, sprof_records::misc_of_cause(LostCause::QueueFull), 1, time, event);
        }
    }
}

fn put_switch_out(out: &mut Vec<u8>, ids: [i32; 2], time: u64, preempted: bool) {
    let misc = misc::SWITCH_OUT | if preempted { misc::SWITCH_OUT_PREEMPT } else { 0 };
    put_record(out, record_type::SWITCH, misc, |body| {
        put_sample_id(body, ids, time, EVENT_ID)
    });
}

/// A block of memory; with the size before it, the next word stands at a multiple of 8.
fn block(allocation: &Allocation) -> [u8; BLOCK_BYTES] {
    let Allocation {
        address,
        size,
        interval,
    } = *allocation;
    let mut block = [0; BLOCK_BYTES];
    for (place, word) in block.as_chunks_mut::<8>().0.iter_mut().zip([address, size, interval]) {
        *place = word.to_ne_bytes();
    }
    block
}

/// The block of memory in the raw bytes of a sample.
pub(crate) fn allocation(raw: &[u8]) -> Option<Allocation> {
    let mut words = Reader(raw.get(..BLOCK_BYTES)?);
    Some(Allocation {
        address: words.u64()?,
        size: words.u64()?,
        interval: words.u64()?,
    })
}

/// Three words, and padding.
const BLOCK_BYTES: usize = 3 * 8 + 4;

/// Longest text of the values of one event.
const MAX_RAW: usize = 8 << 10;

/// The values of a point event as text, `name=value` each, with a NUL after it; of a length that needs no padding.
fn raw(names: &[String], values: &[EventValue<'_>]) -> Vec<u8> {
    let mut raw = Vec::new();
    for (name, value) in names.iter().zip(values) {
        let value = match value {
            EventValue::Unsigned(value) => value.to_string(),
            EventValue::Signed(value) => value.to_string(),
            EventValue::Address(value) => format!("{value:#x}"),
            EventValue::Text(text) => text.replace('\0', ""),
        };
        if raw.len() + name.len() + value.len() > MAX_RAW {
            break;
        }
        raw.extend(name.bytes());
        raw.push(b'=');
        raw.extend(value.bytes());
        raw.push(0);
    }
    // With the size before it, which has 4 bytes, the next word stands at a multiple of 8.
    raw.resize((raw.len() + 4).next_multiple_of(8) - 4, 0);
    raw
}

fn put_mapping(out: &mut Vec<u8>, waiting: &WaitingMapping) {
    let WaitingMapping { time, pid, mapping } = waiting;
    // PROT_READ | PROT_EXEC, MAP_PRIVATE.
    const PROTECTION: u32 = 5;
    const FLAGS: u32 = 2;
    let build_id = mapping.build_id.as_ref().filter(|id| id.0.len() <= 20);
    let misc = misc::USER | if build_id.is_some() { misc::MMAP_BUILD_ID } else { 0 };
    put_record(out, record_type::MMAP2, misc, |body| {
        body.extend(pair(*pid, *pid).to_ne_bytes());
        for word in [mapping.start, mapping.len, mapping.file_offset] {
            body.extend(word.to_ne_bytes());
        }
        let mut identity = [0; 24];
        match (build_id, mapping.inode) {
            (Some(BuildId(id)), _) => {
                identity[0] = id.len() as u8;
                identity[4..4 + id.len()].copy_from_slice(id);
            }
            (None, Some((major, minor, inode))) => {
                identity[0..4].copy_from_slice(&major.to_ne_bytes());
                identity[4..8].copy_from_slice(&minor.to_ne_bytes());
                identity[8..16].copy_from_slice(&inode.to_ne_bytes());
            }
            (None, None) => {}
        }
        body.extend(identity);
        body.extend(PROTECTION.to_ne_bytes());
        body.extend(FLAGS.to_ne_bytes());
        put_c_string(body, mapping.path.iter().copied().take(MAX_PATH));
        put_sample_id(body, [*pid, *pid], *time, EVENT_ID);
    });
}

/// u32 pid, ppid, tid, ptid; u64 time.
fn put_task(out: &mut Vec<u8>, kind: u32, ids: [i32; 4], time: u64) {
    put_record(out, kind, 0, |body| {
        ids.iter().for_each(|id| body.extend(id.to_ne_bytes()));
        body.extend(time.to_ne_bytes());
        put_sample_id(body, [ids[0], ids[2]], time, EVENT_ID);
    });
}

fn put_bpf(out: &mut Vec<u8>, program: &BpfProgram<'_>, time: u64) {
    put_record(out, record_type::KSYMBOL, 0, |body| {
        body.extend(program.start.to_ne_bytes());
        body.extend(u32::try_from(program.len).unwrap_or(u32::MAX).to_ne_bytes());
        // PERF_RECORD_KSYMBOL_TYPE_BPF, PERF_RECORD_KSYMBOL_FLAGS_UNREGISTER.
        body.extend(1u16.to_ne_bytes());
        body.extend(u16::from(!program.is_loaded).to_ne_bytes());
        put_c_string(body, program.name.bytes().filter(|byte| *byte != 0).take(MAX_PATH));
        put_sample_id(body, [0, 0], time, EVENT_ID);
    });
}

fn put_name(out: &mut Vec<u8>, misc: u16, [pid, tid]: [i32; 2], name: &str, time: u64) {
    put_record(out, record_type::COMM, misc, |body| {
        body.extend(pair(pid, tid).to_ne_bytes());
        // TASK_COMM_LEN; perf's own names are no longer.
        put_c_string(body, name.bytes().filter(|byte| *byte != 0).take(MAX_PATH));
        put_sample_id(body, [pid, tid], time, EVENT_ID);
    });
}
