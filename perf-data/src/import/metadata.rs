//! The recording as a whole, and what the file lacks.

use std::io::{Read, Seek};
use std::time::{Duration, SystemTime};

use recording::clock::{ClockReference, Timestamp};
use recording::heap::HeapCoverage;
use recording::info::{PeriodUnit, RecordingInfo};

use super::choice::ShownAs;
use super::input::InputEnd;
use super::records::RecordsEnd;
use super::{Import, Imported};
use crate::abi::sample_type;

impl<R: Read + Seek> Import<R> {
    pub(super) fn finish(self, end: Timestamp) -> Imported {
        let notes = self.notes();
        let has_none =
            self.output.samples == 0 && self.output.choice.shown(self.output.choice.event) == ShownAs::Samples;
        let instead = self.output.other_samples.keys().next().filter(|_| has_none);
        let instead = instead.map(|event| self.input.attrs.list[*event].label());
        let Import {
            input,
            output,
            zero,
            modified,
            ..
        } = self;
        let simpleperf = &input.features.simpleperf;
        let attr = &input.attrs.list[output.choice.event];
        let length = Duration::from_nanos(end.0 - zero);
        let wall = match input.features.clock {
            Some((wall_ns, clock_ns)) => {
                let wall_ns = i128::from(wall_ns) + i128::from(zero) - i128::from(clock_ns);
                let wall_ns = u64::try_from(wall_ns).unwrap_or_default();
                SystemTime::UNIX_EPOCH.checked_add(Duration::from_nanos(wall_ns))
            }
            // The last thing that happened is that the file was written.
            None => (simpleperf.fact("timestamp").and_then(|seconds| seconds.parse().ok()))
                .and_then(|seconds| SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds)))
                .or(modified)
                .and_then(|ended| ended.checked_sub(length)),
        };
        let interval_ns = match (attr.is_rate(), attr.period_or_rate) {
            (_, 0) => 0,
            (true, rate_hz) => 1_000_000_000 / rate_hz,
            (false, period) if attr.counts_cpu_time() => period,
            (false, _) => 0,
        };
        let (program, args) = match input.features.command.split_first() {
            // A command line of perf begins with perf's own.
            Some((program, args)) if input.features.is_spool() && !program.is_empty() => {
                (program.clone(), (!args.is_empty()).then(|| args.to_vec()))
            }
            _ => {
                let app = simpleperf.fact("app_package_name").map(str::to_owned);
                let program = output.program.or(app).unwrap_or_else(|| "perf.data".to_owned());
                (program, None)
            }
        };
        let mut host = input.features.host;
        host.os = simpleperf.system(host.os.as_deref()).or(host.os);
        Imported {
            info: RecordingInfo {
                events: output.named.infos,
                program,
                args,
                clock: ClockReference {
                    timestamp: Timestamp(zero),
                    wall: wall.unwrap_or(SystemTime::UNIX_EPOCH),
                },
                end,
                run_starts: match output.run_starts.len() {
                    0 | 1 => Vec::new(),
                    _ => output.run_starts,
                },
                whole_runs: None,
                interval_ns: interval_ns.max(1),
                event: attr.label(),
                unit: match attr.counts_cpu_time() || output.choice.shown(output.choice.event) != ShownAs::Samples {
                    true => PeriodUnit::CpuNanoseconds,
                    // Without a rate, the time that a sample stands for is not known.
                    false if attr.counts_cycles() && interval_ns > 0 => PeriodUnit::Cycles,
                    false => PeriodUnit::Counts,
                },
                kernel_included: !attr.excludes_kernel(),
                notes: Vec::new(),
                // What was lost is known at the end alone.
                heap: output.named.heap_interval.map(|interval| HeapCoverage {
                    interval,
                    longest_interval: interval,
                    blocks: output.blocks,
                    frees: output.frees,
                    ..HeapCoverage::default()
                }),
                host,
            },
            asked_rate_hz: if interval_ns > 0 { 1e9 / interval_ns as f64 } else { 0.0 },
            notes,
            instead,
            files: input.features.simpleperf.files,
        }
    }

    fn notes(&self) -> Vec<String> {
        let (input, output) = (&self.input, &self.output);
        let mut notes = Vec::new();
        match &input.ended {
            Some(InputEnd::At(RecordsEnd::CutOff(at))) => notes.push(format!(
                "the file is cut off: it ends at byte {at}, in the middle of a record; what came before it is shown"
            )),
            Some(InputEnd::At(RecordsEnd::Damaged(at))) => notes.push(format!(
                "the file is damaged at byte {at}; what came before it is shown"
            )),
            Some(InputEnd::Compressed(error)) => notes.push(format!(
                "the file is damaged: decompressing its records failed ({error}); what came before is shown"
            )),
            _ => {}
        }
        if input.is_unfinished {
            notes.push(
                "perf did not end properly: the file has no build ids, so binaries are only known by path and inode"
                    .into(),
            );
        }
        if input.without_times.is_some() {
            notes.push("the file has no times: its samples are shown 1 ms apart".into());
        }
        if input.features.is_spool() {
            notes.push(
                "this is what sprof had recorded when it was stopped; the CPU time that the kernel counted is not known"
                    .into(),
            );
        }
        if let Some(arch) = input.features.arch.as_deref().filter(|_| !output.can_unwind()) {
            notes.push(format!(
                "recorded on {arch}, for which sprof can't unwind: stacks are as far as the file has call chains"
            ));
        }
        if let Some(kind) = input.trace {
            notes.push(format!(
                "the file has a trace of {}, which sprof does not read: `perf inject --itrace=i100us -i perf.data -o \
                 samples.data` makes samples of it",
                trace_name(kind)
            ));
        }
        let attr = &input.attrs.list[output.choice.event];
        if !attr.has(sample_type::CALLCHAIN) && output.samples > 0 {
            notes.push("recorded without call graphs (perf record -g): each stack is one function".into());
        }
        if output.switches_left_out > 0 {
            notes.push(format!(
                "{} switches of threads are left out: waits are shown beside an event that measures time (--event)",
                output.switches_left_out
            ));
        }
        if output.waits_without_times > 0 {
            notes.push(format!(
                "perf record --off-cpu adds up the waits of a thread by stack: {} sums have no place in time, and stand \
                 after the thread's last sample",
                output.waits_without_times
            ));
        }
        for (event, samples) in &output.other_samples {
            let name = input.attrs.list[*event].label();
            notes.push(match samples {
                1 => format!("1 sample of the event {name} is left out; --event {name} shows it"),
                _ => format!("{samples} samples of the event {name} are left out; --event {name} shows them"),
            });
        }
        notes
    }
}

/// `enum auxtrace_type` of tools/perf/util/auxtrace.h.
fn trace_name(kind: u32) -> &'static str {
    const NAMES: [&str; 6] = [
        "Intel PT (intel_pt)",
        "Intel BTS (intel_bts)",
        "Arm CoreSight (cs_etm)",
        "Arm SPE (arm_spe)",
        "the s390 sampling facility (s390_cpumsf)",
        "HiSilicon PTT (hisi_ptt)",
    ];
    let at = usize::try_from(kind).ok().and_then(|kind| kind.checked_sub(1));
    at.and_then(|at| NAMES.get(at)).copied().unwrap_or("the processor")
}
