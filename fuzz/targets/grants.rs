//! Combinations of grants, one in another: what each export reaches, and what the jail masks of it.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| hull_cli::fuzzing::grants(data));
