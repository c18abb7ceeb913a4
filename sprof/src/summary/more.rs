//! Ways to more samples, where a recording has too few to say where time goes.

use profile::text::numbers::{count, time};
use profile::view::cost::FEW_SAMPLES;
use recording::info::PeriodUnit;
use recording::session::{RecordOptions, RecordTarget};

use super::Summary;

/// Number of samples that is enough for shares: a share of one half is then known to 3 points.
const ENOUGH_SAMPLES: u64 = 1000;
/// A higher rate slows the program down more than it helps.
const HIGHEST_RATE_HZ: f64 = 20_000.0;
/// A program that used less of the time was idle: its time went to waits.
const IDLE_SHARE: f64 = 0.05;

impl Summary {
    /// The line for a recording with few samples; `None` if it has none, or enough.
    pub(super) fn few_samples(&self) -> Option<String> {
        let samples = self.counts.samples;
        let is_few = samples > 0 && samples < FEW_SAMPLES;
        is_few.then(|| {
            let samples = count(samples, "sample", "samples");
            let what = match self.info.unit {
                PeriodUnit::Counts => "where the event happens",
                PeriodUnit::CpuNanoseconds | PeriodUnit::Cycles => "where time goes",
            };
            format!("{samples}: too few to say {what}{}", self.way_to_more())
        })
    }

    /// What to type for more samples, after a semicolon.
    pub(super) fn way_to_more(&self) -> String {
        if self.info.unit == PeriodUnit::Counts {
            return "; a smaller N in /period=N/ takes more".to_owned();
        }
        let asked = self.asked.as_ref();
        let (cpu_ns, length) = (self.quality.cpu_time_ns, self.duration().as_nanos() as f64);
        if let Some(cpu_ns) = cpu_ns.filter(|ns| (*ns as f64) < IDLE_SHARE * length) {
            return match asked.is_some_and(|asked| asked.off_cpu) {
                true => format!(
                    "; it waited most of the time, and used {} of CPU time",
                    time(cpu_ns as f64 / 1e6)
                ),
                false => "; it waited most of the time: --off-cpu shows for what".to_owned(),
            };
        }
        let factor = ENOUGH_SAMPLES.div_ceil(self.counts.samples.max(1));
        let mut ways = Vec::new();
        ways.extend(self.higher_rate(factor).map(|rate_hz| format!("-r {rate_hz:.0}")));
        ways.extend(match asked.map(|asked| &asked.target) {
            Some(RecordTarget::Command) => Some(format!("--iteration-count {}", factor.min(1000))),
            Some(RecordTarget::Processes(_) | RecordTarget::WholeMachine) => Some("a longer -d".to_owned()),
            None => None,
        });
        match ways.as_slice() {
            [] => String::new(),
            ways => format!("; {} takes more", ways.join(" or ")),
        }
    }

    /// A rate that gives `factor` times the samples, or the highest useful rate.
    fn higher_rate(&self, factor: u64) -> Option<f64> {
        let rate_hz = self.quality.asked_rate_hz;
        // Where perf_event is refused, ptrace takes over, at its own rate.
        let is_asked = |asked: &&RecordOptions| (asked.rate_hz - rate_hz).abs() < 1.0;
        self.asked.as_ref().filter(is_asked)?;
        let wanted = (rate_hz * factor as f64 / 1000.0).ceil() * 1000.0;
        let limit_hz = rate_limit_hz().unwrap_or(f64::INFINITY);
        Some(wanted.min(HIGHEST_RATE_HZ).min(limit_hz)).filter(|higher| *higher > rate_hz)
    }
}

/// The kernel refuses events above this rate (perf_event_open(2), EINVAL).
pub(crate) fn rate_limit_hz() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/sys/kernel/perf_event_max_sample_rate").ok()?;
    text.trim().parse().ok()
}
