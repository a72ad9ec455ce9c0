//! Initial stack of a program: strings, vectors and the auxiliary vector, by the x86-64 ABI.

use alloc::vec::Vec;
use core::ops::Range;
use uapi::raw::auxvec as a;
use uapi::{Errno, Result};

/// Longest string in bytes, including its terminator: MAX_ARG_STRLEN.
const MAX_STRING: usize = 32 * 4096;
/// Minimum room for strings, whatever RLIMIT_STACK is: ARG_MAX.
const MIN_TOTAL: u64 = 32 * 4096;
/// Maximum bytes of strings and pointers: three quarters of the default stack limit.
const MAX_TOTAL: u64 = 6 << 20;
const PLATFORM: &[u8] = b"x86_64\0";

/// Contents of the stack; strings without terminators.
#[derive(Debug)]
pub struct Contents<'a> {
    /// Arguments.
    pub argv: &'a [Vec<u8>],
    /// Environment.
    pub envp: &'a [Vec<u8>],
    /// AT_EXECFN.
    pub filename: &'a [u8],
    /// AT_RANDOM.
    pub random: [u8; 16],
    /// Auxiliary vector without entries that point into the stack and without the terminator.
    pub auxv: Vec<[u64; 2]>,
    /// RLIMIT_STACK in bytes.
    pub limit: u64,
}

/// The stack from the stack pointer to its top.
#[derive(Debug)]
pub struct Image {
    /// Address of the first byte: the stack pointer.
    pub start: usize,
    /// The bytes from there to the top.
    pub bytes: Vec<u8>,
    /// The whole auxiliary vector with its terminator: types and values.
    pub auxv: Vec<u64>,
    /// Addresses of the arguments' strings.
    pub args: Range<usize>,
    /// Addresses of the environment's strings.
    pub env: Range<usize>,
}

/// Builds the initial stack as Linux does: from `top` downward a zero word, the file name, the environment, the
/// arguments, the platform's name, random bytes; then the vectors. `top` is a page's end, more than 16 MiB above 0.
/// E2BIG, ENOMEM.
pub fn build(contents: &Contents<'_>, top: usize) -> Result<Image> {
    let strings = contents.argv.iter().chain(contents.envp);
    let mut total = (contents.argv.len() + contents.envp.len()) as u64 * 8;
    for string in strings.clone() {
        if string.len() >= MAX_STRING {
            return Err(Errno::E2BIG);
        }
        total += string.len() as u64 + 1;
    }
    if total > (contents.limit / 4).clamp(MIN_TOTAL, MAX_TOTAL) || contents.filename.len() >= MAX_STRING {
        return Err(Errno::E2BIG);
    }
    let size = |list: &[Vec<u8>]| list.iter().map(|s| s.len() + 1).sum::<usize>();
    let name = top - 8 - (contents.filename.len() + 1);
    let env = name - size(contents.envp)..name;
    let args = env.start - size(contents.argv)..env.start;
    let platform = (args.start & !15) - PLATFORM.len();
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
    let mut at = args.start;
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
    bytes.resize(args.start - start, 0);
    for string in strings.map(Vec::as_slice).chain([contents.filename]) {
        bytes.extend_from_slice(string);
        bytes.push(0);
    }
    bytes.resize(top - start, 0);
    Ok(Image { start, bytes, auxv, args, env })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOP: usize = 0x7f7f_ffff_f000;

    fn contents<'a>(argv: &'a [Vec<u8>], envp: &'a [Vec<u8>]) -> Contents<'a> {
        Contents { argv, envp, filename: b"/bin/x", random: [7; 16], auxv: [[6, 4096]].into(), limit: 8 << 20 }
    }

    fn string(image: &Image, at: u64) -> &[u8] {
        let rest = &image.bytes[at as usize - image.start..];
        &rest[..rest.iter().position(|b| *b == 0).unwrap()]
    }

    #[test]
    fn a_start_file_finds_everything() {
        let (argv, envp) = ([b"x".to_vec(), b"-y z".to_vec()], [b"A=1".to_vec(), b"".to_vec()]);
        let image = build(&contents(&argv, &envp), TOP).unwrap();
        assert_eq!(image.start % 16, 0);
        assert_eq!(image.start + image.bytes.len(), TOP);
        assert_eq!(image.bytes[image.bytes.len() - 8..], [0; 8]);
        let words: Vec<u64> = image.bytes.as_chunks().0.iter().take(32).map(|b| u64::from_le_bytes(*b)).collect();
        assert_eq!(words[0], 2);
        assert_eq!((string(&image, words[1]), string(&image, words[2]), words[3]), (&b"x"[..], &b"-y z"[..], 0));
        assert_eq!((string(&image, words[4]), string(&image, words[5]), words[6]), (&b"A=1"[..], &b""[..], 0));
        assert_eq!(words[7..7 + image.auxv.len()], image.auxv[..]);
        assert_eq!(image.args, words[1] as usize..words[4] as usize);
        let entry = |kind: u32| image.auxv.chunks(2).find(|p| p[0] == u64::from(kind)).unwrap()[1];
        assert_eq!(entry(a::AT_PAGESZ), 4096);
        assert_eq!(string(&image, entry(a::AT_EXECFN)), b"/bin/x");
        assert_eq!(image.env.end as u64, entry(a::AT_EXECFN));
        assert_eq!(string(&image, entry(a::AT_PLATFORM)), b"x86_64");
        let random = entry(a::AT_RANDOM) as usize - image.start;
        assert_eq!(image.bytes[random..random + 16], [7; 16]);
        assert_eq!(image.auxv[image.auxv.len() - 2..], [0, 0]);
    }

    #[test]
    fn limits_of_strings() {
        let longest = [alloc::vec![b'a'; MAX_STRING - 1]];
        assert!(build(&contents(&longest, &[]), TOP).is_ok());
        let too_long = [alloc::vec![b'a'; MAX_STRING]];
        assert_eq!(build(&contents(&too_long, &[]), TOP).err(), Some(Errno::E2BIG));
        let many = alloc::vec![alloc::vec![b'a'; 100_000]; 21];
        assert_eq!(build(&contents(&many, &[]), TOP).err(), Some(Errno::E2BIG), "a quarter of the stack");
        assert!(build(&contents(&many[..20], &[]), TOP).is_ok());
        let small = Contents { limit: 4096, ..contents(&many[..1], &[]) };
        assert!(build(&small, TOP).is_ok(), "ARG_MAX always fits");
    }
}
