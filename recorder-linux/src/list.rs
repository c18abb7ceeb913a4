//! The events of this machine for `-e`, and which of them this user may record.

use std::fmt::Write as _;
use std::path::Path;

use crate::open::events::Counter;
use crate::open::events::pmu;
use crate::open::events::tracefs::{Tracepoints, matches};
use crate::open::has_hardware;
use crate::probes::ProbeList;
use crate::sys::perf_event::{Attr, EventFd, THIS_THREAD, flag};
use perf_data::events::CountedCode;
use perf_data::events::names::{self, EventSort};
use recording::command::own;
use recording::info::SampleBy;

/// Tracepoints are counted by group if more than this number match.
const MOST_SHOWN: usize = 2000;

/// The events whose names match the pattern, as text; all events if the pattern is empty. Tracepoints are listed one by
/// one for a pattern, else by group.
///
/// # Errors
///
/// No event matches. The text names the command that lists all.
pub fn list_events(pattern: &str) -> Result<String, String> {
    let root = Path::new("/");
    // A part of a name is enough.
    let pattern = match pattern.contains(['*', '?']) || pattern.is_empty() {
        true => pattern.to_owned(),
        false => format!("*{pattern}*"),
    };
    let wanted = |name: &str| pattern.is_empty() || matches(&pattern, name);
    let mut out = String::new();
    for (sort, title) in [
        (EventSort::Hardware, "hardware"),
        (EventSort::Cache, "cache"),
        (EventSort::Software, "software"),
    ] {
        section(&mut out, title, sort, &wanted);
    }
    pmus(&mut out, root, &wanted);
    probes(&mut out, &wanted);
    tracepoints(&mut out, root, &pattern, &wanted);
    match out.is_empty() {
        true => Err(format!(
            "no event matches `{}`; `{} record -e list` shows all",
            pattern.trim_matches('*'),
            own()
        )),
        false => Ok(out),
    }
}

/// The names of the events that can be recorded on this machine, but for probes and raw numbers.
pub fn event_names() -> Vec<String> {
    let root = Path::new("/");
    let opening = |(name, sort): &&(String, EventSort)| {
        (*sort == EventSort::Software || has_hardware()) && matches!(opens(name), Opens::Yes | Opens::UserOnly)
    };
    let mut all: Vec<String> = (names::all().iter().filter(opening))
        .map(|(name, _)| name.clone())
        .collect();
    if let Ok(tracefs) = Tracepoints::find(root) {
        for subsystem in tracefs.subsystems() {
            let events = tracefs.events(&subsystem);
            all.extend(events.iter().map(|event| format!("{subsystem}:{event}")));
        }
    }
    all
}

// Writing to a string does not fail.
macro_rules! say {
    ($out:expr, $($args:tt)*) => {{ let _ = writeln!($out, $($args)*); }};
}

fn section(out: &mut String, title: &str, sort: EventSort, wanted: &dyn Fn(&str) -> bool) {
    let events: Vec<&str> = (names::all().iter())
        .filter(|(name, of)| *of == sort && wanted(name))
        .map(|(name, _)| name.as_str())
        .collect();
    if events.is_empty() {
        return;
    }
    if sort != EventSort::Software && !has_hardware() {
        say!(
            out,
            "{title}: none, this machine has no hardware counters (virtual machine?)"
        );
        return;
    }
    say!(out, "{title}:");
    let mut missing = 0;
    for name in events {
        match opens(name) {
            Opens::Yes => say!(out, "  {name}"),
            Opens::UserOnly => say!(out, "  {name}  (user code only: perf_event_paranoid)"),
            Opens::InKernel => say!(
                out,
                "  {name}  (not for this user: perf_event_paranoid must be 1 or less, or root)"
            ),
            Opens::Missing => missing += 1,
            Opens::Refused(why) => say!(out, "  {name}  (not here: {why})"),
        }
    }
    if missing > 0 {
        say!(out, "  and {missing} that this CPU has no counter for");
    }
}

/// Probes have no list: any function is one.
fn probes(out: &mut String, wanted: &dyn Fn(&str) -> bool) {
    if wanted("kprobe") {
        match crate::probes::leftovers(ProbeList::Kprobes) {
            Ok(_) => say!(
                out,
                "probes in the kernel: FUNCTION is a name in /proc/kallsyms\n  kprobe:FUNCTION  kprobe:FUNCTION+OFFSET"
            ),
            Err(error) => say!(out, "probes in the kernel: none: {error}"),
        }
    }
    if wanted("breakpoint") {
        say!(
            out,
            "breakpoints in the recorded program, four at most, also for ordinary users\n  breakpoint:FUNCTION  breakpoint:FUNCTION+OFFSET"
        );
    }
    if !wanted("uprobe") && !wanted("usdt") {
        return;
    }
    match crate::probes::leftovers(ProbeList::Uprobes) {
        Ok(_) => {
            say!(
                out,
                "probes in programs: FILE is a path, or the name of a program or library"
            );
            say!(
                out,
                "  uprobe:FILE:FUNCTION  uprobe:FILE:FUNCTION+OFFSET  uprobe:FILE:0xOFFSET"
            );
            say!(out, "  usdt:FILE:PROVIDER:NAME  usdt:FILE:NAME");
        }
        Err(error) => say!(out, "probes in programs: none: {error}"),
    }
}

enum Opens {
    Yes,
    UserOnly,
    InKernel,
    Missing,
    Refused(std::io::Error),
}

/// Tries to open an event for this thread.
fn opens(name: &str) -> Opens {
    let Some(generic) = names::find(name) else {
        return Opens::Missing;
    };
    let counter = Counter {
        name: name.to_owned(),
        kind: generic.kind,
        configs: [generic.config, 0, 0],
        sides: CountedCode::BOTH,
        sample_by: SampleBy::Period(u32::MAX.into()),
        is_in_kernel: generic.is_in_kernel(),
        cpus: None,
    };
    let open = |flags: u64| {
        let attr = Attr {
            kind: counter.kind,
            config: counter.configs[0],
            sample_period_or_freq: u32::MAX.into(),
            flags: flags | flag::DISABLED | flag::EXCLUDE_HV | flag::EXCLUDE_GUEST,
            ..Attr::default()
        };
        EventFd::open(&attr, THIS_THREAD, 0)
    };
    match open(0) {
        Ok(_) => Opens::Yes,
        Err(error) => match error.raw_os_error() {
            Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP | libc::EINVAL) => Opens::Missing,
            Some(libc::EACCES | libc::EPERM) => match open(flag::EXCLUDE_KERNEL) {
                Ok(_) if counter.is_in_kernel => Opens::InKernel,
                Ok(_) => Opens::UserOnly,
                Err(error) => Opens::Refused(error),
            },
            _ => Opens::Refused(error),
        },
    }
}

fn pmus(out: &mut String, root: &Path, wanted: &dyn Fn(&str) -> bool) {
    let mut lines = Vec::new();
    // Those that have another notation, or none.
    const OTHERS: [&str; 6] = ["breakpoint", "kprobe", "msr", "software", "tracepoint", "uprobe"];
    for pmu in pmu::names(root)
        .into_iter()
        .filter(|pmu| !OTHERS.contains(&pmu.as_str()))
    {
        let events: Vec<String> = (pmu::events(root, &pmu).into_iter())
            .map(|event| format!("{pmu}/{event}/"))
            .filter(|name| wanted(name))
            .collect();
        let terms = pmu::terms(root, &pmu);
        if !events.is_empty() || wanted(&pmu) && !terms.is_empty() {
            lines.push(format!("  {pmu}/.../ with the terms: {}", terms.join(" ")));
            lines.extend(events.iter().map(|event| format!("    {event}")));
        }
    }
    if wanted("rNNN") && has_hardware() {
        lines.push("  rNNN  (the CPU's own number, hexadecimal)".to_owned());
    }
    if !lines.is_empty() {
        say!(out, "raw, by PMU:");
        lines.iter().for_each(|line| say!(out, "{line}"));
    }
}

fn tracepoints(out: &mut String, root: &Path, pattern: &str, wanted: &dyn Fn(&str) -> bool) {
    let tracefs = match Tracepoints::find(root) {
        Ok(tracefs) => tracefs,
        Err(why) => {
            if pattern.is_empty() || pattern.contains(':') {
                say!(out, "tracepoints: {why}");
            }
            return;
        }
    };
    let mut groups = Vec::new();
    let mut found: Vec<String> = Vec::new();
    for subsystem in tracefs.subsystems() {
        let events = tracefs.events(&subsystem);
        let names = (events.iter()).map(|event| format!("{subsystem}:{event}"));
        let names: Vec<String> = names.filter(|name| wanted(name)).collect();
        if !names.is_empty() {
            groups.push((subsystem, names.len()));
            found.extend(names);
        }
    }
    if found.is_empty() {
        return;
    }
    if pattern.is_empty() || found.len() > MOST_SHOWN {
        say!(
            out,
            "tracepoints: {} in {} groups; -e list:GROUP names those of a group",
            found.len(),
            groups.len()
        );
        for (group, count) in groups {
            say!(out, "  {group}:*  ({count})");
        }
        return;
    }
    say!(out, "tracepoints:");
    found.iter().for_each(|name| say!(out, "  {name}"));
}
