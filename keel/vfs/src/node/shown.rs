//! What calls without the big lock see of a private file's attributes, see [`crate::shown`].

use super::{Body, Node, OWN_ATTR};
use crate::Attr;
use crate::shown::{Shown, State};
use alloc::sync::Arc;

impl Node {
    /// See [`crate::Inode::shown`].
    pub(super) fn shown_here(&self) -> Arc<Shown> {
        let shown = || self.lower.as_ref().map_or_else(Arc::default, |lower| lower.shown_here());
        self.shown.get_or_init(shown).clone()
    }

    /// See [`crate::Inode::show_attributes`].
    pub(super) fn show_own_attributes(&self) {
        let Some(shown) = self.shown.get().filter(|shown| !shown.has_view()) else { return };
        let is_file = matches!(self.body, Body::File(_));
        if is_file && self.lower_data().is_none_or(|lower| lower.known_state().is_some()) {
            return self.show_file(0, 0);
        }
        // The content of a host file that was not read is not known, and others have none.
        let Some((attr, expires)) = self.known_attributes() else { return };
        shown.show(&State { attr, expires, is_settled: false, has_holes: false }, 0, 0, |_| None);
    }

    /// As [`crate::Inode::attr`], if that needs no request to the host, and until when it is believed.
    fn known_attributes(&self) -> Option<(Attr, u64)> {
        if !self.owns(OWN_ATTR)
            && let Some(lower) = &self.lower
        {
            return lower.known_attributes();
        }
        let mut attr = self.attr.get();
        let mut expires = u64::MAX;
        match &self.body {
            Body::File(pages) => match self.lower_data() {
                Some(lower) => {
                    let (below, until) = lower.known_attributes()?;
                    (attr.size, attr.blocks, expires) = (below.size, below.blocks, until);
                }
                None => attr.blocks = pages.len() as u64 * 8,
            },
            Body::Directory(entries) if self.lower.is_none() => attr.size = entries.size(),
            _ => {}
        }
        Some((attr, expires))
    }
}
