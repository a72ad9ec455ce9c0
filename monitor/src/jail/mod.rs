//! The jail of the monitor: its remaining rights while a guest runs.
//!
//! The virtual machine is the first boundary. If a guest breaks out of it through a bug in the monitor or KVM, the
//! host's kernel enforces the second one: a seccomp filter ([`calls`] lists the allowed calls), Landlock ([`paths`]), a
//! root directory with only the grants ([`namespaces`]), dropped capabilities ([`rights`]) and timers ([`termination`]).
//! docs/security.md lists the remaining rights.

mod broker;
mod calls;
mod descriptors;
mod filter;
mod masks;
mod namespaces;
mod paths;
mod rights;
mod termination;

pub use broker::{BrokerRights, enter_broker};
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

/// Where the table of prepared peers is mapped. Nothing else lies so low: calls that change mappings are allowed above it only.
pub const PREPARED_PEERS: usize = 0x1000_0000;

/// A part of the jail that the host does not support.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {}; {remedy}", crate::error::reason(.source))]
pub struct Failure {
    /// The part.
    pub what: &'static str,
    /// The errno.
    pub source: Error,
    /// The remedy.
    pub remedy: &'static str,
}

impl Failure {
    fn new(what: &'static str, source: impl Into<Error>) -> Self {
        let remedy = "use Linux 5.10 or later, and allow that where hull runs (see hull doctor)";
        Self { what, source: source.into(), remedy }
    }
}

/// Settings of the jail.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// User to change to, if the process runs as root.
    pub identity: Option<Identity>,
    /// Continue without Landlock or seccomp.
    pub weak: bool,
    /// The monitor holds sockets of the host.
    pub network: bool,
    /// The table of prepared peers is mapped at [`PREPARED_PEERS`].
    pub prepared: bool,
}

/// Whether the host has seccomp; an error if it lacks that or Landlock, unless the jail may be `weak`.
fn check_host(weak: bool) -> Result<bool, Failure> {
    let (landlock, seccomp) = (landlock_version().is_some(), seccomp_available());
    if weak || landlock && seccomp {
        return Ok(seccomp);
    }
    Err(Failure {
        what: if seccomp { "Landlock" } else { "seccomp" },
        source: Error::other("the host does not offer it"),
        remedy: "use Linux 5.19 or later with both (lsm=landlock,... when it boots), or accept less with --weak-jail",
    })
}

/// Enters the jail, irrevocably. Later threads inherit it; no other thread may exist yet.
///
/// `exports` are the exports that the monitor serves. They are reopened if the process gets a root directory of its
/// own.
pub fn enter(exports: &mut [ExportConfig], settings: &Settings) -> Result<(), Failure> {
    let seccomp = check_host(settings.weak)?;
    rights::wipe_arguments();
    rights::schedule_apart();
    // Without the filter the process could create sockets.
    namespaces::enter(exports, !seccomp);
    if let Some(identity) = &settings.identity {
        rights::become_user(identity)?;
    }
    rights::restrict_process()?;
    paths::restrict(exports, settings.prepared)?;
    rights::drop_capabilities(exports)?;
    if !seccomp {
        return Ok(());
    }
    termination::report_violations()?;
    let writable = exports.iter().any(|export| export.writable);
    filter_calls(calls::Extra { writable, network: settings.network, prepared: settings.prepared })
}

/// Whether the host's kernel supports the seccomp actions that the jail needs.
#[allow(unsafe_code)]
pub fn seccomp_available() -> bool {
    let action = libc::SECCOMP_RET_TRAP;
    // SAFETY: the operation reads the number behind the pointer.
    check(unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_GET_ACTION_AVAIL, 0, &raw const action) }).is_ok()
}

/// Installs the filter.
fn filter_calls(extra: calls::Extra) -> Result<(), Failure> {
    install(calls::rules(std::process::id(), extra), libc::SECCOMP_RET_TRAP)
}

/// Installs a filter that allows these calls; others have the result `otherwise`.
#[allow(unsafe_code)]
fn install(calls: Vec<filter::Call>, otherwise: u32) -> Result<(), Failure> {
    let program = filter::compile(calls, otherwise);
    let mut program = program.ok_or_else(|| Failure::new("seccomp", Error::other("too many rules")))?;
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // Apply to all threads, if there are others. Keep the administrator's global setting of speculation mitigations:
    // older kernels would otherwise slow the guest down.
    let flags = libc::SECCOMP_FILTER_FLAG_TSYNC | libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW;
    // SAFETY: the program lives across the call, which copies it.
    let result = unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program) };
    match result {
        0 => Ok(()),
        -1 => Err(Failure::new("seccomp", Error::last_os_error())),
        _ => Err(Failure::new("seccomp", Error::other("a thread can't be filtered"))),
    }
}
