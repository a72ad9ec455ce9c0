//! Regular files: pages in memory, or the host's content until the first write.

use super::{Body, F_SEAL_FUTURE_WRITE, F_SEAL_GROW, F_SEAL_SHRINK, F_SEAL_WRITE, Node, OWN_ATTR, OWN_DATA};
use crate::io::read_parts;
use crate::pagemap::PageMap;
use crate::shown::State;
use crate::{Dst, FILE_MAX, Inode, Src};
use alloc::vec::Vec;
use core::cell::RefCell;
use hal::frame::{FRAME_SIZE, Frame};
use uapi::{Errno, Result};

const PAGE: u64 = FRAME_SIZE as u64;

/// fallocate(2): the size stays.
pub const FALLOC_KEEP_SIZE: u32 = 1;
/// fallocate(2): a hole is made.
pub const FALLOC_PUNCH_HOLE: u32 = 2;
/// fallocate(2): zeros are written.
pub const FALLOC_ZERO_RANGE: u32 = 0x10;

/// Private content.
#[derive(Default)]
pub(super) struct Pages(RefCell<PageMap>);

impl Pages {
    pub(super) fn len(&self) -> usize {
        self.0.borrow().len()
    }

    fn get(&self, index: u64) -> Option<Frame> {
        self.0.borrow().get(index).cloned()
    }
}

impl Node {
    fn data(&self) -> Result<&Pages> {
        match &self.body {
            Body::File(pages) => Ok(pages),
            Body::Directory(_) => Err(Errno::EISDIR),
            _ => Err(Errno::EINVAL),
        }
    }

    /// Takes a private copy of the content, to change it. `discard`: an empty one will do.
    pub(super) fn own_data(&self, discard: bool) -> Result<()> {
        if self.owns(OWN_DATA) {
            return Ok(());
        }
        self.own_attr()?;
        let Some(lower) = &self.lower else { return Ok(()) };
        let size = if discard { 0 } else { lower.fresh_attr()?.size };
        let copy = if discard { PageMap::new() } else { lower.copy_up(size)? };
        // Another thread may have done the same while this one waited.
        if self.owns(OWN_DATA) {
            return Ok(());
        }
        self.fs.reserve(copy.len())?;
        self.data()?.0.replace(copy);
        self.update(|a| a.size = size);
        self.own.set(self.own.get() | OWN_ATTR | OWN_DATA);
        lower.drop_content();
        Ok(())
    }

    pub(super) fn read_data(&self, offset: u64, dst: &mut dyn Dst) -> Result<usize> {
        let pages = self.data()?;
        if let Some(lower) = self.lower_data() {
            return lower.read_content(offset, dst);
        }
        let size = self.attr.get().size;
        let done = read_parts(offset, size, dst, |part, dst| match pages.get(part.page) {
            Some(frame) => dst.put_frame(&frame, part.in_page, part.len),
            None => dst.put_zeros(part.len),
        })?;
        self.touch_atime();
        Ok(done)
    }

    /// The private page at `index`, made if there is none. ENOSPC.
    fn page_for_write(&self, index: u64) -> Result<Frame> {
        let pages = self.data()?;
        if let Some(frame) = pages.get(index) {
            return Ok(frame);
        }
        self.fs.reserve(1)?;
        let Some(frame) = Frame::alloc_zeroed() else {
            self.fs.release(1);
            return Err(Errno::ENOSPC);
        };
        self.withdraw();
        pages.0.borrow_mut().insert(index, frame.clone());
        Ok(frame)
    }

    pub(super) fn write_data(&self, offset: u64, src: &mut dyn Src) -> Result<usize> {
        let pages = self.data()?;
        if src.remaining() == 0 {
            return Ok(0);
        }
        if offset >= FILE_MAX {
            return Err(Errno::EFBIG);
        }
        let seals = self.seals.get();
        if seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE) != 0 {
            return Err(Errno::EPERM);
        }
        self.own_data(false)?;
        self.forget_capability();
        // What would pass the end is refused for its whole page, as in Linux.
        let size = self.attr.get().size;
        let grows = offset.saturating_add(src.remaining() as u64) > size;
        let limit = if seals & F_SEAL_GROW != 0 && grows { size - size % PAGE } else { FILE_MAX };
        if offset >= limit {
            return Err(Errno::EPERM);
        }
        let (mut at, mut done) = (offset, 0);
        let mut failed = None;
        while src.remaining() > 0 && at < limit {
            let in_page = (at % PAGE) as usize;
            let n = (FRAME_SIZE - in_page).min(src.remaining()).min((limit - at) as usize);
            let was_there = pages.0.borrow().get(at / PAGE).is_some();
            let stored = self.page_for_write(at / PAGE).and_then(|frame| src.get_frame(&frame, in_page, n));
            match stored {
                Ok(k) => {
                    at += k as u64;
                    done += k;
                    if at > self.attr.get().size {
                        self.update(|a| a.size = at);
                    }
                    if k < n {
                        break;
                    }
                }
                Err(errno) => {
                    // A page made in vain beyond the end would show old data if the file grows.
                    if !was_there && at - at % PAGE >= self.attr.get().size {
                        self.drop_pages(at / PAGE, at / PAGE + 1)?;
                    }
                    failed = Some(errno);
                    break;
                }
            }
        }
        match failed {
            Some(errno) if done == 0 => Err(errno),
            _ => {
                self.touch_mtime();
                Ok(done)
            }
        }
    }

    fn drop_pages(&self, first: u64, end: u64) -> Result<()> {
        self.withdraw();
        let mut gone = 0;
        self.data()?.0.borrow_mut().remove_range(first, end, |frame| {
            drop(frame);
            gone += 1;
        });
        self.fs.release(gone);
        Ok(())
    }

    pub(super) fn map_pages(&self, first: u64, count: usize, write: bool) -> Result<Vec<Frame>> {
        let pages = self.data().map_err(|_| Errno::ENODEV)?;
        if write {
            // Mappings that were there before F_SEAL_FUTURE_WRITE may write on.
            if self.seals.get() & F_SEAL_WRITE != 0 {
                return Err(Errno::EPERM);
            }
            self.own_data(false)?;
        }
        if let Some(lower) = self.lower_data() {
            return lower.content_pages(first, count);
        }
        let total = self.attr.get().size.div_ceil(PAGE);
        if first >= total {
            return Err(Errno::ENXIO);
        }
        let frame = self.page_for_write(first).map_err(|_| Errno::ENOMEM)?;
        let map = pages.0.borrow();
        let end = first.saturating_add(count as u64).min(total);
        let following = (first + 1..end).map_while(|index| map.get(index).cloned());
        let frames = crate::memory::list(core::iter::once(frame).chain(following))?;
        drop(map);
        if write {
            self.touch_mtime();
        }
        Ok(frames)
    }

    /// Zeroes `[start, end)`, which lies in one page, if that page exists.
    fn zero_part(&self, start: u64, end: u64) -> Result<()> {
        if start < end
            && let Some(frame) = self.data()?.get(start / PAGE)
        {
            frame.zero((start % PAGE) as usize, (end - start) as usize);
        }
        Ok(())
    }

    pub(super) fn truncate_data(&self, size: u64) -> Result<()> {
        self.data()?;
        if size > FILE_MAX {
            return Err(Errno::EFBIG);
        }
        self.own_data(size == 0)?;
        self.forget_capability();
        let old = self.attr.get().size;
        let seals = self.seals.get();
        if size < old && seals & F_SEAL_SHRINK != 0 || size > old && seals & F_SEAL_GROW != 0 {
            return Err(Errno::EPERM);
        }
        if size < old {
            self.update(|a| a.size = size);
            self.drop_pages(size.div_ceil(PAGE), u64::MAX)?;
            self.zero_part(size, size.next_multiple_of(PAGE))?;
        }
        self.update(|a| a.size = size);
        self.touch_mtime();
        Ok(())
    }

    pub(super) fn allocate(&self, mode: u32, offset: u64, len: u64) -> Result<()> {
        self.data().map_err(|_| Errno::ENODEV)?;
        let punch = FALLOC_KEEP_SIZE | FALLOC_PUNCH_HOLE;
        // A tmpfs zeroes no ranges.
        let zeroes = self.fs.is_overlay && mode & !FALLOC_KEEP_SIZE == FALLOC_ZERO_RANGE;
        if mode & !FALLOC_KEEP_SIZE != 0 && !zeroes && mode != punch {
            return Err(Errno::EOPNOTSUPP);
        }
        let end = offset.checked_add(len).filter(|&e| e <= FILE_MAX).ok_or(Errno::EFBIG)?;
        self.own_data(false)?;
        self.forget_capability();
        let seals = self.seals.get();
        let size = self.attr.get().size;
        let grows = mode & FALLOC_KEEP_SIZE == 0 && end > size;
        let reserves = mode & FALLOC_PUNCH_HOLE == 0 && end > size;
        let clears = mode & (FALLOC_PUNCH_HOLE | FALLOC_ZERO_RANGE) != 0;
        if clears && seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE) != 0 || reserves && seals & F_SEAL_GROW != 0 {
            return Err(Errno::EPERM);
        }
        if clears {
            let (first, last) = (offset.div_ceil(PAGE), end / PAGE);
            if first <= last {
                self.zero_part(offset, first * PAGE)?;
                self.drop_pages(first, last)?;
                self.zero_part(last * PAGE, end)?;
            } else {
                self.zero_part(offset, end)?;
            }
        }
        if mode & FALLOC_PUNCH_HOLE == 0 {
            // What cannot be had is known before the first page is taken.
            let pages = end.div_ceil(PAGE) - offset / PAGE;
            let room = self.fs.space.free();
            if pages > room as u64 + self.data()?.len() as u64 {
                return Err(Errno::ENOSPC);
            }
            for index in offset / PAGE..end.div_ceil(PAGE) {
                self.page_for_write(index)?;
            }
            if grows {
                self.update(|a| a.size = end);
            }
        }
        self.touch_mtime();
        Ok(())
    }

    /// See [`Inode::show`].
    pub(super) fn show_file(&self, offset: u64, len: usize) {
        let (Some(shown), Body::File(pages)) = (self.shown.get(), &self.body) else { return };
        if let Some(lower) = self.lower_data() {
            let Some(mut state) = lower.known_state() else { return };
            if self.owns(OWN_ATTR) {
                let below = state.attr;
                state.attr = self.attr.get();
                (state.attr.size, state.attr.blocks) = (below.size, below.blocks);
            }
            return lower.show_content(shown, &state, offset, len);
        }
        let pages = pages.0.borrow();
        let attr = crate::Attr { blocks: pages.len() as u64 * 8, ..self.attr.get() };
        let state = State { attr, expires: u64::MAX, is_settled: self.has_settled_atime(), has_holes: true };
        let (first, end) = (offset / PAGE, offset.saturating_add(len as u64).div_ceil(PAGE));
        shown.show(&state, first, end - first, |index| pages.get(index).cloned());
    }

    pub(super) fn seek_pages(&self, offset: u64, hole: bool) -> Result<u64> {
        let pages = self.data()?;
        let size = self.attr()?.size;
        if offset >= size {
            return Err(Errno::ENXIO);
        }
        if let Some(lower) = self.lower_data() {
            return lower.seek_content(offset, hole);
        }
        let map = pages.0.borrow();
        if hole {
            let mut index = offset / PAGE;
            while map.get(index).is_some() {
                index += 1;
            }
            return Ok((index * PAGE).clamp(offset, size));
        }
        match map.next_present(offset / PAGE) {
            Some(index) if index * PAGE < size => Ok((index * PAGE).max(offset)),
            _ => Err(Errno::ENXIO),
        }
    }
}
