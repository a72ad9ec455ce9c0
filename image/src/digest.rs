//! SHA-256 digests: `sha256:` and 64 hexadecimal digits.

use std::fmt::{self, Display};
use std::str::FromStr;

use sha2::{Digest as _, Sha256};

use crate::error::{Error, Result, excerpt};

/// A SHA-256 digest. Its text is safe as a file name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The digest of some bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The 64 hexadecimal digits.
    pub fn hex(&self) -> String {
        use fmt::Write;
        let mut text = String::with_capacity(64);
        for byte in self.0 {
            // Writing to a string does not fail.
            let _ = write!(text, "{byte:02x}");
        }
        text
    }

    /// The first twelve digits, as listings show them.
    pub fn short(&self) -> String {
        self.hex()[..12].to_owned()
    }

    /// Parses 64 lower-case hexadecimal digits.
    pub(crate) fn from_hex(text: &str) -> Option<Self> {
        let text = text.as_bytes();
        if text.len() != 64 {
            return None;
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Some(Self(bytes))
    }
}

fn digit(character: u8) -> Option<u8> {
    match character {
        b'0'..=b'9' => Some(character - b'0'),
        b'a'..=b'f' => Some(character - b'a' + 10),
        _ => None,
    }
}

impl Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl FromStr for Digest {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        text.strip_prefix("sha256:").and_then(Self::from_hex).ok_or_else(|| {
            Error::new(
                excerpt(text),
                "not a digest that Hull supports",
                "digests are sha256: and 64 hexadecimal digits",
            )
        })
    }
}

/// Computes a digest and a length of bytes that arrive in pieces.
#[derive(Clone, Default)]
pub(crate) struct Hasher {
    state: Sha256,
    length: u64,
}

impl Hasher {
    /// Adds bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.state.update(bytes);
        self.length += bytes.len() as u64;
    }

    /// Digest and number of all bytes.
    pub fn finish(self) -> (Digest, u64) {
        (Digest(self.state.finalize().into()), self.length)
    }
}

/// The chain id of layers, which identifies the file system that they make (OCI image specification, "Layer ChainID").
pub(crate) fn chain(diff_ids: &[Digest]) -> Digest {
    let mut ids = diff_ids.iter();
    // An image without layers: the digest of nothing, which no layer has.
    let first = ids.next().copied().unwrap_or_else(|| Digest::of(b""));
    ids.fold(first, |chain, id| Digest::of(format!("{chain} {id}").as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_have_one_spelling() {
        let text = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(Digest::of(b"").to_string(), text);
        assert_eq!(text.parse::<Digest>().unwrap(), Digest::of(b""));
        for wrong in ["", "sha256:", &text[7..], &text.to_uppercase(), "sha512:00", &format!("{text}0"), "sha256:../x"]
        {
            assert!(wrong.parse::<Digest>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_chain_depends_on_the_order_of_layers() {
        let [a, b] = [Digest::of(b"a"), Digest::of(b"b")];
        assert_eq!(chain(&[a]), a);
        assert_eq!(chain(&[a, b]), Digest::of(format!("{a} {b}").as_bytes()));
        assert_ne!(chain(&[a, b]), chain(&[b, a]));
    }
}
