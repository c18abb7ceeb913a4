//! `sprof diff` with a profile that a server keeps: Pyroscope by `QuerierService/SelectMergeProfile` of
//! querier/v1/querier.proto, Parca by `Query` of parca/query/v1alpha1/query.proto.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use base64::Engine as _;
use percent_encoding::percent_decode_str;
use prost::Message;
use serde_json::{Value, json};

use crate::push::{SECRET, StandIn, parca, text};
use crate::support::schema::parsed;
use crate::support::{sprof, temp_dir};

/// Field numbers and types as querier.proto has them.
#[derive(PartialEq, Message)]
struct SelectMergeProfileRequest {
    #[prost(string, tag = "1")]
    profile_type_id: String,
    #[prost(string, tag = "2")]
    label_selector: String,
    #[prost(int64, tag = "3")]
    start: i64,
    #[prost(int64, tag = "4")]
    end: i64,
    #[prost(int64, optional, tag = "5")]
    max_nodes: Option<i64>,
}

/// A recording with so many ms of CPU time in `work` and in `main`, and a wait, which is no CPU time.
fn recording(dir: &Path, name: &str, work: usize, main: usize) -> PathBuf {
    let stacks = [vec![1; work], vec![0; main]].concat();
    let profile = json!({
        "meta": {"preprocessedProfileVersion": 60, "product": "app", "startTime": 1_700_000_000_000_u64, "interval": 1,
                 "symbolicated": true, "categories": [{"name": "Other", "color": "grey", "subcategories": ["Other"]}]},
        "libs": [],
        "shared": {
            "stringArray": ["main", "work"],
            "stackTable": {"frame": [0, 1], "prefix": [null, 0], "length": 2},
            "frameTable": {"func": [0, 1], "line": [1, 2], "category": [0, 0], "subcategory": [0, 0], "address": [-1, -1],
                           "inlineDepth": [0, 0], "length": 2},
            "funcTable": {"name": [0, 1], "resource": [-1, -1], "source": [null, null], "length": 2},
            "resourceTable": {"lib": [], "name": [], "host": [], "type": [], "length": 0},
            "sources": {"filename": [], "length": 0},
        },
        "threads": [{"name": "app", "processName": "app", "pid": "7", "tid": 7, "markers": {"length": 0},
                     "samples": {"length": stacks.len(), "stack": stacks, "time": (1..=stacks.len()).collect::<Vec<_>>(),
                                 "weight": vec![1; stacks.len()], "weightType": "tracing-ms"}}],
    });
    let path = dir.join(name);
    std::fs::write(&path, profile.to_string()).unwrap();
    path
}

/// What a server has of a service: an hour with a quarter of the time in `main`, as pprof.
fn kept(dir: &Path) -> Vec<u8> {
    let output = sprof()
        .arg("export")
        .arg(recording(dir, "kept.json", 3000, 1000))
        .args(["-q", "-f", "pprof"])
        .output()
        .unwrap();
    let mut plain = Vec::new();
    flate2::read::GzDecoder::new(&*output.stdout)
        .read_to_end(&mut plain)
        .unwrap();
    plain
}

fn diff(files: [&Path; 2], options: &[&str]) -> Output {
    let mut command = sprof();
    command
        .arg("diff")
        .args(files)
        .args(options)
        .env_remove("HTTP_PROXY")
        .env_remove("http_proxy");
    for kind in ["PYROSCOPE", "PARCA"] {
        command.env(
            format!("SPROF_{kind}_HEADERS"),
            format!("Authorization=Bearer%20{SECRET}"),
        );
    }
    let output = command.output().unwrap();
    let shown = [&output.stdout[..], &output.stderr].concat();
    let shown = String::from_utf8_lossy(&shown);
    assert!(!shown.contains(SECRET) && !shown.contains("panicked"), "{shown}");
    output
}

/// Shares of functions before and after, in percent.
fn shares(output: &Output) -> BTreeMap<String, (i64, i64)> {
    assert!(output.status.success(), "{}", text(output));
    let json: Value = parsed(&output.stdout);
    let percent = |share: &Value| (100.0 * share.as_f64().unwrap()).round() as i64;
    let changes = json["changes"].as_array().unwrap().iter();
    let shares = |change: &Value| (percent(&change["base"]["share"]), percent(&change["new"]["share"]));
    changes
        .map(|change| (change["function"].as_str().unwrap().to_owned(), shares(change)))
        .collect()
}

#[test]
fn a_profile_of_pyroscope_is_compared_with_a_recording_by_shares() {
    let dir = temp_dir();
    let new = recording(dir.path(), "new.json", 2, 2);
    let server = StandIn::start("200 OK", kept(dir.path()));
    let query = |rest: &str| PathBuf::from(format!("pyroscope={}/base?query={rest}", server.url));
    let asked =
        query("process_cpu:cpu:nanoseconds:cpu:nanoseconds%7Bservice_name=\"app\"%7D&from=1700000000&until=1700003600");
    let output = diff([&asked, &new], &["-f", "json"]);
    let expected = [("main", (25, 50)), ("work", (75, 50))].map(|(name, shares)| (name.to_owned(), shares));
    assert_eq!(shares(&output), BTreeMap::from(expected));
    assert!(
        text(&output).contains("has sent a profile of {service_name=\"app\"}"),
        "{}",
        text(&output)
    );
    let [posted] = &server.posted()[..] else {
        panic!("one request")
    };
    assert_eq!(posted.line, "POST /base/querier.v1.QuerierService/SelectMergeProfile");
    assert_eq!(posted.headers["content-type"], "application/proto");
    assert_eq!(posted.headers["connect-protocol-version"], "1");
    assert_eq!(posted.headers["authorization"], format!("Bearer {SECRET}"));
    let request = SelectMergeProfileRequest::decode(&*posted.body).unwrap();
    let expected = SelectMergeProfileRequest {
        profile_type_id: "process_cpu:cpu:nanoseconds:cpu:nanoseconds".to_owned(),
        label_selector: "{service_name=\"app\"}".to_owned(),
        start: 1_700_000_000_000,
        end: 1_700_003_600_000,
        max_nodes: None,
    };
    assert_eq!(request, expected);
    // Whatever the message has beside these fields would be lost.
    assert_eq!(expected.encode_to_vec(), posted.body);

    let json: Value = parsed(&output.stdout);
    assert!(
        json["scaled"].as_str().unwrap().contains("shares are compared"),
        "{json}"
    );

    // The other way round, with the defaults; the text says that shares are compared.
    let output = diff([&new, &query("{service_name=\"app\"}")], &[]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success() && said.contains("after is 4.00 s at a server") && said.contains("shares are compared"),
        "{said}"
    );
    let request = SelectMergeProfileRequest::decode(&*server.posted()[1].body).unwrap();
    assert_eq!(request.profile_type_id, expected.profile_type_id);
    assert_eq!(request.end - request.start, 3_600_000);
    // And on both sides.
    let both = diff([&asked, &query("%7B%7D")], &["-f", "json"]);
    assert!(shares(&both).is_empty());
}

#[test]
fn a_profile_of_parca_is_compared_with_a_recording() {
    let dir = temp_dir();
    let new = recording(dir.path(), "new.json", 2, 2);
    let mut packed = Vec::new();
    flate2::read::GzEncoder::new(&*kept(dir.path()), flate2::Compression::fast())
        .read_to_end(&mut packed)
        .unwrap();
    let reply = json!({"pprof": base64::prelude::BASE64_STANDARD.encode(packed), "total": "4000000000"});
    let reply = parca("QueryResponse", &reply, dir.path()).unwrap_or(reply);
    let server = StandIn::start("200 OK", reply.to_string().into_bytes());
    let asked = PathBuf::from(format!(
        "parca={}?query=%7Bservice_name=\"app\"%7D&from=1700000000&until=1700003600",
        server.url
    ));
    let output = diff([&asked, &new], &["-f", "json"]);
    assert_eq!(shares(&output)["main"], (25, 50));
    let [posted] = &server.posted()[..] else {
        panic!("one request")
    };
    assert_eq!(posted.headers["authorization"], format!("Bearer {SECRET}"));
    let query = posted.line.strip_prefix("GET /api/profiles/query?").unwrap();
    // Names with a dot are fields of a nested message.
    let mut request = json!({});
    for pair in query.split('&') {
        let (name, value) = pair.split_once('=').unwrap();
        let value = percent_decode_str(value).decode_utf8().unwrap();
        let pointer = name.split('.').fold(&mut request, |at, name| &mut at[name]);
        *pointer = json!(value);
    }
    let expected = json!({
        "mode": "MODE_MERGE",
        "merge": {
            "query": "process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta{service_name=\"app\"}",
            "start": "2023-11-14T22:13:20Z",
            "end": "2023-11-14T23:13:20Z",
        },
        "report_type": "REPORT_TYPE_PPROF",
    });
    assert_eq!(request, expected);
    if let Some(read) = parca("QueryRequest", &request, dir.path()) {
        assert_eq!(
            (&read["merge"], &read["reportType"]),
            (&expected["merge"], &expected["report_type"])
        );
    }
}

#[test]
fn a_server_that_fails_or_lies_is_named_with_the_cause() {
    let dir = temp_dir();
    let new = recording(dir.path(), "new.json", 2, 2);
    for (kind, status, reply, expected) in [
        (
            "pyroscope",
            "401 Unauthorized",
            "no \u{1b}[2Jentry",
            "SPROF_PYROSCOPE_HEADERS",
        ),
        ("parca", "404 Not Found", "{\"message\":\"no data\"}", "no data"),
        ("pyroscope", "500 Internal Server Error", "disk", "500"),
        ("pyroscope", "302 Found", "", "302"),
        ("pyroscope", "200 OK", "", "has no profile of that name in that time"),
        ("pyroscope", "200 OK", "<html>Sign in</html>", "not a profile of pprof"),
        // A folded stack is a profile, too, but no server's reply.
        ("pyroscope", "200 OK", "main;work 3", "not a profile of pprof"),
        ("parca", "200 OK", "<html>Sign in</html>", "holds no profile"),
        ("parca", "200 OK", "{\"flamegraph\":{}}", "holds no profile"),
        ("parca", "200 OK", "{\"pprof\":\"%\"}", "not base64"),
        (
            "parca",
            "200 OK",
            "{\"pprof\":\"\"}",
            "has no profile of that name in that time",
        ),
        ("pyroscope", "", "", "closed without a reply"),
    ] {
        let server = StandIn::start(status, reply.as_bytes().to_vec());
        let asked = PathBuf::from(format!("{kind}={}?query={{}}", server.url));
        let output = diff([&asked, &new], &["-v"]);
        let said = text(&output);
        assert_eq!(output.status.code(), Some(125), "{status} {reply}: {said}");
        assert!(
            said.contains(expected) && said.contains(&server.url),
            "{status} {reply}: {said}"
        );
        assert!(!said.contains('\u{1b}') && output.stdout.is_empty(), "{said:?}");
        assert_eq!(server.posted().len(), 1, "{status}");
    }
    // A profile that is cut off on its way.
    let mut cut = kept(dir.path());
    cut.truncate(cut.len() / 2);
    let server = StandIn::start("200 OK", cut);
    let asked = PathBuf::from(format!("pyroscope={}?query={{}}", server.url));
    let output = diff([&asked, &new], &[]);
    assert_eq!(output.status.code(), Some(125), "{}", text(&output));
    for (word, expected) in [
        ("pyroscope=http://example.org?query={}", "`sprof diff --plain-http`"),
        ("pyroscope=https://me:hunter2@example.org?query={}", "password"),
        ("pyroscope=http://localhost:1", "which profile"),
        ("otlp=http://localhost:1?query={}", "OpenTelemetry"),
    ] {
        let output = diff([Path::new(word), &new], &[]);
        let said = text(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(expected) && !said.contains("hunter2"), "{said}");
    }
}

#[test]
fn ctrl_c_ends_a_question() {
    let dir = temp_dir();
    let new = recording(dir.path(), "new.json", 2, 2);
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let child = sprof()
        .arg("diff")
        .arg(new)
        .arg(format!("parca=http://{}?query={{}}", silent.local_addr().unwrap()))
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let stream = silent.accept().unwrap();
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(killed.unwrap().success());
    let output = child.wait_with_output().unwrap();
    drop(stream);
    assert_eq!(output.status.code(), Some(125), "{}", text(&output));
    assert!(text(&output).contains("ended by Ctrl-C"), "{}", text(&output));
}

#[test]
fn a_file_of_pprof_is_compared_with_a_recording() {
    let dir = temp_dir();
    let (old, new) = (dir.path().join("old.pb"), recording(dir.path(), "new.json", 3000, 2000));
    std::fs::write(&old, kept(dir.path())).unwrap();
    let output = diff([&old, &new], &["-f", "json"]);
    assert_eq!(shares(&output), BTreeMap::from([("main".to_owned(), (25, 40))]));
}
