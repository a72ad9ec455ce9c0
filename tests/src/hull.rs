//! Finds the `hull` binary and starts pods with it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::environment;
use crate::process::{self, Outcome};

/// Time limit of a pod in seconds (`hull run --timeout`).
pub fn pod_seconds() -> u32 {
    60 * slowness()
}

/// Time after which the host side kills `hull` itself, if its own time limit failed.
pub fn host_limit() -> Duration {
    Duration::from_secs(u64::from(pod_seconds()) + 15)
}

/// Factor by which this machine is slower than usual: `HULL_TEST_SLOWNESS`, for emulated machines.
pub fn slowness() -> u32 {
    std::env::var("HULL_TEST_SLOWNESS").ok().and_then(|times| times.parse().ok()).unwrap_or(1)
}

/// The binary under test: `$HULL_BIN`, or the workspace's `hull`, built now in the tests' own profile.
pub fn binary() -> Result<&'static Path> {
    static BINARY: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    match BINARY.get_or_init(|| locate().map_err(|error| format!("{error:#}"))) {
        Ok(path) => Ok(path),
        Err(message) => bail!("{message}"),
    }
}

/// The workspace's `hull` with a keel whose large allocations fail often, built in a separate directory.
pub fn failing_binary() -> Result<PathBuf> {
    build(Some("failing-heap"))
}

/// Fails with a clear message if pods can't run on this machine.
pub fn require_kvm() -> Result<()> {
    std::fs::File::options().read(true).write(true).open("/dev/kvm").context(
        "these tests run programs in virtual machines and need read and write access to /dev/kvm; \
         none of them is skipped silently",
    )?;
    Ok(())
}

/// `hull run OPTIONS -- COMMAND` with the tests' environment and time limit (unless the options have one), from a directory that grants nothing.
pub fn run_command(options: &[&str], command: &[&str]) -> Result<Command> {
    run_command_of(binary()?, options, command)
}

/// The same with another `hull`.
pub fn run_command_of(hull: &Path, options: &[&str], command: &[&str]) -> Result<Command> {
    let mut hull = Command::new(hull);
    environment::set_variables(&mut hull);
    hull.current_dir("/").arg("run");
    if !options.contains(&"--timeout") {
        hull.args(["--timeout", &pod_seconds().to_string()]);
    }
    let more = std::env::var("HULL_TEST_OPTIONS").unwrap_or_default();
    hull.args(more.split_whitespace()).args(options).arg("--").args(command);
    Ok(hull)
}

/// Runs `hull run OPTIONS -- COMMAND` with no input and collects its outcome.
pub fn run(options: &[&str], command: &[&str]) -> Result<Outcome> {
    process::run(&mut run_command(options, command)?, Stdio::null(), host_limit())
}

/// The same for a command that must end by itself.
///
/// # Panics
/// Without `/dev/kvm`, if `hull` cannot be started, and if it did not end in time.
#[track_caller]
pub fn run_to_end(options: &[&str], command: &[&str]) -> Outcome {
    require_kvm().unwrap();
    let outcome = run(options, command).unwrap();
    assert!(!outcome.timed_out, "hull did not end: {}", process::text(&outcome.stderr));
    outcome
}

fn locate() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("HULL_BIN") {
        let path = PathBuf::from(path);
        ensure!(path.is_file(), "HULL_BIN names {}, which is no file", path.display());
        return Ok(path);
    }
    build(None)
}

/// Builds `hull` in the tests' own profile: with features of keel in a target directory of its own.
fn build(features: Option<&str>) -> Result<PathBuf> {
    // The test executable lies in <target>/<profile>/deps.
    let test = std::env::current_exe()?;
    let directory = test.parent().and_then(Path::parent).context("the test executable has no profile directory")?;
    let release = directory.file_name().is_some_and(|name| name == "release");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet", "--package", "hull", "--manifest-path"]);
    cargo.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.toml"));
    let target = directory.parent().context("the profile directory has no parent")?;
    let target = features.map_or(target.to_path_buf(), |features| target.join(features));
    cargo.arg("--target-dir").arg(&target);
    if let Some(features) = features {
        cargo.env("HULL_KEEL_FEATURES", features);
    }
    if release {
        cargo.arg("--release");
    }
    ensure!(cargo.status().context("cannot start cargo")?.success(), "building hull failed");
    let binary = target.join(directory.file_name().unwrap_or_default()).join("hull");
    ensure!(binary.is_file(), "{} was not built", binary.display());
    Ok(binary)
}
