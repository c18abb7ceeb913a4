//! The summary's lines about waits. Their shares are of the off-CPU time of threads; shares of the hottest functions
//! are of samples on a CPU. The two are never mixed.

use profile::WaitTotals;
use profile::text::numbers::{count, grouped, seconds};
use profile::view::WaitPlace;
use recording::wait::{WaitGuess, WaitReason};
use serde_json::{Value, json};

use crate::terminal::Term;
use crate::terminal::columns;
use crate::terminal::style::Style;

/// Share of the time in waits with a stack of another wait, from which on the summary warns.
const GUESSED_PERCENT: f64 = 1.0;

/// CPU time and waits together, as a part of the time, from which on the summary mentions it: some 100,000 switches a
/// second. A switch takes a microsecond. The kernel counts it as CPU time of the next thread, and switch records count
/// it as waiting of that thread. Waits are not cut: only records of all tasks would show which thread had the CPU
/// before.
const COUNTED_TWICE: f64 = 1.02;

/// Columns of a function's name.
const NAME_COLUMNS: usize = 60;

pub(crate) fn print(waits: &WaitTotals, places: &[WaitPlace], term: &Term) {
    let (all, cpu, blocked) = (waits.all(), waits.of(WaitReason::Cpu), waits.blocked());
    term.detail(format_args!(
        "off-CPU {} of thread time in {}: {} waiting for a CPU, {} blocked",
        seconds(all.ns),
        count(all.count, "wait", "waits"),
        seconds(cpu.ns),
        seconds(blocked.ns),
    ));
    let place_name = |place: &WaitPlace| {
        let function = place.function.as_deref().unwrap_or("(no stack)");
        let guess = if place.guessed { " (in part a guess)" } else { "" };
        format!(
            "{}: {}{guess}",
            place.reason.name(),
            columns::function(function, NAME_COLUMNS)
        )
    };
    let names: Vec<String> = places.iter().map(place_name).collect();
    let widest = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    for (place, name) in places.iter().zip(&names) {
        term.detail(format_args!(
            "{:5.1} %  {name:widest$}  {}",
            share(place.ns, all.ns),
            term.style(Style::Dim, place.lib.as_deref().unwrap_or_default()),
        ));
    }
    for line in doubts(waits) {
        term.detail(term.style(Style::Warning, line));
    }
}

/// Limits of the figures, a line each.
fn doubts(waits: &WaitTotals) -> Vec<String> {
    let all = waits.all().ns;
    let mut lines = Vec::new();
    for (guess, text) in [
        (WaitGuess::OtherWait, "have the stack of another wait of their thread"),
        (WaitGuess::LastOnCpu, "have the last on-CPU stack of their thread"),
        (WaitGuess::NotSampled, "have no stack"),
    ] {
        let sum = waits.guessed(guess);
        let percent = share(sum.ns, all);
        if sum.count > 0 && (percent >= GUESSED_PERCENT || guess == WaitGuess::NotSampled) {
            lines.push(format!(
                "{} ({percent:.1} % of the time) {text}",
                count(sum.count, "wait", "waits")
            ));
        }
    }
    if let Some(share) = waits.accounted_share().filter(|share| *share > COUNTED_TWICE) {
        lines.push(format!(
            "CPU time and waits are {:.1} % of the time: a switch between threads counts as both",
            100.0 * share
        ));
    }
    if waits.never_ran > 0 {
        lines.push(format!(
            "{} waited all the time and are left out",
            count(waits.never_ran, "thread", "threads")
        ));
    }
    if waits.unpaired > 0 {
        lines.push(format!(
            "{} waits are left out: their beginning or their end was lost",
            grouped(waits.unpaired)
        ));
    }
    lines
}

/// The waits as JSON.
pub(crate) fn to_json(waits: &WaitTotals, places: &[WaitPlace]) -> Value {
    let sum = |sum: profile::WaitSum| json!({"waits": sum.count, "time_s": sum.ns as f64 / 1e9});
    let reasons: serde_json::Map<String, Value> = (WaitReason::ALL.into_iter())
        .filter(|reason| waits.of(*reason).count > 0)
        .map(|reason| (reason_key(reason).to_owned(), sum(waits.of(reason))))
        .collect();
    let longest: Vec<Value> = (places.iter())
        .map(|place| {
            json!({
                "reason": reason_key(place.reason),
                "function": place.function,
                "library": place.lib,
                "time_s": place.ns as f64 / 1e9,
                "guessed": place.guessed,
            })
        })
        .collect();
    json!({
        "all": sum(waits.all()),
        "by_reason": reasons,
        "longest": longest,
        "stack_of_other_wait": sum(waits.guessed(WaitGuess::OtherWait)),
        "stack_of_last_on_cpu": sum(waits.guessed(WaitGuess::LastOnCpu)),
        "stack_not_sampled": sum(waits.guessed(WaitGuess::NotSampled)),
        "accounted_share": waits.accounted_share(),
        "initial": waits.initial,
        "still_waiting": waits.still_waiting,
        "threads_that_never_ran": waits.never_ran,
        "left_out": waits.unpaired,
    })
}

fn reason_key(reason: WaitReason) -> &'static str {
    match reason {
        WaitReason::Cpu => "cpu",
        WaitReason::Sleep => "sleep",
        WaitReason::Lock => "lock",
        WaitReason::Io => "io",
        WaitReason::Channel => "pipe_or_socket",
        WaitReason::Poll => "poll",
        WaitReason::PageFault => "page_fault",
        WaitReason::Child => "child_process",
        WaitReason::Signal => "signal_or_stop",
        WaitReason::Other => "other",
        WaitReason::Unknown => "not_known",
    }
}

fn share(ns: u64, of: u64) -> f64 {
    100.0 * ns as f64 / of.max(1) as f64
}
