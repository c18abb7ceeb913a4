//! Chooses a range of time in the timeline.

use profile::view::select::select;

use super::keys::KeyAction;
use super::screen::BrowseScreen;
use super::shown::Picture;
use super::strips::{TimeStrips, strip_start};

impl BrowseScreen {
    /// Makes the strips of a timeline anew if the screen has another width.
    pub(super) fn fit_strips(&mut self) {
        match self.page.strips.take() {
            Some(strips) if strips.cells() == self.strip_cells() => self.page.strips = Some(strips),
            earlier => self.make_strips(earlier.as_ref()),
        }
    }

    /// Makes the strips of a timeline. The time that is chosen in earlier ones stays chosen.
    pub(super) fn make_strips(&mut self, earlier: Option<&TimeStrips>) {
        if self.shown.picture != Picture::Timeline {
            return;
        }
        // The report has refused a selection that fails.
        let Ok(selection) = select(&self.input.data, &self.shown.select.filter()) else {
            return;
        };
        let mut strips = TimeStrips::new(&selection, self.shown.select.part.time_range, self.strip_cells());
        if let Some(earlier) = earlier {
            strips.keep_state(earlier);
        }
        self.page.strips = Some(strips);
    }

    fn strip_cells(&self) -> usize {
        self.width.saturating_sub(strip_start(self.width)).max(1)
    }

    /// Moves in the time of a timeline; false for keys of other pictures.
    pub(super) fn move_time(&mut self, asked: KeyAction) -> bool {
        let Some(strips) = &mut self.page.strips else {
            return false;
        };
        match (asked, strips.anchor) {
            (KeyAction::Close, _) => strips.choose(strips.cursor.saturating_sub(1)),
            (KeyAction::Open, _) => strips.choose(strips.cursor + 1),
            (KeyAction::Range, None) => strips.anchor = Some(strips.cursor),
            (KeyAction::Range | KeyAction::Enter, Some(_)) => self.select_range(),
            (KeyAction::Undo, Some(_)) => strips.anchor = None,
            _ => return false,
        }
        true
    }

    /// Selects the chosen range of time.
    pub(super) fn select_range(&mut self) {
        let Some(strips) = &mut self.page.strips else {
            return;
        };
        let before = self.shown.select.part.time_range;
        let range = strips.range(before);
        strips.anchor = None;
        if range == before {
            "this is all of the time".clone_into(&mut self.message);
            return;
        }
        let mut next = self.shown.without_zoom();
        next.select.part.time_range = range;
        self.show(next, true);
    }
}
