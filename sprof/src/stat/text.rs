//! The table of `sprof stat`, for terminals and in Markdown.

use std::fmt::Write as _;

use profile::text::numbers::{bytes, count, counts, time};
use recording::command::quoted;
use recording::counting::{Measure, MeasureUnit};

use profile::view::scaling::{NoScaling, Ranged, Scaling};

use super::{Counted, Difference, ProgramRuns, Quartiles};
use crate::terminal::columns::{clean, cut, wrapped};

/// Columns of a command in a heading.
const COMMAND_COLUMNS: usize = 60;
/// A smaller part of the machine's CPU time, taken by its host, changes no figure that anyone sees.
const HARMLESS_STOLEN: f64 = 0.01;
/// The kernel looks once in 1 to 10 ms whether a program is in user code.
const FEW_TICKS_NS: f64 = 100e6;

/// For a terminal of this many columns.
pub(crate) fn text(counted: &Counted, columns: usize) -> String {
    let rows = rows(counted);
    let mut text = String::new();
    // The table has a row for each of the others.
    let listed = if counted.has_parameters() {
        1
    } else {
        counted.programs.len()
    };
    for (at, program) in counted.programs.iter().enumerate().take(listed) {
        let number = if counted.programs.len() > 1 {
            format!("{} ", at + 1)
        } else {
            String::new()
        };
        let _ = writeln!(
            text,
            "{number}{}",
            headline(program, cut(&command_line(program), COMMAND_COLUMNS))
        );
    }
    text.push('\n');
    let widths = |at: usize| {
        let cells = rows.iter().filter_map(|row| row.cells.get(at));
        cells.map(|cell| cell.chars().count()).max().unwrap_or_default()
    };
    for row in &rows {
        let mut line = String::new();
        for (at, cell) in row.cells.iter().enumerate() {
            let width = widths(at);
            let _ = match at {
                0 => write!(line, "  {cell:<width$}"),
                _ => write!(line, "  {cell:>width$}"),
            };
        }
        if !row.words.is_empty() {
            let _ = write!(line, "  {}", row.words);
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
    for note in notes(counted) {
        text.push('\n');
        text.push_str(&wrapped("", &note, "  ", columns).join("\n"));
    }
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

pub(crate) fn markdown(counted: &Counted) -> String {
    let cell = |text: &str| text.replace('|', "\\|");
    let rows = rows(counted);
    let mut text = String::new();
    for (at, program) in counted.programs.iter().enumerate() {
        let command = format!("`{}`", command_line(program).replace('`', "'"));
        let _ = writeln!(text, "{}. {}", at + 1, headline(program, command));
    }
    for (at, row) in rows.iter().enumerate() {
        let cells: Vec<String> = row.cells.iter().map(|text| cell(text)).collect();
        let _ = writeln!(
            text,
            "{}| {} | {} |",
            if at == 0 { "\n" } else { "" },
            cells.join(" | "),
            cell(&row.words)
        );
        if at == 0 {
            let _ = writeln!(text, "|---|{}---|", "--:|".repeat(row.cells.len() - 1));
        }
    }
    for note in notes(counted) {
        let _ = write!(text, "\n{note}\n");
    }
    text
}

/// The program and the number of its runs, or what ran already.
fn headline(program: &ProgramRuns, command: String) -> String {
    let runs = count(program.runs.len() as u64, "run", "runs");
    let title = program.title.as_ref().map(|title| clean(title));
    title.unwrap_or_else(|| format!("{command}: {runs}"))
}

fn command_line(program: &ProgramRuns) -> String {
    let words: Vec<_> = program.command.iter().map(|word| quoted(word)).collect();
    clean(&words.join(" "))
}

struct Row {
    /// The measure, then the figures.
    cells: Vec<String>,
    words: String,
}

/// The heading, and a row for each measure.
fn rows(counted: &Counted) -> Vec<Row> {
    let (is_one, has_spread) = (
        counted.programs.len() == 1,
        counted.programs.iter().any(|program| program.runs.len() > 1),
    );
    let mut heading = vec![String::new()];
    match (is_one, has_spread) {
        (true, false) => heading.push(match counted.programs[0].title {
            Some(_) => "in all".to_owned(),
            None => "one run".to_owned(),
        }),
        (true, true) => heading.extend(["median".to_owned(), "half of the runs".to_owned()]),
        (false, _) => {
            heading.push("median of 1".to_owned());
            for at in 2..=counted.programs.len() {
                heading.extend([format!("of {at}"), format!("1 against {at}")]);
            }
        }
    }
    let mut rows = vec![Row {
        cells: heading,
        words: String::new(),
    }];
    if counted.has_parameters() {
        return rows_of_parameters(counted);
    }
    let differences = counted.differences();
    for measure in counted.measures() {
        let Some((first, others)) = counted.programs.split_first() else {
            break;
        };
        let show = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| figure(measure, value));
        let mut cells = vec![first.name(measure), show(first.median(measure))];
        if is_one && has_spread {
            let quartiles = Quartiles::of(&first.values(measure));
            cells.push(quartiles.map_or_else(String::new, |found| range(measure, found)));
        }
        for (at, other) in others.iter().enumerate() {
            cells.push(show(other.median(measure)));
            let of_pair = |found: &&Difference| found.measure == measure && found.against == at + 1;
            cells.push(differences.iter().find(of_pair).map_or_else(String::new, verdict));
        }
        rows.push(Row {
            cells,
            words: if is_one { words(first, measure) } else { String::new() },
        });
    }
    rows
}

/// A row for each value.
fn rows_of_parameters(counted: &Counted) -> Vec<Row> {
    let Some(first) = counted.programs.first() else {
        return Vec::new();
    };
    let names = first.parameters.iter().map(|(name, _)| name.clone());
    let headings = [
        "wall",
        "half of the runs",
        "times as fast",
        "CPUs used",
        "task-clock",
        "peak-memory",
    ];
    let mut rows = vec![Row {
        cells: names.chain(headings.map(str::to_owned)).collect(),
        words: String::new(),
    }];
    for program in &counted.programs {
        let show = |measure: Measure| {
            program
                .median(measure)
                .map_or_else(|| "-".to_owned(), |value| figure(measure, value))
        };
        let ratio = |above: Option<f64>, below: Option<f64>| match (above, below.filter(|below| *below > 0.0)) {
            (Some(above), Some(below)) => format!("{:.2}", above / below),
            _ => "-".to_owned(),
        };
        let wall = program.median(Measure::Wall);
        let spread = Quartiles::of(&program.values(Measure::Wall)).map(|found| range(Measure::Wall, found));
        let values = program.parameters.iter().map(|(_, value)| value.clone());
        let figures = [
            show(Measure::Wall),
            spread.unwrap_or_default(),
            ratio(first.median(Measure::Wall), wall),
            ratio(program.median(Measure::TaskClock), wall),
            show(Measure::TaskClock),
            show(Measure::PeakMemory),
        ];
        rows.push(Row {
            cells: values.chain(figures).collect(),
            words: String::new(),
        });
    }
    rows
}

/// What the times say of the number of threads.
fn scaling_text(found: &Result<Scaling, NoScaling>, cpus: usize) -> String {
    let percent = |found: Ranged| {
        let (low, high) = found.range;
        format!(
            "{:.1} % ({:.1} to {:.1})",
            100.0 * found.value,
            100.0 * low,
            100.0 * high
        )
    };
    let found = match found {
        Err(NoScaling::TooLittle) => {
            return format!(
                "how the time falls with the number of threads needs two runs each of two numbers that are no more than the {cpus} \
                 CPUs"
            );
        }
        Err(NoScaling::Off(threads, off)) => {
            return format!(
                "the times follow no law of a serial part and of crosstalk: with {threads:.0} it is {:+.0} % off. More threads than \
                 CPUs, another limit (memory, a disk), or work that depends on the number can be why",
                100.0 * off
            );
        }
        Ok(found) => found,
    };
    let mut text = format!("{} of the work is serial", percent(found.serial));
    if found.serial.value > 0.0 {
        text += &format!(
            ": at most {:.1} times as fast as with one thread, however many there are",
            1.0 / found.serial.value
        );
    }
    // A range that begins with nothing shows none.
    let best = found
        .best
        .filter(|_| found.crosstalk.is_some_and(|crosstalk| crosstalk.range.0 > 0.0));
    match (found.crosstalk, best) {
        (Some(crosstalk), Some(best)) => {
            let (low, high) = best.range;
            text += &format!(
                ". Each thread costs each other one {} of it: {:.0} ({low:.0} to {high:.0}) are fastest",
                percent(crosstalk),
                best.value
            );
        }
        (Some(crosstalk), None) => {
            let most = 100.0 * crosstalk.range.1;
            text += &format!(". What threads cost each other is too little to be seen: at most {most:.1} % of it");
        }
        (None, _) => text += ". Crosstalk shows from four numbers of threads on",
    }
    if !found.is_checked {
        text += ". So few numbers of threads fit every law: this holds if the rest of the work is shared by all";
    }
    text
}

fn figure(measure: Measure, value: f64) -> String {
    match measure.unit() {
        MeasureUnit::Nanoseconds => time(value / 1e6),
        MeasureUnit::Bytes => bytes(value),
        MeasureUnit::Count => counts(value),
    }
}

/// `1.2 to 1.3 s`: the unit once.
fn range(measure: Measure, quartiles: Quartiles) -> String {
    let (low, high) = (figure(measure, quartiles.low), figure(measure, quartiles.high));
    match (low.split_once(' '), high.split_once(' ')) {
        (Some((number, unit)), Some((_, other))) if unit == other => format!("{number} to {high}"),
        _ => format!("{low} to {high}"),
    }
}

/// What a difference is worth.
fn verdict(found: &Difference) -> String {
    let difference = &found.difference;
    let percent = |part: f64| match part.is_finite() {
        true => format!("{:+.1} %", 100.0 * part),
        false => "from 0".to_owned(),
    };
    match (difference.is_certain, difference.detectable) {
        (true, _) => {
            let (low, high) = difference.range;
            match low.is_finite() && high.is_finite() {
                true => format!(
                    "{} ({:+.1} to {:+.1})",
                    percent(difference.relative),
                    100.0 * low,
                    100.0 * high
                ),
                false => percent(difference.relative),
            }
        }
        (false, None) => "too few runs".to_owned(),
        (false, Some(0.0)) => "equal".to_owned(),
        (false, Some(part)) if part.is_finite() => format!("none seen (< {:.1} %)", 100.0 * part),
        (false, Some(_)) => "none seen".to_owned(),
    }
}

/// What the number of a measure means for the program.
fn words(program: &ProgramRuns, measure: Measure) -> String {
    let median = |of: Measure| program.median(of).filter(|value| *value > 0.0);
    let ratio = |above: Measure, below: Measure| Some(median(above)? / median(below)?);
    let percent =
        |of: Measure, all: Measure, what: &str| ratio(of, all).map(|ratio| format!("{:.1} % {what}", 100.0 * ratio));
    let said = match measure {
        Measure::TaskClock => ratio(Measure::TaskClock, Measure::Wall).map(|used| format!("{used:.2} CPUs used")),
        Measure::User if median(Measure::TaskClock).is_some_and(|ns| ns < FEW_TICKS_NS) => {
            Some("the kernel splits so little by chance".to_owned())
        }
        Measure::System => percent(Measure::System, Measure::TaskClock, "of CPU time in the kernel"),
        Measure::CpuWait => median(Measure::CpuWait)
            .zip(median(Measure::TaskClock))
            .map(|(waited, used)| {
                format!(
                    "{:.1} % of the time that threads wanted a CPU",
                    100.0 * waited / (waited + used)
                )
            }),
        Measure::PeakMemory => Some("of one process".to_owned()),
        Measure::MajorFaults => median(Measure::MajorFaults).map(|_| "each waited for a disk".to_owned()),
        Measure::ForcedSwitches => median(Measure::ForcedSwitches).map(|_| "another thread needed the CPU".to_owned()),
        Measure::Instructions => {
            ratio(Measure::Instructions, Measure::Cycles).map(|each| format!("{each:.2} in a cycle"))
        }
        Measure::BranchMisses => percent(Measure::BranchMisses, Measure::Branches, "of branches guessed wrongly"),
        Measure::CacheMisses => percent(
            Measure::CacheMisses,
            Measure::CacheReferences,
            "of accesses went to memory",
        ),
        _ => None,
    };
    let counted = program.counted(measure);
    let counted = (counted < 0.995).then(|| format!("counted for {:.0} % of the time", 100.0 * counted));
    let at_least = program.is_at_least(measure).then(|| "at least".to_owned());
    at_least
        .into_iter()
        .chain(said)
        .chain(counted)
        .collect::<Vec<String>>()
        .join(", ")
}

/// What limits the figures.
fn notes(counted: &Counted) -> Vec<String> {
    let mut notes = Vec::new();
    for (parameters, found) in counted.scalings() {
        let values: Vec<String> = parameters
            .iter()
            .map(|(name, value)| format!("{name} {value}"))
            .collect();
        let of = if values.is_empty() {
            String::new()
        } else {
            format!("With {}: ", values.join(", "))
        };
        notes.push(format!("{of}{}.", scaling_text(&found, counted.cpus)));
        let used = counted
            .programs
            .first()
            .map(|first| (first.median(Measure::TaskClock), first.median(Measure::Wall)));
        if let Some((Some(clock), Some(wall))) = used
            && found.is_ok()
            && clock < 0.8 * wall
        {
            notes.push(format!(
                "The first of the values used {:.2} CPUs: the program waited, or others had the CPUs, and the times may be about that.",
                clock / wall
            ));
        }
    }
    for missing in counted.missing() {
        let names: Vec<&str> = missing.measures.iter().map(|measure| measure.name()).collect();
        notes.push(format!("Not counted: {}: {}.", names.join(", "), missing.reason));
    }
    for program in &counted.programs {
        if let Some(programs) = program.programs_of_cargo {
            notes.push(format!(
                "`{}`: the figures are of {} that cargo ran, without cargo and the build.",
                cut(&command_line(program), COMMAND_COLUMNS),
                count(programs as u64, "program", "programs")
            ));
        }
    }
    for (at, program) in counted.programs.iter().enumerate() {
        let late = program.late();
        let Some(latest) = late.iter().copied().reduce(f64::max) else {
            continue;
        };
        let of = if counted.programs.len() > 1 {
            format!(" of {}", at + 1)
        } else {
            String::new()
        };
        notes.push(format!(
            "{} of {}{of} took far longer than the others, up to {}. They hardly move the median, and the differences leave out a fifth \
             of the runs at each end.",
            late.len(),
            count(program.runs.len() as u64, "run", "runs"),
            figure(Measure::Wall, latest)
        ));
    }
    // The event counts a task's processes also after their parent forgot them, the kernel's other figures do not.
    for program in &counted.programs {
        let of = |measure: Measure| program.median(measure).unwrap_or_default();
        let unseen = of(Measure::TaskClock) - of(Measure::User) - of(Measure::System);
        let is_known = program.median(Measure::User).is_some() && program.title.is_none();
        if is_known && unseen > 20e6 && unseen > 0.05 * of(Measure::TaskClock) {
            notes.push(format!(
                "{} of CPU time of `{}` were in processes that their parents did not wait for (or were taken by the \
                 machine's host): the other figures do not have them.",
                figure(Measure::TaskClock, unseen),
                cut(&command_line(program), COMMAND_COLUMNS)
            ));
        }
    }
    if let Some(until) = &counted.until_sure {
        let runs = counted.programs.first().map_or(0, |program| program.runs.len());
        notes.push(match counted.is_sure() {
            true => format!("{runs} runs of each are enough to be sure."),
            false => format!(
                "{runs} runs of each are not enough to be sure of wall and task-clock to {} %: -r allows more.",
                100.0 * until.least
            ),
        });
    }
    let undecided = |found: &Difference| {
        let detectable = found.difference.detectable.filter(|part| *part > 0.0);
        !found.difference.is_certain && detectable.is_some()
    };
    if counted.differences().iter().any(undecided) {
        notes.push(
            "None seen (< 2 %): no difference was found; one of 2 % would have been, in most cases. More runs find \
             smaller ones."
                .to_owned(),
        );
    }
    let stolen = counted.stolen();
    if stolen > HARMLESS_STOLEN {
        notes.push(format!(
            "The host of this virtual machine took {:.0} % of its CPU time meanwhile: wall times are that much less exact.",
            100.0 * stolen
        ));
    }
    notes
}
