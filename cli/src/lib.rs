//! The `hull` command, as a library for its fuzz target.

mod args;
mod cgroup;
mod commands;
mod doctor;
mod environment;
mod failure;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod identity;
mod keeper;
mod report;
mod run;
mod signals;
mod trace;
mod values;
mod view;

use clap::Parser;
use failure::EXIT_FAILURE;
use monitor::connectors::streams::TerminalGuard;
use std::io::Write;
use std::process::ExitCode;

/// The command: reads the command line, does what it says, and tells how it ended.
pub fn main() -> ExitCode {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        TerminalGuard::restore();
        report(info);
    }));
    let arguments = match args::Hull::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version are no errors. Nothing can be done about a closed standard error.
            let _ = error.print();
            return if error.use_stderr() { ExitCode::from(EXIT_FAILURE) } else { ExitCode::SUCCESS };
        }
    };
    let outcome = std::panic::catch_unwind(|| commands::dispatch(arguments.command));
    TerminalGuard::restore();
    keeper::dismiss();
    match outcome {
        Ok(Ok(code)) => ExitCode::from(code),
        Ok(Err(failure)) => {
            // Nothing can be done about a standard error that takes nothing.
            let _ = writeln!(std::io::stderr(), "hull: {failure}");
            ExitCode::from(failure.code())
        }
        Err(_) => ExitCode::from(EXIT_FAILURE),
    }
}
