//! The viewer's data: what the page adds up is what views of the profile say.

use std::collections::BTreeMap;
use std::io::Read;

use crate::common::data::{data, example};
use flate2::read::GzDecoder;
use profile::data::{Counter, Data, NONE, Samples, Thread};
use profile::export::html::{PageOptions, policy, served_data, served_page, write};
use profile::view::functions::functions;
use profile::view::lines::lines;
use profile::view::select::{Filter, select};
use proptest::prelude::*;
use serde_json::{Value, json};

/// The page's data, as its script reads them.
struct Page {
    head: Value,
    bytes: Vec<u8>,
}

impl Page {
    fn of(data: &Data) -> Page {
        let gz = served_data(data.clone(), &PageOptions::default()).unwrap();
        let mut all = Vec::new();
        GzDecoder::new(&gz[..]).read_to_end(&mut all).unwrap();
        let length = u32::from_le_bytes(all[..4].try_into().unwrap()) as usize;
        Page {
            head: serde_json::from_slice(&all[4..4 + length]).unwrap(),
            bytes: all[4 + length..].to_vec(),
        }
    }

    fn column(&self, at: &Value) -> Vec<u64> {
        let place = &self.head["columns"][at.as_u64().unwrap() as usize];
        let number = |at: usize| place[at].as_u64().unwrap() as usize;
        let mut bytes = self.bytes[number(0)..].iter();
        let mut before = 0i64;
        (0..number(1))
            .map(|_| {
                let (mut number_read, mut shift) = (0u64, 0);
                loop {
                    let byte = bytes.next().unwrap();
                    number_read |= u64::from(byte & 0x7f) << shift;
                    shift += 7;
                    if byte & 0x80 == 0 {
                        break;
                    }
                }
                if number(2) == 1 {
                    before += (number_read >> 1).cast_signed() ^ -(number_read & 1).cast_signed();
                    number_read = before.cast_unsigned();
                }
                number_read
            })
            .collect()
    }

    /// For each stack, leaf first: (function, line).
    fn stacks(&self) -> Vec<Vec<(usize, u64)>> {
        let of = |key: &str| self.column(&self.head["stacks"][key]);
        let (depth, func, count, line, caller) = (of("depth"), of("func"), of("stacks"), of("line"), of("caller"));
        let mut stacks = vec![Vec::new()];
        // The first stack of the nodes on the path.
        let mut path = vec![0];
        for node in 0..depth.len() {
            path.truncate(depth[node] as usize);
            let first = stacks.len();
            for _ in 0..count[node] {
                let at = stacks.len() - 1;
                let mut stack: Vec<(usize, u64)> = vec![(func[node] as usize, line[at])];
                stack.extend(&stacks[path[path.len() - 1] + caller[at] as usize]);
                stacks.push(stack);
            }
            path.push(first);
        }
        stacks
    }

    /// (stack, weight) of the samples of a kind, in a range of microseconds.
    fn samples(&self, waits: bool, range: std::ops::Range<u64>) -> Vec<(usize, u64)> {
        let kinds = self.head["kinds"].as_array().unwrap();
        let threads = kinds
            .iter()
            .filter(|kind| kind["waits"] == waits && kind["isPartOfTime"] == false)
            .flat_map(|kind| kind["threads"].as_array().unwrap());
        threads
            .flat_map(|thread| {
                let (time, stack) = (self.column(&thread["time"]), self.column(&thread["stack"]));
                let weight = match &thread["weight"] {
                    Value::Object(each) => vec![each["each"].as_u64().unwrap(); time.len()],
                    column => self.column(column),
                };
                let rows = time.into_iter().zip(stack).zip(weight);
                let rows = rows.filter(|((time, _), _)| range.contains(time));
                rows.map(|((_, stack), weight)| (stack as usize, weight))
                    .collect::<Vec<_>>()
            })
            .collect()
    }

    fn name(&self, func: usize) -> String {
        self.head["funcs"]["name"][func].as_str().unwrap().to_owned()
    }
}

/// (self, total) by name, without what costs nothing. Functions of one name are added up by self.
type Sums<K> = BTreeMap<K, (u64, u64)>;

fn whole(data: &Data, weight: f64) -> u64 {
    let scale = if data.unit == profile::data::WeightUnit::Milliseconds {
        1e6
    } else {
        1.0
    };
    (weight * scale).round() as u64
}

fn add<K: Ord + Clone>(sums: &mut Sums<K>, path: &[K], weight: u64) {
    if let Some(leaf) = path.first() {
        sums.entry(leaf.clone()).or_default().0 += weight;
    }
    for key in path.iter().collect::<std::collections::BTreeSet<_>>() {
        sums.entry(key.clone()).or_default().1 += weight;
    }
}

proptest! {
    // With the cases that have failed before.
    #![proptest_config(ProptestConfig {
        failure_persistence: ProptestConfig::default().failure_persistence,
        ..crate::damage::cases(256)
    })]

    #[test]
    fn functions_and_lines_of_any_data_are_those_of_views(data in data(), waits in any::<bool>(), from in 0..6u64, length in 0..6u64) {
        // Such samples are of no export, and named in the page.
        let mut data = data;
        for thread in &mut data.threads {
            thread.samples.weight.iter_mut().flatten().for_each(|weight| *weight = if *weight >= 0.0 { *weight } else { 0.0 });
        }
        let page = Page::of(&data);
        let stacks = page.stacks();
        let (mut by_func, mut by_line) = (Sums::default(), Sums::default());
        for (stack, weight) in page.samples(waits, from * 1000..(from + length) * 1000) {
            let stack = &stacks[stack];
            let funcs: Vec<usize> = stack.iter().map(|(func, _)| *func).collect();
            add(&mut by_func, &funcs, weight);
            let lines: Vec<(usize, u64)> = stack.iter().map(|(func, line)| if *line > 0 { (usize::MAX, *line) } else { (*func, 0) }).collect();
            add(&mut by_line, &lines, weight);
        }
        let filter = Filter { waits, from_ms: Some(from as f64), to_ms: Some((from + length) as f64), ..Filter::default() };
        let selection = select(&data, &filter).unwrap();
        let mut expected: Vec<(String, u64, u64)> = functions(&selection).iter()
            .map(|row| (selection.name(row.func).to_owned(), whole(&data, row.own.weight), whole(&data, row.total.weight)))
            .filter(|row| row.2 > 0)
            .collect();
        let mut shown: Vec<(String, u64, u64)> = by_func.into_iter()
            .map(|(func, (own, total))| (page.name(func), own, total))
            .filter(|row| row.2 > 0)
            .collect();
        expected.sort();
        shown.sort();
        prop_assert_eq!(shown, expected);
        let sum = |rows: &mut dyn Iterator<Item = u64>| rows.sum::<u64>();
        let expected = sum(&mut lines(&selection).iter().map(|row| whole(&data, row.own.weight)));
        prop_assert_eq!(sum(&mut by_line.values().map(|(own, _)| *own)), expected);
    }
}

#[test]
fn a_counter_begins_with_its_first_value_and_ends_with_its_process() {
    let mut data = example();
    let life = json!({"registerTime": 10.0, "unregisterTime": 25.0});
    data.threads[0].rest.extend(life.as_object().unwrap().clone());
    let counter = |kind: &str, time: Value, count: Value| {
        let fields = json!({"name": kind, "display": {"graphType": kind}, "samples": {"time": time, "count": count}});
        let fields = fields.as_object().unwrap().clone();
        Counter {
            thread: 0,
            fields: fields.into_iter().collect(),
        }
    };
    data.counters = vec![
        // The first level of a file is 0, at the time of the first reading.
        counter("line-accumulated", json!([12, 12, 20, 30]), json!([0, 8, 2, 0])),
        counter("line-rate", json!([0, 5, 10, 20, 30, 40]), json!([0, 0, 0, 10, 5, 0])),
        counter("line-rate", json!([10, 20, 24]), json!([0, 10, 2])),
    ];
    let page = Page::of(&data);
    let lines = page.head["counters"].as_array().unwrap().iter();
    let lines: Vec<_> = lines
        .map(|line| (page.column(&line["time"]), page.column(&line["value"])))
        .collect();
    let full = 65_535;
    assert_eq!(
        lines[0],
        (vec![12_000, 12_000, 20_000, 30_000], vec![52_428, 52_428, full, full])
    );
    assert_eq!(lines[1], (vec![10_000, 20_000, 30_000], vec![full, full, 32_767]));
    assert_eq!(lines[2], (vec![10_000, 20_000, 24_000], vec![full, full, 32_767]));
}

#[test]
fn a_page_permits_its_own_scripts_alone_and_is_the_same_each_time() {
    let page = || {
        let mut html = Vec::new();
        write(example(), &PageOptions::default(), &mut html).unwrap();
        String::from_utf8(html).unwrap()
    };
    let html = page();
    assert_eq!(html, page());
    assert!(html.contains(&policy(false)) && policy(false).starts_with("default-src 'none'; script-src 'sha256-"));
    assert!(!policy(false).contains("connect-src") && !policy(false).contains("unsafe"));
    assert_eq!(html.matches("<script").count(), 3, "code, data and what unpacks them");
    let served = String::from_utf8(served_page().unwrap()).unwrap();
    assert!(served.contains("connect-src 'self'; ") && served.matches("<script").count() == 2);
    assert!(served.len() < 100_000, "{} bytes are sent with each page", served.len());
}

#[test]
fn parts_of_wall_time_are_a_kind_beside_cpu_time_and_running_threads_a_line() {
    // Two threads: 4 ms at once, then 2 ms one of them alone.
    let thread = |samples: u32| Thread {
        name: samples.to_string(),
        tid: samples.to_string(),
        samples: Samples {
            time_ms: (1..=samples).map(f64::from).collect(),
            stack: vec![NONE; samples as usize],
            ..Samples::default()
        },
        ..Thread::default()
    };
    let data = Data {
        interval_ms: 1.0,
        duration_ms: Some(6.0),
        threads: vec![thread(6), thread(4)],
        ..Data::default()
    };
    let page = Page::of(&data);
    let [cpu, wall] = &page.head["kinds"].as_array().unwrap()[..] else {
        panic!("{}", page.head["kinds"])
    };
    assert_eq!(
        (&cpu["name"], &wall["name"]),
        (&json!("CPU time"), &json!("wall time (estimate)"))
    );
    let weights = &wall["threads"];
    assert_eq!(
        page.column(&weights[0]["weight"]),
        [500_000, 500_000, 500_000, 500_000, 1_000_000, 1_000_000]
    );
    assert_eq!(weights[1]["weight"], json!({ "each": 500_000 }));
    // What is the same in both is written once.
    assert_eq!(cpu["threads"][0]["time"], weights[0]["time"]);
    let line = &page.head["counters"][0];
    assert_eq!((&line["unit"], &line["most"]), (&json!("threads"), &json!(2000.0)));
}
