//! The structures of terminal attributes: `struct termios2`, and `struct termio` of System V, on top of `struct termios`;
//! ioctl_tty(2).

/// Bytes of the kernel's `struct termios`, and of `struct termios2`, which adds two speeds.
pub(crate) const TERMIOS: usize = 36;
pub(crate) const TERMIOS2: usize = 44;
/// Offset of `c_cflag`.
const CFLAG: usize = 8;

/// Bytes of `struct termio`: four flags of 16 bits, the line discipline, eight keys, padding.
pub const SIZE: usize = 18;
/// Offset of the line discipline in `struct termios`; the keys follow.
const LINE: usize = 16;
/// Line discipline and keys.
const REST: usize = 9;

/// Converts to `struct termio`: the lower half of each flag word.
pub fn of(termios: &[u8; TERMIOS]) -> [u8; SIZE] {
    let mut out = [0; SIZE];
    for (to, from) in out[..8].chunks_exact_mut(2).zip(termios.chunks_exact(4)) {
        to.copy_from_slice(&from[..2]);
    }
    out[8..8 + REST].copy_from_slice(&termios[LINE..LINE + REST]);
    out
}

/// Replaces the part of the attributes that `struct termio` contains.
pub fn onto(mut termios: [u8; TERMIOS], new: &[u8; SIZE]) -> [u8; TERMIOS] {
    for (to, from) in termios[..LINE].chunks_exact_mut(4).zip(new.chunks_exact(2)) {
        to[..2].copy_from_slice(from);
    }
    termios[LINE..LINE + REST].copy_from_slice(&new[8..8 + REST]);
    termios
}

/// Converts `struct termios` to `struct termios2`.
pub(crate) fn with_speeds(termios: &[u8; TERMIOS]) -> [u8; TERMIOS2] {
    let speed =
        speed_of(u32::from_ne_bytes([termios[CFLAG], termios[CFLAG + 1], termios[CFLAG + 2], termios[CFLAG + 3]]));
    let mut termios2 = [0; TERMIOS2];
    termios2[..TERMIOS].copy_from_slice(termios);
    termios2[TERMIOS..TERMIOS + 4].copy_from_slice(&speed.to_ne_bytes());
    termios2[TERMIOS + 4..].copy_from_slice(&speed.to_ne_bytes());
    termios2
}

/// Bits per second of the `CBAUD` part of `c_cflag`, termios(3).
fn speed_of(cflag: u32) -> u32 {
    const LOW: [u32; 16] = [0, 50, 75, 110, 134, 150, 200, 300, 600, 1200, 1800, 2400, 4800, 9600, 19200, 38400];
    const HIGH: [u32; 16] = [
        0, 57_600, 115_200, 230_400, 460_800, 500_000, 576_000, 921_600, 1_000_000, 1_152_000, 1_500_000, 2_000_000,
        2_500_000, 3_000_000, 3_500_000, 4_000_000,
    ];
    let index = (cflag & 0o17) as usize;
    if cflag & 0o10000 != 0 { HIGH[index] } else { LOW[index] }
}
