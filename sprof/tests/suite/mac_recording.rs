//! A recording of a Mac, on Linux: a real Mach-O program on a simulated kernel goes through the recorder, the unwinder,
//! the builder, the reader of symbols and the Firefox Profiler.
//!
//! An emulated processor has run the program (unwind/tests/fixtures/mach-o/make.py). The thread of the simulated
//! process stops at all those instructions, for times that the kernel knows.
#![cfg(target_os = "linux")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use names::rust_name::readable;
use names::source_path::in_profile;
use profile::builder::{BuildOptions, Builder};
use profile::enrich::enrich;
use profile::export::firefox::write_gz;
use recorder_macos::files::{MachFiles, MachMemory};
use recorder_macos::kernel::{Mach as _, WaitMode};
use recorder_macos::session::MachRecording;
use recorder_macos::session::task_access::Rights;
use recording::clock::{ClockReference, Timestamp};
use recording::event::Pid;
use recording::session::{RecordOptions, RecordTarget, Session as _};
use recording::stack::Registers;
use recording::wait::WaitReason;
use symbolicator::{SymbolOptions, Symbolicator};
use unwind::{UnwindOptions, Unwinder};

use crate::support::client::Client;
use crate::support::profile::FrameInfo;
use crate::support::{Profile, temp_dir};
use trace::{Caller, State, Trace};
use xnu::Xnu;
use xnu::fault::Faults;
use xnu::machine::{Behaviour, Machine, WAITS};
use xnu::program::{Moment, Program};

#[path = "../../../unwind/tests/suite/mach_o/trace.rs"]
#[allow(dead_code, reason = "the unwinder's own tests use all of it")]
mod trace;
#[path = "../../../recorder-macos/tests/suite/xnu/mod.rs"]
#[allow(dead_code, reason = "the recorder's own tests use all of it")]
mod xnu;

const MS: u64 = 1_000_000;
/// Where the program was linked.
const LINKED_AT: u64 = 0x1_0000_0000;

/// The thread stays at an instruction for so long, calls the kernel and waits.
const BUSY: Behaviour = Behaviour {
    run_ns: (20_000, 2 * MS),
    wait_ns: (50_000, 5 * MS),
    waits: 10,
    calls: 10,
    changes: 0,
    holes: 0,
};

/// A function, a file and a line.
type Place = (String, String, u32);
/// All of a stack, root first.
type Shape = Vec<Place>;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// What llvm-symbolizer says of an address, as it was linked: root first.
fn answers(arch: &str) -> BTreeMap<u64, Shape> {
    let file = format!("unwind/tests/fixtures/mach-o/{arch}-words.txt");
    let text = fs::read_to_string(repository().join(file)).unwrap();
    let (addresses, answers) = text.split_once("\n\n").unwrap();
    let address = |line: &str| u64::from_str_radix(line.strip_prefix("0x").unwrap(), 16).unwrap();
    let frame = |lines: &[&str]| {
        let mut parts = lines[1].rsplitn(3, ':');
        let (_column, line, file) = (parts.next(), parts.next().unwrap(), parts.next().unwrap());
        let name = symbolicator::demangle(lines[0]);
        (
            readable(&name).into_owned(),
            in_profile(file).into_owned(),
            line.parse().unwrap(),
        )
    };
    let shape = |answer: &str| {
        let lines: Vec<&str> = answer.lines().collect();
        lines.chunks(2).map(frame).rev().collect()
    };
    let answers = answers.trim_end().split("\n\n").map(shape);
    addresses.lines().map(address).zip(answers).collect()
}

/// The stack of a state, by llvm-symbolizer. `None` if it has no function for one of the frames: a stub is in none.
fn shape(state: &State<'_>, base: u64, answers: &BTreeMap<u64, Shape>) -> Option<Shape> {
    let (Registers::Aarch64 { pc, .. } | Registers::X86_64 { ip: pc, .. }) = state.registers;
    let callers = state.callers.iter().map(|caller| match caller {
        Caller::Called(behind) => behind - 1,
        Caller::Interrupted(at) => *at,
    });
    let mut shape = Shape::new();
    for address in callers.chain([pc]) {
        let frames = answers.get(&(address - base + LINKED_AT))?;
        if frames.iter().any(|(name, ..)| name == "??") {
            return None;
        }
        shape.extend(frames.iter().cloned());
    }
    Some(shape)
}

/// The segments of a file as they are loaded, from `__TEXT` on: see mach-o/loader.h.
fn loaded(file: &[u8]) -> Vec<u8> {
    let word = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().unwrap()) as usize;
    let half = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap()) as usize;
    let (mut memory, mut at) = (Vec::new(), 32);
    for _ in 0..half(16) {
        const LC_SEGMENT_64: usize = 0x19;
        if half(at) == LC_SEGMENT_64 {
            let [address, size, offset, in_file] = [24, 32, 40, 48].map(|field| word(at + field));
            if let Some(start) = address.checked_sub(LINKED_AT as usize) {
                memory.resize(start + size, 0);
                memory[start..start + in_file].copy_from_slice(&file[offset..offset + in_file]);
            }
        }
        at += half(at + 4);
    }
    memory
}

fn options(pid: i32, seconds: u64, off_cpu: bool) -> RecordOptions {
    RecordOptions {
        target: RecordTarget::Processes(vec![Pid(pid)]),
        command: Vec::new(),
        env: Vec::new(),
        rate_hz: 1000.0,
        ptrace_rate_hz: 100.0,
        stack_bytes: 16 << 10,
        larger_stacks: true,
        off_cpu,
        parallelism: false,
        events: Vec::new(),
        event_sampling: None,
        probes: Vec::new(),
        spans: Vec::new(),
        heap: None,
        paused: false,
        resources: true,
        duration: Some(Duration::from_secs(seconds)),
        keep_running: false,
        include_args: true,
    }
}

/// A named profile, and the truth.
struct Recorded {
    profile: profile::Profile,
    /// CPU time of each stack, ns.
    stacks: BTreeMap<Shape, u64>,
    /// Time of waits for pages of memory or for a disk, and of other waits, ns.
    waited_ns: [u64; 2],
}

fn record(arch: &str, program: &Path, off_cpu: bool) -> Recorded {
    let trace = Trace::read(&repository().join(format!("unwind/tests/fixtures/mach-o/{arch}-words.gz")));
    let (image, answers) = (&trace.images[0], answers(arch));
    let (mut moments, mut shapes) = (Vec::new(), Vec::new());
    trace.states(|state| {
        if let Some(shape) = shape(&state, image.base, &answers) {
            let (registers, stack) = (state.registers, state.stack.to_vec());
            moments.push(Moment { registers, stack });
            shapes.push(shape);
        }
    });
    assert!(moments.len() > 200, "{}", moments.len());
    let mut machine = Machine::new(14, 2);
    machine.start(None, 1, BUSY);
    machine.set_program(
        0,
        Program {
            path: program.to_str().unwrap().to_owned(),
            base: image.base,
            memory: loaded(&image.file),
            jit: (0, Vec::new()),
            moments,
        },
    );
    let pid = machine.processes[0].pid;
    let xnu = Xnu::new(machine, Faults::default());
    let recording = MachRecording::prepare(xnu.clone(), &options(pid, 20, off_cpu), Rights::Root).unwrap();
    let thread = || {
        let thread = &xnu.lock().machine.threads[0];
        let (hard, soft): (Vec<_>, Vec<_>) = thread
            .waited_ns
            .into_iter()
            .zip(WAITS)
            .partition(|(_, wait)| wait.1 == WaitMode::Uninterruptible);
        let sum = |waits: Vec<(u64, _)>| waits.iter().map(|(ns, _)| ns).sum::<u64>();
        (thread.moments_ns.clone(), [sum(hard), sum(soft)])
    };
    let (before, waited_before) = thread();
    let timestamp = Timestamp(xnu.now_ns());
    let clock = ClockReference {
        timestamp,
        wall: SystemTime::UNIX_EPOCH,
    };
    let builder = Builder::new(clock, BuildOptions::default());
    let (memory, files) = (MachMemory::new(xnu.clone()), MachFiles::new(xnu.clone()));
    let mut unwinder = Unwinder::new(builder, memory, files, UnwindOptions::default());
    let finished = recording.run(clock, &mut unwinder).unwrap();
    let kept_files = unwinder.kept_files();
    let (builder, quality) = unwinder.finish();
    assert_eq!(quality.rooted, quality.samples, "{quality:?}");
    assert_eq!((quality.unverified, quality.by_frame_pointer), (0, 0), "{quality:?}");
    let mut profile = builder.finish(finished.info, quality);
    let symbolicator = Symbolicator::new(SymbolOptions::default());
    for (module, file) in kept_files {
        symbolicator.add_kept_file(&module, file);
    }
    let named = enrich(&mut profile, |module, addresses| {
        symbolicator.lookup(module, addresses).ok()
    });
    assert_eq!((named.modules, named.addresses_without_name), (1, 0), "{named:?}");
    let (after, waited_after) = thread();
    let mut stacks = BTreeMap::new();
    for ((shape, before), after) in shapes.into_iter().zip(before).zip(after) {
        *stacks.entry(shape).or_default() += after - before;
    }
    Recorded {
        profile,
        stacks,
        waited_ns: [0, 1].map(|kind| waited_after[kind] - waited_before[kind]),
    }
}

/// A folder with a program and its debug info, as the linker and `dsymutil` leave them.
fn program(folder: &Path, arch: &str) -> PathBuf {
    let from = repository().join("symbolicator/tests/mach_o").join(arch);
    let bundle = folder.join("words.dSYM/Contents/Resources/DWARF");
    fs::create_dir_all(&bundle).unwrap();
    fs::copy(from.join("words.debug"), bundle.join("words")).unwrap();
    let program = folder.join("words");
    fs::copy(from.join("words"), &program).unwrap();
    program
}

/// Shares of what a stack holds, in percent: by itself, and of all stacks that have it.
fn shares(stacks: &BTreeMap<Shape, u64>, what: impl Fn(&Place) -> String) -> BTreeMap<String, (f64, f64)> {
    let all: u64 = stacks.values().sum();
    let mut shares: BTreeMap<String, (f64, f64)> = BTreeMap::new();
    for (shape, ns) in stacks {
        let percent = 100.0 * *ns as f64 / all as f64;
        let leaf = shape.last().map(&what).unwrap_or_default();
        shares.entry(leaf).or_default().0 += percent;
        for one in shape.iter().map(&what).collect::<BTreeSet<_>>() {
            shares.entry(one).or_default().1 += percent;
        }
    }
    shares
}

/// Two shares of so many samples are the same: within a point, and within five standard deviations.
fn assert_same(what: &str, (own, total): (f64, f64), truth: (f64, f64), samples: usize) {
    for (found, true_share) in [(own, truth.0), (total, truth.1)] {
        let share = true_share / 100.0;
        let chance = 500.0 * (share * (1.0 - share) / samples as f64).sqrt();
        // The client rounds to tenths.
        let points = chance.min(1.0) + 0.06;
        assert!(
            (found - true_share).abs() <= points,
            "{what}: {found:.2} %, not {true_share:.2} ± {points:.2} %"
        );
    }
}

/// The CPU time of each stack in a saved profile, ns, and the number of samples.
fn read(saved: &Path) -> (BTreeMap<Shape, u64>, usize) {
    let profile = Profile::read(saved);
    let mut stacks: BTreeMap<Shape, u64> = BTreeMap::new();
    for sample in profile.samples() {
        let frames = profile.stack_frames(sample.stack.unwrap());
        let place = |frame: &FrameInfo| {
            let file = frame.file.clone().unwrap_or_default();
            (frame.function.clone(), file, frame.line.unwrap_or(0))
        };
        let ns = 1e6 * sample.weight;
        *stacks.entry(frames.map(place).collect()).or_default() += ns as u64;
    }
    (stacks, profile.samples().count())
}

#[test]
fn a_recorded_mach_o_program_has_the_names_inlined_calls_lines_and_shares_that_it_has_in_truth() {
    let name = |(name, ..): &Place| name.clone();
    let line = |(_, file, line): &Place| format!("{file}:{line}");
    for arch in ["aarch64", "x86_64"] {
        let dir = temp_dir();
        let saved = dir.path().join("profile.json.gz");
        let recorded = record(arch, &program(dir.path(), arch), false);
        let truth = recorded.stacks;
        write_gz(&recorded.profile, &mut fs::File::create(&saved).unwrap()).unwrap();
        let (found, samples) = read(&saved);
        assert!(samples > 10_000, "{arch}: {samples}");
        let unknown: Vec<_> = found.keys().filter(|shape| !truth.contains_key(*shape)).collect();
        assert!(
            unknown.is_empty(),
            "{arch}: {} stacks, the first: {:#?}",
            unknown.len(),
            unknown[0]
        );
        assert_eq!(found.len(), truth.len(), "{arch}");
        let (true_lines, found_lines) = (shares(&truth, line), shares(&found, line));
        for (line, share) in &true_lines {
            assert_same(line, found_lines[line], *share, samples);
        }

        let Some(client) = Client::load(saved.to_str().unwrap()) else {
            return;
        };
        let (functions, true_functions) = (client.functions(), shares(&truth, name));
        assert_eq!(functions.len(), true_functions.len(), "{functions:?}");
        for (function, _, own, total) in &functions {
            assert_same(function, (*own, *total), true_functions[function], samples);
        }
        let (_, handle, ..) = functions.iter().find(|(name, ..)| name == "outer").unwrap();
        let annotated = client.run(&["function", "annotate", handle, "--mode", "src", "--context", "file"]);
        let of_file = &annotated["srcAnnotation"];
        assert_eq!(of_file["filename"], "/src/main.c");
        let all_ms = found.values().sum::<u64>() as f64 / 1e6;
        for line in of_file["lines"].as_array().unwrap() {
            let place = format!("/src/main.c:{}", line["lineNumber"]);
            let share = |key: &str| 100.0 * line[key].as_f64().unwrap() / all_ms;
            let truth = true_lines.get(&place).copied().unwrap_or_default();
            assert_same(&place, (share("selfSamples"), share("totalSamples")), truth, samples);
        }
    }
}

/// The simulated thread waits at its instructions, which are in no system call.
#[test]
fn waits_of_a_recorded_mach_o_program_have_its_stacks_and_take_the_true_time() {
    let dir = temp_dir();
    let saved = dir.path().join("profile.json.gz");
    let recorded = record("aarch64", &program(dir.path(), "aarch64"), true);
    let totals = recorded.profile.waits().unwrap();
    for (reason, truth) in [WaitReason::PageFault, WaitReason::Unknown]
        .into_iter()
        .zip(recorded.waited_ns)
    {
        let found = totals.of(reason);
        // Each wait begins and ends up to a tick late.
        let chance_ns = 5.0 * MS as f64 * (found.count as f64).sqrt();
        assert!(
            found.count > 400 && (found.ns as f64 - truth as f64).abs() < chance_ns,
            "{reason:?}: {found:?} of {truth}"
        );
    }
    // The thread's time is all there: CPU time and waits.
    let accounted = totals.accounted_share().unwrap();
    assert!((accounted - 1.0).abs() < 0.02, "{accounted}");
    assert_eq!(
        totals.all().ns,
        totals.of(WaitReason::PageFault).ns + totals.of(WaitReason::Unknown).ns
    );
    write_gz(&recorded.profile, &mut fs::File::create(&saved).unwrap()).unwrap();
    let is_mark = |(name, ..): &Place| name.starts_with("[off-CPU");
    let (found, _) = read(&saved);
    for stack in found.keys() {
        let (marks, stack): (Shape, Shape) = stack.iter().cloned().partition(is_mark);
        assert!(
            recorded.stacks.contains_key(&stack) && [0, 2].contains(&marks.len()),
            "{stack:#?}"
        );
    }
    let cpu_ns: u64 = found
        .iter()
        .filter(|(stack, _)| !stack.iter().any(is_mark))
        .map(|(_, ns)| ns)
        .sum();
    let truth: u64 = recorded.stacks.values().sum();
    assert!(
        (cpu_ns as f64 / truth as f64 - 1.0).abs() < 0.01,
        "{cpu_ns} of {truth} ns"
    );
}
