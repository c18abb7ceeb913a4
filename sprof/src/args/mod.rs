//! The command line as the user typed it: every flag is defined here once, and nothing here touches the world.
//!
//! Help, man pages and shell completions derive from these definitions. What a flag means for the machine at hand
//! (is the port free, is there a terminal) is decided later, in [`crate::command`].

mod annotate;
pub(crate) mod argument_kind;
mod browse;
mod bucket;
pub(crate) mod cargo;
mod check;
mod complete;
mod count;
mod diff;
mod doctor;
mod export;
mod gallery;
mod guide;
mod input;
mod labels;
mod load;
mod merge;
mod other_tools;
mod push;
mod record;
mod report;
mod select;
mod serve;
mod setup;
mod share;
mod stat;
mod top;
mod trigger;
pub(crate) mod value;

pub(crate) use self::complete::{Expected, ExpectedWord, expected};
pub(crate) use annotate::{AnnotateArgs, AnnotateFormat};
pub(crate) use browse::BrowseArgs;
pub(crate) use check::{CheckArgs, CheckFormat, MeasuredRule, RuleSubject, increase, limited_by, points};
pub(crate) use count::CountArgs;
pub(crate) use diff::{By, DiffArgs, DiffFormat};
pub(crate) use doctor::DoctorArgs;
pub(crate) use export::{ExportArgs, ExportFormat, FlamegraphArgs, PickArgs, SvgArgs};
pub(crate) use gallery::GalleryArgs;
pub(crate) use guide::{GuideArgs, JsonOutput};
pub(crate) use input::{SymbolArgs, WantedSamples, cache};
pub(crate) use load::LoadArgs;
pub(crate) use merge::{AlignBy, MergeArgs};
pub(crate) use push::PushArgs;
pub(crate) use record::{
    CallGraph, ENVIRONMENT, EXIT_STATUS, HeapHow, ProgramWords, RecordArgs, RecordingArgs, UnwinderName,
    split_environment,
};
pub(crate) use report::{Format, ReportArgs, Sort, View};
pub(crate) use select::{PartArgs, SelectArgs};
pub(crate) use serve::ServeArgs;
pub(crate) use setup::SetupArgs;
pub(crate) use share::{Private, ShareArgs, UploadArgs};
pub(crate) use stat::{StatArgs, StatFormat, StatProgram};
pub(crate) use top::TopArgs;
pub(crate) use trigger::{Trigger, TriggerWhen};
pub(crate) use value::TimeRange;

use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::path::PathBuf;

use clap::builder::FalseyValueParser;
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, CommandFactory, FromArgMatches, Parser, Subcommand};
use profile::text::one_line;

use crate::args::argument_kind::ArgumentKind;
use crate::exit::Failure;

/// Record where a program spends its time, and look at it in the Firefox Profiler or the terminal.
#[derive(Debug, Parser)]
#[command(
    name = "sprof",
    version,
    subcommand_required = true,
    arg_required_else_help = true,
    before_help = EXAMPLES,
    after_help = format!("`sprof guide` says which command answers which question.\n\n{EXIT_STATUS}\n\n{ENVIRONMENT}"),
    max_term_width = 100
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXAMPLES: &str = "\
Examples:
  sprof record ./app --its --arguments  record, then open the profile in the browser
  sprof report profile.json.gz          read a profile in the terminal
  sprof doctor                          what this machine permits";

/// What `sprof record` saves, and what is read where no file is named.
pub(crate) const SAVED: &str = "profile.json.gz";

/// What the command does, how it is called, three examples, options by topic, the rest.
const HELP_TEMPLATE: &str = "\
{about-with-newline}
{usage-heading} {usage}

{before-help}{all-args}{after-help}";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Record a program and all processes that it starts, running processes, or the whole machine.
    Record(Box<RecordArgs>),
    /// Record a benchmark, test, program or example that cargo builds; `cargo sprof` runs this.
    #[command(
        disable_help_flag = true,
        override_usage = "cargo sprof [OPTIONS] [bench|test|run|example] [-- ARGS]"
    )]
    Cargo {
        /// Words for `cargo sprof`; see `cargo sprof --help`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "WORDS")]
        words: Vec<OsString>,
    },
    /// Run a program and count what it takes: time, memory, faults, switches; compare it with another one.
    Stat(StatArgs),
    /// Run a program under valgrind and count its instructions exactly: for gates that must not depend on chance.
    Count(CountArgs),
    /// Open a saved profile in the Firefox Profiler.
    Load(LoadArgs),
    /// Show all profiles of a folder or of a bucket on a page: for a team's machine, or for what CI keeps.
    Serve(GalleryArgs),
    /// Merge several profiles into one, as tracks of one timeline.
    Merge(MergeArgs),
    /// Show what got slower or faster between two profiles, without changes that may be chance.
    Diff(DiffArgs),
    /// Print where the time of a profile went: functions, lines, call trees, threads, kinds of cost.
    Report(Box<ReportArgs>),
    /// Walk through a profile in the terminal: functions, call trees, callers, threads, kinds of cost.
    Browse(Box<BrowseArgs>),
    /// Show where the time of a program goes while it runs: functions, threads, processes.
    Top(Box<TopArgs>),
    /// Fail where a program got slower than your rules allow: exit status 1 if a rule is broken, 3 if there is too
    /// little to decide.
    Check(CheckArgs),
    /// Print the source and the machine code of a function, with the samples of each line and instruction.
    Annotate(Box<AnnotateArgs>),
    /// Write a profile as a flame graph or in the format of another tool.
    Export(Box<ExportArgs>),
    /// Record a program and draw its flame graph, or draw the flame graph of a saved profile.
    Flamegraph(Box<FlamegraphArgs>),
    /// Upload a profile, without what is private in it, and print a link that others can open.
    Share(Box<ShareArgs>),
    /// Send a profile to a server that keeps profiles: Pyroscope, Parca, a collector of OpenTelemetry.
    Push(Box<PushArgs>),
    /// Show what this machine permits, what it refuses, and the command that helps.
    Doctor(DoctorArgs),
    /// Print which command answers which question, on one page: for people in a hurry, scripts and agents.
    Guide(GuideArgs),
    /// Sign sprof so that macOS also lets it record running programs; elsewhere there is nothing to set up.
    #[cfg_attr(not(target_os = "macos"), command(hide = true))]
    Setup(SetupArgs),
    /// Print shell completions, also of `cargo sprof`.
    #[command(
        before_help = "\
Examples:
  sprof completions bash > ~/.local/share/bash-completion/completions/sprof
  sprof completions zsh > ~/.zfunc/_sprof
  sprof completions fish > ~/.config/fish/completions/sprof.fish",
        after_help = "\
Offered are options, views, formats, the events of this machine, and of the file that the line names threads, processes, markers and functions.
For `cargo sprof` in bash, ~/.bashrc must read the script: source <(sprof completions bash)"
    )]
    Completions {
        /// The shell to complete for.
        #[arg(value_name = "SHELL")]
        shell: clap_complete::Shell,
    },
    /// Print the man page of sprof, or of one command.
    #[command(before_help = "\
Examples:
  sprof man | man -l -
  sprof man record | man -l -
  sprof man report > sprof-report.1")]
    Man {
        /// Print the page of this command, for example `record`.
        #[arg(value_name = "COMMAND")]
        command: Option<String>,
    },
}

impl Command {
    /// The files that the command reads. `-` among them is stdin.
    pub(crate) fn files(&mut self) -> Vec<&mut PathBuf> {
        match self {
            Command::Load(args) => vec![&mut args.file],
            Command::Report(args) => vec![&mut args.file],
            Command::Browse(args) => vec![&mut args.file],
            Command::Annotate(args) => vec![&mut args.file],
            Command::Export(args) => vec![&mut args.file],
            Command::Push(args) => vec![&mut args.file],
            Command::Merge(args) => args.files.iter_mut().collect(),
            Command::Diff(args) => (args.files.iter_mut().chain(&mut args.base))
                .chain(&mut args.new)
                .collect(),
            Command::Check(args) => args.files.iter_mut().chain(&mut args.base).collect(),
            Command::Flamegraph(args) => args.file.iter_mut().chain(&mut args.base).collect(),
            Command::Share(args) => args.file.iter_mut().collect(),
            Command::Record(_)
            | Command::Stat(_)
            | Command::Top(_)
            | Command::Count(_)
            | Command::Serve(_)
            | Command::Cargo { .. }
            | Command::Doctor(_)
            | Command::Guide(_)
            | Command::Setup(_)
            | Command::Completions { .. }
            | Command::Man { .. } => Vec::new(),
        }
    }
}

/// Reads the process's arguments; `look` says what a word names. The error is a usage error, a request for help or one
/// for the version.
pub(crate) fn parse(color: clap::ColorChoice, look: impl Fn(&OsStr) -> ArgumentKind) -> Result<Cli, clap::Error> {
    let line = other_tools::understood(std::env::args_os().collect(), &definition(), &look);
    parsed(&line, color).map_err(|error| other_tools::advised(error, &line, &look))
}

/// Parses the words of a command line.
fn parsed(words: &[OsString], color: clap::ColorChoice) -> Result<Cli, clap::Error> {
    Cli::from_arg_matches(&definition().color(color).try_get_matches_from(words)?)
}

/// The definition itself, for parsing, completions and man pages.
pub(crate) fn definition() -> clap::Command {
    let completed = |command: clap::Command| command.help_template(HELP_TEMPLATE).mut_args(with_variable);
    completed(Cli::command()).mut_subcommands(completed)
}

/// Gives an option its environment variable. A flag is off if its variable is `0`, `false`, `no` or `off`.
fn with_variable(arg: Arg) -> Arg {
    let Some(long) = arg.get_long() else { return arg };
    let variable = format!("SPROF_{}", long.to_uppercase().replace('-', "_"));
    let arg = arg.env(variable).hide_env(true);
    match arg.get_action() {
        ArgAction::SetTrue => arg.value_parser(FalseyValueParser::new()),
        _ => arg,
    }
}

/// A usage error that belongs to no command.
pub(crate) fn general_usage_error(message: impl Display) -> Failure {
    definition().error(ErrorKind::ValueValidation, message).into()
}

/// A usage error of a command, found after parsing, in the form that clap gives its own.
pub(crate) fn usage_error(command: &str, message: impl Display) -> Failure {
    let mut definition = definition();
    definition.build();
    let mut command = match definition.find_subcommand(command) {
        Some(found) => found.clone(),
        None => definition,
    };
    // Names of files in it may hold line breaks.
    let message = message.to_string();
    command.error(ErrorKind::ValueValidation, one_line(&message)).into()
}

/// Refuses a command line with a usage error.
pub(crate) fn refuse<T>(command: &str, message: impl Display) -> Result<T, Failure> {
    Err(usage_error(command, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_line(line: &str) -> Result<Cli, clap::Error> {
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        parsed(&words, clap::ColorChoice::Never)
    }

    fn record(line: &str) -> RecordingArgs {
        shown(line).recording
    }

    fn shown(line: &str) -> RecordArgs {
        match parse_line(line) {
            Ok(Cli {
                command: Command::Record(args),
            }) => *args,
            other => panic!("{line}: {other:?}"),
        }
    }

    fn refusal(line: &str) -> String {
        match parse_line(line) {
            Ok(cli) => panic!("{line}: accepted as {cli:?}"),
            Err(error) => {
                assert_eq!(error.exit_code(), 2, "{line}");
                error.to_string()
            }
        }
    }

    #[test]
    fn the_definition_is_sound() {
        definition().debug_assert();
    }

    #[test]
    fn every_option_has_its_environment_variable() {
        for command in definition().get_subcommands() {
            for arg in command.get_arguments().filter(|arg| !arg.is_positional()) {
                let long = arg.get_long().expect("every option has a long name");
                let expected = format!("SPROF_{}", long.to_uppercase().replace('-', "_"));
                assert_eq!(
                    arg.get_env().and_then(|name| name.to_str()),
                    Some(expected.as_str()),
                    "{} --{long}",
                    command.get_name()
                );
                assert!(arg.get_help().is_some(), "--{long} has no help");
            }
        }
    }

    #[test]
    fn the_program_s_own_flags_are_not_ours() {
        let args = record("sprof record -r 500 ls -l --rate 3");
        assert_eq!(args.command, ["ls", "-l", "--rate", "3"]);
        assert_eq!(args.rate, Some(500.0));
        let args = record("sprof record -F 99 -- A=1 ls -- -x");
        assert_eq!(args.command, ["A=1", "ls", "--", "-x"]);
        assert_eq!(args.rate, Some(99.0));
    }

    #[test]
    fn defaults_are_the_documented_ones() {
        let args = record("sprof record ls");
        assert_eq!((args.rate_hz(), args.ptrace_rate_hz()), (1000.0, 100.0));
        assert_eq!(args.stack_size, None);
        assert_eq!(
            shown("sprof record ls").serve.port,
            ::server::Port {
                first: 3000,
                or_next: true
            }
        );
        assert!(shown("sprof record ls").serve.address.is_loopback());
        assert_eq!(args.iteration_count, 1);
        assert_eq!(args.include_args, None);
    }

    #[test]
    fn processes_are_named_in_one_list_or_several() {
        assert_eq!(record("sprof record -p 12,7 --pid 9").pid, [12, 7, 9]);
        assert!(record("sprof record -p 12").command.is_empty());
        assert!(record("sprof record -a").all);
    }

    #[test]
    fn options_of_perf_mean_what_they_mean_there() {
        let args = record("sprof record -ag -F 99 -- sleep 10");
        assert_eq!((args.all, args.rate), (true, Some(99.0)));
        assert_eq!(args.command, ["sleep", "10"]);
        let args = record("sprof record -p 12 --call-graph dwarf,32768 sleep 10");
        assert_eq!((&args.pid[..], args.stack_bytes()), (&[12][..], Some(32768)));
        assert_eq!(args.command, ["sleep", "10"]);
        for (line, mode) in [
            ("sprof record --call-graph fp ls", CallGraph::FramePointers),
            ("sprof record --call-graph=lbr ls", CallGraph::LastBranches),
            ("sprof record --call-graph=dwarf ls", CallGraph::Dwarf(None)),
        ] {
            assert_eq!(record(line).call_graph, Some(mode));
            assert_eq!(record(line).stack_bytes(), None);
        }
    }

    /// Letters of `sprof` itself. `cargo sprof` has cargo's letters.
    #[test]
    fn a_letter_means_the_same_in_all_commands() {
        let mut meanings: std::collections::BTreeMap<char, (String, String)> = std::collections::BTreeMap::new();
        for command in definition().get_subcommands() {
            for arg in command.get_arguments() {
                // As in `perf stat` and `top`.
                let known_elsewhere = [("stat", "repeat"), ("top", "interval"), ("top", "times")];
                if known_elsewhere.contains(&(command.get_name(), arg.get_id().as_str())) {
                    continue;
                }
                let letters = arg.get_short_and_visible_aliases().unwrap_or_default();
                for letter in letters {
                    let long = arg.get_long().unwrap_or_default().to_owned();
                    let new = (long.clone(), command.get_name().to_owned());
                    let (known, of) = meanings.entry(letter).or_insert(new).clone();
                    assert_eq!(known, long, "-{letter} in {of} and in {}", command.get_name());
                }
            }
            // A user who knows a letter from one command finds it in the others.
            for (long, letter) in [
                ("event", 'e'),
                ("format", 'f'),
                ("output", 'o'),
                ("save-only", 's'),
                ("no-open", 'n'),
            ] {
                let mut arguments = command.get_arguments();
                if let Some(arg) = arguments.find(|arg| arg.get_long() == Some(long)) {
                    assert_eq!(arg.get_short(), Some(letter), "{} --{long}", command.get_name());
                }
            }
        }
    }

    /// A command takes what the others take, under their names; old spellings are hidden.
    #[test]
    fn one_thing_has_one_name_in_all_commands() {
        let definition = definition();
        let command = |name: &str| definition.find_subcommand(name).unwrap();
        let find = |command: &clap::Command, long: &str| -> Option<Arg> {
            let has_name = |arg: &&Arg| {
                arg.get_long() == Some(long) || arg.get_all_aliases().is_some_and(|names| names.contains(&long))
            };
            command.get_arguments().find(has_name).cloned()
        };
        let takes = |name: &str, longs: &[&str]| {
            for long in longs {
                assert!(find(command(name), long).is_some(), "{name} --{long}");
            }
        };
        // All commands that show samples of a file.
        for name in [
            "report",
            "browse",
            "annotate",
            "export",
            "flamegraph",
            "push",
            "share",
            "diff",
            "check",
        ] {
            takes(
                name,
                &[
                    "thread",
                    "process",
                    "time-range",
                    "category",
                    "marker",
                    "outside-marker",
                    "focus",
                    "hide",
                    "drop",
                ],
            );
            takes(name, &["event", "symbol-dir", "path-map", "debuginfod", "verbose"]);
        }
        // All commands with a result that can be saved.
        for name in [
            "record",
            "load",
            "merge",
            "report",
            "annotate",
            "export",
            "flamegraph",
            "diff",
            "check",
        ] {
            takes(name, &["output"]);
        }
        for name in ["diff", "check", "flamegraph"] {
            takes(name, &["base"]);
        }
        for command in definition.get_subcommands() {
            let name = command.get_name();
            let has_json = |arg: &Arg| arg.get_possible_values().iter().any(|value| value.get_name() == "json");
            match (find(command, "json"), find(command, "format")) {
                (Some(_), format) => {
                    assert!(
                        format.as_ref().is_some_and(has_json),
                        "{name} --json without --format json"
                    );
                    assert_eq!(format.and_then(|format| format.get_short()), Some('f'), "{name}");
                }
                (None, Some(format)) => assert!(!has_json(&format), "{name} --format json without --json"),
                (None, None) => {}
            }
            // The option of `record` and the option of `report` have two names. Each command takes both.
            for (one, other) in [("waits", "off-cpu"), ("rate", "freq")] {
                assert_eq!(
                    find(command, one).map(|arg| arg.get_id().clone()),
                    find(command, other).map(|arg| arg.get_id().clone()),
                    "{name} --{one}, --{other}"
                );
            }
            let shown = find(command, "waits").and_then(|arg| arg.get_long().map(str::to_owned));
            let is_recorded = find(command, "rate").is_some();
            let expected = if is_recorded { "off-cpu" } else { "waits" };
            assert!(shown.is_none_or(|shown| shown == expected), "{name}");
        }
    }

    #[test]
    fn every_help_has_examples_and_these_are_taken() {
        let mut definition = definition();
        definition.build();
        let cargo = cargo::definition();
        let commands = definition
            .get_subcommands()
            .filter(|command| command.get_name() != "help");
        for command in commands
            .filter(|command| command.get_name() != "cargo")
            .chain([&definition, &cargo])
        {
            let name = command.get_name();
            let help = command.get_before_help().map(ToString::to_string).unwrap_or_default();
            let examples: Vec<&str> = help.lines().skip_while(|line| *line != "Examples:").skip(1).collect();
            let lines = examples.iter().take_while(|line| line.starts_with("  "));
            let lines: Vec<&str> = lines.map(|line| line.trim()).collect();
            assert_eq!(lines.len(), 3, "{name}:\n{help}");
            for line in lines {
                let shown = line.split("  ").next().unwrap_or_default();
                let own = shown.split([';', '|', '>']).next().unwrap_or_default().trim();
                let own = own.strip_prefix("sudo ").unwrap_or(own);
                // Quoted words in the examples hold no spaces.
                let words: Vec<String> = own.split(' ').map(|word| word.replace('\'', "")).collect();
                let taken = match words[0].as_str() {
                    "cargo" => {
                        let words: Vec<_> = words[2..].iter().map(Into::into).collect();
                        cargo::parse(&words, clap::ColorChoice::Never).map(|_| ())
                    }
                    _ => {
                        let look = |word: &OsStr| match word == "./app" {
                            true => ArgumentKind::Program,
                            false => ArgumentKind::Nothing,
                        };
                        let line = other_tools::understood(words.iter().map(Into::into).collect(), &definition, look);
                        parsed(&line, clap::ColorChoice::Never).map(|_| ())
                    }
                };
                taken.unwrap_or_else(|error| panic!("{name}: {own}\n{error}"));
            }
        }
    }

    #[test]
    fn include_args_takes_an_optional_count() {
        assert_eq!(record("sprof record --include-args ls").include_args, Some(None));
        assert_eq!(record("sprof record --include-args=2 ls").include_args, Some(Some(2)));
    }

    #[test]
    fn absurd_values_are_usage_errors_that_say_what_to_do() {
        for (line, expected) in [
            ("sprof record -r 0 ls", "more than 0"),
            ("sprof record -r -5 ls", "more than 0"),
            ("sprof record -r nan ls", "number"),
            ("sprof record -r inf ls", "number"),
            ("sprof record -r fast ls", "number"),
            ("sprof record -d 0 ls", "leave -d away"),
            ("sprof record -d -1 ls", "leave -d away"),
            ("sprof record -d 1e300 ls", "leave -d away"),
            ("sprof record -P 70000 ls", "3000+"),
            ("sprof record -P http ls", "3000+"),
            ("sprof record --stack-size 65536 ls", "65528"),
            ("sprof record --stack-size 1001 ls", "multiple of 8"),
            ("sprof record --iteration-count 0 ls", "1"),
            ("sprof record --address nowhere ls", "127.0.0.1"),
            ("sprof record --ui-url ftp://x ls", "https://"),
            ("sprof record -q -v ls", "--verbose"),
            ("sprof record --ui-dir a --ui-url http://b ls", "--ui-url"),
            ("sprof record", "COMMAND"),
            ("sprof record -p", "PID"),
            ("sprof record -p 0", "pgrep"),
            ("sprof record -p -12", "pgrep"),
            ("sprof record -p 12,", "pgrep"),
            ("sprof record -p firefox", "pgrep"),
            ("sprof record -p 99999999999", "pgrep"),
            ("sprof record -p 12 -a", "--pid"),
            ("sprof record -p 12 --keep-running", "--keep-running"),
            ("sprof record -p 12 --iteration-count 2", "--iteration-count"),
            ("sprof record --call-graph frames ls", "dwarf"),
            ("sprof record --call-graph dwarf,65536 ls", "65528"),
            ("sprof record -a -i", "--ignore-exit-code"),
            ("sprof report x --view heat", "callers=FUNCTION"),
            ("sprof report x --view callers=", "callers=FUNCTION"),
            ("sprof report x --time-range 3", "1.5..3"),
            ("sprof report x --time-range 3..1", "not before"),
            ("sprof report x --min-percent 200", "0 to 100"),
            ("sprof report x --format xml", "json"),
            ("sprof load", "FILE"),
        ] {
            let message = refusal(line);
            assert!(message.contains(expected), "{line} said:\n{message}");
        }
    }
}
