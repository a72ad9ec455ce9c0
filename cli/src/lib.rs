//! The `hull` command, as a library for its fuzz target.

mod args;
mod broker;
mod cgroup;
mod commands;
mod container;
mod cpus;
mod docker;
mod doctor;
mod environment;
mod failure;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod identity;
mod images;
mod keeper;
mod limits;
mod nested;
mod network;
mod pods;
mod policy;
mod rate;
mod record;
mod report;
mod rights;
mod run;
mod seccomp;
mod signals;
mod trace;
mod usage;
mod values;
mod view;

use failure::EXIT_FAILURE;
use monitor::connectors::streams::TerminalGuard;
use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

/// Parses the command line, runs the command, and reports errors.
pub fn main() -> ExitCode {
    std::panic::set_hook(Box::new(|info| panicked(info)));
    if let Err(failure) = limits::check_stack() {
        let _ = writeln!(std::io::stderr(), "hull: {failure}");
        return ExitCode::from(failure.code());
    }
    let words: Vec<OsString> = docker::rewritten(args::Hull::shortened(std::env::args_os().collect()));
    let arguments = match args::Hull::parse_words(&words) {
        Ok(arguments) => arguments,
        // Ignore write errors on standard error and output.
        Err(error) if error.use_stderr() => {
            let failure = usage::explain(&error, &words);
            let _ = writeln!(std::io::stderr(), "hull: {failure}");
            return ExitCode::from(failure.code());
        }
        // Help and version are successes.
        Err(error) => {
            let _ = error.print();
            return ExitCode::SUCCESS;
        }
    };
    let outcome = commands::dispatch(arguments.command);
    TerminalGuard::restore();
    keeper::dismiss();
    match outcome {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            // Ignore write errors on standard error.
            let _ = writeln!(std::io::stderr(), "hull: {failure}");
            ExitCode::from(failure.code())
        }
    }
}

/// Ends the process with one line after a panic in any thread: the other threads can't continue with inconsistent
/// state.
fn panicked(info: &std::panic::PanicHookInfo<'_>) -> ! {
    TerminalGuard::restore();
    keeper::dismiss();
    let why = info.payload_as_str().unwrap_or("no text").replace('\n', " ");
    let place = info.location().map_or(String::new(), |place| format!(" at {}:{}", place.file(), place.line()));
    let _ = writeln!(std::io::stderr(), "hull: internal error: {why}{place}; please report this");
    std::process::exit(EXIT_FAILURE.into())
}
