//! The socket interface of TCP.

use super::super::super::message::{Control, Received};
use super::super::super::netns::NetNs;
use super::super::super::options::{Options, Value, int, read_int};
use super::super::super::{Address, IN, OUT, Protocol, Usage};
use super::super::control::{self, Sending};
use super::super::outward::settle::{Under, settle};
use super::super::{IPPROTO_TCP, ip_options};
use super::transfer::MSG_FASTOPEN;
use super::{MAX_RECEIVE_BUFFER, Phase, State, Tcp};
use abi::request::Transport;
use alloc::rc::Rc;
use core::any::Any;
use file::landlock;
use file::sigio::Change;
use file::{File, Queues};
use mm::user;
use uapi::raw::general as g;
use uapi::raw::net;
use uapi::{Errno, Result};
use vfs::{Dst, Src};

/// Bytes that were not sent yet.
const SIOCOUTQNSD: u32 = 0x894b;

impl Protocol for Tcp {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn options(&self) -> &Options {
        &self.base.options
    }

    fn net(&self) -> &Rc<NetNs> {
        &self.base.net
    }

    fn opened(&self, file: &Rc<File>, ino: u64) {
        self.base.opened(file, ino);
    }

    fn bind(&self, address: &[u8]) -> Result<()> {
        landlock::check_port(self.base.family, address, false)?;
        let to = self.base.bindable(address)?;
        self.look_for_end();
        if self.state.get() != State::Close {
            return Err(Errno::EINVAL);
        }
        if self.base.net.is_host() {
            return if self.base.bind_later(Transport::Tcp, to)? { Ok(()) } else { self.bind_host(to) };
        }
        let me = self.me.upgrade().ok_or(Errno::EINVAL)?;
        self.base.bind(&me, &self.base.net.tcp, to)
    }

    fn connect(&self, address: &[u8], nonblocking: bool) -> Result<()> {
        landlock::check_port(self.base.family, address, true)?;
        self.start_connect(address, nonblocking)
    }

    fn listen(&self, backlog: i32) -> Result<()> {
        self.start_listening(backlog)
    }

    fn accept(&self, nonblocking: bool) -> Result<Rc<dyn Protocol>> {
        let accepted = self.next_connection(nonblocking)?;
        Ok(accepted)
    }

    fn local(&self) -> Result<Address> {
        Ok(self.base.local_address())
    }

    fn peer(&self) -> Result<Address> {
        settle(Under::End);
        self.look_for_end();
        if !self.is_connected() {
            return Err(Errno::ENOTCONN);
        }
        Ok(self.accepted_from())
    }

    fn accepted_from(&self) -> Address {
        self.base.remote.get().map_or_else(Address::new, |remote| remote.to_bytes(self.base.family))
    }

    fn send(&self, src: &mut dyn Src, to: Option<&[u8]>, control: Control, flags: u32) -> Result<usize> {
        for part in control.other.iter().filter(|part| part.level == net::SOL_SOCKET) {
            control::general(&self.base, part, &mut Sending::default())?;
        }
        if flags & MSG_FASTOPEN != 0 {
            self.connect_to_send(to, flags & net::MSG_DONTWAIT != 0)?;
        }
        let sent = self.send_bytes(src, flags)?;
        if self.base.completions.sent(&self.base.options, sent, flags) {
            self.wake_all();
        }
        Ok(sent)
    }

    fn receive(&self, dst: &mut dyn Dst, _want_from: bool, flags: u32) -> Result<Received> {
        self.receive_bytes(dst, flags)
    }

    fn shutdown(&self, read: bool, write: bool) -> Result<()> {
        settle(Under::End);
        self.look_for_end();
        match self.state.get() {
            State::Close => {
                self.read_ended.set(self.read_ended.get() | read);
                self.write_ended.set(self.write_ended.get() | write);
                self.wake_all();
                return Err(Errno::ENOTCONN);
            }
            State::Listen => {
                if read {
                    self.stop_listening();
                    self.phase.set(Phase::Unconnected);
                    self.wake_all();
                }
                return Ok(());
            }
            State::SynSent => {
                self.disconnect();
                self.error.set(Some(Errno::ECONNRESET));
                return Ok(());
            }
            _ => {}
        }
        // The peer's stream may have ended, too; then nothing comes.
        let reads_no_more = read || self.read_ended.get() && !self.done.get();
        self.read_ended.set(self.read_ended.get() | read);
        if let Some(link) = self.link()
            && reads_no_more
            && (write || self.write_ended.get())
        {
            link.end_both();
        }
        if write && !self.write_ended.replace(true) {
            self.end();
            if let Some(link) = self.link() {
                link.end_stream();
            }
        }
        self.wake_all();
        Ok(())
    }

    fn poll(&self) -> u32 {
        if !self.is_readable() {
            self.missed();
        }
        let state = self.state.get();
        if state == State::Listen {
            return if self.backlog.borrow().is_empty() && !self.has_waiting() { 0 } else { IN };
        }
        let mut events = 0;
        let (read_ended, write_ended) = (self.read_ended.get(), self.write_ended.get());
        if read_ended && write_ended || state == State::Close {
            events |= g::POLLHUP;
        }
        if read_ended {
            events |= IN | g::POLLRDHUP;
        }
        if state != State::SynSent {
            if self.is_readable() {
                events |= IN;
            }
            let peer = if write_ended { None } else { self.peer() };
            if let Some(link) = self.link() {
                if write_ended || self.has_room_outward(&link) {
                    events |= OUT;
                } else {
                    self.wants_room.set(true);
                }
            } else if peer.as_ref().is_none_or(|peer| self.has_room(peer)) {
                events |= OUT;
            } else {
                self.wants_room.set(true);
            }
            if self.urgent.get().is_some_and(|urgent| !urgent.read) {
                events |= g::POLLPRI;
            }
        }
        if self.error.get().is_some() || !self.base.completions.is_empty() {
            events |= g::POLLERR;
        }
        events
    }

    fn change(&self, reads: bool) -> Option<Change> {
        match (reads, self.state.get()) {
            (true, _) if self.error.get().is_some() => Some(Change::Error),
            (true, State::Close) => Some(Change::HangUp),
            (false, State::Close) => None,
            _ => Some(Change::usual(reads)),
        }
    }

    fn poll_queues(&self, events: u32, out: &mut Queues) {
        // Errors and hang-ups wake readers and writers.
        if events & (IN | g::POLLRDHUP | g::POLLPRI) != 0 || events & OUT == 0 {
            out.push(self.readable.clone());
        }
        if events & OUT != 0 {
            out.push(self.writable.clone());
        }
    }

    fn queued(&self, sent: bool) -> Result<usize> {
        settle(Under::Data);
        match self.state.get() {
            State::Listen => Err(Errno::EINVAL),
            State::SynSent => Ok(0),
            _ if sent => Ok(self.unacknowledged()),
            _ => Ok(self.unread()),
        }
    }

    fn ioctl(&self, command: u32, arg: usize) -> Result<usize> {
        settle(Under::Data);
        match command {
            uapi::raw::ioctl::SIOCATMARK => user::write(arg, &i32::from(self.at_mark()))?,
            SIOCOUTQNSD if self.state.get() == State::Listen => return Err(Errno::EINVAL),
            SIOCOUTQNSD => user::write(arg, &(self.unsent() as i32))?,
            // Nothing that was received had a time.
            _ if super::super::is_stamp(command) => return Err(Errno::ENOENT),
            _ => return self.base.ioctl(command, arg),
        }
        Ok(0)
    }

    fn most_low_water(&self) -> i32 {
        let options = &self.base.options;
        let locked = options.receive_buffer_locked.get();
        if locked { (options.receive_buffer.get() / 2) as i32 } else { MAX_RECEIVE_BUFFER / 2 }
    }

    fn option_changed(&self, name: u32, value: &[u8]) {
        // The pod's own value holds anyway.
        let _ = self.forward(net::SOL_SOCKET as i32, name as i32, value);
    }

    fn usage(&self) -> Usage {
        let (received, sent) = self.waiting();
        Usage { received, sent, drops: 0 }
    }

    fn take_error(&self) -> Option<Errno> {
        self.error.take()
    }

    fn set_error(&self, errno: Errno) {
        self.error.set(Some(errno));
        self.wake_all();
    }

    fn is_listening(&self) -> bool {
        self.state.get() == State::Listen
    }

    fn set_option(&self, level: i32, name: i32, value: &[u8]) -> Result<()> {
        match level as u32 {
            IPPROTO_TCP => {
                self.look_for_end();
                self.tcp.set(name as u32, value, self.is_connected(), self.state.get() == State::Close)?;
                self.forward(level, name, value)?;
                let pushes = match name as u32 {
                    net::TCP_CORK => !self.tcp.is_corked(),
                    net::TCP_NODELAY => read_int(value)? != 0,
                    _ => false,
                };
                if pushes {
                    self.push();
                }
                Ok(())
            }
            net::SOL_SOCKET if name as u32 == net::SO_PEEK_OFF => {
                self.peek_offset.set(read_int(value)?);
                Ok(())
            }
            net::SOL_SOCKET => Err(Errno::ENOPROTOOPT),
            _ => {
                ip_options::set(&self.base, level, name, value)?;
                // Without effect where the host does not know it.
                let _ = self.forward(level, name, value);
                Ok(())
            }
        }
    }

    fn get_option(&self, level: i32, name: i32) -> Result<Value> {
        match level as u32 {
            IPPROTO_TCP if name as u32 == net::TCP_INFO => Ok(self.info_outward().unwrap_or_else(|| self.info())),
            IPPROTO_TCP if name as u32 == net::TCP_MAXSEG && self.is_connected() => self.segment_size(),
            IPPROTO_TCP => self.tcp.get(name as u32),
            net::SOL_SOCKET if name as u32 == net::SO_PEEK_OFF => Ok(int(self.peek_offset.get())),
            net::SOL_SOCKET => Err(Errno::ENOPROTOOPT),
            _ => ip_options::get(&self.base, level, name),
        }
    }

    fn release(&self) {
        self.closed.set(true);
        match self.state.get() {
            State::Listen => self.stop_listening(),
            State::Close => self.release_link(),
            State::SynSent => self.abort(),
            state => {
                let [linger, seconds] = self.base.options.linger.get();
                if self.available() > 0 || linger != 0 && seconds == 0 {
                    self.abort();
                } else {
                    if state == State::Established {
                        self.base.net.tcp.ended(&self.base);
                    }
                    self.end();
                    self.release_link();
                }
            }
        }
        self.read_ended.set(true);
        self.write_ended.set(true);
        self.release_bound();
        self.base.net.tcp.leave(self);
        self.wake_all();
    }
}
