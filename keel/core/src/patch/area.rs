//! Room for trampolines below a mapping.

use alloc::vec::Vec;

/// Granularity of the room in bytes.
const GRAIN: u64 = 8;
/// Grains of a page: no trampoline crosses one.
const PAGE_GRAINS: usize = (super::PAGE / GRAIN) as usize;

/// Bitmap of the used bytes of a trampoline area.
#[derive(Clone, Debug)]
pub struct Area {
    base: u64,
    taken: Vec<bool>,
    /// All grains below this one are used.
    low: usize,
}

impl Area {
    /// An empty area of `len` bytes (whole pages) at `base` (page aligned). `None`: out of memory.
    pub fn new(base: u64, len: usize) -> Option<Self> {
        let mut taken = Vec::new();
        taken.try_reserve_exact(len / GRAIN as usize).ok()?;
        taken.resize(len / GRAIN as usize, false);
        Some(Self { base, taken, low: 0 })
    }

    /// Address of the first byte.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// Allocates `len` bytes within one page at the lowest free address for which `fits` returns true.
    pub(super) fn take(&mut self, len: usize, mut fits: impl FnMut(u64) -> bool) -> Option<u64> {
        let need = len.div_ceil(GRAIN as usize);
        let mut start = self.low;
        while start + need <= self.taken.len() {
            if start % PAGE_GRAINS + need > PAGE_GRAINS {
                start = (start / PAGE_GRAINS + 1) * PAGE_GRAINS;
                continue;
            }
            let address = self.base + start as u64 * GRAIN;
            if !self.taken[start] && fits(address) {
                match self.taken[start..start + need].iter().rposition(|&t| t) {
                    None => {
                        self.taken[start..start + need].fill(true);
                        self.raise_low();
                        return Some(address);
                    }
                    Some(last) => start += last,
                }
            }
            start += 1;
        }
        None
    }

    /// Frees an allocation of [`Area::take`].
    pub(super) fn give_back(&mut self, address: u64, len: usize) {
        let start = ((address - self.base) / GRAIN) as usize;
        self.taken[start..start + len.div_ceil(GRAIN as usize)].fill(false);
        self.low = self.low.min(start);
    }

    fn raise_low(&mut self) {
        while self.taken.get(self.low) == Some(&true) {
            self.low += 1;
        }
    }
}
