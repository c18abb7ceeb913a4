//! The queue from the tracing thread to the unwinding thread. The tracing thread must never wait for the unwinder while the program
//! waits for the tracing thread. So messages own their data, and samples are dropped and counted when too many are queued.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use recording::clock::Timestamp;
use recording::event::{Event, LostCause, Pid, ProcessEvent, RecordingEvent, Role, Sample, Thread, ThreadEvent};
use recording::proc::MapsLine;
use recording::sink::EventSink;
use recording::stack::{MissingStack, Registers, Snapshot, Stack};

/// Queued stack bytes at most.
const STACK_BYTES: usize = 64 << 20;
/// Queued messages at most; the tracer waits if there are more.
const MESSAGES: usize = 1 << 14;

/// An event that owns its data.
#[derive(Debug)]
pub(super) enum Message {
    /// An event that borrows nothing.
    Event(Event<'static>),
    ThreadName {
        time: Timestamp,
        thread: Thread,
        name: String,
    },
    Exec {
        time: Timestamp,
        pid: Pid,
        name: String,
    },
    Map {
        time: Timestamp,
        pid: Pid,
        code: MapsLine,
    },
    Sample(Box<OwnedSample>),
}

/// A sample that owns its stack.
#[derive(Debug)]
pub(super) struct OwnedSample {
    pub(super) time: u64,
    pub(super) pid: i32,
    pub(super) tid: i32,
    pub(super) cpu: u32,
    pub(super) period: u64,
    /// `None` for a 32-bit task.
    pub(super) registers: Option<Registers>,
    pub(super) stack: Box<[u8]>,
}

/// The tracer's end.
pub(super) struct Outbox {
    sender: SyncSender<Message>,
    stack_bytes: Arc<AtomicUsize>,
    dropped: u64,
}

/// The unwinder's end.
pub(super) struct Inbox {
    receiver: Receiver<Message>,
    stack_bytes: Arc<AtomicUsize>,
}

pub(super) fn channel() -> (Outbox, Inbox) {
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
    pub(super) fn send(&mut self, message: Message) {
        let _ = self.sender.send(message);
    }

    /// Sends an event of a process.
    pub(super) fn process(&mut self, time: u64, pid: i32, what: ProcessEvent<'static>) {
        self.send(Message::Event(Event::process(Timestamp(time), Pid(pid), what)));
    }

    /// Sends an event of a thread.
    pub(super) fn thread(&mut self, time: u64, pid: i32, tid: i32, what: ThreadEvent<'static>) {
        self.send(Message::Event(Event::thread(
            Timestamp(time),
            Thread::new(pid, tid),
            what,
        )));
    }

    /// Sends a sample, or drops and counts it.
    pub(super) fn send_sample(&mut self, sample: OwnedSample) {
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
    pub(super) fn report_dropped(&mut self, time: u64) {
        let count = std::mem::take(&mut self.dropped);
        if count > 0 {
            let (role, cause) = (Role::Running, LostCause::QueueFull);
            let lost = RecordingEvent::Lost { count, role, cause };
            self.send(Message::Event(Event::recording(Timestamp(time), lost)));
        }
    }
}

impl Inbox {
    /// Passes everything on until the tracer has ended.
    pub(super) fn deliver_all(&self, sink: &mut dyn EventSink) {
        for message in &self.receiver {
            if let Message::Sample(sample) = &message {
                self.stack_bytes.fetch_sub(sample.stack.len(), Ordering::Relaxed);
            }
            message.deliver(sink);
        }
    }
}

impl Message {
    fn deliver(&self, sink: &mut dyn EventSink) {
        match self {
            Message::Event(event) => sink.on_event(event),
            Message::ThreadName { time, thread, name } => {
                sink.on_event(&Event::thread(*time, *thread, ThreadEvent::Name(name)));
            }
            Message::Exec { time, pid, name } => sink.on_event(&Event::process(*time, *pid, ProcessEvent::Exec(name))),
            Message::Map { time, pid, code } => {
                sink.on_event(&Event::process(*time, *pid, ProcessEvent::Map(&code.as_mapping())));
            }
            Message::Sample(sample) => {
                let thread = Thread::new(sample.pid, sample.tid);
                sink.on_event(&Event::sample(Timestamp(sample.time), thread, sample.as_sample()));
            }
        }
    }
}

impl OwnedSample {
    fn as_sample(&self) -> Sample<'_> {
        let stack = match self.registers {
            None => Stack::Missing {
                kernel: &[],
                reason: MissingStack::Abi32,
            },
            Some(registers) => Stack::Snapshot(Snapshot {
                kernel: &[],
                registers,
                stack_bytes: &self.stack,
            }),
        };
        Sample {
            cpu: self.cpu,
            ..Sample::new(Role::Running, self.period, stack)
        }
    }
}

#[cfg(test)]
mod tests {
    use recording::event::EventKind;

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
            stack: vec![0; bytes].into(),
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
