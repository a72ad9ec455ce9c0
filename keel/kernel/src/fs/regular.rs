//! Open regular files.

use crate::file::unlocked::{Kind, Regular};
use crate::file::{Abilities, File, FileOps};
use crate::fs::proc::namespaces;
use crate::task;
use crate::task::path::Caller;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::any::Any;
use core::cell::{Cell, RefCell};
use uapi::raw::general as g;
use uapi::{Errno, Result};
use vfs::cred::cap;
use vfs::host::{End, Landing};
use vfs::{Attr, Claim, Dst, FILE_MAX, Inode, Src};

/// An open regular file.
pub struct RegularFile {
    inode: Rc<dyn Inode>,
    /// It may be written: held for its drop. Files that never had a name are not guarded.
    _claim: Option<Claim>,
    /// Failed writes of the inode that this description has reported.
    told: Cell<u32>,
    /// By open(2): otherwise `O_DIRECT` can't be set.
    was_opened: bool,
    /// The position is behind an append that is under way: so many bytes after its start.
    later: RefCell<Option<(Rc<Landing>, u64)>>,
}

impl RegularFile {
    /// Over an inode.
    pub fn new(inode: Rc<dyn Inode>, claim: Option<Claim>) -> Rc<Self> {
        let told = Cell::new(inode.failure().0);
        Rc::new(Self { inode, _claim: claim, told, was_opened: true, later: RefCell::default() })
    }

    /// Over an inode of memfd_create(2).
    pub fn never_opened(inode: Rc<dyn Inode>) -> Rc<Self> {
        let told = Cell::new(inode.failure().0);
        Rc::new(Self { inode, _claim: None, told, was_opened: false, later: RefCell::default() })
    }

    /// The error of a write that failed after it was taken, once: it stands for those that are still under way, too.
    fn failed(&self) -> Result<()> {
        match self.inode.failure() {
            (count, Some(errno)) if self.told.get() != count => {
                let settled = self.inode.settle();
                self.told.set(self.inode.failure().0);
                settled.and(Err(errno))
            }
            _ => Ok(()),
        }
    }

    /// Runs a write, unless one that was taken before failed: that is reported in its place. One that fails itself reports
    /// those that failed while it was under way, too.
    fn reporting<R>(&self, write: impl FnOnce() -> Result<R>) -> Result<R> {
        self.failed()?;
        write().inspect_err(|_| {
            // The caller's error stands for what fails here, too.
            let _ = self.inode.settle();
            self.told.set(self.inode.failure().0);
        })
    }

    /// Fetches the position if it is behind an append that is under way.
    #[inline(always)]
    fn know_position(&self, file: &File) -> Result<()> {
        if self.later.borrow().is_some() { self.fetch_position(file) } else { Ok(()) }
    }

    #[cold]
    fn fetch_position(&self, file: &File) -> Result<()> {
        let later = self.later.take();
        if let Some((landing, after)) = later {
            self.inode.settle()?;
            if let Some(start) = landing.start() {
                file.pos.set(start + after);
            }
            self.position_is_unsure(file, false);
        }
        Ok(())
    }

    /// Whether calls without the big lock may use the position. The caller has its turn.
    fn position_is_unsure(&self, file: &File, is_unsure: bool) {
        if let Some(regular) = file.unlocked.get().and_then(|core| core.regular()) {
            regular.set_unsure(is_unsure);
        }
    }

    /// Writes at the position, or at the end with O_APPEND, and moves the position. The caller has its turn.
    fn write_here(&self, file: &File, src: &mut dyn Src) -> Result<usize> {
        if file.flags.get() & g::O_APPEND == 0 {
            return self.write_at_position(file, src);
        }
        let (written, end) = self.append_limited(src)?;
        let (position, later) = match end {
            End::At(end) => (end, None),
            End::Later(landing, after, expected) => (expected, Some((landing, after))),
        };
        file.pos.set(position);
        if later.is_some() {
            self.position_is_unsure(file, true);
        }
        drop(self.later.replace(later));
        Ok(written)
    }

    /// Appends within RLIMIT_FSIZE.
    fn append_limited(&self, src: &mut dyn Src) -> Result<(usize, End)> {
        let size =
            if task::with_current(|t| t.limit(g::RLIMIT_FSIZE)) == u64::MAX { 0 } else { self.inode.attr()?.size };
        with_limit(size, src, |src| with_memory(src, |src| self.inode.append_later(src)))
    }

    /// Writes at the position, and moves it. The caller has its turn.
    fn write_at_position(&self, file: &File, src: &mut dyn Src) -> Result<usize> {
        self.know_position(file)?;
        let at = file.pos.get();
        within_largest(at, src.remaining())?;
        let written = with_limit(at, src, |src| self.write_to(at, src))?;
        file.pos.set(at + written as u64);
        Ok(written)
    }

    /// Writes at an offset; the size is within the limits.
    fn write_to(&self, at: u64, src: &mut dyn Src) -> Result<usize> {
        with_memory(src, |src| self.inode.write_at(at, src))
    }

    /// Writes at an offset, or the position, of a file that has `O_APPEND`: `RWF_NOAPPEND` of pwritev2(2).
    pub fn write_in_place(&self, file: &File, offset: Option<u64>, src: &mut dyn Src) -> Result<usize> {
        let written = match offset {
            Some(offset) => self.reporting(|| with_limit(offset, src, |src| self.write_to(offset, src)))?,
            None => {
                let _turn = file.lock_position()?;
                self.reporting(|| self.write_at_position(file, src))?
            }
        };
        self.after_write(file, written)?;
        file.happened(written, g::IN_MODIFY);
        Ok(written)
    }

    /// What a writer without CAP_FSETID takes from the mode, and O_SYNC's promise.
    fn after_write(&self, file: &File, written: usize) -> Result<()> {
        if written == 0 {
            return Ok(());
        }
        let privileged = task::with_current(|t| t.cred().cap_effective) >> cap::FSETID & 1 != 0;
        if !privileged && let Some(place) = &file.path {
            vfs::ops::drop_set_id(place, &Caller::current().cred())?;
        }
        if file.flags.get() & g::O_DSYNC != 0 {
            self.inode.sync(file.flags.get() & g::O_SYNC != g::O_SYNC)?;
            self.failed()?;
        }
        Ok(())
    }
}

/// Runs a write; where memory is short, cached files of the host make room, and it runs once more. A write that has taken
/// bytes from its source does not: the host's disk had no room for them, and the source has only the bytes behind them.
fn with_memory<R>(src: &mut dyn Src, mut write: impl FnMut(&mut dyn Src) -> Result<R>) -> Result<R> {
    let whole = src.remaining();
    match write(src) {
        Err(Errno::ENOSPC) if src.remaining() == whole && crate::mm::reclaim::shrink(1024) > 0 => write(src),
        other => other,
    }
}

/// Positions never pass the largest offset. EINVAL.
fn within_largest(at: u64, count: usize) -> Result<()> {
    if at.saturating_add(count as u64) <= FILE_MAX { Ok(()) } else { Err(Errno::EINVAL) }
}

/// Cuts a source at RLIMIT_FSIZE and the largest file. EFBIG, with SIGXFSZ for the limit.
fn with_limit<R>(at: u64, src: &mut dyn Src, f: impl FnOnce(&mut dyn Src) -> Result<R>) -> Result<R> {
    let limit = task::with_current(|t| t.limit(g::RLIMIT_FSIZE)).min(FILE_MAX);
    if src.remaining() as u64 <= limit.saturating_sub(at) {
        return f(src);
    }
    let room = room_at(at)?;
    f(&mut Limited { src, room: room as usize })
}

/// How many bytes a write at an offset may have: up to RLIMIT_FSIZE and the largest file. EFBIG if none, with SIGXFSZ for the
/// limit.
pub fn room_at(at: u64) -> Result<u64> {
    let limit = task::with_current(|t| t.limit(g::RLIMIT_FSIZE)).min(FILE_MAX);
    match limit.saturating_sub(at) {
        0 => {
            if limit < FILE_MAX {
                // SIGXFSZ is sent besides EFBIG; its delivery can't fail here.
                let _ = crate::signal::send_to_task(&task::current(), crate::signal::SigInfo::from_kernel(g::SIGXFSZ));
            }
            Err(Errno::EFBIG)
        }
        room => Ok(room),
    }
}

/// The first bytes of another source.
struct Limited<'a> {
    src: &'a mut dyn Src,
    room: usize,
}

impl Src for Limited<'_> {
    fn remaining(&self) -> usize {
        self.src.remaining().min(self.room)
    }
    fn get(&mut self, bytes: &mut [u8]) -> Result<usize> {
        let n = bytes.len().min(self.room);
        let got = self.src.get(&mut bytes[..n])?;
        self.room -= got;
        Ok(got)
    }
    fn get_frame(&mut self, frame: &hal::frame::Frame, offset: usize, len: usize) -> Result<usize> {
        let got = self.src.get_frame(frame, offset, len.min(self.room))?;
        self.room -= got;
        Ok(got)
    }
}

/// lseek(2) for a file of `size` bytes (asked for only if needed).
pub fn seek(file: &File, inode: &dyn Inode, offset: i64, whence: u32) -> Result<u64> {
    let base = match whence {
        g::SEEK_SET => 0,
        g::SEEK_CUR if offset == 0 => return Ok(file.pos.get()),
        g::SEEK_CUR => file.pos.get(),
        g::SEEK_END => inode.seek_end()?,
        g::SEEK_DATA | g::SEEK_HOLE => {
            // Where the end is not known, no offset is good.
            let Ok(from) = u64::try_from(offset) else { return Err(inode.seek_end().err().unwrap_or(Errno::ENXIO)) };
            let at = inode.seek_data(from, whence == g::SEEK_HOLE)?;
            file.pos.set(at);
            return Ok(at);
        }
        _ => return Err(Errno::EINVAL),
    };
    let at = base.checked_add_signed(offset).filter(|&at| at <= FILE_MAX).ok_or(Errno::EINVAL)?;
    file.pos.set(at);
    Ok(at)
}

impl RegularFile {
    /// preadv2(2) with `RWF_NOWAIT`; without an offset at the file's own position. EAGAIN, EOPNOTSUPP.
    pub fn read_cached(&self, file: &File, offset: Option<u64>, dst: &mut dyn Dst) -> Result<usize> {
        if let Some(offset) = offset {
            return self.inode.read_cached(offset, dst);
        }
        let _turn = file.lock_position()?;
        self.know_position(file)?;
        let n = self.inode.read_cached(file.pos.get(), dst)?;
        file.pos.set(file.pos.get() + n as u64);
        Ok(n)
    }
}

impl FileOps for RegularFile {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn abilities(&self) -> Abilities {
        let direct = if self.was_opened { Abilities::DIRECT } else { Abilities::NONE };
        let stored = Abilities::TRANSFER.with(Abilities::POSITIONS).with(direct);
        if namespaces::is_one(&*self.inode) {
            return Abilities::POSITIONS;
        }
        let Some(generated) = vfs::synth::calls(&*self.inode) else { return stored };
        let reads = if generated.has_flags { Abilities::TRANSFER } else { Abilities::READ.with(Abilities::WRITE) };
        let pwrite = if generated.has_pwrite { Abilities::PWRITE } else { Abilities::NONE };
        reads.with(Abilities::PREAD).with(pwrite)
    }

    fn read(&self, file: &File, dst: &mut dyn Dst) -> Result<usize> {
        let _turn = file.lock_position()?;
        self.know_position(file)?;
        let at = file.pos.get();
        within_largest(at, dst.remaining())?;
        let n = self.inode.read_at(at, dst)?;
        file.pos.set(at + n as u64);
        Ok(n)
    }

    fn write(&self, file: &File, src: &mut dyn Src) -> Result<usize> {
        let _turn = file.lock_position()?;
        let written = self.reporting(|| self.write_here(file, src))?;
        self.after_write(file, written)?;
        Ok(written)
    }

    fn read_at(&self, _file: &File, offset: u64, dst: &mut dyn Dst) -> Result<usize> {
        self.inode.read_at(offset, dst)
    }

    fn write_at(&self, file: &File, offset: u64, src: &mut dyn Src) -> Result<usize> {
        let written = self.reporting(|| {
            // Linux appends here too, whatever the offset.
            if file.flags.get() & g::O_APPEND != 0 {
                return self.append_limited(src).map(|(written, _)| written);
            }
            with_limit(offset, src, |src| self.write_to(offset, src))
        })?;
        self.after_write(file, written)?;
        Ok(written)
    }

    fn seek(&self, file: &File, offset: i64, whence: u32) -> Result<u64> {
        if !file.can(Abilities::READ) {
            return Err(Errno::ESPIPE);
        }
        let _turn = file.lock_position()?;
        self.know_position(file)?;
        seek(file, &*self.inode, offset, whence)
    }

    fn in_use(&self, file: &File, offset: u64, len: usize) {
        /// Calls on a description before it has a way of its own: one that is soon closed needs none.
        const FEW: u8 = 2;
        if file.unlocked.get().is_none() {
            if file.uses.get() < FEW {
                return file.uses.set(file.uses.get() + 1);
            }
            // What a call has of the position now is the description's.
            if file.pos_lock.is_held() {
                return;
            }
            let Some(shown) = self.inode.shown() else { return };
            file.give_unlocked_way(Kind::Regular(Regular::new(shown, file, self.later.borrow().is_some())));
        }
        self.inode.show(offset, len);
    }

    fn attr(&self) -> Result<Attr> {
        self.inode.attr()
    }

    fn inode(&self) -> Option<Rc<dyn Inode>> {
        Some(self.inode.clone())
    }

    fn link_name(&self) -> Vec<u8> {
        Vec::new()
    }

    fn stored(&self, file: &File) -> Result<()> {
        if !file.writable() {
            return Ok(());
        }
        self.inode.settle()?;
        self.failed()
    }
}
