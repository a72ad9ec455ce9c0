//! Programs of `SO_ATTACH_FILTER`: they load bytes of a packet and return the number of bytes to keep.
//!
//! Linux's extensions (packet metadata) are rejected.

use super::{ABS, BYTE, Data, HALF, IND, Instruction, LD, LDX};

/// Mask of the size in a load's opcode.
const SIZES: u16 = 0x18;
/// The low half of a byte, times four: the length of an IPv4 header.
const LDX_MSH: u16 = LDX | BYTE | 0xa0;
/// Offsets from here on address Linux's extensions.
const EXTENSIONS: u32 = 0xffff_f000;

/// A load from the packet: its mode and its size in bytes.
fn load(code: u16) -> Option<(u16, usize)> {
    let bytes = match code & SIZES {
        0 => 4,
        HALF => 2,
        BYTE => 1,
        _ => return None,
    };
    let mode = code & !SIZES;
    (mode == LD | ABS || mode == LD | IND).then_some((mode & !7, bytes))
}

/// A packet in two parts: a header built for the filter, and the program's payload.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// First part.
    pub header: &'a [u8],
    /// Second part.
    pub body: &'a [u8],
}

impl Data for Packet<'_> {
    const HAS_MOD: bool = true;

    fn allows(i: &Instruction) -> bool {
        match load(i.code) {
            Some((mode, _)) => mode == IND || i.k < EXTENSIONS,
            None => i.code == LDX_MSH,
        }
    }

    fn length(&self) -> u32 {
        (self.header.len() + self.body.len()) as u32
    }

    fn load(&self, i: &Instruction, x: u32) -> Option<u32> {
        match load(i.code) {
            Some((IND, bytes)) => self.number(x.wrapping_add(i.k), bytes),
            Some((_, bytes)) => self.number(i.k, bytes),
            None => Some((self.number(i.k, 1)? & 0xf) * 4),
        }
    }
}

impl Packet<'_> {
    /// A big-endian number of `bytes` bytes. `None` beyond the end.
    fn number(&self, at: u32, bytes: usize) -> Option<u32> {
        (0..bytes).try_fold(0, |value, i| {
            let at = (at as usize).checked_add(i)?;
            let byte = match self.header.get(at) {
                Some(byte) => byte,
                None => self.body.get(at - self.header.len())?,
            };
            Some(value << 8 | u32::from(*byte))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ALU, DIV, JEQ, JMP, LD_IMM, LD_MEM, LDX_IMM, MOD, Program, RET_A, RET_K, X};
    use super::*;

    fn filter(code: &[(u16, u8, u8, u32)]) -> Option<Program<Packet<'static>>> {
        Program::new(code.iter().map(|&(code, jt, jf, k)| Instruction { code, jt, jf, k }).collect())
    }

    #[test]
    fn loads_cross_the_parts_and_end_with_the_packet() {
        let packet = Packet { header: &[1, 2], body: &[3, 4] };
        let word = |k| filter(&[(LD | ABS, 0, 0, k), (RET_A, 0, 0, 0)]).map(|f| f.run(&packet));
        assert_eq!(word(0), Some(0x0102_0304));
        assert_eq!(word(1), Some(0));
        assert_eq!(word(EXTENSIONS - 1), Some(0));
        let half = filter(&[(LDX_IMM, 0, 0, u32::MAX), (LD | IND | HALF, 0, 0, 2), (RET_A, 0, 0, 0)]);
        assert_eq!(half.map(|f| f.run(&packet)), Some(0x0203));
    }

    #[test]
    fn what_linux_refuses_is_refused() {
        assert!(filter(&[]).is_none());
        assert!(filter(&[(LD_IMM, 0, 0, 0)]).is_none());
        assert!(filter(&[(LD | ABS, 0, 0, EXTENSIONS), (RET_A, 0, 0, 0)]).is_none());
        assert!(filter(&[(LD | ABS | SIZES, 0, 0, 0), (RET_A, 0, 0, 0)]).is_none());
        assert!(filter(&[(LD_MEM, 0, 0, 0), (RET_A, 0, 0, 0)]).is_none());
        assert!(filter(&[(JMP | JEQ, 1, 0, 0), (RET_A, 0, 0, 0)]).is_none());
        assert!(filter(&[(ALU | MOD, 0, 0, 0), (RET_A, 0, 0, 0)]).is_none());
    }

    #[test]
    fn a_division_by_zero_drops_the_packet() {
        let divide = filter(&[(LD_IMM, 0, 0, 8), (ALU | DIV | X, 0, 0, 0), (RET_K, 0, 0, 9)]);
        assert_eq!(divide.map(|f| f.run(&Packet { header: &[], body: &[] })), Some(0));
    }
}
