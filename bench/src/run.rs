//! Takes the samples, alternately on the host and in a pod.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use crate::catalog::images::Work;
use crate::catalog::{Benchmark, Kind, Starter};
use crate::idle;
use crate::images;
use crate::outside::{self, Setting};
use crate::place::Place;
use crate::report::{Row, Unit};
use crate::statistics::summarise;
use crate::warm;

/// Starts of a program in one sample.
const STARTS: u32 = 10;
/// Number of simultaneous starts.
const AT_ONCE: u32 = Place::BUNDLES;
/// Time limit of a pod in seconds.
pub const LIMIT: &str = "120";

/// Where a program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// On the host, or by another tool.
    Host,
    /// In a pod.
    Pod,
}

/// Runs one benchmark; returns a row for each number that it prints.
pub fn measure(benchmark: &Benchmark, place: &Place, rounds: u32) -> Vec<Row> {
    let names = benchmark.rows();
    let missing = match benchmark.kind {
        Kind::Start(starter) | Kind::StartAtOnce(starter) => unusable(place, starter),
        Kind::Image(work) => images::unusable(work, place),
        Kind::Contained(_) => unusable(place, Starter::Runc),
        _ => benchmark.programs().find(|p| !Path::new(p).exists()).map(|program| format!("there is no {program}")),
    };
    let mut host: Vec<Vec<f64>> = vec![Vec::new(); names.len()];
    let mut pod = host.clone();
    let mut error = None;
    for _ in 0..rounds {
        if missing.is_some() || error.is_some() {
            break;
        }
        for (side, samples) in [(Side::Host, &mut host), (Side::Pod, &mut pod)] {
            if side == Side::Host && matches!(benchmark.kind, Kind::Idle | Kind::Returned) {
                continue;
            }
            match sample(benchmark, place, side) {
                Ok(numbers) if numbers.len() == samples.len() => {
                    // Not a number: the row does not exist on this side.
                    let numbers = samples.iter_mut().zip(numbers).filter(|(_, number)| !number.is_nan());
                    numbers.for_each(|(samples, number)| samples.push(number));
                }
                Ok(numbers) => error = Some(format!("printed {} numbers", numbers.len())),
                Err(failure) => error = Some(format!("{side:?}: {failure:#}").to_lowercase()),
            }
        }
    }
    let rows = names.into_iter().zip(host.iter().zip(&pod));
    rows.map(|(name, (host, pod))| Row {
        unit: match (&benchmark.kind, name.as_str()) {
            (Kind::Idle, "idle-wakeups") => Unit::PerSecond,
            (Kind::Idle, "idle-memory" | "idle-memory-all")
            | (Kind::Returned | Kind::Image(Work::Shared { .. }), _) => Unit::Bytes,
            (Kind::Gain(_), _) => Unit::Gain,
            (Kind::Net { .. }, name) if name.ends_with("-exits") => Unit::PerOperation,
            _ => Unit::Ns,
        },
        name,
        host: summarise(host),
        pod: summarise(pod),
        skipped: missing.clone(),
        error: error.clone(),
    })
    .collect()
}

fn sample(benchmark: &Benchmark, place: &Place, side: Side) -> Result<Vec<f64>> {
    if matches!(benchmark.kind, Kind::Command(_) | Kind::Twice(_)) {
        warm::memory();
    }
    match benchmark.kind {
        Kind::WithLibc(arguments) | Kind::Twice(arguments) => {
            let words: Vec<&str> = ["hull", "bench-workload"].iter().chain(arguments).copied().collect();
            numbers(&words, benchmark.options, place, side)
        }
        Kind::Gain(description) => {
            numbers(&["hull", "bench-workload", "parallel", description], benchmark.options, place, side)
        }
        Kind::Script(script) => numbers(&["hull", "bench-workload", "script", script], benchmark.options, place, side),
        Kind::Static(name) => numbers(&["static", name], benchmark.options, place, side),
        Kind::Command(line) => numbers(&["hull", "bench-workload", "command", line], benchmark.options, place, side),
        Kind::Start(starter) => starts(place, side, starter).map(|number| vec![number]),
        Kind::StartAtOnce(starter) => starts_at_once(place, side, starter).map(|number| vec![number]),
        Kind::Net { talk, rules } => {
            let setting = match (side, rules) {
                (Side::Host, false) => Setting::Host,
                (Side::Host, true) | (Side::Pod, false) => Setting::Pod,
                (Side::Pod, true) => Setting::Rules,
            };
            outside::measure(talk, setting, benchmark.options, place)
        }
        Kind::Image(work) => images::sample(work, side, place),
        Kind::Contained(arguments) if side == Side::Host => contained(arguments, place),
        Kind::Contained(arguments) => {
            let words: Vec<&str> = ["hull", "bench-workload"].iter().chain(arguments).copied().collect();
            numbers(&words, benchmark.options, place, side)
        }
        Kind::Idle => idle::measure(place),
        Kind::Returned => idle::measure_returned(place),
        Kind::Bare(host, bare) => {
            let name = if side == Side::Host { host } else { bare };
            numbers(&["hull", "bench-workload", name], benchmark.options, place, Side::Host)
        }
    }
}

/// Runs a program on one side and parses the numbers that it prints.
fn numbers(words: &[&str], options: &[&str], place: &Place, side: Side) -> Result<Vec<f64>> {
    let base = match side {
        Side::Host => place.directory.display().to_string(),
        Side::Pod => Place::IN_POD.to_owned(),
    };
    let (program, arguments) = words.split_first().context("a command has words")?;
    let program = format!("{base}/{program}");
    let arguments = arguments.iter().map(|a| a.replace("PLACE", &base));
    let mut command = match side {
        Side::Host => Command::new(program),
        Side::Pod => {
            let mut command = pod(place, options);
            command.arg(program);
            command
        }
    };
    small_environment(&mut command);
    let output = command.args(arguments).current_dir("/").stdin(Stdio::null()).output()?;
    ensure!(
        output.status.success(),
        "{}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr).lines().next().unwrap_or("no message")
    );
    parse(&String::from_utf8_lossy(&output.stdout))
}

/// Numbers between white space.
pub fn parse(text: &str) -> Result<Vec<f64>> {
    text.split_whitespace().map(|word| word.parse().context("printed something else than numbers")).collect()
}

/// Sets the environment of a pod, on both sides: a large environment would slow down the host side only.
pub fn small_environment(command: &mut Command) {
    let kept = ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "COLORTERM", "LANG", "TZ"];
    let kept = kept.iter().filter_map(|name| Some((*name, std::env::var_os(name)?)));
    let kept: Vec<_> = kept.collect();
    command.env_clear().envs(kept);
}

/// `hull run OPTIONS … --`.
pub fn pod(place: &Place, options: &[&str]) -> Command {
    let mut command = Command::new(&place.hull);
    let host = place.directory.display().to_string();
    let options = options.iter().map(|option| option.replacen("PLACE", &host, 1).replace("PLACE", Place::IN_POD));
    command.arg("run").args(options).args(["--timeout", LIMIT, "--ro"]);
    command.arg(format!("{}:{}", place.directory.display(), Place::IN_POD)).arg("--");
    command
}

/// Start number `number` of the static program.
fn starter_command(place: &Place, side: Side, starter: Starter, number: u32) -> Command {
    let mut command = match (side, starter) {
        (Side::Pod, _) => {
            let mut command = pod(place, &[]);
            command.arg(format!("{}/static", Place::IN_POD));
            command
        }
        (Side::Host, Starter::Host) => Command::new(place.directory.join("static")),
        (Side::Host, Starter::Runc | Starter::Crun) => {
            let mut command = Command::new(if starter == Starter::Runc { "runc" } else { "crun" });
            command.arg("run").arg("--bundle").arg(place.bundle(number));
            command.arg(format!("hull-bench-{}-{number}", std::process::id()));
            command
        }
    };
    small_environment(&mut command);
    command.current_dir("/").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn check_start(output: &Output) -> Result<()> {
    let message = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}: {}", output.status, message.lines().next().unwrap_or("no message"));
    Ok(())
}

/// Nanoseconds from start to exit of the static program.
fn starts(place: &Place, side: Side, starter: Starter) -> Result<f64> {
    if (side, starter) == (Side::Host, Starter::Crun) && images::has_hybrid_cgroups() {
        return images::start_crun(&place.hull, &place.bundle(0), &place.directory, STARTS);
    }
    let start = Instant::now();
    for number in 0..STARTS {
        check_start(&starter_command(place, side, starter, number).output()?)?;
    }
    Ok(start.elapsed().as_nanos() as f64 / f64::from(STARTS))
}

/// The same for simultaneous starts, per program.
fn starts_at_once(place: &Place, side: Side, starter: Starter) -> Result<f64> {
    let start = Instant::now();
    let children: Vec<_> =
        (0..AT_ONCE).map(|number| starter_command(place, side, starter, number).spawn()).collect::<Result<_, _>>()?;
    for child in children {
        check_start(&child.wait_with_output()?)?;
    }
    Ok(start.elapsed().as_nanos() as f64 / f64::from(AT_ONCE))
}

/// Runs a workload in a container of runc.
fn contained(arguments: &[&str], place: &Place) -> Result<Vec<f64>> {
    let bundle = place.container(arguments)?;
    let mut command = Command::new("runc");
    command.arg("run").arg("--bundle").arg(bundle).arg(format!("hull-bench-{}", std::process::id()));
    small_environment(&mut command);
    let output = command.current_dir("/").stdin(Stdio::null()).output()?;
    check_start(&output)?;
    parse(&String::from_utf8_lossy(&output.stdout))
}

/// Why another runtime can't be measured: it is not installed, or does not work on this machine.
fn unusable(place: &Place, starter: Starter) -> Option<String> {
    let name = match starter {
        Starter::Host => return None,
        Starter::Runc => "runc",
        Starter::Crun => "crun",
    };
    if !is_installed(name) {
        return Some(format!("{name} is not installed"));
    }
    starts(place, Side::Host, starter).err().map(|error| format!("{name}: {error:#}"))
}

pub fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
}
