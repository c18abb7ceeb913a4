//! Processes and threads over their lives, with known answers.

use std::collections::BTreeMap;

use recorder_macos::kernel::Mach;
use recorder_macos::sampling::{SampleError, sample};
use recording::session::StopReason;

use crate::events::{Checked, MS, plan, record};
use crate::xnu::Xnu;
use crate::xnu::fault::{Fault, Faults};
use crate::xnu::machine::{Behaviour, Machine};

const STEADY: Behaviour = Behaviour {
    run_ns: (100_000, MS),
    wait_ns: (MS, MS),
    waits: 0,
    calls: 10,
    changes: 0,
    holes: 0,
};

const ASLEEP: Behaviour = Behaviour {
    run_ns: (1000, 1000),
    wait_ns: (3_600_000 * MS, 3_600_000 * MS),
    waits: 100,
    calls: 0,
    changes: 0,
    holes: 0,
};

fn at(call: u64, fault: Fault) -> Faults {
    Faults::scripted(BTreeMap::from([(call, fault)]))
}

/// Lines of events without the names of threads.
fn lines(sink: &Checked) -> Vec<&str> {
    let is_name = |line: &&String| line.contains("Name(");
    sink.lines
        .iter()
        .filter(|line| !is_name(line))
        .map(String::as_str)
        .collect()
}

#[test]
fn the_main_thread_has_the_number_of_its_process_and_others_have_small_ones() {
    let mut machine = Machine::new(1, 2);
    machine.start(None, 2, STEADY);
    let (sampled, sink, _) = record(machine, Faults::default(), MS, 20 * MS);
    assert_eq!(sampled.unwrap().stop, StopReason::Duration);
    let lines = lines(&sink);
    assert_eq!(
        lines[..3],
        ["101 Start { parent: None }", "101 Exec(\"program\")", "101/101 Start"]
    );
    let second = lines[3]
        .strip_prefix("101/")
        .and_then(|line| line.strip_suffix(" Start"))
        .unwrap();
    assert!(second.parse::<i32>().unwrap() >= 1 << 30);
    assert!(sink.lines.contains(&"101/101 Name(\"T00\")".to_owned()));
}

#[test]
fn exec_keeps_the_process_and_its_main_thread() {
    let mut machine = Machine::new(2, 2);
    machine.start(None, 3, STEADY);
    let (_, sink, xnu) = record(machine, at(60, Fault::Exec), MS, 30 * MS);
    let lines = lines(&sink);
    let execs: Vec<_> = lines.iter().filter(|line| line.contains("Exec(\"program-")).collect();
    assert_eq!(execs.len(), 1, "{lines:?}");
    assert!(
        !lines.contains(&"101/101 End") && !lines.contains(&"101 End"),
        "{lines:?}"
    );
    assert_eq!(
        lines.iter().filter(|line| line.ends_with(" End")).count(),
        2,
        "{lines:?}"
    );
    // The new main thread is the fourth of the machine.
    assert!(sink.samples.iter().any(|sample| sample.serial == Some(3)));
    assert_eq!(xnu.lock().machine.processes.len(), 1);
}

#[test]
fn what_a_program_starts_is_recorded() {
    let mut machine = Machine::new(3, 4);
    let root = machine.start(None, 1, STEADY);
    machine.fork(root);
    let (_, sink, xnu) = record(machine, at(30, Fault::Fork), MS, 30 * MS);
    let kernel = xnu.lock();
    let pids: Vec<i32> = kernel.machine.processes.iter().map(|process| process.pid).collect();
    assert_eq!(pids.len(), 3);
    for pid in &pids[1..] {
        let start = format!("{pid} Start {{ parent: Some(Pid(10");
        assert!(
            sink.lines.iter().any(|line| line.starts_with(&start)),
            "{start}: {:?}",
            sink.lines
        );
    }
    for process in 0..3 {
        let is_of =
            |serial: Option<usize>| serial.is_some_and(|serial| kernel.machine.threads[serial].process == process);
        assert!(sink.samples.iter().any(|sample| is_of(sample.serial)));
    }
}

/// A shell that starts itself. Its images are at other places.
#[test]
fn a_child_that_executes_its_parents_program_before_it_is_seen_has_images_of_its_own() {
    let mut machine = Machine::new(11, 4);
    let root = machine.start(None, 1, STEADY);
    let xnu = Xnu::new(machine, Faults::default());
    let at = xnu.now_ns() + 20 * MS;
    xnu.lock().plan(at, move |machine| {
        machine.fork(root);
        machine.exec(root + 1);
        machine.processes[root + 1].name = "program".to_owned();
    });
    let mut sink = Checked::default();
    let deadline = Some(xnu.now_ns() + 100 * MS);
    sample(&xnu, plan(101, true, MS, deadline), &mut sink).unwrap();
    assert!(
        sink.samples
            .iter()
            .any(|sample| sample.serial.is_some_and(|serial| serial > 0))
    );
    assert_eq!(sink.places[1..], [0, 0], "{:?}", sink.places);
}

#[test]
fn a_process_that_sleeps_costs_one_call_a_tick() {
    let mut machine = Machine::new(4, 2);
    machine.start(None, 200, ASLEEP);
    let (_, sink, xnu) = record(machine, Faults::default(), MS, 1000 * MS);
    let kernel = xnu.lock();
    // One look at 200 threads, a few while they fall asleep, then the sleep and one call for 1000 ticks.
    assert!(kernel.calls < 2 * 1000 + 200 * 12, "{} calls", kernel.calls);
    assert!(sink.samples.len() < 20, "{} samples", sink.samples.len());
}

#[test]
fn threads_that_sleep_cost_no_calls_beside_one_that_runs() {
    let mut machine = Machine::new(4, 2);
    machine.start(None, 200, ASLEEP);
    machine.threads[150].is_busy = true;
    let (sampled, sink, xnu) = record(machine, Faults::default(), MS, 1000 * MS);
    let kernel = xnu.lock();
    // The sleep, the task, the thread twice, suspend, registers, stack, resume: 8 calls. Twice as many where another
    // thread wakes up.
    assert!(kernel.calls < 20 * 1000, "{} calls", kernel.calls);
    // The first tick finds all of them awake.
    assert!(sampled.unwrap().totals.missed_ticks < 10);
    let of_busy: u64 = sink
        .samples
        .iter()
        .filter(|sample| sample.serial == Some(150))
        .map(|sample| sample.period)
        .sum();
    let truth = kernel.machine.threads[150].cpu_ns;
    assert!(
        (of_busy as f64 / truth as f64 - 1.0).abs() < 0.01,
        "{of_busy} of {truth}"
    );
}

#[test]
fn realtime_is_given_up_where_ticks_take_too_long() {
    let mut few = Machine::new(5, 4);
    few.start(None, 4, STEADY);
    let (sampled, _, xnu) = record(few, Faults::default(), MS, 100 * MS);
    assert!(!sampled.unwrap().totals.gave_up_realtime && xnu.lock().is_realtime);
    let mut many = Machine::new(5, 4);
    many.start(None, 100, STEADY);
    let (sampled, _, xnu) = record(many, Faults::default(), MS, 300 * MS);
    let totals = sampled.unwrap().totals;
    assert!(totals.gave_up_realtime && !xnu.lock().is_realtime);
    // Such ticks are followed by pauses.
    assert!(totals.missed_ticks > 20, "{totals:?}");
}

#[test]
fn a_recorder_that_wakes_up_late_counts_the_ticks_that_it_missed() {
    let mut machine = Machine::new(6, 2);
    machine.start(None, 1, STEADY);
    let (sampled, sink, xnu) = record(machine, at(40, Fault::Late(20_000)), MS, 100 * MS);
    let totals = sampled.unwrap().totals;
    assert!((18..=22).contains(&totals.missed_ticks), "{totals:?}");
    // The next sample weighs what was missed.
    assert!(sink.samples.iter().any(|sample| sample.period > 15 * MS));
    let sampled_ns: u64 = sink.samples.iter().map(|sample| sample.period).sum();
    let truth_ns = xnu.lock().machine.threads[0].cpu_ns;
    assert!(truth_ns - sampled_ns <= totals.unsampled_ns + 2 * MS);
}

#[test]
fn a_recorder_without_a_timer_sleeps_all_the_same() {
    let mut machine = Machine::new(6, 2);
    machine.start(None, 1, STEADY);
    let xnu = Xnu::new(machine, Faults::default());
    xnu.lock().refuses_timers = true;
    let at = xnu.now_ns() + 300 * MS;
    xnu.lock().plan(at, |machine| machine.kill_process(0));
    let mut sink = Checked::default();
    let sampled = sample(&xnu, plan(101, true, MS, None), &mut sink).unwrap();
    assert_eq!(sampled.stop, StopReason::ProgramEnded);
    // 10 calls a tick at most.
    assert!((250..350).contains(&sink.samples.len()), "{}", sink.samples.len());
    assert!(xnu.lock().calls < 10 * 350, "{} calls", xnu.lock().calls);
}

#[test]
fn a_thousand_threads_are_found_without_a_comparison_of_each_with_each() {
    let mut machine = Machine::new(6, 4);
    machine.start(None, 1000, ASLEEP);
    let xnu = Xnu::new(machine, Faults::default());
    let at = xnu.now_ns() + 100 * MS;
    xnu.lock().plan(at, |machine| (0..10).for_each(|_| machine.spawn(0)));
    let deadline = Some(xnu.now_ns() + 300 * MS);
    let mut sink = Checked::default();
    sample(&xnu, plan(101, true, MS, deadline), &mut sink).unwrap();
    let starts = sink.lines.iter().filter(|line| line.ends_with(" Start"));
    assert_eq!(starts.count(), 1010);
    let comparisons = xnu.lock().comparisons;
    assert!(comparisons < 10 * 1010, "{comparisons}");
}

#[test]
fn a_program_that_ends_ends_the_recording() {
    let mut machine = Machine::new(7, 2);
    machine.start(None, 2, STEADY);
    let (sampled, sink, _) = record(machine, at(50, Fault::KillProcess), MS, 1000 * MS);
    assert_eq!(sampled.unwrap().stop, StopReason::ProgramEnded);
    assert_eq!(lines(&sink).last(), Some(&"101 End"));
}

#[test]
fn time_before_the_recording_does_not_count() {
    let mut machine = Machine::new(8, 2);
    machine.start(None, 2, STEADY);
    machine.advance(10_000_000_000, false);
    let xnu = Xnu::new(machine, Faults::default());
    let now = xnu.now_ns();
    let mut sink = Checked::default();
    let sampled = sample(&xnu, plan(101, false, MS, Some(now + 1000 * MS)), &mut sink).unwrap();
    let ran_ns = 2 * (xnu.now_ns() - now);
    let sampled_ns: u64 = sink.samples.iter().map(|sample| sample.period).sum();
    for ns in [sampled_ns, sampled.totals.cpu_ns] {
        assert!((ns as f64 / ran_ns as f64 - 1.0).abs() < 0.05, "{ns} of {ran_ns}");
    }
}

#[test]
fn a_process_that_is_gone_is_an_error() {
    let mut machine = Machine::new(9, 1);
    machine.start(None, 1, STEADY);
    let xnu = Xnu::new(machine, Faults::default());
    let sampled = sample(&xnu, plan(99, true, MS, None), &mut Checked::default());
    assert!(matches!(sampled, Err(SampleError::Ended(99))));
}

#[test]
fn stacks_are_copied_up_to_the_first_page_that_cannot_be_read() {
    let mut machine = Machine::new(10, 2);
    let behaviour = Behaviour { holes: 50, ..STEADY };
    machine.start(None, 2, behaviour);
    let (_, sink, _) = record(machine, Faults::default(), MS, 1000 * MS);
    assert!(sink.samples.len() > 500, "{}", sink.samples.len());
    assert_eq!(sink.whole_stacks, sink.samples.len() as u64);
}
