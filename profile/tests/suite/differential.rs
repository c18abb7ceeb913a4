//! The flame graph of what changed: widths, colours and words against counts that are known.

use std::collections::BTreeMap;

use profile::data::Data;
use profile::export::svg::{SvgOptions, TreeShape, differential};
use profile::export::{Picked, PickedTime};
use profile::read::{self, ReadLimits};
use profile::view::diff::DiffLimits;

pub(crate) fn folded(lines: &str) -> Data {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), lines).unwrap();
    read::foreign(file.path(), read::ForeignFormat::Folded, None, ReadLimits::default())
        .unwrap()
        .data
}

/// What is drawn of a frame.
#[derive(Debug, PartialEq)]
struct Drawn {
    words: String,
    /// Percent of the picture.
    width: f64,
    /// `red`, `blue`, `yellow`, `grey`, and how dark: 0 to 255.
    color: (&'static str, u8),
}

/// All frames by name; of several the first, which in a walk from the root comes before [gone].
fn drawn(svg: &str) -> BTreeMap<String, Drawn> {
    let mut frames = BTreeMap::new();
    for line in svg.lines().filter(|line| line.starts_with("<g")) {
        let after = |text: &str, start: &str, end: &str| -> Option<String> {
            Some(text.split_once(start)?.1.split_once(end)?.0.to_owned())
        };
        let Some(title) = after(line, "<title>", "</title>") else {
            continue;
        };
        let (name, words) = title.split_once(" (").unwrap();
        let fill = after(line, "fill=\"#", "\"").unwrap();
        let channel = |at: usize| u8::from_str_radix(&fill[at..at + 2], 16).unwrap();
        let (red, blue) = (channel(0), channel(4));
        let green = channel(2);
        let hue = match red.abs_diff(blue) {
            0..20 => "grey",
            _ if green > blue.saturating_add(30) && red < green.saturating_add(20) => "yellow",
            _ if red > blue => "red",
            _ => "blue",
        };
        let drawn = Drawn {
            words: words.trim_end_matches(')').to_owned(),
            width: after(line, " width=\"", "%").unwrap().parse().unwrap(),
            color: (hue, 255 - red.min(blue)),
        };
        frames.entry(name.to_owned()).or_insert(drawn);
    }
    frames
}

fn picture(base: &[Data], new: &[Data], options: &SvgOptions) -> String {
    let pick = |side: &[Data]| -> Vec<Picked<'static>> {
        (side.iter())
            .map(|data| Picked::new(Box::leak(Box::new(data.clone())), PickedTime::Cpu))
            .collect()
    };
    let mut svg = Vec::new();
    differential::write(&pick(base), &pick(new), options, DiffLimits::default(), &mut svg).unwrap();
    String::from_utf8(svg).unwrap()
}

fn is_near(a: f64, b: f64) -> bool {
    (a - b).abs() < 0.001
}

#[test]
fn widths_are_those_of_after_and_what_is_gone_stands_beside_them() {
    let base = folded("app;main;parse;token 2000\napp;main;parse 1000\napp;main;old 1000\napp;main;rest 6000\n");
    let new = folded("app;main;parse;token 4000\napp;main;parse 1000\napp;main;new 1000\napp;main;rest 6000\n");
    let svg = picture(&[base], &[new], &SvgOptions::default());
    let frames = drawn(&svg);
    // 12,000 samples after, and 1,000 of 10,000 before that would be 1,200 of these.
    let width = |part: f64| 100.0 * part / 13_200.0;
    for (name, weight, hue) in [
        ("main", 12_000.0, "grey"),
        ("parse", 5_000.0, "red"),
        ("token", 4_000.0, "red"),
        ("new", 1_000.0, "red"),
        ("rest", 6_000.0, "blue"),
        ("[gone]", 1_200.0, "grey"),
        ("old", 1_200.0, "blue"),
    ] {
        let frame = &frames[name];
        assert!(is_near(frame.width, width(weight)), "{name}: {frame:?}");
        assert_eq!(frame.color.0, hue, "{name}: {frame:?}");
    }
    // 20 % to 33.33 % of all, and 2000 to 4000 samples of the sampling interval.
    let token = &frames["token"].words;
    assert!(
        token.starts_with("33.33 %, was 20.00 %; changed for sure: +13.33 points, with 95 % confidence +1"),
        "{token}"
    );
    assert!(
        frames["new"].words.starts_with("new: 8.33 %, was 0.00 %"),
        "{:?}",
        frames["new"]
    );
    assert!(
        frames["old"].words.starts_with("gone: 0.00 %, was 10.00 %"),
        "{:?}",
        frames["old"]
    );
    assert_eq!(frames["[gone]"].words, "what is gone of it had 10.00 % of before");
    assert!(svg.contains("call paths that are gone had 10.00 % of before"), "{svg}");
    // `rest` takes the same time as before: its share is smaller because of the others. It is pale, and says so.
    assert!(
        frames["rest"]
            .words
            .contains("the share changed for sure, the time maybe not: -"),
        "{:?}",
        frames["rest"]
    );
    assert!(frames["rest"].color.1 + 40 < frames["old"].color.1, "{frames:?}");
}

#[test]
fn the_same_shares_of_more_samples_are_no_change_as_far_as_the_samples_show() {
    let base = folded("app;main;a 3000\napp;main;b 1000\n");
    let new = folded("app;main;a 9000\napp;main;b 3000\n");
    let frames = drawn(&picture(&[base], &[new], &SvgOptions::default()));
    for (name, color, words) in [
        (
            "main",
            "grey",
            "100.00 %, was 100.00 %; no change of 0.5 points or more: +0.00 points, with 95 % confidence ",
        ),
        // 4,000 and 12,000 samples don't show half a point.
        (
            "a",
            "yellow",
            "75.00 %, was 75.00 %; may be chance: +0.00 points, with 95 % confidence -",
        ),
        (
            "b",
            "yellow",
            "25.00 %, was 25.00 %; may be chance: +0.00 points, with 95 % confidence -",
        ),
    ] {
        assert_eq!(frames[name].color.0, color, "{frames:?}");
        assert!(frames[name].words.starts_with(words), "{frames:?}");
    }
    assert!(!frames.contains_key("[gone]"), "{frames:?}");
}

#[test]
fn a_change_that_may_be_chance_has_a_colour_of_its_own_and_says_so() {
    // 60 of 200 and 72 of 200 differ by 6 points, which 200 coins do one time in five.
    let base = folded("app;main;a 60\napp;main;b 140\n");
    let new = folded("app;main;a 72\napp;main;b 128\n");
    let frames = drawn(&picture(&[base], &[new], &SvgOptions::default()));
    assert_eq!(frames["a"].color.0, "yellow");
    let words = &frames["a"].words;
    assert!(
        words.contains("; may be chance: +6.00 points, with 95 % confidence -"),
        "{words}"
    );
}

#[test]
fn a_program_of_another_name_is_the_same_program() {
    let [base, new] = ["app-1", "app-2"].map(|process| {
        let mut data = folded("main;a 300\n");
        data.threads[0].process_name = process.into();
        data
    });
    let frames = drawn(&picture(&[base], &[new], &SvgOptions::default()));
    assert!(
        frames.contains_key("app-2") && !frames.contains_key("[gone]"),
        "{frames:?}"
    );
}

#[test]
fn several_recordings_a_side_are_added_up() {
    let base = [
        folded("p;main;a 300\np;main;b 100\n"),
        folded("p;main;a 500\np;main;b 100\n"),
    ];
    let new = [folded("p;main;a 200\np;main;b 300\n")];
    let frames = drawn(&picture(&base, &new, &SvgOptions::default()));
    assert!(frames["b"].words.starts_with("60.00 %, was 20.00 %"), "{frames:?}");
}

#[test]
fn from_the_leaf_it_shows_who_called_what_changed() {
    let base = folded("p;main;a;hot 300\np;main;b;hot 300\n");
    let new = folded("p;main;a;hot 600\np;main;b;hot 300\n");
    let options = SvgOptions {
        shape: TreeShape::Reverse,
        ..SvgOptions::default()
    };
    let frames = drawn(&picture(
        std::slice::from_ref(&base),
        std::slice::from_ref(&new),
        &options,
    ));
    assert!(
        is_near(frames["hot"].width, 100.0) && frames["hot"].color.0 == "grey",
        "{frames:?}"
    );
    assert_eq!(
        (frames["a"].color.0, frames["b"].color.0),
        ("red", "blue"),
        "{frames:?}"
    );
    let options = SvgOptions {
        shape: TreeShape::TimeOrder,
        ..options
    };
    let (base, new) = (
        [Picked::new(&base, PickedTime::Cpu)],
        [Picked::new(&new, PickedTime::Cpu)],
    );
    let error = differential::write(&base, &new, &options, DiffLimits::default(), Vec::new()).unwrap_err();
    assert!(error.to_string().contains("time order"), "{error}");
}

#[test]
fn what_counts_different_things_is_not_compared() {
    let samples = folded("p;main 300\n");
    let mut bytes = samples.clone();
    bytes.unit = profile::data::WeightUnit::Bytes;
    let (base, new) = (
        [Picked::new(&samples, PickedTime::Cpu)],
        [Picked::new(&bytes, PickedTime::Cpu)],
    );
    let error =
        differential::write(&base, &new, &SvgOptions::default(), DiffLimits::default(), Vec::new()).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("some of the profiles count samples, others bytes"),
        "{error}"
    );
}
