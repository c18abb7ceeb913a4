//! Machine code as text: what objdump, readelf and the symbol tables say of the same programs.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use crate::common::{Built, build, build_with, function, have, module, run, symbolicator};
use object::{Object, ObjectSection, ObjectSymbol, SymbolKind};
use serde_json::{Value, json};
use symbolicator::{Assembly, InstructionTarget, Module, Symbolicator, api};

fn printed(tool: &str, arguments: &[&str], path: &Path) -> String {
    let output = Command::new(tool).args(arguments).arg(path).output().unwrap();
    assert!(output.status.success(), "{tool}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn open(path: &Path) -> (Symbolicator, Module) {
    let (symbolicator, module) = (symbolicator(&[]), module(path));
    symbolicator.add_module(&module);
    (symbolicator, module)
}

/// The whole function that holds a relative address.
fn whole((symbolicator, module): &(Symbolicator, Module), start: u64) -> Assembly {
    symbolicator.assembly(module, start, 1, true).unwrap()
}

/// The instructions of a file by objdump: (address and name of the direct branch target), by address. The lowest
/// PT_LOAD of these programs is at 0.
fn by_objdump(objdump: &str, path: &Path) -> BTreeMap<u64, Option<(u64, String)>> {
    let text = printed(objdump, &["-d", "--no-show-raw-insn"], path);
    let hex = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).ok();
    let instruction = |line: &str| {
        let (address, text) = line.split_once(":\t").or_else(|| line.split_once(":      \t"))?;
        let mnemonic = text.split_whitespace().next()?;
        // `jne    1138 <f+0x28>`; an access has its address as `# 4028 <name>`, `adrp` has a page.
        let target = text
            .split_once(" <")
            .filter(|_| !text.contains('#') || mnemonic.starts_with("tb"));
        let target = target
            .filter(|_| !mnemonic.starts_with("adr"))
            .and_then(|(operands, name)| {
                let operand = operands.rsplit([' ', '\t']).next()?;
                Some((hex(operand)?, name.trim_end().trim_end_matches('>').to_owned()))
            });
        Some((hex(address.trim())?, target))
    };
    text.lines().filter_map(instruction).collect()
}

/// (start, end) of each function. One without a size ends at the next symbol, or the end of its section.
fn functions(path: &Path) -> BTreeMap<u64, (String, u64)> {
    let bytes = std::fs::read(path).unwrap();
    let object = object::File::parse(&*bytes).unwrap();
    let in_code = |symbol: &object::Symbol<'_, '_>| {
        let section = symbol
            .section_index()
            .and_then(|index| object.section_by_index(index).ok());
        section.filter(|section| section.kind() == object::SectionKind::Text)
    };
    let named = |symbol: &object::Symbol<'_, '_>| !symbol.name().unwrap().starts_with('$');
    let all: Vec<_> = object
        .symbols()
        .filter(|symbol| in_code(symbol).is_some() && named(symbol))
        .collect();
    let mut found = BTreeMap::new();
    for symbol in all
        .iter()
        .filter(|symbol| [SymbolKind::Text, SymbolKind::Unknown].contains(&symbol.kind()))
    {
        let (start, section) = (symbol.address(), in_code(symbol).unwrap());
        let next = all
            .iter()
            .map(|symbol| symbol.address())
            .filter(|next| *next > start)
            .min();
        let end = match symbol.size() {
            0 => next.unwrap_or(u64::MAX).min(section.address() + section.size()),
            size => start + size,
        };
        found.insert(start, (symbol.name().unwrap().to_owned(), end));
    }
    found
}

/// Compares each function with objdump: addresses of the instructions, targets of jumps and calls, labels. Returns the
/// number of jumps between the bytes of an instruction of the same function.
fn assert_as_objdump(objdump: &str, path: &Path, expected: &[&str]) -> usize {
    let known = by_objdump(objdump, path);
    let functions = functions(path);
    let names: Vec<&str> = functions.values().map(|(name, _)| name.as_str()).collect();
    assert!(expected.iter().all(|name| names.contains(name)), "{names:?}");
    let opened = open(path);
    let (mut inside, mut outside, mut between) = (0, 0, 0);
    for (start, (name, end)) in &functions {
        let assembly = whole(&opened, *start);
        let ours: Vec<u64> = assembly.instructions.iter().map(|one| start + one.offset).collect();
        let theirs: Vec<u64> = known.range(start..end).map(|(address, _)| *address).collect();
        assert_eq!((&ours, assembly.size), (&theirs, end - start), "{name}");
        let mut jumped_to = BTreeMap::new();
        for one in &assembly.instructions {
            let target = known[&(start + one.offset)].as_ref();
            match (&one.target, target) {
                (Some(InstructionTarget::Inside { offset, label }), Some((address, _))) => {
                    assert_eq!(start + offset, *address, "{name}: {one:?}");
                    jumped_to.insert(*offset, *label);
                    inside += 1;
                }
                (Some(target @ InstructionTarget::Function { .. }), Some((address, to))) => {
                    assert_eq!(target.to_string(), format!("<{to}>"), "{name}: {one:?}");
                    let is_call = one.text.starts_with("call") || one.text.starts_with("bl");
                    assert!(is_call || !ours.contains(address), "{name}: {one:?}");
                    between += usize::from((*start..*end).contains(address) && !is_call);
                    outside += 1;
                }
                (_, Some(target)) => panic!("{name}: {one:?}, {target:?}"),
                (Some(InstructionTarget::Inside { .. }), None) => panic!("{name}: {one:?} is no jump"),
                (_, None) => {}
            }
        }
        let labels: BTreeMap<u64, u32> = (assembly.instructions.iter())
            .filter_map(|one| Some((one.offset, one.label?)))
            .collect();
        assert_eq!(labels, jumped_to, "{name}");
        assert!(
            labels.values().copied().eq(1..=labels.len() as u32),
            "{name}: {labels:?}"
        );
    }
    println!(
        "{}: {} functions, {inside} jumps inside, {outside} out",
        path.display(),
        functions.len()
    );
    assert!(inside > 5 && outside > 10);
    between
}

#[test]
fn instructions_and_targets_are_those_of_objdump() {
    if !have("objdump") || cfg!(not(target_arch = "x86_64")) {
        return;
    }
    let expected = [
        "by_hand",
        "by_hand_too",
        "loops",
        "recursive",
        "split",
        "switched",
        "_start",
        "main",
    ];
    for flags in [
        &["-O2"][..],
        &["-O0", "-g"],
        &["-O2", "-fcf-protection=full", "-no-pie", "-Wl,-Ttext-segment=0"],
    ] {
        let built = build("asm.c", flags);
        assert_eq!(assert_as_objdump("objdump", &built.path, &expected), 1);
    }
}

/// clang has all processors, and Rust's toolchain a linker for them.
#[test]
fn instructions_and_targets_of_arm64_are_those_of_objdump() {
    if !have("clang") || !have("llvm-objdump") {
        return;
    }
    let sysroot = printed("rustc", &["--print"], Path::new("sysroot"));
    let host = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let lld = Path::new(sysroot.trim())
        .join("lib/rustlib")
        .join(host)
        .join("bin/gcc-ld");
    if !lld.join("ld.lld").exists() {
        assert!(
            std::env::var_os("SPROF_REQUIRE").is_none(),
            "this Rust toolchain has no lld"
        );
        let _ = writeln!(std::io::stderr(), "skipped: this Rust toolchain has no lld");
        return;
    }
    let folder = format!("-B{}", lld.display());
    let dir = tempfile::tempdir().unwrap();
    for (name, optimise) in [("fast", "-O2"), ("slow", "-O0")] {
        let path = dir.path().join(name);
        let target = [
            "--target=aarch64-linux-gnu",
            "-nostdlib",
            "-shared",
            "-fPIC",
            "-fvisibility=hidden",
        ];
        let flags = [&target[..], &["-fuse-ld=lld", &folder, optimise]].concat();
        build_with("clang", "asm.c", &flags, &path);
        assert_as_objdump(
            "llvm-objdump",
            &path,
            &["by_hand", "by_hand_too", "loops", "split", "switched"],
        );
    }
}

#[test]
fn calls_through_the_global_offset_table_name_the_function() {
    let built = build("asm.c", &["-O2", "-fno-plt"]);
    if cfg!(not(target_arch = "x86_64")) {
        return;
    }
    let assembly = whole(&open(&built.path), function(&built.path, "loops").0);
    let is_puts = |target: &Option<InstructionTarget>| *target == Some(InstructionTarget::Slot("puts".to_owned()));
    let call = assembly.instructions.iter().find(|one| is_puts(&one.target)).unwrap();
    let line = assembly.line(call);
    assert!(
        line.contains("call qword ptr [0x") && line.ends_with("] <puts@got>"),
        "{line}"
    );
}

#[test]
fn variables_that_relocations_fill_are_no_slots_of_functions() {
    for options in [&["-O1"][..], &["-O1", "-fno-pie", "-no-pie"]] {
        let built = build("slots.c", options);
        let assembly = whole(&open(&built.path), function(&built.path, "data").0);
        assert!(assembly.instructions.len() > 3);
        let slots: Vec<_> = (assembly.instructions.iter())
            .filter(|one| matches!(one.target, Some(InstructionTarget::Slot(_))))
            .map(|one| assembly.line(one))
            .collect();
        assert_eq!(slots, [""; 0]);
    }
}

/// `/asm/v1` has the same text as the terminal.
#[test]
fn jump_targets_are_labels_in_the_text() {
    let built = build("asm.c", &["-O2"]);
    let (start, size) = function(&built.path, "loops");
    let (symbolicator, module) = open(&built.path);
    let request = json!({"debugName": module.name(), "debugId": module.breakpad_id(), "startAddress": format!("{start:#x}"),
        "size": format!("{size:#x}")});
    let answer = api::handle(&symbolicator, "/asm/v1", request.to_string().as_bytes());
    let answer: Value = serde_json::from_slice(&answer).unwrap();
    let lines: BTreeMap<u64, &str> = (answer["instructions"].as_array().unwrap().iter())
        .map(|one| (one[0].as_u64().unwrap(), one[1].as_str().unwrap()))
        .collect();
    let jumps: Vec<_> = lines.values().filter_map(|line| line.split_once(" -> ")).collect();
    assert!(jumps.len() > 3, "{lines:?}");
    for (jump, label) in jumps {
        let target = jump.rsplit("0x").next().unwrap();
        let target = u64::from_str_radix(target, 16).unwrap() - start;
        assert!(
            lines[&target].starts_with(&format!("{label}: ")),
            "{jump} -> {label}: {lines:?}"
        );
    }
    let text_at = |line: &&str| line.find(|c: char| c.is_ascii_lowercase());
    assert!(
        lines.values().all(|line| text_at(line) == Some("L1: ".len())),
        "{lines:?}"
    );
}

fn strip_but(built: &Built, keep: &[&str]) {
    let keep: Vec<String> = keep.iter().map(|section| format!("--keep-section={section}")).collect();
    let keep: Vec<&dyn AsRef<std::ffi::OsStr>> = keep.iter().map(|keep| keep as _).collect();
    run(
        "strip",
        &[&[&built.path as &dyn AsRef<std::ffi::OsStr>], &keep[..]].concat(),
    );
}

#[test]
fn a_function_in_two_parts_names_the_other_one() {
    for flags in [&["-O2"][..], &["-O2", "-g"]] {
        let built = build("asm.c", flags);
        let functions = functions(&built.path);
        let Some((cold, (_, cold_end))) = functions.iter().find(|(_, (name, _))| name == "split.cold") else {
            println!("skipped: this compiler leaves the function whole");
            return;
        };
        let (start, size) = functions
            .iter()
            .find(|(_, (name, _))| name == "split")
            .map(|(start, (_, end))| (*start, end - start))
            .unwrap();
        let opened = open(&built.path);
        let parts = |start: u64| {
            let assembly = whole(&opened, start);
            let others = assembly
                .other_parts
                .into_iter()
                .map(|part| (part.name, part.start, part.size));
            (assembly.size, others.collect::<Vec<_>>())
        };
        assert_eq!(
            parts(start),
            (size, vec![("split.cold".to_owned(), *cold, Some(cold_end - cold))]),
            "{flags:?}"
        );
        assert_eq!(
            parts(*cold),
            (cold_end - cold, vec![("split".to_owned(), start, Some(size))]),
            "{flags:?}"
        );
        assert_eq!(parts(function(&built.path, "loops").0).1, [], "{flags:?}");
    }
}

#[test]
fn without_symbols_a_function_has_its_size_from_debug_info() {
    if !have("strip") {
        return;
    }
    let built = build("asm.c", &["-O2", "-gdwarf-5", "-fno-asynchronous-unwind-tables"]);
    let functions: Vec<_> = ["loops", "recursive", "behind"]
        .map(|name| (name, function(&built.path, name)))
        .to_vec();
    // Without `.debug_frame`.
    let debug_info = ["info", "abbrev", "str", "line_str", "line", "rnglists", "aranges"];
    strip_but(
        &built,
        &debug_info
            .map(|name| format!(".debug_{name}"))
            .each_ref()
            .map(String::as_str),
    );
    let opened = open(&built.path);
    for (name, (start, size)) in functions {
        let assembly = whole(&opened, start);
        assert_eq!(assembly.size, size, "{name}");
        assert_eq!(assembly.function.unwrap().name, name);
    }
}

#[test]
fn without_symbols_a_function_is_the_range_of_its_unwind_rules() {
    if !have("readelf") || !have("objdump") || cfg!(not(target_arch = "x86_64")) {
        return;
    }
    let built = build("asm.c", &["-O2"]);
    let functions = functions(&built.path);
    let known = by_objdump("objdump", &built.path);
    strip_but(&built, &[]);
    // `0000001c 0000000000000014 00000020 FDE cie=00000000 pc=00000000000010e0..0000000000001102`
    let frames = printed("readelf", &["--debug-dump=frames"], &built.path);
    let range = |line: &str| {
        let (start, end) = line.split_once("FDE ")?.1.split_once("pc=")?.1.split_once("..")?;
        let hex = |text: &str| u64::from_str_radix(text, 16).ok();
        Some((hex(start)?, hex(end)?))
    };
    let ranges: Vec<(u64, u64)> = frames.lines().filter_map(range).collect();
    let opened = open(&built.path);
    let mut seen = 0;
    for (start, end) in ranges {
        // The stubs of the linkage table have one range, and names each.
        let Some((symbol, _)) = functions.get(&start) else {
            continue;
        };
        // Its name is known by the file's header.
        let is_entry = symbol == "_start";
        for from in [start, end - 1] {
            let info = opened.0.lookup(&module(&built.path), &[from]).unwrap();
            let function = info[0].function.clone().unwrap();
            assert_eq!(
                (function.start, function.size, function.is_named),
                (start, Some(end - start), is_entry)
            );
        }
        let assembly = whole(&opened, start);
        let ours: Vec<u64> = assembly.instructions.iter().map(|one| start + one.offset).collect();
        let theirs: Vec<u64> = known.range(start..end).map(|(address, _)| *address).collect();
        assert_eq!((ours, assembly.size), (theirs, end - start), "{start:#x}");
        let name = match is_entry {
            true => "EntryPoint".to_owned(),
            false => format!("fun_{start:x}"),
        };
        assert_eq!(assembly.function.unwrap().name, name);
        seen += 1;
    }
    assert!(seen >= 8, "{seen}: {frames}");
}

/// Its symbol is exported and has no size. The functions behind it have no symbols any more.
#[test]
fn a_symbol_without_size_ends_where_the_unwind_rules_of_the_next_function_begin() {
    if !have("strip") {
        return;
    }
    let built = build("asm.c", &["-O2", "-shared", "-fPIC", "-fvisibility=hidden"]);
    let functions = functions(&built.path);
    let (start, (_, end)) = functions.iter().find(|(_, (name, _))| name == "by_hand_too").unwrap();
    strip_but(&built, &[]);
    let opened = open(&built.path);
    let assembly = whole(&opened, *start);
    assert_eq!(
        (assembly.size, assembly.function.unwrap().name),
        (end - start, "by_hand_too".to_owned())
    );
    assert_eq!(whole(&opened, *end).function.unwrap().name, format!("fun_{end:x}"));
}
