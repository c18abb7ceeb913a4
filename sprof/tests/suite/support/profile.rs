//! Reads a saved profile the way a stranger would: from the published description of the Firefox format alone, and not
//! with the project's own reader, which could share a misunderstanding with the writer.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::Path;

use serde_json::Value;

/// A whole profile, stacks resolved to names.
pub(crate) struct Profile {
    pub(crate) json: Value,
    pub(crate) threads: Vec<Thread>,
    pub(crate) frames: Vec<FrameInfo>,
    /// Per stack: its frames, root first, as indexes into `frames`.
    stacks: Vec<Vec<usize>>,
}

/// One thread.
pub(crate) struct Thread {
    pub(crate) name: String,
    pub(crate) process_name: String,
    pub(crate) pid: String,
    pub(crate) tid: String,
    pub(crate) is_main: bool,
    pub(crate) start_ms: f64,
    pub(crate) end_ms: Option<f64>,
    pub(crate) samples: Vec<Sample>,
    pub(crate) markers: Vec<Value>,
    pub(crate) marker_names: Vec<String>,
    /// Start and end, ms; 0 where there is none.
    pub(crate) marker_times: Vec<(f64, f64)>,
}

/// One sample.
#[derive(Clone, Copy)]
pub(crate) struct Sample {
    pub(crate) time_ms: f64,
    pub(crate) stack: Option<usize>,
    pub(crate) cpu_delta: Option<f64>,
    pub(crate) weight: f64,
}

/// One row of the frame table.
#[derive(Clone, Debug)]
pub(crate) struct FrameInfo {
    pub(crate) function: String,
    /// The file of the line.
    pub(crate) file: Option<String>,
    pub(crate) line: Option<u32>,
    pub(crate) inline_depth: u32,
    pub(crate) category: String,
    pub(crate) subcategory: String,
    pub(crate) address: Option<u64>,
    pub(crate) lib: Option<usize>,
}

impl Profile {
    /// Reads and checks a profile; panics with what is wrong, since the test is over then.
    pub(crate) fn read(path: &Path) -> Profile {
        let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut text = String::new();
        flate2::read::MultiGzDecoder::new(&bytes[..])
            .read_to_string(&mut text)
            .unwrap_or_else(|error| panic!("{} is not gzip: {error}", path.display()));
        Profile::from_json(serde_json::from_str(&text).unwrap())
    }

    pub(crate) fn from_json(json: Value) -> Profile {
        let version = json["meta"]["preprocessedProfileVersion"].as_u64().unwrap();
        assert!((60..=70).contains(&version), "format version {version}");
        let shared = &json["shared"];
        let strings: Vec<&str> = array(&shared["stringArray"])
            .iter()
            .map(|s| s.as_str().unwrap())
            .collect();
        let string = |value: &Value| strings[index(value)].to_owned();

        let functions = &shared["funcTable"];
        let frame_table = &shared["frameTable"];
        let categories = array(&json["meta"]["categories"]);
        let frames: Vec<FrameInfo> = (0..length(frame_table))
            .map(|i| {
                let function = index(&frame_table["func"][i]);
                let category = frame_table["category"][i].as_u64();
                let elsewhere = frame_table["originalLocation"][i].as_u64();
                let elsewhere = elsewhere.map(|row| {
                    let table = &shared["sourceLocationTable"];
                    (&table["source"][row as usize], &table["line"][row as usize])
                });
                let (source, line) = elsewhere.unwrap_or((&functions["source"][function], &frame_table["line"][i]));
                FrameInfo {
                    function: string(&functions["name"][function]),
                    file: source
                        .as_u64()
                        .map(|s| string(&shared["sources"]["filename"][s as usize])),
                    line: line.as_u64().map(|line| u32::try_from(line).unwrap()),
                    inline_depth: u32::try_from(index(&frame_table["inlineDepth"][i])).unwrap(),
                    category: category.map_or(String::new(), |c| {
                        categories[c as usize]["name"].as_str().unwrap().into()
                    }),
                    subcategory: category.map_or(String::new(), |c| {
                        let names = &categories[c as usize]["subcategories"];
                        names[index(&frame_table["subcategory"][i])].as_str().unwrap().into()
                    }),
                    address: frame_table["address"][i].as_u64(),
                    lib: frame_table["lib"][i].as_u64().map(|lib| lib as usize),
                }
            })
            .collect();

        let stack_table = &shared["stackTable"];
        let mut stacks: Vec<Vec<usize>> = Vec::with_capacity(length(stack_table));
        for i in 0..length(stack_table) {
            let parent = if version >= 66 {
                let offset = index(&stack_table["prefixOffset"][i]);
                (offset != 0).then(|| i.checked_sub(offset).expect("a parent before its children"))
            } else {
                stack_table["prefix"][i].as_u64().map(|parent| parent as usize)
            };
            let mut stack = parent.map_or(Vec::new(), |parent| stacks[parent].clone());
            stack.push(index(&stack_table["frame"][i]));
            stacks.push(stack);
        }

        let threads = array(&json["threads"])
            .iter()
            .map(|thread| read_thread(thread, &strings))
            .collect();
        let profile = Profile {
            threads,
            frames,
            stacks,
            json,
        };
        profile.check_columns();
        profile
    }

    /// The columns of a table have the same length: the front end reads past the end of short ones silently.
    fn check_columns(&self) {
        let check = |name: &str, table: &Value| {
            let rows = length(table);
            for (column, values) in table.as_object().unwrap() {
                if let Some(values) = values.as_array() {
                    assert_eq!(values.len(), rows, "{name}.{column}");
                }
            }
        };
        for name in [
            "stackTable",
            "frameTable",
            "funcTable",
            "resourceTable",
            "nativeSymbols",
            "sources",
        ] {
            check(name, &self.json["shared"][name]);
        }
        for thread in array(&self.json["threads"]) {
            check("samples", &thread["samples"]);
            check("markers", &thread["markers"]);
        }
    }

    /// Function names of a stack, root first.
    pub(crate) fn names(&self, stack: usize) -> impl DoubleEndedIterator<Item = &str> {
        self.stacks[stack]
            .iter()
            .map(|&frame| self.frames[frame].function.as_str())
    }

    /// Frames of a stack, root first.
    pub(crate) fn stack_frames(&self, stack: usize) -> impl DoubleEndedIterator<Item = &FrameInfo> {
        self.stacks[stack].iter().map(|&frame| &self.frames[frame])
    }

    /// All samples of all threads.
    pub(crate) fn samples(&self) -> impl Iterator<Item = &Sample> {
        self.threads.iter().flat_map(|thread| &thread.samples)
    }

    /// Of the samples for which `scope` holds, the share for which `what` does, in percent. Both see the function
    /// names of a stack, root first.
    pub(crate) fn share(&self, scope: impl Fn(&[&str]) -> bool, what: impl Fn(&[&str]) -> bool) -> Share {
        let mut share = Share::default();
        for sample in self.samples() {
            let names: Vec<&str> = sample.stack.map_or(Vec::new(), |stack| self.names(stack).collect());
            if scope(&names) {
                share.of += 1;
                share.hits += u64::from(what(&names));
            }
        }
        share
    }

    /// The same in percent of the samples' CPU time, for events whose samples stand for different times.
    pub(crate) fn cpu_share(&self, scope: impl Fn(&[&str]) -> bool, what: impl Fn(&[&str]) -> bool) -> f64 {
        let (mut hits, mut of) = (0.0, 0.0);
        for sample in self.samples() {
            let names: Vec<&str> = sample.stack.map_or(Vec::new(), |stack| self.names(stack).collect());
            if scope(&names) {
                of += sample.cpu_delta.unwrap();
                hits += if what(&names) { sample.cpu_delta.unwrap() } else { 0.0 };
            }
        }
        100.0 * hits / of
    }

    /// Share of all samples whose stack holds a function of exactly this name.
    pub(crate) fn share_of(&self, function: &str) -> Share {
        self.share(|_| true, |names| names.contains(&function))
    }

    /// Share of samples whose stack runs from `root` (for example `main`) with nothing missing: no mark among the
    /// frames.
    pub(crate) fn rooted_in(&self, root: &str) -> Share {
        self.share(
            |_| true,
            |names| names.contains(&root) && !names.iter().any(|name| is_mark(name)),
        )
    }

    /// Stacks as text with their counts, most frequent first: what a failed assertion shows.
    pub(crate) fn summary(&self) -> String {
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        for sample in self.samples() {
            let text = sample
                .stack
                .map_or("(no stack)".into(), |s| self.names(s).collect::<Vec<_>>().join(" > "));
            *counts.entry(text).or_default() += 1;
        }
        let mut sorted: Vec<_> = counts.into_iter().collect();
        sorted.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let lines = sorted.iter().take(25).map(|(text, count)| {
            let short: String = text.chars().take(600).collect();
            format!("{count:6} {short}")
        });
        format!(
            "{}\nquality: {:?}",
            lines.collect::<Vec<_>>().join("\n"),
            self.quality()
        )
    }

    /// The threads of this name. Where samples are counts, the event stands behind it in brackets.
    pub(crate) fn threads_named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Thread> {
        let is_named = move |thread: &&Thread| {
            let rest = thread.name.strip_prefix(name);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(" ("))
        };
        self.threads.iter().filter(is_named)
    }

    /// The threads of a process while it ran the program of this name. What it was before, if a sample fell there, is a
    /// process of its own: `1234`, then `1234.1`.
    pub(crate) fn threads_of<'a>(&'a self, pid: &'a str, program: &'a str) -> impl Iterator<Item = &'a Thread> {
        let is_of = move |thread: &&Thread| thread.pid.split('.').next() == Some(pid) && thread.process_name == program;
        self.threads.iter().filter(is_of)
    }

    /// Ids of all processes.
    pub(crate) fn pids(&self) -> BTreeSet<&str> {
        self.threads.iter().map(|thread| thread.pid.as_str()).collect()
    }

    /// Without the samples of the last 100 ms: the program has ended before what they need of its memory is read.
    pub(crate) fn without_its_end(mut self) -> Profile {
        let last = self.samples().map(|sample| sample.time_ms).fold(0.0, f64::max);
        for thread in &mut self.threads {
            thread.samples.retain(|sample| sample.time_ms < last - 100.0);
        }
        self
    }

    /// Samples in the whole profile.
    pub(crate) fn sample_count(&self) -> u64 {
        self.samples().count() as u64
    }

    /// The sum of the samples' CPU deltas, in nanoseconds.
    pub(crate) fn cpu_ns(&self) -> f64 {
        let unit = self.json["meta"]["sampleUnits"]["threadCPUDelta"].as_str().unwrap();
        let factor = match unit {
            "ns" => 1.0,
            "µs" => 1000.0,
            other => panic!("CPU deltas in {other} say nothing about time"),
        };
        factor * self.samples().filter_map(|sample| sample.cpu_delta).sum::<f64>()
    }

    /// The rows of `meta.extra`: label to value, over all sections.
    pub(crate) fn quality(&self) -> BTreeMap<String, Value> {
        let empty = Vec::new();
        let sections = self.json["meta"]["extra"].as_array().unwrap_or(&empty);
        sections
            .iter()
            .flat_map(|section| array(&section["entries"]))
            .map(|entry| (entry["label"].as_str().unwrap().to_owned(), entry["value"].clone()))
            .collect()
    }

    /// The first quality figure whose label has all of these words, as a number.
    pub(crate) fn figure(&self, words: &[&str]) -> f64 {
        self.figure_if_any(words)
            .unwrap_or_else(|| panic!("no quality figure about {words:?} in {:?}", self.quality()))
    }

    /// The same; `None` if the profile has no such figure: some are left out where they are 0.
    pub(crate) fn figure_if_any(&self, words: &[&str]) -> Option<f64> {
        let quality = self.quality();
        let (_, value) = quality.iter().find(|(label, _)| {
            let label = label.to_lowercase();
            words.iter().all(|word| label.contains(word))
        })?;
        Some(match value {
            Value::Number(number) => number.as_f64().unwrap(),
            Value::String(text) => {
                let digits: String = text
                    .chars()
                    .take_while(|c| c.is_ascii_digit() || ".,".contains(*c))
                    .collect();
                digits
                    .replace(',', "")
                    .parse()
                    .unwrap_or_else(|_| panic!("{words:?} is not a number: {text}"))
            }
            other => panic!("{words:?} is not a number: {other}"),
        })
    }
}

impl Thread {
    /// Times are in order.
    pub(crate) fn is_monotonic(&self) -> bool {
        self.samples.is_sorted_by(|a, b| a.time_ms <= b.time_ms)
    }
}

/// A share of samples.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Share {
    pub(crate) hits: u64,
    pub(crate) of: u64,
}

impl Share {
    /// In percent; of nothing, it is 0.
    pub(crate) fn percent(self) -> f64 {
        if self.of == 0 {
            0.0
        } else {
            100.0 * self.hits as f64 / self.of as f64
        }
    }
}

/// True for the frames that say that something is missing or not verified.
pub(crate) fn is_mark(name: &str) -> bool {
    ["[truncated", "[unverified", "[no user stack", "[system stack"]
        .iter()
        .any(|start| name.starts_with(start))
}

fn read_thread(thread: &Value, strings: &[&str]) -> Thread {
    let samples = &thread["samples"];
    let mut time_ms = 0.0;
    let read_sample = |i: usize| {
        time_ms = match samples["time"][i].as_f64() {
            Some(time) => time,
            None => time_ms + samples["timeDeltas"][i].as_f64().expect("time or timeDeltas"),
        };
        Sample {
            time_ms,
            stack: samples["stack"][i].as_u64().map(|stack| stack as usize),
            cpu_delta: samples["threadCPUDelta"][i].as_f64(),
            weight: samples["weight"][i].as_f64().unwrap_or(1.0),
        }
    };
    let tid = &thread["tid"];
    let markers = &thread["markers"];
    Thread {
        name: thread["name"].as_str().unwrap().to_owned(),
        process_name: thread["processName"].as_str().unwrap_or_default().to_owned(),
        pid: thread["pid"].as_str().expect("pid is a string").to_owned(),
        tid: tid.as_str().map_or_else(|| tid.to_string(), str::to_owned),
        is_main: thread["isMainThread"].as_bool().unwrap(),
        start_ms: thread["registerTime"].as_f64().unwrap(),
        end_ms: thread["unregisterTime"].as_f64(),
        samples: (0..length(samples)).map(read_sample).collect(),
        markers: array(&markers["data"]).to_vec(),
        marker_names: array(&markers["name"])
            .iter()
            .map(|name| strings[index(name)].to_owned())
            .collect(),
        marker_times: (array(&markers["startTime"]).iter().zip(array(&markers["endTime"])))
            .map(|(start, end)| (start.as_f64().unwrap_or_default(), end.as_f64().unwrap_or_default()))
            .collect(),
    }
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn index(value: &Value) -> usize {
    usize::try_from(value.as_u64().unwrap_or_else(|| panic!("not an index: {value}"))).unwrap()
}

fn length(table: &Value) -> usize {
    index(&table["length"])
}
