//! `attr`: labels of security modules, of which there are none.

use super::subject::Subject;
use alloc::vec::Vec;
use uapi::{Errno, Result};
use vfs::FileType;
use vfs::synth::{Entry, SynthDir, SynthFile};

const NAMES: [(&str, u32); 6] = [
    ("current", 0o666),
    ("exec", 0o666),
    ("fscreate", 0o666),
    ("keycreate", 0o666),
    ("prev", 0o444),
    ("sockcreate", 0o666),
];

/// The directory.
pub struct Labels(pub Subject);

impl SynthDir for Labels {
    fn lookup(&self, name: &[u8]) -> Result<Entry> {
        let (_, mode) = NAMES.iter().find(|(n, _)| n.as_bytes() == name).ok_or(Errno::ENOENT)?;
        let (uid, gid) = self.0.owner(false);
        Ok(Entry::file(*mode, Label).owned(uid, gid))
    }

    fn list(&self) -> Result<Vec<(Vec<u8>, FileType)>> {
        Ok(NAMES.iter().map(|(name, _)| (name.as_bytes().to_vec(), FileType::Regular)).collect())
    }
}

/// An attribute without a security module: EINVAL, as on Linux.
struct Label;

impl SynthFile for Label {
    fn content(&self) -> Result<Vec<u8>> {
        Err(Errno::EINVAL)
    }
}
