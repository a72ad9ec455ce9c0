//! The first stack of a program: strings, vectors and the auxiliary vector.

use super::Layout;
use alloc::vec::Vec;
use uapi::raw::auxvec as a;
use uapi::{Errno, Result};

/// Longest string in bytes, its terminator included: MAX_ARG_STRLEN.
const MAX_STRING: usize = 32 * 4096;
/// Room that strings always have, whatever RLIMIT_STACK says: ARG_MAX.
const MIN_TOTAL: u64 = 32 * 4096;
/// Most bytes of strings and pointers: three quarters of the default stack limit.
const MAX_TOTAL: u64 = 6 << 20;
const PLATFORM: &[u8] = b"x86_64\0";

/// What the stack holds at the start.
pub(super) struct Contents<'a> {
    pub argv: &'a [Vec<u8>],
    pub envp: &'a [Vec<u8>],
    pub filename: &'a [u8],
    /// AT_RANDOM.
    pub random: [u8; 16],
    /// Auxiliary vector without what lies on the stack itself and without the terminator.
    pub auxv: Vec<[u64; 2]>,
    /// RLIMIT_STACK in bytes.
    pub limit: u64,
}

/// The bytes from the stack pointer to the stack's top.
pub(super) struct Image {
    /// Address of the first byte: the stack pointer.
    pub start: usize,
    pub bytes: Vec<u8>,
    /// The whole auxiliary vector.
    pub auxv: Vec<u64>,
}

/// Lays the first stack out, as Linux does: from `top` down a zero word, the file name, the environment,
/// the arguments, the platform's name, random bytes; then the vectors. E2BIG.
pub(super) fn build(contents: &Contents<'_>, top: usize, layout: &mut Layout) -> Result<Image> {
    let strings = contents.argv.iter().chain(contents.envp);
    let mut total = (contents.argv.len() + contents.envp.len()) as u64 * 8;
    for string in strings.clone() {
        if string.len() >= MAX_STRING {
            return Err(Errno::E2BIG);
        }
        total += string.len() as u64 + 1;
    }
    if total > (contents.limit / 4).min(MAX_TOTAL).max(MIN_TOTAL) || contents.filename.len() >= MAX_STRING {
        return Err(Errno::E2BIG);
    }
    let size = |list: &[Vec<u8>]| list.iter().map(|s| s.len() + 1).sum::<usize>();
    let name = top - 8 - (contents.filename.len() + 1);
    layout.env_end = name;
    layout.env_start = layout.env_end - size(contents.envp);
    layout.arg_end = layout.env_start;
    layout.arg_start = layout.arg_end - size(contents.argv);
    let platform = (layout.arg_start & !15) - PLATFORM.len();
    let random = platform - 16;

    let mut auxv = Vec::new();
    for [kind, value] in &contents.auxv {
        auxv.extend([*kind, *value]);
    }
    for (kind, value) in [(a::AT_RANDOM, random), (a::AT_EXECFN, name), (a::AT_PLATFORM, platform)] {
        auxv.extend([u64::from(kind), value as u64]);
    }
    auxv.extend([0, 0]);

    let words = 1 + contents.argv.len() + 1 + contents.envp.len() + 1 + auxv.len();
    let start = (random - words * 8) & !15;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(top - start).map_err(|_| Errno::ENOMEM)?;
    let word = |bytes: &mut Vec<u8>, value: u64| bytes.extend_from_slice(&value.to_le_bytes());
    word(&mut bytes, contents.argv.len() as u64);
    let mut at = layout.arg_start;
    for list in [contents.argv, contents.envp] {
        for string in list {
            word(&mut bytes, at as u64);
            at += string.len() + 1;
        }
        word(&mut bytes, 0);
    }
    for value in &auxv {
        word(&mut bytes, *value);
    }
    bytes.resize(random - start, 0);
    bytes.extend_from_slice(&contents.random);
    bytes.extend_from_slice(PLATFORM);
    bytes.resize(layout.arg_start - start, 0);
    for string in strings.map(Vec::as_slice).chain([contents.filename]) {
        bytes.extend_from_slice(string);
        bytes.push(0);
    }
    bytes.resize(top - start, 0);
    layout.start_stack = start;
    Ok(Image { start, bytes, auxv })
}
