//! The source file of each function: one for all of its lines, so that a function is one row.

use names::symbol::{AddressInfo, SourceFrame};
use rustc_hash::FxHashMap;

use crate::data::{Data, Frame, NONE};
use crate::unique::Unique;

/// The files of functions with code of their own. Where debug info does not say which file declares a function, that
/// is the file of its first known line.
#[derive(Default)]
pub(crate) struct FunctionFiles<'a>(FxHashMap<(u64, &'a str), &'a str>);

impl<'a> FunctionFiles<'a> {
    /// Collects the files of a library's functions, in the order of their addresses.
    pub(crate) fn new(infos: impl Iterator<Item = &'a AddressInfo>) -> FunctionFiles<'a> {
        let mut files = FxHashMap::default();
        for info in infos {
            let outer = info.frames.last();
            if let (Some(key), Some(file)) = (key(info, outer), outer.and_then(SourceFrame::function_file)) {
                files.entry(key).or_insert(file);
            }
        }
        FunctionFiles(files)
    }

    /// The file of one of the functions at an address: see [`functions_at`](crate::enrich::functions_at).
    pub(crate) fn file<'s>(&'s self, info: &'s AddressInfo, depth: u16, source: &'s SourceFrame) -> Option<&'s str> {
        let of_code = || self.0.get(&key(info, Some(source))?).copied();
        let of_code = if depth == 0 { of_code() } else { None };
        of_code.or_else(|| source.function_file())
    }
}

/// The start of the function with code of its own, and its name.
fn key<'a>(info: &'a AddressInfo, outer: Option<&'a SourceFrame>) -> Option<(u64, &'a str)> {
    let function = info.function.as_ref()?;
    let name = outer.and_then(|outer| outer.function.as_deref());
    Some((function.start, name.unwrap_or(&function.name)))
}

/// Makes functions of one symbol with one name one function, with the file of its first address. In profiles of older
/// sprofs and of other profilers, the line's file was the function's file: a function whose lines have three files was
/// three functions.
pub(crate) fn merge_functions_of_symbols(data: &mut Data) {
    let key = |data: &Data, frame: &Frame| {
        let symbol = data.symbols.get(frame.symbol as usize)?;
        let func = data.funcs[frame.func as usize];
        let has_code = !frame.is_inlined() && func.script == NONE;
        has_code.then_some((symbol.lib, symbol.address, func.name, func.lib))
    };
    // (address, function)
    let mut first: FxHashMap<_, (Option<u64>, u32)> = FxHashMap::default();
    let mut is_split = false;
    for frame in &data.frames {
        if let Some(key) = key(data, frame) {
            let found = (frame.address, frame.func);
            let first = first.entry(key).or_insert(found);
            is_split |= first.1 != frame.func;
            let has_file = |func: u32| data.funcs[func as usize].file != NONE;
            if (!has_file(first.1), first.0) > (!has_file(found.1), found.0) {
                *first = found;
            }
        }
    }
    if !is_split {
        return;
    }
    let mut frames = std::mem::take(&mut data.frames);
    for frame in &mut frames {
        let Some((_, func)) = key(data, frame).and_then(|key| first.get(&key)) else {
            continue;
        };
        let file = data.line_file(frame);
        frame.func = *func;
        frame.line_file = NONE;
        if frame.line != NONE && file != data.line_file(frame) {
            frame.line_file = file;
        }
    }
    // Without functions that no frame has any longer, in the order of the frames: as reading the written file finds
    // them.
    let mut funcs = Unique::default();
    for frame in &mut frames {
        frame.func = funcs.index(data.funcs[frame.func as usize]);
    }
    data.frames = frames;
    data.funcs = funcs.all;
}
