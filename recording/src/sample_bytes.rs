//! Samples without their stacks as bytes: what differs from the sample before.
//!
//! As numbers of variable length ([`varint`](crate::varint)): the time since the sample before; and the tid and the
//! pid, the event, the CPU and the period, each where it differs. Flags say what differs, and the writer stores them.
//! The spool and the builder's queue append the stack, as [`frame_bytes`](crate::frame_bytes) has it.

use crate::event::Thread;
use crate::varint::{put, take, unzigzag, zigzag};

const THREAD: u16 = 1;
const EVENT: u16 = 2;
const CPU: u16 = 4;
const PERIOD: u16 = 8;
/// All flags of a [`SampleHeader`].
pub const ALL_FLAGS: u16 = THREAD | EVENT | CPU | PERIOD;

/// A sample without its stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleHeader {
    /// ns; of any clock, and it may be a signed number.
    pub time: u64,
    /// The sampled thread.
    pub thread: Thread,
    /// A number of the writer's for its event.
    pub event: u64,
    /// The CPU.
    pub cpu: u32,
    /// What the sample represents.
    pub period: u64,
}

impl Default for SampleHeader {
    fn default() -> SampleHeader {
        SampleHeader {
            time: 0,
            thread: Thread::new(0, 0),
            event: 0,
            cpu: 0,
            period: 0,
        }
    }
}

impl SampleHeader {
    /// What is not as in the sample before.
    pub fn flags(&self, before: &SampleHeader) -> u16 {
        let flags = [
            (self.thread != before.thread, THREAD),
            (self.event != before.event, EVENT),
            (self.cpu != before.cpu, CPU),
            (self.period != before.period, PERIOD),
        ];
        { flags.into_iter() }.filter_map(|(is, flag)| is.then_some(flag)).sum()
    }

    /// Appends what is not as in the sample before.
    pub fn put(&self, before: &SampleHeader, out: &mut Vec<u8>) {
        put(out, zigzag(self.time.wrapping_sub(before.time).cast_signed()));
        if self.thread != before.thread {
            put(out, u64::from(self.thread.tid.0.cast_unsigned()));
            put(out, u64::from(self.thread.pid.0.cast_unsigned()));
        }
        if self.event != before.event {
            put(out, self.event);
        }
        if self.cpu != before.cpu {
            put(out, u64::from(self.cpu));
        }
        if self.period != before.period {
            put(out, self.period);
        }
    }

    /// Takes the next sample from the front of `bytes`. `self` is the sample before it, and becomes it. `None` if the
    /// bytes are not a sample with these flags; then `self` is neither.
    pub fn take_next(&mut self, flags: u16, bytes: &mut &[u8]) -> Option<()> {
        self.time = self.time.wrapping_add_signed(unzigzag(take(bytes)?));
        let number = |bytes: &mut &[u8]| u32::try_from(take(bytes)?).ok();
        if flags & THREAD != 0 {
            let (tid, pid) = (number(bytes)?, number(bytes)?);
            self.thread = Thread::new(pid.cast_signed(), tid.cast_signed());
        }
        if flags & EVENT != 0 {
            self.event = take(bytes)?;
        }
        if flags & CPU != 0 {
            self.cpu = number(bytes)?;
        }
        if flags & PERIOD != 0 {
            self.period = take(bytes)?;
        }
        Some(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    #[test]
    fn samples_come_back_and_cut_ones_do_not() {
        let first = SampleHeader {
            time: u64::MAX,
            thread: Thread::new(-1, i32::MAX),
            event: u64::MAX,
            cpu: u32::MAX,
            period: 1,
        };
        let second = SampleHeader {
            time: 5,
            period: u64::MAX,
            ..first
        };
        let (mut before, mut read) = (SampleHeader::default(), SampleHeader::default());
        for (sample, bytes) in [(first, 27), (second, 11), (second, 1)] {
            let (flags, mut out) = (sample.flags(&before), Vec::new());
            sample.put(&before, &mut out);
            assert_eq!(out.len(), bytes);
            for end in 0..out.len() {
                assert_eq!({ read }.take_next(flags, &mut &out[..end]), None);
            }
            read.take_next(flags, &mut &out[..]).unwrap();
            assert_eq!(read, sample);
            before = sample;
        }
    }
}
