//! The vDSO: code that programs call instead of a system call, and its data page, vdso(7).

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
use hal::percpu::CPU_INDEX_OFFSET;
use keel_vdso::{Vvar, vvar};
use sched::timer::SECOND;

/// The vDSO as an ELF shared object linked to address 0. Its code expects the data page right below its first page.
pub static IMAGE: &[u8] = keel_vdso::IMAGE;

/// The pages of the vDSO and of its data, created once.
static PAGES: Global<RefCell<Option<Pages>>> = Global::new(RefCell::new(None));

#[derive(Clone)]
struct Pages {
    data: Rc<Special>,
    code: Rc<Special>,
}

fn write_clocks(frame: &Frame) {
    let clock = hal::clock::calibration();
    let mut bases = [vvar::Base::default(); vvar::CLOCK_LIMIT];
    let base = |ns| vvar::Base { seconds: ns / SECOND, ns: ns % SECOND };
    // keel has no information about leap seconds: TAI equals real time, as on a Linux without a time daemon.
    for real in [vvar::REALTIME, vvar::REALTIME_COARSE, vvar::TAI] {
        bases[real] = base(clock.realtime_ns);
    }
    for monotonic in [vvar::MONOTONIC, vvar::MONOTONIC_RAW, vvar::MONOTONIC_COARSE] {
        bases[monotonic] = base(clock.monotonic_ns);
    }
    bases[vvar::BOOTTIME] = base(clock.boottime_ns);
    // A counter of exactly 1 GHz reads slightly slow: 1 ns in 500 years.
    let mult = u64::try_from(clock.rate).unwrap_or(u64::MAX);
    let mut before = [0; 4];
    frame.read(0, &mut before);
    // Odd during the update, so that readers on other virtual CPUs retry.
    let sequence = u32::from_ne_bytes(before) | 1;
    let numbers = Vvar { sequence, cpu_at: CPU_INDEX_OFFSET, tsc_base: clock.tsc_base, mult, bases }.to_bytes();
    frame.write(0, &numbers[..4]);
    frame.write(4, &numbers[4..]);
    frame.write(0, &sequence.wrapping_add(1).to_ne_bytes());
}

/// Updates the data page after [`hal::clock::renew`].
pub fn renew_clocks() {
    let pages = PAGES.borrow();
    if let Some(data) = pages.as_ref().and_then(|pages| pages.data.pages.first()) {
        write_clocks(data);
    }
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
    let data = Frame::alloc_zeroed()?;
    write_clocks(&data);
    let data = Special { name: "[vvar]", pages: [data].into() };
    let pages = Pages { data: Rc::new(data), code: Rc::new(Special { name: "[vdso]", pages: code }) };
    *PAGES.borrow_mut() = Some(pages.clone());
    Some(pages)
}

impl Inner {
    /// Maps the data page and the vDSO of a new program; returns the vDSO's address, or 0.
    pub(super) fn map_vdso(&mut self) -> usize {
        // The data page does not support counters that are slower than the clock.
        if IMAGE.is_empty() || hal::clock::calibration().rate > 1 << 64 {
            return 0;
        }
        let Some(pages) = pages() else { return 0 };
        let code_len = pages.code.pages.len() * PAGE_SIZE;
        let Some(data) = self.vmas.find_free(PAGE_SIZE + code_len, USER_MIN, self.mmap_base, 0) else { return 0 };
        let code = data + PAGE_SIZE;
        for (start, prot, special) in [(data, Prot::READ, &pages.data), (code, Prot::READ | Prot::EXEC, &pages.code)] {
            let backing = Backing::Special(special.clone(), 0);
            let end = start + special.pages.len() * PAGE_SIZE;
            self.vmas.insert(start, end, Area { flags: AreaFlags::SPECIAL, backing, ..Area::anonymous(prot) });
            for (i, frame) in special.pages.iter().enumerate() {
                if self.space.map(start + i * PAGE_SIZE, frame.clone(), prot).is_none() {
                    break;
                }
            }
        }
        code
    }
}
