//! Events in, the written profile out.

use crate::common::*;
use recording::address::Avma;
use recording::clock::Timestamp;
use recording::cpu_account::MachineTime;
use recording::event::{BpfProgram, Event, LostCause, RecordingEvent, Role};
use recording::info::{PeriodUnit, RecordingInfo};
use recording::module::{FileRole, Image, ModuleKind};
use recording::quality::Quality;
use recording::stack::{Frame, MissingStack, Stack, StackMark};
use serde_json::json;

#[test]
fn a_return_address_is_stored_one_byte_lower_and_an_instruction_pointer_as_it_is() {
    let mut stream = Stream::with_app();
    stream.sample(1, 1, 1, &[ip(0x1020), ret(0x1500)]);
    let json = written(&stream.finish());
    assert_eq!(stack_names(&json, 0, 0), ["0x4ff", "0x20"]);
    let mut addresses = json["shared"]["frameTable"]["address"].as_array().unwrap().clone();
    addresses.sort_by_key(|address| address.as_u64());
    assert_eq!(addresses, [0x20, 0x4ff]);
    assert_eq!(
        json["libs"].as_array().unwrap().len(),
        1,
        "libraries without frames are left out"
    );
}

#[test]
fn samples_keep_their_stacks_times_and_cpu_deltas() {
    let mut stream = Stream::with_app();
    let deep: Vec<Frame> = vec![ip(0x10_0040), ret(0x1101), ret(0x1201), ret(0x1301)];
    let shallow: Vec<Frame> = vec![ip(0x1110), ret(0x1201), ret(0x1301)];
    for i in 0..10 {
        stream.sample(1, 1, 10 + i, if i % 2 == 0 { &deep } else { &shallow });
    }
    let json = written(&stream.finish());
    for i in 0..10 {
        let expected: &[&str] = if i % 2 == 0 {
            &["0x300", "0x200", "0x100", "0x40"]
        } else {
            &["0x300", "0x200", "0x110"]
        };
        assert_eq!(stack_names(&json, 0, i), expected);
    }
    let samples = &json["threads"][0]["samples"];
    let sum = |key: &str| {
        samples[key]
            .as_array()
            .unwrap()
            .iter()
            .map(|v| v.as_f64().unwrap())
            .sum::<f64>()
    };
    assert_eq!(sum("threadCPUDelta"), (10 * MS) as f64);
    assert_eq!(samples["timeDeltas"][0], 10);
    assert_eq!(sum("timeDeltas"), 19.0);
    assert_eq!(json["shared"]["stackTable"]["length"], 5, "common callers are shared");
}

#[test]
fn time_zero_is_the_clock_reference_on_the_wall_clock() {
    let mut stream = Stream::with_app();
    stream.sample(1, 1, 5, &[ip(0x1020)]);
    let json = written(&stream.finish());
    assert_eq!(json["meta"]["startTime"], 1_790_000_000_123_u64);
    assert_eq!(json["meta"]["endTime"], 1_790_000_001_123_u64);
    assert_eq!(json["meta"]["interval"], 1);
}

#[test]
fn time_begins_with_the_program_that_is_launched() {
    let mut stream = Stream::new();
    stream.process(1, None, 250);
    stream.exec(1, "app", 250);
    stream.process(2, Some(1), 300);
    stream.sample(1, 1, 251, &[ip(0x1020)]);
    let json = written(&stream.finish());
    assert_eq!(json["threads"][0]["samples"]["timeDeltas"][0], 1);
    assert_eq!(json["threads"][0]["registerTime"], 0);
    assert_eq!(json["meta"]["startTime"], 1_790_000_000_373_u64);
    assert_eq!(json["meta"]["profilingStartTime"], 0);
    assert_eq!(json["meta"]["profilingEndTime"], 750);
    assert_eq!(json["meta"]["endTime"], 1_790_000_001_123_u64);
}

#[test]
fn the_same_address_after_exec_is_another_module() {
    let mut stream = Stream::with_app();
    stream.sample(1, 1, 1, &[ip(0x1020)]);
    stream.exec(1, "other", 2);
    stream.map(1, image("/opt/other", 0x1000, 0x1000), 2);
    stream.sample(1, 1, 3, &[ip(0x1020)]);
    let json = written(&stream.finish());
    let (app, other) = (thread(&json, "1"), thread(&json, "1.1"));
    assert_ne!(app["samples"]["stack"][0], other["samples"]["stack"][0]);
    assert_eq!((&app["processName"], &app["pid"]), (&"app".into(), &"1".into()));
    assert_eq!((&other["processName"], &other["pid"]), (&"other".into(), &"1.1".into()));
    assert_eq!((&app["unregisterTime"], &other["registerTime"]), (&2.into(), &2.into()));
    assert_eq!(
        json["meta"]["sprof"]["recorded"]["processes"], 1,
        "{}",
        json["meta"]["sprof"]
    );
    let markers = markers(other);
    assert!(
        markers
            .iter()
            .any(|(kind, data)| *kind == "Exec" && data["from"] == "app" && data["to"] == "other")
    );
}

#[test]
fn a_program_without_samples_has_no_track_beside_the_one_that_it_executes() {
    let mut stream = Stream::with_app();
    stream.exec(1, "other", 2);
    stream.map(1, image("/opt/other", 0x1000, 0x1000), 2);
    stream.sample(1, 1, 3, &[ip(0x1020)]);
    let json = written(&stream.finish());
    let names: Vec<&str> = (json["threads"].as_array().unwrap().iter())
        .map(|thread| thread["processName"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["other"]);
}

#[test]
fn the_program_is_what_a_loader_maps() {
    let with_role = |path: &str, start: u64, role: FileRole| Image {
        role,
        ..image(path, start, 0x1000)
    };
    let mut stream = Stream::with_app();
    stream.exec(1, "ld-linux-x86-64", 1);
    stream.map(1, with_role("/lib/ld-linux-x86-64.so.2", 0x1000, FileRole::Library), 1);
    stream.map(1, with_role("/lib/libfoo.so", 0x3000, FileRole::Library), 1);
    stream.map(1, with_role("/opt/tool", 0x2000, FileRole::Program), 1);
    // A library alone is what was executed.
    stream.process(2, None, 1);
    stream.map(2, with_role("/opt/libtool.so", 0x4000, FileRole::Library), 1);
    stream.sample(2, 2, 2, &[ip(0x4020)]);
    for address in [0x2020, 0x1020, 0x3020] {
        stream.sample(1, 1, 3, &[ip(address)]);
    }
    let json = written(&stream.finish());
    assert_eq!(thread(&json, "1")["processName"], "tool");
    let category = |lib: &str| {
        let libs = json["libs"].as_array().unwrap();
        let lib = libs.iter().position(|found| found["name"] == lib).unwrap();
        let frames = &json["shared"]["frameTable"];
        let frame = (frames["lib"].as_array().unwrap().iter())
            .position(|found| *found == lib)
            .unwrap();
        let category = frames["category"][frame].as_u64().unwrap() as usize;
        json["meta"]["categories"][category]["name"].clone()
    };
    assert_eq!(category("tool"), "Program");
    assert_eq!(category("libtool.so"), "Program");
    assert_eq!(category("libfoo.so"), "Library");
    assert_eq!(category("ld-linux-x86-64.so.2"), "System library");
}

#[test]
fn a_fork_without_exec_keeps_name_and_images() {
    let mut stream = Stream::with_app();
    stream.sample(1, 1, 1, &[ip(0x1020)]);
    stream.process(2, Some(1), 2);
    stream.sample(2, 2, 3, &[ip(0x1020)]);
    stream.end(2, 4);
    let json = written(&stream.finish());
    let child = thread(&json, "2");
    assert_eq!((&child["pid"], &child["processName"]), (&"2".into(), &"app".into()));
    assert_eq!(child["processStartupTime"], 2);
    assert_eq!(child["processShutdownTime"], 4);
    assert_eq!(child["samples"]["stack"][0], thread(&json, "1")["samples"]["stack"][0]);
    let markers = markers(thread(&json, "1"));
    assert!(
        markers
            .iter()
            .any(|(kind, data)| *kind == "Child process" && data["pid"] == "2")
    );
}

/// Events of whole CPUs sample the rest of an exit after its record.
#[test]
fn a_thread_lasts_until_its_last_sample() {
    let mut stream = Stream::with_app();
    stream.process(2, Some(1), 2);
    stream.thread(2, 3, 2);
    stream.sample(2, 3, 3, &[ip(0x1020)]);
    stream.end(2, 4);
    let gone = Frame::Mark(StackMark::Missing(MissingStack::NoUserSpace));
    stream.sample(2, 3, 7, &[gone]);
    let json = written(&stream.finish());
    let ended = thread(&json, "3");
    assert_eq!(ended["samples"]["stack"].as_array().unwrap().len(), 2);
    assert_eq!(ended["unregisterTime"], 7);
    assert_eq!(ended["processShutdownTime"], 7);
    let threads = json["threads"].as_array().unwrap();
    assert!(!threads.iter().any(|thread| thread["pid"] == "2.1"), "{threads:?}");
}

#[test]
fn a_pid_used_twice_is_two_processes() {
    let mut stream = Stream::with_app();
    for round in 0..2 {
        let ms = round * 10;
        stream.process(7, Some(1), ms);
        stream.thread(7, 8, ms);
        stream.sample(7, 8, ms + 1, &[ip(0x1020)]);
        stream.end(7, ms + 2);
    }
    let json = written(&stream.finish());
    assert_eq!(thread(&json, "8")["pid"], "7");
    assert_eq!(thread(&json, "8.1")["pid"], "7.1");
    assert_eq!(thread(&json, "8.1")["processStartupTime"], 10);
    assert_eq!(thread(&json, "8")["unregisterTime"], 2);
}

#[test]
fn a_tid_used_twice_is_two_threads_also_when_the_end_was_lost() {
    let mut stream = Stream::with_app();
    stream.thread(1, 9, 1);
    stream.sample(1, 9, 2, &[ip(0x1020)]);
    stream.thread_end(1, 9, 3);
    stream.thread(1, 9, 4);
    stream.sample(1, 9, 5, &[ip(0x1020)]);
    stream.thread(1, 9, 6);
    stream.sample(1, 9, 7, &[ip(0x1020)]);
    let json = written(&stream.finish());
    for (tid, start, end) in [
        ("9", 1, 3.into()),
        ("9.1", 4, 6.into()),
        ("9.2", 6, serde_json::Value::Null),
    ] {
        assert_eq!(thread(&json, tid)["registerTime"], start);
        assert_eq!(thread(&json, tid)["unregisterTime"], end);
        assert_eq!(thread(&json, tid)["samples"]["length"], 1);
    }
}

#[test]
fn the_last_name_wins_and_earlier_ones_are_markers() {
    let mut stream = Stream::with_app();
    stream.thread(1, 2, 1);
    stream.rename(1, 2, "worker", 1);
    stream.sample(1, 2, 2, &[ip(0x1020)]);
    stream.rename(1, 2, "io", 3);
    stream.rename(1, 1, "app: serving", 4);
    let json = written(&stream.finish());
    assert_eq!(thread(&json, "2")["name"], "io");
    assert_eq!(thread(&json, "2")["processName"], "app: serving");
    assert_eq!(thread(&json, "1")["name"], "app: serving");
    let renames: Vec<_> = markers(thread(&json, "2"))
        .into_iter()
        .map(|(_, data)| data["to"].clone())
        .collect();
    assert_eq!(renames, ["worker", "io"]);
}

#[test]
fn four_hundred_processes_without_samples_are_markers_not_tracks() {
    let mut stream = Stream::with_app();
    stream.sample(1, 1, 1, &[ip(0x1020)]);
    for child in 0..400 {
        stream.process(100 + child, Some(1), 2);
        stream.exec(100 + child, "true", 2);
        stream.end(100 + child, 3);
    }
    let profile = stream.finish();
    assert_eq!(profile.counts().processes, 401);
    let json = written(&profile);
    assert_eq!(json["threads"].as_array().unwrap().len(), 1);
    let children = markers(&json["threads"][0]);
    let children = children
        .iter()
        .filter(|(kind, data)| *kind == "Child process" && data["process"] == "true");
    assert_eq!(children.count(), 400);
}

#[test]
fn idle_threads_are_left_out_and_the_busiest_are_shown_first() {
    let mut stream = Stream::with_app();
    for tid in 2..200 {
        stream.thread(1, tid, 0);
        if tid % 50 == 0 {
            for ms in 0..tid as u64 {
                stream.sample(1, tid, ms, &[ip(0x1020)]);
            }
        }
    }
    let json = written(&stream.finish());
    let tids: Vec<_> = json["threads"]
        .as_array()
        .unwrap()
        .iter()
        .map(|thread| thread["tid"].clone())
        .collect();
    assert_eq!(tids, ["1", "50", "100", "150"]);
    assert_eq!(json["meta"]["initialVisibleThreads"], serde_json::json!([3, 2, 1]));
    assert_eq!(json["meta"]["initialSelectedThreads"], serde_json::json!([3]));
}

#[test]
fn kernel_frames_have_a_module_if_it_is_known_and_an_address_if_not() {
    let kernel = |address| Frame::KernelInstructionPointer(Avma(address));
    let frames = [kernel(0xffff_ffff_8100_0010), ip(0x1020)];
    let mut stream = Stream::with_app();
    stream.sample(1, 1, 1, &frames);
    stream.0.set_kernel(Image {
        start: Avma(0xffff_ffff_8100_0000),
        end: Avma(0xffff_ffff_8200_0000),
        base: Avma(0xffff_ffff_8100_0000),
        module: module("[kernel.kallsyms]", ModuleKind::Kernel),
        role: FileRole::default(),
    });
    stream.sample(1, 1, 2, &frames);
    let json = written(&stream.finish());
    assert_eq!(stack_names(&json, 0, 0), ["0x20", "[kernel] 0xffffffff81000010"]);
    assert_eq!(stack_names(&json, 0, 1), ["0x20", "0x10"]);
    for sample in 0..2 {
        assert_eq!(leaf_category(&json, sample), "Kernel");
    }
}

#[test]
fn code_of_bpf_programs_has_the_name_of_the_program_that_was_there_then() {
    let start = 0xffff_ffff_c002_2064;
    let frames = [Frame::KernelInstructionPointer(Avma(start + 0x10)), ip(0x1020)];
    let program = |name, is_loaded| BpfProgram {
        start,
        len: 0x100,
        name,
        is_loaded,
    };
    let mut stream = Stream::with_app();
    stream.0.set_kernel(Image {
        start: Avma(0xffff_ffff_8100_0000),
        end: Avma(u64::MAX),
        base: Avma(0xffff_ffff_8100_0000),
        module: module("[kernel.kallsyms]", ModuleKind::Kernel),
        role: FileRole::default(),
    });
    stream.sample(1, 1, 1, &frames);
    stream.event(Event::bpf(at(2), program("bpf_prog_1_first", true)));
    stream.sample(1, 1, 2, &frames);
    stream.event(Event::bpf(at(3), program("bpf_prog_1_first", false)));
    stream.sample(1, 1, 3, &frames);
    stream.event(Event::bpf(at(4), program("bpf_prog_2_second", true)));
    stream.sample(1, 1, 4, &frames);
    // Its unloading was not seen.
    stream.event(Event::bpf(at(5), program("bpf_prog_3_third", true)));
    stream.sample(1, 1, 5, &frames);
    stream.sample(1, 1, 6, &[Frame::KernelInstructionPointer(Avma(start + 0x100))]);
    let json = written(&stream.finish());
    let relative = "0x3f022074";
    let expected = [
        relative,
        "bpf_prog_1_first [bpf]",
        relative,
        "bpf_prog_2_second [bpf]",
        "bpf_prog_3_third [bpf]",
    ];
    for (sample, name) in expected.into_iter().enumerate() {
        assert_eq!(stack_names(&json, 0, sample), ["0x20", name]);
        assert_eq!(leaf_category(&json, sample), "Kernel");
    }
    assert_eq!(stack_names(&json, 0, 5), ["0x3f022164"]);
}

#[test]
fn categories_tell_program_library_and_unmapped_code_apart() {
    let mut stream = Stream::with_app();
    stream.map(1, image("/opt/libfoo.so.1", 0x30_0000, 0x1000), 0);
    stream.map(1, image("//anon", 0x40_0000, 0x1000), 0);
    let expected = [
        (0x1010, "Program"),
        (0x10_0010, "System library"),
        (0x30_0010, "Library"),
        (0x40_0010, "JIT and anonymous"),
        (0x50_0010, "Other"),
    ];
    for (address, _) in expected {
        stream.sample(1, 1, 1, &[ip(address)]);
    }
    let json = written(&stream.finish());
    for (sample, (address, category)) in expected.into_iter().enumerate() {
        assert_eq!(leaf_category(&json, sample), category, "{address:#x}");
    }
    assert_eq!(stack_names(&json, 0, 4), ["0x500010"]);
}

#[test]
fn a_library_that_a_forked_child_loads_is_no_program() {
    let mut stream = Stream::with_app();
    stream.process(2, Some(1), 1);
    stream.map(2, image("/opt/libfoo.so.1", 0x30_0000, 0x1000), 2);
    stream.sample(1, 1, 3, &[ip(0x1010)]);
    stream.sample(2, 2, 3, &[ip(0x30_0010)]);
    stream.sample(1, 1, 4, &[ip(0x30_0010)]);
    let json = written(&stream.finish());
    let categories = json["shared"]["frameTable"]["category"].as_array().unwrap();
    let names: Vec<_> = (categories.iter())
        .map(|id| json["meta"]["categories"][id.as_u64().unwrap() as usize]["name"].clone())
        .collect();
    // In order of first use: the program, the child's library, and that address in the parent, which has no such
    // library.
    assert_eq!(names, ["Program", "Library", "Other"]);
}

#[test]
fn a_parent_that_is_not_recorded_is_no_process() {
    let mut stream = Stream::new();
    stream.process(20, Some(19), 0);
    let profile = stream.finish();
    assert_eq!(profile.counts().processes, 1);
    assert_eq!(written(&profile)["threads"][0]["pid"], "20");
}

#[test]
fn marks_are_frames_with_their_label_and_no_address() {
    let mut stream = Stream::with_app();
    stream.sample(1, 1, 1, &[ip(0x1020), Frame::Mark(StackMark::TruncatedNoMemory)]);
    let reason = MissingStack::Abi32;
    let kernel = [Frame::KernelInstructionPointer(Avma(0xffff_ffff_8100_0010))];
    stream.stack(
        1,
        1,
        2,
        Stack::Missing {
            kernel: &kernel,
            reason,
        },
    );
    stream.sample(1, 1, 3, &[]);
    let json = written(&stream.finish());
    assert_eq!(
        stack_names(&json, 0, 0),
        ["[truncated: stack memory not available]", "0x20"]
    );
    assert_eq!(
        stack_names(&json, 0, 1),
        ["[no user stack: 32-bit task]", "[kernel] 0xffffffff81000010"]
    );
    assert!(json["threads"][0]["samples"]["stack"][2].is_null());
    assert_eq!(json["threads"][0]["samples"]["length"], 3);
}

#[test]
fn without_samples_or_even_events_the_profile_says_why() {
    for stream in [Stream::new(), Stream::with_app()] {
        let json = written(&stream.finish());
        let markers = markers(&json["threads"][0]);
        assert!(
            markers
                .iter()
                .any(|(kind, data)| *kind == "No samples" && data["why"].is_string()),
            "{markers:?}"
        );
    }
}

/// One second is a thousand intervals.
#[test]
fn a_program_that_ran_long_without_a_sample_is_not_called_short() {
    let why = |unit: PeriodUnit, kernel_included: bool, cpu_time_ns: Option<u64>| {
        let info = RecordingInfo {
            unit,
            kernel_included,
            ..info()
        };
        let quality = Quality {
            cpu_time_ns,
            asked_rate_hz: 1000.0,
            ..Quality::default()
        };
        let json = written(&Stream::with_app().0.finish(info, quality));
        let markers = markers(&json["threads"][0]);
        let (_, data) = markers.iter().find(|(kind, _)| *kind == "No samples").unwrap();
        data["why"].as_str().unwrap().to_owned()
    };
    let second = 1_000_000_000;
    for unit in [PeriodUnit::CpuNanoseconds, PeriodUnit::Cycles] {
        assert!(why(unit, true, None).contains("the program used too little CPU time"));
        assert!(why(unit, true, Some(second / 2000)).contains("the program used too little CPU time"));
        assert!(why(unit, false, Some(second)).contains("none fell into user code"));
    }
    assert!(why(PeriodUnit::Cycles, true, Some(second)).contains("the processor's counter gave none"));
    assert!(why(PeriodUnit::CpuNanoseconds, true, Some(second)).contains("each process and thread"));
}

#[test]
fn losses_are_markers_and_rows_with_numbers() {
    let mut stream = Stream::with_app();
    stream.sample(1, 1, 1, &[ip(0x1020)]);
    stream.event(Event::recording(
        at(2),
        RecordingEvent::Lost {
            count: 17,
            role: Role::Running,
            cause: LostCause::RingFull,
        },
    ));
    stream.event(Event::recording(at(3), RecordingEvent::Throttled));
    let mut quality = Quality {
        throttled: 1,
        truncated_depth: 3,
        ..Quality::default()
    };
    quality.lost.insert((Role::Running, LostCause::RingFull), 17);
    // A quarter of what the machine wanted.
    quality.cpu_account.machine = Some(MachineTime {
        used_ns: 3_000_000_000,
        stolen_ns: 1_000_000_000,
    });
    let json = written(&stream.0.finish(info(), quality));
    let markers = markers(&json["threads"][0]);
    assert!(
        markers
            .iter()
            .any(|(kind, data)| *kind == "Lost records" && data["count"] == 17)
    );
    let rows: Vec<_> = (json["meta"]["extra"].as_array().unwrap().iter())
        .flat_map(|section| section["entries"].as_array().unwrap())
        .map(|row| (row["label"].as_str().unwrap(), &row["value"]))
        .collect();
    for (label, value) in [
        ("Lost records", json!(17)),
        ("Truncated, too many frames", json!(3)),
        ("Throttled by the kernel, times", json!(1)),
        ("CPU time that the host took away from this machine", json!(1000.0)),
    ] {
        assert!(
            rows.iter().any(|(l, v)| *l == label && **v == value),
            "{label} in {rows:?}"
        );
    }
}

#[test]
fn cycles_are_shown_as_the_cpu_time_that_the_kernel_counted() {
    let mut in_cycles = info();
    in_cycles.unit = PeriodUnit::Cycles;
    for (counted_ns, unit, sum) in [(Some(3 * MS), "ns", 3 * MS), (None, "variable CPU cycles", 10 * MS)] {
        let mut stream = Stream::with_app();
        for ms in 0..10 {
            stream.sample(1, 1, ms, &[ip(0x1020)]);
        }
        let quality = Quality {
            cpu_time_ns: counted_ns,
            ..Quality::default()
        };
        let json = written(&stream.0.finish(in_cycles.clone(), quality));
        assert_eq!(json["meta"]["sampleUnits"]["threadCPUDelta"], unit);
        let deltas = json["threads"][0]["samples"]["threadCPUDelta"].as_array().unwrap();
        assert_eq!(deltas.iter().map(|delta| delta.as_u64().unwrap()).sum::<u64>(), sum);
    }
}

#[test]
fn samples_of_different_cycles_weigh_what_they_stand_for() {
    let mut in_cycles = info();
    in_cycles.unit = PeriodUnit::Cycles;
    for (counted_ns, heavy) in [(Some(2 * MS), 1.5), (None, 1.5)] {
        let mut stream = Stream::with_app();
        stream.period(1, 1, 1, 1000, Stack::Frames(&[ip(0x1020)]));
        stream.period(1, 1, 2, 3000, Stack::Frames(&[ip(0x1020)]));
        let quality = Quality {
            cpu_time_ns: counted_ns,
            ..Quality::default()
        };
        let json = written(&stream.0.finish(in_cycles.clone(), quality));
        // Of 2 ms that the kernel counted, or of two intervals of 1 ms.
        assert_eq!(
            json["threads"][0]["samples"]["weight"],
            serde_json::json!([2.0 - heavy, heavy])
        );
    }
}

#[test]
fn arguments_are_written_only_if_the_user_agreed() {
    let mut with_args = info();
    with_args.args = Some(vec!["--token".into(), "x".into()]);
    let json = written(&Stream::with_app().0.finish(with_args, Quality::default()));
    assert_eq!(json["meta"]["arguments"], "--token x");
    assert!(written(&Stream::with_app().finish())["meta"].get("arguments").is_none());
}

#[test]
fn the_same_events_give_the_same_bytes() {
    let bytes = || {
        let mut stream = Stream::with_app();
        for i in 0..500 {
            stream.process(10 + i, Some(1), i as u64);
            stream.sample(10 + i, 10 + i, i as u64, &[ip(0x1020 + i as u64), ret(0x1500)]);
        }
        let mut gz = Vec::new();
        profile::export::firefox::write_gz(&stream.finish(), &mut gz).unwrap();
        gz
    };
    assert_eq!(bytes(), bytes());
}

fn leaf_category(json: &serde_json::Value, sample: usize) -> &str {
    let at = |value: &serde_json::Value| value.as_u64().unwrap() as usize;
    let stack = at(&json["threads"][0]["samples"]["stack"][sample]);
    let frame = at(&json["shared"]["stackTable"]["frame"][stack]);
    let category = at(&json["shared"]["frameTable"]["category"][frame]);
    json["meta"]["categories"][category]["name"].as_str().unwrap()
}

/// A full ring reports each time that there is place again.
#[test]
fn losses_without_a_pause_are_one_marker() {
    let mut stream = Stream::with_app();
    stream.sample(1, 1, 1, &[ip(0x1020)]);
    let mut lost = |us: u64, role| {
        let (count, cause) = (7, LostCause::RingFull);
        let time = Timestamp(at(2).0 + us * 1000);
        stream.event(Event::recording(time, RecordingEvent::Lost { count, role, cause }));
    };
    for us in 0..30_000 {
        lost(us, Role::Point);
    }
    lost(35_000, Role::Point);
    lost(35_001, Role::Running);
    let json = written(&stream.finish());
    let all = markers(thread(&json, "1"));
    let counts: Vec<_> = (all.iter().filter(|(kind, _)| *kind == "Lost records"))
        .map(|(_, data)| &data["count"])
        .collect();
    assert_eq!(counts, [210_000, 7, 7]);
}

#[test]
fn a_snapshot_is_the_profile_so_far_and_what_comes_later_changes_only_the_builder() {
    let add = |stream: &mut Stream, from: u64, until: u64| {
        for ms in from..until {
            stream.sample(1, 1, ms, &[ip(0x1100 + ms % 7), ret(0x1201)]);
        }
    };
    let (mut stream, mut first) = (Stream::with_app(), Stream::with_app());
    add(&mut stream, 1, 100);
    add(&mut first, 1, 100);
    let snapshot = stream.0.snapshot().unwrap();
    stream.exec(1, "next", 100);
    add(&mut stream, 100, 200);
    assert_eq!(written(&Stream(snapshot).finish()), written(&first.finish()));
    assert_eq!(stream.finish().counts().samples, 199);

    let mut on_disk = Stream::with_app();
    on_disk.0.spill_to(tempfile::tempfile().unwrap());
    assert!(on_disk.0.snapshot().is_none());
}
