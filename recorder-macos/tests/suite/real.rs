//! The kernel of a Mac, where the tests run on one. It has been compiled and linked only.
//!
//! Root may read tasks that are not protected. Others record by sprof's library in the programs that they start; what
//! does not work that way is refused, and its tests are skipped.

use std::collections::HashSet;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use recorder_macos::{Recording, Target, clock_reference, resume};
use recording::clock::Timestamp;
use recording::event::{Event, EventKind, Pid, ProcessEvent, ThreadEvent};
use recording::session::{
    Finished, ProgramExit, RecordError, RecordOptions, RecordTarget, Session, StopReason, Target as _,
};
use recording::sink::{Completion, EventSink};
use recording::stack::Stack;

#[derive(Default)]
struct Sums {
    period_ns: u64,
    stack_bytes: usize,
    /// Samples in images that are known.
    placed: usize,
    samples: usize,
    images: Vec<(Pid, u64, u64, String)>,
    sampled: HashSet<i32>,
    execs: usize,
    /// What was said before the recording.
    announced: String,
}

impl EventSink for Sums {
    fn on_event(&mut self, event: &Event<'_>) {
        match &event.kind {
            EventKind::Process(pid, ProcessEvent::Map(mapping)) if mapping.build_id.is_some() => {
                let path = String::from_utf8_lossy(mapping.path).into_owned();
                self.images.push((*pid, mapping.start, mapping.len, path));
            }
            EventKind::Process(_, ProcessEvent::Exec(_)) => self.execs += 1,
            EventKind::Thread(thread, ThreadEvent::Sample(sample)) => {
                self.period_ns += sample.period;
                self.samples += 1;
                self.sampled.insert(thread.pid.0);
                if let Stack::Snapshot(snapshot) = sample.stack {
                    self.stack_bytes += snapshot.stack_bytes.len();
                    let ip = snapshot.registers.ip();
                    let mut images = self.images.iter().filter(|(pid, ..)| *pid == thread.pid);
                    self.placed += usize::from(images.any(|(_, start, len, _)| (*start..start + len).contains(&ip)));
                }
            }
            _ => {}
        }
    }

    fn end_round(&mut self, _: Timestamp) -> Completion {
        Completion::default()
    }
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Not a test: what the others record.
#[test]
#[ignore = "it runs until it is killed"]
fn busy() {
    let mut sum = 0u64;
    loop {
        sum = std::hint::black_box(sum.wrapping_mul(3) + 1);
    }
}

/// Not a test: starts two that are busy, and is killed with them.
#[test]
#[ignore = "it runs until it is killed"]
fn busy_children() {
    let children: Vec<Killed> = (0..2).map(|_| Killed(own("real::busy").spawn().unwrap())).collect();
    for mut child in children {
        let _ = child.0.wait();
    }
}

fn own(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", test]).stdout(Stdio::null());
    command
}

fn options(target: RecordTarget, words: &[&str]) -> RecordOptions {
    RecordOptions {
        target,
        command: words.iter().map(Into::into).collect(),
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
        duration: Some(Duration::from_secs(2)),
        keep_running: false,
        include_args: false,
    }
}

/// A process has one recording at a time.
static ONE: Mutex<()> = Mutex::new(());

/// Records. `None`: macOS refuses.
fn record(options: &RecordOptions) -> Option<(Finished<Target>, Sums)> {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let recording = match Recording::open(options) {
        Err(RecordError::Failed(message)) if message.contains("not signed") || message.contains("no access") => {
            println!("skipped: {message}");
            return None;
        }
        result => result.unwrap(),
    };
    println!("{:?}", recording.announcements());
    let mut sums = Sums {
        announced: recording.announcements().concat(),
        ..Sums::default()
    };
    let finished = recording.run(clock_reference(), &mut sums).unwrap();
    println!("{:?} {:?} {:?}", finished.stop, finished.problem, finished.info.notes);
    Some((finished, sums))
}

fn launched(test: &str) -> Option<(Finished<Target>, Sums)> {
    let own = std::env::current_exe().unwrap();
    record(&options(
        RecordTarget::Command,
        &[own.to_str().unwrap(), "--ignored", "--exact", test],
    ))
}

#[test]
fn a_launched_program_is_recorded_and_ended() {
    let Some((finished, sums)) = launched("real::busy") else {
        return;
    };
    assert_eq!((finished.stop, finished.problem), (StopReason::Duration, None));
    assert!(sums.samples > 500 && sums.stack_bytes > 0, "{} samples", sums.samples);
    let cpu_ns = finished.cpu_time_ns.unwrap();
    assert!((sums.period_ns as f64 / cpu_ns as f64 - 1.0).abs() < 0.05);
    assert!(
        sums.placed as f64 / sums.samples as f64 > 0.95,
        "{} of {}",
        sums.placed,
        sums.samples
    );
    assert!(
        sums.images.iter().any(|(.., path)| path.contains("libsystem")),
        "{:?}",
        sums.images
    );
    assert_eq!(finished.target.unwrap().wait(), ProgramExit::Signal(15));
}

#[test]
fn without_rights_a_library_in_the_programs_gives_access_to_them() {
    let Some((finished, sums)) = launched("real::busy_children") else {
        return;
    };
    if !sums.announced.contains("by a library in the program") {
        println!("skipped: it has the rights, as root or by its signature");
    } else {
        // The parent and two that it started. Each is reached a few milliseconds after its start.
        assert!(sums.sampled.len() >= 2 && sums.samples > 500, "{:?}", sums.sampled);
        let cpu_ns = finished.cpu_time_ns.unwrap();
        assert!((sums.period_ns as f64 / cpu_ns as f64 - 1.0).abs() < 0.1);
        assert!(sums.images.iter().any(|(.., path)| path.contains("/sprof/preload-")));
    }
    finished.target.unwrap().wait();
}

#[test]
fn children_are_recorded() {
    let Some((finished, sums)) = launched("real::busy_children") else {
        return;
    };
    assert!(sums.sampled.len() >= 2, "{:?}", sums.sampled);
    finished.target.unwrap().wait();
}

#[test]
fn what_a_program_of_macos_executes_is_recorded() {
    let own = std::env::current_exe().unwrap();
    let words = [
        "/usr/bin/env",
        own.to_str().unwrap(),
        "--ignored",
        "--exact",
        "real::busy",
    ];
    let Some((finished, sums)) = record(&options(RecordTarget::Command, &words)) else {
        return;
    };
    assert!(
        sums.execs >= 2 && sums.samples > 500,
        "{} execs, {} samples",
        sums.execs,
        sums.samples
    );
    finished.target.unwrap().wait();
}

#[test]
fn an_attached_process_goes_on_and_none_of_its_threads_stays_suspended() {
    let child = Killed(own("real::busy").spawn().unwrap());
    let pid = child.0.id() as i32;
    let Some((finished, sums)) = record(&options(RecordTarget::Processes(vec![Pid(pid)]), &[])) else {
        return;
    };
    assert!(
        finished.target.is_none() && sums.samples > 500,
        "{} samples",
        sums.samples
    );
    assert!(resume(pid).unwrap().ends_with("none is suspended"));
}

#[test]
fn a_program_that_is_killed_ends_the_recording() {
    // `$$` is the shell that executes the program.
    let killer = "sleep 1; kill -9 $$";
    let own = std::env::current_exe().unwrap();
    let script = format!("({killer}) & exec '{}' --ignored --exact real::busy", own.display());
    let options = RecordOptions {
        duration: Some(Duration::from_secs(20)),
        ..options(RecordTarget::Command, &["/bin/sh", "-c", &script])
    };
    let Some((finished, _)) = record(&options) else { return };
    assert_eq!(finished.stop, StopReason::ProgramEnded);
    assert_eq!(finished.target.unwrap().wait(), ProgramExit::Signal(9));
}
