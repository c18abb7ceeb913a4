//! What goes wrong, and when.

use std::collections::{BTreeMap, HashMap};
use std::panic::Location;

use super::machine::Chance;

/// Something that goes wrong right before a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The thread of the call ends, or another one.
    KillThread,
    /// The process of the call ends, or another one.
    KillProcess,
    /// The process of the call executes another program.
    Exec,
    /// A thread of the process starts another one.
    Spawn,
    /// The process starts another one.
    Fork,
    /// The process loads an image, or unloads one.
    Load,
    Unload,
    /// The call fails, whatever it is.
    Fail,
    /// A page of the thread's stack can't be read from now on.
    Unmap,
    /// The recorder wakes up so many microseconds late, the next time that it sleeps.
    Late(u16),
    /// The recorder loses its CPU for so many microseconds, whatever it is doing.
    Preempt(u16),
}

/// A fault at the nth call of a method of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct At {
    pub(crate) call: &'static str,
    pub(crate) nth: u32,
    pub(crate) fault: Fault,
}

/// The methods of the kernel that may fail.
pub(crate) const CALLS: [&str; 18] = [
    "wait_for_events",
    "watch",
    "task",
    "children",
    "identity",
    "process_name",
    "task_counts",
    "program",
    "open_files",
    "image_list",
    "threads",
    "thread_id",
    "thread_state",
    "suspend",
    "resume",
    "registers",
    "region",
    "read",
];

/// When faults come.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faults {
    /// By number of the call.
    pub(crate) script: BTreeMap<u64, Fault>,
    /// By method.
    order: Vec<At>,
    /// How often each method of the order was called, and the method by the line that calls.
    counts: HashMap<&'static str, u32>,
    methods: HashMap<u32, &'static str>,
    /// Of 10,000 calls so many have one at random.
    pub(crate) per_10_000: u64,
    calls: u64,
    failed_in_a_row: u32,
}

impl Faults {
    pub(crate) fn random(per_10_000: u64) -> Faults {
        Faults {
            per_10_000,
            ..Faults::default()
        }
    }

    pub(crate) fn scripted(script: BTreeMap<u64, Fault>) -> Faults {
        Faults {
            script,
            ..Faults::default()
        }
    }

    pub(crate) fn in_order(order: Vec<At>) -> Faults {
        Faults {
            order,
            ..Faults::default()
        }
    }

    /// What the order has for a call from this place in `calls.rs`.
    fn ordered(&mut self, from: &Location<'_>) -> Option<Fault> {
        if self.order.is_empty() || !from.file().ends_with("calls.rs") {
            return None;
        }
        let method = *self
            .methods
            .entry(from.line())
            .or_insert_with(|| method_at(from.line()));
        let nth = self.counts.entry(method).or_default();
        *nth += 1;
        let is_now = |at: &&At| at.call == method && at.nth == *nth;
        self.order.iter().find(is_now).map(|at| at.fault)
    }

    /// The fault of the next call.
    pub(super) fn next(&mut self, from: &Location<'_>, chance: &mut Chance) -> Option<Fault> {
        self.calls += 1;
        let ordered = self.ordered(from);
        let fault = self.script.remove(&self.calls).or(ordered).or_else(|| {
            (chance.below(10_000) < self.per_10_000).then(|| match chance.below(19) {
                0 | 1 => Fault::KillThread,
                2 => Fault::KillProcess,
                3 | 4 => Fault::Exec,
                5 | 6 => Fault::Spawn,
                7 | 8 => Fault::Fork,
                9 | 10 => Fault::Unmap,
                11 => Fault::Late(chance.below(20_000) as u16),
                12 => Fault::Preempt(chance.below(5_000) as u16),
                13 => Fault::Load,
                14 => Fault::Unload,
                _ => Fault::Fail,
            })
        });
        // The recorder tries a resume again that fails, but not forever.
        self.failed_in_a_row = if fault == Some(Fault::Fail) {
            self.failed_in_a_row + 1
        } else {
            0
        };
        fault.filter(|_| self.failed_in_a_row <= 3)
    }
}

/// The method of the kernel with this line of `calls.rs`.
fn method_at(line: u32) -> &'static str {
    let before = include_str!("calls.rs").lines().take(line as usize);
    let begun = before.filter_map(|line| line.trim_start().strip_prefix("fn "));
    let name = begun.last().and_then(|rest| rest.split(['(', '<']).next());
    name.unwrap_or_default()
}
