//! The signal that ends a program.

use super::{Chosen, ContainerArgs};
use crate::failure::{Failure, Result};

/// SIGTERM.
const TERM: u32 = 15;
/// Names of signals, in the order of their numbers.
const SIGNALS: [&str; 31] = [
    "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE", "ALRM", "TERM",
    "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO",
    "PWR", "SYS",
];
/// SIGRTMIN and SIGRTMAX of the C library.
const REAL_TIME: (u32, u32) = (34, 64);

/// Parses a signal: a number, or a name with or without `SIG`, in any case.
pub fn parse(text: &str) -> std::result::Result<u32, String> {
    let name = text.to_ascii_uppercase();
    let name = name.strip_prefix("SIG").unwrap_or(&name);
    let offset = |digits: &str, sign: char| match digits.strip_prefix(sign) {
        Some(digits) => digits.parse().ok(),
        None => digits.is_empty().then_some(0),
    };
    let (first, last) = REAL_TIME;
    let number = match name.parse().ok() {
        Some(number) => Some(number),
        None if name.starts_with("RTMIN") => {
            offset(&name[5..], '+').and_then(|more| first.checked_add(more)).filter(|n| *n <= last)
        }
        None if name.starts_with("RTMAX") => {
            offset(&name[5..], '-').and_then(|less| last.checked_sub(less)).filter(|n| *n >= first)
        }
        None => SIGNALS.iter().position(|known| *known == name).map(|at| at as u32 + 1),
    };
    number
        .filter(|number| (1..=last).contains(number))
        .ok_or_else(|| "not a signal; write a name such as SIGQUIT, or a number".into())
}

impl ContainerArgs {
    /// The signal that ends the program: that of the options, of the image, or SIGTERM.
    pub fn stop_signal(&self, chosen: Option<&Chosen>) -> Result<u32> {
        let own = chosen.and_then(|chosen| Some((chosen, chosen.config.stop_signal().as_deref()?)));
        match (self.stop_signal, own.filter(|(_, text)| !text.is_empty())) {
            (Some(signal), _) => Ok(signal),
            (None, None) => Ok(TERM),
            (None, Some((chosen, text))) => parse(text).map_err(|_| {
                let why = format!("its StopSignal {text} is not a signal");
                Failure::request(chosen.option.clone(), why, "choose one with --stop-signal")
            }),
        }
    }
}
