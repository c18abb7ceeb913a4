//! Pairs the blocks of memory that threads take with what they free, per process.

use recording::event::{Allocation, Thread};

use super::Builder;
use super::processes::LiveThread;
use crate::recorded::heap::{HeapRow, RecordedHeap, TakenBlock, weight_of};
use crate::recorded::stacks::StackId;

impl Builder {
    /// Adds a block that a thread took.
    pub(super) fn add_block(&mut self, at: i64, thread: Thread, block: &Allocation, stack: Option<StackId>) {
        let (process, live) = self.processes.thread_for_sample(thread, at);
        let row = HeapRow {
            time: at,
            thread: heap_thread(&mut process.heap, live),
            address: block.address,
            weight: weight_of(block),
            taken: None,
        };
        if let Some(weight) = process.living_blocks.insert(row.address, row.weight) {
            self.counts.blocks_on_others += 1;
            process.heap.rows.push(HeapRow { weight, ..row });
        }
        let size = block.size;
        process.heap.rows.push(HeapRow {
            taken: Some(TakenBlock { size, stack }),
            ..row
        });
        self.counts.blocks += 1;
        if let Some(file) = &mut self.spill {
            process.heap.rows.bytes.spill(file);
        }
    }

    /// A thread frees the block at this address.
    pub(super) fn free_block(&mut self, at: i64, thread: Thread, address: u64) {
        let (process, live) = self.processes.thread_for_sample(thread, at);
        let Some(weight) = process.living_blocks.remove(&address) else {
            match process.has_parents_memory {
                true => self.counts.inherited_blocks_freed += 1,
                // Blocks of other threads than main ones were left out.
                false if self.options.main_thread_only => {}
                false => self.counts.unknown_blocks_freed += 1,
            }
            return;
        };
        let thread = heap_thread(&mut process.heap, live);
        process.heap.rows.push(HeapRow {
            time: at,
            thread,
            address,
            weight,
            taken: None,
        });
        if let Some(file) = &mut self.spill {
            process.heap.rows.bytes.spill(file);
        }
    }
}

/// The thread's index in its process's heap.
fn heap_thread(heap: &mut RecordedHeap, thread: &mut LiveThread) -> u32 {
    *thread.heap_thread.get_or_insert_with(|| {
        heap.threads.push(thread.id.clone());
        heap.threads.len() as u32 - 1
    })
}
