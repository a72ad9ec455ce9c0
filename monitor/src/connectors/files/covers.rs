//! Nested grants: places of an export that other exports of the pod cover.
//!
//! The pod sees the other export at such a place. The host's file there must be unreachable through the outer export,
//! by any name: it is identified by its path and by its inode. The directories above it can't be moved, or the path
//! would change.

use super::super::{Errno, Result};
use super::attr;
use super::export::open_beneath;
use super::path::RelPath;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, Statx};

/// Identity of a host file: device and inode number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    device: (u32, u32),
    inode: u64,
}

impl Identity {
    fn of(stat: &Statx) -> Self {
        Self { device: (stat.stx_dev_major, stat.stx_dev_minor), inode: stat.stx_ino }
    }
}

/// A file that existed when the pod started. A descriptor, or a mount of the jail, keeps it open, so its inode number
/// is not reused.
#[derive(Debug)]
struct Held {
    node: Option<OwnedFd>,
    identity: Identity,
}

#[derive(Debug)]
struct Cover {
    path: Vec<u8>,
    /// The covered file; `None` if none existed.
    node: Option<Held>,
    /// The directories above it that existed, beneath the export itself.
    above: Vec<Held>,
}

/// The covered places of an export.
#[derive(Debug, Default)]
pub struct Covers(Vec<Cover>);

/// Whether `path` is `above` or lies beneath it.
fn is_within(path: &[u8], above: &[u8]) -> bool {
    path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || above.is_empty() || rest.starts_with(b"/"))
}

impl Covers {
    /// Covers the place `path` beneath the directory `root`; it need not exist. ELOOP if a symbolic link is on the way.
    pub fn add(&mut self, root: BorrowedFd<'_>, path: RelPath<'_>) -> Result<()> {
        let mut cover = Cover { path: path.bytes().to_vec(), node: None, above: Vec::new() };
        for (_, so_far) in path.steps(0) {
            let flags = OFlags::PATH | OFlags::NOFOLLOW;
            let node = match open_beneath(root, so_far.bytes(), flags, Mode::empty()) {
                Ok(node) => node,
                Err(Errno::NOENT) => break,
                Err(error) => return Err(error),
            };
            let held = Held { identity: Identity::of(&attr::of_fd(node.as_fd())?), node: Some(node) };
            if so_far == path {
                cover.node = Some(held);
            } else {
                cover.above.push(held);
            }
        }
        self.0.push(cover);
        Ok(())
    }

    /// The places with an existing file, without those inside others.
    pub fn places(&self) -> impl Iterator<Item = &[u8]> {
        let is_outermost = |path: &[u8]| !self.0.iter().any(|other| other.path != path && is_within(path, &other.path));
        let there = self.0.iter().filter(|cover| cover.node.is_some()).map(|cover| cover.path.as_slice());
        there.filter(move |path| is_outermost(path))
    }

    /// Moves the export to `root`, a mount tree that hides the covered files by mounts. Descriptors of covered files
    /// are dropped, and those of the directories above are opened again beneath `root`.
    pub fn move_to(&mut self, root: BorrowedFd<'_>) {
        for cover in &mut self.0 {
            if let Some(held) = &mut cover.node {
                held.node = None;
            }
            let ends = cover.path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(index, _)| index);
            for (held, end) in cover.above.iter_mut().zip(ends) {
                let path = cover.path.get(..end).unwrap_or_default();
                // If the host moved it meanwhile, its inode number alone identifies it.
                held.node = open_beneath(root, path, OFlags::PATH | OFlags::NOFOLLOW, Mode::empty()).ok();
            }
        }
    }

    /// Whether there are no covers.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// EACCES for the path of a covered place and paths beneath it.
    pub fn check_path(&self, path: RelPath<'_>) -> Result<()> {
        let covered = self.0.iter().any(|cover| is_within(path.bytes(), &cover.path));
        if covered { Err(Errno::ACCESS) } else { Ok(()) }
    }

    /// EACCES for a covered file, whatever its name is.
    pub fn check_node(&self, stat: &Statx) -> Result<()> {
        let identity = Identity::of(stat);
        let covered = |cover: &Cover| cover.node.as_ref().is_some_and(|held| held.identity == identity);
        if self.0.iter().any(covered) { Err(Errno::ACCESS) } else { Ok(()) }
    }

    /// EBUSY for the names of a covered place and of the directories above it.
    pub fn check_name(&self, path: RelPath<'_>) -> Result<()> {
        let fixed = |cover: &Cover| is_within(&cover.path, path.bytes()) || is_within(path.bytes(), &cover.path);
        if self.0.iter().any(fixed) { Err(Errno::BUSY) } else { Ok(()) }
    }

    /// EBUSY for a covered file and the directories above it.
    pub fn check_move(&self, stat: &Statx) -> Result<()> {
        let identity = Identity::of(stat);
        let fixed = |cover: &Cover| cover.node.iter().chain(&cover.above).any(|held| held.identity == identity);
        if self.0.iter().any(fixed) { Err(Errno::BUSY) } else { Ok(()) }
    }

    /// The number of components of `path` that lead to a covered place; `None` if they lead to none.
    pub fn names_to(&self, path: RelPath<'_>) -> Option<usize> {
        let covers = self.0.iter().filter(|cover| is_within(path.bytes(), &cover.path));
        covers.map(|cover| cover.path.iter().filter(|&&byte| byte == b'/').count() + 1).min()
    }
}
