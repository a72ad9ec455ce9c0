//! Tar archives into the tree: layers with whiteouts, and plain root file systems.

use std::{collections::BTreeMap, io::Read};

use crate::{
    error::{Error, Fault},
    path,
    spool::Place,
    tar::{Entry, Kind, Reader},
    tree::{Body, Id, Inode, Last, Meta, Missing, ROOT, Tree},
    xattr,
};

/// Whether names that begin with `.wh.` hide names of lower layers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whiteouts {
    Apply,
    Literal,
}

/// Room in a metadata block beside an extended inode.
const ROOM: u64 = crate::erofs::format::BLOCK - 64;

/// Files in `.wh..wh.plnk`, which hard links of the same layer refer to (layers that Docker made with AUFS).
type Hidden = BTreeMap<Vec<u8>, Id>;

impl Tree {
    /// Applies an OCI layer, an uncompressed tar archive, over what the tree has. Layers come in order, the lowest first.
    /// `layer` is read to its end.
    ///
    /// # Errors
    ///
    /// The archive is damaged, exceeds a limit or has an entry that cannot be meant, or reading or writing fails.
    pub fn apply_layer(&mut self, layer: impl Read) -> Result<(), Error> {
        self.apply(layer, Whiteouts::Apply)
    }

    /// Adds the files of a plain tar archive of a root file system: as [`apply_layer`](Self::apply_layer), but names
    /// that begin with `.wh.` are names like others.
    ///
    /// # Errors
    ///
    /// As for [`apply_layer`](Self::apply_layer).
    pub fn add_tar(&mut self, archive: impl Read) -> Result<(), Error> {
        self.apply(archive, Whiteouts::Literal)
    }

    fn apply(&mut self, archive: impl Read, whiteouts: Whiteouts) -> Result<(), Error> {
        self.layer += 1;
        let mut reader = Reader::new(archive, self.limits);
        let mut hidden = Hidden::new();
        while let Some(mut entry) = reader.next()? {
            let path = std::mem::take(&mut entry.path);
            let fail = |fault: Fault| fault.of(&path);
            if entry.kind == Kind::Label {
                continue;
            }
            let names = path::names(&path, &self.limits).map_err(fail)?;
            if whiteouts == Whiteouts::Apply {
                match whiteout(&names).map_err(fail)? {
                    Whiteout::None => {}
                    Whiteout::Of(name) => {
                        self.hide(&names[..names.len() - 1], name).map_err(fail)?;
                        continue;
                    }
                    Whiteout::Opaque => {
                        let parent = self.parent(&names[..names.len() - 1], Missing::Leave).map_err(fail)?;
                        if let Some(parent) = parent {
                            self.hide_lower(parent);
                        }
                        continue;
                    }
                    Whiteout::Ignored => {
                        if names[0] == b".wh..wh.plnk" && names.len() == 2 && entry.kind == Kind::File {
                            let id = self.object(&path, entry, &mut reader)?;
                            self.inode_mut(id).links += 1;
                            if let Some(old) = hidden.insert(names[1].to_vec(), id) {
                                self.release(old);
                            }
                        }
                        continue;
                    }
                }
            }
            self.entry(&path, &names, entry, &hidden, &mut reader)?;
        }
        for id in hidden.into_values() {
            self.release(id);
        }
        self.spool.flush()
    }

    /// Hides the name of lower layers. What the same layer has there stays, but of a directory only that.
    fn hide(&mut self, parent: &[&[u8]], name: &[u8]) -> Result<(), Fault> {
        let Some(parent) = self.parent(parent, Missing::Leave)? else { return Ok(()) };
        let Some(slot) = self.directory(parent).and_then(|directory| directory.names.get(name)).copied() else {
            return Ok(());
        };
        if slot.layer < self.layer {
            self.unlink(parent, name);
        } else if self.directory(slot.id).is_some() {
            self.hide_lower(slot.id);
        }
        Ok(())
    }

    /// Adds one entry that is no whiteout.
    fn entry<R: Read>(
        &mut self,
        path: &[u8],
        names: &[&[u8]],
        entry: Entry,
        hidden: &Hidden,
        reader: &mut Reader<R>,
    ) -> Result<(), Error> {
        let fail = |fault: Fault| fault.of(path);
        let Some((&name, above)) = names.split_last() else {
            if entry.kind != Kind::Directory {
                return Err(fail(Fault::Root));
            }
            let meta = self.meta(entry).map_err(fail)?;
            self.set_meta(ROOT, meta);
            return Ok(());
        };
        let parent = self.parent(above, Missing::Create(entry.mtime)).map_err(fail)?.unwrap_or(ROOT);
        let old = self.directory(parent).and_then(|directory| directory.names.get(name)).map(|slot| slot.id);
        let id = match entry.kind {
            Kind::HardLink => {
                let target = path::names(&entry.link, &self.limits).map_err(fail)?;
                let found = match target[..] {
                    [b".wh..wh.plnk", name] if hidden.contains_key(name) => hidden.get(name).copied(),
                    _ => self.find(&target, Last::Keep).map_err(fail)?,
                };
                let id = found.ok_or_else(|| fail(Fault::NoTarget))?;
                if self.directory(id).is_some() {
                    return Err(fail(Fault::LinkToDirectory));
                }
                id
            }
            Kind::Directory => {
                let meta = self.meta(entry).map_err(fail)?;
                match old.filter(|&old| self.directory(old).is_some()) {
                    Some(old) => {
                        self.set_meta(old, meta);
                        self.touch(parent, name);
                        return Ok(());
                    }
                    None => self.create_directory(meta),
                }
            }
            _ => self.object(path, entry, reader)?,
        };
        self.link(parent, name, id).map_err(fail)
    }

    /// Creates what is neither a directory nor a hard link, without a name.
    fn object<R: Read>(&mut self, path: &[u8], mut entry: Entry, reader: &mut Reader<R>) -> Result<Id, Error> {
        let fail = |fault: Fault| fault.of(path);
        let (kind, size, device) = (entry.kind, entry.size, entry.device);
        let segments = entry.segments.take();
        let link = std::mem::take(&mut entry.link);
        let mut meta = self.meta(entry).map_err(fail)?;
        if kind == Kind::Symlink {
            // Linux has no other mode for them.
            meta.mode = 0o777;
        }
        let body = match kind {
            Kind::File => Body::File { size, place: self.file(path, size, segments, &meta, reader)? },
            Kind::Symlink => {
                if link.is_empty() || link.contains(&0) {
                    return Err(fail(Fault::Target));
                }
                if link.len() > self.limits.path {
                    return Err(fail(Fault::Limit(crate::Limit::Path(self.limits.path))));
                }
                Body::Symlink(link.into())
            }
            Kind::Char => Body::Char(device.0, device.1),
            Kind::Block => Body::Block(device.0, device.1),
            Kind::Fifo => Body::Fifo,
            Kind::Directory | Kind::HardLink | Kind::Label => return Err(fail(Fault::Type(b'?'))),
        };
        Ok(self.create(Inode { meta, links: 0, body }))
    }

    /// Stores the data of a file.
    pub(crate) fn file(
        &mut self,
        path: &[u8],
        size: u64,
        segments: Option<Vec<crate::tar::Segment>>,
        meta: &Meta,
        data: &mut impl crate::spool::Data,
    ) -> Result<Place, Error> {
        let limits = self.limits;
        match segments {
            Some(segments) if segments.iter().map(|segment| segment.len).sum::<u64>() != size => {
                self.spool.store_sparse(path, size, &segments, data, &limits)
            }
            _ => {
                let room = ROOM.saturating_sub(xattr::table_size(&meta.xattrs) as u64);
                self.spool.store(path, size, room, data, &limits)
            }
        }
    }

    /// The attributes of an entry.
    fn meta(&mut self, entry: Entry) -> Result<Meta, Fault> {
        // Linux has no attributes in `user` of other objects.
        let has_xattrs = matches!(entry.kind, Kind::File | Kind::Directory);
        let xattrs = if has_xattrs { xattr::collect(entry.xattrs, &self.limits)? } else { Box::default() };
        self.count_xattrs(&xattrs)?;
        Ok(Meta { mode: entry.mode, uid: entry.uid, gid: entry.gid, mtime: entry.mtime, xattrs })
    }
}

/// What a path means for lower layers.
enum Whiteout<'a> {
    None,
    Of(&'a [u8]),
    Opaque,
    /// Bookkeeping of AUFS.
    Ignored,
}

fn whiteout<'a>(names: &[&'a [u8]]) -> Result<Whiteout<'a>, Fault> {
    let Some((last, above)) = names.split_last() else { return Ok(Whiteout::None) };
    if above.iter().any(|name| name.starts_with(b".wh..wh.")) {
        return Ok(Whiteout::Ignored);
    }
    if above.iter().any(|name| name.starts_with(b".wh.")) {
        return Err(Fault::Whiteout);
    }
    match last.strip_prefix(b".wh.") {
        None => Ok(Whiteout::None),
        Some(b".wh..opq") => Ok(Whiteout::Opaque),
        Some(b"" | b"." | b"..") => Err(Fault::Whiteout),
        Some(name) if name.starts_with(b".wh.") => Ok(Whiteout::Ignored),
        Some(name) => Ok(Whiteout::Of(name)),
    }
}
