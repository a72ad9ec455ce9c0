//! Directories of processes and threads.

use super::bound::{FromMemory, Guarded, OfMemory, OfMounts, Snapshot, Without};
use super::subject::Subject;
use super::{
    calls, children, credentials, descriptors, idmap, limits, maps, memory, mounts, namespaces, net, pages, security,
    smaps, stat, status,
};
use crate::cred::userns::Ids;
use crate::socket::netns::NetNs;
use crate::task;
use alloc::format;
use alloc::rc::Rc;
use alloc::vec::Vec;
use uapi::{Errno, Result};
use vfs::FileType;
use vfs::PathRef;
use vfs::synth::{Entry, SynthDir, SynthFile, SynthLink, What};

/// Makes the content of a file.
type Read = fn(&Subject) -> Result<Vec<u8>>;
/// Handles a write to a file.
type Write = fn(&Subject, &[u8]) -> Result<()>;
/// Finds where a magic link leads.
type Find = fn(&Subject) -> Result<PathRef>;
/// Makes the entry of a directory or of a file that is more than its content.
type Make = fn(Subject) -> What;

/// An entry in the directory of a process.
#[derive(Clone, Copy)]
enum Kind {
    File(Read),
    Edit(Read, Write),
    Link(Find),
    Memory(FromMemory, Without),
    Mounts(fn(&mounts::Seen) -> Result<Vec<u8>>, Polled),
    Other(FileType, Make),
}
use Kind::{Edit, File, Link, Memory, Mounts, Other};

/// Whether poll(2) reports changes.
type Polled = bool;

/// Which directories have a name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Where {
    Both,
    Process,
    Thread,
}
use Where::{Both, Process, Thread};

/// Names, permissions, content.
const ITEMS: [(&str, u32, Where, Kind); 52] = [
    ("attr", 0o555, Both, Other(FileType::Directory, |s| What::Dir(Rc::new(security::Labels(s))))),
    ("auxv", 0o400, Both, Other(FileType::Regular, auxiliary_vector)),
    ("cgroup", 0o444, Both, File(|s| s.process().map(|_| b"0::/\n".to_vec()))),
    ("children", 0o444, Thread, File(children::text)),
    ("cmdline", 0o444, Both, File(memory::command_line)),
    ("comm", 0o644, Both, Edit(memory::name, memory::rename)),
    ("coredump_filter", 0o644, Process, Edit(credentials::dump_filter, credentials::set_dump_filter)),
    ("cpuset", 0o444, Both, File(|s| s.process().map(|_| b"/\n".to_vec()))),
    ("cwd", 0o777, Both, Link(working_directory)),
    ("environ", 0o400, Both, Memory(memory::environment, Without::Bytes)),
    ("exe", 0o777, Both, Link(executable)),
    ("fd", 0o500, Both, Other(FileType::Directory, |s| What::Dir(Rc::new(descriptors::Links(s))))),
    ("fdinfo", 0o555, Both, Other(FileType::Directory, |s| What::Dir(Rc::new(descriptors::Infos(s))))),
    ("gid_map", 0o644, Both, Other(FileType::Regular, |s| What::File(Rc::new(idmap::Map(s, Ids::Groups))))),
    ("io", 0o400, Both, File(limits::io)),
    ("ksm_merging_pages", 0o400, Both, File(|s| s.inspected().map(|_| b"0\n".to_vec()))),
    ("ksm_stat", 0o400, Both, File(memory::merged_pages)),
    ("limits", 0o444, Both, File(limits::text)),
    ("loginuid", 0o644, Both, Edit(credentials::login_uid, credentials::set_login_uid)),
    ("map_files", 0o500, Process, Other(FileType::Directory, |s| What::Dir(Rc::new(pages::MapFiles(s))))),
    ("maps", 0o444, Both, Memory(maps::text, Without::List)),
    ("mem", 0o600, Both, Other(FileType::Regular, |s| What::File(Rc::new(memory::Memory(s))))),
    ("mountinfo", 0o444, Both, Mounts(mounts::info, true)),
    ("mounts", 0o444, Both, Mounts(mounts::table, true)),
    ("mountstats", 0o400, Process, Mounts(mounts::statistics, false)),
    ("net", 0o555, Both, Other(FileType::Directory, |s| What::Dir(Rc::new(net::Directory(network(&s)))))),
    ("ns", 0o511, Both, Other(FileType::Directory, |s| What::Dir(Rc::new(namespaces::Directory(s))))),
    ("oom_adj", 0o644, Both, Edit(limits::oom_adj, limits::set_oom_adj)),
    ("oom_score", 0o444, Both, File(limits::oom_score)),
    ("oom_score_adj", 0o644, Both, Edit(limits::oom_score_adj, limits::set_oom_score_adj)),
    ("pagemap", 0o400, Both, Other(FileType::Regular, |s| What::File(Rc::new(pages::PageMap(s))))),
    ("personality", 0o400, Both, File(credentials::personality)),
    ("projid_map", 0o644, Both, Other(FileType::Regular, |s| What::File(Rc::new(idmap::Map(s, Ids::Projects))))),
    ("root", 0o777, Both, Link(root_directory)),
    ("sched", 0o644, Both, File(stat::scheduling)),
    ("schedstat", 0o444, Both, File(stat::scheduling_times)),
    ("sessionid", 0o444, Both, File(credentials::login_session)),
    ("setgroups", 0o644, Process, Other(FileType::Regular, |s| What::File(Rc::new(idmap::SetGroups(s))))),
    ("smaps", 0o444, Both, Memory(smaps::text, Without::List)),
    ("smaps_rollup", 0o444, Both, Memory(smaps::rollup, Without::Sum)),
    ("stat", 0o444, Both, File(stat::text)),
    ("statm", 0o444, Both, File(stat::memory)),
    ("status", 0o444, Both, File(status::text)),
    ("syscall", 0o400, Both, File(calls::text)),
    ("task", 0o555, Process, Other(FileType::Directory, |s| What::Dir(Rc::new(Threads(s))))),
    ("timens_offsets", 0o644, Process, File(credentials::time_offsets)),
    ("timers", 0o444, Process, Other(FileType::Regular, timers)),
    ("timerslack_ns", 0o666, Process, Edit(credentials::timer_slack, credentials::set_timer_slack)),
    ("uid_map", 0o644, Both, Other(FileType::Regular, |s| What::File(Rc::new(idmap::Map(s, Ids::Users))))),
    ("wchan", 0o444, Both, File(|s| s.process().map(|_| b"0".to_vec()))),
    ("numa_maps", 0o444, Both, Memory(maps::numa, Without::List)),
    ("autogroup", 0o644, Process, File(|_| Ok(b"/autogroup-1 nice 0\n".to_vec()))),
];

impl Kind {
    fn file_type(self) -> FileType {
        match self {
            File(_) | Edit(..) | Memory(..) | Mounts(..) => FileType::Regular,
            Link(_) => FileType::Symlink,
            Other(kind, _) => kind,
        }
    }
}

/// The directory of a process or thread.
pub fn entry(subject: Subject) -> Entry {
    let (uid, gid) = subject.owner(true);
    Entry::dir(0o555, Directory(subject)).owned(uid, gid).generation(subject.generation())
}

struct Directory(Subject);

impl Directory {
    fn items(&self) -> impl Iterator<Item = &'static (&'static str, u32, Where, Kind)> {
        let absent = if self.0.is_thread() { Process } else { Thread };
        ITEMS.iter().filter(move |item| item.2 != absent)
    }
}

impl SynthDir for Directory {
    fn lookup(&self, name: &[u8]) -> Result<Entry> {
        // Lookups in the directory of an ended process fail.
        self.0.process()?;
        let &(_, mode, _, kind) = self.items().find(|i| i.0.as_bytes() == name).ok_or(Errno::ENOENT)?;
        let subject = self.0;
        let what = match kind {
            File(read) => {
                let ends_at_start = name == b"cmdline";
                What::File(Rc::new(Text { subject, read, write: None, has_pwrite: false, ends_at_start }))
            }
            Edit(read, write) => {
                let (has_pwrite, ends_at_start) = (!SEQUENTIAL.contains(&name), name == b"oom_score_adj");
                What::File(Rc::new(Text { subject, read, write: Some(write), has_pwrite, ends_at_start }))
            }
            Link(find) => What::Link(Rc::new(Magic { subject, find })),
            Memory(make, without) => What::File(Rc::new(OfMemory { subject, make, without, queried: name == b"maps" })),
            Mounts(make, polled) => What::File(Rc::new(OfMounts { subject, make, polled })),
            Other(_, make) => make(subject),
        };
        let (uid, gid) = match name {
            // A process can always access its own descriptors, whatever its ids are.
            b"fd" if task::with_current(|t| t.pid()) == subject.pid() => {
                task::with_current(|t| (t.cred().fsuid, t.cred().fsgid))
            }
            _ => subject.owner(kind.file_type() == FileType::Directory && mode == 0o555),
        };
        let generation = if name == b"net" { network(&subject).map_or(0, |ns| ns.inode()) } else { 0 };
        Ok(Entry { what, mode, uid, gid, generation, size: 0 })
    }

    fn list(&self) -> Result<Vec<(Vec<u8>, FileType)>> {
        self.0.process().map_err(|_| Errno::ENOENT)?;
        Ok(self.items().map(|(name, _, _, kind)| (name.as_bytes().to_vec(), kind.file_type())).collect())
    }
}

/// A file about a process.
struct Text {
    subject: Subject,
    read: Read,
    write: Option<Write>,
    has_pwrite: bool,
    ends_at_start: bool,
}

/// Files that are written as Linux's seq_file: pwrite(2) fails.
const SEQUENTIAL: [&[u8]; 2] = [b"comm", b"timerslack_ns"];

impl SynthFile for Text {
    fn has_pwrite(&self) -> bool {
        self.has_pwrite
    }

    fn ends_at_start(&self) -> bool {
        self.ends_at_start
    }

    fn content(&self) -> Result<Vec<u8>> {
        (self.read)(&self.subject)
    }

    fn write(&self, _offset: u64, data: &[u8]) -> Result<usize> {
        let write = self.write.ok_or(Errno::EINVAL)?;
        write(&self.subject, data).map(|()| data.len())
    }
}

/// A magic link: resolves to an object, independent of its text.
struct Magic {
    subject: Subject,
    find: Find,
}

impl SynthLink for Magic {
    fn target(&self) -> Result<Vec<u8>> {
        let root = task::with_current(|t| t.fs()).root();
        (self.find)(&self.subject)?.display_path(Some(&root))
    }

    fn place(&self) -> Option<Result<PathRef>> {
        Some((self.find)(&self.subject))
    }
}

/// Keel and zombies have no directories and no program.
fn look(subject: &Subject) -> Result<Rc<task::Task>> {
    if subject.is_keel() {
        subject.memory_to_open(false)?;
    }
    if subject.task()?.is_none() { Err(Errno::ENOENT) } else { subject.inspected() }
}

fn working_directory(subject: &Subject) -> Result<PathRef> {
    Ok(look(subject)?.try_fs().ok_or(Errno::ENOENT)?.cwd())
}

fn root_directory(subject: &Subject) -> Result<PathRef> {
    Ok(look(subject)?.try_fs().ok_or(Errno::ENOENT)?.root())
}

fn executable(subject: &Subject) -> Result<PathRef> {
    look(subject)?.process().exe().ok_or(Errno::ENOENT)
}

fn auxiliary_vector(subject: Subject) -> What {
    What::File(Rc::new(Snapshot { subject, make: memory::auxiliary_vector }))
}

fn timers(subject: Subject) -> What {
    let make = |s: &Subject| s.process()?.posix_timers.describe(s.pid());
    What::File(Rc::new(Guarded { subject, make }))
}

/// The network namespace of a process that lives; that of keel is the first.
fn network(subject: &Subject) -> Option<Rc<NetNs>> {
    if subject.is_keel() {
        return Some(NetNs::first());
    }
    Some(subject.task().ok()??.try_namespaces()?.net.clone())
}

/// `task`: the threads.
struct Threads(Subject);

impl SynthDir for Threads {
    fn lookup(&self, name: &[u8]) -> Result<Entry> {
        let tid = super::number(name).ok_or(Errno::ENOENT)?;
        Ok(entry(self.0.thread(tid)?))
    }

    fn list(&self) -> Result<Vec<(Vec<u8>, FileType)>> {
        let process = self.0.process().map_err(|_| Errno::ENOENT)?;
        let others = process.threads().map(|t| t.tid()).filter(|tid| *tid != process.pid());
        let ids = core::iter::once(process.pid()).chain(others).map(|id| self.0.shown(id));
        vfs::memory::collect(ids.map(|id| (format!("{id}").into_bytes(), FileType::Directory)))
    }
}
