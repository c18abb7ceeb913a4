//! Answers of earlier starts, kept in the cache: the next start asks for mostly the same addresses of the same files.

use std::path::PathBuf;

use names::symbol::{AddressInfo, FunctionSymbol, SourceFrame};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::cache::Cache;
use crate::files::object_file::ObjectFile;

/// Answers of a module at most: the first ones.
const MAX_ANSWERS: usize = 50_000;

/// The answers for one module.
pub(super) struct AnswerCache {
    dir: PathBuf,
    /// The name of the cache's entry.
    entry: String,
    /// What the answers depend on: the files, and sprof itself.
    identity: [u8; 32],
    /// By address; `None` until the entry is read.
    known: Option<FxHashMap<u64, AddressInfo>>,
    /// Heap that they take.
    held_bytes: usize,
    /// Answers that are not in the entry.
    unwritten: usize,
    /// True once this start has written the entry.
    is_written: bool,
    /// Why the last write failed, a sentence.
    problem: Option<String>,
}

/// An entry. Numbers of texts are indices into `texts`.
#[derive(Serialize, Deserialize)]
struct StoredAnswers<'a> {
    identity: [u8; 32],
    #[serde(borrow)]
    texts: Vec<&'a str>,
    answers: Vec<(u64, StoredAnswer)>,
}

#[derive(Serialize, Deserialize)]
struct StoredAnswer {
    function: Option<StoredFunction>,
    frames: Vec<StoredFrame>,
}

#[derive(Serialize, Deserialize)]
struct StoredFunction {
    name: u32,
    is_named: bool,
    start: u64,
    size: Option<u64>,
    krate: Option<u32>,
}

#[derive(Serialize, Deserialize)]
struct StoredFrame {
    function: Option<u32>,
    file: Option<u32>,
    declared_in: Option<u32>,
    line: Option<u32>,
    column: Option<u32>,
    krate: Option<u32>,
}

impl AnswerCache {
    /// For these files of a module, all that its answers come from, and the state of what else they depend on. `None`
    /// if one of them can't be recognised at the next start: it has no build id, or is a copy in memory.
    pub(super) fn new<'a>(
        dir: PathBuf,
        files: impl IntoIterator<Item = &'a ObjectFile>,
        beside: &[u8],
    ) -> Option<AnswerCache> {
        let mut identity = Sha256::new();
        identity.update(own_identity()?);
        let mut id = None;
        for file in files {
            id = id.or(file.build_id());
            identity.update(file.identity()?);
        }
        identity.update(beside);
        Some(AnswerCache {
            dir,
            entry: format!("names-{}", id?.to_hex()),
            identity: identity.finalize().into(),
            known: None,
            held_bytes: 0,
            unwritten: 0,
            is_written: false,
            problem: None,
        })
    }

    /// The answer for an address, if an earlier start or look-up has found it.
    pub(super) fn get(&mut self, address: u64) -> Option<&AddressInfo> {
        self.known().get(&address)
    }

    pub(super) fn add(&mut self, address: u64, answer: &AddressInfo) {
        if self.known().len() < MAX_ANSWERS {
            self.known().insert(address, answer.clone());
            self.held_bytes += heap_of(answer);
            self.unwritten += 1;
        }
    }

    /// Writes the entry if something is new. Later in the same start much must be new: a server that is asked for one
    /// address after the other does not write all of them each time.
    pub(super) fn write(&mut self) {
        let Some(known) = &self.known else { return };
        let needed = if self.is_written { known.len() / 16 } else { 0 };
        if self.unwritten <= needed {
            return;
        }
        // Without an entry the next start looks these addresses up again.
        let written = encode(self.identity, known).map(|bytes| Cache::new(&self.dir).put(&self.entry, &bytes));
        let problem = written.and_then(Result::err);
        self.problem = problem.map(|error| format!("cannot keep names in {}: {error}", self.dir.display()));
        self.unwritten = 0;
        self.is_written = true;
    }

    fn known(&mut self) -> &mut FxHashMap<u64, AddressInfo> {
        let AnswerCache {
            dir,
            entry,
            identity,
            held_bytes,
            ..
        } = self;
        self.known.get_or_insert_with(|| {
            let bytes = Cache::new(dir).get(entry);
            let known = bytes.and_then(|bytes| decode(*identity, &bytes)).unwrap_or_default();
            *held_bytes = known.values().map(heap_of).sum();
            known
        })
    }

    /// Heap bytes.
    pub(super) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Why the last write failed, a sentence.
    pub(super) fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }
}

/// Heap bytes of an answer in the map.
pub(super) fn heap_of(answer: &AddressInfo) -> usize {
    let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    let frames = answer.frames.iter();
    let texts =
        |frame: &SourceFrame| text(&frame.function) + text(&frame.file) + text(&frame.declared_in) + text(&frame.krate);
    let frames = frames.map(|frame| size_of::<SourceFrame>() + texts(frame));
    let name = (answer.function.as_ref()).map_or(0, |function| function.name.len() + text(&function.krate));
    size_of::<(u64, AddressInfo)>() + name + frames.sum::<usize>()
}

/// Another build of sprof may find other names.
fn own_identity() -> Option<Vec<u8>> {
    static OWN: std::sync::OnceLock<Option<Vec<u8>>> = std::sync::OnceLock::new();
    let read = || {
        let own = std::fs::metadata(std::env::current_exe().ok()?).ok()?;
        Some(crate::sys::identity_of(&own))
    };
    OWN.get_or_init(read).clone()
}

fn encode(identity: [u8; 32], known: &FxHashMap<u64, AddressInfo>) -> Option<Vec<u8>> {
    let mut texts = TextTable::default();
    let mut answers: Vec<(u64, StoredAnswer)> = Vec::with_capacity(known.len());
    // In address order the same answers have the same bytes.
    let mut in_order: Vec<(&u64, &AddressInfo)> = known.iter().collect();
    in_order.sort_unstable_by_key(|(address, _)| **address);
    for (address, info) in in_order {
        let function = info.function.as_ref().map(|function| StoredFunction {
            name: texts.number(&function.name),
            is_named: function.is_named,
            start: function.start,
            size: function.size,
            krate: function.krate.as_deref().map(|name| texts.number(name)),
        });
        let frames = info.frames.iter().map(|frame| StoredFrame {
            function: frame.function.as_deref().map(|name| texts.number(name)),
            file: frame.file.as_deref().map(|file| texts.number(file)),
            declared_in: frame.declared_in.as_deref().map(|file| texts.number(file)),
            line: frame.line,
            column: frame.column,
            krate: frame.krate.as_deref().map(|name| texts.number(name)),
        });
        let frames = frames.collect();
        answers.push((*address, StoredAnswer { function, frames }));
    }
    let texts = texts.texts;
    postcard::to_allocvec(&StoredAnswers {
        identity,
        texts,
        answers,
    })
    .ok()
}

/// Each text once.
#[derive(Default)]
struct TextTable<'a> {
    texts: Vec<&'a str>,
    numbers: FxHashMap<&'a str, u32>,
}

impl<'a> TextTable<'a> {
    fn number(&mut self, text: &'a str) -> u32 {
        *self.numbers.entry(text).or_insert_with(|| {
            self.texts.push(text);
            (self.texts.len() - 1) as u32
        })
    }
}

fn decode(identity: [u8; 32], bytes: &[u8]) -> Option<FxHashMap<u64, AddressInfo>> {
    let entry: StoredAnswers<'_> = postcard::from_bytes(bytes).ok()?;
    if entry.identity != identity {
        return None;
    }
    let text = |number: u32| entry.texts.get(number as usize).map(|text| (*text).to_owned());
    // An index without a text is damage: the whole entry is void.
    let optional = |number: Option<u32>| match number {
        Some(number) => text(number).map(Some),
        None => Some(None),
    };
    let answer = |answer: &StoredAnswer| {
        let function = match &answer.function {
            Some(function) => Some(FunctionSymbol {
                name: text(function.name)?,
                is_named: function.is_named,
                start: function.start,
                size: function.size,
                krate: optional(function.krate)?,
                v8: None,
            }),
            None => None,
        };
        let frames = answer.frames.iter().map(|frame| {
            Some(SourceFrame {
                function: optional(frame.function)?,
                file: optional(frame.file)?,
                declared_in: optional(frame.declared_in)?,
                line: frame.line,
                column: frame.column,
                krate: optional(frame.krate)?,
            })
        });
        Some(AddressInfo {
            function,
            frames: frames.collect::<Option<_>>()?,
        })
    };
    let answers = entry.answers.iter();
    answers.map(|(address, kept)| Some((*address, answer(kept)?))).collect()
}
