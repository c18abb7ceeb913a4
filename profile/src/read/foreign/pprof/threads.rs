//! Finds threads by the labels of samples. The format has no threads; each profiler has its own names of labels.

use rustc_hash::FxHashMap;

use super::PprofLabel;
use super::header::PprofHeader;
use crate::data::{Samples, Thread};

/// The meaning of a label.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LabelMeaning {
    Process,
    Pid,
    Thread,
    Tid,
    Goroutine,
}

/// Keys of sprof's export, perf_to_profile, py-spy, Datadog and Pyroscope.
fn part(key: &str) -> Option<LabelMeaning> {
    /// Length of the longest known key.
    const MAX_KEY_BYTES: usize = 12;
    if key.len() > MAX_KEY_BYTES {
        return None;
    }
    Some(match key.to_ascii_lowercase().replace([' ', '-'], "_").as_str() {
        "process" | "process_name" | "comm" => LabelMeaning::Process,
        "pid" | "process_id" => LabelMeaning::Pid,
        "thread" | "thread_name" => LabelMeaning::Thread,
        "tid" | "thread_id" => LabelMeaning::Tid,
        "goroutine" | "goroutine_id" => LabelMeaning::Goroutine,
        _ => return None,
    })
}

pub(super) fn is_known(key: &str) -> bool {
    part(key).is_some()
}

/// Threads in the file's order.
#[derive(Default)]
pub(super) struct LabelledThreads {
    threads: Vec<PprofThread>,
    by_labels: FxHashMap<Vec<PprofLabel>, usize>,
    by_name: FxHashMap<[String; 4], usize>,
    /// The last lookup: samples of one thread are mostly adjacent.
    last: Option<(Vec<PprofLabel>, usize)>,
    values: u64,
}

/// A thread, and its rows.
pub(super) struct PprofThread {
    names: [String; 4],
    stack: Vec<u32>,
    weight: Vec<f64>,
    count: Option<Vec<u64>>,
    variance: Option<Vec<f64>>,
}

impl PprofThread {
    /// Adds a row of the file.
    pub(super) fn add(&mut self, stack: u32, weight: f64, count: Option<u64>, variance: Option<f64>) {
        self.stack.push(stack);
        self.weight.push(weight);
        if let Some(count) = count {
            self.count.get_or_insert_default().push(count);
        }
        if let Some(variance) = variance {
            self.variance.get_or_insert_default().push(variance);
        }
    }
}

impl LabelledThreads {
    pub(super) fn values(&self) -> u64 {
        self.values
    }

    pub(super) fn len(&self) -> usize {
        self.threads.len()
    }

    /// The thread of these labels.
    pub(super) fn of(&mut self, header: &PprofHeader, labels: &[PprofLabel]) -> &mut PprofThread {
        self.values += 5;
        let at = match &self.last {
            Some((last, at)) if last == labels => *at,
            _ => {
                let at = self.find(header, labels);
                self.last = Some((labels.to_vec(), at));
                at
            }
        };
        &mut self.threads[at]
    }

    fn find(&mut self, header: &PprofHeader, labels: &[PprofLabel]) -> usize {
        let of_threads: Vec<PprofLabel> = (labels.iter().copied())
            .filter(|label| is_known(header.text(label.key)))
            .collect();
        if let Some(known) = self.by_labels.get(&of_threads) {
            return *known;
        }
        let mut names: [String; 4] = Default::default();
        for label in &of_threads {
            let value = match header.text(label.text) {
                "" => label.number.to_string(),
                text => text.to_owned(),
            };
            let [process, pid, thread, tid] = &mut names;
            match part(header.text(label.key)) {
                Some(LabelMeaning::Process) => *process = value,
                Some(LabelMeaning::Pid) => *pid = value,
                Some(LabelMeaning::Thread) => match name_and_tid(&value) {
                    Some((name, id)) => {
                        *thread = name.to_owned();
                        *tid = id.to_owned();
                    }
                    None => *thread = value,
                },
                Some(LabelMeaning::Tid) => *tid = value,
                Some(LabelMeaning::Goroutine) => {
                    *thread = "goroutine".to_owned();
                    *tid = value;
                }
                None => {}
            }
        }
        let name_bytes: usize = names.iter().map(String::len).sum();
        self.values += 30 + 3 * of_threads.len() as u64 + name_bytes as u64 / 4;
        let threads = &mut self.threads;
        let at = *self.by_name.entry(names.clone()).or_insert_with(|| {
            threads.push(PprofThread {
                names,
                stack: Vec::new(),
                weight: Vec::new(),
                count: None,
                variance: None,
            });
            threads.len() - 1
        });
        self.by_labels.insert(of_threads, at);
        at
    }

    pub(super) fn finish(self) -> Vec<Thread> {
        let threads = self.threads.into_iter().map(|rows| {
            let [process_name, pid, name, tid] = rows.names;
            Thread {
                name,
                process_name,
                pid,
                tid,
                samples: Samples {
                    time_ms: vec![0.0; rows.stack.len()],
                    stack: rows.stack,
                    weight: Some(rows.weight),
                    count: rows.count,
                    variance: rows.variance,
                    ..Samples::default()
                },
                ..Thread::default()
            }
        });
        threads.collect()
    }
}

/// `worker (123)`, as in sprof's export.
fn name_and_tid(thread: &str) -> Option<(&str, &str)> {
    let (name, tid) = thread.strip_suffix(')')?.rsplit_once(" (")?;
    let is_id = tid.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') && !tid.is_empty();
    is_id.then_some((name, tid))
}
