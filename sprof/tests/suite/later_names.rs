//! Names, files, lines and inlined functions of saved profiles whose debug files came later.
#![cfg(target_os = "linux")]

use std::path::{Path, PathBuf};
use std::process::Output;

use crate::support::profile::Profile;
use crate::support::run::{output, record, sprof};
use crate::support::skip::perf_events;
use crate::support::{program, temp_dir};
use crate::symbols::{Separate, assert_inline_frames};

fn run(words: &[&str]) -> Output {
    let mut command = sprof();
    output(command.args(words))
}

/// What a command prints; it ends with status 0.
fn printed(words: &[&str]) -> String {
    let output = run(words);
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A stripped program, its profile, and the folder of its debug file.
fn recorded(options: &[&str]) -> (Separate, crate::support::run::Recording, String) {
    let separate = Separate::of(&program("inline_dwarf5").unwrap());
    let (recording, profile) = record().options(options).profile(&separate.program, &["1000"]);
    assert_eq!(profile.share_of("innermost").hits, 0, "{}", profile.summary());
    let folder = text(separate.debug.parent().unwrap()).to_owned();
    (separate, recording, folder)
}

#[test]
fn every_command_that_reads_a_profile_takes_names_from_a_folder() {
    let Some(()) = perf_events() else { return };
    for options in [&[][..], &["--no-symbolicate"]] {
        let (separate, recording, folder) = recorded(options);
        if options.is_empty() {
            // The advice is what is done below.
            assert!(recording.stderr.contains("has no names"), "{}", recording.stderr);
            assert!(recording.stderr.contains("--symbol-dir"), "{}", recording.stderr);
        }
        let file = text(&recording.output);
        let out = temp_dir();
        let written = |name: &str| out.path().join(name);
        let with = |words: &[&str]| printed(&[words, &["--symbol-dir", &folder]].concat());

        for words in [
            &["report", file][..],
            &["annotate", file, "innermost"],
            &["export", "-f", "folded", file],
        ] {
            let without = run(words);
            let without = String::from_utf8_lossy(&without.stdout).into_owned();
            assert!(!without.contains("not_inlined"), "{words:?}: {without}");
        }
        assert!(with(&["report", file]).contains("innermost"));
        let annotated = with(&["annotate", file, "innermost"]);
        assert!(annotated.contains("x ^= x << 13"), "{annotated}");
        let folded = with(&["export", "-f", "folded", file]);
        assert!(folded.contains("main;not_inlined;middle;innermost "), "{folded}");
        let page = written("page.html");
        with(&["export", "-f", "html", "-o", text(&page), file]);
        let picture = written("flamegraph.svg");
        with(&["flamegraph", "-o", text(&picture), file]);
        assert!(std::fs::read_to_string(&picture).unwrap().contains("not_inlined"));
        let picture = written("diff.svg");
        with(&["diff", "--flamegraph", text(&picture), file, file]);
        assert!(std::fs::read_to_string(&picture).unwrap().contains("not_inlined"));

        let check = ["check", file, "--base", file, "--max-increase", "not_inlined=50%"];
        assert_eq!(run(&check).status.code(), Some(3), "no function has this name");
        with(&check);

        let whole = |path: PathBuf| {
            let profile = Profile::read(&path);
            assert_inline_frames(&profile);
            assert_eq!(profile.sample_count(), Profile::read(&recording.output).sample_count());
            path
        };
        let copy = written("export.json.gz");
        with(&["export", "-f", "firefox", "-o", text(&copy), file]);
        whole(copy);
        let merged = written("merged.json.gz");
        with(&["merge", "-o", text(&merged), file, file]);
        assert_inline_frames(&Profile::read(&merged));
        let saved = written("saved.json.gz");
        with(&["load", "-s", "-o", text(&saved), file]);
        let saved = whole(saved);

        // It has them for good: also where the debug file is gone.
        drop(separate);
        assert!(printed(&["report", text(&saved)]).contains("innermost"));
        let again = written("again.json.gz");
        printed(&["export", "-f", "firefox", "-o", text(&again), text(&saved)]);
        assert_eq!(std::fs::read(&again).unwrap(), std::fs::read(&saved).unwrap());
    }
}

/// As a package of debug symbols that is installed after the recording.
#[test]
fn a_debug_file_that_is_installed_later_needs_no_option() {
    let Some(()) = perf_events() else { return };
    let (separate, recording, _) = recorded(&[]);
    let file = text(&recording.output);
    let functions = |text: &str| text.matches("not_inlined").count();
    assert_eq!(functions(&printed(&["report", file])), 0);
    std::fs::copy(&separate.debug, separate.program.with_file_name("app.debug")).unwrap();
    assert!(functions(&printed(&["report", file])) > 0);
    let saved = recording.output.with_file_name("saved.json.gz");
    printed(&["load", "-s", "-o", text(&saved), file]);
    assert_inline_frames(&Profile::read(&saved));
}

#[test]
fn a_file_of_another_build_gives_no_names() {
    let Some(()) = perf_events() else { return };
    let (separate, recording, folder) = recorded(&[]);
    let file = text(&recording.output);
    let before = printed(&["export", "-f", "folded", file]);
    let other = Separate::of(&program("inline_dwarf4").unwrap());
    std::fs::copy(&other.debug, &separate.debug).unwrap();
    let symbols = ["--symbol-dir", &folder];
    assert_eq!(
        printed(&[&["export", "-f", "folded", file], &symbols[..]].concat()),
        before
    );
    let saved = recording.output.with_file_name("saved.json.gz");
    let output = run(&[&["load", "-s", "-o", text(&saved), file], &symbols[..]].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("no more names"), "{said}");
    assert_eq!(printed(&["export", "-f", "folded", text(&saved)]), before);
}

/// A debug file without DWARF has the names of functions alone: what the profile has already stays.
#[test]
fn names_that_are_better_than_those_of_a_file_stay() {
    let Some(()) = perf_events() else { return };
    let separate = Separate::of(&program("inline_dwarf5").unwrap());
    let folder = text(separate.debug.parent().unwrap()).to_owned();
    let (recording, _) = record()
        .options(&["--symbol-dir", &folder])
        .profile(&separate.program, &["1000"]);
    let file = text(&recording.output);
    let folded = |options: &[&str]| printed(&[&["export", "-f", "folded", file], options].concat());
    let before = folded(&[]);
    assert!(before.contains("main;not_inlined;middle;innermost "), "{before}");
    assert_eq!(folded(&["--symbol-dir", &folder]), before, "from the same file");
    let mut strip = std::process::Command::new("objcopy");
    assert!(
        strip
            .arg("--strip-debug")
            .arg(&separate.debug)
            .status()
            .unwrap()
            .success()
    );
    assert_eq!(folded(&["--symbol-dir", &folder]), before);
}

/// Of profiles without a code id, the breakpad id identifies files: as samply and Firefox write them.
#[test]
fn a_profile_of_another_program_has_names_by_its_breakpad_id() {
    let Some(()) = perf_events() else { return };
    let (separate, recording, folder) = recorded(&[]);
    let mut json = Profile::read(&recording.output).json;
    json["meta"].as_object_mut().unwrap().remove("sprof");
    for lib in json["libs"].as_array_mut().unwrap() {
        let lib = lib.as_object_mut().unwrap();
        lib.remove("symbolSource");
        lib["codeId"] = serde_json::Value::Null;
    }
    let file = recording.output.with_file_name("foreign.json");
    std::fs::write(&file, json.to_string()).unwrap();
    let folded = || printed(&["export", "-f", "folded", text(&file), "--symbol-dir", &folder]);
    assert!(folded().contains("main;not_inlined;middle;innermost "));
    // The program is gone, and its debug file lies as a package has it.
    std::fs::remove_file(&separate.program).unwrap();
    let id = json["libs"]
        .as_array()
        .unwrap()
        .iter()
        .find(|lib| lib["name"] == "app")
        .unwrap()["breakpadId"]
        .clone();
    let id = id.as_str().unwrap().to_lowercase();
    let build_id = crate::support::programs::build_id_of(&separate.debug);
    assert_eq!(id[6..8], build_id[..2]);
    let of_id = Path::new(&folder).join(".build-id").join(&build_id[..2]);
    std::fs::create_dir_all(&of_id).unwrap();
    std::fs::rename(&separate.debug, of_id.join(format!("{}.debug", &build_id[2..]))).unwrap();
    assert!(folded().contains("main;not_inlined;middle;innermost "));
}

/// Parts of debug info that were elsewhere: names of inlined functions. Lines are in the program itself.
#[test]
fn split_debug_info_that_is_found_later_adds_inlined_functions() {
    let Some(()) = perf_events() else { return };
    let dir = temp_dir();
    let (app, parts) = (dir.path().join("app"), dir.path().join("parts"));
    std::fs::create_dir(&parts).unwrap();
    let programs = crate::support::tests_dir().join("programs");
    let mut cc = std::process::Command::new("cc");
    cc.args(["-O2", "-g", "-gsplit-dwarf", "-Wl,--build-id", "-o"])
        .args([&app, &programs.join("inline.c")])
        .current_dir(dir.path());
    assert!(cc.status().unwrap().success());
    for entry in std::fs::read_dir(dir.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|end| end == "dwo") {
            std::fs::rename(&path, parts.join(path.file_name().unwrap())).unwrap();
        }
    }
    let (recording, _) = record().profile(&app, &["300"]);
    let file = text(&recording.output);
    let folded = |options: &[&str]| printed(&[&["export", "-f", "folded", file], options].concat());
    let inlined = ";not_inlined;middle;innermost ";
    assert!(!folded(&[]).contains(inlined));
    let later = folded(&["--symbol-dir", text(&parts)]);
    assert!(later.contains(inlined), "{later}");
}
