//! What the bytes around a site say.

use super::{NUMBER_LIMIT, Window};

/// An instruction in front of a site that loads the system call's number.
#[derive(Clone, Copy, Debug)]
pub(super) struct NumberLoad<'a> {
    /// The number.
    pub number: u32,
    /// The instruction.
    pub bytes: &'a [u8],
}

/// Recognises `mov eax, number` or `mov rax, number` in front of the `syscall` at `site`.
pub(super) fn number_load<'a>(window: &Window<'a>, site: u64) -> Option<NumberLoad<'a>> {
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
    // mov eax, imm32, and not the end of a longer instruction: neither a prefix in front (mov r8d,
    // imm32) nor an opcode that has B8 as its ModRM byte or displacement and an immediate behind.
    let before = window.get(site.checked_sub(9)?, 4)?;
    let bytes = window.get(site - 5, 5)?;
    let prefixed = matches!(before[3], 0x40..=0x4f | 0x66);
    let longer = before[1..].iter().any(|b| matches!(b, 0x69 | 0x81 | 0xc7 | 0xf7));
    (bytes[0] == 0xb8 && !prefixed && !longer).then_some(NumberLoad { number, bytes })
}

/// Addresses of `0F 05` in a window; see [`candidates`].
#[derive(Clone, Debug)]
pub struct Candidates<'a> {
    window: Window<'a>,
    next: usize,
}

/// Everything in `window` that looks like a `syscall`; some may be parts of other instructions.
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

/// Whether a direct branch in `window` lands on one of `targets`. Looks at every byte as if an
/// instruction began there, so it may see branches that don't exist, but misses none.
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
        // The displacement first: it hardly ever fits.
        let d = u32::from_le_bytes([d[0], d[1], d[2], d[3]]);
        // The second byte of a conditional near jump counts like a one-byte opcode.
        d.wrapping_add(i as u32 + 4) == target as u32 && matches!(bytes[i - 1], 0xe8 | 0xe9 | 0x80..=0x8f)
    })
}
