//! Classic BPF as seccomp(2) uses it: checking and running programs over `struct seccomp_data`.
//!
//! A program is checked once ([`Program::new`]); a checked one always ends and never reads what it did not
//! write. The rules are those of Linux's `bpf_check_classic` and `seccomp_check_filter`.

use alloc::vec::Vec;

pub mod packet;
#[cfg(test)]
mod tests;

/// Most instructions of a program.
pub const MAX_LEN: usize = 4096;
/// Bytes of the data that programs look at.
pub const DATA_LEN: usize = 64;
/// Words of scratch memory.
const MEMORY: usize = 16;

// Operation codes: class, then size and mode, operation or source.
const LD: u16 = 0;
const LDX: u16 = 1;
const ST: u16 = 2;
const STX: u16 = 3;
const ALU: u16 = 4;
const JMP: u16 = 5;
const RET: u16 = 6;
const MISC: u16 = 7;
const IMM: u16 = 0;
const ABS: u16 = 0x20;
const MEM: u16 = 0x60;
const LEN: u16 = 0x80;
const X: u16 = 8;
const ADD: u16 = 0;
const SUB: u16 = 0x10;
const MUL: u16 = 0x20;
const DIV: u16 = 0x30;
const OR: u16 = 0x40;
const AND: u16 = 0x50;
const LSH: u16 = 0x60;
const RSH: u16 = 0x70;
const NEG: u16 = 0x80;
const XOR: u16 = 0xa0;
const JA: u16 = 0;
const JEQ: u16 = 0x10;
const JGT: u16 = 0x20;
const JGE: u16 = 0x30;
const JSET: u16 = 0x40;
const TAX: u16 = 0;
const TXA: u16 = 0x80;

const LD_ABS: u16 = LD | ABS;
const LD_LEN: u16 = LD | LEN;
const LD_IMM: u16 = LD | IMM;
const LD_MEM: u16 = LD | MEM;
const LDX_LEN: u16 = LDX | LEN;
const LDX_IMM: u16 = LDX | IMM;
const LDX_MEM: u16 = LDX | MEM;
const RET_K: u16 = RET;
const RET_A: u16 = RET | 0x10;
const JMP_JA: u16 = JMP | JA;
const MISC_TAX: u16 = MISC | TAX;
const MISC_TXA: u16 = MISC | TXA;
const ALU_NEG: u16 = ALU | NEG;

/// `struct sock_filter`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// What to do.
    pub code: u16,
    /// Instructions to skip if a comparison holds.
    pub jt: u8,
    /// Instructions to skip if it does not.
    pub jf: u8,
    /// Operand.
    pub k: u32,
}

impl Instruction {
    /// From the word as it lies in memory.
    pub const fn from_raw(raw: u64) -> Self {
        Self { code: raw as u16, jt: (raw >> 16) as u8, jf: (raw >> 24) as u8, k: (raw >> 32) as u32 }
    }

    /// Whether its kind, operand and place (`left` instructions follow) are allowed.
    fn is_valid(&self, left: usize) -> bool {
        let k = self.k as usize;
        match self.code {
            LD_ABS => k < DATA_LEN && k.is_multiple_of(4),
            LD_MEM | LDX_MEM | ST | STX => k < MEMORY,
            LD_LEN | LD_IMM | LDX_LEN | LDX_IMM | RET_K | RET_A | MISC_TAX | MISC_TXA | ALU_NEG => true,
            JMP_JA => k < left,
            code if code & 7 == ALU => match code & !X & !7 {
                ADD | SUB | MUL | OR | AND | XOR => true,
                DIV => code & X != 0 || k != 0,
                LSH | RSH => code & X != 0 || k < 32,
                _ => false,
            },
            code if code & 7 == JMP => {
                let known = matches!(code & !X & !7, JEQ | JGT | JGE | JSET);
                known && usize::from(self.jt) < left && usize::from(self.jf) < left
            }
            _ => false,
        }
    }
}

/// A checked program.
#[derive(Clone, Debug)]
pub struct Program(Vec<Instruction>);

impl Program {
    /// `None` if Linux would refuse it.
    pub fn new(instructions: Vec<Instruction>) -> Option<Self> {
        let len = instructions.len();
        if len == 0 || len > MAX_LEN {
            return None;
        }
        let valid = instructions.iter().enumerate().all(|(i, one)| one.is_valid(len - i - 1));
        let ends = instructions.last().is_some_and(|last| matches!(last.code, RET_K | RET_A));
        (valid && ends && loads_follow_stores(&instructions)?).then_some(Self(instructions))
    }

    /// Number of instructions.
    #[expect(clippy::len_without_is_empty, reason = "never empty")]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// What it returns for `data`.
    pub fn run(&self, data: &[u8; DATA_LEN]) -> u32 {
        let (mut a, mut x, mut memory) = (0u32, 0u32, [0u32; MEMORY]);
        let mut at = 0;
        // Jumps lead forward only, so this ends; and the last instruction returns.
        while let Some(i) = self.0.get(at) {
            at += 1;
            let k = i.k as usize;
            match i.code {
                LD_ABS => a = word(data, k),
                LD_LEN => a = DATA_LEN as u32,
                LD_IMM => a = i.k,
                LD_MEM => a = memory[k % MEMORY],
                LDX_LEN => x = DATA_LEN as u32,
                LDX_IMM => x = i.k,
                LDX_MEM => x = memory[k % MEMORY],
                ST => memory[k % MEMORY] = a,
                STX => memory[k % MEMORY] = x,
                RET_K => return i.k,
                RET_A => return a,
                MISC_TAX => x = a,
                MISC_TXA => a = x,
                ALU_NEG => a = a.wrapping_neg(),
                JMP_JA => at += k,
                code => {
                    let operand = if code & X != 0 { x } else { i.k };
                    if code & 7 == JMP {
                        let holds = match code & !X & !7 {
                            JEQ => a == operand,
                            JGT => a > operand,
                            JGE => a >= operand,
                            _ => a & operand != 0,
                        };
                        at += usize::from(if holds { i.jt } else { i.jf });
                        continue;
                    }
                    a = match code & !X & !7 {
                        ADD => a.wrapping_add(operand),
                        SUB => a.wrapping_sub(operand),
                        MUL => a.wrapping_mul(operand),
                        OR => a | operand,
                        AND => a & operand,
                        XOR => a ^ operand,
                        LSH => a.wrapping_shl(operand),
                        RSH => a.wrapping_shr(operand),
                        // A division by zero ends the program.
                        _ => match a.checked_div(operand) {
                            Some(quotient) => quotient,
                            None => return 0,
                        },
                    };
                }
            }
        }
        0
    }
}

fn word(data: &[u8; DATA_LEN], at: usize) -> u32 {
    let bytes = data.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0, u32::from_le_bytes)
}

/// Whether every load from scratch memory follows a store there on each path. `None` without memory.
fn loads_follow_stores(instructions: &[Instruction]) -> Option<bool> {
    // Words that are written on all paths to an instruction that is jumped to.
    let mut at_target = Vec::new();
    at_target.try_reserve_exact(instructions.len()).ok()?;
    at_target.resize(instructions.len(), u16::MAX);
    let mut written = 0u16;
    for (at, i) in instructions.iter().enumerate() {
        written &= at_target[at];
        let bit = 1u16.checked_shl(i.k).unwrap_or(0);
        let mut jump = |skip: usize| {
            if let Some(target) = at_target.get_mut(at + 1 + skip) {
                *target &= written;
            }
        };
        match i.code {
            ST | STX => written |= bit,
            LD_MEM | LDX_MEM if written & bit == 0 => return Some(false),
            JMP_JA => {
                jump(i.k as usize);
                written = u16::MAX;
            }
            code if code & 7 == JMP => {
                jump(usize::from(i.jt));
                jump(usize::from(i.jf));
                written = u16::MAX;
            }
            _ => {}
        }
    }
    Some(true)
}
