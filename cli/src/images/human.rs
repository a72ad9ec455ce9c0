//! Sizes and ages as docker prints them.

use image::time;
use std::time::{SystemTime, UNIX_EPOCH};

/// A size in decimal units with three digits: `117MB`.
pub fn size(bytes: u64) -> String {
    let units = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];
    let (mut value, mut unit) = (bytes as f64, 0);
    while value >= 999.5 && unit < units.len() - 1 {
        value /= 1000.0;
        unit += 1;
    }
    let digits = if value >= 99.95 || unit == 0 {
        0
    } else if value >= 9.995 {
        1
    } else {
        2
    };
    let text = format!("{value:.digits$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}{}", units[unit])
}

/// The age of an image: `2 weeks ago`; `N/A` if it does not say when it was made.
pub fn age(created: Option<&str>) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() as i64;
    match created.and_then(time::parse) {
        // Go's zero time stands for none.
        Some(then) if then > -62_000_000_000 => format!("{} ago", duration(now.saturating_sub(then))),
        _ => "N/A".to_owned(),
    }
}

/// The time when an image was made: `2026-11-26 03:30:51 +0000 UTC`; `N/A` if it does not say so.
pub fn date(created: Option<&str>) -> String {
    match created.and_then(time::parse) {
        Some(then) => time::format(then).replace('T', " ").replace('Z', " +0000 UTC"),
        None => "N/A".to_owned(),
    }
}

fn duration(seconds: i64) -> String {
    let (minutes, hours) = (seconds / 60, (seconds + 1800) / 3600);
    match seconds {
        ..1 => "Less than a second".to_owned(),
        1 => "1 second".to_owned(),
        2..60 => format!("{seconds} seconds"),
        60..120 => "About a minute".to_owned(),
        120..3600 => format!("{minutes} minutes"),
        _ if hours <= 1 => "About an hour".to_owned(),
        _ if hours < 48 => format!("{hours} hours"),
        _ if hours < 24 * 14 => format!("{} days", hours / 24),
        _ if hours < 24 * 60 => format!("{} weeks", hours / 24 / 7),
        _ if hours < 24 * 365 * 2 => format!("{} months", hours / 24 / 30),
        _ => format!("{} years", hours / 24 / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_three_digits() {
        for (bytes, text) in [
            (0, "0B"),
            (999, "999B"),
            (1000, "1kB"),
            (7380, "7.38kB"),
            (12_340_000, "12.3MB"),
            (117_000_000, "117MB"),
            (999_600, "1MB"),
            (1_240_000_000, "1.24GB"),
            (u64::MAX, "18.4EB"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }

    #[test]
    fn ages_are_rounded_as_dockers() {
        for (seconds, text) in [
            (-5, "Less than a second"),
            (1, "1 second"),
            (59, "59 seconds"),
            (61, "About a minute"),
            (3599, "59 minutes"),
            (3600, "About an hour"),
            (7200, "2 hours"),
            (47 * 3600, "47 hours"),
            (3 * 86400, "3 days"),
            (20 * 86400, "2 weeks"),
            (100 * 86400, "3 months"),
            (1000 * 86400, "2 years"),
        ] {
            assert_eq!(duration(seconds), text);
        }
        assert_eq!(date(Some("2026-11-26T04:30:51.6+01:00")), "2026-11-26 03:30:51 +0000 UTC");
        assert_eq!((age(None), date(Some("x"))), ("N/A".into(), "N/A".into()));
        assert_eq!(age(Some("0001-01-01T00:00:00Z")), "N/A");
    }
}
