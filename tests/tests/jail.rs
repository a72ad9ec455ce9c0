//! A monitor that a guest took over: this program enters the monitor's own jail and then tries what an attacker would.
//!
//! Each attempt is a process of its own (this program, started again), because the jail ends it.

use std::ffi::CString;
use std::fs;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{Command, ExitCode};

use hull_tests::environment::Scratch;
use hull_tests::process;
use libtest_mimic::{Arguments, Failed, Trial};
use monitor::connectors::files::ExportConfig;

/// Names the attempt in the environment of the process that makes it.
const ATTEMPT: &str = "HULL_JAIL_ATTEMPT";
/// Names its scratch directory.
const SCRATCH: &str = "HULL_JAIL_SCRATCH";

/// How an attempt must end.
#[derive(Clone, Copy, Debug)]
enum Outcome {
    /// It works: the monitor needs it.
    Works,
    /// The process is ended with the jail's message.
    Ended,
    /// The process is ended with this code and one line.
    EndedWith(i32),
    /// The host's kernel kills the process when its time is over.
    OutOfTime,
    /// The call fails with this errno.
    Fails(i32),
    /// The same, on hosts with Landlock.
    FailsByLandlock(i32),
}

/// What the attempt finds: descriptors that were open before, as a monitor has them.
struct Scene {
    granted: ExportConfig,
    kvm: i32,
    other: u32,
}

type Attempt = fn(&Scene) -> i64;

macro_rules! call {
    ($number:expr $(, $argument:expr)*) => {
        // SAFETY: every pointer is to memory of this process that outlives the call, or null.
        unsafe { libc::syscall($number $(, $argument)*) }
    };
}

fn c(text: impl Into<Vec<u8>>) -> CString {
    CString::new(text).unwrap()
}

/// openat2 as an attacker would make it: without any restriction.
fn open(directory: i32, path: &str, flags: i32) -> i64 {
    let how = [flags as u64, if flags & libc::O_CREAT != 0 { 0o600 } else { 0 }, 0];
    call!(libc::SYS_openat2, directory, c(path).as_ptr(), how.as_ptr(), 24)
}

fn beneath(scene: &Scene, path: &str, flags: i32) -> i64 {
    open(scene.granted.dir.as_raw_fd(), path, flags)
}

/// Uses up a stack.
fn deep(depth: i64) -> i64 {
    let room = std::hint::black_box([depth; 512]);
    if depth == 0 { 0 } else { deep(std::hint::black_box(depth + 1)) + room[7] }
}

const ATTEMPTS: &[(&str, Outcome, Attempt)] = &[
    // What the monitor does must go on to work.
    ("read a granted file", Outcome::Works, |s| beneath(s, "file", libc::O_RDONLY)),
    ("make a granted file", Outcome::Works, |s| beneath(s, "new", libc::O_RDWR | libc::O_CREAT)),
    ("move a granted file", Outcome::Works, |s| {
        let granted = s.granted.dir.as_raw_fd();
        let (from, to) = (c("file"), c("directory/file"));
        call!(libc::SYS_renameat2, granted, from.as_ptr(), granted, to.as_ptr(), 0)
    }),
    ("change a granted file's mode through /proc", Outcome::Works, |s| {
        let file = beneath(s, "file", libc::O_PATH);
        let path = c(format!("/proc/self/fd/{file}"));
        call!(libc::SYS_fchmodat, libc::AT_FDCWD, path.as_ptr(), 0o640)
    }),
    ("start a thread", Outcome::Works, |_| std::thread::spawn(|| 7).join().unwrap()),
    ("map memory", Outcome::Works, |_| {
        call!(libc::SYS_mmap, 0, 4096, libc::PROT_READ, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
    }),
    ("print a panic", Outcome::Works, |_| std::panic::catch_unwind(|| panic!("on purpose")).map_or(0, |()| -1)),
    ("print a backtrace", Outcome::Works, |_| {
        let trace = std::backtrace::Backtrace::force_capture().to_string();
        if trace.is_empty() { -1 } else { 0 }
    }),
    // Files.
    ("open another file", Outcome::FailsByLandlock(libc::EACCES), |_| open(-100, "/etc/passwd", libc::O_RDONLY)),
    ("open another file through a granted directory", Outcome::FailsByLandlock(libc::EACCES), |s| {
        beneath(s, "../secret", libc::O_RDONLY)
    }),
    ("write another file", Outcome::FailsByLandlock(libc::EACCES), |s| {
        beneath(s, "../secret", libc::O_WRONLY | libc::O_TRUNC)
    }),
    ("make another file", Outcome::FailsByLandlock(libc::EACCES), |s| {
        beneath(s, "../made", libc::O_RDWR | libc::O_CREAT)
    }),
    ("remove another file", Outcome::FailsByLandlock(libc::EACCES), |s| {
        call!(libc::SYS_unlinkat, s.granted.dir.as_raw_fd(), c("../secret").as_ptr(), 0)
    }),
    ("link another file into a granted directory", Outcome::FailsByLandlock(libc::EXDEV), |s| {
        let granted = s.granted.dir.as_raw_fd();
        call!(libc::SYS_linkat, granted, c("../secret").as_ptr(), granted, c("mine").as_ptr(), 0)
    }),
    ("make a device", Outcome::Ended, |s| {
        call!(libc::SYS_mknodat, s.granted.dir.as_raw_fd(), c("sda").as_ptr(), libc::S_IFBLK | 0o600, 0x800)
    }),
    ("list another directory", Outcome::FailsByLandlock(libc::EACCES), |_| open(-100, "/root", libc::O_RDONLY)),
    ("open memory of a process", Outcome::FailsByLandlock(libc::EACCES), |s| {
        open(-100, &format!("/proc/{}/mem", s.other), libc::O_RDWR)
    }),
    ("open the old way", Outcome::Fails(libc::EACCES), |_| {
        call!(libc::SYS_openat, -100, c("/etc/passwd").as_ptr(), libc::O_RDONLY)
    }),
    ("open the oldest way", Outcome::Ended, |_| call!(libc::SYS_open, c("/etc/passwd").as_ptr(), libc::O_RDONLY)),
    ("open by handle", Outcome::Ended, |_| call!(libc::SYS_open_by_handle_at, -100, 0, 0)),
    // Programs and processes.
    ("start a program", Outcome::Ended, |_| {
        let (path, list) = (c("/bin/true"), [std::ptr::null::<libc::c_char>()]);
        call!(libc::SYS_execve, path.as_ptr(), list.as_ptr(), list.as_ptr())
    }),
    ("fork", Outcome::Ended, |_| call!(libc::SYS_fork)),
    ("vfork", Outcome::Ended, |_| call!(libc::SYS_vfork)),
    ("clone a process", Outcome::Ended, |_| call!(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0)),
    ("clone a process the new way", Outcome::Fails(libc::ENOSYS), |_| {
        call!(libc::SYS_clone3, [0_u64; 11].as_ptr(), 88)
    }),
    ("clone into namespaces", Outcome::Ended, |_| {
        call!(libc::SYS_clone, libc::CLONE_NEWUSER | libc::SIGCHLD, 0, 0, 0, 0)
    }),
    ("leave the namespaces", Outcome::Ended, |_| call!(libc::SYS_unshare, libc::CLONE_NEWUSER)),
    ("signal another process", Outcome::Ended, |s| call!(libc::SYS_kill, s.other, libc::SIGTERM)),
    ("signal every process", Outcome::Ended, |_| call!(libc::SYS_kill, -1, 0)),
    ("signal another thread", Outcome::Ended, |s| call!(libc::SYS_tgkill, s.other, s.other, libc::SIGTERM)),
    ("trace a process", Outcome::Ended, |s| call!(libc::SYS_ptrace, libc::PTRACE_ATTACH, s.other, 0, 0)),
    ("write into a process", Outcome::Ended, |s| call!(libc::SYS_process_vm_writev, s.other, 0, 0, 0, 0, 0)),
    ("read from a process", Outcome::Ended, |s| call!(libc::SYS_process_vm_readv, s.other, 0, 0, 0, 0, 0)),
    ("take a descriptor of a process", Outcome::Ended, |s| call!(libc::SYS_pidfd_open, s.other, 0)),
    ("limit another process", Outcome::Ended, |s| {
        call!(libc::SYS_prlimit64, s.other, libc::RLIMIT_NOFILE, [0_u64; 2].as_ptr(), 0)
    }),
    // The network.
    ("open a socket", Outcome::Ended, |_| call!(libc::SYS_socket, libc::AF_INET, libc::SOCK_STREAM, 0)),
    ("open a local socket", Outcome::Ended, |_| call!(libc::SYS_socketpair, libc::AF_UNIX, libc::SOCK_STREAM, 0, 0)),
    ("connect", Outcome::Ended, |_| call!(libc::SYS_connect, 0, 0, 0)),
    // The host.
    ("mount", Outcome::Ended, |_| call!(libc::SYS_mount, 0, c("/mnt").as_ptr(), 0, libc::MS_BIND, 0)),
    ("clone a mount", Outcome::Ended, |_| call!(libc::SYS_open_tree, -100, c("/").as_ptr(), 1)),
    ("change the root", Outcome::Ended, |_| call!(libc::SYS_chroot, c("/").as_ptr())),
    ("load a module", Outcome::Ended, |_| call!(libc::SYS_finit_module, 0, 0, 0)),
    ("load a BPF program", Outcome::Ended, |_| call!(libc::SYS_bpf, 0, 0, 0)),
    ("set the clock", Outcome::Ended, |_| call!(libc::SYS_clock_settime, 0, 0)),
    ("use io_uring", Outcome::Ended, |_| call!(libc::SYS_io_uring_setup, 1, 0)),
    ("type on the terminal", Outcome::Ended, |_| call!(libc::SYS_ioctl, 0, libc::TIOCSTI, c("x").as_ptr())),
    ("make another machine", Outcome::Ended, |s| call!(libc::SYS_ioctl, s.kvm, 0xae01, 0)),
    ("run code of one's own", Outcome::Ended, |_| {
        let rwx = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
        call!(libc::SYS_mmap, 0, 4096, rwx, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
    }),
    ("gain capabilities", Outcome::Ended, |_| call!(libc::SYS_capset, 0, 0)),
    ("become another user", Outcome::Ended, |_| call!(libc::SYS_setuid, 65534)),
    ("ignore the jail", Outcome::Ended, |_| call!(libc::SYS_rt_sigaction, libc::SIGSYS, 0, 0, 8)),
    ("loosen the jail", Outcome::Ended, |_| call!(libc::SYS_prctl, libc::PR_SET_SECCOMP, 0, 0, 0, 0)),
    ("call as another architecture", Outcome::Ended, |_| call!(0x4000_0000 + libc::SYS_getpid)),
    // Its end.
    ("stop beyond the time limit", Outcome::OutOfTime, |_| {
        let all = [!0_u64];
        loop {
            call!(libc::SYS_rt_sigprocmask, libc::SIG_BLOCK, all.as_ptr(), 0, 8);
            call!(libc::SYS_rt_sigaction, libc::SIGCONT, [libc::SIG_IGN as u64, 0, 0, 0].as_ptr(), 0, 8);
            call!(libc::SYS_kill, std::process::id(), libc::SIGSTOP);
        }
    }),
    ("wait beyond the time limit", Outcome::EndedWith(124), |_| {
        loop {
            call!(libc::SYS_poll, 0, 0, -1);
        }
    }),
    ("disarm the time limit", Outcome::Ended, |_| call!(libc::SYS_timer_delete, 0)),
    ("prolong the time limit", Outcome::Ended, |_| call!(libc::SYS_timer_settime, 0, 0, [0_u64; 4].as_ptr(), 0)),
    ("read where nothing is", Outcome::EndedWith(125), |_| {
        // SAFETY: none; the process is to end by this.
        unsafe { std::ptr::without_provenance::<i64>(4096 + 8).read_volatile() }
    }),
    ("overflow a stack", Outcome::EndedWith(125), |_| std::thread::spawn(|| deep(1)).join().unwrap_or(-1)),
    ("abort", Outcome::EndedWith(125), |_| std::process::abort()),
    ("change another file's owner", Outcome::Ended, |s| {
        call!(libc::SYS_fchownat, s.granted.dir.as_raw_fd(), c("../secret").as_ptr(), 1, 1, 0)
    }),
];

fn main() -> ExitCode {
    if let Ok(name) = std::env::var(ATTEMPT) {
        return attempt(&name);
    }
    let trials = ATTEMPTS.iter().map(|(name, outcome, _)| {
        Trial::test(*name, move || judge(name, *outcome).map_err(|error| Failed::from(format!("{error:#}"))))
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}

/// In the process that makes an attempt: 0 if it worked, else its errno.
fn attempt(name: &str) -> ExitCode {
    let Some((.., attempt)) = ATTEMPTS.iter().find(|(other, ..)| *other == name) else { return ExitCode::from(200) };
    let scratch = std::env::var(SCRATCH).unwrap_or_default();
    let other: u32 = std::os::unix::process::parent_id();
    let granted = ExportConfig::open(1, &Path::new(&scratch).join("granted"), true, false).unwrap();
    let kvm = fs::File::options().read(true).write(true).open("/dev/kvm").unwrap();
    let exports = [granted];
    monitor::jail::report_faults().unwrap();
    if name.ends_with("beyond the time limit") {
        let part = std::time::Duration::from_millis(400);
        monitor::jail::limit_time(part, part).unwrap();
    }
    let start = std::time::Instant::now();
    monitor::jail::enter(&exports).unwrap();
    println!("{:.0} us", start.elapsed().as_secs_f64() * 1e6);
    let [granted] = exports;
    let scene = Scene { granted, kvm: kvm.as_raw_fd(), other };
    if attempt(&scene) != -1 {
        return ExitCode::SUCCESS;
    }
    let errno = std::io::Error::last_os_error().raw_os_error().unwrap_or(255);
    ExitCode::from(errno as u8)
}

fn judge(name: &str, outcome: Outcome) -> anyhow::Result<()> {
    let scratch = Scratch::new()?;
    fs::create_dir_all(scratch.0.join("granted/directory"))?;
    fs::write(scratch.0.join("granted/file"), "granted")?;
    fs::write(scratch.0.join("secret"), "secret")?;
    let mut command = Command::new(std::env::current_exe()?);
    command.env(ATTEMPT, name).env(SCRATCH, &scratch.0).env_remove("RUST_BACKTRACE");
    let limit = std::time::Duration::from_secs(20);
    let result = process::run(&mut command, std::process::Stdio::null(), limit)?;
    let message = String::from_utf8_lossy(&result.stderr).into_owned();
    let landlock = monitor::jail::landlock_version().is_some();
    let expected = match outcome {
        Outcome::Works => 0,
        Outcome::Ended => 125,
        Outcome::EndedWith(code) => code,
        Outcome::OutOfTime => 128 + libc::SIGKILL,
        Outcome::FailsByLandlock(_) if !landlock => return Ok(()),
        Outcome::Fails(errno) | Outcome::FailsByLandlock(errno) => errno,
    };
    anyhow::ensure!(result.status == expected, "status {} instead of {expected}: {message}", result.status);
    if expected == 125 {
        let start = if matches!(outcome, Outcome::Ended) { "hull: jail: " } else { "hull: internal error: " };
        let line = message.lines().count() == 1
            && message.starts_with(start)
            && message.contains("; ")
            && message.ends_with('\n');
        anyhow::ensure!(line, "the message is {message:?}");
    }
    anyhow::ensure!(fs::read_to_string(scratch.0.join("secret"))? == "secret");
    Ok(())
}
