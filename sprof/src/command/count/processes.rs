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
    /// Its counts are complete: it has ended, or executed a program that valgrind leaves alone.
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
            // A core has the name of the log before its own. A thread has its number behind the process's.
            let log = name.strip_prefix(LOG).and_then(|id| id.parse().ok());
            let counts = name.strip_prefix(COUNTS);
            let counts = counts.and_then(|ids| ids.split(['-', '.']).next()?.parse().ok());
            let read = match (log, counts) {
                (Some(id), _) => processes.entry(id).or_default().read_log(&path),
                (None, Some(id)) => processes.entry(id).or_default().add_counts(path),
                (None, None) => Ok(()),
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
        for line in BufReader::new(File::open(path)?).split(b'\n') {
            let line = line?;
            let line = String::from_utf8_lossy(&line);
            let numbered = |mark: &str| Some(line.strip_prefix(mark)?.split_once(mark)?.1.trim());
            let text = numbered("==").or_else(|| numbered("--")).unwrap_or(line.trim());
            if let Some(command) = text.strip_prefix("Command: ") {
                command.clone_into(&mut self.command);
                self.is_forked = true;
            } else if let Some(parent) = text.strip_prefix("Parent PID: ") {
                self.parent = parent.parse().ok();
            // Where a program starts. A forked process has a log without it.
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
            if let Some(trigger) = line.strip_prefix(b"desc: Trigger: ") {
                self.has_ended = trigger == b"Program termination" || trigger == b"--dump-before=execve";
            }
        }
        self.counts.push(path);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_are_told_apart_by_what_valgrind_wrote() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        let log = |id: &str, start: &str| {
            let lines = format!("=={id}== Command: ./app {id}\n=={id}== Parent PID: 1\n");
            write(&format!("log.{id}"), &(lines + start));
        };
        let executed = "==0== For interactive control, run 'callgrind_control -h'.\n";
        let counts = |from: &str, trigger: &str| {
            format!(
                "# callgrind format\ndesc: Timerange: Basic block {from} - 90\ndesc: Trigger: {trigger}\ntotals: 5\n"
            )
        };
        let ended = "Program termination";
        log("10", executed);
        write("counts.10-01", &counts("0", ended));
        write("counts.10-02", &counts("0", ended));
        write("log.10.core.10", "\u{7f}ELF Assertion 'x' failed.");
        // Forked, in three ways, and its end: seen; not seen; gone to a program without valgrind; killed.
        for (id, from, trigger) in [
            ("11", "70", ended),
            ("12", "0", ended),
            ("13", "70", "--dump-before=execve"),
        ] {
            log(id, "");
            write(&format!("counts.{id}"), &counts(from, trigger));
        }
        log("14", "");
        write("counts.14", "");
        // As with VALGRIND_OPTS=-q.
        write("log.15", "--15-- WARNING: unhandled amd64-linux syscall: 999\n");
        write("counts.15", &counts("0", ended));
        log("16", "Callgrind: threads.c:247: Assertion 'x' failed.\n");
        let processes = CountedProcesses::read(folder.path()).unwrap();
        assert_eq!(processes.0[&10].counts.len(), 2);
        let notes = processes.notes("./app");
        let starts = [
            "valgrind could not run 1 process (`./app 16`): Callgrind: threads.c:247",
            "the counts of 1 process (`./app 14`) are missing",
            "1 process (`./app 12`) began as a copy of another process",
            "valgrind does not know all that 1 process (``) did: WARNING: unhandled",
        ];
        assert_eq!(notes.len(), starts.len(), "{notes:?}");
        assert!(
            notes.iter().zip(starts).all(|(note, start)| note.starts_with(start)),
            "{notes:?}"
        );
    }
}
