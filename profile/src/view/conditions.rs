//! A filter, applied to the tables of a profile: which threads, stacks and times it selects.

use rustc_hash::FxHashMap;

use super::filter::{Filter, NotFound, find, not_found, wanted_categories, wanted_threads};
use super::span_times::{SelectedSpans, TimeSpans, Times, contains, joined};
use crate::data::{Data, Marker, NONE};

/// For each process, by its pid, the times of markers: sorted and not overlapping.
type MarkerTimes<'a> = FxHashMap<&'a str, TimeSpans>;

/// A filter, applied to the tables of a profile.
#[derive(Clone, Debug)]
pub(super) struct ResolvedFilter<'a> {
    /// For each thread.
    pub(super) wanted_threads: Vec<bool>,
    /// For each stack, its leaf's category.
    pub(super) category_of: Vec<u32>,
    /// For each stack; the last entry is for samples without one.
    pub(super) seen: Vec<SampleKinds>,
    /// `None`: the filter names no marker.
    markers: Option<MarkerTimes<'a>>,
    /// `None`: the filter names no marker to leave out.
    outside_markers: Option<MarkerTimes<'a>>,
    /// `None`: the filter names no span.
    pub(super) spans: Option<SelectedSpans>,
    pub(super) from_ms: Option<f64>,
    pub(super) to_ms: Option<f64>,
    /// For each function.
    pub(super) is_hidden: Vec<bool>,
}

impl<'a> ResolvedFilter<'a> {
    pub(super) fn new(data: &'a Data, filter: &Filter) -> Result<ResolvedFilter<'a>, NotFound> {
        let wanted_threads = wanted_threads(data, filter)?;
        let wanted_categories = wanted_categories(data, filter)?;
        let marker_times = |name: &Option<String>| name.as_deref().map(|name| markers(data, name)).transpose();
        let [inside_markers, outside_markers] = [&filter.marker, &filter.outside_marker].map(marker_times);
        let spans = SelectedSpans::new(data, filter, &wanted_threads)?;
        let on_stack = |names: &[String]| match names.is_empty() {
            true => Ok(None),
            false => stacks_with(data, names).map(Some),
        };
        let (in_focus, dropped) = (on_stack(&filter.focus)?, on_stack(&filter.drop)?);
        let category_of = leaf_categories(data);
        Ok(ResolvedFilter {
            seen: seen(
                data,
                filter,
                &category_of,
                [in_focus.as_deref(), dropped.as_deref()],
                wanted_categories.as_deref(),
            ),
            is_hidden: marked(data, &filter.hide)?,
            wanted_threads,
            category_of,
            markers: inside_markers?,
            outside_markers: outside_markers?,
            spans,
            from_ms: filter.from_ms,
            to_ms: filter.to_ms,
        })
    }

    /// True if the thread's marker begins in the selected time, and its stack meets the conditions.
    pub(super) fn select_marker(&self, thread: usize, pid: &str, marker: &Marker) -> bool {
        let no_stack = self.seen.len() - 1;
        self.wanted_threads[thread]
            && !matches!(self.seen[no_stack.min(marker.stack as usize)], SampleKinds::Not)
            && self.times(thread, pid).contain(marker.start_ms)
    }

    /// True if a sample is selected.
    pub(super) fn select_sample(&self, thread: usize, pid: &str, time_ms: f64, stack: u32) -> bool {
        let no_stack = self.seen.len() - 1;
        self.wanted_threads[thread]
            && matches!(self.seen[no_stack.min(stack as usize)], SampleKinds::Selected)
            && self.times(thread, pid).contain(time_ms)
    }

    /// True if a block of memory that a thread took meets the conditions.
    pub(super) fn select_block(&self, thread: u32, pid: &str, time_ms: f64, stack: u32) -> bool {
        let no_stack = self.seen.len() - 1;
        self.wanted_threads[thread as usize]
            && !matches!(self.seen[no_stack.min(stack as usize)], SampleKinds::Not)
            && self.times(thread as usize, pid).contain(time_ms)
    }

    /// The length of the selected time, ms; `None` if it has no known end.
    pub(super) fn length_ms(&self, data: &Data) -> Option<f64> {
        let from = self.from_ms.unwrap_or(0.0).max(0.0);
        let to = match (self.to_ms, data.length_ms()) {
            (Some(to), Some(end)) => to.min(end),
            (to, end) => to.or(end)?,
        };
        // Outside of markers, each process has times of its own.
        if self.outside_markers.is_some() {
            return None;
        }
        let of_markers = self
            .markers
            .as_ref()
            .map(|markers| joined(markers.values().flatten().copied().collect()));
        let spans = match (of_markers, &self.spans) {
            (None, None) => return Some(to - from).filter(|ms| *ms > 0.0),
            (Some(times), None) => times,
            // Outside, each thread has times of its own.
            (None, Some(spans)) => spans.all()?,
            (Some(_), Some(_)) => return None,
        };
        let lengths = spans.iter().map(|(start, end)| end.min(to) - start.max(from));
        Some(lengths.filter(|ms| *ms > 0.0).sum()).filter(|ms| *ms > 0.0)
    }

    /// The selected times of a thread of a process.
    pub(super) fn times(&self, thread: usize, pid: &str) -> TimeRanges<'_> {
        let (inside, outside) = match &self.spans {
            Some(spans) => spans.of_track(thread),
            None => (None, &[][..]),
        };
        TimeRanges {
            from_ms: self.from_ms,
            to_ms: self.to_ms,
            markers: self.markers.as_ref().map(|markers| of_process(markers, pid)),
            outside_markers: { self.outside_markers.as_ref() }.map_or(&[], |markers| of_process(markers, pid)),
            inside,
            outside,
        }
    }
}

#[derive(Clone, Copy)]
pub(super) struct TimeRanges<'a> {
    from_ms: Option<f64>,
    to_ms: Option<f64>,
    markers: Option<Times<'a>>,
    outside_markers: Times<'a>,
    inside: Option<Times<'a>>,
    outside: Times<'a>,
}

impl TimeRanges<'_> {
    pub(super) fn contain(&self, time_ms: f64) -> bool {
        self.from_ms.is_none_or(|from| time_ms >= from)
            && self.to_ms.is_none_or(|to| time_ms < to)
            && self.markers.is_none_or(|markers| contains(markers, time_ms))
            && !contains(self.outside_markers, time_ms)
            && self.inside.is_none_or(|inside| contains(inside, time_ms))
            && !contains(self.outside, time_ms)
    }

    /// True if a span of time reaches into the range.
    pub(super) fn reach(&self, start_ms: f64, end_ms: f64) -> bool {
        self.from_ms.is_none_or(|from| start_ms.max(end_ms) >= from) && self.to_ms.is_none_or(|to| start_ms < to)
    }
}

/// The kind of a stack's samples, as far as it follows from the stack.
#[derive(Clone, Copy, Debug)]
pub(super) enum SampleKinds {
    Selected,
    /// Waits, or with [`Filter::waits`] samples of running threads.
    OtherKind,
    Not,
}

/// The kind of each stack; the last entry is for samples without one.
fn seen(
    data: &Data,
    filter: &Filter,
    category_of: &[u32],
    [in_focus, dropped]: [Option<&[bool]>; 2],
    wanted_categories: Option<&[Vec<bool>]>,
) -> Vec<SampleKinds> {
    let is_wait: Vec<bool> = data.categories.iter().map(|category| category.is_wait).collect();
    let has = |of: &[bool], index: u32| of.get(index as usize).is_some_and(|has| *has);
    let kind = |stack: u32, category: u32| {
        let is_focus =
            in_focus.is_none_or(|in_focus| has(in_focus, stack)) && dropped.is_none_or(|dropped| !has(dropped, stack));
        let is_of = |wanted: &[Vec<bool>]| {
            let frame = data
                .stacks
                .get(stack as usize)
                .map(|stack| &data.frames[stack.frame as usize]);
            // A frame without a category has its caller's, and no subcategory.
            let own = frame.filter(|frame| frame.category != NONE);
            let subcategory = own.map_or(0, |frame| usize::from(frame.subcategory));
            let parts = wanted.get(category as usize);
            parts.is_some_and(|parts| *parts.get(subcategory).unwrap_or(&parts[0]))
        };
        if !is_focus || !wanted_categories.is_none_or(is_of) {
            SampleKinds::Not
        } else if has(&is_wait, category) == filter.waits {
            SampleKinds::Selected
        } else {
            SampleKinds::OtherKind
        }
    };
    let stacks = (0..).zip(category_of).map(|(stack, category)| kind(stack, *category));
    stacks.chain([kind(NONE, NONE)]).collect()
}

/// The category of each stack's leaf, or else of its nearest caller with one.
fn leaf_categories(data: &Data) -> Vec<u32> {
    let mut categories: Vec<u32> = Vec::with_capacity(data.stacks.len());
    for stack in &data.stacks {
        categories.push(match data.frames[stack.frame as usize].category {
            NONE => categories.get(stack.prefix as usize).copied().unwrap_or(NONE),
            category => category,
        });
    }
    categories
}

/// The times of markers with this name.
fn markers<'a>(data: &'a Data, name: &str) -> Result<MarkerTimes<'a>, NotFound> {
    let mut spans: MarkerTimes<'a> = FxHashMap::default();
    for thread in &data.threads {
        let of_name = thread.markers.iter().filter(|marker| data.text(marker.name) == name);
        let of_name = of_name.map(|marker| (marker.start_ms, marker.end_ms));
        spans.entry(&thread.pid).or_default().extend(of_name);
    }
    if spans.values().all(Vec::is_empty) {
        let names = data.threads.iter().flat_map(|thread| &thread.markers);
        let names = names.map(|marker| data.text(marker.name).to_owned()).collect();
        return Err(not_found("marker", name, names));
    }
    for spans in spans.values_mut() {
        *spans = joined(std::mem::take(spans));
    }
    Ok(spans)
}

fn of_process<'a>(markers: &'a MarkerTimes<'_>, pid: &str) -> Times<'a> {
    markers.get(pid).map_or(&[], Vec::as_slice)
}

/// For each stack, true if it contains one of the functions.
fn stacks_with(data: &Data, names: &[String]) -> Result<Vec<bool>, NotFound> {
    let is_named = marked(data, names)?;
    let mut on_path: Vec<bool> = Vec::with_capacity(data.stacks.len());
    for stack in &data.stacks {
        let above = on_path.get(stack.prefix as usize).is_some_and(|above| *above);
        on_path.push(above || is_named[data.frames[stack.frame as usize].func as usize]);
    }
    Ok(on_path)
}

fn marked(data: &Data, names: &[String]) -> Result<Vec<bool>, NotFound> {
    let mut marked = vec![false; data.funcs.len()];
    for name in names {
        for func in find(data, name)? {
            marked[func as usize] = true;
        }
    }
    Ok(marked)
}
