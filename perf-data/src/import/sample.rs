//! Samples of any layout to the one form that the translator knows.

use super::attr::Attr;
use crate::abi::{context, misc, record_type, sample_type as has};
use crate::decode::{
    self, HEADER_BYTES, Malformed, RawRegisters, RawSample, Reader, Record, RecordHeader, RegisterSet,
};

/// PERF_SAMPLE_BRANCH_HW_INDEX and PERF_SAMPLE_BRANCH_COUNTERS of `branch_sample_type`.
const BRANCH_HW_INDEX: u64 = 1 << 17;

/// Takes a record apart that was written for `attr`. Where `set` is `None`, sprof can't unwind with its registers.
pub(super) fn decode<'a>(record: &'a [u8], attr: &Attr, set: Option<RegisterSet>) -> Result<Record<'a>, Malformed> {
    let (header, body) = record.split_first_chunk::<HEADER_BYTES>().ok_or(Malformed("header"))?;
    let header = RecordHeader::parse(header);
    if header.kind == record_type::SAMPLE {
        return sample(header, body, attr, set)
            .ok_or(Malformed("sample"))
            .map(Record::Sample);
    }
    let bytes = body
        .len()
        .checked_sub(attr.sample_id_bytes())
        .ok_or(Malformed("record without sample id"))?;
    match header.kind {
        record_type::SWITCH | record_type::SWITCH_CPU_WIDE if attr.has(has::TID) => {
            decode::switch(header, &mut Reader(&body[bytes..])).ok_or(Malformed("switch"))
        }
        // Samples whose call chain can be read were taken before, in `deferred`.
        record_type::CALLCHAIN_DEFERRED => Err(Malformed("deferred call chain")),
        record_type::MMAP => mmap(header, &body[..bytes]).ok_or(Malformed("mapping")),
        _ => decode::side_band(header, &body[..bytes], attr.asks_for_build_ids()),
    }
}

/// The fields stand in the order of `perf_output_sample` in kernel/events/core.c; those after the stack are not needed.
fn sample<'a>(header: RecordHeader, body: &'a [u8], attr: &Attr, set: Option<RegisterSet>) -> Option<RawSample<'a>> {
    let mut body = Reader(body);
    let word_if = |body: &mut Reader<'a>, bit| {
        if attr.has(bit) {
            body.u64().map(Some)
        } else {
            Some(None)
        }
    };
    word_if(&mut body, has::IDENTIFIER)?;
    let ip = word_if(&mut body, has::IP)?;
    let (pid, tid) = if attr.has(has::TID) {
        (body.i32()?, body.i32()?)
    } else {
        (-1, -1)
    };
    for bit in [has::TIME, has::ADDR, has::ID, has::STREAM_ID] {
        word_if(&mut body, bit)?;
    }
    // u32 cpu, u32 reserved.
    let cpu = word_if(&mut body, has::CPU)?.unwrap_or_default() as u32;
    let period = word_if(&mut body, has::PERIOD)?;
    if attr.has(has::READ) {
        skip_read(&mut body, attr.read_format)?;
    }
    let call_chain = if attr.has(has::CALLCHAIN) {
        read_call_chain(&mut body)?
    } else {
        &[]
    };
    let mut raw = &[][..];
    if attr.has(has::RAW) {
        let bytes = body.u32()? as usize;
        raw = body.bytes(bytes)?;
        if attr.is_off_cpu_time() {
            return off_cpu_time(raw, cpu);
        }
    }
    if attr.has(has::BRANCH_STACK) {
        let entries = usize::try_from(body.u64()?).ok()?;
        if attr.branch_sample_type & BRANCH_HW_INDEX != 0 {
            body.u64()?;
        }
        body.bytes(entries.checked_mul(24)?)?;
    }
    let mut user_registers = None;
    if attr.has(has::REGS_USER) {
        user_registers = read_registers(&mut body, attr.regs_user, set)?;
    }
    let mut stack = &[][..];
    if attr.has(has::STACK_USER) {
        let size = usize::try_from(body.u64()?).ok()?;
        if size > 0 {
            let data = body.bytes(size)?;
            let real = usize::try_from(body.u64()?).ok()?;
            stack = data.get(..real)?;
        }
    }
    Some(RawSample {
        pid,
        tid,
        cpu,
        // Without a period each sample counts for as much as it was set to.
        period: period.unwrap_or(if attr.is_rate() { 1 } else { attr.period_or_rate }),
        // Sampled in user space by the BPF program of --off-cpu: the call chain is all there is.
        ip: ip.unwrap_or_default(),
        in_kernel: header.misc & misc::CPUMODE_MASK == misc::KERNEL,
        call_chain,
        registers: user_registers,
        stack,
        raw,
        unwound: set.is_none()
            || !(attr.has(has::REGS_USER) && attr.has(has::STACK_USER))
            || (stack.is_empty() && is_completed(attr, call_chain)),
        at_calls: false,
    })
}

/// The kernel was not asked for the user part of the call chain, and there is one: a tool has unwound the stack and put
/// it there in place of registers and stack.
fn is_completed(attr: &Attr, call_chain: &[u8]) -> bool {
    let (words, _) = call_chain.as_chunks::<8>();
    attr.excludes_user_chain() && words.iter().any(|word| u64::from_ne_bytes(*word) == context::USER)
}

pub(super) fn read_call_chain<'a>(body: &mut Reader<'a>) -> Option<&'a [u8]> {
    let entries = usize::try_from(body.u64()?).ok()?;
    body.bytes(entries.checked_mul(8)?)
}

/// A wait as perf's BPF program writes it since Linux 6.15: u32 pid, tid; u64 ns; a call chain; u64 cgroup.
fn off_cpu_time(raw: &[u8], cpu: u32) -> Option<RawSample<'_>> {
    let mut raw = Reader(raw);
    let (pid, tid) = (raw.i32()?, raw.i32()?);
    let period = raw.u64()?;
    let call_chain = read_call_chain(&mut raw)?;
    // The first entry is PERF_CONTEXT_USER.
    let ip = call_chain.get(8..16).and_then(|word| word.try_into().ok());
    Some(RawSample {
        pid,
        tid,
        cpu,
        period,
        ip: ip.map_or(0, u64::from_ne_bytes),
        in_kernel: false,
        call_chain,
        registers: None,
        stack: &[],
        raw: &[],
        unwound: true,
        at_calls: false,
    })
}

/// PERF_FORMAT_*: TOTAL_TIME_ENABLED 1, TOTAL_TIME_RUNNING 2, ID 4, GROUP 8, LOST 16.
fn skip_read(body: &mut Reader<'_>, format: u64) -> Option<()> {
    let times = (format & 3).count_ones() as usize;
    let per_value = 1 + (format & (4 | 16)).count_ones() as usize;
    let values = if format & 8 != 0 {
        usize::try_from(body.u64()?).ok()?
    } else {
        1
    };
    let words = values.checked_mul(per_value)?.checked_add(times)?;
    body.bytes(words.checked_mul(8)?).map(drop)
}

/// `Some(None)`: the sample has none, or not those that unwinding needs.
fn read_registers<'a>(body: &mut Reader<'a>, mask: u64, set: Option<RegisterSet>) -> Option<Option<RawRegisters<'a>>> {
    const ABI_32: u64 = 1;
    let abi = body.u64()?;
    if abi == 0 {
        return Some(None);
    }
    let words = body.bytes(mask.count_ones() as usize * 8)?;
    let registers = RawRegisters {
        is_32_bit: abi == ABI_32,
        mask,
        words,
    };
    Some(set.filter(|set| set.needed() & !mask == 0).map(|_| registers))
}

/// u32 pid, tid; u64 addr, len, pgoff; char filename[].
fn mmap(header: RecordHeader, body: &[u8]) -> Option<Record<'_>> {
    let mut body = Reader(body);
    let pid = body.i32()?;
    let _tid = body.i32()?;
    Some(Record::Mmap {
        pid,
        start: body.u64()?,
        len: body.u64()?,
        file_offset: body.u64()?,
        inode: None,
        build_id: None,
        executable: header.misc & misc::MMAP_DATA == 0,
        path: body.c_string(),
    })
}
