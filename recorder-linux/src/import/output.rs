//! From records to events: those of the chosen event, with what the file's features add to them.

use std::collections::BTreeMap;

use recording::clock::Timestamp;
use recording::event::LostCause;
use recording::sink::EventSink;

use super::attr::Attr;
use super::header::Features;
use super::sample;
use crate::abi::record_type;
use crate::decode::{Header, Layout, Malformed, Record, RegisterSet};
use crate::translate::{Subject, TaskZero, Translator};

/// A record of lost ones says no more than this: what comes later can add them up.
const MOST_LOST: u64 = 1 << 40;

/// The way from records to events.
pub(super) struct Output {
    translator: Translator,
    registers: RegisterSet,
    /// Which event's samples are taken.
    pub(super) event: usize,
    /// Whose samples are stacks of waits: the spool of a recording with --off-cpu has it.
    pub(super) waits_event: Option<usize>,
    pub(super) samples: u64,
    /// Samples that were left out, by event.
    pub(super) other_samples: BTreeMap<usize, u64>,
    lost_samples: u64,
    idle_is_named: bool,
    /// The time of the last record.
    pub(super) latest: u64,
    /// What was executed first.
    pub(super) program: Option<String>,
}

impl Output {
    pub(super) fn new(registers: RegisterSet, event: usize, waits_event: Option<usize>) -> Output {
        Output {
            translator: Translator::new(Layout {
                registers,
                call_chain: true,
                stack_bytes: 0,
            }),
            registers,
            event,
            waits_event,
            samples: 0,
            other_samples: BTreeMap::new(),
            lost_samples: 0,
            idle_is_named: false,
            latest: 0,
            program: None,
        }
    }

    /// Tells what was lost beyond those that records told of. perf counts twice: in the ring's records of lost ones, and by
    /// event at the end.
    pub(super) fn report_lost(&mut self, end: Timestamp, sink: &mut dyn EventSink) {
        let untold = (self.lost_samples).saturating_sub(self.translator.lost(Subject::Running));
        self.translator
            .report_lost(end, untold, LostCause::SamplesRingFull, sink);
    }

    /// Sends the events of one record.
    pub(super) fn deliver(
        &mut self,
        time: u64,
        index: usize,
        attr: &Attr,
        record: &[u8],
        features: &Features,
        sink: &mut dyn EventSink,
    ) {
        self.latest = self.latest.max(time);
        let time = Timestamp(time);
        let is_sample = record.first_chunk().map(Header::parse).map(|header| header.kind) == Some(record_type::SAMPLE);
        let subject = match (index == self.event, self.waits_event == Some(index)) {
            (false, true) if is_sample => Subject::WaitStacks,
            (false, true) => Subject::Switches,
            (false, false) if is_sample => {
                *self.other_samples.entry(index).or_default() += 1;
                return;
            }
            _ => Subject::Running,
        };
        let mut registers = sample::Registers::default();
        let mut decoded = sample::decode(record, attr, self.registers, &mut registers);
        match &mut decoded {
            Ok(Record::Mmap { build_id, path, .. }) if build_id.is_none() => {
                *build_id = features.build_ids.get(*path).cloned();
            }
            // perf has its own form of these; sprof reads its spool's.
            Ok(Record::Switch { .. }) if self.waits_event.is_none() => return,
            Ok(Record::Lost { count }) => *count = (*count).min(MOST_LOST),
            Ok(Record::LostSamples { count }) => {
                self.lost_samples = self.lost_samples.saturating_add(*count).min(MOST_LOST);
                return;
            }
            Ok(Record::Comm { exec: true, name, .. }) if self.program.is_none() => {
                self.program = Some(String::from_utf8_lossy(name).into_owned());
            }
            Ok(Record::Sample(sample)) => {
                self.samples += 1;
                if (sample.pid, sample.tid) == (0, 0) {
                    self.name_idle_task(time, sink);
                }
            }
            _ => {}
        }
        self.translator.decoded(time, decoded, subject, sink);
    }

    /// `perf record -a` samples idle CPUs, too, and shows them as its "swapper".
    fn name_idle_task(&mut self, time: Timestamp, sink: &mut dyn EventSink) {
        if !std::mem::replace(&mut self.idle_is_named, true) {
            self.translator.admit_task_zero(TaskZero::Idle);
            let name: Result<_, Malformed> = Ok(Record::Comm {
                pid: 0,
                tid: 0,
                exec: false,
                name: b"swapper",
            });
            self.translator.decoded(time, name, Subject::Running, sink);
        }
    }
}
