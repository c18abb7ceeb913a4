//! `sprof record`.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use recording::info::SampleBy;

use super::input::JsonArgs;
use super::serve::ServeArgs;
use super::share::UploadArgs;
use super::value;

/// Options that need a program that sprof launches: only such a program has an exit status, arguments on this command
/// line, and libraries that sprof chooses.
const CHOICES_OF_A_LAUNCH: [&str; 5] = [
    "keep_running",
    "iteration_count",
    "ignore_exit_code",
    "include_args",
    "heap",
];

/// What to record, and how.
#[derive(Args, Clone, Debug)]
pub(crate) struct RecordingArgs {
    /// The program to run, and its arguments. VAR=x words before it are added to its environment. With -p and -a, the
    /// recording lasts as long as the program runs: -a -- sleep 10.
    #[arg(value_name = "COMMAND", required_unless_present_any = ["pid", "all", "event"], trailing_var_arg = true,
          allow_hyphen_values = false)]
    pub(crate) command: Vec<OsString>,

    /// Record these running processes and all their children, until they end, Ctrl-C or -d. sprof does not stop them.
    #[arg(short, long, value_name = "PID", value_delimiter = ',', help_heading = "Whom to record",
          value_parser = value::pid, allow_negative_numbers = true, conflicts_with_all = CHOICES_OF_A_LAUNCH)]
    pub(crate) pid: Vec<i32>,

    /// Record everything that runs on this machine, until Ctrl-C or -d. Needs root or perf_event_paranoid 0.
    #[arg(short, long, help_heading = "Whom to record", conflicts_with_all = ["pid", "paused"],
          conflicts_with_all = CHOICES_OF_A_LAUNCH)]
    pub(crate) all: bool,

    /// Record these events: a counter becomes the weight of samples, each hit of a tracepoint becomes a marker. `list`
    /// prints the events of this machine, `list:PATTERN` some of them.
    ///
    /// Names are those of perf, separated by commas: cycles, page-faults, L1-dcache-load-misses, r1a8,
    /// cpu/event=0x3c,umask=0/, sched:sched_switch, 'syscalls:sys_enter_*'. :u or :k means user or kernel code only,
    /// /period=N/ every N-th event, /freq=N/ N samples a second.
    ///
    /// As root, probes in programs, with a marker for each hit: uprobe:FILE:FUNCTION (app::module::function with all
    /// its instances; +OFFSET in the function, or 0xOFFSET in the file) and usdt:FILE:PROVIDER:NAME with its arguments.
    /// FILE is a path, a program in PATH, or a library (libc). kprobe:FUNCTION and kprobe:FUNCTION+OFFSET are probes in
    /// the kernel.
    ///
    /// breakpoint:FUNCTION does the same for ordinary users, by breakpoint registers of the processor: at most four
    /// places in the program itself, in its threads and the processes that it forks.
    #[arg(short, long, value_name = "EVENT", help_heading = "What to sample")]
    pub(crate) event: Vec<String>,

    /// With -e: sample every N-th event [default: counters at the rate of -r, software events every 16th, rare events
    /// and points every one].
    #[arg(short, long, value_name = "N", requires = "event", help_heading = "What to sample",
          conflicts_with = "rate", value_parser = clap::value_parser!(u64).range(1..=i64::MAX as u64))]
    pub(crate) count: Option<u64>,

    /// Record each call of this function of the program as a span, from its first instruction to its end. Without root
    /// four breakpoint registers of the processor find beginnings and ends: a function may have three ends. As root
    /// uprobes do. A function that is called more than 5,000 times a second is switched off. May be given several
    /// times. Linux only.
    #[arg(long, value_name = "FUNCTION", help_heading = "What to sample")]
    pub(crate) span: Vec<String>,

    /// Accepted as in perf; sprof always records stacks.
    #[arg(short = 'g', long, hide = true)]
    pub(crate) stacks: bool,

    /// Accepted as in perf: dwarf, dwarf,BYTES (the same as --stack-size), fp or lbr. sprof always unwinds as with
    /// dwarf.
    #[arg(long, hide = true, value_name = "MODE", value_parser = call_graph)]
    pub(crate) call_graph: Option<CallGraph>,

    /// Samples for each second of a thread's CPU time [default: 1000; 100 with ptrace, where perf_event is refused].
    #[arg(short, long, visible_short_alias = 'F', alias = "freq", value_name = "HZ", help_heading = "What to sample",
          value_parser = value::rate, allow_negative_numbers = true)]
    pub(crate) rate: Option<f64>,

    /// End the recording after this time, and a launched program with it [default: when the program ends].
    #[arg(short, long, value_name = "SECONDS", help_heading = "How long", value_parser = value::duration,
          allow_negative_numbers = true)]
    pub(crate) duration: Option<Duration>,

    /// Keep the last seconds alone, as a flight recorder does: 30s, 5m or 1h. Memory depends on that time, and not on
    /// how long sprof records. The profile at the end is of them, and so are those of --trigger. FILE.partial
    /// has about twice as much at most.
    #[arg(long, value_name = "TIME", help_heading = "How long", value_parser = value::window,
          conflicts_with = "iteration_count", allow_negative_numbers = true)]
    pub(crate) last: Option<Duration>,

    /// Begin without samples: only what the program chooses is sampled, from where it calls
    /// sprof_spans::Recording::resume() (sprof_resume() in C) to where it calls pause(). The calls of all its threads
    /// and processes count. Linux only.
    #[arg(long, help_heading = "How long")]
    pub(crate) paused: bool,

    /// Leave the program running when the recording ends.
    #[arg(long, help_heading = "How long")]
    pub(crate) keep_running: bool,

    /// Run the program N times, into one profile. The first failure ends the recording.
    #[arg(long, value_name = "N", default_value = "1", help_heading = "How long",
          value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) iteration_count: u32,

    /// Continue with the next run when the program fails.
    #[arg(short, long, help_heading = "How long")]
    pub(crate) ignore_exit_code: bool,

    /// With `cargo bench|test|run|nextest run`: also record cargo and rustc. Without this option the recording starts
    /// with the first program that cargo runs.
    #[arg(long, help_heading = "Cargo")]
    pub(crate) include_build: bool,

    /// Leave cargo's profiles unchanged. Without this option sprof sets `CARGO_PROFILE_<NAME>_DEBUG=limited` and
    /// `CARGO_PROFILE_<NAME>_STRIP=none` where functions would lack names or lines.
    #[arg(long, help_heading = "Cargo")]
    pub(crate) no_cargo_env: bool,

    /// Also record the waits of threads: how long each was, its stack, and what the thread waited for.
    #[arg(long, alias = "waits", help_heading = "What to sample")]
    pub(crate) off_cpu: bool,

    /// Also record each switch of a thread, for exact numbers of running threads (sprof report --view parallelism,
    /// --weigh latency). Less than --off-cpu, which has them, too. Linux only.
    #[arg(long, help_heading = "What to sample")]
    pub(crate) parallelism: bool,

    /// Also record the heap: blocks of memory that the program and its children take with malloc, and when they free
    /// them. Bytes are chosen by chance, and each block with a chosen byte is recorded with its stack. Of mimalloc,
    /// jemalloc, snmalloc and tcmalloc that are linked into a program, sprof changes the first bytes of functions in
    /// memory; `--heap=interpose` leaves code alone, `--heap=patch` also changes a `malloc` of the program's own. Linux
    /// only.
    #[arg(long, value_name = "HOW", num_args = 0..=1, require_equals = true, default_missing_value = "on",
          help_heading = "What to sample", hide_possible_values = true, conflicts_with_all = ["paused", "last"])]
    pub(crate) heap: Option<HeapHow>,

    /// With --heap: choose one byte of this many, on average. 1 records each block [default: 512K, and more for a
    /// program that allocates fast].
    #[arg(long, value_name = "BYTES", requires = "heap", help_heading = "What to sample",
          value_parser = value::heap_interval)]
    pub(crate) heap_interval: Option<u64>,

    /// Do not record what processes wait for, read and write, nor how busy CPUs, disks and network of the machine are.
    #[arg(long, help_heading = "What to sample")]
    pub(crate) no_resources: bool,

    /// Bytes of stack to copy with each sample. sprof completes deeper stacks from the program's memory. Default:
    /// 16384, and more once a program that sprof starts has many deeper stacks.
    #[arg(long, value_name = "BYTES", help_heading = "What to sample", value_parser = value::stack_size)]
    pub(crate) stack_size: Option<u32>,

    /// Engine that finds the callers of each frame. framehop is the published engine that samply uses, to compare: see
    /// docs/unwinding.md. Linux only.
    #[arg(
        long,
        value_enum,
        value_name = "ENGINE",
        default_value = "sprof",
        help_heading = "What to sample"
    )]
    pub(crate) unwinder: UnwinderName,

    /// Keep only the main thread of each process in the profile.
    #[arg(long, help_heading = "The profile")]
    pub(crate) main_thread_only: bool,

    /// Show a track for each CPU instead of each thread; stacks begin with their process. Not with --off-cpu: a waiting
    /// thread is on no CPU.
    #[arg(long, conflicts_with = "off_cpu", help_heading = "The profile")]
    pub(crate) per_cpu_threads: bool,

    /// Put the program's arguments into the profile; =N only the first N. Arguments may hold secrets.
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, help_heading = "The profile")]
    pub(crate) include_args: Option<Option<usize>>,

    /// Name of the profile [default: the program's name].
    #[arg(long, value_name = "NAME", help_heading = "The profile")]
    pub(crate) profile_name: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  sprof record ./app --its --arguments          a program; then the browser opens
  sprof record --off-cpu -p 1234 -d 10          a running process for 10 s, with its waits
  sprof record -s -o app.json.gz -r 4000 ./app  save only, 4000 samples a second";

pub(crate) const EXIT_STATUS: &str = "\
Exit status of `sprof record`: the program's own; 128+N if signal N ended it;
127 no such program; 126 not executable; 2 wrong usage; 125 sprof itself failed.
With -p and -a: 0 if the profile was saved, or the status of the command after -p PID or -a.";

pub(crate) const ENVIRONMENT: &str = "\
Every option has an environment variable, SPROF_ and its long name:
SPROF_RATE=4000, SPROF_SAVE_ONLY=1. SPROF_CACHE=FOLDER keeps names for the next
start in FOLDER, SPROF_CACHE=off keeps none. NO_COLOR, CLICOLOR_FORCE, CARGO_TERM_COLOR
and TERM=dumb are honoured.";

#[derive(Args, Clone, Debug)]
#[command(
    override_usage = "sprof record [OPTIONS] [--] [VAR=x]... COMMAND [ARGS]...\n       \
                      sprof record [OPTIONS] -p PID[,PID]... [[--] COMMAND [ARGS]...]\n       \
                      sprof record [OPTIONS] -a [[--] COMMAND [ARGS]...]",
    before_help = EXAMPLES,
    after_help = format!("{EXIT_STATUS}\n\n{ENVIRONMENT}"),
    // Not `requires("share")`: SPROF_YES and SPROF_SERVER are also for `sprof share`.
    mut_arg("yes", |arg| arg.help_heading("Sharing").help("With --share: upload without asking. Needed where there is no terminal")),
    mut_arg("server", |arg| arg.help_heading("Sharing").help("With --share: API of your own store [default: the store of the Firefox Profiler]. \
                                                             Needs --ui-url")),
    mut_arg("to", |arg| arg.help_heading("Sharing").help("With --share: upload into a bucket, s3://BUCKET/FOLDER, and print a signed link")),
    mut_arg("json", |arg| arg.help("Print a summary as one line of JSON to stdout when the program has ended")),
    mut_arg("expires", |arg| arg.help_heading("Sharing")),
    mut_arg("parquet", |arg| arg.help_heading("Sharing"))
)]
pub(crate) struct RecordArgs {
    #[command(flatten)]
    pub(crate) recording: RecordingArgs,

    /// File to save the profile to; `-` is stdout (the program's output then goes to stderr). sprof keeps an earlier
    /// profile: app.json.gz becomes app.1.json.gz. While sprof records, FILE.partial holds the recording so far; `sprof
    /// load` and `sprof report` read it.
    #[arg(
        short,
        long,
        value_name = "FILE",
        default_value = super::SAVED,
        help_heading = "The profile"
    )]
    pub(crate) output: PathBuf,

    /// With --last: also write the last seconds when this happens, to app.1.json.gz and so on. `signal`: sprof gets
    /// SIGUSR2. `file:PATH`: a file appears. `start:PROGRAM`, `end:PROGRAM`: a recorded process of this name
    /// starts or ends. `span:NAME>100ms`: a span takes longer. `cpu>150%`: the recorded processes take more of the CPUs
    /// for a second. `memory>2G`: they have more in RAM. May be given several times. Up to 100 files or 1 GB;
    /// what comes often has a file now and then.
    #[arg(long, value_name = "WHEN", requires = "last", help_heading = "How long", value_parser = super::trigger::trigger)]
    pub(crate) trigger: Vec<super::Trigger>,

    /// Also write the profile with a viewer as one HTML file, to mail or to attach to a CI run. It replaces an earlier
    /// page. With -o app.html the page is all that is saved.
    #[arg(long, value_name = "FILE", help_heading = "The profile")]
    pub(crate) html: Option<PathBuf>,

    /// Save the profile and exit; serve nothing. This is the default without a terminal, or if CI is set.
    #[arg(short, long, help_heading = "The profile")]
    pub(crate) save_only: bool,

    /// Save the source files of sampled functions in the profile, so that their lines are shown wherever it is opened.
    #[arg(long, help_heading = "The profile", conflicts_with = "no_symbolicate")]
    pub(crate) embed_sources: bool,

    /// Save addresses without function names.
    #[arg(long, help_heading = "The profile")]
    pub(crate) no_symbolicate: bool,

    #[command(flatten, next_help_heading = "The profile")]
    pub(crate) json: JsonArgs,

    /// Upload the saved profile instead of serving it: sprof removes what is private, asks, and prints a link that
    /// others can open. See `sprof share --help`.
    #[arg(long, help_heading = "Sharing", conflicts_with_all = ["json", "format"])]
    pub(crate) share: bool,

    /// Also send the saved profile to a server that keeps profiles: pyroscope=URL, parca=URL or otlp=URL. May be given
    /// several times; see `sprof push --help`.
    #[arg(long, value_name = "KIND=URL", value_delimiter = ' ', help_heading = "Sharing")]
    pub(crate) push: Vec<String>,

    #[command(flatten)]
    pub(crate) upload: UploadArgs,

    #[command(flatten)]
    pub(crate) serve: ServeArgs,
}

/// How the heap is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum HeapHow {
    /// As a flag of the environment.
    #[value(aliases = ["0", "false", "no"])]
    Off,
    #[value(aliases = ["1", "true", "yes"])]
    On,
    Interpose,
    Patch,
}

/// `--unwinder`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum UnwinderName {
    /// sprof's own engine.
    Sprof,
    /// The engine of samply.
    Framehop,
}

/// perf's `--call-graph`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallGraph {
    /// By unwind rules, with this many bytes of stack, if given.
    Dwarf(Option<u32>),
    /// By frame pointers.
    FramePointers,
    /// By the branch records of the CPU.
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
    /// Stack bytes to copy with each sample; `None` if the user gave none.
    pub(crate) fn stack_bytes(&self) -> Option<u32> {
        match self.call_graph {
            Some(CallGraph::Dwarf(Some(bytes))) => Some(bytes),
            _ => self.stack_size,
        }
    }

    /// Samples per second of CPU time.
    pub(crate) fn rate_hz(&self) -> f64 {
        self.rate.unwrap_or(1000.0)
    }

    /// How counters are sampled; `None` if the user gave neither `-c` nor `-r`.
    pub(crate) fn event_sampling(&self) -> Option<SampleBy> {
        let by_rate = self
            .rate
            .map(|rate_hz| SampleBy::Frequency(rate_hz.round().max(1.0) as u64));
        self.count.map(SampleBy::Period).or(by_rate)
    }

    /// Samples per second of CPU time with ptrace. At 100 Hz ptrace takes up to 1 % of the program's time, at 1000 Hz
    /// up to 10 %: see `cargo bench -p sprof --bench recording -- ptrace`.
    pub(crate) fn ptrace_rate_hz(&self) -> f64 {
        self.rate.unwrap_or(100.0)
    }
}

/// The command line of the program to run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ProgramWords {
    /// `VAR=x` words.
    pub(crate) env: Vec<(OsString, OsString)>,
    /// Program and arguments; at least one.
    pub(crate) command: Vec<OsString>,
}

/// Splits the leading `VAR=x` words from the command, as a shell does. `None` if no command follows.
pub(crate) fn split_environment(words: &[OsString]) -> Option<ProgramWords> {
    let mut env = Vec::new();
    for (at, word) in words.iter().enumerate() {
        match assignment(word) {
            Some(variable) => env.push(variable),
            None => {
                return Some(ProgramWords {
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
