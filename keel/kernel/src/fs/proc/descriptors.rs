//! `/proc/PID/fd` and `fdinfo`: the open files.

use super::number;
use super::subject::Subject;
use crate::file::{FdTable, File, lock};
use crate::fs::setup;
use crate::task;
use alloc::format;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::any::Any;
use uapi::raw::general as g;
use uapi::{Errno, Result};
use vfs::PathRef;
use vfs::memory::Text;
use vfs::synth::{Entry, SynthDir, SynthLink};
use vfs::{Attr, Change, FileType, Inode};

/// What lstat(2) shows as the size of a link to an open file.
const LINK_SIZE: u64 = 64;

/// The descriptors, if the caller may see them. EACCES, ENOENT.
fn files(subject: &Subject) -> Result<Rc<FdTable>> {
    match subject.task() {
        Ok(Some(_)) => subject.inspected()?.try_files().ok_or(Errno::ENOENT),
        _ => Err(Errno::ENOENT),
    }
}

/// An open file by its descriptor's name.
fn find(subject: &Subject, name: &[u8]) -> Result<(i32, Rc<File>)> {
    let fd = number(name).ok_or(Errno::ENOENT)?;
    let file = files(subject)?.get_raw(fd).map_err(|_| Errno::ENOENT)?;
    Ok((fd, file))
}

fn list(subject: &Subject, kind: FileType) -> Result<Vec<(Vec<u8>, FileType)>> {
    if subject.task()?.is_none() {
        return Ok(Vec::new());
    }
    let files = files(subject)?;
    vfs::memory::collect(files.numbers().map(|fd| (format!("{fd}").into_bytes(), kind)))
}

/// `fd`: links to the open files.
pub struct Links(pub Subject);

impl SynthDir for Links {
    fn lookup(&self, name: &[u8]) -> Result<Entry> {
        let (fd, file) = find(&self.0, name)?;
        let read = if file.readable() { 0o500 } else { 0 };
        let write = if file.writable() { 0o300 } else { 0 };
        let (uid, gid) = self.0.owner(false);
        let link = Entry::link(Link { subject: self.0, fd }).owned(uid, gid).sized(LINK_SIZE);
        Ok(Entry { mode: read | write, ..link })
    }

    fn list(&self) -> Result<Vec<(Vec<u8>, FileType)>> {
        list(&self.0, FileType::Symlink)
    }

    // How many there are, whoever asks.
    fn size(&self) -> u64 {
        let files = self.0.task().ok().flatten().and_then(|task| task.try_files());
        files.map_or(0, |files| files.numbers().count() as u64)
    }

    fn links(&self) -> u32 {
        2
    }
}

struct Link {
    subject: Subject,
    fd: i32,
}

impl Link {
    fn file(&self) -> Result<Rc<File>> {
        files(&self.subject)?.get_raw(self.fd).map_err(|_| Errno::ENOENT)
    }
}

impl SynthLink for Link {
    fn target(&self) -> Result<Vec<u8>> {
        let file = self.file()?;
        match &file.path {
            Some(place) => {
                let root = task::with_current(|t| t.fs()).root();
                place.display_path(Some(&root))
            }
            None => Ok(file.ops.link_name()),
        }
    }

    fn place(&self) -> Option<Result<PathRef>> {
        Some(self.file().and_then(|file| match &file.path {
            Some(place) => Ok(place.clone()),
            None => {
                let inode = Description::new(file.clone())?;
                Ok(setup::tree().unnamed(&file.ops.link_name(), inode))
            }
        }))
    }
}

/// A file without a place (a pipe, a socket, a standard stream) as the inode that its link leads to.
pub struct Description {
    file: Rc<File>,
    kind: FileType,
}

impl Description {
    fn new(file: Rc<File>) -> Result<Rc<Self>> {
        let kind = FileType::of(file.ops.attr()?.mode);
        Ok(Rc::new(Self { file, kind }))
    }

    /// Opens the same thing once more. ENXIO for what can't be (sockets, event counters).
    pub fn reopen(&self, flags: u32) -> Result<Rc<File>> {
        self.file.ops.reopen(&self.file, flags)
    }
}

impl Inode for Description {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn attr(&self) -> Result<Attr> {
        self.file.ops.attr()
    }

    fn file_type(&self) -> FileType {
        self.kind
    }

    fn change(&self, change: &Change) -> Result<()> {
        // The caller may do it, by the attributes above.
        self.file.ops.set_attr(&|_| Ok(*change))
    }
}

/// `fdinfo`: offsets and flags of the open files.
pub struct Infos(pub Subject);

impl SynthDir for Infos {
    fn lookup(&self, name: &[u8]) -> Result<Entry> {
        let (fd, _) = find(&self.0, name)?;
        let subject = self.0;
        let (uid, gid) = subject.owner(false);
        Ok(Entry::file(0o444, move || info(&subject, fd)).owned(uid, gid))
    }

    fn list(&self) -> Result<Vec<(Vec<u8>, FileType)>> {
        list(&self.0, FileType::Regular)
    }

    fn links(&self) -> u32 {
        2
    }
}

/// Mount number of files that are in no tree.
const NO_MOUNT: u32 = 15;

fn info(subject: &Subject, fd: i32) -> Result<Vec<u8>> {
    let files = files(subject)?;
    let file = files.get_raw(fd).map_err(|_| Errno::ENOENT)?;
    let mut flags = file.flags.get();
    if files.close_on_exec_flag(fd).unwrap_or(false) {
        flags |= g::O_CLOEXEC;
    }
    let mount = file.path.as_ref().map_or(NO_MOUNT, |place| place.mount().id);
    let ino = file.ops.attr()?.ino;
    let mut text = Text::default();
    text.print(format_args!("pos:\t{}\nflags:\t0{flags:o}\nmnt_id:\t{mount}\nino:\t{ino}\n", file.position()));
    lock::held_by(&files, &file, &mut text)?;
    file.ops.describe(&file, &mut text);
    text.done()
}
