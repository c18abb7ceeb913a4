//! `-e`: the words that perf's users know, taken apart without looking at the machine.

use std::fmt;

use recording::command::own;
use recording::info::SampleBy;

use super::names::{self, GenericEvent};

/// Longest text of one list that is looked at.
const MAX_TEXT: usize = 1 << 16;

/// One event as it was named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventSpec {
    /// As the user wrote it, which is also how it is called in the profile.
    pub text: String,
    /// Which.
    pub selector: EventSelector,
    /// `:u`, `:k`; both without a modifier.
    pub sides: CountedCode,
    /// `/period=N/`, `/freq=N/`.
    pub sample_by: Option<SampleBy>,
}

/// Why an event does not count in the kernel, if a modifier says so.
pub const ONLY_USER_CODE: &str = "only user code was asked for";

/// In which code an event counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountedCode {
    /// That of programs.
    pub user: bool,
    /// The kernel's.
    pub kernel: bool,
}

impl CountedCode {
    /// Without modifier.
    pub const BOTH: CountedCode = CountedCode {
        user: true,
        kernel: true,
    };
}

/// Which event is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventSelector {
    /// One that the kernel has a name for on every machine: hardware, cache or software.
    Generic(GenericEvent),
    /// `rNNN`: the CPU's own number.
    Raw(u64),
    /// `cpu/event=0x3c,umask=0/`: of this PMU, with these terms.
    Pmu {
        /// A name in /sys/bus/event_source/devices.
        pmu: String,
        /// Names with their values; 1 where none was given.
        terms: Vec<(String, u64)>,
    },
    /// `SUBSYSTEM:NAME`. Each may hold `*` and `?`.
    Tracepoints {
        /// A folder in tracefs' `events`.
        subsystem: String,
        /// A folder in that.
        name: String,
    },
    /// `uprobe:FILE:FUNCTION`, `usdt:FILE:PROVIDER:NAME`, `kprobe:FUNCTION`, `breakpoint:FUNCTION`.
    Probe {
        /// Which of them.
        kind: ProbeKind,
        /// What stands behind the first colon.
        place: String,
    },
}

/// A kind of probe in a program or in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeKind {
    /// At a function or an offset.
    Uprobe,
    /// At a mark of the program's author.
    Usdt,
    /// At a function of the kernel or an offset in it.
    Kprobe,
    /// At a function of the recorded program or an offset in it, by a breakpoint register of the processor.
    Breakpoint,
}

impl ProbeKind {
    /// What it is and the rest, if the text names one.
    fn parse_prefix(text: &str) -> Option<(ProbeKind, &str)> {
        let (word, place) = text.split_once(':')?;
        let kind = match word {
            "uprobe" => ProbeKind::Uprobe,
            "usdt" => ProbeKind::Usdt,
            "breakpoint" => ProbeKind::Breakpoint,
            // Patterns are of tracepoints: somebody may have called a group of his own so.
            "kprobe" if !place.contains(['*', '?']) => ProbeKind::Kprobe,
            _ => return None,
        };
        Some((kind, place))
    }
}

/// What is wrong with the text of `-e`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError(String);

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ParseError {}

fn wrong<T>(message: impl Into<String>) -> Result<T, ParseError> {
    Err(ParseError(message.into()))
}

/// Takes a list of events apart.
///
/// # Errors
///
/// The list is too long, or an event in it is not written as perf or sprof know it: the message says which, and what to
/// write.
pub fn parse(list: &str) -> Result<Vec<EventSpec>, ParseError> {
    if list.len() > MAX_TEXT {
        return wrong("the list of events is too long");
    }
    split(list).into_iter().map(one).collect()
}

/// At commas, but not at those between slashes: `cpu/event=1,umask=2/,cycles`.
fn split(list: &str) -> Vec<&str> {
    let mut items = Vec::new();
    let (mut start, mut in_terms, mut in_arguments) = (0, false, 0usize);
    for (at, byte) in list.bytes().enumerate() {
        // Slashes are those of a path, and `function(int, int)` has commas of its own.
        let is_probe = || ProbeKind::parse_prefix(list[start..].trim_start()).is_some();
        match byte {
            b'/' if !is_probe() => in_terms = !in_terms,
            b'(' | b'<' if is_probe() => in_arguments += 1,
            b')' | b'>' if is_probe() => in_arguments = in_arguments.saturating_sub(1),
            b',' if !in_terms && in_arguments == 0 => {
                items.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    items.push(&list[start..]);
    items
}

fn one(text: &str) -> Result<EventSpec, ParseError> {
    let text = text.trim();
    if text.is_empty() {
        return wrong(format!(
            "an event has no name; `{} record -e list` shows those of this machine",
            own()
        ));
    }
    if let Some((kind, place)) = ProbeKind::parse_prefix(text) {
        let (place, terms) = split_terms(place);
        return Ok(EventSpec {
            text: text.to_owned(),
            selector: EventSelector::Probe {
                kind,
                place: place.to_owned(),
            },
            sides: CountedCode::BOTH,
            sample_by: take_sampling(text, terms)?.1,
        });
    }
    if let Some(refusal) = other_probe(text) {
        return wrong(refusal);
    }
    let (before, terms, after) = match text.split_once('/') {
        None => (text, None, ""),
        Some((before, rest)) => match rest.split_once('/') {
            Some((terms, after)) => (before, Some(terms), after),
            None => {
                return wrong(format!(
                    "`{text}`: the second slash is missing, as in page-faults/period=1000/"
                ));
            }
        },
    };
    // perf has the modifier either before the slashes or right after them.
    let (name, early) = take_modifier(before);
    let late = after.strip_prefix(':').unwrap_or(after);
    let sides = match (early, late) {
        (early, "") => early.unwrap_or(CountedCode::BOTH),
        (None, late) => match modifier(late) {
            Some(sides) => sides,
            None => return unknown_modifier(text, late),
        },
        (Some(_), _) => return wrong(format!("`{text}` has two modifiers")),
    };
    if let Some((counting, other)) = name.split_once(':')
        && is_counting(counting)
    {
        return unknown_modifier(text, other);
    }
    let (terms, sample_by) = take_sampling(text, terms)?;
    let selector = match (selector(name), terms) {
        (Some(selector), None) => selector,
        (None, Some(terms)) if is_word(name) => EventSelector::Pmu {
            pmu: name.to_owned(),
            terms,
        },
        (Some(_), Some(terms)) => {
            let term = terms.first().map_or("", |(name, _)| name);
            return wrong(format!(
                "`{text}`: `{name}` has no term `{term}`; it takes period=N or freq=N"
            ));
        }
        (None, None) if sample_by.is_some() && is_word(name) && !name.contains(':') && text.contains('/') => {
            // `cpu/period=1000/`: a PMU without an event, or a name that is none.
            return unknown(name);
        }
        (None, _) => return unknown(name),
    };
    Ok(EventSpec {
        text: text.to_owned(),
        selector,
        sides,
        sample_by,
    })
}

/// What to do for a probe that sprof does not define itself. What others define in tracefs is a tracepoint like any
/// other.
///
/// A uretprobe puts the address of its own code in the place of each return address. The kernel's unwinder knows those
/// that a kretprobe has replaced, so that in the kernel stacks stay whole.
fn other_probe(text: &str) -> Option<String> {
    let (kind, place) = text.split_once(':')?;
    let function: String = (place.chars())
        .take_while(|c| c.is_ascii_alphanumeric() || *c == '_')
        .collect();
    match kind {
        "uretprobe" => Some(format!(
            "`{text}`: probes on returns are not supported, because they cut the stacks of everything below; \
             uprobe: records the calls, and uprobe:FILE:FUNCTION+OFFSET one `ret` instruction, with whole stacks"
        )),
        "kretprobe" if !place.contains(['*', '?']) => Some(format!(
            "`{text}`: sprof defines no probes on returns, because the kernel follows only so many calls at once and leaves out \
             the others in silence; kprobe: records the calls. It records a probe that you define: run \
             `echo 'r:sprof_kernel/{function}_return {place}' | sudo tee -a /sys/kernel/tracing/kprobe_events`, then record \
             -e sprof_kernel:{function}_return (where the kernel has CONFIG_KPROBE_EVENTS)"
        )),
        _ => None,
    }
}

/// Splits a probe's place from the terms behind it: `/usr/bin/app:f/period=10/`. Paths and `operator/` also have
/// slashes, so only texts that state when to sample are terms.
fn split_terms(place: &str) -> (&str, Option<&str>) {
    let found = place.strip_suffix('/').and_then(|front| front.rsplit_once('/'));
    let is_sampling = |term: &str| matches!(term.split_once('='), Some(("period" | "freq", _)));
    match found {
        Some((place, terms)) if is_sampling(terms) => (place, Some(terms)),
        _ => (place, None),
    }
}

fn unknown_modifier<T>(text: &str, modifier: &str) -> Result<T, ParseError> {
    wrong(format!(
        "`{text}`: `{modifier}` is not a modifier; use u (user code) or k (kernel)"
    ))
}

/// Splits `:u` and the like off. A tracepoint has a colon of its own.
fn take_modifier(text: &str) -> (&str, Option<CountedCode>) {
    match text.rsplit_once(':') {
        Some((name, last)) if name.contains(':') || is_counting(name) => match modifier(last) {
            Some(sides) => (name, Some(sides)),
            None => (text, None),
        },
        _ => (text, None),
    }
}

fn modifier(text: &str) -> Option<CountedCode> {
    let mut sides = CountedCode {
        user: false,
        kernel: false,
    };
    for letter in text.chars() {
        match letter {
            'u' => sides.user = true,
            'k' => sides.kernel = true,
            _ => return None,
        }
    }
    (sides.user || sides.kernel).then_some(sides)
}

fn is_counting(name: &str) -> bool {
    names::find(name).is_some() || raw(name).is_some()
}

/// `rNNN`, as perf takes it: hexadecimal digits only.
fn raw(name: &str) -> Option<u64> {
    let digits = name.strip_prefix('r')?;
    let is_hex = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hex.then(|| u64::from_str_radix(digits, 16).ok()).flatten()
}

fn selector(name: &str) -> Option<EventSelector> {
    if let Some(generic) = names::find(name) {
        return Some(EventSelector::Generic(generic));
    }
    if let Some(config) = raw(name) {
        return Some(EventSelector::Raw(config));
    }
    let (subsystem, event) = name.split_once(':')?;
    let is_pattern = |part: &str| is_word(&part.replace(['*', '?'], "x"));
    (is_pattern(subsystem) && is_pattern(event)).then(|| EventSelector::Tracepoints {
        subsystem: subsystem.to_owned(),
        name: event.to_owned(),
    })
}

/// True for what can be a file name in sysfs or tracefs, and does not lead out of its folder.
fn is_word(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    !text.is_empty() && !text.starts_with('.') && text.bytes().all(is_part)
}

type EventTerms = Vec<(String, u64)>;

/// The terms that say when to sample, and the other terms; `None` for the other terms if there are none.
fn take_sampling(text: &str, terms: Option<&str>) -> Result<(Option<EventTerms>, Option<SampleBy>), ParseError> {
    let (mut others, mut sample_by) = (Vec::new(), None);
    for term in terms.into_iter().flat_map(|terms| terms.split(',')).map(str::trim) {
        if term.is_empty() {
            continue;
        }
        let (name, value) = match term.split_once('=') {
            Some((name, value)) => (name.trim(), number(value.trim())),
            None => (term, Some(1)),
        };
        let Some(value) = value else {
            return wrong(format!("`{text}`: `{term}` needs a number, such as 1000 or 0x3e8"));
        };
        let by = match name {
            "period" => SampleBy::Period(value),
            "freq" => SampleBy::Frequency(value),
            _ if is_word(name) => {
                others.push((name.to_owned(), value));
                continue;
            }
            _ => {
                return wrong(format!(
                    "`{text}`: `{term}` is not an event term; write period=1000, for example"
                ));
            }
        };
        // The kernel takes no period with the highest bit (perf_event_open(2), EINVAL).
        if value == 0 || value > i64::MAX as u64 {
            return wrong(format!("`{text}`: {name} must be 1 or more"));
        }
        if sample_by.replace(by).is_some() {
            return wrong(format!("`{text}`: give either period or freq, once"));
        }
    }
    Ok(((!others.is_empty()).then_some(others), sample_by))
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) if !digits.starts_with('+') => u64::from_str_radix(digits, 16).ok(),
        None if !text.starts_with('+') => text.parse().ok(),
        _ => None,
    }
}

fn unknown<T>(name: &str) -> Result<T, ParseError> {
    let shown: String = name.chars().take(60).collect();
    let near = names::near(&shown, names::all().iter().map(|(name, _)| name.as_str()));
    let near = match near.is_empty() {
        true => String::new(),
        false => format!(" (did you mean {}?)", near.join(", ")),
    };
    wrong(format!(
        "there is no event `{shown}`{near}; `{} record -e list` shows those of this machine",
        own()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> EventSpec {
        let mut list = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(list.len(), 1, "{text}");
        list.remove(0)
    }

    fn refusal(text: &str) -> String {
        parse(text).expect_err(text).to_string()
    }

    fn generic(text: &str) -> (u32, u64) {
        match parsed(text).selector {
            EventSelector::Generic(generic) => (generic.kind, generic.config),
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn names_have_the_numbers_of_the_kernel_s_header() {
        assert_eq!(generic("cycles"), (0, 0));
        assert_eq!(generic("branches"), generic("branch-instructions"));
        assert_eq!(generic("branch-misses"), (0, 5));
        assert_eq!(generic("ref-cycles"), (0, 9));
        assert_eq!(generic("faults"), (1, 2));
        assert_eq!(generic("major-faults"), (1, 6));
        assert_eq!(generic("emulation-faults"), (1, 8));
        // PERF_COUNT_HW_CACHE_L1D, OP_READ, RESULT_MISS: (id) | (op << 8) | (result << 16).
        assert_eq!(generic("L1-dcache-load-misses"), (3, 0x1_0000));
        assert_eq!(generic("LLC-loads"), (3, 2));
        assert_eq!(generic("dTLB-store-misses"), (3, 0x1_0103));
        assert_eq!(generic("node-prefetches"), (3, 0x206));
        // perf's other words for the same, and what it takes for granted: loads, and accesses.
        assert_eq!(generic("L1-dcache-misses"), (3, 0x1_0000));
        assert_eq!(generic("L1-dcache"), (3, 0));
        assert_eq!(generic("l1d-write-miss"), (3, 0x1_0100));
        assert_eq!(generic("L2-misses-speculative-read"), (3, 0x1_0202));
        assert_eq!(generic("Instruction-TLB-refs"), (3, 4));
        assert_eq!(generic("branch-load-misses"), (3, 0x1_0005));
        assert!(refusal("L1-dcache-loads-stores").contains("no event"));
        assert!(refusal("LLC-").contains("no event"));
    }

    #[test]
    fn probes_keep_their_slashes_colons_and_commas() {
        let place = |text: &str| match parsed(text).selector {
            EventSelector::Probe { kind, place } => (kind, place),
            other => panic!("{text}: {other:?}"),
        };
        let (kind, text) = place("uprobe:/usr/bin/app:app::work");
        assert_eq!((kind, text.as_str()), (ProbeKind::Uprobe, "/usr/bin/app:app::work"));
        assert_eq!(
            place("uprobe:./app:space::f(int, T<a, b>)").1,
            "./app:space::f(int, T<a, b>)"
        );
        assert_eq!(place("usdt:libc:setjmp").0, ProbeKind::Usdt);
        assert_eq!(place("uprobe:/usr/bin/app:f/period=10/").1, "/usr/bin/app:f");
        assert_eq!(place("uprobe:./app:T::operator/").1, "./app:T::operator/");
        assert_eq!(
            parsed("usdt:/a/b:c:d/period=0x10/").sample_by,
            Some(SampleBy::Period(16))
        );
        assert!(refusal("uprobe:/a:f/period=0/").contains("1 or more"));
        assert!(refusal("uretprobe:/a:b").contains("uprobe: records the calls"));
        assert_eq!(
            place("kprobe:tcp_sendmsg+0x10"),
            (ProbeKind::Kprobe, "tcp_sendmsg+0x10".to_owned())
        );
        assert_eq!(place("kprobe:tcp_sendmsg/period=10/").1, "tcp_sendmsg");
        assert_eq!(
            place("breakpoint:app::work"),
            (ProbeKind::Breakpoint, "app::work".to_owned())
        );
        assert!(matches!(
            parsed("kprobe:tcp_*").selector,
            EventSelector::Tracepoints { .. }
        ));
        let refused = refusal("kretprobe:tcp_sendmsg");
        assert!(refused.contains("-e sprof_kernel:tcp_sendmsg_return "), "{refused}");
        let texts = |list: &str| -> Vec<String> { parse(list).unwrap().into_iter().map(|spec| spec.text).collect() };
        let list = "uprobe:/a/b/c:f(int, int),cycles/period=7/,usdt:a:b:c, uprobe:/x:y,page-faults";
        assert_eq!(
            texts(list),
            [
                "uprobe:/a/b/c:f(int, int)",
                "cycles/period=7/",
                "usdt:a:b:c",
                "uprobe:/x:y",
                "page-faults"
            ]
        );
    }

    #[test]
    fn modifiers_stand_before_or_behind_the_slashes() {
        let user = CountedCode {
            user: true,
            kernel: false,
        };
        let kernel = CountedCode {
            user: false,
            kernel: true,
        };
        assert_eq!(parsed("cycles").sides, CountedCode::BOTH);
        assert_eq!(parsed("cycles:u").sides, user);
        assert_eq!(parsed("r1a8:k").sides, kernel);
        assert_eq!(parsed("page-faults:uk").sides, CountedCode::BOTH);
        assert_eq!(parsed("page-faults/period=10/u").sides, user);
        assert_eq!(parsed("page-faults/period=10/:k").sides, kernel);
        assert_eq!(parsed("sched:sched_switch:k").sides, kernel);
        assert!(refusal("cycles:pp").contains("`pp` is not a modifier"));
        assert!(refusal("cycles/period=1/:x").contains("`x` is not a modifier"));
        assert!(refusal("cycles:u/period=1/:k").contains("two modifiers"));
    }

    #[test]
    fn periods_and_frequencies_are_terms() {
        assert_eq!(parsed("page-faults").sample_by, None);
        assert_eq!(parsed("page-faults/period=0x10/").sample_by, Some(SampleBy::Period(16)));
        assert_eq!(parsed("cycles/freq=99/").sample_by, Some(SampleBy::Frequency(99)));
        assert!(refusal("cycles/period=0/").contains("1 or more"));
        assert!(refusal("cycles/period=18446744073709551615/").contains("1 or more"));
        assert!(refusal("cycles/period=many/").contains("needs a number"));
        assert!(refusal("cycles/period=1,freq=2/").contains("either period or freq, once"));
        assert!(refusal("cycles/period=1").contains("second slash"));
        assert!(refusal("cycles/umask=1/").contains("`cycles` has no term `umask`"));
    }

    #[test]
    fn lists_are_split_at_commas_outside_of_slashes() {
        let list = parse("cpu/event=0x3c,umask=0x1,inv/u, r1a8,syscalls:sys_enter_*").unwrap();
        assert_eq!(
            list[0].selector,
            EventSelector::Pmu {
                pmu: "cpu".into(),
                terms: vec![("event".into(), 0x3c), ("umask".into(), 1), ("inv".into(), 1)],
            }
        );
        assert_eq!(list[1].selector, EventSelector::Raw(0x1a8));
        assert_eq!(
            list[2].selector,
            EventSelector::Tracepoints {
                subsystem: "syscalls".into(),
                name: "sys_enter_*".into()
            }
        );
        assert!(refusal("cycles,,cycles").contains("no name"));
    }

    #[test]
    fn a_name_that_is_nearly_one_is_named() {
        assert!(refusal("page-fault").contains("did you mean page-faults"));
        assert!(refusal("instrutions").contains("instructions"));
        assert!(refusal("zzz").starts_with("there is no event `zzz`; `sprof record -e list`"));
    }

    #[test]
    fn names_do_not_lead_out_of_the_folders_of_the_kernel() {
        for text in ["../etc:passwd", "sched:..", "a/../b/", ".:x", "../x/event=1/"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    /// Random words of the alphabet that the grammar is made of: an error or events, never a panic, and what was taken
    /// is taken again.
    #[test]
    fn any_text_is_taken_or_refused() {
        let parts = [
            "cycles",
            "page-faults",
            "r",
            "1",
            "ff",
            ":",
            "/",
            ",",
            "=",
            "u",
            "k",
            "period",
            "freq",
            "*",
            "?",
            "..",
            "cpu",
            "é",
            "\u{0}",
            " ",
            "0x",
            "+",
            "-",
            "sched",
            "18446744073709551616",
            "",
        ];
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        for _ in 0..20_000 {
            let mut text = String::new();
            for _ in 0..state >> 60 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                text.push_str(parts[(state >> 33) as usize % parts.len()]);
            }
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            for event in parse(&text).into_iter().flatten() {
                assert_eq!(parse(&event.text).as_deref(), Ok(&[event.clone()][..]), "{text:?}");
            }
        }
    }
}
