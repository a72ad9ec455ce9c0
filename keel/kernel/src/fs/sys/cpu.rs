//! `/sys/devices/system/cpu` and `node`: all virtual CPUs are cores of one package on one node.

use super::{FILE_SIZE, cache, constant, dir, link, text};
use crate::fs::proc::{cpu_list, cpu_mask, cpus, memory_line};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use uapi::{Errno, Result};
use vfs::FileType;
use vfs::synth::{Entry, SynthDir, Table, table};

/// All CPUs, one bit each.
pub fn all() -> u64 {
    u64::MAX >> (64 - cpus())
}

/// All CPUs as a range.
pub fn all_list() -> String {
    cpu_list(all())
}

fn online() -> Entry {
    text(|| format!("{}\n", all_list()))
}

/// `/sys/devices/system/cpu`.
pub fn directory() -> impl SynthDir {
    Cpus(table([
        ("isolated", constant("\n")),
        ("enabled", text(|| format!("{}\n", all_list()))),
        ("kernel_max", constant("63\n")),
        ("offline", constant("\n")),
        ("online", online()),
        ("possible", online()),
        ("present", online()),
        ("smt", dir([("active", constant("0\n")), ("control", constant("notsupported\n"))])),
        ("uevent", constant("")),
        ("vulnerabilities", dir([])),
    ]))
}

/// Fixed names and one directory for each CPU.
struct Cpus(Table);

/// The number in `cpu0`. ENOENT.
fn number(name: &[u8]) -> Result<u32> {
    let digits = name.strip_prefix(b"cpu").ok_or(Errno::ENOENT)?;
    let text = core::str::from_utf8(digits).map_err(|_| Errno::ENOENT)?;
    let number: u32 = text.parse().map_err(|_| Errno::ENOENT)?;
    if number < cpus() && format!("{number}") == text { Ok(number) } else { Err(Errno::ENOENT) }
}

fn names(kind: FileType) -> impl Iterator<Item = (Vec<u8>, FileType)> {
    (0..cpus()).map(move |cpu| (format!("cpu{cpu}").into_bytes(), kind))
}

impl SynthDir for Cpus {
    fn lookup(&self, name: &[u8]) -> Result<Entry> {
        match number(name) {
            Ok(cpu) => Ok(one(cpu)),
            Err(_) => self.0.lookup(name),
        }
    }

    fn list(&self) -> Result<Vec<(Vec<u8>, FileType)>> {
        let mut list = self.0.list()?;
        list.extend(names(FileType::Directory));
        Ok(list)
    }
}

/// `/sys/bus/cpu/devices`.
pub fn links() -> impl SynthDir {
    Links
}

struct Links;

impl SynthDir for Links {
    fn lookup(&self, name: &[u8]) -> Result<Entry> {
        let cpu = number(name)?;
        Ok(Entry::link(move || Ok(format!("../../../devices/system/cpu/cpu{cpu}").into_bytes())))
    }

    fn list(&self) -> Result<Vec<(Vec<u8>, FileType)>> {
        Ok(names(FileType::Symlink).collect())
    }
}

/// The directory of a CPU.
fn one(cpu: u32) -> Entry {
    let own = 1u64 << cpu;
    let mask = |set: u64| text(move || format!("{}\n", cpu_mask(set, cpus())));
    let list = |set: u64| text(move || format!("{}\n", cpu_list(set)));
    let topology = dir([
        ("cluster_cpus", mask(own)),
        ("cluster_cpus_list", list(own)),
        ("cluster_id", text(move || format!("{cpu}\n"))),
        ("core_cpus", mask(own)),
        ("core_cpus_list", list(own)),
        ("core_id", text(move || format!("{cpu}\n"))),
        ("core_siblings", mask(all())),
        ("core_siblings_list", list(all())),
        ("die_cpus", mask(all())),
        ("die_cpus_list", list(all())),
        ("die_id", constant("0\n")),
        ("package_cpus", mask(all())),
        ("package_cpus_list", list(all())),
        ("physical_package_id", constant("0\n")),
        ("thread_siblings", mask(own)),
        ("thread_siblings_list", list(own)),
    ]);
    dir([
        ("cache", cache::directory(cpu)),
        ("cpu_capacity", constant("1024\n")),
        ("node0", link("../../node/node0")),
        ("online", constant("1\n")),
        ("topology", topology),
        ("uevent", constant("DRIVER=processor\nMODALIAS=cpu:type:x86\n")),
    ])
}

/// `/sys/devices/system/node`.
pub fn nodes() -> Entry {
    dir([
        ("has_cpu", constant("0\n")),
        ("has_generic_initiator", constant("\n")),
        ("has_memory", constant("0\n")),
        ("has_normal_memory", constant("0\n")),
        ("node0", node()),
        ("online", constant("0\n")),
        ("possible", constant("0\n")),
    ])
}

fn node() -> Entry {
    let memory = || {
        let ram = hal::frame::ram_usage();
        let used = ram.total.saturating_sub(ram.free);
        let rows = [("MemTotal", ram.limit), ("MemFree", ram.limit.saturating_sub(used)), ("MemUsed", used)];
        rows.map(|(name, bytes)| format!("Node 0 {}", memory_line(name, bytes))).concat()
    };
    let mut node = table([
        ("cpulist", online()),
        ("cpumap", text(|| format!("{}\n", cpu_mask(all(), cpus())))),
        ("distance", constant("10\n")),
        ("meminfo", text(memory)),
        (
            "numastat",
            constant("numa_hit 0\nnuma_miss 0\nnuma_foreign 0\ninterleave_hit 0\nlocal_node 0\nother_node 0\n"),
        ),
    ]);
    for cpu in 0..cpus() {
        let target = move || Ok(format!("../../cpu/cpu{cpu}").into_bytes());
        node = node.with(&format!("cpu{cpu}"), Entry::link(target).sized(FILE_SIZE));
    }
    Entry::dir(0o755, node)
}
