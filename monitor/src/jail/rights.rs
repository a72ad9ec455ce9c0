//! What the process may do as such: capabilities, dumps.

use super::Failure;
use std::io::Error;

/// Overrides permission bits of files, as the root user expects.
const CAP_DAC_OVERRIDE: u32 = 1;
/// The same for reading only.
const CAP_DAC_READ_SEARCH: u32 = 2;
/// What changes of files in writable grants need when they belong to somebody else: owners, modes.
const CAP_CHOWN: u32 = 0;
const CAP_FOWNER: u32 = 3;
/// Set-id bits that stay when a file is written, and capabilities of files.
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

/// Gives up every capability but those by which the root user works on granted files.
/// `setid`: a pod may set set-id bits and capabilities of files.
pub fn drop_capabilities(writable: bool, setid: bool) -> Result<(), Failure> {
    let failed = |_| Failure::new("capabilities", Error::last_os_error());
    let header = Header { version: VERSION, pid: 0 };
    let mut data = [Data::default(); 2];
    // SAFETY: both structures are those of capget(2), version 3, and live across the call.
    check(unsafe { libc::syscall(libc::SYS_capget, &raw const header, data.as_mut_ptr()) }).map_err(failed)?;
    let reading = 1 << CAP_DAC_READ_SEARCH;
    let changing = 1 << CAP_DAC_OVERRIDE | 1 << CAP_CHOWN | 1 << CAP_FOWNER;
    let privileges = 1 << CAP_FSETID | 1 << CAP_SETFCAP;
    let kept = reading | if writable { changing } else { 0 } | if setid { privileges } else { 0 };
    let held = data[0].permitted & kept;
    let wanted = [Data { effective: data[0].effective & held, permitted: held, inheritable: 0 }, Data::default()];
    // SAFETY: as above; the call reads them.
    check(unsafe { libc::syscall(libc::SYS_capset, &raw const header, wanted.as_ptr()) }).map_err(failed)
}

/// Makes the process and what it starts unable to gain rights, and keeps its memory, which is the pod's, out of
/// dumps and from other processes of the same user.
pub fn restrict_process() -> Result<(), Failure> {
    let failed = |what| move |_| Failure::new(what, Error::last_os_error());
    // SAFETY: these options take plain numbers.
    unsafe {
        check(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0).into()).map_err(failed("no_new_privs"))?;
        check(libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0).into()).map_err(failed("PR_SET_DUMPABLE"))?;
    }
    let none = rustix::process::Rlimit { current: Some(0), maximum: Some(0) };
    rustix::process::setrlimit(rustix::process::Resource::Core, none)
        .map_err(|source| Failure::new("RLIMIT_CORE", source))
}

/// `Err` if a call returned -1.
pub fn check(result: libc::c_long) -> Result<(), ()> {
    if result == -1 { Err(()) } else { Ok(()) }
}
