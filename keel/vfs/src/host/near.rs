//! Names near those that are looked up: who asks for several of a directory asks for more of them.

use super::list::record;
use super::{HostNode, now};
use crate::Name;
use abi::request::Op;
use alloc::vec::Vec;
use core::cell::Cell;
use uapi::{Errno, Result};

/// After so many trips for single names of a directory, one brings what else is there …
const FEW: u32 = 4;
/// … as far as it fits in here: small directories, so that a program with a few libraries does not pay for all.
const FEW_ROOM: usize = 24 << 10;
/// The same for programs that ask for many.
const MANY: u32 = 48;
const MANY_ROOM: usize = 256 << 10;

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
        let room = match sought.trips.get() {
            FEW => FEW_ROOM,
            MANY => MANY_ROOM,
            _ => return false,
        };
        // A directory that can't be listed may still be searched.
        self.fetch_near(room).is_ok()
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
