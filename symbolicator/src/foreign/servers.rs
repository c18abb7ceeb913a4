//! Symbol servers, which the user names.
//!
//! wholesym asks them and keeps what it gets in a folder, laid out as theirs: what is there needs no network. What is
//! downloaded is read from the folder as any other file. The servers learn names and ids of the files that the profile
//! was recorded in if this machine has no symbols of them. sprof sets only wholesym's servers and folder, so wholesym
//! reads neither `_NT_SYMBOL_PATH` nor `DEBUGINFOD_URLS`, and asks for no sources.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use recording::module::Module;
use tokio::runtime::{Builder, Runtime};
use wholesym::debugid::DebugId;
use wholesym::{DownloadError, SymbolManager, SymbolManagerConfig, SymbolManagerObserver};

use super::error::SymbolServersError;
use super::guarded::guarded;
use super::paths::stored;
use crate::cache::Cache;
use crate::downloads::{Download, DownloadFailure, EndedDownload, MAX_BYTES, PATIENCE, ServerState, Watcher, hosts_of};

/// How often the user is asked whether to go on.
const TICK: Duration = Duration::from_millis(100);

/// The servers, asked for one module at a time.
pub struct SymbolServers {
    state: Mutex<ServersState>,
    seen: Arc<DownloadObserver>,
    folder: PathBuf,
    hosts: Vec<String>,
    watcher: Box<Watcher>,
}

struct ServersState {
    runtime: Runtime,
    manager: SymbolManager,
    /// (name, id) of modules that were asked for in this run.
    asked: HashSet<(String, String)>,
    servers: ServerState,
}

impl fmt::Debug for SymbolServers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SymbolServers")
            .field("hosts", &self.hosts)
            .finish_non_exhaustive()
    }
}

impl SymbolServers {
    /// The servers at these URLs, for PDB and Breakpad files. `folder` is for downloads. Asks no server yet.
    ///
    /// # Errors
    ///
    /// A server is not an HTTP or HTTPS URL, the folder can't be made, or the HTTP client can't be started.
    pub fn new(urls: &[String], folder: PathBuf, watcher: Box<Watcher>) -> Result<SymbolServers, SymbolServersError> {
        let is_url = |url: &&String| {
            let scheme = url.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
            matches!(scheme.as_deref(), Some("https" | "http"))
        };
        if let Some(other) = urls.iter().find(|url| !is_url(url)) {
            // A password is before it.
            let shown = other.rsplit('@').next().unwrap_or_default();
            return Err(SymbolServersError::NoUrl(shown.to_owned()));
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
        let seen = Arc::new(DownloadObserver::default());
        manager.set_observer(Some(seen.clone()));
        Ok(SymbolServers {
            state: Mutex::new(ServersState {
                runtime,
                manager,
                asked: HashSet::new(),
                servers: ServerState::default(),
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

    /// Asks for the symbols of a module that has a name and a debug id. Downloaded files are at the paths of
    /// [`stored`]. Returns the files that this request wrote there, unread. `None` if no server was asked. If no file
    /// came, the watcher was given the reason.
    pub(super) fn download(&self, module: &Module) -> Option<Vec<PathBuf>> {
        let mut state = lock(&self.state);
        let (name, id) = (module.name(), module.breakpad_id());
        if state.servers.is_over() || !state.asked.insert((name.clone(), id.clone())) {
            return None;
        }
        let debug_id = DebugId::from_breakpad(&id).ok()?;
        if !is_plain(&name) {
            (self.watcher)(Download::Failed {
                what: &format!("symbols of {name:?}"),
                reason: "servers are not asked for names with characters that change a URL",
            });
            return None;
        }
        let what = format!("symbols of {name}");
        let paths = stored(module, &self.folder);
        let [_, plain] = &paths;
        let packed = packed(plain);
        // symsrv 0.5 unpacks a packed file that it finds into `~/sym`, and asks no server.
        if !plain.is_file() {
            let _ = fs::remove_file(&packed);
        }
        self.seen.start();
        let ended = guarded(|| state.load(&name, debug_id, || self.end_of(&what)));
        (self.watcher)(Download::Over);
        if matches!(ended, Some(Err(_)) | None) {
            let all = paths.iter().chain([&packed]);
            all.for_each(|path| remove_part(path));
        }
        let created = self.seen.created();
        let is_unpacked = !created.contains(&packed) || plain.is_file();
        if created.contains(&packed) {
            let _ = fs::remove_file(&packed);
        }
        let is_here = |paths: &[PathBuf]| paths.iter().any(|path| path.is_file());
        let failure = self.seen.failure();
        let why = match ended {
            Some(Ok(true)) if is_here(&paths) => {
                state.servers.succeeded();
                return Some(created);
            }
            Some(Ok(true)) => Some(DownloadFailure::of_file("it is gone from the folder for downloads")),
            // The reader of what came says why it is not used.
            Some(Ok(false)) if failure.is_none() && is_here(&created) => {
                state.servers.succeeded();
                return Some(created);
            }
            Some(Ok(false)) if !is_unpacked => Some(DownloadFailure::of_file(
                "the packed PDB file that came can't be unpacked",
            )),
            Some(Ok(false)) => failure,
            Some(Err(EndedDownload::TooLarge(bytes))) => Some(DownloadFailure::of_file(format!(
                "it has {} MiB, more than {}",
                bytes >> 20,
                MAX_BYTES >> 20
            ))),
            Some(Err(EndedDownload::TooSlow)) => Some(DownloadFailure::of_server(format!(
                "did not send a byte in {} s",
                PATIENCE.as_secs()
            ))),
            Some(Err(EndedDownload::Unwanted)) => {
                state.servers.end();
                return Some(created);
            }
            None => Some(DownloadFailure::of_server("sent what can't be read")),
        };
        match why {
            Some(why) => self.fail(&mut state, &what, why),
            None => {
                state.servers.succeeded();
                (self.watcher)(Download::Absent { what: &what });
            }
        }
        Some(created)
    }

    fn fail(&self, state: &mut ServersState, what: &str, failure: DownloadFailure) {
        let reason = state.servers.failed(failure, &self.hosts);
        (self.watcher)(Download::Failed { what, reason: &reason });
    }

    /// Whether to end the download that goes on.
    fn end_of(&self, what: &str) -> Option<EndedDownload> {
        let (received, all, since) = self.seen.progress();
        if !(self.watcher)(Download::Progress { what, received, all }) {
            return Some(EndedDownload::Unwanted);
        }
        let largest = received.max(all.unwrap_or(0));
        if largest > MAX_BYTES {
            return Some(EndedDownload::TooLarge(largest));
        }
        (since > PATIENCE).then_some(EndedDownload::TooSlow)
    }
}

impl ServersState {
    /// True if a server gave the symbols.
    fn load(&self, name: &str, id: DebugId, end: impl Fn() -> Option<EndedDownload>) -> Result<bool, EndedDownload> {
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

/// True if the name is one part of a URL's path and stays as it is. The profile may name anything, and to the `url`
/// crate `\` is `/`, and `%2e%2e` is `..`.
fn is_plain(name: &str) -> bool {
    !name.contains(|c: char| c.is_control() || matches!(c, '\\' | '/' | '?' | '#' | '%'))
}

/// Where symsrv keeps the packed form of a file while it unpacks it: `app.pd_`.
fn packed(plain: &Path) -> PathBuf {
    let mut name = plain.file_name().unwrap_or_default().to_string_lossy().into_owned();
    name.pop();
    plain.with_file_name(name + "_")
}

/// Removes the beginning of a download of this file that was ended, unless another sprof writes it. The empty lock file
/// stays: another sprof may wait for it.
fn remove_part(path: &Path) {
    let beside = |suffix: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    };
    if let Ok(lock) = File::open(beside(".lock"))
        && lock.try_lock().is_ok()
    {
        let _ = fs::remove_file(beside(".part"));
    }
}

/// What wholesym reports of the downloads for one module.
#[derive(Default)]
struct DownloadObserver {
    downloads: Mutex<Downloads>,
}

#[derive(Default)]
struct Downloads {
    /// (bytes that have arrived, all bytes), by number of the download.
    running: BTreeMap<u64, (u64, Option<u64>)>,
    last_arrival: Option<Instant>,
    failure: Option<DownloadFailure>,
    /// Files that were written whole.
    created: Vec<PathBuf>,
}

impl DownloadObserver {
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
    fn failure(&self) -> Option<DownloadFailure> {
        lock(&self.downloads).failure.take()
    }

    fn created(&self) -> Vec<PathBuf> {
        lock(&self.downloads).created.clone()
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

impl SymbolManagerObserver for DownloadObserver {
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
        let why = match reason {
            // Some servers forbid what they do not have.
            DownloadError::StatusError(403 | 404 | 410) => return,
            DownloadError::StatusError(status) => DownloadFailure::of_server(format!("answered with status {status}")),
            DownloadError::OpenFailed(error) | DownloadError::Redirect(error) | DownloadError::Other(error) => {
                DownloadFailure::of_server(format!("can't be reached ({})", innermost(&*error)))
            }
            DownloadError::CouldNotCreateDestinationDirectory => of_folder("a folder in it can't be made"),
            DownloadError::DiskWrite(error) => of_folder(&innermost(&error)),
            // symsrv reports failed writes as failed reads.
            DownloadError::StreamRead(error) if is_of_disk(&error) => of_folder(&error.to_string()),
            DownloadError::StreamRead(error) => {
                DownloadFailure::of_server(format!("ended a download early ({})", innermost(&error)))
            }
            reason => DownloadFailure::of_server(format!("failed ({reason})")),
        };
        lock(&self.downloads).failure.get_or_insert(why);
    }

    fn on_download_canceled(&self, id: u64) {
        self.note(id, None);
    }

    fn on_file_created(&self, path: &Path, _bytes: u64) {
        lock(&self.downloads).created.push(path.to_owned());
    }

    fn on_file_accessed(&self, _path: &Path) {}

    fn on_file_missed(&self, _path: &Path) {}
}

/// A failure of this machine: no other server would do better.
fn of_folder(error: &str) -> DownloadFailure {
    DownloadFailure::of_file(format!(
        "the folder for downloads can't be written to ({error}): SPROF_CACHE names another one"
    ))
}

fn is_of_disk(error: &io::Error) -> bool {
    let of_disk = [libc::ENOSPC, libc::EDQUOT, libc::EACCES, libc::EROFS, libc::EIO];
    error.raw_os_error().is_some_and(|code| of_disk.contains(&code))
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
