//! The events of the last seconds: what a builder makes of them is what it makes of a recording of that time.

use std::time::Duration;

use crate::common::*;
use profile::builder::{BuildOptions, Builder};
use profile::window::{EventWindow, WindowSnapshot};
use recording::clock::{ClockReference, Timestamp};
use recording::event::{
    Event, EventKind, InitialState, Pid, ProcessEvent, RecordingEvent, Role, Sample, Thread, ThreadEvent,
};
use recording::quality::Quality;
use recording::sink::{Completion, EventSink};
use recording::span::Span;
use recording::stack::{Frame, Stack};
use recording::wait::WaitReason;
use serde_json::Value;

const FROM: u64 = 9_000;
const UNTIL: u64 = 10_000;

/// A window, and a builder that gets what comes after [`FROM`] alone.
struct Both {
    window: EventWindow,
    longer: EventWindow,
    later: Builder,
    largest: usize,
}

impl Both {
    fn event(&mut self, ms: u64, event: Event<'_>) {
        self.window.on_event(&event);
        self.longer.on_event(&event);
        if ms >= FROM {
            self.later.on_event(&event);
        }
    }

    fn sample(&mut self, ms: u64, thread: Thread, role: Role, frames: &[Frame]) {
        let sample = Sample::new(role, MS, Stack::Frames(frames));
        self.event(ms, Event::sample(at(ms), thread, sample));
    }
}

struct CountEvents(usize);

impl EventSink for CountEvents {
    fn on_event(&mut self, _: &Event<'_>) {
        self.0 += 1;
    }

    fn end_round(&mut self, _: Timestamp) -> Completion {
        Completion::default()
    }
}

/// The times of samples.
struct Samples(Vec<Timestamp>);

impl EventSink for Samples {
    fn on_event(&mut self, event: &Event<'_>) {
        if matches!(event.kind, EventKind::Thread(_, ThreadEvent::Sample(_))) {
            self.0.push(event.time);
        }
    }

    fn end_round(&mut self, _: Timestamp) -> Completion {
        Completion::default()
    }
}

fn clock_at(ms: u64) -> ClockReference {
    clock().later(at(ms))
}

fn figures(mut builder: Builder) -> (Value, String) {
    builder.mark_trigger(at(UNTIL), "signal");
    let mut info = info();
    info.end = at(UNTIL);
    let profile = builder.finish(info, Quality::default());
    let waits = format!("{:?} {:?}", profile.counts(), profile.waits());
    (written(&profile), waits)
}

#[test]
fn the_window_is_what_a_builder_makes_that_saw_nothing_else() {
    let [main, worker, late] = [(1, 1), (1, 2), (3, 3)].map(|(pid, tid)| Thread::new(pid, tid));
    let (shell, app, libc) = (
        image("/bin/sh", 0x1000, 0x1000),
        image("/opt/app", 0x1000, 0x1000),
        image("/lib/libc.so.6", 0x10_0000, 0x10000),
    );
    let start = |parent| ProcessEvent::Start { parent };
    // What a recorder finds at FROM: the program with its second thread, which waits, and no process that has ended.
    let mut later = Builder::new(clock_at(FROM), BuildOptions::default());
    later.on_event(&Event::process(at(0), Pid(1), start(None)));
    later.on_event(&Event::thread(at(0), main, ThreadEvent::Start));
    later.on_event(&Event::thread(at(5), worker, ThreadEvent::Start));
    later.on_event(&Event::thread(at(5), worker, ThreadEvent::Name("worker")));
    later.on_event(&Event::thread(at(0), main, ThreadEvent::Name("app")));
    for image in [&app, &libc] {
        later.on_event(&Event::process(at(FROM), Pid(1), ProcessEvent::Image(image)));
    }
    let waits = InitialState {
        switches_from: at(FROM),
        seen_at: at(FROM),
        waits_for: Some(WaitReason::Unknown),
    };
    let wait_stack = [ip(0x10_0040), ret(0x1101)];
    later.on_event(&Event::sample(
        at(FROM),
        worker,
        Sample::new(Role::WaitStack, 0, Stack::Frames(&wait_stack)),
    ));
    later.on_event(&Event::thread(at(FROM), main, ThreadEvent::SwitchIn));
    later.on_event(&Event::thread(at(FROM), worker, ThreadEvent::InitialState(waits)));

    let mut both = Both {
        window: EventWindow::new(Duration::from_millis(UNTIL - FROM), at(0)),
        longer: EventWindow::new(Duration::from_millis(5_000), at(0)),
        later,
        largest: 0,
    };
    both.event(0, Event::process(at(0), Pid(1), start(None)));
    both.event(0, Event::thread(at(0), main, ThreadEvent::Start));
    both.event(0, Event::process(at(0), Pid(1), ProcessEvent::Exec("sh")));
    both.event(0, Event::process(at(0), Pid(1), ProcessEvent::Image(&shell)));
    both.event(1, Event::process(at(1), Pid(1), ProcessEvent::Exec("app")));
    for image in [&app, &libc] {
        both.event(1, Event::process(at(1), Pid(1), ProcessEvent::Image(image)));
    }
    both.event(5, Event::thread(at(5), worker, ThreadEvent::Start));
    both.event(5, Event::thread(at(5), worker, ThreadEvent::Name("worker")));
    both.event(6, Event::thread(at(6), main, ThreadEvent::SwitchIn));
    both.event(6, Event::thread(at(6), worker, ThreadEvent::SwitchIn));
    for ms in 10..UNTIL {
        let frames = [ip(0x1100 + ms % 13), ret(0x1201 + ms % 5), ret(0x1301)];
        both.sample(ms, main, Role::Running, &frames);
        let pid = Pid(100 + (ms / 10) as i32);
        match ms % 10 {
            // Processes that come and go.
            0 => both.event(ms, Event::process(at(ms), pid, start(Some(Pid(1))))),
            5 => both.sample(ms, Thread::main(pid), Role::Running, &[ip(0x1100 + ms % 7)]),
            9 => both.event(ms, Event::process(at(ms), pid, ProcessEvent::End)),
            1 => {
                let span = Span::new("step", Some(at(ms - 1)));
                both.event(ms, Event::thread(at(ms), main, ThreadEvent::Span(span)));
            }
            _ => {}
        }
        match ms {
            8_500 => {
                both.sample(ms, worker, Role::WaitStack, &wait_stack);
                both.event(
                    ms,
                    Event::thread(at(ms), worker, ThreadEvent::SwitchOut { preempted: false }),
                );
            }
            9_500 => both.event(ms, Event::thread(at(ms), worker, ThreadEvent::SwitchIn)),
            9_600 => {
                both.event(ms, Event::process(at(ms), Pid(3), start(Some(Pid(1)))));
                both.event(ms, Event::process(at(ms), Pid(3), ProcessEvent::Exec("late")));
                both.sample(ms, late, Role::Running, &[ip(0x77)]);
            }
            9_700 => {
                both.event(ms, Event::recording(at(ms), RecordingEvent::Throttled));
            }
            _ => {}
        }
        if ms % 50 == 0 {
            let _ = both.window.end_round(at(ms));
            let _ = both.longer.end_round(at(ms));
            let mut count = CountEvents(0);
            both.window.snapshot(at(ms)).send(&mut count);
            both.largest = both.largest.max(count.0);
        }
    }
    let snapshot = both.window.snapshot(at(UNTIL));
    assert_eq!(snapshot.from(), Some(at(FROM)));
    let of = |snapshot: WindowSnapshot| {
        let mut builder = Builder::new(clock(), BuildOptions::default());
        builder.begin_at(at(FROM));
        snapshot.send(&mut builder);
        figures(builder)
    };
    let (window, later) = (of(snapshot), figures(both.later));
    assert_eq!(window.1, later.1);
    assert_eq!(window.0, later.0);
    assert!(window.0.to_string().contains("\"trigger\":\"signal\""));
    // The same events, kept since an earlier time.
    assert!(both.window.reaches(at(FROM)) && !both.window.reaches(at(FROM - 1_000)));
    assert!(of(both.longer.snapshot_since(at(FROM))) == later);
    // A second of 1.5 events a millisecond, however long it lasts.
    assert!(both.largest < 1_700, "{}", both.largest);
}

/// Rounds of 50 ms, each with a span first that came 400 ms late. A trigger was 30 ms before the end of its round.
#[test]
fn a_window_has_all_its_samples_though_spans_come_late() {
    let thread = Thread::new(1, 1);
    let length = Duration::from_millis(UNTIL - FROM);
    let mut window = EventWindow::new(length, at(0));
    for ms in 0..UNTIL {
        if ms % 50 == 0 && ms > 400 {
            let span = Span::new("late", Some(at(ms - 420)));
            window.on_event(&Event::thread(at(ms - 400), thread, ThreadEvent::Span(span)));
        }
        let frames = [ip(0x1100)];
        let sample = Sample::new(Role::Running, MS, Stack::Frames(&frames));
        window.on_event(&Event::sample(at(ms), thread, sample));
        if ms % 50 == 49 {
            let _ = window.end_round(at(ms));
        }
        if ms > FROM && ms % 150 == 149 {
            let end = ms - 30;
            let mut samples = Samples(Vec::new());
            window.snapshot(at(end)).send(&mut samples);
            let expected: Vec<Timestamp> = (end - (UNTIL - FROM)..=ms).map(at).collect();
            assert!(samples.0 == expected, "{} of {}", samples.0.len(), expected.len());
        }
    }
}
