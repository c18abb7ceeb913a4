//! `--debuginfod`: debug info and sources from a server on loopback, Debian's own and one that gives the answers of the
//! test.
#![cfg(target_os = "linux")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::run::{PATIENCE, output, wait_until};
use crate::support::scripted::{Answer, Scripted};
use crate::support::skip::{Need, has, perf_events};
use crate::support::{Profile, Recorder, program, record, sprof, temp_dir};
use crate::symbols::assert_inline_frames;

/// A program without debug info and symbols, and its debug file.
struct Stripped {
    program: PathBuf,
    debug: PathBuf,
    build_id: String,
    dir: tempfile::TempDir,
}

impl Stripped {
    fn of(whole: &Path) -> Stripped {
        let dir = temp_dir();
        let name = whole.file_name().unwrap();
        let (program, served) = (dir.path().join(name), dir.path().join("served"));
        std::fs::create_dir(&served).unwrap();
        let debug = served.join("some.debug");
        run(Command::new("objcopy").arg("--only-keep-debug").arg(whole).arg(&debug));
        run(Command::new("strip").arg("-o").arg(&program).arg(whole));
        Stripped {
            build_id: crate::support::programs::build_id_of(&program),
            program,
            debug,
            dir,
        }
    }

    /// The environment of a request to these servers, with a cache of this test's.
    fn asks(&self, servers: &str, timeout_s: u32) -> Vec<String> {
        let unset = [
            "http_proxy",
            "ALL_PROXY",
            "all_proxy",
            "DEBUGINFOD_MAXSIZE",
            "DEBUGINFOD_MAXTIME",
            "DEBUGINFOD_HEADERS_FILE",
        ];
        let mut words = vec!["env".to_owned()];
        words.extend(unset.iter().flat_map(|name| ["-u".to_owned(), (*name).to_owned()]));
        words.extend([
            format!("DEBUGINFOD_URLS={servers}"),
            format!("DEBUGINFOD_CACHE_PATH={}", self.dir.path().join("cache").display()),
            format!("DEBUGINFOD_TIMEOUT={timeout_s}"),
            "DEBUGINFOD_RETRY_LIMIT=0".to_owned(),
            "SPROF_CACHE=off".to_owned(),
        ]);
        words
    }

    /// The call stacks of a saved profile, with this variable more, and what sprof says.
    fn export(&self, profile: &Path, servers: &str, variable: &str, options: &[&str]) -> (String, String) {
        let words = self.asks(servers, 60);
        let mut command = Command::new(&words[0]);
        command
            .args(&words[1..])
            .args([variable, env!("CARGO_BIN_EXE_sprof"), "export", "-f", "folded"])
            .args(options)
            .arg(profile);
        let output = output(&mut command);
        assert!(output.status.success(), "{output:?}");
        let [folded, said] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        (folded, said)
    }

    /// What is asked for to name this program.
    fn request(&self) -> String {
        format!("/buildid/{}/debuginfo", self.build_id)
    }

    fn recorder(&self, servers: &str) -> Recorder {
        self.impatient(servers, 60)
    }

    fn impatient(&self, servers: &str, timeout_s: u32) -> Recorder {
        let words = self.asks(servers, timeout_s);
        record().under(&words.iter().map(String::as_str).collect::<Vec<_>>())
    }
}

/// The program is in the profile. A host that takes the CPU away can leave few samples of it: the pauses count as the
/// program's CPU time, and no timer ticks in them.
fn assert_is_recorded(profile: &Profile) {
    assert!(profile.sample_count() > 0, "no samples: {:?}", profile.quality());
}

fn run(command: &mut Command) {
    assert!(command.status().unwrap().success(), "{command:?}");
}

/// Debian's server, ended with this.
struct Debians {
    child: Child,
    url: String,
}

impl Debians {
    /// Serves the debug files in a folder.
    fn start(folder: &Path, build_id: &str) -> Debians {
        // The server can't be given port 0. Another program may take the port meanwhile: then another one is tried.
        for _ in 0..10 {
            let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
            let child = Command::new("debuginfod")
                .args(["-d", ":memory:", "-F", "-p", &free.port().to_string()])
                .arg(folder)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            let mut server = Debians {
                child,
                url: format!("http://{free}"),
            };
            let start = Instant::now();
            while start.elapsed() < PATIENCE && server.child.try_wait().unwrap().is_none() {
                if get(free, &format!("/buildid/{build_id}/debuginfo")).contains(" 200 ") {
                    return server;
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        panic!("debuginfod does not serve {}", folder.display());
    }
}

impl Drop for Debians {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The first line of the answer.
fn get(address: SocketAddr, path: &str) -> String {
    let Ok(mut stream) = TcpStream::connect(address) else {
        return String::new();
    };
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    let _ = stream.write_all(request.as_bytes());
    let mut line = String::new();
    let _ = BufReader::new(stream.take(1000)).read_line(&mut line);
    line
}

impl Scripted {
    /// How often the debug info of this program was asked for.
    fn asked_for(&self, stripped: &Stripped) -> usize {
        let request = stripped.request();
        self.asked().iter().filter(|path| **path == request).count()
    }
}

#[test]
fn a_stripped_program_has_its_names_from_debians_server_and_then_without_a_server() {
    let Some(()) = perf_events() else { return };
    let found = Command::new("sh")
        .args(["-c", "command -v debuginfod && command -v debuginfod-find"])
        .output();
    let found = found.is_ok_and(|output| output.status.success());
    if !has(Need::Debuginfod, found, "debuginfod of elfutils is not installed") {
        return;
    }
    let stripped = Stripped::of(&program("inline_dwarf5").unwrap());
    let server = Debians::start(stripped.debug.parent().unwrap(), &stripped.build_id);
    let url = server.url.clone();
    let recorded = || {
        let recorder = stripped.recorder(&url).options(&["--debuginfod"]);
        let (recording, profile) = recorder.profile(&stripped.program, &["1000"]);
        recording.assert_tidy();
        assert_inline_frames(&profile);
    };
    recorded();
    drop(server);
    recorded();
    // The client of elfutils finds it in the same folder.
    let words = stripped.asks(&url, 1);
    let mut find = Command::new(&words[0]);
    find.args(&words[1..])
        .args(["debuginfod-find", "debuginfo", &stripped.build_id]);
    let found = output(&mut find);
    let path = stripped
        .dir
        .path()
        .join("cache")
        .join(&stripped.build_id)
        .join("debuginfo");
    assert_eq!(
        String::from_utf8_lossy(&found.stdout).trim(),
        path.to_str().unwrap(),
        "{found:?}"
    );
}

#[test]
fn what_elfutils_has_downloaded_or_not_found_is_not_asked_for_again() {
    let Some(()) = perf_events() else { return };
    let stripped = Stripped::of(&program("inline_dwarf5").unwrap());
    // debuginfod-find(1) of elfutils 0.188 leaves this where no server has the file.
    let folder = stripped.dir.path().join("cache").join(&stripped.build_id);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("debuginfo"), "").unwrap();
    let server = Scripted::start(|_| Answer::NotFound);
    let recorder = stripped.recorder(&server.url).options(&["--debuginfod"]);
    recorder.profile(&stripped.program, &["200"]);
    assert_eq!(server.asked_for(&stripped), 0);
}

#[test]
fn a_server_that_redirects_gets_no_header_of_the_first() {
    let Some(()) = perf_events() else { return };
    let stripped = Stripped::of(&program("inline_dwarf5").unwrap());
    let (debug, request) = (std::fs::read(&stripped.debug).unwrap(), stripped.request());
    let second = Scripted::start(move |path| match path == request {
        true => Answer::File(debug.clone()),
        false => Answer::NotFound,
    });
    let elsewhere = second.url.clone();
    let first = Scripted::start(move |path| Answer::Redirect(format!("{elsewhere}{path}")));
    let headers = stripped.dir.path().join("headers");
    std::fs::write(&headers, "X-Team: five\n").unwrap();
    let servers = first.url.replace("://", "://me:secret@");
    let mut words = stripped.asks(&servers, 60);
    words.push(format!("DEBUGINFOD_HEADERS_FILE={}", headers.display()));
    let recorder = record().under(&words.iter().map(String::as_str).collect::<Vec<_>>());
    assert_inline_frames(
        &recorder
            .options(&["--debuginfod"])
            .profile(&stripped.program, &["1000"])
            .1,
    );
    let secret = ["authorization: basic bwu6c2vjcmv0", "x-team: five"];
    for (server, has) in [(&first, true), (&second, false)] {
        let heads = server.heads();
        assert!(!heads.is_empty());
        for (head, secret) in heads.iter().flat_map(|head| secret.map(|secret| (head, secret))) {
            assert_eq!(head.contains(secret), has, "{secret} in {head}");
        }
    }
}

#[test]
fn a_download_that_ends_early_or_never_leaves_nothing() {
    let Some(()) = perf_events() else { return };
    let stripped = Stripped::of(&program("inline_dwarf5").unwrap());
    let debug = std::fs::read(&stripped.debug).unwrap();
    // Only the server that stalls is given up soon: on a slow machine the others may pause for seconds.
    let said = |answer: fn(Vec<u8>) -> Answer, timeout_s: u32, variable: &str| {
        let debug = debug.clone();
        let server = Scripted::start(move |_| answer(debug.clone()));
        let mut words = stripped.asks(&server.url, timeout_s);
        words.push(variable.to_owned());
        let recorder = record().under(&words.iter().map(String::as_str).collect::<Vec<_>>());
        let (recording, _) = recorder.options(&["--debuginfod"]).profile(&stripped.program, &["200"]);
        let left = std::fs::read_dir(stripped.dir.path().join("cache").join(&stripped.build_id));
        assert!(left.is_err(), "{:?}", left.unwrap().collect::<Vec<_>>());
        recording.stderr
    };
    let cut = said(Answer::CutShort, 60, "A=1");
    assert!(cut.contains("was not downloaded: 127.0.0.1:"), "{cut}");
    let stalled = said(|_| Answer::Size(1 << 20), 2, "A=1");
    assert!(stalled.contains("did not answer in time"), "{stalled}");
    let endless = said(|_| Answer::Endless, 60, "DEBUGINFOD_MAXSIZE=1000000");
    assert!(
        endless.contains("it is larger than DEBUGINFOD_MAXSIZE allows"),
        "{endless}"
    );
}

#[test]
fn nothing_is_asked_without_the_flag_and_only_what_is_missing_with_it() {
    let Some(()) = perf_events() else { return };
    let whole = program("inline_dwarf5").unwrap();
    let stripped = Stripped::of(&whole);
    let server = Scripted::start(|_| Answer::NotFound);
    let (_, profile) = stripped.recorder(&server.url).profile(&stripped.program, &["500"]);
    assert_eq!(profile.share_of("innermost").hits, 0);
    assert_eq!(server.asked(), [""; 0]);

    let with_flag = |program: &Path| {
        let recorder = stripped.recorder(&server.url).options(&["--debuginfod"]);
        recorder.profile(program, &["200"]).0
    };
    with_flag(&whole);
    assert_eq!(server.asked_for(&stripped), 0, "it is there");
    let recording = with_flag(&stripped.program);
    assert_eq!(server.asked_for(&stripped), 1);
    assert!(!recording.stderr.contains("was not downloaded"), "{}", recording.stderr);
    // Nor is it asked for again soon.
    with_flag(&stripped.program);
    assert_eq!(server.asked_for(&stripped), 1);
}

#[test]
fn the_first_failure_of_the_only_server_is_the_last() {
    let Some(()) = perf_events() else { return };
    let stripped = Stripped::of(&program("inline_dwarf5").unwrap());
    let server = Scripted::start(|_| Answer::Silence);
    let recorded = |servers: &str, timeout_s: u32, reason: &str| {
        let recorder = stripped.impatient(servers, timeout_s).options(&["--debuginfod"]);
        let (recording, profile) = recorder.profile(&stripped.program, &["200"]);
        let warnings = recording.stderr.matches("was not downloaded").count();
        assert!(recording.stderr.contains(reason), "{}", recording.stderr);
        assert_eq!(warnings, 1, "{}", recording.stderr);
        assert_is_recorded(&profile);
        recording.stderr
    };
    recorded(&server.url, 2, "did not answer in time");
    // sprof does not wait until the server has read the request.
    wait_until(|| !server.asked().is_empty(), || "no request came".to_owned());
    assert_eq!(server.asked().len(), 1, "{:?}", server.asked());
    // Its password is not shown.
    let refused = "127.0.0.1:1 refused the connection";
    let said = recorded("http://me:secret@127.0.0.1:1", 60, refused);
    assert!(!said.contains("secret"), "{said}");
    // What is there needs no server.
    let folder = stripped.dir.path().join("cache").join(&stripped.build_id);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::copy(&stripped.debug, folder.join("debuginfo")).unwrap();
    let recorder = stripped.recorder("http://127.0.0.1:1").options(&["--debuginfod"]);
    assert_inline_frames(&recorder.profile(&stripped.program, &["1000"]).1);
}

#[test]
fn a_dead_server_beside_one_that_answers_costs_no_names() {
    let Some(()) = perf_events() else { return };
    let stripped = Stripped::of(&program("inline_dwarf5").unwrap());
    let (debug, request) = (std::fs::read(&stripped.debug).unwrap(), stripped.request());
    let server = Scripted::start(move |path| match path == request {
        true => Answer::File(debug.clone()),
        false => Answer::NotFound,
    });
    let servers = format!("http://127.0.0.1:1 {}", server.url);
    let recorder = stripped.recorder(&servers).options(&["--debuginfod"]);
    assert_inline_frames(&recorder.profile(&stripped.program, &["1000"]).1);
}

#[test]
fn a_download_that_is_too_large_is_ended_and_the_advice_works() {
    let Some(()) = perf_events() else { return };
    let stripped = Stripped::of(&program("inline_dwarf5").unwrap());
    let (debug, request) = (std::fs::read(&stripped.debug).unwrap(), stripped.request());
    let large = Scripted::start({
        let request = request.clone();
        move |path| {
            if path == request {
                Answer::Size(3 << 30)
            } else {
                Answer::NotFound
            }
        }
    });
    let recorder = stripped.recorder(&large.url).options(&["--debuginfod"]);
    let (recording, _) = recorder.profile(&stripped.program, &["200"]);
    let advice = "it has 3072 MiB, more than 2048: DEBUGINFOD_MAXSIZE=BYTES allows more";
    assert!(recording.stderr.contains(advice), "{}", recording.stderr);
    // The file is asked for again at once: the client has not noted that no server has it.
    let server = Scripted::start(move |path| {
        if path == request {
            Answer::File(debug.clone())
        } else {
            Answer::NotFound
        }
    });
    let mut words = stripped.asks(&server.url, 0);
    words.push(format!("DEBUGINFOD_MAXSIZE={}", 4u64 << 30));
    let recorder = record().under(&words.iter().map(String::as_str).collect::<Vec<_>>());
    let recorder = recorder.options(&["--debuginfod"]);
    assert_inline_frames(&recorder.profile(&stripped.program, &["1000"]).1);
}

#[test]
fn a_server_with_the_debug_info_of_another_build_gives_no_wrong_names() {
    let Some(()) = perf_events() else { return };
    let stripped = Stripped::of(&program("inline_dwarf5").unwrap());
    let other = std::fs::read(program("split").unwrap()).unwrap();
    let server = Scripted::start(move |_| Answer::File(other.clone()));
    let recorder = stripped.recorder(&server.url).options(&["--debuginfod"]);
    let (_, profile) = recorder.profile(&stripped.program, &["500"]);
    assert_eq!(server.asked_for(&stripped), 1);
    assert_is_recorded(&profile);
    for wrong in ["sixty", "run_split", "innermost"] {
        assert_eq!(profile.share_of(wrong).hits, 0, "{wrong}\n{}", profile.summary());
    }
}

#[test]
fn a_saved_profile_has_its_names_from_the_server_later() {
    let Some(()) = perf_events() else { return };
    let stripped = Stripped::of(&program("inline_dwarf5").unwrap());
    let (request, debug) = (stripped.request(), std::fs::read(&stripped.debug).unwrap());
    let server = Scripted::start(move |path| match path == request {
        true => Answer::File(debug.clone()),
        false => Answer::NotFound,
    });
    let (recording, profile) = record().profile(&stripped.program, &["500"]);
    assert_eq!(profile.share_of("innermost").hits, 0);
    let folded = |options: &[&str]| stripped.export(&recording.output, &server.url, "A=1", options).0;
    assert!(!folded(&[]).contains("innermost"));
    assert_eq!(server.asked(), [""; 0]);
    let named = folded(&["--debuginfod"]);
    assert!(named.contains("main;not_inlined;middle;innermost "), "{named}");
    assert!(server.asked_for(&stripped) > 0);
}

#[test]
fn a_refusal_is_a_failure_where_the_user_gave_a_secret_and_a_proxy_is_named() {
    let Some(()) = perf_events() else { return };
    let stripped = Stripped::of(&program("inline_dwarf5").unwrap());
    let (recording, _) = record().profile(&stripped.program, &["200"]);
    let said = |servers: &str, variable: &str| {
        stripped
            .export(&recording.output, servers, variable, &["--debuginfod"])
            .1
    };
    let proxied = said("http://debug.invalid", "http_proxy=http://me:secret@127.0.0.1:1");
    let parts = [
        "debug.invalid was not reached: ",
        "by the proxy 127.0.0.1:1: the proxy refused the connection",
        "HTTP_PROXY",
    ];
    assert!(parts.iter().all(|part| proxied.contains(part)), "{proxied}");
    assert!(!proxied.contains("secret"), "{proxied}");

    let server = Scripted::start(|_| Answer::Forbidden);
    let headers = stripped.dir.path().join("headers");
    std::fs::write(&headers, "X-Team: secret\n").unwrap();
    let with_headers = said(&server.url, &format!("DEBUGINFOD_HEADERS_FILE={}", headers.display()));
    let with_password = said(&server.url.replace("://", "://me:secret@"), "A=1");
    for said in [with_headers, with_password] {
        let reason = "forbids it (status 403): check DEBUGINFOD_HEADERS_FILE, or the password in DEBUGINFOD_URLS";
        assert!(said.contains(reason) && !said.contains("secret"), "{said}");
    }
    // Some servers forbid what they do not have.
    let without = said(&server.url, "A=1");
    assert!(!without.contains("was not downloaded"), "{without}");
    assert_eq!(server.asked_for(&stripped), 3);
}

#[test]
fn the_program_has_no_file_of_the_client_open() {
    let Some(()) = perf_events() else { return };
    let stripped = Stripped::of(&program("split").unwrap());
    let opened = |options: &[&str]| {
        let recorder = stripped.recorder("http://127.0.0.1:1").options(options);
        let recording = recorder.run("sh", &["-c", "ls /proc/self/fd | wc -l"]);
        recording.stdout.trim().parse::<u32>().unwrap()
    };
    assert_eq!(opened(&["--debuginfod"]), opened(&[]));
}

#[test]
fn what_is_needed_is_said_before_the_program_runs() {
    let Some(()) = perf_events() else { return };
    let recording = record()
        .under(&["env", "-u", "DEBUGINFOD_URLS"])
        .options(&["--debuginfod"])
        .run("echo", &["it ran"]);
    assert_eq!(recording.code, Some(125), "{}", recording.stderr);
    assert!(
        recording.stderr.contains("export DEBUGINFOD_URLS="),
        "{}",
        recording.stderr
    );
    assert_eq!(recording.stdout, "");
}

#[test]
fn a_source_that_is_not_here_comes_from_the_server() {
    let Some(()) = perf_events() else { return };
    let dir = temp_dir();
    let (source, binary) = (dir.path().join("gone.c"), dir.path().join("gone"));
    let text = "static volatile unsigned long sink;\n\
                int main(void) {\n\
                \x20   for (unsigned long i = 0; i < 200000000; i++) sink += i; /* only the server has this line */\n\
                \x20   return 0;\n}\n";
    std::fs::write(&source, text).unwrap();
    run(Command::new("cc")
        .args(["-g", "-O1", "-Wl,--build-id", "-o"])
        .arg(&binary)
        .arg(&source));
    std::fs::remove_file(&source).unwrap();
    let server = Scripted::start(
        move |path| match path.contains("/source/") && path.ends_with("gone.c") {
            true => Answer::File(text.as_bytes().to_vec()),
            false => Answer::NotFound,
        },
    );
    let (recording, _) = record().profile(&binary, &[""; 0]);
    let annotated = |flags: &[&str]| {
        let mut command = sprof();
        command
            .env("DEBUGINFOD_URLS", &server.url)
            .env("DEBUGINFOD_CACHE_PATH", dir.path().join("cache"))
            .env_remove("http_proxy")
            .env_remove("ALL_PROXY")
            .env_remove("DEBUGINFOD_MAXSIZE")
            .arg("annotate")
            .arg(&recording.output)
            .arg("main")
            .args(flags);
        let output = output(&mut command);
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
    };
    let without = annotated(&[]);
    assert!(!without.contains("only the server has this line"), "{without}");
    assert_eq!(server.asked(), [""; 0]);
    let with = annotated(&["--debuginfod"]);
    assert!(
        with.contains("only the server has this line"),
        "{with}\n{:?}",
        server.asked()
    );
}
