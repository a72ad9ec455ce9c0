//! Extended register state in the form that signal frames need.

use crate::trap::TrapFrame;
use alloc::vec::Vec;

/// Bytes of a full XSAVE image for the enabled components (without the magic trailer).
pub fn xsave_size() -> usize { todo!() }

/// The XSAVE image (standard format) of the running thread, whose low xmm halves lie in `frame`.
pub fn capture(_frame: &TrapFrame) -> Vec<u8> { todo!() }

/// Loads an image that a program handed back (rt_sigreturn): invalid bits are cleared first, so it
/// can't fault. The low xmm halves go to `frame`.
pub fn load(_frame: &mut TrapFrame, _image: &[u8]) { todo!() }
