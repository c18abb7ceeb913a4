//! What can be counted: CPU time, waits, and each event. Samples of different kinds are never added up.

use serde_json::{Value, json};

use super::super::{Picked, PickedTime};
use super::columns::{PageColumns, micros};
use super::stacks::PageStacks;
use super::threads::ThreadRows;
use crate::data::{Calls, Data, WeightUnit};
use crate::view::arcs;
use crate::view::functions::functions;
use crate::view::parallelism::WALL_TIME;
use crate::view::select::Selection;

/// The selected samples of one event: waits, or samples of running threads; `None` if there are none.
pub(super) fn kind(
    selection: &Selection<'_>,
    is_wait: bool,
    stacks: &PageStacks,
    rows: &ThreadRows,
    columns: &mut PageColumns,
) -> Option<Value> {
    let data = selection.data;
    let picked = Picked::new(data, if is_wait { PickedTime::Waits } else { PickedTime::Cpu });
    // Such samples are of no kind.
    let unusable = if is_wait { 0 } else { picked.totals().unusable };
    let mut threads = Vec::new();
    let mut has_times = false;
    for thread in &data.threads {
        let samples: Vec<_> = picked.samples(thread).collect();
        if samples.is_empty() {
            continue;
        }
        has_times |= samples.iter().any(|sample| sample.time_ms > 0.0);
        let first = samples[0].weight;
        let weight = match samples.iter().all(|sample| sample.weight == first) {
            true => json!({ "each": first }),
            false => json!(columns.plain(samples.iter().map(|sample| sample.weight))),
        };
        let count = thread.samples.count.as_ref();
        threads.push(json!({
            "thread": rows.of(thread),
            "time": columns.deltas(samples.iter().map(|sample| micros(sample.time_ms))),
            "stack": columns.plain(samples.iter().map(|sample| u64::from(stacks.number(sample.stack)))),
            "weight": weight,
            "count": count.map(|_| columns.plain(samples.iter().map(|sample| sample.count))),
        }));
    }
    let name = match (is_wait, data.counted_name(), data.unit) {
        (true, ..) => "Waits".to_owned(),
        (_, Some(name), _) => name.to_owned(),
        (_, None, WeightUnit::Bytes) => "Memory".to_owned(),
        (_, None, WeightUnit::Samples) if data.is_summed => "Samples".to_owned(),
        (_, None, _) => "CPU time".to_owned(),
    };
    let has_samples = data.has_samples();
    let is_empty = threads.is_empty();
    (!is_empty).then(|| {
        json!({
            "name": name,
            "waits": is_wait,
            "unit": match data.unit {
                WeightUnit::Samples => "samples",
                WeightUnit::Milliseconds => "ns",
                WeightUnit::Bytes => "bytes",
                WeightUnit::Counts => "count",
            },
            "unitName": data.weights.as_ref().map(|weights| &weights.unit),
            "intervalNs": is_time(data).then_some(data.interval_ms * 1e6),
            "samples": selection.total.samples,
            // What a row of samples is: its weight in samples, one sample, a count, or no sample.
            "rowsAre": match data.unit {
                _ if !has_samples => "none",
                WeightUnit::Samples => "weight",
                _ => "one",
            },
            // A sample of 1 ms that is half of the wall time is still spread over 1 ms.
            "isPartOfTime": data.counted_name() == Some(WALL_TIME),
            "hasTimes": has_times && !data.is_summed,
            "unusable": unusable,
            "threads": threads,
            "totals": totals(data, selection, stacks, columns),
            "arcs": calls(data, selection, stacks, columns),
        })
    })
}

fn is_time(data: &Data) -> bool {
    data.interval_ms > 0.0 && data.interval_ms.is_finite()
}

/// Totals by function of files without call paths, which cannot be made of their stacks.
fn totals(data: &Data, selection: &Selection<'_>, stacks: &PageStacks, columns: &mut PageColumns) -> Option<usize> {
    if data.calls == Calls::Paths {
        return None;
    }
    let mut of = vec![0.0; data.funcs.len()];
    for row in functions(selection) {
        of[row.func as usize] = row.total.weight;
    }
    Some(columns.plain(stacks.funcs.iter().map(|func| whole(data, of[*func as usize]))))
}

/// Calls from function to function of files that have them and no call paths: caller, callee, calls, cost.
fn calls(data: &Data, selection: &Selection<'_>, stacks: &PageStacks, columns: &mut PageColumns) -> Option<[usize; 4]> {
    let mut numbers = vec![None; data.funcs.len()];
    for (number, func) in (0u64..).zip(&stacks.funcs) {
        numbers[*func as usize] = Some(number);
    }
    let mut rows: Vec<[u64; 4]> = (arcs::sums(selection)?.into_iter())
        .filter_map(|((caller, callee), (calls, weight))| {
            let number = |func: u32| numbers.get(func as usize).copied().flatten();
            Some([number(caller)?, number(callee)?, calls, whole(data, weight)])
        })
        .collect();
    rows.sort_unstable();
    let mut column = |at: usize| columns.plain(rows.iter().map(|row| row[at]));
    Some([column(0), column(1), column(2), column(3)])
}

/// A weight in whole numbers, as those of samples.
fn whole(data: &Data, weight: f64) -> u64 {
    let scale = if data.unit == WeightUnit::Milliseconds {
        1e6
    } else {
        1.0
    };
    // `as` saturates.
    (weight * scale).round() as u64
}
