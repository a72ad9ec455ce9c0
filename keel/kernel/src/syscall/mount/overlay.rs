//! Overlay mounts: from their options to their layers.

use super::Admin;
use crate::task;
use alloc::rc::Rc;
use alloc::vec::Vec;
use uapi::raw::general as g;
use uapi::{Errno, Result};
use vfs::PathRef;
use vfs::cred::Ids;
use vfs::memory::{list, push};
use vfs::overlay::{Layers, Merged, Mounter, Overlay};

pub(super) use vfs::overlay::Options;

/// The root of a new overlay of the running thread, and whether it can be written. EINVAL: options that don't go together;
/// ENOENT and the like: a layer is not there; ENOMEM.
pub(super) fn root(dev: u64, options: &Options, admin: &Admin) -> Result<(Rc<Merged>, bool)> {
    let layer = |path: &Vec<u8>| admin.caller.resolve(g::AT_FDCWD, path, true);
    let mut lower: Vec<PathRef> = Vec::new();
    for path in &options.lower {
        push(&mut lower, layer(path)?)?;
    }
    let upper = match (&options.upper, &options.work) {
        (Some(upper), Some(work)) => Some((layer(upper)?, layer(work)?)),
        (Some(_), None) => return Err(Errno::EINVAL),
        // Without an upper layer there is nothing to prepare.
        (None, _) => None,
    };
    let here = task::with_current(|me| Some(me.cred().user_ns.clone()));
    let cred = admin.caller.cred();
    let mounter = Mounter {
        uid: cred.uid,
        gid: cred.gid,
        groups: list(cred.groups.iter().copied())?,
        caps: cred.caps,
        ids: here.filter(|here| !here.is_first()).map(|here| here as Rc<dyn Ids>),
    };
    let layers = Layers { lower, upper, user_attributes: options.user_attributes };
    Overlay::root(dev, &layers, mounter)
}
