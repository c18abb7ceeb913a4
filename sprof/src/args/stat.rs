//! `sprof stat`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use recording::counting::CountedTarget;
use recording::event::Pid;

use super::record::{ProgramWords, split_environment};
use crate::stat::UntilSure;
use crate::terminal::Verbosity;

/// Runs of each program in a comparison.
const COMPARED_RUNS: u32 = 10;
/// The same with `--until-sure`, at most.
const MOST_RUNS: u32 = 200;

/// Options that make no sense for what runs already.
const CHOICES_OF_A_LAUNCH: [&str; 9] = [
    "command",
    "repeat",
    "against",
    "parameter",
    "concurrency",
    "warmup",
    "until_sure",
    "prepare",
    "ignore_exit_code",
];

#[derive(Args, Clone, Debug)]
#[command(
    override_usage = "sprof stat [OPTIONS] [--] [VAR=x]... COMMAND [ARGS]...\n       sprof stat [OPTIONS] <-p PID|-a> [-d SECONDS]",
    before_help = "\
Examples:
  sprof stat ./app --its --arguments          what one run takes
  sprof stat -r 20 ./app > /dev/null          the median of 20 runs
  sprof stat -r 20 --against './old' ./new    what differs between two programs, in turn and in random order",
    after_help = "\
The figures are of the program and of all processes that it waited for; CPU time, waits for a CPU, processes, threads and
events also of others, up to its end. The table goes to stderr, since stdout is the program's. A difference is certain if chance finds one in at most 1 of 100 comparisons of equal programs;
where none is found, the table says how large it must be to be found, in most cases.

Exit status: the program's own; with --against and -r, that of the first run that failed, which ends sprof; with -i 0."
)]
pub(crate) struct StatArgs {
    /// The program to run, and its arguments; of cargo bench, test and run what they run. VAR=x words before it are
    /// added to its environment.
    #[arg(
        value_name = "COMMAND",
        required_unless_present_any = ["pid", "all"],
        trailing_var_arg = true,
        allow_hyphen_values = false
    )]
    command: Vec<OsString>,

    /// Count these running processes and all that they start, until they end, Ctrl-C or -d.
    #[arg(short, long, value_name = "PID", value_delimiter = ',', value_parser = super::value::pid,
          allow_negative_numbers = true, conflicts_with_all = CHOICES_OF_A_LAUNCH)]
    pid: Vec<i32>,

    /// Count all that runs on this machine, until Ctrl-C or -d.
    #[arg(short, long, conflicts_with = "pid", conflicts_with_all = CHOICES_OF_A_LAUNCH)]
    all: bool,

    /// End after this time, with -p and -a.
    #[arg(short, long, value_name = "SECONDS", value_parser = super::value::duration, conflicts_with = "command",
          allow_negative_numbers = true)]
    pub(crate) duration: Option<Duration>,

    /// Count these events as well: names of perf, separated by commas, as `sprof record -e list` prints them.
    #[arg(short, long, value_name = "EVENT")]
    pub(crate) event: Vec<String>,

    /// Run each program N times, without the warm-up [default: 1, of several programs 10]. From 2 on, programs have an
    /// empty stdin.
    #[arg(short, long, alias = "runs", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    repeat: Option<u32>,

    /// Compare with this program: a command line in quotes, which no shell reads. Programs run by turns, each round in
    /// another random order. May be given several times.
    #[arg(long, value_name = "COMMAND")]
    against: Vec<String>,

    /// Run the program once for each value, in the place of `{NAME}` in COMMAND. May be given several times.
    #[arg(long, value_name = "NAME=VALUE,...", value_parser = parameter, conflicts_with = "against")]
    parameter: Vec<Parameter>,

    /// The same for a number of threads (or processes) that share the work: also says how much of it one thread does
    /// alone, and how many are fastest.
    #[arg(long, value_name = "NAME=N,...", value_parser = concurrency, conflicts_with = "against")]
    concurrency: Option<Parameter>,

    /// Runs of each program before those that count: they fill caches [default: 1, of a single run 0].
    #[arg(long, value_name = "N")]
    warmup: Option<u32>,

    /// End the runs as soon as it is sure whether wall and task-clock differ, by PERCENT or more [default: 1]. -r is
    /// then the most runs [default: 200].
    #[arg(long, value_name = "PERCENT", num_args = 0..=1, require_equals = true, default_missing_value = "1",
          value_parser = super::value::percentage, requires = "against")]
    until_sure: Option<f64>,

    /// Run this by the shell before each run, and do not count it.
    #[arg(long, value_name = "COMMAND")]
    pub(crate) prepare: Option<String>,

    /// Go on when a program fails.
    #[arg(short, long)]
    pub(crate) ignore_exit_code: bool,

    /// What to print: text, md (Markdown, for a pull request) or json.
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    format: StatFormat,

    /// Print JSON: the same as --format json.
    #[arg(long, hide = true, conflicts_with = "format")]
    json: bool,

    /// File to write to [default: stderr, md and json stdout]. It replaces an earlier result.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Print errors and the result only.
    #[arg(short, long, conflicts_with = "verbose")]
    quiet: bool,

    /// Print each run.
    #[arg(short, long)]
    verbose: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StatFormat {
    Text,
    Md,
    Json,
}

impl StatArgs {
    pub(crate) fn format(&self) -> StatFormat {
        if self.json { StatFormat::Json } else { self.format }
    }

    pub(crate) fn verbosity(&self) -> Verbosity {
        Verbosity::of(self.quiet, self.verbose)
    }

    /// What runs already and is to be counted; `None`: a program.
    pub(crate) fn target(&self) -> Option<CountedTarget> {
        let pids = self.pid.iter().map(|pid| Pid(*pid)).collect();
        match (self.all, self.pid.is_empty()) {
            (true, _) => Some(CountedTarget::WholeMachine),
            (false, false) => Some(CountedTarget::Processes(pids)),
            (false, true) => None,
        }
    }

    /// The program, and those that it is compared with. The error is of the command line.
    pub(crate) fn programs(&self) -> Result<Vec<StatProgram>, String> {
        let own = split_environment(&self.command).ok_or("which program? COMMAND has only variables (VAR=x)")?;
        let program = |words| StatProgram {
            words,
            parameters: Vec::new(),
        };
        let mut programs = vec![program(own)];
        for parameter in self.parameter.iter().chain(&self.concurrency) {
            let each: Result<Vec<_>, String> = programs.iter().map(|program| program.with_each(parameter)).collect();
            programs = each?.concat();
        }
        for line in &self.against {
            programs.push(program(words_of(line)?));
        }
        Ok(programs)
    }

    /// The parameter that is a number of threads.
    pub(crate) fn concurrency(&self) -> Option<&str> {
        self.concurrency.as_ref().map(|parameter| &*parameter.name)
    }

    fn has_several(&self) -> bool {
        !self.against.is_empty() || !self.parameter.is_empty() || self.concurrency.is_some()
    }

    pub(crate) fn runs(&self) -> u32 {
        self.repeat.unwrap_or(match self.until_sure {
            Some(_) => MOST_RUNS,
            None if self.has_several() => COMPARED_RUNS,
            None => 1,
        })
    }

    pub(crate) fn until_sure(&self) -> Option<UntilSure> {
        self.until_sure
            .map(|percent| UntilSure::new(percent / 100.0, self.runs()))
    }

    pub(crate) fn warmup(&self) -> u32 {
        let is_repeated = self.repeat.is_some_and(|runs| runs > 1) || self.has_several();
        self.warmup.unwrap_or(u32::from(is_repeated))
    }
}

/// Values in the place of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parameter {
    pub(crate) name: String,
    values: Vec<String>,
}

fn parameter(text: &str) -> Result<Parameter, String> {
    let (name, values) = text
        .split_once('=')
        .ok_or("a name and values, for example size=10,100")?;
    let values: Vec<String> = values.split(',').map(str::to_owned).collect();
    match name.is_empty() || values.iter().any(String::is_empty) {
        true => Err("a name and values, for example size=10,100".to_owned()),
        false => Ok(Parameter {
            name: name.to_owned(),
            values,
        }),
    }
}

fn concurrency(text: &str) -> Result<Parameter, String> {
    let parameter = parameter(text)?;
    let is_number = |value: &String| value.parse::<u32>().is_ok_and(|number| number > 0);
    match parameter.values.iter().all(is_number) {
        true => Ok(parameter),
        false => Err("a name and numbers, for example threads=1,2,4".to_owned()),
    }
}

/// A program to run, and the values in it.
#[derive(Clone, Debug)]
pub(crate) struct StatProgram {
    pub(crate) words: ProgramWords,
    /// Names and values.
    pub(crate) parameters: Vec<(String, String)>,
}

impl StatProgram {
    /// The program with each value of a parameter.
    fn with_each(&self, parameter: &Parameter) -> Result<Vec<StatProgram>, String> {
        let place = format!("{{{}}}", parameter.name);
        let has_place = |word: &&OsString| word.to_string_lossy().contains(&place);
        if !self.words.command.iter().any(|word| has_place(&word)) {
            return Err(format!(
                "no word of the command has `{place}`, which stands for the value"
            ));
        }
        let with = |value: &String| {
            let mut program = self.clone();
            // Other words may have bytes that are no text.
            for word in program.words.command.iter_mut().filter(|word| has_place(&&**word)) {
                *word = word.to_string_lossy().replace(&place, value).into();
            }
            program.parameters.push((parameter.name.clone(), value.clone()));
            program
        };
        Ok(parameter.values.iter().map(with).collect())
    }
}

/// The words of a command line. A shell would be counted with the program, so there is none.
fn words_of(line: &str) -> Result<ProgramWords, String> {
    let words = shlex::split(line).ok_or_else(|| format!("a quote in `{line}` has no end"))?;
    let is_for_shells = |word: &&String| {
        word.starts_with(['|', '>', '<', '&', ';', '$', '`']) || word.ends_with([';', '&']) || word.starts_with("2>")
    };
    if let Some(word) = words.iter().find(is_for_shells) {
        return Err(format!(
            "no shell reads `{line}`, so `{word}` would be a word of the program; if that is not meant: \"sh -c '...'\""
        ));
    }
    let words: Vec<OsString> = words.into_iter().map(OsString::from).collect();
    split_environment(&words).ok_or_else(|| format!("`{line}` has no program"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_has_the_words_that_a_shell_sees() {
        let program = words_of("A=1 ./app 'two words' --x=\"3 4\"").unwrap();
        assert_eq!(program.env, [("A".into(), "1".into())]);
        assert_eq!(program.command, ["./app", "two words", "--x=3 4"]);
        for (line, said) in [
            ("./app > out", "sh -c"),
            ("./app; ./b", "sh -c"),
            ("./app | sort", "sh -c"),
            ("./app $X", "sh -c"),
            ("./app 'x", "quote"),
            ("A=1", "no program"),
            ("", "no program"),
        ] {
            let error = words_of(line).unwrap_err();
            assert!(error.contains(said), "{line}: {error}");
        }
    }
}
