//! Capability numbers, capabilities(7).

/// Change owners of files.
pub const CHOWN: u32 = 0;
/// Bypass permission checks of files.
pub const DAC_OVERRIDE: u32 = 1;
/// Bypass read permission checks.
pub const DAC_READ_SEARCH: u32 = 2;
/// Act as the owner of any file.
pub const FOWNER: u32 = 3;
/// Keep set-id bits when a file is changed.
pub const FSETID: u32 = 4;
/// Signal any process.
pub const KILL: u32 = 5;
/// Change group ids.
pub const SETGID: u32 = 6;
/// Change user ids.
pub const SETUID: u32 = 7;
/// Change capability sets.
pub const SETPCAP: u32 = 8;
/// Set the flags `immutable` and `append only` of files.
pub const LINUX_IMMUTABLE: u32 = 9;
/// Bind to ports below 1024.
pub const NET_BIND_SERVICE: u32 = 10;
/// Raw sockets.
pub const NET_RAW: u32 = 13;
/// Lock memory.
pub const IPC_LOCK: u32 = 14;
/// Bypass permission checks of System V IPC objects.
pub const IPC_OWNER: u32 = 15;
/// Raw memory and ports.
pub const SYS_RAWIO: u32 = 17;
/// chroot(2).
pub const SYS_CHROOT: u32 = 18;
/// Trace any process.
pub const SYS_PTRACE: u32 = 19;
/// Administration.
pub const SYS_ADMIN: u32 = 21;
/// Restart the machine.
pub const SYS_BOOT: u32 = 22;
/// Raise priorities.
pub const SYS_NICE: u32 = 23;
/// Override resource limits.
pub const SYS_RESOURCE: u32 = 24;
/// Set clocks.
pub const SYS_TIME: u32 = 25;
/// Create device nodes.
pub const MKNOD: u32 = 27;
/// Configure audits.
pub const AUDIT_CONTROL: u32 = 30;
/// Set file capabilities.
pub const SETFCAP: u32 = 31;
/// Change the rules of mandatory access control.
pub const MAC_OVERRIDE: u32 = 32;
/// Performance monitoring, also of other processes.
pub const PERFMON: u32 = 38;
/// Checkpoint and restore processes.
pub const CHECKPOINT_RESTORE: u32 = 40;

/// All capabilities of Linux, one bit each: 0 to [`CHECKPOINT_RESTORE`].
pub const ALL: u64 = (1 << (CHECKPOINT_RESTORE + 1)) - 1;
