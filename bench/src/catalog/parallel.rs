//! Speed-up by a second worker, `hull bench parallel`, and by four workers on four virtual CPUs, `hull bench
//! parallel4`.

use super::{Benchmark, Kind};

/// Rows of an operation of `workload::parallel`: two processes, two threads, four processes, four threads.
macro_rules! gains {
    ($operation:literal, $what:literal) => {
        [
            gains!("parallel-", $operation, "-processes", "processes,2", "2", "two processes through one: ", $what),
            gains!("parallel-", $operation, "-threads", "threads,2", "2", "two threads through one: ", $what),
            gains!("parallel4-", $operation, "-processes", "processes,4", "4", "four processes through one: ", $what),
            gains!("parallel4-", $operation, "-threads", "threads,4", "4", "four threads through one: ", $what),
        ]
    };
    ($head:literal, $operation:literal, $tail:literal, $workers:literal, $cpus:literal, $kind:literal, $what:literal) => {
        Benchmark {
            name: concat!($head, $operation, $tail),
            what: concat!("throughput of ", $kind, $what),
            kind: Kind::Gain(concat!($operation, ",", $workers)),
            options: &["--cpus", $cpus],
        }
    };
}

/// All of them.
pub const GAINS: &[[Benchmark; 4]] = &[
    gains!("spin", "integer arithmetic"),
    gains!("devnull", "write and read of 64 bytes on /dev/null"),
    gains!("getppid", "a system call that does nothing else"),
    gains!("futex-wake", "FUTEX_WAKE without a waiter"),
    gains!("pipe", "a byte through a pipe of the worker's own"),
    gains!("unix", "a byte through an AF_UNIX pair of the worker's own"),
    gains!("epoll", "epoll_wait that returns at once"),
    gains!("open", "open and close of one file"),
    gains!("stat", "stat of one path"),
    gains!("read-64k", "64 KiB of one cached file"),
    gains!("map", "a page mapped and unmapped"),
    gains!("memory", "1 MiB mapped, touched and unmapped"),
    gains!("fork", "fork, exit and wait"),
    gains!("exec", "fork, exec of /bin/true and wait"),
];
