//! The socket to which programs send their memory at their first span, where sprof has started them.

use std::ffi::CString;
use std::hash::{BuildHasher as _, Hasher as _};
use std::io;
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

use recording::event::Pid;
use spans::format::{COUNTER, MAGIC, MONOTONIC, VARIABLE};

use super::clock;
use crate::heap::receive;

/// Connections that are taken in one round.
const MOST_CONNECTIONS: usize = 1024;

/// Connections that are kept until they send. A busy machine, or its host, may take the CPU away from a program between
/// its two calls for longer than a round. A program whose connection is closed records nothing.
const MOST_UNSENT: usize = 64;

/// The listening socket. Its abstract name is gone with it, also if sprof is killed.
#[derive(Debug)]
pub(crate) struct SpanSocket {
    listener: UnixListener,
    /// Programs that have connected and not sent yet, the latest last.
    unsent: Vec<UnixStream>,
}

impl SpanSocket {
    /// Begins to listen, and adds to the environment of a program.
    pub(crate) fn open(env: &mut Vec<CString>) -> io::Result<SpanSocket> {
        let random = std::hash::RandomState::new().build_hasher().finish();
        let name = format!("sprof-spans-{}-{random:016x}", std::process::id());
        let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
        listener.set_nonblocking(true)?;
        let prefix = format!("{VARIABLE}=");
        env.retain(|entry| !entry.as_bytes().starts_with(prefix.as_bytes()));
        env.push(CString::new(format!("{prefix}{}:{name}", state())).map_err(io::Error::other)?);
        let unsent = Vec::new();
        Ok(SpanSocket { listener, unsent })
    }

    /// Takes what programs have sent: each process, and its memory. A program sends before it goes on.
    pub(super) fn take(&mut self, take: &mut dyn FnMut(Pid, OwnedFd)) {
        let mut has_sent = |stream: &UnixStream| match receive(stream) {
            Ok(Some(sent)) if sent.words[0] == MAGIC => {
                sent.memory.into_iter().for_each(|memory| take(Pid(sent.pid), memory));
                true
            }
            Ok(_) => true,
            Err(error) => error.kind() != io::ErrorKind::WouldBlock,
        };
        self.unsent.retain(|stream| !has_sent(stream));
        for _ in 0..MOST_CONNECTIONS {
            let Ok((stream, _)) = self.listener.accept() else {
                return;
            };
            if stream.set_nonblocking(true).is_ok() && !has_sent(&stream) {
                // Others may connect and never send.
                if self.unsent.len() >= MOST_UNSENT {
                    self.unsent.remove(0);
                }
                self.unsent.push(stream);
            }
        }
    }
}

/// What programs write their times with.
pub(super) fn state() -> u64 {
    if clock::is_kernel_clock() { COUNTER } else { MONOTONIC }
}

#[cfg(test)]
mod tests {
    use std::io::IoSlice;
    use std::os::fd::AsFd as _;

    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

    use super::*;

    #[test]
    fn a_program_that_sends_long_after_it_connected_is_taken() {
        let mut env = Vec::new();
        let mut socket = SpanSocket::open(&mut env).unwrap();
        let (_, name) = env[0].to_str().unwrap().rsplit_once(':').unwrap();
        let stream = UnixStream::connect_addr(&SocketAddr::from_abstract_name(name).unwrap()).unwrap();
        let mut taken = Vec::new();
        for _ in 0..3 {
            socket.take(&mut |pid, _| taken.push(pid));
            assert_eq!(taken, []);
        }
        let descriptors = [stream.as_fd()];
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut beside = SendAncillaryBuffer::new(&mut space);
        beside.push(SendAncillaryMessage::ScmRights(&descriptors));
        let words = [MAGIC, 0, 0, 0, 0, 0, 0, 0].map(u64::to_ne_bytes).concat();
        let bytes = [IoSlice::new(&words)];
        assert_eq!(sendmsg(&stream, &bytes, &mut beside, SendFlags::empty()), Ok(64));
        socket.take(&mut |pid, _| taken.push(pid));
        assert_eq!(taken, [Pid(std::process::id() as i32)]);
        assert!(socket.unsent.is_empty());
    }
}
