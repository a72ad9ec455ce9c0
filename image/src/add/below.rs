//! What an image has at and below the place that files are copied to.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rootfs::{Image, Kind};

use crate::copy::damaged;
use crate::error::{Error, Result, excerpt};

type Names = BTreeMap<Vec<u8>, u64>;

/// Directories of an image, for names in the order of an archive. Links are not followed.
pub(super) struct Below<'a> {
    image: &'a Image,
    /// The image's name, for messages.
    what: &'a str,
    /// The directories from the root to the one that was asked about last; `None`: the image does not have it.
    open: Vec<(Vec<u8>, Option<Names>)>,
}

impl<'a> Below<'a> {
    pub fn new(image: &'a Image, what: &'a str) -> Self {
        Self { image, what, open: Vec::new() }
    }

    fn fail(&self, name: &Path, why: &str, remedy: &str) -> Error {
        Error::new(format!("{}:/{}", self.what, excerpt(&name.to_string_lossy())), why, remedy)
    }

    /// Whether the image has a directory of that name already, without initial slash.
    ///
    /// # Errors
    ///
    /// A directory would take the place of another file or the other way round, or the way leads through a file or link.
    pub fn has_directory(&mut self, name: &Path, is_directory: bool) -> Result<bool> {
        let Some(last) = name.file_name() else { return Ok(true) };
        self.enter(name.parent().unwrap_or(Path::new("")))?;
        let nid = self.open.last().and_then(|(_, names)| names.as_ref()?.get(last.as_bytes()).copied());
        let Some(nid) = nid else { return Ok(false) };
        let stat = self.image.stat(nid).map_err(|error| damaged(self.what, &error))?;
        let remedy = "choose another place, or remove it from the image's files first";
        match (is_directory, stat.kind == Kind::Directory) {
            (true, false) => {
                Err(self.fail(name, "not a directory", "name the directory that it stands for, or another one"))
            }
            (false, true) => Err(self.fail(name, "a file can't take the place of a directory", remedy)),
            (_, is_there) => Ok(is_there),
        }
    }

    /// Opens the directories on the way.
    fn enter(&mut self, folder: &Path) -> Result<()> {
        if self.open.is_empty() {
            let names = self.names(self.image.root())?;
            self.open.push((Vec::new(), names));
        }
        let wanted: Vec<&[u8]> = folder.iter().map(OsStrExt::as_bytes).collect();
        let same = self.open.iter().skip(1).zip(&wanted).take_while(|((name, _), other)| name == *other).count();
        self.open.truncate(same + 1);
        for (depth, name) in wanted.iter().enumerate().skip(same) {
            let nid = self.open.last().and_then(|(_, names)| names.as_ref()?.get(*name).copied());
            let names = match nid {
                None => None,
                Some(nid) => match self.names(nid)? {
                    None => {
                        let path: std::path::PathBuf = folder.iter().take(depth + 1).collect();
                        return Err(self.fail(
                            &path,
                            "not a directory",
                            "name the directory that it stands for, or another one",
                        ));
                    }
                    names => names,
                },
            };
            self.open.push((name.to_vec(), names));
        }
        Ok(())
    }

    /// The names in a directory; `None`: it is none.
    fn names(&self, nid: u64) -> Result<Option<Names>> {
        let fail = |error: rootfs::Error| damaged(self.what, &error);
        let stat = self.image.stat(nid).map_err(fail)?;
        if stat.kind != Kind::Directory {
            return Ok(None);
        }
        Ok(Some(self.image.names(&stat).map_err(fail)?.into_iter().collect()))
    }
}
