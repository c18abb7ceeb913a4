//! Samples by what differs from their thread's last stack.
//!
//! From sample to sample a stack hardly changes, and a stack has hundreds of frames. So a sample is an own record (see `own`) with the number
//! of rootmost frames that are those of the thread's last sample in the file, and the frames that are not. [`Stacks`] writes it;
//! [`WholeStacks`] makes the PERF_RECORD_SAMPLE of it that [`import`](crate::import) reads.
//!
//! Behind the time a record has: the pid and the tid; the id of the event; the CPU and the number of frames that stay; the period; the number
//! of new frames, and of those among them whose kind does not follow from their address; the addresses of the new frames, rootmost first;
//! for each frame of another kind its number among the new ones, and its kind. The rest is what the event itself
//! wrote (PERF_SAMPLE_RAW).

use recording::address::Avma;
use recording::event::Thread;
use recording::stack::Frame;
use rustc_hash::FxHashMap;

use super::encode::MAX_CHAIN;
use super::own::{self, SAMPLE};
use super::record::{EVENT_ID, pair, put_record_if_short, put_words};
use crate::abi::{context, misc, record_type};
use crate::decode::{Header, Reader};
use crate::marks;

/// Kinds of frames by number. A return address is the kernel's where its highest bit is set.
const INSTRUCTION_POINTER: u32 = 1;
const RETURN_ADDRESS: u32 = 2;
const KERNEL_INSTRUCTION_POINTER: u32 = 3;
const KERNEL_RETURN_ADDRESS: u32 = 4;
const MARK: u32 = 5;

/// A sample without its stack.
#[derive(Clone, Copy)]
pub(super) struct SampleOf {
    pub(super) time: u64,
    pub(super) thread: Thread,
    /// The id of its event.
    pub(super) event: u64,
    pub(super) cpu: u32,
    pub(super) period: u64,
}

/// The last stack of each thread, as it was written.
#[derive(Debug, Default)]
pub(super) struct Stacks {
    /// Rootmost frame first.
    last: FxHashMap<i32, Vec<Frame>>,
    other_kinds: Vec<u64>,
}

impl Stacks {
    /// Appends the record of a sample with these frames, leaf first, and with a last one rootwards of them. False if it has no room in a record.
    pub(super) fn put(
        &mut self,
        sample: &SampleOf,
        frames: &[Frame],
        rootmost: Option<Frame>,
        raw: Option<&[u8]>,
        out: &mut Vec<u8>,
    ) -> bool {
        let frames = frames.get(..MAX_CHAIN).unwrap_or(frames);
        let root_first = || rootmost.into_iter().chain(frames.iter().rev().copied());
        let last = self.last.entry(sample.thread.tid.0).or_default();
        let same = { last.iter().zip(root_first()) }
            .take_while(|(last, frame)| *last == frame)
            .count();
        last.truncate(same);
        last.extend(root_first().skip(same));
        let new = last.get(same..).unwrap_or_default();
        self.other_kinds.clear();
        for (at, frame) in (0..).zip(new) {
            let (kind, address) = parts(*frame);
            if kind != usual_kind(address) {
                self.other_kinds.push(u64::from(kind) << 32 | at);
            }
        }
        put_record_if_short(out, record_type::EVENT_UPDATE, 0, |body| {
            put_words(
                body,
                &[
                    SAMPLE,
                    EVENT_ID,
                    sample.time,
                    pair(sample.thread.pid.0, sample.thread.tid.0),
                    sample.event,
                    (same as u64) << 32 | u64::from(sample.cpu),
                    sample.period,
                    (self.other_kinds.len() as u64) << 32 | new.len() as u64,
                ],
            );
            body.extend(new.iter().flat_map(|frame| parts(*frame).1.to_ne_bytes()));
            put_words(body, &self.other_kinds);
            if let Some(raw) = raw {
                // "u32 size; char data[size]", and aligned.
                body.extend((raw.len() as u32).to_ne_bytes());
                body.extend(raw);
            }
        })
    }

    /// The last stack of a thread is in no record.
    pub(super) fn forget(&mut self, tid: i32) {
        self.last.remove(&tid);
    }
}

/// The kind of a frame, and its address, or the one that stands for a mark.
fn parts(frame: Frame) -> (u32, u64) {
    match frame {
        Frame::InstructionPointer(at) => (INSTRUCTION_POINTER, at.0),
        Frame::ReturnAddress(at) => (RETURN_ADDRESS, at.0),
        Frame::KernelInstructionPointer(at) => (KERNEL_INSTRUCTION_POINTER, at.0),
        Frame::KernelReturnAddress(at) => (KERNEL_RETURN_ADDRESS, at.0),
        Frame::Mark(mark) => (MARK, marks::address(mark).unwrap_or_default()),
    }
}

fn usual_kind(address: u64) -> u32 {
    match address >> 63 {
        0 => RETURN_ADDRESS,
        _ => KERNEL_RETURN_ADDRESS,
    }
}

/// `None` for a mark that has no number.
fn frame(kind: u32, address: u64) -> Option<Frame> {
    let at = Avma(address);
    Some(match kind {
        INSTRUCTION_POINTER => Frame::InstructionPointer(at),
        RETURN_ADDRESS => Frame::ReturnAddress(at),
        KERNEL_INSTRUCTION_POINTER => Frame::KernelInstructionPointer(at),
        KERNEL_RETURN_ADDRESS => Frame::KernelReturnAddress(at),
        _ => Frame::Mark(marks::mark(address)?),
    })
}

/// The last stack of each thread, as it was read.
#[derive(Debug, Default)]
pub(crate) struct WholeStacks {
    last: FxHashMap<i32, Vec<Option<Frame>>>,
    chain: Vec<u64>,
}

impl WholeStacks {
    /// The PERF_RECORD_SAMPLE of a record that [`Stacks`] has written; `None` for other records. The records have to come in the order of the
    /// file. For a damaged one: the own record of a malformed record.
    pub(crate) fn whole(&mut self, record: &[u8]) -> Option<Vec<u8>> {
        let (header, body) = record.split_first_chunk()?;
        if Header::parse(header).kind != record_type::EVENT_UPDATE || body.first_chunk() != Some(&SAMPLE.to_ne_bytes())
        {
            return None;
        }
        let mut out = Vec::new();
        let mut body = Reader(body.get(16..)?);
        let time = body.u64()?;
        if self.read(time, &mut body, &mut out).is_none() {
            out.clear();
            own::put_malformed(&mut out, time);
        }
        Some(out)
    }

    fn read(&mut self, time: u64, body: &mut Reader<'_>, out: &mut Vec<u8>) -> Option<()> {
        let (pid_and_tid, event, cpu, same, period) = (body.u64()?, body.u64()?, body.u32()?, body.u32()?, body.u64()?);
        let (new, other_kinds) = (body.u32()? as usize, body.u32()? as usize);
        let (addresses, _) = body.bytes(new.checked_mul(8)?)?.as_chunks::<8>();
        let (others, _) = body.bytes(other_kinds.checked_mul(8)?)?.as_chunks::<8>();
        let last = self.last.entry((pid_and_tid >> 32) as i32).or_default();
        let same = usize::try_from(same).ok().filter(|same| *same <= last.len())?;
        last.truncate(same);
        let usual = |address: &[u8; 8]| {
            let address = u64::from_ne_bytes(*address);
            frame(usual_kind(address), address)
        };
        last.extend(addresses.iter().map(usual));
        for other in others {
            let other = u64::from_ne_bytes(*other);
            let at = other as u32 as usize;
            let address = u64::from_ne_bytes(*addresses.get(at)?);
            *last.get_mut(same + at)? = frame((other >> 32) as u32, address);
        }
        let frames = last.iter().rev().copied().flatten();
        let in_kernel = frames.clone().next().is_some_and(Frame::is_kernel);
        fill_chain(&mut self.chain, frames);
        // The first entry is a context.
        let ip = self.chain.get(1).copied().unwrap_or_default();
        let misc = if in_kernel { misc::KERNEL } else { misc::USER };
        let is_whole = put_record_if_short(out, record_type::SAMPLE, misc, |out| {
            put_words(out, &[event, ip, pid_and_tid, time]);
            put_words(out, &[u64::from(cpu), period, self.chain.len() as u64]);
            put_words(out, &self.chain);
            out.extend(body.0);
        });
        is_whole.then_some(())
    }
}

/// Readers take all entries but the leaf and the first below the kernel for return addresses, and look one byte before them. An
/// entry that is no return address is written one byte further.
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
