//! A page of text to scroll through: help, the quality of a recording, source and machine code.

use super::keys::KeyAction;
use super::page::has_text;
use crate::terminal::columns::wrapped;

/// What is before the text of a line, the text, and true where a limit of the profile is stated.
pub(crate) type TextLine = (String, String, bool);

pub(crate) struct TextPage {
    pub(crate) title: String,
    pub(crate) lines: Vec<TextLine>,
    /// The first line on the screen.
    pub(crate) top: usize,
    /// The command that prints the text.
    pub(crate) command: Option<String>,
}

impl TextPage {
    /// Scrolls on a screen of this size; false if the action ends the page.
    pub(crate) fn scroll(&mut self, action: KeyAction, width: usize, height: usize) -> bool {
        let last = self.lines.len() - fitting(self.lines.iter().rev(), width, height);
        self.top = match action {
            KeyAction::Up => self.top.saturating_sub(1),
            KeyAction::Down => self.top + 1,
            KeyAction::PageUp => self.top - fitting(self.lines[..self.top].iter().rev(), width, height),
            KeyAction::PageDown => self.top + fitting(self.lines[self.top..].iter(), width, height),
            KeyAction::First => 0,
            KeyAction::Last => last,
            _ => return false,
        }
        .min(last);
        true
    }

    /// True if lines follow those on a screen of this size.
    pub(crate) fn has_more(&self, width: usize, height: usize) -> bool {
        let shown = self.lines.get(self.top..).unwrap_or_default();
        fitting(shown.iter(), width, height) < shown.len()
    }

    /// Goes to the next or previous line with this text, round the end; false if no line has it.
    pub(crate) fn find(&mut self, text: &str, forwards: bool) -> bool {
        let count = self.lines.len();
        let step = |by: usize| (self.top + if forwards { by } else { count - by }) % count;
        let found = (1..=count).map(step).find(|line| {
            let (label, rest, _) = &self.lines[*line];
            has_text(label, text) || has_text(rest, text)
        });
        self.top = found.unwrap_or(self.top);
        found.is_some()
    }
}

/// How many of the lines a screen of this size has whole, at least one of them. Long lines take several of the screen.
fn fitting<'a>(lines: impl Iterator<Item = &'a TextLine>, width: usize, height: usize) -> usize {
    let mut used = 0;
    let mut count = 0;
    for line in lines {
        used += screen_lines(line, width).len();
        if count > 0 && used > height {
            break;
        }
        count += 1;
    }
    count
}

/// Wraps a line, and leaves a line that fits as it is.
pub(super) fn screen_lines((label, text, _): &TextLine, width: usize) -> Vec<String> {
    let columns = label.chars().count();
    match columns + text.chars().count() <= width {
        true => vec![format!("{label}{text}")],
        false => wrapped(label, text, &" ".repeat(columns.min(width / 3).max(2)), width.max(20)),
    }
}
