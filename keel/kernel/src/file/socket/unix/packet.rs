//! Datagrams and packets.

use super::super::message::{Control, Received};
use super::super::{broken, wait};
use super::{Kind, Role, Unix, address};
use alloc::rc::Rc;
use alloc::vec;
use uapi::raw::net;
use uapi::{Errno, Result};
use vfs::{Dst, Src};

impl Unix {
    pub(super) fn send_packet(
        &self,
        src: &mut dyn Src,
        to: Option<&[u8]>,
        mut control: Control,
        flags: u32,
    ) -> Result<usize> {
        let size = src.remaining();
        if size > self.options.send_buffer.get() as usize - 32 {
            return Err(Errno::EMSGSIZE);
        }
        let name = to.map(address::parse).transpose()?;
        let mut data = vec![0; size];
        if size > 0 && src.get(&mut data)? < size {
            return Err(Errno::EFAULT);
        }
        let deadline = self.options.send_deadline();
        loop {
            let target = match &name {
                Some(name) => self.datagram_target(name)?,
                None if self.kind == Kind::SeqPacket => self.writable_peer(flags)?,
                None => self.connected_datagram_peer()?,
            };
            if self.write_ended.get() || target.read_ended.get() {
                return Err(broken(flags));
            }
            if !target.is_full() {
                target.inbox.push(self.packet(data, &mut control));
                target.readable.wake_all();
                return Ok(size);
            }
            if flags & net::MSG_DONTWAIT != 0 {
                return Err(Errno::EAGAIN);
            }
            let check = || (!target.is_full() || target.closed.get() || target.read_ended.get()).then_some(());
            wait(&target.room, deadline, check)?;
        }
    }

    pub(super) fn connected_datagram_peer(&self) -> Result<Rc<Unix>> {
        if self.role.get() != Role::Connected {
            return Err(Errno::ENOTCONN);
        }
        match self.peer().filter(|peer| !peer.closed.get()) {
            Some(peer) if peer.accepts_from(self) => Ok(peer),
            Some(_) => Err(Errno::EPERM),
            None => {
                self.forget_peer();
                Err(Errno::ECONNREFUSED)
            }
        }
    }

    pub(super) fn receive_packet(&self, dst: &mut dyn Dst, flags: u32) -> Result<Received> {
        if self.kind == Kind::SeqPacket && self.role.get() != Role::Connected {
            return Err(Errno::ENOTCONN);
        }
        let peek = flags & net::MSG_PEEK != 0;
        let (_guard, packet) = loop {
            if !self.wait_for_packet(self.options.receive_deadline(), flags, 0)? {
                return Ok(Received::default());
            }
            let guard = self.receiving.lock();
            if let Some(packet) = self.inbox.get(0) {
                break (guard, packet);
            }
        };
        let mut received = Received::default();
        let size = packet.data.len();
        let n = size.min(dst.remaining());
        let put = if n > 0 { dst.put(&packet.data[..n]) } else { Ok(0) };
        if !peek {
            self.inbox.drop_front();
            self.made_room();
        }
        put?;
        received.len = if flags & net::MSG_TRUNC != 0 { size } else { n };
        if n < size {
            received.flags |= net::MSG_TRUNC;
        }
        received.rights = packet.rights.borrow().clone();
        received.credentials = Some(packet.credentials).filter(|_| self.options.pass_credentials.get());
        received.from = Some(packet.from.clone()).filter(|from| from.len() > 2);
        Ok(received)
    }
}
