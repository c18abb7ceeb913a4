//! Draws the state into cells: head, views, rows, foot.

use ratatui_core::buffer::Buffer;
use ratatui_core::style::Style;
use ratatui_core::text::Span;

use super::canvas::{Canvas, ClickTarget};
use super::colors::ColorDepth;
use super::page::{NO_NAME, Page, PageLine, RowSign};
use super::screen::{BrowseScreen, ScreenMode};
use super::shown::{Picture, ShownTab};
use super::text_page::{TextPage, screen_lines};
use super::{draw_flame, draw_timeline};
use crate::args::View;
use crate::report::text::{Column, fit};
use crate::report::{ReportRow, Table};
use crate::terminal::columns::{clean, cut, wrapped};

/// Most lines of the command at the foot.
const COMMAND_LINES: usize = 3;
/// Columns of the sign of a row: `+` closed, `-` open.
const SIGN: usize = 2;

/// Draws the screen, and gives it its height. The background and the text have the terminal's own colours, but for
/// frames of a flame graph. Without colours only bold, dim and reversed cells are used.
pub(crate) fn draw(screen: &mut BrowseScreen, colors: ColorDepth, buffer: &mut Buffer) {
    let mut canvas = Canvas {
        buffer,
        colors,
        areas: Vec::new(),
    };
    let (width, lines) = (canvas.width(), canvas.lines());
    screen.width = width;
    let command = screen.command();
    let mut foot = wrapped("", &command, "", width.max(1));
    if foot.len() > COMMAND_LINES {
        foot.truncate(COMMAND_LINES);
        foot.push("...: q ends, and prints the command".to_owned());
    }
    // The head has four lines, and one stands above the foot.
    let above_rows = match screen.shown.picture {
        Picture::Timeline => draw_timeline::LINES_ABOVE,
        Picture::Rows | Picture::Flame => 0,
    };
    screen.height = lines.saturating_sub(5 + foot.len() + above_rows).max(1);
    screen.page.scroll(screen.height);
    screen.fit_strips();

    let about = &screen.page.report.about;
    canvas.line(0, &about.recorded, canvas.bold());
    // Of its limits alone: the line may have no space for all of the quality.
    let of_samples = [
        about.quality.limits.as_ref().map(|limits| ("quality", limits)),
        about.notes.first().map(|note| ("note", note)),
        about.short.as_ref().map(|short| ("short", short)),
    ];
    let (second, style) = match (&about.selected, of_samples.into_iter().flatten().next()) {
        (Some(selected), _) => (format!("selected: {selected}"), canvas.bold()),
        (_, Some((what, text))) => (format!("{}; {what} (Q): {text}", about.samples), canvas.warning()),
        (None, None) => (about.samples.clone(), Style::new()),
    };
    canvas.line(1, &second, style);
    match &screen.mode {
        ScreenMode::Text(page) | ScreenMode::Search(_, Some(page)) => text_page(&mut canvas, page, screen.height),
        ScreenMode::Rows | ScreenMode::Search(_, None) => {
            tabs(&mut canvas, screen);
            let (page, height) = (&screen.page, screen.height);
            match &page.strips {
                _ if page.row().is_none() => rows(&mut canvas, page, height),
                Some(strips) => draw_timeline::draw(&mut canvas, page, strips, height),
                None if page.flame.is_some() => draw_flame::draw(&mut canvas, page, &screen.colors, height),
                None => rows(&mut canvas, page, height),
            }
        }
    }
    let above_foot = lines.saturating_sub(foot.len() + 1);
    match &screen.mode {
        ScreenMode::Search(text, _) => canvas.line(above_foot, &format!("/{text}_"), canvas.bold()),
        _ if !screen.message.is_empty() => canvas.line(above_foot, &screen.message, canvas.warning()),
        ScreenMode::Text(page) => {
            let more = if page.has_more(width, screen.height) {
                "Space: more  "
            } else {
                ""
            };
            canvas.line(above_foot, &format!("{more}Escape: back  /: search"), canvas.dim());
        }
        ScreenMode::Rows => canvas.line(above_foot, &hint(screen), canvas.dim()),
    }
    for (at, line) in foot.iter().enumerate() {
        canvas.line(above_foot + 1 + at, line, canvas.dim());
    }
    screen.areas = canvas.areas;
}

/// What to type next.
fn hint(screen: &BrowseScreen) -> String {
    if let Some(live) = &screen.live {
        return live.hint();
    }
    let hint = match (screen.shown.picture, &screen.shown.view) {
        // All other views of the file are of CPU time.
        (_, View::Heap) => "?: keys  Tab: next view  q: end  sprof browse --measure peak: callers in bytes",
        (Picture::Timeline, _) => "?: keys  arrows: move  r: range  Enter: select  u: back  q: end",
        (Picture::Flame, _) => "?: keys  arrows: move  Enter: zoom  /: search  u: back  q: end",
        (Picture::Rows, _) => "?: keys  Tab: next view  Enter: open  /: search  u: back  q: end",
    };
    let others = match (&screen.page.report.about.apart, screen.shown.select.waits) {
        (None, _) => "",
        (Some(_), false) => "  w: waits",
        (Some(_), true) => "  w: CPU time",
    };
    format!("{hint}{others}")
}

fn text_page(canvas: &mut Canvas<'_>, page: &TextPage, height: usize) {
    canvas.line(2, &page.title, canvas.bold());
    let width = canvas.width();
    let lines = page.lines.iter().skip(page.top);
    let lines = lines.flat_map(|line| screen_lines(line, width).into_iter().map(move |text| (text, line.2)));
    for (at, (line, is_warning)) in lines.take(height).enumerate() {
        canvas.line(4 + at, &line, if is_warning { canvas.warning() } else { Style::new() });
    }
}

/// The names of tabs, so that the chosen one is to be seen.
fn tabs(canvas: &mut Canvas<'_>, screen: &BrowseScreen) {
    let tabs = screen.tabs().into_iter();
    let mut names: Vec<(String, bool, Option<&'static ShownTab>)> = tabs
        .map(|tab| (tab.name(), tab.is_of(&screen.shown), Some(tab)))
        .collect();
    if let View::Callers(function) = &screen.shown.view {
        let name = format!("callers of {}", cut(&clean(function), canvas.width() / 2));
        names.insert(0, (name, true, None));
    }
    let chosen = names.iter().position(|(_, is_chosen, _)| *is_chosen).unwrap_or(0);
    let width_from = |first: usize| -> usize { names[first..=chosen].iter().map(|(name, ..)| name.len() + 1).sum() };
    // What is left out on either side has an ellipsis.
    let width = canvas.width().saturating_sub(2);
    let first = (0..chosen)
        .find(|first| width_from(*first) + 2 <= width)
        .unwrap_or(chosen);
    let mut at = if first == 0 {
        0
    } else {
        canvas.put(0, 2, "\u{2026}", canvas.dim()) + 1
    };
    for (number, (name, is_chosen, tab)) in names.iter().enumerate().skip(first) {
        if number > first && at + name.len() > width {
            canvas.put(at, 2, "\u{2026}", canvas.dim());
            break;
        }
        let style = if *is_chosen { canvas.chosen() } else { canvas.dim() };
        let after = canvas.put(at, 2, name, style);
        if let Some(tab) = *tab {
            canvas.clickable(at..after, 2, ClickTarget::Tab(tab));
        }
        at = after + 1;
    }
}

fn rows(canvas: &mut Canvas<'_>, page: &Page, height: usize) {
    let width = canvas.width();
    let table_of = |line: &PageLine| match line {
        PageLine::Head(table) | PageLine::Row(table, _) | PageLine::Detail(table, ..) => *table,
    };
    let several = page.report.tables.len() > 1;
    let first = page.lines.get(page.top).map_or(0, table_of);
    if page.lines.is_empty() || page.report.tables.iter().all(|table| table.rows.is_empty()) {
        let why = match page.report.measure.whole.is_zero() {
            true => "nothing to show: Q says why",
            false => "nothing of what is selected is in this view",
        };
        canvas.line(4, why, Style::new());
        return;
    }
    head(canvas, 3, page, first);
    // The head of the first table is above it.
    let skipped = usize::from(matches!(page.lines.get(page.top), Some(PageLine::Head(_))));
    let lines = page.lines.iter().enumerate().skip(page.top + skipped).take(height);
    for (y, (at, line)) in (4..).zip(lines) {
        let table = table_of(line);
        canvas.clickable(0..width, y, ClickTarget::Line(at));
        let columns = Column::fitting(&page.columns[table], width.saturating_sub(SIGN));
        let numbers = SIGN + Column::numbers(&columns);
        match line {
            PageLine::Head(table) if several => head(canvas, y, page, *table),
            PageLine::Head(_) => {}
            PageLine::Detail(table, row, detail) => {
                let details = &page.report.tables[*table].rows[*row].details;
                let longest = details.iter().map(|text| text.chars().count()).max().unwrap_or(0);
                // Long ones begin further left, so that they are whole.
                let x = (numbers + 2).min(width.saturating_sub(longest)).max(2 * SIGN);
                canvas.put_to_end(x, y, &details[*detail], canvas.dim());
            }
            PageLine::Row(table, row) => {
                let is_chosen = at == page.cursor;
                let sign = match page.sign(*table, *row) {
                    _ if !page.is_tree(*table) => "",
                    RowSign::Closed => "+",
                    RowSign::Open => "-",
                    RowSign::Leaf => "",
                };
                let plain = if is_chosen { canvas.chosen() } else { Style::new() };
                if is_chosen {
                    canvas.line(y, "", plain);
                }
                canvas.put(0, y, sign, plain);
                let mut x = SIGN;
                for (index, column) in columns.iter().enumerate() {
                    let style = if index == 0 { plain.patch(canvas.bold()) } else { plain };
                    let cell = format!("{:>1$}", column.cells[*row], column.width);
                    canvas.put(x, y, &cell, style);
                    x += column.width + 2;
                }
                let (name, place) = fitting(&page.report.tables[*table].rows[*row], width.saturating_sub(numbers));
                let after = canvas.put(x, y, &name, plain);
                canvas.put(after + 2, y, &place, if is_chosen { plain } else { canvas.dim() });
            }
        }
    }
}

/// Heads of the columns of a table, and its title.
fn head(canvas: &mut Canvas<'_>, y: usize, page: &Page, table: usize) {
    let columns = Column::fitting(&page.columns[table], canvas.width().saturating_sub(SIGN));
    let mut x = SIGN;
    for column in &columns {
        let cell = format!("{:>1$}", column.head, column.width);
        canvas.put(x, y, &cell, canvas.dim());
        x += column.width + 2;
    }
    let Table { title, rows, .. } = &page.report.tables[table];
    let nothing = if rows.is_empty() { ": none" } else { "" };
    // Says that other columns are left out, unless that takes the end of the title.
    let has_space = x + 2 + title.chars().count() <= canvas.width();
    let left_out = if columns.len() < page.columns[table].len() && has_space {
        "\u{2026} "
    } else {
        ""
    };
    canvas.put_to_end(x, y, &format!("{left_out}{title}{nothing}"), canvas.bold());
}

/// Fits name and place by the columns that their letters take: some take two.
fn fitting(row: &ReportRow, columns: usize) -> (String, String) {
    let wide = |text: &str| Span::raw(text).width();
    let mut asked = columns.max(8);
    loop {
        let (mut name, place) = fit(row, Some(asked));
        if row.name.is_empty() {
            NO_NAME.clone_into(&mut name);
        }
        let taken = wide(&name) + if place.is_empty() { 0 } else { 2 + wide(&place) };
        if taken <= columns || asked <= 8 {
            return (name, place);
        }
        asked = (asked - 1).min(asked.saturating_sub(taken - columns)).max(8);
    }
}
