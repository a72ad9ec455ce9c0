//! Tables of extended attributes. One that several inodes have is stored once, in the shared area.

use std::collections::BTreeMap;

use crate::{
    tree::Tree,
    xattr::{Xattr, entry_size},
};

/// Size of a table before its entries.
pub(super) const HEADER: usize = 12;

/// Shared attributes that one table may refer to.
const REFERENCES: usize = 255;

/// The shared area.
#[derive(Default)]
pub(super) struct Shared {
    pub area: Vec<u8>,
    /// Offset in the area, in units of four bytes.
    places: BTreeMap<Xattr, u32>,
}

impl Shared {
    /// The attributes that at least two inodes of `tree` have.
    pub fn of(tree: &Tree) -> Shared {
        let mut counts: BTreeMap<&Xattr, bool> = BTreeMap::new();
        for xattr in tree.inodes.iter().flatten().flat_map(|inode| &*inode.meta.xattrs) {
            counts.entry(xattr).and_modify(|several| *several = true).or_insert(false);
        }
        let mut shared = Shared::default();
        for xattr in counts.into_iter().filter_map(|(xattr, several)| several.then_some(xattr)) {
            shared.places.insert(xattr.clone(), (shared.area.len() / 4) as u32);
            encode(xattr, &mut shared.area);
        }
        shared
    }

    /// The table behind an inode; empty without attributes.
    pub fn table(&self, xattrs: &[Xattr], base: u32, out: &mut Vec<u8>) {
        if xattrs.is_empty() {
            return;
        }
        let references: Vec<u32> =
            xattrs.iter().filter_map(|xattr| self.places.get(xattr)).take(REFERENCES).copied().collect();
        out.extend([0; 4]);
        out.push(references.len() as u8);
        out.extend([0; HEADER - 5]);
        for place in &references {
            out.extend((base + place).to_le_bytes());
        }
        let mut left = references.len();
        for xattr in xattrs {
            if left > 0 && self.places.contains_key(xattr) {
                left -= 1;
                continue;
            }
            encode(xattr, out);
        }
    }

    /// Size of that table.
    pub fn table_size(&self, xattrs: &[Xattr]) -> u64 {
        if xattrs.is_empty() {
            return 0;
        }
        let mut left = REFERENCES;
        let entries = xattrs.iter().map(|xattr| {
            if left > 0 && self.places.contains_key(xattr) {
                left -= 1;
                return 4;
            }
            entry_size(xattr)
        });
        (HEADER + entries.sum::<usize>()) as u64
    }
}

fn encode(xattr: &Xattr, out: &mut Vec<u8>) {
    let end = out.len() + entry_size(xattr);
    // Name and value have at most 255 and 65535 bytes.
    out.extend([xattr.name.len() as u8, xattr.index]);
    out.extend((xattr.value.len() as u16).to_le_bytes());
    out.extend_from_slice(&xattr.name);
    out.extend_from_slice(&xattr.value);
    out.resize(end, 0);
}
