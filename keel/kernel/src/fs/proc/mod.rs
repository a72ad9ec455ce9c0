//! `/proc`: processes and the system as files, proc(5).
//!
//! The formats are exactly Linux's; where keel has no data, the values are those of an idle Linux. [`pid`] creates the
//! directories of processes, the other modules their files and the system-wide files.

mod bound;
mod calls;
mod children;
mod cpuinfo;
mod credentials;
mod descriptors;
mod idmap;
mod limits;
mod map_query;
mod maps;
mod meminfo;
pub mod memory;
mod memory_tables;
mod mounts;
pub mod namespaces;
mod net;
mod pages;
mod pid;
mod security;
mod smaps;
mod sockets;
mod stat;
mod status;
mod subject;
mod sysctl;
mod sysctl_net;
mod sysctl_values;

pub use sysctl::apply as apply_settings;
mod system;

pub use descriptors::Description;
pub use map_query::{PROCMAP_QUERY, serve as map_query};
pub use meminfo::row as memory_line;
pub use namespaces::{file_system as namespace_file_system, open as open_namespace, request as namespace_request};
pub use status::{list as cpu_list, mask as cpu_mask};
pub use system::cpus;

use crate::file::File;
use crate::task;
use crate::task::pidns::PidNs;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use subject::Subject;
use uapi::{Errno, Result};
use vfs::synth::{Entry, PROC_MAGIC, SynthDir, SynthFile, SynthFs, Table, table};
use vfs::tree::Tree;
use vfs::{FileType, Inode, PathRef};

/// Attaches the file system, which shows the processes of a PID namespace (`None`: the first).
pub fn mount(tree: &Rc<Tree>, viewer: Option<Rc<PidNs>>) -> Result<PathRef> {
    tree.attach(b"/proc", root(tree, viewer), "proc", "proc", false)
}

/// The root of a new instance, which shows the processes of a PID namespace (`None`: the first) with their ids there.
pub fn root(tree: &Tree, viewer: Option<Rc<PidNs>>) -> Rc<dyn Inode> {
    SynthFs::new(tree.new_dev(), PROC_MAGIC, Root { fixed: fixed(viewer.clone()), viewer })
}

/// A system-wide file with generated content.
struct Generated<F>(F);

impl<F: Fn() -> Result<Vec<u8>>> SynthFile for Generated<F> {
    fn has_flags(&self) -> bool {
        true
    }

    fn content(&self) -> Result<Vec<u8>> {
        (self.0)()
    }

    /// Not writable: EIO.
    fn write(&self, _offset: u64, _data: &[u8]) -> Result<usize> {
        Err(Errno::EIO)
    }
}

/// A world-readable text file that is generated at each read.
fn text(make: impl Fn() -> String + 'static) -> Entry {
    list(move || Ok(make().into_bytes()))
}

/// As [`text`], of any length.
fn list(make: impl Fn() -> Result<Vec<u8>> + 'static) -> Entry {
    Entry::file(0o444, Generated(make))
}

/// A constant text file.
fn constant(content: &'static str) -> Entry {
    Entry::file(0o444, Generated(move || Ok(content.as_bytes().to_vec())))
}

/// A symbolic link with a generated target.
fn link(make: impl Fn() -> String + 'static) -> Entry {
    Entry::link(move || Ok(make().into_bytes()))
}

/// A link to the reader's own directory. ENOENT: its PID namespace is another.
fn own_link(make: impl Fn() -> Option<String> + 'static) -> Entry {
    Entry::link(move || Ok(make().ok_or(Errno::ENOENT)?.into_bytes()))
}

/// The id in a PID namespace for one of the first.
fn seen(viewer: Option<&Rc<PidNs>>, id: i32) -> Option<i32> {
    viewer.map_or(Some(id), |ns| Some(ns.inward(id)).filter(|id| *id != 0))
}

/// The files of `/proc` besides the processes.
fn fixed(viewer: Option<Rc<PidNs>>) -> Table {
    let other = viewer.clone();
    table([
        ("buddyinfo", text(memory_tables::buddies)),
        ("bus", Entry::dir(0o555, table([]))),
        ("cgroups", constant(system::CGROUPS)),
        ("cmdline", constant(system::COMMAND_LINE)),
        ("consoles", constant(system::CONSOLES)),
        ("cpuinfo", text(cpuinfo::text)),
        ("crypto", constant("")),
        ("devices", constant(system::DEVICES)),
        ("diskstats", constant("")),
        ("dma", constant(" 4: cascade\n")),
        ("driver", Entry::dir(0o555, table([]))),
        ("execdomains", constant("0-0\tLinux           \t[kernel]\n")),
        ("filesystems", constant(mounts::FILE_SYSTEMS)),
        ("fs", Entry::dir(0o555, table([]))),
        ("interrupts", text(system::interrupts)),
        ("iomem", text(memory_tables::places)),
        ("ioports", constant("")),
        ("irq", Entry::dir(0o555, table([]))),
        ("kallsyms", constant("")),
        ("key-users", constant("")),
        ("keys", constant("")),
        ("loadavg", text(system::load_averages)),
        ("locks", list(crate::file::lock::all)),
        ("meminfo", text(meminfo::text)),
        ("misc", constant("")),
        ("modules", constant("")),
        ("mounts", link(|| "self/mounts".into())),
        ("net", link(|| "self/net".into())),
        ("partitions", constant("major minor  #blocks  name\n\n")),
        ("self", own_link(move || task::with_current(|t| Some(format!("{}", seen(viewer.as_ref(), t.pid())?))))),
        ("slabinfo", Entry::file(0o400, Generated(|| Ok(memory_tables::SLABS.as_bytes().to_vec())))),
        ("softirqs", text(system::soft_interrupts)),
        ("stat", text(system::statistics)),
        ("swaps", constant("Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n")),
        ("sys", Entry::dir(0o555, sysctl::directory())),
        ("sysvipc", Entry::dir(0o555, system::sysvipc())),
        (
            "thread-self",
            own_link(move || {
                let ids = task::with_current(|t| (t.pid(), t.tid()));
                let seen = |id| seen(other.as_ref(), id);
                Some(format!("{}/task/{}", seen(ids.0)?, seen(ids.1)?))
            }),
        ),
        ("tty", Entry::dir(0o555, system::terminals())),
        ("uptime", text(system::uptime)),
        ("version", text(system::version)),
        ("vmallocinfo", Entry::file(0o400, Generated(|| Ok(Vec::new())))),
        ("vmstat", text(meminfo::vm_statistics)),
        ("zoneinfo", text(memory_tables::zones)),
    ])
}

/// The root directory.
struct Root {
    fixed: Table,
    viewer: Option<Rc<PidNs>>,
}

impl SynthDir for Root {
    fn lookup(&self, name: &[u8]) -> Result<Entry> {
        match number(name) {
            // Threads are found under their ids, too, though they are not listed.
            Some(id) => Ok(pid::entry(Subject::of_process(id, self.viewer.as_ref())?)),
            None => self.fixed.lookup(name),
        }
    }

    fn list(&self) -> Result<Vec<(Vec<u8>, FileType)>> {
        // Keel itself, which has no program, is the first process of the first namespace.
        let keel = self.viewer.is_none().then(|| (b"1".to_vec(), FileType::Directory));
        let fixed = self.fixed.list()?.into_iter().chain(keel);
        let ids = task::process::all().filter_map(|p| seen(self.viewer.as_ref(), p.pid()));
        let ids = ids.map(|id| format!("{id}").into_bytes());
        vfs::memory::collect(fixed.chain(ids.map(|id| (id, FileType::Directory))))
    }
}

/// A decimal number as the name of a directory: no sign, no leading zeros.
fn number(name: &[u8]) -> Option<i32> {
    if name.is_empty() || name.len() > 10 || (name.len() > 1 && name[0] == b'0') {
        return None;
    }
    let digits = name.iter().map(|b| b.is_ascii_digit().then(|| i64::from(b - b'0')));
    let value = digits.into_iter().try_fold(0i64, |n, digit| Some(n * 10 + digit?))?;
    i32::try_from(value).ok()
}

/// A number of a base, without a sign.
fn number_in(text: &str, base: u32) -> Option<usize> {
    text.bytes().next().filter(u8::is_ascii_hexdigit).and_then(|_| usize::from_str_radix(text, base).ok())
}

/// The process of an open `/proc/PID` directory.
pub fn process_of(file: &File) -> Option<i32> {
    let place = file.path.as_ref()?;
    let path = place.display_path(None).ok()?;
    let id = number(path.strip_prefix(b"/proc/")?)?;
    let is_ours = place.inode().statfs().is_ok_and(|fs| fs.kind == PROC_MAGIC);
    is_ours.then_some(id)
}

/// The number that a program wrote, as `kstrtoint` reads it: blanks around it are fine. EINVAL.
fn written_number(data: &[u8]) -> Result<i64> {
    let line = core::str::from_utf8(data).map_err(|_| Errno::EINVAL)?;
    let line = line.trim_matches(|c: char| c.is_ascii_whitespace() || c == '\0');
    line.strip_prefix('+').unwrap_or(line).parse().map_err(|_| Errno::EINVAL)
}
