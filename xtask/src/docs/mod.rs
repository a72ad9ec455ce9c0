//! `cargo xtask docs`: writes the generated pages, and checks the paths that documents name.

mod coverage;
mod paths;
mod unsafe_modules;

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

/// The generated page, from the repository's root.
const COVERAGE: &str = "docs/syscalls/README.md";

/// Runs the command: no argument writes the pages, `--check` only compares. Both check the paths that documents name.
pub fn run(root: &Path, arguments: &[String]) -> Result<ExitCode> {
    let check = match arguments {
        [] => false,
        [only] if only == "--check" => true,
        _ => bail!("usage: cargo xtask docs [--check]"),
    };
    let page = coverage::page()?;
    let path = root.join(COVERAGE);
    let mut faults = Vec::new();
    if check {
        if fs::read_to_string(&path).unwrap_or_default() != page {
            faults.push(format!("{COVERAGE} is not current; run `cargo xtask docs`"));
        }
    } else {
        fs::write(&path, page).with_context(|| format!("cannot write {COVERAGE}"))?;
    }
    let (soundness, unnamed) = unsafe_modules::current(root)?;
    let path = root.join(unsafe_modules::DOCUMENT);
    if !check {
        fs::write(&path, soundness)?;
    } else if fs::read_to_string(&path)? != soundness {
        faults.push(format!("{} is not current; run `cargo xtask docs`", unsafe_modules::DOCUMENT));
    }
    faults.extend(unnamed);
    faults.extend(paths::check(root)?);
    if faults.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    for fault in &faults {
        eprintln!("{fault}");
    }
    Ok(ExitCode::FAILURE)
}
