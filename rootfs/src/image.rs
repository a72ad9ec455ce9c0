//! Reading images on the host: single files (users of an image, `hull cp`), and a second opinion on the writer in tests.

use std::{fs::File, os::unix::fs::FileExt};

use crate::{
    erofs::format::{BLOCK, BLOCK_BITS, CHUNKED, DIRENT, HOLE, MAGIC, SLOT, SUPER, SUPER_SIZE, crc32c},
    error::Error,
    xattr::PREFIXES,
};

/// Type of a file in an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Kind {
    File,
    Directory,
    Symlink,
    Char,
    Block,
    Fifo,
    Socket,
}

/// Attributes of a file in an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// What it is.
    pub kind: Kind,
    /// Permissions, without the type.
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Size in bytes.
    pub size: u64,
    /// Hard links.
    pub links: u32,
    /// Seconds and nanoseconds of the last modification.
    pub mtime: (i64, u32),
    /// Major and minor number of a device.
    pub device: (u32, u32),
    layout: u16,
    union: u32,
    /// Offset in the image of what follows the inode, and the size of the attributes there.
    behind: u64,
    xattrs: u64,
}

/// Where a path of an image leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    /// The names from the root, none of which is a link, unless the last one is and was not to be followed.
    pub names: Vec<Vec<u8>>,
    /// What has the last name; `None`: nothing.
    pub nid: Option<u64>,
}

/// Why a path of an image leads nowhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lost {
    /// A directory on the way does not exist.
    Missing {
        /// Its names from the root.
        names: Vec<Vec<u8>>,
        /// A symbolic link led there.
        by_link: bool,
    },
    /// What these names lead to is not a directory, but the path goes on.
    NotADirectory(Vec<Vec<u8>>),
    /// There are too many symbolic links, or they form a loop.
    Loop,
}

/// An EROFS image as [`Tree::write_erofs`](crate::Tree::write_erofs) makes them: uncompressed, blocks of 4 KiB.
#[derive(Debug)]
pub struct Image {
    file: File,
    root: u64,
    time: (i64, u32),
    metadata: u64,
    shared: u64,
    size: u64,
}

/// Names and values of extended attributes.
type Xattrs = Vec<(Vec<u8>, Vec<u8>)>;

const fn bad<T>(what: &'static str) -> Result<T, Error> {
    Err(Error::Image(what))
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

/// Whether a file begins as an image and is as long as its superblock says: a quick look for files that were cut.
pub fn is_whole(file: &File) -> bool {
    let mut sb = [0; 40];
    let length = file.metadata().map_or(0, |data| data.len());
    file.read_exact_at(&mut sb, SUPER).is_ok()
        && u32_at(&sb, 0) == MAGIC
        && length >= u64::from(u32_at(&sb, 36)) * BLOCK
}

impl Image {
    /// Opens an image.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or is not such an image.
    pub fn open(file: File) -> Result<Image, Error> {
        let size = file.metadata().map_err(Error::Read)?.len();
        let mut sb = vec![0; (BLOCK - SUPER) as usize];
        if size < BLOCK {
            return bad("it is too short");
        }
        file.read_exact_at(&mut sb, SUPER).map_err(Error::Read)?;
        if u32_at(&sb, 0) != MAGIC {
            return bad("it has no EROFS superblock");
        }
        let checksum = u32_at(&sb, 4);
        sb[4..8].fill(0);
        if u32_at(&sb, 8) & 1 != 0 && crc32c(!0, &sb) != checksum {
            return bad("the checksum of the superblock is wrong");
        }
        if sb[12] != BLOCK_BITS || u32_at(&sb, 80) & !CHUNKED != 0 || sb[90] != 0 {
            return bad("it has features that are not supported (compression, devices, other block sizes)");
        }
        if size < u64::from(u32_at(&sb, 36)) * BLOCK {
            return bad("it is shorter than its superblock says");
        }
        let block = |at: usize| u64::from(u32_at(&sb[..SUPER_SIZE], at)) * BLOCK;
        Ok(Image {
            root: u64::from(u16_at(&sb, 14)),
            time: (u64_at(&sb, 24).cast_signed(), u32_at(&sb, 32)),
            metadata: block(40),
            shared: block(44),
            size,
            file,
        })
    }

    /// Number of the root directory.
    pub fn root(&self) -> u64 {
        self.root
    }

    fn read_at(&self, at: u64, out: &mut [u8]) -> Result<(), Error> {
        if at.checked_add(out.len() as u64).is_none_or(|end| end > self.size) {
            return bad("data lie beyond its end");
        }
        self.file.read_exact_at(out, at).map_err(Error::Read)
    }

    /// Attributes of the inode with the number `nid`.
    ///
    /// # Errors
    ///
    /// The image is damaged or cannot be read.
    pub fn stat(&self, nid: u64) -> Result<Stat, Error> {
        let at = nid.checked_mul(SLOT).and_then(|offset| offset.checked_add(self.metadata));
        let Some(at) = at else { return bad("an inode's number is out of range") };
        let mut raw = [0; 64];
        self.read_at(at, &mut raw[..32])?;
        let format = u16_at(&raw, 0);
        let extended = format & 1 != 0;
        if extended {
            self.read_at(at, &mut raw)?;
        }
        let mode = u16_at(&raw, 4);
        let kind = match mode >> 12 {
            0o10 => Kind::File,
            0o04 => Kind::Directory,
            0o12 => Kind::Symlink,
            0o02 => Kind::Char,
            0o06 => Kind::Block,
            0o01 => Kind::Fifo,
            0o14 => Kind::Socket,
            _ => return bad("an inode has an unknown type"),
        };
        let count = u64::from(u16_at(&raw, 2));
        let union = u32_at(&raw, 16);
        let (size, uid, gid, mtime, links) = if extended {
            let mtime = (u64_at(&raw, 32).cast_signed(), u32_at(&raw, 40));
            (u64_at(&raw, 8), u32_at(&raw, 24), u32_at(&raw, 28), mtime, u32_at(&raw, 44))
        } else {
            let ids = (u32::from(u16_at(&raw, 24)), u32::from(u16_at(&raw, 26)));
            (u64::from(u32_at(&raw, 8)), ids.0, ids.1, self.time, u32::from(u16_at(&raw, 6)))
        };
        let is_device = matches!(kind, Kind::Char | Kind::Block);
        Ok(Stat {
            kind,
            mode: mode & 0o7777,
            uid,
            gid,
            size,
            links,
            mtime,
            device: if is_device { (union >> 8 & 0xfff, union & 0xff | (union >> 20) << 8) } else { (0, 0) },
            layout: format >> 1 & 7,
            union,
            behind: at + if extended { 64 } else { 32 },
            xattrs: if count == 0 { 0 } else { 12 + 4 * (count - 1) },
        })
    }

    /// Reads `out.len()` bytes at most from `offset` of a file, a directory or a symbolic link; returns how many.
    ///
    /// # Errors
    ///
    /// The image is damaged or cannot be read.
    pub fn read(&self, stat: &Stat, offset: u64, out: &mut [u8]) -> Result<usize, Error> {
        let len = stat.size.saturating_sub(offset).min(out.len() as u64) as usize;
        let mut done = 0;
        while done < len {
            let at = offset + done as u64;
            let (place, have) = self.place(stat, at)?;
            let step = have.min((len - done) as u64) as usize;
            let target = &mut out[done..done + step];
            match place {
                Some(place) => self.read_at(place, target)?,
                None => target.fill(0),
            }
            done += step;
        }
        Ok(len)
    }

    /// Bytes of the hole that is at `at` of a file, before its end; 0: there are data.
    ///
    /// # Errors
    ///
    /// The image is damaged or cannot be read.
    pub fn hole(&self, stat: &Stat, at: u64) -> Result<u64, Error> {
        if at >= stat.size {
            return Ok(0);
        }
        Ok(match self.place(stat, at)? {
            (None, len) => len.min(stat.size - at),
            (Some(_), _) => 0,
        })
    }

    /// Where the byte at `at` of a file is in the image (`None`: in a hole), and how many bytes follow it there.
    fn place(&self, stat: &Stat, at: u64) -> Result<(Option<u64>, u64), Error> {
        let behind = stat.behind + stat.xattrs;
        // A place beyond the image is refused when it is read.
        let in_blocks = (u64::from(stat.union) * BLOCK).saturating_add(at);
        match stat.layout {
            0 => Ok((Some(in_blocks), stat.size - at)),
            2 => {
                let whole = stat.size - stat.size % BLOCK;
                if at < whole {
                    Ok((Some(in_blocks), whole - at))
                } else {
                    Ok((Some(behind + (at - whole)), stat.size - at))
                }
            }
            4 => {
                if stat.union & !31 != 0 {
                    return bad("a file has chunks of an unknown form");
                }
                let chunk = BLOCK << (stat.union & 31);
                let mut raw = [0; 4];
                self.read_at(behind.saturating_add(at / chunk * 4), &mut raw)?;
                let block = u32::from_le_bytes(raw);
                let rest = chunk - at % chunk;
                Ok(((block != HOLE).then(|| u64::from(block) * BLOCK + at % chunk), rest))
            }
            _ => bad("a file is compressed"),
        }
    }

    /// Names and inodes of a directory, `.` and `..` included, in the image's order.
    ///
    /// # Errors
    ///
    /// It is no directory, or the image is damaged or cannot be read.
    pub fn names(&self, stat: &Stat) -> Result<Vec<(Vec<u8>, u64)>, Error> {
        if stat.kind != Kind::Directory {
            return bad("not a directory");
        }
        let mut all = Vec::new();
        let mut block = [0; BLOCK as usize];
        let mut at = 0;
        while at < stat.size {
            let len = self.read(stat, at, &mut block)?;
            let block = &block[..len];
            let first = if len < DIRENT { 0 } else { usize::from(u16_at(block, 8)) };
            if first == 0 || first % DIRENT != 0 || first > len {
                return bad("a directory is damaged");
            }
            for entry in (0..first).step_by(DIRENT) {
                let start = usize::from(u16_at(block, entry + 8));
                let end = if entry + DIRENT < first { usize::from(u16_at(block, entry + DIRENT + 8)) } else { len };
                let Some(name) = block.get(start..end) else { return bad("a directory is damaged") };
                let name = &name[..name.iter().position(|&b| b == 0).unwrap_or(name.len())];
                all.push((name.to_vec(), u64_at(block, entry)));
            }
            at += BLOCK;
        }
        Ok(all)
    }

    /// The target of a symbolic link.
    ///
    /// # Errors
    ///
    /// It is no symbolic link, or the image is damaged or cannot be read.
    pub fn target(&self, stat: &Stat) -> Result<Vec<u8>, Error> {
        if stat.kind != Kind::Symlink || stat.size > BLOCK {
            return bad("not a symbolic link");
        }
        let mut target = vec![0; stat.size as usize];
        self.read(stat, 0, &mut target)?;
        Ok(target)
    }

    /// Names and values of extended attributes, sorted by name.
    ///
    /// # Errors
    ///
    /// The image is damaged or cannot be read.
    pub fn xattrs(&self, stat: &Stat) -> Result<Xattrs, Error> {
        let mut all = Vec::new();
        if stat.xattrs == 0 {
            return Ok(all);
        }
        let mut table = vec![0; stat.xattrs as usize];
        self.read_at(stat.behind, &mut table)?;
        let shared = usize::from(table[4]);
        let Some(mut rest) = table.get(12 + 4 * shared..) else { return bad("attributes are damaged") };
        for at in (12..12 + 4 * shared).step_by(4) {
            let place = self.shared + u64::from(u32_at(&table, at)) * 4;
            let mut head = [0; 4];
            self.read_at(place, &mut head)?;
            let mut entry = vec![0; 4 + usize::from(head[0]) + usize::from(u16_at(&head, 2))];
            self.read_at(place, &mut entry)?;
            all.extend(xattr(&entry).map(|(name, value, _)| (name, value)));
        }
        while rest.len() >= 4 {
            let Some((name, value, len)) = xattr(rest) else { return bad("attributes are damaged") };
            all.push((name, value));
            rest = rest.get(len.next_multiple_of(4)..).unwrap_or(&[]);
        }
        all.sort();
        Ok(all)
    }

    /// The inode at `path`; symbolic links are followed inside the image, the last one too.
    ///
    /// # Errors
    ///
    /// The image is damaged or cannot be read.
    pub fn find(&self, path: &str) -> Result<Option<Stat>, Error> {
        self.lookup(path.as_bytes(), true)?.map(|nid| self.stat(nid)).transpose()
    }

    /// Number of the inode at `path`, from the root. Symbolic links are followed inside the image; the last one only
    /// with `follow` or if a slash comes after it. `None`: nothing is there, or the links form a loop.
    ///
    /// # Errors
    ///
    /// The image is damaged or cannot be read.
    pub fn lookup(&self, path: &[u8], follow: bool) -> Result<Option<u64>, Error> {
        Ok(self.locate(path, follow)?.ok().and_then(|located| located.nid))
    }

    /// Where `path` leads, with links as in [`Image::lookup`]; its last name need not exist.
    ///
    /// # Errors
    ///
    /// The image is damaged or cannot be read.
    pub fn locate(&self, path: &[u8], follow: bool) -> Result<Result<Located, Lost>, Error> {
        // The last inode of `above` is a directory, unless the path ends there.
        let mut above = vec![(Vec::new(), self.root)];
        let mut left: Vec<Vec<u8>> = path.split(|&b| b == b'/').rev().map(<[u8]>::to_vec).collect();
        let (mut links, mut steps) = (0, 0);
        let names = |above: Vec<(Vec<u8>, u64)>, new: Option<Vec<u8>>| -> Vec<Vec<u8>> {
            above.into_iter().skip(1).map(|(name, _)| name).chain(new).collect()
        };
        while let Some(name) = left.pop() {
            steps += 1;
            let here = above.last().map_or(self.root, |(_, nid)| *nid);
            let stat = self.stat(here)?;
            if stat.kind != Kind::Directory {
                return Ok(Err(Lost::NotADirectory(names(above, None))));
            }
            match &name[..] {
                b"" | b"." => continue,
                b".." => {
                    above.truncate((above.len() - 1).max(1));
                    continue;
                }
                _ => {}
            }
            let Some(&(_, nid)) = self.names(&stat)?.iter().find(|(other, _)| *other == name) else {
                let is_last = left.iter().all(|name| matches!(&name[..], b"" | b"."));
                let names = names(above, Some(name));
                return Ok(if is_last {
                    Ok(Located { names, nid: None })
                } else {
                    Err(Lost::Missing { names, by_link: links > 0 })
                });
            };
            let stat = self.stat(nid)?;
            if stat.kind != Kind::Symlink || (left.is_empty() && !follow) {
                above.push((name, nid));
                continue;
            }
            links += 1;
            if links > 40 || steps > 8192 {
                return Ok(Err(Lost::Loop));
            }
            let target = self.target(&stat)?;
            if target.first() == Some(&b'/') {
                above.truncate(1);
            }
            left.extend(target.split(|&b| b == b'/').rev().map(<[u8]>::to_vec));
        }
        let nid = above.last().map(|(_, nid)| *nid);
        Ok(Ok(Located { names: names(above, None), nid }))
    }

    /// The content of a regular file. `None`: there is none at `path`.
    ///
    /// # Errors
    ///
    /// The file has more than `most` bytes, or the image is damaged or cannot be read.
    pub fn read_file(&self, path: &str, most: u64) -> Result<Option<Vec<u8>>, Error> {
        let Some(stat) = self.find(path)?.filter(|stat| stat.kind == Kind::File) else { return Ok(None) };
        if stat.size > most {
            return bad("a file of it is larger than expected");
        }
        let mut content = vec![0; stat.size as usize];
        self.read(&stat, 0, &mut content)?;
        Ok(Some(content))
    }
}

/// The first entry of a table: name, value, size.
fn xattr(entry: &[u8]) -> Option<(Vec<u8>, Vec<u8>, usize)> {
    let name_end = 4 + usize::from(*entry.first()?);
    let end = name_end + usize::from(u16_at(entry.get(..4)?, 2));
    let prefix = PREFIXES.iter().find(|(index, _)| *index == entry[1]).map_or(&b"?"[..], |(_, prefix)| prefix);
    Some(([prefix, entry.get(4..name_end)?].concat(), entry.get(name_end..end)?.to_vec(), end))
}
