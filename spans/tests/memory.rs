//! The memory of this process, read as sprof does.
#![cfg(all(feature = "std", target_os = "linux", target_arch = "x86_64"))]
#![allow(clippy::unwrap_used, reason = "tests")]

#[allow(unsafe_code)]
mod sys;

use std::fs::File;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use sprof_spans::format::*;
use sprof_spans::{async_span, frame, instant, plot, span, Flow, Recording};

/// Tests change the one memory of this process.
static TURN: Mutex<()> = Mutex::new(());

struct Memory {
    file: File,
    /// Its descriptor in the program.
    number: i32,
    _turn: MutexGuard<'static, ()>,
}

/// A record: its kind, its name, its keys with values, when it ended, and how long it took.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    kind: u64,
    name: String,
    fields: Vec<(String, String)>,
    ended: u64,
    took: u64,
}

impl Memory {
    /// Begins a recording.
    fn open() -> Memory {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        drop(span!("makes the memory"));
        let named = std::fs::read_dir("/proc/self/fd")
            .unwrap()
            .map(|entry| entry.unwrap().path());
        let is_memory = |path: &std::path::PathBuf| {
            std::fs::read_link(path).is_ok_and(|to| to.to_string_lossy().starts_with(&format!("/memfd:{NAME}")))
        };
        let path = named.into_iter().find(is_memory).unwrap();
        let file = File::options().read(true).write(true).open(&path).unwrap();
        let number = path.file_name().unwrap().to_str().unwrap().parse().unwrap();
        let memory = Memory {
            file,
            number,
            _turn: turn,
        };
        assert_eq!(memory.control(VERSION), MAGIC);
        assert_eq!(memory.control(PID), u64::from(std::process::id()));
        memory.set(8 * READER_SEEN, sprof_spans_now());
        memory.set(8 * STATE, COUNTER);
        memory
    }

    fn word(&self, at: usize) -> u64 {
        let mut bytes = [0; 8];
        self.file.read_exact_at(&mut bytes, at as u64).unwrap();
        u64::from_ne_bytes(bytes)
    }

    fn set(&self, at: usize, word: u64) {
        self.file.write_all_at(&word.to_ne_bytes(), at as u64).unwrap();
    }

    fn control(&self, word: usize) -> u64 {
        self.word(8 * word)
    }

    fn slot(&self, index: usize, word: usize) -> usize {
        SLOTS_AT + 8 * (index * SLOT_WORDS + word)
    }

    /// Takes the records of all threads, and frees the slots of those that have ended.
    fn take(&self) -> Vec<Seen> {
        (0..self.control(SLOTS_TAKEN) as usize)
            .flat_map(|index| self.take_slot(index))
            .collect()
    }

    fn take_slot(&self, index: usize) -> Vec<Seen> {
        let (mut tail, head) = (
            self.word(self.slot(index, SLOT_TAIL)),
            self.word(self.slot(index, SLOT_HEAD)),
        );
        let mut ring = vec![0; 8 * RING_WORDS];
        if tail < head {
            let start = (RINGS_AT + 8 * index * RING_WORDS) as u64;
            self.file.read_exact_at(&mut ring, start).unwrap();
        }
        let word = |at: u64| {
            let bytes = &ring[8 * (at as usize % RING_WORDS)..];
            u64::from_ne_bytes(*bytes.first_chunk().unwrap())
        };
        let mut seen = Vec::new();
        while tail < head {
            let positions = tail..head.min(tail + MOST_WORDS as u64);
            let words: Vec<u64> = positions.map(word).collect();
            let record = Record::parse(&words, tail).unwrap();
            tail += record.words.len() as u64;
            seen.push(self.seen(&record));
        }
        self.set(self.slot(index, SLOT_TAIL), tail);
        if self.word(self.slot(index, SLOT_STATE)) == SLOT_ENDED {
            self.set(self.slot(index, SLOT_STATE), 0);
        }
        seen
    }

    fn seen(&self, record: &Record<'_>) -> Seen {
        let mut text = vec![0; 2048];
        self.file
            .read_exact_at(&mut text, (TEXTS_AT + 8 * record.site as usize) as u64)
            .unwrap();
        let mut parts = SiteText::parse(&text)
            .unwrap()
            .parts()
            .map(|part| String::from_utf8(part.to_owned()).unwrap());
        let name = parts.next().unwrap();
        let keys: Vec<String> = parts.collect();
        let fields = record.values().map(|(index, value)| {
            let value = match value {
                Value::Text(text) => {
                    String::from_utf8(text.bytes().collect()).unwrap() + if text.is_cut { "..." } else { "" }
                }
                Value::Flow(_, ends) => format!("flow {ends}"),
                value => format!("{value:?}"),
            };
            (keys[index].clone(), value)
        });
        let fields = fields.collect();
        let took = if record.kind == INSTANT {
            0
        } else {
            record.time().saturating_sub(record.began())
        };
        Seen {
            kind: record.kind,
            name,
            fields,
            ended: record.time(),
            took,
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.set(8 * STATE, OFF);
        self.take();
    }
}

fn sprof_spans_now() -> u64 {
    let uptime = std::fs::read_to_string("/proc/uptime").unwrap();
    let seconds: f64 = uptime.split(' ').next().unwrap().parse().unwrap();
    (seconds * 1e9) as u64
}

#[test]
fn pauses_and_resumptions_are_written_with_their_times_whether_anything_is_recorded_or_not() {
    let memory = Memory::open();
    memory.set(8 * STATE, OFF);
    let before = memory.control(SWITCHES);
    Recording::pause();
    let paused = memory.control(SWITCHES);
    for _ in 0..2 {
        Recording::resume();
    }
    assert_eq!(memory.control(SWITCHES), paused + 1);
    let all: Vec<_> = (0..4)
        .map(|_| {
            thread::spawn(|| {
                (0..1000).for_each(|_| {
                    Recording::pause();
                    Recording::resume()
                })
            })
        })
        .collect();
    all.into_iter().for_each(|thread| thread.join().unwrap());
    // Whatever came first, no two in a row are the same, and no time is before the last.
    let count = memory.control(SWITCHES);
    let word = |number: u64| memory.word(SWITCHES_AT + 8 * (number as usize % MOST_SWITCHES));
    assert!(count > paused + 1 && count - before <= MOST_SWITCHES as u64, "{count}");
    for number in before.max(1)..count {
        assert!(word(number) & 1 != word(number - 1) & 1 && word(number) >> 1 >= word(number - 1) >> 1);
    }
    assert_eq!(memory.control(SWITCH_LOCK), 0);
}

#[test]
fn all_kinds_of_records_have_their_names_fields_and_times() {
    let memory = Memory::open();
    let text = "ä".repeat(60);
    thread::spawn(move || {
        let flow = Flow::new();
        let outer = span!(
            "outer",
            signed = -3i8,
            unsigned = u64::MAX,
            float = 0.5,
            is = true,
            text = "abc",
            flow = flow
        );
        let inner = span!("inner", long = &text, flow = flow.end());
        instant!("instant", of = 1u8);
        drop(inner);
        drop(outer);
        plot!("plot", 2.5);
        let task = async_span!("task", id = 7usize);
        thread::spawn(move || drop(task)).join().unwrap();
        (0..3).for_each(|_| frame!("turn"));
    })
    .join()
    .unwrap();
    let seen = memory.take();
    let find = |name: &str| {
        seen.iter()
            .find(|seen| seen.name == name)
            .unwrap_or_else(|| panic!("{name}: {seen:?}"))
    };
    let [outer, inner, instant] = ["outer", "inner", "instant"].map(find);
    let field = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let fields = [
        field("signed", "Signed(-3)"),
        field("unsigned", &format!("Unsigned({})", u64::MAX)),
        field("float", "Float(0.5)"),
        field("is", "Bool(true)"),
        field("text", "abc"),
        field("flow", "flow false"),
    ];
    assert_eq!((outer.kind, &outer.fields[..]), (SPAN, &fields[..]));
    let long = field("long", &("ä".repeat(48) + "..."));
    assert_eq!(
        (inner.kind, &inner.fields[..]),
        (SPAN, &[long, field("flow", "flow true")][..])
    );
    assert_eq!(
        (instant.kind, &instant.fields[..]),
        (INSTANT, &[field("of", "Unsigned(1)")][..])
    );
    assert!(inner.ended <= outer.ended && outer.ended - outer.took <= inner.ended - inner.took);
    assert!(instant.ended <= inner.ended && instant.ended >= inner.ended - inner.took);
    assert_eq!((find("task").kind, find("plot").kind), (ASYNC_SPAN, PLOT));
    assert_eq!(find("task").fields, [field("id", "Unsigned(7)")]);
    assert_eq!(seen.iter().filter(|seen| seen.name == "turn").count(), 2);
    assert_eq!(seen.len(), 7);
}

#[test]
fn values_are_computed_and_spans_written_only_while_recording() {
    let memory = Memory::open();
    memory.set(8 * STATE, OFF);
    let count = |counted: &mut u32| {
        *counted += 1;
        *counted
    };
    let mut counted = 0;
    let begun_before = span!("before", count = count(&mut counted));
    memory.set(8 * STATE, MONOTONIC);
    drop(begun_before);
    let begun = span!("begun", count = count(&mut counted));
    memory.set(8 * STATE, OFF);
    drop(begun);
    assert_eq!(counted, 1);
    assert_eq!(memory.take(), []);
}

#[test]
fn what_does_not_fit_is_counted_and_a_recording_that_nobody_reads_ends() {
    let memory = Memory::open();
    let fill = |spans: usize| (0..spans).for_each(|_| drop(span!("fill")));
    let fits = RING_WORDS / 3;
    thread::scope(|scope| {
        // Of all slots: the thread of the test before may end now, and have the first one until then.
        let lost_in = |index| memory.word(memory.slot(index, SLOT_LOST));
        let lost = || (0..MOST_SLOTS).map(lost_in).fold(0, u64::wrapping_add);
        let before = lost();
        let all = scope.spawn(|| fill(fits + 1000)).join();
        all.unwrap();
        let (written, lost) = (memory.take().len(), lost().wrapping_sub(before));
        assert_eq!(written as u64 + lost, fits as u64 + 1000);
        // The last record must not be longer than the room for the longest.
        assert!(written <= fits && written > fits - MOST_WORDS, "{written}");
        memory.set(8 * READER_SEEN, 0);
        scope.spawn(|| fill(fits + 1000)).join().unwrap();
        assert_eq!(memory.control(STATE), OFF);
    });
}

#[test]
fn a_slot_has_one_thread_and_is_used_again_once_it_is_read() {
    let memory = Memory::open();
    let run = || thread::spawn(|| drop(span!("in thread"))).join().unwrap();
    let slots = memory.control(SLOTS_TAKEN);
    for _ in 0..20 {
        run();
        assert_eq!(memory.take().len(), 1);
    }
    assert!(memory.control(SLOTS_TAKEN) <= slots + 1);
    for _ in 0..20 {
        run();
    }
    assert!(memory.control(SLOTS_TAKEN) >= 20);
    assert_eq!(memory.take().len(), 20);
}

#[test]
fn whatever_stands_in_the_memory_the_program_goes_on() {
    let memory = Memory::open();
    let slots = memory.control(SLOTS);
    memory.set(8 * SLOTS, u64::MAX);
    let values = [
        (u64::MAX - 4, u64::MAX - 4, u64::MAX),
        (u64::MAX - 4, 1, u64::MAX),
        (7, u64::MAX, u64::MAX),
        (0, 0, 0),
    ];
    for (tail, head, lost) in values {
        for index in 0..MOST_SLOTS {
            for (word, value) in [(SLOT_TAIL, tail), (SLOT_HEAD, head), (SLOT_LOST, lost)] {
                memory.set(memory.slot(index, word), value);
            }
            if memory.word(memory.slot(index, SLOT_STATE)) == SLOT_ENDED {
                memory.set(memory.slot(index, SLOT_STATE), 0);
            }
        }
        let spans = || (0..5).for_each(|_| drop(span!("anywhere", text = "of some words")));
        thread::spawn(spans).join().unwrap();
    }
    for taken in [u64::MAX, slots - 1, slots] {
        memory.set(8 * SLOTS_TAKEN, taken);
        // More threads than there are free slots before.
        let threads: Vec<_> = (0..40).map(|_| thread::spawn(|| drop(span!("no slot")))).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
    memory.set(8 * SLOTS, slots);
    // Threads have the first slots that are free.
    memory.set(8 * SLOTS_TAKEN, 100);
    memory.take();
}

#[test]
fn a_program_that_closes_the_descriptor_keeps_its_own_files() {
    let memory = Memory::open();
    let path = std::env::temp_dir().join(format!("sprof-spans-{}", std::process::id()));
    let file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(&path)
        .unwrap();
    std::fs::remove_file(path).unwrap();
    file.set_len((RINGS_AT + 1024 * 8 * RING_WORDS) as u64).unwrap();
    sys::replace(memory.number, &file);
    let lost = memory.control(LOST);
    // More than have a ring from before.
    let threads = memory.control(SLOTS_TAKEN) + 60;
    let barrier = std::sync::Barrier::new(threads as usize);
    thread::scope(|scope| {
        let spawn = |_| {
            scope.spawn(|| {
                drop(span!("without a ring"));
                barrier.wait();
            })
        };
        let all: Vec<_> = (0..threads).map(spawn).collect();
        // The scope alone waits for what the threads run, and not for their ends, which give the slots back.
        all.into_iter().for_each(|thread| thread.join().unwrap());
    });
    let records = memory.take();
    // Others are left from tests before.
    let seen = records.iter().filter(|record| record.name == "without a ring").count() as u64;
    let lost = memory.control(LOST) - lost;
    sys::replace(memory.number, &memory.file);
    assert_eq!(seen + lost, threads);
    assert!(lost > 0);
    assert_eq!(file.metadata().unwrap().blocks(), 0);
}

#[test]
fn any_bytes_are_a_record_or_none() {
    let mut state = 1u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut records = 0;
    for _ in 0..20_000 {
        let mut words: Vec<u64> = (0..next() % 40).map(|_| next()).collect();
        let position = next();
        if let Some(first) = words.first_mut() {
            *first = head_word(position, next() as u32 & 0xf_ffff, next() % 7, (next() % 50) as usize);
        }
        if let Some(record) = Record::parse(&words, position) {
            records += 1;
            record.values().for_each(|(_, value)| drop(format!("{value:?}")));
            let _ = (record.time(), record.began(), record.plotted(), record.lane());
            assert_eq!(Record::parse(&words, position.wrapping_add(RING_WORDS as u64)), None);
        }
        let bytes: Vec<u8> = words.iter().skip(1).flat_map(|word| word.to_ne_bytes()).collect();
        if let Some(text) = SiteText::parse(&bytes) {
            assert!(text.parts().count() <= 1 + MOST_FIELDS);
        }
    }
    assert!(records > 1000, "{records}");
}

#[cfg(feature = "tracing")]
#[test]
fn spans_of_tracing_are_those_of_each_thread_that_was_in_them() {
    use tracing_subscriber::prelude::*;

    let memory = Memory::open();
    let registry = tracing_subscriber::registry().with(sprof_spans::SpanLayer::default());
    tracing::subscriber::with_default(registry, || {
        let span = tracing::info_span!("parse", rows = 3, name = "a", late = tracing::field::Empty);
        let other = span.clone();
        span.in_scope(|| {
            tracing::info!(count = 7, "read");
            let dispatch = tracing::dispatcher::get_default(Clone::clone);
            let inside = move || other.in_scope(|| ());
            thread::spawn(move || tracing::dispatcher::with_default(&dispatch, inside))
                .join()
                .unwrap();
            span.record("late", true);
        });
        let _other = tracing::debug_span!(
            "more than eight",
            a = 1,
            b = 2,
            c = 3,
            d = 4,
            e = 5,
            f = 6,
            g = 7,
            h = 8,
            i = 9
        )
        .entered();
    });
    let seen = memory.take();
    let of = |name: &str| {
        seen.iter()
            .filter(|seen| seen.name == name)
            .cloned()
            .collect::<Vec<_>>()
    };
    let fields = |seen: &Seen| {
        seen.fields
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect::<Vec<_>>()
            .join(" ")
    };
    let parse = of("parse");
    let [inner, outer] = if parse[0].took < parse[1].took {
        [&parse[0], &parse[1]]
    } else {
        [&parse[1], &parse[0]]
    };
    assert_eq!(fields(inner), "rows=Signed(3) name=a");
    assert_eq!(fields(outer), "rows=Signed(3) name=a late=Bool(true)");
    assert!(inner.ended <= outer.ended && inner.ended - inner.took >= outer.ended - outer.took);
    let event = &of("memory")[0];
    assert_eq!(
        (event.kind, fields(event)),
        (INSTANT, "message=read count=Signed(7)".to_owned())
    );
    assert_eq!(of("more than eight")[0].fields.len(), 8);
    assert_eq!(seen.len(), 4);
}
