//! `sprof share`: removes what is private, shows the user what will leave the machine, and asks. Then it uploads the
//! profile, keeps the key that deletes it, and prints the link. [`store`] uploads to a store of the Firefox Profiler,
//! [`bucket`] to object storage.

mod bucket;
mod done;
mod earlier;
mod shown;
mod store;

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use profile::data::SavedData;
use profile::export::{Picked, PickedTime, firefox, parquet};
use profile::sanitize::{KeptPrivate, sanitize};
use profile::text::numbers::bytes;
use profile::trim::{ProfilePart, trim};
use profile::view::select::chosen_spans;
use recording::command::own;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use share::push::{GivenLabels, Labels, variable};
use share::s3::{Bucket, BucketOptions, MAX_EXPIRES, is_address};
use share::{SharedFolder, Store, private};

use super::export::say_what_is_missing;
use super::{convert, saved_data};
use crate::args::{self, Private, ShareArgs, SymbolArgs, UploadArgs, value};
use crate::exit::{Failure, Outcome, Status};
use crate::interrupt::Interrupt;
use crate::output::screen;
use crate::terminal::Term;
use bucket::ToBucket;
use done::ShareOutcome;
use shown::ReadyUpload;
use store::ToStore;

/// The default of `--timeout`.
pub(super) const STEP: Duration = Duration::from_secs(60);
/// Time between two checks for a signal while a question is open.
const ASKS_AGAIN: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};

pub(crate) fn run(args: &ShareArgs) -> Outcome {
    let term = Term::stderr(args.input.verbosity());
    if args.list {
        return earlier::list(args, &term);
    }
    if let Some(link) = &args.delete {
        return earlier::delete(link, args, &term);
    }
    let Some(file) = &args.file else {
        return args::refuse("share", "which file? Name one, or --list, or --delete LINK");
    };
    if args.labels.is_given() && !args.upload.parquet {
        return args::refuse(
            "share",
            "--service, --service-version, --commit and --label are columns of rows (--parquet), not parts of a profile",
        );
    }
    let include = Private::include(&args.include);
    let sharing = Sharing::prepare("share", &args.upload, args.ui_url.as_deref(), args.timeout)?;
    let what = SharedPart {
        event: args.event.name(),
        part: ProfilePart {
            filter: args.part.filter(),
            min_samples: args.drop_thin,
        },
        include,
        given: GivenLabels::from(&args.labels),
    };
    let done = sharing.share(file, &what, &args.input.symbols, &term)?;
    let Some(done) = done else {
        return Ok(Status::PARTIAL);
    };
    let printed = screen::print("the link", |out| match args.json.is_json() {
        true => writeln!(out, "{}", done.json()),
        false => writeln!(out, "{}", done.link),
    })?;
    Ok(if done.opens { printed } else { Status::PARTIAL })
}

/// The part of a file to share.
#[derive(Default)]
pub(crate) struct SharedPart<'a> {
    /// Event, for files of other profilers.
    event: Option<&'a str>,
    part: ProfilePart,
    include: KeptPrivate,
    /// Labels, for rows.
    given: GivenLabels<'a>,
}

/// Place that a profile goes to, checked before anything else is done.
pub(crate) struct Sharing {
    place: SharePlace,
    kept: SharedFolder,
    yes: bool,
}

enum SharePlace {
    Store(ToStore),
    Bucket(Box<ToBucket>),
}

impl Sharing {
    /// Checks the addresses, that the key can be kept, and that a user can be asked.
    pub(crate) fn prepare(
        command: &'static str,
        upload: &UploadArgs,
        ui_url: Option<&str>,
        step: Duration,
    ) -> Result<Sharing, Failure> {
        let ui = value::named_ui(ui_url).map_err(|why| args::usage_error(command, why))?;
        let place = match &upload.to {
            Some(to) => SharePlace::Bucket(to_bucket(command, to, upload, ui, step)?.into()),
            None => SharePlace::Store(to_store(command, upload, ui, step)?),
        };
        let may_ask = io::stdin().is_terminal() && io::stderr().is_terminal();
        if !(upload.yes || may_ask) {
            let message =
                "there is no terminal to ask whether the profile may be uploaded; --yes uploads it without asking";
            return args::refuse(command, message);
        }
        let kept = SharedFolder::of_user()?;
        kept.prepare().map_err(|error| {
            let folder = kept.folder().display();
            format!(
                "the key to delete the profile again can't be kept in {folder}: {error}; name another folder in XDG_DATA_HOME. Nothing was shared"
            )
        })?;
        Ok(Sharing {
            place,
            kept,
            yes: upload.yes,
        })
    }

    /// Shares a file. `None` if the user says no.
    pub(crate) fn share(
        &self,
        path: &Path,
        what: &SharedPart<'_>,
        symbols: &SymbolArgs,
        term: &Term,
    ) -> Result<Option<ShareOutcome>, Failure> {
        term.progress(false, format_args!("reading {}", path.display()));
        let data = saved_data::whole(path, what.event, symbols, term);
        term.erase_progress();
        let mut data = data?;
        let failed = |error| format!("{}: {error}", path.display());
        term.warnings(path, &chosen_spans(&data, &what.part.filter).map_err(failed)?.doubts);
        trim(&mut data, &what.part).map_err(failed)?;
        let removed = sanitize(&mut data, &private(), what.include);
        let is_rows = matches!(&self.place, SharePlace::Bucket(to) if to.is_rows);
        term.progress(false, "writing the profile");
        let file = match is_rows {
            true => rows(path, &mut data, what, term),
            false => convert::unnamed_file(path, |out| write_gz(&data, out)).map(|file| (file, Vec::new())),
        };
        term.erase_progress();
        let (file, ran) = file?;
        let mut shown = ReadyUpload::of(&data, removed, what.include);
        shown.ran = ran;
        shown.bytes = file
            .metadata()
            .map_err(|error| format!("reading the profile failed: {error}"))?
            .len();
        check_size(&self.place, path, shown.bytes)?;
        let (server, readers) = match &self.place {
            SharePlace::Store(to) => (
                to.store.url().to_owned(),
                "everybody with the link can read it".to_owned(),
            ),
            SharePlace::Bucket(to) => (to.bucket.for_people(), to.readers()),
        };
        shown.print(&server, &readers, term);
        let interrupt = Interrupt::default().or_watch()?;
        if !self.yes && !asked(&interrupt, term) {
            term.always("nothing was shared");
            return Ok(None);
        }
        let done = match &self.place {
            SharePlace::Store(to) => to.share(&file, shown, &self.kept, &interrupt, term)?,
            SharePlace::Bucket(to) => to.share(&file, (shown, data.start_ms), &self.kept, &interrupt, term)?,
        };
        Ok(Some(done))
    }
}

/// Refuses a file that the store or the bucket would refuse after minutes of upload.
fn check_size(place: &SharePlace, path: &Path, size: u64) -> Result<(), Failure> {
    let (limit, whose, elsewhere) = match place {
        SharePlace::Store(to) => (
            to.max_bytes(),
            "the public store takes",
            ". A store of your own (--server URL) may take more",
        ),
        SharePlace::Bucket(to) => (Some(to.max_bytes()), "a bucket takes in one request", ""),
    };
    let Some(limit) = limit.filter(|limit| size > *limit) else {
        return Ok(());
    };
    Err(Failure::failed(format_args!(
        "{} has {}, and {whose} {} at most; nothing was shared. `{} share` takes a part: --time-range FROM..TO, --thread NAME, --process NAME, or \
         --drop-thin 10 without rare stacks{elsewhere}",
        path.display(),
        bytes(size as f64),
        bytes(limit as f64),
        own()
    )))
}

fn to_store(
    command: &'static str,
    upload: &UploadArgs,
    ui: Option<String>,
    step: Duration,
) -> Result<ToStore, Failure> {
    if upload.parquet {
        return args::refuse(
            command,
            "--parquet is for buckets: name one with --to s3://BUCKET/FOLDER",
        );
    }
    let store = Store::new(upload.server.as_deref(), step);
    let store = store.map_err(|why| args::usage_error(command, format!("--server: {why}")))?;
    let ui = match ui {
        Some(ui) => ui,
        None if store.is_public() => value::PUBLIC_UI.to_owned(),
        None => {
            return args::refuse(
                command,
                "the public UI reads its own store only: name the UI of your store with --ui-url, or in PROFILER_URL",
            );
        }
    };
    Ok(ToStore { store, ui, command })
}

fn to_bucket(
    command: &'static str,
    to: &str,
    upload: &UploadArgs,
    ui: Option<String>,
    step: Duration,
) -> Result<ToBucket, Failure> {
    if upload.server.is_some() {
        return args::refuse(
            command,
            "--server names a store, and --to a bucket: the profile goes to one of them",
        );
    }
    if !is_address(to) {
        return args::refuse(
            command,
            "--to names a bucket, s3://BUCKET/FOLDER; `sprof push --to` sends to Pyroscope, Parca and OpenTelemetry",
        );
    }
    let bucket = Bucket::open(to, &BucketOptions::from(&upload.bucket), step);
    Ok(ToBucket {
        bucket: bucket.map_err(|why| args::usage_error(command, format!("--to: {why}")))?,
        ui: ui.unwrap_or_else(|| value::PUBLIC_UI.to_owned()),
        expires: upload.expires.unwrap_or(MAX_EXPIRES),
        is_rows: upload.parquet,
        command,
    })
}

/// Rows for databases: CPU time and waits of one event. Also returns their labels.
fn rows(
    path: &Path,
    data: &mut SavedData,
    what: &SharedPart<'_>,
    term: &Term,
) -> Result<(File, Vec<(String, String)>), Failure> {
    let others = data
        .keep_event(what.event)
        .map_err(|error| format!("{}: {error}", path.display()))?;
    if !others.is_empty() {
        term.warning(format_args!("other events are left out: {}", others.join(", ")));
    }
    let picked = Picked::new(data, PickedTime::All);
    say_what_is_missing(&picked, path, term)?;
    let labels = Labels::new(what.given, &data.product, data.commit(), &variable)?;
    let ran = labels.of_rows();
    let file = convert::unnamed_file(path, |out| parquet::write(&picked, &ran, out))?;
    Ok((file, labels.of_opentelemetry()))
}

/// Compresses at level 6: the file is a quarter smaller than at the level for saving, which must not keep a program
/// waiting. The network takes longer than the compression.
fn write_gz(data: &SavedData, out: &mut dyn Write) -> io::Result<()> {
    let mut gz = GzEncoder::new(out, Compression::default());
    firefox::write_data(data, &mut gz)?;
    gz.finish()?.flush()
}

/// Asks once. Yes needs `y` or `yes`; a signal means no. poll(2) is used because the standard library repeats a read(2)
/// that a signal interrupts.
fn asked(interrupt: &Interrupt, term: &Term) -> bool {
    term.ask("upload it? [y/N] ");
    let stdin = io::stdin();
    loop {
        if interrupt.is_seen() {
            return false;
        }
        match poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&ASKS_AGAIN)) {
            Ok(0) | Err(Errno::INTR) => {}
            // An error of poll also ends the wait; reading reports it.
            _ => break,
        }
    }
    let mut answer = String::new();
    let read = stdin.read_line(&mut answer);
    read.is_ok() && matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_public_store_refuses_is_not_sent_and_parts_are_offered() {
        let check = |url, size| {
            let place = SharePlace::Store(ToStore {
                store: Store::new(url, Duration::from_secs(1)).unwrap(),
                ui: String::new(),
                command: "share",
            });
            check_size(&place, Path::new("app.json.gz"), size)
        };
        assert!(check(None, 150_000_000).is_ok());
        assert!(check(Some("https://store.example.org"), 150_000_001).is_ok());
        let error = format!("{:?}", check(None, 170_000_000).unwrap_err());
        for part in [
            "app.json.gz has 170.0 MB",
            "150.0 MB",
            "nothing was shared",
            "--time-range",
            "--thread",
            "--drop-thin",
        ] {
            assert!(error.contains(part), "{error}");
        }
    }
}
