//! Pages of the window that the host can't provide: the file was truncated or can't be read, or a store has no room on
//! its disk.
#![allow(unsafe_code)]

use super::GuestMemory;
use crate::error::Error;
use abi::layout::{LARGE_PAGE_SIZE, PAGE_SIZE, WINDOW_BASE};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::MemfdFlags;
use std::sync::atomic::{AtomicU64, Ordering};

const PAGE: u64 = PAGE_SIZE as u64;
/// Number of copies of pages that can be read but not stored to; the oldest is reused.
const COPIES: u64 = 16;

/// Memory that replaces lost pages: the same few pages everywhere, so that a guest gains no memory.
#[derive(Debug)]
pub(super) struct Substitutes {
    /// Page 0 replaces all unreadable pages, the others are copies.
    fd: OwnedFd,
    next: AtomicU64,
}

impl Substitutes {
    pub(super) fn new() -> Result<Self, Error> {
        let fail = |errno: rustix::io::Errno| Error::Memory { bytes: PAGE, source: errno.into() };
        let fd = rustix::fs::memfd_create("lost pages", MemfdFlags::CLOEXEC).map_err(fail)?;
        rustix::fs::ftruncate(&fd, (1 + COPIES) * PAGE).map_err(fail)?;
        Ok(Self { fd, next: AtomicU64::new(0) })
    }
}

/// Operation that the host can't do on a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lost {
    /// Read it.
    Content,
    /// Store to it; it can be read.
    Room,
}

impl GuestMemory {
    /// Replaces pages of the window that the host can't provide by memory of the monitor, so that the virtual CPU can
    /// continue. `at` is the faulting guest-physical address, if known; otherwise searches first for pages that can't
    /// be read, then for pages that can't be stored to. Returns the number of replaced pages.
    pub fn replace_lost_pages(&self, at: Option<u64>) -> usize {
        let end = self.window_end.load(Ordering::Acquire) - WINDOW_BASE as u64;
        if let Some(at) = at {
            let page = at.checked_sub(WINDOW_BASE as u64).map(|at| at / PAGE * PAGE);
            return page.filter(|at| *at < end).map_or(0, |at| self.replace_if_lost(at));
        }
        let pieces = || (0..end).step_by(LARGE_PAGE_SIZE);
        let pages = |piece: u64| (piece..piece + LARGE_PAGE_SIZE as u64).step_by(PAGE_SIZE);
        let unreadable = pieces().filter(|piece| !self.provides(*piece, LARGE_PAGE_SIZE, libc::MADV_POPULATE_READ));
        let lost: usize = unreadable.flat_map(pages).map(|at| self.replace_if_unreadable(at)).sum();
        // Populating for stores allocates disk blocks for holes, so try it only if nothing else explains the fault.
        if lost > 0 { lost } else { pieces().flat_map(pages).map(|at| self.replace_if_lost(at)).sum() }
    }

    /// Whether the host can populate the window pages at `at` for an access; also true if the mapping forbids that
    /// access.
    fn provides(&self, at: u64, len: usize, advice: libc::c_int) -> bool {
        // SAFETY: the range lies in the window's reservation; populating pages changes no content.
        let result = unsafe { libc::madvise(self.window.at(at).cast(), len, advice) };
        result == 0 || std::io::Error::last_os_error().raw_os_error() != Some(libc::EFAULT)
    }

    fn replace_if_lost(&self, at: u64) -> usize {
        let unreadable = self.replace_if_unreadable(at);
        if unreadable > 0 || self.provides(at, PAGE_SIZE, libc::MADV_POPULATE_WRITE) {
            return unreadable;
        }
        usize::from(self.replace(at, Lost::Room))
    }

    fn replace_if_unreadable(&self, at: u64) -> usize {
        if self.provides(at, PAGE_SIZE, libc::MADV_POPULATE_READ) {
            return 0;
        }
        usize::from(self.replace(at, Lost::Content))
    }

    fn replace(&self, at: u64, lost: Lost) -> bool {
        let fd = self.substitutes.fd.as_raw_fd();
        let offset = match lost {
            Lost::Content => 0,
            // Another virtual CPU may read it before keel has unmapped it.
            Lost::Room => {
                let next = 1 + self.substitutes.next.fetch_add(1, Ordering::Relaxed) % COPIES;
                let offset = (next * PAGE) as libc::off_t;
                // SAFETY: the kernel copies from the window's reservation; it returns EFAULT if there is no page.
                unsafe { libc::pwrite(fd, self.window.at(at).cast(), PAGE_SIZE, offset) };
                offset
            }
        };
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_FIXED;
        // SAFETY: replaces a page of the window's own reservation, which holds no Rust object.
        let mapped = unsafe { libc::mmap(self.window.at(at).cast(), PAGE_SIZE, prot, flags, fd, offset) };
        mapped != libc::MAP_FAILED
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connectors::Window;
    use std::os::fd::AsFd;
    use std::sync::Arc;

    /// The places of lost pages share a few pages of memory, even after stores.
    #[test]
    fn lost_pages_are_no_memory() {
        const LEN: u64 = 8 << 20;
        let large = LARGE_PAGE_SIZE as u64;
        let vm = Arc::new(crate::kvm::open().unwrap().create_vm().unwrap());
        let memory = GuestMemory::new(vm, large, u64::MAX, large, 64 << 20).unwrap();
        memory.grow_window(LEN).unwrap();
        let file = tempfile::tempfile().unwrap();
        file.set_len(LEN).unwrap();
        let gpa = WINDOW_BASE as u64;
        memory.map(gpa, file.as_fd(), 0, LEN, true).unwrap();
        assert_eq!(memory.replace_lost_pages(None), 0);
        Window::populate(&memory, gpa, PAGE, true).unwrap();
        file.set_len(PAGE).unwrap();
        Window::populate(&memory, gpa, PAGE, true).unwrap();
        assert_eq!(Window::populate(&memory, gpa + PAGE, PAGE, false), Err(rustix::io::Errno::FAULT));
        assert_eq!(memory.replace_lost_pages(Some(gpa + PAGE + 5)), 1);
        assert_eq!(memory.replace_lost_pages(Some(gpa + PAGE)), 0);
        assert_eq!(memory.replace_lost_pages(Some(gpa - 1)), 0);
        assert_eq!(memory.replace_lost_pages(None) as u64, LEN / PAGE - 2);
        for at in (PAGE..LEN).step_by(PAGE_SIZE) {
            // SAFETY: a mapped page of the window that nothing else uses.
            unsafe { memory.window.at(at).write_volatile(1) };
        }
        let used = rustix::fs::fstat(&memory.substitutes.fd).unwrap().st_blocks as u64 * 512;
        assert!(used <= (1 + COPIES) * PAGE, "{used}");
        let (from, to) = (memory.window.at(0).addr(), memory.window.at(LEN).addr());
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let range = |line: &str| {
            let (start, end) = line.split(' ').next()?.split_once('-')?;
            Some((usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?))
        };
        let inside = maps.lines().filter(|line| range(line).is_some_and(|(start, end)| start < to && end > from));
        // The mapping contains no anonymous memory.
        assert!(inside.clone().count() > 1 && inside.clone().all(|line| line.contains('/')), "{maps}");
    }
}
