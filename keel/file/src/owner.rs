//! The receiver of SIGIO of a file: `F_SETOWN`, `F_SETSIG`.

use super::caller::caller;
use core::cell::Cell;
use mm::user;
use uapi::raw::general as g;
use uapi::{Errno, Result};

/// Receiver of a file's signals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// `F_OWNER_TID`, `F_OWNER_PID` or `F_OWNER_PGRP`.
    pub kind: u32,
    /// The id; 0: no owner.
    pub id: i32,
    /// Real and effective user id of the thread that set it.
    pub uids: [u32; 2],
    /// Signal instead of SIGIO; 0: SIGIO.
    pub signal: i32,
}

/// [`Owner`] of an open file.
pub type OwnerCell = Cell<Owner>;

/// Whether some thread, process or group has the id; 0 removes the owner. EINVAL, ESRCH.
fn check(id: i32) -> Result<()> {
    if id < 0 {
        return Err(Errno::EINVAL);
    }
    if id == 0 || caller().is_owner(id) { Ok(()) } else { Err(Errno::ESRCH) }
}

/// The ids that are kept with an owner.
pub(super) fn uids(id: i32) -> [u32; 2] {
    let cred = caller().cred();
    if id == 0 { [0; 2] } else { [cred.uid, cred.euid] }
}

/// `F_SETOWN`: a process, or (negative) a process group. EINVAL, ESRCH.
pub fn set(cell: &OwnerCell, arg: i32) -> Result<usize> {
    let (kind, id) = match arg {
        i32::MIN => return Err(Errno::EINVAL),
        negative if negative < 0 => (g::F_OWNER_PGRP, caller().named(-negative)),
        id => (g::F_OWNER_PID, caller().named(id)),
    };
    check(id)?;
    cell.set(Owner { kind, id, uids: uids(id), ..cell.get() });
    Ok(0)
}

/// The owner's id as the running thread sees it; 0 if it has ended.
fn shown(owner: Owner) -> i32 {
    if caller().is_owner(owner.id) { caller().shown(owner.id) } else { 0 }
}

/// `F_GETOWN`: negative for a process group.
pub fn get(cell: &OwnerCell) -> i32 {
    let owner = cell.get();
    let id = shown(owner);
    if owner.kind == g::F_OWNER_PGRP { -id } else { id }
}

/// `F_SETOWN_EX`.
pub fn set_ex(cell: &OwnerCell, address: usize) -> Result<usize> {
    let [kind, id]: [i32; 2] = user::read(address)?;
    if !(0..=g::F_OWNER_PGRP as i32).contains(&kind) {
        return Err(Errno::EINVAL);
    }
    if id < 0 {
        return Err(Errno::ESRCH);
    }
    let id = caller().named(id);
    check(id)?;
    cell.set(Owner { kind: kind as u32, id, uids: uids(id), ..cell.get() });
    Ok(0)
}

/// `F_GETOWN_EX`.
pub fn get_ex(cell: &OwnerCell, address: usize) -> Result<usize> {
    let owner = cell.get();
    user::write(address, &[owner.kind as i32, shown(owner)])?;
    Ok(0)
}

/// `F_SETSIG`.
pub fn set_signal(cell: &OwnerCell, signal: i32) -> Result<usize> {
    if !(0..=64).contains(&signal) {
        return Err(Errno::EINVAL);
    }
    cell.set(Owner { signal, ..cell.get() });
    Ok(0)
}
