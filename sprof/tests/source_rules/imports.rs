//! Rules on the imports of one crate: no circle of files, no circle of folders, no import up a level.
//!
//! A file imports another file if it names something that the other file defines: in a `use`, or in a path like
//! `crate::names::look_up`. A `pub use` hands a name on, and is no import by itself: who uses the name imports the file
//! that defines it. The file that heads a folder (`mod.rs`, or `a.rs` beside `a/`; `lib.rs` and `main.rs` for `src`)
//! holds the words of its folder: the files below it may use what it defines, as they may use its private items in
//! Rust. Every other import is an arrow.

use std::collections::{BTreeMap, BTreeSet};

use crate::circles::{Arrows, circles};
use crate::crate_modules::Import;

/// Imports between the neighbours of one folder.
#[derive(Default)]
struct FolderImports<'a> {
    arrows: Arrows,
    /// One import for each arrow.
    examples: BTreeMap<[String; 2], &'a Import>,
}

/// Each circle of files, as `a.rs -> b.rs -> a.rs`.
pub(crate) fn circles_of_files(imports: &[Import]) -> Vec<String> {
    let mut arrows = Arrows::new();
    for import in arrows_of(imports) {
        arrows.entry(import.from.clone()).or_default().insert(import.to.clone());
    }
    circles(&arrows).iter().map(|circle| circle.join(" -> ")).collect()
}

/// Each circle of neighbours, folders and files of one folder: `view/ -> enrich.rs -> view/`, with an import for each
/// arrow. A folder stands for all files below it.
pub(crate) fn circles_of_folders(imports: &[Import]) -> Vec<String> {
    let mut folders: BTreeMap<&[String], FolderImports> = BTreeMap::new();
    // `a.rs` beside `a/` is in `a/`.
    let heads: BTreeSet<String> = imports
        .iter()
        .flat_map(|import| [&import.from, &import.to])
        .flat_map(|file| file.match_indices('/').map(|(end, _)| format!("{}.rs", &file[..end])))
        .collect();
    let split_path = |file: &str| -> Vec<String> {
        let folder = heads.contains(file).then(|| file.replace(".rs", "/mod.rs"));
        folder
            .as_deref()
            .unwrap_or(file)
            .split('/')
            .map(str::to_owned)
            .collect()
    };
    let split: Vec<(&Import, Vec<String>, Vec<String>)> = arrows_of(imports)
        .map(|import| (import, split_path(&import.from), split_path(&import.to)))
        .collect();
    for (import, from, to) in &split {
        let shared = from.iter().zip(to).take_while(|(from, to)| from == to).count();
        let neighbours = [neighbour(from, shared), neighbour(to, shared)];
        let FolderImports { arrows, examples } = folders.entry(&from[..shared]).or_default();
        arrows
            .entry(neighbours[0].clone())
            .or_default()
            .insert(neighbours[1].clone());
        examples.entry(neighbours).or_insert(import);
    }
    let mut found = Vec::new();
    for FolderImports { arrows, examples } in folders.values() {
        for circle in circles(arrows) {
            // A circle of files alone is found among the files.
            if circle.iter().all(|neighbour| !neighbour.ends_with('/')) {
                continue;
            }
            let examples = circle.windows(2).map(|pair| {
                let import = examples[&[pair[0].clone(), pair[1].clone()]];
                format!("\n    {}:{} imports {}", import.from, import.line, import.to)
            });
            found.push(format!("{}{}", circle.join(" -> "), examples.collect::<String>()));
        }
    }
    found
}

/// Each import from a level to one that stands before it. A level is a list of files and folders of `src`; what no
/// level names is below all of them.
pub(crate) fn imports_up(imports: &[Import], levels: &[&[&str]]) -> Vec<String> {
    let level = |file: &str| {
        let first = file.split('/').next().unwrap_or_default().trim_end_matches(".rs");
        levels
            .iter()
            .position(|names| names.contains(&first))
            .unwrap_or(levels.len())
    };
    imports
        .iter()
        .filter(|import| level(&import.from) > level(&import.to))
        .map(|import| format!("{}:{} imports {}", import.from, import.line, import.to))
        .collect()
}

fn arrows_of(imports: &[Import]) -> impl Iterator<Item = &Import> {
    imports.iter().filter(|import| !heads(&import.to, &import.from))
}

/// True if `head` heads a folder that holds `file`.
fn heads(head: &str, file: &str) -> bool {
    let folder = match head.rsplit_once('/').unwrap_or(("", head)) {
        ("", "lib.rs" | "main.rs") => return true,
        (folder, "mod.rs") => folder,
        _ => head.trim_end_matches(".rs"),
    };
    file.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

/// The folder or the file that stands in the folder of `depth` names.
fn neighbour(path: &[String], depth: usize) -> String {
    match path.len() == depth + 1 {
        true => path[depth].clone(),
        false => format!("{}/", path[depth]),
    }
}
