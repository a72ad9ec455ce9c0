//! Writing a [`Tree`] as an EROFS image.
//!
//! The image has, in this order: the superblock's block; the data of files, written while layers were read; blocks of
//! directories and of long symbolic links; attributes that several inodes have; inodes, each with its attributes and
//! its inline data. All sizes are known before the first inode is written, so the image is written without reading it back.

mod directory;
pub(crate) mod format;
mod layout;
mod write;
mod xattr;

use crate::{error::Error, tree::Tree};

/// Options of [`Tree::write_erofs`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Options<'a> {
    /// Bytes that identify the content, for instance the chain ID of the layers. The volume's UUID is derived from them.
    /// Without them it is derived from the metadata: names, attributes, sizes, and the content of small files.
    pub identity: Option<&'a [u8]>,
}

/// What was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Size of the image.
    pub bytes: u64,
    /// Inodes of the image.
    pub inodes: u64,
    /// Bytes of metadata: inodes, directories, attributes, inline data.
    pub metadata: u64,
    /// The volume's UUID.
    pub uuid: [u8; 16],
}

impl Tree {
    /// Completes the image in the file that [`Tree::new`] took. The superblock is written last: before that, the file is
    /// no EROFS image. The caller makes it durable.
    ///
    /// # Errors
    ///
    /// Writing fails, or the tree has more than an image can have.
    pub fn write_erofs(mut self, options: &Options<'_>) -> Result<Summary, Error> {
        self.spool.flush()?;
        self.spool.punch_dead()?;
        let (image, first) = self.spool.image()?;
        let layout = layout::Layouts::of(&self, first)?;
        write::write(&self, image, &layout, options)
    }
}
