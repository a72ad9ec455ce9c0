//! Sockets: the system calls, and the interface of a protocol family.
//!
//! [`Socket`] is the open file; behind it is a [`Protocol`], the family's part. Families keep
//! addresses as the bytes of their `struct sockaddr`.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod caller;
mod filter;
mod group;
pub mod inet;
pub mod message;
pub mod netlink;
pub mod netns;
pub mod options;
pub mod unix;

use alloc::format;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::any::Any;
use file::caller::{ProcessRef, caller};
use file::sigio::Change;
use file::{Abilities, File, FileOps, Queues, anon};
use message::{Control, Received};
use netns::NetNs;
use options::{Options, Value};
use sched::wait::{Interrupt, WaitQueue, wait_until};
use smallvec::SmallVec;
use uapi::raw::general as g;
use uapi::raw::net;
use uapi::{Errno, Result};
use vfs::io::KernelSrc;
use vfs::{Attr, Dst, Src};

/// Bytes of a `struct sockaddr`, family included.
pub type Address = SmallVec<[u8; 28]>;

/// poll(2) bits of a socket that can be received from, and sent to.
const IN: u32 = g::POLLIN | g::POLLRDNORM;
const OUT: u32 = g::POLLOUT | g::POLLWRNORM;

/// Operations of a socket family. The defaults return Linux's errno for a family without the operation.
///
/// No `RefCell` borrow may be held while a method here runs.
pub trait Protocol: Any {
    /// For downcasts.
    fn as_any(&self) -> &dyn Any;
    /// Options that every family has.
    fn options(&self) -> &Options;
    /// The namespace that it belongs to.
    fn net(&self) -> &Rc<NetNs>;
    /// Called after the open file was created, with its inode number.
    fn opened(&self, _file: &Rc<File>, _ino: u64) {}
    /// bind(2).
    fn bind(&self, address: &[u8]) -> Result<()>;
    /// connect(2).
    fn connect(&self, address: &[u8], nonblocking: bool) -> Result<()>;
    /// listen(2).
    fn listen(&self, _backlog: i32) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }
    /// accept(2): the new connection.
    fn accept(&self, _nonblocking: bool) -> Result<Rc<dyn Protocol>> {
        Err(Errno::EOPNOTSUPP)
    }
    /// getsockname(2).
    fn local(&self) -> Result<Address>;
    /// getpeername(2).
    fn peer(&self) -> Result<Address>;
    /// The peer's address for accept(2), even if the connection has ended meanwhile.
    fn accepted_from(&self) -> Address {
        self.peer().unwrap_or_default()
    }
    /// sendmsg(2). `flags`: `MSG_*`, with `MSG_DONTWAIT` for sockets that do not block.
    fn send(&self, src: &mut dyn Src, to: Option<&[u8]>, control: Control, flags: u32) -> Result<usize>;
    /// recvmsg(2). `want_from`: the caller needs the sender's address.
    fn receive(&self, dst: &mut dyn Dst, want_from: bool, flags: u32) -> Result<Received>;
    /// shutdown(2): which halves end.
    fn shutdown(&self, read: bool, write: bool) -> Result<()>;
    /// poll(2) events now.
    fn poll(&self) -> u32;
    /// What a file with `O_ASYNC` is signalled when its readers (`reads`) or its writers are woken; `None`: nothing. Called while a queue
    /// is woken, so it looks at plain cells only.
    fn change(&self, reads: bool) -> Option<Change> {
        Some(Change::usual(reads))
    }
    /// Queues woken when they change.
    fn poll_queues(&self, events: u32, out: &mut Queues);
    /// `FIONREAD`, `SIOCINQ`; `SIOCOUTQ` if `sent`.
    fn queued(&self, sent: bool) -> Result<usize>;
    /// ioctl(2) of requests that are the family's own. ENOTTY.
    fn ioctl(&self, _command: u32, _arg: usize) -> Result<usize> {
        Err(Errno::ENOTTY)
    }
    /// Largest `SO_RCVLOWAT`.
    fn most_low_water(&self) -> i32 {
        i32::MAX
    }
    /// `SO_ERROR`: the pending error; reading clears it.
    fn take_error(&self) -> Option<Errno> {
        None
    }
    /// Sets the pending error: a call that had done something already failed.
    fn set_error(&self, _errno: Errno) {}
    /// `SO_ACCEPTCONN`.
    fn is_listening(&self) -> bool {
        false
    }
    /// `SO_PEERCRED`: pid, uid, gid. Without a peer: pid 0 and ids of -1.
    fn peer_credentials(&self) -> Result<[u32; 3]> {
        Ok([0, u32::MAX, u32::MAX])
    }
    /// `SO_PEERPIDFD`: the peer's process; `None` without a peer.
    fn peer_process(&self) -> Option<ProcessRef> {
        None
    }
    /// `SO_PEERGROUPS`: the credentials with the peer's supplementary groups; `None` without a peer.
    fn peer_groups(&self) -> Option<Rc<file::cred::Cred>> {
        None
    }
    /// `SO_SNDBUF` was set: wakes senders that wait for room.
    fn send_buffer_changed(&self) {}
    /// Memory of messages, `SO_MEMINFO`.
    fn usage(&self) -> Usage {
        Usage::default()
    }
    /// An option was set.
    fn options_changed(&self) {}
    /// An option of SOL_SOCKET was set to this value.
    fn option_changed(&self, _name: u32, _value: &[u8]) {}
    /// setsockopt(2) of options that are the family's own. ENOPROTOOPT.
    fn set_option(&self, _level: i32, _name: i32, _value: &[u8]) -> Result<()> {
        Err(Errno::ENOPROTOOPT)
    }
    /// getsockopt(2) of options that are the family's own. ENOPROTOOPT.
    fn get_option(&self, _level: i32, _name: i32) -> Result<Value> {
        Err(Errno::ENOPROTOOPT)
    }
    /// The last descriptor was closed.
    fn release(&self);
}

/// Memory that messages of a socket take, and what was lost.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// Bytes that wait to be received.
    pub received: usize,
    /// Bytes that were sent and wait.
    pub sent: usize,
    /// Messages that were lost.
    pub drops: u64,
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
    inode: anon::Nameless,
}

impl Socket {
    /// An open file for a family's socket. `flags`: `O_NONBLOCK`.
    pub fn open(family: u32, kind: u32, protocol: u32, ops: Rc<dyn Protocol>, flags: u32) -> Rc<File> {
        let attr = anon::attr(anon::next_ino(), anon::dev::SOCKET, g::S_IFSOCK | 0o777);
        let socket = Rc::new(Self { family, kind, protocol, ops, inode: anon::Nameless::new(attr) });
        let file = File::new(socket.clone(), g::O_RDWR | flags & g::O_NONBLOCK, None);
        socket.ops.opened(&file, attr.ino);
        file
    }
}

/// Waits on one queue. EAGAIN after the deadline, as the socket timeouts have it.
fn wait<T>(queue: &Rc<WaitQueue>, deadline: Option<u64>, check: impl FnMut() -> Option<T>) -> Result<T> {
    match wait_until(core::slice::from_ref(queue), deadline, Interrupt::BySignal, check) {
        Err(Errno::ETIMEDOUT) => Err(Errno::EAGAIN),
        // With a timeout an interrupted call is not restarted, signal(7).
        Err(Errno::ERESTARTSYS) if deadline.is_some() => Err(Errno::EINTR),
        other => other,
    }
}

/// EPIPE, and SIGPIPE unless `MSG_NOSIGNAL`.
#[cold]
fn broken(flags: u32) -> Errno {
    if flags & net::MSG_NOSIGNAL != 0 { Errno::EPIPE } else { file::caller::broken_pipe() }
}

/// The family of an address; EINVAL if it has none.
fn family_of(address: &[u8]) -> Result<u32> {
    address.first_chunk().map(|bytes| u32::from(u16::from_ne_bytes(*bytes))).ok_or(Errno::EINVAL)
}

/// `MSG_DONTWAIT` if the description is non-blocking, else 0.
pub fn dont_wait(file: &File) -> u32 {
    if file.nonblocking() { net::MSG_DONTWAIT } else { 0 }
}

impl Socket {
    /// Whether what is sent are datagrams of an internet protocol, which several sends can put together.
    pub fn has_messages(&self) -> bool {
        self.kind == net::SOCK_DGRAM && matches!(self.family, net::AF_INET | net::AF_INET6)
    }

    /// splice(2) to the socket; `more` as `MSG_MORE`.
    pub fn splice(&self, file: &File, bytes: &[u8], more: bool) -> Result<usize> {
        let flags = dont_wait(file) | if more { net::MSG_MORE } else { 0 };
        self.ops.send(&mut KernelSrc(bytes), None, Control::default(), flags)
    }
}

impl FileOps for Socket {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn abilities(&self) -> Abilities {
        Abilities::STREAM
    }

    fn change(&self, reads: bool) -> Option<Change> {
        self.ops.change(reads)
    }

    fn read(&self, file: &File, dst: &mut dyn Dst) -> Result<usize> {
        if dst.remaining() == 0 {
            return Ok(0);
        }
        self.ops.receive(dst, false, dont_wait(file)).map(|received| received.len)
    }

    fn write(&self, file: &File, src: &mut dyn Src) -> Result<usize> {
        self.ops.send(src, None, Control::default(), dont_wait(file))
    }

    fn attr(&self) -> Result<Attr> {
        Ok(self.inode.attr.get())
    }

    fn nameless(&self) -> Option<&anon::Nameless> {
        Some(&self.inode)
    }

    fn poll(&self, _file: &File) -> u32 {
        self.ops.poll()
    }

    fn poll_queues(&self, _file: &File, events: u32, out: &mut Queues) {
        self.ops.poll_queues(events, out);
    }

    fn ioctl(&self, file: &File, command: u32, arg: usize) -> Result<usize> {
        // SIOCINQ is FIONREAD, SIOCOUTQ is TIOCOUTQ.
        let sent = match command {
            uapi::raw::ioctl::FIONREAD => false,
            uapi::raw::ioctl::TIOCOUTQ => true,
            uapi::raw::ioctl::FIOSETOWN | uapi::raw::ioctl::SIOCSPGRP => {
                return file::owner::set(&file.owner, mm::user::read(arg)?);
            }
            uapi::raw::ioctl::FIOGETOWN | uapi::raw::ioctl::SIOCGPGRP => {
                mm::user::write(arg, &file::owner::get(&file.owner))?;
                return Ok(0);
            }
            _ => {
                return match self.ops.ioctl(command, arg) {
                    Err(Errno::ENOTTY) => inet::interface::ioctl(self.ops.net(), command, arg),
                    other => other,
                };
            }
        };
        mm::user::write(arg, &(self.ops.queued(sent)? as i32))?;
        Ok(0)
    }

    fn link_name(&self) -> Vec<u8> {
        format!("socket:[{}]", self.inode.attr.get().ino).into_bytes()
    }

    fn release(&self, _file: &File) {
        self.ops.release();
    }
}

/// Open sockets of a family in a network namespace, each once, in the order of their inode numbers. ENOMEM.
pub fn open_sockets(ns: &Rc<NetNs>, family: u32) -> Result<Vec<(u64, Rc<File>)>> {
    let mut found: Vec<(u64, Rc<File>)> = Vec::new();
    caller().each_table(&mut |files| {
        for file in files.numbers().filter_map(|fd| files.get(fd).ok()) {
            let matches = file.downcast::<Socket>();
            let matches = matches.is_some_and(|socket| socket.family == family && Rc::ptr_eq(socket.ops.net(), ns));
            if matches && let Ok(attr) = file.ops.attr() {
                found.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
                found.push((attr.ino, file));
            }
        }
        Ok(())
    })?;
    found.sort_unstable_by_key(|(ino, _)| *ino);
    found.dedup_by_key(|(ino, _)| *ino);
    Ok(found)
}
