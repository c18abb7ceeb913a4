//! Crates of source files: with debug info of `line-tables-only` or `limited`, inlined functions have no symbol, but
//! others of their file have.

use names::symbol::{AddressInfo, SourceFrame};
use rustc_hash::FxHashMap;

use crate::category::is_library_source;

/// The crates that the program's own sources are of. `None` for a file or folder of several.
#[derive(Default)]
pub(crate) struct CrateSources<'a>(FxHashMap<&'a str, Option<&'a str>>);

impl<'a> CrateSources<'a> {
    /// The sources of crates, from the functions of one library.
    pub(crate) fn new(infos: impl Iterator<Item = &'a AddressInfo>) -> CrateSources<'a> {
        let mut known: FxHashMap<&str, Option<&str>> = FxHashMap::default();
        for info in infos {
            for (at, source) in info.frames.iter().rev().enumerate() {
                let (Some(file), Some(krate)) = (source.function_file(), by_symbol(info, at == 0, source)) else {
                    continue;
                };
                if is_library_source(file) {
                    continue;
                }
                for key in keys(file) {
                    let all = known.entry(key).or_insert(Some(krate));
                    *all = all.filter(|all| *all == krate);
                }
            }
        }
        CrateSources(known)
    }

    /// The crate of one of the functions at an address: see [`functions_at`](crate::enrich::functions_at).
    pub(crate) fn crate_at<'s>(
        &'s self,
        info: &'s AddressInfo,
        depth: u16,
        source: &'s SourceFrame,
    ) -> Option<&'s str> {
        by_symbol(info, depth == 0, source).or_else(|| {
            let known = keys(source.function_file()?).find_map(|key| self.0.get(key));
            known.copied().flatten()
        })
    }
}

fn by_symbol<'a>(info: &'a AddressInfo, is_outer: bool, source: &'a SourceFrame) -> Option<&'a str> {
    let outer = info.function.as_ref().filter(|_| is_outer);
    let of_outer = || outer.and_then(|function| function.krate.as_deref());
    source.krate.as_deref().or_else(of_outer)
}

/// A file of Rust, and the folder `src` that it is in: all of `app/src/` is of one crate, if nothing there is of
/// another one.
fn keys(file: &str) -> impl Iterator<Item = &str> {
    let file = Some(file).filter(|file| file.ends_with(".rs"));
    let folder = file.and_then(|file| file.rfind("/src/").map(|at| &file[..at + "/src/".len()]));
    file.into_iter().chain(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(file: &str, krate: Option<&str>) -> AddressInfo {
        AddressInfo {
            function: None,
            frames: vec![SourceFrame {
                function: Some("f".to_owned()),
                file: Some(file.to_owned()),
                krate: krate.map(str::to_owned),
                ..SourceFrame::default()
            }],
        }
    }

    #[test]
    fn functions_without_a_symbol_are_of_the_crate_of_their_file() {
        let infos = [
            info("/home/me/app/src/main.rs", Some("app")),
            info("/home/me/tools/src/bin/a.rs", Some("a")),
            info("/home/me/tools/src/bin/b.rs", Some("b")),
            info("/home/me/shared/both.rs", Some("a")),
            info("/home/me/shared/both.rs", Some("b")),
            // `thread_local!` of std, in a function of app's.
            info(
                "/rustc/59807616e1fa2540724bfbac14d7976d7e4a3860/library/std/src/thread/local.rs",
                Some("app"),
            ),
            info("/home/me/app/src/work.c", Some("app")),
        ];
        let sources = CrateSources::new(infos.iter());
        for (file, expected) in [
            ("/home/me/app/src/main.rs", Some("app")),
            ("/home/me/app/src/deep/inlined.rs", Some("app")),
            ("/home/me/tools/src/bin/b.rs", Some("b")),
            ("/home/me/tools/src/lib.rs", None),
            ("/home/me/shared/both.rs", None),
            ("/home/me/other/src/main.rs", None),
            (
                "/rustc/59807616e1fa2540724bfbac14d7976d7e4a3860/library/std/src/io/mod.rs",
                None,
            ),
            ("/home/me/app/src/work.c", None),
        ] {
            let asked = info(file, None);
            assert_eq!(sources.crate_at(&asked, 0, &asked.frames[0]), expected, "{file}");
        }
        // What has a symbol keeps its crate.
        let asked = info("/home/me/app/src/main.rs", Some("macros"));
        assert_eq!(sources.crate_at(&asked, 0, &asked.frames[0]), Some("macros"));
    }
}
