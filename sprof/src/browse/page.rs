//! The rows of one view: which are open, which one the cursor is on, which are on the screen.

use crate::report::text::{Column, columns};
use crate::report::{Report, ReportRow, Table};

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
    /// The first of [`Page::lines`] on the screen.
    pub(crate) top: usize,
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
        let closed = |table: &Table| (0..table.rows.len()).map(|row| branches(table, row)).collect();
        let mut page = Page {
            columns: report
                .tables
                .iter()
                .map(|table| columns(table, &report.measure))
                .collect(),
            is_closed: report.tables.iter().map(closed).collect(),
            report,
            lines: Vec::new(),
            cursor: 0,
            top: 0,
        };
        page.list();
        page.choose(0, true);
        page
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

    /// Scrolls so that the cursor is among `height` lines.
    pub(crate) fn scroll(&mut self, height: usize) {
        let height = height.max(1);
        // The head of the first table is above the first row.
        let is_first = self.lines[..self.cursor.min(self.lines.len())]
            .iter()
            .all(|line| matches!(line, PageLine::Head(_)));
        if is_first {
            self.top = 0;
        }
        self.top = self.top.min(self.cursor).max((self.cursor + 1).saturating_sub(height));
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
        let line = parent.and_then(|row| self.lines.iter().position(|line| *line == PageLine::Row(table, row)));
        self.cursor = line.unwrap_or(self.cursor);
    }

    /// Opens or closes all rows. The cursor goes to the same row, or to the one that it is below.
    pub(crate) fn set_all(&mut self, is_closed: bool) {
        let here = self.place();
        for (closed, table) in self.is_closed.iter_mut().zip(&self.report.tables) {
            for (row, closed) in closed.iter_mut().enumerate() {
                *closed = is_closed && branches(table, row);
            }
        }
        self.list();
        let mut row = here;
        while let Some((table, at)) = row {
            if let Some(line) = self.lines.iter().position(|line| *line == PageLine::Row(table, at)) {
                self.cursor = line;
                return;
            }
            row = parent(&self.report.tables[table], at).map(|row| (table, row));
        }
        self.choose(0, true);
    }

    /// Goes to the next or previous row with this text, round the end, and opens the rows that it is below. Without
    /// capital letters in the text, case does not matter. False if no row has it.
    pub(crate) fn find(&mut self, text: &str, forwards: bool) -> bool {
        let tables = self.report.tables.iter().enumerate();
        let all: Vec<(usize, usize)> = tables
            .flat_map(|(at, table)| (0..table.rows.len()).map(move |row| (at, row)))
            .collect();
        let here = self
            .place()
            .and_then(|place| all.iter().position(|other| *other == place));
        let here = here.unwrap_or(0);
        let is_exact = text.chars().any(char::is_uppercase);
        let has_text = |(table, row): &&(usize, usize)| {
            let row = &self.report.tables[*table].rows[*row];
            let names = [&row.name, &row.place];
            names.iter().any(|name| match is_exact {
                true => name.contains(text),
                false => name.to_lowercase().contains(text),
            })
        };
        let (before, after) = all.split_at(here);
        let after = after.get(1..).unwrap_or_default();
        let here = all.get(here..=here).unwrap_or_default();
        let found = match forwards {
            true => after.iter().chain(before).chain(here).find(has_text),
            false => before.iter().rev().chain(after.iter().rev()).chain(here).find(has_text),
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
        let line = self.lines.iter().position(|line| *line == PageLine::Row(table, row));
        self.cursor = line.unwrap_or(0);
        true
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

/// The row that a row is below.
fn parent(table: &Table, row: usize) -> Option<usize> {
    let depth = table.rows[row].depth;
    (0..row).rev().find(|above| table.rows[*above].depth < depth)
}
