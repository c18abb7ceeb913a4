//! A thread's samples in about eight bytes each.

use std::io;

use recording::varint::{put, take, unzigzag, zigzag};

use super::spill::{SpillFile, SpillableBytes, SpilledFile};
use super::stacks::StackId;

/// One sample, as kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordedSample {
    /// ns from the profile's time zero.
    pub(crate) time: i64,
    pub(crate) stack: Option<StackId>,
    /// CPU time or cycles; for a wait, its duration in ns.
    pub(crate) period: u64,
    /// True for a wait: the thread was off-CPU.
    pub(crate) off_cpu: bool,
    /// CPU time of the thread since the previous sample, if thread switches were recorded.
    pub(crate) cpu_before_ns: Option<u64>,
}

/// Two flag bits stored with a sample's stack.
const OFF_CPU: u64 = 1;
const HAS_CPU_BEFORE: u64 = 2;

/// Samples in time order, each as the difference from the previous one, in variable-length integers. One million
/// samples take 7-9 MB. As plain columns they took 20 MB, and twice that while a vector grew.
#[derive(Clone, Default)]
pub(crate) struct PackedSamples {
    bytes: SpillableBytes,
    len: usize,
    last: PreviousSample,
    period_sum: u64,
    off_cpu: usize,
    off_cpu_ns: u64,
}

#[derive(Clone, Copy, Default)]
struct PreviousSample {
    time: i64,
    /// 0 for a sample without a stack, else the stack's id + 1.
    stack: i64,
    period: u64,
    /// The sum of the waits' periods.
    length: u64,
}

impl PackedSamples {
    /// Appends a sample. Returns false if its time is before the last sample's time; the sample then gets the last
    /// sample's time.
    pub(crate) fn push(&mut self, sample: RecordedSample) -> bool {
        let in_order = self.len == 0 || sample.time >= self.last.time;
        let next = PreviousSample {
            time: if in_order { sample.time } else { self.last.time },
            stack: sample.stack.map_or(0, |stack| i64::from(stack.0) + 1),
            period: if sample.off_cpu {
                self.last.period
            } else {
                sample.period
            },
            length: if sample.off_cpu {
                sample.period
            } else {
                self.last.length
            },
        };
        let bytes = self.bytes.end();
        put(bytes, zigzag(next.time.wrapping_sub(self.last.time)));
        // A stack has 32 bits, so one more value fits.
        let off_cpu = if sample.off_cpu { OFF_CPU } else { 0 };
        let has_cpu_before = sample.cpu_before_ns.map_or(0, |_| HAS_CPU_BEFORE);
        put(
            bytes,
            zigzag(next.stack - self.last.stack) << 2 | has_cpu_before | off_cpu,
        );
        let (new, old) = match sample.off_cpu {
            true => (next.length, self.last.length),
            false => (next.period, self.last.period),
        };
        put(bytes, zigzag(new.wrapping_sub(old) as i64));
        if let Some(ns) = sample.cpu_before_ns {
            put(bytes, ns);
        }
        self.last = next;
        self.len += 1;
        if sample.off_cpu {
            self.off_cpu += 1;
            self.off_cpu_ns = self.off_cpu_ns.saturating_add(sample.period);
        } else {
            self.period_sum = self.period_sum.saturating_add(sample.period);
        }
        in_order
    }

    /// Moves the samples so far into the file, if they are many.
    pub(crate) fn spill(&mut self, file: &mut SpillFile) {
        self.bytes.spill(file);
    }

    /// Reads what is in the file into memory again. Only then may samples be iterated over.
    ///
    /// # Errors
    ///
    /// The file can't be read. All is as before.
    pub(crate) fn read_back(&mut self, file: &SpilledFile) -> io::Result<()> {
        self.bytes.read_back(file)
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The time of the last sample.
    pub(crate) fn last_time(&self) -> Option<i64> {
        (self.len > 0).then_some(self.last.time)
    }

    /// Number of samples of the running thread.
    pub(crate) fn on_cpu(&self) -> usize {
        self.len - self.off_cpu
    }

    /// The sampled off-CPU time of the thread, ns.
    pub(crate) fn off_cpu_ns(&self) -> u64 {
        self.off_cpu_ns
    }

    /// Sum of the periods, without waits.
    pub(crate) fn period_sum(&self) -> u64 {
        self.period_sum
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = RecordedSample> + '_ {
        let mut rest = self.bytes.all();
        // What was put in is there.
        let mut next = move || take(&mut rest).unwrap_or_default();
        let mut state = PreviousSample::default();
        (0..self.len).map(move |_| {
            state.time = state.time.wrapping_add(unzigzag(next()));
            let stack = next();
            state.stack += unzigzag(stack >> 2);
            let off_cpu = stack & OFF_CPU != 0;
            let period = match off_cpu {
                true => &mut state.length,
                false => &mut state.period,
            };
            *period = period.wrapping_add_signed(unzigzag(next()));
            RecordedSample {
                time: state.time,
                stack: (state.stack > 0).then(|| StackId((state.stack - 1) as u32)),
                period: *period,
                off_cpu,
                cpu_before_ns: (stack & HAS_CPU_BEFORE != 0).then(&mut next),
            }
        })
    }

    /// The samples with mapped stacks.
    pub(crate) fn map_stacks(&self, map: impl Fn(StackId) -> StackId) -> PackedSamples {
        self.map_stacks_at(|_, stack| map(stack))
    }

    /// The samples with mapped stacks; the map may depend on the sample's time.
    pub(crate) fn map_stacks_at(&self, mut map: impl FnMut(i64, StackId) -> StackId) -> PackedSamples {
        let mut mapped = PackedSamples::default();
        mapped.bytes.end().reserve(self.bytes.all().len());
        for sample in self.iter() {
            mapped.push(RecordedSample {
                stack: sample.stack.map(|stack| map(sample.time, stack)),
                ..sample
            });
        }
        mapped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_come_back_as_they_went_in() {
        let extremes = [
            (-5, None, 0, false, None),
            (-5, Some(StackId(u32::MAX - 1)), u64::MAX, false, Some(0)),
            (0, Some(StackId(0)), 1, false, None),
            (1, Some(StackId(u32::MAX - 1)), u64::MAX, true, Some(u64::MAX)),
            (2, None, 0, true, None),
            (i64::MAX / 2, Some(StackId(7)), 1_000_000, false, Some(1)),
        ];
        let given: Vec<RecordedSample> = extremes
            .into_iter()
            .map(|(time, stack, period, off_cpu, cpu_before_ns)| RecordedSample {
                time,
                stack,
                period,
                off_cpu,
                cpu_before_ns,
            })
            .collect();
        let mut samples = PackedSamples::default();
        for sample in &given {
            assert!(samples.push(*sample));
        }
        assert_eq!(samples.iter().collect::<Vec<_>>(), given);
        assert_eq!(
            (samples.len(), samples.on_cpu(), samples.off_cpu_ns()),
            (6, 4, u64::MAX)
        );
    }

    #[test]
    fn samples_come_back_from_the_file_and_from_memory_if_it_takes_no_more() {
        let at = |time: i64| RecordedSample {
            time: time * 1_000_003,
            stack: Some(StackId((time * 7919 % 200_000) as u32)),
            period: 1_000_000,
            off_cpu: time % 3 == 0,
            cpu_before_ns: (time % 5 == 0).then_some(7),
        };
        let expected: Vec<RecordedSample> = (0..50_000).map(at).collect();
        let mut file = SpillFile::new(tempfile::tempfile().unwrap());
        let [mut one, mut other] = [PackedSamples::default(), PackedSamples::default()];
        for sample in &expected {
            for samples in [&mut one, &mut other] {
                samples.push(*sample);
                samples.spill(&mut file);
            }
        }
        assert!(one.bytes.spilled.len() > 10);
        let file = file.finish();
        for samples in [&mut one, &mut other] {
            samples.read_back(&file).unwrap();
            assert_eq!(samples.iter().collect::<Vec<_>>(), expected);
        }

        // It is opened for reading.
        let empty = tempfile::NamedTempFile::new().unwrap();
        let mut full = SpillFile::new(std::fs::File::open(empty.path()).unwrap());
        let mut kept = PackedSamples::default();
        for sample in &expected {
            kept.push(*sample);
            kept.spill(&mut full);
        }
        kept.read_back(&full.finish()).unwrap();
        assert_eq!(kept.iter().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_sample_from_the_past_is_kept_at_the_last_time_and_reported() {
        let mut samples = PackedSamples::default();
        let at = |time| RecordedSample {
            time,
            stack: None,
            period: 1,
            off_cpu: false,
            cpu_before_ns: None,
        };
        assert!(samples.push(at(100)));
        assert!(!samples.push(at(90)));
        assert!(samples.push(at(110)));
        let times: Vec<i64> = samples.iter().map(|sample| sample.time).collect();
        assert_eq!(times, [100, 100, 110]);
    }

    #[test]
    fn a_million_regular_samples_take_less_than_ten_bytes_each() {
        let mut samples = PackedSamples::default();
        for i in 0..1_000_000i64 {
            samples.push(RecordedSample {
                time: i * 1_000_123,
                stack: Some(StackId((i * 7919 % 200_000) as u32)),
                period: 1_000_000,
                off_cpu: false,
                cpu_before_ns: None,
            });
        }
        assert!(
            samples.bytes.all().len() < 10_000_000,
            "{} bytes",
            samples.bytes.all().len()
        );
    }
}
