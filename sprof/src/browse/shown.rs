//! What is shown: samples, a view of them, and its picture; and the command that prints the same.

use std::path::Path;

use profile::data::Data;
use profile::text::one_line;
use profile::view::cost::Cost;
use profile::view::cost_scale::CostScale;
use profile::view::select::select;
use recording::command::{own, quoted};

use super::page::Page;
use super::strips::has_times;
use crate::args::{SelectArgs, Sort, TimeRange, View};
use crate::exit::Failure;
use crate::input::Input;
use crate::report::build::TableExtent;
use crate::report::calls;
use crate::report::request::ReportRequest;
use crate::report::trend::EarlierShares;

/// Rows of trees with a smaller share, in percent, are left out.
const LEAST_PERCENT: f64 = 0.1;

/// The picture of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Picture {
    Rows,
    /// Each row of a tree is as wide as its share.
    Flame,
    /// Threads by time.
    Timeline,
}

/// One of the names above the rows.
#[derive(Debug)]
pub(crate) struct ShownTab {
    pub(crate) view: View,
    pub(crate) picture: Picture,
}

const fn rows(view: View) -> ShownTab {
    ShownTab {
        view,
        picture: Picture::Rows,
    }
}

/// The tabs, in the order of the Tab key.
pub(crate) static TABS: [ShownTab; 17] = [
    rows(View::Functions),
    rows(View::Tree),
    ShownTab {
        view: View::Tree,
        picture: Picture::Flame,
    },
    rows(View::BottomUp),
    rows(View::Lines),
    rows(View::Threads),
    ShownTab {
        view: View::Threads,
        picture: Picture::Timeline,
    },
    rows(View::Processes),
    rows(View::Crates),
    rows(View::Categories),
    rows(View::Buckets),
    rows(View::Parallelism),
    rows(View::Futures),
    rows(View::Spans),
    rows(View::Markers),
    rows(View::Resources),
    rows(View::Heap),
];

impl ShownTab {
    pub(crate) fn name(&self) -> String {
        match self.picture {
            Picture::Rows => self.view.word(),
            Picture::Flame => "flame".to_owned(),
            Picture::Timeline => "timeline".to_owned(),
        }
    }

    pub(crate) fn is_of(&self, shown: &ShownView) -> bool {
        self.picture == shown.picture && (self.view == shown.view || self.picture == Picture::Flame)
    }

    pub(crate) fn has_data(&self, file: &Path, data: &Data) -> bool {
        match &self.view {
            _ if self.picture == Picture::Timeline => has_times(data),
            View::Parallelism => {
                let is_time = CostScale::new(data, Cost::default()).time_ms(Cost::default()).is_some();
                has_times(data) && is_time
            }
            View::Markers => data.threads.iter().any(|thread| !thread.markers.is_empty()),
            view => calls::check_views(file, data, std::slice::from_ref(view)).is_ok(),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct ShownView {
    pub(crate) select: SelectArgs,
    pub(crate) view: View,
    pub(crate) picture: Picture,
    pub(crate) sort: Sort,
    pub(crate) least_percent: f64,
    /// Functions have the change of their shares since then.
    pub(crate) before: Option<TimeRange>,
}

impl ShownView {
    pub(crate) fn new(select: SelectArgs) -> ShownView {
        ShownView {
            select,
            view: View::Functions,
            picture: Picture::Rows,
            sort: Sort::Own,
            least_percent: LEAST_PERCENT,
            before: None,
        }
    }

    fn is_tree(&self) -> bool {
        matches!(self.view, View::Tree | View::BottomUp | View::Callers(_))
    }

    fn extent(&self) -> TableExtent {
        TableExtent {
            rows: usize::MAX,
            min_percent: self.is_tree().then_some(self.least_percent),
            no_frame_of_all: false,
            sort: self.sort,
            of_event: self.select.event.name().is_some(),
        }
    }

    pub(crate) fn without_zoom(&self) -> ShownView {
        ShownView {
            least_percent: LEAST_PERCENT,
            ..self.clone()
        }
    }

    /// The same with the rows that are large enough beside one with this share, in percent.
    pub(crate) fn zoomed(&self, percent: f64) -> ShownView {
        // One digit: people read the command.
        let least = format!("{:.0e}", LEAST_PERCENT * percent / 100.0);
        ShownView {
            least_percent: least.parse().unwrap_or(LEAST_PERCENT),
            ..self.clone()
        }
    }

    /// The command that prints what is shown.
    pub(crate) fn command(&self, file: &Path) -> String {
        let mut words = vec!["report".to_owned(), file.display().to_string()];
        words.extend(self.select.words());
        words.extend(["--view".to_owned(), self.view.word()]);
        match self.sort {
            Sort::Own => {}
            Sort::Total => words.extend(["--sort", "total"].map(str::to_owned)),
            Sort::Name => words.extend(["--sort", "name"].map(str::to_owned)),
        }
        if self.is_tree() {
            words.extend(["--min-percent".to_owned(), self.least_percent.to_string()]);
        }
        words.extend(["--limit", "0"].map(str::to_owned));
        line(&words)
    }

    pub(crate) fn page(&self, file: &Path, input: &Input) -> Result<Page, Failure> {
        let request = ReportRequest {
            file,
            select: &self.select,
            views: std::slice::from_ref(&self.view),
        };
        let mut report = request.answer(input, |_| self.extent())?;
        if let Some(before) = self.before.filter(|_| self.view == View::Functions) {
            let mut asked = self.select.clone();
            asked.part.time_range = Some(before);
            let earlier = select(&input.data, &asked.filter()).map_err(Failure::failed)?;
            EarlierShares::of_selection(&earlier).compare(&mut report);
        }
        let page = Page::new(report);
        Ok(match self.picture {
            Picture::Rows | Picture::Timeline => page,
            Picture::Flame => page.into_flame(),
        })
    }
}

/// A command as a shell takes it.
pub(crate) fn line(words: &[String]) -> String {
    let quoted: Vec<_> = words.iter().map(|word| quoted(word)).collect();
    one_line(&format!("{} {}", own(), quoted.join(" "))).into_owned()
}
