//! `-e`: selects the calls to print, in strace(1)'s notation.

use super::calls::{CALLS, Call, class};

/// Upper bound of call numbers.
const MOST: usize = 512;

/// The value of one `-e`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Filter {
    /// Set of calls, as a bitmap.
    Calls(Vec<u64>),
    /// Whether to print signals.
    Signals(bool),
}

/// The set of all calls.
pub fn all() -> Vec<u64> {
    vec![u64::MAX; MOST / 64]
}

fn insert(set: &mut [u64], call: &Call) {
    if let Some(word) = set.get_mut(usize::from(call.number) / 64) {
        *word |= 1 << (call.number % 64);
    }
}

/// Parses `[trace=][!]CALL,…` or `signal=all|none`.
pub fn parse(text: &str) -> Result<Filter, String> {
    let (key, value) = match text.split_once('=') {
        Some((key, value)) => (key, value),
        None => ("trace", text),
    };
    match key {
        "trace" | "t" => calls(value).map(Filter::Calls),
        "signal" | "signals" | "s" => match value {
            "all" | "!none" => Ok(Filter::Signals(true)),
            "none" | "!all" => Ok(Filter::Signals(false)),
            _ => Err("single signals can't be selected; write signal=none".into()),
        },
        _ => Err(format!("`{key}=` is not known here; write trace=CALLS or signal=none")),
    }
}

fn calls(list: &str) -> Result<Vec<u64>, String> {
    let (inverted, list) = match list.strip_prefix('!') {
        Some(rest) => (true, rest),
        None => (false, list),
    };
    let mut set = vec![0; MOST / 64];
    for name in list.split(',') {
        // A question mark: ignore an unknown name.
        let (optional, name) = match name.strip_prefix('?') {
            Some(rest) => (true, rest),
            None => (false, name),
        };
        match (name, name.strip_prefix('%')) {
            ("all", _) => set = all(),
            ("none", _) => {}
            (_, Some(name)) => {
                let members = class(name).ok_or_else(|| format!("no class of calls is named %{name}"))?;
                members.into_iter().for_each(|call| insert(&mut set, call));
            }
            _ => {
                let found = CALLS.iter().find(|call| call.name == name || Ok(call.number) == name.parse());
                match (found, class(name)) {
                    (Some(call), _) => insert(&mut set, call),
                    // Older notation of a class, without the percent sign.
                    (None, Some(members)) => members.into_iter().for_each(|call| insert(&mut set, call)),
                    (None, None) if optional => {}
                    (None, None) => return Err(format!("no system call is named `{name}`")),
                }
            }
        }
    }
    if inverted {
        set.iter_mut().for_each(|word| *word = !*word);
    }
    Ok(set)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<&'static str> {
        let Ok(Filter::Calls(set)) = parse(text) else { panic!("{text}") };
        let wanted = |call: &&Call| set[usize::from(call.number) / 64] >> (call.number % 64) & 1 != 0;
        CALLS.iter().filter(wanted).map(|call| call.name).collect()
    }

    #[test]
    fn sets_of_calls() {
        assert_eq!(names("openat"), ["openat"]);
        assert_eq!(names("trace=write,0,?no_such"), ["read", "write"]);
        assert_eq!(names("t=%clock").len(), 8);
        assert_eq!(names("clock"), names("%clock"));
        assert_eq!(names("none"), [""; 0]);
        assert_eq!(names("all").len(), CALLS.len());
        let without = names("!read,%file");
        assert!(without.contains(&"write") && !without.contains(&"read") && !without.contains(&"openat"));
        assert_eq!(without.len() + names("read,%file").len(), CALLS.len());
    }

    #[test]
    fn signals_and_mistakes() {
        assert_eq!(parse("signal=none"), Ok(Filter::Signals(false)));
        assert_eq!(parse("signal=all"), Ok(Filter::Signals(true)));
        for wrong in ["", "trace=", "nothing", "%nothing", "read,", "signal=SIGHUP", "inject=read:error=EIO"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
