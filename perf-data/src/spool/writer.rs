//! Records to the disk, by a thread of its own.
//!
//! The recorder appends to a buffer in memory, and hands it over when it has emptied its rings and the buffer has
//! records of half a second. The thread writes it in one piece: a recorder that is killed in between leaves whole
//! records.

use std::fs::File;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use recording::clock::Timestamp;
use recording::event::Role;

use super::record::{EVENT_ID, WAIT_EVENT_ID, put_lost, put_record};
use crate::abi::record_type;

/// How old the oldest record is when records are written, in ns. A record stays in memory for this and one round more:
/// less than a second.
const FLUSH_AFTER_NS: u64 = 500_000_000;
/// Enough to write at once, before that.
const FLUSH_BYTES: usize = 1 << 20;
/// Enough to hand over in the middle of a round.
const HAND_OVER_BYTES: usize = 64 << 10;
/// While the disk does not keep up: beyond this, samples are counted instead of kept.
const MAX_WAITING_BYTES: usize = 16 << 20;
/// Limit for records of processes and mappings: without them samples mean little.
const MAX_WAITING_BYTES_WITH_RARE: usize = 2 * MAX_WAITING_BYTES;
/// How much of the recording a power cut may take. Syncing more often would make the program's own writes wait.
const SYNC_AFTER: Duration = Duration::from_secs(5);

/// What the recorder and the thread share.
#[derive(Default)]
struct WriterShared {
    waiting: Mutex<WaitingRecords>,
    wake: Condvar,
    failed: AtomicBool,
}

#[derive(Default)]
struct WaitingRecords {
    records: Vec<u8>,
    lost: NoRoom,
    /// They are to be written now.
    is_due: bool,
    closing: bool,
}

/// What found no room.
#[derive(Clone, Copy, Default)]
struct NoRoom {
    records: u64,
    switches: u64,
}

impl WriterShared {
    fn lock(&self) -> MutexGuard<'_, WaitingRecords> {
        // The thread panics nowhere; if it did, the recording goes on.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A file that is being written to.
pub(super) struct RunningWriter {
    shared: Arc<WriterShared>,
    thread: JoinHandle<StoppedWriter>,
    /// What was not handed over yet, and the time of its first event.
    records: Vec<u8>,
    since: Option<Timestamp>,
    /// Bytes that had been handed over and waited for the disk at the last hand-over.
    waiting_bytes: usize,
}

impl RunningWriter {
    /// Where the record of an event of a role is to be appended, or (`None`) of the few about processes, mappings and
    /// losses. Never waits for the disk: no place if too much waits for it.
    pub(super) fn room_for(&mut self, time: Timestamp, role: Option<Role>) -> Option<&mut Vec<u8>> {
        if self.shared.failed.load(Ordering::Relaxed) {
            return None;
        }
        let limit = match role {
            None => MAX_WAITING_BYTES_WITH_RARE,
            // The first to go: points and spans may come by the ten thousand a second.
            Some(Role::Point | Role::Span) => MAX_WAITING_BYTES / 2,
            Some(_) => MAX_WAITING_BYTES,
        };
        if self.records.len() >= HAND_OVER_BYTES || self.records.len() + self.waiting_bytes > limit {
            self.hand_over(NoRoom::default(), false);
        }
        if self.waiting_bytes > limit {
            let mut lost = NoRoom::default();
            match role {
                Some(Role::Switch | Role::WaitStack) => lost.switches = 1,
                _ => lost.records = 1,
            }
            self.hand_over(lost, false);
            return None;
        }
        self.since.get_or_insert(time);
        Some(&mut self.records)
    }

    /// All events before this time have come. True if they are written now.
    pub(super) fn end_round(&mut self, until: Timestamp) -> bool {
        let is_due = self
            .since
            .is_some_and(|since| until.0.saturating_sub(since.0) >= FLUSH_AFTER_NS);
        if is_due {
            self.hand_over(NoRoom::default(), true);
        }
        is_due
    }

    fn hand_over(&mut self, lost: NoRoom, is_due: bool) {
        let mut waiting = self.shared.lock();
        match waiting.records.is_empty() {
            true => std::mem::swap(&mut waiting.records, &mut self.records),
            false => waiting.records.extend_from_slice(&self.records),
        }
        self.records.clear();
        waiting.lost.records += lost.records;
        waiting.lost.switches += lost.switches;
        self.waiting_bytes = waiting.records.len();
        waiting.is_due |= is_due || self.waiting_bytes >= FLUSH_BYTES;
        if waiting.is_due {
            drop(waiting);
            self.since = None;
            self.shared.wake.notify_one();
        }
    }

    /// Writes all that was handed over, and ends the thread.
    pub(super) fn stop(mut self) -> StoppedWriter {
        self.hand_over(NoRoom::default(), false);
        self.shared.lock().closing = true;
        self.shared.wake.notify_one();
        self.thread.join().unwrap_or(StoppedWriter { output: None })
    }
}

/// A file between two runs; without one if writing failed.
pub(super) struct StoppedWriter {
    output: Option<SpoolOutput>,
}

impl StoppedWriter {
    /// Begins a file.
    pub(super) fn create(mut file: File, head: &[u8]) -> io::Result<StoppedWriter> {
        file.write_all(head)?;
        Ok(StoppedWriter {
            output: Some(SpoolOutput {
                file,
                bytes: head.len() as u64,
                synced: Instant::now(),
            }),
        })
    }

    /// True if all that was handed over is in the file.
    pub(super) fn is_sound(&self) -> bool {
        self.output.is_some()
    }

    /// Starts the thread.
    pub(super) fn start(self, on_error: Box<dyn FnOnce(&io::Error) + Send>) -> io::Result<RunningWriter> {
        let shared = Arc::new(WriterShared::default());
        let of_thread = shared.clone();
        let thread = std::thread::Builder::new()
            .name("sprof-spool".into())
            .spawn(move || run(&of_thread, self.output, on_error))?;
        Ok(RunningWriter {
            shared,
            thread,
            records: Vec::new(),
            since: None,
            waiting_bytes: 0,
        })
    }
}

fn run(
    shared: &WriterShared,
    mut output: Option<SpoolOutput>,
    on_error: Box<dyn FnOnce(&io::Error) + Send>,
) -> StoppedWriter {
    let mut on_error = Some(on_error);
    let mut records = Vec::new();
    loop {
        let waiting = shared.lock();
        let mut waiting = shared
            .wake
            .wait_while(waiting, |waiting| !waiting.is_due && !waiting.closing)
            .unwrap_or_else(PoisonError::into_inner);
        std::mem::swap(&mut waiting.records, &mut records);
        waiting.is_due = false;
        let (lost, closing) = (std::mem::take(&mut waiting.lost), waiting.closing);
        drop(waiting);
        if let Some(open) = &mut output
            && let Err(error) = open.write(&mut records, lost)
        {
            shared.failed.store(true, Ordering::Relaxed);
            open.cut_to_whole_records();
            output = None;
            if let Some(on_error) = on_error.take() {
                on_error(&error);
            }
        }
        records.clear();
        // After a burst.
        records.shrink_to(2 * FLUSH_BYTES);
        if closing {
            return StoppedWriter { output };
        }
    }
}

/// The open file.
struct SpoolOutput {
    file: File,
    /// Whole records in the file.
    bytes: u64,
    synced: Instant,
}

impl SpoolOutput {
    /// Writes records, and those of what found no room.
    fn write(&mut self, records: &mut Vec<u8>, lost: NoRoom) -> io::Result<()> {
        for (count, event) in [(lost.records, EVENT_ID), (lost.switches, WAIT_EVENT_ID)] {
            if count > 0 {
                // At an unknown time in this round.
                put_lost(records, 0, count, 0, event);
            }
        }
        if records.is_empty() {
            return Ok(());
        }
        put_record(records, record_type::FINISHED_ROUND, 0, |_| {});
        self.file.write_all(records)?;
        self.bytes += records.len() as u64;
        if self.synced.elapsed() >= SYNC_AFTER {
            self.file.sync_data()?;
            self.synced = Instant::now();
        }
        Ok(())
    }

    /// A full disk leaves half a record, which is not worth a warning later.
    fn cut_to_whole_records(&self) {
        let _ = self.file.set_len(self.bytes);
    }
}
