//! `--ui-dir`: serves a built profiler UI from the server's own origin, so that the browser makes no cross-origin
//! request.

use std::fs::File;
use std::path::{Path, PathBuf};

use percent_encoding::percent_decode_str;
use recording::regular_file;

/// A folder that holds a built UI.
#[derive(Clone, Debug)]
pub(super) struct UiDir {
    /// Canonical: without symbolic links.
    root: PathBuf,
}

#[derive(Debug)]
pub(super) struct UiFile {
    pub(super) file: File,
    pub(super) content_type: &'static str,
}

impl UiDir {
    /// Checks that the folder holds a UI.
    pub(super) fn open(dir: &Path) -> Result<UiDir, String> {
        let error = |reason: String| format!("cannot serve the UI from {}: {reason}", dir.display());
        let root = dir.canonicalize().map_err(|io| error(io.to_string()))?;
        let ui = UiDir { root };
        match ui.read(Path::new("index.html")) {
            Some(_) => Ok(ui),
            None => Err(error(
                "it has no readable index.html; give the folder that the UI was built into (its `dist`)".into(),
            )),
        }
    }

    /// The file for a URL path. A path without a file is a page of the UI, and gets index.html.
    pub(super) fn find(&self, url_path: &str, wants_page: bool) -> Option<UiFile> {
        if let Some(relative) = relative_path(url_path)
            && let Some(found) = self.read(&relative)
        {
            return Some(found);
        }
        let last = url_path.rsplit('/').next().unwrap_or_default();
        if wants_page || !last.contains('.') {
            return self.read(Path::new("index.html"));
        }
        None
    }

    fn read(&self, relative: &Path) -> Option<UiFile> {
        // A symbolic link may lead anywhere; only files whose resolved path is in the folder are served.
        let path = self.root.join(relative).canonicalize().ok()?;
        if !path.starts_with(&self.root) || !path.is_file() {
            return None;
        }
        let content_type = content_type(&path);
        let file = regular_file::open(&path).ok()?;
        Some(UiFile { file, content_type })
    }
}

/// The path below the root; `None` for a path that could leave it.
fn relative_path(url_path: &str) -> Option<PathBuf> {
    let mut relative = PathBuf::new();
    for segment in url_path.split('/').filter(|segment| !segment.is_empty()) {
        let segment = percent_decode_str(segment).decode_utf8().ok()?;
        if matches!(&*segment, "." | "..") || segment.contains(['/', '\\', '\0']) {
            return None;
        }
        relative.push(&*segment);
    }
    Some(relative)
}

fn content_type(path: &Path) -> &'static str {
    match path
        .extension()
        .and_then(|extension| extension.to_str())
        .unwrap_or_default()
    {
        "html" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "json" | "map" => "application/json",
        "webmanifest" => "application/manifest+json",
        "wasm" => "application/wasm",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "ico" => "image/x-icon",
        "woff2" => "font/woff2",
        "woff" => "font/woff",
        "ttf" => "font/ttf",
        "txt" | "md" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_below_the_root() {
        for out in [
            "/..",
            "/a/../../b",
            "/%2e%2e/x",
            "/..%2fx",
            "/a%2fb",
            "/a\\..\\b",
            "/%00",
            "/%ff",
            "/.",
        ] {
            assert_eq!(relative_path(out), None, "{out}");
        }
        assert_eq!(relative_path("/a/b%20c.js"), Some("a/b c.js".into()));
        assert_eq!(relative_path("//etc/passwd"), Some("etc/passwd".into()));
    }

    #[test]
    fn links_out_of_the_folder_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let outside = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(folder.path().join("index.html"), "ui").unwrap();
        std::fs::write(folder.path().join("in.js"), "js").unwrap();
        std::os::unix::fs::symlink(outside.path(), folder.path().join("out.js")).unwrap();
        std::os::unix::fs::symlink(folder.path().join("in.js"), folder.path().join("link.js")).unwrap();
        let ui = UiDir::open(folder.path()).unwrap();
        assert!(ui.find("/out.js", false).is_none());
        assert!(ui.find("/link.js", false).is_some());
        assert!(ui.find("/none.js", false).is_none());
        assert_eq!(
            ui.find("/in.js", false).unwrap().content_type,
            "text/javascript; charset=utf-8"
        );
        for page in [
            "/",
            "/from-url/http%3A%2F%2F127.0.0.1%3A3000%2Fa%2Fprofile.json/calltree/",
            "/compare/",
        ] {
            assert_eq!(
                ui.find(page, false).unwrap().content_type,
                "text/html; charset=utf-8",
                "{page}"
            );
        }
    }

    #[test]
    fn a_folder_without_ui_is_refused_early() {
        let folder = tempfile::tempdir().unwrap();
        assert!(
            UiDir::open(folder.path())
                .unwrap_err()
                .to_string()
                .contains("index.html")
        );
        assert!(UiDir::open(&folder.path().join("none")).is_err());
    }
}
