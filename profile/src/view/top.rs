//! The functions with the most samples of running threads. Waits do not count.

use super::functions::{FunctionRow, functions};
use super::select::{Filter, Selection, select};
use crate::recorded::Profile;
use crate::to_data::summed;

/// The hottest functions of all threads.
#[derive(Clone, Debug, PartialEq)]
pub struct TopView {
    /// Samples of running threads, including those without a stack: the base of the shares.
    pub samples: u64,
    /// Most self samples first.
    pub functions: Vec<TopFunction>,
}

/// One function.
#[derive(Clone, Debug, PartialEq)]
pub struct TopFunction {
    /// Its name, or without one its library-relative address in hex.
    pub name: String,
    /// File name of its library.
    pub lib: Option<String>,
    /// Samples in which it was running.
    pub self_samples: u64,
    /// Samples with it on the stack. A sample counts once.
    pub total_samples: u64,
    /// Share of the periods of samples in which it ran, 0 to 1. Equals the share of samples if all periods are equal.
    pub self_share: f64,
    /// Share of the periods of samples with it on the stack, 0 to 1.
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

/// The `n` functions with the largest self share. Equal shares are sorted by total, largest first, then by name.
pub fn top(profile: &Profile, n: usize) -> TopView {
    let data = summed(profile);
    // An empty filter names nothing, so nothing can be missing.
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
