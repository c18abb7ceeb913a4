//! What each function, line or call path took in each run, in blocks of time.

use rustc_hash::FxHashMap;

use super::{Amount, Total, What};
use crate::view::data::{Data, NONE, Unit};

/// Blocks of a run with samples enough. The fewer, the longer are the calls and bursts that fall into a block as a whole, and
/// so don't count as chance; the more, the better is chance known.
const BLOCKS: usize = 32;
const FEWEST_SAMPLES_OF_A_BLOCK: usize = 20;

/// How the names of the kernel's entries begin: arch/x86/include/asm/idtentry.h, arch/arm64/kernel/entry.S.
const INTERRUPT_ENTRIES: [&str; 5] = [
    "asm_sysvec_",
    "asm_common_interrupt",
    "asm_exc_nmi",
    "el0t_64_irq",
    "el1h_64_irq",
];

/// What is compared, over all runs of both sides: functions, lines or paths, each with a number.
#[derive(Default)]
pub(super) struct Keys {
    texts: FxHashMap<Box<str>, u32>,
    text_of: Vec<Box<str>>,
    ids: FxHashMap<KeyParts, u32>,
    parts: Vec<KeyParts>,
}

/// Texts by number; 0 is none.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct KeyParts {
    function: u32,
    lib: u32,
    file: u32,
    line: u32,
    /// The key of the caller, [`NONE`] for none.
    caller: u32,
}

/// A key in words.
pub(super) struct Key {
    pub(super) function: String,
    pub(super) lib: Option<String>,
    pub(super) line: Option<(String, u32)>,
    pub(super) callers: Vec<String>,
}

impl Keys {
    pub(super) fn len(&self) -> usize {
        self.parts.len()
    }

    fn text(&mut self, text: &str) -> u32 {
        if self.text_of.is_empty() {
            self.text_of.push("".into());
            self.texts.insert("".into(), 0);
        }
        if let Some(id) = self.texts.get(text) {
            return *id;
        }
        let id = self.text_of.len() as u32;
        self.texts.insert(text.into(), id);
        self.text_of.push(text.into());
        id
    }

    fn key(&mut self, parts: KeyParts) -> u32 {
        *self.ids.entry(parts).or_insert_with(|| {
            self.parts.push(parts);
            self.parts.len() as u32 - 1
        })
    }

    pub(super) fn describe(&self, key: usize) -> Key {
        let text = |id: u32| self.text_of[id as usize].to_string();
        let some = |id: u32| Some(text(id)).filter(|text| !text.is_empty());
        let parts = self.parts[key];
        let mut callers = Vec::new();
        let mut caller = parts.caller;
        while let Some(parts) = self.parts.get(caller as usize) {
            callers.push(text(parts.function));
            caller = parts.caller;
        }
        callers.reverse();
        Key {
            function: text(parts.function),
            lib: some(parts.lib),
            line: (parts.line != 0).then(|| (text(parts.file), parts.line)),
            callers,
        }
    }
}

/// The runs of one side.
pub(super) struct Side {
    pub(super) runs: Vec<Run>,
}

/// One recording.
pub(super) struct Run {
    /// The weight of each block.
    pub(super) blocks: Vec<f64>,
    pub(super) weight: f64,
    pub(super) samples: u64,
    /// Sum of the squares of the weights: the more they differ, the less the samples tell.
    pub(super) squares: f64,
    /// From weights to [`Total::per_run`].
    factor: f64,
    amounts: FxHashMap<u32, RunAmount>,
}

/// What a key took in one run.
#[derive(Default)]
pub(super) struct RunAmount {
    pub(super) samples: u64,
    pub(super) weight: f64,
    /// In the blocks in which it is not 0.
    pub(super) blocks: Vec<(u32, f64)>,
}

impl Side {
    pub(super) fn of(runs: &[Data], what: What, keys: &mut Keys) -> Side {
        Side {
            runs: runs.iter().map(|data| Run::of(data, what, keys)).collect(),
        }
    }

    pub(super) fn amount(&self, key: usize) -> Amount {
        let amounts = || self.runs.iter().filter_map(|run| Some((run, run.amount(key)?)));
        let weight: f64 = self.runs.iter().map(|run| run.weight).sum();
        Amount {
            samples: amounts().map(|(_, amount)| amount.samples).sum(),
            share: amounts().map(|(_, amount)| amount.weight).sum::<f64>() / weight.max(f64::MIN_POSITIVE),
            per_run: amounts().map(|(run, amount)| amount.weight * run.factor).sum::<f64>()
                / self.runs.len().max(1) as f64,
        }
    }

    pub(super) fn total(&self) -> Total {
        Total {
            runs: self.runs.len(),
            samples: self.runs.iter().map(|run| run.samples).sum(),
            per_run: self.runs.iter().map(|run| run.weight * run.factor).sum::<f64>() / self.runs.len().max(1) as f64,
        }
    }
}

impl Run {
    pub(super) fn amount(&self, key: usize) -> Option<&RunAmount> {
        self.amounts.get(&(key as u32))
    }

    fn of(data: &Data, what: What, keys: &mut Keys) -> Run {
        let key_of_frame = frame_keys(data, what, keys);
        let interrupted = interrupted(data);
        let is_interrupt = |stack: u32| interrupted.get(stack as usize).copied().unwrap_or(false);
        let mut samples: Vec<(f64, u32, f64)> = (data.threads.iter())
            .flat_map(|thread| thread.samples.iter())
            .filter(|(_, stack, weight)| *weight > 0.0 && !data.is_wait(*stack) && !is_interrupt(*stack))
            .collect();
        samples.sort_by(|a, b| a.0.total_cmp(&b.0));
        // Without times there is one block, and each line of the file is many samples.
        let most_blocks = if data.is_summed { 1 } else { BLOCKS };
        let count_of = |weight: f64| if data.is_summed { weight as u64 } else { 1 };
        let block_count = (samples.len() / FEWEST_SAMPLES_OF_A_BLOCK).clamp(1, most_blocks);
        let mut run = Run {
            blocks: vec![0.0; block_count],
            weight: 0.0,
            samples: samples.iter().map(|(_, _, weight)| count_of(*weight)).sum(),
            squares: 0.0,
            factor: match data.unit {
                Unit::Samples if data.interval_ms > 0.0 => data.interval_ms,
                Unit::Samples | Unit::Milliseconds | Unit::Bytes => 1.0,
            },
            amounts: FxHashMap::default(),
        };
        let mut path_of_stack = vec![NONE; if what == What::Paths { data.stacks.len() } else { 0 }];
        // In which sample each key was seen last: recursion counts once.
        let mut seen: FxHashMap<u32, usize> = FxHashMap::default();
        let count = samples.len();
        for (index, (_, leaf, weight)) in samples.into_iter().enumerate() {
            let block = index * block_count / count;
            run.blocks[block] += weight;
            run.weight += weight;
            run.squares += if data.is_summed { weight } else { weight * weight };
            if leaf == NONE {
                continue;
            }
            match what {
                What::Own => run.add(
                    key_of_frame[data.frame_with_code(leaf) as usize],
                    block,
                    weight,
                    count_of(weight),
                ),
                What::Inlined | What::Lines => {
                    let key = key_of_frame[data.stacks[leaf as usize].frame as usize];
                    run.add(key, block, weight, count_of(weight));
                }
                What::Paths => {
                    let key = path(data, leaf, &key_of_frame, &mut path_of_stack, keys);
                    run.add(key, block, weight, count_of(weight));
                }
                What::Total => {
                    let mut stack = leaf;
                    while let Some(node) = data.stacks.get(stack as usize) {
                        let key = key_of_frame[node.frame as usize];
                        if seen.insert(key, index) != Some(index) {
                            run.add(key, block, weight, count_of(weight));
                        }
                        stack = node.prefix;
                    }
                }
            }
        }
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

/// Which stacks are those of the kernel while it serves an interrupt, or takes the CPU away in one.
fn interrupted(data: &Data) -> Vec<bool> {
    let serves: Vec<bool> = (0..data.funcs.len() as u32)
        .map(|func| {
            let name = data.func_name(func);
            INTERRUPT_ENTRIES.iter().any(|entry| name.starts_with(entry))
        })
        .collect();
    let mut interrupted: Vec<bool> = Vec::with_capacity(data.stacks.len());
    for stack in &data.stacks {
        let func = data.frames[stack.frame as usize].func;
        let above = interrupted.get(stack.prefix as usize).copied().unwrap_or(false);
        interrupted.push(above || serves[func as usize]);
    }
    interrupted
}

/// The key of each frame: of its function, or its line.
fn frame_keys(data: &Data, what: What, keys: &mut Keys) -> Vec<u32> {
    (data.frames.iter())
        .map(|frame| {
            let func = data.funcs[frame.func as usize];
            let with_line = what == What::Lines && frame.line != NONE;
            let parts = KeyParts {
                function: keys.text(data.text(func.name)),
                lib: keys.text(data.lib_name(frame.func).unwrap_or_default()),
                file: if with_line { keys.text(data.text(func.file)) } else { 0 },
                line: if with_line { frame.line } else { 0 },
                caller: NONE,
            };
            keys.key(parts)
        })
        .collect()
}

/// The key of a call path, made from the root on.
fn path(data: &Data, leaf: u32, key_of_frame: &[u32], known: &mut [u32], keys: &mut Keys) -> u32 {
    let mut open = Vec::new();
    let mut stack = leaf;
    while stack != NONE && known[stack as usize] == NONE {
        open.push(stack);
        stack = data.stacks[stack as usize].prefix;
    }
    let mut caller = known.get(stack as usize).copied().unwrap_or(NONE);
    while let Some(stack) = open.pop() {
        let function = keys.parts[key_of_frame[data.stacks[stack as usize].frame as usize] as usize];
        caller = keys.key(KeyParts { caller, ..function });
        known[stack as usize] = caller;
    }
    caller
}
