//! From paths to places: path_resolution(7) and openat2(2).

use crate::cred::MAY_EXEC;
use crate::mount::flags;
use crate::{Cred, FileType, Inode, Name, PATH_MAX, PathRef};
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::Cell;
use uapi::{Errno, Result};

/// Most symbolic links followed in one resolution.
const MAX_LINKS: u32 = 40;

/// Restrictions of openat2(2); the values of its `RESOLVE_*` flags.
pub mod resolve {
    /// Do not cross into another mount.
    pub const NO_XDEV: u64 = 0x01;
    /// Do not follow magic links.
    pub const NO_MAGICLINKS: u64 = 0x02;
    /// Do not follow symbolic links.
    pub const NO_SYMLINKS: u64 = 0x04;
    /// Stay beneath the start.
    pub const BENEATH: u64 = 0x08;
    /// Treat the start as the root.
    pub const IN_ROOT: u64 = 0x10;
    /// Only what is cached.
    pub const CACHED: u64 = 0x20;
    /// All of them.
    pub const ALL: u64 = 0x3f;
}

/// How the last component is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Last {
    /// Looked up; a symbolic link is followed.
    Follow,
    /// Looked up; a symbolic link is the result.
    NoFollow,
    /// Not looked up: the result is its directory.
    Parent,
}

/// Last component of a path whose directory was resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Component {
    /// A name.
    Normal(Name),
    /// `.`
    Dot,
    /// `..`
    DotDot,
    /// The path was `/` (or only slashes).
    Root,
}

/// A resolved directory and the component that follows.
#[derive(Clone, Debug)]
pub struct Parent {
    /// The directory.
    pub dir: PathRef,
    /// What comes last.
    pub last: Component,
    /// Slashes follow it.
    pub trailing_slash: bool,
}

/// What a path resolution tells of what it depends on, for [`crate::ways`].
pub trait Record {
    /// It depends on names in this directory, or on permissions of this file. Called before they are looked at.
    fn cross(&self, inode: &dyn Inode);
    /// `cred` was allowed to search a directory.
    fn searched(&self, directory: &dyn Inode, cred: &Cred<'_>);
    /// What was looked at holds until then, `CLOCK_MONOTONIC` ns.
    fn expires(&self, expires: u64);
    /// What was looked at may change without notice.
    fn refuse(&self);
}

/// Nothing is recorded.
impl Record for () {
    #[inline(always)]
    fn cross(&self, _: &dyn Inode) {}
    #[inline(always)]
    fn searched(&self, _: &dyn Inode, _: &Cred<'_>) {}
    #[inline(always)]
    fn expires(&self, _: u64) {}
    #[inline(always)]
    fn refuse(&self) {}
}

/// One path resolution on behalf of a process.
pub struct Walk<'a, R = ()> {
    root: PathRef,
    cred: Cred<'a>,
    flags: u64,
    start: Option<PathRef>,
    links: Cell<u32>,
    record: R,
}

impl<'a> Walk<'a> {
    /// A resolution in the tree beneath `root`.
    pub fn new(root: PathRef, cred: Cred<'a>) -> Self {
        Self { root, cred, flags: 0, start: None, links: Cell::new(0), record: () }
    }

    /// With restrictions of [`resolve`], relative to `start`.
    pub fn restricted(root: PathRef, cred: Cred<'a>, start: &PathRef, flags: u64) -> Self {
        let root = if flags & resolve::IN_ROOT != 0 { start.clone() } else { root };
        Self { root, cred, flags, start: Some(start.clone()), links: Cell::new(0), record: () }
    }
}

impl<'a, R: Record> Walk<'a, R> {
    /// A resolution that uses cached names only, and is recorded.
    pub(crate) fn recorded(root: PathRef, cred: Cred<'a>, record: R) -> Self {
        Self { root, cred, flags: resolve::CACHED, start: None, links: Cell::new(0), record }
    }

    /// What was recorded.
    pub(crate) fn into_record(self) -> R {
        self.record
    }

    /// Resolves `path` from `base`; a symbolic link at the end is followed or not.
    pub fn resolve(&self, base: &PathRef, path: &[u8], follow: bool) -> Result<PathRef> {
        match self.walk(base, path, if follow { Last::Follow } else { Last::NoFollow })? {
            End::Place(place) => Ok(place),
            // Only `Last::Parent` ends like this.
            End::Parent(_) => Err(Errno::EINVAL),
        }
    }

    /// Resolves the directory of the last component of `path`.
    pub fn parent(&self, base: &PathRef, path: &[u8]) -> Result<Parent> {
        match self.walk(base, path, Last::Parent)? {
            End::Parent(parent) => Ok(parent),
            End::Place(_) => Err(Errno::EINVAL),
        }
    }

    /// Continues a walk that stopped at `link` in `dir` because it was asked for the parent: where
    /// the link leads, again as directory and last component. ELOOP.
    pub fn follow_parent(&self, dir: &PathRef, link: &PathRef) -> Result<Followed> {
        match self.follow(link)? {
            Target::Place(place) => Ok(Followed::Place(place)),
            Target::Path(target) => Ok(Followed::Parent(self.parent(dir, &target)?)),
        }
    }

    /// Looks up one name in a directory, with the checks of a walk but without following it.
    pub fn lookup(&self, dir: &PathRef, name: &[u8]) -> Result<PathRef> {
        self.cred.check(&**dir.inode(), MAY_EXEC)?;
        let child = dir.lookup(name, &[], self.flags & resolve::CACHED != 0)?;
        self.check_mount(dir, &child)?;
        Ok(child)
    }

    /// The directory above, `..`.
    pub fn up(&self, dir: &PathRef) -> Result<PathRef> {
        if self.flags & resolve::BENEATH != 0 && self.start.as_ref().is_some_and(|s| s.same(dir)) {
            return Err(Errno::EXDEV);
        }
        let parent = dir.up(&self.root)?;
        self.check_mount(dir, &parent)?;
        Ok(parent)
    }

    fn check_mount(&self, from: &PathRef, to: &PathRef) -> Result<()> {
        if self.flags & resolve::NO_XDEV != 0 && !Rc::ptr_eq(from.mount(), to.mount()) {
            return Err(Errno::EXDEV);
        }
        Ok(())
    }

    /// Where a link leads, with the limits that apply to links.
    fn follow(&self, link: &PathRef) -> Result<Target> {
        if self.flags & resolve::NO_SYMLINKS != 0 || link.has_flag(flags::NO_SYMFOLLOW) {
            return Err(Errno::ELOOP);
        }
        self.links.set(self.links.get() + 1);
        if self.links.get() > MAX_LINKS {
            return Err(Errno::ELOOP);
        }
        if let Some(place) = link.inode().jump() {
            self.record.refuse();
            if self.flags & resolve::NO_MAGICLINKS != 0 {
                return Err(Errno::ELOOP);
            }
            if self.flags & (resolve::BENEATH | resolve::IN_ROOT) != 0 {
                return Err(Errno::EXDEV);
            }
            let place = place?;
            self.check_mount(link, &place)?;
            return Ok(Target::Place(place));
        }
        let target = link.inode().readlink()?;
        if target.is_empty() {
            return Err(Errno::ENOENT);
        }
        Ok(Target::Path(target))
    }

    fn jump_to_root(&self, from: &PathRef) -> Result<PathRef> {
        if self.flags & resolve::BENEATH != 0 {
            return Err(Errno::EXDEV);
        }
        self.check_mount(from, &self.root)?;
        Ok(self.root.clone())
    }

    fn walk(&self, base: &PathRef, path: &[u8], last: Last) -> Result<End> {
        if path.is_empty() {
            return Err(Errno::ENOENT);
        }
        if path.len() >= PATH_MAX {
            return Err(Errno::ENAMETOOLONG);
        }
        let mut at = base.clone();
        // After a link, the text is its target and the rest of what it stood in.
        let mut expanded: Vec<u8> = Vec::new();
        let mut is_expanded = false;
        let mut next = 0;
        if path[0] == b'/' {
            at = self.jump_to_root(&at)?;
        }
        loop {
            let text = if is_expanded { &expanded[..] } else { path };
            while text.get(next) == Some(&b'/') {
                next += 1;
            }
            let rest = text.get(next..).unwrap_or_default();
            if rest.is_empty() {
                return Ok(match last {
                    Last::Parent => End::Parent(Parent { dir: at, last: Component::Root, trailing_slash: false }),
                    _ => End::Place(at),
                });
            }
            if at.inode().file_type() != FileType::Directory {
                return Err(Errno::ENOTDIR);
            }
            self.record.cross(&**at.inode());
            self.cred.check(&**at.inode(), MAY_EXEC)?;
            self.record.searched(&**at.inode(), &self.cred);
            let len = rest.iter().position(|&b| b == b'/').unwrap_or(rest.len());
            let (name, after) = rest.split_at(len);
            let slashes = after.iter().take_while(|&&b| b == b'/').count();
            let is_last = slashes == after.len();
            if is_last && last == Last::Parent {
                let component = match name {
                    b"." => Component::Dot,
                    b".." => Component::DotDot,
                    _ => Component::Normal(Rc::from(name)),
                };
                return Ok(End::Parent(Parent { dir: at, last: component, trailing_slash: slashes > 0 }));
            }
            next += len;
            let child = match name {
                b"." => continue,
                b".." => {
                    at = self.up(&at)?;
                    // A directory that moves changes the names of the one that it is moved from.
                    self.record.cross(&**at.inode());
                    if !at.mount().is_whole() {
                        // Whether the mount shows it depends on the directories above.
                        self.record.refuse();
                    }
                    continue;
                }
                _ => {
                    let ahead = after.get(slashes..).unwrap_or_default();
                    at.dentry().lookup(name, ahead, self.flags & resolve::CACHED != 0)?
                }
            };
            self.record.expires(child.expires());
            if child.inode().file_type() == FileType::Symlink && !(is_last && slashes == 0 && last == Last::NoFollow) {
                match self.follow(&PathRef::new(at.mount().clone(), child))? {
                    Target::Place(place) => at = place,
                    Target::Path(target) => {
                        if target[0] == b'/' {
                            at = self.jump_to_root(&at)?;
                        }
                        // What follows may have come from the targets of other links.
                        let mut text = crate::memory::copy(&target)?;
                        crate::memory::append(&mut text, after)?;
                        expanded = text;
                        is_expanded = true;
                        next = 0;
                        continue;
                    }
                }
            } else if self.flags & resolve::NO_XDEV == 0 {
                at.enter(child);
            } else {
                let before = at.clone();
                at.enter(child);
                self.check_mount(&before, &at)?;
            }
            if (slashes > 0 || !is_last) && at.inode().file_type() != FileType::Directory {
                return Err(Errno::ENOTDIR);
            }
        }
    }
}

enum End {
    Place(PathRef),
    Parent(Parent),
}

enum Target {
    Place(PathRef),
    Path(Name),
}

/// Where a link at the end of a path leads.
#[derive(Clone, Debug)]
pub enum Followed {
    /// A magic link: straight to a place.
    Place(PathRef),
    /// A directory and the component that follows.
    Parent(Parent),
}
