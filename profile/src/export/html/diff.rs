//! The data of a page that compares two sides: one tree, which has the samples of each side as a kind of its own.

use rustc_hash::FxHashMap;
use serde_json::{Value, json};

use super::super::label::{FrameColor, FrameColors};
use super::super::svg::color;
use super::DiffOptions;
use super::about::about;
use super::columns::PageColumns;
use super::data::{VERSION, bytes, shorter};
use crate::data::{Data, WeightUnit};
use crate::view::diff::nodes::NodeVerdict;
use crate::view::diff::paths::{ComparedPaths, paths};
use crate::view::diff::{Compared, DiffLimits, verdicts};

/// All that the page shows of two sides.
pub(super) fn data(base: &[Data], new: &[Data], limits: DiffLimits, options: &DiffOptions<'_>) -> Vec<u8> {
    let paths = paths(base, new, limits);
    let (order, depth) = depth_first(&paths);
    let mut columns = PageColumns::default();
    let plain = |numbers: &mut dyn Iterator<Item = u64>, columns: &mut PageColumns| columns.plain(numbers);
    let mut place = vec![0u32; order.len()];
    for (at, node) in (0..).zip(&order) {
        place[*node as usize] = at;
    }
    let below = &order[1..];
    let zeros = |columns: &mut PageColumns| columns.plain(below.iter().map(|_| 0));
    let stacks = json!({
        "depth": columns.deltas(depth[1..].iter().copied()),
        "func": plain(&mut below.iter().map(|node| u64::from(paths.func[*node as usize])), &mut columns),
        "inlined": plain(&mut below.iter().map(|node| u64::from(paths.inlined[*node as usize])), &mut columns),
        "stacks": columns.plain(below.iter().map(|_| 1)),
        "line": zeros(&mut columns),
        "caller": zeros(&mut columns),
    });
    let all: Vec<&Data> = base.iter().chain(new).collect();
    let first = new.first().or(base.first());
    let kinds: Vec<Value> = ["After", "Before"]
        .into_iter()
        .zip([1, 0])
        .map(|(name, side)| kind(name, &paths, side, &order, &all, &mut columns))
        .collect();
    let (mut libs, mut codes): (Vec<&str>, Vec<FrameColor>) = (Vec::new(), Vec::new());
    let kinds_of: Vec<FrameColors> = all.iter().map(|data| FrameColors::new(data)).collect();
    let code = paths.frame_of.iter().map(|(recording, frame)| {
        let data = all[*recording];
        number(
            &mut codes,
            kinds_of[*recording].kind(data, &data.frames[*frame as usize]),
        ) - 1
    });
    let code = columns.plain(code.collect::<Vec<_>>());
    let lib = (paths.functions.iter()).map(|(_, lib)| lib.as_deref().map_or(0, |lib| number(&mut libs, lib)));
    let lib = columns.plain(lib.collect::<Vec<_>>());
    let codes: Vec<Value> = (codes.iter())
        .map(|kind| {
            let (hue, saturation, lightness) = color::base(*kind);
            json!([kind.name(), hue, saturation, lightness])
        })
        .collect();
    let mut about = first.map_or(Value::Null, |data| about(data, options.notes));
    about["product"] = options.title.into();
    about["arguments"] = "".into();
    let func_of: FxHashMap<(&str, Option<&str>), usize> = (paths.functions.iter().zip(0..))
        .map(|((function, lib), func)| ((&**function, lib.as_deref()), func))
        .collect();
    let functions = |what| -> Vec<Value> {
        let verdicts = verdicts(base, new, what, limits, false);
        let rows = verdicts.of_interest().filter_map(|(function, lib, range, is_changed)| {
            let func = *func_of.get(&(function, lib))?;
            Some(row(func as u32, range, if is_changed { CHANGED } else { UNDECIDED }))
        });
        rows.collect()
    };
    let nodes = (0..)
        .zip(&paths.nodes.changes)
        .filter_map(|(node, change): (usize, _)| {
            let verdict = match change.verdict {
                NodeVerdict::Changed => CHANGED,
                NodeVerdict::OfShare => OF_SHARE,
                NodeVerdict::Undecided => UNDECIDED,
                NodeVerdict::Within => return None,
            };
            Some(row(place[node], change.range, verdict))
        });
    let head = json!({
        "version": VERSION,
        "about": about,
        "markers": {"names": [], "texts": [""], "leftOut": 0, "thread": columns.plain([]), "name": columns.plain([]),
            "start": columns.plain([]), "duration": columns.plain([]), "text": columns.plain([]), "kind": columns.plain([])},
        "counters": [],
        "calls": "paths",
        "stacks": stacks,
        "funcs": {
            "name": paths.functions.iter().map(|(name, _)| name).collect::<Vec<_>>(),
            "short": shorter(paths.functions.iter().map(|(name, _)| &**name)),
            "lib": lib,
            "file": columns.plain(paths.functions.iter().map(|_| 0)),
            "code": code,
        },
        "headline": null,
        "nameless": null,
        "places": null,
        "code": codes,
        "libs": libs.iter().map(|lib| json!([lib])).collect::<Vec<_>>(),
        "files": [],
        "sources": {},
        "kinds": kinds,
        "heap": {"measures": [], "threads": []},
        "threads": [],
        "diff": {
            "least": limits.least_change,
            "chance": limits.false_discoveries,
            "nodes": nodes.collect::<Vec<_>>(),
            "own": functions(Compared::Inlined),
            "total": functions(Compared::Total),
        },
        "columns": columns.index(),
    });
    bytes(&head, columns)
}

/// Verdicts in the page's rows. Without a row a change is ruled out.
const OF_SHARE: u8 = 0;
const CHANGED: u8 = 1;
const UNDECIDED: u8 = 2;

/// A function or node with the range of the change of its share.
fn row(of: u32, (low, high): (f64, f64), verdict: u8) -> Value {
    let rounded = |share: f64| (share * 1e6).round() / 1e6;
    json!([of, rounded(low), rounded(high), verdict])
}

/// A thing's number, from 1.
fn number<T: PartialEq>(all: &mut Vec<T>, of: T) -> u64 {
    let at = all.iter().position(|known| *known == of);
    at.unwrap_or_else(|| {
        all.push(of);
        all.len() - 1
    }) as u64
        + 1
}

/// The nodes in depth-first order, siblings by name, and the depth of each.
fn depth_first(paths: &ComparedPaths) -> (Vec<u32>, Vec<u64>) {
    let name = |node: u32| paths.functions.get(paths.func[node as usize] as usize);
    let mut children: Vec<u32> = (1..paths.parents.len() as u32).collect();
    children.sort_by(|a, b| {
        let parent = |node: u32| paths.parents[node as usize];
        (parent(*a).cmp(&parent(*b))).then_with(|| (name(*b), b).cmp(&(name(*a), a)))
    });
    let of = |parent: u32| {
        let first = children.partition_point(|node| paths.parents[*node as usize] < parent);
        let end = children.partition_point(|node| paths.parents[*node as usize] <= parent);
        &children[first..end]
    };
    let (mut order, mut depth, mut open) = (Vec::new(), Vec::new(), vec![(0, 0)]);
    while let Some((node, level)) = open.pop() {
        order.push(node);
        depth.push(level);
        open.extend(of(node).iter().map(|child| (*child, level + 1)));
    }
    (order, depth)
}

/// The samples of a side, summed by node.
fn kind(
    name: &str,
    paths: &ComparedPaths,
    side: usize,
    order: &[u32],
    all: &[&Data],
    columns: &mut PageColumns,
) -> Value {
    let unit = all.first().map_or(WeightUnit::default(), |data| data.unit);
    let interval_ms = all.first().map_or(0.0, |data| data.interval_ms);
    let is_time =
        interval_ms > 0.0 && interval_ms.is_finite() && all.iter().all(|data| data.interval_ms == interval_ms);
    let scale = if unit == WeightUnit::Milliseconds { 1e6 } else { 1.0 };
    let own = |node: &u32| paths.own[side][*node as usize];
    // `as` saturates.
    let rows: Vec<(u64, u64, u64)> = (0..)
        .zip(order)
        .map(|(at, node)| (at, (own(node).0 * scale).round() as u64, own(node).1))
        .filter(|(_, weight, _)| *weight > 0)
        .collect();
    json!({
        "name": name,
        "waits": false,
        "unit": match unit {
            WeightUnit::Samples => "samples",
            WeightUnit::Milliseconds => "ns",
            WeightUnit::Bytes => "bytes",
            WeightUnit::Counts => "count",
        },
        "unitName": null,
        "intervalNs": is_time.then_some(interval_ms * 1e6),
        "samples": rows.iter().map(|row| row.2).sum::<u64>(),
        "rowsAre": "one",
        "hasTimes": false,
        "unusable": 0,
        "threads": [{
            "thread": 0,
            "time": columns.plain(rows.iter().map(|_| 0)),
            "stack": columns.plain(rows.iter().map(|row| row.0)),
            "weight": columns.plain(rows.iter().map(|row| row.1)),
            "count": columns.plain(rows.iter().map(|row| row.2)),
        }],
        "totals": null,
        "arcs": null,
    })
}
