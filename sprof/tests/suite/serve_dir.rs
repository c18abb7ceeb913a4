//! `sprof serve`: the pages of a folder with profiles, and who may read them.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::sync::Arc;

use flate2::Compression;
use flate2::write::GzEncoder;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::{Value, json};

use crate::server::{Reply, Served, assert_endless_bodies_end, assert_idle_clients_make_room};
use crate::support::run::output;
use crate::support::schema::parsed;
use crate::support::{sprof, temp_dir, tls_dir, wait_until};

const DAY_MS: f64 = 86_400_000.0;

/// A recording that began on this day. `main` calls `hash` and `parse<T>`, `hash` calls `sort`; each has so many
/// samples of 1 ms.
pub(crate) fn profile(path: &Path, product: &str, names: [&str; 4], day: u32, own: [usize; 4]) {
    let stacks = own.iter().enumerate();
    let stacks: Vec<usize> = stacks.flat_map(|(stack, number)| vec![stack; *number]).collect();
    let profile = json!({
        "meta": {"preprocessedProfileVersion": 60, "product": product, "startTime": 1.7e12 + DAY_MS * f64::from(day), "interval": 1,
                 "symbolicated": true, "oscpu": "Linux", "categories": [{"name": "User", "color": "yellow", "subcategories": ["Other"]}],
                 "sprof": {"version": 1, "recorded": {"commit": commit(day)}}},
        "libs": [],
        "shared": {
            "stringArray": names,
            "stackTable": {"frame": [0, 1, 2, 3], "prefix": [null, 0, 0, 1], "length": 4},
            "frameTable": {"func": [0, 1, 2, 3], "line": [null, null, null, null], "category": [0, 0, 0, 0], "subcategory": [0, 0, 0, 0],
                           "address": [-1, -1, -1, -1], "inlineDepth": [0, 0, 0, 0], "length": 4},
            "funcTable": {"name": [0, 1, 2, 3], "resource": [-1, -1, -1, -1], "source": [null, null, null, null], "length": 4},
            "resourceTable": {"length": 0, "lib": [], "name": [], "host": [], "type": []},
            "sources": {"filename": [], "length": 0},
        },
        "threads": [{"name": "main", "processName": product, "pid": "1", "tid": "1", "markers": {"length": 0},
                     "samples": {"length": stacks.len(), "stack": stacks, "time": (0..stacks.len()).collect::<Vec<_>>()}}],
    });
    fs::write(path, profile.to_string()).unwrap();
}

pub(crate) const NAMES: [&str; 4] = ["main", "hash", "parse<T>", "sort"];

fn commit(day: u32) -> String {
    format!("{:040x}", 0xc0de + day)
}

/// Three days of `shop`: `hash` takes 30, 40 and 60 % of 1,000 samples by itself, and 75, 75, 80 % in all.
pub(crate) fn shop() -> tempfile::TempDir {
    let dir = temp_dir();
    fs::create_dir(dir.path().join("ci")).unwrap();
    for (day, own) in [
        (1, [50, 300, 200, 450]),
        (2, [50, 400, 200, 350]),
        (3, [50, 600, 150, 200]),
    ] {
        profile(&dir.path().join(format!("ci/{day}.json")), "shop", NAMES, day, own);
    }
    dir
}

/// The first page, once all files were read.
pub(crate) fn list(served: &Served) -> String {
    let page = || text(&served.get(&served.secret("/")));
    wait_until(|| !page().contains("not read yet"), page);
    page()
}

pub(crate) fn text(reply: &Reply) -> String {
    assert_eq!(reply.status, 200, "{reply:?}");
    String::from_utf8(reply.body.clone()).unwrap()
}

/// The id of a file in addresses.
pub(crate) fn id(list: &str, file: &str) -> String {
    let label = format!("\" aria-label=\"before: {file}\"");
    let end = list.find(&label).unwrap_or_else(|| panic!("{file}: {list}"));
    let start = list[..end].rfind('"').unwrap() + 1;
    list[start..end].to_owned()
}

/// The texts of a row's cells.
fn cells(row: &str) -> Vec<String> {
    let mut cells = Vec::new();
    for cell in row.split("<td").skip(1) {
        let cell = cell.split("</td>").next().unwrap();
        let mut plain = String::new();
        // The first is the rest of the cell's own tag.
        for part in format!("<td{cell}").split('<').skip(1) {
            plain.push_str(part.split_once('>').unwrap().1);
        }
        cells.push(plain.replace("&lt;", "<").replace("&gt;", ">").trim().to_owned());
    }
    cells
}

pub(crate) fn row<'a>(page: &'a str, part: &str) -> &'a str {
    let mut rows = page.split("<tr").filter(|row| row.contains(part));
    rows.next().unwrap_or_else(|| panic!("{part}: {page}"))
}

fn report(path: &Path) -> Value {
    let output = output(sprof().args(["report", "--format", "json"]).arg(path));
    parsed(&output.stdout)
}

#[test]
fn profiles_are_listed_newest_first_with_the_figures_of_report() {
    let dir = shop();
    fs::write(dir.path().join("broken.json"), "{\"meta\":").unwrap();
    fs::write(dir.path().join("notes.md"), "no profile").unwrap();
    fs::write(dir.path().join("large.json"), "x".repeat(200_000)).unwrap();
    symlink("/etc/passwd", dir.path().join("link.json")).unwrap();
    // A few kilobytes that unpack to 4 MB, more than 8 times --max-size.
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    let values = "1,".repeat(2_000_000);
    write!(
        packed,
        "{{\"meta\":{{\"preprocessedProfileVersion\":60}},\"x\":[{values}1]}}"
    )
    .unwrap();
    fs::write(dir.path().join("packed.json.gz"), packed.finish().unwrap()).unwrap();
    let served = Served::of_folder(dir, &["--max-size", "100k"]);
    let page = list(&served);
    let places = ["3", "2", "1"].map(|day| page.find(&format!("ci/{day}.json")).unwrap());
    assert!(places.is_sorted(), "{page}");
    let report = report(&served.folder().join("ci/3.json"));
    let cells_of = cells(row(&page, "ci/3.json"));
    let function = &report["views"][0]["rows"][0];
    let expected = [
        (4, report["profile"]["commit"].as_str().unwrap()[..12].to_owned()),
        (6, "1,000".to_owned()),
    ];
    for (column, expected) in expected {
        assert_eq!(cells_of[column], expected, "{cells_of:?}");
    }
    assert_eq!(report["selection"]["samples"], 1000);
    let share = 100.0 * function["self"]["share"].as_f64().unwrap();
    let hottest = format!("{share:.1} % {}", function["function"].as_str().unwrap());
    assert!(cells_of[7].starts_with(&hottest), "{hottest}: {cells_of:?}");
    assert_eq!(hottest, "60.0 % hash");
    // One machine recorded all: no row repeats it.
    assert_eq!(page.matches("Linux").count(), 1, "{page}");
    // Files without a profile, with reasons.
    assert_eq!(page.matches("3 files were not read").count(), 1, "{page}");
    assert!(!cells(row(&page, "broken.json"))[1].is_empty());
    assert!(cells(row(&page, "large.json"))[1].contains("larger than 100.0 kB, the limit of this server"));
    assert!(cells(row(&page, "packed.json.gz"))[1].contains("exceeds the limit"));
    assert!(!page.contains("notes.md") && !page.contains("link.json"), "{page}");
    // Filters.
    let filtered = |query: &str| text(&served.get(&served.secret(query)));
    assert!(filtered("/?program=other").contains("There is no profile here"));
    assert!(filtered("/?program=shop&machine=Linux").contains("ci/1.json"));
    // What is behind a row.
    let place = format!("/p/{}/", id(&page, "ci/3.json"));
    let get = |name: &str| served.get(&served.secret(&format!("{place}{name}")));
    assert!(text(&get("")).contains(&commit(3)));
    let file = fs::read(served.folder().join("ci/3.json")).unwrap();
    assert_eq!((&get("file").body, &get("profile.json").body), (&file, &file));
    for (name, kind) in [
        ("view/", "text/html"),
        ("view/data", "application/"),
        ("small.svg", "image/svg"),
        ("flame.svg", "image/svg"),
    ] {
        let reply = get(name);
        assert!(reply.header("content-type").unwrap().starts_with(kind), "{reply:?}");
        assert_eq!(reply.status, 200, "{name}");
    }
}

#[test]
fn new_and_changed_files_are_there_when_the_page_is_loaded_again() {
    let served = Served::of_folder(shop(), &[]);
    let page = list(&served);
    let first = id(&page, "ci/1.json");
    profile(&served.folder().join("new.json"), "fresh", NAMES, 9, [1; 4]);
    profile(&served.folder().join("ci/1.json"), "renamed", NAMES, 1, [1; 4]);
    fs::remove_file(served.folder().join("ci/2.json")).unwrap();
    wait_until(|| list(&served).contains("new.json"), || list(&served));
    let page = list(&served);
    assert!(page.find("new.json") < page.find("ci/3.json"), "{page}");
    assert!(row(&page, "ci/1.json").contains("renamed") && !page.contains("ci/2.json"));
    assert_eq!(id(&page, "ci/1.json"), first);
}

#[test]
fn two_picked_profiles_have_the_changes_of_diff() {
    let served = Served::of_folder(shop(), &[]);
    let page = list(&served);
    let (before, after) = (id(&page, "ci/1.json"), id(&page, "ci/3.json"));
    let query = format!("before={before}&after={after}");
    let page = text(&served.get(&served.secret(&format!("/diff?{query}"))));
    let file = |name: &str| served.folder().join(name);
    let said = output(sprof().arg("diff").args([file("ci/1.json"), file("ci/3.json")]));
    let said = String::from_utf8(said.stdout).unwrap();
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let lines: Vec<String> = said.lines().map(words).collect();
    let rows: Vec<String> = page
        .split("<tr")
        .filter(|row| row.starts_with(" class=\"more\"") || row.starts_with(" class=\"less\""))
        .map(|row| words(&cells(row).join(" ")))
        .collect();
    assert!(
        rows.iter()
            .any(|row| row.starts_with("30.0 % 60.0 % +30.0") && row.ends_with("hash")),
        "{rows:?}"
    );
    for row in &rows {
        assert!(lines.contains(row), "{row}: {said}");
    }
    let is_row = |line: &&String| NAMES.iter().any(|name| line.ends_with(&format!(" {name}")));
    assert_eq!(lines.iter().filter(is_row).count(), rows.len(), "{said} {rows:?}");
    let svg = text(&served.get(&served.secret(&format!("/diff.svg?{query}"))));
    assert!(svg.contains("<svg ") && svg.contains("against before"), "{svg}");
    // One that is gone, or none.
    let page = text(&served.get(&served.secret(&format!("/diff?before={before}&after=0"))));
    assert!(page.contains("Pick a profile"), "{page}");
}

#[test]
fn a_trend_has_the_share_of_each_profile() {
    let dir = shop();
    profile(&dir.path().join("other.json"), "other", NAMES, 4, [97, 1, 1, 1]);
    let served = Served::of_folder(dir, &[]);
    list(&served);
    let page = text(&served.get(&served.secret("/trend?program=shop&function=hash")));
    let rows: Vec<Vec<String>> = page.split("<tr").filter(|row| row.contains("ci/")).map(cells).collect();
    let expected = [
        ("60.0 %", "600 ms", "80.0 %", "800 ms", "ci/3.json"),
        ("40.0 %", "400 ms", "75.0 %", "750 ms", "ci/2.json"),
        ("30.0 %", "300 ms", "75.0 %", "750 ms", "ci/1.json"),
    ];
    assert_eq!(rows.len(), expected.len(), "{page}");
    for ((row, expected), day) in rows.iter().zip(expected).zip([3, 2, 1]) {
        let (own, own_ms, total, total_ms, file) = expected;
        assert_eq!(row[1], commit(day)[..12]);
        assert_eq!(row[2..7], [own, own_ms, total, total_ms, file]);
    }
    assert_eq!(page.matches("<circle ").count(), 6, "{page}");
    let marks = |class: &str| -> Vec<String> {
        let start = format!("<text class=\"{class}\"");
        let marks = page.split(&start).skip(1);
        marks
            .map(|mark| mark.split(['<', '>']).nth(1).unwrap().to_owned())
            .collect()
    };
    // The scale of self, and that of total.
    let scales = [
        "30.0 %", "40.0 %", "50.0 %", "60.0 %", "65.0 %", "70.0 %", "75.0 %", "80.0 %", "85.0 %", "90.0 %",
    ];
    assert_eq!(marks("scale"), scales);
    let days = ["2023-11-15", "2023-11-16", "2023-11-17"];
    assert_eq!(marks("date"), [days, days].concat());
    assert!(!page.contains("other.json"));
    let page = text(&served.get(&served.secret("/trend?program=shop&function=pars")));
    assert!(page.contains("parse&lt;T&gt;</a>"), "{page}");
}

#[test]
fn names_from_files_are_text() {
    const HOSTILE: &str = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>\u{1b}[2J\u{202e}";
    let dir = temp_dir();
    for (day, file) in [(1, "a<b>\"'.json"), (2, "b&.json")] {
        profile(
            &dir.path().join(file),
            HOSTILE,
            [HOSTILE, "</title><b>", "]]></svg>", "&"],
            day,
            [10, 200, 20, 100],
        );
    }
    fs::write(dir.path().join(format!("{}.json", "<i>\u{1b}")), "{").unwrap();
    let served = Served::of_folder(dir, &[]);
    let page = list(&served);
    let (first, second) = (id(&page, "a&lt;b&gt;&quot;&#39;.json"), id(&page, "b&amp;.json"));
    let function = "%3Cscript%3Ealert(1)%3C/script%3E%22'%3E%3Cimg+src=x+onerror=alert(1)%3E%1b[2J";
    for path in [
        "/".to_owned(),
        format!("/p/{first}/"),
        format!("/p/{first}/view/"),
        format!("/p/{first}/flame.svg"),
        format!("/diff?before={first}&after={second}"),
        format!("/diff.svg?before={first}&after={second}"),
        format!("/trend?function={function}&library={function}"),
        format!("/trend?program={function}&function=b"),
        format!("/?program={function}&machine={function}&page=99"),
    ] {
        let reply = served.get(&served.secret(&path));
        let page = text(&reply);
        for bad in [
            "<script>alert",
            "<img src=x",
            "</title><b>",
            "]]></svg>",
            "<i>",
            "a<b>",
            "\u{1b}",
            "\u{202e}",
        ] {
            assert!(!page.contains(bad), "{path}: {bad}: {page}");
        }
        let policy = reply.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'"), "{path}: {policy}");
    }
}

#[test]
fn others_read_nothing() {
    let served = Served::of_folder(shop(), &["--host-name", "profiles.example.org"]);
    let page = list(&served);
    let profile = format!("/p/{}/profile.json", id(&page, "ci/1.json"));
    for path in ["/", &profile, "/trend?function=hash", "/style.css"] {
        let secret = served.secret(path);
        for header in [
            ("Host", "evil.example"),
            ("Host", "profiles.example.org.evil.example"),
            ("Origin", "http://evil.example"),
            ("Origin", "null"),
            ("Origin", "http://profiles.example.org@evil.example"),
        ] {
            assert_eq!(
                served.ask("GET", &secret, &[header], b"").status,
                403,
                "{path} {header:?}"
            );
        }
        assert_eq!(
            served
                .ask("GET", &secret, &[("Host", "profiles.example.org:1")], b"")
                .status,
            200
        );
        for method in ["POST", "PUT", "DELETE", "PATCH"] {
            assert_eq!(served.ask(method, &secret, &[], b"x").status, 405, "{method} {path}");
        }
        let wrong = format!("/{}{path}", "0".repeat(served.token.len()));
        assert_eq!(served.get(&wrong).status, 404);
    }
    // The profiler UI may read a profile, and nothing else.
    let ui = [("Origin", "https://profiler.firefox.com")];
    let allowed = |path: &str| {
        let reply = served.ask("GET", &served.secret(path), &ui, b"");
        reply.header("access-control-allow-origin").map(str::to_owned)
    };
    assert_eq!(allowed(&profile).as_deref(), Some(ui[0].1));
    assert_eq!(allowed("/"), None);
    let front = text(&served.get("/"));
    assert!(!front.contains(&served.token) && !front.contains("shop"), "{front}");
    for path in [
        "/../../../../etc/passwd",
        "/p/../../etc/passwd",
        "/p/%2e%2e%2f%2e%2e%2fetc%2fpasswd/file",
        "/p/ci%2f1.json/file",
        "/p//file",
        "/p/0/",
        "/ci/1.json",
    ] {
        assert_eq!(served.get(&served.secret(path)).status, 404, "{path}");
    }
    // Heads and bodies without end.
    let head = format!(
        "GET {} HTTP/1.1\r\nHost: localhost\r\nX: {}",
        served.secret("/"),
        "x".repeat(200_000)
    );
    assert!((400..500).contains(&Reply::parse(&served.raw(head.as_bytes())).status));
    let head = format!(
        "POST {} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999\r\n\r\n",
        served.secret("/")
    );
    assert_eq!(Reply::parse(&served.raw(head.as_bytes())).status, 405);
    assert_endless_bodies_end(&served, &served.secret("/"));
    assert_idle_clients_make_room(&served);
}

#[test]
fn other_addresses_need_tls() {
    let dir = shop();
    let refused = |options: &[&str], dir: &Path| {
        let output = output(sprof().args(["serve", "--port", "0"]).arg(dir).args(options));
        assert_eq!(output.status.code(), Some(125), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let error = refused(&["--address", "0.0.0.0"], dir.path());
    assert!(error.contains("--tls-cert") && error.contains("ssh -L"), "{error}");
    let file = dir.path().join("ci/1.json");
    let error = refused(&[], &file);
    assert!(error.contains(&format!("load {}", file.display())), "{error}");
    let (certificate, key) = (tls_dir().join("server.pem"), tls_dir().join("server.key"));
    let (certificate, key) = (certificate.to_str().unwrap(), key.to_str().unwrap());
    let error = refused(&["--tls-cert", key, "--tls-key", certificate], dir.path());
    assert!(error.contains("PEM"), "{error}");

    let token = "0123456789abcdefghijklm-_";
    let kept = temp_dir();
    let token_file = kept.path().join("token");
    let token_path = token_file.to_str().unwrap();
    fs::write(&token_file, token).unwrap();
    fs::set_permissions(&token_file, fs::Permissions::from_mode(0o644)).unwrap();
    let error = refused(&["--token-file", token_path], dir.path());
    assert!(error.contains("chmod 600") && !error.contains(token), "{error}");
    fs::set_permissions(&token_file, fs::Permissions::from_mode(0o600)).unwrap();

    let options = ["--tls-cert", certificate, "--tls-key", key, "--token-file", token_path];
    let served = Served::of_folder(
        dir,
        &[&options[..], &["--address", "0.0.0.0", "--host-name", "localhost"]].concat(),
    );
    assert_eq!(
        served.link,
        format!("https://localhost:{}/{token}/", served.address.port())
    );
    let mut roots = rustls::RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_file(tls_dir().join("ca.pem")).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.unwrap().with_root_certificates(roots).with_no_client_auth();
    let client = rustls::ClientConnection::new(Arc::new(config), ServerName::try_from("localhost").unwrap()).unwrap();
    let mut stream = rustls::StreamOwned::new(client, TcpStream::connect(served.address).unwrap());
    write!(stream, "GET /{token}/ HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut reply = Vec::new();
    // The server may close without TLS's farewell.
    let _ = stream.read_to_end(&mut reply);
    assert!(text(&Reply::parse(&reply)).contains("ci/1.json"));
    // Without TLS there is no answer with a page.
    let plain = served.raw(format!("GET /{token}/ HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes());
    assert!(!String::from_utf8_lossy(&plain).contains("HTTP/1.1 200"));
}
