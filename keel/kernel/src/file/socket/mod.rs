//! Sockets: the system calls, and what a family gives for them.
//!
//! [`Socket`] is the open file; behind it is a [`Protocol`], the family's part. Families keep
//! addresses as the bytes of their `struct sockaddr`.

pub mod calls;
pub mod message;
pub mod options;
pub mod unix;
mod unix_address;
mod unix_queue;

use super::{File, FileOps, Queues, anon};
use alloc::format;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::any::Any;
use core::cell::Cell;
use message::{Control, Received};
use smallvec::SmallVec;
use uapi::raw::general as g;
use uapi::raw::net;
use uapi::{Errno, Result};
use vfs::{Attr, Dst, Src};

/// Bytes of a `struct sockaddr`, family included.
pub type Address = SmallVec<[u8; 28]>;

/// What a family of sockets does. The defaults are Linux's answers for those without the operation.
///
/// No `RefCell` borrow may be held while a method here runs.
pub trait Protocol: Any {
    /// For downcasts.
    fn as_any(&self) -> &dyn Any;
    /// bind(2).
    fn bind(&self, address: &[u8]) -> Result<()>;
    /// connect(2).
    fn connect(&self, socket: &Socket, address: &[u8], nonblocking: bool) -> Result<()>;
    /// listen(2).
    fn listen(&self, _backlog: i32) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }
    /// accept(2): the new connection.
    fn accept(&self, _socket: &Socket, _nonblocking: bool) -> Result<Rc<dyn Protocol>> {
        Err(Errno::EOPNOTSUPP)
    }
    /// getsockname(2).
    fn local(&self) -> Result<Address>;
    /// getpeername(2).
    fn peer(&self) -> Result<Address>;
    /// sendmsg(2). `flags`: `MSG_*`, with `MSG_DONTWAIT` for sockets that do not block.
    fn send(
        &self,
        socket: &Socket,
        src: &mut dyn Src,
        to: Option<&[u8]>,
        control: Control,
        flags: u32,
    ) -> Result<usize>;
    /// recvmsg(2). `want_from`: the caller takes the sender's address.
    fn receive(&self, socket: &Socket, dst: &mut dyn Dst, want_from: bool, flags: u32) -> Result<Received>;
    /// shutdown(2): which halves end.
    fn shutdown(&self, read: bool, write: bool) -> Result<()>;
    /// poll(2) events now.
    fn poll(&self) -> u32;
    /// Queues woken when they change.
    fn poll_queues(&self, events: u32, out: &mut Queues);
    /// `FIONREAD`, `SIOCINQ`; `SIOCOUTQ` if `sent`.
    fn queued(&self, sent: bool) -> Result<usize>;
    /// `SO_ERROR`: the pending error, which is then forgotten.
    fn take_error(&self) -> Option<Errno> {
        None
    }
    /// `SO_ACCEPTCONN`.
    fn is_listening(&self) -> bool {
        false
    }
    /// `SO_PEERCRED`: pid, uid, gid.
    fn peer_credentials(&self) -> Result<[u32; 3]> {
        Err(Errno::ENOPROTOOPT)
    }
    /// setsockopt(2) of options that are the family's own. ENOPROTOOPT.
    fn set_option(&self, _level: i32, _name: i32, _value: &[u8]) -> Result<()> {
        Err(Errno::ENOPROTOOPT)
    }
    /// getsockopt(2) of options that are the family's own. ENOPROTOOPT.
    fn get_option(&self, _level: i32, _name: i32) -> Result<SmallVec<[u8; 16]>> {
        Err(Errno::ENOPROTOOPT)
    }
    /// The last descriptor was closed.
    fn release(&self);
}

/// An open socket.
pub struct Socket {
    /// `AF_*`.
    pub family: u32,
    /// `SOCK_STREAM`, …
    pub kind: u32,
    /// Protocol number.
    pub protocol: u32,
    /// The family's part.
    pub ops: Rc<dyn Protocol>,
    /// Options that every family has.
    pub options: options::Options,
    attr: Attr,
}

impl Socket {
    /// An open file for a family's socket. `flags`: `O_NONBLOCK`.
    pub fn open(family: u32, kind: u32, protocol: u32, ops: Rc<dyn Protocol>, flags: u32) -> Rc<File> {
        let attr = anon::attr(anon::next_ino(), anon::dev::SOCKET, g::S_IFSOCK | 0o777);
        let socket = Self { family, kind, protocol, ops, options: options::Options::default(), attr };
        File::new(Rc::new(socket), g::O_RDWR | flags & g::O_NONBLOCK, None)
    }

    /// Until when a receive may wait: `SO_RCVTIMEO`.
    pub fn receive_deadline(&self) -> Option<u64> {
        deadline(&self.options.receive_timeout_ns)
    }

    /// Until when a send may wait: `SO_SNDTIMEO`.
    pub fn send_deadline(&self) -> Option<u64> {
        deadline(&self.options.send_timeout_ns)
    }
}

fn deadline(timeout: &Cell<u64>) -> Option<u64> {
    match timeout.get() {
        0 => None,
        ns => Some(hal::clock::monotonic_ns().saturating_add(ns)),
    }
}

fn dont_wait(file: &File) -> u32 {
    if file.nonblocking() { net::MSG_DONTWAIT } else { 0 }
}

impl FileOps for Socket {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn read(&self, file: &File, dst: &mut dyn Dst) -> Result<usize> {
        self.ops.receive(self, dst, false, dont_wait(file)).map(|received| received.len)
    }

    fn write(&self, file: &File, src: &mut dyn Src) -> Result<usize> {
        self.ops.send(self, src, None, Control::default(), dont_wait(file))
    }

    fn attr(&self) -> Result<Attr> {
        Ok(self.attr)
    }

    fn poll(&self, _file: &File) -> u32 {
        self.ops.poll()
    }

    fn poll_queues(&self, _file: &File, events: u32, out: &mut Queues) {
        self.ops.poll_queues(events, out);
    }

    fn ioctl(&self, _file: &File, command: u32, arg: usize) -> Result<usize> {
        // SIOCINQ is FIONREAD, SIOCOUTQ is TIOCOUTQ.
        let sent = match command {
            super::ioctl::FIONREAD => false,
            uapi::raw::ioctl::TIOCOUTQ => true,
            _ => return Err(Errno::ENOTTY),
        };
        crate::mm::user::write(arg, &(self.ops.queued(sent)? as i32))?;
        Ok(0)
    }

    fn link_name(&self) -> Vec<u8> {
        format!("socket:[{}]", self.attr.ino).into_bytes()
    }

    fn release(&self, _file: &File) {
        self.ops.release();
    }
}
