//! Counts threads on a CPU, from all switches.

use recording::event::{EventKind, Pid, ProcessEvent, Role, Thread, ThreadEvent, Tid};
use rustc_hash::FxHashMap;

use crate::data::RunningFacts;

/// Most steps that are kept. A file has about four bytes of each, in gzip.
const MOST_STEPS: usize = 100_000;
/// Times of files have six decimals of a millisecond, those of samples three.
const FINEST_CELL_NS: i64 = 1000;

/// What a thread does, by its switches.
#[derive(Clone, Copy, Debug, PartialEq)]
enum ThreadPlace {
    /// It was not switched since this time: it runs or waits.
    Unswitched {
        since: i64,
    },
    OnCpu,
    /// It lost its CPU and could go on.
    Ready,
    Waiting,
    Ended,
}

/// The numbers of threads from a time on.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct RunningStep {
    start: i64,
    running: u32,
    ready: u32,
}

/// The numbers of threads on a CPU, and of those that lost theirs, over time.
#[derive(Clone, Default)]
pub(super) struct RunningCount {
    places: FxHashMap<Pid, FxHashMap<Tid, ThreadPlace>>,
    /// Ascending.
    steps: Vec<RunningStep>,
    /// Steps within a cell of this length have the right lengths, but not their order.
    cell_ns: i64,
    has_switches: bool,
}

impl RunningCount {
    pub(super) fn on_event(&mut self, at: i64, event: &EventKind<'_>) {
        match event {
            EventKind::Process(pid, ProcessEvent::Start { .. }) => self.start(Thread::main(*pid), at),
            EventKind::Process(pid, ProcessEvent::End) => self.end_process(*pid, at),
            EventKind::Thread(thread, ThreadEvent::Start) => self.start(*thread, at),
            EventKind::Thread(thread, ThreadEvent::InitialState(_)) => self.start(*thread, at),
            EventKind::Thread(thread, ThreadEvent::End) => self.go(*thread, at, ThreadPlace::Ended),
            EventKind::Thread(thread, ThreadEvent::SwitchIn) => {
                self.has_switches = true;
                self.go(*thread, at, ThreadPlace::OnCpu);
            }
            EventKind::Thread(thread, ThreadEvent::SwitchOut { preempted }) => {
                self.has_switches = true;
                self.was_on_cpu(*thread, at);
                let place = if *preempted {
                    ThreadPlace::Ready
                } else {
                    ThreadPlace::Waiting
                };
                self.go(*thread, at, place);
            }
            EventKind::Thread(thread, ThreadEvent::Sample(sample)) if sample.role == Role::Running => {
                self.was_on_cpu(*thread, at);
            }
            _ => {}
        }
    }

    fn start(&mut self, thread: Thread, at: i64) {
        let place = ThreadPlace::Unswitched { since: at.max(0) };
        self.places.entry(thread.pid).or_default().insert(thread.tid, place);
    }

    fn place(&mut self, thread: Thread) -> &mut ThreadPlace {
        let of_process = self.places.entry(thread.pid).or_default();
        of_process
            .entry(thread.tid)
            .or_insert(ThreadPlace::Unswitched { since: 0 })
    }

    /// A thread that was not switched has been on a CPU all the time.
    fn was_on_cpu(&mut self, thread: Thread, at: i64) {
        let place = self.place(thread);
        if let ThreadPlace::Unswitched { since } = *place {
            *place = ThreadPlace::OnCpu;
            let from = since.min(at);
            let first = self.steps.partition_point(|step| step.start < from);
            let before = first.checked_sub(1).map_or(RunningStep::default(), |at| self.steps[at]);
            if self.steps.get(first).is_none_or(|step| step.start != from) {
                self.steps.insert(first, RunningStep { start: from, ..before });
            }
            self.steps[first..].iter_mut().for_each(|step| step.running += 1);
        }
    }

    fn go(&mut self, thread: Thread, at: i64, to: ThreadPlace) {
        let from = std::mem::replace(self.place(thread), to);
        // The rest of an exit comes after the end.
        if from == ThreadPlace::Ended {
            *self.place(thread) = from;
            return;
        }
        let [running, ready] =
            [ThreadPlace::OnCpu, ThreadPlace::Ready].map(|place| i32::from(to == place) - i32::from(from == place));
        if (running, ready) != (0, 0) {
            self.change(at, running, ready);
        }
    }

    fn end_process(&mut self, pid: Pid, at: i64) {
        let threads = self
            .places
            .get(&pid)
            .map(|places| places.keys().copied().collect::<Vec<_>>());
        for tid in threads.unwrap_or_default() {
            self.go(Thread { pid, tid }, at, ThreadPlace::Ended);
        }
    }

    fn change(&mut self, at: i64, running: i32, ready: i32) {
        let last = self.steps.last().copied().unwrap_or_default();
        let next = RunningStep {
            start: at.max(last.start).max(0),
            running: last.running.saturating_add_signed(running),
            ready: last.ready.saturating_add_signed(ready),
        };
        match self.steps.last_mut() {
            Some(last) if last.start == next.start => *last = next,
            _ => self.steps.push(next),
        }
        while self.steps.len() > MOST_STEPS {
            self.cell_ns = self.cell_ns.max(FINEST_CELL_NS) * 4;
            self.sort_in_cells();
        }
    }

    /// Puts the parts of each cell with the same numbers together. The last step goes on.
    fn sort_in_cells(&mut self) {
        let (cell, steps) = (self.cell_ns, std::mem::take(&mut self.steps));
        let mut parts: Vec<(u32, u32, i64)> = Vec::new();
        let mut put = |mut start: i64, parts: &mut Vec<(u32, u32, i64)>| {
            parts.sort_unstable();
            for (running, ready, ns) in parts.drain(..) {
                let is_same = |step: &RunningStep| (step.running, step.ready) == (running, ready);
                if !self.steps.last().is_some_and(is_same) {
                    self.steps.push(RunningStep { start, running, ready });
                }
                start += ns;
            }
        };
        // Of the cell that is being filled.
        let mut cell_start = steps.first().map_or(0, |step| step.start);
        for pair in steps.windows(2) {
            let RunningStep { start, running, ready } = pair[0];
            let (mut from, next) = (start, pair[1]);
            while from < next.start {
                let cell_end = cell_start - cell_start.rem_euclid(cell) + cell;
                // Whole cells of one step stay together.
                let to = match from == cell_start && parts.is_empty() && next.start > cell_end {
                    true => next.start - next.start.rem_euclid(cell),
                    false => next.start.min(cell_end),
                };
                let same = parts.iter_mut().find(|part| (part.0, part.1) == (running, ready));
                match same {
                    Some(part) => part.2 += to - from,
                    None => parts.push((running, ready, to - from)),
                }
                from = to;
                if to >= cell_end {
                    put(cell_start, &mut parts);
                    cell_start = to;
                }
            }
        }
        put(cell_start, &mut parts);
        self.steps.extend(steps.last());
    }

    /// The numbers up to the end of the recording; `None` if no switch came.
    pub(super) fn finish(mut self, end: i64) -> Option<RunningFacts> {
        if !self.has_switches {
            return None;
        }
        self.steps.retain(|step| step.start < end);
        if self.steps.first().is_none_or(|step| step.start > 0) {
            self.steps.insert(0, RunningStep::default());
        }
        let ends = self.steps.iter().skip(1).map(|step| step.start).chain([end]);
        let lasted = self.steps.iter().zip(ends);
        Some(RunningFacts {
            cell_ns: self.cell_ns.max(FINEST_CELL_NS).unsigned_abs(),
            lasted_ns: lasted
                .map(|(step, end)| (end - step.start.max(0)).max(0).unsigned_abs())
                .collect(),
            running: self.steps.iter().map(|step| step.running).collect(),
            ready: self.steps.iter().map(|step| step.ready).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SWITCH_OUT: ThreadEvent<'_> = ThreadEvent::SwitchOut { preempted: false };

    fn count(events: &[(i64, i32, ThreadEvent<'_>)]) -> RunningCount {
        let mut count = RunningCount::default();
        for (at, tid, what) in events {
            count.on_event(*at, &EventKind::Thread(Thread::new(1, *tid), *what));
        }
        count
    }

    #[test]
    fn threads_count_from_their_first_switch_and_before_it_if_that_was_away() {
        let events = [
            (0, 1, ThreadEvent::Start),
            (100, 2, ThreadEvent::Start),
            (200, 2, ThreadEvent::SwitchIn),
            (300, 1, ThreadEvent::SwitchOut { preempted: true }),
            (400, 1, ThreadEvent::SwitchIn),
            (500, 2, SWITCH_OUT),
            // The rest of an exit.
            (600, 2, ThreadEvent::End),
            (700, 2, ThreadEvent::SwitchOut { preempted: true }),
        ];
        let facts = count(&events).finish(1000).unwrap();
        assert_eq!(facts.lasted_ns, [200, 100, 100, 100, 500]);
        assert_eq!(facts.running, [1, 2, 1, 2, 1]);
        assert_eq!(facts.ready, [0, 0, 1, 0, 0]);
    }

    #[test]
    fn a_lost_switch_is_mended_by_the_next_one() {
        let events = [
            (100, 1, ThreadEvent::SwitchIn),
            (200, 1, ThreadEvent::SwitchIn),
            (300, 1, SWITCH_OUT),
            (400, 1, SWITCH_OUT),
        ];
        let facts = count(&events).finish(500).unwrap();
        let running_ns: u64 = facts
            .lasted_ns
            .iter()
            .zip(&facts.running)
            .map(|(ns, of)| ns * u64::from(*of))
            .sum();
        assert_eq!(running_ns, 200);
    }

    #[test]
    fn many_switches_keep_their_sums() {
        let mut count = RunningCount::default();
        let (mut at, mut random, mut truth) = (0i64, 7u64, FxHashMap::<u32, i64>::default());
        let mut places = [false; 4];
        for _ in 0..300_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (thread, ns) = ((random >> 60) as usize % 4, ((random >> 33) % 5000) as i64);
            let running = places.iter().filter(|place| **place).count() as u32;
            *truth.entry(running).or_default() += ns;
            at += ns;
            places[thread] = !places[thread];
            let what = if places[thread] {
                ThreadEvent::SwitchIn
            } else {
                SWITCH_OUT
            };
            count.on_event(at, &EventKind::Thread(Thread::new(1, thread as i32 + 1), what));
            assert!(count.steps.len() <= MOST_STEPS);
        }
        assert!(count.steps.is_sorted_by_key(|step| step.start));
        let facts = count.finish(at).unwrap();
        assert!(facts.cell_ns > 1000);
        let mut found: FxHashMap<u32, i64> = FxHashMap::default();
        for (ns, running) in facts.lasted_ns.iter().zip(&facts.running) {
            *found.entry(*running).or_default() += *ns as i64;
        }
        found.retain(|_, ns| *ns > 0);
        assert_eq!(found, truth);
    }
}
