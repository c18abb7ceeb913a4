//! Parsers of flag values, with their error messages.

use std::net::IpAddr;
use std::time::Duration;

use recording::heap::MAX_HEAP_INTERVAL;
use server::Port;

pub(crate) fn pid(text: &str) -> Result<i32, String> {
    match text.trim().parse() {
        Ok(pid @ 1..) => Ok(pid),
        _ => Err(
            "a process id is a number of 1 or more, several are separated by commas; `pgrep NAME` finds them".into(),
        ),
    }
}

/// A sampling rate in Hz. The machine's own limit is checked later.
pub(crate) fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate.is_finite() && rate >= 0.1 => Ok(rate),
        Ok(rate) if rate.is_finite() => {
            Err("the rate must be more than 0 (at least 0.1 samples a second of CPU time); try 1000".into())
        }
        _ => Err("the rate is a number of samples a second of CPU time; try 1000".into()),
    }
}

/// A percentage, 0 to 100.
pub(crate) fn percentage(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('%').trim_end().parse::<f64>() {
        Ok(percent) if percent > 0.0 && percent < 100.0 => Ok(percent),
        _ => Err("a number of percent between 0 and 100, for example 2".into()),
    }
}

/// A duration in seconds, more than 0 and at most a year.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    const YEAR_S: f64 = 365.0 * 24.0 * 3600.0;
    let seconds: f64 = text
        .trim_end_matches('s')
        .parse()
        .map_err(|_| "a number of seconds, for example 2.5")?;
    if seconds > 0.0 && seconds <= YEAR_S {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err("the duration must be more than 0 seconds; leave -d away to record until the program ends".into())
    }
}

/// Parses how much of a recording is kept: `30s`, `5m`, `1h`, or seconds.
pub(crate) fn window(text: &str) -> Result<Duration, String> {
    const DAY_S: f64 = 24.0 * 3600.0;
    let units = [("s", 1.0), ("m", 60.0), ("h", 3600.0)];
    let unit = units.into_iter().find(|(unit, _)| text.ends_with(unit));
    let (number, seconds) = unit.map_or((text, 1.0), |(unit, seconds)| {
        (&text[..text.len() - unit.len()], seconds)
    });
    match number.parse::<f64>().map(|count| count * seconds) {
        Ok(seconds) if (0.1..=DAY_S).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("a time of up to a day, for example 30s, 5m or 1h".into()),
    }
}

/// Parses the time until a signed link ends: `30m`, `12h`, `7d`, or seconds.
pub(crate) fn expiry(text: &str) -> Result<Duration, String> {
    const DAY_S: u64 = 24 * 3600;
    let units = [("s", 1), ("m", 60), ("h", 3600), ("d", DAY_S)];
    let unit = units.into_iter().find(|(unit, _)| text.ends_with(unit));
    let (digits, seconds) = unit.map_or((text, 1), |(unit, seconds)| (&text[..text.len() - unit.len()], seconds));
    let time = digits.parse::<u64>().ok().and_then(|count| count.checked_mul(seconds));
    match time {
        Some(time @ 1..) if time <= 7 * DAY_S => Ok(Duration::from_secs(time)),
        _ => Err("a time of up to 7 days, for example 30m, 12h or 7d: signed links work no longer".into()),
    }
}

/// Parses a port: `3000`, or `3000+` for the next free one.
pub(crate) fn port(text: &str) -> Result<Port, String> {
    let (digits, or_next) = match text.strip_suffix('+') {
        Some(digits) => (digits, true),
        None => (text, false),
    };
    match digits.parse() {
        Ok(first) => Ok(Port { first, or_next }),
        Err(_) => Err("a port is 3000, or 3000+ for the next free one, up to 65535; 0 lets the system choose".into()),
    }
}

/// An address to listen on: a number, not a name, so that nothing has to be looked up.
pub(crate) fn address(text: &str) -> Result<IpAddr, String> {
    match text {
        "localhost" => Ok(IpAddr::from([127, 0, 0, 1])),
        _ => text
            .trim_start_matches('[')
            .trim_end_matches(']')
            .parse()
            .map_err(|_| "an IP address, for example 127.0.0.1 (this machine only) or 0.0.0.0 (everyone)".into()),
    }
}

/// Stack bytes a sample: the kernel takes multiples of 8 below 64 KiB (`sample_stack_user`, perf_event_open(2)).
pub(crate) fn stack_size(text: &str) -> Result<u32, String> {
    let (digits, unit) = match text.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 1024),
        None => (text, 1),
    };
    let bytes = digits.parse::<u32>().ok().and_then(|count| count.checked_mul(unit));
    match bytes {
        Some(bytes @ 8..=65528) if bytes % 8 == 0 => Ok(bytes),
        _ => Err("the stack size is a multiple of 8 between 8 and 65528 bytes, for example 16384 or 16K".into()),
    }
}

/// Parses a number of bytes of memory: `512K`, `1M`. The units are binary.
pub(crate) fn heap_interval(text: &str) -> Result<u64, String> {
    let units = [("k", 1 << 10), ("K", 1 << 10), ("M", 1 << 20), ("G", 1 << 30)];
    let unit = units.into_iter().find(|(unit, _)| text.ends_with(unit));
    let (digits, bytes) = unit.map_or((text, 1), |(unit, bytes)| (&text[..text.len() - unit.len()], bytes));
    let interval = digits.parse::<u64>().ok().and_then(|count| count.checked_mul(bytes));
    interval
        .filter(|interval| (1..=MAX_HEAP_INTERVAL).contains(interval))
        .ok_or_else(|| "a number of bytes from 1 to 1024G, for example 524288, 512K or 1M".into())
}

/// Parses a size of files in bytes: `500M`, `2G`. The units are decimal.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let units = [("k", 1_000), ("K", 1_000), ("M", 1_000_000), ("G", 1_000_000_000)];
    let unit = units.into_iter().find(|(unit, _)| text.ends_with(unit));
    let (digits, bytes) = unit.map_or((text, 1), |(unit, bytes)| (&text[..text.len() - unit.len()], bytes));
    let size = digits.parse::<u64>().ok().and_then(|count| count.checked_mul(bytes));
    size.filter(|size| *size > 0)
        .ok_or_else(|| "a size is a number of bytes, or of k, M or G, for example 500M".into())
}

/// A name of this machine in addresses, without port and without brackets.
pub(crate) fn host_name(text: &str) -> Result<String, String> {
    let is_name = |part: &str| {
        let plain = part
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
        (1..=63).contains(&part.len()) && plain
    };
    match text.split('.').all(is_name) {
        true => Ok(text.to_owned()),
        false => Err("a name of a machine without a port, for example profiles.example.org".into()),
    }
}

/// Parses a width in pixels. It may be below 1.
pub(crate) fn pixels(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(pixels) if pixels.is_finite() && pixels >= 0.0 => Ok(pixels),
        _ => Err("a number of pixels, 0 or more, for example 0.5".into()),
    }
}

/// The address of a Firefox Profiler, without the slash at the end.
pub(crate) fn ui_url(text: &str) -> Result<String, String> {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let clean = |rest: &str| {
        let host = rest.split('/').next().unwrap_or_default();
        !host.is_empty() && !rest.contains(['?', '#']) && rest.bytes().all(|byte| byte.is_ascii_graphic())
    };
    match rest {
        Some(rest) if clean(rest) => Ok(text.trim_end_matches('/').to_owned()),
        _ => Err(
            "the address of a profiler UI starts with https:// or http://, for example https://profiler.firefox.com"
                .into(),
        ),
    }
}

/// The Firefox Profiler.
pub(crate) const PUBLIC_UI: &str = "https://profiler.firefox.com";

/// The UI that was given, or that `PROFILER_URL` names; `None` for the public one.
///
/// # Errors
///
/// `PROFILER_URL` is not the address of a UI.
pub(crate) fn named_ui(given: Option<&str>) -> Result<Option<String>, String> {
    if let Some(given) = given {
        return Ok(Some(given.to_owned()));
    }
    let named = std::env::var("PROFILER_URL").ok().filter(|url| !url.is_empty());
    let named = named.map(|url| ui_url(&url).map_err(|reason| format!("PROFILER_URL: {reason}")));
    named.transpose()
}

/// The UI that was given, or that `PROFILER_URL` names, or the public one.
///
/// # Errors
///
/// `PROFILER_URL` is not the address of a UI.
pub(crate) fn ui_or_public(given: Option<&str>) -> Result<String, String> {
    Ok(named_ui(given)?.unwrap_or_else(|| PUBLIC_UI.to_owned()))
}

/// A part of the recording, in seconds since its start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TimeRange {
    /// `None`: from the start of the recording.
    pub(crate) from_s: Option<f64>,
    /// `None`: to the end of the recording.
    pub(crate) to_s: Option<f64>,
}

impl std::fmt::Display for TimeRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.from_s.map_or(Ok(()), |from| write!(f, "{from}"))?;
        f.write_str("..")?;
        self.to_s.map_or(Ok(()), |to| write!(f, "{to}"))?;
        f.write_str(" s")
    }
}

/// Parses a time range in seconds: `1.5..3`, `2..`, `..0.5`.
pub(crate) fn time_range(text: &str) -> Result<TimeRange, String> {
    let expected = || "expected FROM..TO in seconds, for example 1.5..3, 2.. or ..0.5".to_owned();
    let (from, to) = text.split_once("..").ok_or_else(expected)?;
    let seconds = |text: &str| match text.trim().trim_end_matches('s') {
        "" => Ok(None),
        text => match text.parse::<f64>() {
            Ok(seconds) if seconds.is_finite() => Ok(Some(seconds)),
            _ => Err(expected()),
        },
    };
    let range = TimeRange {
        from_s: seconds(from)?,
        to_s: seconds(to)?,
    };
    match (range.from_s, range.to_s) {
        (None, None) => Err(expected()),
        (Some(from), Some(to)) if from >= to => Err(format!("{from} is not before {to}")),
        _ => Ok(range),
    }
}

/// Parses a percentage from 0 to 100.
pub(crate) fn percent(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('%').trim().parse::<f64>() {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(percent),
        _ => Err("expected a number from 0 to 100".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_with_and_without_plus() {
        assert_eq!(
            port("3000+").unwrap(),
            Port {
                first: 3000,
                or_next: true
            }
        );
        assert_eq!(
            port("0").unwrap(),
            Port {
                first: 0,
                or_next: false
            }
        );
        assert!(port("+").is_err());
        assert!(port("-1").is_err());
    }

    #[test]
    fn stack_sizes_up_to_the_kernel_s_limit() {
        assert_eq!(stack_size("16K").unwrap(), 16384);
        assert_eq!(stack_size("65528").unwrap(), 65528);
        assert!(stack_size("64K").is_err());
        assert!(stack_size("4294967295K").is_err());
        assert!(stack_size("0").is_err());
    }

    #[test]
    fn intervals_of_the_heap_are_sizes_of_memory() {
        let intervals = ["1", "512K", "2M", "1024G"].map(|text| heap_interval(text).unwrap());
        assert_eq!(intervals, [1, 512 << 10, 2 << 20, 1 << 40]);
        for bad in ["0", "", "K", "-1", "1.5M", "1025G", "1T", "99999999999999G"] {
            assert!(heap_interval(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes_of_files_and_names_of_machines() {
        assert_eq!(
            (size("1"), size("500M"), size("2G")),
            (Ok(1), Ok(500_000_000), Ok(2_000_000_000))
        );
        for bad in ["0", "", "M", "-1", "1.5G", "1T", "99999999999999G"] {
            assert!(size(bad).is_err(), "{bad}");
        }
        assert!(host_name("profiles.example.org").is_ok() && host_name("build-7").is_ok());
        for bad in ["", ".", "a..b", "a:1", "a/b", "a b", "*.example.org", "ä"] {
            assert!(host_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn ui_addresses_lose_their_last_slash() {
        assert_eq!(ui_url("http://localhost:4242/").unwrap(), "http://localhost:4242");
        assert_eq!(ui_url("https://example.org/ui/").unwrap(), "https://example.org/ui");
        for bad in [
            "",
            "https://",
            "https:///x",
            "profiler.firefox.com",
            "https://a b",
            "http://a/?x",
            "http://a\r\nb",
        ] {
            assert!(ui_url(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn links_end_after_seven_days() {
        for (text, seconds) in [("90", 90), ("30m", 1800), ("12h", 43_200), ("7d", 604_800)] {
            assert_eq!(expiry(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for bad in [
            "",
            "0",
            "8d",
            "604801",
            "-1h",
            "1.5h",
            "d",
            "1w",
            "99999999999999999999h",
        ] {
            assert!(expiry(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn windows_in_seconds_minutes_and_hours() {
        for (text, seconds) in [("30", 30.0), ("30s", 30.0), ("0.5m", 30.0), ("24h", 86400.0)] {
            assert_eq!(window(text).unwrap().as_secs_f64(), seconds, "{text}");
        }
        for bad in ["", "0", "-1", "25h", "1d", "s", "nan"] {
            assert!(window(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn durations_in_seconds() {
        assert_eq!(duration("2.5").unwrap(), Duration::from_millis(2500));
        assert_eq!(duration("3s").unwrap(), Duration::from_secs(3));
        for bad in ["0", "-1", "nan", "inf", "", "1m"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }
}
