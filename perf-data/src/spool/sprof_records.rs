//! Facts of a recording that no record of perf holds: figures of processes, how stacks were unwound, starts of runs.
//!
//! Such a record is a PERF_RECORD_EVENT_UPDATE ("u64 kind, u64 id", then words; the first is the time) of a kind that
//! perf does not know and skips: perf_event__process_event_update in tools/perf/util/header.c.

use recording::clock::Timestamp;
use recording::counter::{COUNTERS, Counter, DeviceName, UNREAD_CAUSES, UnreadCause};
use recording::event::{Event, LostCause, Pid, ProcessEvent, RecordingEvent, Role, Thread, ThreadEvent};
use recording::span::{MAX_SPAN_NAME, Span};

use super::record::{EVENT_ID, put_c_string, put_record, put_words};
use crate::abi::record_type;
use crate::decode::{Reader, RecordHeader};

/// The letters of "SPROF", then a number. Numbers are never used again for something else.
const COUNTER: u64 = 0x5350_524f_4600_0001;
const UNWOUND: u64 = 0x5350_524f_4600_0002;
const MALFORMED: u64 = 0x5350_524f_4600_0003;
const RUN_START: u64 = 0x5350_524f_4600_0004;
const FREED: u64 = 0x5350_524f_4600_0005;
const MACHINE_COUNTER: u64 = 0x5350_524f_4600_0006;
const UNREAD: u64 = 0x5350_524f_4600_0007;
const SPAN: u64 = 0x5350_524f_4600_0008;
const LOST_SPANS: u64 = 0x5350_524f_4600_0009;
const PLOT: u64 = 0x5350_524f_4600_000a;
const SAMPLING: u64 = 0x5350_524f_4600_000b;

/// By number, which stands in the high byte of a PERF_RECORD_LOST's `misc`: the kernel writes 0 there.
const CAUSES: [LostCause; 6] = [
    LostCause::RingFull,
    LostCause::SamplesRingFull,
    LostCause::QueueFull,
    LostCause::OverLimit,
    LostCause::NoPid,
    LostCause::NotUnderstood,
];

/// The content of a record of sprof.
pub(crate) enum SprofRecord<'a> {
    Event(Box<Event<'a>>),
    RunStart(Timestamp),
}

impl<'a> SprofRecord<'a> {
    /// Takes a record apart; `None` for those of perf.
    pub(crate) fn parse(record: &'a [u8]) -> Option<SprofRecord<'a>> {
        let (header, body) = record.split_first_chunk()?;
        if RecordHeader::parse(header).kind != record_type::EVENT_UPDATE {
            return None;
        }
        let mut body = Reader(body);
        let (kind, _id, time) = (body.u64()?, body.u64()?, Timestamp(body.u64()?));
        let event = match kind {
            COUNTER => {
                let pid = Pid(i32::try_from(body.u64()?).ok()?);
                let counter = by_number(&COUNTERS, body.u64()?)?.counter;
                Event::process(time, pid, ProcessEvent::Counter(counter, body.u64()?))
            }
            UNWOUND => {
                let (completed_live, by_frame_pointer) = (body.u64()?, body.u64()?);
                // Earlier files have no more.
                let by_code = body.u64().unwrap_or_default();
                let by_framehop = body.u64().unwrap_or_default();
                let what = RecordingEvent::Unwound {
                    completed_live,
                    by_frame_pointer,
                    by_code,
                    by_framehop,
                };
                Event::recording(time, what)
            }
            MALFORMED => Event::recording(time, RecordingEvent::Malformed("record dropped while recording")),
            SAMPLING => Event::recording(time, RecordingEvent::Sampling(body.u64()? != 0)),
            FREED => {
                let thread = thread(body.u64()?);
                Event::thread(time, thread, ThreadEvent::Freed { address: body.u64()? })
            }
            SPAN => {
                let thread = thread(body.u64()?);
                Event::thread(time, thread, ThreadEvent::Span(Span::take(&mut body.0)?))
            }
            PLOT => {
                let pid = Pid(i32::try_from(body.u64()?).ok()?);
                let value = f64::from_bits(body.u64()?);
                Event::process(
                    time,
                    pid,
                    ProcessEvent::Plot(std::str::from_utf8(body.c_string()).ok()?, value),
                )
            }
            LOST_SPANS => {
                let (count, cause) = (body.u64()?, *by_number(&CAUSES, body.u64()?)?);
                let role = Role::Span;
                Event::recording(time, RecordingEvent::Lost { count, role, cause })
            }
            MACHINE_COUNTER => {
                let counter = by_number(&COUNTERS, body.u64()?)?.counter;
                let device = DeviceName::from_words([body.u64()?, body.u64()?, body.u64()?, body.u64()?]);
                Event::recording(time, RecordingEvent::Counter(counter, device, body.u64()?))
            }
            UNREAD => {
                let counter = by_number(&COUNTERS, body.u64()?)?.counter;
                let cause = *by_number(&UNREAD_CAUSES, body.u64()?)?;
                Event::recording(time, RecordingEvent::Unread(counter, cause))
            }
            RUN_START => return Some(SprofRecord::RunStart(time)),
            _ => return None,
        };
        Some(SprofRecord::Event(Box::new(event)))
    }

    pub(crate) fn time(&self) -> Timestamp {
        match self {
            SprofRecord::Event(event) => event.time,
            SprofRecord::RunStart(time) => *time,
        }
    }
}

pub(super) fn put_counter(out: &mut Vec<u8>, time: u64, pid: i32, counter: Counter, value: u64) {
    put(
        out,
        COUNTER,
        &[time, u64::from(pid.cast_unsigned()), counter as u64, value],
    );
}

pub(super) fn put_machine_counter(out: &mut Vec<u8>, time: u64, counter: Counter, device: DeviceName, value: u64) {
    let [a, b, c, d] = device.to_words();
    put(out, MACHINE_COUNTER, &[time, counter as u64, a, b, c, d, value]);
}

pub(super) fn put_unread(out: &mut Vec<u8>, time: u64, counter: Counter, cause: UnreadCause) {
    put(out, UNREAD, &[time, counter as u64, number(&UNREAD_CAUSES, cause)]);
}

/// The time, and the counts in the order of [`RecordingEvent::Unwound`].
pub(super) fn put_unwound(out: &mut Vec<u8>, words: &[u64; 5]) {
    put(out, UNWOUND, words);
}

pub(super) fn put_sampling(out: &mut Vec<u8>, time: u64, on: bool) {
    put(out, SAMPLING, &[time, u64::from(on)]);
}

pub(super) fn put_malformed(out: &mut Vec<u8>, time: u64) {
    put(out, MALFORMED, &[time]);
}

/// `ids`: the process and the thread, as [`pair`](super::record::pair) joins them.
pub(super) fn put_freed(out: &mut Vec<u8>, time: u64, ids: u64, address: u64) {
    put(out, FREED, &[time, ids, address]);
}

/// `ids`: the process and the thread, as [`pair`](super::record::pair) joins them.
pub(super) fn put_span(out: &mut Vec<u8>, time: u64, ids: u64, span: &Span<'_>) {
    put_record(out, record_type::EVENT_UPDATE, 0, |body| {
        put_words(body, &[SPAN, EVENT_ID, time, ids]);
        span.put(body);
    });
}

pub(super) fn put_plot(out: &mut Vec<u8>, time: u64, pid: i32, name: &str, value: f64) {
    put_record(out, record_type::EVENT_UPDATE, 0, |body| {
        put_words(
            body,
            &[PLOT, EVENT_ID, time, u64::from(pid.cast_unsigned()), value.to_bits()],
        );
        let name = &name[..name.floor_char_boundary(MAX_SPAN_NAME)];
        put_c_string(body, name.bytes().filter(|byte| *byte != 0));
    });
}

pub(super) fn put_lost_spans(out: &mut Vec<u8>, time: u64, count: u64, cause: LostCause) {
    put(out, LOST_SPANS, &[time, count, number(&CAUSES, cause)]);
}

pub(super) fn put_run_start(out: &mut Vec<u8>, time: u64) {
    put(out, RUN_START, &[time]);
}

fn put(out: &mut Vec<u8>, kind: u64, words: &[u64]) {
    put_record(out, record_type::EVENT_UPDATE, 0, |body| {
        put_words(body, &[kind, EVENT_ID]);
        put_words(body, words);
    });
}

/// The `misc` of a PERF_RECORD_LOST.
pub(super) fn misc_of_cause(cause: LostCause) -> u16 {
    (number(&CAUSES, cause) as u16) << 8
}

/// Why the records that this record reports were lost.
pub(crate) fn cause(record: &[u8]) -> LostCause {
    let misc = record
        .first_chunk()
        .map_or(0, |header| RecordHeader::parse(header).misc);
    CAUSES
        .get(usize::from(misc >> 8))
        .copied()
        .unwrap_or(LostCause::RingFull)
}

fn thread(ids: u64) -> Thread {
    Thread::new((ids as u32).cast_signed(), ((ids >> 32) as u32).cast_signed())
}

fn by_number<T>(all: &[T], number: u64) -> Option<&T> {
    all.get(usize::try_from(number).ok()?)
}

fn number<T: PartialEq>(all: &[T], one: T) -> u64 {
    all.iter().position(|known| *known == one).unwrap_or_default() as u64
}
