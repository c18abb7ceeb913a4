//! Frames, functions, symbols and sources: the tables that the stacks' nodes refer to.

use std::sync::Arc;

use names::symbol::SymbolSource;
use names::v8::Start;
use recording::module::Module;
use rustc_hash::FxHashMap;

use super::strings::{StringId, StringTable};
use crate::category::CodeKind;

/// Index into [`FrameTables::frames`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct FrameId(pub(crate) u32);

/// Index into [`FrameTables::libs`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub(crate) struct LibId(pub(crate) u32);

/// Index into [`FrameTables::funcs`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct FuncId(pub(crate) u32);

/// An address, one of the functions inlined at it, or a label.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameRow {
    /// Lookup address, relative to the library; `None` without a library (the name then contains the address).
    pub(crate) address: Option<u64>,
    pub(crate) lib: Option<LibId>,
    pub(crate) func: FuncId,
    pub(crate) kind: CodeKind,
    /// 0 for the function with code of its own, one more for each level of inlining.
    pub(crate) inline_depth: u16,
    pub(crate) native_symbol: Option<u32>,
    pub(crate) line: Option<u32>,
    /// Path of the source file of the line, where that is not the function's.
    pub(crate) line_source: Option<StringId>,
    pub(crate) column: Option<u32>,
}

/// A function. Frames with the same function are one row of a call tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FuncRow {
    pub(crate) name: StringId,
    pub(crate) lib: Option<LibId>,
    /// Path of its source file.
    pub(crate) source: Option<StringId>,
    /// For a function of JavaScript.
    pub(crate) start: Option<Start>,
    /// The crate that defines it.
    pub(crate) krate: Option<StringId>,
}

/// A symbol of a library that contains frames.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SymbolRow {
    pub(crate) lib: LibId,
    pub(crate) address: u64,
    pub(crate) name: StringId,
    pub(crate) size: Option<u64>,
}

/// A library with at least one frame.
#[derive(Clone, Debug)]
pub(crate) struct RecordedLib {
    pub(crate) module: Arc<Module>,
    pub(crate) name: StringId,
    /// The kind of its frames, as far as it follows from the library.
    pub(crate) kind: CodeKind,
    /// The source of its names.
    pub(crate) symbol_source: SymbolSource,
}

impl RecordedLib {
    fn new(module: Arc<Module>, strings: &mut StringTable) -> Self {
        let kind = CodeKind::of_module(&module);
        let name = strings.intern(&module.name());
        RecordedLib {
            module,
            name,
            kind,
            symbol_source: SymbolSource::NotAsked,
        }
    }
}

/// The tables that stacks refer to.
#[derive(Clone, Default)]
pub(crate) struct FrameTables {
    pub(crate) libs: Vec<RecordedLib>,
    pub(crate) frames: Vec<FrameRow>,
    pub(crate) funcs: Vec<FuncRow>,
    pub(crate) symbols: Vec<SymbolRow>,
    lib_of_module: FxHashMap<Arc<Module>, LibId>,
    /// Libraries by the address of a module that is held here: to hash a path takes longer than all other work on a new
    /// frame.
    lib_of_object: FxHashMap<usize, (Arc<Module>, LibId)>,
}

impl FrameTables {
    pub(crate) fn frame(&self, id: FrameId) -> &FrameRow {
        &self.frames[id.0 as usize]
    }

    pub(crate) fn func(&self, id: FuncId) -> &FuncRow {
        &self.funcs[id.0 as usize]
    }

    pub(crate) fn lib(&self, id: LibId) -> &RecordedLib {
        &self.libs[id.0 as usize]
    }

    /// The library of this module; added if it is new.
    pub(crate) fn lib_for(&mut self, module: &Arc<Module>, strings: &mut StringTable) -> LibId {
        let object = Arc::as_ptr(module).addr();
        if let Some((_, id)) = self.lib_of_object.get(&object) {
            return *id;
        }
        let id = *self.lib_of_module.entry(module.clone()).or_insert_with(|| {
            self.libs.push(RecordedLib::new(module.clone(), strings));
            LibId(self.libs.len() as u32 - 1)
        });
        self.lib_of_object.insert(object, (module.clone(), id));
        id
    }

    pub(crate) fn push_func(&mut self, func: FuncRow) -> FuncId {
        let id = FuncId(self.funcs.len() as u32);
        self.funcs.push(func);
        id
    }

    pub(crate) fn push_frame(&mut self, frame: FrameRow) -> FrameId {
        let id = FrameId(self.frames.len() as u32);
        self.frames.push(frame);
        id
    }
}
