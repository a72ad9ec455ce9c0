//! Paths beneath an export, as sent by the guest.

use super::super::{Errno, Result};

/// Longest path in bytes, without a terminating zero (Linux `PATH_MAX` counts it).
pub const MAX_PATH: usize = 4095;
/// Longest component in bytes.
pub const MAX_NAME: usize = 255;

/// A relative path of plain names: no empty component, no `.` or `..`, no zero byte, within Linux's limits. Empty: the
/// directory itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RelPath<'a>(&'a [u8]);

impl<'a> RelPath<'a> {
    /// Checks `bytes`: EINVAL if malformed, ENAMETOOLONG if too long.
    pub fn new(bytes: &'a [u8]) -> Result<Self> {
        if bytes.len() > MAX_PATH {
            return Err(Errno::NAMETOOLONG);
        }
        if bytes.is_empty() {
            return Ok(Self(bytes));
        }
        for name in bytes.split(|&byte| byte == b'/') {
            if name.is_empty() || name == b"." || name == b".." || name.contains(&0) {
                return Err(Errno::INVAL);
            }
            if name.len() > MAX_NAME {
                return Err(Errno::NAMETOOLONG);
            }
        }
        Ok(Self(bytes))
    }

    /// The directory itself.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The bytes, `a/b/c`.
    pub fn bytes(&self) -> &'a [u8] {
        self.0
    }

    /// The components in order; none for the empty path.
    pub fn names(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let count = if self.0.is_empty() { 0 } else { usize::MAX };
        self.0.split(|&byte| byte == b'/').take(count)
    }

    /// The components after the first `known` bytes, which end with a component (0: all), each with the path up to it.
    pub fn steps(&self, known: usize) -> impl Iterator<Item = (&'a [u8], Self)> + use<'a> {
        let path = self.0;
        let mut at = known;
        std::iter::from_fn(move || {
            let start = if at == 0 { 0 } else { at + 1 };
            let rest = path.get(start..).filter(|rest| !rest.is_empty())?;
            let end = start + rest.iter().position(|&byte| byte == b'/').unwrap_or(rest.len());
            at = end;
            Some((path.get(start..end)?, Self(path.get(..end)?)))
        })
    }

    /// The parent's path and the last component; `None` for the empty path.
    pub fn split_last(&self) -> Option<(Self, &'a [u8])> {
        if self.0.is_empty() {
            return None;
        }
        let empty: &[u8] = &[];
        match self.0.iter().rposition(|&byte| byte == b'/') {
            Some(at) => Some((Self(self.0.get(..at)?), self.0.get(at + 1..)?)),
            None => Some((Self(empty), self.0)),
        }
    }

    /// The path of the first `count` components, and the rest; if there are fewer, all and an empty path.
    pub fn split_names(&self, count: usize) -> (Self, Self) {
        let empty: &[u8] = &[];
        if count == 0 {
            return (Self(empty), *self);
        }
        let mut slashes = self.0.iter().enumerate().filter(|&(_, &byte)| byte == b'/').map(|(at, _)| at);
        match slashes.nth(count - 1) {
            Some(at) => (Self(self.0.get(..at).unwrap_or_default()), Self(self.0.get(at + 1..).unwrap_or_default())),
            None => (*self, Self(empty)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_paths_are_refused() {
        let long = [b'a'; 256];
        let longer = b"ab/".repeat(1400);
        for bad in [&b"/"[..], b"/a", b"a/", b"a//b", b".", b"..", b"a/..", b"../a", b"a/./b", b"a\0b", b"\0"] {
            assert_eq!(RelPath::new(bad), Err(Errno::INVAL), "{bad:?}");
        }
        assert_eq!(RelPath::new(&long), Err(Errno::NAMETOOLONG));
        assert_eq!(RelPath::new(&longer), Err(Errno::NAMETOOLONG));
    }

    #[test]
    fn paths_split() {
        let path = RelPath::new(b"a/...b/\xff").unwrap();
        assert_eq!(path.names().collect::<Vec<_>>(), [&b"a"[..], b"...b", b"\xff"]);
        let (parent, name) = path.split_last().unwrap();
        assert_eq!((parent.bytes(), name), (&b"a/...b"[..], &b"\xff"[..]));
        let (head, tail) = path.split_names(1);
        assert_eq!((head.bytes(), tail.bytes()), (&b"a"[..], &b"...b/\xff"[..]));
        let steps = |known| path.steps(known).map(|(name, so_far)| (name, so_far.bytes())).collect::<Vec<_>>();
        assert_eq!(steps(0), [(&b"a"[..], &b"a"[..]), (b"...b", b"a/...b"), (b"\xff", b"a/...b/\xff")]);
        assert_eq!(steps(6), [(&b"\xff"[..], &b"a/...b/\xff"[..])]);
        assert_eq!(steps(8), []);
        assert_eq!(path.split_names(0).1, path);
        assert_eq!(path.split_names(3).0, path);
        assert_eq!(path.split_names(usize::MAX).0, path);
        let empty = RelPath::new(b"").unwrap();
        assert_eq!(empty.names().count(), 0);
        assert_eq!(empty.steps(0).count(), 0);
        assert!(empty.split_last().is_none());
    }

    proptest::proptest! {
        #[test]
        fn accepted_paths_are_plain(bytes in proptest::collection::vec(proptest::sample::select(b"a./b\0\xff".to_vec()), 0..40)) {
            if let Ok(path) = RelPath::new(&bytes) {
                let names: Vec<_> = path.names().collect();
                proptest::prop_assert_eq!(names.join(&b'/'), bytes.clone());
                for name in &names {
                    let bad = name.is_empty() || *name == b"." || *name == b".." || name.contains(&0) || name.contains(&b'/');
                    proptest::prop_assert!(!bad);
                }
                for count in 0..=names.len() + 1 {
                    let (head, tail) = path.split_names(count);
                    let count = count.min(names.len());
                    proptest::prop_assert_eq!(head.names().collect::<Vec<_>>(), names[..count].to_vec());
                    proptest::prop_assert_eq!(tail.names().collect::<Vec<_>>(), names[count..].to_vec());
                }
                if let Some((parent, name)) = path.split_last() {
                    proptest::prop_assert_eq!(parent.names().chain([name]).collect::<Vec<_>>(), names);
                }
            }
        }
    }
}
