//! Debug info and sources from debuginfod servers, where this machine lacks them and the user asks for it.
//!
//! Requests and the cache are libdebuginfod's: what gdb or perf have downloaded is not downloaded again, and a file
//! that no server has is not asked for again for ten minutes. The servers learn build ids of sampled files, and names
//! of sources that the user opens or embeds.

use std::ffi::CString;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use recording::module::BuildId;

use crate::downloads::{Download, DownloadFailure, EndedDownload, MAX_BYTES, PATIENCE, ServerState, Watcher, hosts_of};
use crate::sys::{DebuginfodClient, WantedFile};

/// The environment variable with the servers, separated by spaces.
const SERVERS: &str = "DEBUGINFOD_URLS";

/// Why debuginfod can't be used.
#[derive(Clone, Debug, thiserror::Error)]
pub enum DebuginfodError {
    /// No server is named.
    #[error(
        "{SERVERS} names no server: set it to that of your distribution, or to one that asks them all: \
         export {SERVERS}=https://debuginfod.elfutils.org"
    )]
    NoServers,
    /// The client library is absent or can't be used.
    #[error(
        "the debuginfod client of elfutils can't be loaded ({0}): install libdebuginfod1 (Debian, Ubuntu), \
         elfutils-debuginfod-client (Fedora) or libelf (Arch)"
    )]
    NoClient(String),
    /// The folder for downloads can't be made.
    #[error("the folder for downloads {} can't be made ({reason}): name another one with DEBUGINFOD_CACHE_PATH", .path.display())]
    NoCache {
        /// The folder.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

/// The servers, asked for one file at a time.
pub struct Debuginfod {
    state: Mutex<ClientState>,
    cache: PathBuf,
    watcher: Box<Watcher>,
}

struct ClientState {
    client: DebuginfodClient,
    servers: ServerState,
}

impl fmt::Debug for Debuginfod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Debuginfod").finish_non_exhaustive()
    }
}

impl Debuginfod {
    /// Asks no server yet.
    ///
    /// # Errors
    ///
    /// No server is named, the client library can't be loaded, or there is no folder for downloads.
    pub fn new(watcher: Box<Watcher>) -> Result<Debuginfod, DebuginfodError> {
        if hosts().is_empty() {
            return Err(DebuginfodError::NoServers);
        }
        let client = DebuginfodClient::new().map_err(DebuginfodError::NoClient)?;
        let no_cache = |path: &Path, error: io::Error| DebuginfodError::NoCache {
            path: path.to_owned(),
            reason: error.to_string(),
        };
        let cache = cache_folder().ok_or_else(|| no_cache(Path::new("~/.cache"), io::ErrorKind::NotFound.into()))?;
        // The library makes the last folder of the path alone.
        fs::create_dir_all(&cache).map_err(|error| no_cache(&cache, error))?;
        Ok(Debuginfod {
            state: Mutex::new(ClientState {
                client,
                servers: ServerState::default(),
            }),
            cache,
            watcher,
        })
    }

    /// The debug file of a build, for the file of this name. `None` if no server gave it; the watcher was told why.
    pub(crate) fn debug_info(&self, build_id: &BuildId, name: &str) -> Option<PathBuf> {
        let what = format!("debug info of {name}");
        let cached = self.cache.join(build_id.to_hex()).join("debuginfo");
        self.find(build_id, WantedFile::DebugInfo, &what)
            .or_else(|| fs::metadata(&cached).is_ok_and(|file| file.len() > 0).then_some(cached))
    }

    /// A source file of a build, by its absolute path in the debug info. `None` if no server gave it; the watcher was
    /// told why.
    pub(crate) fn source(&self, build_id: &BuildId, path: &str) -> Option<PathBuf> {
        let name = CString::new(path).ok()?;
        self.find(build_id, WantedFile::Source(&name), path)
    }

    fn find(&self, build_id: &BuildId, wanted: WantedFile<'_>, what: &str) -> Option<PathBuf> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.servers.is_over() {
            return None;
        }
        // 0 and less mean: no limit (debuginfod-find(1)).
        let patience = match variable("DEBUGINFOD_TIMEOUT") {
            None => Some(PATIENCE),
            Some(seconds) => u64::try_from(seconds)
                .ok()
                .filter(|seconds| *seconds > 0)
                .map(Duration::from_secs),
        };
        let limit = variable("DEBUGINFOD_MAXSIZE").map_or(MAX_BYTES, |_| u64::MAX);
        let mut ended = None;
        let mut last_arrival = (Instant::now(), 0);
        let mut progress = |received: u64, all: Option<u64>| {
            let largest = received.max(all.unwrap_or(0));
            if received > last_arrival.1 {
                last_arrival = (Instant::now(), received);
            }
            if largest > limit {
                ended = Some(EndedDownload::TooLarge(largest));
            } else if patience.is_some_and(|patience| last_arrival.0.elapsed() > patience) {
                ended = Some(EndedDownload::TooSlow);
            } else if !(self.watcher)(Download::Progress { what, received, all }) {
                ended = Some(EndedDownload::Unwanted);
            }
            ended.is_none()
        };
        let found = state.client.find(&build_id.0, wanted, &mut progress);
        (self.watcher)(Download::Over);
        let error = match found {
            Ok(path) => {
                state.servers.succeeded();
                return Some(path);
            }
            Err(error) => error,
        };
        if ended.is_some() {
            self.forget(build_id, wanted);
        }
        let Some(failure) = failure(&error, ended) else {
            state.servers.succeeded();
            (self.watcher)(Download::Absent { what });
            return None;
        };
        let reason = state.servers.failed(failure, &hosts());
        match ended {
            Some(EndedDownload::Unwanted) => state.servers.end(),
            _ => {
                (self.watcher)(Download::Failed { what, reason: &reason });
            }
        }
        None
    }

    /// Removes the empty files that the library writes where no server has a file: libdebuginfod 0.188 also writes one
    /// for a download that was ended, and gdb would then ask no server either.
    fn forget(&self, build_id: &BuildId, wanted: WantedFile<'_>) {
        let is_meant = |name: &[u8]| match wanted {
            WantedFile::DebugInfo => name == b"debuginfo",
            // `source#src#a.c`; a file that is being written has six characters more, behind a point.
            WantedFile::Source(_) => name.starts_with(b"source") && name.iter().rev().nth(6) != Some(&b'.'),
        };
        let files = fs::read_dir(self.cache.join(build_id.to_hex()));
        for file in files.into_iter().flatten().flatten() {
            let is_empty = file
                .metadata()
                .is_ok_and(|metadata| metadata.is_file() && metadata.len() == 0);
            if is_empty && is_meant(file.file_name().as_encoded_bytes()) {
                let _ = fs::remove_file(file.path());
            }
        }
    }
}

/// Why the file was not downloaded. `None` if no server has it.
fn failure(error: &io::Error, ended: Option<EndedDownload>) -> Option<DownloadFailure> {
    let too_slow = "did not answer in time (DEBUGINFOD_TIMEOUT=SECONDS allows more)";
    Some(match (ended, error.raw_os_error()) {
        (Some(EndedDownload::TooLarge(bytes)), _) => {
            let (has, limit) = (bytes >> 20, MAX_BYTES >> 20);
            DownloadFailure::of_file(format!(
                "it has {has} MiB, more than {limit}: DEBUGINFOD_MAXSIZE=BYTES allows more"
            ))
        }
        (Some(EndedDownload::TooSlow), _) => DownloadFailure::of_server(too_slow),
        (Some(EndedDownload::Unwanted), _) => DownloadFailure::of_file("sprof was interrupted".to_owned()),
        (None, Some(libc::ENOENT)) => return None,
        (None, Some(libc::EFBIG)) => DownloadFailure::of_file("it is larger than DEBUGINFOD_MAXSIZE allows".to_owned()),
        (None, Some(libc::ETIME | libc::ETIMEDOUT)) => DownloadFailure::of_server(too_slow),
        (None, Some(libc::ECONNREFUSED)) => DownloadFailure::of_server("refused the connection"),
        (None, Some(libc::EHOSTUNREACH | libc::ENETUNREACH)) => DownloadFailure::of_server("can't be reached"),
        (None, Some(libc::EACCES | libc::ENOTDIR | libc::EROFS | libc::ENOSPC | libc::EIO)) => {
            DownloadFailure::of_file(format!(
                "the folder of downloads can't be written to ({error}): DEBUGINFOD_CACHE_PATH names another one"
            ))
        }
        (None, _) => DownloadFailure::of_server(format!("failed ({error})")),
    })
}

/// A number in an environment variable.
fn variable(name: &str) -> Option<i64> {
    std::env::var(name).ok()?.trim().parse().ok()
}

/// The servers without what is secret: a URL may hold a password. A word that is not a URL (`ima:enforcing`) is a
/// setting, and is left out.
fn hosts() -> Vec<String> {
    hosts_of(&std::env::var(SERVERS).unwrap_or_default())
}

/// Where the library keeps its files (`debuginfod-client.c` of elfutils).
fn cache_folder() -> Option<PathBuf> {
    let folder = |name: &str| {
        let value = std::env::var_os(name).filter(|value| !value.is_empty());
        value.map(PathBuf::from)
    };
    if let Some(named) = folder("DEBUGINFOD_CACHE_PATH") {
        return Some(named);
    }
    let home = folder("HOME");
    let earlier = home.as_ref().map(|home| home.join(".debuginfod_client_cache"));
    if let Some(earlier) = earlier.filter(|earlier| earlier.exists()) {
        return Some(earlier);
    }
    let caches = folder("XDG_CACHE_HOME").or_else(|| Some(home?.join(".cache")));
    Some(caches?.join("debuginfod_client"))
}
