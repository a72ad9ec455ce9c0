//! `struct termio`, the terminal attributes of System V, on top of `struct termios`; ioctl_tty(2).

use super::stream::TERMIOS;

/// Bytes of `struct termio`: four flags of 16 bits, the line discipline, eight keys, padding.
pub const SIZE: usize = 18;
/// Where `struct termios` keeps the line discipline; the keys follow.
const LINE: usize = 16;
/// Line discipline and keys.
const REST: usize = 9;

/// Attributes as `struct termio`: of each flag word the lower half.
pub fn of(termios: &[u8; TERMIOS]) -> [u8; SIZE] {
    let mut out = [0; SIZE];
    for (to, from) in out[..8].chunks_exact_mut(2).zip(termios.chunks_exact(4)) {
        to.copy_from_slice(&from[..2]);
    }
    out[8..8 + REST].copy_from_slice(&termios[LINE..LINE + REST]);
    out
}

/// Attributes with what a `struct termio` knows of them replaced.
pub fn onto(mut termios: [u8; TERMIOS], new: &[u8; SIZE]) -> [u8; TERMIOS] {
    for (to, from) in termios[..LINE].chunks_exact_mut(4).zip(new.chunks_exact(2)) {
        to[..2].copy_from_slice(from);
    }
    termios[LINE..LINE + REST].copy_from_slice(&new[8..8 + REST]);
    termios
}
