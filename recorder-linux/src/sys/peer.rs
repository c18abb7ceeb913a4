//! Who is at the other end of a socket.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _};

use super::retry;

/// Process and user, as the kernel noted them when the peer connected. The process is 0 if it has no number in this
/// PID namespace, which rustix has no type for.
pub(crate) fn credentials(socket: impl AsFd) -> io::Result<(i32, u32)> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = size_of_val(&peer) as libc::socklen_t;
    // SAFETY: both pointers are of live values, and the length is that of the first.
    retry(|| unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut length,
        ) as isize
    })?;
    Ok((peer.pid, peer.uid))
}

#[cfg(test)]
mod tests {
    #[test]
    fn we_are_our_own_peer() {
        let (one, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let own = (std::process::id() as i32, rustix::process::geteuid().as_raw());
        assert_eq!(super::credentials(&one).unwrap(), own);
    }
}
