//! Datagrams and packets.

use super::super::inet::stamp;
use super::super::message::{Control, Received};
use super::super::{filter, wait};
use super::{Kind, Role, Unix, account, address, queue};
use alloc::rc::Rc;
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
        let name = to.map(address::destination).transpose()?;
        self.name_sender()?;
        if size > self.options.send_buffer.get() as usize - 32 {
            return Err(Errno::EMSGSIZE);
        }
        let deadline = self.options.send_deadline();
        self.wait_to_send(deadline, flags)?;
        if let Some(errno) = self.take_failure() {
            return Err(errno);
        }
        if self.write_ended.get() {
            return Err(Errno::EPIPE);
        }
        let mut data = queue::buffer(size)?;
        if size > 0 && src.get(&mut data)? < size {
            return Err(Errno::EFAULT);
        }
        loop {
            let target = match &name {
                Some(name) => self.datagram_target(name)?,
                None if self.kind == Kind::SeqPacket => self.writable_peer(flags)?,
                None => self.connected_datagram_peer()?,
            };
            if target.read_ended.get() {
                return Err(Errno::EPIPE);
            }
            if !target.is_full_for(self) {
                let Some(kept) = filter::keeps(&target.options, &[], &data) else { return Ok(size) };
                data.truncate(kept);
                let packet = self.packet(&target, data, account::packet_charge(size), &mut control, false)?;
                target.end.inbox.push(packet);
                target.readable.wake_for_data();
                return Ok(size);
            }
            if flags & net::MSG_DONTWAIT != 0 {
                return Err(Errno::EAGAIN);
            }
            let check = || (!target.is_full_for(self) || target.closed.get() || target.read_ended.get()).then_some(());
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
                self.leave_peer();
                Err(Errno::ECONNREFUSED)
            }
        }
    }

    pub(super) fn receive_packet(&self, dst: &mut dyn Dst, flags: u32) -> Result<Received> {
        let peek = flags & net::MSG_PEEK != 0;
        let skip = self.peek_start(flags);
        let next = self.wait_for_packet(self.options.receive_deadline(), flags, skip)?;
        let Some((_turn, packet, skip)) = next else { return Ok(Received::default()) };
        let mut received = Received::default();
        let size = packet.data.len();
        let n = (size - skip).min(dst.remaining());
        let put = dst.put_all(&packet.data[skip..skip + n]);
        if peek {
            self.move_peek(n, true);
        } else {
            self.move_peek(size, false);
            self.end.inbox.drop_front();
            self.made_room();
        }
        put?;
        received.len = if flags & net::MSG_TRUNC != 0 { size - skip } else { n };
        if n < size - skip {
            received.flags |= net::MSG_TRUNC;
        }
        received.rights = packet.rights.borrow().files().to_vec();
        self.tell_sender(&mut received, packet.credentials, packet.process.clone());
        if self.options.wants_time() {
            let at_ns = if packet.at_ns == 0 { hal::clock::realtime_ns() } else { packet.at_ns };
            stamp(&self.options, at_ns, &mut received.parts);
        }
        received.from = Some(packet.from.clone()).filter(|from| from.len() > 2);
        Ok(received)
    }
}
