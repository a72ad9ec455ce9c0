//! The list of benchmarks.

pub mod images;
pub mod net;
mod parallel;
mod servers;

/// A benchmark: one or several rows of the table.
#[derive(Debug)]
pub struct Benchmark {
    /// Its name, unique.
    pub name: &'static str,
    /// One-line description.
    pub what: &'static str,
    /// How to run it.
    pub kind: Kind,
    /// Further options of `hull run`.
    pub options: &'static [&'static str],
}

/// Kinds of benchmarks.
#[derive(Debug)]
pub enum Kind {
    /// A workload of this binary that measures its own time.
    WithLibc(&'static [&'static str]),
    /// The same with two results and rows: the first use in a new process (and pod), and later ones.
    Twice(&'static [&'static str]),
    /// A workload of the static program that measures its own time.
    Static(&'static str),
    /// A shell command that one process runs twice: two rows, first and again.
    Command(&'static str),
    /// Time from start to exit of the static program.
    Start(Starter),
    /// The same for several simultaneous starts, per program.
    StartAtOnce(Starter),
    /// Resources of idle pods.
    Idle,
    /// Memory of a pod one second after it freed much memory.
    Returned,
    /// Speed-up of several workers over one: operation, kind of worker and their number, see `workload::parallel`.
    Gain(&'static str),
    /// A shell script that prints nanoseconds per operation. `SCRATCH` is an empty directory, removed
    /// afterwards.
    Script(&'static str),
    /// A program that talks to peers outside of the pod. With `rules` a pod with many more rules is compared with one with few.
    Net {
        /// What it does.
        talk: net::Talk,
        /// Whether rules are compared.
        rules: bool,
    },
    /// A pod of an image.
    Image(images::Work),
    /// A workload of this binary in a container of runc, compared with the same in a pod.
    Contained(&'static [&'static str]),
    /// A workload of the host, compared with a workload in a guest without keel.
    Bare(&'static str, &'static str),
}

/// The other side of a comparison with the start of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Starter {
    /// fork, exec and wait.
    Host,
    /// `runc run`.
    Runc,
    /// `crun run`.
    Crun,
}

impl Benchmark {
    /// Names of its rows.
    pub fn rows(&self) -> Vec<String> {
        let suffixes: &[&str] = match self.kind {
            Kind::Twice(_) | Kind::Command(_) => &["-first", "-again"],
            Kind::Net { talk, .. } => talk.rows(),
            Kind::Image(work) => work.rows(),
            Kind::Idle => &["-memory", "-memory-all", "-wakeups", "-cpu"],
            _ => &[""],
        };
        suffixes.iter().map(|suffix| format!("{}{suffix}", self.name)).collect()
    }

    /// Programs of the host that it runs, as absolute paths.
    pub fn programs(&self) -> impl Iterator<Item = &'static str> {
        let line = match self.kind {
            Kind::Command(line) | Kind::Script(line) => line,
            Kind::WithLibc(["once", line]) => line,
            Kind::Net { talk: net::Talk::Web { .. }, .. } => crate::outside::web::PROGRAMS,
            _ => "",
        };
        line.split_ascii_whitespace().filter(|word| word.starts_with("/usr/bin/") || word.starts_with("/usr/sbin/"))
    }
}

const fn with_libc(name: &'static str, what: &'static str, arguments: &'static [&'static str]) -> Benchmark {
    Benchmark { name, what, kind: Kind::WithLibc(arguments), options: &[] }
}

const fn twice(name: &'static str, what: &'static str, arguments: &'static [&'static str]) -> Benchmark {
    Benchmark { name, what, kind: Kind::Twice(arguments), options: &[] }
}

const fn command(name: &'static str, what: &'static str, line: &'static str) -> Benchmark {
    Benchmark { name, what, kind: Kind::Command(line), options: &[] }
}

const fn contained(name: &'static str, what: &'static str, arguments: &'static [&'static str]) -> Benchmark {
    Benchmark { name, what, kind: Kind::Contained(arguments), options: &[] }
}

const fn start(name: &'static str, what: &'static str, starter: Starter) -> Benchmark {
    Benchmark { name, what, kind: Kind::Start(starter), options: &[] }
}

const fn at_once(name: &'static str, what: &'static str, starter: Starter) -> Benchmark {
    Benchmark { name, what, kind: Kind::StartAtOnce(starter), options: &[] }
}

/// `hull run` options of benchmarks that write to the host: with the helper, and with an exit for each request.
const GRANT: &[&str] = &["--rw", "PLACE/work:PLACE/work"];
const GRANT_EXIT: &[&str] = &["--rw", "PLACE/work:PLACE/work", "--doorbell", "exit"];

const fn granted(name: &'static str, what: &'static str, arguments: &'static [&'static str]) -> Benchmark {
    Benchmark { options: GRANT, ..with_libc(name, what, arguments) }
}

const fn granted_exit(name: &'static str, arguments: &'static [&'static str]) -> Benchmark {
    Benchmark {
        options: GRANT_EXIT,
        ..with_libc(name, "the same with an exit for each request that must be answered", arguments)
    }
}

/// Unpacks an archive in the grant, and removes the old files.
const UNTAR: &[&str] =
    &["once", "mkdir PLACE/work/untar && /usr/bin/tar -xf PLACE/files.tar -C PLACE/work/untar\nrm -r PLACE/work/untar"];
/// Clones a repository into the grant, then removes it.
const CLONE: &[&str] = &[
    "once",
    "/usr/bin/git -c safe.directory=* clone -q --no-hardlinks PLACE/repository PLACE/work/clone\nrm -rf PLACE/work/clone",
];

/// All benchmarks, in the order of the table.
pub fn all() -> impl Iterator<Item = &'static Benchmark> {
    let net = net::ALL.iter().chain(net::DOORBELLS.iter().flatten());
    ONE.iter().chain(parallel::GAINS.iter().flatten()).chain(servers::ALL).chain(images::ALL).chain(net)
}

/// Benchmarks for one processor.
const ONE: &[Benchmark] = &[
    with_libc("devnull", "write and read of 64 bytes on /dev/null, program with glibc", &["devnull"]),
    Benchmark {
        name: "devnull-static",
        what: "the same from a static program without a C library",
        kind: Kind::Static("devnull"),
        options: &[],
    },
    with_libc("getppid", "a system call that does nothing else, program with glibc", &["getppid"]),
    Benchmark {
        name: "getppid-static",
        what: "the same from a static program",
        kind: Kind::Static("getppid"),
        options: &[],
    },
    with_libc("clock-gettime", "clock_gettime(CLOCK_MONOTONIC)", &["clock-gettime"]),
    with_libc("futex-wake", "FUTEX_WAKE without a waiter", &["futex-wake"]),
    with_libc("pipe-self", "a byte written to a pipe and read by the same thread", &["pipe-self"]),
    with_libc("lseek", "lseek to the start of a file", &["lseek", "/usr/bin/bash"]),
    with_libc("fstat", "fstat of a file", &["fstat", "/usr/bin/bash"]),
    with_libc("epoll-ready", "epoll_wait that returns a readable pipe at once", &["epoll-ready"]),
    with_libc("read-4k", "reading 4 KiB of a cached file", &["read-4k", "/usr/bin/bash"]),
    twice("open-stat-close", "open, fstat and close of 256 files", &["open-stat-close", "PLACE/files"]),
    twice(
        "host-open",
        "stat, open, fstat and close of 1,000 files in 20 directories of a grant",
        &["host-open", "PLACE/repository"],
    ),
    Benchmark {
        options: &["--doorbell", "exit"],
        ..twice(
            "host-open-exit",
            "the same with an exit for each request that must be answered",
            &["host-open", "PLACE/repository"],
        )
    },
    granted("write-64", "5 MB written to a granted file, 64 bytes at a time, per write", &["write-64", "PLACE/work"]),
    granted_exit("write-64-exit", &["write-64", "PLACE/work"]),
    granted("write-256", "the same, 256 bytes at a time", &["write-256", "PLACE/work"]),
    granted_exit("write-256-exit", &["write-256", "PLACE/work"]),
    granted("write-1024", "the same, 1,024 bytes at a time", &["write-1024", "PLACE/work"]),
    granted_exit("write-1024-exit", &["write-1024", "PLACE/work"]),
    granted(
        "create-unlink",
        "a file made in a grant, written, closed and removed, 3,000 times",
        &["create-unlink", "PLACE/work"],
    ),
    granted_exit("create-unlink-exit", &["create-unlink", "PLACE/work"]),
    granted(
        "append-4",
        "lines of 64 bytes that four processes append to a granted file, per line",
        &["append-4", "PLACE/work"],
    ),
    granted_exit("append-4-exit", &["append-4", "PLACE/work"]),
    granted("untar-rw", "tar unpacks 5,000 files of 17 MB into a grant", UNTAR),
    granted_exit("untar-rw-exit", UNTAR),
    granted("git-clone-rw", "git clone of a repository of 1,000 files into a grant", CLONE),
    granted_exit("git-clone-rw-exit", CLONE),
    with_libc("stat", "stat of a path of four names", &["stat", "/usr/share/doc/bash"]),
    start("start", "start to exit of a static program: fork and exec on the host, a pod", Starter::Host),
    start("start-runc", "the same: runc run, a pod", Starter::Runc),
    start(
        "start-crun",
        "the same: crun run (without cgroups where crun refuses those of the host), a pod",
        Starter::Crun,
    ),
    at_once("start-8", "eight at once, per program: fork and exec on the host, pods", Starter::Host),
    at_once("start-8-runc", "the same: runc run, pods", Starter::Runc),
    at_once("start-8-crun", "the same: crun run, pods", Starter::Crun),
    Benchmark {
        name: "idle",
        what: "a pod that waits: PSS, page tables and KVM's; all that it takes of the host's memory; wakeups and CPU time per second",
        kind: Kind::Idle,
        options: &[],
    },
    Benchmark {
        name: "idle-returned",
        what: "a pod that waits since one second, after it used 400 MB of memory and gave them back: PSS and page tables",
        kind: Kind::Returned,
        options: &[],
    },
    with_libc("cpu-integer", "integer arithmetic", &["cpu-integer"]),
    with_libc("cpu-float", "floating-point arithmetic", &["cpu-float"]),
    with_libc("cpu-avx", "256-bit vector arithmetic", &["cpu-avx"]),
    with_libc("cpu-dhrystone", "records, strings, calls and branches: a mixture like Dhrystone's", &["cpu-dhrystone"]),
    contained("cpu-dhrystone-runc", "the same: a container of runc, a pod", &["cpu-dhrystone"]),
    with_libc(
        "cpu-whetstone",
        "arrays, trigonometry, roots and logarithms: a mixture like Whetstone's",
        &["cpu-whetstone"],
    ),
    contained("cpu-whetstone-runc", "the same: a container of runc, a pod", &["cpu-whetstone"]),
    with_libc("cpu-stream-copy", "STREAM's copy of arrays of 32 MiB, per KiB moved", &["stream-copy"]),
    contained("cpu-stream-copy-runc", "the same: a container of runc, a pod", &["stream-copy"]),
    with_libc("cpu-stream-scale", "STREAM's scale, likewise", &["stream-scale"]),
    contained("cpu-stream-scale-runc", "the same: a container of runc, a pod", &["stream-scale"]),
    with_libc("cpu-stream-add", "STREAM's add, likewise", &["stream-add"]),
    contained("cpu-stream-add-runc", "the same: a container of runc, a pod", &["stream-add"]),
    with_libc("cpu-stream-triad", "STREAM's triad, likewise", &["stream-triad"]),
    contained("cpu-stream-triad-runc", "the same: a container of runc, a pod", &["stream-triad"]),
    with_libc("memory-copy", "copying 64 MiB, per KiB", &["memory-copy"]),
    with_libc("memory-triad", "STREAM's triad over three arrays of 32 MiB, per KiB moved", &["memory-triad"]),
    with_libc("memory-touch", "touching fresh anonymous memory, 16 MiB at a time, per 4 KiB page", &["memory-touch"]),
    twice("touch-64m", "touching 64 MiB of fresh anonymous memory once", &["touch-64m"]),
    with_libc(
        "private-write",
        "first stores to the pages of a private mapping of a file, in no order, per page",
        &["private-write", "/usr/bin/bash"],
    ),
    with_libc(
        "thread-stack",
        "a thread's stack mapped, its guard page set, three pages touched, unmapped",
        &["thread-stack"],
    ),
    with_libc("fork-exit", "fork, exit and wait", &["fork-exit"]),
    with_libc("fork-exec", "fork, exec of the static program and wait", &["fork-exec", "PLACE/static"]),
    with_libc("pipe", "a byte through a pipe to another process and back", &["pipe"]),
    with_libc("switch", "the same with both processes on one processor", &["switch"]),
    Benchmark {
        name: "switch-bare",
        what: "the same on the host; a guest without keel that changes page tables twice and touches 16 pages in each space",
        kind: Kind::Bare("switch", "switch-bare"),
        options: &[],
    },
    with_libc("pipe-threads", "a byte through a pipe to another thread and back, on one processor", &["pipe-threads"]),
    with_libc(
        "pipe-threads-cold",
        "the same where each thread's translations were forgotten just before, without the time of forgetting",
        &["pipe-threads-cold"],
    ),
    with_libc("yield-threads", "sched_yield to another thread and back, on one processor", &["yield-threads"]),
    with_libc("yield-processes", "the same to another process", &["yield-processes"]),
    with_libc("thread-wake", "a futex wake of another thread and back", &["thread-wake"]),
    with_libc("thread-create", "creating and joining a thread", &["thread-create"]),
    with_libc("threads-100", "100 threads made and then joined, per thread", &["threads-100"]),
    with_libc("unix-threads", "a byte through a pair of AF_UNIX sockets to another thread and back", &["unix-threads"]),
    with_libc("unix-processes", "the same to another process", &["unix-processes"]),
    with_libc("tcp-threads", "a byte through a TCP connection to another thread and back", &["tcp-threads"]),
    with_libc("tcp-processes", "the same to another process", &["tcp-processes"]),
    with_libc("tcp-stream-threads", "a stream over TCP from another thread, per KiB", &["tcp-stream-threads"]),
    with_libc("tcp-stream", "the same from another process", &["tcp-stream"]),
    with_libc("tcp-connect", "making, accepting and closing a TCP connection", &["tcp-connect"]),
    with_libc("udp-processes", "a datagram of a byte to another process and back", &["udp-processes"]),
    command("list", "ls -lR /usr/lib", "ls -lR /usr/lib"),
    command("find", "find /usr", "find /usr"),
    command(
        "sha256",
        "sha256sum of the libraries in /usr/lib/x86_64-linux-gnu up to 4 MiB",
        "find /usr/lib/x86_64-linux-gnu -maxdepth 1 -type f -size -4096k -exec sha256sum {} +",
    ),
    command(
        "tar-extract",
        "tar unpacks 5,000 files of 17 MB into a tmpfs, and rm removes them",
        "mkdir /dev/shm/hull-bench && /usr/bin/tar -xf PLACE/files.tar -C /dev/shm/hull-bench && echo done; rm -r /dev/shm/hull-bench",
    ),
    command(
        "git-status",
        "git status of 1,000 files in 20 directories",
        "/usr/bin/git -c safe.directory=* -C PLACE/repository status",
    ),
    command("python", "python3 that imports json and subprocess", "/usr/bin/python3 -c 'import json, subprocess'"),
    command(
        "make",
        "make -j2 of eight small C files",
        "/usr/bin/make -s -j2 -C PLACE/project OUT=/tmp/hull-bench-out CC=/usr/bin/gcc && echo done; rm -r /tmp/hull-bench-out",
    ),
    command("java", "java -version", "/usr/bin/java -version 2>&1"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        let mut names = std::collections::HashSet::new();
        for benchmark in all() {
            assert!(names.insert(benchmark.name), "{}", benchmark.name);
        }
    }
}
