//! A page of all profiles in a folder or in a bucket, for a team's machine or for what CI keeps. It is read-only.
//!
//! [`reader`]: the caller's part, which reads files. [`source`]: the files, of a [`folder`] or of a [`bucket`].
//! [`summary`]: what is kept of each. [`profile_index`]: both, and the thread that reads. [`list`], [`profile_page`],
//! [`compare`](mod@compare) and [`trend`](mod@trend): the pages, made of [`html`]. [`routes`]: who gets what.

mod bucket;
mod compare;
mod folder;
mod html;
mod list;
mod profile_index;
mod profile_page;
mod reader;
mod routes;
mod source;
mod summary;
mod trend;

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use recording::command::own;

use super::listener::{Port, bind_one, reachable};
use super::server::{Server, ServerEnd};
use super::{tls, token};
use bucket::BucketSource;
use folder::FolderSource;
use profile_index::ProfileIndex;
pub use reader::{ProfileReader, ReadProfile};
use routes::{GallerySite, WorkLimits};
use share::s3;
use source::ProfileSource;

const STYLE: &str = include_str!("style.css");

/// Where the profiles are.
pub enum GalleryPlace {
    /// In this folder.
    Folder(PathBuf),
    /// In this bucket.
    Bucket(Box<s3::Bucket>),
}

/// What to serve, and where.
pub struct GalleryOptions<'a> {
    /// Where the profiles are.
    pub place: GalleryPlace,
    /// Address to listen on.
    pub address: IpAddr,
    /// Port to listen on.
    pub port: Port,
    /// Names under which browsers reach the server; the first one is in the link.
    pub host_names: &'a [String],
    /// Certificate and key.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// File with the secret of the link; `None` makes a random one.
    pub token_file: Option<PathBuf>,
    /// Larger files are not read.
    pub max_bytes: u64,
    /// Address of the profiler UI.
    pub ui: String,
    /// Reads the files.
    pub reader: Arc<dyn ProfileReader>,
}

/// A server at work, and the link to it.
pub struct Gallery {
    server: Server,
    /// The link to the page. Holds the secret token.
    pub link: String,
    /// Number of files that may be profiles.
    pub files: usize,
}

impl Gallery {
    /// Lists the files and starts the server.
    ///
    /// # Errors
    ///
    /// Others could read what they should not; or the source, the port, the certificate or the token can't be used.
    pub fn start(options: GalleryOptions<'_>) -> Result<Gallery, String> {
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
        let source: Box<dyn ProfileSource> = match options.place {
            GalleryPlace::Folder(path) => Box::new(open_folder(&path)?),
            GalleryPlace::Bucket(bucket) => Box::new(BucketSource::new(*bucket)),
        };
        let (socket, address) = bind_one(options.address, options.port)?;
        let shelf = ProfileIndex::start(source, options.reader, options.max_bytes)?;
        let files = shelf.shown().items.len();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let host = match options.host_names.first() {
            Some(name) => format!("{name}:{}", address.port()),
            None => SocketAddr::new(reachable(address.ip()), address.port()).to_string(),
        };
        let link = format!("{scheme}://{host}/{token}/");
        let gallery = Arc::new(GallerySite {
            listening_on: address.ip(),
            names: options.host_names.to_vec(),
            token,
            scheme,
            ui: options.ui,
            shelf,
            work: WorkLimits::default(),
            compared: Mutex::default(),
            page: Default::default(),
        });
        let server = Server::run(socket, tls, Arc::new(gallery), async || {
            std::future::pending::<ServerEnd>().await
        })?;
        Ok(Gallery { server, link, files })
    }

    /// Waits until a signal ends the server.
    pub fn wait(self) {
        self.server.wait();
    }
}

fn open_folder(path: &Path) -> Result<FolderSource, String> {
    FolderSource::open(path).map_err(|error| {
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
