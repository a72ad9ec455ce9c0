//! Records of decisions: one line of JSON each, and the first denial in one line for the user.

use rustix::time::{ClockId, clock_gettime};
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write;
use std::time::{Duration, Instant};

/// Records of denials that are written at once; beyond it one for each [`PAUSE`]. A pod must not fill the host's disk.
const BURST: u32 = 256;
const PAUSE: Duration = Duration::from_millis(20);

/// A decision.
#[derive(Clone, Debug, Default)]
pub struct Entry<'a> {
    /// The operation: `connect tcp 1.2.3.4:443`.
    pub what: String,
    /// Names that the pod was told for the address.
    pub names: Vec<&'a str>,
    /// Whether it was allowed.
    pub allowed: bool,
    /// The rule or the reason.
    pub why: String,
    /// The option of `hull run` that would allow it.
    pub remedy: Option<String>,
    /// Not worth a line for the user.
    pub minor: bool,
}

/// Where the records go.
#[derive(Debug)]
pub struct Audit {
    file: Option<File>,
    pod: u32,
    /// The first denial goes to standard error, and has not yet.
    tells: bool,
    budget: u32,
    refilled: Instant,
    omitted: u64,
}

/// A JSON string.
fn quote(text: &str, into: &mut String) {
    into.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                into.push('\\');
                into.push(c);
            }
            c if c.is_control() => drop(write!(into, "\\u{:04x}", u32::from(c))),
            c => into.push(c),
        }
    }
    into.push('"');
}

/// Seconds since 1970 as RFC 3339 has it.
fn time(seconds: i64, milliseconds: u32) -> String {
    let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Civil date from a day number, in eras of 400 years that begin in March.
    let day = days + 719_468;
    let era = day.div_euclid(146_097);
    let of_era = day.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    let of_month = of_year - (153 * shifted + 2) / 5 + 1;
    format!("{year:04}-{month:02}-{of_month:02}T{hour:02}:{minute:02}:{second:02}.{milliseconds:03}Z")
}

impl Audit {
    /// `pod`: process id of its monitor. `tells`: write the first denial to standard error.
    pub fn new(file: Option<File>, pod: u32, tells: bool) -> Self {
        // The first reading asks the kernel for the vDSO, by a call that the jail does not allow later.
        let _ = clock_gettime(ClockId::Realtime);
        Self { file, pod, tells, budget: BURST, refilled: Instant::now(), omitted: 0 }
    }

    /// Whether decisions are recorded.
    pub fn has_file(&self) -> bool {
        self.file.is_some()
    }

    /// Records a decision.
    pub fn add(&mut self, entry: &Entry<'_>) {
        if !entry.allowed && self.tells && !entry.minor {
            self.tells = false;
            // Ignore errors of standard error. A terminal in raw mode needs the carriage return.
            let _ = write!(std::io::stderr(), "{}\r\n", denial(entry));
        }
        let Some(file) = &mut self.file else { return };
        // What was allowed is bounded by the connections themselves.
        if !entry.allowed && !has_budget(&mut self.budget, &mut self.refilled, Instant::now()) {
            self.omitted += 1;
            return;
        }
        let mut line = String::from("{\"time\": ");
        let now = clock_gettime(ClockId::Realtime);
        quote(&time(now.tv_sec, u32::try_from(now.tv_nsec / 1_000_000).unwrap_or(0)), &mut line);
        let _ = write!(line, ", \"pod\": {}, \"connector\": \"network\", \"what\": ", self.pod);
        quote(&entry.what, &mut line);
        if !entry.names.is_empty() {
            line.push_str(", \"names\": [");
            for (index, name) in entry.names.iter().enumerate() {
                line.push_str(if index > 0 { ", " } else { "" });
                quote(name, &mut line);
            }
            line.push(']');
        }
        line.push_str(", \"decision\": ");
        quote(if entry.allowed { "allow" } else { "deny" }, &mut line);
        line.push_str(", \"rule\": ");
        quote(&entry.why, &mut line);
        if self.omitted > 0 {
            let _ = write!(line, ", \"omitted\": {}", std::mem::take(&mut self.omitted));
        }
        line.push_str("}\n");
        // Ignore errors: the file may be full, or a pipe whose reader has ended. The decision holds.
        let _ = file.write_all(line.as_bytes());
    }
}

/// The line for the user.
fn denial(entry: &Entry<'_>) -> String {
    let mut line = format!("hull: denied: {}", entry.what);
    if let Some(name) = entry.names.first() {
        let _ = write!(line, " ({name})");
    }
    let why = entry.why.strip_prefix("denied: ").or(entry.why.strip_prefix("denied ")).unwrap_or(&entry.why);
    let _ = write!(line, ": {why}");
    if let Some(remedy) = &entry.remedy {
        let _ = write!(line, "; allow it with {remedy}");
    }
    line.retain(|c| !c.is_control());
    line
}

fn has_budget(budget: &mut u32, refilled: &mut Instant, now: Instant) -> bool {
    let periods = now.saturating_duration_since(*refilled).as_millis() / PAUSE.as_millis();
    if periods > 0 {
        *budget = u32::try_from(periods).unwrap_or(BURST).saturating_add(*budget).min(BURST);
        *refilled = now;
    }
    *budget > 0 && {
        *budget -= 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn times() {
        assert_eq!(time(0, 7), "1970-01-01T00:00:00.007Z");
        assert_eq!(time(951_782_399, 0), "2000-02-28T23:59:59.000Z");
        assert_eq!(time(951_782_400, 0), "2000-02-29T00:00:00.000Z");
        assert_eq!(time(4_102_444_799, 999), "2099-12-31T23:59:59.999Z");
    }

    #[test]
    fn lines_of_json() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let mut audit = Audit::new(Some(std::os::fd::OwnedFd::from(writer).into()), 42, false);
        let what = "resolve a\"b\n".to_owned();
        audit.add(&Entry { what, names: vec!["x", "y"], why: "no rule".into(), ..Entry::default() });
        drop(audit);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        let (_, rest) = text.split_once(", \"pod\"").unwrap();
        assert_eq!(
            rest,
            ": 42, \"connector\": \"network\", \"what\": \"resolve a\\\"b\\u000a\", \"names\": [\"x\", \"y\"], \
             \"decision\": \"deny\", \"rule\": \"no rule\"}\n"
        );
    }

    #[test]
    fn denials_are_bounded() {
        let (mut budget, start) = (BURST, Instant::now());
        let mut refilled = start;
        let written = (0..10_000).filter(|_| has_budget(&mut budget, &mut refilled, start)).count();
        assert_eq!(written, BURST as usize);
        assert!(has_budget(&mut budget, &mut refilled, start + PAUSE));
        assert!(!has_budget(&mut budget, &mut refilled, start + PAUSE));
    }

    #[test]
    fn the_line_for_the_user() {
        let entry = Entry {
            what: "connect tcp 1.2.3.4:443".into(),
            names: vec!["a.example"],
            why: "denied: no rule allows it".into(),
            remedy: Some("--allow tcp:a.example:443".into()),
            ..Entry::default()
        };
        let text = "hull: denied: connect tcp 1.2.3.4:443 (a.example): no rule allows it; \
                    allow it with --allow tcp:a.example:443";
        assert_eq!(denial(&entry), text);
    }
}
