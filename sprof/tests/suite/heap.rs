//! Blocks of memory that programs take and free, from the library in them to the copy on disk.
#![cfg(target_os = "linux")]

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use perf_data::import::Import;
use recording::clock::Timestamp;
use recording::event::{Allocation, Event, EventKind, Pid, ProcessEvent, Role, ThreadEvent};
use recording::heap::UnseenCause;
use recording::sink::{Completion, EventSink};
use recording::stack::{Frame, Stack};
use serde_json::Value;

use crate::heap_views::heap_has_the_true_bytes;
use crate::support::run::{PATIENCE, output};
use crate::support::schema::parsed;
use crate::support::skip::{Need, has, is_root};
use crate::support::{Recorder, Recording, program, record, sprof};

/// The addresses of a program's functions, by the linker's table.
fn functions(program: &Path) -> BTreeMap<u64, String> {
    let listed = Command::new("nm").arg("--defined-only").arg(program).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let lines = listed.lines().filter_map(|line| {
        let mut words = line.split(' ');
        let (address, kind, name) = (words.next()?, words.next()?, words.next()?);
        (kind.eq_ignore_ascii_case("t")).then(|| Some((u64::from_str_radix(address, 16).ok()?, name.to_owned())))?
    });
    lines.collect()
}

/// What a recording has of the heap: blocks and frees in their order, paired as a reader of them does.
struct HeapLog {
    functions: BTreeMap<u64, String>,
    /// Where each process has the program.
    bases: HashMap<Pid, u64>,
    live: HashMap<Pid, HashMap<u64, (Vec<String>, Allocation)>>,
    /// All blocks, by process.
    taken: Vec<(Pid, Vec<String>, Allocation)>,
    unpaired: u64,
    last: Timestamp,
}

impl HeapLog {
    /// Reads what a killed recording of a program has left.
    fn read(file: &Path, program: &Path) -> HeapLog {
        HeapLog::read_if_begun(file, program).unwrap()
    }

    /// The same; `None` if nothing is in the file yet.
    fn read_if_begun(file: &Path, program: &Path) -> Option<HeapLog> {
        let mut log = HeapLog {
            functions: functions(program),
            bases: HashMap::new(),
            live: HashMap::new(),
            taken: Vec::new(),
            unpaired: 0,
            last: Timestamp(0),
        };
        let import = Import::open(BufReader::new(File::open(file).ok()?), None, None).ok()?;
        let imported = import.run(&mut log).ok()?;
        imported.info.heap.is_some().then_some(log)
    }

    fn names(&self, pid: Pid, frames: &[Frame]) -> Vec<String> {
        let base = self.bases.get(&pid).copied().unwrap_or_default();
        let name = |frame: &Frame| {
            let address = frame.lookup_address()?.0.checked_sub(base)?;
            let (_, name) = self.functions.range(..=address).next_back()?;
            Some(name.clone())
        };
        frames.iter().filter_map(name).collect()
    }

    /// The bytes that the blocks of a function stand for, and how many of its blocks there are.
    fn taken_in(&self, pid: Option<Pid>, function: &str) -> (f64, usize) {
        let of_function = self
            .taken
            .iter()
            .filter(|(of, names, _)| pid.is_none_or(|pid| pid == *of) && names.iter().any(|name| name == function));
        let weights: Vec<f64> = of_function.map(|(_, _, block)| block.weight()).collect();
        (weights.iter().sum(), weights.len())
    }

    /// Blocks of a function that were never freed.
    fn live_in(&self, pid: Pid, function: &str) -> usize {
        let live = self.live.get(&pid).into_iter().flat_map(HashMap::values);
        live.filter(|(names, _)| names.iter().any(|name| name == function))
            .count()
    }

    fn pids(&self) -> Vec<Pid> {
        let mut pids: Vec<Pid> = self.live.keys().copied().collect();
        pids.sort_unstable();
        pids
    }
}

impl EventSink for HeapLog {
    fn on_event(&mut self, event: &Event<'_>) {
        match event.kind {
            EventKind::Process(pid, ProcessEvent::Map(mapping)) if mapping.path.ends_with(b"/heap") => {
                self.bases.insert(pid, mapping.start - mapping.file_offset);
            }
            EventKind::Process(pid, ProcessEvent::Start { parent: Some(parent) }) => {
                if let Some(base) = self.bases.get(&parent).copied() {
                    self.bases.insert(pid, base);
                }
            }
            EventKind::Thread(thread, ThreadEvent::Sample(sample)) if sample.role == Role::Allocation => {
                let (Stack::Frames(frames), Some(block)) = (sample.stack, sample.allocation) else {
                    panic!("{sample:?}");
                };
                assert!(event.time >= self.last);
                self.last = event.time;
                let names = self.names(thread.pid, frames);
                self.taken.push((thread.pid, names.clone(), *block));
                let live = self.live.entry(thread.pid).or_default();
                let before = live.insert(block.address, (names, *block));
                assert!(before.is_none(), "{:#x} is taken twice", block.address);
            }
            EventKind::Thread(thread, ThreadEvent::Freed { address }) => {
                assert!(event.time >= self.last);
                self.last = event.time;
                let live = self.live.entry(thread.pid).or_default();
                self.unpaired += u64::from(live.remove(&address).is_none());
            }
            _ => {}
        }
    }

    fn end_round(&mut self, _: Timestamp) -> Completion {
        Completion::default()
    }
}

/// Records the program until it waits and this number of blocks is written, kills sprof, and reads what is left.
fn killed(recorder: Recorder, steps: &[&str], least: usize) -> HeapLog {
    let heap = program("heap").unwrap();
    let running = recorder.start(&heap, &[steps, &["wait"]].concat());
    running.wait_for("waits");
    let mut partial = running.output().as_os_str().to_owned();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    // A round, the half second of the copy on disk, and another round; on a busy machine they take longer.
    let (mut blocks, mut quiet) = (0, 0);
    let start = Instant::now();
    while blocks < least || quiet < 4 {
        assert!(start.elapsed() < PATIENCE, "{blocks} blocks are written, not {least}");
        std::thread::sleep(Duration::from_millis(500));
        let now = HeapLog::read_if_begun(&partial, &heap).map_or(0, |log| log.taken.len());
        quiet = if now > 0 && now == blocks { quiet + 1 } else { 0 };
        blocks = now;
    }
    running.signal_sprof("KILL");
    let kept = tempfile::NamedTempFile::new().unwrap();
    fs::copy(&partial, kept.path()).unwrap();
    let recording = running.finish();
    assert_eq!(recording.signal, Some(9), "{}", recording.stderr);
    HeapLog::read(kept.path(), &heap)
}

/// Under a filter that refuses perf_event_open: sprof samples with ptrace.
fn with_ptrace() -> Recorder {
    record().under(&[program("refuse").unwrap().to_str().unwrap(), "eperm"])
}

pub(crate) fn exact(recorder: Recorder) -> Recorder {
    recorder.options(&["--heap", "--heap-interval", "1"])
}

/// With an interval of 1, each block is a sample. All of them fit into one ring: threads may share it.
#[test]
fn each_block_and_each_free_is_there_with_its_stack_also_when_sprof_is_killed() {
    for recorder in [record(), with_ptrace()] {
        let log = killed(exact(recorder), &["1", "8", "thread"], 257 + 256);
        let [pid] = log.pids()[..] else {
            panic!("{:?}", log.pids())
        };
        let mib = f64::from(1 << 20);
        let array = 256.0 * size_of::<usize>() as f64;
        assert_eq!(log.taken_in(None, "keeps"), (mib + array, 257));
        assert_eq!(log.taken_in(None, "frees"), (2.0 * mib, 256));
        assert_eq!(log.taken_in(None, "in_thread"), (mib, 128));
        assert_eq!(log.taken_in(None, "take"), (3.0 * mib, 512));
        assert_eq!((log.live_in(pid, "keeps"), log.live_in(pid, "frees")), (257, 0));
        assert_eq!(log.unpaired, 0);
        let of_main = log
            .taken
            .iter()
            .filter(|(_, names, _)| names.iter().any(|name| name == "main"));
        assert!(of_main.count() >= 385);
    }
}

#[test]
fn blocks_of_a_fork_and_of_the_program_that_a_process_executes_are_its_own() {
    let log = killed(exact(record()), &["1", "64", "fork", "exec"], 3 * (257 + 16));
    let [first, second] = log.pids()[..] else {
        panic!("{:?}", log.pids())
    };
    // The program takes its memory again when it has executed itself.
    assert_eq!(log.taken_in(Some(first), "keeps").1, 2 * 257);
    assert_eq!(log.taken_in(Some(first), "frees").1, 2 * 16);
    assert_eq!(log.taken_in(Some(second), "keeps").1, 257);
    assert_eq!(log.taken_in(Some(second), "frees").1, 16);
    assert_eq!((log.live_in(second, "keeps"), log.live_in(second, "frees")), (257, 0));
    assert_eq!(log.unpaired, 0);
}

/// Records with `--json`; returns what sprof says of the heap.
pub(crate) fn heap_of(recorder: Recorder, command: &[&str]) -> (Recording, Value) {
    let recording = recorder
        .options(&["--json", "--no-symbolicate"])
        .run(command[0], &command[1..]);
    let last = recording.stdout.lines().last().unwrap_or_default();
    let summary: Value = parsed(last);
    let heap = summary["heap"].clone();
    (recording, heap)
}

/// The blocks that were sampled, and those for which the ring had no room: where sprof has no CPU for a while, the
/// program fills it.
pub(crate) fn taken(seen: &Value) -> u64 {
    seen["blocks"].as_u64().unwrap() + seen["lost"]["blocks"].as_u64().unwrap()
}

/// What finds no room in a burst is counted: the mean of all together is known.
#[test]
fn a_program_is_as_without_sprof_and_its_blocks_are_sampled_by_chance() {
    let heap = program("heap").unwrap();
    let heap = heap.to_str().unwrap();
    let words = [heap, "100", "16", "thread", "fork"];
    let plain = output(Command::new(heap).args(&words[1..]));
    let (recording, seen) = heap_of(record().options(&["--heap", "--heap-interval", "64K"]), &words);
    assert_eq!(recording.code, plain.status.code(), "{}", recording.stderr);
    let printed = record().options(&["--heap"]).run(heap, &words[1..]);
    assert_eq!(printed.stdout.as_bytes(), plain.stdout, "{}", printed.stderr);
    assert_eq!(seen["programs"], 1, "{seen}");
    // Of 200 MiB in blocks of 4 KiB, and 300 MiB in blocks of 16 KiB.
    let chance = |bytes: f64| 1.0 - (-bytes / f64::from(64 << 10)).exp();
    let blocks = [(51_200.0, chance(4096.0)), (19_200.0, chance(16_384.0))];
    let expected: f64 = blocks.iter().map(|(count, chance)| count * chance).sum();
    let variance: f64 = blocks
        .iter()
        .map(|(count, chance)| count * chance * (1.0 - chance))
        .sum();
    let sampled = taken(&seen) as f64;
    // Beyond the six standard deviations, some arrays and buffers.
    assert!(
        (sampled - expected).abs() < 6.0 * variance.sqrt() + 10.0,
        "{sampled}, not {expected}"
    );
    assert_eq!(seen["unseen"], serde_json::json!([]));
}

#[test]
fn programs_without_the_library_are_named_with_the_reason() {
    let heap = program("heap").unwrap();
    let Some(fixed) = program("split_static") else { return };
    let library = program("preloaded.so").unwrap();
    let script = format!(
        "{0} 1 4; env -i {0} 1 4; {1} 10 1; LD_PRELOAD={2} {0} 1 4; true",
        heap.display(),
        fixed.display(),
        library.display()
    );
    let (recording, seen) = heap_of(exact(record()), &["sh", "-c", &script]);
    assert_eq!(recording.code, Some(0), "{}", recording.stderr);
    let unseen = seen["unseen"].as_array().unwrap();
    let found: Vec<(&str, &str)> = { unseen.iter() }
        .map(|program| (program["name"].as_str().unwrap(), program["cause"].as_str().unwrap()))
        .collect();
    assert_eq!(
        found,
        [
            (
                "heap",
                "the library was not loaded (LD_PRELOAD changed, another file system, or rights of the file)"
            ),
            ("split_static", &*UnseenCause::Static.label()),
            // A child that sets it itself.
            (
                "heap",
                "the library was not loaded (LD_PRELOAD changed, another file system, or rights of the file)"
            )
        ],
        "{seen}"
    );
    assert!(
        recording.stderr.contains("heap not recorded: split_static ("),
        "{}",
        recording.stderr
    );
}

/// Code is changed on x86_64 alone.
#[test]
fn an_allocator_that_is_linked_into_a_program_is_sampled_by_its_functions() {
    if cfg!(not(target_arch = "x86_64")) {
        return;
    }
    let own = program("heap_own").unwrap();
    let own = own.to_str().unwrap();
    let each = record().options(&["--heap", "--heap-interval", "1"]);
    let (recording, seen) = heap_of(each, &[own, "1000"]);
    assert_eq!(recording.code, Some(0), "{}", recording.stderr);
    assert_eq!(seen["unseen"], serde_json::json!([]), "{seen}");
    let linked = serde_json::json!([
        {"program": "heap_own", "allocators": "mimalloc", "functions": 1, "left_out": []}
    ]);
    assert_eq!(seen["linked"], linked, "{seen}");
    // The program prints nothing, so libc takes nothing.
    assert_eq!(taken(&seen), 1000, "{seen}");
    assert!(
        recording.stderr.contains("; mimalloc in heap_own by 1 function"),
        "{}",
        recording.stderr
    );
}

/// Half of the time is that of the code which counts.
#[test]
fn samples_of_cpu_time_in_patched_code_are_those_of_the_function() {
    if cfg!(not(target_arch = "x86_64")) {
        return;
    }
    let own = program("heap_own").unwrap();
    let recording = { record().options(&["--heap"]) }.run(own.to_str().unwrap(), &["100000000"]);
    assert_eq!(recording.code, Some(0), "{}", recording.stderr);
    let report = output(sprof().arg("report").arg(&recording.output));
    let report = String::from_utf8(report.stdout).unwrap();
    assert!(report.contains("mi_malloc"), "{report}");
    assert!(!report.contains("[code of no file]"), "{report}");
}

#[test]
fn an_allocator_whose_code_is_left_alone_is_named() {
    let own = program("heap_own").unwrap();
    let own = own.to_str().unwrap();
    let (recording, seen) = heap_of(record().options(&["--heap=interpose"]), &[own, "1000"]);
    assert_eq!(recording.code, Some(0), "{}", recording.stderr);
    let cause = |reason: &str| match cfg!(target_arch = "x86_64") {
        true => format!("is linked into it, and is not seen: {reason}"),
        false => "is linked into it".to_owned(),
    };
    let expected = format!("mimalloc {}", cause("--heap=interpose leaves code alone"));
    assert_eq!(seen["unseen"][0]["cause"], expected, "{seen}");
    let facts = &recording.profile().json["meta"]["sprof"]["recorded"];
    assert_eq!(
        (&facts["heap"]["unseen"], &facts["heap"]["lost"]["blocks"]),
        (&1.into(), &0.into()),
        "{facts}"
    );
    assert!(facts["limits"].to_string().contains("heap_own"), "{facts}");
    // Nobody knows what the compiler has made of a program's own.
    let own_malloc = program("heap_own_malloc").unwrap();
    let own_malloc = own_malloc.to_str().unwrap();
    let (recording, seen) = heap_of(record().options(&["--heap"]), &[own_malloc, "1000"]);
    assert_eq!(recording.code, Some(0), "{}", recording.stderr);
    let expected = format!(
        "a malloc of its own {}",
        cause("its code is changed only with --heap=patch")
    );
    assert_eq!(seen["unseen"][0]["cause"], expected, "{seen}");
    if cfg!(target_arch = "x86_64") {
        let each = record().options(&["--heap=patch", "--heap-interval", "1"]);
        let (_, seen) = heap_of(each, &[own_malloc, "1000"]);
        assert_eq!(
            (&seen["unseen"], &seen["linked"][0]["functions"]),
            (&serde_json::json!([]), &2.into()),
            "{seen}"
        );
        assert!(taken(&seen) >= 1000, "{seen}");
    }
}

/// Such as redis, which is C with jemalloc.
#[test]
fn an_operator_new_of_an_allocator_is_named_where_the_program_calls_it() {
    let library = program("libjemalloc.so").unwrap();
    let preload = format!("LD_PRELOAD={}", library.display());
    for (name, calls) in [("own_new", true), ("heap", false)] {
        let path = program(name).unwrap();
        let (recording, seen) = heap_of(
            record().options(&["--heap"]),
            &[&preload, path.to_str().unwrap(), "1", "4"],
        );
        assert!(recording.code.is_some(), "{}", recording.stderr);
        assert_eq!(seen["unseen"].to_string().contains("operator new"), calls, "{seen}");
    }
}

/// Stacks of 40 frames of 1 KiB, of which 8 KiB are copied at first.
#[test]
fn more_of_each_stack_is_copied_once_many_are_deeper() {
    let log = killed(
        record().options(&["--heap", "--heap-interval", "4K"]),
        &["8", "64", "deep"],
        300,
    );
    let of_deep: Vec<_> = log
        .taken
        .iter()
        .filter(|(_, names, _)| names.iter().any(|name| name == "deep"))
        .collect();
    let whole = of_deep.iter().rev().take(100);
    let whole = whole
        .filter(|(_, names, _)| names.iter().any(|name| name == "main"))
        .count();
    assert!(of_deep.len() > 300 && whole == 100, "{whole} of {}", of_deep.len());
}

#[test]
fn a_static_program_is_announced_and_recorded_without_its_heap() {
    // Without names, nothing can be patched.
    for (name, heap) in [("split_static", "--heap"), ("sorts_musl_stripped", "--heap=patch")] {
        let Some(fixed) = program(name) else { continue };
        let (recording, seen) = heap_of(record().options(&[heap]), &[fixed.to_str().unwrap(), "10", "1"]);
        assert_eq!(recording.code, Some(0), "{}", recording.stderr);
        assert!(
            recording.stderr.contains("can't be recorded: static"),
            "{}",
            recording.stderr
        );
        assert_eq!(
            (&seen["programs"], &seen["unseen"][0]["cause"]),
            (&0.into(), &UnseenCause::Static.label().into())
        );
    }
}

#[test]
fn the_heap_of_a_static_program_that_sprof_starts_is_recorded() {
    if cfg!(not(target_arch = "x86_64")) {
        return;
    }
    let Some(heap) = program("heap_static") else { return };
    for recorder in [record(), with_ptrace()] {
        let recording =
            { recorder.options(&["--heap=patch", "--heap-interval", "64K"]) }.run(&heap, &["32", "16", "thread"]);
        assert_eq!(recording.code, Some(7), "{}", recording.stderr);
        assert_eq!(recording.stdout, "kept 8192\nfreed 2048\nfreed 2048\n");
        assert!(!recording.stderr.contains("not recorded"), "{}", recording.stderr);
        heap_has_the_true_bytes(&recording.output);
    }
}

#[test]
fn a_static_program_runs_where_ptrace_is_refused_and_is_named() {
    if cfg!(not(target_arch = "x86_64")) {
        return;
    }
    let Some(heap) = program("heap_static") else { return };
    let refuse = program("refuse").unwrap();
    let refused = record().under(&[refuse.to_str().unwrap(), "eperm", "only-ptrace"]);
    let (recording, seen) = heap_of(refused.options(&["--heap=patch"]), &[heap.to_str().unwrap(), "1", "8"]);
    assert_eq!(recording.code, Some(7), "{}", recording.stderr);
    assert!(
        recording.stdout.starts_with("kept 256\nfreed 128\n"),
        "{}",
        recording.stdout
    );
    let unseen = seen["unseen"].as_array().unwrap();
    assert_eq!(unseen.len(), 1, "{seen}");
    assert_eq!(
        unseen[0]["cause"],
        "a malloc of its own is linked into it, and is not seen: its start can't be changed (ptrace: Operation not \
         permitted (os error 1)); linked dynamically, it is seen",
        "{seen}"
    );
}

#[test]
fn what_no_library_sends_is_refused_and_counted() {
    let forged = program("heap_forged").unwrap();
    let (recording, seen) = heap_of(record().options(&["--heap"]), &[forged.to_str().unwrap()]);
    assert_eq!(recording.code, Some(5), "{}", recording.stderr);
    assert!(recording.stdout.starts_with("done\n"), "{}", recording.stdout);
    // Connections, messages, and records; the program's own blocks are there.
    assert!(seen["lost"]["refused"].as_u64().unwrap() > 300, "{seen}");
    assert!(taken(&seen) > 500, "{seen}");
}

/// The library of such a program knows the numbers of the container alone.
#[test]
fn a_program_in_a_container_is_recorded() {
    let allowed = Command::new("unshare").args(["--pid", "--fork", "true"]).status();
    let allowed = allowed.is_ok_and(|status| status.success());
    if !has(Need::Namespaces, allowed, "unshare --pid is not permitted") {
        return;
    }
    let heap = program("heap").unwrap();
    let words = [
        "unshare",
        "--pid",
        "--fork",
        "--mount-proc",
        heap.to_str().unwrap(),
        "1",
        "4",
        "rest",
    ];
    let (recording, seen) = heap_of(exact(record()), &words);
    assert_eq!(recording.code, Some(7), "{}", recording.stderr);
    assert!(taken(&seen) >= 257 + 11 * 256, "{seen}");
    assert_eq!(
        (&seen["unseen"], &seen["lost"]["unknown"]),
        (&serde_json::json!([]), &0.into()),
        "{seen}"
    );
}

#[test]
fn the_heap_of_running_processes_is_refused() {
    for (words, expected) in [
        (&["--heap", "-p", "1"][..], "cannot be used with"),
        (&["--heap-interval", "1K", "true"], "required"),
        (&["--heap", "--heap-interval", "0", "true"], "from 1 to 1024G"),
    ] {
        let refused = output(sprof().arg("record").args(words));
        let stderr = String::from_utf8_lossy(&refused.stderr);
        assert!(
            refused.status.code() == Some(2) && stderr.contains(expected),
            "{stderr}"
        );
    }
}

/// The library and the socket of an ordinary user are for that user alone; those of root for all that root starts.
#[test]
fn a_program_that_runs_as_another_user_is_recorded() {
    if !has(Need::Root, is_root(), "only root can become another user") {
        return;
    }
    let playground = crate::support::playground::Playground::new(&["heap"]);
    let copy = playground.path("heap");
    let words = [
        "setpriv",
        "--reuid=65534",
        "--clear-groups",
        copy.to_str().unwrap(),
        "1",
        "4",
    ];
    let (recording, seen) = heap_of(exact(record()), &words);
    assert_eq!(recording.code, Some(7), "{}", recording.stderr);
    assert!(!recording.stderr.contains("ld.so"), "{}", recording.stderr);
    assert!(taken(&seen) > 512, "{seen}");
    assert_eq!(seen["unseen"], serde_json::json!([]), "{seen}");
}
