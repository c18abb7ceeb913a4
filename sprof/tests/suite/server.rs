//! The local server, over real sockets: who may ask what, and what comes back for requests that are wrong.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};

use crate::support::machine;

const UI: &str = "https://profiler.firefox.com";

/// `sprof load` at work; ends with this.
pub(crate) struct Served {
    child: Child,
    pub(crate) address: SocketAddr,
    pub(crate) token: String,
    pub(crate) link: String,
    folder: tempfile::TempDir,
}

impl Served {
    pub(crate) fn start(profile: &[u8], name: &str, options: &[&str]) -> Served {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, profile).unwrap();
        let file = path.to_str().unwrap();
        let words = [&["load", "--no-open", "--port", "0"], options, &[file]].concat();
        let (child, link) = Served::launch(&words, &[], |word| word.contains("/from-url/"));
        let server = link
            .split("symbolServer=")
            .nth(1)
            .unwrap()
            .replace("%3A", ":")
            .replace("%2F", "/");
        let (address, token) = server.strip_prefix("http://").unwrap().split_once('/').unwrap();
        Served {
            child,
            address: address.parse().unwrap(),
            token: token.to_owned(),
            link,
            folder,
        }
    }

    /// `sprof serve` of a folder.
    pub(crate) fn of_folder(folder: tempfile::TempDir, options: &[&str]) -> Served {
        let dir = folder.path().to_str().unwrap().to_owned();
        Served::of(&dir, folder, &[], options)
    }

    /// `sprof serve` of a folder or a bucket, with variables of the environment.
    pub(crate) fn of(place: &str, folder: tempfile::TempDir, variables: &[(&str, &str)], options: &[&str]) -> Served {
        let words = [&["serve", "--port", "0", place], options].concat();
        let (child, link) = Served::launch(&words, variables, |word| word.contains("://") && word.ends_with('/'));
        let (_, rest) = link.split_once("://").unwrap();
        let (address, token) = rest.trim_end_matches('/').split_once('/').unwrap();
        let (_, port) = address.rsplit_once(':').unwrap();
        Served {
            child,
            address: SocketAddr::from(([127, 0, 0, 1], port.parse().unwrap())),
            token: token.to_owned(),
            link,
            folder,
        }
    }

    /// Starts sprof, and waits for the link.
    fn launch(words: &[&str], variables: &[(&str, &str)], is_link: impl Fn(&str) -> bool) -> (Child, String) {
        machine::share();
        // Also a server in a static, which is never dropped, must end: the shell notices that its stdin is closed.
        let mut command = Command::new("sh");
        command.args(["-c", r#""$@" & cat; kill $!"#, "sh", env!("CARGO_BIN_EXE_sprof")]);
        for variable in ["CI", "SSH_CONNECTION", "DISPLAY", "WAYLAND_DISPLAY", "PROFILER_URL"] {
            command.env_remove(variable);
        }
        command.args(words).envs(variables.iter().copied());
        let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let link = loop {
            let mut line = String::new();
            assert!(stderr.read_line(&mut line).unwrap() > 0, "sprof ended: {said}");
            said.push_str(&line);
            if let Some(link) = line.split_whitespace().find(|word| is_link(word)) {
                break link.to_owned();
            }
        };
        std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
        (child, link)
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Sends these bytes and reads until the server closes.
    pub(crate) fn raw(&self, request: &[u8]) -> Vec<u8> {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        // The server may answer and close before it has read everything.
        let _ = stream.write_all(request);
        let _ = stream.shutdown(Shutdown::Write);
        let mut reply = Vec::new();
        let _ = stream.read_to_end(&mut reply);
        reply
    }

    pub(crate) fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
        let mut request = format!("{method} {path} HTTP/1.1\r\n");
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            request.push_str(&format!("Host: {}\r\n", self.address));
        }
        for (name, value) in headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        if !body.is_empty() {
            request.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        request.push_str("\r\n");
        let mut request = request.into_bytes();
        request.extend_from_slice(body);
        Reply::parse(&self.raw(&request))
    }

    pub(crate) fn get(&self, path: &str) -> Reply {
        self.ask("GET", path, &[], b"")
    }

    pub(crate) fn secret(&self, path: &str) -> String {
        format!("/{}{path}", self.token)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn parse(bytes: &[u8]) -> Reply {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
        let end = end.unwrap_or_else(|| panic!("no reply: {:?}", String::from_utf8_lossy(bytes)));
        let head = std::str::from_utf8(&bytes[..end]).unwrap();
        let mut lines = head.lines();
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers = lines
            .map(|line| line.split_once(": ").unwrap())
            .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
            .collect();
        Reply {
            status,
            headers,
            body: bytes[end + 4..].to_vec(),
        }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    /// The text of `{"error": text}`.
    fn error(&self) -> String {
        assert_eq!(self.header("content-type"), Some("application/json"), "{self:?}");
        let value: Value = serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"));
        value["error"].as_str().unwrap_or_else(|| panic!("{self:?}")).to_owned()
    }
}

/// The smallest profile that has all that a front end looks for.
fn profile() -> Vec<u8> {
    json!({
        "meta": {
            "version": 30, "preprocessedProfileVersion": 60, "product": "small", "interval": 1, "startTime": 0,
            "processType": 0, "stackwalk": 1, "categories": [], "markerSchema": [], "symbolicated": false,
        },
        "libs": [{
            "name": "small", "path": "/nowhere/small", "debugName": "small", "debugPath": "/nowhere/small",
            "breakpadId": "0".repeat(33), "codeId": null, "arch": "x86_64",
        }],
        "threads": [],
        "shared": {},
    })
    .to_string()
    .into_bytes()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// One server for the tests that only ask.
fn shared() -> &'static Served {
    static SHARED: OnceLock<Served> = OnceLock::new();
    // A test that only asks takes CPU time from one that measures.
    machine::share();
    SHARED.get_or_init(|| Served::start(&gzip(&profile()), "small.json.gz", &[]))
}

#[test]
fn the_link_names_profile_and_symbol_server() {
    let served = shared();
    let base = format!("http%3A%2F%2F127.0.0.1%3A{}%2F{}", served.address.port(), served.token);
    assert_eq!(
        served.link,
        format!("{UI}/from-url/{base}%2Fprofile.json/?symbolServer={base}")
    );
    assert!(served.token.len() >= 32);
}

#[test]
fn the_profile_comes_as_it_is_on_disk() {
    let served = shared();
    let path = served.secret("/profile.json");
    let packed = served.ask("GET", &path, &[("Accept-Encoding", "gzip")], b"");
    assert_eq!(packed.status, 200);
    assert_eq!(packed.header("content-encoding"), Some("gzip"));
    assert_eq!(packed.header("content-type"), Some("application/json"));
    assert_eq!(packed.body, gzip(&profile()));

    let as_file = served.get(&path);
    assert_eq!(as_file.header("content-encoding"), None);
    assert_eq!(as_file.body, packed.body);

    let head = served.ask("HEAD", &path, &[], b"");
    assert_eq!((head.status, head.body.len()), (200, 0));
    assert_eq!(
        head.header("content-length"),
        Some(packed.body.len().to_string().as_str())
    );

    let plain = Served::start(&profile(), "small.json", &[]);
    let reply = plain.get(&plain.secret("/profile.json"));
    assert_eq!(reply.header("content-encoding"), None);
    assert_eq!(reply.body, profile());
}

#[test]
fn a_name_that_points_at_us_is_refused() {
    let served = shared();
    let path = served.secret("/profile.json");
    for host in [
        "evil.example",
        "evil.example:3000",
        "127.0.0.1.evil.example",
        "10.0.0.1",
        "",
    ] {
        let reply = served.ask("GET", &path, &[("Host", host)], b"");
        assert_eq!(reply.status, 403, "{host}");
        assert!(reply.error().contains("Host"));
        assert_eq!(reply.header("access-control-allow-origin"), None);
    }
    for host in ["localhost", "127.0.0.1", "127.0.0.1:9", "[::1]:3000"] {
        assert_eq!(served.ask("GET", &path, &[("Host", host)], b"").status, 200, "{host}");
    }
    let absolute = served.ask("GET", &format!("http://evil.example{path}"), &[], b"");
    assert_eq!(absolute.status, 403);
    let none = Reply::parse(&served.raw(format!("GET {path} HTTP/1.1\r\n\r\n").as_bytes()));
    assert_eq!(none.status, 403);
    let twice = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n");
    assert!(matches!(Reply::parse(&served.raw(twice.as_bytes())).status, 400 | 403));
}

#[test]
fn without_the_token_there_is_nothing() {
    let served = shared();
    let front = served.get("/");
    assert_eq!(front.status, 200);
    assert!(!String::from_utf8_lossy(&front.body).contains(&served.token));
    let wrong = "0".repeat(served.token.len());
    for path in [
        "/profile.json".to_owned(),
        "//profile.json".to_owned(),
        format!("/{wrong}/profile.json"),
        format!("/{}x/profile.json", served.token),
        format!("/{}", served.token),
        served.secret("/"),
        served.secret("/none"),
        served.secret("//profile.json"),
        served.secret("/../profile.json"),
        "/index.html".to_owned(),
    ] {
        let reply = served.ask("GET", &path, &[("Origin", UI)], b"");
        assert_eq!(reply.status, 404, "{path}");
        assert!(!reply.error().is_empty());
        assert_eq!(reply.header("access-control-allow-origin"), None, "{path}");
        assert!(!String::from_utf8_lossy(&reply.body).contains(&served.token));
    }
}

#[test]
fn only_pages_of_the_ui_may_read_answers() {
    let served = shared();
    let path = served.secret("/profile.json");
    let allowed = served.ask("GET", &path, &[("Origin", UI)], b"");
    assert_eq!(allowed.header("access-control-allow-origin"), Some(UI));
    assert!(
        allowed
            .headers
            .iter()
            .any(|(name, value)| name == "vary" && value == "Origin")
    );
    for origin in [
        "https://evil.example",
        "null",
        "http://profiler.firefox.com",
        "https://profiler.firefox.com:8443",
    ] {
        let reply = served.ask("GET", &path, &[("Origin", origin)], b"");
        assert_eq!(reply.header("access-control-allow-origin"), None, "{origin}");
    }

    let own = Served::start(&profile(), "p.json", &["--ui-url", "http://localhost:4242/"]);
    let reply = own.ask(
        "GET",
        &own.secret("/profile.json"),
        &[("Origin", "http://localhost:4242")],
        b"",
    );
    assert_eq!(
        reply.header("access-control-allow-origin"),
        Some("http://localhost:4242")
    );
    assert!(own.link.starts_with("http://localhost:4242/from-url/"));
}

#[test]
fn a_browser_that_asks_first_is_told_what_it_may_do() {
    let served = shared();
    let path = served.secret("/symbolicate/v5");
    let preflight = |origin: &str| {
        let headers = [
            ("Origin", origin),
            ("Access-Control-Request-Method", "POST"),
            ("Access-Control-Request-Headers", "user-agent"),
            ("Access-Control-Request-Private-Network", "true"),
        ];
        served.ask("OPTIONS", &path, &headers, b"")
    };
    let reply = preflight(UI);
    assert_eq!(reply.status, 204);
    assert_eq!(reply.header("access-control-allow-origin"), Some(UI));
    assert!(reply.header("access-control-allow-methods").unwrap().contains("POST"));
    assert!(
        reply
            .header("access-control-allow-headers")
            .unwrap()
            .contains("user-agent")
    );
    assert_eq!(reply.header("access-control-allow-private-network"), Some("true"));
    let reply = preflight("https://evil.example");
    assert!(
        reply
            .headers
            .iter()
            .all(|(name, _)| !name.starts_with("access-control")),
        "{reply:?}"
    );
}

#[test]
fn symbol_requests_are_answered_with_json_whatever_they_hold() {
    let served = shared();
    let ask = |path: &str, body: &[u8]| served.ask("POST", &served.secret(path), &[("Origin", UI)], body);
    let body = json!({"jobs": [{"memoryMap": [["small", "0".repeat(33)]], "stacks": [[[0, 4096]]]}]}).to_string();
    let reply = ask("/symbolicate/v5", body.as_bytes());
    assert_eq!(reply.status, 200, "{reply:?}");
    assert!(serde_json::from_slice::<Value>(&reply.body).unwrap()["results"].is_array());
    for path in ["/symbolicate/v5", "/source/v1", "/asm/v1"] {
        for body in ["", "{", "[]", "null", "{\"jobs\":7}", "\u{0}", "\"\\ud800\""] {
            let reply = ask(path, body.as_bytes());
            // The UI drops the body of any other reply.
            assert_eq!(reply.status, 200, "{path} {body:?}: {reply:?}");
            assert!(!reply.error().is_empty());
            assert_eq!(reply.header("access-control-allow-origin"), Some(UI));
        }
    }
}

#[test]
fn wrong_methods_are_told_the_right_ones() {
    let served = shared();
    for (method, path, allowed) in [
        ("POST", "/profile.json", "GET, HEAD, OPTIONS"),
        ("DELETE", "/profile.json", "GET, HEAD, OPTIONS"),
        ("GET", "/symbolicate/v5", "POST, OPTIONS"),
        ("BREW", "/asm/v1", "POST, OPTIONS"),
    ] {
        let reply = served.ask(method, &served.secret(path), &[], b"");
        assert_eq!(reply.status, 405, "{method} {path}");
        assert_eq!(reply.header("allow"), Some(allowed));
        assert!(!reply.error().is_empty());
    }
}

#[test]
fn a_body_that_is_too_long_is_refused_and_the_server_goes_on() {
    let served = shared();
    let body = vec![b' '; (16 << 20) + 1];
    let reply = served.ask("POST", &served.secret("/symbolicate/v5"), &[], &body);
    assert_eq!(reply.status, 413);
    assert!(reply.error().contains("16 MiB"));
    // Announced, never sent.
    let head = format!(
        "POST {} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999\r\n\r\n",
        served.secret("/symbolicate/v5")
    );
    let reply = served.raw(head.as_bytes());
    assert!(reply.is_empty() || (400..500).contains(&Reply::parse(&reply).status));
    assert_eq!(served.get("/").status, 200);
}

#[test]
fn what_is_not_http_gets_a_json_error() {
    let served = shared();
    let long_header = format!(
        "GET / HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n",
        "x".repeat(200_000)
    );
    let long_path = format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "x".repeat(100_000));
    for request in [
        "hello\r\n\r\n",
        "GET\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
        "GET / HTTP/1.1\r\nno colon\r\n\r\n",
        "\u{16}\u{3}\u{1}\u{2}\u{0}\u{1}\r\n\r\n",
        "GET /a b c HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        &long_header,
        &long_path,
    ] {
        let reply = Reply::parse(&served.raw(request.as_bytes()));
        let start: String = request.chars().take(60).collect();
        assert!((400..500).contains(&reply.status), "{start:?}: {reply:?}");
        assert!(!reply.error().is_empty());
    }
}

#[test]
fn idle_clients_do_not_keep_others_waiting() {
    let served = shared();
    let idle: Vec<TcpStream> = (0..40)
        .map(|_| {
            let mut stream = TcpStream::connect(served.address).unwrap();
            stream.write_all(b"GET / HT").unwrap();
            stream
        })
        .collect();
    assert_eq!(served.get("/").status, 200);
    drop(idle);
}

/// More clients that say nothing than the 128 that may be open at the same time: the server closes the oldest, and not
/// those that came last. If the server accepts slowly, the kernel's queue is full, and a client waits for a second. The
/// server closes every silent client after 10 s. So there are no more clients than needed.
pub(crate) fn assert_idle_clients_make_room(served: &Served) {
    const CLIENTS: usize = 300;
    // For this test and for others at once. Their children inherit the limit, and some programs close every number up
    // to it, so it is no higher than needed.
    const FILES: u64 = 8192;
    let limits = getrlimit(Resource::Nofile);
    if limits.current.is_some_and(|current| current < FILES) {
        let more = Rlimit {
            current: Some(limits.maximum.map_or(FILES, |most| most.min(FILES))),
            ..limits
        };
        setrlimit(Resource::Nofile, more).unwrap();
    }
    let connect = |_| TcpStream::connect(served.address).unwrap();
    let silent: Vec<TcpStream> = (0..CLIENTS).map(connect).collect();
    assert_eq!(served.get("/").status, 200);
    let is_open = |mut stream: &TcpStream| {
        stream.set_nonblocking(true).unwrap();
        matches!(stream.read(&mut [0]), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
    };
    assert!(!is_open(&silent[0]));
    assert!(is_open(&silent[CLIENTS - 50]));
}

/// A body that never ends is read up to a limit, and the server goes on.
pub(crate) fn assert_endless_bodies_end(served: &Served, path: &str) {
    const MORE_THAN_IS_READ: usize = 256 << 20;
    let mut stream = TcpStream::connect(served.address).unwrap();
    let head = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let chunk = [b"10000\r\n", &[b' '; 1 << 16][..], b"\r\n"].concat();
    let mut written = 0;
    while written < MORE_THAN_IS_READ && stream.write_all(&chunk).is_ok() {
        written += chunk.len();
    }
    assert!(written < MORE_THAN_IS_READ);
    assert_eq!(served.get("/").status, 200);
}

#[test]
fn idle_clients_and_endless_bodies_keep_nobody_waiting() {
    let served = Served::start(&gzip(&profile()), "small.json.gz", &[]);
    assert_idle_clients_make_room(&served);
    assert_endless_bodies_end(&served, &served.secret("/symbolicate/v5"));
    assert_endless_bodies_end(&served, &served.secret("/profile.json"));
    assert_endless_bodies_end(&served, "/");
}

fn built_ui(root: &Path) {
    std::fs::create_dir_all(root.join("assets")).unwrap();
    std::fs::write(root.join("index.html"), "the page").unwrap();
    std::fs::write(root.join("assets/app.js"), "the script").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", root.join("assets/link.txt")).unwrap();
}

#[test]
fn a_ui_of_one_s_own_is_served_from_the_same_origin() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("dist");
    std::fs::create_dir(&root).unwrap();
    built_ui(&root);
    std::fs::write(folder.path().join("secret.txt"), "secret").unwrap();
    let served = Served::start(&profile(), "p.json", &["--ui-dir", root.to_str().unwrap()]);
    assert!(
        served.link.starts_with(&format!("http://{}/from-url/", served.address)),
        "{}",
        served.link
    );

    let page = served.link.strip_prefix(&format!("http://{}", served.address)).unwrap();
    for path in ["/", page, "/compare/", "/index.html"] {
        let reply = served.ask("GET", path, &[("Accept", "text/html")], b"");
        assert_eq!((reply.status, &*reply.body), (200, &b"the page"[..]), "{path}");
        assert_eq!(reply.header("content-type"), Some("text/html; charset=utf-8"));
    }
    let script = served.get("/assets/app.js");
    assert_eq!((script.status, &*script.body), (200, &b"the script"[..]));
    assert_eq!(served.get("/assets/none.js").status, 404);
    assert_eq!(served.get(&served.secret("/profile.json")).body, profile());
    let other = served.ask("GET", &served.secret("/profile.json"), &[("Origin", UI)], b"");
    assert_eq!(other.header("access-control-allow-origin"), None);

    for path in [
        "/../secret.txt",
        "/assets/../../secret.txt",
        "/%2e%2e/secret.txt",
        "/..%2fsecret.txt",
        "/assets/link.txt",
        "//etc/passwd.txt",
        "/assets/..%5c..%5csecret.txt",
        "/%00.txt",
    ] {
        let reply = served.get(path);
        assert_eq!(reply.status, 404, "{path}: {:?}", String::from_utf8_lossy(&reply.body));
    }
}

proptest! {
    // The same cases in each run.
    #![proptest_config(ProptestConfig {
        rng_seed: proptest::test_runner::RngSeed::Fixed(1),
        failure_persistence: None,
        ..ProptestConfig::with_cases(200)
    })]

    #[test]
    fn any_bytes_get_an_error_or_the_front_page(bytes in proptest::collection::vec(any::<u8>(), 1..600)) {
        let served = shared();
        let reply = served.raw(&bytes);
        if !reply.is_empty() {
            let reply = Reply::parse(&reply);
            prop_assert!((400..500).contains(&reply.status), "{:?}", reply);
            reply.error();
        }
    }

    #[test]
    fn any_path_and_header_get_an_answer(
        path in "/[ -~]{0,80}",
        name in "[!#$%&'*+.^_`|~0-9A-Za-z-]{1,20}",
        value in "[\t -~\u{80}-\u{ff}]{0,80}",
    ) {
        let served = shared();
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{name}: {value}\r\n\r\n");
        let reply = Reply::parse(&served.raw(request.as_bytes()));
        prop_assert!((200..500).contains(&reply.status));
        prop_assert!(!String::from_utf8_lossy(&reply.body).contains(&served.token));
    }

    #[test]
    fn any_symbol_request_is_answered_with_json(body in proptest::collection::vec(any::<u8>(), 0..300)) {
        let served = shared();
        for path in ["/symbolicate/v5", "/source/v1", "/asm/v1"] {
            let reply = served.ask("POST", &served.secret(path), &[], &body);
            prop_assert!(serde_json::from_slice::<Value>(&reply.body).is_ok(), "{:?}", reply);
        }
    }
}
