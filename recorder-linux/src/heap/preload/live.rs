//! The addresses of samples that were not freed. Any number of threads and signal handlers may change it at a time.

use core::sync::atomic::{
    AtomicU8, AtomicU64,
    Ordering::{AcqRel, Relaxed},
};

/// A prime near 2^64 divided by the golden ratio: the upper bits of its products are a hash.
pub(crate) const HASH: u64 = 0x9e37_79b9_7f4a_7c15;
/// 65,536 counters: few frees of other addresses find one that is not 0. sys/machine/ has it as well.
pub(crate) const FILTER_BITS: u32 = 16;
/// The counter of an address: these parts of it, exclusive-or. Blocks of a page share a cache line of counters. By a
/// hash of the whole address, each free missed a cache: that took most of the time of all entries. Of the second shifts
/// from 14 to 23, this one spreads equal blocks best, of 32 bytes to 128 KiB.
pub(crate) const FILTER_SHIFTS: (u32, u32) = (6, 15);
/// 131,072 addresses: with an interval of 512 KiB, a heap of 64 GiB.
const TABLE_BITS: u32 = 17;
/// Slots that an address may be in.
const PROBED: usize = 16;

/// How many live samples have each hash. A counter that has reached 255 stays there.
pub(crate) static FILTER: [AtomicU8; 1 << FILTER_BITS] = [const { AtomicU8::new(0) }; 1 << FILTER_BITS];
static TABLE: [AtomicU64; (1 << TABLE_BITS) + PROBED] = [const { AtomicU64::new(0) }; (1 << TABLE_BITS) + PROBED];

/// False where all slots of this address are taken.
pub(crate) fn insert(address: u64) -> bool {
    let is_inserted = replace(address, 0, address);
    if is_inserted {
        count(address, |count| (count < u8::MAX).then(|| count + 1));
    }
    is_inserted
}

/// Whether this was the address of a sample. Of several threads that remove it at once, one gets `true`.
pub(crate) fn remove(address: u64) -> bool {
    let is_removed = replace(address, address, 0);
    if is_removed {
        count(address, |count| (count < u8::MAX).then(|| count - 1));
    }
    is_removed
}

fn replace(address: u64, from: u64, to: u64) -> bool {
    let start = (address.wrapping_mul(HASH) >> (64 - TABLE_BITS)) as usize;
    let slots = TABLE.get(start..start + PROBED).unwrap_or_default();
    let is_replaced =
        |slot: &AtomicU64| slot.load(Relaxed) == from && slot.compare_exchange(from, to, AcqRel, Relaxed).is_ok();
    slots.iter().any(is_replaced)
}

fn count(address: u64, change: impl FnMut(u8) -> Option<u8>) {
    let (near, far) = FILTER_SHIFTS;
    let index = (address >> near ^ address >> far) & ((1 << FILTER_BITS) - 1);
    if let Some(counter) = FILTER.get(index as usize) {
        // An error means that the counter stays.
        let _ = counter.fetch_update(AcqRel, Relaxed, change);
    }
}
