//! The link for the start of a browser.
//!
//! All users of a machine may read the arguments of all processes (`/proc/PID/cmdline`, proc(5)), so a browser does not
//! get the link with the token as an argument. It gets a link that redirects there once, and only for connections of
//! the user who runs sprof.

use std::net::{IpAddr, SocketAddr};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use share::files::owner::is_trusted;

/// A link that works once.
#[derive(Debug)]
pub(super) struct OneTimeLink {
    key: String,
    leads_to: OnceLock<String>,
    is_used: AtomicBool,
}

/// The two ends of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConnectionEnds {
    pub(super) peer: SocketAddr,
    pub(super) own: SocketAddr,
}

/// The outcome of following the link.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LinkOutcome<'a> {
    /// Redirect to this link.
    To(&'a str),
    /// The connection is another user's.
    Stranger,
    /// The link was used before.
    Used,
}

impl OneTimeLink {
    /// `key` must be hard to guess.
    pub(super) fn new(key: String) -> OneTimeLink {
        OneTimeLink {
            key,
            leads_to: OnceLock::new(),
            is_used: AtomicBool::new(false),
        }
    }

    /// The path of the link on this server; from now on it redirects to `link`.
    pub(super) fn path_to(&self, link: &str) -> String {
        // There is only one target: the UI with the profile, or with the comparison.
        let _ = self.leads_to.set(link.to_owned());
        format!("/{}/open", self.key)
    }

    /// True for the path of the link.
    pub(super) fn is_at(&self, path: &str) -> bool {
        path.strip_prefix('/')
            .and_then(|path| path.strip_suffix("/open"))
            .is_some_and(|key| super::guard::is_token(key, &self.key))
    }

    /// Follows the link on this connection; `ends` are its ends, if known.
    pub(super) fn follow(&self, ends: Option<ConnectionEnds>) -> LinkOutcome<'_> {
        // If the owner of a connection is unknown, the link still works only once.
        if ends.and_then(owner_of).is_some_and(|owner| !is_trusted(owner)) {
            return LinkOutcome::Stranger;
        }
        match (self.leads_to.get(), self.is_used.swap(true, Ordering::AcqRel)) {
            (Some(link), false) => LinkOutcome::To(link),
            _ => LinkOutcome::Used,
        }
    }
}

/// The user at the other end of a connection on this machine, if the system reports it.
fn owner_of(ends: ConnectionEnds) -> Option<u32> {
    // An IPv6 socket may be an end of an IPv4 connection.
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(std::fs::read_to_string);
    tables
        .iter()
        .flatten()
        .find_map(|table| owner_in(table, ends.peer, ends.own))
}

/// The lines are `sl local_address rem_address st tx:rx tr:when retrnsmt uid ...` (proc_pid_net(5), `get_tcp4_sock` in
/// net/ipv4/tcp_ipv4.c).
fn owner_in(table: &str, local: SocketAddr, remote: SocketAddr) -> Option<u32> {
    let (local, remote) = (written(local), written(remote));
    table.lines().skip(1).find_map(|line| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let is_it = |found: &str, wanted: &[String; 2]| wanted.iter().any(|wanted| wanted == found);
        let found = is_it(fields.next()?, &local) && is_it(fields.next()?, &remote);
        fields.nth(4).filter(|_| found)?.parse().ok()
    })
}

/// An address in the kernel's notation: words of 4 bytes in the byte order of the processor, then the port; for IPv4
/// and IPv6 sockets.
fn written(address: SocketAddr) -> [String; 2] {
    let words = |bytes: &[u8]| -> String {
        bytes
            .chunks_exact(4)
            .map(|word| format!("{:08X}", u32::from_ne_bytes([word[0], word[1], word[2], word[3]])))
            .collect()
    };
    let (short, long) = match address.ip() {
        IpAddr::V4(ip) => (words(&ip.octets()), words(&ip.to_ipv6_mapped().octets())),
        IpAddr::V6(ip) => {
            let short = ip.to_ipv4_mapped().map(|ip| words(&ip.octets()));
            (short.unwrap_or_default(), words(&ip.octets()))
        }
    };
    [short, long].map(|ip| format!("{ip}:{:04X}", address.port()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_endian = "little")]
    #[test]
    fn the_owner_is_that_of_the_other_end() {
        let table = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:0BB8 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1 0 100 0 0 10 0
   1: 0100007F:0BB8 0100007F:C350 01 00000000:00000000 00:00000000 00000000     0        0 2 1 0 20 4 30 10 -1
   2: 0100007F:C350 0100007F:0BB8 01 00000000:00000000 00:00000000 00000000  1000        0 3 1 0 20 4 30 10 -1
";
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        assert_eq!(owner_in(table, address(50000), address(3000)), Some(1000));
        assert_eq!(owner_in(table, address(3000), address(50000)), Some(0));
        assert_eq!(owner_in(table, address(50001), address(3000)), None);
        assert_eq!(owner_in("", address(50000), address(3000)), None);
        let mapped =
            "sl\n 0: 0000000000000000FFFF00000100007F:C350 0000000000000000FFFF00000100007F:0BB8 01 0:0 0:0 0 7 0\n";
        assert_eq!(owner_in(mapped, address(50000), address(3000)), Some(7));
    }

    #[test]
    fn it_leads_there_once() {
        let once = OneTimeLink::new("key".into());
        assert_eq!(once.path_to("http://there"), "/key/open");
        assert!(once.is_at("/key/open") && !once.is_at("/kex/open") && !once.is_at("/key"));
        // A connection that does not exist has no owner.
        let nobody = SocketAddr::from(([192, 0, 2, 1], 9));
        let ends = Some(ConnectionEnds {
            peer: nobody,
            own: nobody,
        });
        assert_eq!(once.follow(ends), LinkOutcome::To("http://there"));
        assert_eq!(once.follow(ends), LinkOutcome::Used);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_system_tells_whose_a_connection_is() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let owner = owner_of(ConnectionEnds {
            peer: client.local_addr().unwrap(),
            own: client.peer_addr().unwrap(),
        });
        assert_eq!(owner, Some(rustix::process::geteuid().as_raw()));
    }
}
