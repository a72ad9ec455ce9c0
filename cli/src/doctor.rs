//! `hull doctor`: whether this machine can run pods.

use crate::failure::EXIT_FAILURE;
use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::process::Resource;
use std::io::Write;

/// Outcome of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Fine.
    Ok,
    /// Pods run, but less well.
    Warn,
    /// No pod runs.
    Fail,
}

/// One line of the report.
#[derive(Debug)]
struct Check {
    what: &'static str,
    state: State,
    text: String,
}

impl Check {
    fn new(what: &'static str, state: State, text: impl Into<String>) -> Self {
        Self { what, state, text: text.into() }
    }
}

/// Instructions that the pod's kernel uses without asking.
const NEEDED_FLAGS: [&str; 5] = ["fsgsbase", "xsave", "xsaveopt", "cx16", "rdtscp"];
/// Fewer open files than this are too few for big programs.
const ENOUGH_FILES: u64 = 4096;
/// Less available memory than this in KiB is too little.
const ENOUGH_MEMORY: u64 = 256 << 10;

/// Prints the report; exit code 0 if pods can run.
pub fn doctor() -> u8 {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let checks = [
        kvm(),
        processor(&read("/proc/cpuinfo")),
        kernel(),
        memory(&read("/proc/meminfo")),
        huge_pages(&read("/sys/kernel/mm/transparent_hugepage/enabled")),
        files(),
        seccomp(),
        landlock(),
        host_calls(),
    ];
    for check in &checks {
        let state = match check.state {
            State::Ok => "ok",
            State::Warn => "warn",
            State::Fail => "FAIL",
        };
        // Whoever does not read on has read enough.
        let _ = writeln!(std::io::stdout(), "{state:<5} {:<11} {}", check.what, check.text);
    }
    if checks.iter().any(|check| check.state == State::Fail) { EXIT_FAILURE } else { 0 }
}

fn kvm() -> Check {
    match monitor::kvm::open() {
        Err(error) => Check::new("kvm", State::Fail, error.to_string()),
        Ok(_) if monitor::kvm::is_software_nested() => {
            let text = "/dev/kvm works, without hardware virtualisation: page faults and exits are slow";
            Check::new("kvm", State::Warn, text)
        }
        Ok(_) => Check::new("kvm", State::Ok, "/dev/kvm works, with hardware virtualisation"),
    }
}

fn processor(cpuinfo: &str) -> Check {
    let field = |name: &str| {
        cpuinfo
            .lines()
            .filter_map(|line| line.split_once(':'))
            .find(|(key, _)| key.trim() == name)
            .map(|(_, v)| v.trim())
    };
    let flags: Vec<&str> = field("flags").unwrap_or_default().split(' ').collect();
    let missing: Vec<&str> = NEEDED_FLAGS.into_iter().filter(|flag| !flags.contains(flag)).collect();
    let name = field("model name").unwrap_or("unknown");
    if missing.is_empty() {
        Check::new("processor", State::Ok, name)
    } else {
        let text = format!("{name} lacks {}; use an x86-64 processor of 2013 or later", missing.join(", "));
        Check::new("processor", State::Fail, text)
    }
}

fn kernel() -> Check {
    let uname = rustix::system::uname();
    let release = uname.release().to_string_lossy();
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    let probe = rustix::fs::open("/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).and_then(|root| {
        rustix::fs::openat2(
            root,
            "proc/self",
            OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            Mode::empty(),
            resolve,
        )
    });
    match probe {
        Ok(_) => Check::new("kernel", State::Ok, format!("Linux {release}")),
        Err(rustix::io::Errno::NOSYS | rustix::io::Errno::PERM) => {
            let text = format!("Linux {release} has no openat2, or a filter forbids it; use Linux 5.10 or later");
            Check::new("kernel", State::Fail, text)
        }
        Err(error) => {
            let text = format!("/proc can't be opened ({error}); mount it: mount -t proc proc /proc");
            Check::new("kernel", State::Fail, text)
        }
    }
}

fn memory(meminfo: &str) -> Check {
    let available = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    match available {
        Some(kib) if kib < ENOUGH_MEMORY => {
            Check::new("memory", State::Warn, format!("only {} MiB available; end other programs", kib >> 10))
        }
        Some(kib) => Check::new("memory", State::Ok, format!("{} MiB available", kib >> 10)),
        None => Check::new("memory", State::Warn, "/proc/meminfo tells nothing; pods may run out of memory"),
    }
}

fn huge_pages(enabled: &str) -> Check {
    const REMEDY: &str = "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled";
    match enabled.split(['[', ']']).nth(1) {
        Some(mode @ ("always" | "madvise")) => Check::new("huge pages", State::Ok, format!("transparent, {mode}")),
        _ => Check::new("huge pages", State::Warn, format!("not available: memory of pods is slower; {REMEDY}")),
    }
}

fn files() -> Check {
    let limit = rustix::process::getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    if limit < ENOUGH_FILES {
        let text = format!("at most {limit}: a pod can't open more; raise the hard limit (ulimit -Hn)");
        Check::new("open files", State::Warn, text)
    } else {
        Check::new("open files", State::Ok, format!("at most {limit}"))
    }
}

fn seccomp() -> Check {
    if monitor::jail::seccomp_available() {
        Check::new("seccomp", State::Ok, "a pod's monitor makes only the host calls below")
    } else {
        let text = "not available: no pod runs; use Linux 5.10 or later, and allow seccomp where hull runs";
        Check::new("seccomp", State::Fail, text)
    }
}

fn landlock() -> Check {
    match monitor::jail::landlock_version() {
        Some(version) => {
            let text = format!("version {version}: a pod's monitor opens nothing but what is granted");
            Check::new("landlock", State::Ok, text)
        }
        None => {
            let text = "not available: a monitor that a guest took over could open your files; \
                        use Linux 5.19 or later and boot it with lsm=landlock,...";
            Check::new("landlock", State::Warn, text)
        }
    }
}

fn host_calls() -> Check {
    let calls = monitor::jail::allowed_calls();
    Check::new("host calls", State::Ok, format!("{} allowed: {}", calls.len(), calls.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_judge_what_they_read() {
        let good = "flags\t\t: fpu fsgsbase xsave xsaveopt cx16 rdtscp\nmodel name\t: A\n";
        assert_eq!(processor(good).state, State::Ok);
        let bad = processor("model name : B\nflags : fpu fsgsbase\n");
        assert_eq!(bad.state, State::Fail);
        assert!(bad.text.starts_with("B lacks xsave, "));
        assert_eq!(processor("").state, State::Fail);
        assert_eq!(memory("MemTotal: 1 kB\nMemAvailable:  1048576 kB\n").state, State::Ok);
        assert_eq!(memory("MemAvailable: 1000 kB\n").state, State::Warn);
        assert_eq!(memory("").state, State::Warn);
        assert_eq!(huge_pages("always [madvise] never\n").state, State::Ok);
        assert_eq!(huge_pages("always madvise [never]\n").state, State::Warn);
        assert_eq!(huge_pages("").state, State::Warn);
        assert_eq!(kernel().state, State::Ok);
    }
}
