//! Mount namespaces of the pod, mount_namespaces(7): a tree of mounts and its owner.

use super::{FsContext, Task, process};
use crate::cred::{UserNs, userns};
use alloc::rc::Rc;
use core::cell::{OnceCell, RefCell};
use hal::cell::Global;
use uapi::Result;
use vfs::PathRef;
use vfs::mount::Namespace;

/// Inode number of the first one.
const FIRST_INODE: u64 = 4_026_531_832;

/// The mounts of the first one.
static FIRST: Global<RefCell<Option<Rc<Namespace>>>> = Global::new(RefCell::new(None));

/// Makes known what the first program sees.
pub fn set_first(tree: Rc<Namespace>) {
    FIRST.replace(Some(tree));
}

/// See the module.
#[derive(Debug)]
pub struct MountNs {
    inode: u64,
    user_ns: Rc<UserNs>,
    /// Of the first one, known when it is needed: keel's own threads are there before any file.
    tree: OnceCell<Rc<Namespace>>,
}

impl MountNs {
    /// The one of the first program.
    pub(super) fn first() -> Rc<Self> {
        Rc::new(Self { inode: FIRST_INODE, user_ns: UserNs::first(), tree: OnceCell::new() })
    }

    /// A copy that belongs to `user_ns`, to which root and working directory in `fs` move. ENOMEM, ENOSPC.
    pub fn copy(&self, user_ns: Rc<UserNs>, fs: &FsContext) -> Result<Rc<Self>> {
        let is_foreign = !Rc::ptr_eq(&user_ns, &self.user_ns);
        let (mut root, mut cwd) = (fs.root(), fs.cwd());
        let tree = self.tree().copy(is_foreign, &mut [&mut root, &mut cwd])?;
        fs.set_root(root);
        fs.set_cwd(cwd);
        Ok(Rc::new(Self { inode: userns::new_inode(), user_ns, tree: OnceCell::from(tree) }))
    }

    /// Its mounts.
    ///
    /// # Panics
    /// Before [`set_first`].
    pub fn tree(&self) -> &Rc<Namespace> {
        self.tree.get_or_init(|| match &*FIRST.borrow() {
            Some(tree) => tree.clone(),
            None => unreachable!("the tree is made before the first program"),
        })
    }

    /// Its inode number.
    pub fn inode(&self) -> u64 {
        self.inode
    }

    /// The user namespace that it belongs to.
    pub fn user_ns(&self) -> &Rc<UserNs> {
        &self.user_ns
    }
}

/// Whether a thread's root directory is not that of its mount namespace.
pub fn is_chrooted(task: &Task) -> bool {
    !task.fs().root().same(&task.namespaces().mount.tree().root())
}

/// Root and working directories of all processes that are `old` become `new`: the root mount was exchanged.
pub fn move_roots(old: &PathRef, new: &PathRef) {
    for process in process::all() {
        for fs in process.threads().filter_map(|task| task.try_fs()) {
            if fs.root().same(old) {
                fs.set_root(new.clone());
            }
            if fs.cwd().same(old) {
                fs.set_cwd(new.clone());
            }
        }
    }
}
