//! What can go wrong: a clear error or a valid profile that says what is missing. Never a panic, a hang, or a recording
//! that is lost.
#![cfg(target_os = "linux")]

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use crate::support::programs::ONCE_IT_WORKS;
use crate::support::run::output;
use crate::support::skip::{Need, has, is_root, perf_events};
use crate::support::{Profile, copy_program, program, record, sprof, temp_dir};

/// A failure of sprof that says something about `what`, and is no panic.
fn assert_error(output: &Output, codes: &[i32], what: &str) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.code().is_some_and(|code| codes.contains(&code)),
        "{:?}: {stderr}",
        output.status
    );
    assert!(!stderr.contains("panicked at"), "{stderr}");
    assert!(stderr.contains(what), "nothing about `{what}` in: {stderr}");
}

#[test]
fn a_program_that_uses_no_cpu_time_gives_a_valid_profile_that_says_so() {
    let Some(()) = perf_events() else { return };
    let recording = record()
        .options(&["--rate", "1"])
        .run(program("exits").unwrap(), &["idle", "100"]);
    assert_eq!(recording.code, Some(0), "{}", recording.stderr);
    let profile = recording.profile();
    if profile.sample_count() == 0 {
        assert!(
            recording.stderr.contains("no samples"),
            "not said: {}",
            recording.stderr
        );
        let told = profile
            .threads
            .iter()
            .any(|thread| thread.marker_names.iter().any(|name| name == "No samples"));
        assert!(told, "not said in the profile");
    }
    recording.assert_tidy();
}

#[test]
fn absurd_rates_are_refused_before_the_program_starts() {
    let dir = temp_dir();
    let witness = dir.path().join("started");
    for rate in ["0", "1000000000", "-5", "nan", "many", ""] {
        let mut command = sprof();
        command
            .args(["record", "--save-only", "--rate", rate, "-o"])
            .arg(dir.path().join("p.json.gz"));
        let output = output(command.args(["--", "touch"]).arg(&witness));
        assert_error(&output, &[2], "rate");
        assert!(!witness.exists(), "rate {rate}: the program was started all the same");
    }
}

#[test]
fn absurd_durations_are_refused() {
    for duration in ["-1", "nan", "inf", "soon"] {
        let mut command = sprof();
        let output = output(command.args(["record", "--save-only", "--duration", duration, "--", "true"]));
        assert_error(&output, &[2], "duration");
    }
}

#[test]
fn a_duration_of_zero_is_refused_or_gives_a_valid_profile() {
    let dir = temp_dir();
    let path = dir.path().join("p.json.gz");
    let mut command = sprof();
    let output = output(
        command
            .args(["record", "-s", "-d", "0", "-o"])
            .arg(&path)
            .args(["--", "sleep", "10"]),
    );
    if output.status.code() == Some(2) {
        assert_error(&output, &[2], "duration");
    } else {
        Profile::read(&path);
    }
}

#[test]
fn an_output_directory_that_is_missing_is_said_before_the_program_starts() {
    let dir = temp_dir();
    let witness = dir.path().join("started");
    let mut command = sprof();
    command
        .args(["record", "--save-only", "-o"])
        .arg(dir.path().join("missing/p.json.gz"));
    let output = output(command.args(["--", "touch"]).arg(&witness));
    assert_error(&output, &[125], "missing");
    assert!(!witness.exists(), "the program was started all the same");
}

#[test]
fn an_output_directory_that_is_not_writable_is_said_before_the_program_starts() {
    // Root may write anywhere but here.
    let output = output(sprof().args(["record", "--save-only", "-o", "/proc/p.json.gz", "--", "true"]));
    assert_error(&output, &[125], "/proc/p.json.gz");
}

#[test]
fn a_full_disk_is_said_and_the_earlier_profile_stays() {
    let Some(()) = perf_events() else { return };
    if !has(Need::FullDisk, is_root(), "mounting a small file system needs root") {
        return;
    }
    let dir = temp_dir();
    let mount = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=128k", "none"])
        .arg(dir.path())
        .status()
        .unwrap();
    if !has(
        Need::FullDisk,
        mount.success(),
        "mounting is not permitted in this container",
    ) {
        return;
    }
    let path = dir.path().join("p.json.gz");
    let earlier = r#"{"meta": "the earlier profile"}"#;
    std::fs::write(&path, earlier).unwrap();
    let fill = std::fs::write(dir.path().join("filler"), vec![1u8; 200 << 10]);
    assert!(fill.is_err(), "the disk is full");
    let words: [&[&str]; 3] = [
        &["record", "--save-only", "-o", "p.json.gz"],
        &["record", "--save-only", "-o", "p.html"],
        &["flamegraph", "-o", "p.svg"],
    ];
    let [profile, page, picture] = words.map(|words| {
        let mut command = sprof();
        command
            .args(words)
            .args(["--rate", "4000", "--"])
            .current_dir(dir.path());
        output(command.arg(program("split").unwrap()).arg("100"))
    });
    let kept = std::fs::read(&path);
    let unmount = Command::new("umount").arg("-l").arg(dir.path()).status().unwrap();
    assert!(unmount.success());
    assert_error(&profile, &[125], "p.json.gz");
    assert_eq!(kept.unwrap(), earlier.as_bytes());
    assert_error(&page, &[125], "p.html");
    assert_error(&picture, &[125], "p.svg");
    for (output, ending, start) in [
        (profile, ".json.gz", &b"\x1f\x8b"[..]),
        (page, ".html", b"<!"),
        (picture, ".svg", b"<?xml"),
    ] {
        let stderr = String::from_utf8(output.stderr).unwrap();
        let (_, rest) = stderr.split_once("saved as ").unwrap();
        let (elsewhere, _) = rest.split_once(" instead").unwrap();
        assert!(elsewhere.ends_with(ending), "{stderr}");
        assert!(std::fs::read(elsewhere).unwrap().starts_with(start), "{stderr}");
        std::fs::remove_file(elsewhere).unwrap();
    }
}

#[test]
fn a_port_that_is_taken_is_said() {
    let dir = temp_dir();
    let profile = record_small(dir.path());
    let Some(profile) = profile else { return };
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let output = output(sprof().args(["load", "--no-open", "--port", &port]).arg(profile));
    assert_error(&output, &[125], &port);
}

fn record_small(dir: &Path) -> Option<std::path::PathBuf> {
    perf_events()?;
    let path = dir.join("small.json.gz");
    let mut command = sprof();
    let output = output(
        command
            .args(["record", "-s", "-o"])
            .arg(&path)
            .arg("--")
            .arg(program("split")?)
            .arg("100"),
    );
    assert!(output.status.success(), "{output:?}");
    Some(path)
}

#[test]
fn damaged_and_foreign_profile_files_are_refused() {
    let dir = temp_dir();
    let gzip = |bytes: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    };
    let cut = {
        let whole = gzip(&vec![b' '; 100_000]);
        whole[..whole.len() / 2].to_vec()
    };
    let nested = format!("{}1{}", "[".repeat(1_000_000), "]".repeat(1_000_000));
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("empty", Vec::new()),
        ("text", b"not a profile".to_vec()),
        ("binary", (0..=255).collect()),
        ("cut-gzip", cut),
        ("json-number", b"1".to_vec()),
        ("json-object", gzip(b"{}")),
        ("json-foreign", gzip(br#"{"name":"left-pad","version":"1.0.0"}"#)),
        (
            "json-cut",
            gzip(br#"{"meta":{"version":30,"preprocessedProfileVersion":66},"threads":[{"#),
        ),
        ("json-nested", nested.into_bytes()),
    ];
    for (name, bytes) in cases {
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let output = output(sprof().args(["load", "--no-open"]).arg(&path));
        assert_error(&output, &[125], name);
    }
    let output = output(sprof().args(["load", "--no-open", "/no/such/profile.json.gz"]));
    assert_error(&output, &[125], "/no/such/profile.json.gz");
}

#[test]
fn a_pid_that_is_gone_is_said() {
    let Some(()) = perf_events() else { return };
    let help = output(sprof().args(["record", "--help"]));
    if !has(
        Need::Attach,
        String::from_utf8_lossy(&help.stdout).contains("--pid"),
        "sprof can't attach yet",
    ) {
        return;
    }
    // Above the largest pid_max.
    let output = output(sprof().args(["record", "--save-only", "-d", "1", "-p", "4999999"]));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && !stderr.contains("panicked at"), "{stderr}");
    assert!(stderr.contains("4999999") || stderr.contains("attach"), "{stderr}");
}

#[test]
fn a_target_that_is_killed_mid_way_leaves_a_valid_profile() {
    let Some(()) = perf_events() else { return };
    let running = record().start(program("exits").unwrap(), &["busy", "120000"]);
    // Time that the host takes away counts as CPU time, and has no samples.
    running.wait_for_cpu_ms(1000.0);
    for pid in running.targets() {
        Command::new("kill").args(["-KILL", &pid.to_string()]).status().unwrap();
    }
    let recording = running.finish();
    assert_eq!(recording.code, Some(137), "{}", recording.stderr);
    assert!(recording.profile().share_of("busy_work").hits > 50);
    recording.assert_tidy();
}

/// Records a copy of `work` whose bytes on disk were changed by `damage` after the start of the program, as an update
/// of a running program does, and expects a valid profile with samples. The program counts rounds: CPU time may hold
/// time that the host took away, in which no sample falls.
fn assert_damaged_binary_is_survived(name: &str, damage: impl Fn(Vec<u8>) -> Vec<u8>) {
    let dir = temp_dir();
    let good = dir.path().join(name);
    copy_program(program("work").unwrap(), &good);
    let bad = dir.path().join("bad");
    std::fs::write(&bad, damage(std::fs::read(&good).unwrap())).unwrap();
    // Renamed over the running file; the build id in the damaged file may still be the same.
    let script = format!(
        "{0} 150 & {ONCE_IT_WORKS}; mv {1} {0}; wait",
        good.display(),
        bad.display()
    );
    let recording = record().run("sh", &["-c", &script]);
    assert_eq!(recording.code, Some(0), "{}", recording.stderr);
    assert!(!recording.stderr.contains("panicked at"), "{}", recording.stderr);
    // The rounds take 180 ms at 5 GHz.
    assert!(recording.profile().sample_count() > 100, "{}", recording.stderr);
}

#[test]
fn a_truncated_elf_file_is_survived() {
    let Some(()) = perf_events() else { return };
    for keep in [0, 3, 16, 63, 200, 1000, 5000, 12000] {
        assert_damaged_binary_is_survived("cut", |bytes| bytes[..keep.min(bytes.len())].to_vec());
    }
}

#[test]
fn dwarf_that_lies_is_survived() {
    let Some(()) = perf_events() else { return };
    // Everything behind the loadable parts is debug info and headers: overwrite it with what gives absurd lengths,
    // back references and line programs without end.
    for fill in [0x00u8, 0xff, 0x7f, 0x01] {
        assert_damaged_binary_is_survived("lies", |mut bytes| {
            let debug = bytes.windows(4).rposition(|w| w == b"GCC:").unwrap_or(bytes.len() / 2);
            let end = bytes.len() - 64 * 40;
            for (i, byte) in bytes[debug..end].iter_mut().enumerate() {
                if i % 7 == 0 {
                    *byte = fill;
                }
            }
            bytes
        });
    }
}

#[test]
fn files_that_exec_refuses_are_no_panic() {
    let dir = temp_dir();
    // An empty executable file is an empty shell script to every shell: status 0.
    for (name, text, codes) in [
        ("empty", "", &[0, 126][..]),
        ("bad", "#!/no/such/interpreter\n", &[126, 127]),
    ] {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        let recording = record().run::<&str>(&path, &[]);
        let code = recording.code.unwrap();
        assert!(codes.contains(&code), "{name}: {code} {}", recording.stderr);
        recording.assert_tidy();
    }
}
