//! Grants inside grants: places of an export that other exports of the pod cover.
//!
//! A pod sees another export at such a place. What the host has there is out of reach of the export around it, by any
//! name: it is known by its path and by its inode. The directories above it stay where they are, as its path would lead
//! elsewhere otherwise.

use super::super::{Errno, Result};
use super::attr;
use super::export::open_beneath;
use super::path::RelPath;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, Statx};

/// What tells two files of the host apart.
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

/// A file that was there when the pod started. It is held open, or by a mount of the jail: its inode number names nothing
/// else meanwhile.
#[derive(Debug)]
struct Held {
    node: Option<OwnedFd>,
    identity: Identity,
}

#[derive(Debug)]
struct Cover {
    path: Vec<u8>,
    /// What is covered; `None` if nothing was there.
    node: Option<Held>,
    /// The directories above, as far as they existed, beneath the export itself.
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
    /// Covers what lies, or would lie, at `path` beneath the directory `root`. ELOOP if a symbolic link leads there.
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

    /// The places where something was, but those that lie in others.
    pub fn places(&self) -> impl Iterator<Item = &[u8]> {
        let is_outermost = |path: &[u8]| !self.0.iter().any(|other| other.path != path && is_within(path, &other.path));
        let there = self.0.iter().filter(|cover| cover.node.is_some()).map(|cover| cover.path.as_slice());
        there.filter(move |path| is_outermost(path))
    }

    /// The export is reached by `root` from now on, where mounts hold what is covered: no descriptor leads there any more, nor
    /// to the directories above but through `root`.
    pub fn move_to(&mut self, root: BorrowedFd<'_>) {
        for cover in &mut self.0 {
            if let Some(held) = &mut cover.node {
                held.node = None;
            }
            let ends = cover.path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(index, _)| index);
            for (held, end) in cover.above.iter_mut().zip(ends) {
                let path = cover.path.get(..end).unwrap_or_default();
                // One that the host moved meanwhile is known by its number alone.
                held.node = open_beneath(root, path, OFlags::PATH | OFlags::NOFOLLOW, Mode::empty()).ok();
            }
        }
    }

    /// Whether nothing is covered.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// EACCES for the path of what is covered, and beneath.
    pub fn check_path(&self, path: RelPath<'_>) -> Result<()> {
        let covered = self.0.iter().any(|cover| is_within(path.bytes(), &cover.path));
        if covered { Err(Errno::ACCESS) } else { Ok(()) }
    }

    /// EACCES for what is covered, whatever its name is.
    pub fn check_node(&self, stat: &Statx) -> Result<()> {
        let identity = Identity::of(stat);
        let covered = |cover: &Cover| cover.node.as_ref().is_some_and(|held| held.identity == identity);
        if self.0.iter().any(covered) { Err(Errno::ACCESS) } else { Ok(()) }
    }

    /// EBUSY for names that must stay what they are: those of what is covered and those on the way there.
    pub fn check_name(&self, path: RelPath<'_>) -> Result<()> {
        let fixed = |cover: &Cover| is_within(&cover.path, path.bytes()) || is_within(path.bytes(), &cover.path);
        if self.0.iter().any(fixed) { Err(Errno::BUSY) } else { Ok(()) }
    }

    /// EBUSY for files that must keep their names: what is covered, and the directories above.
    pub fn check_move(&self, stat: &Statx) -> Result<()> {
        let identity = Identity::of(stat);
        let fixed = |cover: &Cover| cover.node.iter().chain(&cover.above).any(|held| held.identity == identity);
        if self.0.iter().any(fixed) { Err(Errno::BUSY) } else { Ok(()) }
    }

    /// How many names of `path` lead to a covered place; `None` if they lead to none.
    pub fn names_to(&self, path: RelPath<'_>) -> Option<usize> {
        let covers = self.0.iter().filter(|cover| is_within(path.bytes(), &cover.path));
        covers.map(|cover| cover.path.iter().filter(|&&byte| byte == b'/').count() + 1).min()
    }
}
