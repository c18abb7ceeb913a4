//! A report as Markdown tables, for pull requests and chats.

use std::io::{self, Write};

use profile::view::cost::Cost;

use super::Report;
use crate::numbers::grouped;

pub(crate) fn write(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let about = &report.about;
    writeln!(out, "**{}**  ", escaped(&about.recorded))?;
    writeln!(out, "{}  ", escaped(&about.samples))?;
    if let Some(counted) = &about.counted {
        writeln!(out, "{}  ", escaped(counted))?;
    }
    writeln!(out, "quality: {}", escaped(&about.quality.0))?;
    for line in about.selected.iter().chain(&about.apart).chain(&about.notes) {
        writeln!(out, "\n> {}", escaped(line))?;
    }
    for table in &report.tables {
        writeln!(out, "\n### {}\n", escaped(&table.title))?;
        let has = |cost: fn(&super::Row) -> Option<Cost>| table.rows.iter().any(|row| cost(row).is_some());
        let (has_total, has_other) = (has(|row| row.total), has(|row| row.other));
        // Calls have a total cost only.
        let has_own = has(|row| row.own) || !has_total;
        let has_place = table.rows.iter().any(|row| !row.place.is_empty());
        let amount_label = escaped(report.measure.amount_label().unwrap_or("time"));
        let (mut head, mut line) = ("|".to_owned(), "|".to_owned());
        if has_own {
            head.push_str(&format!(" {} % | {amount_label} |", table.own_label));
            line.push_str("---:|---:|");
        }
        if report.measure.has_samples {
            head.push_str(" samples |");
            line.push_str("---:|");
        }
        if has_total {
            head.push_str(&format!(" total % | total {amount_label} |"));
            line.push_str("---:|---:|");
        }
        if has_other {
            head.push_str(&format!(" {} |", table.other_label));
            line.push_str("---:|");
        }
        head.push_str(" |");
        line.push_str("---|");
        if has_place {
            head.push_str(" |");
            line.push_str("---|");
        }
        writeln!(out, "{head}\n{line}")?;
        for row in &table.rows {
            let own = row.own.unwrap_or_default();
            let measure = &report.measure;
            write!(out, "|")?;
            if has_own {
                write!(out, " {:.1} | {} |", measure.percent(own), measure.amount(own))?;
            }
            if measure.has_samples {
                write!(out, " {} |", grouped(own.samples))?;
            }
            if has_total {
                let total = row.total.unwrap_or_default();
                write!(out, " {:.1} | {} |", measure.percent(total), measure.amount(total))?;
            }
            if has_other {
                write!(out, " {} |", measure.amount(row.other.unwrap_or_default()))?;
            }
            // Markdown drops spaces at the start of a cell.
            write!(out, " {}{} |", "&nbsp;".repeat(2 * row.indent), code(&row.name))?;
            match has_place {
                true => writeln!(out, " {} |", escaped(&row.place))?,
                false => writeln!(out)?,
            }
        }
        if table.left_out > 0 {
            writeln!(out, "\n{} more", grouped(table.left_out as u64))?;
        }
    }
    Ok(())
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
