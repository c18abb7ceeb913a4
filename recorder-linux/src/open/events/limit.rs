//! Limits the point events that are unwound: a tracepoint may be hit a million times a second, and each hit takes
//! microseconds to unwind.

use recording::clock::Timestamp;
use recording::event::{LostCause, Role};
use recording::sink::EventSink;

use perf_data::decode;
use perf_data::translate::{FurtherEvent, Translator};

/// Points a second that are unwound.
const PER_SECOND: f64 = 20_000.0;
/// Most points at once. They take 0.2 s at worst; rings of samples last longer.
const AT_ONCE: f64 = 20_000.0;

/// Passes on as many points as can be unwound beside the samples. The others are skipped and counted. The event is
/// never switched off, so that its count stays exact.
#[derive(Debug)]
pub(crate) struct PointLimit {
    allowance: f64,
    last_ns: u64,
    /// Skipped points since the last report, and the time of the last one.
    skipped: u64,
    at: u64,
    /// Points of this round.
    seen: u64,
}

/// Number of points in a round that counts as many: a quarter of what the smallest usual ring holds.
const MANY: u64 = 64;

impl PointLimit {
    pub(crate) fn new(now_ns: u64) -> PointLimit {
        PointLimit {
            allowance: AT_ONCE,
            last_ns: now_ns,
            skipped: 0,
            at: now_ns,
            seen: 0,
        }
    }

    /// True if many points came in the last round.
    pub(crate) fn are_many(&self) -> bool {
        self.seen >= MANY
    }

    /// Adds to the allowance for the time since the last call.
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
                self.skipped += 1;
                self.at = time;
                return;
            }
            self.allowance -= 1.0;
        }
        translator.further(time, record, event, sink);
    }

    /// Reports how many points were skipped.
    pub(crate) fn report(&mut self, translator: &mut Translator, sink: &mut dyn EventSink) {
        let skipped = std::mem::take(&mut self.skipped);
        translator.report_lost(Timestamp(self.at), skipped, Role::Point, LostCause::OverLimit, sink);
    }
}
