//! `sprof man`: derived from the definition of the arguments.

use std::io::{self, Write};

use clap_mangen::roff::Roff;

use crate::args::{self, ENVIRONMENT, EXIT_STATUS};
use crate::exit::Outcome;
use crate::output::screen;

/// Prints a man page.
pub(crate) fn man(command: Option<&str>) -> Outcome {
    let mut definition = args::definition();
    definition.build();
    let page = match command {
        None => definition,
        Some("cargo") => args::cargo::definition(),
        Some(name) => match definition.find_subcommand(name) {
            Some(found) => found.clone(),
            None => {
                let names: Vec<_> = definition.get_subcommands().map(clap::Command::get_name).collect();
                let message = format!("there is no command `{name}`; the commands are {}", names.join(", "));
                return args::refuse("man", message);
            }
        },
    };
    let mut text = Vec::new();
    write_page(page, &mut text).map_err(|error| format!("writing the man page failed: {error}"))?;
    print(&text)
}

/// The sections of man-pages(7), in its order.
fn write_page(page: clap::Command, out: &mut dyn Write) -> io::Result<()> {
    let name = page.get_name().to_owned();
    let [examples, notes] = [page.get_before_help(), page.get_after_help()].map(|text| text.map(ToString::to_string));
    let has_subcommands = page.has_subcommands();
    let man = clap_mangen::Man::new(page.before_help(None).after_help(None));
    man.render_title(out)?;
    man.render_name_section(out)?;
    man.render_synopsis_section(out)?;
    man.render_description_section(out)?;
    man.render_options_section(out)?;
    if has_subcommands {
        man.render_subcommands_section(out)?;
    }
    let mut roff = Roff::default();
    // Examples, lists and tables keep their line breaks.
    let mut section = |title: &str, text: &str| {
        roff.control("SH", [title]).control("nf", []);
        for line in text.lines() {
            roff.text([line.into()]);
        }
        roff.control("fi", []);
    };
    let is_program = matches!(name.as_str(), "sprof" | "record" | "flamegraph" | "top" | "cargo sprof");
    if let Some(notes) = notes.filter(|_| !is_program) {
        section("NOTES", &notes);
    }
    section(
        "EXIT STATUS",
        if is_program {
            EXIT_STATUS
        } else {
            EXIT_STATUS_OF_READERS
        },
    );
    section("ENVIRONMENT", ENVIRONMENT);
    section("FILES", FILES);
    if let Some(examples) = examples {
        section("EXAMPLES", examples.trim_start_matches("Examples:\n"));
    }
    section("SEE ALSO", SEE_ALSO);
    roff.to_writer(out)
}

const EXIT_STATUS_OF_READERS: &str = "\
0    the command did what was asked
2    wrong usage
125  sprof itself failed
`sprof check` also ends with 1 (a rule is broken) and 3 (sprof cannot tell).";

const FILES: &str = "\
profile.json.gz          what sprof record saves, and what sprof report reads where no file is named
profile.json.gz.partial  what is recorded so far; it stays where sprof was killed, and all commands read it
flamegraph.svg           what sprof flamegraph draws
sprof.toml               rules of sprof check
~/.cache/sprof           names for the next start, and downloaded debug info
~/.local/share/sprof     links to what was shared, with the keys that delete it";

const SEE_ALSO: &str = "\
sprof-record(1), sprof-report(1), sprof-annotate(1), sprof-flamegraph(1), sprof-diff(1), sprof-doctor(1), perf-record(1),
perf_event_open(2). `sprof man COMMAND` prints the page of each command.";

fn print(text: &[u8]) -> Outcome {
    screen::print("the text", |out| out.write_all(text))
}
