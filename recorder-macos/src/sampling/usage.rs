//! Memory and CPU time of a process as lines over time.

use recording::counter::Counter;
use recording::event::ProcessEvent;
use recording::outbox::Outbox;

use crate::kernel::TaskCounts;

/// From one point to the next: 20 points a second are a line.
const LOOK_NS: u64 = 50_000_000;

/// When the next point is due, and what the last one was.
#[derive(Debug, Default)]
pub(super) struct ProcessUsage {
    next_ns: u64,
    last: Option<(u64, u64)>,
}

impl ProcessUsage {
    /// Reports the counts of a look, if the last point is long enough ago and differs.
    pub(super) fn look(&mut self, pid: i32, counts: TaskCounts, now_ns: u64, out: &mut Outbox) {
        let point = (counts.resident_bytes, counts.cpu_ns);
        if now_ns < self.next_ns || self.last == Some(point) {
            return;
        }
        self.next_ns = now_ns.saturating_add(LOOK_NS);
        self.last = Some(point);
        for (counter, value) in [
            (Counter::ResidentBytes, counts.resident_bytes),
            (Counter::CpuNanoseconds, counts.cpu_ns),
        ] {
            out.process(now_ns, pid, ProcessEvent::Counter(counter, value));
        }
    }
}
