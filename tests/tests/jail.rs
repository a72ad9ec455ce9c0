//! A compromised monitor: this program enters the monitor's jail and then tries attacks.
//!
//! Each attempt is a separate process (this program, started again), because the jail ends it. All are made with each
//! kind of monitor: root's, root's with `--user`, an ordinary user's, and root's where the host permits no namespaces.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::fs;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{Command, ExitCode};

use hull_tests::environment::Scratch;
use hull_tests::process;
use libtest_mimic::{Arguments, Failed, Trial};
use monitor::connectors::files::ExportConfig;

/// Environment variable: name of the attempt.
const ATTEMPT: &str = "HULL_JAIL_ATTEMPT";
/// Environment variable: its scratch directory.
const SCRATCH: &str = "HULL_JAIL_SCRATCH";

/// Environment variable: kind of the monitor.
const AS: &str = "HULL_JAIL_AS";
/// The table of prepared peers.
const TABLE: usize = monitor::jail::PREPARED_PEERS;
const TABLE_END: usize = TABLE + broker::prepared::TABLE_BYTES;
/// An ordinary user.
const NOBODY: u32 = 65534;

/// Kind of the monitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Monitor {
    Root,
    RootForUser,
    User,
    RootWithoutNamespaces,
}

const MONITORS: [(Monitor, &str); 4] = [
    (Monitor::Root, "root"),
    (Monitor::RootForUser, "root with --user"),
    (Monitor::User, "user"),
    (Monitor::RootWithoutNamespaces, "root without namespaces"),
];

impl Monitor {
    /// Whether it has a mount namespace.
    fn is_apart(self) -> bool {
        matches!(self, Self::Root | Self::RootForUser)
    }
}

/// Expected outcome of an attempt.
#[derive(Clone, Copy, Debug)]
enum Outcome {
    /// Works: the monitor needs it.
    Works,
    /// The jail ends the process with its message.
    Ended,
    /// The process ends with this code and one line.
    EndedWith(i32),
    /// The host's kernel kills the process at its time limit.
    OutOfTime,
    /// The call fails with this errno.
    Fails(i32),
    /// The name does not exist; without a mount namespace Landlock gives this errno.
    Unseen(i32),
    /// The name does not exist; without a mount namespace it works, as docs/security.md says.
    OnlyUnseen,
    /// Fails with EROFS in a mount namespace, else by Landlock.
    ReadOnly,
    /// Fails with EROFS in a mount namespace; else it works, as docs/security.md says.
    ReadOnlyMount,
    /// Fails with EBUSY in a mount namespace; else it works, as docs/security.md says.
    Mounted,
}

/// Descriptors that were open before the jail, as in a monitor.
struct Scene {
    granted: ExportConfig,
    read_only: ExportConfig,
    /// Granted read-only inside `granted`.
    inner: ExportConfig,
    kvm: i32,
    other: u32,
    /// A TCP socket, and memory of this process, if there is a table of prepared peers.
    spare: i32,
    own: [u8; 32],
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

/// openat2 without restrictions, as an attacker would call it.
fn open(directory: i32, path: &str, flags: i32) -> i64 {
    let how = [flags as u64, if flags & libc::O_CREAT != 0 { 0o600 } else { 0 }, 0];
    call!(libc::SYS_openat2, directory, c(path).as_ptr(), how.as_ptr(), 24)
}

fn beneath(scene: &Scene, path: &str, flags: i32) -> i64 {
    open(scene.granted.dir.as_raw_fd(), path, flags)
}

/// Asks for attributes.
fn look(directory: i32, path: &str) -> i64 {
    let mut found = [0_u8; 256];
    call!(libc::SYS_statx, directory, c(path).as_ptr(), 0, libc::STATX_ALL, found.as_mut_ptr())
}

/// connect(2) with the address at this place.
fn connect(scene: &Scene, address: usize, length: u32) -> i64 {
    call!(libc::SYS_connect, scene.spare, address, length)
}

/// Anonymous memory at a place, with further flags of mmap(2).
fn map_at(place: usize, length: usize, flags: i32) -> i64 {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    call!(libc::SYS_mmap, place, length, access, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags, -1, 0)
}

/// Overflows the stack.
fn deep(depth: i64) -> i64 {
    let room = std::hint::black_box([depth; 512]);
    if depth == 0 { 0 } else { deep(std::hint::black_box(depth + 1)) + room[7] }
}

const ATTEMPTS: &[(&str, Outcome, Attempt)] = &[
    // Calls that the monitor needs must still work.
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
    ("open another file", Outcome::Unseen(libc::EACCES), |_| open(-100, "/etc/passwd", libc::O_RDONLY)),
    ("open another file through a granted directory", Outcome::Unseen(libc::EACCES), |s| {
        beneath(s, "../secret", libc::O_RDONLY)
    }),
    ("write another file", Outcome::Unseen(libc::EACCES), |s| beneath(s, "../secret", libc::O_WRONLY | libc::O_TRUNC)),
    ("make another file", Outcome::Fails(libc::EACCES), |s| beneath(s, "../made", libc::O_RDWR | libc::O_CREAT)),
    ("remove another file", Outcome::Unseen(libc::EACCES), |s| {
        call!(libc::SYS_unlinkat, s.granted.dir.as_raw_fd(), c("../secret").as_ptr(), 0)
    }),
    ("link another file into a granted directory", Outcome::Unseen(libc::EXDEV), |s| {
        let granted = s.granted.dir.as_raw_fd();
        call!(libc::SYS_linkat, granted, c("../secret").as_ptr(), granted, c("mine").as_ptr(), 0)
    }),
    ("make a device", Outcome::Ended, |s| {
        call!(libc::SYS_mknodat, s.granted.dir.as_raw_fd(), c("sda").as_ptr(), libc::S_IFBLK | 0o600, 0x800)
    }),
    ("list another directory", Outcome::Unseen(libc::EACCES), |_| open(-100, "/root", libc::O_RDONLY)),
    ("open memory of a process", Outcome::Unseen(libc::EACCES), |s| {
        open(-100, &format!("/proc/{}/mem", s.other), libc::O_RDWR)
    }),
    ("open its own memory", Outcome::Unseen(libc::EACCES), |_| open(-100, "/proc/self/mem", libc::O_RDWR)),
    ("read its environment", Outcome::Unseen(libc::EACCES), |_| open(-100, "/proc/self/environ", libc::O_RDONLY)),
    ("find variables in its environment", Outcome::Works, |_| {
        if std::env::var_os(ATTEMPT).is_none() && std::env::vars_os().all(|(name, _)| name.is_empty()) { 0 } else { -1 }
    }),
    (
        "find arguments",
        Outcome::Works,
        |_| if std::env::args_os().skip(1).all(|text| text.is_empty()) { 0 } else { -1 },
    ),
    ("see another process", Outcome::OnlyUnseen, |s| look(-100, &format!("/proc/{}", s.other))),
    ("see another file", Outcome::OnlyUnseen, |_| look(-100, "/etc/passwd")),
    ("see above a granted directory", Outcome::OnlyUnseen, |s| look(s.granted.dir.as_raw_fd(), "../secret")),
    ("see devices", Outcome::OnlyUnseen, |_| look(-100, "/dev/null")),
    ("change another file's mode", Outcome::OnlyUnseen, |s| {
        call!(libc::SYS_fchmodat, s.granted.dir.as_raw_fd(), c("../secret").as_ptr(), 0o644)
    }),
    ("change a mode in a read-only grant", Outcome::ReadOnlyMount, |s| {
        call!(libc::SYS_fchmodat, s.read_only.dir.as_raw_fd(), c("kept").as_ptr(), 0o644)
    }),
    ("write in a read-only grant", Outcome::ReadOnly, |s| open(s.read_only.dir.as_raw_fd(), "kept", libc::O_WRONLY)),
    ("read a read-only grant", Outcome::Works, |s| open(s.read_only.dir.as_raw_fd(), "kept", libc::O_RDONLY)),
    // Grants inside grants.
    ("read a grant inside a grant", Outcome::Works, |s| open(s.inner.dir.as_raw_fd(), "kept", libc::O_RDONLY)),
    ("write a grant inside a grant", Outcome::ReadOnlyMount, |s| open(s.inner.dir.as_raw_fd(), "kept", libc::O_WRONLY)),
    ("make a file in a grant inside a grant", Outcome::ReadOnlyMount, |s| {
        open(s.inner.dir.as_raw_fd(), "made", libc::O_WRONLY | libc::O_CREAT)
    }),
    ("read what is covered", Outcome::OnlyUnseen, |s| beneath(s, "above/inner/kept", libc::O_RDONLY)),
    ("write what is covered", Outcome::OnlyUnseen, |s| beneath(s, "above/inner/kept", libc::O_WRONLY)),
    ("write a covered file", Outcome::OnlyUnseen, |s| {
        let file = beneath(s, "alone", libc::O_WRONLY);
        if file >= 0 { file } else { open(-100, "/secret", libc::O_RDONLY) }
    }),
    ("find text in a covered file", Outcome::OnlyUnseen, |s| {
        let file = beneath(s, "alone", libc::O_RDONLY);
        let read = call!(libc::SYS_read, file, [0_u8; 8].as_mut_ptr(), 8);
        if read > 0 { 0 } else { open(-100, "/secret", libc::O_RDONLY) }
    }),
    ("make a file in what is covered", Outcome::ReadOnlyMount, |s| {
        beneath(s, "above/inner/made", libc::O_WRONLY | libc::O_CREAT)
    }),
    ("change the mode of what is covered", Outcome::ReadOnlyMount, |s| {
        call!(libc::SYS_fchmodat, s.granted.dir.as_raw_fd(), c("above/inner").as_ptr(), 0o777)
    }),
    ("move what is covered", Outcome::Mounted, |s| {
        let granted = s.granted.dir.as_raw_fd();
        call!(libc::SYS_renameat2, granted, c("above/inner").as_ptr(), granted, c("moved").as_ptr(), 0)
    }),
    ("exchange what is covered", Outcome::Mounted, |s| {
        let granted = s.granted.dir.as_raw_fd();
        let (one, other) = (c("alone"), c("file"));
        call!(libc::SYS_renameat2, granted, one.as_ptr(), granted, other.as_ptr(), libc::RENAME_EXCHANGE)
    }),
    ("remove a covered file", Outcome::Mounted, |s| {
        call!(libc::SYS_unlinkat, s.granted.dir.as_raw_fd(), c("alone").as_ptr(), 0)
    }),
    ("move the directory above what is covered", Outcome::OnlyUnseen, |s| {
        let granted = s.granted.dir.as_raw_fd();
        call!(libc::SYS_renameat2, granted, c("above").as_ptr(), granted, c("moved").as_ptr(), 0);
        beneath(s, "moved/inner/kept", libc::O_WRONLY)
    }),
    ("find what is covered behind a descriptor", Outcome::OnlyUnseen, |s| {
        let own = s.inner.dir.as_raw_fd();
        let writes = |from: i32, path| open(from, path, libc::O_WRONLY) >= 0;
        let found = (0..64).filter(|from| *from != own).any(|from| {
            ["inner/kept", "kept", "above/inner/kept", "../inner/kept"].into_iter().any(|path| writes(from, path))
                || look(from, "../secret") == 0
        });
        if found { 0 } else { open(-100, "/secret", libc::O_RDONLY) }
    }),
    // No grant is writable.
    ("change a mode where nothing is writable", Outcome::Ended, |s| {
        call!(libc::SYS_fchmodat, s.read_only.dir.as_raw_fd(), c("kept").as_ptr(), 0o644)
    }),
    ("remove a name where nothing is writable", Outcome::Ended, |s| {
        call!(libc::SYS_unlinkat, s.read_only.dir.as_raw_fd(), c("kept").as_ptr(), 0)
    }),
    ("change times where nothing is writable", Outcome::Ended, |s| {
        call!(libc::SYS_utimensat, s.read_only.dir.as_raw_fd(), c("kept").as_ptr(), 0, 0)
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
    ("join namespaces", Outcome::Ended, |_| call!(libc::SYS_setns, 0, 0)),
    ("share memory", Outcome::Ended, |_| call!(libc::SYS_shmget, 1, 4096, 0o1666)),
    ("read keys", Outcome::Ended, |_| call!(libc::SYS_keyctl, 11, 0, 0, 0)),
    ("add a key", Outcome::Ended, |_| call!(libc::SYS_add_key, c("user").as_ptr(), c("x").as_ptr(), 0, 0, 0)),
    ("ask for a key", Outcome::Ended, |_| call!(libc::SYS_request_key, c("user").as_ptr(), c("x").as_ptr(), 0, 0)),
    ("become dumpable", Outcome::Ended, |_| call!(libc::SYS_prctl, libc::PR_SET_DUMPABLE, 1, 0, 0, 0)),
    ("share a core with others", Outcome::Ended, |_| call!(libc::SYS_prctl, libc::PR_SCHED_CORE, 1, 0, 1, 0)),
    ("watch files", Outcome::Ended, |_| call!(libc::SYS_fanotify_init, 0, 0)),
    // The network.
    ("open a socket", Outcome::Ended, |_| call!(libc::SYS_socket, libc::AF_INET, libc::SOCK_STREAM, 0)),
    ("open a local socket", Outcome::Ended, |_| call!(libc::SYS_socketpair, libc::AF_UNIX, libc::SOCK_STREAM, 0, 0)),
    ("connect", Outcome::Ended, |_| call!(libc::SYS_connect, 0, 0, 0)),
    // The host.
    ("mount", Outcome::Ended, |_| call!(libc::SYS_mount, 0, c("/mnt").as_ptr(), 0, libc::MS_BIND, 0)),
    ("unmount", Outcome::Ended, |_| call!(libc::SYS_umount2, c("/").as_ptr(), libc::MNT_DETACH)),
    ("move a mount", Outcome::Ended, |_| call!(libc::SYS_move_mount, -100, c("/").as_ptr(), -100, c("/").as_ptr(), 0)),
    ("make a mount writable", Outcome::Ended, |_| call!(libc::SYS_mount_setattr, -100, c("/").as_ptr(), 0, 0, 0)),
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
    // Prepared peers: only these, and nothing changes the table.
    ("connect to a prepared peer", Outcome::Works, |s| connect(s, TABLE, 28)),
    ("connect to other than prepared peers", Outcome::Ended, |s| connect(s, s.own.as_ptr().addr(), 28)),
    ("connect to a part of prepared peers", Outcome::Ended, |s| connect(s, TABLE + 8, 28)),
    ("connect to less of prepared peers", Outcome::Ended, |s| connect(s, TABLE, 16)),
    ("connect to what follows prepared peers", Outcome::Ended, |s| connect(s, TABLE_END, 28)),
    ("connect far above prepared peers", Outcome::Ended, |s| connect(s, TABLE + (1 << 32), 28)),
    ("write to prepared peers", Outcome::Fails(libc::EFAULT), |s| {
        let file = beneath(s, "file", libc::O_RDONLY);
        call!(libc::SYS_pread64, file, TABLE, 4, 0)
    }),
    ("make prepared peers writable", Outcome::Ended, |_| {
        call!(libc::SYS_mprotect, TABLE, 4096, libc::PROT_READ | libc::PROT_WRITE)
    }),
    ("unmap prepared peers", Outcome::Ended, |_| call!(libc::SYS_munmap, TABLE, 4096)),
    ("unmap from below prepared peers", Outcome::Ended, |_| call!(libc::SYS_munmap, TABLE - 4096, 1 << 20)),
    ("move prepared peers", Outcome::Ended, |_| {
        call!(libc::SYS_mremap, TABLE, 4096, 4096, libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED, TABLE + (1 << 30))
    }),
    ("grow prepared peers elsewhere", Outcome::Ended, |_| {
        call!(libc::SYS_mremap, TABLE, 4096, 8192, libc::MREMAP_MAYMOVE, 0)
    }),
    ("move memory over prepared peers", Outcome::Ended, |_| {
        let from = map_at(0, 4096, 0);
        call!(libc::SYS_mremap, from, 4096, 4096, libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED, TABLE)
    }),
    ("map over prepared peers", Outcome::Ended, |_| map_at(TABLE, 4096, libc::MAP_FIXED)),
    ("map from below prepared peers", Outcome::Ended, |_| map_at(TABLE - 4096, 1 << 20, libc::MAP_FIXED)),
    ("map near prepared peers", Outcome::Works, |_| {
        // A hint, and a place that must be free: neither replaces the table.
        let hint = map_at(TABLE, 4096, 0);
        let taken = map_at(TABLE, 4096, libc::MAP_FIXED_NOREPLACE);
        let above = map_at(TABLE + (1 << 30), 4096, libc::MAP_FIXED);
        let grown = call!(libc::SYS_mremap, above, 4096, 1 << 20, libc::MREMAP_MAYMOVE, 0);
        let moved = call!(libc::SYS_mremap, grown, 4096, 4096, libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED, TABLE << 4);
        let ends = call!(libc::SYS_munmap, moved, 4096);
        let fine =
            hint != TABLE as i64 && taken == -1 && [hint, above, grown, moved, ends].iter().all(|one| *one != -1);
        if fine { 0 } else { -1 }
    }),
    // End of the process.
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
        // SAFETY: none; this must crash the process.
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
    let failed = |error: anyhow::Error| Failed::from(format!("{error:#}"));
    let mut trials = Vec::new();
    for (monitor, who) in MONITORS {
        // SAFETY: a plain system call.
        let root = unsafe { libc::geteuid() } == 0;
        if !root && monitor != Monitor::User {
            continue;
        }
        trials.extend(ATTEMPTS.iter().map(|(name, outcome, _)| {
            Trial::test(format!("{name}, {who}"), move || judge(name, *outcome, monitor, who).map_err(failed))
        }));
    }
    trials.push(Trial::test("what a running monitor is", move || running_monitor().map_err(failed)));
    trials.push(Trial::test("a host without Landlock", move || {
        without(libc::SYS_landlock_create_ruleset, "hull: jail: Landlock: ", "the host has no Landlock: ")
            .map_err(failed)
    }));
    trials.push(Trial::test("a host without seccomp", move || {
        without(libc::SYS_seccomp, "hull: jail: seccomp: ", "the host has no seccomp: ").map_err(failed)
    }));
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// Makes the host reject a system call of this process and its children with ENOSYS or another errno.
fn refuse(call: libc::c_long, errno: i32) -> std::io::Result<()> {
    let line = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let mut lines = [
        line(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        line(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, call as u32),
        line(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | errno as u32),
        line(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: lines.len() as u16, filter: lines.as_mut_ptr() };
    // SAFETY: the program lives across the calls; both only make system calls.
    let result = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program)
    };
    if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// Maps a table of prepared peers with one of this machine, and two pages after it. Returns a socket for it.
fn prepare_peers(port: u16) -> i32 {
    use monitor::connectors::sockets::prepared::Table;
    let table = broker::server::table::Table::new();
    let (mut table, file) = table.unwrap();
    let peer = std::net::SocketAddr::from(([127, 0, 0, 1], port));
    assert_eq!(table.offer(peer, None, std::time::Instant::now()).map(|entry| entry.index), Some(0));
    Table::map(&file, Some(TABLE)).unwrap();
    assert_ne!(map_at(TABLE_END, 8192, libc::MAP_FIXED_NOREPLACE), -1);
    // SAFETY: a plain system call.
    unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0) }
}

/// Runs an attempt in its process: 0 if it worked, else its errno.
fn attempt(name: &str) -> ExitCode {
    let Some((.., attempt)) = ATTEMPTS.iter().find(|(other, ..)| *other == name) else { return ExitCode::from(200) };
    let (scratch, who) = (std::env::var(SCRATCH).unwrap_or_default(), std::env::var(AS).unwrap_or_default());
    let Some((monitor, _)) = MONITORS.iter().find(|(_, text)| *text == who) else { return ExitCode::from(201) };
    let other: u32 = std::os::unix::process::parent_id();
    let writable = !name.ends_with("where nothing is writable");
    let mut granted = ExportConfig::open(1, &Path::new(&scratch).join("granted"), writable, false).unwrap();
    granted.cover(b"above/inner").unwrap();
    granted.cover(b"alone").unwrap();
    let inner = ExportConfig::open(3, &Path::new(&scratch).join("granted/above/inner"), false, false).unwrap();
    let read_only = ExportConfig::open(2, &Path::new(&scratch).join("read-only"), false, false).unwrap();
    let kvm = fs::File::options().read(true).write(true).open("/dev/kvm").unwrap();
    let mut exports = [granted, read_only, inner];
    monitor::jail::report_faults().unwrap();
    if name.ends_with("beyond the time limit") {
        let part = std::time::Duration::from_millis(400);
        monitor::jail::limit_time(part, part).unwrap();
    }
    let mut settings = monitor::jail::Settings::default();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut spare = -1;
    if name.contains("prepared peer") {
        (settings.network, settings.prepared) = (true, true);
        spare = prepare_peers(listener.local_addr().unwrap().port());
    }
    match monitor {
        Monitor::Root => {}
        Monitor::RootForUser => {
            settings.identity = Some(monitor::jail::Identity { uid: NOBODY, gid: NOBODY, groups: Vec::new() });
        }
        // SAFETY: plain system calls.
        Monitor::User => unsafe {
            libc::setgroups(0, std::ptr::null());
            libc::setresgid(NOBODY, NOBODY, NOBODY);
            libc::setresuid(NOBODY, NOBODY, NOBODY);
        },
        Monitor::RootWithoutNamespaces => refuse(libc::SYS_unshare, libc::EPERM).unwrap(),
    }
    monitor::jail::enter(&mut exports, &settings).unwrap();
    let [granted, read_only, inner] = exports;
    let scene = Scene { granted, read_only, inner, kvm: kvm.as_raw_fd(), other, spare, own: [0; 32] };
    if attempt(&scene) != -1 {
        return ExitCode::SUCCESS;
    }
    let errno = std::io::Error::last_os_error().raw_os_error().unwrap_or(255);
    ExitCode::from(errno as u8)
}

fn judge(name: &str, outcome: Outcome, monitor: Monitor, who: &str) -> anyhow::Result<()> {
    let scratch = Scratch::new()?;
    let at = |path: &str| scratch.0.join(path);
    fs::create_dir_all(at("granted/directory"))?;
    fs::create_dir_all(at("granted/above/inner"))?;
    fs::create_dir_all(at("read-only"))?;
    let files = ["granted/file", "granted/alone", "granted/above/inner/kept", "read-only/kept", "secret"];
    for file in files {
        fs::write(at(file), file)?;
    }
    // SAFETY: a plain system call.
    if unsafe { libc::geteuid() } == 0 {
        let directories = ["", "granted", "granted/directory", "granted/above", "granted/above/inner", "read-only"];
        for path in directories.iter().chain(&files) {
            let owner = if matches!(monitor, Monitor::User | Monitor::RootForUser) { NOBODY } else { 0 };
            std::os::unix::fs::chown(at(path), Some(owner), Some(owner))?;
        }
    }
    let mut command = Command::new(std::env::current_exe()?);
    command.env(ATTEMPT, name).env(SCRATCH, &scratch.0).env(AS, who).env_remove("RUST_BACKTRACE");
    let limit = std::time::Duration::from_secs(20);
    let result = process::run(&mut command, std::process::Stdio::null(), limit)?;
    let message = String::from_utf8_lossy(&result.stderr).into_owned();
    let expected = match outcome {
        Outcome::Works => 0,
        Outcome::Ended => 125,
        Outcome::EndedWith(code) => code,
        Outcome::OutOfTime => 128 + libc::SIGKILL,
        Outcome::Fails(errno) => errno,
        Outcome::ReadOnlyMount | Outcome::ReadOnly if monitor.is_apart() => libc::EROFS,
        Outcome::ReadOnly => libc::EACCES,
        Outcome::Unseen(_) | Outcome::OnlyUnseen if monitor.is_apart() => libc::ENOENT,
        Outcome::Unseen(errno) => errno,
        Outcome::Mounted if monitor.is_apart() => libc::EBUSY,
        Outcome::OnlyUnseen | Outcome::ReadOnlyMount | Outcome::Mounted => 0,
    };
    anyhow::ensure!(result.status == expected, "status {} instead of {expected}: {message}", result.status);
    if expected == 125 {
        let start = if matches!(outcome, Outcome::Ended) { "hull: jail: " } else { "hull: internal error: " };
        let line = message.lines().count() == 1 && message.starts_with(start) && message.contains("; ");
        anyhow::ensure!(line && message.ends_with('\n'), "the message is {message:?}");
    }
    anyhow::ensure!(
        ["secret", "read-only/kept"]
            .into_iter()
            .all(|file| fs::read_to_string(at(file)).is_ok_and(|text| text == file))
    );
    Ok(())
}

/// Checks a running pod's monitor through the host's `/proc`.
fn running_monitor() -> anyhow::Result<()> {
    let scratch = Scratch::new()?;
    let grant = format!("{}:/granted", scratch.0.display());
    // SAFETY: a plain system call.
    let root = unsafe { libc::geteuid() } == 0;
    let plain: &[&str] = &["--no-host", "--ro", "/usr", "--ro", "/lib64", "--ro", "/lib", "--ro", "/bin"];
    let reading = 1 << 2;
    let writing = reading | 1 << 0 | 1 << 1 | 1 << 3;
    let name = format!("jail-{}", std::process::id());
    let cases: [(&[&str], u32, u64); 4] = [
        (&[], 0, reading),
        (&["--rw", &grant], 0, writing),
        (&["--user", "65534:65533", "--rw", &grant], NOBODY, 0),
        (&["--name", &name, "--net", "policy"], 0, reading),
    ];
    for (options, uid, capabilities) in cases {
        let options: Vec<&str> = plain.iter().chain(options).copied().collect();
        let mut command = hull_tests::hull::run_command(&options, &["/usr/bin/sh", "-c", "echo ready; read line"])?;
        let secret = format!("secret {} of the test", std::process::id());
        // An allocator overwrites the first bytes of freed memory.
        let long = format!("{}{secret}", "-".repeat(64));
        command.env("HULL_TEST_SECRET", &long).stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut pod = command.spawn()?;
        let mut line = [0; 6];
        let ready = std::io::Read::read_exact(pod.stdout.as_mut().unwrap(), &mut line);
        let read = |file: &str| fs::read(format!("/proc/{}/{file}", pod.id()));
        let (environment, arguments, status) =
            (read("environ")?, read("cmdline")?, String::from_utf8(read("status")?)?);
        let space = |name: &str| fs::read_link(format!("/proc/{}/ns/{name}", pod.id()));
        let other =
            |name: &str| Ok::<_, std::io::Error>(space(name)? != fs::read_link(format!("/proc/self/ns/{name}"))?);
        let apart = (other("mnt")?, other("ipc")?, other("uts")?);
        // CAP_SYS_PTRACE permits reading its memory.
        let remembered = if root { contains(pod.id(), secret.as_bytes()) } else { Ok(false) };
        let outside = if root { directories_outside(pod.id()) } else { Ok(Vec::new()) };
        drop(pod.stdin.take());
        anyhow::ensure!(!remembered?, "the monitor remembers a variable that the pod was not given");
        anyhow::ensure!(pod.wait()?.code().is_some() && ready.is_ok());
        anyhow::ensure!(outside?.is_empty(), "{options:?}: the monitor holds a directory outside of its root");
        anyhow::ensure!(environment.iter().all(|byte| *byte == 0), "{:?}", String::from_utf8_lossy(&environment));
        let words = arguments.split(|byte| *byte == 0).filter(|word| !word.is_empty()).count();
        anyhow::ensure!(words == 1, "{:?}", String::from_utf8_lossy(&arguments));
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
            line.split_whitespace().next().unwrap_or_default().to_owned()
        };
        anyhow::ensure!(field("NoNewPrivs:") == "1" && field("Seccomp:") == "2", "{status}");
        if root {
            let held = u64::from_str_radix(&field("CapPrm:"), 16)?;
            anyhow::ensure!(held == capabilities, "{options:?}: capabilities {held:#x} instead of {capabilities:#x}");
            anyhow::ensure!(field("Uid:") == uid.to_string(), "{options:?}: {status}");
            anyhow::ensure!(apart == (true, true, true), "{apart:?}");
            if uid != 0 {
                anyhow::ensure!(field("Gid:") == "65533" && field("Groups:").is_empty(), "{status}");
            }
        }
    }
    Ok(())
}

/// The open directories of a process that are in no mount of its own mount namespace: all names of the host could be
/// reached from them.
fn directories_outside(process: u32) -> anyhow::Result<Vec<std::path::PathBuf>> {
    let mounts = fs::read_to_string(format!("/proc/{process}/mountinfo"))?;
    let own: Vec<&str> = mounts.lines().filter_map(|line| line.split(' ').next()).collect();
    let (mut inside, mut outside) = (0, Vec::new());
    for item in fs::read_dir(format!("/proc/{process}/fd"))? {
        let path = item?.path();
        if !fs::metadata(&path).is_ok_and(|what| what.is_dir()) {
            continue;
        }
        let number = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let info = fs::read_to_string(format!("/proc/{process}/fdinfo/{number}"))?;
        let mount = info.lines().find_map(|line| line.strip_prefix("mnt_id:")).unwrap_or_default().trim();
        if own.contains(&mount) { inside += 1 } else { outside.push(fs::read_link(&path)?) }
    }
    anyhow::ensure!(inside > 0, "the monitor holds no granted directory");
    Ok(outside)
}

/// Whether the writable memory of a process contains the bytes, except regions as large as the pod's.
fn contains(process: u32, wanted: &[u8]) -> anyhow::Result<bool> {
    use std::os::unix::fs::FileExt;
    let maps = fs::read_to_string(format!("/proc/{process}/maps"))?;
    let memory = fs::File::open(format!("/proc/{process}/mem"))?;
    let mut searched = 0;
    for line in maps.lines().filter(|line| line.contains(" rw")) {
        let Some((start, end)) = line.split(' ').next().and_then(|range| range.split_once('-')) else { continue };
        let (start, end) = (u64::from_str_radix(start, 16)?, u64::from_str_radix(end, 16)?);
        if end - start > 16 << 20 {
            continue;
        }
        let mut bytes = vec![0; (end - start) as usize];
        // A device's memory can't be read.
        if memory.read_exact_at(&mut bytes, start).is_ok() {
            searched += bytes.len();
            if bytes.windows(wanted.len()).any(|part| part == wanted) {
                return Ok(true);
            }
        }
    }
    anyhow::ensure!(searched > 100_000, "only {searched} bytes could be read");
    Ok(false)
}

/// A pod must not start without a jail layer, unless `--weak-jail` is given.
fn without(call: libc::c_long, failure: &str, warning: &str) -> anyhow::Result<()> {
    for weak in [false, true] {
        let options: &[&str] = if weak { &["--weak-jail"] } else { &[] };
        let mut command = hull_tests::hull::run_command(options, &["/bin/echo", "hello"])?;
        // SAFETY: the closure makes only system calls.
        unsafe { std::os::unix::process::CommandExt::pre_exec(&mut command, move || refuse(call, libc::ENOSYS)) };
        let outcome = process::run(&mut command, std::process::Stdio::null(), std::time::Duration::from_secs(30))?;
        let message = String::from_utf8_lossy(&outcome.stderr);
        let one_line = message.lines().count() == 1 && message.contains("; ");
        if weak {
            anyhow::ensure!(outcome.status == 0 && outcome.stdout == b"hello\n", "{}: {message}", outcome.status);
            anyhow::ensure!(
                one_line && message.starts_with("hull: warning: ") && message.contains(warning),
                "{message}"
            );
        } else {
            anyhow::ensure!(outcome.status == 125 && outcome.stdout.is_empty(), "{}: {message}", outcome.status);
            anyhow::ensure!(one_line && message.starts_with(failure) && message.contains("--weak-jail"), "{message}");
        }
    }
    Ok(())
}
