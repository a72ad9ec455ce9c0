//! Copies files of the host into an image: it gets one layer more, and the name goes to the new image.

mod archive;
mod below;

use std::fs;
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rootfs::{Kind, Located, Lost};
use serde_json::{Value, json};

use crate::bundle::Bundle;
use crate::compress;
use crate::copy::damaged;
use crate::digest::Digest;
use crate::error::{Error, Result, excerpt, reason};
use crate::import::folder::{self, Owner};
use crate::install::{Installed, Options, install};
use crate::limits::{self, Limits};
use crate::manifest::{Blob, DOCKER_MANIFEST, Manifest};
use crate::reference::Reference;
use crate::store::{Parts, Store, Writer};
use crate::time;
use below::Below;

/// How files are copied into an image.
#[derive(Clone, Copy, Debug, Default)]
pub struct Addition {
    /// Owners, set-user-id bits and extended attributes are kept; otherwise the files belong to root.
    pub archive: bool,
    /// If the source is a symbolic link, its target is copied.
    pub follow: bool,
}

/// The image that a copy made.
#[derive(Clone, Debug)]
pub struct Added {
    /// Its id.
    pub id: Digest,
    /// Bytes of the new layer.
    pub bytes: u64,
    /// The name that it has now; `None`: the image was named by its id.
    pub name: Option<Reference>,
}

/// What is copied, and to which path of the image.
enum Plan {
    /// A file or directory of the host.
    File { source: PathBuf, target: PathBuf },
    /// The archive of standard input, below a directory.
    Archive { target: PathBuf },
}

impl Plan {
    /// What is read, for messages.
    fn source(&self) -> String {
        match self {
            Self::File { source, .. } => source.display().to_string(),
            Self::Archive { .. } => INPUT.to_owned(),
        }
    }
}

impl Store {
    /// Copies a file or directory of the host, or the tar archive of standard input (`-`), to a path of an image, as docker
    /// does with a container. The image itself stays as it is, without this name.
    ///
    /// # Errors
    ///
    /// There is no such image, file or directory; a directory would replace a file or the other way round; the store can't be
    /// written.
    pub fn add(&self, name: &str, to: &[u8], from: &Path, addition: Addition) -> Result<Added> {
        // A store that does not exist is not made.
        self.resolve(name)?;
        let writer = self.write()?;
        // Of two copies into one image, the second begins with what the first made.
        let _lock = writer.lock_copies()?;
        let image = self.resolve(name)?;
        let found = self.find(&writer.index()?, name)?;
        let parts = self.parts(image.manifest)?;
        if parts.manifest.layers.len() >= limits::LAYERS {
            let why = format!("the image has {} layers, as many as there may be", limits::LAYERS);
            return Err(Error::new(name, why, "make it one layer first: hull cp IMAGE:/ - | hull import - NAME"));
        }
        let what = format!("{}:{}", image.name, excerpt(&String::from_utf8_lossy(to)));
        let files = image.erofs.try_clone().map_err(|error| Error::io(&what, &error))?;
        let files = rootfs::Image::open(files).map_err(|error| damaged(&what, &error))?;
        let plan = plan(&files, &what, to, from, addition.follow)?;
        let mut bundle = Bundle::default();
        let layer = layer(&writer, &mut bundle, &plan, &mut Below::new(&files, &image.name), addition);
        let installed = layer.and_then(|layer| {
            let comment = format!("Copied {} to {}", from.display(), String::from_utf8_lossy(to));
            let added = with_layer(&writer, &mut bundle, &parts, layer, &comment).map_err(|error| {
                // The digest of the new layer says nothing to the caller.
                error.renamed(
                    &format!("layer {}", layer.0),
                    plan.source(),
                    "check its names and links, then copy again",
                )
            });
            added.map(|installed| (installed, layer.1))
        });
        let (installed, bytes) = installed.inspect_err(|_| {
            bundle = Bundle::default();
            writer.clean();
        })?;
        let tag = found.name.filter(|name| name.digest().is_none());
        writer.change(|index| {
            if let Some(tag) = &tag
                && self.find(index, &tag.to_string()).map_or(true, |now| now.manifest != image.manifest)
            {
                return Err(Error::new(name, "the name went to another image meanwhile", "copy again"));
            }
            index.set(installed.entry(tag.clone()));
            Ok(())
        })?;
        Ok(Added { id: installed.id, bytes, name: tag })
    }
}

/// Where a copy goes, by docker's rules.
fn plan(files: &rootfs::Image, what: &str, to: &[u8], from: &Path, follow: bool) -> Result<Plan> {
    let fail = |why: &str, remedy: &str| Err(Error::new(what, why, remedy));
    let located = files.locate(to, true).map_err(|error| damaged(what, &error))?;
    let Located { names, nid } = located.map_err(|why| lost(what, why))?;
    let place: PathBuf = names.into_iter().map(std::ffi::OsString::from_vec).collect();
    let stat = nid.map(|nid| files.stat(nid)).transpose().map_err(|error| damaged(what, &error))?;
    let kind = stat.map(|stat| stat.kind);
    if from == Path::new("-") {
        return match kind {
            Some(Kind::Directory) => Ok(Plan::Archive { target: place }),
            _ => fail("not a directory of the image", "an archive needs one that exists"),
        };
    }
    let host = |error: io::Error| Error::io(from.display(), &error);
    let data = if follow { fs::metadata(from) } else { fs::symlink_metadata(from) }.map_err(host)?;
    let source = if follow { fs::canonicalize(from).map_err(host)? } else { from.to_owned() };
    let below = |place: &Path| -> Result<PathBuf> {
        let own = match from.file_name() {
            Some(name) => Some(name.to_owned()),
            None => fs::canonicalize(from).map_err(host)?.file_name().map(ToOwned::to_owned),
        };
        Ok(own.map_or_else(|| place.to_owned(), |name| place.join(name)))
    };
    let bytes = from.as_os_str().as_bytes();
    let is_contents = bytes == b"." || bytes.ends_with(b"/.");
    let target = match (data.is_dir(), kind) {
        (true, Some(Kind::Directory)) if is_contents => place,
        (_, Some(Kind::Directory)) => below(&place)?,
        (true, Some(_)) => return fail("a directory can't take the place of a file", "choose another path"),
        (false, None) if to.ends_with(b"/") || to.ends_with(b"/.") => {
            return fail("no such directory in the image", "copy to one that exists");
        }
        _ => place,
    };
    Ok(Plan::File { source, target })
}

/// A destination that leads nowhere.
fn lost(what: &str, why: Lost) -> Error {
    let path = |names: Vec<Vec<u8>>| {
        let path: Vec<u8> = names.iter().flat_map(|name| [b"/", &name[..]].concat()).collect();
        excerpt(&String::from_utf8_lossy(&path))
    };
    let (why, remedy) = match why {
        Lost::Missing { names, by_link: false } => {
            (format!("the directory {} does not exist in the image", path(names)), "copy to a directory that exists")
        }
        Lost::Missing { names, by_link: true } => {
            let why = format!("a link leads to {}, which does not exist in the image", path(names));
            (why, "name a path without that link, or copy that directory first")
        }
        Lost::NotADirectory(names) => {
            (format!("{} is not a directory of the image", path(names)), "copy to a directory that exists")
        }
        Lost::Loop => ("its links form a loop".to_owned(), "name a path without links"),
    };
    Error::new(what, why, remedy)
}

/// What an archive of standard input is called in messages.
const INPUT: &str = "standard input";

/// An archive of standard input that can't be read.
fn unreadable(error: &io::Error) -> Error {
    let remedy = "give the whole output of `tar -c`, plain or packed with gzip or zstd";
    Error::new(INPUT, format!("no valid tar archive: {}", reason(error)), remedy)
}

/// Stores the new layer.
fn layer(
    writer: &Writer,
    bundle: &mut Bundle,
    plan: &Plan,
    below: &mut Below<'_>,
    addition: Addition,
) -> Result<(Digest, u64)> {
    let owner = if addition.archive { Owner::Keep } else { Owner::Root };
    let (input, output) = io::pipe().map_err(|error| Error::io("pipe", &error))?;
    std::thread::scope(|scope| {
        let written = scope.spawn(move || match plan {
            Plan::File { source, target } => copy(source, target, below, owner, output),
            Plan::Archive { target } => {
                let (_, stream) = compress::unpack(io::stdin()).map_err(|error| match error.kind() {
                    io::ErrorKind::Unsupported => Error::packed(INPUT, &error),
                    _ => unreadable(&error),
                })?;
                archive::write(stream, target, below, owner, output)
            }
        });
        let added = bundle.add(writer, input, Limits::default().size);
        match written.join() {
            // A full disk or the limit ends the pipe too: that error is the reason.
            Ok(Err(error)) if added.is_ok() => Err(error),
            Ok(_) => added,
            Err(_) => Err(Error::new("cp", "the thread that reads the files failed", "try again")),
        }
    })
}

/// Writes a file or directory of the host as a layer, except the directories that the image has, unless their owners are kept.
fn copy(source: &Path, target: &Path, below: &mut Below<'_>, owner: Owner, out: impl Write) -> Result<()> {
    folder::write_at(source, target, owner, out, |name, data| {
        if is_whiteout(name) {
            return Err(whiteout(name));
        }
        let is_there = below.has_directory(name, data.is_dir())?;
        Ok(!(is_there && owner == Owner::Root))
    })
}

/// Whether a layer could not have a file of that name.
fn is_whiteout(name: &Path) -> bool {
    name.file_name().is_some_and(|name| name.as_bytes().starts_with(b".wh."))
}

fn whiteout(name: &Path) -> Error {
    let why = "in layers, names that begin with .wh. mean that a file is removed";
    Error::new(excerpt(&name.to_string_lossy()), why, "give the file another name")
}

/// Stores the image that has a layer more.
fn with_layer(
    writer: &Writer,
    bundle: &mut Bundle,
    parts: &Parts,
    (diff_id, size): (Digest, u64),
    comment: &str,
) -> Result<Installed> {
    let mut config: Value = serde_json::from_slice(&parts.config_bytes)
        .map_err(|error| Error::invalid("configuration", format!("no valid JSON: {error}")))?;
    let now = time::now();
    let mut ids: Vec<String> = parts.diff_ids.iter().map(Digest::to_string).collect();
    ids.push(diff_id.to_string());
    config["rootfs"] = json!({ "type": "layers", "diff_ids": ids });
    config["created"] = now.clone().into();
    // Of an image without a history, an entry for each of its layers.
    let mut history = match config["history"].take() {
        Value::Array(history) => history,
        _ => vec![json!({}); parts.diff_ids.len()],
    };
    history.push(json!({ "created": now, "created_by": "hull cp", "comment": comment }));
    config["history"] = history.into();
    let config = config.to_string();
    let (id, length) = bundle.add(writer, config.as_bytes(), limits::CONFIG)?;
    let media_type = match parts.manifest.media_type.as_str() {
        DOCKER_MANIFEST => "application/vnd.docker.image.rootfs.diff.tar",
        _ => "application/vnd.oci.image.layer.v1.tar",
    };
    let mut manifest = Manifest {
        config: Blob { digest: id, size: length, media_type: parts.manifest.config.media_type.clone() },
        ..parts.manifest.clone()
    };
    manifest.layers.push(Blob { digest: diff_id, size, media_type: media_type.to_owned() });
    install(writer, &manifest.to_bytes(), bundle, &Options::default())
}
