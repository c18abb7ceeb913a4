//! The heap by the code that wanted the memory.

use std::collections::hash_map::Entry;
use std::path::Path;

use rustc_hash::FxHashMap;

use super::measure::Measure;
use crate::category::CodeKind;
use crate::data::NONE;
use crate::data::blocks::{Block, peak};
use crate::view::buckets::takes_memory;
use crate::view::select::Selection;

/// Blocks that were taken in the last part of the time are no leaks yet.
const RECENT_PART: f64 = 0.1;

/// The moments at which [`SiteSums::live`] counts, as parts of the time. The last tenth is left out: there, programs
/// free what they kept.
pub const GROWTH_MOMENTS: [f64; 5] = [0.1, 0.3, 0.5, 0.7, 0.9];
/// Growth counts from one of these moments to the other: what is only taken at the start does not grow.
const GROWTH_BETWEEN: [usize; 2] = [2, 4];
/// A site grows if chance would seldom show so much: of a thousand steady sites, one.
const GROWTH_ERRORS: f64 = 3.0;

/// A sum over blocks, as far as chance shows it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HeapEstimate {
    /// Number of sampled blocks.
    pub samples: u64,
    /// The sum.
    pub sum: f64,
    /// Its variance.
    pub variance: f64,
}

impl HeapEstimate {
    fn add(&mut self, sum: f64, variance: f64) {
        self.samples += 1;
        self.sum += sum;
        self.variance += variance;
    }

    /// The standard error of the sum.
    pub fn error(&self) -> f64 {
        self.variance.sqrt()
    }
}

/// What is known of some blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SiteSums {
    /// Bytes that were taken.
    pub allocated: HeapEstimate,
    /// Number of blocks that were taken.
    pub blocks: HeapEstimate,
    /// Bytes that were not freed by the end of the selected time.
    pub retained: HeapEstimate,
    /// The part of `retained` that was taken before the last tenth of the time.
    pub leaked: HeapEstimate,
    /// Bytes that lived when all selected blocks together were most.
    pub at_peak: HeapEstimate,
    /// Bytes that were freed within a millisecond.
    pub temporary: HeapEstimate,
    /// Bytes that lived at each of [`HeapSites::moments_ms`].
    pub live: [HeapEstimate; GROWTH_MOMENTS.len()],
    /// How much more lived at the last of these moments than at the middle one. Blocks that lived at both have no part
    /// in its error.
    pub growth: HeapEstimate,
}

impl SiteSums {
    /// True if the living bytes grow by more than chance shows.
    pub fn is_growing(&self) -> bool {
        self.growth.sum > GROWTH_ERRORS * self.growth.error()
    }
}

/// The blocks that one function wanted.
#[derive(Clone, Debug, PartialEq)]
pub struct HeapSite {
    /// The first function from the leaf that takes no memory for others; [`NONE`] for blocks without a stack.
    pub func: u32,
    /// Its sums.
    pub sums: SiteSums,
    /// The time that half of the blocks lived at most, ms; infinite if more than half were never freed, NaN if what was
    /// freed is not known.
    pub median_life_ms: f64,
}

/// All blocks of a selection.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeapSites {
    /// By the bytes that they took, most first.
    pub sites: Vec<HeapSite>,
    /// Sums over all.
    pub total: SiteSums,
    /// The moment when the living blocks were most, ms; `None` without blocks.
    pub peak_ms: Option<f64>,
    /// The moments of [`GROWTH_MOMENTS`], ms; `None` if the length of the recording or what was freed is not known.
    pub moments_ms: Option<[f64; GROWTH_MOMENTS.len()]>,
}

impl HeapSites {
    /// The times from which to which [`SiteSums::growth`] counts, ms.
    pub fn growth_ms(&self) -> Option<[f64; 2]> {
        self.moments_ms
            .map(|moments_ms| GROWTH_BETWEEN.map(|at| moments_ms[at]))
    }
}

/// The selected blocks by the function that wanted them.
pub fn heap_sites(selection: &Selection<'_>) -> HeapSites {
    let (data, conditions) = (selection.data, &selection.conditions);
    let mut selected = data.blocks();
    selected.retain(|block| {
        let pid = &data.threads[block.thread as usize].pid;
        conditions.select_block(block.thread, pid, block.time_ms, block.stack)
    });
    let to_ms = conditions.to_ms.unwrap_or(f64::INFINITY);
    for block in selected.iter_mut().filter(|block| block.freed_ms >= to_ms) {
        block.freed_ms = f64::INFINITY;
    }
    let from_ms = conditions.from_ms.unwrap_or(0.0);
    let end_ms = data.length_ms().unwrap_or(f64::INFINITY).min(to_ms);
    let knows_frees = data.check_measure(Measure::Retained).is_ok();
    let moments = HeapMoments {
        knows_frees,
        peak_ms: peak(&selected).map(|(time_ms, _)| time_ms).filter(|_| knows_frees),
        recent_ms: end_ms - (end_ms - from_ms) * RECENT_PART,
        growth_ms: GROWTH_MOMENTS.map(|part| from_ms + (end_ms - from_ms) * part),
    };
    let wanted_by = wanted_by(selection);
    let mut total = SiteSums::default();
    let mut sums: FxHashMap<u32, (SiteSums, Vec<(f64, f64)>)> = FxHashMap::default();
    for block in &selected {
        let func = wanted_by.get(block.stack as usize).copied().unwrap_or(NONE);
        let site = match sums.entry(func) {
            Entry::Occupied(site) => site.into_mut(),
            Entry::Vacant(site) => site.insert(Default::default()),
        };
        if knows_frees {
            site.1.push((block.freed_ms - block.time_ms, block.blocks()));
        }
        for sums in [&mut site.0, &mut total] {
            add(sums, block, &moments);
        }
    }
    let sites = sums.into_iter().map(|(func, (sums, lives))| HeapSite {
        func,
        sums,
        median_life_ms: median(lives),
    });
    let mut sites: Vec<HeapSite> = sites.collect();
    sites.sort_by(|a, b| {
        let by_bytes = b.sums.allocated.sum.total_cmp(&a.sums.allocated.sum);
        by_bytes.then(a.func.cmp(&b.func))
    });
    HeapSites {
        sites,
        total,
        peak_ms: moments.peak_ms,
        moments_ms: Some(moments.growth_ms).filter(|_| knows_frees && end_ms.is_finite()),
    }
}

/// Moments at which living blocks count.
struct HeapMoments {
    knows_frees: bool,
    peak_ms: Option<f64>,
    recent_ms: f64,
    growth_ms: [f64; GROWTH_MOMENTS.len()],
}

fn add(sums: &mut SiteSums, block: &Block, moments: &HeapMoments) {
    let (bytes, variance) = (block.weight, block.variance());
    sums.allocated.add(bytes, variance);
    sums.blocks.add(block.blocks(), block.variance_of_blocks());
    if !moments.knows_frees {
        return;
    }
    if block.freed_ms.is_infinite() {
        sums.retained.add(bytes, variance);
        if block.time_ms < moments.recent_ms {
            sums.leaked.add(bytes, variance);
        }
    }
    if moments.peak_ms.is_some_and(|peak_ms| block.is_live_at(peak_ms)) {
        sums.at_peak.add(bytes, variance);
    }
    if block.is_temporary() {
        sums.temporary.add(bytes, variance);
    }
    let is_live = moments.growth_ms.map(|time_ms| block.is_live_at(time_ms));
    for (live, _) in sums.live.iter_mut().zip(is_live).filter(|(_, is_live)| *is_live) {
        live.add(bytes, variance);
    }
    match GROWTH_BETWEEN.map(|at| is_live[at]) {
        [false, true] => sums.growth.add(bytes, variance),
        [true, false] => sums.growth.add(-bytes, variance),
        _ => {}
    }
}

/// For each stack, the function that wanted the memory: the nearest to the leaf that takes none for others and is not
/// hidden, or else the root's.
fn wanted_by(selection: &Selection<'_>) -> Vec<u32> {
    let data = selection.data;
    // In the stack where a function of libc goes on to another one by a jump, as `reallocarray` does.
    let is_of_recorder = |func| {
        let file = data.lib_name(func).map(Path::new);
        file.map(CodeKind::of_file) == Some(CodeKind::HeapLibrary)
    };
    let is_passed = (0..data.funcs.len() as u32).map(|func| {
        let is_hidden = selection.conditions.is_hidden[func as usize];
        is_hidden || takes_memory(data.func_name(func)) || is_of_recorder(func)
    });
    let is_passed: Vec<bool> = is_passed.collect();
    let mut wanted_by: Vec<u32> = Vec::with_capacity(data.stacks.len());
    for stack in &data.stacks {
        let func = data.frames[stack.frame as usize].func;
        let of_caller = wanted_by.get(stack.prefix as usize).copied();
        wanted_by.push(match of_caller {
            Some(of_caller) if is_passed[func as usize] => of_caller,
            _ => selection.representative(func),
        });
    }
    wanted_by
}

/// The weighted median of (value, weight); NaN without values.
fn median(mut values: Vec<(f64, f64)>) -> f64 {
    if values.is_empty() {
        return f64::NAN;
    }
    values.sort_by(|a, b| a.0.total_cmp(&b.0));
    let half = values.iter().map(|(_, weight)| weight).sum::<f64>() / 2.0;
    let mut sum = 0.0;
    let middle = values.into_iter().find(|(_, weight)| {
        sum += weight;
        sum >= half
    });
    middle.map_or(f64::INFINITY, |(value, _)| value)
}
