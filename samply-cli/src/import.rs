//! Makes a profile of a perf.data file: the same journey as a recording, from a file.

use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use perf_data::import::{Import, RecordedFile, RecordedFunction, RecordedKernel, SavedFiles};
use profile::Profile;
use profile::build::{BuildOptions, Builder};
use profile::enrich::Enriched;
use recording::address::Avma;
use recording::clock::ClockReference;
use recording::module::BuildId;
use recording::regular_file;
use recording::sink::NoMemory;
use symbolicator::{RecordedSymbols, Symbolicator};
use unwind::{UnwindOptions, Unwinder};

use crate::exit::Failure;
use crate::interrupt::Interrupt;
use crate::kernel;
use crate::names::LookUps;
use crate::term::Term;

/// Bytes read at once.
const BUFFER_BYTES: usize = 1 << 20;

/// A profile made from a file, and what the file lacked.
pub(crate) struct Imported {
    pub(crate) profile: Profile,
    pub(crate) notes: Vec<String>,
}

/// True if the file begins like a file of perf, in either byte order.
pub(crate) fn is_perf_data(path: &Path) -> bool {
    let mut magic = [0; 8];
    regular_file::open(path)
        .and_then(|mut file| file.read_exact(&mut magic))
        .is_ok()
        && [b"PERFILE2", b"2ELIFREP"].contains(&&magic)
}

/// Reads the samples of one event: the named one, or the first. The symbolicator gets the names in the file.
pub(crate) fn read(path: &Path, event: Option<&str>, symbolicator: &Symbolicator) -> Result<Imported, Failure> {
    let failed =
        |error: &dyn std::fmt::Display| Failure::failed(format_args!("cannot load {}: {error}", path.display()));
    let file = regular_file::open(path).map_err(|error| failed(&error))?;
    let modified = file.metadata().and_then(|metadata| metadata.modified()).ok();
    let file = BufReader::with_capacity(BUFFER_BYTES, file);
    let import = Import::open(file, modified, event).map_err(|error| failed(&error))?;
    // The builder needs only the time zero now; the wall clock is known at the end.
    let clock = ClockReference {
        timestamp: import.zero(),
        wall: std::time::UNIX_EPOCH,
    };
    let mut builder = Builder::new(clock, BuildOptions::default());
    let kernel = import
        .kernel()
        .and_then(|kernel| Kernel::of(kernel, import.kernel_functions()));
    if let Some(kernel) = &kernel {
        builder.set_kernel(kernel::image(kernel.base, kernel.build_id.clone(), None));
        if import.has_waits() {
            kernel.name_waits(&mut builder, import.kernel_functions());
        }
    }
    let mut unwinder = Unwinder::new(builder, NoMemory, SavedFiles::new(), UnwindOptions::default());
    let imported = import.run(&mut unwinder).map_err(|error| failed(&error))?;
    let (builder, mut quality) = unwinder.finish();
    quality.asked_rate_hz = imported.asked_rate_hz;
    for file in imported.files {
        let (path, symbols) = recorded_symbols(file, kernel.as_ref());
        symbolicator.add_recorded(path, symbols);
    }
    Ok(Imported {
        profile: builder.finish(imported.info, quality),
        notes: imported.notes,
    })
}

/// The same with names. Warns of what the file lacks.
pub(crate) fn read_named(
    path: &Path,
    event: Option<&str>,
    look_ups: &mut LookUps<'_>,
    interrupt: &Interrupt,
    term: &Term,
) -> Result<(Profile, Enriched), Failure> {
    term.progress(false, format_args!("converting {}", path.display()));
    let imported = read(path, event, look_ups.symbolicator);
    term.erase_progress();
    let Imported { mut profile, notes } = imported?;
    term.warnings(path, &notes);
    let enriched = look_ups.name(&mut profile, interrupt);
    Ok((profile, enriched))
}

/// The names that came with a file of the recorded system, with the path of that file.
fn recorded_symbols(file: RecordedFile, kernel: Option<&Kernel>) -> (PathBuf, RecordedSymbols) {
    let base = kernel.filter(|_| file.is_kernel).map_or(0, |kernel| kernel.base);
    let functions = file.functions.into_iter();
    let functions = functions.map(|function| (function.start.wrapping_sub(base), function.len, function.name));
    match file.is_kernel {
        true => (kernel::PATH.into(), RecordedSymbols::of_kernel(functions)),
        false => (
            String::from_utf8_lossy(&file.path).into_owned().into(),
            RecordedSymbols::new(functions),
        ),
    }
}

/// The recorded kernel, if its functions can be named.
struct Kernel {
    base: u64,
    build_id: Option<BuildId>,
    /// The recorded kernel runs now.
    is_running: bool,
}

impl Kernel {
    /// The kernel, if the running kernel has the same build id, or the file has names.
    fn of(recorded: RecordedKernel, functions: &[RecordedFunction]) -> Option<Kernel> {
        /// `_stext` is at most this far behind `_text`; files of perf may have either.
        const TEXT_START: u64 = 1 << 20;
        let is_same = recorded.build_id.is_none() || recorded.build_id == symbolicator::kernel_build_id();
        let running = symbolicator::kernel_text_base()
            .filter(|base| (*base..base.saturating_add(TEXT_START)).contains(&recorded.text));
        if running.is_none() && recorded.build_id.is_none() && functions.is_empty() {
            return None;
        }
        Some(Kernel {
            base: running.unwrap_or(recorded.text),
            build_id: recorded.build_id,
            is_running: running.is_some() && is_same,
        })
    }

    /// Gives the builder the functions that wait, with their reasons.
    fn name_waits(&self, builder: &mut Builder, functions: &[RecordedFunction]) {
        if self.is_running {
            return builder.set_wait_reasons(kernel::wait_reasons());
        }
        let waits = functions.iter().filter_map(|function| {
            let reason = perf_data::wait::reason_of_function(&function.name)?;
            let end = function.start.saturating_add(function.len);
            Some((Avma(function.start), Avma(end), reason))
        });
        builder.set_wait_reasons(waits.collect());
    }
}
