//! Extended attributes, behind the inode and in the area that files share.

use super::superblock::{u16_at, u32_at};
use super::{File, Image};
use crate::acl::{Acl, Kind};
use crate::memory::{append, buffer};
use alloc::rc::Rc;
use alloc::vec::Vec;
use uapi::{Errno, Result};

/// Bytes of the header of the attributes behind an inode, and of an entry.
const HEADER: u64 = 12;
const ENTRY: u64 = 4;

/// Longest value of an attribute.
const MOST_VALUE: usize = 64 << 10;

/// Prefixes of names, by number.
const PREFIXES: [(u8, &[u8]); 5] = [
    (1, b"user."),
    (2, b"system.posix_acl_access"),
    (3, b"system.posix_acl_default"),
    (4, b"trusted."),
    (6, b"security."),
];

/// Bytes of the image with the attributes of one file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Area {
    start: u64,
    len: u64,
}

/// Access control lists of a file: its own and the default one.
pub(super) type Lists = [Option<Rc<Acl>>; 2];

/// An entry: number of the prefix, place and length of the rest of the name, and of the value.
struct Entry {
    prefix: u8,
    name: u64,
    name_len: usize,
    value_len: usize,
}

impl Area {
    /// The area of an inode that ends at `start` and counts `count` words.
    pub(super) fn new(start: u64, count: u16) -> Self {
        let len = if count == 0 { 0 } else { HEADER + (u64::from(count) - 1) * ENTRY };
        Self { start, len }
    }

    /// The first byte behind it.
    pub(super) fn end(&self) -> u64 {
        self.start + self.len
    }
}

impl Entry {
    fn read(image: &Image, at: u64) -> Result<Self> {
        let mut bytes = [0; ENTRY as usize];
        image.read(at, &mut bytes)?;
        let value_len = usize::from(u16_at(&bytes, 2)?);
        Ok(Self { prefix: bytes[1], name: at + ENTRY, name_len: bytes[0].into(), value_len })
    }

    /// Bytes that it takes in its area.
    fn len(&self) -> u64 {
        (ENTRY + (self.name_len + self.value_len) as u64).next_multiple_of(4)
    }

    /// Its name, `None` if its prefix is not known.
    fn name(&self, image: &Image) -> Result<Option<Vec<u8>>> {
        let Some((_, prefix)) = PREFIXES.iter().find(|(number, _)| *number == self.prefix) else { return Ok(None) };
        let mut rest = [0; 255];
        let rest = &mut rest[..self.name_len];
        image.read(self.name, rest)?;
        let mut name = Vec::new();
        append(&mut name, prefix)?;
        append(&mut name, rest)?;
        Ok((!name.contains(&0)).then_some(name))
    }

    fn value(&self, image: &Image) -> Result<Vec<u8>> {
        let mut value = buffer(self.value_len.min(MOST_VALUE))?;
        image.read(self.name + self.name_len as u64, &mut value)?;
        Ok(value)
    }
}

impl File {
    /// Calls `each` for all attributes until it says that this was enough.
    fn each_xattr(&self, mut each: impl FnMut(&Entry) -> Result<bool>) -> Result<()> {
        let Area { start, len } = self.xattrs;
        if len < HEADER {
            return Ok(());
        }
        let mut header = [0; HEADER as usize];
        self.image.read(start, &mut header)?;
        let shared = u64::from(header[4]);
        let mut at = start + HEADER + shared * ENTRY;
        let end = start + len;
        if at > end {
            return Err(Errno::EUCLEAN);
        }
        while at + ENTRY <= end {
            let entry = Entry::read(&self.image, at)?;
            // Zeros fill the rest of the area.
            if entry.name_len == 0 && entry.prefix == 0 {
                break;
            }
            if at + ENTRY + (entry.name_len + entry.value_len) as u64 > end {
                return Err(Errno::EUCLEAN);
            }
            if each(&entry)? {
                return Ok(());
            }
            at += entry.len();
        }
        for index in 0..shared {
            let mut id = [0; 4];
            self.image.read(start + HEADER + index * ENTRY, &mut id)?;
            let at = self.image.superblock.shared_xattrs + u64::from(u32_at(&id, 0)?) * ENTRY;
            if each(&Entry::read(&self.image, at)?)? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Value of an attribute. ENODATA.
    pub fn get_xattr(&self, name: &[u8]) -> Result<Vec<u8>> {
        let mut value = Err(Errno::ENODATA);
        self.each_xattr(|entry| {
            let is_it = entry.name(&self.image)?.is_some_and(|found| found == name);
            if is_it {
                value = entry.value(&self.image);
            }
            Ok(is_it)
        })?;
        value
    }

    /// Names of all attributes but access control lists.
    pub fn xattr_names(&self) -> Result<Vec<Vec<u8>>> {
        let mut names = Vec::new();
        self.each_xattr(|entry| {
            if let Some(name) = entry.name(&self.image)?.filter(|name| Kind::of(name).is_none()) {
                crate::memory::push(&mut names, name)?;
            }
            Ok(false)
        })?;
        Ok(names)
    }

    /// One of its access control lists. A list that can't be read counts as none.
    pub fn acl(&self, kind: Kind) -> Result<Option<Rc<Acl>>> {
        if self.xattrs.len == 0 {
            return Ok(None);
        }
        let lists = match self.lists.get() {
            Some(lists) => lists,
            None => {
                let read = |kind: Kind| match self.get_xattr(kind.name()) {
                    Ok(value) => Ok(Acl::parse(&value).ok().flatten().map(Rc::new)),
                    Err(Errno::ENODATA) => Ok(None),
                    Err(errno) => Err(errno),
                };
                let both = [read(Kind::Access)?, read(Kind::Default)?];
                self.lists.get_or_init(|| both)
            }
        };
        let [access, default] = lists;
        Ok(match kind {
            Kind::Access => access.clone(),
            Kind::Default => default.clone(),
        })
    }
}
