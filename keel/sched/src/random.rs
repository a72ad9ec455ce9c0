//! Random bytes: ChaCha20 as a generator, keyed from the host's entropy, rekeyed after each use.

use core::cell::RefCell;
use hal::cell::Global;

/// Bytes of a block.
const BLOCK: usize = 64;

/// ChaCha20, RFC 8439, with a counter of 64 bits.
struct ChaCha {
    key: [u32; 8],
    counter: u64,
}

static STATE: Global<RefCell<Option<ChaCha>>> = Global::new(RefCell::new(None));

fn words(bytes: &[u8]) -> [u32; 8] {
    let mut words = [0; 8];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(4)) {
        *word = bytes.iter().rev().fold(0, |w, b| w << 8 | u32::from(*b));
    }
    words
}

fn quarter(s: &mut [u32; 16], [a, b, c, d]: [usize; 4]) {
    s[a] = s[a].wrapping_add(s[b]);
    s[d] = (s[d] ^ s[a]).rotate_left(16);
    s[c] = s[c].wrapping_add(s[d]);
    s[b] = (s[b] ^ s[c]).rotate_left(12);
    s[a] = s[a].wrapping_add(s[b]);
    s[d] = (s[d] ^ s[a]).rotate_left(8);
    s[c] = s[c].wrapping_add(s[d]);
    s[b] = (s[b] ^ s[c]).rotate_left(7);
}

impl ChaCha {
    /// Seeds the generator from both halves of the host's seed.
    fn seeded() -> Self {
        let seed = hal::boot::boot_info().seed;
        let (first, second) = seed.split_at(32);
        let mut generator = Self { key: words(first), counter: hal::clock::monotonic_ns() };
        let mut block = [0; BLOCK];
        generator.block(&mut block);
        let mixed = words(&block);
        generator.key = core::array::from_fn(|i| mixed[i] ^ words(second)[i]);
        generator
    }

    fn block(&mut self, out: &mut [u8; BLOCK]) {
        let mut s = [0u32; 16];
        s[..4].copy_from_slice(&[0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574]);
        s[4..12].copy_from_slice(&self.key);
        s[12] = self.counter as u32;
        s[13] = (self.counter >> 32) as u32;
        self.counter = self.counter.wrapping_add(1);
        let start = s;
        for _ in 0..10 {
            for column in 0..4 {
                quarter(&mut s, [column, column + 4, column + 8, column + 12]);
            }
            for i in 0..4 {
                quarter(&mut s, [i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4]);
            }
        }
        for ((bytes, end), start) in out.chunks_exact_mut(4).zip(s).zip(start) {
            bytes.copy_from_slice(&end.wrapping_add(start).to_le_bytes());
        }
    }

    fn fill(&mut self, out: &mut [u8]) {
        let mut block = [0; BLOCK];
        for piece in out.chunks_mut(BLOCK) {
            self.block(&mut block);
            piece.copy_from_slice(&block[..piece.len()]);
        }
        // A new key: earlier output can't be computed from a later state.
        self.block(&mut block);
        self.key = words(&block[..32]);
    }
}

/// Fills `out` with random bytes.
pub fn fill(out: &mut [u8]) {
    STATE.borrow_mut().get_or_insert_with(ChaCha::seeded).fill(out);
}

/// Random bytes.
pub fn bytes<const N: usize>() -> [u8; N] {
    let mut out = [0; N];
    fill(&mut out);
    out
}
