//! Files that claim much with few bytes: memory stays within 64 times the file and 300 MB, time in proportion to the
//! file, whatever the reader.
#![cfg(target_os = "linux")]

mod programs;

use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use nix::sys::resource::{UsageWho, getrusage};
use serde_json::json;

use crate::support::{sprof, temp_dir};

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
    let mut command = sprof();
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
    /// The host's pauses, and other tests, make a CPU time longer and never shorter. So one that is short enough shows
    /// that the true one is.
    const ATTEMPTS: usize = 3;
    let small = check(name, small, command).cpu;
    let limit = 9 * small + Duration::from_millis(400);
    let mut measured = Vec::new();
    while measured.last().is_none_or(|last| *last >= limit) {
        assert!(measured.len() < ATTEMPTS, "{name}: {small:?}, then {measured:?}");
        measured.push(check(name, large, command).cpu);
    }
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
#[ignore = "long: forks have the same limits and a test of them"]
fn stacks_of_many_processes_cost_their_bytes() {
    check("stacks.data.gz", &stacks(20_000), &["report"]);
    check_time("stacks.data.gz", &stacks(5000), &stacks(20_000), &["report"]);
}

#[test]
fn forks_share_what_their_parents_have_mapped() {
    let shared = check("forks.data", &forks(5000, 20_000, false, 3), &["report"]);
    assert_eq!(shared.code, 0, "{}", shared.stderr);
    check("long_name.data", &forks(50, 20_000, false, 60_000), &["report"]);
    let (small, large) = (forks(2000, 5000, true, 3), forks(8000, 20_000, true, 3));
    check_time("forks_that_map.data", &small, &large, &["report"]);
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
