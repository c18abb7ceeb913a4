//! Converts a recorded profile to [`Data`], which views and writers take.
//!
//! [`ProfileData`] makes all of it. `cpu`: what samples represent; `meta`, `extra`, `quality`: facts about the
//! recording; `markers`, `counters`, `usage`, `tracks`: events, resource usage, and the initially visible rows.

mod allocations;
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
    Category, Data, Fields, ForViews, Frame, Func, NONE, Samples, SavedData, SavedLib, Script, Stack, Symbol, Thread,
    WeightUnit, prepare,
};
use crate::recorded::Profile;
use crate::recorded::samples::RecordedSample;
use crate::recorded::thread;
use crate::unique::Unique;
pub(crate) use counters::{RUNNING, running};
use cpu::CpuDelta;
pub(crate) use meta::{GECKO_VERSION, PRODUCER};
pub(crate) use numbers::number;
use numbers::{json_ms, ms};

/// How much of a profile its data holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Detail {
    /// What views use.
    ForViews,
    /// All that the profile's file holds.
    Whole,
}

/// The data for views, equal to the data read from the profile's file.
impl From<&Profile> for Data {
    fn from(profile: &Profile) -> Data {
        ProfileData::new(profile, Detail::ForViews).for_views()
    }
}

/// The data for the viewer, with types of markers and their fields.
pub fn for_page(profile: &Profile) -> Data {
    ProfileData::new(profile, Detail::Whole).for_views()
}

/// The profile as if read from its file.
impl From<&Profile> for SavedData {
    fn from(profile: &Profile) -> SavedData {
        SavedData(ProfileData::new(profile, Detail::Whole).all())
    }
}

/// Makes the data of a profile: the tables at once, stacks and threads one by one. The writer of files takes threads
/// one after the other: columns of all samples would take several times the profile's memory.
pub(crate) struct ProfileData<'a> {
    profile: &'a Profile,
    detail: Detail,
    cpu: CpuDelta,
}

impl<'a> ProfileData<'a> {
    pub(crate) fn new(profile: &'a Profile, detail: Detail) -> ProfileData<'a> {
        ProfileData {
            profile,
            detail,
            cpu: CpuDelta::new(profile),
        }
    }

    fn all(&self) -> Data {
        Data {
            threads: self.threads().collect(),
            stacks: self.stacks().collect(),
            ..self.tables()
        }
    }

    /// The form of data that views take.
    fn for_views(&self) -> Data {
        let mut data = self.all();
        let known = ForViews {
            facts: SprofFacts::of_recorded(quality::recorded_facts(self.profile)),
            periods: markers::periods(self.profile),
            zero_ms: Some(0.0),
        };
        prepare(&mut data, known);
        data
    }

    /// Everything except threads and stacks. A function has its frames' library; a function in several libraries has
    /// one entry for each.
    pub(crate) fn tables(&self) -> Data {
        let profile = self.profile;
        let (info, tables) = (&profile.info, &profile.tables);
        let mut funcs: Unique<Func> = Unique::default();
        let mut scripts: Unique<Script> = Unique::default();
        let frames = tables.frames.iter().map(|frame| {
            let func = tables.func(frame.func);
            let lib = frame.lib.map_or(NONE, |lib| lib.0);
            let func = Func {
                script: func
                    .start
                    .map_or(NONE, |start| scripts.index(Script::from_start(start))),
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
        let symbols = tables.symbols.iter().map(|symbol| Symbol {
            lib: symbol.lib.0,
            address: symbol.address,
            name: symbol.name.0,
            size: symbol.size,
        });
        let is_macos = info.host.is_macos();
        let libs = tables.libs.iter().map(|lib| SavedLib {
            symbol_source: lib.symbol_source,
            ..SavedLib::from_module(&lib.module, is_macos)
        });
        let (meta, schemas) = match self.detail {
            Detail::ForViews => Default::default(),
            Detail::Whole => (meta::meta(profile), markers::schemas(profile)),
        };
        let running = counters::of_running(profile, |sample| self.cpu.time_of(sample, profile.info.interval_ns));
        let counters = counters::of_events(profile)
            .into_iter()
            .chain(usage::lines(profile))
            .chain(running);
        Data {
            product: info.program.clone(),
            imported_from: PRODUCER.to_owned(),
            arguments: info.args.as_ref().map_or_else(String::new, |args| args.join(" ")),
            os: info.host.os.clone().unwrap_or_default(),
            cpu: info.host.cpu_name.clone().unwrap_or_default(),
            start_ms: meta::start_ms(profile),
            duration_ms: Some(meta::duration_ms(profile)),
            interval_ms: info.interval_ns as f64 / 1e6,
            is_end: profile.is_end,
            symbolicated: profile.symbolicated,
            categories: Category::all(),
            libs: libs.collect(),
            texts: profile.strings.iter().map(Into::into).collect(),
            funcs: funcs.all,
            frames,
            scripts: scripts.all,
            sources: profile.sources.clone(),
            symbols: symbols.collect(),
            main_threads_have_titles: true,
            recorded: Some(quality::recorded_facts(profile)),
            extra: extra::sections(profile),
            counters: counters.collect(),
            schemas,
            meta,
            ..Data::default()
        }
    }

    pub(crate) fn stacks(&self) -> impl Iterator<Item = Stack> + 'a {
        self.profile.stacks.iter().map(|(_, prefix, frame)| Stack {
            prefix: prefix.map_or(NONE, |prefix| prefix.0),
            frame: frame.0,
        })
    }

    pub(crate) fn threads(&self) -> impl Iterator<Item = Thread> {
        // A further event's track follows the thread in which the event happened.
        let mut of = "";
        self.profile.threads.iter().map(move |thread| {
            if thread.event.is_none() {
                of = &thread.name;
            }
            Thread {
                event_of: thread.event.map(|_| of.to_owned()),
                ..self.thread(thread)
            }
        })
    }

    fn thread(&self, thread: &thread::RecordedThread) -> Thread {
        let (profile, is_whole) = (self.profile, self.detail == Detail::Whole);
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
            cpu_delta: is_whole.then(|| match is_time {
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
            unit: if is_time {
                WeightUnit::Milliseconds
            } else {
                WeightUnit::Counts
            },
            samples,
            allocations: allocations::of_main_thread(profile, thread, is_whole),
            markers: markers
                .map(|marker| markers::marker(profile, thread, marker, is_whole))
                .collect(),
            rest: if is_whole { rest(profile, thread) } else { Fields::new() },
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
pub fn summed(profile: &Profile) -> Data {
    let made = ProfileData::new(profile, Detail::ForViews);
    Data {
        unit: WeightUnit::Counts,
        is_summed: true,
        stacks: made.stacks().collect(),
        threads: profile
            .main_threads()
            .map(|thread| summed_thread(profile, thread))
            .collect(),
        ..made.tables()
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

fn summed_thread(profile: &Profile, thread: &thread::RecordedThread) -> Thread {
    // (samples, periods)
    let mut sums: FxHashMap<u32, (u64, u64)> = FxHashMap::default();
    for RecordedSample { stack, period, .. } in thread.samples.iter().filter(|sample| !sample.off_cpu) {
        let sum = sums.entry(stack.map_or(NONE, |stack| stack.0)).or_default();
        *sum = (sum.0 + 1, sum.1.saturating_add(period));
    }
    Thread {
        unit: WeightUnit::Counts,
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
