//! What changed since an earlier report: a column of the table of functions.

use std::collections::HashMap;

use profile::view::functions::functions;
use profile::view::select::Selection;

use super::Report;

/// Shares of functions in a report, by name and library, in percent.
pub(crate) struct EarlierShares(HashMap<(String, String), f64>);

impl EarlierShares {
    /// The shares in the first table of a report.
    pub(crate) fn of(report: &Report) -> EarlierShares {
        let rows = report.tables.first().map_or(&[][..], |table| &table.rows);
        let shares = rows.iter().map(|row| {
            let share = report.measure.percent(row.own.unwrap_or_default());
            ((row.name.clone(), row.place.clone()), share)
        });
        EarlierShares(shares.collect())
    }

    /// The shares in a selection.
    pub(crate) fn of_selection(selection: &Selection<'_>) -> EarlierShares {
        let rows = functions(selection).into_iter().map(|row| {
            let library = selection.data.lib_name(row.func).unwrap_or_default();
            let key = (selection.name(row.func).to_owned(), library.to_owned());
            (key, 100.0 * row.own.share_of(selection.total))
        });
        EarlierShares(rows.collect())
    }

    /// Gives the rows of the first table the differences of their shares to these, in percentage points.
    pub(crate) fn compare(&self, report: &mut Report) {
        let Report { tables, measure, .. } = report;
        for row in tables.first_mut().map_or(&mut [][..], |table| &mut table.rows) {
            let key = (row.name.clone(), row.place.clone());
            let before = self.0.get(&key).copied().unwrap_or_default();
            row.trend = Some(measure.percent(row.own.unwrap_or_default()) - before);
        }
    }
}
