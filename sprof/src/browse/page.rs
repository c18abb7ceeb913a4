//! The rows of one view: which are open, which one the cursor is on, which are on the screen.

use std::collections::HashMap;

use super::flame::FlameGraph;
use super::keys::KeyAction;
use super::strips::TimeStrips;
use crate::report::text::{Column, columns};
use crate::report::{Report, ReportRow, Table};

/// Some files have no names of threads or processes.
pub(super) const NO_NAME: &str = "(no name)";

/// A report, with the state of its rows.
pub(crate) struct Page {
    pub(crate) report: Report,
    /// For each table its columns of numbers.
    pub(crate) columns: Vec<Vec<Column>>,
    /// For each row of each table, true if the rows below it are hidden.
    is_closed: Vec<Vec<bool>>,
    /// What is shown, in order.
    pub(crate) lines: Vec<PageLine>,
    /// The chosen one of [`Page::lines`]: a row, if there is any.
    pub(crate) cursor: usize,
    /// The first of [`Page::lines`] on the screen; of a flame graph, the first level.
    pub(crate) top: usize,
    /// The flame graph of the first table, if that is its picture.
    pub(crate) flame: Option<FlameGraph>,
    /// The strips of a timeline, once it was drawn.
    pub(crate) strips: Option<TimeStrips>,
}

/// A line of a page, by the numbers of its table and row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageLine {
    /// Title and column heads of one of several tables.
    Head(usize),
    Row(usize, usize),
    /// One of the details of a row.
    Detail(usize, usize, usize),
}

/// The sign of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowSign {
    Closed,
    Open,
    Leaf,
}

impl Page {
    pub(crate) fn new(report: Report) -> Page {
        let closed = |table: &Table| (0..table.rows.len()).map(|row| can_close(table, row)).collect();
        let mut page = Page {
            columns: report
                .tables
                .iter()
                .map(|table| columns(table, &report.measure))
                .collect(),
            flame: None,
            is_closed: report.tables.iter().map(closed).collect(),
            report,
            lines: Vec::new(),
            cursor: 0,
            top: 0,
            strips: None,
        };
        page.list();
        page.choose(0, true);
        page
    }

    /// The same page with the picture of a flame graph.
    pub(crate) fn into_flame(mut self) -> Page {
        self.set_all(false);
        if let Some(table) = self.report.tables.first() {
            self.flame = Some(FlameGraph::new(table, self.report.measure.whole));
            // The calls before the first branch say little.
            let branch = (0..table.rows.len()).find(|row| branches(table, *row));
            self.cursor = branch.unwrap_or(0);
        }
        self
    }

    /// Takes over which rows are open and which one is chosen from a page of other samples. A row is the same where its
    /// name and those of the rows above it are; the first row stays the first one.
    pub(crate) fn keep_state(&mut self, earlier: &Page) {
        let mut ids = HashMap::new();
        let before = row_ids(&earlier.report, &mut ids);
        let now = row_ids(&self.report, &mut ids);
        let rows_before = before.iter().flatten().zip(earlier.is_closed.iter().flatten());
        let closed: HashMap<usize, bool> = rows_before.map(|(id, is_closed)| (*id, *is_closed)).collect();
        for (id, is_closed) in now.iter().flatten().zip(self.is_closed.iter_mut().flatten()) {
            *is_closed = closed.get(id).copied().unwrap_or(*is_closed);
        }
        let same = |(table, row): (usize, usize)| {
            let id = before[table][row];
            let found = |ids: &Vec<usize>| ids.iter().position(|other| *other == id);
            now.iter()
                .enumerate()
                .find_map(|(table, ids)| Some((table, found(ids)?)))
        };
        let chosen = earlier.place().and_then(same);
        let zoom = earlier.flame.as_ref().and_then(|flame| same((0, flame.zoom?)));
        if let Some(flame) = &mut self.flame {
            flame.zoom = zoom.map(|(_, row)| row);
        }
        self.list();
        let is_list = self.flame.is_none() && earlier.strips.is_none();
        if is_list && earlier.is_at_first_row() {
            // Whoever is there wants to see what is largest now.
            return self.choose(0, true);
        }
        let line = chosen.and_then(|(table, row)| self.line_of(table, row));
        self.choose(line.unwrap_or(earlier.cursor), true);
        self.top = match self.flame {
            Some(_) => earlier.top,
            None => self.cursor.saturating_sub(earlier.cursor.saturating_sub(earlier.top)),
        };
    }

    fn line_of(&self, table: usize, row: usize) -> Option<usize> {
        self.lines.iter().position(|line| *line == PageLine::Row(table, row))
    }

    /// Lists the lines that are shown.
    fn list(&mut self) {
        self.lines.clear();
        for (at, table) in self.report.tables.iter().enumerate() {
            if self.report.tables.len() > 1 {
                self.lines.push(PageLine::Head(at));
            }
            let mut hidden_below = usize::MAX;
            for (row, content) in table.rows.iter().enumerate() {
                if content.depth > hidden_below {
                    continue;
                }
                hidden_below = if self.is_closed[at][row] {
                    content.depth
                } else {
                    usize::MAX
                };
                self.lines.push(PageLine::Row(at, row));
                let details = 0..content.details.len();
                self.lines.extend(details.map(|line| PageLine::Detail(at, row, line)));
            }
        }
    }

    /// Table and row at the cursor.
    fn place(&self) -> Option<(usize, usize)> {
        match self.lines.get(self.cursor) {
            Some(PageLine::Row(table, row)) => Some((*table, *row)),
            _ => None,
        }
    }

    /// The row at the cursor.
    pub(crate) fn row(&self) -> Option<&ReportRow> {
        let (table, row) = self.place()?;
        Some(&self.report.tables[table].rows[row])
    }

    /// The number of the row at the cursor in its table.
    pub(crate) fn row_number(&self) -> Option<usize> {
        self.place().map(|(_, row)| row)
    }

    pub(crate) fn sign(&self, table: usize, row: usize) -> RowSign {
        match has_rows_below(&self.report.tables[table], row) {
            true if self.is_closed[table][row] => RowSign::Closed,
            true => RowSign::Open,
            false => RowSign::Leaf,
        }
    }

    /// The sign of the row at the cursor.
    pub(crate) fn sign_here(&self) -> RowSign {
        self.place().map_or(RowSign::Leaf, |(table, row)| self.sign(table, row))
    }

    /// True if any row has rows below it.
    pub(crate) fn is_tree(&self, table: usize) -> bool {
        self.report.tables[table].rows.iter().any(|row| row.depth > 0)
    }

    /// Chooses the line, or the nearest row after it or before it.
    pub(crate) fn choose(&mut self, line: usize, forwards: bool) {
        let line = line.min(self.lines.len().saturating_sub(1));
        let is_row = |at: &usize| matches!(self.lines.get(*at), Some(PageLine::Row(..)));
        let after = (line..self.lines.len()).find(is_row);
        let before = (0..=line).rev().find(is_row);
        let found = if forwards { after.or(before) } else { before.or(after) };
        self.cursor = found.unwrap_or(0);
    }

    /// True if only the head of the first table is above the cursor.
    fn is_at_first_row(&self) -> bool {
        let above = &self.lines[..self.cursor.min(self.lines.len())];
        above.iter().all(|line| matches!(line, PageLine::Head(_)))
    }

    /// Scrolls so that the cursor is among `height` lines, with what stands below its row.
    pub(crate) fn scroll(&mut self, height: usize) {
        let height = height.max(1);
        if self.flame.is_some() {
            let level = self.row().map_or(0, |row| row.depth);
            let rows = self.report.tables.first().map_or(&[][..], |table| &table.rows);
            let levels = rows.iter().map(|row| row.depth + 1).max().unwrap_or(0);
            // The caller is to be seen, and no line is empty while levels above are hidden.
            self.top = self
                .top
                .min(level.saturating_sub(1))
                .min(levels.saturating_sub(height))
                .max((level + 1).saturating_sub(height));
            return;
        }
        if self.is_at_first_row() {
            self.top = 0;
        }
        let after = self.lines.iter().skip(self.cursor + 1);
        let below = after.take_while(|line| !matches!(line, PageLine::Row(..))).count();
        let end = self.cursor + 1 + below.min(height - 1);
        let last = self.lines.len().saturating_sub(height);
        self.top = self.top.min(self.cursor).min(last).max(end.saturating_sub(height));
    }

    /// Goes to the next or previous `height` lines; from the last ones, to the last row.
    pub(crate) fn turn(&mut self, height: usize, forwards: bool) {
        let last = self.lines.len().saturating_sub(height);
        let top = match forwards {
            true => (self.top + height).min(last),
            false => self.top.saturating_sub(height),
        };
        match top == self.top {
            true => self.choose(if forwards { usize::MAX } else { 0 }, !forwards),
            false => self.choose(top, true),
        }
        self.top = top;
    }

    /// Moves the cursor in a flame graph of this width in columns; false for keys of other pictures.
    pub(crate) fn move_frame(&mut self, asked: KeyAction, width: usize) -> bool {
        let (Some(flame), Some(table)) = (&self.flame, self.report.tables.first()) else {
            return false;
        };
        let here = self.cursor;
        let level = |row: usize| table.rows[row].depth;
        let is_beside = |row: &usize| level(*row) == level(here) && flame.is_drawn(*row, width);
        let next = match asked {
            _ if table.rows.is_empty() => None,
            KeyAction::Up => parent(table, here),
            // The first one is the largest.
            KeyAction::Down => Some(here + 1).filter(|row| has_rows_below(table, here) && flame.is_drawn(*row, width)),
            KeyAction::Close => (0..here).rev().find(is_beside),
            KeyAction::Open => (here + 1..table.rows.len()).find(is_beside),
            KeyAction::PageUp | KeyAction::PageDown | KeyAction::OpenAll | KeyAction::CloseAll => None,
            _ => return false,
        };
        self.cursor = next.unwrap_or(here);
        true
    }

    /// Gives the frame at the cursor the whole width.
    pub(crate) fn zoom_here(&mut self) {
        if let Some(flame) = &mut self.flame {
            flame.zoom = Some(self.cursor);
        }
    }

    pub(crate) fn is_zoomed_here(&self) -> bool {
        self.flame.as_ref().is_some_and(|flame| flame.zoom == Some(self.cursor))
    }

    /// Opens or closes the row at the cursor.
    pub(crate) fn toggle(&mut self) {
        if let Some((table, row)) = self.place() {
            self.is_closed[table][row] = self.sign(table, row) == RowSign::Open;
            self.list();
        }
    }

    /// Goes to the row that the row at the cursor is below.
    pub(crate) fn go_up(&mut self) {
        let Some((table, row)) = self.place() else { return };
        let parent = parent(&self.report.tables[table], row);
        let line = parent.and_then(|row| self.line_of(table, row));
        self.cursor = line.unwrap_or(self.cursor);
    }

    /// Opens or closes all rows. The cursor goes to the same row, or to the one that it is below.
    pub(crate) fn set_all(&mut self, is_closed: bool) {
        let here = self.place();
        for (closed, table) in self.is_closed.iter_mut().zip(&self.report.tables) {
            for (row, closed) in closed.iter_mut().enumerate() {
                *closed = is_closed && can_close(table, row);
            }
        }
        self.list();
        let mut row = here;
        while let Some((table, at)) = row {
            if let Some(line) = self.line_of(table, at) {
                self.cursor = line;
                return;
            }
            row = parent(&self.report.tables[table], at).map(|row| (table, row));
        }
        self.choose(0, true);
    }

    /// Goes to the next or previous row with this text, round the end, and opens the rows that it is below. False if
    /// no row has it.
    pub(crate) fn find(&mut self, text: &str, forwards: bool) -> bool {
        let tables = self.report.tables.iter().enumerate();
        let all: Vec<(usize, usize)> = tables
            .flat_map(|(at, table)| (0..table.rows.len()).map(move |row| (at, row)))
            .collect();
        let here = self
            .place()
            .and_then(|place| all.iter().position(|other| *other == place));
        let here = here.unwrap_or(0);
        let is_it = |(table, row): &&(usize, usize)| {
            let row = &self.report.tables[*table].rows[*row];
            has_text(&row.name, text) || has_text(&row.place, text)
        };
        let (before, after) = all.split_at(here);
        let after = after.get(1..).unwrap_or_default();
        let here = all.get(here..=here).unwrap_or_default();
        let found = match forwards {
            true => after.iter().chain(before).chain(here).find(is_it),
            false => before.iter().rev().chain(after.iter().rev()).chain(here).find(is_it),
        };
        let Some((table, row)) = found.copied() else {
            return false;
        };
        let mut above = row;
        while let Some(row) = parent(&self.report.tables[table], above) {
            self.is_closed[table][row] = false;
            above = row;
        }
        self.list();
        self.cursor = self.line_of(table, row).unwrap_or(0);
        true
    }
}

/// The rows seen so far: by the number of the row above, or of none, with name and place.
type RowIds<'a> = HashMap<(usize, &'a str, &'a str), usize>;

/// A number for each row of each table. Rows with the same names above them have the same number.
fn row_ids<'a>(report: &'a Report, ids: &mut RowIds<'a>) -> Vec<Vec<usize>> {
    let tables = report.tables.iter().map(|table| {
        let mut above: Vec<usize> = Vec::new();
        let mut id = |names| {
            let next = ids.len();
            *ids.entry(names).or_insert(next)
        };
        let of_table = id((usize::MAX, table.id, ""));
        let rows = table.rows.iter().map(|row| {
            above.truncate(row.depth);
            let parent = above.last().copied().unwrap_or(of_table);
            above.push(id((parent, &row.name, &row.place)));
            above.last().copied().unwrap_or(of_table)
        });
        rows.collect()
    });
    tables.collect()
}

/// True if a name or a line has the text. Without capital letters in the text, case does not matter.
pub(super) fn has_text(name: &str, text: &str) -> bool {
    match text.chars().any(char::is_uppercase) {
        true => name.contains(text),
        false => name.to_lowercase().contains(text),
    }
}

fn has_rows_below(table: &Table, row: usize) -> bool {
    let next = table.rows.get(row + 1);
    next.is_some_and(|next| next.depth > table.rows[row].depth)
}

/// True where a tree branches. A chain of calls with the same samples is opened as one.
fn branches(table: &Table, row: usize) -> bool {
    has_rows_below(table, row) && table.rows[row + 1].indent > table.rows[row].indent
}

/// True for rows that begin closed: where a tree branches, and functions above their callers. Open callers have the
/// indent of the function: they would look like functions.
fn can_close(table: &Table, row: usize) -> bool {
    let is_function = table.id == "bottom_up" && table.rows[row].depth == 0;
    branches(table, row) || is_function && has_rows_below(table, row)
}

/// The row that a row is below.
fn parent(table: &Table, row: usize) -> Option<usize> {
    let depth = table.rows[row].depth;
    (0..row).rev().find(|above| table.rows[*above].depth < depth)
}
