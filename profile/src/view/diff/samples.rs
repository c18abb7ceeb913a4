//! The compared samples, by run and time.

use crate::category::{CATEGORIES, CodeKind};
use crate::data::{Data, RunExtent, WeightUnit};

/// Prefixes of the kernel's interrupt entries: arch/x86/include/asm/idtentry.h, arch/arm64/kernel/entry.S. Interrupts
/// are left out: their share differed by up to 0.6 points between runs, with other work on the machine.
const INTERRUPT_ENTRIES: [&str; 5] = [
    "asm_sysvec_",
    "asm_common_interrupt",
    "asm_exc_nmi",
    "el0t_64_irq",
    "el1h_64_irq",
];

/// A sample.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ComparedSample {
    /// Since the profile's start.
    pub(crate) time_ms: f64,
    /// Index of a stack, or of a node of a tree.
    pub(crate) place: u32,
    /// Index of the file's thread.
    pub(crate) thread: u32,
    /// More than 0.
    pub(crate) weight: f64,
    /// Of a block of memory: see [`Samples::variance`](crate::data::Samples::variance).
    pub(crate) variance: f64,
    /// True if it is of kernel code.
    pub(crate) in_kernel: bool,
}

/// The samples of one file.
#[derive(Debug)]
pub(crate) struct RecordingSamples {
    /// In time order.
    samples: Vec<ComparedSample>,
    /// Start of the second and each later run.
    next_runs_ms: Vec<f64>,
    /// See [`Data::is_summed`].
    pub(super) is_summed: bool,
    /// True if the samples are blocks of memory, whose variances are known.
    pub(super) is_heap: bool,
    /// Bytes of the growth of memory that blocks are, and bytes of the growth.
    pub(super) seen_of_growth: (u64, u64),
    /// The weight of blocks of memory of each run that were sampled and lost.
    pub(super) lost: f64,
    pub(super) extent: RunExtent,
    /// Converts weights to [`SideTotal::per_run`](super::SideTotal::per_run).
    pub(super) factor: f64,
}

impl RecordingSamples {
    /// `samples` may be unsorted.
    pub(crate) fn new(data: &Data, mut samples: Vec<ComparedSample>) -> RecordingSamples {
        samples.sort_by(|a, b| a.time_ms.total_cmp(&b.time_ms));
        let heap = data.recorded.as_ref().and_then(|recorded| recorded.heap.as_ref());
        let growth = heap.and_then(|heap| heap.growth.as_ref()).filter(|_| data.is_heap());
        let next_runs_ms: Vec<f64> = data.run_starts_ms().iter().skip(1).copied().collect();
        RecordingSamples {
            seen_of_growth: growth.map_or((0, 0), |growth| (growth.seen, growth.grown)),
            lost: lost_weight(data, &samples) / (1.0 + next_runs_ms.len() as f64),
            samples,
            next_runs_ms,
            is_summed: data.is_summed,
            is_heap: data.is_heap(),
            extent: data.extent(),
            factor: match data.unit {
                WeightUnit::Samples if data.interval_ms > 0.0 => data.interval_ms,
                WeightUnit::Samples | WeightUnit::Milliseconds | WeightUnit::Bytes | WeightUnit::Counts => 1.0,
            },
        }
    }

    /// False if each run of the program is whole. A recording that does not say counts as a window: a window's chance
    /// is larger.
    pub(super) fn is_window(&self) -> bool {
        self.extent != RunExtent::WholeRuns
    }

    /// Samples of running threads, without interrupts. `place` gives the place of each stack.
    pub(super) fn of_running_at(data: &Data, place: impl Fn(u32) -> u32) -> RecordingSamples {
        let (interrupted, in_kernel) = (interrupted(data), in_kernel(data));
        let is_interrupt = |stack: u32| interrupted.get(stack as usize).copied().unwrap_or(false);
        let mut samples = Vec::new();
        for (thread, of_thread) in (0..).zip(&data.threads) {
            let variances = of_thread.samples.variance.as_ref();
            let running = (of_thread.samples.iter().enumerate())
                .filter(|(_, (_, stack, weight))| *weight > 0.0 && !data.is_wait(*stack) && !is_interrupt(*stack));
            samples.extend(running.map(|(at, (time_ms, stack, weight))| ComparedSample {
                time_ms,
                place: place(stack),
                thread,
                weight,
                variance: variances.map_or(0.0, |variances| variances[at]),
                in_kernel: in_kernel.get(stack as usize).copied().unwrap_or(false),
            }));
        }
        RecordingSamples::new(data, samples)
    }

    /// The number of samples that a row stands for.
    pub(super) fn count_of(&self, sample: &ComparedSample) -> u64 {
        let weight = sample.weight;
        match (self.is_summed, self.is_heap) {
            (false, _) => 1,
            (true, false) => weight as u64,
            // Blocks that are seldom chosen are as many: so is the error of their sum.
            (true, true) => (weight * weight / sample.variance).clamp(1.0, weight.max(1.0)) as u64,
        }
    }

    /// The samples of each run; a run may be empty.
    pub(super) fn runs(&self) -> impl Iterator<Item = &[ComparedSample]> {
        let mut rest = &self.samples[..];
        let ends = self.next_runs_ms.iter().copied().chain([f64::INFINITY]);
        ends.map(move |end| {
            let (run, later) = rest.split_at(rest.partition_point(|sample| sample.time_ms < end));
            rest = later;
            run
        })
    }
}

/// The weight of the blocks of memory that were lost, and of those whose frees were lost: they look as if they lived.
fn lost_weight(data: &Data, samples: &[ComparedSample]) -> f64 {
    let facts = data.recorded.as_ref().and_then(|recorded| recorded.heap.as_ref());
    let Some(lost) = facts.and_then(|facts| facts.lost.as_ref()).filter(|_| data.is_heap()) else {
        return 0.0;
    };
    let mean = samples.iter().map(|sample| sample.weight).sum::<f64>() / samples.len().max(1) as f64;
    let blocks = match data.unit {
        WeightUnit::Counts => lost.blocks as f64 * mean,
        _ => lost.bytes as f64,
    };
    blocks + lost.frees as f64 * mean
}

/// True for the kernel's functions that begin to serve an interrupt.
pub(crate) fn serves_interrupt(name: &str) -> bool {
    INTERRUPT_ENTRIES.iter().any(|entry| name.starts_with(entry))
}

/// For each stack, true if its leaf is kernel code.
pub(crate) fn in_kernel(data: &Data) -> Vec<bool> {
    let kernel = CATEGORIES[CodeKind::Kernel.category(false).0].name;
    let kernel = data.categories.iter().position(|category| category.name == kernel);
    (data.stacks.iter())
        .map(|stack| kernel == Some(data.frames[stack.frame as usize].category as usize))
        .collect()
}

/// The kernel looks for a thread with more right to the CPU (kernel/entry/common.c). Another program's load took 0 to 5
/// % of one that often called the kernel.
const PREEMPTION: [&str; 2] = ["exit_to_user_mode_loop", "schedule"];

/// For each stack, true if the kernel is serving an interrupt or preempts the thread: the machine causes both.
pub(crate) fn interrupted(data: &Data) -> Vec<bool> {
    let serves: Vec<bool> = (0..data.funcs.len() as u32)
        .map(|func| serves_interrupt(data.func_name(func)))
        .collect();
    let preempts = PREEMPTION.map(|name| -> Vec<bool> {
        let funcs = 0..data.funcs.len() as u32;
        funcs.map(|func| data.func_name(func) == name).collect()
    });
    let mut interrupted: Vec<bool> = Vec::with_capacity(data.stacks.len());
    for stack in &data.stacks {
        let func = data.frames[stack.frame as usize].func;
        let above = interrupted.get(stack.prefix as usize).copied().unwrap_or(false);
        let caller = data
            .stacks
            .get(stack.prefix as usize)
            .map(|caller| data.frames[caller.frame as usize].func);
        let preempts = caller.is_some_and(|caller| preempts[0][caller as usize] && preempts[1][func as usize]);
        interrupted.push(above || preempts || serves[func as usize]);
    }
    interrupted
}
