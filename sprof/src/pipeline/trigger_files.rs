//! Writes the profile of the last seconds at each trigger, by a thread of its own: recording goes on.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use profile::export::firefox;
use profile::text::numbers::bytes;
use profile::window::WindowSnapshot;
use recording::clock::Timestamp;
use recording::info::RecordingInfo;
use recording::module::Module;
use recording::quality::Quality;
use recording::sink::KeptFile;
use symbolicator::{SymbolOptions, Symbolicator};

use super::RecordingStages;
use super::jit::JitCode;
use super::window::{self, BuilderStart, TriggerMoment};
use crate::interrupt::Interrupt;
use crate::output::file_kind::FileKind;
use crate::output::{Earlier, Output, numbered};
use crate::symbols::look_ups::LookUps;
use crate::terminal::{Term, Verbosity};

/// Most files that triggers write, and most bytes of them.
const MOST_FILES: u32 = 100;
const MOST_BYTES: u64 = 1 << 30;
/// The pauses of triggers double each time that this number of files was written.
const FILES_BEFORE_LONGER_PAUSES: u32 = 10;
/// Most files that are handed over and not written.
const MOST_WAITING: u32 = 2;

/// Where the files go, and how functions get their names.
#[derive(Debug)]
pub(crate) struct TriggerOutput {
    /// The output of the recording: of `app.json.gz`, the first file is `app.1.json.gz`.
    pub(crate) path: PathBuf,
    /// `None`: functions get no names.
    pub(crate) symbols: Option<SymbolOptions>,
    pub(crate) interrupt: Interrupt,
    pub(crate) term: Term,
}

/// The files of a recording.
pub(super) struct TriggerFiles {
    writer: Arc<TriggerWriter>,
    info: RecordingInfo,
    window_ns: u64,
    /// Files that were handed over to the thread.
    begun: u32,
    has_warned: bool,
    thread: Option<(Sender<Box<TriggeredProfile>>, JoinHandle<()>)>,
}

/// What a profile is made of.
struct TriggeredProfile {
    window: WindowSnapshot,
    jit_code: JitCode,
    kept_files: Vec<(Arc<Module>, KeptFile)>,
    quality: Quality,
    info: RecordingInfo,
    moments: Vec<TriggerMoment>,
    words: String,
}

/// What is the same for all files.
pub(super) struct TriggerWriter {
    pub(super) output: TriggerOutput,
    pub(super) start: Arc<BuilderStart>,
    pub(super) commit: Option<String>,
    pub(super) stack_bytes: u64,
    /// Files that were written or failed, and bytes of them.
    pub(super) ended: AtomicU32,
    pub(super) written_bytes: AtomicU64,
}

impl TriggerFiles {
    /// `info`: what is known of the recording at its beginning.
    pub(super) fn new(writer: TriggerWriter, info: RecordingInfo, window: Duration) -> TriggerFiles {
        TriggerFiles {
            writer: Arc::new(writer),
            info,
            window_ns: u64::try_from(window.as_nanos()).unwrap_or(u64::MAX),
            begun: 0,
            has_warned: false,
            thread: None,
        }
    }

    pub(super) fn window_ns(&self) -> u64 {
        self.window_ns
    }

    /// How long the triggers of a file that is begun now are paused.
    pub(super) fn pause_ns(&self) -> u64 {
        pause_ns(self.window_ns, self.begun)
    }

    /// True if a file can be written now. Starts the thread for the first one: it has the signal mask of the recorder.
    pub(super) fn has_room(&mut self, words: &str) -> bool {
        let written_bytes = self.writer.written_bytes.load(Ordering::Relaxed);
        if self.begun >= MOST_FILES || written_bytes >= MOST_BYTES {
            let files = format!("{} files ({})", self.begun, bytes(written_bytes as f64));
            self.warn(format_args!(
                "trigger {words}: {files} are written, and no more will be"
            ));
            return false;
        }
        if self.thread.is_none() {
            let (sender, profiles) = channel::<Box<TriggeredProfile>>();
            let writer = self.writer.clone();
            let thread = std::thread::Builder::new().name("sprof-trigger".into()).spawn(move || {
                for profile in profiles {
                    writer.write(&profile);
                    writer.ended.fetch_add(1, Ordering::Relaxed);
                }
            });
            match thread {
                Ok(thread) => self.thread = Some((sender, thread)),
                Err(error) => {
                    self.warn(format_args!("trigger {words}: no thread to write its file: {error}"));
                    return false;
                }
            }
        }
        self.begun - self.writer.ended.load(Ordering::Relaxed) < MOST_WAITING
    }

    /// Hands the events of the window that ends at `end` over to the thread, and what came since.
    pub(super) fn write(
        &mut self,
        words: String,
        end: Timestamp,
        moments: Vec<TriggerMoment>,
        until: Timestamp,
        stages: &mut RecordingStages<'_>,
    ) {
        let kept_files = stages.kept_files();
        let quality = Quality {
            asked_rate_hz: self.info.asked_rate_hz(),
            ..stages.quality().clone()
        };
        let jit = stages.next_mut().next_mut();
        let jit_code = jit.code();
        let Some(last) = &mut jit.next_mut().next_mut().last else {
            return;
        };
        let profile = Box::new(TriggeredProfile {
            window: last.window.snapshot(end),
            jit_code,
            kept_files,
            quality,
            info: RecordingInfo {
                end: until,
                ..self.info.clone()
            },
            moments,
            words,
        });
        if let Some((sender, _)) = &self.thread
            && sender.send(profile).is_ok()
        {
            self.begun += 1;
        }
    }

    fn warn(&mut self, text: impl std::fmt::Display) {
        if !std::mem::replace(&mut self.has_warned, true) {
            self.writer.output.term.warning(text);
        }
    }

    /// Waits until all files are written. Reports triggers without a file.
    pub(super) fn finish(self, without_file: Option<String>) {
        if let Some((sender, thread)) = self.thread {
            drop(sender);
            // A thread that panicked has reported it.
            let _ = thread.join();
        }
        if let Some(words) = without_file {
            let term = &self.writer.output.term;
            term.line(format_args!("triggers since their last files: {words}"));
        }
    }
}

/// How long a trigger has no further file. `files`: files of all triggers until now. A span that often exceeds its
/// bound would fill the disk in seconds, and whoever looks in the morning wants files of the whole night. At first the
/// pause is the window: what comes in the pause is in the window at its end.
fn pause_ns(window_ns: u64, files: u32) -> u64 {
    window_ns.saturating_mul(1 << (files / FILES_BEFORE_LONGER_PAUSES).min(63))
}

impl TriggerWriter {
    fn write(&self, profile: &TriggeredProfile) {
        let term = &self.output.term;
        match self.save(profile) {
            Ok(path) => {
                let size = fs::metadata(&path).map_or(0, |file| file.len());
                self.written_bytes.fetch_add(size, Ordering::Relaxed);
                term.line(format_args!(
                    "trigger {}: saved {} ({})",
                    profile.words,
                    path.display(),
                    bytes(size as f64)
                ));
            }
            Err(error) => term.error(format_args!("trigger {}: {error}", profile.words)),
        }
    }

    fn save(&self, triggered: &TriggeredProfile) -> Result<PathBuf, String> {
        let (builder, quality) = self
            .start
            .build(&triggered.window, &triggered.moments, &triggered.quality);
        let mut info = triggered.info.clone();
        let part = window::narrow(&mut info, &triggered.window);
        let (mut profile, jit_symbols) = triggered.jit_code.finish(builder, info, quality, |_| {});
        profile.set_commit(self.commit.clone());
        profile.set_stack_bytes(self.stack_bytes);
        profile.set_part(part);
        if let Some(symbols) = &self.output.symbols {
            let symbolicator = Symbolicator::new(SymbolOptions {
                recorded_at: Some(std::time::SystemTime::now()),
                ..symbols.clone()
            });
            for (module, file) in &triggered.kept_files {
                symbolicator.add_kept_file(module, file.clone());
            }
            for (module, symbols) in jit_symbols {
                symbolicator.add_jit(&module, symbols);
            }
            LookUps::new(&symbolicator, &Term::stderr(Verbosity::Quiet)).name(&mut profile, &self.output.interrupt);
        }
        let number = (1..).find(|number| fs::symlink_metadata(numbered(&self.output.path, *number)).is_err());
        let path = numbered(&self.output.path, number.unwrap_or_default());
        let output = Output::prepare(&path, FileKind::Profile, Earlier::Replaced)?;
        output.save(&self.output.term, |out| firefox::write_gz(&profile, out))?;
        Ok(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_trigger_that_always_comes_are_spread_over_hours() {
        let after = |files: u32| (0..files).map(|before| pause_ns(1, before)).sum::<u64>();
        assert_eq!([1, 10, 20, MOST_FILES].map(after), [1, 10, 30, 10_230]);
        assert_eq!(pause_ns(2, u32::MAX), u64::MAX);
    }
}
