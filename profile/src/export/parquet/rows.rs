//! Sums of samples by thread, kind of measure and call path.

use std::io;

use parquet::data_type::ByteArray;
use rustc_hash::FxHashMap;
use sha2::{Digest, Sha256};

use super::{Data, NONE, Picked};
use crate::data::NO_STACK_LABEL;
use crate::view::select::{Filter, Selection, select};

/// A function as its columns have it.
pub(super) struct FunctionColumns {
    pub(super) name: ByteArray,
    pub(super) library: ByteArray,
    pub(super) file: ByteArray,
}

/// A call path of a thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallPathRow {
    /// Index of a thread.
    pub(super) thread: u32,
    pub(super) is_wait: bool,
    /// Index of a node; [`NONE`] without a stack.
    node: u32,
    pub(super) value: u64,
    pub(super) samples: u64,
}

/// A call path: a function and its caller's path. Frames at different places of a function are one path.
struct CallPathKey {
    caller: u32,
    function: u32,
    depth: u32,
}

/// All rows, with the paths and functions that they refer to.
pub(super) struct ParquetRows {
    pub(super) rows: Vec<CallPathRow>,
    nodes: Vec<CallPathKey>,
    functions: Vec<FunctionColumns>,
    no_stack: FunctionColumns,
}

impl ParquetRows {
    /// # Errors
    ///
    /// The paths of all rows have more frames than `max_frames`.
    pub(super) fn new(picked: &Picked<'_>, max_frames: usize) -> io::Result<ParquetRows> {
        let data = picked.data;
        // For the functions that `sprof report` shows as one. An empty filter names nothing that could be missing.
        let selection = select(data, &Filter::default()).map_err(io::Error::other)?;
        let (nodes, node_of) = nodes(&selection);
        let mut rows = Vec::new();
        for (thread, samples) in (0..).zip(&data.threads) {
            let mut sums: FxHashMap<(bool, u32), (u64, u64)> = FxHashMap::default();
            for sample in picked.samples(samples) {
                let node = node_of.get(sample.stack as usize).copied().unwrap_or(NONE);
                let (value, count) = sums.entry((data.is_wait(sample.stack), node)).or_default();
                *value = value.saturating_add(match picked.has_weights() {
                    true => picked.value(sample.weight),
                    false => sample.weight,
                });
                *count = count.saturating_add(sample.count);
            }
            let first = rows.len();
            rows.extend(sums.into_iter().map(|((is_wait, node), (value, samples))| CallPathRow {
                thread,
                is_wait,
                node,
                value,
                samples,
            }));
            rows[first..].sort_unstable_by_key(|row| (row.is_wait, row.node));
        }
        let rows = ParquetRows {
            rows,
            nodes,
            functions: (0..data.funcs.len() as u32)
                .map(|func| function(&selection, func))
                .collect(),
            no_stack: FunctionColumns {
                name: NO_STACK_LABEL.into(),
                library: "".into(),
                file: "".into(),
            },
        };
        let frames = rows
            .rows
            .iter()
            .map(|row| rows.depth(row))
            .fold(0, usize::saturating_add);
        if frames > max_frames {
            return Err(io::Error::other(format!(
                "the call paths have {frames} frames, more than {max_frames}; record a shorter time"
            )));
        }
        Ok(rows)
    }

    /// Number of frames.
    pub(super) fn depth(&self, row: &CallPathRow) -> usize {
        self.nodes.get(row.node as usize).map_or(0, |node| node.depth as usize)
    }

    /// The function that ran.
    pub(super) fn leaf(&self, row: &CallPathRow) -> &FunctionColumns {
        match self.nodes.get(row.node as usize) {
            Some(node) => &self.functions[node.function as usize],
            None => &self.no_stack,
        }
    }

    /// The functions on the stack, root first.
    pub(super) fn path(&self, row: &CallPathRow) -> Vec<&FunctionColumns> {
        let mut path = Vec::with_capacity(self.depth(row));
        let mut next = row.node;
        while let Some(node) = self.nodes.get(next as usize) {
            path.push(&self.functions[node.function as usize]);
            next = node.caller;
        }
        path.reverse();
        path
    }
}

/// All call paths, and the call path of each stack.
fn nodes(selection: &Selection<'_>) -> (Vec<CallPathKey>, Vec<u32>) {
    let mut nodes: Vec<CallPathKey> = Vec::new();
    let mut known: FxHashMap<(u32, u32), u32> = FxHashMap::default();
    let mut node_of: Vec<u32> = Vec::with_capacity(selection.stacks.len());
    for (stack, row) in (0..).zip(selection.stacks.iter()) {
        let caller = node_of.get(row.prefix as usize).copied().unwrap_or(NONE);
        let function = selection.func(stack);
        let node = *known.entry((caller, function)).or_insert_with(|| {
            let depth = nodes.get(caller as usize).map_or(1, |caller| caller.depth + 1);
            nodes.push(CallPathKey {
                caller,
                function,
                depth,
            });
            nodes.len() as u32 - 1
        });
        node_of.push(node);
    }
    (nodes, node_of)
}

fn function(selection: &Selection<'_>, func: u32) -> FunctionColumns {
    let data = selection.data;
    let name = match selection.name(func) {
        "" => "[unknown]",
        name => name,
    };
    FunctionColumns {
        name: name.into(),
        library: data.lib_name(func).unwrap_or_default().into(),
        file: data.text(data.funcs[func as usize].file).into(),
    }
}

/// Id of a profile, 32 hex digits: a hash over its functions and samples. Equal in every export of the profile,
/// whatever part of it is exported.
pub(super) fn id(data: &Data) -> String {
    let mut hash = Sha256::new();
    let mut text = |text: &str| {
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text);
    };
    text(&data.product);
    for func in &data.funcs {
        text(data.text(func.name));
    }
    for thread in &data.threads {
        text(&thread.pid);
        text(&thread.tid);
    }
    hash.update(data.start_ms.to_le_bytes());
    for thread in &data.threads {
        hash.update((thread.samples.len() as u64).to_le_bytes());
        for (time_ms, stack, weight) in thread.samples.iter() {
            hash.update(time_ms.to_le_bytes());
            hash.update(stack.to_le_bytes());
            hash.update(weight.to_le_bytes());
        }
    }
    let digest = hash.finalize();
    digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}
