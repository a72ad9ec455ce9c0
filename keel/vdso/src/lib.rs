//! The virtual shared object (vDSO) that keel maps into every program, and the data page before it.
//!
//! [`IMAGE`] is an ELF shared object, built by this crate's build script from `image.rs`: it gives
//! programs the time, vdso(7), from the time stamp counter and the numbers in a [`Vvar`] that keel
//! writes into the page right before the image.
#![no_std]

pub mod vvar;

pub use vvar::Vvar;

/// The shared object: map it page aligned, readable and executable, behind the page with the [`Vvar`].
pub static IMAGE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/vdso.so"));
