//! Screens as they were found to be right. `SPROF_BLESS=1 cargo test -p sprof browse::` accepts new ones.

use std::fmt::Write as _;
use std::path::Path;

use profile::export::{Picked, PickedTime, pprof};

use super::{golden, lines, press, read};
use crate::args::SelectArgs;
use crate::browse::screen::BrowseScreen;

/// Blocks of valgrind's DHAT: two places, one below the other's caller.
const DHAT: &str = r#"{"dhatFileVersion": 2, "mode": "heap", "verb": "Allocated", "bklt": true, "bkacc": true,
    "tu": "instrs", "Mtu": "Minstr", "tuth": 500, "cmd": "./app", "pid": 7, "te": 9000, "tg": 4000,
    "pps": [{"tb": 6000, "tbk": 60, "tl": 900, "mb": 3000, "mbk": 30, "gb": 3000, "gbk": 30, "eb": 0, "ebk": 0,
             "rb": 100, "wb": 200, "fs": [1, 2]},
            {"tb": 2000, "tbk": 10, "tl": 900, "mb": 1000, "mbk": 5, "gb": 500, "gbk": 5, "eb": 0, "ebk": 0,
             "rb": 100, "wb": 200, "fs": [1, 3, 2]}],
    "ftbl": ["[root]", "0x1: malloc (vg_replace_malloc.c:381)", "0x2: main (app.c:9)", "0x3: grow (app.c:5)"]}"#;

/// Keys, columns, lines.
type KeysAndSize = (&'static str, u16, u16);

/// Files, and what is done with each.
const SCREENS: [(&str, &[KeysAndSize]); 8] = [
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

/// A file of this name: one of the goldens of the reader's tests, or one that is made.
fn file(name: &str, folder: &Path) -> std::path::PathBuf {
    let path = folder.join(name);
    match name {
        "app.dhat.json" => std::fs::write(&path, DHAT).unwrap(),
        "app.pb.gz" => {
            let input = read(&golden("example.perf-script"), &SelectArgs::default(), false);
            let mut bytes = Vec::new();
            pprof::write(&Picked::new(&input.data, PickedTime::Cpu), &mut bytes).unwrap();
            std::fs::write(&path, bytes).unwrap();
        }
        _ => return golden(name),
    }
    path
}

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
                Box::new(|_, _, _, _| Ok(Vec::new())),
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
