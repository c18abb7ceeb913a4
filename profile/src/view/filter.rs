//! What a filter names: threads, categories, functions and times of a profile.

use rustc_hash::FxHashMap;

use crate::data::{Category, Data, Marker, NONE, Thread};

/// Conditions on samples. All conditions must hold. A condition with several values holds for any of them.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// True selects waits, false samples of running threads. A view never adds up both.
    pub waits: bool,
    /// Threads, by name or tid. Empty: all.
    pub threads: Vec<String>,
    /// Processes, by name or pid. Empty: all.
    pub processes: Vec<String>,
    /// Categories of the leaf frame. Empty: all.
    pub categories: Vec<String>,
    /// Start of the range, ms since recording began.
    pub from_ms: Option<f64>,
    /// End of the range, exclusive, ms since recording began.
    pub to_ms: Option<f64>,
    /// Only times inside a marker of this name in a thread of the same process.
    pub marker: Option<String>,
    /// Only stacks with any of these functions (see [`find`]).
    pub focus: Vec<String>,
    /// Functions to remove from stacks. Their callers get their cost.
    pub hide: Vec<String>,
    /// Treats instances of a generic function as one function.
    pub merge_generics: bool,
}

/// Nothing has the requested name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no {kind} {asked:?} in this profile; {}", list(.known))]
pub struct NotFound {
    /// The kind of thing: thread, function.
    pub kind: &'static str,
    /// The requested name.
    pub asked: String,
    /// Some of the existing names.
    pub known: Vec<String>,
}

fn list(known: &[String]) -> String {
    match known {
        [] => "it has none at all".to_owned(),
        known => format!("it has {}", known.join(", ")),
    }
}

/// Most names that an error lists.
const KNOWN: usize = 12;

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
    spans: Option<FxHashMap<&'a str, TimeSpans>>,
    pub(super) from_ms: Option<f64>,
    pub(super) to_ms: Option<f64>,
    /// For each function.
    pub(super) is_hidden: Vec<bool>,
}

impl<'a> ResolvedFilter<'a> {
    pub(super) fn new(data: &'a Data, filter: &Filter) -> Result<ResolvedFilter<'a>, NotFound> {
        let wanted_threads = wanted_threads(data, filter)?;
        let wanted_categories = wanted_categories(data, filter)?;
        let spans = filter.marker.as_deref().map(|name| spans(data, name)).transpose()?;
        let in_focus = match filter.focus.is_empty() {
            true => None,
            false => Some(in_focus(data, &filter.focus)?),
        };
        let category_of = leaf_categories(data);
        Ok(ResolvedFilter {
            seen: seen(
                data,
                filter,
                &category_of,
                in_focus.as_deref(),
                wanted_categories.as_deref(),
            ),
            is_hidden: marked(data, &filter.hide)?,
            wanted_threads,
            category_of,
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
            && self.times(pid).contain(marker.start_ms)
    }

    /// True if a sample is selected.
    pub(super) fn select_sample(&self, thread: usize, pid: &str, time_ms: f64, stack: u32) -> bool {
        let no_stack = self.seen.len() - 1;
        self.wanted_threads[thread]
            && matches!(self.seen[no_stack.min(stack as usize)], SampleKinds::Selected)
            && self.times(pid).contain(time_ms)
    }

    /// True if a block of memory that a thread took meets the conditions.
    pub(super) fn select_block(&self, thread: u32, pid: &str, time_ms: f64, stack: u32) -> bool {
        let no_stack = self.seen.len() - 1;
        self.wanted_threads[thread as usize]
            && !matches!(self.seen[no_stack.min(stack as usize)], SampleKinds::Not)
            && self.times(pid).contain(time_ms)
    }

    /// The length of the selected time, ms; `None` if it has no known end.
    pub(super) fn length_ms(&self, data: &Data) -> Option<f64> {
        let from = self.from_ms.unwrap_or(0.0).max(0.0);
        let to = match (self.to_ms, data.length_ms()) {
            (Some(to), Some(end)) => to.min(end),
            (to, end) => to.or(end)?,
        };
        let Some(spans) = &self.spans else {
            return Some(to - from).filter(|ms| *ms > 0.0);
        };
        let spans = joined(spans.values().flatten().copied().collect());
        let lengths = spans.iter().map(|(start, end)| end.min(to) - start.max(from));
        Some(lengths.filter(|ms| *ms > 0.0).sum()).filter(|ms| *ms > 0.0)
    }

    /// The selected times of a process's threads.
    pub(super) fn times(&self, pid: &str) -> TimeRanges<'_> {
        TimeRanges {
            from_ms: self.from_ms,
            to_ms: self.to_ms,
            spans: (self.spans.as_ref()).map(|spans| spans.get(pid).map_or(&[][..], Vec::as_slice)),
        }
    }
}

#[derive(Clone, Copy)]
pub(super) struct TimeRanges<'a> {
    from_ms: Option<f64>,
    to_ms: Option<f64>,
    spans: Option<&'a [(f64, f64)]>,
}

impl TimeRanges<'_> {
    pub(super) fn contain(&self, time_ms: f64) -> bool {
        self.from_ms.is_none_or(|from| time_ms >= from)
            && self.to_ms.is_none_or(|to| time_ms < to)
            && self.spans.is_none_or(|spans| contains(spans, time_ms))
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
    in_focus: Option<&[bool]>,
    wanted_categories: Option<&[Vec<bool>]>,
) -> Vec<SampleKinds> {
    let is_wait: Vec<bool> = data.categories.iter().map(|category| category.is_wait).collect();
    let has = |of: &[bool], index: u32| of.get(index as usize).is_some_and(|has| *has);
    let kind = |stack: u32, category: u32| {
        let is_focus = in_focus.is_none_or(|in_focus| has(in_focus, stack));
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

/// Functions with this name (see [`of_name`](super::names::of_name)). If none has it, all functions whose name contains
/// it.
///
/// # Errors
///
/// No function has the name or a name that contains it.
pub fn find(data: &Data, asked: &str) -> Result<Vec<u32>, NotFound> {
    let names = (0..data.funcs.len() as u32).map(|func| data.func_name(func));
    let mut found = super::names::of_name(names.clone(), asked);
    if found.is_empty() && !asked.is_empty() {
        let containing = names.enumerate().filter(|(_, name)| name.contains(asked));
        found = containing.map(|(func, _)| func).collect();
    }
    if !found.is_empty() {
        return Ok(found.into_iter().map(|func| func as u32).collect());
    }
    let lower = asked.to_lowercase();
    let alike = (0..data.funcs.len() as u32).map(|func| data.func_name(func));
    let mut alike: Vec<String> = alike
        .filter(|name| name.to_lowercase().contains(&lower))
        .map(str::to_owned)
        .collect();
    if alike.is_empty() || asked.is_empty() {
        alike = vec![format!("{} others", data.funcs.len())];
    }
    Err(not_found("function", asked, alike))
}

fn not_found(kind: &'static str, asked: &str, mut known: Vec<String>) -> NotFound {
    known.sort();
    known.dedup();
    known.truncate(KNOWN);
    NotFound {
        kind,
        asked: asked.to_owned(),
        known,
    }
}

/// The two names of a thread, or of its process.
type TwoNames = fn(&Thread) -> [&str; 2];

pub(crate) fn wanted_threads(data: &Data, filter: &Filter) -> Result<Vec<bool>, NotFound> {
    let mut wanted = vec![true; data.threads.len()];
    let parts: [(&'static str, &[String], TwoNames); 2] = [
        ("thread", &filter.threads, |thread| [&thread.name, &thread.tid]),
        ("process", &filter.processes, |thread| {
            [&thread.process_name, &thread.pid]
        }),
    ];
    for (kind, asked, names) in parts {
        if asked.is_empty() {
            continue;
        }
        for asked in asked {
            if !data
                .threads
                .iter()
                .any(|thread| names(thread).contains(&asked.as_str()))
            {
                let known = data.threads.iter().map(|thread| names(thread)[0].to_owned()).collect();
                return Err(not_found(kind, asked, known));
            }
        }
        for (wanted, thread) in wanted.iter_mut().zip(&data.threads) {
            *wanted &= asked.iter().any(|asked| names(thread).contains(&asked.as_str()));
        }
    }
    Ok(wanted)
}

/// The subcategories of each category that the filter names, by themselves or by their category.
fn wanted_categories(data: &Data, filter: &Filter) -> Result<Option<Vec<Vec<bool>>>, NotFound> {
    if filter.categories.is_empty() {
        return Ok(None);
    }
    // At least the category itself, which also stands for subcategories that are not listed.
    let parts = |category: &Category| vec![false; category.subcategories.len().max(1)];
    let mut wanted: Vec<Vec<bool>> = data.categories.iter().map(parts).collect();
    for asked in &filter.categories {
        let mut found = false;
        for (wanted, category) in wanted.iter_mut().zip(&data.categories) {
            for (part, wanted) in wanted.iter_mut().enumerate() {
                // The first one is the category itself.
                let name = category.subcategories.get(part).filter(|_| part > 0);
                let is_it = category.is_called(asked) || name.is_some_and(|name| name.eq_ignore_ascii_case(asked));
                *wanted |= is_it;
                found |= is_it;
            }
        }
        if !found {
            let waits = data.categories.iter().filter(|category| category.is_wait);
            let reasons = waits.flat_map(|waits| waits.subcategories.iter().skip(1));
            let names = data.categories.iter().map(|category| &category.name).chain(reasons);
            return Err(not_found("category", asked, names.cloned().collect()));
        }
    }
    Ok(Some(wanted))
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

/// (start, end), ms
type TimeSpans = Vec<(f64, f64)>;

/// For each process, the times of markers with this name: sorted and not overlapping.
fn spans<'a>(data: &'a Data, name: &str) -> Result<FxHashMap<&'a str, TimeSpans>, NotFound> {
    let mut spans: FxHashMap<&str, TimeSpans> = FxHashMap::default();
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

/// The times, sorted and joined so that none overlap.
fn joined(mut spans: TimeSpans) -> TimeSpans {
    spans.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut joined: TimeSpans = Vec::new();
    for (start, end) in spans {
        match joined.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => joined.push((start, end)),
        }
    }
    joined
}

fn contains(spans: &[(f64, f64)], time: f64) -> bool {
    let next = spans.partition_point(|(start, _)| *start <= time);
    next.checked_sub(1).is_some_and(|at| time <= spans[at].1)
}

/// For each stack, true if it contains one of the functions.
fn in_focus(data: &Data, focus: &[String]) -> Result<Vec<bool>, NotFound> {
    let is_focus = marked(data, focus)?;
    let mut on_path: Vec<bool> = Vec::with_capacity(data.stacks.len());
    for stack in &data.stacks {
        let above = on_path.get(stack.prefix as usize).is_some_and(|above| *above);
        on_path.push(above || is_focus[data.frames[stack.frame as usize].func as usize]);
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
