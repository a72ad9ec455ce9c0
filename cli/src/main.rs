//! The `hull` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    hull_cli::main()
}
