//! Tables of a recording that goes on, each of the time since the one before, as `top -b` prints them.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use profile::text::numbers::count;
use profile::text::one_line;
use recording::clock::Timestamp;

use super::names::LiveNames;
use super::watch::{Snapshots, end_recording};
use crate::args::{SelectArgs, Sort, TimeRange, View};
use crate::exit::Failure;
use crate::input::Input;
use crate::output::screen;
use crate::pipeline::snapshots::SnapshotPart;
use crate::report::build::TableExtent;
use crate::report::request::ReportRequest;
use crate::report::text::{TextWidth, write_table};
use crate::report::trend::EarlierShares;
use crate::report::{Report, ReportRow};
use crate::terminal::style;

const FUNCTIONS: usize = 10;
/// Threads, and processes.
const PARTS: usize = 5;

pub(crate) struct LiveTables {
    names: Arc<LiveNames>,
    interval: Duration,
    sort: Sort,
    /// Tables before the last one, at most; `None`: any number.
    left: Option<u32>,
    /// The end of the last table, in seconds.
    until_s: f64,
    before: Option<EarlierShares>,
    /// Why no more tables are printed.
    pub(crate) problem: Option<Failure>,
}

impl LiveTables {
    /// Prints `times` tables at most; `None`: any number.
    pub(crate) fn new(names: Arc<LiveNames>, interval: Duration, sort: Sort, times: Option<u32>) -> LiveTables {
        LiveTables {
            names,
            interval,
            sort,
            left: times.map(|times| times.saturating_sub(1)),
            until_s: 0.0,
            before: None,
            problem: None,
        }
    }

    /// Prints tables until the recording has ended.
    pub(crate) fn run(mut self, mut snapshots: Snapshots) -> LiveTables {
        let mut from = Timestamp(0);
        while self.left != Some(0)
            && let Some(snapshot) = snapshots.after(self.interval, || Some(SnapshotPart::Since(from)))
        {
            // The interval begins before the recording does: the last table's interval may end before the recording.
            self.left = self.left.map(|left| left - 1);
            let profile = self.names.of_snapshot(snapshot);
            let printed = self.names.input(&profile, false).and_then(|input| {
                // What happens in the rest of a millisecond is of the next table.
                let until_ms = input.data.length_ms().unwrap_or_default().floor();
                let zero = profile.info().clock.timestamp;
                from = Timestamp(zero.0.saturating_add((until_ms * 1e6) as u64));
                self.print(&input, until_ms)
            });
            if let Err(problem) = printed {
                self.problem = Some(problem);
                end_recording();
                break;
            }
        }
        self
    }

    /// Prints the table of the rest of the recording.
    pub(crate) fn print_last(&mut self, input: &Input) -> Result<(), Failure> {
        self.print(input, input.data.length_ms().unwrap_or_default().ceil())
    }

    /// Prints the table of the time since the last one.
    fn print(&mut self, input: &Input, until_ms: f64) -> Result<(), Failure> {
        let (from_s, until_s) = (self.until_s, until_ms / 1e3);
        let range = TimeRange {
            from_s: Some(from_s),
            to_s: Some(until_s),
        };
        let mut select = SelectArgs::default();
        select.part.time_range = Some(range);
        let views = [View::Functions, View::Threads, View::Processes];
        let request = ReportRequest {
            file: Path::new("the recording"),
            select: &select,
            views: &views,
        };
        let mut report = request.answer(input, |_| TableExtent {
            rows: usize::MAX,
            min_percent: Some(0.0),
            no_frame_of_all: false,
            sort: self.sort,
            of_event: false,
        })?;
        let shares = EarlierShares::of(&report);
        if let Some(before) = &self.before {
            before.compare(&mut report);
        }
        for table in &mut report.tables {
            let is_functions = table.id == "functions";
            let is_active = |row: &ReportRow| row.own.is_some_and(|own| own.samples > 0);
            table.rows.retain(|row| is_functions || is_active(row));
            table.rows.truncate(if is_functions { FUNCTIONS } else { PARTS });
        }
        screen::print("the table", |out| write(&report, range, until_s - from_s, out))?;
        (self.until_s, self.before) = (until_s, Some(shares));
        Ok(())
    }
}

fn write(report: &Report, range: TimeRange, length_s: f64, out: &mut dyn Write) -> io::Result<()> {
    let page = TextWidth {
        columns: style::stdout_columns(),
        color: style::stdout_color(),
    };
    let measure = &report.measure;
    write!(
        out,
        "{range}: {}, {}",
        count(measure.whole.samples, "sample", "samples"),
        measure.amount(measure.whole)
    )?;
    match measure.time_ms(measure.whole).filter(|_| length_s > 0.0) {
        Some(ms) => writeln!(out, " of CPU time, {:.0} % of a CPU", ms / 10.0 / length_s)?,
        None => writeln!(out)?,
    }
    writeln!(out, "quality so far: {}", one_line(&report.about.quality.line))?;
    for table in &report.tables {
        if table.id == "functions" || table.rows.len() > 1 {
            write_table(table, measure, page, out)?;
        }
    }
    writeln!(out)
}
