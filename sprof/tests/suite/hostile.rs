//! What other users can do: names that they chose reach no terminal as escape sequences, links that they made are not
//! followed, files are neither read by them nor lost.
#![cfg(target_os = "linux")]

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use crate::support;
use crate::support::playground::NOBODY;
use crate::support::skip::{is_root, paranoid, perf_events, root};
use crate::support::{program, sprof, temp_dir, wait_until};
use serde_json::json;

/// Sets the window's title (OSC 0), clears the screen (CSI 2 J, also as a C1 control), goes back to the start of the
/// line, and pretends to be a line of sprof; the text after it is written from right to left.
const HOSTILE: &str = "x\u{1b}]0;t\u{7}\u{1b}[2J\u{9b}2J\rsprof: a\nsprof: fake\u{202e}y";

/// The same in a name of at most 15 bytes (`TASK_COMM_LEN`, include/linux/sched.h).
const HOSTILE_COMM: &str = "\u{1b}[2J\u{9b}J\nsprof:\u{7}";

fn is_obeyed(c: char) -> bool {
    (c.is_control() && c != '\n' && c != '\t') || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Takes away what sprof may print: its own styles, and the progress line's end.
fn without_own_styles(text: &str) -> String {
    let own = ["0", "1", "2", "33", "1;31", "36"].map(|style| format!("\u{1b}[{style}m"));
    own.iter()
        .fold(text.to_owned(), |text, style| text.replace(style.as_str(), ""))
}

fn assert_harmless(output: &Output, what: &str) {
    for stream in [&output.stdout, &output.stderr] {
        let text = String::from_utf8(stream.clone()).unwrap_or_else(|error| panic!("{what}: {error}"));
        let text = without_own_styles(&text);
        if let Some(at) = text.find(is_obeyed) {
            let start = text[..at].char_indices().rev().nth(60).map_or(0, |(at, _)| at);
            panic!("{what}: {:?}", &text[start..].chars().take(120).collect::<String>());
        }
        let fake = text.lines().find(|line| line.starts_with("sprof: fake"));
        assert_eq!(fake, None, "{what}");
    }
    assert!(!String::from_utf8_lossy(&output.stderr).contains("panicked"), "{what}");
}

/// Runs sprof with these words, in colour and without.
fn run(words: &[&OsStr]) -> Output {
    let what = format!("{words:?}");
    // Where `share` keeps keys.
    let tried = || {
        let mut command = sprof();
        command.args(words).env("XDG_DATA_HOME", env!("CARGO_TARGET_TMPDIR"));
        command
    };
    let coloured = tried().env("CLICOLOR_FORCE", "1").output().unwrap();
    assert_harmless(&coloured, &what);
    let plain = tried().output().unwrap();
    assert_harmless(&plain, &what);
    plain
}

fn words<'a>(words: &[&'a str]) -> Vec<&'a OsStr> {
    words.iter().copied().map(OsStr::new).collect()
}

/// A saved profile with the hostile name wherever a name can be, and a hostile name of its own.
fn saved(dir: &Path, number: u32) -> PathBuf {
    let name = HOSTILE;
    let profile = json!({
        "meta": {"preprocessedProfileVersion": 60, "product": name, "arguments": name, "importedFrom": name, "oscpu": name,
                 "abi": name, "startTime": 0, "interval": 1, "symbolicated": true,
                 "extra": [{"label": name, "entries": [{"label": name, "format": "string", "value": name}]}],
                 "categories": [{"name": name, "color": "grey", "subcategories": ["Other", name]}]},
        "libs": [{"name": name, "path": format!("/lib/{name}"), "debugName": name, "debugPath": format!("/lib/{name}"),
                  "breakpadId": "0".repeat(33), "arch": name}],
        "shared": {
            "stringArray": ["main", name, format!("{name}2"), "/src/main.c"],
            "stackTable": {"frame": [0, 1, 2], "prefix": [null, 0, 1], "length": 3},
            "frameTable": {"func": [0, 1, 2], "line": [1, 2, null], "category": [0, 0, 0], "subcategory": [0, 1, 1], "address": [-1, 16, 32],
                           "inlineDepth": [0, 0, 0], "length": 3},
            "funcTable": {"name": [0, 1, 2], "resource": [0, 0, 0], "source": [0, 1, null], "length": 3},
            "resourceTable": {"lib": [0], "name": [1], "host": [null], "type": [1], "length": 1},
            "sources": {"filename": [3, 1], "length": 2},
        },
        "threads": [{"name": name, "processName": name, "pid": name, "tid": name, "markers": {"length": 0},
                     "samples": {"length": 300, "stack": (0..300).map(|at| (at + number) % 3).collect::<Vec<_>>(),
                                 "time": (0..300).collect::<Vec<_>>()}}],
    });
    let path = dir.join(format!("{number}{HOSTILE}.json"));
    fs::write(&path, profile.to_string()).unwrap();
    path
}

#[test]
fn every_command_that_reads_files_prints_names_as_text() {
    let dir = temp_dir();
    let (base, new) = (saved(dir.path(), 0), saved(dir.path(), 1));
    let (base, new) = (base.as_os_str(), new.as_os_str());
    let folded = dir.path().join(format!("{HOSTILE}.folded"));
    fs::write(&folded, "a\u{1b}[2J;b\u{9b}2J\u{7}\rx 12\na\u{1b}[2J 9\n").unwrap();
    let garbage = dir.path().join(format!("{HOSTILE}.bin"));
    fs::write(
        &garbage,
        format!("{{\"meta\": {{\"{HOSTILE}\": 1}}, \"threads\": \"{HOSTILE}\""),
    )
    .unwrap();
    let out = dir.path().join(format!("{HOSTILE}.out"));
    let mut shown = 0;
    let views = [
        "summary",
        "functions",
        "tree",
        "bottom-up",
        "threads",
        "processes",
        "crates",
        "categories",
        "lines",
        "libraries",
    ];
    // What is no profile is refused before the view matters.
    for (file, views) in [
        (base, &views[..]),
        (folded.as_os_str(), &views[..]),
        (garbage.as_os_str(), &views[..1]),
        (OsStr::new(HOSTILE), &views[..1]),
    ] {
        for &view in views {
            for format in ["text", "md", "json"] {
                let output = run(&[
                    &[OsStr::new("report"), file],
                    &words(&["--view", view, "--format", format])[..],
                ]
                .concat());
                shown += usize::from(String::from_utf8_lossy(&output.stdout).contains("u001b"));
            }
        }
        for format in ["folded", "perf-script", "callgrind", "speedscope", "svg"] {
            run(&[&[OsStr::new("export"), file], &words(&["--format", format])[..]].concat());
        }
        for options in [&["--format", "pprof", "-o"], &["--format", "svg", "-o"]] {
            run(&[&[OsStr::new("export"), file], &words(options)[..], &[out.as_os_str()]].concat());
        }
        run(&[
            &[OsStr::new("flamegraph"), file, OsStr::new("-o")],
            &[out.as_os_str()][..],
        ]
        .concat());
        for format in ["text", "md", "json"] {
            run(&[&words(&["diff", "--format", format])[..], &[file, new]].concat());
        }
        for format in ["text", "md", "junit"] {
            let rules = words(&["--format", format, "--max-increase", "*=1%", "--base"]);
            run(&[&[OsStr::new("check")], &rules[..], &[file, new]].concat());
        }
        // Without a terminal it names what prints. Its screen has a test of its own, with such names.
        run(&[OsStr::new("browse"), file]);
        run(&[&[OsStr::new("annotate"), file], &words(&["x*"])[..]].concat());
        run(&[&[OsStr::new("annotate"), file], &[OsStr::new(HOSTILE)][..]].concat());
        run(&[&words(&["load", "--save-only", "-o"])[..], &[out.as_os_str(), file]].concat());
        run(&[&words(&["merge", "-o"])[..], &[out.as_os_str(), file, new]].concat());
        // A file, or nothing: a folder would be served.
        run(&[OsStr::new("serve"), file]);
        // Nobody listens there: what would be sent is described before.
        run(&[&words(&["push", "--to", "otlp=http://127.0.0.1:1"])[..], &[file]].concat());
    }
    run(&[
        &words(&[
            "share",
            "--yes",
            "--ui-url",
            "http://127.0.0.1:1",
            "--server",
            "http://127.0.0.1:1",
        ])[..],
        &[base],
    ]
    .concat());
    for format in ["text", "md", "json"] {
        run(&[
            &words(&["stat", "--format", format, "true"])[..],
            &[OsStr::new(HOSTILE)],
        ]
        .concat());
        let against = format!("true {HOSTILE}");
        run(&[
            &words(&["stat", "-r", "2", "--format", format, "--against"])[..],
            &[OsStr::new(&against), OsStr::new(HOSTILE)],
        ]
        .concat());
    }
    run(&[
        &words(&["count", "-o"])[..],
        &[out.as_os_str(), OsStr::new("true"), OsStr::new(HOSTILE)],
    ]
    .concat());
    assert!(shown > 10, "the name was shown {shown} times only");
    // What is served is described first; the port that nobody may have ends it then.
    run(&[
        &words(&["load", "--no-open", "--port", "1", "--address", "192.0.2.1"])[..],
        &[base],
    ]
    .concat());
}

/// A program with a hostile file name and a hostile function name, that uses a second of CPU time.
fn hostile_program(dir: &Path) -> Option<PathBuf> {
    let path = dir.join(HOSTILE_COMM);
    let mut rename = OsStr::new("sixty=").to_owned();
    rename.push(HOSTILE);
    let renamed = Command::new("objcopy")
        .args([OsStr::new("--strip-debug"), OsStr::new("--redefine-sym"), &rename])
        .args([program("split")?.as_os_str(), path.as_os_str()])
        .status();
    assert!(renamed.unwrap().success());
    Some(path)
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn recording_and_attaching_print_names_as_text() {
    let Some(()) = perf_events() else { return };
    let dir = temp_dir();
    let program = hostile_program(dir.path()).unwrap();
    let out = dir.path().join(format!("p{HOSTILE}.json.gz"));
    let save = words(&["record", "-v", "--json", "--save-only", "-o"]);
    let launched = run(&[
        &save[..],
        &[
            out.as_os_str(),
            OsStr::new("--"),
            program.as_os_str(),
            OsStr::new("300"),
        ],
    ]
    .concat());
    assert_eq!(launched.status.code(), Some(0), "{launched:?}");
    let stderr = String::from_utf8_lossy(&launched.stderr);
    assert!(
        stderr.contains("x\\u001b]0;t\\u0007"),
        "the function is not shown: {stderr}"
    );
    let report = run(&[&[OsStr::new("report")], &[out.as_os_str()][..]].concat());
    assert!(
        String::from_utf8_lossy(&report.stdout).contains("x\\u001b]0;t\\u0007"),
        "{report:?}"
    );

    let target = Running(
        Command::new(&program)
            .args(["600000", "2"])
            .stdout(Stdio::null())
            .spawn()
            .unwrap(),
    );
    let pid = target.0.id().to_string();
    let attached = run(&[&save[..], &[out.as_os_str()], &words(&["-d", "0.5", "-p", &pid])[..]].concat());
    assert_eq!(attached.status.code(), Some(0), "{attached:?}");
    run(&[
        &words(&["flamegraph", "-d", "0.5", "-p", &pid, "-o"])[..],
        &[out.as_os_str()],
    ]
    .concat());
    // Several tables: the host may stop the machine for as long as one of them.
    let live = run(&words(&["top", "-d", "0.3", "-n", "3", "-p", &pid]));
    assert!(
        String::from_utf8_lossy(&live.stdout).contains("x\\u001b]0;t\\u0007"),
        "{live:?}"
    );
    if is_root() || paranoid().is_some_and(|level| level <= 0) {
        run(&[&save[..], &[out.as_os_str()], &words(&["-d", "0.5", "-a"])[..]].concat());
    }
    let probe = format!("uprobe:{}:nothing*", program.display());
    run(&[&save[..], &[out.as_os_str()], &words(&["-e", &probe, "--", "true"])[..]].concat());
    run(&[&save[..], &[out.as_os_str()], &words(&["-p", HOSTILE])[..]].concat());
    run(&[&save[..], &[out.as_os_str(), OsStr::new("--"), OsStr::new(HOSTILE)]].concat());
    run(&words(&["record", HOSTILE, "--no-such-option"]));
    run(&words(&["record", "-e", HOSTILE, "--", "true"]));
    run(&words(&["record", "-e", &format!("list:{HOSTILE}")]));
    run(&words(&["doctor"]));
    run(&words(&["cargo", HOSTILE]));
}

/// All commands are tried above; one that comes later is added there, too, or here with the reason why it needs no
/// test.
#[test]
fn no_command_is_left_out() {
    let help = sprof().arg("--help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let list = help.split("Commands:").nth(1).unwrap().split("\n\n").next().unwrap();
    let commands: BTreeSet<&str> = (list.lines())
        .filter_map(|line| line.strip_prefix("  ").filter(|line| !line.starts_with(' ')))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    let tried = [
        "record",
        "cargo",
        "load",
        "serve",
        "merge",
        "check",
        "diff",
        "report",
        "browse",
        "annotate",
        "export",
        "flamegraph",
        "push",
        "share",
        "doctor",
        "stat",
        "top",
        "count",
    ];
    let own_text_only = ["completions", "guide", "man", "help"];
    let known: BTreeSet<&str> = tried.into_iter().chain(own_text_only).collect();
    assert_eq!(commands, known, "{list}");
    assert_eq!(OsStr::from_bytes(HOSTILE_COMM.as_bytes()).len(), 15);
}

/// The names in a folder.
fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// A command line for each command that writes a file, without the file: `-o` and it are to be added. The second is the
/// end that the file's name would have.
fn writers(profile: &str, program: &str) -> Vec<(Vec<String>, &'static str)> {
    let lines = [
        (format!("record -s {program}"), ".json.gz"),
        (format!("flamegraph {program}"), ".svg"),
        (format!("flamegraph {profile}"), ".svg"),
        (format!("export {profile} -f svg"), ".svg"),
        (format!("export {profile} -f folded"), ".folded"),
        (format!("export {profile} -f pprof"), ".pb.gz"),
        (format!("export {profile} -f speedscope"), ".json"),
        (format!("export {profile} -f callgrind"), ".callgrind"),
        (format!("export {profile} -f perf-script"), ".txt"),
        (format!("export {profile} -f firefox"), ".json"),
        (format!("report {profile}"), ".txt"),
        (format!("report {profile} --format md"), ".md"),
        (format!("report {profile} --format json"), ".json"),
    ];
    lines
        .into_iter()
        .map(|(line, end)| (line.split(' ').map(str::to_owned).collect(), end))
        .collect()
}

/// Runs one of [`writers`].
fn write(line: &[String], out: &Path) -> Output {
    // What comes after the program's name would be its argument.
    let (command, rest) = line.split_first().unwrap();
    sprof().arg(command).arg("-o").arg(out).args(rest).output().unwrap()
}

/// A profile, and the command line of a short program, as words.
fn profile_and_program(dir: &Path) -> (String, String) {
    let program = format!("-- {} 100", program("split").unwrap().display());
    let profile = dir.join("in.json");
    fs::rename(saved(dir, 0), &profile).unwrap();
    (profile.display().to_string(), program)
}

#[test]
fn what_is_written_only_its_owner_reads() {
    let Some(()) = perf_events() else { return };
    let dir = temp_dir();
    let (profile, program) = profile_and_program(dir.path());
    for (line, end) in writers(&profile, &program) {
        let out = dir.path().join(format!("out{end}"));
        let output = write(&line, &out);
        assert_eq!(output.status.code(), Some(0), "{line:?}: {output:?}");
        assert_eq!(fs::metadata(&out).unwrap().mode() & 0o777, 0o600, "{line:?}");
        fs::remove_file(&out).unwrap();
        assert_eq!(names(dir.path()), ["in.json"], "{line:?}");
    }
}

#[test]
fn a_running_recording_only_its_owner_reads() {
    let Some(()) = perf_events() else { return };
    // It ends at a signal. One that ends by itself may end before its folder is read.
    let running = support::record().start(program("exits").unwrap(), &["catch-int"]);
    running.wait_for("ready");
    let mut spool = running.output().as_os_str().to_owned();
    spool.push(".partial");
    wait_until(|| Path::new(&spool).exists(), || "no spool".to_owned());
    let mode = fs::metadata(&spool).unwrap().mode() & 0o777;
    let folder = names(running.output().parent().unwrap());
    running.signal_group("INT");
    let recording = running.finish();
    assert_eq!(recording.code, Some(7), "{}", recording.stderr);
    assert_eq!(mode, 0o600);
    // Nothing else that a kill would leave.
    assert_eq!(folder, ["profile.json.gz.partial"]);
}

/// Makes a link as a user who owns nothing.
fn link_as_nobody(target: &Path, link: &Path) {
    let made = Command::new("setpriv")
        .args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "ln", "-s"])
        .args([target, link])
        .status();
    assert!(made.unwrap().success());
}

#[test]
fn links_of_other_users_are_not_followed() {
    let Some(()) = perf_events() else { return };
    if !root() {
        return;
    }
    let dir = tempfile::Builder::new()
        .prefix("sprof-test-")
        .tempdir_in("/tmp")
        .unwrap();
    // As /tmp is: all may write, and only the owner of a file removes it.
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o1777)).unwrap();
    let own = temp_dir();
    let (profile, program) = profile_and_program(own.path());
    let (precious, missing) = (own.path().join("precious"), own.path().join("missing"));
    fs::write(&precious, "{\"meta\": \"precious\"}").unwrap();
    for (number, (line, end)) in writers(&profile, &program).into_iter().enumerate() {
        for (target, name) in [(&precious, "a"), (&missing, "b")] {
            let out = dir.path().join(format!("{name}{number}{end}"));
            link_as_nobody(target, &out);
            let output = write(&line, &out);
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(125), "{line:?}: {stderr}");
            assert!(stderr.contains("another user"), "{line:?}: {stderr}");
            assert!(out.is_symlink(), "{line:?}");
        }
    }
    // The recording so far goes beside what others put in its place.
    let out = dir.path().join("c.json.gz");
    let spool = dir.path().join("c.json.gz.partial");
    for target in [&precious, &missing] {
        link_as_nobody(target, &spool);
        let line: Vec<String> = format!("record -s {program}").split(' ').map(str::to_owned).collect();
        let output = write(&line, &out);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert!(spool.is_symlink());
        fs::remove_file(&spool).unwrap();
        assert!(!dir.path().join("c.json.gz.partial.2").exists());
        fs::remove_file(&out).unwrap();
    }
    assert_eq!(fs::read_to_string(&precious).unwrap(), "{\"meta\": \"precious\"}");
    assert!(!missing.exists());
}

#[test]
fn earlier_recordings_are_kept_and_what_can_be_made_again_is_replaced() {
    let Some(()) = perf_events() else { return };
    let dir = temp_dir();
    let (profile, program) = profile_and_program(dir.path());
    for (line, end) in writers(&profile, &program) {
        let out = dir.path().join(format!("out{end}"));
        assert_eq!(write(&line, &out).status.code(), Some(0), "{line:?}");
        let first = fs::read(&out).unwrap();
        let again = write(&line, &out);
        let stderr = String::from_utf8_lossy(&again.stderr);
        assert_eq!(again.status.code(), Some(0), "{line:?}: {stderr}");
        let kept = dir.path().join(format!("out.1{end}"));
        // A picture is no recording.
        match line.contains(&"--".to_owned()) && end != ".svg" {
            true => {
                assert!(stderr.contains(&format!("is kept as {}", kept.display())), "{stderr}");
                assert_eq!(fs::read(&kept).unwrap(), first, "{line:?}");
                fs::remove_file(&kept).unwrap();
            }
            false => assert!(stderr.contains(&format!("{} is replaced", out.display())), "{stderr}"),
        }
        fs::remove_file(&out).unwrap();
        assert_eq!(names(dir.path()), ["in.json"], "{line:?}");
    }
}

#[test]
fn files_of_other_kinds_are_not_replaced() {
    let Some(()) = perf_events() else { return };
    let dir = temp_dir();
    let witness = dir.path().join("ran");
    let (profile, _) = profile_and_program(dir.path());
    let program = format!("-- touch {}", witness.display());
    let source = "fn main() {\n    println!(\"{}\", 1);\n}\n";
    for (line, _) in writers(&profile, &program) {
        let out = dir.path().join("main.rs");
        fs::write(&out, source).unwrap();
        let output = write(&line, &out);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{line:?}: {stderr}");
        assert!(stderr.contains("exists and is not"), "{line:?}: {stderr}");
        assert_eq!(fs::read_to_string(&out).unwrap(), source, "{line:?}");
    }
    let refused = sprof()
        .args(["record", "-s", "-o"])
        .arg(dir.path().join("x.svg"))
        .args(program.split(' '))
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(125), "{stderr}");
    assert!(stderr.contains("sprof flamegraph -o FILE"), "{stderr}");
    assert!(!witness.exists(), "the program ran");
}

#[test]
fn the_end_of_a_name_chooses_the_format() {
    let dir = temp_dir();
    let profile = saved(dir.path(), 0);
    let export_as = |name: &str| {
        let out = dir.path().join(name);
        let mut export = sprof();
        let output = export.arg("export").arg(&profile).arg("-o").arg(&out).output();
        (out, output.unwrap())
    };
    for (name, start) in [
        ("x.svg", "<?xml"),
        ("x.folded", "x"),
        ("x.speedscope.json", "{\"$schema\""),
        ("x.json", "{\"libs\""),
    ] {
        let (out, output) = export_as(name);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let text = fs::read_to_string(&out).unwrap();
        assert!(
            text.starts_with(start),
            "{name}: {}",
            text.chars().take(40).collect::<String>()
        );
    }
    for name in ["x", "x.png"] {
        let (out, output) = export_as(name);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(!out.exists());
    }
}
