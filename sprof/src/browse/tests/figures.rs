//! What is drawn is what `sprof report` says.

use std::collections::BTreeSet;

use profile::text::numbers::{bytes, counts, grouped, time};
use serde_json::Value;

use super::files::file;
use super::{lines, press, report, screen};
use crate::args::View;
use crate::browse::canvas::ClickTarget;
use crate::browse::page::PageLine;
use crate::browse::screen::BrowseScreen;
use crate::browse::shown::Picture;

/// Views of all files.
const ALL: [&str; 7] = [
    "functions",
    "lines",
    "threads",
    "processes",
    "crates",
    "categories",
    "buckets",
];
/// Views of files with call paths.
const OF_CALLS: [&str; 4] = ["tree", "flame", "bottom-up", "futures"];

/// A file, keys that choose what is counted, true if it has call paths, and its other views.
const FILES: [(&str, &str, bool, &str); 15] = [
    ("cpu.json.gz", "", true, "timeline parallelism spans markers resources"),
    (
        "waits.json.gz",
        "w",
        true,
        "timeline parallelism spans markers resources",
    ),
    (
        "heap.json.gz",
        "",
        true,
        "timeline parallelism spans markers resources heap",
    ),
    ("perf.data", "", true, "timeline parallelism"),
    ("example.perf-script", "", true, "timeline"),
    ("app.pb.gz", "", true, ""),
    ("heap.pb.gz", "", true, ""),
    ("example.callgrind", "", false, ""),
    ("cachegrind.out", "", false, ""),
    ("app.dhat.json", "", true, ""),
    ("massif.out", "", true, ""),
    ("example.folded", "", true, ""),
    ("example.speedscope.json", "", true, ""),
    ("firefox-153.json.gz", "", true, "timeline parallelism spans markers"),
    ("samply-0.13.1.json.gz", "", true, "timeline parallelism markers"),
];

#[test]
fn every_view_of_every_kind_of_file_has_the_figures_of_the_command_at_its_foot() {
    let folder = tempfile::tempdir().unwrap();
    for (name, keys, has_calls, others) in FILES {
        let mut screen = screen(&file(name, folder.path()));
        press(&mut screen, keys);
        let mut names: Vec<String> = screen.tabs().iter().map(|tab| tab.name()).collect();
        names.retain(|name| !(ALL.contains(&&**name) || has_calls && OF_CALLS.contains(&&**name)));
        assert_eq!(names.join(" "), others, "{name}");
        for tab in screen.tabs() {
            // Waits have none: the Tab key goes on.
            if keys == "w" && tab.view == View::Parallelism {
                continue;
            }
            assert!(tab.is_of(&screen.shown), "{name}: {}", tab.name());
            compare(&mut screen);
            press(&mut screen, "\t");
        }
        press(&mut screen, "\n");
        compare(&mut screen);
    }
}

/// Compares what is drawn at two sizes with the report.
pub(super) fn compare(screen: &mut BrowseScreen) {
    press(screen, "gE");
    let report = ReportJson(report(screen));
    for size in [(80, 24), (120, 40)] {
        match screen.shown.picture {
            Picture::Rows => report.compare_rows(screen, size),
            Picture::Flame => report.compare_frames(screen, size),
            Picture::Timeline => report.compare_strips(screen, size),
        }
    }
    let notes = report.0["notes"].as_array().unwrap();
    if !notes.is_empty() {
        press(screen, "Q");
        let page = words(&lines(screen, 120, 50).join(" "));
        for note in notes {
            assert!(page.contains(&words(note.as_str().unwrap())), "{note}: {page}");
        }
        press(screen, "\u{1b}");
    }
}

fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The JSON of a report.
struct ReportJson(Value);

impl ReportJson {
    /// Each row has its figures: those on the first screen, and on the larger screen all, page by page.
    fn compare_rows(&self, screen: &mut BrowseScreen, (width, height): (u16, u16)) {
        let mut drawn = BTreeSet::new();
        press(screen, "g");
        loop {
            let shown = lines(screen, width, height);
            let page = &screen.page;
            let mut heads = heads(&shown[3]);
            let is_head_above = matches!(page.lines.get(page.top), Some(PageLine::Head(_)));
            let lines = page
                .lines
                .iter()
                .enumerate()
                .skip(page.top + usize::from(is_head_above));
            for ((at, line), text) in lines.zip(&shown[4..4 + screen.height]) {
                drawn.insert(at);
                match line {
                    PageLine::Head(_) => heads = self::heads(text),
                    PageLine::Row(table, row) => {
                        let (id, fields) = self.row(*table, *row);
                        let (cells, name) = cells(text, &heads);
                        for (cell, (head, _)) in cells.iter().zip(&heads) {
                            let expected = self.cell(id, head, fields);
                            assert_eq!(*cell, expected, "{head} of {fields}: {}: {shown:#?}", screen.command());
                        }
                        assert!(is_of(&name, id, fields), "{name:?} of {fields}: {shown:#?}");
                    }
                    PageLine::Detail(..) => {}
                }
            }
            let before = page.cursor;
            press(screen, " ");
            match screen.page.cursor == before {
                true => break,
                false if height < 40 => return,
                false => {}
            }
        }
        let lines = screen.page.lines.iter().enumerate();
        let mut hidden = lines
            .clone()
            .filter(|(at, line)| !drawn.contains(at) && !matches!(line, PageLine::Head(0)));
        assert_eq!(hidden.next(), None, "{}", screen.command());
        let views = self.0["views"].as_array().unwrap();
        let rows: usize = views.iter().map(|view| view["rows"].as_array().unwrap().len()).sum();
        assert_eq!(
            lines.filter(|(_, line)| matches!(line, PageLine::Row(..))).count(),
            rows,
            "{}",
            screen.command()
        );
    }

    /// Each frame is as wide as its share, and has its figures when it is chosen.
    fn compare_frames(&self, screen: &mut BrowseScreen, (width, height): (u16, u16)) {
        press(screen, "g");
        for _ in 0..6 {
            let shown = lines(screen, width, height);
            for area in &screen.areas {
                let ClickTarget::Line(row) = area.target else { continue };
                let share = self.row(0, row).1["total"]["share"].as_f64().unwrap() * f64::from(width);
                assert!(
                    (area.columns.len() as f64 - share).abs() <= 1.0,
                    "{area:?}: {share}: {shown:#?}"
                );
            }
            let (id, fields) = self.row(0, screen.page.cursor);
            for head in ["total", if id == "tree" { "self" } else { "ends" }] {
                let figure = format!("{} {head}", self.cell(id, head, fields));
                assert!(shown[3].contains(&figure), "{figure}: {shown:#?}");
            }
            let name: String = fields["function"].as_str().unwrap().chars().take(8).collect();
            assert!(shown[3].contains(&name), "{name}: {shown:#?}");
            press(screen, "j");
        }
    }

    /// Each thread has its share, and all of the time has the samples of all.
    fn compare_strips(&self, screen: &mut BrowseScreen, (width, height): (u16, u16)) {
        lines(screen, width, height);
        let [left, right] = ["<", ">"].map(|key| key.repeat(usize::from(width)));
        press(screen, &format!("g{left}r{right}"));
        let shown = lines(screen, width, height);
        let rows = self.0["views"][0]["rows"].as_array().unwrap();
        let samples = |row: &Value| row["self"]["samples"].as_u64().unwrap();
        let all = grouped(rows.iter().map(samples).sum());
        assert!(shown[3].contains(&format!("{all} sample")), "{all}: {shown:#?}");
        if rows.len() > 1 {
            assert!(
                shown[3].contains(&format!("{} sample", grouped(samples(&rows[0])))),
                "{shown:#?}"
            );
        }
        for (row, text) in rows.iter().zip(&shown[6..6 + screen.height]) {
            let mut parts = text.trim().split("  ");
            assert_eq!(parts.next(), Some(&*self.cell("threads", "share", row)), "{shown:#?}");
            assert!(is_of(parts.next().unwrap(), "threads", row), "{row}: {shown:#?}");
        }
        press(screen, "\u{1b}");
    }

    /// The id of a table, and one of its rows.
    fn row(&self, table: usize, row: usize) -> (&str, &Value) {
        let view = &self.0["views"][table];
        (view["id"].as_str().unwrap(), &view["rows"][row])
    }

    /// The text of a cell below this head.
    fn cell(&self, id: &str, head: &str, row: &Value) -> String {
        let first = match id {
            "tree" | "bottom_up" | "callers" | "callees" => "total",
            _ => "self",
        };
        let number = |value: &Value, text: fn(f64) -> String| value.as_f64().map_or_else(|| "-".to_owned(), text);
        let count = |value: &Value| number(value, counts);
        let length = |value: &Value| number(value, time);
        match (id, head) {
            ("parallelism", "share") => format!("{:.1} %", 100.0 * row["share"].as_f64().unwrap()),
            ("parallelism", _) => length(&row["wall_ms"]),
            ("spans" | "markers", "count" | "events") => count(&row[head]),
            ("spans", "longest") => length(&row["max_ms"]),
            ("spans", head) => length(&row[format!("{head}_ms")]),
            ("markers", "a second") => number(&row["per_second"], rate),
            ("markers", head) => length(&row["spans"][format!("{head}_ms")]),
            ("heap_growth", "growth a second") => estimate(&row["growth_per_s"], bytes),
            ("heap_growth", head) => {
                let percent: usize = head.split(' ').nth_back(1).unwrap().parse().unwrap();
                estimate(&row["live"][percent / 20], bytes)
            }
            ("heap", "blocks") => estimate(&row["blocks"], counts),
            ("heap", "median life") => row["median_life_ms"].as_f64().map_or_else(String::new, time),
            ("heap", head) => estimate(&row[head.replace("the ", "").replace(' ', "_")], bytes),
            ("resources", "worst, s") => row["worst"]["figure"].as_object().map_or_else(String::new, |_| {
                let range = row["worst"]["time_range"].as_str().unwrap();
                format!("{range} ({})", figure(&row["worst"]["figure"]))
            }),
            ("resources", head) => {
                let figures = row[head].as_array().unwrap();
                let is_something = |figure: &&Value| figure["value"].as_f64() > Some(0.0);
                let shown: Vec<String> = figures.iter().filter(is_something).map(figure).collect();
                match (shown.is_empty(), figures.is_empty()) {
                    (_, true) => "-".to_owned(),
                    (true, false) => "none".to_owned(),
                    (false, false) => shown.join(", "),
                }
            }
            (_, "self" | "share" | "total" | "ends") => {
                let key = if head == "total" { "total" } else { "self" };
                match 100.0 * row[key]["share"].as_f64().unwrap_or(0.0) {
                    0.0 => "-".to_owned(),
                    percent if percent < 0.05 => "< 0.1 %".to_owned(),
                    percent => format!("{percent:.1} %"),
                }
            }
            (_, "samples") => count(&row[first]["samples"]),
            (_, "waits" | "CPU time") => length(&row["other_kind"]["time_ms"]),
            // The unit of what was counted.
            (_, _) => match (row[first]["time_ms"].as_f64(), self.0["unit"].as_str()) {
                (Some(ms), _) => time(ms),
                (None, Some("bytes")) => number(&row[first]["weight"], bytes),
                _ => count(&row[first]["weight"]),
            },
        }
    }
}

/// `12.3 MB ±7 %`
fn estimate(of: &Value, text: fn(f64) -> String) -> String {
    let [sum, error] = ["estimate", "standard_error"].map(|key| of[key].as_f64().unwrap());
    match (of["samples"].as_u64(), 100.0 * error / sum.abs()) {
        (Some(0), _) => "-".to_owned(),
        (_, percent) if percent < 0.5 => text(sum),
        (_, percent) => format!("{} ±{percent:.0} %", text(sum)),
    }
}

fn rate(a_second: f64) -> String {
    match a_second {
        rate if rate >= 100.0 => counts(rate),
        rate if rate >= 1.0 => format!("{rate:.1}"),
        rate => format!("{rate:.2}"),
    }
}

/// `busy 97 %`
fn figure(figure: &Value) -> String {
    let value = figure["value"].as_f64().unwrap();
    let text = match figure["unit"].as_str().unwrap() {
        "share" if value < 0.1 => format!("{:.1} %", 100.0 * value),
        "share" => format!("{:.0} %", 100.0 * value),
        "number" => format!("{value:.2}"),
        "bytes" => bytes(value),
        "ms" => time(value),
        unit => panic!("{unit}"),
    };
    format!("{} {text}", figure["name"].as_str().unwrap().replace('_', " "))
}

/// The heads of columns of numbers, each with the end of its column. The last text of the line is the table's title.
fn heads(line: &str) -> Vec<(String, usize)> {
    let mut heads = Vec::new();
    let mut end = 0;
    for part in line.split("  ") {
        end += part.chars().count();
        if !part.trim().is_empty() {
            heads.push((part.trim().to_owned(), end));
        }
        end += 2;
    }
    heads.pop();
    heads
}

/// The cells of a row below these heads, and its name.
fn cells(line: &str, heads: &[(String, usize)]) -> (Vec<String>, String) {
    let letters: Vec<char> = line.chars().collect();
    let text = |from: usize, to: usize| letters.get(from..to.min(letters.len())).unwrap_or_default().iter();
    // The sign of a row stands before the first cell.
    let starts = [2].into_iter().chain(heads.iter().map(|(_, end)| *end));
    let cells = starts
        .zip(heads)
        .map(|(from, (_, to))| text(from, *to).collect::<String>().trim().to_owned());
    let name: String = text(heads.last().map_or(2, |(_, end)| *end), usize::MAX).collect();
    (
        cells.collect(),
        name.trim_start().split("  ").next().unwrap_or_default().to_owned(),
    )
}

/// True if a row of these fields has this name. A long name may lack some of its letters.
fn is_of(name: &str, id: &str, row: &Value) -> bool {
    let field = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
    let whole = match id {
        "lines" if row["file"].is_null() => format!("{} (no source known)", field("function")),
        "lines" => match row["line"].as_u64() {
            Some(line) => format!("{}:{line}", field("file")),
            None => format!("{} (no line known)", field("file")),
        },
        "resources" | "buckets" | "parallelism" | "function" => return !name.is_empty(),
        _ => field("function") + &field("name"),
    };
    let is_plain = whole.len() < 24 && !whole.contains(['<', '(', '/']);
    let mut rest = whole.chars();
    let is_left = name
        .chars()
        .filter(|letter| !"…_".contains(*letter))
        .all(|letter| rest.any(|other| other == letter));
    whole.is_empty() || name == whole || (!is_plain && is_left)
}
