//! The jail of the monitor: what remains of its rights once a guest runs.
//!
//! The virtual machine is the first wall. Should a guest break it by a mistake of the monitor or of KVM, the
//! second is here, in the host's kernel: a seccomp filter ([`calls`] lists what it lets through), Landlock
//! ([`paths`]) and given up rights ([`rights`]). docs/security.md tells what they leave.

mod calls;
mod filter;
mod paths;
mod rights;

pub use calls::allowed as allowed_calls;
pub use paths::version as landlock_version;

use crate::connectors::files::ExportConfig;
use crate::connectors::streams::TerminalGuard;
use rights::check;
use std::io::Error;

/// A part of the jail that the host refused.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {}", crate::error::reason(.source))]
pub struct Failure {
    /// The part.
    pub what: &'static str,
    /// What the host said.
    pub source: Error,
}

/// Locks the process up for good. Threads that start later are in the jail, too; none may exist yet.
///
/// `exports` are the files that the monitor goes on to open.
pub fn enter(exports: &[ExportConfig]) -> Result<(), Failure> {
    rights::restrict_process()?;
    paths::restrict(exports)?;
    rights::drop_capabilities(exports.iter().any(|export| export.writable))?;
    report_violations()?;
    filter_calls()
}

/// Closes every descriptor but the standard streams. Call it before anything is opened: it closes what it finds.
pub fn close_inherited() {
    // SAFETY: nothing in this process owns a descriptor above the standard streams yet: that is the caller's promise.
    unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) };
}

/// Whether the host's kernel has seccomp filters as the jail needs them.
pub fn seccomp_available() -> bool {
    let action = libc::SECCOMP_RET_TRAP;
    // SAFETY: the operation reads the number behind the pointer.
    check(unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_GET_ACTION_AVAIL, 0, &raw const action) }).is_ok()
}

fn filter_calls() -> Result<(), Failure> {
    let program = filter::compile(calls::rules(std::process::id()), libc::SECCOMP_RET_TRAP);
    let mut program = program.ok_or_else(|| Failure { what: "seccomp", source: Error::other("too many rules") })?;
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // All threads, should there be others. The mitigations for speculation stay as the host's administrator set
    // them for all processes: older kernels would slow the guest down otherwise.
    let flags = libc::SECCOMP_FILTER_FLAG_TSYNC | libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW;
    // SAFETY: the program lives across the call, which copies it.
    let result = unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program) };
    match result {
        0 => Ok(()),
        -1 => Err(Failure { what: "seccomp", source: Error::last_os_error() }),
        _ => Err(Failure { what: "seccomp", source: Error::other("a thread can't be filtered") }),
    }
}

/// Has a forbidden call end the process with a message.
fn report_violations() -> Result<(), Failure> {
    // SAFETY: the handler makes only system calls. An all-zero sigaction is valid, and so is the pointer to it.
    let result = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = violated as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        libc::sigaction(libc::SIGSYS, &raw const action, std::ptr::null_mut())
    };
    check(result.into()).map_err(|()| Failure { what: "SIGSYS", source: Error::last_os_error() })
}

/// `si_syscall` of a `siginfo_t`, in bytes.
const CALL_OFFSET: usize = 24;

/// Handler of SIGSYS, which the filter raises instead of a call.
extern "C" fn violated(_signal: libc::c_int, info: *const libc::siginfo_t, _context: *const libc::c_void) {
    // SAFETY: the kernel passes a siginfo_t, of 128 bytes, in which SIGSYS has the number at this place.
    let number = unsafe { info.cast::<u8>().add(CALL_OFFSET).cast::<i32>().read() };
    let mut line = [0; 160];
    let len = violation(number.unsigned_abs(), &mut line);
    TerminalGuard::restore_from_handler();
    // SAFETY: plain system calls, the first on a buffer that lives.
    unsafe {
        libc::write(2, line.as_ptr().cast(), len);
        libc::_exit(125);
    }
}

/// Writes the message about call `number`; its length. Allocates nothing: this runs in a handler of a signal.
fn violation(number: u32, line: &mut [u8; 160]) -> usize {
    let mut left = line.as_mut_slice();
    // The text is shorter than the line.
    let _ = std::io::Write::write_fmt(
        &mut left,
        format_args!(
            "hull: jail: the monitor made the forbidden host call {number}; the pod was ended, please report this\n"
        ),
    );
    let rest = left.len();
    line.len() - rest
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_violation_is_one_line() {
        let mut line = [0; 160];
        let len = super::violation(u32::MAX, &mut line);
        let text = std::str::from_utf8(&line[..len]).unwrap();
        assert!(text.starts_with("hull: jail: ") && text.contains(" 4294967295;") && text.ends_with("this\n"));
    }
}
