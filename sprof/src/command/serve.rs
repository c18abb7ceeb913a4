//! `sprof serve`: a page of all profiles in a folder or in a bucket.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ::server::{Gallery, GalleryOptions, GalleryPlace, ProfileReader, ReadProfile};
use profile::export::firefox;
use profile::read::{self, ReadLimits};
use profile::text::numbers::count;
use share::s3::{Bucket, BucketOptions, is_address};

use super::{compare, convert};
use crate::args::{GalleryArgs, SymbolArgs, value};
use crate::exit::{Failure, Outcome, Status};
use crate::input::perf_data;
use crate::input::{self, Input, ReadExtent};
use crate::terminal::style::Style;
use crate::terminal::{Term, Verbosity};

/// Longest time that a request to a bucket waits for each step.
const STEP: Duration = Duration::from_secs(60);

pub(crate) fn run(args: &GalleryArgs) -> Outcome {
    let term = Term::stderr(args.messages.verbosity());
    let gallery = Gallery::start(GalleryOptions {
        place: place(args)?,
        address: args.address,
        port: args.port,
        host_names: &args.host_name,
        tls: args.tls_cert.clone().zip(args.tls_key.clone()),
        token_file: args.token_file.clone(),
        max_bytes: args.max_size,
        ui: value::ui_or_public(args.ui_url.as_deref())?,
        reader: Arc::new(Reader),
    })?;
    term.line(format_args!(
        "{}: {}",
        args.dir.display(),
        count(
            gallery.files as u64,
            "file that may be a profile",
            "files that may be profiles"
        )
    ));
    if !args.address.is_loopback() {
        term.line(format_args!(
            "--address {}: everyone who can reach it and learns the link can read the profiles",
            args.address
        ));
    }
    term.always(format_args!("open {}", term.style(Style::Link, &gallery.link)));
    term.line("serving until Ctrl-C");
    gallery.wait();
    Ok(Status::SUCCESS)
}

fn place(args: &GalleryArgs) -> Result<GalleryPlace, Failure> {
    let address = args.dir.to_str().filter(|dir| is_address(dir));
    let Some(address) = address else {
        return Ok(GalleryPlace::Folder(args.dir.clone()));
    };
    let bucket = Bucket::open(address, &BucketOptions::from(&args.bucket), STEP)?;
    Ok(GalleryPlace::Bucket(bucket.into()))
}

/// Reads files as `sprof report` and `sprof load` do.
struct Reader;

impl ProfileReader for Reader {
    fn read(&self, path: &Path, limits: ReadLimits) -> Result<ReadProfile, String> {
        read(path, ReadExtent::OneEvent, limits)
    }

    fn read_for_viewer(&self, path: &Path, limits: ReadLimits) -> Result<ReadProfile, String> {
        read(path, ReadExtent::Page, limits)
    }

    fn needs_conversion(&self, path: &Path) -> bool {
        perf_data::is_perf_data(path) || read::kind(path).is_some()
    }

    fn convert(&self, path: &Path) -> Result<File, String> {
        converted(path).map_err(|failure| message(&failure, "the file cannot be converted"))
    }
}

fn read(path: &Path, extent: ReadExtent, limits: ReadLimits) -> Result<ReadProfile, String> {
    let input = input::open_within(path, extent, limits, &Term::stderr(Verbosity::Quiet));
    let Input { data, notes, .. } = input.map_err(|failure| {
        // The path is that of an open file descriptor, which means nothing to the user.
        message(&failure, "it cannot be read").replace(&path.display().to_string(), "the file")
    })?;
    Ok(ReadProfile { data, notes })
}

/// A file of another profiler as a profile for the UI, as `sprof load` makes it.
fn converted(path: &Path) -> Result<File, Failure> {
    let term = Term::stderr(Verbosity::Quiet);
    let input = input::open(path, None, &SymbolArgs::default(), &term)?;
    if perf_data::is_perf_data(path) {
        return compare::file((path, &input.data), &input.symbolicator, &term);
    }
    let data = input.data.into_saved();
    convert::unnamed_file(path, |out| firefox::write_data_gz(&data, out))
}

fn message(failure: &Failure, otherwise: &str) -> String {
    match failure {
        Failure::Failed { message, .. } | Failure::NothingRan { message, .. } => message.clone(),
        Failure::Usage(_) | Failure::BrokenPipe => otherwise.to_owned(),
    }
}
