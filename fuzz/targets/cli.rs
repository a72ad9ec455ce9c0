//! The command line: options, grants, users, environment, up to the monitor's configuration.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hull_cli::fuzzing::command_line(data));
