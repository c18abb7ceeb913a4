//! Options and signals that every session has.

use std::path::Path;

use recording::clock::{ClockReference, Timestamp};
use recording::info::{PeriodUnit, RecordingInfo};
use recording::session::{RecordError, RecordOptions, RecordTarget};

use crate::heap::HeapRecorder;
use crate::spans::{SamplingSwitch, SpanSocket};

use crate::machine::cpus;
use crate::machine::host;
use crate::sys::signals::Signals;

/// The user's options, and the signals that may end the recording.
#[derive(Debug)]
pub(super) struct SessionParts {
    pub(super) options: RecordOptions,
    pub(super) signals: Signals,
    /// `None` if the heap is not recorded.
    pub(super) heap: Option<HeapRecorder>,
    /// `None`: programs do not send spans by themselves.
    pub(super) spans: Option<SpanSocket>,
}

impl SessionParts {
    /// Takes over SIGINT, SIGTERM and SIGHUP. Call it from the only thread.
    pub(super) fn new(options: &RecordOptions) -> Result<SessionParts, RecordError> {
        let signals = Signals::block()
            .map_err(|error| RecordError::Failed(format!("cannot take over signals (signalfd): {error}")))?;
        Ok(SessionParts {
            options: options.clone(),
            signals,
            heap: None,
            spans: None,
        })
    }

    /// Who may pause and resume the recording.
    pub(super) fn sampling_switch(&self) -> SamplingSwitch {
        if self.options.target == RecordTarget::WholeMachine {
            SamplingSwitch::Nobody("no program may leave others out of a recording of the whole machine")
        } else if self.options.heap.is_some() {
            SamplingSwitch::Nobody(
                "with --heap, blocks that are taken in a pause would be missing where they are freed",
            )
        } else {
            let begins_paused = self.options.paused;
            SamplingSwitch::Programs { begins_paused }
        }
    }

    /// Longest duration of the recording, ns; `None` without a limit.
    pub(super) fn duration_ns(&self) -> Option<u64> {
        let duration = self.options.duration?;
        Some(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }

    /// The facts of a recording with ptrace; a recording with perf_event replaces some. `names`: names of attached
    /// processes.
    pub(super) fn info(
        &self,
        clock: ClockReference,
        end: Timestamp,
        names: Option<String>,
        rate_hz: f64,
    ) -> RecordingInfo {
        let mut words = (self.options.command.iter()).map(|word| word.to_string_lossy().into_owned());
        let command = words.next().unwrap_or_default();
        let program = Path::new(&command)
            .file_name()
            .map(|name| name.to_string_lossy().into_owned());
        RecordingInfo {
            program: names.or(program).unwrap_or(command),
            args: self.options.include_args.then(|| words.collect()),
            clock,
            end,
            run_starts: Vec::new(),
            whole_runs: None,
            interval_ns: (1e9 / rate_hz).round() as u64,
            event: "ptrace".to_owned(),
            unit: PeriodUnit::CpuNanoseconds,
            kernel_included: false,
            notes: Vec::new(),
            events: Vec::new(),
            heap: self.heap.as_ref().map(HeapRecorder::coverage_so_far),
            host: host::describe(cpus::online(Path::new("/")).map_or(0, |cpus| cpus.len())),
        }
    }
}
