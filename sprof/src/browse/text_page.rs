//! A page of text to scroll through: help, the quality of a recording, source and machine code.

use super::keys::KeyAction;
use super::page::has_text;

pub(crate) struct TextPage {
    pub(crate) title: String,
    /// What is before the text of a line, the text, and true where a limit of the profile is stated.
    pub(crate) lines: Vec<(String, String, bool)>,
    /// The first line on the screen.
    pub(crate) top: usize,
    /// The command that prints the text.
    pub(crate) command: Option<String>,
}

impl TextPage {
    /// Scrolls; false if the action ends the page.
    pub(crate) fn scroll(&mut self, action: KeyAction, height: usize) -> bool {
        // Long lines take several of the screen.
        let last = self.lines.len().saturating_sub(1);
        self.top = match action {
            KeyAction::Up => self.top.saturating_sub(1),
            KeyAction::Down => self.top + 1,
            KeyAction::PageUp => self.top.saturating_sub(height),
            KeyAction::PageDown => self.top + height,
            KeyAction::First => 0,
            KeyAction::Last => self.lines.len().saturating_sub(height),
            _ => return false,
        }
        .min(last);
        true
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
