//! Memory of other processes: process_vm_readv(2), process_madvise(2), process_mrelease(2).

use crate::mm::{Mm, advise, page_up, user};
use crate::task::cred::cap;
use crate::task::{access, pid, pidfd, pidns};
use abi::layout::PAGE_SIZE;
use alloc::rc::Rc;
use alloc::vec::Vec;
use uapi::raw::general as g;
use uapi::{Errno, Result};

/// Bytes that are copied at a time.
const CHUNK: usize = 16 * PAGE_SIZE;
/// Most bytes of a call: Linux's MAX_RW_COUNT.
const MOST: usize = 0x7fff_f000;

/// Reads an array of `struct iovec`: address and length. EFAULT, EINVAL.
fn read_vector(at: usize, count: usize) -> Result<Vec<(usize, usize)>> {
    if count > user::IOV_MAX {
        return Err(Errno::EINVAL);
    }
    let parts: Vec<[usize; 2]> = user::read_array(at, count)?;
    if parts.iter().any(|part| part[1] > isize::MAX as usize) {
        return Err(Errno::EINVAL);
    }
    vfs::memory::list(parts.into_iter().map(|[address, len]| (address, len)))
}

/// Goes through the bytes of a vector.
struct Cursor {
    parts: Vec<(usize, usize)>,
    at: usize,
}

impl Cursor {
    fn new(parts: Vec<(usize, usize)>) -> Self {
        Self { parts, at: 0 }
    }

    /// Address and number of the next bytes that lie together.
    fn next(&mut self) -> Option<(usize, usize)> {
        while self.parts.get(self.at)?.1 == 0 {
            self.at += 1;
        }
        self.parts.get(self.at).copied()
    }

    fn advance(&mut self, bytes: usize) {
        if let Some(part) = self.parts.get_mut(self.at) {
            *part = (part.0.wrapping_add(bytes), part.1.saturating_sub(bytes));
        }
    }
}

/// Copies between the current process and another one: the bytes that could be.
fn copy(target: &Rc<Mm>, own: Vec<(usize, usize)>, other: Vec<(usize, usize)>, write: bool) -> Result<usize> {
    let (mut own, mut other) = (Cursor::new(own), Cursor::new(other));
    let mut buffer = vfs::memory::buffer(CHUNK)?;
    let mut done = 0;
    while let (Some((here, n)), Some((there, m))) = (own.next(), other.next()) {
        let len = n.min(m).min(CHUNK).min(MOST - done);
        let Some(bytes) = buffer.get_mut(..len).filter(|bytes| !bytes.is_empty()) else { break };
        let moved = if write {
            user::read_bytes(here, bytes).map_or(0, |()| target.poke(there, bytes))
        } else {
            let got = target.peek(there, bytes);
            user::write_bytes(here, &bytes[..got]).map_or(0, |()| got)
        };
        done += moved;
        if moved < len {
            return if done == 0 { Err(Errno::EFAULT) } else { Ok(done) };
        }
        own.advance(len);
        other.advance(len);
    }
    Ok(done)
}

fn access(pid: i32, own: (usize, usize), other: (usize, usize), flags: u64, write: bool) -> Result<usize> {
    if flags != 0 {
        return Err(Errno::EINVAL);
    }
    let own = read_vector(own.0, own.1)?;
    if own.iter().all(|part| part.1 == 0) {
        return Ok(0);
    }
    let other = read_vector(other.0, other.1)?;
    if other.iter().all(|part| part.1 == 0) {
        return Ok(0);
    }
    let target = pid::find_subject(pidns::named(pid))?;
    if !access::may_look(&target, access::Ids::Real) {
        return Err(Errno::EPERM);
    }
    copy(&target.try_mm().ok_or(Errno::ESRCH)?, own, other, write)
}

/// process_vm_readv(2). EFAULT, EINVAL, EPERM, ESRCH.
pub fn sys_process_vm_readv(
    pid: i32,
    own: usize,
    own_count: usize,
    other: usize,
    other_count: usize,
    flags: u64,
) -> Result<usize> {
    access(pid, (own, own_count), (other, other_count), flags, false)
}

/// process_vm_writev(2). As [`sys_process_vm_readv`].
pub fn sys_process_vm_writev(
    pid: i32,
    own: usize,
    own_count: usize,
    other: usize,
    other_count: usize,
    flags: u64,
) -> Result<usize> {
    access(pid, (own, own_count), (other, other_count), flags, true)
}

/// process_madvise(2): the bytes advised. EACCES, EBADF, EFAULT, EINVAL, EPERM, ESRCH.
pub fn sys_process_madvise(pidfd: i32, vector: usize, count: usize, advice: u32, flags: u32) -> Result<usize> {
    if flags != 0 {
        return Err(Errno::EINVAL);
    }
    let parts = read_vector(vector, count)?;
    let process = pidfd::process_of(pidfd)?;
    // Linux: EACCES for a process whose memory the caller may not look at, before the advice is.
    if process.pid() == pid::INIT {
        return Err(Errno::EACCES);
    }
    let target = process.main_thread().ok_or(Errno::ESRCH)?;
    if !access::may_look(&target, access::Ids::FileSystem) {
        return Err(Errno::EACCES);
    }
    // The caller's own memory takes any advice.
    let me = crate::task::current();
    let own = me.try_mm().zip(target.try_mm()).is_some_and(|(own, other)| Rc::ptr_eq(&own, &other));
    if !own && !matches!(advice, g::MADV_COLD | g::MADV_PAGEOUT | g::MADV_WILLNEED | g::MADV_COLLAPSE) {
        return Err(Errno::EINVAL);
    }
    if !own && !me.cred().capable(cap::SYS_NICE) {
        return Err(Errno::EPERM);
    }
    let mm = target.try_mm().ok_or(Errno::ESRCH)?;
    let mut done = 0;
    for (start, len) in parts {
        let advised = if !advise::is_known(advice) || !start.is_multiple_of(PAGE_SIZE) {
            Err(Errno::EINVAL)
        } else {
            let end = page_up(len).and_then(|len| start.checked_add(len)).ok_or(Errno::EINVAL);
            end.and_then(|end| if end == start { Ok(()) } else { mm.advise(start, end, advice) })
        };
        match advised {
            Ok(()) => done += len,
            Err(errno) => return if done == 0 { Err(errno) } else { Ok(done) },
        }
    }
    Ok(done)
}

/// process_mrelease(2): memory of a process that is being killed, which keel gives back by itself. EBADF, EINVAL, ESRCH.
pub fn sys_process_mrelease(pidfd: i32, flags: u32) -> Result<()> {
    if flags != 0 {
        return Err(Errno::EINVAL);
    }
    let process = pidfd::process_of(pidfd)?;
    if process.pid() == pid::INIT {
        return Err(Errno::EINVAL);
    }
    let target = process.main_thread().ok_or(Errno::ESRCH)?;
    if target.is_killed() { Ok(()) } else { Err(Errno::EINVAL) }
}

/// pkey_alloc(2) on a processor without protection keys. EINVAL, ENOSPC.
pub fn sys_pkey_alloc(flags: u64, rights: u64) -> Result<i32> {
    const RIGHTS: u64 = 3;
    Err(if flags != 0 || rights & !RIGHTS != 0 { Errno::EINVAL } else { Errno::ENOSPC })
}
