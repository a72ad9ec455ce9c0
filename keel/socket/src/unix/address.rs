//! Names of local sockets: in the tree, abstract, or none; unix(7).

use super::super::Address;
use super::super::netns::NetNs;
use super::{Kind, Unix};
use alloc::collections::BTreeMap;
use alloc::rc::{Rc, Weak};
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use uapi::raw::net;
use uapi::{Errno, Result};
use vfs::FileType;

/// Bytes of `struct sockaddr_un`.
const SIZE: usize = 110;

/// A name as passed by a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnixName {
    /// None: choose one (bind).
    Auto,
    /// A path.
    Path(Vec<u8>),
    /// A name outside the tree.
    Abstract(Vec<u8>),
}

/// Reads a `struct sockaddr_un`. EINVAL.
pub fn parse(address: &[u8]) -> Result<UnixName> {
    let Some((family, rest)) = address.split_first_chunk::<2>() else { return Err(Errno::EINVAL) };
    if u16::from_ne_bytes(*family) != net::AF_UNIX as u16 || address.len() > SIZE {
        return Err(Errno::EINVAL);
    }
    Ok(match rest.first() {
        None => UnixName::Auto,
        Some(0) => UnixName::Abstract(rest[1..].to_vec()),
        Some(_) => UnixName::Path(rest.split(|&byte| byte == 0).next().unwrap_or(rest).to_vec()),
    })
}

/// The same for a destination, which has a name. EINVAL.
pub fn destination(address: &[u8]) -> Result<UnixName> {
    parse(address).and_then(|name| if name == UnixName::Auto { Err(Errno::EINVAL) } else { Ok(name) })
}

/// The address of a socket without a name.
pub fn unnamed() -> Address {
    Address::from_slice(&(net::AF_UNIX as u16).to_ne_bytes())
}

/// The address of a name.
pub fn address_of(name: &UnixName) -> Address {
    let mut address = unnamed();
    match name {
        UnixName::Auto => {}
        UnixName::Abstract(name) => {
            address.push(0);
            address.extend_from_slice(name);
        }
        UnixName::Path(path) => {
            address.extend_from_slice(path);
            address.push(0);
        }
    }
    address
}

/// Sockets by kind (each has a separate name space) and abstract name. Dead ones are replaced when their name is
/// reused.
type AbstractNames = BTreeMap<(Kind, Vec<u8>), Weak<Unix>>;
/// Number of abstract names at which dead ones are removed.
const SWEEP_AT: usize = 256;

/// The abstract names of a network namespace.
#[derive(Default)]
pub struct Names {
    known: RefCell<AbstractNames>,
    /// The last name that was chosen automatically.
    last: Cell<u32>,
}

/// The socket of an inode.
#[derive(Default)]
struct Bound(RefCell<Weak<Unix>>);

/// Binds `socket`; returns the name, which is chosen automatically if the program passed none. `mode`: permissions of
/// the file, before the umask. EADDRINUSE, or the errors of creating a file.
pub fn bind(socket: &Rc<Unix>, name: UnixName, mode: u32) -> Result<UnixName> {
    match name {
        UnixName::Path(path) => {
            let place = crate::caller::CALLER
                .get()
                .create_node(&path, mode)
                .map_err(|errno| if errno == Errno::EEXIST { Errno::EADDRINUSE } else { errno })?;
            let inode = place.inode();
            let bound = inode.attachments().ok_or(Errno::EPERM)?.get_or_insert(Bound::default);
            let _old = bound.0.replace(Rc::downgrade(socket));
            socket.node.set(inode.attr().ok().map(|attr| [attr.ino as u32, attr.dev as u32]));
            let _old = socket.place.replace(Some(place));
            Ok(UnixName::Path(path))
        }
        UnixName::Abstract(name) => {
            register(socket, &name)?;
            Ok(UnixName::Abstract(name))
        }
        UnixName::Auto => loop {
            let names = &socket.net.names;
            let number = (names.last.get() + 1) & 0xf_ffff;
            names.last.set(number);
            let name = alloc::format!("{number:05x}").into_bytes();
            if register(socket, &name).is_ok() {
                return Ok(UnixName::Abstract(name));
            }
        },
    }
}

fn register(socket: &Rc<Unix>, name: &[u8]) -> Result<()> {
    let mut table = socket.net.names.known.borrow_mut();
    if table.len() >= SWEEP_AT {
        table.retain(|_, other| other.strong_count() > 0);
    }
    let key = (socket.kind, name.to_vec());
    if table.get(&key).and_then(Weak::upgrade).is_some_and(|other| !other.is_closed()) {
        return Err(Errno::EADDRINUSE);
    }
    table.insert(key, Rc::downgrade(socket));
    Ok(())
}

/// The socket of this name no longer exists.
pub fn unbind(ns: &NetNs, name: &UnixName, kind: Kind) {
    if let UnixName::Abstract(name) = name {
        ns.names.known.borrow_mut().remove(&(kind, name.clone()));
    }
}

/// The socket with a name, of any kind and namespace if the name is a path. ECONNREFUSED, or the errors of path resolution.
pub fn find(ns: &NetNs, name: &UnixName, kind: Kind) -> Result<Rc<Unix>> {
    match name {
        UnixName::Auto => Err(Errno::EINVAL),
        UnixName::Abstract(name) => {
            let socket = ns.names.known.borrow().get(&(kind, name.clone())).and_then(Weak::upgrade);
            socket.filter(|socket| !socket.is_closed()).ok_or(Errno::ECONNREFUSED)
        }
        UnixName::Path(path) => {
            let inode = crate::caller::CALLER.get().find_node(path)?;
            if inode.file_type() != FileType::Socket {
                return Err(Errno::ECONNREFUSED);
            }
            let bound = inode.attachments().and_then(|values| values.get::<Bound>()).ok_or(Errno::ECONNREFUSED)?;
            let socket = bound.0.borrow().upgrade();
            socket.filter(|socket| !socket.is_closed()).ok_or(Errno::ECONNREFUSED)
        }
    }
}
