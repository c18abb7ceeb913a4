//! Data that was read of another profiler's file, as a profile of this format.

use std::io;

use rustc_hash::FxHashMap;
use serde_json::{Value, json};

use super::FORMAT_VERSION;
use super::json::{Json, put_ms, put_optional, put_or_minus_one, put_string, put_unsigned};
use super::meta::GECKO_VERSION;
use crate::category::CATEGORIES;
use crate::facts::{Facts, counted_name};
use crate::read::SavedLib;
use crate::view::data::{Calls, Data, Frame, NONE, Thread, Unit, Weights};

/// Writes data whose frames have our categories or none. What has no times is laid out a millisecond each: the front end shows
/// nothing of samples that all stand at one time.
pub(super) fn write(data: &Data, json: &mut Json) -> io::Result<()> {
    json.object(|json| {
        json.key("meta")?;
        json.object(|json| meta(data, json))?;
        json.key("libs")?;
        json.array(|json| data.libs.iter().try_for_each(|lib| json.item(&complete(lib))))?;
        json.key("shared")?;
        json.object(|json| tables(data, json))?;
        json.key("threads")?;
        json.array(|json| {
            (data.threads.iter()).try_for_each(|thread| json.object(|json| write_thread(data, thread, json)))
        })
    })
}

fn ns(ms: f64) -> i64 {
    // `as` saturates.
    (ms * 1e6).round() as i64
}

fn some(index: u32) -> Option<u64> {
    (index != NONE).then_some(index.into())
}

fn meta(data: &Data, json: &mut Json) -> io::Result<()> {
    let interval_ms = match data.interval_ms > 0.0 && !data.is_summed {
        true => data.interval_ms,
        false => EACH_MS,
    };
    let last_ms = (data.threads.iter()).filter_map(|thread| times_ms(data, thread).last());
    let end_ms = last_ms.fold(0.0, f64::max) + interval_ms;
    json.entry("version", &GECKO_VERSION)?;
    json.entry("preprocessedProfileVersion", &FORMAT_VERSION)?;
    for (key, ms) in [
        ("interval", interval_ms),
        ("startTime", data.start_ms),
        ("profilingStartTime", 0.0),
        ("profilingEndTime", end_ms),
    ] {
        json.key(key)?;
        json.value(|buf| put_ms(buf, ns(ms)))?;
    }
    json.entry("product", &data.product)?;
    json.entry("importedFrom", &data.imported_from)?;
    for (key, text) in [("oscpu", &data.os), ("CPUName", &data.cpu)] {
        if !text.is_empty() {
            json.entry(key, text)?;
        }
    }
    json.entry("processType", &0)?;
    json.entry("stackwalk", &1)?;
    json.entry("debug", &false)?;
    let categories: Vec<Value> = (CATEGORIES.iter())
        .map(
            |category| json!({"name": category.name, "color": category.color, "subcategories": category.subcategories}),
        )
        .collect();
    json.entry("categories", &categories)?;
    if data.unit == Unit::Milliseconds {
        json.entry(
            "sampleUnits",
            &json!({"time": "ms", "eventDelay": "ms", "threadCPUDelta": "ns"}),
        )?;
    }
    json.entry("sprof", &Facts::of_imported(data))?;
    json.entry("extra", &extra(data))?;
    json.entry("symbolicated", &data.symbolicated)?;
    json.entry("usesOnlyOneStackType", &true)?;
    json.entry("sourceCodeIsNotOnSearchfox", &true)?;
    json.constant_column("markerSchema", 0, "")
}

/// What the front end can't know, for its "more info" panel.
fn extra(data: &Data) -> Value {
    let mut rows = Vec::new();
    let mut row = |label: &str, value: &str| rows.push(json!({"label": label, "format": "string", "value": value}));
    if let Some(Weights { name, unit, .. }) = &data.weights {
        row("Called samples here", name);
        if !unit.is_empty() {
            row("In", unit);
        }
    }
    if data.is_summed {
        row("Times", "none: these are sums, laid out one after the other");
    }
    if data.calls != Calls::Paths {
        row("Call paths", "none: each function stands alone");
    }
    match rows.is_empty() {
        true => json!([]),
        false => json!([{"label": "The file", "entries": rows}]),
    }
}

/// Of what has no times, the room that each stack gets.
const EACH_MS: f64 = 1.0;

fn times_ms<'a>(data: &'a Data, thread: &'a Thread) -> impl Iterator<Item = f64> + 'a {
    let times = thread.samples.time_ms.iter().enumerate();
    times.map(|(at, time_ms)| if data.is_summed { at as f64 * EACH_MS } else { *time_ms })
}

fn put_weight(buf: &mut Vec<u8>, weight: f64, unit: Unit) {
    match unit {
        Unit::Milliseconds => put_ms(buf, ns(weight)),
        _ if !weight.is_finite() => buf.push(b'0'),
        // Its decimal form without an exponent, which gives the same number back.
        _ => buf.extend_from_slice(weight.to_string().as_bytes()),
    }
}

/// A library with all that the front end wants of one.
fn complete(lib: &SavedLib) -> SavedLib {
    let text = |text: &Option<String>| Some(text.clone().unwrap_or_default());
    SavedLib {
        arch: text(&lib.arch),
        name: text(&lib.name),
        path: text(&lib.path),
        debug_name: text(&lib.debug_name).map(|name| name.replace('/', "_")),
        debug_path: text(&lib.debug_path),
        breakpad_id: Some(lib.breakpad_id.clone().unwrap_or_else(|| "0".repeat(33))),
        code_id: lib.code_id.clone(),
    }
}

fn tables(data: &Data, json: &mut Json) -> io::Result<()> {
    json.key("stackTable")?;
    json.object(|json| {
        json.column("frame", data.stacks.iter(), |buf, stack| {
            put_unsigned(buf, stack.frame.into())
        })?;
        json.column("prefixOffset", data.stacks.iter().enumerate(), |buf, (at, stack)| {
            put_unsigned(buf, some(stack.prefix).map_or(0, |prefix| at as u64 - prefix));
        })?;
        json.entry("length", &data.stacks.len())
    })?;
    json.key("frameTable")?;
    json.object(|json| frames(&data.frames, json))?;
    let (mut files, mut file_ids) = (Vec::new(), FxHashMap::default());
    for func in data.funcs.iter().filter(|func| func.file != NONE) {
        file_ids.entry(func.file).or_insert_with(|| {
            files.push(func.file);
            files.len() as u64 - 1
        });
    }
    // The names of libraries stand behind the other texts.
    let first_lib = data.texts.len() as u64;
    json.key("funcTable")?;
    json.object(|json| {
        let (funcs, count) = (|| data.funcs.iter(), data.funcs.len());
        json.column("name", funcs(), |buf, func| put_unsigned(buf, func.name.into()))?;
        json.constant_column("isJS", count, "false")?;
        json.constant_column("relevantForJS", count, "false")?;
        json.column("resource", funcs(), |buf, func| put_or_minus_one(buf, some(func.lib)))?;
        json.column("source", funcs(), |buf, func| {
            put_optional(buf, file_ids.get(&func.file).copied())
        })?;
        json.constant_column("lineNumber", count, "null")?;
        json.constant_column("columnNumber", count, "null")?;
        json.constant_column("originalLocation", count, "null")?;
        json.entry("length", &count)
    })?;
    json.key("resourceTable")?;
    json.object(|json| {
        json.entry("length", &data.libs.len())?;
        json.column("name", 0..data.libs.len() as u64, |buf, lib| {
            put_unsigned(buf, first_lib + lib)
        })?;
        json.constant_column("host", data.libs.len(), "null")?;
        // ResourceType.Library
        json.constant_column("type", data.libs.len(), "1")
    })?;
    json.key("nativeSymbols")?;
    json.object(|json| {
        ["libIndex", "address", "name", "functionSize"]
            .iter()
            .try_for_each(|key| json.constant_column(key, 0, ""))?;
        json.entry("length", &0)
    })?;
    json.key("sources")?;
    json.object(|json| {
        json.entry("length", &files.len())?;
        json.constant_column("id", files.len(), "null")?;
        json.column("filename", files.iter(), |buf, file| put_unsigned(buf, (*file).into()))?;
        json.constant_column("startLine", files.len(), "1")?;
        json.constant_column("startColumn", files.len(), "1")?;
        json.constant_column("sourceMapURL", files.len(), "null")?;
        json.constant_column("content", files.len(), "null")
    })?;
    json.key("sourceLocationTable")?;
    json.object(|json| {
        ["source", "line", "column"]
            .iter()
            .try_for_each(|key| json.constant_column(key, 0, ""))?;
        json.entry("length", &0)
    })?;
    let libs = data.libs.iter().map(|lib| lib.name.as_deref().unwrap_or_default());
    let texts = data.texts.iter().map(|text| &**text);
    json.column("stringArray", texts.chain(libs), put_string)
}

fn frames(frames: &[Frame], json: &mut Json) -> io::Result<()> {
    let count = frames.len();
    json.column("address", frames.iter(), |buf, frame| {
        put_or_minus_one(buf, frame.address)
    })?;
    json.column("lib", frames.iter(), |buf, frame| {
        put_or_minus_one(buf, some(frame.lib))
    })?;
    json.column("inlineDepth", frames.iter(), |buf, frame| {
        put_unsigned(buf, frame.inlined.into())
    })?;
    json.column("category", frames.iter(), |buf, frame| {
        put_unsigned(buf, some(frame.category).unwrap_or(0));
    })?;
    json.constant_column("subcategory", count, "0")?;
    json.column("func", frames.iter(), |buf, frame| put_unsigned(buf, frame.func.into()))?;
    json.constant_column("nativeSymbol", count, "null")?;
    json.constant_column("innerWindowID", count, "null")?;
    json.column("line", frames.iter(), |buf, frame| put_optional(buf, some(frame.line)))?;
    json.constant_column("column", count, "null")?;
    json.constant_column("originalLocation", count, "null")?;
    json.entry("length", &count)
}

fn write_thread(data: &Data, thread: &Thread, json: &mut Json) -> io::Result<()> {
    json.entry("processType", &"default")?;
    json.entry("processStartupTime", &0)?;
    json.entry("processShutdownTime", &())?;
    json.entry("registerTime", &0)?;
    json.entry("unregisterTime", &())?;
    json.constant_column("pausedRanges", 0, "")?;
    match data.weights.as_ref().filter(|_| data.unit == Unit::Counts) {
        Some(weights) => json.entry("name", &counted_name(&thread.name, weights))?,
        None => json.entry("name", &thread.name)?,
    }
    json.entry("isMainThread", &thread.is_main)?;
    json.entry("processName", &thread.process_name)?;
    json.entry("pid", &thread.pid)?;
    json.entry("tid", &thread.tid)?;
    if let Some(event) = &thread.event {
        json.entry("event", event)?;
    }
    let samples = &thread.samples;
    json.key("samples")?;
    json.object(|json| {
        json.column("stack", samples.stack.iter(), |buf, stack| {
            put_optional(buf, some(*stack))
        })?;
        json.column("time", times_ms(data, thread), |buf, time| put_ms(buf, ns(time)))?;
        json.column("weight", samples.iter(), |buf, (_, _, weight)| {
            put_weight(buf, weight, data.unit)
        })?;
        json.entry(
            "weightType",
            &match data.unit {
                Unit::Milliseconds => "tracing-ms",
                Unit::Bytes => "bytes",
                Unit::Samples | Unit::Counts => "samples",
            },
        )?;
        // Of ours alone: how many samples each of these stands for.
        if let Some(counts) = &samples.count {
            json.column("count", counts.iter(), |buf, count| put_unsigned(buf, *count))?;
        }
        if data.unit == Unit::Milliseconds && !data.is_summed {
            json.column("threadCPUDelta", samples.iter(), |buf, (_, _, weight)| {
                put_unsigned(buf, ns(weight).unsigned_abs());
            })?;
        }
        json.entry("length", &samples.len())
    })?;
    json.key("markers")?;
    json.object(|json| {
        ["data", "name", "startTime", "endTime", "phase", "category"]
            .iter()
            .try_for_each(|key| json.constant_column(key, 0, ""))?;
        json.entry("length", &0)
    })
}
