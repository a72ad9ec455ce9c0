//! Messages: `struct msghdr` and control data.

use alloc::rc::Rc;
use alloc::vec::Vec;
use file::File;
use file::caller::{ProcessRef, caller};
use file::cred::userns::Ids;
use mm::user;
use smallvec::SmallVec;
use uapi::raw::general as g;
use uapi::raw::net;
use uapi::{Errno, Result};

/// Maximum number of descriptors of a message: `SCM_MAX_FD`, unix(7).
const MAX_RIGHTS: usize = 253;
/// Maximum bytes of control data of a message (`net.core.optmem_max`).
const MAX_CONTROL: usize = 131_072;
/// Bytes of `struct cmsghdr`.
const HEADER: usize = 16;
/// Bytes of a descriptor's number.
const FD: usize = 4;
/// Bytes of `struct msghdr`.
pub const MSGHDR: usize = 56;

/// A descriptor of the sender's process.
const SCM_PIDFD: u32 = 4;

/// Process id, user id and group id: `struct ucred`.
pub type Credentials = [u32; 3];

/// Control data of a message to be sent.
#[derive(Debug, Default)]
pub struct Control {
    /// `SCM_RIGHTS`.
    pub rights: Vec<Rc<File>>,
    /// `SCM_CREDENTIALS`, checked.
    pub credentials: Option<Credentials>,
    /// Further control messages.
    pub other: Vec<Part>,
}

impl Control {
    fn add(&mut self, level: u32, kind: u32, data: &[u8]) -> Result<()> {
        self.other.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        self.other.push(Part { level, kind, data: SmallVec::from_slice(data) });
        Ok(())
    }

    /// EINVAL if there is control data of the level SOL_SOCKET that sockets without packets do not know.
    pub fn check_general(&self) -> Result<()> {
        let unknown = self.other.iter().any(|part| part.level == net::SOL_SOCKET);
        if unknown { Err(Errno::EINVAL) } else { Ok(()) }
    }
}

/// Control data of one kind.
#[derive(Clone, Debug)]
pub struct Part {
    /// `SOL_*`.
    pub level: u32,
    /// Its type in that level.
    pub kind: u32,
    /// The bytes.
    pub data: SmallVec<[u8; 32]>,
}

/// A received message.
#[derive(Debug, Default)]
pub struct Received {
    /// Bytes stored (with `MSG_TRUNC` in the call's flags: of the whole message).
    pub len: usize,
    /// Sender's address.
    pub from: Option<super::Address>,
    /// `MSG_TRUNC`, `MSG_EOR` …
    pub flags: u32,
    /// Received descriptors.
    pub rights: Vec<Rc<File>>,
    /// The sender's credentials, with `SO_PASSCRED`.
    pub credentials: Option<Credentials>,
    /// The sender's process, with `SO_PASSPIDFD`, if it is known.
    pub process: Option<ProcessRef>,
    /// `SO_PASSPIDFD` is set.
    pub wants_process: bool,
    /// Further control data.
    pub parts: Vec<Part>,
    /// Bytes that are left, with `SO_INQ`.
    pub left: Option<i32>,
}

/// `SCM_CREDENTIALS` of messages that were sent before SO_PASSCRED was set: the overflow ids.
pub const NOBODY: Credentials = [0, 65534, 65534];

/// Credentials of the current thread, as `SO_PEERCRED` has them.
pub fn own_credentials() -> Credentials {
    let cred = caller().cred();
    [caller().pid() as u32, cred.euid, cred.egid]
}

/// Credentials as the current thread's user namespace shows them.
pub fn shown_credentials([pid, uid, gid]: Credentials) -> Credentials {
    let cred = caller().cred();
    // An id of -1 stands for none.
    let shown = |id: u32, show: &dyn Fn(u32) -> u32| if id == u32::MAX { id } else { show(id) };
    let ns = &cred.user_ns;
    [caller().shown(pid as i32) as u32, shown(uid, &|id| ns.shown_uid(id)), shown(gid, &|id| ns.shown_gid(id))]
}

/// Credentials of the current thread that go with its messages: its real ids.
pub fn sender_credentials() -> Credentials {
    let cred = caller().cred();
    [caller().pid() as u32, cred.uid, cred.gid]
}

/// `struct msghdr`.
#[derive(Clone, Copy, Debug)]
pub struct MsgHdr {
    /// Address of the socket address.
    pub name: usize,
    /// Its size.
    pub name_len: i32,
    /// Address of the `struct iovec`s.
    pub iov: usize,
    /// Their number.
    pub iov_len: usize,
    /// Address of the control data.
    pub control: usize,
    /// Its size.
    pub control_len: usize,
    address: usize,
}

/// Progress of storing control data.
struct Stored {
    used: usize,
    room: usize,
    /// `MSG_CTRUNC` or 0.
    truncated: u32,
}

impl MsgHdr {
    /// Reads one.
    pub fn read(address: usize) -> Result<Self> {
        let words: [usize; 7] = user::read(address)?;
        let header = Self {
            name: words[0],
            name_len: if words[0] == 0 { 0 } else { words[1] as i32 },
            iov: words[2],
            iov_len: words[3],
            control: words[4],
            control_len: words[5],
            address,
        };
        if header.name_len < 0 {
            return Err(Errno::EINVAL);
        }
        if header.iov_len > user::IOV_MAX {
            return Err(Errno::EMSGSIZE);
        }
        Ok(header)
    }

    /// Writes the fields that a receive changes.
    pub fn write_back(&self, name_len: Option<usize>, control_len: usize, flags: u32) -> Result<()> {
        if let Some(len) = name_len {
            user::write(self.address + 8, &(len as u32))?;
        }
        user::write(self.address + 40, &control_len)?;
        user::write(self.address + 48, &flags)
    }

    /// Reads and checks the control data of a message to be sent.
    pub fn read_control(&self) -> Result<Control> {
        let mut control = Control::default();
        if self.control_len == 0 {
            return Ok(control);
        }
        if self.control_len > MAX_CONTROL {
            return Err(Errno::ENOBUFS);
        }
        let mut bytes = vfs::memory::buffer(self.control_len)?;
        user::read_bytes(self.control, &mut bytes)?;
        let mut rest = &bytes[..];
        while rest.len() >= HEADER {
            let len = usize::from_ne_bytes(*rest.first_chunk().ok_or(Errno::EINVAL)?);
            if len < HEADER || len > rest.len() {
                return Err(Errno::EINVAL);
            }
            let word = |at: usize| rest.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_ne_bytes);
            let (level, kind) = (word(8), word(12));
            let data = &rest[HEADER..len];
            if level == net::SOL_SOCKET {
                match kind {
                    net::SCM_RIGHTS => add_rights(&mut control, data)?,
                    net::SCM_CREDENTIALS => control.credentials = Some(check_credentials(data)?),
                    _ => control.add(level, kind, data)?,
                }
            } else {
                control.add(level, kind, data)?;
            }
            rest = rest.get(len.next_multiple_of(8)..).unwrap_or(&[]);
        }
        Ok(control)
    }

    /// Stores control data; returns the bytes used and `MSG_CTRUNC` if some had no room. As in Linux a part that can't
    /// be stored is left out, and the message is received all the same.
    pub fn write_control(&self, received: &mut Received, flags: u32) -> (usize, u32) {
        let mut out = Stored { used: 0, truncated: 0, room: if self.control == 0 { 0 } else { self.control_len } };
        for part in &received.parts {
            self.put(&mut out, part.level, part.kind, &part.data);
        }
        if let Some(credentials) = received.credentials {
            let bytes = credentials.map(u32::to_ne_bytes);
            self.put(&mut out, net::SOL_SOCKET, net::SCM_CREDENTIALS, bytes.as_flattened());
        }
        self.put_rights(&mut out, core::mem::take(&mut received.rights), flags);
        if received.wants_process {
            self.put_pidfd(&mut out, received.process.take());
        }
        if let Some(left) = received.left {
            self.put(&mut out, net::SOL_SOCKET, net::SO_INQ, &left.to_ne_bytes());
        }
        (out.used, out.truncated)
    }

    /// Stores as much of one part as there is room for, if its header fits.
    fn put(&self, out: &mut Stored, level: u32, kind: u32, data: &[u8]) {
        let room = out.room - out.used;
        if room < HEADER + data.len() {
            out.truncated = net::MSG_CTRUNC;
        }
        if room >= HEADER {
            let fit = data.len().min(room - HEADER);
            let at = self.control.wrapping_add(out.used);
            let head = header(HEADER + fit, level, kind);
            let stored = user::write_bytes(at, &head)
                .and_then(|()| user::write_bytes(at.wrapping_add(HEADER), data.get(..fit).unwrap_or_default()));
            if stored.is_ok() {
                out.used += (HEADER + fit).next_multiple_of(8).min(room);
            }
        }
    }

    /// Gives descriptors to the current process, as many as there is room for.
    fn put_rights(&self, out: &mut Stored, rights: Vec<Rc<File>>, flags: u32) {
        let sent = rights.len();
        if sent == 0 {
            return;
        }
        let room = out.room - out.used;
        let fit = room.saturating_sub(HEADER) / FD;
        let close_on_exec = if flags & net::MSG_CMSG_CLOEXEC != 0 { g::O_CLOEXEC } else { 0 };
        let start = self.control.wrapping_add(out.used);
        let mut given = 0;
        for file in rights.into_iter().take(fit) {
            let at = start.wrapping_add(HEADER + given * FD);
            if caller().install_at(at, file, close_on_exec).is_err() {
                break;
            }
            given += 1;
        }
        let len = HEADER + given * FD;
        let head = header(len, net::SOL_SOCKET, net::SCM_RIGHTS);
        if given > 0 && user::write_bytes(start, &head).is_ok() {
            out.used += len.next_multiple_of(8).min(room);
        }
        if given < sent {
            out.truncated = net::MSG_CTRUNC;
        }
    }

    /// Stores a descriptor of the sender's process, or an errno in its place.
    fn put_pidfd(&self, out: &mut Stored, process: Option<ProcessRef>) {
        if out.room - out.used < HEADER + FD {
            out.truncated = net::MSG_CTRUNC;
        } else if let Some(process) = process {
            let fd = caller().open_pidfd(&process).unwrap_or_else(|errno| -errno.code());
            let before = out.used;
            self.put(out, net::SOL_SOCKET, SCM_PIDFD, &fd.to_ne_bytes());
            if out.used == before && fd >= 0 {
                // The program has not seen its number. Another thread may have closed it meanwhile.
                caller().close(fd);
            }
        }
    }
}

/// `struct cmsghdr`.
fn header(len: usize, level: u32, kind: u32) -> [u8; HEADER] {
    let mut bytes = [0; HEADER];
    bytes[..8].copy_from_slice(&len.to_ne_bytes());
    bytes[8..12].copy_from_slice(&level.to_ne_bytes());
    bytes[12..].copy_from_slice(&kind.to_ne_bytes());
    bytes
}

/// Descriptors of the current process become descriptions. EBADF, EINVAL.
fn add_rights(control: &mut Control, data: &[u8]) -> Result<()> {
    for fd in data.as_chunks::<4>().0 {
        if control.rights.len() == MAX_RIGHTS {
            return Err(Errno::EINVAL);
        }
        control.rights.push(caller().file(i32::from_ne_bytes(*fd))?);
    }
    Ok(())
}

/// A process may only speak for itself, unless it has the capabilities. EPERM, EINVAL.
fn check_credentials(data: &[u8]) -> Result<Credentials> {
    let [pid, uid, gid]: Credentials = match data.as_chunks::<4>() {
        (&[pid, uid, gid], []) => [pid, uid, gid].map(u32::from_ne_bytes),
        _ => return Err(Errno::EINVAL),
    };
    let cred = caller().cred();
    let ns = &cred.user_ns;
    let uid = ns.outward(Ids::Users, uid).ok_or(Errno::EINVAL)?;
    let gid = ns.outward(Ids::Groups, gid).ok_or(Errno::EINVAL)?;
    let has = |capability: u32| cred.cap_effective >> capability & 1 != 0;
    let pid = caller().named(pid as i32) as u32;
    let pid_ok = pid == caller().pid() as u32 || has(g::CAP_SYS_ADMIN);
    let uid_ok = [cred.uid, cred.euid, cred.suid].contains(&uid) || has(g::CAP_SETUID);
    let gid_ok = [cred.gid, cred.egid, cred.sgid].contains(&gid) || has(g::CAP_SETGID);
    if !(pid_ok && uid_ok && gid_ok) {
        return Err(Errno::EPERM);
    }
    if pid != caller().pid() as u32 && !caller().is_process(pid as i32) {
        return Err(Errno::ESRCH);
    }
    Ok([pid, uid, gid])
}
