//! Asks the recorder for snapshots, and hands them to a thread that shows them.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Signal, getpid, kill_process};

use super::streams::OwnStreams;
use crate::exit::Failure;
use crate::pipeline::snapshots::{RecordingWatch, Snapshot, SnapshotPart, SnapshotRequest};

/// The end that is in the thread that shows snapshots.
pub(crate) struct Snapshots {
    request: SnapshotRequest,
    taken: Receiver<Snapshot>,
    /// When the last one was asked for.
    asked_at: Instant,
    /// What the recorder could not do as it was asked, a sentence each.
    pub(super) announcements: Vec<String>,
}

impl Snapshots {
    /// Waits until `interval` after the last snapshot was asked for, and asks for `wanted`. Returns earlier if another
    /// thread asks. `None`: the recording has ended.
    pub(crate) fn after(&mut self, interval: Duration, wanted: impl Fn() -> Option<SnapshotPart>) -> Option<Snapshot> {
        loop {
            let now = Instant::now();
            self.asked_at = (self.asked_at + interval).max(now);
            match self.taken.recv_timeout(self.asked_at - now) {
                Ok(snapshot) => {
                    self.asked_at = Instant::now();
                    return Some(snapshot);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return None,
            }
            if let Some(part) = wanted() {
                self.request.ask(part);
                return self.taken.recv().ok();
            }
        }
    }
}

/// Ends the recording as SIGTERM of another process would.
pub(crate) fn end_recording() {
    send(Signal::TERM);
}

/// Does what Ctrl-C does where keys are not read.
pub(crate) fn interrupt_recording() {
    send(Signal::INT);
}

fn send(signal: Signal) {
    // A process may always send signals to itself.
    let _ = kill_process(getpid(), signal);
}

type ShowSnapshots<V> = Box<dyn FnOnce(Snapshots) -> V + Send>;

/// The end that is in the recorder's thread; `V` is what the thread that shows snapshots leaves.
pub(crate) struct TopWatch<V> {
    request: SnapshotRequest,
    longest_end: Duration,
    taken: Option<Sender<Snapshot>>,
    begins: Option<(OwnStreams, ShowSnapshots<V>)>,
    thread: Option<JoinHandle<V>>,
}

impl<V: Send + 'static> TopWatch<V> {
    /// `show` is called in a thread of its own once the recording begins. It asks for all, or for up to `longest_end`.
    pub(crate) fn new(
        streams: OwnStreams,
        longest_end: Duration,
        request: SnapshotRequest,
        show: impl FnOnce(Snapshots) -> V + Send + 'static,
    ) -> TopWatch<V> {
        TopWatch {
            request,
            longest_end,
            taken: None,
            begins: Some((streams, Box::new(show))),
            thread: None,
        }
    }

    /// Tells the thread that the recording has ended, and waits for it.
    pub(crate) fn finish(self) -> Result<V, Failure> {
        drop(self.taken);
        let ended = self.thread.map(JoinHandle::join);
        match ended {
            Some(Ok(left)) => Ok(left),
            _ => Err(Failure::failed("the thread that shows the recording ended early")),
        }
    }
}

impl<V: Send + 'static> RecordingWatch for TopWatch<V> {
    fn start(&mut self, announcements: &[String]) -> Result<(), Failure> {
        let Some((streams, show)) = self.begins.take() else {
            return Ok(());
        };
        // The program has its own by now.
        drop(streams);
        let (sender, taken) = channel();
        let snapshots = Snapshots {
            request: self.request.clone(),
            taken,
            asked_at: Instant::now(),
            announcements: announcements.to_vec(),
        };
        let thread = thread::Builder::new().name("top".to_owned());
        let started = thread.spawn(move || show(snapshots));
        self.thread = Some(started.map_err(|error| Failure::failed(format_args!("cannot start a thread: {error}")))?);
        self.taken = Some(sender);
        Ok(())
    }

    fn longest_end(&self) -> Duration {
        self.longest_end
    }

    fn request(&self) -> &SnapshotRequest {
        &self.request
    }

    fn take(&mut self, snapshot: Snapshot) {
        if let Some(taken) = &self.taken {
            // A thread that has ended shows nothing.
            let _ = taken.send(snapshot);
        }
    }
}
