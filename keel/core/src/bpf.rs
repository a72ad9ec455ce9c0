//! Classic BPF: checking and running programs, over `struct seccomp_data` (seccomp(2)) and over packets
//! (`SO_ATTACH_FILTER`, socket(7)), which differ in what they may load.
//!
//! A program is checked once ([`Program::new`]); a checked program always terminates and never reads uninitialised
//! scratch memory. The rules are those of Linux's `bpf_check_classic` and `seccomp_check_filter`.

use alloc::vec::Vec;
use core::marker::PhantomData;

pub mod packet;
pub mod seccomp;
#[cfg(test)]
mod tests;

/// Maximum number of instructions of a program.
pub const MAX_LEN: usize = 4096;
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
/// Sizes of loads; a word is 0.
const HALF: u16 = 8;
const BYTE: u16 = 0x10;
const IMM: u16 = 0;
const ABS: u16 = 0x20;
const IND: u16 = 0x40;
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
const MOD: u16 = 0x90;
const XOR: u16 = 0xa0;
const JEQ: u16 = 0x10;
const JGT: u16 = 0x20;
const JGE: u16 = 0x30;
const JSET: u16 = 0x40;
const TAX: u16 = 0;
const TXA: u16 = 0x80;

const LD_LEN: u16 = LD | LEN;
const LD_IMM: u16 = LD | IMM;
const LD_MEM: u16 = LD | MEM;
const LDX_LEN: u16 = LDX | LEN;
const LDX_IMM: u16 = LDX | IMM;
const LDX_MEM: u16 = LDX | MEM;
const RET_K: u16 = RET;
const RET_A: u16 = RET | 0x10;
const JMP_JA: u16 = JMP;
const MISC_TAX: u16 = MISC | TAX;
const MISC_TXA: u16 = MISC | TXA;
const ALU_NEG: u16 = ALU | NEG;

/// `struct sock_filter`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Opcode.
    pub code: u16,
    /// Instructions to skip if a comparison holds.
    pub jt: u8,
    /// Instructions to skip if it does not.
    pub jf: u8,
    /// Operand.
    pub k: u32,
}

impl Instruction {
    /// Decodes the word as stored in memory.
    pub const fn from_raw(raw: u64) -> Self {
        Self { code: raw as u16, jt: (raw >> 16) as u8, jf: (raw >> 24) as u8, k: (raw >> 32) as u32 }
    }

    /// The word in memory.
    pub const fn to_raw(self) -> u64 {
        self.code as u64 | (self.jt as u64) << 16 | (self.jf as u64) << 24 | (self.k as u64) << 32
    }

    /// Whether opcode, operand and position (`left` instructions follow) are allowed in programs over `D`.
    fn is_valid<D: Data>(&self, left: usize) -> bool {
        let k = self.k as usize;
        match self.code {
            LD_MEM | LDX_MEM | ST | STX => k < MEMORY,
            LD_LEN | LD_IMM | LDX_LEN | LDX_IMM | RET_K | RET_A | MISC_TAX | MISC_TXA | ALU_NEG => true,
            JMP_JA => k < left,
            code => match code & 7 {
                ALU => match code & !X & !7 {
                    ADD | SUB | MUL | OR | AND | XOR => true,
                    DIV => code & X != 0 || k != 0,
                    MOD => D::HAS_MOD && (code & X != 0 || k != 0),
                    LSH | RSH => code & X != 0 || k < 32,
                    _ => false,
                },
                JMP => {
                    let known = matches!(code & !X & !7, JEQ | JGT | JGE | JSET);
                    known && usize::from(self.jt) < left && usize::from(self.jf) < left
                }
                LD | LDX => D::allows(self),
                _ => false,
            },
        }
    }
}

/// Input of a kind of programs.
pub trait Data {
    /// Whether BPF_MOD is allowed.
    const HAS_MOD: bool;

    /// Whether this load of the data is allowed.
    fn allows(load: &Instruction) -> bool;

    /// Its length in bytes.
    fn length(&self) -> u32;

    /// Result of an allowed load, with the index register `x`. `None` ends the program with 0.
    fn load(&self, load: &Instruction, x: u32) -> Option<u32>;
}

/// A checked program over `D`.
#[derive(Debug)]
pub struct Program<D> {
    instructions: Vec<Instruction>,
    data: PhantomData<fn() -> D>,
}

impl<D: Data> Program<D> {
    /// Checks a program; `None` if Linux would reject it.
    pub fn new(instructions: Vec<Instruction>) -> Option<Self> {
        let len = instructions.len();
        if len == 0 || len > MAX_LEN {
            return None;
        }
        let valid = instructions.iter().enumerate().all(|(i, one)| one.is_valid::<D>(len - i - 1));
        let ends = instructions.last().is_some_and(|last| matches!(last.code, RET_K | RET_A));
        (valid && ends && loads_follow_stores(&instructions)?).then_some(Self { instructions, data: PhantomData })
    }

    /// Number of instructions.
    #[expect(clippy::len_without_is_empty, reason = "never empty")]
    pub fn len(&self) -> usize {
        self.instructions.len()
    }

    /// The instructions.
    pub fn instructions(&self) -> &[Instruction] {
        &self.instructions
    }

    /// Runs the program on `data`; returns 0 after a failed load or a division by zero.
    pub fn run(&self, data: &D) -> u32 {
        self.execute(data).unwrap_or(0)
    }

    fn execute(&self, data: &D) -> Option<u32> {
        let (mut a, mut x, mut memory) = (0u32, 0u32, [0u32; MEMORY]);
        let mut at = 0;
        // Terminates: jumps go forward only, and the last instruction returns.
        loop {
            let i = self.instructions.get(at)?;
            at += 1;
            let k = i.k as usize;
            match i.code {
                LD_LEN => a = data.length(),
                LD_IMM => a = i.k,
                LD_MEM => a = memory[k % MEMORY],
                LDX_LEN => x = data.length(),
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
                    match code & 7 {
                        LD => a = data.load(i, x)?,
                        LDX => x = data.load(i, x)?,
                        JMP => at += usize::from(if holds(code, a, operand) { i.jt } else { i.jf }),
                        _ => a = compute(code, a, operand)?,
                    }
                }
            }
        }
    }
}

/// Whether a comparison holds.
const fn holds(code: u16, a: u32, operand: u32) -> bool {
    match code & !X & !7 {
        JEQ => a == operand,
        JGT => a > operand,
        JGE => a >= operand,
        _ => a & operand != 0,
    }
}

/// Result of an arithmetic operation. `None`: a division by zero.
fn compute(code: u16, a: u32, operand: u32) -> Option<u32> {
    Some(match code & !X & !7 {
        ADD => a.wrapping_add(operand),
        SUB => a.wrapping_sub(operand),
        MUL => a.wrapping_mul(operand),
        OR => a | operand,
        AND => a & operand,
        XOR => a ^ operand,
        LSH => a.wrapping_shl(operand),
        RSH => a.wrapping_shr(operand),
        MOD => a.checked_rem(operand)?,
        _ => a.checked_div(operand)?,
    })
}

/// Whether a store precedes every load from scratch memory on each path. `None`: out of memory.
fn loads_follow_stores(instructions: &[Instruction]) -> Option<bool> {
    // Words that all paths to a jump target have written.
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
