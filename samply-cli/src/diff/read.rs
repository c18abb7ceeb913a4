//! Reads both sides, and refuses what cannot be compared.

use std::path::{Path, PathBuf};

use profile::data::{Calls, Data};
use profile::view::diff::{Renamed, Sides, match_libs};
use profile::view::select::{Filter, KeptKinds, keep};
use recording::command::own;

use super::sums::as_sums;
use crate::args::{By, SymbolArgs};
use crate::exit::Failure;
use crate::input;
use crate::report::calls;
use crate::term::Term;

pub(crate) struct Read {
    pub(crate) base: Vec<Data>,
    pub(crate) new: Vec<Data>,
    /// Renamed libraries; in `base` they have their names of `new`.
    pub(crate) renamed: Vec<Renamed>,
}

/// How to read each file.
pub(crate) struct Reading<'a> {
    pub(crate) event: Option<&'a str>,
    pub(crate) symbols: &'a SymbolArgs,
    pub(crate) filter: Filter,
    pub(crate) by: By,
    /// Recordings become sums where the other files hold nothing else. Sums have no chance, which a gate must know.
    pub(crate) adds_up: bool,
    pub(crate) term: &'a Term,
}

impl Reading<'_> {
    /// Reads the files of both sides, and selects samples.
    pub(crate) fn sides(&self, base: &[PathBuf], new: &[PathBuf]) -> Result<Read, Failure> {
        let read = |files: &[PathBuf]| files.iter().map(|file| self.read(file)).collect::<Result<Vec<_>, _>>();
        let (mut base_data, mut new_data) = (read(base)?, read(new)?);
        if self.adds_up {
            [base_data, new_data] = as_sums(base_data, new_data)?;
        }
        paired((base, base_data), (new, new_data), self.by)
    }

    fn read(&self, file: &Path) -> Result<Data, Failure> {
        let mut data = input::open_and_warn(file, self.event, self.symbols, self.term)?.data;
        calls::check_conditions(file, &data, &self.filter)?;
        keep(&mut data, &self.filter, KeptKinds::One).map_err(|error| format!("{}: {error}", file.display()))?;
        Ok(data)
    }
}

/// Both sides of files that were read; libraries of `base` get their names of `new`.
pub(crate) fn paired(base: (&[PathBuf], Vec<Data>), new: (&[PathBuf], Vec<Data>), by: By) -> Result<Read, Failure> {
    let ((base_files, mut base), (new_files, new)) = (base, new);
    let files = base_files.iter().zip(&base).chain(new_files.iter().zip(&new));
    check(&files.collect::<Vec<_>>(), by)?;
    let renamed = match_libs(&mut base, &new);
    Ok(Read { base, new, renamed })
}

/// Refuses files that count different things, and views that the files have no data for.
fn check(files: &[(&PathBuf, &Data)], by: By) -> Result<(), Failure> {
    let what = |data: &Data| match &data.weights {
        Some(weights) if weights.unit.is_empty() => weights.name.clone(),
        Some(weights) => format!("{} ({})", weights.name, weights.unit),
        None => data.event.clone().unwrap_or_else(|| "samples in time order".to_owned()),
    };
    let Some((first, rest)) = files.split_first() else {
        return Ok(());
    };
    if let Some(other) = rest.iter().find(|(_, data)| what(data) != what(first.1)) {
        return Err(Failure::failed(format_args!(
            "{} counts {}, {} counts {}: both must count the same; --event NAME chooses the event of a file",
            first.0.display(),
            what(first.1),
            other.0.display(),
            what(other.1)
        )));
    }
    let without_paths = |(_, data): &&(&PathBuf, &Data)| by == By::Paths && data.calls != Calls::Paths;
    match files.iter().find(without_paths) {
        Some((file, data)) => Err(Failure::failed(format_args!(
            "{}: {} has no call paths to compare; use --by functions, total or lines",
            file.display(),
            data.imported_from
        ))),
        None => Ok(()),
    }
}

/// Refuses to compare nothing.
pub(crate) fn check_sides(sides: &Sides) -> Result<(), Failure> {
    for (side, total) in [("before", &sides.base), ("after", &sides.new)] {
        if total.samples == 0 && (sides.weights.is_none() || total.per_run <= 0.0) {
            return Err(nothing_in(side, "samples of running threads"));
        }
    }
    Ok(())
}

/// The failure if a side holds none of what is compared.
pub(crate) fn nothing_in(side: &str, what: &str) -> Failure {
    Failure::failed(format_args!(
        "the profiles from {side} hold no {what}: there is nothing to compare; `{} report FILE` shows what a profile holds",
        own()
    ))
}
