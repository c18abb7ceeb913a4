//! Functions, files, lines and inlined calls of every way to store debug info, against llvm-symbolizer.
//!
//! The reference reads the program before it was stripped, packed or split apart, which changes no code.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may fail and talk")]

mod common;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::{Built, build, have, module, run, symbolicator};
use object::{Object, ObjectSection, ObjectSymbol};
use recording::rust_name::{readable, with_path};
use recording::symbol::AddressInfo;
use symbolicator::demangle;

/// A frame: function, file, line. An unknown line is 0.
type Shape = (String, String, u32);

/// Frames at each address, innermost first.
fn by_llvm(path: &Path, svmas: &[u64]) -> Vec<Vec<Shape>> {
    let mut llvm = Command::new("llvm-symbolizer")
        .args(["--inlining", "--no-demangle", "--output-style=LLVM", "--obj"])
        .arg(path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = llvm.stdin.take().unwrap();
    let asked: String = svmas.iter().map(|svma| format!("{svma:#x}\n")).collect();
    let writer = std::thread::spawn(move || stdin.write_all(asked.as_bytes()));
    let output = llvm.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let answers = text.split("\n\n").filter(|answer| !answer.is_empty());
    let frame = |lines: &[&str]| {
        // `file:line:column`
        let mut place = lines[1].rsplitn(3, ':');
        let line = place.nth(1).unwrap().parse().unwrap();
        (demangle(lines[0]), place.next().unwrap().to_owned(), line)
    };
    let answers: Vec<Vec<Shape>> = answers
        .map(|answer| answer.lines().collect::<Vec<_>>().chunks(2).map(frame).collect())
        .collect();
    assert_eq!(answers.len(), svmas.len(), "{}", path.display());
    answers
}

fn shape(info: &AddressInfo) -> Vec<Shape> {
    let frames = info.frames.iter().map(|frame| {
        let name = frame.function.clone().unwrap_or_default();
        (name, frame.file.clone().unwrap_or_default(), frame.line.unwrap_or(0))
    });
    frames.collect()
}

/// Names are the same, but for what ours adds or leaves out on purpose.
fn is_same_name(ours: &str, theirs: &str) -> bool {
    let (ours, theirs) = (without_part(ours), without_part(theirs));
    // The path or the scope, which the debug info may lack.
    let has_scope = || {
        let (before, after) = ours.split_once(theirs)?;
        Some((before.is_empty() || before.ends_with("::")) && (after.is_empty() || after.starts_with(['(', '<', '['])))
    };
    // The state machine of an `async fn`, and a block.
    let of_async = || {
        let of = theirs
            .strip_suffix("::{closure#0}")
            .or_else(|| theirs.strip_suffix("::{closure}"))?;
        let rest = ours.strip_prefix(of)?;
        Some(rest.is_empty() || rest.starts_with("::{async_block"))
    };
    ours == theirs
        || readable(theirs) == ours
        || with_path(theirs, ours).as_deref() == Some(ours)
        || !theirs.is_empty() && has_scope() == Some(true)
        || of_async() == Some(true)
}

/// Without what the compiler adds to the symbols of copies and parts of a function: the reference prefers symbols.
fn without_part(name: &str) -> &str {
    let name = name.split(" [clone").next().unwrap();
    let end = [".cold", ".constprop", ".isra", ".part"]
        .iter()
        .filter_map(|part| name.find(part))
        .min();
    if name == "??" {
        ""
    } else {
        &name[..end.unwrap_or(name.len())]
    }
}

/// What llvm-symbolizer says of a program.
struct Reference {
    base: u64,
    svmas: Vec<u64>,
    answers: Vec<Vec<Shape>>,
    /// (start, end, name) of all functions. The linker makes one of several with the same code: each name is right then.
    symbols: Vec<(u64, u64, String)>,
}

impl Reference {
    fn of(path: &Path) -> Reference {
        const ADDRESSES: u64 = 1000;
        let bytes = std::fs::read(path).unwrap();
        let object = object::File::parse(&*bytes).unwrap();
        let text = object.section_by_name(".text").unwrap();
        // An odd step visits all alignments.
        let step = (text.size() / ADDRESSES) | 1;
        let svmas: Vec<u64> = (text.address()..text.address() + text.size())
            .step_by(step as usize)
            .collect();
        let symbols = object.symbols().filter(|symbol| symbol.size() > 0).map(|symbol| {
            let name = demangle(symbol.name().unwrap());
            (symbol.address(), symbol.address() + symbol.size(), name)
        });
        Reference {
            base: object.relative_address_base(),
            answers: by_llvm(path, &svmas),
            symbols: symbols.collect(),
            svmas,
        }
    }

    fn is_same(&self, svma: u64, ours: &[Shape], theirs: &[Shape]) -> bool {
        let alias = |name: &str| {
            (self.symbols.iter()).any(|(start, end, symbol)| (*start..*end).contains(&svma) && symbol == name)
        };
        let outermost = ours.len().saturating_sub(1);
        let is_same = |(depth, (ours, theirs)): (usize, (&Shape, &Shape))| {
            let is_named = is_same_name(&ours.0, &theirs.0) || depth == outermost && alias(&ours.0);
            is_named && (&ours.1, ours.2) == (&theirs.1, theirs.2)
        };
        ours.len() == theirs.len() && ours.iter().zip(theirs).enumerate().all(is_same)
    }

    /// Compares the answers for the program, stored in this way.
    fn compare(&self, what: &str, program: &Path, dirs: &[&Path]) {
        let relative: Vec<u64> = self.svmas.iter().map(|svma| svma - self.base).collect();
        let symbolicator = symbolicator(dirs);
        let ours = symbolicator.lookup(&module(program), &relative).unwrap();
        let (mut same, mut different) = (0, Vec::new());
        for ((svma, ours), theirs) in self.svmas.iter().zip(&ours).zip(&self.answers) {
            let ours = shape(ours);
            // Without debug info the reference has the symbol, and the file that the symbol table names, without a line.
            if ours.is_empty() && theirs.iter().all(|(_, _, line)| *line == 0) {
                continue;
            }
            match self.is_same(*svma, &ours, theirs) {
                true => same += 1,
                false => different.push(format!("{svma:#x}\n  ours   {ours:?}\n  theirs {theirs:?}")),
            }
        }
        println!("{what}: {same} same, {} different", different.len());
        different.truncate(3);
        assert!(
            same > 100 && different.is_empty(),
            "{what}: {same} same; {}\n{:?}",
            different.join("\n"),
            symbolicator.notes(&module(program))
        );
    }
}

/// A copy beside the program, which stays as it is.
fn copy(built: &Built, name: &str) -> PathBuf {
    let path = built.dir.path().join(name);
    std::fs::copy(&built.path, &path).unwrap();
    path
}

/// Stores what a compiler made in every way that needs no other flags of the compiler.
fn every_way(what: &str, built: &Built) -> Reference {
    let reference = Reference::of(&built.path);
    reference.compare(what, &built.path, &[]);

    let packed = copy(built, "zlib");
    run("objcopy", &[&"--compress-debug-sections=zlib", &packed]);
    reference.compare(&format!("{what}, zlib"), &packed, &[]);

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

    // dwz 0.15 does not know the sections of DWARF 5 that LLVM writes, and leaves such files as they are.
    let bytes = std::fs::read(&built.path).unwrap();
    let object = object::File::parse(&*bytes).unwrap();
    if object.section_by_name(".debug_addr").is_none() && object.section_by_name(".debug_str_offsets").is_none() {
        let (one, two) = (copy(built, "dwz1"), copy(built, "dwz2"));
        let common_file = built.dir.path().join("common");
        run("dwz", &[&"-m", &common_file, &one, &two]);
        reference.compare(&format!("{what}, dwz"), &one, &[]);
    }
    reference
}

/// (address, bytes) of the code.
fn code(file: &[u8]) -> (u64, &[u8]) {
    let object = object::File::parse(file).unwrap();
    let text = object.section_by_name(".text").unwrap();
    (text.address(), text.data().unwrap())
}

fn tools() -> bool {
    ["llvm-symbolizer", "objcopy", "strip", "dwp", "dwz"]
        .iter()
        .all(|tool| have(tool))
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
            let reference = every_way(&what, &Built { dir, path });
            // The folder holds the `.dwo` files, too.
            let folder = tempfile::tempdir().unwrap();
            let split = folder.path().join("split");
            common::build_with(tool, program, &[level, "-g", version, "-gsplit-dwarf"], &split);
            // The code is the same. llvm-symbolizer 14 does not find clang's `.dwo` files of DWARF 4.
            assert!(code(&whole) == code(&std::fs::read(&split).unwrap()), "{what}");
            reference.compare(&format!("{what}, dwo"), &split, &[]);
            // binutils' dwp knows no DWARF 5, and llvm-dwp 14 never ends with gcc's. rustc packs both versions by itself.
            if version == "-gdwarf-4" {
                common::run_in(folder.path(), "dwp", &[&"-e", &split, &"-o", &"split.dwp"]);
                for file in std::fs::read_dir(folder.path()).unwrap() {
                    let path = file.unwrap().path();
                    if path.extension().is_some_and(|extension| extension == "dwo") {
                        std::fs::remove_file(path).unwrap();
                    }
                }
                reference.compare(&format!("{what}, dwp"), &split, &[]);
            }
        }
    }
}

#[test]
fn debug_info_of_gcc_for_c() {
    c_and_cpp("cc", "matrix.c");
}

#[test]
fn debug_info_of_gcc_for_cpp() {
    c_and_cpp("c++", "matrix.cc");
}

#[test]
fn debug_info_of_clang() {
    if !have("clang++") {
        return;
    }
    c_and_cpp("clang", "matrix.c");
    c_and_cpp("clang++", "matrix.cc");
}

#[test]
fn debug_info_of_rustc() {
    if !tools() {
        return;
    }
    for version in ["4", "5"] {
        for kind in ["line-tables-only", "limited", "full"] {
            let flags = [
                "--edition=2024",
                "-O",
                &format!("-Cdebuginfo={kind}"),
                &format!("-Cdwarf-version={version}"),
                "-Clink-arg=-Wl,--build-id",
            ];
            let what = format!("rustc {kind}, DWARF {version}");
            every_way(&what, &build("paths.rs", &flags));
        }
        for split in ["unpacked", "packed"] {
            let flags = [
                "--edition=2024",
                "-O",
                "-Cdebuginfo=full",
                &format!("-Cdwarf-version={version}"),
                &format!("-Csplit-debuginfo={split}"),
            ];
            let built = build("paths.rs", &flags);
            Reference::of(&built.path).compare(&format!("rustc, DWARF {version}, {split}"), &built.path, &[]);
        }
    }
}
