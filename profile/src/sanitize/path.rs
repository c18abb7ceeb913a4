//! Short forms of paths and URLs, without the part that says whose they are.

use std::borrow::Cow;

use recording::source_path::{SourcePath, in_profile};

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
    text.starts_with('/') || is_windows(text)
}

/// `C:\` or `C:/`.
pub(super) fn is_windows(text: &str) -> bool {
    matches!(text.as_bytes(), [drive, b':', b'\\' | b'/', ..] if drive.is_ascii_alphabetic())
}

/// The name of the user in whose home folder a path is, and what follows the home folder.
pub(super) fn in_home(path: &str) -> Option<(&str, &str)> {
    let unix = ["/home/", "/Users/", "/export/home/", "/usr/home/", "/var/home/"];
    let rest = unix.iter().find_map(|homes| path.strip_prefix(homes));
    let of_windows = || {
        path.get(2..)
            .filter(|_| is_windows(path))?
            .get(1..)?
            .strip_prefix("Users")?
            .get(1..)
    };
    if let Some(rest) = rest.or_else(of_windows) {
        let end = rest.find(['/', '\\']).unwrap_or(rest.len());
        return (end > 0).then(|| (&rest[..end], &rest[end..]));
    }
    let rest = path.strip_prefix("/root")?;
    (rest.is_empty() || rest.starts_with('/')).then_some(("root", rest))
}

/// The short form of a path; equal to it if nothing is to be shortened. `homes` are other home folders.
pub(super) fn short<'a>(path: &'a str, homes: &[String]) -> Cow<'a, str> {
    if let Some((scheme, rest)) = path.split_once("://") {
        return short_url(path, scheme, rest, homes);
    }
    if !matches!(SourcePath::parse(path), SourcePath::Other(_)) {
        return in_profile(path);
    }
    // Also in the middle: the path of an overlay or of another mount ends in the user's path. But `src/root/a.rs` is not in `/root`.
    let known = homes.iter().filter_map(|home| {
        let at = path.rfind(home.as_str())?;
        let has_name = home.trim_start_matches('/').contains(['/', '\\']);
        (at == 0 || has_name).then_some(at + home.len())
    });
    let known = known
        .filter(|end| matches!(path.as_bytes().get(*end), None | Some(b'/' | b'\\')))
        .max();
    let below = known.map(|end| &path[end..]).or_else(|| Some(in_home(path)?.1));
    if let Some(below) = below {
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
    if scheme == "file" {
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
