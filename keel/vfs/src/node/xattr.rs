//! Extended attributes, xattr(7).

use super::Node;
use crate::acl::{Acl, Kind};
use crate::{Inode, Name};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::vec::Vec;
use uapi::{Errno, Result};

/// Values by name, and access control lists.
#[derive(Default)]
pub(super) struct Xattrs {
    values: BTreeMap<Name, Box<[u8]>>,
    access: Option<Rc<Acl>>,
    default: Option<Rc<Acl>>,
}

/// setxattr(2): fail if it exists.
const XATTR_CREATE: u32 = 1;
/// setxattr(2): fail if it does not exist.
const XATTR_REPLACE: u32 = 2;

/// Spaces of names that are kept.
fn check_space(name: &[u8]) -> Result<()> {
    let known = [&b"user."[..], b"trusted.", b"security."];
    if known.iter().any(|space| name.starts_with(space) && name.len() > space.len()) {
        Ok(())
    } else {
        Err(Errno::EOPNOTSUPP)
    }
}

impl Node {
    pub(super) fn xattr(&self, name: &[u8]) -> Result<Vec<u8>> {
        check_space(name)?;
        let xattrs = self.xattrs.borrow();
        xattrs.as_ref().and_then(|x| x.values.get(name)).map(|v| v.to_vec()).ok_or(Errno::ENODATA)
    }

    pub(super) fn put_xattr(&self, name: &[u8], value: &[u8], flags: u32) -> Result<()> {
        check_space(name)?;
        let exists = self.xattrs.borrow().as_ref().is_some_and(|x| x.values.contains_key(name));
        if exists && flags & XATTR_CREATE != 0 {
            return Err(Errno::EEXIST);
        }
        if !exists && flags & XATTR_REPLACE != 0 {
            return Err(Errno::ENODATA);
        }
        self.fs.check_memory()?;
        self.change(&crate::Change::default())?;
        self.xattrs.borrow_mut().get_or_insert_default().values.insert(Name::from(name), Box::from(value));
        Ok(())
    }

    pub(super) fn xattr_names(&self) -> Vec<u8> {
        let xattrs = self.xattrs.borrow();
        let kept = |kind: Kind| match (xattrs.as_ref(), kind) {
            (Some(x), Kind::Access) => x.access.is_some(),
            (Some(x), Kind::Default) => x.default.is_some(),
            (None, _) => false,
        };
        let lists = Kind::NAMES.iter().filter(|(_, kind)| kept(*kind)).map(|(name, _)| *name);
        let names = lists.chain(xattrs.iter().flat_map(|x| x.values.keys().map(|name| &name[..])));
        names.flat_map(|name| name.iter().copied().chain(core::iter::once(0))).collect()
    }

    pub(super) fn list_of(&self, kind: Kind) -> Option<Rc<Acl>> {
        let xattrs = self.xattrs.borrow();
        match kind {
            Kind::Access => xattrs.as_ref()?.access.clone(),
            Kind::Default => xattrs.as_ref()?.default.clone(),
        }
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
        Ok(())
    }

    pub(super) fn drop_xattr(&self, name: &[u8]) -> Result<()> {
        check_space(name)?;
        let removed = self.xattrs.borrow_mut().as_mut().and_then(|x| x.values.remove(name));
        removed.ok_or(Errno::ENODATA)?;
        self.change(&crate::Change::default())
    }
}
