//! The hottest functions. Waits are no heat: only samples of running threads count.

use super::functions::{FunctionRow, functions};
use super::select::{Filter, Selection, select};
use crate::built::recorded;
use crate::model::Profile;

/// The hottest functions of all threads.
#[derive(Clone, Debug, PartialEq)]
pub struct TopView {
    /// Samples of running threads in the profile, also those without a stack: what shares are of.
    pub samples: u64,
    /// Most self samples first.
    pub functions: Vec<TopFunction>,
}

/// One function.
#[derive(Clone, Debug, PartialEq)]
pub struct TopFunction {
    /// Its name; the library-relative address in hex where there is none.
    pub name: String,
    /// File name of its library.
    pub lib: Option<String>,
    /// Samples in which it was running.
    pub self_samples: u64,
    /// Samples in which it was on the stack, each counted once however often it was there.
    pub total_samples: u64,
    /// Share of all periods that were its own, 0 to 1: of all samples, where each stands for the same time.
    pub self_share: f64,
    /// Share of all periods in which it was on the stack, 0 to 1.
    pub total_share: f64,
}

impl TopFunction {
    /// A row of a view, with its names.
    pub fn new(selection: &Selection<'_>, row: &FunctionRow) -> TopFunction {
        TopFunction {
            name: selection.name(row.func).to_owned(),
            lib: selection.data.lib_name(row.func).map(str::to_owned),
            self_samples: row.own.samples,
            total_samples: row.total.samples,
            self_share: row.own.share_of(selection.total),
            total_share: row.total.share_of(selection.total),
        }
    }
}

/// The `n` functions with the largest share of their own. Where these are equal, the larger total comes first, then the
/// name.
pub fn top(profile: &Profile, n: usize) -> TopView {
    let data = recorded(profile);
    // Nothing is asked for that there might not be.
    let Ok(selection) = select(&data, &Filter::default()) else {
        return TopView {
            samples: 0,
            functions: Vec::new(),
        };
    };
    let hot = functions(&selection).into_iter().filter(|row| row.own.samples > 0);
    TopView {
        samples: selection.total.samples,
        functions: hot.take(n).map(|row| TopFunction::new(&selection, &row)).collect(),
    }
}
