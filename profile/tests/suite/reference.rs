//! Our writer and the published `fxprof-processed-profile`, which writes version 55, show the same stacks at the same
//! times.

use crate::common::*;
use fxprof_processed_profile as reference;
use proptest::prelude::*;
use recording::address::Avma;
use recording::stack::{Frame, StackMark};
use reference::debugid::DebugId;
use reference::{CategoryHandle, CpuDelta, FrameFlags, FrameInfo, LibraryInfo, SamplingInterval, Timestamp};
use serde_json::Value;

const LIBS: [(&str, u64); 2] = [("/opt/app", 0x1000), ("/lib/libc.so.6", 0x10_0000)];
const LIB_BYTES: u64 = 0x1000;
const THREADS: [i32; 2] = [1, 2];

/// (thread, leaf-first frames), one a millisecond.
type Recorded = Vec<(usize, Vec<Frame>)>;

/// A sample as a reader sees it: when, and root first which function of which library.
type Shown = (f64, Vec<(String, Option<String>)>);

fn ours(samples: &Recorded) -> Value {
    let mut stream = Stream::new();
    stream.process(1, None, 0);
    for (path, start) in LIBS {
        stream.map(1, image(path, start, LIB_BYTES), 0);
    }
    for (ms, (thread, frames)) in samples.iter().enumerate() {
        stream.sample(1, THREADS[*thread], ms as u64, frames);
    }
    written(&stream.finish())
}

fn theirs(samples: &Recorded) -> Value {
    let mut profile = reference::Profile::new("app", clock().wall.into(), SamplingInterval::from_millis(1));
    let zero = Timestamp::from_nanos_since_reference(0);
    let process = profile.add_process("app", 1, zero);
    for (path, start) in LIBS {
        let name = path.rsplit('/').next().unwrap();
        let lib = profile.add_lib(LibraryInfo {
            name: name.into(),
            debug_name: name.into(),
            path: path.into(),
            debug_path: path.into(),
            debug_id: DebugId::nil(),
            code_id: None,
            arch: None,
            symbol_table: None,
        });
        profile.add_lib_mapping(process, lib, start, start + LIB_BYTES, 0);
    }
    let threads = THREADS.map(|tid| profile.add_thread(process, tid as u32, zero, tid == 1));
    for (ms, (thread, frames)) in samples.iter().enumerate() {
        let frames: Vec<FrameInfo> = (frames.iter().rev())
            .map(|frame| FrameInfo {
                frame: match frame {
                    Frame::InstructionPointer(address) => reference::Frame::InstructionPointer(address.0),
                    Frame::ReturnAddress(address) => reference::Frame::ReturnAddress(address.0),
                    Frame::Mark(mark) => reference::Frame::Label(profile.intern_string(mark.label())),
                    _ => unreachable!("no kernel frames here"),
                },
                category_pair: CategoryHandle::OTHER.into(),
                flags: FrameFlags::empty(),
            })
            .collect();
        let stack = profile.intern_stack_frames(threads[*thread], frames.into_iter());
        let time = Timestamp::from_nanos_since_reference(ms as u64 * MS);
        profile.add_sample(threads[*thread], time, stack, CpuDelta::from_nanos(MS), 1);
    }
    serde_json::to_value(&profile).unwrap()
}

fn at(column: &Value, row: u64) -> Option<u64> {
    column[row as usize].as_u64()
}

/// Samples of the thread, by the rules of version 70: shared tables, `prefixOffset`, the library beside the frame.
fn shown_in_70(json: &Value, tid: &str) -> Vec<Shown> {
    let shared = &json["shared"];
    let name = |id: u64| shared["stringArray"][id as usize].as_str().unwrap().to_owned();
    shown(&thread(json, tid)["samples"], |stack| {
        let frame = at(&shared["stackTable"]["frame"], stack).unwrap();
        let func = at(&shared["frameTable"]["func"], frame).unwrap();
        let lib = at(&shared["frameTable"]["lib"], frame);
        let function = name(at(&shared["funcTable"]["name"], func).unwrap());
        let lib = lib.map(|lib| json["libs"][lib as usize]["name"].as_str().unwrap().to_owned());
        let offset = at(&shared["stackTable"]["prefixOffset"], stack).unwrap();
        ((function, lib), (offset > 0).then(|| stack - offset))
    })
}

/// By the rules of version 55: tables in the thread, `prefix`, the library behind the function's resource.
fn shown_in_55(json: &Value, tid: &str) -> Vec<Shown> {
    let thread = thread(json, tid);
    let name = |id: u64| thread["stringArray"][id as usize].as_str().unwrap().to_owned();
    shown(&thread["samples"], |stack| {
        let frame = at(&thread["stackTable"]["frame"], stack).unwrap();
        let func = at(&thread["frameTable"]["func"], frame).unwrap();
        let resource = at(&thread["funcTable"]["resource"], func);
        let lib = resource.and_then(|resource| at(&thread["resourceTable"]["lib"], resource));
        let function = name(at(&thread["funcTable"]["name"], func).unwrap());
        let lib = lib.map(|lib| json["libs"][lib as usize]["name"].as_str().unwrap().to_owned());
        ((function, lib), at(&thread["stackTable"]["prefix"], stack))
    })
}

fn shown(samples: &Value, step: impl Fn(u64) -> ((String, Option<String>), Option<u64>)) -> Vec<Shown> {
    let mut time = 0.0;
    (0..samples["length"].as_u64().unwrap())
        .map(|row| {
            time += samples["timeDeltas"][row as usize].as_f64().unwrap();
            let mut frames = Vec::new();
            let mut stack = at(&samples["stack"], row);
            while let Some(id) = stack {
                let (frame, prefix) = step(id);
                frames.push(frame);
                stack = prefix;
            }
            frames.reverse();
            (time, frames)
        })
        .collect()
}

fn frame() -> impl Strategy<Value = Frame> {
    let mapped = (0..2usize, 1..64u64).prop_map(|(lib, at)| Avma(LIBS[lib].1 + at * 8));
    let address = prop_oneof![8 => mapped, 1 => (1..0x500u64).prop_map(Avma)];
    prop_oneof![
        4 => address.clone().prop_map(Frame::InstructionPointer),
        8 => address.prop_map(Frame::ReturnAddress),
        1 => Just(Frame::Mark(StackMark::TruncatedNoMemory)),
    ]
}

proptest! {
    #![proptest_config(crate::damage::cases(100))]

    #[test]
    fn both_writers_show_the_same_stacks(
        samples in prop::collection::vec((0..THREADS.len(), prop::collection::vec(frame(), 0..12)), 1..60),
    ) {
        let (ours, theirs) = (ours(&samples), theirs(&samples));
        let ours_in_55 = as_v55(&ours).unwrap();
        for (thread, tid) in THREADS.iter().enumerate() {
            if samples.iter().any(|(of, _)| of == &thread) {
                let tid = tid.to_string();
                prop_assert_eq!(shown_in_70(&ours, &tid), shown_in_55(&theirs, &tid));
                prop_assert_eq!(shown_in_55(&ours_in_55, &tid), shown_in_55(&theirs, &tid));
            }
        }
        assert_same_when_read_again(read_all(&theirs));
    }
}
