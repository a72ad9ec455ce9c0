//! Pages of this program's own file in place of RAM: the part of keel's image that is on small pages and only read. They are the
//! page cache's, which all pods share, and nothing is copied.
#![allow(unsafe_code)]

use super::GuestMemory;
use abi::layout::PAGE_SIZE;
use std::ffi::c_void;
use std::fs::File;
use std::os::fd::AsRawFd;

/// Where constant bytes of this program lie in its file; `None`: not in one piece of it.
fn offset_in_file(bytes: &'static [u8]) -> Option<u64> {
    let mut search = Search { start: bytes.as_ptr().addr() as u64, len: bytes.len() as u64, found: None };
    // SAFETY: `look` gets the pointer to `search`, which lives across the call and is not used meanwhile.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut search).cast()) };
    search.found
}

/// What [`look`] looks for.
struct Search {
    start: u64,
    len: u64,
    found: Option<u64>,
}

/// Looks into the first object, which is the program.
unsafe extern "C" fn look(object: *mut libc::dl_phdr_info, _size: libc::size_t, search: *mut c_void) -> libc::c_int {
    // SAFETY: the C library passes a valid description, and what `offset_in_file` gave it, which nothing else uses.
    let (object, search) = unsafe { (&*object, &mut *search.cast::<Search>()) };
    // SAFETY: the description names the program headers in memory and their number.
    let headers = unsafe { std::slice::from_raw_parts(object.dlpi_phdr, usize::from(object.dlpi_phnum)) };
    search.found = headers.iter().filter(|header| header.p_type == libc::PT_LOAD).find_map(|header| {
        let inside = search.start.checked_sub(object.dlpi_addr.wrapping_add(header.p_vaddr))?;
        let fits = inside.checked_add(search.len)? <= header.p_filesz;
        fits.then(|| header.p_offset + inside)
    });
    1
}

impl GuestMemory {
    /// Shows constant bytes of this program at `gpa`, which only the guest reads. Whether it does: otherwise nothing has changed,
    /// and they are to be copied.
    pub fn show(&self, gpa: u64, bytes: &'static [u8]) -> bool {
        let whole = [gpa, bytes.len() as u64, bytes.as_ptr().addr() as u64]
            .iter()
            .all(|at| at.is_multiple_of(PAGE_SIZE as u64));
        let is_ram = gpa.checked_add(bytes.len() as u64).is_some_and(|end| end <= self.ram_end());
        let (true, true, Some(offset)) = (whole, is_ram && !bytes.is_empty(), offset_in_file(bytes)) else {
            return false;
        };
        let Ok(file) = File::open("/proc/self/exe") else { return false };
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_FIXED);
        let host = self.ram.at(gpa).cast();
        // SAFETY: replaces pages of the reservation of RAM, which hold no Rust object, before the guest runs. The mapping is
        // private: what the guest stores there does not reach the file.
        let mapped =
            unsafe { libc::mmap(host, bytes.len(), protection, flags, file.as_raw_fd(), offset as libc::off_t) };
        if mapped == libc::MAP_FAILED {
            return false;
        }
        // SAFETY: the range that was just mapped. On failure the pages come with faults.
        unsafe { libc::madvise(host, bytes.len(), libc::MADV_POPULATE_READ) };
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_found_in_the_file() {
        static BYTES: [u8; 20] = *b"bytes that are found";
        let offset = offset_in_file(&BYTES).unwrap() as usize;
        let file = std::fs::read("/proc/self/exe").unwrap();
        assert_eq!(&file[offset..offset + BYTES.len()], &BYTES);
        let leaked = Box::leak(vec![1; 20].into_boxed_slice());
        assert_eq!(offset_in_file(leaked), None);
    }
}
