//! Extended attributes, xattr(7).

use super::{Lower, Node};
use crate::acl::{Acl, Kind};
use crate::memory::{append, copy};
use crate::{Inode, Name, capability};
use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::vec::Vec;
use uapi::{Errno, Result};

/// Values by name, and access control lists.
#[derive(Default)]
pub(super) struct Xattrs {
    values: BTreeMap<Name, Vec<u8>>,
    access: Option<Rc<Acl>>,
    default: Option<Rc<Acl>>,
}

/// setxattr(2): fail if it exists.
const XATTR_CREATE: u32 = 1;
/// setxattr(2): fail if it does not exist.
const XATTR_REPLACE: u32 = 2;

/// Spaces of names that are kept. EINVAL for the name of a space alone.
fn check_space(name: &[u8]) -> Result<()> {
    let known = [&b"user."[..], b"trusted.", b"security."];
    if known.iter().any(|space| name.starts_with(space) && name.len() > space.len()) {
        Ok(())
    } else {
        Err(if known.contains(&name) { Errno::EINVAL } else { Errno::EOPNOTSUPP })
    }
}

impl Node {
    /// The lower file whose attributes it shows.
    pub(super) fn lower_attr(&self) -> Option<&Lower> {
        if self.owns(super::OWN_ATTR) { None } else { self.lower.as_ref() }
    }

    /// Takes the attributes of the lower file.
    pub(super) fn adopt_xattrs(&self, values: Vec<(Name, Vec<u8>)>) {
        if !values.is_empty() {
            self.xattrs.borrow_mut().get_or_insert_default().values.extend(values);
        }
    }

    pub(super) fn xattr(&self, name: &[u8]) -> Result<Vec<u8>> {
        check_space(name)?;
        if let Some(lower) = self.lower_attr() {
            return lower.xattr(name);
        }
        let xattrs = self.xattrs.borrow();
        xattrs.as_ref().and_then(|x| x.values.get(name)).map_or(Err(Errno::ENODATA), |v| copy(v))
    }

    pub(super) fn put_xattr(&self, name: &[u8], value: &[u8], flags: u32) -> Result<()> {
        check_space(name)?;
        let exists = self.xattr(name).is_ok();
        if exists && flags & XATTR_CREATE != 0 {
            return Err(Errno::EEXIST);
        }
        if !exists && flags & XATTR_REPLACE != 0 {
            return Err(Errno::ENODATA);
        }
        self.fs.check_memory()?;
        self.change(&crate::Change::default())?;
        let value = copy(value)?;
        self.xattrs.borrow_mut().get_or_insert_default().values.insert(Name::from(name), value);
        Ok(())
    }

    /// Value of `security.capability`.
    pub(super) fn own_capability(&self) -> Option<Vec<u8>> {
        if let Some(lower) = self.lower_attr() {
            return lower.xattr(capability::NAME).ok();
        }
        self.xattrs.borrow().as_ref()?.values.get(capability::NAME).map(|value| value.to_vec())
    }

    /// Removes it: called for each change of the content.
    pub(super) fn forget_capability(&self) {
        let removed = self.xattrs.borrow_mut().as_mut().and_then(|x| x.values.remove(capability::NAME));
        drop(removed);
    }

    pub(super) fn xattr_names(&self) -> Result<Vec<u8>> {
        // What can't be asked for now is not listed.
        let below = self.lower_attr().map_or(Ok(Vec::new()), |lower| lower.xattr_names())?;
        let has = |kind| self.list_of(kind).is_ok_and(|list| list.is_some());
        let lists = Kind::NAMES.map(|(name, kind)| has(kind).then_some(name));
        let xattrs = self.xattrs.borrow();
        let lists = lists.into_iter().flatten();
        let own = xattrs.iter().flat_map(|x| x.values.keys().map(|name| &name[..]));
        let names = lists.chain(own).chain(below.iter().map(|name| &name[..]));
        let mut all = Vec::new();
        for name in names {
            append(&mut all, name)?;
            append(&mut all, b"\0")?;
        }
        Ok(all)
    }

    pub(super) fn list_of(&self, kind: Kind) -> Result<Option<Rc<Acl>>> {
        if let Some(lower) = self.lower_attr() {
            return lower.acl(kind);
        }
        let xattrs = self.xattrs.borrow();
        Ok(xattrs.as_ref().and_then(|xattrs| match kind {
            Kind::Access => xattrs.access.clone(),
            Kind::Default => xattrs.default.clone(),
        }))
    }

    pub(super) fn keep_list(&self, kind: Kind, acl: Option<Rc<Acl>>) -> Result<()> {
        if acl.is_none() && self.xattrs.borrow().is_none() {
            return Ok(());
        }
        if acl.is_some() {
            self.fs.check_memory()?;
        }
        let mut xattrs = self.xattrs.borrow_mut();
        let xattrs = xattrs.get_or_insert_default();
        match kind {
            Kind::Access => xattrs.access = acl,
            Kind::Default => xattrs.default = acl,
        }
        self.permissions_changed();
        Ok(())
    }

    pub(super) fn drop_xattr(&self, name: &[u8]) -> Result<()> {
        check_space(name)?;
        self.own_attr()?;
        let removed = self.xattrs.borrow_mut().as_mut().and_then(|x| x.values.remove(name));
        removed.ok_or(Errno::ENODATA)?;
        self.change(&crate::Change::default())
    }
}
