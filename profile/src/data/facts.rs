//! `meta.sprof`: typed facts that the Firefox Profiler's format has no fields for. Readers use these, never the labels
//! of `meta.extra`, which the front end's panel shows.

use serde::{Deserialize, Serialize};

use super::{Calls, Data, Fields, RecordingFacts, WeightUnit, Weights};

/// Increases when a field changes its meaning, not for a new field.
const VERSION: u32 = 1;

/// The object `meta.sprof`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct SprofFacts {
    version: u32,
    imported: Option<ImportedFacts>,
    recorded: Option<RecordingFacts>,
}

/// Facts of a profile that was converted from another profiler's file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ImportedFacts {
    unit: WeightUnit,
    weights: Option<Weights>,
    /// Times of samples are artificial: see [`Data::is_summed`].
    is_summed: bool,
    /// If false, each stack is one frame.
    has_call_paths: bool,
    /// 0 if the file does not say.
    interval_ms: f64,
    duration_ms: Option<f64>,
    /// Threads that the file has no name of: theirs are made up.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unnamed_threads: Vec<usize>,
}

impl SprofFacts {
    /// Facts of a converted file.
    pub(crate) fn of_imported(data: &Data) -> SprofFacts {
        SprofFacts {
            version: VERSION,
            imported: Some(ImportedFacts {
                unit: data.unit,
                weights: data.weights.clone(),
                is_summed: data.is_summed,
                has_call_paths: data.calls == Calls::Paths,
                interval_ms: data.interval_ms,
                duration_ms: data.duration_ms,
                unnamed_threads: (data.threads.iter().enumerate())
                    .filter(|(_, thread)| thread.name.is_empty())
                    .map(|(at, _)| at)
                    .collect(),
            }),
            ..SprofFacts::default()
        }
    }

    /// The facts of a file.
    pub(crate) fn of_meta(meta: &Fields) -> SprofFacts {
        let facts = meta.get("sprof").map(SprofFacts::deserialize);
        facts.and_then(Result::ok).unwrap_or_default()
    }

    /// True if the facts give the unit of another profiler's samples.
    pub(crate) fn is_imported(&self) -> bool {
        self.imported.is_some()
    }

    /// Facts of a recording.
    pub(crate) fn of_recorded(recorded: RecordingFacts) -> SprofFacts {
        SprofFacts {
            version: VERSION,
            recorded: Some(recorded),
            ..SprofFacts::default()
        }
    }

    /// The facts of a recording, if the file has them in a known version.
    pub(crate) fn into_recorded(self) -> Option<RecordingFacts> {
        self.recorded.filter(|_| self.version <= VERSION)
    }

    /// Restores the properties that the format cannot hold. False if the unit of the samples is not among them.
    pub(crate) fn restore(self, data: &mut Data) -> bool {
        if self.version > VERSION {
            data.newer_facts = true;
            return false;
        }
        data.recorded = self.recorded;
        data.main_threads_have_titles = data.recorded.is_some();
        let Some(imported) = self.imported else {
            return false;
        };
        for at in imported.unnamed_threads {
            if let Some(thread) = data.threads.get_mut(at) {
                thread.name.clear();
            }
        }
        for thread in &mut data.threads {
            if imported.is_summed {
                thread.samples.time_ms.fill(0.0);
            }
            if let (WeightUnit::Counts, Some(weights)) = (imported.unit, &imported.weights) {
                thread.unit = WeightUnit::Counts;
                thread.name = match without_event(&thread.name, &weights.name) {
                    Some(name) => name.to_owned(),
                    // Earlier files do not say which threads have no name.
                    None if thread.name == weights.name => String::new(),
                    None => std::mem::take(&mut thread.name),
                };
            }
        }
        if !imported.has_call_paths {
            data.calls = Calls::Unknown;
        }
        data.weights = imported.weights;
        data.is_summed = imported.is_summed;
        data.interval_ms = imported.interval_ms;
        data.duration_ms = imported.duration_ms;
        true
    }
}

/// The name of a thread with counts, including the name of the count: the front end calls every count samples.
pub(crate) fn counted_name(thread: &str, weights: &Weights) -> String {
    match thread {
        "" => weights.name.clone(),
        thread => counted_by(thread, &weights.name),
    }
}

/// The name of a thread in a file, where its samples are counts.
pub(crate) fn counted_by(thread: &str, event: &str) -> String {
    format!("{thread} ({event})")
}

/// The name without what [`counted_by`] has added.
pub(crate) fn without_event<'a>(name: &'a str, event: &str) -> Option<&'a str> {
    let name = name.strip_suffix(')')?.strip_suffix(event)?;
    name.strip_suffix(" (")
}
