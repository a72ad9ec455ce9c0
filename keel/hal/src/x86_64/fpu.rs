//! Extended register state: x87, MXCSR, vectors.
//!
//! Keel uses only the low halves of xmm0 to xmm15, which the gate saves in the trap frame. The rest stays live in the
//! CPU while keel runs and is saved here at a context switch.
#![allow(unsafe_code)]

use crate::buddy::{give_block, take_block};
use crate::cell::Global;
use crate::direct_map;
use crate::trap::TrapFrame;
use abi::layout::PAGE_SIZE;
use alloc::vec::Vec;
use core::arch::x86_64::{__cpuid_count, _xrstor64, _xsave64};
use core::cell::Cell;

static SIZE: Global<Cell<usize>> = Global::new(Cell::new(576));
static MASK: Global<Cell<u64>> = Global::new(Cell::new(3));

/// Offsets in the legacy region of an XSAVE image (SDM volume 1, 13.4).
const MXCSR: usize = 24;
const MXCSR_MASK: usize = 28;
const XMM: usize = 160;
const XSTATE_BV: usize = 512;
const HEADER_END: usize = 576;

/// Reads the size of the enabled components (boot).
pub(crate) fn init(xcr0: u64) {
    MASK.set(xcr0);
    // Leaf 0xd, subleaf 0: ebx is the size for the current XCR0.
    let leaf = __cpuid_count(0xd, 0);
    SIZE.set((leaf.ebx as usize).clamp(HEADER_END, PAGE_SIZE * 4));
}

/// Bytes of a full XSAVE image for the enabled components (without the magic trailer).
pub fn xsave_size() -> usize {
    SIZE.get()
}

/// The enabled components (XCR0).
pub fn xsave_mask() -> u64 {
    MASK.get()
}

/// A page-aligned XSAVE image.
#[derive(Debug)]
pub(crate) struct SavedState {
    address: usize,
    order: usize,
}

impl SavedState {
    /// The state of a new program; `None` if out of memory.
    pub fn new() -> Option<Self> {
        let order = xsave_size().div_ceil(PAGE_SIZE).next_power_of_two().trailing_zeros() as usize;
        let mut area = Self { address: direct_map::address(take_block(order)?), order };
        area.reset();
        Some(area)
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the area owns these frames, at least `xsave_size` bytes.
        unsafe { core::slice::from_raw_parts_mut(self.address as *mut u8, xsave_size()) }
    }

    /// Default state: all components initial, MXCSR 0x1f80, x87 control word 0x37f.
    pub fn reset(&mut self) {
        let bytes = self.bytes();
        bytes.fill(0);
        bytes[0..2].copy_from_slice(&0x37fu16.to_le_bytes());
        bytes[MXCSR..MXCSR + 4].copy_from_slice(&0x1f80u32.to_le_bytes());
    }

    /// Saves the CPU's state.
    pub fn save(&mut self) {
        // SAFETY: the area is 64-byte aligned and large enough for the enabled components.
        unsafe { _xsave64(self.address as *mut u8, u64::MAX) }
    }

    /// The saved image, with the low xmm halves of `frame`, and room for a magic number at the end. `None` if out of
    /// memory.
    pub fn image(&mut self, frame: &TrapFrame) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(self.bytes().len() + size_of::<u32>()).ok()?;
        bytes.extend_from_slice(self.bytes());
        for (i, half) in frame.xmm.iter().enumerate() {
            let at = XMM + i * 16;
            bytes[at..at + 8].copy_from_slice(&half[0].to_le_bytes());
            bytes[at + 8..at + 16].copy_from_slice(&half[1].to_le_bytes());
        }
        bytes[XSTATE_BV] |= 2;
        Some(bytes)
    }

    /// Loads the state into the CPU.
    pub fn restore(&self) {
        // SAFETY: the area contains an image that XSAVE wrote, or that `load` sanitised.
        unsafe { _xrstor64(self.address as *const u8, u64::MAX) }
    }
}

impl Drop for SavedState {
    fn drop(&mut self) {
        give_block(direct_map::gpa(self.address), self.order);
    }
}

/// The XSAVE image (standard format) of the running thread, with the low xmm halves of `frame`. Empty if out of memory.
pub fn capture(frame: &TrapFrame) -> Vec<u8> {
    let Some(mut area) = SavedState::new() else { return Vec::new() };
    area.save();
    area.image(frame).unwrap_or_default()
}

/// Loads an image from a program (rt_sigreturn): clears invalid bits first, so it can't fault. The low xmm halves go to
/// `frame`. Components beyond a short image become initial.
pub fn load(frame: &mut TrapFrame, image: &[u8]) {
    let Some(mut area) = SavedState::new() else { return };
    let bytes = area.bytes();
    let mxcsr_mask = {
        let mut own = [0; 4];
        own.copy_from_slice(&bytes[MXCSR_MASK..MXCSR_MASK + 4]);
        match u32::from_le_bytes(own) {
            0 => 0xffff,
            mask => mask,
        }
    };
    let n = image.len().min(bytes.len());
    bytes[..n].copy_from_slice(&image[..n]);
    if n < HEADER_END {
        // A legacy FXSAVE image: x87 and SSE only.
        bytes[XSTATE_BV..HEADER_END].fill(0);
        bytes[XSTATE_BV] = 3;
    }
    // Reserved bits fault: XSTATE_BV beyond XCR0, XCOMP_BV and the rest of the header, MXCSR.
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[XSTATE_BV..XSTATE_BV + 8]);
    let components = u64::from_le_bytes(word) & xsave_mask();
    bytes[XSTATE_BV..HEADER_END].fill(0);
    bytes[XSTATE_BV..XSTATE_BV + 8].copy_from_slice(&components.to_le_bytes());
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[MXCSR..MXCSR + 4]);
    let mxcsr = u32::from_le_bytes(word) & mxcsr_mask;
    bytes[MXCSR..MXCSR + 4].copy_from_slice(&mxcsr.to_le_bytes());
    let sse = components & 2 != 0;
    for (i, half) in frame.xmm.iter_mut().enumerate() {
        let at = XMM + i * 16;
        for (j, part) in half.iter_mut().enumerate() {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at + j * 8..at + j * 8 + 8]);
            *part = if sse { u64::from_le_bytes(word) } else { 0 };
        }
    }
    area.restore();
}
