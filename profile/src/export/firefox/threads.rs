//! `threads`: samples and markers.

use std::io;

use recording::info::PeriodUnit;

use super::cpu::CpuDelta;
use super::json::{Json, put_ms, put_optional, put_optional_ms, put_unsigned};
use super::markers;
use crate::model::Profile;
use crate::model::samples::Samples;
use crate::model::thread::Thread;

pub(super) fn write(profile: &Profile, json: &mut Json) -> io::Result<()> {
    let cpu = CpuDelta::of(profile);
    json.key("threads")?;
    json.array(|json| {
        (profile.threads.iter()).try_for_each(|thread| json.object(|json| write_thread(profile, thread, cpu, json)))
    })
}

fn write_thread(profile: &Profile, thread: &Thread, cpu: CpuDelta, json: &mut Json) -> io::Result<()> {
    let process = &profile.processes[thread.process.0];
    json.entry("processType", &"default")?;
    time(json, "processStartupTime", Some(process.start))?;
    time(json, "processShutdownTime", process.end)?;
    time(json, "registerTime", Some(thread.start))?;
    time(json, "unregisterTime", thread.end)?;
    json.constant_column("pausedRanges", 0, "")?;
    let is_in_timeline = thread.markers.iter().any(|marker| marker.what.is_in_timeline());
    json.entry("showMarkersInTimeline", &is_in_timeline)?;
    json.entry("name", &thread.name)?;
    json.entry("isMainThread", &thread.is_main)?;
    json.entry("processName", &process.name)?;
    json.entry("pid", &process.id)?;
    json.entry("tid", &thread.id)?;
    if let Some(event) = profile.counted_event(thread) {
        json.entry("event", &event)?;
    }
    json.key("samples")?;
    json.object(|json| match profile.unit_of(thread) {
        PeriodUnit::Counts => write_counts(&thread.samples, json),
        // A further event that counts time, beside samples that do or do not.
        PeriodUnit::CpuNanoseconds if thread.event.is_some() => {
            write_samples(profile, &thread.samples, CpuDelta::Nanoseconds, json)
        }
        PeriodUnit::CpuNanoseconds | PeriodUnit::Cycles => write_samples(profile, &thread.samples, cpu, json),
    })?;
    json.key("markers")?;
    json.object(|json| markers::write(profile, thread, json))
}

fn time(json: &mut Json, key: &str, ns: Option<i64>) -> io::Result<()> {
    json.key(key)?;
    json.value(|buf| put_optional_ms(buf, ns))
}

/// Samples whose weights are counts. The front end has no unit for these: it calls them samples, and passes over the thread's
/// `event`, which tells other readers what they are. There is no `threadCPUDelta`: how often an event happens tells nothing of CPU time.
fn write_counts(samples: &Samples, json: &mut Json) -> io::Result<()> {
    write_stacks(samples, json)?;
    json.column("weight", samples.iter(), |buf, sample| put_unsigned(buf, sample.period))?;
    json.entry("weightType", &"samples")?;
    json.entry("length", &samples.len())
}

fn write_stacks(samples: &Samples, json: &mut Json) -> io::Result<()> {
    json.column("stack", samples.iter(), |buf, sample| {
        put_optional(buf, sample.stack.map(|stack| stack.0.into()));
    })?;
    let mut last = 0;
    let deltas = samples.iter().map(|sample| {
        let delta = sample.time - last;
        last = sample.time;
        delta
    });
    json.column("timeDeltas", deltas, put_ms)
}

/// Samples whose weights are time. The front end would take the gaps between samples for the time of samples without weights: of
/// 206 samples of 1 ms beside waits it made 3,008 ms.
fn write_samples(profile: &Profile, samples: &Samples, cpu: CpuDelta, json: &mut Json) -> io::Result<()> {
    write_stacks(samples, json)?;
    json.column("weight", samples.iter(), |buf, sample| {
        put_ms(buf, cpu.time_of(&sample, profile.info.interval_ns));
    })?;
    json.entry("weightType", &"tracing-ms")?;
    // Graphs ignore the first value, as nothing precedes it; scores count it, and so do we.
    json.column("threadCPUDelta", samples.iter(), |buf, sample| {
        put_unsigned(buf, cpu.before(&sample));
    })?;
    json.entry("length", &samples.len())
}
