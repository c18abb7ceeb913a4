//! What downloads from servers of any kind share: limits, reports to the user, and when nothing more is asked for.

use std::time::{Duration, Instant};

/// Largest file that is downloaded, from debuginfod servers unless `DEBUGINFOD_MAXSIZE` says otherwise. The debug info
/// of Chromium, packed, has 1 GB.
pub(crate) const MAX_BYTES: u64 = 2 << 30;

/// How long no byte may arrive, unless `DEBUGINFOD_TIMEOUT` says otherwise: elfutils' own default.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

/// Failures one after the other after which nothing more is asked for, where there are several servers: the error is of
/// one of them.
const MAX_FAILURES: u32 = 3;

/// How long nothing more is asked for after that: elfutils' own default for a file that no server had (`cache_miss_s`).
const PAUSE: Duration = Duration::from_secs(600);

/// What happens to a request. `what` is the file as the user knows it: `debug info of libc.so.6`, `/src/a.c`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Download<'a> {
    /// Parts of the file arrive.
    Progress {
        /// The file.
        what: &'a str,
        /// Bytes that have arrived.
        received: u64,
        /// Bytes of the whole file; `None` until it is known.
        all: Option<u64>,
    },
    /// The request is over, with a file or without one.
    Over,
    /// No server gave the file.
    Absent {
        /// The file.
        what: &'a str,
    },
    /// The file was not downloaded, and a server may have it.
    Failed {
        /// The file.
        what: &'a str,
        /// What went wrong, and the next step.
        reason: &'a str,
    },
}

/// Takes what happens; false ends the download, and all further ones.
pub type Watcher = dyn Fn(Download<'_>) -> bool + Send + Sync;

/// Why sprof has ended a download.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum EndedDownload {
    /// With this many bytes, more than [`MAX_BYTES`].
    TooLarge(u64),
    /// No byte arrived for [`PATIENCE`].
    TooSlow,
    /// The watcher asked for the end.
    Unwanted,
}

/// Why a file was not downloaded.
pub(crate) struct DownloadFailure {
    text: String,
    /// True if the next request may fail for the same reason.
    is_of_server: bool,
}

impl DownloadFailure {
    /// A failure of the server; `text` begins with a verb, and the server's name comes before it.
    pub(crate) fn of_server(text: impl Into<String>) -> DownloadFailure {
        DownloadFailure {
            text: text.into(),
            is_of_server: true,
        }
    }

    /// A failure of this file alone, a whole sentence.
    pub(crate) fn of_file(text: impl Into<String>) -> DownloadFailure {
        DownloadFailure {
            text: text.into(),
            is_of_server: false,
        }
    }
}

/// Whether servers are asked.
#[derive(Default)]
pub(crate) struct ServerState {
    /// One after the other.
    failures: u32,
    /// The end of the pause after them.
    pause: Option<Instant>,
    is_ended: bool,
}

impl ServerState {
    /// True if nothing is asked for now.
    pub(crate) fn is_over(&self) -> bool {
        self.is_ended || self.pause.is_some_and(|end| Instant::now() < end)
    }

    /// Asks for nothing more in this run.
    pub(crate) fn end(&mut self) {
        self.is_ended = true;
    }

    /// As if the pause had passed.
    #[cfg(test)]
    pub(crate) fn pass_pause(&mut self) {
        let end = self.pause.take().unwrap();
        assert!(end > Instant::now() + PAUSE / 2);
    }

    /// A server has answered.
    #[cfg(feature = "symbol-servers")]
    pub(crate) fn succeeded(&mut self) {
        self.failures = 0;
    }

    /// Counts a failure of one of `hosts`. Returns the reason for the user, with the name of the server.
    pub(crate) fn failed(&mut self, failure: DownloadFailure, hosts: &[String]) -> String {
        if !failure.is_of_server {
            return failure.text;
        }
        let mut reason = match hosts {
            [host] => format!("{host} {}", failure.text),
            several => format!("one of {} {}", several.join(", "), failure.text),
        };
        self.failures += 1;
        if self.failures >= if hosts.len() == 1 { 1 } else { MAX_FAILURES } {
            self.pause = Some(Instant::now() + PAUSE);
            let whom = if hosts.len() == 1 { "it" } else { "them" };
            let minutes = PAUSE.as_secs() / 60;
            reason.push_str(&format!("; sprof asks {whom} for nothing more for {minutes} minutes"));
        }
        reason
    }
}

/// The servers without what is secret: a URL may hold a password. A word that is not a URL (`ima:enforcing`) is a
/// setting, and is left out.
pub(crate) fn hosts_of(servers: &str) -> Vec<String> {
    let host = |word: &str| {
        let (scheme, rest) = word.split_once("://")?;
        if scheme == "file" {
            return Some(word.to_owned());
        }
        // A password may have `?` and `#`, and the name of a host has none.
        let authority = rest.split('/').next()?.rsplit('@').next()?;
        Some(authority.split(['?', '#']).next()?.to_owned())
    };
    servers.split_whitespace().filter_map(host).collect()
}

#[cfg(test)]
mod tests {
    use super::hosts_of;

    #[test]
    fn servers_are_named_without_passwords() {
        let servers = "https://me:secret@debug.example.org:8443/a?key=secret  ima:enforcing http://[::1]:8002 file:///srv/debug \
             https://me:sec#ret?@b.example";
        assert_eq!(
            hosts_of(servers),
            ["debug.example.org:8443", "[::1]:8002", "file:///srv/debug", "b.example"]
        );
        assert_eq!(hosts_of(" ima:permissive "), [""; 0]);
    }
}
