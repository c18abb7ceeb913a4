//! `counters`: lines of the memory and the CPU time of processes.

use std::io;

use serde_json::{Value, json};

use super::json::{Json, put_ms, put_signed, put_unsigned};
use crate::model::Profile;
use crate::model::thread::Process;
use crate::model::usage::Series;

/// Below the lines of events, whose weights are their places.
const SORT_WEIGHT: usize = 1000;

/// The lines of a profile: a process, and where it is in the file.
pub(super) struct Lines<'a> {
    processes: Vec<Line<'a>>,
}

struct Line<'a> {
    process: &'a Process,
    main_thread: usize,
    /// Of a process with one thread, that thread's own graph says it.
    has_cpu: bool,
}

impl<'a> Lines<'a> {
    pub(super) fn of(profile: &'a Profile) -> Lines<'a> {
        // Of each process its main thread, and how many of its threads have samples.
        let mut threads_of = vec![(None, 0); profile.processes.len()];
        for (index, thread) in profile.threads.iter().enumerate() {
            if let Some((main, busy)) = threads_of.get_mut(thread.process.0)
                && thread.event.is_none()
            {
                *main = main.or(thread.is_main.then_some(index));
                *busy += usize::from(thread.samples.len() > 0);
            }
        }
        let processes = profile.processes.iter().zip(threads_of);
        Lines {
            processes: processes
                .filter_map(|(process, (main_thread, busy))| {
                    Some(Line {
                        process,
                        main_thread: main_thread?,
                        has_cpu: busy > 1,
                    })
                })
                .collect(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.processes
            .iter()
            .all(|line| line.memory().is_none() && line.cpu().is_none())
    }

    pub(super) fn write(&self, json: &mut Json) -> io::Result<()> {
        for line in &self.processes {
            if let Some(series) = line.memory() {
                line.write_memory(series, json)?;
            }
            if let Some(series) = line.cpu() {
                line.write_cpu(series, json)?;
            }
        }
        Ok(())
    }
}

impl Line<'_> {
    fn memory(&self) -> Option<&Series> {
        Some(&self.process.usage.resident_bytes).filter(|series| is_line(series))
    }

    fn cpu(&self) -> Option<&Series> {
        Some(&self.process.usage.cpu_ns).filter(|series| self.has_cpu && is_line(series))
    }

    /// The front end adds counts up, and takes the first one for unreliable: that is zero, at the first reading's time. What the
    /// process has as a whole is in `number`, which the front end shows as it is.
    fn write_memory(&self, series: &Series, json: &mut Json) -> io::Result<()> {
        let points = series.points();
        let first = points.first().map(|(time, _)| (*time, 0));
        let points: Vec<(i64, u64)> = first.into_iter().chain(points.iter().copied()).collect();
        let before = [0].into_iter().chain(points.iter().map(|(_, bytes)| *bytes));
        let about = ["memory", "Memory", "Memory of the process that is in RAM"];
        self.write(about, &memory_display(), json, |json| {
            json.column("time", points.iter(), |buf, (time, _)| put_ms(buf, *time))?;
            json.column("count", points.iter().zip(before), |buf, ((_, bytes), before)| {
                put_signed(buf, bytes.cast_signed().wrapping_sub(before.cast_signed()));
            })?;
            json.column("number", points.iter(), |buf, (_, bytes)| put_unsigned(buf, *bytes))?;
            json.entry("length", &points.len())
        })
    }

    /// Counts are ms of CPU time since the point before: the rate of these is the number of CPUs.
    fn write_cpu(&self, series: &Series, json: &mut Json) -> io::Result<()> {
        let points = series.points();
        let before = points.first().into_iter().chain(points);
        let about = ["processCPU", "CPU", "CPU time of all threads of the process"];
        self.write(about, &cpu_display(), json, |json| {
            json.column("time", points.iter(), |buf, (time, _)| put_ms(buf, *time))?;
            json.column("count", points.iter().zip(before), |buf, ((_, cpu_ns), (_, before))| {
                put_ms(buf, i64::try_from(cpu_ns.saturating_sub(*before)).unwrap_or(i64::MAX));
            })?;
            json.entry("length", &points.len())
        })
    }

    fn write(
        &self,
        [name, category, description]: [&str; 3],
        display: &Value,
        json: &mut Json,
        samples: impl FnOnce(&mut Json) -> io::Result<()>,
    ) -> io::Result<()> {
        json.object(|json| {
            json.entry("name", &name)?;
            json.entry("category", &category)?;
            json.entry("description", &description)?;
            json.entry("pid", &self.process.id)?;
            json.entry("mainThreadIndex", &self.main_thread)?;
            json.key("samples")?;
            json.object(samples)?;
            json.entry("display", display)
        })
    }
}

/// One point is no line.
fn is_line(series: &Series) -> bool {
    series.points().len() > 1
}

/// `CounterDisplayConfig` of src/types/profile.ts.
fn memory_display() -> Value {
    let bytes = json!({"unit": "bytes"});
    json!({
        "graphType": "line-accumulated",
        "unit": "bytes",
        "color": "orange",
        "markerSchemaLocation": null,
        "sortWeight": SORT_WEIGHT,
        "label": "Memory",
        "tooltipRows": [
            {"type": "value", "source": "sample-number", "format": bytes, "label": "Memory in RAM"},
            {"type": "value", "source": "count-range", "format": bytes, "label": "Range in the graph"},
        ],
    })
}

fn cpu_display() -> Value {
    json!({
        "graphType": "line-rate",
        "unit": "percent",
        "color": "grey",
        "markerSchemaLocation": null,
        "sortWeight": SORT_WEIGHT + 1,
        "label": "Process CPU",
        "tooltipRows": [
            {"type": "value", "source": "rate", "format": {"unit": "percent"}, "label": "CPU of all threads (100 % is one CPU)"},
            {"type": "value", "source": "selection-total", "format": {"unit": "number"}, "requiresPreviewSelection": true,
                "label": "ms of CPU time in the selection"},
        ],
    })
}
