//! Kinds of code, which colour frames: other formats have the file and the source of a function, and no categories.

use std::path::Path;

use rustc_hash::FxHashSet;

use crate::category::{CodeKind, Installed};
use crate::data::{Category, Data};

/// Gives frames the categories of recordings, as far as they follow from files and sources, unless the format has its
/// own.
pub(super) fn set(data: &mut Data) {
    if !data.categories.is_empty() {
        return;
    }
    let programs = data
        .threads
        .iter()
        .map(|thread| &thread.process_name)
        .chain([&data.product]);
    let programs: FxHashSet<&str> = programs
        .map(|name| file_name(name))
        .filter(|name| !name.is_empty())
        .collect();
    // Linux keeps 15 bytes of a program's name, and an interpreter's file has its version behind its name.
    let is_program =
        |name: &str| (1..=name.len()).any(|end| name.get(..end).is_some_and(|start| programs.contains(start)));
    let libs = data.libs.iter().map(|lib| {
        let path = lib.path.as_deref().or(lib.name.as_deref())?;
        Some(match of_file(path) {
            CodeKind::Library if is_program(file_name(path)) => CodeKind::Program,
            kind => kind,
        })
    });
    let libs: Vec<Option<CodeKind>> = libs.collect();
    let functions = data.funcs.iter().map(|func| {
        let file = data.libs.get(func.lib as usize).and_then(|lib| lib.name.as_deref());
        (file.unwrap_or_default(), data.text(func.name), data.text(func.file))
    });
    let installed = Installed::of(functions);
    let kinds: Vec<CodeKind> = (data.frames.iter())
        .map(|frame| {
            let source = data.text(data.funcs[frame.func as usize].file);
            match libs.get(frame.lib as usize).copied().flatten() {
                Some(kind) => kind.of_source(source, None, &installed),
                // The folder of a source identifies libraries and packages, but not the program.
                None => match CodeKind::Program.of_source(source, None, &installed) {
                    CodeKind::Program => CodeKind::Unknown,
                    kind => kind,
                },
            }
        })
        .collect();
    // Where nothing is known, views colour by name.
    if kinds.iter().all(|kind| *kind == CodeKind::Unknown) {
        return;
    }
    data.categories = Category::all();
    for (frame, kind) in data.frames.iter_mut().zip(kinds) {
        let (category, subcategory) = kind.category(frame.is_inlined());
        (frame.category, frame.subcategory) = (category as u32, subcategory as u16);
    }
}

/// The kind of a file, by its path or name. That of a program is not known by it.
pub(super) fn of_file(path: &str) -> CodeKind {
    let name = file_name(path);
    match path {
        "[vdso]" => CodeKind::Vdso,
        // The kernel, and its modules: `[ext4]`, or their files.
        path if path.starts_with("[kernel") || path.contains("/vmlinux") || name.contains(".ko") => CodeKind::Kernel,
        path if path.starts_with("/tmp/perf-") || name.starts_with("jitted-") => CodeKind::Jit,
        path => CodeKind::of_file(Path::new(path)),
    }
}

/// The last part of a path.
pub(super) fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::SavedLib;
    use crate::data::{Frame, Func, NONE};

    /// The categories of these (file, function, source) of a profile of `app`.
    fn categories(functions: &[(&str, &str, &str)]) -> Vec<String> {
        let mut data = Data {
            product: "/home/me/app".to_owned(),
            ..Data::default()
        };
        for (at, (file, function, source)) in (0..).zip(functions) {
            data.libs.push(SavedLib {
                path: Some((*file).to_owned()).filter(|file| !file.is_empty()),
                ..SavedLib::default()
            });
            data.texts.extend([(*function).into(), (*source).into()]);
            data.funcs.push(Func::native(2 * at, 0, 2 * at + 1));
            data.frames.push(Frame {
                lib: if file.is_empty() { NONE } else { at },
                ..Frame::of(at)
            });
        }
        set(&mut data);
        let frames = data.frames.iter();
        let name = |frame: &Frame| data.categories.get(frame.category as usize).map(|of| of.name.clone());
        frames.map(|frame| name(frame).unwrap_or_default()).collect()
    }

    #[test]
    fn files_and_sources_tell_the_kind_of_code() {
        let of = [
            ("/home/me/app", "main.work", "/home/me/src/main.go", "Program"),
            (
                "/home/me/app",
                "runtime.mallocgc",
                "/usr/lib/go-1.19/src/runtime/malloc.go",
                "System library",
            ),
            (
                "/home/me/app",
                "encoding/json.Marshal",
                "/usr/lib/go-1.19/src/encoding/json/encode.go",
                "System library",
            ),
            (
                "/home/me/app",
                "x.F",
                "/home/me/go/pkg/mod/example.org/x@v1.0.0/x.go",
                "Dependency",
            ),
            ("/usr/lib/libz.so.1", "deflate", "", "Library"),
            ("/usr/lib/x86_64-linux-gnu/libc.so.6", "malloc", "", "System library"),
            ("[kernel.kallsyms]", "do_idle", "", "Kernel"),
            (
                "",
                "alloc::vec::push",
                "/rustc/0123/library/alloc/src/vec/mod.rs",
                "Rust standard library",
            ),
            ("", "malloc", "malloc.c", "Other"),
        ];
        let functions: Vec<_> = of
            .iter()
            .map(|(file, function, source, _)| (*file, *function, *source))
            .collect();
        let expected: Vec<&str> = of.iter().map(|(.., category)| *category).collect();
        assert_eq!(categories(&functions), expected);
    }

    #[test]
    fn where_nothing_is_known_there_is_no_category() {
        assert_eq!(categories(&[("", "main", ""), ("", "work", "work.c")]), ["", ""]);
    }
}
