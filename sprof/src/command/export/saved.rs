//! `sprof export --format firefox` and `firefox-v55`: the saved profile with all that is in it. In its own version, and
//! with no more names to add, the file is copied as it is. A file of perf is converted first.

use std::fs::File;
use std::io::{self, BufReader, Seek, SeekFrom, Write};
use std::path::Path;

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use profile::data::NONE;
use profile::export::{firefox, firefox_v55};
use profile::read::{self, Form, ReadLimits};
use profile::trim::{ProfilePart, trim};
use symbolicator::Symbolicator;

use super::super::target::ResultTarget;
use super::super::{convert, saved_data};
use crate::args::{self, ExportArgs, ExportFormat};
use crate::exit::{Failure, Outcome};
use crate::input::perf_data;
use crate::interrupt::Interrupt;
use crate::symbols::look_ups::{may_name, symbolicator_of};
use crate::terminal::Term;

pub(super) fn export(args: &ExportArgs, format: ExportFormat, target: ResultTarget<'_>, term: &Term) -> Outcome {
    let path = &args.file;
    let is_converted = perf_data::is_perf_data(path) || read::kind(path).is_some();
    if args.off_cpu
        || args.pick.wall
        || args.pick.threads
        || args.heap.measure.is_some()
        || args.heap.weigh.is_some()
        || (args.event.name().is_some() && !is_converted)
    {
        return args::refuse(
            "export",
            "this format copies the whole profile: it goes without --waits, --wall, --threads, --measure and --weigh, and --event is for files of \
             other profilers",
        );
    }
    let ending = (args.output.as_deref())
        .and_then(Path::extension)
        .and_then(|end| end.to_str());
    let wants_gzip = |is_gzip: bool| match ending {
        Some("gz") => true,
        Some("json") => false,
        _ => is_gzip,
    };
    let (event, symbols) = (args.event.name(), &args.input.symbols);
    // Ctrl-C ends the look-up of names.
    let interrupt = match perf_data::is_perf_data(path) {
        true => Interrupt::watch()?,
        false => Interrupt::default(),
    };
    let (mut data, is_gzip) = match saved_data::converted(path, event, symbols, &interrupt, term)? {
        Some(data) => {
            convert::say_what_is_counted(path, &data, term);
            (data, !perf_data::is_perf_data(path))
        }
        None => {
            let symbolicator = symbolicator_of(path, symbols, &interrupt, term)?;
            let source = saved(path, &symbolicator)?;
            let is_as_asked =
                args.part.is_all() && (format == ExportFormat::Firefox || source.version <= firefox_v55::VERSION);
            let named = match is_as_asked && !source.may_get_names {
                true => None,
                false => Some(saved_data::named(path, &symbolicator, &interrupt, term)?),
            };
            match named.filter(|(_, named)| !is_as_asked || named.is_changed) {
                Some((data, _)) => (data, source.is_gzip),
                None => {
                    let wants_gzip = wants_gzip(source.is_gzip);
                    return target.write(term, |out| copy(&source.file, source.is_gzip, wants_gzip, out));
                }
            }
        }
    };
    let part = ProfilePart {
        filter: args.part.filter(),
        ..ProfilePart::default()
    };
    trim(&mut data, &part).map_err(|error| Failure::failed(format_args!("{}: {error}", path.display())))?;
    if format == ExportFormat::FirefoxV55 && data.embedded_sources() > 0 {
        let count = data.embedded_sources();
        term.warning(format_args!(
            "{count} source files are embedded, which version 55 cannot hold: left out"
        ));
    }
    let elsewhere = data.frames.iter().filter(|frame| frame.line_file != NONE).count();
    if format == ExportFormat::FirefoxV55 && elsewhere > 0 {
        term.warning(format_args!(
            "{elsewhere} frames have lines of other files than their function's, which version 55 cannot hold: left out"
        ));
    }
    let write = |out: &mut dyn Write| match format {
        ExportFormat::FirefoxV55 => firefox_v55::write(&data, out),
        _ => firefox::write_data(&data, out),
    };
    target.write(term, |out| match wants_gzip(is_gzip) {
        false => write(out),
        true => {
            let mut gz = GzEncoder::new(&mut *out, Compression::default());
            write(&mut gz)?;
            gz.finish()?.flush()
        }
    })
}

/// A profile in a file.
struct SavedFile {
    file: File,
    is_gzip: bool,
    version: u32,
    may_get_names: bool,
}

/// A saved profile, read once from end to end: within the limits, and JSON.
fn saved(path: &Path, symbolicator: &Symbolicator) -> Result<SavedFile, Failure> {
    let saved = read::open(path, ReadLimits::default()).map_err(Failure::failed)?;
    let version = match saved.form {
        Form::Processed { version } => version,
        // A form of its own, which older front ends also read.
        Form::Gecko { .. } => 0,
    };
    Ok(SavedFile {
        is_gzip: saved.is_gzip,
        version,
        may_get_names: may_name(&saved, symbolicator),
        file: (saved.into_file())
            .map_err(|error| Failure::failed(format_args!("reading {} failed: {error}", path.display())))?,
    })
}

fn copy(mut file: &File, is_gzip: bool, wants_gzip: bool, out: &mut dyn Write) -> io::Result<()> {
    file.seek(SeekFrom::Start(0))?;
    let mut input = BufReader::with_capacity(1 << 16, file);
    match (is_gzip, wants_gzip) {
        (true, false) => io::copy(&mut MultiGzDecoder::new(input), out)?,
        (false, true) => {
            let mut gz = GzEncoder::new(&mut *out, Compression::default());
            io::copy(&mut input, &mut gz)?;
            gz.finish()?.flush().map(|()| 0)?
        }
        (true, true) | (false, false) => io::copy(&mut input, out)?,
    };
    out.flush()
}
