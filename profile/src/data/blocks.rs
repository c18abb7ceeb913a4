//! Pairs what was taken with what was freed.

use rustc_hash::{FxHashMap, FxHashSet};

use super::{Allocations, Data};

/// A block that was freed sooner is temporary.
pub(crate) const TEMPORARY_MS: f64 = 1.0;

/// A sampled block of memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    /// Index of the thread that took it.
    pub(crate) thread: u32,
    pub(crate) stack: u32,
    pub(crate) time_ms: f64,
    /// When it was freed. Infinite if it never was, or not in a file that has no addresses.
    pub(crate) freed_ms: f64,
    /// The end of its process, if it ended before the recording; else infinite.
    pub(crate) process_end_ms: f64,
    /// Bytes that it stands for.
    pub(crate) weight: f64,
    /// Its own bytes, if the file has them.
    pub(crate) size: Option<f64>,
}

impl Block {
    /// Its chance to be a sample; 1 if the file does not have it.
    fn chance(&self) -> f64 {
        match self.size {
            Some(size) if self.weight > 0.0 => (size / self.weight).clamp(0.0, 1.0),
            _ => 1.0,
        }
    }

    /// How many blocks it stands for.
    pub(crate) fn blocks(&self) -> f64 {
        match self.chance() {
            0.0 => 1.0,
            chance => 1.0 / chance,
        }
    }

    /// The variance that it adds to a sum of weights. A block whose chance is not known counts as a rare one.
    pub(crate) fn variance(&self) -> f64 {
        let missed = if self.size.is_some() { 1.0 - self.chance() } else { 1.0 };
        self.weight * self.weight * missed
    }

    /// The same for a number of blocks.
    pub(crate) fn variance_of_blocks(&self) -> f64 {
        self.blocks() * (self.blocks() - 1.0)
    }

    pub(crate) fn is_live_at(&self, time_ms: f64) -> bool {
        self.time_ms <= time_ms && self.freed_ms.min(self.process_end_ms) > time_ms
    }

    /// True if it was freed within a millisecond.
    pub(crate) fn is_temporary(&self) -> bool {
        self.freed_ms - self.time_ms < TEMPORARY_MS
    }
}

/// The variance of a sum over blocks of one size that were chosen by bytes, one in `interval` on average: of their
/// bytes, or of their number. Both are estimates.
pub(crate) fn variance_of_sum(number: f64, bytes: f64, interval: f64, is_of_bytes: bool) -> f64 {
    if number <= 0.0 || bytes <= 0.0 {
        return 0.0;
    }
    let size = bytes / number;
    // Each block with the chance `p` adds `(1 - p) / p`, which is `1 / (exp(size / interval) - 1)`.
    let of_number = number / (size / interval).exp_m1();
    of_number * if is_of_bytes { size * size } else { 1.0 }
}

impl Data {
    /// Mean distance of the bytes that chose blocks, the longest that was used; `None` if the file does not have it.
    pub(crate) fn heap_interval(&self) -> Option<u64> {
        let heap = self.recorded.as_ref()?.heap.as_ref()?;
        Some(heap.interval.max(heap.longest_interval))
    }

    /// All blocks, those of each process in time order.
    pub(crate) fn blocks(&self) -> Vec<Block> {
        let mut all: Vec<Block> = Vec::new();
        self.each_table(|table, thread_of| {
            let mut living: FxHashMap<u64, usize> = FxHashMap::default();
            for row in table.rows() {
                let Some(size) = row.taken else {
                    if let Some(block) = row.address.and_then(|address| living.remove(&address)) {
                        all[block].freed_ms = row.time_ms;
                    }
                    continue;
                };
                if let Some(address) = row.address {
                    living.insert(address, all.len());
                }
                all.push(Block {
                    thread: thread_of(row.thread),
                    stack: row.stack,
                    time_ms: row.time_ms,
                    freed_ms: f64::INFINITY,
                    process_end_ms: table.end_ms.unwrap_or(f64::INFINITY),
                    weight: row.weight,
                    size,
                });
            }
        });
        all
    }

    /// For each table, which rows are of blocks that are selected by thread, time and stack. Rows of what is freed from
    /// `to_ms` on are not selected: at that time these blocks live.
    pub(crate) fn selected_rows(&self, to_ms: f64, is_selected: impl Fn(u32, f64, u32) -> bool) -> Vec<Vec<bool>> {
        let mut selected = Vec::new();
        self.each_table(|table, thread_of| {
            let mut living: FxHashSet<u64> = FxHashSet::default();
            let is_kept = table.rows().map(|row| match row.taken {
                Some(_) => {
                    let is_kept = is_selected(thread_of(row.thread), row.time_ms, row.stack);
                    living.extend(row.address.filter(|_| is_kept));
                    is_kept
                }
                None => {
                    let is_known = row.address.is_none_or(|address| living.remove(&address));
                    is_known && row.time_ms < to_ms
                }
            });
            selected.push(is_kept.collect());
        });
        selected
    }

    /// Calls `each` with the table of each process, and a function from a thread's number to its index.
    fn each_table(&self, mut each: impl FnMut(&Allocations, &mut dyn FnMut(f64) -> u32)) {
        let mut threads: FxHashMap<(&str, &str), u32> = FxHashMap::default();
        for (index, thread) in (0..).zip(&self.threads).filter(|(_, thread)| thread.event_of.is_none()) {
            threads.entry((&thread.pid, &thread.tid)).or_insert(index);
        }
        for (index, thread) in (0..).zip(&self.threads) {
            let Some(table) = &thread.allocations else { continue };
            let mut known: FxHashMap<u64, u32> = FxHashMap::default();
            each(table, &mut |number: f64| {
                *known.entry(number.to_bits()).or_insert_with(|| {
                    let tid = number.to_string();
                    threads.get(&(&*thread.pid, &*tid)).copied().unwrap_or(index)
                })
            });
        }
    }
}

/// A row of the table.
struct BlockRow {
    time_ms: f64,
    stack: u32,
    weight: f64,
    address: Option<u64>,
    /// NaN if it is not known.
    thread: f64,
    /// `None`: the block is freed. Its size, if the file has it.
    taken: Option<Option<f64>>,
}

impl Allocations {
    fn rows(&self) -> impl Iterator<Item = BlockRow> + '_ {
        (0..self.weight.len()).map(|at| {
            let (weight, size) = (self.weight[at], self.size.as_ref().map(|sizes| sizes[at]));
            // A block of no bytes has no weight.
            let is_taken = weight > 0.0 || weight == 0.0 && size != Some(None);
            BlockRow {
                time_ms: self.time_ms[at],
                stack: self.stack[at],
                weight,
                address: self.address.as_ref().and_then(|addresses| addresses[at]),
                thread: self.thread.as_ref().map_or(f64::NAN, |threads| threads[at]),
                taken: is_taken.then(|| size.flatten().map(|size| size as f64)),
            }
        })
    }
}

/// The moment when the sum of living blocks is largest, ms, and that sum. `None` without blocks.
pub(crate) fn peak(blocks: &[Block]) -> Option<(f64, f64)> {
    let mut changes: Vec<(f64, f64)> = Vec::with_capacity(blocks.len() * 2);
    for block in blocks {
        changes.push((block.time_ms, block.weight));
        let end_ms = block.freed_ms.min(block.process_end_ms);
        if end_ms.is_finite() {
            changes.push((end_ms, -block.weight));
        }
    }
    // Of one time, what is freed first.
    changes.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let mut sum = 0.0;
    let sums = changes.into_iter().map(|(time_ms, change)| {
        sum += change;
        (time_ms, sum)
    });
    sums.reduce(|most, now| if now.1 > most.1 { now } else { most })
}
