//! Translates command lines of perf, samply and cargo flamegraph into lines of sprof.
//!
//! Input: the words as typed, and a function that looks at files. Output: the words to parse. Unclear lines become
//! errors of the definition; [`advised`] adds the line to type. Out of scope: options with the same meaning here, which
//! are defined as options.

use std::ffi::{OsStr, OsString};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use recording::command::own;

use crate::args::argument_kind::ArgumentKind;

/// Options of `cargo flamegraph` that name a target of cargo.
const CARGO_TARGETS: [&str; 6] = ["--bin", "--bench", "--example", "--test", "--unit-test", "--unit-bench"];

/// The line to parse for a typed line. Both begin with the name of sprof.
pub(super) fn understood(
    line: Vec<OsString>,
    definition: &clap::Command,
    look: impl Fn(&OsStr) -> ArgumentKind,
) -> Vec<OsString> {
    let Some(first) = line.get(1) else { return line };
    if first == "flamegraph" {
        return flamegraph(line, definition, look);
    }
    if first == "report" {
        return perf_report(line);
    }
    if first == "annotate" {
        return annotate(perf_report(line), definition, look);
    }
    if begins_with_dash(first) || definition.find_subcommand(first).is_some() {
        return line;
    }
    // `sprof ./app` works like `time ./app`. A bare name may be a mistyped command.
    let command = match look(first) {
        ArgumentKind::Program if has_slash(first) => "record",
        ArgumentKind::File => "load",
        ArgumentKind::Program | ArgumentKind::Nothing => return line,
    };
    with(line, 1, command)
}

fn flamegraph(line: Vec<OsString>, definition: &clap::Command, look: impl Fn(&OsStr) -> ArgumentKind) -> Vec<OsString> {
    let ours = line.iter().position(|word| word == "--").unwrap_or(line.len());
    let names_target = |word: &OsString| {
        let word = word.to_string_lossy();
        CARGO_TARGETS.contains(&word.split_once('=').map_or(&*word, |(name, _)| name))
    };
    let Some(definition) = definition.find_subcommand("flamegraph") else {
        return line;
    };
    // Words behind the program's name, and values of cargo's options, are not for sprof.
    let target = line[..ours].iter().position(names_target);
    let program = first_positional(&line[..ours], 2, definition);
    match (target, program) {
        (Some(target), program) if program.is_none_or(|program| target < program) => with(line, 1, "cargo"),
        (_, Some(program)) if look(&line[program]) == ArgumentKind::Program => with(line, program, "--"),
        _ => line,
    }
}

/// Removes `-i` and `--stdio` from `perf report -i FILE --stdio`: sprof names the file without an option, and prints
/// text by default.
fn perf_report(line: Vec<OsString>) -> Vec<OsString> {
    line.into_iter()
        .filter(|word| word != "-i" && word != "--input" && word != "--stdio")
        .collect()
}

/// `sprof annotate FUNCTION` reads the profile that `sprof record` saves.
fn annotate(line: Vec<OsString>, definition: &clap::Command, look: impl Fn(&OsStr) -> ArgumentKind) -> Vec<OsString> {
    let Some(definition) = definition.find_subcommand("annotate") else {
        return line;
    };
    let Some(first) = first_positional(&line, 2, definition) else {
        return line;
    };
    match first_positional(&line, first + 1, definition) {
        None if look(&line[first]) != ArgumentKind::File => with(line, first, super::SAVED),
        _ => line,
    }
}

/// Index of the first word that is neither an option nor the value of one.
fn first_positional(line: &[OsString], from: usize, definition: &clap::Command) -> Option<usize> {
    let mut at = from;
    while let Some(word) = line.get(at) {
        if !begins_with_dash(word) {
            return Some(at);
        }
        at += 1;
        let takes_next = takes_next_word(&word.to_string_lossy(), definition);
        at += match takes_next {
            Takes::Nothing => 0,
            Takes::One => 1,
            Takes::Several => line[at.min(line.len())..]
                .iter()
                .take_while(|word| !begins_with_dash(word))
                .count(),
        };
    }
    None
}

enum Takes {
    Nothing,
    One,
    Several,
}

fn takes_next_word(word: &str, definition: &clap::Command) -> Takes {
    match option_with_value(word, definition) {
        Some((arg, None)) if !arg.is_require_equals_set() => match arg.get_num_args() {
            Some(values) if values.max_values() > 1 => Takes::Several,
            _ => Takes::One,
        },
        _ => Takes::Nothing,
    }
}

/// The option with a value in a word, and the value where the word has it: `--rate=99`, `-F99`, `-qF` and the next
/// word.
pub(super) fn option_with_value<'a, 'w>(
    word: &'w str,
    definition: &'a clap::Command,
) -> Option<(&'a clap::Arg, Option<&'w str>)> {
    let mut arguments = definition.get_arguments();
    if let Some(long) = word.strip_prefix("--") {
        let (long, value) = match long.split_once('=') {
            Some((long, value)) => (long, Some(value)),
            None => (long, None),
        };
        let is_it = |arg: &&clap::Arg| {
            arg.get_long() == Some(long) || arg.get_all_aliases().is_some_and(|aliases| aliases.contains(&long))
        };
        return Some((
            arguments.find(is_it).filter(|arg| arg.get_action().takes_values())?,
            value,
        ));
    }
    // The first letter with a value takes the rest of the word, or the next word.
    for (at, letter) in word.char_indices().skip(1) {
        let is_it = |arg: &&clap::Arg| {
            arg.get_short() == Some(letter)
                || (arg.get_all_short_aliases()).is_some_and(|aliases| aliases.contains(&letter))
        };
        let arg = definition.get_arguments().find(is_it);
        if let Some(arg) = arg.filter(|arg| arg.get_action().takes_values()) {
            let value = &word[at + letter.len_utf8()..];
            return Some((arg, Some(value).filter(|value| !value.is_empty())));
        }
    }
    None
}

pub(super) fn begins_with_dash(word: &OsStr) -> bool {
    word.as_encoded_bytes().starts_with(b"-") && word != "-"
}

fn has_slash(word: &OsStr) -> bool {
    word.as_encoded_bytes().contains(&b'/')
}

fn with(mut line: Vec<OsString>, at: usize, word: &str) -> Vec<OsString> {
    line.insert(at, word.into());
    line
}

/// Letters with another meaning in other tools: command, letter, what to type.
const OTHER_LETTERS: [(&str, &str, &str); 3] = [
    (
        "report",
        "-n",
        "the number of rows is --limit N; -n means --no-open where a profile is shown",
    ),
    (
        "report",
        "-s",
        "the order of rows is --sort KEY; -s means --save-only where a profile is shown",
    ),
    (
        "record",
        "-t",
        "sprof records all threads of a process: -p PID; `sprof report --thread TID` shows one of them",
    ),
];

/// Options of cargo flamegraph, perf and inferno that are not taken, and what to type instead.
const OTHER_OPTIONS: [(&[&str], &str); 14] = [
    (
        &["--post-process"],
        "to change folded stacks before they are drawn: sprof export FILE -f folded | YOUR COMMAND | sprof flamegraph -",
    ),
    (
        &["--skip-after"],
        "to show what a function calls: sprof flamegraph FILE --focus FUNCTION, with --hide CALLER for each caller to leave out",
    ),
    (
        &["--palette", "--colors"],
        "leave it out: colours show the kind of code (kernel, program, libraries), and there is one set of them",
    ),
    (&["--deterministic"], "leave it out: equal profiles have equal pictures"),
    (
        &["--open"],
        "leave it out, and open the picture: xdg-open flamegraph.svg",
    ),
    (
        &["--root"],
        "to record as root: sudo $(which sprof) followed by the same words; `sprof doctor` says whether that is needed",
    ),
    (
        &["--cmd", "-c"],
        "leave it out: what perf is given there, sprof takes itself, for example -F 99 -g --call-graph dwarf",
    ),
    (
        &["--no-inline"],
        "leave it out: looking up inlined functions costs little here; `sprof diff --by compiled` counts them with their callers",
    ),
    (
        &["-u", "--uid", "--user"],
        "to record a user's processes: sprof record -p $(pgrep -d, -u USER)",
    ),
    (
        &["-D", "--delay"],
        "to leave out the start: sprof report FILE --time-range 2.. shows what came after 2 s",
    ),
    (
        &["-G", "--cgroup"],
        "to record a group: sprof record -p $(paste -sd, /sys/fs/cgroup/GROUP/cgroup.procs)",
    ),
    (
        &["-C", "--cpu"],
        "to see each CPU: sprof record -a --per-cpu-threads, then sprof report FILE --thread 'CPU 0'",
    ),
    (
        &["--filter"],
        "to select calls: sprof record -e EVENT, then sprof report FILE -e EVENT --focus FUNCTION",
    ),
    (
        &["--tid"],
        "sprof records all threads of a process: -p PID; `sprof report --thread TID` shows one of them",
    ),
];

/// Commands of other tools, and the same commands of sprof.
const OTHER_COMMANDS: [(&str, &str); 6] = [
    ("import", "load FILE"),
    ("script", "export FILE --format perf-script"),
    ("list", "record -e list"),
    ("top", "record -a, and Ctrl-C after a while"),
    (
        "stat",
        "record -e page-faults,context-switches COMMAND; record -e list shows what else this machine counts",
    ),
    ("stackcollapse", "export FILE --format folded"),
];

/// The error of a line, with the line to type instead, if that is known.
pub(super) fn advised(mut error: clap::Error, line: &[OsString], look: impl Fn(&OsStr) -> ArgumentKind) -> clap::Error {
    let Some(first) = line.get(1) else { return error };
    let invalid = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        _ => None,
    };
    let rest = || {
        let words: Vec<_> = line[1..].iter().map(|word| word.to_string_lossy()).collect();
        words.join(" ")
    };
    let advice = match error.kind() {
        ErrorKind::UnknownArgument if begins_with_dash(first) => {
            Some(format!("to record a program: {} record {}", own(), rest()))
        }
        ErrorKind::UnknownArgument => invalid(ContextKind::InvalidArg).and_then(|arg| {
            let known = |(command, letter, _): &&(&str, &str, &str)| first == command && arg == *letter;
            let of_command = OTHER_LETTERS.iter().find(known).map(|(_, _, advice)| *advice);
            let name = arg.split(['=', ' ']).next().unwrap_or_default();
            let of_any = || OTHER_OPTIONS.iter().find(|(names, _)| names.contains(&name));
            of_command.or_else(|| Some(of_any()?.1)).map(str::to_owned)
        }),
        // cargo flamegraph's `-c 'record -g'`; here -c is perf's period.
        ErrorKind::ValueValidation
            if invalid(ContextKind::InvalidArg).is_some_and(|arg| arg.starts_with("--count"))
                && invalid(ContextKind::InvalidValue).is_some_and(|value| value.starts_with("record")) =>
        {
            OTHER_OPTIONS
                .iter()
                .find(|(names, _)| names.contains(&"--cmd"))
                .map(|(_, advice)| (*advice).to_owned())
        }
        // callgrind_annotate and cg_annotate.
        ErrorKind::InvalidValue if invalid(ContextKind::InvalidArg).is_some_and(|arg| arg.starts_with("--sort")) => {
            let event = invalid(ContextKind::InvalidValue).unwrap_or_default();
            Some(format!(
                "for functions by an event of the file: {} report FILE -e {event}",
                own()
            ))
        }
        ErrorKind::InvalidSubcommand => {
            let ours = OTHER_COMMANDS.iter().find(|(name, _)| first == name);
            let ours = ours.map(|(_, ours)| format!("to do what it does: {} {ours}", own()));
            ours.or_else(|| {
                (look(first) == ArgumentKind::Program)
                    .then(|| format!("to record a program: {} record {}", own(), rest()))
            })
        }
        _ => None,
    };
    if let Some(advice) = advice {
        for kind in [ContextKind::SuggestedSubcommand, ContextKind::SuggestedArg] {
            error.remove(kind);
        }
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![advice.into()]));
    } else if error.kind() == ErrorKind::UnknownArgument {
        // "to pass '--palette' as a value, use '-- --palette'": that would record a program of this name.
        error.remove(ContextKind::Suggested);
    }
    error
}

#[cfg(test)]
mod tests {
    use super::super::{Cli, definition};
    use super::*;
    use clap::Parser as _;

    /// The files that the tests pretend to have.
    fn look(word: &OsStr) -> ArgumentKind {
        match word.to_str() {
            Some("./app" | "app" | "/bin/ls") => ArgumentKind::Program,
            Some("app.json.gz" | "./old.json.gz") => ArgumentKind::File,
            _ => ArgumentKind::Nothing,
        }
    }

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn lines_of_other_tools_are_understood() {
        let mut definition = definition();
        definition.build();
        for (typed, expected) in [
            ("sprof ./app --its arguments", "sprof record ./app --its arguments"),
            ("sprof app.json.gz", "sprof load app.json.gz"),
            ("sprof record ./app", "sprof record ./app"),
            ("sprof flamegraph ./app 3 -o x", "sprof flamegraph -- ./app 3 -o x"),
            ("sprof flamegraph app", "sprof flamegraph -- app"),
            (
                "sprof flamegraph -qF 99 -o x.svg --width 900 ./app -v",
                "sprof flamegraph -qF 99 -o x.svg --width 900 -- ./app -v",
            ),
            (
                "sprof flamegraph -F99 --title=x ./app",
                "sprof flamegraph -F99 --title=x -- ./app",
            ),
            (
                "sprof flamegraph -o ./app app.json.gz",
                "sprof flamegraph -o ./app app.json.gz",
            ),
            (
                "sprof flamegraph --base ./old.json.gz -q app.json.gz",
                "sprof flamegraph --base ./old.json.gz -q app.json.gz",
            ),
            ("sprof flamegraph -p 7 -- ./app", "sprof flamegraph -p 7 -- ./app"),
            ("sprof flamegraph --bin x -- 3", "sprof cargo flamegraph --bin x -- 3"),
            ("sprof flamegraph --example=x", "sprof cargo flamegraph --example=x"),
            ("sprof flamegraph ./app --bin x", "sprof flamegraph -- ./app --bin x"),
            ("sprof report -i app.json.gz --stdio", "sprof report app.json.gz"),
            (
                "sprof annotate parse --asm -C 2",
                "sprof annotate profile.json.gz parse --asm -C 2",
            ),
            ("sprof annotate app.json.gz", "sprof annotate app.json.gz"),
            ("sprof annotate x parse", "sprof annotate x parse"),
            ("sprof", "sprof"),
            ("sprof app", "sprof app"),
        ] {
            let understood = understood(words(typed), &definition, look);
            assert_eq!(understood, words(expected), "{typed}");
        }
    }

    #[test]
    fn what_is_not_taken_names_the_line_to_type() {
        for (typed, expected) in [
            ("sprof -F 99 ./app", "sprof record -F 99 ./app"),
            ("sprof app 3", "sprof record app 3"),
            ("sprof report x -n 5", "--limit N"),
            ("sprof report x -s total", "--sort KEY"),
            ("sprof report x --sort D1mr", "report FILE -e D1mr"),
            ("sprof script x", "export FILE --format perf-script"),
            ("sprof import x", "load FILE"),
            ("sprof flamegraph --palette hot -- ./app", "one set of them"),
            ("sprof flamegraph --skip-after=main x", "--focus FUNCTION"),
            ("sprof flamegraph -c record -- ./app", "sprof takes itself"),
            ("sprof flamegraph --no-inline -- ./app", "--by compiled"),
            ("sprof record --cgroup web", "cgroup.procs"),
            ("sprof record -D 500 -- ./app", "--time-range"),
        ] {
            let error = Cli::try_parse_from(words(typed)).unwrap_err();
            let text = advised(error, &words(typed), look).to_string();
            assert!(text.contains(expected), "{typed} said:\n{text}");
        }
        let unknown = words("sprof report --nonsense x");
        let text = advised(Cli::try_parse_from(&unknown).unwrap_err(), &unknown, look).to_string();
        assert!(text.contains("--nonsense") && !text.contains("-- --nonsense"), "{text}");
        let error = Cli::try_parse_from(words("sprof record --call-grap fp x")).unwrap_err();
        let text = advised(error, &words("sprof record --call-grap fp x"), look).to_string();
        assert!(text.contains("--call-graph") && !text.contains("--all'"), "{text}");
    }
}
