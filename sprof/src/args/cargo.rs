//! `cargo sprof`: cargo's own options to name a target, and those of `sprof record`, become a command line of `sprof
//! record`. `cargo sprof flamegraph` does the same with `sprof flamegraph`.
//!
//! Short names are those that cargo and `cargo flamegraph` give them: `-p` is a package, `-r` the release profile, `-F`
//! the rate.

use std::ffi::OsString;

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};

/// Options of `sprof record` and `sprof flamegraph` that say what to record or to draw, or can't be used with cargo.
const WHAT_TO_RECORD: [&str; 9] = [
    "command",
    "pid",
    "all",
    "file",
    "base",
    "measure",
    "weigh",
    "heap",
    "heap_interval",
];
/// Options with a value that go to cargo unchanged.
const WITH_VALUE: [(&str, &str, &str); 13] = [
    ("bin", "NAME", "Run this program"),
    ("bench", "NAME", "Run this benchmark"),
    ("test", "NAME", "Run this integration test"),
    ("package", "SPEC", "Package to build"),
    ("exclude", "SPEC", "With --workspace: leave out this package"),
    ("features", "FEATURES", "Features to build with"),
    (
        "profile",
        "NAME",
        "Profile to build with [default: bench for benchmarks, else release]",
    ),
    ("target", "TRIPLE", "Machine to build for"),
    ("target-dir", "DIR", "Folder for build output"),
    ("manifest-path", "PATH", "Path of Cargo.toml"),
    ("config", "KEY=VALUE", "A setting of cargo's"),
    ("jobs", "N", "Number of compilers that run at the same time"),
    ("example", "NAME", "Run this example"),
];
/// Options without a value that go to cargo unchanged.
const FLAGS: [(&str, &str); 12] = [
    ("workspace", "All packages of the workspace"),
    ("lib", "The library's unit tests, or its benchmarks"),
    ("bins", "All programs' unit tests"),
    ("benches", "All benchmarks"),
    ("tests", "All tests"),
    ("all-features", "Build with all features"),
    ("no-default-features", "Build without the default feature"),
    ("no-fail-fast", "Run the other tests and benchmarks when one fails"),
    ("ignore-rust-version", "Ignore the packages' rust-version"),
    ("locked", "Fail if Cargo.lock is not up to date"),
    ("offline", "Use no network"),
    ("frozen", "Same as --locked and --offline"),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Goal {
    /// A profile: `sprof record`.
    Profile,
    /// A picture: `sprof flamegraph`.
    FlameGraph,
}

impl Goal {
    fn command(self) -> &'static str {
        match self {
            Goal::Profile => "record",
            Goal::FlameGraph => "flamegraph",
        }
    }
}

/// A target that cargo has no option for: the unit tests of a library or program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum UnitTarget {
    /// The unit tests of the library or program with this name.
    Named(String),
    /// The unit tests of all libraries and programs of the named packages. An empty list: of the packages that cargo
    /// chooses.
    All { packages: Vec<String> },
}

#[derive(Debug)]
pub(crate) struct CargoSprof {
    goal: Goal,
    /// Options of `sprof record` or `sprof flamegraph`.
    options: Vec<OsString>,
    /// `bench`, `test` or `run`.
    subcommand: &'static str,
    cargo: Vec<OsString>,
    /// The target whose unit tests run; cargo knows its kind.
    pub(crate) unit: Option<UnitTarget>,
    pub(crate) manifest_path: Option<OsString>,
    /// The words after `--`.
    program: Vec<OsString>,
    /// `--bench` stood after `--`, and is left out: `cargo bench` gives it itself, and Criterion and libtest refuse a
    /// second one.
    pub(crate) had_bench_flag: bool,
}

/// The definition, for help, man page and completions.
pub(crate) fn definition() -> Command {
    definition_of(Goal::Profile)
}

/// The definition of `cargo sprof flamegraph`.
pub(super) fn flamegraph_definition() -> Command {
    definition_of(Goal::FlameGraph)
}

fn definition_of(goal: Goal) -> Command {
    let (name, about) = match goal {
        Goal::Profile => (
            "cargo sprof",
            "Build a target with cargo, record it and show the profile: benchmarks, tests, programs and examples.",
        ),
        Goal::FlameGraph => (
            "cargo sprof flamegraph",
            "Build a target with cargo, record it and draw a flame graph: benchmarks, tests, programs and examples.",
        ),
    };
    let command = Command::new(name)
        .bin_name(name)
        .about(about)
        .help_template(super::HELP_TEMPLATE)
        .before_help(
            "Examples:\n  \
             cargo sprof bench --bench sort -- numbers  the benchmarks of `sort` whose name has `numbers` in it\n  \
             cargo sprof --bin app -- --its arguments   a program\n  \
             cargo sprof flamegraph --bin app           a flame graph, flamegraph.svg",
        )
        .after_help("The exit status is cargo's. `sprof record cargo ...` accepts every command line of cargo.")
        .max_term_width(100)
        .arg(
            Arg::new("what")
                .value_name("COMMAND")
                .value_parser(["bench", "test", "run", "example"])
                .help("What to run [default: by --bench, --test, --bin or --example; else run]"),
        )
        .arg(
            Arg::new("name")
                .value_name("NAME")
                .help("With bench and test: run those with this text in their name. With example: its name"),
        )
        .arg(
            Arg::new("args")
                .last(true)
                .num_args(0..)
                .value_name("ARGS")
                .value_parser(clap::value_parser!(OsString))
                .help("Arguments for the program"),
        );
    let command = command.next_help_heading("Cargo");
    let value = |(long, value, help): (&'static str, &'static str, &'static str)| {
        let arg = Arg::new(long).long(long).value_name(value).help(help);
        let arg = arg
            .action(ArgAction::Append)
            .value_parser(clap::value_parser!(OsString));
        match long {
            "package" => arg.short('p'),
            "features" => arg.short('f'),
            "jobs" => arg.short('j'),
            _ => arg,
        }
    };
    let flag =
        |(long, help): (&'static str, &'static str)| Arg::new(long).long(long).help(help).action(ArgAction::SetTrue);
    let unit = |long: &'static str, help: &'static str| {
        Arg::new(long)
            .long(long)
            .value_name("TARGET")
            .num_args(0..=1)
            .default_missing_value("")
            .help(help)
    };
    command
        .args(WITH_VALUE.map(value))
        .arg(unit(
            "unit-test",
            "Run the unit tests of this library or program; without a name, of all",
        ))
        .arg(unit(
            "unit-bench",
            "Run the benchmarks in this library or program; without a name, in all",
        ))
        .args(FLAGS.map(flag))
        .arg(
            flag((
                "release",
                "Build with the release profile [default, except for benchmarks]",
            ))
            .short('r'),
        )
        .arg(
            flag(("dev", "Build with the dev profile, tests with the test profile"))
                .conflicts_with_all(["release", "profile"]),
        )
        .args(options_of(goal))
}

/// Options of `sprof record` or `sprof flamegraph`, with short names that cargo does not use.
fn options_of(goal: Goal) -> Vec<Arg> {
    let definition = super::definition();
    let command = definition.find_subcommand(goal.command());
    let arguments = command.into_iter().flat_map(Command::get_arguments);
    let arguments = arguments.filter(|arg| !WHAT_TO_RECORD.contains(&arg.get_id().as_str()));
    arguments
        .map(|arg| {
            let arg = match arg.get_help_heading() {
                Some(_) => arg.clone(),
                None => arg.clone().help_heading("Recording"),
            };
            match arg.get_id().as_str() {
                "rate" => arg.visible_short_alias(None).short('F'),
                // -f is for features.
                "format" => arg.short(None),
                _ => arg,
            }
        })
        .collect()
}

/// Takes the words after `cargo sprof` apart.
pub(crate) fn parse(words: &[OsString], color: clap::ColorChoice) -> Result<CargoSprof, clap::Error> {
    let (goal, words) = match words.split_first() {
        Some((first, rest)) if first == "flamegraph" => (Goal::FlameGraph, rest),
        _ => (Goal::Profile, words),
    };
    let mut definition = definition_of(goal).color(color);
    let line = [OsString::from("cargo sprof")].into_iter().chain(words.iter().cloned());
    let matches = definition.try_get_matches_from_mut(line)?;
    let mut refuse = |message: &str| Err(definition.error(clap::error::ErrorKind::ArgumentConflict, message));
    let has = |id: &str| matches.value_source(id) == Some(ValueSource::CommandLine);
    let what = matches.get_one::<String>("what").map(String::as_str);
    let subcommand = match what {
        Some("bench") => "bench",
        Some("test") => "test",
        Some(_) => "run",
        None if ["bench", "benches", "unit-bench"].iter().any(|id| has(id)) => "bench",
        None if ["test", "tests", "unit-test"].iter().any(|id| has(id)) => "test",
        None => "run",
    };
    let name = matches.get_one::<String>("name").cloned();
    let mut cargo: Vec<OsString> = Vec::new();
    let mut program = Vec::new();
    match (what, name) {
        (Some("bench" | "test"), name) => program.extend(name.map(OsString::from)),
        (Some("example"), Some(name)) => cargo.extend(["--example".into(), name.into()]),
        (Some("example"), None) if !has("example") => return refuse("which example? cargo sprof example NAME"),
        (_, Some(_)) => return refuse("arguments for the program are put after --"),
        _ => {}
    }
    for (id, ..) in WITH_VALUE {
        cargo.extend(values(&matches, id));
    }
    for (id, _) in FLAGS {
        cargo.extend(matches.get_flag(id).then(|| OsString::from(format!("--{id}"))));
    }
    match subcommand {
        "bench" if matches.get_flag("dev") => cargo.push("--profile=dev".into()),
        "bench" if matches.get_flag("release") => cargo.push("--profile=release".into()),
        "bench" => {}
        _ if matches.get_flag("dev") || has("profile") => {}
        _ => cargo.push("--release".into()),
    }
    let unit = ["unit-test", "unit-bench"].into_iter().find(|id| has(id));
    let unit = unit.and_then(|id| matches.get_one::<String>(id)).cloned();
    let unit = unit.map(|name| match name.is_empty() {
        true => UnitTarget::All {
            packages: strings(&matches, "package"),
        },
        false => UnitTarget::Named(name),
    });
    let given: Vec<&OsString> = matches.get_many("args").into_iter().flatten().collect();
    let is_kept = |word: &&&OsString| subcommand != "bench" || **word != "--bench";
    let arguments: Vec<OsString> = given.iter().filter(is_kept).map(|word| (*word).clone()).collect();
    // A filter is cargo's own argument, before `--`.
    cargo.append(&mut program);
    Ok(CargoSprof {
        goal,
        options: options_given(goal, &matches),
        subcommand,
        cargo,
        unit,
        manifest_path: matches
            .get_many::<OsString>("manifest-path")
            .and_then(|mut paths| paths.next_back().cloned()),
        had_bench_flag: arguments.len() < given.len(),
        program: arguments,
    })
}

impl CargoSprof {
    /// The command line of cargo; `of_unit` are the options for the target whose unit tests run.
    pub(crate) fn command(&self, of_unit: Vec<OsString>) -> Vec<OsString> {
        let mut line: Vec<OsString> = vec!["cargo".into(), self.subcommand.into()];
        line.extend(of_unit);
        line.extend(self.cargo.iter().cloned());
        if !self.program.is_empty() {
            line.push("--".into());
            line.extend(self.program.iter().cloned());
        }
        line
    }

    /// Parses a command line of `sprof record` or `sprof flamegraph` that has the typed options, and runs `command`.
    ///
    /// # Errors
    ///
    /// clap's usage error, where sprof's options exclude each other.
    pub(crate) fn of_sprof(&self, command: Vec<OsString>) -> Result<super::Command, clap::Error> {
        let mut line: Vec<OsString> = vec!["sprof".into(), self.goal.command().into()];
        line.extend(self.options.iter().cloned());
        line.push("--".into());
        line.extend(command);
        Ok(super::parsed(&line, clap::ColorChoice::Auto)?.command)
    }
}

fn strings(matches: &ArgMatches, id: &str) -> Vec<String> {
    let values = matches.get_many::<OsString>(id).into_iter().flatten();
    values.map(|value| value.to_string_lossy().into_owned()).collect()
}

/// `--name=value` of each value that was given.
fn values(matches: &ArgMatches, id: &str) -> Vec<OsString> {
    let values = matches.get_many::<OsString>(id).into_iter().flatten();
    values.map(|value| with_value(id, value)).collect()
}

fn with_value(long: &str, value: &std::ffi::OsStr) -> OsString {
    let mut word = OsString::from(format!("--{long}="));
    word.push(value);
    word
}

/// The options of sprof's command that were typed. sprof's command reads options from the environment itself.
fn options_given(goal: Goal, matches: &ArgMatches) -> Vec<OsString> {
    let mut words = Vec::new();
    for arg in options_of(goal) {
        let (id, Some(long)) = (arg.get_id().as_str(), arg.get_long()) else {
            continue;
        };
        if matches.value_source(id) != Some(ValueSource::CommandLine) {
            continue;
        }
        if matches!(arg.get_action(), ArgAction::SetTrue) {
            words.push(OsString::from(format!("--{long}")));
            continue;
        }
        let before = words.len();
        let values = matches.get_raw(id).into_iter().flatten();
        words.extend(values.map(|value| with_value(long, value)));
        if words.len() == before {
            words.push(OsString::from(format!("--{long}")));
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(words: &str) -> String {
        let words: Vec<OsString> = words.split_whitespace().map(OsString::from).collect();
        let parsed = parse(&words, clap::ColorChoice::Never).unwrap();
        let command = parsed.command(Vec::new());
        parsed.of_sprof(command.clone()).unwrap();
        let all: Vec<String> = parsed
            .options
            .iter()
            .chain(&command)
            .map(|word| word.to_str().unwrap().to_owned())
            .collect();
        all.join(" ")
    }

    #[test]
    fn the_definition_is_sound() {
        definition().debug_assert();
    }

    #[test]
    fn targets_are_named_as_with_cargo_flamegraph() {
        for (words, expected) in [
            ("", "cargo run --release"),
            ("bench", "cargo bench"),
            ("bench --bench sort -- numbers", "cargo bench --bench=sort -- numbers"),
            ("bench sort", "cargo bench sort"),
            (
                "flamegraph --bench sort --features fast -- --bench",
                "cargo bench --bench=sort --features=fast",
            ),
            ("bench -- numbers --bench", "cargo bench -- numbers"),
            ("test -- --bench", "cargo test --release -- --bench"),
            ("--bench sort --dev", "cargo bench --bench=sort --profile=dev"),
            (
                "test -p work some -- --nocapture",
                "cargo test --package=work --release some -- --nocapture",
            ),
            ("--unit-test -- some::test", "cargo test --release -- some::test"),
            (
                "flamegraph --bin app -F 99 --title x -- 3",
                "--rate=99 --title=x cargo run --bin=app --release -- 3",
            ),
            (
                "flamegraph bench --bench sort -o x.svg",
                "--output=x.svg cargo bench --bench=sort",
            ),
            ("flamegraph", "cargo run --release"),
            (
                "--bin app -F 99 -- --its",
                "--rate=99 cargo run --bin=app --release -- --its",
            ),
            ("example demo -s --dev", "--save-only cargo run --example demo"),
            (
                "--example demo --profile fast",
                "cargo run --profile=fast --example=demo",
            ),
            (
                "run -r -f a,b -o x.json.gz --include-args=2",
                "--include-args=2 --output=x.json.gz cargo run --features=a,b --release",
            ),
        ] {
            assert_eq!(line(words), expected, "{words}");
        }
    }

    #[test]
    fn what_can_not_be_meant_is_refused() {
        for (words, expected) in [
            ("run app", "after --"),
            ("example", "which example"),
            ("--dev --release", "--release"),
            ("bench -p", "SPEC"),
            ("--pid 3", "--pid"),
        ] {
            let words: Vec<OsString> = words.split_whitespace().map(OsString::from).collect();
            let error = parse(&words, clap::ColorChoice::Never).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
            assert_eq!(error.exit_code(), 2);
        }
    }
}
