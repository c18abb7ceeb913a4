//! Folded stacks: a line for each stack, root first, with `;` between functions and a number at the end. Written by
//! `stackcollapse-*.pl`, inferno and other profilers for flame graphs.

use super::encoding;
use super::source::ForeignFile;
use super::tables::ForeignTables;
use super::{Foreign, ReadError};
use crate::data::{Data, Frame, Func, NONE, Samples, Stack, Thread, WeightUnit};
use crate::unique::Unique;

/// True if the first line with content is a folded stack.
pub(super) fn is_folded(start: &[u8]) -> bool {
    for line in start.split_inclusive(|byte| *byte == b'\n') {
        // JSON that is cut off in a number.
        let mut words = line.iter().filter(|byte| !byte.is_ascii_whitespace());
        if (words.next(), words.next()) == (Some(&b'{'), Some(&b'"')) {
            return false;
        }
        // Text has no control characters, NUL above all.
        if line.iter().any(|byte| *byte < b' ' && !b"\t\r\n".contains(byte)) {
            return false;
        }
        match parse(line) {
            FoldedLine::Empty => {}
            // One function and a number without a line end may begin any format.
            FoldedLine::Stack(stack, _) => return line.ends_with(b"\n") || stack.contains(&b';'),
            FoldedLine::Wrong(_) => return false,
        }
    }
    false
}

/// Reads one thread. Each line is a sample at time 0, with the line's number as its weight.
pub(super) fn read(source: &mut ForeignFile) -> Result<Foreign, ReadError> {
    let mut lines = source.read()?;
    let mut folding = FoldedReader::default();
    let mut line = Vec::new();
    while lines.line(&mut line)? {
        match parse(&line) {
            FoldedLine::Empty => {}
            FoldedLine::Stack(stack, weight) => folding.add(&encoding::text(stack), weight),
            FoldedLine::Wrong(what) => return Err(lines.wrong_line(what)),
        }
        lines.keeps(folding.values())?;
    }
    Ok(Foreign {
        data: folding.finish(),
        notes: Vec::new(),
    })
}

enum FoldedLine<'a> {
    Empty,
    Stack(&'a [u8], f64),
    Wrong(&'static str),
}

fn parse(line: &[u8]) -> FoldedLine<'_> {
    let line = line.trim_ascii();
    if line.is_empty() {
        return FoldedLine::Empty;
    }
    let expected = "expected a folded stack, `a;b;c 12`";
    let Some(space) = line.iter().rposition(u8::is_ascii_whitespace) else {
        return FoldedLine::Wrong(expected);
    };
    let stack = line[..space].trim_ascii();
    let weight = (std::str::from_utf8(&line[space + 1..]).ok())
        .filter(|text| {
            let digits = text.strip_prefix('-').unwrap_or(text);
            digits.starts_with(|first: char| first.is_ascii_digit())
        })
        .and_then(|text| text.parse::<f64>().ok())
        .filter(|weight| weight.is_finite());
    match weight {
        Some(weight) if !stack.is_empty() => FoldedLine::Stack(stack, weight),
        _ => FoldedLine::Wrong(expected),
    }
}

#[derive(Default)]
struct FoldedReader {
    samples: Samples,
    weights: Vec<f64>,
    /// A text, its function and its frame have the same number.
    names: Unique<Box<str>>,
    name_bytes: u64,
    stacks: Unique<Stack>,
}

impl FoldedReader {
    /// The approximate memory in units of 8 bytes.
    fn values(&self) -> u64 {
        let names = 25 * self.names.all.len() as u64 + self.name_bytes / 4;
        names + ForeignTables::STACK_VALUES * self.stacks.all.len() as u64 + 4 * self.weights.len() as u64
    }

    fn add(&mut self, line: &str, weight: f64) {
        let mut stack = NONE;
        for name in line.split(';').map(str::trim).filter(|name| !name.is_empty()) {
            let known = self.names.all.len();
            let (prefix, frame) = (stack, self.names.index_of(name));
            if self.names.all.len() > known {
                self.name_bytes += name.len() as u64;
            }
            stack = self.stacks.index(Stack { prefix, frame });
        }
        self.samples.stack.push(stack);
        self.samples.time_ms.push(0.0);
        self.weights.push(weight);
    }

    fn finish(mut self) -> Data {
        self.samples.weight = Some(self.weights);
        let ids = 0..self.names.all.len() as u32;
        Data {
            funcs: ids.clone().map(|id| Func::native(id, NONE, NONE)).collect(),
            frames: ids.map(Frame::of).collect(),
            texts: self.names.all,
            stacks: self.stacks.all,
            imported_from: "folded stacks".into(),
            unit: WeightUnit::Samples,
            is_summed: true,
            symbolicated: true,
            threads: vec![Thread {
                samples: self.samples,
                ..Thread::default()
            }],
            ..Data::default()
        }
    }
}
