//! Random states from a seed.

/// Pseudo-random numbers: xorshift.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        let mut random = Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        (0..8).for_each(|_| {
            random.next();
        });
        random
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        (self.next() >> 16) % limit.max(1)
    }

    /// A typical value of a program, or an address near `middle`.
    pub fn value(&mut self, middle: u64) -> u64 {
        match self.below(8) {
            0 => self.below(16),
            1 => self.next() >> self.below(64),
            2 => (self.below(5000) as i64).wrapping_neg() as u64,
            3 => 1 << self.below(64),
            _ => middle + self.below(1024) * 8 - 4096,
        }
    }

    /// A return value of a system call.
    pub fn result(&mut self, middle: u64) -> u64 {
        match self.below(4) {
            0 => 0,
            1 => (1 + self.below(4097) as i64).wrapping_neg() as u64,
            2 => self.below(1 << 20),
            _ => self.value(middle),
        }
    }
}
