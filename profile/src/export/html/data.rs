//! The page's data: a head in JSON, and columns of numbers.
//!
//! `length of the head (u32, little endian), head, columns`

use rustc_hash::FxHashMap;
use serde_json::{Value, json};

use super::super::label::FrameColors;
use super::super::svg::color;
use super::about::about;
use super::columns::PageColumns;
use super::heap::heap;
use super::markers::markers;
use super::stacks::{PageInstruction, PageStacks};
use super::threads::{ThreadRows, counters};
use super::{PageOptions, kinds};
use crate::data::{Calls, Counter, Data, NONE};
use crate::to_data::{RUNNING, running};
use crate::view::headline::headline;
use crate::view::nameless::NamelessSamples;
use crate::view::names::short;
use crate::view::parallelism::WALL_TIME;
use crate::view::resources::shortage;
use crate::view::select::{Filter, NotFound, Selection, select};

/// Increased when a page could not show data of another version: page and data are written together, but a server may
/// be updated.
pub(super) const VERSION: u32 = 1;

/// All that the page shows of a profile.
pub(super) fn data(mut data: Data, options: &PageOptions<'_>) -> Result<Vec<u8>, NotFound> {
    let mut columns = PageColumns::default();
    let rows = ThreadRows::new(&data);
    let mut head = serde_json::Map::new();
    let mut put = |key: &str, value: Value| {
        head.insert(key.to_owned(), value);
    };
    put("version", VERSION.into());
    put("about", about(&data, options.notes));
    put("markers", markers(&data, &rows, &mut columns));
    let parallelism = data.parallelism().ok();
    let parallelism = parallelism.filter(|numbers| numbers.intervals.iter().any(|interval| interval.running > 1));
    let is_counted = |counter: &Counter| counter.fields.get("name").and_then(Value::as_str) == Some(RUNNING);
    if let (Some(numbers), Some(thread), false) =
        (&parallelism, data.threads.first(), data.counters.iter().any(is_counted))
    {
        let counter = running(&numbers.intervals, numbers.is_exact, &thread.pid, 0);
        data.counters.push(counter);
    }
    put("counters", counters(&data, &rows, &mut columns));
    put(
        "calls",
        match data.calls {
            Calls::Paths => "paths",
            Calls::Arcs(_) => "arcs",
            Calls::Unknown => "unknown",
        }
        .into(),
    );
    let selection = select(&data, &Filter::default())?;
    let mut used = vec![false; data.stacks.len()];
    let taken = data.threads.iter().filter_map(|thread| thread.allocations.as_ref());
    let taken = taken.flat_map(|table| &table.stack);
    for stack in data
        .threads
        .iter()
        .flat_map(|thread| &thread.samples.stack)
        .chain(taken)
    {
        if let Some(used) = used.get_mut(*stack as usize) {
            *used = true;
        }
    }
    let stacks = PageStacks::new(&selection, used, options.is_served);
    put("stacks", stacks.write(&mut columns));
    functions(&selection, &stacks, options, &mut columns, &mut put);
    let short = shortage(&selection).map(|shortage| shortage.text);
    drop(selection);
    put("heap", heap(&data, &stacks, &rows, &mut columns));

    let mut found = Vec::new();
    let mut failed = None;
    // Of the kind that is shown first.
    let mut first: Option<(Value, Value)> = None;
    data.for_each_event(|data| {
        for waits in [false, true] {
            let filter = Filter {
                waits,
                ..Filter::default()
            };
            match select(data, &filter) {
                Ok(selection) => {
                    found.extend(kinds::kind(&selection, waits, &stacks, &rows, &mut columns));
                    first.get_or_insert_with(|| (where_time_went(&selection, &stacks), nameless(data)));
                }
                Err(error) => failed = Some(error),
            }
        }
    });
    if let Some(error) = failed {
        return Err(error);
    }
    if let Some(numbers) = parallelism.filter(|_| data.event.is_none() && data.weigh_by_latency().is_ok()) {
        let selection = select(&data, &Filter::default())?;
        let mut wall_time = kinds::kind(&selection, false, &stacks, &rows, &mut columns);
        if let Some(kind) = wall_time.as_mut().filter(|_| !numbers.is_exact) {
            kind["name"] = format!("{WALL_TIME} (estimate)").into();
        }
        // After the CPU time.
        found.splice(found.len().min(1)..found.len().min(1), wall_time);
    }
    put("kinds", found.into());
    let (function, nameless) = first.unwrap_or_default();
    put("headline", json!({ "function": function, "short": short }));
    put("nameless", nameless);
    put("threads", rows.into_json());
    put("columns", columns.index());
    Ok(bytes(&Value::Object(head), columns))
}

/// Head and columns.
pub(super) fn bytes(head: &Value, mut columns: PageColumns) -> Vec<u8> {
    let head = head.to_string();
    let mut bytes = Vec::with_capacity(4 + head.len() + columns.bytes.len());
    bytes.extend_from_slice(&u32::try_from(head.len()).unwrap_or(u32::MAX).to_le_bytes());
    bytes.extend_from_slice(head.as_bytes());
    bytes.append(&mut columns.bytes);
    bytes
}

/// Numbers of things in the order in which they are first used. 0 is none.
#[derive(Default)]
struct FirstUseNumbers {
    of: FxHashMap<u32, u64>,
    all: Vec<u32>,
}

impl FirstUseNumbers {
    /// 0 if it has no number.
    fn number_of(&self, of: u32) -> u64 {
        self.of.get(&of).copied().unwrap_or(0)
    }

    fn number(&mut self, of: u32) -> u64 {
        if of == NONE {
            return 0;
        }
        *self.of.entry(of).or_insert_with(|| {
            self.all.push(of);
            self.all.len() as u64
        })
    }
}

/// The instruction of each stack but the first: address plus one, library, and function with that machine code plus
/// one; 0 is none.
fn places(
    selection: &Selection<'_>,
    stacks: &PageStacks,
    libs: &mut FirstUseNumbers,
    columns: &mut PageColumns,
) -> [usize; 3] {
    let mut number_of = vec![0; selection.data.funcs.len()];
    for (number, func) in (1..).zip(&stacks.funcs) {
        number_of[*func as usize] = number;
    }
    let places = &stacks.places;
    let mut column = |of: &mut dyn FnMut(&PageInstruction) -> u64| {
        columns.plain(places.iter().map(|place| place.as_ref().map_or(0, &mut *of)))
    };
    [
        column(&mut |place| place.address.saturating_add(1)),
        column(&mut |place| libs.number(place.lib)),
        column(&mut |place| number_of[place.machine as usize]),
    ]
}

fn functions(
    selection: &Selection<'_>,
    stacks: &PageStacks,
    options: &PageOptions<'_>,
    columns: &mut PageColumns,
    put: &mut impl FnMut(&str, Value),
) {
    let data = selection.data;
    let funcs = &stacks.funcs;
    let of = |func: u32| data.funcs[func as usize];
    let (mut libs, mut files) = (FirstUseNumbers::default(), FirstUseNumbers::default());
    let lib: Vec<u64> = funcs.iter().map(|func| libs.number(of(*func).lib)).collect();
    let file: Vec<u64> = funcs.iter().map(|func| files.number(of(*func).file)).collect();
    let line_file: Vec<u64> = stacks.line_file.iter().map(|file| files.number(*file)).collect();
    put("lineFile", columns.plain(line_file).into());
    // A function's first frame stands for it.
    let mut frame_of = vec![NONE; data.funcs.len()];
    for (at, frame) in (0..).zip(&data.frames) {
        let first = &mut frame_of[selection.representative(frame.func) as usize];
        if *first == NONE {
            *first = at;
        }
    }
    let frame = |func: u32| data.frames.get(frame_of[func as usize] as usize);
    let kinds_of_code = FrameColors::new(data);
    let (mut known, mut names_of_code) = (Vec::new(), Vec::new());
    let code = funcs.iter().map(|func| {
        let kind = frame(*func).map_or(super::super::label::FrameColor::Other, |frame| {
            kinds_of_code.kind(data, frame)
        });
        known.iter().position(|known| *known == kind).unwrap_or_else(|| {
            known.push(kind);
            let (hue, saturation, lightness) = color::base(kind);
            names_of_code.push(json!([kind.name(), hue, saturation, lightness]));
            known.len() - 1
        })
    });
    let code: Vec<u64> = code.map(|code| code as u64).collect();
    let names: Vec<_> = funcs.iter().map(|func| selection.name(*func)).collect();
    put(
        "funcs",
        json!({
            "name": names,
            "short": shorter(names.iter().copied()),
            "lib": columns.plain(lib),
            "file": columns.plain(file),
            "code": columns.plain(code),
        }),
    );
    put("code", names_of_code.into());
    let places = options.is_served.then(|| places(selection, stacks, &mut libs, columns));
    put("places", places.into());
    put("diff", Value::Null);
    let lib = |lib: &u32| {
        let lib = &data.libs[*lib as usize];
        let name = lib.name.as_deref().or(lib.debug_name.as_deref());
        match options.is_served {
            true => json!([name, lib.debug_name, lib.breakpad_id]),
            false => json!([name]),
        }
    };
    put("libs", libs.all.iter().map(lib).collect());
    // Code of each file: library and address. A request for the file's text names it.
    let mut code_of: FxHashMap<u32, (u64, u64)> = FxHashMap::default();
    for frame in data.frames.iter().filter(|_| options.is_served) {
        if let (Some(address), lib @ 1..) = (frame.address, libs.number_of(frame.lib)) {
            code_of.entry(data.line_file(frame)).or_insert((lib, address));
        }
    }
    let file = |file: &u32| {
        let path = data.text(*file);
        let short = names::source_path::SourcePath::parse(path).short().into_owned();
        json!([path, (short != path).then_some(short), code_of.get(file)])
    };
    put("files", files.all.iter().map(file).collect());
    let sources = files.all.iter().zip(0..);
    let sources =
        sources.filter_map(|(file, at): (_, usize)| Some((at.to_string(), data.source(data.text(*file))?.into())));
    put("sources", Value::Object(sources.collect()));
}

/// The names that people write in another, shorter form, by index.
pub(super) fn shorter<'a>(names: impl Iterator<Item = &'a str>) -> Value {
    let shorter = names.enumerate().filter_map(|(at, name)| {
        let short = short(name);
        (short.len() < name.len()).then(|| (at.to_string(), short.into()))
    });
    Value::Object(shorter.collect())
}

/// Samples in code without a name, and all samples.
fn nameless(data: &Data) -> Value {
    NamelessSamples::count(data).map_or(Value::Null, |samples| json!([samples.nameless, samples.of]))
}

/// What the page says first: a function and what is in it, by number of the page.
fn where_time_went(selection: &Selection<'_>, stacks: &PageStacks) -> Value {
    let number = |func: u32| stacks.funcs.iter().position(|of| *of == func);
    let function = headline(selection).and_then(|found| {
        Some(json!([
            number(found.func)?,
            found.share,
            number(found.hottest)?,
            found.part
        ]))
    });
    function.unwrap_or_default()
}
