//! Numbers as text, the same in all outputs.

/// `1,234 samples`.
pub fn count(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", grouped(number), if number == 1 { one } else { many })
}

/// `1234567` as `1,234,567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `79 (12.3 %)`, with the share of the whole; `0`.
pub fn with_share(number: u64, whole: u64) -> String {
    let percent = match number as f64 * 100.0 / whole.max(1) as f64 {
        _ if number == 0 => return "0".to_owned(),
        percent if percent < 0.01 => "< 0.01 %".to_owned(),
        percent if percent < 1.0 => format!("{percent:.2} %"),
        percent => format!("{percent:.1} %"),
    };
    format!("{} ({percent})", grouped(number))
}

/// `1.20 s`
pub fn seconds(ns: u64) -> String {
    format!("{:.2} s", ns as f64 / 1e9)
}

/// `1.23 s`, `12.3 ms`, `40 us`, `8 ns`
pub fn time(ms: f64) -> String {
    match ms {
        ms if ms != 0.0 && ms.abs() < 0.000_999_5 => format!("{:.0} ns", ms * 1e6),
        // 0.05 to 0.1 ms would be 0.1 ms.
        ms if ms != 0.0 && ms.abs() < 0.1 => format!("{:.0} us", ms * 1000.0),
        ms if ms.abs() >= 1000.0 => format!("{:.2} s", ms / 1000.0),
        ms if ms.abs() >= 100.0 || ms == 0.0 => format!("{ms:.0} ms"),
        ms => format!("{ms:.1} ms"),
    }
}

/// `1,234`; negative in differences of profiles.
pub fn counts(counts: f64) -> String {
    let digits = grouped(counts.abs().round() as u64);
    match counts < 0.0 {
        true => format!("-{digits}"),
        false => digits,
    }
}

/// `123 B`, `1.2 MB`.
pub fn bytes(bytes: f64) -> String {
    match bytes.abs() {
        size if size >= 1e9 => format!("{:.1} GB", bytes / 1e9),
        size if size >= 1e6 => format!("{:.1} MB", bytes / 1e6),
        size if size >= 1e3 => format!("{:.1} kB", bytes / 1e3),
        _ => format!("{bytes:.0} B"),
    }
}

/// JSON without a fraction for whole numbers: `12`, not `12.0`.
pub fn number_json(number: f64) -> serde_json::Value {
    match number.fract() == 0.0 && number.abs() < 9e15 {
        true => (number as i64).into(),
        false => number.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_by_three() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1000), "1,000");
        assert_eq!(grouped(1234567), "1,234,567");
    }

    #[test]
    fn one_is_singular() {
        assert_eq!(count(1, "sample has", "samples have"), "1 sample has");
        assert_eq!(count(2000, "sample has", "samples have"), "2,000 samples have");
    }

    #[test]
    fn small_shares_are_not_shown_as_zero() {
        assert_eq!(with_share(1, 1_000_000), "1 (< 0.01 %)");
        assert_eq!(with_share(1, 1000), "1 (0.10 %)");
        assert_eq!(with_share(1, 3), "1 (33.3 %)");
        assert_eq!(with_share(0, 0), "0");
    }

    #[test]
    fn sizes_in_the_usual_units() {
        assert_eq!(bytes(12.0), "12 B");
        assert_eq!(bytes(1_500.0), "1.5 kB");
        assert_eq!(bytes(2_000_000.0), "2.0 MB");
    }
}
