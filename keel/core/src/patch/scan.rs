//! Analysis of the bytes around a site.

use super::{NUMBER_LIMIT, RT_SIGRETURN, Window};

/// The instruction in front of a site that loads the system call number.
#[derive(Clone, Copy, Debug)]
pub(super) struct NumberLoad<'a> {
    /// The number.
    pub number: u32,
    /// The instruction.
    pub bytes: &'a [u8],
}

/// Finds `mov eax, number` or `mov rax, number` in front of the `syscall` at `site`, if it is unambiguous: no other
/// instruction could end with these bytes. `seen`: rax had this number at the trap.
pub(super) fn number_load<'a>(window: &Window<'a>, site: u64, seen: bool) -> Option<NumberLoad<'a>> {
    let number = u32::from_le_bytes(window.get(site.checked_sub(4)?, 4)?.try_into().ok()?);
    if number >= NUMBER_LIMIT {
        return None;
    }
    // mov rax, imm32
    if let Some(bytes) = site.checked_sub(7).and_then(|start| window.get(start, 7))
        && bytes[..3] == [0x48, 0xc7, 0xc0]
    {
        return Some(NumberLoad { number, bytes });
    }
    // mov eax, imm32
    let bytes = window.get(site.checked_sub(5)?, 5)?;
    let before: [u8; 6] = window.get(site.checked_sub(11)?, 6)?.try_into().ok()?;
    (bytes[0] == 0xb8 && !has_immediate(before) && !has_displacement(before, seen))
        .then_some(NumberLoad { number, bytes })
}

/// Whether the code in front of the `syscall` at `site` seems to load the number of rt_sigreturn(2).
pub(super) fn loads_sigreturn(window: &Window<'_>, site: u64) -> bool {
    let [low, high] = (RT_SIGRETURN as u16).to_le_bytes();
    let bytes = site.checked_sub(5).and_then(|start| window.get(start, 5));
    bytes.is_some_and(|bytes| matches!(bytes[0], 0xb8 | 0xc0) && bytes[1..] == [low, high, 0, 0])
}

/// Whether B8 and the next four bytes may be the end of an instruction that begins in `before`, with an immediate. May
/// return false positives, never false negatives.
fn has_immediate(before: [u8; 6]) -> bool {
    let [sixth, fifth, fourth, third, second, first] = before;
    // A prefix of `mov r8d, imm32` and such.
    let prefixed = matches!(first, 0x40..=0x4f | 0x66);
    // Of 32 bits, behind ModRM, SIB or a displacement of 8 bits: imul, the first arithmetic group, mov, test.
    let wide = |opcode: u8| matches!(opcode, 0x69 | 0x81 | 0xc7 | 0xf7);
    let behind_address = [first, second, third].into_iter().any(wide);
    // The same behind a displacement of 32 bits, whose highest byte is B8.
    let behind_far = (wide(fifth) && far(fourth, None)) || (wide(sixth) && far(fifth, Some(fourth)));
    // The upper half of 64 bits: movabs, and mov of rax from or to an address.
    let upper_half = matches!((fifth, fourth), (0x48..=0x4f, 0xb8..=0xbf)) || matches!(fourth, 0xa0..=0xa3);
    prefixed || behind_address || behind_far || upper_half
}

/// Whether a ModRM byte, with its SIB byte if it has one, says that a displacement of 32 bits follows.
fn far(modrm: u8, sib: Option<u8>) -> bool {
    match (modrm >> 6, modrm & 7, sib) {
        (2, 4, Some(_)) => true,
        (0, 4, Some(sib)) => sib & 7 == 5,
        (2, rm, None) => rm != 4,
        (0, rm, None) => rm == 5,
        _ => false,
    }
}

/// The same with a displacement.
fn has_displacement(before: [u8; 6], seen: bool) -> bool {
    let [_, fifth, fourth, third, second, first] = before;
    // B8 is a ModRM byte ([rax + disp32]) behind a usual opcode, …
    let one_byte = matches!(
        first,
        0x00..=0x03 | 0x08..=0x0b | 0x10..=0x13 | 0x18..=0x1b | 0x20..=0x23 | 0x28..=0x2b | 0x30..=0x33 | 0x38..=0x3b
            | 0x62 | 0x63 | 0x6b | 0x80..=0x8e | 0xc0 | 0xc1 | 0xd0..=0xd3 | 0xd8..=0xdf | 0xf6
    );
    // … which would have faulted at the address rax + number, unless it accesses no memory (lea), changes rax (idiv),
    // uses r8 instead (REX.B) or a segment with a base.
    let rex_b = matches!(second, 0x40..=0x4f) && second & 1 != 0;
    let based = [second, third].iter().any(|b| matches!(b, 0x64 | 0x65));
    let impossible = seen && !(rex_b || based || matches!(first, 0x8d | 0xf6));
    // … one of the other maps (0F 05 is a system call itself), or one with a VEX or EVEX prefix.
    let two_bytes = (second == 0x0f && first != 0x05) || (third == 0x0f && matches!(second, 0x38 | 0x3a));
    let vector = third == 0xc5 || fourth == 0xc4 || fifth == 0x62;
    // B8 is a SIB byte ([rax + rdi * 4 + disp32]).
    let sib = first & 0xc7 == 0x84;
    // B8 begins the displacement, and an immediate of 8 bits is behind it.
    let small = |opcode: u8| matches!(opcode, 0x6b | 0x80 | 0x83 | 0xc0 | 0xc1 | 0xc6 | 0xf6);
    let other_map = [third, fourth, fifth].into_iter().any(|b| matches!(b, 0x0f | 0x62 | 0xc4 | 0xc5));
    let immediate =
        ((small(second) || other_map) && far(first, None)) || ((small(third) || other_map) && far(second, Some(first)));
    (one_byte && !impossible) || two_bytes || vector || sib || immediate
}

/// Addresses of `0F 05` in a window; see [`candidates`].
#[derive(Clone, Debug)]
pub struct Candidates<'a> {
    window: Window<'a>,
    next: usize,
}

/// All byte sequences in `window` that look like a `syscall`; some may be parts of other instructions.
pub fn candidates<'a>(window: &Window<'a>) -> Candidates<'a> {
    Candidates { window: *window, next: 0 }
}

impl Iterator for Candidates<'_> {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let rest = self.window.bytes.get(self.next..)?;
        let found = rest.windows(2).position(|pair| pair == [0x0f, 0x05])?;
        let at = self.next + found;
        self.next = at + 2;
        Some(self.window.addr + at as u64)
    }
}

/// Whether a direct branch in `window` targets one of `targets`. Decodes a branch at every byte, so it may find false
/// branches, but misses none.
pub(super) fn branches_into(window: &Window<'_>, targets: &[u64]) -> bool {
    targets.iter().any(|&target| {
        let Some(target) = target.checked_sub(window.addr).and_then(|t| usize::try_from(t).ok()) else { return false };
        short_branch_to(window.bytes, target) || near_branch_to(window.bytes, target)
    })
}

/// Jumps with 8-bit displacement, `loop` and `jrcxz`, within their reach of `target`.
fn short_branch_to(bytes: &[u8], target: usize) -> bool {
    let start = target.saturating_sub(129).min(bytes.len());
    let end = target.saturating_add(127).min(bytes.len());
    bytes[start..end].windows(2).enumerate().any(|(i, pair)| {
        matches!(pair[0], 0x70..=0x7f | 0xe0..=0xe3 | 0xeb)
            && (start + i + 2).checked_add_signed(isize::from(pair[1] as i8)) == Some(target)
    })
}

/// Calls and jumps with 32-bit displacement anywhere.
fn near_branch_to(bytes: &[u8], target: usize) -> bool {
    bytes.windows(4).enumerate().skip(1).any(|(i, d)| {
        // Compare the displacement first: it rarely matches.
        let d = u32::from_le_bytes([d[0], d[1], d[2], d[3]]);
        // The second byte of a conditional near jump is handled like a one-byte opcode.
        d.wrapping_add(i as u32 + 4) == target as u32 && matches!(bytes[i - 1], 0xe8 | 0xe9 | 0x80..=0x8f)
    })
}
