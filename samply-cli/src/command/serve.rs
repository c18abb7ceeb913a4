//! `sprof serve`: a page of all profiles in a folder or in a bucket.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use profile::export::firefox;

use super::{compare, convert};
use crate::args::{GalleryArgs, SymbolArgs, value};
use crate::exit::{Failure, Outcome, Status};
use crate::import;
use crate::input;
use crate::numbers::count;
use crate::s3::{Bucket, Options, is_address};
use crate::serve::{Gallery, GalleryOptions, GalleryPlace};
use crate::style::Style;
use crate::term::{Term, Verbosity};

/// So long a request to a bucket waits for each step.
const STEP: Duration = Duration::from_secs(60);

pub(crate) fn run(args: &GalleryArgs) -> Outcome {
    let term = Term::stderr(args.messages.verbosity());
    let ui = value::named_ui(args.ui_url.as_deref())?;
    let gallery = Gallery::start(GalleryOptions {
        place: place(args)?,
        address: args.address,
        port: args.port,
        host_names: &args.host_name,
        tls: args.tls_cert.clone().zip(args.tls_key.clone()),
        token_file: args.token_file.clone(),
        max_bytes: args.max_size,
        ui: ui.unwrap_or_else(|| value::PUBLIC_UI.to_owned()),
        convert: Arc::new(|path| converted(path).map_err(|failure| message(&failure))),
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
    let bucket = Bucket::open(address, &Options::from(&args.bucket), STEP)?;
    Ok(GalleryPlace::Bucket(bucket.into()))
}

/// A file of another profiler as a profile for the UI, as `sprof load` makes it.
fn converted(path: &Path) -> Result<File, Failure> {
    let term = Term::stderr(Verbosity::Quiet);
    let input = input::open(path, None, &SymbolArgs::default(), &term)?;
    if import::is_perf_data(path) {
        return compare::file((path, &input.data), &input.symbolicator, &term);
    }
    let data = input.data.into_saved();
    convert::unnamed_file(path, |out| firefox::write_data_gz(&data, out))
}

fn message(failure: &Failure) -> String {
    match failure {
        Failure::Failed { message, .. } | Failure::NothingRan { message, .. } => message.clone(),
        Failure::Usage(_) | Failure::BrokenPipe => "the file cannot be converted".to_owned(),
    }
}
