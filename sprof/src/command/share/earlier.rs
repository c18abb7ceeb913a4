//! `sprof share --list` and `--delete`: profiles that were shared before.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use profile::text::date::utc;
use profile::text::numbers::bytes;
use recording::command::own;
use share::http::Secret;
use share::s3::{Bucket, BucketOptions};
use share::{SharedFolder, SharedObject, SharedProfile, SharedProfiles, Store, deleted, named_in, unsigned};

use super::done::SCHEMA_VERSION;
use super::shown::{MORE_TIME, now_ms};
use crate::args::ShareArgs;
use crate::exit::{Failure, Outcome, Status};
use crate::output::screen;
use crate::terminal::Term;

pub(super) fn list(args: &ShareArgs, term: &Term) -> Outcome {
    let kept = SharedFolder::of_user()?;
    let SharedProfiles { all, unread } = everything(&kept)?;
    for path in unread {
        term.warning(format_args!(
            "{} is not a key of a profile that this sprof shared",
            path.display()
        ));
    }
    if all.is_empty() && !args.json.is_json() {
        term.line("nothing was shared from here");
        return Ok(Status::SUCCESS);
    }
    let shared = all.iter().map(|(_, shared)| shared);
    screen::print("the list", |out| match args.json.is_json() {
        true => {
            let all = shared.map(|shared| {
                serde_json::json!({
                    "shared_ms": shared.shared_ms, "program": shared.program, "link": shared.link, "bytes": shared.bytes,
                    "server": shared.server, "expires_ms": shared.object.as_ref().and_then(|object| object.expires_ms),
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
                let place = shared.object.as_ref().map_or_else(|| shared.server.clone(), place);
                writeln!(out, "{date}  {size:>9}  {program}  {}  {place}", shared.link)?;
            }
            Ok(())
        }
    })?;
    if !args.json.is_json() {
        term.line(format_args!("to delete one: {} share --delete LINK", own()));
    }
    Ok(Status::SUCCESS)
}

/// The server of a bucket, and how long the link works.
fn place(object: &SharedObject) -> String {
    let link = match object.expires_ms {
        Some(expires) if expires <= now_ms() => ", its link has ended".to_owned(),
        Some(expires) => format!(", its link works until {}", utc(expires as f64)),
        None => String::new(),
    };
    format!("{}{link}", object.endpoint)
}

fn everything(kept: &SharedFolder) -> Result<SharedProfiles, Failure> {
    let unreadable = |error: io::Error| format!("reading {} failed: {error}", kept.folder().display());
    Ok(kept.all().map_err(unreadable)?)
}

pub(super) fn delete(link: &str, args: &ShareArgs, term: &Term) -> Outcome {
    let kept = SharedFolder::of_user()?;
    let all = everything(&kept)?.all;
    let matching: Vec<_> = all.iter().filter(|(_, shared)| named_in(shared, link)).collect();
    let Some((path, shared)) = matching.first() else {
        return Err(Failure::failed(format_args!(
            "there is no key for {} in {}: only the user and machine that shared a profile can delete it; `{} share --list` shows what they can",
            unsigned(link),
            kept.folder().display(),
            own()
        )));
    };
    match &shared.object {
        Some(object) => {
            of_bucket(shared, object, args.timeout, term)?;
            // The same profile may have been shared several times.
            let same = all
                .iter()
                .filter(|(_, other)| other.object.as_ref().is_some_and(|other| other.url == object.url));
            same.map(|(path, _)| path).try_for_each(forget)?;
        }
        None => {
            of_store(shared, path, args.timeout)?;
            forget(path)?;
        }
    }
    // Two servers may have buckets of one name.
    let server = shared.object.as_ref();
    let server = server.map_or_else(String::new, |object| format!(" at {}", object.endpoint));
    term.line(format_args!("deleted {}{server}", shared.link));
    Ok(Status::SUCCESS)
}

fn forget(path: &PathBuf) -> Result<(), Failure> {
    std::fs::remove_file(path).map_err(|error| {
        Failure::failed(format_args!(
            "the profile is deleted, but removing its key {} failed: {error}; remove it",
            path.display()
        ))
    })
}

fn with_more_time(is_time_out: bool, error: &dyn std::fmt::Display) -> Failure {
    match is_time_out {
        true => Failure::failed(format_args!("{error}; {MORE_TIME}")),
        false => Failure::failed(error),
    }
}

fn of_bucket(shared: &SharedProfile, object: &SharedObject, step: Duration, term: &Term) -> Result<(), Failure> {
    let options = BucketOptions {
        endpoint: Some(object.endpoint.clone()),
        region: Some(object.region.clone()),
        style: Some(object.style),
    };
    let bucket = Bucket::open(&shared.server, &options, step)?;
    let is_kept = bucket.delete(&shared.name);
    if is_kept.map_err(|error| with_more_time(error.is_time_out(), &error))? {
        term.warning(format_args!(
            "the bucket keeps versions: {} is there as an older one until a rule of the bucket or its owner removes it",
            shared.link
        ));
    }
    Ok(())
}

fn of_store(shared: &SharedProfile, path: &Path, step: Duration) -> Result<(), Failure> {
    let store = Store::new(Some(&shared.server), step)
        .map_err(|why| format!("the address of the store in {} is wrong: {why}", path.display()))?;
    let was_there = deleted(store.delete(&shared.name, &Secret::new(shared.key.clone())));
    if was_there.map_err(|error| with_more_time(error.is_time_out(), &error))? {
        return Ok(());
    }
    let aside = SharedFolder::set_aside(path).unwrap_or_else(|_| path.to_owned());
    Err(Failure::failed(format_args!(
        "{} has no profile {}: it was deleted before, or another server is at this address. The key is kept in {}; \
         to try again, rename it to {}",
        store.url(),
        shared.link,
        aside.display(),
        path.display()
    )))
}
