//! Handles of open files, directory streams and held locks, protected against reuse.

use super::super::{Errno, Result};
use super::locks::LockedFile;
use rustix::fd::OwnedFd;
use rustix::fs::Dir;

/// Maximum number of handles, independent of the limit on descriptors.
const MAX_HANDLES: u64 = 1 << 14;
/// Maximum number of directory streams: each has a buffer of some 13 KB in the monitor.
const MAX_STREAMS: usize = 256;
/// Maximum number of files whose locks a pod holds.
pub(super) const MAX_LOCKED: usize = 2048;
/// Descriptors reserved for the monitor: its own, cached directories, and those open while a tree is listed ahead.
const RESERVED: u64 = 160;

/// An open regular file.
#[derive(Debug)]
pub struct OpenFile {
    /// The file.
    pub fd: OwnedFd,
    /// It was opened for reading.
    pub read: bool,
    /// It was opened for writing.
    pub write: bool,
    /// Number of the export that it belongs to.
    pub export: u32,
    /// Number of the [`Handle::Locks`] that shares its description on the host.
    pub locks: Option<u64>,
}

/// A directory that is read in pieces.
#[derive(Debug)]
pub struct Stream {
    /// Number of the export that it belongs to.
    pub export: u32,
    /// Position in the directory.
    pub dir: Dir,
    /// An entry that was read but whose record did not fit.
    pub waiting: Option<std::ffi::CString>,
}

/// What a handle names.
#[derive(Debug)]
pub enum Handle {
    /// A file of [`abi::request::Open`].
    File(OpenFile),
    /// A directory of [`abi::request::ReadDir`].
    Stream(Box<Stream>),
    /// Locks of [`abi::request::HoldLocks`].
    Locks(Box<LockedFile>),
}

#[derive(Debug)]
struct Slot {
    generation: u32,
    handle: Option<Handle>,
}

/// The table of handles. A number is a slot and its generation: a closed one stays invalid until the
/// slot was reused 2^32 times.
#[derive(Debug)]
pub struct Handles {
    slots: Vec<Slot>,
    free: Vec<u32>,
    limit: usize,
    /// Streams among them.
    streams: usize,
    /// Handles for locks among them.
    locked: usize,
    /// Ranges that these hold.
    ranges: usize,
}

impl Handles {
    /// An empty table, limited by the current RLIMIT_NOFILE.
    pub fn new() -> Self {
        let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX);
        Self::with_limit(files.saturating_sub(RESERVED).clamp(1, MAX_HANDLES) as usize)
    }

    /// An empty table of at most `limit` handles.
    pub fn with_limit(limit: usize) -> Self {
        Self { slots: Vec::new(), free: Vec::new(), limit, streams: 0, locked: 0, ranges: 0 }
    }

    /// Adds a handle; EMFILE if there are too many, ENOLCK of those for locks.
    pub fn insert(&mut self, handle: Handle) -> Result<u64> {
        let is_stream = matches!(handle, Handle::Stream(_));
        if is_stream && self.streams >= MAX_STREAMS {
            return Err(Errno::MFILE);
        }
        let is_locked = matches!(handle, Handle::Locks(_));
        if is_locked && self.locked >= MAX_LOCKED {
            return Err(Errno::NOLCK);
        }
        let index = match self.free.pop() {
            Some(index) => index,
            None if self.slots.len() >= self.limit => return Err(Errno::MFILE),
            None => {
                self.slots.push(Slot { generation: 1, handle: None });
                (self.slots.len() - 1) as u32
            }
        };
        let slot = self.slots.get_mut(index as usize).ok_or(Errno::MFILE)?;
        slot.handle = Some(handle);
        self.streams += usize::from(is_stream);
        self.locked += usize::from(is_locked);
        Ok(u64::from(slot.generation) << 32 | u64::from(index))
    }

    /// EMFILE if another handle would not fit.
    pub fn check_room(&self) -> Result<()> {
        if self.free.is_empty() && self.slots.len() >= self.limit { Err(Errno::MFILE) } else { Ok(()) }
    }

    fn slot(&mut self, number: u64) -> Result<&mut Slot> {
        let slot = self.slots.get_mut(number as u32 as usize).ok_or(Errno::BADF)?;
        if u64::from(slot.generation) == number >> 32 { Ok(slot) } else { Err(Errno::BADF) }
    }

    /// The file that a number names; EBADF if it names none.
    pub fn file(&self, number: u64) -> Result<&OpenFile> {
        match self.slots.get(number as u32 as usize) {
            Some(Slot { generation, handle: Some(Handle::File(file)) }) if u64::from(*generation) == number >> 32 => {
                Ok(file)
            }
            _ => Err(Errno::BADF),
        }
    }

    /// Notes the locks of a file. EBADF.
    pub fn set_locks(&mut self, number: u64, locks: u64) -> Result<()> {
        match &mut self.slot(number)?.handle {
            Some(Handle::File(file)) => {
                file.locks = Some(locks);
                Ok(())
            }
            _ => Err(Errno::BADF),
        }
    }

    /// The directory stream that a number names; EBADF if it names none.
    pub fn stream(&mut self, number: u64) -> Result<&mut Stream> {
        match &mut self.slot(number)?.handle {
            Some(Handle::Stream(stream)) => Ok(stream),
            _ => Err(Errno::BADF),
        }
    }

    /// The locks that a number names; EBADF if it names none.
    pub fn locks(&mut self, number: u64) -> Result<&mut LockedFile> {
        match &mut self.slot(number)?.handle {
            Some(Handle::Locks(locks)) => Ok(locks),
            _ => Err(Errno::BADF),
        }
    }

    /// Separate ranges of locks that are held, of all files.
    pub fn ranges(&self) -> usize {
        self.ranges
    }

    /// A file with `before` ranges of locks has `after` now.
    pub fn ranges_changed(&mut self, before: usize, after: usize) {
        self.ranges = (self.ranges + after).saturating_sub(before);
    }

    /// Removes a handle; EBADF if there is none.
    pub fn remove(&mut self, number: u64) -> Result<Handle> {
        let slot = self.slot(number)?;
        let handle = slot.handle.take().ok_or(Errno::BADF)?;
        // Generation 0 is never used, so no handle is ever 0.
        slot.generation = slot.generation.checked_add(1).unwrap_or(1);
        self.free.push(number as u32);
        match &handle {
            Handle::File(_) => {}
            Handle::Stream(_) => self.streams -= 1,
            Handle::Locks(locks) => {
                self.locked -= 1;
                self.ranges = self.ranges.saturating_sub(locks.ranges());
            }
        }
        Ok(handle)
    }
}

impl Default for Handles {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handle() -> Handle {
        let fd = rustix::fs::open("/", rustix::fs::OFlags::PATH, rustix::fs::Mode::empty()).unwrap();
        Handle::File(OpenFile { fd, read: true, write: false, export: 1, locks: None })
    }

    #[test]
    fn streams_are_few() {
        let stream = || {
            let dir = rustix::fs::open("/", rustix::fs::OFlags::RDONLY, rustix::fs::Mode::empty()).unwrap();
            Handle::Stream(Box::new(Stream { export: 1, dir: Dir::new(dir).unwrap(), waiting: None }))
        };
        let mut table = Handles::with_limit(2 * MAX_STREAMS);
        let numbers: Vec<u64> = (0..MAX_STREAMS).map(|_| table.insert(stream()).unwrap()).collect();
        assert_eq!(table.insert(stream()).unwrap_err(), Errno::MFILE);
        table.insert(handle()).unwrap();
        table.remove(numbers[7]).unwrap();
        assert!(table.remove(numbers[7]).is_err());
        table.insert(stream()).unwrap();
        assert_eq!(table.insert(stream()).unwrap_err(), Errno::MFILE);
    }

    #[test]
    fn stale_and_invented_numbers_are_refused() {
        let mut table = Handles::with_limit(2);
        let first = table.insert(handle()).unwrap();
        assert_ne!(first, 0);
        assert!(table.file(first).is_ok());
        assert!(table.stream(first).is_err());
        table.remove(first).unwrap();
        assert!(table.file(first).is_err());
        assert!(table.remove(first).is_err());
        let second = table.insert(handle()).unwrap();
        assert_ne!(first, second);
        assert!(table.file(first).is_err());
        table.insert(handle()).unwrap();
        assert_eq!(table.insert(handle()).unwrap_err(), Errno::MFILE);
        assert_eq!(table.check_room(), Err(Errno::MFILE));
        for number in [0, 1, u64::MAX, 1 << 32, second ^ 1 << 40] {
            if number != second {
                let _ = table.file(number).is_err();
            }
        }
        assert!(table.file(u64::MAX).is_err());
        assert!(table.file(0).is_err());
    }
}
