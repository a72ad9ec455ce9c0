//! Bytes of connected streams.

use super::super::message::{Control, Received};
use super::super::wait;
use super::{Role, Unix};
use alloc::vec;
use uapi::raw::net;
use uapi::{Errno, Result};
use vfs::{Dst, Src};

/// Bytes of a stream that are queued at a time.
const STREAM_CHUNK: usize = 32 << 10;

impl Unix {
    pub(super) fn send_stream(&self, src: &mut dyn Src, mut control: Control, flags: u32) -> Result<usize> {
        let mut done = 0;
        let end = |done: usize, errno: Errno| if done > 0 { Ok(done) } else { Err(errno) };
        let deadline = self.options.send_deadline();
        loop {
            let peer = match self.writable_peer(flags) {
                Ok(peer) => peer,
                Err(errno) => return end(done, errno),
            };
            if src.remaining() == 0 {
                return Ok(done);
            }
            if peer.is_full() {
                if flags & net::MSG_DONTWAIT != 0 {
                    return end(done, Errno::EAGAIN);
                }
                let check = || {
                    (!peer.is_full() || peer.closed.get() || peer.read_ended.get() || self.write_ended.get())
                        .then_some(())
                };
                if let Err(errno) = wait(&self.writable, deadline, check) {
                    return end(done, errno);
                }
                continue;
            }
            let mut data = vec![0; src.remaining().min(STREAM_CHUNK)];
            let got = match src.get(&mut data) {
                Ok(0) => return Ok(done),
                Ok(got) => got,
                Err(errno) => return end(done, errno),
            };
            data.truncate(got);
            peer.inbox.push(self.packet(data, &mut control));
            peer.readable.wake_all();
            done += got;
        }
    }

    pub(super) fn receive_stream(&self, dst: &mut dyn Dst, flags: u32) -> Result<Received> {
        if self.role.get() != Role::Connected {
            return Err(Errno::EINVAL);
        }
        let peek = flags & net::MSG_PEEK != 0;
        let show_credentials = self.options.pass_credentials.get();
        let deadline = self.options.receive_deadline();
        let mut received = Received::default();
        let mut index = 0;
        let mut sender = None;
        // Even an empty read looks for something to read.
        loop {
            let wait_flags = if received.len > 0 && flags & net::MSG_WAITALL == 0 { net::MSG_DONTWAIT } else { flags };
            match self.wait_for_packet(deadline, wait_flags, index) {
                Ok(true) => {}
                Ok(false) => break,
                Err(_) if received.len > 0 => break,
                Err(errno) => return Err(errno),
            }
            let guard = self.receiving.lock();
            let Some(packet) = self.inbox.get(index) else { continue };
            // Bytes of different senders, or beyond descriptors, are not joined.
            let other_sender = show_credentials && sender.is_some_and(|one| one != packet.credentials);
            if received.len > 0 && (other_sender || !received.rights.is_empty()) {
                break;
            }
            let rest = &packet.data[packet.taken.get()..];
            let n = match dst.put(&rest[..rest.len().min(dst.remaining())]) {
                Ok(n) => n,
                Err(_) if received.len > 0 => break,
                Err(errno) => return Err(errno),
            };
            received.len += n;
            sender = Some(packet.credentials);
            if received.from.is_none() && packet.from.len() > 2 {
                received.from = Some(packet.from.clone());
            }
            if peek {
                received.rights.extend(packet.rights.borrow().iter().cloned());
                index += 1;
            } else {
                received.rights.append(&mut packet.rights.borrow_mut());
                self.inbox.consume(n);
            }
            drop(guard);
            if !peek {
                self.made_room();
            }
            if dst.remaining() == 0 {
                break;
            }
        }
        received.credentials = sender.filter(|_| show_credentials);
        Ok(received)
    }
}
