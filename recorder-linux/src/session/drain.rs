//! The loop that empties the rings, and what can end it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use recording::clock::Timestamp;
use recording::event::{Event, LostCause, RecordingEvent, Role};
use recording::outbox::Message;
use recording::sink::EventSink;

use crate::open::events::PointLimit;
use crate::open::{Opened, StackLimit};
use crate::processes::unrecorded::Unrecorded;
use crate::processes::usage::Usage;
use crate::processes::watched::{Watched, stop_at_end, take_signals};
use crate::session::larger_stacks::LargerStacks;
use crate::session::look::Look;
use crate::session::pace::{Found, Pace};
use crate::sys::process::monotonic_ns;
use crate::sys::ring::Ring;
use crate::sys::signals::{self, Signals};
use perf_data::decode;
use perf_data::merge::{self, Due, Source};
use perf_data::translate::Translator;
use recording::session::StopReason;

/// The kernel reads the time of a record before it writes the record. The gap is microseconds, except where the
/// hypervisor takes the CPU away in between.
const SETTLE_NS: u64 = 500_000;
/// The round after stacks of waits were switched on again, of a program that waits more often than can be sampled: in 2
/// ms it delivers some hundreds of stacks, and pays for each. And the round after these came to be larger: how full
/// they make the ring is not known.
const ROUND_FOR_MANY_WAITS: Duration = Duration::from_millis(2);
/// The round after one with many point events, which mostly come in series.
const ROUND_FOR_MANY_POINTS: Duration = Duration::from_millis(4);

impl Source for Ring {
    fn next_time(&mut self) -> Option<u64> {
        // A record that is too short for a time sorts first, and is reported at once.
        self.peek().map(|record| decode::time(record).unwrap_or(0))
    }

    fn take_next(&mut self, take: &mut dyn FnMut(Due<'_>)) {
        let Some((record, after)) = self.peek_two() else { return };
        let size = record.len();
        let time = decode::time(record).unwrap_or(0);
        take(Due { time, record, after });
        self.consume(size);
    }
}

/// Empties the rings into the sink until all that is watched has ended, the time is over or a signal ends the
/// recording. Then stops the events and takes what is left. `longest_wait`: for a CPU, of this thread.
#[expect(
    clippy::too_many_arguments,
    reason = "everything that the loop touches is named here"
)]
pub(crate) fn until_end(
    opened: &mut Opened,
    translator: &mut Translator,
    watched: &mut Watched,
    unrecorded: &mut Unrecorded,
    signals: &Signals,
    deadline: Option<Timestamp>,
    rate_hz: f64,
    longest_wait: Duration,
    sink: &mut dyn EventSink,
) -> io::Result<(StopReason, Timestamp)> {
    let mut pace = Pace::new(opened.samples.usual, rate_hz, opened.choice.unit(), longest_wait);
    let mut completion = sink.completion(Role::Running);
    let mut look = Look::default();
    let mut larger_stacks = LargerStacks::new(Role::Running, completion.beyond_sample);
    let mut larger_wait_stacks = LargerStacks::new(Role::WaitStack, sink.completion(Role::WaitStack).beyond_sample);
    let mut queue = BinaryHeap::new();
    let mut interrupts = 0;
    let mut points = PointLimit::new(monotonic_ns());
    let mut stack_limit = StackLimit::new(rate_hz, monotonic_ns());
    let mut usage = Usage::default();
    let stop = loop {
        let now = monotonic_ns();
        let round = pace.round();
        let left = deadline.map_or(round, |end| Duration::from_nanos(end.0.saturating_sub(now)).min(round));
        let signals_fd = signals.fd();
        let [ended, signalled] = match watched.pidfd() {
            Some(pidfd) => signals::wait_readable([pidfd.as_fd(), signals_fd], left)?,
            None => signals::wait_readable([signals_fd], left).map(|[signalled]| [false, signalled])?,
        };
        if ended && watched.one_has_ended() {
            break stop_at_end(signals, interrupts);
        }
        if signalled && let Some(stop) = take_signals(signals, &mut interrupts, watched.program()) {
            break stop;
        }
        let woken = monotonic_ns();
        if deadline.is_some_and(|end| woken >= end.0) {
            break StopReason::Duration;
        }
        if let Some(seen) = look.take(&pace, opened, translator, sink) {
            let took = Duration::from_nanos(monotonic_ns().saturating_sub(woken));
            let late = Duration::from_nanos(woken.saturating_sub(now)).saturating_sub(left);
            pace.looked(seen, late, took);
            continue;
        }
        points.allow(woken);
        let until_ns = woken.saturating_sub(SETTLE_NS);
        let taken = drain(opened, translator, &mut queue, &mut points, until_ns, sink);
        if !matches!(watched, Watched::Machine) {
            unrecorded.look(Timestamp(until_ns), translator, sink);
        }
        let mut report = |message: Message| message.deliver(sink);
        usage.look(translator.live_processes(), &mut report);
        sink.end_round(Timestamp(until_ns));
        let switched = stack_limit.after(taken.wait_stacks, woken);
        if let Some(on) = switched {
            opened.events.switch(Role::WaitStack, on)?;
        }
        let before = std::mem::replace(&mut completion, sink.completion(Role::Running));
        let deep_stacks = completion.beyond_sample.saturating_sub(before.beyond_sample);
        let switched_bytes = larger_stacks.after(taken.samples, completion.beyond_sample, false, opened, translator);
        let deep_waits = sink.completion(Role::WaitStack).beyond_sample;
        let are_too_many = stack_limit.was_reached();
        let other_waits = larger_wait_stacks.after(taken.wait_stacks, deep_waits, are_too_many, opened, translator);
        let took = Duration::from_nanos(monotonic_ns().saturating_sub(woken));
        let found = Found {
            records: taken.records,
            samples: taken.samples,
            others: taken.others,
            deep_stacks,
            changed: completion.changed.saturating_sub(before.changed),
            read_first: completion.read_first.saturating_sub(before.read_first),
            fill: taken.fill,
            late: Duration::from_nanos(woken.saturating_sub(now)).saturating_sub(left),
        };
        match switched_bytes {
            Some(bytes) => pace.switch(bytes, took),
            None => pace.next(found, took),
        }
        if switched == Some(true) || other_waits.is_some() {
            pace.at_most(ROUND_FOR_MANY_WAITS, took);
        }
        if points.are_many() {
            pace.at_most(ROUND_FOR_MANY_POINTS, took);
        }
    };
    for event in opened.events.since(0) {
        event.disable()?;
    }
    let end = Timestamp(monotonic_ns());
    drain(opened, translator, &mut queue, &mut points, u64::MAX, sink);
    if !matches!(watched, Watched::Machine) {
        unrecorded.look(end, translator, sink);
    }
    report_corruption(opened, end, sink);
    Ok((stop, end))
}

/// What a round took from the rings.
#[derive(Clone, Copy, Default)]
struct Taken {
    records: u64,
    /// Of these, the ones that are no samples, and for which a file may have to be opened.
    others: u64,
    /// And the samples of the event that samples.
    samples: u64,
    wait_stacks: u64,
    /// How full the fullest ring was.
    fill: f64,
}

fn drain(
    opened: &mut Opened,
    translator: &mut Translator,
    queue: &mut BinaryHeap<Reverse<(u64, usize)>>,
    points: &mut PointLimit,
    until_ns: u64,
    sink: &mut dyn EventSink,
) -> Taken {
    let mut taken = Taken::default();
    for ring in &mut opened.rings {
        ring.refresh();
        taken.fill = taken.fill.max(ring.fill());
    }
    let Opened {
        rings,
        roles,
        events,
        origins,
        ..
    } = opened;
    taken.records = merge::drain(rings, until_ns, queue, &mut |ring, due| {
        let Due { time, record, after } = due;
        let role = roles[ring];
        if role == Role::Running
            && let Some((start, copied)) = translator.copied_stack(after)
        {
            sink.comes_later(start, copied);
        }
        match decode::is_sample(record) {
            true => taken.samples += u64::from(role == Role::Running),
            false => taken.others += u64::from(!decode::opens_no_file(record)),
        }
        if matches!(role, Role::Counted | Role::Point) {
            if origins.as_mut().is_none_or(|origins| origins.counts(time, record))
                && let Some(event) = events.event_of(role, record)
            {
                points.take(time, record, &event, translator, sink);
            }
            return;
        }
        if role == Role::WaitStack {
            // An idle CPU waits for nothing, and its stacks are not to be unwound.
            if decode::origin(record).is_some_and(|origin| origin.tid == 0) {
                return;
            }
            taken.wait_stacks += 1;
        }
        if origins.as_mut().is_none_or(|origins| origins.counts(time, record)) {
            translator.record(time, record, role, sink);
        }
    });
    points.report(translator, sink);
    taken
}

/// Reports losses that no record reported: those at the very end, after which nothing more was written.
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

fn report_corruption(opened: &Opened, time: Timestamp, sink: &mut dyn EventSink) {
    for ring in &opened.rings {
        for _ in 0..ring.corrupted {
            let what = RecordingEvent::Malformed("ring contents dropped");
            sink.on_event(&Event::recording(time, what));
        }
    }
}
