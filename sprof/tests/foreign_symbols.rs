//! Profiles of other systems, whose names are in symbol files of other systems. A file of its own: the features make
//! another sprof, and building all other tests with it again would take minutes.
#![allow(clippy::unwrap_used, reason = "a test ends where its premise fails")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

#[cfg(feature = "symbol-servers")]
#[path = "foreign_symbols/servers.rs"]
mod servers;

const ID: &str = "000102030405060708090A0B0C0D0E0F1";

/// The profile of a program of Windows as samply writes it: 30 samples in `work`, of which 20 are in a function that is
/// inlined in another one, and 10 in `start`.
fn recorded_on_windows(dir: &Path) -> PathBuf {
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/foreign_symbols/app.json");
    let path = dir.join("app.json");
    fs::copy(recorded, &path).unwrap();
    path
}

/// The Breakpad file of the program: `inner` is inlined in `work` at line 20.
fn breakpad() -> String {
    format!(
        "MODULE windows x86_64 {ID} app.pdb\n\
         FILE 0 /src/app.c\n\
         INLINE_ORIGIN 0 inner(int)\n\
         FUNC 1000 40 0 work(int)\n\
         INLINE 0 20 0 0 1010 10\n\
         1000 10 19 0\n\
         1010 10 7 0\n\
         1020 20 21 0\n\
         FUNC 1050 10 0 start()\n\
         1050 10 31 0\n"
    )
}

/// A folder with the Breakpad file.
fn symbols(dir: &Path) -> String {
    let folder = dir.join("symbols").join("app.pdb").join(ID);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("app.sym"), breakpad()).unwrap();
    dir.join("symbols").to_str().unwrap().to_owned()
}

fn temp_dir() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// `sprof`, away from the settings of the person who runs the tests.
fn sprof() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sprof"));
    let is_setting = |name: &str| name.starts_with("SPROF_") || name.to_ascii_lowercase().ends_with("_proxy");
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    for name in names.filter(|name| is_setting(name)) {
        command.env_remove(name);
    }
    command.env("SPROF_CACHE", "off");
    command
}

/// Standard output and standard error.
fn run(command: &mut Command) -> (String, String) {
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let (shown, said) = (text(output.stdout), text(output.stderr));
    assert!(output.status.success(), "{said}");
    (shown, said)
}

#[cfg(not(feature = "foreign-symbols"))]
#[test]
fn a_report_without_the_reader_names_the_feature() {
    let dir = temp_dir();
    let (file, symbols) = (recorded_on_windows(dir.path()), symbols(dir.path()));
    let build = "cargo install --locked --path sprof --features foreign-symbols";
    let (shown, said) = run(sprof().arg("report").arg(file).args(["--symbol-dir", &symbols, "-v"]));
    let named = |text: &str| text.lines().filter(|line| line.contains(build)).count();
    assert_eq!((named(&shown), named(&said)), (1, 1), "{shown}\n{said}");
}

#[cfg(not(feature = "symbol-servers"))]
#[test]
fn servers_need_their_feature() {
    let dir = temp_dir();
    let file = recorded_on_windows(dir.path());
    let url = "https://127.0.0.1:1";
    let output = sprof()
        .arg("report")
        .arg(file)
        .args(["--symbol-server", url])
        .env("SPROF_CACHE", dir.path())
        .output();
    let output = output.unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success(), "{said}");
    assert!(
        said.contains("cargo install --locked --path sprof --features symbol-servers"),
        "{said}"
    );
}

/// (function, file, line, samples in it alone) of the lines view.
#[cfg(feature = "foreign-symbols")]
fn lines(command: &mut Command) -> Vec<(String, String, u64, u64)> {
    let (shown, said) = run(command.args(["--view", "lines", "--format", "json"]));
    let report: serde_json::Value = serde_json::from_str(&shown).unwrap_or_else(|_| panic!("{shown}\n{said}"));
    let rows = report["views"][0]["rows"].as_array().unwrap().iter();
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let number = |value: &serde_json::Value| value.as_u64().unwrap_or_default();
    rows.map(|row| {
        (
            text(&row["function"]),
            text(&row["file"]),
            number(&row["line"]),
            number(&row["self"]["samples"]),
        )
    })
    .collect()
}

/// The truth about the profile.
#[cfg(feature = "foreign-symbols")]
fn named() -> Vec<(String, String, u64, u64)> {
    let rows = [
        ("inner(int)", 7, 20),
        ("work(int)", 21, 10),
        ("start()", 31, 0),
        ("work(int)", 20, 0),
    ];
    rows.map(|(function, line, own)| (function.to_owned(), "/src/app.c".to_owned(), line, own))
        .to_vec()
}

#[cfg(feature = "foreign-symbols")]
#[test]
fn a_report_has_names_lines_and_inlined_functions() {
    let dir = temp_dir();
    let (file, symbols) = (recorded_on_windows(dir.path()), symbols(dir.path()));
    let report = |folder: &str| lines(sprof().arg("report").arg(&file).args(["--symbol-dir", folder]));
    assert_eq!(report(&symbols), named());
    assert_eq!(nameless(&report("/nowhere")), 3);
}

/// Rows, all of which are addresses.
#[cfg(feature = "foreign-symbols")]
fn nameless(rows: &[(String, String, u64, u64)]) -> usize {
    assert!(rows.iter().all(|(function, ..)| function.starts_with("0x")), "{rows:?}");
    rows.len()
}
