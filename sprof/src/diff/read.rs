//! Reads the files of both sides.

use std::path::{Path, PathBuf};

use profile::data::Data;
use profile::text::numbers::count;
use profile::view::diff::sides::ReadSides;
use profile::view::select::{Filter, KeptKinds, chosen_spans, keep};

use super::sums::as_sums;
use crate::args::{By, SymbolArgs, WantedSamples};
use crate::exit::Failure;
use crate::input;
use crate::report::calls;
use crate::terminal::Term;

/// How to read each file.
pub(crate) struct ReadOptions<'a> {
    pub(crate) wanted: WantedSamples<'a>,
    pub(crate) symbols: &'a SymbolArgs,
    pub(crate) filter: Filter,
    pub(crate) by: By,
    /// True if recordings become sums where the other files are sums. A sum does not show chance, and a gate must know
    /// about chance.
    pub(crate) adds_up: bool,
    /// True if notes on files are printed as warnings.
    pub(crate) warns: bool,
    pub(crate) term: &'a Term,
}

impl ReadOptions<'_> {
    /// Reads the files of both sides, and selects samples.
    pub(crate) fn sides(&self, base: &[PathBuf], new: &[PathBuf]) -> Result<ReadSides, Failure> {
        let read = |files: &[PathBuf]| files.iter().map(|file| self.read(file)).collect::<Result<Vec<_>, _>>();
        let (mut base_data, mut new_data) = (read(base)?, read(new)?);
        if self.adds_up {
            [base_data, new_data] = as_sums(base_data, new_data)?;
        }
        Ok(ReadSides::new(
            (base, base_data),
            (new, new_data),
            self.by == By::Paths,
        )?)
    }

    /// Reads one file, whose slowest spans are a side, and the others the side before. Also returns a line that says
    /// so.
    pub(crate) fn slowest(&self, file: &Path) -> Result<(ReadSides, String), Failure> {
        let data = self.open(file)?;
        let sides = ReadSides::of_slowest(&data, &self.filter);
        let (sides, [others, slowest]) = sides.map_err(|error| format!("{}: {error}", file.display()))?;
        let numbers = format!(
            "after: inside the {}; before: inside the {}. Amounts are those of a span",
            count(slowest as u64, "slowest span", "slowest spans"),
            count(others as u64, "other", "others")
        );
        Ok((sides, numbers))
    }

    fn open(&self, file: &Path) -> Result<Data, Failure> {
        let open = if self.warns { input::open_and_warn } else { input::open };
        let data = open(file, self.wanted.clone().of_each_run(), self.symbols, self.term)?.data;
        calls::check_conditions(file, &data, &self.filter)?;
        let chosen = chosen_spans(&data, &self.filter).map_err(|error| format!("{}: {error}", file.display()))?;
        self.term.warnings(file, &chosen.doubts);
        Ok(data)
    }

    fn read(&self, file: &Path) -> Result<Data, Failure> {
        let mut data = self.open(file)?;
        keep(&mut data, &self.filter, KeptKinds::One).map_err(|error| format!("{}: {error}", file.display()))?;
        Ok(data)
    }
}
