//! Heap profiles of valgrind's massif: snapshots of the heap, some of them with a tree of the places that took it:
//! <https://valgrind.org/docs/manual/ms-manual.html>, massif/ms_main.c, massif/ms_print.in.
//!
//! A tree has the bytes of the blocks that lived at its snapshot. What was taken in between, and how often, is not in
//! the file.

use super::dhat::valgrind_frame;
use super::encoding;
use super::source::{ForeignFile, ForeignReader};
use super::tables::ForeignTables;
use super::{Foreign, ReadError, choose, others};
use crate::data::{NONE, Samples, Thread, WeightUnit, Weights};

/// True if these bytes begin such a file.
pub(super) fn is_massif(start: &[u8]) -> bool {
    let unit = b"\ntime_unit:";
    start.starts_with(b"desc:") && start.windows(unit.len()).any(|part| part == unit)
}

/// Longest call path; valgrind takes at most 200 calls.
const MAX_DEPTH: usize = 1 << 12;

/// A snapshot with a tree.
struct Snapshot {
    number: String,
    time: String,
    /// Bytes that the allocator adds.
    extra: u64,
    stacks: u64,
    nodes: Vec<HeapNode>,
}

/// A line of a tree. Its children follow it.
struct HeapNode {
    depth: usize,
    /// Bytes that no child has.
    bytes: u64,
    text: String,
}

/// The trees that can be shown, and what the file says beside them.
#[derive(Default)]
struct MassifFile {
    command: String,
    time_unit: String,
    snapshots: u64,
    end: String,
    peak: Option<Snapshot>,
    last: Option<Snapshot>,
}

/// Reads the tree of the peak, or the last tree of the file.
pub(super) fn read(source: &mut ForeignFile, event: Option<&str>) -> Result<Foreign, ReadError> {
    let path = source.path.clone();
    let file = parse(source)?;
    // The peak may be the last snapshot with a tree.
    let (peak, last) = (file.peak.as_ref(), file.last.as_ref().or(file.peak.as_ref()));
    let trees = [("peak", peak), ("retained", last)];
    let trees: Vec<(&str, &Snapshot)> = (trees.into_iter())
        .filter_map(|(name, snapshot)| Some((name, snapshot?)))
        .collect();
    if trees.is_empty() {
        return Err(ReadError::Inconsistent {
            path,
            what: "no snapshot has a tree of the heap; expected `heap_tree=peak` or `heap_tree=detailed`".to_owned(),
        });
    }
    let names: Vec<String> = trees.iter().map(|(name, _)| (*name).to_owned()).collect();
    let chosen = choose(&path, event, &names, 0)?;
    let (name, snapshot) = trees[chosen];

    let mut tables = ForeignTables::default();
    let samples = samples(&snapshot.nodes, &mut tables, source)?;
    let mut notes = Vec::new();
    if name == "retained" && snapshot.time != file.end {
        notes.push(format!(
            "retained: what lived at snapshot {}, the last one of {} that has places, at {} of {} {}",
            snapshot.number, file.snapshots, snapshot.time, file.end, file.time_unit
        ));
    }
    for (bytes, what) in [
        (snapshot.extra, "that the allocator adds to blocks"),
        (snapshot.stacks, "of stacks"),
    ] {
        if bytes > 0 {
            notes.push(format!("{bytes} bytes {what} are in no place"));
        }
    }
    let program = file.command.split_whitespace().next().unwrap_or_default();
    let program = program.rsplit('/').next().unwrap_or(program).to_owned();
    let mut data = tables.into_data();
    data.imported_from = "massif".to_owned();
    let arguments = file.command.split_once(' ').map_or("", |(_, rest)| rest.trim());
    data.arguments = arguments.to_owned();
    data.threads = vec![Thread {
        process_name: program.clone(),
        samples,
        ..Thread::default()
    }];
    data.product = program;
    data.unit = WeightUnit::Bytes;
    data.is_summed = true;
    data.symbolicated = true;
    data.weights = Some(Weights {
        name: name.to_owned(),
        unit: "bytes".to_owned(),
        others: others(&names, chosen),
        is_exact: false,
    });
    Ok(Foreign { data, notes })
}

fn parse(source: &mut ForeignFile) -> Result<MassifFile, ReadError> {
    let mut reader = source.read()?;
    let mut file = MassifFile::default();
    let (mut number, mut time) = (String::new(), String::new());
    let (mut heap, mut extra, mut stacks) = (0, 0, 0);
    let mut kept = [0, 0];
    let mut line = Vec::new();
    while reader.line(&mut line)? {
        let text = encoding::text(&line);
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let key_and_value = text
            .split_once('=')
            .filter(|_| file.snapshots > 0 || text.starts_with("snapshot="));
        match key_and_value.or_else(|| text.split_once(": ")) {
            Some(("desc", _)) => {}
            Some(("cmd", command)) => command.clone_into(&mut file.command),
            Some(("time_unit", unit)) => unit.clone_into(&mut file.time_unit),
            Some(("snapshot", value)) => {
                file.snapshots += 1;
                value.clone_into(&mut number);
                (heap, extra, stacks) = (0, 0, 0);
            }
            Some(("time", value)) => {
                value.clone_into(&mut time);
                value.clone_into(&mut file.end);
            }
            Some(("mem_heap_B", value)) => heap = bytes(&reader, value)?,
            Some(("mem_heap_extra_B", value)) => extra = bytes(&reader, value)?,
            Some(("mem_stacks_B", value)) => stacks = bytes(&reader, value)?,
            Some(("heap_tree", "empty")) => {}
            Some(("heap_tree", kind @ ("peak" | "detailed"))) => {
                let is_peak = kind == "peak";
                let others = kept[usize::from(!is_peak)];
                let (nodes, values) = tree(&mut reader, heap, others)?;
                kept[usize::from(is_peak)] = values;
                let snapshot = Some(Snapshot {
                    number: number.clone(),
                    time: time.clone(),
                    extra,
                    stacks,
                    nodes,
                });
                match is_peak {
                    true => (file.peak, file.last) = (snapshot, None),
                    false => file.last = snapshot,
                }
            }
            _ => return Err(reader.wrong_line("expected a line of massif's, `mem_heap_B=1024`")),
        }
    }
    Ok(file)
}

fn bytes(reader: &ForeignReader<'_>, text: &str) -> Result<u64, ReadError> {
    let digits = text.trim().parse();
    digits.map_err(|_| reader.wrong_line(format!("expected a number of bytes, found {text:?}")))
}

/// Reads a tree of so many bytes to its end, which the numbers of children say. Returns also its memory in units of 8
/// bytes. `kept` is the memory of the other tree.
fn tree(reader: &mut ForeignReader<'_>, heap: u64, kept: u64) -> Result<(Vec<HeapNode>, u64), ReadError> {
    let mut nodes: Vec<HeapNode> = Vec::new();
    // The nodes from the root to the current one, each with its number of children that are still to come.
    let mut open: Vec<(usize, u64)> = Vec::new();
    let mut values = 0;
    let mut line = Vec::new();
    loop {
        if !reader.line(&mut line)? {
            return Err(reader.cut_off());
        }
        let text = encoding::text(&line);
        let node = text.trim_start_matches(' ');
        let depth = text.len() - node.len();
        let expected = || {
            let indent = " ".repeat(open.len());
            reader.wrong_line(format!("expected `{indent}n0: 1024 0x1091E5: f (a.c:6)`"))
        };
        let (children, rest) = (node.strip_prefix('n'))
            .and_then(|rest| rest.split_once(": "))
            .ok_or_else(expected)?;
        let (bytes, place) = rest.split_once(' ').unwrap_or((rest, ""));
        let (Ok(children), Ok(bytes)) = (children.parse::<u64>(), bytes.parse::<u64>()) else {
            return Err(expected());
        };
        if depth != open.len() || depth > MAX_DEPTH {
            return Err(expected());
        }
        match open.last_mut() {
            None if bytes != heap => {
                return Err(reader.wrong_line(format!("{bytes} bytes; expected the {heap} of mem_heap_B")));
            }
            None => {}
            Some((caller, left)) => {
                *left -= 1;
                let unplaced = &mut nodes[*caller].bytes;
                *unplaced = unplaced.checked_sub(bytes).ok_or_else(|| {
                    let at_most = format!("expected at most the {unplaced} that no line of the same caller has");
                    reader.wrong_line(format!("{bytes} bytes; {at_most}"))
                })?;
            }
        }
        values += 8 + place.len() as u64 / 8;
        reader.keeps(kept + values)?;
        open.push((nodes.len(), children));
        nodes.push(HeapNode {
            depth,
            bytes,
            text: place.to_owned(),
        });
        while open.last().is_some_and(|(_, left)| *left == 0) {
            open.pop();
        }
        if open.is_empty() {
            return Ok((nodes, values));
        }
    }
}

/// A sample for each node: the bytes that none of its children has. The root stands for the allocator, and each child
/// for a caller.
fn samples(nodes: &[HeapNode], tables: &mut ForeignTables, source: &ForeignFile) -> Result<Samples, ReadError> {
    let mut samples = Samples::default();
    let mut weights: Vec<f64> = Vec::new();
    let mut path: Vec<u32> = Vec::new();
    for node in nodes {
        path.truncate(node.depth.saturating_sub(1));
        if node.depth > 0 {
            let is_rest = node.text.starts_with("in ") && node.text.contains("massif's threshold");
            path.push(match is_rest {
                true => {
                    let name = tables.func(&format!("[{}]", node.text), NONE, "");
                    tables.frame(name, 0, NONE, None, false)
                }
                false => valgrind_frame(tables, &node.text),
            });
        }
        if node.bytes > 0 {
            // The deepest caller is the root of the stack.
            let stack = path.iter().rev().fold(NONE, |stack, frame| tables.stack(stack, *frame));
            samples.stack.push(stack);
            samples.time_ms.push(0.0);
            weights.push(node.bytes as f64);
        }
        source.keeps(tables.values() + 4 * weights.len() as u64)?;
    }
    samples.weight = Some(weights);
    Ok(samples)
}
