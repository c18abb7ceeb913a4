//! `sprof record` on a terminal: it saves, serves, and ends with the program's status. `script` gives the terminal.
#![cfg(target_os = "linux")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support;
use crate::support::run::PATIENCE;
use crate::support::skip::perf_events;
use crate::support::{Profile, program, temp_dir, wait_until};

/// sprof under `script`, which writes all that appears on the terminal to a file.
pub(crate) struct Terminal {
    script: Child,
    folder: tempfile::TempDir,
}

impl Terminal {
    /// `None` where there is no `script`.
    pub(crate) fn start(environment: &[(&str, &str)], options: &[&str], program: &str) -> Option<Terminal> {
        Terminal::start_after("", environment, options, program)
    }

    /// The same after a shell's command on that terminal.
    fn start_after(before: &str, environment: &[(&str, &str)], options: &[&str], program: &str) -> Option<Terminal> {
        let mut line = format!("{before} exec '{}' record", env!("CARGO_BIN_EXE_sprof"));
        for word in options
            .iter()
            .chain(&["--"])
            .chain(&program.split(' ').collect::<Vec<_>>())
        {
            line.push_str(&format!(" '{word}'"));
        }
        Terminal::of_shell(&line, environment)
    }

    /// A line of a shell on a terminal.
    pub(crate) fn of_shell(line: &str, environment: &[(&str, &str)]) -> Option<Terminal> {
        if Command::new("script")
            .arg("--version")
            .stdout(Stdio::null())
            .status()
            .is_err()
        {
            let _ = writeln!(std::io::stderr(), "skipped: no `script` (Debian: bsdutils)");
            return None;
        }
        let folder = temp_dir();
        let mut command = Command::new("script");
        for variable in [
            "CI",
            "DISPLAY",
            "WAYLAND_DISPLAY",
            "BROWSER",
            "SSH_CONNECTION",
            "PROFILER_URL",
            "SUDO_USER",
        ] {
            command.env_remove(variable);
        }
        let script = command
            .args(["--quiet", "--flush", "--return", "--command", line, "typescript"])
            .envs(environment.iter().copied())
            .current_dir(folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Some(Terminal { script, folder })
    }

    /// Types keys.
    pub(crate) fn press(&mut self, keys: &str) {
        self.script.stdin.as_mut().unwrap().write_all(keys.as_bytes()).unwrap();
    }

    /// Takes the terminal away.
    pub(crate) fn close(self) {}

    pub(crate) fn text(&self) -> String {
        let bytes = std::fs::read(self.folder.path().join("typescript")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    pub(crate) fn wait_for(&self, text: &str) {
        wait_until(
            || self.text().contains(text),
            || format!("no {text:?} in:\n{}", self.text()),
        );
    }

    /// Types Ctrl-C (ETX, termios(3) VINTR) and waits for the end.
    pub(crate) fn interrupt(mut self) -> (Option<i32>, String) {
        self.script.stdin.as_mut().unwrap().write_all(b"\x03").unwrap();
        let start = Instant::now();
        loop {
            if let Some(status) = self.script.try_wait().unwrap() {
                return (status.code(), self.text());
            }
            if start.elapsed() > PATIENCE {
                let _ = self.script.kill();
                panic!("Ctrl-C did not end it:\n{}", self.text());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The folder in which the line runs.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn profile(&self) -> std::path::PathBuf {
        self.folder.path().join("profile.json.gz")
    }
}

/// Nothing runs on where a test fails.
impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.script.kill();
        let _ = self.script.wait();
    }
}

fn served_profile(text: &str) -> Vec<u8> {
    ask(text, "GET", "profile.json", "")
}

/// Asks the server whose link is in the text.
fn ask(text: &str, method: &str, path: &str, body: &str) -> Vec<u8> {
    let base = text.split("symbolServer=").nth(1).unwrap();
    let base: String = base
        .chars()
        .take_while(|c| c.is_ascii_alphanumeric() || "%.".contains(*c))
        .collect();
    let base = base.replace("%3A", ":").replace("%2F", "/");
    let (address, token) = base.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "{method} /{token}/{path} HTTP/1.1\r\nHost: {address}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).unwrap();
    let body = reply.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
    reply.split_off(body)
}

fn exits(mode: &str) -> String {
    format!("{} {mode}", program("exits").unwrap().display())
}

#[test]
fn on_a_terminal_the_profile_is_saved_and_served_until_ctrl_c() {
    let Some(()) = perf_events() else { return };
    let Some(terminal) = Terminal::start(&[], &["--port", "0"], &exits("status 3")) else {
        return;
    };
    terminal.wait_for("until Ctrl-C");
    let text = terminal.text();
    assert!(text.contains("saved") && text.contains("quality:"), "{text}");
    assert!(text.contains("https://profiler.firefox.com/from-url/"), "{text}");
    assert!(text.contains("busy_work") || text.contains("xorshift"), "{text}");
    let saved = std::fs::read(terminal.profile()).unwrap();
    assert_eq!(served_profile(&text), saved);
    // Names, and the categories that depend on them, are the same whoever opens the file.
    let profile = Profile::read(&terminal.profile());
    assert_eq!(profile.json["meta"]["symbolicated"], true);
    assert!(profile.share_of("busy_work").hits > 0, "{}", profile.summary());
    let (status, text) = terminal.interrupt();
    assert_eq!(status, Some(3), "{text}");
    assert!(!text.contains("panicked"), "{text}");
}

/// The names that the server knows of a library's frames in the saved profile.
fn served_names(text: &str, profile: &Profile, library: &str) -> Vec<String> {
    let libs = profile.json["libs"].as_array().unwrap();
    let (index, lib) = (libs.iter().enumerate())
        .find(|(_, lib)| lib["name"].as_str().unwrap().starts_with(library))
        .unwrap_or_else(|| panic!("no library {library}: {libs:?}"));
    let frames = profile.frames.iter().filter(|frame| frame.lib == Some(index));
    let stack: Vec<_> = frames.filter_map(|frame| Some((0, frame.address?))).collect();
    let request = serde_json::json!({
        "memoryMap": [[lib["debugName"], lib["breakpadId"]]],
        "stacks": [stack],
    });
    let answer = ask(text, "POST", "symbolicate/v5", &request.to_string());
    let answer: serde_json::Value = serde_json::from_slice(&answer).unwrap();
    let frames = answer["results"][0]["stacks"][0].as_array().unwrap();
    let names = frames.iter().filter_map(|frame| frame["function"].as_str());
    names.map(str::to_owned).collect()
}

#[test]
fn what_is_gone_when_the_server_is_asked_has_its_names() {
    let Some(()) = perf_events() else { return };
    let folder = temp_dir();
    let script = folder.path().join("script");
    let text = format!(
        "cd {0}; cp {1} goes; ./goes 300; rm goes; mkdir dumps; {2} 500 rwx dumps; rm -r dumps",
        folder.path().display(),
        program("split").unwrap().display(),
        program("jit").unwrap().display()
    );
    std::fs::write(&script, text).unwrap();
    let command = format!("sh {}", script.display());
    let Some(terminal) = Terminal::start(&[], &["--port", "0"], &command) else {
        return;
    };
    terminal.wait_for("until Ctrl-C");
    assert!(!folder.path().join("goes").exists() && !folder.path().join("dumps").exists());
    let (text, profile) = (terminal.text(), Profile::read(&terminal.profile()));
    for (library, expected) in [("goes", "sixty"), ("jit-", "mover")] {
        let names = served_names(&text, &profile, library);
        assert!(names.iter().any(|name| name == expected), "{library}: {names:?}");
    }
    assert_eq!(terminal.interrupt().0, Some(0));
}

#[test]
fn over_ssh_the_tunnel_is_printed_and_b_opens_the_profile_in_the_terminal() {
    let Some(()) = perf_events() else { return };
    let ssh = [("SSH_CONNECTION", "192.0.2.7 50000 192.0.2.1 22"), ("USER", "ada")];
    let size = "stty cols 80 rows 24;";
    let Some(mut terminal) = Terminal::start_after(size, &ssh, &["--port", "0"], &exits("status 0")) else {
        return;
    };
    // There the profile is also shown in the terminal.
    terminal.wait_for("until Ctrl-C; b opens the profile in this terminal");
    terminal.press("b");
    terminal.wait_for("Tab: next view");
    // What the server has to say of a browser waits until the screen is free.
    ask(&terminal.text(), "GET", "view/?instead", "");
    terminal.press("q");
    terminal.wait_for("\u{1b}[?1049l");
    terminal.wait_for("does not reach");
    let (status, text) = terminal.interrupt();
    assert!(text.find("does not reach") > text.rfind("\u{1b}[?1049l"), "{text}");
    assert_eq!(status, Some(0), "{text}");
    assert!(text.contains("ssh -N -L ") && text.contains("ada@192.0.2.1"), "{text}");
}

#[test]
fn with_ci_set_nothing_is_served() {
    let Some(()) = perf_events() else { return };
    let Some(mut terminal) = Terminal::start(&[("CI", "true")], &[], &exits("status 5")) else {
        return;
    };
    assert_eq!(terminal.script.wait().unwrap().code(), Some(5));
    assert!(terminal.text().contains("open it with"), "{}", terminal.text());
    assert!(terminal.profile().exists());
}

#[test]
fn a_port_that_is_taken_is_said_before_the_program_runs() {
    let taken = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let Some(mut terminal) = Terminal::start(&[], &["--port", &port], "touch ran") else {
        return;
    };
    assert_eq!(terminal.script.wait().unwrap().code(), Some(125));
    assert!(
        terminal.text().contains(&format!("--port {port}+")),
        "{}",
        terminal.text()
    );
    assert!(!Path::exists(&terminal.folder.path().join("ran")));
}

/// A script in a folder of its own that stands in for programs that open links, and writes down its arguments.
pub(crate) fn browser_stand_in(folder: &Path) -> String {
    let script = folder.join("xdg-open");
    let said = folder.join("arguments");
    std::fs::write(
        &script,
        format!(
            "#!/bin/sh\ntr '\\0' '\\n' < /proc/$$/cmdline > '{0}.new'\nmv '{0}.new' '{0}'\n",
            said.display()
        ),
    )
    .unwrap();
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    format!("{}:{}", folder.display(), std::env::var("PATH").unwrap())
}

/// `GET` of a link with bash, as nobody or as who runs this: status line and headers.
fn get_with_bash(link: &str, as_nobody: bool) -> String {
    let (address, path) = link.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let (host, port) = address.split_once(':').unwrap();
    let line = format!(
        "exec 3<>/dev/tcp/{host}/{port}; printf 'GET /{path} HTTP/1.1\\r\\nHost: {address}\\r\\n\\r\\n' >&3; cat <&3"
    );
    let mut command = match as_nobody {
        true => {
            let mut command = Command::new("setpriv");
            command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "bash"]);
            command
        }
        false => Command::new("bash"),
    };
    let output = command.args(["-c", &line]).current_dir("/").output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn the_browser_s_arguments_give_the_profile_to_nobody_else_and_a_blocked_browser_is_noticed() {
    let Some(()) = perf_events() else { return };
    let folder = temp_dir();
    let path = browser_stand_in(folder.path());
    let program = format!("{} 100", program("split").unwrap().display());
    let environment = [("DISPLAY", ":0"), ("PATH", path.as_str())];
    let Some(terminal) = Terminal::start(&environment, &[], &program) else {
        return;
    };
    terminal.wait_for("until Ctrl-C");
    let said = folder.path().join("arguments");
    wait_until(
        || said.exists(),
        || format!("no browser was started: {}", terminal.text()),
    );
    let arguments = std::fs::read_to_string(said).unwrap();
    let text = terminal.text();
    let token = text.split("symbolServer=").nth(1).unwrap();
    let token = &token.split("%2F").nth(3).unwrap()[..32];
    assert!(!arguments.contains(token), "{arguments}");
    let once = arguments.lines().find(|line| line.starts_with("http://")).unwrap();
    if support::skip::root() {
        let refused = get_with_bash(once, true);
        assert!(
            refused.starts_with("HTTP/1.1 403") && !refused.contains(token),
            "{refused}"
        );
    }
    let followed = get_with_bash(once, false);
    assert!(followed.starts_with("HTTP/1.1 303"), "{followed}");
    let location = followed
        .lines()
        .find_map(|line| line.strip_prefix("location: "))
        .unwrap();
    assert!(
        location.contains(token) && text.contains(location.trim()),
        "{location}: {text}"
    );
    let again = get_with_bash(once, false);
    assert!(again.starts_with("HTTP/1.1 410") && !again.contains(token), "{again}");

    // Whoever followed the link never asks for the profile, as a browser that lets no page reach this machine.
    terminal.wait_for("does not ask for the profile");
    terminal.wait_for("the built-in viewer needs none of that");
    assert_eq!(terminal.interrupt().0, Some(0));
}

#[test]
fn the_summary_fits_the_terminal_and_shortens_names_first() {
    let Some(()) = perf_events() else { return };
    let Some(names) = program("names") else { return };
    for columns in [60, 150] {
        let before = format!("stty cols {columns};");
        let environment = [("NO_COLOR", "1"), ("CI", "true")];
        let program = format!("{} 500", names.display());
        let Some(mut terminal) = Terminal::start_after(&before, &environment, &[], &program) else {
            return;
        };
        assert_eq!(terminal.script.wait().unwrap().code(), Some(0));
        let text = terminal.text();
        // Of both instances, the one with more samples is always there.
        let has = |of: &str| text.contains(&format!("outer_space::Holder<{of}>::spin"));
        assert!((has("int") || has("long")) && !text.contains("spin("), "{text}");
        // What is a table; sentences are the terminal's to wrap.
        let rows = text
            .lines()
            .filter(|line| line.starts_with("       ") && line.contains(" %  "));
        let widths: Vec<usize> = rows.map(|row| row.trim_end().chars().count()).collect();
        assert!(
            widths.len() >= 5 && widths.iter().all(|width| *width <= columns),
            "{widths:?} {text}"
        );
    }
}
