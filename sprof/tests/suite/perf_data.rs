//! Files of `perf record`, made here and now by this system's perf: they show what `perf report` shows of them.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::machine::share_again;
use crate::support::perf::{assert_as_perf, load, own_share, perf_record, perf_script};
use crate::support::profile::is_mark;
use crate::support::schema::parsed;
use crate::support::skip::{is_root, perf, perf_on_one_cpu, root};
use crate::support::target::{Target, wait_for_thread};
use crate::support::{Profile, program, record, sprof, temp_dir};

/// Options for rings of perf that hold half a second. Its usual ones hold 60 stacks of 8 KiB: it loses samples while
/// the host has its CPU. Root may have more.
pub(crate) fn rings() -> &'static [&'static str] {
    if is_root() { &["-m", "4M"] } else { &[] }
}

/// The recording is a measurement; what is read of it is none.
fn recorded(options: &[&str]) -> (tempfile::TempDir, PathBuf) {
    let dir = temp_dir();
    let file = dir.path().join("perf.data");
    let options = [rings(), options].concat();
    perf_record(&file, &options, &program("split").unwrap(), &["1000"]);
    share_again();
    (dir, file)
}

/// Stacks below the split functions reach `main`, by the unwind tables.
fn assert_rooted(profile: &Profile) {
    let rooted = profile.share(
        |names| names.contains(&"one_round"),
        |names| names.contains(&"main") && !names.iter().any(|name| is_mark(name)),
    );
    // Of 2,000: a host that takes two thirds of the CPU time away leaves half.
    assert!(rooted.of > 500, "only {} samples\n{}", rooted.of, profile.summary());
    assert!(
        rooted.percent() > 99.0,
        "{:.2} %\n{}",
        rooted.percent(),
        profile.summary()
    );
}

#[test]
fn frame_pointer_chains() {
    let Some(()) = perf_on_one_cpu() else { return };
    let (_dir, file) = recorded(&["-e", "cpu-clock", "-F", "2000", "--call-graph", "fp"]);
    let (profile, stderr) = load(&file, &[]);
    assert_as_perf(&profile, &file, "cpu-clock");
    assert!(!stderr.contains("warning"), "{stderr}");
    assert!(profile.sample_count() > 500, "{}", profile.summary());
}

/// Programs without frame pointers use their register as any other: here it points to a stack of no code.
#[cfg(target_arch = "x86_64")]
#[test]
fn frame_pointer_chains_through_code_without_frame_pointers_are_called_so() {
    let Some(()) = perf_on_one_cpu() else { return };
    let dir = temp_dir();
    let (source, binary, file) = (
        dir.path().join("app.c"),
        dir.path().join("app"),
        dir.path().join("perf.data"),
    );
    let text = "static unsigned long made_up[2] = {0, 0x123456789000};\n\
                int main(void) {\n\
                \x20   unsigned long rounds = 600000000;\n\
                \x20   __asm__ volatile(\"push %%rbp\\n mov %1, %%rbp\\n 1: dec %0\\n jnz 1b\\n pop %%rbp\"\n\
                \x20                    : \"+r\"(rounds) : \"r\"(made_up));\n\
                \x20   return 0;\n}\n";
    fs::write(&source, text).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-g", "-O1", "-mno-red-zone", "-fomit-frame-pointer", "-o"]);
    assert!(compiler.arg(&binary).arg(&source).status().unwrap().success());
    perf_record(&file, &["-e", "cpu-clock", "-F", "1000", "-g"], &binary, &[]);
    let output = sprof().arg("report").arg(&file).output().unwrap();
    let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(
        said.contains("have addresses on their stacks where no code was"),
        "{said}"
    );
    assert!(!said.contains("made while the program ran"), "{said}");
}

/// What `sprof` prints, with this text on stdin.
fn from_stdin(words: &[&str], text: &Path) -> (Option<i32>, String, String) {
    let mut cat = Command::new("cat").arg(text).stdout(Stdio::piped()).spawn().unwrap();
    let output = sprof().args(words).stdin(cat.stdout.take().unwrap()).output().unwrap();
    cat.wait().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn the_text_of_perf_script_shows_what_perf_report_shows() {
    let Some(()) = perf_on_one_cpu() else { return };
    let (dir, file) = recorded(&["-e", "cpu-clock", "-F", "2000", "--call-graph", "dwarf"]);
    let script = dir.path().join("script.txt");
    for options in [&[][..], &["-F", "+pid"], &["--header"]] {
        fs::write(&script, perf_script(&file, options)).unwrap();
        let (profile, stderr) = load(&script, &[]);
        assert_as_perf(&profile, &file, "cpu-clock");
        assert_rooted(&profile);
        assert!(!stderr.contains("not understood"), "{stderr}");
    }
    let path = script.to_str().unwrap();
    let views = |text: &str| parsed(text)["views"].clone();
    let report = ["report", path, "--format", "json", "--view", "functions"];
    let of_file = sprof().args(report).output().unwrap();
    let (code, of_stdin, stderr) = from_stdin(&["report", "-", "--format", "json", "--view", "functions"], &script);
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!(views(&of_stdin), views(std::str::from_utf8(&of_file.stdout).unwrap()));
    // All commands that read a file; and a file of perf itself.
    for (words, text, expected) in [
        (&["annotate", "-", "sixty"][..], &script, "sixty"),
        (&["export", "-", "--format", "folded"], &file, ";sixty"),
        (&["export", "-", "--format", "firefox", "-o", "-"], &script, ""),
        (&["flamegraph", "-", "-o", "-"], &file, "<svg"),
        (&["diff", path, "-"], &script, ""),
        (&["check", "-", "--base", path, "--max-increase", "*=50%"], &script, ""),
        (&["report", "-"], &file, "thirty"),
    ] {
        let mut cat = Command::new("cat").arg(text).stdout(Stdio::piped()).spawn().unwrap();
        let output = sprof().args(words).stdin(cat.stdout.take().unwrap()).output().unwrap();
        cat.wait().unwrap();
        let (stdout, stderr) = (
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
        );
        assert!(output.status.success(), "{words:?}: {stderr}");
        assert!(stdout.contains(expected), "{words:?}: {stdout}{stderr}");
    }
    fs::write(&script, "what is this\n").unwrap();
    let (code, _, stderr) = from_stdin(&["report", "-"], &script);
    assert!(code == Some(125) && stderr.contains("/dev/stdin is"), "{stderr}");
}

#[test]
fn stack_dumps_are_unwound() {
    let Some(()) = perf_on_one_cpu() else { return };
    let (_dir, file) = recorded(&["-e", "cpu-clock", "-F", "2000", "--call-graph", "dwarf"]);
    let (profile, _) = load(&file, &[]);
    assert_as_perf(&profile, &file, "cpu-clock");
    assert_rooted(&profile);
}

#[test]
fn compressed_files() {
    let Some(()) = perf_on_one_cpu() else { return };
    let (_dir, file) = recorded(&["-z", "-e", "cpu-clock", "-F", "2000", "--call-graph", "dwarf"]);
    let (profile, _) = load(&file, &[]);
    assert_as_perf(&profile, &file, "cpu-clock");
    assert_rooted(&profile);
}

#[test]
fn pipe_mode() {
    let Some(()) = perf_on_one_cpu() else { return };
    let dir = temp_dir();
    let file = dir.path().join("perf.data");
    let status = Command::new("perf")
        .args(["record", "-e", "cpu-clock", "-F", "2000", "-g", "-o", "-", "--"])
        .arg(program("split").unwrap())
        // The program's own output would stand in the middle of the file.
        .args(["1000"])
        .stdout(fs::File::create(&file).unwrap())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
    share_again();
    let (profile, _) = load(&file, &[]);
    assert_as_perf(&profile, &file, "cpu-clock");
}

#[test]
fn exports_hold_what_the_report_says_of_each_event() {
    let Some(()) = perf_on_one_cpu() else { return };
    let (dir, file) = recorded(&["-e", "cpu-clock", "-e", "page-faults", "-F", "2000", "-g"]);
    let run = |arguments: &[&str]| {
        let output = sprof().args(arguments).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {stderr}");
        String::from_utf8(output.stdout).unwrap()
    };
    let file = file.to_str().unwrap();
    let rows = |file: &str, options: &[&str]| -> serde_json::Value {
        let arguments = [&["report", file, "--format", "json", "--limit", "50"], options].concat();
        let mut json: serde_json::Value = parsed(&run(&arguments));
        json["views"].take()
    };
    let mut drawn = Vec::new();
    for event in ["cpu-clock", "page-faults"] {
        let options = ["--event", event];
        let expected = rows(file, &options);
        assert!(expected.to_string().len() > 200, "{expected}");
        for format in ["firefox", "firefox-v55"] {
            let saved = dir.path().join(format!("{event}-{format}.json.gz"));
            let saved = saved.to_str().unwrap();
            run(&[&["export", file, "-q", "-f", format, "-o", saved], &options[..]].concat());
            assert_eq!(rows(saved, &[]), expected, "{event} as {format}");
        }
        drawn.push(run(&[&["flamegraph", file, "-o", "-"], &options[..]].concat()));
    }
    assert_ne!(drawn[0], drawn[1]);
    assert!(drawn[0].contains("<title>sixty ("), "{}", drawn[0]);
}

#[test]
fn two_events_of_which_one_is_shown() {
    let Some(()) = perf_on_one_cpu() else { return };
    let (_dir, file) = recorded(&["-e", "cpu-clock", "-e", "page-faults", "-F", "2000", "-g"]);
    let (profile, stderr) = load(&file, &[]);
    assert_as_perf(&profile, &file, "cpu-clock");
    assert!(
        stderr.contains("samples of the event page-faults are left out"),
        "{stderr}"
    );
    let (faults, stderr) = load(&file, &["--event", "page-faults"]);
    assert!(
        stderr.contains("samples of the event cpu-clock are left out"),
        "{stderr}"
    );
    assert!(
        faults.sample_count() > 0 && own_share(&faults, "sixty") < 10.0,
        "{}",
        faults.summary()
    );
}

#[test]
fn the_whole_machine() {
    if !root() {
        return;
    }
    let Some(()) = perf() else { return };
    let (_dir, file) = recorded(&["-a", "-e", "cpu-clock", "-F", "2000", "-g"]);
    let (profile, _) = load(&file, &[]);
    assert_as_perf(&profile, &file, "cpu-clock");
    assert!(profile.threads.iter().any(|thread| thread.process_name == "split"));
}

/// Linux (6.18) then says of perf's mappings that they have build ids, which they have not.
#[test]
fn a_file_that_perf_made_beside_a_recording_of_the_whole_machine() {
    if !root() {
        return;
    }
    let Some(()) = perf() else { return };
    let beside = record().options(&["-a"]).attach();
    beside.wait_for_sprof("Ctrl-C");
    // -B: perf 6.1 itself takes what is there for a build id, and ends with "stack smashing detected".
    let options = ["-B", "-e", "cpu-clock", "-F", "2000", "--call-graph", "dwarf"];
    let options = [rings(), &options].concat();
    let dir = temp_dir();
    let file = dir.path().join("perf.data");
    perf_record(&file, &options, &program("split").unwrap(), &["1000"]);
    beside.signal_sprof("INT");
    assert_eq!(beside.finish().code, Some(0));
    let (profile, _) = load(&file, &[]);
    assert_rooted(&profile);
    // Which shares perf's 2,000 samples have is chance; that all have names is not.
    let named = profile.share(
        |names| names.contains(&"one_round"),
        |names| ["sixty", "thirty", "ten"].iter().any(|name| names.contains(name)),
    );
    assert!(named.percent() > 99.0, "{named:?}\n{}", profile.summary());
}

#[test]
fn a_process_that_was_running_already() {
    let Some(()) = perf() else { return };
    let dir = temp_dir();
    let file = dir.path().join("perf.data");
    let running = Target::start(program("split").unwrap(), &["60000", "2"]);
    let pid = running.pid();
    for name in ["splitter-0", "splitter-1"] {
        wait_for_thread(&pid, name);
    }
    let options = ["-e", "cpu-clock", "-F", "2000", "--call-graph", "dwarf", "-p", &pid];
    let options = [rings(), &options].concat();
    perf_record(&file, &options, Path::new("sleep"), &["1"]);
    drop(running);
    let (profile, _) = load(&file, &[]);
    assert_as_perf(&profile, &file, "cpu-clock");
    // The names and mappings that perf found when it came.
    assert_eq!(profile.threads_named("splitter-0").count(), 1, "{}", profile.summary());
}

#[test]
fn a_file_that_is_cut_off_is_shown_with_a_warning() {
    let Some(()) = perf_on_one_cpu() else { return };
    let (dir, file) = recorded(&["-e", "cpu-clock", "-F", "2000", "-g"]);
    let whole = load(&file, &[]).0.sample_count();
    let bytes = fs::read(&file).unwrap();
    let cut = dir.path().join("cut.data");
    fs::write(&cut, &bytes[..bytes.len() / 2]).unwrap();
    let (profile, stderr) = load(&cut, &[]);
    let samples = profile.sample_count();
    assert!(samples > whole / 4 && samples < whole, "{samples} of {whole}");
    assert!(stderr.contains("the file is cut off"), "{stderr}");
    assert_eq!(profile.figure(&["malformed"]), 1.0);
}

/// perf fills in the size of the data when it ends, and writes the features behind them.
#[test]
fn a_file_of_a_killed_perf_is_read_to_its_end_with_a_warning() {
    let Some(()) = perf_on_one_cpu() else { return };
    let (dir, file) = recorded(&["-e", "cpu-clock", "-F", "2000", "-g"]);
    let whole = load(&file, &[]).0.sample_count();
    let mut bytes = fs::read(&file).unwrap();
    let word = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap());
    let end = word(40) + word(48);
    bytes.truncate(end as usize);
    bytes[48..56].fill(0);
    let killed = dir.path().join("killed.data");
    fs::write(&killed, &bytes).unwrap();
    let (profile, stderr) = load(&killed, &[]);
    assert_eq!(profile.sample_count(), whole);
    assert!(stderr.contains("perf did not end properly"), "{stderr}");
}

#[test]
fn what_the_file_does_not_hold_is_an_error_with_the_next_step() {
    let dir = temp_dir();
    let file = dir.path().join("perf.data");
    fs::write(&file, b"PERFILE2").unwrap();
    let output = sprof().arg("load").arg(&file).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{stderr}");
    assert!(
        stderr.contains("cannot load") && !stderr.contains("panicked"),
        "{stderr}"
    );
}
