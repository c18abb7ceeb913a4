//! How many point events are taken: a tracepoint may be hit a million times a second, and each takes microseconds to unwind.

use recording::clock::Timestamp;
use recording::event::{LostCause, Role};
use recording::sink::EventSink;

use perf_data::decode;
use perf_data::translate::{FurtherEvent, Translator};

/// Points a second that are unwound, and
const PER_SECOND: f64 = 20_000.0;
/// how many may come at once. They take 0.2 s at worst, for which rings of samples last.
const AT_ONCE: f64 = 20_000.0;

/// Lets through what can be unwound beside the samples. The rest is read over, and counted.
/// The event is never switched off, so that its count stays exact.
#[derive(Debug)]
pub(crate) struct PointLimit {
    allowance: f64,
    last_ns: u64,
    /// Those let go since the last report, and when the last one was.
    let_go: u64,
    at: u64,
    /// Points of this round.
    seen: u64,
}

/// Points of one round that are many: a quarter of what the smallest of the usual rings holds.
const MANY: u64 = 64;

impl PointLimit {
    pub(crate) fn new(now_ns: u64) -> PointLimit {
        PointLimit {
            allowance: AT_ONCE,
            last_ns: now_ns,
            let_go: 0,
            at: now_ns,
            seen: 0,
        }
    }

    /// True if many points came in the last round.
    pub(crate) fn are_many(&self) -> bool {
        self.seen >= MANY
    }

    /// Takes note that time has gone by.
    pub(crate) fn allow(&mut self, now_ns: u64) {
        let seconds = now_ns.saturating_sub(self.last_ns) as f64 / 1e9;
        self.last_ns = now_ns;
        self.seen = 0;
        self.allowance = (self.allowance + seconds * PER_SECOND).min(AT_ONCE);
    }

    /// Takes one record of a further event.
    pub(crate) fn take(
        &mut self,
        time: u64,
        record: &[u8],
        event: &FurtherEvent<'_>,
        translator: &mut Translator,
        sink: &mut dyn EventSink,
    ) {
        if event.role == Role::Point && decode::is_sample(record) {
            self.seen += 1;
            if self.allowance < 1.0 {
                self.let_go += 1;
                self.at = time;
                return;
            }
            self.allowance -= 1.0;
        }
        translator.further(time, record, event, sink);
    }

    /// Tells how many were let go.
    pub(crate) fn report(&mut self, translator: &mut Translator, sink: &mut dyn EventSink) {
        let let_go = std::mem::take(&mut self.let_go);
        translator.report_lost(Timestamp(self.at), let_go, Role::Point, LostCause::OverLimit, sink);
    }
}
