//! One line of callgrind's format.

use super::PositionColumns;

/// The content of a line.
#[derive(Debug, PartialEq)]
pub(super) enum CallgrindLine<'a> {
    /// Empty, or a comment.
    Nothing,
    /// `key: value`
    Header(&'a str, &'a str),
    /// `fn=(12) main`
    Name(NameKind, NameOrNumber<'a>),
    /// `calls=3 +7`: the next line is their cost. The target position is ignored.
    Calls(u64),
    /// `jump=...`, `jcnd=...`: the next line has a position and no costs.
    Jump,
    /// `+3 12 1`: the position and the costs.
    Costs(RelativePosition, &'a str),
}

/// The kind of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameKind {
    Object,
    File,
    /// The file of lines that are inlined into a function.
    InlinedFile,
    Function,
    CalledObject,
    CalledFile,
    CalledFunction,
    JumpFile,
    JumpFunction,
}

impl NameKind {
    fn from_key(key: &str) -> Option<NameKind> {
        Some(match key {
            "ob" => NameKind::Object,
            "fl" => NameKind::File,
            "fi" | "fe" => NameKind::InlinedFile,
            "fn" => NameKind::Function,
            "cob" => NameKind::CalledObject,
            "cfi" | "cfl" => NameKind::CalledFile,
            "cfn" => NameKind::CalledFunction,
            "jfi" => NameKind::JumpFile,
            "jfn" => NameKind::JumpFunction,
            _ => return None,
        })
    }

    /// Objects, files and functions are numbered separately.
    pub(super) fn table(self) -> usize {
        match self {
            NameKind::Object | NameKind::CalledObject => 0,
            NameKind::File | NameKind::InlinedFile | NameKind::CalledFile | NameKind::JumpFile => 1,
            NameKind::Function | NameKind::CalledFunction | NameKind::JumpFunction => super::FUNCTIONS,
        }
    }
}

/// A name or its number.
#[derive(Debug, PartialEq)]
pub(super) enum NameOrNumber<'a> {
    Plain(&'a str),
    New(u64, &'a str),
    Known(u64),
}

/// A position relative to the previous line, one number for each column.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct RelativePosition([Option<CostNumber>; 3]);

#[derive(Clone, Copy, Debug, PartialEq)]
enum CostNumber {
    Absolute(u64),
    More(u64),
    Less(u64),
    Same,
}

/// An absolute position.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct CostPosition {
    pub(super) instr: u64,
    block: u64,
    pub(super) line: u64,
}

/// Keys of the header.
const HEADERS: [&str; 13] = [
    "version",
    "creator",
    "pid",
    "cmd",
    "part",
    "thread",
    "desc",
    "event",
    "events",
    "positions",
    "summary",
    "totals",
    "ob",
];

/// The parsed line. An error states the expected and the actual content.
pub(super) fn parse(line: &str, columns: PositionColumns) -> Result<CallgrindLine<'_>, String> {
    if line.is_empty() || line.starts_with('#') {
        return Ok(CallgrindLine::Nothing);
    }
    if line.starts_with(|first: char| first.is_ascii_digit() || "+-*".contains(first)) {
        let (position, costs) = position(line, columns)?;
        return Ok(CallgrindLine::Costs(position, costs));
    }
    let Some(end) = line.find(['=', ':']) else {
        return Err(unknown(line));
    };
    let (key, value) = (&line[..end], &line[end + 1..]);
    if line[end..].starts_with(':') {
        return match HEADERS.contains(&key) || key.bytes().all(|byte| byte.is_ascii_lowercase()) {
            true => Ok(CallgrindLine::Header(key, value.trim())),
            false => Err(unknown(line)),
        };
    }
    match key {
        "calls" => {
            let count = value.split_whitespace().next().unwrap_or_default();
            match number(count) {
                Some(count) => Ok(CallgrindLine::Calls(count)),
                None => Err(format!("expected a number of calls, found {}", shown(value))),
            }
        }
        "jump" | "jcnd" => Ok(CallgrindLine::Jump),
        _ => match NameKind::from_key(key) {
            Some(kind) => Ok(CallgrindLine::Name(kind, name(value))),
            None => Err(unknown(line)),
        },
    }
}

fn unknown(line: &str) -> String {
    format!(
        "expected `key: value`, a name (`fn=main`), `calls=...` or a line of costs, found {}",
        shown(line)
    )
}

fn shown(text: &str) -> String {
    let start: String = text.chars().take(40).collect();
    format!("{start:?}")
}

fn name(value: &str) -> NameOrNumber<'_> {
    let compressed = || {
        let (id, rest) = value.strip_prefix('(')?.split_once(')')?;
        Some((id.parse().ok()?, rest.strip_prefix(' ').unwrap_or(rest)))
    };
    match compressed() {
        Some((id, "")) => NameOrNumber::Known(id),
        Some((id, text)) => NameOrNumber::New(id, text),
        None => NameOrNumber::Plain(value),
    }
}

/// Decimal, or hexadecimal after `0x`.
fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None if text.starts_with('+') => None,
        None => text.parse().ok(),
    }
}

fn position(line: &str, columns: PositionColumns) -> Result<(RelativePosition, &str), String> {
    let mut rest = line;
    let mut numbers = [None; 3];
    for (at, is_there) in [columns.instr, columns.block, columns.line].into_iter().enumerate() {
        if !is_there {
            continue;
        }
        let (word, after) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let read = match word.split_at_checked(1) {
            Some(("*", "")) => Some(CostNumber::Same),
            Some(("+", more)) => number(more).map(CostNumber::More),
            Some(("-", less)) => number(less).map(CostNumber::Less),
            _ => number(word).map(CostNumber::Absolute),
        };
        numbers[at] =
            Some(read.ok_or_else(|| format!("expected a position (12, 0x1f, +3, -3 or *), found {}", shown(word)))?);
        rest = after.trim_start();
    }
    Ok((RelativePosition(numbers), rest))
}

/// `None` on overflow, below 0 included.
pub(super) fn absolute(
    relative: RelativePosition,
    last: CostPosition,
    columns: PositionColumns,
) -> Option<CostPosition> {
    let of = |number: Option<CostNumber>, last: u64| match number {
        None | Some(CostNumber::Same) => Some(last),
        Some(CostNumber::Absolute(number)) => Some(number),
        Some(CostNumber::More(more)) => last.checked_add(more),
        Some(CostNumber::Less(less)) => last.checked_sub(less),
    };
    let RelativePosition([instr, block, line]) = relative;
    Some(CostPosition {
        instr: of(instr, last.instr)?,
        block: of(block, last.block)?,
        line: if columns.line { of(line, last.line)? } else { 0 },
    })
}

/// The columns of a line `positions: ...`.
pub(super) fn columns(value: &str) -> Result<PositionColumns, String> {
    let mut columns = PositionColumns {
        instr: false,
        block: false,
        line: false,
    };
    for word in value.split_whitespace() {
        match word {
            "instr" | "addr" => columns.instr = true,
            "bb" => columns.block = true,
            "line" => columns.line = true,
            other => return Err(format!("expected `instr`, `bb` or `line`, found {}", shown(other))),
        }
    }
    match columns.instr || columns.block || columns.line {
        true => Ok(columns),
        false => Err("expected `instr`, `bb` or `line`, found nothing".to_owned()),
    }
}

/// One cost of a line. Missing costs at the end are 0.
pub(super) fn cost(costs: &str, wanted: usize, count: usize) -> Result<u64, String> {
    let mut cost = 0;
    for (at, word) in costs.split_whitespace().enumerate() {
        if at >= count {
            return Err(format!(
                "expected at most {count} costs, one for each event, found more"
            ));
        }
        // cachegrind writes a dot where nothing could be counted.
        let read = if word == "." { Some(0) } else { number(word) };
        let read = read.ok_or_else(|| format!("expected a cost, found {}", shown(word)))?;
        if at == wanted {
            cost = read;
        }
    }
    Ok(cost)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_as_the_manual_has_them() {
        let of = |line| parse(line, PositionColumns::default()).unwrap();
        assert_eq!(of("# comment"), CallgrindLine::Nothing);
        assert_eq!(of("events: Ir Dr"), CallgrindLine::Header("events", "Ir Dr"));
        assert_eq!(
            of("fn=(1) main"),
            CallgrindLine::Name(NameKind::Function, NameOrNumber::New(1, "main"))
        );
        assert_eq!(
            of("cfn=(1)"),
            CallgrindLine::Name(NameKind::CalledFunction, NameOrNumber::Known(1))
        );
        assert_eq!(
            of("fn=(below main)"),
            CallgrindLine::Name(NameKind::Function, NameOrNumber::Plain("(below main)"))
        );
        assert_eq!(
            of("fn=f(int)::g"),
            CallgrindLine::Name(NameKind::Function, NameOrNumber::Plain("f(int)::g"))
        );
        assert_eq!(of("calls=3 +7"), CallgrindLine::Calls(3));
        assert_eq!(
            of("+3 12 1"),
            CallgrindLine::Costs(RelativePosition([None, None, Some(CostNumber::More(3))]), "12 1")
        );
        assert_eq!(
            of("*"),
            CallgrindLine::Costs(RelativePosition([None, None, Some(CostNumber::Same)]), "")
        );
        for bad in ["main", "fm=x", "1x 2", "+-3 1", "A b: c", "calls=many"] {
            assert!(parse(bad, PositionColumns::default()).is_err(), "{bad}");
        }
    }

    #[test]
    fn positions_are_relative_to_the_last() {
        let both = columns("instr line").unwrap();
        let last = CostPosition {
            instr: 0x10,
            block: 0,
            line: 7,
        };
        let (relative, costs) = position("+0x3 -2 5", both).unwrap();
        let found = absolute(relative, last, both).unwrap();
        assert_eq!((found.instr, found.line, costs), (0x13, 5, "5"));
        let (relative, _) = position("* -8", both).unwrap();
        assert_eq!(absolute(relative, last, both), None);
    }
}
