//! Routes: which request gets which answer.
//!
//! | request | answer |
//! |---|---|
//! | `GET /` | a page that says what this is, or the UI of `--ui-dir`; never the token |
//! | `GET /TOKEN/profile.json` | the profile |
//! | `GET /TOKEN/base.json` | the profile to compare with |
//! | `GET /TOKEN/view/`, `GET /TOKEN/view/data` | the viewer and its data, for pages of this server alone |
//! | `GET /TOKEN/flame.svg`, `GET /TOKEN/profile.pb.gz` | what the viewer's menu saves |
//! | `POST /TOKEN/symbolicate/v5`, `/TOKEN/source/v1`, `/TOKEN/asm/v1` | symbols or `{"error": "..."}`, both with status 200 |
//! | `GET /KEY/open` | a redirect to the UI with the profile, or a page that goes there or to the viewer; once, and only for the user who runs sprof |
//! | `OPTIONS` of these | the permissions of the UI's origin |
//! | anything else | the UI's files with `--ui-dir`; `{"error": "..."}` |

use std::fs::File;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::header::{self, HeaderValue};
use hyper::http::request::Parts;
use hyper::{HeaderMap, Method, Request, StatusCode};
use profile::export::html::{self, StartLinks};
use tokio::sync::Semaphore;

use super::file::FileBody;
use super::guard;
use super::listener::{Listener, Ui, viewer_of};
use super::one_time_link::{ConnectionEnds, LinkOutcome, OneTimeLink};
use super::reply::{self, JSON, Reply, RequestHandler};
use super::ui::UiDir;
use super::viewer::{MakeData, MakeExport, SavedExport, Viewer};
use super::watch::Watch;

/// Longest request body. The UI asks for at most 10,000 addresses at once, about 150 KB.
const MAX_BODY_BYTES: usize = 16 << 20;

/// Time for a client to send its body.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// Bytes that are read and dropped of a body that is too long, so that the client, which is still sending, gets the
/// answer and no reset connection.
const DISCARD_BYTES: usize = 64 << 20;

/// Symbol requests in work at the same time; others wait.
const SYMBOL_REQUESTS: usize = 4;

const GET: &str = "GET, HEAD, OPTIONS";
const POST: &str = "POST, OPTIONS";

/// Answers a symbol request, path (`/symbolicate/v5`) and body, with JSON. May take long; it is called on its own
/// threads.
pub type AnswerSymbols = dyn Fn(&str, &[u8]) -> Vec<u8> + Send + Sync;

/// What the server serves.
pub struct Content {
    /// The profile, opened once: it is still served when the next recording replaces the file.
    pub profile: File,
    /// A profile to compare with.
    pub base: Option<File>,
    /// Answers symbol requests.
    pub symbols: Arc<AnswerSymbols>,
    /// Makes the viewer's data.
    pub data: Arc<MakeData>,
    /// Makes the files that the viewer's menu saves.
    pub export: Arc<MakeExport>,
}

/// State of all requests.
pub(super) struct Site {
    listening_on: IpAddr,
    token: String,
    once: Arc<OneTimeLink>,
    /// `None`: this server serves the UI, and no other origin needs access.
    ui_origin: Option<String>,
    ui: Option<UiDir>,
    profile: Arc<File>,
    base: Option<Arc<File>>,
    symbols: Arc<AnswerSymbols>,
    symbol_permits: Arc<Semaphore>,
    viewer: Arc<Viewer>,
    export: Arc<MakeExport>,
    outside: Option<ExternalUi>,
    pub(super) watch: Watch,
}

/// A UI that the browser may not reach.
struct ExternalUi {
    ui: String,
    /// Address of the viewer, to open instead.
    viewer: String,
}

/// The query of the viewer's address where it is opened instead of a UI elsewhere.
const INSTEAD: &str = "instead";

impl RequestHandler for Site {
    async fn answer(&self, request: Request<Incoming>, ends: Option<ConnectionEnds>) -> Reply {
        self.routed(request, ends).await
    }
}

/// The target of a request.
enum Route<'a> {
    Front,
    Once,
    Profile(&'a Arc<File>),
    Symbols(&'a str),
    Viewer,
    ViewerData,
    Export(SavedExport),
    Ui(&'a UiDir),
    Nowhere,
}

impl Site {
    pub(super) fn new(listener: &Listener, content: Content) -> Site {
        let (ui_origin, ui) = match &listener.ui {
            Ui::Remote(url) => (guard::origin_of(url), None),
            Ui::Local(dir) => (None, Some(dir.clone())),
        };
        let outside = match &listener.ui {
            Ui::Remote(url) if !listener.opens_viewer => Some(ExternalUi {
                ui: url.clone(),
                viewer: format!("{}?{INSTEAD}", viewer_of(&listener.link_parts().ours)),
            }),
            Ui::Remote(_) | Ui::Local(_) => None,
        };
        Site {
            listening_on: listener.address.ip(),
            token: listener.token.clone(),
            once: listener.once.clone(),
            ui_origin,
            ui,
            profile: Arc::new(content.profile),
            base: content.base.map(Arc::new),
            symbols: content.symbols,
            symbol_permits: Arc::new(Semaphore::new(SYMBOL_REQUESTS)),
            viewer: Arc::new(Viewer::new(content.data)),
            export: content.export,
            outside,
            watch: Watch::new(),
        }
    }

    /// Makes the viewer's data before they are asked for.
    pub(super) async fn prepare_viewer(self: Arc<Site>) {
        Viewer::data(&self.viewer, &self.profile).await;
    }

    async fn routed(&self, request: Request<Incoming>, ends: Option<ConnectionEnds>) -> Reply {
        self.watch.request();
        let (parts, body) = request.into_parts();
        if !guard::is_our_host(&parts, self.listening_on, &[]) {
            return reply::error(
                StatusCode::FORBIDDEN,
                "the Host header must be this server's IP address or localhost",
            );
        }
        let route = self.route(parts.uri.path());
        let is_secret = matches!(route, Route::Profile(_) | Route::Symbols(_));
        let (methods, allowed) = match route {
            Route::Once => (&[Method::GET][..], "GET"),
            Route::Symbols(_) => (&[Method::POST][..], POST),
            _ => (&[Method::GET, Method::HEAD][..], GET),
        };
        if matches!(route, Route::Profile(_) | Route::ViewerData) {
            self.watch.profile();
        }
        if matches!(route, Route::Viewer) && parts.uri.query() == Some(INSTEAD) {
            self.watch.fallback();
        }
        let is_preflight = is_secret && parts.method == Method::OPTIONS;
        let mut reply = match route {
            Route::Nowhere => reply::error(
                StatusCode::NOT_FOUND,
                "there is nothing here; use the link that sprof printed",
            ),
            _ if is_preflight => reply::empty(StatusCode::NO_CONTENT),
            _ if !methods.contains(&parts.method) => wrong_method(allowed),
            Route::Front => front(),
            Route::Once => self.once(ends, accepts_page(&parts)).await,
            Route::Profile(file) => profile(file, &parts),
            Route::Symbols(path) => self.symbols(path, body).await,
            Route::Viewer => self.viewer.page(),
            Route::ViewerData => Viewer::data(&self.viewer, &self.profile).await,
            Route::Export(export) => export.answer(self.export.clone(), self.profile.clone()).await,
            Route::Ui(ui) => file_of(ui, &parts),
        };
        if is_secret {
            let headers = reply.headers_mut();
            guard::allow_origin(headers, &parts.headers, self.ui_origin.as_deref());
            if is_preflight {
                guard::allow_preflight(headers, &parts.headers, allowed);
            }
        }
        // Symbols may take minutes.
        self.watch.request();
        reply
    }

    fn route<'a>(&'a self, path: &'a str) -> Route<'a> {
        if self.once.is_at(path) {
            return Route::Once;
        }
        let elsewhere = match &self.ui {
            Some(ui) => Route::Ui(ui),
            None if path == "/" => Route::Front,
            None => Route::Nowhere,
        };
        let Some((first, _)) = path.strip_prefix('/').and_then(|path| path.split_once('/')) else {
            return elsewhere;
        };
        if !guard::is_token(first, &self.token) {
            return elsewhere;
        }
        match &path[1 + first.len()..] {
            "/profile.json" => Route::Profile(&self.profile),
            "/base.json" => self.base.as_ref().map_or(elsewhere, Route::Profile),
            "/view/" => Route::Viewer,
            "/view/data" => Route::ViewerData,
            "/flame.svg" => Route::Export(SavedExport::FlameGraph),
            "/profile.pb.gz" => Route::Export(SavedExport::Pprof),
            rest @ ("/symbolicate/v5" | "/source/v1" | "/asm/v1") => Route::Symbols(rest),
            _ => elsewhere,
        }
    }

    /// `wants_page`: the client can show a page.
    async fn once(&self, ends: Option<ConnectionEnds>, wants_page: bool) -> Reply {
        let once = self.once.clone();
        let followed = tokio::task::spawn_blocking(move || match once.follow(ends) {
            LinkOutcome::To(link) => Ok(link.to_owned()),
            LinkOutcome::Stranger => Err((StatusCode::FORBIDDEN, "this link is for another user of this machine")),
            LinkOutcome::Used => Err((
                StatusCode::GONE,
                "this link works once; open the one that sprof printed",
            )),
        });
        let reply = match followed.await {
            Ok(Ok(link)) => {
                self.watch.link();
                match &self.outside {
                    Some(outside) if wants_page => outside.start(&link),
                    _ => redirect(&link),
                }
            }
            Ok(Err((status, message))) => Some(reply::error(status, message)),
            Err(_) => None,
        };
        reply.unwrap_or_else(|| reply::error(StatusCode::INTERNAL_SERVER_ERROR, "open the link that sprof printed"))
    }

    async fn symbols(&self, path: &str, body: Incoming) -> Reply {
        let body = match tokio::time::timeout(BODY_TIMEOUT, read_body(body)).await {
            Ok(Ok(body)) => body,
            Ok(Err(refusal)) => return refusal,
            Err(_) => return reply::error(StatusCode::REQUEST_TIMEOUT, "the request's body did not arrive in time"),
        };
        let Ok(permit) = self.symbol_permits.clone().acquire_owned().await else {
            return reply::error(StatusCode::SERVICE_UNAVAILABLE, "the server is ending");
        };
        let (symbols, path) = (self.symbols.clone(), path.to_owned());
        let answer = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            symbols(&path, &body)
        });
        match answer.await {
            Ok(answer) => reply::bytes(StatusCode::OK, JSON, answer),
            // The UI shows only errors in replies of status 200.
            Err(_) => reply::error(
                StatusCode::OK,
                "sprof failed while it answered; this is a bug, its terminal shows more",
            ),
        }
    }
}

impl ExternalUi {
    /// A page that goes to `link` in the UI, or to the viewer.
    fn start(&self, link: &str) -> Option<Reply> {
        let (page, policy) = html::start_page(&StartLinks {
            ui: &self.ui,
            open: link,
            viewer: &self.viewer,
        });
        let mut reply = reply::bytes(StatusCode::OK, "text/html; charset=utf-8", page);
        let policy = HeaderValue::from_str(&policy).ok()?;
        reply.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
        Some(reply)
    }
}

fn redirect(link: &str) -> Option<Reply> {
    let mut reply = reply::empty(StatusCode::SEE_OTHER);
    reply
        .headers_mut()
        .insert(header::LOCATION, HeaderValue::from_str(link).ok()?);
    Some(reply)
}

/// True for a client that shows pages: a browser that opens an address.
fn accepts_page(parts: &Parts) -> bool {
    let accept = parts.headers.get(header::ACCEPT);
    accept.is_some_and(|accept| accept.to_str().is_ok_and(|accept| accept.contains("text/html")))
}

fn front() -> Reply {
    let policy = "default-src 'none'; frame-ancestors 'none'";
    let page = reply::bytes(StatusCode::OK, "text/html; charset=utf-8", FRONT_PAGE);
    reply::with(page, header::CONTENT_SECURITY_POLICY, policy)
}

fn file_of(ui: &UiDir, parts: &Parts) -> Reply {
    let found = ui.find(parts.uri.path(), accepts_page(parts));
    let body = found.and_then(|found| Some((found.content_type, FileBody::new(Arc::new(found.file)).ok()?)));
    match body {
        Some((content_type, body)) => reply::with(reply::file(content_type, body), header::CACHE_CONTROL, "no-cache"),
        None => reply::error(StatusCode::NOT_FOUND, "the UI folder has no such file"),
    }
}

pub(super) fn profile(profile: &Arc<File>, parts: &Parts) -> Reply {
    let body = match FileBody::new(profile.clone()) {
        Ok(body) => body,
        Err(error) => {
            return reply::error(
                StatusCode::INTERNAL_SERVER_ERROR,
                &format!("reading the profile failed: {error}"),
            );
        }
    };
    if !is_gzip(profile) {
        return reply::file(JSON, body);
    }
    // Browsers unpack gzip. A client that does not accept it gets the .gz file as a file.
    let reply = match accepts_gzip(&parts.headers) {
        true => reply::with(reply::file(JSON, body), header::CONTENT_ENCODING, "gzip"),
        false => reply::file("application/gzip", body),
    };
    reply::with(reply, header::VARY, "Accept-Encoding")
}

/// True for a file that starts like gzip (RFC 1952 2.3.1).
fn is_gzip(file: &File) -> bool {
    use std::os::unix::fs::FileExt;
    let mut magic = [0u8; 2];
    file.read_exact_at(&mut magic, 0).is_ok() && magic == [0x1f, 0x8b]
}

pub(super) fn wrong_method(allowed: &'static str) -> Reply {
    let message = format!("this place takes {allowed}");
    reply::with(
        reply::error(StatusCode::METHOD_NOT_ALLOWED, &message),
        header::ALLOW,
        allowed,
    )
}

pub(super) fn accepts_gzip(headers: &HeaderMap) -> bool {
    let values = headers
        .get_all(header::ACCEPT_ENCODING)
        .iter()
        .filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|coding| {
        let mut parts = coding.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let refused = parts.any(|weight| matches!(weight, "q=0" | "q=0.0" | "q=0.00" | "q=0.000"));
        (name.eq_ignore_ascii_case("gzip") || name == "*") && !refused
    })
}

async fn read_body(body: Incoming) -> Result<Bytes, Reply> {
    let mut limited = Limited::new(body, MAX_BODY_BYTES + DISCARD_BYTES);
    let mut bytes = Vec::new();
    let mut too_long = limited.size_hint().lower() > MAX_BODY_BYTES as u64;
    let too_long_reply = || {
        reply::error(
            StatusCode::PAYLOAD_TOO_LARGE,
            "the request's body is longer than 16 MiB; ask in several requests",
        )
    };
    while let Some(frame) = limited.frame().await {
        match frame {
            Ok(frame) => {
                let Ok(data) = frame.into_data() else { continue };
                too_long |= bytes.len() + data.len() > MAX_BODY_BYTES;
                if !too_long {
                    bytes.extend_from_slice(&data);
                }
            }
            Err(error) if error.is::<LengthLimitError>() => return Err(too_long_reply()),
            Err(error) => {
                let message = format!("reading the request's body failed: {error}");
                return Err(reply::error(StatusCode::BAD_REQUEST, &message));
            }
        }
    }
    if too_long {
        Err(too_long_reply())
    } else {
        Ok(bytes.into())
    }
}

const FRONT_PAGE: &str = "<!DOCTYPE html>
<html lang=\"en\">
<meta charset=\"utf-8\">
<title>sprof</title>
<h1>sprof</h1>
<p>This is the local server of <code>sprof</code>, a sampling profiler. It gives one profile and its symbols to the
profiler UI in your browser.</p>
<p>The profile's address is secret: use the link that <code>sprof</code> printed in the terminal. Ctrl-C there ends
this server.</p>
</html>
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_sent_to_those_who_unpack_it() {
        let accepts = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(value));
            accepts_gzip(&headers)
        };
        assert!(accepts("gzip, deflate, br"));
        assert!(accepts("br;q=1.0, GZIP;q=0.8"));
        assert!(accepts("*"));
        assert!(!accepts("identity"));
        assert!(!accepts("gzip;q=0"));
        assert!(!accepts_gzip(&HeaderMap::new()));
    }
}
