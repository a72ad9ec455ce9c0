//! Credentials, credentials(7), capabilities(7).

use alloc::rc::Rc;
use alloc::vec::Vec;
use uapi::cap;
use vfs::landlock::Domain;

/// Credentials of a thread; immutable, replaced as a whole.
#[derive(Clone, Debug)]
pub struct Cred {
    /// Real user id.
    pub uid: u32,
    /// Effective user id.
    pub euid: u32,
    /// Saved user id.
    pub suid: u32,
    /// File system user id.
    pub fsuid: u32,
    /// Real group id.
    pub gid: u32,
    /// Effective group id.
    pub egid: u32,
    /// Saved group id.
    pub sgid: u32,
    /// File system group id.
    pub fsgid: u32,
    /// Supplementary groups, sorted.
    pub groups: Rc<Vec<u32>>,
    /// Effective capabilities, one bit each.
    pub cap_effective: u64,
    /// Permitted capabilities.
    pub cap_permitted: u64,
    /// Inheritable capabilities.
    pub cap_inheritable: u64,
    /// Bounding set.
    pub cap_bounding: u64,
    /// Ambient set.
    pub cap_ambient: u64,
    /// Its landlock(7) domain.
    pub domain: Option<Rc<Domain>>,
}

impl Cred {
    /// Credentials of the pod's first program: all capabilities for user 0, none for others.
    pub fn first(uid: u32, gid: u32, groups: &[u32]) -> Self {
        let caps = if uid == 0 { cap::ALL } else { 0 };
        let mut groups = groups.to_vec();
        groups.sort_unstable();
        Self {
            uid,
            euid: uid,
            suid: uid,
            fsuid: uid,
            gid,
            egid: gid,
            sgid: gid,
            fsgid: gid,
            groups: Rc::new(groups),
            cap_effective: caps,
            cap_permitted: caps,
            cap_inheritable: 0,
            cap_bounding: cap::ALL,
            cap_ambient: 0,
            domain: None,
        }
    }

    /// Whether the effective set has capability number `cap`.
    pub fn capable(&self, cap: u32) -> bool {
        self.cap_effective & (1 << cap) != 0
    }

    /// Whether `gid` is the file system group or a supplementary one.
    pub fn in_group(&self, gid: u32) -> bool {
        self.fsgid == gid || self.groups.binary_search(&gid).is_ok()
    }

    /// Adjusts the capabilities after a change of user ids (capabilities(7), "Effect of user ID changes"). `old` is the
    /// state before.
    pub(crate) fn fix_caps(&mut self, old: &Cred, keep: bool) {
        let had_root = old.uid == 0 || old.euid == 0 || old.suid == 0;
        let has_root = self.uid == 0 || self.euid == 0 || self.suid == 0;
        if had_root && !has_root {
            if !keep {
                self.cap_permitted = 0;
                self.cap_effective = 0;
            }
            self.cap_ambient = 0;
        }
        if old.euid == 0 && self.euid != 0 {
            self.cap_effective = 0;
        } else if old.euid != 0 && self.euid == 0 {
            self.cap_effective = self.cap_permitted;
        }
    }
}
