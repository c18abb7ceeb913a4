//! Spans: all are counted by name. Of the most frequent names, those that become markers are chosen by chance.

use std::collections::BTreeMap;

use recording::event::{Pid, Thread};
use recording::span::{MAX_SPAN_FIELDS, MAX_SPAN_NAME, Span, SpanFields, SpanFlow, SpanValue};
use rustc_hash::FxHashMap;

use super::Builder;
use crate::data::SpanFacts;
use crate::recorded::spans::{PlotSeries, RecordedSpans, SpanKey, SpanKeyKind};
use crate::recorded::strings::{StringId, StringTable};
use crate::recorded::thread::{MarkerKind, PointValue, RecordedMarker, SpanMarker};

/// Most markers of spans. The front end's marker table becomes slow at some 100,000.
pub const SPANS_IN_ALL: usize = 300_000;
/// Names that are counted by themselves. Further ones are counted together.
const MAX_NAMES: usize = 2_000;
/// Most keys of fields that become columns of markers, and most bytes of each.
const MAX_KEYS: usize = 200;
const MAX_KEY_BYTES: usize = 100;
/// Most counters of a program.
const MAX_PLOTS: usize = 100;

/// The spans so far.
#[derive(Clone, Default)]
pub(super) struct Spans {
    names: FxHashMap<Box<str>, u32>,
    /// By name. The last one has all names beyond [`MAX_NAMES`].
    groups: Vec<SpanGroup>,
    kept: Vec<KeptSpan>,
    plots: FxHashMap<Pid, BTreeMap<Box<str>, PlotSeries>>,
}

/// What is known of all spans of one name.
#[derive(Clone, Copy, Debug, Default)]
struct SpanGroup {
    count: u64,
    intervals: u64,
    total_ns: u64,
    longest_ns: u64,
    kept: usize,
    /// Each span is kept with a chance of 1 in 2 to the power of this.
    thinned: u32,
}

#[derive(Clone)]
struct KeptSpan {
    thread: Thread,
    start: i64,
    end: Option<i64>,
    group: u32,
    /// Random: how many halvings of the spans of its name keep it.
    halvings: u32,
    /// Its name, if its group has several.
    name: Option<Box<str>>,
    lane: Option<u64>,
    flow: Option<SpanFlow>,
    fields: Box<[u8]>,
}

impl Spans {
    /// Adds a span that is at least in part in the recording.
    fn add(&mut self, thread: Thread, start: i64, end: Option<i64>, span: &Span<'_>) {
        let name = &span.name[..span.name.floor_char_boundary(MAX_SPAN_NAME)];
        let group = match self.names.get(name) {
            Some(known) => *known,
            None if self.names.len() < MAX_NAMES => {
                let next = self.names.len() as u32;
                self.names.insert(name.into(), next);
                next
            }
            None => MAX_NAMES as u32,
        };
        let index = group as usize;
        if index >= self.groups.len() {
            self.groups.resize(index + 1, SpanGroup::default());
        }
        let of_group = &mut self.groups[index];
        let halvings = random(of_group.count ^ u64::from(group) << 40).leading_zeros();
        of_group.count += 1;
        if let Some(end) = end {
            let ns = end.abs_diff(start);
            of_group.intervals += 1;
            of_group.total_ns = of_group.total_ns.saturating_add(ns);
            of_group.longest_ns = of_group.longest_ns.max(ns);
        }
        if halvings < of_group.thinned {
            return;
        }
        of_group.kept += 1;
        let fields = span.fields.as_bytes();
        self.kept.push(KeptSpan {
            thread,
            start,
            end,
            group,
            halvings,
            name: (index == MAX_NAMES).then(|| name.into()),
            lane: span.lane,
            flow: span.flow,
            fields: if fields.len() <= MAX_SPAN_FIELDS {
                fields.into()
            } else {
                Box::default()
            },
        });
        if self.kept.len() > SPANS_IN_ALL {
            self.thin();
        }
    }

    /// Halves the most frequent names until half the room is free.
    fn thin(&mut self) {
        let mut counts: Vec<usize> = self.groups.iter().map(|group| group.kept).collect();
        while counts.iter().sum::<usize>() > SPANS_IN_ALL / 2 {
            let most = counts.iter().copied().max().unwrap_or_default();
            for (group, count) in self.groups.iter_mut().zip(&mut counts) {
                if *count > most / 2 {
                    *count /= 2;
                    group.thinned += 1;
                }
            }
        }
        let groups = &mut self.groups;
        groups.iter_mut().for_each(|group| group.kept = 0);
        self.kept.retain(|span| {
            let group = &mut groups[span.group as usize];
            let is_kept = span.halvings >= group.thinned;
            group.kept += usize::from(is_kept);
            is_kept
        });
    }
}

/// A step of SplitMix64: numbers in a row become random ones.
fn random(number: u64) -> u64 {
    let mut bits = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}

impl Builder {
    /// Adds a span. One that ended before time zero is not part of the recording.
    pub(super) fn add_span(&mut self, at: i64, thread: Thread, span: &Span<'_>) {
        let left_out = self.options.main_thread_only && !thread.is_main();
        if at >= 0 && !left_out {
            let began = span.began.map(|began| self.at(began).min(at));
            self.spans.add(thread, began.unwrap_or(at), began.map(|_| at), span);
        }
    }

    /// Adds a value of a counter of the program.
    pub(super) fn add_plot(&mut self, at: i64, pid: Pid, name: &str, value: f64) {
        if at < 0 || !value.is_finite() {
            return;
        }
        let of_process = self.spans.plots.entry(pid).or_default();
        let has_room = of_process.len() < MAX_PLOTS;
        let name = &name[..name.floor_char_boundary(MAX_SPAN_NAME)];
        match of_process.get_mut(name) {
            Some(series) => series.push(at, value),
            None if has_room => of_process.entry(name.into()).or_default().push(at, value),
            None => self.counts.plots_left_out += 1,
        }
    }

    /// Makes markers of the spans that began before `until`.
    pub(super) fn place_spans(&mut self, until: i64) -> RecordedSpans {
        let spans = std::mem::take(&mut self.spans);
        let mut of_thread: FxHashMap<Thread, Vec<usize>> = FxHashMap::default();
        for (index, live) in self.processes.threads.iter().enumerate() {
            if live.track_of.is_none() && !self.processes.cpus.contains(&index) {
                let pid = self.processes.processes[live.process].pid;
                of_thread.entry(Thread::new(pid, live.tid)).or_default().push(index);
            }
        }
        let mut names = vec![String::new(); spans.groups.len()];
        for (name, group) in spans.names {
            names[group as usize] = name.into();
        }
        let ids: Vec<StringId> = names.iter().map(|name| self.strings.intern(name)).collect();
        let mut keys = SpanKeys::default();
        for span in spans.kept.into_iter().filter(|span| span.start <= until) {
            let main = Thread::main(span.thread.pid);
            let index = match of_thread.get(&span.thread).or_else(|| of_thread.get(&main)) {
                // A number may be of several threads, one after the other.
                Some(lives) => {
                    let began =
                        |index: &&usize| self.processes.threads[**index].start <= span.end.unwrap_or(span.start);
                    *lives.iter().rev().find(began).unwrap_or(&lives[0])
                }
                None => {
                    let index = self.processes.index_for_sample(main, span.start.max(0));
                    of_thread.insert(main, vec![index]);
                    index
                }
            };
            let name = match &span.name {
                Some(name) => self.strings.intern(name),
                None => ids[span.group as usize],
            };
            let fields = keys.values(SpanFields::from_bytes(&span.fields), &mut self.strings);
            let flow = span.flow.map(|flow| {
                let id = format!("{}:{:x}", span.thread.pid.0, flow.id);
                (self.strings.intern(&id), flow.ends)
            });
            let live = &mut self.processes.threads[index];
            live.spans += 1;
            live.markers.push(RecordedMarker {
                start: span.start,
                end: span.end,
                what: MarkerKind::Span(Box::new(SpanMarker {
                    name,
                    lane: span.lane,
                    flow,
                    fields,
                })),
            });
        }
        for (pid, plots) in spans.plots {
            // Of several programs of one process, one after the other, the last: few have counters.
            let threads = of_thread.get(&Thread::main(pid)).and_then(|threads| threads.last());
            if let Some(thread) = threads {
                let process = self.processes.threads[*thread].process;
                let plots = plots.into_iter().map(|(name, series)| (name.into(), series));
                self.processes.processes[process].plots.extend(plots);
            }
        }
        let count = spans.groups.iter().map(|group| group.count).sum();
        let placed: usize = self.processes.threads.iter().map(|live| live.spans).sum();
        let thinned = names.into_iter().zip(spans.groups).enumerate();
        let thinned = thinned.filter(|(_, (_, group))| group.thinned > 0);
        let thinned = thinned.map(|(index, (name, group))| SpanFacts {
            name: (index < MAX_NAMES).then_some(name),
            count: group.count,
            kept: group.kept as u64,
            intervals: group.intervals,
            total_ns: group.total_ns,
            longest_ns: group.longest_ns,
        });
        self.counts.spans = count;
        self.counts.spans_left_out = count - placed as u64;
        self.counts.span_fields_left_out = keys.left_out;
        RecordedSpans {
            thinned: thinned.collect(),
            keys: keys.all,
        }
    }
}

/// The keys of all fields so far.
#[derive(Default)]
struct SpanKeys {
    index: FxHashMap<String, u32>,
    all: Vec<SpanKey>,
    left_out: u64,
}

impl SpanKeys {
    fn values(&mut self, fields: SpanFields<'_>, strings: &mut StringTable) -> Box<[(u32, PointValue)]> {
        let mut values = Vec::new();
        for (key, value) in fields.iter() {
            let key = &key[..key.floor_char_boundary(MAX_KEY_BYTES)];
            let index = match self.index.get(key) {
                Some(index) => *index,
                None if self.all.len() < MAX_KEYS => {
                    let index = self.all.len() as u32;
                    self.index.insert(key.to_owned(), index);
                    let kind = SpanKeyKind::Integer;
                    let key = key.to_owned();
                    self.all.push(SpanKey { key, kind });
                    index
                }
                None => {
                    self.left_out += 1;
                    continue;
                }
            };
            // The front end's numbers have 53 bits.
            let is_exact = |number: u64| number < 1 << 53;
            let (kind, value) = match value {
                SpanValue::Unsigned(number) if is_exact(number) => (SpanKeyKind::Integer, PointValue::Unsigned(number)),
                SpanValue::Signed(number) if is_exact(number.unsigned_abs()) => {
                    (SpanKeyKind::Integer, PointValue::Signed(number))
                }
                SpanValue::Float(number) if number.is_finite() => (SpanKeyKind::Decimal, PointValue::Float(number)),
                SpanValue::Unsigned(number) => (SpanKeyKind::Text, PointValue::Unsigned(number)),
                SpanValue::Signed(number) => (SpanKeyKind::Text, PointValue::Signed(number)),
                SpanValue::Float(number) => (SpanKeyKind::Text, PointValue::Float(number)),
                SpanValue::Bool(is) => {
                    let text = if is { "true" } else { "false" };
                    (SpanKeyKind::Text, PointValue::Text(strings.intern(text)))
                }
                SpanValue::Text(text) => (SpanKeyKind::Text, PointValue::Text(strings.intern(text))),
            };
            let known = &mut self.all[index as usize].kind;
            *known = kind.max(*known);
            values.push((index, value));
        }
        values.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequent_names_are_thinned_by_chance_and_rare_ones_are_whole() {
        let (mut spans, thread) = (Spans::default(), Thread::new(1, 1));
        let (often, seldom) = (1_000_000, 100);
        for at in 0..often {
            spans.add(thread, at, Some(at + at % 2), &Span::new("often", None));
            if at % (often / seldom) == 0 {
                spans.add(thread, at, None, &Span::new("seldom", None));
            }
        }
        assert!(
            (SPANS_IN_ALL / 4..=SPANS_IN_ALL).contains(&spans.kept.len()),
            "{}",
            spans.kept.len()
        );
        let [of_often, of_seldom] = [spans.groups[0], spans.groups[1]];
        assert_eq!((of_seldom.count, of_seldom.kept, of_seldom.thinned), (100, 100, 0));
        assert_eq!((of_often.count, of_often.intervals), (1_000_000, 1_000_000));
        assert_eq!((of_often.total_ns, of_often.longest_ns), (500_000, 1));
        // The same chance for all: in each part of the time, and for both lengths. Six standard deviations.
        let kept = of_often.kept as f64;
        assert!((kept * f64::from(1 << of_often.thinned) / often as f64 - 1.0).abs() < 0.02);
        for part in [
            spans
                .kept
                .iter()
                .filter(|span| span.group == 0 && span.start % 2 == 0)
                .count(),
            spans
                .kept
                .iter()
                .filter(|span| span.group == 0 && span.start < often / 2)
                .count(),
        ] {
            assert!(
                (part as f64 - kept / 2.0).abs() < 6.0 * (kept / 4.0).sqrt(),
                "{part} of {kept}"
            );
        }
    }

    #[test]
    fn a_million_names_take_no_more_room_than_few() {
        let mut spans = Spans::default();
        for at in 0..400_000 {
            spans.add(Thread::new(1, 1), at, None, &Span::new(&format!("request {at}"), None));
        }
        assert_eq!((spans.names.len(), spans.groups.len()), (MAX_NAMES, MAX_NAMES + 1));
        assert!(spans.kept.len() <= SPANS_IN_ALL);
        assert_eq!(spans.groups.iter().map(|group| group.count).sum::<u64>(), 400_000);
        let others = spans.kept.iter().filter_map(|span| span.name.as_ref());
        assert!(others.count() > SPANS_IN_ALL / 4);
    }
}
