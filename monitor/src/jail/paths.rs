//! Landlock: restricts which files of the host the process may open.
#![allow(unsafe_code)]

use super::Failure;
use crate::connectors::files::ExportConfig;
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, PathBeneath, Ruleset, RulesetAttr, RulesetCreatedAttr, Scope,
};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{Mode, OFlags};

/// The oldest supported ABI: the first that allows renames between directories.
const OLDEST: i64 = 2;
/// The newest supported ABI.
const KNOWN: ABI = ABI::V6;

/// The host's Landlock ABI version; `None`: no Landlock, or too old.
pub fn version() -> Option<u32> {
    const LANDLOCK_CREATE_RULESET_VERSION: libc::c_uint = 1;
    // SAFETY: with this flag the call takes no structure and returns a number.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<u8>(),
            0_usize,
            LANDLOCK_CREATE_RULESET_VERSION,
        )
    };
    if version >= OLDEST { u32::try_from(version).ok() } else { None }
}

/// Restricts this thread and its future threads to the granted files, and to no TCP ports; if it `connects`, only to bind none:
/// Landlock knows no addresses. False if the host has no Landlock.
pub fn restrict(exports: &[ExportConfig], connects: bool) -> Result<bool, Failure> {
    let allowed = if connects { AccessNet::ConnectTcp.into() } else { BitFlags::empty() };
    apply(exports, &[], AccessNet::from_all(KNOWN) & !allowed)
}

/// Restricts this thread and its future threads to no files but the removal of what these directories hold: of files in the
/// second, and of empty directories in the first. False if the host has no Landlock.
pub fn restrict_to_network(removable: Option<(BorrowedFd<'_>, BorrowedFd<'_>)>) -> Result<bool, Failure> {
    let removable = removable.map(|(parent, own)| [(parent, AccessFs::RemoveDir), (own, AccessFs::RemoveFile)]);
    apply(&[], removable.as_ref().map_or(&[], |both| both.as_slice()), BitFlags::empty())
}

fn apply(
    exports: &[ExportConfig],
    others: &[(BorrowedFd<'_>, AccessFs)],
    network: BitFlags<AccessNet>,
) -> Result<bool, Failure> {
    if version().is_none() {
        return Ok(false);
    }
    enforce(exports, others, network).map_err(|error| Failure::new("Landlock", std::io::Error::other(error)))?;
    Ok(true)
}

/// `others`: directories and what is allowed beneath them. `network`: accesses to forbid.
fn enforce(
    exports: &[ExportConfig],
    others: &[(BorrowedFd<'_>, AccessFs)],
    network: BitFlags<AccessNet>,
) -> Result<(), landlock::RulesetError> {
    let rules = Ruleset::default().handle_access(AccessFs::from_all(KNOWN))?;
    let rules = if network.is_empty() { rules } else { rules.handle_access(network)? };
    let mut rules = rules.scope(Scope::from_all(KNOWN))?.create()?;
    for (directory, right) in others {
        rules = rules.add_rule(PathBeneath::new(directory, *right))?;
    }
    for export in exports {
        let rights = rights(export.writable);
        rules = match &export.file {
            None => rules.add_rule(PathBeneath::new(export.dir.as_fd(), rights))?,
            // The file was removed meanwhile: no access.
            Some(name) => match rustix::fs::openat(
                &export.dir,
                name.as_slice(),
                OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
                Mode::empty(),
            ) {
                Ok(file) => rules.add_rule(PathBeneath::new(file, rights & AccessFs::from_file(KNOWN)))?,
                Err(_) => rules,
            },
        };
    }
    rules.restrict_self()?;
    Ok(())
}

/// Access rights beneath an export: never execute, no device nodes, no device ioctls.
fn rights(writable: bool) -> BitFlags<AccessFs> {
    let reading = AccessFs::ReadFile | AccessFs::ReadDir;
    if !writable {
        return reading;
    }
    reading
        | AccessFs::WriteFile
        | AccessFs::Truncate
        | AccessFs::RemoveDir
        | AccessFs::RemoveFile
        | AccessFs::MakeDir
        | AccessFs::MakeReg
        | AccessFs::MakeSock
        | AccessFs::MakeFifo
        | AccessFs::MakeSym
        | AccessFs::Refer
}
