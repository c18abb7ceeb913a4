//! `meta.sprof`: what the format of the Firefox Profiler has no words for, typed. Readers take it from here, never from labels.

use serde::{Deserialize, Serialize};

use crate::view::data::{Calls, Data, Unit, Weights};

/// Goes up when a field changes its meaning. New fields leave it.
const VERSION: u32 = 1;

/// The object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Facts {
    version: u32,
    imported: Option<Imported>,
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
        }
    }

    /// Gives data that was read of the converted file what the format lost of it. False if it was not converted.
    pub(crate) fn restore(self, data: &mut Data) -> bool {
        let Some(imported) = self.imported.filter(|_| self.version <= VERSION) else {
            return false;
        };
        for thread in &mut data.threads {
            if imported.is_summed {
                thread.samples.time_ms.fill(0.0);
            }
            if let (Unit::Counts, Some(weights)) = (imported.unit, &imported.weights) {
                thread.unit = Unit::Counts;
                let name = thread.name.strip_suffix(&thread_suffix(weights));
                thread.name = name.unwrap_or(&thread.name).to_owned();
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

/// What a thread's name ends with where weights are counts: the front end calls all that it counts samples.
pub(crate) fn thread_suffix(weights: &Weights) -> String {
    format!(" ({})", weights.name)
}
