//! Files that claim much with few bytes: memory stays within 64 times the file and 300 MB, time in proportion to the
//! file, whatever the reader.
#![cfg(target_os = "linux")]

use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use nix::sys::resource::{UsageWho, getrusage};
use serde_json::json;

use crate::support::{sprof_without_part, temp_dir};

/// The words of the command that [`run_measured`] runs, separated by line ends.
const WORDS: &str = "LIMITS_WORDS";

/// What a run of sprof has taken.
struct Usage {
    code: i32,
    peak_bytes: u64,
    cpu: Duration,
    stderr: String,
}

/// Runs sprof below a process of its own. The largest memory of a child (wait4(2), getrusage(2)) begins with that of
/// the process that started it: of `/bin/true` it is 413 MB, if a process of 400 MB starts that (`exec_mmap` in
/// fs/exec.c). This process has the memory of all tests.
fn usage(words: &[&OsStr]) -> Usage {
    let joined = words.join(OsStr::new("\n"));
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "limits::run_measured", "--ignored", "--nocapture"])
        .env(WORDS, joined)
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    let measured = stdout.lines().find_map(|line| line.strip_prefix("measured "));
    let measured = measured.unwrap_or_else(|| panic!("{output:?}"));
    let numbers: Vec<i64> = measured.split(' ').map(|word| word.parse().unwrap()).collect();
    Usage {
        code: numbers[0] as i32,
        peak_bytes: numbers[1] as u64 * 1024,
        cpu: Duration::from_micros(numbers[2] as u64),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// No test by itself: what [`usage`] starts.
#[test]
#[ignore = "a part of the other tests here"]
fn run_measured() {
    let Ok(words) = std::env::var(WORDS) else { return };
    let mut command = sprof_without_part();
    let status = command.args(words.lines()).stdout(Stdio::null()).status().unwrap();
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap();
    let micros = |time: nix::sys::time::TimeVal| time.tv_sec() * 1_000_000 + time.tv_usec();
    println!(
        "\nmeasured {} {} {}",
        status.code().unwrap_or(-1),
        usage.max_rss(),
        micros(usage.user_time()) + micros(usage.system_time())
    );
}

/// Runs sprof on a file, checks the limits, and returns what it has taken.
fn check(name: &str, bytes: &[u8], command: &[&str]) -> Usage {
    let dir = temp_dir();
    let path = dir.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    check_file(&path, bytes.len() as u64, command)
}

fn check_file(path: &Path, bytes: u64, command: &[&str]) -> Usage {
    let words: Vec<OsString> = (command.iter().map(OsString::from)).chain([path.into()]).collect();
    let words: Vec<&OsStr> = words.iter().map(OsString::as_os_str).collect();
    let usage = usage(&words);
    let limit = 64 * bytes + 300_000_000;
    let (name, peak) = (path.display(), usage.peak_bytes);
    eprintln!("{name}: {bytes} bytes, peak {} MB, {:?}", peak / 1_000_000, usage.cpu);
    assert!(peak <= limit, "{name}: {bytes} bytes of file took {peak} of memory");
    assert!(
        [0, 125].contains(&usage.code),
        "{name}: {} {}",
        usage.code,
        usage.stderr
    );
    assert!(!usage.stderr.contains("panicked"), "{name}: {}", usage.stderr);
    usage
}

/// The time for four times the size is about four times the time, and not sixteen times.
fn check_time(name: &str, small: &[u8], large: &[u8], command: &[&str]) {
    let (small, large) = (check(name, small, command).cpu, check(name, large, command).cpu);
    assert!(
        large < 9 * small + Duration::from_millis(400),
        "{name}: {small:?}, then {large:?}"
    );
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = GzEncoder::new(Vec::new(), Compression::default());
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

mod pprof {
    fn varint(mut number: u64) -> Vec<u8> {
        let mut out = Vec::new();
        while number > 0x7f {
            out.push(number as u8 | 0x80);
            number >>= 7;
        }
        out.push(number as u8);
        out
    }

    pub(super) fn message(field: u64, content: &[u8]) -> Vec<u8> {
        [varint(field << 3 | 2), varint(content.len() as u64), content.to_vec()].concat()
    }

    fn number(field: u64, number: u64) -> Vec<u8> {
        [varint(field << 3), varint(number)].concat()
    }

    /// This many samples with one location this many times, which has this many lines.
    pub(super) fn file(lines: usize, depth: usize, samples: usize) -> Vec<u8> {
        let texts = ["", "samples", "count", "f"].map(|text| message(6, text.as_bytes()));
        let line = message(4, &number(1, 1));
        let sample = message(2, &[message(1, &vec![1; depth]), message(2, &[1])].concat());
        super::gzip(
            &[
                message(1, &[number(1, 1), number(2, 2)].concat()),
                message(4, &[number(1, 1), line.repeat(lines)].concat()),
                message(5, &[number(1, 1), number(2, 3)].concat()),
                texts.concat(),
                sample.repeat(samples),
            ]
            .concat(),
        )
    }
}

/// Locations times lines, lines times samples, and depth.
#[test]
fn lines_of_pprof_cost_their_bytes() {
    for (lines, depth, samples) in [
        (1000, 1000, 1),
        (6000, 6000, 1),
        (50_000, 50_000, 1),
        (2_000_000, 1, 50),
        (20_000, 30, 100),
        (1, 4_000_000, 1),
    ] {
        let name = format!("{lines}x{depth}x{samples}.pb.gz");
        check(&name, &pprof::file(lines, depth, samples), &["report"]);
    }
    check_time(
        "lines.pb.gz",
        &pprof::file(10_000, 1, 500),
        &pprof::file(40_000, 1, 2000),
        &["report"],
    );
}

/// One stack of this many calls, with a sample at its leaf, or at each depth. Each call is of a function of its own,
/// or of one of 100.
fn chain(depth: usize, has_all: bool) -> Vec<u8> {
    let names = if has_all { depth } else { 100 };
    let functions: Vec<usize> = (0..depth).map(|at| at % names).collect();
    let nothing = |len: usize| vec![json!(null); len];
    let prefix: Vec<i64> = (0..depth as i64).map(|at| at - 1).collect();
    let mut prefix = json!(prefix);
    prefix[0] = json!(null);
    let stacks: Vec<usize> = if has_all { (0..depth).collect() } else { vec![depth - 1] };
    let profile = json!({
        "meta": {
            "interval": 1, "startTime": 0, "processType": 0, "product": "x", "stackwalk": 1, "version": 30,
            "preprocessedProfileVersion": 56, "symbolicated": true, "markerSchema": [],
            "categories": [{"name": "Other", "color": "grey", "subcategories": ["Other"]}],
        },
        "libs": [],
        "shared": {"stringArray": (0..names).map(|at| format!("f{at}")).collect::<Vec<_>>()},
        "threads": [{
            "name": "t", "pid": 1, "tid": 1, "isMainThread": true, "processType": "default", "processName": "x",
            "registerTime": 0, "processStartupTime": 0, "pausedRanges": [],
            "samples": {"length": stacks.len(), "time": (0..stacks.len()).collect::<Vec<_>>(), "stack": stacks},
            "markers": {
                "length": 0, "category": [], "data": [], "endTime": [], "name": [], "phase": [], "startTime": [],
            },
            "stackTable": {"length": depth, "prefix": prefix, "frame": functions},
            "frameTable": {
                "length": names, "address": vec![-1; names], "inlineDepth": vec![0; names],
                "category": vec![0; names], "subcategory": vec![0; names], "func": (0..names).collect::<Vec<_>>(),
                "nativeSymbol": nothing(names), "innerWindowID": nothing(names), "line": nothing(names),
                "column": nothing(names),
            },
            "funcTable": {
                "length": names, "name": (0..names).collect::<Vec<_>>(), "isJS": vec![false; names],
                "relevantForJS": vec![false; names], "resource": vec![-1; names], "fileName": nothing(names),
                "lineNumber": nothing(names), "columnNumber": nothing(names),
            },
            "nativeSymbols": {"length": 0, "address": [], "functionSize": [], "libIndex": [], "name": []},
            "resourceTable": {"length": 0, "lib": [], "name": [], "host": [], "type": []},
        }],
    });
    gzip(profile.to_string().as_bytes())
}

#[test]
fn deep_stacks_cost_their_bytes() {
    let deep = chain(1_000_000, false);
    for command in [
        &["report"][..],
        &["report", "--view", "tree"],
        &["export", "-f", "folded", "-o", "/dev/null"],
    ] {
        check("chain.json.gz", &deep, command);
    }
    let (small, large) = (chain(5000, true), chain(20_000, true));
    // The other formats spell out each call path, and are themselves as long as the square.
    let command = ["export", "-f", "callgrind", "-o", "/dev/null"];
    check_time("each_depth.json.gz", &small, &large, &command);
    check_time("each_depth.json.gz", &small, &large, &["report"]);
}

#[test]
fn texts_cost_their_bytes() {
    let calls = "a;".repeat(400_000);
    let folded: String = (0..10).map(|line| format!("{line};{calls}b 1\n")).collect();
    check("deep.folded", folded.as_bytes(), &["report"]);
    check("deep.folded.gz", &gzip(folded.as_bytes()), &["report"]);
    let frames = "\t 7f f (/a)\n".repeat(300_000);
    let script = format!("a 7/7 1.000000: 1 cycles:\n{frames}\n").repeat(3);
    check("deep.txt.gz", &gzip(script.as_bytes()), &["report"]);
    let name = "n".repeat(1_000_000);
    let script: String = (0..10)
        .map(|at| format!("a 7/7 {at}.000000: 1 cycles:\n\t 7f {at}{name} (/a)\n\n"))
        .collect();
    check("names.txt.gz", &gzip(script.as_bytes()), &["report"]);
}

/// A perf.data file of a process with this many mappings and as many forks as `forks`, with a sample in each. With
/// `writes`, each child maps something itself. The process's name has `name` bytes.
fn forks(mappings: u64, forks: u64, writes: bool, name: usize) -> Vec<u8> {
    fn record(kind: u32, misc: u16, body: &[u8]) -> Vec<u8> {
        let size = 8 + body.len() as u16;
        [&kind.to_le_bytes()[..], &misc.to_le_bytes(), &size.to_le_bytes(), body].concat()
    }
    let words = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let halves = |halves: &[u32]| halves.iter().flat_map(|half| half.to_le_bytes()).collect::<Vec<u8>>();
    let text = |text: &str| {
        let mut bytes = text.as_bytes().to_vec();
        bytes.resize((text.len() / 8 + 1) * 8, 0);
        bytes
    };
    // PERF_SAMPLE_IP, TID and TIME; mmap, comm, task, sample_id_all and mmap2.
    const SAMPLE_TYPE: u64 = 1 | 2 | 4;
    const FLAGS: u64 = 1 << 8 | 1 << 9 | 1 << 13 | 1 << 18 | 1 << 23;
    const ATTR_BYTES: usize = 128;
    let mut attr = halves(&[1, ATTR_BYTES as u32]);
    attr.extend(words(&[0, 1_000_000, SAMPLE_TYPE, 0, FLAGS]));
    attr.resize(ATTR_BYTES, 0);
    attr.extend(words(&[0, 0]));
    let address = |at: u64| 0x1000_0000 + at % mappings * 0x2000;
    let mapping = |pid: u32, at: u64| {
        let body = [
            halves(&[pid, pid]),
            words(&[address(at), 0x1000, 0]),
            halves(&[8, 1]),
            words(&[1000 + at, 0]),
            halves(&[5, 2]),
            text(&format!("/x/lib{at}.so")),
            halves(&[pid, pid]),
            words(&[1000]),
        ];
        record(10, 2, &body.concat())
    };
    let comm = [
        halves(&[100, 100]),
        text(&"c".repeat(name)),
        halves(&[100, 100]),
        words(&[1000]),
    ];
    let mut data = record(3, 0x2000, &comm.concat());
    (0..mappings).for_each(|at| data.extend(mapping(100, at)));
    for at in 0..forks {
        let (pid, time) = (1000 + at as u32, 2000 + at * 1000);
        let fork = [
            halves(&[pid, 100, pid, 100]),
            words(&[time]),
            halves(&[100, 100]),
            words(&[time]),
        ];
        data.extend(record(7, 0, &fork.concat()));
        if writes {
            data.extend(mapping(pid, at % mappings));
        }
        let sample = [words(&[address(at) + 16]), halves(&[pid, pid]), words(&[time])];
        data.extend(record(9, 2, &sample.concat()));
    }
    const HEADER_BYTES: u64 = 104;
    let (attrs, at) = (attr.len() as u64, HEADER_BYTES + attr.len() as u64);
    let header = words(&[
        HEADER_BYTES,
        attrs,
        HEADER_BYTES,
        attrs,
        at,
        data.len() as u64,
        0,
        0,
        0,
        0,
        0,
        0,
    ]);
    [b"PERFILE2".to_vec(), header, attr, data].concat()
}

/// A perf.data file of this many processes, each with one stack of 500 callers. Compressed it is small.
fn stacks(processes: u32) -> Vec<u8> {
    // PERF_SAMPLE_IP, TID, TIME and CALLCHAIN.
    const SAMPLE_TYPE: u64 = 1 | 2 | 4 | 32;
    let words = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let mut attr = [1u32, 128]
        .iter()
        .flat_map(|half| half.to_le_bytes())
        .collect::<Vec<u8>>();
    attr.extend(words(&[0, 1_000_000, SAMPLE_TYPE, 0, 1 << 18]));
    attr.resize(128, 0);
    attr.extend(words(&[0, 0]));
    let mut data = Vec::new();
    for at in 0..processes {
        let pid = u64::from(1000 + at);
        let mut body = words(&[0x40_0100, pid | pid << 32, 1000 + u64::from(at), 501, -512i64 as u64]);
        (0..500).for_each(|caller| body.extend((0x40_0100u64 + caller).to_le_bytes()));
        data.extend(9u32.to_le_bytes());
        data.extend([2, 0]);
        data.extend((8 + body.len() as u16).to_le_bytes());
        data.extend(body);
    }
    let (attrs, at) = (attr.len() as u64, 104 + attr.len() as u64);
    let header = words(&[104, attrs, 104, attrs, at, data.len() as u64, 0, 0, 0, 0, 0, 0]);
    gzip(&[b"PERFILE2".to_vec(), header, attr, data].concat())
}

#[test]
fn stacks_of_many_processes_cost_their_bytes() {
    check("stacks.data.gz", &stacks(20_000), &["report"]);
    check_time("stacks.data.gz", &stacks(5000), &stacks(20_000), &["report"]);
}

#[test]
fn forks_share_what_their_parents_have_mapped() {
    let shared = check("forks.data", &forks(5000, 20_000, false, 3), &["report"]);
    assert_eq!(shared.code, 0, "{}", shared.stderr);
    check("forks_that_map.data", &forks(5000, 20_000, true, 3), &["report"]);
    check("long_name.data", &forks(50, 20_000, false, 60_000), &["report"]);
    let (small, large) = (forks(2000, 5000, true, 3), forks(8000, 20_000, true, 3));
    check_time("forks_that_map.data", &small, &large, &["report"]);
}

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

/// Names that overlap in one text, one name for all, and names that grow when they are demangled.
#[test]
fn names_of_symbols_cost_their_bytes() {
    let long = vec![b'n'; 2_000_000];
    let one = "_ZN1a".to_owned() + &"1b".repeat(30_000) + "Ev";
    // Each `S<n>_` repeats what came before: names of up to 64 KiB when spelled out.
    let grows = "_Z1fPFvv".to_owned() + &"PFS_S_S_E".repeat(9);
    for (name, count, text, is_overlapping) in [
        ("overlap", 10_000, long, true),
        ("one", 10_000, one.into_bytes(), false),
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

#[test]
fn files_of_other_profilers_cost_their_bytes() {
    let opened = r#"{"type":"O","frame":0,"at":1},"#.repeat(200_000);
    let speedscope = format!(
        r#"{{"$schema":"https://www.speedscope.app/file-format-schema.json","shared":{{"frames":[{{"name":"f"}}]}},
        "profiles":[{{"type":"evented","name":"t","unit":"none","startValue":0,"endValue":1,"events":[{}
        {{"type":"O","frame":0,"at":2}}]}}]}}"#,
        opened
    );
    check("opened.speedscope.json.gz", &gzip(speedscope.as_bytes()), &["report"]);
    let path = format!("[{}0]", "0,".repeat(900_000));
    let speedscope = format!(
        r#"{{"$schema":"https://www.speedscope.app/file-format-schema.json","shared":{{"frames":[{{"name":"f"}}]}},
        "profiles":[{{"type":"sampled","name":"t","unit":"none","startValue":0,"endValue":1,"samples":[{path}],"weights":[1]}}]}}"#
    );
    check("deep.speedscope.json.gz", &gzip(speedscope.as_bytes()), &["report"]);
    let node = |id: usize| {
        let call = r#"{"functionName":"f","scriptId":"1","url":"","lineNumber":1,"columnNumber":1}"#;
        format!(r#"{{"id":{id},"callFrame":{call},"children":[{},{}]}}"#, id + 1, id + 2)
    };
    let nodes: Vec<String> = (1..100_000).map(node).collect();
    let cpu_profile = format!(
        r#"{{"nodes":[{}],"startTime":1,"endTime":9,"samples":[99999],"timeDeltas":[1]}}"#,
        nodes.join(",")
    );
    check("nodes.cpuprofile.gz", &gzip(cpu_profile.as_bytes()), &["report"]);
    let sample: Vec<u64> = [1, 60_000].into_iter().chain(std::iter::repeat_n(7, 60_000)).collect();
    let words = [vec![0, 3, 0, 1000, 0], sample.repeat(60)].concat();
    let words: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
    check("deep.gperftools.gz", &gzip(&words), &["report"]);
    let paths = format!("[{}0]", "0,".repeat(60_000));
    let point = format!(r#"{{"tb":1,"tbk":1,"fs":{paths}}}"#);
    let dhat = format!(
        r#"{{"dhatFileVersion":2,"mode":"heap","verb":"Allocated","bklt":false,"cmd":"a","pid":1,"pps":[{}],"ftbl":["[root]"]}}"#,
        vec![point; 20].join(",")
    );
    check("paths.dhat.gz", &gzip(dhat.as_bytes()), &["report"]);
}
