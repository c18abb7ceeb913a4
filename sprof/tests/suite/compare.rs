//! `sprof diff --open`: the link that it prints, taken apart as the UI does, and what the server has behind it.
#![cfg(target_os = "linux")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Stdio};

use crate::support::skip::perf_events;
use crate::support::{program, record, sprof, temp_dir};
use percent_encoding::percent_decode_str;

struct Served {
    child: Child,
    /// What was said before the link.
    said: String,
    link: String,
}

impl Served {
    fn start(base: &Path, new: &Path, options: &[&str]) -> Served {
        let mut command = sprof();
        for variable in ["CI", "SSH_CONNECTION", "DISPLAY", "WAYLAND_DISPLAY", "PROFILER_URL"] {
            command.env_remove(variable);
        }
        command
            .arg("diff")
            .args([base, new])
            .args(["--open", "--port", "0"])
            .args(options);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let link = loop {
            let mut line = String::new();
            assert!(stderr.read_line(&mut line).unwrap() > 0, "sprof ended: {said}");
            if let Some(link) = line.split_whitespace().find(|word| word.contains("/compare/")) {
                break link.to_owned();
            }
            said.push_str(&line);
        };
        std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
        Served { child, said, link }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8().unwrap().into_owned()
}

/// The decoded values of a query, in order.
fn query(address: &str) -> Vec<(String, String)> {
    let (_, query) = address.split_once('?').unwrap();
    (query.split('&'))
        .map(|pair| pair.split_once('=').unwrap())
        .map(|(key, value)| (decoded(key), decoded(value)))
        .collect()
}

fn value(address: &str, key: &str) -> String {
    let found: Vec<_> = query(address).into_iter().filter(|(name, _)| name == key).collect();
    assert_eq!(found.len(), 1, "{key} in {address}");
    found[0].1.clone()
}

/// What a client that unpacks nothing gets.
fn get(address: &str) -> Vec<u8> {
    let (host, path) = address.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    write!(stream, "GET /{path} HTTP/1.1\r\nHost: {host}\r\n\r\n").unwrap();
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).unwrap();
    let end = reply.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
    assert!(
        reply.starts_with(b"HTTP/1.1 200"),
        "{}",
        String::from_utf8_lossy(&reply[..end])
    );
    reply[end + 4..].to_vec()
}

#[test]
fn the_compare_view_gets_both_profiles_and_their_busiest_threads() {
    let Some(()) = perf_events() else { return };
    // A main thread that waits, and others that work; in the other profile the main thread works.
    let (base, base_profile) = record().profile(program("threads").unwrap(), &["4", "200"]);
    let (new, _) = record().profile(program("split").unwrap(), &["200"]);
    let served = Served::start(&base.output, &new.output, &[]);
    assert!(
        served.link.starts_with("https://profiler.firefox.com/compare/?"),
        "{}",
        served.link
    );
    let profiles: Vec<String> = (query(&served.link).into_iter())
        .filter(|(key, _)| key == "profiles[]")
        .map(|(_, address)| address)
        .collect();
    let symbols = value(&served.link, "symbolServer");
    for (address, file, side) in [
        (&profiles[0], &base.output, "before"),
        (&profiles[1], &new.output, "after"),
    ] {
        let (_, path) = address.split_once("profiler.firefox.com/from-url/").unwrap();
        let profile = decoded(path.split('/').next().unwrap());
        assert!(profile.starts_with(&format!("{symbols}/")), "{profile} {symbols}");
        assert_eq!(get(&profile), std::fs::read(file).unwrap(), "{side}");
        let name = format!("{side}: {}", file.file_name().unwrap().to_str().unwrap());
        assert_eq!(value(address, "profileName"), name);
    }
    // Few enough for one digit, which is of base 32.
    let thread = u32::from_str_radix(&value(&profiles[0], "thread"), 32).unwrap() as usize;
    let samples: Vec<usize> = base_profile.threads.iter().map(|thread| thread.samples.len()).collect();
    assert_eq!(samples[thread], *samples.iter().max().unwrap(), "{samples:?}");
    assert!(
        served.said.contains("one thread of each profile: before, "),
        "{}",
        served.said
    );
}

#[test]
fn a_folder_with_the_ui_is_served_with_both() {
    let folder = temp_dir();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let (base, new) = (file("a.folded", "main;a 10\n"), file("b.folded", "main;b 10\n"));
    let _ = file("index.html", "the ui");
    let served = Served::start(&base, &new, &["--ui-dir", folder.path().to_str().unwrap()]);
    assert_eq!(get(&served.link), b"the ui");
    let origin = served.link.split_once("/compare/").unwrap().0;
    let address = &query(&served.link)[1].1;
    let profile = decoded(
        address
            .strip_prefix(&format!("{origin}/from-url/"))
            .unwrap()
            .split('/')
            .next()
            .unwrap(),
    );
    // As a profile, whatever the file was.
    let mut json = String::new();
    flate2::read::GzDecoder::new(&get(&profile)[..])
        .read_to_string(&mut json)
        .unwrap();
    assert!(json.contains(r#""stringArray":["main","b"]"#), "{json}");
}

#[test]
fn several_files_a_side_are_no_view() {
    let output = sprof()
        .args(["diff", "a", "b", "--new", "c", "--open"])
        .output()
        .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("with --open, give two files"), "{stderr}");
}
