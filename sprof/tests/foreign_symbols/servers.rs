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
    assert_eq!(nameless(&found), 3);
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
    let two = format!(" {}  {} ", server.url, server.url.replace("http:", "HTTP:"));
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

    for (url, shown) in [
        ("symbols.example.org", "symbols.example.org"),
        ("me:secret@symbols.example.org/x", "symbols.example.org/x"),
        ("ftp://me:secret@symbols.example.org", "symbols.example.org"),
    ] {
        let output = report(dir.path(), &[url]).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(
            !output.status.success() && said.contains(&format!(": {shown} is not the URL")) && !said.contains("secret"),
            "{said}"
        );
    }
}

#[test]
fn a_folder_that_cannot_be_written_to_is_no_failure_of_the_server() {
    let dir = temp_dir();
    recorded_on_windows(dir.path());
    fs::create_dir_all(dir.path().join("cache/symbols")).unwrap();
    fs::write(dir.path().join("cache/symbols/app.pdb"), "no folder").unwrap();
    let (_, said) = run(&mut report(dir.path(), &[&server().url]));
    assert!(
        said.contains("the folder for downloads can't be written to") && said.contains("SPROF_CACHE"),
        "{said}"
    );
    assert!(!said.contains("127.0.0.1") && !said.contains("nothing more"), "{said}");
}

/// As after a look-up that found nothing; and a profile that has all names and lines needs no server.
#[test]
fn a_profile_that_was_saved_without_names_has_them_later_and_then_asks_for_nothing() {
    let dir = temp_dir();
    let file = recorded_on_windows(dir.path());
    let text = fs::read_to_string(&file).unwrap();
    let saved = text.replace("\"symbolicated\": false", "\"symbolicated\": true");
    assert_ne!(saved, text);
    fs::write(&file, saved).unwrap();
    let server = server();
    assert_eq!(lines(&mut report(dir.path(), &[&server.url])), named());
    assert!(!server.asked().is_empty());
    let saved = dir.path().join("saved.json.gz");
    run(sprof()
        .args(["load", "-s", "--symbol-server", &server.url, "-o"])
        .args([&saved, &file])
        .env("SPROF_CACHE", dir.path().join("cache")));
    let asked = server.asked().len();
    let mut again = sprof();
    again.arg("report").arg(&saved).env("SPROF_CACHE", "off");
    assert_eq!(lines(&mut again), named());
    assert_eq!(server.asked().len(), asked);
}

/// Where downloads of the program are, without the empty lock files.
fn kept(dir: &Path) -> Vec<String> {
    let files = fs::read_dir(dir.join("cache/symbols/app.pdb").join(ID));
    let names = files.into_iter().flatten().flatten();
    let names = names.map(|file| file.file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| !name.ends_with(".lock")).collect();
    names.sort();
    names
}

#[test]
fn the_right_file_is_used_where_a_wrong_one_came_too() {
    let dir = temp_dir();
    recorded_on_windows(dir.path());
    let server = Scripted::start(|path| match path.rsplit('.').next() {
        Some("sym") => Answer::File(breakpad().replace(ID, &ID.replace('F', "E")).into_bytes()),
        // The reader knows formats by their content.
        Some("pdb") => Answer::File(breakpad().into_bytes()),
        _ => Answer::NotFound,
    });
    assert_eq!(lines(&mut report(dir.path(), &[&server.url])), named());
    assert_eq!(kept(dir.path()), ["app.pdb"]);
    assert_eq!(lines(&mut report(dir.path(), &["http://127.0.0.1:1"])), named());
}

/// A cabinet file with one file that is not compressed.
fn cabinet(content: &[u8]) -> Vec<u8> {
    let size = content.len() as u32;
    let mut bytes = b"MSCF\0\0\0\0".to_vec();
    for number in [77 + size, 0, 44, 0] {
        bytes.extend(u32::to_le_bytes(number));
    }
    // Version 1.3, one folder, one file.
    bytes.extend([3, 1, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
    // The folder: one block.
    bytes.extend([69, 0, 0, 0, 1, 0, 0, 0]);
    bytes.extend(size.to_le_bytes());
    bytes.extend([0, 0, 0, 0, 0, 0, 0x21, 0, 0, 0, 0x20, 0]);
    bytes.extend(b"app.pdb\0\0");
    // The block: no checksum.
    bytes.extend([0; 4]);
    bytes.extend([(size as u16).to_le_bytes(); 2].concat());
    bytes.extend(content);
    bytes
}

#[test]
fn packed_files_are_unpacked_in_the_folder_for_downloads_alone() {
    let wrong = breakpad().replace(ID, &ID.replace('F', "E"));
    for (packed, is_right, reason) in [
        (b"MSCF and no more".to_vec(), false, "can't be unpacked"),
        (cabinet(wrong.as_bytes()), false, "it has build id"),
        (cabinet(breakpad().as_bytes()), true, ""),
    ] {
        let dir = temp_dir();
        recorded_on_windows(dir.path());
        let (home, folder) = (
            dir.path().join("home"),
            dir.path().join("cache/symbols/app.pdb").join(ID),
        );
        fs::create_dir(&home).unwrap();
        fs::create_dir_all(&folder).unwrap();
        // Left behind by a sprof that was killed.
        fs::write(folder.join("app.pd_"), cabinet(wrong.as_bytes())).unwrap();
        let server = Scripted::start(move |path| match path == path_of("app.pd_") {
            true => Answer::File(packed.clone()),
            false => Answer::NotFound,
        });
        for run_number in 1..=2 {
            let mut asks = report(dir.path(), &[&server.url]);
            asks.env("HOME", &home);
            if is_right {
                assert_eq!(lines(&mut asks), named());
                assert_eq!(kept(dir.path()), ["app.pdb"]);
            } else {
                let (_, said) = run(asks.arg("-v"));
                assert!(said.contains(reason), "{said}");
                assert_eq!(kept(dir.path()), [""; 0]);
            }
            assert_eq!(fs::read_dir(&home).unwrap().count(), 0);
            let asked = server.asked().iter().filter(|path| path.ends_with("pd_")).count();
            assert_eq!(asked, if is_right { 1 } else { run_number });
        }
    }
}

#[test]
fn a_file_that_is_too_large_is_not_downloaded() {
    let dir = temp_dir();
    recorded_on_windows(dir.path());
    let server = Scripted::start(|_| Answer::Size(3 << 30));
    let (_, said) = run(&mut report(dir.path(), &[&server.url]));
    assert!(said.contains("it has 3072 MiB, more than 2048"), "{said}");
    assert_eq!(kept(dir.path()), [""; 0]);
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
        assert_eq!(nameless(&found), 3);
        assert!(server.asked().contains(&path_of("app.sym")));
        assert_eq!(kept(dir.path()), [""; 0]);
    }
    assert_eq!(lines(&mut report(dir.path(), &[&server().url])), named());
}

#[test]
fn ctrl_c_ends_a_download() {
    ended_by_ctrl_c(|| Answer::Silence, 0);
}

#[test]
fn ctrl_c_leaves_nothing_of_a_download() {
    ended_by_ctrl_c(|| Answer::Size(1 << 20), 1);
}

/// Ctrl-C once so many files are in the folder.
fn ended_by_ctrl_c(answer: fn() -> Answer, files: usize) {
    let dir = temp_dir();
    recorded_on_windows(dir.path());
    let server = Scripted::start(move |_| answer());
    let mut child = report(dir.path(), &[&server.url])
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let start = Instant::now();
    let is_there = || !server.asked().is_empty() && kept(dir.path()).len() == files;
    while !is_there() && start.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!((server.asked().len(), kept(dir.path()).len()), (1, files));
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
    assert_eq!(kept(dir.path()), [""; 0]);
}
