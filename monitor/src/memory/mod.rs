//! Memory of the virtual machine: RAM that grows in slots, and the window for pages of host files.
//!
//! Both are address ranges that are reserved once and made accessible piece by piece: a KVM memory slot costs host
//! memory and time in proportion to its size, so none is added before the guest needs it. There are no Rust references
//! to guest memory; see [`io::GuestSlice`].
#![allow(unsafe_code)]

pub mod io;
mod lost_pages;
mod own_file;

use crate::connectors::{Errno, Window};
use crate::error::Error;
use abi::layout::{KEEL_IMAGE, LARGE_PAGE_SIZE, PAGE_SIZE, WINDOW_BASE};
use io::GuestSlice;
use kvm_bindings::kvm_userspace_memory_region;
use kvm_ioctls::VmFd;
use rustix::fd::{AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// At boot, RAM before and after keel's image is used sparsely and stays on small host pages. The image itself is on a
/// huge page: a fault there costs as much for 2 MiB as for 4 KiB, and nearly all of it is written anyway.
pub const IMAGE_END: u64 = (KEEL_IMAGE + LARGE_PAGE_SIZE) as u64;
/// RAM grows by at least this much.
const RAM_STEP: u64 = 64 << 20;
/// The window grows by this much.
const WINDOW_STEP: u64 = 64 << 20;

/// An address range of the monitor, unmapped when dropped.
#[derive(Debug)]
struct Reservation {
    start: *mut u8,
    mapped: *mut u8,
    mapped_len: usize,
}

// SAFETY: an address range; all access goes through raw pointers and system calls.
unsafe impl Send for Reservation {}
// SAFETY: as above.
unsafe impl Sync for Reservation {}

impl Reservation {
    /// Reserves `len` bytes at a large page boundary; nothing is accessible yet.
    fn new(len: u64) -> Result<Self, Error> {
        let mapped_len = len as usize + LARGE_PAGE_SIZE;
        // SAFETY: a new private mapping at an address of the kernel's choice.
        let mapped = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                mapped_len,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if mapped == libc::MAP_FAILED {
            return Err(Error::Memory { bytes: len, source: std::io::Error::last_os_error() });
        }
        let mapped: *mut u8 = mapped.cast();
        let start = mapped.map_addr(|a| a.next_multiple_of(LARGE_PAGE_SIZE));
        Ok(Self { start, mapped, mapped_len })
    }

    /// The address of byte `offset` of the range.
    fn at(&self, offset: u64) -> *mut u8 {
        self.start.wrapping_add(offset as usize)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        // SAFETY: the whole range was mapped by `new`, and guest memory is used only while the
        // `GuestMemory` that owns it lives.
        unsafe { libc::munmap(self.mapped.cast(), self.mapped_len) };
    }
}

/// Memory of one virtual machine.
#[derive(Debug)]
pub struct GuestMemory {
    vm: Arc<VmFd>,
    ram: Reservation,
    ram_limit: u64,
    huge_from: u64,
    /// End of the populated small pages.
    small_from: AtomicU64,
    ram_end: AtomicU64,
    window: Reservation,
    window_limit: u64,
    window_end: AtomicU64,
    next_slot: AtomicU32,
    substitutes: lost_pages::Substitutes,
}

impl GuestMemory {
    /// Creates memory with `boot` bytes of RAM (a multiple of a large page), which may grow to `ram_limit`. From
    /// `huge_from` on it is on huge pages of the host, which are cheaper for a pod that uses much memory; a pod that
    /// uses little stays on the small pages below. With a `window_limit` of 0 no file is ever mapped.
    pub fn new(vm: Arc<VmFd>, boot: u64, huge_from: u64, ram_limit: u64, window_limit: u64) -> Result<Self, Error> {
        let memory = Self {
            vm,
            ram: Reservation::new(ram_limit.max(boot))?,
            ram_limit: ram_limit.max(boot),
            huge_from,
            small_from: AtomicU64::new(huge_from),
            ram_end: AtomicU64::new(0),
            // Without a window, one unused page.
            window: Reservation::new(window_limit.max(PAGE_SIZE as u64))?,
            window_limit,
            window_end: AtomicU64::new(WINDOW_BASE as u64),
            next_slot: AtomicU32::new(0),
            substitutes: lost_pages::Substitutes::new()?,
        };
        memory.add_ram(boot)?;
        Ok(memory)
    }

    /// End of RAM (guest-physical).
    pub fn ram_end(&self) -> u64 {
        self.ram_end.load(Ordering::Acquire)
    }

    /// Grows RAM by at least `wanted` bytes, or up to the limit. Returns the new end.
    pub fn grow_ram(&self, wanted: u64) -> Result<u64, Error> {
        let end = self.ram_end();
        let step = wanted.max(RAM_STEP).min(self.ram_limit - end) / LARGE_PAGE_SIZE as u64 * LARGE_PAGE_SIZE as u64;
        if step == 0 {
            return Err(Error::Memory { bytes: wanted, source: std::io::ErrorKind::OutOfMemory.into() });
        }
        self.add_ram(step)?;
        Ok(self.ram_end())
    }

    fn add_ram(&self, len: u64) -> Result<(), Error> {
        let start = self.ram_end();
        let host = self.ram.at(start);
        let fail = |source| Error::Memory { bytes: len, source };
        // SAFETY: the piece lies inside the reservation (the limit bounds it) and nothing used it yet.
        if unsafe { libc::mprotect(host.cast(), len as usize, libc::PROT_READ | libc::PROT_WRITE) } != 0 {
            return Err(fail(std::io::Error::last_os_error()));
        }
        for huge in [KEEL_IMAGE as u64..IMAGE_END, self.huge_from..u64::MAX] {
            let (from, to) = (huge.start.max(start), huge.end.min(start + len));
            if from < to {
                // SAFETY: as above. Ignore errors: huge pages only improve speed.
                unsafe { libc::madvise(self.ram.at(from).cast(), (to - from) as usize, libc::MADV_HUGEPAGE) };
            }
        }
        self.add_slot(start, host, len).map_err(fail)?;
        self.ram_end.store(start + len, Ordering::Release);
        Ok(())
    }

    /// Grows the window. Returns the new end (guest-physical).
    pub fn grow_window(&self, wanted: u64) -> Result<u64, Error> {
        let end = self.window_end.load(Ordering::Acquire);
        let left = self.window_limit - (end - WINDOW_BASE as u64);
        let step = wanted.max(WINDOW_STEP).min(left) / LARGE_PAGE_SIZE as u64 * LARGE_PAGE_SIZE as u64;
        let fail = |source| Error::Memory { bytes: wanted, source };
        if step == 0 {
            return Err(fail(std::io::ErrorKind::OutOfMemory.into()));
        }
        let host = self.window.at(end - WINDOW_BASE as u64);
        // SAFETY: inside the reservation, unused so far. Zero pages until a file is mapped there.
        if unsafe { libc::mprotect(host.cast(), step as usize, libc::PROT_READ) } != 0 {
            return Err(fail(std::io::Error::last_os_error()));
        }
        self.add_slot(end, host, step).map_err(fail)?;
        self.window_end.store(end + step, Ordering::Release);
        Ok(end + step)
    }

    fn add_slot(&self, gpa: u64, host: *mut u8, len: u64) -> std::io::Result<()> {
        let region = kvm_userspace_memory_region {
            slot: self.next_slot.fetch_add(1, Ordering::Relaxed),
            flags: 0,
            guest_phys_addr: gpa,
            memory_size: len,
            userspace_addr: host as u64,
        };
        // SAFETY: the host range is part of a reservation that lives as long as the machine, and no
        // other slot covers it.
        unsafe { self.vm.set_user_memory_region(region) }.map_err(|e| std::io::Error::from_raw_os_error(e.errno()))
    }

    /// A piece of guest memory; EFAULT unless it lies wholly in RAM or in the window.
    pub fn slice(&self, gpa: u64, len: u64) -> Result<GuestSlice, Errno> {
        let end = gpa.checked_add(len).ok_or(Errno::FAULT)?;
        if end <= self.ram_end() {
            // SAFETY: the range is inside RAM that was opened and stays so; no reference points there.
            return Ok(unsafe { GuestSlice::ram(self.ram.at(gpa), len as usize) });
        }
        if gpa >= WINDOW_BASE as u64 && end <= self.window_end.load(Ordering::Acquire) {
            // SAFETY: the range is inside the window's reservation.
            return Ok(unsafe { GuestSlice::window(self.window.at(gpa - WINDOW_BASE as u64), len as usize) });
        }
        Err(Errno::FAULT)
    }

    /// Populates RAM before the guest touches it: one call for many pages is cheaper than their faults.
    pub fn populate(&self, gpa: u64, len: u64) {
        self.small_from.store(gpa.saturating_add(len), Ordering::Relaxed);
        self.take(gpa, len);
    }

    /// The same for a part of keel's image.
    pub fn populate_image(&self, start: u64, end: u64) {
        self.take(start, end.saturating_sub(start));
    }

    fn take(&self, gpa: u64, len: u64) {
        if gpa.checked_add(len).is_some_and(|end| end <= self.ram_end()) {
            // SAFETY: inside RAM; the content does not change. On failure the pages are populated by faults.
            unsafe { libc::madvise(self.ram.at(gpa).cast(), len as usize, libc::MADV_POPULATE_WRITE) };
        }
    }

    /// Populates the rest of the RAM on small pages: the guest is about to use it.
    pub fn warm(&self) {
        let from = self.small_from.load(Ordering::Relaxed);
        self.populate(from, self.huge_from.saturating_sub(from));
    }

    /// Populates the 2 MiB of RAM at `gpa` ahead of the guest; false if they are not on a huge page, or do not exist
    /// yet.
    pub fn take_large(&self, gpa: u64) -> bool {
        let large = LARGE_PAGE_SIZE as u64;
        let exists = gpa.checked_add(large).is_some_and(|end| end <= self.ram_end());
        if !exists || gpa < self.huge_from || !gpa.is_multiple_of(large) {
            return false;
        }
        self.take(gpa, large);
        true
    }

    /// Start of the RAM on huge pages.
    pub fn huge_from(&self) -> u64 {
        self.huge_from
    }

    /// Copies bytes into RAM before the guest runs.
    pub fn write(&self, gpa: u64, bytes: &[u8]) -> Result<(), Error> {
        let slice = self.slice(gpa, bytes.len() as u64);
        slice.and_then(|s| s.write(bytes)).map_err(|_| Error::Internal("the boot memory is too small"))
    }

    /// Returns RAM to the host; it reads as zeros afterwards.
    pub fn release(&self, gpa: u64, len: u64) -> Result<(), Errno> {
        let end = gpa.checked_add(len).ok_or(Errno::INVAL)?;
        if !gpa.is_multiple_of(PAGE_SIZE as u64) || !len.is_multiple_of(PAGE_SIZE as u64) || end > self.ram_end() {
            return Err(Errno::INVAL);
        }
        // SAFETY: inside RAM; the guest named the range itself.
        unsafe { libc::madvise(self.ram.at(gpa).cast(), len as usize, libc::MADV_DONTNEED) };
        Ok(())
    }

    /// Pointer to the ring, which RAM holds from the start.
    pub(crate) fn ring(&self) -> *const abi::ring::Ring {
        self.ram.at(abi::layout::RING as u64).cast()
    }

    fn window_range(&self, gpa: u64, len: u64) -> Result<*mut u8, Errno> {
        let end = gpa.checked_add(len).ok_or(Errno::INVAL)?;
        let inside = gpa >= WINDOW_BASE as u64 && end <= self.window_end.load(Ordering::Acquire);
        if !inside || len == 0 || !gpa.is_multiple_of(PAGE_SIZE as u64) || !len.is_multiple_of(PAGE_SIZE as u64) {
            return Err(Errno::INVAL);
        }
        Ok(self.window.at(gpa - WINDOW_BASE as u64))
    }
}

impl Window for GuestMemory {
    fn map(&self, gpa: u64, file: BorrowedFd<'_>, offset: u64, len: u64, writable: bool) -> Result<(), Errno> {
        let host = self.window_range(gpa, len)?;
        let prot = if writable { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
        let offset = libc::off_t::try_from(offset).map_err(|_| Errno::INVAL)?;
        // SAFETY: replaces pages of the window's own reservation, which hold no Rust object.
        let mapped = unsafe {
            libc::mmap(host.cast(), len as usize, prot, libc::MAP_SHARED | libc::MAP_FIXED, file.as_raw_fd(), offset)
        };
        if mapped == libc::MAP_FAILED { Err(last_errno()) } else { Ok(()) }
    }

    fn populate(&self, gpa: u64, len: u64, write: bool) -> Result<(), Errno> {
        let host = self.window_range(gpa, len)?;
        let advice = if write { libc::MADV_POPULATE_WRITE } else { libc::MADV_POPULATE_READ };
        // SAFETY: the range lies in the window's reservation; populating pages changes no content.
        let result = unsafe { libc::madvise(host.cast(), len as usize, advice) };
        if result == 0 { Ok(()) } else { Err(last_errno()) }
    }

    fn unmap(&self, gpa: u64, len: u64) -> Result<(), Errno> {
        let host = self.window_range(gpa, len)?;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
        // SAFETY: as in `map`.
        let mapped = unsafe { libc::mmap(host.cast(), len as usize, libc::PROT_READ, flags, -1, 0) };
        if mapped == libc::MAP_FAILED { Err(last_errno()) } else { Ok(()) }
    }
}

/// Drops constant bytes of this program from its resident memory; a later access reads them from the file again.
pub fn forget(bytes: &'static [u8]) {
    let start = bytes.as_ptr().map_addr(|a| a.next_multiple_of(PAGE_SIZE));
    let len = bytes.as_ptr_range().end.addr().saturating_sub(start.addr()) / PAGE_SIZE * PAGE_SIZE;
    // SAFETY: whole pages of a constant, which the loader mapped read-only from the program's file; later accesses read
    // them from there.
    unsafe { libc::madvise(start.cast_mut().cast(), len, libc::MADV_DONTNEED) };
}

fn last_errno() -> Errno {
    Errno::from_raw_os_error(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
}
