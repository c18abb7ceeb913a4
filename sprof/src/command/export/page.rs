//! `sprof export --format html`: the whole profile and the viewer as one file.

use super::super::target::ResultTarget;
use crate::args::{self, ExportArgs, WantedSamples};
use crate::exit::Outcome;
use crate::input;
use crate::interrupt::Interrupt;
use crate::page;
use crate::symbols::sources;
use crate::terminal::Term;

pub(super) fn export(args: &ExportArgs, target: ResultTarget<'_>, term: &Term) -> Outcome {
    if args.off_cpu || args.pick.wall || args.pick.threads {
        return args::refuse(
            "export",
            "the page has the whole profile: it goes without --waits, --wall and --threads",
        );
    }
    let mut input = input::open_page(
        &args.file,
        &WantedSamples::new(args.event.name(), &args.heap, args.part.filter()),
        &args.input.symbols,
        term,
    )?;
    super::keep_part(&mut input.data, &args.part, &args.file, term)?;
    term.warnings(&args.file, &input.notes);
    if args.embed_sources {
        sources::embed_hot_of(&mut input.data, &input.symbolicator, &Interrupt::default(), term);
    }
    let bytes = page::of(input.data, input.notes, &input.symbolicator)?;
    target.write(term, |out| out.write_all(&bytes))
}
