//! `sprof top`: what it shows of a program that runs, and what it saves.
#![cfg(target_os = "linux")]

use crate::browse::{rows, wait_for, words};
use crate::cli_terminal::Terminal;
use crate::parallelism::report;
use crate::support::run::output;
use crate::support::skip::perf_events;
use crate::support::{program, sprof, temp_dir};

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
    // Callers come first: of both phases, the one of the table before the other.
    let hottest = |(_, functions): &(&str, Vec<(u64, &str)>)| {
        functions
            .iter()
            .map(|(_, name)| name.to_string())
            .find(|name| name.ends_with("_work"))
    };
    let hottest: Vec<Option<String>> = tables.iter().map(hottest).collect();
    let is = |at: usize, name: &str| hottest[at].as_deref() == Some(name);
    assert!(is(0, "serial_work") && is(hottest.len() - 1, "parallel_work"), "{text}");
    assert!(text.contains("  trend\n"), "{text}");

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

#[test]
fn the_screen_shows_what_runs_and_stays_with_all_of_it() {
    if perf_events().is_none() {
        return;
    }
    let (own, program) = (env!("CARGO_BIN_EXE_sprof"), program("parallel").unwrap());
    let line = format!(
        "stty cols 120 rows 30; '{own}' top -d 0.1 -- {} 1 1500 50; echo status=$?; cat",
        program.display()
    );
    let environment = [("TERM", "xterm"), ("NO_COLOR", "1"), ("SPROF_CACHE", "off")];
    let Some(mut terminal) = Terminal::of_shell(&line, &environment) else {
        return;
    };
    wait_for(&terminal, 120, 30, "recording, ");
    wait_for(&terminal, 120, 30, "ended after ");
    terminal.press("s");
    wait_for(&terminal, 120, 30, "saved the first ");
    terminal.press("k");
    let shown = wait_for(&terminal, 120, 30, "ended after ");
    terminal.press("q");
    terminal.wait_for("status=0");
    let saved = terminal.folder().join("profile.json.gz");
    let printed = output(
        sprof()
            .arg("report")
            .arg(&saved)
            .args(["--view", "functions", "--limit", "0"]),
    );
    let expected = rows(&String::from_utf8(printed.stdout).unwrap());
    assert!(expected.len() > 3, "{expected:?}");
    for (line, expected) in shown[4..].iter().zip(&expected).take(20) {
        assert_eq!(&words(line), expected, "{shown:#?}");
    }
    assert!(terminal.text().contains("report profile.json.gz --view functions"));
    assert!(!terminal.text().contains("serial_wall_ns="));
}
