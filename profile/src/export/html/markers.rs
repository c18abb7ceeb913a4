//! Markers: names, times, and their fields as texts.

use rustc_hash::FxHashMap;
use serde_json::{Value, json};

use super::columns::{PageColumns, micros};
use super::threads::ThreadRows;
use crate::data::{Data, Fields, Marker, MarkerPhase};
use crate::text::push_shown;

/// Most markers in a page. Those of the longest time stay.
const MOST_MARKERS: usize = 120_000;
/// Longest text of a marker's fields, in bytes before escapes.
const LONGEST_TEXT: usize = 400;
/// Most bytes of all such texts. Markers of Firefox may have long URLs.
const MOST_TEXT: usize = 8 << 20;

/// The markers of all threads, by thread and time: names, texts of fields, and columns (thread, name, start, duration,
/// text, kind; text 0 is none; kind 1 is a span, 2 an async one).
pub(super) fn markers(data: &Data, rows: &ThreadRows, columns: &mut PageColumns) -> Value {
    let mut found: Vec<(usize, &Marker)> = (data.threads.iter())
        .flat_map(|thread| thread.markers.iter().map(|marker| (rows.of(thread), marker)))
        .filter(|(_, marker)| marker.start_ms.is_finite())
        .collect();
    let duration = |marker: &Marker| match marker.end_ms.is_finite() {
        true => (marker.end_ms - marker.start_ms).max(0.0),
        false => 0.0,
    };
    let left_out = found.len().saturating_sub(MOST_MARKERS);
    if left_out > 0 {
        found.sort_by(|(_, a), (_, b)| duration(b).total_cmp(&duration(a)));
        found.truncate(MOST_MARKERS);
    }
    found.sort_by(|(row_a, a), (row_b, b)| row_a.cmp(row_b).then(a.start_ms.total_cmp(&b.start_ms)));
    let mut names = PageTexts::default();
    let name: Vec<u64> = (found.iter())
        .map(|(_, marker)| names.number(data.text(marker.name).to_owned()))
        .collect();
    let types = VisibleFields::new(data);
    let mut texts = PageTexts::default();
    let text: Vec<u64> = (found.iter())
        .map(|(_, marker)| match &marker.fields {
            Some(fields) if texts.bytes < MOST_TEXT => texts.number(types.text(data, fields)),
            _ => 0,
        })
        .collect();
    json!({
        "names": names.all,
        "texts": texts.all,
        "leftOut": left_out,
        "thread": columns.deltas(found.iter().map(|(row, _)| *row as u64)),
        "name": columns.plain(name),
        "start": columns.deltas(found.iter().map(|(_, marker)| micros(marker.start_ms))),
        "duration": columns.plain(found.iter().map(|(_, marker)| micros(duration(marker)))),
        "text": columns.plain(text),
        "kind": columns.plain(found.iter().map(|(_, marker)| match (marker.phase, marker.is_own, marker.is_async) {
            (MarkerPhase::Interval, false, is_async) => 1 + u64::from(is_async),
            _ => 0,
        })),
    })
}

/// Texts by number. 0 is the empty text.
struct PageTexts {
    of: FxHashMap<String, u64>,
    all: Vec<String>,
    bytes: usize,
}

impl Default for PageTexts {
    fn default() -> PageTexts {
        PageTexts {
            of: [(String::new(), 0)].into_iter().collect(),
            all: vec![String::new()],
            bytes: 0,
        }
    }
}

impl PageTexts {
    fn number(&mut self, text: String) -> u64 {
        if let Some(number) = self.of.get(&text) {
            return *number;
        }
        let number = self.all.len() as u64;
        self.bytes += text.len();
        self.all.push(text.clone());
        self.of.insert(text, number);
        number
    }
}

/// A field of a type of markers.
struct VisibleField<'a> {
    key: &'a str,
    label: &'a str,
    format: &'a str,
}

/// The visible fields of each type of markers: `MarkerSchema` of the front end's src/types/markers.ts.
struct VisibleFields<'a>(FxHashMap<&'a str, Vec<VisibleField<'a>>>);

impl<'a> VisibleFields<'a> {
    fn new(data: &'a Data) -> VisibleFields<'a> {
        let fields = |schema: &'a Value| {
            // Format versions before 50 call the list `data`.
            let lists = ["fields", "data"].into_iter();
            let lists = lists.filter_map(|key| schema.get(key)?.as_array());
            let fields = lists.flatten().filter_map(|field| {
                let text = |key: &str| field.get(key).and_then(Value::as_str);
                let is_hidden = field.get("hidden").and_then(Value::as_bool) == Some(true);
                let key = text("key").filter(|_| !is_hidden)?;
                Some(VisibleField {
                    key,
                    label: text("label").unwrap_or(key),
                    format: text("format").unwrap_or_default(),
                })
            });
            Some((schema.get("name")?.as_str()?, fields.collect()))
        };
        VisibleFields(data.schemas.iter().filter_map(fields).collect())
    }

    /// `label: value, ...`.
    fn text(&self, data: &Data, fields: &Fields) -> String {
        let kind = fields.get("type").and_then(Value::as_str).unwrap_or_default();
        let mut text = String::new();
        for field in self.0.get(kind).into_iter().flatten() {
            let Some(value) = fields.get(field.key).and_then(|value| shown(data, value, field.format)) else {
                continue;
            };
            if !text.is_empty() {
                text.push_str(", ");
            }
            text.push_str(field.label);
            text.push_str(": ");
            text.push_str(&value);
            if text.len() > LONGEST_TEXT {
                text.truncate(text.floor_char_boundary(LONGEST_TEXT));
                text.push_str(" ...");
                break;
            }
        }
        let mut out = String::with_capacity(text.len());
        text.chars().for_each(|c| push_shown(&mut out, c));
        out
    }
}

/// A field's value by its format.
fn shown(data: &Data, value: &Value, format: &str) -> Option<String> {
    let is_text = matches!(format, "unique-string" | "flow-id" | "terminating-flow-id");
    Some(match (value, format) {
        (Value::Null, _) => return None,
        (Value::String(text), _) => text.clone(),
        (Value::Number(text), _) if is_text => data.text(u32::try_from(text.as_u64()?).ok()?).to_owned(),
        (Value::Number(number), "duration" | "time" | "milliseconds") => format!("{number} ms"),
        (Value::Number(number), "seconds") => format!("{number} s"),
        (Value::Number(number), "microseconds") => format!("{number} \u{b5}s"),
        (Value::Number(number), "nanoseconds") => format!("{number} ns"),
        (Value::Number(number), "bytes") => format!("{number} B"),
        (Value::Number(number), "percentage") => format!("{} %", 100.0 * number.as_f64()?),
        (value, _) => value.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_texts_of_their_formats_within_a_bound() {
        let data = Data {
            texts: vec!["first".into(), "second".into()],
            schemas: vec![json!({"name": "Read", "fields": [
                {"key": "file", "label": "File", "format": "unique-string"},
                {"key": "took", "format": "duration"},
                {"key": "secret", "hidden": true},
                {"key": "size", "label": "Size", "format": "bytes"},
                {"key": "note"},
            ]})],
            ..Data::default()
        };
        let types = VisibleFields::new(&data);
        let fields = |value: Value| value.as_object().unwrap().clone();
        let text = |value: Value| types.text(&data, &fields(value));
        assert_eq!(
            text(json!({"type": "Read", "file": 1, "took": 1.5, "secret": "x", "size": 7, "other": 1})),
            "File: second, took: 1.5 ms, Size: 7 B"
        );
        assert_eq!(
            text(json!({"type": "Read", "file": 99, "note": "a\u{202e}b"})),
            "File: , note: a\\u202eb"
        );
        assert_eq!(text(json!({"type": "Unknown", "note": "x"})), "");
        assert_eq!(text(json!({"note": "x"})), "");
        let long = text(json!({"type": "Read", "note": "\u{fc}".repeat(LONGEST_TEXT)}));
        assert!(
            long.ends_with(" ...") && long.len() <= LONGEST_TEXT + 4,
            "{}",
            long.len()
        );
    }
}
