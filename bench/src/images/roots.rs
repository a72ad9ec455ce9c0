//! What images are made of.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use anyhow::Result;

use super::{output, path};
use crate::place::{STATIC, write_program};
use crate::workload::tree;

const MIB: usize = 1 << 20;
/// Size of the file `/data/big`.
const BIG: usize = 64 * MIB;
/// Files of the archive that is loaded, and bytes of each: half of its bytes are in small files.
const SMALL: (usize, usize) = (30_000, 16 << 10);
const LARGE: (usize, usize) = (16, 30 * MIB);

/// The program that does nothing.
pub fn small(root: &Path) -> Result<()> {
    // crun mounts at the latter.
    for directory in ["bin", "dev", "proc", "sys"] {
        fs::create_dir_all(root.join(directory))?;
    }
    write_program(&root.join("bin/true"), STATIC)
}

/// Programs of the host, with this binary at `/bench/hull` and the program that does nothing at `/bench/static`.
fn of_host(root: &Path, hull: &Path, programs: &[&str]) -> Result<()> {
    let script = include_str!("root.sh");
    output(Command::new("sh").args(["-c", script, "root.sh"]).arg(root).arg(hull).args(programs))?;
    write_program(&root.join("bench/static"), STATIC)
}

/// A shell and this binary, for containers of other runtimes.
pub fn shell(root: &Path, hull: &Path) -> Result<()> {
    of_host(root, hull, &[])
}

/// python, node, java and git, as far as they are installed, and a repository.
pub fn programs(root: &Path, hull: &Path, repository: &Path) -> Result<()> {
    let all = ["/usr/bin/python3", "/usr/bin/node", "/usr/bin/java", "/usr/bin/git"];
    let installed: Vec<&str> = all.into_iter().filter(|program| Path::new(program).exists()).collect();
    of_host(root, hull, &installed)?;
    output(Command::new("cp").args(["-a", path(repository)?, path(&root.join("bench"))?]))?;
    Ok(())
}

/// `/data`: a tree of files, `big`, and `parts` of 1 MiB.
pub fn files(root: &Path, hull: &Path) -> Result<()> {
    of_host(root, hull, &["/usr/bin/find", "/usr/bin/tar"])?;
    let (data, mut bytes) = (root.join("data"), Bytes::new());
    for directory in 0..tree::DIRECTORIES {
        let directory = data.join(directory.to_string());
        fs::create_dir_all(&directory)?;
        for file in 0..tree::FILES {
            fs::write(directory.join(file.to_string()), bytes.next(64 + 151 * file as usize % 8000))?;
        }
    }
    fs::write(data.join("big"), bytes.next(BIG))?;
    fs::create_dir(data.join("parts"))?;
    for part in 0..32 {
        fs::write(data.join("parts").join(part.to_string()), bytes.next(MIB))?;
    }
    Ok(())
}

/// What the archive has that is loaded: 1 GB.
pub fn data(root: &Path) -> Result<()> {
    let mut bytes = Bytes::new();
    for number in 0..SMALL.0 {
        let directory = root.join((number / 100).to_string());
        fs::create_dir_all(&directory)?;
        fs::write(directory.join((number % 100).to_string()), bytes.next(SMALL.1))?;
    }
    for number in 0..LARGE.0 {
        let mut file = fs::File::create(root.join(format!("large-{number}")))?;
        file.write_all(&bytes.next(LARGE.1))?;
    }
    Ok(())
}

/// Bytes that are the same in each run, and that compressors halve.
struct Bytes(u64);

impl Bytes {
    fn new() -> Self {
        Self(88_172_645_463_325_252)
    }

    fn next(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(count + 8);
        while bytes.len() < count {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            let [a, b, c, d, ..] = self.0.to_le_bytes();
            bytes.extend([a, b, c, d]);
            bytes.extend(*b"text");
        }
        bytes.truncate(count);
        bytes
    }
}
