//! Classic BPF as `SO_ATTACH_FILTER` uses it: programs over the bytes of a packet.
//!
//! The rules are those of Linux's `bpf_check_classic`; its extensions (what is known about a packet besides its bytes)
//! are refused.

use super::{
    ADD, ALU, ALU_NEG, AND, DIV, Instruction, JA, JEQ, JGE, JGT, JMP, JMP_JA, JSET, LD, LD_IMM, LD_LEN, LD_MEM, LDX,
    LDX_IMM, LDX_LEN, LDX_MEM, LSH, MAX_LEN, MEMORY, MISC_TAX, MISC_TXA, MUL, OR, RET_A, RET_K, RSH, ST, STX, SUB, X,
    XOR, loads_follow_stores,
};
use alloc::vec::Vec;

const MOD: u16 = 0x90;
const ABS: u16 = 0x20;
const IND: u16 = 0x40;
/// Sizes of loads: a word, half of one, a byte.
const SIZES: u16 = 0x18;
const HALF: u16 = 8;
const BYTE: u16 = 0x10;
/// The low half of a byte, times four: the length of an IPv4 header.
const LDX_MSH: u16 = LDX | BYTE | 0xa0;
/// Offsets from here on are no offsets: Linux's extensions.
const EXTENSIONS: u32 = 0xffff_f000;

/// A load from the packet: its mode and the bytes that it takes.
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

fn is_valid(i: &Instruction, left: usize) -> bool {
    let k = i.k as usize;
    if let Some((mode, _)) = load(i.code) {
        return mode == IND || i.k < EXTENSIONS;
    }
    match i.code {
        LD_MEM | LDX_MEM | ST | STX => k < MEMORY,
        LDX_MSH | LD_LEN | LD_IMM | LDX_LEN | LDX_IMM | RET_K | RET_A | MISC_TAX | MISC_TXA | ALU_NEG => true,
        JMP_JA => k < left,
        code if code & 7 == ALU => match code & !X & !7 {
            ADD | SUB | MUL | OR | AND | XOR => true,
            DIV | MOD => code & X != 0 || k != 0,
            LSH | RSH => code & X != 0 || k < 32,
            _ => false,
        },
        code if code & 7 == JMP => {
            let known = matches!(code & !X & !7, JEQ | JGT | JGE | JSET) && code & !X & !7 != JA;
            known && usize::from(i.jt) < left && usize::from(i.jf) < left
        }
        _ => false,
    }
}

/// A checked program over packets.
#[derive(Clone, Debug)]
pub struct Filter(Vec<Instruction>);

impl Filter {
    /// `None` if Linux would refuse it.
    pub fn new(instructions: Vec<Instruction>) -> Option<Self> {
        let len = instructions.len();
        if len == 0 || len > MAX_LEN {
            return None;
        }
        let valid = instructions.iter().enumerate().all(|(i, one)| is_valid(one, len - i - 1));
        let ends = instructions.last().is_some_and(|last| matches!(last.code, RET_K | RET_A));
        (valid && ends && loads_follow_stores(&instructions)?).then_some(Self(instructions))
    }

    /// How many bytes of the packet are to be kept; 0: it is dropped, as is one that is too short for a load.
    pub fn run(&self, packet: Packet<'_>) -> u32 {
        self.execute(packet).unwrap_or(0)
    }

    fn execute(&self, packet: Packet<'_>) -> Option<u32> {
        let (mut a, mut x, mut memory) = (0u32, 0u32, [0u32; MEMORY]);
        let mut at = 0;
        // Jumps lead forward only, so this ends; and the last instruction returns.
        loop {
            let i = self.0.get(at)?;
            at += 1;
            let k = i.k as usize;
            if let Some((mode, bytes)) = load(i.code) {
                a = packet.number(if mode == IND { x.wrapping_add(i.k) } else { i.k }, bytes)?;
                continue;
            }
            match i.code {
                LDX_MSH => x = (packet.number(i.k, 1)? & 0xf) * 4,
                LD_LEN => a = packet.len() as u32,
                LD_IMM => a = i.k,
                LD_MEM => a = memory[k % MEMORY],
                LDX_LEN => x = packet.len() as u32,
                LDX_IMM => x = i.k,
                LDX_MEM => x = memory[k % MEMORY],
                ST => memory[k % MEMORY] = a,
                STX => memory[k % MEMORY] = x,
                RET_K => return Some(i.k),
                RET_A => return Some(a),
                MISC_TAX => x = a,
                MISC_TXA => a = x,
                ALU_NEG => a = a.wrapping_neg(),
                JMP_JA => at += k,
                code => {
                    let operand = if code & X != 0 { x } else { i.k };
                    let operation = code & !X & !7;
                    if code & 7 == JMP {
                        let holds = match operation {
                            JEQ => a == operand,
                            JGT => a > operand,
                            JGE => a >= operand,
                            _ => a & operand != 0,
                        };
                        at += usize::from(if holds { i.jt } else { i.jf });
                        continue;
                    }
                    a = match operation {
                        ADD => a.wrapping_add(operand),
                        SUB => a.wrapping_sub(operand),
                        MUL => a.wrapping_mul(operand),
                        OR => a | operand,
                        AND => a & operand,
                        XOR => a ^ operand,
                        LSH => a.wrapping_shl(operand),
                        RSH => a.wrapping_shr(operand),
                        // A division by zero drops the packet.
                        MOD => a.checked_rem(operand)?,
                        _ => a.checked_div(operand)?,
                    };
                }
            }
        }
    }
}

/// A packet in two parts: a header that was made for the filter, and the bytes of the program.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// First part.
    pub header: &'a [u8],
    /// Second part.
    pub body: &'a [u8],
}

impl Packet<'_> {
    /// Bytes of both parts.
    fn len(&self) -> usize {
        self.header.len() + self.body.len()
    }

    /// So many bytes as a number, the most significant first. `None` beyond the end.
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
    use super::*;

    fn filter(code: &[(u16, u8, u8, u32)]) -> Option<Filter> {
        Filter::new(code.iter().map(|&(code, jt, jf, k)| Instruction { code, jt, jf, k }).collect())
    }

    #[test]
    fn loads_cross_the_parts_and_end_with_the_packet() {
        let packet = Packet { header: &[1, 2], body: &[3, 4] };
        let word = |k| filter(&[(LD | ABS, 0, 0, k), (RET_A, 0, 0, 0)]).map(|f| f.run(packet));
        assert_eq!(word(0), Some(0x0102_0304));
        assert_eq!(word(1), Some(0));
        assert_eq!(word(EXTENSIONS - 1), Some(0));
        let half = filter(&[(LDX_IMM, 0, 0, u32::MAX), (LD | IND | HALF, 0, 0, 2), (RET_A, 0, 0, 0)]);
        assert_eq!(half.map(|f| f.run(packet)), Some(0x0203));
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
        assert_eq!(divide.map(|f| f.run(Packet { header: &[], body: &[] })), Some(0));
    }
}
