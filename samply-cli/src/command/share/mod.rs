//! `sprof share`: what is private is taken out, the user sees what will leave, and is asked; then the profile is uploaded, its key is kept, and the link
//! printed.

mod shown;

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use flate2::Compression;
use flate2::write::GzEncoder;
use profile::cut::{Part, cut};
use profile::data::Saved;
use profile::export::firefox;
use profile::sanitize::{Include, sanitize};
use recording::command::{own, quoted};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::{convert, merge};
use crate::args::{self, Private, ShareArgs, SymbolArgs, UploadArgs, value};
use crate::exit::{Failure, Outcome, Status};
use crate::http::{Progress, Secret};
use crate::interrupt::Interrupt;
use crate::numbers::bytes;
use crate::report::about::utc;
use crate::screen;
use crate::share::{Everything, Kept, PUBLIC_MAX_BYTES, Shared, Store, Uploaded, deleted, named_in, private};
use crate::style::Style;
use crate::term::Term;
use shown::Shown;

/// The default of `--timeout`.
pub(super) const STEP: Duration = Duration::from_secs(60);
/// Said where a request took too long, by the command that has the option.
const MORE_TIME: &str = "--timeout allows more time";
/// How often a question looks for a signal.
const ASKS_AGAIN: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};
/// Increases when a field of the JSON changes its meaning.
const SCHEMA_VERSION: u32 = 1;

pub(crate) fn run(args: &ShareArgs) -> Outcome {
    let term = Term::stderr(args.input.verbosity());
    if args.list {
        return list(args, &term);
    }
    if let Some(link) = &args.delete {
        return delete(link, args, &term);
    }
    let Some(file) = &args.file else {
        return args::refuse("share", "which file? Name one, or --list, or --delete LINK");
    };
    let include = include(&args.include);
    let sharing = Sharing::prepare("share", &args.upload, args.ui_url.as_deref(), args.timeout)?;
    let what = What {
        event: args.event.name(),
        part: Part {
            filter: args.tracks.filter(),
            min_samples: args.drop_thin,
        },
        include,
    };
    let done = sharing.share(file, &what, &args.input.symbols, &term)?;
    let Some(done) = done else {
        return Ok(Status::PARTIAL);
    };
    screen::print("the link", |out| match args.json {
        true => writeln!(out, "{}", done.json()),
        false => writeln!(out, "{}", done.link),
    })
}

/// What the user wants to stay in what leaves this machine.
pub(super) fn include(named: &[Private]) -> Include {
    let has = |what: Private| named.contains(&what);
    Include {
        args: has(Private::Args),
        paths: has(Private::Paths),
        names: has(Private::Names),
        sources: has(Private::Sources),
    }
}

/// What of a file is shared.
#[derive(Default)]
pub(crate) struct What<'a> {
    /// Of a file of another profiler.
    event: Option<&'a str>,
    part: Part,
    include: Include,
}

/// Where a profile goes to: checked before anything else is done.
pub(crate) struct Sharing {
    store: Store,
    ui: String,
    kept: Kept,
    yes: bool,
    command: &'static str,
}

impl Sharing {
    /// Checks the addresses, that the key can be kept, and that somebody can be asked.
    pub(crate) fn prepare(
        command: &'static str,
        upload: &UploadArgs,
        ui_url: Option<&str>,
        step: Duration,
    ) -> Result<Sharing, Failure> {
        let usage = |message: String| args::usage_error(command, message);
        let store = Store::new(upload.server.as_deref(), step).map_err(|why| usage(format!("--server: {why}")))?;
        let ui = match value::named_ui(ui_url).map_err(usage)? {
            Some(ui) => ui,
            None if store.is_public() => value::PUBLIC_UI.to_owned(),
            None => {
                return args::refuse(
                    command,
                    "the public UI reads its own store only: name the UI of your store with --ui-url, or in PROFILER_URL",
                );
            }
        };
        let may_ask = io::stdin().is_terminal() && io::stderr().is_terminal();
        if !(upload.yes || may_ask) {
            let message =
                "there is no terminal to ask whether the profile may be uploaded; --yes uploads it without asking";
            return args::refuse(command, message);
        }
        let kept = Kept::of_user()?;
        kept.prepare().map_err(|error| {
            let folder = kept.folder().display();
            format!(
                "the key to delete the profile again can't be kept in {folder}: {error}; name another folder in XDG_DATA_HOME. Nothing was shared"
            )
        })?;
        Ok(Sharing {
            store,
            ui,
            kept,
            yes: upload.yes,
            command,
        })
    }

    /// Shares a file. `None` if the user does not want it any longer.
    pub(crate) fn share(
        &self,
        path: &Path,
        what: &What<'_>,
        symbols: &SymbolArgs,
        term: &Term,
    ) -> Result<Option<Done>, Failure> {
        term.progress(false, format_args!("reading {}", path.display()));
        let data = merge::whole(path, what.event, symbols, term);
        term.erase_progress();
        let mut data = data?;
        cut(&mut data, &what.part).map_err(|error| format!("{}: {error}", path.display()))?;
        let removed = sanitize(&mut data, &private(), what.include);
        term.progress(false, "writing the profile");
        let file = convert::unnamed_file(path, |out| write_gz(&data, out));
        term.erase_progress();
        let file = file?;
        let size = file
            .metadata()
            .map_err(|error| format!("reading the profile failed: {error}"))?
            .len();
        check_size(&self.store, path, size)?;
        let shown = Shown::of(&data, removed, what.include, size);
        shown.print(self.store.url(), term);
        let interrupt = Interrupt::default().or_watch()?;
        if !self.yes && !asked(&interrupt, term) {
            term.always("nothing was shared");
            return Ok(None);
        }
        let uploaded = self.upload(&file, size, &interrupt, term)?;
        drop(file);
        self.keep(&uploaded, shown, term).map(Some)
    }

    fn upload(&self, file: &File, size: u64, interrupt: &Interrupt, term: &Term) -> Result<Uploaded, Failure> {
        let mut has_warned = false;
        let uploaded = self.store.upload(file, |progress| {
            if interrupt.is_seen() && progress.sent < progress.size {
                return ControlFlow::Break(());
            }
            if interrupt.is_seen() && !has_warned {
                has_warned = true;
                term.always(
                    "the profile is sent, and its key has not come yet: sprof waits for it. A second Ctrl-C ends sprof, and then nobody can delete it",
                );
            }
            show_progress(progress, size, term);
            ControlFlow::Continue(())
        });
        term.erase_progress();
        uploaded.map_err(|error| match error.is_time_out() && self.command == "share" {
            true => Failure::failed(format_args!("{error}. {MORE_TIME}")),
            false => Failure::failed(error),
        })
    }

    /// Keeps the key before anybody sees the link. Where that is impossible, the profile is deleted again.
    fn keep(&self, uploaded: &Uploaded, shown: Shown, term: &Term) -> Result<Done, Failure> {
        let Uploaded { name, key } = uploaded;
        let link = format!("{}/public/{name}", self.ui);
        let shared = Shared {
            program: shown.program.clone(),
            bytes: shown.bytes,
            shared_ms: (SystemTime::now().duration_since(UNIX_EPOCH)).map_or(0, |since| since.as_millis() as u64),
            ..Shared::new(&link, self.store.url(), name, key.expose())
        };
        if let Err(error) = self.kept.add(&shared) {
            let folder = self.kept.folder().display();
            match Kept::write(&std::env::temp_dir(), &shared) {
                Ok(path) => term.error(format_args!(
                    "the key to delete the profile could not be kept in {folder} ({error}); it is in {}: move it there",
                    path.display()
                )),
                Err(other) => return Err(self.take_back(uploaded, &format!("{folder}: {error}; elsewhere: {other}"))),
            }
        }
        let delete = format!("{} share --delete {}", own(), quoted(&link));
        term.line(format_args!(
            "shared; to delete it: {}",
            term.style(Style::Bold, &delete)
        ));
        Ok(Done {
            link,
            delete,
            server: self.store.url().to_owned(),
            shown,
        })
    }

    fn take_back(&self, uploaded: &Uploaded, why: &str) -> Failure {
        let taken_back = deleted(self.store.delete(&uploaded.name, &uploaded.key));
        let lost = format!("the key to delete the profile could not be kept in {why}");
        Failure::failed(match taken_back {
            Ok(true) => format!(
                "{lost}. So sprof has deleted the profile again; free space, and run `{} {}` again",
                own(),
                self.command
            ),
            Ok(false) => format!(
                "{lost}, and the store replies that it knows no such profile. If it is at {}/public/{}, only the store's operator can delete it",
                self.ui, uploaded.name
            ),
            Err(error) => format!(
                "{lost}, and deleting it failed, too: {error}. The profile is at {}/public/{}, and only the store's operator can delete it",
                self.ui, uploaded.name
            ),
        })
    }
}

/// Refuses what the public store would refuse after minutes.
fn check_size(store: &Store, path: &Path, size: u64) -> Result<(), Failure> {
    if !store.is_public() || size <= PUBLIC_MAX_BYTES {
        return Ok(());
    }
    Err(Failure::failed(format_args!(
        "{} has {}, and the public store takes {} at most; nothing was shared. `{} share` takes a part: --time-range FROM..TO, --thread NAME, \
         --process NAME, or --drop-thin 10 without rare stacks. A store of your own (--server URL) may take more",
        path.display(),
        bytes(size as f64),
        bytes(PUBLIC_MAX_BYTES as f64),
        own()
    )))
}

/// A shared profile.
pub(crate) struct Done {
    pub(crate) link: String,
    delete: String,
    server: String,
    shown: Shown,
}

impl Done {
    fn json(&self) -> serde_json::Value {
        serde_json::json!({
            "schema": "sprof-share",
            "schema_version": SCHEMA_VERSION,
            "link": self.link,
            "delete": self.delete,
            "server": self.server,
            "bytes": self.shown.bytes,
            "program": self.shown.program,
            "removed": self.shown.removed_json(),
        })
    }
}

/// Level 6: a quarter smaller than what is saved while a program waits, and the network is slower than that.
fn write_gz(data: &Saved, out: &mut dyn Write) -> io::Result<()> {
    let mut gz = GzEncoder::new(out, Compression::default());
    firefox::write_data(data, &mut gz)?;
    gz.finish()?.flush()
}

/// Asks once; anything but yes is no, and so is a signal. read(2) alone begins again after one.
fn asked(interrupt: &Interrupt, term: &Term) -> bool {
    term.ask("upload it? [y/N] ");
    let stdin = io::stdin();
    loop {
        if interrupt.is_seen() {
            return false;
        }
        match poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&ASKS_AGAIN)) {
            Ok(0) | Err(Errno::INTR) => {}
            // An error here is one of the read, too.
            _ => break,
        }
    }
    let mut answer = String::new();
    let read = stdin.read_line(&mut answer);
    read.is_ok() && matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}

fn show_progress(progress: Progress, size: u64, term: &Term) {
    let Progress { sent, .. } = progress;
    match sent < size {
        true => term.progress(
            false,
            format_args!("uploading: {} of {}", bytes(sent as f64), bytes(size as f64)),
        ),
        false => term.progress(false, "uploaded; waiting for the reply"),
    }
}

fn list(args: &ShareArgs, term: &Term) -> Outcome {
    let kept = Kept::of_user()?;
    let unreadable = |error: io::Error| format!("reading {} failed: {error}", kept.folder().display());
    let Everything { all, unread } = kept.all().map_err(unreadable)?;
    for path in unread {
        term.warning(format_args!(
            "{} is no key of a shared profile of this sprof",
            path.display()
        ));
    }
    if all.is_empty() && !args.json {
        term.line("nothing was shared from here");
        return Ok(Status::SUCCESS);
    }
    let shared = all.iter().map(|(_, shared)| shared);
    screen::print("the list", |out| match args.json {
        true => {
            let all = shared.map(|shared| {
                serde_json::json!({
                    "shared_ms": shared.shared_ms, "program": shared.program, "link": shared.link, "bytes": shared.bytes,
                    "server": shared.server,
                })
            });
            let all: Vec<_> = all.collect();
            let json = serde_json::json!({"schema": "sprof-shared", "schema_version": SCHEMA_VERSION, "shared": all});
            writeln!(out, "{json}")
        }
        false => {
            for shared in shared {
                let (date, size) = (utc(shared.shared_ms as f64), bytes(shared.bytes as f64));
                let program = profile::text::one_line(&shared.program);
                writeln!(out, "{date}  {size:>9}  {program}  {}  {}", shared.link, shared.server)?;
            }
            Ok(())
        }
    })?;
    if !args.json {
        term.line(format_args!("to delete one: {} share --delete LINK", own()));
    }
    Ok(Status::SUCCESS)
}

fn delete(link: &str, args: &ShareArgs, term: &Term) -> Outcome {
    let kept = Kept::of_user()?;
    let unreadable = |error: io::Error| format!("reading {} failed: {error}", kept.folder().display());
    let all = kept.all().map_err(unreadable)?.all;
    let matching: Vec<_> = all.iter().filter(|(_, shared)| named_in(shared, link)).collect();
    let Some((path, shared)) = matching.first() else {
        return Err(Failure::failed(format_args!(
            "there is no key for {link} in {}: only the user and machine that shared a profile can delete it; `{} share --list` shows what they can",
            kept.folder().display(),
            own()
        )));
    };
    let store = Store::new(Some(&shared.server), args.timeout)
        .map_err(|why| format!("the address of the store in {} is wrong: {why}", path.display()))?;
    let was_there = deleted(store.delete(&shared.name, &Secret::new(shared.key.clone())));
    let was_there = was_there.map_err(|error| match error.is_time_out() {
        true => Failure::failed(format_args!("{error}; {MORE_TIME}")),
        false => Failure::failed(error),
    })?;
    if !was_there {
        let aside = Kept::set_aside(path).unwrap_or_else(|_| path.clone());
        return Err(Failure::failed(format_args!(
            "{} knows no such profile as {} at this address: it was deleted before, or the address is that of something else. The key is kept in {}; \
             to try again, rename it to {}",
            store.url(),
            shared.link,
            aside.display(),
            path.display()
        )));
    }
    std::fs::remove_file(path).map_err(|error| {
        format!(
            "the profile is deleted, but removing its key {} failed: {error}; remove it",
            path.display()
        )
    })?;
    term.line(format_args!("deleted {}", shared.link));
    Ok(Status::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_public_store_refuses_is_not_sent_and_parts_are_offered() {
        let store = |url| Store::new(url, STEP).unwrap();
        let check = |url, size| check_size(&store(url), Path::new("app.json.gz"), size);
        assert!(check(None, PUBLIC_MAX_BYTES).is_ok());
        assert!(check(Some("https://store.example.org"), PUBLIC_MAX_BYTES + 1).is_ok());
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
