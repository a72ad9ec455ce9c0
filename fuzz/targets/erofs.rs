//! EROFS images of any bytes, as keel reads them.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| keel_vfs::fuzzing::image(data));
