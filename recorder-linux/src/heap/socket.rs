//! The socket that programs connect to at their first sample.

use std::fs::{self, DirBuilder, Permissions};
use std::hash::{BuildHasher as _, Hasher as _};
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::process::geteuid;

use super::wire::{HELLO_WORDS, Hello, MAX_SOCKET_BYTES, SEND_MS};
use crate::sys::peer;

/// Connections that are taken at once; others wait for the next round.
const MOST_CONNECTIONS: usize = 1024;
/// Programs that have connected and not sent a hello: a library sends it at once.
const MOST_WAITING: usize = 64;

/// Names of folders begin with it.
const FOLDER_PREFIX: &str = "sprof-heap-";

/// The listening socket, in a folder of its own. Both are removed when this is dropped.
#[derive(Debug)]
pub(super) struct HeapSocket {
    listener: UnixListener,
    folder: PathBuf,
    path: PathBuf,
    /// Connected programs whose hello has not come, and when they connected.
    waiting: Vec<(UnixStream, u64)>,
    /// Connections of others, and messages that are no hello.
    pub(super) refused: u64,
}

/// A program that has sent its hello.
#[derive(Debug)]
pub(super) struct ConnectedProgram {
    /// The process, as the kernel numbers it here.
    pub(super) pid: i32,
    pub(super) hello: Hello,
    pub(super) memory: Option<OwnedFd>,
}

impl HeapSocket {
    /// Begins to listen. Only this user can reach the socket; as root, all that root records, by the name in their
    /// environment: others see the folder, and not what is in it.
    pub(super) fn open() -> io::Result<HeapSocket> {
        remove_leftovers(&std::env::temp_dir());
        let random = || format!("{:016x}", std::hash::RandomState::new().build_hasher().finish());
        let (name, of_socket) = (format!("{FOLDER_PREFIX}{}", random()), random());
        let folder = [std::env::temp_dir(), PathBuf::from("/tmp")]
            .map(|folder| folder.join(&name))
            .into_iter()
            .find(|folder| folder.join(&of_socket).as_os_str().len() <= MAX_SOCKET_BYTES)
            .ok_or(io::ErrorKind::InvalidFilename)?;
        let for_all = geteuid().is_root();
        DirBuilder::new().mode(0o700).create(&folder)?;
        let path = folder.join(of_socket);
        let opened = UnixListener::bind(&path).and_then(|listener| {
            listener.set_nonblocking(true)?;
            if for_all {
                fs::set_permissions(&path, Permissions::from_mode(0o666))?;
                fs::set_permissions(&folder, Permissions::from_mode(0o711))?;
            }
            Ok(listener)
        });
        match opened {
            Ok(listener) => Ok(HeapSocket {
                listener,
                folder,
                path,
                waiting: Vec::new(),
                refused: 0,
            }),
            Err(error) => {
                remove(&folder, &path);
                Err(error)
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The programs that have sent their hello since the last call.
    pub(super) fn take(&mut self, now_ns: u64) -> Vec<ConnectedProgram> {
        for _ in 0..MOST_CONNECTIONS {
            let Ok((stream, _)) = self.listener.accept() else { break };
            match stream.set_nonblocking(true) {
                Ok(()) if self.waiting.len() < MOST_WAITING + MOST_CONNECTIONS => self.waiting.push((stream, now_ns)),
                _ => self.refused += 1,
            }
        }
        let mut connected = Vec::new();
        let mut waiting = Vec::new();
        for (stream, since) in std::mem::take(&mut self.waiting) {
            match receive(&stream) {
                Ok(Some(program)) => connected.push(program),
                // A program that ended, or another recorder that looks for what killed ones have left.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let is_late = now_ns.saturating_sub(since) > u64::from(SEND_MS) * 1_000_000;
                    match is_late || waiting.len() >= MOST_WAITING {
                        true => self.refused += 1,
                        false => waiting.push((stream, since)),
                    }
                }
                Ok(None) | Err(_) => self.refused += 1,
            }
        }
        self.waiting = waiting;
        connected
    }
}

impl Drop for HeapSocket {
    fn drop(&mut self) {
        remove(&self.folder, &self.path);
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

/// The hello on a connection. `None` if the peer is another user, or sent something else.
fn receive(stream: &UnixStream) -> io::Result<Option<ConnectedProgram>> {
    let mut bytes = [0; 8 * HELLO_WORDS];
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
    let mut words = [0; HELLO_WORDS];
    for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *word = u64::from_ne_bytes(*bytes);
    }
    Ok(Hello::from_words(words).map(|hello| ConnectedProgram { pid, hello, memory }))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

    use super::*;

    const HELLO: Hello = Hello {
        machine: 62,
        pid: 5,
        ring_bytes: 16 << 10,
        malloc_address: 1,
        refused_step: 0,
        error: 0,
    };

    fn bytes(words: [u64; HELLO_WORDS]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    fn send(socket: &HeapSocket, bytes: &[u8], descriptors: usize) -> UnixStream {
        let stream = UnixStream::connect(socket.path()).unwrap();
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

    #[test]
    fn a_hello_comes_with_the_number_of_its_process_and_its_memory() {
        let mut socket = HeapSocket::open().unwrap();
        let stream = send(&socket, &bytes(HELLO.to_words()), 1);
        // The program waits for nothing.
        drop(stream);
        let programs = socket.take(0);
        assert_eq!(programs.len(), 1);
        assert_eq!(programs[0].pid, std::process::id() as i32);
        assert_eq!(programs[0].hello, HELLO);
        assert!(programs[0].memory.is_some());
        let (folder, path) = (socket.folder.clone(), socket.path().to_owned());
        assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o44, 0);
        // Who sees the folder's name does not know the socket's.
        let name = path.file_name().unwrap().to_str().unwrap();
        assert!(name.len() == 16 && !folder.to_str().unwrap().contains(name), "{path:?}");
        drop(socket);
        assert!(!folder.exists() && !path.exists());
    }

    #[test]
    fn what_a_killed_recorder_left_is_removed_and_what_a_living_one_has_stays() {
        let folder = tempfile::tempdir().unwrap();
        let [left, living, other] = ["sprof-heap-1", "sprof-heap-2", "other-1"].map(|name| folder.path().join(name));
        let listen = |folder: &Path| {
            fs::create_dir(folder).unwrap();
            UnixListener::bind(folder.join("s")).unwrap()
        };
        drop(listen(&left));
        drop(listen(&other));
        let _living = listen(&living);
        remove_leftovers(folder.path());
        assert_eq!([left, living, other].map(|folder| folder.exists()), [false, true, true]);
    }

    #[test]
    fn other_messages_are_refused_and_counted() {
        let mut socket = HeapSocket::open().unwrap();
        let mut of_other_version = HELLO.to_words();
        of_other_version[0] += 1 << 56;
        let mut streams = [
            send(&socket, &bytes(of_other_version), 1),
            send(&socket, &bytes(HELLO.to_words())[..40], 1),
            send(&socket, &[0xff; 8 * HELLO_WORDS], 4),
        ];
        // That is no message.
        drop(UnixStream::connect(socket.path()).unwrap());
        assert_eq!(socket.take(0).len(), 0);
        assert_eq!(socket.refused, 3);
        // A second message is not read.
        streams[0].write_all(&bytes(HELLO.to_words())).unwrap_or_default();
        assert_eq!(socket.take(0).len(), 0);
    }

    #[test]
    fn who_connects_and_sends_nothing_is_waited_for_a_while() {
        let mut socket = HeapSocket::open().unwrap();
        let mut silent: Vec<_> = (0..MOST_WAITING + 10)
            .map(|_| UnixStream::connect(socket.path()).unwrap())
            .collect();
        assert_eq!(socket.take(0).len(), 0);
        assert_eq!((socket.refused, socket.waiting.len()), (10, MOST_WAITING));
        silent[0].write_all(&bytes(HELLO.to_words())).unwrap();
        assert_eq!(socket.take(1).len(), 1);
        assert_eq!(socket.take(u64::from(SEND_MS) * 1_000_000 + 1).len(), 0);
        assert_eq!((socket.refused, socket.waiting.len()), (9 + MOST_WAITING as u64, 0));
    }
}
