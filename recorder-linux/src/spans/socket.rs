//! The socket to which programs send their memory at their first span, where sprof has started them.

use std::ffi::CString;
use std::hash::{BuildHasher as _, Hasher as _};
use std::io;
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};

use recording::event::Pid;
use spans::format::{COUNTER, MAGIC, MONOTONIC, VARIABLE};

use super::clock;
use crate::heap::receive;

/// Connections that are taken in one round.
const MOST_CONNECTIONS: usize = 1024;

/// The listening socket. Its abstract name is gone with it, also if sprof is killed.
#[derive(Debug)]
pub(crate) struct SpanSocket(UnixListener);

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
        Ok(SpanSocket(listener))
    }

    /// Takes what programs have sent: each process, and its memory. A program sends before it goes on.
    pub(super) fn take(&self, take: &mut dyn FnMut(Pid, OwnedFd)) {
        for _ in 0..MOST_CONNECTIONS {
            let Ok((stream, _)) = self.0.accept() else { return };
            if stream.set_nonblocking(true).is_ok()
                && let Ok(Some(sent)) = receive(&stream)
                && sent.words[0] == MAGIC
                && let Some(memory) = sent.memory
            {
                take(Pid(sent.pid), memory);
            }
        }
    }
}

/// What programs write their times with.
pub(super) fn state() -> u64 {
    if clock::is_kernel_clock() { COUNTER } else { MONOTONIC }
}
