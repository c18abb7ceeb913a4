//! Records the programs that cargo builds: `sprof record cargo bench`.
//!
//! Input: a command line. If it is a command line of cargo that runs programs, those programs are recorded, with names
//! and lines. Out of scope: cargo's own work (`cargo build`), which is recorded like any other program.
//!
//! 1. [`command`]: parses the command line.
//! 2. [`config`], [`workspace`]: cargo's settings and targets.
//! 3. [`profiles`]: what the build profile lacks.
//! 4. [`runner`]: cargo runs it instead of each program; [`runners`]: the user's own runner.
//! 5. [`criterion`]: which benchmark was measured when.
//! 6. [`filter`]: leaves out cargo and compilers. [`names`]: names the programs.

mod command;
mod config;
mod criterion;
mod filter;
mod names;
mod profiles;
pub(crate) mod runner;
mod runners;
mod workspace;

use std::ffi::{OsStr, OsString};
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use profile::text::numbers::count;
use profile::{Profile, harness};
use recording::counting::CountedProgram;
use recording::info::RecordingInfo;
use recording::session::{HoldOutcome, ProgramExit, RecordOptions, RecordTarget, Session};
use recording::sink::EventSink;

use crate::args::RecordingArgs;
use crate::exit::{Failure, Status};
use crate::recorder::Recording;
use crate::terminal::Term;
use command::CargoCommand;
use config::CargoConfig;
use filter::Programs;
use names::Names;
use profiles::ProfileAdvice;
use runner::{Orders, RunnerSocket};
use workspace::{Package, Workspace};

/// A run of cargo that is recorded.
#[derive(Debug)]
pub(crate) struct CargoRun {
    /// `cargo bench`
    pub(crate) command: String,
    desk: RunnerSocket,
    names: Names,
    include_build: bool,
    /// Folder of Criterion's results.
    criterion: Option<PathBuf>,
    left_out: u64,
    programs: u64,
}

/// Prepares a run of cargo, and gives it the environment that it needs; `None` if the command is not cargo's.
pub(crate) fn prepare(
    options: &mut RecordOptions,
    args: &RecordingArgs,
    term: &Term,
) -> Result<Option<CargoRun>, Failure> {
    if options.target != RecordTarget::Command {
        return Ok(None);
    }
    let runs = run_by_sprof(
        &options.command,
        &mut options.env,
        args.no_cargo_env,
        Orders::default(),
        term,
    )?;
    let Some(RunnersOfCargo {
        command,
        config,
        workspace,
        desk,
    }) = runs
    else {
        return Ok(None);
    };
    if let Some(heap) = &mut options.heap {
        heap.runner = Some(runner::NAME.to_owned());
    }
    Ok(Some(CargoRun {
        command: format!("cargo {}", command.subcommand.name()),
        desk,
        names: Names::new(workspace.as_ref()),
        include_build: args.include_build,
        criterion: criterion_folder(&config, workspace.as_ref()),
        left_out: 0,
        programs: 0,
    }))
}

/// Makes cargo start its programs by valgrind, with these words before them, as long as the result lives; `None` if the
/// command is not cargo's.
pub(crate) fn run_by_valgrind(
    valgrind: &[OsString],
    program: &mut CountedProgram,
    no_cargo_env: bool,
    term: &Term,
) -> Result<Option<RunnerSocket>, Failure> {
    // Criterion runs `cargo metadata`, trybuild runs compilers. Counts that are written before show that such a process
    // was not killed.
    let builders = filter::BUILDERS.map(|name| format!("*/{name}")).join(",");
    let skipped = OsString::from(format!("--trace-children-skip={builders}"));
    let launcher = [valgrind, &[skipped, "--dump-before=execve".into()]].concat();
    let orders = Orders {
        launcher: launcher.into_iter().map(OsString::into_vec).collect(),
        ..Orders::default()
    };
    let runs = run_by_sprof(&program.command, &mut program.env, no_cargo_env, orders, term)?;
    Ok(runs.map(RunnersOfCargo::without_recording))
}

/// Makes cargo start its programs by a sprof that counts, as long as the result lives; `None` if the command is not
/// cargo's. Names of functions are not needed, so cargo builds as it always does.
pub(crate) fn run_by_counter(
    program: &mut CountedProgram,
    events: &[String],
    term: &Term,
) -> Result<Option<RunnerSocket>, Failure> {
    let orders = Orders {
        counted_events: Some(events.to_vec()),
        ..Orders::default()
    };
    let runs = run_by_sprof(&program.command, &mut program.env, true, orders, term)?;
    Ok(runs.map(RunnersOfCargo::without_recording))
}

/// A command line of cargo, with sprof as the runner of its programs.
struct RunnersOfCargo {
    command: CargoCommand,
    config: CargoConfig,
    workspace: Option<Workspace>,
    desk: RunnerSocket,
}

impl RunnersOfCargo {
    fn without_recording(mut self) -> RunnerSocket {
        self.desk.begin();
        self.desk
    }
}

/// Makes sprof the runner of cargo's programs, by variables that it adds; `None` if the command is not cargo's.
fn run_by_sprof(
    command: &[OsString],
    added: &mut Vec<(OsString, OsString)>,
    no_cargo_env: bool,
    orders: Orders,
    term: &Term,
) -> Result<Option<RunnersOfCargo>, Failure> {
    let env = environment(added);
    let here = std::env::current_dir().unwrap_or_default();
    let aliases = CargoConfig::read(&[], &here, &env);
    let alias = |name: &str| aliases.words(&["alias", name]).map(|(words, _)| words);
    let Some(command) = command::parse(command, &alias) else {
        return Ok(None);
    };
    let folder = command
        .folder
        .as_ref()
        .map_or_else(|| here.clone(), |folder| here.join(folder));
    let config = CargoConfig::read(&command.config, &folder, &env);
    let workspace = workspace::ask(&command, &folder, &env);
    let targets = targets(&command.targets, &config, || workspace::host(&command, &folder, &env));

    let mut set: Vec<(String, OsString)> = Vec::new();
    if !no_cargo_env {
        let advice = advice(&command.profile, workspace.as_ref(), &config, &targets);
        if !advice.variables.is_empty() {
            let said: Vec<String> = advice
                .variables
                .iter()
                .map(|(name, value)| format!("{name}={value}"))
                .collect();
            term.line(format_args!(
                "set for cargo, so that functions have names and lines: {} (--no-cargo-env leaves it)",
                said.join(" ")
            ));
        }
        advice.remarks.iter().for_each(|remark| term.warning(remark));
        set.extend(advice.variables.into_iter().map(|(name, value)| (name, value.into())));
    }
    let runner = runners::of_user(&targets, &config, &folder, |target| {
        workspace::cfg(target, &folder, &env)
    });
    let runner_variables: Vec<String> = (targets.iter())
        .map(|target| config::environment_name(&["target", target, "runner"]))
        .collect();
    let changed = set.iter().map(|(name, _)| name).chain(&runner_variables);
    let orders = Orders {
        runner: runner.into_iter().map(|word| OsString::from(word).into_vec()).collect(),
        restore: changed
            .map(|name| {
                let before = env.iter().find(|(other, _)| other == name.as_str());
                (name.clone(), before.map(|(_, value)| value.clone().into_vec()))
            })
            .collect(),
        ..orders
    };
    let desk = RunnerSocket::open(&orders).map_err(|error| {
        format!(
            "cannot create a folder for temporary files ({error}), which sprof needs to learn what cargo runs: free space, or set TMPDIR"
        )
    })?;
    let runner = desk.runner();
    set.extend(
        runner_variables
            .into_iter()
            .map(|name| (name, runner.clone().into_os_string())),
    );
    added.extend(set.into_iter().map(|(name, value)| (OsString::from(name), value)));
    Ok(Some(RunnersOfCargo {
        command,
        config,
        workspace,
        desk,
    }))
}

fn advice(profile: &str, workspace: Option<&Workspace>, config: &CargoConfig, targets: &[String]) -> ProfileAdvice {
    let manifest = workspace.and_then(|workspace| config::read_table(&workspace.workspace_root.join("Cargo.toml")));
    profiles::advice(profile, &manifest.unwrap_or_default(), config, targets)
}

/// The workspace of a command line of cargo.
fn workspace_of(manifest_path: Option<&OsStr>) -> Option<Workspace> {
    let mut words: Vec<OsString> = vec!["cargo".into(), "test".into()];
    if let Some(path) = manifest_path {
        words.extend(["--manifest-path".into(), path.into()]);
    }
    let command = command::parse(&words, &|_| None)?;
    workspace::ask(&command, &std::env::current_dir().ok()?, &environment(&[]))
}

/// Cargo's options for the unit tests of all libraries and programs. Without a library, `--lib` would be an error.
pub(crate) fn all_unit_tests(packages: &[String], manifest_path: Option<&OsStr>) -> Vec<OsString> {
    let workspace = workspace_of(manifest_path);
    let here = manifest_path.map(PathBuf::from).or_else(|| {
        let folder = std::env::current_dir().ok()?;
        folder
            .ancestors()
            .map(|folder| folder.join("Cargo.toml"))
            .find(|path| path.is_file())
    });
    let here = here.and_then(|path| path.canonicalize().ok());
    let is_here = |package: &&Package| package.manifest_path.canonicalize().ok() == here;
    let has_library = workspace.is_none_or(|workspace| {
        let all = &workspace.packages;
        let is_meant = |package: &&Package| match packages {
            [] => is_here(package) || !all.iter().any(|package| is_here(&package)),
            names => names.contains(&package.name),
        };
        let mut targets = all.iter().filter(is_meant).flat_map(|package| &package.targets);
        let is_no_library =
            |kind: &String| ["bin", "test", "bench", "example", "custom-build"].contains(&kind.as_str());
        // A package specification that is more than a name is left to cargo.
        targets.any(|target| !target.kind.iter().any(is_no_library))
            || packages
                .iter()
                .any(|name| !all.iter().any(|package| package.name == *name))
    });
    let library = has_library.then(|| "--lib".into());
    library.into_iter().chain(["--bins".into()]).collect()
}

/// Cargo's options for the unit tests of a library or program; `None` if no target has this name.
pub(crate) fn unit_tests(name: &str, manifest_path: Option<&OsStr>) -> Option<Vec<OsString>> {
    let workspace = workspace_of(manifest_path)?;
    let has_name = |target: &&workspace::CargoTarget| target.name == name || target.name.replace('-', "_") == name;
    for package in &workspace.packages {
        let mut targets = package.targets.iter().filter(has_name);
        let found = targets.find_map(|target| match target.kind.first()?.as_str() {
            "bin" => Some(vec!["--bin".into(), target.name.clone().into()]),
            "test" | "bench" | "example" | "custom-build" => None,
            _ => Some(vec!["--lib".into()]),
        });
        if let Some(mut found) = found {
            found.extend(["--package".into(), package.name.clone().into()]);
            return Some(found);
        }
    }
    None
}

/// The folder where Criterion keeps its results.
fn criterion_folder(config: &CargoConfig, workspace: Option<&Workspace>) -> Option<PathBuf> {
    let home = config.variable("CRITERION_HOME").map(PathBuf::from);
    home.or_else(|| Some(workspace?.target_directory.join("criterion")))
}

/// The target machines, as in cargo's variables.
fn targets(named: &[String], config: &CargoConfig, host: impl FnOnce() -> Option<String>) -> Vec<String> {
    let of_config = || config.words(&["build", "target"]).map(|(targets, _)| targets);
    let targets = match named {
        [] => of_config().unwrap_or_else(|| host().into_iter().collect()),
        named => named.to_vec(),
    };
    // A target specification in a file has the name of the file.
    let name = |target: String| match target.strip_suffix(".json") {
        Some(path) => Path::new(path)
            .file_name()
            .map_or(path.to_owned(), |name| name.to_string_lossy().into_owned()),
        None => target,
    };
    targets.into_iter().map(name).collect()
}

/// sprof's own environment, with the variables that the user added.
fn environment(added: &[(OsString, OsString)]) -> Vec<(OsString, OsString)> {
    let mut env: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    for (name, value) in added {
        env.retain(|(other, _)| other != name);
        env.push((name.clone(), value.clone()));
    }
    env
}

impl CargoRun {
    /// Lets cargo build until the first program waits to be recorded.
    pub(crate) fn hold(&mut self, recording: Recording) -> Result<Recording, Failure> {
        if self.include_build {
            self.desk.begin();
            return Ok(recording);
        }
        let failed = |error: std::io::Error| Failure::failed(format_args!("cannot wait for what cargo runs: {error}"));
        self.desk.hold_again().map_err(failed)?;
        let waiting = self.desk.waiting().map(|listener| listener.as_fd());
        let Some(waiting) = waiting else {
            return Ok(recording);
        };
        match recording.hold_until(waiting)? {
            HoldOutcome::Begins(recording) => {
                self.desk.begin();
                Ok(*recording)
            }
            HoldOutcome::Ended(exit) => Err(ran_nothing(exit)),
        }
    }

    /// Records through the filter.
    pub(crate) fn record<N: EventSink, T>(&mut self, sink: &mut N, record: impl FnOnce(&mut dyn EventSink) -> T) -> T {
        let mut programs = Programs::new(sink, self.desk.folder(), &self.names, self.include_build);
        let recorded = record(&mut programs);
        self.left_out += programs.left_out();
        self.programs += programs.seen();
        recorded
    }

    /// True if a program was recorded.
    pub(crate) fn has_content(&self) -> bool {
        self.include_build || self.programs > 0
    }

    /// Adds markers for benchmarks and tests. The profile must have names. After several runs, Criterion's files
    /// describe only the last one.
    pub(crate) fn mark_benchmarks(&self, profile: &mut Profile, runs: u32) {
        let folder = self.criterion.as_ref().filter(|_| runs == 1);
        let results = folder.map(|folder| criterion::results(folder, profile.info().clock.wall));
        harness::mark(profile, &results.unwrap_or_default());
    }

    /// Adds notes on what limits the profile.
    pub(crate) fn add_notes(&self, info: &mut RecordingInfo) {
        if self.left_out > 0 {
            info.notes.push(format!(
                "left out: {} of cargo and of the build; --include-build keeps them",
                count(self.left_out, "sample", "samples")
            ));
        }
    }
}

/// The failure if cargo ended and ran no program.
pub(crate) fn ran_nothing(exit: ProgramExit) -> Failure {
    Failure::NothingRan {
        message: "cargo ran no program, so there is nothing to record (--include-build records cargo and rustc)"
            .to_owned(),
        status: Status::from(exit),
    }
}
