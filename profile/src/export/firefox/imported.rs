//! Converts another profiler's file to the form of a Firefox profile.

use serde_json::{Value, json};

use crate::built::{GECKO_VERSION, number};
use crate::data::{Calls, Category, Data, Fields, NONE, Saved, Unit, Weights};
use crate::facts::{Facts, counted_name};
use crate::read::SavedLib;

/// The width of each stack without times. The front end shows nothing if all samples have the same time.
const EACH_MS: f64 = 1.0;

impl Data {
    /// Adds the fields that a Firefox profile needs and other formats lack.
    pub fn into_saved(mut self) -> Saved {
        if self.is_summed {
            for thread in &mut self.threads {
                let times = thread.samples.time_ms.iter_mut().enumerate();
                times.for_each(|(at, time)| *time = at as f64 * EACH_MS);
            }
        }
        self.meta = meta(&self);
        self.libs.iter_mut().for_each(complete);
        if self.categories.is_empty() {
            self.categories = Category::all();
            let none = self.frames.iter_mut().filter(|frame| frame.category == NONE);
            none.for_each(|frame| frame.category = 0);
        }
        for thread in &mut self.threads {
            for (key, value) in of_thread() {
                thread.rest.entry(key).or_insert(value);
            }
            // All threads of such a file have one unit.
            thread.unit = self.unit;
            if let Some(weights) = self.weights.as_ref().filter(|_| self.unit == Unit::Counts) {
                thread.name = counted_name(&thread.name, weights);
            }
            if self.unit == Unit::Milliseconds && !self.is_summed {
                let deltas = thread.samples.iter().map(|(_, _, weight)| (weight * 1e6).round().abs());
                thread.samples.cpu_delta = Some(deltas.collect());
            }
        }
        Saved(self)
    }
}

/// Fields of a thread that the front end needs and other formats lack.
fn of_thread() -> [(&'static str, Value); 6] {
    [
        ("processType", json!("default")),
        ("processStartupTime", json!(0)),
        ("processShutdownTime", Value::Null),
        ("registerTime", json!(0)),
        ("unregisterTime", Value::Null),
        ("pausedRanges", json!([])),
    ]
}

/// Adds the fields of a library that the front end needs.
fn complete(lib: &mut SavedLib) {
    for text in [
        &mut lib.arch,
        &mut lib.name,
        &mut lib.path,
        &mut lib.debug_name,
        &mut lib.debug_path,
    ] {
        text.get_or_insert_default();
    }
    // The front end's key of a library is `debugName/breakpadId`, split at the slash.
    lib.debug_name = lib.debug_name.as_ref().map(|name| name.replace('/', "_"));
    lib.breakpad_id.get_or_insert_with(|| "0".repeat(33));
}

fn meta(data: &Data) -> Fields {
    let interval_ms = match data.interval_ms > 0.0 && !data.is_summed {
        true => data.interval_ms,
        false => EACH_MS,
    };
    let last_ms = (data.threads.iter()).filter_map(|thread| thread.samples.time_ms.last().copied());
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let units = || json!({"time": "ms", "eventDelay": "ms", "threadCPUDelta": "ns"});
    let meta = json!({
        "version": GECKO_VERSION,
        "interval": number(interval_ms),
        "startTime": number(data.start_ms),
        "profilingStartTime": 0,
        "profilingEndTime": number(last_ms.fold(0.0, f64::max) + interval_ms),
        "product": data.product,
        "importedFrom": data.imported_from,
        "oscpu": text(&data.os),
        "CPUName": text(&data.cpu),
        "processType": 0,
        "stackwalk": 1,
        "sampleUnits": (data.unit == Unit::Milliseconds).then(units),
        "sprof": Facts::of_imported(data),
        "extra": extra(data),
        "usesOnlyOneStackType": true,
        "sourceCodeIsNotOnSearchfox": true,
    });
    match meta {
        Value::Object(mut meta) => {
            meta.retain(|_, value| !value.is_null());
            meta
        }
        _ => Fields::new(),
    }
}

/// Rows for the front end's "more info" panel: facts that it cannot compute.
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
