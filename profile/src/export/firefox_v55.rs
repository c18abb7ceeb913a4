//! Writes version 55 of the format, with the published `fxprof-processed-profile`, for front ends that read nothing
//! newer.
//!
//! The crate writes the document, and each thread's texts, frames, stacks and samples. It has no call for lines,
//! inlined functions, source files, untyped fields of markers, times before 0, fractional weights and unknown fields.
//! Columns that it leaves empty or would round are filled from the data.

use std::io::{self, BufWriter, Write};
use std::sync::Arc;

use fxprof_processed_profile as fxprof;
use fxprof_processed_profile::debugid::DebugId;
use fxprof_processed_profile::{
    LibraryHandle, LibraryInfo, Profile, StackHandle, SymbolTable, ThreadHandle, Timestamp,
};
use rustc_hash::FxHashMap;
use serde_json::{Value, json};

use super::firefox::{self, ns, some};
use crate::data::{Allocations, Data, Frame, MarkerPhase, NONE, SavedData, ScriptOrigin, TextFields, Thread};
use crate::to_data::number;
use crate::unique::Unique;

/// The written version.
pub const VERSION: u32 = 55;

/// Writes the profile as JSON.
///
/// # Errors
///
/// `out` could not be written to.
pub fn write(data: &SavedData, out: impl Write) -> io::Result<()> {
    // serde_json writes each number separately.
    let mut out = BufWriter::with_capacity(1 << 16, out);
    let mut head = serde_json::to_value(empty(data))?;
    // Added again if the data has sample units.
    remove(&mut head["meta"], "sampleUnits");
    set(&mut head["meta"], firefox::other_meta(data));
    head["meta"]["categories"] = json!(data.categories);
    head["meta"]["markerSchema"] = json!(data.schemas);
    head["libs"] = json!(data.libs);
    let counters = data.counters.iter().map(|counter| {
        let mut fields = counter.fields.clone();
        fields.insert("mainThreadIndex".to_owned(), some(counter.thread).unwrap_or(0).into());
        fields
    });
    put(&mut head, "counters", counters);
    set(&mut head, &data.rest);
    remove(&mut head, "threads");

    out.write_all(b"{")?;
    for (key, value) in head.as_object().into_iter().flatten() {
        writeln!(out, "{}:{value},", Value::from(key.as_str()))?;
    }
    out.write_all(b"\"threads\":[")?;
    let functions = functions(data);
    let text_fields = TextFields::from_schemas(&data.schemas);
    for (index, of) in data.threads.iter().enumerate() {
        out.write_all(if index > 0 { b",\n" } else { b"" })?;
        serde_json::to_writer(&mut out, &thread(data, of, &functions, &text_fields)?)?;
    }
    out.write_all(b"]}\n")?;
    out.flush()
}

/// A profile without threads.
fn empty(data: &Data) -> Profile {
    let start = fxprof::ReferenceTimestamp::from_millis_since_unix_epoch(data.start_ms);
    let interval = fxprof::SamplingInterval::from_nanos(ns(data.interval_ms).unsigned_abs());
    let mut profile = Profile::new(&data.product, start, interval);
    profile.set_symbolicated(data.symbolicated);
    profile
}

/// The functions of all frames. Frame N has the address N, so no two frames become one.
fn functions(data: &Data) -> Arc<SymbolTable> {
    let symbols = (0..).zip(&data.frames).map(|(address, frame)| fxprof::Symbol {
        address,
        size: Some(1),
        name: data.func_name(frame.func).to_owned(),
    });
    Arc::new(SymbolTable::new(symbols.collect()))
}

/// A thread with its own tables, as in version 55.
fn thread(data: &Data, of: &Thread, functions: &Arc<SymbolTable>, text_fields: &TextFields) -> io::Result<Value> {
    let mut own = of.clone();
    let mut made = ConvertedThread::new(data, functions);
    own.map_stacks(|stack| made.stack(data, stack));
    made.samples(&own);
    let mut json = serde_json::to_value(&made.profile)?["threads"][0].take();
    let mut texts: Unique<Box<str>> = Unique::default();
    for text in take_list(&mut json["stringArray"]) {
        texts.index_of(text.as_str().unwrap_or_default());
    }
    put_tables(data, &mut json, &mut texts);
    for fields in own.markers.iter_mut().filter_map(|marker| marker.fields.as_mut()) {
        text_fields.map(fields, |text| texts.index_of(data.text(text)));
    }
    put_samples(&own, &mut json["samples"]);
    put_markers(data, &own, &mut texts, &mut json["markers"]);
    json["stringArray"] = json!(texts.all);
    json["name"] = json!(own.name);
    json["isMainThread"] = json!(own.is_main);
    json["processName"] = json!(own.process_name);
    json["pid"] = json!(own.pid);
    json["tid"] = json!(own.tid);
    if let Some(event) = &own.event {
        json["event"] = json!(event);
    }
    if let Some(of) = &own.event_of {
        json["eventOf"] = json!(of);
    }
    if let Some(allocations) = &own.allocations {
        put_allocations(allocations, &mut json["nativeAllocations"]);
    }
    set(&mut json, &own.rest);
    Ok(json)
}

/// A thread from the crate: the only one of its profile.
struct ConvertedThread {
    profile: Profile,
    thread: ThreadHandle,
    functions: LibraryHandle,
    /// The thread's stack for each of the data's stacks.
    known: FxHashMap<u32, u32>,
    stacks: Unique<StackHandle>,
}

impl ConvertedThread {
    fn new(data: &Data, functions: &Arc<SymbolTable>) -> ConvertedThread {
        let mut profile = empty(data);
        let library = profile.add_lib(LibraryInfo {
            name: "functions".to_owned(),
            debug_name: String::new(),
            path: String::new(),
            debug_path: String::new(),
            debug_id: DebugId::nil(),
            code_id: None,
            arch: None,
            symbol_table: None,
        });
        profile.set_lib_symbol_table(library, Arc::clone(functions));
        let process = profile.add_process("", 0, time(0));
        ConvertedThread {
            thread: profile.add_thread(process, 0, time(0), false),
            functions: library,
            profile,
            known: FxHashMap::default(),
            stacks: Unique::default(),
        }
    }

    /// The thread's stack for one of the data.
    fn stack(&mut self, data: &Data, stack: u32) -> u32 {
        let mut path = Vec::new();
        let mut caller = stack;
        while let (false, Some(node)) = (self.known.contains_key(&caller), data.stacks.get(caller as usize)) {
            path.push((caller, node.frame));
            caller = node.prefix;
        }
        let mut index = self.known.get(&caller).copied();
        while let Some((stack, frame)) = path.pop() {
            let info = fxprof::FrameInfo {
                frame: fxprof::Frame::RelativeAddressFromInstructionPointer(self.functions, frame),
                category_pair: fxprof::CategoryHandle::OTHER.into(),
                flags: fxprof::FrameFlags::empty(),
            };
            let frame = self.profile.intern_frame(self.thread, info);
            let caller = index.map(|index| self.stacks.all[index as usize]);
            let own = self.profile.intern_stack(self.thread, caller, frame);
            index = Some(self.stacks.index(own));
            self.known.extend(index.map(|index| (stack, index)));
        }
        index.unwrap_or(NONE)
    }

    /// Adds samples with their numbers as times, because the crate sorts samples by time.
    fn samples(&mut self, thread: &Thread) {
        for (row, stack) in (0..).zip(&thread.samples.stack) {
            let stack = self.stacks.all.get(*stack as usize).copied();
            self.profile
                .add_sample(self.thread, time(row), stack, fxprof::CpuDelta::ZERO, 1);
        }
    }
}

fn time(ns: u64) -> Timestamp {
    Timestamp::from_nanos_since_reference(ns)
}

/// `ResourceType.Library` of the front end's src/types/profile.ts.
const LIBRARY: u32 = 1;

/// The origin of a function.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum FunctionOrigin<'a> {
    Lib(u32),
    Script(&'a ScriptOrigin),
}

/// Fills in frames, functions, resources and symbols of the thread.
fn put_tables(data: &Data, json: &mut Value, texts: &mut Unique<Box<str>>) {
    let addresses = take_list(&mut json["frameTable"]["address"]);
    let frames = addresses.iter().filter_map(Value::as_u64);
    let frames: Vec<&Frame> = frames.map(|frame| &data.frames[frame as usize]).collect();
    let (mut funcs, mut symbols, mut origins) = (Unique::default(), Unique::default(), Unique::default());
    let mut text = |index: u32| some(index).map(|_| texts.index_of(data.text(index)));

    let (table, rows) = (&mut json["frameTable"], || frames.iter());
    put(table, "address", rows().map(|frame| or_minus_one(frame.address)));
    // This version has no file for a line of another file than its function's.
    let own = |frame: &Frame, number: u32| some(number).filter(|_| frame.line_file == NONE);
    put(table, "line", rows().map(|frame| own(frame, frame.line)));
    put(table, "column", rows().map(|frame| own(frame, frame.column)));
    let window = rows().map(|frame| data.windows.get(frame.window as usize).copied());
    put(table, "innerWindowID", window);
    put(table, "inlineDepth", rows().map(|frame| frame.inline_depth));
    put(table, "category", rows().map(|frame| some(frame.category)));
    let subcategory = |frame: &&Frame| some(frame.category).map(|_| frame.subcategory);
    put(table, "subcategory", rows().map(subcategory));
    let symbol = rows().map(|frame| some(frame.symbol).map(|_| symbols.index(frame.symbol)));
    put(table, "nativeSymbol", symbol);
    let func = rows().map(|frame| {
        // In this version, a frame has the library of its function.
        let lib = some(frame.lib).map_or(data.funcs[frame.func as usize].lib, |_| frame.lib);
        funcs.index((frame.func, lib))
    });
    put(table, "func", func);

    let funcs = funcs.all.iter().map(|(func, lib)| (&data.funcs[*func as usize], *lib));
    let funcs: Vec<_> = funcs
        .map(|(func, lib)| (func, lib, data.scripts.get(func.script as usize)))
        .collect();
    let (table, rows) = (&mut json["funcTable"], || funcs.iter());
    put(table, "name", rows().map(|(func, ..)| text(func.name)));
    put(table, "fileName", rows().map(|(func, ..)| text(func.file)));
    put(
        table,
        "isJS",
        rows().map(|(.., script)| script.is_some_and(|script| script.is_js)),
    );
    let relevant = rows().map(|(.., script)| script.is_some_and(|script| script.relevant_for_js));
    put(table, "relevantForJS", relevant);
    put(
        table,
        "lineNumber",
        rows().map(|(.., script)| some(script.as_ref()?.line)),
    );
    put(
        table,
        "columnNumber",
        rows().map(|(.., script)| some(script.as_ref()?.column)),
    );
    let resource = rows().map(|(_, lib, script)| {
        let of_script = script
            .and_then(|script| script.resource.as_ref())
            .map(FunctionOrigin::Script);
        let origin = of_script.or(some(*lib).map(|_| FunctionOrigin::Lib(*lib)));
        or_minus_one(origin.map(|origin| origins.index(origin).into()))
    });
    put(table, "resource", resource);
    table["length"] = funcs.len().into();

    let (table, rows) = (&mut json["nativeSymbols"], || {
        symbols.all.iter().map(|symbol| &data.symbols[*symbol as usize])
    });
    put(table, "name", rows().map(|symbol| text(symbol.name)));
    put(table, "libIndex", rows().map(|symbol| symbol.lib));
    put(table, "address", rows().map(|symbol| symbol.address));
    put(table, "functionSize", rows().map(|symbol| symbol.size));
    table["length"] = symbols.all.len().into();

    let (table, rows) = (&mut json["resourceTable"], || origins.all.iter());
    let name = rows().map(|origin| match origin {
        FunctionOrigin::Lib(lib) => texts.index_of(data.libs[*lib as usize].name.as_deref().unwrap_or_default()),
        FunctionOrigin::Script(of) => texts.index_of(data.text(of.name)),
    });
    put(table, "name", name);
    let of_script = |origin: &FunctionOrigin<'_>| match origin {
        FunctionOrigin::Lib(lib) => (Some(*lib), NONE, LIBRARY),
        FunctionOrigin::Script(of) => (None, of.host, of.kind),
    };
    put(table, "lib", rows().map(|origin| of_script(origin).0));
    let host = rows()
        .map(of_script)
        .map(|(_, host, _)| some(host).map(|_| texts.index_of(data.text(host))));
    put(table, "host", host);
    put(table, "type", rows().map(|origin| of_script(origin).2));
    table["length"] = origins.all.len().into();
}

fn put_samples(thread: &Thread, table: &mut Value) {
    let samples = &thread.samples;
    let mut last = 0;
    let deltas = samples.time_ms.iter().map(|time| {
        let delta = ns(*time).wrapping_sub(last);
        last = ns(*time);
        number(delta as f64 / 1e6)
    });
    put(table, "timeDeltas", deltas);
    table["weightType"] = firefox::weight_type(thread.unit).into();
    match &samples.weight {
        Some(weights) => put(table, "weight", weights.iter().copied().map(number)),
        None if samples.is_empty() => {}
        None => table["weight"] = Value::Null,
    }
    match &samples.cpu_delta {
        Some(deltas) => put(table, "threadCPUDelta", deltas.iter().copied().map(number)),
        None => remove(table, "threadCPUDelta"),
    }
    if let Some(counts) = &samples.count {
        put(table, "count", counts.iter().copied());
    }
    set(table, &samples.rest);
}

fn put_allocations(allocations: &Allocations, table: &mut Value) {
    put(table, "time", allocations.time_ms.iter().copied().map(number));
    put(table, "weight", allocations.weight.iter().copied().map(number));
    put(table, "stack", allocations.stack.iter().copied().map(some));
    for (key, numbers) in [("memoryAddress", &allocations.address), ("size", &allocations.size)] {
        if let Some(numbers) = numbers {
            put(table, key, numbers.iter().copied());
        }
    }
    if let Some(threads) = &allocations.thread {
        put(table, "threadId", threads.iter().copied().map(number));
    }
    if let Some(end) = allocations.end_ms {
        table["end"] = number(end);
    }
    set(table, &allocations.rest);
    table["length"] = allocations.weight.len().into();
}

fn put_markers(data: &Data, thread: &Thread, texts: &mut Unique<Box<str>>, table: &mut Value) {
    let rows = || thread.markers.iter();
    let fields = rows().map(|marker| Some(firefox::with_cause(marker, marker.fields.as_ref()?)));
    put(table, "data", fields);
    put(
        table,
        "name",
        rows().map(|marker| texts.index_of(data.text(marker.name))),
    );
    let start = rows().map(|marker| (marker.phase != MarkerPhase::End).then(|| number(marker.start_ms)));
    put(table, "startTime", start);
    let has_end = |phase: MarkerPhase| matches!(phase, MarkerPhase::Interval | MarkerPhase::End);
    let end = rows().map(|marker| has_end(marker.phase).then(|| number(marker.end_ms)));
    put(table, "endTime", end);
    put(table, "phase", rows().map(|marker| marker.phase as u64));
    put(table, "category", rows().map(|marker| marker.category));
    table["length"] = thread.markers.len().into();
}

fn or_minus_one(number: Option<u64>) -> Value {
    number.map_or(json!(-1), Value::from)
}

fn take_list(value: &mut Value) -> Vec<Value> {
    match value.take() {
        Value::Array(list) => list,
        _ => Vec::new(),
    }
}

fn remove(object: &mut Value, key: &str) {
    object.as_object_mut().and_then(|object| object.remove(key));
}

fn put<T: Into<Value>>(table: &mut Value, key: &str, column: impl Iterator<Item = T>) {
    table[key] = column.collect();
}

fn set<'a>(object: &mut Value, fields: impl IntoIterator<Item = (&'a String, &'a Value)>) {
    for (key, value) in fields {
        object[key] = value.clone();
    }
}
