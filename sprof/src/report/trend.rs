//! What changed since an earlier report: a column of the table of functions.

use std::collections::HashMap;

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
