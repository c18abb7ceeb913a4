//! Debug info and sources from debuginfod servers, where this machine lacks them and the user asks for it.
//!
//! The folder of downloads and the environment variables are those of the client library of elfutils
//! (debuginfod-client-config(7)): what gdb or perf have downloaded is not downloaded again, and a file that no server
//! has is not asked for again for ten minutes. Unlike the library, sprof asks the servers in order, not at once, and a
//! download gets its name only if it has the build id that was asked for. The servers learn build ids of sampled files,
//! and names of sources that the user opens or embeds.
//!
//! Requests are made by a function of the caller's, [`Fetch`].

mod client_cache;

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use object::{Object as _, ReadCache};
use recording::module::BuildId;
use recording::regular_file;

use crate::downloads::{Download, DownloadFailure, EndedDownload, MAX_BYTES, PATIENCE, ServerState, Watcher, hosts_of};
use client_cache::{CachedDownload, DownloadFolder, folder_path, source_name};

/// The environment variable with the servers, separated by spaces.
const SERVERS: &str = "DEBUGINFOD_URLS";

/// The environment variable that names a file of headers.
const HEADERS: &str = "DEBUGINFOD_HEADERS_FILE";

/// A server has to send this much within [`PATIENCE`], as the client library has it.
const MIN_BYTES: u64 = 100 << 10;

/// Why debuginfod can't be used.
#[derive(Clone, Debug, thiserror::Error)]
pub enum DebuginfodError {
    /// No server is named.
    #[error(
        "{SERVERS} names no server: set it to that of your distribution, or to one that asks them all: \
         export {SERVERS}=https://debuginfod.elfutils.org"
    )]
    NoServers,
    /// The folder for downloads can't be made.
    #[error("the folder for downloads {} can't be made ({reason}): name another one with DEBUGINFOD_CACHE_PATH", .path.display())]
    NoCache {
        /// The folder.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The file with headers can't be read.
    #[error("the file {} with headers for the servers can't be used ({reason}): check {HEADERS}", .path.display())]
    NoHeaders {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

/// A request for one file.
pub struct FileRequest<'a> {
    /// `https://` or `http://`. It may hold a user and a password.
    pub url: &'a str,
    /// Names and values of further headers, which may be secret.
    pub headers: &'a [(String, String)],
    /// Where the file is written. After an error it may hold a part.
    pub file: &'a File,
    /// The largest file that is wanted.
    pub max_bytes: u64,
}

/// Why a request got no file.
#[derive(Debug)]
pub enum FetchError {
    /// The server has no such file.
    Absent,
    /// The file is larger than the request allows.
    TooLarge,
    /// The progress function asked for the end.
    Ended,
    /// The file can't be written.
    Disk(io::Error),
    /// Another failure. The text begins with a verb: the server's name comes before it.
    Server(String),
}

/// Takes (bytes that have arrived, all bytes if they are known), ten times a second. The download ends when it returns
/// false.
pub type FetchProgress<'a> = dyn FnMut(u64, Option<u64>) -> bool + 'a;

/// Makes one request. It has no time limit of its own.
pub type Fetch = dyn Fn(&FileRequest<'_>, &mut FetchProgress<'_>) -> Result<(), FetchError> + Send + Sync;

/// The servers, asked for one file at a time: a user sees one download, which has the whole connection.
pub struct Debuginfod {
    servers: Mutex<Vec<DebuginfodServer>>,
    folder: DownloadFolder,
    headers: Vec<(String, String)>,
    limits: DownloadLimits,
    asks_for_signatures: bool,
    fetch: Box<Fetch>,
    watcher: Box<Watcher>,
}

struct DebuginfodServer {
    url: String,
    /// Its name for the user, one element.
    hosts: Vec<String>,
    state: ServerState,
}

/// What one download may take.
struct DownloadLimits {
    max_bytes: u64,
    /// `MIN_BYTES` have to arrive in this time.
    patience: Option<Duration>,
    whole: Option<Duration>,
    /// Further attempts after a failure of the server.
    retries: u64,
}

/// What is asked for.
enum WantedFile<'a> {
    DebugInfo,
    /// A source file, by its absolute path in the debug info.
    Source(&'a str),
}

/// Why a server gave no file.
enum NoFile {
    Absent,
    Unwanted,
    Failed(DownloadFailure),
}

impl fmt::Debug for Debuginfod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Debuginfod").finish_non_exhaustive()
    }
}

impl Debuginfod {
    /// The servers that the environment names. Asks none yet.
    ///
    /// # Errors
    ///
    /// No server is named, there is no folder for downloads, or the file with headers can't be read.
    pub fn new(fetch: Box<Fetch>, watcher: Box<Watcher>) -> Result<Debuginfod, DebuginfodError> {
        Debuginfod::from_env(&|name| std::env::var_os(name), fetch, watcher)
    }

    fn from_env(
        env: &dyn Fn(&str) -> Option<OsString>,
        fetch: Box<Fetch>,
        watcher: Box<Watcher>,
    ) -> Result<Debuginfod, DebuginfodError> {
        let text = |name: &str| env(name).and_then(|value| value.into_string().ok());
        let words = text(SERVERS).unwrap_or_default();
        let mut servers: Vec<DebuginfodServer> = Vec::new();
        for word in words.split_whitespace() {
            let hosts = hosts_of(word);
            let word = word.trim_end_matches('/');
            // RFC 8089 permits this host, and no host.
            let url = match word.strip_prefix("file://localhost/") {
                Some(path) => format!("file:///{path}"),
                None => word.to_owned(),
            };
            if !hosts.is_empty() && servers.iter().all(|known| known.url != url) {
                servers.push(DebuginfodServer {
                    url,
                    hosts,
                    state: ServerState::default(),
                });
            }
        }
        if servers.is_empty() {
            return Err(DebuginfodError::NoServers);
        }
        let no_cache = |path: &Path, error: io::Error| DebuginfodError::NoCache {
            path: path.to_owned(),
            reason: error.to_string(),
        };
        let path = folder_path(env).ok_or_else(|| no_cache(Path::new("~/.cache"), io::ErrorKind::NotFound.into()))?;
        let folder = DownloadFolder::open(path.clone()).map_err(|error| no_cache(&path, error))?;
        let headers = match env(HEADERS).filter(|path| !path.is_empty()).map(PathBuf::from) {
            Some(path) => read_headers(&path).map_err(|error| DebuginfodError::NoHeaders {
                path: path.clone(),
                reason: error.to_string(),
            })?,
            None => Vec::new(),
        };
        let number = |name: &str| text(name)?.trim().parse::<i64>().ok();
        // 0 and less mean: no limit.
        let limit = |name: &str, default: u64| number(name).map_or(default, |value| u64::try_from(value).unwrap_or(0));
        let seconds = |name: &str, default: u64| Some(limit(name, default)).filter(|s| *s > 0).map(Duration::from_secs);
        let max_bytes = limit("DEBUGINFOD_MAXSIZE", MAX_BYTES);
        Ok(Debuginfod {
            servers: Mutex::new(servers),
            folder,
            headers,
            limits: DownloadLimits {
                max_bytes: if max_bytes > 0 { max_bytes } else { u64::MAX },
                patience: seconds("DEBUGINFOD_TIMEOUT", PATIENCE.as_secs()),
                whole: seconds("DEBUGINFOD_MAXTIME", 0),
                retries: limit("DEBUGINFOD_RETRY_LIMIT", 2),
            },
            asks_for_signatures: words.split_whitespace().any(|word| word == "ima:enforcing"),
            fetch,
            watcher,
        })
    }

    /// True if the user wants signatures to be checked, which sprof does not do.
    pub fn asks_for_signatures(&self) -> bool {
        self.asks_for_signatures
    }

    /// The debug file of a build, for the file of this name. `None` if no server gave it: the watcher gets the reason.
    pub(crate) fn debug_info(&self, build_id: &BuildId, name: &str) -> Option<PathBuf> {
        self.find(build_id, &WantedFile::DebugInfo, &format!("debug info of {name}"))
    }

    /// A source file of a build, by its absolute path in the debug info. `None` if no server gave it: the watcher gets
    /// the reason.
    pub(crate) fn source(&self, build_id: &BuildId, path: &str) -> Option<PathBuf> {
        self.find(build_id, &WantedFile::Source(path), path)
    }

    fn find(&self, build_id: &BuildId, wanted: &WantedFile<'_>, what: &str) -> Option<PathBuf> {
        // The client library's limit. A name of a folder has at most 255 bytes.
        if build_id.0.is_empty() || build_id.0.len() >= 64 {
            return None;
        }
        let name = match wanted {
            WantedFile::DebugInfo => "debuginfo".to_owned(),
            WantedFile::Source(path) => source_name(path),
        };
        // A damaged file may be cut by a loss of power.
        let is_whole = |path: &Path| {
            matches!(wanted, WantedFile::Source(_)) || File::open(path).is_ok_and(|file| has_build_id(&file, build_id))
        };
        let mut locked = None;
        let mut servers = loop {
            match (self.folder.look_up(build_id, &name), locked.take()) {
                (CachedDownload::Here(path), _) if is_whole(&path) => return Some(path),
                (CachedDownload::Absent, _) => {
                    (self.watcher)(Download::Absent { what });
                    return None;
                }
                (_, Some(servers)) => break servers,
                // Only what is not here waits for another download, which may be of this file.
                (_, None) => locked = Some(self.servers.lock().unwrap_or_else(PoisonError::into_inner)),
            }
        };
        if servers.iter().all(|server| server.state.is_over()) {
            return None;
        }
        let fail = |reason: &str| {
            (self.watcher)(Download::Failed { what, reason });
            None
        };
        let (mut reasons, mut are_all_asked) = (Vec::new(), true);
        for server in servers.iter_mut() {
            if server.state.is_over() {
                are_all_asked = false;
                continue;
            }
            // A file of its own: after a download that was ended, its thread may still write to the file.
            let partial = match self.folder.create(build_id, &name) {
                Ok(partial) => partial,
                Err(error) => return fail(&of_folder(&error)),
            };
            let asked = self.ask(&server.url, build_id, wanted, what, &partial.file);
            (self.watcher)(Download::Over);
            match asked {
                Ok(()) => {
                    return partial.keep().map_or_else(|error| fail(&of_folder(&error)), Some);
                }
                Err(NoFile::Absent) => {}
                Err(NoFile::Unwanted) => {
                    servers.iter_mut().for_each(|server| server.state.end());
                    return None;
                }
                Err(NoFile::Failed(failure)) => reasons.push(server.state.failed(failure, &server.hosts)),
            }
        }
        if !reasons.is_empty() {
            return fail(&reasons.join("; "));
        }
        if are_all_asked {
            self.folder.note_absent(build_id, &name);
        }
        (self.watcher)(Download::Absent { what });
        None
    }

    /// Downloads a file from one server, and checks its build id.
    fn ask(
        &self,
        server: &str,
        build_id: &BuildId,
        wanted: &WantedFile<'_>,
        what: &str,
        file: &File,
    ) -> Result<(), NoFile> {
        // RFC 8089 permits this host, and no host.
        let local = (server.strip_prefix("file://localhost/").map(|path| format!("/{path}")))
            .or_else(|| server.strip_prefix("file://").map(str::to_owned));
        let path = match wanted {
            WantedFile::DebugInfo => "debuginfo".to_owned(),
            WantedFile::Source(path) if local.is_some() => format!("source{path}"),
            WantedFile::Source(path) => format!("source{}", url_path(path)),
        };
        let below = format!("buildid/{}/{path}", build_id.to_hex());
        let limits = &self.limits;
        let mut retries = limits.retries;
        loop {
            let mut ended = None;
            let started = Instant::now();
            let mut window = (started, 0);
            let is_over = || limits.whole.is_some_and(|whole| started.elapsed() > whole);
            let mut progress = |received: u64, all: Option<u64>| {
                if received >= window.1 + MIN_BYTES {
                    window = (Instant::now(), received);
                }
                let is_slow = limits.patience.is_some_and(|patience| window.0.elapsed() > patience) || is_over();
                if let Some(bytes) = all.filter(|bytes| *bytes > limits.max_bytes) {
                    ended = Some(EndedDownload::TooLarge(bytes));
                } else if is_slow {
                    ended = Some(EndedDownload::TooSlow);
                } else if !(self.watcher)(Download::Progress { what, received, all }) {
                    ended = Some(EndedDownload::Unwanted);
                }
                ended.is_none()
            };
            let reset = file.set_len(0).and_then(|()| { file }.rewind());
            let fetched = match (reset, &local) {
                (Err(error), _) => Err(FetchError::Disk(error)),
                (Ok(()), Some(root)) => copy(&Path::new(root).join(&below), file, limits.max_bytes),
                (Ok(()), None) => {
                    let request = FileRequest {
                        url: &format!("{server}/{below}"),
                        headers: &self.headers,
                        file,
                        max_bytes: limits.max_bytes,
                    };
                    (self.fetch)(&request, &mut progress)
                }
            };
            let failure = match (fetched, ended) {
                (Ok(()), _) if matches!(wanted, WantedFile::Source(_)) || has_build_id(file, build_id) => {
                    return Ok(());
                }
                (Ok(()), _) => DownloadFailure::of_server("sent a file of another build"),
                (Err(FetchError::Absent), _) => return Err(NoFile::Absent),
                (Err(FetchError::Server(_)), _) if retries > 0 => {
                    retries -= 1;
                    continue;
                }
                (Err(FetchError::Server(text)), _) => DownloadFailure::of_server(text),
                (Err(FetchError::Disk(error)), _) => DownloadFailure::of_file(of_folder(&error)),
                (Err(FetchError::TooLarge), _) => too_large(None, limits.max_bytes),
                (Err(FetchError::Ended), Some(EndedDownload::TooLarge(bytes))) => {
                    too_large(Some(bytes), limits.max_bytes)
                }
                (Err(FetchError::Ended), Some(EndedDownload::TooSlow)) if is_over() => {
                    DownloadFailure::of_file("it takes more seconds than DEBUGINFOD_MAXTIME allows")
                }
                (Err(FetchError::Ended), Some(EndedDownload::TooSlow)) => {
                    DownloadFailure::of_server("did not answer in time (DEBUGINFOD_TIMEOUT=SECONDS allows more)")
                }
                (Err(FetchError::Ended), _) => return Err(NoFile::Unwanted),
            };
            return Err(NoFile::Failed(failure));
        }
    }
}

/// True if the file is a whole ELF file with this build id.
fn has_build_id(file: &File, build_id: &BuildId) -> bool {
    let bytes = ReadCache::new(file);
    let found = object::File::parse(&bytes).and_then(|object| Ok(object.build_id()?.map(<[u8]>::to_vec)));
    found.is_ok_and(|found| found.is_some_and(|found| build_id.identifies(&BuildId(found))))
}

/// The failure of a file that has this many bytes, where that is known.
fn too_large(bytes: Option<u64>, max_bytes: u64) -> DownloadFailure {
    let limit = MAX_BYTES >> 20;
    DownloadFailure::of_file(match bytes {
        _ if max_bytes != MAX_BYTES => "it is larger than DEBUGINFOD_MAXSIZE allows".to_owned(),
        Some(bytes) => format!(
            "it has {} MiB, more than {limit}: DEBUGINFOD_MAXSIZE=BYTES allows more",
            bytes >> 20
        ),
        None => format!("it has more than {limit} MiB: DEBUGINFOD_MAXSIZE=BYTES allows more"),
    })
}

/// Why the folder of downloads can't be used.
fn of_folder(error: &io::Error) -> String {
    format!("the folder of downloads can't be written to ({error}): DEBUGINFOD_CACHE_PATH names another one")
}

/// Copies the file of a server that is a folder (`file://`).
fn copy(from: &Path, mut to: &File, max_bytes: u64) -> Result<(), FetchError> {
    let unreadable = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => FetchError::Absent,
        _ => FetchError::Server(format!("can't be read ({error})")),
    };
    let from = regular_file::open(from).map_err(unreadable)?;
    if from.metadata().map_err(unreadable)?.len() > max_bytes {
        return Err(FetchError::TooLarge);
    }
    io::copy(&mut from.take(max_bytes), &mut to)
        .map(drop)
        .map_err(FetchError::Disk)
}

/// A path as a part of a URL: all but its slashes and unreserved characters (RFC 3986, 2.3) encoded.
fn url_path(path: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    let encoded = path.bytes().map(|byte| match is_plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    });
    encoded.collect()
}

/// The headers in a file, one a line.
fn read_headers(path: &Path) -> io::Result<Vec<(String, String)>> {
    let text = fs::read_to_string(path)?;
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let header = |line: &str| {
        let (name, value) = line.split_once(':').ok_or("a line has no colon")?;
        Ok((name.trim().to_owned(), value.trim().to_owned()))
    };
    lines.map(header).collect::<Result<_, &str>>().map_err(io::Error::other)
}

#[cfg(test)]
mod tests;
