//! What each function, line or call path took in each run.

use rustc_hash::FxHashMap;

use super::keys::{self, ComparedKeys};
use super::samples::{ComparedSample, RecordingSamples};
use super::tree::{PlaceSum, PlaceSums, PlaceTree};
use super::{Compared, KeyAmount, SideTotal};
use crate::data::{Data, NONE, RunExtent};

/// Blocks of time of a window that has enough samples. Fewer blocks: longer calls and bursts fall into one block and do
/// not count as chance. More blocks: chance is known better. Blocks of 20 samples took each long call for chance, and
/// found nothing.
const BLOCKS: usize = 32;
const FEWEST_SAMPLES_OF_A_BLOCK: usize = 20;

/// The runs of one side.
#[derive(Default)]
pub(super) struct Side {
    pub(super) runs: Vec<Run>,
    /// True if the samples are blocks of memory.
    pub(super) is_heap: bool,
    /// See [`SideTotal::seen_of_growth`].
    seen_of_growth: (u64, u64),
    recordings: usize,
    windows: usize,
    /// Recordings that do not say whether they are windows.
    unstated: usize,
    /// Recordings whose samples have no times.
    untimed: usize,
    /// Runs without a sample. They have no shares. Runs of a heap are none: no block of theirs was sampled.
    empty_runs: usize,
}

/// One run of the program, or one window.
pub(super) struct Run {
    /// The index of its recording in the side.
    pub(super) recording: usize,
    /// The weight of each block of a window; one block for a whole run.
    pub(super) blocks: Vec<f64>,
    /// True if the samples have an order, so that [`RunAmount::edges`] is known.
    pub(super) is_ordered: bool,
    pub(super) weight: f64,
    /// The part of the weight that is of kernel code.
    pub(super) kernel: f64,
    pub(super) samples: u64,
    /// Sum of the squares of the weights. The more the weights differ, the less the samples show.
    pub(super) squares: f64,
    /// The variance of the weight, if the samples are blocks of memory.
    pub(super) variance: Option<f64>,
    /// The weight of blocks of memory that were lost.
    pub(super) lost: f64,
    /// Sum over the threads of the square of the largest weight: a periodic clock misses less than one tick of each
    /// thread.
    pub(super) ticks: f64,
    /// Converts weights to [`SideTotal::per_run`]. Recordings may have different rates.
    pub(super) factor: f64,
    amounts: FxHashMap<u32, RunAmount>,
}

/// What a key took in one run.
#[derive(Default)]
pub(super) struct RunAmount {
    pub(super) samples: u64,
    pub(super) weight: f64,
    /// The variance of the weight, if the samples are blocks of memory.
    pub(super) variance: f64,
    /// The part of the weight that is of kernel code.
    pub(super) kernel: f64,
    /// Half of the number of times that two successive samples of a thread differ in having the key: the variance of
    /// the number of samples (see [`estimate`](super::estimate)). In squares of weights.
    pub(super) edges: f64,
    /// The blocks of a window in which it is not 0.
    pub(super) blocks: Vec<(u32, f64)>,
}

impl Side {
    pub(super) fn new(recordings: &[Data], what: Compared, keys: &mut ComparedKeys) -> Side {
        let of_frames = recordings
            .iter()
            .map(|data| keys::of_frames(data, what, keys))
            .collect();
        Side::of_frames(recordings, of_frames, what, keys)
    }

    /// `of_frames` holds the keys of each recording's frames.
    pub(super) fn of_frames(
        recordings: &[Data],
        of_frames: Vec<Vec<u32>>,
        what: Compared,
        keys: &mut ComparedKeys,
    ) -> Side {
        let mut side = Side::default();
        for (data, of_frame) in recordings.iter().zip(of_frames) {
            let (tree, place_of) = PlaceTree::of_stacks(data, what, &of_frame, keys);
            let place = |stack: u32| place_of.get(stack as usize).copied().unwrap_or(NONE);
            side.add(&RecordingSamples::of_running_at(data, place), &tree);
        }
        side
    }

    /// Adds the runs of a recording, whose samples have places of the tree.
    pub(super) fn add(&mut self, recording: &RecordingSamples, tree: &PlaceTree) {
        let mut sums = PlaceSums::new(tree);
        for samples in recording.runs() {
            match samples.is_empty() && !recording.is_heap {
                true => self.empty_runs += 1,
                false => self.runs.push(Run {
                    recording: self.recordings,
                    ..Run::new(recording, samples, &mut sums)
                }),
            }
        }
        self.recordings += 1;
        self.is_heap |= recording.is_heap;
        self.seen_of_growth.0 += recording.seen_of_growth.0;
        self.seen_of_growth.1 += recording.seen_of_growth.1;
        match recording.is_summed {
            true => self.untimed += 1,
            false => {
                self.windows += usize::from(recording.is_window());
                self.unstated += usize::from(recording.extent == RunExtent::Unstated);
            }
        }
    }

    pub(super) fn amount(&self, key: usize) -> KeyAmount {
        let amounts = || self.runs.iter().filter_map(|run| Some((run, run.amount(key)?)));
        let weight: f64 = self.runs.iter().map(|run| run.weight).sum();
        // An empty f64 sum is -0.0.
        KeyAmount {
            samples: amounts().map(|(_, amount)| amount.samples).sum(),
            share: (0.0 + amounts().map(|(_, amount)| amount.weight).sum::<f64>()) / weight.max(f64::MIN_POSITIVE),
            per_run: (0.0 + amounts().map(|(run, amount)| amount.weight * run.factor).sum::<f64>())
                / self.runs.len().max(1) as f64,
        }
    }

    pub(super) fn samples(&self) -> u64 {
        self.runs.iter().map(|run| run.samples).sum()
    }

    pub(super) fn total(&self) -> SideTotal {
        SideTotal {
            recordings: self.recordings,
            windows: self.windows,
            unstated: self.unstated,
            untimed: self.untimed,
            runs: self.runs.len(),
            empty_runs: self.empty_runs,
            samples: self.samples(),
            seen_of_growth: self.seen_of_growth,
            lost: self.runs.iter().map(|run| run.lost).sum::<f64>() / self.runs.len().max(1) as f64,
            per_run: self.runs.iter().map(|run| run.weight * run.factor).sum::<f64>() / self.runs.len().max(1) as f64,
        }
    }
}

impl Run {
    pub(super) fn amount(&self, key: usize) -> Option<&RunAmount> {
        self.amounts.get(&(key as u32))
    }

    fn new(recording: &RecordingSamples, samples: &[ComparedSample], sums: &mut PlaceSums<'_>) -> Run {
        let is_summed = recording.is_summed;
        // Each line of a file of sums is many samples, without times.
        let most_blocks = if recording.is_window() && !is_summed { BLOCKS } else { 1 };
        let block_count = (samples.len() / FEWEST_SAMPLES_OF_A_BLOCK).clamp(1, most_blocks);
        let mut run = Run {
            recording: 0,
            blocks: vec![0.0; block_count],
            is_ordered: !is_summed && !recording.is_heap,
            weight: 0.0,
            kernel: 0.0,
            samples: samples.iter().map(|sample| recording.count_of(sample)).sum(),
            squares: 0.0,
            variance: recording
                .is_heap
                .then(|| samples.iter().map(|sample| sample.variance).sum()),
            lost: recording.lost,
            ticks: 0.0,
            factor: recording.factor,
            amounts: FxHashMap::default(),
        };
        let mut tick_of: FxHashMap<u32, f64> = FxHashMap::default();
        let mut rest = samples;
        for block in 0..block_count {
            let end = ((block + 1) * samples.len()).div_ceil(block_count);
            let (of_block, later) = rest.split_at(end + rest.len() - samples.len());
            rest = later;
            for sample in of_block {
                let weight = sample.weight;
                run.blocks[block] += weight;
                run.weight += weight;
                run.squares += if is_summed { weight } else { weight * weight };
                let tick = tick_of.entry(sample.thread).or_default();
                *tick = tick.max(if is_summed { 1.0 } else { weight });
                let sum = PlaceSum {
                    weight,
                    samples: recording.count_of(sample),
                    variance: sample.variance,
                    kernel: if sample.in_kernel { weight } else { 0.0 },
                    edges: 0.0,
                };
                run.kernel += sum.kernel;
                sums.add(sample.place, sum);
            }
            sums.take(|key, sum| run.add(key, block, sum));
        }
        if run.is_ordered {
            // The last sample of a thread and the first one of the next thread count as successive: of many short
            // threads each sample is by chance.
            let mut by_thread: Vec<&ComparedSample> = samples.iter().collect();
            by_thread.sort_by_key(|sample| sample.thread);
            for pair in by_thread.windows(2).filter(|pair| pair[0].place != pair[1].place) {
                let squares = pair[0].weight * pair[0].weight + pair[1].weight * pair[1].weight;
                sums.add_edge(pair[0].place, pair[1].place, squares / 4.0);
            }
            sums.take(|key, sum| {
                if let Some(amount) = run.amounts.get_mut(&key) {
                    amount.edges += sum.edges;
                }
            });
        }
        if run.variance.is_none() {
            run.ticks = tick_of.values().map(|tick| tick * tick).sum();
        }
        run
    }

    fn add(&mut self, key: u32, block: usize, sum: PlaceSum) {
        let of_blocks = self.blocks.len() > 1;
        let amount = self.amounts.entry(key).or_default();
        amount.samples += sum.samples;
        amount.weight += sum.weight;
        amount.variance += sum.variance;
        amount.kernel += sum.kernel;
        match amount.blocks.last_mut() {
            Some((last, of_block)) if *last == block as u32 => *of_block += sum.weight,
            _ if of_blocks => amount.blocks.push((block as u32, sum.weight)),
            _ => {}
        }
    }
}
