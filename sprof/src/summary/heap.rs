//! The summary's lines about the heap: how much of it was seen.

use std::collections::BTreeMap;

use profile::text::numbers::{bytes, count, grouped};
use profile::text::{heap_growth_text, one_line};
use recording::heap::{HeapCoverage, UnseenProgram};
use serde_json::{Value, json};

use crate::terminal::Term;
use crate::terminal::style::Style;

/// Most programs in a line.
const NAMED: usize = 5;

/// Prints the lines for the terminal.
pub(crate) fn print(coverage: &HeapCoverage, term: &Term) {
    term.detail(recorded(coverage));
    if let Some(seen) = { coverage.growth }.and_then(heap_growth_text) {
        term.detail(seen);
    }
    for line in missing(coverage) {
        term.detail(term.style(Style::Warning, line));
    }
}

/// What was recorded. A 0 is a statement.
fn recorded(coverage: &HeapCoverage) -> String {
    let mut line = format!(
        "heap: {} of {} recorded, 1 byte in {} chosen",
        count(coverage.blocks, "block", "blocks"),
        count(coverage.programs, "program", "programs"),
        grouped(coverage.interval.max(1)),
    );
    if coverage.longest_interval > coverage.interval {
        line.push_str(&format!(
            " (up to {} where blocks came fast)",
            grouped(coverage.longest_interval)
        ));
    }
    line.push_str(&match coverage.lost {
        Some(lost) if lost.blocks > 0 => format!(", {} lost", grouped(lost.blocks)),
        Some(_) => ", none lost".to_owned(),
        None => "; the recording was cut short, so what was lost is not known".to_owned(),
    });
    for linked in &coverage.linked {
        line.push_str(&format!(
            "; {} in {} by {}",
            linked.allocators,
            one_line(&linked.program),
            count(linked.functions, "function", "functions")
        ));
    }
    if coverage.silent > 0 {
        line.push_str(&format!(
            "; no block came of {}, which took too little for a sample or could not reach sprof",
            count(coverage.silent, "further program", "further programs")
        ));
    }
    line
}

/// What was not, a line for each reason.
fn missing(coverage: &HeapCoverage) -> Vec<String> {
    let mut lines = Vec::new();
    let lost = coverage.lost.unwrap_or_default();
    if lost.blocks > 0 {
        lines.push(format!(
            "{} lost, which {} for {}: the program's ring was full; a longer --heap-interval loses less",
            count(lost.blocks, "recorded block was", "recorded blocks were"),
            if lost.blocks == 1 { "stands" } else { "stand" },
            bytes(lost.bytes as f64)
        ));
    }
    let not_freed = lost.frees.saturating_add(lost.untracked);
    if not_freed > 0 {
        lines.push(format!(
            "the free of {} was not recorded: they look as if they were never freed",
            count(not_freed, "block", "blocks")
        ));
    }
    if lost.unknown > 0 {
        lines.push(format!(
            "{} left out, {} in all: of processes or threads whose start the recording does not have",
            count(lost.unknown, "recorded block was", "recorded blocks were"),
            bytes(lost.unknown_bytes as f64)
        ));
    }
    if lost.refused > 0 {
        lines.push(format!(
            "{} of the heap made no sense, and {} left out",
            count(lost.refused, "message", "messages"),
            if lost.refused == 1 { "was" } else { "were" }
        ));
    }
    for linked in coverage.linked.iter().filter(|linked| !linked.left_out.is_empty()) {
        let named: Vec<String> = linked
            .left_out
            .iter()
            .take(NAMED)
            .map(|entry| one_line(entry).into_owned())
            .collect();
        lines.push(format!(
            "{} of {} in {} not seen: {}",
            count(linked.left_out.len() as u64, "function", "functions"),
            linked.allocators,
            one_line(&linked.program),
            named.join("; ")
        ));
    }
    let mut by_cause: BTreeMap<_, Vec<&UnseenProgram>> = BTreeMap::new();
    for program in &coverage.unseen {
        by_cause.entry(&program.cause).or_default().push(program);
    }
    for (cause, programs) in by_cause {
        let named = { programs.iter().take(NAMED) }
            .map(|program| format!("{} ({})", one_line(&program.name), program.pid.0))
            .collect::<Vec<_>>()
            .join("; ");
        let more = match programs.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!("; and {} more", grouped(more as u64)),
        };
        let extent = if cause.is_partial() {
            "recorded in part"
        } else {
            "not recorded"
        };
        lines.push(format!("heap {extent}: {named}{more}: {}", cause.label()));
    }
    if coverage.unseen_more > 0 {
        let more = count(coverage.unseen_more, "further program", "further programs");
        lines.push(format!("heap not recorded: {more}"));
    }
    lines
}

/// The same as JSON.
pub(crate) fn to_json(coverage: &HeapCoverage) -> Value {
    let unseen = coverage
        .unseen
        .iter()
        .map(|program| json!({"pid": program.pid.0, "name": program.name, "cause": program.cause.label()}));
    json!({
        "interval": coverage.interval,
        "longest_interval": coverage.longest_interval,
        "programs": coverage.programs,
        "blocks": coverage.blocks,
        "frees": coverage.frees,
        "lost": coverage.lost.map(|lost| json!({
            "blocks": lost.blocks,
            "bytes": lost.bytes,
            "frees": lost.frees,
            "untracked": lost.untracked,
            "unknown": lost.unknown,
            "unknown_bytes": lost.unknown_bytes,
            "refused": lost.refused,
        })),
        "linked": coverage.linked.iter().map(|linked| json!({
            "program": linked.program,
            "allocators": linked.allocators,
            "functions": linked.functions,
            "left_out": linked.left_out,
        })).collect::<Vec<_>>(),
        "unseen": unseen.collect::<Vec<_>>(),
        "unseen_more": coverage.unseen_more,
        "silent": coverage.silent,
        "growth": coverage.growth.map(|growth| json!({
            "seen": growth.seen,
            "grown": growth.grown,
            "processes": growth.processes,
            "unmeasured": growth.unmeasured,
        })),
    })
}

#[cfg(test)]
mod tests {
    use recording::event::Pid;
    use recording::heap::{HeapLoss, LinkedAllocator, UnseenCause};

    use super::*;

    #[test]
    fn what_was_seen_and_what_was_not_is_said() {
        let whole = HeapCoverage {
            interval: 512 << 10,
            longest_interval: 512 << 10,
            programs: 3,
            blocks: 5120,
            frees: 5000,
            lost: Some(HeapLoss::default()),
            ..HeapCoverage::default()
        };
        assert_eq!(
            recorded(&whole),
            "heap: 5,120 blocks of 3 programs recorded, 1 byte in 524,288 chosen, none lost"
        );
        assert_eq!(missing(&whole), [""; 0]);
        let unseen = |pid, name: &str, cause| UnseenProgram {
            pid: Pid(pid),
            name: name.into(),
            cause,
        };
        let lacking = HeapCoverage {
            longest_interval: 1 << 20,
            lost: Some(HeapLoss {
                blocks: 2,
                bytes: 2_000_000,
                frees: 1,
                untracked: 1,
                unknown: 3,
                unknown_bytes: 3_000_000,
                refused: 1,
            }),
            unseen: vec![
                unseen(7, "busybox", UnseenCause::Static),
                unseen(8, "su\t", UnseenCause::SetUserId),
                unseen(9, "busybox", UnseenCause::Static),
                unseen(10, "redis-server", UnseenCause::OwnNew("jemalloc")),
            ],
            linked: vec![LinkedAllocator {
                program: "server".into(),
                allocators: "jemalloc".into(),
                functions: 9,
                left_out: vec!["_rjem_xallocx, it makes a block longer where the block is".into()],
            }],
            unseen_more: 4,
            silent: 2,
            ..whole
        };
        assert_eq!(
            recorded(&lacking),
            "heap: 5,120 blocks of 3 programs recorded, 1 byte in 524,288 chosen (up to 1,048,576 where blocks came fast), 2 lost; \
             jemalloc in server by 9 functions; no block came of 2 further programs, which took too little for a sample or could not reach sprof"
        );
        assert_eq!(
            missing(&lacking),
            [
                "2 recorded blocks were lost, which stand for 2.0 MB: the program's ring was full; a longer --heap-interval loses less",
                "the free of 2 blocks was not recorded: they look as if they were never freed",
                "3 recorded blocks were left out, 3.0 MB in all: of processes or threads whose start the recording does not have",
                "1 message of the heap made no sense, and was left out",
                "1 function of jemalloc in server not seen: _rjem_xallocx, it makes a block longer where the block is",
                "heap not recorded: busybox (7); busybox (9): static: --heap=patch sees it on x86_64 if sprof itself starts it, \
                 and its file has the names of malloc and free (not after strip); linked dynamically, its calls of malloc are seen",
                "heap not recorded: su  (8): set-user-ID, or its file has capabilities",
                "heap recorded in part: redis-server (10): what C++ code takes by jemalloc's own operator new is not seen",
                "heap not recorded: 4 further programs",
            ]
        );
    }
}
