//! `--debuginfod` and `--symbol-server`: show downloads, and end them when the user wants sprof to end.

use std::fmt::Display;
use std::sync::{Arc, OnceLock};

use profile::text::numbers::bytes;
use symbolicator::{Debuginfod, Download, SymbolServers, Watcher};

use crate::args;
use crate::exit::Failure;
use crate::interrupt::Interrupt;
use crate::terminal::Term;

/// The servers, which are asked when names are looked up. All files of a command share them: a server that has failed
/// is not asked again.
///
/// # Errors
///
/// No server is named, the client library is not installed, or there is no folder for downloads.
pub(crate) fn servers(interrupt: &Interrupt, term: &Term) -> Result<Arc<Debuginfod>, Failure> {
    static SERVERS: OnceLock<Arc<Debuginfod>> = OnceLock::new();
    if let Some(servers) = SERVERS.get() {
        return Ok(servers.clone());
    }
    let made = Debuginfod::new(watcher(interrupt, term)?);
    let made = made.map_err(|error| Failure::failed(format_args!("--debuginfod: {error}")))?;
    Ok(SERVERS.get_or_init(|| Arc::new(made)).clone())
}

/// The symbol servers of these URLs, shared in the same way.
///
/// # Errors
///
/// This sprof is built without them, a server is no URL, or there is no folder for downloads.
pub(crate) fn symbol_servers(
    urls: &[String],
    interrupt: &Interrupt,
    term: &Term,
) -> Result<Arc<SymbolServers>, Failure> {
    static SERVERS: OnceLock<Arc<SymbolServers>> = OnceLock::new();
    if let Some(servers) = SERVERS.get() {
        return Ok(servers.clone());
    }
    let failure = |error: &dyn Display| Failure::failed(format_args!("--symbol-server: {error}"));
    let cache = args::cache().ok_or_else(|| failure(&"there is no folder for downloads: name one with SPROF_CACHE"))?;
    let made = SymbolServers::new(urls, cache.join("symbols"), watcher(interrupt, term)?);
    let made = made.map_err(|error| failure(&error))?;
    Ok(SERVERS.get_or_init(|| Arc::new(made)).clone())
}

fn watcher(interrupt: &Interrupt, term: &Term) -> Result<Box<Watcher>, Failure> {
    // A download that is not ended leaves its beginning in the folder for ever.
    let interrupt = interrupt.or_watch()?;
    let term = term.clone();
    Ok(Box::new(move |download: Download<'_>| {
        match download {
            Download::Progress { what, received, all } => {
                let progress = match (received, all) {
                    (0, None) => "asking the servers".to_owned(),
                    (received, None) => bytes(received as f64),
                    (received, Some(all)) => format!("{} of {}", bytes(received as f64), bytes(all as f64)),
                };
                term.progress(false, format_args!("{what}: {progress}"));
            }
            Download::Over => term.erase_progress(),
            Download::Absent { what } => term.verbose(format_args!("no server gave {what}")),
            Download::Failed { what, reason } => term.warning(format_args!("{what} was not downloaded: {reason}")),
        }
        !interrupt.is_seen()
    }))
}
