//! The kernel of a Mac, where the tests run on one. It has been compiled and linked only.

use std::process::{Child, Command, Stdio};

use recorder_macos::Xnu;
use recorder_macos::sampling::kernel::Mach;
use recorder_macos::sampling::{Root, SampleError, sample};
use recording::event::{Event, EventKind, ThreadEvent};
use recording::sink::EventSink;
use recording::stack::Stack;

#[derive(Default)]
struct Sums {
    period_ns: u64,
    stack_bytes: usize,
}

impl EventSink for Sums {
    fn on_event(&mut self, event: &Event<'_>) {
        if let EventKind::Thread(_, ThreadEvent::Sample(sample)) = &event.kind {
            self.period_ns += sample.period;
            if let Stack::Snapshot(snapshot) = sample.stack {
                self.stack_bytes += snapshot.stack_bytes.len();
            }
        }
    }
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Not a test: what the next one records.
#[test]
#[ignore = "it runs until it is killed"]
fn busy() {
    let mut sum = 0u64;
    loop {
        sum = std::hint::black_box(sum.wrapping_mul(3) + 1);
    }
}

/// Root may read any task that is not protected. Others are refused without an entitlement.
#[test]
fn a_busy_child_is_sampled() {
    let own = std::env::current_exe().unwrap();
    let mut command = Command::new(own);
    command
        .args(["--ignored", "--exact", "real::busy"])
        .stdout(Stdio::null());
    let child = Killed(command.spawn().unwrap());
    let root = Root {
        pid: child.0.id() as i32,
        is_new: true,
    };
    let xnu = Xnu::open().unwrap();
    let deadline_ns = xnu.now_ns() + 2_000_000_000;
    let mut sums = Sums::default();
    let sampled = match sample(xnu, root, 1_000_000, Some(deadline_ns), &mut sums) {
        Err(SampleError::Refused { code, .. }) => {
            println!("skipped: macOS refuses access to other processes (code {code}); run as root");
            return;
        }
        result => result.unwrap(),
    };
    println!("{sampled:?}");
    assert!(!sampled.all_ended && sampled.totals.samples > 0 && sums.stack_bytes > 0);
    assert!((sums.period_ns as f64 / sampled.totals.cpu_ns as f64 - 1.0).abs() < 0.05);
}
