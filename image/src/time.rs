//! Times of images: RFC 3339.

use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds of a day.
const DAY: i64 = 86_400;

/// Seconds since 1970 of a time such as `2026-11-23T12:00:00.5Z`; fractions are cut off. `None`: another text.
pub fn parse(text: &str) -> Option<i64> {
    let number = |range: std::ops::Range<usize>| {
        let digits = text.get(range)?;
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse::<i64>().ok())?
    };
    let separators = [(4, "-"), (7, "-"), (13, ":"), (16, ":")];
    let is_date = separators.iter().all(|&(at, mark)| text.get(at..at + 1) == Some(mark));
    let is_date = is_date && matches!(text.get(10..11), Some("T" | "t" | " "));
    let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
    let (hour, minute, second) = (number(11..13)?, number(14..16)?, number(17..19)?);
    if !is_date || !(1..=12).contains(&month) || !(1..=31).contains(&day) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let zone = text.get(19..)?.trim_start_matches(|c: char| c == '.' || c.is_ascii_digit());
    let offset = match zone.as_bytes() {
        b"Z" | b"z" => 0,
        [sign @ (b'+' | b'-'), _, _, b':', _, _] => {
            let at = text.len() - 5;
            let offset = number(at..at + 2)? * 3600 + number(at + 3..at + 5)? * 60;
            if *sign == b'-' { -offset } else { offset }
        }
        _ => return None,
    };
    Some(days(year, month, day) * DAY + hour * 3600 + minute * 60 + second - offset)
}

/// The present time in UTC.
pub fn now() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format(now.as_secs() as i64)
}

/// A time in UTC, from seconds since 1970.
pub fn format(seconds: i64) -> String {
    let (day, rest) = (seconds.div_euclid(DAY), seconds.rem_euclid(DAY));
    let (year, month, date) = date(day);
    format!("{year:04}-{month:02}-{date:02}T{:02}:{:02}:{:02}Z", rest / 3600, rest / 60 % 60, rest % 60)
}

/// Days from 1970 to a date of the Gregorian calendar. Years begin in March, so that a leap day is the last.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// The inverse of [`days`].
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_written() {
        assert_eq!(parse("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(parse("2026-11-23T12:00:00.123456789Z"), Some(1_795_435_200));
        assert_eq!(parse("2026-11-23T14:00:00+02:00"), Some(1_795_435_200));
        assert_eq!(parse("2000-02-29T00:00:00Z"), Some(951_782_400));
        for wrong in [
            "",
            "2026-11-23",
            "2026-13-01T00:00:00Z",
            "2026-11-23T12:00:00",
            "é026-11-23T12:00:00Z",
            "2026-11-23T12:00:00+2",
        ] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
        for seconds in (-100_000_000_000..300_000_000_000).step_by(123_456_789).filter(|it| *it > -62_000_000_000) {
            let text = format(seconds);
            if text.len() == 20 {
                assert_eq!(parse(&text), Some(seconds), "{text}");
            }
        }
    }
}
