//! `sprof browse` on a terminal: what is on the screen, and what is left of it.
#![cfg(target_os = "linux")]

use std::path::Path;
use std::process::Command;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use crate::cli_terminal::Terminal;
use crate::support::run::{output, wait_until};
use crate::support::{sprof, temp_dir};

/// What begins and what ends a screen: xterm's alternate screen buffer.
const ENTERED: &str = "\u{1b}[?1049h";
const LEFT: &str = "\u{1b}[?1049l";

/// The screen that these bytes make of an empty one: text, and the sequences that move the cursor and erase.
fn screen(bytes: &str, columns: usize, lines: usize) -> Vec<String> {
    let mut cells = vec![vec![' '; columns]; lines];
    let (mut x, mut y) = (0, 0);
    // Only the last screen counts.
    let mut rest = bytes.rsplit(ENTERED).next().unwrap();
    while let Some(letter) = rest.chars().next() {
        // What the terminal is to copy.
        if let Some(command) = rest.strip_prefix("\u{1b}]") {
            rest = command.split_once('\u{7}').map_or("", |(_, rest)| rest);
            continue;
        }
        if let Some(sequence) = rest.strip_prefix("\u{1b}[") {
            let end = sequence.find(|letter: char| letter.is_ascii_alphabetic()).unwrap_or(0);
            let numbers: Vec<usize> = sequence[..end]
                .split(';')
                .map(|number| number.parse().unwrap_or(0))
                .collect();
            match sequence.as_bytes().get(end) {
                Some(b'H') => (y, x) = (numbers[0].max(1) - 1, numbers.get(1).copied().unwrap_or(1).max(1) - 1),
                Some(b'J') => cells = vec![vec![' '; columns]; lines],
                _ => {}
            }
            rest = sequence.get(end + 1..).unwrap_or_default();
            continue;
        }
        match letter {
            '\r' => x = 0,
            '\n' => y += 1,
            letter => {
                if let Some(cell) = cells.get_mut(y).and_then(|line| line.get_mut(x)) {
                    *cell = letter;
                }
                x += 1;
            }
        }
        rest = &rest[letter.len_utf8()..];
    }
    let lines = cells.iter().map(|line| line.iter().collect::<String>());
    lines.map(|line| line.trim_end().to_owned()).collect()
}

/// Waits until the screen has a text at its foot, and returns the screen.
pub(crate) fn wait_for(terminal: &Terminal, columns: usize, lines: usize, text: &str) -> Vec<String> {
    let shown = || screen(&terminal.text(), columns, lines);
    let has_text = || shown()[lines - 4..].join(" ").contains(text);
    let is_there = || !terminal.text().rsplit(ENTERED).next().unwrap().contains(LEFT) && has_text();
    wait_until(is_there, || format!("no {text}: {:#?}", shown()));
    shown()
}

pub(crate) fn words(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn run(arguments: &[&str]) -> String {
    String::from_utf8(output(sprof().args(arguments)).stdout).unwrap()
}

/// The rows of the only table in a report.
pub(crate) fn rows(report: &str) -> Vec<String> {
    let table = report.split("Functions\n").nth(1).unwrap();
    table.lines().skip(1).map(words).collect()
}

#[test]
fn the_screen_has_the_figures_of_the_report_also_when_it_changes_stops_and_is_taken_away() {
    let folder = temp_dir();
    let folded = folder.path().join("a.folded").to_str().unwrap().to_owned();
    std::fs::write(&folded, "main;parse;read 60\nmain;parse 25\nmain;write 10\nidle 5\n").unwrap();
    let own = env!("CARGO_BIN_EXE_sprof");
    let environment = [("TERM", "xterm"), ("NO_COLOR", "1"), ("SPROF_CACHE", "off")];
    // The shell has a job control of its own.
    let line = format!(
        "set -m; tty > tty; stty cols 80 rows 24; '{own}' browse {folded}; echo stopped=$?; fg; echo ended=$?; stty -a; \
         cat"
    );
    let Some(mut terminal) = Terminal::of_shell(&line, &environment) else {
        return;
    };
    let shown = wait_for(&terminal, 80, 24, &format!("report {folded} --view functions"));
    let expected = rows(&run(&["report", &folded, "--view", "functions", "--limit", "0"]));
    assert_eq!(expected.len(), 5, "{expected:?}");
    for (line, expected) in shown[4..9].iter().zip(&expected) {
        assert_eq!(&words(line), expected, "{shown:#?}");
    }

    // Callers of the second function, in a terminal that becomes larger.
    terminal.press("\u{1b}[B\r");
    let callers = "--view 'callers=parse' --min-percent 0.1 --limit 0";
    wait_for(&terminal, 80, 24, callers);
    let tty = std::fs::read_to_string(terminal.folder().join("tty")).unwrap();
    let mut stty = Command::new("stty");
    let resized = stty
        .args(["-F", tty.trim(), "cols", "120", "rows", "40"])
        .status()
        .unwrap();
    assert!(resized.success());
    // How many lines the command takes depends on the lengths of the paths in it.
    let shown = wait_for(&terminal, 120, 40, callers);
    assert!(shown[39].ends_with(" 0"), "{shown:#?}");

    // The terminal copies the command.
    terminal.press("y");
    let command = format!("{own} report {folded} {callers}");
    terminal.wait_for(&format!("\u{1b}]52;c;{}\u{7}", BASE64_STANDARD.encode(command)));
    terminal.press("k");
    let shown = wait_for(&terminal, 120, 40, "Tab: next view");

    // It stops, goes on with the same screen, and leaves the terminal as it was.
    terminal.press("\u{1a}");
    terminal.wait_for("stopped=148");
    let again = || screen(terminal.text().rsplit("stopped=148").next().unwrap(), 120, 40);
    wait_until(|| again() == shown, || format!("{:#?}", again()));
    terminal.press("q");
    terminal.wait_for("ended=0");
    terminal.wait_for("-cmspar");
    let text = terminal.text();
    let after = text.rsplit(LEFT).next().unwrap();
    assert!(after.contains(" report ") && after.contains(callers), "{after}");
    assert!(after.contains(" icanon ") && after.contains(" echo "), "{after}");
    assert!(!text.contains("panicked"));
    // It asks for the mouse, and gives it back.
    assert!(text.rfind("\u{1b}[?1002h").unwrap() < text.rfind("\u{1b}[?1002l").unwrap());
    terminal.close();

    // A terminal that is taken away ends it.
    let line = format!("stty cols 80 rows 24; echo $$ > pid; exec '{own}' browse {folded}");
    let terminal = Terminal::of_shell(&line, &environment).unwrap();
    wait_for(&terminal, 80, 24, "--limit 0");
    let pid = std::fs::read_to_string(terminal.folder().join("pid")).unwrap();
    terminal.close();
    let process = Path::new("/proc").join(pid.trim());
    wait_until(|| !process.exists(), || format!("{} runs on", pid.trim()));
}

#[test]
fn without_a_terminal_the_command_that_prints_is_named() {
    let output = output(sprof().args(["browse", "some file.json.gz"]));
    assert_eq!(output.status.code(), Some(125));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("needs a terminal") && said.contains("report 'some file.json.gz'"),
        "{said}"
    );
}
