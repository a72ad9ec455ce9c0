//! Delays: bytes that the sender holds back (`MSG_MORE`, `TCP_CORK`), and connections that are not accepted before
//! their first byte (`TCP_DEFER_ACCEPT`).

use super::info::SEGMENT;
use super::{State, Tcp};
use alloc::rc::{Rc, Weak};
use sched::posted::Pump;
use sched::timer::Timer;
use uapi::raw::net;

/// Maximum delay of held-back bytes, in ns.
const HOLD: u64 = 200_000_000;
/// ns of a second.
const SECOND: u64 = 1_000_000_000;

impl Tcp {
    /// Calls `then` after this many ns; replaces the timer's earlier setting.
    fn after(&self, ns: u64, then: fn(&Tcp)) {
        let me = self.me.clone();
        let timer = Timer::new(Rc::new(move || {
            if let Some(tcp) = Weak::upgrade(&me) {
                then(&tcp);
            }
        }));
        timer.arm(sched::timer::deadline_after(ns));
        self.stop_timer();
        *self.timer.borrow_mut() = Some(timer);
    }

    fn stop_timer(&self) {
        let timer = self.timer.take();
        if let Some(timer) = timer {
            timer.cancel();
        }
    }

    /// Bytes that can be received: not those that the peer still holds back.
    pub(super) fn available(&self) -> usize {
        self.inbox.len() - self.held.get().min(self.inbox.len())
    }

    /// `added` bytes were put into the inbox of `peer`. Unless `more` will follow they become readable, with all
    /// earlier ones.
    pub(super) fn pass_on(&self, peer: &Tcp, added: usize, more: bool) {
        let before = peer.held.get();
        if !more {
            if before > 0 {
                self.stop_timer();
                peer.held.set(0);
            }
            return;
        }
        // Full segments leave.
        let held = (before + added) % SEGMENT as usize;
        peer.held.set(held);
        if held == 0 {
            self.stop_timer();
        } else if before == 0 || before + added != held {
            self.after(HOLD, Self::push);
        }
    }

    /// Bytes of a link are held back until [`Self::push`].
    pub(super) fn hold_back(&self) {
        if self.timer.borrow().is_none() {
            self.after(HOLD, Self::push);
        }
    }

    /// Whether a send with these flags is held back.
    pub(super) fn holds_back(&self, flags: u32) -> bool {
        flags & net::MSG_MORE != 0 || self.tcp.is_corked()
    }

    /// Makes held-back bytes readable for the peer.
    pub(super) fn push(&self) {
        if let Some(link) = self.link() {
            self.stop_timer();
            link.pump();
            return;
        }
        let Some(peer) = self.peer() else { return };
        if peer.held.get() > 0 {
            self.stop_timer();
            peer.held.set(0);
            peer.readable.wake_for_data();
        }
    }

    /// Queues a new connection for accept(2): now, or at its first byte.
    pub(super) fn enter_backlog(&self, server: Rc<Tcp>) {
        match self.tcp.deferral() {
            0 => {
                self.backlog.borrow_mut().push_back(server);
                self.readable.wake_for_data();
            }
            seconds => {
                *server.deferred_by.borrow_mut() = self.me.clone();
                server.after(seconds * SECOND, Self::came_alive);
                self.deferred.borrow_mut().push_back(server);
            }
        }
    }

    /// The first byte (or the end of the stream) arrived: a deferred connection can be accepted.
    pub(super) fn came_alive(&self) {
        let listener = self.deferred_by.take().upgrade();
        let Some(listener) = listener.filter(|listener| listener.state.get() == State::Listen) else { return };
        self.stop_timer();
        let mut deferred = listener.deferred.borrow_mut();
        let found = deferred.iter().position(|tcp| core::ptr::eq(Rc::as_ptr(tcp), self));
        let Some(server) = found.and_then(|at| deferred.remove(at)) else { return };
        drop(deferred);
        listener.backlog.borrow_mut().push_back(server);
        listener.readable.wake_for_data();
    }
}
