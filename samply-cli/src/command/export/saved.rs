//! `sprof export --format firefox` and `firefox-v55`: the saved profile with all that is in it. In its own version the file is
//! copied as it is. A file of perf is converted first.

use std::fs::File;
use std::io::{self, BufReader, Seek, SeekFrom, Write};
use std::path::Path;

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use profile::cut::{Part, cut};
use profile::data::NONE;
use profile::export::{firefox, firefox_v55};
use profile::read::{self, Form, ReadLimits};

use super::super::target::Target;
use super::super::{convert, merge};
use crate::args::{self, ExportArgs, ExportFormat};
use crate::exit::{Failure, Outcome};
use crate::import;
use crate::interrupt::Interrupt;
use crate::term::Term;

pub(super) fn export(args: &ExportArgs, format: ExportFormat, target: Target<'_>, term: &Term) -> Outcome {
    let path = &args.file;
    let is_converted = import::is_perf_data(path) || read::kind(path).is_some();
    if args.off_cpu || args.pick.wall || args.pick.threads || (args.event.name().is_some() && !is_converted) {
        return args::refuse(
            "export",
            "this format copies the whole profile: it goes without --waits, --wall and --threads, and --event is for files of \
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
    // Ctrl-C ends the look-up of names, which only a file of perf needs.
    let interrupt = match import::is_perf_data(path) {
        true => Interrupt::watch()?,
        false => Interrupt::default(),
    };
    let (mut data, is_gzip) = match merge::converted(path, event, symbols, &interrupt, term)? {
        Some(data) => {
            convert::say_what_is_counted(path, &data, term);
            (data, !import::is_perf_data(path))
        }
        None => {
            let source = saved(path)?;
            if args.part.is_all() && (format == ExportFormat::Firefox || source.version <= firefox_v55::VERSION) {
                let wants_gzip = wants_gzip(source.is_gzip);
                return target.write(term, |out| copy(&source.file, source.is_gzip, wants_gzip, out));
            }
            let (data, not_kept) = read::everything_but(path, ReadLimits::default()).map_err(Failure::failed)?;
            for (count, what) in [
                (
                    not_kept.source_details,
                    "source files have ids, positions or source maps",
                ),
                (not_kept.original_positions, "frames have positions from source maps"),
            ] {
                if count > 0 {
                    term.warning(format_args!("{count} {what}, which version 55 cannot hold: left out"));
                }
            }
            (data, source.is_gzip)
        }
    };
    let part = Part {
        filter: args.part.filter(),
        ..Part::default()
    };
    cut(&mut data, &part).map_err(|error| Failure::failed(format_args!("{}: {error}", path.display())))?;
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
struct Source {
    file: File,
    is_gzip: bool,
    version: u32,
}

/// A saved profile, read once from end to end: within the limits, and JSON.
fn saved(path: &Path) -> Result<Source, Failure> {
    let saved = read::open(path, ReadLimits::default()).map_err(Failure::failed)?;
    let version = match saved.form {
        Form::Processed { version } => version,
        // A form of its own, which older front ends read, too.
        Form::Gecko { .. } => 0,
    };
    Ok(Source {
        is_gzip: saved.is_gzip,
        version,
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
