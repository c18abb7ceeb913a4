//! Switches and stacks of waits in; waits among the samples out.

use crate::common::*;
use profile::builder::BuildOptions;
use profile::view::{top, wait_places};
use profile::{Profile, WaitSum};
use recording::address::Avma;
use recording::event::{Event, InitialState, Role, Sample, Thread, ThreadEvent};
use recording::stack::{Frame, Stack, StackMark};
use recording::wait::{WaitGuess, WaitReason};
use serde_json::Value;

const MAIN: u64 = 0x1100;
const READ: u64 = 0x10_0200;
/// Kernel functions: read, page fault, schedule.
const PIPE_READ: u64 = 0xffff_8000;
const PAGE_FAULT: u64 = 0xffff_9000;
const SCHEDULE: u64 = 0xffff_a000;

/// Times are in µs.
struct Waits(Stream);

impl Waits {
    fn new() -> Waits {
        Waits::with(BuildOptions::default())
    }

    fn with(options: BuildOptions) -> Waits {
        let mut stream = Stream::with_app_and(options);
        stream.0.set_wait_reasons(vec![
            (Avma(PAGE_FAULT), Avma(PAGE_FAULT + 0x100), WaitReason::PageFault),
            (Avma(PIPE_READ), Avma(PIPE_READ + 0x100), WaitReason::Channel),
        ]);
        Waits(stream)
    }

    fn time(us: u64) -> recording::clock::Timestamp {
        recording::clock::Timestamp(ZERO + us * 1000)
    }

    fn event(&mut self, us: u64, what: ThreadEvent<'_>) -> &mut Self {
        self.0.event(Event::thread(Self::time(us), Thread::new(1, 1), what));
        self
    }

    fn on_cpu(&mut self, us: u64) -> &mut Self {
        self.event(us, ThreadEvent::Sample(sample(&[ip(MAIN)])))
    }

    fn stack(&mut self, us: u64, kernel: &[u64]) -> &mut Self {
        let kernel = kernel
            .iter()
            .map(|address| Frame::KernelReturnAddress(Avma(address + 8)));
        let frames: Vec<Frame> = kernel.chain([ip(READ), ret(MAIN)]).collect();
        self.event(us, ThreadEvent::Sample(wait_stack(&frames)))
    }

    /// A look found the thread waiting.
    fn looked_at(&mut self, us: u64, reason: WaitReason) -> &mut Self {
        let frames = [Frame::Mark(StackMark::Waiting(reason)), ip(READ), ret(MAIN)];
        self.event(us, ThreadEvent::Sample(wait_stack(&frames))).out(us)
    }

    /// Told from 10 us on, looked at after 20 us.
    fn found(&mut self, waits_for: Option<WaitReason>, stack: Option<&[Frame]>) -> &mut Self {
        if let Some(frames) = stack {
            self.event(0, ThreadEvent::Sample(wait_stack(frames)));
        }
        let state = InitialState {
            switches_from: Self::time(10),
            seen_at: Self::time(20),
            waits_for,
        };
        self.event(0, ThreadEvent::InitialState(state))
    }

    fn out(&mut self, us: u64) -> &mut Self {
        self.switch_out(us, false)
    }

    fn switch_out(&mut self, us: u64, preempted: bool) -> &mut Self {
        self.event(us, ThreadEvent::SwitchOut { preempted })
    }

    fn waited(&mut self, us: u64, ns: u64) -> &mut Self {
        let frames = [ip(READ), ret(MAIN)];
        let sample = Sample::new(Role::Wait, ns, Stack::Frames(&frames));
        self.event(us, ThreadEvent::Sample(sample))
    }

    fn back(&mut self, us: u64) -> &mut Self {
        self.event(us, ThreadEvent::SwitchIn)
    }

    fn finish(self) -> Profile {
        self.0.finish()
    }
}

fn wait_stack(frames: &[Frame]) -> Sample<'_> {
    Sample::new(Role::WaitStack, MS, Stack::Frames(frames))
}

fn sample(frames: &[Frame]) -> Sample<'_> {
    Sample::new(Role::Running, MS, Stack::Frames(frames))
}

/// (time in ms, weight in ms, CPU delta, leaf) of the main thread's samples.
fn samples(json: &Value) -> Vec<(f64, f64, u64, String)> {
    let samples = &json["threads"][0]["samples"];
    let mut time = 0.0;
    (0..samples["length"].as_u64().unwrap() as usize)
        .map(|at| {
            time += samples["timeDeltas"][at].as_f64().unwrap();
            let weight = samples["weight"][at].as_f64().unwrap();
            let leaf = stack_names(json, 0, at).pop().unwrap();
            (time, weight, samples["threadCPUDelta"][at].as_u64().unwrap(), leaf)
        })
        .collect()
}

fn sum(count: u64, ns: u64) -> WaitSum {
    WaitSum { count, ns }
}

#[test]
fn a_wait_stands_at_its_beginning_with_its_length_and_its_reason() {
    let mut waits = Waits::new();
    waits.on_cpu(1000);
    waits.stack(1499, &[SCHEDULE, PIPE_READ]).out(1500).back(11_500);
    waits.on_cpu(12_000);
    let profile = waits.finish();
    let json = written(&profile);
    assert_eq!(json["threads"][0]["samples"]["weightType"], "tracing-ms");
    let channel = "[off-CPU: pipe or socket]".to_owned();
    assert_eq!(
        samples(&json),
        [
            (1.0, 1.0, 1_000_000, "0x100".into()),
            (1.5, 10.0, 500_000, channel.clone()),
            // Says that the CPU was not used up to here.
            (11.5, 0.0, 0, channel),
            (12.0, 1.0, 500_000, "0x100".into()),
        ]
    );
    let names = stack_names(&json, 0, 1);
    assert_eq!(names[..2], ["0xff", "0x200"], "{names:?}");
    assert_eq!(names[names.len() - 2], "[off-CPU]");
    let totals = profile.waits().unwrap();
    assert_eq!(totals.all(), sum(1, 10_000_000));
    assert_eq!(totals.of(WaitReason::Channel), sum(1, 10_000_000));
    assert_eq!(profile.counts().samples, 2);
}

/// CPU deltas of the main thread's samples, µs.
fn cpu_deltas_us(json: &Value) -> Vec<u64> {
    samples(json).iter().map(|(_, _, delta, _)| delta / 1000).collect()
}

#[test]
fn cpu_time_stands_in_the_interval_that_it_was_used_in() {
    let mut waits = Waits::new();
    // A millisecond of CPU time in three parts: the sample comes 5 us after the second wait.
    waits.back(0).out(400).back(2400).out(2995).back(7995).on_cpu(8000);
    waits.out(8600).back(8700).out(8900).back(8950).on_cpu(9200);
    let json = written(&waits.finish());
    // The short waits after the sample are one sample, which stands where the first of them began.
    assert_eq!(cpu_deltas_us(&json), [400, 0, 595, 0, 5, 600, 450]);
    let samples = samples(&json);
    let intervals_us = samples
        .windows(2)
        .map(|pair| ((pair[1].0 - pair[0].0) * 1000.0).round());
    for (delta, interval_us) in cpu_deltas_us(&json)[1..].iter().zip(intervals_us) {
        assert!(*delta as f64 <= interval_us, "{delta} of {interval_us} us");
    }
}

#[test]
fn where_switches_were_lost_a_sample_stands_for_its_own_cpu_time() {
    let mut waits = Waits::new();
    waits.back(0).on_cpu(1000);
    // When the thread left its CPU is not known, and then when it came back.
    waits
        .back(5000)
        .on_cpu(5500)
        .out(5600)
        .out(9000)
        .back(9500)
        .on_cpu(10_000);
    let json = written(&waits.finish());
    // The wait from 9.0 to 9.5 is added up, with no CPU time before it that is known.
    assert_eq!(cpu_deltas_us(&json), [1000, 1000, 0, 500]);
}

#[test]
fn a_page_fault_explains_what_is_waited_for_on_its_behalf() {
    let mut waits = Waits::new();
    waits.stack(0, &[SCHEDULE, PIPE_READ, PAGE_FAULT]).out(1).back(5001);
    // A kernel function that nobody knows, and no kernel stack at all.
    waits.stack(6000, &[SCHEDULE]).out(6001).back(8001);
    waits.stack(9000, &[]).out(9001).back(12_001);
    let profile = waits.finish();
    let totals = profile.waits().unwrap();
    assert_eq!(totals.of(WaitReason::PageFault), sum(1, 5_000_000));
    assert_eq!(totals.of(WaitReason::Other), sum(1, 2_000_000));
    assert_eq!(totals.of(WaitReason::Unknown), sum(1, 3_000_000));
}

#[test]
fn what_was_preempted_waits_for_a_cpu_whatever_its_stack_says() {
    let mut waits = Waits::new();
    waits.stack(0, &[SCHEDULE, PIPE_READ]).switch_out(1, true).back(4001);
    let profile = waits.finish();
    assert_eq!(profile.waits().unwrap().of(WaitReason::Cpu), sum(1, 4_000_000));
    assert_eq!(profile.waits().unwrap().blocked(), sum(0, 0));
}

#[test]
fn short_waits_with_the_same_stack_are_added_up() {
    let mut waits = Waits::new();
    waits.stack(0, &[SCHEDULE, PIPE_READ]);
    for us in (0..3000).step_by(2) {
        waits.out(us).back(us + 1);
    }
    waits.on_cpu(4000);
    let profile = waits.finish();
    let json = written(&profile);
    let found = samples(&json);
    // The first with its own stack, the others guessed to be like it.
    assert_eq!(found.len(), 3, "{found:?}");
    assert_eq!((found[0].1, found[1].1), (0.001, 1.499));
    assert!(stack_names(&json, 0, 1).contains(&"[guess: stack of another wait]".to_owned()));
    let totals = profile.waits().unwrap();
    assert_eq!(totals.all(), sum(1500, 1_500_000));
    assert_eq!(totals.guessed(WaitGuess::OtherWait), sum(1499, 1_499_000));
}

#[test]
fn a_wait_without_stack_has_the_last_one_on_a_cpu_and_says_so() {
    let mut waits = Waits::new();
    waits.out(0).back(2000);
    waits.on_cpu(3000).out(3500).back(9500);
    let profile = waits.finish();
    let json = written(&profile);
    let stacks: Vec<Vec<String>> = [0, 3].map(|at| stack_names(&json, 0, at)).into();
    assert_eq!(
        stacks[0],
        ["[stack not sampled]", "[off-CPU]", "[off-CPU: reason not known]"]
    );
    assert_eq!(
        stacks[1],
        [
            "0x100",
            "[guess: last stack on a CPU]",
            "[off-CPU]",
            "[off-CPU: reason not known]"
        ]
    );
    let totals = profile.waits().unwrap();
    assert_eq!(totals.guessed(WaitGuess::NotSampled), sum(1, 2_000_000));
    assert_eq!(totals.guessed(WaitGuess::LastOnCpu), sum(1, 6_000_000));
}

#[test]
fn a_wait_that_outlasts_the_recording_ends_with_it_in_pieces() {
    let mut waits = Waits::new();
    waits.stack(0, &[SCHEDULE, PIPE_READ]).out(100_000);
    let profile = waits.finish();
    let found = samples(&written(&profile));
    // The recording ends at 1000 ms.
    assert_eq!(found.len(), 10, "{found:?}");
    assert!(found[..9].iter().all(|(_, weight, ..)| *weight == 100.0));
    assert_eq!((found[8].0, found[9].0), (900.0, 1000.0));
    assert_eq!(profile.waits().unwrap().still_waiting, 1);
}

#[test]
fn waits_whose_beginning_or_end_was_lost_are_left_out_and_counted() {
    let mut waits = Waits::new();
    // Two beginnings: the end of the first is lost.
    waits.out(1000).out(5000).back(7000);
    // Two ends: the beginning of the second is lost.
    waits.back(9000);
    // On a CPU in the middle of a wait: its end is lost.
    waits.out(10_000).on_cpu(15_000).back(20_000);
    let profile = waits.finish();
    assert_eq!(profile.waits().unwrap().all(), sum(1, 2_000_000));
    assert_eq!(profile.waits().unwrap().unpaired, 4);
}

#[test]
fn shares_of_functions_are_those_of_running_threads() {
    let mut waits = Waits::new();
    waits.on_cpu(1000);
    waits.stack(1499, &[SCHEDULE, PIPE_READ]).out(1500).back(900_000);
    let profile = waits.finish();
    let view = top(&profile, 5);
    assert_eq!((view.samples, view.functions.len()), (1, 1));
    assert_eq!(view.functions[0].self_share, 1.0);
    let places = wait_places(&profile, 5);
    assert_eq!(places.len(), 1);
    assert_eq!((places[0].reason, places[0].ns), (WaitReason::Channel, 898_500_000));
    assert_eq!(
        places[0].function.as_deref(),
        Some("0x200"),
        "the innermost function outside of the kernel"
    );
}

#[test]
fn a_wait_that_came_as_a_whole_ends_where_it_was_told() {
    let mut waits = Waits::new();
    waits.on_cpu(1000);
    waits.waited(12_000, 10 * MS);
    waits.on_cpu(12_000);
    let profile = waits.finish();
    let unknown = "[off-CPU: reason not known]".to_owned();
    assert_eq!(
        samples(&written(&profile)),
        [
            (1.0, 1.0, 1_000_000, "0x100".into()),
            (2.0, 10.0, 0, unknown.clone()),
            (12.0, 0.0, 0, unknown),
            // Its CPU time may have been before the wait: nothing tells.
            (12.0, 1.0, 1_000_000, "0x100".into()),
        ]
    );
    let totals = profile.waits().unwrap();
    assert_eq!(totals.of(WaitReason::Unknown), sum(1, 10_000_000));
    assert_eq!(profile.counts().samples, 2);
}

#[test]
fn waits_that_were_added_up_may_be_longer_than_there_was_time() {
    let mut waits = Waits::new();
    waits.on_cpu(1000);
    waits
        .waited(2000, 5000 * MS)
        .waited(2000, 3 * MS)
        .waited(2000, u64::MAX);
    let profile = waits.finish();
    let json = written(&profile);
    let placed: Vec<_> = samples(&json).iter().map(|sample| (sample.0, sample.1)).collect();
    assert_eq!(placed[..3], [(1.0, 1.0), (1.0, 5000.0), (1.0, 3.0)]);
    assert_eq!(profile.counts().samples_out_of_order, 0);
}

const FOUND: [Frame; 3] = [
    Frame::KernelReturnAddress(Avma(PIPE_READ + 8)),
    Frame::InstructionPointer(Avma(READ)),
    Frame::ReturnAddress(Avma(MAIN)),
];

#[test]
fn a_thread_that_is_found_waiting_waits_since_its_switches_are_told() {
    let mut waits = Waits::new();
    waits.found(Some(WaitReason::Other), Some(&FOUND)).back(3010);
    let profile = waits.finish();
    let totals = profile.waits().unwrap();
    assert_eq!(totals.of(WaitReason::Channel), sum(1, 3_000_000));
    assert_eq!((totals.all().count, totals.initial), (1, 1));
    assert_eq!(samples(&written(&profile))[0].0, 0.01);
}

#[test]
fn without_kernel_frames_the_reason_is_that_which_was_found() {
    let mut waits = Waits::new();
    waits.found(Some(WaitReason::Lock), Some(&FOUND[1..])).back(3010);
    assert_eq!(waits.finish().waits().unwrap().of(WaitReason::Lock), sum(1, 3_000_000));
}

#[test]
fn what_was_seen_after_the_first_switch_says_nothing_of_the_wait_before() {
    let mut waits = Waits::new();
    waits.found(Some(WaitReason::Lock), Some(&FOUND)).back(15);
    let profile = waits.finish();
    let totals = profile.waits().unwrap();
    assert_eq!(totals.of(WaitReason::Unknown), sum(1, 5000));
    assert_eq!(totals.guessed(WaitGuess::NotSampled), sum(1, 5000));
}

#[test]
fn a_found_thread_that_leaves_its_cpu_first_was_running() {
    let mut waits = Waits::new();
    waits.found(Some(WaitReason::Lock), Some(&FOUND));
    waits.stack(14, &[SCHEDULE, PIPE_READ]).out(15).back(3015);
    let profile = waits.finish();
    let totals = profile.waits().unwrap();
    assert_eq!(totals.all(), sum(1, 3_000_000));
    assert_eq!((totals.initial, totals.unpaired), (0, 0));
}

#[test]
fn a_found_thread_that_could_run_waited_for_a_cpu_unless_it_had_one() {
    let mut waits = Waits::new();
    waits.found(None, None).back(3010);
    assert_eq!(waits.finish().waits().unwrap().of(WaitReason::Cpu), sum(1, 3_000_000));

    let mut runs = Waits::new();
    runs.found(None, None).on_cpu(1000);
    assert_eq!(runs.finish().waits().unwrap().all(), sum(0, 0));
}

#[test]
fn a_found_wait_that_nothing_ends_lasts_as_long_as_the_recording() {
    let mut waits = Waits::new();
    waits.found(Some(WaitReason::Other), Some(&FOUND));
    let profile = waits.finish();
    let totals = profile.waits().unwrap();
    assert_eq!(totals.all(), sum(1, 999_990_000));
    assert_eq!((totals.still_waiting, totals.never_ran), (1, 0));

    let options = BuildOptions {
        awake_threads_only: true,
        ..BuildOptions::default()
    };
    let mut waits = Waits::with(options);
    waits.found(Some(WaitReason::Other), Some(&FOUND));
    let profile = waits.finish();
    let totals = profile.waits().unwrap();
    assert_eq!(totals.all(), sum(0, 0));
    assert_eq!((totals.still_waiting, totals.never_ran), (0, 1));
}

#[test]
fn what_cpu_time_and_waits_add_up_to_is_known() {
    let mut waits = Waits::new();
    // 10 ms of waiting, and a sample of 1 ms, of the 1000 ms of the recording.
    waits.stack(1499, &[PIPE_READ]).out(1500).back(11_500);
    waits.on_cpu(12_000);
    let profile = waits.finish();
    let share = profile.waits().unwrap().accounted_share().unwrap();
    assert!((share - 0.011).abs() < 1e-9, "{share}");
}

/// A recorder that looks from time to time knows the reason, and CPU time by the kernel's count: switches are as late
/// as its looks.
#[test]
fn waits_by_looks_have_the_reason_of_the_look_and_leave_cpu_time_as_sampled() {
    let mut waits = Waits::new();
    waits.on_cpu(1000).looked_at(2000, WaitReason::Lock).back(7000);
    waits.on_cpu(7001).looked_at(8000, WaitReason::PageFault).back(9000);
    waits.on_cpu(9001).on_cpu(10_001);
    let profile = waits.finish();
    let totals = profile.waits().unwrap();
    assert_eq!(totals.of(WaitReason::Lock), sum(1, 5_000_000));
    assert_eq!(totals.of(WaitReason::PageFault), sum(1, 1_000_000));
    assert_eq!(totals.all(), sum(2, 6_000_000));
    let json = written(&profile);
    assert_eq!(cpu_deltas_us(&json).into_iter().sum::<u64>(), 4000);
    let labels: Vec<String> = samples(&json).into_iter().map(|(.., leaf)| leaf).collect();
    assert!(
        labels.contains(&"[off-CPU: lock]".to_owned()) && labels.contains(&"[off-CPU: page fault]".to_owned()),
        "{labels:?}"
    );
}
