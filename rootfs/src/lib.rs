//! Root file systems: a [`Tree`] is filled from the layers of an image, from a tar archive or from a directory, and is
//! written as an EROFS image that keel maps, and that Linux mounts too.
//!
//! ```no_run
//! # fn main() -> Result<(), rootfs::Error> {
//! # let (image, scratch, layer) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap(), std::io::empty());
//! let mut tree = rootfs::Tree::new(image, scratch, rootfs::Limits::default());
//! tree.apply_layer(layer)?; // and so on, the lowest layer first
//! let summary = tree.write_erofs(&rootfs::Options { identity: Some(b"chain id"), ..Default::default() })?;
//! # let _ = summary;
//! # Ok(())
//! # }
//! ```
//!
//! Names and attributes are in memory, about 200 bytes per file; file data is written once, straight into the image,
//! while an archive is read. The metadata follows the data. The same layers give the same bytes.
//!
//! Archives are hostile input: [`Limits`] bounds them, and each error names the entry. docs/images.md describes which
//! rules apply to layers, docs/decisions/0036-layers-become-one-erofs-image.md the reasons.
#![forbid(unsafe_code)]

mod directory;
mod erofs;
mod error;
mod image;
mod input;
mod layer;
mod limits;
mod path;
mod spool;
mod tar;
mod tree;
mod xattr;

pub use directory::erofs_of;
pub use erofs::{Options, Summary};
pub use error::{Error, Fault, Limit, Name};
pub use image::{Image, Kind, Located, Lost, Stat, is_whole};
pub use limits::Limits;
pub use tree::Tree;
