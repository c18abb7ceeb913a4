//! The built-in viewer: a page, and its data, made at the first request.
//!
//! No other origin may read them, nor show them in a frame.

use std::fs::File;
use std::sync::{Arc, OnceLock};

use hyper::StatusCode;
use hyper::body::Bytes;
use hyper::header::{self, HeaderValue};
use profile::export::html;

use super::reply::{self, Reply};

/// Makes the viewer's data of the served profile. May take long; it is called once, on its own thread.
pub type MakeData = dyn Fn(&File) -> Result<Vec<u8>, String> + Send + Sync;

/// A file that the viewer's menu saves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SavedExport {
    /// `flame.svg`
    FlameGraph,
    /// `profile.pb.gz`
    Pprof,
}

/// Makes such a file of the served profile. May take long; it is called on its own thread.
pub type MakeExport = dyn Fn(&File, SavedExport) -> Result<Vec<u8>, String> + Send + Sync;

impl SavedExport {
    /// Makes the file and answers with it. It is no page of this origin: an SVG may hold scripts.
    pub(super) async fn answer(self, make: Arc<MakeExport>, profile: Arc<File>) -> Reply {
        let (content_type, disposition) = match self {
            SavedExport::FlameGraph => ("image/svg+xml", "attachment; filename=\"flame.svg\""),
            SavedExport::Pprof => ("application/octet-stream", "attachment; filename=\"profile.pb.gz\""),
        };
        match tokio::task::spawn_blocking(move || make(&profile, self)).await {
            Ok(Ok(file)) => reply::with(
                reply::bytes(StatusCode::OK, content_type, file),
                header::CONTENT_DISPOSITION,
                disposition,
            ),
            Ok(Err(message)) => failed(&message),
            Err(_) => failed("sprof failed while it made the file; this is a bug, its terminal shows more"),
        }
    }
}

/// The page, which takes the data from the address beside its own.
#[derive(Default)]
pub(super) struct ViewerPage(OnceLock<Option<Bytes>>);

pub(super) struct Viewer {
    make: Arc<MakeData>,
    made: OnceLock<Result<Bytes, String>>,
    page: ViewerPage,
}

impl ViewerPage {
    /// The page.
    pub(super) fn page(&self) -> Reply {
        let page = self.0.get_or_init(|| html::served_page().ok().map(Bytes::from));
        let policy = format!("{}; frame-ancestors 'none'", html::policy(true));
        let (Some(page), Ok(policy)) = (page, HeaderValue::from_str(&policy)) else {
            return failed("the viewer could not be made");
        };
        let mut reply = reply::bytes(StatusCode::OK, "text/html; charset=utf-8", page.clone());
        reply.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
        reply
    }
}

impl Viewer {
    pub(super) fn new(make: Arc<MakeData>) -> Viewer {
        Viewer {
            make,
            made: OnceLock::new(),
            page: ViewerPage::default(),
        }
    }

    /// The page.
    pub(super) fn page(&self) -> Reply {
        self.page.page()
    }

    /// The data of the profile. Requests that come while they are made wait.
    pub(super) async fn data(this: &Arc<Viewer>, profile: &Arc<File>) -> Reply {
        let (viewer, profile) = (this.clone(), profile.clone());
        let made = tokio::task::spawn_blocking(move || {
            viewer
                .made
                .get_or_init(|| (viewer.make)(&profile).map(Bytes::from))
                .clone()
        });
        match made.await {
            Ok(Ok(data)) => reply::bytes(StatusCode::OK, "application/octet-stream", data),
            Ok(Err(message)) => failed(&message),
            Err(_) => failed("sprof failed while it made the data; this is a bug, its terminal shows more"),
        }
    }
}

fn failed(message: &str) -> Reply {
    reply::error(StatusCode::INTERNAL_SERVER_ERROR, message)
}
