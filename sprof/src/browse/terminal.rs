//! The terminal: draws the screen there, reads keys, and leaves the terminal as it was.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use ratatui_core::terminal::Terminal;
use ratatui_crossterm::CrosstermBackend;
use ratatui_crossterm::crossterm::cursor::Show;
use ratatui_crossterm::crossterm::event::{self, Event, KeyEventKind};
use ratatui_crossterm::crossterm::execute;
use ratatui_crossterm::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Signal, kill_current_process_group};
use signal_hook::consts::SIGCONT;
use signal_hook::flag;

use super::colors::ColorDepth;
use super::draw::draw;
use super::screen::{AfterKey, BrowseScreen};
use crate::interrupt::Interrupt;
use crate::terminal::style;

/// Signals that come between two looks at them wait for so long.
const ROUND: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 250_000_000,
};

/// Time between two looks for keys where the terminal cannot be waited for.
const WITHOUT_POLL: Duration = Duration::from_millis(30);

/// True if stdout is a terminal that can move its cursor, and there are keys.
pub(crate) fn is_usable() -> bool {
    let is_dumb = std::env::var("TERM").is_ok_and(|term| term == "dumb");
    io::stdout().is_terminal() && !is_dumb && keys().is_ok()
}

/// The terminal that keys come from: stdin may be the file that is read.
fn keys() -> io::Result<File> {
    File::open("/dev/tty")
}

/// Shows the screen until the user ends it, a signal does, or the terminal is gone. `each_round` is called about four
/// times a second; it returns true if it changed the screen.
///
/// # Errors
///
/// The terminal cannot be read or drawn to.
pub(crate) fn run(screen: &mut BrowseScreen, mut each_round: impl FnMut(&mut BrowseScreen) -> bool) -> io::Result<()> {
    let interrupt = Interrupt::watch().map_err(|_| io::Error::other("signals cannot be watched"))?;
    let is_continued = Arc::new(AtomicBool::new(false));
    flag::register(SIGCONT, is_continued.clone())?;
    let keys = keys()?;
    let [term, colorterm] = ["TERM", "COLORTERM"].map(|name| std::env::var(name).unwrap_or_default());
    let colors = ColorDepth::of_terminal(style::stdout_color(), &term, &colorterm);
    let before = std::panic::take_hook();
    // Else what a panic prints is lost with the screen.
    std::panic::set_hook(Box::new(move |panic| {
        leave();
        before(panic);
    }));
    let _raw = RawTerminal::enter()?;
    let mut terminal = Terminal::new(CrosstermBackend::new(io::stdout()))?;
    let mut is_stale = true;
    let mut is_suspended = false;
    loop {
        if is_stale {
            terminal.draw(|frame| draw(screen, colors, frame.buffer_mut()))?;
        }
        is_stale = each_round(screen);
        if is_over(&keys, &interrupt, ROUND)? {
            return Ok(());
        }
        // crossterm reads a terminal that is gone without end.
        while !is_over(&keys, &interrupt, Timespec::default())? && event::poll(Duration::ZERO)? {
            is_stale = true;
            let key = match event::read()? {
                Event::Key(key) if key.kind != KeyEventKind::Release => key,
                Event::Mouse(event) => {
                    screen.point(event);
                    continue;
                }
                _ => continue,
            };
            match screen.press(key) {
                AfterKey::Draw => {}
                AfterKey::Copy => copy(&screen.command())?,
                AfterKey::Quit => return Ok(()),
                AfterKey::Suspend => {
                    leave();
                    is_suspended = true;
                    kill_current_process_group(Signal::TSTP)?;
                }
            }
        }
        if is_continued.swap(false, Ordering::Relaxed) {
            // The shell may have set other modes. Leaving twice would put its cursor where sprof began.
            if !std::mem::take(&mut is_suspended) {
                leave();
            }
            enter()?;
            // Clearing the old one would ask the terminal where its cursor is, and not all answer.
            terminal = Terminal::new(CrosstermBackend::new(io::stdout()))?;
            is_stale = true;
        }
    }
}

/// Waits for a key, a signal or the time. True if the terminal is gone, or a signal ends sprof.
fn is_over(keys: &File, interrupt: &Interrupt, time: Timespec) -> io::Result<bool> {
    let mut fds = [PollFd::new(keys, PollFlags::IN)];
    match poll(&mut fds, Some(&time)) {
        // A new size comes as a signal.
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    // poll(2) of macOS "does not support devices", and returns at once.
    if fds[0].revents().contains(PollFlags::NVAL) && time != Timespec::default() {
        std::thread::sleep(WITHOUT_POLL);
    }
    let is_gone = fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR);
    Ok(is_gone || interrupt.is_seen())
}

/// The terminal in raw mode, with a screen of its own.
struct RawTerminal;

impl RawTerminal {
    fn enter() -> io::Result<RawTerminal> {
        let raw = RawTerminal;
        enter()?;
        Ok(raw)
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        leave();
    }
}

fn enter() -> io::Result<()> {
    enable_raw_mode()?;
    execute!(io::stdout(), EnterAlternateScreen)?;
    match has_mouse() {
        true => put(MOUSE_ON),
        false => Ok(()),
    }
}

/// Reports clicks (1000), dragging (1002), and columns beyond 223 (1006): xterm's ctlseqs, "Mouse Tracking".
const MOUSE_ON: &str = "\x1b[?1000h\x1b[?1002h\x1b[?1006h";
const MOUSE_OFF: &str = "\x1b[?1006l\x1b[?1002l\x1b[?1000l";

/// False for terminals without a mouse, by their names: the console of Linux and of BSD, those like DEC's.
fn has_mouse() -> bool {
    let term = std::env::var("TERM").unwrap_or_default();
    !["linux", "vt", "ansi", "cons25"]
        .iter()
        .any(|name| term.starts_with(name))
}

fn put(text: &str) -> io::Result<()> {
    let mut out = io::stdout();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Asks the terminal to copy a text: xterm's ctlseqs, "Operating System Commands", 52. A terminal that refuses says
/// nothing.
fn copy(text: &str) -> io::Result<()> {
    put(&format!("\x1b]52;c;{}\x07", BASE64_STANDARD.encode(text)))
}

/// A terminal that is gone needs nothing.
fn leave() {
    if has_mouse() {
        let _ = put(MOUSE_OFF);
    }
    // Whoever sees the screen leave can type Ctrl-C.
    let _ = disable_raw_mode();
    let _ = execute!(io::stdout(), LeaveAlternateScreen, Show);
    let _ = io::stdout().flush();
}
