//! `--symbol-server`, with a server on loopback.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use scripted::{Answer, Scripted};

use super::*;

#[path = "../suite/support/scripted.rs"]
#[allow(dead_code, reason = "each test file uses its part")]
mod scripted;

fn path_of(file: &str) -> String {
    format!("/app.pdb/{ID}/{file}")
}

/// A server with the Breakpad file alone.
fn server() -> Scripted {
    Scripted::start(|path| match path == path_of("app.sym") {
        true => Answer::File(breakpad().into_bytes()),
        false => Answer::NotFound,
    })
}

/// Asks these servers, with a cache of the test's own.
fn report(dir: &Path, servers: &[&str]) -> Command {
    let mut command = sprof();
    command
        .arg("report")
        .arg(dir.join("app.json"))
        .env("SPROF_CACHE", dir.join("cache"));
    for url in servers {
        command.args(["--symbol-server", url]);
    }
    command
}

#[test]
fn nothing_is_asked_without_the_option() {
    let dir = temp_dir();
    recorded_on_windows(dir.path());
    let server = server();
    let found = lines(
        report(dir.path(), &[])
            .env("_NT_SYMBOL_PATH", format!("srv**{}", server.url))
            .env("DEBUGINFOD_URLS", &server.url),
    );
    assert!(
        found.iter().all(|(function, ..)| function.starts_with("0x")),
        "{found:?}"
    );
    assert_eq!(server.asked(), [""; 0]);
    assert!(!dir.path().join("cache/symbols").exists());
}

#[test]
fn names_come_from_a_server_and_then_without_one() {
    let dir = temp_dir();
    recorded_on_windows(dir.path());
    let (empty, server) = (Scripted::start(|_| Answer::NotFound), server());
    let home = dir.path().join("home");
    fs::create_dir(&home).unwrap();
    // Servers of the environment are not asked.
    let other = Scripted::start(|_| Answer::NotFound);
    let mut asks = report(dir.path(), &[&empty.url, &server.url]);
    asks.env("HOME", &home)
        .env("_NT_SYMBOL_PATH", format!("srv**{}", other.url))
        .env("DEBUGINFOD_URLS", &other.url);
    assert_eq!(lines(&mut asks), named());
    assert_eq!((server.asked(), other.asked()), (vec![path_of("app.sym")], Vec::new()));
    assert_eq!(empty.asked(), [path_of("app.sym")]);
    // Nothing is written elsewhere, and other users can't read it.
    assert_eq!(fs::read_dir(&home).unwrap().count(), 0);
    let folder = fs::metadata(dir.path().join("cache/symbols")).unwrap();
    assert_eq!(folder.permissions().mode() & 0o777, 0o700);

    assert_eq!(lines(&mut report(dir.path(), &[&server.url])), named());
    assert_eq!(server.asked().len(), 1);
}

#[test]
fn what_no_server_has_is_asked_for_once_and_said_with_v() {
    let dir = temp_dir();
    recorded_on_windows(dir.path());
    let server = Scripted::start(|_| Answer::NotFound);
    let two = format!("{} {}", server.url, server.url);
    let (_, said) = run(report(dir.path(), &[]).env("SPROF_SYMBOL_SERVER", two).arg("-v"));
    assert!(said.contains("no server gave symbols of app.pdb"), "{said}");
    let mut asked = server.asked();
    asked.sort();
    asked.dedup();
    assert_eq!(asked, ["app.pd_", "app.pdb", "app.sym"].map(path_of));
    assert_eq!(server.asked().len(), 6, "of each of the two");
}

#[test]
fn a_server_that_fails_is_named_without_its_password() {
    let dir = temp_dir();
    recorded_on_windows(dir.path());
    let (_, said) = run(&mut report(dir.path(), &["http://me:secret@127.0.0.1:1/folder"]));
    let warned: Vec<&str> = said
        .lines()
        .filter(|line| line.contains("was not downloaded"))
        .collect();
    assert_eq!(warned.len(), 1, "{said}");
    assert!(
        warned[0].contains("symbols of app.pdb") && warned[0].contains("127.0.0.1:1 can't be reached"),
        "{said}"
    );
    assert!(!said.contains("secret"), "{said}");

    let output = report(dir.path(), &["symbols.example.org"]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        !output.status.success() && said.contains("symbols.example.org is no URL"),
        "{said}"
    );
}

#[test]
fn symbols_of_another_build_are_neither_used_nor_kept() {
    let dir = temp_dir();
    recorded_on_windows(dir.path());
    for wrong in [
        breakpad().replace(ID, &ID.replace('F', "E")),
        "<html>not found</html>".to_owned(),
        String::new(),
    ] {
        let server = Scripted::start(move |_| Answer::File(wrong.clone().into_bytes()));
        let found = lines(&mut report(dir.path(), &[&server.url]));
        assert!(
            found.iter().all(|(function, ..)| function.starts_with("0x")),
            "{found:?}"
        );
        assert!(server.asked().contains(&path_of("app.sym")));
        let folder = dir.path().join("cache/symbols/app.pdb").join(ID);
        let kept = fs::read_dir(folder).map_or(0, |files| files.flatten().count());
        assert_eq!(kept, 0);
    }
    assert_eq!(lines(&mut report(dir.path(), &[&server().url])), named());
}

#[test]
fn ctrl_c_ends_a_download() {
    let dir = temp_dir();
    recorded_on_windows(dir.path());
    let server = Scripted::start(|_| Answer::Silence);
    let mut child = report(dir.path(), &[&server.url])
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let start = Instant::now();
    while server.asked().is_empty() && start.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(server.asked().len(), 1);
    assert!(
        Command::new("kill")
            .args(["-INT", &child.id().to_string()])
            .status()
            .unwrap()
            .success()
    );
    // Without Ctrl-C it waits for a minute and a half.
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() && start.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(10));
    }
    let _ = child.kill();
    let said = child.wait_with_output().unwrap();
    let said = String::from_utf8(said.stderr).unwrap();
    assert!(said.contains("interrupted while names were looked up"), "{said}");
}
