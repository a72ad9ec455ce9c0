//! The list of known differences, and the verdict on a case.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use libtest_mimic::Failed;
use serde::Deserialize;

use crate::compare;
use crate::process::Outcome;

/// Cases that are known to differ, each with its reason. What the pod prints in such a case is recorded in
/// `recorded/NAME` beside the list, and a pod that prints anything else fails the test. A listed case that does not
/// differ is a failure too, so that the list cannot rot.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    /// Case name to the reason of its failure.
    #[serde(default)]
    pub fails: BTreeMap<String, String>,
    /// Cases whose oracle would be an older kernel than the one that pods implement.
    #[serde(default)]
    older_hosts: BTreeMap<String, OlderHost>,
    /// Directory of the recorded outcomes.
    #[serde(skip)]
    recorded: PathBuf,
}

/// A difference on older host kernels.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct OlderHost {
    /// First kernel version that behaves as a pod does.
    before: String,
    reason: String,
}

/// Version of the host's kernel, major and minor.
fn host_kernel() -> (u32, u32) {
    version(&std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default())
}

fn version(text: &str) -> (u32, u32) {
    let mut numbers = text.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

impl Expected {
    /// Reads the list; the recorded outcomes are in `recorded/` in the same directory.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let list: Self = toml::from_str(&text).with_context(|| format!("{} is malformed", path.display()))?;
        Ok(Self { recorded: path.with_file_name("recorded"), ..list })
    }

    /// Names on the list without a case.
    pub fn unknown<'a>(&'a self, names: &[String]) -> Vec<&'a str> {
        self.fails
            .keys()
            .chain(self.older_hosts.keys())
            .filter(|name| !names.contains(name))
            .map(String::as_str)
            .collect()
    }

    /// Whether this case is listed as different on the host's kernel version.
    pub fn has_older_host(&self, name: &str) -> bool {
        self.older_hosts.get(name).is_some_and(|older| host_kernel() < version(&older.before))
    }

    /// Turns the outcomes of a case on both sides into the test's verdict.
    pub fn verdict(&self, name: &str, host: &Outcome, pod: &Outcome) -> Result<(), Failed> {
        let difference = compare::difference(host, pod);
        let fails = self.fails.get(name);
        let older = self.older_hosts.get(name);
        if fails.is_some() || older.is_some() {
            self.check_record(name, pod).map_err(|error| format!("{error:#}"))?;
        }
        let older = older.filter(|_| self.has_older_host(name));
        match (fails.or(older.map(|older| &older.reason)), difference) {
            (None, None) => Ok(()),
            (None, Some(text)) => Err(text.into()),
            (Some(reason), Some(_)) => {
                println!("{name}: differs as listed: {reason}");
                Ok(())
            }
            (Some(reason), None) => {
                Err(format!("passes, but is listed as different ({reason}): remove it from the list").into())
            }
        }
    }

    /// Fails unless the pod's outcome is the recorded one. `HULL_TEST_RECORD=1` records it instead.
    fn check_record(&self, name: &str, pod: &Outcome) -> Result<()> {
        let path = self.recorded.join(name);
        let mut text = format!("status {}\n", pod.status);
        let _ = write!(text, "{}", String::from_utf8_lossy(&pod.stdout));
        if std::env::var_os("HULL_TEST_RECORD").is_some() {
            std::fs::create_dir_all(path.parent().unwrap_or(&self.recorded))?;
            return Ok(std::fs::write(&path, text)?);
        }
        let recorded = std::fs::read_to_string(&path)
            .with_context(|| format!("cannot read {}; HULL_TEST_RECORD=1 makes it", path.display()))?;
        let record = Outcome { stdout: recorded.into_bytes(), stderr: Vec::new(), status: 0, timed_out: false };
        let now = Outcome { stdout: text.into_bytes(), stderr: Vec::new(), status: 0, timed_out: pod.timed_out };
        match compare::difference(&record, &now) {
            None => Ok(()),
            Some(text) => anyhow::bail!("the pod's outcome is not the one in {}:\n{text}", path.display()),
        }
    }
}
