//! `sprof count`: runs a program under valgrind, which counts each instruction.
//!
//! callgrind writes a file for each process. sprof joins them: callgrind's format has parts of several processes.
//! [`processes`] reads what valgrind wrote beside the counts.

mod processes;

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;

use profile::read::NOTE_OF_COUNT;
use profile::text::numbers::{count, grouped};
use profile::text::one_line;
use profile::view::functions::functions;
use profile::view::select::{Filter, select};
use recording::command::on_file;
use recording::counting::CountedProgram;
use recording::program;

use super::record;
use crate::args::{self, CountArgs, SymbolArgs};
use crate::cargo;
use crate::exit::{Failure, Outcome, Status};
use crate::input;
use crate::output::file_kind::FileKind;
use crate::recorder::RunCounter;
use crate::terminal::Term;
use crate::terminal::style::Style;
use processes::{COUNTS, CountedProcesses, LOG};

/// Functions in the summary.
const SHOWN_FUNCTIONS: usize = 5;
/// A forked process begins with the counts of its parent. Where one of these begins, callgrind writes its counts and
/// sets them to 0. So nothing counts twice but the instructions from there to the system call.
const FORKS: [&str; 5] = ["_Fork", "fork", "vfork", "posix_spawn", "posix_spawnp"];

pub(crate) fn run(args: &CountArgs) -> Outcome {
    let term = Term::stderr(args.verbosity());
    let Some(words) = args.program() else {
        return args::refuse("count", "which program? COMMAND has only variables (VAR=x)");
    };
    let mut program = CountedProgram {
        command: words.command,
        env: words.env,
    };
    // valgrind would report on the program's stderr that there is none.
    program::resolve(&program.command, &program.env)?;
    let output = record::output(&args.output, FileKind::Callgrind)?;
    let folder = tempfile::Builder::new().prefix("sprof-count-").tempdir();
    let folder = folder.map_err(|error| {
        format!("cannot create a folder for what valgrind writes ({error}): free space, or set TMPDIR")
    })?;
    let name = program
        .command
        .first()
        .map_or_else(String::new, |word| word.display().to_string());
    let mut valgrind = valgrind(args.cache, folder.path())?;
    let cargo = cargo::run_by_valgrind(&valgrind, &mut program, args.no_cargo_env, &term)?;
    if cargo.is_none() {
        valgrind.append(&mut program.command);
        program.command = valgrind;
    }
    term.line(format_args!(
        "valgrind counts instructions: the program takes {} times as long",
        if args.cache { "50 to 100" } else { "20 to 50" }
    ));
    // timeout(1) sends its signal twice: the second one is not to end sprof before the counts are saved.
    let counter = RunCounter::new(&[])?;
    let (exit, _) = counter.run_uncounted(&program)?;
    let processes = CountedProcesses::read(folder.path())?;
    if let Some(failure) = processes.failure() {
        return Err(Failure::failed(format_args!(
            "valgrind can't run this program: {failure}; `sprof count --help` has what it can't run"
        )));
    }
    let notes = processes.notes(&name);
    let files: Vec<&Path> = processes
        .0
        .values()
        .flat_map(|process| &process.counts)
        .map(AsRef::as_ref)
        .collect();
    if files.is_empty() {
        let why = match (&cargo, notes.first()) {
            (_, Some(note)) => note,
            (Some(_), None) => "cargo ran no program",
            (None, None) => "valgrind did not start the program",
        };
        return Err(Failure::NothingRan {
            message: format!("nothing was counted: {why}"),
            status: Status::from(exit),
        });
    }
    notes.iter().for_each(|note| term.warning(note));
    let saved = output.save(&term, |out| {
        writeln!(out, "# callgrind format")?;
        for note in &notes {
            writeln!(out, "desc: {NOTE_OF_COUNT}{}", one_line(note))?;
        }
        for file in &files {
            io::copy(&mut File::open(file)?, out)?;
        }
        Ok(())
    })?;
    if let Some(path) = &saved.path {
        summarize(path, &term)?;
    }
    while counter.is_asked_to_end() {}
    match saved.problem {
        Some(problem) => {
            term.error(problem);
            Ok(Status::PARTIAL)
        }
        None => Ok(Status::from(exit)),
    }
}

/// The words before the program.
fn valgrind(cache: bool, folder: &Path) -> Result<Vec<OsString>, Failure> {
    let found = program::resolve(&["valgrind".into()], &[]);
    let found = found.map_err(|error| {
        format!("`sprof count` needs valgrind, and there is none ({error}): install the package valgrind (apt install valgrind)")
    })?;
    let absolute = std::path::absolute(folder);
    let folder = absolute.map_err(|error| format!("the folder of temporary files has no absolute path: {error}"))?;
    // `%p` stands for the process, `%%` for one per cent sign.
    let file = |option: &str, name: &str| {
        let mut word = option.as_bytes().to_vec();
        for byte in folder.join(name).as_os_str().as_bytes() {
            word.extend(if *byte == b'%' {
                b"%%"
            } else {
                std::slice::from_ref(byte)
            });
        }
        word.extend(b"%p");
        OsString::from_vec(word)
    };
    let mut words = vec![
        OsString::from_vec(found.path.into_bytes()),
        "--tool=callgrind".into(),
        "--trace-children=yes".into(),
        file("--log-file=", LOG),
        file("--callgrind-out-file=", COUNTS),
        "--combine-dumps=yes".into(),
        // Else a function that calls itself is two functions.
        "--separate-recs=1".into(),
        // Names get their form when the file is read, as in recordings.
        "--demangle=no".into(),
    ];
    for function in FORKS {
        // Also with a version: `posix_spawn@@GLIBC_2.15`.
        words.extend(["", "@*"].map(|version| format!("--dump-before={function}{version}").into()));
    }
    if cache {
        words.extend(["--cache-sim=yes", "--branch-sim=yes"].map(OsString::from));
    }
    Ok(words)
}

/// Prints the sum, the functions with most of it, and the next step.
fn summarize(path: &Path, term: &Term) -> Result<(), Failure> {
    let input = input::open(path, None, &SymbolArgs::default(), term)?;
    let data = &input.data;
    let selection = select(data, &Filter::default()).map_err(Failure::failed)?;
    let total = selection.total.weight;
    term.line(format_args!(
        "counted {} instructions of {}",
        grouped(total as u64),
        count(data.processes(), "process", "processes")
    ));
    for row in functions(&selection).iter().take(SHOWN_FUNCTIONS) {
        term.detail(format_args!(
            "{:4.1} %  {}  {}",
            100.0 * row.own.weight / total,
            selection.name(row.func),
            data.lib_name(row.func).unwrap_or_default()
        ));
    }
    term.line(format_args!("saved {}", term.style(Style::Link, path.display())));
    term.line(format_args!(
        "read it with {}",
        term.style(Style::Bold, on_file("report", path))
    ));
    Ok(())
}
