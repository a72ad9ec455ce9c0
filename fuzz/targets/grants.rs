//! Combinations of nested grants: the files that each export reaches, and the places that the jail masks.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| hull_cli::fuzzing::grants(data));
