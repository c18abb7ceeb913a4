//! Files that are none, or not what a command reads: an error that names the file, what was expected and a next step;
//! soon, and with a status of its own.
#![cfg(target_os = "linux")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use crate::support;
use crate::support::machine::share_again;
use crate::support::perf::perf_record;
use crate::support::run::output;
use crate::support::schema::parsed;
use crate::support::skip::{is_root, perf, perf_events};
use crate::support::{program, record, sprof, temp_dir};

#[path = "../../../unwind/tests/suite/common/jitdump.rs"]
#[allow(dead_code, reason = "the unwinder's tests use the rest")]
mod jitdump;

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
    for words in expected {
        assert!(stderr.contains(words), "{name}: nothing about `{words}`: {stderr}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn too_few_open_files_are_named_as_the_reason_of_cut_stacks() {
    let Some(()) = perf_events() else { return };
    // A limit that suffices for one event per CPU may leave none for the files of the program.
    let events = std::thread::available_parallelism().map_or(1, usize::from);
    for files in 8..events + 40 {
        let limit = format!("ulimit -n {files}; exec \"$@\"");
        let limited = record().under(&["sh", "-c", &limit, "sh"]);
        let recording = limited.run(program("split").unwrap(), &["100"]);
        let stderr = recording.stderr;
        if recording.code != Some(0) {
            assert!(stderr.contains("Too many open files"), "{files}: {stderr}");
            continue;
        }
        let is_cut = stderr.contains("(100.0 %) truncated");
        let reason = "not opened, because too few open files are allowed: raise `ulimit -n`";
        assert!(!is_cut || stderr.contains(reason), "{files}: {stderr}");
        let advice = "because too few open files are allowed; raise `ulimit -n` and record again";
        assert!(!is_cut || stderr.contains(advice), "{files}: {stderr}");
        assert!(!stderr.contains("build it with"), "{files}: {stderr}");
        if !is_cut {
            return;
        }
    }
    panic!("no limit suffices");
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

/// The same command with so much address space.
fn within(mebibytes: u64, command: &Command) -> Command {
    let mut limited = Command::new("sh");
    limited
        .args([
            "-c",
            "ulimit -v $1 && shift && exec \"$@\"",
            "sh",
            &(mebibytes << 10).to_string(),
        ])
        .arg(command.get_program())
        .args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    limited
}

fn gzip(start: &str, part: &[u8], count: usize, end: &str) -> Vec<u8> {
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    let parts = part.repeat(1000);
    std::io::Write::write_all(&mut gz, start.as_bytes()).unwrap();
    for _ in 0..count / 1000 {
        std::io::Write::write_all(&mut gz, &parts).unwrap();
    }
    std::io::Write::write_all(&mut gz, end.as_bytes()).unwrap();
    gz.finish().unwrap()
}

/// A pprof profile that counts samples, with a program's name of a megabyte as text 3, and then these bytes so often.
fn pprof_with(part: &[u8], count: usize) -> Vec<u8> {
    let mut bytes = vec![0x0a, 4, 8, 1, 16, 2];
    let long = "x".repeat((1 << 20) - 1);
    for text in ["", "samples", "count", &long] {
        bytes.push(0x32);
        let mut len = text.len();
        while len >= 0x80 {
            bytes.push(len as u8 | 0x80);
            len >>= 7;
        }
        bytes.push(len as u8);
        bytes.extend(text.bytes());
    }
    bytes.extend(part.repeat(count));
    bytes
}

/// Of a profile with an address in a jitdump, that dump: a name of 130 KB, to which 6,500 lines refer by a byte each.
fn jitdump(path: &Path) -> String {
    let long = b"n".repeat(130_000);
    let mut lines: Vec<(u64, u32, &[u8])> = vec![(0x1000, 7, &[0xff]); 6501];
    lines[0].2 = &long;
    let dump = [
        jitdump::header(0),
        jitdump::lines(0x1000, &lines),
        jitdump::load(0, 0x1000, 1, "function", &[0x90; 64]),
    ]
    .concat();
    fs::write(path, &dump).unwrap();
    let path = path.to_str().unwrap();
    let lib = format!(
        "{{\"name\":\"jit-77.dump\",\"debugName\":\"jit-77.dump\",\"path\":\"{path}\",\"debugPath\":\"{path}\"}}"
    );
    format!(
        "{{\"meta\":{{\"preprocessedProfileVersion\":66,\"symbolicated\":false}},\"libs\":[{lib}],\"shared\":{{\"stringArray\":[\"x\"],\
         \"stackTable\":{{\"frame\":[0],\"prefixOffset\":[0]}},\"frameTable\":{{\"func\":[0],\"address\":[{}]}},\
         \"funcTable\":{{\"name\":[0],\"resource\":[0]}},\"resourceTable\":{{\"lib\":[0]}}}},\
         \"threads\":[{{\"name\":\"t\",\"samples\":{{\"stack\":[0],\"time\":[1],\"length\":1}}}}]}}",
        dump.len() - 60
    )
}

/// A few bytes that stand for a large structure, or refer to a long text: what is kept is in proportion to the file.
#[test]
fn a_small_file_takes_little_memory() {
    let dir = temp_dir();
    let start = "{\"meta\":{\"preprocessedProfileVersion\":60},\"threads\":[";
    let pid = format!("# callgrind format\nevents: Ir\npid: {}\nfn=f\n", "1".repeat(1 << 19));
    let threads: String = (0..3000).map(|thread| format!("thread: {thread}\n1 1\n")).collect();
    let refused = "the memory that its content would take";
    for (name, bytes, expected) in [
        ("threads.json.gz", gzip(start, b"{},", 5_000_000, "{}]}"), Some(refused)),
        ("comments.pb", pprof_with(&[0x68, 0], 10_000_000), None),
        ("mappings.pb", pprof_with(&[0x1a, 2, 0x28, 3], 300), Some(refused)),
        ("empty-mappings.pb", pprof_with(&[0x1a, 0], 8_000_000), Some(refused)),
        ("types.pb", pprof_with(&[0x0a, 2, 8, 3], 100_000), Some("at most 64")),
        (
            "threads.callgrind",
            format!("{pid}{threads}").into_bytes(),
            Some(refused),
        ),
        ("jit.json", jitdump(&dir.path().join("jit-77.dump")).into_bytes(), None),
    ] {
        let file = dir.path().join(name);
        fs::write(&file, &bytes).unwrap();
        let output = output(&mut within(400, sprof().arg("report").arg(&file)));
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!stderr.contains("memory allocation"), "{name}: {stderr}");
        match expected {
            None => {
                assert_eq!(output.status.code(), Some(0), "{name}: {stderr}");
                let stdout = String::from_utf8_lossy(&output.stdout);
                assert!(name != "jit.json" || stdout.contains("function"), "{stdout}");
            }
            Some(expected) => {
                assert_eq!(output.status.code(), Some(125), "{name}: {stderr}");
                assert!(stderr.contains(expected) && stderr.contains(name), "{name}: {stderr}");
            }
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

/// A file of each kind that sprof reads, by the name that it usually has; then those that it only writes.
fn files_of_all_kinds(dir: &Path) -> Option<Vec<(&'static str, Vec<u8>)>> {
    perf()?;
    let (recording, _) = support::record().profile(program("split").unwrap(), &["100"]);
    let mut files = vec![("profile.json.gz", fs::read(&recording.output).unwrap())];
    for (format, name) in [
        ("firefox", "profile.json"),
        ("pprof", "app.pb.gz"),
        ("callgrind", "callgrind.out.1"),
        ("folded", "app.folded"),
        ("perf-script", "script.txt"),
        ("svg", "app.svg"),
        ("speedscope", "app.speedscope.json"),
    ] {
        let file = dir.join(name);
        let mut export = sprof();
        export.arg("export").arg(&recording.output);
        let output = output(export.args(["-f", format, "-o"]).arg(&file));
        assert!(output.status.success(), "{output:?}");
        files.push((name, fs::read(&file).unwrap()));
    }
    let perf_data = dir.join("perf.data");
    let options = ["-q", "-e", "cpu-clock", "-g"];
    perf_record(&perf_data, &options, &program("split").unwrap(), &["100"]);
    share_again();
    files.push(("perf.data", fs::read(&perf_data).unwrap()));
    files.push((
        "cachegrind.out.1",
        b"desc: I1 cache: none\ncmd: ./app\nevents: Ir Dr\nfl=/a.c\nfn=main\n1 10 2\nsummary: 10 2\n".to_vec(),
    ));
    files.push((
        "dhat.out.1",
        br#"{"dhatFileVersion":2,"mode":"heap","verb":"Allocated","bklt":true,"bkacc":false,"tu":"instrs","Mtu":"Minstr","tuth":500
,"cmd":"./app","pid":7,"te":198013,"tg":193332,"pps":[{"tb":1000,"tbk":10,"tl":8767,"mb":300,"mbk":3,"gb":200,"gbk":2,"eb":100,"ebk":1
,"fs":[1]}],"ftbl":["[root]","0x4841: main (a.c:37)"]}"#
            .to_vec(),
    ));
    Some(files)
}

/// What `report` says of these bytes: the status, and who wrote them, or the error without the file's name.
fn reported(file: &Path, bytes: &[u8]) -> (i32, String) {
    fs::write(file, bytes).unwrap();
    let output = output(sprof().args(["report", "--format", "json"]).arg(file));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!stderr.contains("panicked at"), "{file:?}: {stderr}");
    let code = output.status.code().unwrap_or(-1);
    if code == 0 {
        let report: serde_json::Value = parsed(&output.stdout);
        let samples = &report["selection"]["samples"];
        return (0, format!("{} {samples}", report["profile"]["recorded_by"]));
    }
    assert_eq!(code, 125, "{file:?}: {stderr}");
    let reasons = ["expected", "cut off", "damaged", "which sprof does not read"];
    assert!(
        reasons.iter().any(|reason| stderr.contains(reason)),
        "{file:?}: {stderr}"
    );
    (code, stderr.replace(file.to_str().unwrap(), "FILE"))
}

/// The name of a file says nothing of its kind: under every other kind's name it is what it is. Its beginning is that
/// or refused.
#[test]
fn every_kind_of_file_is_known_under_every_name_and_its_beginnings_are_no_other_kind() {
    let dir = temp_dir();
    let Some(files) = files_of_all_kinds(dir.path()) else {
        return;
    };
    let folder = dir.path().join("names");
    fs::create_dir(&folder).unwrap();
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    for (own_name, bytes) in &files {
        let expected = reported(&folder.join(own_name), bytes);
        assert_eq!(expected.0 == 0, !own_name.contains("svg"), "{own_name}: {expected:?}");
        for (name, _) in &files {
            assert_eq!(reported(&folder.join(name), bytes), expected, "{own_name} as {name}");
        }
        let writer = |said: &str| said.rsplit_once(' ').map(|(writer, _)| writer.to_owned());
        // The tests `foreign` of the profile crate and `import` of the recorder try more, without a process for each.
        let beginnings = if own_name.contains("profile") { 100 } else { 20 };
        for _ in 0..beginnings {
            // Xorshift: the same beginnings in all runs.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let len = (state % bytes.len() as u64) as usize;
            let (code, said) = reported(&folder.join("beginning"), &bytes[..len]);
            assert!(
                code != 0 || writer(&said) == writer(&expected.1),
                "{len} bytes of {own_name}: {said}"
            );
        }
    }
}
