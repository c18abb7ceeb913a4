//! Flame graphs in cells.

use ratatui_core::style::{Color, Modifier, Style};

use super::{cells, golden, lines, press, screen};
use crate::browse::colors::ColorDepth;

#[test]
fn a_frame_is_as_wide_as_its_share_and_zooms() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.folded");
    std::fs::write(
        &file,
        "main;parse;read 600\nmain;parse;skip 150\nmain;write 199\nmain;write;tiny 1\nidle 50\n",
    )
    .unwrap();
    let mut screen = screen(&file);
    press(&mut screen, "\t\t");
    let shown = lines(&mut screen, 60, 14);
    assert_eq!(
        shown[2..8],
        [
            "functions tree flame bottom-up lines threads processes …",
            "95.0 % total  950 samples  - self  main",
            "|main----------------------------------------------------|i…",
            "|parse---------------------------------------|write------",
            "|read-------------------------------|skip----",
            "",
        ]
    );
    assert!(screen.command().ends_with("--view tree --min-percent 0.1 --limit 0"));

    // Down to the largest, beside it, and the whole width, with what was too small.
    press(&mut screen, "j>");
    assert!(lines(&mut screen, 60, 14)[3].starts_with("20.0 % total  200 samples  19.9 % self  write"));
    press(&mut screen, "\n");
    assert_eq!(
        lines(&mut screen, 60, 14)[4..7],
        [
            format!("|main{}", "-".repeat(55)),
            format!("|write{}", "-".repeat(54)),
            String::new(),
        ]
    );
    assert!(screen.command().contains("--min-percent 0.02 "), "{}", screen.command());
    assert_eq!(screen.page.row().unwrap().name, "write");
    press(&mut screen, "/tiny\n");
    assert!(lines(&mut screen, 60, 14)[3].starts_with("0.1 % total  1 sample"));
    press(&mut screen, "\n");
    assert!(lines(&mut screen, 60, 14)[6].starts_with("|tiny---"));
    press(&mut screen, "\nk\ng");
    assert_eq!(lines(&mut screen, 60, 14), shown);

    // The other way round, and back to rows.
    press(&mut screen, "i");
    assert!(lines(&mut screen, 60, 14)[4].starts_with("|read------"));
    press(&mut screen, "ij\u{1b}\t");
    assert!(screen.command().contains("--view bottom-up"));
}

#[test]
fn frames_have_the_colours_that_the_terminal_has() {
    let mut screen = screen(&golden("samply-0.13.1.json.gz"));
    press(&mut screen, "\t\tg");
    let mut backgrounds = |depth| {
        let cells = cells(&mut screen, depth, 120, 40);
        let frames: Vec<Style> = (5..30).map(|y| cells[(0, y)].style()).collect();
        frames
    };
    let is_own = |style: &Style| style.bg == Some(Color::Reset);
    assert!(backgrounds(ColorDepth::None).iter().all(is_own));
    let has =
        |styles: &[Style], is: fn(&Color) -> bool| styles.iter().any(|style| style.bg.is_some_and(|color| is(&color)));
    assert!(has(&backgrounds(ColorDepth::Sixteen), |color| !matches!(
        color,
        Color::Reset | Color::Indexed(_) | Color::Rgb(..)
    )));
    assert!(has(&backgrounds(ColorDepth::Palette), |color| matches!(
        color,
        Color::Indexed(16..=231)
    )));
    assert!(has(&backgrounds(ColorDepth::True), |color| matches!(
        color,
        Color::Rgb(..)
    )));
    // The chosen frame is reversed in all of them.
    let chosen = cells(&mut screen, ColorDepth::True, 120, 40)[(0, 4)].modifier;
    assert!(chosen.contains(Modifier::REVERSED));

    let of = |color, term, colorterm| ColorDepth::of_terminal(color, term, colorterm);
    assert_eq!(of(true, "xterm-256color", "truecolor"), ColorDepth::True);
    assert_eq!(of(true, "screen-256color", ""), ColorDepth::Palette);
    assert_eq!(of(true, "linux", ""), ColorDepth::Sixteen);
    assert_eq!(of(false, "xterm-256color", "truecolor"), ColorDepth::None);
}
