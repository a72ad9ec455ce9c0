//! Groups of sockets that share an address, `SO_REUSEPORT`, and the program that chooses one of a group for what arrives:
//! `SO_ATTACH_REUSEPORT_CBPF`.

use super::Socket;
use super::filter::{self, Filter};
use super::options::Options;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::RefCell;
use keel_core::bpf::packet::Packet;
use uapi::raw::net;
use uapi::{Errno, Result};

/// See the module.
#[derive(Debug, Default)]
pub struct Group {
    /// Addresses of the members' options, by the numbers that a program returns.
    members: RefCell<Vec<usize>>,
    filter: RefCell<Option<Rc<Filter>>>,
}

/// Names a socket in its group.
fn name(options: &Options) -> usize {
    core::ptr::from_ref(options).addr()
}

impl Group {
    /// Whether the socket with these options is a member.
    pub fn has(&self, options: &Options) -> bool {
        self.members.borrow().contains(&name(options))
    }

    /// The member that the program chooses for a message with this content, if that is among those whose options `at` gives:
    /// its place there.
    pub fn choose<'a>(&self, content: &[u8], mut among: impl Iterator<Item = &'a Options>) -> Option<usize> {
        let filter = self.filter.borrow().clone()?;
        let number = filter.run(&Packet { header: &[], body: content }) as usize;
        let chosen = self.members.borrow().get(number).copied()?;
        among.position(|options| name(options) == chosen)
    }
}

/// The socket has got its address (a stream socket listens there): it joins the group of another one there, or has its own.
/// Out of memory, no program can choose it.
pub fn join(options: &Options, others: Option<Rc<Group>>) {
    if !options.is_on(net::SO_REUSEPORT) {
        return;
    }
    let own = options.group.take();
    let group = others.or(own).unwrap_or_default();
    if !group.has(options) {
        let _ = vfs::memory::push(&mut group.members.borrow_mut(), name(options));
    }
    options.group.replace(Some(group));
}

/// The socket gives its address up. As in Linux the last member gets its number.
pub fn leave(options: &Options) {
    if let Some(group) = options.group.take() {
        let mut members = group.members.borrow_mut();
        if let Some(at) = members.iter().position(|&member| member == name(options)) {
            members.swap_remove(at);
        }
    }
}

/// `SO_ATTACH_REUSEPORT_CBPF`. EINVAL, ENOPROTOOPT, EPERM, EFAULT, ENOMEM.
pub fn attach(socket: &Socket, value: &[u8]) -> Result<()> {
    let options = socket.ops.options();
    let filter = filter::read(options, value)?;
    if !options.is_on(net::SO_REUSEPORT) {
        return Err(Errno::EINVAL);
    }
    if socket.ops.net().is_host() {
        // The host chooses, as a Linux did before it knew such programs.
        return Err(Errno::ENOPROTOOPT);
    }
    let known = options.group.borrow().clone();
    let group = match known {
        Some(group) => group,
        // It got its address alone.
        None if socket.protocol == super::inet::IPPROTO_UDP && has_port(socket) => return Err(Errno::EINVAL),
        None => {
            let group = Rc::<Group>::default();
            options.group.replace(Some(group.clone()));
            group
        }
    };
    let _old = group.filter.replace(Some(Rc::new(filter)));
    Ok(())
}

/// Whether it has a port.
fn has_port(socket: &Socket) -> bool {
    socket.ops.local().is_ok_and(|address| address.get(2..4).is_some_and(|port| port != [0, 0]))
}

/// `SO_DETACH_REUSEPORT_BPF`. EINVAL, ENOENT.
pub fn detach(options: &Options) -> Result<()> {
    let group = options.group.borrow().clone();
    match group {
        Some(group) => group.filter.take().map(drop).ok_or(Errno::ENOENT),
        None if options.is_on(net::SO_REUSEPORT) => Err(Errno::ENOENT),
        None => Err(Errno::EINVAL),
    }
}
