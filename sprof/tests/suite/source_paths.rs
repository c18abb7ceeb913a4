//! Paths of source files in saved profiles, in exports and where sources are read. No recording is needed.

use std::path::{Path, PathBuf};

use crate::support::profile::Profile;
use crate::support::run::output;
use crate::support::{sprof, temp_dir};

const BELOW: &str = "registry/src/index.crates.io-1949cf8c6b5b557f/demo-1.2.3/src/lib.rs";
const SPECIAL: &str = "cargo:index.crates.io-1949cf8c6b5b557f:demo-1.2.3:src/lib.rs";

/// What sprof prints with this home of cargo.
fn printed(cargo_home: &Path, arguments: &[&str]) -> String {
    let output = output(sprof().args(arguments).env("CARGO_HOME", cargo_home));
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// A file of another profiler, made where the home folder was another one.
fn callgrind_file(folder: &Path) -> PathBuf {
    let text = format!(
        "# callgrind format\nevents: Ir\n\nfl=/home/somebody/.cargo/{BELOW}\nfn=demo::hot\n3 900\n\
         fl=/home/somebody/app/src/main.rs\nfn=main\n1 100\n\nsummary: 1000\n"
    );
    let path = folder.join("file.callgrind");
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn saved_profiles_have_paths_that_the_ui_can_show_and_other_tools_get_files_of_this_machine() {
    let dir = temp_dir();
    let (here, nowhere) = (dir.path().join("cargo"), dir.path().join("nowhere"));
    let source = here.join(BELOW);
    std::fs::create_dir_all(source.parent().unwrap()).unwrap();
    std::fs::write(&source, "line one\nfn hot() {\n    work();\n}\n").unwrap();
    let file = callgrind_file(dir.path());
    let saved = dir.path().join("saved.json.gz");
    let (file, saved) = (file.to_str().unwrap(), saved.to_str().unwrap());
    printed(&nowhere, &["load", "-s", "-o", saved, file]);
    let texts = Profile::read(Path::new(saved)).json["shared"]["stringArray"].to_string();
    assert!(texts.contains(SPECIAL), "{texts}");
    assert!(!texts.contains("somebody/.cargo"), "{texts}");

    for file in [file, saved] {
        let lines = printed(&here, &["report", file, "--view", "lines"]);
        assert!(lines.contains(" demo-1.2.3/src/lib.rs:3 "), "{lines}");
        let lines = printed(&here, &["report", file, "--view", "lines", "--format", "json"]);
        assert!(lines.contains(&format!("\"{SPECIAL}\"")), "{lines}");
        let crates = printed(&here, &["report", file, "--view", "crates", "--format", "json"]);
        let expected = r#"{"name":"demo","origin":"crate","self":{"samples":null,"share":0.9,"#;
        assert!(crates.contains(expected), "{crates}");
        let crates = printed(&here, &["report", file, "--view", "crates", "--format", "md"]);
        assert!(crates.contains("| 90.0 | 900 | `demo` | crate |"), "{crates}");
        let source_line = |text: &str| text.lines().any(|line| line.ends_with("3      work();"));
        let text = printed(&here, &["annotate", file, "demo::hot"]);
        assert!(source_line(&text), "{text}");
        for format in ["callgrind", "speedscope"] {
            let text = printed(&here, &["export", file, "--format", format]);
            assert!(text.contains(source.to_str().unwrap()), "{text}");
            let text = printed(&nowhere, &["export", file, "--format", format]);
            assert!(text.contains(BELOW) && !text.contains("somebody/.cargo"), "{text}");
        }
    }
    let compared = printed(&here, &["diff", file, saved, "--by", "lines", "--format", "json"]);
    assert!(compared.contains("\"changes\":[]"), "{compared}");
}
