//! Sockets of a pod with the host's network that talk to each other over the host's loopback device.
//!
//! Between programs of Linux nothing is on its way there: when send(2) returns, the bytes are in the receiver's queue. Here they may still wait
//! for the monitor, and so may what it received. So a call that would otherwise miss them settles that first: the monitor carries out what
//! was requested, and completes all that it made ready.

use abi::request::SocketSettle;
use core::cell::Cell;
use hal::cell::Global;
use sched::connector;

/// What is under way from one socket of the pod to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Under {
    /// Nothing.
    Nothing,
    /// Bytes, or a connection.
    Data,
    /// The end of a stream or of a connection.
    End,
}

/// Datagrams for a bound socket, which come to it from the broker, or the end of one, which the broker closes.
static DATAGRAMS: Global<Cell<bool>> = Global::new(Cell::new(false));
static UNDER_WAY: Global<Cell<Under>> = Global::new(Cell::new(Under::Nothing));
/// Most trips: each makes room for what did not fit before.
const MAX_TRIPS: usize = 64;

/// Something leaves for another socket of the pod.
pub fn note(what: Under) {
    UNDER_WAY.set(UNDER_WAY.get().max(what));
}

/// A datagram leaves for a bound socket of the pod that does not know the peer yet, or such a socket is closed.
pub fn note_first(what: Under) {
    DATAGRAMS.set(true);
    note(what);
}

/// Nothing of at least this kind is under way any more. Other threads run meanwhile: hold no borrows.
#[inline]
pub fn settle(least: Under) {
    if UNDER_WAY.get() >= least {
        arrive();
    }
}

#[cold]
fn arrive() {
    for _ in 0..MAX_TRIPS {
        if UNDER_WAY.replace(Under::Nothing) == Under::Nothing {
            return;
        }
        // Without a monitor nothing is under way.
        if connector::call(SocketSettle { datagrams: DATAGRAMS.take() }, &(), &mut ()).is_err() {
            return;
        }
    }
}
