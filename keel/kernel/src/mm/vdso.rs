//! The vDSO: code that programs call instead of a system call, and its data page.

use super::Inner;
use super::area::{Area, AreaFlags, Backing};
use super::special::Special;
use abi::layout::{PAGE_SIZE, USER_MIN};
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::RefCell;
use hal::cell::Global;
use hal::frame::Frame;
use hal::paging::Prot;

/// The vDSO as an ELF shared object linked to address 0; empty: there is none. Its code finds the data
/// page right below its first page.
pub static IMAGE: &[u8] = &[];

/// The pages of the vDSO and of its data, made once.
static PAGES: Global<RefCell<Option<Pages>>> = Global::new(RefCell::new(None));

#[derive(Clone)]
struct Pages {
    data: Rc<Special>,
    code: Rc<Special>,
}

/// The page that the vDSO's code reads; keel writes it. `None` when memory is used up.
pub fn data_page() -> Option<Frame> {
    pages()?.data.pages.first().cloned()
}

fn pages() -> Option<Pages> {
    if let Some(pages) = PAGES.borrow().as_ref() {
        return Some(pages.clone());
    }
    let mut code = Vec::new();
    for part in IMAGE.chunks(PAGE_SIZE) {
        let frame = Frame::alloc_zeroed()?;
        frame.write(0, part);
        code.push(frame);
    }
    let data = Special { name: "[vvar]", pages: [Frame::alloc_zeroed()?].into() };
    let pages = Pages { data: Rc::new(data), code: Rc::new(Special { name: "[vdso]", pages: code }) };
    *PAGES.borrow_mut() = Some(pages.clone());
    Some(pages)
}

impl Inner {
    /// Maps data page and vDSO of a new program: the vDSO's address, 0 if there is none.
    pub(super) fn map_vdso(&mut self) -> usize {
        if IMAGE.is_empty() {
            return 0;
        }
        let Some(pages) = pages() else { return 0 };
        let code_len = pages.code.pages.len() * PAGE_SIZE;
        let Some(data) = self.vmas.find_free(PAGE_SIZE + code_len, USER_MIN, self.mmap_base, 0) else { return 0 };
        let code = data + PAGE_SIZE;
        for (start, prot, special) in [(data, Prot::READ, &pages.data), (code, Prot::READ | Prot::EXEC, &pages.code)] {
            let backing = Backing::Special(special.clone(), 0);
            let end = start + special.pages.len() * PAGE_SIZE;
            self.vmas.insert(start, end, Area { prot, flags: AreaFlags::SPECIAL, backing });
            for (i, frame) in special.pages.iter().enumerate() {
                if self.space.map(start + i * PAGE_SIZE, frame.clone(), prot).is_none() {
                    break;
                }
            }
        }
        code
    }
}
