//! Folded stacks: a line for each stack, root first, with `;` between functions and a number at the end. What
//! `stackcollapse-*.pl`, inferno and other profilers write for flame graphs.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use rustc_hash::FxHashMap;

use super::{Position, ReadError, ReadLimits};
use crate::view::data::{Data, Frame, Func, NONE, Samples, Stack, Thread, Unit};

/// Longest line: ten thousand frames of a hundred bytes.
const MAX_LINE_BYTES: usize = 1 << 20;

/// True if the first line that is not empty is a folded stack. Reads no more than that line.
pub fn is_folded(path: &Path) -> bool {
    let is_file = std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file());
    let Some(file) = is_file.then(|| File::open(path).ok()).flatten() else {
        return false;
    };
    let mut lines = BufReader::new(file.take(MAX_LINE_BYTES as u64 + 1));
    let mut line = Vec::new();
    loop {
        line.clear();
        if lines.read_until(b'\n', &mut line).is_err() || line.is_empty() {
            return false;
        }
        // JSON that is cut off in a number.
        let mut words = line.iter().filter(|byte| !byte.is_ascii_whitespace());
        if (words.next(), words.next()) == (Some(&b'{'), Some(&b'"')) {
            return false;
        }
        // Control characters, NUL above all, are in no text.
        if line.iter().any(|byte| *byte < b' ' && !b"\t\r\n".contains(byte)) {
            return false;
        }
        match parse(&line) {
            Line::Empty => {}
            // One function and a number, and not even an end of the line: it may be the beginning of anything.
            Line::Stack(stack, _) => return line.ends_with(b"\n") || stack.contains(&b';'),
            Line::Wrong(_) => return false,
        }
    }
}

/// Reads the file: one thread, each line a sample at time 0 with the line's number as its weight.
pub fn folded(path: &Path, limits: ReadLimits) -> Result<Data, ReadError> {
    let unreadable = |source| ReadError::Open {
        path: path.to_owned(),
        source,
    };
    let too_large = |what, limit_bytes| ReadError::TooLarge {
        path: path.to_owned(),
        what,
        limit_bytes,
    };
    let mut lines = BufReader::with_capacity(1 << 17, File::open(path).map_err(unreadable)?);
    let mut folding = Folding::default();
    let (mut line, mut bytes) = (Vec::new(), 0u64);
    for number in 1.. {
        line.clear();
        let read = (&mut lines)
            .take(MAX_LINE_BYTES as u64 + 1)
            .read_until(b'\n', &mut line)
            .map_err(unreadable)?;
        if read == 0 {
            break;
        }
        bytes += read as u64;
        if read > MAX_LINE_BYTES {
            return Err(too_large("one line of it", MAX_LINE_BYTES as u64));
        }
        if bytes > limits.json_bytes {
            return Err(too_large("its text", limits.json_bytes));
        }
        match parse(&line) {
            Line::Empty => {}
            Line::Stack(stack, weight) => folding.add(&String::from_utf8_lossy(stack), weight),
            Line::Wrong(what) => {
                return Err(ReadError::Damaged {
                    path: path.to_owned(),
                    what: what.to_owned(),
                    at: Position::Line { line: number },
                });
            }
        }
        if folding.data.stacks.len() as u64 > limits.values {
            return Err(too_large("its number of stacks", limits.values));
        }
    }
    Ok(folding.finish())
}

enum Line<'a> {
    Empty,
    Stack(&'a [u8], f64),
    Wrong(&'static str),
}

fn parse(line: &[u8]) -> Line<'_> {
    let line = line.trim_ascii();
    if line.is_empty() {
        return Line::Empty;
    }
    let expected = "expected a folded stack, `a;b;c 12`";
    let Some(space) = line.iter().rposition(u8::is_ascii_whitespace) else {
        return Line::Wrong(expected);
    };
    let stack = line[..space].trim_ascii();
    let weight = (std::str::from_utf8(&line[space + 1..]).ok())
        .filter(|text| text.starts_with(|first: char| first.is_ascii_digit()))
        .and_then(|text| text.parse::<f64>().ok())
        .filter(|weight| weight.is_finite());
    match weight {
        Some(weight) if !stack.is_empty() => Line::Stack(stack, weight),
        _ => Line::Wrong(expected),
    }
}

#[derive(Default)]
struct Folding {
    data: Data,
    samples: Samples,
    weights: Vec<f64>,
    funcs: FxHashMap<Box<str>, u32>,
    stacks: FxHashMap<(u32, u32), u32>,
}

impl Folding {
    fn add(&mut self, line: &str, weight: f64) {
        let mut stack = NONE;
        for name in line.split(';').map(str::trim).filter(|name| !name.is_empty()) {
            let frame = self.func(name);
            let next = self.data.stacks.len() as u32;
            stack = *self
                .stacks
                .entry((stack, frame))
                .or_insert_with_key(|&(prefix, frame)| {
                    self.data.stacks.push(Stack { prefix, frame });
                    next
                });
        }
        self.samples.stack.push(stack);
        self.samples.time_ms.push(0.0);
        self.weights.push(weight);
    }

    /// A text, a function and a frame have the same number here.
    fn func(&mut self, name: &str) -> u32 {
        if let Some(&known) = self.funcs.get(name) {
            return known;
        }
        let id = self.data.texts.len() as u32;
        self.data.texts.push(name.into());
        self.data.funcs.push(Func {
            name: id,
            lib: NONE,
            file: NONE,
        });
        self.data.frames.push(Frame {
            func: id,
            line: NONE,
            category: NONE,
            lib: NONE,
            address: None,
            inlined: false,
        });
        self.funcs.insert(name.into(), id);
        id
    }

    fn finish(mut self) -> Data {
        self.samples.weight = Some(self.weights);
        Data {
            imported_from: "folded stacks".into(),
            unit: Unit::Samples,
            is_summed: true,
            symbolicated: true,
            threads: vec![Thread {
                samples: self.samples,
                ..Thread::default()
            }],
            ..self.data
        }
    }
}
