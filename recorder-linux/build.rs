//! Builds the library that is loaded into programs whose heap is recorded (`src/heap/preload/`), for the crate to
//! embed. It needs no more than rustc: the library uses `core` alone.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const SOURCE: &str = "src/heap/preload/lib.rs";

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/heap");
    // The crate is empty elsewhere.
    if env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os != "linux") {
        return ExitCode::SUCCESS;
    }
    match build() {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            println!("cargo::error=cannot build the library that records the heap of programs ({SOURCE}): {reason}");
            ExitCode::FAILURE
        }
    }
}

fn build() -> Result<(), String> {
    let library = PathBuf::from(variable("OUT_DIR")?).join("sprof-heap.so");
    // docs.rs runs nothing.
    if env::var_os("DOCS_RS").is_some() {
        return std::fs::write(&library, []).map_err(|error| format!("{}: {error}", library.display()));
    }
    let rustc = variable("RUSTC")?;
    // Clippy, and what `.ci/rustc` adds to it. What it builds is less optimized, and is not used.
    if let Some(clippy) = env::var_os("RUSTC_WORKSPACE_WRAPPER").filter(|wrapper| !wrapper.is_empty()) {
        let mut check = Command::new(clippy);
        check.arg(&rustc).arg("--emit=metadata").arg("-Dwarnings");
        run(check, &library.with_extension("rmeta"))?;
    }
    let mut compile = Command::new(&rustc);
    compile.args([
        "-Copt-level=3",
        "-Ccodegen-units=1",
        "-Clto=fat",
        // Functions have names: samples in the library show what it costs.
        "-Cstrip=debuginfo",
        "-Clink-self-contained=no",
    ]);
    let link_args = [
        "-znow",
        "-zrelro",
        "-znodelete",
        // glibc calls the constructor before those of other libraries.
        "-zinitfirst",
        "-soname=sprof-heap.so",
        "--hash-style=gnu",
        "--no-undefined",
    ];
    if has_own_linker(&rustc) {
        compile.args(["-Clinker=rust-lld", "-Clinker-flavor=ld.lld"]);
        compile.args(link_args.map(|arg| format!("-Clink-arg={arg}")));
    } else {
        if let Ok(linker) = env::var("RUSTC_LINKER") {
            compile.arg(format!("-Clinker={linker}"));
        }
        compile.args(["-Clink-arg=-nostdlib", "-Clink-arg=-nostartfiles"]);
        compile.args(link_args.map(|arg| format!("-Clink-arg=-Wl,{arg}")));
    }
    run(compile, &library)
}

/// Whether rustc has a linker for all systems beside it, as rustup's has.
fn has_own_linker(rustc: &str) -> bool {
    let host = env::var("HOST").unwrap_or_default();
    let sysroot = Command::new(rustc).args(["--print", "sysroot"]).output();
    sysroot.is_ok_and(|output| {
        let sysroot = String::from_utf8_lossy(&output.stdout).trim_end().to_owned();
        Path::new(&sysroot)
            .join("lib/rustlib")
            .join(host)
            .join("bin/rust-lld")
            .exists()
    })
}

fn run(mut compiler: Command, output: &Path) -> Result<(), String> {
    compiler.args([
        "--edition=2024",
        "--crate-type=cdylib",
        "--crate-name=sprof_heap",
        "-Cpanic=abort",
    ]);
    compiler
        .args(["-Cforce-unwind-tables=yes", "--target"])
        .arg(variable("TARGET")?);
    // With musl the default is a static library. Nothing of libc is linked, so the same file works with each.
    compiler.arg("-Ctarget-feature=-crt-static");
    // Functions for atomics that would ask libc which instructions the processor has.
    if variable("CARGO_CFG_TARGET_ARCH")? == "aarch64" {
        compiler.arg("-Ctarget-feature=-outline-atomics");
    }
    compiler.arg("-o").arg(output).arg(SOURCE);
    match compiler.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("rustc: {status}")),
        Err(error) => Err(format!("{}: {error}", compiler.get_program().to_string_lossy())),
    }
}

fn variable(name: &str) -> Result<String, String> {
    env::var(name).map_err(|error| format!("{name}: {error}"))
}
