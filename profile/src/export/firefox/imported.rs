//! Converts another profiler's file to the form of a Firefox profile.

use serde_json::{Value, json};

use crate::data::SavedLib;
use crate::data::facts::{SprofFacts, counted_name};
use crate::data::{Calls, Category, Data, Fields, NONE, SavedData, WeightUnit, Weights};
use crate::to_data::{GECKO_VERSION, number};

/// The width of each stack of a file without times and duration. The front end shows nothing if all samples have the
/// same time.
const EACH_MS: f64 = 1.0;
/// The name of a thread without a name in the file.
const UNNAMED: &str = "all";

impl Data {
    /// Adds the fields that a Firefox profile needs and other formats lack.
    pub fn into_saved(mut self) -> SavedData {
        let each_ms = self.is_summed.then(|| each_ms(&self));
        if let Some(each_ms) = each_ms {
            for thread in &mut self.threads {
                let times = thread.samples.time_ms.iter_mut().enumerate();
                times.for_each(|(at, time)| *time = at as f64 * each_ms);
            }
        }
        self.meta = meta(&self, each_ms);
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
            if let Some(weights) = self.weights.as_ref().filter(|_| self.unit == WeightUnit::Counts) {
                thread.name = counted_name(&thread.name, weights);
            }
            if thread.name.is_empty() {
                let names = [&thread.process_name, &self.product]
                    .into_iter()
                    .filter(|name| !name.is_empty());
                thread.name = { names }.next().map_or(UNNAMED, |name| name).to_owned();
            }
            // Without a value, the front end draws the thread as busy all the time.
            let has_times = self.unit == WeightUnit::Milliseconds && !self.is_summed;
            let delta = |weight: f64| if has_times { (weight * 1e6).round().abs() } else { 0.0 };
            let deltas = thread.samples.iter().map(|(_, _, weight)| delta(weight));
            thread.samples.cpu_delta = Some(deltas.collect());
        }
        SavedData(self)
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

/// The width of each stack of a file without times: together they are as long as the recording was, if the file says
/// that.
fn each_ms(data: &Data) -> f64 {
    let rows = data
        .threads
        .iter()
        .map(|thread| thread.samples.len())
        .max()
        .unwrap_or(0);
    let duration_ms = data.duration_ms.filter(|duration| *duration > 0.0 && rows > 0);
    duration_ms.map_or(EACH_MS, |duration_ms| duration_ms / rows as f64)
}

/// `each_ms`: the width of each stack of a file without times.
fn meta(data: &Data, each_ms: Option<f64>) -> Fields {
    let interval_ms = each_ms.unwrap_or(match data.interval_ms > 0.0 {
        true => data.interval_ms,
        false => EACH_MS,
    });
    let last_ms = (data.threads.iter()).filter_map(|thread| thread.samples.time_ms.last().copied());
    let last_ms = last_ms.fold(0.0, f64::max) + interval_ms;
    // Without these two fields, the front end shows no length.
    let end_ms = match (data.duration_ms, data.is_summed) {
        (Some(duration_ms), _) => Some(duration_ms.max(last_ms)),
        (None, is_summed) => (!is_summed).then_some(last_ms),
    };
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let meta = json!({
        "version": GECKO_VERSION,
        "interval": number(interval_ms),
        "startTime": number(data.start_ms),
        "profilingStartTime": end_ms.map(|_| 0),
        "profilingEndTime": end_ms.map(number),
        "product": data.product,
        "importedFrom": data.imported_from,
        "oscpu": text(&data.os),
        "CPUName": text(&data.cpu),
        "processType": 0,
        "stackwalk": 1,
        "sampleUnits": {"time": "ms", "eventDelay": "ms", "threadCPUDelta": "ns"},
        "sprof": SprofFacts::of_imported(data),
        "extra": extra(data),
        // See the `meta` of recordings.
        "updateChannel": "release",
        "usesOnlyOneStackType": !data.scripts.iter().any(|script| script.is_js),
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
