//! The ELF loader: headers, segments, interpreter.
#![no_main]

use keel_core::elf::{Header, Image, interpreter_path};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let _ = interpreter_path(data);
    let Ok(header) = Header::parse(data) else { return };
    let len = header.table_len();
    let table = &data[data.len().min(64)..];
    // Include truncated tables.
    let table = table.get(..len).unwrap_or(table);
    if let Ok(image) = Image::parse(header, table, 1 << 47) {
        assert!(image.start() <= image.end() && image.end() <= 1 << 47);
    }
});
