//! The virtual shared object (vDSO) that keel maps into every program, and the data page before it.
//!
//! [`IMAGE`] is an ELF shared object, built by this crate's build script from `image.rs`: it computes the time,
//! vdso(7), from the time stamp counter and the numbers in a [`Vvar`] that keel writes into the page right before the
//! image.
#![no_std]

pub mod vvar;

pub use vvar::Vvar;

/// The shared object: map it page-aligned, readable and executable, behind the page with the [`Vvar`].
pub static IMAGE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/vdso.so"));

impl Vvar {
    /// The structure as bytes in memory.
    pub fn to_bytes(&self) -> [u8; size_of::<Self>()] {
        let mut bytes = [0; size_of::<Self>()];
        bytes[0..4].copy_from_slice(&self.sequence.to_ne_bytes());
        bytes[4..8].copy_from_slice(&self.cpu_at.to_ne_bytes());
        bytes[8..16].copy_from_slice(&self.tsc_base.to_ne_bytes());
        bytes[16..24].copy_from_slice(&self.mult.to_ne_bytes());
        for (out, base) in bytes[24..].chunks_exact_mut(16).zip(self.bases) {
            out[..8].copy_from_slice(&base.seconds.to_ne_bytes());
            out[8..].copy_from_slice(&base.ns.to_ne_bytes());
        }
        bytes
    }
}
