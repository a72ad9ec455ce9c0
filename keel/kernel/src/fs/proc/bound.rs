//! Files of a process that are bound to its memory or mounts when they are opened; proc(5).
//!
//! Access is checked at open and not later (ptrace(2), "Ptrace access mode checking"). They hold no references: memory
//! that the process released by execve(2) or exit is not accessible.

use super::mounts::Seen;
use super::subject::Subject;
use crate::mm::Mm;
use alloc::rc::{Rc, Weak};
use alloc::vec::Vec;
use core::any::Any;
use uapi::{Errno, Result};
use vfs::synth::SynthFile;

/// Makes the content of a file from memory.
pub type FromMemory = fn(&Subject, &Rc<Mm>) -> Result<Vec<u8>>;

/// Behaviour of a file whose process has no memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Without {
    /// A list: it is empty, but for a process that was waited for (ESRCH).
    List,
    /// A sum over all mappings: ESRCH.
    Sum,
    /// Bytes of the memory: a file that is open has none, and others can't be opened (ESRCH).
    Bytes,
}

/// A file about a process's memory.
pub struct OfMemory {
    /// Whose.
    pub subject: Subject,
    /// Generates its content.
    pub make: FromMemory,
    /// If there is no memory.
    pub without: Without,
    /// Whether it answers [`super::PROCMAP_QUERY`].
    pub queried: bool,
}

impl SynthFile for OfMemory {
    fn content(&self) -> Result<Vec<u8>> {
        Ok(Vec::new())
    }

    fn bind(&self) -> Result<Option<Rc<dyn SynthFile>>> {
        let mm = match self.subject.memory_to_open(true)? {
            Some(mm) => Rc::downgrade(&mm),
            None if self.without == Without::List || self.subject.is_keel() => Weak::new(),
            None => return Err(Errno::ESRCH),
        };
        let &Self { subject, make, without, queried } = self;
        Ok(Some(Rc::new(Open { subject, make, without, queried, mm })))
    }
}

/// A file of a process's memory that is open.
pub struct Open {
    subject: Subject,
    make: FromMemory,
    without: Without,
    queried: bool,
    mm: Weak<Mm>,
}

impl Open {
    /// Whether it answers [`super::PROCMAP_QUERY`].
    pub fn answers_queries(&self) -> bool {
        self.queried
    }

    /// The memory, unless the process has released it.
    pub fn memory(&self) -> Option<Rc<Mm>> {
        self.mm.upgrade()
    }
}

impl SynthFile for Open {
    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }

    fn ends_at_start(&self) -> bool {
        self.without == Without::Bytes
    }

    fn content(&self) -> Result<Vec<u8>> {
        if self.without == Without::List {
            self.subject.process()?;
        }
        match self.mm.upgrade() {
            Some(mm) => (self.make)(&self.subject, &mm),
            None if self.without == Without::Sum && !self.subject.is_keel() => Err(Errno::ESRCH),
            None => Ok(Vec::new()),
        }
    }
}

/// A file whose content is generated at open.
pub struct Snapshot {
    /// Whose.
    pub subject: Subject,
    /// Generates its content.
    pub make: FromMemory,
}

impl SynthFile for Snapshot {
    fn content(&self) -> Result<Vec<u8>> {
        Ok(Vec::new())
    }

    fn bind(&self) -> Result<Option<Rc<dyn SynthFile>>> {
        let bytes = match self.subject.memory_to_open(true)? {
            Some(mm) => (self.make)(&self.subject, &mm)?,
            None if self.subject.is_keel() => Vec::new(),
            None => return Err(Errno::ESRCH),
        };
        Ok(Some(Rc::new(Bytes(bytes))))
    }
}

/// Content that was made at open.
struct Bytes(Vec<u8>);

impl SynthFile for Bytes {
    fn ends_at_start(&self) -> bool {
        true
    }

    fn content(&self) -> Result<Vec<u8>> {
        vfs::memory::copy(&self.0)
    }
}

/// A file whose open requires access to the process; reads don't.
pub struct Guarded {
    /// Whose.
    pub subject: Subject,
    /// Generates its content.
    pub make: fn(&Subject) -> Result<Vec<u8>>,
}

impl SynthFile for Guarded {
    fn content(&self) -> Result<Vec<u8>> {
        (self.make)(&self.subject)
    }

    fn bind(&self) -> Result<Option<Rc<dyn SynthFile>>> {
        self.subject.memory_to_open(true).map(|_| None)
    }
}

/// A table of mounts, bound to the process's namespace and root at open.
pub struct OfMounts {
    /// Whose.
    pub subject: Subject,
    /// Generates its content.
    pub make: fn(&Seen) -> Result<Vec<u8>>,
    /// poll(2) reports changes.
    pub polled: bool,
}

impl SynthFile for OfMounts {
    fn content(&self) -> Result<Vec<u8>> {
        Ok(Vec::new())
    }

    fn is_polled(&self) -> bool {
        self.polled
    }

    /// EINVAL for an ended process.
    fn bind(&self) -> Result<Option<Rc<dyn SynthFile>>> {
        let seen = match self.subject.task()? {
            Some(task) => Seen::of(&task).ok_or(Errno::EINVAL)?,
            None if self.subject.is_keel() => Seen::first(),
            None => return Err(Errno::EINVAL),
        };
        Ok(Some(Rc::new(OpenMounts { seen, make: self.make, polled: self.polled })))
    }
}

/// The same, open.
struct OpenMounts {
    seen: Seen,
    make: fn(&Seen) -> Result<Vec<u8>>,
    polled: bool,
}

impl SynthFile for OpenMounts {
    fn has_flags(&self) -> bool {
        true
    }

    fn content(&self) -> Result<Vec<u8>> {
        (self.make)(&self.seen)
    }

    fn is_polled(&self) -> bool {
        self.polled
    }
}
