//! Copies files of an image to the host: to a folder or file, or as a tar archive.
//!
//! The image is not trusted: a copy creates files beneath its destination only, follows no symbolic link there, and makes
//! no device.

mod archive;
mod folder;
mod walk;

use std::io;

use rootfs::{Kind, Stat};

use crate::error::{Error, Result, excerpt};
use crate::store::Image;

/// What a copy made.
#[derive(Clone, Copy, Debug, Default)]
pub struct Copied {
    /// Bytes of file data.
    pub bytes: u64,
    /// Devices and sockets that were left out.
    pub left_out: u64,
}

/// A file or directory of an image that is to be copied.
#[derive(Debug)]
pub struct Source {
    image: rootfs::Image,
    /// `IMAGE:PATH` for messages.
    what: String,
    nid: u64,
    stat: Stat,
    /// Its name at the destination; `None`: only what the directory has is copied.
    name: Option<Vec<u8>>,
}

impl Source {
    /// Finds `path` of an image. Symbolic links on the way are followed inside the image; the last one with `follow`, or
    /// if a slash comes after it. A path that ends with `/.`, and the root, stand for what the directory has.
    ///
    /// # Errors
    ///
    /// There is no such file, or the image is damaged.
    pub fn find(image: &Image, path: &[u8], follow: bool) -> Result<Self> {
        let what = format!("{}:{}", image.name, excerpt(&String::from_utf8_lossy(path)));
        let file = image.erofs.try_clone().map_err(|error| Error::io(&what, &error))?;
        let file = rootfs::Image::open(file).map_err(|error| damaged(&what, &error))?;
        let found = file.lookup(path, follow).map_err(|error| damaged(&what, &error))?;
        let nid = found.ok_or_else(|| Error::new(&what, "the image has no such file", "check the path"))?;
        let stat = file.stat(nid).map_err(|error| damaged(&what, &error))?;
        let is_contents = path.ends_with(b"/.") || path == b".";
        Ok(Self { image: file, what, nid, stat, name: if is_contents { None } else { base_name(path) } })
    }

    fn damaged(&self, error: &rootfs::Error) -> Error {
        damaged(&self.what, error)
    }
}

pub(crate) fn damaged(what: &str, error: &rootfs::Error) -> Error {
    Error::new(what, error, "remove the image with hull rmi, and load or pull it again")
}

/// The last name of a path after its `.` and `..` are resolved by their names alone; `None`: the root.
fn base_name(path: &[u8]) -> Option<Vec<u8>> {
    let mut names: Vec<&[u8]> = Vec::new();
    for name in path.split(|&byte| byte == b'/') {
        match name {
            b"" | b"." => {}
            b".." => {
                names.pop();
            }
            name => names.push(name),
        }
    }
    names.pop().map(<[u8]>::to_vec)
}

/// Permissions that a file of the host gets: without `archive`, no set-user-id and no set-group-id bit, as the file
/// belongs to another user than in the image.
fn permissions(stat: &Stat, archive: bool) -> u32 {
    u32::from(stat.mode) & if archive { 0o7777 } else { 0o1777 }
}

/// Whether copies to the host leave such a file out.
fn is_left_out(kind: Kind) -> bool {
    matches!(kind, Kind::Char | Kind::Block | Kind::Socket)
}

/// The content of a regular file.
struct Content<'a> {
    image: &'a rootfs::Image,
    stat: &'a Stat,
    offset: u64,
}

impl io::Read for Content<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.image.read(self.stat, self.offset, out).map_err(io::Error::other)?;
        self.offset += read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::base_name;

    #[test]
    fn names_of_copies() {
        for (path, name) in [
            ("/etc/passwd", Some("passwd")),
            ("etc/", Some("etc")),
            ("etc/x/..", Some("etc")),
            ("/", None),
            ("../..", None),
            ("a/./.", Some("a")),
        ] {
            assert_eq!(base_name(path.as_bytes()).as_deref(), name.map(str::as_bytes), "{path}");
        }
    }
}
