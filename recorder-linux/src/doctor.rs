//! `sprof doctor`: tries every backend, and reads what limits each.

use std::fs;

use recording::command::own;
use recording::doctor::{CheckState, Examination, Finding};
use recording::session::USUAL_STACK_BYTES;

use crate::machine::refusal::{self, PtraceRefusal};
use crate::open::events::Events;
use crate::open::{self, OpenError, OpenedEvents, Scope, WantedEvents};
use crate::probes;
use crate::sys::ptrace;
use crate::sys::signals::Signals;

/// The rate of `sprof record` if the user gives none.
const USUAL_RATE_HZ: f64 = 1000.0;

/// Finds out what this machine and this user may do. Opens events, maps rings, and traces a child for a moment: call it
/// from the only thread.
pub fn examine() -> Examination {
    let own_pid = i32::try_from(std::process::id()).unwrap_or(0);
    let wanted = WantedEvents {
        rate_hz: USUAL_RATE_HZ,
        stack_bytes: USUAL_STACK_BYTES,
        larger_stacks: false,
        larger_wait_stacks: false,
        off_cpu: false,
        switches: false,
        events: &Events::default(),
    };
    let opened = open::open(Scope::OnExec, own_pid, &wanted);
    let mut limits = vec![paranoid(&opened), counters(&opened)];
    limits.extend(rings(&opened));
    limits.push(hidden_addresses());
    limits.push(open::breakpoints::examine());
    limits.extend(probes::examine());
    Examination {
        ways: vec![with_kernel(&opened), user_only(&opened, own_pid), traced(&opened)],
        limits,
    }
}

/// A sentence for the user: the kernel leaves no thread stopped. When a tracer ends, the kernel releases what the
/// tracer stopped (exit_ptrace).
///
/// # Errors
///
/// None. On macOS this can fail.
pub fn resume(_pid: i32) -> Result<String, String> {
    Err("nothing stays stopped on Linux: the kernel resumes a program when its tracer ends".to_owned())
}

/// A sentence for the user: there is nothing to set up.
///
/// # Errors
///
/// None. On macOS this can fail.
pub fn set_up() -> Result<String, String> {
    Ok(format!(
        "there is nothing to set up on Linux; `{} doctor` shows what this machine permits",
        own()
    ))
}

type Tried = Result<OpenedEvents, OpenError>;

fn with_kernel(opened: &Tried) -> Finding {
    let works = |reason: &str| Finding::works("perf-kernel", "perf_event, with kernel functions", reason);
    match opened {
        Ok(opened) if opened.choice.counts_kernel() => works(""),
        Ok(_) => works(&format!(
            "this user may not sample the kernel{}",
            refusal::paranoid().map_or_else(String::new, |level| format!(": kernel.perf_event_paranoid is {level}"))
        ))
        .in_state(CheckState::Fails)
        .fixed_by([
            "sudo sysctl kernel.perf_event_paranoid=1".to_owned(),
            refusal::may_always(),
            "docker run --cap-add PERFMON ...".to_owned(),
        ]),
        Err(error) => refused(works(""), error),
    }
}

fn user_only(opened: &Tried, own_pid: i32) -> Finding {
    let finding = Finding::works("perf-user", "perf_event, user code only", "");
    match opened {
        Ok(opened) => match open::try_without_kernel(opened, own_pid) {
            Ok(()) => finding,
            Err(error) => finding.because(CheckState::Fails, error),
        },
        Err(error) => refused(finding, error),
    }
}

fn refused(finding: Finding, error: &OpenError) -> Finding {
    let finding = finding.because(CheckState::Fails, error);
    match error {
        OpenError::NoPerfEvents(refusal) => finding.fixed_by(refusal.commands()),
        _ => finding,
    }
}

fn traced(opened: &Tried) -> Finding {
    let finding = Finding::works(
        "ptrace",
        "ptrace, at 100 Hz",
        "stops a thread for each sample; no kernel functions",
    );
    // Then `sprof record` ends, and tries no ptrace.
    if let Err(error @ OpenError::Refused(_)) = opened {
        return finding.because(CheckState::Fails, error);
    }
    let failed =
        |refusal: PtraceRefusal| (finding.clone().because(CheckState::Fails, &refusal)).fixed_by([refusal.command()]);
    match Signals::block() {
        Ok(signals) => match ptrace::try_out(&signals) {
            Ok(()) => finding,
            Err((call, error)) => failed(PtraceRefusal::new(call, error)),
        },
        Err(error) => failed(PtraceRefusal::new("signalfd", error)),
    }
}

/// What this user may do, as tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum May {
    SampleKernel,
    SampleUserCode,
    Nothing,
}

fn paranoid(opened: &Tried) -> Finding {
    let may = match opened {
        Ok(opened) if opened.choice.counts_kernel() => May::SampleKernel,
        Ok(_) => May::SampleUserCode,
        Err(_) => May::Nothing,
    };
    let (title, (state, reason)) = match refusal::paranoid() {
        None => (
            "no kernel.perf_event_paranoid".to_owned(),
            (
                CheckState::Fails,
                "this kernel has no perf_event, or /proc is not mounted",
            ),
        ),
        Some(level) => (format!("kernel.perf_event_paranoid = {level}"), at_level(level, may)),
    };
    Finding::works("perf-event-paranoid", title, reason).in_state(state)
}

/// What the level means. Above 2 that depends on the kernel: Debian's, Ubuntu's and Android's refuse ordinary users,
/// the others know no such level (kernel/events/core.c compares with 1 and with 2 only).
fn at_level(level: i32, may: May) -> (CheckState, &'static str) {
    match (level, may) {
        (..=0, _) => (CheckState::Works, "everybody may sample everything"),
        (1, _) => (
            CheckState::Works,
            "ordinary users may sample their programs, and the kernel in them",
        ),
        (2, _) => (
            CheckState::Limited,
            "ordinary users may sample the user code of their programs",
        ),
        (_, May::SampleKernel) => (
            CheckState::Works,
            "no limit for this user; ordinary users are refused by kernels of Debian, Ubuntu and Android, and may sample the user code \
             of their programs on others",
        ),
        (_, May::SampleUserCode) => (
            CheckState::Limited,
            "this kernel takes it as 2: ordinary users may sample the user code of their programs",
        ),
        (_, May::Nothing) => (CheckState::Limited, "perf_event is refused to this user"),
    }
}

fn counters(opened: &Tried) -> Finding {
    match opened {
        Ok(opened) if opened.choice.hardware => {
            Finding::works("pmu", "hardware counters (PMU)", "cycles can be sampled")
        }
        Ok(_) => Finding::works(
            "pmu",
            "no hardware counters (PMU)",
            "the CPU clock samples instead, which is as good for time; usual in virtual machines",
        )
        .in_state(CheckState::Limited),
        Err(_) => Finding::works("pmu", "hardware counters (PMU)", "not known without perf_event")
            .in_state(CheckState::Limited),
    }
}

/// The rings as they were really mapped, for an ordinary recording.
fn rings(opened: &Tried) -> Option<Finding> {
    let opened = opened.as_ref().ok()?;
    let allowed = refusal::setting::<u64>("/proc/sys/kernel/perf_event_mlock_kb");
    let allowed = allowed.map_or_else(String::new, |kb| format!("; kernel.perf_event_mlock_kb = {kb}"));
    let title = format!(
        "rings of {} KiB for each of {} CPUs",
        opened.samples.usual.ring_bytes >> 10,
        opened.events.cpus().len()
    );
    let reason = format!("locked memory (ulimit -l): {}{allowed}", locked_memory());
    let finding = Finding::works("memlock", title, reason);
    Some(
        match opened.announcements.iter().any(|line| line.starts_with("rings of")) {
            false => finding,
            true => finding
                .in_state(CheckState::Limited)
                .fixed_by(["ulimit -l unlimited", "sudo sysctl kernel.perf_event_mlock_kb=8192"]),
        },
    )
}

/// The soft limit, `Max locked memory  8388608  8388608  bytes`.
fn locked_memory() -> String {
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max locked memory"));
    match line.and_then(|line| line.split_ascii_whitespace().next()) {
        Some("unlimited") => "unlimited".to_owned(),
        Some(bytes) => bytes
            .parse::<u64>()
            .map_or_else(|_| bytes.to_owned(), |bytes| format!("{} KiB", bytes >> 10)),
        None => "not known".to_owned(),
    }
}

fn hidden_addresses() -> Finding {
    let level = refusal::setting::<i32>("/proc/sys/kernel/kptr_restrict");
    let title = level.map_or("no kernel.kptr_restrict".to_owned(), |level| {
        format!("kernel.kptr_restrict = {level}")
    });
    let (state, reason) = match level {
        None | Some(..=0) => (
            CheckState::Works,
            "kernel addresses are shown to who may sample the kernel",
        ),
        Some(1) => (
            CheckState::Works,
            "kernel addresses are shown to root and who has CAP_SYSLOG",
        ),
        Some(_) => (
            CheckState::Limited,
            "kernel addresses are shown to nobody: kernel functions have no names",
        ),
    };
    let finding = Finding::works("kptr-restrict", title, reason).in_state(state);
    match state {
        CheckState::Works => finding,
        _ => finding.fixed_by(["sudo sysctl kernel.kptr_restrict=1"]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_level_contradicts_what_was_tried() {
        for level in 3..=4 {
            let (state, reason) = at_level(level, May::SampleUserCode);
            assert_eq!(state, CheckState::Limited);
            assert!(reason.contains("may sample the user code"), "{reason}");
            assert_eq!(at_level(level, May::SampleKernel).0, CheckState::Works);
            assert!(at_level(level, May::Nothing).1.contains("refused"));
        }
        assert_eq!(at_level(2, May::SampleUserCode).0, CheckState::Limited);
        assert_eq!(at_level(1, May::SampleKernel).0, CheckState::Works);
    }
}
