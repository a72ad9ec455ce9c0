//! Rights of the process: user, capabilities, dumps; and removal of the caller's secrets.
#![allow(unsafe_code)]

use super::Failure;
use crate::connectors::files::ExportConfig;
use std::io::Error;

/// Bypass permission checks of files, as root expects.
const CAP_DAC_OVERRIDE: u32 = 1;
/// The same for reading and searching only.
const CAP_DAC_READ_SEARCH: u32 = 2;
/// Change other users' files in writable grants: owners, modes.
const CAP_CHOWN: u32 = 0;
const CAP_FOWNER: u32 = 3;
/// Keep set-id bits when a file is written; set file capabilities.
const CAP_FSETID: u32 = 4;
const CAP_SETFCAP: u32 = 31;

/// `_LINUX_CAPABILITY_VERSION_3`.
const VERSION: u32 = 0x2008_0522;

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Header {
    version: u32,
    pid: i32,
}

/// `struct __user_cap_data_struct`; two of them make 64 bits.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Data {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// Drops every capability except those that root needs for these exports: none for world-readable files.
pub fn drop_capabilities(exports: &[ExportConfig]) -> Result<(), Failure> {
    let mut kept = 0;
    if exports.iter().any(|export| !export.public_only) {
        kept |= 1 << CAP_DAC_READ_SEARCH;
    }
    if exports.iter().any(|export| export.writable) {
        kept |= 1 << CAP_DAC_OVERRIDE | 1 << CAP_CHOWN | 1 << CAP_FOWNER;
    }
    if exports.iter().any(|export| export.writable && export.keep_setid) {
        kept |= 1 << CAP_FSETID | 1 << CAP_SETFCAP;
    }
    keep_capabilities(kept)
}

/// Drops every capability except the permitted ones of a set, which become effective.
pub fn keep_capabilities(kept: u32) -> Result<(), Failure> {
    let failed = |_| Failure::new("capabilities", Error::last_os_error());
    let header = Header { version: VERSION, pid: 0 };
    let mut data = [Data::default(); 2];
    // SAFETY: both structures are those of capget(2), version 3, and live across the call.
    check(unsafe { libc::syscall(libc::SYS_capget, &raw const header, data.as_mut_ptr()) }).map_err(failed)?;
    let held = data[0].permitted & kept;
    let wanted = [Data { effective: held, permitted: held, inheritable: 0 }, Data::default()];
    // SAFETY: as above; the call reads them.
    check(unsafe { libc::syscall(libc::SYS_capset, &raw const header, wanted.as_ptr()) }).map_err(failed)
}

/// Credentials that the monitor takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
}

/// Changes to this user and these groups, irrevocably, if the process runs as root.
pub fn become_user(identity: &Identity) -> Result<(), Failure> {
    become_user_with(identity, false)
}

/// [`become_user`]; `capabilities`: the permitted ones stay, for [`keep_capabilities`].
pub fn become_user_with(identity: &Identity, capabilities: bool) -> Result<(), Failure> {
    let failed = |()| Failure {
        remedy: "let hull take that user and group where it runs (CAP_SETUID, CAP_SETGID, ids that the user namespace knows)",
        ..Failure::new("--user", Error::last_os_error())
    };
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let Identity { uid, gid, groups } = identity;
    // SAFETY: plain system calls; the list of groups lives across the call.
    unsafe {
        check(libc::prctl(libc::PR_SET_KEEPCAPS, libc::c_ulong::from(capabilities), 0, 0, 0).into()).map_err(failed)?;
        check(libc::setgroups(groups.len(), groups.as_ptr()).into()).map_err(failed)?;
        check(libc::setresgid(*gid, *gid, *gid).into()).map_err(failed)?;
        check(libc::setresuid(*uid, *uid, *uid).into()).map_err(failed)
    }
}

/// Overwrites the arguments, except the program's name, and the initial environment: they may contain secrets that the
/// pod must not see. Needed values were copied before.
pub fn wipe_arguments() {
    unsafe extern "C" {
        /// glibc: the first argument.
        static program_invocation_name: *const libc::c_char;
    }
    // SAFETY: the C library set the pointer before `main`; it is not changed after.
    let name = unsafe { program_invocation_name };
    // SAFETY: a plain call; the kernel placed the file name behind the environment.
    let end = unsafe { libc::getauxval(libc::AT_EXECFN) } as usize;
    if name.is_null() {
        return;
    }
    // SAFETY: arguments are terminated.
    let len = unsafe { libc::strlen(name) } + 1;
    let start = name.addr() + len;
    // Arguments, environment and file name are contiguous on the stack, unless prctl(PR_SET_MM) moved them.
    const MOST: usize = 64 << 20;
    if start >= end || end - start > MOST {
        return;
    }
    // SAFETY: this part of the initial stack belongs to the process and contains only these strings, which are not
    // borrowed: Rust's standard library and the C library read them anew each time, and then find empty strings. No
    // other thread exists.
    unsafe { std::ptr::write_bytes(name.add(len).cast_mut(), 0, end - start) };
}

/// Sets no_new_privs, and protects the process's memory, which includes the pod's, against core dumps and other
/// processes of the same user.
pub fn restrict_process() -> Result<(), Failure> {
    let failed = |what| move |_| Failure::new(what, Error::last_os_error());
    // SAFETY: these options take plain numbers.
    unsafe {
        check(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0).into()).map_err(failed("no_new_privs"))?;
        check(libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0).into()).map_err(failed("PR_SET_DUMPABLE"))?;
        // The caller of `hull` may have enabled KSM for its children: write latency would reveal merged pages. Ignore
        // errors of hosts without this option.
        libc::prctl(PR_SET_MEMORY_MERGE, 0, 0, 0, 0);
    }
    let none = rustix::process::Rlimit { current: Some(0), maximum: Some(0) };
    rustix::process::setrlimit(rustix::process::Resource::Core, none)
        .map_err(|source| Failure::new("RLIMIT_CORE", source))
}

/// Enables core scheduling, so that other programs and pods do not share a processor core with this process, if the
/// host supports it (SMT, CONFIG_SCHED_CORE).
pub fn schedule_apart() {
    // SAFETY: the option takes plain numbers. Ignore the error of a host without SMT.
    unsafe { libc::prctl(libc::PR_SCHED_CORE, libc::PR_SCHED_CORE_CREATE, 0, SCOPE_PROCESS, 0) };
}

/// Whether [`schedule_apart`] has an effect on this host.
pub fn can_schedule_apart() -> bool {
    let mut cookie = 0_u64;
    // SAFETY: the pointer is to a local.
    check(unsafe { libc::prctl(libc::PR_SCHED_CORE, libc::PR_SCHED_CORE_GET, 0, 0, &raw mut cookie) }.into()).is_ok()
}

/// Of linux/prctl.h.
const PR_SET_MEMORY_MERGE: libc::c_int = 67;
/// `PR_SCHED_CORE_SCOPE_THREAD_GROUP`.
const SCOPE_PROCESS: libc::c_ulong = 1;

/// `Err` if a call returned -1.
pub fn check(result: libc::c_long) -> Result<(), ()> {
    if result == -1 { Err(()) } else { Ok(()) }
}
