//! Whatever comes, in whatever order, gives a sound profile.

use std::collections::HashMap;

use crate::common::*;
use names::symbol::{AddressInfo, FunctionSymbol, SourceFrame};
use profile::enrich::enrich;
use profile::view::top;
use proptest::prelude::*;
use recording::address::Avma;
use recording::clock::Timestamp;
use recording::event::{Event, InitialState, LostCause, Pid, ProcessEvent, RecordingEvent, Role, Sample};
use recording::event::{Thread, ThreadEvent};
use recording::frame_bytes::put_frames;
use recording::module::{FileRole, Image, ModuleKind};
use recording::stack::{Frame, FurtherRegisters, MissingStack, Registers, SameFrames, Snapshot, Stack, StackMark};
use recording::wait::WaitReason;

/// An event without borrowed parts.
#[derive(Clone, Debug)]
enum Step {
    ProcessStart(i32, Option<i32>),
    ProcessEnd(i32),
    ThreadStart(i32, i32),
    ThreadEnd(i32, i32),
    Exec(i32, String),
    Rename(i32, i32, String),
    Map(i32, u64, u64, u64, u8),
    Kernel(u64),
    Sample(i32, i32, u64, Vec<Frame>, u8),
    WaitStack(i32, i32, Vec<Frame>),
    Waited(i32, i32, u64, Vec<Frame>),
    Found(i32, i32, [u32; 2], bool, Option<Vec<Frame>>),
    Switch(i32, i32, Option<bool>),
    Lost(u64),
    Throttled,
    Sampling(bool),
}

fn frame() -> impl Strategy<Value = Frame> {
    let address = prop_oneof![0u64..0x4000, any::<u64>()].prop_map(Avma);
    prop_oneof![
        address.clone().prop_map(Frame::InstructionPointer),
        address.clone().prop_map(Frame::ReturnAddress),
        address.clone().prop_map(Frame::KernelInstructionPointer),
        address.prop_map(Frame::KernelReturnAddress),
        Just(Frame::Mark(StackMark::Unverified)),
        Just(Frame::Mark(StackMark::TruncatedDepth)),
        Just(Frame::Mark(StackMark::Missing(MissingStack::NoRegisters))),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    // Few numbers, so that they meet again.
    let id = || prop_oneof![0i32..4, any::<i32>()];
    let name = || "[a-z\"\\\\\u{1}ü]{0,4}";
    prop_oneof![
        2 => (id(), prop::option::of(id())).prop_map(|(pid, parent)| Step::ProcessStart(pid, parent)),
        1 => id().prop_map(Step::ProcessEnd),
        2 => (id(), id()).prop_map(|(pid, tid)| Step::ThreadStart(pid, tid)),
        1 => (id(), id()).prop_map(|(pid, tid)| Step::ThreadEnd(pid, tid)),
        1 => (id(), name()).prop_map(|(pid, name)| Step::Exec(pid, name)),
        1 => (id(), id(), name()).prop_map(|(pid, tid, name)| Step::Rename(pid, tid, name)),
        2 => (id(), 0u64..0x4000, 0u64..0x4000, any::<u64>(), 0u8..4)
            .prop_map(|(pid, start, len, base, kind)| Step::Map(pid, start, len, base, kind)),
        1 => any::<u64>().prop_map(Step::Kernel),
        8 => (id(), id(), any::<u64>(), prop::collection::vec(frame(), 0..6), 0u8..3)
            .prop_map(|(pid, tid, period, frames, form)| Step::Sample(pid, tid, period, frames, form)),
        4 => (id(), id(), prop::option::of(any::<bool>())).prop_map(|(pid, tid, out)| Step::Switch(pid, tid, out)),
        2 => (id(), id(), prop::collection::vec(frame(), 0..6))
            .prop_map(|(pid, tid, frames)| Step::WaitStack(pid, tid, frames)),
        2 => (id(), id(), any::<u64>(), prop::collection::vec(frame(), 0..6))
            .prop_map(|(pid, tid, period, frames)| Step::Waited(pid, tid, period, frames)),
        2 => (id(), id(), any::<[u32; 2]>(), any::<bool>(), prop::option::of(prop::collection::vec(frame(), 0..6)))
            .prop_map(|(pid, tid, times, waits, frames)| Step::Found(pid, tid, times, waits, frames)),
        1 => any::<u64>().prop_map(Step::Lost),
        1 => Just(Step::Throttled),
        1 => any::<bool>().prop_map(Step::Sampling),
    ]
}

/// The last stack of each thread, by its number.
#[derive(Default)]
struct Numbers {
    last: HashMap<Thread, (u64, Vec<Frame>)>,
    stacks: u64,
    others: Vec<u8>,
}

impl Numbers {
    /// What a stack has in common with the one before: not always all.
    fn same(&mut self, thread: Thread, frames: &[Frame]) -> SameFrames<'_> {
        self.stacks += 1;
        let new = (self.stacks, frames.to_vec());
        let (earlier, before) = self.last.insert(thread, new).unwrap_or_default();
        let same = { before.iter().rev().zip(frames.iter().rev()) }
            .take_while(|(before, frame)| before == frame)
            .count();
        let same = same - usize::from(same > 0 && self.stacks.is_multiple_of(3));
        let others = &frames[..frames.len() - same];
        self.others.clear();
        put_frames(&mut self.others, others, |_| 0);
        let has_marks = others.iter().any(|frame| matches!(frame, Frame::Mark(_)));
        SameFrames {
            stack: self.stacks,
            earlier,
            frames: same,
            others: Some(&self.others[..]).filter(|_| !has_marks && self.stacks.is_multiple_of(2)),
        }
    }
}

fn apply(stream: &mut Stream, time: Timestamp, step: &Step, numbers: Option<&mut Numbers>) {
    let image = |start: u64, len: u64, base: u64, kind: u8| Image {
        start: Avma(start),
        end: Avma(start.saturating_add(len)),
        base: Avma(base),
        role: FileRole::default(),
        module: match kind {
            0 => module("[vdso]", ModuleKind::Vdso),
            1 => module("//anon", ModuleKind::File),
            2 => module("/a/b/c.so", ModuleKind::File),
            _ => module("", ModuleKind::File),
        },
    };
    let event = match step {
        Step::ProcessStart(pid, parent) => {
            let parent = parent.map(Pid);
            Event::process(time, Pid(*pid), ProcessEvent::Start { parent })
        }
        Step::ProcessEnd(pid) => Event::process(time, Pid(*pid), ProcessEvent::End),
        Step::ThreadStart(pid, tid) => Event::thread(time, Thread::new(*pid, *tid), ThreadEvent::Start),
        Step::ThreadEnd(pid, tid) => Event::thread(time, Thread::new(*pid, *tid), ThreadEvent::End),
        Step::Exec(pid, name) => Event::process(time, Pid(*pid), ProcessEvent::Exec(name)),
        Step::Rename(pid, tid, name) => Event::thread(time, Thread::new(*pid, *tid), ThreadEvent::Name(name)),
        Step::Map(pid, start, len, base, kind) => {
            let image = image(*start, *len, *base, *kind);
            return stream.event(Event::process(time, Pid(*pid), ProcessEvent::Image(&image)));
        }
        Step::Kernel(start) => {
            return stream.0.set_kernel(Image {
                module: module("[kernel.kallsyms]", ModuleKind::Kernel),
                ..image(*start, u64::MAX, *start, 0)
            });
        }
        Step::Sample(pid, tid, period, frames, form) => {
            let stack = match form {
                0 => Stack::Frames(frames),
                1 => Stack::Missing {
                    kernel: frames,
                    reason: MissingStack::Abi32,
                },
                _ => Stack::Snapshot(Snapshot {
                    kernel: frames,
                    registers: Registers::X86_64 {
                        ip: *period,
                        sp: 0,
                        bp: 0,
                    },
                    further: FurtherRegisters::default(),
                    stack_bytes: &[],
                    next_copy: None,
                }),
            };
            let thread = Thread::new(*pid, *tid);
            let sample = Sample {
                same: numbers
                    .filter(|_| *form == 0)
                    .map(|numbers| numbers.same(thread, frames)),
                ..Sample::new(Role::Running, *period, stack)
            };
            Event::sample(time, thread, sample)
        }
        Step::WaitStack(pid, tid, frames) => {
            let thread = Thread::new(*pid, *tid);
            let sample = Sample {
                same: numbers.map(|numbers| numbers.same(thread, frames)),
                ..Sample::new(Role::WaitStack, 1, Stack::Frames(frames))
            };
            Event::sample(time, thread, sample)
        }
        Step::Waited(pid, tid, period, frames) => {
            let sample = Sample::new(Role::Wait, *period, Stack::Frames(frames));
            Event::sample(time, Thread::new(*pid, *tid), sample)
        }
        Step::Found(pid, tid, delays, waits, frames) => {
            let thread = Thread::new(*pid, *tid);
            if let Some(frames) = frames {
                let sample = Sample::new(Role::WaitStack, 0, Stack::Frames(frames));
                stream.event(Event::sample(time, thread, sample));
            }
            // Waits of seconds. Files have milliseconds as f64: after days their sums are not right to the nanosecond,
            // and what is read and written again has other last digits.
            let [switches_from, seen_at] = delays.map(|ns| Timestamp(time.0 + u64::from(ns)));
            let state = InitialState {
                switches_from,
                seen_at,
                waits_for: waits.then_some(WaitReason::Lock),
            };
            Event::thread(time, thread, ThreadEvent::InitialState(state))
        }
        Step::Switch(pid, tid, out) => {
            let what = match *out {
                None => ThreadEvent::SwitchIn,
                Some(preempted) => ThreadEvent::SwitchOut { preempted },
            };
            Event::thread(time, Thread::new(*pid, *tid), what)
        }
        Step::Lost(count) => {
            let lost = RecordingEvent::Lost {
                count: *count,
                role: Role::Running,
                cause: LostCause::SamplesRingFull,
            };
            Event::recording(time, lost)
        }
        Step::Throttled => Event::recording(time, RecordingEvent::Throttled),
        Step::Sampling(on) => Event::recording(time, RecordingEvent::Sampling(*on)),
    };
    stream.event(event);
}

/// Some symbols, some none; names that need escaping; addresses that lie.
fn symbols(addresses: &[u64]) -> Vec<AddressInfo> {
    let frame = |depth: u64| SourceFrame {
        function: (!depth.is_multiple_of(3)).then(|| format!("f\"\n{depth}")),
        file: (!depth.is_multiple_of(2)).then(|| "/rustc/1/library/x.rs".into()),
        declared_in: None,
        line: Some(depth as u32),
        column: None,
        krate: None,
    };
    (addresses.iter())
        .map(|address| AddressInfo {
            function: (address % 2 > 0).then(|| FunctionSymbol {
                is_named: true,
                name: format!("s{}", address / 16),
                start: address / 16 * 16,
                size: None,
                v8: None,
                krate: None,
            }),
            frames: (0..address % 4).map(frame).collect(),
        })
        .collect()
}

proptest! {
    #![proptest_config(crate::damage::cases(300))]

    #[test]
    fn any_sequence_of_events_gives_a_sound_profile(
        steps in prop::collection::vec((step(), any::<u32>()), 0..120),
        in_order in any::<bool>(),
        some_symbols in any::<bool>(),
    ) {
        let [mut stream, mut numbered, mut built_at_once] = [Stream::new(), Stream::new(), Stream::new()];
        let [mut numbers, mut numbers_at_once] = [Numbers::default(), Numbers::default()];
        let mut now = ZERO - 1000;
        let mut samples = 0;
        for (step, ns) in &steps {
            now = if in_order { now + u64::from(*ns) } else { u64::from(*ns) << 2 };
            samples += u64::from(matches!(step, Step::Sample(..)));
            apply(&mut stream, Timestamp(now), step, None);
            apply(&mut numbered, Timestamp(now), step, Some(&mut numbers));
            apply(&mut built_at_once, Timestamp(now), step, Some(&mut numbers_at_once));
            built_at_once.0.read_back().unwrap();
        }
        let mut profile = stream.finish();
        // Whatever is known of the frames, and however many samples wait.
        let bytes = |profile: &profile::Profile| {
            let mut bytes = Vec::new();
            profile::export::firefox::write(profile, &mut bytes).unwrap();
            String::from_utf8(bytes).unwrap()
        };
        prop_assert_eq!(bytes(&numbered.finish()), bytes(&profile));
        prop_assert_eq!(bytes(&built_at_once.finish()), bytes(&profile));
        prop_assert_eq!(profile.counts().samples, samples);
        if in_order {
            prop_assert_eq!(profile.counts().samples_out_of_order, 0);
        }
        let before = written(&profile);
        let in_file = |json: &serde_json::Value| -> u64 {
            let threads = json["threads"].as_array().map_or(0, Vec::len);
            let all = (0..threads).flat_map(|thread| {
                let count = json["threads"][thread]["samples"]["length"].as_u64().unwrap_or(0) as usize;
                (0..count).map(move |sample| stack_names(json, thread, sample))
            });
            let is_wait = |leaf: &String| leaf.starts_with("[off-CPU: ") || leaf == "[waiting for a CPU]";
            all.filter(|names| !names.last().is_some_and(is_wait)).count() as u64
        };
        prop_assert_eq!(in_file(&before), samples);
        let view = top(&profile, usize::MAX);
        prop_assert_eq!(view.samples, samples);
        prop_assert!(view.functions.iter().all(|row| row.self_samples <= row.total_samples && row.total_samples <= samples));
        enrich(&mut profile, |_, addresses| some_symbols.then(|| symbols(addresses)));
        prop_assert_eq!(in_file(&written(&profile)), samples);
        let own = |view: &profile::view::TopView| view.functions.iter().map(|row| row.self_samples).sum::<u64>();
        prop_assert_eq!(own(&top(&profile, usize::MAX)), own(&view));
    }
}
