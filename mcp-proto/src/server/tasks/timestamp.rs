//! Times as text (RFC 3339), in UTC with milliseconds.

use std::time::Duration;

/// The text of a time since 1970. The calendar is computed for years that begin in March, so that the leap day is the last
/// one of a year.
pub(super) fn timestamp(unix: Duration) -> String {
    let (days, seconds) = (unix.as_secs() / 86_400, unix.as_secs() % 86_400);
    // Days since 1 March of year 0; the Gregorian calendar repeats after 400 years.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", unix.subsec_millis())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00.007Z"),
            (951_782_400, "2000-02-29T00:00:00.007Z"),
            (951_868_799, "2000-02-29T23:59:59.007Z"),
            (951_868_800, "2000-03-01T00:00:00.007Z"),
            (1_735_689_599, "2024-12-31T23:59:59.007Z"),
            (1_800_000_000, "2027-01-15T08:00:00.007Z"),
            (4_107_542_400, "2100-03-01T00:00:00.007Z"),
        ] {
            assert_eq!(timestamp(Duration::new(seconds, 7_999_999)), expected);
        }
    }
}
