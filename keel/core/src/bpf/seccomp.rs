//! Programs of seccomp(2): they load words of `struct seccomp_data`.

use super::{ABS, Data, Instruction, LD};

/// Bytes of `struct seccomp_data`.
pub const DATA_LEN: usize = 64;

/// A system call as seccomp programs see it.
#[derive(Clone, Copy, Debug)]
pub struct Call(pub [u8; DATA_LEN]);

impl Data for Call {
    const HAS_MOD: bool = false;

    fn allows(load: &Instruction) -> bool {
        load.code == LD | ABS && load.k < DATA_LEN as u32 && load.k.is_multiple_of(4)
    }

    fn length(&self) -> u32 {
        DATA_LEN as u32
    }

    fn load(&self, load: &Instruction, _x: u32) -> Option<u32> {
        let at = load.k as usize;
        let bytes = self.0.get(at..at.checked_add(4)?)?.try_into().ok()?;
        Some(u32::from_le_bytes(bytes))
    }
}
