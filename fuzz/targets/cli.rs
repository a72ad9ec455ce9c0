//! The command line: options, grants, users, environment, up to what the monitor would start.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hull_cli::fuzzing::command_line(data));
