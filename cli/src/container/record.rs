//! What is written and read about a pod beside its run: its id and labels.

use super::ContainerArgs;
use crate::failure::{Failure, Result, reason};
use std::fs::File;
use std::io::Write;

/// Parses `--label`: its key must not be empty.
pub fn label(text: &str) -> std::result::Result<String, String> {
    match text.split('=').next() {
        Some("") | None => Err("a label has no key; write KEY=VALUE".into()),
        _ => Ok(text.to_owned()),
    }
}

impl ContainerArgs {
    /// Checks files of labels, and writes the id of the pod to the file of `--cidfile`.
    pub fn record(&self, id: &str) -> Result<()> {
        for file in &self.label_file {
            let fail = |why: String| {
                Failure::request(format!("--label-file {}", file.display()), why, "write KEY=VALUE lines")
            };
            let text = std::fs::read_to_string(file).map_err(|error| fail(reason(&error)))?;
            let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
            lines
                .map(label)
                .collect::<std::result::Result<Vec<_>, _>>()
                .map_err(|_| fail("a label has no key".into()))?;
        }
        let Some(path) = &self.cidfile else { return Ok(()) };
        let written = File::create_new(path).and_then(|mut file| file.write_all(id.as_bytes()));
        written.map_err(|error| {
            let remedy = "name a new file in a directory that can be written";
            Failure::request(format!("--cidfile {}", path.display()), reason(&error), remedy)
        })
    }
}

/// A name for a container: 64 digits, of which the first 12 are its host name.
pub fn id() -> String {
    let mut bytes = [0; 32];
    // Without random bytes the name is only less unique.
    let _ = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
