//! Which extended attributes an image keeps.

use std::collections::BTreeMap;

use crate::{
    Limits,
    error::{Fault, Limit},
};

/// One extended attribute: the namespace's number in EROFS, the name after the prefix, and the value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Xattr {
    pub index: u8,
    pub name: Box<[u8]>,
    pub value: Box<[u8]>,
}

/// Attributes of one inode, sorted, each name once.
pub(crate) type Xattrs = Box<[Xattr]>;

/// Prefixes of names with their numbers in EROFS.
pub(crate) const PREFIXES: [(u8, &[u8]); 4] =
    [(1, b"user."), (2, b"system.posix_acl_access"), (3, b"system.posix_acl_default"), (6, b"security.")];

/// Number and rest of a name that images keep: `user.*`, POSIX ACLs and `security.capability`. All others describe the
/// host that made the archive (labels of SELinux, state of overlayfs, `trusted.*`) and are dropped.
pub(crate) fn kept(name: &[u8]) -> Option<(u8, &[u8])> {
    match name {
        b"security.capability" => Some((6, b"capability")),
        b"system.posix_acl_access" => Some((2, b"")),
        b"system.posix_acl_default" => Some((3, b"")),
        _ => name.strip_prefix(b"user.").filter(|rest| !rest.is_empty()).map(|rest| (1, rest)),
    }
}

/// Size of an entry of the table in an image: four bytes, name and value, rounded up to four.
pub(crate) fn entry_size(xattr: &Xattr) -> usize {
    (4 + xattr.name.len() + xattr.value.len()).next_multiple_of(4)
}

/// Size of the table behind an inode if no attribute is shared.
pub(crate) fn table_size(xattrs: &[Xattr]) -> usize {
    if xattrs.is_empty() { 0 } else { 12 + xattrs.iter().map(entry_size).sum::<usize>() }
}

/// The attributes of one inode from all of its names and values.
pub(crate) fn collect(all: BTreeMap<Vec<u8>, Vec<u8>>, limits: &Limits) -> Result<Xattrs, Fault> {
    let mut found = Vec::new();
    let mut size = 0usize;
    for (name, value) in all {
        let Some((index, rest)) = kept(&name) else { continue };
        size = size.saturating_add(name.len()).saturating_add(value.len());
        if size > limits.xattrs || name.len() > 255 || value.len() > usize::from(u16::MAX) {
            return Err(Fault::Limit(Limit::Xattrs(limits.xattrs)));
        }
        if rest.contains(&0) {
            return Err(Fault::Pax);
        }
        found.push(Xattr { index, name: rest.into(), value: value.into() });
    }
    found.sort();
    Ok(found.into())
}
