//! Sampled blocks of memory. `js/heap.js` makes samples of them by a measure, as
//! [`Data::keep_measure`](crate::data::Data::keep_measure) does.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::columns::PageColumns;
use super::stacks::PageStacks;
use super::threads::ThreadRows;
use crate::data::Data;
use crate::data::blocks::Block;
use crate::view::heap::Measure;

/// The measures that can be shown, and the blocks by thread and end of the process. Times are ns: which block was freed
/// before which one is taken decides where the peak is.
pub(super) fn heap(data: &Data, stacks: &PageStacks, rows: &ThreadRows, columns: &mut PageColumns) -> Value {
    let mut of_threads: BTreeMap<(usize, u64), Vec<Block>> = BTreeMap::new();
    for block in data.blocks() {
        let row = rows.of(&data.threads[block.thread as usize]);
        let of_thread = of_threads.entry((row, ns(block.process_end_ms))).or_default();
        of_thread.push(block);
    }
    let threads = of_threads.into_iter().map(|((row, end), blocks)| {
        // 0: the block was never freed.
        let life = |block: &Block| match block.freed_ms.is_finite() {
            true => (ns(block.freed_ms) + 1).saturating_sub(ns(block.time_ms)),
            false => 0,
        };
        json!({
            "thread": row,
            "end": (end < u64::MAX).then_some(end),
            "time": columns.deltas(blocks.iter().map(|block| ns(block.time_ms))),
            "life": columns.plain(blocks.iter().map(life)),
            "stack": columns.plain(blocks.iter().map(|block| u64::from(stacks.number(block.stack)))),
            "weight": columns.plain(blocks.iter().map(|block| block.weight.round() as u64)),
            // 0: the size is not known.
            "size": columns.plain(blocks.iter().map(|block| block.size.map_or(0, |size| size as u64 + 1))),
        })
    });
    json!({
        "threads": threads.collect::<Vec<_>>(),
        "measures": data.measures().map(Measure::name).collect::<Vec<_>>(),
    })
}

/// Nanoseconds; the largest number for an infinite time.
fn ns(ms: f64) -> u64 {
    // `as` saturates: times before the start are at the start.
    (ms * 1e6).round() as u64
}
