//! The files of both sides, and which files can't be compared.

use std::path::PathBuf;

use recording::command::own;

use super::{Renamed, Sides, match_libs};
use crate::data::{Calls, Data, RunExtent, WeightUnit};
use crate::view::select::{Filter, KeptKinds, NotFound, SpanPart, chosen_spans, keep};

/// The files of both sides.
pub struct ReadSides {
    /// Before.
    pub base: Vec<Data>,
    /// After.
    pub new: Vec<Data>,
    /// Renamed libraries; in `base` they have their names of `new`.
    pub renamed: Vec<Renamed>,
}

impl ReadSides {
    /// Both sides of files that were read, each with the paths of its files for messages. Libraries of `base` get their
    /// names of `new`.
    ///
    /// # Errors
    ///
    /// The files count different things, or lack the call paths that are to be compared.
    pub fn new(
        (base_files, mut base): (&[PathBuf], Vec<Data>),
        (new_files, new): (&[PathBuf], Vec<Data>),
        needs_paths: bool,
    ) -> Result<ReadSides, String> {
        let files = base_files.iter().zip(&base).chain(new_files.iter().zip(&new));
        check_files(&files.collect::<Vec<_>>(), needs_paths)?;
        let renamed = match_libs(&mut base, &new);
        Ok(ReadSides { base, new, renamed })
    }

    /// The samples of one recording inside its slowest spans, and as the side before those inside the others:
    /// [`Filter::span_part`] says which are slow. Amounts are those of a span. Also returns the numbers of spans: of
    /// the others, and of the slowest.
    ///
    /// # Errors
    ///
    /// Nothing has a name that the filter asks for.
    pub fn of_slowest(data: &Data, filter: &Filter) -> Result<(ReadSides, [usize; 2]), NotFound> {
        let usual = match filter.span_part {
            Some(SpanPart::Slowest(percent) | SpanPart::Usual(percent)) => Some(SpanPart::Usual(percent)),
            None => None,
        };
        let part = |span_part| {
            let filter = Filter {
                span_part,
                ..filter.clone()
            };
            let number = chosen_spans(data, &filter)?.number;
            let mut data = data.clone();
            keep(&mut data, &filter, KeptKinds::One)?;
            data.divide_by(number.max(1) as f64);
            Ok((data, number))
        };
        let ((base, others), (new, slowest)) = (part(usual)?, part(filter.span_part)?);
        let sides = ReadSides {
            base: vec![base],
            new: vec![new],
            renamed: Vec::new(),
        };
        Ok((sides, [others, slowest]))
    }
}

impl Data {
    /// Divides the samples of a recording by the number of its sections. The recording then is a window of time.
    fn divide_by(&mut self, number: f64) {
        if let Some(recorded) = &mut self.recorded {
            recorded.extent = RunExtent::Window;
            recorded.run_starts_ms.clear();
        }
        if self.unit == WeightUnit::Samples && self.interval_ms > 0.0 {
            self.interval_ms /= number;
            return;
        }
        for samples in self.threads.iter_mut().map(|thread| &mut thread.samples) {
            let count = samples.len();
            let weights = samples.weight.get_or_insert_with(|| vec![1.0; count]);
            weights.iter_mut().for_each(|weight| *weight /= number);
        }
    }
}

fn check_files(files: &[(&PathBuf, &Data)], needs_paths: bool) -> Result<(), String> {
    let counted = |data: &Data| match &data.weights {
        Some(weights) if weights.unit.is_empty() => weights.name.clone(),
        Some(weights) => format!("{} ({})", weights.name, weights.unit),
        None => data.event.clone().unwrap_or_else(|| "samples in time order".to_owned()),
    };
    let Some((first, rest)) = files.split_first() else {
        return Ok(());
    };
    if let Some(other) = rest.iter().find(|(_, data)| counted(data) != counted(first.1)) {
        return Err(format!(
            "{} counts {}, {} counts {}: both must count the same event",
            first.0.display(),
            counted(first.1),
            other.0.display(),
            counted(other.1)
        ));
    }
    let without_paths = |(_, data): &&(&PathBuf, &Data)| needs_paths && data.calls != Calls::Paths;
    match files.iter().find(without_paths) {
        Some((file, data)) => Err(format!(
            "{}: {} has no call paths to compare; use --by functions, total or lines",
            file.display(),
            data.imported_from
        )),
        None => Ok(()),
    }
}

/// Refuses to compare nothing. A heap without a sampled block is one of few bytes.
///
/// # Errors
///
/// The side that has no samples of running threads.
pub fn check_sides(sides: &Sides) -> Result<(), String> {
    if sides.is_heap {
        return Ok(());
    }
    for (side, total) in [("before", &sides.base), ("after", &sides.new)] {
        if total.samples == 0 && (sides.weights.is_none() || total.per_run <= 0.0) {
            return Err(nothing_in(side, "samples of running threads"));
        }
    }
    Ok(())
}

/// The message if a side holds none of what is compared.
pub fn nothing_in(side: &str, what: &str) -> String {
    format!(
        "the profiles from {side} hold no {what}: there is nothing to compare; `{} report FILE` shows what a profile holds",
        own()
    )
}
