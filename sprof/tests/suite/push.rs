//! `sprof push`, against stand-ins that take what the protocols of Pyroscope, Parca and OpenTelemetry allow, and
//! nothing else. What Parca and OpenTelemetry get is read by messages that are generated from their published protos;
//! Pyroscope publishes none in a package for that.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::support::client::script;
use crate::support::skip::{self, perf_events};
use crate::support::store::NOBODY_LISTENS;
use crate::support::{copy_program, program, sprof, temp_dir, tests_dir};

/// A request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Posted {
    /// Method and path.
    pub(crate) line: String,
    /// Names in lower case.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

/// A server that replies the same to everything, and keeps what came.
pub(crate) struct StandIn {
    pub(crate) url: String,
    posted: Arc<Mutex<Vec<Posted>>>,
}

impl StandIn {
    /// `status` is `200 OK`; an empty one closes the connection without a reply.
    pub(crate) fn start(status: &'static str, reply: Vec<u8>) -> StandIn {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let posted: Arc<Mutex<Vec<Posted>>> = Arc::default();
        let log = posted.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                answer(stream, &log, status, &reply);
            }
        });
        StandIn { url, posted }
    }

    pub(crate) fn posted(&self) -> Vec<Posted> {
        self.posted.lock().unwrap().clone()
    }
}

fn answer(mut stream: TcpStream, log: &Mutex<Vec<Posted>>, status: &str, reply: &[u8]) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    let mut headers = BTreeMap::new();
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).unwrap();
        let Some((name, value)) = header.trim_end().split_once(": ") else {
            break;
        };
        headers.insert(name.to_lowercase(), value.to_owned());
    }
    let size = headers.get("content-length").map_or(0, |size| size.parse().unwrap());
    let mut body = vec![0; size];
    reader.read_exact(&mut body).unwrap();
    let line = line.trim_end().trim_end_matches(" HTTP/1.1").to_owned();
    log.lock().unwrap().push(Posted { line, headers, body });
    if !status.is_empty() {
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            reply.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(reply).unwrap();
    }
}

/// 3 ms of `work` below `main` in two threads, and 1 ms in `main`, which alone has source lines.
pub(crate) fn profile(dir: &Path) -> PathBuf {
    let thread = |tid: u32, stack: &[u32]| {
        json!({"name": "app", "processName": "app", "pid": "7", "tid": tid, "markers": {"length": 0},
               "samples": {"length": stack.len(), "stack": stack, "time": (1..=stack.len()).collect::<Vec<_>>(),
                           "weight": vec![1; stack.len()], "weightType": "tracing-ms"}})
    };
    let profile = json!({
        "meta": {"preprocessedProfileVersion": 60, "product": "app", "startTime": 1_700_000_000_000_u64, "interval": 1,
                 "symbolicated": true, "categories": [{"name": "Other", "color": "grey", "subcategories": ["Other"]}]},
        "libs": [],
        "shared": {
            "stringArray": ["main", "work", "/home/secret-user/app/main.c"],
            "stackTable": {"frame": [0, 1], "prefix": [null, 0], "length": 2},
            "frameTable": {"func": [0, 1], "line": [1, 2], "category": [0, 0], "subcategory": [0, 0], "address": [-1, -1],
                           "inlineDepth": [0, 0], "length": 2},
            "funcTable": {"name": [0, 1], "resource": [-1, -1], "source": [0, null], "length": 2},
            "resourceTable": {"lib": [], "name": [], "host": [], "type": [], "length": 0},
            "sources": {"filename": [2], "length": 1},
        },
        "threads": [thread(7, &[1, 1, 0]), thread(8, &[1])],
    });
    let path = dir.join("app.json");
    std::fs::write(&path, profile.to_string()).unwrap();
    path
}

pub(crate) const SECRET: &str = "hidden-7f3a";

fn push(file: &Path, servers: &[String], options: &[&str]) -> Output {
    let mut command = sprof();
    for variable in [
        "OTEL_SERVICE_NAME",
        "OTEL_RESOURCE_ATTRIBUTES",
        "GITHUB_SHA",
        "CI_COMMIT_SHA",
        "GIT_COMMIT",
        "HTTP_PROXY",
        "http_proxy",
    ] {
        command.env_remove(variable);
    }
    command.arg("push").arg(file);
    for server in servers {
        command.args(["--to", server]);
    }
    for kind in ["PYROSCOPE", "PARCA", "OTLP"] {
        let headers = format!("Authorization=Bearer%20{SECRET},X-Scope-OrgID=team");
        command.env(format!("SPROF_{kind}_HEADERS"), headers);
    }
    let output = command.args(options).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !said.contains(SECRET) && output.stdout.is_empty() && !said.contains("panicked"),
        "{said}"
    );
    output
}

pub(crate) fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The labels `{"name": .., "value": ..}` of a message, which may have no other fields.
fn labels(list: &Value) -> BTreeMap<String, String> {
    let labels = list.as_array().unwrap().iter().map(|label| {
        let label = label.as_object().unwrap();
        assert_eq!(label.len(), 2, "{label:?}");
        let text = |key: &str| label[key].as_str().unwrap().to_owned();
        (text("name"), text("value"))
    });
    let labels: Vec<_> = labels.collect();
    let map: BTreeMap<_, _> = labels.iter().cloned().collect();
    assert_eq!(map.len(), labels.len(), "a label twice: {labels:?}");
    for name in map.keys() {
        let is_allowed = |(at, c): (usize, char)| c == '_' || c.is_ascii_alphabetic() || at > 0 && c.is_ascii_digit();
        assert!(name.chars().enumerate().all(is_allowed), "{name}");
    }
    map
}

/// The keys of an object, sorted.
fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

/// Own time by function of pprof bytes, ns.
fn own_times(dir: &Path, raw: &Value) -> BTreeMap<String, u64> {
    let times = own_times_of(dir, raw);
    let mut plain = Vec::new();
    let bytes = std::fs::read(dir.join("received.pb.gz")).unwrap();
    flate2::read::GzDecoder::new(&*bytes).read_to_end(&mut plain).unwrap();
    assert!(has(&plain, b"app/main.c") && !has(&plain, b"secret-user"));
    times
}

fn own_times_of(dir: &Path, raw: &Value) -> BTreeMap<String, u64> {
    use base64::Engine as _;
    let bytes = base64::prelude::BASE64_STANDARD.decode(raw.as_str().unwrap()).unwrap();
    let path = dir.join("received.pb.gz");
    std::fs::write(&path, bytes).unwrap();
    let output = sprof()
        .arg("export")
        .arg(&path)
        .args(["-f", "folded"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output));
    let folded = String::from_utf8(output.stdout).unwrap();
    let mut times = BTreeMap::new();
    for line in folded.lines() {
        let (path, weight) = line.rsplit_once(' ').unwrap();
        let leaf = path.rsplit(';').next().unwrap();
        *times.entry(leaf.to_owned()).or_default() += weight.parse::<u64>().unwrap();
    }
    times
}

fn has(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

fn expected_times() -> BTreeMap<String, u64> {
    BTreeMap::from([("main".to_owned(), 1_000_000), ("work".to_owned(), 3_000_000)])
}

#[test]
fn pyroscope_gets_a_push_request_with_the_profile_and_its_labels() {
    let dir = temp_dir();
    let server = StandIn::start("200 OK", b"{}".to_vec());
    let to = [format!("pyroscope={}/prefix/", server.url)];
    let options = [
        "--service",
        "shop",
        "--commit",
        "2f3a",
        "--label",
        "deployment.environment=test",
    ];
    let output = push(&profile(dir.path()), &to, &options);
    let said = text(&output);
    assert!(
        output.status.success() && said.contains("has the profile of shop"),
        "{said}"
    );
    let [posted] = &server.posted()[..] else {
        panic!("one request")
    };
    assert_eq!(posted.line, "POST /prefix/push.v1.PusherService/Push");
    assert_eq!(posted.headers["content-type"], "application/json");
    assert_eq!(posted.headers["connect-protocol-version"], "1");
    assert_eq!(posted.headers["authorization"], format!("Bearer {SECRET}"));
    assert_eq!(posted.headers["x-scope-orgid"], "team");
    // Fields as push/v1/push.proto has them, in the JSON form of protobuf.
    let request: Value = serde_json::from_slice(&posted.body).unwrap();
    assert_eq!(keys(&request), ["series"]);
    let series = &request["series"][0];
    assert_eq!(keys(series), ["labels", "samples"]);
    let expected = [
        ("__name__", "process_cpu"),
        ("deployment_environment", "test"),
        ("service_git_ref", "2f3a"),
        ("service_name", "shop"),
    ];
    let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(labels(&series["labels"]), BTreeMap::from(expected));
    let sample = &series["samples"][0];
    assert_eq!(keys(sample), ["rawProfile"]);
    assert_eq!(own_times(dir.path(), &sample["rawProfile"]), expected_times());
}

#[test]
fn parca_gets_a_write_raw_request() {
    let dir = temp_dir();
    let server = StandIn::start("200 OK", b"{}".to_vec());
    let output = push(&profile(dir.path()), &[format!("parca={}", server.url)], &["--threads"]);
    assert!(output.status.success(), "{}", text(&output));
    let [posted] = &server.posted()[..] else {
        panic!("one request")
    };
    assert_eq!(posted.line, "POST /api/profiles/writeraw");
    // Fields as profilestore.proto has them.
    let request: Value = serde_json::from_slice(&posted.body).unwrap();
    assert_eq!(keys(&request), ["normalized", "series"]);
    let series = &request["series"][0];
    assert_eq!(keys(series), ["labels", "samples"]);
    assert_eq!(keys(&series["labels"]), ["labels"]);
    let labels = labels(&series["labels"]["labels"]);
    assert_eq!((&*labels["__name__"], &*labels["service_name"]), ("process_cpu", "app"));
    assert_eq!(
        own_times(dir.path(), &series["samples"][0]["rawProfile"]),
        expected_times()
    );
    let Some(read) = parca("WriteRawRequest", &request, dir.path()) else {
        return;
    };
    // Written as Parca's own client does, the message is the same.
    assert_eq!(read, request);
}

/// A message of Parca, as its published classes read and write it; `None` where they are not installed. They refuse
/// unknown fields.
pub(crate) fn parca(message: &str, json: &Value, dir: &Path) -> Option<Value> {
    let path = dir.join("message.json");
    std::fs::write(&path, json.to_string()).unwrap();
    let read = script("parca.js", &[OsStr::new(message), path.as_os_str()])?;
    Some(serde_json::from_str(&read).unwrap())
}

#[test]
fn a_collector_gets_otlp_and_what_it_refuses_is_said() {
    let dir = temp_dir();
    let file = profile(dir.path());
    let server = StandIn::start("200 OK", Vec::new());
    let output = push(&file, &[format!("otlp={}", server.url)], &[]);
    assert!(output.status.success(), "{}", text(&output));
    let [posted] = &server.posted()[..] else {
        panic!("one request")
    };
    assert_eq!(posted.line, "POST /v1development/profiles");
    assert_eq!(posted.headers["content-type"], "application/x-protobuf");
    assert_eq!(posted.headers["content-encoding"], "gzip");
    let mut sent = Vec::new();
    flate2::read::GzDecoder::new(&*posted.body)
        .read_to_end(&mut sent)
        .unwrap();
    // The exporter is tested against the published messages in the crate `profile`.
    let exported = sprof()
        .arg("export")
        .arg(&file)
        .args(["-f", "otlp"])
        .output()
        .unwrap()
        .stdout;
    assert!(has(&sent, b"app/main.c") && !has(&sent, b"secret-user") && has(&exported, b"secret-user"));
    assert_read_by_opentelemetry(&sent, dir.path());
    let output = push(&file, &[format!("otlp={}", server.url)], &["--include", "paths,names"]);
    assert!(output.status.success(), "{}", text(&output));
    let mut whole = Vec::new();
    flate2::read::GzDecoder::new(&*server.posted()[1].body)
        .read_to_end(&mut whole)
        .unwrap();
    assert_eq!(whole, exported);

    // ExportProfilesServiceResponse { partial_success { rejected_profiles: 1, error_message: "full hidden-7f3a" } }
    let refuses = StandIn::start("200 OK", b"\x0a\x14\x08\x01\x12\x10full hidden-7f3a".to_vec());
    let output = push(&file, &[format!("otlp={}", refuses.url)], &[]);
    assert!(
        !output.status.success() && text(&output).contains("full [...]"),
        "{}",
        text(&output)
    );
}

/// Reads a request by OpenTelemetry's published messages, where they are installed.
fn assert_read_by_opentelemetry(sent: &[u8], dir: &Path) {
    let python = crate::parquet::python();
    let found = Command::new(&python)
        .args(["-c", "import opentelemetry.proto, google.protobuf"])
        .stderr(Stdio::null())
        .status();
    let reason = "no opentelemetry-proto (`.ci/run client` installs it)";
    if !skip::has(
        skip::Need::Opentelemetry,
        found.is_ok_and(|status| status.success()),
        reason,
    ) {
        return;
    }
    let path = dir.join("request.otlp");
    std::fs::write(&path, sent).unwrap();
    let output = Command::new(python)
        .arg(tests_dir().join("client/otlp.py"))
        .arg(path)
        .output()
        .unwrap();
    let read: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", text(&output)));
    assert_eq!(read["labels"]["service.name"], "app");
    let times = json!([["main", "nanoseconds", 1_000_000], ["work", "nanoseconds", 3_000_000]]);
    assert_eq!(read["times"], times);
}

#[test]
fn whatever_a_server_does_nothing_is_sent_twice_and_the_others_get_it() {
    let dir = temp_dir();
    let file = profile(dir.path());
    for (status, reply, expected) in [
        ("401 Unauthorized", "no \u{1b}[2Jentry", "SPROF_..._HEADERS"),
        ("500 Internal Server Error", "disk", "may have the profile"),
        ("200 OK", "<html>Sign in</html>", "not JSON"),
        ("302 Found", "", "302"),
        ("", "", "may have the profile"),
    ] {
        let broken = StandIn::start(status, reply.as_bytes().to_vec());
        let fine = StandIn::start("200 OK", b"{}".to_vec());
        let to = [format!("pyroscope={}", broken.url), format!("parca={}", fine.url)];
        let output = push(&file, &to, &["-v"]);
        let said = text(&output);
        assert_eq!(output.status.code(), Some(125), "{status}: {said}");
        assert!(
            said.contains(expected) && said.contains("1 of 2 servers"),
            "{status}: {said}"
        );
        assert!(!said.contains('\u{1b}'), "{said:?}");
        assert_eq!((broken.posted().len(), fine.posted().len()), (1, 1), "{status}");
    }
}

#[test]
fn after_ctrl_c_the_other_servers_are_named_as_not_asked() {
    let dir = temp_dir();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let other = StandIn::start("200 OK", b"{}".to_vec());
    let child = sprof()
        .arg("push")
        .arg(profile(dir.path()))
        .args(["--to", &format!("pyroscope=http://{}", silent.local_addr().unwrap())])
        .args(["--to", &format!("parca={}", other.url)])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let stream = silent.accept().unwrap();
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(killed.unwrap().success());
    let output = child.wait_with_output().unwrap();
    drop(stream);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(125), "{said}");
    assert!(
        said.contains("Parca at http://127.0.0.1") && said.contains("was not asked"),
        "{said}"
    );
    assert!(said.contains("2 of 2 servers did not take the profile"), "{said}");
    assert!(other.posted().is_empty());
}

/// The machine's own name may have two letters, which packed numbers have by chance.
const HOST: &str = "hostplant";

/// sprof on a machine of that name, where that is permitted.
fn sprof_on_host() -> Command {
    let renamed = Command::new("unshare").args(["--uts", "hostname", HOST]).status();
    let may = renamed.is_ok_and(|status| status.success());
    if !skip::has(skip::Need::Namespaces, may, "unshare --uts is not permitted") {
        return sprof();
    }
    let own = sprof();
    let mut command = Command::new("unshare");
    let script = format!("hostname {HOST}; exec \"$0\" \"$@\"");
    command
        .args(["--uts", "sh", "-c", &script])
        .arg(own.get_program())
        .stdin(Stdio::null());
    for (name, value) in own.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}

#[test]
fn a_recording_is_pushed_when_it_is_saved_and_the_status_is_the_program_s() {
    let Some(()) = perf_events() else { return };
    let dir = temp_dir();
    let (fine, broken) = (
        StandIn::start("200 OK", b"{}".to_vec()),
        StandIn::start("500 Internal Server Error", Vec::new()),
    );
    let home = dir.path().join("home/annaplant");
    std::fs::create_dir_all(&home).unwrap();
    let copy = home.join("split");
    copy_program(program("split").unwrap(), &copy);
    let path = home.join("profile.json.gz");
    let output = sprof_on_host()
        .args(["record", "--save-only", "--include-args", "-o"])
        .arg(&path)
        .args([
            "--push",
            &format!("pyroscope={}", fine.url),
            "--push",
            &format!("otlp={}", broken.url),
            "--",
        ])
        .arg(&copy)
        .args(["300", "argumentplant"])
        .env("HOME", &home)
        .env("USER", "annaplant")
        .env("PLANT_TOKEN", "environmentplant")
        .output()
        .unwrap();
    let said = text(&output);
    assert!(output.status.success() && path.exists(), "{said}");
    assert!(
        said.contains("has the profile of split") && said.contains("1 of 2 servers"),
        "{said}"
    );
    let [posted] = &fine.posted()[..] else {
        panic!("one request")
    };
    let request: Value = serde_json::from_slice(&posted.body).unwrap();
    let times = own_times_of(dir.path(), &request["series"][0]["samples"][0]["rawProfile"]);
    assert!(
        times.keys().any(|name| name == "sixty" || name == "xorshift"),
        "{times:?}"
    );

    // Every text that was sent is searched, and nothing of the user or the machine is there.
    let mut sent = vec![serde_json::to_vec(&request["series"][0]["labels"]).unwrap()];
    let packed = std::fs::read(dir.path().join("received.pb.gz")).unwrap();
    for packed in [&packed, &broken.posted()[0].body] {
        let mut plain = Vec::new();
        flate2::read::GzDecoder::new(&**packed).read_to_end(&mut plain).unwrap();
        assert!(has(&plain, b"split"));
        sent.push(plain);
    }
    let folder = dir.path().to_str().unwrap();
    for secret in ["annaplant", "argumentplant", "environmentplant", HOST, folder] {
        assert!(!sent.iter().any(|plain| has(plain, secret.as_bytes())), "{secret}");
    }

    let refused = sprof().args(["record", "--push", "shop", "true"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused));
}

#[test]
fn what_cannot_be_pushed_is_said_before_anything_is_read() {
    let dir = temp_dir();
    let missing = dir.path().join("missing.json");
    for (to, expected) in [
        ("https://example.org", "pyroscope=URL"),
        ("pyroscope=http://example.org", "not encrypted"),
        ("pyroscope=http://example.org", "`sprof push --plain-http`"),
        ("otlp=https://me:hunter2@example.org", "password"),
        ("https://me:hunter2@example.org", "pyroscope=URL"),
        ("https://me:hunter2@example.org/?a=b", "pyroscope=URL"),
    ] {
        let output = push(&missing, &[to.to_owned()], &[]);
        let said = text(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(expected) && !said.contains("hunter2"), "{said}");
    }
    let wrong = |variable: &str, value: &[u8]| {
        let mut command = sprof();
        command
            .arg("push")
            .arg(profile(dir.path()))
            .args(["--to", &format!("otlp={NOBODY_LISTENS}")]);
        let output = command.env(variable, OsStr::from_bytes(value)).output().unwrap();
        assert_eq!(output.status.code(), Some(125), "{}", text(&output));
        text(&output)
    };
    let said = wrong("SPROF_OTLP_HEADERS", b"Host=hunter2");
    assert!(
        said.contains("SPROF_OTLP_HEADERS: part 1") && !said.contains("hunter2"),
        "{said}"
    );
    for variable in ["SPROF_OTLP_HEADERS", "OTEL_SERVICE_NAME"] {
        let said = wrong(variable, b"a=\xff");
        assert!(said.contains(&format!("{variable} is not UTF-8")), "{said}");
    }
    let output = push(&profile(dir.path()), &[format!("parca={NOBODY_LISTENS}")], &[]);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(125), "{said}");
    assert!(said.contains("refused") && !said.contains("may have"), "{said}");
}
