//! Makes a profile of a perf.data file: the same journey as a recording, from a file.

use std::fs::File;
use std::io::{BufReader, ErrorKind, Read, Seek};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use perf_data::import::{Import, RecordedFile, RecordedFunction, RecordedKernel, SavedFiles};
use profile::Profile;
use profile::builder::{BuildOptions, Builder};
use profile::enrich::Enriched;
use recording::address::Avma;
use recording::clock::ClockReference;
use recording::event::{Mapping, Pid, Thread, Tid};
use recording::module::BuildId;
use recording::regular_file;
use recording::sink::{KeptFile, ModuleMiss, NoMemory};
use symbolicator::{RecordedSymbols, Symbolicator};
use unwind::{UnwindOptions, Unwinder};

use crate::exit::Failure;
use crate::interrupt::Interrupt;
use crate::recorder;
use crate::span_files::SpanFiles;
use crate::symbols::kernel;
use crate::symbols::look_ups::LookUps;
use crate::terminal::Term;

/// Bytes read at once.
const BUFFER_BYTES: usize = 1 << 20;

/// A profile made from a file, and what the file lacked.
pub(crate) struct Imported {
    pub(crate) profile: Profile,
    pub(crate) notes: Vec<String>,
}

/// Largest file that is unpacked.
const MAX_UNPACKED_BYTES: u64 = 4 << 30;

/// True if the file begins like a file of perf, in either byte order, or is such a file in gzip.
pub(crate) fn is_perf_data(path: &Path) -> bool {
    let is_magic = |bytes: &[u8; 8]| [b"PERFILE2", b"2ELIFREP"].contains(&bytes);
    let start = |path: &Path| {
        let (mut file, mut magic) = (regular_file::open(path)?, [0; 8]);
        file.read_exact(&mut magic)?;
        if is_gzip(&magic) {
            file.rewind()?;
            MultiGzDecoder::new(BufReader::new(file)).read_exact(&mut magic)?;
        }
        std::io::Result::Ok(magic)
    };
    start(path).is_ok_and(|magic| is_magic(&magic))
}

/// RFC 1952, section 2.3.1.
fn is_gzip(start: &[u8]) -> bool {
    start.starts_with(&[0x1f, 0x8b])
}

/// The file, or what it unpacks to: the importer goes back and forth in it.
fn unpacked(mut file: File) -> std::io::Result<File> {
    let mut start = [0; 2];
    let read = file.read(&mut start)?;
    file.rewind()?;
    if !is_gzip(&start[..read]) {
        return Ok(file);
    }
    let mut plain = tempfile::tempfile()?;
    let mut unpacked = MultiGzDecoder::new(BufReader::new(file)).take(MAX_UNPACKED_BYTES + 1);
    // A damaged stream gives the data before the damage, like a file that is cut off.
    let copied = std::io::copy(&mut unpacked, &mut plain);
    if copied.as_ref().is_ok_and(|bytes| *bytes > MAX_UNPACKED_BYTES) {
        return Err(std::io::Error::other(format!(
            "it unpacks to more than {} GB; unpack it first: `gunzip -k FILE`",
            MAX_UNPACKED_BYTES >> 30
        )));
    }
    if let Err(error) = copied
        && !matches!(
            error.kind(),
            ErrorKind::UnexpectedEof | ErrorKind::InvalidData | ErrorKind::InvalidInput
        )
    {
        return Err(error);
    }
    plain.rewind()?;
    Ok(plain)
}

/// Reads the samples of one event: the named one, or the first that has samples. The symbolicator gets the names in the
/// file.
pub(crate) fn read(path: &Path, event: Option<&str>, symbolicator: &Symbolicator) -> Result<Imported, Failure> {
    let (imported, instead) = read_event(path, event, symbolicator)?;
    match instead.filter(|_| event.is_none()) {
        Some(event) => Ok(read_event(path, Some(&event), symbolicator)?.0),
        None => Ok(imported),
    }
}

/// Reads the samples of one event. If it has none, also returns the first event that has samples.
fn read_event(
    path: &Path,
    event: Option<&str>,
    symbolicator: &Symbolicator,
) -> Result<(Imported, Option<String>), Failure> {
    let failed =
        |error: &dyn std::fmt::Display| Failure::failed(format_args!("cannot load {}: {error}", path.display()));
    let file = regular_file::open(path).map_err(|error| failed(&error))?;
    let modified = file.metadata().and_then(|metadata| metadata.modified()).ok();
    let file = unpacked(file).map_err(|error| failed(&error))?;
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
    let mut files = recorder::Files::default();
    // perf has another clock.
    let open = import
        .is_spool()
        .then_some(|pid, mapping: &Mapping<'_>| open_span_file(&mut files, pid, mapping));
    let sink = SpanFiles::new(builder, open);
    let mut unwinder = Unwinder::new(sink, NoMemory, SavedFiles::new(), UnwindOptions::default());
    let imported = import.run(&mut unwinder).map_err(|error| failed(&error))?;
    let (sink, mut quality) = unwinder.finish();
    let builder = sink.finish(&mut quality);
    quality.asked_rate_hz = imported.asked_rate_hz;
    for file in imported.files {
        let (path, symbols) = recorded_symbols(file, kernel.as_ref());
        symbolicator.add_recorded(path, symbols);
    }
    let profile = builder.finish(imported.info, quality);
    let notes = imported.notes;
    Ok((Imported { profile, notes }, imported.instead))
}

/// Opens a file of spans that a recorded process had mapped, if it is still at its path and this user's. The process
/// has ended, and another one may have its number.
fn open_span_file(
    files: &mut recorder::Files,
    pid: Pid,
    mapping: &Mapping<'_>,
) -> Result<(Thread, KeptFile), ModuleMiss> {
    let (thread, file) = recorder::open_span_file(files, Pid(0), mapping)?;
    let tid = if thread.is_main() { Tid(pid.0) } else { thread.tid };
    Ok((Thread { pid, tid }, file))
}

/// Reads a perf.data file and looks up names. Warns of what the file lacks.
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

/// The names that a perf.data file has for a file of the recorded system, with the path of that file.
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
    /// True if the recorded kernel runs now.
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
