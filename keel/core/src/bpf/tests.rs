use super::seccomp::{Call, DATA_LEN};
use super::*;
use alloc::vec;

const fn i(code: u16, k: u32) -> Instruction {
    Instruction { code, jt: 0, jf: 0, k }
}

const fn j(code: u16, k: u32, jt: u8, jf: u8) -> Instruction {
    Instruction { code, jt, jf, k }
}

fn run(instructions: Vec<Instruction>) -> u32 {
    let mut data = [0; DATA_LEN];
    data[..8].copy_from_slice(&[39, 0, 0, 0, 0x3e, 0, 0, 0xc0]);
    Program::<Call>::new(instructions).expect("valid").run(&Call(data))
}

#[test]
fn arithmetic() {
    let with = |code: u16, a: u32, k: u32| run(vec![i(LD_IMM, a), i(ALU | code, k), i(RET_A, 0)]);
    assert_eq!(with(ADD, u32::MAX, 2), 1);
    assert_eq!(with(SUB, 0, 1), u32::MAX);
    assert_eq!(with(MUL, 7, 6), 42);
    assert_eq!(with(DIV, 43, 6), 7);
    assert_eq!(with(LSH, 1, 31), 1 << 31);
    assert_eq!(with(RSH, 8, 2), 2);
    assert_eq!(with(XOR, 5, 1), 4);
    assert_eq!(run(vec![i(LD_IMM, 5), i(ALU_NEG, 0), i(RET_A, 0)]), 5u32.wrapping_neg());
    let by_x = |code: u16, a: u32, x: u32| run(vec![i(LD_IMM, a), i(LDX_IMM, x), i(ALU | code | X, 0), i(RET_A, 0)]);
    assert_eq!(by_x(DIV, 5, 0), 0);
    assert_eq!(by_x(LSH, 1, 33), 2);
}

#[test]
fn data_and_jumps() {
    assert_eq!(run(vec![i(LD | ABS, 0), j(JMP | JEQ, 39, 1, 0), i(RET_K, 1), i(RET_K, 2)]), 2);
    assert_eq!(run(vec![i(LD | ABS, 4), j(JMP | JGT, 0xc000_003e, 0, 1), i(RET_K, 1), i(RET_K, 2)]), 2);
    assert_eq!(run(vec![i(LD_LEN, 0), i(RET_A, 0)]), 64);
    assert_eq!(run(vec![i(JMP_JA, 1), i(RET_K, 1), i(RET_K, 2)]), 2);
    assert_eq!(run(vec![i(LD_IMM, 9), i(ST, 3), i(LDX_MEM, 3), i(MISC_TXA, 0), i(RET_A, 0)]), 9);
}

#[test]
fn refused() {
    let refused = |instructions: Vec<Instruction>| Program::<Call>::new(instructions).is_none();
    assert!(refused(vec![]));
    assert!(refused(vec![i(LD_IMM, 0)]));
    assert!(refused(vec![i(RET_K, 0); MAX_LEN + 1]));
    assert!(!refused(vec![i(RET_K, 0); MAX_LEN]));
    assert!(refused(vec![i(LD | ABS, 64), i(RET_K, 0)]));
    assert!(refused(vec![i(LD | ABS, 2), i(RET_K, 0)]));
    assert!(refused(vec![i(LD | 0x40, 0), i(RET_K, 0)]));
    assert!(refused(vec![i(LD | 0x10 | ABS, 0), i(RET_K, 0)]));
    assert!(refused(vec![i(ALU | DIV, 0), i(RET_K, 0)]));
    assert!(refused(vec![i(ALU | 0x90, 1), i(RET_K, 0)]));
    assert!(refused(vec![i(ALU | LSH, 32), i(RET_K, 0)]));
    assert!(refused(vec![i(ST, 16), i(RET_K, 0)]));
    assert!(refused(vec![i(JMP_JA, 1), i(RET_K, 0)]));
    assert!(refused(vec![i(JMP_JA, u32::MAX), i(RET_K, 0)]));
    assert!(refused(vec![j(JMP | JEQ, 0, 0, 1), i(RET_K, 0)]));
    assert!(refused(vec![i(LD_MEM, 0), i(RET_K, 0)]));
    // Written on only one of two paths.
    assert!(refused(vec![j(JMP | JEQ, 0, 0, 1), i(ST, 0), i(LD_MEM, 0), i(RET_A, 0)]));
    assert!(!refused(vec![i(ST, 0), j(JMP | JEQ, 0, 0, 1), i(ST, 1), i(LD_MEM, 0), i(RET_A, 0)]));
}
