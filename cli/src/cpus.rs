//! Processors of a pod: how many, and how much of their time.

use std::fmt;
use std::num::NonZeroU64;

const ONE: u64 = 1_000_000_000;
/// Digits behind the point, as docker has them.
const DIGITS: usize = 9;
/// The least share, as with docker: Linux's ticks are not exact enough for less.
const LEAST: u64 = ONE / 100;
const MOST: u64 = abi::layout::MAX_CPUS as u64 * ONE;

/// A number of processors, in billionths; 0: the default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cpus(u64);

impl Cpus {
    /// A whole number.
    pub fn whole(count: usize) -> Self {
        Self(count as u64 * ONE)
    }

    /// The number, or `default` if none or 0 is given: that is no limit for docker, too.
    pub fn or_default(given: Option<Self>, default: impl FnOnce() -> Self) -> Self {
        given.filter(|cpus| cpus.0 > 0).unwrap_or_else(default)
    }

    /// The limit as control groups show it, in microseconds per 100 ms, if a number is given.
    pub fn quota(given: Option<Self>) -> Option<u64> {
        given.map(|cpus| cpus.0 / (ONE / 100_000)).filter(|quota| *quota > 0)
    }

    /// Virtual CPUs: the next whole number.
    pub fn count(self) -> u32 {
        u32::try_from(self.0.div_ceil(ONE)).unwrap_or(u32::MAX)
    }

    /// Limit of the processor time in billionths of a processor; none for a whole number of virtual CPUs, which can't use more.
    pub fn share(self) -> Option<NonZeroU64> {
        NonZeroU64::new(self.0).filter(|share| share.get() % ONE != 0)
    }

    /// Parses a number, also with a point: `2`, `0.5`, `.5`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!("not a number of processors; give 0.01 to {}, such as 2 or 0.5, or 0 for the default", MOST / ONE)
        };
        let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
        let is_number = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number(whole) || !is_number(part) || text.is_empty() || text == "." {
            return Err(wrong());
        }
        if part.len() > DIGITS {
            return Err(format!("too exact; give at most {DIGITS} digits behind the point"));
        }
        let whole = if whole.is_empty() { 0 } else { whole.parse::<u64>().map_err(|_| wrong())? };
        let part: u64 = format!("{part:0<DIGITS$}").parse().map_err(|_| wrong())?;
        let all = whole.checked_mul(ONE).and_then(|all| all.checked_add(part)).ok_or_else(wrong)?;
        if all == 0 || (LEAST..=MOST).contains(&all) { Ok(Self(all)) } else { Err(wrong()) }
    }
}

impl fmt::Display for Cpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) = (self.0 / ONE, self.0 % ONE);
        match part {
            0 => write!(f, "{whole}"),
            part => write!(f, "{whole}.{}", format!("{part:0DIGITS$}").trim_end_matches('0')),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        let parsed = |text| Cpus::parse(text).map(|cpus| (cpus.count(), cpus.share().map(NonZeroU64::get)));
        for (text, count) in [("1", 1), ("4.0", 4), ("16", 16), ("2.", 2), ("01", 1)] {
            assert_eq!(parsed(text), Ok((count, None)), "{text}");
        }
        assert_eq!(parsed("0.5"), Ok((1, Some(ONE / 2))));
        assert_eq!(parsed(".01"), Ok((1, Some(LEAST))));
        assert_eq!(parsed("1.5"), Ok((2, Some(ONE / 2 * 3))));
        assert_eq!(parsed("1.000000001"), Ok((2, Some(ONE + 1))));
        for text in ["0.5", "1.25", "3", "0.010000001"] {
            assert_eq!(Cpus::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn zero_is_the_default() {
        let given = |text| Cpus::parse(text).ok();
        for text in ["0", "0.0", ".0", "0."] {
            assert_eq!(Cpus::or_default(given(text), || Cpus::whole(3)), Cpus::whole(3), "{text}");
            assert_eq!(Cpus::quota(given(text)), None, "{text}");
        }
        assert_eq!(Cpus::or_default(given("2"), || Cpus::whole(3)), Cpus::whole(2));
        for (text, quota) in [("0.01", 1000), ("0.5", 50_000), ("1.5", 150_000), ("2", 200_000)] {
            assert_eq!(Cpus::quota(given(text)), Some(quota), "{text}");
        }
        assert_eq!(Cpus::quota(None), None);
    }

    #[test]
    fn wrong_numbers() {
        let many = "9".repeat(40);
        for text in ["0.009", "16.1", "17", "-1", "", ".", "two", "1e0", "+1", "1.5.0", "inf", " 1", &many] {
            assert!(Cpus::parse(text).unwrap_err().starts_with("not a number of processors; "), "{text}");
        }
        assert!(Cpus::parse("0.5000000000").unwrap_err().starts_with("too exact; "));
    }
}
