//! What each function, line or call path took in each run, in blocks of time.

use std::iter;

use rustc_hash::FxHashMap;

use super::keys::{self, Keys};
use super::samples::{Recording, Sampled};
use super::{Amount, Total, What};
use crate::data::{Data, NONE};

/// Blocks of a run that has enough samples. Fewer blocks: longer calls and bursts fall into one block and do not count as chance. More
/// blocks: chance is known better. Blocks of 20 samples took each long call for chance, and found nothing.
const BLOCKS: usize = 32;
const FEWEST_SAMPLES_OF_A_BLOCK: usize = 20;

/// The runs of one side.
#[derive(Default)]
pub(super) struct Side {
    pub(super) runs: Vec<Run>,
    recordings: usize,
    /// Runs without a sample. They have no shares.
    empty_runs: usize,
}

/// One run of the program.
pub(super) struct Run {
    /// The index of its recording in the side.
    pub(super) recording: usize,
    /// The weight of each block.
    pub(super) blocks: Vec<f64>,
    pub(super) weight: f64,
    pub(super) samples: u64,
    /// Sum of the squares of the weights. The more the weights differ, the less the samples show.
    pub(super) squares: f64,
    /// Sum over the threads of the square of the largest weight: a periodic clock misses less than one tick of each thread.
    pub(super) ticks: f64,
    /// Converts weights to [`Total::per_run`]. Recordings may have different rates.
    pub(super) factor: f64,
    amounts: FxHashMap<u32, RunAmount>,
}

/// What a key took in one run.
#[derive(Default)]
pub(super) struct RunAmount {
    pub(super) samples: u64,
    pub(super) weight: f64,
    /// The blocks in which it is not 0.
    pub(super) blocks: Vec<(u32, f64)>,
}

impl Side {
    pub(super) fn of(recordings: &[Data], what: What, keys: &mut Keys) -> Side {
        let of_frames = recordings
            .iter()
            .map(|data| keys::of_frames(data, what, keys))
            .collect();
        Side::of_frames(recordings, of_frames, what, keys)
    }

    /// `of_frames` holds the keys of each recording's frames.
    pub(super) fn of_frames(recordings: &[Data], of_frames: Vec<Vec<u32>>, what: What, keys: &mut Keys) -> Side {
        let mut side = Side::default();
        for (data, of_frame) in recordings.iter().zip(of_frames) {
            let mut keys_of = KeysOf::new(data, what, of_frame);
            side.add(&Recording::of_running(data), |place, add| {
                keys_of.each(data, what, place, keys, add);
            });
        }
        side
    }

    /// Adds the runs of a recording. `each_key` calls its second argument once with each key of a sample at this place.
    pub(super) fn add(&mut self, recording: &Recording, mut each_key: impl FnMut(u32, &mut dyn FnMut(u32))) {
        for samples in recording.runs() {
            match samples.is_empty() {
                true => self.empty_runs += 1,
                false => self.runs.push(Run {
                    recording: self.recordings,
                    ..Run::of(recording, samples, &mut each_key)
                }),
            }
        }
        self.recordings += 1;
    }

    pub(super) fn amount(&self, key: usize) -> Amount {
        let amounts = || self.runs.iter().filter_map(|run| Some((run, run.amount(key)?)));
        let weight: f64 = self.runs.iter().map(|run| run.weight).sum();
        // An empty f64 sum is -0.0.
        Amount {
            samples: amounts().map(|(_, amount)| amount.samples).sum(),
            share: (0.0 + amounts().map(|(_, amount)| amount.weight).sum::<f64>()) / weight.max(f64::MIN_POSITIVE),
            per_run: (0.0 + amounts().map(|(run, amount)| amount.weight * run.factor).sum::<f64>())
                / self.runs.len().max(1) as f64,
        }
    }

    pub(super) fn samples(&self) -> u64 {
        self.runs.iter().map(|run| run.samples).sum()
    }

    pub(super) fn total(&self) -> Total {
        Total {
            recordings: self.recordings,
            runs: self.runs.len(),
            empty_runs: self.empty_runs,
            samples: self.samples(),
            per_run: self.runs.iter().map(|run| run.weight * run.factor).sum::<f64>() / self.runs.len().max(1) as f64,
        }
    }
}

impl Run {
    pub(super) fn amount(&self, key: usize) -> Option<&RunAmount> {
        self.amounts.get(&(key as u32))
    }

    fn of(recording: &Recording, samples: &[Sampled], each_key: &mut impl FnMut(u32, &mut dyn FnMut(u32))) -> Run {
        let is_summed = recording.is_summed;
        // Samples without times form one block. Each line of such a file is many samples.
        let most_blocks = if is_summed { 1 } else { BLOCKS };
        let count_of = |weight: f64| if is_summed { weight as u64 } else { 1 };
        let block_count = (samples.len() / FEWEST_SAMPLES_OF_A_BLOCK).clamp(1, most_blocks);
        let mut run = Run {
            recording: 0,
            blocks: vec![0.0; block_count],
            weight: 0.0,
            samples: samples.iter().map(|sample| count_of(sample.weight)).sum(),
            squares: 0.0,
            ticks: 0.0,
            factor: recording.factor,
            amounts: FxHashMap::default(),
        };
        let mut tick_of: FxHashMap<u32, f64> = FxHashMap::default();
        // A block has many samples of each place: keys are found once for each.
        let mut at_place: FxHashMap<u32, (f64, u64)> = FxHashMap::default();
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
                let (sum, count) = at_place.entry(sample.place).or_default();
                *sum += weight;
                *count += count_of(weight);
            }
            // In one order: sums of floating-point numbers depend on it.
            let mut places: Vec<(u32, (f64, u64))> = at_place.drain().collect();
            places.sort_unstable_by_key(|(place, _)| *place);
            for (place, (weight, count)) in places {
                each_key(place, &mut |key| run.add(key, block, weight, count));
            }
        }
        run.ticks = tick_of.values().map(|tick| tick * tick).sum();
        run
    }

    fn add(&mut self, key: u32, block: usize, weight: f64, samples: u64) {
        let amount = self.amounts.entry(key).or_default();
        amount.samples += samples;
        amount.weight += weight;
        match amount.blocks.last_mut() {
            Some((last, sum)) if *last == block as u32 => *sum += weight,
            _ => amount.blocks.push((block as u32, weight)),
        }
    }
}

/// The keys of a recording's stacks.
struct KeysOf {
    of_frame: Vec<u32>,
    /// The keys that are known so far.
    of_path: Vec<u32>,
    /// The last place with each key. A recursive key counts once.
    seen: FxHashMap<u32, u64>,
    place: u64,
}

impl KeysOf {
    fn new(data: &Data, what: What, of_frame: Vec<u32>) -> KeysOf {
        KeysOf {
            of_frame,
            of_path: vec![NONE; if what == What::Paths { data.stacks.len() } else { 0 }],
            seen: FxHashMap::default(),
            place: 0,
        }
    }

    fn each(&mut self, data: &Data, what: What, leaf: u32, keys: &mut Keys, add: &mut dyn FnMut(u32)) {
        let Some(stack) = data.stacks.get(leaf as usize) else {
            return;
        };
        let leaf_frame = match what {
            What::Own => data.frame_with_code(leaf),
            What::Inlined | What::Lines | What::Paths | What::Total => stack.frame,
        };
        let key = self.of_frame[leaf_frame as usize];
        match what {
            What::Own | What::Inlined | What::Lines => add(key),
            What::Paths => add(keys::of_path(data, leaf, &self.of_frame, &mut self.of_path, keys)),
            What::Total => {
                self.place += 1;
                let mut stack = leaf;
                while let Some(node) = data.stacks.get(stack as usize) {
                    let key = self.of_frame[node.frame as usize];
                    for key in iter::once(key).chain(keys.groups(key).iter().copied()) {
                        if self.seen.insert(key, self.place) != Some(self.place) {
                            add(key);
                        }
                    }
                    stack = node.prefix;
                }
                return;
            }
        }
        keys.groups(key).iter().copied().for_each(add);
    }
}
