//! Symbols, functions, frames and stacks: of one thread, or of all threads.

use super::super::columns::Ids;
use super::super::extent::{FieldChoice, KeptField};
use super::super::raw::{
    RawFrames, RawFuncs, RawLocations, RawResources, RawStacks, RawSymbols, frame_flag, func_flag,
};
use super::{
    FLAGS_OF_FRAMES, FLAGS_OF_FUNCS, FileIndices, IndexColumn, LIBS_OF_FRAMES, Normalizer, PREFIX_OFFSETS, SOURCES,
    TableFault, beyond, has_line, id,
};
use crate::data::{Frame, Func, NONE, Script, ScriptOrigin, Stack, Symbol};

impl Normalizer {
    pub(super) fn symbols(&mut self, raw: &RawSymbols, places: &FileIndices, at: &str) -> Result<(), TableFault> {
        let libs = IndexColumn(at, "nativeSymbols.libIndex", &raw.lib_index.0);
        let names = IndexColumn(at, "nativeSymbols.name", &raw.name.0);
        for index in 0..names.2.len() {
            let name = names.required(index, places.texts.len(), "texts")?;
            self.data.symbols.push(Symbol {
                lib: libs.required(index, self.data.libs.len(), "libraries")?,
                address: raw.address.0.get(index).copied().flatten().unwrap_or(0),
                name: id(&places.texts, name),
                size: raw.function_size.0.get(index).copied().flatten(),
            });
        }
        Ok(())
    }

    /// The functions of the table, with the libraries of their resources, and properties of script functions.
    pub(super) fn funcs<E: FieldChoice>(
        &self,
        raw: RawFuncs<E>,
        resources: RawResources<E>,
        places: &FileIndices,
        at: &str,
    ) -> Result<Vec<(Func, Option<Script>)>, TableFault> {
        let texts = &places.texts;
        let names = IndexColumn(at, "funcTable.name", &raw.name.0);
        let resource_of = IndexColumn(at, "funcTable.resource", &raw.resource.0);
        let (files, file_ids) = match self.version >= SOURCES {
            true => (IndexColumn(at, "funcTable.source", &raw.source.0), &places.sources),
            false => (IndexColumn(at, "funcTable.fileName", &raw.file_name.0), texts),
        };
        let krates = IndexColumn(at, "funcTable.crate", &raw.krate.0);
        let flags = IndexColumn(at, "funcTable.flags", &raw.flags.0);
        let has_flags = self.version >= FLAGS_OF_FUNCS;
        let resource_libs = &resources.lib.0;
        let scripts = ScriptColumns {
            is_js: raw.is_js.take(),
            relevant_for_js: raw.relevant_for_js.take(),
            line: raw.line_number.take(),
            column: raw.column_number.take(),
            resource_name: resources.name.take(),
            resource_host: resources.host.take(),
            resource_type: resources.r#type.take(),
        };
        (0..names.2.len())
            .map(|index| {
                let flags = if has_flags { flags.value(index)? } else { u32::MAX };
                let file = match flags & func_flag::SOURCE != 0 {
                    true => files.optional(index, file_ids.len(), "sources")?,
                    false => NONE,
                };
                let resource = match flags & func_flag::RESOURCE != 0 && self.version < LIBS_OF_FRAMES {
                    true => resource_of.optional(index, resource_libs.len(), "resources")?,
                    false => NONE,
                };
                let lib = id(resource_libs, resource);
                let func = Func {
                    name: id(texts, names.required(index, texts.len(), "texts")?),
                    lib: self.lib(lib, || format!("{at}.resourceTable.lib[{resource}]"))?,
                    file: id(file_ids, file),
                    script: NONE,
                    krate: id(texts, krates.optional(index, texts.len(), "texts")?),
                };
                Ok((func, scripts.of(index, resource_of.get(index), texts)))
            })
            .collect()
    }

    fn lib(&self, lib: u32, place: impl Fn() -> String) -> Result<u32, TableFault> {
        let count = self.data.libs.len();
        match lib == NONE || (lib as usize) < count {
            true => Ok(lib),
            false => Err(beyond(&place(), lib, count, "libraries")),
        }
    }

    pub(super) fn frames<E: FieldChoice>(
        &mut self,
        raw: RawFrames<E>,
        funcs: &[(Func, Option<Script>)],
        first_symbol: usize,
        (locations, places): (&RawLocations, &FileIndices),
        at: &str,
    ) -> Result<(), TableFault> {
        let location = IndexColumn(at, "frameTable.originalLocation", &raw.original_location.0);
        let sources = IndexColumn(at, "sourceLocationTable.source", &locations.source.0);
        let (lines, columns) = (&locations.line.0, &locations.column.0);
        let locations = |index| -> Result<Option<(u32, u32, u32)>, TableFault> {
            if has_line((&raw.line.0, &raw.flags.0), index) {
                return Ok(None);
            }
            match location.optional(index, sources.2.len(), "locations")? {
                NONE => Ok(None),
                at => {
                    let source = sources.optional(at as usize, places.sources.len(), "sources")?;
                    let column = Some(id(columns, at)).filter(|column| *column > 0);
                    Ok(Some((
                        id(&places.sources, source),
                        id(lines, at),
                        column.unwrap_or(NONE),
                    )))
                }
            }
        };
        let columns = raw.column.take();
        let windows = raw.inner_window_id.take();
        let column = IndexColumn(at, "frameTable.column", &columns.0);
        let subcategory = IndexColumn(at, "frameTable.subcategory", &raw.subcategory.0);
        let symbol = IndexColumn(at, "frameTable.nativeSymbol", &raw.native_symbol.0);
        let symbol_count = self.data.symbols.len() - first_symbol;
        let func = IndexColumn(at, "frameTable.func", &raw.func.0);
        let line = IndexColumn(at, "frameTable.line", &raw.line.0);
        let category = IndexColumn(at, "frameTable.category", &raw.category.0);
        let inline_depth = IndexColumn(at, "frameTable.inlineDepth", &raw.inline_depth.0);
        let libs = IndexColumn(at, "frameTable.lib", &raw.lib.0);
        let flags = IndexColumn(at, "frameTable.flags", &raw.flags.0);
        let count = func.2.len();
        self.data.frames.reserve_exact(count);
        for index in 0..count {
            let &(mut of, ref script) = &funcs[func.required(index, funcs.len(), "functions")? as usize];
            // Script properties are in the order in which frames refer to them. Writing the data and reading it again
            // gives the same order.
            of.script = match script {
                Some(script) => (self.scripts.get(script)).unwrap_or_else(|| self.scripts.index(script.clone())),
                None => NONE,
            };
            let flags = match self.version >= FLAGS_OF_FRAMES {
                true => flags.value(index)?,
                false => u32::MAX ^ frame_flag::INLINED,
            };
            let has = |flag: u32| flags & flag != 0;
            if self.version >= LIBS_OF_FRAMES && has(frame_flag::ADDRESS_AND_LIB) {
                of.lib = self.lib(libs.get(index), || format!("{at}.frameTable.lib[{index}]"))?;
            }
            let categories = self.data.categories.len();
            let category = match has(frame_flag::CATEGORY) {
                true => category.optional(index, categories, "categories")?,
                false => NONE,
            };
            let address = raw.address.0.get(index).copied().flatten();
            let depth = match inline_depth.get(index) {
                0 | NONE => has(frame_flag::INLINED).into(),
                depth => u16::try_from(depth).unwrap_or(u16::MAX),
            };
            let symbol = match has(frame_flag::NATIVE_SYMBOL) {
                true => symbol.optional(index, symbol_count, "native symbols")?,
                false => NONE,
            };
            let own_line = if has(frame_flag::LINE) { line.get(index) } else { NONE };
            let elsewhere = locations(index)?;
            let (line_file, line, column) = elsewhere.unwrap_or((NONE, own_line, column.get(index)));
            let frame = Frame {
                func: self.funcs.index(of),
                line,
                line_file: if line == NONE || line_file == of.file {
                    NONE
                } else {
                    line_file
                },
                column,
                category,
                subcategory: u16::try_from(subcategory.get(index)).unwrap_or(0),
                inline_depth: depth,
                symbol: if symbol == NONE {
                    NONE
                } else {
                    first_symbol as u32 + symbol
                },
                lib: of.lib,
                window: self.window(windows.0.get(index).copied()),
                address: address.filter(|_| has(frame_flag::ADDRESS_AND_LIB)),
            };
            self.data.frames.push(frame);
        }
        Ok(())
    }

    /// JavaScript converts the id to a double: 64-bit -1 becomes 18446744073709552000.
    fn window(&mut self, id: Option<f64>) -> u32 {
        let id = id.filter(|id| !id.is_nan());
        id.map_or(NONE, |id| self.windows.index(id as u64))
    }

    pub(super) fn stacks(&mut self, raw: &RawStacks, first_frame: usize, at: &str) -> Result<(), TableFault> {
        let frames = IndexColumn(at, "stackTable.frame", &raw.frame.0);
        let prefixes = IndexColumn(at, "stackTable.prefix", &raw.prefix.0);
        let offsets = IndexColumn(at, "stackTable.prefixOffset", &raw.prefix_offset.0);
        let frame_count = self.data.frames.len() - first_frame;
        let first_stack = self.data.stacks.len();
        let count = frames.2.len();
        if u32::try_from(first_stack + count).is_err() {
            return Err(format!("{at}.stackTable: more than {NONE} stacks"));
        }
        self.data.stacks.reserve_exact(count);
        for index in 0..count {
            let prefix = match self.version >= PREFIX_OFFSETS {
                true => match offsets.value(index)? as usize {
                    0 => None,
                    offset => Some(index.checked_sub(offset).ok_or_else(|| {
                        format!("{at}.stackTable.prefixOffset[{index}] is {offset}: before the first stack")
                    })?),
                },
                false => match prefixes.get(index) {
                    NONE => None,
                    prefix if (prefix as usize) < index => Some(prefix as usize),
                    prefix => {
                        return Err(format!(
                            "{at}.stackTable.prefix[{index}] is {prefix}: a stack comes after that of its caller"
                        ));
                    }
                },
            };
            let frame = first_frame as u32 + frames.required(index, frame_count, "frames")?;
            self.data.stacks.push(Stack {
                prefix: prefix.map_or(NONE, |prefix| (first_stack + prefix) as u32),
                frame,
            });
        }
        Ok(())
    }
}

/// Columns that only script functions fill.
struct ScriptColumns {
    is_js: Ids,
    relevant_for_js: Ids,
    line: Ids,
    column: Ids,
    resource_name: Ids,
    resource_host: Ids,
    resource_type: Ids,
}

impl ScriptColumns {
    /// `ResourceType.Library`: its functions are native.
    const LIBRARY: u32 = 1;

    /// The script properties of the function at this index; `None` for native functions.
    fn of(&self, index: usize, resource: u32, texts: &[u32]) -> Option<Script> {
        let get = |column: &Ids, index: usize| column.0.get(index).copied().unwrap_or(NONE);
        let kind = get(&self.resource_type, resource as usize);
        let script = Script {
            is_js: get(&self.is_js, index) == 1,
            relevant_for_js: get(&self.relevant_for_js, index) == 1,
            line: get(&self.line, index),
            column: get(&self.column, index),
            resource: (!matches!(kind, Self::LIBRARY | NONE)).then(|| ScriptOrigin {
                name: id(texts, get(&self.resource_name, resource as usize)),
                host: id(texts, get(&self.resource_host, resource as usize)),
                kind,
            }),
        };
        let is_native = !script.is_js
            && !script.relevant_for_js
            && (script.line, script.column) == (NONE, NONE)
            && script.resource.is_none();
        (!is_native).then_some(script)
    }
}
