//! What every session needs.

use std::path::Path;

use recording::clock::{ClockReference, Timestamp};
use recording::info::{PeriodUnit, RecordingInfo};
use recording::session::{RecordError, RecordOptions, RecordTarget};

use crate::processes::host::Host;

/// Refuses options that macOS has no way for, before anything runs.
pub(super) fn check(options: &RecordOptions) -> Result<(), RecordError> {
    let refused = |message: &str| Err(RecordError::Failed(message.to_owned()));
    if options.target == RecordTarget::WholeMachine {
        return refused(
            "cannot record the whole machine: macOS gives access to one process at a time, and to its own programs not at all; name \
             processes with -p",
        );
    }
    if let Some(event) = options.events.first() {
        return Err(RecordError::Failed(format!(
            "cannot record {event}: macOS has no events like those of Linux; without -e there is a profile of CPU time"
        )));
    }
    if let Some(span) = options.spans.first() {
        return Err(RecordError::Failed(format!(
            "cannot record --span {}: macOS gives no breakpoints to sprof; without --span there is a profile of CPU time",
            span.name
        )));
    }
    if options.heap.is_some() {
        return Err(RecordError::Failed(
            "cannot record the heap: that is possible on Linux only; without --heap there is a profile of CPU time"
                .to_owned(),
        ));
    }
    Ok(())
}

/// The facts of a recording, which ends at `end`. `names`: the names of attached processes.
pub(super) fn info(
    options: &RecordOptions,
    host: &impl Host,
    clock: ClockReference,
    end: Timestamp,
    names: Option<String>,
) -> RecordingInfo {
    let mut words = options.command.iter().map(|word| word.to_string_lossy().into_owned());
    let command = words.next().unwrap_or_default();
    let program = Path::new(&command).file_name();
    let program = program.map(|name| name.to_string_lossy().into_owned());
    RecordingInfo {
        program: names.or(program).unwrap_or(command),
        args: options.include_args.then(|| words.collect()),
        clock,
        end,
        run_starts: Vec::new(),
        whole_runs: None,
        interval_ns: interval_ns(options),
        event: "mach".to_owned(),
        unit: PeriodUnit::CpuNanoseconds,
        kernel_included: false,
        notes: Vec::new(),
        events: Vec::new(),
        heap: None,
        host: host.describe(),
    }
}

/// From one tick to the next, ns.
pub(super) fn interval_ns(options: &RecordOptions) -> u64 {
    (1e9 / options.rate_hz).round().max(1.0) as u64
}

/// When a recording ends that started at `start_ns`, ns on its clock. `None` if its duration is not limited.
pub(super) fn deadline_ns(options: &RecordOptions, start_ns: u64) -> Option<u64> {
    let duration_ns = u64::try_from(options.duration?.as_nanos()).unwrap_or(u64::MAX);
    Some(start_ns.saturating_add(duration_ns))
}
