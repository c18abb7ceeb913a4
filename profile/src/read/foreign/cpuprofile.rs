//! `.cpuprofile` of V8: of `node --cpu-prof`, of Chrome's DevTools, of Deno and others. JSON:
//! <https://chromedevtools.github.io/devtools-protocol/tot/Profiler/#type-Profile>.

use names::v8::Start;
use rustc_hash::FxHashMap;
use serde::Deserialize;

use super::json::{self, LimitedList};
use super::source::ForeignFile;
use super::tables::ForeignTables;
use super::{Foreign, ReadError};
use crate::data::{Category, Func, NONE, Samples, Script, Thread, WeightUnit, Weights};
use crate::unique::Unique;

/// True if these bytes begin an object with the parts of such a file, in any order.
pub(super) fn is_cpu_profile(start: &[u8]) -> bool {
    if start.trim_ascii_start().first() != Some(&b'{') {
        return false;
    }
    let keys = json::first_keys(start);
    let has = |key: &str| keys.iter().any(|known| known == key);
    let has_call_frames = start.windows(11).any(|part| part == b"\"callFrame\"");
    let has_others = ["startTime", "endTime", "samples", "timeDeltas"].into_iter().any(has);
    (has("nodes") && has_call_frames) || (keys.first().is_some_and(|key| key == "nodes") && has_others)
}

#[derive(Deserialize)]
struct CpuProfileFile {
    nodes: LimitedList<CpuProfileNode>,
    #[serde(rename = "startTime")]
    start_us: f64,
    #[serde(rename = "endTime")]
    end_us: f64,
    /// Numbers of nodes.
    #[serde(default)]
    samples: LimitedList<u64>,
    /// Since the sample before; of the first, since the start.
    #[serde(rename = "timeDeltas", default)]
    deltas_us: LimitedList<f64>,
}

#[derive(Deserialize)]
struct CpuProfileNode {
    id: u64,
    #[serde(rename = "callFrame")]
    call_frame: CallFrame,
    #[serde(default)]
    children: LimitedList<u64>,
    /// Written by older tools instead of `children`.
    #[serde(default)]
    parent: Option<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CallFrame {
    #[serde(default)]
    function_name: String,
    #[serde(default)]
    url: String,
    /// From 0; -1 for functions without a script.
    #[serde(default)]
    line_number: i64,
    #[serde(default)]
    column_number: i64,
}

/// The categories: what runs, and what does not.
const IDLE: u32 = 1;

/// Reads one thread, in the order of time. A sample lasts until the next one, as in DevTools.
pub(super) fn read(source: &mut ForeignFile) -> Result<Foreign, ReadError> {
    let path = source.path.clone();
    let file: CpuProfileFile = json::parse(source)?;
    let inconsistent = |what: String| ReadError::Inconsistent {
        path: path.clone(),
        what,
    };
    let (count, deltas) = (file.samples.0.len(), file.deltas_us.0.len());
    if count != deltas {
        return Err(inconsistent(format!(
            "expected {count} timeDeltas, one for each sample, found {deltas}"
        )));
    }
    let stacks = NodeStacks::new(&file.nodes.0, source)?;
    let mut time_us = file.start_us;
    let mut samples: Vec<(f64, u32)> = Vec::with_capacity(count);
    for (at, (id, delta)) in file.samples.0.iter().zip(&file.deltas_us.0).enumerate() {
        let stack = stacks.of_node.get(id);
        let stack =
            stack.ok_or_else(|| inconsistent(format!("samples[{at}]: expected the id of a node, found {id}")))?;
        time_us += delta;
        samples.push((time_us, *stack));
    }
    // V8 writes samples of several threads' timers out of order (negative deltas).
    samples.sort_by(|a, b| a.0.total_cmp(&b.0));
    let ends = samples.iter().skip(1).map(|(time, _)| *time).chain([file.end_us]);
    let weights: Vec<f64> = (samples.iter().zip(ends))
        .map(|((time, _), end)| ((end - time) / 1e3).max(0.0))
        .collect();
    let first = samples
        .first()
        .map_or(file.start_us, |(time, _)| time.min(file.start_us));
    let mut data = stacks.tables.into_data();
    data.scripts = stacks.scripts.all;
    let names = [("JavaScript", "yellow", false), ("Idle", "transparent", true)];
    data.categories = (names.into_iter())
        .map(|(name, color, is_wait)| Category {
            name: name.to_owned(),
            color: color.to_owned(),
            subcategories: vec!["Other".to_owned()],
            is_wait,
        })
        .collect();
    let idle: Vec<bool> = data.funcs.iter().map(|func| data.text(func.name) == "(idle)").collect();
    for frame in &mut data.frames {
        frame.category = if idle[frame.func as usize] { IDLE } else { 0 };
    }
    data.imported_from = "a .cpuprofile of V8".to_owned();
    data.unit = WeightUnit::Milliseconds;
    data.symbolicated = true;
    let length_us = file.end_us - first;
    data.duration_ms = (length_us > 0.0).then_some(length_us / 1e3);
    data.interval_ms = if count > 1 {
        (length_us / 1e3 / count as f64).max(0.0)
    } else {
        0.0
    };
    data.weights = Some(Weights {
        name: "time".to_owned(),
        unit: "microseconds".to_owned(),
        others: Vec::new(),
        is_exact: false,
    });
    data.threads = vec![Thread {
        is_main: true,
        unit: WeightUnit::Milliseconds,
        samples: Samples {
            time_ms: samples.iter().map(|(time, _)| (time - first) / 1e3).collect(),
            stack: samples.iter().map(|(_, stack)| *stack).collect(),
            weight: Some(weights),
            count: Some(vec![1; count]),
            ..Samples::default()
        },
        ..Thread::default()
    }];
    Ok(Foreign {
        data,
        notes: Vec::new(),
    })
}

struct NodeStacks {
    tables: ForeignTables,
    scripts: Unique<Script>,
    /// The stack of each node, by number.
    of_node: FxHashMap<u64, u32>,
}

impl NodeStacks {
    /// Nodes refer to their callees, in any order.
    fn new(nodes: &[CpuProfileNode], source: &ForeignFile) -> Result<NodeStacks, ReadError> {
        let mut stacks = NodeStacks {
            tables: ForeignTables::default(),
            scripts: Unique::default(),
            of_node: FxHashMap::default(),
        };
        let by_id: FxHashMap<u64, &CpuProfileNode> = nodes.iter().map(|node| (node.id, node)).collect();
        let mut children: FxHashMap<u64, Vec<u64>> = FxHashMap::default();
        let mut has_caller: FxHashMap<u64, u64> = FxHashMap::default();
        let listed = nodes
            .iter()
            .flat_map(|node| node.children.0.iter().map(|child| (*child, node.id)));
        for (child, parent) in listed.chain(nodes.iter().filter_map(|node| Some((node.id, node.parent?)))) {
            // Each node has one caller: a file that says otherwise could have a tree of any size.
            if by_id.contains_key(&child) && !has_caller.contains_key(&child) && child != parent {
                has_caller.insert(child, parent);
                children.entry(parent).or_default().push(child);
            }
        }
        let roots = nodes.iter().filter(|node| !has_caller.contains_key(&node.id));
        let mut open: Vec<(u64, u32)> = roots.map(|node| (node.id, NONE)).collect();
        while let Some((id, prefix)) = open.pop() {
            let Some(node) = by_id.get(&id) else { continue };
            let stack = stacks.add(&node.call_frame, prefix);
            stacks.of_node.insert(id, stack);
            open.extend(children.get(&id).into_iter().flatten().map(|child| (*child, stack)));
            source.keeps(stacks.tables.values() + 8 * nodes.len() as u64)?;
        }
        Ok(stacks)
    }

    fn add(&mut self, call: &CallFrame, prefix: u32) -> u32 {
        let name = match call.function_name.as_str() {
            // Of all nodes.
            "(root)" if prefix == NONE => return NONE,
            "" => "(anonymous)",
            name => name,
        };
        let file = call.url.strip_prefix("file://").unwrap_or(&call.url);
        let place = |number: i64| u32::try_from(number + 1).ok().filter(|number| *number > 0);
        let start = place(call.line_number.clamp(-1, 1 << 30))
            .filter(|_| !file.is_empty())
            .map(|line| Start {
                line,
                column: place(call.column_number.clamp(-1, 1 << 30)),
            });
        let (name, file) = (self.tables.text(name), self.tables.text(file));
        let func = self.tables.func_row(Func {
            script: start.map_or(NONE, |start| self.scripts.index(Script::from_start(start))),
            ..Func::native(name, NONE, file)
        });
        let frame = self.tables.frame(func, 0, NONE, None, false);
        self.tables.stack(prefix, frame)
    }
}
