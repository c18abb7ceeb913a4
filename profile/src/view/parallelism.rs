//! Wall time by number of running threads, and samples as parts of wall time.

use rustc_hash::FxHashMap;

use super::cost::Cost;
use super::select::Selection;
pub use crate::data::parallelism::{NoParallelism, Parallelism, RunningInterval};
use crate::data::{Data, NONE, Samples, WeightUnit};

/// The name of the weights of [`Data::weigh_by_latency`].
pub const WALL_TIME: &str = "wall time";

impl Data {
    /// Makes each sample its part of wall time: its time divided by the number of threads that ran then. The sum is the
    /// time in which any thread ran; where switches were recorded, as far as chance samples it. Waits and other events
    /// are dropped.
    ///
    /// # Errors
    ///
    /// The profile's samples do not say when threads ran.
    pub fn weigh_by_latency(&mut self) -> Result<Parallelism, NoParallelism> {
        let parallelism = self.parallelism()?;
        let mut threads = std::mem::take(&mut self.threads);
        for (index, thread) in threads.iter_mut().enumerate() {
            if parallelism.starts_ms[index].is_empty() {
                thread.samples = Samples::default();
            }
            let samples = &mut thread.samples;
            let weights = (samples.time_ms.iter().enumerate()).map(|(at, time_ms)| {
                let mut weight = 0.0;
                parallelism.wall_of(index, at, *time_ms, |_, wall_ms| weight += wall_ms);
                weight
            });
            samples.weight = Some(weights.collect());
            samples.count = None;
            let is_running: Vec<bool> = samples.stack.iter().map(|stack| !self.is_wait(*stack)).collect();
            samples.retain(&is_running);
            (thread.unit, thread.event) = (WeightUnit::Milliseconds, Some(WALL_TIME.to_owned()));
        }
        self.threads = threads;
        let is_thread: Vec<bool> = self.threads.iter().map(|thread| thread.event_of.is_none()).collect();
        self.drop_threads(&is_thread);
        (self.unit, self.weights) = (WeightUnit::Milliseconds, None);
        self.event = Some(WALL_TIME.to_owned());
        Ok(parallelism)
    }
}

/// The wall time in which a number of threads ran.
#[derive(Clone, Debug, PartialEq)]
pub struct RunningNumber {
    /// Number of threads.
    pub running: u32,
    /// Wall time, ms.
    pub wall_ms: f64,
    /// Its part in which others were ready and had no CPU, ms; not known in an estimate.
    pub ready_ms: f64,
    /// The selected samples of that time by the function that ran ([`NONE`]: without a stack), largest part first:
    /// their numbers and parts of the wall time, ms. A sample on the border of two numbers counts for both.
    pub functions: Vec<(u32, Cost)>,
}

/// The selected wall time by number of running threads, ascending. Conditions on threads, processes and stacks select
/// the functions; the numbers are of all threads.
pub fn running_numbers(selection: &Selection<'_>, parallelism: &Parallelism) -> Vec<RunningNumber> {
    let (data, conditions) = (selection.data, &selection.conditions);
    let from_ms = conditions.from_ms.unwrap_or(f64::NEG_INFINITY);
    let walls_ms = parallelism.wall_ms(from_ms, conditions.to_ms.unwrap_or(f64::INFINITY));
    let own_funcs = own_funcs(selection);
    let mut costs: Vec<FxHashMap<u32, Cost>> = vec![FxHashMap::default(); walls_ms.len()];
    for (index, thread) in data.threads.iter().enumerate() {
        if parallelism.starts_ms[index].is_empty() {
            continue;
        }
        for (at, (time_ms, stack, _)) in thread.samples.iter().enumerate() {
            if !conditions.select_sample(index, &thread.pid, time_ms, stack) {
                continue;
            }
            let func = own_funcs.get(stack as usize).copied().unwrap_or(NONE);
            parallelism.wall_of(index, at, time_ms, |running, wall_ms| {
                if let Some(costs) = costs.get_mut(running as usize) {
                    *costs.entry(func).or_default() += Cost::of_samples(1, wall_ms);
                }
            });
        }
    }
    let numbers = walls_ms.into_iter().zip(costs).enumerate();
    let numbers = numbers.map(|(running, ([wall_ms, ready_ms], costs))| {
        let mut functions: Vec<(u32, Cost)> = costs.into_iter().collect();
        functions.sort_by(|(a, x), (b, y)| y.weight.total_cmp(&x.weight).then(a.cmp(b)));
        RunningNumber {
            running: running as u32,
            wall_ms,
            ready_ms,
            functions,
        }
    });
    numbers.filter(|number| number.wall_ms > 0.0).collect()
}

/// For each stack, the function that ran: the nearest to the leaf that is not hidden.
fn own_funcs(selection: &Selection<'_>) -> Vec<u32> {
    let data = selection.data;
    let mut own_funcs: Vec<u32> = Vec::with_capacity(data.stacks.len());
    for stack in &data.stacks {
        let func = data.frames[stack.frame as usize].func;
        own_funcs.push(match selection.conditions.is_hidden[func as usize] {
            true => own_funcs.get(stack.prefix as usize).copied().unwrap_or(NONE),
            false => selection.representative(func),
        });
    }
    own_funcs
}

/// What more CPUs can do for a program, by the time in which one thread and no thread ran.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SerialPart {
    /// Wall time in which exactly one thread ran and none was ready, ms.
    pub wall_ms: f64,
    /// Its part of the wall time, 0 to 1.
    pub share: f64,
    /// Its part of the threads' running time, 0 to 1: the serial share of Amdahl's law.
    pub share_of_work: f64,
    /// How many times faster the program can become at most: this time and the time without a running thread stay.
    /// `None` if there is no such time.
    pub at_most_faster: Option<f64>,
}

impl SerialPart {
    /// Of the wall time by number of running threads; `None` if there is no time.
    pub fn new(numbers: &[RunningNumber]) -> Option<SerialPart> {
        let of = |running: u32| numbers.iter().find(|number| number.running == running);
        // Where others were ready, another CPU would have helped.
        let ms = |running: u32| of(running).map_or(0.0, |number| number.wall_ms - number.ready_ms);
        let whole_ms: f64 = numbers.iter().map(|number| number.wall_ms).sum();
        let work_ms: f64 = numbers
            .iter()
            .map(|number| number.wall_ms * f64::from(number.running))
            .sum();
        let fixed_ms = ms(0) + ms(1);
        (whole_ms > 0.0).then(|| SerialPart {
            wall_ms: ms(1),
            share: ms(1) / whole_ms,
            share_of_work: if work_ms > 0.0 { ms(1) / work_ms } else { 0.0 },
            at_most_faster: (fixed_ms > 0.0).then(|| whole_ms / fixed_ms),
        })
    }
}
