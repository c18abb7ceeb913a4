//! Symbol servers, which the user names.
//!
//! wholesym asks them and keeps what it gets in a folder, laid out as theirs: what is there needs no network. What is downloaded is read from the folder as any other
//! file. The servers learn names and ids of the files that the profile was recorded in and of which this machine has no symbols. Of the settings
//! that wholesym has, only servers and their folder are set, so it reads neither `_NT_SYMBOL_PATH` nor `DEBUGINFOD_URLS`, and asks for no sources.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use recording::module::Module;
use tokio::runtime::{Builder, Runtime};
use wholesym::debugid::DebugId;
use wholesym::{DownloadError, SymbolManager, SymbolManagerConfig, SymbolManagerObserver};

use super::guarded::guarded;
use super::{Candidate, SymbolServersError, stored};
use crate::cache::Cache;
use crate::debuginfod::{Download, MAX_FAILURES, PATIENCE, Watcher, hosts_of};

/// How often the user is asked whether to go on.
const TICK: Duration = Duration::from_millis(100);

/// The servers, asked for one module at a time.
pub struct SymbolServers {
    state: Mutex<State>,
    seen: Arc<Seen>,
    folder: PathBuf,
    hosts: Vec<String>,
    watcher: Box<Watcher>,
}

struct State {
    runtime: Runtime,
    manager: SymbolManager,
    /// (name, id) of modules that were asked for in this run.
    asked: HashSet<(String, String)>,
    /// One after the other.
    failures: u32,
    /// True once nothing more is asked for.
    is_over: bool,
}

impl fmt::Debug for SymbolServers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SymbolServers")
            .field("hosts", &self.hosts)
            .finish_non_exhaustive()
    }
}

/// Why sprof has ended a download.
enum Ended {
    TooSlow,
    Unwanted,
}

impl SymbolServers {
    /// The servers of these URLs, for PDB and Breakpad files. `folder` is for what they give. Asks no server yet.
    ///
    /// # Errors
    ///
    /// A server is no URL, or the folder can't be made.
    pub fn new(urls: &[String], folder: PathBuf, watcher: Box<Watcher>) -> Result<SymbolServers, SymbolServersError> {
        let is_url = |url: &&String| url.starts_with("https://") || url.starts_with("http://");
        if let Some(other) = urls.iter().find(|url| !is_url(url)) {
            return Err(SymbolServersError::NoUrl(other.clone()));
        }
        (Cache::new(&folder).make_folder()).map_err(|error| SymbolServersError::NoFolder {
            path: folder.clone(),
            reason: error.to_string(),
        })?;
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| SymbolServersError::NoClient(error.to_string()))?;
        let config = urls.iter().fold(SymbolManagerConfig::new(), |config, url| {
            config
                .breakpad_symbols_server(url, &folder)
                .windows_symbols_server(url, &folder)
        });
        let manager = guarded(|| SymbolManager::with_config(config));
        let mut manager = manager.ok_or_else(|| SymbolServersError::NoClient("wholesym gave up".to_owned()))?;
        let seen = Arc::new(Seen::default());
        manager.set_observer(Some(seen.clone()));
        Ok(SymbolServers {
            state: Mutex::new(State {
                runtime,
                manager,
                asked: HashSet::new(),
                failures: 0,
                is_over: false,
            }),
            seen,
            folder,
            hosts: hosts_of(&urls.join(" ")),
            watcher,
        })
    }

    /// Where downloads are, laid out as on the servers.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Downloads the symbols of a module that has a name and a debug id. `None` if they can't be had; the watcher knows why.
    pub(super) fn download(&self, module: &Module) -> Option<Candidate> {
        let mut state = lock(&self.state);
        let (name, id) = (module.name(), module.breakpad_id());
        if state.is_over || !state.asked.insert((name.clone(), id.clone())) {
            return None;
        }
        let debug_id = DebugId::from_breakpad(&id).ok()?;
        let what = format!("symbols of {name}");
        self.seen.start();
        let ended = guarded(|| state.load(&name, debug_id, || self.end_of(&what)));
        (self.watcher)(Download::Over);
        let paths = stored(module, &self.folder);
        let failure = match ended {
            Some(Ok(true)) => {
                state.failures = 0;
                return paths.into_iter().find(|path| path.is_file()).map(Candidate::File);
            }
            Some(Ok(false)) => self.seen.failure(),
            Some(Err(Ended::TooSlow)) => Some(format!("did not send a byte in {} s", PATIENCE.as_secs())),
            Some(Err(Ended::Unwanted)) => {
                state.is_over = true;
                return None;
            }
            None => Some("sent what can't be read".to_owned()),
        };
        // What is not what was asked for would be there at the next start, too.
        paths.iter().for_each(|path| drop(fs::remove_file(path)));
        let Some(failure) = failure else {
            state.failures = 0;
            (self.watcher)(Download::Absent { what: &what });
            return None;
        };
        let mut reason = match self.hosts.as_slice() {
            [host] => format!("{host} {failure}"),
            several => format!("one of {} {failure}", several.join(", ")),
        };
        state.failures += 1;
        if state.failures >= if self.hosts.len() == 1 { 1 } else { MAX_FAILURES } {
            state.is_over = true;
            reason.push_str("; sprof asks for nothing more in this run");
        }
        (self.watcher)(Download::Failed {
            what: &what,
            reason: &reason,
        });
        None
    }

    /// Whether to end the download that goes on.
    fn end_of(&self, what: &str) -> Option<Ended> {
        let (received, all, since) = self.seen.progress();
        if !(self.watcher)(Download::Progress { what, received, all }) {
            return Some(Ended::Unwanted);
        }
        (since > PATIENCE).then_some(Ended::TooSlow)
    }
}

impl State {
    /// True if a server gave the symbols.
    fn load(&self, name: &str, id: DebugId, end: impl Fn() -> Option<Ended>) -> Result<bool, Ended> {
        let ended = async {
            loop {
                tokio::time::sleep(TICK).await;
                if let Some(ended) = end() {
                    return ended;
                }
            }
        };
        self.runtime.block_on(async {
            tokio::select! {
                loaded = self.manager.load_symbol_map(name, id) => Ok(loaded.is_ok()),
                ended = ended => Err(ended),
            }
        })
    }
}

/// What wholesym reports of the downloads for one module.
#[derive(Default)]
struct Seen {
    downloads: Mutex<Downloads>,
}

#[derive(Default)]
struct Downloads {
    /// (bytes that have arrived, all bytes), by number of the download.
    running: BTreeMap<u64, (u64, Option<u64>)>,
    last_arrival: Option<Instant>,
    failure: Option<String>,
}

impl Seen {
    fn start(&self) {
        *lock(&self.downloads) = Downloads {
            last_arrival: Some(Instant::now()),
            ..Downloads::default()
        };
    }

    /// Bytes that have arrived, of how many, and the time since the last one.
    fn progress(&self) -> (u64, Option<u64>, Duration) {
        let downloads = lock(&self.downloads);
        let largest = downloads.running.values().max().copied();
        let (received, all) = largest.unwrap_or_default();
        let since = downloads.last_arrival.map_or(Duration::ZERO, |last| last.elapsed());
        (received, all, since)
    }

    /// The first failure that was not "I have no such file".
    fn failure(&self) -> Option<String> {
        lock(&self.downloads).failure.take()
    }

    fn note(&self, id: u64, bytes: Option<(u64, Option<u64>)>) {
        let mut downloads = lock(&self.downloads);
        downloads.last_arrival = Some(Instant::now());
        match bytes {
            Some(bytes) => downloads.running.insert(id, bytes),
            None => downloads.running.remove(&id),
        };
    }
}

impl SymbolManagerObserver for Seen {
    fn on_new_download_before_connect(&self, id: u64, _url: &str) {
        self.note(id, Some((0, None)));
    }

    fn on_download_started(&self, id: u64) {
        self.note(id, Some((0, None)));
    }

    fn on_download_progress(&self, id: u64, received: u64, all: Option<u64>) {
        self.note(id, Some((received, all)));
    }

    fn on_download_completed(&self, id: u64, _bytes: u64, _until_headers: Duration, _until_completed: Duration) {
        self.note(id, None);
    }

    fn on_download_failed(&self, id: u64, reason: DownloadError) {
        self.note(id, None);
        let reason = match reason {
            // Some servers forbid what they do not have.
            DownloadError::StatusError(403 | 404 | 410) => return,
            DownloadError::StatusError(status) => format!("answered with status {status}"),
            DownloadError::OpenFailed(error) | DownloadError::Redirect(error) | DownloadError::Other(error) => {
                format!("can't be reached ({})", innermost(&*error))
            }
            DownloadError::StreamRead(error) => format!("ended a download early ({})", innermost(&error)),
            reason => format!("failed ({reason})"),
        };
        lock(&self.downloads).failure.get_or_insert(reason);
    }

    fn on_download_canceled(&self, id: u64) {
        self.note(id, None);
    }

    fn on_file_created(&self, _path: &Path, _bytes: u64) {}

    fn on_file_accessed(&self, _path: &Path) {}

    fn on_file_missed(&self, _path: &Path) {}
}

/// The cause that the system gave. The outer errors have the URL, which may hold a password.
fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
