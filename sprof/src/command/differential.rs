//! The differential flame graph: `sprof diff --flamegraph` and `sprof flamegraph --base`.

use profile::data::Data;
use profile::export::svg::{SvgOptions, differential};
use profile::export::{Picked, PickedTime};
use profile::view::diff::DiffLimits;
use profile::view::diff::sides::nothing_in;

use super::target::ResultTarget;
use crate::exit::Outcome;
use crate::terminal::Term;

pub(super) fn write(
    target: ResultTarget<'_>,
    base: &[Data],
    new: &[Data],
    time: PickedTime,
    options: &SvgOptions,
    limits: DiffLimits,
    term: &Term,
) -> Outcome {
    let (base, new) = (pick(base, time), pick(new, time));
    for (side, name) in [(&base, "before"), (&new, "after")] {
        if side.iter().all(|picked| picked.totals().weight == 0) {
            return Err(nothing_in(name, "samples of the kind to draw").into());
        }
    }
    target.write(term, |out| differential::write(&base, &new, options, limits, out))
}

fn pick(side: &[Data], time: PickedTime) -> Vec<Picked<'_>> {
    side.iter().map(|data| Picked::new(data, time)).collect()
}
