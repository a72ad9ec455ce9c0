//! Values of options: sizes, durations, grants.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

/// Parses a number of bytes: `1048576`, `1024K`, `1.5M` (also `1MB`, `1MiB`); binary multiples.
pub fn amount(text: &str) -> Result<u64, String> {
    const FORM: &str = "not a size; write a number with an optional suffix K, M, G or T, such as 512M";
    /// Most digits after the point.
    const MOST_DIGITS: usize = 9;
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit.to_ascii_uppercase().as_str() {
        "" | "B" => 0,
        "K" | "KB" | "KIB" => 10,
        "M" | "MB" | "MIB" => 20,
        "G" | "GB" | "GIB" => 30,
        "T" | "TB" | "TIB" => 40,
        _ => return Err(FORM.into()),
    };
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    if whole.len() + part.len() == 0 || part.len() > MOST_DIGITS {
        return Err(FORM.into());
    }
    // A number without a part of it is 0: `.5G`.
    let value = |digits: &str| if digits.is_empty() { Ok(0) } else { digits.parse::<u64>().map_err(|_| FORM) };
    let (whole, small) = (value(whole)?, value(part)?);
    let small = (u128::from(small) << shift) / 10_u128.pow(part.len() as u32);
    let all = whole.checked_mul(1 << shift).and_then(|bytes| bytes.checked_add(u64::try_from(small).ok()?));
    all.ok_or_else(|| "too large; write a number such as 512M".into())
}

/// Parses an [`amount`] of memory for a pod.
pub fn size(text: &str) -> Result<u64, String> {
    let bytes = amount(text)?;
    if bytes < monitor::MIN_MEMORY {
        return Err(format!("too small; give at least {}M", monitor::MIN_MEMORY >> 20));
    }
    // The direct map ends where the window begins.
    let most = abi::layout::WINDOW_BASE as u64;
    if bytes > most {
        return Err(format!("too large; give at most {}G", most >> 30));
    }
    Ok(bytes)
}

/// Parses a duration: `10`, `1.5s`, `200ms`, `2m`, `1h`, `1d`; seconds without a unit.
pub fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || String::from("not a duration; write a number with an optional suffix ms, s, m, h or d, such as 30s");
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86400.0,
        _ => return Err(wrong()),
    };
    let number: f64 = number.parse().map_err(|_| wrong())?;
    Duration::try_from_secs_f64(number * unit).map_err(|_| "too long; leave the option out for no limit".into())
}

/// A file descriptor of hull's and its number in the pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PassFd {
    /// Number in hull, 3 or more.
    pub host: i32,
    /// Number in the pod.
    pub pod: u32,
}

/// Default of RLIMIT_NOFILE: passed numbers must lie below.
const MOST_DESCRIPTORS: u32 = 1024;

/// Parses `N` or `N:M`.
pub fn pass_fd(text: &str) -> Result<PassFd, String> {
    let (host, pod) = text.split_once(':').unwrap_or((text, text));
    let number = |text: &str| text.parse().ok().filter(|number| (3..MOST_DESCRIPTORS).contains(number));
    match (number(host), number(pod)) {
        (Some(host), Some(pod)) => Ok(PassFd { host: host as i32, pod }),
        _ => Err(
            "not a descriptor; write a number from 3 to 1023, and `:` and another one for another number in the pod"
                .into(),
        ),
    }
}

/// A host path and its place in the pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The path on the host, as given.
    pub host: PathBuf,
    /// The absolute path in the pod; `None`: the host path.
    pub at: Option<PathBuf>,
}

impl Grant {
    /// Parses `PATH[:AT]`. The last colon before a slash separates the parts.
    pub fn parse(text: OsString) -> Result<Self, String> {
        let bytes = text.into_vec();
        let split = bytes.windows(2).rposition(|pair| pair == b":/");
        let (host, at) = match split {
            Some(index) => (&bytes[..index], Some(&bytes[index + 1..])),
            None => (bytes.as_slice(), None),
        };
        if host.is_empty() || host == b":" {
            return Err("no path; write PATH or PATH:AT".into());
        }
        if split.is_none() && host.ends_with(b":") {
            return Err("no path in the pod after the colon; write PATH or PATH:AT".into());
        }
        let at = at.map(|at| normal(Path::new(OsStr::from_bytes(at)))).transpose()?;
        Ok(Self { host: OsStr::from_bytes(host).into(), at })
    }
}

/// Normalises an absolute path: removes `.`, double slashes and a trailing slash; rejects `..`.
pub fn normal(path: &Path) -> Result<PathBuf, String> {
    let mut clean = PathBuf::from("/");
    if !path.is_absolute() {
        return Err("the path in the pod must begin with a slash".into());
    }
    for part in path.components() {
        match part {
            Component::RootDir | Component::CurDir => {}
            Component::Normal(name) => clean.push(name),
            Component::ParentDir | Component::Prefix(_) => return Err("the path in the pod can't contain `..`".into()),
        }
    }
    Ok(clean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(size("512M"), Ok(512 << 20));
        assert_eq!(size("2g"), Ok(2 << 30));
        assert_eq!(size("65536KiB"), Ok(64 << 20));
        assert_eq!(size("67108864"), Ok(64 << 20));
        assert_eq!((size("1.5G"), size(".5g"), size("64.M")), (Ok(3 << 29), Ok(1 << 29), Ok(64 << 20)));
        for wrong in [
            "",
            "M",
            "-1",
            "1..5G",
            ".G",
            "1.0000000001G",
            "1X",
            "0",
            "1K",
            "99999999999999999999",
            "18446744073709551615T",
            "1 G",
        ] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn durations() {
        assert_eq!(duration("10"), Ok(Duration::from_secs(10)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("200ms"), Ok(Duration::from_millis(200)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(duration("0"), Ok(Duration::ZERO));
        for wrong in ["", "s", "-1", "1w", "1.2.3", "inf", "nan", "1e400d", "99999999999999999999999d"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn grants() {
        let parse = |text: &str| Grant::parse(text.into());
        let grant = |host: &str, at: Option<&str>| Ok(Grant { host: host.into(), at: at.map(PathBuf::from) });
        assert_eq!(parse("/a"), grant("/a", None));
        assert_eq!(parse("a:/b/"), grant("a", Some("/b")));
        assert_eq!(parse("/a:b:/c//d/."), grant("/a:b", Some("/c/d")));
        assert_eq!(parse("/a:b"), grant("/a:b", None));
        assert_eq!(parse("rootfs:/"), grant("rootfs", Some("/")));
        for wrong in ["", ":", "/a:", ":/b", "/a:/b/../c"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
