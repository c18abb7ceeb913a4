//! What a profile says about its machine and user, taken out before others see the profile.
//!
//! [`sanitize`] cleans every string of a [`SavedData`] profile. Names of functions lose only paths, because they are
//! the result; all other strings also lose the names of user and host. Arguments are removed. Fields that this module
//! does not know are dropped: nobody has checked what is in them. Functions, samples and their weights stay as they
//! are, so all shares stay. `text` cleans one string, `search` finds what is in it, `path` shortens one path,
//! `variables` finds the environment.

mod path;
mod search;
mod text;
mod variables;

use names::source_path::SourcePath;
use rustc_hash::FxHashMap;
use serde_json::Value;

use crate::data::{Data, Fields, NONE, RowValue, SavedData, SavedLib, TextFields};
use crate::sources::Sources;
use crate::unique::Unique;
use text::{Cleaner, OF_FORMAT, TextKind};

/// What nobody else is to see, as far as the machine at hand knows. Paths below `/home`, `/Users` and `/root` give more
/// of it.
#[derive(Clone, Debug, Default)]
pub struct PrivateWords {
    /// Home folders.
    pub homes: Vec<String>,
    /// Names of users.
    pub users: Vec<String>,
    /// Names of hosts.
    pub hosts: Vec<String>,
    /// Values of environment variables that are secret.
    pub values: Vec<String>,
}

/// Parts of names of variables whose values are secret.
const SECRET: [&str; 8] = ["TOKEN", "SECRET", "PASS", "KEY", "CRED", "AUTH", "SESSION", "COOKIE"];

/// True if a variable of this name has a secret value.
pub fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    SECRET.iter().any(|part| name.contains(part))
}

/// What stays in the profile because the user wants it there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeptPrivate {
    /// The arguments of programs.
    pub args: bool,
    /// Whole paths, with the home folder.
    pub paths: bool,
    /// Names of users and hosts.
    pub names: bool,
    /// The texts of source files that are not public.
    pub sources: bool,
}

/// What was removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemovedCounts {
    /// Paths and addresses that were shortened, each counted once.
    pub paths: usize,
    /// Strings in which a user, a host, an argument or a value of the environment was replaced.
    pub strings: usize,
    /// The program's arguments were recorded, and are removed.
    pub arguments: bool,
    /// Texts of source files.
    pub sources: usize,
    /// Fields that are not known, by name.
    pub fields: Vec<String>,
}

/// Fields of `meta` that may stay (`ProfileMeta` of the front end's src/types/profile.ts).
const META: [&str; 31] = [
    "CPUName",
    "abi",
    "appBuildID",
    "debug",
    "endTime",
    "extra",
    "importedFrom",
    "initialSelectedThreads",
    "initialVisibleThreads",
    "interval",
    "keepProfileThreadOrder",
    "logicalCPUs",
    "mainMemory",
    "misc",
    "oscpu",
    "physicalCPUs",
    "platform",
    "processType",
    "product",
    "profilingEndTime",
    "profilingStartTime",
    "sampleUnits",
    "sourceCodeIsNotOnSearchfox",
    "sprof",
    "stackwalk",
    "startTime",
    "startTimeAsClockMonotonicNanosecondsSinceBoot",
    "toolkit",
    "updateChannel",
    "usesOnlyOneStackType",
    "version",
];

/// Fields of a thread that may stay (`RawThread`).
const THREAD: [&str; 8] = [
    "jsAllocations",
    "pausedRanges",
    "processShutdownTime",
    "processStartupTime",
    "processType",
    "registerTime",
    "showMarkersInTimeline",
    "unregisterTime",
];

/// Takes out of a profile what is private, except for what is to be included.
pub fn sanitize(data: &mut SavedData, private: &PrivateWords, include: KeptPrivate) -> RemovedCounts {
    let data = &mut data.0;
    let mut removed = RemovedCounts::default();
    drop_fields(data, include, &mut removed);
    let mut cleaner = Cleaner::new(private, include, &data.arguments, programs(data));
    each_text(data, &mut |text| cleaner.learn(text));
    removed.sources = clean_sources(data, include, &mut cleaner);
    removed.arguments = !include.args && !data.arguments.is_empty();
    match include.args {
        true => cleaner.clean(&mut data.arguments, TextKind::Text),
        false => data.arguments.clear(),
    }
    clean_tables(data, &mut cleaner);
    clean_threads(data, include, &mut cleaner);
    clean_about(data, &mut cleaner);
    removed.paths = cleaner.paths();
    removed.strings = cleaner.replaced;
    removed
}

/// Names of the program and of its libraries: what ran is a result.
fn programs(data: &Data) -> Vec<String> {
    let product = data.product.rsplit('/').next().map(str::to_owned);
    let libs = data.libs.iter();
    let names = libs.flat_map(|lib| [&lib.name, &lib.debug_name]).flatten().cloned();
    names.chain(product).collect()
}

/// All strings that are cleaned.
fn each_text(data: &Data, to: &mut impl FnMut(&str)) {
    data.texts.iter().for_each(|text| to(text));
    data.sources.keys().for_each(|path| to(path));
    data.libs.iter().flat_map(SavedLib::texts).for_each(&mut *to);
    for thread in &data.threads {
        to(&thread.name);
        to(&thread.process_name);
        of_fields(&thread.rest, to);
        let fields = thread.markers.iter().filter_map(|marker| marker.fields.as_deref());
        fields.for_each(|fields| of_fields(fields, to));
    }
    data.counters.iter().for_each(|counter| of_fields(&counter.fields, to));
    data.schemas.iter().for_each(|schema| of_json(schema, to));
    for category in &data.categories {
        to(&category.name);
        category.subcategories.iter().for_each(|name| to(name));
    }
    let about = [&data.product, &data.imported_from, &data.arguments, &data.os, &data.cpu];
    about
        .into_iter()
        .chain(&data.event)
        .chain(&data.point_events)
        .for_each(|text| to(text));
    if let Some(recorded) = &data.recorded {
        to(&recorded.event);
        recorded.counted_events.iter().for_each(|event| to(&event.event));
        let names = recorded.thinned_spans.iter().filter_map(|span| span.name.as_ref());
        names.for_each(|name| to(name));
        for limit in &recorded.limits {
            to(&limit.what);
            limit.words.iter().for_each(|words| to(words));
        }
    }
    for section in &data.extra {
        to(&section.label);
        for row in &section.rows {
            to(&row.label);
            if let RowValue::Text(text) = &row.value {
                to(text);
            }
        }
    }
    of_fields(&data.meta, to);
}

fn of_fields(fields: &Fields, to: &mut impl FnMut(&str)) {
    for (key, value) in fields {
        to(key);
        of_json(value, to);
    }
}

fn of_json(value: &Value, to: &mut impl FnMut(&str)) {
    match value {
        Value::String(text) => to(text),
        Value::Array(values) => values.iter().for_each(|value| of_json(value, to)),
        Value::Object(fields) => of_fields(fields, to),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn drop_fields(data: &mut Data, include: KeptPrivate, removed: &mut RemovedCounts) {
    fn keep(fields: &mut Fields, known: impl Fn(&str, &Value) -> bool, dropped: &mut Vec<String>) {
        fields.retain(|key, value| {
            let stays = known(key, value);
            if !stays && !dropped.contains(key) {
                dropped.push(key.clone());
            }
            stays
        });
    }
    let dropped = &mut removed.fields;
    let own = |key: &str| {
        matches!(
            key,
            "arguments" | "preprocessedProfileVersion" | "categories" | "symbolicated" | "markerSchema"
        )
    };
    keep(&mut data.meta, |key, _| META.contains(&key) || own(key), dropped);
    if !include.args {
        data.meta.remove("arguments");
    }
    keep(&mut data.rest, |_, _| false, dropped);
    for thread in &mut data.threads {
        keep(&mut thread.rest, |key, _| THREAD.contains(&key), dropped);
        // Columns of numbers hold no text.
        let is_numbers = |value: &Value| {
            let all = value.as_array();
            all.is_some_and(|all| all.iter().all(|value| value.is_number() || value.is_null()))
        };
        keep(&mut thread.samples.rest, |_, value| is_numbers(value), dropped);
        if let Some(allocations) = &mut thread.allocations {
            keep(
                &mut allocations.rest,
                |key, value| (key == "weightType" && value == "bytes") || is_numbers(value),
                dropped,
            );
        }
    }
    // A name of a field may be anything.
    dropped.retain(|name| name.bytes().all(|byte| byte.is_ascii_alphanumeric()));
    dropped.sort();
}

/// Removes the texts of source files that not everybody can have. Returns how many.
fn clean_sources(data: &mut Data, include: KeptPrivate, cleaner: &mut Cleaner) -> usize {
    let before = data.embedded_sources();
    let kept = std::mem::take(&mut data.sources)
        .into_iter()
        .filter_map(|(path, text)| {
            let is_public = match SourcePath::parse(&path) {
                SourcePath::RustLibrary { .. } => true,
                SourcePath::Package { registry, .. } => registry.is_crates_io(),
                _ => false,
            };
            (is_public || include.sources).then(|| {
                let mut path = String::from(path);
                cleaner.clean(&mut path, TextKind::Path);
                (path.into(), text)
            })
        });
    data.sources = kept.collect::<Sources>();
    before - data.embedded_sources()
}

/// Texts that functions, symbols and markers share by index. One text may be a function's name and a marker's value,
/// which are cleaned differently.
fn clean_tables(data: &mut Data, cleaner: &mut Cleaner) {
    let old = std::mem::take(&mut data.texts);
    let mut texts: Unique<Box<str>> = Unique::default();
    let mut known: FxHashMap<(u32, TextKind), u32> = FxHashMap::default();
    let mut cleaned = |index: u32, kind: TextKind| {
        let Some(text) = old.get(index as usize) else {
            return NONE;
        };
        *known.entry((index, kind)).or_insert_with(|| {
            let mut text = text.to_string();
            cleaner.clean(&mut text, kind);
            texts.index(text.into())
        })
    };
    for func in &mut data.funcs {
        func.name = cleaned(func.name, TextKind::Code);
        func.file = cleaned(func.file, TextKind::Path);
        func.krate = cleaned(func.krate, TextKind::Code);
    }
    for frame in &mut data.frames {
        frame.line_file = cleaned(frame.line_file, TextKind::Path);
    }
    for symbol in &mut data.symbols {
        symbol.name = cleaned(symbol.name, TextKind::Code);
    }
    for origin in data.scripts.iter_mut().filter_map(|script| script.resource.as_mut()) {
        origin.name = cleaned(origin.name, TextKind::Text);
        origin.host = cleaned(origin.host, TextKind::Text);
    }
    let text_fields = TextFields::from_schemas(&data.schemas);
    for marker in data.threads.iter_mut().flat_map(|thread| &mut thread.markers) {
        marker.name = cleaned(marker.name, TextKind::Text);
        if let Some(fields) = &mut marker.fields {
            text_fields.map(fields, |text| cleaned(text, TextKind::Text));
        }
    }
    data.texts = texts.all;
    for lib in &mut data.libs {
        let paths = [&mut lib.path, &mut lib.debug_path];
        paths
            .into_iter()
            .flatten()
            .for_each(|path| cleaner.clean(path, TextKind::Path));
        let others = [
            &mut lib.name,
            &mut lib.debug_name,
            &mut lib.breakpad_id,
            &mut lib.code_id,
            &mut lib.arch,
        ];
        others
            .into_iter()
            .flatten()
            .for_each(|text| cleaner.clean(text, TextKind::Fixed));
    }
    for category in &mut data.categories {
        cleaner.clean(&mut category.name, TextKind::Text);
        cleaner.clean(&mut category.color, TextKind::Fixed);
        let names = category.subcategories.iter_mut();
        names.for_each(|name| cleaner.clean(name, TextKind::Text));
    }
}

fn clean_threads(data: &mut Data, include: KeptPrivate, cleaner: &mut Cleaner) {
    let has_titles = (data.main_threads_have_titles || data.recorded.is_some()) && !include.args;
    for thread in &mut data.threads {
        // A title stands in the place of arguments, and may name users, databases and addresses.
        if has_titles && thread.is_main && thread.event.is_none() {
            thread.name.clone_from(&thread.process_name);
        }
        cleaner.clean_process(&mut thread.process_name);
        cleaner.clean(&mut thread.name, TextKind::Text);
        cleaner.clean(&mut thread.pid, TextKind::Text);
        cleaner.clean(&mut thread.tid, TextKind::Text);
        let events = [&mut thread.event, &mut thread.event_of].into_iter().flatten();
        events.for_each(|event| cleaner.clean(event, TextKind::Text));
        cleaner.clean_fields(&mut thread.rest, TextKind::Text, &["weightType"]);
        let fields = thread.markers.iter_mut().filter_map(|marker| marker.fields.as_mut());
        fields.for_each(|fields| cleaner.clean_fields(fields, TextKind::Text, &[]));
    }
    for counter in &mut data.counters {
        cleaner.clean_fields(&mut counter.fields, TextKind::Text, &OF_FORMAT);
    }
    let schemas = data.schemas.iter_mut();
    schemas.for_each(|schema| cleaner.clean_json(schema, TextKind::Text, &OF_FORMAT));
}

/// True for a hash of a commit, or its beginning.
fn is_hash(text: &str) -> bool {
    (7..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// What is said about the recording: typed, and once more in `meta`.
fn clean_about(data: &mut Data, cleaner: &mut Cleaner) {
    cleaner.clean_process(&mut data.product);
    let mut texts = vec![&mut data.imported_from, &mut data.os, &mut data.cpu];
    texts.extend(&mut data.event);
    texts.extend(&mut data.point_events);
    if let Some(weights) = &mut data.weights {
        texts.extend([&mut weights.name, &mut weights.unit]);
        texts.extend(&mut weights.others);
    }
    texts.into_iter().for_each(|text| cleaner.clean(text, TextKind::Text));
    if let Some(recorded) = &mut data.recorded {
        cleaner.clean(&mut recorded.event, TextKind::Text);
        // They may name files.
        recorded.asked_events.clear();
        let events = recorded.counted_events.iter_mut();
        events.for_each(|event| cleaner.clean(&mut event.event, TextKind::Text));
        cleaner.clean(&mut recorded.kernel_code, TextKind::Text);
        let names = recorded.thinned_spans.iter_mut().filter_map(|span| span.name.as_mut());
        names.for_each(|name| cleaner.clean(name, TextKind::Text));
        // A hash names no one. A file may say anything there.
        recorded.commit = recorded.commit.take().filter(|commit| is_hash(commit));
        let unread = recorded
            .resources
            .iter_mut()
            .flat_map(|resources| &mut resources.unread);
        for text in unread.flat_map(|unread| [&mut unread.counter, &mut unread.cause]) {
            cleaner.clean(text, TextKind::Text);
        }
        for limit in &mut recorded.limits {
            cleaner.clean(&mut limit.what, TextKind::Text);
            limit
                .words
                .iter_mut()
                .for_each(|words| cleaner.clean(words, TextKind::Text));
        }
    }
    for section in &mut data.extra {
        cleaner.clean(&mut section.label, TextKind::Text);
        for row in &mut section.rows {
            cleaner.clean(&mut row.label, TextKind::Text);
            cleaner.clean(&mut row.format, TextKind::Fixed);
            if let RowValue::Text(text) = &mut row.value {
                cleaner.clean(text, TextKind::Text);
            }
        }
    }
    if let Some(Value::String(product)) = data.meta.get_mut("product") {
        cleaner.clean_process(product);
    }
    cleaner.clean_fields(&mut data.meta, TextKind::Text, &["sampleUnits"]);
}
