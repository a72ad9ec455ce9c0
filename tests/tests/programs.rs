//! Every command of `tests/programs/*.toml` must have the same output and exit status in a pod as on the host.
//!
//! `HULL_TEST_LONG=1` adds the long ones. `HULL_TEST_ORACLE=N` runs each N times on the host only.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hull_tests::cases::Expected;
use hull_tests::environment::{self, Scratch};
use hull_tests::process::Outcome;
use hull_tests::{compare, hull, process};
use libtest_mimic::{Arguments, Failed, Trial};
use serde::Deserialize;

/// Time limit of a command on the host.
const NATIVE_LIMIT: Duration = Duration::from_secs(240);
/// Where a pod sees the result of a case's `build`.
const BUILT: &str = "/built";

/// A file of cases.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    case: Vec<Case>,
}

/// A command and its settings.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    /// Unique name, prefixed with the table's name.
    name: String,
    /// Script for `/bin/sh -c`, run in an empty directory.
    #[serde(default)]
    script: String,
    /// Instead of a script: the command itself.
    #[serde(default)]
    command: Vec<String>,
    /// Further options of `hull run`.
    #[serde(default)]
    options: Vec<String>,
    /// Script run on the host beforehand, in a directory that the command sees as `$BUILT`.
    build: Option<String>,
    /// Programs that the case needs, as names or paths. It fails without them.
    #[serde(default)]
    needs: Vec<String>,
    /// Exit status on the host; any other status means that the host is no oracle.
    #[serde(default)]
    status: i32,
    /// Only with `HULL_TEST_LONG=1`.
    #[serde(default)]
    long: bool,
}

fn main() -> Result<ExitCode> {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = arguments.test_threads.or(Some(2));
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs");
    let cases = read_cases(&directory)?;
    let names: Vec<String> = cases.iter().map(|case| case.name.clone()).collect();
    let expected = Arc::new(Expected::read(&directory.join("expected"))?);
    ensure!(expected.unknown(&names).is_empty(), "the list of failures names no case: {:?}", expected.unknown(&names));
    let oracle_runs = std::env::var("HULL_TEST_ORACLE").ok().map(|count| count.parse::<u32>()).transpose()?;
    let long = std::env::var_os("HULL_TEST_LONG").is_some();

    let trials = cases.into_iter().map(|case| {
        let expected = Arc::clone(&expected);
        let ignored = case.long && !long;
        Trial::test(case.name.clone(), move || match oracle_runs {
            Some(runs) => stable(&case, runs).map_err(failed),
            None => {
                let (host, pod) = on_both(&case).map_err(failed)?;
                expected.verdict(&case.name, &host, &pod)
            }
        })
        .with_ignored_flag(ignored)
    });
    Ok(libtest_mimic::run(&arguments, trials.collect()).exit_code())
}

fn failed(error: anyhow::Error) -> Failed {
    format!("{error:#}").into()
}

fn read_cases(directory: &Path) -> Result<Vec<Case>> {
    let mut files: Vec<PathBuf> = fs::read_dir(directory)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "toml"));
    files.sort();
    let mut cases = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file)?;
        let table: Table = toml::from_str(&text).with_context(|| format!("{} is malformed", file.display()))?;
        let stem = file.file_stem().unwrap_or_default().to_string_lossy();
        cases.extend(table.case.into_iter().map(|case| Case { name: format!("{stem}/{}", case.name), ..case }));
    }
    Ok(cases)
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
}

impl Case {
    fn command(&self) -> Vec<&str> {
        if self.command.is_empty() {
            return vec!["/bin/sh", "-c", &self.script];
        }
        self.command.iter().map(String::as_str).collect()
    }

    /// Fails if the host lacks a program: a skipped case would prove nothing.
    fn require_programs(&self) -> Result<()> {
        for program in &self.needs {
            ensure!(is_installed(program), "{program} is not installed; .ci/run installs what the tests need");
        }
        Ok(())
    }

    /// Runs the host's preparation, if the case has one.
    fn prepare(&self) -> Result<Option<Scratch>> {
        let Some(build) = &self.build else { return Ok(None) };
        let scratch = Scratch::new()?;
        let output = Command::new("/bin/sh").args(["-ec", build]).current_dir(&scratch.0).output()?;
        ensure!(output.status.success(), "the build failed:\n{}", String::from_utf8_lossy(&output.stderr));
        Ok(Some(scratch))
    }
}

fn native(case: &Case, built: Option<&Scratch>) -> Result<Outcome> {
    let directory = Scratch::new()?;
    let words = case.command();
    let (program, arguments) = words.split_first().context("a case has a command")?;
    let mut command = Command::new(program);
    environment::set_variables(&mut command);
    command.args(arguments).current_dir(&directory.0);
    if let Some(built) = built {
        command.env("BUILT", &built.0);
    }
    let outcome = process::run(&mut command, Stdio::null(), NATIVE_LIMIT)?;
    ensure!(!outcome.timed_out, "the host did not finish the command in time");
    ensure!(
        outcome.status == case.status,
        "the host is no oracle: status {} instead of {}\n{}{}",
        outcome.status,
        case.status,
        String::from_utf8_lossy(&outcome.stdout),
        String::from_utf8_lossy(&outcome.stderr)
    );
    Ok(outcome)
}

/// The command on the host and in a pod.
fn on_both(case: &Case) -> Result<(Outcome, Outcome)> {
    hull::require_kvm()?;
    case.require_programs()?;
    let built = case.prepare()?;
    let host = native(case, built.as_ref())?;
    let mut options: Vec<String> = vec!["-w".into(), "/tmp".into()];
    if let Some(built) = &built {
        options.extend([
            "--ro".into(),
            format!("{}:{BUILT}", built.0.display()),
            "-e".into(),
            format!("BUILT={BUILT}"),
        ]);
    }
    options.extend(case.options.iter().cloned());
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let pod = hull::run(&options, &case.command())?;
    Ok((host, pod))
}

fn stable(case: &Case, runs: u32) -> Result<()> {
    case.require_programs()?;
    let built = case.prepare()?;
    let first = native(case, built.as_ref())?;
    for _ in 1..runs {
        if let Some(difference) = compare::difference(&first, &native(case, built.as_ref())?) {
            anyhow::bail!("two runs on the host differ:\n{difference}");
        }
    }
    Ok(())
}
