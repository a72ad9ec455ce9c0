//! The jail of the monitor: what remains of its rights once a guest runs.
//!
//! The virtual machine is the first wall. Should a guest break it by a mistake of the monitor or of KVM, the
//! second is here, in the host's kernel: a seccomp filter ([`calls`] lists what it lets through), Landlock
//! ([`paths`]), a root with nothing but the grants ([`namespaces`]), given up rights ([`rights`]) and timers ([`ends`]).
//! docs/security.md tells what they leave.

mod calls;
mod descriptors;
mod filter;
mod masks;
mod namespaces;
mod paths;
mod rights;
mod termination;

pub use calls::allowed as allowed_calls;
pub use descriptors::{close_inherited, inherited, is_standard_open};
pub use namespaces::available as namespaces_available;
pub use paths::version as landlock_version;
pub use rights::{Identity, can_schedule_apart};
pub(crate) use termination::end_of;
pub use termination::{limit_time, report_faults};

use crate::connectors::files::ExportConfig;
use rights::check;
use std::io::Error;

/// A part of the jail that the host refused.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {}; {remedy}", crate::error::reason(.source))]
pub struct Failure {
    /// The part.
    pub what: &'static str,
    /// What the host said.
    pub source: Error,
    /// What to do.
    pub remedy: &'static str,
}

impl Failure {
    fn new(what: &'static str, source: impl Into<Error>) -> Self {
        let remedy = "use Linux 5.10 or later, and allow that where hull runs (see hull doctor)";
        Self { what, source: source.into(), remedy }
    }
}

/// How the process is locked up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Whom it becomes, if it is the root user's.
    pub identity: Option<Identity>,
    /// It also goes on where the host has no Landlock or no seccomp.
    pub weak: bool,
}

/// Locks the process up for good. Threads that start later are in the jail, too; none may exist yet.
///
/// `exports` are the files that the monitor goes on to open. They are opened anew where they get a root of their own.
pub fn enter(exports: &mut [ExportConfig], settings: &Settings) -> Result<(), Failure> {
    let (landlock, seccomp) = (landlock_version().is_some(), seccomp_available());
    if !(settings.weak || landlock && seccomp) {
        return Err(Failure {
            what: if seccomp { "Landlock" } else { "seccomp" },
            source: Error::other("the host does not offer it"),
            remedy: "use Linux 5.19 or later with both (lsm=landlock,... when it boots), or accept less with --weak-jail",
        });
    }
    rights::wipe_arguments();
    rights::schedule_apart();
    // Without the filter, the process could make sockets.
    namespaces::enter(exports, !seccomp);
    if let Some(identity) = &settings.identity {
        rights::become_user(identity)?;
    }
    rights::restrict_process()?;
    paths::restrict(exports)?;
    rights::drop_capabilities(exports)?;
    if !seccomp {
        return Ok(());
    }
    termination::report_violations()?;
    filter_calls(exports.iter().any(|export| export.writable))
}

/// Whether the host's kernel has seccomp filters as the jail needs them.
#[allow(unsafe_code)]
pub fn seccomp_available() -> bool {
    let action = libc::SECCOMP_RET_TRAP;
    // SAFETY: the operation reads the number behind the pointer.
    check(unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_GET_ACTION_AVAIL, 0, &raw const action) }).is_ok()
}

/// Installs the filter. `writable`: files of the host may be changed.
#[allow(unsafe_code)]
fn filter_calls(writable: bool) -> Result<(), Failure> {
    let program = filter::compile(calls::rules(std::process::id(), writable), libc::SECCOMP_RET_TRAP);
    let mut program = program.ok_or_else(|| Failure::new("seccomp", Error::other("too many rules")))?;
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // All threads, should there be others. The mitigations for speculation stay as the host's administrator set
    // them for all processes: older kernels would slow the guest down otherwise.
    let flags = libc::SECCOMP_FILTER_FLAG_TSYNC | libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW;
    // SAFETY: the program lives across the call, which copies it.
    let result = unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program) };
    match result {
        0 => Ok(()),
        -1 => Err(Failure::new("seccomp", Error::last_os_error())),
        _ => Err(Failure::new("seccomp", Error::other("a thread can't be filtered"))),
    }
}
