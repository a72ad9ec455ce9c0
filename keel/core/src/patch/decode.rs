//! Instruction decoding, as needed to move instructions.

use super::{CALL_LEN, JUMP_LEN, Refusal, SYSCALL, Window};
use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Register, RflagsBits};

/// Maximum length of an instruction in bytes.
const MAX_LEN: usize = 15;

/// How to move an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Unchanged.
    Plain,
    /// With a new displacement at this offset; the operand's address.
    RipRelative(usize, u64),
    /// A conditional jump: low half of its opcode, and its target.
    Conditional(u8, u64),
    /// A jump to this address.
    Jump(u64),
    /// `ret`.
    Return,
    /// Another `syscall`.
    Call,
}

/// An instruction to move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Instruction {
    /// Its address.
    pub address: u64,
    /// Its length in bytes.
    pub len: usize,
    /// How to move it.
    pub kind: Kind,
}

impl Instruction {
    /// First byte behind it.
    pub fn end(&self) -> u64 {
        self.address + self.len as u64
    }

    /// Whether execution never continues at the next instruction.
    pub fn ends_flow(&self) -> bool {
        matches!(self.kind, Kind::Return | Kind::Jump(_))
    }

    /// Its length after the move.
    pub fn moved_len(&self) -> usize {
        match self.kind {
            Kind::Conditional(..) => 6,
            Kind::Jump(_) => JUMP_LEN,
            Kind::Call => CALL_LEN,
            _ => self.len,
        }
    }
}

/// Decodes one instruction. `thorough` allows the full decoder, whose first use builds its tables and takes most of a
/// millisecond; without it only common instructions after system calls are decoded.
pub(super) fn decode(window: &Window<'_>, address: u64, thorough: bool) -> Result<Instruction, Refusal> {
    let bytes = window.from(address).ok_or(Refusal::NotASite)?;
    if bytes.starts_with(&SYSCALL) {
        return Ok(Instruction { address, len: SYSCALL.len(), kind: Kind::Call });
    }
    match usual(bytes, address) {
        Some(instruction) => Ok(instruction),
        None if thorough => any(bytes, address).ok_or(Refusal::Immovable),
        None => Err(Refusal::Unusual),
    }
}

/// Decodes comparisons and moves of registers, comparisons with constants, `ret` and jumps.
pub(super) fn usual(bytes: &[u8], address: u64) -> Option<Instruction> {
    let rex = usize::from(matches!(bytes.first()?, 0x40..=0x4f));
    let registers = |at: usize| bytes.get(at).is_some_and(|modrm| *modrm >= 0xc0);
    let short = || Some(i64::from(*bytes.get(1)? as i8));
    let near = |at: usize| Some(i64::from(i32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?)));
    let behind = |len: u64, d: i64| address.wrapping_add(len).wrapping_add_signed(d);
    let (len, kind) = match (bytes.get(rex)?, rex) {
        // cmp eax, imm32
        (0x3d, _) => (rex + 5, Kind::Plain),
        // add, sub, xor, cmp, test, mov between registers
        (0x01 | 0x29 | 0x31 | 0x39 | 0x85 | 0x89 | 0x8b, _) if registers(rex + 1) => (rex + 2, Kind::Plain),
        // cmp and such with a small constant
        (0x83, _) if registers(rex + 1) => (rex + 3, Kind::Plain),
        // mov r32, imm32; with REX.W the constant is longer.
        (0xb8..=0xbf, _) if !matches!(bytes.first()?, 0x48..=0x4f) => (rex + 5, Kind::Plain),
        (0xc3, 0) => (1, Kind::Return),
        (opcode @ 0x70..=0x7f, 0) => (2, Kind::Conditional(opcode & 0x0f, behind(2, short()?))),
        (0xeb, 0) => (2, Kind::Jump(behind(2, short()?))),
        (0xe9, 0) => (5, Kind::Jump(behind(5, near(1)?))),
        (0x0f, 0) => match bytes.get(1)? {
            opcode @ 0x80..=0x8f => (6, Kind::Conditional(opcode & 0x0f, behind(6, near(2)?))),
            _ => return None,
        },
        _ => return None,
    };
    (bytes.len() >= len).then_some(Instruction { address, len, kind })
}

/// Whether the code at `address` reads the flags that a system call leaves: Linux preserves them, the gate doesn't.
/// Examines a few instructions, as far as [`usual`] can decode them, or the full decoder if `thorough`.
pub(super) fn reads_flags(window: &Window<'_>, mut address: u64, thorough: bool) -> bool {
    for _ in 0..4 {
        let Some(bytes) = window.from(address) else { return false };
        let rex = usize::from(matches!(bytes.first(), Some(0x40..=0x4f)));
        let opcode = bytes.get(rex).copied().unwrap_or(0);
        let second = bytes.get(rex + 1).copied().unwrap_or(0);
        match opcode {
            // cmovcc, jcc, setcc
            0x0f if matches!(second, 0x40..=0x4f | 0x80..=0x9f) => return true,
            // jcc, adc, sbb, pushf, lahf, loope, loopne, cmc
            0x70..=0x7f | 0x10..=0x15 | 0x18..=0x1d | 0x9c | 0x9f | 0xe0 | 0xe1 | 0xf5 => return true,
            // adc, sbb, rcl, rcr
            0x80 | 0x81 | 0x83 | 0xc0 | 0xc1 | 0xd0..=0xd3 if matches!(second >> 3 & 7, 2 | 3) => return true,
            _ => {}
        }
        match usual(bytes, address) {
            Some(Instruction { kind: Kind::Jump(target), .. }) => address = target,
            // mov changes no flags; all other common instructions set them.
            Some(mov) if matches!(opcode, 0x89 | 0x8b | 0xb8..=0xbf) => address = mov.end(),
            None if thorough && !bytes.starts_with(&SYSCALL) => return reads_flags_thoroughly(window, address),
            _ => return false,
        }
    }
    false
}

/// The same with the full decoder.
fn reads_flags_thoroughly(window: &Window<'_>, mut address: u64) -> bool {
    let mut written = 0;
    for _ in 0..4 {
        let Some(bytes) = window.from(address) else { return false };
        let instruction = Decoder::with_ip(64, bytes, address, DecoderOptions::NONE).decode();
        // A further system call preserves them: the check of its own site applies.
        if instruction.code() == Code::Syscall {
            return false;
        }
        if instruction.rflags_read() & STATUS & !written != 0 {
            return true;
        }
        written |= instruction.rflags_modified();
        match instruction.flow_control() {
            FlowControl::Next => address = instruction.next_ip(),
            _ => return false,
        }
    }
    false
}

/// The flags of arithmetic.
const STATUS: u32 = RflagsBits::OF | RflagsBits::SF | RflagsBits::ZF | RflagsBits::AF | RflagsBits::CF | RflagsBits::PF;

/// Decodes any instruction; `None` if it can't be moved.
pub(super) fn any(bytes: &[u8], address: u64) -> Option<Instruction> {
    let bytes = bytes.get(..MAX_LEN).unwrap_or(bytes);
    let mut decoder = Decoder::with_ip(64, bytes, address, DecoderOptions::NONE);
    let instruction = decoder.decode();
    if instruction.is_invalid() || instruction.memory_base() == Register::EIP {
        return None;
    }
    let len = instruction.len();
    let kind = match instruction.flow_control() {
        FlowControl::Next if instruction.is_ip_rel_memory_operand() => {
            let offset = decoder.get_constant_offsets(&instruction).displacement_offset();
            Kind::RipRelative(offset, instruction.ip_rel_memory_address())
        }
        FlowControl::Next => Kind::Plain,
        // Prefixed jumps are not moved: a prefix changes the displacement's size or has no effect.
        FlowControl::ConditionalBranch if instruction.is_jcc_short_or_near() && matches!(len, 2 | 6) => {
            let opcode = *bytes.get(if len == 2 { 0 } else { 1 })?;
            Kind::Conditional(opcode & 0x0f, instruction.near_branch_target())
        }
        FlowControl::UnconditionalBranch if instruction.is_jmp_short_or_near() && matches!(len, 2 | 5) => {
            Kind::Jump(instruction.near_branch_target())
        }
        FlowControl::Return if instruction.code() == Code::Retnq => Kind::Return,
        _ => return None,
    };
    Some(Instruction { address, len, kind })
}
