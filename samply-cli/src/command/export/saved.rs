//! `sprof export --format firefox` and `firefox-v55`: the saved profile with all that is in it. In its own version the file is
//! copied as it is. A file of perf is converted first.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use profile::export::{firefox, firefox_v55};
use profile::read::{self, Form, ReadLimits};

use super::super::convert;
use super::super::target::Target;
use crate::args::{self, ExportArgs, ExportFormat};
use crate::exit::{Failure, Outcome};
use crate::import;
use crate::interrupt::Interrupt;
use crate::names::{LookUps, symbolicator_of};
use crate::term::Term;

pub(super) fn export(args: &ExportArgs, format: ExportFormat, target: Target<'_>, term: &Term) -> Outcome {
    let path = &args.file;
    let is_perf_data = import::is_perf_data(path);
    let is_foreign = read::kind(path).is_some();
    let is_converted = is_perf_data || is_foreign;
    if args.off_cpu || args.pick.wall || args.pick.threads || (args.event.name().is_some() && !is_converted) {
        return args::refuse(
            "export",
            "this format copies the whole profile: it goes without --off-cpu, --wall and --threads, and --event is for files of \
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
    let source = match (is_perf_data, is_foreign) {
        (true, _) => converted(args, term)?,
        (_, true) => saved(convert::foreign(path, args.event.name(), args.input.symbols.dirs(), term)?.path())?,
        (false, false) => saved(path)?,
    };
    let wants_gzip = wants_gzip(source.is_gzip);
    if format == ExportFormat::Firefox || source.version <= u64::from(firefox_v55::VERSION) {
        return target.write(term, |out| copy(&source, wants_gzip, out));
    }
    if !firefox_v55::FROM.contains(&(u32::try_from(source.version).unwrap_or(u32::MAX))) {
        return Err(Failure::failed(format_args!(
            "{} is of format version {}; one of at most {} can be written as version {}",
            path.display(),
            source.version,
            firefox_v55::FROM.end(),
            firefox_v55::VERSION
        )));
    }
    target.write(term, |out| {
        let lost = match wants_gzip {
            true => {
                let mut gz = GzEncoder::new(&mut *out, Compression::default());
                let lost = firefox_v55::write(|| source.json(), &mut gz);
                lost.and_then(|lost| Ok(gz.finish()?.flush().map(|()| lost)?))
            }
            false => firefox_v55::write(|| source.json(), &mut *out),
        };
        let lost = lost.map_err(|error| match error {
            firefox_v55::V55Error::Io(error) => error,
            error => io::Error::other(format!("{}: {error}", path.display())),
        })?;
        for (count, what) in [
            (lost.source_details, "source files have ids, positions or source maps"),
            (lost.original_positions, "frames have positions from source maps"),
        ] {
            if count > 0 {
                term.warning(format_args!("{count} {what}, which version 55 cannot hold: left out"));
            }
        }
        Ok(())
    })
}

/// A profile in a file.
struct Source {
    file: File,
    is_gzip: bool,
    version: u64,
}

impl Source {
    /// Its content, from the start.
    fn bytes(&self) -> io::Result<BufReader<&File>> {
        let mut file = &self.file;
        file.seek(SeekFrom::Start(0))?;
        Ok(BufReader::with_capacity(1 << 16, file))
    }

    /// Its JSON, from the start.
    fn json(&self) -> io::Result<Box<dyn Read + '_>> {
        let bytes = self.bytes()?;
        Ok(match self.is_gzip {
            true => Box::new(MultiGzDecoder::new(bytes)),
            false => Box::new(bytes),
        })
    }
}

/// A saved profile, read once from end to end: within the limits, and JSON.
fn saved(path: &Path) -> Result<Source, Failure> {
    let saved = read::open(path, ReadLimits::default())?;
    let version = match saved.form {
        Form::Processed { version } => version,
        // A form of its own, which older front ends read, too.
        Form::Gecko { .. } => 0,
    };
    Ok(Source {
        is_gzip: saved.is_gzip,
        version: u64::from(version),
        file: (saved.into_file()).map_err(|error| format!("reading {} failed: {error}", path.display()))?,
    })
}

/// A file of perf, or what is left of a recording, with names.
fn converted(args: &ExportArgs, term: &Term) -> Result<Source, Failure> {
    let path = &args.file;
    let symbolicator = symbolicator_of(path, args.input.symbols.dirs());
    let mut look_ups = LookUps::new(&symbolicator, term);
    let (profile, _) = import::read_named(path, args.event.name(), &mut look_ups, &Interrupt::watch()?, term)?;
    Ok(Source {
        file: convert::unnamed_file(path, |out| firefox::write(&profile, out))?,
        is_gzip: false,
        version: u64::from(firefox::FORMAT_VERSION),
    })
}

fn copy(source: &Source, wants_gzip: bool, out: &mut dyn Write) -> io::Result<()> {
    match (source.is_gzip, wants_gzip) {
        (false, true) => {
            let mut gz = GzEncoder::new(&mut *out, Compression::default());
            io::copy(&mut source.json()?, &mut gz)?;
            gz.finish()?.flush()?;
        }
        (true, true) => drop(io::copy(&mut source.bytes()?, out)?),
        (_, false) => drop(io::copy(&mut source.json()?, out)?),
    }
    out.flush()
}
