//! Threads by time, a range by keys, and the mouse.

use ratatui_crossterm::crossterm::event::{KeyModifiers, MouseButton, MouseEvent, MouseEventKind};

use super::{drawn, golden, lines, press, report, screen};
use crate::browse::screen::BrowseScreen;
use crate::browse::shown::Picture;

/// Goes to the timeline.
fn turn_to_timeline(screen: &mut BrowseScreen) {
    while screen.shown.picture != Picture::Timeline {
        press(screen, "\t");
    }
}

fn point(screen: &mut BrowseScreen, kind: MouseEventKind, column: usize, row: usize) {
    screen.point(MouseEvent {
        kind,
        column: u16::try_from(column).unwrap(),
        row: u16::try_from(row).unwrap(),
        modifiers: KeyModifiers::NONE,
    });
}

const DOWN: MouseEventKind = MouseEventKind::Down(MouseButton::Left);

/// Samples of all threads, and of the first, that the report on the screen's command has.
fn samples(screen: &BrowseScreen) -> [u64; 2] {
    let report = report(screen);
    let rows = report["views"][0]["rows"].as_array().unwrap();
    let samples = |row: &serde_json::Value| row["self"]["samples"].as_u64().unwrap();
    [rows.iter().map(samples).sum(), rows.first().map_or(0, samples)]
}

#[test]
fn a_range_of_the_timeline_has_the_samples_of_the_report_in_that_time() {
    for name in ["samply-0.13.1.json.gz", "firefox-153.json.gz"] {
        let mut screen = screen(&golden(name));
        turn_to_timeline(&mut screen);
        let all = samples(&screen);
        lines(&mut screen, 80, 24);
        let chosen = |screen: &BrowseScreen| screen.page.strips.as_ref().unwrap().costs(0).map(|cost| cost.samples);
        // All cells together are all samples.
        press(&mut screen, "r");
        for _ in 0..100 {
            press(&mut screen, ">");
        }
        assert_eq!(chosen(&screen), all, "{name}");
        press(&mut screen, "\n");
        assert_eq!(screen.message, "this is all of the time");

        // A part in the middle, and a part of that.
        for keys in ["<<<<<<<<<<r<<<<<<<<<<<<<<<<<<<<", "<<r<<<<<<<<"] {
            press(&mut screen, keys);
            let before = chosen(&screen);
            let first = screen.page.row().map(|row| row.place.clone());
            press(&mut screen, "\n");
            assert!(screen.command().contains("--view threads"), "{}", screen.command());
            let after = samples(&screen);
            assert!(screen.command().contains("--time-range"), "{}", screen.command());
            assert_eq!(after[0], before[0], "{name}: {}", screen.command());
            if screen.page.report.tables[0].rows.first().map(|row| row.place.clone()) == first {
                assert_eq!(after, before, "{name}: {}", screen.command());
            }
            lines(&mut screen, 80, 24);
            press(&mut screen, ">>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>");
        }
        press(&mut screen, "uu");
        assert_eq!(samples(&screen), all);
    }
}

#[test]
fn strips_show_when_threads_ran() {
    let mut screen = screen(&golden("samply-0.13.1.json.gz"));
    turn_to_timeline(&mut screen);
    let shown = lines(&mut screen, 80, 24);
    assert!(shown[3].starts_with("0 s to "), "{shown:#?}");
    assert!(shown[4].contains(" s ") && shown[4].ends_with('v'), "{shown:#?}");
    assert!(shown[5].contains("all") && shown[5].contains('\u{2588}'), "{shown:#?}");
    assert!(shown[6].trim_start().contains(" % "), "{shown:#?}");
    press(&mut screen, "r>>>");
    let chosen = lines(&mut screen, 80, 24)[3..5].to_vec();
    assert!(chosen[1].ends_with(" ===="), "{chosen:#?}");
    // Reading the file again keeps the time, and so does another width.
    press(&mut screen, "R");
    lines(&mut screen, 120, 24);
    assert_eq!(lines(&mut screen, 80, 24)[3..5], chosen);
    press(&mut screen, "\u{1b}");
    assert!(lines(&mut screen, 80, 24)[4].contains('v'));
    // Folded stacks have no times.
    assert!(
        !super::screen(&golden("example.folded"))
            .tabs()
            .iter()
            .any(|tab| tab.picture == Picture::Timeline)
    );
}

#[test]
fn the_mouse_chooses_rows_views_frames_and_times() {
    let mut screen = screen(&golden("samply-0.13.1.json.gz"));
    let shown = lines(&mut screen, 120, 40);
    point(&mut screen, DOWN, 20, 6);
    assert_eq!(screen.page.cursor, 2);
    point(&mut screen, MouseEventKind::ScrollDown, 20, 6);
    assert_eq!(screen.page.cursor, 3);
    point(&mut screen, MouseEventKind::ScrollUp, 20, 6);
    // Nothing is there.
    point(&mut screen, DOWN, 119, 39);
    assert_eq!(screen.page.cursor, 2);
    point(&mut screen, DOWN, 20, 6);
    assert!(screen.command().contains("callers="), "{}", screen.command());
    press(&mut screen, "u");

    point(&mut screen, DOWN, shown[2].find("flame").unwrap() + 1, 2);
    assert!(screen.page.flame.is_some());
    lines(&mut screen, 120, 40);
    let area = screen.areas.iter().rfind(|area| area.y > 8).unwrap().clone();
    point(&mut screen, DOWN, area.columns.start, area.y);
    let name = screen.page.row().unwrap().name.clone();
    assert!(lines(&mut screen, 120, 40)[3].contains(&name));
    point(&mut screen, DOWN, area.columns.start, area.y);
    assert!(screen.page.is_zoomed_here());

    turn_to_timeline(&mut screen);
    let shown = lines(&mut screen, 120, 40);
    let start = shown[4].find('v').unwrap();
    point(&mut screen, DOWN, start + 10, 6);
    point(&mut screen, MouseEventKind::Drag(MouseButton::Left), start + 20, 6);
    point(&mut screen, MouseEventKind::Up(MouseButton::Left), start + 30, 6);
    assert!(screen.command().contains("--time-range"), "{}", screen.command());
    assert!(!drawn(&mut screen).is_empty());
    let before = screen.command();
    lines(&mut screen, 120, 40);
    point(&mut screen, DOWN, start + 10, 6);
    point(&mut screen, MouseEventKind::Up(MouseButton::Left), start + 10, 6);
    assert_eq!(screen.command(), before);
}
