//! Which request gets which answer. All are GET or HEAD, but for the preflight of a profile that the profiler UI reads.
//!
//! | request | answer |
//! |---|---|
//! | `/` | a page that says what this is; never the token |
//! | `/favicon.ico` | an icon, for which browsers ask by themselves |
//! | `/TOKEN/` | all profiles |
//! | `/TOKEN/diff?before=ID&after=ID`, `/TOKEN/diff.svg?...` | what changed |
//! | `/TOKEN/trend?program=NAME&function=NAME` | a function in all profiles of a program |
//! | `/TOKEN/p/ID/` | a profile |
//! | `/TOKEN/p/ID/view/`, `/TOKEN/p/ID/view/data` | the viewer |
//! | `/TOKEN/p/ID/profile.json` | the profile in the format of the profiler UI |
//! | `/TOKEN/p/ID/small.svg`, `/TOKEN/p/ID/flame.svg` | flame graphs |
//! | `/TOKEN/p/ID/profile.pb.gz` | pprof, for the viewer's menu |
//! | `/TOKEN/p/ID/file` | the file |

use std::collections::VecDeque;
use std::fs::File;
use std::io::Read;
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use flate2::read::GzDecoder;
use hyper::body::Incoming;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request, StatusCode};
use profile::export::html;
use profile::export::html::PageOptions;
use profile::export::svg::{self, SvgOptions};
use profile::export::{Picked, PickedTime, pprof};
use profile::read::ReadLimits;
use tokio::sync::Semaphore;

use super::super::file::FileBody;
use super::super::guard;
use super::super::listener::encode;
use super::super::one_time_link::ConnectionEnds;
use super::super::reply::{self, Reply, RequestHandler};
use super::super::routes::{accepts_gzip, profile, wrong_method};
use super::super::viewer::{Viewer, ViewerPage};
use super::compare::{ComparisonPage, compare};
use super::html::{EscapedText, POLICY, PageQuery};
use super::list::list;
use super::profile_index::{IndexedProfile, ProfileIndex};
use super::profile_page::profile_page;
use super::reader::ProfileReader;
use super::source::{FileVersion, OpenedFile, path_of};
use super::summary::{guarded, gzip};
use super::trend::trend;

/// Requests that read whole profiles, in work at the same time.
const IN_WORK: usize = 2;

/// Most requests that read whole profiles, in work or waiting; more are refused.
const WAITING: usize = 16;

/// Comparisons that are kept: a page and its picture are two requests.
const COMPARISONS: usize = 4;

const GET: &str = "GET, HEAD";
const GET_AND_OPTIONS: &str = "GET, HEAD, OPTIONS";
const PAGE: &str = "text/html; charset=utf-8";

/// State of all requests.
pub(super) struct GallerySite {
    pub(super) listening_on: IpAddr,
    /// Names under which the server may be asked, besides its IP address.
    pub(super) names: Vec<String>,
    pub(super) token: String,
    /// `http` or `https`.
    pub(super) scheme: &'static str,
    /// Address of the profiler UI.
    pub(super) ui: String,
    pub(super) shelf: Arc<ProfileIndex>,
    pub(super) work: WorkLimits,
    pub(super) compared: Mutex<VecDeque<(ComparedKey, Arc<ComparisonPage>)>>,
    /// The page of the viewer, which is the same for all.
    pub(super) page: ViewerPage,
}

type ComparedKey = [(String, FileVersion); 2];

/// Limits of requests that read whole profiles.
pub(super) struct WorkLimits {
    places: Arc<Semaphore>,
    permits: Arc<Semaphore>,
    /// A file of a bucket takes its size on the disk.
    openings: Arc<Semaphore>,
}

impl Default for WorkLimits {
    fn default() -> WorkLimits {
        WorkLimits {
            places: Arc::new(Semaphore::new(WAITING)),
            permits: Arc::new(Semaphore::new(IN_WORK)),
            openings: Arc::new(Semaphore::new(IN_WORK)),
        }
    }
}

impl WorkLimits {
    /// Does something that reads whole profiles. It goes on, and counts, also if the client leaves.
    async fn run<F>(&self, work: F) -> Reply
    where
        F: Future<Output = Reply> + Send + 'static,
    {
        let Ok(place) = self.places.clone().try_acquire_owned() else {
            let reply = reply::error(
                StatusCode::SERVICE_UNAVAILABLE,
                "many pages are being made: try again later",
            );
            return reply::with(reply, header::RETRY_AFTER, "10");
        };
        let Ok(permit) = self.permits.clone().acquire_owned().await else {
            return failed("the server is ending");
        };
        let done = tokio::spawn(async move {
            let _held = (place, permit);
            work.await
        });
        done.await.unwrap_or_else(|_| bug())
    }
}

impl RequestHandler for Arc<GallerySite> {
    async fn answer(&self, request: Request<Incoming>, _: Option<ConnectionEnds>) -> Reply {
        // No body is read.
        let (parts, _) = request.into_parts();
        let mut reply = match self.refusal(&parts) {
            Some(refusal) => refusal,
            None => self.routed(&parts).await,
        };
        let headers = reply.headers_mut();
        headers.insert(
            HeaderName::from_static("cross-origin-resource-policy"),
            HeaderValue::from_static("same-origin"),
        );
        reply
    }
}

impl GallerySite {
    /// The answer to a request that other pages caused.
    fn refusal(&self, parts: &Parts) -> Option<Reply> {
        if !guard::is_our_host(parts, self.listening_on, &self.names) {
            let message = "the Host header must be this server's IP address, localhost or --host-name";
            return Some(reply::error(StatusCode::FORBIDDEN, message));
        }
        let origin = parts.headers.get(header::ORIGIN)?.to_str().unwrap_or_default();
        let is_ours = origin
            .strip_prefix(self.scheme)
            .and_then(|rest| rest.strip_prefix("://"))
            .is_some_and(|host| guard::is_ours(host, self.listening_on, &self.names));
        match is_ours || guard::origin_of(&self.ui).as_deref() == Some(origin) {
            true => None,
            false => Some(reply::error(
                StatusCode::FORBIDDEN,
                "pages of other sites read nothing here",
            )),
        }
    }

    async fn routed(self: &Arc<Self>, parts: &Parts) -> Reply {
        let path = parts.uri.path();
        let inside = path.strip_prefix('/').and_then(|path| path.split_once('/'));
        let inside = inside.filter(|(token, _)| guard::is_token(token, &self.token));
        let Some((_, inside)) = inside else {
            return match path {
                "/favicon.ico" => reply::bytes(StatusCode::OK, "image/svg+xml", ICON),
                "/" if parts.method == Method::GET || parts.method == Method::HEAD => page(FRONT.into()),
                "/" => wrong_method(GET),
                _ => nothing(),
            };
        };
        let query = parts.uri.query().unwrap_or_default().to_owned();
        let (profile, rest) = match inside.strip_prefix("p/").and_then(|rest| rest.split_once('/')) {
            Some((id, rest)) => (Some(id.to_owned()), rest),
            None => (None, inside),
        };
        let is_shared = profile.is_some() && rest == "profile.json";
        let allowed = if is_shared { GET_AND_OPTIONS } else { GET };
        let mut reply = match parts.method {
            Method::GET | Method::HEAD => match profile {
                Some(id) => self.of_profile(&id, rest, parts).await,
                None => self.of_all(rest, query, parts).await,
            },
            Method::OPTIONS if is_shared => reply::empty(StatusCode::NO_CONTENT),
            _ => wrong_method(allowed),
        };
        if is_shared {
            let headers = reply.headers_mut();
            guard::allow_origin(headers, &parts.headers, guard::origin_of(&self.ui).as_deref());
            if parts.method == Method::OPTIONS {
                guard::allow_preflight(headers, &parts.headers, GET_AND_OPTIONS);
            }
        }
        reply
    }

    async fn of_all(self: &Arc<Self>, rest: &str, query: String, parts: &Parts) -> Reply {
        let (shelf, query) = (self.shelf.clone(), PageQuery::parse(&query));
        match rest {
            "" => blocking(move || page(list(&shelf, &query))).await,
            "trend" => blocking(move || page(trend(&shelf, &query))).await,
            "style.css" => {
                let reply = reply::bytes(StatusCode::OK, "text/css; charset=utf-8", super::STYLE);
                reply::with(reply, header::CACHE_CONTROL, "max-age=300")
            }
            "diff" | "diff.svg" => {
                let find = |name: &str| shelf.find(query.get(name)?);
                let (Some(before), Some(after)) = (find("before"), find("after")) else {
                    return plain("Pick a profile in the column Before, and one in the column After.");
                };
                let is_page = rest == "diff";
                let accepts = accepts_gzip(&parts.headers);
                let gallery = self.clone();
                let work = blocking(move || {
                    let compared = gallery.compared(&before, &after);
                    match (&compared.picture, is_page) {
                        (_, true) => page(compared.page.clone()),
                        (Some(svg), false) => picture(svg, accepts),
                        (None, false) => nothing(),
                    }
                });
                self.work.run(work).await
            }
            _ => nothing(),
        }
    }

    /// The comparison, made or kept.
    fn compared(&self, before: &IndexedProfile, after: &IndexedProfile) -> Arc<ComparisonPage> {
        let key = [before, after].map(|item| (item.found.id.clone(), item.found.version));
        let lock = || self.compared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, known)) = lock().iter().find(|(known, _)| *known == key) {
            return known.clone();
        }
        let made = Arc::new(compare(&self.shelf, before, after));
        let mut kept = lock();
        kept.push_front((key, made.clone()));
        kept.truncate(COMPARISONS);
        made
    }

    async fn of_profile(self: &Arc<Self>, id: &str, rest: &str, parts: &Parts) -> Reply {
        let Some(item) = self.shelf.find(id) else {
            return nothing();
        };
        let accepts = accepts_gzip(&parts.headers);
        match rest {
            "" => page(profile_page(&item, &self.in_ui(&item, parts))),
            "small.svg" => match item.summary().and_then(|summary| summary.picture.as_deref()) {
                Some(svg) => picture(svg, accepts),
                None => nothing(),
            },
            "flame.svg" => {
                let shelf = self.shelf.clone();
                self.work.run(blocking(move || flame(&shelf, &item, accepts))).await
            }
            "profile.pb.gz" => {
                let shelf = self.shelf.clone();
                self.work.run(blocking(move || in_pprof(&shelf, &item))).await
            }
            "view/" => self.page.page(),
            "view/data" => match self.opened(&item).await {
                Ok(opened) => {
                    let viewer = self.viewer(&item, &opened);
                    self.work
                        .run(async move { Viewer::data(&viewer, &opened.file).await })
                        .await
                }
                Err(why) => failed(&why),
            },
            "profile.json" => self.for_ui(item, parts).await,
            "file" => match self.opened(&item).await {
                Ok(opened) => download(&item, opened.file.clone()),
                Err(why) => failed(&why),
            },
            _ => nothing(),
        }
    }

    async fn opened(&self, item: &IndexedProfile) -> Result<OpenedFile, String> {
        let (shelf, item) = (self.shelf.clone(), item.clone());
        let permit = self.work.openings.clone().acquire_owned().await;
        let opened = tokio::task::spawn_blocking(move || {
            let _held = permit;
            shelf.open(&item)
        });
        opened.await.map_err(|error| error.to_string())?
    }

    fn viewer(&self, item: &IndexedProfile, opened: &OpenedFile) -> Arc<Viewer> {
        let (named, reader, limits) = (opened.path.clone(), self.shelf.reader().clone(), self.shelf.limits());
        self.shelf.viewer(item, move |file| {
            viewer_data(&path_of(file).unwrap_or_else(|| named.clone()), &*reader, limits)
        })
    }

    /// The address of a profile in the profiler UI. The client knows this server by the name in its request, which was
    /// checked.
    fn in_ui(&self, item: &IndexedProfile, parts: &Parts) -> String {
        let host = parts.headers.get(header::HOST).and_then(|host| host.to_str().ok());
        let (scheme, host, token, id) = (self.scheme, host.unwrap_or_default(), &self.token, &item.found.id);
        let profile = format!("{scheme}://{host}/{token}/p/{id}/profile.json");
        format!("{}/from-url/{}/", self.ui, encode(&profile))
    }

    async fn for_ui(self: &Arc<Self>, item: IndexedProfile, parts: &Parts) -> Reply {
        let opened = match self.opened(&item).await {
            Ok(opened) => Arc::new(opened),
            Err(why) => return failed(&why),
        };
        let (file, reader) = (opened.clone(), self.shelf.reader().clone());
        let needs_conversion = move || reader.needs_conversion(&file.path);
        if let Ok(false) = tokio::task::spawn_blocking(needs_conversion).await {
            return profile(&opened.file, parts);
        }
        let (reader, parts) = (self.shelf.reader().clone(), parts.clone());
        let work = blocking(move || match guarded(|| reader.convert(&opened.path)) {
            Ok(converted) => profile(&Arc::new(converted), &parts),
            Err(why) => failed(&why),
        });
        self.work.run(work).await
    }
}

/// The viewer's data of a file.
fn viewer_data(path: &Path, reader: &dyn ProfileReader, limits: ReadLimits) -> Result<Vec<u8>, String> {
    guarded(|| {
        let input = reader.read_for_viewer(path, limits)?;
        let options = PageOptions {
            notes: &input.notes,
            is_served: false,
        };
        html::served_data(input.data, &options).map_err(|error| error.to_string())
    })
}

fn flame(shelf: &ProfileIndex, item: &IndexedProfile, accepts: bool) -> Reply {
    let drawn = guarded(|| {
        let opened = shelf.open(item)?;
        let data = shelf.reader().read(&opened.path, shelf.limits())?.data;
        let mut out = Vec::new();
        svg::write(&Picked::new(&data, PickedTime::Cpu), &SvgOptions::default(), &mut out)
            .and_then(|()| gzip(&out))
            .map_err(|error| error.to_string())
    });
    match drawn {
        Ok(svg) => picture(&svg, accepts),
        Err(why) => failed(&why),
    }
}

fn in_pprof(shelf: &ProfileIndex, item: &IndexedProfile) -> Reply {
    let written = guarded(|| {
        let opened = shelf.open(item)?;
        let data = shelf.reader().read(&opened.path, shelf.limits())?.data;
        let mut out = Vec::new();
        let written = pprof::write(&Picked::new(&data, PickedTime::Cpu), &mut out);
        written.map(|()| out).map_err(|error| error.to_string())
    });
    match written {
        Ok(bytes) => reply::bytes(StatusCode::OK, "application/octet-stream", bytes),
        Err(why) => failed(&why),
    }
}

/// An SVG. Its own script and style may work in it, if it is opened by itself, and nothing else.
fn picture(gz: &[u8], accepts: bool) -> Reply {
    let mut plain = Vec::new();
    if GzDecoder::new(gz).read_to_end(&mut plain).is_err() {
        return bug();
    }
    let policy = format!("{}; sandbox allow-scripts; frame-ancestors 'none'", svg::policy(&plain));
    let mut reply = match accepts {
        true => reply::with(
            reply::bytes(StatusCode::OK, "image/svg+xml", gz.to_vec()),
            header::CONTENT_ENCODING,
            "gzip",
        ),
        false => reply::bytes(StatusCode::OK, "image/svg+xml", plain),
    };
    if let Ok(policy) = HeaderValue::from_str(&policy) {
        reply.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    reply::with(reply, header::VARY, "Accept-Encoding")
}

fn download(item: &IndexedProfile, file: Arc<File>) -> Reply {
    let Ok(body) = FileBody::new(file) else {
        return failed("the file cannot be read");
    };
    let name = item.found.key.file_name().unwrap_or_default().to_string_lossy();
    let plain = |c: char| match c {
        c if c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_') => c,
        _ => '_',
    };
    let name: String = name.chars().map(plain).take(200).collect();
    let mut reply = reply::file("application/octet-stream", body);
    if let Ok(value) = HeaderValue::from_str(&format!("attachment; filename=\"{name}\"")) {
        reply.headers_mut().insert(header::CONTENT_DISPOSITION, value);
    }
    reply
}

async fn blocking(work: impl FnOnce() -> Reply + Send + 'static) -> Reply {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|_| bug())
}

fn page(html: Vec<u8>) -> Reply {
    let reply = reply::bytes(StatusCode::OK, PAGE, html);
    reply::with(reply, header::CONTENT_SECURITY_POLICY, POLICY)
}

/// A page of one sentence.
fn plain(text: &str) -> Reply {
    let body = format!(
        "<header><p><a href=\"./\">all profiles</a></p></header>\n<p class=\"empty\">{}</p>\n",
        EscapedText(text)
    );
    page(super::html::page("sprof", "", "", &body))
}

fn nothing() -> Reply {
    reply::error(
        StatusCode::NOT_FOUND,
        "there is nothing here; use the link that sprof printed",
    )
}

fn failed(why: &str) -> Reply {
    reply::error(StatusCode::INTERNAL_SERVER_ERROR, why)
}

fn bug() -> Reply {
    failed("sprof failed while it answered; this is a bug, its terminal shows more")
}

/// Three frames of a flame graph.
const ICON: &str = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 16 16\"><path fill=\"#f4c952\" d=\"M0 11h16v5H0z\"/>\
<path fill=\"#79bfdd\" d=\"M2 6h9v4H2z\"/><path fill=\"#f08166\" d=\"M4 1h4v4H4z\"/></svg>";

const FRONT: &str = "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>sprof</title>\n<h1>sprof</h1>\n\
<p>This is a server of <code>sprof serve</code>: it shows profiles. Its address is secret: use the link that \
<code>sprof</code> printed.</p>\n</html>\n";
