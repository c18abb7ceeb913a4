//! The state of the screen, and what each key does to it.

use std::path::PathBuf;

use profile::text::one_line;
use ratatui_crossterm::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::canvas::ClickArea;
use super::colors::FunctionColors;
use super::keys::{HELP, KeyAction, action};
use super::page::{Page, RowSign};
use super::shown::{Picture, ShownTab, ShownView, TABS, line};
use super::text_page::TextPage;
use crate::args::{SelectArgs, Sort, View};
use crate::exit::Failure;
use crate::input::Input;

/// Reads the file with the samples that are selected; true asks for the fields of markers.
pub(crate) type ReadFile = Box<dyn Fn(&SelectArgs, bool) -> Result<Input, Failure>>;

/// Source and machine code of a function, and the index of the hottest line. The last argument is the width of the
/// lines, in columns.
pub(crate) type Annotate = Box<dyn Fn(&Input, &SelectArgs, &str, usize) -> Result<(Vec<String>, usize), Failure>>;

/// What the keys go to.
pub(crate) enum ScreenMode {
    Rows,
    /// The text that is typed so far, and the page that is searched where it is not the rows.
    Search(String, Option<TextPage>),
    Text(TextPage),
}

/// What follows a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterKey {
    Draw,
    /// The terminal copies the command.
    Copy,
    Suspend,
    Quit,
}

/// The keys that a recording has while it goes on.
pub(crate) trait LiveKeys {
    /// What a key does; the message says more. `None`: what it does in any profile.
    fn press(&mut self, key: KeyEvent, message: &mut String) -> Option<AfterKey>;

    /// The line above the foot.
    fn hint(&self) -> String;

    /// Lines of help: keys, and what they do.
    fn help(&self) -> &'static [(&'static str, &'static str)];
}

pub(crate) struct BrowseScreen {
    file: PathBuf,
    read: ReadFile,
    annotate: Annotate,
    pub(super) input: Input,
    has_markers: bool,
    pub(crate) colors: FunctionColors,
    pub(crate) shown: ShownView,
    pub(crate) page: Page,
    earlier: Vec<(ShownView, Page)>,
    pub(crate) live: Option<Box<dyn LiveKeys>>,
    pub(crate) mode: ScreenMode,
    sought: String,
    /// What the last key could not do.
    pub(crate) message: String,
    /// Lines for rows.
    pub(crate) height: usize,
    /// Columns of the terminal.
    pub(crate) width: usize,
    /// What clicks on the screen go to.
    pub(crate) areas: Vec<ClickArea>,
}

impl BrowseScreen {
    pub(crate) fn new(
        file: PathBuf,
        select: SelectArgs,
        read: ReadFile,
        annotate: Annotate,
    ) -> Result<BrowseScreen, Failure> {
        let input = read(&select, false)?;
        let shown = ShownView::new(select);
        Ok(BrowseScreen {
            page: shown.page(&file, &input)?,
            file,
            read,
            annotate,
            colors: FunctionColors::new(&input.data),
            input,
            has_markers: false,
            shown,
            earlier: Vec::new(),
            live: None,
            mode: ScreenMode::Rows,
            sought: String::new(),
            message: String::new(),
            height: 1,
            width: 80,
            areas: Vec::new(),
        })
    }

    /// The command that prints what is shown.
    pub(crate) fn command(&self) -> String {
        let of_page = match &self.mode {
            ScreenMode::Text(page) | ScreenMode::Search(_, Some(page)) => page.command.clone(),
            ScreenMode::Rows | ScreenMode::Search(_, None) => None,
        };
        of_page.unwrap_or_else(|| self.shown.command(&self.file))
    }

    /// The tabs that the file has data for.
    pub(crate) fn tabs(&self) -> Vec<&'static ShownTab> {
        TABS.iter()
            .filter(|tab| tab.has_data(&self.file, &self.input.data))
            .collect()
    }

    pub(crate) fn press(&mut self, key: KeyEvent) -> AfterKey {
        self.message.clear();
        let asked = action(key);
        if asked == Some(KeyAction::Copy) && !matches!(self.mode, ScreenMode::Search(..)) {
            "the terminal is asked to copy the command below".clone_into(&mut self.message);
            return AfterKey::Copy;
        }
        match &mut self.mode {
            ScreenMode::Search(..) => {
                self.type_search(key);
                return AfterKey::Draw;
            }
            ScreenMode::Text(page) => {
                match asked {
                    Some(KeyAction::Suspend) => return AfterKey::Suspend,
                    Some(
                        asked @ (KeyAction::Search
                        | KeyAction::FindNext
                        | KeyAction::FindPrevious
                        | KeyAction::Quality
                        | KeyAction::Help),
                    ) => self.act(asked),
                    Some(asked) if !page.scroll(asked, self.width, self.height) => self.mode = ScreenMode::Rows,
                    _ => {}
                }
                return AfterKey::Draw;
            }
            ScreenMode::Rows => {
                let after = self.live.as_mut().and_then(|live| live.press(key, &mut self.message));
                if let Some(after) = after {
                    return after;
                }
            }
        }
        match asked {
            Some(KeyAction::Quit) => return AfterKey::Quit,
            Some(KeyAction::Suspend) => return AfterKey::Suspend,
            Some(asked) => self.act(asked),
            None => {}
        }
        AfterKey::Draw
    }

    pub(super) fn act(&mut self, asked: KeyAction) {
        let cursor = self.page.cursor;
        match asked {
            asked if self.shown.picture == Picture::Flame && self.page.move_frame(asked, self.width) => {}
            asked if self.move_time(asked) => {}
            KeyAction::Up => self.page.choose(cursor.saturating_sub(1), false),
            KeyAction::Down => self.page.choose(cursor + 1, true),
            KeyAction::PageUp => self.page.turn(self.height, false),
            KeyAction::PageDown => self.page.turn(self.height, true),
            KeyAction::First => self.page.choose(0, true),
            KeyAction::Last => self.page.choose(usize::MAX, false),
            KeyAction::Enter => self.enter(),
            KeyAction::Open if self.page.sign_here() == RowSign::Closed => self.page.toggle(),
            KeyAction::Open => {}
            KeyAction::Close if self.page.sign_here() == RowSign::Open => self.page.toggle(),
            KeyAction::Close => self.page.go_up(),
            KeyAction::OpenAll => self.page.set_all(false),
            KeyAction::CloseAll => self.page.set_all(true),
            KeyAction::NextView => self.turn(true),
            KeyAction::PreviousView => self.turn(false),
            KeyAction::Callers => self.callers(),
            KeyAction::Annotate => self.annotate(),
            KeyAction::Focus => self.select_function(|select, function| select.part.focus = vec![function]),
            KeyAction::Hide => self.select_function(|select, function| select.part.hide.push(function)),
            KeyAction::Threads => drop(self.view(View::Threads, Picture::Rows)),
            KeyAction::Processes => drop(self.view(View::Processes, Picture::Rows)),
            KeyAction::Invert => drop(match self.shown.view {
                View::BottomUp => self.view(View::Tree, self.shown.picture),
                View::Tree => self.view(View::BottomUp, self.shown.picture),
                _ => self.view(View::BottomUp, Picture::Rows),
            }),
            KeyAction::Waits if self.shown.select.heap.weigh.is_some() => {
                "--weigh is of running threads: it weighs no waits".clone_into(&mut self.message);
            }
            KeyAction::Waits if !self.shown.select.waits && self.page.report.about.apart.is_none() => {
                "no waits in what is selected: sprof record --off-cpu records them".clone_into(&mut self.message);
            }
            KeyAction::Waits => {
                let mut next = self.shown.without_zoom();
                next.select.waits = !next.select.waits;
                self.show(next, true);
            }
            KeyAction::Order => {
                let mut next = self.shown.without_zoom();
                next.sort = match next.sort {
                    Sort::Own => Sort::Total,
                    Sort::Total => Sort::Name,
                    Sort::Name => Sort::Own,
                };
                self.show(next, false);
            }
            KeyAction::Search => {
                let page = match std::mem::replace(&mut self.mode, ScreenMode::Rows) {
                    ScreenMode::Text(page) => Some(page),
                    ScreenMode::Rows | ScreenMode::Search(..) => None,
                };
                self.mode = ScreenMode::Search(String::new(), page);
            }
            KeyAction::FindNext => self.find(true),
            KeyAction::FindPrevious => self.find(false),
            KeyAction::Undo => self.undo(),
            KeyAction::Range => "the timeline has a range to select".clone_into(&mut self.message),
            KeyAction::Reread => self.refresh(),
            KeyAction::Quality => self.mode = ScreenMode::Text(self.quality()),
            KeyAction::Help => {
                self.mode = ScreenMode::Text(help(self.live.as_ref().map_or(&[][..], |live| live.help())))
            }
            KeyAction::Copy | KeyAction::Suspend | KeyAction::Quit => {}
        }
    }

    /// Reads the file again, and shows the same view of it: open rows stay open, the cursor stays on its row.
    pub(crate) fn refresh(&mut self) {
        let read = (self.read)(&self.shown.select, self.has_markers);
        let made = read.and_then(|input| Ok((self.shown.page(&self.file, &input)?, input)));
        match made {
            Ok((mut page, input)) => {
                page.keep_state(&self.page);
                let earlier = std::mem::replace(&mut self.page, page);
                self.set_input(input);
                self.make_strips(earlier.strips.as_ref());
            }
            Err(failure) => self.fail(failure),
        }
    }

    /// Shows other samples or another view; `is_step`: undo takes it back. False if the file does not have it.
    pub(super) fn show(&mut self, next: ShownView, is_step: bool) -> bool {
        let made = self.reread(&next).and_then(|()| next.page(&self.file, &self.input));
        match made {
            Ok(page) => {
                let earlier = (
                    std::mem::replace(&mut self.shown, next),
                    std::mem::replace(&mut self.page, page),
                );
                if is_step {
                    self.earlier.push(earlier);
                }
                true
            }
            Err(failure) => {
                self.fail(failure);
                // The samples of the heap depend on what is selected.
                let before = self.shown.clone();
                self.reread(&before).unwrap_or_else(|failure| self.fail(failure));
                false
            }
        }
    }

    /// Reads the file again where what was read is not what the report on `next` reads: fields of markers are read for
    /// their view alone, and blocks of memory are measured by the selection.
    fn reread(&mut self, next: &ShownView) -> Result<(), Failure> {
        let needs_markers = next.view == View::Markers;
        if needs_markers != self.has_markers || next.select.heap.measure.is_some() {
            self.set_input((self.read)(&next.select, needs_markers)?);
            self.has_markers = needs_markers;
        }
        Ok(())
    }

    fn set_input(&mut self, input: Input) {
        self.colors = FunctionColors::new(&input.data);
        self.input = input;
    }

    fn fail(&mut self, failure: Failure) {
        let message = failure.message();
        // The command below has the file.
        let of_file = message.strip_prefix(&format!("{}: ", self.file.display()));
        self.message = one_line(of_file.unwrap_or(&message)).into_owned();
    }

    fn undo(&mut self) {
        let Some((shown, earlier)) = self.earlier.pop() else {
            "nothing to take back: q ends".clone_into(&mut self.message);
            return;
        };
        // The file may have been read again since.
        if self.show(shown, false) {
            self.page.keep_state(&earlier);
            self.make_strips(earlier.strips.as_ref());
        }
    }

    /// Shows another view of the same samples.
    pub(super) fn view(&mut self, view: View, picture: Picture) -> bool {
        let next = ShownView {
            view,
            picture,
            ..self.shown.without_zoom()
        };
        self.show(next, false)
    }

    /// Shows the next or previous tab that the file has data for.
    fn turn(&mut self, forwards: bool) {
        let tabs = self.tabs();
        let here = tabs.iter().position(|tab| tab.is_of(&self.shown));
        let step = if forwards { 1 } else { tabs.len() - 1 };
        let mut at = here.unwrap_or(if forwards { tabs.len() - 1 } else { 0 });
        for _ in 0..tabs.len() {
            at = (at + step) % tabs.len();
            if self.view(tabs[at].view.clone(), tabs[at].picture) {
                self.message.clear();
                return;
            }
        }
    }

    /// Gives the frame at the cursor the whole width, with frames that were too small before; or goes back.
    fn zoom(&mut self) {
        if self.page.is_zoomed_here() {
            return self.undo();
        }
        let Some(total) = self.page.row().and_then(|row| row.total) else {
            return;
        };
        let next = self.shown.zoomed(self.page.report.measure.percent(total));
        if self.show(next, true)
            && let Some((_, earlier)) = self.earlier.last()
        {
            self.page.keep_state(earlier);
            self.page.zoom_here();
        }
    }

    /// A field of the row at the cursor, as its JSON has it.
    fn field(&self, name: &str) -> Option<String> {
        let (_, value) = self.page.row()?.fields.iter().find(|(field, _)| *field == name)?;
        value.as_str().map(str::to_owned)
    }

    fn enter(&mut self) {
        if self.shown.picture == Picture::Flame {
            return self.zoom();
        }
        if self.page.sign_here() != RowSign::Leaf {
            self.page.toggle();
            return;
        }
        let mut next = self.shown.without_zoom();
        let part = &mut next.select.part;
        let (chosen, value) = match self.shown.view {
            View::Threads => (&mut part.thread, self.field("tid").or_else(|| self.field("name"))),
            View::Processes => (&mut part.process, self.field("pid")),
            View::Categories => (&mut part.category, self.field("name")),
            _ => return self.callers(),
        };
        next.picture = Picture::Rows;
        let Some(value) = value.filter(|value| !value.is_empty()) else {
            "this row has no name to select by".clone_into(&mut self.message);
            return;
        };
        *chosen = vec![value];
        next.view = View::Functions;
        self.show(next, true);
    }

    fn callers(&mut self) {
        let Some(function) = self.function() else { return };
        let next = ShownView {
            view: View::Callers(function),
            picture: Picture::Rows,
            ..self.shown.without_zoom()
        };
        if next.view != self.shown.view {
            self.show(next, true);
        }
    }

    fn annotate(&mut self) {
        let Some(function) = self.function() else { return };
        match (self.annotate)(&self.input, &self.shown.select, &function, self.width) {
            Ok((lines, hottest)) => {
                let mut words = vec!["annotate".to_owned(), self.file.display().to_string(), function.clone()];
                words.extend(self.shown.select.words());
                self.mode = ScreenMode::Text(TextPage {
                    title: String::new(),
                    lines: lines.into_iter().map(|line| (String::new(), line, false)).collect(),
                    top: if hottest < self.height {
                        0
                    } else {
                        hottest - self.height / 2
                    },
                    command: Some(line(&words)),
                });
            }
            Err(failure) => self.fail(failure),
        }
    }

    /// The function of the row at the cursor. The message says where there is none.
    fn function(&mut self) -> Option<String> {
        let function = self.field("function").filter(|name| !name.is_empty());
        if function.is_none() {
            "this row is no function".clone_into(&mut self.message);
        }
        function
    }

    fn select_function(&mut self, change: impl Fn(&mut SelectArgs, String)) {
        let Some(function) = self.function() else { return };
        let mut next = self.shown.without_zoom();
        change(&mut next.select, function);
        self.show(next, true);
    }

    fn find(&mut self, forwards: bool) {
        if self.sought.is_empty() {
            "no text to search for: / takes one".clone_into(&mut self.message);
            return;
        }
        let (is_found, what) = match &mut self.mode {
            ScreenMode::Text(page) => (page.find(&self.sought, forwards), "line"),
            ScreenMode::Rows | ScreenMode::Search(..) => (self.page.find(&self.sought, forwards), "row"),
        };
        if !is_found {
            self.message = format!("no {what} has {}", self.sought);
        }
    }

    fn type_search(&mut self, key: KeyEvent) {
        let ScreenMode::Search(text, page) = &mut self.mode else {
            return;
        };
        match key.code {
            KeyCode::Esc => {}
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => {}
            KeyCode::Char(letter) => {
                text.push(letter);
                return;
            }
            KeyCode::Backspace => {
                text.pop();
                return;
            }
            KeyCode::Enter if !text.is_empty() => self.sought = std::mem::take(text),
            KeyCode::Enter => {}
            _ => return,
        }
        self.mode = page.take().map_or(ScreenMode::Rows, ScreenMode::Text);
        if key.code == KeyCode::Enter {
            self.find(true);
        }
    }

    fn quality(&self) -> TextPage {
        let lines = self.page.report.about.lines().into_iter();
        TextPage {
            title: "What was recorded, and its quality".to_owned(),
            lines: lines
                .map(|(label, text, style)| (label.to_owned(), one_line(text).into_owned(), is_warning(style)))
                .collect(),
            top: 0,
            command: None,
        }
    }
}

fn is_warning(style: Option<crate::terminal::style::Style>) -> bool {
    matches!(style, Some(crate::terminal::style::Style::Warning))
}

fn help(live: &[(&str, &str)]) -> TextPage {
    let lines = (live.iter().chain(&HELP)).map(|(keys, what)| (format!("{keys:<20} "), (*what).to_owned(), false));
    TextPage {
        title: "Keys".to_owned(),
        lines: lines.collect(),
        top: 0,
        command: None,
    }
}
