//! `--ulimit`.

use rustix::process::Resource;

/// A resource limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ulimit {
    /// `RLIMIT_*` number.
    pub number: usize,
    /// Soft and hard limit.
    pub limit: (u64, u64),
}

impl Ulimit {
    /// Soft and hard limit of open files.
    pub fn of_open_files(limit: u64) -> Self {
        Self { number: Resource::Nofile as usize, limit: (limit, limit) }
    }
}

/// Names of limits, in the order of their numbers.
const LIMITS: [&str; 16] = [
    "cpu",
    "fsize",
    "data",
    "stack",
    "core",
    "rss",
    "nproc",
    "nofile",
    "memlock",
    "as",
    "locks",
    "sigpending",
    "msgqueue",
    "nice",
    "rtprio",
    "rttime",
];
const _: () = assert!(Resource::Rttime as usize == LIMITS.len() - 1);

/// Parses `--ulimit`.
pub fn parse(text: &str) -> std::result::Result<Ulimit, String> {
    let wrong = "not a limit; write NAME=SOFT[:HARD] with numbers, such as nofile=1024:4096";
    let (name, values) = text.split_once('=').ok_or(wrong)?;
    let number = LIMITS.iter().position(|known| *known == name);
    let number = number.ok_or_else(|| format!("unknown limit {name}; write one of {}", LIMITS.join(", ")))?;
    let value = |text: &str| match text {
        "-1" | "unlimited" => Ok(u64::MAX),
        digits => digits.parse().map_err(|_| wrong),
    };
    let (soft, hard) = values.split_once(':').unwrap_or((values, values));
    let limit = (value(soft)?, value(hard)?);
    if limit.0 > limit.1 {
        return Err("the soft limit is above the hard one; write SOFT:HARD".into());
    }
    Ok(Ulimit { number, limit })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits() {
        let expect = |text: &str, number, limit| assert_eq!(parse(text), Ok(Ulimit { number, limit }), "{text}");
        expect("nofile=10:20", Resource::Nofile as usize, (10, 20));
        expect("core=-1", Resource::Core as usize, (u64::MAX, u64::MAX));
        expect("rttime=5:unlimited", Resource::Rttime as usize, (5, u64::MAX));
        for wrong in ["nofile", "x=1", "nofile=", "nofile=2:1", "nofile=1:x"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
