//! `sprof merge`: several profiles as one, as tracks of one timeline.

use std::path::Path;

use profile::export::firefox;
use profile::merge::{MergeInput, TimeAlignment, merge, usual_align};
use profile::text::numbers::count;

use super::convert::say_saved;
use super::saved_data;
use crate::args::{self, AlignBy, MergeArgs};
use crate::exit::{Failure, Outcome};
use crate::output::file_kind::FileKind;
use crate::output::{Earlier, Output};
use crate::terminal::Term;

pub(crate) fn run(args: &MergeArgs) -> Outcome {
    let term = Term::stderr(args.input.verbosity());
    if args.files.len() < 2 {
        return args::refuse("merge", "there is nothing to merge one file with; name two or more");
    }
    let output = Output::prepare(&args.output, FileKind::Profile, Earlier::Kept)?;
    let inputs = args.files.iter().map(|path| {
        term.progress(false, format_args!("reading {}", path.display()));
        let data = saved_data::whole(path, None, &args.input.symbols, &term);
        term.erase_progress();
        Ok(MergeInput {
            name: name(path),
            data: data?,
        })
    });
    let inputs = inputs.collect::<Result<Vec<MergeInput>, Failure>>()?;
    let align = match args.align {
        Some(AlignBy::Clock) => TimeAlignment::Clock,
        Some(AlignBy::Start) => TimeAlignment::Start,
        None => usual_align(&inputs),
    };
    let files = inputs.len() as u64;
    let merged = merge(inputs, align).map_err(|error| format!("cannot merge: {error}"))?;
    let saved = output.save(&term, |out| firefox::write_data_gz(&merged, out))?;
    let how = match align {
        TimeAlignment::Clock => "by the clock",
        TimeAlignment::Start => "all from one start",
    };
    term.line(format_args!(
        "merged {}: {}, {how}",
        count(files, "profile", "profiles"),
        count(merged.threads.len() as u64, "thread", "threads")
    ));
    say_saved(saved, &term)
}

/// Name of a file among others.
fn name(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    let endings = [".json.gz", ".json", ".pb.gz", ".folded"];
    let stem = endings.iter().find_map(|ending| name.strip_suffix(ending));
    stem.unwrap_or(&name).to_owned()
}
