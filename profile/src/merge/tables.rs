//! Shared tables of all inputs. Equal entries become one, so equal call paths become one path of the call tree.

use names::symbol::SymbolSource;

use super::MergeError;
use crate::data::SavedLib;
use crate::data::{Category, Data, Frame, Func, NONE, Script, ScriptOrigin, Stack, Symbol, TextFields};
use crate::function_files::merge_functions_of_symbols;
use crate::sources::{Sources, adopt};
use crate::unique::Unique;

#[derive(Default)]
pub(super) struct MergedTables {
    texts: Unique<Box<str>>,
    /// Without the source of their names.
    libs: Unique<SavedLib>,
    /// The source of the names of each library; of several the one that has least, so that names are looked up again.
    symbol_sources: Vec<SymbolSource>,
    scripts: Unique<Script>,
    windows: Unique<u64>,
    symbols: Unique<Symbol>,
    funcs: Unique<Func>,
    frames: Unique<Frame>,
    stacks: Unique<Stack>,
    categories: Vec<Category>,
    sources: Sources,
}

/// Maps an input's index to the shared index.
fn of(indexes: &[u32], index: u32) -> u32 {
    indexes.get(index as usize).copied().unwrap_or(NONE)
}

impl MergedTables {
    /// Adds the tables of an input, and maps its indices to the shared tables.
    pub(super) fn adopt(&mut self, data: &mut Data) -> Result<(), MergeError> {
        let texts: Vec<u32> = (std::mem::take(&mut data.texts).into_iter())
            .map(|text| self.texts.index(text))
            .collect();
        let libs: Vec<u32> = (std::mem::take(&mut data.libs).into_iter())
            .map(|mut lib| {
                let source = std::mem::take(&mut lib.symbol_source);
                let index = self.libs.index(lib);
                match self.symbol_sources.get_mut(index as usize) {
                    Some(known) if known.adds_to(source) => *known = source,
                    Some(_) => {}
                    None => self.symbol_sources.push(source),
                }
                index
            })
            .collect();
        let categories = self.categories(std::mem::take(&mut data.categories));
        adopt(&mut self.sources, std::mem::take(&mut data.sources));
        let scripts = std::mem::take(&mut data.scripts).into_iter().map(|script| {
            let resource = script.resource.map(|resource| ScriptOrigin {
                name: of(&texts, resource.name),
                host: of(&texts, resource.host),
                ..resource
            });
            self.scripts.index(Script { resource, ..script })
        });
        let scripts: Vec<u32> = scripts.collect();
        let windows: Vec<u32> = (std::mem::take(&mut data.windows).into_iter())
            .map(|id| self.windows.index(id))
            .collect();
        let symbols = std::mem::take(&mut data.symbols).into_iter().map(|symbol| {
            self.symbols.index(Symbol {
                lib: of(&libs, symbol.lib),
                name: of(&texts, symbol.name),
                ..symbol
            })
        });
        let symbols: Vec<u32> = symbols.collect();
        let funcs = std::mem::take(&mut data.funcs).into_iter().map(|func| {
            self.funcs.index(Func {
                name: of(&texts, func.name),
                lib: of(&libs, func.lib),
                file: of(&texts, func.file),
                script: of(&scripts, func.script),
                krate: of(&texts, func.krate),
            })
        });
        let funcs: Vec<u32> = funcs.collect();
        let frames = std::mem::take(&mut data.frames).into_iter().map(|frame| {
            let (category, subcategory) =
                categories
                    .get(frame.category as usize)
                    .map_or((NONE, 0), |(category, subs)| {
                        (
                            *category,
                            subs.get(usize::from(frame.subcategory)).copied().unwrap_or(0),
                        )
                    });
            self.frames.index(Frame {
                func: of(&funcs, frame.func),
                line_file: of(&texts, frame.line_file),
                category,
                subcategory,
                symbol: of(&symbols, frame.symbol),
                lib: of(&libs, frame.lib),
                window: of(&windows, frame.window),
                ..frame
            })
        });
        let frames: Vec<u32> = frames.collect();
        let old_stacks = std::mem::take(&mut data.stacks);
        if u32::try_from(self.stacks.all.len() + old_stacks.len()).is_err() {
            return Err(MergeError::TooLarge);
        }
        let mut stacks: Vec<u32> = Vec::with_capacity(old_stacks.len());
        for stack in old_stacks {
            let prefix = of(&stacks, stack.prefix);
            let frame = of(&frames, stack.frame);
            stacks.push(self.stacks.index(Stack { prefix, frame }));
        }
        data.map_stacks(|stack| of(&stacks, stack));
        let text_fields = TextFields::from_schemas(&data.schemas);
        for marker in data.threads.iter_mut().flat_map(|thread| &mut thread.markers) {
            marker.name = of(&texts, marker.name);
            marker.category = categories
                .get(marker.category as usize)
                .map_or(0, |(category, _)| *category);
            if let Some(fields) = &mut marker.fields {
                text_fields.map(fields, |text| of(&texts, text));
            }
        }
        Ok(())
    }

    /// The shared index of each category of an input and of its subcategories.
    fn categories(&mut self, categories: Vec<Category>) -> Vec<(u32, Vec<u16>)> {
        let places = categories.into_iter().map(|category| {
            let is_same = |known: &Category| (&known.name, known.is_wait) == (&category.name, category.is_wait);
            let known = self.categories.iter().position(is_same);
            let at = known.unwrap_or_else(|| {
                self.categories.push(Category {
                    subcategories: Vec::new(),
                    ..category.clone()
                });
                self.categories.len() - 1
            });
            let names = &mut self.categories[at].subcategories;
            let subcategories = category.subcategories.into_iter().map(|name| {
                let known = names.iter().position(|known| *known == name);
                known.unwrap_or_else(|| {
                    names.push(name);
                    names.len() - 1
                }) as u16
            });
            (at as u32, subcategories.collect())
        });
        places.collect()
    }

    pub(super) fn give(self, data: &mut Data) {
        data.texts = self.texts.all;
        data.libs = self.libs.all;
        for (lib, source) in data.libs.iter_mut().zip(self.symbol_sources) {
            lib.symbol_source = source;
        }
        data.scripts = self.scripts.all;
        data.windows = self.windows.all;
        data.symbols = self.symbols.all;
        data.funcs = self.funcs.all;
        data.frames = self.frames.all;
        data.stacks = self.stacks.all;
        data.categories = self.categories;
        data.sources = self.sources;
        merge_functions_of_symbols(data);
    }
}
