//! Bytes: send(2), recv(2), urgent data.

use super::super::super::message::{Part, Received};
use super::super::super::{broken, wait};
use super::super::outward::settle::{Under, settle};
use super::super::{IPPROTO_TCP, control};
use super::{State, Tcp, Urgent};
use alloc::rc::Rc;
use file::sigio;
use sched::posted;
use uapi::raw::net;
use uapi::{Errno, Result};
use vfs::io::KernelSrc;
use vfs::{Dst, Src};

/// Asks for a connection with the first bytes.
pub(super) const MSG_FASTOPEN: u32 = 0x2000_0000;
/// Control data: bytes that are left unread, `TCP_INQ`.
const TCP_CM_INQ: u32 = 36;
/// Bytes that are queued before the receiver is woken.
const CHUNK: usize = 64 << 10;
/// Number of unread bytes after which a blocking sender yields to the receiver, so that the data stays in the cache.
const LET_READ: usize = 256 << 10;

/// Result of an incomplete send: the bytes sent, or the error if none.
pub(super) fn end(done: usize, errno: Errno) -> Result<usize> {
    if done > 0 { Ok(done) } else { Err(errno) }
}

impl Tcp {
    /// The stream has not ended.
    pub(super) fn sends(&self) -> bool {
        matches!(self.state.get(), State::Established | State::CloseWait) && !self.write_ended.get()
    }

    /// The receiver. EPIPE (and SIGPIPE) or the pending error if sending is impossible.
    fn receiver(&self, flags: u32) -> Result<Rc<Tcp>> {
        let sends = self.sends();
        match self.peer() {
            Some(peer) if sends && self.error.get().is_none() => Ok(peer),
            // The peer's socket is closed: data is answered by RST.
            None if sends && self.error.get().is_none() => Err(Errno::ECONNRESET),
            _ => Err(match self.error.take() {
                None | Some(Errno::EPIPE) => broken(flags),
                Some(errno) => errno,
            }),
        }
    }

    /// send(2).
    pub(super) fn send_bytes(&self, src: &mut dyn Src, flags: u32) -> Result<usize> {
        let waits = flags & net::MSG_DONTWAIT == 0;
        let deadline = self.base.options.send_deadline();
        if self.state.get() == State::SynSent {
            if !waits {
                return Err(Errno::EAGAIN);
            }
            wait(&self.writable, deadline, || (self.state.get() != State::SynSent).then_some(()))?;
        }
        if let Some(link) = self.link() {
            return self.send_outward(&link, src, flags, deadline);
        }
        let mut done = 0;
        loop {
            if done > 0 && (self.error.get().is_some() || !self.sends()) {
                // The next call returns the error.
                return Ok(done);
            }
            let peer = match self.receiver(flags) {
                Ok(peer) if !peer.closed.get() => peer,
                Ok(_) | Err(Errno::ECONNRESET)
                    if self.error.get().is_none() && self.state.get() == State::CloseWait =>
                {
                    // Linux queues bytes until the RST arrives; they are dropped here.
                    done += src.remaining().min(self.own_limit());
                    if done > 0 {
                        self.reset();
                    }
                    return Ok(done);
                }
                Ok(_) => return end(done, Errno::ECONNRESET),
                Err(errno) => return end(done, errno),
            };
            if src.remaining() == 0 {
                return Ok(done);
            }
            if peer.read_ended.get() && peer.state.get() == State::FinWait2 {
                // Both halves were shut down there: data is answered by RST.
                done += src.remaining().min(self.own_limit());
                peer.reset();
                self.reset();
                return Ok(done);
            }
            let used = peer.inbox.len();
            let room = self.limit(&peer).saturating_sub(used);
            if room == 0 {
                self.wants_room.set(true);
                self.push();
                if !waits {
                    return end(done, Errno::EAGAIN);
                }
                let stopped = || self.write_ended.get() || self.error.get().is_some();
                let check = || (self.has_room(&peer) || stopped() || peer.closed.get()).then_some(());
                if let Err(errno) = wait(&self.writable, deadline, check) {
                    return end(done, errno);
                }
                continue;
            }
            let got = match self.add(&peer, src, room.min(CHUNK), flags) {
                Ok(0) => return Ok(done),
                Ok(got) => got,
                Err(errno) => return end(done, errno),
            };
            done += got;
            self.pass_on(&peer, got, src.remaining() == 0 && self.holds_back(flags));
            peer.came_alive();
            peer.readable.wake_for_data();
            if waits && used + got >= LET_READ && src.remaining() > 0 {
                sched::yield_now();
            }
        }
    }

    /// Puts bytes into the peer's inbox.
    fn add(&self, peer: &Tcp, src: &mut dyn Src, limit: usize, flags: u32) -> Result<usize> {
        if flags & net::MSG_OOB != 0 && src.remaining() <= limit {
            return self.add_urgent(peer, src);
        }
        let got = peer.inbox.add(src, limit)?;
        self.counters.sent(&self.base.net, got);
        peer.arrived(got);
        Ok(got)
    }

    /// Bytes were added to the inbox.
    pub(super) fn arrived(&self, bytes: usize) {
        self.counters.received(bytes);
        let options = &self.base.options;
        options.incoming_cpu.set(hal::percpu::cpu_index() as i32);
        if options.wants_stamps() {
            self.last_ns.set(hal::clock::realtime_ns());
        }
    }

    /// `SIOCOUTQNSD`.
    pub(super) fn unsent(&self) -> usize {
        match self.link() {
            Some(link) => link.unsent(),
            None => self.peer().map_or(0, |peer| peer.held.get()),
        }
    }

    /// The same, and the last byte is urgent.
    fn add_urgent(&self, peer: &Tcp, src: &mut dyn Src) -> Result<usize> {
        let ordinary = src.remaining() - 1;
        let mut got = if ordinary > 0 { peer.inbox.add(src, ordinary)? } else { 0 };
        let mut byte = [0];
        if got == ordinary && src.get(&mut byte)? == 1 {
            let at = peer.inbox.positions().1;
            got += peer.inbox.add(&mut KernelSrc(&byte), 1)?;
            peer.take_urgent(at, byte[0]);
        }
        self.counters.sent(&self.base.net, got);
        peer.arrived(got);
        Ok(got)
    }

    /// An urgent byte arrived, for this place in the stream.
    pub(super) fn take_urgent(&self, at: u64, byte: u8) {
        self.urgent.set(Some(Urgent { at, byte, read: false }));
        if let Some(file) = self.base.file() {
            sigio::urgent(&file);
        }
    }

    /// The urgent byte that was not passed yet, as bytes from the next one on.
    fn bytes_to_mark(&self) -> Option<usize> {
        let at = self.urgent.get()?.at;
        at.checked_sub(self.inbox.positions().0).map(|distance| distance as usize)
    }

    /// `SIOCATMARK`.
    pub(super) fn at_mark(&self) -> bool {
        self.bytes_to_mark() == Some(0)
    }

    fn urgent_inline(&self) -> bool {
        self.base.options.is_on(net::SO_OOBINLINE)
    }

    /// `SIOCINQ`: up to the urgent byte.
    pub(super) fn unread(&self) -> usize {
        let all = self.available();
        if self.urgent_inline() { all } else { self.bytes_to_mark().unwrap_or(all).min(all) }
    }

    /// `SIOCOUTQ`: bytes that do not fit into the receiver's buffer count as unsent.
    pub(super) fn unacknowledged(&self) -> usize {
        if let Some(link) = self.link() {
            return link.unsent();
        }
        let Some(peer) = self.peer() else { return 0 };
        let beyond = peer.inbox.len().saturating_sub(peer.base.options.receive_buffer.get() as usize / 2);
        beyond.max(peer.held.get())
    }

    /// Whether enough bytes are available for poll(2) (`SO_RCVLOWAT`).
    pub(super) fn is_readable(&self) -> bool {
        let hidden = usize::from(self.at_mark() && !self.urgent_inline());
        self.available() >= self.base.options.low_water.get() as usize + hidden
    }

    /// recv(2).
    pub(super) fn receive_bytes(&self, dst: &mut dyn Dst, flags: u32) -> Result<Received> {
        if flags & net::MSG_ERRQUEUE != 0 {
            return self.base.completions.report(&self.base).ok_or(Errno::EAGAIN);
        }
        if self.state.get() == State::Listen {
            return Err(Errno::ENOTCONN);
        }
        if self.available() < dst.remaining() {
            settle(Under::Data);
        }
        if flags & net::MSG_OOB != 0 {
            return self.receive_urgent(dst, flags);
        }
        if self.available() == 0 {
            posted::look();
        }
        let mut received = Received::default();
        let want = dst.remaining();
        let target = match flags & net::MSG_WAITALL {
            0 => want.min(self.base.options.low_water.get() as usize).max(1),
            _ => want,
        };
        let deadline = self.base.options.receive_deadline();
        let peek = flags & net::MSG_PEEK != 0;
        let mut seen = if peek { self.peek_offset.get().max(0) as usize } else { 0 };
        // The time is over, or a signal came.
        let mut over = false;
        loop {
            let moved = match self.move_out(dst, want - received.len, seen, received.len > 0, flags) {
                Ok(moved) => moved,
                Err(_) if received.len > 0 => break,
                Err(errno) => return Err(errno),
            };
            received.len += moved.len;
            seen += moved.len;
            if received.len >= want && want > 0 || moved.at_mark && received.len > 0 || over {
                break;
            }
            if received.len >= target && self.available() <= if flags & net::MSG_PEEK != 0 { seen } else { 0 } {
                break;
            }
            if moved.len > 0 {
                continue;
            }
            if want == 0 && self.available() > 0 {
                break;
            }
            if received.len > 0 {
                let over = self.error.get().is_some() || self.read_ended.get() || self.state.get() == State::Close;
                if over || flags & net::MSG_DONTWAIT != 0 || flags & net::MSG_PEEK != 0 {
                    break;
                }
            } else if !self.wait_possible(flags)? {
                break;
            }
            let more = if flags & net::MSG_PEEK != 0 { seen } else { 0 };
            // No more than the buffer holds: a sender without room waits for this receiver.
            let enough = (target - received.len.min(target)).clamp(1, self.window()) + more;
            let check = || {
                let over = self.error.get().is_some() || self.read_ended.get() || self.state.get() == State::Close;
                (over || self.available() >= enough).then_some(())
            };
            match wait(&self.readable, deadline, check) {
                Ok(()) => {}
                // What arrived meanwhile is received.
                Err(_) if self.available() > more && want > 0 => over = true,
                Err(_) if received.len > 0 => break,
                Err(errno) => return Err(errno),
            }
        }
        self.move_peek(received.len, peek);
        if received.len > 0 && self.last_ns.get() != 0 {
            control::stamp(&self.base.options, self.last_ns.get(), &mut received.parts);
        }
        if self.tcp.tells_unread() {
            let ended = self.available() == 0 && self.done.get();
            let unread = self.available() as i32 + i32::from(ended);
            let part = Part { level: IPPROTO_TCP, kind: TCP_CM_INQ, data: unread.to_ne_bytes().as_slice().into() };
            received.parts.push(part);
        }
        Ok(received)
    }

    /// No data: returns `true` if more may arrive. The pending error, ENOTCONN, EAGAIN.
    fn wait_possible(&self, flags: u32) -> Result<bool> {
        if self.done.get() {
            return Ok(false);
        }
        if let Some(errno) = self.error.take() {
            return Err(errno);
        }
        if self.read_ended.get() && self.state.get() != State::Close {
            return Ok(false);
        }
        if self.state.get() == State::Close {
            return if self.read_ended.get() { Ok(false) } else { Err(Errno::ENOTCONN) };
        }
        if flags & net::MSG_DONTWAIT != 0 {
            self.missed();
            return Err(Errno::EAGAIN);
        }
        Ok(true)
    }

    /// Moves available bytes, up to `limit` and not beyond an urgent byte. `seen`: bytes already returned by
    /// `MSG_PEEK`; `some`: not the first bytes of the call.
    fn move_out(&self, dst: &mut dyn Dst, limit: usize, seen: usize, some: bool, flags: u32) -> Result<Moved> {
        let peek = flags & net::MSG_PEEK != 0;
        let mut limit = limit;
        let mut seen = if peek { seen } else { 0 };
        if let Some(mark) = self.bytes_to_mark() {
            if mark > seen {
                limit = limit.min(mark - seen);
            } else if mark == seen && some {
                return Ok(Moved { len: 0, at_mark: true });
            } else if mark == seen && !self.urgent_inline() && self.available() > seen {
                // The urgent byte is not part of the stream.
                if peek {
                    seen += 1;
                } else {
                    self.inbox.drop_bytes(1);
                }
            }
        }
        limit = limit.min(self.available().saturating_sub(seen));
        let discard = flags & net::MSG_TRUNC != 0;
        let len = if peek && discard {
            limit
        } else if peek {
            self.inbox.peek(dst, seen, limit)?
        } else if discard {
            self.inbox.drop_bytes(limit)
        } else if limit > 0 {
            self.inbox.take(dst, limit)?
        } else {
            0
        };
        if !peek {
            if self.urgent.get().is_some() && self.bytes_to_mark().is_none() {
                self.urgent.set(None);
            }
            self.made_room();
        }
        Ok(Moved { len, at_mark: false })
    }

    /// A peek showed `n` bytes, or they were received: `SO_PEEK_OFF` moves.
    fn move_peek(&self, n: usize, peek: bool) {
        let at = self.peek_offset.get();
        let n = i32::try_from(n).unwrap_or(i32::MAX);
        if at >= 0 {
            self.peek_offset.set(if peek { at.saturating_add(n) } else { at.saturating_sub(n).max(0) });
        }
    }

    /// Wakes the sender if it waits for room.
    fn made_room(&self) {
        self.receive_more();
        let sender = self.peer();
        if let Some(sender) = sender
            && sender.wants_room.get()
            && sender.has_room(self)
        {
            sender.wants_room.set(false);
            sender.writable.wake_all();
        }
    }

    /// recv(2) with `MSG_OOB`.
    fn receive_urgent(&self, dst: &mut dyn Dst, flags: u32) -> Result<Received> {
        let urgent = self.urgent.get().filter(|urgent| !urgent.read).ok_or(Errno::EINVAL)?;
        if self.urgent_inline() {
            return Err(Errno::EINVAL);
        }
        if flags & net::MSG_PEEK == 0 {
            self.urgent.set(Some(Urgent { read: true, ..urgent }));
        }
        let mut received = Received { flags: net::MSG_OOB, ..Received::default() };
        if dst.remaining() == 0 {
            received.flags |= net::MSG_TRUNC;
        } else {
            if flags & net::MSG_TRUNC == 0 {
                dst.put(&[urgent.byte])?;
            }
            received.len = 1;
        }
        Ok(received)
    }
}

/// Result of one step of a receive.
struct Moved {
    len: usize,
    /// Stopped before an urgent byte.
    at_mark: bool,
}
