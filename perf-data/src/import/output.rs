//! From records to events: those of the chosen event, with what the file's features add to them.

use std::collections::BTreeMap;

use recording::clock::Timestamp;
use recording::event::{Event, EventKind, LostCause, Role, ThreadEvent};
use recording::sink::EventSink;

use super::attr::Attr;
use super::choice::{EventChoice, ShownAs};
use super::deferred::UserChain;
use super::header::FileFeatures;
use super::late_exits::{self, LateExits};
use super::named_events::NamedEvents;
use super::{sample, simpleperf};
use crate::abi::record_type;
use crate::decode::{Record, RecordHeader, RegisterSet, SampleLayout};
use crate::spool::{self, SprofRecord};
use crate::translate::{SampleEvent, Translator};

/// Lost records that one record can report. So sums do not overflow.
const MOST_LOST: u64 = 1 << 40;

/// The way from records to events.
pub(super) struct ImportOutput {
    translator: Translator,
    /// `None` for a kind of processor that sprof can't unwind.
    registers: Option<RegisterSet>,
    pub(super) choice: EventChoice,
    /// The spool of a recording with -e has these.
    pub(super) named: NamedEvents,
    pub(super) samples: u64,
    /// Samples of the heap, and frees.
    pub(super) blocks: u64,
    pub(super) frees: u64,
    pub(super) switches_left_out: u64,
    /// Sums of waits: perf knows only their lengths.
    pub(super) waits_without_times: u64,
    late_exits: LateExits,
    /// Samples that were left out, by event.
    pub(super) other_samples: BTreeMap<usize, u64>,
    lost_samples: u64,
    idle_is_named: bool,
    /// The time of the last record.
    pub(super) latest: u64,
    /// When each run of the program began, of a spool.
    pub(super) run_starts: Vec<Timestamp>,
    /// What was executed first.
    pub(super) program: Option<String>,
}

impl ImportOutput {
    pub(super) fn new(registers: Option<RegisterSet>, choice: EventChoice, named: NamedEvents) -> ImportOutput {
        ImportOutput {
            translator: Translator::new(SampleLayout {
                registers: registers.unwrap_or_default(),
                call_chain: true,
                ..SampleLayout::default()
            }),
            registers,
            choice,
            named,
            samples: 0,
            blocks: 0,
            frees: 0,
            switches_left_out: 0,
            waits_without_times: 0,
            late_exits: LateExits::default(),
            other_samples: BTreeMap::new(),
            lost_samples: 0,
            idle_is_named: false,
            latest: 0,
            run_starts: Vec::new(),
            program: None,
        }
    }

    /// Reports lost samples beyond those of PERF_RECORD_LOST. perf counts twice: in records of the ring, and by event
    /// at the end.
    pub(super) fn report_lost(&mut self, end: Timestamp, sink: &mut dyn EventSink) {
        let unreported = (self.lost_samples).saturating_sub(self.translator.lost(Role::Running));
        self.translator
            .report_lost(end, unreported, Role::Running, LostCause::SamplesRingFull, sink);
    }

    /// False for files from machines of an unknown kind.
    pub(super) fn can_unwind(&self) -> bool {
        self.registers.is_some()
    }

    /// Reports the ends that were kept back.
    pub(super) fn end_threads(&mut self, sink: &mut dyn EventSink) {
        for (time, exit) in self.late_exits.take_all() {
            self.translator.decoded(time, Ok(exit), Role::Running, sink);
        }
    }

    /// Sends the events of one record. `user`: of a sample, the user part of its call chain.
    pub(super) fn deliver(
        &mut self,
        time: u64,
        (index, attr): (usize, &Attr),
        record: &[u8],
        user: UserChain<'_>,
        features: &FileFeatures,
        sink: &mut dyn EventSink,
    ) {
        match SprofRecord::parse(record) {
            Some(SprofRecord::Event(event)) => {
                let time = Timestamp(time);
                self.frees += u64::from(matches!(event.kind, EventKind::Thread(_, ThreadEvent::Freed { .. })));
                return sink.on_event(&Event { time, ..*event });
            }
            Some(SprofRecord::RunStart(time)) => return self.run_starts.push(time),
            None => {}
        }
        let shown = self.choice.shown(index);
        let is_sample =
            record.first_chunk().map(RecordHeader::parse).map(|header| header.kind) == Some(record_type::SAMPLE);
        let named = self.named.place(index);
        if is_sample && shown == ShownAs::LeftOut && named.is_none() {
            *self.other_samples.entry(index).or_default() += 1;
            return;
        }
        let mut time = Timestamp(time);
        if shown == ShownAs::Waits && late_exits::is_no_time(time.0) {
            self.waits_without_times += u64::from(is_sample);
            time = Timestamp(self.latest);
        }
        self.latest = self.latest.max(time.0);
        let (role, event) = named.unwrap_or_else(|| match shown {
            ShownAs::WaitStacks if is_sample => (Role::WaitStack, 0),
            // A spool has rings of their own for these; with perf, what is lost may be anything.
            ShownAs::WaitStacks if features.is_spool() => (Role::Switch, 0),
            ShownAs::Waits if is_sample => (Role::Wait, 0),
            _ => (Role::Running, 0),
        });
        let chain;
        let mut decoded = sample::decode(record, attr, self.registers);
        let of_simpleperf = features.simpleperf.is_there();
        if of_simpleperf
            && let Ok(Record::Mmap {
                executable,
                start,
                file_offset,
                path,
                ..
            }) = &mut decoded
        {
            if simpleperf::is_jit(record) {
                // Its symbols are at the addresses themselves.
                (*executable, *file_offset) = (true, *start);
            }
            // Code of the Android Runtime that is interpreted is in files that are only read.
            *executable |= features.simpleperf.has_functions_of(path);
        }
        if let Ok(Record::Sample(sample)) = &mut decoded {
            sample.at_calls = of_simpleperf;
            if let Some(whole) = user.complete(sample.call_chain) {
                chain = whole;
                sample.call_chain = &chain;
            }
        }
        match &mut decoded {
            Ok(Record::Mmap { build_id, path, .. }) if build_id.is_none() => {
                *build_id = features.build_ids.get(*path).cloned();
            }
            Ok(Record::Switch { .. }) if !self.choice.switches => {
                self.switches_left_out += 1;
                return;
            }
            Ok(Record::Lost { count }) => {
                *count = (*count).min(MOST_LOST);
                if features.is_spool() {
                    let cause = spool::cause(record);
                    return self.translator.report_lost(time, *count, role, cause, sink);
                }
            }
            Ok(Record::LostSamples { count }) => {
                self.lost_samples = self.lost_samples.saturating_add(*count).min(MOST_LOST);
                return;
            }
            Ok(Record::Comm { exec: true, name, .. }) if self.program.is_none() => {
                self.program = Some(String::from_utf8_lossy(name).into_owned());
            }
            // Idle CPUs also switch.
            Ok(Record::Sample(sample)) if shown == ShownAs::WaitStacks && sample.tid == 0 => return,
            Ok(Record::Exit { pid, tid }) if self.choice.has_sums() && self.late_exits.keep(time, *pid, *tid) => return,
            Ok(Record::Fork { tid, .. }) => {
                if let Some((ended, exit)) = self.late_exits.take(*tid) {
                    self.translator.decoded(ended, Ok(exit), Role::Running, sink);
                }
            }
            Ok(Record::Sample(sample)) => {
                self.samples += u64::from(shown == ShownAs::Samples);
                if (sample.pid, sample.tid) == (0, 0) {
                    self.name_idle_task(time, sink);
                }
            }
            _ => {}
        }
        if let (Ok(Record::Sample(sample)), Role::Counted | Role::Point | Role::Allocation) = (&decoded, role) {
            let allocation = (role == Role::Allocation)
                .then(|| spool::allocation(sample.raw))
                .flatten();
            self.blocks += u64::from(allocation.is_some());
            let of = SampleEvent {
                role,
                event,
                values: &self.named.values(role, event, sample.raw),
                allocation: allocation.as_ref(),
                return_address: None,
                next_copy: None,
            };
            return self.translator.sample(time, sample, &of, sink);
        }
        self.translator.decoded(time, decoded, role, sink);
    }

    /// `perf record -a` also samples idle CPUs, and shows them as its "swapper".
    fn name_idle_task(&mut self, time: Timestamp, sink: &mut dyn EventSink) {
        if !std::mem::replace(&mut self.idle_is_named, true) {
            self.translator.name_idle_task(time, sink);
        }
    }
}
