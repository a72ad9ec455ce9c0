//! Tests over a directory of the host.

#[cfg(test)]
mod gathered;
mod host_dir;
#[cfg(test)]
mod interleaved;
#[cfg(test)]
mod layers;
#[cfg(test)]
mod lists;
#[cfg(test)]
mod locked;
#[cfg(test)]
mod mounts;
#[cfg(test)]
mod names;
#[cfg(test)]
mod overlay;
#[cfg(test)]
mod read_back;
#[cfg(test)]
mod shown;
#[cfg(test)]
mod through;
#[cfg(test)]
mod trees;
#[cfg(test)]
mod unreadable;
#[cfg(test)]
mod ways;

use crate::host::{Export, FRESH_NS, Host};
use crate::io::{KernelDst, KernelSrc};
use crate::node::{Node, Private, Space};
use crate::tree::Tree;
use crate::walk::{Parent, Walk};
use crate::{Cred, Inode, NewNode, PathRef, ops};
pub use host_dir::HostDir;
use std::cell::RefCell;
use std::rc::Rc;
use std::string::String;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::vec::Vec;
use uapi::Result;

/// Keel's statics belong to one thread of the host at a time: tests with a tree wait for each other.
struct Alone;

static STATICS: Mutex<()> = Mutex::new(());

std::thread_local! {
    /// What this thread holds, and for how many trees.
    static HELD: RefCell<(usize, Option<MutexGuard<'static, ()>>)> = const { RefCell::new((0, None)) };
}

impl Alone {
    fn new() -> Self {
        HELD.with_borrow_mut(|(count, guard)| {
            guard.get_or_insert_with(|| STATICS.lock().unwrap_or_else(PoisonError::into_inner));
            *count += 1;
        });
        Self
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        HELD.with_borrow_mut(|(count, guard)| {
            *count -= 1;
            if *count == 0 {
                *guard = None;
            }
        });
    }
}

/// A tree and short ways to use it.
pub struct World {
    pub tree: Tree,
    pub host: Rc<HostDir>,
    files: Rc<Host>,
    layer: Rc<Private>,
    /// Dropped last.
    alone: Alone,
}

impl World {
    /// A private root with the host directory at `/h` (under a private layer) and `/w` (passed through).
    pub fn new(host: HostDir) -> Self {
        Self::believing(host, FRESH_NS)
    }

    /// The same where attributes and names are believed for `fresh_ns`.
    pub fn believing(host: HostDir, fresh_ns: u64) -> Self {
        let alone = Alone::new();
        let host = Rc::new(host);
        let files = Host::new(host.clone(), 4096, 0);
        let sender = Rc::downgrade(&files);
        host.flush.replace(Some(Rc::new(move || {
            sender.upgrade().inspect(|files| files.flush());
        })));
        let root = Private::new(1, Space::new(1000)).node(&NewNode::plain(0o040755, 0, 0));
        let tree = Tree::new(root, "tmpfs").unwrap();
        let layer = Private::overlay(2, Space::new(1000));
        let over: Rc<Node> = layer.over(Export::open(&files, 1, false, fresh_ns).unwrap());
        tree.attach(b"/h", over, "overlay", "overlay", false).unwrap();
        tree.attach(b"/w", Export::open(&files, 1, true, fresh_ns).unwrap(), "hull", "hull", false).unwrap();
        host.reset();
        Self { tree, host, files, layer, alone }
    }

    /// Ends the world: caches let go what they keep, and the rest must fall apart by itself. Whether it did: what was
    /// removed or replaced in the tree's life must not have kept itself alive.
    pub fn end(self) -> bool {
        let Self { tree, host, files, layer, alone: _alone } = self;
        let end = Rc::downgrade(&host);
        drop(host);
        crate::mount::shrink(crate::dentry::unused::Share::All);
        drop(tree);
        layer.forget_linked();
        drop(layer);
        files.forget();
        drop(files);
        end.strong_count() == 0
    }

    /// Sends gathered writes, which the host carries out.
    pub fn flush(&self) {
        self.files.flush();
        self.host.carry_out_sent();
    }

    pub fn walk(&self) -> Walk<'static> {
        Walk::new(self.tree.root().clone(), Cred::ROOT)
    }

    pub fn get(&self, path: &str) -> Result<PathRef> {
        self.walk().resolve(self.tree.root(), path.as_bytes(), true)
    }

    pub fn parent(&self, path: &str) -> Result<Parent> {
        self.walk().parent(self.tree.root(), path.as_bytes())
    }

    pub fn create(&self, path: &str, mode: u32) -> Result<PathRef> {
        ops::create(&self.parent(path)?, &NewNode::plain(mode, 0, 0), &Cred::ROOT)
    }

    pub fn mkdir(&self, path: &str) -> Result<PathRef> {
        self.create(path, 0o040755)
    }

    pub fn symlink(&self, target: &str, path: &str) -> Result<PathRef> {
        let new = NewNode { target: target.as_bytes(), ..NewNode::plain(0o120777, 0, 0) };
        ops::create(&self.parent(path)?, &new, &Cred::ROOT)
    }

    pub fn write(&self, path: &str, content: &[u8]) -> Result<()> {
        let file = match self.get(path) {
            Ok(file) => file,
            Err(_) => self.create(path, 0o100644)?,
        };
        file.inode().truncate(0)?;
        file.inode().write_at(0, &mut KernelSrc(content)).map(drop)
    }

    pub fn read(&self, path: &str) -> Result<String> {
        Ok(String::from_utf8(content(&**self.get(path)?.inode())?).unwrap())
    }

    pub fn unlink(&self, path: &str) -> Result<()> {
        ops::unlink(&self.parent(path)?, &Cred::ROOT)
    }

    pub fn rmdir(&self, path: &str) -> Result<()> {
        ops::rmdir(&self.parent(path)?, &Cred::ROOT)
    }

    pub fn link(&self, old: &str, new: &str) -> Result<()> {
        ops::link(&self.get(old)?, &self.parent(new)?, &Cred::ROOT)
    }

    pub fn rename(&self, old: &str, new: &str) -> Result<()> {
        self.rename2(old, new, 0)
    }

    pub fn rename2(&self, old: &str, new: &str, flags: u32) -> Result<()> {
        ops::rename(&self.parent(old)?, &self.parent(new)?, flags, &Cred::ROOT)
    }

    /// Sorted names of a directory.
    pub fn list(&self, path: &str) -> Vec<String> {
        let entries = self.get(path).unwrap().inode().readdir().unwrap();
        let mut names: Vec<String> = entries.iter().map(|e| String::from_utf8(e.name.to_vec()).unwrap()).collect();
        names.sort();
        names
    }

    pub fn nlink(&self, path: &str) -> u32 {
        self.get(path).unwrap().inode().attr().unwrap().nlink
    }
}

pub fn content(inode: &dyn Inode) -> Result<Vec<u8>> {
    let mut bytes = std::vec![0; inode.attr()?.size as usize + 10];
    let n = inode.read_at(0, &mut KernelDst(&mut bytes))?;
    bytes.truncate(n);
    Ok(bytes)
}

/// Lets so many ns pass: each reading of the simulated machine's clock takes some.
fn pass(ns: u64) {
    let end = hal::clock::monotonic_ns() + ns;
    while hal::clock::monotonic_ns() < end {}
}

/// Longer than what the host said is believed.
pub fn expire() {
    pass(crate::host::FRESH_NS + 50_000_000);
}
