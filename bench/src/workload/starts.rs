//! Starts of a program, for commands that only run in a namespace which this process is not in.

use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use crate::statistics::summarise;

/// Times from start to exit of each of `count` commands, in ns.
pub fn times(count: u32, mut make: impl FnMut() -> Command) -> Result<Vec<f64>> {
    (0..count)
        .map(|_| {
            let mut command = make();
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let start = Instant::now();
            let output = command.output()?;
            let elapsed = start.elapsed().as_nanos() as f64;
            let message = String::from_utf8_lossy(&output.stderr);
            ensure!(output.status.success(), "{}: {}", output.status, message.lines().next().unwrap_or("no message"));
            Ok(elapsed)
        })
        .collect()
}

/// The median for a description: their number and the words of the command, each on a line.
pub fn median(description: &str) -> Result<f64> {
    let mut lines = description.lines();
    let count = lines.next().and_then(|line| line.parse().ok()).context("the number of starts")?;
    let (program, words) = (lines.next().context("a program")?, lines.collect::<Vec<_>>());
    let samples = times(count, || {
        let mut command = Command::new(program);
        command.args(&words);
        command
    })?;
    Ok(summarise(&samples).context("at least one start")?.median)
}
