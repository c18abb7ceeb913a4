//! All files of a source, and what is known of them. A thread makes the summaries, the newest file first.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fs::File;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime};

use profile::read::ReadLimits;
use profile::text::numbers::bytes;

use super::super::viewer::Viewer;
use super::reader::ProfileReader;
use super::source::{FileVersion, FoundFile, Listing, NotOpened, OpenedFile, ProfileSource};
use super::summary::{NameTable, Summary, guarded};

/// Clocks of machines may differ by this.
const DAY_MS: f64 = 86_400_000.0;

/// Unpacked bytes that are read for each byte of `--max-size`.
const UNPACKED: u64 = 8;

/// Bytes of `--max-size` for each value in lists: 100 million for 500 MB, which as empty texts take 1.6 GB of memory.
const BYTES_OF_VALUE: u64 = 5;

/// Values that may be in any file.
const MIN_VALUES: u64 = 1_000_000;

/// Pages of the viewer whose data are kept.
const VIEWERS: usize = 3;

pub(super) struct ProfileIndex {
    source: Box<dyn ProfileSource>,
    reader: Arc<dyn ProfileReader>,
    max_bytes: u64,
    state: Mutex<IndexState>,
    changed: Condvar,
    /// The latest ones.
    viewers: Mutex<VecDeque<(String, FileVersion, Arc<Viewer>)>>,
}

struct IndexState {
    listing: Listing,
    listed: Instant,
    is_listing: bool,
    made: HashMap<String, (FileVersion, MadeSummary)>,
    /// Files that could not be opened for now: the next list has them again.
    passing: HashSet<String>,
}

/// The summary of a file, or why there is none.
pub(super) type MadeSummary = Arc<Result<Summary, String>>;

/// A file of the list.
#[derive(Clone)]
pub(super) struct IndexedProfile {
    pub(super) found: FoundFile,
    /// `None` until the summary is made.
    pub(super) made: Option<MadeSummary>,
}

/// The list at one time.
pub(super) struct IndexSnapshot {
    /// The newest first.
    pub(super) items: Vec<IndexedProfile>,
    pub(super) notes: Vec<String>,
}

impl IndexedProfile {
    /// Path below the source.
    pub(super) fn name(&self) -> String {
        self.found.key.display().to_string()
    }

    pub(super) fn summary(&self) -> Option<&Summary> {
        self.made.as_ref()?.as_ref().as_ref().ok()
    }

    /// Why the file has no summary.
    pub(super) fn problem(&self) -> Option<&str> {
        self.made.as_ref()?.as_ref().as_ref().err().map(String::as_str)
    }

    /// Unix time of the recording, or else of the last change of the file, ms.
    pub(super) fn time_ms(&self) -> f64 {
        let since = self.found.version.modified.duration_since(SystemTime::UNIX_EPOCH);
        let modified = since.unwrap_or_default().as_secs_f64() * 1e3;
        // A file that names a time after its own last change is wrong, and would stay the first of the list.
        let start = self.summary().and_then(|summary| summary.start_ms);
        start.filter(|start| *start <= modified + DAY_MS).unwrap_or(modified)
    }
}

impl ProfileIndex {
    /// Lists the files, and starts the thread.
    pub(super) fn start(
        source: Box<dyn ProfileSource>,
        reader: Arc<dyn ProfileReader>,
        max_bytes: u64,
    ) -> Result<Arc<ProfileIndex>, String> {
        let listing = source.list()?;
        let shelf = Arc::new(ProfileIndex {
            source,
            reader,
            max_bytes,
            state: Mutex::new(IndexState {
                listing,
                listed: Instant::now(),
                is_listing: false,
                made: HashMap::new(),
                passing: HashSet::new(),
            }),
            changed: Condvar::new(),
            viewers: Mutex::default(),
        });
        let worker = shelf.clone();
        let thread = std::thread::Builder::new().name("summaries".into());
        thread
            .spawn(move || worker.make_summaries())
            .map_err(|error: io::Error| format!("cannot start the server: {error}"))?;
        Ok(shelf)
    }

    pub(super) fn name(&self) -> String {
        self.source.name()
    }

    pub(super) fn reader(&self) -> &Arc<dyn ProfileReader> {
        &self.reader
    }

    pub(super) fn max_bytes(&self) -> u64 {
        self.max_bytes
    }

    /// Limits for a file's content: a small packed file may hold a very large one.
    pub(super) fn limits(&self) -> ReadLimits {
        let most = ReadLimits::default();
        ReadLimits {
            json_bytes: most.json_bytes.min(self.max_bytes.saturating_mul(UNPACKED)),
            values: most.values.min((self.max_bytes / BYTES_OF_VALUE).max(MIN_VALUES)),
            ..most
        }
    }

    /// The files as they are now.
    pub(super) fn shown(&self) -> IndexSnapshot {
        self.refresh();
        let state = self.state();
        let mut items: Vec<IndexedProfile> = state.listing.files.iter().map(|found| item(&state, found)).collect();
        items.sort_by(|a, b| b.time_ms().total_cmp(&a.time_ms()));
        IndexSnapshot {
            items,
            notes: state.listing.notes.clone(),
        }
    }

    /// The file with this id.
    pub(super) fn find(&self, id: &str) -> Option<IndexedProfile> {
        let state = self.state();
        let found = state.listing.files.iter().find(|found| found.id == id)?;
        Some(item(&state, found))
    }

    /// Opens a file in the version of the list.
    pub(super) fn open(&self, item: &IndexedProfile) -> Result<OpenedFile, String> {
        self.opened(item).map_err(|unopened| unopened.why)
    }

    fn opened(&self, item: &IndexedProfile) -> Result<OpenedFile, NotOpened> {
        if item.found.version.bytes > self.max_bytes {
            let limit = bytes(self.max_bytes as f64);
            return Err(format!("the file is larger than {limit}, the limit of this server").into());
        }
        self.source.open(&item.found)
    }

    /// The viewer of a file; `make` makes its data.
    pub(super) fn viewer(
        &self,
        item: &IndexedProfile,
        make: impl Fn(&File) -> Result<Vec<u8>, String> + Send + Sync + 'static,
    ) -> Arc<Viewer> {
        let mut viewers = self.viewers.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it =
            |(id, version, _): &(String, FileVersion, _)| *id == item.found.id && *version == item.found.version;
        if let Some((_, _, viewer)) = viewers.iter().find(|viewer| is_it(viewer)) {
            return viewer.clone();
        }
        let viewer = Arc::new(Viewer::new(Arc::new(make)));
        viewers.push_front((item.found.id.clone(), item.found.version, viewer.clone()));
        viewers.truncate(VIEWERS);
        viewer
    }

    fn refresh(&self) {
        {
            let mut state = self.state();
            if state.is_listing || state.listed.elapsed() < self.source.fresh() {
                return;
            }
            // Requests that come meanwhile get the list of before: a bucket may take minutes for one.
            state.is_listing = true;
        }
        // The source may be gone for a while: what was known stays.
        let listed = guarded(|| self.source.list());
        let mut state = self.state();
        (state.listed, state.is_listing) = (Instant::now(), false);
        match listed {
            Ok(listing) => {
                let listed = listing.files.iter().map(|found| (found.id.as_str(), found.version));
                let listed: HashMap<&str, FileVersion> = listed.collect();
                let passing = std::mem::take(&mut state.passing);
                (state.made)
                    .retain(|id, (version, _)| listed.get(id.as_str()) == Some(version) && !passing.contains(id));
                state.listing = listing;
            }
            Err(error) => state.listing.notes = vec![error],
        }
        self.changed.notify_one();
    }

    fn make_summaries(&self) {
        let mut names = NameTable::default();
        loop {
            let item = self.next();
            let opened = self.opened(&item);
            let is_passing = opened.as_ref().is_err_and(|unopened| unopened.is_passing);
            let made = opened
                .map_err(|unopened| unopened.why)
                .and_then(|opened| Summary::read(&opened.path, &*self.reader, self.limits(), &mut names));
            let mut state = self.state();
            if is_passing {
                state.passing.insert(item.found.id.clone());
            }
            state.made.insert(item.found.id, (item.found.version, Arc::new(made)));
            drop(state);
            names.prune();
        }
    }

    /// Waits for a file without a summary.
    fn next(&self) -> IndexedProfile {
        let mut state = self.state();
        loop {
            let items = state.listing.files.iter().map(|found| item(&state, found));
            if let Some(item) = items.into_iter().find(|item| item.made.is_none()) {
                return item;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn state(&self) -> MutexGuard<'_, IndexState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn item(state: &IndexState, found: &FoundFile) -> IndexedProfile {
    let made = state
        .made
        .get(&found.id)
        .filter(|(version, _)| *version == found.version);
    IndexedProfile {
        made: made.map(|(_, made)| made.clone()),
        found: found.clone(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::path::{Path, PathBuf};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;
    use std::time::Duration;

    use profile::read;

    use super::super::reader::ReadProfile;
    use super::*;

    /// Reads folded stacks.
    struct FoldedStacks;

    impl ProfileReader for FoldedStacks {
        fn read(&self, path: &Path, limits: ReadLimits) -> Result<ReadProfile, String> {
            let read =
                read::foreign(path, read::ForeignFormat::Folded, None, limits).map_err(|error| error.to_string())?;
            Ok(ReadProfile {
                data: read.data,
                notes: read.notes,
            })
        }

        fn read_for_viewer(&self, path: &Path, limits: ReadLimits) -> Result<ReadProfile, String> {
            self.read(path, limits)
        }

        fn needs_conversion(&self, _: &Path) -> bool {
            true
        }

        fn convert(&self, _: &Path) -> Result<File, String> {
            Err("this test converts nothing".to_owned())
        }
    }

    /// A source that is away for the first two files.
    struct Away(AtomicUsize);

    impl ProfileSource for Away {
        fn name(&self) -> String {
            "away".into()
        }

        fn fresh(&self) -> Duration {
            Duration::ZERO
        }

        fn list(&self) -> Result<Listing, String> {
            let version = FileVersion {
                modified: SystemTime::UNIX_EPOCH,
                bytes: 1,
                mark: (0, 0),
            };
            let file = |name: &str| FoundFile::new(PathBuf::from(name), version);
            Ok(Listing::of(vec![file("a.folded"), file("b.folded")], &[]))
        }

        fn open(&self, _: &FoundFile) -> Result<OpenedFile, NotOpened> {
            if self.0.fetch_add(1, Ordering::Relaxed) < 2 {
                return Err(NotOpened {
                    why: "away".into(),
                    is_passing: true,
                });
            }
            let mut file = tempfile::NamedTempFile::new().unwrap();
            file.write_all(b"main;work 3\n").unwrap();
            let (file, path) = file.into_parts();
            Ok(OpenedFile::temporary(file, path))
        }
    }

    /// A source whose second list waits for the end of the test.
    struct Slow {
        lists: Arc<AtomicUsize>,
        end: Mutex<mpsc::Receiver<()>>,
    }

    impl ProfileSource for Slow {
        fn name(&self) -> String {
            "slow".into()
        }

        fn fresh(&self) -> Duration {
            Duration::ZERO
        }

        fn list(&self) -> Result<Listing, String> {
            if self.lists.fetch_add(1, Ordering::Relaxed) == 1 {
                let _ = self.end.lock().unwrap().recv();
            }
            Ok(Listing::default())
        }

        fn open(&self, _: &FoundFile) -> Result<OpenedFile, NotOpened> {
            Err("there is none".to_owned().into())
        }
    }

    #[test]
    fn a_list_that_takes_long_is_made_once() {
        let (ender, end) = mpsc::channel();
        let lists = Arc::new(AtomicUsize::new(0));
        let source = Slow {
            lists: lists.clone(),
            end: end.into(),
        };
        let shelf = ProfileIndex::start(Box::new(source), Arc::new(FoldedStacks), 1000).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| shelf.shown());
            while lists.load(Ordering::Relaxed) < 2 {
                std::thread::yield_now();
            }
            for _ in 0..10 {
                shelf.shown();
            }
            assert_eq!(lists.load(Ordering::Relaxed), 2);
            drop(ender);
        });
        shelf.shown();
        assert_eq!(lists.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn a_file_that_could_not_be_opened_for_a_moment_is_opened_again() {
        let shelf = ProfileIndex::start(Box::new(Away(AtomicUsize::new(0))), Arc::new(FoldedStacks), 1000).unwrap();
        let start = Instant::now();
        while shelf.shown().items.iter().any(|item| item.summary().is_none()) {
            assert!(start.elapsed() < Duration::from_secs(60), "not opened again");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
