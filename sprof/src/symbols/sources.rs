//! `--embed-sources`: puts source files into a profile, for machines that lack them.

use std::sync::Arc;

use profile::Profile;
use profile::data::Data;
use profile::embed::{HotFile, embed, embed_in, hot_files, hot_sources};
use profile::text::numbers::{bytes, count};
use recording::module::Module;
use symbolicator::Symbolicator;

use crate::interrupt::Interrupt;
use crate::symbols::library::module;
use crate::terminal::Term;

/// Source files in a profile at most: the front end reads all of them when it opens the profile.
const MAX_FILES: usize = 200;

/// Bytes of all files, at most: no further file is read after that.
const MAX_BYTES: usize = 16 << 20;

/// Puts the source files with most samples into the profile.
pub(crate) fn embed_hot(profile: &mut Profile, symbolicator: &Symbolicator, interrupt: &Interrupt, term: &Term) {
    let files = hot_sources(profile).into_iter();
    let files = files.map(|source| (source.path, Some((source.module, source.address))));
    embed_files(files, &[], symbolicator, interrupt, term, |path, text| {
        embed(profile, path, text)
    });
}

/// Puts the source files with most samples into data that was read from a file.
pub(crate) fn embed_hot_of(data: &mut Data, symbolicator: &Symbolicator, interrupt: &Interrupt, term: &Term) {
    let files = hot_files(data);
    let module = |lib: u32| Some(Arc::new(module(data.libs.get(lib as usize)?)?));
    let place = |file: &HotFile| file.place.and_then(|(lib, address)| Some((module(lib)?, address)));
    let before: Vec<usize> = data.sources.values().flatten().map(|text| text.len()).collect();
    let files: Vec<_> = files.into_iter().map(|file| (place(&file), file)).collect();
    let files = files.into_iter().map(|(place, file)| (file.path, place));
    embed_files(files, &before, symbolicator, interrupt, term, |path, text| {
        embed_in(data, path, text)
    });
}

/// Reads source files and hands them to `put`. Each has a path, and an address whose debug info names that path.
/// `before`: sizes of the sources that the profile has, in bytes.
fn embed_files(
    mut sources: impl Iterator<Item = (String, Option<(Arc<Module>, u64)>)>,
    before: &[usize],
    symbolicator: &Symbolicator,
    interrupt: &Interrupt,
    term: &Term,
    mut put: impl FnMut(&str, &str),
) {
    let (mut files, mut size, mut missing) = (before.len(), before.iter().sum::<usize>(), 0);
    while files < MAX_FILES && size < MAX_BYTES && !interrupt.is_seen() {
        let Some((path, place)) = sources.next() else { break };
        term.progress(false, format_args!("reading sources: {path}"));
        let Some((module, address)) = place else {
            missing += 1;
            term.verbose(format_args!(
                "{path}: no address of it is known, so it cannot be looked up"
            ));
            continue;
        };
        match symbolicator.source(&module, address, &path) {
            Ok(text) => {
                put(&path, &text);
                (files, size) = (files + 1, size + text.len());
            }
            Err(error) => {
                missing += 1;
                term.verbose(error);
            }
        }
    }
    term.erase_progress();
    let embedded = count(files as u64, "source file is", "source files are");
    let mut text = format!("{embedded} in the profile ({})", bytes(size as f64));
    if !before.is_empty() {
        text.push_str(&format!(", {} of them from before", before.len()));
    }
    if missing > 0 {
        text.push_str(&format!(
            ", {missing} could not be read or are not sources (-v says why)"
        ));
    }
    let left_out = sources.count();
    if left_out > 0 {
        text.push_str(&format!(
            ", {left_out} are left out: {MAX_FILES} files or 16 MiB are enough"
        ));
    }
    term.line(text);
}
