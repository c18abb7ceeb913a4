//! `sprof completions` and `sprof man`: derived from the definition of the arguments.

use crate::args;
use crate::exit::Outcome;
use crate::screen;

pub(crate) fn completions(shell: clap_complete::Shell) -> Outcome {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut args::definition(), "sprof", &mut text);
    print(&text)
}

/// Prints a man page, with the examples before the notes.
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
    // clap_mangen prints what stands behind the options, and leaves out what stands before them.
    let extra: Vec<String> = [page.get_before_help(), page.get_after_help()]
        .into_iter()
        .flatten()
        .map(ToString::to_string)
        .collect();
    let page = page.after_help(extra.join("\n\n"));
    let mut text = Vec::new();
    let rendered = clap_mangen::Man::new(page).render(&mut text);
    rendered.map_err(|error| format!("writing the man page failed: {error}"))?;
    print(&text)
}

fn print(text: &[u8]) -> Outcome {
    screen::print("the text", |out| out.write_all(text))
}
