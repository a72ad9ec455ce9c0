//! Renames in a host directory.

use super::node::TRIES;
use super::{HostNode, Key};
use crate::FileType;
use abi::request::Rename;
use alloc::rc::Rc;
use uapi::Result;

impl HostNode {
    /// [`crate::Inode::rename`] into a directory of the same export.
    pub(super) fn rename_entry(&self, old: &[u8], to: &Rc<Self>, new: &[u8], flags: u32) -> Result<bool> {
        self.check_not_mounted(old)?;
        to.check_not_mounted(new)?;
        let exchange = flags & crate::ops::RENAME_EXCHANGE != 0;
        let mut tries = 0;
        let (moved, replaced, asked, _guard) = loop {
            let asked = self.export.host.ask();
            let moved = self.find(old, &[])?.0;
            let replaced = to.find(new, &[]).ok().map(|(node, _)| node);
            if let Some(node) = replaced.as_ref().filter(|n| !exchange && n.kind() == FileType::Regular)
                && Rc::strong_count(node) > 2
            {
                let _ = node.open_handle(false);
            }
            let guard = if exchange || moved.kind() == FileType::Directory {
                (Some(self.export.move_paths()?), None)
            } else {
                (None, Some(self.export.hold_paths()?))
            };
            tries += 1;
            // Otherwise they may be other files by now.
            if tries == TRIES || !self.was_changed(old, asked) && !to.was_changed(new, asked) {
                break (moved, replaced, asked, guard);
            }
        };
        let (path_len, input) = Self::joined(&self.path_to(old), &to.path_to(new));
        let renamed = self.call_attr(Rename { export: self.export.id, path_len, flags }, &input);
        let (attr, ..) = renamed.inspect_err(|errno| to.refused(new, *errno))?;
        let is_last = self.name_changed(old, asked) & to.name_changed(new, asked);
        // A change that the host has carried out already may not be known yet: then another file had the name.
        let is_last = is_last && Key::of(&attr) == Key::of(&moved.attr_cached());
        moved.stale();
        if let Some(node) = &replaced {
            node.stale();
        }
        if !is_last {
            // Other files may have had these names then.
            self.forget_name(old);
            to.forget_name(new);
            moved.may_have_name(to, new);
            return Ok(false);
        }
        match &replaced {
            Some(node) if exchange => node.lost_name(to, new),
            Some(node) => to.unnamed(new, node),
            None => {}
        }
        moved.lost_name(self, old);
        moved.has_name(to, new);
        let other = replaced.filter(|_| exchange);
        if let Some(other) = &other {
            other.has_name(&self.rc()?, old);
        }
        self.enter_changed(old, other.as_ref());
        to.enter_changed(new, Some(&moved));
        if moved.kind() != FileType::Directory && attr.nlink > 1 {
            // If the new name was another one of the same file by then, the host has left both as they are.
            self.forget_name(old);
        }
        // After a second look another file than the caller's may have been moved.
        Ok(tries == 1)
    }
}
