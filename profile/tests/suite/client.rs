//! The Firefox Profiler front end, as the command line program `profiler-cli` from npm, loads what we write.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::common::*;
use names::symbol::{AddressInfo, FunctionSymbol, SourceFrame};
use profile::enrich::enrich;
use recording::event::{Event, LostCause, RecordingEvent, Role};
use recording::stack::{Frame, StackMark};
use serde_json::Value;

/// A loaded profile; the daemon behind it ends with this.
struct Client {
    bin: PathBuf,
    dir: tempfile::TempDir,
}

impl Client {
    /// `None` (after saying so) where the client is not installed.
    fn load(profile: &profile::Profile) -> Option<Client> {
        let default = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("client");
        let bin = std::env::var_os("SPROF_CLIENT_DIR")
            .map_or(default, PathBuf::from)
            .join("node_modules/.bin");
        if !bin.join("profiler-cli").exists() {
            let test = std::thread::current().name().unwrap_or("?").to_owned();
            // Past the test runner's capture, so that it can be counted.
            let _ = writeln!(
                std::io::stderr(),
                "skipped: {test}: no profiler-cli (`.ci/run client` installs it)"
            );
            return None;
        }
        // A socket lives in here: a path of at most 108 bytes.
        let dir = tempfile::Builder::new().prefix("pq-").tempdir_in("/tmp").unwrap();
        let file = dir.path().join("profile.json.gz");
        profile::export::firefox::write_gz(profile, &mut std::fs::File::create(&file).unwrap()).unwrap();
        let client = Client { bin, dir };
        // On a busy machine its daemon takes longer to start than `load` waits (500 ms). It goes on starting.
        let began = Instant::now();
        let mut answer = client.try_run(&["load", file.to_str().unwrap()]);
        while let Err(text) = answer {
            assert!(
                (text.contains("did not become ready") || text.contains("No active session"))
                    && began.elapsed().as_secs() < 60,
                "{text}"
            );
            answer = client.try_run(&["status"]);
        }
        Some(client)
    }

    fn run(&self, arguments: &[&str]) -> Value {
        let text = self.try_run(arguments).unwrap_or_else(|text| panic!("{text}"));
        // `load` says what it does before the answer.
        let text = &text[text.find('{').unwrap_or_default()..];
        serde_json::from_str(text).unwrap_or_else(|error| panic!("profiler-cli {arguments:?}: {error}: {text}"))
    }

    fn try_run(&self, arguments: &[&str]) -> Result<String, String> {
        let path = std::env::var("PATH").unwrap_or_default();
        let output = Command::new(self.bin.join("profiler-cli"))
            .args(arguments)
            .arg("--json")
            .env("PATH", format!("{}:{path}", self.bin.display()))
            .env("PROFILER_CLI_SESSION_DIR", self.dir.path())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let error = String::from_utf8_lossy(&output.stderr);
        match output.status.success() {
            true => Ok(text.into_owned()),
            false => Err(format!("profiler-cli {arguments:?}: {text}{error}")),
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = Command::new(self.bin.join("profiler-cli"))
            .arg("stop")
            .env("PROFILER_CLI_SESSION_DIR", self.dir.path())
            .env(
                "PATH",
                format!("{}:{}", self.bin.display(), std::env::var("PATH").unwrap_or_default()),
            )
            .output();
    }
}

fn symbols(addresses: &[u64]) -> Vec<AddressInfo> {
    let frame = |function: String, line| SourceFrame {
        function: Some(function),
        file: Some("/src/main.rs".into()),
        declared_in: None,
        line: Some(line),
        column: None,
        krate: Some("app".to_owned()),
    };
    (addresses.iter())
        .map(|address| AddressInfo {
            function: Some(FunctionSymbol {
                is_named: true,
                name: format!("f_{:x}", address >> 8),
                start: address & !0xff,
                size: Some(0x100),
                v8: None,
                krate: None,
            }),
            frames: vec![
                frame(format!("inlined_{address:x}"), 20),
                frame(format!("f_{:x}", address >> 8), 10),
            ],
        })
        .collect()
}

/// Two processes, threads, renames, losses, marks, kernel frames.
fn everything() -> profile::Profile {
    let mut stream = Stream::with_app();
    stream.thread(1, 2, 0);
    stream.rename(1, 2, "worker", 1);
    stream.process(3, Some(1), 5);
    stream.exec(3, "child", 6);
    stream.map(3, image("/opt/child", 0x1000, 0x1000), 6);
    for ms in 10..110 {
        let leaf = if ms % 4 == 0 { ip(0x1310) } else { ip(0x1420) };
        stream.sample(1, 1, ms, &[leaf, ret(0x1211), ret(0x1101)]);
        let mark = Frame::Mark(StackMark::TruncatedNoMemory);
        stream.sample(1, 2, ms, &[ip(0x10_0310), ret(0x1211), mark]);
        stream.sample(
            3,
            3,
            ms,
            &[
                Frame::KernelInstructionPointer(recording::address::Avma(u64::MAX - 99)),
                ip(0x1510),
            ],
        );
    }
    stream.event(Event::recording(
        at(50),
        RecordingEvent::Lost {
            count: 5,
            role: Role::Running,
            cause: LostCause::RingFull,
        },
    ));
    stream.end(3, 120);
    stream.finish()
}

#[test]
fn the_front_end_shows_functions_threads_markers_and_quality() {
    let mut profile = everything();
    enrich(&mut profile, |_, addresses| Some(symbols(addresses)));
    written(&profile);
    let Some(client) = Client::load(&profile) else { return };

    let info = client.run(&["profile", "info", "--all"]);
    let processes = info["processes"].as_array().unwrap();
    let names: Vec<_> = processes
        .iter()
        .map(|process| process["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        (names.len(), names.contains(&"app"), names.contains(&"child")),
        (2, true, true),
        "{names:?}"
    );

    let functions = client.run(&["thread", "functions", "--thread", "t-0", "--limit", "0"]);
    let share = |name: &str| {
        let found = functions["functions"]
            .as_array()
            .unwrap()
            .iter()
            .find(|row| row["name"] == name);
        let row = found.unwrap_or_else(|| panic!("{name} in {functions}"));
        (
            row["selfPercentage"].as_f64().unwrap(),
            row["totalPercentage"].as_f64().unwrap(),
        )
    };
    assert_eq!(share("inlined_420"), (75.0, 75.0));
    assert_eq!(share("f_3"), (0.0, 25.0));
    assert_eq!(share("f_1"), (0.0, 100.0));

    let markers = client.run(&["profile", "markers", "--limit", "0"]).to_string();
    for name in ["Child process", "Renamed", "Exec", "Lost records"] {
        assert!(markers.contains(name), "{name} in {markers}");
    }
    let meta = client.run(&["profile", "meta"]);
    assert!(meta.to_string().contains("Lost records"), "{meta}");
    assert_eq!(meta["cpuName"], "Test CPU", "{meta}");
}

#[test]
fn the_front_end_loads_a_profile_without_samples_or_symbols() {
    for profile in [Stream::new().finish(), Stream::with_app().finish()] {
        let Some(client) = Client::load(&profile) else { return };
        let markers = client.run(&["profile", "markers", "--limit", "9"]).to_string();
        assert!(markers.contains("No samples"), "{markers}");
    }
}

#[test]
fn the_front_end_counts_the_same_bytes_of_the_heap() {
    let profile = crate::heap::app().finish();
    let Some(client) = Client::load(&profile) else { return };
    for (strategy, mib) in [("native-retained-allocations", 6), ("native-allocations", 18)] {
        client.run(&["strategy", strategy]);
        let functions = client.run(&["thread", "functions"]);
        assert_eq!(functions["weightType"], "bytes");
        let own = functions["functions"].as_array().unwrap().iter();
        let own = own.map(|function| function["selfSamples"].as_u64().unwrap());
        assert_eq!(own.sum::<u64>(), mib << 20, "{strategy}");
    }
}
