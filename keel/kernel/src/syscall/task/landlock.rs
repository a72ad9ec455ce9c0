//! Landlock's calls, landlock(7).

use crate::file::landlock::{PORT_RIGHTS, SCOPES};
use crate::file::{Abilities, File, FileOps, anon};
use crate::mm::user;
use crate::task::cred::cap;
use crate::task::current;
use crate::task::descriptors;
use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::any::Any;
use core::cell::RefCell;
use uapi::raw::general as g;
use uapi::{Errno, Result};
use vfs::PathRef;
use vfs::landlock::{Domain, Layer, Places, access};
use vfs::{Attr, FileType};

/// ABI version: files, ports and scopes of Linux 6.15.
const VERSION: usize = 7;
/// `LANDLOCK_CREATE_RULESET_VERSION`, and the errata bitmap (`_ERRATA`): port rules apply to TCP only, and threads of a
/// process may always signal each other.
const ASK_VERSION: u32 = 1;
const ASK_ERRATA: u32 = 2;
const ERRATA: usize = 0b11;

/// Size of `struct landlock_ruleset_attr`, current and first version.
const ATTR_SIZE: usize = 24;
const FIRST_SIZE: usize = 8;

/// Kinds of rules.
const PATH_BENEATH: i32 = 1;
const NET_PORT: i32 = 2;

/// Flags of landlock_restrict_self(2) for the audit log, which does not exist here.
const LOG_SUBDOMAINS_OFF: u32 = 4;
const LOG_FLAGS: u32 = 7;

/// An unfinished ruleset.
struct Ruleset {
    files: u64,
    ports: u64,
    scoped: u64,
    places: RefCell<Places>,
    port_rules: RefCell<BTreeMap<u16, u64>>,
}

impl FileOps for Ruleset {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn abilities(&self) -> Abilities {
        Abilities::READ.with(Abilities::WRITE)
    }

    fn attr(&self) -> Result<Attr> {
        Ok(anon::anon_attr())
    }

    fn link_name(&self) -> Vec<u8> {
        b"anon_inode:[landlock-ruleset]".to_vec()
    }
}

/// The file of a ruleset. EBADF, EBADFD.
fn ruleset_file(fd: i32) -> Result<Rc<File>> {
    let file = descriptors::current_file(fd)?;
    if file.downcast::<Ruleset>().is_some() { Ok(file) } else { Err(Errno::EBADFD) }
}

/// landlock_create_ruleset(2). E2BIG, EFAULT, EINVAL, EMFILE, ENOMSG.
pub fn sys_landlock_create_ruleset(attr: usize, size: usize, flags: u32) -> Result<usize> {
    if flags != 0 {
        return match flags {
            ASK_VERSION if attr == 0 && size == 0 => Ok(VERSION),
            ASK_ERRATA if attr == 0 && size == 0 => Ok(ERRATA),
            _ => Err(Errno::EINVAL),
        };
    }
    if attr == 0 {
        return Err(Errno::EFAULT);
    }
    if size < FIRST_SIZE {
        return Err(Errno::EINVAL);
    }
    if size > ATTR_SIZE {
        crate::task::path::check_struct_size(attr, size, ATTR_SIZE)?;
    }
    let mut words = [0; ATTR_SIZE];
    let known = size.min(ATTR_SIZE);
    user::read_bytes(attr, &mut words[..known])?;
    let [files, ports, scoped]: [u64; 3] = bytemuck::cast(words);
    if files & !access::ALL != 0 || ports & !PORT_RIGHTS != 0 || scoped & !SCOPES != 0 {
        return Err(Errno::EINVAL);
    }
    if files | ports | scoped == 0 {
        return Err(Errno::ENOMSG);
    }
    let ruleset = Ruleset { files, ports, scoped, places: RefCell::default(), port_rules: RefCell::default() };
    let fd = descriptors::install(File::new(Rc::new(ruleset), g::O_RDWR, None), g::O_CLOEXEC)?;
    Ok(fd as usize)
}

/// landlock_add_rule(2). EBADF, EBADFD, EFAULT, EINVAL, ENOMEM, ENOMSG.
pub fn sys_landlock_add_rule(fd: i32, kind: i32, rule: usize, flags: u32) -> Result<()> {
    if flags != 0 {
        return Err(Errno::EINVAL);
    }
    let file = ruleset_file(fd)?;
    let ruleset: &Ruleset = file.downcast().ok_or(Errno::EBADFD)?;
    let check = |rights: u64, handled: u64| match rights {
        0 => Err(Errno::ENOMSG),
        _ if rights & !handled != 0 => Err(Errno::EINVAL),
        _ => Ok(()),
    };
    match kind {
        PATH_BENEATH => {
            let [low, high, parent]: [u32; 3] = user::read(rule)?;
            let rights = u64::from(low) | u64::from(high) << 32;
            check(rights, ruleset.files)?;
            let place = place_of(parent as i32)?;
            if place.inode().file_type() != FileType::Directory && rights & !access::OF_FILE != 0 {
                return Err(Errno::EINVAL);
            }
            ruleset.places.borrow_mut().allow(&place, 0, rights)
        }
        NET_PORT => {
            let [rights, port]: [u64; 2] = user::read(rule)?;
            check(rights, ruleset.ports)?;
            let port = u16::try_from(port).map_err(|_| Errno::EINVAL)?;
            // There is memory for one more, or the call had been refused.
            *ruleset.port_rules.borrow_mut().entry(port).or_default() |= rights;
            Ok(())
        }
        _ => Err(Errno::EINVAL),
    }
}

/// The path of a rule. EBADF, EBADFD.
fn place_of(fd: i32) -> Result<PathRef> {
    let place = descriptors::current_file_raw(fd)?.path.clone().ok_or(Errno::EBADFD)?;
    if place.is_deleted() && place.parent().is_none() { Err(Errno::EBADFD) } else { Ok(place) }
}

/// landlock_restrict_self(2). E2BIG, EBADF, EBADFD, EINVAL, ENOMEM, EPERM.
pub fn sys_landlock_restrict_self(fd: i32, flags: u32) -> Result<()> {
    let me = current();
    if !me.no_new_privs() && !me.cred().capable_here(cap::SYS_ADMIN) {
        return Err(Errno::EPERM);
    }
    if flags & !LOG_FLAGS != 0 {
        return Err(Errno::EINVAL);
    }
    if fd == -1 && flags == LOG_SUBDOMAINS_OFF {
        return Ok(());
    }
    let file = ruleset_file(fd)?;
    let ruleset: &Ruleset = file.downcast().ok_or(Errno::EBADFD)?;
    let mut new = (*me.cred()).clone();
    let mut port_rules = Vec::new();
    port_rules.try_reserve(ruleset.port_rules.borrow().len()).map_err(|_| Errno::ENOMEM)?;
    port_rules.extend(ruleset.port_rules.borrow().iter().map(|(port, rights)| (*port, *rights)));
    let layer = Layer { files: ruleset.files, ports: ruleset.ports, scoped: ruleset.scoped, port_rules };
    new.domain = Some(Domain::restricted(new.domain.as_ref(), layer, &ruleset.places.borrow())?);
    me.set_cred(new);
    Ok(())
}
