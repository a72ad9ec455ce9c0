//! Patches that cover the `syscall` and the instructions behind it.

use super::{
    Area, ENTER_LEN, Form, JUMP_LEN, LEA_LEN, PAGE, Patch, Point, Refusal, Window, distance, emit_enter, jump, scan,
};
use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, Register};
use smallvec::SmallVec;

/// One-byte opcodes that are undefined in 64-bit mode, and `int3`. D5 is missing because newer
/// processors give it a meaning (REX2).
const FAULTING: [u8; 20] = [
    0xcc, 0x06, 0x07, 0x0e, 0x16, 0x17, 0x1e, 0x1f, 0x27, 0x2f, 0x37, 0x3f, 0x60, 0x61, 0x82, 0x9a, 0xce, 0xd4, 0xd6,
    0xea,
];
/// Fills what the jump leaves over of moved instructions: undefined by itself, and as ModRM byte
/// behind FE or FF.
const FILL: u8 = 0x3f;
/// Most bytes of an instruction.
const MAX_INSTRUCTION: usize = 15;

/// An instruction that moves.
struct Moved {
    instruction: Instruction,
    address: u64,
    len: usize,
    /// Offset of a displacement relative to RIP in the instruction's bytes.
    rip_relative: Option<usize>,
}

/// Plans [`Form::Displace`].
pub(super) fn plan(window: &Window<'_>, site: u64, area: &mut Area, gate_offset: u32) -> Result<Patch, Refusal> {
    let moved = decode(window, site + 2)?;
    let end = moved.last().map_or(site + 2, |m| m.address + m.len as u64);
    let covered_end = end.max(site + JUMP_LEN as u64);
    let flow_ends = moved.last().is_some_and(ends_flow);
    if end < covered_end {
        check_padding(window, end, covered_end)?;
    }
    let boundaries: SmallVec<[u64; 4]> = moved.iter().map(|m| m.address).collect();
    // An instruction at the last byte of the jump needs a fill byte behind it.
    let overwritten = if boundaries.contains(&(site + 4)) { covered_end } else { site + JUMP_LEN as u64 };
    if site / PAGE != (overwritten - 1) / PAGE {
        return Err(Refusal::CrossesPage);
    }
    if scan::branches_into(window, &boundaries) {
        return Err(Refusal::BranchTarget);
    }

    let len = 2 + ENTER_LEN + moved.iter().map(moved_len).sum::<usize>() + if flow_ends { 0 } else { JUMP_LEN };
    let faults = |trampoline: u64| {
        jump(site, trampoline)
            .is_some_and(|jump| boundaries.iter().all(|&b| faults_at(&jump, b - site, overwritten - site)))
    };
    let trampoline = area.take(len, faults).ok_or(Refusal::NoRoom)?;
    let planned =
        build(window, site, trampoline, &moved, (!flow_ends).then_some(end), gate_offset).and_then(|(code, points)| {
            let mut bytes = SmallVec::from_slice(&jump(site, trampoline)?);
            bytes.resize((overwritten - site) as usize, FILL);
            debug_assert_eq!(code.len(), len);
            Some(Patch { site, form: Form::Displace, at: site, end: covered_end, bytes, trampoline, code, points })
        });
    planned.ok_or_else(|| {
        area.give_back(trampoline, len);
        Refusal::NoRoom
    })
}

/// Decodes what a jump at `start - 2` covers.
fn decode(window: &Window<'_>, start: u64) -> Result<SmallVec<[Moved; 4]>, Refusal> {
    let bytes = window.from(start).ok_or(Refusal::NotASite)?;
    let bytes = bytes.get(..2 * MAX_INSTRUCTION + 3).unwrap_or(bytes);
    let mut decoder = Decoder::with_ip(64, bytes, start, DecoderOptions::NONE);
    let mut moved = SmallVec::<[Moved; 4]>::new();
    let mut address = start;
    while address < start + (JUMP_LEN - 2) as u64 {
        if moved.last().is_some_and(ends_flow) {
            break;
        }
        let instruction = decoder.decode();
        if instruction.is_invalid() {
            return Err(Refusal::Immovable);
        }
        let movable = match instruction.flow_control() {
            FlowControl::Next => true,
            // Without prefixes: they would change the size of the displacement, or mean nothing.
            FlowControl::ConditionalBranch => instruction.is_jcc_short_or_near() && matches!(instruction.len(), 2 | 6),
            FlowControl::UnconditionalBranch => {
                instruction.is_jmp_short_or_near() && matches!(instruction.len(), 2 | 5)
            }
            FlowControl::Return => instruction.code() == Code::Retnq,
            _ => false,
        };
        if !movable || instruction.memory_base() == Register::EIP {
            return Err(Refusal::Immovable);
        }
        let offsets = decoder.get_constant_offsets(&instruction);
        let rip_relative = instruction.is_ip_rel_memory_operand().then_some(offsets.displacement_offset());
        let len = instruction.len();
        moved.push(Moved { instruction, address, len, rip_relative });
        address += len as u64;
    }
    Ok(moved)
}

fn ends_flow(m: &Moved) -> bool {
    matches!(m.instruction.flow_control(), FlowControl::Return | FlowControl::UnconditionalBranch)
}

/// Behind the end of a function there must be padding, and no function may begin in it.
fn check_padding(window: &Window<'_>, start: u64, end: u64) -> Result<(), Refusal> {
    let bytes = window.get(start, (end - start) as usize).ok_or(Refusal::NotASite)?;
    // A longer `nop` is padding as a whole.
    let mut decoder = Decoder::with_ip(64, window.from(start).unwrap_or(bytes), start, DecoderOptions::NONE);
    let mut at = start;
    while at < end {
        if at.is_multiple_of(16) {
            return Err(Refusal::Immovable);
        }
        let instruction = decoder.decode();
        let padding = matches!(
            instruction.code(),
            Code::Int3 | Code::Nopd | Code::Nopw | Code::Nopq | Code::Nop_rm16 | Code::Nop_rm32 | Code::Nop_rm64
        );
        if !padding {
            return Err(Refusal::Immovable);
        }
        at += instruction.len() as u64;
    }
    Ok(())
}

/// Whether execution that begins at `offset` of the patch raises an exception at once.
fn faults_at(jump: &[u8; JUMP_LEN], offset: u64, overwritten: u64) -> bool {
    match offset {
        2 | 3 => FAULTING.contains(&jump[offset as usize]),
        // The top byte of a distance below 32 MiB downward, with a fill byte behind.
        4 => matches!(jump[4], 0xfe | 0xff) && overwritten > JUMP_LEN as u64,
        _ => false,
    }
}

/// Length of a moved instruction in the trampoline.
fn moved_len(m: &Moved) -> usize {
    match m.instruction.flow_control() {
        FlowControl::ConditionalBranch => 6,
        FlowControl::UnconditionalBranch => JUMP_LEN,
        _ => m.len,
    }
}

type Built = (SmallVec<[u8; 64]>, SmallVec<[Point; 8]>);

/// Generates the trampoline. The `syscall` in front of the point of return is for a restarted call:
/// like everywhere it is found two bytes before.
fn build(
    window: &Window<'_>,
    site: u64,
    trampoline: u64,
    moved: &[Moved],
    back: Option<u64>,
    gate_offset: u32,
) -> Option<Built> {
    let mut code = SmallVec::new();
    let mut points = SmallVec::new();
    let restart = trampoline + ENTER_LEN as u64;
    emit_enter(&mut code, trampoline, restart + 2, gate_offset)?;
    code.extend_from_slice(&[0x0f, 0x05]);
    for at in [trampoline, trampoline + LEA_LEN as u64, restart] {
        points.push(Point { moved: at, original: site });
    }
    for m in moved {
        let at = trampoline + code.len() as u64;
        points.push(Point { moved: at, original: m.address });
        match m.instruction.flow_control() {
            FlowControl::ConditionalBranch => {
                // 7x rel8 or 0F 8x rel32: x is the condition.
                let opcode = *window.get(m.address + if m.len == 2 { 0 } else { 1 }, 1)?.first()?;
                code.extend_from_slice(&[0x0f, 0x80 | (opcode & 0x0f)]);
                code.extend_from_slice(&distance(at + 6, m.instruction.near_branch_target())?.to_le_bytes());
            }
            FlowControl::UnconditionalBranch => {
                code.extend_from_slice(&jump(at, m.instruction.near_branch_target())?);
            }
            _ => {
                let start = code.len();
                code.extend_from_slice(window.get(m.address, m.len)?);
                if let Some(offset) = m.rip_relative {
                    let target = m.instruction.ip_rel_memory_address();
                    let d = distance(at + m.len as u64, target)?.to_le_bytes();
                    code.get_mut(start + offset..start + offset + 4)?.copy_from_slice(&d);
                }
            }
        }
    }
    if let Some(back) = back {
        let at = trampoline + code.len() as u64;
        points.push(Point { moved: at, original: back });
        code.extend_from_slice(&jump(at, back)?);
    }
    Some((code, points))
}
