//! Prefetch of names near those that are looked up: several lookups in a directory predict more of them.

use super::dir::{Entry, Names};
use super::{HostNode, now};
use crate::FileType;
use abi::request::ListAttributes;
use alloc::rc::Rc;
use core::cell::Cell;
use core::ops::Bound;

/// What listing a directory takes: anyway, for each name, and for its attributes.
const LISTING_NS: u64 = 20_000;
const NAME_NS: u64 = 700;
const ATTRIBUTES_NS: u64 = 2_000;
/// Bytes that an entry takes in a directory, as a guess.
const ENTRY_BYTES: u64 = 64;
/// A directory of at most this many bytes is small.
pub(super) const SMALL: u64 = 4 << 10;

/// Who asks for the attributes of a listed name and then of one that follows as closely goes through all of them,
const STEP: usize = 8;
/// and as closely if they are sorted.
const SORTED_STEP: usize = 2;
/// Names of a listed directory whose attributes are asked for one by one before all are, however quick that is.
const FEW: usize = 4;
/// A directory with so many names has few.
const FEW_NAMES: usize = 64;
/// Who looked up this part of a directory goes through it.
const GOOD_PART: usize = 2;
/// Most names among which one is searched for its place.
const MAX_SEARCHED: usize = 1024;

/// Estimated time that listing `entries` names takes, in ns.
pub(super) const fn price(entries: u64, with_attributes: bool) -> u64 {
    LISTING_NS + entries * (NAME_NS + if with_attributes { ATTRIBUTES_NS } else { 0 })
}

/// How often a name was looked up whose attributes were not fetched.
#[derive(Clone, Copy, Default)]
pub(super) struct Misses {
    count: usize,
    /// The last ones of which each followed the one before it closely.
    steps: usize,
    /// Where the last one stood in the order.
    last: usize,
}

/// The access pattern within a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// As the host lists it.
    Host,
    /// By the bytes of the names.
    Sorted,
}

/// Trips for single names of a directory, and since when (monotonic ns) they are counted.
#[derive(Default)]
pub(super) struct Sought {
    trips: Cell<u64>,
    since: Cell<u64>,
    /// The directory was listed since then, or can't be.
    is_done: Cell<bool>,
}

impl Names {
    /// Notes that the attributes of a listed name are wanted. Whether those of the others will probably be, too: somebody
    /// goes through them in their order or sorted, or has asked for many. Who looks for a few of many names asks for
    /// those, until that has taken half as long as all would. `trip_ns`: what one took.
    pub(super) fn are_all_wanted(&self, name: &[u8], trip_ns: u64) -> bool {
        let (order, map) = (self.order.borrow(), self.map.borrow());
        let Misses { count, steps, last } = self.misses.get();
        let missed = self.missed.take();
        let after = order.get(last + 1..).unwrap_or_default();
        let is_next = missed.is_some() && after.iter().take(STEP).any(|n| **n == *name);
        let is_next_sorted = missed.is_some_and(|missed| {
            let after = map.range::<[u8], _>((Bound::Excluded(&*missed), Bound::Unbounded));
            after.take(SORTED_STEP).any(|(n, _)| **n == *name)
        });
        let is_dear = count as u64 * trip_ns >= price(order.len() as u64, true) / 2;
        let steps = if is_next || is_next_sorted { steps + 1 } else { 0 };
        // One such step may be chance in a large directory.
        if steps >= 2 || steps == 1 && order.len() <= FEW_NAMES || count >= FEW && is_dear {
            self.misses.set(Misses::default());
            return true;
        }
        let at = order.iter().take(MAX_SEARCHED).position(|n| **n == *name).unwrap_or_default();
        self.misses.set(Misses { count: count + 1, steps, last: at });
        let known = map.get_key_value(name).map(|(n, _)| n.clone());
        self.missed.replace(known);
        false
    }

    /// The order in which the directories before `name` lead to it, the host's or sorted: if `is_so` says so of those that
    /// stand closest before it, `near` of them, without `near / 4`, or of as many as there are. If there are none, `first`
    /// decides.
    pub(super) fn order_of(
        &self,
        name: &[u8],
        near: usize,
        first: bool,
        is_so: impl Fn(&HostNode) -> bool,
    ) -> Option<Order> {
        let (order, map) = (self.order.borrow(), self.map.borrow());
        let leads = |before: &mut dyn Iterator<Item = &Entry>| {
            let (mut seen, mut left_out) = (0, 0);
            for entry in before.filter(|entry| entry.is_directory()).take(near) {
                seen += 1;
                left_out += usize::from(!entry.node.upgrade().is_some_and(|node| is_so(&node)));
            }
            if seen == 0 { first } else { left_out == 0 || seen == near && left_out <= near / 4 }
        };
        let place = order.iter().take(MAX_SEARCHED).position(|n| **n == *name);
        let listed = order.get(..place.unwrap_or_default()).unwrap_or_default();
        if place.is_some() && leads(&mut listed.iter().rev().filter_map(|name| map.get(name))) {
            return Some(Order::Host);
        }
        let sorted = map.range::<[u8], _>((Bound::Unbounded, Bound::Excluded(name)));
        leads(&mut sorted.rev().map(|(_, entry)| entry)).then_some(Order::Sorted)
    }
}

impl HostNode {
    /// Notes a trip for a single name that is about to be made. Whether another kind of trip was made instead,
    /// which may have brought the name: when the single ones have taken as long as all names would, those are
    /// fetched. So a program with a few libraries does not pay for all of a large directory, and one that probes
    /// many names does not pay for each.
    pub(super) fn fetched_near(&self) -> bool {
        let sought = &self.names().sought;
        let now = now();
        if now.saturating_sub(sought.since.get()) >= self.export.fresh_ns {
            sought.since.set(now);
            sought.trips.set(0);
            sought.is_done.set(false);
        }
        if sought.is_done.get() || self.export.is_underway(&self.path()) {
            return false;
        }
        let host = &self.export.host;
        let trips = sought.trips.get() + 1;
        sought.trips.set(trips);
        let size = self.attr_cached().size;
        let fetched = if self.step(true).is_some() {
            self.fetch_all(true)
        } else if trips > 1 && size <= SMALL && self.seeks_as_before() {
            self.fetch_list(ListAttributes::All, None)
        } else if trips * host.io.trip_ns() >= price(size / ENTRY_BYTES, false) {
            self.fetch_list(ListAttributes::None, None)
        } else {
            return false;
        };
        host.sought.replace(self.this.clone());
        // A directory that can't be listed may still be searched.
        sought.is_done.set(true);
        fetched.is_ok()
    }

    /// Whether a good part of what is in it was looked up since it was listed.
    pub(super) fn was_searched(&self) -> bool {
        let looked_up = || self.names().looked_up.get();
        self.is_listed() && looked_up() >= FEW && looked_up() >= self.names().order.borrow().len() / GOOD_PART
    }

    /// Notes that something of this type was looked up in it.
    pub(super) fn was_looked_up(&self, kind: FileType) {
        if kind != FileType::Directory {
            self.export.host.looked_up.set(true);
        }
        if kind == FileType::Regular {
            let count = &self.names().looked_up;
            count.set(count.get().saturating_add(1));
        }
    }

    /// Whether the directory of this export in which names were sought last was searched.
    pub(super) fn seeks_as_before(&self) -> bool {
        let last = self.export.host.sought.borrow().upgrade();
        last.is_some_and(|last| Rc::ptr_eq(&last.export, &self.export) && last.was_searched())
    }
}
