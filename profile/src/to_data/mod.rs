//! Converts a built profile to the data that views and writers take.
//!
//! [`Built`] makes all of a file. `cpu`: what samples represent; `meta`, `extra`, `quality`: facts about the recording;
//! `markers`, `counters`, `usage`, `tracks`: events, resource usage, and the initially visible rows.

mod counters;
mod cpu;
mod extra;
mod markers;
mod meta;
mod numbers;
mod quality;
mod tracks;
mod usage;

use recording::info::PeriodUnit;
use rustc_hash::FxHashMap;
use serde_json::json;

use crate::data::facts::SprofFacts;
use crate::data::{
    Category, Counter, Data, Fields, ForViews, Frame, Func, NONE, Samples, Saved, SavedLib, Script, Stack, Symbol,
    Thread, Unit, prepare,
};
use crate::recorded::Profile;
use crate::recorded::samples::RecordedSample;
use crate::recorded::thread;
use crate::unique::Unique;
use cpu::CpuDelta;
pub(crate) use meta::{GECKO_VERSION, PRODUCER};
pub(crate) use numbers::number;
use numbers::{json_ms, ms};

/// The data for views, equal to the data read from the profile's file.
impl From<&Profile> for Data {
    fn from(profile: &Profile) -> Data {
        let built = Built::new(profile);
        let mut data = Data {
            threads: built.threads(false).collect(),
            stacks: built.stacks().collect(),
            ..built.about()
        };
        prepare(&mut data, built.for_views());
        data
    }
}

/// The same with counters and types of markers, for the viewer; and the recording's start in the counters' times, ms.
pub fn for_page(profile: &Profile) -> (Data, f64) {
    let built = Built::new(profile);
    let mut data = Data {
        threads: built.threads(true).collect(),
        stacks: built.stacks().collect(),
        schemas: markers::schemas(profile),
        counters: counters(profile),
        ..built.about()
    };
    let zero_ms = prepare(&mut data, built.for_views());
    (data, zero_ms)
}

/// The profile as if read from its file.
pub fn saved_form(profile: &Profile) -> Saved {
    let built = Built::new(profile);
    Saved(Data {
        threads: built.threads(true).collect(),
        stacks: built.stacks().collect(),
        meta: meta::meta(profile),
        schemas: markers::schemas(profile),
        counters: counters(profile),
        recorded: Some(quality::recorded_facts(profile)),
        ..built.about()
    })
}

/// Counters of events and of processes' resource usage.
fn counters(profile: &Profile) -> Vec<Counter> {
    counters::of_events(profile)
        .into_iter()
        .chain(usage::lines(profile))
        .collect()
}

/// A profile in the form of its file. Threads and stacks are made one by one: columns of all samples would take several
/// times the profile's memory.
pub(crate) struct Built<'a> {
    profile: &'a Profile,
    cpu: CpuDelta,
}

impl<'a> Built<'a> {
    pub(crate) fn new(profile: &'a Profile) -> Built<'a> {
        Built {
            profile,
            cpu: CpuDelta::of(profile),
        }
    }

    /// The facts about the recording, and the tables without stacks.
    fn about(&self) -> Data {
        let profile = self.profile;
        Data {
            product: profile.info.program.clone(),
            imported_from: PRODUCER.to_owned(),
            arguments: profile
                .info
                .args
                .as_ref()
                .map_or_else(String::new, |args| args.join(" ")),
            os: profile.info.host.os.clone().unwrap_or_default(),
            cpu: profile.info.host.cpu_name.clone().unwrap_or_default(),
            start_ms: meta::start_ms(profile),
            duration_ms: Some(meta::duration_ms(profile)),
            interval_ms: profile.info.interval_ns as f64 / 1e6,
            extra: extra::sections(profile),
            ..tables(profile)
        }
    }

    /// Everything except threads and stacks.
    pub(crate) fn head(&self) -> Data {
        Data {
            meta: meta::meta(self.profile),
            schemas: markers::schemas(self.profile),
            counters: counters(self.profile),
            ..tables(self.profile)
        }
    }

    pub(crate) fn stacks(&self) -> impl Iterator<Item = Stack> + 'a {
        self.profile.stacks.iter().map(|(_, prefix, frame)| Stack {
            prefix: prefix.map_or(NONE, |prefix| prefix.0),
            frame: frame.0,
        })
    }

    /// `for_file` adds fields that no view uses.
    pub(crate) fn threads(&self, for_file: bool) -> impl Iterator<Item = Thread> {
        // A further event's track follows the thread in which the event happened.
        let mut of = "";
        self.profile.threads.iter().map(move |thread| {
            if thread.event.is_none() {
                of = &thread.name;
            }
            Thread {
                event_of: thread.event.map(|_| of.to_owned()),
                ..self.thread(thread, for_file)
            }
        })
    }

    fn for_views(&self) -> ForViews {
        ForViews {
            facts: SprofFacts::of_recorded(quality::recorded_facts(self.profile)),
            periods: markers::periods(self.profile),
            zero_ms: Some(0.0),
        }
    }

    fn thread(&self, thread: &thread::RecordedThread, for_file: bool) -> Thread {
        let profile = self.profile;
        let is_time = profile.unit_of(thread) != PeriodUnit::Counts;
        // A further event may count time, whether or not the first event does.
        let cpu = if thread.event.is_some() {
            CpuDelta::Nanoseconds
        } else {
            self.cpu
        };
        let count = thread.samples.len();
        let mut samples = Samples {
            time_ms: Vec::with_capacity(count),
            stack: Vec::with_capacity(count),
            weight: (count > 0).then(|| Vec::with_capacity(count)),
            cpu_delta: for_file.then(|| match is_time {
                true => Vec::with_capacity(count),
                false => cpu::by_readings(&profile.processes[thread.process.0], thread),
            }),
            ..Samples::default()
        };
        for sample in thread.samples.iter() {
            samples.time_ms.push(ms(sample.time));
            samples.stack.push(sample.stack.map_or(NONE, |stack| stack.0));
            samples.weight.get_or_insert_default().push(match is_time {
                true => ms(cpu.time_of(&sample, profile.info.interval_ns)),
                // Counts are not times. The front end has no unit for counts and calls them samples.
                false => sample.period as f64,
            });
            if let Some(deltas) = samples.cpu_delta.as_mut().filter(|_| is_time) {
                // Graphs ignore the first value, because no sample precedes it. Scores count it, so it is written.
                deltas.push(cpu.before(&sample) as f64);
            }
        }
        let markers = thread.markers.iter();
        Thread {
            event: profile.counted_event(thread).map(str::to_owned),
            unit: if is_time { Unit::Milliseconds } else { Unit::Counts },
            samples,
            markers: markers
                .map(|marker| markers::marker(profile, thread, marker, for_file))
                .collect(),
            rest: match for_file {
                true => rest(profile, thread),
                false => Fields::new(),
            },
            ..of_thread(profile, thread)
        }
    }
}

fn rest(profile: &Profile, thread: &thread::RecordedThread) -> Fields {
    let process = &profile.processes[thread.process.0];
    let is_in_timeline = thread.markers.iter().any(|marker| marker.what.is_in_timeline());
    let fields = [
        ("processType", json!("default")),
        ("processStartupTime", json_ms(process.start)),
        ("processShutdownTime", json!(process.end.map(json_ms))),
        ("registerTime", json_ms(thread.start)),
        ("unregisterTime", json!(thread.end.map(json_ms))),
        ("pausedRanges", json!([])),
        ("showMarkersInTimeline", json!(is_in_timeline)),
    ];
    fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// Samples of running threads, summed by thread and stack: the same shares as in a saved file, without times, waits and
/// markers. The weights have no unit.
pub fn recorded(profile: &Profile) -> Data {
    Data {
        product: profile.info.program.clone(),
        unit: Unit::Counts,
        is_summed: true,
        stacks: Built::new(profile).stacks().collect(),
        threads: profile.main_threads().map(|thread| summed(profile, thread)).collect(),
        recorded: Some(quality::recorded_facts(profile)),
        ..tables(profile)
    }
}

/// The tables without stacks. A function has its frames' library; a function in several libraries has one entry for
/// each.
fn tables(profile: &Profile) -> Data {
    let tables = &profile.tables;
    let mut funcs: Unique<Func> = Unique::default();
    let mut scripts: Unique<Script> = Unique::default();
    let frames = tables.frames.iter().map(|frame| {
        let func = tables.func(frame.func);
        let lib = frame.lib.map_or(NONE, |lib| lib.0);
        let func = Func {
            script: func.start.map_or(NONE, |start| scripts.index(Script::of(start))),
            krate: func.krate.map_or(NONE, |krate| krate.0),
            ..Func::native(func.name.0, lib, func.source.map_or(NONE, |source| source.0))
        };
        let (category, subcategory) = frame.kind.category(frame.inline_depth > 0);
        Frame {
            func: funcs.index(func),
            line: frame.line.unwrap_or(NONE),
            line_file: frame.line_source.map_or(NONE, |source| source.0),
            column: frame.column.unwrap_or(NONE),
            category: category as u32,
            subcategory: subcategory as u16,
            inline_depth: frame.inline_depth,
            symbol: frame.native_symbol.unwrap_or(NONE),
            lib,
            window: NONE,
            address: frame.address,
        }
    });
    let frames = frames.collect();
    let (funcs, scripts) = (funcs.all, scripts.all);
    let symbols = tables.symbols.iter().map(|symbol| Symbol {
        lib: symbol.lib.0,
        address: symbol.address,
        name: symbol.name.0,
        size: symbol.size,
    });
    let is_macos = profile.info.host.is_macos();
    Data {
        symbolicated: profile.symbolicated,
        main_threads_have_titles: true,
        categories: Category::all(),
        libs: tables
            .libs
            .iter()
            .map(|lib| SavedLib {
                symbol_source: lib.symbol_source,
                ..SavedLib::of(&lib.module, is_macos)
            })
            .collect(),
        texts: profile.strings.iter().map(Into::into).collect(),
        funcs,
        frames,
        scripts,
        sources: profile.sources.clone(),
        symbols: symbols.collect(),
        ..Data::default()
    }
}

fn of_thread(profile: &Profile, thread: &thread::RecordedThread) -> Thread {
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

fn summed(profile: &Profile, thread: &thread::RecordedThread) -> Thread {
    // (samples, periods)
    let mut sums: FxHashMap<u32, (u64, u64)> = FxHashMap::default();
    for RecordedSample { stack, period, .. } in thread.samples.iter().filter(|sample| !sample.off_cpu) {
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
            ..Samples::default()
        },
        ..of_thread(profile, thread)
    }
}
