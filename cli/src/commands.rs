//! From a parsed command line to the code that serves it.

use crate::args::Command;
use crate::failure::Result;
use crate::{doctor, run};

/// Runs a command; its exit code.
pub fn dispatch(command: Command) -> Result<u8> {
    match command {
        Command::Run(options) => run::run(options, false),
        Command::Trace(options) => run::run(options, true),
        Command::Doctor => Ok(doctor::doctor()),
    }
}
