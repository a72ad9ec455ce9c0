//! `/sys/devices/system/cpu/cpuN/cache`: the processor's caches, from CPUID.

use super::cpu::all;
use super::{constant, dir, text};
use crate::fs::proc::{cpu_list, cpu_mask, cpus};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use hal::cpu::cpuid;
use uapi::{Errno, Result};
use vfs::FileType;
use vfs::synth::{Entry, SynthDir};

/// Leaves that describe caches, subleaf by subleaf: Intel's and AMD's, in one format.
const INTEL: u32 = 4;
const AMD: u32 = 0x8000_001d;
/// CPUID 0x80000001, ecx: [`AMD`] is there.
const TOPOLOGY_EXTENSIONS: u32 = 1 << 22;
/// More caches than any processor has.
const MOST: u32 = 8;

/// The directory of a CPU.
pub fn directory(cpu: u32) -> Entry {
    Entry::dir(0o755, Caches(cpu))
}

/// CPUID's answer about a cache; `None` after the last.
fn registers(index: u32) -> Option<[u32; 4]> {
    let amd = cpuid(0x8000_0000, 0)[0] >= AMD && cpuid(0x8000_0001, 0)[2] & TOPOLOGY_EXTENSIONS != 0;
    let intel = cpuid(0, 0)[0] >= INTEL;
    let leaf = if amd {
        AMD
    } else if intel {
        INTEL
    } else {
        return None;
    };
    Some(cpuid(leaf, index)).filter(|registers| registers[0] & 0x1f != 0)
}

struct Caches(u32);

impl SynthDir for Caches {
    fn lookup(&self, name: &[u8]) -> Result<Entry> {
        let digits = name.strip_prefix(b"index").and_then(|d| core::str::from_utf8(d).ok()).ok_or(Errno::ENOENT)?;
        let index = digits.parse().ok().filter(|index| *index < MOST && format!("{index}") == digits);
        let index = index.ok_or(Errno::ENOENT)?;
        Ok(cache(self.0, registers(index).ok_or(Errno::ENOENT)?))
    }

    fn list(&self) -> Result<Vec<(Vec<u8>, FileType)>> {
        let present = (0..MOST).take_while(|index| registers(*index).is_some());
        Ok(present.map(|index| (format!("index{index}").into_bytes(), FileType::Directory)).collect())
    }
}

fn cache(cpu: u32, [eax, ebx, ecx, _]: [u32; 4]) -> Entry {
    let level = eax >> 5 & 7;
    let kind = match eax & 0x1f {
        1 => "Data",
        2 => "Instruction",
        _ => "Unified",
    };
    let (line, partitions, ways) = ((ebx & 0xfff) + 1, (ebx >> 12 & 0x3ff) + 1, (ebx >> 22) + 1);
    let sets = u64::from(ecx) + 1;
    let bytes = u64::from(line) * u64::from(partitions) * u64::from(ways) * sets;
    // Cores share the third level.
    let (shared, id) = if level >= 3 { (all(), 0) } else { (1 << cpu, cpu) };
    let number = |value: u64| text(move || format!("{value}\n"));
    dir([
        ("coherency_line_size", number(line.into())),
        ("id", number(id.into())),
        ("level", number(level.into())),
        ("number_of_sets", number(sets)),
        ("physical_line_partition", number(partitions.into())),
        ("shared_cpu_list", text(move || format!("{}\n", cpu_list(shared)))),
        ("shared_cpu_map", text(move || format!("{}\n", cpu_mask(shared, cpus())))),
        ("size", text(move || format!("{}K\n", bytes / 1024))),
        ("type", text(move || String::from(kind) + "\n")),
        ("uevent", constant("")),
        ("ways_of_associativity", number(ways.into())),
    ])
}
