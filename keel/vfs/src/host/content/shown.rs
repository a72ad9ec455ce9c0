//! What calls without the big lock see of a host file, see [`crate::shown`].

use super::super::{HostNode, now};
use super::{PAGE, Stamp};
use crate::shown::{Shown, State};
use crate::{Attr, FileType};
use alloc::sync::Arc;

impl HostNode {
    /// The one of this file, which a node over it uses too: whatever changes either withdraws it.
    pub(crate) fn shown_here(&self) -> Arc<Shown> {
        let shown = self.shown.get_or_init(|| Arc::new(Shown::of(&self.export.locked)));
        if self.kind() == FileType::Regular {
            // The same is there already, if any.
            let _ = self.content().shown.set(shown.clone());
        }
        shown.clone()
    }

    /// Nothing is shown of it any more.
    #[inline]
    pub(in super::super) fn withdraw(&self) {
        if let Some(shown) = self.shown.get() {
            shown.withdraw();
        }
    }

    /// Its attributes, if they are known, belong to the pages that are cached, and no write is under way.
    pub(crate) fn known_state(&self) -> Option<State> {
        let (attr, fetched, content) = (self.attr.get(), self.fetched.get(), self.content.get()?);
        let expires = fetched.saturating_add(self.export.fresh_ns);
        let is_known = self.export.believes(fetched, now())
            && content.locked.get() == self.export.locked_at()
            && content.gathered.get() == 0
            && !self.has_stores();
        let state = State { attr, expires, is_settled: true, has_holes: false };
        (is_known && content.stamp.get() == Stamp::of(&attr)).then_some(state)
    }

    /// Its attributes, if they are known and no write is under way, and until when they are believed.
    pub(crate) fn known_attributes(&self) -> Option<(Attr, u64)> {
        let (fetched, content) = (self.fetched.get(), self.content.get());
        let expires = fetched.saturating_add(self.export.fresh_ns);
        let is_known =
            self.export.believes(fetched, now()) && content.is_none_or(|content| content.gathered.get() == 0);
        let is_known = is_known && !self.has_stores();
        is_known.then(|| (self.attr.get(), expires))
    }

    /// Shows the state with the pages that were read.
    pub(crate) fn show_content(&self, shown: &Shown, state: &State, offset: u64, len: usize) {
        let pages = self.content().pages.borrow();
        let (first, end) = (offset / PAGE, offset.saturating_add(len as u64).div_ceil(PAGE));
        shown.show(state, first, end - first, |index| pages.get(index).cloned());
    }
}
