//! Names in a private layer, compared with a directory of the host.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| keel_vfs::fuzzing::names(data));
