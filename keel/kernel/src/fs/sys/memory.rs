//! `/sys/devices/system/memory`: the pod's memory in blocks, for lsmem.

use super::{constant, dir, link, text};
use alloc::format;
use alloc::vec::Vec;
use uapi::{Errno, Result};
use vfs::FileType;
use vfs::synth::{Entry, SynthDir};

/// Bytes of a block, Linux's least.
const BLOCK: u64 = 128 << 20;

/// The directory.
pub struct Blocks;

/// Blocks that the pod's memory fills or begins.
fn count() -> u64 {
    hal::frame::ram_usage().limit.div_ceil(BLOCK)
}

impl SynthDir for Blocks {
    fn lookup(&self, name: &[u8]) -> Result<Entry> {
        match name {
            b"block_size_bytes" => return Ok(text(|| format!("{BLOCK:x}\n"))),
            b"auto_online_blocks" => return Ok(constant("online\n")),
            _ => {}
        }
        let digits = name.strip_prefix(b"memory").and_then(|d| core::str::from_utf8(d).ok()).ok_or(Errno::ENOENT)?;
        let block: u64 = digits.parse().map_err(|_| Errno::ENOENT)?;
        if block >= count() || format!("{block}") != digits {
            return Err(Errno::ENOENT);
        }
        Ok(dir([
            ("node0", link("../../node/node0")),
            ("online", constant("1\n")),
            ("phys_device", constant("0\n")),
            ("phys_index", text(move || format!("{block:08x}\n"))),
            ("removable", constant("0\n")),
            ("state", constant("online\n")),
            ("uevent", constant("")),
            ("valid_zones", constant("none\n")),
        ]))
    }

    fn list(&self) -> Result<Vec<(Vec<u8>, FileType)>> {
        let mut names: Vec<_> =
            ["auto_online_blocks", "block_size_bytes"].map(|n| (n.as_bytes().to_vec(), FileType::Regular)).into();
        names.extend((0..count()).map(|block| (format!("memory{block}").into_bytes(), FileType::Directory)));
        Ok(names)
    }
}
