//! Markers by name: their number, their time, and the values of their fields.

use std::borrow::Cow;
use std::cmp::Ordering;

use rustc_hash::FxHashMap;
use serde_json::{Number, Value};

use super::select::Selection;
use crate::data::spans::WholeMarker;
use crate::data::{Data, Fields};
use crate::text::one_line;

/// Most frequent values of a field that are kept.
pub const FREQUENT: usize = 10;

/// The selected markers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Markers {
    /// A row for each name and type, the most frequent first.
    pub rows: Vec<MarkerRow>,
    /// The length of the selected time, s; `None` if it is not known, or a point in time.
    pub seconds: Option<f64>,
}

/// All markers with one name and type.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MarkerRow {
    /// Their name.
    pub name: String,
    /// The name of their type, if they have one.
    pub kind: Option<String>,
    /// Their number.
    pub count: u64,
    /// The number of events that they stand for: a probe with `period=10` makes a marker of every tenth call.
    pub events: f64,
    /// Durations of the markers with a start and an end.
    pub spans: Option<MarkerSpans>,
    /// Their fields, in the order of the type.
    pub fields: Vec<MarkerField>,
}

/// Spans of time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MarkerSpans {
    /// Their number.
    pub count: u64,
    /// Sum of their lengths, ms. Spans that overlap count each.
    pub total_ms: f64,
    /// Length of the longest, ms.
    pub longest_ms: f64,
}

/// A field of markers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MarkerField {
    /// Its key.
    pub key: String,
    /// Its label for people.
    pub label: String,
    /// The front end's format of its values (`bytes`, `duration`), or empty.
    pub format: String,
    /// Number of markers with it.
    pub count: u64,
    /// Number of different values.
    pub distinct: u64,
    /// The most frequent values, [`FREQUENT`] at most, and the number of markers with each.
    pub frequent: Vec<(Value, u64)>,
    /// Smallest, median and largest value, if all are numbers. Of an even number of values the lower one in the middle.
    pub range: Option<[Number; 3]>,
}

/// The selected markers by name and type. With `of_event`, only those of the event whose samples are selected, if the
/// event has markers.
pub fn markers(selection: &Selection<'_>, of_event: bool) -> Markers {
    let data = selection.data;
    let types = MarkerTypes::new(data);
    let shown: Vec<&str> = match of_event {
        true => (data.threads.iter())
            .filter_map(|thread| thread.event.as_deref())
            .filter(|event| data.point_events.iter().any(|point| point == event))
            .collect(),
        false => Vec::new(),
    };
    let mut groups: FxHashMap<(u32, Option<&str>), MarkerGroup<'_>> = FxHashMap::default();
    for (index, thread) in data.threads.iter().enumerate() {
        for span in WholeMarker::all(&thread.markers) {
            let is_shown = shown.is_empty() || shown.contains(&data.text(span.marker.name));
            if is_shown && selection.conditions.select_marker(index, &thread.pid, span.marker) {
                let key = (span.marker.name, text_of(span.fields(), "type"));
                groups.entry(key).or_default().add(&span, data, &types);
            }
        }
    }
    let rows = groups.into_iter();
    let mut rows: Vec<MarkerRow> = rows
        .map(|((name, kind), group)| group.into_row(data.text(name), kind, &types))
        .collect();
    rows.sort_by(|a, b| {
        b.count
            .cmp(&a.count)
            .then_with(|| (&a.name, &a.kind).cmp(&(&b.name, &b.kind)))
    });
    Markers {
        rows,
        seconds: selection.conditions.length_ms(data).map(|ms| ms / 1000.0),
    }
}

fn text_of<'a>(fields: Option<&'a Fields>, key: &str) -> Option<&'a str> {
    fields?.get(key)?.as_str()
}

/// A type of markers, as far as it is needed here.
#[derive(Default)]
struct Type<'a> {
    /// (key, label, format), in order.
    fields: Vec<(&'a str, &'a str, &'a str)>,
    /// The number of events that a marker without a weight of its own stands for.
    period: f64,
}

struct MarkerTypes<'a>(FxHashMap<&'a str, Type<'a>>);

impl<'a> MarkerTypes<'a> {
    fn new(data: &'a Data) -> MarkerTypes<'a> {
        let types = data.schemas.iter().filter_map(|schema| {
            let lists = ["fields", "data"].into_iter();
            let fields = lists.filter_map(|key| schema.get(key)?.as_array()).flatten();
            let fields = fields.filter_map(|field| {
                let text = |key: &str| field.get(key).and_then(Value::as_str);
                let key = text("key")?;
                Some((key, text("label").unwrap_or(key), text("format").unwrap_or_default()))
            });
            let type_ = Type {
                fields: fields.collect(),
                period: schema.get("period").and_then(Value::as_f64).unwrap_or(1.0),
            };
            Some((schema.get("name")?.as_str()?, type_))
        });
        MarkerTypes(types.collect())
    }

    fn get(&self, kind: Option<&str>) -> Option<&Type<'a>> {
        self.0.get(kind?)
    }
}

/// Markers of one name and type.
#[derive(Default)]
struct MarkerGroup<'a> {
    count: u64,
    events: f64,
    spans: Option<MarkerSpans>,
    /// For each key, in the order of their first appearance: the number of markers with each value.
    fields: Vec<(&'a str, FxHashMap<TableKey<'a>, u64>)>,
}

/// A value as a key of a table.
#[derive(PartialEq, Eq, Hash)]
enum TableKey<'a> {
    Text(Cow<'a, str>),
    Number(Number),
    Bool(bool),
}

impl<'a> MarkerGroup<'a> {
    fn add(&mut self, span: &WholeMarker<'a>, data: &'a Data, types: &MarkerTypes<'_>) {
        let marker = span.marker;
        let type_ = types.get(text_of(span.fields(), "type"));
        self.count += 1;
        self.events += marker.weight.unwrap_or(type_.map_or(1.0, |type_| type_.period));
        if let Some(ms) = span.length_ms() {
            let spans = self.spans.get_or_insert_default();
            spans.count += 1;
            spans.total_ms += ms;
            spans.longest_ms = spans.longest_ms.max(ms);
        }
        for (key, value) in span.fields().into_iter().flatten() {
            // The stack and the format's own fields are not values.
            if matches!(key.as_str(), "type" | "cause" | "stack") {
                continue;
            }
            let format = type_.and_then(|type_| type_.fields.iter().find(|(known, ..)| known == key));
            let is_index = matches!(
                format,
                Some((_, _, "unique-string" | "flow-id" | "terminating-flow-id"))
            );
            let shown = match value {
                Value::Number(index) if is_index => {
                    let index = index.as_u64().and_then(|index| u32::try_from(index).ok());
                    index.map(|index| TableKey::Text(Cow::Borrowed(data.text(index))))
                }
                Value::Number(number) => Some(TableKey::Number(number.clone())),
                // The values of events are texts, so that the front end rounds no number of 64 bits.
                Value::String(text) => Some(match whole_number(text) {
                    Some(number) => TableKey::Number(number),
                    None => TableKey::Text(one_line(text)),
                }),
                Value::Bool(value) => Some(TableKey::Bool(*value)),
                Value::Null | Value::Array(_) | Value::Object(_) => None,
            };
            let Some(shown) = shown else { continue };
            let at = self.fields.iter().position(|(known, _)| known == key);
            let at = at.unwrap_or_else(|| {
                self.fields.push((key, FxHashMap::default()));
                self.fields.len() - 1
            });
            *self.fields[at].1.entry(shown).or_default() += 1;
        }
    }

    fn into_row(self, name: &str, kind: Option<&str>, types: &MarkerTypes<'_>) -> MarkerRow {
        let type_ = types.get(kind);
        let place = |key: &str| {
            let fields = type_.map_or(&[][..], |type_| &type_.fields);
            fields
                .iter()
                .position(|(known, ..)| *known == key)
                .unwrap_or(usize::MAX)
        };
        let mut fields = self.fields;
        fields.sort_by_key(|(key, _)| place(key));
        let fields = fields.into_iter().map(|(key, values)| {
            let (label, format) = match type_.and_then(|type_| type_.fields.get(place(key))) {
                Some((_, label, format)) => (*label, *format),
                None => (key, ""),
            };
            field(key, label, format, values)
        });
        MarkerRow {
            name: name.to_owned(),
            kind: kind.map(|kind| one_line(kind).into_owned()),
            count: self.count,
            events: self.events,
            spans: self.spans,
            fields: fields.collect(),
        }
    }
}

fn field(key: &str, label: &str, format: &str, values: FxHashMap<TableKey<'_>, u64>) -> MarkerField {
    let count = values.values().sum();
    let distinct = values.len() as u64;
    let mut values: Vec<(Value, u64)> = values
        .into_iter()
        .map(|(value, count)| match value {
            TableKey::Text(text) => (Value::String(text.into_owned()), count),
            TableKey::Number(number) => (Value::Number(number), count),
            TableKey::Bool(value) => (Value::Bool(value), count),
        })
        .collect();
    values.sort_by(|(a, _), (b, _)| in_order(a, b));
    let range = range(&values, count);
    values.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    values.truncate(FREQUENT);
    MarkerField {
        key: one_line(key).into_owned(),
        label: one_line(label).into_owned(),
        format: format.to_owned(),
        count,
        distinct,
        frequent: values,
        range,
    }
}

/// Of sorted values and the number of markers with each.
fn range(values: &[(Value, u64)], count: u64) -> Option<[Number; 3]> {
    let number = |(value, _): &(Value, u64)| match value {
        Value::Number(number) => Some(number.clone()),
        _ => None,
    };
    if !values.iter().all(|(value, _)| value.is_number()) {
        return None;
    }
    let mut before = 0;
    let median = values.iter().find(|(_, of_value)| {
        before += of_value;
        2 * before >= count
    });
    Some([number(values.first()?)?, number(median?)?, number(values.last()?)?])
}

fn in_order(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => {
            let whole = |number: &Number| number.as_i64().map(i128::from).or(number.as_u64().map(i128::from));
            match (whole(a), whole(b)) {
                (Some(a), Some(b)) => a.cmp(&b),
                _ => a.as_f64().unwrap_or(0.0).total_cmp(&b.as_f64().unwrap_or(0.0)),
            }
        }
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        // Numbers before texts before the rest.
        (a, b) => (b.is_number(), b.is_string()).cmp(&(a.is_number(), a.is_string())),
    }
}

/// `12` or `-3`, and no other way to write a number: `007` is a name.
fn whole_number(text: &str) -> Option<Number> {
    let number = match text.parse::<u64>() {
        Ok(number) => Number::from(number),
        Err(_) => Number::from(text.parse::<i64>().ok()?),
    };
    (number.to_string() == text).then_some(number)
}
