//! Profiles of the OpenTelemetry protocol (OTLP 1.10, profiles v1development), for its collectors.
//!
//! One profile of one value type. Samples with the same thread and stack are one sample with the time and the value of
//! each.

use std::io::{self, Write};

use opentelemetry_proto::tonic::collector::profiles::v1development::ExportProfilesServiceResponse;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value::Value};
use opentelemetry_proto::tonic::profiles::v1development as otlp;
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::{DecodeError, Message as _};
use rustc_hash::FxHashMap;

use super::Picked;
use super::label;
use super::locations::Locations;
use crate::data::NO_STACK_LABEL;
use crate::data::{Data, Thread};

/// Writes a message `ExportProfilesServiceRequest`, which has the bytes of a `ProfilesData`. `resource`: names and
/// values that say what ran (`service.name`, `service.version`...).
///
/// # Errors
///
/// `out` could not be written to.
pub fn write(picked: &Picked<'_>, resource: &[(String, String)], mut out: impl Write) -> io::Result<()> {
    let mut writer = OtlpWriter::new(picked);
    let mut samples = Vec::new();
    for thread in &picked.data.threads {
        samples.extend(writer.samples(thread));
    }
    let profile = writer.profile(samples);
    let (name, version) = ("sprof".to_owned(), env!("CARGO_PKG_VERSION").to_owned());
    let scope = otlp::ScopeProfiles {
        scope: Some(InstrumentationScope {
            name,
            version,
            ..Default::default()
        }),
        profiles: vec![profile],
        ..Default::default()
    };
    let attributes = resource.iter().map(|(key, value)| KeyValue {
        key: key.clone(),
        value: Some(string(value)),
        ..Default::default()
    });
    let data = otlp::ProfilesData {
        resource_profiles: vec![otlp::ResourceProfiles {
            resource: Some(Resource {
                attributes: attributes.collect(),
                ..Default::default()
            }),
            scope_profiles: vec![scope],
            ..Default::default()
        }],
        dictionary: Some(writer.dictionary()),
    };
    out.write_all(&data.encode_to_vec())?;
    out.flush()
}

/// What a collector refused of a profile, from its reply (`ExportProfilesServiceResponse`).
///
/// # Errors
///
/// The reply is not such a message.
pub fn refused(reply: &[u8]) -> Result<Option<String>, DecodeError> {
    let partial = ExportProfilesServiceResponse::decode(reply)?.partial_success;
    Ok(partial.filter(|partial| partial.rejected_profiles > 0).map(|partial| {
        let said = crate::text::one_line(&partial.error_message).into_owned();
        if said.is_empty() {
            "no reason was given".to_owned()
        } else {
            said
        }
    }))
}

struct OtlpWriter<'a> {
    picked: &'a Picked<'a>,
    data: &'a Data,
    locations: Locations<'a>,
    texts: DictionaryTable<String, String>,
    stacks: DictionaryTable<u32, otlp::Stack>,
    attributes: DictionaryTable<(i32, String), otlp::KeyValueAndUnit>,
    has_times: bool,
}

/// Rows and the index of each. The first row stands for "none" in every table of the dictionary.
struct DictionaryTable<K, R> {
    ids: FxHashMap<K, i32>,
    rows: Vec<R>,
}

impl<K: std::hash::Hash + Eq, R: Default> DictionaryTable<K, R> {
    fn new() -> Self {
        DictionaryTable {
            ids: FxHashMap::default(),
            rows: vec![R::default()],
        }
    }

    fn id(&mut self, key: K, row: impl FnOnce() -> R) -> i32 {
        let rows = &mut self.rows;
        *self.ids.entry(key).or_insert_with(|| {
            rows.push(row());
            index(rows.len() - 1)
        })
    }
}

/// The format's indexes are signed and have 32 bits.
fn index(index: usize) -> i32 {
    i32::try_from(index).unwrap_or(i32::MAX)
}

fn string(value: &str) -> AnyValue {
    AnyValue {
        value: Some(Value::StringValue(value.to_owned())),
    }
}

impl<'a> OtlpWriter<'a> {
    fn new(picked: &'a Picked<'a>) -> Self {
        let data = picked.data;
        let mut texts = DictionaryTable::new();
        texts.ids.insert(String::new(), 0);
        OtlpWriter {
            picked,
            data,
            locations: Locations::new(data),
            texts,
            stacks: DictionaryTable::new(),
            attributes: DictionaryTable::new(),
            has_times: data.start_ms > 0.0 && !data.is_summed && data.has_samples(),
        }
    }

    fn text(&mut self, text: &str) -> i32 {
        self.texts.id(text.to_owned(), || text.to_owned())
    }

    fn attribute(&mut self, key: &str, value: Value) -> i32 {
        let key_strindex = self.text(key);
        self.attributes
            .id((key_strindex, format!("{value:?}")), || otlp::KeyValueAndUnit {
                key_strindex,
                value: Some(AnyValue { value: Some(value) }),
                unit_strindex: 0,
            })
    }

    /// The names are those of OpenTelemetry's conventions for processes and threads.
    fn attributes_of(&mut self, thread: &Thread) -> Vec<i32> {
        let texts = [
            ("process.executable.name", &thread.process_name),
            ("thread.name", &thread.name),
        ];
        // The ids of foreign files may be other texts.
        let ids = [("process.pid", &thread.pid), ("thread.id", &thread.tid)];
        let texts = texts.map(|(key, text)| (key, (!text.is_empty()).then(|| Value::StringValue(text.clone()))));
        let ids = ids.map(|(key, id)| (key, id.parse().ok().map(Value::IntValue)));
        let given = texts.into_iter().chain(ids);
        given
            .filter_map(|(key, value)| Some(self.attribute(key, value?)))
            .collect()
    }

    /// What samples are counted in: the profile has one type of values.
    fn value_type(&mut self) -> otlp::ValueType {
        let (kind, unit) = match self.picked.has_weights() {
            true => self.picked.value_type(),
            false => ("samples".to_owned(), "count".to_owned()),
        };
        // What OpenTelemetry calls them.
        let kind = if kind == "delay" { "off_cpu" } else { &kind };
        otlp::ValueType {
            type_strindex: self.text(kind),
            unit_strindex: self.text(&unit),
        }
    }

    /// A sample for each stack of a thread. With times there is a value for each, else their sum.
    fn samples(&mut self, thread: &Thread) -> Vec<otlp::Sample> {
        let mut samples: Vec<otlp::Sample> = Vec::new();
        let mut of_stack: FxHashMap<u32, usize> = FxHashMap::default();
        let picked = self.picked;
        let attribute_indices = self.attributes_of(thread);
        for sample in picked.samples(thread) {
            let at = *of_stack.entry(sample.stack).or_insert_with(|| {
                samples.push(otlp::Sample {
                    stack_index: self.stack(sample.stack),
                    attribute_indices: attribute_indices.clone(),
                    ..Default::default()
                });
                samples.len() - 1
            });
            let value = match picked.has_weights() {
                true => picked.value(sample.weight),
                false => sample.count,
            };
            let value = i64::try_from(value).unwrap_or(i64::MAX);
            let Some(row) = samples.get_mut(at) else { continue };
            if self.has_times {
                row.values.push(value);
                row.timestamps_unix_nano.push(self.unix_ns(sample.time_ms));
            } else if let Some(sum) = row.values.first_mut() {
                *sum = sum.saturating_add(value);
            } else {
                row.values.push(value);
            }
        }
        samples
    }

    fn stack(&mut self, stack: u32) -> i32 {
        let locations = &mut self.locations;
        self.stacks.id(stack, || otlp::Stack {
            // The first location stands for none.
            location_indices: (locations.path(stack).into_iter())
                .map(|location| index(location as usize + 1))
                .collect(),
        })
    }

    fn unix_ns(&self, time_ms: f64) -> u64 {
        ns(self.data.start_ms).saturating_add(ns(time_ms))
    }

    fn profile(&mut self, samples: Vec<otlp::Sample>) -> otlp::Profile {
        let sample_type = self.value_type();
        otlp::Profile {
            sample_type: Some(sample_type),
            samples,
            time_unix_nano: ns(self.data.start_ms),
            // The last sample is before the end.
            duration_nano: ns(self.data.duration_ms.unwrap_or(0.0).max(self.picked.last_ms())).saturating_add(1),
            period_type: Some(sample_type),
            period: i64::try_from(self.picked.interval_ns()).unwrap_or(i64::MAX),
            ..Default::default()
        }
    }

    fn dictionary(mut self) -> otlp::ProfilesDictionary {
        let function_table = self.functions();
        let mapping_table = self.mappings();
        let location_table = self.location_table();
        otlp::ProfilesDictionary {
            mapping_table,
            location_table,
            function_table,
            link_table: vec![otlp::Link::default()],
            string_table: self.texts.rows,
            attribute_table: self.attributes.rows,
            stack_table: self.stacks.rows,
        }
    }

    /// All functions of the profile, then the function that stands for samples without a stack.
    fn functions(&mut self) -> Vec<otlp::Function> {
        let data = self.data;
        let mut table = vec![otlp::Function::default()];
        for (id, func) in data.funcs.iter().enumerate() {
            let name_strindex = self.text(&label::function(data, id as u32));
            let filename_strindex = self.text(data.text(func.file));
            table.push(otlp::Function {
                name_strindex,
                filename_strindex,
                ..Default::default()
            });
        }
        let name_strindex = self.text(NO_STACK_LABEL);
        table.push(otlp::Function {
            name_strindex,
            ..Default::default()
        });
        table
    }

    fn mappings(&mut self) -> Vec<otlp::Mapping> {
        let mut table = vec![otlp::Mapping::default()];
        let data = self.data;
        for (id, lib) in data.libs.iter().enumerate() {
            let range = self.locations.mappings()[id];
            let build_id = lib.code_id.clone().map(Value::StringValue);
            let build_id = build_id.map(|id| self.attribute("process.executable.build_id.gnu", id));
            table.push(otlp::Mapping {
                memory_start: range.start,
                memory_limit: range.limit,
                filename_strindex: self.text(label::library(lib)),
                attribute_indices: build_id.into_iter().collect(),
                ..Default::default()
            });
        }
        table
    }

    fn location_table(&self) -> Vec<otlp::Location> {
        let no_stack = index(self.data.funcs.len() + 1);
        let locations = (0..self.locations.count()).map(|id| {
            let (mapping_index, address) = match self.locations.address(id) {
                Some((lib, address)) => (index(lib as usize + 1), address),
                None => (0, 0),
            };
            let lines = self.locations.frames(id).map(|frame| match frame {
                Some(frame) => otlp::Line {
                    function_index: index(frame.func as usize + 1),
                    line: frame.line_of_function().into(),
                    column: 0,
                },
                None => otlp::Line {
                    function_index: no_stack,
                    ..Default::default()
                },
            });
            otlp::Location {
                mapping_index,
                address,
                lines: lines.collect(),
                ..Default::default()
            }
        });
        std::iter::once(otlp::Location::default()).chain(locations).collect()
    }
}

fn ns(ms: f64) -> u64 {
    // As a cast has it, below 0 is 0.
    (ms * 1e6).round() as u64
}
