//! CPU time that was not recorded, by the kernel's own account: lines of the summary, and JSON.

use std::collections::BTreeMap;

use profile::text::numbers::{count, grouped, seconds};
use recording::command::own;
use recording::cpu_account::{CpuAccount, ProcessTime, UnrecordedCause};
use serde_json::{Value, json};

/// Most processes in a line.
const NAMED: usize = 5;

/// The lines; none if nothing is missing. `recorded_ns` is the CPU time with events.
pub(crate) fn lines(account: &CpuAccount, recorded_ns: Option<u64>) -> Vec<String> {
    let mut lines = Vec::new();
    let mut by_cause: BTreeMap<UnrecordedCause, Vec<&ProcessTime>> = BTreeMap::new();
    for process in &account.unrecorded {
        if let Some(cause) = process.cause {
            by_cause.entry(cause).or_default().push(process);
        }
    }
    for (cause, processes) in by_cause {
        let more = processes.len().saturating_sub(NAMED) as u64;
        let names = names(&processes, more, ", at least");
        lines.push(format!("not recorded: {names}: {}", reason(cause)));
    }
    if account.unrecorded_more > 0 {
        let more = count(account.unrecorded_more, "further process was", "further processes were");
        lines.push(format!("{more} not recorded"));
    }
    if account.unrecorded_ns > 0 {
        let cause = match account.unrecorded.is_empty() {
            true => "; the cause is not known",
            false => "",
        };
        lines.push(match account.accounted_ns {
            Some(ns) => format!(
                "the kernel accounts {} of CPU time to the program, and {} of it was recorded{cause}",
                seconds(ns),
                seconds(recorded_ns.unwrap_or(0).min(ns))
            ),
            None => format!(
                "at least {} of CPU time was not recorded{cause}",
                seconds(account.unrecorded_ns)
            ),
        });
    }
    if let Some(first) = account.left_running.first() {
        let processes: Vec<&ProcessTime> = account.left_running.iter().collect();
        let more = account.left_running_more + (processes.len().saturating_sub(NAMED)) as u64;
        lines.push(format!(
            "still running, and no longer recorded: {}; `{} record -p {}` records such a process",
            names(&processes, more, ""),
            own(),
            first.pid.0
        ));
    }
    lines
}

fn reason(cause: UnrecordedCause) -> String {
    match cause {
        UnrecordedCause::UndumpableExec => format!(
            "the kernel ends the events of a process that executes a program with other rights (set-user-ID, capabilities), or one \
             that may not be read; `sudo {} record -a` records it",
            own()
        ),
        UnrecordedCause::OtherUser => "of another user; run sprof as root".to_owned(),
    }
}

/// `su (123), at least 1.20 s; sudo (124), and 3 more`.
fn names(processes: &[&ProcessTime], more: u64, at_least: &str) -> String {
    let named = processes.iter().take(NAMED).map(|process| {
        let time = match process.cpu_ns {
            Some(ns) if ns > 0 && !at_least.is_empty() => format!("{at_least} {}", seconds(ns)),
            _ => String::new(),
        };
        let name: String = process
            .name
            .chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect();
        format!("{name} ({}){time}", process.pid.0)
    });
    let mut text = named.collect::<Vec<_>>().join("; ");
    if more > 0 {
        text.push_str(&format!("; and {} more", grouped(more)));
    }
    text
}

/// The unrecorded CPU time as JSON.
pub(crate) fn to_json(account: &CpuAccount) -> Value {
    let seconds = |ns: u64| ns as f64 / 1e9;
    let list = |processes: &[ProcessTime]| -> Vec<Value> {
        (processes.iter())
            .map(|process| {
                json!({
                    "pid": process.pid.0,
                    "name": process.name,
                    "cpu_time_s": process.cpu_ns.map(seconds),
                    "cause": process.cause.map(|cause| match cause {
                        UnrecordedCause::UndumpableExec => "undumpable_exec",
                        UnrecordedCause::OtherUser => "other_user",
                    }),
                })
            })
            .collect()
    };
    json!({
        "kernel_cpu_time_s": account.accounted_ns.map(seconds),
        "unrecorded_cpu_time_s": seconds(account.unrecorded_ns),
        "unrecorded": list(&account.unrecorded),
        "unrecorded_more": account.unrecorded_more,
        "left_running": list(&account.left_running),
        "left_running_more": account.left_running_more,
    })
}
