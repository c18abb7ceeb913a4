//! `meta.sprof`: what the format of the Firefox Profiler has no words for, typed. Readers take it from here, never from the labels of
//! `meta.extra`, which are made of the same for the front end's panel.

use serde::{Deserialize, Serialize};

use crate::data::{Calls, Data, Fields, Recorded, Unit, Weights};

/// Goes up when a field changes its meaning. New fields leave it.
const VERSION: u32 = 1;

/// The object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Facts {
    version: u32,
    imported: Option<Imported>,
    recorded: Option<Recorded>,
}

/// Of a profile that was made of another profiler's file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Imported {
    unit: Unit,
    weights: Option<Weights>,
    /// Times of samples are made up: see [`Data::is_summed`].
    is_summed: bool,
    /// Each stack is one frame, where false.
    has_call_paths: bool,
    /// 0 if the file does not say.
    interval_ms: f64,
    duration_ms: Option<f64>,
}

impl Facts {
    /// Of what was read of another profiler's file.
    pub(crate) fn of_imported(data: &Data) -> Facts {
        Facts {
            version: VERSION,
            imported: Some(Imported {
                unit: data.unit,
                weights: data.weights.clone(),
                is_summed: data.is_summed,
                has_call_paths: data.calls == Calls::Paths,
                interval_ms: data.interval_ms,
                duration_ms: data.duration_ms,
            }),
            ..Facts::default()
        }
    }

    /// The object of a file.
    pub(crate) fn of_meta(meta: &Fields) -> Facts {
        let facts = meta.get("sprof").map(Facts::deserialize);
        facts.and_then(Result::ok).unwrap_or_default()
    }

    /// True if these say of which units another profiler's samples are.
    pub(crate) fn is_imported(&self) -> bool {
        self.imported.is_some()
    }

    /// Of a recording.
    pub(crate) fn of_recorded(recorded: Recorded) -> Facts {
        Facts {
            version: VERSION,
            recorded: Some(recorded),
            ..Facts::default()
        }
    }

    /// How it was recorded, where the file is of a recording and its facts are known here.
    pub(crate) fn into_recorded(self) -> Option<Recorded> {
        self.recorded.filter(|_| self.version <= VERSION)
    }

    /// Gives data that was read of the file what the format lost of it. False if nothing replaces what its samples stand for.
    pub(crate) fn restore(self, data: &mut Data) -> bool {
        if self.version > VERSION {
            data.newer_facts = true;
            return false;
        }
        data.recorded = self.recorded;
        let Some(imported) = self.imported else {
            return false;
        };
        for thread in &mut data.threads {
            if imported.is_summed {
                thread.samples.time_ms.fill(0.0);
            }
            if let (Unit::Counts, Some(weights)) = (imported.unit, &imported.weights) {
                thread.unit = Unit::Counts;
                thread.name = match thread.name.strip_suffix(&suffix(weights)) {
                    Some(name) => name.to_owned(),
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

/// The name of a thread where weights are counts, with their name: the front end calls all that it counts samples.
pub(crate) fn counted_name(thread: &str, weights: &Weights) -> String {
    match thread {
        "" => weights.name.clone(),
        thread => format!("{thread}{}", suffix(weights)),
    }
}

fn suffix(weights: &Weights) -> String {
    format!(" ({})", weights.name)
}
