//! Connections of stream and packet sockets, peers of datagram sockets.

use super::super::message::own_credentials;
use super::super::netns::NetNs;
use super::super::{family_of, wait};
use super::address::{self, UnixName};
use super::{Kind, Role, Unix};
use alloc::rc::{Rc, Weak};
use file::landlock;
use uapi::raw::net;
use uapi::{Errno, Result};

impl Unix {
    /// A listener for connections of `kind`. ECONNREFUSED, EPROTOTYPE.
    pub(super) fn listener(ns: &NetNs, kind: Kind, name: &UnixName) -> Result<Rc<Unix>> {
        let listener = address::find(ns, name, kind)?;
        if listener.kind != kind {
            return Err(Errno::EPROTOTYPE);
        }
        listener.check_scope()?;
        if listener.role.get() != Role::Listening || listener.read_ended.get() {
            return Err(Errno::ECONNREFUSED);
        }
        Ok(listener)
    }

    pub(super) fn connect_stream(&self, name: &UnixName, nonblocking: bool) -> Result<()> {
        self.name_sender()?;
        let deadline = self.options.send_deadline();
        let listener = loop {
            let listener = Self::listener(&self.net, self.kind, name)?;
            let full = || listener.backlog.borrow().len() > listener.max_backlog.get();
            if !full() {
                break listener;
            }
            if nonblocking {
                return Err(Errno::EAGAIN);
            }
            let check = || (!full() || listener.read_ended.get()).then_some(());
            wait(&listener.room, deadline, check)?;
            // Meanwhile the name may be another socket's.
        };
        // As in Linux, only a connection that could be made is refused for the sake of this end.
        match self.role.get() {
            Role::Fresh => {}
            Role::Connected => return Err(Errno::EISCONN),
            Role::Listening => return Err(Errno::EINVAL),
        }
        let Some(me) = self.me.upgrade() else { return Err(Errno::EINVAL) };
        self.credentials.set(own_credentials());
        let other = Unix::new(listener.net.clone(), self.kind);
        *other.name.borrow_mut() = listener.name.borrow().clone();
        other.node.set(listener.node.get());
        other.place.borrow_mut().clone_from(&listener.place.borrow());
        other.role.set(Role::Connected);
        other.set_peer(&me);
        other.remember_peer();
        other.options.inherit_passing(&listener.options);
        self.role.set(Role::Connected);
        self.set_peer(&other);
        self.join();
        other.join();
        self.peer_credentials.set(Some(listener.credentials.get()));
        self.peer_process.borrow_mut().clone_from(&listener.peer_process.borrow());
        self.peer_cred.borrow_mut().clone_from(&listener.peer_cred.borrow());
        listener.backlog.borrow_mut().push_back(other);
        listener.readable.wake_for_data();
        self.account.writable.wake_all();
        Ok(())
    }

    pub(super) fn connect_datagram(&self, to: &[u8]) -> Result<()> {
        if family_of(to).is_ok_and(|family| family == net::AF_UNSPEC) {
            self.leave_peer();
            return Ok(());
        }
        let name = address::destination(to)?;
        self.name_sender()?;
        let target = self.datagram_target(&name)?;
        if self.peer().is_some_and(|old| Rc::ptr_eq(&old, &target)) {
            self.forget_peer();
        } else {
            self.leave_peer();
        }
        self.set_peer(&target);
        self.role.set(Role::Connected);
        self.join();
        let mut senders = target.senders.borrow_mut();
        senders.retain(|sender| sender.strong_count() > 0);
        senders.push_back(self.me.clone());
        Ok(())
    }

    /// Ends a connection of datagrams. What waits is lost, which the peer is told.
    pub(super) fn leave_peer(&self) {
        let (old, was) = (self.peer(), self.role.get());
        self.forget_peer();
        if was != Role::Connected || !self.end.inbox.clear() {
            return;
        }
        self.room.wake_all();
        if let Some(old) = old.filter(|old| !old.closed.get() && old.is_connected_to(self)) {
            old.fail(Errno::ECONNRESET);
            old.wake_all();
        }
    }

    fn forget_peer(&self) {
        let old = self.peer();
        if let Some(old) = old {
            old.senders.borrow_mut().retain(|sender| !Weak::ptr_eq(sender, &self.me));
        }
        *self.peer.borrow_mut() = Weak::new();
        *self.peer_name.borrow_mut() = None;
        self.role.set(Role::Fresh);
        self.end.inbox.set_accepts(0);
        self.end.set_peer(None);
    }

    /// Receiver of datagrams to a name. EPROTOTYPE; EPERM if it is connected to another peer.
    pub(super) fn datagram_target(&self, name: &UnixName) -> Result<Rc<Unix>> {
        let target = address::find(&self.net, name, self.kind)?;
        if target.kind != self.kind {
            return Err(Errno::EPROTOTYPE);
        }
        if !target.accepts_from(self) {
            return Err(Errno::EPERM);
        }
        target.check_scope()?;
        Ok(target)
    }

    /// EPERM if its abstract name is beyond the current thread's domain.
    fn check_scope(&self) -> Result<()> {
        let is_abstract = matches!(&*self.name.borrow(), Some(UnixName::Abstract(_)));
        if is_abstract { landlock::check_abstract(self.domain.as_deref()) } else { Ok(()) }
    }

    /// Not connected to another one.
    pub(super) fn accepts_from(&self, sender: &Unix) -> bool {
        self.role.get() != Role::Connected || self.is_connected_to(sender)
    }

    fn is_connected_to(&self, other: &Unix) -> bool {
        self.peer.borrow().as_ptr() == core::ptr::from_ref(other)
    }
}
