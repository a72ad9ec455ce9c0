//! The repository's commands: `cargo xtask test` runs all checks, the cheap ones first.

mod coverage;
mod docs;
mod excerpt;
mod fuzz;
mod layers;
mod subjects;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use excerpt::Excerpt;

/// One check: its name for the summary, the workspace it runs in, and cargo's arguments.
struct Step {
    name: &'static str,
    workspace: Workspace,
    arguments: &'static [&'static str],
    /// A variable of its environment.
    variable: Option<(&'static str, &'static str)>,
}

impl Step {
    /// It builds the monitor with special flags and starts no pod: skip the build of keel.
    fn starts_no_pod(&self) -> bool {
        matches!(self.workspace, Workspace::Fuzz) || self.variable == Some(LOOM)
    }
}

/// Builds the models of the primitives.
const LOOM: (&str, &str) = ("RUSTFLAGS", "--cfg loom");

#[derive(Clone, Copy)]
enum Workspace {
    /// The host workspace.
    Host,
    /// The guest kernel.
    Keel,
    /// The fuzz targets.
    Fuzz,
}

const STEPS: &[Step] = &[
    Step { name: "format, host", workspace: Workspace::Host, arguments: &["fmt", "--all", "--check"], variable: None },
    Step { name: "format, keel", workspace: Workspace::Keel, arguments: &["fmt", "--all", "--check"], variable: None },
    Step {
        name: "format, fuzz targets",
        workspace: Workspace::Fuzz,
        arguments: &["fmt", "--all", "--check"],
        variable: None,
    },
    Step {
        name: "documents",
        workspace: Workspace::Host,
        arguments: &["run", "--quiet", "--package", "xtask", "--", "docs", "--check"],
        variable: None,
    },
    Step {
        name: "layers of the kernel",
        workspace: Workspace::Host,
        arguments: &["run", "--quiet", "--package", "xtask", "--", "layers"],
        variable: None,
    },
    Step {
        name: "subjects of commits",
        workspace: Workspace::Host,
        arguments: &["run", "--quiet", "--package", "xtask", "--", "subjects"],
        variable: None,
    },
    Step {
        name: "lints, keel",
        workspace: Workspace::Keel,
        arguments: &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"],
        variable: None,
    },
    Step {
        name: "lints, keel on the host",
        workspace: Workspace::Keel,
        arguments: &[
            "clippy",
            "--workspace",
            "--exclude",
            "keel",
            "--features",
            "hal/hosted",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ],
        variable: None,
    },
    Step {
        name: "lints, host",
        workspace: Workspace::Host,
        arguments: &["clippy", "--workspace", "--all-targets", "--release", "--", "-D", "warnings"],
        variable: None,
    },
    Step {
        name: "lints, fuzz targets",
        workspace: Workspace::Fuzz,
        arguments: &["clippy", "--locked", "--all-targets", "--", "-D", "warnings"],
        variable: None,
    },
    // The seed corpus and the corpus of earlier runs, and a few seconds of fuzzing.
    Step {
        name: "fuzz targets",
        workspace: Workspace::Host,
        arguments: &["run", "--quiet", "--package", "xtask", "--", "fuzz", "all", "4"],
        variable: None,
    },
    Step {
        name: "tests, keel",
        workspace: Workspace::Keel,
        arguments: &["test", "--workspace", "--exclude", "keel", "--features", "hal/hosted"],
        variable: None,
    },
    // All interleavings of the primitives, by loom.
    Step {
        name: "models, keel-hal",
        workspace: Workspace::Keel,
        arguments: &["test", "-p", "keel-hal", "--features", "hosted", "--lib", "model"],
        variable: Some(LOOM),
    },
    Step {
        name: "models, monitor",
        workspace: Workspace::Host,
        arguments: &["test", "-p", "hull-monitor", "--lib", "model"],
        variable: Some(LOOM),
    },
    Step {
        name: "lines of keel run on the host",
        workspace: Workspace::Host,
        arguments: &["run", "--quiet", "--package", "xtask", "--", "coverage"],
        variable: None,
    },
    Step {
        name: "tests, host and pods",
        workspace: Workspace::Host,
        arguments: &["test", "--workspace", "--release", "--no-fail-fast"],
        variable: None,
    },
    Step {
        name: "tests, one virtual CPU",
        workspace: Workspace::Host,
        arguments: &["test", "--package", "hull-tests", "--release", "--test", "abi"],
        variable: Some(("HULL_TEST_OPTIONS", "--cpus=1")),
    },
    Step {
        name: "tests, four virtual CPUs",
        workspace: Workspace::Host,
        arguments: &["test", "--package", "hull-tests", "--release", "--test", "abi"],
        // All four busy, even if the host has fewer processors.
        variable: Some(("HULL_TEST_OPTIONS", "--cpus=4 --busy-cpus=4")),
    },
];

fn main() -> Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("test") => test(&arguments[1..]),
        Some("coverage") => coverage::run(&root()?).map(|()| ExitCode::SUCCESS),
        Some("docs") => docs::run(&root()?, &arguments[1..]),
        Some("fuzz") => fuzz::run(&root()?, &arguments[1..]),
        Some("layers") => layers::run(&root()?),
        Some("subjects") => subjects::run(&root()?),
        _ => bail!(
            "usage: cargo xtask coverage|docs|fuzz|layers|subjects|test [WORD]   (only the checks whose name contains WORD)"
        ),
    }
}

fn test(words: &[String]) -> Result<ExitCode> {
    let chosen: Vec<&Step> = STEPS.iter().filter(|step| words.iter().all(|word| step.name.contains(word))).collect();
    ensure!(!chosen.is_empty(), "no check has such a name");
    let mut failed = Vec::new();
    for step in chosen {
        println!("== {}: cargo {}", step.name, step.arguments.join(" "));
        let start = Instant::now();
        let (passed, excerpt) = run(step)?;
        println!(
            "== {}: {} in {:.1} s",
            step.name,
            if passed { "ok" } else { "FAILED" },
            start.elapsed().as_secs_f64()
        );
        if !passed {
            failed.push((step.name, excerpt));
        }
    }
    if failed.is_empty() {
        println!("== all checks passed");
        return Ok(ExitCode::SUCCESS);
    }
    for (name, excerpt) in &failed {
        println!("== why \"{name}\" failed:");
        excerpt.lines().iter().for_each(|line| println!("{line}"));
    }
    let names: Vec<&str> = failed.iter().map(|(name, _)| *name).collect();
    println!("== failed: {}", names.join("; "));
    Ok(ExitCode::FAILURE)
}

/// Runs one check and forwards its output. Standard error is merged into it, to keep the order of lines.
fn run(step: &Step) -> Result<(bool, Excerpt)> {
    let root = root()?;
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(step.arguments);
    if let Some((name, value)) = step.variable {
        cargo.env(name, value);
    }
    let (directory, target) = match step.workspace {
        Workspace::Host => (root, None),
        Workspace::Keel => (root.join("keel"), Some("keel-checks")),
        Workspace::Fuzz => (root.join("fuzz"), Some("fuzz-checks")),
    };
    // The workspaces build the shared crates with different settings: separate target directories keep all caches.
    if let (Some(name), Some(target)) = (target, std::env::var_os("CARGO_TARGET_DIR")) {
        cargo.env("CARGO_TARGET_DIR", Path::new(&target).join(name));
    }
    if step.starts_no_pod() {
        cargo.env("HULL_KEEL_PROFILE", "none");
    }
    cargo.current_dir(directory);
    let (output, input) = std::io::pipe().context("cannot make a pipe")?;
    cargo.stdout(input.try_clone().context("cannot duplicate a pipe's end")?).stderr(input);
    let mut child = cargo.spawn().context("cannot start cargo")?;
    // Drop the command, which holds the write end of the pipe.
    drop(cargo);
    let (done, ended) = mpsc::channel();
    std::thread::spawn(move || {
        let mut excerpt = Excerpt::default();
        for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line);
            println!("{line}");
            excerpt.line(&line);
        }
        done.send(excerpt).ok();
    });
    let passed = child.wait().context("cannot wait for cargo")?.success();
    // A process that a test left running would keep the pipe open.
    let excerpt =
        ended.recv_timeout(Duration::from_secs(10)).context("a process outlived the check that started it")?;
    Ok((passed, excerpt))
}

fn root() -> Result<PathBuf> {
    Ok(Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask lies in the repository")?.to_owned())
}
