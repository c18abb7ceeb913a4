//! Writes the profile of the last seconds at each trigger, by a thread of its own: recording goes on.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
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

/// Most files that triggers write, and most bytes of them: a trigger that comes each second must not fill the disk.
const MOST_FILES: u32 = 100;
const MOST_BYTES: u64 = 1 << 30;

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
    writer: TriggerWriter,
    info: RecordingInfo,
    term: Term,
    /// Triggers so far. Those of the window are marked in each profile.
    pub(super) moments: Vec<TriggerMoment>,
    window_ns: u128,
    written: u32,
    written_bytes: Arc<AtomicU64>,
    has_warned: bool,
    thread: Option<(SyncSender<Box<TriggeredProfile>>, JoinHandle<()>)>,
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
#[derive(Clone)]
pub(super) struct TriggerWriter {
    pub(super) output: Arc<TriggerOutput>,
    pub(super) start: Arc<BuilderStart>,
    pub(super) commit: Option<String>,
    pub(super) stack_bytes: u64,
}

impl TriggerFiles {
    /// `info`: what is known of the recording at its beginning.
    pub(super) fn new(writer: TriggerWriter, info: RecordingInfo, window: Duration) -> TriggerFiles {
        TriggerFiles {
            term: writer.output.term.clone(),
            writer,
            info,
            moments: Vec::new(),
            window_ns: window.as_nanos(),
            written: 0,
            written_bytes: Arc::default(),
            has_warned: false,
            thread: None,
        }
    }

    /// Hands the last seconds over to the thread that writes, which begins with the first trigger: it has the signal
    /// mask of the recorder. Triggers that come while two files wait are marked in later ones.
    pub(super) fn write(&mut self, came: Vec<TriggerMoment>, until: Timestamp, stages: &mut RecordingStages<'_>) {
        let mut words: Vec<&str> = came.iter().map(|(_, words)| words.as_str()).collect();
        words.dedup();
        let words = words.join(", ");
        let first = came.iter().map(|(time, _)| *time).min().unwrap_or(until);
        self.moments.extend(came);
        self.moments
            .retain(|(time, _)| u128::from(until.nanos_since(*time)) <= self.window_ns);
        let written_bytes = self.written_bytes.load(Ordering::Relaxed);
        if self.written >= MOST_FILES || written_bytes >= MOST_BYTES {
            let files = format!("{} files ({})", self.written, bytes(written_bytes as f64));
            return self.warn(format_args!(
                "trigger {words}: {files} are written, and no more will be"
            ));
        }
        if self.thread.is_none() {
            let (sender, profiles) = sync_channel::<Box<TriggeredProfile>>(1);
            let (writer, written) = (self.writer.clone(), self.written_bytes.clone());
            let thread = std::thread::Builder::new().name("sprof-trigger".into()).spawn(move || {
                for profile in profiles {
                    writer.write(&profile, &written);
                }
            });
            match thread {
                Ok(thread) => self.thread = Some((sender, thread)),
                Err(error) => return self.warn(format_args!("trigger {words}: no thread to write its file: {error}")),
            }
        }
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
            window: last.window.snapshot(first),
            jit_code,
            kept_files,
            quality,
            info: RecordingInfo {
                end: until,
                ..self.info.clone()
            },
            moments: self.moments.clone(),
            words: words.clone(),
        });
        match self.thread.as_ref().map(|(sender, _)| sender.try_send(profile)) {
            Some(Ok(())) => self.written += 1,
            Some(Err(TrySendError::Full(_))) => self.term.verbose(format_args!(
                "trigger {words}: earlier files are still being written; it is marked in the next one"
            )),
            Some(Err(TrySendError::Disconnected(_))) | None => {}
        }
    }

    fn warn(&mut self, text: impl std::fmt::Display) {
        if !std::mem::replace(&mut self.has_warned, true) {
            self.term.warning(text);
        }
    }

    /// Waits until all files are written. Returns the triggers of the last window.
    pub(super) fn finish(self) -> Vec<TriggerMoment> {
        if let Some((sender, thread)) = self.thread {
            drop(sender);
            // A thread that panicked has reported it.
            let _ = thread.join();
        }
        self.moments
    }
}

impl TriggerWriter {
    fn write(&self, profile: &TriggeredProfile, written: &AtomicU64) {
        let term = &self.output.term;
        match self.save(profile) {
            Ok(path) => {
                let size = fs::metadata(&path).map_or(0, |file| file.len());
                written.fetch_add(size, Ordering::Relaxed);
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
