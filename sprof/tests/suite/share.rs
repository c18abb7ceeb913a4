//! `sprof share` against a stand-in of the store that keeps its contract to the letter, and against slow, failing,
//! lying and half-closed ones: nothing private arrives, nothing is sent twice, no key is lost or shown.
#![cfg(target_os = "linux")]

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use flate2::read::GzDecoder;
use serde_json::Value;

use crate::support::schema::parsed;
use crate::support::skip::perf_events;
use crate::support::store::{Behaviour, NOBODY_LISTENS, StandIn, UI, jwt};
use crate::support::{copy_program, program, sprof, temp_dir, tls_dir};

/// For a server that does not reply, and for no other one: on a slow machine any server may pause for seconds.
pub(crate) const IMPATIENT: [&str; 2] = ["--timeout", "2"];

/// What must not leave the machine.
pub(crate) const SECRETS: [&str; 4] = ["annaplant", "plantbox", "argumentplant", "environmentplant"];

/// A user with a folder of data.
pub(crate) struct User {
    pub(crate) folder: tempfile::TempDir,
}

impl User {
    pub(crate) fn new() -> User {
        User { folder: temp_dir() }
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// A small file: folded stacks, which hold nothing of the machine.
    pub(crate) fn file(&self) -> PathBuf {
        let path = self.folder.path().join("app.folded");
        std::fs::write(&path, "main;work;leaf 12\nmain;rest 4\n").unwrap();
        path
    }

    /// A file of 10 MB also when it is compressed: more than the sockets hold.
    pub(crate) fn large_file(&self) -> PathBuf {
        let path = self.folder.path().join("large.folded");
        let (mut text, mut random) = (String::new(), 1u64);
        for _ in 0..9000 {
            text.push_str("main;f");
            for _ in 0..170 {
                random = random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                write!(text, "{:012x}", random >> 16).unwrap();
            }
            text.push_str(" 1\n");
        }
        std::fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn sprof(&self) -> Command {
        let mut command = sprof();
        for variable in [
            "HTTPS_PROXY",
            "https_proxy",
            "ALL_PROXY",
            "all_proxy",
            "PROFILER_URL",
            "SSL_CERT_FILE",
            "SUDO_USER",
        ] {
            command.env_remove(variable);
        }
        command
            .env("XDG_DATA_HOME", self.data())
            .env("HOME", "/home/annaplant")
            .env("USER", "annaplant")
            .env("HOSTNAME", "plantbox")
            .env("PLANT_TOKEN", "environmentplant");
        command
    }

    fn share(&self, store: &StandIn, file: &Path, options: &[&str]) -> Command {
        let mut command = self.sprof();
        command.args(["share", "--yes", "--ui-url", UI, "--server", &store.api()]);
        command.args(options).arg(file);
        command
    }

    pub(crate) fn keys(&self) -> Vec<PathBuf> {
        let all = std::fs::read_dir(self.data().join("sprof/shared"));
        let all = all.into_iter().flatten().map(|entry| entry.unwrap().path());
        all.collect()
    }
}

pub(crate) fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// The output has no key, and no part of one.
fn shows_no_key(output: &Output) {
    for stream in [&output.stdout, &output.stderr] {
        assert!(!text(stream).contains("eyJ"), "{}", text(stream));
        assert!(!text(stream).contains("c2lnbmF0"), "{}", text(stream));
    }
}

/// Runs a command that fails with this status and these words, and prints nothing on stdout.
pub(crate) fn fails(command: &mut Command, status: i32, words: &[&str]) {
    let output = command.output().unwrap();
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{stderr}");
    for word in words {
        assert!(stderr.contains(word), "{word} in {stderr}");
    }
    assert!(output.stdout.is_empty(), "{}", text(&output.stdout));
    shows_no_key(&output);
}

#[test]
fn a_shared_profile_is_listed_and_deleted_by_its_link() {
    let (user, store) = (User::new(), StandIn::start(Behaviour::Honest));
    let output = user.share(&store, &user.file(), &["-v"]).output().unwrap();
    let stderr = text(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let link = format!("{UI}/public/token1");
    assert_eq!(text(&output.stdout), format!("{link}\n"));
    shows_no_key(&output);
    for words in [
        &format!("to be uploaded to {}: ", store.api()),
        "1 process, 1 thread",
        "everybody with the link can read it",
        "taken out: ",
        "left in it: names of functions",
        &format!("share --delete {link}"),
    ] {
        assert!(stderr.contains(words), "{words} in {stderr}");
    }
    assert_eq!(store.calls(), ["POST /api/compressed-store"]);
    let keys = user.keys();
    assert_eq!(keys.len(), 1);
    assert_eq!(std::fs::metadata(&keys[0]).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(std::fs::read_to_string(&keys[0]).unwrap().contains(&jwt("token1")));

    let listed = user.sprof().args(["share", "--list"]).output().unwrap();
    shows_no_key(&listed);
    let line = text(&listed.stdout);
    assert!(
        line.contains(&link) && line.contains(&store.api()) && line.contains(" UTC "),
        "{line}"
    );
    assert!(text(&listed.stderr).contains("share --delete LINK"), "{listed:?}");
    let listed = user.sprof().args(["share", "--list", "--json"]).output().unwrap();
    shows_no_key(&listed);
    let json: Value = parsed(&listed.stdout);
    assert_eq!(json["schema"], "sprof-shared");
    assert_eq!(json["shared"][0]["link"], link.as_str());

    // As the browser's address bar has it.
    let from_browser = format!("{link}/calltree/?thread=0&v=11");
    let deleted = user
        .sprof()
        .args(["share", "--delete", &from_browser])
        .output()
        .unwrap();
    assert!(deleted.status.success(), "{}", text(&deleted.stderr));
    shows_no_key(&deleted);
    assert_eq!(store.calls()[1..], ["DELETE /api/profile/token1"]);
    assert!(store.stored().is_empty() && user.keys().is_empty());
    fails(
        user.sprof().args(["share", "--delete", &link]),
        125,
        &["there is no key for", "--list"],
    );
    assert_eq!(store.calls().len(), 2);
}

#[test]
fn json_has_what_a_script_needs() {
    let (user, store) = (User::new(), StandIn::start(Behaviour::Honest));
    let output = user.share(&store, &user.file(), &["--json"]).output().unwrap();
    shows_no_key(&output);
    let json: Value = parsed(&output.stdout);
    assert_eq!(
        (&json["schema"], &json["schema_version"]),
        (&"sprof-share".into(), &1.into())
    );
    assert_eq!(json["link"], format!("{UI}/public/token1"));
    assert!(json["delete"].as_str().unwrap().contains("share --delete"));
    assert!(json["bytes"].as_u64().unwrap() > 100);
    assert_eq!(json["server"], store.api());
}

#[test]
fn nothing_is_sent_where_something_is_wrong_before() {
    let (user, store) = (User::new(), StandIn::start(Behaviour::Honest));
    let file = user.file();
    let with = |options: &[&str]| {
        let mut command = user.sprof();
        command.arg("share").args(options).arg(&file);
        command
    };
    let api = store.api();
    fails(
        &mut with(&["--server", &api, "--ui-url", UI]),
        2,
        &["no terminal", "--yes"],
    );
    fails(&mut with(&["--yes", "--server", &api]), 2, &["--ui-url"]);
    fails(
        &mut with(&["--yes", "--ui-url", UI, "--server", "http://example.org"]),
        2,
        &["https://"],
    );
    fails(
        &mut with(&["--yes", "--ui-url", UI, "--server", "example.org"]),
        2,
        &["https://"],
    );
    // The key could not be kept.
    let broken = user.folder.path().join("file");
    std::fs::write(&broken, "").unwrap();
    let mut unkept = user.share(&store, &file, &[]);
    fails(
        unkept.env("XDG_DATA_HOME", &broken),
        125,
        &["can't be kept", "XDG_DATA_HOME", "Nothing was shared"],
    );
    fails(
        &mut user.share(&store, &user.folder.path().join("none"), &[]),
        125,
        &["none"],
    );
    assert!(store.calls().is_empty(), "{:?}", store.calls());
}

#[test]
fn a_store_that_fails_or_lies_gets_the_profile_once_and_leaves_no_key() {
    const NOTHING: &str = "Nothing was shared";
    const UNKNOWN: &str = "unknown whether the profile arrived";
    for (behaviour, words) in [
        (Behaviour::Status(500), ["status 500", UNKNOWN]),
        (Behaviour::Status(413), ["413", NOTHING]),
        (Behaviour::Status(403), ["403", NOTHING]),
        (Behaviour::Redirects, ["another address", NOTHING]),
        (Behaviour::Says("<html>eyJhbGciOi</html>"), ["an HTML page", UNKNOWN]),
        (
            Behaviour::Says("eyJhbGciOi.eyJhbGciOi.eyJhbGciOi"),
            ["not the token", UNKNOWN],
        ),
        (Behaviour::Says(""), ["empty", UNKNOWN]),
        (Behaviour::Endless, ["larger than", UNKNOWN]),
        (Behaviour::NoReply, ["closed without a reply", UNKNOWN]),
        (
            Behaviour::Silent,
            [
                "within 2 s. It is unknown whether the profile arrived",
                "--timeout allows more",
            ],
        ),
    ] {
        let (user, store) = (User::new(), StandIn::start(behaviour));
        let mut command = user.share(&store, &user.file(), &["-v"]);
        if behaviour == Behaviour::Silent {
            command.args(IMPATIENT);
        }
        fails(&mut command, 125, &words);
        store.wait_for_calls(1);
        assert_eq!(store.calls(), ["POST /api/compressed-store"], "{behaviour:?}");
        assert!(user.keys().is_empty(), "{behaviour:?}");
    }
}

#[test]
fn a_large_profile_that_does_not_arrive_whole_is_not_shared() {
    let user = User::new();
    let file = user.large_file();
    for (behaviour, options, words) in [
        (Behaviour::HalfClosed, &[][..], ["closed without a reply", "MB of"]),
        (Behaviour::Status(413), &[], ["413", "Nothing was shared"]),
        (Behaviour::Stuck, &IMPATIENT, ["took nothing", "Nothing was shared"]),
    ] {
        let store = StandIn::start(behaviour);
        fails(&mut user.share(&store, &file, options), 125, &words);
        store.wait_for_calls(1);
        assert_eq!(store.calls().len(), 1, "{behaviour:?}");
        assert!(user.keys().is_empty(), "{behaviour:?}");
    }
    let store = StandIn::start(Behaviour::Honest);
    assert!(user.share(&store, &file, &[]).status().unwrap().success());
    assert_eq!(store.stored().len(), 1);
}

#[test]
fn ctrl_c_ends_an_upload() {
    let (user, store) = (User::new(), StandIn::start(Behaviour::Stuck));
    let mut command = user.share(&store, &user.large_file(), &[]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    store.wait_for_calls(1);
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(killed.unwrap().success());
    let output = child.wait_with_output().unwrap();
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{stderr}");
    assert!(
        stderr.contains("ended by Ctrl-C") && stderr.contains("Nothing was shared"),
        "{stderr}"
    );
    assert!(user.keys().is_empty());
}

#[test]
fn a_store_that_is_not_there_is_named() {
    let user = User::new();
    let mut command = user.sprof();
    command.args(["share", "--yes", "--ui-url", UI, "--server", NOBODY_LISTENS]);
    fails(
        command.arg(user.file()),
        125,
        &[NOBODY_LISTENS, "refused", "Nothing was shared"],
    );
}

#[test]
fn a_key_is_forgotten_only_when_the_profile_is_gone() {
    let user = User::new();
    let shared = |api: &str| {
        let folder = user.data().join("sprof/shared");
        std::fs::create_dir_all(&folder).unwrap();
        let json = serde_json::json!({
            "version": 1, "link": format!("{UI}/public/token1"), "server": api, "name": "token1", "key": jwt("token1"),
            "program": "app\u{1b}[2J", "shared_ms": 0, "bytes": 1,
        });
        std::fs::write(folder.join("a.json"), json.to_string()).unwrap();
    };
    let delete = || {
        let mut command = user.sprof();
        command.args(["share", "-v", "--delete", &format!("{UI}/public/token1")]);
        command
    };
    for (behaviour, words) in [
        (Behaviour::Status(500), "status 500"),
        // It repeats the key, too.
        (Behaviour::Status(403), "Bearer [...]"),
        (Behaviour::NoReply, "closed without a reply"),
        (Behaviour::Silent, "within 2 s"),
    ] {
        let store = StandIn::start(behaviour);
        shared(&store.api());
        let mut command = delete();
        if behaviour == Behaviour::Silent {
            command.args(IMPATIENT);
        }
        fails(&mut command, 125, &[words]);
        store.wait_for_calls(1);
        assert_eq!(store.calls(), ["DELETE /api/profile/token1"]);
        assert_eq!(user.keys().len(), 1, "{behaviour:?}");
    }
    let listed = user.sprof().args(["share", "--list"]).output().unwrap();
    assert!(!listed.stdout.contains(&0x1b), "{listed:?}");
    let store = StandIn::start(Behaviour::Honest);
    shared(&store.api());
    // As it stands where a key has been changed by hand: no part of an address.
    let file = user.data().join("sprof/shared/a.json");
    let json = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, json.replace(r#""name":"token1""#, r#""name":"..""#)).unwrap();
    fails(&mut delete(), 125, &["cannot delete the profile", "'..'"]);
    assert!(store.calls().is_empty() && file.exists());
    // A page of a server that is no store has the same status.
    for aside in ["a.gone", "a.1.gone"] {
        shared(&store.api());
        fails(&mut delete(), 125, &["has no profile", aside]);
        let kept = std::fs::read_to_string(file.with_file_name(aside)).unwrap();
        assert!(kept.contains(&jwt("token1")) && !file.exists());
    }
    let listed = user.sprof().args(["share", "--list"]).output().unwrap();
    assert!(
        listed.stdout.is_empty() && text(&listed.stderr).contains("nothing was shared"),
        "{listed:?}"
    );
}

#[test]
fn several_at_once_keep_all_keys() {
    let (user, store) = (User::new(), StandIn::start(Behaviour::Honest));
    let file = user.file();
    let start = |_| {
        user.share(&store, &file, &[])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
    };
    let all: Vec<_> = (0..4).map(start).collect();
    for child in all {
        assert!(child.unwrap().wait().unwrap().success());
    }
    assert_eq!((store.stored().len(), user.keys().len()), (4, 4));
}

#[test]
fn a_question_is_asked_once_on_a_terminal() {
    if Command::new("script").arg("--version").output().is_err() {
        let _ = writeln!(std::io::stderr(), "skipped: no `script` (Debian: bsdutils)");
        return;
    }
    for (answer, stored) in [("y\n", 1), ("n\n", 0), ("\n", 0)] {
        let (user, store) = (User::new(), StandIn::start(Behaviour::Honest));
        let line = format!(
            "'{}' share --ui-url {UI} --server {} '{}'",
            env!("CARGO_BIN_EXE_sprof"),
            store.api(),
            user.file().display()
        );
        let mut child = Command::new("script")
            .args(["-qec", &line, "/dev/null"])
            .env("XDG_DATA_HOME", user.data())
            .env("HOME", "/home/annaplant")
            .env("SPROF_CACHE", "off")
            .env_remove("PROFILER_URL")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(answer.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        drop(stdin);
        let shown = String::from_utf8_lossy(&output.stdout);
        assert_eq!(shown.matches("[y/N]").count(), 1, "{shown}");
        assert_eq!(store.stored().len(), stored, "{answer:?}: {shown}");
        assert_eq!(shown.contains(&format!("{UI}/public/token1")), stored == 1, "{shown}");
        assert_eq!(shown.contains("nothing was shared"), stored == 0, "{shown}");
    }
}

#[test]
fn ctrl_c_at_the_question_is_a_no() {
    if Command::new("script").arg("--version").output().is_err() {
        let _ = writeln!(std::io::stderr(), "skipped: no `script` (Debian: bsdutils)");
        return;
    }
    let (user, store) = (User::new(), StandIn::start(Behaviour::Honest));
    let to = format!("--ui-url {UI} --server {}", store.api());
    let mut all = vec![format!("share {to} '{}'", user.file().display())];
    // Signals were watched for before the question.
    if perf_events().is_some() {
        let saved = user.folder.path().join("profile.json.gz");
        let program = program("split").unwrap();
        all.push(format!(
            "record --share {to} -o '{}' -- '{}' 50",
            saved.display(),
            program.display()
        ));
    }
    for line in all {
        let mut child = Command::new("script")
            .args([
                "-qec",
                &format!("'{}' {line}", env!("CARGO_BIN_EXE_sprof")),
                "/dev/null",
            ])
            .env("XDG_DATA_HOME", user.data())
            .env("HOME", "/home/annaplant")
            .env("SPROF_CACHE", "off")
            .env_remove("PROFILER_URL")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (mut shown, mut byte) = (Vec::new(), [0]);
        while !shown.ends_with(b"[y/N] ") {
            assert_eq!(
                stdout.read(&mut byte).unwrap(),
                1,
                "{}",
                String::from_utf8_lossy(&shown)
            );
            shown.push(byte[0]);
        }
        stdin.write_all(b"\x03").unwrap();
        stdout.read_to_end(&mut shown).unwrap();
        child.wait().unwrap();
        let shown = String::from_utf8_lossy(&shown);
        assert!(shown.contains("nothing was shared"), "{line}: {shown}");
    }
    assert!(store.calls().is_empty());
}

#[test]
fn certificates_are_checked_and_may_be_named() {
    let (user, store) = (User::new(), StandIn::start_tls());
    let share = || {
        let mut command = user.sprof();
        command.args([
            "share",
            "--yes",
            "--ui-url",
            UI,
            "--server",
            &format!("https://localhost:{}/api", store.port),
        ]);
        command.arg(user.file());
        command
    };
    fails(
        &mut share(),
        125,
        &["certificate is not valid", "SSL_CERT_FILE", "Nothing was shared"],
    );
    assert!(store.calls().is_empty());
    let output = share().env("SSL_CERT_FILE", tls_dir().join("ca.pem")).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(store.stored().len(), 1);
}

#[test]
fn a_proxy_that_refuses_is_named_without_its_password() {
    let user = User::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let proxy = std::thread::spawn(move || {
        let mut stream = listener.accept().unwrap().0;
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") {
            stream.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        stream
            .write_all(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
            .unwrap();
        let _ = stream.shutdown(Shutdown::Write);
        String::from_utf8(head).unwrap()
    });
    let mut command = user.sprof();
    command.args([
        "share",
        "-v",
        "--yes",
        "--ui-url",
        UI,
        "--server",
        "https://store.example.org/api",
    ]);
    command
        .arg(user.file())
        .env("HTTPS_PROXY", format!("http://me:hunter2@127.0.0.1:{port}"));
    let output = command.output().unwrap();
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{stderr}");
    assert!(stderr.contains(&format!("by the proxy 127.0.0.1:{port}")), "{stderr}");
    assert!(stderr.contains("403") && stderr.contains("NO_PROXY"), "{stderr}");
    assert!(!stderr.contains("hunter2"), "{stderr}");
    let asked = proxy.join().unwrap();
    assert!(asked.starts_with("CONNECT store.example.org:443 "), "{asked}");
}

#[test]
fn a_recording_is_shared_without_what_is_private_and_with_its_shares() {
    let Some(()) = perf_events() else { return };
    let (user, store) = (User::new(), StandIn::start(Behaviour::Honest));
    // A folder with the user's name, as programs and sources have it.
    let folder = user.folder.path().join("home/annaplant/project");
    std::fs::create_dir_all(&folder).unwrap();
    let copy = folder.join("split");
    copy_program(program("split").unwrap(), &copy);
    let saved = folder.join("profile.json.gz");
    let mut command = user.sprof();
    command.env("HOME", user.folder.path().join("home/annaplant"));
    command.args([
        "record",
        "--share",
        "--yes",
        "--include-args",
        "--ui-url",
        UI,
        "--server",
        &store.api(),
        "-o",
    ]);
    command.arg(&saved).arg("--").arg(&copy).args(["300", "argumentplant"]);
    let output = command.output().unwrap();
    let stderr = text(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    // The program prints, too.
    assert!(
        text(&output.stdout).ends_with(&format!("{UI}/public/token1\n")),
        "{output:?}"
    );
    shows_no_key(&output);
    let shared = store.stored().pop().unwrap();
    let mut original = String::new();
    GzDecoder::new(std::fs::File::open(&saved).unwrap())
        .read_to_string(&mut original)
        .unwrap();
    assert!(original.contains("annaplant") && original.contains("argumentplant"));
    let json = shared.to_string();
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    for secret in SECRETS.iter().copied().chain([user.folder.path().to_str().unwrap()]) {
        assert!(!json.contains(secret), "{secret} in {json}");
    }
    // A host is called "vm", as functions of the kernel begin: `vm_mmap_pgoff`.
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let has_host = json.match_indices(&host).any(|(at, _)| {
        let bytes = json.as_bytes();
        !bytes[..at].last().is_some_and(is_word) && !bytes[at + host.len()..].first().is_some_and(is_word)
    });
    assert!(!has_host, "{host} in {json}");
    let again = user.folder.path().join("shared.json");
    std::fs::write(&again, &json).unwrap();
    // Function, library, its own time, and with what it calls; the paths of files are shorter.
    let tables = |file: &Path| -> Vec<Value> {
        let output = user
            .sprof()
            .args(["report", "--format", "json"])
            .arg(file)
            .output()
            .unwrap();
        let report: Value = parsed(&output.stdout);
        let rows = report["views"][0]["rows"].as_array().unwrap().iter();
        let columns = ["function", "library", "self", "total"];
        rows.map(|row| columns.iter().map(|column| row[column].clone()).collect())
            .collect()
    };
    let functions = tables(&saved);
    assert!(functions.len() > 1, "{functions:?}");
    assert_eq!(tables(&again), functions);
}

#[test]
fn a_recording_that_is_not_shared_keeps_the_program_s_status() {
    let Some(()) = perf_events() else { return };
    let record = |store: &StandIn, program: &str| {
        let user = User::new();
        let mut command = user.sprof();
        command.args(["record", "--share", "--yes", "--ui-url", UI, "--server", &store.api()]);
        command.args(["--push", &format!("parca={}", store.api()), "-o"]);
        command.arg(user.folder.path().join("profile.json.gz"));
        command.args(["--", "sh", "-c", program]);
        (user, command)
    };
    let store = StandIn::start(Behaviour::Status(413));
    let (user, mut command) = record(&store, "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; exit 3");
    let output = command.output().unwrap();
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{stderr}");
    assert!(
        stderr.contains("413") && stderr.contains("Nothing was shared"),
        "{stderr}"
    );
    assert!(output.stdout.is_empty() && user.keys().is_empty(), "{output:?}");

    let store = StandIn::start(Behaviour::Honest);
    let (_user, mut command) = record(&store, "echo ready; exec sleep 60");
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut ready = [0; 6];
    child.stdout.as_mut().unwrap().read_exact(&mut ready).unwrap();
    let killed = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
    assert!(killed.unwrap().success());
    let output = child.wait_with_output().unwrap();
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(143), "{stderr}");
    for (what, command) in [("shared", "share"), ("pushed", "push --to KIND=URL")] {
        assert!(
            stderr.contains(&format!("not {what}: sprof was ended by a signal")),
            "{stderr}"
        );
        assert!(stderr.contains(&format!("{command} /")), "{stderr}");
    }
    assert!(store.calls().is_empty());
}

#[test]
fn a_part_is_shared_alone() {
    let (user, store) = (User::new(), StandIn::start(Behaviour::Honest));
    let file = user.file();
    let output = user.share(&store, &file, &["--drop-thin", "5"]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let json = store.stored().pop().unwrap().to_string();
    assert!(json.contains("leaf") && !json.contains("rest"), "{json}");
    fails(
        &mut user.share(&store, &file, &["--thread", "nobody"]),
        125,
        &["there is no thread", "nobody"],
    );
    assert_eq!(store.calls().len(), 1);
}
