//! `--span FUNCTION`: pairs the beginnings and ends of a function's calls, which are spans.
//!
//! At both the stack pointer is the same, and no other call of the process has that address at the same time. So a pair
//! is right with recursion, in threads, and on stacks that move between threads. A call that an exception or longjmp
//! leaves has no end: the next call at its address takes its place. No duration is guessed. If a record was lost, the
//! end of another call may be taken for that of an open one: all calls of that round, and all that began before its
//! end, are dropped.

use std::collections::HashMap;

use recording::clock::Timestamp;
use recording::event::{Event, LostCause, RecordingEvent, Role, Thread, ThreadEvent};
use recording::probe::{CallMoment, SpanFunction};
use recording::sink::EventSink;
use recording::span::{Span, SpanFieldsBuffer, SpanValue};

use crate::open::events::CallPoint;
use crate::sys::process::monotonic_ns;
use perf_data::decode::CallHit;

/// Most beginnings and ends of a function within a second. Each costs the program about 12 us.
const HITS_PER_SECOND: u64 = 10_000;
const NANOS_PER_SECOND: u64 = 1_000_000_000;
/// A fuller ring may have lost records since it was emptied.
const FULL: f64 = 0.5;
/// Most open calls of all functions. Each call that did not return leaves one, until its place on the stack is used
/// again.
const MAX_OPEN: usize = 1 << 20;

/// The calls of a recording.
#[derive(Debug)]
pub(crate) struct CallPairs {
    functions: Vec<FunctionCalls>,
    /// By function, process and stack pointer.
    open: HashMap<(u32, i32, u64), OpenCall>,
    /// Of this round.
    ended: Vec<EndedCall>,
    /// Ends of calls that began before may have been lost.
    trusted_from: u64,
}

#[derive(Debug)]
struct FunctionCalls {
    name: String,
    spans: u64,
    /// Calls that did not return, as another one at the same place shows.
    left: u64,
    /// Dropped, because records were lost.
    dropped: u64,
    second: u64,
    hits: u64,
    /// When the function was found to be called too often.
    off: Option<Timestamp>,
    is_stopped: bool,
}

#[derive(Clone, Copy, Debug)]
struct EndedCall {
    function: u32,
    call: OpenCall,
    at: Timestamp,
    is_tail_call: bool,
}

#[derive(Clone, Copy, Debug)]
struct OpenCall {
    thread: Thread,
    began: Timestamp,
}

impl CallPairs {
    pub(crate) fn new(spans: &[SpanFunction]) -> CallPairs {
        let functions = spans.iter().map(|span| FunctionCalls {
            name: span.name.clone(),
            spans: 0,
            left: 0,
            dropped: 0,
            second: 0,
            hits: 0,
            off: None,
            is_stopped: false,
        });
        CallPairs {
            functions: functions.collect(),
            open: HashMap::new(),
            ended: Vec::new(),
            trusted_from: 0,
        }
    }

    /// Takes a beginning or an end.
    pub(crate) fn hit(&mut self, time: u64, point: CallPoint, hit: &CallHit) {
        let Some(function) = self.functions.get_mut(point.function as usize) else {
            return;
        };
        if function.off.is_some() {
            return;
        }
        let second = time / NANOS_PER_SECOND;
        if second != function.second {
            (function.second, function.hits) = (second, 0);
        }
        function.hits += 1;
        if function.hits > HITS_PER_SECOND {
            function.off = Some(Timestamp(time));
        }
        let place = (point.function, hit.pid, hit.stack_pointer);
        if point.moment != CallMoment::Begins {
            // Else it began before the recording, or in the process that this one was forked from.
            if let Some(call) = self.open.remove(&place) {
                self.ended.push(EndedCall {
                    function: point.function,
                    call,
                    at: Timestamp(time),
                    is_tail_call: point.moment == CallMoment::TailCall,
                });
            }
            return;
        }
        if time < self.trusted_from {
            function.dropped += 1;
            return;
        }
        let call = OpenCall {
            thread: Thread::new(hit.pid, hit.tid),
            began: Timestamp(time),
        };
        let before = match self.open.len() < MAX_OPEN {
            true => self.open.insert(place, call),
            false => Some(call),
        };
        function.left += u64::from(before.is_some());
    }

    /// Sends the calls that have ended, unless records may be lost. `fill`: of the fullest ring with such records, from
    /// 0 to 1, when the round began. Returns the functions that are to be switched off.
    pub(crate) fn end_round(&mut self, fill: f64, is_lost: bool, sink: &mut dyn EventSink) -> Vec<u32> {
        if is_lost || fill > FULL {
            self.trusted_from = monotonic_ns();
            let open = self.open.drain().map(|((function, ..), _)| function);
            for function in open.chain(self.ended.drain(..).map(|ended| ended.function)) {
                self.functions[function as usize].dropped += 1;
            }
        }
        for ended in self.ended.drain(..) {
            let function = &mut self.functions[ended.function as usize];
            function.spans += 1;
            let mut fields = SpanFieldsBuffer::default();
            if ended.is_tail_call {
                let _ = fields.push("end", SpanValue::Text("a jump to another function"));
            }
            let span = Span {
                fields: fields.fields(),
                ..Span::new(&function.name, Some(ended.call.began))
            };
            sink.on_event(&Event::thread(ended.at, ended.call.thread, ThreadEvent::Span(span)));
        }
        let mut stopped = Vec::new();
        for (function, index) in self.functions.iter_mut().zip(0..) {
            if function.off.is_some() && !std::mem::replace(&mut function.is_stopped, true) {
                stopped.push(index);
            }
        }
        stopped
    }

    /// Reports what is lost, and returns a sentence for each function with calls that have no span. `lost_calls`: of a
    /// function, those whose beginning found no room in the ring.
    pub(crate) fn finish(
        &self,
        lost_calls: impl Fn(u32) -> u64,
        start: Timestamp,
        end: Timestamp,
        sink: &mut dyn EventSink,
    ) -> Vec<String> {
        let mut notes = Vec::new();
        let mut lost = 0;
        for (function, index) in self.functions.iter().zip(0..) {
            let name = &function.name;
            let open = self.open.keys().filter(|(of, ..)| *of == index).count() as u64;
            let without = function.left + open;
            let lost_calls = function.dropped + lost_calls(index);
            lost += lost_calls;
            if lost_calls > 0 {
                notes.push(format!(
                    "{lost_calls} calls of {name} were lost: the recorder came too late to empty the rings"
                ));
            }
            if let Some(off) = function.off {
                notes.push(format!(
                    "{name} was called more than 5,000 times a second, and each call cost about 25 us: its spans end after \
                     {:.1} s",
                    off.0.saturating_sub(start.0) as f64 / 1e9
                ));
            } else if function.spans + without + lost_calls == 0 {
                notes.push(format!("{name} was not called"));
            } else if without > 0 {
                let all = function.spans + without + lost_calls;
                notes.push(format!(
                    "{without} of {all} calls of {name} have no span: an exception or longjmp ended them, or they \
                     had not returned when their thread or the recording ended"
                ));
            }
        }
        if lost > 0 {
            let what = RecordingEvent::Lost {
                count: lost,
                role: Role::Span,
                cause: LostCause::RingFull,
            };
            sink.on_event(&Event::recording(end, what));
        }
        notes
    }
}
