//! The events that the user named: tracks for counting events, markers for points.
//!
//! A track stands beside its thread, as a thread of the same process, so that the front end shows its call tree.

use recording::event::{EventValue, Sample, Thread};
use recording::stack::Frame;

use super::Builder;
use super::processes::{LiveThread, Processes};
use crate::recorded::samples;
use crate::recorded::thread::{MarkerKind, PointMarker, PointValue, RecordedMarker};

/// Most markers of points in a thread,
pub const POINTS_PER_THREAD: usize = 50_000;
/// and in all threads together. The front end's marker table becomes slow at some 100,000.
pub const POINTS_IN_ALL: u64 = 500_000;

impl Processes {
    /// The track of a named event beside a thread.
    fn track(&mut self, thread: usize, event: u32) -> &mut LiveThread {
        let known = self.tracks.get(&(thread, event)).copied();
        let track = known.unwrap_or_else(|| {
            let of = &self.threads[thread];
            let track = LiveThread {
                process: of.process,
                track_of: Some((thread, event)),
                start: of.start,
                ..LiveThread::default()
            };
            let index = self.threads.len();
            self.processes[track.process].threads.push(index);
            self.threads.push(track);
            self.tracks.insert((thread, event), index);
            index
        });
        &mut self.threads[track]
    }
}

impl Builder {
    /// Index in `threads` of the thread or CPU whose track a sample is on.
    fn track_index(&mut self, at: i64, thread: Thread, cpu: u32) -> usize {
        match self.options.per_cpu_threads {
            true => self.processes.cpu_index(cpu),
            false => self.processes.index_for_sample(thread, at),
        }
    }

    /// Adds a sample of a named event that counts.
    pub(super) fn add_counted(&mut self, at: i64, thread: Thread, sample: &Sample<'_>, frames: &[Frame]) {
        let stack = self.stack(at, thread, frames, sample.same);
        let track_of = self.track_index(at, thread, sample.cpu);
        let samples = &mut self.processes.track(track_of, sample.event).samples;
        let in_order = samples.push(samples::RecordedSample {
            time: at,
            stack,
            period: sample.period,
            off_cpu: false,
            cpu_before_ns: None,
        });
        if let Some(file) = &mut self.spill {
            samples.spill(file);
        }
        self.counts.counted_samples += 1;
        self.counts.samples_out_of_order += u64::from(!in_order);
    }

    /// Adds a point event.
    pub(super) fn add_point(&mut self, at: i64, thread: Thread, sample: &Sample<'_>, frames: &[Frame]) {
        self.counts.points += 1;
        let index = self.track_index(at, thread, sample.cpu);
        if self.processes.threads[index].points >= POINTS_PER_THREAD || self.points_kept >= POINTS_IN_ALL {
            self.counts.markers_left_out += 1;
            return;
        }
        let stack = self.stack(at, thread, frames, sample.same);
        let values = (sample.values.iter())
            .map(|value| match value {
                EventValue::Unsigned(value) => PointValue::Unsigned(*value),
                EventValue::Signed(value) => PointValue::Signed(*value),
                EventValue::Address(value) => PointValue::Address(*value),
                EventValue::Text(text) => PointValue::Text(self.strings.intern(text)),
            })
            .collect();
        let live = &mut self.processes.threads[index];
        live.points += 1;
        self.points_kept += 1;
        live.markers.push(RecordedMarker {
            start: at,
            end: None,
            what: MarkerKind::Point(Box::new(PointMarker {
                event: sample.event,
                stack,
                period: sample.period,
                values,
            })),
        });
    }
}
