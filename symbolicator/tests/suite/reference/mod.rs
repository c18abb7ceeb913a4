//! What other readers of debug info say of a program, and how that compares with ours.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    unreachable_pub,
    reason = "a test may fail and talk"
)]

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use names::rust_name::{readable, with_path};
use names::symbol::AddressInfo;
use object::{Object, ObjectSection, ObjectSymbol};
use recording::module::Module;
use symbolicator::demangle;

use crate::common::{module, symbolicator};

/// A frame: function, file, line. An unknown line is 0.
type Shape = (String, String, u32);

/// The program that reads debug info.
#[derive(Clone, Copy)]
pub enum Reader {
    Llvm,
    /// elfutils. It alone reads the file that dwz moves common debug info to.
    Elfutils,
}

impl Reader {
    /// Frames at each address, innermost first.
    fn read(self, path: &Path, svmas: &[u64]) -> Vec<Vec<Shape>> {
        let mut command = match self {
            Reader::Llvm => {
                let mut llvm = Command::new("llvm-symbolizer");
                llvm.args(["--inlining", "--no-demangle", "--output-style=LLVM", "--obj"]);
                llvm
            }
            Reader::Elfutils => {
                let mut elfutils = Command::new("eu-addr2line");
                elfutils.args(["--addresses", "--functions", "--inlines", "--executable"]);
                elfutils
            }
        };
        let pipes = command.arg(path).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut reader = pipes.spawn().unwrap();
        let mut stdin = reader.stdin.take().unwrap();
        let asked: String = svmas.iter().map(|svma| format!("{svma:#x}\n")).collect();
        let writer = std::thread::spawn(move || stdin.write_all(asked.as_bytes()));
        let output = reader.wait_with_output().unwrap();
        writer.join().unwrap().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let answers: Vec<Vec<Shape>> = match self {
            Reader::Llvm => answers_of_llvm(&text),
            // An answer begins with its address.
            Reader::Elfutils => {
                let text = format!("\n{text}");
                let answers = text.split("\n0x").skip(1);
                answers.map(|answer| frames(answer.lines().skip(1))).collect()
            }
        };
        assert_eq!(answers.len(), svmas.len(), "{}", path.display());
        answers
    }
}

fn answers_of_llvm(text: &str) -> Vec<Vec<Shape>> {
    let answers = text.split("\n\n").filter(|answer| !answer.is_empty());
    answers.map(|answer| frames(answer.lines())).collect()
}

/// Two lines for each frame: the function, then `file:line:column`. elfutils leaves an unknown column out.
fn frames<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<Shape> {
    let frame = |lines: &[&str]| {
        let (function, _) = lines[0].split_once(" inlined at ").unwrap_or((lines[0], ""));
        let (before, last) = lines[1].rsplit_once(':').unwrap();
        let has_column = before.rsplit_once(':').filter(|(_, line)| line.parse::<u32>().is_ok());
        let (file, line) = has_column.unwrap_or((before, last));
        (demangle(function), file.to_owned(), line.parse().unwrap())
    };
    lines.collect::<Vec<_>>().chunks(2).map(frame).collect()
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

/// True if theirs is `./csu/./csu/start.c` where ours is `./csu/start.c`. Folder 0 of the line table of DWARF 5 is the
/// folder of the compilation itself; the other readers put a relative one behind itself. Debian's packages have such
/// paths.
fn has_folder_twice(ours: &str, theirs: &str) -> bool {
    let folder = theirs.strip_suffix(ours).filter(|folder| folder.ends_with('/'));
    folder.is_some_and(|folder| !folder.starts_with('/') && ours.starts_with(folder))
}

/// (start, end, name) of the functions in a symbol table. Mach-O has no sizes.
fn all_symbols(path: &Path) -> Vec<(u64, u64, String)> {
    let named = std::fs::read(path).unwrap();
    let named = object::File::parse(&*named).unwrap();
    let symbols = named.symbols().filter(|symbol| symbol.size() > 0).map(|symbol| {
        let name = demangle(symbol.name().unwrap());
        (symbol.address(), symbol.address() + symbol.size(), name)
    });
    symbols.collect()
}

/// What other readers say of a program.
#[derive(Clone)]
pub struct Reference {
    base: u64,
    svmas: Vec<u64>,
    /// Of each reader, by address.
    answers: Vec<Vec<Vec<Shape>>>,
    /// (start, end, name) of all functions. The linker makes one of several with the same code: each name is right
    /// then.
    symbols: Vec<(u64, u64, String)>,
}

impl Reference {
    /// By llvm-symbolizer, at addresses in all of the program's code. `symbols` has the symbol table.
    pub fn of(path: &Path, symbols: &Path) -> Reference {
        const ADDRESSES: u64 = 1000;
        let bytes = std::fs::read(path).unwrap();
        let object = object::File::parse(&*bytes).unwrap();
        let text = object.section_by_name(".text").unwrap();
        // An odd step visits all alignments.
        let step = (text.size() / ADDRESSES) | 1;
        let svmas: Vec<u64> = (text.address()..text.address() + text.size())
            .step_by(step as usize)
            .collect();
        Reference {
            base: object.relative_address_base(),
            answers: vec![Reader::Llvm.read(path, &svmas)],
            symbols: all_symbols(symbols),
            svmas,
        }
    }

    /// What llvm-symbolizer said when the program was made: the addresses, an empty line, and its output for them.
    pub fn recorded(text: &str, base: u64, symbols: &Path) -> Reference {
        let (asked, answers) = text.split_once("\n\n").unwrap();
        let svma = |line: &str| u64::from_str_radix(line.strip_prefix("0x").unwrap(), 16).unwrap();
        let svmas: Vec<u64> = asked.lines().map(svma).collect();
        let answers = answers_of_llvm(answers);
        assert_eq!(svmas.len(), answers.len());
        Reference {
            base,
            answers: vec![answers],
            symbols: all_symbols(symbols),
            svmas,
        }
    }

    /// Asks another reader as well, for another form of the same program.
    pub fn and(mut self, reader: Reader, path: &Path) -> Reference {
        self.answers.push(reader.read(path, &self.svmas));
        self
    }

    fn is_same(&self, svma: u64, ours: &[Shape], theirs: &[Shape]) -> bool {
        let alias = |name: &str| {
            (self.symbols.iter()).any(|(start, end, symbol)| (*start..*end).contains(&svma) && symbol == name)
        };
        let outermost = ours.len().saturating_sub(1);
        let is_same = |(depth, (ours, theirs)): (usize, (&Shape, &Shape))| {
            let is_named = is_same_name(&ours.0, &theirs.0) || depth == outermost && alias(&ours.0);
            // Code of the compiler's own has no line. Ours is the file of the function; theirs is that of the line
            // table's row.
            let is_file = ours.1 == theirs.1 || ours.2 == 0 || has_folder_twice(&ours.1, &theirs.1);
            is_named && ours.2 == theirs.2 && is_file
        };
        ours.len() == theirs.len() && ours.iter().zip(theirs).enumerate().all(is_same)
    }

    /// Compares the answers for the program, stored in this way. Where two readers differ, ours must be the answer of
    /// one of them: elfutils 0.188 takes the line of the first of several inlined calls of one function, and finds
    /// inlined calls in the padding behind a function.
    pub fn compare(&self, what: &str, program: &Path, dirs: &[&Path]) {
        self.compare_module(what, &module(program), dirs);
    }

    /// [`Reference::compare`] of a module whose file may be elsewhere.
    pub fn compare_module(&self, what: &str, module: &Module, dirs: &[&Path]) {
        let relative: Vec<u64> = self.svmas.iter().map(|svma| svma - self.base).collect();
        let symbolicator = symbolicator(dirs);
        let ours = symbolicator.lookup(module, &relative).unwrap();
        let (mut same, mut disputed, mut different) = (0, 0, Vec::new());
        for (index, (svma, ours)) in self.svmas.iter().zip(&ours).enumerate() {
            let ours = shape(ours);
            let theirs: Vec<&[Shape]> = self.answers.iter().map(|answers| &*answers[index]).collect();
            // Without debug info llvm-symbolizer has the symbol, and the file that the symbol table names, without a
            // line.
            if ours.is_empty() && theirs[0].iter().all(|(_, _, line)| *line == 0) {
                continue;
            }
            match theirs
                .iter()
                .filter(|theirs| self.is_same(*svma, &ours, theirs))
                .count()
            {
                0 => different.push(format!("{svma:#x}\n  ours   {ours:?}\n  theirs {theirs:?}")),
                agree if agree == theirs.len() => same += 1,
                _ => disputed += 1,
            }
        }
        println!(
            "{what}: {same} same, {disputed} disputed, {} different",
            different.len()
        );
        different.truncate(3);
        assert!(
            same > 100 && disputed * 100 <= same && different.is_empty(),
            "{what}: {same} same, {disputed} disputed; {}\n{:?}",
            different.join("\n"),
            symbolicator.notes(module)
        );
    }
}
