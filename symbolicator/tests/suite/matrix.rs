//! Functions, files, lines and inlined calls of every way to store debug info, against llvm-symbolizer, and elfutils
//! where it knows more.
//!
//! llvm-symbolizer reads the program before it was stripped, packed or split apart, which changes no code.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{self, Built, build, have, module, run};
use crate::reference::{Reader, Reference};
use object::{CompressionFormat, Object, ObjectSection};

/// A copy beside the program, which stays as it is.
fn copy(built: &Built, name: &str) -> PathBuf {
    let path = built.dir.path().join(name);
    std::fs::copy(&built.path, &path).unwrap();
    path
}

/// Stores what a compiler made in every way that needs no other flags of the compiler. elfutils 0.188 reads what dwz
/// made of gcc's units; it has no functions of units without `.debug_aranges` (clang's), and none in namespaces
/// (rustc's).
fn every_way(what: &str, built: &Built, is_gcc: bool) -> Reference {
    let reference = Reference::of(&built.path, &built.path);
    reference.compare(what, &built.path, &[]);

    for (option, format) in [
        ("zlib", CompressionFormat::Zlib),
        ("zstd", CompressionFormat::Zstandard),
    ] {
        let packed = copy(built, option);
        run("objcopy", &[&format!("--compress-debug-sections={option}"), &packed]);
        assert!(compression(&packed) == format, "{what}, {option}");
        reference.compare(&format!("{what}, {option}"), &packed, &[]);
    }

    let debug = built.dir.path().join("debug");
    run("objcopy", &[&"--only-keep-debug", &built.path, &debug]);
    let id = module(&built.path).build_id.unwrap().to_hex();
    let ids = built.dir.path().join("ids");
    let by_id = ids.join(".build-id").join(&id[..2]);
    std::fs::create_dir_all(&by_id).unwrap();
    std::fs::copy(&debug, by_id.join(format!("{}.debug", &id[2..]))).unwrap();
    let stripped = copy(built, "stripped");
    run("strip", &[&"--strip-all", &stripped]);
    reference.compare(&format!("{what}, by build id"), &stripped, &[&ids]);

    run(
        "objcopy",
        &[&format!("--add-gnu-debuglink={}", debug.display()), &stripped],
    );
    reference.compare(&format!("{what}, by debug link"), &stripped, &[]);

    let (one, two) = (copy(built, "dwz1"), copy(built, "dwz2"));
    let common_file = built.dir.path().join("common");
    let args: [&dyn AsRef<OsStr>; 4] = [&"-m", &common_file, &one, &two];
    let output = Command::new("dwz").args(args).output().unwrap();
    if has_section(&one, ".gnu_debugaltlink") {
        let what = format!("{what}, dwz");
        reference.compare(&what, &one, &[]);
        if is_gcc {
            let both = reference.clone().and(Reader::Elfutils, &one);
            both.compare(&format!("{what}, elfutils"), &one, &[]);
        }
    } else {
        // dwz 0.15 does not know the sections of DWARF 5 that LLVM writes, and leaves such files as they are.
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        let is_unknown = |section: &str| {
            has_section(&one, section) && words.contains(&format!("Unknown debugging section {section}"))
        };
        assert!(
            !is_gcc
                && [".debug_addr", ".debug_str_offsets"]
                    .iter()
                    .any(|section| is_unknown(section)),
            "{what}: {words}"
        );
        println!("{what}, dwz: {}", words.lines().next().unwrap());
    }
    reference
}

/// How the debug info is stored.
fn compression(path: &Path) -> CompressionFormat {
    let bytes = std::fs::read(path).unwrap();
    let object = object::File::parse(&*bytes).unwrap();
    let section = object.section_by_name(".debug_info").unwrap();
    section.compressed_data().unwrap().format
}

fn has_section(path: &Path, name: &str) -> bool {
    let bytes = std::fs::read(path).unwrap();
    object::File::parse(&*bytes).unwrap().section_by_name(name).is_some()
}

/// (address, bytes) of the code.
fn code(file: &[u8]) -> (u64, &[u8]) {
    let object = object::File::parse(file).unwrap();
    let text = object.section_by_name(".text").unwrap();
    (text.address(), text.data().unwrap())
}

fn tools() -> bool {
    [
        "llvm-symbolizer",
        "eu-addr2line",
        "objcopy",
        "strip",
        "dwp",
        "llvm-dwp",
        "dwz",
    ]
    .iter()
    .all(|tool| have(tool))
}

fn is_clang(tool: &str) -> bool {
    tool.starts_with("clang")
}

/// Packs the `.dwo` files of `object`, which was linked to `program`, into a `.dwp` file beside the program, and
/// removes them.
///
/// binutils' dwp 2.40 crashes on DWARF 5. LLVM's (14 to 22) never ends with gcc's DWARF 5:
/// https://github.com/llvm/llvm-project/issues/203625. rustc packs what the objects that it links refer to, whoever
/// compiled them.
fn pack(tool: &str, version: &str, object: &Path, program: &Path) {
    let folder = program.parent().unwrap();
    let package = program.with_extension("dwp");
    match version {
        "-gdwarf-4" => common::run_in(folder, "dwp", &[&"-e", &program, &"-o", &package]),
        _ if is_clang(tool) => common::run_in(folder, "llvm-dwp", &[&"-e", &program, &"-o", &package]),
        _ => {
            let linked = folder.join("linked");
            let link = format!("-Clink-arg={}", object.display());
            let flags = [
                "-Cdebuginfo=1",
                "-Csplit-debuginfo=packed",
                "-Clink-arg=-lstdc++",
                &link,
            ];
            common::build_with("rustc", "only_c.rs", &flags, &linked);
            std::fs::rename(linked.with_extension("dwp"), &package).unwrap();
        }
    }
    let mut removed = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "dwo") {
            std::fs::remove_file(path).unwrap();
            removed += 1;
        }
    }
    assert!(removed > 0 && package.exists());
}

fn c_and_cpp(tool: &str, program: &str) {
    if !tools() {
        return;
    }
    for level in ["-O0", "-O2"] {
        for version in ["-gdwarf-4", "-gdwarf-5"] {
            let what = format!("{tool} {level} {version}");
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("program");
            common::build_with(tool, program, &[level, "-g", version], &path);
            let whole = std::fs::read(&path).unwrap();
            let reference = every_way(&what, &Built { dir, path }, !is_clang(tool));
            // The folder holds the `.dwo` files, too.
            let folder = tempfile::tempdir().unwrap();
            let (object, split) = (folder.path().join("split.o"), folder.path().join("split"));
            common::build_with(tool, program, &[level, "-g", version, "-gsplit-dwarf", "-c"], &object);
            run(tool, &[&object, &"-Wl,--build-id", &"-o", &split]);
            // The code is the same. llvm-symbolizer 14 does not find clang's `.dwo` files of DWARF 4.
            assert!(code(&whole) == code(&std::fs::read(&split).unwrap()), "{what}");
            reference.compare(&format!("{what}, dwo"), &split, &[]);
            pack(tool, version, &object, &split);
            reference.compare(&format!("{what}, dwp"), &split, &[]);
        }
    }
}

#[test]
#[ignore = "long: gcc's debug info of C++ has the same rules"]
fn debug_info_of_gcc_for_c() {
    c_and_cpp("cc", "matrix.c");
}

#[test]
fn debug_info_of_gcc_for_cpp() {
    c_and_cpp("c++", "matrix.cc");
}

#[test]
#[ignore = "long: rustc's debug info is LLVM's, too, and gcc's of C++ has the same rules"]
fn debug_info_of_clang() {
    if !have("clang++") {
        return;
    }
    c_and_cpp("clang", "matrix.c");
    c_and_cpp("clang++", "matrix.cc");
}

#[test]
fn debug_info_of_rustc() {
    if tools() {
        of_rustc("limited", "4");
        of_rustc("full", "5");
        of_rustc_split("unpacked", "5");
        of_rustc_split("packed", "4");
    }
}

#[test]
#[ignore = "long: the other versions and kinds have the same rules"]
fn all_debug_info_of_rustc() {
    if !tools() {
        return;
    }
    for version in ["4", "5"] {
        for kind in ["line-tables-only", "limited", "full"] {
            of_rustc(kind, version);
        }
        for split in ["unpacked", "packed"] {
            of_rustc_split(split, version);
        }
    }
}

fn of_rustc(kind: &str, version: &str) {
    let flags = [
        "--edition=2024",
        "-O",
        &format!("-Cdebuginfo={kind}"),
        &format!("-Cdwarf-version={version}"),
        "-Clink-arg=-Wl,--build-id",
    ];
    let what = format!("rustc {kind}, DWARF {version}");
    every_way(&what, &build("paths.rs", &flags), false);
}

fn of_rustc_split(split: &str, version: &str) {
    let flags = [
        "--edition=2024",
        "-O",
        "-Cdebuginfo=full",
        &format!("-Cdwarf-version={version}"),
        &format!("-Csplit-debuginfo={split}"),
    ];
    let built = build("paths.rs", &flags);
    Reference::of(&built.path, &built.path).compare(&format!("rustc, DWARF {version}, {split}"), &built.path, &[]);
}

/// Debian's libc is stripped. The package libc6-dbg has its debug info, compressed, under its build id; valgrind needs
/// it, too.
#[test]
fn debug_info_of_the_systems_libc() {
    let mapped = std::fs::read_to_string("/proc/self/maps").unwrap();
    let mut paths = mapped.lines().filter_map(|line| line.split_whitespace().nth(5));
    let Some(libc) = paths.find(|path| path.ends_with("/libc.so.6")) else {
        common::skip("this program has no libc of its own");
        return;
    };
    let libc = Path::new(libc);
    let id = module(libc).build_id.unwrap().to_hex();
    let debug = PathBuf::from(format!("/usr/lib/debug/.build-id/{}/{}.debug", &id[..2], &id[2..]));
    if !debug.exists() {
        common::skip("libc6-dbg is not installed");
        return;
    }
    if !tools() {
        return;
    }
    let reference = Reference::of(libc, &debug).and(Reader::Elfutils, libc);
    reference.compare("libc", libc, &[]);
}
