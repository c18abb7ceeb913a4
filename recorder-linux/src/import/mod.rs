//! Reads a perf.data file and sends what it holds down the same way as a live recording.
//!
//! The caller gives a file of `perf record` (or sprof's own [`spool`](crate::spool)) and an [`EventSink`]; the sink
//! gets what it would have got from the kernel, in time order, and the caller learns what was missing. A file that is
//! cut off or damaged gives what stands before the damage. Memory is bounded whatever the file says.
//!
//! In reading order:
//!
//! 1. `header`: what stands around the records.
//! 2. `attr`: the events, and where their records keep id and time.
//! 3. `records`, `compressed`: one record after the other.
//! 4. `order`: time order.
//! 5. `sample`: any layout to the translator's.
//! 6. `files`: the binaries, after the fact.

mod attr;
mod compressed;
mod files;
mod header;
mod order;
mod records;
mod sample;

use std::collections::BTreeMap;
use std::io::{self, Read, Seek};
use std::time::{Duration, SystemTime};

use recording::clock::{ClockReference, Timestamp};
use recording::event::{Event, LostCause};
use recording::info::{PeriodUnit, RecordingInfo};
use recording::module::BuildId;
use recording::sink::EventSink;

use crate::decode::{self, Header, Layout, Malformed, Reader, Record, RegisterSet};
use crate::translate::{Subject, Translator};
use attr::{Attr, sample_type};
use compressed::Decompressor;
pub use files::SavedFiles;
pub(crate) use header::feature;
use header::{Attrs, Features};
use order::Order;
use records::{End, Records};

/// `enum perf_event_type` and `enum perf_user_event_type` (tools/lib/perf/include/perf/event.h).
pub(crate) mod record_type {
    pub(crate) const MMAP: u32 = 1;
    pub(crate) const SAMPLE: u32 = 9;
    pub(crate) const MMAP2: u32 = 10;
    pub(crate) const HEADER_ATTR: u32 = 64;
    pub(crate) const HEADER_TRACING_DATA: u32 = 66;
    pub(crate) const HEADER_BUILD_ID: u32 = 67;
    pub(crate) const FINISHED_ROUND: u32 = 68;
    pub(crate) const AUXTRACE: u32 = 71;
    pub(crate) const EVENT_UPDATE: u32 = 78;
    pub(crate) const HEADER_FEATURE: u32 = 80;
    pub(crate) const COMPRESSED: u32 = 81;
    pub(crate) const COMPRESSED2: u32 = 83;
}
/// Records from here on come from perf itself and not from the kernel.
const FIRST_USER_TYPE: u32 = 64;

/// Decompressed bytes that wait at most until they are taken apart.
const PLAIN_BYTES: usize = 4 << 20;

/// A record of lost ones says no more than this: what comes later can add them up.
const MOST_LOST: u64 = 1 << 40;

/// How far apart the samples of a file without times are put.
const STEP_WITHOUT_TIMES_NS: u64 = 1_000_000;

/// Why a file cannot be imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// Reading failed.
    #[error("reading it failed: {0}")]
    Io(#[from] io::Error),
    /// Another kind of file.
    #[error("it is not a perf.data file")]
    NotPerfData,
    /// From a machine of the other byte order.
    #[error("it was recorded on a machine of the other byte order; open it on one like that")]
    ByteOrder,
    /// Not even the header is whole.
    #[error("it ends or is damaged before the first event; record again")]
    NoEvents,
    /// No event has the name that was asked for.
    #[error("it has no event `{asked}`; it has: {known}")]
    NoSuchEvent {
        /// As the user typed it.
        asked: String,
        /// All names.
        known: String,
    },
}

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
}

/// A perf.data file that has been opened.
pub struct Import<R> {
    input: Input<R>,
    output: Output,
    order: Order,
    /// Records up to this time can be taken.
    ready: Option<u64>,
    zero: u64,
    modified: Option<SystemTime>,
}

/// The way from bytes to records in time order.
struct Input<R> {
    records: Records<R>,
    attrs: Attrs,
    features: Features,
    decompressor: Option<Decompressor>,
    plain: Vec<u8>,
    kernel: Option<(u64, Vec<u8>)>,
    is_unfinished: bool,
    ended: Option<Ended>,
    /// Time of the last record, where records have none: one step for each sample.
    without_times: Option<u64>,
}

enum Ended {
    At(End),
    Compressed(io::Error),
}

/// The way from records to events.
struct Output {
    translator: Translator,
    registers: RegisterSet,
    /// Which event's samples are taken.
    event: usize,
    /// Whose samples are stacks of waits: the spool of a recording with --off-cpu has it.
    waits_event: Option<usize>,
    samples: u64,
    other_samples: BTreeMap<usize, u64>,
    lost_samples: u64,
    idle_is_named: bool,
    latest: u64,
    program: Option<String>,
}

impl<R: Read + Seek> Import<R> {
    /// Opens a file that was last written at `modified`, and takes the samples of the event of this name, or of the
    /// first one.
    pub fn open(mut file: R, modified: Option<SystemTime>, event: Option<&str>) -> Result<Import<R>, ImportError> {
        let Some(mut contents) = header::read(&mut file)? else {
            let mut magic = [0; 8];
            file.rewind()?;
            records::read_up_to(&mut file, &mut magic)?;
            return Err(match magic == header::MAGIC_SWAPPED {
                true => ImportError::ByteOrder,
                false => ImportError::NotPerfData,
            });
        };
        if contents.is_pipe {
            let records = Records::new(file, contents.start, None)?;
            file = scan(records, &mut contents.attrs, &mut contents.features)?;
        }
        let attrs = &contents.attrs;
        if attrs.list.is_empty() {
            return Err(ImportError::NoEvents);
        }
        let chosen = choose(&attrs.list, event)?;
        let registers = match contents.features.arch.as_deref() {
            Some("aarch64" | "arm64") => RegisterSet::Aarch64,
            Some(_) => RegisterSet::X86_64,
            None => RegisterSet::NATIVE,
        };
        let waits_event = Some(1).filter(|_| contents.features.is_spool() && chosen == 0 && attrs.list.len() == 2);
        let has_times = attrs.list[chosen].has(sample_type::TIME);
        let mut import = Import {
            input: Input {
                records: Records::new(file, contents.start, contents.end)?,
                attrs: contents.attrs,
                features: contents.features,
                decompressor: None,
                plain: Vec::new(),
                kernel: None,
                is_unfinished: contents.is_unfinished,
                ended: None,
                without_times: (!has_times).then_some(STEP_WITHOUT_TIMES_NS),
            },
            output: Output {
                translator: Translator::new(Layout {
                    registers,
                    call_chain: true,
                    stack_bytes: 0,
                }),
                registers,
                event: chosen,
                waits_event,
                samples: 0,
                other_samples: BTreeMap::new(),
                lost_samples: 0,
                idle_is_named: false,
                latest: 0,
                program: None,
            },
            order: Order::default(),
            ready: None,
            zero: 0,
            modified,
        };
        // Up to the first records in time order: then time zero is known, and where the kernel was.
        while import.ready.is_none_or(|until| until == 0) && import.input.ended.is_none() {
            import.ready = import.input.step(&mut import.order)?.or(import.ready);
        }
        // A spool says when its recording began; what ran already is older.
        let began = (import.input.features.clock).filter(|_| import.input.features.is_spool());
        import.zero = match began {
            Some((_, clock_ns)) => clock_ns,
            None => import.order.oldest_timed().unwrap_or_default(),
        };
        Ok(import)
    }

    /// Time zero, on the file's clock. The wall clock is a guess unless the file says.
    pub fn zero(&self) -> Timestamp {
        Timestamp(self.zero)
    }

    /// The kernel, if the file says where it was.
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

    /// True if the file also tells when threads waited.
    pub fn has_waits(&self) -> bool {
        self.output.waits_event.is_some()
    }

    /// Sends all events of the file to `sink`.
    pub fn run(mut self, sink: &mut dyn EventSink) -> Result<Imported, ImportError> {
        loop {
            if let Some(until) = self.ready.take() {
                self.take(until, sink);
            }
            if self.input.ended.is_some() {
                break;
            }
            self.ready = self.input.step(&mut self.order)?;
        }
        self.take(u64::MAX, sink);
        let damage = match self.input.ended {
            Some(Ended::At(End::CutOff(_))) => Some("the file is cut off here"),
            Some(Ended::At(End::Damaged(_)) | Ended::Compressed(_)) => Some("the file is damaged from here on"),
            Some(Ended::At(End::Whole)) | None => None,
        };
        let output = &mut self.output;
        let end = Timestamp(output.latest.max(self.zero));
        // perf counts twice: in the ring's records of lost ones, and by event at the end.
        let untold = output
            .lost_samples
            .saturating_sub(output.translator.lost(Subject::Running));
        output
            .translator
            .report_lost(end, untold, LostCause::SamplesRingFull, sink);
        if let Some(what) = damage {
            sink.on_event(&Event::Malformed { time: end, what });
        }
        Ok(self.finish(end))
    }

    fn take(&mut self, until: u64, sink: &mut dyn EventSink) {
        let Import {
            input,
            output,
            order,
            zero,
            ..
        } = self;
        order.take(until, |time, attr, record| {
            if let Some(of) = input.attrs.list.get(attr) {
                output.deliver(time.max(*zero), attr, of, record, &input.features, sink);
            }
        });
    }

    fn finish(self, end: Timestamp) -> Imported {
        let notes = self.notes();
        let Import {
            input,
            output,
            zero,
            modified,
            ..
        } = self;
        let attr = &input.attrs.list[output.event];
        let length = Duration::from_nanos(end.0 - zero);
        let wall = match input.features.clock {
            Some((wall_ns, clock_ns)) => {
                let wall_ns = i128::from(wall_ns) + i128::from(zero) - i128::from(clock_ns);
                let wall_ns = u64::try_from(wall_ns).unwrap_or_default();
                SystemTime::UNIX_EPOCH.checked_add(Duration::from_nanos(wall_ns))
            }
            // The last thing that happened is that the file was written.
            None => modified.and_then(|modified| modified.checked_sub(length)),
        };
        let interval_ns = match (attr.is_rate(), attr.period_or_rate) {
            (_, 0) => 0,
            (true, rate_hz) => 1_000_000_000 / rate_hz,
            (false, period) if attr.counts_cpu_time() => period,
            (false, _) => 0,
        };
        let (program, args) = match input.features.command.split_first() {
            // A command line of perf begins with perf's own.
            Some((program, args)) if input.features.is_spool() && !program.is_empty() => {
                (program.clone(), (!args.is_empty()).then(|| args.to_vec()))
            }
            _ => (output.program.unwrap_or_else(|| "perf.data".to_owned()), None),
        };
        Imported {
            info: RecordingInfo {
                program,
                args,
                clock: ClockReference {
                    timestamp: Timestamp(zero),
                    wall: wall.unwrap_or(SystemTime::UNIX_EPOCH),
                },
                end,
                interval_ns: interval_ns.max(1),
                event: attr.label(),
                unit: match attr.counts_cpu_time() || attr.label().contains("offcpu-time") {
                    true => PeriodUnit::CpuNanoseconds,
                    false => PeriodUnit::Cycles,
                },
                kernel_included: !attr.excludes_kernel(),
                host: input.features.host,
            },
            asked_rate_hz: if interval_ns > 0 { 1e9 / interval_ns as f64 } else { 0.0 },
            notes,
        }
    }

    fn notes(&self) -> Vec<String> {
        let (input, output) = (&self.input, &self.output);
        let mut notes = Vec::new();
        match &input.ended {
            Some(Ended::At(End::CutOff(at))) => notes.push(format!(
                "the file is cut off: it ends at byte {at}, in the middle of a record; what came before it is shown"
            )),
            Some(Ended::At(End::Damaged(at))) => notes.push(format!(
                "the file is damaged at byte {at}; what came before it is shown"
            )),
            Some(Ended::Compressed(error)) => notes.push(format!(
                "the file is damaged: decompressing its records failed ({error}); what came before is shown"
            )),
            _ => {}
        }
        if input.is_unfinished {
            notes.push(
                "perf did not end properly: the file has no build ids, so binaries are only known by path and inode"
                    .into(),
            );
        }
        if input.without_times.is_some() {
            notes.push("the file has no times: its samples are shown 1 ms apart".into());
        }
        if input.features.is_spool() {
            notes.push(
                "this is what sprof had recorded when it was stopped; the CPU time that the kernel counted is not known"
                    .into(),
            );
        }
        let attr = &input.attrs.list[output.event];
        if !attr.has(sample_type::CALLCHAIN) && output.samples > 0 {
            notes.push("recorded without call graphs (perf record -g): each stack is one function".into());
        }
        for (event, samples) in &output.other_samples {
            let name = input.attrs.list[*event].label();
            notes.push(format!(
                "{samples} samples of the event {name} are left out; --event {name} shows them"
            ));
        }
        notes
    }
}

/// Reads what stands among the records of a pipe-mode file but is needed before the first of them: events, build ids, names.
fn scan<R: Read + Seek>(mut records: Records<R>, attrs: &mut Attrs, features: &mut Features) -> io::Result<R> {
    while let Ok(record) = records.next()? {
        let Some((header, body)) = record.split_first_chunk() else {
            break;
        };
        let mut body = Reader(body);
        let mut skip = 0;
        match Header::parse(header).kind {
            record_type::HEADER_ATTR => add_attr(body.0, attrs),
            record_type::HEADER_BUILD_ID => features.add_build_ids(record),
            record_type::EVENT_UPDATE => rename(&mut body, attrs).unwrap_or_default(),
            record_type::HEADER_FEATURE => {
                if let Some(number) = body.u64() {
                    features.add(number, body.0, attrs);
                }
            }
            kind => skip = bytes_after(kind, body.0),
        }
        records.skip(skip)?;
    }
    Ok(records.into_reader())
}

/// HEADER_ATTR: an attr of the size that stands in it, and its ids.
fn add_attr(body: &[u8], attrs: &mut Attrs) {
    let size = body.get(4..).and_then(|rest| Reader(rest).u32()).unwrap_or_default() as usize;
    if let Some((attr, ids)) = body.split_at_checked(size)
        && let Some(attr) = Attr::parse(attr)
    {
        attrs.add(attr, ids);
    }
}

/// EVENT_UPDATE of the kind PERF_EVENT_UPDATE__NAME (2): u64 kind, u64 id, name.
fn rename(body: &mut Reader<'_>, attrs: &mut Attrs) -> Option<()> {
    let kind = body.u64()?;
    let index = attrs.by_id(body.u64()?)?;
    if kind == 2 {
        attrs.list.get_mut(index)?.name = Some(String::from_utf8_lossy(body.c_string()).into_owned());
    }
    Some(())
}

/// Bytes that follow a record without being counted in its size.
fn bytes_after(kind: u32, body: &[u8]) -> u64 {
    match kind {
        record_type::AUXTRACE => Reader(body).u64().unwrap_or_default(),
        record_type::HEADER_TRACING_DATA => u64::from(Reader(body).u32().unwrap_or_default()).next_multiple_of(8),
        _ => 0,
    }
}

fn choose(attrs: &[Attr], event: Option<&str>) -> Result<usize, ImportError> {
    let mut real = attrs.iter().enumerate().filter(|(_, attr)| !attr.is_dummy());
    let Some(asked) = event else {
        return Ok(real.next().map_or(0, |(index, _)| index));
    };
    // perf adds modifiers: `cycles:u`.
    let is_asked = |attr: &Attr| {
        let label = attr.label();
        label == asked || label.split_once(':').is_some_and(|(name, _)| name == asked)
    };
    let found = real.clone().find(|(_, attr)| is_asked(attr));
    found.map(|(index, _)| index).ok_or_else(|| ImportError::NoSuchEvent {
        asked: asked.to_owned(),
        known: real
            .by_ref()
            .map(|(_, attr)| attr.label())
            .collect::<Vec<_>>()
            .join(", "),
    })
}

impl<R: Read + Seek> Input<R> {
    /// Reads one record of the file. Returns the time up to which records can be taken, when that is known again.
    fn step(&mut self, order: &mut Order) -> io::Result<Option<u64>> {
        let record = match self.records.next()? {
            Ok(record) => record,
            Err(end) => {
                self.ended = Some(Ended::At(end));
                return Ok(Some(u64::MAX));
            }
        };
        let Some((header, body)) = record.split_first_chunk() else {
            return Ok(None);
        };
        let ready = match Header::parse(header).kind {
            record_type::COMPRESSED => {
                let piece = body.to_vec();
                self.decompress(&piece, order)
            }
            record_type::COMPRESSED2 => {
                // u64 size of what follows; the rest is padding.
                let mut body = Reader(body);
                let size = body
                    .u64()
                    .and_then(|size| usize::try_from(size).ok())
                    .unwrap_or_default();
                let piece = body.0[..size.min(body.0.len())].to_vec();
                self.decompress(&piece, order)
            }
            _ => {
                let record = record.to_vec();
                let skip = bytes_after(Header::parse(header).kind, &record[decode::HEADER_BYTES..]);
                if skip > 0 {
                    self.records.skip(skip)?;
                }
                self.record(&record, order)
            }
        };
        Ok(ready)
    }

    fn decompress(&mut self, piece: &[u8], order: &mut Order) -> Option<u64> {
        let mut ready = None;
        let mut used = 0;
        loop {
            let decompressor = match &mut self.decompressor {
                Some(decompressor) => decompressor,
                none => match Decompressor::new() {
                    Ok(new) => none.insert(new),
                    Err(error) => {
                        self.ended = Some(Ended::Compressed(error));
                        return ready;
                    }
                },
            };
            let fed = decompressor.feed(&piece[used..], &mut self.plain, PLAIN_BYTES);
            let plain = std::mem::take(&mut self.plain);
            let mut rest = &plain[..];
            while let Some(header) = rest.first_chunk().map(Header::parse) {
                let size = usize::from(header.size);
                if size < decode::HEADER_BYTES {
                    self.ended = Some(Ended::At(End::Damaged(self.records.position())));
                    return ready;
                }
                let Some((record, after)) = rest.split_at_checked(size) else {
                    break;
                };
                ready = ready.max(self.record(record, order));
                rest = after;
            }
            let kept = rest.len();
            self.plain = plain;
            self.plain.drain(..self.plain.len() - kept);
            match fed {
                Ok(more) => used += more,
                Err(error) => {
                    self.ended = Some(Ended::Compressed(error));
                    return ready;
                }
            }
            if used >= piece.len() {
                return ready;
            }
        }
    }

    /// Takes in one record that is not compressed.
    fn record(&mut self, record: &[u8], order: &mut Order) -> Option<u64> {
        let header = Header::parse(record.first_chunk()?);
        if header.kind == record_type::FINISHED_ROUND {
            return Some(order.end_round());
        }
        if header.kind >= FIRST_USER_TYPE || self.is_kernel_mapping(header, record) {
            return None;
        }
        let index = self.attrs.of(record)?;
        let time = match &mut self.without_times {
            None => self.attrs.list[index].time(record).unwrap_or_default(),
            Some(time) => {
                *time += if header.kind == record_type::SAMPLE {
                    STEP_WITHOUT_TIMES_NS
                } else {
                    0
                };
                *time
            }
        };
        order.push(time, index, record)
    }

    /// The kernel and its modules stand as mappings of no process.
    fn is_kernel_mapping(&mut self, header: Header, record: &[u8]) -> bool {
        let is_mapping = matches!(header.kind, record_type::MMAP | record_type::MMAP2);
        if !is_mapping || header.misc & decode::MISC_CPUMODE_MASK != decode::MISC_CPUMODE_KERNEL {
            return false;
        }
        let mut body = Reader(&record[decode::HEADER_BYTES..]);
        let _pid_and_tid = body.u64();
        let start = body.u64();
        let _len_and_offset = (body.u64(), body.u64());
        if header.kind == record_type::MMAP2 {
            let _identity_and_protection = body.bytes(32);
        }
        let name = body.c_string();
        if let Some(start) = start
            && self.kernel.is_none()
            && name.starts_with(b"[kernel.kallsyms]")
        {
            self.kernel = Some((start, name.to_vec()));
        }
        true
    }
}

impl Output {
    fn deliver(
        &mut self,
        time: u64,
        index: usize,
        attr: &Attr,
        record: &[u8],
        features: &Features,
        sink: &mut dyn EventSink,
    ) {
        self.latest = self.latest.max(time);
        let time = Timestamp(time);
        let is_sample = record.first_chunk().map(Header::parse).map(|header| header.kind) == Some(record_type::SAMPLE);
        let subject = match (index == self.event, self.waits_event == Some(index)) {
            (false, true) if is_sample => Subject::WaitStacks,
            (false, true) => Subject::Switches,
            (false, false) if is_sample => {
                *self.other_samples.entry(index).or_default() += 1;
                return;
            }
            _ => Subject::Running,
        };
        let mut registers = sample::Registers::default();
        let mut decoded = sample::decode(record, attr, self.registers, &mut registers);
        match &mut decoded {
            Ok(Record::Mmap { build_id, path, .. }) if build_id.is_none() => {
                *build_id = features.build_ids.get(*path).cloned();
            }
            // perf has its own form of these; sprof reads its spool's.
            Ok(Record::Switch { .. }) if self.waits_event.is_none() => return,
            Ok(Record::Lost { count }) => *count = (*count).min(MOST_LOST),
            Ok(Record::LostSamples { count }) => {
                self.lost_samples = self.lost_samples.saturating_add(*count).min(MOST_LOST);
                return;
            }
            Ok(Record::Comm { exec: true, name, .. }) if self.program.is_none() => {
                self.program = Some(String::from_utf8_lossy(name).into_owned());
            }
            Ok(Record::Sample(sample)) => {
                self.samples += 1;
                if (sample.pid, sample.tid) == (0, 0) {
                    self.name_idle_task(time, sink);
                }
            }
            _ => {}
        }
        self.translator.decoded(time, decoded, subject, sink);
    }

    /// `perf record -a` samples idle CPUs, too, and shows them as its "swapper".
    fn name_idle_task(&mut self, time: Timestamp, sink: &mut dyn EventSink) {
        if !std::mem::replace(&mut self.idle_is_named, true) {
            self.translator.admit_idle_task();
            let name: Result<_, Malformed> = Ok(Record::Comm {
                pid: 0,
                tid: 0,
                exec: false,
                name: b"swapper",
            });
            self.translator.decoded(time, name, Subject::Running, sink);
        }
    }
}
