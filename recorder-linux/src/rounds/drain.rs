//! The loop of a recording: one round after the other, and what can end it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use recording::clock::Timestamp;
use recording::event::{Event, LostCause, RecordingEvent, Role};
use recording::outbox::Message;
use recording::sink::EventSink;

use super::dump_size::DumpSize;
use super::{Jitter, RoundFindings, RoundRule};
use crate::calls::CallPairs;
use crate::open::events::PointLimit;
use crate::open::{OpenedEvents, StackLimit};
use crate::processes::unrecorded::Unrecorded;
use crate::processes::watched::{Watched, stop_at_end, take_signals};
use crate::resources::Resources;
use crate::spans::SpanSink;
use crate::sys::process::monotonic_ns;
use crate::sys::ring::Ring;
use crate::sys::signals::{self, Signals};
use perf_data::decode;
use perf_data::merge::{self, DueRecord, RecordQueue, SETTLE_NS};
use perf_data::translate::Translator;
use recording::session::StopReason;

/// Length of the round after stacks of waits were switched on again. A program that waits more often than can be
/// sampled delivers some hundreds of stacks in 2 ms, and pays for each. Also the length of the round after copies of
/// such stacks became larger: how full they make the ring is not known yet.
const ROUND_FOR_MANY_WAITS: Duration = Duration::from_millis(2);
/// Beginnings and ends of calls in a round that are many. Small rings have room for some thousands.
const MANY_CALLS: u64 = 1_000;
/// Length of the round after one with many point events, which mostly come in series.
const ROUND_FOR_MANY_POINTS: Duration = Duration::from_millis(4);
/// The longest round while the heap of a program is sampled. Its rings are small, and fill at any pace: in this time
/// with 1,000 samples a second and 16 KiB of each stack to a half.
const ROUND_WITH_HEAP: Duration = Duration::from_millis(32);
/// The longest round while spans come: a ring has room for three million a second of a thread.
const ROUND_WITH_SPANS: Duration = Duration::from_millis(50);

impl RecordQueue for Ring {
    fn next_time(&mut self) -> Option<u64> {
        // A record that is too short for a time sorts first, and is reported at once.
        self.peek().map(|record| decode::time(record).unwrap_or(0))
    }

    fn take_next(&mut self, take: &mut dyn FnMut(DueRecord<'_>)) {
        let Some((record, after)) = self.peek_two() else { return };
        let size = record.len();
        let time = decode::time(record).unwrap_or(0);
        take(DueRecord { time, record, after });
        self.consume(size);
    }
}

/// A recording whose events are enabled, with everything that its rounds use.
pub(crate) struct RoundLoop<'a, 's> {
    pub(crate) opened: &'a mut OpenedEvents,
    pub(crate) translator: &'a mut Translator,
    /// Its end ends the recording.
    pub(crate) watched: &'a mut Watched,
    pub(crate) unrecorded: &'a mut Unrecorded,
    pub(crate) signals: &'a Signals,
    /// Start of the recording. Processes that ran before have been reported to the sink.
    pub(crate) start: Timestamp,
    /// When the recording ends at the latest.
    pub(crate) deadline: Option<Timestamp>,
    pub(crate) rate_hz: f64,
    pub(crate) resources: &'a mut Resources,
    pub(crate) calls: &'a mut CallPairs,
    pub(crate) sink: &'a mut SpanSink<'s>,
}

/// What a round took from the rings.
#[derive(Clone, Copy, Default)]
struct Drained {
    has_records: bool,
    /// True if a record came for which a file may have to be opened.
    opens_file: bool,
    /// Samples of the event that samples.
    samples: u64,
    wait_stacks: u64,
    /// Beginnings and ends of calls.
    calls: u64,
    /// How full the fullest ring was, 0 to 1.
    fill: f64,
    /// How full the fullest ring of points was.
    point_fill: f64,
    /// True if points or calls were lost.
    lost_points: bool,
}

impl RoundLoop<'_, '_> {
    /// Empties the rings into the sink until all watched processes have ended, the time is over or a signal ends the
    /// recording. Then stops the events and takes the last records. Returns why and when the recording ended. An error:
    /// poll(2), or an ioctl of an event, failed.
    pub(crate) fn run(mut self) -> io::Result<(StopReason, Timestamp)> {
        let (unit, cpus) = (self.opened.choice.unit(), self.opened.events.cpus().len());
        let mut rule = RoundRule::new(self.opened.samples.usual, self.rate_hz, unit, cpus);
        let mut jitter = Jitter(1);
        let mut sample_dumps = DumpSize::new(Role::Running);
        let mut wait_dumps = DumpSize::new(Role::WaitStack);
        let mut queue = BinaryHeap::new();
        let mut interrupts = 0;
        let mut points = PointLimit::new(monotonic_ns());
        let mut stack_limit = StackLimit::new(self.rate_hz, monotonic_ns());
        self.resources.look(self.translator.live_processes(), &mut |message| {
            message.deliver(self.sink)
        });
        // The stacks of threads that waited when recording began are a round of their own, which changes no rule.
        let _ = self.sink.end_round(self.start);
        let stop = loop {
            if let Some(stop) = self.sleep(rule.sleep(&mut jitter), &mut interrupts)? {
                break stop;
            }
            let woken = monotonic_ns();
            if self.deadline.is_some_and(|end| woken >= end.0) {
                break StopReason::Duration;
            }
            points.allow(woken);
            let until_ns = woken.saturating_sub(SETTLE_NS);
            let drained = self.drain(&mut queue, &mut points, until_ns);
            if !matches!(self.watched, Watched::Machine) {
                self.unrecorded.look(Timestamp(until_ns), self.translator, self.sink);
            }
            let mut report = |message: Message| message.deliver(self.sink);
            self.resources.look(self.translator.live_processes(), &mut report);
            for function in self.calls.end_round(drained.point_fill, drained.lost_points, self.sink) {
                self.opened.events.stop_calls(function);
            }
            let completion = self.sink.end_round(Timestamp(until_ns));
            let (heap_fill, span_fill) = (self.sink.next.fill(), self.sink.fill());
            let switched = stack_limit.after(drained.wait_stacks, woken);
            if let Some(on) = switched {
                self.opened.events.switch(Role::WaitStack, on)?;
            }
            let other_dumps = sample_dumps.after_round(
                drained.samples,
                completion.samples.beyond_sample,
                false,
                self.opened,
                self.translator,
            );
            let other_wait_dumps = wait_dumps.after_round(
                drained.wait_stacks,
                completion.waits.beyond_sample,
                stack_limit.was_reached(),
                self.opened,
                self.translator,
            );
            let worked = Duration::from_nanos(monotonic_ns().saturating_sub(woken));
            let found = RoundFindings {
                has_records: drained.has_records,
                opens_file: drained.opens_file,
                deep: completion.samples.beyond_sample,
                unverified: completion.samples.unverified,
                fill: (drained.fill)
                    .max(heap_fill.unwrap_or_default())
                    .max(span_fill.unwrap_or_default()),
            };
            rule = match other_dumps {
                Some(bytes) => rule.with_rings(bytes, self.rate_hz),
                None => rule.after(found, worked),
            };
            if switched == Some(true) || other_wait_dumps.is_some() {
                rule = rule.capped(ROUND_FOR_MANY_WAITS, worked);
            }
            if heap_fill.is_some() {
                rule = rule.capped(ROUND_WITH_HEAP, worked);
            }
            if span_fill.is_some() {
                rule = rule.capped(ROUND_WITH_SPANS, worked);
            }
            if points.are_many() || drained.calls >= MANY_CALLS {
                rule = rule.capped(ROUND_FOR_MANY_POINTS, worked);
            }
        };
        for event in self.opened.events.since(0) {
            event.disable()?;
        }
        let end = Timestamp(monotonic_ns());
        // Before the records of the program's end.
        self.resources.finish(self.translator.live_processes(), &mut |message| {
            message.deliver(self.sink)
        });
        let drained = self.drain(&mut queue, &mut points, u64::MAX);
        self.calls.end_round(drained.point_fill, drained.lost_points, self.sink);
        if !matches!(self.watched, Watched::Machine) {
            self.unrecorded.look(end, self.translator, self.sink);
        }
        self.report_corruption(end);
        Ok((stop, end))
    }

    /// Sleeps for a round. Returns why recording ends; `None` if it goes on.
    fn sleep(&mut self, round: Duration, interrupts: &mut u32) -> io::Result<Option<StopReason>> {
        let now = monotonic_ns();
        let left = { self.deadline }.map_or(round, |end| Duration::from_nanos(end.0.saturating_sub(now)).min(round));
        let signals_fd = self.signals.fd();
        let [ended, signalled] = match self.watched.pidfd() {
            Some(pidfd) => signals::wait_readable([pidfd.as_fd(), signals_fd], left)?,
            None => signals::wait_readable([signals_fd], left).map(|[signalled]| [false, signalled])?,
        };
        if ended && self.watched.one_has_ended() {
            return Ok(Some(stop_at_end(self.signals, *interrupts)));
        }
        if signalled {
            return Ok(take_signals(self.signals, interrupts, self.watched.program()));
        }
        Ok(None)
    }

    /// Takes the records with times up to `until_ns` from all rings, in time order.
    fn drain(
        &mut self,
        queue: &mut BinaryHeap<Reverse<(u64, usize)>>,
        points: &mut PointLimit,
        until_ns: u64,
    ) -> Drained {
        let mut drained = Drained::default();
        let RoundLoop {
            translator,
            sink,
            calls,
            ..
        } = self;
        let OpenedEvents {
            rings,
            roles,
            events,
            origins,
            ..
        } = &mut *self.opened;
        for (ring, role) in rings.iter_mut().zip(&*roles) {
            ring.refresh();
            drained.fill = drained.fill.max(ring.fill());
            if *role == Role::Point {
                drained.point_fill = drained.point_fill.max(ring.fill());
            }
        }
        let records = merge::drain(rings, until_ns, queue, &mut |ring, due| {
            let DueRecord { time, record, after } = due;
            let role = roles[ring];
            if decode::is_sample(record) {
                drained.samples += u64::from(role == Role::Running);
            } else {
                drained.opens_file |= !decode::opens_no_file(record);
            }
            if matches!(role, Role::Counted | Role::Point) {
                drained.lost_points |= role == Role::Point && decode::reports_loss(record);
                if !origins.as_mut().is_none_or(|origins| origins.counts(time, record)) {
                    return;
                }
                if let Some((point, hit)) = events.call_of(record) {
                    calls.hit(time, point, &hit);
                    drained.calls += 1;
                } else if let Some(event) = events.event_of(role, record) {
                    points.take(time, record, &event, translator, *sink);
                }
                return;
            }
            if role == Role::WaitStack {
                // An idle CPU waits for nothing, so its stacks are not unwound.
                if decode::origin(record).is_some_and(|origin| origin.tid == 0) {
                    return;
                }
                drained.wait_stacks += 1;
            }
            if origins.as_mut().is_none_or(|origins| origins.counts(time, record)) {
                translator.record(time, record, after, role, *sink);
            }
        });
        points.report(translator, *sink);
        drained.has_records = records > 0;
        drained
    }

    fn report_corruption(&mut self, time: Timestamp) {
        for ring in &self.opened.rings {
            for _ in 0..ring.corrupted {
                let what = RecordingEvent::Malformed("ring contents dropped");
                self.sink.on_event(&Event::recording(time, what));
            }
        }
    }
}

/// Reports losses without a record: those at the very end, after which the kernel wrote nothing.
pub(crate) fn report_remaining_losses(
    lost: u64,
    role: Role,
    translator: &mut Translator,
    end: Timestamp,
    sink: &mut dyn EventSink,
) {
    let remaining = lost.saturating_sub(translator.lost(role));
    translator.report_lost(end, remaining, role, LostCause::RingFull, sink);
}
