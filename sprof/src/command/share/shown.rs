//! What the user sees before and during an upload.

use std::collections::HashSet;
use std::time::{SystemTime, UNIX_EPOCH};

use profile::data::SavedData;
use profile::sanitize::{KeptPrivate, RemovedCounts};
use profile::text::numbers::{bytes, count, time};
use profile::text::one_line;
use share::http::Progress;

use crate::terminal::Term;
use crate::terminal::style::Style;

/// Advice where a request took too long, of the command that has the option.
pub(super) const MORE_TIME: &str = "--timeout allows more time";

/// A profile that is ready to upload.
pub(super) struct ReadyUpload {
    pub(super) program: String,
    /// Size of the upload.
    pub(super) bytes: u64,
    processes: u64,
    threads: u64,
    duration_ms: Option<f64>,
    sources: u64,
    removed: RemovedCounts,
    include: KeptPrivate,
    /// Labels of rows.
    pub(super) ran: Vec<(String, String)>,
}

impl ReadyUpload {
    pub(super) fn of(data: &SavedData, removed: RemovedCounts, include: KeptPrivate) -> ReadyUpload {
        let processes: HashSet<&str> = data.threads.iter().map(|thread| thread.pid.as_str()).collect();
        ReadyUpload {
            program: data.product.clone(),
            bytes: 0,
            processes: processes.len() as u64,
            threads: data.threads.len() as u64,
            // Sums have no times.
            duration_ms: data.length_ms().filter(|_| !data.is_summed),
            sources: data.embedded_sources() as u64,
            removed,
            include,
            ran: Vec::new(),
        }
    }

    pub(super) fn print(&self, server: &str, readers: &str, term: &Term) {
        let duration = self.duration_ms.map(|ms| format!(", {}", time(ms))).unwrap_or_default();
        let program = match self.program.as_str() {
            "" => String::new(),
            program => format!(" of {program}"),
        };
        term.always(format_args!(
            "to be uploaded to {}: {}{program}, {}, {}{duration}",
            term.style(Style::Link, server),
            bytes(self.bytes as f64),
            count(self.processes, "process", "processes"),
            count(self.threads, "thread", "threads"),
        ));
        term.always(readers);
        term.always(format_args!("taken out: {}", self.taken_out()));
        term.always(format_args!("left in it: {}", self.left()));
        if !self.ran.is_empty() {
            let ran = self.ran.iter().map(|(name, value)| format!("{name}={value}"));
            let ran = ran.collect::<Vec<_>>().join(", ");
            term.always(format_args!("added to it: {}", one_line(&ran)));
        }
    }

    fn taken_out(&self) -> String {
        let removed = &self.removed;
        let mut all = Vec::new();
        let mut add = |number: usize, what: String| {
            if number > 0 {
                all.push(what);
            }
        };
        let number = removed.paths as u64;
        add(
            removed.paths,
            format!("parts of {}", count(number, "path or address", "paths and addresses")),
        );
        add(usize::from(removed.arguments), "the program's arguments".to_owned());
        let number = removed.strings as u64;
        let what = "users, hosts, arguments and environment";
        add(removed.strings, format!("{what} in {}", count(number, "text", "texts")));
        let number = removed.sources as u64;
        add(removed.sources, count(number, "source file", "source files"));
        let fields = removed.fields.join(", ");
        add(
            removed.fields.len(),
            format!("fields that sprof does not know ({fields})"),
        );
        match all.is_empty() {
            true => "nothing, there was nothing private that sprof knows of".to_owned(),
            false => all.join("; "),
        }
    }

    fn left(&self) -> String {
        let mut all =
            vec!["names of functions, files, processes, threads and libraries; times; processor and system".to_owned()];
        if self.sources > 0 {
            all.push(count(self.sources, "source file", "source files"));
        }
        for (is_included, what) in [
            (self.include.args, "arguments"),
            (self.include.paths, "whole paths"),
            (self.include.names, "names of users and hosts"),
        ] {
            if is_included {
                all.push(what.to_owned());
            }
        }
        all.join("; ")
    }

    pub(super) fn removed_json(&self) -> serde_json::Value {
        serde_json::json!({
            "paths": self.removed.paths,
            "arguments": self.removed.arguments,
            "texts": self.removed.strings,
            "sources": self.removed.sources,
            "fields": self.removed.fields,
        })
    }
}

pub(super) fn show_progress(progress: Progress, size: u64, term: &Term) {
    let Progress { sent, .. } = progress;
    match sent < size {
        true => term.progress(
            false,
            format_args!("uploading: {} of {}", bytes(sent as f64), bytes(size as f64)),
        ),
        false => term.progress(false, "uploaded; waiting for the reply"),
    }
}

/// The current Unix time, ms.
pub(super) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}
