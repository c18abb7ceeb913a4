//! A recorder of these tests' own: it reads what `wire.rs` says, and checks what has to hold in each run.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::FileExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use std::{fs, thread};

use recorder_linux::heap::PRELOAD;
use recorder_linux::heap::patch_answers::PatchAnswers;
use recorder_linux::heap::static_program::StaticProgram;
use recorder_linux::heap::wire::{
    ALIGNMENT, ALLOCATION, ANSWER_WORDS, FILLER, FREE, Hello, MAGIC, MESSAGE_WORDS, Outcome, Question, RING_OFFSET,
    RecordHead, UNTRACKED, VARIABLE, memory_bytes,
};
use recording::heap::HeapPatches;

/// How a program is recorded.
#[derive(Clone, Copy)]
pub(crate) struct Settings {
    pub(crate) interval: u64,
    pub(crate) stack_bytes: u64,
    pub(crate) ring_bytes: u64,
    /// False: the rings become full.
    pub(crate) is_read: bool,
    /// The program has no loader.
    pub(crate) is_static: bool,
}

impl Settings {
    /// All allocations, without stacks.
    pub(crate) const EACH: Settings = Settings {
        interval: 0,
        stack_bytes: 0,
        ring_bytes: 256 << 20,
        is_read: true,
        is_static: false,
    };

    /// A smaller memory, which takes less time.
    pub(crate) fn with_interval(interval: u64) -> Settings {
        Settings {
            interval,
            ring_bytes: 64 << 20,
            ..Settings::EACH
        }
    }
}

/// A record, with the words behind its head.
pub(crate) struct Record {
    pub(crate) head: RecordHead,
    pub(crate) body: Vec<u64>,
}

/// Sums over all rings of all processes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) samples: u64,
    pub(crate) lost_samples: u64,
    pub(crate) lost_bytes: u64,
    pub(crate) lost_frees: u64,
    pub(crate) untracked: u64,
    pub(crate) nested_bytes: u64,
}

/// What a run gave.
pub(crate) struct Recorded {
    pub(crate) output: Output,
    /// Why the library is not in a static program.
    pub(crate) loaded: Result<(), String>,
    pub(crate) hellos: Vec<Hello>,
    /// Of programs with an allocator of their own.
    pub(crate) outcomes: Vec<Outcome>,
    /// In the order of time.
    pub(crate) records: Vec<Record>,
    pub(crate) counts: Counts,
    /// Multiples of [`ALIGNMENT`] in records that never became whole.
    pub(crate) gaps: u64,
}

impl Recorded {
    pub(crate) fn stdout(&self) -> String {
        String::from_utf8(self.output.stdout.clone()).unwrap()
    }

    pub(crate) fn allocations(&self) -> impl Iterator<Item = &Record> {
        self.records.iter().filter(|record| record.head.kind == ALLOCATION)
    }

    pub(crate) fn frees(&self) -> usize {
        self.records.len() - self.allocations().count()
    }

    /// The bytes that these samples stand for, and the variance of that.
    pub(crate) fn estimate(&self) -> (f64, f64) {
        self.allocations()
            .map(|record| weight(&record.head))
            .fold((0.0, 0.0), |sum, (bytes, variance)| (sum.0 + bytes, sum.1 + variance))
    }

    /// Pairs all frees, and asserts that each has its allocation and no address is live twice. Returns the bytes of
    /// samples that each process keeps.
    pub(crate) fn kept(&self) -> BTreeMap<u32, u64> {
        let mut live: BTreeMap<u32, BTreeMap<u64, u64>> = BTreeMap::new();
        let mut forks = self.forks();
        for Record { head, .. } in &self.records {
            while let Some(fork) = forks.first_entry().filter(|fork| *fork.key() <= head.time_ns) {
                let (child, parent) = fork.remove();
                let copy = live.get(&parent).cloned();
                live.insert(child, copy.unwrap_or_default());
            }
            let blocks = live.entry(head.pid).or_default();
            if head.kind == FREE {
                assert!(
                    blocks.remove(&head.address).is_some(),
                    "nothing is live there: {head:?}"
                );
            } else if head.flags & UNTRACKED == 0 {
                assert_eq!(blocks.insert(head.address, head.size), None, "live twice: {head:?}");
            }
        }
        assert_eq!(self.counts.lost_frees, 0);
        live.into_iter()
            .map(|(pid, blocks)| (pid, blocks.values().sum()))
            .collect()
    }

    /// The time, the child and the parent of each fork, as programs print it: `NS: CHILD of PARENT`.
    fn forks(&self) -> BTreeMap<u64, (u32, u32)> {
        let read = |line: &str| {
            let (ns, processes) = line.split_once(": ")?;
            let (child, parent) = processes.split_once(" of ")?;
            Some((ns.parse().ok()?, (child.parse().ok()?, parent.parse().ok()?)))
        };
        self.stdout().lines().filter_map(read).collect()
    }
}

/// The bytes that a sample stands for, and the variance of that.
fn weight(head: &RecordHead) -> (f64, f64) {
    let size = head.size as f64;
    if head.interval == 0 {
        return (size, 0.0);
    }
    let chance = -(-size / head.interval as f64).exp_m1();
    let weight = size / chance;
    (weight, weight * weight * (1.0 - chance))
}

/// The library, in a file.
pub(crate) fn library() -> PathBuf {
    static PATH: std::sync::OnceLock<PathBuf> = std::sync::OnceLock::new();
    let path = PATH.get_or_init(|| {
        let path = folder().join("sprof-heap.so");
        fs::write(&path, PRELOAD).unwrap();
        path
    });
    path.clone()
}

/// A folder of this test run.
pub(crate) fn folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("heap-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Runs a program to its end.
pub(crate) fn record(command: &mut Command, settings: Settings) -> Recorded {
    record_by(&library(), command, settings)
}

/// Runs a program to its end with this copy of the library.
pub(crate) fn record_by(library: &Path, command: &mut Command, settings: Settings) -> Recorded {
    record_and(library, command, settings, |memory, is_last, records| {
        if settings.is_read || is_last {
            memory.read(is_last, records);
        }
    })
}

/// Runs a program to its end, and writes random words over the header all the time. Nothing is read.
pub(crate) fn record_with_nonsense(command: &mut Command, settings: Settings) -> Recorded {
    let mut random = 88_172_645_463_325_252_u64;
    record_and(&library(), command, settings, move |memory, _, _| {
        for offset in (8..128).step_by(8).cycle().take(2000) {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            // Numbers of all lengths.
            let word = random >> (random % 64);
            memory.file.write_all_at(&word.to_le_bytes(), offset).unwrap();
        }
    })
}

/// Starts a program. Waits until the library is in a static one, or why it is not.
fn start(command: &mut Command, library: &Path, settings: Settings) -> (Child, Result<(), String>) {
    if !settings.is_static {
        return (command.spawn().unwrap(), Ok(()));
    }
    let (recorder, program) = UnixStream::pair().unwrap();
    let wait = move || {
        (&program).write_all(&std::process::id().to_ne_bytes())?;
        (&program).read_exact(&mut [0])
    };
    // SAFETY: read(2), write(2) and getpid(2) may be called between fork and exec, and nothing is allocated.
    unsafe { command.pre_exec(wait) };
    let load = || {
        let mut pid = [0; 4];
        (&recorder).read_exact(&mut pid).unwrap();
        let seized = StaticProgram::seize(i32::from_ne_bytes(pid));
        (&recorder).write_all(b"g").unwrap();
        seized.and_then(|program| program.load(library))
    };
    thread::scope(|scope| {
        let loaded = scope.spawn(load);
        (command.spawn().unwrap(), loaded.join().unwrap())
    })
}

fn record_and(
    library: &Path,
    command: &mut Command,
    settings: Settings,
    mut each_round: impl FnMut(&mut SharedMemory, bool, &mut Vec<Record>),
) -> Recorded {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let name = format!(
        "sprof-heap-test-{}-{}",
        std::process::id(),
        NUMBER.fetch_add(1, Relaxed)
    );
    let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    listener.set_nonblocking(true).unwrap();
    let Settings {
        interval,
        stack_bytes,
        ring_bytes,
        ..
    } = settings;
    let value = format!("{interval}:{stack_bytes}:{ring_bytes}:1:@{name}");
    let mut answers = PatchAnswers::new(HeapPatches::All);
    // Beside many other tests a plan may take longer than the program waits for.
    answers.prepare(Path::new(command.get_program()));
    command.env("LD_PRELOAD", library).env(VARIABLE, value);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    thread::scope(|scope| {
        let ended = scope.spawn(|| {
            let (child, loaded) = start(command, library, settings);
            (child.wait_with_output().unwrap(), loaded)
        });
        let mut readers: Vec<SharedMemory> = Vec::new();
        let (mut hellos, mut outcomes) = (Vec::new(), Vec::new());
        let mut records = Vec::new();
        loop {
            let is_last = ended.is_finished();
            while let Ok((stream, _)) = listener.accept() {
                let (words, file) = receive(&stream);
                if let Some(question) = Question::from_words(words) {
                    let (answer, _) = answers.answer(peer(&stream), &question);
                    (&stream).write_all(&answer).unwrap();
                    if answer.len() > 8 * ANSWER_WORDS {
                        let (words, _) = receive(&stream);
                        outcomes.push(Outcome::from_words(words).unwrap());
                    }
                    continue;
                }
                if let Some(outcome) = Outcome::from_words(words) {
                    outcomes.push(outcome);
                    continue;
                }
                let hello = Hello::from_words(words).unwrap();
                if let Some(file) = file {
                    readers.push(SharedMemory::new(file, &hello, settings));
                }
                hellos.push(hello);
            }
            for reader in &mut readers {
                each_round(reader, is_last, &mut records);
            }
            if is_last {
                break;
            }
            thread::sleep(Duration::from_millis(1));
        }
        records.sort_by_key(|record| record.head.time_ns);
        let mut counts = Counts::default();
        for reader in &readers {
            let [
                _,
                _,
                samples,
                lost_samples,
                lost_bytes,
                lost_frees,
                untracked,
                nested_bytes,
            ] = reader.state();
            counts.samples += samples;
            counts.lost_samples += lost_samples;
            counts.lost_bytes += lost_bytes;
            counts.lost_frees += lost_frees;
            counts.untracked += untracked;
            counts.nested_bytes += nested_bytes;
        }
        let gaps = readers.iter().map(|reader| reader.gaps).sum();
        let (output, loaded) = ended.join().unwrap();
        Recorded {
            output,
            loaded,
            hellos,
            outcomes,
            records,
            counts,
            gaps,
        }
    })
}

/// The process at the other end.
fn peer(stream: &UnixStream) -> i32 {
    rustix::net::sockopt::socket_peercred(stream)
        .unwrap()
        .pid
        .as_raw_nonzero()
        .get()
}

/// A message, and the descriptor beside it.
fn receive(stream: &UnixStream) -> ([u64; MESSAGE_WORDS], Option<File>) {
    let mut words = [0_u64; MESSAGE_WORDS];
    let mut control = [0_u64; 8];
    let mut part = libc::iovec {
        iov_base: words.as_mut_ptr().cast(),
        iov_len: size_of_val(&words),
    };
    // SAFETY: zeros are a msghdr.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control);
    // SAFETY: all parts of the message are there.
    let received = unsafe { libc::recvmsg(stream.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC) };
    assert_eq!(
        received as usize,
        size_of_val(&words),
        "{}",
        std::io::Error::last_os_error()
    );
    // A cmsghdr of 16 bytes with one descriptor.
    let file = (message.msg_controllen >= 20).then(|| {
        assert_eq!(control[0], 20);
        // SAFETY: the kernel has made this descriptor for us.
        File::from(unsafe { OwnedFd::from_raw_fd(control[2] as i32) })
    });
    (words, file)
}

/// One process's memory. It is read as a file.
struct SharedMemory {
    file: File,
    ring_bytes: u64,
    tail: u64,
    gaps: u64,
}

impl SharedMemory {
    fn new(file: File, hello: &Hello, settings: Settings) -> SharedMemory {
        assert_eq!((hello.refused_step, hello.error), (0, 0));
        assert_eq!(hello.ring_bytes, settings.ring_bytes);
        assert_eq!(file.metadata().unwrap().len(), memory_bytes(hello.ring_bytes));
        assert!(file.set_len(1).is_err(), "the memory is sealed");
        let memory = SharedMemory {
            file,
            ring_bytes: hello.ring_bytes,
            tail: 0,
            gaps: 0,
        };
        assert_eq!(memory.words(0), [MAGIC, settings.interval, settings.stack_bytes]);
        memory
    }

    fn words<const COUNT: usize>(&self, offset: u64) -> [u64; COUNT] {
        let mut bytes = vec![0; 8 * COUNT];
        self.file.read_exact_at(&mut bytes, offset).unwrap();
        let mut words = bytes
            .chunks_exact(8)
            .map(|word| u64::from_le_bytes(word.try_into().unwrap()));
        std::array::from_fn(|_| words.next().unwrap())
    }

    fn state(&self) -> [u64; 8] {
        self.words(64)
    }

    fn read(&mut self, is_last: bool, records: &mut Vec<Record>) {
        let [head, ..] = self.state();
        let mut position = self.tail;
        while position < head {
            let offset = RING_OFFSET + position % self.ring_bytes;
            let [commit] = self.words(offset);
            if commit != !position {
                if !is_last {
                    break;
                }
                self.gaps += 1;
                position += ALIGNMENT;
                continue;
            }
            let [_, words @ ..] = self.words::<8>(offset);
            let record = RecordHead::from_words(words);
            assert!(
                record.bytes > 0 && u64::from(record.bytes).is_multiple_of(ALIGNMENT),
                "{record:?}"
            );
            assert!([ALLOCATION, FREE, FILLER].contains(&record.kind), "{record:?}");
            let mut body = vec![0; record.bytes as usize - 64];
            self.file.read_exact_at(&mut body, offset + 64).unwrap();
            position += u64::from(record.bytes);
            if record.kind != FILLER {
                let body = body
                    .chunks_exact(8)
                    .map(|word| u64::from_le_bytes(word.try_into().unwrap()));
                records.push(Record {
                    head: record,
                    body: body.collect(),
                });
            }
        }
        self.tail = position;
        self.file.write_all_at(&position.to_le_bytes(), 64 + 8).unwrap();
    }
}
