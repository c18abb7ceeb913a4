//! A page of all profiles in a folder or in a bucket, for a team's machine or for what CI keeps. It is read-only.
//!
//! [`source`]: the files, of a [`folder`] or of a [`bucket`]. [`summary`]: what is kept of each. [`shelf`]: both, and
//! the thread that reads. [`list`], [`one`], [`compare`](mod@compare) and [`trend`](mod@trend): the pages, made of
//! [`html`]. [`routes`]: who gets what.

mod bucket;
mod compare;
mod folder;
mod html;
mod list;
mod one;
mod routes;
mod shelf;
mod source;
mod summary;
mod trend;

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use recording::command::own;

use super::listener::{bind_one, reachable};
use super::server::{End, Server};
use super::{tls, token};
use crate::args::value::Port;
use crate::s3;
use bucket::Bucket;
use folder::Folder;
use routes::{Convert, Gallery, Work};
use shelf::Shelf;
use source::Source;

const STYLE: &str = include_str!("style.css");

/// Where the profiles are.
pub(crate) enum Place {
    Folder(PathBuf),
    Bucket(Box<s3::Bucket>),
}

/// What to serve, and where.
pub(crate) struct Options<'a> {
    pub(crate) place: Place,
    pub(crate) address: IpAddr,
    pub(crate) port: Port,
    pub(crate) host_names: &'a [String],
    /// Certificate and key.
    pub(crate) tls: Option<(PathBuf, PathBuf)>,
    pub(crate) token_file: Option<PathBuf>,
    /// Larger files are not read.
    pub(crate) max_bytes: u64,
    /// Address of the profiler UI.
    pub(crate) ui: String,
    pub(crate) convert: Arc<Convert>,
}

/// A server at work, and the link to it.
pub(crate) struct Served {
    server: Server,
    pub(crate) link: String,
    pub(crate) files: usize,
}

impl Served {
    /// Lists the files and starts the server.
    ///
    /// # Errors
    ///
    /// Others could read what they should not; or the source, the port, the certificate or the token can't be had.
    pub(crate) fn start(options: Options<'_>) -> Result<Served, String> {
        if !options.address.is_loopback() && options.tls.is_none() {
            return Err(format!(
                "--address {}: on the way to another machine, others could read the link and the profiles; give --tls-cert FILE and \
                 --tls-key FILE, or leave --address away and use `ssh -L`",
                options.address
            ));
        }
        let tls = options
            .tls
            .as_ref()
            .map(|(certificate, key)| tls::acceptor(certificate, key));
        let tls = tls.transpose()?;
        let token = match &options.token_file {
            Some(path) => token::of_file(path)?,
            None => token::random()?,
        };
        let source: Box<dyn Source> = match options.place {
            Place::Folder(path) => Box::new(open_folder(&path)?),
            Place::Bucket(bucket) => Box::new(Bucket::new(*bucket)),
        };
        let (socket, address) = bind_one(options.address, options.port)?;
        let shelf = Shelf::start(source, options.max_bytes)?;
        let files = shelf.shown().items.len();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let host = match options.host_names.first() {
            Some(name) => format!("{name}:{}", address.port()),
            None => SocketAddr::new(reachable(address.ip()), address.port()).to_string(),
        };
        let link = format!("{scheme}://{host}/{token}/");
        let gallery = Arc::new(Gallery {
            listening_on: address.ip(),
            names: options.host_names.to_vec(),
            token,
            scheme,
            ui: options.ui,
            shelf,
            convert: options.convert,
            work: Work::default(),
            compared: Mutex::default(),
            page: Default::default(),
        });
        let server = Server::run(socket, tls, Arc::new(gallery), async || {
            std::future::pending::<End>().await
        })?;
        Ok(Served { server, link, files })
    }

    /// Waits until a signal ends the server.
    pub(crate) fn wait(self) {
        self.server.wait();
    }
}

fn open_folder(path: &Path) -> Result<Folder, String> {
    Folder::open(path).map_err(|error| {
        let (name, is_file) = (path.display(), path.is_file());
        match is_file {
            true => format!(
                "{name} is a file, and serve shows a folder: `{} load {name}` shows a file",
                own()
            ),
            false => format!("cannot read the folder {name}: {error}"),
        }
    })
}
