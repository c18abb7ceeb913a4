//! Finds the files in which programs write spans as samply reads them, and reads them when the recording has ended.
//!
//! A program maps such a file for a moment, so the mapping is an event, as that of a jitdump is; among the open files
//! of attached programs the recorder looks for them. A line is `START END NAME`, in ns of CLOCK_MONOTONIC, and ends
//! with a newline. Nothing is in memory but 64 KiB of one file. The files stay open from then on, because those of a
//! container disappear with its last process.

use std::collections::HashSet;

use recording::clock::Timestamp;
use recording::event::{Event, EventKind, LostCause, Mapping, Pid, ProcessEvent, Role, Thread, ThreadEvent};
use recording::module::FileId;
use recording::outbox::OwnedMapping;
use recording::quality::Quality;
use recording::sink::{Completion, EventSink, KeptFile, ModuleMiss, ReadAt};
use recording::span::Span;

/// Most files that are kept open. Further ones are opened at the end. With one file for each thread there may be
/// thousands.
const MAX_OPEN: usize = 256;
/// Most files.
const MAX_FILES: usize = 100_000;
/// Longest line. What follows a longer one is not read: the file holds something else.
const MAX_LINE: usize = 64 << 10;
/// A file with more lines that are no spans than this, and more than lines that are, holds something else.
const MAX_OTHER_LINES: u64 = 1000;

/// A file, and the thread whose spans it has.
pub(crate) type SpanFile = (Thread, KeptFile);

/// A sink that finds the files, and owns the next sink.
pub(crate) struct SpanFiles<N, O> {
    next: N,
    /// Opens a file as its process saw it. `None`: the files are not read.
    open: Option<O>,
    open_files: Vec<SpanFile>,
    seen: HashSet<FileId>,
    /// Mappings beyond [`MAX_OPEN`].
    later: Vec<(Pid, OwnedMapping)>,
    misses: Vec<ModuleMiss>,
}

impl<N: EventSink, O: FnMut(Pid, &Mapping<'_>) -> Result<SpanFile, ModuleMiss>> SpanFiles<N, O> {
    pub(crate) fn new(next: N, open: Option<O>) -> Self {
        SpanFiles {
            next,
            open,
            open_files: Vec::new(),
            seen: HashSet::new(),
            later: Vec::new(),
            misses: Vec::new(),
        }
    }

    /// The next sink. Events must go through [`on_event`](EventSink::on_event).
    pub(crate) fn next_mut(&mut self) -> &mut N {
        &mut self.next
    }

    fn on_map(&mut self, pid: Pid, mapping: &Mapping<'_>) {
        if self.open_files.len() < MAX_OPEN {
            let opened = self.open_new(pid, mapping);
            self.open_files.extend(opened);
        } else if self.later.len() < MAX_FILES {
            self.later.push((pid, mapping.into()));
        } else {
            self.misses.push(ModuleMiss::TooManyOpen);
        }
    }

    /// `None` for a file that was found before.
    fn open_new(&mut self, pid: Pid, mapping: &Mapping<'_>) -> Option<SpanFile> {
        match (self.open.as_mut()?)(pid, mapping) {
            Ok(file) => {
                let is_new = file.1.file_id().is_none_or(|id| self.seen.insert(id));
                is_new.then_some(file)
            }
            Err(miss) => {
                self.misses.push(miss);
                None
            }
        }
    }

    /// Reads the files, and sends their spans. Returns the next sink; counts what could not be read.
    pub(crate) fn finish(mut self, quality: &mut Quality) -> N {
        let mut others = 0;
        for file in std::mem::take(&mut self.open_files) {
            others += send_spans(&file, &mut self.next);
        }
        for (pid, mapping) in std::mem::take(&mut self.later) {
            if let Some(file) = self.open_new(pid, &mapping.as_mapping()) {
                others += send_spans(&file, &mut self.next);
            }
        }
        if others > 0 {
            *quality.lost.entry((Role::Span, LostCause::NotUnderstood)).or_default() += others;
        }
        for miss in self.misses {
            *quality.span_file_misses.entry(miss).or_default() += 1;
        }
        self.next
    }
}

impl<N: EventSink, O: FnMut(Pid, &Mapping<'_>) -> Result<SpanFile, ModuleMiss>> EventSink for SpanFiles<N, O> {
    fn end_round(&mut self, until: Timestamp) -> Completion {
        self.next.end_round(until)
    }

    fn on_event(&mut self, event: &Event<'_>) {
        if let EventKind::Process(pid, ProcessEvent::Map(mapping)) = event.kind
            && mapping.span_file().is_some()
        {
            self.on_map(pid, mapping);
        }
        self.next.on_event(event);
    }
}

/// Sends the spans of a file. Returns the number of lines that are none.
fn send_spans((thread, file): &SpanFile, sink: &mut impl EventSink) -> u64 {
    read_spans(&**file, |began, ended, name| {
        let name = String::from_utf8_lossy(name);
        let span = Span::new(&name, Some(Timestamp(began)));
        let what = ThreadEvent::Span(span);
        sink.on_event(&Event::thread(Timestamp(ended), *thread, what));
    })
}

/// Calls `send` with the start, the end and the name of each span. Returns the number of lines that are no spans.
fn read_spans(file: &dyn ReadAt, mut send: impl FnMut(u64, u64, &[u8])) -> u64 {
    let (mut spans, mut others) = (0, 0);
    // A program that still runs may append to its file faster than it is read.
    let (mut at, mut len) = (0, file.len());
    let mut buffer = vec![0; MAX_LINE];
    // Bytes of a line whose end was not read yet.
    let mut begun = 0;
    while at < len {
        let wanted = (len - at).min((buffer.len() - begun) as u64) as usize;
        if file.read_exact_at(&mut buffer[begun..begun + wanted], at).is_err() {
            let cut = file.len();
            if cut < len {
                len = cut;
                continue;
            }
            return others + 1;
        }
        at += wanted as u64;
        let (filled, mut start) = (begun + wanted, 0);
        while let Some(end) = buffer[start..filled].iter().position(|byte| *byte == b'\n') {
            match parse(&buffer[start..start + end]) {
                Some((began, ended, name)) => {
                    spans += 1;
                    send(began, ended, name);
                }
                None => others += 1,
            }
            start += end + 1;
        }
        begun = filled - start;
        buffer.copy_within(start..filled, 0);
        if others > MAX_OTHER_LINES.max(spans) {
            return others;
        }
        if begun == buffer.len() {
            break;
        }
    }
    // A line that is too long, or that the program was killed in, or still writes.
    others + u64::from(begun > 0)
}

/// `None` if it is no line of that form, or the end is before the start.
fn parse(line: &[u8]) -> Option<(u64, u64, &[u8])> {
    let mut parts = line.splitn(3, |byte| *byte == b' ');
    let mut number = || {
        let digits = parts.next().filter(|digits| digits.iter().all(u8::is_ascii_digit))?;
        std::str::from_utf8(digits).ok()?.parse::<u64>().ok()
    };
    let (began, ended) = (number()?, number()?);
    let name = parts.next()?;
    (began <= ended).then_some((began, ended, name))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use recording::sink::InMemory;
    use std::sync::Arc;

    use super::*;

    /// The spans of a text, and the number of other lines.
    fn read(text: &[u8]) -> (Vec<(u64, u64, String)>, u64) {
        let mut spans = Vec::new();
        let others = read_spans(&InMemory(text), |began, ended, name| {
            spans.push((began, ended, String::from_utf8_lossy(name).into_owned()));
        });
        (spans, others)
    }

    #[test]
    fn lines_of_another_form_are_counted_and_names_may_be_anything() {
        let text = b"10 20 parse\n20 20 \n5 7  two  spaces \n8 9 \x1b[31m\xff\0\r\n18446744073709551615 18446744073709551615 late\n\
            \n10\n10 20\n20 10 turned\n-1 5 x\n+1 5 x\n1 18446744073709551616 x\n 1 2 x\nx y z\n1\t2\tx\n30 40 cut";
        let (spans, others) = read(text);
        let expected = [
            (10, 20, "parse"),
            (20, 20, ""),
            (5, 7, " two  spaces "),
            (8, 9, "\x1b[31m\u{fffd}\0\r"),
            (u64::MAX, u64::MAX, "late"),
        ];
        assert_eq!(
            spans,
            expected.map(|(began, ended, name)| (began, ended, name.to_owned()))
        );
        // The last line may be half a line.
        assert_eq!(others, 11);
    }

    #[test]
    fn lines_are_read_across_blocks_and_a_file_of_something_else_is_left() {
        let many: String = (0..20_000).map(|at| format!("{at} {} name {at}\n", at + 1)).collect();
        let (spans, others) = read(many.as_bytes());
        assert_eq!((spans.len(), others), (20_000, 0));
        assert!(
            spans
                .iter()
                .enumerate()
                .all(|(at, span)| *span == (at as u64, at as u64 + 1, format!("name {at}")))
        );
        let long = format!("1 2 {}\n", "x".repeat(MAX_LINE - 5));
        assert_eq!((read(long.as_bytes()).0.len(), read(long.as_bytes()).1), (1, 0));
        let longer = format!("1 2 a\n1 2 {}\n1 2 b\n", "x".repeat(2 * MAX_LINE));
        assert_eq!(read(longer.as_bytes()), (vec![(1, 2, "a".to_owned())], 1));
        assert!(read("other\n".repeat(1 << 20).as_bytes()).1 < 20_000);
        assert_eq!(read(b""), (vec![], 0));
    }

    /// A file that is cut while it is read.
    struct Strange {
        len: AtomicU64,
        reads: AtomicU64,
    }

    impl ReadAt for Strange {
        fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> std::io::Result<()> {
            self.reads.fetch_add(1, Ordering::Relaxed);
            if offset + buffer.len() as u64 > self.len.load(Ordering::Relaxed) {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            buffer.fill(0);
            if let Some(last) = buffer.last_mut() {
                *last = b'\n';
            }
            self.len.fetch_min(100_000, Ordering::Relaxed);
            Ok(())
        }

        fn len(&self) -> u64 {
            self.len.load(Ordering::Relaxed)
        }
    }

    /// Names of spans that arrive.
    #[derive(Default)]
    struct Names(Vec<(Thread, String)>);

    impl EventSink for Names {
        fn on_event(&mut self, event: &Event<'_>) {
            if let EventKind::Thread(thread, ThreadEvent::Span(span)) = event.kind {
                self.0.push((thread, span.name.to_owned()));
            }
        }

        fn end_round(&mut self, _: Timestamp) -> Completion {
            Completion::default()
        }
    }

    #[test]
    fn with_more_files_than_may_be_open_the_rest_is_opened_at_the_end() {
        let opened = AtomicU64::new(0);
        let open = |pid: Pid, mapping: &Mapping<'_>| {
            let number = opened.fetch_add(1, Ordering::Relaxed);
            let name = mapping
                .span_file()
                .filter(|_| number % 100 != 7)
                .ok_or(ModuleMiss::NotFound)?;
            let thread = Thread {
                pid,
                tid: recording::event::Tid(name.tid.unwrap()),
            };
            let text = format!("1 2 of {}\nhalf", thread.tid.0);
            Ok((thread, Arc::new(InMemory(text.into_bytes())) as KeptFile))
        };
        let mut files = SpanFiles::new(Names::default(), Some(open));
        for tid in 1..=300 {
            let path = format!("/tmp/marker-5-{tid}.txt");
            let mapping = Mapping {
                start: 0,
                len: 0,
                file_offset: 0,
                path: path.as_bytes(),
                build_id: None,
                inode: None,
            };
            files.on_event(&Event::process(Timestamp(0), Pid(5), ProcessEvent::Map(&mapping)));
        }
        assert_eq!(opened.load(Ordering::Relaxed), MAX_OPEN as u64 + 3);
        let mut quality = Quality::default();
        let names = files.finish(&mut quality).0;
        assert_eq!(opened.load(Ordering::Relaxed), 300);
        assert_eq!(names.len(), 297);
        assert!(
            names
                .iter()
                .all(|(thread, name)| *name == format!("of {}", thread.tid.0))
        );
        assert_eq!(quality.lost[&(Role::Span, LostCause::NotUnderstood)], 297);
        assert_eq!(quality.span_file_misses[&ModuleMiss::NotFound], 3);
    }

    #[test]
    fn a_file_that_is_cut_while_it_is_read_ends_there() {
        let file = Strange {
            len: AtomicU64::new(1 << 62),
            reads: AtomicU64::new(0),
        };
        assert_eq!(read_spans(&file, |_, _, _| panic!("no span")), 2);
        assert_eq!(file.reads.load(Ordering::Relaxed), 3);
        struct Zeros;
        impl ReadAt for Zeros {
            fn read_exact_at(&self, buffer: &mut [u8], _: u64) -> std::io::Result<()> {
                buffer.fill(0);
                Ok(())
            }
            fn len(&self) -> u64 {
                u64::MAX
            }
        }
        assert_eq!(read_spans(&Zeros, |_, _, _| panic!("no span")), 1);
    }
}
