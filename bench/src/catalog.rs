//! What is measured.

/// A benchmark: one or several rows of the table.
#[derive(Debug)]
pub struct Benchmark {
    /// Its name, unique.
    pub name: &'static str,
    /// One line about it.
    pub what: &'static str,
    /// How it is run.
    pub kind: Kind,
}

/// How a benchmark is run.
#[derive(Debug)]
pub enum Kind {
    /// A workload of this binary that measures itself.
    Dynamic(&'static [&'static str]),
    /// A workload of the static program that measures itself.
    Static(&'static str),
    /// A shell command that one process runs twice: two rows, first and again.
    Command(&'static str),
    /// From start to exit of the static program that does nothing.
    Start(Starter),
}

/// What the start of a pod is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Starter {
    /// fork, exec and wait.
    Host,
    /// `runc run`.
    Runc,
    /// `crun run`.
    Crun,
}

const fn dynamic(name: &'static str, what: &'static str, arguments: &'static [&'static str]) -> Benchmark {
    Benchmark { name, what, kind: Kind::Dynamic(arguments) }
}

const fn command(name: &'static str, what: &'static str, line: &'static str) -> Benchmark {
    Benchmark { name, what, kind: Kind::Command(line) }
}

const fn start(name: &'static str, what: &'static str, starter: Starter) -> Benchmark {
    Benchmark { name, what, kind: Kind::Start(starter) }
}

/// All benchmarks, in the order of the table.
pub const ALL: &[Benchmark] = &[
    dynamic("devnull", "write and read of 64 bytes on /dev/null, dynamic program", &["devnull"]),
    Benchmark {
        name: "devnull-static",
        what: "the same from a static program without a C library",
        kind: Kind::Static("devnull"),
    },
    dynamic("getppid", "a system call that does nothing else, dynamic program", &["getppid"]),
    Benchmark { name: "getppid-static", what: "the same from a static program", kind: Kind::Static("getppid") },
    dynamic("clock-gettime", "clock_gettime(CLOCK_MONOTONIC)", &["clock-gettime"]),
    start("start", "start to exit of a static program: fork and exec on the host, a pod", Starter::Host),
    start("start-runc", "the same: runc run, a pod", Starter::Runc),
    start("start-crun", "the same: crun run, a pod", Starter::Crun),
    dynamic("cpu-integer", "integer arithmetic", &["cpu-integer"]),
    dynamic("cpu-float", "floating-point arithmetic", &["cpu-float"]),
    dynamic("cpu-avx", "256-bit vector arithmetic", &["cpu-avx"]),
    dynamic("memory-copy", "copying 64 MiB, per KiB", &["memory-copy"]),
    dynamic("memory-touch", "touching fresh anonymous memory, per 4 KiB page", &["memory-touch"]),
    dynamic("fork-exit", "fork, exit and wait", &["fork-exit"]),
    dynamic("fork-exec", "fork, exec of the static program and wait", &["fork-exec", "STATIC"]),
    dynamic("open-stat-close", "open, fstat and close of a file", &["open-stat-close", "/etc/passwd"]),
    dynamic("stat", "stat of a path of four names", &["stat", "/usr/share/doc/bash"]),
    dynamic("read-4k", "reading 4 KiB of a cached file", &["read-4k", "/usr/bin/bash"]),
    dynamic("pipe", "a byte through a pipe to another process and back", &["pipe"]),
    dynamic("thread-wake", "a futex wake of another thread and back", &["thread-wake"]),
    command("list", "ls -lR /usr/lib", "ls -lR /usr/lib"),
    command("find", "find /usr", "find /usr"),
    command(
        "sha256",
        "sha256sum of the libraries in /usr/lib/x86_64-linux-gnu up to 4 MiB",
        "find /usr/lib/x86_64-linux-gnu -maxdepth 1 -type f -size -4096k -exec sha256sum {} +",
    ),
    command("python", "python3 that imports json and subprocess", "/usr/bin/python3 -c 'import json, subprocess'"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        for (i, benchmark) in ALL.iter().enumerate() {
            assert!(ALL[..i].iter().all(|other| other.name != benchmark.name), "{}", benchmark.name);
        }
    }
}
