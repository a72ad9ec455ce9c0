//! Program memory as debuggers and binary translators read and change it.
//!
//! They expect a program's text to be that of its file, and set breakpoints in it. So reads return the file's bytes
//! instead of patched pages ([`super::text`]), and a program whose text they change, or that they single-step, runs the
//! file's original text from then on: a trampoline must not skip a breakpoint.

use super::{Access, Mm};
use abi::layout::PAGE_SIZE;
use alloc::rc::Rc;
use hal::frame::Frame;
use hal::paging::Prot;
use vfs::Inode;

impl Mm {
    /// Whether the text is unpatched.
    pub fn shows_plain_text(&self) -> bool {
        self.inner().plain_text
    }

    /// Called when the program maps text of a file. A program without dynamic linker that maps other text itself is a
    /// translator such as valgrind: it reads that text, and can't handle trampolines.
    pub fn maps_text(&self) {
        if self.inner().freestanding {
            self.show_plain_text();
        }
    }

    /// Removes all patches from this address space, for good. Threads in a trampoline may continue there.
    pub fn show_plain_text(&self) {
        let mut inner = self.inner();
        let inner = &mut *inner;
        if core::mem::replace(&mut inner.plain_text, true) {
            return;
        }
        for vma in inner.vmas.iter() {
            let Some((text, (_, first))) = vma.attrs.patched_text().zip(vma.attrs.text_file()) else { continue };
            for va in (vma.start..vma.end).step_by(PAGE_SIZE) {
                let index = first + ((va - vma.start) / PAGE_SIZE) as u64;
                if inner.space.get(va).is_some_and(|page| text.owns(index, &page.frame)) {
                    drop(inner.space.unmap(va));
                }
            }
        }
        inner.space.flush();
    }

    /// The file and page that a patched page at `va` replaces.
    fn below_patch(&self, va: usize, frame: &Frame) -> Option<(Rc<dyn Inode>, u64)> {
        let inner = self.inner();
        let vma = inner.vmas.find(va)?;
        let (file, first) = vma.attrs.text_file()?;
        let index = first + ((va - vma.start) / PAGE_SIZE) as u64;
        vma.attrs.patched_text()?.owns(index, frame).then(|| (file.inode.clone(), index))
    }

    /// The content of a page for a reader: the file's if it is patched. May block.
    pub(super) fn unpatched(&self, va: usize, frame: Frame) -> Frame {
        let Some((inode, index)) = self.below_patch(va, &frame) else { return frame };
        let pages = inode.pages(index, 1, false).ok();
        pages.and_then(|pages| pages.into_iter().next()).unwrap_or(frame)
    }

    /// Writes memory of this space as ptrace(2) does, to private pages even without PROT_WRITE; returns the number of
    /// bytes up to the first failure. May block.
    pub fn poke_forced(&self, start: usize, bytes: &[u8]) -> usize {
        let mut done = 0;
        while let Some(rest) = bytes.get(done..).filter(|rest| !rest.is_empty()) {
            let Some(at) = start.checked_add(done) else { break };
            let part = rest.get(..PAGE_SIZE - at % PAGE_SIZE).unwrap_or(rest);
            let n = match self.own_page(at) {
                None => self.poke(at, part),
                Some(frame) => {
                    frame.write(at % PAGE_SIZE, part);
                    part.len()
                }
            };
            done += n;
            if n < part.len() {
                break;
            }
        }
        done
    }

    /// A private copy of the page at `va`, if its mapping is private and not writable.
    fn own_page(&self, va: usize) -> Option<Frame> {
        let page_address = va & !(PAGE_SIZE - 1);
        let is_text = {
            let inner = self.inner();
            let area = &inner.vmas.find(va)?.attrs;
            let special = !area.is_anonymous() && area.file().is_none();
            if !area.is_private() || area.prot.contains(Prot::WRITE) || area.prot.is_empty() || special {
                return None;
            }
            area.text_file().is_some()
        };
        if is_text {
            self.show_plain_text();
        }
        let present = || self.inner().space.get(page_address);
        let page = match present() {
            Some(page) => page,
            None => {
                self.fault(va, Access::Read).ok()?;
                present()?
            }
        };
        if super::fault::is_sole(&page) {
            return Some(page.frame);
        }
        let copy = Frame::alloc()?;
        copy.copy_from(&page.frame);
        let mut inner = self.inner();
        inner.space.map(page_address, copy.clone(), page.prot)?;
        inner.space.flush_page(page_address);
        Some(copy)
    }
}
