//! The list of known failures, and the verdict on one case with respect to it.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use libtest_mimic::Failed;
use serde::Deserialize;

/// Cases that are known to fail, each with its reason. A case on the list that passes is a failure too, so that the
/// list cannot rot.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    /// Case name to the reason of its failure.
    #[serde(default)]
    pub fails: BTreeMap<String, String>,
    /// Cases whose oracle is an older kernel than the one that pods take after.
    #[serde(default)]
    older_hosts: BTreeMap<String, OlderHost>,
}

/// What differs where the host's kernel is older.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct OlderHost {
    /// First kernel version that answers as a pod does.
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
    /// Reads the list.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        toml::from_str(&text).with_context(|| format!("{} is malformed", path.display()))
    }

    /// Names on the list that no case has.
    pub fn unknown<'a>(&'a self, names: &[String]) -> Vec<&'a str> {
        self.fails
            .keys()
            .chain(self.older_hosts.keys())
            .filter(|name| !names.contains(name))
            .map(String::as_str)
            .collect()
    }

    /// Turns a case's result (`None`: it passed) into the test's verdict.
    pub fn verdict(&self, name: &str, difference: Option<String>) -> Result<(), Failed> {
        let older = self.older_hosts.get(name).filter(|older| host_kernel() < version(&older.before));
        match (self.fails.get(name).or(older.map(|older| &older.reason)), difference) {
            (None, None) => Ok(()),
            (None, Some(text)) => Err(text.into()),
            (Some(reason), Some(_)) => {
                println!("{name}: fails as expected: {reason}");
                Ok(())
            }
            (Some(reason), None) => {
                Err(format!("passes, but is listed as failing ({reason}): remove it from the list").into())
            }
        }
    }
}
