//! The lines of the text: the first line of a sample, and its frames.

/// Stands for the event of `DEFERRED CALLCHAIN [cookie: 600000001]`, of --no-merge-callchains: not a sample.
pub(super) const DEFERRED_CALL_CHAIN: &str = "PERF_RECORD_CALLCHAIN_DEFERRED";

/// True if these bytes begin with a sample, or with the header of `perf script --header`.
pub(in super::super) fn is_perf_script(start: &[u8]) -> bool {
    // perf_session__fprintf_info, tools/perf/util/session.c.
    if start.starts_with(b"# ========\n# captured on") {
        return true;
    }
    let lines = start.split_inclusive(|byte| *byte == b'\n');
    let mut lines = lines.skip_while(|line| line.trim_ascii().is_empty() || line.starts_with(b"#"));
    let mut line = || {
        let line = lines.next().filter(|line| line.ends_with(b"\n"))?;
        Some(String::from_utf8_lossy(line).trim_end().to_owned())
    };
    let (Some(first), second) = (line(), line()) else {
        return false;
    };
    if head(&first).is_some() || is_whole(&head_without_time(&first)) {
        return true;
    }
    // Without times, the frame below shows that this is a sample. `-F ip,sym` leaves nothing but frames.
    let is_frame = |line: &str| is_indented(line) && frame(line).is_some_and(|frame| !frame.name.is_empty());
    is_frame(&first) || !is_indented(&first) && second.is_some_and(|second| is_frame(&second))
}

/// True for the lines below the first line of a sample, which itself may be padded with spaces.
pub(super) fn is_indented(line: &str) -> bool {
    line.starts_with('\t')
}

/// The first line of a sample. `-F` may leave any field out.
#[derive(Debug, Default)]
pub(super) struct SampleHead<'a> {
    /// Empty without `comm`.
    pub(super) name: &'a str,
    /// `None` without `pid`.
    pub(super) pid: Option<&'a str>,
    /// Empty without `tid`.
    pub(super) tid: &'a str,
    pub(super) time_ns: Option<u64>,
    pub(super) period: Option<u64>,
    /// Empty without `event`.
    pub(super) event: &'a str,
    /// The only frame of a sample without a call chain; the fields of a tracepoint.
    pub(super) rest: &'a str,
}

/// `name [PID/]TID [CPU] SECONDS.FRACTION: [PERIOD] EVENT: ...`. The time identifies it, because thread names have any
/// characters.
pub(super) fn head(line: &str) -> Option<SampleHead<'_>> {
    colons(line).find_map(|(before, after)| {
        let (before, time) = split_last(before);
        let thread = thread(before);
        let (period, event, rest) = period_and_event(after)?;
        // Other texts also have numbers before a colon. perf prints six or nine decimals.
        let is_whole = !thread.name.is_empty() && !thread.tid.is_empty() && !event.is_empty();
        let has_decimals = || {
            time.split_once('.')
                .is_some_and(|(_, decimals)| matches!(decimals.len(), 6 | 9))
        };
        (is_whole || has_decimals()).then_some(SampleHead {
            time_ns: Some(time_ns(time)?),
            period,
            event,
            rest,
            ..thread
        })
    })
}

/// The first line of a sample without a time. Only the frames below prove that it is one.
pub(super) fn head_without_time(line: &str) -> SampleHead<'_> {
    let found = colons(line).find_map(|(before, after)| {
        // `app 4100 1000000 cycles:u:`, `app 4100 sched:sched_switch: prev_comm=app ...`.
        let before = before.trim_end();
        let event = split_last(before).1;
        let (before, period) = with_period(&before[..before.len() - event.len()]);
        let thread = thread(before);
        let rest = after.trim();
        (rest.is_empty() || !thread.tid.is_empty()).then_some(SampleHead {
            period,
            event,
            rest,
            ..thread
        })
    });
    found.unwrap_or_else(|| in_one_line(line).unwrap_or_else(|| thread(line)))
}

/// `app 4100 55d0c0de1149 leaf`, without event and call chain: the number of the thread, then an address.
fn in_one_line(line: &str) -> Option<SampleHead<'_>> {
    /// Addresses of code are longer than numbers of threads.
    const ADDRESS_DIGITS: usize = 6;
    let mut before = 0;
    while let Some((word, rest)) = first_word(&line[before..]) {
        let at = line.len() - rest.len();
        let address = first_word(rest).map_or("", |(address, _)| address);
        let is_address = address.len() >= ADDRESS_DIGITS && address.bytes().all(|digit| digit.is_ascii_hexdigit());
        if is_address && (is_ids(word) || is_cpu(word)) {
            let thread = thread(&line[..at]);
            return (!thread.tid.is_empty()).then_some(SampleHead {
                rest: rest.trim(),
                ..thread
            });
        }
        before = at;
    }
    None
}

/// True if a line is a whole sample.
pub(super) fn is_whole(head: &SampleHead<'_>) -> bool {
    let is_found = |frame: FrameLine<'_>| !frame.file.is_empty() || head.event.is_empty() && !frame.name.is_empty();
    !head.tid.is_empty() && frame(head.rest).is_some_and(is_found)
}

/// What stands before and behind each colon that ends a word.
fn colons(line: &str) -> impl Iterator<Item = (&str, &str)> {
    let ends = line.match_indices(':').map(|(at, _)| (&line[..at], &line[at + 1..]));
    ends.filter(|(_, after)| after.chars().next().is_none_or(char::is_whitespace))
}

/// Takes the period off the end: a number behind the thread's number, or a number padded to ten characters.
fn with_period(before: &str) -> (&str, Option<u64>) {
    const PERIOD_WIDTH: usize = 10;
    let before = before.trim_end();
    let (rest, word) = split_last(before);
    let padded = before.len() - before[..before.len() - word.len()].trim_end().len();
    let is_padded = padded > PERIOD_WIDTH || rest.is_empty() && padded == PERIOD_WIDTH;
    let previous = split_last(rest).1;
    match word.parse() {
        Ok(period) if is_padded || is_ids(previous) || is_cpu(previous) => (rest, Some(period)),
        _ => (before, None),
    }
}

/// `name [PID/]TID [CPU]`. Each part may be missing.
fn thread(text: &str) -> SampleHead<'_> {
    let (rest, last) = split_last(text);
    let text = if is_cpu(last) { rest } else { text.trim() };
    let (name, ids) = split_last(text);
    let (pid, tid) = match ids.split_once('/') {
        Some((pid, tid)) => (Some(pid), tid),
        None => (None, ids),
    };
    let known = SampleHead::default();
    match is_ids(ids) {
        true => SampleHead {
            name,
            pid,
            tid,
            ..known
        },
        false => SampleHead { name: text, ..known },
    }
}

fn is_cpu(text: &str) -> bool {
    let number = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    number.is_some_and(is_number)
}

/// `PID/TID`, or one number. perf prints -1 for threads that have exited.
fn is_ids(text: &str) -> bool {
    let is_id = |id: &str| is_number(id.strip_prefix('-').unwrap_or(id));
    match text.split_once('/') {
        Some((pid, tid)) => is_id(pid) && is_id(tid),
        None => is_id(text),
    }
}

/// `[PERIOD] EVENT: ...` behind a time, or the only frame of a sample without an event; `None` for anything else.
fn period_and_event(after: &str) -> Option<(Option<u64>, &str, &str)> {
    let period = first_word(after).and_then(|(word, rest)| Some((word.parse().ok()?, rest)));
    let (period, rest) = period.map_or((None, after), |(period, rest)| (Some(period), rest));
    let Some((word, rest)) = first_word(rest) else {
        return Some((period, "", ""));
    };
    match word.strip_suffix(':') {
        Some(event) => Some((period, event, rest.trim())),
        // Lines of --show-mmap-events and similar options.
        None if word.starts_with("PERF_RECORD_") => Some((period, word, rest.trim())),
        None if word == "DEFERRED" => Some((period, DEFERRED_CALL_CHAIN, "")),
        None => {
            let is_frame = frame(after).is_some_and(|frame| !frame.file.is_empty());
            is_frame.then_some((None, "", after.trim()))
        }
    }
}

/// The last word, and what stands before it; both without white space around them.
fn split_last(text: &str) -> (&str, &str) {
    let text = text.trim();
    match text.rfind(char::is_whitespace) {
        Some(at) => (text[..at].trim_end(), text[at..].trim_start()),
        None => ("", text),
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn first_word(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start();
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

/// Seconds with six or nine decimals.
fn time_ns(text: &str) -> Option<u64> {
    let (seconds, fraction) = text.split_once('.')?;
    if !is_number(seconds) || !is_number(fraction) || fraction.len() > 9 {
        return None;
    }
    let scale = 10u64.pow(9 - fraction.len() as u32);
    let ns = fraction.parse::<u64>().ok()? * scale;
    seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(ns)
}

/// A frame: the function's name and its file.
pub(super) struct FrameLine<'a> {
    pub(super) name: &'a str,
    pub(super) file: &'a str,
}

/// `ADDRESS NAME[+0xOFFSET] (FILE)`; `-F` may drop everything after the address.
pub(super) fn frame(line: &str) -> Option<FrameLine<'_>> {
    let (address, rest) = first_word(line)?;
    let digits = address.strip_prefix("0x").unwrap_or(address);
    u64::from_str_radix(digits, 16).ok()?;
    let rest = rest.trim();
    // The suffix of a path whose file was replaced while mapped.
    let (rest, is_deleted) = match rest.strip_suffix(" (deleted))") {
        Some(rest) => (rest, true),
        None => (rest, false),
    };
    let inner = if is_deleted { Some(rest) } else { rest.strip_suffix(')') };
    let place = inner.and_then(|inner| match inner.rsplit_once(" (") {
        Some((name, file)) => Some((name, file)),
        None => Some(("", inner.strip_prefix('(')?)),
    });
    let (name, file) = place.unwrap_or((rest, ""));
    let name = match name.rsplit_once("+0x") {
        Some((bare, offset)) if u64::from_str_radix(offset, 16).is_ok() => bare,
        _ => name,
    };
    Some(FrameLine {
        name: name.trim(),
        file,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_lines_of_samples_are_as_perf_prints_them() {
        let of = |line: &'static str| {
            let head = head(line)?;
            Some((head.name, head.pid, head.tid, head.time_ns?, head.period, head.event))
        };
        for (line, expected) in [
            (
                "java 25607 4794564.109216: cycles:",
                ("java", None, "25607", 4_794_564_109_216_000, None, "cycles"),
            ),
            (
                "V8 WorkerThread 24636/25607 [000] 94564.109216:      33 cycles:u: ",
                (
                    "V8 WorkerThread",
                    Some("24636"),
                    "25607",
                    94_564_109_216_000,
                    Some(33),
                    "cycles:u",
                ),
            ),
            (
                "            perf   123 [001]     1.000000001:   250000   cpu-clock:pppH:      ffff81 f+0x1 ([kernel.kallsyms])",
                ("perf", None, "123", 1_000_000_001, Some(250_000), "cpu-clock:pppH"),
            ),
            (
                "a: 1.5: b 7/-1 [003] 2.000000: sched:sched_switch: prev_comm=x",
                ("a: 1.5: b", Some("7"), "-1", 2_000_000_000, None, "sched:sched_switch"),
            ),
        ] {
            assert_eq!(of(line), Some(expected), "{line}");
        }
        for line in [
            "main;work 12",
            "hello: world",
            "a 7/7 1: cycles:",
            "a 7 1.5: 12",
            "a x 1.5: cycles:",
            "7 1.5: cycles:",
        ] {
            assert_eq!(of(line), None, "{line}");
        }
    }

    #[test]
    fn the_first_lines_of_samples_may_lack_any_field() {
        let of = |line: &'static str| {
            let head = head_without_time(line);
            (head.name, head.pid, head.tid, head.period, head.event)
        };
        for (line, expected) in [
            ("app 4100 cycles: ", ("app", None, "4100", None, "cycles")),
            (
                "foobar [worker] 21332 cycles:u:",
                ("foobar [worker]", None, "21332", None, "cycles:u"),
            ),
            (
                "a: b  7/8  1000 cycles:",
                ("a: b", Some("7"), "8", Some(1000), "cycles"),
            ),
            ("app     1000000 cycles:", ("app", None, "", Some(1_000_000), "cycles")),
            ("   1000000 cycles:", ("", None, "", Some(1_000_000), "cycles")),
            ("  4100 [003] cycles:", ("", None, "4100", None, "cycles")),
            (
                "app  4100 [003]  250000 cycles:",
                ("app", None, "4100", Some(250_000), "cycles"),
            ),
            (
                "app 7 sched:sched_switch: prev_comm=x: y",
                ("app", None, "7", None, "sched:sched_switch"),
            ),
            ("cycles: ", ("", None, "", None, "cycles")),
            ("app 7 cycles : ", ("app", None, "7", None, "cycles")),
            ("\u{80} : ", ("", None, "", None, "\u{80}")),
            ("app", ("app", None, "", None, "")),
            ("my app  7/8 [001]", ("my app", Some("7"), "8", None, "")),
            (
                "     busy  2243   7f2b0eb76439 clock_gettime@@GLIBC_2.17",
                ("busy", None, "2243", None, ""),
            ),
            ("", ("", None, "", None, "")),
        ] {
            assert_eq!(of(line), expected, "{line}");
        }
        let timed = |line: &'static str| {
            let head = head(line)?;
            Some((head.name, head.tid, head.time_ns?, head.event, head.rest))
        };
        for (line, expected) in [
            (
                "  7/8 100.000000:  1 cpu-clock: ",
                ("", "8", 100_000_000_000, "cpu-clock", ""),
            ),
            ("app 7 [001] 1.000000001: ", ("app", "7", 1_000_000_001, "", "")),
            ("1.000000: 10 f+0x1 (/a)", ("", "", 1_000_000_000, "", "10 f+0x1 (/a)")),
        ] {
            assert_eq!(timed(line), Some(expected), "{line}");
        }
    }

    #[test]
    fn frames_have_a_name_and_a_file() {
        for (line, name, file) in [
            ("\t    55d1 leaf+0x15 (/home/me/app)", "leaf", "/home/me/app"),
            (
                "\t  ffff8100 do_sys+0x5 ([kernel.kallsyms])",
                "do_sys",
                "[kernel.kallsyms]",
            ),
            (
                "\t 7f A::operator()(int) const+0x1f (/a b/c)",
                "A::operator()(int) const",
                "/a b/c",
            ),
            ("\t 7f f+0x1 (/usr/bin/app (deleted))", "f", "/usr/bin/app"),
            ("\t 7f f (inlined)", "f", "inlined"),
            ("\t 7f [unknown] ([unknown])", "[unknown]", "[unknown]"),
            ("\t 7f only_a_name", "only_a_name", ""),
            ("\t 7f (/lib/x)", "", "/lib/x"),
        ] {
            let found = frame(line).unwrap();
            assert_eq!((found.name, found.file), (name, file), "{line}");
        }
        assert!(frame("\t main.c:12").is_none());
    }
}
