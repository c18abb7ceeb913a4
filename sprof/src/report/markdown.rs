//! A report as Markdown tables, for pull requests and chats.

use std::io::{self, Write};

use profile::text::numbers::grouped;
use profile::view::cost::Cost;
use profile::view::cost_scale::CostScale;

use super::{Report, ReportRow, Table};

pub(crate) fn write(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let about = &report.about;
    writeln!(out, "**{}**  ", escaped(&about.recorded))?;
    writeln!(out, "{}  ", escaped(&about.samples))?;
    if let Some(counted) = &about.counted {
        writeln!(out, "{}  ", escaped(counted))?;
    }
    writeln!(out, "quality: {}", escaped(&about.quality.line))?;
    if let Some(short) = &about.short {
        writeln!(out, "  \nshort: {}", escaped(short))?;
    }
    for line in about.selected.iter().chain(&about.apart).chain(&about.notes) {
        writeln!(out, "\n> {}", escaped(line))?;
    }
    (report.tables.iter()).try_for_each(|table| write_table(table, &report.measure, out))
}

fn write_table(table: &Table, measure: &CostScale, out: &mut dyn Write) -> io::Result<()> {
    let rows = &table.rows;
    let mut columns: Vec<(String, Vec<String>)> = Vec::new();
    let mut column =
        |head: String, cell: &dyn Fn(&ReportRow) -> String| columns.push((head, rows.iter().map(cell).collect()));
    let has = |cost: fn(&ReportRow) -> Option<Cost>| rows.iter().any(|row| cost(row).is_some());
    let own = |row: &ReportRow| row.own.unwrap_or_default();
    let total = |row: &ReportRow| row.total.unwrap_or_default();
    let amount = escaped(measure.amount_label().unwrap_or("time"));
    for (at, heading) in table.headings.iter().enumerate() {
        column((*heading).to_owned(), &|row| row.cells[at].clone());
    }
    let has_costs = table.headings.is_empty();
    // Calls have a total cost only.
    if has_costs && (has(|row| row.own) || !has(|row| row.total)) {
        column(format!("{} %", table.own_label), &|row| {
            format!("{:.1}", measure.percent(own(row)))
        });
        column(amount.clone(), &|row| measure.amount(own(row)));
    }
    if has_costs && measure.has_samples {
        column("samples".to_owned(), &|row| grouped(own(row).samples));
    }
    if has(|row| row.total) {
        column("total %".to_owned(), &|row| {
            format!("{:.1}", measure.percent(total(row)))
        });
        column(format!("total {amount}"), &|row| measure.amount(total(row)));
    }
    if has(|row| row.other) {
        column(table.other_label.to_owned(), &|row| {
            measure.amount(row.other.unwrap_or_default())
        });
    }
    let numbers = columns.len();
    let mut text = |cell: &dyn Fn(&ReportRow) -> String| columns.push((String::new(), rows.iter().map(cell).collect()));
    // Markdown drops spaces at the start of a cell.
    text(&|row| format!("{}{}", "&nbsp;".repeat(2 * row.indent), code(&row.name)));
    if rows.iter().any(|row| !row.place.is_empty()) {
        text(&|row| escaped(&row.place));
    }
    if rows.iter().any(|row| !row.details.is_empty()) {
        let details = |row: &ReportRow| row.details.iter().map(|line| escaped(line)).collect::<Vec<_>>();
        text(&|row| details(row).join("<br>"));
    }
    let heads = columns
        .iter()
        .map(|(head, _)| format!("{head} |").trim_start().to_owned());
    let lines = (0..columns.len()).map(|at| if at < numbers { "---:|" } else { "---|" });
    writeln!(out, "\n### {}\n", escaped(&table.title))?;
    writeln!(
        out,
        "| {}\n|{}",
        heads.collect::<Vec<_>>().join(" "),
        lines.collect::<String>()
    )?;
    for at in 0..rows.len() {
        let cells = columns.iter().map(|(_, cells)| format!(" {} |", cells[at]));
        writeln!(out, "|{}", cells.collect::<String>())?;
    }
    match table.left_out {
        0 => Ok(()),
        more => writeln!(out, "\n{} more", grouped(more as u64)),
    }
}

/// A code span, with bars escaped: a bar ends the cell also in a code span.
fn code(text: &str) -> String {
    let text = text.replace(['\n', '\r'], " ").replace('|', "\\|");
    match text.contains('`') {
        true => format!("`` {text} ``"),
        false => format!("`{text}`"),
    }
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '|' | '*' | '_' | '`' | '[' | ']' | '<' | '>' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            '\n' | '\r' => out.push(' '),
            c => out.push(c),
        }
    }
    out
}
