//! Gets profiles from servers, as files, and scales them to the other side.

use std::io::Write as _;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use profile::data::{Data, WeightUnit};
use profile::read::{self, ForeignFormat};
use profile::text::numbers::{bytes, counts, time};
use profile::text::one_line;
use share::http::FailureReason;
use share::push::{PushError, Query};
use tempfile::TempDir;

use crate::args;
use crate::exit::Failure;
use crate::interrupt::Interrupt;
use crate::terminal::Term;

/// The files of one side, some of them from servers.
pub(crate) struct SideFiles {
    pub(crate) paths: Vec<PathBuf>,
    /// True if at least one file came from a server.
    pub(crate) are_asked: bool,
    /// Folder of the files from servers; deleted with this value.
    _folder: Option<TempDir>,
}

impl SideFiles {
    /// Asks a server for each word that is a query. Other words are files.
    pub(crate) fn of(words: &[PathBuf], any_http: bool, term: &Term) -> Result<SideFiles, Failure> {
        let queries = words
            .iter()
            .map(|word| query(word, any_http))
            .collect::<Result<Vec<_>, _>>()?;
        let are_asked = queries.iter().any(Option::is_some);
        if !are_asked {
            let paths = words.to_vec();
            return Ok(SideFiles {
                paths,
                are_asked,
                _folder: None,
            });
        }
        let kept = |error: std::io::Error| format!("cannot keep a profile while it is compared: {error}");
        let folder = tempfile::Builder::new().prefix("sprof-").tempdir().map_err(kept)?;
        let interrupt = Interrupt::default().or_watch()?;
        let mut paths = words.to_vec();
        for (at, (path, query)) in paths.iter_mut().zip(&queries).enumerate() {
            let Some(query) = query else { continue };
            let profile = ask(query, &interrupt, term)?;
            // The host is part of the file name, which messages and the viewer show.
            let host = query.server.address.host();
            let host = host
                .split_once("://")
                .map_or(&*host, |(_, host)| host)
                .replace('/', "_");
            let number = if at == 0 { String::new() } else { format!("-{}", at + 1) };
            *path = folder
                .path()
                .join(format!("{}-{host}{number}.pb", query.server.kind.word()));
            std::fs::File::create_new(&*path)
                .and_then(|mut file| file.write_all(&profile))
                .map_err(kept)?;
            if read::kind(path) != Some(ForeignFormat::Pprof) {
                return Err(nothing(
                    query,
                    "the reply is not a profile of pprof; look at the address, and what stands in front of the server",
                ));
            }
        }
        Ok(SideFiles {
            paths,
            are_asked,
            _folder: Some(folder),
        })
    }
}

fn query(word: &Path, any_http: bool) -> Result<Option<Query>, Failure> {
    let Some(text) = Query::text(word) else { return Ok(None) };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now_ms = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
    match Query::parse(text, any_http, now_ms) {
        Ok(query) => Ok(Some(query)),
        Err(why) => args::refuse("diff", why),
    }
}

fn ask(query: &Query, interrupt: &Interrupt, term: &Term) -> Result<Vec<u8>, Failure> {
    let (name, host) = (query.server.kind.name(), query.server.address.host());
    let headers = query.server.kind.headers()?;
    let asked = query.ask(&headers, |_| {
        term.progress(false, format_args!("asking {name} at {host}"));
        match interrupt.is_seen() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    term.erase_progress();
    let profile = asked.map_err(|error| match error {
        PushError::Http(error) if matches!(error.reason, FailureReason::Status(401 | 403, _)) => Failure::failed(format_args!(
            "{error}. The variable SPROF_{}_HEADERS holds what the server needs to let sprof in: see `sprof push --help`",
            query.server.kind.word().to_uppercase()
        )),
        PushError::Http(error) => Failure::failed(error),
        PushError::Reply(why) | PushError::Partly(why) => nothing(query, &why),
        PushError::Made(error) => Failure::failed(format_args!("cannot make the request for {name}: {error}")),
    })?;
    if profile.is_empty() {
        return Err(nothing(
            query,
            "it has no profile of that name in that time; look at query=, from= and until=",
        ));
    }
    term.line(format_args!(
        "{name} at {host} has sent a profile of {} ({})",
        one_line(query.labels()),
        bytes(profile.len() as f64)
    ));
    Ok(profile)
}

fn nothing(query: &Query, why: &str) -> Failure {
    let (name, host) = (query.server.kind.name(), query.server.address.host());
    Failure::failed(format_args!("cannot read a profile from {name} at {host}: {why}"))
}

/// Scales the time of the side from a server to the time of the other side: a server adds up all processes over hours,
/// so only shares compare. Returns a note about it. `None` if nothing was scaled.
pub(crate) fn scale(base: &mut [Data], new: &mut [Data], are_asked: [bool; 2]) -> Option<String> {
    let (asked, other, name) = match are_asked {
        [false, false] => return None,
        [true, _] => (base, &*new, "before"),
        [false, true] => (new, &*base, "after"),
    };
    let (all, wanted) = (mean(asked), mean(other));
    if all <= 0.0 || wanted <= 0.0 {
        return None;
    }
    let amount = match asked.first().map(|data| data.unit) {
        Some(WeightUnit::Milliseconds) => time(all),
        _ => counts(all),
    };
    for data in asked {
        for thread in &mut data.threads {
            thread
                .samples
                .weight
                .iter_mut()
                .flatten()
                .for_each(|weight| *weight *= wanted / all);
        }
    }
    Some(format!(
        "{name} is {amount} at a server, scaled to the other side: shares are compared"
    ))
}

/// Mean of the total weights of the files.
fn mean(files: &[Data]) -> f64 {
    let weights = files
        .iter()
        .flat_map(|data| &data.threads)
        .flat_map(|thread| thread.samples.iter());
    weights.map(|(.., weight)| weight).sum::<f64>() / files.len().max(1) as f64
}
