//! The library list, and the `shared` tables of all threads.

use std::io;

use rustc_hash::FxHashMap;

use super::json::{Json, put_optional, put_or_minus_one, put_string, put_unsigned, some};
use crate::data::{Data, Frame, Func, NONE, ScriptOrigin, Stack};
use crate::unique::Unique;

pub(super) fn write<S: Iterator<Item = Stack>>(data: &Data, stacks: impl Fn() -> S, json: &mut Json) -> io::Result<()> {
    json.key("libs")?;
    json.array(|json| data.libs.iter().try_for_each(|lib| json.item(lib)))?;
    json.key("shared")?;
    json.object(|json| shared(data, stacks, json))
}

fn shared<S: Iterator<Item = Stack>>(data: &Data, stacks: impl Fn() -> S, json: &mut Json) -> io::Result<()> {
    json.key("stackTable")?;
    json.object(|json| {
        let mut count = 0;
        json.column("frame", stacks().inspect(|_| count += 1), |buf, stack| {
            put_unsigned(buf, stack.frame.into())
        })?;
        json.column("prefixOffset", stacks().enumerate(), |buf, (at, stack)| {
            put_unsigned(buf, some(stack.prefix).map_or(0, |prefix| at as u64 - prefix));
        })?;
        json.entry("length", &count)
    })?;
    json.key("frameTable")?;
    // Lines of other files than the function's.
    let locations: Unique<LineLocation> = data.frames.iter().filter_map(LineLocation::from_frame).collect();
    json.object(|json| frames(data, &locations, json))?;
    let files: Unique<u32> = (data.funcs.iter().map(|func| func.file))
        .chain(locations.all.iter().map(|location| location.file))
        .filter(|file| *file != NONE)
        .collect();
    let names = LibNames::new(data);
    // The origins of scripts, in the order of the functions. Reading the file finds them in the same order.
    let resources: Unique<&ScriptOrigin> = (data.funcs.iter())
        .filter_map(|func| data.scripts.get(func.script as usize)?.resource.as_ref())
        .collect();
    let script = |func: &Func| data.scripts.get(func.script as usize);
    // A function of a crate has the crate as its resource and not the library that it was linked into, so that
    // "collapse resource" of the front end collapses the crate. Frames have the library.
    let krates: Unique<u32> = (data.funcs.iter().map(|func| func.krate))
        .filter(|krate| *krate != NONE)
        .collect();
    let (behind_libs, behind_scripts) = (data.libs.len() as u64, (data.libs.len() + resources.all.len()) as u64);
    json.key("funcTable")?;
    json.object(|json| {
        let (funcs, count) = (|| data.funcs.iter(), data.funcs.len());
        json.column("name", funcs(), |buf, func| put_unsigned(buf, func.name.into()))?;
        let put_bool = |buf: &mut Vec<u8>, is_so: bool| buf.extend_from_slice(if is_so { b"true" } else { b"false" });
        json.column("isJS", funcs(), |buf, func| {
            put_bool(buf, script(func).is_some_and(|script| script.is_js))
        })?;
        json.column("relevantForJS", funcs(), |buf, func| {
            put_bool(buf, script(func).is_some_and(|script| script.relevant_for_js));
        })?;
        json.column("resource", funcs(), |buf, func| {
            let of_script = script(func).and_then(|script| resources.get(&script.resource.as_ref()?));
            let of_script = of_script.map(|index| behind_libs + u64::from(index));
            let of_krate = || krates.get(&func.krate).map(|index| behind_scripts + u64::from(index));
            put_or_minus_one(buf, of_script.or_else(of_krate).or(some(func.lib)));
        })?;
        json.column("source", funcs(), |buf, func| {
            put_optional(buf, files.get(&func.file).map(u64::from))
        })?;
        json.column("lineNumber", funcs(), |buf, func| {
            put_optional(buf, script(func).and_then(|script| some(script.line)))
        })?;
        json.column("columnNumber", funcs(), |buf, func| {
            put_optional(buf, script(func).and_then(|script| some(script.column)))
        })?;
        json.constant_column("originalLocation", count, "null")?;
        // sprof's own.
        if data.funcs.iter().any(|func| func.krate != NONE) {
            json.column("crate", funcs(), |buf, func| put_optional(buf, some(func.krate)))?;
        }
        json.entry("length", &count)
    })?;
    json.key("resourceTable")?;
    json.object(|json| {
        // One resource for each library, with the library's index; those of scripts and of crates follow.
        let count = data.libs.len() + resources.all.len() + krates.all.len();
        let of_scripts = || resources.all.iter();
        let libs = || names.indexes.iter().copied();
        let of_krates = || krates.all.iter().map(|krate| u64::from(*krate));
        json.entry("length", &count)?;
        json.column(
            "name",
            libs().chain(of_scripts().map(|of| of.name.into())).chain(of_krates()),
            put_unsigned,
        )?;
        let no_host = data.libs.iter().map(|_| None);
        json.column(
            "host",
            no_host
                .chain(of_scripts().map(|of| some(of.host)))
                .chain(of_krates().map(|_| None)),
            put_optional,
        )?;
        // ResourceType.Library
        let kinds = data.libs.iter().map(|_| 1).chain(of_scripts().map(|of| of.kind.into()));
        json.column("type", kinds.chain(of_krates().map(|_| 1)), put_unsigned)
    })?;
    json.key("nativeSymbols")?;
    json.object(|json| {
        let symbols = || data.symbols.iter();
        json.column("libIndex", symbols(), |buf, symbol| {
            put_unsigned(buf, symbol.lib.into())
        })?;
        json.column("address", symbols(), |buf, symbol| put_unsigned(buf, symbol.address))?;
        json.column("name", symbols(), |buf, symbol| put_unsigned(buf, symbol.name.into()))?;
        json.column("functionSize", symbols(), |buf, symbol| put_optional(buf, symbol.size))?;
        json.entry("length", &data.symbols.len())
    })?;
    json.key("sources")?;
    json.object(|json| {
        let (paths, count) = (|| files.all.iter(), files.all.len());
        json.entry("length", &count)?;
        json.constant_column("id", count, "null")?;
        json.column("filename", paths(), |buf, file| put_unsigned(buf, (*file).into()))?;
        json.constant_column("startLine", count, "1")?;
        json.constant_column("startColumn", count, "1")?;
        json.constant_column("sourceMapURL", count, "null")?;
        let text_of = |file: &u32| data.source(data.text(*file));
        json.column("content", paths().map(text_of), |buf, text| match text {
            Some(text) => put_string(buf, text),
            None => buf.extend_from_slice(b"null"),
        })
    })?;
    json.key("sourceLocationTable")?;
    json.object(|json| {
        let locations = &locations.all;
        json.column("source", locations.iter(), |buf, location| {
            put_optional(buf, files.get(&location.file).map(u64::from))
        })?;
        json.column("line", locations.iter(), |buf, location| {
            put_unsigned(buf, location.line.into())
        })?;
        // The format has no unknown column.
        json.column("column", locations.iter(), |buf, location| {
            put_unsigned(buf, some(location.column).unwrap_or(0));
        })?;
        json.entry("length", &locations.len())
    })?;
    let texts = data.texts.iter().map(|text| &**text);
    json.column("stringArray", texts.chain(names.new.iter().copied()), put_string)
}

/// The texts of library names. Names that are not among the data's texts follow them.
struct LibNames<'a> {
    /// The text index of each library's name.
    indexes: Vec<u64>,
    new: Vec<&'a str>,
}

impl<'a> LibNames<'a> {
    fn new(data: &'a Data) -> LibNames<'a> {
        let names = data.libs.iter().map(|lib| lib.name.as_deref().unwrap_or_default());
        let mut known: FxHashMap<&str, Option<u64>> = names.clone().map(|name| (name, None)).collect();
        for (index, text) in (0..).zip(&data.texts) {
            if let Some(known @ None) = known.get_mut(&**text) {
                *known = Some(index);
            }
        }
        let mut new = Vec::new();
        let indexes = names.map(|name| {
            let known = known.entry(name).or_default();
            *known.get_or_insert_with(|| {
                new.push(name);
                (data.texts.len() + new.len()) as u64 - 1
            })
        });
        LibNames {
            indexes: indexes.collect(),
            new,
        }
    }
}

/// A line of another file than its function's: a row of `sourceLocationTable`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct LineLocation {
    file: u32,
    line: u32,
    column: u32,
}

impl LineLocation {
    fn from_frame(frame: &Frame) -> Option<LineLocation> {
        (frame.line_file != NONE).then_some(LineLocation {
            file: frame.line_file,
            line: frame.line,
            column: frame.column,
        })
    }
}

fn frames(data: &Data, locations: &Unique<LineLocation>, json: &mut Json) -> io::Result<()> {
    let (frames, count) = (&data.frames, data.frames.len());
    json.column("address", frames.iter(), |buf, frame| {
        put_or_minus_one(buf, frame.address)
    })?;
    json.column("lib", frames.iter(), |buf, frame| {
        put_or_minus_one(buf, some(frame.lib))
    })?;
    json.column("inlineDepth", frames.iter(), |buf, frame| {
        put_unsigned(buf, frame.inline_depth.into())
    })?;
    json.column("category", frames.iter(), |buf, frame| {
        put_optional(buf, some(frame.category))
    })?;
    json.column("subcategory", frames.iter(), |buf, frame| {
        put_optional(buf, some(frame.category).map(|_| frame.subcategory.into()))
    })?;
    json.column("func", frames.iter(), |buf, frame| put_unsigned(buf, frame.func.into()))?;
    json.column("nativeSymbol", frames.iter(), |buf, frame| {
        put_optional(buf, some(frame.symbol))
    })?;
    json.column("innerWindowID", frames.iter(), |buf, frame| {
        put_optional(buf, data.windows.get(frame.window as usize).copied())
    })?;
    let own = |frame: &Frame, number: u32| some(number).filter(|_| frame.line_file == NONE);
    json.column("line", frames.iter(), |buf, frame| {
        put_optional(buf, own(frame, frame.line))
    })?;
    json.column("column", frames.iter(), |buf, frame| {
        put_optional(buf, own(frame, frame.column))
    })?;
    json.column("originalLocation", frames.iter(), |buf, frame| {
        let location = LineLocation::from_frame(frame).and_then(|location| locations.get(&location));
        put_optional(buf, location.map(u64::from));
    })?;
    json.entry("length", &count)
}
