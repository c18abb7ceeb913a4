//! `--trigger`: notices what the user waits for, in the events of the recording and between its rounds.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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

/// All triggers, and what they compare.
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
    /// Came since the last round.
    came: Vec<TriggerMoment>,
}

#[derive(Debug)]
struct WatchedTrigger {
    trigger: Trigger,
    /// True while the file is there, or the bound is exceeded: a trigger comes when that begins.
    holds: bool,
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
            trigger: trigger.clone(),
            // A file that is there does not appear.
            holds: matches!(&trigger.when, TriggerWhen::File(path) if path.exists()),
        });
        Ok(TriggerWatch {
            triggers: watched.collect(),
            signal,
            names: HashMap::new(),
            cpu_ns: HashMap::new(),
            cpu_sum_ns: 0,
            cpu_since: None,
            memory: HashMap::new(),
            came: Vec::new(),
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
            }
            ProcessEvent::Exec(name) => {
                self.come(
                    time,
                    |when| matches!(when, TriggerWhen::Start(program) if program == name),
                );
                self.names.insert(pid, name.to_owned());
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
        let came = self.triggers.iter().filter(|watched| is_it(&watched.trigger.when));
        self.came
            .extend(came.map(|watched| (time, watched.trigger.words.clone())));
    }

    /// The triggers that came up to the end of this round.
    fn take(&mut self, until: Timestamp) -> Vec<TriggerMoment> {
        let elapsed_ns = until.nanos_since(*self.cpu_since.get_or_insert(until));
        let percent = (elapsed_ns >= CPU_OVER_NS).then(|| {
            self.cpu_since = Some(until);
            std::mem::take(&mut self.cpu_sum_ns) as f64 * 100.0 / elapsed_ns as f64
        });
        let memory: u64 = self.memory.values().sum();
        let mut came = std::mem::take(&mut self.came);
        for WatchedTrigger { trigger, holds } in &mut self.triggers {
            let now = match &trigger.when {
                TriggerWhen::Signal => {
                    *holds = false;
                    self.signal.swap(false, Ordering::Relaxed)
                }
                TriggerWhen::File(path) => path.exists(),
                TriggerWhen::Cpu { percent: bound } => percent.map_or(*holds, |percent| percent > *bound),
                TriggerWhen::Memory { bytes } => memory > *bytes,
                TriggerWhen::Start(_) | TriggerWhen::End(_) | TriggerWhen::Span { .. } => false,
            };
            if now && !*holds {
                came.push((until, trigger.words.clone()));
            }
            *holds = now;
        }
        came
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
        let came = self.watch.take(until);
        if !came.is_empty() {
            self.files.write(came, until, self.next);
        }
        completion
    }
}
