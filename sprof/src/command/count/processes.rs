//! What valgrind wrote of each process: its counts, and a log.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader};
use std::path::{Path, PathBuf};

use profile::text::numbers::count;

use crate::exit::Failure;

/// Names of files in the folder, before the process's id.
pub(super) const COUNTS: &str = "counts.";
pub(super) const LOG: &str = "log.";

/// A process that ran under valgrind, since it last executed a program.
#[derive(Debug, Default)]
pub(super) struct CountedProcess {
    /// Files of callgrind; several with `VALGRIND_OPTS=--separate-threads=yes`.
    pub(super) counts: Vec<PathBuf>,
    command: String,
    parent: Option<u64>,
    /// It was forked, and has executed nothing since.
    is_forked: bool,
    /// Its counts are complete.
    has_ended: bool,
    /// Nothing set its counts to 0: those of a forked process begin with its parent's.
    counts_from_start: bool,
    /// Why valgrind gave up.
    failure: Option<String>,
    /// An instruction or system call that valgrind does not know.
    unknown: Option<String>,
}

/// All processes of which valgrind wrote, by their ids.
#[derive(Debug, Default)]
pub(super) struct CountedProcesses(pub(super) BTreeMap<u64, CountedProcess>);

impl CountedProcesses {
    pub(super) fn read(folder: &Path) -> Result<CountedProcesses, Failure> {
        let failed = |error: io::Error| Failure::failed(format_args!("cannot read what valgrind wrote: {error}"));
        let mut processes: BTreeMap<u64, CountedProcess> = BTreeMap::new();
        for entry in fs::read_dir(folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let log = name.strip_prefix(LOG);
            let Some(id) = log.or_else(|| name.strip_prefix(COUNTS)) else {
                continue;
            };
            let digits = id.find(|digit: char| !digit.is_ascii_digit()).unwrap_or(id.len());
            let process = processes.entry(id[..digits].parse().unwrap_or(0)).or_default();
            let read = match log {
                Some(_) => process.read_log(&path),
                None => process.add_counts(path),
            };
            read.map_err(failed)?;
        }
        Ok(CountedProcesses(processes))
    }

    /// The process that sprof started itself.
    fn started(&self) -> Option<&CountedProcess> {
        let own = u64::from(std::process::id());
        self.0.values().find(|process| process.parent == Some(own))
    }

    /// Why valgrind could not run the program that sprof started itself.
    pub(super) fn failure(&self) -> Option<&str> {
        self.started()?.failure.as_deref()
    }

    /// What is missing, and what counts twice. `program` is what sprof started.
    pub(super) fn notes(&self, program: &str) -> Vec<String> {
        // Blanks in it are escaped in logs.
        let is_program = |process: &&CountedProcess| process.command.replace('\\', "").starts_with(program);
        let executed = self.started().filter(|process| !is_program(process)).map(|process| {
            format!(
                "`{program}` executed another program (`{}`): what it ran before is not counted",
                process.command
            )
        });
        // Their number with the command of one, and what valgrind said of it.
        let of = |is_meant: fn(&CountedProcess) -> bool, said: fn(&CountedProcess) -> Option<&String>| {
            let found: Vec<&CountedProcess> = self.0.values().filter(|process| is_meant(process)).collect();
            let first = found.first()?;
            Some((
                format!(
                    "{} (`{}`)",
                    count(found.len() as u64, "process", "processes"),
                    first.command
                ),
                said(first).map_or("", String::as_str),
            ))
        };
        let failed = of(|process| process.failure.is_some(), |process| process.failure.as_ref())
            .map(|(which, failure)| format!("valgrind could not run {which}: {failure}"));
        let incomplete = of(|process| !process.has_ended && process.failure.is_none(), |_| None).map(|(which, _)| {
            format!(
                "the counts of {which} are missing or incomplete: killed, still running, or not allowed to write to the \
                 folder of temporary files"
            )
        });
        let copied = of(|process| process.is_forked && process.counts_from_start, |_| None).map(|(which, _)| {
            format!(
                "{which} began as a copy of another process, by a fork in a program without symbols: what the other had run until \
                 then counts in both"
            )
        });
        let unknown = of(|process| process.unknown.is_some(), |process| process.unknown.as_ref())
            .map(|(which, unknown)| format!("valgrind does not know all that {which} did: {unknown}"));
        [executed, failed, incomplete, copied, unknown]
            .into_iter()
            .flatten()
            .collect()
    }
}

impl CountedProcess {
    /// Lines are `==12== TEXT`, `--12-- TEXT`, or valgrind's last words without a number.
    fn read_log(&mut self, path: &Path) -> io::Result<()> {
        self.is_forked = true;
        for line in BufReader::new(File::open(path)?).split(b'\n') {
            let line = line?;
            let line = String::from_utf8_lossy(&line);
            let numbered = |mark: &str| Some(line.strip_prefix(mark)?.split_once(mark)?.1.trim());
            let text = numbered("==").or_else(|| numbered("--")).unwrap_or(line.trim());
            if let Some(command) = text.strip_prefix("Command: ") {
                command.clone_into(&mut self.command);
            } else if let Some(parent) = text.strip_prefix("Parent PID: ") {
                self.parent = parent.parse().ok();
            // Where a program starts. The log of a forked process begins without.
            } else if text.starts_with("For interactive control") {
                self.is_forked = false;
            } else if text.contains("Assertion '") || text.contains("the 'impossible' happened") {
                self.failure.get_or_insert_with(|| text.to_owned());
            } else if text.contains("unhandled instruction bytes") || text.starts_with("WARNING: unhandled") {
                self.unknown.get_or_insert_with(|| text.to_owned());
            }
        }
        Ok(())
    }

    fn add_counts(&mut self, path: PathBuf) -> io::Result<()> {
        // As long as the process runs, the file is empty.
        if fs::metadata(&path)?.len() == 0 {
            return Ok(());
        }
        let mut is_first = true;
        for line in BufReader::new(File::open(&path)?).split(b'\n') {
            let line = line?;
            // `desc: Timerange: Basic block 0 - 1029420`
            if line.starts_with(b"desc: Timerange: ") && std::mem::take(&mut is_first) {
                self.counts_from_start = line.windows(3).any(|word| word == b" 0 ");
            }
            self.has_ended |= line == b"desc: Trigger: Program termination";
        }
        self.counts.push(path);
        Ok(())
    }
}
