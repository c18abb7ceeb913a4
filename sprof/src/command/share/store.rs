//! Shares a profile through a store of the Firefox Profiler. The key that deletes it is kept before anybody sees the
//! link.

use std::fs::File;
use std::ops::ControlFlow;

use recording::command::{own, quoted};
use share::{PUBLIC_MAX_BYTES, SharedFolder, SharedProfile, Store, Uploaded, deleted};

use super::done::ShareOutcome;
use super::shown::{MORE_TIME, ReadyUpload, now_ms, show_progress};
use crate::exit::Failure;
use crate::interrupt::Interrupt;
use crate::terminal::Term;
use crate::terminal::style::Style;

pub(super) struct ToStore {
    pub(super) store: Store,
    pub(super) ui: String,
    pub(super) command: &'static str,
}

impl ToStore {
    /// Size of the largest profile that the store takes, if it is known.
    pub(super) fn max_bytes(&self) -> Option<u64> {
        self.store.is_public().then_some(PUBLIC_MAX_BYTES)
    }

    /// Uploads a profile.
    pub(super) fn share(
        &self,
        file: &File,
        shown: ReadyUpload,
        kept: &SharedFolder,
        interrupt: &Interrupt,
        term: &Term,
    ) -> Result<ShareOutcome, Failure> {
        let uploaded = self.upload(file, shown.bytes, interrupt, term)?;
        self.keep(&uploaded, shown, kept, term)
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

    /// Keeps the key before anybody sees the link. If that fails, deletes the profile again.
    fn keep(
        &self,
        uploaded: &Uploaded,
        shown: ReadyUpload,
        kept: &SharedFolder,
        term: &Term,
    ) -> Result<ShareOutcome, Failure> {
        let Uploaded { name, key } = uploaded;
        let link = format!("{}/public/{name}", self.ui);
        let shared = SharedProfile {
            program: shown.program.clone(),
            bytes: shown.bytes,
            shared_ms: now_ms(),
            ..SharedProfile::new(&link, self.store.url(), name, key.expose())
        };
        if let Err(error) = kept.add(&shared) {
            let folder = kept.folder().display();
            match SharedFolder::write(&std::env::temp_dir(), &shared) {
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
        Ok(ShareOutcome {
            link,
            delete,
            server: self.store.url().to_owned(),
            object: None,
            expires_ms: None,
            opens: true,
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
                "{lost}, and the store replies that it has no such profile. If it is at {}/public/{}, only the store's operator can delete it",
                self.ui, uploaded.name
            ),
            Err(error) => format!(
                "{lost}, and deleting it also failed: {error}. The profile is at {}/public/{}, and only the store's operator can delete it",
                self.ui, uploaded.name
            ),
        })
    }
}
