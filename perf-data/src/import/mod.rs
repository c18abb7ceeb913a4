//! Reads a perf.data file, and sends the same events as a live recording.
//!
//! The caller gives a file of `perf record`, of Android's `simpleperf record` or of sprof's own
//! [`spool`](crate::spool), and an [`EventSink`], which gets the events in time order. The result says what the file
//! lacks. A file that is cut off or damaged gives what stands before the damage. No size in the file decides how much
//! memory is used.
//!
//! The published `linux-perf-data` 0.13 does not serve: it refuses a file that is cut in half, and allocates what a
//! damaged size field says. With three random bytes changed, each of 4 sample files ended the process within seconds.
//!
//! In reading order:
//!
//! 1. `header`: the parts around the records. `pipe`: the same parts where they stand among the records.
//! 2. `attr`: the events, and where their records keep id and time. `choice`: whose samples are shown.
//! 3. `input`: bytes to records in time order, by `records`, `compressed` and `order`.
//! 4. `deferred`: user call chains that come later. `output`: records to events. `sample`: any layout to the
//!    translator's. `late_exits`: sums that come after all other records. `simpleperf`: what only Android's tool
//!    writes.
//! 5. `metadata`: the recording as a whole, and what the file lacks.
//! 6. `files`: the binaries, after the fact.

mod attr;
mod choice;
mod compressed;
mod deferred;
mod error;
mod files;
mod header;
mod input;
mod late_exits;
mod metadata;
mod named_events;
mod order;
mod output;
mod pipe;
mod records;
mod sample;
mod simpleperf;

use std::io::{Read, Seek};
use std::time::SystemTime;

use recording::clock::Timestamp;
use recording::event::{Event, RecordingEvent};
use recording::info::RecordingInfo;
use recording::module::BuildId;
use recording::sink::EventSink;

use crate::abi::{record_type, sample_type};
use crate::decode::{RecordHeader, RegisterSet};
use choice::EventChoice;
use deferred::{DeferredChains, UserChain};
pub use error::ImportError;
pub use files::SavedFiles;
use input::{ImportInput, InputEnd};
use named_events::NamedEvents;
use order::RecordOrder;
use output::ImportOutput;
use records::{RecordReader, RecordsEnd};
pub use simpleperf::{RecordedFile, RecordedFunction};

/// Where the recorded kernel was, as the file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedKernel {
    /// The address of `_text`.
    pub text: u64,
    /// Its build id.
    pub build_id: Option<BuildId>,
}

/// What was imported, after the last event.
#[derive(Debug)]
pub struct Imported {
    /// The recording as a whole.
    pub info: RecordingInfo,
    /// Samples a second that were asked for; 0 where the file does not say.
    pub asked_rate_hz: f64,
    /// What is missing or was left out, a line each.
    pub notes: Vec<String>,
    /// The first event that has samples, if the event that was taken has none.
    pub instead: Option<String>,
    /// Names of functions that came with the file: for modules whose file is not here.
    pub files: Vec<RecordedFile>,
}

/// A perf.data file that has been opened.
pub struct Import<R> {
    input: ImportInput<R>,
    output: ImportOutput,
    order: RecordOrder,
    deferred: DeferredChains,
    /// Records up to this time can be taken.
    ready: Option<u64>,
    zero: u64,
    modified: Option<SystemTime>,
}

impl<R: Read + Seek> Import<R> {
    /// Opens a file that was last written at `modified`, and takes the samples of the event of this name, or of the
    /// first one.
    ///
    /// # Errors
    ///
    /// [`ImportError`]: another kind of file, or one of a machine of the other byte order, or damaged before its first
    /// event; or no event has the name.
    pub fn open(mut file: R, modified: Option<SystemTime>, event: Option<&str>) -> Result<Import<R>, ImportError> {
        let Some(mut contents) = header::read(&mut file)? else {
            let mut magic = [0; 8];
            file.rewind()?;
            records::read_up_to(&mut file, &mut magic)?;
            return Err(match magic {
                header::MAGIC => ImportError::NoEvents,
                header::MAGIC_SWAPPED => ImportError::ByteOrder,
                _ => ImportError::NotPerfData,
            });
        };
        if contents.is_pipe {
            let records = RecordReader::new(file, contents.start, None)?;
            file = pipe::scan(records, &mut contents.attrs, &mut contents.features)?;
        }
        let attrs = &contents.attrs;
        if attrs.list.is_empty() {
            return Err(ImportError::NoEvents);
        }
        let choice = EventChoice::new(&attrs.list, event)?;
        let registers = match contents.features.arch.as_deref() {
            Some("aarch64" | "arm64") => Some(RegisterSet::Aarch64),
            Some("x86_64" | "i386" | "i686") => Some(RegisterSet::X86_64),
            Some(_) => None,
            None => Some(RegisterSet::NATIVE),
        };
        let named = match contents.features.is_spool() && choice.event == 0 {
            true => NamedEvents::of_spool(&attrs.list),
            false => NamedEvents::default(),
        };
        let has_times = attrs.list[choice.event].has(sample_type::TIME);
        let deferred = DeferredChains::new(&attrs.list);
        let mut import = Import {
            input: ImportInput::new(file, contents, has_times)?,
            output: ImportOutput::new(registers, choice, named),
            order: RecordOrder::default(),
            deferred,
            ready: None,
            zero: 0,
            modified,
        };
        import.input.initial_records(&mut import.order);
        // Up to the first records in time order: then time zero is known, and where the kernel was.
        while import.ready.is_none_or(|until| until == 0)
            && import.input.ended.is_none()
            && import.order.overflow().is_none()
        {
            import.ready = import.input.step(&mut import.order)?.or(import.ready);
        }
        // A spool has the start of its recording; processes that ran before are older.
        let began = (import.input.features.clock).filter(|_| import.input.features.is_spool());
        import.zero = match began {
            Some((_, clock_ns)) => clock_ns,
            // What simpleperf found before it started has times of its own: of the boot, or of the other clock.
            None if import.input.features.simpleperf.is_there() => import
                .order
                .oldest_timed(|record| !is_found(record))
                .unwrap_or_default(),
            None => import.order.oldest_timed(|_| true).unwrap_or_default(),
        };
        Ok(import)
    }

    /// Time zero, on the file's clock. The wall clock is a guess unless the file says.
    pub fn zero(&self) -> Timestamp {
        Timestamp(self.zero)
    }

    /// The recorded kernel; `None` if the file does not say at which address it was.
    pub fn kernel(&self) -> Option<RecordedKernel> {
        let (text, name) = self.input.kernel.as_ref()?;
        let name: &[u8] = name
            .strip_suffix(b"_text")
            .or(name.strip_suffix(b"_stext"))
            .unwrap_or(name);
        Some(RecordedKernel {
            text: *text,
            build_id: self.input.features.build_ids.get(name).cloned(),
        })
    }

    /// Functions of the recorded kernel at their addresses, as far as the file has their names.
    pub fn kernel_functions(&self) -> &[RecordedFunction] {
        let mut files = self.input.features.simpleperf.files.iter();
        files.find(|file| file.is_kernel).map_or(&[], |file| &file.functions)
    }

    /// True if sprof wrote the file while recording.
    pub fn is_spool(&self) -> bool {
        self.input.features.is_spool()
    }

    /// True if the file has waits of threads.
    pub fn has_waits(&self) -> bool {
        self.output.choice.has_waits()
    }

    /// Sends all events of the file to `sink`.
    ///
    /// # Errors
    ///
    /// The file can't be read. Damage is not an error: the events before it are sent, and [`Imported`] says so.
    pub fn run(mut self, sink: &mut dyn EventSink) -> Result<Imported, ImportError> {
        loop {
            if let Some(until) = self.ready.take() {
                self.take(Some(until), sink);
            }
            if self.input.ended.is_some() {
                break;
            }
            self.ready = self.input.step(&mut self.order)?;
        }
        self.take(None, sink);
        let damage = match self.input.ended {
            Some(InputEnd::At(RecordsEnd::CutOff(_))) => Some("the file is cut off here"),
            Some(InputEnd::At(RecordsEnd::Damaged(_)) | InputEnd::Compressed(_)) => {
                Some("the file is damaged from here on")
            }
            Some(InputEnd::At(RecordsEnd::Whole)) | None => None,
        };
        let end = Timestamp(self.output.latest.max(self.zero));
        self.output.report_lost(end, sink);
        self.output.end_threads(sink);
        if let Some(what) = damage {
            sink.on_event(&Event::recording(end, RecordingEvent::Malformed(what)));
        }
        Ok(self.finish(end))
    }

    /// Sends the events up to a time, or all that are left.
    fn take(&mut self, until: Option<u64>, sink: &mut dyn EventSink) {
        let Import {
            input,
            output,
            order,
            deferred,
            zero,
            ..
        } = self;
        let attrs = &input.attrs.list;
        let mut deliver = |time: u64, event: usize, record: &[u8], user: UserChain<'_>| {
            output.deliver(
                time.max(*zero),
                (event, &attrs[event]),
                record,
                user,
                &input.features,
                sink,
            );
        };
        order.take(until.unwrap_or(u64::MAX), |time, event, record| {
            if let Some(attr) = attrs.get(event) {
                deferred.record(time, event, attr, record, &mut deliver);
            }
        });
        if until.is_none() {
            deferred.finish(&mut deliver);
        }
    }
}

/// True for records of mappings and names, with which perf reports what was there before recording.
fn is_found(record: &[u8]) -> bool {
    let kind = record.first_chunk().map(|header| RecordHeader::parse(header).kind);
    kind.is_some_and(|kind| matches!(kind, record_type::MMAP | record_type::MMAP2 | record_type::COMM))
}
