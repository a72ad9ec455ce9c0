//! Mounts: mount(2), umount2(2), pivot_root(2), and the calls that do the same by descriptors.

mod kinds;
pub mod new;
pub mod old;
mod overlay;
pub mod root;
pub mod tell;

use crate::fs::proc::namespace_file_system;
use crate::task::mountns::MountNs;
use crate::task::path::Caller;
use crate::task::{self, cred::cap};
use alloc::rc::Rc;
use uapi::{Errno, Result};
use vfs::mount::{Loose, Namespace, change};
use vfs::{Mount, PathRef};

/// The caller of a call about mounts.
struct Admin {
    caller: Caller,
    namespace: Rc<MountNs>,
}

impl Admin {
    /// The running thread. EPERM: it may not change its mount namespace, or Landlock restricts its files.
    fn current() -> Result<Self> {
        let (cred, namespace) = task::with_current(|me| (me.cred(), me.namespaces().mount.clone()));
        let is_restricted = cred.domain.as_ref().is_some_and(|domain| domain.has_rules_for_files());
        if is_restricted || !cred.capable_in(namespace.user_ns(), cap::SYS_ADMIN) {
            return Err(Errno::EPERM);
        }
        Ok(Self { caller: Caller::current(), namespace })
    }

    fn tree(&self) -> &Rc<Namespace> {
        self.namespace.tree()
    }

    /// A copy of the mount that shows a place, if it `is_usable`. A namespace (nsfs) can be mounted, too. EINVAL, ENOMEM.
    fn copied(&self, from: &PathRef, recursive: bool, is_usable: bool) -> Result<Loose> {
        if is_usable {
            return change::copy(from, recursive);
        }
        let fs = namespace_file_system(from).ok_or(Errno::EINVAL)??;
        Loose::of(&fs, Rc::from(&b"nsfs"[..]), 0)
    }

    /// Whether a mount is in the caller's namespace, or in none of a process.
    fn may_use(&self, mount: &Mount) -> bool {
        mount.namespace().is_some_and(|ns| ns.is_anonymous() || Rc::ptr_eq(&ns, self.tree()))
    }
}
