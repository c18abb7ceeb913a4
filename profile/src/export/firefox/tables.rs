//! The library list, and the `shared` tables that all threads' stacks point into.

use std::io;

use rustc_hash::FxHashMap;

use super::json::{Json, put_optional, put_or_minus_one, put_string, put_unsigned};
use crate::model::Profile;
use crate::model::strings::{StringId, Strings};
use crate::model::tables::Lib;
use crate::read::SavedLib;

pub(super) fn write_libs(profile: &Profile, json: &mut Json) -> io::Result<()> {
    json.key("libs")?;
    let libs = &profile.tables.libs;
    json.array(|json| (libs.iter()).try_for_each(|lib| json.item(&SavedLib::of(&lib.module))))
}

/// The file's source table: the paths that functions name, in order of first use.
struct Sources {
    paths: Vec<StringId>,
    ids: FxHashMap<StringId, u64>,
}

impl Sources {
    fn of(profile: &Profile) -> Self {
        let mut sources = Sources {
            paths: Vec::new(),
            ids: FxHashMap::default(),
        };
        for path in profile.tables.funcs.iter().filter_map(|func| func.source) {
            sources.ids.entry(path).or_insert_with(|| {
                sources.paths.push(path);
                sources.paths.len() as u64 - 1
            });
        }
        sources
    }
}

pub(super) fn write_shared(profile: &Profile, json: &mut Json) -> io::Result<()> {
    let sources = Sources::of(profile);
    json.key("shared")?;
    json.object(|json| {
        write_stacks(profile, json)?;
        write_frames(profile, json)?;
        write_funcs(profile, &sources, json)?;
        write_resources(&profile.tables.libs, json)?;
        write_symbols(profile, json)?;
        write_sources(&sources, json)?;
        write_source_locations(json)?;
        write_strings(&profile.strings, json)
    })
}

fn write_stacks(profile: &Profile, json: &mut Json) -> io::Result<()> {
    let stacks = &profile.stacks;
    json.key("stackTable")?;
    json.object(|json| {
        json.column("frame", stacks.iter(), |buf, (_, _, frame)| {
            put_unsigned(buf, frame.0.into())
        })?;
        json.column("prefixOffset", stacks.iter(), |buf, (stack, prefix, _)| {
            put_unsigned(buf, prefix.map_or(0, |prefix| (stack.0 - prefix.0).into()));
        })?;
        json.entry("length", &stacks.len())
    })
}

fn write_frames(profile: &Profile, json: &mut Json) -> io::Result<()> {
    let frames = &profile.tables.frames;
    let category = |frame: &crate::model::tables::FrameRow| frame.kind.category(frame.inline_depth > 0);
    json.key("frameTable")?;
    json.object(|json| {
        json.column("address", frames.iter(), |buf, frame| {
            put_or_minus_one(buf, frame.address)
        })?;
        json.column("lib", frames.iter(), |buf, frame| {
            put_or_minus_one(buf, frame.lib.map(|lib| lib.0.into()));
        })?;
        json.column("inlineDepth", frames.iter(), |buf, frame| {
            put_unsigned(buf, frame.inline_depth.into())
        })?;
        json.column("category", frames.iter(), |buf, frame| {
            put_unsigned(buf, category(frame).0 as u64)
        })?;
        json.column("subcategory", frames.iter(), |buf, frame| {
            put_unsigned(buf, category(frame).1 as u64)
        })?;
        json.column("func", frames.iter(), |buf, frame| {
            put_unsigned(buf, frame.func.0.into())
        })?;
        json.column("nativeSymbol", frames.iter(), |buf, frame| {
            put_optional(buf, frame.native_symbol.map(u64::from));
        })?;
        json.constant_column("innerWindowID", frames.len(), "null")?;
        json.column("line", frames.iter(), |buf, frame| {
            put_optional(buf, frame.line.map(u64::from))
        })?;
        json.column("column", frames.iter(), |buf, frame| {
            put_optional(buf, frame.column.map(u64::from))
        })?;
        json.constant_column("originalLocation", frames.len(), "null")?;
        json.entry("length", &frames.len())
    })
}

fn write_funcs(profile: &Profile, sources: &Sources, json: &mut Json) -> io::Result<()> {
    let funcs = &profile.tables.funcs;
    json.key("funcTable")?;
    json.object(|json| {
        json.column("name", funcs.iter(), |buf, func| put_unsigned(buf, func.name.0.into()))?;
        json.constant_column("isJS", funcs.len(), "false")?;
        json.constant_column("relevantForJS", funcs.len(), "false")?;
        json.column("resource", funcs.iter(), |buf, func| {
            put_or_minus_one(buf, func.lib.map(|lib| lib.0.into()))
        })?;
        json.column("source", funcs.iter(), |buf, func| {
            put_optional(buf, func.source.and_then(|path| sources.ids.get(&path).copied()));
        })?;
        json.constant_column("lineNumber", funcs.len(), "null")?;
        json.constant_column("columnNumber", funcs.len(), "null")?;
        json.constant_column("originalLocation", funcs.len(), "null")?;
        json.entry("length", &funcs.len())
    })
}

/// One resource a library, with the same index.
fn write_resources(libs: &[Lib], json: &mut Json) -> io::Result<()> {
    // ResourceType.Library
    const LIBRARY: &str = "1";
    json.key("resourceTable")?;
    json.object(|json| {
        json.entry("length", &libs.len())?;
        json.column("name", libs.iter(), |buf, lib| put_unsigned(buf, lib.name.0.into()))?;
        json.constant_column("host", libs.len(), "null")?;
        json.constant_column("type", libs.len(), LIBRARY)
    })
}

fn write_symbols(profile: &Profile, json: &mut Json) -> io::Result<()> {
    let symbols = &profile.tables.symbols;
    json.key("nativeSymbols")?;
    json.object(|json| {
        json.column("libIndex", symbols.iter(), |buf, symbol| {
            put_unsigned(buf, symbol.lib.0.into())
        })?;
        json.column("address", symbols.iter(), |buf, symbol| {
            put_unsigned(buf, symbol.address)
        })?;
        json.column("name", symbols.iter(), |buf, symbol| {
            put_unsigned(buf, symbol.name.0.into())
        })?;
        json.column("functionSize", symbols.iter(), |buf, symbol| {
            put_optional(buf, symbol.size)
        })?;
        json.entry("length", &symbols.len())
    })
}

fn write_sources(sources: &Sources, json: &mut Json) -> io::Result<()> {
    let count = sources.paths.len();
    json.key("sources")?;
    json.object(|json| {
        json.entry("length", &count)?;
        json.constant_column("id", count, "null")?;
        json.column("filename", sources.paths.iter(), |buf, path| {
            put_unsigned(buf, path.0.into())
        })?;
        json.constant_column("startLine", count, "1")?;
        json.constant_column("startColumn", count, "1")?;
        json.constant_column("sourceMapURL", count, "null")?;
        json.constant_column("content", count, "null")
    })
}

/// Positions from source maps, of which native code has none.
fn write_source_locations(json: &mut Json) -> io::Result<()> {
    json.key("sourceLocationTable")?;
    json.object(|json| {
        json.constant_column("source", 0, "")?;
        json.constant_column("line", 0, "")?;
        json.constant_column("column", 0, "")?;
        json.entry("length", &0)
    })
}

fn write_strings(strings: &Strings, json: &mut Json) -> io::Result<()> {
    json.column("stringArray", strings.iter(), put_string)
}
