//! Symbols and debug info of programs.

use super::*;

/// Where the code of [`elf`] begins.
const CODE: u64 = 0x1000;

/// A 64-bit ELF file with `count` functions of 16 bytes, whose names are at these offsets of one text, and with
/// sections of debug info.
fn elf(count: u64, names: &[u8], offset: impl Fn(u64) -> u32, debug: &[(&str, Vec<u8>)]) -> Vec<u8> {
    const HEADER_BYTES: u64 = 64 + 56;
    let code_bytes = count * 16;
    let symtab = [0; 24].into_iter().chain((0..count).flat_map(|at| {
        let mut symbol = offset(at).to_le_bytes().to_vec();
        // STB_GLOBAL, STT_FUNC, in section 1.
        symbol.extend([0x12, 0, 1, 0]);
        symbol.extend((CODE + at * 16).to_le_bytes());
        symbol.extend(16u64.to_le_bytes());
        symbol
    }));
    let symtab: Vec<u8> = symtab.collect();
    let mut section_names = b"\0.text\0.symtab\0.strtab\0".to_vec();
    let (symtab_at, symtab_bytes) = (HEADER_BYTES, symtab.len() as u64);
    let strings_at = symtab_at + symtab_bytes;
    let mut debug_sections = Vec::new();
    let mut debug_at = strings_at + names.len() as u64;
    for (name, bytes) in debug {
        debug_sections.push([section_names.len() as u64, 1, 0, 0, debug_at, bytes.len() as u64, 0, 0]);
        section_names.extend(name.bytes().chain([0]));
        debug_at += bytes.len() as u64;
    }
    let names_at = debug_at;
    let sections_at = (names_at + section_names.len() as u64).next_multiple_of(8);
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    // ET_DYN, EM_X86_64, version 1; entry, program headers, sections; flags.
    file.extend([3, 0, 62, 0, 1, 0, 0, 0]);
    [CODE, 64, sections_at]
        .iter()
        .for_each(|word| file.extend(word.to_le_bytes()));
    file.extend([0; 4]);
    [64u16, 56, 1, 64, 5 + debug.len() as u16, 4]
        .iter()
        .for_each(|half| file.extend(half.to_le_bytes()));
    // PT_LOAD, readable and executable.
    file.extend([1, 0, 0, 0, 5, 0, 0, 0]);
    let load = [0, 0, 0, sections_at, CODE + code_bytes, 0x1000];
    load.iter().for_each(|word| file.extend(word.to_le_bytes()));
    file.extend(symtab);
    file.extend(names);
    debug.iter().for_each(|(_, bytes)| file.extend(bytes));
    file.extend(&section_names);
    file.resize(sections_at as usize, 0);
    // Name, type, flags, address, offset, size, link, info, alignment, entry size.
    let sections: [[u64; 8]; 5] = [
        [0, 0, 0, 0, 0, 0, 0, 0],
        [1, 8, 6, CODE, 0, code_bytes, 0, 0],
        [7, 2, 0, 0, symtab_at, symtab_bytes, 3, 24],
        [15, 3, 0, 0, strings_at, names.len() as u64, 0, 0],
        [15, 3, 0, 0, names_at, section_names.len() as u64, 0, 0],
    ];
    for [name, kind, flags, address, at, bytes, link, entry_bytes] in sections.into_iter().chain(debug_sections) {
        [name, kind]
            .iter()
            .for_each(|half| file.extend((*half as u32).to_le_bytes()));
        [flags, address, at, bytes]
            .iter()
            .for_each(|word| file.extend(word.to_le_bytes()));
        [link, 1]
            .iter()
            .for_each(|half| file.extend((*half as u32).to_le_bytes()));
        [8, entry_bytes].iter().for_each(|word| file.extend(word.to_le_bytes()));
    }
    file
}

/// A profile with a sample in each of the functions of a program.
fn of_program(program: &Path, count: u64) -> Vec<u8> {
    let count = count as usize;
    let all: Vec<usize> = (0..count).collect();
    let nothing = vec![json!(null); count];
    let profile = json!({
        "meta": {
            "interval": 1, "startTime": 0, "processType": 0, "product": "x", "stackwalk": 1, "version": 30,
            "preprocessedProfileVersion": 56, "symbolicated": false, "markerSchema": [],
            "categories": [{"name": "Other", "color": "grey", "subcategories": ["Other"]}],
        },
        "libs": [{
            "arch": "x86_64", "name": "bomb", "path": program, "debugName": "bomb", "debugPath": program,
            "breakpadId": "", "codeId": null,
        }],
        "shared": {"stringArray": ["0x1"]},
        "threads": [{
            "name": "t", "pid": 1, "tid": 1, "isMainThread": true, "processType": "default", "processName": "x",
            "registerTime": 0, "processStartupTime": 0, "pausedRanges": [],
            "samples": {"length": count, "time": all, "stack": all},
            "markers": {
                "length": 0, "category": [], "data": [], "endTime": [], "name": [], "phase": [], "startTime": [],
            },
            "stackTable": {"length": count, "prefix": nothing, "frame": all},
            "frameTable": {
                "length": count, "address": all.iter().map(|at| 0x1000 + at * 16 + 4).collect::<Vec<_>>(),
                "inlineDepth": vec![0; count], "category": vec![0; count], "subcategory": vec![0; count],
                "func": vec![0; count], "nativeSymbol": nothing, "innerWindowID": nothing, "line": nothing,
                "column": nothing,
            },
            "funcTable": {
                "length": 1, "name": [0], "isJS": [false], "relevantForJS": [false], "resource": [0],
                "fileName": [null], "lineNumber": [null], "columnNumber": [null],
            },
            "nativeSymbols": {"length": 0, "address": [], "functionSize": [], "libIndex": [], "name": []},
            "resourceTable": {"length": 1, "lib": [0], "name": [0], "host": [null], "type": [1]},
        }],
    });
    gzip(profile.to_string().as_bytes())
}

/// Names that overlap in one text, one name for all, a name of 30,000 scopes, and names that grow when they are
/// demangled.
#[test]
fn names_of_symbols_cost_their_bytes() {
    let long = vec![b'n'; 2_000_000];
    let one = vec![b'n'; 60_000];
    // The demangler reads all of it for each function, so it is the name of few.
    let scopes = "_ZN1a".to_owned() + &"1b".repeat(30_000) + "Ev";
    // Each `S<n>_` repeats what came before: names of up to 64 KiB when spelled out.
    let grows = "_Z1fPFvv".to_owned() + &"PFS_S_S_E".repeat(9);
    for (name, count, text, is_overlapping) in [
        ("overlap", 10_000, long, true),
        ("one", 10_000, one, false),
        ("scopes", 100, scopes.into_bytes(), false),
        ("grows", 20_000, grows.into_bytes(), false),
    ] {
        let dir = temp_dir();
        let names = [&b"\0"[..], &text, b"\0"].concat();
        let program = dir.path().join("bomb");
        let offset = |at| if is_overlapping { 1 + at as u32 * 100 } else { 1 };
        let file = elf(count, &names, offset, &[]);
        std::fs::write(&program, &file).unwrap();
        let profile = of_program(&program, count);
        let path = dir.path().join(format!("{name}.json.gz"));
        std::fs::write(&path, &profile).unwrap();
        let command = ["export", "-f", "folded", "-o", "/dev/null"];
        let usage = check_file(&path, (file.len() + profile.len()) as u64, &command);
        assert_eq!(usage.code, 0, "{name}: {}", usage.stderr);
        if is_overlapping {
            assert!(
                usage.stderr.contains("addresses have no names, since"),
                "{}",
                usage.stderr
            );
        }
    }
}

/// Entries of debug info, as bytes.
mod dwarf {
    /// Kind, whether it has children, and its attributes with their forms (DWARF 4, 7.5.4).
    const ABBREVIATIONS: [(u8, u8, &[u8]); 9] = [
        // Unit: language, bounds, lines.
        (0x11, 1, &[0x13, 0x0b, 0x11, 0x01, 0x12, 0x07, 0x10, 0x17]),
        // Namespace, class, function that holds others: name.
        (0x39, 1, &[0x03, 0x0e]),
        (0x02, 1, &[0x03, 0x0e]),
        (0x2e, 1, &[0x03, 0x0e]),
        // Function: what it is declared as, and bounds.
        (0x2e, 0, &[0x47, 0x13, 0x11, 0x01, 0x12, 0x07]),
        // The same with calls inlined into it, and such a call.
        (0x2e, 1, &[0x47, 0x13, 0x11, 0x01, 0x12, 0x07]),
        (0x1d, 1, &[0x31, 0x13, 0x11, 0x01, 0x12, 0x07]),
        // Function: linkage name, name, and bounds.
        (0x2e, 0, &[0x6e, 0x0e, 0x03, 0x0e, 0x11, 0x01, 0x12, 0x07]),
        // Function: name, file, and bounds.
        (0x2e, 0, &[0x03, 0x0e, 0x3a, 0x06, 0x11, 0x01, 0x12, 0x07]),
    ];
    pub(super) const FUNCTION_OF_FILE: u8 = 9;
    pub(super) const NAMESPACE: u8 = 2;
    pub(super) const CLASS: u8 = 3;
    pub(super) const OUTER_FUNCTION: u8 = 4;
    pub(super) const FUNCTION: u8 = 5;
    pub(super) const CALLER: u8 = 6;
    pub(super) const CALL: u8 = 7;
    pub(super) const LINKED_FUNCTION: u8 = 8;
    /// A label with 100,000 attributes that have no bytes.
    pub(super) const LABEL: u8 = 10;
    /// The end of an entry's children.
    pub(super) const END: u8 = 0;

    pub(super) fn abbreviations() -> Vec<u8> {
        let mut bytes = Vec::new();
        for (code, (kind, has_children, attributes)) in (1..).zip(ABBREVIATIONS) {
            bytes.extend([code, kind, has_children]);
            bytes.extend(attributes);
            bytes.extend([0, 0]);
        }
        bytes.extend([LABEL, 0x0a, 0]);
        // DW_AT_external, DW_FORM_flag_present.
        (0..100_000).for_each(|_| bytes.extend([0x3f, 0x19]));
        bytes.extend([0, 0, 0]);
        bytes
    }

    /// The debug info of one unit of C++ with this text for all names.
    pub(super) fn sections(code_bytes: u64, entries: &[u8], text: &[u8]) -> [(&'static str, Vec<u8>); 5] {
        // Version 4, abbreviations at 0, addresses of 8 bytes.
        let mut unit = vec![4, 0, 0, 0, 0, 0, 8, 1, 4];
        unit.extend(super::CODE.to_le_bytes());
        unit.extend(code_bytes.to_le_bytes());
        unit.extend([0; 4]);
        unit.extend(entries);
        unit.push(END);
        let info = [(unit.len() as u32).to_le_bytes().to_vec(), unit].concat();
        let text = [text, b"\0"].concat();
        [
            (".debug_info", info),
            (".debug_abbrev", abbreviations()),
            (".debug_line", lines(text.len() as u32)),
            (".debug_line_str", text.clone()),
            (".debug_str", text),
        ]
    }

    /// A table of lines without rows (DWARF 5, 6.2.4), and with 10,000 files whose names begin at each byte of one
    /// text.
    fn lines(text_bytes: u32) -> Vec<u8> {
        const FILES: u32 = 10_000;
        let mut header = vec![1, 1, 1, 1, 1, 13, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1];
        // DW_LNCT_path, DW_FORM_line_strp: no folders, and the files.
        header.extend([1, 1, 0x1f, 0, 1, 1, 0x1f]);
        // FILES as ULEB128.
        header.extend([(FILES & 0x7f) as u8 | 0x80, (FILES >> 7) as u8]);
        (0..FILES).for_each(|at| header.extend((at % text_bytes).to_le_bytes()));
        let version = [5, 0, 8, 0];
        let header_bytes = (header.len() as u32).to_le_bytes();
        let program = [&version[..], &header_bytes, &header].concat();
        [(program.len() as u32).to_le_bytes().to_vec(), program].concat()
    }

    /// The offset of the first of the unit's entries.
    const FIRST_ENTRY: usize = 4 + 9 + 16 + 4;

    /// An entry with the text from this offset on for its name.
    pub(super) fn named(entries: &mut Vec<u8>, kind: u8, name: u32) -> u32 {
        let at = FIRST_ENTRY + entries.len();
        entries.push(kind);
        entries.extend(name.to_le_bytes());
        at as u32
    }

    /// An entry that refers to another one, and has bounds.
    pub(super) fn placed(entries: &mut Vec<u8>, kind: u8, of: &[u32], begin: u64, bytes: u64) {
        entries.push(kind);
        of.iter().for_each(|word| entries.extend(word.to_le_bytes()));
        entries.extend(begin.to_le_bytes());
        entries.extend(bytes.to_le_bytes());
    }
}

/// Looks up the names of a program with this debug info: exit status 0, within the limits.
fn check_debug_info(name: &str, count: u64, entries: &[u8], text: &[u8]) -> Usage {
    let dir = temp_dir();
    let program = dir.path().join("bomb");
    let file = elf(count, b"\0f\0", |_| 1, &dwarf::sections(count * 16, entries, text));
    std::fs::write(&program, &file).unwrap();
    let profile = of_program(&program, count);
    let path = dir.path().join(format!("{name}.json.gz"));
    std::fs::write(&path, &profile).unwrap();
    let command = ["export", "-f", "folded", "-o", "/dev/null"];
    let usage = check_file(&path, (file.len() + profile.len()) as u64, &command);
    assert_eq!(usage.code, 0, "{name}: {}", usage.stderr);
    usage
}

/// Scopes in scopes, scopes with long names, calls in calls, and attributes without bytes.
#[test]
fn names_of_debug_info_cost_their_bytes() {
    use dwarf::{
        CALL, CALLER, CLASS, END, FUNCTION, FUNCTION_OF_FILE, LABEL, LINKED_FUNCTION, NAMESPACE, OUTER_FUNCTION,
    };
    use dwarf::{named, placed};
    const COUNT: u64 = 10_000;
    let long = [b'n'; 60_000];
    let each = |entries: &mut Vec<u8>, of: u32| {
        (0..COUNT).for_each(|at| placed(entries, FUNCTION, &[of], CODE + at * 16, 16));
    };
    let scopes = |entries: &mut Vec<u8>, kinds: &[u8], times: usize| {
        let mut last = 0;
        for _ in 0..times {
            kinds.iter().for_each(|kind| last = named(entries, *kind, 0));
        }
        let inner = named(entries, OUTER_FUNCTION, 0);
        entries.extend(vec![END; kinds.len() * times + 1]);
        inner.max(last)
    };
    let mut nested = Vec::new();
    let inner = scopes(&mut nested, &[OUTER_FUNCTION, CLASS], 40);
    each(&mut nested, inner);
    check_debug_info("nested", COUNT, &nested, b"n");
    let mut spaces = Vec::new();
    let inner = scopes(&mut spaces, &[NAMESPACE], 60);
    each(&mut spaces, inner);
    let usage = check_debug_info("spaces", COUNT, &spaces, &long);
    assert!(usage.stderr.contains("too often for its size"), "{}", usage.stderr);
    let mut calls = Vec::new();
    let inner = scopes(&mut calls, &[NAMESPACE], 60);
    placed(&mut calls, CALLER, &[inner], CODE, COUNT * 16);
    (0..500).for_each(|_| placed(&mut calls, CALL, &[inner], CODE, COUNT * 16));
    calls.extend([END; 501]);
    check_debug_info("calls", COUNT, &calls, &long);
    let mut attributes = vec![LABEL; 1_000_000];
    let inner = named(&mut attributes, OUTER_FUNCTION, 0);
    attributes.push(END);
    each(&mut attributes, inner);
    let usage = check_debug_info("attributes", COUNT, &attributes, b"n");
    assert!(usage.stderr.contains("too often for its size"), "{}", usage.stderr);
    let mut files = Vec::new();
    (0..COUNT as u32).for_each(|at| {
        placed(&mut files, FUNCTION_OF_FILE, &[0, at], CODE + u64::from(at) * 16, 16);
    });
    let usage = check_debug_info("files", COUNT, &files, &b"n".repeat(2_000_000));
    assert!(usage.stderr.contains("too often for its size"), "{}", usage.stderr);
    let mut linked = Vec::new();
    (0..COUNT).for_each(|at| placed(&mut linked, LINKED_FUNCTION, &[at as u32 * 3, 1], CODE + at * 16, 16));
    check_debug_info("linked", COUNT, &linked, &b"_Zx".repeat(100_000));
}
