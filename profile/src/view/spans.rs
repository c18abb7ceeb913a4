//! Spans by name: how long they took, and what their threads did in that time.

use rustc_hash::{FxHashMap, FxHashSet};

use super::conditions::ResolvedFilter;
use super::filter::{Filter, NotFound, SpanPart};
use super::select::Selection;
use super::span_times::{PlacedSpan, ProgramSpans, SelectedSpans, TimeSpans, Times, common, joined};
use crate::data::{Data, Samples, Span, SpanFacts, Thread};

/// All spans with one name, or a part of them.
#[derive(Clone, Debug, PartialEq)]
pub struct SpanRow {
    /// Their name.
    pub name: String,
    /// The part; `None`: all.
    pub part: Option<SpanPart>,
    /// Their number. A span inside one of the same name counts as well.
    pub count: u64,
    /// The number of those in the profile, if it does not have all: they were chosen by chance, and sums are estimates
    /// from them.
    pub kept: Option<u64>,
    /// Number of spans in the profile that began before the recording or ended after.
    pub count_cut: u64,
    /// Number of async spans in the profile: nothing says when they ran. [`SpanRow::time`] is without them.
    pub count_async: u64,
    /// Sum of their lengths in the recording, ms.
    pub total_ms: f64,
    /// Lengths of those that are not cut; `None` if all are.
    pub lengths: Option<SpanLengths>,
    /// The length of the selected time, ms, if it is known.
    pub window_ms: Option<f64>,
    /// Most spans that were open at once; `None` if the profile does not have all.
    pub most_at_once: Option<u64>,
    /// What threads did.
    pub time: SpanTime,
}

/// Lengths, ms: of so many percent of the spans, none is longer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SpanLengths {
    /// Mean length.
    pub mean_ms: f64,
    /// Of 50 percent.
    pub p50_ms: f64,
    /// Of 90 percent.
    pub p90_ms: f64,
    /// Of 99 percent.
    pub p99_ms: f64,
    /// The longest.
    pub max_ms: f64,
}

/// What threads did inside of spans, as far as samples were taken there. Time inside of two spans of one name and
/// thread counts once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SpanTime {
    /// Its length, ms.
    pub covered_ms: f64,
    /// On a CPU, ms, by samples; `None`: the samples are not of CPU time.
    pub on_cpu_ms: Option<f64>,
    /// The number of these samples.
    pub samples: u64,
    /// Waits, by reason, longest first; `None`: waits were not recorded.
    pub waits: Option<Vec<(String, f64)>>,
    /// Ready and without a CPU, ms; `None`: not recorded.
    pub ready_ms: Option<f64>,
}

impl SpanRow {
    /// Starts a second.
    pub fn per_second(&self) -> Option<f64> {
        Some(self.count as f64 * 1000.0 / self.window_ms?)
    }

    /// The mean number of open spans. By Little's law it is the starts a second times their mean length in seconds, but
    /// for spans that are cut.
    pub fn at_once(&self) -> Option<f64> {
        Some(self.total_ms / self.window_ms?)
    }
}

impl SpanRow {
    /// Makes sums those of all spans of the name. `is_all`: the row has all spans of the name in the profile.
    fn scale(&mut self, facts: &SpanFacts, is_all: bool) {
        let each = facts.count as f64 / facts.kept as f64;
        self.kept = Some(self.count);
        self.most_at_once = None;
        self.count = (self.count as f64 * each).round() as u64;
        self.total_ms *= each;
        self.time.scale(each);
        if is_all {
            (self.count, self.total_ms) = (facts.intervals, facts.total_ns as f64 / 1e6);
            if let Some(lengths) = &mut self.lengths {
                lengths.max_ms = facts.longest_ns as f64 / 1e6;
            }
        }
    }
}

impl SpanLengths {
    /// `None` of nothing.
    fn new(mut lengths_ms: Vec<f64>) -> Option<SpanLengths> {
        lengths_ms.sort_by(f64::total_cmp);
        let rank = |part: f64| (lengths_ms.len() as f64 * part).ceil() as usize;
        let of = |part: f64| lengths_ms.get(rank(part).saturating_sub(1)).copied();
        Some(SpanLengths {
            mean_ms: lengths_ms.iter().sum::<f64>() / lengths_ms.len() as f64,
            p50_ms: of(0.5)?,
            p90_ms: of(0.9)?,
            p99_ms: of(0.99)?,
            max_ms: of(1.0)?,
        })
    }
}

impl SpanTime {
    /// The sum of all waits, ms.
    pub fn waiting_ms(&self) -> Option<f64> {
        Some(self.waits.as_ref()?.iter().map(|(_, ms)| ms).sum())
    }

    fn scale(&mut self, each: f64) {
        self.covered_ms *= each;
        let known = self.on_cpu_ms.iter_mut().chain(&mut self.ready_ms);
        known
            .chain(self.waits.iter_mut().flatten().map(|(_, ms)| ms))
            .for_each(|ms| *ms *= each);
    }

    /// Neither on a CPU nor in a recorded wait, ms: chance of samples, and what was not recorded.
    pub fn rest_ms(&self) -> Option<f64> {
        let known = self.on_cpu_ms? + self.waiting_ms().unwrap_or(0.0) + self.ready_ms.unwrap_or(0.0);
        Some(self.covered_ms - known)
    }
}

impl Data {
    /// True if it has a span.
    pub fn has_spans(&self) -> bool {
        self.threads.iter().any(|thread| thread.spans().next().is_some())
    }
}

/// The selected spans by name, those of the longest time first: spans that begin in the selected time of their thread.
/// With [`Filter::span_part`], the part and the rest of each name of [`Filter::inside`].
///
/// # Errors
///
/// No span has a name of the filter.
pub fn spans(selection: &Selection<'_>, filter: &Filter) -> Result<Vec<SpanRow>, NotFound> {
    let (data, conditions) = (selection.data, &selection.conditions);
    let all = ProgramSpans::new(data);
    let track_of = first_tracks(&all);
    let named = all.named(&filter.inside)?;
    let is_selected = |index: &usize| {
        let placed = &all.spans[*index];
        let track = track_of[placed.thread as usize];
        let start_ms = placed.span.start_ms;
        match filter.span_part {
            None => {
                conditions.wanted_threads[track] && conditions.times(track, &data.threads[track].pid).contain(start_ms)
            }
            Some(_) => {
                conditions.wanted_threads[track]
                    && named.contains(&placed.span.name)
                    && filter.from_ms.is_none_or(|from| placed.span.end_ms >= from)
                    && filter.to_ms.is_none_or(|to| start_ms < to)
            }
        }
    };
    let selected: Vec<usize> = (0..all.spans.len()).filter(is_selected).collect();
    let slowest = match filter.span_part {
        Some(SpanPart::Slowest(percent) | SpanPart::Usual(percent)) => all.slowest(&selected, percent),
        None => FxHashSet::default(),
    };
    let mut groups: FxHashMap<(u32, bool), Vec<usize>> = FxHashMap::default();
    for index in selected {
        let key = (all.spans[index].span.name, slowest.contains(&index));
        groups.entry(key).or_default().push(index);
    }
    let samples: Vec<TrackSamples<'_>> = { data.threads.iter().enumerate() }
        .filter(|(track, _)| conditions.wanted_threads[*track])
        .map(|(track, thread)| TrackSamples::new(data, thread, all.number_of[track]))
        .collect();
    let window_ms = window_ms(data, filter);
    let sampled = data.sampled_parts_ms();
    let mut in_profile: FxHashMap<u32, u64> = FxHashMap::default();
    for placed in &all.spans {
        *in_profile.entry(placed.span.name).or_default() += 1;
    }
    let has_waits = data
        .threads
        .iter()
        .any(|thread| thread.samples.stack.iter().any(|stack| data.is_wait(*stack)));
    let mut rows: Vec<SpanRow> = { groups.into_iter() }
        .map(|((name, is_slow), indices)| {
            let part = filter.span_part.map(|part| match part {
                SpanPart::Slowest(percent) | SpanPart::Usual(percent) if is_slow => SpanPart::Slowest(percent),
                SpanPart::Slowest(percent) | SpanPart::Usual(percent) => SpanPart::Usual(percent),
            });
            let spans = InsideOfSpans {
                all: &all,
                samples: &samples,
                has_waits,
                sampled: sampled.as_deref(),
            };
            let mut row = SpanRow {
                name: data.text(name).to_owned(),
                part,
                window_ms,
                ..spans.row(&indices)
            };
            if let Some(facts) = data.thinned_spans(name) {
                let is_all = row.count == in_profile[&name];
                row.scale(facts, is_all);
            }
            row
        })
        .collect();
    rows.sort_by(|a, b| {
        let is_usual = |row: &SpanRow| matches!(row.part, Some(SpanPart::Usual(_)));
        let total = |row: &SpanRow| row.total_ms;
        match filter.span_part {
            None => total(b).total_cmp(&total(a)).then_with(|| a.name.cmp(&b.name)),
            Some(_) => a.name.cmp(&b.name).then(is_usual(a).cmp(&is_usual(b))),
        }
    });
    Ok(rows)
}

/// The names of spans, in alphabetical order.
pub fn names(data: &Data) -> Vec<String> {
    let names: FxHashSet<u32> = data
        .threads
        .iter()
        .flat_map(Thread::spans)
        .map(|span| span.name)
        .collect();
    let mut names: Vec<String> = names.into_iter().map(|name| data.text(name).to_owned()).collect();
    names.sort_unstable();
    names
}

/// The lengths of the selected spans with this name, in the order of their starts, ms, without those that are cut.
/// Empty if nothing has a name of the filter.
pub fn lengths_ms(data: &Data, filter: &Filter, name: &str) -> Vec<f64> {
    let Ok(conditions) = ResolvedFilter::new(data, filter) else {
        return Vec::new();
    };
    let mut spans: Vec<Span> = Vec::new();
    for (index, thread) in data
        .threads
        .iter()
        .enumerate()
        .filter(|(index, _)| conditions.wanted_threads[*index])
    {
        let times = conditions.times(index, &thread.pid);
        let of_name = thread
            .spans()
            .filter(|span| data.text(span.name) == name && !span.is_cut);
        spans.extend(of_name.filter(|span| times.contain(span.start_ms)));
    }
    spans.sort_by(|a, b| a.start_ms.total_cmp(&b.start_ms));
    spans.iter().map(Span::length_ms).collect()
}

/// What is not known of the samples that a selection by spans has, a line each.
pub fn doubts(selection: &Selection<'_>) -> Vec<String> {
    selection
        .conditions
        .spans
        .as_ref()
        .map(SelectedSpans::doubts)
        .unwrap_or_default()
}

/// The selected part of the recording, ms.
fn window_ms(data: &Data, filter: &Filter) -> Option<f64> {
    let end_ms = data.length_ms()?;
    let ms = filter.to_ms.unwrap_or(end_ms).min(end_ms) - filter.from_ms.unwrap_or(0.0).max(0.0);
    (ms > 0.0).then_some(ms)
}

/// The first track of each thread.
fn first_tracks(all: &ProgramSpans<'_>) -> Vec<usize> {
    let mut tracks = vec![0; all.threads];
    for (track, number) in all.number_of.iter().enumerate().rev() {
        tracks[*number as usize] = track;
    }
    tracks
}

/// The samples of a track.
struct TrackSamples<'a> {
    data: &'a Data,
    samples: &'a Samples,
    /// The number of its thread.
    number: u32,
    ms_per_weight: Option<f64>,
}

impl<'a> TrackSamples<'a> {
    fn new(data: &'a Data, thread: &'a Thread, number: u32) -> TrackSamples<'a> {
        TrackSamples {
            data,
            samples: &thread.samples,
            number,
            ms_per_weight: data.ms_per_weight(thread).filter(|_| thread.event.is_none()),
        }
    }

    /// Calls `each` with the stack, number and time of the samples in these times, which do not overlap.
    fn inside(&self, times: &TimeSpans, mut each: impl FnMut(u32, u64, f64)) {
        let Some(ms_per_weight) = self.ms_per_weight else {
            return;
        };
        for (start_ms, end_ms) in times {
            let first = self.samples.time_ms.partition_point(|time| time < start_ms);
            for at in first..self.samples.len() {
                if self.samples.time_ms[at] > *end_ms {
                    break;
                }
                let weight = self.samples.weight.as_ref().map_or(1.0, |weights| weights[at]);
                let ms = weight * ms_per_weight;
                if ms.is_finite() {
                    each(self.samples.stack[at], self.data.count_of(self.samples, at, weight), ms);
                }
            }
        }
    }
}

struct InsideOfSpans<'a> {
    all: &'a ProgramSpans<'a>,
    samples: &'a [TrackSamples<'a>],
    has_waits: bool,
    /// The times in which samples were taken; `None`: all.
    sampled: Option<Times<'a>>,
}

impl InsideOfSpans<'_> {
    /// A row, but for its name and its window.
    fn row(&self, indices: &[usize]) -> SpanRow {
        let (mut lengths, mut times) = (Vec::with_capacity(indices.len()), FxHashMap::default());
        let mut ends: Vec<(f64, i64)> = Vec::with_capacity(2 * indices.len());
        let (mut count_cut, mut count_async, mut total_ms) = (0, 0, 0.0);
        for index in indices {
            let PlacedSpan { span, thread } = self.all.spans[*index];
            total_ms += span.length_ms();
            ends.extend([(span.start_ms, 1), (span.end_ms, -1)]);
            match span.is_cut {
                true => count_cut += 1,
                false => lengths.push(span.length_ms()),
            }
            match span.is_async {
                true => count_async += 1,
                false => {
                    let of_thread: &mut TimeSpans = times.entry(thread).or_default();
                    of_thread.push((span.start_ms, span.end_ms));
                }
            }
        }
        // A span that ends as another one begins is not open with it.
        ends.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let (mut open, mut most_at_once) = (0i64, 0);
        for (_, change) in ends {
            open += change;
            most_at_once = most_at_once.max(open);
        }
        SpanRow {
            name: String::new(),
            part: None,
            count: indices.len() as u64,
            kept: None,
            count_cut,
            count_async,
            total_ms,
            lengths: SpanLengths::new(lengths),
            window_ms: None,
            most_at_once: Some(most_at_once.unsigned_abs()),
            time: self.time(times),
        }
    }

    fn time(&self, times: FxHashMap<u32, TimeSpans>) -> SpanTime {
        let mut time = SpanTime::default();
        let mut waits: FxHashMap<&str, f64> = FxHashMap::default();
        for (number, times) in times {
            let times = joined(times);
            let times = self
                .sampled
                .map_or_else(|| times.clone(), |sampled| common(&times, sampled));
            time.covered_ms += times.iter().map(|(start, end)| end - start).sum::<f64>();
            for track in self.samples.iter().filter(|track| track.number == number) {
                let data = track.data;
                if track.ms_per_weight.is_some() {
                    time.on_cpu_ms.get_or_insert_default();
                }
                track.inside(&times, |stack, count, ms| match wait_reason(data, stack) {
                    Some(reason) => *waits.entry(reason).or_default() += ms,
                    None => {
                        time.samples += count;
                        *time.on_cpu_ms.get_or_insert_default() += ms;
                    }
                });
            }
        }
        if self.has_waits {
            time.ready_ms = Some(waits.remove(READY).unwrap_or(0.0));
            let mut waits: Vec<(String, f64)> = waits.into_iter().map(|(reason, ms)| (reason.to_owned(), ms)).collect();
            waits.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
            time.waits = Some(waits);
        }
        time
    }
}

/// The reason of waits for a CPU: a name of a subcategory, in old files of a category.
const READY: &str = "Waiting for a CPU";

/// The reason of a wait; `None` if the thread ran.
fn wait_reason(data: &Data, stack: u32) -> Option<&str> {
    data.is_wait(stack).then(|| {
        let frame = &data.frames[data.stacks[stack as usize].frame as usize];
        let category = &data.categories[frame.category as usize];
        category
            .subcategories
            .get(usize::from(frame.subcategory))
            .map_or(&*category.name, String::as_str)
    })
}
