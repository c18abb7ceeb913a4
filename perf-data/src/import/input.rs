//! From bytes to records in time order: decompressed, without those that stand for the file itself.

use std::io::{self, Read, Seek};

use super::compressed::Decompressor;
use super::header::{FileAttrs, FileFeatures, HeaderContents};
use super::order::RecordOrder;
use super::records::{RecordReader, RecordsEnd};
use crate::abi::{misc, record_type};
use crate::decode::{self, Reader, RecordHeader};
use crate::spool::{SampleDecoder, SprofRecord};

/// Decompressed bytes that wait at most until they are taken apart.
const PLAIN_BYTES: usize = 4 << 20;

/// How far apart the samples of a file without times are put.
const STEP_WITHOUT_TIMES_NS: u64 = 1_000_000;

/// The way from bytes to records in time order.
pub(super) struct ImportInput<R> {
    records: RecordReader<R>,
    pub(super) attrs: FileAttrs,
    pub(super) features: FileFeatures,
    decompressor: Option<Decompressor>,
    /// A compressed record that is not all taken apart yet, from its first byte that is not.
    piece: Option<Vec<u8>>,
    plain: Vec<u8>,
    /// Decodes samples of a spool: they refer to earlier samples for the rest of their stacks.
    samples: SampleDecoder,
    /// Where the kernel was: an address, and the name of its mapping.
    pub(super) kernel: Option<(u64, Vec<u8>)>,
    pub(super) is_unfinished: bool,
    /// The kind of a processor's trace in the file: `enum auxtrace_type` of tools/perf/util/auxtrace.h.
    pub(super) trace: Option<u32>,
    pub(super) ended: Option<InputEnd>,
    /// Time of the last record, where records have none: one step for each sample.
    pub(super) without_times: Option<u64>,
}

/// Why no more records come.
pub(super) enum InputEnd {
    At(RecordsEnd),
    Compressed(io::Error),
}

impl<R: Read + Seek> ImportInput<R> {
    /// The records of a file with these contents.
    pub(super) fn new(file: R, contents: HeaderContents, has_times: bool) -> io::Result<ImportInput<R>> {
        Ok(ImportInput {
            records: RecordReader::new(file, contents.start, contents.end)?,
            attrs: contents.attrs,
            features: contents.features,
            decompressor: None,
            piece: None,
            plain: Vec::new(),
            samples: SampleDecoder::default(),
            kernel: None,
            is_unfinished: contents.is_unfinished,
            trace: None,
            ended: None,
            without_times: (!has_times).then_some(STEP_WITHOUT_TIMES_NS),
        })
    }

    /// Takes in the records that come before all others.
    pub(super) fn initial_records(&mut self, order: &mut RecordOrder) {
        let records = std::mem::take(&mut self.features.initial_records);
        let mut rest = &records[..];
        while let Some(header) = rest.first_chunk().map(RecordHeader::parse) {
            let size = usize::from(header.size).max(decode::HEADER_BYTES);
            let Some((record, after)) = rest.split_at_checked(size) else {
                return;
            };
            self.record(record, order);
            rest = after;
        }
    }

    /// Reads one record of the file, or of a compressed one what [`PLAIN_BYTES`] hold. Returns the time up to which
    /// records can be taken, when that is known again, or up to which they must be.
    pub(super) fn step(&mut self, order: &mut RecordOrder) -> io::Result<Option<u64>> {
        let ready = match self.piece.take() {
            Some(piece) => self.decompress(piece, order),
            None => self.next(order)?,
        };
        Ok(ready.max(order.overflow()))
    }

    fn next(&mut self, order: &mut RecordOrder) -> io::Result<Option<u64>> {
        let record = match self.records.next()? {
            Ok(record) => record,
            Err(end) => {
                self.ended = Some(InputEnd::At(end));
                return Ok(Some(u64::MAX));
            }
        };
        let Some((header, body)) = record.split_first_chunk() else {
            return Ok(None);
        };
        let ready = match RecordHeader::parse(header).kind {
            record_type::COMPRESSED => {
                let piece = body.to_vec();
                self.decompress(piece, order)
            }
            record_type::COMPRESSED2 => {
                // u64 size of what follows; the rest is padding.
                let mut body = Reader(body);
                let size = body
                    .u64()
                    .and_then(|size| usize::try_from(size).ok())
                    .unwrap_or_default();
                let piece = body.0[..size.min(body.0.len())].to_vec();
                self.decompress(piece, order)
            }
            _ => {
                let record = record.to_vec();
                let skip = bytes_after(RecordHeader::parse(header).kind, &record[decode::HEADER_BYTES..]);
                if skip > 0 {
                    self.records.skip(skip)?;
                }
                self.record(&record, order)
            }
        };
        Ok(ready)
    }

    /// Takes in the records of a piece, as far as [`PLAIN_BYTES`] go: what is left of it is for the next step.
    fn decompress(&mut self, mut piece: Vec<u8>, order: &mut RecordOrder) -> Option<u64> {
        let mut ready = None;
        let decompressor = match &mut self.decompressor {
            Some(decompressor) => decompressor,
            none => match Decompressor::new() {
                Ok(new) => none.insert(new),
                Err(error) => {
                    self.ended = Some(InputEnd::Compressed(error));
                    return None;
                }
            },
        };
        let fed = decompressor.feed(&piece, &mut self.plain, PLAIN_BYTES);
        let plain = std::mem::take(&mut self.plain);
        let mut rest = &plain[..];
        while let Some(header) = rest.first_chunk().map(RecordHeader::parse) {
            let size = usize::from(header.size);
            if size < decode::HEADER_BYTES {
                self.ended = Some(InputEnd::At(RecordsEnd::Damaged(self.records.position())));
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
            Ok((_, true)) => {}
            Ok((used, false)) => {
                piece.drain(..used);
                self.piece = Some(piece);
            }
            Err(error) => self.ended = Some(InputEnd::Compressed(error)),
        }
        ready
    }

    /// Takes in one record that is not compressed.
    fn record(&mut self, record: &[u8], order: &mut RecordOrder) -> Option<u64> {
        let header = RecordHeader::parse(record.first_chunk()?);
        if header.kind == record_type::FINISHED_ROUND {
            return Some(order.end_round());
        }
        let whole;
        let (record, header) = match self.features.is_spool().then(|| self.samples.whole(record)).flatten() {
            None => (record, header),
            Some(sample) => {
                whole = sample;
                (&whole[..], RecordHeader::parse(whole.first_chunk()?))
            }
        };
        if self.features.is_spool()
            && let Some(own) = SprofRecord::parse(record)
        {
            order.push(own.time().0, 0, record);
        }
        if header.kind == record_type::AUXTRACE_INFO {
            self.trace = self.trace.or(Reader(&record[decode::HEADER_BYTES..]).u32());
        }
        if header.kind >= record_type::FIRST_USER || self.is_kernel_mapping(header, record) {
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
        order.push(time, index, record);
        None
    }

    /// The kernel and its modules stand as mappings of no process.
    fn is_kernel_mapping(&mut self, header: RecordHeader, record: &[u8]) -> bool {
        let is_mapping = matches!(header.kind, record_type::MMAP | record_type::MMAP2);
        if !is_mapping || header.misc & misc::CPUMODE_MASK != misc::KERNEL {
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

/// Bytes that follow a record without being counted in its size.
pub(super) fn bytes_after(kind: u32, body: &[u8]) -> u64 {
    match kind {
        record_type::AUXTRACE => Reader(body).u64().unwrap_or_default(),
        // simpleperf puts them into the record.
        record_type::HEADER_TRACING_DATA if body.len() > 8 => 0,
        record_type::HEADER_TRACING_DATA => u64::from(Reader(body).u32().unwrap_or_default()).next_multiple_of(8),
        _ => 0,
    }
}
