//! The socket interface of local sockets.

use super::super::message::{Control, Credentials, Received, own_credentials};
use super::super::netns::NetNs;
use super::super::options::{Options, Value, int, read_int};
use super::super::{Address, IN, Protocol, Usage, wait};
use super::address::{self, UnixName};
use super::{Kind, MSG_OOB, OUT, Role, Unix};
use alloc::rc::Rc;
use core::any::Any;
use file::caller::ProcessRef;
use file::cred::Cred;
use file::sigio::Change;
use file::{File, Queues, unlocked};
use uapi::raw::general as g;
use uapi::raw::net;
use uapi::{Errno, Result};
use vfs::{Dst, Src};

/// Opens the name's place in the tree.
const SIOCUNIXFILE: u32 = 0x89e0;

impl Protocol for Unix {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn options(&self) -> &Options {
        &self.options
    }

    fn net(&self) -> &Rc<NetNs> {
        &self.net
    }

    fn opened(&self, file: &Rc<File>, ino: u64) {
        self.ino.set(ino);
        *self.file.borrow_mut() = Rc::downgrade(file);
        self.review();
        file.give_unlocked_way(unlocked::Kind::Unix(self.end.clone()));
    }

    fn bind(&self, address: &[u8]) -> Result<()> {
        let name = address::parse(address)?;
        if self.name.borrow().is_some() {
            // An automatic bind of a bound socket has no effect.
            return if name == UnixName::Auto { Ok(()) } else { Err(Errno::EINVAL) };
        }
        self.give_name(name)
    }

    fn connect(&self, address: &[u8], nonblocking: bool) -> Result<()> {
        match self.kind {
            Kind::Datagram => self.connect_datagram(address),
            Kind::Stream | Kind::SeqPacket => self.connect_stream(&address::destination(address)?, nonblocking),
        }
    }

    fn listen(&self, backlog: i32) -> Result<()> {
        if self.kind == Kind::Datagram {
            return Err(Errno::EOPNOTSUPP);
        }
        if self.name.borrow().is_none() || self.role.get() == Role::Connected {
            return Err(Errno::EINVAL);
        }
        self.max_backlog.set((backlog as u32 as usize).min(self.net.settings.most_backlog.get() as usize));
        self.credentials.set(own_credentials());
        self.remember_peer();
        self.role.set(Role::Listening);
        self.room.wake_all();
        Ok(())
    }

    fn accept(&self, nonblocking: bool) -> Result<Rc<dyn Protocol>> {
        if self.kind == Kind::Datagram {
            return Err(Errno::EOPNOTSUPP);
        }
        if self.role.get() != Role::Listening {
            return Err(Errno::EINVAL);
        }
        let take = || {
            // Connections from before shutdown(2) can still be accepted.
            let next = self.backlog.borrow_mut().pop_front().map(Ok);
            next.or_else(|| self.read_ended.get().then_some(Err(Errno::EINVAL)))
        };
        let accepted = match take() {
            Some(Ok(accepted)) => accepted,
            // Only who would wait learns of the end.
            _ if nonblocking => return Err(Errno::EAGAIN),
            _ => wait(&self.readable, self.options.receive_deadline(), take)??,
        };
        self.room.wake_all();
        Ok(accepted)
    }

    fn local(&self) -> Result<Address> {
        Ok(self.address())
    }

    fn peer(&self) -> Result<Address> {
        if self.role.get() != Role::Connected {
            return Err(Errno::ENOTCONN);
        }
        Ok(self.peer_name.borrow().clone().unwrap_or_else(address::unnamed))
    }

    fn send(&self, src: &mut dyn Src, to: Option<&[u8]>, control: Control, flags: u32) -> Result<usize> {
        control.check_general()?;
        let to = to.filter(|to| !to.is_empty());
        let connected = self.role.get() == Role::Connected;
        if self.kind == Kind::SeqPacket {
            if let Some(errno) = self.take_failure() {
                return Err(errno);
            }
            if !connected {
                return Err(Errno::ENOTCONN);
            }
        }
        if flags & MSG_OOB != 0 && self.kind != Kind::Stream {
            return Err(Errno::EOPNOTSUPP);
        }
        if self.kind == Kind::Datagram {
            return self.send_packet(src, to, control, flags);
        }
        if self.kind == Kind::Stream && to.is_some() {
            return Err(if connected { Errno::EISCONN } else { Errno::EOPNOTSUPP });
        }
        if !connected {
            return Err(Errno::ENOTCONN);
        }
        match self.kind {
            Kind::Stream => self.send_stream(src, control, flags),
            // The address of a connected packet socket is ignored.
            _ => self.send_packet(src, None, control, flags),
        }
    }

    fn receive(&self, dst: &mut dyn Dst, _want_from: bool, flags: u32) -> Result<Received> {
        if self.kind == Kind::SeqPacket && self.role.get() != Role::Connected {
            return Err(Errno::ENOTCONN);
        }
        if flags & MSG_OOB != 0 {
            return if self.kind == Kind::Stream { self.receive_urgent(dst, flags) } else { Err(Errno::EOPNOTSUPP) };
        }
        match self.kind {
            Kind::Stream => self.receive_stream(dst, flags),
            Kind::Datagram | Kind::SeqPacket => self.receive_packet(dst, flags),
        }
    }

    fn change(&self, reads: bool) -> Option<Change> {
        match (reads, self.read_ended.get() && self.write_ended.get()) {
            (true, true) => Some(Change::HangUp),
            (false, true) => None,
            (_, false) => Some(Change::usual(reads)),
        }
    }

    fn shutdown(&self, read: bool, write: bool) -> Result<()> {
        self.end_halves(read, write);
        self.wake_all();
        self.room.wake_all();
        if self.kind != Kind::Datagram
            && let Some(peer) = self.peer()
        {
            peer.end_halves(write, read);
            peer.wake_all();
        }
        Ok(())
    }

    fn poll(&self) -> u32 {
        let mut events = 0;
        if self.error.get().is_some() {
            events |= g::POLLERR;
        }
        let listening = self.role.get() == Role::Listening;
        if !self.end.inbox.is_empty() || listening && !self.backlog.borrow().is_empty() {
            events |= IN;
        }
        if self.has_urgent() {
            events |= g::POLLPRI;
        }
        let peer = self.peer().filter(|peer| !peer.closed.get());
        let gone = self.kind != Kind::Datagram && self.role.get() == Role::Connected && peer.is_none();
        if self.at_end() {
            events |= IN | g::POLLRDHUP;
        }
        let both = self.read_ended.get() && self.write_ended.get();
        if gone || both || self.kind != Kind::Datagram && self.role.get() == Role::Fresh {
            events |= g::POLLHUP;
        }
        if !listening && self.account.has_much_room() && !peer.is_some_and(|peer| peer.is_full_for(self)) {
            events |= OUT;
        }
        events
    }

    fn poll_queues(&self, events: u32, out: &mut Queues) {
        // Errors and hang-ups wake readers and writers.
        if events & (IN | g::POLLRDHUP) != 0 || events & OUT == 0 {
            out.push(self.readable.clone());
        }
        if events & OUT != 0 {
            out.push(self.account.writable.clone());
        }
    }

    fn queued(&self, sent: bool) -> Result<usize> {
        if sent {
            return Ok(self.account.sent.get() as usize);
        }
        if self.role.get() == Role::Listening {
            return Err(Errno::EINVAL);
        }
        Ok(match self.kind {
            Kind::Datagram => self.end.inbox.with(0, |packet| packet.left()).unwrap_or(0),
            Kind::Stream | Kind::SeqPacket => self.end.inbox.bytes(),
        })
    }

    fn usage(&self) -> Usage {
        Usage { sent: self.account.sent.get() as usize, ..Usage::default() }
    }

    fn take_error(&self) -> Option<Errno> {
        self.take_failure()
    }

    fn is_listening(&self) -> bool {
        self.role.get() == Role::Listening
    }

    fn peer_credentials(&self) -> Result<Credentials> {
        // Without a peer: pid 0 and ids of -1.
        Ok(self.peer_credentials.get().unwrap_or([0, u32::MAX, u32::MAX]))
    }

    fn peer_process(&self) -> Option<ProcessRef> {
        self.peer_process.borrow().clone()
    }

    fn peer_groups(&self) -> Option<Rc<Cred>> {
        self.peer_cred.borrow().clone()
    }

    fn send_buffer_changed(&self) {
        self.review();
        self.account.tell_of_room();
    }

    fn options_changed(&self) {
        self.review();
    }

    fn ioctl(&self, command: u32, arg: usize) -> Result<usize> {
        match command {
            SIOCUNIXFILE => self.open_place(),
            uapi::raw::ioctl::SIOCATMARK => {
                mm::user::write(arg, &i32::from(self.at_mark()?))?;
                Ok(0)
            }
            _ => Err(Errno::ENOTTY),
        }
    }

    fn set_option(&self, level: i32, name: i32, value: &[u8]) -> Result<()> {
        if level as u32 == net::SOL_SOCKET && name as u32 == net::SO_PEEK_OFF {
            self.peek_offset.set(read_int(value)?);
            self.review();
            return Ok(());
        }
        if level as u32 == net::SOL_SOCKET && name as u32 == net::SO_INQ && self.kind == Kind::Stream {
            let on = value.try_into().map(i32::from_ne_bytes).map_err(|_| Errno::EINVAL)?;
            if !(0..=1).contains(&on) {
                return Err(Errno::EINVAL);
            }
            self.tells_left.set(on != 0);
            self.review();
            return Ok(());
        }
        Err(if level as u32 == net::SOL_SOCKET { Errno::ENOPROTOOPT } else { Errno::EOPNOTSUPP })
    }

    fn get_option(&self, level: i32, name: i32) -> Result<Value> {
        if level as u32 == net::SOL_SOCKET && name as u32 == net::SO_PEEK_OFF {
            return Ok(int(self.peek_offset.get()));
        }
        Err(if level as u32 == net::SOL_SOCKET { Errno::ENOPROTOOPT } else { Errno::EOPNOTSUPP })
    }

    fn release(&self) {
        self.closed.set(true);
        let name = self.name.borrow().clone();
        if let Some(name) = name
            && self.role.get() != Role::Connected
        {
            address::unbind(&self.net, &name, self.kind);
        }
        let _place = self.place.take();
        self.end.inbox.close();
        let unread = self.end.inbox.clear();
        let waiting = self.backlog.take();
        for connection in waiting.iter() {
            connection.closed.set(true);
            if let Some(client) = connection.peer() {
                client.fail(Errno::ECONNRESET);
                client.end_both();
                client.wake_all();
            }
        }
        if let Some(peer) = self.peer() {
            if self.kind != Kind::Datagram {
                peer.end_both();
                if unread {
                    peer.fail(Errno::ECONNRESET);
                }
            }
            peer.wake_all();
        }
        self.end_halves(true, false);
        self.wake_all();
        self.room.wake_all();
        super::rights::socket_ended();
    }
}
