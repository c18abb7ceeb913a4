//! Short forms of paths and URLs, without the part that says whose they are.

use std::borrow::Cow;

use names::source_path::{SourcePath, in_profile};

/// Components of a path that stay: enough to know the file.
const KEPT: usize = 3;

/// Folders whose content is the system's. Paths in them stay whole.
const PUBLIC: [&str; 18] = [
    "/usr/",
    "/lib/",
    "/lib32/",
    "/lib64/",
    "/bin/",
    "/sbin/",
    "/boot/",
    "/proc/",
    "/sys/",
    "/dev/",
    "/nix/store/",
    "/gnu/store/",
    "/rustc/",
    "/rust/deps/",
    "/cargo/registry/",
    "/build/",
    "/System/Library/",
    "/Library/",
];

/// True if the text is a path from the root, of Unix or Windows.
pub(super) fn is_absolute(text: &str) -> bool {
    text.starts_with('/') || text.starts_with(r"\\") || is_windows(text)
}

/// `C:\` or `C:/`.
pub(super) fn is_windows(text: &str) -> bool {
    matches!(text.as_bytes(), [drive, b':', b'\\' | b'/', ..] if drive.is_ascii_alphabetic())
}

/// A home folder in a path.
pub(super) struct HomeFolder<'a> {
    /// Its user.
    pub(super) user: &'a str,
    /// What follows it.
    pub(super) below: &'a str,
    /// False below a folder `src`: `src/home/page.rs` is in nobody's home folder.
    pub(super) is_sure: bool,
}

/// The home folders in a path of Unix or Windows, also behind a mount, a share or an option: the last one is the
/// nearest to the file.
pub(super) fn homes_in(path: &str) -> Vec<HomeFolder<'_>> {
    let is_of_windows = path.contains('\\') || is_windows(path);
    let (mut homes, mut is_sure, mut is_next, mut start) = (Vec::new(), true, false, 0);
    for part in path.split(['/', '\\']) {
        let end = start + part.len();
        let below = &path[end..];
        let user = match start {
            0 => part.strip_prefix('~').filter(|_| !below.is_empty()),
            _ => Some(part).filter(|_| is_next),
        };
        if let Some(user) = user.filter(|user| !user.is_empty()) {
            homes.push(HomeFolder { user, below, is_sure });
            is_next = false;
        } else if !part.is_empty() {
            is_sure &= part != "src";
            is_next =
                start > 0 && (matches!(part, "home" | "Users") || is_of_windows && part.eq_ignore_ascii_case("users"));
        }
        start = end + 1;
    }
    homes
}

/// What follows the home folder that a path is in.
fn below_home(path: &str) -> Option<&str> {
    let homes = homes_in(path);
    let nearest = homes.iter().rfind(|home| home.is_sure);
    if let Some(home) = nearest.or_else(|| homes.last().filter(|_| is_absolute(path))) {
        return Some(home.below);
    }
    let rest = path.strip_prefix("/root")?;
    (rest.is_empty() || rest.starts_with('/')).then_some(rest)
}

/// The scheme of a URL that is its own content: `data:text/html,...`, `blob:https://...`.
pub(super) fn opaque_scheme(url: &str) -> Option<&'static str> {
    if let Some(content) = url.strip_prefix("data:") {
        let kind = &content[..content.find(is_url_end).unwrap_or(content.len())];
        let (kind, _) = kind.split_once(',')?;
        return (kind.is_empty() || kind.starts_with(';') || kind.contains('/')).then_some("data:");
    }
    let content = url.strip_prefix("blob:")?;
    let content = &content[..content.find(is_url_end).unwrap_or(content.len())];
    (content.contains('/') && content.starts_with(|c: char| c.is_ascii_alphanumeric())).then_some("blob:")
}

/// No URL has these.
pub(super) fn is_url_end(c: char) -> bool {
    c.is_whitespace() || matches!(c, '"' | '<' | '>' | '`')
}

/// The short form of a path; equal to it if nothing is to be shortened. `homes` are other home folders.
pub(super) fn short<'a>(path: &'a str, homes: &[String]) -> Cow<'a, str> {
    if let Some(scheme) = opaque_scheme(path) {
        return scheme.into();
    }
    if let Some((scheme, rest)) = path.split_once("://") {
        return short_url(path, scheme, rest, homes);
    }
    if !matches!(SourcePath::parse(path), SourcePath::Other(_)) {
        return in_profile(path);
    }
    // Also in the middle: the path of an overlay or of another mount ends in the user's path. But `src/root/a.rs` is
    // not in `/root`.
    let known = homes.iter().filter_map(|home| {
        let at = path.rfind(home.as_str())?;
        let has_name = home.trim_start_matches('/').contains(['/', '\\']);
        (at == 0 || has_name).then_some(at + home.len())
    });
    let known = known
        .filter(|end| matches!(path.as_bytes().get(*end), None | Some(b'/' | b'\\')))
        .max();
    let below = known.map(|end| &path[end..]).into_iter().chain(below_home(path));
    if let Some(below) = below.min_by_key(|below| below.len()) {
        return match last(below, KEPT) {
            "" => "~".into(),
            last => last.into(),
        };
    }
    if !is_absolute(path) || PUBLIC.iter().any(|folder| path.starts_with(folder)) {
        return path.into();
    }
    let components = path.split(['/', '\\']).filter(|part| !part.is_empty()).count();
    last(path, KEPT.min(components.saturating_sub(1)).max(1)).into()
}

/// Without user, password, query and fragment.
fn short_url<'a>(url: &'a str, scheme: &str, rest: &'a str, homes: &[String]) -> Cow<'a, str> {
    let is_of_web = matches!(scheme, "http" | "https" | "ws" | "wss");
    // `jar:file:///home/...`, `vscode-file://vscode-app/home/...`
    if scheme == "file" || !is_of_web && below_home(rest).is_some() {
        return short(rest, homes).into_owned().into();
    }
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = authority.rsplit('@').next().unwrap_or_default();
    let shorter = format!("{scheme}://{host}{path}");
    match shorter == url {
        true => url.into(),
        false => shorter.into(),
    }
}

/// The last `count` components.
fn last(path: &str, count: usize) -> &str {
    let path = path.trim_matches(['/', '\\']);
    let separators = path.rmatch_indices(['/', '\\']).map(|(at, _)| at + 1);
    let start = separators.take(count).last();
    match path.split(['/', '\\']).count() > count {
        true => &path[start.unwrap_or(0)..],
        false => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_keeps_what_says_which_file_it_is() {
        let homes = ["/data/homes/Ann Smith".to_owned()];
        for (path, expected) in [
            ("/home/ann/client-x/app/src/main.rs", "app/src/main.rs"),
            ("/home/ann/main.rs", "main.rs"),
            ("/home/ann", "~"),
            ("/root/a/b", "a/b"),
            ("/rooted/a/b", "a/b"),
            ("/Users/ann/x.rs", "x.rs"),
            (r"C:\Users\ann\app\x.c", r"app\x.c"),
            (r"D:\work\app\src\x.c", r"app\src\x.c"),
            ("/data/homes/Ann Smith/a/b/c/d.rs", "b/c/d.rs"),
            ("/mnt/overlay/data/homes/Ann Smith/d.rs", "d.rs"),
            ("../../data/homes/Ann Smith/d.rs", "d.rs"),
            ("/mnt/overlay/home/bob1/d.rs", "d.rs"),
            ("/mnt/c/Users/bob2/x.c", "x.c"),
            ("/proc/12/root/home/bob3/p/x.c", "p/x.c"),
            ("../../home/bob4/p/x.c", "p/x.c"),
            ("-I/home/bob5/inc", "inc"),
            (r"\\srv\share\Users\bob6\x.c", "x.c"),
            ("/usr/local/google/home/bob7/x.c", "x.c"),
            ("/home/ann/src/home/page/x.rs", "home/page/x.rs"),
            ("app/src/home/page/x.rs", "app/src/home/page/x.rs"),
            (r"c:\users\bob15\x.c", "x.c"),
            ("~bob11/x/y", "x/y"),
            ("/srv/users/x/y.rs", "users/x/y.rs"),
            ("vscode-file://vscode-app/home/bob/x.js", "x.js"),
            ("data:text/html;base64,AAAA", "data:"),
            ("blob:https://example.org/1-2", "blob:"),
            (
                "https://user:p,w@example.org/home/page/a",
                "https://example.org/home/page/a",
            ),
            ("/srv/app/main", "app/main"),
            ("/srv/a/b/c/main", "b/c/main"),
            ("/app", "app"),
            ("src/main.rs", "src/main.rs"),
            ("/usr/lib/libc.so.6", "/usr/lib/libc.so.6"),
            ("[vdso]", "[vdso]"),
            ("", ""),
            ("https://me:pw@example.org/a.js?token=1#x", "https://example.org/a.js"),
            ("https://example.org/a.js", "https://example.org/a.js"),
            ("file:///home/ann/a.js", "a.js"),
        ] {
            assert_eq!(short(path, &homes), expected, "{path}");
        }
        let registry = "/home/ann/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/serde-1.0.1/src/de.rs";
        assert_eq!(
            short(registry, &[]),
            "cargo:index.crates.io-1949cf8c6b5b557f:serde-1.0.1:src/de.rs"
        );
    }
}
