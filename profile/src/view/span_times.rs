//! When each span ran, and on which thread: the samples of spans are chosen by it.

use std::cmp::Ordering;

use rustc_hash::{FxHashMap, FxHashSet};

use super::filter::{Filter, NotFound, SpanPart, not_found, of_name_or_part};
use crate::data::{Data, Span};
use crate::text::numbers::grouped;

/// (start, end), ms
pub(super) type TimeSpans = Vec<(f64, f64)>;
/// The same, sorted and not overlapping.
pub(super) type Times<'a> = &'a [(f64, f64)];

/// The times, sorted and joined so that none overlap.
pub(super) fn joined(mut spans: TimeSpans) -> TimeSpans {
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

/// What of the times is also in the others.
pub(super) fn common(times: Times<'_>, others: Times<'_>) -> TimeSpans {
    let in_both = times.iter().flat_map(|(start, end)| {
        let first = others.partition_point(|other| other.1 <= *start);
        let others = others[first..].iter().take_while(move |other| other.0 < *end);
        others.map(move |other| (start.max(other.0), end.min(other.1)))
    });
    in_both.collect()
}

pub(super) fn contains(spans: &[(f64, f64)], time: f64) -> bool {
    let next = spans.partition_point(|(start, _)| *start <= time);
    next.checked_sub(1).is_some_and(|at| time <= spans[at].1)
}

/// A span and the thread that began it.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlacedSpan {
    pub(super) span: Span,
    /// A number of the thread: see [`ProgramSpans::number_of`].
    pub(super) thread: u32,
}

/// The spans of all threads.
pub(super) struct ProgramSpans<'a> {
    data: &'a Data,
    /// For each track of the data, the number of its thread: an event's track is of the same thread.
    pub(super) number_of: Vec<u32>,
    /// Number of threads.
    pub(super) threads: usize,
    pub(super) spans: Vec<PlacedSpan>,
}

impl<'a> ProgramSpans<'a> {
    pub(super) fn new(data: &'a Data) -> ProgramSpans<'a> {
        let mut numbers = FxHashMap::default();
        let (mut number_of, mut spans) = (Vec::with_capacity(data.threads.len()), Vec::new());
        for track in &data.threads {
            let next = numbers.len() as u32;
            let thread = *numbers.entry((&track.pid, &track.tid)).or_insert(next);
            number_of.push(thread);
            spans.extend(track.spans().map(|span| PlacedSpan { span, thread }));
        }
        ProgramSpans {
            data,
            number_of,
            threads: numbers.len(),
            spans,
        }
    }

    /// The names of spans with these names or with a name that contains them.
    pub(super) fn named(&self, asked: &[String]) -> Result<FxHashSet<u32>, NotFound> {
        let names: FxHashSet<u32> = self.spans.iter().map(|placed| placed.span.name).collect();
        let names: Vec<u32> = names.into_iter().collect();
        let texts = || names.iter().map(|name| self.data.text(*name));
        let mut named = FxHashSet::default();
        for asked in asked {
            let found = of_name_or_part(texts(), asked);
            if found.is_empty() {
                return Err(not_found("span", asked, texts().map(str::to_owned).collect()));
            }
            named.extend(found.into_iter().map(|at| names[at]));
        }
        Ok(named)
    }

    /// The longest of the spans with these indices: this percentage of each name, and at least one.
    pub(super) fn slowest(&self, indices: &[usize], percent: f64) -> FxHashSet<usize> {
        let mut of_name: FxHashMap<u32, Vec<usize>> = FxHashMap::default();
        for index in indices {
            of_name.entry(self.spans[*index].span.name).or_default().push(*index);
        }
        let mut slowest = FxHashSet::default();
        for mut indices in of_name.into_values() {
            let number = (indices.len() as f64 * percent / 100.0).ceil() as usize;
            let longer = |a: &usize, b: &usize| -> Ordering {
                let length_ms = |index: usize| self.spans[index].span.length_ms();
                length_ms(*b).total_cmp(&length_ms(*a)).then(a.cmp(b))
            };
            indices.sort_unstable_by(longer);
            slowest.extend(indices.into_iter().take(number));
        }
        slowest
    }
}

/// The times that are selected by spans.
#[derive(Clone, Debug)]
pub(super) struct SelectedSpans {
    /// For each track of the data, the number of its thread.
    number_of: Vec<u32>,
    /// For each thread; `None`: any time.
    inside: Option<Vec<TimeSpans>>,
    /// For each thread.
    outside: Vec<TimeSpans>,
    /// Number of the spans whose insides are selected.
    pub(super) number: usize,
    /// Number of spans whose insides or outsides are selected, though nobody knows when they ran.
    unknown: usize,
    /// Names of spans of which not all are in the profile: the name, the number in the profile, and of all.
    thinned: Vec<(String, u64, u64)>,
}

impl SelectedSpans {
    /// `None` if the filter names no span. `wanted` are the selected tracks.
    pub(super) fn new(data: &Data, filter: &Filter, wanted: &[bool]) -> Result<Option<SelectedSpans>, NotFound> {
        if filter.inside.is_empty() && filter.outside.is_empty() {
            return Ok(None);
        }
        let all = ProgramSpans::new(data);
        let [inside, outside] = [&filter.inside, &filter.outside].map(|asked| all.named(asked));
        let (inside, outside) = (inside?, outside?);
        let mut is_wanted = vec![false; all.threads];
        for (number, wanted) in all.number_of.iter().zip(wanted) {
            is_wanted[*number as usize] |= wanted;
        }
        let reaches = |span: &Span| {
            filter.from_ms.is_none_or(|from| span.end_ms >= from) && filter.to_ms.is_none_or(|to| span.start_ms < to)
        };
        let indices: Vec<usize> = { all.spans.iter().enumerate() }
            .filter(|(_, placed)| {
                inside.contains(&placed.span.name) && is_wanted[placed.thread as usize] && reaches(&placed.span)
            })
            .map(|(index, _)| index)
            .collect();
        let mut times = [vec![TimeSpans::new(); all.threads], vec![TimeSpans::new(); all.threads]];
        let (mut number, mut unknown) = (0, 0);
        let slowest = match filter.span_part {
            Some(SpanPart::Slowest(percent) | SpanPart::Usual(percent)) => all.slowest(&indices, percent),
            None => FxHashSet::default(),
        };
        for index in indices {
            let is_inside = match filter.span_part {
                None => true,
                Some(SpanPart::Slowest(_)) => slowest.contains(&index),
                // What is inside a slow span and a usual one belongs to the slow one.
                Some(SpanPart::Usual(_)) => !slowest.contains(&index),
            };
            if is_inside || matches!(filter.span_part, Some(SpanPart::Usual(_))) {
                let times = &mut times[usize::from(!is_inside)];
                let PlacedSpan { span, thread } = all.spans[index];
                times[thread as usize].push((span.start_ms, span.end_ms));
                number += usize::from(is_inside);
                unknown += usize::from(is_inside && span.is_async);
            }
        }
        for PlacedSpan { span, thread } in all.spans.iter().filter(|placed| outside.contains(&placed.span.name)) {
            times[1][*thread as usize].push((span.start_ms, span.end_ms));
            unknown += usize::from(span.is_async);
        }
        let names = inside.union(&outside).filter_map(|name| {
            let facts = data.thinned_spans(*name)?;
            Some((data.text(*name).to_owned(), facts.kept, facts.count))
        });
        let thinned = names.collect();
        let [inside, outside] = times.map(|times| times.into_iter().map(joined).collect());
        Ok(Some(SelectedSpans {
            number_of: all.number_of,
            inside: Some(inside).filter(|_| !filter.inside.is_empty()),
            outside,
            number,
            unknown,
            thinned,
        }))
    }

    /// The times of a track: inside of the one, outside of the other.
    pub(super) fn of_track(&self, track: usize) -> (Option<Times<'_>>, Times<'_>) {
        let number = self.number_of[track] as usize;
        (
            self.inside.as_ref().map(|inside| &*inside[number]),
            &self.outside[number],
        )
    }

    /// The times in which any thread was inside; `None` if any time is selected.
    pub(super) fn all(&self) -> Option<TimeSpans> {
        Some(joined(self.inside.as_ref()?.iter().flatten().copied().collect()))
    }

    /// What is not known of the selection, a line each.
    pub(super) fn doubts(&self) -> Vec<String> {
        let unknown = (self.unknown > 0).then(|| {
            format!(
                "{} of the spans are async and nothing says when they ran: what their threads ran from start to end counts as inside, \
                 also what they ran of others",
                grouped(self.unknown as u64)
            )
        });
        let thinned = self.thinned.iter().map(|(name, kept, count)| {
            format!(
                "of {} spans {name} the profile has {}, chosen by chance: what is inside of the others counts as outside",
                grouped(*count),
                grouped(*kept)
            )
        });
        unknown.into_iter().chain(thinned).collect()
    }
}
