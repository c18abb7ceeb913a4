//! What a report is asked for, and the whole report: head, notes and tables.

use std::path::Path;

use profile::text::numbers::time;
use profile::view::arcs;
use profile::view::cost_scale::CostScale;
use profile::view::select::{Selection, select};
use profile::view::shortfalls::shortfalls;
use recording::command::own;
use symbolicator::Symbolicator;

use super::about::About;
use super::build::{TableExtent, tables};
use super::{Report, calls, markers, parallelism, spans};
use crate::args::{SelectArgs, View};
use crate::exit::Failure;
use crate::input::Input;
use crate::symbols::advice::{AdvisedSamples, advise, distorted, few_samples};

/// Samples of a file, and views of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReportRequest<'a> {
    pub(crate) file: &'a Path,
    pub(crate) select: &'a SelectArgs,
    pub(crate) views: &'a [View],
}

impl ReportRequest<'_> {
    /// The report on what was read of the file.
    pub(crate) fn answer(&self, input: &Input, extent: impl Fn(&View) -> TableExtent) -> Result<Report, Failure> {
        let (file, views) = (self.file, self.views);
        let failed = |error: &dyn std::fmt::Display| Failure::failed(format_args!("{}: {error}", file.display()));
        let filter = self.select.filter();
        calls::check_conditions(file, &input.data, &filter)?;
        calls::check_views(file, &input.data, views)?;
        let selection = select(&input.data, &filter).map_err(|error| failed(&error))?;
        let numbers = match views.contains(&View::Parallelism) {
            true if filter.waits => {
                return Err(failed(&"--view parallelism is of running threads: leave out --waits"));
            }
            true => Some(input.data.parallelism().map_err(|error| failed(&error))?),
            false => None,
        };
        let mut shown = Vec::new();
        for view in views {
            let found = tables(&selection, &filter, view, extent(view), numbers.as_ref());
            shown.extend(found.map_err(|error| failed(&error))?);
        }
        let conditions = self.select.describe();
        let mut notes = input.notes.clone();
        let in_circles = arcs::in_circles(&selection);
        if in_circles > 0 {
            notes.push(format!(
                "{in_circles} functions call each other in circles; their totals may be smaller than shown, because the file has calls and no call paths"
            ));
        }
        let measure = CostScale::new(&input.data, selection.total);
        notes.extend(distorted(&selection, measure.time_ms(selection.total)));
        if let Some(numbers) = &numbers {
            notes.extend(parallelism::notes(&selection, numbers));
        }
        notes.extend(profile::view::spans::doubts(&selection));
        if views.contains(&View::Spans) {
            notes.extend(spans::notes(&shown, &selection));
        }
        if views.contains(&View::Markers) {
            notes.extend(markers::missing(&selection));
        }
        if views
            .iter()
            .any(|view| !matches!(view, View::Markers | View::Heap | View::Resources | View::Spans))
        {
            notes.extend(self.about_samples(&selection, &input.symbolicator));
        }
        Ok(Report {
            about: About::new(file, &selection, &conditions, self.select.waits, notes),
            tables: shown,
            measure,
        })
    }

    /// Notes on what limits views of samples.
    fn about_samples(&self, selection: &Selection<'_>, symbolicator: &Symbolicator) -> Vec<String> {
        let mut notes = Vec::from_iter(few_samples(selection, self.select.waits));
        if selection.total.samples == 0 && selection.data.has_samples() {
            notes.push(self.why_empty(selection));
        }
        let what = match self.select.waits {
            true => AdvisedSamples::SavedWaits,
            false => AdvisedSamples::Saved,
        };
        let advice = advise(&shortfalls(selection), selection, what, symbolicator);
        notes.extend(advice.into_iter().map(|advice| advice.line));
        notes
    }

    /// Why the selection of a profile with samples is empty.
    fn why_empty(&self, selection: &Selection<'_>) -> String {
        let length_ms = selection.data.length_ms().unwrap_or(f64::INFINITY);
        let filter = self.select.filter();
        if filter.from_ms.is_some_and(|from| from >= length_ms) {
            return format!(
                "the time range begins after the end: the recording is {} long",
                time(length_ms)
            );
        }
        match (filter.waits, selection.other_kind.samples > 0) {
            (true, _) => format!("there are no waits: `{} record --off-cpu` records them", own()),
            (false, true) => "all that is selected are waits: --waits shows them".to_owned(),
            (false, false) => "no sample meets all conditions".to_owned(),
        }
    }
}
