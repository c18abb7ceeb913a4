//! The command line as the user typed it: every flag is defined here once, and nothing here touches the world.
//!
//! Help, man pages and shell completions derive from these definitions. What a flag means for the machine at hand
//! (is the port free, is there a terminal) is decided later, in [`crate::command`].

mod annotate;
pub(crate) mod cargo;
mod check;
mod diff;
mod doctor;
mod export;
mod load;
mod record;
mod report;
mod select;
mod serve;
pub(crate) mod value;

pub(crate) use annotate::AnnotateArgs;
pub(crate) use check::{CheckArgs, CheckFormat, Rule, increase};
pub(crate) use diff::{By, DiffArgs, DiffFormat, LimitArgs};
pub(crate) use doctor::DoctorArgs;
pub(crate) use export::{ExportArgs, ExportFormat, FlamegraphArgs, InputArgs, PickArgs, SvgArgs};
pub(crate) use load::LoadArgs;
pub(crate) use record::{Program, RecordArgs, RecordingArgs, split_environment};
pub(crate) use report::{Format, ReportArgs, Sort, View};
pub(crate) use select::SelectArgs;
pub(crate) use serve::ServeArgs;

use clap::{CommandFactory, Parser, Subcommand};
use profile::text::one_line;

/// Records where a program spends its time and shows it in the Firefox Profiler.
#[derive(Debug, Parser)]
#[command(
    name = "sprof",
    version,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = EXIT_STATUS,
    max_term_width = 100
)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXIT_STATUS: &str = "\
Exit status of `sprof record`: the program's own; 128+N if signal N ended it;
127 no such program; 126 not executable; 2 wrong usage; 125 sprof itself failed.
With -p and -a it is 0 when the profile was saved.

Every option has an environment variable, SPROF_ and its long name:
SPROF_RATE=4000, SPROF_SAVE_ONLY=1. NO_COLOR, CLICOLOR_FORCE, CARGO_TERM_COLOR
and TERM=dumb are honoured.";

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a program and record it, with all processes that it starts; or record what runs already.
    Record(Box<RecordArgs>),
    /// What `cargo sprof` runs: record a benchmark, test, program or example, named as cargo names them.
    #[command(
        disable_help_flag = true,
        override_usage = "cargo sprof [OPTIONS] [bench|test|run|example] [-- ARGS]"
    )]
    Cargo {
        /// Words for `cargo sprof`; see `cargo sprof --help`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "WORDS")]
        words: Vec<std::ffi::OsString>,
    },
    /// Open a saved profile in the Firefox Profiler.
    Load(LoadArgs),
    /// Tell what got slower or faster from one profile to another, and leave out what is chance.
    Diff(DiffArgs),
    /// Print what a profile says: functions, lines, call trees, threads, cost buckets.
    Report(Box<ReportArgs>),
    /// Check rules on what may get slower from one profile to another: exit status 1 where one is broken.
    Check(CheckArgs),
    /// Print source and machine code of a function with the samples of each line and instruction.
    Annotate(Box<AnnotateArgs>),
    /// Write a profile as a flame graph, or in the format of another tool.
    Export(Box<ExportArgs>),
    /// Record a program and draw a flame graph of it; or draw that of a saved profile.
    Flamegraph(Box<FlamegraphArgs>),
    /// Tell what this machine permits, what it does not, and the command that mends it.
    Doctor(DoctorArgs),
    /// Print shell completions.
    #[command(after_help = "For bash: sprof completions bash > ~/.local/share/bash-completion/completions/sprof")]
    Completions {
        /// The shell to complete for.
        #[arg(value_name = "SHELL")]
        shell: clap_complete::Shell,
    },
    /// Print the man page, or that of one command.
    #[command(after_help = "To read it: sprof man | man -l -")]
    Man {
        /// The command whose page to print, for example `record`.
        #[arg(value_name = "COMMAND")]
        command: Option<String>,
    },
}

/// Reads the process's arguments. The error is a usage error, a request for help or one for the version.
pub(crate) fn parse(color: clap::ColorChoice) -> Result<Cli, clap::Error> {
    use clap::FromArgMatches;
    let matches = definition().color(color).try_get_matches()?;
    Cli::from_arg_matches(&matches)
}

/// The definition itself, for completions and man pages.
pub(crate) fn definition() -> clap::Command {
    Cli::command()
}

/// A usage error found after parsing, in the form that clap gives its own.
pub(crate) fn usage_error(command: &str, message: impl std::fmt::Display) -> clap::Error {
    let mut definition = definition();
    definition.build();
    let command = definition
        .find_subcommand_mut(command)
        .map_or_else(Cli::command, |found| found.clone());
    let mut command = command;
    // Names of files in it may hold line breaks.
    let message = message.to_string();
    command.error(clap::error::ErrorKind::ValueValidation, one_line(&message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_line(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(line.split_whitespace())
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
        assert_eq!(args.stack_size, 16384);
        assert_eq!(
            shown("sprof record ls").serve.port,
            value::Port {
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
            ("sprof record -p 12 ls", "--pid"),
            ("sprof record -p 12 -a", "--pid"),
            ("sprof record -p 12 --keep-running", "--keep-running"),
            ("sprof record -p 12 --iteration-count 2", "--iteration-count"),
            ("sprof record -a ls", "--all"),
            ("sprof record -a -i", "--ignore-exit-code"),
            ("sprof report", "FILE"),
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
