//! Credentials, credentials(7), capabilities(7).

pub mod userns;

pub use userns::UserNs;

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
    /// The user namespace that the capabilities belong to.
    pub user_ns: Rc<UserNs>,
}

impl Cred {
    /// Credentials of the pod's first program: all capabilities but the `dropped` ones for user 0, none for others.
    pub fn first(uid: u32, gid: u32, groups: &[u32], dropped: u64) -> Self {
        let bounding = cap::ALL & !dropped;
        let caps = if uid == 0 { bounding } else { 0 };
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
            cap_bounding: bounding,
            cap_ambient: 0,
            domain: None,
            user_ns: UserNs::first(),
        }
    }

    /// Whether it has capability number `cap` over the whole pod.
    #[inline]
    pub fn capable(&self, cap: u32) -> bool {
        self.cap_effective & (1 << cap) != 0 && self.user_ns.is_first()
    }

    /// The ids of its user namespace, unless that is the first.
    pub fn nested_ids(&self) -> Option<&dyn vfs::cred::Ids> {
        if self.user_ns.is_first() { None } else { Some(&*self.user_ns) }
    }

    /// Whether it has capability number `cap` in its own user namespace.
    pub fn capable_here(&self, cap: u32) -> bool {
        self.cap_effective & (1 << cap) != 0
    }

    /// Whether it has capability number `cap` over what belongs to `target`: it has it in that user namespace or in one
    /// around it, or its user made one of these, and it is in the parent.
    pub fn capable_in(&self, target: &Rc<UserNs>, cap: u32) -> bool {
        let mut at = target;
        loop {
            if Rc::ptr_eq(at, &self.user_ns) {
                return self.capable_here(cap);
            }
            let Some(parent) = at.parent().filter(|_| at.level() > self.user_ns.level()) else { return false };
            if Rc::ptr_eq(parent, &self.user_ns) && at.owner() == self.euid {
                return true;
            }
            at = parent;
        }
    }

    /// The first credentials in a new user namespace: all capabilities there.
    pub fn enter(&mut self, user_ns: Rc<UserNs>) {
        self.cap_effective = cap::ALL;
        self.cap_permitted = cap::ALL;
        self.cap_inheritable = 0;
        self.cap_bounding = cap::ALL;
        self.cap_ambient = 0;
        self.user_ns = user_ns;
    }

    /// The user id of the system that is root in the user namespace, if there is one.
    pub fn root_uid(&self) -> Option<u32> {
        self.user_ns.outward(userns::Ids::Users, 0)
    }

    /// Whether `gid` is the file system group or a supplementary one.
    pub fn in_group(&self, gid: u32) -> bool {
        self.fsgid == gid || self.groups.binary_search(&gid).is_ok()
    }

    /// Adjusts the capabilities after a change of user ids (capabilities(7), "Effect of user ID changes"). `old` is the
    /// state before.
    pub fn fix_caps(&mut self, old: &Cred, keep: bool) {
        let root = old.root_uid();
        let is_root = |uid: u32| Some(uid) == root;
        let had_root = is_root(old.uid) || is_root(old.euid) || is_root(old.suid);
        let has_root = is_root(self.uid) || is_root(self.euid) || is_root(self.suid);
        if had_root && !has_root {
            if !keep {
                self.cap_permitted = 0;
                self.cap_effective = 0;
            }
            self.cap_ambient = 0;
        }
        if is_root(old.euid) && !is_root(self.euid) {
            self.cap_effective = 0;
        } else if !is_root(old.euid) && is_root(self.euid) {
            self.cap_effective = self.cap_permitted;
        }
    }
}
