//! Finds out from the definition which words may be the last one of a command line.

use std::ffi::OsStr;
use std::path::Path;

use clap::{Arg, ArgAction, Command};

use super::other_tools::{begins_with_dash, option_with_value};

/// What the last word of a command line may be.
#[derive(Debug)]
pub(crate) struct Expected {
    /// The name of the command: `record`.
    pub(crate) command: String,
    /// The part of the word that stays: `--view=`.
    pub(crate) before: String,
    /// What was typed behind that part.
    pub(crate) typed: String,
    pub(crate) place: ExpectedWord,
}

#[derive(Debug)]
pub(crate) enum ExpectedWord {
    /// One of the listed words, each with its description.
    Word(Vec<(String, String)>),
    /// A value of this argument.
    Value(Box<Arg>),
    /// The program to record, and its arguments.
    Program,
}

/// What the last word of a command line may be. The first word is the name of sprof, or `cargo`. `None` if the command
/// line is not one of sprof.
pub(crate) fn expected(words: &[String]) -> Option<Expected> {
    let (current, words) = words.split_last()?;
    let (first, words) = words.split_first()?;
    let first = Path::new(first).file_name().and_then(OsStr::to_str)?;
    let (is_cargo, words) = match (first, words) {
        ("cargo", [second, words @ ..]) if second == "sprof" => (true, words),
        ("cargo", _) => return None,
        ("cargo-sprof", words) => (true, words),
        (_, [second, words @ ..]) if second == "cargo" => (true, words),
        (_, words) => (false, words),
    };
    let mut definition = match (is_cargo, words) {
        (true, [first, ..]) if first == "flamegraph" => super::cargo::flamegraph_definition(),
        (true, _) => super::cargo::definition(),
        (false, _) => super::definition(),
    };
    definition.build();
    let is_of_flamegraph = is_cargo && words.first().is_some_and(|word| word == "flamegraph");
    let (command, words) = match words.split_first() {
        _ if is_of_flamegraph => (&definition, &words[1..]),
        Some((first, words)) if !is_cargo => (definition.find_subcommand(first)?, words),
        _ => (&definition, words),
    };
    let expected = |before: &str, place| Expected {
        command: command.get_name().to_owned(),
        before: before.to_owned(),
        typed: current[before.len()..].to_owned(),
        place,
    };
    let before = match walk(words, command) {
        Before::Program => return Some(expected("", ExpectedWord::Program)),
        Before::Option(arg) if !(begins_with_dash(current.as_ref()) && takes_several(arg)) => {
            return Some(expected("", ExpectedWord::Value(Box::new(arg.clone()))));
        }
        Before::Option(_) => 0,
        Before::Positionals(number) => number,
    };
    if begins_with_dash(current.as_ref()) {
        return Some(match option_with_value(current, command) {
            Some((arg, Some(value))) => {
                let stays = &current[..current.len() - value.len()];
                expected(stays, ExpectedWord::Value(Box::new(arg.clone())))
            }
            _ => expected("", ExpectedWord::Word(options(command))),
        });
    }
    if command.has_subcommands() {
        return Some(expected("", ExpectedWord::Word(subcommands(command))));
    }
    let mut positionals = command.get_positionals();
    let arg = positionals
        .nth(before)
        .or_else(|| command.get_positionals().last().filter(|arg| takes_several(arg)));
    Some(match arg {
        Some(arg) if arg.is_last_set() || arg.is_trailing_var_arg_set() => expected("", ExpectedWord::Program),
        Some(arg) => expected("", ExpectedWord::Value(Box::new(arg.clone()))),
        None => expected("", ExpectedWord::Word(options(command))),
    })
}

/// What the words before the last one are.
enum Before<'a> {
    /// All are complete; the number of those that are not options.
    Positionals(usize),
    /// The next word is a value of this option: the first one, or a further one.
    Option(&'a Arg),
    /// The program to record is among them.
    Program,
}

fn walk<'a>(words: &[String], command: &'a Command) -> Before<'a> {
    let mut positionals = 0;
    let mut words = words.iter().peekable();
    while let Some(word) = words.next() {
        if word == "--" {
            return Before::Program;
        }
        if !begins_with_dash(word.as_ref()) {
            let arg = command.get_positionals().nth(positionals);
            if arg.is_some_and(Arg::is_trailing_var_arg_set) {
                return Before::Program;
            }
            positionals += 1;
            continue;
        }
        let Some((arg, None)) = option_with_value(word, command) else {
            continue;
        };
        if arg.is_require_equals_set() {
            continue;
        }
        let is_value = |word: &&String| !begins_with_dash(word.as_ref());
        let mut has_value = words.next_if(|word| is_value(word)).is_some();
        if takes_several(arg) {
            while words.next_if(|word| is_value(word)).is_some() {
                has_value = true;
            }
        }
        if words.peek().is_none() && (!has_value || takes_several(arg)) {
            return Before::Option(arg);
        }
    }
    Before::Positionals(positionals)
}

fn takes_several(arg: &Arg) -> bool {
    arg.get_num_args().is_some_and(|values| values.max_values() > 1)
        || arg.is_positional() && matches!(arg.get_action(), ArgAction::Append)
}

fn options(command: &Command) -> Vec<(String, String)> {
    let shown = command.get_arguments().filter(|arg| !arg.is_hide_set());
    let options = shown.filter_map(|arg| Some((format!("--{}", arg.get_long()?), first_line(arg.get_help()))));
    options.collect()
}

fn subcommands(command: &Command) -> Vec<(String, String)> {
    let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
    shown
        .map(|command| (command.get_name().to_owned(), first_line(command.get_about())))
        .collect()
}

fn first_line(text: Option<&clap::builder::StyledStr>) -> String {
    let text = text.map(ToString::to_string).unwrap_or_default();
    text.lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(line: &str) -> String {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        match expected(&words) {
            None => "none".to_owned(),
            Some(Expected {
                before, typed, place, ..
            }) => match place {
                ExpectedWord::Program => "program".to_owned(),
                ExpectedWord::Value(arg) => format!("{} {before}|{typed}", arg.get_id()),
                ExpectedWord::Word(words) => format!("{} words|{typed}", if words.len() > 3 { "many" } else { "few" }),
            },
        }
    }

    #[test]
    fn the_place_of_a_word_follows_from_those_before_it() {
        for (line, expected) in [
            ("sprof re", "many words|re"),
            ("sprof report ", "file |"),
            ("sprof report --vi", "many words|--vi"),
            ("sprof report --view ", "view |"),
            ("sprof report --view=fun", "view --view=|fun"),
            ("sprof report x.json.gz --thread a --view tr", "view |tr"),
            ("sprof report -tma", "thread -t|ma"),
            ("sprof annotate x.json.gz pa", "function |pa"),
            ("sprof annotate --symbol-dir d x.json.gz --asm pa", "function |pa"),
            ("sprof check a --base b c", "base |c"),
            ("sprof check a --base b --fo", "many words|--fo"),
            ("sprof merge a b c", "files |c"),
            ("sprof record -e sched:sched_sw", "event |sched:sched_sw"),
            ("sprof record -qe sched", "event |sched"),
            ("sprof record ./app --ra", "program"),
            ("sprof record -- --ra", "program"),
            ("sprof record l", "program"),
            ("/usr/local/bin/sprof completions b", "shell |b"),
            ("cargo sprof --be", "many words|--be"),
            ("cargo sprof be", "what |be"),
            ("cargo-sprof flamegraph --pal", "many words|--pal"),
            ("sprof cargo bench --bench ", "bench |"),
            ("cargo build --re", "none"),
            ("sprof nothing x", "none"),
        ] {
            assert_eq!(place(line), expected, "{line}");
        }
    }
}
