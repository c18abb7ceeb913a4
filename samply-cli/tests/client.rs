//! What the Firefox Profiler front end itself makes of our profiles, saved and served.
#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test ends where its premise fails"
)]

mod support;

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use support::client::Client;
use support::programs::line_of;
use support::skip::perf_events;
use support::{program, record, sprof};

/// `sprof load` at work; ends with this.
struct Served {
    child: Child,
    url: String,
}

impl Served {
    fn start(profile: &Path) -> Served {
        let mut command = sprof();
        command.args(["load", "--no-open", "--port", "0"]).arg(profile);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let (sender, receiver) = std::sync::mpsc::channel();
        let stderr = child.stderr.take().unwrap();
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                let url = line
                    .split_whitespace()
                    .find(|word| word.contains("/from-url/"))
                    .map(str::to_owned);
                let _ = sender.send((line, url));
            }
        });
        let mut said = Vec::new();
        loop {
            match receiver.recv_timeout(Duration::from_secs(20)) {
                Ok((_, Some(url))) => return Served { child, url },
                Ok((line, None)) => said.push(line),
                Err(_) => {
                    let _ = child.kill();
                    panic!("sprof load printed no address of the UI: {said:?}");
                }
            }
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_client_loads_every_kind_of_recording_and_shows_its_functions() {
    let Some(_machine) = perf_events() else { return };
    let cases: &[(&str, &[&str], &str)] = &[
        ("split", &["300"], "sixty"),
        ("split", &["200", "4"], "thirty"),
        ("split_rs", &["500"], "split::sixty"),
        ("split_stripped", &["200"], ""),
        ("split_static", &["200"], "ten"),
        ("deep", &["spin", "27", "300"], "deep_leaf"),
        ("deep", &["updown", "200", "300"], "down_and_up"),
        ("sighandler", &["normal", "300"], "handler_spin"),
        ("sighandler", &["alternate", "300"], "interrupted_work"),
        ("threads", &["200", "20"], "thread_work"),
        ("processes", &["fork", "200"], ""),
        ("processes", &["exec", "200"], "exec_work"),
        ("processes", &["rename", "200"], "renamed_work"),
        ("processes", &["many", "100"], ""),
        ("reader", &["300"], "read_all_zeros"),
        ("callback", &["200"], "compare_leaf"),
        ("names", &["200"], ""),
        ("exits", &["idle", "50"], ""),
        ("exits", &["segv"], "busy_work"),
    ];
    for (name, arguments, function) in cases {
        let Some(path) = program(name) else { continue };
        let recording = record().run(path, arguments);
        let Some(client) = Client::load(recording.output.to_str().unwrap()) else {
            return;
        };
        if !function.is_empty() {
            let functions = client.functions();
            let found = functions
                .iter()
                .any(|(name, _, _, total)| name == function && *total > 1.0);
            assert!(
                found,
                "{name} {arguments:?}: the client shows no {function}: {functions:?}"
            );
        }
    }
}

#[test]
fn the_client_counts_the_shares_that_we_count() {
    let Some(_machine) = perf_events() else { return };
    let (recording, profile) = record().profile(program("split").unwrap(), &["1000"]);
    let Some(client) = Client::load(recording.output.to_str().unwrap()) else {
        return;
    };
    let functions = client.functions();
    for function in ["sixty", "thirty", "ten", "run_split", "main"] {
        let ours = profile.share_of(function).percent();
        let theirs = functions
            .iter()
            .find(|(name, ..)| name == function)
            .map_or(0.0, |found| found.3);
        assert!(
            (ours - theirs).abs() < 0.5,
            "{function}: {ours:.2} % and {theirs:.2} %: {functions:?}"
        );
    }
}

#[test]
fn the_client_symbolicates_an_unsymbolicated_profile_through_our_server() {
    let Some(_machine) = perf_events() else { return };
    let recorder = record().options(&["--no-symbolicate"]);
    let (recording, _) = recorder.profile(program("inline_dwarf5").unwrap(), &["500"]);
    let served = Served::start(&recording.output);
    let Some(client) = Client::load(&served.url) else {
        return;
    };
    let functions = client.functions();
    for function in ["main", "not_inlined", "middle", "innermost"] {
        assert!(
            functions.iter().any(|(name, ..)| name == function),
            "no {function}: {functions:?}"
        );
    }
}

#[test]
fn the_client_annotates_source_through_our_server() {
    let Some(_machine) = perf_events() else { return };
    let (recording, _) = record().profile(program("inline_dwarf5").unwrap(), &["500"]);
    let served = Served::start(&recording.output);
    let Some(client) = Client::load(&served.url) else {
        return;
    };
    let source = client.annotate("innermost", "src").to_string();
    assert!(source.contains("INNERMOST_LINE"), "{source}");
    assert!(
        source.contains(&format!("{}", line_of("inline.c", "INNERMOST_LINE"))),
        "{source}"
    );
}

#[test]
fn the_client_annotates_assembly_through_our_server() {
    let Some(_machine) = perf_events() else { return };
    let (recording, _) = record().profile(program("split").unwrap(), &["500"]);
    let served = Served::start(&recording.output);
    let Some(client) = Client::load(&served.url) else {
        return;
    };
    let assembly = client.annotate("sixty", "asm").to_string();
    let expected: &[&str] = if cfg!(target_arch = "x86_64") {
        &["shl", "shr", "xor"]
    } else {
        &["eor"]
    };
    for instruction in expected {
        assert!(assembly.contains(instruction), "no {instruction} in {assembly}");
    }
}
