//! The screen of `sprof browse` on a recording that goes on: its last seconds, and all of it once it has ended.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use profile::Profile;
use profile::export::firefox;
use ratatui_crossterm::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::names::LiveNames;
use super::watch::{Snapshots, end_recording, interrupt_recording};
use crate::args::{SelectArgs, TimeRange};
use crate::browse::screen::{AfterKey, Annotate, BrowseScreen, LiveKeys};
use crate::browse::terminal;
use crate::exit::Failure;
use crate::output::file_kind::FileKind;
use crate::output::{Earlier, Output};
use crate::terminal::{Term, Verbosity};

/// Time to the first snapshot.
const FIRST: Duration = Duration::from_millis(200);
/// Keys of windows, and their lengths in seconds.
const WINDOWS: [(char, Option<f64>); 4] = [('5', Some(5.0)), ('1', Some(1.0)), ('3', Some(30.0)), ('0', None)];
const ALL: usize = 3;

/// Lines of help: keys that a file has not, or that do something else there.
pub(crate) const HELP: [(&str, &str); 5] = [
    ("1 5 3 0", "shows the last second, the last 5 or 30 seconds, all"),
    ("P", "holds what is shown; goes on"),
    ("s", "saves what was recorded so far as a profile"),
    ("q q", "ends the recording, and stays"),
    ("Ctrl-C", "goes to the program, as with `sprof record`"),
];

/// What was recorded until a snapshot.
struct Newest {
    profile: Arc<Profile>,
    /// Counts snapshots.
    number: u64,
}

/// What the thread of names and the one of the screen share.
struct LiveShared {
    names: Arc<LiveNames>,
    /// Where `s` saves.
    file: PathBuf,
    newest: Mutex<Option<Newest>>,
    /// An index of [`WINDOWS`].
    window: AtomicUsize,
    is_paused: AtomicBool,
    has_ended: AtomicBool,
    is_saved: AtomicBool,
}

pub(crate) struct LiveScreen {
    shared: Arc<LiveShared>,
    interval: Duration,
    annotate: fn(PathBuf) -> Annotate,
    thread: Option<JoinHandle<Result<Option<String>, Failure>>>,
}

impl LiveScreen {
    /// Takes a snapshot each `interval`; `s` saves to `file`.
    pub(crate) fn new(
        names: Arc<LiveNames>,
        interval: Duration,
        file: PathBuf,
        annotate: fn(PathBuf) -> Annotate,
    ) -> LiveScreen {
        let shared = LiveShared {
            names,
            file,
            newest: Mutex::new(None),
            window: AtomicUsize::new(0),
            is_paused: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
            is_saved: AtomicBool::new(false),
        };
        LiveScreen {
            shared: Arc::new(shared),
            interval,
            annotate,
            thread: None,
        }
    }

    /// Shows snapshots until the recording has ended.
    pub(crate) fn run(mut self, mut snapshots: Snapshots) -> LiveScreen {
        let mut wait = FIRST;
        while let Some(snapshot) = snapshots.after(wait) {
            wait = self.interval;
            if self.shared.is_paused.load(Ordering::Relaxed) {
                continue;
            }
            let profile = self.shared.names.of_snapshot(snapshot);
            if self.show(profile).is_err() {
                end_recording();
                break;
            }
        }
        self
    }

    /// Hands a profile to the screen, which begins with the first one.
    fn show(&mut self, profile: Profile) -> Result<(), Failure> {
        let number = {
            let mut newest = self.shared.newest.lock().unwrap_or_else(PoisonError::into_inner);
            let number = newest.as_ref().map_or(0, |newest| newest.number + 1);
            *newest = Some(Newest {
                profile: Arc::new(profile),
                number,
            });
            number
        };
        if number == 0 {
            let (shared, annotate) = (self.shared.clone(), self.annotate);
            let thread = thread::Builder::new().name("screen".to_owned());
            let started = thread.spawn(move || screen(&shared, annotate(shared.file.clone())));
            let started = started.map_err(|error| Failure::failed(format_args!("cannot start a thread: {error}")))?;
            self.thread = Some(started);
        }
        Ok(())
    }

    /// Shows all that was recorded until the user ends it. Returns the command that prints the last view, if it was
    /// saved.
    pub(crate) fn finish(mut self, profile: Profile, is_saved: bool) -> Result<Option<String>, Failure> {
        self.shared.window.store(ALL, Ordering::Relaxed);
        self.shared.is_paused.store(false, Ordering::Relaxed);
        self.shared.is_saved.fetch_or(is_saved, Ordering::Relaxed);
        self.shared.has_ended.store(true, Ordering::Relaxed);
        self.show(profile)?;
        match self.thread.map(JoinHandle::join) {
            Some(Ok(ended)) => ended,
            _ => Err(Failure::failed("the thread of the screen ended early")),
        }
    }
}

/// Runs the screen.
fn screen(shared: &Arc<LiveShared>, annotate: Annotate) -> Result<Option<String>, Failure> {
    let of_screen = shared.clone();
    let read = move |_: &SelectArgs, has_markers: bool| match of_screen.newest() {
        Some((profile, _)) => of_screen.names.input(&profile, has_markers),
        None => Err(Failure::failed("nothing was recorded so far")),
    };
    let mut screen = BrowseScreen::new(shared.file.clone(), SelectArgs::default(), Box::new(read), annotate)?;
    screen.live = Some(Box::new(LiveControl {
        shared: shared.clone(),
        is_asked: false,
    }));
    let mut seen = None;
    let ended = terminal::run(&mut screen, |screen| {
        let window = shared.window.load(Ordering::Relaxed);
        let Some((profile, number)) = shared.newest() else {
            return false;
        };
        if seen == Some((number, window)) {
            return false;
        }
        seen = Some((number, window));
        let ends_s = length_s_of(&profile);
        // Whole milliseconds: people read the command.
        let begins = WINDOWS[window]
            .1
            .map(|length_s| (1e3 * (ends_s - length_s)).floor() / 1e3);
        let begins = begins.filter(|begins_s| *begins_s > 0.0);
        screen.shown.select.part.time_range = begins.map(|from_s| TimeRange {
            from_s: Some(from_s),
            to_s: None,
        });
        screen.shown.before = begins.map(|from_s| TimeRange {
            from_s: Some((2.0 * from_s - ends_s).max(0.0)),
            to_s: Some(from_s),
        });
        if shared.has_ended.load(Ordering::Relaxed) {
            // That it ends was said before.
            screen.message.clear();
        }
        screen.refresh();
        true
    });
    if !shared.has_ended.load(Ordering::Relaxed) {
        end_recording();
    }
    ended.map_err(|error| Failure::failed(format_args!("the terminal cannot be used: {error}")))?;
    let is_saved = shared.is_saved.load(Ordering::Relaxed);
    Ok(is_saved.then(|| screen.command()))
}

/// Seconds that were recorded.
fn length_s_of(profile: &Profile) -> f64 {
    let info = profile.info();
    info.end.0.saturating_sub(info.clock.timestamp.0) as f64 / 1e9
}

impl LiveShared {
    fn newest(&self) -> Option<(Arc<Profile>, u64)> {
        let newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        newest.as_ref().map(|newest| (newest.profile.clone(), newest.number))
    }

    /// Saves what is shown; returns what happened.
    fn save(&self) -> String {
        let Some((profile, _)) = self.newest() else {
            return "nothing was recorded so far".to_owned();
        };
        let quiet = Term::stderr(Verbosity::Quiet);
        let saved = Output::prepare(&self.file, FileKind::Profile, Earlier::Kept)
            .and_then(|output| output.save(&quiet, |out| firefox::write_gz(&profile, out)));
        match saved {
            Ok(saved) => {
                self.is_saved.store(saved.problem.is_none(), Ordering::Relaxed);
                let place = saved.path.unwrap_or_else(|| self.file.clone());
                saved
                    .problem
                    .unwrap_or_else(|| format!("saved the first {:.1} s in {}", length_s_of(&profile), place.display()))
            }
            Err(error) => error,
        }
    }
}

/// The keys of a recording that goes on.
struct LiveControl {
    shared: Arc<LiveShared>,
    /// The last key asked for the end.
    is_asked: bool,
}

impl LiveKeys for LiveControl {
    fn press(&mut self, key: KeyEvent, message: &mut String) -> Option<AfterKey> {
        let was_asked = std::mem::replace(&mut self.is_asked, false);
        let has_ended = self.shared.has_ended.load(Ordering::Relaxed);
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if is_control && !has_ended => interrupt_recording(),
            KeyCode::Char('s') if !is_control => *message = self.shared.save(),
            KeyCode::Char('q') if !has_ended && was_asked => {
                "the recording ends".clone_into(message);
                end_recording();
            }
            KeyCode::Char('q') if !has_ended => {
                self.is_asked = true;
                "q once more ends the recording and a program that sprof started".clone_into(message);
            }
            KeyCode::Char('P') if !has_ended => {
                self.shared.is_paused.fetch_not(Ordering::Relaxed);
            }
            KeyCode::Char(letter) if !is_control => {
                let window = WINDOWS.iter().position(|(key, _)| *key == letter)?;
                self.shared.window.store(window, Ordering::Relaxed);
            }
            _ => return None,
        }
        Some(AfterKey::Draw)
    }

    fn hint(&self) -> String {
        let recorded_s = self.shared.newest().map_or(0.0, |(profile, _)| length_s_of(&profile));
        let shown = match WINDOWS[self.shared.window.load(Ordering::Relaxed)].1 {
            Some(length_s) => format!("the last {length_s} s"),
            None => "all".to_owned(),
        };
        let is_paused = self.shared.is_paused.load(Ordering::Relaxed);
        let state = match self.shared.has_ended.load(Ordering::Relaxed) {
            true => "ended after",
            false if is_paused => "held at",
            false => "recording,",
        };
        format!("{state} {recorded_s:.1} s: {shown}  1 5 3 0: time shown  P: hold  s: save  ?: keys  q: end")
    }

    fn help(&self) -> &'static [(&'static str, &'static str)] {
        &HELP
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_key_is_documented() {
        let page = include_str!("../../../docs/top.md");
        for (keys, what) in super::HELP {
            assert!(page.contains(&format!("| {keys} | {what} |")), "{keys}");
        }
    }
}
