//! What a click, a drag and the wheel do.

use ratatui_crossterm::crossterm::event::{MouseButton, MouseEvent, MouseEventKind};

use super::canvas::{ClickArea, ClickTarget};
use super::keys::KeyAction;
use super::screen::{BrowseScreen, ScreenMode};

impl BrowseScreen {
    pub(crate) fn point(&mut self, event: MouseEvent) {
        let wheel = match event.kind {
            MouseEventKind::ScrollUp => Some(KeyAction::Up),
            MouseEventKind::ScrollDown => Some(KeyAction::Down),
            _ => None,
        };
        match (wheel, &mut self.mode) {
            (Some(asked), ScreenMode::Text(page)) => drop(page.scroll(asked, self.width, self.height)),
            (Some(asked), ScreenMode::Rows) => self.act(asked),
            (None, ScreenMode::Rows) => self.click(event),
            (_, ScreenMode::Text(_) | ScreenMode::Search(..)) => {}
        }
    }

    fn click(&mut self, event: MouseEvent) {
        let (x, y) = (usize::from(event.column), usize::from(event.row));
        let found = self.areas.iter().find(|area| area.y == y && area.columns.contains(&x));
        let Some(ClickArea { columns, target, .. }) = found.cloned() else {
            return;
        };
        match (event.kind, target) {
            (MouseEventKind::Down(MouseButton::Left), ClickTarget::Tab(tab)) => {
                self.view(tab.view.clone(), tab.picture);
            }
            (MouseEventKind::Down(MouseButton::Left), ClickTarget::Line(line)) if line == self.page.cursor => {
                self.act(KeyAction::Enter);
            }
            (MouseEventKind::Down(MouseButton::Left), ClickTarget::Line(line)) => self.page.choose(line, true),
            (kind, ClickTarget::Time) => {
                let Some(strips) = &mut self.page.strips else { return };
                strips.choose(x - columns.start);
                match kind {
                    MouseEventKind::Down(MouseButton::Left) => strips.anchor = Some(strips.cursor),
                    MouseEventKind::Up(MouseButton::Left) if strips.anchor == Some(strips.cursor) => {
                        strips.anchor = None
                    }
                    MouseEventKind::Up(MouseButton::Left) if strips.anchor.is_some() => self.select_range(),
                    _ => {}
                }
            }
            _ => {}
        }
    }
}
