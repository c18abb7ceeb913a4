//! A thread's samples in about eight bytes each.

use super::stacks::StackId;

/// One sample, as kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sample {
    /// ns from the profile's time zero.
    pub(crate) time: i64,
    pub(crate) stack: Option<StackId>,
    pub(crate) period: u64,
}

/// Samples in time order, each as the difference from the one before, in variable-length integers. One million samples
/// take 7-9 MB; as plain columns they took 20 MB, and twice that while a vector grew.
#[derive(Clone, Default)]
pub(crate) struct Samples {
    bytes: Vec<u8>,
    len: usize,
    last: State,
    period_sum: u64,
}

#[derive(Clone, Copy, Default)]
struct State {
    time: i64,
    /// 0 is no stack, else id + 1.
    stack: i64,
    period: u64,
}

impl Samples {
    /// Appends a sample. Returns false if its time lies before the last one's: it is then kept at the last one's time.
    pub(crate) fn push(&mut self, sample: Sample) -> bool {
        let in_order = self.len == 0 || sample.time >= self.last.time;
        let next = State {
            time: if in_order { sample.time } else { self.last.time },
            stack: sample.stack.map_or(0, |stack| i64::from(stack.0) + 1),
            period: sample.period,
        };
        put(&mut self.bytes, zigzag(next.time.wrapping_sub(self.last.time)));
        put(&mut self.bytes, zigzag(next.stack - self.last.stack));
        put(
            &mut self.bytes,
            zigzag(next.period.wrapping_sub(self.last.period) as i64),
        );
        self.last = next;
        self.len += 1;
        self.period_sum = self.period_sum.saturating_add(sample.period);
        in_order
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Sum of the periods.
    pub(crate) fn period_sum(&self) -> u64 {
        self.period_sum
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Sample> + '_ {
        let mut rest = self.bytes.as_slice();
        let mut state = State::default();
        (0..self.len).map(move |_| {
            state.time = state.time.wrapping_add(unzigzag(take(&mut rest)));
            state.stack += unzigzag(take(&mut rest));
            state.period = state.period.wrapping_add(unzigzag(take(&mut rest)) as u64);
            Sample {
                time: state.time,
                stack: (state.stack > 0).then(|| StackId((state.stack - 1) as u32)),
                period: state.period,
            }
        })
    }

    /// The same samples with other stacks.
    pub(crate) fn map_stacks(&self, map: impl Fn(StackId) -> StackId) -> Samples {
        let mut mapped = Samples::default();
        mapped.bytes.reserve(self.bytes.len());
        for sample in self.iter() {
            mapped.push(Sample {
                stack: sample.stack.map(&map),
                ..sample
            });
        }
        mapped
    }
}

fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

fn unzigzag(value: u64) -> i64 {
    ((value >> 1) as i64) ^ -((value & 1) as i64)
}

fn put(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

fn take(bytes: &mut &[u8]) -> u64 {
    let mut value = 0u64;
    let mut shift = 0;
    while let Some((&byte, rest)) = bytes.split_first() {
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte < 0x80 || shift > 63 {
            break;
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_come_back_as_they_went_in() {
        let extremes = [
            (-5, None, 0),
            (-5, Some(StackId(u32::MAX - 1)), u64::MAX),
            (0, Some(StackId(0)), 1),
            (i64::MAX / 2, Some(StackId(7)), 1_000_000),
        ];
        let given: Vec<Sample> = extremes
            .into_iter()
            .map(|(time, stack, period)| Sample { time, stack, period })
            .collect();
        let mut samples = Samples::default();
        for sample in &given {
            assert!(samples.push(*sample));
        }
        assert_eq!(samples.iter().collect::<Vec<_>>(), given);
    }

    #[test]
    fn a_sample_from_the_past_is_kept_at_the_last_time_and_reported() {
        let mut samples = Samples::default();
        let at = |time| Sample {
            time,
            stack: None,
            period: 1,
        };
        assert!(samples.push(at(100)));
        assert!(!samples.push(at(90)));
        assert!(samples.push(at(110)));
        let times: Vec<i64> = samples.iter().map(|sample| sample.time).collect();
        assert_eq!(times, [100, 100, 110]);
    }

    #[test]
    fn a_million_regular_samples_take_less_than_ten_bytes_each() {
        let mut samples = Samples::default();
        for i in 0..1_000_000i64 {
            samples.push(Sample {
                time: i * 1_000_123,
                stack: Some(StackId((i * 7919 % 200_000) as u32)),
                period: 1_000_000,
            });
        }
        assert!(samples.bytes.len() < 10_000_000, "{} bytes", samples.bytes.len());
    }
}
