//! `hull doctor`: checks whether this machine can run pods.

use crate::args::DoctorArgs;
use crate::cgroup::{self, Limit};
use crate::failure::EXIT_FAILURE;
use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::process::Resource;
use std::io::Write;
use std::time::Duration;

/// Outcome of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// No problem.
    Ok,
    /// Pods run, with reduced speed or protection.
    Warn,
    /// Pods can't run.
    Fail,
}

/// One line of the report.
#[derive(Debug)]
struct Check {
    what: &'static str,
    state: State,
    text: String,
    /// How to fix it; `None` if the check passed.
    remedy: Option<String>,
}

impl Check {
    fn ok(what: &'static str, text: impl Into<String>) -> Self {
        Self { what, state: State::Ok, text: text.into(), remedy: None }
    }

    fn warn(what: &'static str, text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { what, state: State::Warn, text: text.into(), remedy: Some(remedy.into()) }
    }

    fn fail(what: &'static str, text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { what, state: State::Fail, text: text.into(), remedy: Some(remedy.into()) }
    }

    /// The check as a line of text.
    fn line(&self) -> String {
        let state = match self.state {
            State::Ok => "ok",
            State::Warn => "warn",
            State::Fail => "FAIL",
        };
        let remedy = self.remedy.as_ref().map_or(String::new(), |remedy| format!("; {remedy}"));
        format!("{state:<5} {:<12} {}{remedy}", self.what, self.text)
    }

    /// The check as a JSON object.
    fn json(&self) -> String {
        let state = match self.state {
            State::Ok => "ok",
            State::Warn => "warn",
            State::Fail => "fail",
        };
        let remedy = self.remedy.as_ref().map_or("null".into(), |remedy| quoted(remedy));
        let (what, text) = (quoted(self.what), quoted(&self.text));
        format!("    {{\"check\": {what}, \"state\": \"{state}\", \"text\": {text}, \"remedy\": {remedy}}}")
    }
}

/// Quotes a JSON string.
fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// CPU features that keel uses without a check.
const NEEDED_FLAGS: [&str; 5] = ["fsgsbase", "xsave", "xsaveopt", "cx16", "rdtscp"];
/// With fewer open files, large programs fail.
const ENOUGH_FILES: u64 = 4096;
/// Warn below this amount of available memory, in KiB.
const ENOUGH_MEMORY: u64 = 256 << 10;

/// Warn below this number of processes and threads.
const ENOUGH_PROCESSES: u64 = 64;
/// An exit that costs more indicates software-nested KVM.
const CHEAP_EXIT: Duration = Duration::from_micros(10);

/// Prints the report; returns exit code 0 if pods can run.
pub fn doctor(options: &DoctorArgs) -> u8 {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let checks = [
        kvm(),
        processor(&read("/proc/cpuinfo")),
        kernel(),
        memory(&read("/proc/meminfo")),
        huge_pages(&read("/sys/kernel/mm/transparent_hugepage/enabled")),
        files(),
        processes(),
        control_groups(cgroup::memory_limit().as_ref()),
        seccomp(),
        landlock(),
        namespaces(monitor::jail::namespaces_available(), rustix::process::geteuid().is_root()),
        timers(),
        hardware_threads(&read("/sys/devices/system/cpu/smt/active"), monitor::jail::can_schedule_apart()),
        speculation(&vulnerabilities()),
        page_merging(&read("/sys/kernel/mm/ksm/run")),
        host_calls(),
    ];
    let failed = checks.iter().any(|check| check.state == State::Fail);
    let report = if options.json {
        let lines: Vec<String> = checks.iter().map(Check::json).collect();
        let version = quoted(env!("CARGO_PKG_VERSION"));
        let ready = !failed;
        format!(
            "{{\n  \"version\": {version},\n  \"ready\": {ready},\n  \"checks\": [\n{}\n  ]\n}}\n",
            lines.join(",\n")
        )
    } else {
        checks.iter().map(|check| check.line() + "\n").collect()
    };
    // Ignore EPIPE.
    let _ = std::io::stdout().write_all(report.as_bytes());
    if failed { EXIT_FAILURE } else { 0 }
}

/// Checks the kind of KVM and the cost of an exit.
fn kvm() -> Check {
    let kvm = match monitor::kvm::open() {
        Ok(kvm) => kvm,
        Err(error) => {
            let text = error.to_string();
            let (what, remedy) = text.rsplit_once("; ").unwrap_or((&text, "see the documentation of the host's KVM"));
            return Check::fail("kvm", what, remedy);
        }
    };
    let price = match monitor::exit_cost(&kvm) {
        Ok(price) => price,
        Err(error) => {
            let remedy = "check whether other virtual machines run, and the kernel's log (dmesg)";
            return Check::fail("kvm", format!("/dev/kvm opens, but no machine runs: {error}"), remedy);
        }
    };
    let cost = format!("an exit costs {:.1} us", price.as_secs_f64() * 1e6);
    if monitor::kvm::is_software_nested() {
        let text = format!(
            "/dev/kvm works, without hardware virtualisation; {cost}; page faults and switches between processes cost several times as much as on the host"
        );
        Check::warn("kvm", text, "use a machine that offers VMX or SVM if speed matters")
    } else if price > CHEAP_EXIT {
        let text = format!("/dev/kvm works, with hardware virtualisation, but {cost}");
        Check::warn("kvm", text, "this is usual for nested virtualisation; use a machine of its own if speed matters")
    } else {
        Check::ok("kvm", format!("/dev/kvm works, with hardware virtualisation; {cost}"))
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
        Check::ok("processor", name)
    } else {
        let text = format!("{name} lacks {}", missing.join(", "));
        Check::fail("processor", text, "use an x86-64 processor of 2013 or later")
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
        Ok(_) => Check::ok("kernel", format!("Linux {release}")),
        Err(rustix::io::Errno::NOSYS | rustix::io::Errno::PERM) => {
            let text = format!("Linux {release} has no openat2, or a filter forbids it");
            Check::fail("kernel", text, "use Linux 5.10 or later")
        }
        Err(error) => {
            let text = format!("/proc can't be opened ({error})");
            Check::fail("kernel", text, "mount it: mount -t proc proc /proc")
        }
    }
}

fn memory(meminfo: &str) -> Check {
    let available = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    match available {
        Some(kib) if kib < ENOUGH_MEMORY => {
            Check::warn("memory", format!("only {} MiB available", kib >> 10), "end other programs")
        }
        Some(kib) => Check::ok("memory", format!("{} MiB available", kib >> 10)),
        None => Check::warn(
            "memory",
            "/proc/meminfo has no MemAvailable",
            "mount /proc, or mind that pods may run out of memory",
        ),
    }
}

fn huge_pages(enabled: &str) -> Check {
    const REMEDY: &str = "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled";
    match enabled.split(['[', ']']).nth(1) {
        Some(mode @ ("always" | "madvise")) => Check::ok("huge pages", format!("transparent, {mode}")),
        _ => Check::warn("huge pages", "not available: memory of pods is slower", REMEDY),
    }
}

fn files() -> Check {
    let limit = rustix::process::getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    if limit < ENOUGH_FILES {
        let text = format!("at most {limit}: a pod can't open more");
        Check::warn("open files", text, "raise the hard limit (ulimit -Hn)")
    } else {
        Check::ok("open files", format!("at most {limit}"))
    }
}

fn seccomp() -> Check {
    if monitor::jail::seccomp_available() {
        Check::ok("seccomp", "a pod's monitor can make only the system calls listed below")
    } else {
        Check::fail(
            "seccomp",
            "not available: no pod runs without --weak-jail",
            "use Linux 5.10 or later, and allow seccomp where hull runs",
        )
    }
}

fn landlock() -> Check {
    match monitor::jail::landlock_version() {
        Some(version) => {
            Check::ok("landlock", format!("version {version}: a pod's monitor can open granted files only"))
        }
        None => Check::fail(
            "landlock",
            "not available: no pod runs without --weak-jail",
            "use Linux 5.19 or later and boot it with lsm=landlock,...",
        ),
    }
}

fn host_calls() -> Check {
    let calls = monitor::jail::allowed_calls();
    Check::ok("host calls", format!("{} allowed: {}", calls.len(), calls.join(" ")))
}

/// Each pod needs a few threads; the limit counts all processes and threads of the user.
fn processes() -> Check {
    let limit = rustix::process::getrlimit(Resource::Nproc).current.unwrap_or(u64::MAX);
    match limit {
        u64::MAX => Check::ok("processes", "no limit"),
        limit if limit < ENOUGH_PROCESSES => {
            Check::warn("processes", format!("at most {limit} of this user"), "raise the limit (ulimit -u)")
        }
        limit => Check::ok("processes", format!("at most {limit} of this user")),
    }
}

/// Checks the memory limits of control groups: they apply to pods, which are ordinary processes.
fn control_groups(limit: Option<&Limit>) -> Check {
    const WHAT: &str = "cgroups";
    let Some(limit) = limit else { return Check::ok(WHAT, "no memory limit except --memory") };
    let (most, bytes, file) = (limit.for_pod(), cgroup::show(limit.bytes), limit.file.display());
    if most < monitor::MIN_MEMORY {
        return Check::fail(
            WHAT,
            format!("at most {bytes} of memory ({file}): too little for a pod"),
            "raise that limit",
        );
    }
    Check::ok(WHAT, format!("at most {bytes} of memory ({file}), {} of it for a pod", cgroup::show(most)))
}

/// A root directory of its own requires the right to mount.
fn namespaces(available: bool, root: bool) -> Check {
    const WHAT: &str = "namespaces";
    if available {
        Check::ok(WHAT, "a pod's monitor sees no other files, has its own IPC and UTS namespaces")
    } else if root {
        let text = "root can't create namespaces here: a pod's monitor sees names and attributes of other files";
        Check::warn(WHAT, text, "give hull CAP_SYS_ADMIN and CAP_SYS_CHROOT where it runs, on Linux 5.12 or later")
    } else {
        Check::ok(WHAT, "for root only: as this user a pod's monitor sees names and attributes of other files")
    }
}

fn timers() -> Check {
    Check::ok("time limit", "timers of the host's kernel enforce --timeout")
}

fn hardware_threads(active: &str, can_schedule_apart: bool) -> Check {
    const WHAT: &str = "smt";
    match (active.trim(), can_schedule_apart) {
        ("1", true) => {
            Check::ok(WHAT, "several threads per core; core scheduling keeps other programs off a pod's cores")
        }
        ("1", false) => {
            let text = "several threads per core, without core scheduling: other programs share cores with a pod";
            Check::warn(
                WHAT,
                text,
                "use a kernel with CONFIG_SCHED_CORE, or turn SMT off (nosmt) if pods must not spy on others",
            )
        }
        ("0", _) => Check::ok(WHAT, "one thread per core"),
        _ => Check::ok(WHAT, "unknown: no /sys/devices/system/cpu/smt/active"),
    }
}

/// CPU vulnerabilities that the kernel reports: name and state.
fn vulnerabilities() -> Vec<(String, String)> {
    let Ok(entries) = std::fs::read_dir("/sys/devices/system/cpu/vulnerabilities") else { return Vec::new() };
    let entry = |entry: std::fs::DirEntry| {
        let text = std::fs::read_to_string(entry.path()).ok()?;
        Some((entry.file_name().into_string().ok()?, text.trim().to_owned()))
    };
    let mut all: Vec<_> = entries.filter_map(|e| entry(e.ok()?)).collect();
    all.sort();
    all
}

fn speculation(all: &[(String, String)]) -> Check {
    const WHAT: &str = "speculation";
    let list = |which: &dyn Fn(&str) -> bool| {
        let chosen = all.iter().filter(|(_, state)| which(state));
        chosen.map(|(name, state)| format!("{name} ({state})")).collect::<Vec<_>>().join(", ")
    };
    let open =
        |state: &str| state.starts_with("Vulnerable") || state.contains("vulnerable") || state.starts_with("Unknown");
    let vulnerable = list(&open);
    if all.is_empty() {
        return Check::warn(WHAT, "the kernel does not report vulnerabilities", "mount /sys, or use a newer kernel");
    }
    let mitigated = list(&|state| !open(state) && state != "Not affected");
    let mitigated = if mitigated.is_empty() { "no other".into() } else { mitigated };
    if vulnerable.is_empty() {
        Check::ok(WHAT, format!("mitigated: {mitigated}"))
    } else {
        let text = format!("a hostile program may read other programs' memory: {vulnerable}; mitigated: {mitigated}");
        Check::warn(WHAT, text, "update the kernel and the processor's microcode, and boot with mitigations=auto")
    }
}

fn page_merging(run: &str) -> Check {
    const WHAT: &str = "ksm";
    match run.trim() {
        "1" => {
            let text = "the host merges pages of equal content; pages of pods are excluded";
            Check::ok(WHAT, text)
        }
        "" => Check::ok(WHAT, "not supported: pages of equal content are not merged"),
        _ => Check::ok(WHAT, "off: pages of equal content are not merged"),
    }
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
        assert!(bad.text.starts_with("B lacks xsave, ") && bad.remedy.is_some());
        assert_eq!(processor("").state, State::Fail);
        assert_eq!(memory("MemTotal: 1 kB\nMemAvailable:  1048576 kB\n").state, State::Ok);
        assert_eq!(memory("MemAvailable: 1000 kB\n").state, State::Warn);
        assert_eq!(memory("").state, State::Warn);
        assert_eq!(huge_pages("always [madvise] never\n").state, State::Ok);
        assert_eq!(huge_pages("always madvise [never]\n").state, State::Warn);
        assert_eq!(huge_pages("").state, State::Warn);
        assert_eq!(kernel().state, State::Ok);
        let groups = |bytes| control_groups(Some(&Limit { bytes, file: "/f".into() }));
        assert_eq!(groups(64 << 20).text, "at most 64M of memory (/f), 44M of it for a pod");
        assert_eq!((groups(22 << 20).state, control_groups(None).state), (State::Fail, State::Ok));
        assert_eq!((namespaces(true, true).state, namespaces(false, true).state), (State::Ok, State::Warn));
        assert_eq!(namespaces(false, false).state, State::Ok);
        assert_eq!(hardware_threads("1\n", false).state, State::Warn);
        assert_eq!((hardware_threads("1", true).state, hardware_threads("0\n", false).state), (State::Ok, State::Ok));
        let state = |states: &[&str]| {
            let all: Vec<_> = states.iter().map(|state| ("mds".to_owned(), (*state).to_owned())).collect();
            speculation(&all).state
        };
        assert_eq!(state(&["Not affected", "Mitigation: Clear CPU buffers; SMT disabled"]), State::Ok);
        assert_eq!(state(&["Not affected", "Vulnerable: No microcode"]), State::Warn);
        assert_eq!(state(&["Mitigation: Clear CPU buffers; SMT vulnerable"]), State::Warn);
        assert_eq!(state(&[]), State::Warn);
        assert!(page_merging("1\n").text.contains("excluded") && page_merging("0").text.starts_with("off"));
    }

    #[test]
    fn programs_read_json() {
        let check = Check::warn("a", "quote \" and \\ and \n", "do");
        let json = r#"{"check": "a", "state": "warn", "text": "quote \" and \\ and \u000a", "remedy": "do"}"#;
        assert_eq!(check.json().trim(), json);
        assert!(Check::ok("b", "").json().ends_with(r#""remedy": null}"#));
    }
}
