//! Every program of `tests/abi` must print the same and end the same way in a pod as on the host.
//!
//! `HULL_TEST_ORACLE=N` runs each program N times on the host only and demands stable output: for work on the
//! programs themselves. 0 only builds them.

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hull_tests::cases::Expected;
use hull_tests::compile::{self, Program};
use hull_tests::environment::{self, Scratch};
use hull_tests::process::Outcome;
use hull_tests::{compare, hull, process};
use libtest_mimic::{Arguments, Failed, Trial};

/// A program on the host gets this long.
const NATIVE_LIMIT: Duration = Duration::from_secs(60);
/// Where a pod sees the programs.
const IN_POD: &str = "/tests";

fn main() -> Result<ExitCode> {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = arguments.test_threads.or(Some(2));
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("abi");
    let output = Path::new(env!("CARGO_TARGET_TMPDIR")).join("abi");
    let programs = compile::discover(&sources, &output)?;
    let names: Vec<String> = programs.iter().map(|program| program.name.clone()).collect();
    let expected = Arc::new(Expected::read(&sources.join("expected.toml"))?);
    ensure!(expected.unknown(&names).is_empty(), "expected.toml names no program: {:?}", expected.unknown(&names));
    let oracle_runs = std::env::var("HULL_TEST_ORACLE").ok().map(|count| count.parse::<u32>()).transpose()?;

    let header = sources.join("check.h");
    let trials = programs.into_iter().map(|program| {
        let (header, output, expected) = (header.clone(), output.clone(), Arc::clone(&expected));
        Trial::test(program.name.clone(), move || match oracle_runs {
            Some(runs) => stable(&program, &header, runs).map_err(failed),
            None => {
                let (host, pod) = on_both(&program, &header, &output).map_err(failed)?;
                expected.verdict(&program.name, &host, &pod)
            }
        })
    });
    Ok(libtest_mimic::run(&arguments, trials.collect()).exit_code())
}

fn failed(error: anyhow::Error) -> Failed {
    format!("{error:#}").into()
}

/// The program on the host, in a new directory of the kind that a pod's `/tmp` is.
fn native(program: &Program) -> Result<Outcome> {
    let directory = Scratch::new()?;
    let mut command = Command::new(&program.executable);
    environment::set_variables(&mut command);
    command.current_dir(&directory.0);
    let outcome = process::run(&mut command, Stdio::null(), NATIVE_LIMIT * hull::slowness())?;
    ensure!(!outcome.timed_out, "the host did not finish the program in time");
    ensure!(
        outcome.status == 0,
        "the program failed on the host with {}:\n{}{}",
        outcome.status,
        String::from_utf8_lossy(&outcome.stdout),
        String::from_utf8_lossy(&outcome.stderr)
    );
    Ok(outcome)
}

/// The program on the host and in a pod.
fn on_both(program: &Program, header: &Path, output: &Path) -> Result<(Outcome, Outcome)> {
    compile::build(program, header)?;
    hull::require_kvm()?;
    let host = native(program)?;
    let executables = output.to_str().context("the target directory's name is not UTF-8")?;
    let grant = format!("{executables}:{IN_POD}");
    let pod = hull::run(&["--ro", &grant, "-w", "/tmp"], &[&format!("{IN_POD}/{}", program.name)])?;
    Ok((host, pod))
}

fn stable(program: &Program, header: &Path, runs: u32) -> Result<()> {
    compile::build(program, header)?;
    if runs == 0 {
        return Ok(());
    }
    let first = native(program)?;
    for _ in 1..runs {
        if let Some(difference) = compare::difference(&first, &native(program)?) {
            anyhow::bail!("two runs on the host differ:\n{difference}");
        }
    }
    Ok(())
}
