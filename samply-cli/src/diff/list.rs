//! The list of changes as text and Markdown. Samples have shares and chance; figures of other profilers have amounts.

use std::fmt::Write as _;

use profile::view::diff::{Change, Comparison};

use super::words::{amount, describe, describe_increase, name, signed_percent, things, unit, which};
use crate::args::{By, LimitArgs};

/// What is listed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Listed {
    pub(crate) by: By,
    pub(crate) limits: LimitArgs,
    /// Changes at most.
    pub(crate) limit: usize,
}

pub(crate) struct List<'a> {
    pub(crate) listed: Listed,
    pub(crate) compared: &'a Comparison,
}

impl<'a> List<'a> {
    pub(crate) fn shown(&self) -> impl Iterator<Item = &'a Change> {
        self.compared.changes.iter().take(self.listed.limit)
    }

    fn weights(&self) -> Option<&'a str> {
        self.compared.sides.weights.as_deref()
    }

    /// The heads of columns with their widths in text; a negative width is to the left.
    pub(crate) fn columns(&self) -> Vec<(String, isize)> {
        let columns = match self.weights() {
            Some(_) => &[("before", 15), ("after", 15), ("change", 10), ("of all", 9)][..],
            None => &[("before", 9), ("after", 9), ("points", 9), ("  95 % sure", -19)],
        };
        let mut columns: Vec<_> = columns
            .iter()
            .map(|(head, width)| ((*head).to_owned(), *width))
            .collect();
        if self.weights().is_none() {
            columns.push((format!("{} a run", unit(&self.compared.sides)), 21));
        }
        columns
    }

    pub(crate) fn cells(&self, change: &Change) -> Vec<String> {
        let (base, new) = (&change.base, &change.new);
        if self.weights().is_some() {
            let by = match base.per_run > 0.0 {
                true => new.per_run / base.per_run - 1.0,
                false => f64::INFINITY,
            };
            let sides = &self.compared.sides;
            return vec![
                amount(sides, base.per_run),
                amount(sides, new.per_run),
                signed_percent(by),
                signed_percent(self.compared.delta(change)),
            ];
        }
        let (low, high) = change.share_change;
        vec![
            format!("{:.1} %", base.share * 100.0),
            format!("{:.1} %", new.share * 100.0),
            format!("{:+.1}", self.compared.delta(change) * 100.0),
            format!("  {:+.1} to {:+.1}", low * 100.0, high * 100.0),
            format!("{:.0} -> {:.0}", base.per_run, new.per_run),
        ]
    }

    /// Lists of what takes more and less; `which` names the kind of amount in the titles.
    pub(crate) fn text(&self, which: &str) -> String {
        let columns = self.columns();
        let line = |cells: Vec<String>, last: &str| {
            let padded = cells
                .iter()
                .zip(&columns)
                .map(|(cell, (_, width))| match width.unsigned_abs() {
                    columns if *width < 0 => format!("{cell:<columns$} "),
                    columns => format!("{cell:>columns$} "),
                });
            format!("{} {last}\n", padded.collect::<String>())
        };
        let is_more = |change: &&Change| self.compared.delta(change) > 0.0;
        let (more, less): (Vec<_>, Vec<_>) = self.shown().partition(is_more);
        let titles = match self.weights() {
            Some(weights) => [format!("more {weights}"), format!("less {weights}")],
            None => ["slower".to_owned(), "faster".to_owned()],
        };
        let mut out = String::new();
        for (title, changes) in titles.iter().zip([more, less]) {
            if !changes.is_empty() {
                let heads = columns.iter().map(|(head, _)| head.clone());
                out += &format!("\n{}", line(heads.collect(), &format!("{title}{which}")));
            }
            out.extend(changes.iter().map(|change| line(self.cells(change), &name(change))));
        }
        out + &format!("\n{}\n", self.conclusion())
    }

    pub(crate) fn markdown(&self, notes: &[String]) -> String {
        let sides = &self.compared.sides;
        let mut out = format!("total: {}\n\n", describe_increase(sides, &sides.increase));
        let _ = writeln!(out, "{}\n", self.conclusion());
        let columns = self.columns();
        if !self.compared.changes.is_empty() {
            let first = self.weights().map_or(String::new(), |weights| format!("{weights} "));
            let heads: Vec<&str> = columns.iter().map(|(head, _)| head.trim()).collect();
            let what = which(self.listed.by).trim_start_matches([',', ' ']);
            let _ = writeln!(
                out,
                "| {what} | {first}{} |\n|---|{}",
                heads.join(" | "),
                "---:|".repeat(columns.len())
            );
        }
        for change in self.shown() {
            let name = name(change).replace('|', "\\|").replace('`', "'");
            let cells = self.cells(change).join(" | ").replace("->", "→").replace("|   ", "| ");
            let _ = writeln!(out, "| `{name}` | {cells} |");
        }
        let sides = [
            format!("before: {}", describe(sides, &sides.base)),
            format!("after: {}", describe(sides, &sides.new)),
        ];
        let _ = writeln!(out, "\n{}", [&sides[..], notes].concat().join("; "));
        out
    }

    pub(crate) fn conclusion(&self) -> String {
        let Listed { by, limits, limit } = self.listed;
        let tested = things(by, self.compared.tested);
        let changed = self.compared.changes.len();
        let cut = match changed > limit {
            true => format!(" ({limit} are shown; --limit {changed} shows all)"),
            false => String::new(),
        };
        match (self.weights(), changed) {
            (Some(_), _) => format!(
                "{changed} of {tested} changed by {} % of all or more (--min-change){cut}. Figures are compared as they are: such \
                 files do not show what of it is chance.",
                limits.min_change
            ),
            (None, 0) => format!(
                "No change: of {tested} with samples enough, none differs by {} % of all samples or more, and by more than chance. \
                 Longer recordings, or several a side (--new), find smaller changes; --min-change shows them.",
                limits.min_change
            ),
            (None, _) => format!(
                "{changed} of {tested} changed{cut}; of such lists at most {} % of the entries are chance.",
                limits.false_discoveries
            ),
        }
    }
}
