//! Builds the programs under `tests/programs`, each variant once per test run, into cargo's directory for tests.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::skip::{Need, has};
use super::{machine, tests_dir};

/// No frame pointers, full debug info, optimised: what people record.
const C_FLAGS: &[&str] = &["-O2", "-g", "-fomit-frame-pointer"];

/// The path of a built program by the name of its variant, or `None` (after saying so) where it can't be built here.
pub(crate) fn program(name: &str) -> Option<PathBuf> {
    machine::share();
    let c = |source: &str, flags: &[&str]| build("cc", source, name, &[C_FLAGS, flags].concat());
    match name {
        "versions" | "rounds" | "deep" | "sighandler" | "processes" | "reader" | "exits" | "callback" | "gaps"
        | "jit" | "jit_entries" | "refuse" | "work" | "events" | "beats" | "memory" | "large" | "bpf" | "chain"
        | "copied_text" | "heap_own" | "pauses" | "spawns" | "stacks" | "swap" | "title" => {
            c(&format!("{name}.c"), &[])
        }
        "heap_own_malloc" => c("heap_own.c", &["-DOWN_MALLOC"]),
        // Frames of 64 bytes, and of 1 KiB.
        "deep_small" => c("deep.c", &["-DFRAME_BYTES=40"]),
        "deep_large" => c("deep.c", &["-DFRAME_BYTES=1000"]),
        "span_files" | "grows" | "heap" | "heap_forged" | "resources" | "split" | "threads" | "traced" | "waits"
        | "pingpong" | "parallel" | "yields" | "attached" => c(&format!("{name}.c"), &["-pthread"]),
        // A static program starts in a tenth of the time under valgrind. A mark for indirect branches is an
        // instruction.
        "instructions" => c("instructions.c", &["-static"]),
        "libjemalloc.so" => c("own_new.c", &["-shared", "-fPIC", "-DLIBRARY"]),
        "own_new" => c("own_new.c", &[program("libjemalloc.so")?.to_str()?]),
        // As compiled: no call becomes a jump.
        "calls" => c("calls.c", &["-fno-optimize-sibling-calls", "-fno-inline"]),
        "jit_rules" => c("jit_rules.c", &[]),
        "probes" => c("probes.c", &["-pthread"]),
        "probes_endbr" => c("probes.c", &["-pthread", "-fcf-protection=full"]),
        "dlopen" | "memory_file" | "shared_memory" => c(&format!("{name}.c"), &["-ldl"]),
        "library.so" => c("library.c", &["-shared", "-fPIC"]),
        "preloaded.so" => c("preloaded.c", &["-shared", "-fPIC"]),
        "heap_asan" | "heap_lsan" | "heap_tsan" => {
            let sanitizer = match name {
                "heap_asan" => "-fsanitize=address",
                "heap_lsan" => "-fsanitize=leak",
                _ => "-fsanitize=thread",
            };
            let flags = [C_FLAGS, &["-pthread", sanitizer]].concat();
            let path = try_build("cc", "heap.c", name, &flags);
            has(Need::Sanitizers, path.is_ok(), &format!("cc has no {sanitizer}")).then(|| path.unwrap())
        }
        // No unwind tables of any kind, no debug info: only the frame pointer leads out of it.
        "library_frame_pointer.so" => {
            let flags = [
                "-O2",
                "-shared",
                "-fPIC",
                "-fno-asynchronous-unwind-tables",
                "-fno-omit-frame-pointer",
            ];
            build("cc", "library.c", name, &flags)
        }
        "split_frame_pointer" => {
            let flags = [
                "-O2",
                "-pthread",
                "-fno-asynchronous-unwind-tables",
                "-fno-omit-frame-pointer",
            ];
            build("cc", "split.c", name, &flags)
        }
        "split_static" | "heap_static" => {
            let (source, kind) = match name {
                "heap_static" => ("heap.c", &["-static-pie", "-pthread"][..]),
                _ => ("split.c", &["-static", "-no-pie", "-pthread"][..]),
            };
            let path = try_build("cc", source, name, &[C_FLAGS, kind].concat());
            has(Need::StaticLibc, path.is_ok(), "no static libc to link with").then(|| path.unwrap())
        }
        "split_musl" => musl("split.c", name, &["-static"]),
        "sorts_musl_static" => musl("sorts.c", name, &["-static"]),
        "sorts_musl" => musl("sorts.c", name, &[]),
        // As Alpine's: nothing but code.
        "sorts_musl_stripped" => {
            let flags = [
                "-static",
                "-Os",
                "-s",
                "-fno-asynchronous-unwind-tables",
                "-fno-unwind-tables",
            ];
            musl("sorts.c", name, &flags)
        }
        "chain_musl" => musl("chain.c", name, &[]),
        "spawns_musl" => musl("spawns.c", name, &[]),
        "split_go" | "pprof_go" | "runtime_go" => {
            let source = format!("{}.go", name.trim_end_matches("_go"));
            let path = try_go(&source, name);
            has(Need::Go, path.is_ok(), "no Go compiler").then(|| path.unwrap())
        }
        // Without a C library of 32 bits.
        "spin_32" | "spin_32_loaded" => {
            let kind = match name {
                "spin_32" => &["-static", "-fno-pic"][..],
                // That C library's loader starts it.
                _ => &["-pie", "-fpie", "-Wl,--dynamic-linker=/lib/ld-linux.so.2"],
            };
            let flags = [&["-m32", "-O1", "-g", "-nostdlib", "-fno-stack-protector"], kind].concat();
            let path = try_build("cc", "spin32.c", name, &flags);
            let runs = path
                .as_ref()
                .is_ok_and(|path| Command::new(path).status().is_ok_and(|status| status.success()));
            let reason = format!("{name} can't be built or run here (Debian: libc6-i386)");
            has(Need::Bits32, runs, &reason).then(|| path.unwrap())
        }
        "split_lld" => {
            let Some(lld) = rust_lld() else {
                has(Need::Lld, false, "this Rust toolchain has no lld");
                return None;
            };
            let folder = format!("-B{}", lld.display());
            c("split.c", &["-pthread", &folder, "-fuse-ld=lld"])
        }
        "split_without_build_id" => c("split.c", &["-pthread", "-Wl,--build-id=none"]),
        "builtin" => c("builtin.c", &["-no-pie"]),
        "callback_without_build_id" => c("callback.c", &["-Wl,--build-id=none"]),
        "split_stripped" => c("split.c", &["-pthread", "-s"]),
        "split_no_debug" => build("cc", "split.c", name, &["-O2", "-pthread", "-fomit-frame-pointer"]),
        "split_debug_frame" => {
            // `.debug_frame` instead of `.eh_frame`.
            let flags = [
                "-O2",
                "-g",
                "-pthread",
                "-fomit-frame-pointer",
                "-fno-asynchronous-unwind-tables",
            ];
            build("cc", "split.c", name, &flags)
        }
        "inline_dwarf4" => c("inline.c", &["-gdwarf-4"]),
        "several_files_dwarf4" => c("several_files.c", &["-gdwarf-4"]),
        "several_files_dwarf5" => c("several_files.c", &["-gdwarf-5"]),
        "inline_dwarf5" => c("inline.c", &["-gdwarf-5"]),
        "names" | "costs" => {
            let path = try_build("c++", &format!("{name}.cpp"), name, C_FLAGS);
            has(Need::Cxx, path.is_ok(), "no C++ compiler").then(|| path.unwrap())
        }
        "called" => {
            let path = try_build("c++", "called.cpp", name, &[C_FLAGS, &["-pthread"]].concat());
            has(Need::Cxx, path.is_ok(), "no C++ compiler").then(|| path.unwrap())
        }
        "scopes" => {
            // clang writes the parameters of templates into the names of lambdas, as the ABI has them.
            let flags = [C_FLAGS, &["-std=c++20"]].concat();
            let path = try_build("clang++", "scopes.cpp", name, &flags);
            let path = path.or_else(|_| try_build("c++", "scopes.cpp", name, &flags));
            has(Need::Cxx, path.is_ok(), "no C++ compiler").then(|| path.unwrap())
        }
        "split_rs" | "panic_rs" | "inline_rs" | "costs_rs" | "heap_costs_rs" => {
            let source = format!("{}.rs", name.trim_end_matches("_rs"));
            build("rustc", &source, name, &["--edition=2024", "-O", "-g"])
        }
        "spans_rs" | "records_itself_rs" => {
            let options = [
                "--edition=2021",
                "-O",
                "--crate-name=sprof_spans",
                "--crate-type=rlib",
                "--cfg=feature=\"std\"",
            ];
            let library = build("rustc", "../../../spans/src/lib.rs", "libsprof_spans.rlib", &options)?;
            let library = format!("--extern=sprof_spans={}", library.display());
            let source = format!("{}.rs", name.trim_end_matches("_rs"));
            build("rustc", &source, name, &["--edition=2024", "-O", "-g", &library])
        }
        "spans_gcc" | "spans_clang" | "spans_gxx" | "spans_clangxx" => {
            let include = format!("-I{}", tests_dir().join("../../spans/include").display());
            let (compiler, language) = match name {
                "spans_gcc" => ("cc", &["-std=gnu99"][..]),
                "spans_clang" => ("clang", &[][..]),
                "spans_gxx" => ("c++", &["-std=c++11"][..]),
                _ => ("clang++", &["-std=c++20", "-Wno-deprecated"][..]),
            };
            let warnings = ["-Wall", "-Wextra", "-Werror"];
            let flags = [C_FLAGS, language, &warnings, &["-pthread", &include]].concat();
            let path = try_build(compiler, "spans.c", name, &flags);
            let is_there = Command::new(compiler).arg("--version").output().is_ok();
            has(Need::Cxx, is_there, compiler).then(|| path.unwrap_or_else(|error| panic!("{error}")))
        }
        "split_rs_debug" => build("rustc", "split.rs", name, &["--edition=2024", "-g"]),
        "inline_rs_v0" => build(
            "rustc",
            "inline.rs",
            name,
            &["--edition=2024", "-O", "-g", "-Csymbol-mangling-version=v0"],
        ),
        other => panic!("no test program is called {other}"),
    }
}

/// Copies a program to be executed, by another process. A child that another test starts while this process writes has
/// the open file until it executes its own program, and a file that is open to be written can't be executed (ETXTBSY in
/// execve(2)).
pub(crate) fn copy_program(from: impl AsRef<Path>, to: impl AsRef<Path>) {
    let status = Command::new("cp").arg(from.as_ref()).arg(to.as_ref()).status();
    assert!(status.unwrap().success(), "cp {}", from.as_ref().display());
}

/// A command of a shell: waits until the program that it started last has had 50 ms of CPU time (field 14 of
/// proc_pid_stat(5)). Before that the program may not be there, or may be the shell.
pub(crate) const ONCE_IT_WORKS: &str = r#"until [ "$(cut -d' ' -f14 /proc/$!/stat)" -gt 4 ]; do sleep 0.01; done"#;

/// The build id of an ELF file, in hexadecimal digits.
pub(crate) fn build_id_of(path: &Path) -> String {
    let output = Command::new("readelf").arg("-n").arg(path).output().unwrap();
    let notes = String::from_utf8(output.stdout).unwrap();
    let (_, id) = notes.split_once("Build ID: ").unwrap();
    id.split_whitespace().next().unwrap().to_owned()
}

/// The line of `marker` in the comments of a program's source.
pub(crate) fn line_of(source: &str, marker: &str) -> u32 {
    let text = std::fs::read_to_string(tests_dir().join("programs").join(source)).unwrap();
    let at = text
        .lines()
        .position(|line| line.ends_with(&format!("// {marker}")))
        .unwrap();
    u32::try_from(at + 1).unwrap()
}

/// musl has no unwind tables.
fn musl(source: &str, name: &str, flags: &[&str]) -> Option<PathBuf> {
    let path = try_build("musl-gcc", source, name, &[C_FLAGS, &["-pthread"], flags].concat());
    has(Need::Musl, path.is_ok(), "no musl-gcc").then(|| path.unwrap())
}

fn build(compiler: &str, source: &str, name: &str, flags: &[&str]) -> Option<PathBuf> {
    Some(try_build(compiler, source, name, flags).unwrap_or_else(|error| panic!("{error}")))
}

/// Compiles to a temporary name and renames: tests in other processes may be about to use the file.
fn try_build(compiler: &str, source: &str, name: &str, flags: &[&str]) -> Result<PathBuf, String> {
    let source = tests_dir().join("programs").join(source);
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("programs");
    std::fs::create_dir_all(&dir).unwrap();
    let lock = std::fs::File::create(dir.join(format!(".{name}.lock"))).unwrap();
    lock.lock().unwrap();

    let output = dir.join(name);
    let changed = |path: &Path| path.metadata().and_then(|meta| meta.modified()).ok();
    let of_spans = |path: &str| changed(&tests_dir().join("../../spans").join(path));
    let newest_of_spans = [
        "include/sprof.h",
        "src/lib.rs",
        "src/format.rs",
        "src/backend/mod.rs",
        "src/recording/mod.rs",
    ]
    .map(of_spans)
    .into_iter()
    .max();
    let newest_source = changed(&source).max(changed(&source.with_file_name("common.h"))).max(
        newest_of_spans
            .flatten()
            .filter(|_| name.contains("spans") || name == "records_itself_rs"),
    );
    if changed(&output) > newest_source && changed(&output) > changed(&tests_dir().join("suite/support/programs.rs")) {
        return Ok(output);
    }
    let fresh = dir.join(format!(".{name}.new"));
    let result = Command::new(compiler)
        .arg(&source)
        .args(flags)
        .arg("-o")
        .arg(&fresh)
        .output()
        .map_err(|error| format!("{compiler}: {error}"))?;
    if !result.status.success() {
        return Err(format!(
            "{compiler} {}: {}",
            source.display(),
            String::from_utf8_lossy(&result.stderr)
        ));
    }
    std::fs::rename(&fresh, &output).unwrap();
    Ok(output)
}

fn try_go(source: &str, name: &str) -> Result<PathBuf, String> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("programs");
    std::fs::create_dir_all(&folder).unwrap();
    let lock = std::fs::File::create(folder.join(format!(".{name}.lock"))).unwrap();
    lock.lock().unwrap();
    let output = folder.join(name);
    let result = Command::new("go")
        .args(["build", "-o"])
        .arg(&output)
        .arg(tests_dir().join("programs").join(source))
        .env("GOCACHE", folder.join("go-cache"))
        .env("GO111MODULE", "off")
        .output()
        .map_err(|error| format!("go: {error}"))?;
    match result.status.success() {
        true => Ok(output),
        false => Err(String::from_utf8_lossy(&result.stderr).into_owned()),
    }
}

/// The folder with the `ld.lld` that comes with rustc.
fn rust_lld() -> Option<PathBuf> {
    let output = Command::new("rustc").args(["--print", "sysroot"]).output().ok()?;
    let sysroot = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
    let host = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let folder = sysroot.join("lib/rustlib").join(host).join("bin/gcc-ld");
    folder.join("ld.lld").exists().then_some(folder)
}
