//! Open directories: getdents64(2).
//!
//! A description lists the directory once, when it is read from its start, and goes through that
//! list: entries that come or go meanwhile never shift others, and positions stay valid.

use crate::file::{Abilities, File, FileOps};
use crate::mm::user;
use crate::task::descriptors::current_file;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::any::Any;
use core::cell::RefCell;
use uapi::raw::general as g;
use uapi::{Errno, Result};
use vfs::PathRef;
use vfs::{Attr, Dst, FileType, Inode, Listing, Src};

/// An open directory.
pub struct Directory {
    place: PathRef,
    entries: RefCell<Option<Rc<Listing>>>,
}

impl Directory {
    /// Over a place.
    pub fn new(place: PathRef) -> Rc<Self> {
        Rc::new(Self { place, entries: RefCell::default() })
    }

    /// The list, made anew at the start.
    fn entries(&self, fresh: bool) -> Result<Rc<Listing>> {
        let known = self.entries.borrow().clone().filter(|_| !fresh);
        match known {
            Some(entries) => Ok(entries),
            None => {
                let entries = Rc::new(self.place.inode().readdir()?);
                self.entries.replace(Some(entries.clone()));
                Ok(entries)
            }
        }
    }
}

impl FileOps for Directory {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn abilities(&self) -> Abilities {
        Abilities::READ.with(Abilities::POSITIONS)
    }

    fn read(&self, _file: &File, _dst: &mut dyn Dst) -> Result<usize> {
        Err(Errno::EISDIR)
    }

    fn write(&self, _file: &File, _src: &mut dyn Src) -> Result<usize> {
        Err(Errno::EBADF)
    }

    fn read_at(&self, _file: &File, _offset: u64, _dst: &mut dyn Dst) -> Result<usize> {
        Err(Errno::EISDIR)
    }

    fn seek(&self, file: &File, offset: i64, whence: u32) -> Result<u64> {
        /// The largest position in a directory of `/proc` and `/sys`, which are empty files for lseek(2).
        const GENERATED_MAX: u64 = i32::MAX as u64;
        let generated = vfs::synth::is_kernel_directory(&**self.place.inode());
        let base = match whence {
            g::SEEK_SET => 0,
            g::SEEK_CUR => file.pos.get(),
            g::SEEK_END if generated => 0,
            g::SEEK_DATA | g::SEEK_HOLE if generated => return Err(Errno::ENXIO),
            _ => return Err(Errno::EINVAL),
        };
        let most = if generated { GENERATED_MAX } else { vfs::FILE_MAX };
        let at = base.checked_add_signed(offset).filter(|&at| at <= most).ok_or(Errno::EINVAL)?;
        file.pos.set(at);
        Ok(at)
    }

    fn attr(&self) -> Result<Attr> {
        self.place.inode().attr()
    }

    fn inode(&self) -> Option<Rc<dyn Inode>> {
        Some(self.place.inode().clone())
    }
}

/// Layout of the records: `linux_dirent64`, or the old `linux_dirent` whose type comes last.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Layout {
    New,
    Old,
}

/// Appends a record; `false` if it does not fit.
fn push(out: &mut Vec<u8>, room: usize, layout: Layout, ino: u64, next: u64, kind: FileType, name: &[u8]) -> bool {
    let len = match layout {
        Layout::New => (19 + name.len() + 1).next_multiple_of(8),
        Layout::Old => (18 + name.len() + 2).next_multiple_of(8),
    };
    if out.len() + len > room {
        return false;
    }
    let end = out.len() + len;
    out.extend_from_slice(&ino.to_le_bytes());
    out.extend_from_slice(&next.to_le_bytes());
    out.extend_from_slice(&(len as u16).to_le_bytes());
    if layout == Layout::New {
        out.push(kind.dirent_type());
    }
    out.extend_from_slice(name);
    out.resize(end, 0);
    if layout == Layout::Old {
        out[end - 1] = kind.dirent_type();
    }
    true
}

/// Most bytes of records made at once, whatever room the program has.
const MAX_ROOM: usize = 64 << 10;

fn getdents(fd: i32, buf: usize, count: u32, layout: Layout) -> Result<usize> {
    let file = current_file(fd)?;
    let Some(directory) = file.downcast::<Directory>() else { return Err(Errno::ENOTDIR) };
    if directory.place.is_deleted() {
        return Err(Errno::ENOENT);
    }
    // Negative sizes are sizes without room.
    let room = usize::try_from(count as i32).unwrap_or(0).min(MAX_ROOM);
    let mut at = file.pos.get();
    let entries = directory.entries(at == 0)?;
    let mut out = Vec::new();
    out.try_reserve_exact(room).map_err(|_| Errno::ENOMEM)?;
    let mut listed = entries.iter_from(usize::try_from(at.saturating_sub(2)).unwrap_or(usize::MAX));
    let mut full = false;
    while !full {
        let next = at + 1;
        full = !match at {
            0 => {
                let ino = directory.place.inode().attr()?.ino;
                push(&mut out, room, layout, ino, next, FileType::Directory, b".")
            }
            1 => {
                let parent = directory.place.parent().unwrap_or_else(|| directory.place.clone());
                push(&mut out, room, layout, parent.inode().attr()?.ino, next, FileType::Directory, b"..")
            }
            _ => match listed.next() {
                Some(entry) => push(&mut out, room, layout, entry.ino, next, entry.kind, entry.name),
                None => break,
            },
        };
        if !full {
            at = next;
        }
    }
    if out.is_empty() && full {
        return Err(Errno::EINVAL);
    }
    file.happened(1, g::IN_ACCESS);
    let Err(errno) = user::write_bytes(buf, &out) else {
        file.pos.set(at);
        return Ok(out.len());
    };
    // Records that fit into the memory that is there count.
    let mut done = 0;
    while let Some(rest) = out.get(done..).filter(|rest| rest.len() > RECORD_HEAD) {
        let len = usize::from(u16::from_le_bytes([rest[16], rest[17]]));
        let Some(record) = rest.get(..len) else { break };
        if user::write_bytes(buf.wrapping_add(done), record).is_err() {
            break;
        }
        let next = record.iter().skip(8).take(8).rev().fold(0, |sum, &byte| sum << 8 | u64::from(byte));
        file.pos.set(next);
        done += len;
    }
    if done == 0 { Err(errno) } else { Ok(done) }
}

/// Bytes of a record before its name: number, position of the next one, length.
const RECORD_HEAD: usize = 18;

/// getdents64(2).
pub fn sys_getdents64(fd: i32, buf: usize, count: u32) -> Result<usize> {
    getdents(fd, buf, count, Layout::New)
}

/// getdents(2).
pub fn sys_getdents(fd: i32, buf: usize, count: u32) -> Result<usize> {
    getdents(fd, buf, count, Layout::Old)
}
