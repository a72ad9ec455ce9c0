//! Checks the subjects of commits against the rules of CONTRIBUTING.md.

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};

/// Commits since this date are checked.
const SINCE: &str = "2026-11-22T21:00:00Z";
/// Maximum length of a subject in characters.
const MOST: usize = 72;

/// Checks the subjects of the commits since then. Without git, or outside of a repository, checks none.
pub fn run(root: &Path) -> Result<ExitCode> {
    let log = ["log", "--no-merges", "--format=%h %s", "--since", SINCE];
    let output = Command::new("git").arg("-C").arg(root).args(log).output().context("cannot start git")?;
    ensure!(output.status.success(), "git log: {}", String::from_utf8_lossy(&output.stderr).trim());
    let text = String::from_utf8_lossy(&output.stdout);
    let mut failed = false;
    for (hash, subject) in text.lines().filter_map(|line| line.split_once(' ')) {
        if let Some(why) = objection(subject) {
            println!("{hash}: {why}: {subject}");
            failed = true;
        }
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The rule that a subject violates.
fn objection(subject: &str) -> Option<&'static str> {
    let Some((component, what)) = subject.split_once(": ") else { return Some("not COMPONENT: WHAT") };
    if subject.chars().count() > MOST {
        return Some("longer than 72 characters");
    }
    let is_component = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_/,. ".contains(c);
    if component.is_empty() || !component.chars().all(is_component) {
        return Some("the component is not a folder or module");
    }
    if what.ends_with('.') {
        return Some("ends with a full stop");
    }
    let verb = what.split(' ').next().unwrap_or_default();
    let is_past = verb.ends_with("ed") && !matches!(verb, "need" | "feed" | "embed" | "seed" | "exceed" | "proceed");
    is_past.then_some("not imperative")
}

#[cfg(test)]
mod tests {
    use super::objection;

    #[test]
    fn subjects_are_short_and_imperative() {
        assert_eq!(objection("mm: flush once for several pages"), None);
        assert_eq!(objection("flush once"), Some("not COMPONENT: WHAT"));
        assert_eq!(objection("mm: flushed once"), Some("not imperative"));
        assert_eq!(objection("mm: flush once."), Some("ends with a full stop"));
        assert!(objection(&format!("mm: {}", "x".repeat(70))).is_some());
    }
}
