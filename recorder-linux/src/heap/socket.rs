//! The socket that programs connect to: when they start, if they may have an allocator to be patched, and at their
//! first sample.

use std::fs::{self, DirBuilder, Permissions};
use std::hash::{BuildHasher as _, Hasher as _};
use std::io::{self, IoSliceMut, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::pipe::PipeFlags;
use rustix::process::geteuid;

use super::patch_answers::{NO_ANSWER, PatchAnswers, PatchOutcome, PatchedExecutable, PatchedProcess};
use super::wire::{Hello, MAX_SOCKET_BYTES, MESSAGE_WORDS, Outcome, Question, SEND_MS};
use crate::sys::peer;
use crate::sys::process::monotonic_ns;

/// Connections that are taken at once; others wait for the next round.
const MOST_CONNECTIONS: usize = 1024;
/// Programs that have connected and not sent their message: a library sends it at once.
const MOST_WAITING: usize = 64;
/// How long no connection is taken after one could not be, ns.
const REFUSING_NS: i64 = 10_000_000;
/// Messages that the recorder has not taken.
const MOST_MESSAGES: usize = 4096;

/// Names of folders begin with it.
const FOLDER_PREFIX: &str = "sprof-heap-";

/// The listening socket, in a folder of its own. Both are removed when this is dropped. A thread takes the messages,
/// and answers questions at once: programs wait for that.
#[derive(Debug)]
pub(super) struct HeapSocket {
    name: SocketName,
    messages: Receiver<ProgramMessage>,
    /// Connections of others, and messages that make no sense.
    refused: Arc<AtomicU64>,
    connections: Arc<Mutex<Connections>>,
    /// The recording has ended: a byte wakes the thread.
    has_ended: Arc<AtomicBool>,
    wake: OwnedFd,
    thread: Option<JoinHandle<()>>,
}

/// What a program has sent.
#[derive(Debug)]
pub(super) enum ProgramMessage {
    Hello(ConnectedProgram),
    /// From now on the process may run patched code.
    Patched(PatchedProcess),
    /// What became of the patches of a program that has an allocator.
    PatchOutcome(PatchOutcome),
}

/// A program that has sent its hello.
#[derive(Debug)]
pub(super) struct ConnectedProgram {
    /// The process, as the kernel numbers it here.
    pub(super) pid: i32,
    pub(super) hello: Hello,
    pub(super) memory: Option<OwnedFd>,
}

#[derive(Debug)]
struct SocketName {
    folder: PathBuf,
    path: PathBuf,
}

/// The programs that have connected.
#[derive(Debug)]
struct Connections {
    listener: UnixListener,
    /// No connection could be taken (there are too many open files): who polls it finds it readable still.
    is_refusing: bool,
    /// Connected programs whose next message has not come.
    waiting: Vec<WaitingProgram>,
    patches: PatchAnswers,
    messages: SyncSender<ProgramMessage>,
    refused: Arc<AtomicU64>,
}

/// What the thread waits for.
struct Pause {
    is_for_connections: bool,
    /// Programs whose messages are to come. The recorder may take one meanwhile, and close its own.
    streams: Vec<UnixStream>,
    /// `None`: for ever.
    at_most: Option<Timespec>,
}

#[derive(Debug)]
struct WaitingProgram {
    stream: UnixStream,
    /// When it connected, or got its answer.
    since_ns: u64,
    /// What it was told.
    answered: Option<PatchedExecutable>,
}

impl HeapSocket {
    /// Begins to listen. Only this user can reach the socket; as root, all that root records, by the name in their
    /// environment: others see the folder, and not what is in it.
    pub(super) fn open(patches: PatchAnswers) -> io::Result<HeapSocket> {
        let (listener, name) = listen()?;
        let polled = listener.try_clone()?;
        let (connections, messages) = Connections::new(listener, patches);
        let refused = Arc::clone(&connections.refused);
        let connections = Arc::new(Mutex::new(connections));
        let has_ended = Arc::new(AtomicBool::new(false));
        let (woken, wake) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let (shared, ended) = (Arc::clone(&connections), Arc::clone(&has_ended));
        let thread = std::thread::Builder::new()
            .name("heap socket".to_owned())
            .spawn(move || {
                while !ended.load(Ordering::Acquire) {
                    let pause = lock(&shared).pause();
                    if wait(&polled, &woken, &pause).is_err() {
                        break;
                    }
                    lock(&shared).look(monotonic_ns());
                }
            })?;
        Ok(HeapSocket {
            name,
            messages,
            refused,
            connections,
            has_ended,
            wake,
            thread: Some(thread),
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.name.path
    }

    /// What programs have sent since the last call. A program that has ended by now may have sent its hello just
    /// before: its records would have no place once its end is recorded. The thread may be late.
    pub(super) fn take(&self) -> impl Iterator<Item = ProgramMessage> {
        lock(&self.connections).look(monotonic_ns());
        self.messages.try_iter()
    }

    /// For messages about programs by others than themselves.
    pub(super) fn messages(&self) -> SyncSender<ProgramMessage> {
        lock(&self.connections).messages.clone()
    }

    /// How many connections and messages were refused since the last call.
    pub(super) fn take_refused(&self) -> u64 {
        self.refused.swap(0, Ordering::Relaxed)
    }
}

impl Drop for HeapSocket {
    fn drop(&mut self) {
        self.has_ended.store(true, Ordering::Release);
        // Forks may have the other end as well, so closing this one would wake nobody. The pipe is empty.
        let _ = rustix::io::write(&self.wake, b"e");
        // A panic has been printed.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Drop for SocketName {
    fn drop(&mut self) {
        remove(&self.folder, &self.path);
    }
}

/// A thread that panicked left all fields valid.
fn lock(connections: &Mutex<Connections>) -> MutexGuard<'_, Connections> {
    connections.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for a connection, a message, or the end.
fn wait(listener: &UnixListener, woken: &OwnedFd, pause: &Pause) -> io::Result<()> {
    let mut polls = vec![PollFd::new(woken, PollFlags::IN)];
    polls.extend((pause.is_for_connections).then(|| PollFd::new(listener, PollFlags::IN)));
    polls.extend(pause.streams.iter().map(|stream| PollFd::new(stream, PollFlags::IN)));
    match rustix::event::poll(&mut polls, pause.at_most.as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn listen() -> io::Result<(UnixListener, SocketName)> {
    remove_leftovers(&std::env::temp_dir());
    let random = || format!("{:016x}", std::hash::RandomState::new().build_hasher().finish());
    let (name, of_socket) = (format!("{FOLDER_PREFIX}{}", random()), random());
    // Between bind(2) and listen(2) a socket refuses connections, as what killed recorders have left does: another
    // recorder that starts at this moment removed it. So the folder gets a name that these look for when it listens.
    let making = |folder: &Path| folder.with_file_name(format!(".{name}"));
    let folder = [std::env::temp_dir(), PathBuf::from("/tmp")]
        .map(|folder| folder.join(&name))
        .into_iter()
        .find(|folder| making(folder).join(&of_socket).as_os_str().len() <= MAX_SOCKET_BYTES)
        .ok_or(io::ErrorKind::InvalidFilename)?;
    let for_all = geteuid().is_root();
    let made = making(&folder);
    DirBuilder::new().mode(0o700).create(&made)?;
    let mut name = SocketName {
        path: made.join(&of_socket),
        folder: made,
    };
    let listener = UnixListener::bind(&name.path)?;
    listener.set_nonblocking(true)?;
    if for_all {
        fs::set_permissions(&name.path, Permissions::from_mode(0o666))?;
        fs::set_permissions(&name.folder, Permissions::from_mode(0o711))?;
    }
    fs::rename(&name.folder, &folder)?;
    name.path = folder.join(of_socket);
    name.folder = folder;
    Ok((listener, name))
}

impl Connections {
    fn new(listener: UnixListener, patches: PatchAnswers) -> (Connections, Receiver<ProgramMessage>) {
        let (sender, messages) = mpsc::sync_channel(MOST_MESSAGES);
        let connections = Connections {
            listener,
            is_refusing: false,
            waiting: Vec::new(),
            patches,
            messages: sender,
            refused: Arc::default(),
        };
        (connections, messages)
    }

    fn pause(&self) -> Pause {
        let (tv_sec, tv_nsec) = if self.is_refusing { (0, REFUSING_NS) } else { (1, 0) };
        let streams = self.waiting.iter().map(|program| program.stream.try_clone());
        Pause {
            is_for_connections: !self.is_refusing,
            streams: streams.flatten().collect(),
            at_most: (self.is_refusing || !self.waiting.is_empty()).then_some(Timespec { tv_sec, tv_nsec }),
        }
    }

    /// Takes what has come.
    fn look(&mut self, now_ns: u64) {
        self.is_refusing = false;
        for _ in 0..MOST_CONNECTIONS {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) => {
                    self.is_refusing = error.kind() != io::ErrorKind::WouldBlock;
                    break;
                }
            };
            match stream.set_nonblocking(true) {
                Ok(()) if self.waiting.len() < MOST_WAITING + MOST_CONNECTIONS => self.waiting.push(WaitingProgram {
                    stream,
                    since_ns: now_ns,
                    answered: None,
                }),
                _ => self.refuse(),
            }
        }
        let mut waiting = Vec::new();
        for mut program in std::mem::take(&mut self.waiting) {
            match receive(&program.stream) {
                Ok(message) => {
                    let taken = message.and_then(|message| self.take(&mut program, message, now_ns));
                    match taken {
                        Some(true) => waiting.push(program),
                        Some(false) => {}
                        None => self.refuse(),
                    }
                }
                // A program that ended, or another recorder that looks for what killed ones have left.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    if let Some(executable) = program.answered {
                        self.send(ProgramMessage::PatchOutcome(executable.outcome(NO_ANSWER)));
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let is_late = now_ns.saturating_sub(program.since_ns) > u64::from(SEND_MS) * 1_000_000;
                    match is_late || waiting.len() >= MOST_WAITING {
                        true => self.refuse(),
                        false => waiting.push(program),
                    }
                }
                Err(_) => self.refuse(),
            }
        }
        self.waiting = waiting;
    }

    /// Takes a message. Returns whether another one follows; `None` if it makes no sense.
    fn take(&mut self, program: &mut WaitingProgram, message: SentMessage, now_ns: u64) -> Option<bool> {
        let SentMessage { pid, words, memory } = message;
        if let Some(question) = Question::from_words(words).filter(|_| program.answered.is_none()) {
            let (answer, found) = self.patches.answer(pid, &question);
            match found {
                Some((executable, Some(refused))) => {
                    self.send(ProgramMessage::PatchOutcome(executable.outcome(refused)));
                }
                Some((executable, None)) => {
                    // Before the program can run what it is told.
                    self.send(ProgramMessage::Patched(executable.process(pid, &question, now_ns)));
                    program.answered = Some(executable);
                }
                None => {}
            }
            // The buffers of a socket have room for all of it.
            let sent = (&program.stream).write(&answer).ok()?;
            program.since_ns = now_ns;
            return (sent == answer.len()).then_some(program.answered.is_some());
        }
        if let Some(outcome) = Outcome::from_words(words) {
            let executable = program.answered.take().or_else(|| self.patches.executable(pid));
            if let Some(executable) = executable {
                self.send(ProgramMessage::PatchOutcome(executable.outcome(outcome)));
            }
            return Some(false);
        }
        let hello = Hello::from_words(words).filter(|_| program.answered.is_none())?;
        self.send(ProgramMessage::Hello(ConnectedProgram { pid, hello, memory }));
        Some(false)
    }

    fn send(&self, message: ProgramMessage) {
        // The recorder takes them each round.
        if self.messages.try_send(message).is_err() {
            self.refuse();
        }
    }

    fn refuse(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }
}

/// Removes what killed recorders of this user have left: nobody listens there.
fn remove_leftovers(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_ours = entry
            .file_name()
            .as_encoded_bytes()
            .starts_with(FOLDER_PREFIX.as_bytes())
            && entry
                .metadata()
                .is_ok_and(|found| found.is_dir() && found.uid() == geteuid().as_raw());
        let sockets = fs::read_dir(entry.path()).into_iter().flatten().flatten();
        for socket in sockets.take(usize::from(is_ours)).map(|socket| socket.path()) {
            let refused = UnixStream::connect(&socket).err().map(|error| error.kind());
            if refused == Some(io::ErrorKind::ConnectionRefused) {
                remove(&entry.path(), &socket);
            }
        }
    }
}

fn remove(folder: &Path, socket: &Path) {
    // What is left of them harms nobody.
    let _ = fs::remove_file(socket);
    let _ = fs::remove_dir(folder);
}

/// A message and who sent it.
pub(crate) struct SentMessage {
    pub(crate) pid: i32,
    pub(crate) words: [u64; MESSAGE_WORDS],
    pub(crate) memory: Option<OwnedFd>,
}

/// The next message on a connection. `None` if the peer is another user, or sent something else.
pub(crate) fn receive(stream: &UnixStream) -> io::Result<Option<SentMessage>> {
    let mut bytes = [0; 8 * MESSAGE_WORDS];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut beside = RecvAncillaryBuffer::new(&mut space);
    let message = recvmsg(
        stream,
        &mut [IoSliceMut::new(&mut bytes)],
        &mut beside,
        RecvFlags::CMSG_CLOEXEC,
    )?;
    if message.bytes == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    // A second descriptor has no room, and is closed by the kernel.
    let memory = beside.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    let (pid, user) = peer::credentials(stream)?;
    let is_trusted = geteuid().is_root() || user == geteuid().as_raw();
    if message.bytes != bytes.len() || !is_trusted {
        return Ok(None);
    }
    let mut words = [0; MESSAGE_WORDS];
    for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *word = u64::from_ne_bytes(*bytes);
    }
    Ok(Some(SentMessage { pid, words, memory }))
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

    use super::super::wire::Answer;
    use recording::heap::HeapPatches;

    use super::*;

    const HELLO: Hello = Hello {
        machine: 62,
        pid: 5,
        ring_bytes: 16 << 10,
        refused_step: 0,
        error: 0,
    };

    /// Programs of milliseconds are over before a thread looks by itself.
    #[test]
    fn what_was_sent_before_is_taken_however_late_the_thread_is() {
        let socket = HeapSocket::open(PatchAnswers::new(HeapPatches::All)).unwrap();
        for _ in 0..200 {
            let stream = UnixStream::connect(socket.path()).unwrap();
            (&stream).write_all(&bytes(HELLO.to_words())).unwrap();
            drop(stream);
            assert!(matches!(
                &*socket.take().collect::<Vec<_>>(),
                [ProgramMessage::Hello(_)]
            ));
        }
    }

    fn bytes(words: [u64; MESSAGE_WORDS]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    fn send(socket: &Opened, bytes: &[u8], descriptors: usize) -> UnixStream {
        let stream = UnixStream::connect(&socket.name.path).unwrap();
        let files: Vec<_> = (0..descriptors).map(|_| tempfile::tempfile().unwrap()).collect();
        let files: Vec<_> = files.iter().map(std::os::fd::AsFd::as_fd).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut beside = SendAncillaryBuffer::new(&mut space);
        if !files.is_empty() {
            assert!(beside.push(SendAncillaryMessage::ScmRights(&files)));
        }
        sendmsg(&stream, &[io::IoSlice::new(bytes)], &mut beside, SendFlags::empty()).unwrap();
        stream
    }

    /// A socket whose messages are taken when the test says so.
    struct Opened {
        name: SocketName,
        connections: Connections,
        messages: Receiver<ProgramMessage>,
    }

    impl Opened {
        fn new() -> Opened {
            let (listener, name) = listen().unwrap();
            Opened::with_listener(listener, name)
        }

        fn with_listener(listener: UnixListener, name: SocketName) -> Opened {
            let (connections, messages) = Connections::new(listener, PatchAnswers::new(HeapPatches::All));
            Opened {
                name,
                connections,
                messages,
            }
        }

        fn take(&mut self, now_ns: u64) -> Vec<ProgramMessage> {
            self.connections.look(now_ns);
            self.messages.try_iter().collect()
        }

        fn refused(&self) -> u64 {
            self.connections.refused.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn a_connection_that_cannot_be_taken_is_not_tried_at_once_again() {
        // Readable, and no listener.
        let (stream, mut other) = UnixStream::pair().unwrap();
        other.write_all(b"x").unwrap();
        let listener = UnixListener::from(OwnedFd::from(stream));
        let polled = listener.try_clone().unwrap();
        let (mut connections, _messages) = Connections::new(listener, PatchAnswers::new(HeapPatches::All));
        let (woken, _wake) = rustix::pipe::pipe().unwrap();
        let start_ns = monotonic_ns();
        for _ in 0..11 {
            wait(&polled, &woken, &connections.pause()).unwrap();
            connections.look(monotonic_ns());
        }
        assert!(monotonic_ns() - start_ns >= 10 * REFUSING_NS.cast_unsigned());
    }

    #[test]
    fn a_hello_comes_with_the_number_of_its_process_and_its_memory() {
        let mut socket = Opened::new();
        let stream = send(&socket, &bytes(HELLO.to_words()), 1);
        // The program waits for nothing.
        drop(stream);
        let messages = socket.take(0);
        let [ProgramMessage::Hello(program)] = &messages[..] else {
            panic!("{messages:?}")
        };
        assert_eq!(program.pid, std::process::id() as i32);
        assert_eq!(program.hello, HELLO);
        assert!(program.memory.is_some());
        let (folder, path) = (socket.name.folder.clone(), socket.name.path.clone());
        assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o44, 0);
        // Who sees the folder's name does not know the socket's.
        let name = path.file_name().unwrap().to_str().unwrap();
        assert!(name.len() == 16 && !folder.to_str().unwrap().contains(name), "{path:?}");
        drop(socket);
        assert!(!folder.exists() && !path.exists());
    }

    #[test]
    fn a_program_is_answered_at_once_and_the_recording_ends_beside_programs_that_wait() {
        let socket = HeapSocket::open(PatchAnswers::new(HeapPatches::All)).unwrap();
        let _silent = UnixStream::connect(socket.path()).unwrap();
        let question = Question {
            bias: u64::MAX,
            code: u64::MAX,
            countdown: i64::MIN,
            slow: 0,
            filter: 1,
        };
        let mut stream = UnixStream::connect(socket.path()).unwrap();
        stream.write_all(&bytes(question.to_words())).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        // This test has no allocator of its own.
        let nothing = Answer {
            code_bytes: 0,
            writes: 0,
        };
        assert_eq!(answer, nothing.to_words().map(u64::to_ne_bytes).concat());
        let folder = socket.name.folder.clone();
        drop(socket);
        assert!(!folder.exists());
    }

    #[test]
    fn what_a_killed_recorder_left_is_removed_and_what_a_living_one_has_stays() {
        let folder = tempfile::tempdir().unwrap();
        let [left, living, other] = ["sprof-heap-1", "sprof-heap-2", "other-1"].map(|name| folder.path().join(name));
        let listen = |folder: &Path| {
            fs::create_dir(folder).unwrap();
            UnixListener::bind(folder.join("s")).unwrap()
        };
        // Not only closed: a child that another test has forked may have the socket as well.
        let kill = |listener: UnixListener| rustix::net::shutdown(&listener, rustix::net::Shutdown::Both).unwrap();
        kill(listen(&left));
        kill(listen(&other));
        let _living = listen(&living);
        remove_leftovers(folder.path());
        assert_eq!([left, living, other].map(|folder| folder.exists()), [false, true, true]);
    }

    #[test]
    fn recorders_that_start_at_once_leave_each_other_s_sockets() {
        let start = || (0..100).for_each(|_| drop(UnixStream::connect(&listen().unwrap().1.path).unwrap()));
        std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(start))));
    }

    #[test]
    fn other_messages_are_refused_and_counted() {
        let mut socket = Opened::new();
        let mut of_other_version = HELLO.to_words();
        of_other_version[0] += 1 << 56;
        let mut streams = [
            send(&socket, &bytes(of_other_version), 1),
            send(&socket, &bytes(HELLO.to_words())[..40], 1),
            send(&socket, &[0xff; 8 * MESSAGE_WORDS], 4),
        ];
        // That is no message.
        drop(UnixStream::connect(&socket.name.path).unwrap());
        assert_eq!(socket.take(0).len(), 0);
        assert_eq!(socket.refused(), 3);
        // A second message is not read.
        streams[0].write_all(&bytes(HELLO.to_words())).unwrap_or_default();
        assert_eq!(socket.take(0).len(), 0);
    }

    #[test]
    fn who_connects_and_sends_nothing_is_waited_for_a_while() {
        // In a folder of its own: the recorders of other tests connect to all sockets in the usual one, for a moment.
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        listener.set_nonblocking(true).unwrap();
        let name = SocketName {
            folder: folder.path().to_owned(),
            path,
        };
        let mut socket = Opened::with_listener(listener, name);
        let mut silent: Vec<_> = (0..MOST_WAITING + 10)
            .map(|_| UnixStream::connect(&socket.name.path).unwrap())
            .collect();
        assert_eq!(socket.take(0).len(), 0);
        assert_eq!((socket.refused(), socket.connections.waiting.len()), (10, MOST_WAITING));
        silent[0].write_all(&bytes(HELLO.to_words())).unwrap();
        assert_eq!(socket.take(1).len(), 1);
        assert_eq!(socket.take(u64::from(SEND_MS) * 1_000_000 + 1).len(), 0);
        assert_eq!(
            (socket.refused(), socket.connections.waiting.len()),
            (9 + MOST_WAITING as u64, 0)
        );
    }
}
