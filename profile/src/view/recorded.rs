//! A profile that was just built, as the data that all views are of.

use std::time::UNIX_EPOCH;

use recording::info::{EventRole, PeriodUnit};
use rustc_hash::FxHashMap;

use super::data::{Data, Frame, Func, Marker, NONE, Samples, Stack, Thread, Unit};
use crate::category::CATEGORIES;
use crate::export::firefox::{CpuDelta, PRODUCER, name_of_marker, recorded_facts, sections, usual_period};
use crate::model::Profile;
use crate::model::samples::Sample;
use crate::model::strings::StringId;
use crate::model::thread::{self, MarkerKind};
use crate::read::{PointSample, SavedLib, count_equal_weights, threads_of_points, unit_of_first};

/// All that views take of the profile's file, without the file.
impl From<&Profile> for Data {
    fn from(profile: &Profile) -> Data {
        let info = &profile.info;
        let cpu = CpuDelta::of(profile);
        let markers = info.events.iter().filter(|event| event.role == EventRole::Marker);
        let mut point_events: Vec<String> = markers.map(|event| event.name.clone()).collect();
        point_events.sort();
        point_events.dedup();
        let threads = profile.threads.iter().map(|thread| whole(profile, thread, cpu));
        let mut threads: Vec<Thread> = threads.collect();
        for (of, thread) in profile.threads.iter().enumerate() {
            let points = points(profile, thread, &threads[of]);
            threads.extend(points);
        }
        let zero = info.clock.wall.duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut data = Data {
            product: info.program.clone(),
            imported_from: PRODUCER.to_owned(),
            arguments: info.args.as_ref().map_or_else(String::new, |args| args.join(" ")),
            os: info.host.os.clone().unwrap_or_default(),
            cpu: info.host.cpu_name.clone().unwrap_or_default(),
            start_ms: zero.as_nanos() as f64 / 1e6,
            duration_ms: Some(info.end.nanos_since(info.clock.timestamp) as f64 / 1e6),
            interval_ms: info.interval_ns as f64 / 1e6,
            recorded: Some(recorded_facts(profile)),
            extra: sections(profile),
            threads,
            point_events,
            ..tables(profile)
        };
        count_equal_weights(&mut data);
        data.unit = unit_of_first(&data);
        data
    }
}

/// Samples of running threads, added up by thread and stack: what a saved file says of shares, without times, waits and markers.
/// Its weights have no unit.
pub fn recorded(profile: &Profile) -> Data {
    Data {
        product: profile.info.program.clone(),
        unit: Unit::Counts,
        is_summed: true,
        threads: profile.main_threads().map(|thread| summed(profile, thread)).collect(),
        ..tables(profile)
    }
}

/// Everything that stacks are made of. A function has the library of its frames, and is there once for each.
fn tables(profile: &Profile) -> Data {
    let tables = &profile.tables;
    let mut funcs: Vec<Func> = Vec::with_capacity(tables.funcs.len());
    let mut ids: FxHashMap<Func, u32> = FxHashMap::default();
    let frames = tables.frames.iter().map(|frame| {
        let func = tables.func(frame.func);
        let lib = frame.lib.map_or(NONE, |lib| lib.0);
        let func = Func {
            name: func.name.0,
            lib,
            file: func.source.map_or(NONE, |source| source.0),
        };
        let func = *ids.entry(func).or_insert_with(|| {
            funcs.push(func);
            funcs.len() as u32 - 1
        });
        Frame {
            func,
            line: frame.line.unwrap_or(NONE),
            category: frame.kind.category(frame.inline_depth > 0).0 as u32,
            lib,
            address: frame.address,
            inlined: frame.inline_depth > 0,
        }
    });
    let frames = frames.collect();
    let stacks = profile.stacks.iter().map(|(_, prefix, frame)| Stack {
        prefix: prefix.map_or(NONE, |prefix| prefix.0),
        frame: frame.0,
    });
    Data {
        symbolicated: profile.symbolicated,
        categories: CATEGORIES.iter().map(|category| category.name.to_owned()).collect(),
        libs: tables.libs.iter().map(|lib| SavedLib::of(&lib.module)).collect(),
        texts: profile.strings.iter().map(Into::into).collect(),
        funcs,
        frames,
        stacks: stacks.collect(),
        ..Data::default()
    }
}

fn of_thread(profile: &Profile, thread: &thread::Thread) -> Thread {
    let process = &profile.processes[thread.process.0];
    Thread {
        name: thread.name.clone(),
        process_name: process.name.clone(),
        pid: process.id.clone(),
        tid: thread.id.clone(),
        is_main: thread.is_main,
        ..Thread::default()
    }
}

fn whole(profile: &Profile, thread: &thread::Thread, cpu: CpuDelta) -> Thread {
    let event = profile.counted_event(thread);
    let is_time = profile.unit_of(thread) != PeriodUnit::Counts;
    let cpu = if thread.event.is_some() {
        CpuDelta::Nanoseconds
    } else {
        cpu
    };
    let count = thread.samples.len();
    let mut samples = Samples {
        time_ms: Vec::with_capacity(count),
        stack: Vec::with_capacity(count),
        weight: (count > 0).then(|| Vec::with_capacity(count)),
        count: None,
    };
    for sample in thread.samples.iter() {
        samples.time_ms.push(ms(sample.time));
        samples.stack.push(sample.stack.map_or(NONE, |stack| stack.0));
        let weight = match is_time {
            true => ms(cpu.time_of(&sample, profile.info.interval_ns)),
            false => sample.period as f64,
        };
        samples.weight.get_or_insert_default().push(weight);
    }
    let markers = thread.markers.iter().map(|marker| Marker {
        name: name_of_marker(profile, &marker.what).0,
        start_ms: ms(marker.start),
        end_ms: ms(marker.end.unwrap_or(marker.start)),
    });
    Thread {
        event: event.map(str::to_owned),
        unit: if is_time { Unit::Milliseconds } else { Unit::Counts },
        samples,
        markers: markers.collect(),
        ..of_thread(profile, thread)
    }
}

fn ms(ns: i64) -> f64 {
    ns as f64 / 1e6
}

/// The point events of a thread, a thread of samples for each of them.
fn points(profile: &Profile, thread: &thread::Thread, of: &Thread) -> Vec<Thread> {
    let mut points = Vec::new();
    for marker in &thread.markers {
        let MarkerKind::Point(point) = &marker.what else {
            continue;
        };
        let weight = point.stack.map_or_else(
            || profile.info.events.get(point.event as usize).map_or(1, usual_period),
            |_| point.period,
        );
        points.push(PointSample {
            name: name_of_marker(profile, &marker.what).0,
            time_ms: ms(marker.start),
            stack: point.stack.map_or(NONE, |stack| stack.0),
            weight: weight as f64,
        });
    }
    threads_of_points(points, of, |name| profile.strings.get(StringId(name)).to_owned())
}

fn summed(profile: &Profile, thread: &thread::Thread) -> Thread {
    // (samples, periods)
    let mut sums: FxHashMap<u32, (u64, u64)> = FxHashMap::default();
    for Sample { stack, period, .. } in thread.samples.iter().filter(|sample| !sample.off_cpu) {
        let sum = sums.entry(stack.map_or(NONE, |stack| stack.0)).or_default();
        *sum = (sum.0 + 1, sum.1.saturating_add(period));
    }
    Thread {
        unit: Unit::Counts,
        samples: Samples {
            time_ms: vec![0.0; sums.len()],
            stack: sums.keys().copied().collect(),
            weight: Some(sums.values().map(|(_, periods)| *periods as f64).collect()),
            count: Some(sums.values().map(|(samples, _)| *samples).collect()),
        },
        ..of_thread(profile, thread)
    }
}
