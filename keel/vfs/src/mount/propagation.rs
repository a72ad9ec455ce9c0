//! Groups of mounts that see each other's changes, and mounts that see those of a group: shared subtrees.
//!
//! What is mounted in a member of a group is mounted in all other members, and in the mounts that follow the group (its
//! *slaves*), which may have a group of their own. The same holds for what is unmounted.

use super::Mount;
use super::change::Loose;
use crate::{Dentry, PathRef};
use alloc::collections::BTreeMap;
use alloc::rc::{Rc, Weak};
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use hal::cell::Global;
use uapi::Result;

static NEXT_GROUP: Global<Cell<u32>> = Global::new(Cell::new(1));

type Members = RefCell<BTreeMap<u32, Weak<Mount>>>;

/// Mounts that see each other's changes.
#[derive(Debug)]
pub struct Group {
    /// Number, as mountinfo shows it.
    pub id: u32,
    members: Members,
    slaves: Members,
    /// Number of the last operation that has come by.
    mark: Cell<u64>,
}

impl Group {
    /// Whether it is the first time that an operation comes by.
    fn is_new_to(&self, operation: u64) -> bool {
        self.mark.replace(operation) != operation
    }
}

/// How a copy takes part in the propagation of its original.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copy {
    /// In the same groups.
    Alike,
    /// Follows the original's group; with a group of its own if asked for.
    Slave {
        /// It begins a group of its own.
        shared: bool,
    },
    /// In the same groups, but follows the one that the original is a member of.
    SharedToSlave,
}

impl Mount {
    /// Number of its group.
    pub fn group_id(&self) -> Option<u32> {
        self.group.borrow().as_ref().map(|group| group.id)
    }

    /// Number of the group that it follows.
    pub fn master_id(&self) -> Option<u32> {
        self.master.borrow().as_ref().map(|group| group.id)
    }

    /// Whether it is a member of a group.
    pub fn is_shared(&self) -> bool {
        self.group.borrow().is_some()
    }

    /// Whether it is not copied.
    pub fn is_unbindable(&self) -> bool {
        self.is_unbindable.get()
    }

    fn enter(self: &Rc<Self>, group: &Rc<Group>) {
        group.members.borrow_mut().insert(self.id, Rc::downgrade(self));
        self.group.replace(Some(group.clone()));
    }

    fn follow(self: &Rc<Self>, group: &Rc<Group>) {
        group.slaves.borrow_mut().insert(self.id, Rc::downgrade(self));
        self.master.replace(Some(group.clone()));
    }

    /// Makes it a member of a group, of its own if it has none.
    pub fn make_shared(self: &Rc<Self>) {
        self.is_unbindable.set(false);
        if !self.is_shared() {
            let id = NEXT_GROUP.get();
            NEXT_GROUP.set(id.wrapping_add(1).max(1));
            self.enter(&Rc::new(Group {
                id,
                members: RefCell::default(),
                slaves: RefCell::default(),
                mark: Cell::new(0),
            }));
        }
    }

    /// Makes it follow its group from now on; without other members, it is as it would be without one.
    pub fn make_slave(self: &Rc<Self>) {
        self.is_unbindable.set(false);
        let group = self.group.borrow().clone();
        leave_group(self);
        if let Some(group) = group.filter(|group| !group.members.borrow().is_empty()) {
            leave_master(self);
            self.follow(&group);
        }
    }

    /// Makes it private, and not to be copied.
    pub fn make_unbindable(&self) {
        make_private(self);
        self.is_unbindable.set(true);
    }

    /// Takes part in the propagation as a copy of `original`.
    pub(super) fn join_as(self: &Rc<Self>, original: &Self, how: Copy) {
        let group = original.group.borrow().clone();
        let master = original.master.borrow().clone();
        match (how, group) {
            (Copy::Slave { .. } | Copy::SharedToSlave, Some(group)) => self.follow(&group),
            (_, group) => {
                group.iter().for_each(|group| self.enter(group));
                master.iter().for_each(|master| self.follow(master));
            }
        }
        if how == (Copy::Slave { shared: true }) {
            self.make_shared();
        }
    }
}

fn leave_group(mount: &Mount) {
    let Some(group) = mount.group.take() else { return };
    group.members.borrow_mut().remove(&mount.id);
    if !group.members.borrow().is_empty() {
        return;
    }
    // Those that followed it follow what its last member followed.
    let master = mount.master.borrow().clone();
    for slave in group.slaves.take().into_values().filter_map(|slave| slave.upgrade()) {
        let before = slave.master.take();
        drop(before);
        if let Some(master) = &master {
            slave.follow(master);
        }
    }
}

fn leave_master(mount: &Mount) {
    if let Some(master) = mount.master.take() {
        master.slaves.borrow_mut().remove(&mount.id);
    }
}

/// Takes a mount out of all groups.
pub fn make_private(mount: &Mount) {
    mount.is_unbindable.set(false);
    leave_group(mount);
    leave_master(mount);
}

fn living(members: &Members) -> Result<Vec<Rc<Mount>>> {
    crate::memory::list(members.borrow().values().filter_map(Weak::upgrade))
}

/// The other mounts that changes in `mount` reach. ENOMEM.
pub(super) fn reached(mount: &Rc<Mount>) -> Result<Vec<Rc<Mount>>> {
    let mut found = Vec::new();
    let mut groups: Vec<Rc<Group>> = Vec::new();
    let first = mount.group.borrow().clone();
    let Some(first) = first else { return Ok(found) };
    let operation = super::new_mark();
    first.is_new_to(operation);
    crate::memory::push(&mut groups, first)?;
    let mut at = 0;
    while let Some(group) = groups.get(at).cloned() {
        at += 1;
        for member in living(&group.members)?.into_iter().filter(|member| !Rc::ptr_eq(member, mount)) {
            crate::memory::push(&mut found, member)?;
        }
        for slave in living(&group.slaves)? {
            let own = slave.group.borrow().clone();
            match own {
                None => crate::memory::push(&mut found, slave)?,
                Some(own) if own.is_new_to(operation) => crate::memory::push(&mut groups, own)?,
                Some(_) => {}
            }
        }
    }
    Ok(found)
}

/// A copy of a tree of mounts, and where it goes.
pub(super) type Copied = (PathRef, Loose);

/// Copies of a tree, of `size` mounts that are shared, for all places that a mount of it on `name` in `parent` reaches. ENOMEM;
/// ENOSPC: a namespace would have too many mounts, all copies counted as its own.
pub(super) fn copies(tree: &Rc<Mount>, size: usize, parent: &Rc<Mount>, name: &Rc<Dentry>) -> Result<Vec<Copied>> {
    let mut made = size;
    let mut count = |place: &Rc<Mount>| {
        made = made.saturating_add(size);
        place.namespace().map_or(Ok(()), |namespace| namespace.check_room(made))
    };
    let mut done: Vec<Copied> = Vec::new();
    // With the tree that is copied for the others, and the member that has that already.
    let mut groups: Vec<(Rc<Group>, Rc<Mount>, Rc<Mount>)> = Vec::new();
    let mut unseen: Vec<Loose> = Vec::new();
    let first = parent.group.borrow().clone();
    let Some(first) = first else { return Ok(done) };
    let operation = super::new_mark();
    first.is_new_to(operation);
    crate::memory::push(&mut groups, (first, tree.clone(), parent.clone()))?;
    let mut at = 0;
    while let Some((group, template, holder)) = groups.get(at).cloned() {
        at += 1;
        for member in living(&group.members)? {
            if !Rc::ptr_eq(&member, &holder) && member.shows(name) && member.namespace().is_some() {
                count(&member)?;
                let copy = Loose::copy_of(&template, template.root(), Copy::Alike, true)?;
                crate::memory::push(&mut done, (PathRef::new(member, name.clone()), copy))?;
            }
        }
        for slave in living(&group.slaves)?.into_iter().filter(|slave| slave.namespace().is_some()) {
            let own = slave.group.borrow().clone();
            if own.is_none() && !slave.shows(name) || own.as_ref().is_some_and(|own| !own.is_new_to(operation)) {
                continue;
            }
            count(&slave)?;
            let copy = Loose::copy_of(&template, template.root(), Copy::Slave { shared: own.is_some() }, true)?;
            if let Some(own) = own {
                crate::memory::push(&mut groups, (own, copy.top().clone(), slave.clone()))?;
            }
            if slave.shows(name) {
                crate::memory::push(&mut done, (PathRef::new(slave, name.clone()), copy))?;
            } else {
                // Other members of its group may show the name: they are copies of this one.
                crate::memory::push(&mut unseen, copy)?;
            }
        }
    }
    Ok(done)
}
