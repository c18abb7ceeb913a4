//! A report as text: tables that fit the terminal. In a pipe nothing is cut.

use std::io::{self, Write};

use profile::text::numbers::grouped;
use profile::text::one_line;
use profile::view::cost::Cost;
use profile::view::cost_scale::CostScale;

use super::{Report, ReportRow, Table};
use crate::terminal::columns::{cut, cut_start, function, wrapped};
use crate::terminal::style::{Style, Styled};

/// The terminal or pipe that the text goes to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TextWidth {
    /// Columns of the terminal; `None` without a terminal.
    pub(crate) columns: Option<usize>,
    pub(crate) color: bool,
}

/// Fewest columns of a name, or half of the terminal: columns of numbers are dropped until a name has them.
const NAME_COLUMNS: usize = 44;

impl TextWidth {
    fn style<T>(self, style: Style, text: T) -> Styled<T> {
        Styled::new(self.color, style, text)
    }
}

pub(crate) fn write(report: &Report, page: TextWidth, out: &mut dyn Write) -> io::Result<()> {
    for (label, text, style) in report.about.lines() {
        for line in wrapped(label, &one_line(text), "  ", page.columns.unwrap_or(usize::MAX).max(20)) {
            match style {
                Some(style) => writeln!(out, "{}", page.style(style, line))?,
                None => writeln!(out, "{line}")?,
            }
        }
    }
    for table in &report.tables {
        writeln!(out)?;
        write_table(table, &report.measure, page, out)?;
    }
    if report.tables.iter().all(|table| table.rows.is_empty()) {
        let mut ids = report.tables.iter().map(|table| table.id);
        let nothing = match report.measure.has_samples {
            _ if ids.len() > 0 && ids.clone().all(|id| id == "markers") => "no markers",
            _ if ids.len() > 0 && ids.all(|id| id == "spans") => "no span began in what is selected",
            true => "no samples",
            false => "nothing was counted",
        };
        writeln!(out, "\n{nothing}: nothing to show")?;
    }
    Ok(())
}

pub(crate) struct Column {
    pub(crate) head: String,
    pub(crate) cells: Vec<String>,
    /// Columns of the terminal that it takes.
    pub(crate) width: usize,
    /// Order in which columns are dropped; 0 is dropped last.
    rank: u8,
}

impl Column {
    fn new(rank: u8, head: &str, cells: Vec<String>) -> Column {
        let widths = cells.iter().map(|cell| cell.chars().count());
        Column {
            width: widths.chain([head.len()]).max().unwrap_or(0),
            head: head.to_owned(),
            cells,
            rank,
        }
    }

    /// The columns that leave enough of the terminal's width for names.
    pub(crate) fn fitting(columns: &[Column], width: usize) -> Vec<&Column> {
        let mut kept: Vec<&Column> = columns.iter().collect();
        let name = NAME_COLUMNS.min(width / 2);
        while kept.len() > 1 && Column::numbers(&kept) + name > width {
            let Some(least) = (0..kept.len()).max_by_key(|at| kept[*at].rank) else {
                break;
            };
            kept.remove(least);
        }
        kept
    }

    /// The width of all columns before the name.
    pub(crate) fn numbers(columns: &[&Column]) -> usize {
        columns.iter().map(|column| column.width + 2).sum()
    }
}

/// The columns of numbers of a table.
pub(crate) fn columns(table: &Table, measure: &CostScale) -> Vec<Column> {
    let column = |rank: u8, head: &str, cell: &dyn Fn(&ReportRow) -> String| {
        Column::new(rank, head, table.rows.iter().map(cell).collect())
    };
    if !table.headings.is_empty() {
        let headings = table.headings.iter().enumerate();
        let columns = headings.map(|(at, head)| column(at as u8, head, &|row| row.cells[at].clone()));
        return columns.collect();
    }
    let share = |rank: u8, head: &str, cost: fn(&ReportRow) -> Cost| {
        column(rank, head, &|row| percent(measure.percent(cost(row))))
    };
    // In trees, and in tables ordered by total, the total comes first.
    let total_first = matches!(
        table.id,
        "tree" | "bottom_up" | "callers" | "callees" | "hot_path" | "functions_by_total"
    );
    let own = |row: &ReportRow| row.own.unwrap_or_default();
    let total = |row: &ReportRow| row.total.unwrap_or_default();
    let (first, head): (fn(&ReportRow) -> Cost, &str) = match total_first {
        true => (total, "total"),
        false => (own, table.own_label),
    };
    let mut columns = vec![share(0, head, first)];
    if let Some(head) = measure.amount_label() {
        columns.push(column(2, head, &|row| measure.amount(first(row))));
    }
    if measure.has_samples {
        columns.push(column(3, "samples", &|row| grouped(first(row).samples)));
    }
    if total_first && table.rows.iter().all(|row| row.own.is_some()) {
        columns.push(share(1, table.own_label, own));
    } else if !total_first && table.rows.iter().any(|row| row.total.is_some()) {
        columns.push(share(1, "total", total));
    }
    if table.rows.iter().any(|row| row.other.is_some()) {
        let other = |row: &ReportRow| measure.amount(row.other.unwrap_or_default());
        columns.push(column(1, table.other_label, &other));
    }
    if table.rows.iter().any(|row| row.trend.is_some()) {
        columns.push(column(1, "trend", &|row| trend(row.trend.unwrap_or_default())));
    }
    columns
}

fn percent(percent: f64) -> String {
    match percent {
        0.0 => "-".to_owned(),
        percent if percent.abs() < 0.05 => "< 0.1 %".to_owned(),
        percent => format!("{percent:.1} %"),
    }
}

/// A change in percentage points.
fn trend(points: f64) -> String {
    match points.abs() < 0.05 {
        true => "-".to_owned(),
        false => format!("{points:+.1}"),
    }
}

pub(crate) fn write_table(table: &Table, measure: &CostScale, page: TextWidth, out: &mut dyn Write) -> io::Result<()> {
    let columns = columns(table, measure);
    let columns = Column::fitting(&columns, page.columns.unwrap_or(usize::MAX));
    let numbers = Column::numbers(&columns);
    let for_name = page.columns.map(|width| width.saturating_sub(numbers).max(8));
    let title: String = match page.columns {
        Some(width) => cut(&table.title, width),
        None => table.title.clone(),
    };
    writeln!(out, "{}", page.style(Style::Bold, title))?;
    let heads = columns
        .iter()
        .map(|column| format!("{:>1$}  ", column.head, column.width));
    writeln!(out, "{}", page.style(Style::Dim, heads.collect::<String>().trim_end()))?;
    for (at, row) in table.rows.iter().enumerate() {
        for (index, column) in columns.iter().enumerate() {
            let cell = format!("{:>1$}", column.cells[at], column.width);
            match index {
                0 => write!(out, "{}  ", page.style(Style::Bold, cell))?,
                _ => write!(out, "{cell}  ")?,
            }
        }
        let (name, place) = fit(row, for_name);
        match place.is_empty() {
            true => writeln!(out, "{name}")?,
            false => writeln!(out, "{name}  {}", page.style(Style::Dim, place))?,
        }
        let before = numbers + 2;
        for line in &row.details {
            let line = match page.columns {
                Some(width) => cut(line, width.saturating_sub(before).max(8)),
                None => line.clone(),
            };
            writeln!(out, "{:before$}{}", "", page.style(Style::Dim, line))?;
        }
    }
    if table.left_out > 0 {
        let more = format!("{} more: --limit shows them", grouped(table.left_out as u64));
        writeln!(
            out,
            "{}",
            page.style(Style::Dim, cut(&more, page.columns.unwrap_or(usize::MAX)))
        )?;
    }
    Ok(())
}

/// Fits name and place of a row into a number of columns.
pub(crate) fn fit(row: &ReportRow, columns: Option<usize>) -> (String, String) {
    let (name, place) = (row.name.clone(), row.place.clone());
    let Some(columns) = columns else {
        return (format!("{}{name}", "  ".repeat(row.indent)), place);
    };
    // The indent of a deep tree must leave space for names.
    let indent = " ".repeat(row.indent.min(columns / 3));
    let space = columns - indent.len();
    let len = |text: &str| text.chars().count();
    let name = match row.is_function {
        true => function(&name, space),
        false => cut_start(&name, space),
    };
    let left = space - len(&name);
    let place = match left {
        left if left >= 2 + len(&place) => place,
        left if left >= 14 => cut(&place, left - 2),
        _ => String::new(),
    };
    (format!("{indent}{name}"), place)
}
