//! Processes that run when recording starts: reported with the events that their records would have given.

use recording::clock::Timestamp;
use recording::event::{Event, Mapping, Pid, ProcessEvent, Tid};
use recording::sink::EventSink;

use super::Translator;

impl Translator {
    /// Reports a process that was found, with its main thread. `start` is when it started, which may be long ago.
    pub fn found_process(&mut self, start: Timestamp, pid: Pid, parent: Option<Pid>, sink: &mut dyn EventSink) {
        self.found.insert(pid.0);
        self.ensure_thread(start, pid.0, pid.0, parent.map(|parent| parent.0), sink);
    }

    /// Notes that a process that was found is one of the kernel's own.
    pub fn found_kernel_thread(&mut self, pid: Pid) {
        self.kernel_threads.insert(pid.0);
    }

    /// Reports a thread that was found.
    pub fn found_thread(&mut self, start: Timestamp, pid: Pid, tid: Tid, sink: &mut dyn EventSink) {
        self.ensure_thread(start, pid.0, tid.0, None, sink);
    }

    /// Reports the name of a thread that was found.
    pub fn found_name(&mut self, time: Timestamp, pid: Pid, tid: Tid, name: &[u8], sink: &mut dyn EventSink) {
        self.name(time, pid.0, tid.0, false, name, sink);
    }

    /// Reports an executable mapping that was found.
    pub fn found_mapping(&mut self, time: Timestamp, pid: Pid, mapping: &Mapping<'_>, sink: &mut dyn EventSink) {
        self.ensure_thread(time, pid.0, pid.0, None, sink);
        sink.on_event(&Event::process(time, pid, ProcessEvent::Map(mapping)));
    }

    /// Notes the end of the search. While /proc was read, records of the same processes were written: a fork up to here
    /// is of the process that was found, and not of a new one with its number.
    pub fn found_all(&mut self, until: Timestamp) {
        self.found_until = until;
    }

    /// Notes that two events reported what happened meanwhile: a second fork of a process is not a new one with its
    /// number.
    pub fn reported_twice(&mut self, from: Timestamp, until: Timestamp) {
        self.twice.push((from, until));
    }

    /// True if another record may say the same.
    pub(super) fn is_there_twice(&self, time: Timestamp) -> bool {
        self.twice.iter().any(|(from, until)| (*from..=*until).contains(&time))
    }

    /// True if this fork is of a process that was found.
    pub(super) fn was_found(&mut self, time: Timestamp, pid: i32) -> bool {
        if time > self.found_until {
            self.found.clear();
        }
        self.found.remove(&pid)
    }
}
