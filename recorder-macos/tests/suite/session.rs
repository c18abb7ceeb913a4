//! The contract of recorders, on the simulated kernel.

use std::os::fd::AsFd;
use std::time::{Duration, SystemTime};

use recorder_macos::doctor::resume;
use recorder_macos::kernel::{KernelEvent, Mach, StopSignal};
use recorder_macos::session::MachRecording;
use recorder_macos::session::task_access::Rights;
use recording::clock::{ClockReference, Timestamp};
use recording::event::Pid;
use recording::session::{
    Finished, HoldOutcome, ProgramExit, RecordError, RecordOptions, RecordTarget, Session, StopReason, Target as _,
};

use crate::events::{Checked, MS};
use crate::xnu::Xnu;
use crate::xnu::fault::Faults;
use crate::xnu::machine::{Behaviour, Machine};

pub(crate) type Target = <MachRecording<Xnu> as Session>::Target;

const BUSY: Behaviour = Behaviour {
    run_ns: (100_000, MS),
    wait_ns: (MS, MS),
    waits: 5,
    calls: 10,
    changes: 0,
    holes: 0,
};

/// A program that is there: the session looks it up before the simulated kernel starts it.
pub(crate) fn options(target: RecordTarget, command: &[&str], duration_ms: Option<u64>) -> RecordOptions {
    RecordOptions {
        target,
        command: command.iter().map(Into::into).collect(),
        env: Vec::new(),
        rate_hz: 1000.0,
        ptrace_rate_hz: 100.0,
        stack_bytes: 16 << 10,
        larger_stacks: true,
        off_cpu: false,
        parallelism: false,
        events: Vec::new(),
        event_sampling: None,
        probes: Vec::new(),
        spans: Vec::new(),
        heap: None,
        paused: false,
        resources: true,
        duration: duration_ms.map(Duration::from_millis),
        keep_running: false,
        include_args: true,
    }
}

pub(crate) fn launched(duration_ms: Option<u64>) -> RecordOptions {
    let own = std::env::current_exe().unwrap();
    options(RecordTarget::Command, &[own.to_str().unwrap(), "--flag"], duration_ms)
}

/// A machine with a process of somebody else.
pub(crate) fn machine() -> Xnu {
    let mut machine = Machine::new(14, 4);
    machine.start(None, 1, BUSY);
    machine.processes[0].is_stranger = true;
    Xnu::new(machine, Faults::default())
}

pub(crate) fn clock() -> ClockReference {
    ClockReference {
        timestamp: Timestamp(0),
        wall: SystemTime::UNIX_EPOCH,
    }
}

fn run(xnu: &Xnu, options: &RecordOptions) -> (Finished<Target>, Checked) {
    let recording = MachRecording::prepare(xnu.clone(), options, Rights::Root).unwrap();
    let mut sink = Checked::default();
    let finished = recording.run(clock(), &mut sink).unwrap();
    (finished, sink)
}

/// Does something to the machine at a time after now.
pub(crate) fn after(xnu: &Xnu, ms: u64, what: impl FnOnce(&mut Machine) + Send + 'static) {
    let mut kernel = xnu.lock();
    let at = kernel.machine.now + ms * MS;
    kernel.plan(at, what);
}

fn asked(from_terminal: bool) -> KernelEvent {
    KernelEvent::Signal(StopSignal::Interrupt { from_terminal })
}

fn process(xnu: &Xnu, pid: i32) -> usize {
    let kernel = xnu.lock();
    let mut processes = kernel.machine.processes.iter();
    processes.position(|process| process.pid == pid).unwrap()
}

fn is_alive(xnu: &Xnu, pid: i32) -> bool {
    let process = process(xnu, pid);
    xnu.lock().machine.processes[process].is_alive
}

#[test]
fn a_launched_program_is_recorded_from_its_first_instruction_to_its_end() {
    let xnu = machine();
    let recording = MachRecording::prepare(xnu.clone(), &launched(None), Rights::Root).unwrap();
    assert!(xnu.lock().machine.processes[1].is_suspended, "it does not run yet");
    assert!(recording.announcements().is_empty());
    after(&xnu, 200, |machine| machine.kill_process(1));
    let mut sink = Checked::default();
    let finished = recording.run(clock(), &mut sink).unwrap();
    assert_eq!((finished.stop, finished.problem), (StopReason::ProgramEnded, None));
    assert_eq!(finished.info.args.as_deref(), Some(&["--flag".to_owned()][..]));
    assert!((finished.achieved_rate_hz.unwrap() / 1000.0 - 1.0).abs() < 0.1);
    let sampled: u64 = sink.samples.iter().map(|sample| sample.period).sum();
    let truth = xnu.lock().machine.threads[1].cpu_ns;
    assert!(truth - sampled < 2 * MS, "{sampled} of {truth} ns");
    assert_eq!(finished.target.unwrap().wait(), ProgramExit::Code(0));
    assert_eq!(xnu.lock().rights(), 0);
}

#[test]
fn the_time_ends_the_recording_and_the_program_gets_sigterm() {
    let xnu = machine();
    let (finished, _) = run(&xnu, &launched(Some(50)));
    assert_eq!(finished.stop, StopReason::Duration);
    assert_eq!(finished.target.unwrap().wait(), ProgramExit::Signal(15));
}

#[test]
fn what_ignores_sigterm_is_killed_with_all_below_after_five_seconds() {
    let xnu = machine();
    after(&xnu, 10, |machine| {
        machine.processes[1].ignores_term = true;
        machine.fork(1);
        machine.processes[2].ignores_term = true;
    });
    let (finished, _) = run(&xnu, &launched(Some(50)));
    let before = xnu.now_ns();
    assert_eq!(finished.target.unwrap().wait(), ProgramExit::Signal(9));
    let waited = xnu.now_ns() - before;
    assert!((4900 * MS..5200 * MS).contains(&waited), "{waited} ns");
    let kernel = xnu.lock();
    let ours = kernel.machine.processes.iter().filter(|process| !process.is_stranger);
    let alive = ours.map(|process| process.is_alive);
    assert_eq!(alive.collect::<Vec<_>>(), [false, false]);
}

#[test]
fn waits_are_recorded_where_they_are_asked_for_and_the_profile_says_how_exact_they_are() {
    for off_cpu in [false, true] {
        let xnu = machine();
        let options = RecordOptions {
            off_cpu,
            ..launched(Some(200))
        };
        let (finished, sink) = run(&xnu, &options);
        assert_eq!(!sink.waits.is_empty(), off_cpu);
        let says_it = finished
            .info
            .notes
            .iter()
            .any(|note| note.starts_with("waits are looked for"));
        assert_eq!(says_it, off_cpu);
        finished.target.unwrap().wait();
    }
}

#[test]
fn a_program_that_is_to_be_kept_goes_on() {
    let xnu = machine();
    let options = RecordOptions {
        keep_running: true,
        ..launched(Some(50))
    };
    let (finished, _) = run(&xnu, &options);
    assert_eq!(finished.target.unwrap().wait(), ProgramExit::StillRunning);
    assert!(xnu.lock().machine.processes[1].is_alive);
}

#[test]
fn the_first_ctrl_c_is_the_programs_and_the_second_ends_the_recording() {
    for from_terminal in [true, false] {
        let xnu = machine();
        after(&xnu, 20, move |machine| machine.news.push(asked(from_terminal)));
        after(&xnu, 60, move |machine| machine.news.push(asked(from_terminal)));
        let (finished, sink) = run(&xnu, &launched(None));
        assert_eq!(finished.stop, StopReason::Interrupted);
        assert!(sink.samples.len() > 40, "{}", sink.samples.len());
        let passed_on = xnu.lock().machine.processes[1].interrupts;
        assert_eq!(passed_on, u32::from(!from_terminal));
        finished.target.unwrap().wait();
    }
}

#[test]
fn sigterm_ends_the_recording() {
    let xnu = machine();
    after(&xnu, 20, |machine| {
        machine.news.push(KernelEvent::Signal(StopSignal::Terminate))
    });
    let (finished, _) = run(&xnu, &launched(None));
    assert_eq!(finished.stop, StopReason::Terminated);
    assert_eq!(finished.target.unwrap().wait(), ProgramExit::Signal(15));
}

#[test]
fn attached_processes_are_recorded_with_present_and_future_children_and_left_alone() {
    let xnu = machine();
    let pid = {
        let mut kernel = xnu.lock();
        let root = kernel.machine.start(None, 2, BUSY);
        kernel.machine.processes[root].is_stranger = false;
        kernel.machine.fork(root);
        kernel.machine.processes[root].pid
    };
    after(&xnu, 30, |machine| machine.fork(1));
    after(&xnu, 100, |machine| machine.news.push(asked(true)));
    let (finished, sink) = run(&xnu, &options(RecordTarget::Processes(vec![Pid(pid)]), &[], None));
    assert_eq!(finished.stop, StopReason::Interrupted);
    assert!(finished.target.is_none());
    let starts = sink.lines.iter().filter(|line| line.contains(" Start { parent:"));
    assert_eq!(starts.count(), 3, "{:?}", sink.lines);
    assert!(is_alive(&xnu, pid));
    assert_eq!(xnu.lock().rights(), 0);
}

#[test]
fn of_several_processes_each_is_recorded_once_and_the_last_end_ends_the_recording() {
    let xnu = machine();
    let pids: Vec<Pid> = {
        let mut kernel = xnu.lock();
        let root = kernel.machine.start(None, 1, BUSY);
        kernel.machine.fork(root);
        let pids = kernel.machine.processes[root..].iter().map(|process| Pid(process.pid));
        pids.collect()
    };
    let own = [(30, pids[1]), (60, pids[0])];
    for (ms, pid) in own {
        after(&xnu, ms, move |machine| {
            let process = machine.alive(pid.0).unwrap();
            machine.kill_process(process);
        });
    }
    let (finished, sink) = run(&xnu, &options(RecordTarget::Processes(pids.clone()), &[], None));
    assert_eq!(finished.stop, StopReason::ProgramEnded);
    let ends = sink
        .lines
        .iter()
        .filter(|line| pids.iter().any(|pid| **line == format!("{} End", pid.0)));
    assert_eq!(ends.count(), 2, "{:?}", sink.lines);
}

#[test]
fn a_command_beside_processes_ends_the_recording() {
    let xnu = machine();
    let pid = {
        let mut kernel = xnu.lock();
        let root = kernel.machine.start(None, 2, BUSY);
        kernel.machine.processes[root].pid
    };
    let own = std::env::current_exe().unwrap();
    let own = own.to_str().unwrap();
    after(&xnu, 40, |machine| machine.kill_process(2));
    let (finished, sink) = run(&xnu, &options(RecordTarget::Processes(vec![Pid(pid)]), &[own], None));
    assert_eq!(finished.stop, StopReason::ProgramEnded);
    assert!(sink.lines.iter().all(|line| line.starts_with(&pid.to_string())));
    assert!(is_alive(&xnu, pid));
}

#[test]
fn refusals_are_errors_that_say_what_helps() {
    let xnu = machine();
    let refused = |options: &RecordOptions, rights| match MachRecording::prepare(xnu.clone(), options, rights) {
        Err(RecordError::Failed(message)) => message,
        other => panic!("{other:?}"),
    };
    let attach = |pid| options(RecordTarget::Processes(vec![Pid(pid)]), &[], None);
    let machine = refused(&options(RecordTarget::WholeMachine, &[], None), Rights::Root);
    assert!(machine.contains("name processes with -p"), "{machine}");
    let events = RecordOptions {
        events: vec!["cycles".to_owned()],
        ..launched(None)
    };
    assert!(refused(&events, Rights::Root).contains("cannot record cycles"));
    assert!(refused(&attach(9999), Rights::Root).contains("there is no process 9999"));
    let own = i32::try_from(std::process::id()).unwrap();
    assert!(refused(&attach(own), Rights::Root).contains("this sprof"));
    let pid = xnu.lock().machine.processes[0].pid;
    assert!(refused(&attach(pid), Rights::None).contains("setup"));
    xnu.lock().machine.processes[0].is_barred = true;
    let barred = refused(&attach(pid), Rights::Root);
    assert!(barred.contains("macOS refused (code 5)"), "{barred}");
    // What was started for a recording that does not begin has ended.
    let kernel = xnu.lock();
    assert!(kernel.machine.processes[1..].iter().all(|process| !process.is_alive));
    assert!(!kernel.hears_signals());
}

/// `/bin/sh` of this machine is in a folder of macOS, too: so it is taken for a part of macOS.
#[test]
fn below_a_program_that_macos_keeps_what_it_starts_is_recorded_and_it_is_listed() {
    let xnu = machine();
    xnu.lock().bars_started = true;
    let shell = options(RecordTarget::Command, &["/bin/sh"], Some(300));
    let recording = MachRecording::prepare(xnu.clone(), &shell, Rights::Root).unwrap();
    let announced = recording.announcements().concat();
    assert!(announced.contains("/bin/sh: it is a part of macOS"), "{announced}");
    after(&xnu, 30, |machine| machine.fork(1));
    let mut sink = Checked::default();
    let finished = recording.run(clock(), &mut sink).unwrap();
    assert_eq!(finished.problem, None);
    let note = finished
        .info
        .notes
        .iter()
        .find(|note| note.starts_with("macOS gave no access"));
    let note = note.unwrap();
    assert!(
        note.contains("to 1 process, which used 0.") && note.contains("sh ("),
        "{note}"
    );
    let kernel = xnu.lock();
    let child: u64 = kernel.machine.threads[2..].iter().map(|thread| thread.cpu_ns).sum();
    let sampled: u64 = sink.samples.iter().map(|sample| sample.period).sum();
    assert!(
        (sampled as f64 / child as f64 - 1.0).abs() < 0.02,
        "{sampled} of {child} ns"
    );
    drop(kernel);
    finished.target.unwrap().wait();
}

#[test]
fn a_recording_of_nothing_is_a_problem() {
    let xnu = machine();
    xnu.lock().bars_started = true;
    let (finished, _) = run(&xnu, &options(RecordTarget::Command, &["/bin/sh"], Some(50)));
    let problem = finished.problem.unwrap();
    assert!(
        problem.starts_with("nothing was recorded: macOS gave no access to sh ("),
        "{problem}"
    );
    finished.target.unwrap().wait();
}

#[test]
fn a_held_program_runs_unrecorded_until_it_is_to_be_recorded() {
    let xnu = machine();
    let recording = MachRecording::prepare(xnu.clone(), &launched(Some(100)), Rights::Root).unwrap();
    let (begin, mut write) = std::io::pipe().unwrap();
    after(&xnu, 500, move |_| std::io::Write::write_all(&mut write, b"x").unwrap());
    let HoldOutcome::Begins(recording) = recording.hold_until(begin.as_fd()).unwrap() else {
        panic!("it runs")
    };
    assert!(recording.began().unwrap().0 > 500 * MS);
    let mut sink = Checked::default();
    let finished = recording.run(clock(), &mut sink).unwrap();
    let cpu = finished.cpu_time_ns.unwrap();
    assert!((50 * MS..120 * MS).contains(&cpu), "{cpu} ns");
    assert_eq!(finished.target.unwrap().wait(), ProgramExit::Signal(15));
    // One that ends before.
    let recording = MachRecording::prepare(xnu.clone(), &launched(None), Rights::Root).unwrap();
    after(&xnu, 20, |machine| {
        let started = machine
            .processes
            .iter()
            .rposition(|process| process.is_suspended || process.end.is_some());
        machine.kill_process(started.unwrap());
    });
    let (never, _write) = std::io::pipe().unwrap();
    let held = recording.hold_until(never.as_fd()).unwrap();
    assert!(matches!(held, HoldOutcome::Ended(ProgramExit::Code(0))), "{held:?}");
}

#[test]
fn threads_that_a_killed_recorder_left_suspended_are_resumed() {
    let xnu = machine();
    let pid = {
        let mut kernel = xnu.lock();
        let process = kernel.machine.start(None, 3, BUSY);
        kernel.machine.processes[process].pid
    };
    let task = xnu.task(pid).unwrap();
    let threads = xnu.threads(&task).unwrap();
    xnu.thread_state(&threads[1]).unwrap();
    xnu.suspend(&threads[1]).unwrap();
    assert_eq!(
        resume(&xnu, pid).unwrap(),
        format!("resumed 1 of the 3 threads of process {pid}")
    );
    assert!(resume(&xnu, pid).unwrap().ends_with("none is suspended"));
    // The program suspends it again.
    let calls = xnu.lock().calls;
    {
        let mut kernel = xnu.lock();
        let thread = kernel.machine.threads.last_mut().unwrap();
        (thread.suspend_count, thread.suspends_itself) = (3, true);
    }
    let said = resume(&xnu, pid).unwrap();
    assert!(
        said.starts_with("resumed 1 of the 3 threads") && said.contains("1 of them are suspended again"),
        "{said}"
    );
    assert!(xnu.lock().calls < calls + 20);
    assert!(resume(&xnu, 9999).unwrap_err().contains("no process 9999"));
}
