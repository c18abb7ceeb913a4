//! `--debuginfod` and `--symbol-server`: show downloads, and end them when the user wants sprof to end.

use std::fmt::Display;
use std::ops::ControlFlow;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use profile::text::numbers::bytes;
use share::http::{self, Address, FailureReason, Method, Request, RequestLimits, Secret};
use symbolicator::{Debuginfod, Download, FetchError, FetchProgress, FileRequest, SymbolServers, Watcher};

use crate::args;
use crate::exit::Failure;
use crate::interrupt::Interrupt;
use crate::terminal::Term;

/// Redirects that are followed for one file.
const MAX_REDIRECTS: usize = 5;

/// The servers, which are asked when names are looked up. All files of a command share them: a server that has failed
/// is not asked again for ten minutes.
///
/// # Errors
///
/// No server is named, there is no folder for downloads, or a file with headers can't be read.
pub(crate) fn servers(interrupt: &Interrupt, term: &Term) -> Result<Arc<Debuginfod>, Failure> {
    static SERVERS: OnceLock<Arc<Debuginfod>> = OnceLock::new();
    if let Some(servers) = SERVERS.get() {
        return Ok(servers.clone());
    }
    let made = Debuginfod::new(Box::new(fetch), watcher(interrupt, term)?);
    let made = made.map_err(|error| Failure::failed(format_args!("--debuginfod: {error}")))?;
    if made.asks_for_signatures() {
        term.warning("--debuginfod: sprof checks build ids, and no signatures (ima:enforcing in DEBUGINFOD_URLS)");
    }
    Ok(SERVERS.get_or_init(|| Arc::new(made)).clone())
}

/// The symbol servers of these URLs, shared in the same way.
///
/// # Errors
///
/// This sprof is built without them, a server is not a URL, or there is no folder for downloads.
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

/// Downloads a file for [`Debuginfod`]. A redirect to another host gets no headers and no password.
fn fetch(request: &FileRequest<'_>, progress: &mut FetchProgress<'_>) -> Result<(), FetchError> {
    let no_address = |why: String| FetchError::Server(format!("has no address that can be asked: {why}"));
    let (mut address, mut authorization) = Address::with_password(request.url).map_err(no_address)?;
    let headers = request.headers.iter();
    let mut headers: Vec<_> = headers
        .map(|(name, value)| (name.clone(), Secret::new(value)))
        .collect();
    let limits = RequestLimits {
        // Who asks for progress ends what takes too long.
        step: Duration::from_secs(86_400),
        whole: None,
        reply_bytes: request.max_bytes,
    };
    for _ in 0..=MAX_REDIRECTS {
        let sent = Request {
            purpose: "download a file",
            method: Method::GET,
            address: &address,
            headers: &[],
            secret_headers: &headers,
            authorization: authorization.as_ref(),
            body: None,
        };
        let file = request.file.try_clone().map_err(FetchError::Disk)?;
        let downloaded = http::download(sent, file, &limits, |done| {
            match progress(done.received, done.reply_size) {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        });
        let Err(error) = downloaded else { return Ok(()) };
        if let Some(next) = error.redirected(&address) {
            if next.host() != address.host() {
                (headers, authorization) = (Vec::new(), None);
            }
            address = next;
            continue;
        }
        let has_secrets = !headers.is_empty() || authorization.is_some();
        return Err(match error.reason {
            FailureReason::Status(403, _) if has_secrets => FetchError::Server(
                "forbids it (status 403): check DEBUGINFOD_HEADERS_FILE, or the password in DEBUGINFOD_URLS".to_owned(),
            ),
            // Some servers forbid what they do not have.
            FailureReason::Status(403 | 404 | 410, _) => FetchError::Absent,
            FailureReason::TooLarge(_) => FetchError::TooLarge,
            FailureReason::Ended => FetchError::Ended,
            FailureReason::Download(error) => FetchError::Disk(error),
            FailureReason::Refused | FailureReason::NoSuchHost | FailureReason::Unreachable(_)
                if error.proxy.is_some() =>
            {
                FetchError::Server(format!("was not reached: {error}"))
            }
            FailureReason::Refused => FetchError::Server("refused the connection".to_owned()),
            FailureReason::NoSuchHost => FetchError::Server("is not known: check its name and the network".to_owned()),
            FailureReason::Unreachable(reason) => FetchError::Server(format!("can't be reached ({reason})")),
            reason => FetchError::Server(format!("failed: {reason}")),
        });
    }
    Err(FetchError::Server("redirects too often".to_owned()))
}
