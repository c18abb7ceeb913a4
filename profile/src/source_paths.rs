//! Other paths for the source files of data that was read.

use std::borrow::Cow;

use names::source_path::in_profile;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::data::{Data, TextFields};
use crate::sources::{Sources, adopt};
use crate::unique::Unique;

/// The index of each source file's path in the form of profiles. Each path is converted once: a function has many
/// frames, and a file many functions.
pub(crate) struct PathIndex<T>(FxHashMap<Box<str>, T>);

impl<T> Default for PathIndex<T> {
    fn default() -> Self {
        PathIndex(FxHashMap::default())
    }
}

impl<T: Copy> PathIndex<T> {
    /// The index of a path in the form of debug info; `intern` gives the index of a new path in the form of profiles.
    pub(crate) fn index(&mut self, path: &str, intern: impl FnOnce(&str) -> T) -> T {
        if let Some(known) = self.0.get(path) {
            return *known;
        }
        let index = intern(&in_profile(path));
        self.0.insert(path.into(), index);
        index
    }
}

impl Data {
    /// Gives source files the paths of profiles ([`names::source_path`]). Files of older sprofs and of other
    /// profilers have those of debug info, with the home folder of who built the program.
    pub(crate) fn use_profile_paths(&mut self) {
        self.map_source_paths(|path| match in_profile(path) {
            Cow::Owned(path) => Some(path),
            Cow::Borrowed(_) => None,
        });
        if self.sources.keys().any(|path| *in_profile(path) != **path) {
            let renamed = std::mem::take(&mut self.sources).into_iter();
            for (path, text) in renamed {
                adopt(&mut self.sources, Sources::from([(in_profile(&path).into(), text)]));
            }
        }
    }

    /// Gives source files other paths; `None` keeps a path. A path that nothing uses any longer is gone. The
    /// profile's own source texts keep their paths.
    pub fn map_source_paths(&mut self, mut map: impl FnMut(&str) -> Option<String>) {
        let of_lines = self.frames.iter().map(|frame| frame.line_file);
        let files: FxHashSet<u32> = self.funcs.iter().map(|func| func.file).chain(of_lines).collect();
        let renamed = files
            .into_iter()
            .filter_map(|file| Some((file, Box::from(map(self.texts.get(file as usize)?)?))));
        let renamed: FxHashMap<u32, Box<str>> = renamed.collect();
        if renamed.is_empty() {
            return;
        }
        // The argument of a system call may be the same text.
        let others = self.texts_beside_paths();
        for (file, path) in renamed.iter().filter(|(file, _)| !others.contains(file)) {
            self.texts[*file as usize].clone_from(path);
        }
        let mut texts: Unique<Box<str>> = std::mem::take(&mut self.texts).into();
        // Also for a path that was there in this form before: views distinguish files by the index.
        let of_lines = self.frames.iter_mut().map(|frame| &mut frame.line_file);
        for file in self.funcs.iter_mut().map(|func| &mut func.file).chain(of_lines) {
            let path = renamed.get(file).or_else(|| texts.all.get(*file as usize));
            if let Some(path) = path.cloned() {
                *file = texts.index_of(&*path);
            }
        }
        self.texts = texts.all;
    }

    /// The indices of all texts that are more than a source file's path.
    fn texts_beside_paths(&mut self) -> FxHashSet<u32> {
        let mut used: FxHashSet<u32> = self.funcs.iter().map(|func| func.name).collect();
        used.extend(self.symbols.iter().map(|symbol| symbol.name));
        let origins = self.scripts.iter().filter_map(|script| script.resource.as_ref());
        used.extend(origins.flat_map(|origin| [origin.name, origin.host]));
        let fields_of = TextFields::from_schemas(&self.schemas);
        for marker in self.threads.iter_mut().flat_map(|thread| &mut thread.markers) {
            used.insert(marker.name);
            if let Some(fields) = &mut marker.fields {
                fields_of.map(fields, |text| {
                    used.insert(text);
                    text
                });
            }
        }
        used
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Func, Marker, Thread};

    const PLAIN: &str = "/home/me/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/serde-1.0.1/src/de.rs";
    const SPECIAL: &str = "cargo:index.crates.io-1949cf8c6b5b557f:serde-1.0.1:src/de.rs";

    fn data(texts: &[&str], files: &[u32]) -> Data {
        Data {
            texts: texts.iter().map(|text| Box::from(*text)).collect(),
            funcs: files
                .iter()
                .map(|file| Func::native(0, crate::data::NONE, *file))
                .collect(),
            ..Data::default()
        }
    }

    fn files(data: &Data) -> Vec<&str> {
        data.funcs.iter().map(|func| data.text(func.file)).collect()
    }

    #[test]
    fn paths_of_older_profiles_get_todays_form_and_no_home_folder_is_left() {
        let other_home = PLAIN.replace("/home/me", "/home/you");
        let mut data = data(
            &["f", PLAIN, "/app/main.rs", &other_home, SPECIAL],
            &[1, 2, 3, crate::data::NONE, 4],
        );
        let mut other_order = self::data(&[SPECIAL, PLAIN], &[0, 1]);
        other_order.use_profile_paths();
        assert_eq!(other_order.funcs[0], other_order.funcs[1]);
        data.sources = Sources::from([(PLAIN.into(), Some("text".into()))]);
        data.use_profile_paths();
        assert_eq!(files(&data), [SPECIAL, "/app/main.rs", SPECIAL, "", SPECIAL]);
        assert_eq!(data.funcs[0], data.funcs[2]);
        assert!(
            !data.texts.iter().any(|text| text.contains("/home/")),
            "{:?}",
            data.texts
        );
        assert_eq!((data.source(PLAIN), data.source(SPECIAL)), (Some("text"), Some("text")));
        let before = data.clone();
        data.use_profile_paths();
        assert_eq!(data, before);
    }

    #[test]
    fn a_path_is_converted_once_for_all_frames() {
        let mut paths = PathIndex::default();
        let mut converted: Vec<String> = Vec::new();
        let indices = [PLAIN, "/app/main.rs", PLAIN, "/app/main.rs", PLAIN].map(|path| {
            paths.index(path, |path| {
                converted.push(path.to_owned());
                converted.len()
            })
        });
        assert_eq!(indices, [1, 2, 1, 2, 1]);
        assert_eq!(converted, [SPECIAL, "/app/main.rs"]);
    }

    #[test]
    fn the_same_text_elsewhere_stays() {
        let mut data = data(&["openat", PLAIN], &[1]);
        data.schemas =
            vec![serde_json::json!({"name": "syscall", "fields": [{"key": "path", "format": "unique-string"}]})];
        let fields = serde_json::json!({"type": "syscall", "path": 1});
        data.threads = vec![Thread {
            markers: vec![Marker {
                fields: fields.as_object().cloned().map(Box::new),
                ..Marker::spanning(0, 0.0, 1.0)
            }],
            ..Thread::default()
        }];
        data.use_profile_paths();
        assert_eq!(files(&data), [SPECIAL]);
        assert_eq!(data.texts[1], PLAIN.into());
    }
}
