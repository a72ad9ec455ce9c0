//! `cargo xtask fuzz`: builds the fuzz targets with coverage counters, on a stable compiler, and runs them.

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail, ensure};

/// Target triple; naming it keeps the instrumentation out of build scripts.
const TRIPLE: &str = "x86_64-unknown-linux-gnu";
/// Coverage instrumentation for libFuzzer.
const COVERAGE: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
     -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
     -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1";

/// `fuzz [TARGET|all] [SECONDS]`: runs each target that long (10 s by default), from the inputs in `fuzz/corpus` and
/// the corpus of earlier runs.
pub fn run(root: &Path, arguments: &[String]) -> Result<ExitCode> {
    let targets = targets(root)?;
    let (target, seconds) = match arguments {
        [] => ("all", 10),
        [target] => (target.as_str(), 10),
        [target, seconds] => (target.as_str(), seconds.parse().context("SECONDS is a number")?),
        _ => bail!("usage: cargo xtask fuzz [TARGET|all] [SECONDS]   (targets: {})", targets.join(", ")),
    };
    let chosen: Vec<&str> =
        targets.iter().map(String::as_str).filter(|name| target == "all" || *name == target).collect();
    ensure!(!chosen.is_empty(), "no target {target}: there are {}", targets.join(", "));
    let build = root.join("target/fuzz");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["build", "--release", "--locked", "--target", TRIPLE])
        .current_dir(root.join("fuzz"))
        .env("CARGO_TARGET_DIR", &build)
        .env("RUSTFLAGS", COVERAGE)
        .env("HULL_KEEL_PROFILE", "none")
        .status()
        .context("cannot start cargo")?;
    ensure!(status.success(), "the fuzz targets do not build");
    let mut failed = Vec::new();
    for name in chosen {
        println!("== fuzz {name}: {seconds} s");
        if !fuzz(root, &build, name, seconds)? {
            failed.push(name);
        }
    }
    ensure!(failed.is_empty(), "inputs that fail were found for {}: see target/fuzz/artifacts", failed.join(", "));
    Ok(ExitCode::SUCCESS)
}

/// Names of the targets: the files of `fuzz/targets`.
fn targets(root: &Path) -> Result<Vec<String>> {
    let directory = root.join("fuzz/targets");
    let entries = std::fs::read_dir(&directory).with_context(|| format!("cannot list {}", directory.display()))?;
    let mut names = Vec::new();
    for entry in entries {
        names.extend(entry?.path().file_stem().map(|name| name.to_string_lossy().into_owned()));
    }
    names.sort();
    Ok(names)
}

fn fuzz(root: &Path, build: &Path, name: &str, seconds: u32) -> Result<bool> {
    let (found, seeds) = (build.join("corpus").join(name), root.join("fuzz/corpus").join(name));
    let artifacts = build.join("artifacts").join(name);
    for directory in [&found, &artifacts] {
        std::fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))?;
    }
    let mut command = Command::new(build.join(TRIPLE).join("release").join(name));
    command
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        .args(["-timeout=30", "-rss_limit_mb=2048", "-max_len=2048", "-verbosity=0", "-print_final_stats=1"])
        .arg(&found);
    // Temporary files of the targets go to a tmpfs if there is one, and are removed afterwards.
    let memory = Path::new("/dev/shm");
    let base = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    let scratch = base.join(format!("hull-fuzz-{}-{name}", std::process::id()));
    std::fs::create_dir(&scratch).with_context(|| format!("cannot create {}", scratch.display()))?;
    command.env("TMPDIR", &scratch);
    if seeds.is_dir() {
        command.arg(&seeds);
    }
    let status = command.status().with_context(|| format!("cannot start the target {name}"));
    // Ignore errors: a leftover is small.
    let _ = std::fs::remove_dir_all(&scratch);
    Ok(status?.success())
}
