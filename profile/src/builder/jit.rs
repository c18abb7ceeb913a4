//! Gives code without a file its place in a module, once the code at each address and time is known.
//!
//! JIT compilers write their jitdump with delay, some only when they end. So frames in such code are kept by address,
//! and resolved by the time of each sample when all is known.

use std::sync::Arc;

use recording::clock::Timestamp;
use recording::event::Pid;
use recording::module::Module;
use rustc_hash::{FxHashMap, FxHashSet};

use super::Builder;
use crate::recorded::stacks::StackId;
use crate::recorded::tables::FrameId;
use crate::recorded::thread::MarkerKind;

/// A process: a pid, and the time in which the process had it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PidLifetime {
    /// The number.
    pub pid: Pid,
    /// Time of the first event of the process.
    pub from: Timestamp,
    /// Its end; the end of time if it has not ended.
    pub until: Timestamp,
}

/// A place in a module of JIT code.
#[derive(Clone, Debug, PartialEq)]
pub struct CodePlace {
    /// The module.
    pub module: Arc<Module>,
    /// Relative address in it.
    pub address: u64,
    /// False if it is unknown whether this code was there at that time.
    pub time_is_known: bool,
}

/// Code at an address from a time on; `None` for unknown code.
pub type CodeSince = (Timestamp, Option<CodePlace>);

/// The new stack for an old one, and the times for which it holds.
#[derive(Clone, Copy)]
struct RelocatedStack {
    from: u64,
    until: u64,
    stack: StackId,
    time_is_known: bool,
}

/// One process's frames in code of no file.
struct JitFrames<'a> {
    addresses: &'a FxHashMap<FrameId, u64>,
    histories: FxHashMap<u64, Vec<CodeSince>>,
    placed: FxHashMap<StackId, RelocatedStack>,
    path: Vec<StackId>,
}

impl Builder {
    /// Gives the frames in code of no file their places, for all samples so far.
    pub(super) fn place_jit(&mut self, mut histories: impl FnMut(PidLifetime, &[u64]) -> Vec<Vec<CodeSince>>) {
        let nameless = self.resolver.nameless();
        for index in 0..self.processes.processes.len() {
            let process = &self.processes.processes[index];
            if !process.code.has_nameless_code {
                continue;
            }
            let lifetime = PidLifetime {
                pid: Pid(process.pid),
                from: self.instant(process.start),
                until: process.end.map_or(Timestamp(u64::MAX), |end| self.instant(end)),
            };
            let threads = process.threads.clone();
            let addresses = self.addresses_in(index, &threads, &nameless);
            let answers = histories(lifetime, &addresses);
            if answers.len() != addresses.len() || answers.iter().all(Vec::is_empty) {
                continue;
            }
            let mut frames = JitFrames {
                addresses: &nameless,
                histories: addresses.into_iter().zip(answers).collect(),
                placed: FxHashMap::default(),
                path: Vec::new(),
            };
            let heap = std::mem::take(&mut self.processes.processes[index].heap.rows);
            let mapped = heap.map_stacks_at(|at, stack| {
                let time = self.instant(at).0;
                self.place(&mut frames, stack, time).stack
            });
            self.processes.processes[index].heap.rows = mapped;
            for thread in threads {
                let samples = std::mem::take(&mut self.processes.threads[thread].samples);
                let mapped = samples.map_stacks_at(|at, stack| {
                    let time = self.instant(at).0;
                    let placed = self.place(&mut frames, stack, time);
                    self.counts.samples_named_without_time += u64::from(!placed.time_is_known);
                    placed.stack
                });
                self.processes.threads[thread].samples = mapped;
                let mut markers = std::mem::take(&mut self.processes.threads[thread].markers);
                for marker in &mut markers {
                    let time = self.instant(marker.start).0;
                    if let MarkerKind::Point(point) = &mut marker.what
                        && let Some(stack) = point.stack
                    {
                        point.stack = Some(self.place(&mut frames, stack, time).stack);
                    }
                }
                self.processes.threads[thread].markers = markers;
            }
        }
    }

    /// The addresses of all frames in code of no file in the stacks of a process with these threads, ascending, each
    /// once.
    fn addresses_in(&self, process: usize, threads: &[usize], nameless: &FxHashMap<FrameId, u64>) -> Vec<u64> {
        let mut seen = FxHashSet::default();
        let mut addresses = Vec::new();
        let mut add = |stack: Option<StackId>| {
            let mut next = stack;
            while let Some(stack) = next.filter(|stack| seen.insert(*stack)) {
                addresses.extend(nameless.get(&self.stacks.frame(stack)));
                next = self.stacks.prefix(stack);
            }
        };
        let blocks = self.processes.processes[process].heap.rows.iter();
        blocks.for_each(|block| add(block.taken.and_then(|taken| taken.stack)));
        for thread in threads {
            let thread = &self.processes.threads[*thread];
            let of_samples = thread.samples.iter().map(|sample| sample.stack);
            let of_markers = thread.markers.iter().map(|marker| match &marker.what {
                MarkerKind::Point(point) => point.stack,
                _ => None,
            });
            of_samples.chain(of_markers).for_each(&mut add);
        }
        addresses.sort_unstable();
        addresses.dedup();
        addresses
    }

    /// The stack in which code of this time replaces addresses.
    fn place(&mut self, frames: &mut JitFrames<'_>, stack: StackId, time: u64) -> RelocatedStack {
        // First goes rootwards to a caller that is known for this time, then leafwards.
        let mut path = std::mem::take(&mut frames.path);
        path.clear();
        let mut next = Some(stack);
        let mut known = None;
        while let Some(stack) = next {
            let placed = frames.placed.get(&stack);
            known = placed
                .filter(|placed| (placed.from..placed.until).contains(&time))
                .copied();
            if known.is_some() {
                break;
            }
            path.push(stack);
            next = self.stacks.prefix(stack);
        }
        for stack in path.drain(..).rev() {
            let frame = self.stacks.frame(stack);
            let (new_frame, from, until, time_is_known) = self.frame_at(frames, frame, time);
            let placed = RelocatedStack {
                from: known.map_or(from, |known| known.from.max(from)),
                until: known.map_or(until, |known| known.until.min(until)),
                stack: self.stacks.intern(known.map(|known| known.stack), new_frame),
                time_is_known: time_is_known && known.is_none_or(|known| known.time_is_known),
            };
            frames.placed.insert(stack, placed);
            known = Some(placed);
        }
        frames.path = path;
        known.unwrap_or(RelocatedStack {
            from: time,
            until: time,
            stack,
            time_is_known: true,
        })
    }

    /// The frame that replaces a frame at a time, the first and last time for which it does, and whether that is known.
    fn frame_at(&mut self, frames: &JitFrames<'_>, frame: FrameId, time: u64) -> (FrameId, u64, u64, bool) {
        let Some(history) = frames
            .addresses
            .get(&frame)
            .and_then(|address| frames.histories.get(address))
        else {
            return (frame, 0, u64::MAX, true);
        };
        let after = history.partition_point(|(from, _)| from.0 <= time);
        let until = history.get(after).map_or(u64::MAX, |(from, _)| from.0);
        match after.checked_sub(1).and_then(|at| history.get(at)) {
            Some((from, Some(place))) => {
                let new = self.resolver.frame_in(&place.module, place.address, &mut self.strings);
                (new, from.0, until, place.time_is_known)
            }
            Some((from, None)) => (frame, from.0, until, true),
            None => (frame, 0, until, true),
        }
    }
}
