//! The locks that are held, as `/proc/locks` and `/proc/PID/fdinfo` list them; proc_locks(5).

use super::{FileLocks, description, existing, process};
use crate::{FdTable, File};
use alloc::rc::{Rc, Weak};
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use hal::cell::Global;
use keel_core::pieces::Pieces;
use uapi::Result;
use vfs::attr::split_dev;
use vfs::locks::{Kind, Owner, Record, Whole};
use vfs::memory::Text;

/// Files that have or had locks, the latest last.
static FILES: Global<RefCell<Pieces<Weak<FileLocks>>>> = Global::new(RefCell::new(Pieces::new()));
/// Number of entries at which entries of closed files are removed.
static SWEEP_AT: Global<Cell<usize>> = Global::new(Cell::new(64));

/// Lists a file that gets its first lock.
pub(super) fn enter(locks: &Rc<FileLocks>) {
    let mut files = FILES.borrow_mut();
    if files.len() >= SWEEP_AT.get() {
        files.retain(|f| f.strong_count() != 0);
        SWEEP_AT.set(64.max(files.len() * 2));
    }
    files.push_back(Rc::downgrade(locks));
}

impl FileLocks {
    /// Kind, process and file of a lock, `FLOCK  ADVISORY  WRITE 123 00:1a:5 `.
    fn start(&self, text: &mut Text, class: &str, kind: Kind, pid: i32) {
        let (major, minor) = split_dev(self.file.0);
        let kind = if kind == Kind::Read { "READ" } else { "WRITE" };
        text.print(format_args!("{class} ADVISORY  {kind} {pid} {major:02x}:{minor:02x}:{} ", self.file.1));
    }

    fn record(&self, text: &mut Text, record: &Record) {
        let class = if matches!(record.owner, Owner::Process(_)) { "POSIX " } else { "OFDLCK" };
        self.start(text, class, record.kind, record.pid);
        match record.end {
            u64::MAX => text.print(format_args!("{} EOF\n", record.start)),
            end => text.print(format_args!("{} {end}\n", record.start)),
        }
    }

    fn whole(&self, text: &mut Text, whole: &Whole) {
        self.start(text, "FLOCK ", whole.kind, whole.pid);
        text.add(b"0 EOF\n");
    }
}

/// Begins the line of a lock with its number.
fn number(text: &mut Text, prefix: &str, count: &mut usize) {
    *count += 1;
    text.print(format_args!("{prefix}{count}: "));
}

/// `/proc/locks`. ENOMEM.
pub fn all() -> Result<Vec<u8>> {
    let files: Vec<Rc<FileLocks>> = vfs::memory::collect(FILES.borrow().iter().filter_map(Weak::upgrade))?;
    let (mut text, mut count) = (Text::default(), 0);
    for file in files.iter().rev() {
        let (records, wholes) = file.locks.all()?;
        for whole in &wholes {
            number(&mut text, "", &mut count);
            file.whole(&mut text, whole);
        }
        for record in &records {
            number(&mut text, "", &mut count);
            file.record(&mut text, record);
        }
    }
    text.done()
}

/// Adds the locks that a process has through a descriptor, for its `fdinfo`. ENOMEM.
pub fn held_by(table: &FdTable, file: &File, text: &mut Text) -> Result<()> {
    let Some(of) = existing(file) else { return Ok(()) };
    let owners = [process(table), Owner::Description(description(file))];
    let (records, wholes) = of.locks.all()?;
    let mut count = 0;
    for whole in wholes.iter().filter(|w| w.description == description(file)) {
        number(text, "lock:\t", &mut count);
        of.whole(text, whole);
    }
    for record in records.iter().filter(|r| owners.contains(&r.owner)) {
        number(text, "lock:\t", &mut count);
        of.record(text, record);
    }
    Ok(())
}
