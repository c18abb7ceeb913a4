//! The cells of the terminal: writes into them, and knows what clicks on them go to.

use std::ops::Range;

use ratatui_core::buffer::Buffer;
use ratatui_core::style::{Color, Modifier, Style};

use super::colors::ColorDepth;
use super::shown::ShownTab;
use crate::terminal::columns::{clean, cut};

/// Cells of a line that a click goes to.
#[derive(Clone, Debug)]
pub(crate) struct ClickArea {
    pub(crate) columns: Range<usize>,
    pub(crate) y: usize,
    pub(crate) target: ClickTarget,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum ClickTarget {
    Tab(&'static ShownTab),
    /// A line of the page, by its number.
    Line(usize),
    /// The cells of a strip of time.
    Time,
}

/// The cells of the terminal.
pub(super) struct Canvas<'a> {
    pub(super) buffer: &'a mut Buffer,
    pub(super) colors: ColorDepth,
    pub(super) areas: Vec<ClickArea>,
}

impl Canvas<'_> {
    pub(super) fn width(&self) -> usize {
        usize::from(self.buffer.area.width)
    }

    pub(super) fn lines(&self) -> usize {
        usize::from(self.buffer.area.height)
    }

    /// Writes a text and the rest of the line in a style.
    pub(super) fn line(&mut self, y: usize, text: &str, style: Style) {
        let width = self.width();
        self.put(0, y, &format!("{:width$}", cut(&clean(text), width)), style);
    }

    /// Writes a text as far as there are cells; returns the column after it.
    pub(super) fn put(&mut self, x: usize, y: usize, text: &str, style: Style) -> usize {
        self.put_in(x..self.width(), y, text, style)
    }

    /// Writes a text to the end of the line. An ellipsis says that it is cut.
    pub(super) fn put_to_end(&mut self, x: usize, y: usize, text: &str, style: Style) {
        let space = self.width().saturating_sub(x);
        self.put(x, y, &cut(&clean(text), space), style);
    }

    /// Writes a text as far as these cells go; returns the column after it.
    pub(super) fn put_in(&mut self, cells: Range<usize>, y: usize, text: &str, style: Style) -> usize {
        let (x, end) = (cells.start, cells.end.min(self.width()));
        if x >= end || y >= self.lines() {
            return x;
        }
        // Where there are cells, their numbers fit.
        let (after, _) = self.buffer.set_stringn(x as u16, y as u16, clean(text), end - x, style);
        usize::from(after)
    }

    /// Fills cells with a letter.
    pub(super) fn fill(&mut self, cells: Range<usize>, y: usize, letter: char, style: Style) {
        let letters: String = std::iter::repeat_n(letter, cells.len()).collect();
        self.put_in(cells, y, &letters, style);
    }

    /// Clicks on these cells go to the target.
    pub(super) fn clickable(&mut self, columns: Range<usize>, y: usize, target: ClickTarget) {
        self.areas.push(ClickArea { columns, y, target });
    }

    pub(super) fn bold(&self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    pub(super) fn dim(&self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    pub(super) fn chosen(&self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    pub(super) fn warning(&self) -> Style {
        match self.colors {
            ColorDepth::None => Style::new(),
            _ => Style::new().fg(Color::Yellow),
        }
    }
}
