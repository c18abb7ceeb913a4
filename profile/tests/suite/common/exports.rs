//! Readers of the exported formats, after their descriptions; each gives what functions cost.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::Read;

use opentelemetry_proto::tonic::collector::profiles::v1development::ExportProfilesServiceRequest;
use opentelemetry_proto::tonic::profiles::v1development::ProfilesDictionary;
use prost::Message as _;
use serde_json::Value;

/// What functions cost, by the names that all formats can hold.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Costs {
    pub(crate) sum: u64,
    pub(crate) own: BTreeMap<String, u64>,
    pub(crate) total: BTreeMap<String, u64>,
}

impl Costs {
    /// A path, leaf first. A function counts once a path.
    pub(crate) fn add(&mut self, path: &[String], weight: u64) {
        self.sum += weight;
        *self.own.entry(path[0].clone()).or_default() += weight;
        for name in path.iter().collect::<HashSet<_>>() {
            *self.total.entry(name.clone()).or_default() += weight;
        }
    }

    pub(crate) fn forget_nothing_spent(&mut self) {
        self.own.retain(|_, weight| *weight > 0);
        self.total.retain(|_, weight| *weight > 0);
    }
}

/// Folded stacks have no `;` in names, formats of lines no control characters.
pub(crate) fn common_name(name: &str) -> String {
    profile::text::one_line(name).replace(';', ":")
}

/// `skip`: frames of process and thread.
pub(crate) fn of_folded(text: &str, skip: usize) -> Costs {
    let mut costs = Costs::default();
    for line in text.lines() {
        let (path, weight) = line.rsplit_once(' ').unwrap();
        let mut names: Vec<String> = path.split(';').skip(skip).map(str::to_owned).collect();
        names.reverse();
        costs.add(&names, weight.parse().unwrap());
    }
    costs
}

pub(crate) fn of_speedscope(text: &str) -> Costs {
    let json: Value = serde_json::from_str(text).unwrap();
    let mut costs = Costs::default();
    for profile in json["profiles"].as_array().unwrap() {
        let samples = profile["samples"].as_array().unwrap();
        let weights = profile["weights"].as_array().unwrap();
        assert_eq!(samples.len(), weights.len());
        let sum: u64 = weights.iter().map(|weight| weight.as_u64().unwrap()).sum();
        assert_eq!(profile["endValue"].as_u64(), Some(sum));
        for (sample, weight) in samples.iter().zip(weights) {
            let frames = sample.as_array().unwrap().iter().rev();
            let name = |frame: &Value| {
                let frame = &json["shared"]["frames"][frame.as_u64().unwrap() as usize];
                common_name(frame["name"].as_str().unwrap())
            };
            costs.add(&frames.map(name).collect::<Vec<_>>(), weight.as_u64().unwrap());
        }
    }
    costs.forget_nothing_spent();
    costs
}

pub(crate) fn of_perf_script(text: &str) -> Costs {
    let mut costs = Costs::default();
    for sample in text.split_terminator("\n\n") {
        let mut lines = sample.lines();
        let head = lines.next().unwrap();
        let (_, event) = head.split_once(": ").unwrap();
        let weight = event.split_whitespace().next().unwrap().parse().unwrap();
        let names = lines.map(|line| {
            let (_, rest) = line.trim_start().split_once(' ').unwrap();
            common_name(rest.rsplit_once(" (").unwrap().0)
        });
        costs.add(&names.collect::<Vec<_>>(), weight);
    }
    costs.forget_nothing_spent();
    costs
}

/// A function's total is its own cost and that of its calls.
pub(crate) fn of_callgrind(text: &str) -> Costs {
    let mut costs = Costs::default();
    let mut names: HashMap<String, String> = HashMap::new();
    let mut name = |text: &str| {
        let (id, rest) = text.split_once(')').unwrap();
        if let Some(name) = rest.strip_prefix(' ') {
            names.insert(id.to_owned(), common_name(name));
        }
        names[id].clone()
    };
    let mut function = String::new();
    let mut is_call = false;
    for line in text.lines() {
        if let Some(id) = line.strip_prefix("fn=") {
            function = name(id);
        } else if let Some(id) = line.strip_prefix("cfn=") {
            name(id);
        } else if line.starts_with("calls=") {
            is_call = true;
        } else if let Some(sum) = line.strip_prefix("totals: ") {
            costs.sum = sum.parse().unwrap();
        } else if line.starts_with(|c: char| c.is_ascii_digit()) {
            let cost: u64 = line.split_once(' ').unwrap().1.parse().unwrap();
            *costs.total.entry(function.clone()).or_default() += cost;
            if !is_call {
                *costs.own.entry(function.clone()).or_default() += cost;
            }
            is_call = false;
        }
    }
    costs.forget_nothing_spent();
    costs
}

/// The frames of the picture, with their depth from their place, and their weights from their titles.
pub(crate) fn frames_of_svg(text: &str) -> Vec<(i64, String, u64)> {
    let between = |text: &str, from: &str, to: &str| {
        let rest = text.split_once(from).unwrap().1;
        rest.split_once(to).unwrap().0.to_owned()
    };
    let frames =
        (text.split("\n<g")).filter(|frame| frame.starts_with("><title>") || frame.starts_with(" class=\"i\">"));
    let frames = frames.map(|frame| {
        let title = between(frame, "<title>", "</title>");
        let (name, amount) = title.rsplit_once(" (").unwrap();
        let amount = amount.strip_prefix("inlined, ").unwrap_or(amount);
        let weight = amount.split_once(' ').unwrap().0.replace(',', "").parse().unwrap_or(0);
        let name = name
            .replace("&lt;", "<")
            .replace("&gt;", ">")
            .replace("&quot;", "\"")
            .replace("&amp;", "&");
        let y: i64 = between(frame, "y=\"", "\"").parse().unwrap();
        let names: Vec<String> = name.split('\n').map(common_name).collect();
        (y, names.join("\n"), weight)
    });
    frames.collect()
}

pub(crate) fn root_of_svg(text: &str) -> u64 {
    frames_of_svg(text)[0].2
}

pub(crate) fn of_svg(text: &str) -> Costs {
    let frames = frames_of_svg(text);
    let mut costs = Costs::default();
    let Some(root) = frames.first().map(|root| root.0) else {
        return costs;
    };
    // What is left of each frame on the path after its children.
    let mut path: Vec<(String, u64)> = Vec::new();
    let close = |path: &mut Vec<(String, u64)>, costs: &mut Costs| {
        let own = path.last().unwrap().1;
        // Below the root and the process. A row of several functions has a line for each.
        let names = path.iter().skip(2).rev();
        let names: Vec<String> = names
            .flat_map(|(name, _)| name.split('\n').rev().map(str::to_owned))
            .collect();
        if own > 0 {
            costs.add(&names, own);
        }
        path.pop();
    };
    for (y, name, weight) in frames {
        let depth = ((root - y).abs() / 17) as usize;
        while path.len() > depth {
            close(&mut path, &mut costs);
        }
        if let Some(parent) = path.last_mut() {
            parent.1 -= weight;
        }
        path.push((name, weight));
    }
    while !path.is_empty() {
        close(&mut path, &mut costs);
    }
    costs
}

/// What of a pprof profile is looked at.
#[derive(Default)]
pub(crate) struct Pprof {
    pub(crate) sample_types: Vec<(String, String)>,
    pub(crate) mappings: Vec<(String, String)>,
    pub(crate) locations: HashMap<u64, Location>,
    pub(crate) time_nanos: u64,
    pub(crate) period: u64,
    functions: HashMap<u64, (u64, u64)>,
    texts: Vec<String>,
    samples: Vec<(Vec<u64>, Vec<u64>)>,
}

#[derive(Default)]
pub(crate) struct Location {
    /// Function and line.
    pub(crate) lines: Vec<(u64, u64)>,
}

impl Pprof {
    pub(crate) fn decode(gz: &[u8]) -> Pprof {
        let mut bytes = Vec::new();
        flate2::read::GzDecoder::new(gz).read_to_end(&mut bytes).unwrap();
        let mut profile = Pprof::default();
        let mut types = Vec::new();
        let mut mappings = Vec::new();
        for (field, value) in fields(&bytes) {
            match (field, value) {
                (1, Field::Bytes(bytes)) => types.push((number(bytes, 1), number(bytes, 2))),
                (2, Field::Bytes(bytes)) => profile.samples.push((packed(bytes, 1), packed(bytes, 2))),
                (3, Field::Bytes(bytes)) => mappings.push((number(bytes, 5), number(bytes, 6))),
                (4, Field::Bytes(bytes)) => {
                    let lines = fields(bytes).into_iter().filter_map(|field| match field {
                        (4, Field::Bytes(line)) => Some((number(line, 1), number(line, 2))),
                        _ => None,
                    });
                    let location = Location { lines: lines.collect() };
                    profile.locations.insert(number(bytes, 1), location);
                }
                (5, Field::Bytes(bytes)) => {
                    profile
                        .functions
                        .insert(number(bytes, 1), (number(bytes, 2), number(bytes, 4)));
                }
                (6, Field::Bytes(bytes)) => profile.texts.push(String::from_utf8(bytes.to_vec()).unwrap()),
                (9, Field::Number(number)) => profile.time_nanos = number,
                (12, Field::Number(number)) => profile.period = number,
                _ => {}
            }
        }
        let text = |id: u64| profile.texts[id as usize].clone();
        profile.sample_types = types.into_iter().map(|(kind, unit)| (text(kind), text(unit))).collect();
        profile.mappings = mappings.into_iter().map(|(name, id)| (text(name), text(id))).collect();
        profile
    }

    /// Function, file and line.
    pub(crate) fn line(&self, (function, line): &(u64, u64)) -> (&str, &str, u64) {
        let (name, file) = self.functions[function];
        (&self.texts[name as usize], &self.texts[file as usize], *line)
    }
}

/// `scale`: nanoseconds of a sample, where samples are counted.
pub(crate) fn of_pprof(gz: &[u8], scale: u64) -> Costs {
    let profile = Pprof::decode(gz);
    let mut costs = Costs::default();
    for (locations, values) in &profile.samples {
        let lines = locations.iter().flat_map(|id| &profile.locations[id].lines);
        let names = lines.map(|line| common_name(profile.line(line).0));
        assert_eq!(values[1] % scale, 0);
        costs.add(&names.collect::<Vec<_>>(), values[1] / scale);
    }
    costs.forget_nothing_spent();
    costs
}

/// `scale`: nanoseconds of a sample, where samples are counted.
pub(crate) fn of_otlp(bytes: &[u8], scale: u64) -> Costs {
    let (request, dictionary) = otlp(bytes);
    let text = |index: i32| dictionary.string_table[index as usize].as_str();
    let mut costs = Costs::default();
    for sample in &request.resource_profiles[0].scope_profiles[0].profiles[0].samples {
        let locations = &dictionary.stack_table[sample.stack_index as usize].location_indices;
        let lines = (locations.iter()).flat_map(|location| &dictionary.location_table[*location as usize].lines);
        let functions = lines.map(|line| &dictionary.function_table[line.function_index as usize]);
        let names: Vec<String> = functions
            .map(|function| common_name(text(function.name_strindex)))
            .collect();
        let times = sample.timestamps_unix_nano.len();
        assert!(times == sample.values.len() || times == 0 && sample.values.len() == 1);
        for value in &sample.values {
            let value = u64::try_from(*value).unwrap();
            assert_eq!(value % scale, 0);
            costs.add(&names, value / scale);
        }
    }
    costs.forget_nothing_spent();
    costs
}

/// As a collector reads it, with the dictionary taken out: every table begins with the row that stands for none.
pub(crate) fn otlp(bytes: &[u8]) -> (ExportProfilesServiceRequest, ProfilesDictionary) {
    let mut request = ExportProfilesServiceRequest::decode(bytes).unwrap();
    let dictionary = request.dictionary.take().unwrap();
    assert_eq!(dictionary.string_table[0], "");
    assert_eq!(dictionary.mapping_table[0], Default::default());
    assert_eq!(dictionary.location_table[0], Default::default());
    assert_eq!(dictionary.function_table[0], Default::default());
    assert_eq!(dictionary.attribute_table[0], Default::default());
    assert_eq!(dictionary.stack_table[0], Default::default());
    (request, dictionary)
}

enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

fn fields(mut bytes: &[u8]) -> Vec<(u64, Field<'_>)> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let value = varint(&mut bytes);
        let field = match key & 7 {
            0 => Field::Number(value),
            2 => {
                let (inner, rest) = bytes.split_at(value as usize);
                bytes = rest;
                Field::Bytes(inner)
            }
            other => panic!("wire type {other}"),
        };
        fields.push((key >> 3, field));
    }
    fields
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for at in 0.. {
        let byte = bytes[0];
        *bytes = &bytes[1..];
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte < 0x80 {
            break;
        }
    }
    value
}

fn number(message: &[u8], wanted: u64) -> u64 {
    let found = fields(message).into_iter().find_map(|(field, value)| match value {
        Field::Number(number) if field == wanted => Some(number),
        _ => None,
    });
    found.unwrap_or(0)
}

fn packed(message: &[u8], wanted: u64) -> Vec<u64> {
    let mut numbers = Vec::new();
    for (field, value) in fields(message) {
        if let (true, Field::Bytes(mut bytes)) = (field == wanted, value) {
            while !bytes.is_empty() {
                numbers.push(varint(&mut bytes));
            }
        }
    }
    numbers
}
