//! `sprof top`: what it shows of a program that runs, and what it saves.
#![cfg(target_os = "linux")]

use std::path::Path;

use crate::browse::{rows, wait_for, words};
use crate::cli_terminal::Terminal;
use crate::parallelism::report;
use crate::support::run::output;
use crate::support::skip::perf_events;
use crate::support::target::{Target, cpu_ms};
use crate::support::{Profile, Share, program, record, sprof, temp_dir, wait_until};

/// The tables that were printed: the first line of each, and of its functions the numbers and the name.
fn tables(text: &str) -> Vec<(&str, Vec<(u64, &str)>)> {
    let tables = text.split("\n\n").filter(|table| !table.trim().is_empty());
    tables
        .map(|table| {
            let lines: Vec<&str> = table.lines().collect();
            let head = lines.iter().position(|line| line.trim_start().starts_with("self "));
            let functions = lines.iter().skip(head.map_or(lines.len(), |head| head + 1));
            let functions = functions.take_while(|line| line.contains('%')).filter_map(|line| {
                // 75.0 %  150 ms  150  80.0 %  +3.0  serial_work  parallel
                let cells: Vec<&str> = line
                    .split("  ")
                    .map(str::trim)
                    .filter(|cell| !cell.is_empty())
                    .collect();
                let samples = cells.get(2)?.replace(',', "").parse().ok()?;
                let name = cells
                    .iter()
                    .skip(3)
                    .find(|cell| cell.starts_with(char::is_alphabetic))?;
                Some((samples, *name))
            });
            (lines[0], functions.collect())
        })
        .collect()
}

#[test]
fn tables_name_the_hot_function_of_each_phase_and_add_up_to_what_is_saved() {
    if perf_events().is_none() {
        return;
    }
    let folder = temp_dir();
    let saved = folder.path().join("all.json.gz");
    let mut command = sprof();
    command
        .args(["top", "-d", "0.15", "--sort", "total", "-o"])
        .arg(&saved)
        .arg("--");
    command.arg(program("parallel").unwrap()).args(["1", "350", "350"]);
    let printed = output(&mut command);
    assert_eq!(printed.status.code(), Some(0), "{printed:?}");
    let text = String::from_utf8(printed.stdout).unwrap();
    let tables = tables(&text);
    // Callers come first: of both phases, the one of the table before the other. A table of the program's first or last
    // milliseconds may have neither.
    let mut hottest = Vec::new();
    for (line, functions) in &tables {
        let mut names = functions.iter().map(|(_, name)| *name);
        let Some(hot) = names.find(|name| name.ends_with("_work")) else {
            continue;
        };
        // A table that came late may have both phases: what is saved says which one has more of its time.
        let range = line.split(" s: ").next().unwrap();
        let found = report(&saved, &["--view", "functions", "--time-range", range]);
        let rows = found["views"][0]["rows"].as_array().unwrap();
        let samples = |function: &str| {
            let row = rows.iter().find(|row| row["function"] == function);
            row.map_or(0, |row| row["total"]["samples"].as_u64().unwrap())
        };
        let other = match hot {
            "serial_work" => "parallel_work",
            _ => "serial_work",
        };
        assert!(samples(hot) >= samples(other).max(1), "{range}: {hot}\n{text}");
        hottest.push(hot);
    }
    let is_serial_first = hottest.is_sorted_by_key(|name| *name != "serial_work");
    assert!(is_serial_first && hottest.last() == Some(&"parallel_work"), "{text}");
    let with_functions = tables.iter().filter(|(_, functions)| !functions.is_empty());
    assert!(with_functions.count() == 1 || text.contains("  trend\n"), "{text}");

    assert!(!folder.path().join("all.json.gz.partial").exists());
    let found = report(&saved, &["--view", "functions"]);
    let samples = |line: &str| -> u64 {
        let number = line.split(" s: ").nth(1).unwrap().split(' ').next().unwrap();
        number.replace(',', "").parse().unwrap()
    };
    let all: u64 = tables.iter().map(|(line, _)| samples(line)).sum();
    assert_eq!(all, found["selection"]["samples"].as_u64().unwrap(), "{text}");
    // The program's own output is apart.
    let stderr = String::from_utf8(printed.stderr).unwrap();
    assert!(
        stderr.contains("serial_wall_ns=") && !text.contains("serial_wall_ns="),
        "{stderr}"
    );
}

#[test]
fn after_as_many_tables_as_were_asked_for_the_program_is_ended() {
    if perf_events().is_none() {
        return;
    }
    let printed = output(sprof().args(["top", "-d", "0.05", "-n", "1", "sleep", "60"]));
    assert_eq!(printed.status.code(), Some(143), "{printed:?}");
    let text = String::from_utf8(printed.stdout).unwrap();
    assert_eq!(tables(&text).len(), 1, "{text}");
}

/// The words of a line without the first one that the other line lacks.
fn without_trend(line: &str, other: &str) -> String {
    let mut found: Vec<&str> = line.split_whitespace().collect();
    let pairs = found.iter().zip(other.split(' '));
    let same = pairs.take_while(|(word, other)| *word == other).count();
    found.drain(same..found.len().min(same + 1));
    found.join(" ")
}

/// The rows of functions in a saved file.
fn rows_of(file: &Path, options: &[&str]) -> Vec<String> {
    let mut command = sprof();
    command.arg("report").arg(file).args(options);
    let printed = output(command.args(["--view", "functions", "--limit", "0"]));
    rows(&String::from_utf8(printed.stdout).unwrap())
}

/// Samples of functions and their callees in a part of a file: each of these functions, and all.
fn samples_of<const N: usize>(file: &Path, [from, to]: [f64; 2], functions: [&str; N]) -> ([u64; N], u64) {
    let found = report(
        file,
        &[
            "--view",
            "functions",
            "--limit",
            "0",
            "--time-range",
            &format!("{from}..{to}"),
        ],
    );
    let rows = found["views"][0]["rows"].as_array().unwrap();
    let samples = functions.map(|function| {
        let row = rows.iter().find(|row| row["function"] == function).unwrap();
        row["total"]["samples"].as_u64().unwrap()
    });
    (samples, found["selection"]["samples"].as_u64().unwrap())
}

#[test]
fn the_screen_shows_what_runs_saves_what_a_recording_beside_it_saves_and_stays_with_all_of_it() {
    if perf_events().is_none() {
        return;
    }
    let split = Target::start(program("split").unwrap(), &["600000"]);
    let own = env!("CARGO_BIN_EXE_sprof");
    let line = format!(
        "stty cols 120 rows 30; '{own}' top -d 0.1 -r 4000 -p {}; echo status=$?; cat",
        split.pid()
    );
    let environment = [("TERM", "xterm"), ("NO_COLOR", "1"), ("SPROF_CACHE", "off")];
    let Some(mut terminal) = Terminal::of_shell(&line, &environment) else {
        return;
    };
    // What the recorder says stands there until a key comes.
    wait_for(&terminal, 120, 30, "Ctrl-C ends the recording");
    let beside = record().options(&["-r", "4000", "-p", &split.pid()]).attach();
    beside.wait_for_sprof("Ctrl-C ends");
    let began_ms = cpu_ms(&split.pid());
    wait_until(|| cpu_ms(&split.pid()) > began_ms + 600.0, String::new);
    // The screen is made of the last two seconds now, and no longer of the whole recording.
    terminal.press("1");
    let is_part = |screen: &[String]| screen.iter().any(|line| line.contains("--time-range "));
    wait_until(
        || is_part(&wait_for(&terminal, 120, 30, "the last 1 s")),
        || terminal.text(),
    );
    terminal.press("P");
    wait_for(&terminal, 120, 30, "held at ");
    terminal.press("s");
    // By now what was on its way when the key came is on the screen.
    let held = wait_for(&terminal, 120, 30, "saved the first ");
    beside.signal_sprof("INT");
    let beside = beside.finish();
    let saved = terminal.folder().join("profile.json.gz");
    let range = held
        .join(" ")
        .split("--time-range ")
        .nth(1)
        .unwrap()
        .split(' ')
        .next()
        .unwrap()
        .to_owned();
    let expected = rows_of(&saved, &["--time-range", &range]);
    assert!(expected.len() > 3, "{expected:?}");
    for (line, expected) in held[4..].iter().zip(&expected).take(20) {
        assert_eq!(&without_trend(line, expected), expected, "{held:#?}");
    }
    // The time that both have.
    let files = [saved.as_path(), &beside.output];
    let times = files.map(|file| {
        let profile = report(file, &[])["profile"].clone();
        let [from, length] = ["start_unix_ms", "duration_ms"].map(|key| profile[key].as_f64().unwrap() / 1e3);
        [from, from + length]
    });
    let both = [times[0][0].max(times[1][0]), times[0][1].min(times[1][1])];
    let names = ["sixty", "thirty", "ten"];
    let [saved_counts, counts] = [0, 1].map(|at| {
        let zero = times[at][0];
        samples_of(files[at], both.map(|time| time - zero), names)
    });
    for (at, name) in names.iter().enumerate() {
        // Both fall by chance.
        let half = |(hits, of): ([u64; 3], u64)| Share {
            hits: hits[at] / 2,
            of: of / 2,
        };
        half(saved_counts).assert_is_within(half(counts).percent(), 100.0, name, || {
            format!("{saved_counts:?} {counts:?}")
        });
    }
    let (saved_all, all) = (saved_counts.1 as f64, counts.1 as f64);
    // What one recording lost because its buffers were full, the other one may have.
    let lost: f64 = files
        .map(|file| Profile::read(file).figure(&["lost records"]))
        .iter()
        .sum();
    assert!(
        (saved_all - all).abs() <= 5.0 * (saved_all + all).sqrt() + lost,
        "{saved_all} {all}, {lost} lost"
    );

    drop(split);
    wait_for(&terminal, 120, 30, "ended after ");
    terminal.press("s");
    wait_for(&terminal, 120, 30, "saved the first ");
    terminal.press("k");
    let shown = wait_for(&terminal, 120, 30, "ended after ");
    terminal.press("q");
    terminal.wait_for("status=0");
    let expected = rows_of(&terminal.folder().join("profile.json.gz"), &[]);
    assert!(expected.len() > 3, "{expected:?}");
    for (line, expected) in shown[4..].iter().zip(&expected).take(20) {
        assert_eq!(&words(line), expected, "{shown:#?}");
    }
    assert!(terminal.text().contains("report profile.json.gz --view functions"));
}
