//! A flame graph of the changes between two sets of recordings.
//!
//! Widths are those of the new recordings. The colour is the change of a frame's share, so recordings of different
//! lengths and rates compare: red for an increase, blue for a decrease, grey where a change is ruled out, yellow where
//! the recordings cannot decide, by the tests and limits of [`diff`](crate::view::diff). A pale colour marks a changed
//! share without a changed time: a slower function decreases the share of all others. Frames of the old recordings
//! alone are below the frame `[gone]` beside all others, at their old width.

use std::cmp::Ordering;
use std::io::{self, Write};

use super::color::{self, Color};
use super::layout::Layout;
use super::text::{count, wrapped};
use super::{Picture, SvgOptions, legend_rows};
use crate::data::{NONE, WeightUnit};
use crate::export::label::FrameColor;
use crate::export::tree::{CallPathTree, GONE, GrowingTree, PathStep, StackLeaves, ThreadPlaces, TreeShape};
use crate::export::{ExportUnit, Picked, PickedTime};
use crate::view::diff::nodes::{ComparedNodes, NodeChange, NodeVerdict, nodes};
use crate::view::diff::samples::{ComparedSample, RecordingSamples, in_kernel, interrupted};
use crate::view::diff::{DiffLimits, SideTotal};

/// Writes a flame graph of the recordings `new`, coloured by the changes since the recordings `base`.
///
/// # Errors
/// Write errors of `out`. An error if the recordings have different units or the shape is time order.
pub fn write(
    base: &[Picked<'_>],
    new: &[Picked<'_>],
    options: &SvgOptions,
    limits: DiffLimits,
    out: impl Write,
) -> io::Result<()> {
    if options.shape == TreeShape::TimeOrder {
        return Err(io::Error::other("two recordings can't be compared in time order"));
    }
    check(base, new)?;
    let both = BothSides::new(base, new, options, limits)?;
    let layout = Layout::new(&both.tree, options, false);
    let lines = both.lines(base, new, options, &layout);
    let picture = Picture {
        tree: &both.tree,
        title: options.title.clone().unwrap_or_else(|| title(base, new, options)),
        lines,
        legend: legend_rows(legend(), &layout),
        color: &|id| both.color(id),
        words: &|id| both.words(id),
        gone: both.gone,
    };
    picture.draw(options, &layout, out)
}

/// Refuses recordings that cannot be compared call path by call path.
pub(in super::super) fn check(base: &[Picked<'_>], new: &[Picked<'_>]) -> io::Result<()> {
    let name = |picked: &Picked<'_>| match (picked.counted(), picked.named()) {
        (_, Some((name, _))) => name.to_owned(),
        (ExportUnit::Samples, None) => "samples".to_owned(),
        (ExportUnit::Nanoseconds, None) => "time".to_owned(),
        (ExportUnit::Bytes, None) => "bytes".to_owned(),
        (ExportUnit::Named, None) => "something else".to_owned(),
    };
    // The tests need samples in time order, which such files lack.
    let imported = |picked: &Picked<'_>| picked.data.weights.as_ref().map(|weights| weights.name.clone());
    if let Some(name) = base.iter().chain(new).find_map(imported) {
        return Err(io::Error::other(format!(
            "a profile of another profiler, of {name}, has no samples by time, so chance cannot be estimated; \
             `sprof report` shows its figures"
        )));
    }
    let mut all = base.iter().chain(new).map(name);
    let first = all.next().unwrap_or_default();
    match all.find(|other| *other != first) {
        Some(other) => Err(io::Error::other(format!(
            "some of the profiles count {first}, others {other}: record all in the same way"
        ))),
        None => Ok(()),
    }
}

/// A tree of both sides.
struct BothSides {
    /// Weights are those of `new`; below `gone` those of `base`, scaled to the same total.
    tree: CallPathTree,
    gone: Option<u32>,
    /// Weights of each node except those below `gone`.
    base: Vec<u64>,
    nodes: ComparedNodes,
    /// For each node from `gone` on: the node with the same path.
    original: Vec<u32>,
    /// The unit of a run's amount.
    unit: &'static str,
    limits: DiffLimits,
}

impl BothSides {
    fn new(base: &[Picked<'_>], new: &[Picked<'_>], options: &SvgOptions, limits: DiffLimits) -> io::Result<BothSides> {
        let process = only_process(base).and(only_process(new));
        let places = ThreadPlaces {
            process,
            // Thread ids differ between runs.
            threads: options.threads.then_some(|thread| thread.name.clone()),
        };
        let mut growing = GrowingTree::default();
        let base_leaves = add(&mut growing, base, options.shape, places)?;
        let mut base_own: Vec<u64> = growing
            .tree
            .nodes
            .iter_mut()
            .map(|node| std::mem::take(&mut node.own))
            .collect();
        let new_leaves = add(&mut growing, new, options.shape, places)?;
        base_own.resize(growing.tree.nodes.len(), 0);

        let parents: Vec<u32> = growing.tree.nodes.iter().map(|node| node.parent).collect();
        let base_totals = totals(&parents, base_own.clone());
        let new_totals = totals(&parents, growing.tree.nodes.iter().map(|node| node.own).collect());
        let nodes = nodes(
            &parents,
            &recordings(base, &base_leaves),
            &recordings(new, &new_leaves),
            limits,
        );
        let is_gone = |node: usize| new_totals[node] == 0;
        let gone_own = (base_own.iter().enumerate()).map(|(node, own)| if is_gone(node) { *own } else { 0 });
        let scale = new_totals[0] as f64 / base_totals[0].max(1) as f64;
        let scaled = gone_own.map(|own| (own as f64 * scale).round() as u64).collect();
        let original = append_gone(&mut growing, &parents, scaled)?;
        Ok(BothSides {
            gone: (!original.is_empty()).then_some(parents.len() as u32),
            tree: growing.finish(options.shape),
            base: base_totals,
            nodes,
            original,
            unit: match base.first() {
                Some(picked) if picked.counted() == ExportUnit::Bytes => "bytes",
                Some(picked) if picked.data.unit == WeightUnit::Samples && picked.data.interval_ms <= 0.0 => "samples",
                _ => "ms",
            },
            limits,
        })
    }

    /// The weights of a node on both sides and its change: (before, after, change).
    fn sides(&self, id: u32) -> (u64, u64, Option<&NodeChange>) {
        let at = |id: u32| Some((*self.base.get(id as usize)?, self.nodes.changes.get(id as usize)?));
        match at(id) {
            Some((base, change)) if id != 0 => (base, self.tree.nodes[id as usize].total, Some(change)),
            Some((base, _)) => (base, self.new_total(), None),
            None => {
                let original = self.original[id as usize - self.base.len()];
                // A path above a gone path may still exist; only the gone part is drawn here.
                let change = at(original).map(|(_, change)| change);
                let scale = self.base[0] as f64 / self.new_total().max(1) as f64;
                let base = (self.tree.nodes[id as usize].total as f64 * scale).round() as u64;
                (base, 0, change.filter(|change| change.new.samples == 0))
            }
        }
    }

    /// The base of the shares of `new`.
    fn new_total(&self) -> u64 {
        let gone = self.gone.map_or(0, |gone| self.tree.nodes[gone as usize].total);
        self.tree.nodes[0].total.saturating_sub(gone)
    }

    fn shares(&self, base: u64, new: u64) -> (f64, f64) {
        let share = |part: u64, of: u64| part as f64 / of.max(1) as f64;
        (share(base, self.base[0]), share(new, self.new_total()))
    }

    fn color(&self, id: u32) -> Color {
        let (base, new, change) = self.sides(id);
        let (before, after) = self.shares(base, new);
        let inlined = self.tree.nodes[id as usize].inlined;
        // The full colour is a factor of two or more.
        let strength = 0.3 + 0.7 * (after / before).log2().abs();
        match change.map(|change| change.verdict) {
            Some(NodeVerdict::Changed) => color::of_change(after.partial_cmp(&before), strength, inlined),
            Some(NodeVerdict::OfShare) => color::of_change(after.partial_cmp(&before), 0.0, inlined),
            Some(NodeVerdict::Undecided) => color::undecided(inlined),
            Some(NodeVerdict::Within) | None => color::of_change(None, 0.0, inlined),
        }
    }

    fn words(&self, id: u32) -> String {
        let (base, new, change) = self.sides(id);
        let (before, after) = self.shares(base, new);
        if new == 0 && change.is_none() {
            return format!("what is gone of it had {:.2} % of before", 100.0 * before);
        }
        let per_run = |weight: u64, total: &SideTotal, all: u64| {
            // Weights to the unit of the total.
            let value = weight as f64 / all.max(1) as f64 * total.per_run;
            let decimals = usize::from(value < 10.0);
            format!("{value:.decimals$} {}", self.unit)
        };
        let was = per_run(base, &self.nodes.base, self.base[0]);
        let is = per_run(new, &self.nodes.new, self.new_total());
        let points = format!("{:+.2} points", 100.0 * (after - before));
        let how_sure = change.map_or_else(
            || points.clone(),
            |change| {
                let least = 100.0 * self.limits.least_change;
                let how = match change.verdict {
                    NodeVerdict::Changed => "changed for sure".to_owned(),
                    NodeVerdict::OfShare => "the share changed for sure, the time maybe not".to_owned(),
                    NodeVerdict::Within => format!("no change of {least} points or more"),
                    NodeVerdict::Undecided => "may be chance".to_owned(),
                };
                let (low, high) = change.range;
                format!(
                    "{how}: {points}, with 95 % confidence {:+.2} to {:+.2}",
                    100.0 * low,
                    100.0 * high
                )
            },
        );
        let state = match (base, new) {
            (0, _) => "new: ",
            (_, 0) => "gone: ",
            _ => "",
        };
        format!(
            "{state}{:.2} %, was {:.2} %; {how_sure}; {is} a run, was {was}",
            100.0 * after,
            100.0 * before,
        )
    }

    /// The lines below the title.
    fn lines(&self, base: &[Picked<'_>], new: &[Picked<'_>], options: &SvgOptions, layout: &Layout) -> Vec<String> {
        let limits = self.limits;
        let side = |picked: &[Picked<'_>], total: &SideTotal| {
            let samples = picked.iter().map(|picked| picked.totals().samples).sum();
            let runs = match total.recordings == total.runs {
                true => count(total.runs as u64, "recording"),
                false => format!(
                    "{} in {}",
                    count(total.runs as u64, "run"),
                    count(total.recordings as u64, "file")
                ),
            };
            format!("{} in {runs}", count(samples, "sample"))
        };
        let mut about = vec![format!(
            "after: {}; before: {}; {:+.1} % {} a run",
            side(new, &self.nodes.new),
            side(base, &self.nodes.base),
            100.0 * (self.nodes.new.per_run / self.nodes.base.per_run.max(f64::MIN_POSITIVE) - 1.0),
            if self.unit == "ms" { "time" } else { self.unit },
        )];
        let totals = || base.iter().chain(new).map(Picked::totals);
        if totals().any(|totals| totals.left_out > 0) {
            let what = if new.iter().any(|picked| picked.time() == PickedTime::Waits) {
                "CPU time"
            } else {
                "waits"
            };
            about.push(format!("{what} not shown"));
        }
        let unusable = totals().map(|totals| totals.unusable).sum();
        if unusable > 0 {
            about.push(format!("{} without usable weight not shown", count(unusable, "sample")));
        }
        if layout.left_out > 0 {
            about.push(format!("{} too narrow to draw", count(layout.left_out as u64, "frame")));
        }
        if base.iter().chain(new).any(|picked| !picked.data.symbolicated) {
            about.push("some without function names".into());
        }
        about.extend(options.notes.clone());
        let is_undecided = |change: &NodeChange| change.verdict == NodeVerdict::Undecided;
        let undecided = match self.nodes.changes.iter().any(is_undecided) {
            true => " \u{b7} yellow: more recordings a side can tell",
            false => "",
        };
        let gone = self.gone.map_or(0, |gone| self.tree.nodes[gone as usize].total);
        let gone = match gone {
            0 => "no call path is gone".to_owned(),
            gone => format!(
                "call paths that are gone had {:.2} % of before, and stand below {GONE} at the right",
                100.0 * gone as f64 / self.new_total().max(1) as f64
            ),
        };
        let how = format!(
            "width: share after \u{b7} {gone} \u{b7} sure changes are of {} points or more; at most {} % of them are chance{undecided}",
            100.0 * limits.least_change,
            100.0 * limits.false_discoveries,
        );
        [about.join(" \u{b7} "), how]
            .iter()
            .flat_map(|line| wrapped(line, layout.inner_width))
            .collect()
    }
}

/// The name of a side's processes, if all samples have the same.
fn only_process<'a>(side: &[Picked<'a>]) -> Option<&'a str> {
    let threads = side.iter().flat_map(|picked| picked.data.threads.iter());
    let mut names = threads
        .filter(|thread| !thread.samples.is_empty())
        .map(|thread| thread.process_name.as_str());
    let first = names.next()?;
    names.all(|name| name == first && !name.is_empty()).then_some(first)
}

fn add(
    growing: &mut GrowingTree,
    side: &[Picked<'_>],
    shape: TreeShape,
    places: ThreadPlaces<'_>,
) -> io::Result<Vec<StackLeaves>> {
    side.iter().map(|picked| growing.add(picked, shape, places)).collect()
}

fn totals(parents: &[u32], mut own: Vec<u64>) -> Vec<u64> {
    for node in (0..own.len()).rev() {
        let total = own[node];
        if let Some(parent) = own.get_mut(parents[node] as usize) {
            *parent = parent.saturating_add(total);
        }
    }
    own
}

/// The compared samples, at the nodes of their stacks. Interrupts are left out and never coloured, because the machine
/// causes them.
fn recordings(side: &[Picked<'_>], leaves: &[StackLeaves]) -> Vec<RecordingSamples> {
    let of = |(picked, leaves): (&Picked<'_>, &StackLeaves)| {
        let (interrupted, in_kernel) = (interrupted(picked.data), in_kernel(picked.data));
        let scale = match picked.counted() {
            ExportUnit::Nanoseconds => 1e-6,
            ExportUnit::Samples | ExportUnit::Bytes | ExportUnit::Named => 1.0,
        };
        let mut samples = Vec::new();
        for ((index, thread), nodes) in (0..).zip(&picked.data.threads).zip(leaves) {
            samples.extend(picked.samples(thread).filter_map(|sample| {
                let is_interrupt = interrupted
                    .get(sample.stack as usize)
                    .is_some_and(|is_interrupt| *is_interrupt);
                let node = nodes
                    .get(&sample.stack)
                    .filter(|_| !is_interrupt && sample.weight > 0)?;
                Some(ComparedSample {
                    time_ms: sample.time_ms,
                    place: *node,
                    thread: index,
                    weight: sample.weight as f64 * scale,
                    variance: sample.variance,
                    in_kernel: in_kernel.get(sample.stack as usize).copied().unwrap_or(false),
                })
            }));
        }
        RecordingSamples::new(picked.data, samples)
    };
    side.iter().zip(leaves).map(of).collect()
}

/// Copies the paths of the weights in `own` below a new frame. Returns the original of each new node, from that frame
/// on.
fn append_gone(growing: &mut GrowingTree, parents: &[u32], own: Vec<u64>) -> io::Result<Vec<u32>> {
    let gone = totals(parents, own.clone());
    if gone.first().is_none_or(|all| *all == 0) {
        return Ok(Vec::new());
    }
    let step = PathStep {
        label: growing.label(GONE),
        kind: FrameColor::Place,
        inlined: false,
    };
    let mut original = vec![0];
    let mut copies = vec![NONE; parents.len()];
    copies[0] = growing.push(0, step)?;
    growing.tree.nodes[copies[0] as usize].own = own[0];
    for node in 1..parents.len() {
        if gone[node] == 0 {
            continue;
        }
        let of = growing.tree.nodes[node];
        let step = PathStep {
            label: of.label,
            kind: of.kind,
            inlined: of.inlined,
        };
        let copy = growing.push(copies[parents[node] as usize], step)?;
        growing.tree.nodes[copy as usize].own = own[node];
        copies[node] = copy;
        original.push(node as u32);
    }
    Ok(original)
}

fn legend() -> Vec<(Color, String)> {
    let entries = [
        (Some(Ordering::Greater), 0.7, "grew for sure"),
        (Some(Ordering::Less), 0.7, "shrank for sure"),
        (Some(Ordering::Greater), 0.0, "larger share, maybe no more time"),
        (Some(Ordering::Less), 0.0, "smaller share, maybe no less time"),
        (None, 0.0, "no change"),
    ];
    let entry =
        |(change, strength, words): (_, f64, &str)| (color::of_change(change, strength, false), words.to_owned());
    let undecided = (color::undecided(false), "may be chance".to_owned());
    entries.into_iter().map(entry).chain([undecided]).collect()
}

fn title(base: &[Picked<'_>], new: &[Picked<'_>], options: &SvgOptions) -> String {
    let product = |side: &[Picked<'_>]| {
        side.first()
            .map_or("", |picked| picked.data.product.as_str())
            .to_owned()
    };
    let title = match new.first() {
        Some(picked) => super::default_title(picked, options),
        None => String::new(),
    };
    match product(base) {
        before if before.is_empty() || before == product(new) => format!("{title}, against before"),
        before => format!("{title}, against {before}"),
    }
}
