//! The locks that are held, as `/proc/locks` and `/proc/PID/fdinfo` list them; proc_locks(5).

use super::{FileLocks, description, existing, process};
use crate::file::{FdTable, File};
use alloc::format;
use alloc::rc::{Rc, Weak};
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::RefCell;
use hal::cell::Global;
use uapi::Result;
use vfs::attr::split_dev;
use vfs::locks::{Kind, Owner, Record, Whole};

/// Files that have or had locks, the latest last.
static FILES: Global<RefCell<Vec<Weak<FileLocks>>>> = Global::new(RefCell::new(Vec::new()));

/// Lists a file that gets its first lock.
pub(super) fn enter(locks: &Rc<FileLocks>) {
    let mut files = FILES.borrow_mut();
    if files.len() == files.capacity() {
        // Forgets files that are gone before the list grows.
        files.retain(|f| f.strong_count() != 0);
    }
    files.push(Rc::downgrade(locks));
}

impl FileLocks {
    /// Kind, process and file of a lock, `FLOCK  ADVISORY  WRITE 123 00:1a:5 `.
    fn start(&self, class: &str, kind: Kind, pid: i32) -> String {
        let (major, minor) = split_dev(self.file.0);
        let kind = if kind == Kind::Read { "READ" } else { "WRITE" };
        format!("{class} ADVISORY  {kind} {pid} {major:02x}:{minor:02x}:{} ", self.file.1)
    }

    fn record(&self, record: &Record) -> String {
        let class = if matches!(record.owner, Owner::Process(_)) { "POSIX " } else { "OFDLCK" };
        let mut text = self.start(class, record.kind, record.pid);
        text.push_str(&match record.end {
            u64::MAX => format!("{} EOF", record.start),
            end => format!("{} {end}", record.start),
        });
        text
    }

    fn whole(&self, whole: &Whole) -> String {
        self.start("FLOCK ", whole.kind, whole.pid) + "0 EOF"
    }
}

fn number(text: &mut Vec<u8>, count: &mut usize, line: &str) -> Result<()> {
    *count += 1;
    vfs::memory::append(text, format!("{count}: {line}\n").as_bytes())
}

fn numbered(prefix: &str, lines: Vec<String>) -> String {
    lines.iter().enumerate().map(|(i, line)| format!("{prefix}{}: {line}\n", i + 1)).collect()
}

/// `/proc/locks`. ENOMEM.
pub fn all() -> Result<Vec<u8>> {
    let files: Vec<Rc<FileLocks>> = vfs::memory::collect(FILES.borrow().iter().filter_map(Weak::upgrade))?;
    let (mut text, mut count) = (Vec::new(), 0);
    for file in files.iter().rev() {
        let (records, wholes) = file.locks.all();
        wholes.iter().try_for_each(|w| number(&mut text, &mut count, &file.whole(w)))?;
        records.iter().try_for_each(|r| number(&mut text, &mut count, &file.record(r)))?;
    }
    Ok(text)
}

/// The locks that a process has through a descriptor, for its `fdinfo`.
pub fn held_by(table: &FdTable, file: &File) -> String {
    let Some(of) = existing(file) else { return String::new() };
    let owners = [process(table), Owner::Description(description(file))];
    let (records, wholes) = of.locks.all();
    let mut lines: Vec<String> =
        wholes.iter().filter(|w| w.description == description(file)).map(|w| of.whole(w)).collect();
    lines.extend(records.iter().filter(|r| owners.contains(&r.owner)).map(|r| of.record(r)));
    numbered("lock:\t", lines)
}
