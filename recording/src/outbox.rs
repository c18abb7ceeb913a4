//! The queue from the thread that samples to the one that unwinds, for recorders that stop the program (ptrace, Mach).
//! The sampling thread must never wait for the unwinder while the program waits for the sampling thread. So messages
//! own their data, and samples are dropped and counted when too many are queued.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::time::Duration;

use crate::clock::Timestamp;
use crate::event::{Event, LostCause, Mapping, Pid, ProcessEvent, RecordingEvent, Role, Sample, Thread, ThreadEvent};
use crate::module::BuildId;
use crate::proc::MapsLine;
use crate::sink::EventSink;
use crate::stack::{Frame, FurtherRegisters, MissingStack, Registers, Snapshot, Stack, StackMark};
use crate::wait::WaitReason;

/// Most stack bytes in the queue.
const STACK_BYTES: usize = 64 << 20;
/// If no message comes for this time, the next stages get a message that time goes on.
const REST: Duration = Duration::from_millis(500);
/// Most messages in the queue; the sampling thread waits if there are more.
const MESSAGES: usize = 1 << 14;

/// An event that owns its data.
#[derive(Debug)]
pub enum Message {
    /// An event that borrows nothing.
    Event(Event<'static>),
    /// See [`ThreadEvent::Name`].
    ThreadName {
        /// When it was seen.
        time: Timestamp,
        /// The thread.
        thread: Thread,
        /// Its new name.
        name: String,
    },
    /// See [`ProcessEvent::Title`].
    Title {
        /// When it was read.
        time: Timestamp,
        /// The process.
        pid: Pid,
        /// Its title.
        title: String,
    },
    /// See [`ProcessEvent::Exec`].
    Exec {
        /// When it was seen.
        time: Timestamp,
        /// The process.
        pid: Pid,
        /// Its new name.
        name: String,
    },
    /// See [`ProcessEvent::Map`].
    Map {
        /// When it was seen.
        time: Timestamp,
        /// The process.
        pid: Pid,
        /// The mapping.
        code: OwnedMapping,
    },
    /// See [`ThreadEvent::Sample`].
    Sample(Box<OwnedSample>),
}

/// A [`Mapping`] that owns its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedMapping {
    /// See [`Mapping::start`].
    pub start: u64,
    /// See [`Mapping::len`].
    pub len: u64,
    /// See [`Mapping::file_offset`].
    pub file_offset: u64,
    /// See [`Mapping::path`].
    pub path: Vec<u8>,
    /// See [`Mapping::build_id`].
    pub build_id: Option<BuildId>,
    /// See [`Mapping::inode`].
    pub inode: Option<(u32, u32, u64)>,
}

impl From<&Mapping<'_>> for OwnedMapping {
    fn from(mapping: &Mapping<'_>) -> OwnedMapping {
        OwnedMapping {
            start: mapping.start,
            len: mapping.len,
            file_offset: mapping.file_offset,
            path: mapping.path.to_vec(),
            build_id: mapping.build_id.clone(),
            inode: mapping.inode,
        }
    }
}

impl From<MapsLine> for OwnedMapping {
    fn from(line: MapsLine) -> OwnedMapping {
        OwnedMapping {
            start: line.start,
            len: line.len,
            file_offset: line.file_offset,
            path: line.path,
            build_id: None,
            inode: line.inode,
        }
    }
}

impl OwnedMapping {
    /// The mapping as consumers of events take it.
    pub fn as_mapping(&self) -> Mapping<'_> {
        Mapping {
            start: self.start,
            len: self.len,
            file_offset: self.file_offset,
            path: &self.path,
            build_id: self.build_id.clone(),
            inode: self.inode,
        }
    }
}

/// A sample that owns its stack.
#[derive(Debug)]
pub struct OwnedSample {
    /// When it was taken, ns on the recording's clock.
    pub time: u64,
    /// The process.
    pub pid: i32,
    /// The thread.
    pub tid: i32,
    /// CPU on which it ran.
    pub cpu: u32,
    /// CPU time that it stands for, ns.
    pub period: u64,
    /// `None` for a 32-bit task.
    pub registers: Option<Registers>,
    /// See [`FurtherRegisters::bits`] and [`FurtherRegisters::words`], with a word for each bit; empty where the source
    /// has none.
    pub further: (&'static [u8], Box<[u8]>),
    /// Stack bytes; the first is at the stack pointer.
    pub stack: Box<[u8]>,
    /// What the thread waits for, if this is the stack of a wait ([`Role::WaitStack`]).
    pub waits_for: Option<WaitReason>,
}

/// The sampling thread's end.
#[derive(Debug)]
pub struct Outbox {
    sender: SyncSender<Message>,
    stack_bytes: Arc<AtomicUsize>,
    dropped: u64,
}

/// The unwinding thread's end.
#[derive(Debug)]
pub struct Inbox {
    receiver: Receiver<Message>,
    stack_bytes: Arc<AtomicUsize>,
}

/// Both ends of a new queue.
pub fn channel() -> (Outbox, Inbox) {
    let (sender, receiver) = sync_channel(MESSAGES);
    let stack_bytes = Arc::new(AtomicUsize::new(0));
    let outbox = Outbox {
        sender,
        stack_bytes: stack_bytes.clone(),
        dropped: 0,
    };
    (outbox, Inbox { receiver, stack_bytes })
}

impl Outbox {
    /// Sends anything but a sample. The other end is closed only if recording has failed, which the caller reports.
    pub fn send(&mut self, message: Message) {
        let _ = self.sender.send(message);
    }

    /// Sends an event of a process.
    pub fn process(&mut self, time: u64, pid: i32, what: ProcessEvent<'static>) {
        self.send(Message::Event(Event::process(Timestamp(time), Pid(pid), what)));
    }

    /// Sends an event of a thread.
    pub fn thread(&mut self, time: u64, pid: i32, tid: i32, what: ThreadEvent<'static>) {
        self.send(Message::Event(Event::thread(
            Timestamp(time),
            Thread::new(pid, tid),
            what,
        )));
    }

    /// Sends a sample, or drops and counts it.
    pub fn send_sample(&mut self, sample: OwnedSample) {
        let (time, bytes) = (sample.time, sample.stack.len());
        if self.stack_bytes.load(Ordering::Relaxed).saturating_add(bytes) > STACK_BYTES {
            self.dropped += 1;
            return;
        }
        self.report_dropped(time);
        self.stack_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.send(Message::Sample(Box::new(sample)));
    }

    /// Reports samples that were dropped since the last report.
    pub fn report_dropped(&mut self, time: u64) {
        let count = std::mem::take(&mut self.dropped);
        if count > 0 {
            let (role, cause) = (Role::Running, LostCause::QueueFull);
            let lost = RecordingEvent::Lost { count, role, cause };
            self.send(Message::Event(Event::recording(Timestamp(time), lost)));
        }
    }
}

impl Inbox {
    /// Passes everything on until the other end is dropped.
    pub fn deliver_all(&self, sink: &mut dyn EventSink) {
        let mut until = Timestamp(0);
        loop {
            let received = match self.receiver.try_recv() {
                Err(TryRecvError::Empty) => {
                    // Samples of a stopped program are whole: no recorder that uses this queue copies more of a stack.
                    let _ = sink.end_round(until);
                    self.receiver.recv_timeout(REST)
                }
                received => received.map_err(|_| RecvTimeoutError::Disconnected),
            };
            let message = match received {
                Ok(message) => message,
                Err(RecvTimeoutError::Timeout) => {
                    until = Timestamp(until.0.saturating_add(REST.as_nanos() as u64));
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => return,
            };
            if let Message::Sample(sample) = &message {
                self.stack_bytes.fetch_sub(sample.stack.len(), Ordering::Relaxed);
            }
            until = message.time();
            message.deliver(sink);
        }
    }
}

impl Message {
    fn time(&self) -> Timestamp {
        match self {
            Message::Event(event) => event.time,
            Message::ThreadName { time, .. }
            | Message::Title { time, .. }
            | Message::Exec { time, .. }
            | Message::Map { time, .. } => *time,
            Message::Sample(sample) => Timestamp(sample.time),
        }
    }

    /// Sends it to a sink.
    pub fn deliver(&self, sink: &mut dyn EventSink) {
        match self {
            Message::Event(event) => sink.on_event(event),
            Message::ThreadName { time, thread, name } => {
                sink.on_event(&Event::thread(*time, *thread, ThreadEvent::Name(name)));
            }
            Message::Title { time, pid, title } => {
                sink.on_event(&Event::process(*time, *pid, ProcessEvent::Title(title)));
            }
            Message::Exec { time, pid, name } => sink.on_event(&Event::process(*time, *pid, ProcessEvent::Exec(name))),
            Message::Map { time, pid, code } => {
                sink.on_event(&Event::process(*time, *pid, ProcessEvent::Map(&code.as_mapping())));
            }
            Message::Sample(sample) => {
                let thread = Thread::new(sample.pid, sample.tid);
                let reason = sample.waits_for.map(|reason| Frame::Mark(StackMark::Waiting(reason)));
                let sample_of = sample.as_sample(reason.as_slice());
                sink.on_event(&Event::sample(Timestamp(sample.time), thread, sample_of));
            }
        }
    }
}

impl OwnedSample {
    fn as_sample<'a>(&'a self, kernel: &'a [Frame]) -> Sample<'a> {
        let stack = match self.registers {
            None => Stack::Missing {
                kernel,
                reason: MissingStack::Abi32,
            },
            Some(registers) => Stack::Snapshot(Snapshot {
                kernel,
                registers,
                further: FurtherRegisters {
                    bits: self.further.0,
                    mask: u64::MAX,
                    words: &self.further.1,
                },
                stack_bytes: &self.stack,
                next_copy: None,
            }),
        };
        let role = match self.waits_for {
            Some(_) => Role::WaitStack,
            None => Role::Running,
        };
        Sample {
            cpu: self.cpu,
            ..Sample::new(role, self.period, stack)
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::event::EventKind;
    use crate::sink::Completion;

    use super::*;

    #[derive(Default)]
    struct Counter {
        samples: u64,
        lost: u64,
    }

    impl EventSink for Counter {
        fn on_event(&mut self, event: &Event<'_>) {
            match event.kind {
                EventKind::Thread(_, ThreadEvent::Sample(_)) => self.samples += 1,
                EventKind::Recording(RecordingEvent::Lost {
                    count,
                    cause: LostCause::QueueFull,
                    ..
                }) => self.lost += count,
                _ => {}
            }
        }

        fn end_round(&mut self, _: Timestamp) -> Completion {
            Completion::default()
        }
    }

    #[test]
    fn samples_beyond_the_limit_are_dropped_and_counted() {
        let (mut outbox, inbox) = channel();
        let sample = |bytes: usize| OwnedSample {
            time: 1,
            pid: 2,
            tid: 2,
            cpu: 0,
            period: 1,
            registers: None,
            further: Default::default(),
            stack: vec![0; bytes].into(),
            waits_for: None,
        };
        for _ in 0..5 {
            outbox.send_sample(sample(STACK_BYTES / 3));
        }
        outbox.report_dropped(3);
        drop(outbox);
        let mut counter = Counter::default();
        inbox.deliver_all(&mut counter);
        assert_eq!((counter.samples, counter.lost), (3, 2));
        assert_eq!(inbox.stack_bytes.load(Ordering::Relaxed), 0);
    }
}
