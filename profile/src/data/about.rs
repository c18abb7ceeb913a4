//! How it was recorded: rows about the recording, its quality, the libraries.

use names::symbol::SymbolSource;
use recording::heap::HeapGrowth;
use recording::module::{BuildId, Module, ModuleKind};
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Number;

use crate::text::heap_growth_text;

/// Rows about the recording under a heading: `ExtraProfileInfoSection` of the front end's src/types/profile.ts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AboutSection {
    /// The heading.
    pub label: String,
    /// The rows.
    #[serde(rename = "entries")]
    pub rows: Vec<AboutRow>,
}

/// A row: a label and its value.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AboutRow {
    /// Its label.
    pub label: String,
    /// The front end's format of numbers: `integer`, `duration` (ms)...
    #[serde(deserialize_with = "text_or_empty")]
    pub format: String,
    /// The value.
    pub value: RowValue,
}

impl AboutRow {
    fn new(label: impl Into<String>, format: &str, value: RowValue) -> AboutRow {
        AboutRow {
            label: label.into(),
            format: format.to_owned(),
            value,
        }
    }

    /// A row with a text.
    pub(crate) fn text(label: impl Into<String>, value: impl Into<String>) -> AboutRow {
        AboutRow::new(label, "string", RowValue::Text(value.into()))
    }

    /// A row with a count.
    pub(crate) fn count(label: impl Into<String>, value: u64) -> AboutRow {
        AboutRow::new(label, "integer", RowValue::Number(value.into()))
    }

    /// A row with a time. The front end takes ms.
    pub(crate) fn duration(label: impl Into<String>, ns: u64) -> AboutRow {
        let ms = Number::from_f64(ns as f64 / 1e6);
        AboutRow::new(label, "duration", ms.map_or(RowValue::None, RowValue::Number))
    }
}

/// A value of a [`AboutRow`].
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum RowValue {
    /// A number.
    Number(Number),
    /// A text.
    Text(String),
    /// A list or an object. No recorder is known to write one.
    Other(IgnoredAny),
    /// `null`.
    #[default]
    None,
}

impl Serialize for RowValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            RowValue::Number(number) => number.serialize(serializer),
            RowValue::Text(text) => text.serialize(serializer),
            RowValue::Other(_) | RowValue::None => serializer.serialize_unit(),
        }
    }
}

/// A format may be an object, which describes how a table is shown.
fn text_or_empty<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(match RowValue::deserialize(deserializer)? {
        RowValue::Text(text) => text,
        _ => String::new(),
    })
}

/// The part of a program's work that a recording holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RunExtent {
    /// Each run from the program's start to its own end. The program does the same work in each run.
    WholeRuns,
    /// What happened between two points in time. Another recording holds other work.
    Window,
    /// The file does not say: it is not of sprof, of another version, or what was left of a recording.
    #[default]
    #[serde(other)]
    Unstated,
}

/// How a recording of sprof was made and how far it can be trusted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RecordingFacts {
    /// The event that was sampled.
    pub event: String,
    /// The user's names of events, where the profile has other ones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub asked_events: Vec<AskedEvent>,
    /// The kernel's counts of point events.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub counted_events: Vec<CountedEvent>,
    /// `included`, or why samples have no kernel code.
    pub kernel_code: String,
    /// The commit that the program was built from, a hash, if the surroundings of the recording named one.
    pub commit: Option<String>,
    /// Stack bytes that were to be copied with each sample, if known.
    pub stack_bytes: Option<u64>,
    /// Requested samples per second of CPU time; `None` if samples are not of time.
    pub asked_rate_hz: Option<f64>,
    /// Achieved samples per second of CPU time, if the kernel counted CPU time.
    pub achieved_rate_hz: Option<f64>,
    /// The start of each run of the program, ms since the profile's time 0, if it ran several times
    /// (`--iteration-count`).
    pub run_starts_ms: Vec<f64>,
    /// Whole runs, or a window of something that goes on.
    pub extent: RunExtent,
    /// Each thread of the profile stands for a CPU (`--per-cpu-threads`), as does its process.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub tracks_are_cpus: bool,
    /// Number of processes during the recording, including those without samples.
    pub processes: u64,
    /// Number of threads during the recording, including those without samples.
    pub threads: u64,
    /// Samples of running threads, of all threads and processes; `None` if the file does not say.
    pub samples: Option<u64>,
    /// Lost records, for any reason.
    pub lost: u64,
    /// Stacks that do not reach their root, for any reason: of samples, waits and point events.
    pub truncated: u64,
    /// Stacks with a step that could not be verified, of the same.
    pub unverified: u64,
    /// Stacks whose frames framehop found instead of sprof's own engine, of the same.
    pub by_framehop: u64,
    /// Stacks of waits and of point events.
    pub stacks_beside: u64,
    /// The part of `truncated` that is theirs.
    pub truncated_beside: u64,
    /// The part of `unverified` that is theirs.
    pub unverified_beside: u64,
    /// What was recorded of the heap; `None` if it was not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heap: Option<HeapFacts>,
    /// When samples were taken, if the program paused the recording; `None`: all the time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampled: Option<SampledFacts>,
    /// How many threads ran at each moment, if all switches of threads were recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running: Option<RunningFacts>,
    /// What was read of the machine and of what processes wait for; `None` if it was not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceFacts>,
    /// Names whose spans do not all have a marker.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub thinned_spans: Vec<SpanFacts>,
    /// Files of modules that were not opened because the limit of open files was reached (`ulimit -n`).
    pub files_over_limit: u64,
    /// Everything else that is missing or doubtful, and the parts of the counts above. Views show them in this order.
    pub limits: Vec<RecordingLimit>,
}

/// All spans of one name; those that have markers are chosen by chance, each with the same chance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SpanFacts {
    /// The name; `None` for all names beyond the first 2,000.
    pub name: Option<String>,
    /// Number of spans and instants.
    pub count: u64,
    /// Number of them that have markers.
    pub kept: u64,
    /// Number of those in `count` that are no instants.
    pub intervals: u64,
    /// Sum of their lengths.
    pub total_ns: u64,
    /// The greatest length.
    pub longest_ns: u64,
}

/// The parts of a recording in which samples were taken: the program paused it, and resumed it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SampledFacts {
    /// Their sum.
    pub sampled_ns: u64,
    /// Their number.
    pub parts: u64,
    /// How long each pause and each part lasted, one after the other, from the profile's time 0; a pause is first, and
    /// may have length 0. Of very many parts, those with short pauses between them are one. Empty: not known, as of
    /// several recordings.
    pub lasted_ns: Vec<u64>,
}

/// How many threads ran, from all switches: for each step from the profile's time 0, how long it lasted, and numbers of
/// threads. The columns are of equal length.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RunningFacts {
    /// Within cells of this length, from time 0, steps have the right lengths but perhaps another order.
    pub cell_ns: u64,
    /// How long each step lasted.
    pub lasted_ns: Vec<u64>,
    /// Threads on a CPU.
    pub running: Vec<u32>,
    /// Threads that lost their CPU and could go on.
    pub ready: Vec<u32>,
}

/// The machine whose resources were read. A counter that is neither a counter of the profile nor here stayed as it was.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceFacts {
    /// CPUs; `None` if not known, or if merged recordings differ.
    pub cpus: Option<u32>,
    /// Main memory, bytes.
    pub memory_bytes: Option<u64>,
    /// Counters that could not be read.
    pub unread: Vec<UnreadFacts>,
}

/// A counter that could not be read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UnreadFacts {
    /// Its name: see [`COUNTERS`](recording::counter::COUNTERS).
    pub counter: String,
    /// Why: see [`UnreadCause::name`](recording::counter::UnreadCause::name).
    pub cause: String,
    /// Of how many processes; `None` if it is of the machine.
    pub processes: Option<u64>,
}

impl ResourceFacts {
    pub(crate) fn plus(mut self, other: ResourceFacts) -> ResourceFacts {
        self.cpus = self.cpus.filter(|cpus| Some(*cpus) == other.cpus);
        self.memory_bytes = self.memory_bytes.filter(|bytes| Some(*bytes) == other.memory_bytes);
        for unread in other.unread {
            let same = |known: &&mut UnreadFacts| known.counter == unread.counter && known.cause == unread.cause;
            match self.unread.iter_mut().find(same) {
                Some(known) => known.processes = known.processes.map(|known| known + unread.processes.unwrap_or(0)),
                None => self.unread.push(unread),
            }
        }
        self
    }
}

/// How blocks of memory were sampled, and what was lost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HeapFacts {
    /// Bytes between two samples on average.
    pub interval: u64,
    /// The most that were used: each block has its own.
    pub longest_interval: u64,
    /// Programs that were sampled.
    pub programs: u64,
    /// Sampled blocks.
    pub blocks: u64,
    /// Frees of sampled blocks.
    pub frees: u64,
    /// `None` if the recording was cut short, so that nobody knows what was lost.
    pub lost: Option<HeapLosses>,
    /// Programs that were executed and not sampled; the limits of the recording name them.
    pub unseen: u64,
    /// `None` if it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub growth: Option<HeapGrowthFacts>,
}

/// The memory of processes beside their sampled heaps, as [`HeapGrowth`] has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HeapGrowthFacts {
    /// Bytes of the growth that sampled blocks are.
    pub seen: u64,
    /// Bytes that memory grew by.
    pub grown: u64,
    /// The processes of both.
    pub processes: u64,
    /// Processes whose memory was not measured.
    pub unmeasured: u64,
}

impl HeapGrowthFacts {
    /// How much of the growth was seen, as a sentence.
    pub fn text(&self) -> Option<String> {
        heap_growth_text(HeapGrowth {
            seen: self.seen,
            grown: self.grown,
            processes: self.processes,
            unmeasured: self.unmeasured,
        })
    }
}

/// What was lost of the heap.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HeapLosses {
    /// Sampled blocks.
    pub blocks: u64,
    /// The bytes that they stand for.
    pub bytes: u64,
    /// Frees: their blocks look as if they were never freed.
    pub frees: u64,
    /// What made no sense, or came from others.
    pub refused: u64,
}

impl HeapFacts {
    /// Those of two recordings together.
    pub(crate) fn plus(self, other: HeapFacts) -> HeapFacts {
        HeapFacts {
            interval: self.interval.max(other.interval),
            longest_interval: self.longest_interval.max(other.longest_interval),
            programs: self.programs.saturating_add(other.programs),
            blocks: self.blocks.saturating_add(other.blocks),
            frees: self.frees.saturating_add(other.frees),
            lost: self.lost.zip(other.lost).map(|(lost, more)| HeapLosses {
                blocks: lost.blocks.saturating_add(more.blocks),
                bytes: lost.bytes.saturating_add(more.bytes),
                frees: lost.frees.saturating_add(more.frees),
                refused: lost.refused.saturating_add(more.refused),
            }),
            unseen: self.unseen.saturating_add(other.unseen),
            growth: self.growth.zip(other.growth).map(|(growth, more)| HeapGrowthFacts {
                seen: growth.seen.saturating_add(more.seen),
                grown: growth.grown.saturating_add(more.grown),
                processes: growth.processes.saturating_add(more.processes),
                unmeasured: growth.unmeasured.saturating_add(more.unmeasured),
            }),
        }
    }
}

/// An event and the name that the user gave for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AskedEvent {
    /// The event's name in the profile: `uprobe:malloc`.
    pub event: String,
    /// The user's name: `uprobe:libc:malloc`; `syscalls:*` for each of them.
    pub asked: String,
}

/// How often a point event happened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CountedEvent {
    /// The event's name in the profile.
    pub event: String,
    /// The kernel's count, whether or not the profile has markers of it.
    pub counted: u64,
    /// The number of events that a marker stands for.
    pub period: u64,
}

/// Something missing or doubtful: a count, a time or words.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RecordingLimit {
    /// Its description for people.
    pub what: String,
    /// Number of cases.
    pub count: Option<u64>,
    /// The CPU time of the cases, ns.
    pub ns: Option<u64>,
    /// The process and the reason.
    pub words: Option<String>,
}

/// A library as a profile names it. A field is `None` if the file lacks it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SavedLib {
    /// File name.
    pub name: Option<String>,
    /// Path on the recorded machine.
    pub path: Option<String>,
    /// File name of the debug file. A request for symbols names it and the Breakpad id.
    pub debug_name: Option<String>,
    /// The debug file's path.
    pub debug_path: Option<String>,
    /// Breakpad id.
    pub breakpad_id: Option<String>,
    /// Build id in hex (Linux), or the platform's equivalent.
    pub code_id: Option<String>,
    /// `x86_64`, `arm64`...
    pub arch: Option<String>,
    /// sprof's own field: the source of the names of the library's code.
    #[serde(with = "symbol_source", skip_serializing_if = "symbol_source::is_not_asked")]
    pub symbol_source: SymbolSource,
}

impl SavedLib {
    /// All texts that it has.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        let texts = [
            &self.name,
            &self.path,
            &self.debug_name,
            &self.debug_path,
            &self.breakpad_id,
            &self.code_id,
            &self.arch,
        ];
        texts.into_iter().filter_map(|text| text.as_deref())
    }

    /// A library without a file: only its path is known, and may be empty.
    pub(crate) fn of_path(path: &str) -> SavedLib {
        let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let (name, path) = (some(path.rsplit('/').next().unwrap_or(path)), some(path));
        SavedLib {
            name: name.clone(),
            path: path.clone(),
            debug_name: name,
            debug_path: path,
            ..SavedLib::default()
        }
    }

    /// The module's names in a profile of sprof. Readers of profiles take a code id of 32 digits for the UUID of a
    /// Mach-O file.
    pub(crate) fn from_module(module: &Module, is_macos: bool) -> SavedLib {
        let is_mach_o = is_macos && module.kind == ModuleKind::File;
        let code_id = |id: &BuildId| match is_mach_o {
            true => id.to_uuid(),
            false => id.to_hex(),
        };
        let name = module.name();
        let readable = module.readable_path.as_ref().unwrap_or(&module.path);
        SavedLib {
            arch: Some(module.arch.unwrap_or_default().to_owned()),
            path: Some(module.path.to_string_lossy().into_owned()),
            // The front end's key of a library is `debugName/breakpadId`, split at the slash.
            debug_name: Some(name.replace('/', "_")),
            debug_path: Some(readable.to_string_lossy().into_owned()),
            breakpad_id: Some(module.breakpad_id()),
            code_id: module.build_id.as_ref().map(code_id),
            name: Some(name),
            symbol_source: SymbolSource::NotAsked,
        }
    }
}

/// [`SymbolSource`] in files: a word. The words of later sprofs are read as [`SymbolSource::NotAsked`].
mod symbol_source {
    use names::symbol::SymbolSource;
    use serde::{Deserialize, Deserializer, Serializer};

    const fn files(symbol_table: bool, debug_info: bool) -> SymbolSource {
        SymbolSource::Files {
            symbol_table,
            debug_info,
        }
    }

    const WORDS: [(SymbolSource, &str); 10] = [
        (files(false, false), "stripped"),
        (files(true, false), "symbolTable"),
        (files(false, true), "debugInfo"),
        (files(true, true), "symbolTableAndDebugInfo"),
        (SymbolSource::Recorded, "recorded"),
        (SymbolSource::NoFile, "noFile"),
        (SymbolSource::OtherBuild, "otherBuild"),
        (SymbolSource::Unreadable, "unreadable"),
        (SymbolSource::Hidden, "hidden"),
        (SymbolSource::NotBuilt, "notBuilt"),
    ];

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
    pub(super) fn is_not_asked(source: &SymbolSource) -> bool {
        *source == SymbolSource::NotAsked
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
    pub(super) fn serialize<S: Serializer>(source: &SymbolSource, to: S) -> Result<S::Ok, S::Error> {
        let word = WORDS.iter().find(|(known, _)| known == source);
        to.serialize_str(word.map_or("notAsked", |(_, word)| word))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<SymbolSource, D::Error> {
        let word = Option::<String>::deserialize(from)?;
        let known = WORDS.iter().find(|(_, known)| Some(*known) == word.as_deref());
        Ok(known.map_or(SymbolSource::NotAsked, |(source, _)| *source))
    }
}
