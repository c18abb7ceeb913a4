//! The bytes of one record.

use crate::abi::record_type;

/// The id of the event of the samples.
pub(super) const EVENT_ID: u64 = 1;
/// The id of the event whose samples are stacks of waits.
pub(super) const WAIT_EVENT_ID: u64 = 2;
/// The id of the event whose samples are blocks of memory.
pub(super) const HEAP_EVENT_ID: u64 = 3;
/// The id of the first event that the user named; the others follow.
pub(super) const FIRST_NAMED_ID: u64 = 16;

/// Most entries in the call chain of a sample: a record has at most 64 KiB. Of a deeper stack, the leafward frames are
/// kept.
pub const MAX_CHAIN: usize = 8000;

/// Appends PERF_RECORD_LOST: records that are in no ring and no file.
pub(super) fn put_lost(out: &mut Vec<u8>, misc: u16, count: u64, time: u64, event: u64) {
    put_record(out, record_type::LOST, misc, |body| {
        body.extend(event.to_ne_bytes());
        body.extend(count.to_ne_bytes());
        put_sample_id(body, [0, 0], time, event);
    });
}

/// Appends the end of each record but samples: pid and tid, time, cpu, identifier.
pub(super) fn put_sample_id(body: &mut Vec<u8>, [pid, tid]: [i32; 2], time: u64, event: u64) {
    put_words(body, &[pair(pid, tid), time, 0, event]);
}

/// Appends a record with its header, of a multiple of 8 bytes. A record of more than 64 KiB is left out.
pub(super) fn put_record(out: &mut Vec<u8>, kind: u32, misc: u16, body: impl FnOnce(&mut Vec<u8>)) {
    put_record_if_short(out, kind, misc, |out| {
        let start = out.len();
        body(out);
        out.resize(start + (out.len() - start).next_multiple_of(8), 0);
    });
}

/// A record with its header, of as many bytes as it has. False if it would be longer than 64 KiB, and is left out.
pub(super) fn put_record_if_short(out: &mut Vec<u8>, kind: u32, misc: u16, body: impl FnOnce(&mut Vec<u8>)) -> bool {
    let start = out.len();
    out.extend(kind.to_ne_bytes());
    out.extend(misc.to_ne_bytes());
    out.extend(0u16.to_ne_bytes());
    body(out);
    match u16::try_from(out.len() - start) {
        Ok(size) => {
            out[start + 6..start + 8].copy_from_slice(&size.to_ne_bytes());
            true
        }
        Err(_) => {
            out.truncate(start);
            false
        }
    }
}

/// Words at once: chains have hundreds.
pub(super) fn put_words(out: &mut Vec<u8>, words: &[u64]) {
    let start = out.len();
    out.resize(start + 8 * words.len(), 0);
    let (places, _) = out[start..].as_chunks_mut::<8>();
    for (place, word) in places.iter_mut().zip(words) {
        *place = word.to_ne_bytes();
    }
}

/// Text, and as many zeros, one at least, as make a multiple of 8 bytes of it.
pub(super) fn put_c_string(out: &mut Vec<u8>, text: impl IntoIterator<Item = u8>) {
    let start = out.len();
    out.extend(text);
    out.resize(start + (out.len() + 1 - start).next_multiple_of(8), 0);
}

/// Two 32-bit fields.
pub(super) fn pair(low: i32, high: i32) -> u64 {
    let ([a, b, c, d], [e, f, g, h]) = (low.to_ne_bytes(), high.to_ne_bytes());
    u64::from_ne_bytes([a, b, c, d, e, f, g, h])
}
