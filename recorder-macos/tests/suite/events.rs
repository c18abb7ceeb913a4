//! A sink that checks the order of events, and keeps the samples. One recording on the simulated kernel.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use recorder_macos::processes::host::Host;
use recorder_macos::processes::watched::Watched;
use recorder_macos::sampling::{SamplingPlan, SamplingResult, sample};
use recording::clock::Timestamp;
use recording::event::{Event, EventKind, Mapping, ProcessEvent, Role, Thread, ThreadEvent};
use recording::module::BuildId;
use recording::sink::{Completion, EventSink};
use recording::stack::{Frame, Registers, Stack, StackMark};
use recording::wait::WaitReason;

use crate::xnu::Xnu;
use crate::xnu::fault::Faults;
use crate::xnu::machine::{FUNCTIONS, Machine};

pub(crate) const MS: u64 = 1_000_000;

/// A sample, with what the simulated stack says of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    pub(crate) period: u64,
    pub(crate) function: usize,
    /// The index of the thread in the machine, if any stack could be read.
    pub(crate) serial: Option<usize>,
}

#[derive(Debug, Default)]
pub(crate) struct Checked {
    pub(crate) samples: Vec<Taken>,
    pub(crate) lines: Vec<String>,
    /// Samples with all of the stack that can be read.
    pub(crate) whole_stacks: u64,
    /// Samples in the image that the thread executed, in no known image, and in another one.
    pub(crate) places: [u64; 3],
    pub(crate) points: u64,
    maps: HashMap<i32, Vec<Map>>,
    last_ns: u64,
    living: HashMap<i32, HashSet<i32>>,
    /// Waits that have ended, with their lengths.
    pub(crate) waits: Vec<(WaitReason, u64)>,
    /// The reason of the next wait of a thread, and the waits that last.
    next_wait: HashMap<Thread, WaitReason>,
    waiting: HashMap<Thread, (WaitReason, u64)>,
}

/// A mapping: where, and the serial of its image; 0 for memory of no image.
#[derive(Clone, Debug)]
struct Map {
    place: Range<u64>,
    serial: u64,
}

impl Checked {
    /// A wait of a thread ends, if there is one.
    fn end_wait(&mut self, thread: Thread, at_ns: u64) -> bool {
        let wait = self.waiting.remove(&thread);
        self.waits
            .extend(wait.map(|(reason, since_ns)| (reason, at_ns - since_ns)));
        wait.is_some()
    }

    /// All waits end with the recording.
    pub(crate) fn end_waits(&mut self, at_ns: u64) {
        let waiting: Vec<Thread> = self.waiting.keys().copied().collect();
        waiting.into_iter().for_each(|thread| _ = self.end_wait(thread, at_ns));
    }

    fn map(&mut self, pid: i32, mapping: &Mapping<'_>) {
        let place = mapping.start..mapping.start + mapping.len;
        let maps = self.maps.entry(pid).or_default();
        maps.retain(|other| other.place.end <= place.start || other.place.start >= place.end);
        let serial = mapping.build_id.as_ref().map_or(0, |id| {
            // The UUID's own bytes: to reverse its fields twice is to do nothing.
            let uuid = BuildId::of_uuid(id.0[..].try_into().unwrap());
            u64::from_le_bytes(uuid.0[..8].try_into().unwrap())
        });
        let path = if serial == 0 {
            "//anon".to_owned()
        } else {
            format!("/lib/{serial}")
        };
        assert_eq!(mapping.path, path.as_bytes());
        maps.push(Map { place, serial });
    }

    /// What is mapped at an address.
    fn serial_at(&self, pid: i32, address: u64) -> u64 {
        let mut maps = self.maps.get(&pid).into_iter().flatten();
        maps.find(|map| map.place.contains(&address))
            .map_or(0, |map| map.serial)
    }
}

impl EventSink for Checked {
    fn on_event(&mut self, event: &Event<'_>) {
        assert!(event.time.0 >= self.last_ns, "events are in time order");
        self.last_ns = event.time.0;
        match &event.kind {
            EventKind::Process(pid, what) => {
                match what {
                    ProcessEvent::Start { parent } => {
                        assert!(parent.is_none_or(|parent| self.living.contains_key(&parent.0)));
                        assert!(self.living.insert(pid.0, HashSet::new()).is_none(), "it started twice");
                        let maps = parent.and_then(|parent| self.maps.get(&parent.0).cloned());
                        self.maps.insert(pid.0, maps.unwrap_or_default());
                    }
                    ProcessEvent::End => {
                        assert_eq!(self.living.remove(&pid.0), Some(HashSet::new()), "threads end first")
                    }
                    ProcessEvent::Exec(_) => {
                        self.maps.remove(&pid.0);
                        let others = self.living[&pid.0].iter().filter(|tid| **tid != pid.0).count();
                        assert_eq!(others, 0, "all other threads are gone");
                    }
                    ProcessEvent::Map(mapping) => return self.map(pid.0, mapping),
                    ProcessEvent::Counter(..) => {
                        self.points += 1;
                        return;
                    }
                    other => panic!("{other:?}"),
                }
                self.lines.push(format!("{} {what:?}", pid.0));
            }
            EventKind::Thread(thread, what) => {
                let threads = self.living.get_mut(&thread.pid.0).expect("a living process");
                match what {
                    ThreadEvent::Start => assert!(threads.insert(thread.tid.0), "it started twice"),
                    ThreadEvent::End => {
                        assert!(threads.remove(&thread.tid.0), "it was there");
                        self.end_wait(*thread, event.time.0);
                    }
                    _ => assert!(threads.contains(&thread.tid.0), "a living thread"),
                }
                match what {
                    ThreadEvent::Sample(sample) => {
                        let Stack::Snapshot(snapshot) = sample.stack else {
                            panic!("a snapshot")
                        };
                        if sample.role == Role::WaitStack {
                            let [Frame::Mark(StackMark::Waiting(reason))] = snapshot.kernel else {
                                panic!("its reason")
                            };
                            self.next_wait.insert(*thread, *reason);
                            return;
                        }
                        assert!(!self.waiting.contains_key(thread), "it waits");
                        let Registers::X86_64 { ip, .. } = snapshot.registers else {
                            panic!("as simulated")
                        };
                        let word = |at: usize| {
                            let bytes = snapshot.stack_bytes.get(at..at + 8)?;
                            Some(u64::from_le_bytes(bytes.try_into().unwrap()))
                        };
                        if let Some(readable) = word(8) {
                            let bytes = snapshot.stack_bytes.len() as u64;
                            assert!(bytes <= readable, "no more than can be read");
                            self.whole_stacks += u64::from(bytes == readable);
                        }
                        if let Some(truth) = word(16) {
                            let place = match self.serial_at(thread.pid.0, ip) {
                                serial if serial == truth => 0,
                                0 => 1,
                                _ => 2,
                            };
                            self.places[place] += 1;
                        }
                        self.samples.push(Taken {
                            period: sample.period,
                            function: (ip as usize & 0xf000) / 0x1000,
                            serial: word(0).map(|serial| serial as usize),
                        });
                    }
                    ThreadEvent::SwitchOut { preempted: false } => {
                        let reason = self.next_wait.remove(thread).expect("its stack came before");
                        let waits_already = self.waiting.insert(*thread, (reason, event.time.0));
                        assert!(waits_already.is_none(), "it waits already");
                    }
                    ThreadEvent::SwitchIn => assert!(self.end_wait(*thread, event.time.0), "it waits"),
                    other => self.lines.push(format!("{}/{} {other:?}", thread.pid.0, thread.tid.0)),
                }
            }
            other => panic!("{other:?}"),
        }
    }

    fn end_round(&mut self, _: Timestamp) -> Completion {
        Completion::default()
    }
}

/// One process as the launched program.
pub(crate) fn plan(pid: i32, is_new: bool, interval_ns: u64, deadline_ns: Option<u64>) -> SamplingPlan {
    SamplingPlan {
        roots: vec![pid],
        is_new,
        suspended: Vec::new(),
        watched: Watched {
            program: Some(pid),
            others: Default::default(),
        },
        off_cpu: false,
        interval_ns,
        deadline_ns,
    }
}

/// Records the first process of a machine. Afterwards nothing is suspended, and no right is held.
pub(crate) fn record(
    machine: Machine,
    faults: Faults,
    interval_ns: u64,
    length_ns: u64,
) -> (Option<SamplingResult>, Checked, Xnu) {
    record_with(machine, faults, interval_ns, length_ns, false)
}

/// The same, and waits.
pub(crate) fn record_with(
    machine: Machine,
    faults: Faults,
    interval_ns: u64,
    length_ns: u64,
    off_cpu: bool,
) -> (Option<SamplingResult>, Checked, Xnu) {
    let xnu = Xnu::new(machine, faults);
    let (pid, now) = {
        let kernel = xnu.lock();
        (kernel.machine.processes[0].pid, kernel.machine.now)
    };
    let has_library = xnu.lock().machine.processes[0].has_library;
    if has_library {
        // A fault may make it fail.
        while xnu.listen().is_err() {}
    }
    let mut sink = Checked::default();
    let plan = SamplingPlan {
        off_cpu,
        ..plan(pid, true, interval_ns, Some(now + length_ns))
    };
    let sampled = sample(&xnu, plan, &mut sink).ok();
    xnu.stop_listening();
    let kernel = xnu.lock();
    assert_eq!(kernel.rights(), 0, "all rights are given back");
    for thread in &kernel.machine.threads {
        let is_ended = thread.state == crate::xnu::machine::State::Ended;
        assert!(
            is_ended || thread.suspend_count == 0,
            "each suspend is followed by a resume"
        );
    }
    assert_eq!(kernel.needless_suspends, 0, "a thread that waits is not suspended");
    drop(kernel);
    (sampled, sink, xnu)
}

/// Shares of the functions, by samples and in truth.
pub(crate) fn shares(sink: &Checked, xnu: &Xnu) -> ([f64; FUNCTIONS], [f64; FUNCTIONS]) {
    let (mut sampled, mut truth) = ([0.0; FUNCTIONS], [0.0; FUNCTIONS]);
    for sample in &sink.samples {
        sampled[sample.function] += sample.period as f64;
    }
    for thread in &xnu.lock().machine.threads {
        (0..FUNCTIONS).for_each(|function| truth[function] += thread.truth[function] as f64);
    }
    for shares in [&mut sampled, &mut truth] {
        let sum: f64 = shares.iter().sum();
        shares.iter_mut().for_each(|share| *share /= sum);
    }
    (sampled, truth)
}

/// CPU time by samples, and in truth, ns.
pub(crate) fn cpu_ns(sink: &Checked, xnu: &Xnu) -> (u64, u64) {
    let sampled = sink.samples.iter().map(|sample| sample.period).sum();
    (
        sampled,
        xnu.lock().machine.threads.iter().map(|thread| thread.cpu_ns).sum(),
    )
}
