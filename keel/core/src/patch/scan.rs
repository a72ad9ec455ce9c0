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
    let (Some(&first), Some(&last)) = (targets.iter().min(), targets.iter().max()) else { return false };
    let hit = |target: u64| (first..=last).contains(&target) && targets.contains(&target);
    window.bytes.iter().enumerate().any(|(i, &opcode)| {
        let at = window.addr + i as u64;
        match opcode {
            0x70..=0x7f | 0xe0..=0xe3 | 0xeb => {
                window.bytes.get(i + 1).is_some_and(|&d| hit((at + 2).wrapping_add_signed(i64::from(d as i8))))
            }
            // The second byte of a conditional near jump counts like a one-byte opcode.
            0xe8 | 0xe9 | 0x80..=0x8f => window.bytes.get(i + 1..i + 5).is_some_and(|d| {
                let d = i32::from_le_bytes([d[0], d[1], d[2], d[3]]);
                hit((at + 5).wrapping_add_signed(i64::from(d)))
            }),
            _ => false,
        }
    })
}
