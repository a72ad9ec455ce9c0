//! Access to the current program's memory: typed, checked, faults resolved.
//!
//! Every function may fault and so block: hold no `RefCell` borrow around a call. EFAULT for
//! addresses that are not mapped accordingly.

use alloc::vec::Vec;
use uapi::{Errno, Result, UserAbi};

/// Reads a value.
pub fn read<T: UserAbi>(_addr: usize) -> Result<T> {
    Err(Errno::EFAULT)
}

/// Writes a value.
pub fn write<T: UserAbi>(_addr: usize, _value: &T) -> Result<()> {
    Err(Errno::EFAULT)
}

/// Reads `count` values.
pub fn read_array<T: UserAbi>(_addr: usize, _count: usize) -> Result<Vec<T>> {
    Err(Errno::EFAULT)
}

/// Fills `dst` from the program.
pub fn read_bytes(_addr: usize, _dst: &mut [u8]) -> Result<()> {
    Err(Errno::EFAULT)
}

/// Copies `src` to the program.
pub fn write_bytes(_addr: usize, _src: &[u8]) -> Result<()> {
    Err(Errno::EFAULT)
}

/// Zeroes program memory.
pub fn clear(_addr: usize, _len: usize) -> Result<()> {
    Err(Errno::EFAULT)
}

/// Reads a string up to its zero byte (not included). ENAMETOOLONG if there is none in `max` bytes.
pub fn read_cstr(_addr: usize, _max: usize) -> Result<Vec<u8>> {
    Err(Errno::EFAULT)
}

/// Loads a futex word.
pub fn load_u32(_addr: usize) -> Result<u32> {
    Err(Errno::EFAULT)
}

/// Compare and exchange of a futex word: the value before.
pub fn cmpxchg_u32(_addr: usize, _old: u32, _new: u32) -> Result<u32> {
    Err(Errno::EFAULT)
}
