//! `sprof record`.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::FalseyValueParser;
use recording::info::SampleBy;

use super::{ServeArgs, value};

/// What goes with a program that sprof launches. Nothing else has an end of its own, a status, or arguments that were typed
/// here.
const CHOICES_OF_A_LAUNCH: [&str; 4] = ["keep_running", "iteration_count", "ignore_exit_code", "include_args"];

/// What to record, and how.
#[derive(Args, Clone, Debug)]
pub(crate) struct RecordingArgs {
    /// The program to run and its arguments; VAR=x words before it are added to its environment. With -p and -a, recording lasts as
    /// long as it runs: -a -- sleep 10.
    #[arg(
        value_name = "COMMAND",
        required_unless_present_any = ["pid", "all", "event"],
        trailing_var_arg = true,
        allow_hyphen_values = false
    )]
    pub(crate) command: Vec<OsString>,

    /// Record these running processes and all below them, until they end, Ctrl-C or -d. They are not disturbed.
    #[arg(short, long, value_name = "PID", env = "SPROF_PID", hide_env = true, value_delimiter = ',',
          value_parser = value::pid, allow_negative_numbers = true, conflicts_with_all = CHOICES_OF_A_LAUNCH)]
    pub(crate) pid: Vec<i32>,

    /// Record everything that runs on this machine, until Ctrl-C or -d. Needs root or perf_event_paranoid 0.
    #[arg(short, long, env = "SPROF_ALL", hide_env = true, value_parser = FalseyValueParser::new(),
          conflicts_with = "pid", conflicts_with_all = CHOICES_OF_A_LAUNCH)]
    pub(crate) all: bool,

    /// Record these events: what counts becomes the weight of samples, a tracepoint becomes a marker each time. `list` shows
    /// what this machine has, `list:PATTERN` a part of it.
    ///
    /// As perf names them, several separated by commas: cycles, page-faults, L1-dcache-load-misses, r1a8,
    /// cpu/event=0x3c,umask=0/, sched:sched_switch, 'syscalls:sys_enter_*'. With :u or :k in user or kernel code only, with
    /// /period=N/ each N times, with /freq=N/ so often a second.
    ///
    /// As root, also places in programs, with a marker each time that one is passed: uprobe:FILE:FUNCTION (app::module::function
    /// with all its instances; +OFFSET, or 0xOFFSET in the file), usdt:FILE:PROVIDER:NAME with its arguments. FILE is a path, or the
    /// name of a program in PATH or of a library (libc). kprobe:FUNCTION or kprobe:FUNCTION+OFFSET is a place in the kernel.
    #[arg(short, long, value_name = "EVENT", env = "SPROF_EVENT", hide_env = true)]
    pub(crate) event: Vec<String>,

    /// With -e: sample each N times [default: what counts at the rate of -r, software events each 16 times, rare ones and points
    /// each time].
    #[arg(short, long, value_name = "N", env = "SPROF_COUNT", hide_env = true, requires = "event",
          conflicts_with = "rate", value_parser = clap::value_parser!(u64).range(1..=i64::MAX as u64))]
    pub(crate) count: Option<u64>,

    /// Nothing changes: stacks are always recorded. For who is used to perf.
    #[arg(short = 'g', long, hide = true, env = "SPROF_STACKS", hide_env = true, value_parser = FalseyValueParser::new())]
    pub(crate) stacks: bool,

    /// How perf would unwind: dwarf, dwarf,BYTES (as --stack-size), fp or lbr. sprof does as `dwarf` says, whatever is named.
    #[arg(long, hide = true, value_name = "MODE", env = "SPROF_CALL_GRAPH", hide_env = true, value_parser = call_graph)]
    pub(crate) call_graph: Option<CallGraph>,

    /// Samples a second of CPU time, for each thread [default: 1000; 100 with ptrace, where perf_event is refused].
    #[arg(short, long, visible_short_alias = 'F', value_name = "HZ", env = "SPROF_RATE", hide_env = true,
          value_parser = value::rate, allow_negative_numbers = true)]
    pub(crate) rate: Option<f64>,

    /// End the recording after this time; a launched program is ended, too [default: when the program ends].
    #[arg(short, long, value_name = "SECONDS", env = "SPROF_DURATION", hide_env = true,
          value_parser = value::duration, allow_negative_numbers = true)]
    pub(crate) duration: Option<Duration>,

    /// When the recording ends first, leave the program running.
    #[arg(long, env = "SPROF_KEEP_RUNNING", hide_env = true, value_parser = FalseyValueParser::new())]
    pub(crate) keep_running: bool,

    /// Run the program this many times, into one profile. Ends at the first failure.
    #[arg(long, value_name = "N", env = "SPROF_ITERATION_COUNT", hide_env = true, default_value = "1",
          value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) iteration_count: u32,

    /// Go on with the next iteration when the program fails.
    #[arg(short, long, env = "SPROF_IGNORE_EXIT_CODE", hide_env = true, value_parser = FalseyValueParser::new())]
    pub(crate) ignore_exit_code: bool,

    /// Of `cargo bench|test|run|nextest run`: record cargo and rustc, too, from the start. Else recording begins with the first
    /// program that cargo runs.
    #[arg(long, env = "SPROF_INCLUDE_BUILD", hide_env = true, value_parser = FalseyValueParser::new(),
          help_heading = "Cargo")]
    pub(crate) include_build: bool,

    /// Leave cargo's profiles as they are. Else names and lines are made sure of, by `CARGO_PROFILE_<NAME>_DEBUG=limited`
    /// and `CARGO_PROFILE_<NAME>_STRIP=none` where the profile lacks them.
    #[arg(long, env = "SPROF_NO_CARGO_ENV", hide_env = true, value_parser = FalseyValueParser::new(),
          help_heading = "Cargo")]
    pub(crate) no_cargo_env: bool,

    /// Record where threads wait, too: for how long, with which stack, and what for.
    #[arg(long, env = "SPROF_OFF_CPU", hide_env = true, value_parser = FalseyValueParser::new())]
    pub(crate) off_cpu: bool,

    /// Stack bytes copied with each sample. Deeper stacks are completed from the program's memory.
    #[arg(long, value_name = "BYTES", env = "SPROF_STACK_SIZE", hide_env = true, default_value = "16384",
          value_parser = value::stack_size)]
    pub(crate) stack_size: u32,

    /// Leave all threads but the main thread of each process out of the profile.
    #[arg(long, env = "SPROF_MAIN_THREAD_ONLY", hide_env = true, value_parser = FalseyValueParser::new(),
          help_heading = "The profile")]
    pub(crate) main_thread_only: bool,

    /// Show a track for each CPU instead of each thread; stacks begin with their process. Not with --off-cpu: who waits
    /// is on no CPU.
    #[arg(long, env = "SPROF_PER_CPU_THREADS", hide_env = true, value_parser = FalseyValueParser::new(),
          conflicts_with = "off_cpu", help_heading = "The profile")]
    pub(crate) per_cpu_threads: bool,

    /// Put the program's arguments into the profile; =N for the first N. They may hold secrets.
    #[arg(long, value_name = "N", env = "SPROF_INCLUDE_ARGS", hide_env = true, num_args = 0..=1,
          require_equals = true, help_heading = "The profile")]
    pub(crate) include_args: Option<Option<usize>>,

    /// Name shown for the profile [default: the program's].
    #[arg(
        long,
        value_name = "NAME",
        env = "SPROF_PROFILE_NAME",
        hide_env = true,
        help_heading = "The profile"
    )]
    pub(crate) profile_name: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  sprof record ./app --its --arguments
  sprof record -s -o app.json.gz -r 4000 ./app  save only, 4000 samples a second
  sprof record --off-cpu -p 1234 -d 10          a running process, with its waits
  sudo sprof record -a -- sleep 10              the whole machine
  sprof record -e page-faults ./app             who causes page faults; -e list names all events";

/// Flags of `sprof record`.
#[derive(Args, Clone, Debug)]
#[command(
    override_usage = "sprof record [OPTIONS] [--] [VAR=x]... COMMAND [ARGS]...\n       \
                      sprof record [OPTIONS] -p PID[,PID]... [[--] COMMAND [ARGS]...]\n       \
                      sprof record [OPTIONS] -a [[--] COMMAND [ARGS]...]",
    after_help = format!("{EXAMPLES}\n\n{}", super::EXIT_STATUS)
)]
pub(crate) struct RecordArgs {
    #[command(flatten)]
    pub(crate) recording: RecordingArgs,

    /// File to save the profile to; `-` is stdout (the program's own output then goes to stderr). An earlier profile there is
    /// kept as profile.1.json.gz. While recording, what there is so far stands in FILE.partial, which `sprof load` and
    /// `perf report` read.
    #[arg(
        short,
        long,
        value_name = "FILE",
        env = "SPROF_OUTPUT",
        hide_env = true,
        default_value = "profile.json.gz",
        help_heading = "The profile"
    )]
    pub(crate) output: PathBuf,

    /// Save the profile and exit; do not serve it. The same without a terminal, or with CI set.
    #[arg(short, long, env = "SPROF_SAVE_ONLY", hide_env = true, value_parser = FalseyValueParser::new(),
          help_heading = "The profile")]
    pub(crate) save_only: bool,

    /// Save addresses without function names.
    #[arg(long, env = "SPROF_NO_SYMBOLICATE", hide_env = true, value_parser = FalseyValueParser::new(),
          help_heading = "The profile")]
    pub(crate) no_symbolicate: bool,

    /// Print a summary for machines to stdout, as one line of JSON, after the program ended.
    #[arg(long, env = "SPROF_JSON", hide_env = true, value_parser = FalseyValueParser::new(),
          help_heading = "The profile")]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) serve: ServeArgs,
}

/// perf's `--call-graph`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallGraph {
    /// By unwind rules, with so many bytes of stack, if that is said.
    Dwarf(Option<u32>),
    /// By frame pointers.
    FramePointers,
    /// By the CPU's record of branches.
    LastBranches,
}

fn call_graph(text: &str) -> Result<CallGraph, String> {
    match text.split_once(',') {
        None if text == "dwarf" => Ok(CallGraph::Dwarf(None)),
        None if text == "fp" => Ok(CallGraph::FramePointers),
        None if text == "lbr" => Ok(CallGraph::LastBranches),
        Some(("dwarf", bytes)) => value::stack_size(bytes).map(|bytes| CallGraph::Dwarf(Some(bytes))),
        _ => Err("dwarf, dwarf,BYTES, fp or lbr, as perf has them; sprof always unwinds as with dwarf".to_owned()),
    }
}

impl RecordingArgs {
    /// Stack bytes copied with each sample.
    pub(crate) fn stack_bytes(&self) -> u32 {
        match self.call_graph {
            Some(CallGraph::Dwarf(Some(bytes))) => bytes,
            _ => self.stack_size,
        }
    }

    /// Samples a second of CPU time.
    pub(crate) fn rate_hz(&self) -> f64 {
        self.rate.unwrap_or(1000.0)
    }

    /// When events that count are sampled, as far as the user said so.
    pub(crate) fn event_sampling(&self) -> Option<SampleBy> {
        let by_rate = self
            .rate
            .map(|rate_hz| SampleBy::Frequency(rate_hz.round().max(1.0) as u64));
        self.count.map(SampleBy::Period).or(by_rate)
    }

    /// The same where only ptrace works. At 100 Hz it takes up to 1 % of the program's time, at 1000 Hz up to 10 %: see
    /// `cargo bench -p sprof --bench recording -- ptrace`.
    pub(crate) fn ptrace_rate_hz(&self) -> f64 {
        self.rate.unwrap_or(100.0)
    }
}

/// The command words, taken apart.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Program {
    /// `VAR=x` words.
    pub(crate) env: Vec<(OsString, OsString)>,
    /// Program and arguments; at least one.
    pub(crate) command: Vec<OsString>,
}

/// Takes the leading `VAR=x` words off, as a shell does. `None` if nothing is left to run.
pub(crate) fn split_environment(words: &[OsString]) -> Option<Program> {
    let mut env = Vec::new();
    for (at, word) in words.iter().enumerate() {
        match assignment(word) {
            Some(variable) => env.push(variable),
            None => {
                return Some(Program {
                    env,
                    command: words[at..].to_vec(),
                });
            }
        }
    }
    None
}

fn assignment(word: &OsStr) -> Option<(OsString, OsString)> {
    use std::os::unix::ffi::OsStrExt;
    let bytes = word.as_bytes();
    let equals = bytes.iter().position(|&byte| byte == b'=')?;
    let (name, value) = (&bytes[..equals], &bytes[equals + 1..]);
    let first_is_letter = name
        .first()
        .is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'_');
    let is_name = first_is_letter && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    is_name.then(|| (OsStr::from_bytes(name).into(), OsStr::from_bytes(value).into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn variables_before_the_command_only() {
        let program = split_environment(&words("A=1 _b2=x=y env C=3")).unwrap();
        assert_eq!(program.env, [("A".into(), "1".into()), ("_b2".into(), "x=y".into())]);
        assert_eq!(program.command, ["env", "C=3"]);
    }

    #[test]
    fn paths_with_equals_signs_are_commands() {
        assert_eq!(split_environment(&words("./a=b")).unwrap().command, ["./a=b"]);
        assert_eq!(split_environment(&words("2=b")).unwrap().command, ["2=b"]);
        assert_eq!(split_environment(&words("=b")).unwrap().command, ["=b"]);
    }

    #[test]
    fn variables_alone_are_no_command() {
        assert_eq!(split_environment(&words("A=1 B=")), None);
    }
}
