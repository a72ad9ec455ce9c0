//! Patches that cover the `syscall` and the instructions behind it.

use super::decode::{Instruction, Kind, decode, reads_flags};
use super::{
    Area, CALL_LEN, ENTER_LEN, Form, JUMP_LEN, PAGE, Patch, Planned, Point, Refusal, SYSCALL, TrampolineCode, Window,
    distance, emit_gate, emit_rcx, jump, scan,
};
use smallvec::SmallVec;

/// One-byte opcodes that are undefined in 64-bit mode, and `int3`. D5 is missing because newer processors define it
/// (REX2).
const FAULTING: [u8; 20] = [
    0xcc, 0x06, 0x07, 0x0e, 0x16, 0x17, 0x1e, 0x1f, 0x27, 0x2f, 0x37, 0x3f, 0x60, 0x61, 0x82, 0x9a, 0xce, 0xd4, 0xd6,
    0xea,
];
/// [`FAULTING`] by opcode.
const IS_FAULTING: [bool; 256] = {
    let mut table = [false; 256];
    let mut i = 0;
    while i < FAULTING.len() {
        table[FAULTING[i] as usize] = true;
        i += 1;
    }
    table
};
/// Fills the remaining bytes of moved instructions: undefined as an opcode, and as ModRM byte after FE or FF. There it
/// encodes a register operand: a memory operand might fault before the opcode does.
const FILL: u8 = 0xea;

/// Plans [`Form::Displace`].
pub(super) fn plan(
    window: &Window<'_>,
    site: u64,
    area: &mut Area,
    gate_offset: u32,
    thorough: bool,
) -> Result<Planned, Refusal> {
    let moved = covered(window, site + 2, thorough)?;
    let end = moved.last().map_or(site + 2, Instruction::end);
    let covered_end = end.max(site + JUMP_LEN as u64);
    let flow_ends = moved.last().is_some_and(Instruction::ends_flow);
    check_padding(window, end, covered_end)?;
    let boundaries: SmallVec<[u64; 4]> =
        moved.iter().map(|m| m.address).filter(|address| *address < site + JUMP_LEN as u64).collect();
    // If an instruction begins at the last byte of the jump, a fill byte must follow.
    let filled = boundaries.contains(&(site + 4));
    let overwritten = covered_end.min(site + JUMP_LEN as u64 + u64::from(filled));
    if site / PAGE != (overwritten - 1) / PAGE {
        return Err(Refusal::CrossesPage);
    }
    if scan::branches_into(window, &boundaries) {
        return Err(Refusal::BranchTarget);
    }

    let len = CALL_LEN + moved.iter().map(Instruction::moved_len).sum::<usize>() + if flow_ends { 0 } else { JUMP_LEN };
    let faults = |trampoline: u64| {
        let Some(jump) = jump(site, trampoline) else { return false };
        boundaries.iter().all(|&b| faults_at(&jump, b - site, overwritten - site))
    };
    let trampoline = area.take(len, faults).ok_or(Refusal::NoRoom)?;
    let back = (!flow_ends).then_some(end);
    let planned = build(window, site, trampoline, &moved, back, gate_offset).and_then(|(code, points)| {
        let mut bytes = SmallVec::from_slice(&jump(site, trampoline)?);
        bytes.resize((overwritten - site) as usize, FILL);
        debug_assert_eq!(code.len(), len);
        let len = u8::try_from(len).ok()?;
        let patch = Patch { site, at: site, end: covered_end, trampoline, form: Form::Displace, len, bytes, points };
        Some(Planned { patch, code })
    });
    planned.ok_or_else(|| {
        area.give_back(trampoline, len);
        Refusal::NoRoom
    })
}

/// The instructions that a jump at `start - 2` covers. If they include the load of a number for an adjacent `syscall`,
/// that is covered too: it has no room for a separate jump.
fn covered(window: &Window<'_>, start: u64, thorough: bool) -> Result<SmallVec<[Instruction; 4]>, Refusal> {
    let mut moved = SmallVec::<[Instruction; 4]>::new();
    let mut address = start;
    let more = |moved: &[Instruction]| match moved.last() {
        None => true,
        Some(last) if last.ends_flow() => false,
        Some(last) => last.end() < start + (JUMP_LEN - 2) as u64 || loads_number(window, last),
    };
    while more(&moved) {
        let instruction = decode(window, address, thorough)?;
        if instruction.kind == Kind::Call {
            if scan::loads_sigreturn(window, address) {
                return Err(Refusal::Sigreturn);
            }
            if reads_flags(window, instruction.end(), thorough) {
                return Err(Refusal::FlagsUsed);
            }
        }
        moved.push(instruction);
        address = instruction.end();
    }
    Ok(moved)
}

/// Whether a `syscall` follows `last`, and `last` is the instruction that loads its number.
fn loads_number(window: &Window<'_>, last: &Instruction) -> bool {
    let load = window.get(last.address, last.len);
    window.get(last.end(), SYSCALL.len()) == Some(&SYSCALL)
        && load.is_some_and(|bytes| matches!(bytes, [0xb8, _, _, _, _] | [0x48, 0xc7, 0xc0, _, _, _, _]))
        && !scan::branches_into(window, &[last.end()])
}

/// Checks that padding follows the end of a function, and that no function begins in it.
fn check_padding(window: &Window<'_>, start: u64, end: u64) -> Result<(), Refusal> {
    let Some(len) = end.checked_sub(start).filter(|len| *len > 0) else { return Ok(()) };
    let bytes = window.get(start, len as usize).ok_or(Refusal::NotASite)?;
    // At most two bytes are needed, which a multi-byte `nop` has.
    let padding = bytes.iter().all(|b| matches!(b, 0x90 | 0xcc)) || begins_nop(window, start);
    let entry = (start..end).any(|at| at.is_multiple_of(16));
    if padding && !entry { Ok(()) } else { Err(Refusal::Immovable) }
}

/// Whether a multi-byte `nop` is at `start`: prefixes 66 and 2E, then 90 or 0F 1F /0.
fn begins_nop(window: &Window<'_>, start: u64) -> bool {
    let Some(bytes) = window.from(start) else { return false };
    let prefixes = bytes.iter().take_while(|b| matches!(b, 0x66 | 0x2e)).count();
    match bytes.get(prefixes..) {
        Some([0x90, ..]) => true,
        Some([0x0f, 0x1f, modrm, ..]) => modrm & 0x38 == 0,
        _ => false,
    }
}

/// Whether execution that begins at `offset` of the patch raises an exception at once.
fn faults_at(jump: &[u8; JUMP_LEN], offset: u64, overwritten: u64) -> bool {
    match offset {
        2 | 3 => IS_FAULTING[usize::from(jump[offset as usize])],
        // The top byte of a distance below 32 MiB downward, with a fill byte behind.
        4 => matches!(jump[4], 0xfe | 0xff) && overwritten > JUMP_LEN as u64,
        _ => false,
    }
}

type Built = (TrampolineCode, SmallVec<[Point; 8]>);

/// Generates the trampoline.
fn build(
    window: &Window<'_>,
    site: u64,
    trampoline: u64,
    moved: &[Instruction],
    back: Option<u64>,
    gate_offset: u32,
) -> Option<Built> {
    let mut code = TrampolineCode::new();
    let mut points = SmallVec::new();
    let mut point = |code: &TrampolineCode, original: u64, entry: bool| {
        let original = i8::try_from(original.wrapping_sub(site) as i64).ok()?;
        points.push(Point { moved: u8::try_from(code.len()).ok()?, original, entry });
        Some(())
    };
    let call = Instruction { address: site, len: SYSCALL.len(), kind: Kind::Call };
    for m in core::iter::once(&call).chain(moved) {
        let at = trampoline + code.len() as u64;
        point(&code, m.address, true)?;
        match m.kind {
            // The `syscall` in front of the point of return is for a restarted call: like everywhere it
            // is found two bytes before. Behind it rcx gets what a `syscall` at its old place would have
            // left there.
            Kind::Call => {
                let return_at = at + (ENTER_LEN + SYSCALL.len()) as u64;
                emit_rcx(&mut code, at, return_at)?;
                point(&code, m.address, false)?;
                emit_gate(&mut code, gate_offset);
                point(&code, m.address, false)?;
                code.extend_from_slice(&SYSCALL);
                point(&code, m.end(), false)?;
                emit_rcx(&mut code, return_at, m.end())?;
            }
            Kind::Conditional(condition, target) => {
                code.extend_from_slice(&[0x0f, 0x80 | condition]);
                code.extend_from_slice(&distance(at + 6, target)?.to_le_bytes());
            }
            Kind::Jump(target) => code.extend_from_slice(&jump(at, target)?),
            Kind::Plain | Kind::Return => code.extend_from_slice(window.get(m.address, m.len)?),
            Kind::RipRelative(offset, target) => {
                let start = code.len();
                code.extend_from_slice(window.get(m.address, m.len)?);
                let d = distance(at + m.len as u64, target)?.to_le_bytes();
                code.get_mut(start + offset..start + offset + 4)?.copy_from_slice(&d);
            }
        }
    }
    if let Some(back) = back {
        let at = trampoline + code.len() as u64;
        point(&code, back, true)?;
        code.extend_from_slice(&jump(at, back)?);
    }
    Some((code, points))
}
