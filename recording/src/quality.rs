//! How far a recording can be trusted: everything that was lost, cut, guessed or not verified, counted by cause.

use std::collections::BTreeMap;

use crate::cpu_account::CpuAccount;
use crate::event::{LostCause, Role};
use crate::sink::ModuleMiss;
use crate::stack::{MissingStack, StackMark};

/// Counts of the stacks of waits and of point events, which are not samples of running threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StacksBeside {
    /// All of them.
    pub stacks: u64,
    /// Those that do not reach the root.
    pub truncated: u64,
    /// Those with frames that were read later and that nothing confirms.
    pub unverified: u64,
}

/// Counts for one recording.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Quality {
    /// Stacks that reached the profile: samples, and those of waits and of point events.
    pub samples: u64,
    /// The part of the counts of stacks that is of no samples: of waits and of point events.
    pub beside: StacksBeside,
    /// Records lost, by role and cause.
    pub lost: BTreeMap<(Role, LostCause), u64>,
    /// Times that the kernel throttled a CPU.
    pub throttled: u64,
    /// Records that made no sense.
    pub malformed: u64,
    /// Samples whose stack reaches the root.
    pub rooted: u64,
    /// Rooted stacks that were completed with memory read after the sample, in agreement with the thread's previous
    /// stack.
    pub completed_live: u64,
    /// Samples with frames that were read after the sample and that nothing confirms.
    pub unverified: u64,
    /// Samples that end early because stack bytes could not be had.
    pub truncated_no_memory: u64,
    /// Samples that end early because unwinding failed.
    pub truncated_no_rule: u64,
    /// Samples that end early because they have too many frames.
    pub truncated_depth: u64,
    /// Samples of a file of perf that end in the kernel: the user part, which the kernel deferred, is not in the file.
    pub truncated_deferred: u64,
    /// Samples on a stack of the language's runtime: the calls that led to them are on another stack.
    pub on_other_stack: u64,
    /// Samples without user stack, by reason.
    pub missing: BTreeMap<MissingStack, u64>,
    /// Samples in which at least one frame was found by frame pointer, for lack of unwind tables.
    pub by_frame_pointer: u64,
    /// Samples in which at least one frame was found from the code of functions, for lack of unwind tables.
    pub by_code: u64,
    /// Samples whose frames were found by framehop instead of sprof's own engine.
    pub by_framehop: u64,
    /// Modules that could not be read, by reason.
    pub module_misses: BTreeMap<ModuleMiss, u64>,
    /// Files in which programs write spans that could not be read, by reason.
    pub span_file_misses: BTreeMap<ModuleMiss, u64>,
    /// Symbols and debug info that could not be read where names were looked up: the file and the fault, a sentence
    /// each.
    pub damaged_symbols: Vec<String>,
    /// Samples a second of CPU time that were asked for.
    pub asked_rate_hz: f64,
    /// Samples a second of CPU time that were recorded; `None` where the event does not count time.
    pub achieved_rate_hz: Option<f64>,
    /// CPU time that the kernel counted for all recorded tasks, ns.
    pub cpu_time_ns: Option<u64>,
    /// What the kernel accounts beside that: CPU time that was not recorded.
    pub cpu_account: CpuAccount,
}

impl Quality {
    /// Counts what a mark in a stack says of how the stack was unwound. `is_sample`: of a running thread.
    pub fn count(&mut self, mark: StackMark, is_sample: bool) {
        match mark {
            _ if is_sample => {}
            StackMark::Unverified => self.beside.unverified += 1,
            StackMark::TruncatedNoMemory
            | StackMark::TruncatedNoRule
            | StackMark::TruncatedDepth
            | StackMark::TruncatedDeferred => {
                self.beside.truncated += 1;
            }
            _ => {}
        }
        *match mark {
            // Marks of waits.
            StackMark::OffCpu | StackMark::Waiting(_) | StackMark::WaitGuess(_) => return,
            StackMark::Unverified => &mut self.unverified,
            StackMark::TruncatedNoMemory => &mut self.truncated_no_memory,
            StackMark::TruncatedNoRule => &mut self.truncated_no_rule,
            StackMark::TruncatedDepth => &mut self.truncated_depth,
            StackMark::TruncatedDeferred => &mut self.truncated_deferred,
            StackMark::OtherStack => &mut self.on_other_stack,
            StackMark::Missing(reason) => self.missing.entry(reason).or_default(),
        } += 1;
    }

    /// Samples lost, all causes. Not the records of waits and of further events: [`Quality::switches_lost`],
    /// [`Quality::counted_lost`], [`Quality::points_lost`].
    pub fn lost_total(&self) -> u64 {
        let of_samples = |(role, cause): &(Role, LostCause)| {
            *role == Role::Running && !matches!(cause, LostCause::QueueFull | LostCause::NoPid)
        };
        (self.lost.iter().filter(|(cause, _)| of_samples(cause)))
            .map(|(_, count)| count)
            .sum()
    }

    /// Beginnings, ends and stacks of waits that were lost.
    pub fn switches_lost(&self) -> u64 {
        self.lost_of(Role::Switch)
    }

    /// Samples of further events that were lost.
    pub fn counted_lost(&self) -> u64 {
        self.lost_of(Role::Counted)
    }

    /// Point events that were lost.
    pub fn points_lost(&self) -> u64 {
        self.lost_of(Role::Point)
    }

    /// Samples of running threads that do not reach the root, all causes.
    pub fn truncated_samples(&self) -> u64 {
        self.truncated_total().saturating_sub(self.beside.truncated)
    }

    /// Samples of running threads with frames that nothing confirms.
    pub fn unverified_samples(&self) -> u64 {
        self.unverified.saturating_sub(self.beside.unverified)
    }

    /// Spans that were lost, or made no sense.
    pub fn spans_lost(&self) -> u64 {
        self.lost_of(Role::Span)
    }

    fn lost_of(&self, role: Role) -> u64 {
        let of_role = { self.lost.iter() }.filter(|((of, cause), _)| *of == role && *cause != LostCause::NoPid);
        of_role.map(|(_, count)| count).sum()
    }

    /// Samples and events of tasks that had no pid any more. They count as lost nowhere else.
    pub fn without_pid(&self) -> u64 {
        let without = { self.lost.iter() }.filter(|((_, cause), _)| *cause == LostCause::NoPid);
        without.map(|(_, count)| count).sum()
    }

    /// Samples that do not reach the root, all causes.
    pub fn truncated_total(&self) -> u64 {
        self.truncated_no_memory + self.truncated_no_rule + self.truncated_depth + self.truncated_deferred
    }
}
