//! The list of changes as text and Markdown. Samples have shares and confidence intervals; figures of other profilers
//! have amounts.

use std::fmt::Write as _;

use super::describe::{amount, counted, describe, describe_increase, name, signed_percent, things, unit, which};
use super::{Change, Compared, Comparison, Undecided};

/// What is listed, and how.
#[derive(Clone, Copy, Debug)]
pub struct ListOptions {
    /// What was compared.
    pub what: Compared,
    /// The accepted share of false discoveries, percent.
    pub false_discoveries_percent: f64,
    /// The least change, percent of all samples.
    pub min_change_percent: f64,
    /// Most changes to list.
    pub limit: usize,
    /// False on web pages: advice names no options.
    pub names_options: bool,
}

/// More runs than anybody makes.
const MANY_RUNS: u64 = 100;

/// A comparison as a list.
pub struct ChangeList<'a> {
    /// What is listed, and how.
    pub options: ListOptions,
    /// The comparison.
    pub compared: &'a Comparison,
}

impl<'a> ChangeList<'a> {
    /// The listed changes.
    pub fn shown(&self) -> impl Iterator<Item = &'a Change> {
        self.compared.changes.iter().take(self.options.limit)
    }

    fn weights(&self) -> Option<&'a str> {
        self.compared.sides.weights.as_deref()
    }

    /// The unit of changes.
    fn points(&self) -> &'static str {
        match self.compared.sides.by_amount {
            true => "% of all",
            false => "points",
        }
    }

    /// The heads of columns with their widths in text; a negative width is to the left.
    pub fn columns(&self) -> Vec<(String, isize)> {
        let columns = match self.weights() {
            Some(_) => &[("before", 15), ("after", 15), ("change", 10), ("of all", 9)][..],
            None if self.compared.sides.by_amount => &[
                ("before", 12),
                ("after", 12),
                ("change", 10),
                ("of all", 9),
                ("  95 % sure", -19),
            ],
            None => &[("before", 9), ("after", 9), ("points", 9), ("  95 % sure", -19)],
        };
        let mut columns: Vec<_> = columns
            .iter()
            .map(|(head, width)| ((*head).to_owned(), *width))
            .collect();
        if !self.compared.sides.by_amount {
            columns.push((format!("{} a run", unit(&self.compared.sides)), 21));
        }
        columns
    }

    /// A change, one text for each of [`ChangeList::columns`].
    pub fn cells(&self, change: &Change) -> Vec<String> {
        let (base, new) = (&change.base, &change.new);
        let sides = &self.compared.sides;
        let (low, high) = change.range;
        let range = format!("  {:+.1} to {:+.1}", low * 100.0, high * 100.0);
        if sides.by_amount {
            let by = match base.per_run > 0.0 {
                true => new.per_run / base.per_run - 1.0,
                false => f64::INFINITY,
            };
            let mut cells = vec![
                amount(sides, base.per_run),
                amount(sides, new.per_run),
                signed_percent(by),
                signed_percent(sides.delta_of(change)),
            ];
            cells.extend(sides.weights.is_none().then_some(range));
            return cells;
        }
        let of_run = |amount_of_run: f64| match sides.is_heap {
            true => amount(sides, amount_of_run),
            false => format!("{amount_of_run:.0}"),
        };
        vec![
            format!("{:.1} %", base.share * 100.0),
            format!("{:.1} %", new.share * 100.0),
            format!("{:+.1}", sides.delta_of(change) * 100.0),
            range,
            format!("{} -> {}", of_run(base.per_run), of_run(new.per_run)),
        ]
    }

    /// Lists of what takes more and less; `which` names the kind of amount in the titles.
    pub fn text(&self, which: &str) -> String {
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
        let sides = &self.compared.sides;
        let is_more = |change: &&Change| sides.delta_of(change) > 0.0;
        let (more, less): (Vec<_>, Vec<_>) = self.shown().partition(is_more);
        let titles = match self.weights() {
            Some(weights) => [format!("more {weights}"), format!("less {weights}")],
            None if sides.is_heap => ["more", "less"].map(|how| format!("{how} {}", counted(sides))),
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

    /// The list as a table in Markdown, between the total and the sides; `notes` follow the sides.
    pub fn markdown(&self, notes: &[String]) -> String {
        let sides = &self.compared.sides;
        let mut out = format!("total: {}\n\n", describe_increase(sides, &sides.increase));
        let _ = writeln!(out, "{}\n", self.conclusion());
        let columns = self.columns();
        if !self.compared.changes.is_empty() {
            let first = self.weights().map_or(String::new(), |weights| format!("{weights} "));
            let heads: Vec<&str> = columns.iter().map(|(head, _)| head.trim()).collect();
            let head = which(self.options.what).trim_start_matches([',', ' ']);
            let _ = writeln!(
                out,
                "| {head} | {first}{} |\n|---|{}",
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

    /// The number of changes, and what the recordings do not show.
    pub fn conclusion(&self) -> String {
        let ListOptions {
            what,
            false_discoveries_percent,
            min_change_percent: least,
            limit,
            names_options,
        } = self.options;
        let tested = things(what, self.compared.tested);
        let changed = self.compared.changes.len();
        let option = |text: &str| if names_options { text.to_owned() } else { String::new() };
        let cut = match changed > limit {
            true => format!(
                " ({limit} are shown{})",
                option(&format!("; --limit {changed} shows all"))
            ),
            false => String::new(),
        };
        if self.weights().is_some() {
            return format!(
                "{changed} of {tested} changed by {least} % of all or more{}{cut}. {}",
                option(" (--min-change)"),
                match self.compared.sides.is_exact {
                    true => "Counts are exact: a difference is one of what ran.",
                    false => "Figures are compared as they are: such files do not show what of it is chance.",
                }
            );
        }
        let sides = &self.compared.sides;
        let points = self.points();
        // Equal runs of Node.js, whose garbage collector has threads of its own, had a change in 13 of 56 comparisons.
        let condition = match sides.base.runs.min(sides.new.runs) < 2 {
            true => "if runs differ no more than assumed, ",
            false => "",
        };
        let found = format!(
            "{changed} of {tested} changed{cut}; {condition}at most {false_discoveries_percent} % of the entries of such lists are chance."
        );
        match (changed, &self.compared.undecided) {
            (0, None) => format!("No change: none of {tested} changed by {least} {points} or more (each 95 % sure)."),
            (_, None) => format!("{found} No other changed by {least} {points} or more (each 95 % sure)."),
            (0, Some(undecided)) => format!(
                "Nothing is sure to have changed. {}",
                self.describe_undecided(undecided)
            ),
            (_, Some(undecided)) => format!("{found} {}", self.describe_undecided(undecided)),
        }
    }

    /// Says for how many functions, lines or paths there is no verdict, and how many runs would give one.
    fn describe_undecided(&self, undecided: &Undecided) -> String {
        let ListOptions {
            what,
            min_change_percent,
            ..
        } = self.options;
        let (low, high) = undecided.widest.range;
        let sides = &self.compared.sides;
        let others = self.compared.tested - self.compared.changes.len();
        let next = match (undecided.runs, sides.base.windows + sides.new.windows) {
            (None, _) => String::new(),
            (Some(MANY_RUNS..), _) => format!(" More than {MANY_RUNS} runs a side are needed to tell, or longer ones."),
            (Some(runs), 0) => format!(
                " Record about {runs} runs a side{}.",
                match self.options.names_options {
                    true => format!(
                        " (record --iteration-count {runs}{}, or more recordings: diff OLD OLD --new NEW NEW)",
                        if sides.is_heap {
                            ", or a smaller --heap-interval"
                        } else {
                            ""
                        },
                    ),
                    false => String::new(),
                }
            ),
            (Some(windows), _) => {
                format!(" Record about {windows} windows of this length a side, or longer ones.")
            }
        };
        format!(
            "Of {} of {} these recordings cannot tell whether the {} changed by {min_change_percent} {} or more: that of {} may have changed by \
             {:+.1} to {:+.1}{}.{next}",
            undecided.number,
            things(what, others),
            if sides.by_amount { "amount" } else { "share" },
            self.points(),
            name(&undecided.widest),
            low * 100.0,
            high * 100.0,
            if sides.by_amount { " % of all" } else { "" },
        )
    }
}
