//! Names near those that are looked up: who asks for several of a directory asks for more of them.

use super::list::record;
use super::{HostNode, now};
use crate::Name;
use abi::request::Op;
use alloc::vec::Vec;
use core::cell::Cell;
use uapi::{Errno, Result};

/// For directories up to a size that the host tells, in bytes: after so many trips for single names one brings
/// what else is there, as far as it fits. A program with a few libraries should not pay for all of a large
/// directory: the single trips took about as long as that one.
const STEPS: [(u64, u32, usize); 3] = [(4 << 10, 2, 64 << 10), (32 << 10, 16, 128 << 10), (u64::MAX, 48, 256 << 10)];

/// Trips for single names of a directory, and since when (monotonic ns) they are counted.
#[derive(Default)]
pub(super) struct Sought {
    trips: Cell<u32>,
    since: Cell<u64>,
}

impl HostNode {
    /// Notes a trip for a single name that is about to be made. Whether another kind of trip was made instead,
    /// which may have brought the name.
    pub(super) fn fetched_near(&self) -> bool {
        let sought = &self.names().sought;
        let now = now();
        if now.saturating_sub(sought.since.get()) >= self.export.fresh_ns {
            sought.since.set(now);
            sought.trips.set(0);
        }
        sought.trips.set(sought.trips.get().saturating_add(1));
        let size = self.attr_cached().size;
        let step = STEPS.iter().find(|(most, ..)| size <= *most);
        let Some((_, _, room)) = step.filter(|(_, trips, _)| sought.trips.get() == *trips) else { return false };
        // A directory that can't be listed may still be searched.
        self.fetch_near(*room).is_ok()
    }

    /// Fetches names with their attributes, as many as `room` bytes take.
    fn fetch_near(&self, room: usize) -> Result<()> {
        let fetched = now();
        let path = self.path();
        let mut order: Vec<Name> = Vec::new();
        let more = self.export.host.with_buffer(room, |buffer| {
            let reply = self.export.call(Op::ReadDir, [0; 5], &path, buffer)?;
            let mut records = buffer.get(..reply.result as usize).ok_or(Errno::EIO)?;
            while let Some(found) = record(records) {
                order.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
                order.push(self.list_entry(found.name, found.attr, found.target, fetched));
                records = found.rest;
            }
            Ok(reply.extra[0])
        })?;
        if more == 0 {
            self.listed(order, false, fetched);
        } else {
            self.export.host.io.post(Op::Close, [more, 0, 0, 0, 0, 0]);
        }
        Ok(())
    }
}
