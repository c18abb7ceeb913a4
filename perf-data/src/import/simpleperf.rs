//! What Android's simpleperf adds to perf.data: the names of functions, and facts of the recording.
//!
//! The sections stand behind the records as perf's features do, with numbers of simpleperf's own
//! (system/extras/simpleperf/record_file_format.h of the Android sources). Names matter because the files that they are
//! from are on a phone.

use std::collections::{HashMap, HashSet};

use super::attr::Attr;
use crate::abi::record_type;
use crate::decode::{HEADER_BYTES, Reader, RecordHeader};
use recording::protobuf::{FieldValue, MessageFields};

/// Functions of one file at most, and of all files; more than 64 MiB of features can't hold.
const MAX_FUNCTIONS: usize = 4 << 20;

/// True for the mapping of code that the Android Runtime compiled, whose symbols are at the addresses where it was: it
/// has PROT_JIT_SYMFILE_MAP (thread_tree.h) for its protection.
pub(super) fn is_jit(record: &[u8]) -> bool {
    const PROT_JIT: u32 = 0x4000;
    // Header, u32 pid, tid, u64 addr, len, pgoff, 24 bytes of identity, u32 prot.
    let protection = record.get(HEADER_BYTES + 56..).and_then(|rest| Reader(rest).u32());
    let kind = record.first_chunk().map(|header| RecordHeader::parse(header).kind);
    kind == Some(record_type::MMAP2) && protection.is_some_and(|protection| protection & PROT_JIT != 0)
}

/// A file of the recorded system, with functions in which samples were.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedFile {
    /// As mappings have it.
    pub path: Vec<u8>,
    /// It is the kernel: functions are at their addresses, not at relative ones.
    pub is_kernel: bool,
    /// In the order of the file.
    pub functions: Vec<RecordedFunction>,
}

/// A function of a [`RecordedFile`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedFunction {
    /// Relative address, in a module whose file is not there: the offset in the file.
    pub start: u64,
    /// Bytes.
    pub len: u64,
    /// Mangled.
    pub name: String,
}

/// What the sections of simpleperf say.
#[derive(Debug, Default)]
pub(super) struct Simpleperf {
    pub(super) files: Vec<RecordedFile>,
    meta: HashMap<String, String>,
    functions: usize,
    paths: HashSet<Vec<u8>>,
}

impl Simpleperf {
    /// simpleperf wrote the file.
    pub(super) fn is_there(&self) -> bool {
        self.meta.contains_key("simpleperf_version")
    }

    /// True for the path of a file with names.
    pub(super) fn has_functions_of(&self, path: &[u8]) -> bool {
        self.paths.contains(path)
    }

    /// A fact by its name.
    pub(super) fn fact(&self, name: &str) -> Option<&str> {
        self.meta.get(name).map(String::as_str)
    }

    /// For example `Android 14 (Google Pixel 5), Linux 4.19.207`.
    pub(super) fn system(&self, release: Option<&str>) -> Option<String> {
        let mut system = format!("Android {}", self.fact("android_version")?);
        // manufacturer:model:name
        if let Some((maker, rest)) = self.fact("product_props").and_then(|props| props.split_once(':')) {
            let model = rest.split(':').next().unwrap_or_default();
            system.push_str(&format!(" ({maker} {model})"));
        }
        if let Some(release) = release {
            system.push_str(&format!(", {release}"));
        }
        Some(system)
    }

    /// META_INFO: pairs of C strings.
    pub(super) fn add_facts(&mut self, data: &[u8], attrs: &mut [Attr]) {
        let mut texts = data.split(|byte| *byte == 0).map(String::from_utf8_lossy);
        while let (Some(key), Some(value)) = (texts.next(), texts.next()) {
            self.meta.insert(key.into_owned(), value.into_owned());
        }
        // A line for each event: name, type, config.
        for line in self.fact("event_type_info").unwrap_or_default().lines() {
            let mut parts = line.rsplitn(3, ',');
            let (config, kind) = (parts.next(), parts.next());
            let (Some(config), Some(kind), Some(name)) = (number(config), number(kind), parts.next()) else {
                continue;
            };
            let is_it = |attr: &&mut Attr| (u64::from(attr.kind), attr.config) == (kind, config);
            attrs
                .iter_mut()
                .filter(is_it)
                .for_each(|attr| attr.name = Some(name.to_owned()));
        }
    }

    /// FILE, before Android 12: for each file u32 size of what follows, path, u32 type, u64 lowest address, u32 count
    /// and `count` times (u64 address, u32 length, name); then, by type, where the lowest address is in the file.
    pub(super) fn add_files(&mut self, data: &[u8]) {
        let mut data = Reader(data);
        while let Some(file) = data.u32().and_then(|bytes| data.bytes(bytes as usize)) {
            let _ = self.add_file(file);
        }
    }

    fn add_file(&mut self, file: &[u8]) -> Option<()> {
        let mut file = Reader(file);
        let path = c_string(&mut file)?.to_vec();
        let kind = file.u32()?;
        let lowest = file.u64()?;
        let count = file.u32()?;
        let mut symbols = Vec::new();
        for _ in 0..count {
            let start = file.u64()?;
            let len = u64::from(file.u32()?);
            symbols.push((start, len, text(c_string(&mut file)?)));
            if symbols.len() + self.functions > MAX_FUNCTIONS {
                break;
            }
        }
        let offset = if kind == file_type::ELF { file.u64() } else { None };
        self.add(path, kind, lowest, offset, symbols);
        Some(())
    }

    /// FILE2, since Android 12: for each file u32 size, and a protobuf message `FileFeature` (record_file.proto).
    pub(super) fn add_file_messages(&mut self, data: &[u8]) {
        let mut data = Reader(data);
        while let Some(message) = data.u32().and_then(|bytes| data.bytes(bytes as usize)) {
            let _ = self.add_file_message(message);
        }
    }

    fn add_file_message(&mut self, message: &[u8]) -> Option<()> {
        let (mut path, mut kind, mut lowest, mut offset) = (Vec::new(), 0, 0, None);
        let mut symbols = Vec::new();
        for field in MessageFields::new(message) {
            match field.ok()? {
                (1, FieldValue::Bytes(bytes)) => path = bytes.to_vec(),
                (2, FieldValue::Number(number)) => kind = u32::try_from(number).ok()?,
                (3, FieldValue::Number(number)) => lowest = number,
                (4, FieldValue::Bytes(symbol)) if symbols.len() + self.functions < MAX_FUNCTIONS => {
                    symbols.push(symbol_message(symbol)?);
                }
                (6, FieldValue::Bytes(elf)) => {
                    for field in MessageFields::new(elf) {
                        if let (1, FieldValue::Number(number)) = field.ok()? {
                            offset = Some(number);
                        }
                    }
                }
                _ => {}
            }
        }
        // A number that is 0 is left out.
        let offset = offset.or((kind == file_type::ELF).then_some(0));
        self.add(path, kind, lowest, offset, symbols);
        Some(())
    }

    /// `offset`: where in the file the lowest address is.
    fn add(&mut self, path: Vec<u8>, kind: u32, lowest: u64, offset: Option<u64>, symbols: Vec<(u64, u64, String)>) {
        // Their addresses are in the module's file, and samples at those of the kernel.
        if kind == file_type::KERNEL_MODULE || symbols.is_empty() {
            return;
        }
        let shift = match kind {
            file_type::ELF => offset
                .filter(|offset| *offset != u64::MAX)
                .unwrap_or_default()
                .wrapping_sub(lowest),
            _ => 0,
        };
        self.functions += symbols.len();
        self.paths.insert(path.clone());
        self.files.push(RecordedFile {
            path,
            is_kernel: kind == file_type::KERNEL,
            functions: (symbols.into_iter())
                .map(|(start, len, name)| RecordedFunction {
                    start: start.wrapping_add(shift),
                    len,
                    name,
                })
                .collect(),
        });
    }
}

/// `enum DsoType`, dso.h.
mod file_type {
    pub(super) const KERNEL: u32 = 0;
    pub(super) const KERNEL_MODULE: u32 = 1;
    pub(super) const ELF: u32 = 2;
}

/// Address, length and name of a symbol; `None` if the message is damaged.
fn symbol_message(message: &[u8]) -> Option<(u64, u64, String)> {
    let (mut start, mut len, mut name) = (0, 0, String::new());
    for field in MessageFields::new(message) {
        match field.ok()? {
            (1, FieldValue::Number(number)) => start = number,
            (2, FieldValue::Number(number)) => len = number,
            (3, FieldValue::Bytes(bytes)) => name = text(bytes),
            _ => {}
        }
    }
    Some((start, len, name))
}

/// Takes a string and the NUL behind it.
fn c_string<'a>(data: &mut Reader<'a>) -> Option<&'a [u8]> {
    let len = data.0.iter().position(|byte| *byte == 0)?;
    let text = data.bytes(len)?;
    data.bytes(1)?;
    Some(text)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn number(text: Option<&str>) -> Option<u64> {
    text?.trim().parse().ok()
}
