//! Files that are none, or not what a command reads: an error that names the file, what was expected and a next step; soon, and with
//! a status of its own.
#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test ends where its premise fails"
)]

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use support::skip::is_root;
use support::{sprof, temp_dir};

/// Runs to the end; a command that takes half a minute hangs.
fn output(command: &mut Command) -> Output {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if start.elapsed() > Duration::from_secs(30) {
            child.kill().unwrap();
            panic!("{command:?} hangs: {:?}", child.wait_with_output());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().unwrap()
}

/// The commands that read a file, with all else that they need.
fn commands(file: &Path) -> Vec<(&'static str, Command)> {
    let file = file.to_str().unwrap();
    let words: [(&str, &[&str]); 8] = [
        ("report", &["report", file]),
        ("annotate", &["annotate", file, "main"]),
        ("diff", &["diff", file, file]),
        ("check", &["check", file, "--base", file, "--max-increase", "*=5%"]),
        ("export", &["export", file, "--format", "folded"]),
        ("export firefox", &["export", file, "--format", "firefox", "-o", "-"]),
        ("flamegraph", &["flamegraph", file, "-o", "-"]),
        ("load", &["load", file, "--no-open"]),
    ];
    let commands = words.into_iter().map(|(name, words)| {
        let mut command = sprof();
        command.args(words);
        (name, command)
    });
    commands.collect()
}

/// Bytes that are no good, and what an error says of them.
fn bad_files() -> Vec<(&'static str, Vec<u8>, &'static [&'static str])> {
    let mut random = Vec::new();
    let mut state = 0x2545_f491_4f6c_dd1du64;
    for _ in 0..8192 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        random.extend(state.to_le_bytes());
    }
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    std::io::Write::write_all(
        &mut gz,
        &b"{\"meta\":{\"preprocessedProfileVersion\":50},\"threads\":[".repeat(400),
    )
    .unwrap();
    let mut cut_gz = gz.finish().unwrap();
    cut_gz.truncate(cut_gz.len() / 2);
    let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0".to_vec();
    vec![
        ("empty.json", Vec::new(), &["is empty", "expected"]),
        ("random.bin", random, &["expected"]),
        ("picture.png", png, &["expected"]),
        ("cut.json.gz", cut_gz, &["cut off", "again"]),
        (
            "other.json",
            b"{\"name\": \"package\", \"version\": 1}".to_vec(),
            &["not a Firefox profile", "expected"],
        ),
        (
            "cut.json",
            b"{\"meta\": {\"version\": 1".to_vec(),
            &["cut off", "line 1", "again"],
        ),
        ("list.json", b"[1, 2, 3]".to_vec(), &["expected"]),
        ("text.txt", b"hello\nworld\n".to_vec(), &["expected"]),
        ("zeros", vec![0; 1 << 20], &["expected"]),
        (
            "callgrind.out",
            b"# callgrind format\nevents: Ir\nfn=f\n1 x\n".to_vec(),
            &["line 4", "expected a cost"],
        ),
        (
            "cachegrind.out",
            b"desc: I1\ncmd: a\nevents: Ir\nfl=a\nfn=b\n1 2 3\n".to_vec(),
            &["line 6", "expected at most 1"],
        ),
        (
            "dhat.json",
            b"{\"dhatFileVersion\":2,\"pps\":[".to_vec(),
            &["cut off", "line 1"],
        ),
        ("cut.pb", vec![0x0a, 4, 8, 1, 16, 2, 0x12, 9, 1], &["cut off", "byte 9"]),
    ]
}

/// What is not read at all by a command says so, and what to do instead.
fn is_said(stderr: &str, file: &Path, expected: &[&str], name: &str) {
    let has_file = stderr.contains(file.file_name().unwrap().to_str().unwrap());
    assert!(has_file, "{name}: the file is not named: {stderr}");
    assert!(!stderr.contains("panicked at"), "{name}: {stderr}");
    // These two read Firefox's format only; of what others write they say where it is read.
    let is_elsewhere = stderr.contains("sprof report");
    for words in expected {
        assert!(
            stderr.contains(words) || is_elsewhere,
            "{name}: nothing about `{words}`: {stderr}"
        );
    }
}

#[test]
fn what_no_command_can_read_is_named_with_what_was_expected() {
    let dir = temp_dir();
    for (name, bytes, expected) in bad_files() {
        let file = dir.path().join(name);
        fs::write(&file, bytes).unwrap();
        for (command_name, mut command) in commands(&file) {
            let output = output(&mut command);
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(125), "{command_name} {name}: {stderr}");
            is_said(&stderr, &file, expected, command_name);
            assert!(
                output.stdout.is_empty(),
                "{command_name} {name} writes something, and fails"
            );
        }
    }
}

#[test]
fn what_is_no_file_is_said() {
    let dir = temp_dir();
    let missing = dir.path().join("missing.json");
    let program = dir.path().join("program");
    fs::copy("/bin/true", &program).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o644)).unwrap();
    let pipe = dir.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let huge = dir.path().join("huge.json");
    // A hole: 64 GiB that are nowhere.
    fs::File::create(&huge).unwrap().set_len(64 << 30).unwrap();
    for (file, expected) in [
        (missing.as_path(), "No such file"),
        (dir.path(), "not a regular file"),
        (&program, "a program, not a recording of it"),
        (&pipe, "not a regular file"),
        (&huge, "expected"),
        (Path::new("/dev/zero"), "not a regular file"),
    ] {
        for (name, mut command) in commands(file) {
            let output = output(&mut command);
            let stderr = String::from_utf8_lossy(&output.stderr);
            let code = output.status.code().unwrap_or(-1);
            // A flame graph of what is no saved profile: its command line may have been meant as a program.
            assert!(
                code == 125 || (name == "flamegraph" && code == 2),
                "{name} {file:?}: {code}: {stderr}"
            );
            assert!(!stderr.contains("panicked at"), "{name}: {stderr}");
            assert!(stderr.contains(file.to_str().unwrap()), "{name}: {stderr}");
            assert!(stderr.contains(expected) || code == 2, "{name} {file:?}: {stderr}");
        }
    }
}

#[test]
fn a_file_that_may_not_be_read_is_said() {
    let dir = temp_dir();
    let file = dir.path().join("secret.json");
    fs::write(&file, "{}").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o000)).unwrap();
    if is_root() {
        // Root may read anything but this.
        for (name, mut command) in commands(Path::new("/proc/self/mem")) {
            let output = output(&mut command);
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert!(
                !output.status.success() && stderr.contains("/proc/self/mem"),
                "{name}: {stderr}"
            );
        }
        return;
    }
    for (name, mut command) in commands(&file) {
        let output = output(&mut command);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(
            stderr.contains("secret.json") && stderr.contains("Permission denied"),
            "{name}: {stderr}"
        );
    }
}
