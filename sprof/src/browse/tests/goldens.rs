//! Screens as they were found to be right. `SPROF_BLESS=1 cargo test -p sprof browse::` accepts new ones.

use std::fmt::Write as _;
use std::path::Path;

use super::files::file;
use super::{lines, press, read};
use crate::args::SelectArgs;
use crate::browse::screen::BrowseScreen;

/// Keys, columns, lines.
type KeysAndSize = (&'static str, u16, u16);

/// Files, and what is done with each.
const SCREENS: [(&str, &[KeysAndSize]); 12] = [
    (
        "cpu.json.gz",
        &[("t\tr>>>>>", 80, 24), ("\u{8}", 120, 40), ("\u{8}\u{8}\u{8}", 80, 24)],
    ),
    ("waits.json.gz", &[("w", 80, 24), ("t", 80, 24)]),
    ("heap.json.gz", &[("\u{8}", 120, 40)]),
    ("cachegrind.out", &[("", 80, 24), ("\n", 120, 40)]),
    ("example.folded", &[("", 80, 24), ("\t\t", 80, 24), ("\tE", 120, 40)]),
    ("example.callgrind", &[("", 80, 24), ("\n", 120, 40)]),
    ("example.perf-script", &[("\t\t", 80, 24), ("t\t", 120, 40)]),
    ("example.speedscope.json", &[("\tE", 80, 24), ("i", 120, 40)]),
    (
        "firefox-153.json.gz",
        &[("", 80, 24), ("t\tr>>>>>>>>>>", 80, 24), ("\t\tg", 120, 40)],
    ),
    (
        "samply-0.13.1.json.gz",
        &[("\tE", 80, 24), ("t\t", 120, 40), ("\t\t", 120, 40), ("Q", 80, 24)],
    ),
    ("app.pb.gz", &[("", 80, 24), ("\t\t", 120, 40)]),
    ("app.dhat.json", &[("", 80, 24), ("\t\t", 120, 40)]),
];

#[test]
fn screens_are_those_that_were_blessed() {
    let folder = tempfile::tempdir().unwrap();
    let mut differing = Vec::new();
    for (name, screens) in SCREENS {
        let path = file(name, folder.path());
        let mut text = String::new();
        for (keys, width, height) in screens {
            let file = path.clone();
            let mut screen = BrowseScreen::new(
                name.into(),
                SelectArgs::default(),
                Box::new(move |select, has_markers| Ok(read(&file, select, has_markers))),
                Box::new(|_, _, _, _| Ok(Default::default())),
            )
            .unwrap();
            lines(&mut screen, *width, *height);
            for key in keys.chars() {
                press(&mut screen, key.encode_utf8(&mut [0; 4]));
                // Some keys go by cells of the screen.
                lines(&mut screen, *width, *height);
            }
            let shown = lines(&mut screen, *width, *height);
            writeln!(text, "=== keys {keys:?} at {width}x{height}\n{}", shown.join("\n")).unwrap();
        }
        let text = text.replace(env!("CARGO_PKG_VERSION"), "VERSION");
        let blessed = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/golden/browse")
            .join(format!("{name}.txt"));
        if std::env::var_os("SPROF_BLESS").is_some() {
            std::fs::create_dir_all(blessed.parent().unwrap()).unwrap();
            std::fs::write(&blessed, &text).unwrap();
        }
        let expected = std::fs::read_to_string(&blessed).unwrap_or_default();
        if text != expected {
            differing.push(format!("{}:\n{text}", blessed.display()));
        }
    }
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}
