//! The parts around the records: the file's header, the events, and the feature sections.
//!
//! The format is described in tools/perf/Documentation/perf.data-file-format.txt of the kernel.

use std::collections::HashMap;
use std::io::{self, Read, Seek, SeekFrom};

use recording::info::Host;
use recording::module::BuildId;

use super::attr::Attr;
use super::records::read_up_to;
use super::simpleperf::Simpleperf;
use crate::abi::{feature, misc};
use crate::decode::{HEADER_BYTES, Reader, RecordHeader};

/// "PERFILE2".
pub(super) const MAGIC: [u8; 8] = *b"PERFILE2";
/// The magic as a machine of the other byte order writes it.
pub(super) const MAGIC_SWAPPED: [u8; 8] = *b"2ELIFREP";
/// Size in the header of a file in pipe mode: magic and size only.
const PIPE_HEADER_BYTES: u64 = 16;
/// Bytes of the header that are looked at: magic, size, attr size, three sections, 256 feature bits.
const FILE_HEADER_BYTES: usize = 104;

/// Events and ids (one for each event and CPU) at most.
const MAX_ATTRS: usize = 4096;
const MAX_IDS: usize = 1 << 22;
/// Largest feature that is read. Build ids of a big machine take some megabytes.
const MAX_FEATURE_BYTES: u64 = 64 << 20;

/// The events of a file.
#[derive(Debug, Default)]
pub(super) struct FileAttrs {
    pub(super) list: Vec<Attr>,
    by_id: HashMap<u64, usize>,
}

impl FileAttrs {
    /// Adds an event with its ids.
    pub(super) fn add(&mut self, attr: Attr, ids: &[u8]) {
        if self.list.len() >= MAX_ATTRS {
            return;
        }
        for id in words(ids).take(MAX_IDS - self.by_id.len().min(MAX_IDS)) {
            self.by_id.insert(id, self.list.len());
        }
        self.list.push(attr);
    }

    /// The event that wrote a record.
    pub(super) fn of(&self, record: &[u8]) -> Option<usize> {
        let first = self.list.first()?;
        if self.list.len() == 1 {
            return Some(0);
        }
        // Those that perf itself makes up carry no id.
        let id = first.id(record)?;
        Some(self.by_id.get(&id).copied().unwrap_or(0))
    }

    pub(super) fn by_id(&self, id: u64) -> Option<usize> {
        self.by_id.get(&id).copied()
    }
}

/// What the features say.
#[derive(Debug, Default)]
pub(super) struct FileFeatures {
    /// Build ids by path.
    pub(super) build_ids: HashMap<Vec<u8>, BuildId>,
    pub(super) version: Option<String>,
    pub(super) arch: Option<String>,
    pub(super) command: Vec<String>,
    pub(super) host: Host,
    /// (wall clock, the file's clock), both in ns: the same instant.
    pub(super) clock: Option<(u64, u64)>,
    pub(super) simpleperf: Simpleperf,
    /// Records to be read before all others.
    pub(super) initial_records: Vec<u8>,
}

impl FileFeatures {
    /// sprof wrote the file while recording.
    pub(super) fn is_spool(&self) -> bool {
        let version = self.version.as_deref();
        version.is_some_and(|version| version.starts_with(crate::spool::VERSION_PREFIX))
    }

    /// Takes one feature in. What is too short for its layout is left out.
    pub(super) fn add(&mut self, number: u64, data: &[u8], attrs: &mut FileAttrs) {
        let _ = self.try_add(number, data, attrs);
    }

    fn try_add(&mut self, number: u64, data: &[u8], attrs: &mut FileAttrs) -> Option<()> {
        let mut data = Reader(data);
        match number {
            feature::BUILD_ID => self.add_build_ids(data.0),
            feature::OSRELEASE => self.host.os = Some(format!("Linux {}", string(&mut data)?)),
            feature::VERSION => self.version = Some(string(&mut data)?),
            feature::ARCH => self.arch = Some(string(&mut data)?),
            feature::NRCPUS => {
                let _available = data.u32()?;
                self.host.logical_cpus = Some(data.u32()?);
            }
            feature::CPUDESC => self.host.cpu_name = Some(string(&mut data)?),
            feature::TOTAL_MEM => self.host.memory_bytes = data.u64()?.checked_mul(1024),
            feature::CMDLINE => {
                let count = data.u32()?;
                self.command = (0..count).map_while(|_| string(&mut data)).collect();
            }
            feature::EVENT_DESC => event_names(&mut data, attrs)?,
            feature::SIMPLEPERF_FILE => self.simpleperf.add_files(data.0),
            feature::SIMPLEPERF_FILE2 => self.simpleperf.add_file_messages(data.0),
            feature::SIMPLEPERF_META_INFO => self.simpleperf.add_facts(data.0, &mut attrs.list),
            feature::SIMPLEPERF_INIT_MAP => self.initial_records = data.0.to_vec(),
            feature::CLOCK_DATA => {
                let _version = data.u32()?;
                let _clock = data.u32()?;
                let wall_ns = data.u64()?;
                self.clock = Some((wall_ns, data.u64()?));
            }
            _ => {}
        }
        Some(())
    }

    /// `struct perf_record_header_build_id`, one or several: header, pid, build id, padding, path.
    pub(super) fn add_build_ids(&mut self, mut records: &[u8]) {
        while let Some(header) = records.first_chunk().map(RecordHeader::parse) {
            let Some((record, rest)) = records.split_at_checked(usize::from(header.size).max(HEADER_BYTES)) else {
                return;
            };
            records = rest;
            let mut body = Reader(&record[HEADER_BYTES..]);
            let (Some(_pid), Some(id)) = (body.u32(), body.bytes(24)) else {
                return;
            };
            let size = if header.misc & misc::BUILD_ID_SIZE != 0 {
                id[20]
            } else {
                20
            };
            let id = &id[..usize::from(size).min(20)];
            if id.iter().any(|byte| *byte != 0) {
                self.build_ids.insert(body.c_string().to_vec(), BuildId(id.to_vec()));
            }
        }
    }
}

/// EVENT_DESC: u32 count, u32 attr size, and for each event its attr, u32 ids, its name, and the ids.
fn event_names(data: &mut Reader<'_>, attrs: &mut FileAttrs) -> Option<()> {
    let count = data.u32()?;
    let attr_bytes = data.u32()? as usize;
    for index in 0..count as usize {
        data.bytes(attr_bytes)?;
        let ids = data.u32()? as usize;
        let name = string(data)?;
        let ids = data.bytes(ids.checked_mul(8)?)?;
        let of = words(ids).next().and_then(|id| attrs.by_id(id)).unwrap_or(index);
        attrs.list.get_mut(of)?.name = Some(name);
    }
    Some(())
}

/// `struct perf_header_string`: u32 bytes with padding, then the text, which ends with a NUL.
fn string(data: &mut Reader<'_>) -> Option<String> {
    let bytes = data.u32()? as usize;
    let text = Reader(data.bytes(bytes)?).c_string();
    Some(String::from_utf8_lossy(text).into_owned())
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    bytes.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word))
}

/// A part of the file.
#[derive(Clone, Copy, Debug, Default)]
struct FileSection {
    at: u64,
    bytes: u64,
}

/// What the header of a file leads to.
#[derive(Debug)]
pub(super) struct HeaderContents {
    /// First byte of the records.
    pub(super) start: u64,
    /// One past the last; `None` if they reach to the end of the file.
    pub(super) end: Option<u64>,
    /// Events and features stand among the records.
    pub(super) is_pipe: bool,
    pub(super) attrs: FileAttrs,
    pub(super) features: FileFeatures,
    /// The features are missing: perf writes them when it ends.
    pub(super) is_unfinished: bool,
}

/// Reads the header with all that it points to; `None` if this is not a perf.data file, or one that is cut off in its
/// header.
pub(super) fn read(file: &mut (impl Read + Seek)) -> io::Result<Option<HeaderContents>> {
    let mut header = [0; FILE_HEADER_BYTES];
    file.seek(SeekFrom::Start(0))?;
    let there = read_up_to(file, &mut header)?;
    let word = |at: usize| Reader(&header[at..]).u64().unwrap_or_default();
    if there < PIPE_HEADER_BYTES as usize || header[..8] != MAGIC {
        return Ok(None);
    }
    if word(8) == PIPE_HEADER_BYTES {
        return Ok(Some(HeaderContents {
            start: PIPE_HEADER_BYTES,
            end: None,
            is_pipe: true,
            attrs: FileAttrs::default(),
            features: FileFeatures::default(),
            is_unfinished: false,
        }));
    }
    if there < FILE_HEADER_BYTES {
        return Ok(None);
    }
    let section = |at: usize| FileSection {
        at: word(at),
        bytes: word(at + 8),
    };
    let (attr_bytes, attr_section, data) = (word(16), section(24), section(40));
    let feature_bits: [u64; 4] = std::array::from_fn(|index| word(72 + 8 * index));

    let mut sections = SectionReader::new(file)?;
    let mut attrs = FileAttrs::default();
    // Each entry is an attr and the section of its ids.
    let entry_bytes = attr_bytes.clamp(16, 4096);
    let count = (attr_section.bytes / entry_bytes).min(MAX_ATTRS as u64);
    for index in 0..count {
        let at = attr_section.at.saturating_add(index * entry_bytes);
        let entry = sections.read(FileSection { at, bytes: entry_bytes })?;
        let Some((attr, ids)) = entry.split_last_chunk::<16>() else {
            break;
        };
        let Some(attr) = Attr::parse(attr) else { break };
        let mut ids = Reader(ids);
        let ids = FileSection {
            at: ids.u64().unwrap_or_default(),
            bytes: ids.u64().unwrap_or_default(),
        };
        attrs.add(attr, &sections.read(ids)?);
    }

    // perf fills in the size of the data when it ends, and writes the features behind them. A killed one has announced
    // the features, too: records stand in their place.
    let is_unfinished = data.bytes == 0;
    let mut features = FileFeatures::default();
    let data_end = data.at.saturating_add(data.bytes);
    let is_announced = |bit: &u64| feature_bits[*bit as usize / 64] & 1 << (bit % 64) != 0;
    let numbers = (0..256).filter(|bit| !is_unfinished && is_announced(bit));
    for (index, number) in numbers.enumerate() {
        let at = data_end.saturating_add(16 * index as u64);
        let entry = sections.read(FileSection { at, bytes: 16 })?;
        let mut entry = Reader(&entry);
        let (Some(at), Some(bytes)) = (entry.u64(), entry.u64()) else {
            break;
        };
        features.add(number, &sections.read(FileSection { at, bytes })?, &mut attrs);
    }
    Ok(Some(HeaderContents {
        start: data.at,
        end: (!is_unfinished).then_some(data_end),
        is_pipe: false,
        attrs,
        features,
        is_unfinished,
    }))
}

/// Reads sections. In a sound file no two share bytes; in a damaged one, 4096 events may refer to the same 64 MB of
/// ids.
struct SectionReader<'a, R> {
    file: &'a mut R,
    file_bytes: u64,
    /// Bytes of the file that can still be read.
    left: u64,
}

impl<'a, R: Read + Seek> SectionReader<'a, R> {
    fn new(file: &'a mut R) -> io::Result<SectionReader<'a, R>> {
        let file_bytes = file.seek(SeekFrom::End(0))?;
        Ok(SectionReader {
            file,
            file_bytes,
            left: file_bytes,
        })
    }

    /// The bytes of a section, as far as the file has them.
    fn read(&mut self, section: FileSection) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        // Linux refuses to seek beyond the largest file of a file system (EINVAL).
        if section.at >= self.file_bytes {
            return Ok(bytes);
        }
        self.file.seek(SeekFrom::Start(section.at))?;
        // Grows with what is there, not with what the header says.
        let limit = section.bytes.min(MAX_FEATURE_BYTES).min(self.left);
        (&mut *self.file).take(limit).read_to_end(&mut bytes)?;
        self.left -= bytes.len() as u64;
        Ok(bytes)
    }
}
