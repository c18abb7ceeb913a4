//! The rules find what was planted in small crates.

use crate::crate_modules::{CrateFiles, CrateModules, Import};
use crate::imports::{circles_of_files, circles_of_folders, imports_up};

fn imports(files: &[(&str, &str)]) -> Vec<Import> {
    let files: CrateFiles = files
        .iter()
        .map(|(path, text)| ((*path).to_owned(), (*text).to_owned()))
        .collect();
    CrateModules::read(&files).unwrap().imports()
}

fn pairs(imports: &[Import]) -> Vec<String> {
    imports
        .iter()
        .map(|import| format!("{}:{} -> {}", import.from, import.line, import.to))
        .collect()
}

#[test]
fn a_circle_of_files_is_printed() {
    let imports = imports(&[
        ("lib.rs", "mod a;\nmod b;\nmod c;"),
        ("a.rs", "use crate::b::B;\npub struct A(B);"),
        ("b.rs", "pub struct B;\nfn f() { let x = super::c::C::new(); }"),
        ("c.rs", "use super::{a::{self, A as Other}, };\npub struct C;"),
    ]);
    assert_eq!(circles_of_files(&imports), ["a.rs -> b.rs -> c.rs -> a.rs"]);
    assert_eq!(circles_of_folders(&imports), [""; 0]);
}

#[test]
fn a_circle_of_folders_is_printed_though_no_files_make_one() {
    let imports = imports(&[
        ("lib.rs", "mod read;\nmod view;\nmod enrich;"),
        ("read/mod.rs", "mod names;\nmod text;\npub use names::Name;"),
        ("read/names.rs", "pub struct Name;"),
        ("read/text.rs", "use crate::view::top::Top;\npub struct Text;"),
        ("view/mod.rs", "pub mod top;\nmod all;"),
        ("view/top.rs", "pub struct Top;"),
        ("view/all.rs", "fn f() { crate::enrich::enrich() }"),
        ("enrich.rs", "use crate::read::Name;\npub fn enrich() {}"),
    ]);
    assert_eq!(circles_of_files(&imports), [""; 0]);
    let circle = "enrich.rs -> read/ -> view/ -> enrich.rs\n    enrich.rs:1 imports read/names.rs\n    \
        read/text.rs:1 imports view/top.rs\n    view/all.rs:1 imports enrich.rs";
    assert_eq!(circles_of_folders(&imports), [circle]);
}

#[test]
fn an_import_up_a_level_is_printed() {
    let imports = imports(&[
        ("main.rs", "mod command;\nmod term;\nfn main() { command::run() }"),
        ("command.rs", "use crate::term::Term;\npub fn run() {}"),
        ("term.rs", "pub struct Term;\nfn f() {\n    crate::command::run()\n}"),
    ]);
    assert_eq!(
        imports_up(&imports, &[&["main"], &["command"]]),
        ["term.rs:3 imports command.rs"]
    );
}

#[test]
fn names_that_are_handed_on_lead_to_the_file_that_defines_them() {
    let imports = imports(&[
        ("lib.rs", "mod a;\nmod user;\npub use a::One;"),
        (
            "a/mod.rs",
            "mod one;\nmod two;\npub use one::*;\npub use two::Two as Second;",
        ),
        ("a/one.rs", "pub struct One;"),
        ("a/two.rs", "pub struct Two;\npub fn two() {}"),
        ("user.rs", "use crate::a;\nuse crate::One;\n\nfn f(_: a::Second) {}"),
    ]);
    assert_eq!(pairs(&imports), ["user.rs:2 -> a/one.rs", "user.rs:4 -> a/two.rs"]);
}

#[test]
fn a_name_that_is_handed_on_and_used_is_imported() {
    let imports = imports(&[
        ("lib.rs", "mod a;\npub use a::A;\nfn f(_: A) {}"),
        ("a.rs", "pub struct A;"),
    ]);
    assert_eq!(pairs(&imports), ["lib.rs:2 -> a.rs"]);
}

#[test]
fn the_file_that_heads_a_folder_may_be_used_below() {
    let imports = imports(&[
        ("lib.rs", "mod a;\npub struct Root;"),
        ("a.rs", "mod b;\npub struct A;\nfn f() { b::f() }"),
        ("a/b.rs", "use super::A;\nuse crate::Root;\npub fn f() {}"),
    ]);
    assert_eq!(
        pairs(&imports),
        ["a.rs:3 -> a/b.rs", "a/b.rs:1 -> a.rs", "a/b.rs:2 -> lib.rs"]
    );
    assert_eq!(circles_of_files(&imports), [""; 0]);
    assert_eq!(circles_of_folders(&imports), [""; 0]);
}

#[test]
fn comments_strings_and_tests_import_nothing() {
    let imports = imports(&[
        ("lib.rs", "mod a;\nmod b;"),
        ("a.rs", "pub struct A;"),
        (
            "b.rs",
            "//! [`crate::a::A`]\n// use crate::a::A;\nconst S: &str = \"use crate::a::A;\";\n\
             #[cfg(test)]\nuse crate::a::A;\n#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n\
             impl X {\n    #[cfg(all(test, unix))]\n    fn f() { crate::a::A; }\n}",
        ),
    ]);
    assert_eq!(pairs(&imports), [""; 0]);
}

#[test]
fn modules_that_cfg_chooses_among_are_all_read() {
    let imports = imports(&[
        (
            "lib.rs",
            "#[cfg(unix)]\nmod sys;\n#[cfg(not(unix))]\n#[path = \"other.rs\"]\nmod sys;\nmod a;",
        ),
        ("sys.rs", "pub struct S;"),
        ("other.rs", "pub struct S;"),
        ("a.rs", "use crate::sys::S;"),
    ]);
    assert_eq!(pairs(&imports), ["a.rs:1 -> other.rs", "a.rs:1 -> sys.rs"]);
}
