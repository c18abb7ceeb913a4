//! The sampled blocks of memory of a process: what was taken and what was freed, in about 15 bytes each.

use recording::event::Allocation;
use recording::varint::{put, take, unzigzag, zigzag};

use super::spill::SpillableBytes;
use super::stacks::StackId;

/// A block that was taken, or freed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HeapRow {
    /// ns from the profile's time zero.
    pub(crate) time: i64,
    /// Index into [`RecordedHeap::threads`]: who took it, or freed it.
    pub(crate) thread: u32,
    pub(crate) address: u64,
    /// Bytes that the block stands for, as [`Allocation::weight`] says.
    pub(crate) weight: u64,
    /// `None`: it is freed.
    pub(crate) taken: Option<TakenBlock>,
}

/// What is only known of a block when it is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TakenBlock {
    /// Bytes that the program asked for.
    pub(crate) size: u64,
    pub(crate) stack: Option<StackId>,
}

/// The sampled heap of a process, or of one program that it ran.
#[derive(Clone, Default)]
pub(crate) struct RecordedHeap {
    /// The threads of the rows: their ids.
    pub(crate) threads: Vec<String>,
    pub(crate) rows: PackedBlocks,
}

/// Rows in time order, each as the difference from the one before, in variable-length integers.
#[derive(Clone, Default)]
pub(crate) struct PackedBlocks {
    pub(crate) bytes: SpillableBytes,
    len: usize,
    last: HeapRow,
    last_stack: i64,
}

/// The rounded weight of a block.
pub(crate) fn weight_of(allocation: &Allocation) -> u64 {
    // No block is smaller than what it stands for.
    (allocation.weight().round() as u64).max(allocation.size)
}

impl PackedBlocks {
    /// Appends a row. A row with an earlier time than the row before gets that time.
    pub(crate) fn push(&mut self, row: HeapRow) {
        let (bytes, last) = (self.bytes.end(), self.last);
        let time = if self.len == 0 {
            row.time
        } else {
            row.time.max(last.time)
        };
        put(bytes, zigzag(time.wrapping_sub(last.time)));
        let of_thread = zigzag(i64::from(row.thread) - i64::from(last.thread));
        put(bytes, of_thread << 1 | u64::from(row.taken.is_some()));
        put(bytes, zigzag(row.address.wrapping_sub(last.address).cast_signed()));
        put(bytes, zigzag(row.weight.wrapping_sub(last.weight).cast_signed()));
        if let Some(taken) = row.taken {
            put(bytes, taken.size);
            let stack = taken.stack.map_or(0, |stack| i64::from(stack.0) + 1);
            put(bytes, zigzag(stack - self.last_stack));
            self.last_stack = stack;
        }
        self.last = HeapRow { time, ..row };
        self.len += 1;
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = HeapRow> + '_ {
        let mut rest = self.bytes.all();
        // What was put in is there.
        let mut next = move || take(&mut rest).unwrap_or_default();
        let (mut last, mut last_stack) = (HeapRow::default(), 0);
        (0..self.len).map(move |_| {
            let time = last.time.wrapping_add(unzigzag(next()));
            let thread = next();
            let of_thread = unzigzag(thread >> 1);
            let address = last.address.wrapping_add_signed(unzigzag(next()));
            let weight = last.weight.wrapping_add_signed(unzigzag(next()));
            let taken = (thread & 1 != 0).then(|| {
                let size = next();
                last_stack += unzigzag(next());
                let stack = (last_stack > 0).then(|| StackId((last_stack - 1) as u32));
                TakenBlock { size, stack }
            });
            last = HeapRow {
                time,
                thread: (i64::from(last.thread) + of_thread) as u32,
                address,
                weight,
                taken,
            };
            last
        })
    }

    /// The rows with mapped stacks; the map may depend on the row's time.
    pub(crate) fn map_stacks_at(&self, mut map: impl FnMut(i64, StackId) -> StackId) -> PackedBlocks {
        let mut mapped = PackedBlocks::default();
        mapped.bytes.end().reserve(self.bytes.all().len());
        for row in self.iter() {
            let taken = row.taken.map(|taken| TakenBlock {
                stack: taken.stack.map(|stack| map(row.time, stack)),
                ..taken
            });
            mapped.push(HeapRow { taken, ..row });
        }
        mapped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_come_back_as_they_went_in_and_take_few_bytes() {
        let mut rows = PackedBlocks::default();
        let mut given = Vec::new();
        for (at, (address, weight)) in [(u64::MAX, 0), (0, u64::MAX), (1, 1), (u64::MAX / 2, 7)]
            .into_iter()
            .enumerate()
        {
            let stack = [None, Some(StackId(u32::MAX - 1)), Some(StackId(0))][at % 3];
            let taken = Some(TakenBlock { size: weight, stack });
            for (thread, taken) in [(u32::MAX, taken), (0, None)] {
                given.push(HeapRow {
                    time: at as i64 - 1,
                    thread,
                    address,
                    weight,
                    taken,
                });
            }
        }
        given.iter().for_each(|row| rows.push(*row));
        assert_eq!(rows.iter().collect::<Vec<_>>(), given);

        let mut many = PackedBlocks::default();
        for at in 0..100_000u64 {
            let row = HeapRow {
                time: at as i64 * 500_123,
                thread: (at % 4) as u32,
                address: 0x7f00_0000_0000 + at * 7919 % (1 << 28) * 16,
                weight: 524_288 + at % 32,
                taken: None,
            };
            let stack = Some(StackId((at * 7919 % 20_000) as u32));
            let size = 64;
            many.push(HeapRow {
                taken: Some(TakenBlock { size, stack }),
                ..row
            });
            many.push(row);
        }
        let each = many.bytes.all().len() / many.len();
        assert!(each < 15, "{each} bytes each");
    }
}
