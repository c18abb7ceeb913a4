//! Checks rules of ARCHITECTURE.md and CONTRIBUTING.md on the source files themselves.
#![allow(clippy::unwrap_used, reason = "a test ends where its premise fails")]

mod circles;
mod crate_modules;
mod documents;
mod imports;
mod planted;
mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use crate_modules::{CrateFiles, CrateModules, Import};
use source::ModuleSource;

/// The levels of `sprof/src`: `main` picks a command, commands call the pipeline, which `top` watches, and all of them
/// use parts.
const COMMAND_LINE_LEVELS: &[&[&str]] = &[&["main"], &["command"], &["top"], &["pipeline"]];

fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

fn toml(path: &Path) -> toml::Table {
    fs::read_to_string(path).unwrap().parse().unwrap()
}

/// The folders of the workspace's crates, but for examples.
fn crates() -> Vec<String> {
    let members = toml(&workspace().join("Cargo.toml"))["workspace"]["members"].clone();
    let members: Vec<String> = members.try_into().unwrap();
    members
        .into_iter()
        .filter(|member| !member.starts_with("examples/"))
        .collect()
}

/// All Rust files below a folder, by their path in it.
fn rust_files(folder: &Path) -> CrateFiles {
    let mut files = CrateFiles::new();
    let mut open = vec![folder.to_owned()];
    while let Some(path) = open.pop() {
        if path.is_dir() {
            let is_skipped = |path: &PathBuf| path.ends_with("target") || path.ends_with(".git");
            let entries = fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path());
            open.extend(entries.filter(|path| !is_skipped(path)));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let name = path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
            files.insert(name, fs::read_to_string(&path).unwrap());
        }
    }
    files
}

/// The modules of each crate, by the crate's folder.
static MODULES: LazyLock<BTreeMap<String, CrateModules>> = LazyLock::new(|| {
    let read = |name: String| {
        let files = rust_files(&workspace().join(&name).join("src"));
        let modules = CrateModules::read(&files).unwrap_or_else(|error| panic!("{name}/src: {error}"));
        (name, modules)
    };
    crates().into_iter().map(read).collect()
});

fn assert_none(what: &str, found: &[String]) {
    assert!(found.is_empty(), "{what}:\n{}", found.join("\n"));
}

/// What a rule finds in all crates, each with the name of its crate.
fn in_all_crates(find: impl Fn(&[Import]) -> Vec<String>) -> Vec<String> {
    let mut found = Vec::new();
    for (name, modules) in &*MODULES {
        found.extend(
            find(&modules.imports())
                .iter()
                .map(|circle| format!("{name}: {circle}")),
        );
    }
    found
}

#[test]
fn no_files_import_each_other_in_a_circle() {
    assert_none("files import each other", &in_all_crates(imports::circles_of_files));
}

#[test]
fn no_folders_import_each_other_in_a_circle() {
    assert_none("folders import each other", &in_all_crates(imports::circles_of_folders));
}

#[test]
fn imports_of_the_command_line_go_down() {
    let up = imports::imports_up(&MODULES["sprof"].imports(), COMMAND_LINE_LEVELS);
    assert_none("imports go up a level of sprof/src", &up);
}

/// `crate` | holds | depends on
#[test]
fn crates_depend_on_what_the_table_of_the_architecture_says() {
    let text = fs::read_to_string(workspace().join("ARCHITECTURE.md")).unwrap();
    let crates = crates();
    let in_backticks = |cell: &str| -> BTreeSet<String> {
        cell.split('`')
            .skip(1)
            .step_by(2)
            .map(|word| word.trim_end_matches('/').to_owned())
            .collect()
    };
    let mut above = BTreeSet::new();
    for row in text.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').collect();
        let name = in_backticks(cells[0]).pop_first().unwrap();
        if !crates.contains(&name) || above.contains(&name) {
            continue;
        }
        let [_, _, depends_on] = *cells else { panic!("{row}") };
        let listed = match depends_on.contains("all above") {
            true => above.clone(),
            false => in_backticks(depends_on),
        };
        let actual = dependencies(&name, &crates);
        let is_whole = depends_on.contains("all above") || listed.is_subset(&actual);
        assert!(
            actual.is_subset(&listed) && is_whole,
            "{name}/Cargo.toml has {actual:?}, ARCHITECTURE.md {listed:?}"
        );
        assert!(
            actual.is_subset(&above),
            "{name} depends on a crate that stands below it in ARCHITECTURE.md"
        );
        above.insert(name);
    }
    assert_eq!(
        above,
        crates.into_iter().collect(),
        "crates of ARCHITECTURE.md and of Cargo.toml"
    );
}

/// The crates of the workspace that a crate depends on, but for its tests.
fn dependencies(name: &str, crates: &[String]) -> BTreeSet<String> {
    let manifest = toml(&workspace().join(name).join("Cargo.toml"));
    let targets = manifest
        .get("target")
        .and_then(|target| target.as_table())
        .into_iter()
        .flatten();
    let tables = targets.filter_map(|(_, target)| target.get("dependencies"));
    let names = tables
        .chain(manifest.get("dependencies"))
        .filter_map(|table| table.as_table())
        .flat_map(|table| table.keys());
    names.filter(|name| crates.contains(name)).cloned().collect()
}

/// Modules of one path that `#[cfg]` chooses among have the same names.
#[test]
fn a_type_name_stands_once_in_a_crate() {
    for (name, modules) in &*MODULES {
        let mut types: BTreeMap<String, BTreeMap<Vec<String>, String>> = BTreeMap::new();
        for found in modules.types() {
            types.entry(found.name).or_default().insert(found.module, found.place);
        }
        let repeated: Vec<String> = types
            .iter()
            .filter(|(_, places)| places.len() > 1)
            .map(|(type_name, places)| {
                format!(
                    "{type_name}: {}",
                    places.values().cloned().collect::<Vec<_>>().join(" ")
                )
            })
            .collect();
        assert_none(&format!("{name}/src: type names that stand twice or more"), &repeated);
    }
}

#[test]
fn unsafe_code_is_in_folders_called_sys() {
    let mut found = Vec::new();
    for (file, text) in rust_files(workspace()) {
        if file.contains("/src/") && !file.contains("/sys/") {
            let source = ModuleSource::parse(&text).unwrap_or_else(|error| panic!("{file}: {error}"));
            found.extend(source.unsafe_lines().iter().map(|line| format!("{file}:{line}")));
        }
    }
    assert_none("`unsafe` outside of sys/", &found);
}

#[test]
fn comment_lines_end_at_column_120() {
    let mut found = Vec::new();
    for (file, text) in rust_files(workspace()) {
        for (index, line) in text.lines().enumerate() {
            // A table has long lines.
            if line.trim_start().starts_with("//") && line.chars().count() > 120 && !line.contains('|') {
                found.push(format!("{file}:{}", index + 1));
            }
        }
    }
    assert_none("comment lines of more than 120 columns", &found);
}

/// All pages of the repository, by their path, with their text. The change log names what was there once.
fn pages() -> Vec<(String, String)> {
    let mut pages = Vec::new();
    let mut open = vec![workspace().to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(workspace()).unwrap().to_str().unwrap().to_owned();
            if name == "docs" || name == "docs/decisions" {
                open.push(path);
            } else if name.ends_with(".md") && name != "CHANGELOG.md" {
                pages.push((name, fs::read_to_string(&path).unwrap()));
            }
        }
    }
    pages
}

#[test]
fn the_files_tests_and_headings_that_pages_name_are_there() {
    let files = rust_files(workspace());
    let folders = fs::read_dir(workspace()).unwrap().map(|entry| entry.unwrap());
    let folders: BTreeSet<String> = folders
        .filter(|entry| entry.file_type().unwrap().is_dir() && entry.file_name() != "target")
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    let has_test = |file: &str, name: &str| {
        let is_file = |path: &str| path.contains(&format!("/{file}.rs")) || path.contains(&format!("/{file}/"));
        let mut texts = files.iter().filter(|(path, _)| is_file(path)).map(|(_, text)| text);
        texts.any(|text| text.contains(&format!("fn {name}")))
    };
    let mut missing = Vec::new();
    for (page, text) in pages() {
        let paths = documents::paths(&text, &folders).into_iter();
        let paths = paths.filter(|path| !workspace().join(path).exists());
        missing.extend(paths.map(|path| format!("{page}: {path}")));
        // Other pages name functions of programs in the same way.
        let names_tests = ["ARCHITECTURE.md", "README.md"].contains(&&*page) || page.starts_with("docs/decisions/");
        let tests = documents::tests(&text).into_iter();
        let tests = tests.filter(|(file, name)| names_tests && !has_test(file, name));
        missing.extend(tests.map(|(file, name)| format!("{page}: {file}::{name}")));
        for (path, heading) in documents::links(&text) {
            let folder = workspace().join(&page).parent().unwrap().to_owned();
            let linked = match path {
                "" => workspace().join(&page),
                path => folder.join(path),
            };
            let has_heading = || documents::anchors(&fs::read_to_string(&linked).unwrap()).contains(heading);
            if !linked.exists() || !(heading.is_empty() || has_heading()) {
                missing.push(format!("{page}: {path}#{heading}"));
            }
        }
    }
    assert_none("named by a page, and not there", &missing);
}

/// mdBook makes no page of a file that its summary does not name, and has nothing outside of its folder.
#[test]
fn the_book_has_all_pages_and_its_links_stay_in_it() {
    let pages = pages();
    let of_book = || {
        pages
            .iter()
            .filter_map(|(page, text)| Some((page.strip_prefix("docs/")?, text)))
    };
    let summary = of_book().find(|(page, _)| *page == "SUMMARY.md").unwrap().1;
    let listed: Vec<&str> = documents::links(summary).into_iter().map(|(path, _)| path).collect();
    let mut wrong = Vec::new();
    for (page, text) in of_book().filter(|(page, _)| *page != "SUMMARY.md") {
        let times = listed.iter().filter(|path| **path == page).count();
        if times != 1 {
            wrong.push(format!("{page} stands {times} times in docs/SUMMARY.md"));
        }
        let folders = page.matches('/').count();
        let links = documents::links(text).into_iter();
        let out = links.filter(|(path, _)| path.matches("../").count() > folders);
        wrong.extend(out.map(|(path, _)| format!("{page} links out of docs/: {path}")));
    }
    assert_none("not in the book", &wrong);
}
