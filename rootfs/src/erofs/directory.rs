//! Directories: blocks of entries, sorted by name over the whole directory.

use super::format::{BLOCK, DIRENT, file_type};
use crate::tree::{Body, Directory, Id, Tree};

/// The names of a directory in order, `.` and `..` among them.
pub(super) fn names(directory: &Directory, own: Id, parent: Id) -> Vec<(&[u8], Id)> {
    let mut all: Vec<(&[u8], Id)> = Vec::with_capacity(directory.names.len() + 2);
    all.extend([(&b"."[..], own), (&b".."[..], parent)]);
    all.extend(directory.names.iter().map(|(name, slot)| (&**name, slot.id)));
    // The map is sorted; only names below "." come before the first two.
    all.sort_by_key(|&(name, _)| name);
    all
}

/// Number of the names that fit in the next block, and the bytes that they take.
fn fit(names: &[(&[u8], Id)]) -> (usize, usize) {
    let mut size = 0;
    for (count, (name, _)) in names.iter().enumerate() {
        let next = size + DIRENT + name.len();
        if next > BLOCK as usize {
            return (count, size);
        }
        size = next;
    }
    (names.len(), size)
}

/// Size of a directory: whole blocks, and what the last one has.
pub(super) fn size(mut names: &[(&[u8], Id)]) -> u64 {
    let mut blocks = 0;
    loop {
        let (count, size) = fit(names);
        names = &names[count..];
        if names.is_empty() {
            return blocks * BLOCK + size as u64;
        }
        blocks += 1;
    }
}

/// Content of a directory. All but the last block have the block's size.
pub(super) fn encode(mut names: &[(&[u8], Id)], tree: &Tree, number: impl Fn(Id) -> u64) -> Vec<u8> {
    let mut out = Vec::new();
    while !names.is_empty() {
        out.resize(out.len().next_multiple_of(BLOCK as usize), 0);
        let (count, _) = fit(names);
        let (now, later) = names.split_at(count);
        let mut at = count * DIRENT;
        for (name, id) in now {
            out.extend(number(*id).to_le_bytes());
            out.extend((at as u16).to_le_bytes());
            out.extend([kind(&tree.inode(*id).body), 0]);
            at += name.len();
        }
        for (name, _) in now {
            out.extend_from_slice(name);
        }
        names = later;
    }
    out
}

fn kind(body: &Body) -> u8 {
    match body {
        Body::Directory(_) => file_type::DIRECTORY,
        Body::File { .. } => file_type::FILE,
        Body::Symlink(_) => file_type::SYMLINK,
        Body::Char(..) => file_type::CHAR,
        Body::Block(..) => file_type::BLOCK,
        Body::Fifo => file_type::FIFO,
        Body::Socket => file_type::SOCKET,
    }
}
