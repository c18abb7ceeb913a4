//! Programs built at test time, and what is true of them.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may fail and talk")]

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use object::{Object, ObjectSegment, ObjectSymbol};
use recording::module::{BuildId, Module, ModuleKind};
use symbolicator::{SymbolOptions, Symbolicator};

/// Source file of a test program.
pub fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name)
}

/// True if the tool is there; says what is skipped if not.
pub fn have(tool: &str) -> bool {
    let found = Command::new(tool).arg("--version").output().is_ok();
    if !found {
        skip(&format!("{tool} is not installed"));
    }
    found
}

/// Says why a test is skipped. Where CI must run all tests, that is a failure.
pub fn skip(reason: &str) {
    assert!(std::env::var_os("SPROF_REQUIRE").is_none(), "{reason}");
    // Past the capture of the test runner: skipped tests are counted.
    let _ = writeln!(std::io::stderr(), "skipped: {reason}");
}

/// Runs a tool and fails with its words.
pub fn run(tool: &str, args: &[&dyn AsRef<std::ffi::OsStr>]) {
    run_in(Path::new("."), tool, args);
}

pub fn run_in(folder: &Path, tool: &str, args: &[&dyn AsRef<std::ffi::OsStr>]) {
    let output = Command::new(tool).args(args).current_dir(folder).output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{tool} failed: {words}");
}

/// A folder that goes away, with a program in it.
pub struct Built {
    pub dir: tempfile::TempDir,
    pub path: PathBuf,
}

/// Compiles with cc, c++ or rustc by the source's extension.
pub fn build(program: &str, flags: &[&str]) -> Built {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("program");
    build_at(program, flags, &path);
    Built { dir, path }
}

pub fn build_at(program: &str, flags: &[&str], path: &Path) {
    let tool = match Path::new(program).extension().and_then(|e| e.to_str()) {
        Some("c" | "s") => "cc",
        Some("cc") => "c++",
        _ => "rustc",
    };
    build_with(tool, program, flags, path);
}

pub fn build_with(tool: &str, program: &str, flags: &[&str], path: &Path) {
    let source = source(program);
    let mut command = Command::new(tool);
    // Lets a stable rustc choose the legacy mangling, which its flag calls unstable.
    command.env("RUSTC_BOOTSTRAP", "1");
    // First, so that a test may ask for none.
    if tool != "rustc" {
        command.arg("-Wl,--build-id");
    }
    command.args(flags).arg(&source).arg("-o").arg(path);
    // clang writes `.dwo` files to where it runs.
    command.current_dir(path.parent().unwrap());
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{tool} failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// The module as the recorder would register it.
pub fn module(path: &Path) -> Module {
    let bytes = std::fs::read(path).unwrap();
    let object = object::File::parse(&*bytes).unwrap();
    Module {
        kind: ModuleKind::File,
        path: path.to_owned(),
        readable_path: None,
        build_id: object.build_id().unwrap().map(|id| BuildId(id.to_vec())),
        arch: Some("x86_64"),
    }
}

pub fn symbolicator(symbol_dirs: &[&Path]) -> Symbolicator {
    Symbolicator::new(SymbolOptions {
        symbol_dirs: symbol_dirs.iter().map(|dir| dir.to_path_buf()).collect(),
        ..SymbolOptions::default()
    })
}

/// (relative address, size) of a function whose symbol contains `name`, by `object`, not by the code under test.
pub fn function(path: &Path, name: &str) -> (u64, u64) {
    let bytes = std::fs::read(path).unwrap();
    let object = object::File::parse(&*bytes).unwrap();
    let base = object.segments().map(|segment| segment.address()).min().unwrap();
    let symbol = object
        .symbols()
        .find(|symbol| symbol.name().is_ok_and(|found| found.contains(name)) && symbol.size() > 0)
        .unwrap_or_else(|| panic!("{name} is in {}", path.display()));
    (symbol.address() - base, symbol.size())
}
