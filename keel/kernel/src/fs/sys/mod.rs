//! `/sys`: commonly read files. CPUs, the loopback device, the limits of the pod as a cgroup.

mod cache;
mod cgroup;
mod cpu;
mod kernel;
mod memory;
mod net;

use alloc::rc::Rc;
use alloc::string::String;
pub use cgroup::{root as cgroup_root, show_processor_limit};
use uapi::Result;
use vfs::mount::FileSystem;
use vfs::synth::{Entry, SYSFS_MAGIC, SynthFs, Table, table};
use vfs::tree::Tree;
use vfs::{Inode, PathRef};

/// Attaches the file system, with the control groups in it.
pub fn mount(tree: &Rc<Tree>) -> Result<PathRef> {
    let place = tree.attach(b"/sys", root(tree), "sysfs", "sysfs", false)?;
    let groups = place.lookup(b"fs", &[], false)?.lookup(b"cgroup", &[], false)?;
    tree.attach_at(&groups, FileSystem::new(cgroup::root(tree), "cgroup2"), "cgroup2", false)?;
    Ok(place)
}

/// The root of a new instance of the file system.
pub fn root(tree: &Tree) -> Rc<dyn Inode> {
    SynthFs::new(tree.new_dev(), SYSFS_MAGIC, directory())
}

/// Size of sysfs files in stat(2).
const FILE_SIZE: u64 = 4096;

/// A world-readable text file that is generated at each read.
fn text(make: impl Fn() -> String + 'static) -> Entry {
    Entry::file(0o444, move || Ok(make().into_bytes())).sized(FILE_SIZE)
}

/// A constant text file.
fn constant(content: &'static str) -> Entry {
    Entry::file(0o444, move || Ok(content.as_bytes().to_vec())).sized(FILE_SIZE)
}

/// A directory of fixed names.
fn dir<const N: usize>(entries: [(&str, Entry); N]) -> Entry {
    Entry::dir(0o755, table(entries))
}

/// A symbolic link.
fn link(target: &'static str) -> Entry {
    Entry::link(move || Ok(target.as_bytes().to_vec()))
}

/// The clock source.
fn clock_source() -> Entry {
    dir([("available_clocksource", constant("tsc \n")), ("current_clocksource", constant("tsc\n"))])
}

fn directory() -> Table {
    table([
        ("block", dir([])),
        ("bus", dir([("cpu", dir([("devices", Entry::dir(0o755, cpu::links()))]))])),
        ("class", dir([("net", dir([("lo", link("../../devices/virtual/net/lo"))])), ("block", dir([]))])),
        ("dev", dir([("block", dir([])), ("char", dir([]))])),
        (
            "devices",
            dir([
                (
                    "system",
                    dir([
                        ("clocksource", dir([("clocksource0", clock_source())])),
                        ("cpu", Entry::dir(0o755, cpu::directory())),
                        ("memory", Entry::dir(0o755, memory::Blocks)),
                        ("node", cpu::nodes()),
                    ]),
                ),
                ("virtual", dir([("net", dir([("lo", net::loopback())]))])),
            ]),
        ),
        ("firmware", dir([])),
        ("fs", dir([("cgroup", dir([]))])),
        ("kernel", kernel::directory()),
        ("module", dir([])),
        ("power", dir([("state", constant("\n"))])),
    ])
}
