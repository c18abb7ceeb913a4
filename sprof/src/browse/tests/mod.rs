//! The screen without a terminal: keys go in, cells are read.

mod figures;
mod files;
mod flame;
mod goldens;
mod timeline;

use std::path::{Path, PathBuf};

use clap::FromArgMatches;
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::Color;
use ratatui_crossterm::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use serde_json::{Value, json};

use super::colors::ColorDepth;
use super::draw::draw;
use super::keys::HELP;
use super::screen::{AfterKey, BrowseScreen};
use super::shown::Picture;
use crate::args::{self, ReportArgs, SelectArgs};
use crate::command;
use crate::input;
use crate::report::json as report_json;
use crate::terminal::{Term, Verbosity};

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../profile/tests/golden")
        .join(name)
}

fn read(path: &Path, select: &SelectArgs, has_markers: bool) -> input::Input {
    let term = Term::stderr(Verbosity::Quiet);
    let opened = match has_markers {
        true => input::open_with_markers(path, &select.wanted(), &select.symbols, &term),
        false => input::open(path, select.wanted(), &select.symbols, &term),
    };
    opened.unwrap()
}

fn screen(path: &Path) -> BrowseScreen {
    let file = path.to_owned();
    BrowseScreen::new(
        path.to_owned(),
        SelectArgs::default(),
        Box::new(move |select, has_markers| Ok(read(&file, select, has_markers))),
        Box::new(|_, _, function, columns| {
            let lines = (0..90).map(|line| format!("{line:4}  {function} in {columns} columns"));
            Ok((lines.collect(), 69))
        }),
    )
    .unwrap()
}

fn press(screen: &mut BrowseScreen, keys: &str) {
    for letter in keys.chars() {
        let code = match letter {
            '\n' => KeyCode::Enter,
            '\t' => KeyCode::Tab,
            '\u{8}' => KeyCode::BackTab,
            '\u{1b}' => KeyCode::Esc,
            '<' => KeyCode::Left,
            '>' => KeyCode::Right,
            letter => KeyCode::Char(letter),
        };
        assert_eq!(screen.press(KeyEvent::new(code, KeyModifiers::NONE)), AfterKey::Draw);
    }
}

fn cells(screen: &mut BrowseScreen, colors: ColorDepth, width: u16, height: u16) -> Buffer {
    let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
    draw(screen, colors, &mut buffer);
    buffer
}

fn lines(screen: &mut BrowseScreen, width: u16, height: u16) -> Vec<String> {
    let buffer = cells(screen, ColorDepth::None, width, height);
    let line = |y: u16| -> String { (0..width).map(|x| buffer[(x, y)].symbol()).collect() };
    (0..height).map(|y| line(y).trim_end().to_owned()).collect()
}

/// The JSON of the command at the foot.
fn report(screen: &BrowseScreen) -> Value {
    let words = shlex::split(&screen.command()).unwrap();
    let matches = args::definition().try_get_matches_from(words).unwrap();
    let args = ReportArgs::from_arg_matches(matches.subcommand_matches("report").unwrap()).unwrap();
    let report = command::report::report(&args, &Term::stderr(Verbosity::Quiet)).unwrap();
    let mut out = Vec::new();
    report_json::write(&report, &mut out).unwrap();
    serde_json::from_slice(&out).unwrap()
}

/// The first column of the drawn rows.
fn drawn(screen: &mut BrowseScreen) -> Vec<String> {
    let lines = lines(screen, 200, 60);
    let rows = lines.iter().skip(4).take_while(|line| !line.is_empty());
    let first = |line: &String| line[2..].trim_start().split("  ").next().unwrap_or_default().to_owned();
    rows.map(first).collect()
}

#[test]
fn keys_select_and_are_taken_back() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a b.folded");
    std::fs::write(&file, "main;parse;read 60\nmain;parse 25\nmain;write 10\nidle 5\n").unwrap();
    let mut screen = screen(&file);
    let shown = lines(&mut screen, 60, 14);
    assert_eq!(
        shown[2..8],
        [
            "functions tree flame bottom-up lines threads processes …",
            "    self  samples   total  Functions",
            "  60.0 %       60  60.0 %  read",
            "  25.0 %       25  85.0 %  parse",
            "  10.0 %       10  10.0 %  write",
            "   5.0 %        5   5.0 %  idle",
        ]
    );
    assert!(
        screen.command().ends_with("/a b.folded' --view functions --limit 0"),
        "{}",
        screen.command()
    );

    // Callers of the second function; back.
    press(&mut screen, "j\n");
    assert!(
        screen
            .command()
            .contains(" --view 'callers=parse' --min-percent 0.1 --limit 0")
    );
    let shown = lines(&mut screen, 60, 16);
    assert!(
        shown.iter().any(|line| line == "  25.0 %       25  85.0 %  parse"),
        "{shown:#?}"
    );
    assert!(
        shown
            .iter()
            .any(|line| line.ends_with("main") && line.starts_with("  85.0 %")),
        "{shown:#?}"
    );
    press(&mut screen, "u");
    assert_eq!(screen.page.cursor, 1);

    // Without its samples a function's cost is its callers'.
    press(&mut screen, "h");
    assert!(screen.command().contains("--hide parse --view functions"));
    assert_eq!(drawn(&mut screen), ["60.0 %", "25.0 %", "10.0 %", "5.0 %"]);
    press(&mut screen, "gf");
    assert!(
        screen.command().contains("--focus read --hide parse"),
        "{}",
        screen.command()
    );
    assert_eq!(drawn(&mut screen), ["100.0 %", "-"]);
    press(&mut screen, "\u{1b}\u{1b}");
    assert!(!screen.command().contains("--hide"));
    press(&mut screen, "u");
    assert_eq!(screen.message, "nothing to take back: q ends");

    // A row that is in a closed one is found.
    press(&mut screen, "\tC");
    assert_eq!(drawn(&mut screen).len(), 2);
    press(&mut screen, "/rea\n");
    assert_eq!(screen.page.row().unwrap().name, "read");
    press(&mut screen, "<");
    assert_eq!(screen.page.row().unwrap().name, "parse");
    press(&mut screen, "<");
    assert_eq!(drawn(&mut screen), ["95.0 %", "85.0 %", "10.0 %", "5.0 %"]);
    press(&mut screen, "/none\n");
    assert_eq!(screen.message, "no row has none");

    press(&mut screen, "i");
    assert_eq!(drawn(&mut screen)[0], "60.0 %");
    // Folded stacks have no threads.
    press(&mut screen, "t\n");
    assert_eq!(screen.message, "this row has no name to select by");
    press(&mut screen, "w");
    assert!(screen.message.starts_with("no waits in what is selected"));
    press(&mut screen, "s");
    assert!(
        screen.command().contains("--view threads --sort total"),
        "{}",
        screen.command()
    );

    press(&mut screen, "?");
    assert!(
        lines(&mut screen, 120, 40)
            .iter()
            .any(|line| line.starts_with("Ctrl-Z "))
    );
    press(&mut screen, "\u{1b}Q");
    assert!(
        lines(&mut screen, 80, 24)
            .iter()
            .any(|line| line.starts_with("quality: "))
    );
    press(&mut screen, "\u{1b}");
    let control = |letter| KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL);
    assert_eq!(screen.press(control('z')), AfterKey::Suspend);
    assert_eq!(screen.press(control('c')), AfterKey::Quit);
}

#[test]
fn a_thread_and_a_process_are_shown_alone() {
    let mut screen = screen(&golden("samply-0.13.1.json.gz"));
    press(&mut screen, "t\n");
    assert!(
        screen.command().contains("--thread 2176.1 --view functions"),
        "{}",
        screen.command()
    );
    figures::compare(&mut screen);
    assert_eq!(report(&screen)["selection"]["conditions"][0], "threads 2176.1");
    press(&mut screen, "up\n");
    assert!(
        screen.command().contains("--process 2176.1 --view functions"),
        "{}",
        screen.command()
    );
}

#[test]
fn a_function_is_annotated_in_the_width_of_the_screen() {
    let mut screen = screen(&golden("example.folded"));
    lines(&mut screen, 100, 24);
    press(&mut screen, "a");
    let shown = lines(&mut screen, 100, 24);
    assert!(shown[4].ends_with(" in 100 columns"), "{shown:#?}");
    // The hottest line is on the screen.
    assert!(shown.iter().any(|line| line.starts_with("  69 ")), "{shown:#?}");
    assert!(screen.command().contains("annotate "), "{}", screen.command());
    press(&mut screen, "/");
    assert!(screen.command().contains("annotate "), "{}", screen.command());
    press(&mut screen, "\u{1b}G");
    assert!(lines(&mut screen, 100, 24)[20].ends_with(" in 100 columns"));
    // Its text is searched, as rows are.
    press(&mut screen, "\u{1b}?/TAKES back\n");
    assert_eq!(screen.message, "no line has TAKES back");
    press(&mut screen, "/takes back\n");
    assert!(lines(&mut screen, 100, 24)[4].starts_with("u, Escape"));
    press(&mut screen, "n");
    assert!(lines(&mut screen, 100, 24)[4].starts_with("u, Escape"));
    press(&mut screen, "\u{1b}");
    assert!(screen.command().contains(" report "));
}

#[test]
fn no_line_of_a_text_is_passed_over() {
    let mut screen = screen(&golden("example.folded"));
    lines(&mut screen, 60, 16);
    press(&mut screen, "?");
    let mut seen = Vec::new();
    for _ in 0..HELP.len() {
        let shown = lines(&mut screen, 60, 16);
        seen.extend_from_slice(&shown[4..4 + screen.height]);
        press(&mut screen, " ");
    }
    for (keys, what) in HELP {
        let last = what.split(' ').next_back().unwrap();
        let at = seen.iter().position(|line| line.starts_with(&format!("{keys} ")));
        let rest = &seen[at.unwrap_or_else(|| panic!("{keys}: {seen:#?}"))..];
        assert!(
            rest.iter().take(10).any(|line| line.ends_with(last)),
            "{keys}: {seen:#?}"
        );
    }
    // The last screen is full, and says that nothing follows.
    let shown = lines(&mut screen, 60, 16);
    let below = 4 + screen.height;
    assert!(
        shown[4..below].iter().any(|line| line.starts_with("mouse ")),
        "{shown:#?}"
    );
    assert!(
        shown[4..below].iter().any(|line| line.starts_with("q, Ctrl-C ")),
        "{shown:#?}"
    );
    assert_eq!(shown[below], "Escape: back  /: search");
    press(&mut screen, "g");
    assert_eq!(
        lines(&mut screen, 60, 16)[below],
        "Space: more  Escape: back  /: search"
    );
    // Other texts are one key away.
    press(&mut screen, "Q");
    assert!(lines(&mut screen, 60, 16)[2].starts_with("What was recorded"));
}

#[test]
fn what_a_narrow_screen_lacks_is_said_and_details_are_whole() {
    let folder = tempfile::tempdir().unwrap();
    let mut screen = screen(&files::file("cpu.json.gz", folder.path()));
    press(&mut screen, "\u{8}\u{8}\u{8}");
    let shown = lines(&mut screen, 80, 24);
    assert!(shown[3].ends_with("  \u{2026} Spans"), "{shown:#?}");
    assert!(
        shown[4..]
            .iter()
            .any(|line| line.contains(" open at once") && !line.contains('\u{2026}')),
        "{shown:#?}"
    );
    assert!(lines(&mut screen, 160, 24)[3].ends_with("  Spans"));
    // Bottom-up begins with the functions.
    press(&mut screen, "i");
    let functions = report(&screen)["views"][0]["rows"].as_array().unwrap().len();
    let shown = lines(&mut screen, 80, 24);
    assert!(
        shown[4].starts_with("+ ") && screen.page.lines.len() < functions,
        "{shown:#?}"
    );
    assert!(
        shown[4..4 + screen.page.lines.len()]
            .iter()
            .all(|line| !line.starts_with('-')),
        "{shown:#?}"
    );
    press(&mut screen, "EC");
    assert_eq!(lines(&mut screen, 80, 24), shown);
}

#[test]
fn the_second_line_has_what_limits_the_profile() {
    let mut screen = screen(&golden("example.folded"));
    let about = &mut screen.page.report.about;
    about.short = Some("waited for a CPU".to_owned());
    about.notes.clear();
    let samples = about.samples.clone();
    assert_eq!(
        lines(&mut screen, 200, 24)[1],
        format!("{samples}; short (Q): waited for a CPU")
    );
    screen.page.report.about.quality.limits = Some("2 (1.0 %) truncated".to_owned());
    assert_eq!(
        lines(&mut screen, 200, 24)[1],
        format!("{samples}; quality (Q): 2 (1.0 %) truncated")
    );
    // Text of names without lines says nothing of debug info.
    let text = self::screen(&golden("example.perf-script"));
    let notes = &text.page.report.about.notes;
    assert!(!notes.iter().any(|note| note.contains("debug info")), "{notes:#?}");
    // Folded stacks have no names of threads.
    press(&mut screen, "t");
    assert!(lines(&mut screen, 80, 24)[4].ends_with("  (no name)"));
}

#[test]
fn a_larger_screen_shows_what_is_above() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("deep.folded");
    let calls: Vec<String> = (0..40).map(|call| format!("f{call}")).collect();
    std::fs::write(&file, format!("{} 10\nother 1\n", calls.join(";"))).unwrap();
    let mut screen = screen(&file);
    press(&mut screen, "\tG");
    for keys in ["", "\tjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjj"] {
        press(&mut screen, keys);
        lines(&mut screen, 80, 10);
        assert!(screen.page.top > 30);
        let shown = lines(&mut screen, 80, 60);
        assert_eq!(screen.page.top, 0, "{shown:#?}");
    }
}

#[test]
fn names_of_all_letters_fit_terminals_of_all_sizes() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("\u{1b}[2J.json");
    let hostile = "a\u{1b}[2J\u{9b}2J\u{7}\u{202e}\rb";
    let (wide, long) = ("函数".repeat(40), "x".repeat(300));
    let profile = json!({
        "meta": {"preprocessedProfileVersion": 60, "product": hostile, "arguments": hostile, "startTime": 0,
                 "interval": 1,
                 "symbolicated": true, "categories": [{"name": hostile, "color": "grey", "subcategories": ["Other"]}]},
        "libs": [],
        "shared": {
            "stringArray": ["main", hostile, wide, long],
            "stackTable": {"frame": [0, 1, 2, 3], "prefix": [null, 0, 1, 0], "length": 4},
            "frameTable": {"func": [0, 1, 2, 3], "line": [1, 2, null, 4], "category": [0, 0, 0, 0],
                           "subcategory": [0, 0, 0, 0], "address": [-1, -1, -1, -1], "inlineDepth": [0, 0, 0, 0],
                           "length": 4},
            "funcTable": {"name": [0, 1, 2, 3], "resource": [-1, -1, -1, -1], "source": [null, null, null, null],
                          "length": 4},
            "resourceTable": {"length": 0},
            "sources": {"filename": [], "length": 0},
        },
        "threads": [{"name": hostile, "processName": hostile, "pid": hostile, "tid": hostile, "markers": {"length": 0},
                     "samples": {"length": 6, "stack": [1, 2, 2, 2, 3, 3], "time": [0, 1, 2, 3, 4, 5]}}],
    });
    std::fs::write(&file, profile.to_string()).unwrap();
    let mut screen = screen(&file);
    let shown = lines(&mut screen, 120, 24);
    assert!(
        shown[4].starts_with("  50.0 %") && shown[4].contains("函 数 函"),
        "{shown:#?}"
    );
    for keys in ["", "\t", "E", "i", "g\n", "?", "\u{1b}/函", "\n", "Q", "\u{1b}ft\tr>>>"] {
        press(&mut screen, keys);
        is_tidy(&mut screen);
    }
    while screen.shown.picture != Picture::Flame {
        press(&mut screen, "\u{1b}\t");
    }
    for keys in ["", "j\n"] {
        press(&mut screen, keys);
        is_tidy(&mut screen);
    }
}

/// Checks that terminals of all sizes get letters, in the terminal's own colours but for warnings.
fn is_tidy(screen: &mut BrowseScreen) {
    for (width, height) in [(80, 24), (300, 100), (120, 40), (20, 8), (3, 2), (1, 1), (0, 0)] {
        let depth = match screen.shown.picture {
            Picture::Flame => ColorDepth::None,
            Picture::Rows | Picture::Timeline => ColorDepth::Sixteen,
        };
        for cell in cells(screen, depth, width, height).content() {
            assert!(!cell.symbol().contains(char::is_control), "{:?}", cell.symbol());
            assert!(cell.bg == Color::Reset && [Color::Reset, Color::Yellow].contains(&cell.fg));
        }
    }
}

#[test]
fn every_key_is_documented() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/browse.md")).unwrap();
    for (keys, what) in HELP {
        assert!(page.contains(&format!("| {keys} | {what} |")), "{keys}");
    }
}
