//! `/proc/PID/uid_map`, `gid_map`, `projid_map` and `setgroups`: user_namespaces(7).

use super::subject::Subject;
use crate::cred::userns::Ids;
use crate::cred::{Cred, UserNs};
use crate::task;
use alloc::format;
use alloc::rc::Rc;
use alloc::vec::Vec;
use keel_core::idmap::{Extent, IdMap};
use uapi::{Errno, Result, cap};
use vfs::memory::Text;
use vfs::synth::SynthFile;

/// Writes of this size or more are refused.
const PAGE: usize = abi::layout::PAGE_SIZE;

/// A map of the user namespace that a process is in.
pub struct Map(pub Subject, pub Ids);

impl SynthFile for Map {
    fn content(&self) -> Result<Vec<u8>> {
        Ok(Vec::new())
    }

    fn bind(&self) -> Result<Option<Rc<dyn SynthFile>>> {
        let (ns, opener) = (user_ns(&self.0)?, task::current().cred());
        Ok(Some(Rc::new(OpenMap { ns, opener, ids: self.1 })))
    }
}

/// The user namespace of a process; of one that has ended, the first. ESRCH.
fn user_ns(subject: &Subject) -> Result<Rc<UserNs>> {
    Ok(subject.task()?.map_or_else(UserNs::first, |task| task.cred().user_ns.clone()))
}

/// A map that a process has opened: the rights of that process count, too.
struct OpenMap {
    ns: Rc<UserNs>,
    opener: Rc<Cred>,
    ids: Ids,
}

impl SynthFile for OpenMap {
    fn content(&self) -> Result<Vec<u8>> {
        let mut text = Text::default();
        self.ns.lines(self.ids, &self.opener.user_ns, |first, outer, count| {
            text.print(format_args!("{first:10} {outer:10} {count:10}\n"));
        });
        text.done()
    }

    /// EINVAL: not at the begin, too long, malformed; EPERM: written before, or the caller may not.
    fn write(&self, offset: u64, data: &[u8]) -> Result<usize> {
        let Some(parent) = self.ns.parent() else { return Err(Errno::EPERM) };
        let from = &self.opener.user_ns;
        if !Rc::ptr_eq(from, &self.ns) && !Rc::ptr_eq(from, parent) {
            return Err(Errno::EPERM);
        }
        if offset != 0 || data.len() >= PAGE {
            return Err(Errno::EINVAL);
        }
        if self.ns.is_mapped(self.ids) {
            return Err(Errno::EPERM);
        }
        let setid = match self.ids {
            Ids::Users => Some(cap::SETUID),
            Ids::Groups => Some(cap::SETGID),
            Ids::Projects => None,
        };
        if setid.is_some() && !self.opener.capable_in(&self.ns, cap::SYS_ADMIN) {
            return Err(Errno::EPERM);
        }
        let map = IdMap::parse(data)?;
        if !self.may_map(parent, &map, setid) {
            return Err(Errno::EPERM);
        }
        self.ns.set_map(self.ids, map)?;
        Ok(data.len())
    }
}

impl OpenMap {
    /// Whether the opener may map these ids: its own, or any with the capability in the parent namespace.
    fn may_map(&self, parent: &Rc<UserNs>, map: &IdMap, setid: Option<u32>) -> bool {
        if self.ids == Ids::Users && !self.may_map_root(parent, map) {
            return false;
        }
        if let [Extent { below, count: 1, .. }] = *map.extents()
            && self.ns.owner() == self.opener.euid
        {
            let id = parent.outward(self.ids, below);
            let own = match self.ids {
                Ids::Users => id == Some(self.opener.euid),
                Ids::Groups => !self.ns.setgroups_allowed() && id == Some(self.opener.egid),
                Ids::Projects => false,
            };
            if own {
                return true;
            }
        }
        let Some(setid) = setid else { return true };
        task::current().cred().capable_in(parent, setid) && self.opener.capable_in(parent, setid)
    }

    /// Who maps the parent's root could give files capabilities that hold in the parent: CAP_SETFCAP there.
    fn may_map_root(&self, parent: &Rc<UserNs>, map: &IdMap) -> bool {
        if !map.extents().iter().any(|extent| extent.below == 0) {
            return true;
        }
        if Rc::ptr_eq(&self.opener.user_ns, &self.ns) {
            return self.ns.creator_could_set_file_capabilities();
        }
        self.opener.capable_in(parent, cap::SETFCAP)
    }
}

/// `setgroups`.
pub struct SetGroups(pub Subject);

impl SynthFile for SetGroups {
    fn content(&self) -> Result<Vec<u8>> {
        let allowed = user_ns(&self.0)?.setgroups_allowed();
        Ok(format!("{}\n", if allowed { "allow" } else { "deny" }).into_bytes())
    }

    /// EINVAL, EPERM.
    fn write(&self, offset: u64, data: &[u8]) -> Result<usize> {
        let ns = user_ns(&self.0)?;
        if !task::current().cred().capable_in(&ns, cap::SYS_ADMIN) {
            return Err(Errno::EPERM);
        }
        if offset != 0 || data.len() >= 8 {
            return Err(Errno::EINVAL);
        }
        match data.trim_ascii_end() {
            b"allow" => ns.set_setgroups(true)?,
            b"deny" => ns.set_setgroups(false)?,
            _ => return Err(Errno::EINVAL),
        }
        Ok(data.len())
    }
}
