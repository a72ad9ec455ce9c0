//! Capabilities of a file, capabilities(7): the attribute `security.capability`.

use alloc::vec::Vec;
use uapi::{Errno, Result};

/// Name of the attribute.
pub const NAME: &[u8] = b"security.capability";

/// The first word: revision in the upper byte, and one flag.
const REVISION_1: u32 = 0x0100_0000;
const REVISION_2: u32 = 0x0200_0000;
const REVISION_3: u32 = 0x0300_0000;
const REVISIONS: u32 = 0xff00_0000;
const EFFECTIVE: u32 = 1;

/// Bytes of a value of revision 1, 2 and 3: the last also has the user id of the namespace's root.
const SIZE_1: usize = 12;
const SIZE_2: usize = 20;
const SIZE_3: usize = 24;

/// Capabilities that a program gets from a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileCapability {
    /// Permitted set, a bit each.
    pub permitted: u64,
    /// Inheritable set.
    pub inheritable: u64,
    /// Permitted capabilities become effective at once.
    pub effective: bool,
}

fn word(value: &[u8], index: usize) -> u32 {
    let bytes = value.get(4 * index..4 * index + 4).and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0, u32::from_le_bytes)
}

impl FileCapability {
    /// Reads a value. EINVAL: it is none; `None`: it is for another user namespace.
    pub fn parse(value: &[u8]) -> Result<Option<Self>> {
        let first = word(value, 0);
        let pairs = match (first & REVISIONS, value.len()) {
            (REVISION_1, SIZE_1) => 1,
            (REVISION_2, SIZE_2) => 2,
            (REVISION_3, SIZE_3) if word(value, 5) == 0 => 2,
            (REVISION_3, SIZE_3) => return Ok(None),
            _ => return Err(Errno::EINVAL),
        };
        let set =
            |which: usize| (0..pairs).fold(0u64, |set, i| set | u64::from(word(value, 1 + 2 * i + which)) << (32 * i));
        Ok(Some(Self { permitted: set(0), inheritable: set(1), effective: first & EFFECTIVE != 0 }))
    }
}

/// Checks a value for setxattr(2): revision 2 or 3 without unknown flags. EINVAL.
pub fn check(value: &[u8]) -> Result<()> {
    match (word(value, 0) & !EFFECTIVE, value.len()) {
        (REVISION_2, SIZE_2) | (REVISION_3, SIZE_3) => Ok(()),
        _ => Err(Errno::EINVAL),
    }
}

/// The value for getxattr(2): revision 2 in its own namespace. EINVAL.
pub fn shown(mut value: Vec<u8>) -> Result<Vec<u8>> {
    check(&value)?;
    if value.len() == SIZE_3 && word(&value, 5) == 0 {
        value.truncate(SIZE_2);
        let first = REVISION_2 | word(&value, 0) & EFFECTIVE;
        value.splice(..4, first.to_le_bytes());
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(first: u32, words: &[u32]) -> Vec<u8> {
        core::iter::once(&first).chain(words).flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn sets_of_each_revision() {
        let set = FileCapability { permitted: 5 | 9 << 32, inheritable: 6 | 10 << 32, effective: true };
        assert_eq!(FileCapability::parse(&value(REVISION_2 | 1, &[5, 6, 9, 10])), Ok(Some(set)));
        assert_eq!(FileCapability::parse(&value(REVISION_3 | 1, &[5, 6, 9, 10, 0])), Ok(Some(set)));
        assert_eq!(FileCapability::parse(&value(REVISION_3, &[5, 6, 9, 10, 1000])), Ok(None));
        let short = FileCapability { permitted: 5, inheritable: 6, effective: false };
        assert_eq!(FileCapability::parse(&value(REVISION_1, &[5, 6])), Ok(Some(short)));
    }

    #[test]
    fn what_is_none() {
        for bad in
            [&[][..], &[1, 2], &value(REVISION_2, &[5, 6]), &value(0x0400_0000, &[0; 4]), &value(REVISION_3, &[0; 4])]
        {
            assert_eq!(FileCapability::parse(bad), Err(Errno::EINVAL));
            assert_eq!(check(bad), Err(Errno::EINVAL));
        }
        assert_eq!(check(&value(REVISION_2 | 0x10, &[0; 4])), Err(Errno::EINVAL));
    }

    #[test]
    fn own_namespace_is_shown_without_its_root() {
        assert_eq!(shown(value(REVISION_3 | 1, &[5, 6, 9, 10, 0])), Ok(value(REVISION_2 | 1, &[5, 6, 9, 10])));
        let other = value(REVISION_3, &[5, 6, 9, 10, 7]);
        assert_eq!(shown(other.clone()), Ok(other));
    }
}
