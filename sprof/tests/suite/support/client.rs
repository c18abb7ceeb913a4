//! A real client of our profiles: the Firefox Profiler front end as a command line program, `profiler-cli` from npm.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

use super::run::wait_until;
use super::skip::{Need, has};

/// A loaded profile in the client; the daemon behind it ends with this.
pub(crate) struct Client {
    bin: PathBuf,
    session: String,
    state: tempfile::TempDir,
}

/// Where `.ci/run` installed `tests/client/package.json`: `SPROF_CLIENT_DIR`, else `target/client`.
fn install_dir() -> PathBuf {
    let default = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("client");
    std::env::var_os("SPROF_CLIENT_DIR").map_or(default, PathBuf::from)
}

/// A file of the npm packages; `None` (after saying so) where they are not installed.
pub(crate) fn installed(file: &str) -> Option<PathBuf> {
    let path = install_dir().join(file);
    let reason = format!("no {file} (`.ci/run client` installs it)");
    has(Need::ProfilerCli, path.exists(), &reason).then_some(path)
}

/// What a script in `tests/client` prints, with the packages that are installed for it; `None` (after saying so) where
/// they are not.
pub(crate) fn script(name: &str, arguments: &[&std::ffi::OsStr]) -> Option<String> {
    let modules = install_dir().join("node_modules");
    let reason = "no npm packages of the tests (`.ci/run client` installs them)";
    if !has(Need::ProfilerCli, modules.join("ajv").exists(), reason) {
        return None;
    }
    let path = std::env::var("PATH").unwrap_or_default();
    let output = Command::new("node")
        .arg(super::tests_dir().join("client").join(name))
        .args(arguments)
        .env("PATH", format!("{}:{path}", modules.join(".bin").display()))
        .env("NODE_PATH", &modules)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{name}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Some(String::from_utf8(output.stdout).unwrap())
}

impl Client {
    /// Loads a file or a URL; `None` (after saying so) where the client is not installed.
    pub(crate) fn load(what: &str) -> Option<Client> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let bin = install_dir().join("node_modules/.bin");
        let reason = "no profiler-cli (`.ci/run client` installs it)";
        if !has(Need::ProfilerCli, bin.join("profiler-cli").exists(), reason) {
            return None;
        }
        let session = format!("sprof-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        // Its socket lives in here: a path of at most 108 bytes.
        let state = tempfile::Builder::new().prefix("pq-").tempdir_in("/tmp").unwrap();
        let client = Client { bin, session, state };
        let (success, text) = client.try_run(&["load", what]);
        if !success {
            // On a busy machine its daemon takes longer to start than the client has patience for (seen: 500 ms, and a
            // second to answer). It goes on starting, and answers when it has loaded the profile.
            let is_starting = ["did not become ready", "started but cannot be reached"];
            assert!(
                is_starting.iter().any(|words| text.contains(words)),
                "profiler-cli load {what}: {text}"
            );
            wait_until(|| client.try_run(&["profile", "info"]).0, || text.clone());
        }
        Some(client)
    }

    /// Runs one command of the client and returns its JSON answer.
    pub(crate) fn run(&self, arguments: &[&str]) -> Value {
        let (success, text) = self.try_run(arguments);
        assert!(success, "profiler-cli {arguments:?}: {text}");
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("profiler-cli {arguments:?}: {error}: {text}"))
    }

    fn try_run(&self, arguments: &[&str]) -> (bool, String) {
        let path = std::env::var("PATH").unwrap_or_default();
        let output = Command::new(self.bin.join("profiler-cli"))
            .args(arguments)
            .args(["--json", "--session", &self.session])
            .env("PATH", format!("{}:{path}", self.bin.display()))
            .env("PROFILER_CLI_SESSION_DIR", self.state.path())
            .env("PROFILER_CLI_LOAD_TIMEOUT_MS", "120000")
            .output()
            .unwrap();
        let text = if output.status.success() {
            String::from_utf8_lossy(&output.stdout).into_owned()
        } else {
            format!(
                "{}{}",
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            )
        };
        (output.status.success(), text)
    }

    /// Handles of all threads, the busiest first.
    pub(crate) fn threads(&self) -> Vec<String> {
        let info = self.run(&["profile", "info", "--all"]);
        let mut threads: Vec<(f64, String)> = info["processes"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|process| process["threads"].as_array().unwrap())
            .map(|thread| {
                (
                    thread["cpuMs"].as_f64().unwrap_or(0.0),
                    thread["threadHandle"].as_str().unwrap().to_owned(),
                )
            })
            .collect();
        threads.sort_by(|a, b| b.0.total_cmp(&a.0));
        threads.into_iter().map(|(_, handle)| handle).collect()
    }

    /// The functions of the busiest thread: name, handle, self and total share in percent.
    pub(crate) fn functions(&self) -> Vec<(String, String, f64, f64)> {
        let thread = self.threads().swap_remove(0);
        self.run(&["thread", "select", &thread]);
        let answer = self.run(&["thread", "functions", "--limit", "0"]);
        let functions = answer["functions"].as_array().unwrap();
        functions
            .iter()
            .map(|function| {
                let text = |key: &str| function[key].as_str().unwrap().to_owned();
                let share = |key: &str| function[key].as_f64().unwrap();
                (
                    text("name"),
                    text("functionHandle"),
                    share("selfPercentage"),
                    share("totalPercentage"),
                )
            })
            .collect()
    }

    /// Source or assembly (`src`, `asm`) of a function of the busiest thread.
    pub(crate) fn annotate(&self, function: &str, mode: &str) -> Value {
        let functions = self.functions();
        let found = functions.iter().find(|(name, ..)| name == function);
        let (_, handle, ..) = found.unwrap_or_else(|| panic!("the client has no {function}: {functions:?}"));
        self.run(&["function", "annotate", handle, "--mode", mode])
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.try_run(&["stop"]);
    }
}
