//! The pprof format, protobuf in gzip, for `go tool pprof` and others.
//!
//! A sample is one call path of one thread. Inlined functions are lines of one location, because they have one address.

use std::cmp::Reverse;
use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use rustc_hash::FxHashMap;

use super::label;
use super::locations::{LibRange, Locations};
use super::{ExportUnit, Picked};
use crate::category::{CATEGORIES, CodeKind};
use crate::data::NO_STACK_LABEL;
use crate::data::{Data, Frame, NONE, SavedLib, Thread};
use crate::pprof_fields::{self as wire, profile as field};
use crate::view::heap::Measure;
use recording::protobuf::ProtobufMessage;

/// Writes the number of samples (`samples`) and their weight (`cpu` or `delay` in nanoseconds, `space` in bytes, or an
/// imported file's own name). If each sample counts as one, its time is the profile's interval, if known.
///
/// # Errors
///
/// `out` could not be written to.
pub fn write(picked: &Picked<'_>, out: impl Write) -> io::Result<()> {
    write_labelled(picked, true, out)
}

/// As [`write()`], but samples do not name their thread.
///
/// # Errors
///
/// `out` could not be written to.
pub fn write_without_threads(picked: &Picked<'_>, out: impl Write) -> io::Result<()> {
    write_labelled(picked, false, out)
}

fn write_labelled(picked: &Picked<'_>, has_labels: bool, out: impl Write) -> io::Result<()> {
    let data = picked.data;
    let counts = data.has_samples().then_some(("samples".to_owned(), "count".to_owned()));
    let weights = picked.has_weights().then(|| picked.value_type());
    let (has_counts, has_weights) = (counts.is_some(), weights.is_some());
    let types: Vec<_> = counts.into_iter().chain(weights).collect();
    let default = types.len().saturating_sub(1);
    let sums = |thread: &Thread| {
        let mut sums: FxHashMap<u32, (u64, u64)> = FxHashMap::default();
        for sample in picked.samples(thread) {
            let (count, weight) = sums.entry(sample.stack).or_default();
            *count = count.saturating_add(sample.count);
            *weight = weight.saturating_add(sample.weight);
        }
        let values = sums.into_iter().map(|(stack, (count, weight))| {
            let counts = has_counts.then_some(count).into_iter();
            let weights = has_weights.then(|| picked.value(weight));
            (stack, counts.chain(weights).collect())
        });
        values.collect()
    };
    let values = PprofValues {
        of_threads: data.threads.iter().map(sums).collect(),
        default,
        period_type: types.get(default).cloned().unwrap_or_default(),
        types,
        // Bytes and counts have no known distance.
        period: match picked.counted() {
            ExportUnit::Samples | ExportUnit::Nanoseconds => picked.interval_ns(),
            ExportUnit::Bytes | ExportUnit::Named => 0,
        },
        last_ms: picked.last_ms(),
    };
    PprofWriter::new(data, values, has_labels, out).write()
}

/// The values of Go's own heap profiles: type and unit.
const HEAP_TYPES: [(&str, &str); 4] = [
    ("alloc_objects", "count"),
    ("alloc_space", "bytes"),
    ("inuse_objects", "count"),
    ("inuse_space", "bytes"),
];

/// The type that heap profiles of Go have for this measure, if they have one.
pub fn heap_type(measure: Measure) -> Option<&'static str> {
    let at = match measure {
        Measure::Blocks => 0,
        Measure::Allocated => 1,
        Measure::Retained => 3,
        Measure::Peak | Measure::Temporary => return None,
    };
    Some(HEAP_TYPES[at].0)
}

/// Writes the blocks of memory with the four values of Go's heap profiles, and the distance of the chosen bytes as Go
/// does. Tools show the value of `measure` first.
///
/// # Errors
///
/// `out` could not be written to.
pub fn write_heap(data: &Data, measure: Measure, out: impl Write) -> io::Result<()> {
    let mut sums: Vec<FxHashMap<u32, [f64; 4]>> = vec![FxHashMap::default(); data.threads.len()];
    let mut last_ms: f64 = 0.0;
    for block in data.blocks() {
        last_ms = last_ms.max(block.time_ms);
        let [alloc_objects, alloc_space, inuse_objects, inuse_space] =
            sums[block.thread as usize].entry(block.stack).or_default();
        *alloc_objects += block.blocks();
        *alloc_space += block.weight;
        if block.freed_ms.is_infinite() {
            *inuse_objects += block.blocks();
            *inuse_space += block.weight;
        }
    }
    let whole = |sums: [f64; 4]| sums.map(|sum| sum.round() as u64).to_vec();
    let values = PprofValues {
        of_threads: (sums.into_iter())
            .map(|sums| sums.into_iter().map(|(stack, sums)| (stack, whole(sums))).collect())
            .collect(),
        types: HEAP_TYPES
            .map(|(kind, unit)| (kind.to_owned(), unit.to_owned()))
            .to_vec(),
        default: (HEAP_TYPES.iter())
            .position(|(kind, _)| Some(*kind) == heap_type(measure))
            .unwrap_or(HEAP_TYPES.len() - 1),
        period_type: wire::CHOSEN_BYTES.map(str::to_owned).into(),
        period: data.heap_interval().unwrap_or(0),
        last_ms,
    };
    PprofWriter::new(data, values, true, out).write()
}

/// What is written of each call path.
struct PprofValues {
    /// Type and unit of each value.
    types: Vec<(String, String)>,
    /// Index of the type that tools show first.
    default: usize,
    /// By thread: stacks, each with a value of each type.
    of_threads: Vec<Vec<(u32, Vec<u64>)>>,
    /// Type and unit of the period.
    period_type: (String, String),
    /// Distance of samples; 0 if it is not known.
    period: u64,
    /// Time of the last sample, ms.
    last_ms: f64,
}

struct PprofWriter<'a, W: Write> {
    out: GzEncoder<W>,
    data: &'a Data,
    values: PprofValues,
    /// Samples have the names of their process and thread.
    has_labels: bool,
    message: ProtobufMessage,
    texts: Vec<String>,
    text_ids: FxHashMap<String, u64>,
    locations: Locations<'a>,
}

/// The library that is the program itself: by its name, or else the one with most of the program's functions.
fn program(data: &Data) -> Option<usize> {
    let is_product = |lib: &SavedLib| lib.name.as_ref().is_some_and(|name| *name == data.product);
    let by_name = data.libs.iter().position(is_product);
    by_name.or_else(|| {
        let is_of_program = |frame: &&Frame| {
            let category = data.categories.get(frame.category as usize);
            frame.lib != NONE
                && category
                    .is_some_and(|category| category.name == CATEGORIES[CodeKind::Program.category(false).0].name)
        };
        let mut frames = vec![0; data.libs.len()];
        data.frames
            .iter()
            .filter(is_of_program)
            .for_each(|frame| frames[frame.lib as usize] += 1);
        let most = (0..frames.len()).max_by_key(|lib| (frames[*lib], Reverse(*lib)))?;
        (frames[most] > 0).then_some(most)
    })
}

impl<'a, W: Write> PprofWriter<'a, W> {
    fn new(data: &'a Data, values: PprofValues, has_labels: bool, out: W) -> PprofWriter<'a, W> {
        PprofWriter {
            out: GzEncoder::new(out, Compression::default()),
            data,
            values,
            has_labels,
            message: ProtobufMessage::default(),
            texts: Vec::new(),
            text_ids: FxHashMap::default(),
            locations: Locations::new(data),
        }
    }

    fn write(mut self) -> io::Result<()> {
        self.profile()?;
        self.out.finish()?.flush()
    }

    fn profile(&mut self) -> io::Result<()> {
        // The first text must be empty.
        self.text("");
        for (kind, unit) in self.values.types.clone() {
            let value_type = self.typed(&kind, &unit);
            self.put(field::SAMPLE_TYPE, &value_type)?;
        }
        let threads: &[Thread] = &self.data.threads;
        let values = std::mem::take(&mut self.values.of_threads);
        for (thread, values) in threads.iter().zip(values) {
            self.samples(thread, values)?;
        }
        self.write_mappings()?;
        self.write_locations()?;
        self.write_functions()?;
        self.write_times()?;
        // Texts come last, when all are known.
        for text in std::mem::take(&mut self.texts) {
            self.message.clear();
            self.message.text(field::STRING_TABLE, &text);
            self.out.write_all(self.message.bytes())?;
        }
        Ok(())
    }

    fn samples(&mut self, thread: &Thread, mut values: Vec<(u32, Vec<u64>)>) -> io::Result<()> {
        values.sort_unstable_by_key(|(stack, _)| *stack);
        let labels = [
            ("process", label::process(thread).into_owned()),
            ("thread", label::thread(thread)),
        ];
        let labels = labels.into_iter().filter(|_| self.has_labels);
        let labels: Vec<_> = labels.collect();
        let labels: Vec<_> = (labels.iter().map(|(key, value)| (self.text(key), self.text(value)))).collect();
        for (stack, values) in values {
            let path = self.locations.path(stack);
            let mut sample = ProtobufMessage::default();
            sample.packed(wire::sample::LOCATION_ID, path.into_iter().map(location_id));
            // The format's values are signed.
            sample.packed(
                wire::sample::VALUE,
                values.into_iter().map(|value| value.min(i64::MAX as u64)),
            );
            for &(key, text) in &labels {
                let mut label = ProtobufMessage::default();
                label.number(wire::label::KEY, key);
                label.number(wire::label::STR, text);
                sample.message(wire::sample::LABEL, &label);
            }
            self.put(field::SAMPLE, &sample)?;
        }
        Ok(())
    }

    fn write_mappings(&mut self) -> io::Result<()> {
        let libs = &self.data.libs;
        // pprof takes the first mapping for the program's own.
        let program = program(self.data);
        let others = (0..libs.len()).filter(|id| Some(*id) != program);
        for id in program.into_iter().chain(others) {
            let lib = &libs[id];
            let LibRange { start, limit } = self.locations.mappings()[id];
            let name = label::library(lib);
            let build_id = lib.code_id.as_deref().or(lib.breakpad_id.as_deref());
            let (name, build_id) = (self.text(name), self.text(build_id.unwrap_or_default()));
            let mut mapping = ProtobufMessage::default();
            mapping.number(wire::mapping::ID, id as u64 + 1);
            mapping.number(wire::mapping::MEMORY_START, start);
            mapping.number(wire::mapping::MEMORY_LIMIT, limit);
            mapping.number(wire::mapping::FILENAME, name);
            mapping.number(wire::mapping::BUILD_ID, build_id);
            // has_functions, has_filenames, has_line_numbers, has_inline_frames: pprof must not look for more in the
            // libraries, because the addresses are artificial.
            for field in wire::mapping::HAS_FUNCTIONS..=wire::mapping::HAS_INLINE_FRAMES {
                mapping.number(field, u64::from(self.data.symbolicated));
            }
            self.put(field::MAPPING, &mapping)?;
        }
        Ok(())
    }

    fn write_locations(&mut self) -> io::Result<()> {
        let no_stack = self.data.funcs.len() as u64 + 1;
        for id in 0..self.locations.count() {
            let mut location = ProtobufMessage::default();
            location.number(wire::location::ID, location_id(id));
            if let Some((lib, address)) = self.locations.address(id) {
                location.number(wire::location::MAPPING_ID, u64::from(lib) + 1);
                location.number(wire::location::ADDRESS, address);
            }
            for frame in self.locations.frames(id) {
                let mut line = ProtobufMessage::default();
                match frame {
                    Some(frame) => {
                        line.number(wire::line::FUNCTION_ID, u64::from(frame.func) + 1);
                        line.number(wire::line::LINE, frame.line_of_function().into());
                    }
                    None => line.number(wire::line::FUNCTION_ID, no_stack),
                }
                location.message(wire::location::LINE, &line);
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
        let name = self.text(NO_STACK_LABEL);
        self.function(data.funcs.len() as u64 + 1, name, 0)
    }

    fn function(&mut self, id: u64, name: u64, file: u64) -> io::Result<()> {
        let mut function = ProtobufMessage::default();
        function.number(wire::function::ID, id);
        // No system_name: names are demangled. If both names are equal, `go tool pprof` demangles them again and cuts
        // `<A as Iterator>::next` to `::next` (demangleSingleFunction, internal/symbolizer/symbolizer.go of pprof).
        function.number(wire::function::NAME, name);
        function.number(wire::function::FILENAME, file);
        self.put(field::FUNCTION, &function)
    }

    fn write_times(&mut self) -> io::Result<()> {
        let (what, unit) = self.values.period_type.clone();
        let period_type = self.typed(&what, &unit);
        let (default, _) = self.values.types.get(self.values.default).cloned().unwrap_or_default();
        let default_type = self.text(&default);
        let comment = self.text(&format!("recorded program: {}", self.data.product));
        self.put(field::PERIOD_TYPE, &period_type)?;
        let ns = |ms: f64| (ms * 1e6).round().clamp(0.0, i64::MAX as f64) as u64;
        self.message.clear();
        self.message.number(field::TIME_NANOS, ns(self.data.start_ms));
        self.message.number(field::DURATION_NANOS, ns(self.values.last_ms));
        self.message.number(field::PERIOD, self.values.period);
        self.message.number(field::COMMENT, comment);
        self.message.number(field::DEFAULT_SAMPLE_TYPE, default_type);
        self.out.write_all(self.message.bytes())
    }

    fn typed(&mut self, kind: &str, unit: &str) -> ProtobufMessage {
        let (kind, unit) = (self.text(kind), self.text(unit));
        let mut message = ProtobufMessage::default();
        message.number(wire::value_type::TYPE, kind);
        message.number(wire::value_type::UNIT, unit);
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

    fn put(&mut self, field: u64, message: &ProtobufMessage) -> io::Result<()> {
        self.message.clear();
        self.message.message(field, message);
        self.out.write_all(self.message.bytes())
    }
}

/// Ids begin with 1.
fn location_id(location: u32) -> u64 {
    u64::from(location) + 1
}
