//! `--trigger`: when a profile of the last seconds is written.

use std::path::PathBuf;

use super::value;

/// A trigger, and its words on the command line.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Trigger {
    pub(crate) words: String,
    pub(crate) when: TriggerWhen,
}

/// What has to happen.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TriggerWhen {
    /// SIGUSR2 comes to sprof.
    Signal,
    /// A file appears.
    File(PathBuf),
    /// A process of this name starts.
    Start(String),
    /// A process of this name ends.
    End(String),
    /// A span of this name takes longer.
    Span { name: String, longer_than_ns: u64 },
    /// The recorded processes take more CPU time for a second.
    Cpu { percent: f64 },
    /// The recorded processes have more memory.
    Memory { bytes: u64 },
}

const FORMS: &str = "a trigger is signal, file:PATH, start:PROGRAM, end:PROGRAM, 'span:NAME>100ms', 'cpu>150%' or \
                     'memory>2G' (quoted, because > is the shell's)";

pub(crate) fn trigger(text: &str) -> Result<Trigger, String> {
    let when = when(text).ok_or(FORMS)?;
    let words = text.to_owned();
    Ok(Trigger { words, when })
}

fn when(text: &str) -> Option<TriggerWhen> {
    if text == "signal" {
        return Some(TriggerWhen::Signal);
    }
    if let Some(name) = text.strip_prefix("span:") {
        let (name, length) = name.rsplit_once('>')?;
        let longer_than_ns = nanoseconds(length)?;
        let name = some(name)?;
        return Some(TriggerWhen::Span { name, longer_than_ns });
    }
    if let Some(percent) = text.strip_prefix("cpu>") {
        let percent: f64 = percent.strip_suffix('%')?.parse().ok()?;
        return (percent.is_finite() && percent >= 0.0).then_some(TriggerWhen::Cpu { percent });
    }
    if let Some(bytes) = text.strip_prefix("memory>") {
        let bytes = value::size(bytes).ok()?;
        return Some(TriggerWhen::Memory { bytes });
    }
    let (kind, rest) = text.split_once(':')?;
    let rest = some(rest)?;
    match kind {
        "file" => Some(TriggerWhen::File(rest.into())),
        "start" => Some(TriggerWhen::Start(rest)),
        "end" => Some(TriggerWhen::End(rest)),
        _ => None,
    }
}

fn some(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

/// `100ms`, `2.5s`, `300us`.
fn nanoseconds(text: &str) -> Option<u64> {
    let units = [("us", 1e3), ("ms", 1e6), ("s", 1e9)];
    let (unit, ns) = units.into_iter().find(|(unit, _)| text.ends_with(unit))?;
    let count: f64 = text.strip_suffix(unit)?.parse().ok()?;
    (count.is_finite() && count >= 0.0).then_some((count * ns) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_is_read_and_others_are_refused_with_all_of_them() {
        let read = |text: &str| trigger(text).map(|trigger| trigger.when);
        assert_eq!(read("signal").unwrap(), TriggerWhen::Signal);
        assert_eq!(read("file:/tmp/a b").unwrap(), TriggerWhen::File("/tmp/a b".into()));
        assert_eq!(read("start:gcc").unwrap(), TriggerWhen::Start("gcc".into()));
        assert_eq!(read("end:gcc").unwrap(), TriggerWhen::End("gcc".into()));
        let span = TriggerWhen::Span {
            name: "a::b>c".into(),
            longer_than_ns: 2_500_000,
        };
        assert_eq!(read("span:a::b>c>2.5ms").unwrap(), span);
        assert_eq!(read("cpu>150%").unwrap(), TriggerWhen::Cpu { percent: 150.0 });
        assert_eq!(read("memory>2G").unwrap(), TriggerWhen::Memory { bytes: 2_000_000_000 });
        for bad in [
            "", "Signal", "file:", "span:a", "span:>1s", "span:a>1", "cpu>150", "cpu>-1%", "memory>", "stop:gcc",
            "SIGUSR2",
        ] {
            assert!(read(bad).unwrap_err().contains("'span:NAME>100ms'"), "{bad}");
        }
    }
}
