//! Writes files of an image as a tar archive.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rootfs::{Kind, Stat};
use tar::{Builder, EntryType, Header};

use super::walk::Step;
use super::{Content, Copied, Source};
use crate::error::{Error, Result};

impl Source {
    /// Writes the files as a tar archive, with owners, modes, times, extended attributes, hard links and devices.
    ///
    /// # Errors
    ///
    /// The image is damaged, or `out` can't be written.
    pub fn write_archive(&self, out: impl Write) -> Result<Copied> {
        let mut archive = Builder::new(out);
        let mut links: HashMap<u64, PathBuf> = HashMap::new();
        let mut copied = Copied::default();
        let top = self.name.clone().map_or_else(|| PathBuf::from("."), |name| OsString::from_vec(name).into());
        self.walk(&top, |path, stat, step| {
            let Step::Enter(nid) = step else { return Ok(()) };
            if stat.kind == Kind::Socket {
                copied.left_out += 1;
                return Ok(());
            }
            if stat.kind == Kind::File {
                copied.bytes += stat.size;
            }
            let is_link = stat.links > 1 && stat.kind != Kind::Directory;
            if let Some(first) = is_link.then(|| links.get(nid)).flatten() {
                let mut header = header(stat);
                header.set_entry_type(EntryType::Link);
                return archive.append_link(&mut header, path, first).map_err(|error| self.unwritten(path, &error));
            }
            if is_link {
                links.insert(*nid, path.to_owned());
            }
            self.append(&mut archive, path, stat)
        })?;
        let ended = archive.into_inner().and_then(|mut out| out.flush());
        ended.map_err(|error| Error::io("archive", &error))?;
        Ok(copied)
    }

    fn append(&self, archive: &mut Builder<impl Write>, path: &Path, stat: &Stat) -> Result<()> {
        let attributes = self.image.xattrs(stat).map_err(|error| self.damaged(&error))?;
        let mut extended: Vec<(String, Vec<u8>)> = Vec::new();
        if stat.mtime.1 != 0 && stat.mtime.0 >= 0 {
            extended.push(("mtime".to_owned(), format!("{}.{:09}", stat.mtime.0, stat.mtime.1).into_bytes()));
        }
        // Names that no header of an archive can have are none of Linux's either.
        let named = attributes.into_iter().filter_map(|(name, value)| Some((String::from_utf8(name).ok()?, value)));
        extended.extend(named.map(|(name, value)| (format!("SCHILY.xattr.{name}"), value)));
        let mut header = header(stat);
        let written = if extended.is_empty() {
            Ok(())
        } else {
            archive.append_pax_extensions(extended.iter().map(|(name, value)| (name.as_str(), value.as_slice())))
        };
        let written = written.and_then(|()| match stat.kind {
            Kind::Symlink => {
                let target = self.image.target(stat).map_err(io::Error::other)?;
                header.set_entry_type(EntryType::Symlink);
                archive.append_link(&mut header, path, Path::new(&OsString::from_vec(target)))
            }
            Kind::File => {
                header.set_size(stat.size);
                archive.append_data(&mut header, path, Content { image: &self.image, stat, offset: 0 })
            }
            Kind::Directory => {
                header.set_entry_type(EntryType::Directory);
                let name = OsString::from_vec([path.as_os_str().as_bytes(), b"/"].concat());
                archive.append_data(&mut header, Path::new(&name), io::empty())
            }
            kind => {
                header.set_entry_type(match kind {
                    Kind::Fifo => EntryType::Fifo,
                    Kind::Block => EntryType::Block,
                    _ => EntryType::Char,
                });
                header.set_device_major(stat.device.0)?;
                header.set_device_minor(stat.device.1)?;
                archive.append_data(&mut header, path, io::empty())
            }
        });
        written.map_err(|error| self.unwritten(path, &error))
    }

    /// The failure to write an entry. A pipe without a reader needs no name of an entry.
    fn unwritten(&self, path: &Path, error: &io::Error) -> Error {
        if error.get_ref().is_some_and(|inner| inner.is::<rootfs::Error>()) {
            return Error::invalid(format!("{}: {}", self.what, path.display()), error);
        }
        Error::io("archive", error)
    }
}

/// A header with owner, permissions and time.
fn header(stat: &Stat) -> Header {
    let mut header = Header::new_ustar();
    header.set_mode(stat.mode.into());
    header.set_uid(stat.uid.into());
    header.set_gid(stat.gid.into());
    header.set_mtime(u64::try_from(stat.mtime.0).unwrap_or(0));
    header.set_size(0);
    header
}
