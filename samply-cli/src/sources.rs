//! `--embed-sources`: reads the source files that a recording needs where it is opened elsewhere.

use profile::Profile;
use profile::embed::{embed, hot_sources};
use symbolicator::{ModuleKey, Symbolicator};

use crate::interrupt::Interrupt;
use crate::numbers::{bytes, count};
use crate::term::Term;

/// Source files in a profile at most: the front end reads all of them when it opens the profile.
const MAX_FILES: usize = 200;

/// No further file is read once there are so many bytes.
const MAX_BYTES: usize = 16 << 20;

/// Puts the source files of most samples into the profile.
pub(crate) fn embed_hot(profile: &mut Profile, symbolicator: &Symbolicator, interrupt: &Interrupt, term: &Term) {
    let (mut files, mut size, mut missing) = (0, 0, 0);
    let sources = hot_sources(profile);
    let mut sources = sources.into_iter();
    while files < MAX_FILES && size < MAX_BYTES && !interrupt.is_seen() {
        let Some(source) = sources.next() else { break };
        term.progress(false, format_args!("reading sources: {}", source.path));
        match symbolicator.source_to_embed(&ModuleKey::of(&source.module), source.address, &source.path) {
            Ok(text) => {
                embed(profile, &source.path, &text);
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
    if missing > 0 {
        text.push_str(&format!(
            ", {missing} could not be read or are no sources (-v says why)"
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
