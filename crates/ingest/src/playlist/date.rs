//! Dates as both lists write them.

/// A date in ms since 1970, UTC, as RFC 3339 has it, to the millisecond. Dates after the year 9999 are that
/// year's last.
pub fn rfc3339(ms: u64) -> String {
    /// The last ms that four digits of a year can say.
    const LAST: u64 = 253_402_300_799_999;
    let ms = ms.min(LAST);
    let (year, month, day) = civil(ms / 86_400_000);
    let (hour, minute, second) = (ms / 3_600_000 % 24, ms / 60_000 % 60, ms / 1_000 % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", ms % 1_000)
}

/// Year, month and day of the Gregorian calendar, so many days after the first of 1970.
fn civil(mut day: u64) -> (u64, u64, u64) {
    // Whole cycles of 400 years first: what is left takes few steps.
    let mut year = 1970 + day / 146_097 * 400;
    day %= 146_097;
    let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    while day >= 365 + u64::from(leap(year)) {
        day -= 365 + u64::from(leap(year));
        year += 1;
    }
    let lengths = [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while day >= lengths[month] {
        day -= lengths[month];
        month += 1;
    }
    (year, month as u64 + 1, day + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        // As `date --utc --date=@SECONDS` says them.
        let dates = [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_785_551_445_250, "2026-08-01T02:30:45.250Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
            (u64::MAX, "9999-12-31T23:59:59.999Z"),
        ];
        dates.iter().for_each(|(ms, date)| assert_eq!(rfc3339(*ms), *date));
    }
}
