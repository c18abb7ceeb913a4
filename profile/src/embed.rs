//! Source files in the profile itself, so that their lines are shown where the files are not.

use std::sync::Arc;

use recording::module::Module;
use rustc_hash::FxHashMap;

use crate::data::{Data, NONE};
use crate::recorded::Profile;
use crate::recorded::strings::StringId;
use crate::view::cost::Cost;
use crate::view::files::file_totals;
use crate::view::select::{Filter, select};

/// A source file of sampled code.
#[derive(Clone, Debug)]
pub struct HotSource {
    /// The path, in the form of profiles.
    pub path: String,
    /// A place that the debug info has this path for.
    pub module: Arc<Module>,
    /// Lookup address, relative to the module.
    pub address: u64,
}

/// The source files of sampled functions, those of most samples first. A sample counts for a file each time its stack
/// enters the file.
pub fn hot_sources(profile: &Profile) -> Vec<HotSource> {
    let stacks = &profile.stacks;
    let mut samples = vec![0u64; stacks.len()];
    let all = profile.threads.iter().flat_map(|thread| thread.samples.iter());
    for stack in all.filter_map(|sample| sample.stack) {
        samples[stack.0 as usize] += 1;
    }
    let source = |frame| {
        let row = profile.tables.frame(frame);
        Some((row.line_source.or(profile.tables.func(row.func).source)?, row))
    };
    // (samples, the first frame) of each file
    let mut files: FxHashMap<StringId, (u64, (u64, Arc<Module>))> = FxHashMap::default();
    let nodes: Vec<_> = stacks.iter().collect();
    for (stack, prefix, frame) in nodes.into_iter().rev() {
        let here = samples[stack.0 as usize];
        if let Some(prefix) = prefix {
            samples[prefix.0 as usize] += here;
        }
        let Some((path, row)) = source(frame) else { continue };
        let (Some(address), Some(lib)) = (row.address, row.lib) else {
            continue;
        };
        // A file that calls itself has counted its samples further out.
        let around = prefix.and_then(|prefix| source(stacks.frame(prefix)));
        let is_entered = around.is_none_or(|(caller, _)| caller != path);
        let module = || (address, profile.tables.lib(lib).module.clone());
        let file = files.entry(path).or_insert_with(|| (0, module()));
        file.0 += if is_entered { here } else { 0 };
    }
    let mut files: Vec<(u64, HotSource)> = files
        .into_iter()
        .map(|(path, (samples, (address, module)))| {
            let path = profile.strings.get(path).to_owned();
            (samples, HotSource { path, module, address })
        })
        .collect();
    files.sort_by(|(a, of_a), (b, of_b)| b.cmp(a).then_with(|| of_a.path.cmp(&of_b.path)));
    files.into_iter().map(|(_, file)| file).collect()
}

/// A source file of sampled code of data that were read.
#[derive(Clone, Debug)]
pub struct HotFile {
    /// The path, in the form of profiles.
    pub path: String,
    /// Index of a library that has code of the file, and an address there.
    pub place: Option<(u32, u64)>,
}

/// The source files without a text, those with most samples on their stacks first.
pub fn hot_files(data: &Data) -> Vec<HotFile> {
    // A filter without names finds everything.
    let Ok(selection) = select(data, &Filter::default()) else {
        return Vec::new();
    };
    let mut files: Vec<(Cost, HotFile)> = file_totals(&selection)
        .into_iter()
        .filter(|(file, _)| data.source(data.text(*file)).is_none())
        .map(|(file, cost)| {
            let of_file = data.frames.iter().filter(|frame| data.line_file(frame) == file);
            let place = of_file
                .filter_map(|frame| Some((frame.lib, frame.address?)))
                .find(|(lib, _)| *lib != NONE);
            let path = data.text(file).to_owned();
            (cost, HotFile { path, place })
        })
        .collect();
    files.sort_by(|(a, of_a), (b, of_b)| b.weight.total_cmp(&a.weight).then_with(|| of_a.path.cmp(&of_b.path)));
    files.into_iter().map(|(_, file)| file).collect()
}

/// Adds the text of a source file to data that were read.
pub fn embed_in(data: &mut Data, path: &str, text: &str) {
    data.sources.insert(path.into(), Some(text.into()));
}

/// Adds the text of a source file to the profile, by the path that functions have.
pub fn embed(profile: &mut Profile, path: &str, text: &str) {
    profile.sources.insert(path.into(), Some(text.into()));
}
