//! The port that the server listens on, bound before the program runs, and the links to it.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use profile::Tracks;
use recording::command::own;

use super::one_time_link::OneTimeLink;
use super::token;
use super::ui::UiDir;
use super::view;

/// Ports that `3000+` tries at most.
const PORTS_TO_TRY: u16 = 100;

/// The port that a server takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port {
    /// The first port to try; 0 lets the system choose.
    pub first: u16,
    /// If the port is taken, try the next ones.
    pub or_next: bool,
}

/// The profiler UI that the links open.
#[derive(Clone, Debug)]
pub enum UiSource {
    /// The UI at this address (scheme, host, port, perhaps a path), without `/` at the end.
    Url(String),
    /// A built UI in this folder, which the server serves.
    Folder(PathBuf),
}

/// Where a server listens, and what its links open.
#[derive(Clone, Debug)]
pub struct ListenOptions {
    /// Address to listen on.
    pub address: IpAddr,
    /// Port to listen on.
    pub port: Port,
    /// The profiler UI.
    pub ui: UiSource,
    /// The link opens the built-in viewer.
    pub opens_viewer: bool,
}

/// Where the UI comes from.
pub(super) enum Ui {
    /// From this address (scheme, host, port, perhaps a path).
    Remote(String),
    /// From a folder, by this server.
    Local(UiDir),
}

/// A bound port before the server starts.
pub struct Listener {
    pub(super) socket: TcpListener,
    pub(super) address: SocketAddr,
    pub(super) ui: Ui,
    pub(super) token: String,
    pub(super) once: Arc<OneTimeLink>,
    /// The link opens the built-in viewer.
    pub(super) opens_viewer: bool,
}

impl Listener {
    /// Takes the port and checks the UI, before any program runs.
    ///
    /// # Errors
    ///
    /// The folder holds no UI, the port is taken, or there are no random bytes; with the next step.
    pub fn bind(options: ListenOptions) -> Result<Listener, String> {
        let ui = match options.ui {
            UiSource::Folder(folder) => Ui::Local(UiDir::open(&folder)?),
            UiSource::Url(url) => Ui::Remote(url),
        };
        let (socket, address) = bind_one(options.address, options.port)?;
        let token = token::random()?;
        Ok(Listener {
            socket,
            address,
            ui,
            token,
            once: Arc::new(OneTimeLink::new(token::random()?)),
            opens_viewer: options.opens_viewer,
        })
    }

    /// The address and port that were taken.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The links for the user; `tracks` are the tracks of the profile, if known.
    pub fn links(&self, tracks: Option<&Tracks>) -> Links {
        let LinkParts { origin, ui, ours } = self.link_parts();
        let view = match tracks.and_then(view::query) {
            Some(query) => format!("calltree/?{query}&"),
            None => "?".to_owned(),
        };
        let profile = encode(&format!("{ours}/profile.json"));
        let open = match self.opens_viewer {
            true => viewer_of(&ours),
            false => format!("{ui}/from-url/{profile}/{view}symbolServer={}", encode(&ours)),
        };
        self.links_to(origin, ui, open)
    }

    pub(super) fn links_to(&self, origin: String, ui: String, open: String) -> Links {
        let once = format!("{origin}{}", self.once.path_to(&open));
        let viewer = viewer_of(&self.link_parts().ours);
        Links {
            origin,
            ui,
            open,
            once,
            viewer,
        }
    }

    pub(super) fn link_parts(&self) -> LinkParts {
        let host = SocketAddr::new(reachable(self.address.ip()), self.address.port());
        let origin = format!("http://{host}");
        LinkParts {
            ui: match &self.ui {
                Ui::Remote(url) => url.clone(),
                Ui::Local(_) => origin.clone(),
            },
            ours: format!("{origin}/{}", self.token),
            origin,
        }
    }
}

/// The viewer below the folder of the profile.
pub(super) fn viewer_of(ours: &str) -> String {
    format!("{ours}/view/")
}

pub(super) struct LinkParts {
    pub(super) origin: String,
    pub(super) ui: String,
    /// Folder of the profile and its symbols. Holds the secret token.
    pub(super) ours: String,
}

/// Addresses of a server.
#[derive(Clone, Debug)]
pub struct Links {
    /// Scheme, host and port of this server.
    pub origin: String,
    /// Address of the UI, without a profile.
    pub ui: String,
    /// Address of the UI with the profile. Holds the secret token.
    pub open: String,
    /// Address of the built-in viewer. Holds the secret token.
    pub viewer: String,
    /// Redirects to `open` once. For a browser's arguments, which all users can read.
    pub once: String,
}

/// `encodeURIComponent` (ECMA-262 19.2.6.4); the UI decodes with `decodeURIComponent`.
const URI_COMPONENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'!')
    .remove(b'~')
    .remove(b'*')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')');

/// Encodes text as a part of an address, as `encodeURIComponent` does.
pub fn encode(url: &str) -> String {
    utf8_percent_encode(url, URI_COMPONENT).to_string()
}

pub(super) fn bind_one(ip: IpAddr, port: Port) -> Result<(TcpListener, SocketAddr), String> {
    let tries = if port.or_next { PORTS_TO_TRY } else { 1 };
    let mut in_use = io::Error::from(io::ErrorKind::AddrInUse);
    for port in (0..tries).map_while(|step| port.first.checked_add(step)) {
        let address = SocketAddr::new(ip, port);
        let bound = TcpListener::bind(address).and_then(|socket| {
            socket.set_nonblocking(true)?;
            let address = socket.local_addr()?;
            Ok((socket, address))
        });
        match bound {
            Ok(bound) => return Ok(bound),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => in_use = error,
            Err(error) => return Err(bind_error(address, &error, port)),
        }
    }
    Err(bind_error(SocketAddr::new(ip, port.first), &in_use, port.first))
}

fn bind_error(address: SocketAddr, error: &io::Error, port: u16) -> String {
    let next_step = match error.kind() {
        io::ErrorKind::AddrInUse => format!("another program uses the port: try --port {port}+ for the next free one"),
        io::ErrorKind::PermissionDenied => "try a port above 1023: --port 3000+".into(),
        io::ErrorKind::AddrNotAvailable => "this machine does not have that address: leave --address away".into(),
        _ => format!("try --save-only, and `{} load` elsewhere", own()),
    };
    format!("cannot listen on {address}: {error}; {next_step}")
}

/// The address to put into links for a server that listens on `ip`.
pub(super) fn reachable(ip: IpAddr) -> IpAddr {
    if !ip.is_unspecified() {
        return ip;
    }
    // To connect a UDP socket sends nothing; it only chooses the outward address (TEST-NET-1, RFC 5737).
    let outward = UdpSocket::bind(("0.0.0.0", 0)).and_then(|socket| {
        socket.connect(("192.0.2.1", 9))?;
        socket.local_addr()
    });
    outward.map_or(IpAddr::from([127, 0, 0, 1]), |address| address.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_encoded_as_the_ui_decodes_them() {
        assert_eq!(
            encode("http://127.0.0.1:3000/ab/profile.json"),
            "http%3A%2F%2F127.0.0.1%3A3000%2Fab%2Fprofile.json"
        );
    }

    #[test]
    fn a_taken_port_is_an_error_and_with_plus_the_next_one() {
        let taken = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let first = taken.local_addr().unwrap().port();
        let ip = IpAddr::from([127, 0, 0, 1]);
        let error = bind_one(ip, Port { first, or_next: false }).unwrap_err().to_string();
        assert!(error.contains(&format!("--port {first}+")), "{error}");
        let (_, address) = bind_one(ip, Port { first, or_next: true }).unwrap();
        assert_ne!(address.port(), first);
    }
}
