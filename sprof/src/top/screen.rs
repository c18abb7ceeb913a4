//! The screen of `sprof browse` on a recording that goes on: its last seconds, and all of it once it has ended.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use profile::Profile;
use profile::export::firefox;
use profile::text::numbers::count;
use ratatui_crossterm::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use recording::clock::Timestamp;

use super::names::LiveNames;
use super::watch::{Snapshots, end_recording, interrupt_recording};
use crate::args::{SelectArgs, TimeRange};
use crate::browse::screen::{AfterKey, Annotate, BrowseScreen, LiveKeys};
use crate::browse::terminal;
use crate::exit::Failure;
use crate::output::file_kind::FileKind;
use crate::output::{Earlier, Output};
use crate::pipeline::snapshots::{SnapshotPart, SnapshotRequest};
use crate::recorder::thread_cpu_ns;
use crate::terminal::{Term, Verbosity};

/// Time to the first snapshot.
const FIRST: Duration = Duration::from_millis(200);
/// A message stands above the foot for so long, or until a key is pressed.
const MESSAGE: Duration = Duration::from_secs(8);
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

/// From one picture to the next are at least this many times the CPU time of a picture. With drawing and looking for
/// keys, the screen then takes a hundredth of a CPU.
const PICTURE_WAITS: u32 = 125;

/// What was recorded until a snapshot.
#[derive(Clone)]
struct Newest {
    profile: Arc<Profile>,
    /// Seconds before its end that it has; `None`: all.
    reach_s: Option<f64>,
    /// Counts snapshots.
    number: u64,
}

impl Newest {
    /// True if it has the time that is to be shown, and the time before for the trend.
    fn has(&self, window: usize) -> bool {
        match (self.reach_s, WINDOWS[window].1) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(reach_s), Some(length_s)) => reach_s >= 2.0 * length_s,
        }
    }
}

/// What the thread of names and the one of the screen share.
struct LiveShared {
    names: Arc<LiveNames>,
    request: SnapshotRequest,
    /// Where `s` saves.
    file: PathBuf,
    newest: Mutex<Option<Newest>>,
    /// What the user is to read next.
    message: Mutex<Option<String>>,
    /// An index of [`WINDOWS`]: what the user wants, and what is shown.
    window: AtomicUsize,
    shown: AtomicUsize,
    is_paused: AtomicBool,
    /// A key asked for the next snapshot.
    is_awaited: AtomicBool,
    /// The next snapshot of all is to be saved.
    is_saving: AtomicBool,
    has_ended: AtomicBool,
    is_saved: AtomicBool,
    /// CPU time that the thread of the screen took for the last picture.
    page_ns: AtomicU64,
}

pub(crate) struct LiveScreen {
    shared: Arc<LiveShared>,
    interval: Duration,
    annotate: fn(PathBuf) -> Annotate,
    thread: Option<JoinHandle<Result<Option<String>, Failure>>>,
    /// What the recorder could not do as it was asked.
    pub(crate) announcements: Vec<String>,
}

impl LiveScreen {
    /// The longest end of the recording that it asks for.
    pub(crate) const LONGEST_END: Duration = Duration::from_secs(60);

    /// Takes a snapshot each `interval`; `s` saves to `file`.
    pub(crate) fn new(
        names: Arc<LiveNames>,
        request: SnapshotRequest,
        interval: Duration,
        file: PathBuf,
        annotate: fn(PathBuf) -> Annotate,
    ) -> LiveScreen {
        let shared = LiveShared {
            names,
            request,
            file,
            newest: Mutex::default(),
            message: Mutex::default(),
            window: AtomicUsize::new(0),
            shown: AtomicUsize::new(0),
            is_paused: AtomicBool::new(false),
            is_awaited: AtomicBool::new(false),
            is_saving: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
            is_saved: AtomicBool::new(false),
            page_ns: AtomicU64::new(0),
        };
        LiveScreen {
            shared: Arc::new(shared),
            interval,
            annotate,
            thread: None,
            announcements: Vec::new(),
        }
    }

    /// Shows snapshots until the recording has ended.
    pub(crate) fn run(mut self, mut snapshots: Snapshots) -> LiveScreen {
        let shared = self.shared.clone();
        let (mut wait, mut cost_before, mut lost_before) = (FIRST, Duration::ZERO, 0);
        self.announcements = std::mem::take(&mut snapshots.announcements);
        self.announcements
            .last()
            .into_iter()
            .for_each(|line| shared.say(line.clone()));
        while let Some(snapshot) = snapshots.after(wait, || shared.wanted()) {
            let began = thread_cpu_ns();
            let from = snapshot.from();
            let is_saved = snapshot.is_whole() && shared.is_saving.swap(false, Ordering::Relaxed);
            let profile = Arc::new(shared.names.of_snapshot(snapshot));
            let took_ns = thread_cpu_ns().saturating_sub(began) + shared.page_ns.load(Ordering::Relaxed);
            let cost = Duration::from_nanos(took_ns);
            let lost = profile.quality().lost_total();
            if lost > std::mem::replace(&mut lost_before, lost) {
                shared.say(format!("{} lost so far; Q says more", count(lost, "record", "records")));
            }
            // There is one message: the answer to a key takes precedence.
            if is_saved {
                shared.say(shared.save(&profile));
            }
            let is_held = shared.is_paused.load(Ordering::Relaxed) || is_saved && shared.part() != SnapshotPart::All;
            if !shared.is_awaited.swap(false, Ordering::Relaxed) && is_held {
                continue;
            }
            // Names of new files are looked up once: they are not the cost of the next picture.
            wait = self.interval.max(PICTURE_WAITS * cost.min(cost_before));
            cost_before = cost;
            if self.show(profile, from).is_err() {
                end_recording();
                break;
            }
        }
        self
    }

    /// Hands a profile to the screen, which begins with the first one. It has all since `from`.
    fn show(&mut self, profile: Arc<Profile>, from: Option<Timestamp>) -> Result<(), Failure> {
        let reach_s = from.map(|from| profile.info().end.nanos_since(from) as f64 / 1e9);
        let number = {
            let mut newest = self.shared.newest.lock().unwrap_or_else(PoisonError::into_inner);
            let number = newest.as_ref().map_or(0, |newest| newest.number + 1);
            *newest = Some(Newest {
                profile,
                reach_s,
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
        let profile = Arc::new(profile);
        if self.shared.is_saving.swap(false, Ordering::Relaxed) {
            self.shared.say(self.shared.save(&profile));
        }
        self.shared.window.store(ALL, Ordering::Relaxed);
        self.shared.is_saved.fetch_or(is_saved, Ordering::Relaxed);
        self.shared.has_ended.store(true, Ordering::Relaxed);
        self.show(profile, None)?;
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
        Some(newest) => of_screen.names.input(&newest.profile, has_markers),
        None => Err(Failure::failed("nothing was recorded so far")),
    };
    let mut screen = BrowseScreen::new(shared.file.clone(), SelectArgs::default(), Box::new(read), annotate)?;
    screen.live = Some(Box::new(LiveControl {
        shared: shared.clone(),
        is_asked: false,
    }));
    let (mut seen, mut said) = (None, None);
    let ended = terminal::run(&mut screen, |screen| {
        let is_new = shared.show_newest(screen, &mut seen);
        let message = shared.message.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(message) = message {
            screen.message.clone_from(&message);
            said = Some((Instant::now(), message));
            return true;
        }
        let is_over = said.as_ref().is_some_and(|(at, _)| at.elapsed() > MESSAGE);
        if let Some((_, message)) = said.take_if(|_| is_over)
            && screen.message == message
        {
            screen.message.clear();
            return true;
        }
        is_new
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
    fn newest(&self) -> Option<Newest> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The part of the recording that a picture needs: the time shown, and the time before for the trend.
    fn part(&self) -> SnapshotPart {
        match WINDOWS[self.window.load(Ordering::Relaxed)].1 {
            Some(length_s) => SnapshotPart::Last(Duration::from_secs_f64(2.0 * length_s)),
            None => SnapshotPart::All,
        }
    }

    /// What the next picture is made of. `None` while one is held.
    fn wanted(&self) -> Option<SnapshotPart> {
        (!self.is_paused.load(Ordering::Relaxed)).then(|| self.part())
    }

    /// Shows a text at the next look for keys.
    fn say(&self, text: String) {
        *self.message.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
    }

    /// Shows the newest snapshot, if it is another one than was seen, or another time of it is wanted. True if the
    /// screen has changed.
    fn show_newest(&self, screen: &mut BrowseScreen, seen: &mut Option<(u64, usize)>) -> bool {
        let window = self.window.load(Ordering::Relaxed);
        let is_next = |newest: &Newest| newest.has(window) && *seen != Some((newest.number, window));
        let Some(newest) = self.newest().filter(is_next) else {
            return false;
        };
        let length_s = WINDOWS[window].1;
        *seen = Some((newest.number, window));
        let began = thread_cpu_ns();
        self.shown.store(window, Ordering::Relaxed);
        let has_ended = self.has_ended.load(Ordering::Relaxed);
        let ends_s = length_s_of(&newest.profile);
        // Whole milliseconds: people read the command.
        let whole_ms = |seconds: f64| (1e3 * seconds).floor() / 1e3;
        let begins = length_s.map(|length_s| whole_ms(ends_s - length_s));
        let begins = begins.filter(|begins_s| *begins_s > 0.0);
        screen.shown.select.part.time_range = begins.map(|from_s| TimeRange {
            from_s: Some(from_s),
            // What is saved later has more.
            to_s: (!has_ended).then(|| whole_ms(ends_s)),
        });
        screen.shown.before = begins.map(|from_s| TimeRange {
            from_s: Some((2.0 * from_s - ends_s).max(0.0)),
            to_s: Some(from_s),
        });
        if has_ended {
            // That it ends was said before.
            screen.message.clear();
        }
        screen.refresh();
        self.page_ns
            .store(thread_cpu_ns().saturating_sub(began), Ordering::Relaxed);
        true
    }

    /// Saves all that was recorded so far; returns what happened.
    fn save(&self, profile: &Profile) -> String {
        let quiet = Term::stderr(Verbosity::Quiet);
        let saved = Output::prepare(&self.file, FileKind::Profile, Earlier::Kept)
            .and_then(|output| output.save(&quiet, |out| firefox::write_gz(profile, out)));
        match saved {
            Ok(saved) => {
                self.is_saved.store(saved.problem.is_none(), Ordering::Relaxed);
                let place = saved.path.unwrap_or_else(|| self.file.clone());
                saved
                    .problem
                    .unwrap_or_else(|| format!("saved the first {:.1} s in {}", length_s_of(profile), place.display()))
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
            KeyCode::Char('s') if has_ended && !is_control => {
                *message = self
                    .shared
                    .newest()
                    .map_or_else(String::new, |newest| self.shared.save(&newest.profile));
            }
            KeyCode::Char('s') if !is_control => {
                "saving what was recorded so far".clone_into(message);
                self.shared.is_saving.store(true, Ordering::Relaxed);
                self.shared.request.ask(SnapshotPart::All);
            }
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
                if !self.shared.newest().is_some_and(|newest| newest.has(window)) {
                    self.shared.is_awaited.store(true, Ordering::Relaxed);
                    self.shared.request.ask(self.shared.part());
                }
            }
            _ => return None,
        }
        Some(AfterKey::Draw)
    }

    fn hint(&self) -> String {
        let recorded_s = (self.shared.newest()).map_or(0.0, |newest| length_s_of(&newest.profile));
        let shown = match WINDOWS[self.shared.shown.load(Ordering::Relaxed)].1 {
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
