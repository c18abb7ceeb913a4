//! pprof's format, gzip and protobuf, for `go tool pprof` and all that read it: the numbers of fields are those of
//! <https://github.com/google/pprof/blob/main/proto/profile.proto>.
//!
//! A sample is one call path of one thread. Functions that were inlined are lines of the same location, as their address is
//! the same.

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use rustc_hash::FxHashMap;

use super::label::{self, NO_STACK};
use super::protobuf::Message;
use super::{Counted, Picked, Time};
use crate::view::data::{Data, NONE, Thread};

/// Fields of `Profile`.
mod field {
    pub(super) const SAMPLE_TYPE: u64 = 1;
    pub(super) const SAMPLE: u64 = 2;
    pub(super) const MAPPING: u64 = 3;
    pub(super) const LOCATION: u64 = 4;
    pub(super) const FUNCTION: u64 = 5;
    pub(super) const STRING_TABLE: u64 = 6;
    pub(super) const TIME_NANOS: u64 = 9;
    pub(super) const DURATION_NANOS: u64 = 10;
    pub(super) const PERIOD_TYPE: u64 = 11;
    pub(super) const PERIOD: u64 = 12;
    pub(super) const COMMENT: u64 = 13;
    pub(super) const DEFAULT_SAMPLE_TYPE: u64 = 14;
}

/// Writes the samples: how many there are (`samples`), and what they count (`cpu` or `delay` in nanoseconds, `space` in bytes).
/// Where each sample counts as one, its time is the profile's interval.
pub fn write(picked: &Picked<'_>, out: impl Write) -> io::Result<()> {
    let mut writer = Writer {
        out: GzEncoder::new(out, Compression::default()),
        picked,
        data: picked.data,
        message: Message::default(),
        texts: Vec::new(),
        text_ids: FxHashMap::default(),
        chains: FxHashMap::default(),
        locations: Vec::new(),
        mappings: Vec::new(),
    };
    writer.profile()?;
    writer.out.finish()?.flush()
}

struct Writer<'a, W: Write> {
    out: GzEncoder<W>,
    picked: &'a Picked<'a>,
    data: &'a Data,
    message: Message,
    texts: Vec<String>,
    text_ids: FxHashMap<String, u64>,
    /// The location of the frames of one address: that of the outer ones, and a frame inlined into them.
    chains: FxHashMap<(u32, u32), u32>,
    /// Each as the location that it extends, and its innermost frame.
    locations: Vec<(u32, u32)>,
    mappings: Vec<Mapping>,
}

/// Where a library lies in the address space that is made up for the file: a profile has offsets in libraries only.
#[derive(Clone, Copy)]
struct Mapping {
    start: u64,
    limit: u64,
}

/// Pages between two libraries.
const PAGE: u64 = 0x1000;

impl<W: Write> Writer<'_, W> {
    fn profile(&mut self) -> io::Result<()> {
        // The first text must be empty.
        self.text("");
        let (what, unit) = self.value_type();
        for (kind, unit) in [("samples", "count"), (what, unit)] {
            let value_type = self.typed(kind, unit);
            self.put(field::SAMPLE_TYPE, &value_type)?;
        }
        self.lay_out();
        let threads: &[Thread] = &self.data.threads;
        for thread in threads {
            self.samples(thread)?;
        }
        self.write_mappings()?;
        self.write_locations()?;
        self.write_functions()?;
        self.write_times()?;
        // Last, when all are known.
        for text in std::mem::take(&mut self.texts) {
            self.message.clear();
            self.message.text(field::STRING_TABLE, &text);
            self.out.write_all(self.message.bytes())?;
        }
        Ok(())
    }

    /// Names that pprof's own profiles have.
    fn value_type(&self) -> (&'static str, &'static str) {
        match (self.picked.counted(), self.picked.time()) {
            (Counted::Bytes, _) => ("space", "bytes"),
            (_, Time::Cpu) => ("cpu", "nanoseconds"),
            (_, Time::Waits) => ("delay", "nanoseconds"),
            (_, Time::All) => ("wall", "nanoseconds"),
        }
    }

    fn interval_ns(&self) -> u64 {
        (self.data.interval_ms * 1e6).round() as u64
    }

    fn samples(&mut self, thread: &Thread) -> io::Result<()> {
        let mut sums: FxHashMap<u32, (u64, u64)> = FxHashMap::default();
        for sample in self.picked.samples(thread) {
            let (count, weight) = sums.entry(sample.stack).or_default();
            *count = count.saturating_add(sample.count);
            *weight = weight.saturating_add(sample.weight);
        }
        let mut sums: Vec<_> = sums.into_iter().collect();
        sums.sort_unstable_by_key(|(stack, _)| *stack);
        let labels = [
            ("process", label::process(thread).into_owned()),
            ("thread", label::thread(thread)),
        ];
        let labels = labels.map(|(key, value)| (self.text(key), self.text(&value)));
        for (stack, (count, weight)) in sums {
            let value = match self.picked.counted() {
                Counted::Samples => weight.saturating_mul(self.interval_ns()),
                Counted::Nanoseconds | Counted::Bytes => weight,
            };
            let path = self.path(stack);
            let mut sample = Message::default();
            sample.packed(1, path.into_iter());
            // They are signed.
            sample.packed(2, [count, value].into_iter().map(|value| value.min(i64::MAX as u64)));
            for (key, text) in labels {
                let mut label = Message::default();
                label.number(1, key);
                label.number(2, text);
                sample.message(3, &label);
            }
            self.put(field::SAMPLE, &sample)?;
        }
        Ok(())
    }

    /// Ids of the locations of a stack, leaf first.
    fn path(&mut self, mut stack: u32) -> Vec<u64> {
        let mut frames = Vec::new();
        while stack != NONE {
            let node = self.data.stacks[stack as usize];
            frames.push(node.frame);
            stack = node.prefix;
        }
        if frames.is_empty() {
            // Stands for the frame of a sample without a stack.
            frames.push(NONE);
        }
        let mut path: Vec<u64> = Vec::new();
        let mut outer = NONE;
        for frame in frames.into_iter().rev() {
            let is_inlined = self.data.frames.get(frame as usize).is_some_and(|frame| frame.inlined);
            let extends = if is_inlined { outer } else { NONE };
            let next = self.locations.len() as u32;
            let location = *self.chains.entry((extends, frame)).or_insert(next);
            if location == next {
                self.locations.push((extends, frame));
            }
            if extends != NONE {
                path.pop();
            }
            path.push(u64::from(location) + 1);
            outer = location;
        }
        path.reverse();
        path
    }

    /// Gives each library a place of its own.
    fn lay_out(&mut self) {
        let mut sizes = vec![0u64; self.data.libs.len()];
        for frame in &self.data.frames {
            if let (Some(size), Some(address)) = (sizes.get_mut(frame.lib as usize), frame.address) {
                *size = (*size).max(address);
            }
        }
        let mut start = 0x10_0000u64;
        for size in sizes {
            let limit = start.saturating_add(size).saturating_add(PAGE) & !(PAGE - 1);
            self.mappings.push(Mapping { start, limit });
            start = limit.saturating_add(PAGE);
        }
    }

    fn write_mappings(&mut self) -> io::Result<()> {
        let libs = &self.data.libs;
        for (id, lib) in libs.iter().enumerate() {
            let Mapping { start, limit } = self.mappings[id];
            let name = lib
                .path
                .as_deref()
                .or(lib.name.as_deref())
                .or(lib.debug_name.as_deref());
            let build_id = lib.code_id.as_deref().or(lib.breakpad_id.as_deref());
            let (name, build_id) = (
                self.text(name.unwrap_or_default()),
                self.text(build_id.unwrap_or_default()),
            );
            let mut mapping = Message::default();
            mapping.number(1, id as u64 + 1);
            mapping.number(2, start);
            mapping.number(3, limit);
            mapping.number(5, name);
            mapping.number(6, build_id);
            // has_functions, has_filenames, has_line_numbers, has_inline_frames: what is known is in the file, and pprof is not
            // to ask files for more, at addresses that are made up.
            for field in 7..=10 {
                mapping.number(field, u64::from(self.data.symbolicated));
            }
            self.put(field::MAPPING, &mapping)?;
        }
        Ok(())
    }

    fn write_locations(&mut self) -> io::Result<()> {
        let no_stack = self.data.funcs.len() as u64 + 1;
        for id in 0..self.locations.len() {
            let mut location = Message::default();
            location.number(1, id as u64 + 1);
            let (_, innermost) = self.locations[id];
            if let Some(frame) = self.data.frames.get(innermost as usize)
                && let Some(mapping) = self.mappings.get(frame.lib as usize)
            {
                location.number(2, u64::from(frame.lib) + 1);
                location.number(3, mapping.start.saturating_add(frame.address.unwrap_or(0)));
            }
            // The innermost first.
            let mut next = id as u32;
            while let Some((outer, frame)) = self.locations.get(next as usize) {
                let mut line = Message::default();
                match self.data.frames.get(*frame as usize) {
                    Some(frame) => {
                        line.number(1, u64::from(frame.func) + 1);
                        line.number(2, if frame.line == NONE { 0 } else { frame.line.into() });
                    }
                    None => line.number(1, no_stack),
                }
                location.message(4, &line);
                next = *outer;
            }
            self.put(field::LOCATION, &location)?;
        }
        Ok(())
    }

    fn write_functions(&mut self) -> io::Result<()> {
        let data = self.data;
        for (id, func) in data.funcs.iter().enumerate() {
            let name = self.text(&label::function(data, id as u32));
            let file = self.text(data.text(func.file));
            self.function(id as u64 + 1, name, file)?;
        }
        let name = self.text(NO_STACK);
        self.function(data.funcs.len() as u64 + 1, name, 0)
    }

    fn function(&mut self, id: u64, name: u64, file: u64) -> io::Result<()> {
        let mut function = Message::default();
        function.number(1, id);
        function.number(2, name);
        function.number(3, name);
        function.number(4, file);
        self.put(field::FUNCTION, &function)
    }

    fn write_times(&mut self) -> io::Result<()> {
        let (what, unit) = self.value_type();
        let period_type = self.typed(what, unit);
        let default_type = self.text(what);
        let comment = self.text(&format!("recorded program: {}", self.data.product));
        self.put(field::PERIOD_TYPE, &period_type)?;
        let ns = |ms: f64| (ms * 1e6).round().clamp(0.0, i64::MAX as f64) as u64;
        let ends = self
            .data
            .threads
            .iter()
            .flat_map(|thread| thread.samples.time_ms.iter().copied());
        let last_ms = ends.filter(|time| time.is_finite()).fold(0.0, f64::max);
        self.message.clear();
        self.message.number(field::TIME_NANOS, ns(self.data.start_ms));
        self.message.number(field::DURATION_NANOS, ns(last_ms));
        self.message.number(field::PERIOD, self.interval_ns());
        self.message.number(field::COMMENT, comment);
        self.message.number(field::DEFAULT_SAMPLE_TYPE, default_type);
        self.out.write_all(self.message.bytes())
    }

    fn typed(&mut self, kind: &str, unit: &str) -> Message {
        let (kind, unit) = (self.text(kind), self.text(unit));
        let mut message = Message::default();
        message.number(1, kind);
        message.number(2, unit);
        message
    }

    fn text(&mut self, text: &str) -> u64 {
        if let Some(id) = self.text_ids.get(text) {
            return *id;
        }
        let id = self.texts.len() as u64;
        self.texts.push(text.to_owned());
        self.text_ids.insert(text.to_owned(), id);
        id
    }

    fn put(&mut self, field: u64, message: &Message) -> io::Result<()> {
        self.message.clear();
        self.message.message(field, message);
        self.out.write_all(self.message.bytes())
    }
}
