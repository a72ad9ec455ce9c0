//! CRC-32C (Castagnoli), as file systems use it.

/// The polynomial, bits reversed.
const POLYNOMIAL: u32 = 0x82f6_3b78;

const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let mut value = index as u32;
        let mut bit = 0;
        while bit < 8 {
            value = value >> 1 ^ if value & 1 == 1 { POLYNOMIAL } else { 0 };
            bit += 1;
        }
        table[index] = value;
        index += 1;
    }
    table
};

/// A checksum in the making.
#[derive(Clone, Copy, Debug)]
pub struct Sum(u32);

impl Default for Sum {
    fn default() -> Self {
        Self(u32::MAX)
    }
}

impl Sum {
    /// Adds bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |sum, &byte| sum >> 8 ^ TABLE[usize::from(sum as u8 ^ byte)]);
    }

    /// The sum without the inversion that ends a CRC-32C.
    pub fn raw(self) -> u32 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_value() {
        let mut sum = Sum::default();
        sum.add(b"1234");
        sum.add(b"56789");
        assert_eq!(!sum.raw(), 0xe306_9283);
    }
}
