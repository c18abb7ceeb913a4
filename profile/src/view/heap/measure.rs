//! Makes samples of blocks of memory: every view, export and comparison then shows them.

use crate::data::blocks::{Block, peak};
use crate::data::{Data, Samples, WeightUnit};
use crate::view::select::{Filter, NotFound, wanted_threads};

/// What is counted of blocks of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Bytes that were taken.
    Allocated,
    /// Bytes that were taken in the selected time, and not freed by its end.
    Retained,
    /// Bytes of the blocks that lived when these were most.
    Peak,
    /// Bytes of blocks that were freed within a millisecond.
    Temporary,
    /// The number of blocks that were taken.
    Blocks,
}

/// The profile can't be shown by a measure of the heap.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoMeasure {
    /// It has no blocks of memory.
    #[error("it has no blocks of memory; `sprof record --heap ./app` records them")]
    NoHeap,
    /// Its blocks lack what the measure needs.
    #[error("its blocks of memory do not have {0}")]
    Lacks(&'static str),
    /// It has none of the threads or processes.
    #[error(transparent)]
    NotFound(#[from] NotFound),
}

impl Measure {
    /// All, in the order in which they are listed.
    pub const ALL: [Measure; 5] = [
        Measure::Allocated,
        Measure::Retained,
        Measure::Peak,
        Measure::Temporary,
        Measure::Blocks,
    ];

    /// The measure of this name.
    pub fn named(name: &str) -> Option<Measure> {
        Measure::ALL.into_iter().find(|measure| measure.name() == name)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Measure::Allocated => "allocated",
            Measure::Retained => "retained",
            Measure::Peak => "peak",
            Measure::Temporary => "temporary",
            Measure::Blocks => "blocks",
        }
    }
}

impl Data {
    /// True if it has blocks of memory.
    pub fn has_heap(&self) -> bool {
        self.threads.iter().any(|thread| thread.allocations.is_some())
    }

    /// Whether its blocks of memory have what a measure needs.
    ///
    /// # Errors
    ///
    /// It has no blocks, or they lack something.
    pub fn check_measure(&self, measure: Measure) -> Result<(), NoMeasure> {
        let tables = || self.threads.iter().filter_map(|thread| thread.allocations.as_ref());
        if !self.has_heap() {
            return Err(NoMeasure::NoHeap);
        }
        let needs_frees = !matches!(measure, Measure::Allocated | Measure::Blocks);
        if needs_frees && tables().any(|table| table.address.is_none()) {
            return Err(NoMeasure::Lacks("addresses: it is not known which of them were freed"));
        }
        if measure == Measure::Blocks && tables().any(|table| table.size.is_none()) {
            return Err(NoMeasure::Lacks(
                "sizes: it is not known how many each of them stands for",
            ));
        }
        Ok(())
    }

    /// The measures that its blocks of memory have.
    pub fn measures(&self) -> impl Iterator<Item = Measure> + '_ {
        (Measure::ALL.into_iter()).filter(|measure| self.check_measure(*measure).is_ok())
    }

    /// Replaces all samples by the blocks of memory that a measure counts, at the time and with the stack that took
    /// them. Of `filter`, the threads, the processes and the time decide which blocks are retained and which moment is
    /// the peak. Only blocks that were taken in that time count. With `of_each_run`, each run of the program has a
    /// peak.
    ///
    /// # Errors
    ///
    /// The profile has no such blocks, or none of the threads or processes.
    pub fn keep_measure(&mut self, measure: Measure, filter: &Filter, of_each_run: bool) -> Result<(), NoMeasure> {
        let is_recorded = self.recorded.as_ref().is_some_and(|recorded| recorded.heap.is_some());
        // Perhaps none of the blocks that the program took was sampled.
        if self.has_heap() || !is_recorded {
            self.check_measure(measure)?;
        }
        let wanted = wanted_threads(self, filter)?;
        let from_ms = filter.from_ms.unwrap_or(f64::NEG_INFINITY);
        let to_ms = filter.to_ms.unwrap_or(f64::INFINITY);
        let mut kept = self.blocks();
        kept.retain(|block| wanted[block.thread as usize] && (from_ms..to_ms).contains(&block.time_ms));
        match measure {
            Measure::Allocated | Measure::Blocks => {}
            Measure::Retained => kept.retain(|block| block.freed_ms >= to_ms),
            Measure::Temporary => kept.retain(Block::is_temporary),
            Measure::Peak => {
                let starts_ms = if of_each_run { self.run_starts_ms() } else { &[] };
                let run_of = |block: &Block| starts_ms.partition_point(|start_ms| *start_ms <= block.time_ms);
                let mut runs: Vec<Vec<Block>> = vec![Vec::new(); starts_ms.len() + 1];
                for block in &kept {
                    let freed_ms = if block.freed_ms < to_ms {
                        block.freed_ms
                    } else {
                        f64::INFINITY
                    };
                    runs[run_of(block)].push(Block { freed_ms, ..*block });
                }
                let peaks_ms = runs
                    .iter()
                    .map(|run| peak(run).map_or(f64::NAN, |(time_ms, _)| time_ms));
                let peaks_ms: Vec<f64> = peaks_ms.collect();
                kept.retain(|block| block.is_live_at(peaks_ms[run_of(block)]));
            }
        }
        let unit = match measure {
            Measure::Blocks => WeightUnit::Counts,
            _ => WeightUnit::Bytes,
        };
        for thread in &mut self.threads {
            thread.allocations = None;
            thread.samples = Samples {
                weight: Some(Vec::new()),
                variance: Some(Vec::new()),
                ..Samples::default()
            };
            (thread.unit, thread.event) = (unit, Some(measure.name().to_owned()));
        }
        for block in kept {
            let samples = &mut self.threads[block.thread as usize].samples;
            samples.time_ms.push(block.time_ms);
            samples.stack.push(block.stack);
            let (weight, variance) = match measure {
                Measure::Blocks => (block.blocks(), block.variance_of_blocks()),
                _ => (block.weight, block.variance()),
            };
            samples.weight.get_or_insert_default().push(weight);
            samples.variance.get_or_insert_default().push(variance);
        }
        let is_thread: Vec<bool> = self.threads.iter().map(|thread| thread.event_of.is_none()).collect();
        self.drop_threads(&is_thread);
        (self.unit, self.weights) = (unit, None);
        self.event = Some(measure.name().to_owned());
        Ok(())
    }
}
