//! Program text of this machine.

use std::fs;
use std::path::PathBuf;

/// Executable segments of an ELF file with their file offsets.
pub fn segments(file: &[u8]) -> Vec<(u64, &[u8])> {
    let number = |at: usize, len: usize| {
        file.get(at..at + len).map_or(0, |bytes| bytes.iter().rev().fold(0u64, |v, &b| v << 8 | u64::from(b)))
    };
    let headers = (0..number(56, 2)).map(|i| (number(32, 8) + 56 * i) as usize);
    let executable = headers.filter(|&h| number(h, 4) == 1 && number(h + 4, 4) & 1 != 0);
    executable
        .filter_map(|h| {
            let (offset, len) = (number(h + 8, 8), number(h + 32, 8));
            Some((offset, file.get(offset as usize..(offset + len) as usize)?))
        })
        .collect()
}

/// C libraries, interpreters, Go's tools (static, without C), Java's virtual machine and libraries; further files as
/// `HULL_TEST_TEXT=PATH:PATH`. Missing files are skipped.
pub fn files() -> Vec<PathBuf> {
    let usual = [
        "/lib/x86_64-linux-gnu/libc.so.6",
        "/lib64/ld-linux-x86-64.so.2",
        "/lib/ld-musl-x86_64.so.1",
        "/bin/busybox",
        "/bin/bash",
        "/usr/bin/perl",
        "/usr/bin/python3",
        "/usr/local/go/bin/go",
        "/usr/local/go/bin/gofmt",
        "/usr/lib/go/bin/go",
    ];
    let java = ["server/libjvm.so", "libjava.so", "libnio.so", "libnet.so"];
    let machines = fs::read_dir("/usr/lib/jvm").into_iter().flatten().flatten().map(|entry| entry.path().join("lib"));
    let further = std::env::var_os("HULL_TEST_TEXT");
    let further = further.iter().flat_map(std::env::split_paths);
    let mut files: Vec<PathBuf> = usual.into_iter().map(PathBuf::from).chain(further).collect();
    files.extend(machines.flat_map(|lib| java.map(|name| lib.join(name))));
    let mut files: Vec<PathBuf> = files.into_iter().filter_map(|path| fs::canonicalize(path).ok()).collect();
    files.sort();
    files.dedup();
    files
}
