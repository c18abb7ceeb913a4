//! Blocks of memory: what was taken and what was freed.

use super::Fields;

/// The blocks of memory that threads of a process took and freed, in time order: `nativeAllocations` of the front end,
/// in the main thread of the process. Columns of equal length.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Allocations {
    /// Since [`Data::start_ms`](super::Data::start_ms), ms.
    pub time_ms: Vec<f64>,
    /// Bytes that the block stands for; negative if it is freed.
    pub weight: Vec<f64>,
    /// Index of the stack that took the block, or [`NONE`](super::NONE).
    pub stack: Vec<u32>,
    /// Address of the block; `None` if the file has no addresses: then no block is known to be freed.
    pub address: Option<Vec<Option<u64>>>,
    /// Number of the thread that took or freed the block: [`Thread::tid`](super::Thread::tid).
    pub thread: Option<Vec<f64>>,
    /// Bytes that the program asked for; `None` if the block is freed. Only sprof writes it. The block had the chance
    /// `size / weight` to be in the table.
    pub size: Option<Vec<Option<u64>>>,
    /// End of the process, ms, if it ended before the recording. Only sprof writes it.
    pub end_ms: Option<f64>,
    /// Other fields and columns of the table.
    pub rest: Fields,
}

impl Allocations {
    /// Moves all times.
    pub(crate) fn shift(&mut self, by_ms: f64) {
        self.time_ms.iter_mut().for_each(|time| *time += by_ms);
        self.end_ms = self.end_ms.map(|end| end + by_ms);
    }

    /// Keeps the rows whose entry is true.
    pub(crate) fn retain(&mut self, is_kept: &[bool]) {
        retain(&mut self.time_ms, is_kept);
        retain(&mut self.weight, is_kept);
        retain(&mut self.stack, is_kept);
        for numbers in [&mut self.address, &mut self.size].into_iter().flatten() {
            retain(numbers, is_kept);
        }
        if let Some(threads) = &mut self.thread {
            retain(threads, is_kept);
        }
        for values in self.rest.values_mut().filter_map(|values| values.as_array_mut()) {
            retain(values, is_kept);
        }
    }
}

/// Keeps the values of a column whose entry is true.
pub(super) fn retain<T>(column: &mut Vec<T>, is_kept: &[bool]) {
    let mut is_kept = is_kept.iter();
    column.retain(|_| is_kept.next().copied().unwrap_or(false));
}
