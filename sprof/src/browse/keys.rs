//! Keys and what they do: those of perf's browser and of less, where these have one.

use ratatui_crossterm::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// What a key asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyAction {
    Up,
    Down,
    PageUp,
    PageDown,
    First,
    Last,
    /// Opens or closes a row of a tree; goes on from any other row.
    Enter,
    Open,
    Close,
    OpenAll,
    CloseAll,
    NextView,
    PreviousView,
    Callers,
    Annotate,
    Focus,
    Hide,
    Threads,
    Processes,
    Invert,
    Waits,
    Order,
    Search,
    FindNext,
    FindPrevious,
    Undo,
    Reread,
    /// Begins or ends a range of time.
    Range,
    /// Copies the command.
    Copy,
    Quality,
    Help,
    Suspend,
    Quit,
}

/// Lines of help: keys, and what they do.
pub(crate) const HELP: [(&str, &str); 25] = [
    (
        "Up Down, k j",
        "one row up, down; in the flame graph: caller, largest callee",
    ),
    ("PgUp PgDn, b Space", "one screen up, down"),
    ("Home End, g G", "first row, last row"),
    ("Tab, Shift-Tab", "next view, previous view"),
    (
        "Enter",
        "in a tree: opens or closes the row; in the flame graph: gives the frame the whole width, or goes back; else: \
         callers of the function, or only this thread, process, category",
    ),
    (
        "Right Left, + -",
        "opens the row; closes it, or goes to its caller; in the flame graph: the frame beside; in the timeline: the \
         time beside",
    ),
    ("E C", "opens all rows, closes all rows"),
    (
        "+ - before a row",
        "closed, open; a row with the same samples as the row above has its indent, and opens with it",
    ),
    ("c", "callers of the function, and what it calls"),
    ("a", "source and machine code of the function, with samples"),
    ("f", "only stacks with the function"),
    (
        "h",
        "removes the function from all stacks; its cost goes to its callers",
    ),
    ("i", "inverts the tree: from the roots, from the leaves"),
    ("t p", "threads, processes: Enter shows one of them alone"),
    ("w", "what threads waited for, in place of what they ran; and back"),
    ("s, o", "order of functions, lines and crates: self, total, name"),
    (
        "/ n N",
        "searches for text, also in closed rows and in source; next, previous",
    ),
    ("u, Escape", "takes back the last selection, or goes back from callers"),
    ("Q", "what was recorded, and what limits its quality"),
    ("R", "reads the file again, for example after another recording"),
    (
        "r",
        "in the timeline: begins a range at the chosen time; Right and Left extend the range, Enter selects it",
    ),
    ("y", "copies the command at the foot, if the terminal permits (OSC 52)"),
    (
        "mouse",
        "a click chooses a row, a frame or a view, another one is Enter; the wheel moves; dragging in the \
         timeline selects",
    ),
    ("Ctrl-Z", "suspends; `fg` goes on"),
    ("q, Ctrl-C", "ends, and prints the command of the last view"),
];

/// The action of a key in a view.
pub(crate) fn action(key: KeyEvent) -> Option<KeyAction> {
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return match key.code {
            KeyCode::Char('c') => Some(KeyAction::Quit),
            KeyCode::Char('z') => Some(KeyAction::Suspend),
            KeyCode::Char('f') => Some(KeyAction::PageDown),
            KeyCode::Char('b') => Some(KeyAction::PageUp),
            _ => None,
        };
    }
    Some(match key.code {
        KeyCode::Up | KeyCode::Char('k') => KeyAction::Up,
        KeyCode::Down | KeyCode::Char('j') => KeyAction::Down,
        KeyCode::PageUp | KeyCode::Char('b') => KeyAction::PageUp,
        KeyCode::PageDown | KeyCode::Char(' ') => KeyAction::PageDown,
        KeyCode::Home | KeyCode::Char('g') => KeyAction::First,
        KeyCode::End | KeyCode::Char('G') => KeyAction::Last,
        KeyCode::Enter => KeyAction::Enter,
        KeyCode::Right | KeyCode::Char('+') => KeyAction::Open,
        KeyCode::Left | KeyCode::Char('-') => KeyAction::Close,
        KeyCode::Char('E') => KeyAction::OpenAll,
        KeyCode::Char('C') => KeyAction::CloseAll,
        KeyCode::Tab => KeyAction::NextView,
        KeyCode::BackTab => KeyAction::PreviousView,
        KeyCode::Char('c') => KeyAction::Callers,
        KeyCode::Char('a') => KeyAction::Annotate,
        KeyCode::Char('f') => KeyAction::Focus,
        KeyCode::Char('h') => KeyAction::Hide,
        KeyCode::Char('t') => KeyAction::Threads,
        KeyCode::Char('p') => KeyAction::Processes,
        KeyCode::Char('i') => KeyAction::Invert,
        KeyCode::Char('w') => KeyAction::Waits,
        KeyCode::Char('s' | 'o') => KeyAction::Order,
        KeyCode::Char('/') => KeyAction::Search,
        KeyCode::Char('n') => KeyAction::FindNext,
        KeyCode::Char('N') => KeyAction::FindPrevious,
        KeyCode::Char('u') | KeyCode::Esc | KeyCode::Backspace => KeyAction::Undo,
        KeyCode::Char('r') => KeyAction::Range,
        KeyCode::Char('y') => KeyAction::Copy,
        KeyCode::Char('R') => KeyAction::Reread,
        KeyCode::Char('Q') => KeyAction::Quality,
        KeyCode::Char('?') => KeyAction::Help,
        KeyCode::Char('q') => KeyAction::Quit,
        _ => return None,
    })
}
