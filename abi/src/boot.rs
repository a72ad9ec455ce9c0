//! Boot information that the monitor passes to keel.

use alloc::vec::Vec;
use bytemuck::{Pod, Zeroable};
use serde::{Deserialize, Serialize};

/// `BootInfo::magic`: "HULLBOOT".
pub const MAGIC: u64 = u64::from_le_bytes(*b"HULLBOOT");

/// Fixed-size boot information at guest-physical [`crate::layout::BOOT_INFO`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct BootInfo {
    /// [`MAGIC`].
    pub magic: u64,
    /// [`crate::VERSION`] of the monitor.
    pub version: u32,
    /// Number of virtual CPUs.
    pub cpus: u32,
    /// Bytes of RAM from guest-physical 0 that exist at boot.
    pub ram_bytes: u64,
    /// Most bytes of RAM that the pod may ask for (`--memory`).
    pub ram_limit: u64,
    /// First guest-physical byte after keel's image, its bss, the frame tables and the
    /// configuration: free memory.
    pub free_start: u64,
    /// First guest-physical byte after the boot tables: memory for page tables up to `low_end`.
    pub low_start: u64,
    /// End of it, at most [`crate::layout::KEEL_IMAGE`]. If it is less, the unused pages below the image, but for page 0,
    /// are free memory.
    pub low_end: u64,
    /// Guest-physical address of the frame table: 16 bytes for each page below `ram_limit`, zero.
    pub frame_table: u64,
    /// Guest-physical address of the window table: 4 bytes for each page of `window_limit`, zero.
    pub window_table: u64,
    /// Most bytes of window.
    pub window_limit: u64,
    /// Guest-physical address and length of the serialised [`PodConfig`].
    pub config_gpa: u64,
    /// Bytes of the configuration.
    pub config_len: u64,
    /// Frequency of the time stamp counter in kHz.
    pub tsc_khz: u64,
    /// Time stamp counter at the moment of the two clock readings below.
    pub tsc_base: u64,
    /// `CLOCK_MONOTONIC` of the host then, in ns.
    pub monotonic_base_ns: u64,
    /// `CLOCK_REALTIME` of the host then, in ns since the epoch.
    pub realtime_base_ns: u64,
    /// `CLOCK_BOOTTIME` of the host then, in ns.
    pub boottime_base_ns: u64,
    /// Entropy from the host.
    pub seed: [u8; 64],
    /// Extended control register 0 (enabled xstate components).
    pub xcr0: u64,
    /// [`flags`].
    pub flags: u64,
    /// Host processors that the pod may use at once: keel keeps at most as many virtual CPUs busy, unless programs pin
    /// threads to further ones.
    pub processors: u32,
    /// Zero.
    pub reserved: u32,
}

/// Bits of [`BootInfo::flags`].
pub mod flags {
    /// Never patch system call sites (`--syscalls=trap`).
    pub const TRAP_ONLY: u64 = 1;
    /// Page faults are expensive (software-nested KVM): use fault-around and copy ahead.
    pub const SLOW_FAULTS: u64 = 2;
    /// Requests are submitted by exits only (`--doorbell=exit`).
    pub const DOORBELL_EXIT: u64 = 4;
    /// Requests are submitted by doorbell only (`--doorbell=event`).
    pub const DOORBELL_EVENT: u64 = 8;
    /// The helper polls while there is work (`--doorbell=poll`).
    pub const DOORBELL_POLL: u64 = 16;
    /// No page of a host file is mapped: there is no window (`--no-shared-pages`).
    pub const NO_WINDOW: u64 = 32;
    /// Fail with a panic when the first program ends (a hidden option, to test reports).
    pub const FAIL_PANIC: u64 = 1 << 32;
    /// Fail with an exception then.
    pub const FAIL_FAULT: u64 = 1 << 33;
    /// Use up a kernel stack then.
    pub const FAIL_STACK: u64 = 1 << 34;
}

const _: () = assert!(core::mem::size_of::<BootInfo>() == 224);

/// One host directory or file that the pod may see, and where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Export {
    /// Number that requests name it by.
    pub id: u32,
    /// Absolute path inside the pod, without `.` or `..`.
    pub at: Vec<u8>,
    /// Writes go to the host; otherwise they go to the pod's private layer.
    pub writable: bool,
    /// A single file, not a directory.
    pub is_file: bool,
    /// The host's own software, which seldom changes: keel caches its attributes for longer.
    pub settled: bool,
    /// A file with an EROFS file system, which keel mounts.
    pub is_image: bool,
    /// Changes fail with EROFS.
    pub read_only: bool,
    /// The user named it: locks of its files are held on the host, too.
    pub named: bool,
}

/// A file system in memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tmpfs {
    /// Absolute path inside the pod, without `.` or `..`.
    pub at: Vec<u8>,
    /// Permission bits of its root.
    pub mode: u32,
    /// Owner and group of its root.
    pub owner: (u32, u32),
    /// Most bytes of its files; `None`: as other file systems of the pod.
    pub size: Option<u64>,
    /// Changes fail with EROFS.
    pub read_only: bool,
    /// Flags of the mount, as of mount(2): `MS_NOSUID`, `MS_NODEV`, `MS_NOEXEC`; others are ignored.
    pub flags: u32,
}

/// A pod whose root is that of a container: an image or a directory with a system of its own, not the host's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Container {
    /// `USER[:GROUP]`, names of the pod's own files or numbers; empty: root. It replaces the ids of the configuration.
    pub user: Vec<u8>,
    /// Further groups of the first program: names of the pod's own files or numbers.
    pub groups: Vec<Vec<u8>>,
    /// Changes of the root fail with EROFS.
    pub read_only: bool,
    /// Directories to create if they do not exist.
    pub directories: Vec<Vec<u8>>,
    /// File systems in memory.
    pub tmpfs: Vec<Tmpfs>,
    /// The first program is process 1 of a PID namespace, pid_namespaces(7); else keel is process 1, and reaps orphans.
    pub own_pids: bool,
}

/// What the first program may do, and all that it starts, beyond its user and resource limits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rights {
    /// Capabilities that are not in the bounding set, one bit each.
    pub dropped: u64,
    /// execve(2) gives no privileges (`PR_SET_NO_NEW_PRIVS`).
    pub no_new_privs: bool,
    /// A filter of system calls: `struct sock_filter` of seccomp(2), one word each; empty: none.
    pub filter: Vec<u64>,
    /// Most threads of the pod, of all its processes; EAGAIN beyond.
    pub most_threads: Option<u64>,
    /// Limit of the processor time of all virtual CPUs together, in microseconds per 100 ms; the monitor enforces it. `None`: as
    /// much as there is.
    pub processor_time: Option<u64>,
    /// Settings: path beneath `/proc/sys`, and text. The pod does not start with one that keel can't apply.
    pub settings: Vec<(Vec<u8>, Vec<u8>)>,
    /// Most bytes of files in `/dev/shm`; `None`: as other file systems in memory.
    pub shm_size: Option<u64>,
}

/// A symbolic link in the pod's root directory (`/bin -> usr/bin` on a merged-usr host).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RootLink {
    /// Absolute path inside the pod.
    pub at: Vec<u8>,
    /// Target of the link.
    pub target: Vec<u8>,
}

/// A directory or a file that keel creates in the pod's memory at boot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Given {
    /// Absolute path inside the pod, without `.` or `..`.
    pub at: Vec<u8>,
    /// Permission bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Content of the file; `None`: a directory.
    pub content: Option<Vec<u8>>,
}

/// Kind of a standard stream of the first process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StreamKind {
    /// Closed: the descriptor does not exist in the pod either.
    Closed,
    /// A terminal.
    Terminal,
    /// A pipe or a socket: no position.
    Pipe,
    /// A regular file: has a position on the host.
    File,
    /// A character device such as `/dev/null`.
    Device,
}

/// A file descriptor that the first process inherits in addition to its standard streams; served like these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passed {
    /// Its number in the process.
    pub number: u32,
    /// Its kind, not `Closed`.
    pub kind: StreamKind,
    /// `O_*` flags of open(2): access mode and status.
    pub flags: u32,
}

/// Format of the start time of traced calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stamp {
    /// Not printed.
    #[default]
    None,
    /// Time of the day, UTC.
    Time,
    /// The same with microseconds.
    TimeMicros,
    /// Seconds since the epoch, with microseconds.
    Epoch,
    /// Seconds since the previous line.
    Relative,
}

/// Options of `hull trace`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trace {
    /// Bitmap of the traced calls: a bit for each number, 64 in a word.
    pub calls: Vec<u64>,
    /// Print each call.
    pub lines: bool,
    /// Print a table at the end.
    pub summary: bool,
    /// Print signals.
    pub signals: bool,
    /// Print how long each call took.
    pub duration: bool,
    /// Time before each call.
    pub stamp: Stamp,
    /// Maximum number of bytes printed of a string.
    pub string_limit: u32,
}

/// The network device that a pod has besides the loopback device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Network {
    /// Its address of IPv4, and the bits of its network.
    pub address4: ([u8; 4], u8),
    /// Its router there.
    pub gateway4: [u8; 4],
    /// Its address of IPv6, and the bits of its network.
    pub address6: ([u8; 16], u8),
    /// Its router there.
    pub gateway6: [u8; 16],
    /// Sockets of all addresses, loopback ones included, are sockets of the host, and ports are the host's.
    pub host: bool,
}

/// The program to run and its environment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodConfig {
    /// Program and arguments. `argv[0]` is looked up in `PATH` of `env` unless it has a slash.
    pub argv: Vec<Vec<u8>>,
    /// Environment, `NAME=value`.
    pub env: Vec<Vec<u8>>,
    /// Working directory inside the pod.
    pub cwd: Vec<u8>,
    /// `cwd` is an option of the user: the pod does not start without it.
    pub cwd_named: bool,
    /// User id of the first process.
    pub uid: u32,
    /// Group id of the first process.
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
    /// File mode creation mask.
    pub umask: u32,
    /// `uname -n`.
    pub hostname: Vec<u8>,
    /// `uname -r` of the host.
    pub host_release: Vec<u8>,
    /// `uname -v` of the host.
    pub host_version: Vec<u8>,
    /// Resource limits of the first process by `RLIMIT_*` number, soft and hard; `u64::MAX` is unlimited. Missing
    /// entries have the values of Linux's init process.
    pub limits: Vec<(u64, u64)>,
    /// Host directories that the pod sees.
    pub exports: Vec<Export>,
    /// Symbolic links of the root view.
    pub links: Vec<RootLink>,
    /// Directories to create if they do not exist, parents first, and files.
    pub given: Vec<Given>,
    /// The root is that of a container.
    pub container: Option<Container>,
    /// Most bytes of files in memory, of all file systems together; `None`: half of the memory each.
    pub private_limit: Option<u64>,
    /// The three standard streams.
    pub streams: [StreamKind; 3],
    /// Further descriptors of the first process. Requests name them by the numbers from 3, in this order.
    pub passed: Vec<Passed>,
    /// `(rows, columns)` of the terminal, if a stream is one.
    pub window: Option<(u16, u16)>,
    /// Trace system calls (`hull trace`).
    pub trace: Option<Trace>,
    /// The network beyond the loopback device.
    pub network: Option<Network>,
    /// What programs may do.
    pub rights: Rights,
    /// The signal that the first program gets in place of SIGTERM from outside.
    pub stop_signal: u32,
}

impl PodConfig {
    /// Serialises for guest memory.
    pub fn encode(&self) -> Vec<u8> {
        // Serialising owned byte vectors into a growing vector can't fail.
        postcard::to_allocvec(self).unwrap_or_default()
    }

    /// Reads what [`PodConfig::encode`] wrote; `None` if it is malformed.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        postcard::from_bytes(bytes).ok()
    }
}
