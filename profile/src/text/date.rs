//! Dates as text.

/// `2026-11-21 10:44:20 UTC`. Days to dates: <https://howardhinnant.github.io/date_algorithms.html#civil_from_days>.
pub fn utc(unix_ms: f64) -> String {
    let seconds = (unix_ms / 1000.0) as i64;
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::utc;

    /// `date -u -d @SECONDS`
    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(utc(0.0), "1970-01-01 00:00:00 UTC");
        assert_eq!(utc(951_782_400_000.0), "2000-02-29 00:00:00 UTC");
        assert_eq!(utc(1_790_000_000_123.0), "2026-09-21 14:13:20 UTC");
    }
}
