//! Records of samples: what differs from the thread's last stack.
//!
//! From sample to sample a stack hardly changes, and a stack has hundreds of frames. So a sample is a record of a type
//! of its own, with the number of rootmost frames that are those of the thread's last sample in the file, and the
//! frames that are not. [`SampleEncoder`] writes it; [`SampleDecoder`] makes the PERF_RECORD_SAMPLE of it that
//! [`import`](crate::import) reads.
//!
//! A record has, as numbers of variable length (LEB128): what differs from the last record of this type, as
//! [`sample_bytes`](recording::sample_bytes) has it, with flags in `misc`; the number of frames that stay; the new
//! frames, as [`frame_bytes`](recording::frame_bytes) has them; and, where a flag says so, the number of bytes that the
//! event itself wrote (PERF_SAMPLE_RAW), and these bytes.
//!
//! After a record that can't be read nobody knows the thread and the time of those that say only what differs. So about
//! twice a second, when records go to the disk, the next one says all, and has a flag. What stands between a damaged
//! record and that one is counted as malformed.

use recording::frame_bytes::{put_others, take_frames};
use recording::sample_bytes::{ALL_FLAGS, SampleHeader};
use recording::stack::{Frame, SameFrames};
use recording::varint::{put, take};
use rustc_hash::FxHashMap;

use super::record::{MAX_CHAIN, pair, put_record_if_short, put_words};
use super::sprof_records;
use crate::abi::{context, misc, record_type};
use crate::decode::RecordHeader;
use crate::marks;

/// The type of the records, which perf does not know. 0x5350 had another form, and is not read.
const SAMPLE: u32 = 0x5353;
/// The type in files of earlier versions, which have no [`RESTART`].
const SAMPLE_AFTER_OTHERS: u32 = 0x5352;
/// The type in files of still earlier versions: records have all fields and no flags.
const WHOLE_SAMPLE: u32 = 0x5351;

/// Flags of a record, beside those of [`SampleHeader`]: it has bytes that the event itself wrote.
const RAW: u16 = 16;
/// The record says all: it does not depend on an earlier record, and neither does any later stack.
const RESTART: u16 = 32;

/// Writes samples. Remembers the last stack of each thread as it was written.
#[derive(Debug, Default)]
pub(super) struct SampleEncoder {
    last: FxHashMap<i32, LastStack>,
    /// The sample before; `None` if the next record says all.
    before: Option<SampleHeader>,
    with_rootmost: Vec<Frame>,
}

#[derive(Debug, Default)]
struct LastStack {
    /// As in [`SameFrames`].
    number: u64,
    /// Rootmost frame first; empty if the stack has a number.
    frames: Vec<Frame>,
}

impl SampleEncoder {
    /// Appends the record of a sample with these frames, leaf first, and `rootmost` rootwards of them. `same`: what the
    /// frames have in common with an earlier stack. False if the sample has no room in a record.
    pub(super) fn put(
        &mut self,
        sample: SampleHeader,
        same: Option<SameFrames<'_>>,
        frames: &[Frame],
        rootmost: Option<Frame>,
        raw: Option<&[u8]>,
        out: &mut Vec<u8>,
    ) -> bool {
        let leafward = frames.get(..MAX_CHAIN).unwrap_or(frames);
        let (frames, same) = match rootmost {
            None => (leafward, same.filter(|_| leafward.len() == frames.len())),
            Some(rootmost) => {
                self.with_rootmost.clear();
                self.with_rootmost.extend_from_slice(leafward);
                self.with_rootmost.push(rootmost);
                (&self.with_rootmost[..], None)
            }
        };
        let last = self.last.entry(sample.thread.tid.0).or_default();
        let kept = match same {
            Some(_) => SameFrames::with(same, last.number).min(frames.len()),
            None => { frames.iter().rev().zip(&last.frames) }
                .take_while(|(frame, known)| frame == known)
                .count(),
        };
        last.number = SameFrames::number(same);
        last.frames.truncate(kept);
        match same {
            Some(_) => last.frames.clear(),
            None => last.frames.extend(frames[..frames.len() - kept].iter().rev()),
        }
        let (before, raw) = (self.before.unwrap_or_default(), raw.unwrap_or_default());
        let has_raw = if raw.is_empty() { 0 } else { RAW };
        let restart = if self.before.is_none() { RESTART } else { 0 };
        let flags = sample.flags(&before) | has_raw | restart;
        let is_put = put_record_if_short(out, SAMPLE, flags, |out| {
            sample.put(&before, out);
            put(out, kept as u64);
            // A mark without a number is left out when the file is read.
            put_others(out, frames, kept, same, |mark| marks::address(mark).unwrap_or_default());
            if flags & RAW != 0 {
                put(out, raw.len() as u64);
                out.extend(raw);
            }
        });
        if is_put {
            self.before = Some(sample);
        }
        is_put
    }

    /// The next record says all.
    pub(super) fn restart(&mut self) {
        self.last.clear();
        self.before = None;
    }

    /// The last stack of a thread was written in no record: its next sample has a whole stack.
    pub(super) fn forget(&mut self, tid: i32) {
        self.last.remove(&tid);
    }
}

/// Reads samples. Remembers the last stack of each thread as it was read.
#[derive(Debug, Default)]
pub(crate) struct SampleDecoder {
    last: FxHashMap<i32, Vec<Option<Frame>>>,
    before: SampleHeader,
    chain: Vec<u64>,
    /// Time of the last sample that was read.
    read_time: u64,
    /// A record could not be read, and neither can those that follow from it.
    is_damaged: bool,
}

impl SampleDecoder {
    /// The PERF_RECORD_SAMPLE of a record that [`SampleEncoder`] has written; `None` for other records. The records
    /// have to come in the order of the file. For a damaged one: the own record of a malformed record.
    pub(crate) fn whole(&mut self, record: &[u8]) -> Option<Vec<u8>> {
        let (header, mut body) = record.split_first_chunk()?;
        let header = RecordHeader::parse(header);
        let flags = match header.kind {
            SAMPLE | SAMPLE_AFTER_OTHERS => Some(header.misc),
            WHOLE_SAMPLE => Some(ALL_FLAGS | RAW),
            // Of a type that neither perf nor sprof writes: it was a sample, most likely.
            kind if kind > record_type::COMPRESSED2 => None,
            _ => return None,
        };
        if flags.is_some_and(|flags| flags & RESTART != 0) {
            self.last.clear();
            self.before = SampleHeader::default();
            self.is_damaged = false;
        }
        let mut out = Vec::new();
        let readable = flags.filter(|_| !self.is_damaged);
        let has_room = readable.and_then(|flags| self.read(flags, &mut body, &mut out));
        self.is_damaged = has_room.is_none();
        if has_room != Some(true) {
            out.clear();
            sprof_records::put_malformed(&mut out, self.read_time);
        }
        Some(out)
    }

    /// True if the whole sample has room in a record; `None` if the bytes can't be read.
    fn read(&mut self, flags: u16, body: &mut &[u8], out: &mut Vec<u8>) -> Option<bool> {
        self.before.take_next(flags, body)?;
        let SampleHeader {
            time,
            thread,
            event,
            cpu,
            period,
        } = self.before;
        let same = take(body)?;
        // Of a damaged record nothing stays.
        let last = self.last.entry(thread.tid.0).or_default();
        let mut frames = std::mem::take(last);
        let same = usize::try_from(same).ok().filter(|same| *same <= frames.len())?;
        frames.truncate(same);
        take_frames(body, marks::mark, |frame| frames.push(frame))?;
        *last = frames;
        let raw_bytes = match flags & RAW {
            0 => 0,
            _ => usize::try_from(take(body)?).ok()?,
        };
        let raw = body.get(..raw_bytes)?;
        let frames = last.iter().rev().copied().flatten();
        let in_kernel = frames.clone().next().is_some_and(Frame::is_kernel);
        fill_chain(&mut self.chain, frames);
        // The first entry is a context.
        let ip = self.chain.get(1).copied().unwrap_or_default();
        let misc = if in_kernel { misc::KERNEL } else { misc::USER };
        let is_whole = put_record_if_short(out, record_type::SAMPLE, misc, |out| {
            put_words(out, &[event, ip, pair(thread.pid.0, thread.tid.0), time]);
            put_words(out, &[u64::from(cpu), period, self.chain.len() as u64]);
            put_words(out, &self.chain);
            if !raw.is_empty() {
                // "u32 size; char data[size]", and aligned.
                out.extend((raw.len() as u32).to_ne_bytes());
                out.extend(raw);
            }
        });
        self.read_time = time;
        Some(is_whole)
    }
}

/// Readers take all entries but the leaf and the first below the kernel for return addresses, and look one byte before
/// them. An entry that is not a return address is written one byte further.
fn fill_chain(chain: &mut Vec<u64>, frames: impl Iterator<Item = Frame>) {
    chain.clear();
    let mut context = None;
    for frame in frames {
        let is_exact = context.is_none() || (context == Some(context::KERNEL) && !frame.is_kernel());
        let address = match frame {
            Frame::InstructionPointer(at) | Frame::KernelInstructionPointer(at) if is_exact => at.0,
            Frame::InstructionPointer(at) | Frame::KernelInstructionPointer(at) => at.0.saturating_add(1),
            Frame::ReturnAddress(at) | Frame::KernelReturnAddress(at) if is_exact => at.0.saturating_sub(1),
            Frame::ReturnAddress(at) | Frame::KernelReturnAddress(at) => at.0,
            Frame::Mark(mark) => match marks::address(mark) {
                Some(address) => address,
                None => continue,
            },
        };
        let own = if frame.is_kernel() {
            context::KERNEL
        } else {
            context::USER
        };
        if context != Some(own) {
            chain.push(own);
            context = Some(own);
        }
        if chain.len() >= MAX_CHAIN {
            chain.extend(marks::address(recording::stack::StackMark::TruncatedDepth));
            return;
        }
        chain.push(address);
    }
}

#[cfg(test)]
mod tests {
    use recording::address::Avma;
    use recording::event::Thread;

    use super::*;

    fn sample(time: u64, tid: i32) -> SampleHeader {
        SampleHeader {
            time,
            thread: Thread::new(7, tid),
            event: 1,
            cpu: 0,
            period: 1,
        }
    }

    /// The type of a record that was read.
    fn kind(record: Option<&[u8]>) -> Option<u32> {
        record?.first_chunk().map(|header| RecordHeader::parse(header).kind)
    }

    /// A thread may have stacks of both kinds: the unwinder numbers those that it walks.
    #[test]
    fn stacks_with_and_without_numbers_come_back() {
        let frames = [1u64, 2, 3, 4].map(|address| Frame::ReturnAddress(Avma(address << 20)));
        let numbered = |stack, frames| {
            let earlier = stack - 1;
            let others = None;
            Some(SameFrames {
                stack,
                earlier,
                frames,
                others,
            })
        };
        let (mut stacks, mut whole) = (SampleEncoder::default(), SampleDecoder::default());
        let all = [
            // The stack before the first one is in no record.
            (&frames[..], numbered(1, 2)),
            (&frames[1..], numbered(2, 3)),
            (&frames[..], None),
            (&frames[2..], None),
            (&frames[..], numbered(3, 2)),
            (&frames[..], numbered(4, 4)),
        ];
        let mut sizes = Vec::new();
        for (frames, same) in all {
            let mut record = Vec::new();
            assert!(stacks.put(sample(1, 8), same, frames, None, None, &mut record));
            let read = whole.whole(&record).unwrap_or_default();
            let mut expected = Vec::new();
            fill_chain(&mut expected, frames.iter().copied());
            let chain: Vec<u8> = expected.iter().flat_map(|word| word.to_ne_bytes()).collect();
            assert!(read.ends_with(&chain), "{same:?}");
            sizes.push(record.len());
        }
        // Whole: the first one, and each after one of the other kind.
        // The first one has its thread, event and period as well.
        let (first, whole) = (sizes[0], sizes[0] - 4);
        let is_whole = { sizes.iter() }
            .map(|size| [first, whole].contains(size))
            .collect::<Vec<_>>();
        assert_eq!(is_whole, [true, false, true, false, true, false], "{sizes:?}");
    }

    #[test]
    fn a_record_whose_last_stack_is_not_there_is_malformed() {
        let (mut stacks, mut records) = (SampleEncoder::default(), [Vec::new(), Vec::new()]);
        let frames = [1u64, 2, 3].map(|address| Frame::ReturnAddress(Avma(address << 20)));
        for (time, out) in (1..).zip(&mut records) {
            assert!(stacks.put(sample(time, 8), None, &frames, None, None, out));
        }
        let [first, second] = records;
        assert!(second.len() < first.len() && second.len() == 11);
        let mut whole = SampleDecoder::default();
        assert_eq!(kind(whole.whole(&second).as_deref()), Some(record_type::EVENT_UPDATE));
        assert_eq!(kind(whole.whole(&first).as_deref()), Some(record_type::SAMPLE));
        assert_eq!(kind(whole.whole(&second).as_deref()), Some(record_type::SAMPLE));
        assert_eq!(whole.whole(&[0; 24]), None);
        for end in 8..first.len() {
            assert!(kind(SampleDecoder::default().whole(&first[..end]).as_deref()).is_some());
        }
    }

    #[test]
    fn after_a_damaged_record_samples_are_malformed_until_one_follows_from_none() {
        let frames = [1u64, 2, 3].map(|address| Frame::ReturnAddress(Avma(address << 20)));
        let mut stacks = SampleEncoder::default();
        let mut record = |time, tid| {
            let mut out = Vec::new();
            if time == 40 {
                stacks.restart();
            }
            assert!(stacks.put(sample(time, tid), None, &frames, None, None, &mut out));
            out
        };
        let mut records = [(10, 7), (20, 8), (30, 8), (40, 8), (50, 8)].map(|(time, tid)| record(time, tid));
        let read = |records: &[Vec<u8>]| {
            let mut whole = SampleDecoder::default();
            let mut read = Vec::new();
            for record in records {
                let record = whole.whole(record).unwrap_or_default();
                let word = |at| record[at..].first_chunk().map(|word| u64::from_ne_bytes(*word));
                read.push(match kind(Some(&record)) {
                    // u64 event, ip; u32 pid, tid; u64 time.
                    Some(record_type::SAMPLE) => (word(24).map(|ids| ids >> 32), word(32)),
                    // u64 kind, id, time.
                    _ => (None, word(24)),
                });
            }
            read
        };
        let all = [(7, 10), (8, 20), (8, 30), (8, 40), (8, 50)].map(|(tid, time)| (Some(tid), Some(time)));
        let malformed = (None, Some(10));
        assert_eq!(read(&records), all);
        // Without the second one, the third would be thread 7's.
        let rest = [all[0], malformed, malformed, all[3], all[4]];
        let second = records[1].clone();
        records[1].truncate(10);
        assert_eq!(read(&records), rest);
        // Of no type that is known.
        records[1] = [&[0x99, 0x99, 0, 0], &second[4..]].concat();
        assert_eq!(read(&records), rest);
    }

    #[test]
    fn a_sample_that_is_too_long_once_it_is_whole_is_malformed_alone() {
        let frames: Vec<Frame> = { 1..=7000u64 }
            .map(|address| Frame::ReturnAddress(Avma(address)))
            .collect();
        let (mut stacks, mut whole) = (SampleEncoder::default(), SampleDecoder::default());
        let mut read = |time, raw: Option<&[u8]>| {
            let mut record = Vec::new();
            assert!(stacks.put(sample(time, 8), None, &frames, None, raw, &mut record));
            kind(whole.whole(&record).as_deref())
        };
        assert_eq!(read(1, None), Some(record_type::SAMPLE));
        assert_eq!(read(2, Some(&[1; 20_000])), Some(record_type::EVENT_UPDATE));
        assert_eq!(read(3, None), Some(record_type::SAMPLE));
    }

    #[test]
    fn samples_of_earlier_versions_are_read() {
        let frames = [1u64, 2, 3].map(|address| Frame::ReturnAddress(Avma(address << 20)));
        let sample = SampleHeader {
            cpu: 3,
            period: 5,
            ..sample(1, 8)
        };
        let mut record = Vec::new();
        assert!(SampleEncoder::default().put(sample, None, &frames, None, Some(&[1, 2, 3, 4]), &mut record));
        let whole = |record: &[u8]| SampleDecoder::default().whole(record);
        let read = whole(&record);
        assert!(read.is_some());
        let earlier = [&WHOLE_SAMPLE.to_ne_bytes()[..], &[0; 2], &record[6..], &[0; 5]].concat();
        assert_eq!(whole(&earlier), read);
        let flags = u16::from_ne_bytes([record[4], record[5]]) & !RESTART;
        let later = [
            &SAMPLE_AFTER_OTHERS.to_ne_bytes()[..],
            &flags.to_ne_bytes(),
            &record[6..],
        ]
        .concat();
        assert_eq!(whole(&later), read);
    }
}
