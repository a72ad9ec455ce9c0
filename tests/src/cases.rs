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
}

impl Expected {
    /// Reads the list.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        toml::from_str(&text).with_context(|| format!("{} is malformed", path.display()))
    }

    /// Names on the list that no case has.
    pub fn unknown<'a>(&'a self, names: &[String]) -> Vec<&'a str> {
        self.fails.keys().filter(|name| !names.contains(name)).map(String::as_str).collect()
    }

    /// Turns a case's result (`None`: it passed) into the test's verdict.
    pub fn verdict(&self, name: &str, difference: Option<String>) -> Result<(), Failed> {
        match (self.fails.get(name), difference) {
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
