//! A profile that was just recorded, as the data that all views are of.

use rustc_hash::FxHashMap;

use super::data::{Data, Frame, Func, NONE, Samples, Stack, Thread, Unit};
use crate::category::CATEGORIES;
use crate::model::Profile;
use crate::model::samples::Sample;
use crate::model::thread;
use crate::read::SavedLib;

/// Samples of running threads, added up by thread and stack: what a saved file says of shares, without times, waits and markers.
/// Its weights have no unit.
pub fn recorded(profile: &Profile) -> Data {
    let tables = &profile.tables;
    let frames = tables.frames.iter().map(|frame| Frame {
        func: frame.func.0,
        line: frame.line.unwrap_or(NONE),
        category: frame.kind.category(frame.inline_depth > 0).0 as u32,
        lib: frame.lib.map_or(NONE, |lib| lib.0),
        address: frame.address,
        inlined: frame.inline_depth > 0,
    });
    let funcs = tables.funcs.iter().map(|func| Func {
        name: func.name.0,
        lib: func.lib.map_or(NONE, |lib| lib.0),
        file: func.source.map_or(NONE, |source| source.0),
    });
    let libs = tables.libs.iter().map(|lib| {
        let (module, name) = (&lib.module, Some(profile.strings.get(lib.name).to_owned()));
        let path = Some(module.path.to_string_lossy().into_owned());
        SavedLib {
            name: name.clone(),
            path: path.clone(),
            debug_name: name,
            debug_path: path,
            breakpad_id: Some(module.breakpad_id()),
            code_id: module.build_id.as_ref().map(|id| id.to_hex()),
            arch: module.arch.map(str::to_owned),
        }
    });
    let stacks = profile.stacks.iter().map(|(_, prefix, frame)| Stack {
        prefix: prefix.map_or(NONE, |prefix| prefix.0),
        frame: frame.0,
    });
    Data {
        product: profile.info.program.clone(),
        unit: Unit::Counts,
        is_summed: true,
        symbolicated: profile.symbolicated,
        categories: CATEGORIES.iter().map(|category| category.name.to_owned()).collect(),
        libs: libs.collect(),
        texts: profile.strings.iter().map(Into::into).collect(),
        funcs: funcs.collect(),
        frames: frames.collect(),
        stacks: stacks.collect(),
        threads: profile.main_threads().map(|thread| summed(profile, thread)).collect(),
        ..Data::default()
    }
}

fn summed(profile: &Profile, thread: &thread::Thread) -> Thread {
    // (samples, periods)
    let mut sums: FxHashMap<u32, (u64, u64)> = FxHashMap::default();
    for Sample { stack, period, .. } in thread.samples.iter().filter(|sample| !sample.off_cpu) {
        let sum = sums.entry(stack.map_or(NONE, |stack| stack.0)).or_default();
        *sum = (sum.0 + 1, sum.1.saturating_add(period));
    }
    let process = &profile.processes[thread.process.0];
    Thread {
        name: thread.name.clone(),
        process_name: process.name.clone(),
        pid: process.id.clone(),
        tid: thread.id.clone(),
        is_main: thread.is_main,
        unit: Unit::Counts,
        samples: Samples {
            time_ms: vec![0.0; sums.len()],
            stack: sums.keys().copied().collect(),
            weight: Some(sums.values().map(|(_, periods)| *periods as f64).collect()),
            count: Some(sums.values().map(|(samples, _)| *samples).collect()),
        },
        ..Thread::default()
    }
}
