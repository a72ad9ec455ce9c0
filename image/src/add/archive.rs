//! Writes a tar archive as a layer: its files below a directory of the image.

use std::io::{self, Read, Write};
use std::path::{Component, Path, PathBuf};

use tar::{Archive, Builder, Entry, EntryType};

use super::below::Below;
use super::{INPUT, is_whiteout, unreadable, whiteout};
use crate::error::{Error, Result};
use crate::import::folder::Owner;

/// Writes the entries of `stream` below `target`.
pub(super) fn write(
    stream: impl Read,
    target: &Path,
    below: &mut Below<'_>,
    owner: Owner,
    out: impl Write,
) -> Result<()> {
    let fail = |error: io::Error| unreadable(&error);
    let mut layer = Builder::new(out);
    let mut archive = Archive::new(stream);
    for entry in archive.entries().map_err(fail)? {
        let mut entry = entry.map_err(fail)?;
        let kind = entry.header().entry_type();
        if matches!(kind, EntryType::XGlobalHeader) {
            continue;
        }
        let inner = inside(&entry.path().map_err(fail)?)?;
        if is_whiteout(&inner) {
            return Err(whiteout(&inner));
        }
        let name = target.join(&inner);
        let is_there = below.has_directory(&name, kind == EntryType::Directory)?;
        if !(is_there && owner == Owner::Root) {
            append(&mut layer, &mut entry, &name, target, owner)?;
        }
    }
    layer.finish().map_err(|error| Error::io("layer", &error))
}

/// The path of an entry without `.` and initial slashes.
fn inside(path: &Path) -> Result<PathBuf> {
    let mut inner = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => inner.push(name),
            Component::ParentDir => {
                let why = format!("the name {} leads out of the destination", path.display());
                return Err(Error::invalid(INPUT, why));
            }
            _ => {}
        }
    }
    Ok(inner)
}

fn append<R: Read, W: Write>(
    layer: &mut Builder<W>,
    entry: &mut Entry<'_, R>,
    name: &Path,
    target: &Path,
    owner: Owner,
) -> Result<()> {
    let fail = |error: io::Error| unreadable(&error);
    let mut extended = Vec::new();
    if let Some(records) = entry.pax_extensions().map_err(fail)? {
        for record in records {
            let record = record.map_err(fail)?;
            let Ok(key) = record.key() else { continue };
            // Names, sizes and owners are in the new header.
            let is_kept = key == "mtime" || owner == Owner::Keep && key.starts_with("SCHILY.xattr.");
            if is_kept {
                extended.push((key.to_owned(), record.value_bytes().to_vec()));
            }
        }
    }
    let old = entry.header();
    let mut header = tar::Header::new_ustar();
    let kind = match old.entry_type() {
        EntryType::Continuous | EntryType::GNUSparse => EntryType::Regular,
        kind => kind,
    };
    header.set_entry_type(kind);
    header.set_mode(owner.mode(old.mode().map_err(fail)?));
    let ids = (old.uid().map_err(fail)?, old.gid().map_err(fail)?);
    let (uid, gid) = owner.ids(ids);
    header.set_uid(uid);
    header.set_gid(gid);
    header.set_mtime(old.mtime().map_err(fail)?);
    header.set_size(0);
    if matches!(kind, EntryType::Char | EntryType::Block) {
        header.set_device_major(old.device_major().map_err(fail)?.unwrap_or(0)).map_err(fail)?;
        header.set_device_minor(old.device_minor().map_err(fail)?.unwrap_or(0)).map_err(fail)?;
    }
    let link = match kind {
        EntryType::Link | EntryType::Symlink => {
            let link = entry.link_name().map_err(fail)?;
            Some(link.ok_or_else(|| Error::invalid(INPUT, "a link has no target"))?.into_owned())
        }
        _ => None,
    };
    let written = |error: io::Error| Error::io("layer", &error);
    if !extended.is_empty() {
        let records = extended.iter().map(|(key, value)| (key.as_str(), value.as_slice()));
        layer.append_pax_extensions(records).map_err(written)?;
    }
    match link {
        Some(first) if kind == EntryType::Link => {
            layer.append_link(&mut header, name, target.join(inside(&first)?)).map_err(written)
        }
        Some(link) => layer.append_link(&mut header, name, link).map_err(written),
        None => {
            let size = if kind == EntryType::Regular { entry.size() } else { 0 };
            header.set_size(size);
            layer.append_data(&mut header, name, entry.take(size)).map_err(fail)
        }
    }
}
