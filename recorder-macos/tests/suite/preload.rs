//! Programs that announce themselves, because macOS gives sprof no access to them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;

use recorder_macos::codesign::{Cpu, read};
use recorder_macos::doctor::examine;
use recorder_macos::kernel::{KernelEvent, Mach, Sender};
use recorder_macos::processes::hello::{HelloRefusal, check};
use recorder_macos::processes::host::Host;
use recorder_macos::processes::preload::{lost_variable, place};
use recorder_macos::processes::wire::{Hello, INSERT, LIBRARY};
use recorder_macos::session::MachRecording;
use recorder_macos::session::task_access::Rights;
use recording::doctor::CheckState as Found;
use recording::session::{
    Finished, HoldOutcome, ProgramExit, RecordError, RecordOptions, RecordTarget, Session, StopReason, Target as _,
};
use recording::sink::InMemory;

use crate::events::{Checked, MS};
use crate::session::{Target, after, clock, launched, machine, options};
use crate::xnu::Xnu;
use crate::xnu::machine::{Machine, State, Thread};
use crate::xnu::port_messages::Mail;

/// The launched program is the second process of the machine.
const PROGRAM: usize = 1;

fn prepare(xnu: &Xnu, options: &RecordOptions) -> MachRecording<Xnu> {
    MachRecording::prepare(xnu.clone(), options, Rights::None).unwrap()
}

fn run(recording: MachRecording<Xnu>) -> (Finished<Target>, Checked) {
    let mut sink = Checked::default();
    let finished = recording.run(clock(), &mut sink).unwrap();
    (finished, sink)
}

/// Nothing waits for the recorder, and it holds nothing.
fn check_end(xnu: &Xnu) {
    let kernel = xnu.lock();
    assert_eq!(kernel.rights(), 0);
    let is_free = |thread: &Thread| thread.suspend_count == 0 || thread.state == State::Ended;
    assert!(kernel.machine.threads.iter().all(is_free));
}

#[test]
fn a_program_that_announces_itself_is_recorded_from_then_on_with_all_that_it_forks() {
    let xnu = machine();
    let recording = prepare(&xnu, &launched(None));
    assert!(
        recording.announcements()[0].contains("not signed"),
        "{:?}",
        recording.announcements()
    );
    assert!(xnu.lock().machine.processes[PROGRAM].has_library);
    after(&xnu, 50, |machine| machine.fork(PROGRAM));
    after(&xnu, 100, |machine| machine.exec(PROGRAM));
    after(&xnu, 250, |machine| {
        machine.kill_process(2);
        machine.kill_process(PROGRAM);
    });
    let (finished, sink) = run(recording);
    assert_eq!((finished.stop, finished.problem), (StopReason::ProgramEnded, None));
    let notes = finished.info.notes.concat();
    assert!(
        !notes.contains("no access") && !notes.contains("were refused"),
        "{notes}"
    );
    // Before it announces itself, dyld runs for 1 to 3 ms, after each exec.
    let sampled: u64 = sink.samples.iter().map(|sample| sample.period).sum();
    let kernel = xnu.lock();
    let ours = kernel.machine.threads.iter().filter(|thread| thread.process >= PROGRAM);
    let truth: u64 = ours.map(|thread| thread.cpu_ns).sum();
    assert!(truth - sampled < 15 * MS && truth > 300 * MS, "{sampled} of {truth} ns");
    // The last look at a process is up to an interval before its end.
    let cpu_ns = finished.cpu_time_ns.unwrap();
    assert!(truth - cpu_ns < 4 * MS, "{cpu_ns} of {truth} ns");
    for process in [PROGRAM, 2] {
        let is_of = |serial: usize| kernel.machine.threads[serial].process == process;
        assert!(sink.samples.iter().any(|sample| sample.serial.is_some_and(is_of)));
    }
    drop(kernel);
    assert_eq!(finished.target.unwrap().wait(), ProgramExit::Code(0));
    check_end(&xnu);
}

#[test]
fn a_program_does_not_wait_longer_than_two_seconds_for_a_recorder_that_is_late() {
    let xnu = machine();
    let recording = prepare(&xnu, &launched(Some(5000)));
    // The port is there, and nobody reads it.
    let pid = xnu.lock().machine.processes[PROGRAM].pid;
    let now = xnu.now_ns();
    let ran = |xnu: &Xnu| xnu.lock().machine.threads[PROGRAM].cpu_ns;
    {
        let mut kernel = xnu.lock();
        let process = kernel.machine.alive(pid).unwrap();
        kernel.machine.resume_process(process);
        kernel.machine.advance(now + 1400 * MS, false);
    }
    assert!(ran(&xnu) < 4 * MS);
    xnu.lock().machine.advance(now + 2100 * MS, false);
    assert!(ran(&xnu) > 400 * MS, "{}", ran(&xnu));
    let (finished, sink) = run(recording);
    let notes = finished.info.notes.concat();
    assert!(notes.contains("1 program had stopped waiting for sprof"), "{notes}");
    assert!(sink.samples.len() > 1000);
    finished.target.unwrap().wait();
    check_end(&xnu);
}

#[test]
fn a_program_that_never_announces_itself_runs_and_the_recording_says_why_it_is_empty() {
    let xnu = machine();
    let recording = prepare(&xnu, &launched(Some(300)));
    xnu.lock().machine.processes[PROGRAM].has_library = false;
    let (finished, sink) = run(recording);
    assert!(sink.samples.is_empty());
    let problem = finished.problem.unwrap();
    assert!(
        problem.contains("nothing was recorded") && problem.contains("did not load sprof's library"),
        "{problem}"
    );
    assert!(xnu.lock().machine.threads[PROGRAM].cpu_ns > 200 * MS, "it runs");
    finished.target.unwrap().wait();
    check_end(&xnu);
}

#[test]
fn what_a_program_of_macos_starts_is_listed_as_not_reached() {
    let xnu = machine();
    let recording = prepare(&xnu, &launched(Some(300)));
    after(&xnu, 50, |machine| {
        machine.fork(PROGRAM);
        machine.processes[2].has_library = false;
        machine.exec(2);
    });
    let (finished, sink) = run(recording);
    assert!(sink.samples.len() > 200);
    let notes = finished.info.notes.concat();
    assert!(
        notes.contains("macOS gave no access to 1 process, which used 0."),
        "{notes}"
    );
    finished.target.unwrap().wait();
    check_end(&xnu);
}

/// As vfork(2) and posix_spawn(2) do: the child has no library of its own before it executes a program.
#[test]
fn a_child_that_executes_a_program_before_it_announces_itself_is_reached_with_that() {
    let xnu = machine();
    let recording = prepare(&xnu, &launched(Some(300)));
    after(&xnu, 50, |machine| {
        machine.processes[PROGRAM].has_library = false;
        machine.fork(PROGRAM);
    });
    after(&xnu, 60, |machine| {
        machine.processes[2].has_library = true;
        machine.exec(2);
    });
    let (finished, sink) = run(recording);
    let notes = finished.info.notes.concat();
    assert!(!notes.contains("no access"), "{notes}");
    let kernel = xnu.lock();
    let is_childs = |serial: usize| kernel.machine.threads[serial].process == 2;
    let samples = sink
        .samples
        .iter()
        .filter(|sample| sample.serial.is_some_and(is_childs));
    assert!(samples.count() > 100);
    let pid = kernel.machine.processes[2].pid;
    let execs = sink
        .lines
        .iter()
        .filter(|line| line.starts_with(&format!("{pid} Exec(")));
    assert!((1..=2).contains(&execs.count()), "{:?}", sink.lines);
    drop(kernel);
    finished.target.unwrap().wait();
    check_end(&xnu);
}

#[test]
fn a_program_may_announce_itself_before_its_exec_is_in_the_news() {
    let xnu = machine();
    let recording = prepare(&xnu, &launched(Some(300)));
    let pid = xnu.lock().machine.processes[PROGRAM].pid;
    after(&xnu, 100, |machine| {
        machine.exec(PROGRAM);
        machine.news.retain(|news| !matches!(news, KernelEvent::Exec(_)));
    });
    after(&xnu, 130, move |machine| machine.news.push(KernelEvent::Exec(pid)));
    let (finished, sink) = run(recording);
    let lines = |end: &str| sink.lines.iter().filter(|line| line.ends_with(end)).count();
    let main = format!("{pid}/{pid} Start");
    assert_eq!((lines(" Start"), lines(&main)), (2, 2), "{:?}", sink.lines);
    let execs = sink.lines.iter().filter(|line| line.contains("Exec(\"program-"));
    assert_eq!(execs.count(), 1, "{:?}", sink.lines);
    assert!(sink.samples.len() > 200);
    finished.target.unwrap().wait();
    check_end(&xnu);
}

#[test]
fn a_program_that_ends_before_it_is_known_ends_the_recording() {
    let xnu = machine();
    let recording = prepare(&xnu, &launched(None));
    let pid = xnu.lock().machine.processes[PROGRAM].pid;
    {
        let mut kernel = xnu.lock();
        let now = kernel.machine.now;
        kernel.machine.resume_process(PROGRAM);
        kernel.machine.advance(now + 5 * MS, false);
    }
    // Its message is there.
    after(&xnu, 1, move |machine| {
        machine
            .alive(pid)
            .into_iter()
            .for_each(|process| machine.kill_process(process))
    });
    let mut sink = Checked::default();
    let result = recording.run(clock(), &mut sink);
    if let Ok(finished) = result {
        assert_eq!(finished.stop, StopReason::ProgramEnded);
        assert_eq!(finished.target.unwrap().wait(), ProgramExit::Code(0));
    }
    check_end(&xnu);
}

#[test]
fn messages_of_strangers_are_not_believed() {
    let xnu = machine();
    let recording = prepare(&xnu, &launched(Some(300)));
    let hello = |pid: i32| Hello { pid, time_ns: 1 }.to_bytes().to_vec();
    let stranger = xnu.lock().machine.processes[0].pid;
    let program = xnu.lock().machine.processes[PROGRAM].pid;
    let mail = move |pid: i32, user: u32, bytes: Vec<u8>, task: Option<usize>| Mail {
        sender: Sender { pid, user },
        bytes,
        task,
        waits: None,
    };
    let false_ones = [
        // A process that nobody recorded has started, the task of the program as that of somebody else, the other way
        // around, another user, no hello, no task.
        mail(stranger, 501, hello(stranger), Some(0)),
        mail(stranger, 501, hello(stranger), Some(1)),
        mail(stranger, 501, hello(program), Some(1)),
        mail(program, 501, hello(program), Some(0)),
        mail(program, 0, hello(program), Some(1)),
        mail(program, 501, b"hello".to_vec(), Some(1)),
        mail(program, 501, hello(program), None),
    ];
    after(&xnu, 50, move |machine: &mut Machine| {
        false_ones.into_iter().for_each(|mail| machine.send(mail))
    });
    let (finished, sink) = run(recording);
    let notes = finished.info.notes.concat();
    assert!(notes.contains("6 messages to sprof were refused"), "{notes}");
    let kernel = xnu.lock();
    assert!(sink.samples.iter().all(|sample| {
        sample
            .serial
            .is_none_or(|serial| kernel.machine.threads[serial].process == PROGRAM)
    }));
    drop(kernel);
    assert!(sink.samples.len() > 200);
    finished.target.unwrap().wait();
    check_end(&xnu);
}

#[test]
fn a_held_program_does_not_wait_for_the_recording_to_begin() {
    let xnu = machine();
    let recording = prepare(&xnu, &launched(Some(100)));
    let (begin, mut write) = std::io::pipe().unwrap();
    after(&xnu, 500, move |_| std::io::Write::write_all(&mut write, b"x").unwrap());
    let held = recording.hold_until(std::os::fd::AsFd::as_fd(&begin)).unwrap();
    let HoldOutcome::Begins(recording) = held else {
        panic!("it runs")
    };
    let unrecorded = xnu.lock().machine.threads[PROGRAM].cpu_ns;
    assert!(unrecorded > 300 * MS, "{unrecorded}");
    let (finished, sink) = run(*recording);
    assert!(sink.samples.len() > 50);
    let cpu = finished.cpu_time_ns.unwrap();
    assert!((50 * MS..120 * MS).contains(&cpu), "{cpu} ns");
    finished.target.unwrap().wait();
    check_end(&xnu);
}

#[test]
fn a_program_that_dyld_inserts_nothing_into_is_refused_before_it_starts() {
    let xnu = machine();
    let refused = MachRecording::prepare(
        xnu.clone(),
        &options(RecordTarget::Command, &["/bin/sh"], None),
        Rights::None,
    );
    let Err(RecordError::Failed(message)) = refused else {
        panic!("refused")
    };
    assert!(
        message.contains("/bin/sh: it is a part of macOS") && message.contains("setup"),
        "{message}"
    );
    assert_eq!(xnu.lock().machine.processes.len(), 1);
    check_end(&xnu);
}

#[test]
fn the_doctor_says_which_way_is_used() {
    let xnu = machine();
    let states = |xnu: &Xnu| {
        let ways = examine(xnu).ways.into_iter();
        ways.map(|way| (way.id, way.state)).collect::<Vec<_>>()
    };
    assert_eq!(states(&xnu), [("mach", Found::Works), ("mach-library", Found::Works)]);
    // The tests are not signed.
    xnu.lock().is_root = false;
    assert_eq!(states(&xnu), [("mach", Found::Fails), ("mach-library", Found::Works)]);
}

#[test]
fn only_what_the_kernel_confirms_is_a_hello() {
    let hello = Hello {
        pid: 7,
        time_ns: u64::MAX,
    };
    let bytes = hello.to_bytes();
    let sender = Sender { pid: 7, user: 501 };
    assert_eq!(check(&bytes, sender, Some(7), 501), Ok(hello));
    assert_eq!(check(&bytes, sender, Some(7), 502), Err(HelloRefusal::OtherUser));
    assert_eq!(check(&bytes, sender, Some(8), 501), Err(HelloRefusal::OtherProcess));
    assert_eq!(
        check(&bytes, Sender { pid: 8, ..sender }, Some(7), 501),
        Err(HelloRefusal::OtherProcess)
    );
    assert_eq!(check(&bytes, sender, None, 501), Err(HelloRefusal::Ended));
    for len in 0..bytes.len() {
        assert_eq!(check(&bytes[..len], sender, Some(7), 501), Err(HelloRefusal::Malformed));
    }
    let longer = [&bytes[..], b"\0"].concat();
    assert_eq!(check(&longer, sender, Some(7), 501), Err(HelloRefusal::Malformed));
    // The magic, the version and the zeros.
    for at in (0..8).chain(12..16) {
        let mut changed = bytes;
        changed[at] ^= 1;
        assert_eq!(
            check(&changed, sender, Some(7), 501),
            Err(HelloRefusal::Malformed),
            "{at}"
        );
    }
    // The format, as the library of an older sprof has it.
    assert_eq!(
        bytes,
        *b"sprof\0\0\x01\x07\0\0\0\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff"
    );
}

#[test]
fn the_library_is_written_once_where_nobody_else_may_enter() {
    let folder = tempfile::tempdir().unwrap();
    let path = place(folder.path()).unwrap();
    let mode = fs::metadata(path.parent().unwrap()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    let bytes = fs::read(&path).unwrap();
    // Whatever happened to it.
    fs::write(&path, b"other").unwrap();
    assert_eq!(place(folder.path()).unwrap(), path);
    assert_eq!(fs::read(&path).unwrap(), bytes);
    let modified = |path| fs::metadata(path).unwrap().modified().unwrap();
    let before = modified(&path);
    place(folder.path()).unwrap();
    assert_eq!(modified(&path), before);
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    assert!(place(&folder.path().join("nowhere")).is_err());
}

#[test]
fn the_library_is_signed_for_all_processors_and_can_be_inserted() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = fs::read(place(folder.path()).unwrap()).unwrap();
    let slices = read(&InMemory(bytes)).unwrap();
    let cpus: Vec<Cpu> = slices.iter().map(|slice| slice.cpu).collect();
    assert_eq!(cpus, [Cpu::X86_64, Cpu::Arm64, Cpu::Arm64]);
    for slice in slices {
        let signature = slice.signature.unwrap();
        assert!(signature.is_ad_hoc && signature.is_linker_signed, "{signature:?}");
        assert!(!signature.is_hardened && !signature.is_restricted && slice.build_id.is_some());
    }
}

#[test]
fn the_library_is_first_beside_those_of_the_user_and_comes_back_where_dyld_removed_it() {
    let lost = |insert: Option<&str>, library: Option<&str>| {
        let variables: BTreeMap<&str, Option<&str>> = [(INSERT, insert), (LIBRARY, library)].into();
        lost_variable(|name| variables[name].map(OsString::from))
            .map(|(name, value)| (name, value.into_string().unwrap()))
    };
    assert_eq!(lost(None, None), None);
    assert_eq!(lost(Some("/a"), None), None);
    assert_eq!(lost(None, Some("/own")), Some((INSERT, "/own".to_owned())));
    assert_eq!(
        lost(Some("/a::/b"), Some("/own")),
        Some((INSERT, "/own:/a:/b".to_owned()))
    );
    assert_eq!(lost(Some("/own:/a"), Some("/own")), None);
}

#[test]
fn the_users_own_libraries_stay() {
    let xnu = machine();
    let own = xnu.own_folder().unwrap().join("user.dylib");
    fs::write(&own, b"").unwrap();
    let options = RecordOptions {
        env: vec![(INSERT.into(), own.clone().into())],
        ..launched(Some(50))
    };
    let recording = prepare(&xnu, &options);
    assert!(xnu.lock().machine.processes[PROGRAM].has_library);
    drop(recording);
    check_end(&xnu);
    assert!(!xnu.lock().machine.processes[PROGRAM].is_alive);
}
