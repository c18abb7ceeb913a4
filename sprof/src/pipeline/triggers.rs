//! `--trigger`: notices what the user waits for, in the events of the recording and between its rounds.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use profile::text::numbers::grouped;
use profile::window::MOST_ROUND_NS;
use recording::clock::Timestamp;
use recording::counter::Counter;
use recording::event::{Event, EventKind, Pid, ProcessEvent, ThreadEvent};
use recording::sink::{Completion, EventSink};
use signal_hook::consts::SIGUSR2;
use signal_hook::flag;

use super::RecordingStages;
use super::trigger_files::TriggerFiles;
use super::window::TriggerMoment;
use crate::args::{Trigger, TriggerWhen};
use crate::exit::Failure;

/// CPU time is compared over this time: readings of it are 50 ms apart.
const CPU_OVER_NS: u64 = 1_000_000_000;

/// Watches for all triggers of a recording.
#[derive(Debug)]
pub(crate) struct TriggerWatch {
    triggers: Vec<WatchedTrigger>,
    signal: Arc<AtomicBool>,
    /// The programs of processes.
    names: HashMap<Pid, String>,
    cpu_ns: HashMap<Pid, u64>,
    /// CPU time since `cpu_since`.
    cpu_sum_ns: u64,
    cpu_since: Option<Timestamp>,
    memory: HashMap<Pid, u64>,
    /// The moments of the last seconds. Profiles have markers of them.
    moments: VecDeque<TriggerMoment>,
}

#[derive(Debug)]
struct WatchedTrigger {
    when: TriggerWhen,
    words: Arc<str>,
    /// True while the file is there, or the bound is exceeded: a trigger comes when that begins.
    holds: bool,
    /// Moments since its last file, and the latest of them.
    without_file: u64,
    latest: Timestamp,
    /// It has no file before this time.
    paused_until: Timestamp,
}

impl WatchedTrigger {
    fn come(&mut self, time: Timestamp, moments: &mut VecDeque<TriggerMoment>) {
        self.without_file += 1;
        self.latest = time;
        moments.push_back((time, self.words.clone()));
    }
}

impl TriggerWatch {
    /// Handles SIGUSR2 from here on, if a trigger is the signal.
    pub(crate) fn new(triggers: &[Trigger]) -> Result<TriggerWatch, Failure> {
        let signal = Arc::new(AtomicBool::new(false));
        if triggers.iter().any(|trigger| trigger.when == TriggerWhen::Signal) {
            flag::register(SIGUSR2, signal.clone())
                .map_err(|error| Failure::failed(format_args!("cannot watch for SIGUSR2: {error}")))?;
        }
        let watched = triggers.iter().map(|trigger| WatchedTrigger {
            when: trigger.when.clone(),
            words: trigger.words.as_str().into(),
            // A file that is there does not appear.
            holds: matches!(&trigger.when, TriggerWhen::File(path) if path.exists()),
            without_file: 0,
            latest: Timestamp(0),
            paused_until: Timestamp(0),
        });
        Ok(TriggerWatch {
            triggers: watched.collect(),
            signal,
            names: HashMap::new(),
            cpu_ns: HashMap::new(),
            cpu_sum_ns: 0,
            cpu_since: None,
            memory: HashMap::new(),
            moments: VecDeque::new(),
        })
    }

    fn note(&mut self, event: &Event<'_>) {
        match event.kind {
            EventKind::Process(pid, what) => self.process(event.time, pid, what),
            EventKind::Thread(thread, ThreadEvent::Name(name)) if thread.is_main() => {
                self.names.insert(thread.pid, name.to_owned());
            }
            EventKind::Thread(_, ThreadEvent::Span(span)) => {
                let length_ns = span.began.map_or(0, |began| event.time.nanos_since(began));
                self.come(event.time, |when| {
                    matches!(when, TriggerWhen::Span { name, longer_than_ns }
                        if name == span.name && length_ns > *longer_than_ns)
                });
            }
            _ => {}
        }
    }

    fn process(&mut self, time: Timestamp, pid: Pid, what: ProcessEvent<'_>) {
        match what {
            ProcessEvent::Start { parent: Some(parent) } => {
                if let Some(name) = self.names.get(&parent).cloned() {
                    self.names.insert(pid, name);
                }
                // Processes that ran before come before the first round. Their earlier CPU time does not count.
                if self.cpu_since.is_some() {
                    self.cpu_ns.insert(pid, 0);
                }
            }
            ProcessEvent::Exec(name) => {
                self.come(
                    time,
                    |when| matches!(when, TriggerWhen::Start(program) if program == name),
                );
                self.names.insert(pid, name.to_owned());
                self.memory.remove(&pid);
            }
            ProcessEvent::End => {
                self.cpu_ns.remove(&pid);
                self.memory.remove(&pid);
                if let Some(name) = self.names.remove(&pid) {
                    self.come(
                        time,
                        |when| matches!(when, TriggerWhen::End(program) if *program == name),
                    );
                }
            }
            ProcessEvent::Counter(Counter::CpuNanoseconds, value) => {
                let before = self.cpu_ns.insert(pid, value).unwrap_or(value);
                self.cpu_sum_ns += value.saturating_sub(before);
            }
            ProcessEvent::Counter(Counter::ResidentBytes, value) => {
                self.memory.insert(pid, value);
            }
            _ => {}
        }
    }

    fn come(&mut self, time: Timestamp, is_it: impl Fn(&TriggerWhen) -> bool) {
        for watched in self.triggers.iter_mut().filter(|watched| is_it(&watched.when)) {
            watched.come(time, &mut self.moments);
        }
    }

    /// Notices what is not in events. All events before this time have come.
    fn end_round(&mut self, until: Timestamp, window_ns: u64) {
        // In the first round, the process of the program is still a copy of sprof, with its memory.
        let has_begun = self.cpu_since.is_some();
        let elapsed_ns = until.nanos_since(*self.cpu_since.get_or_insert(until));
        let percent = (elapsed_ns >= CPU_OVER_NS).then(|| {
            self.cpu_since = Some(until);
            std::mem::take(&mut self.cpu_sum_ns) as f64 * 100.0 / elapsed_ns as f64
        });
        let memory: u64 = self.memory.values().sum();
        for watched in &mut self.triggers {
            let now = match &watched.when {
                TriggerWhen::Signal => {
                    watched.holds = false;
                    self.signal.swap(false, Ordering::Relaxed)
                }
                TriggerWhen::File(path) => path.exists(),
                TriggerWhen::Cpu { percent: bound } => percent.map_or(watched.holds, |percent| percent > *bound),
                TriggerWhen::Memory { bytes } => has_begun && memory > *bytes,
                TriggerWhen::Start(_) | TriggerWhen::End(_) | TriggerWhen::Span { .. } => false,
            };
            if now && !watched.holds {
                watched.come(until, &mut self.moments);
            }
            watched.holds = now;
        }
        // The window of a file may begin a round earlier.
        let kept_ns = window_ns.saturating_add(MOST_ROUND_NS);
        let is_old = |(time, _): &mut TriggerMoment| until.nanos_since(*time) > kept_ns;
        while self.moments.pop_front_if(is_old).is_some() {}
    }

    /// True if a file is due: a trigger came that is not paused, and what led to it is in the window.
    fn is_due(&self, until: Timestamp, window_ns: u64) -> bool {
        self.triggers.iter().any(|watched| {
            watched.without_file > 0 && watched.paused_until <= until && until.nanos_since(watched.latest) <= window_ns
        })
    }

    /// The triggers that came since their last files, as text; `None` if there are none.
    pub(super) fn without_file(&self) -> Option<String> {
        let came = self.triggers.iter().filter(|watched| watched.without_file > 0);
        let words: Vec<String> = came
            .map(|watched| match watched.without_file {
                1 => watched.words.to_string(),
                times => format!("{} ({} times)", watched.words, grouped(times)),
            })
            .collect();
        (!words.is_empty()).then(|| words.join(", "))
    }

    /// A file has all triggers that came. They are paused, but for the signal: whoever sends one wants a file.
    fn has_file(&mut self, paused_until: Timestamp) {
        for watched in self.triggers.iter_mut().filter(|watched| watched.without_file > 0) {
            watched.without_file = 0;
            if watched.when != TriggerWhen::Signal {
                watched.paused_until = paused_until;
            }
        }
    }

    /// The moments of the last seconds.
    pub(super) fn into_moments(self) -> Vec<TriggerMoment> {
        self.moments.into()
    }
}

/// A stage in front of the others that watches, and has a profile written at each trigger.
pub(super) struct TriggerStage<'a, 'f> {
    pub(super) next: &'a mut RecordingStages<'f>,
    pub(super) watch: &'a mut TriggerWatch,
    pub(super) files: &'a mut TriggerFiles,
}

impl EventSink for TriggerStage<'_, '_> {
    fn on_event(&mut self, event: &Event<'_>) {
        self.watch.note(event);
        self.next.on_event(event);
    }

    fn end_round(&mut self, until: Timestamp) -> Completion {
        let completion = self.next.end_round(until);
        let window_ns = self.files.window_ns();
        self.watch.end_round(until, window_ns);
        if self.watch.is_due(until, window_ns)
            && let Some(words) = self.watch.without_file()
            && self.files.has_room(&words)
        {
            // What led to a trigger of an earlier round may be dropped.
            let latest = self.watch.moments.back().map_or(until, |(time, _)| *time);
            let end = latest.max(Timestamp(until.0.saturating_sub(MOST_ROUND_NS)));
            let moments = self.watch.moments.iter().cloned().collect();
            self.watch
                .has_file(Timestamp(until.0.saturating_add(self.files.pause_ns())));
            self.files.write(words, end, moments, until, self.next);
        }
        completion
    }
}

#[cfg(test)]
mod tests {
    use recording::event::Thread;
    use recording::span::Span;

    use super::*;

    const WINDOW_NS: u64 = 1_000;

    /// A watch of a span and of memory.
    fn watch() -> TriggerWatch {
        let span = TriggerWhen::Span {
            name: "a".into(),
            longer_than_ns: 5,
        };
        let triggers = [("span", span), ("memory", TriggerWhen::Memory { bytes: 10 })];
        let triggers = triggers.map(|(words, when)| Trigger {
            words: words.into(),
            when,
        });
        TriggerWatch::new(&triggers).unwrap()
    }

    fn span(watch: &mut TriggerWatch, at: u64, ns: u64) {
        let span = ThreadEvent::Span(Span::new("a", Some(Timestamp(at - ns))));
        watch.note(&Event::thread(Timestamp(at), Thread::new(1, 1), span));
    }

    fn memory(watch: &mut TriggerWatch, at: u64, bytes: u64) {
        let what = ProcessEvent::Counter(Counter::ResidentBytes, bytes);
        watch.note(&Event::process(Timestamp(at), Pid(1), what));
    }

    /// The triggers of the file of this round, after which comes a pause.
    fn file(watch: &mut TriggerWatch, until: u64, pause_ns: u64) -> Option<String> {
        watch.end_round(Timestamp(until), WINDOW_NS);
        let is_due = watch.is_due(Timestamp(until), WINDOW_NS);
        let words = watch.without_file().filter(|_| is_due)?;
        watch.has_file(Timestamp(until + pause_ns));
        Some(words)
    }

    #[test]
    fn what_comes_in_a_pause_is_counted_and_has_a_file_at_its_end() {
        let mut watch = watch();
        span(&mut watch, 2000, 6);
        span(&mut watch, 2001, 5);
        assert_eq!(file(&mut watch, 2002, WINDOW_NS).as_deref(), Some("span"));
        for at in [2100, 2200, 2300] {
            span(&mut watch, at, 6);
            assert_eq!(file(&mut watch, at, WINDOW_NS), None);
        }
        assert_eq!(file(&mut watch, 3001, WINDOW_NS), None);
        assert_eq!(file(&mut watch, 3002, WINDOW_NS).as_deref(), Some("span (3 times)"));
        assert_eq!(watch.without_file(), None);
        assert_eq!(file(&mut watch, 2_300 + WINDOW_NS + MOST_ROUND_NS, 0), None);
        let last = (Timestamp(2_300), "span".into());
        assert_eq!(watch.moments, [last]);
        assert_eq!(file(&mut watch, 2_301 + WINDOW_NS + MOST_ROUND_NS, 0), None);
        assert!(watch.into_moments().is_empty());
    }

    #[test]
    fn the_file_of_another_trigger_has_it_too_and_a_pause_that_is_longer_than_the_window_waits_for_the_next() {
        let mut watch = watch();
        span(&mut watch, 2000, 6);
        assert_eq!(file(&mut watch, 2000, 8000).as_deref(), Some("span"));
        span(&mut watch, 2500, 6);
        memory(&mut watch, 2600, 11);
        assert_eq!(file(&mut watch, 2600, 4000).as_deref(), Some("span, memory"));
        // It has to fall before it can come again.
        memory(&mut watch, 2700, 12);
        span(&mut watch, 2800, 6);
        assert_eq!(file(&mut watch, 2800, 0), None);
        assert_eq!(file(&mut watch, 6600, 0), None, "what led to it is gone");
        span(&mut watch, 6700, 6);
        assert_eq!(file(&mut watch, 6700, 0).as_deref(), Some("span (2 times)"));
    }
}
