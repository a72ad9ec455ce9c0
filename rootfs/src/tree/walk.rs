//! From paths to inodes.

use std::collections::VecDeque;

use super::{Body, Id, ROOT, Tree, implied};
use crate::error::{Fault, Limit};

/// Symbolic links that one path may lead through, as in Linux.
const LINKS: u32 = 40;

/// Names that one path may lead through, links included.
const STEPS: usize = 8192;

/// Whether a symbolic link at the end of a path is followed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Last {
    Follow,
    Keep,
}

/// What happens with directories that a path needs and that do not exist.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missing {
    /// They are created, with this modification time.
    Create((i64, u32)),
    Leave,
}

/// A path on its way: directories from the root to the present one, and the names that are left.
struct Walk {
    above: Vec<Id>,
    left: VecDeque<Box<[u8]>>,
    links: u32,
    steps: usize,
}

impl Walk {
    fn new(names: &[&[u8]]) -> Walk {
        Walk { above: vec![ROOT], left: names.iter().map(|&name| name.into()).collect(), links: 0, steps: 0 }
    }

    fn here(&self) -> Id {
        *self.above.last().unwrap_or(&ROOT)
    }

    /// The next name that is not `.` or `..`, which it follows itself; the root's parent is the root.
    fn next(&mut self) -> Result<Option<Box<[u8]>>, Fault> {
        while let Some(name) = self.left.pop_front() {
            self.steps += 1;
            if self.steps > STEPS {
                return Err(Fault::Loop);
            }
            match &*name {
                b"" | b"." => {}
                b".." => {
                    if self.above.len() > 1 {
                        self.above.pop();
                    }
                }
                _ => return Ok(Some(name)),
            }
        }
        Ok(None)
    }

    /// Continues with a symbolic link's target.
    fn follow(&mut self, target: &[u8]) -> Result<(), Fault> {
        self.links += 1;
        if self.links > LINKS {
            return Err(Fault::Loop);
        }
        if target.first() == Some(&b'/') {
            self.above.truncate(1);
        }
        for name in target.split(|&b| b == b'/').rev() {
            self.left.push_front(name.into());
        }
        Ok(())
    }
}

impl Tree {
    /// The directory at `names`, for an entry of the present layer. What a lower layer has there and is no directory is
    /// replaced by one, as a union mount would show it. A symbolic link of the same layer is followed, inside the tree.
    /// `None`: there is no directory, and there shall be none.
    pub(crate) fn parent(&mut self, names: &[&[u8]], missing: Missing) -> Result<Option<Id>, Fault> {
        let mut walk = Walk::new(names);
        while let Some(name) = walk.next()? {
            let here = walk.here();
            let layer = self.layer;
            let slot = self.directory(here).and_then(|directory| directory.names.get(&name)).copied();
            let lower = slot.is_some_and(|slot| slot.layer < layer);
            match slot.map(|slot| (slot.id, &self.inode(slot.id).body)) {
                Some((id, Body::Directory(_))) => {
                    // A whiteout alone does not make a directory one of this layer.
                    if lower && missing != Missing::Leave {
                        self.touch(here, &name);
                    }
                    walk.above.push(id);
                }
                Some((_, Body::Symlink(target))) if !lower => walk.follow(target)?,
                Some(_) if !lower => return Err(Fault::NotDirectory),
                _ => {
                    let Missing::Create(mtime) = missing else { return Ok(None) };
                    let id = self.create_directory(implied(mtime));
                    self.link(here, &name, id)?;
                    walk.above.push(id);
                }
            }
            if walk.above.len() > self.limits.depth {
                return Err(Fault::Limit(Limit::Depth(self.limits.depth)));
            }
        }
        Ok(Some(walk.here()))
    }

    /// What is at `names`. Links lead inside the tree, whatever their targets are.
    pub(crate) fn find(&self, names: &[&[u8]], last: Last) -> Result<Option<Id>, Fault> {
        let mut walk = Walk::new(names);
        while let Some(name) = walk.next()? {
            let Some(directory) = self.directory(walk.here()) else { return Ok(None) };
            let Some(slot) = directory.names.get(&name) else { return Ok(None) };
            match &self.inode(slot.id).body {
                Body::Symlink(target) if last == Last::Follow || !walk.left.is_empty() => walk.follow(target)?,
                // A file with names after it gives nothing in the next round.
                _ => walk.above.push(slot.id),
            }
        }
        Ok(Some(walk.here()))
    }
}
