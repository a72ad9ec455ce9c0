//! What the tests share: archives made byte by byte, records of directories and of images, mounts.
#![allow(dead_code)]

pub mod archive;
pub mod record;

use std::{
    fs::File,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use rootfs::{Error, Limits, Options, Summary, Tree};

/// A tree whose image is in a temporary file.
pub fn tree() -> (Tree, File) {
    tree_with(Limits::default())
}

/// The same with limits.
pub fn tree_with(limits: Limits) -> (Tree, File) {
    let image = tempfile::tempfile().unwrap();
    (Tree::new(image.try_clone().unwrap(), tempfile::tempfile().unwrap(), limits), image)
}

/// The image of some layers.
pub fn image_of<T: AsRef<[u8]>>(layers: &[T]) -> Result<(File, Summary), Error> {
    let (mut tree, image) = tree();
    for layer in layers {
        tree.apply_layer(layer.as_ref())?;
    }
    let summary = tree.write_erofs(&Options::default())?;
    Ok((image, summary))
}

/// A program that must succeed.
pub fn run(command: &mut Command) -> Output {
    let out = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    assert!(
        out.status.success(),
        "{:?}: {}\n{}{}",
        command.get_program(),
        out.status,
        String::from_utf8_lossy(&out.stdout),
        String::from_utf8_lossy(&out.stderr)
    );
    out
}

/// The path of an open file.
pub fn path_of(file: &File) -> PathBuf {
    use std::os::fd::AsRawFd;
    format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()).into()
}

/// `fsck.erofs` must accept the image.
pub fn check(image: &File) {
    run(Command::new("fsck.erofs").arg(path_of(image)));
}

/// An image that the host mounts; unmounted at the end.
pub struct Mounted(tempfile::TempDir);

impl Mounted {
    pub fn new(image: &File) -> Mounted {
        let dir = tempfile::tempdir().unwrap();
        run(Command::new("mount").args(["-t", "erofs", "-o", "ro,loop"]).arg(path_of(image)).arg(dir.path()));
        Mounted(dir)
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

/// Checks an image with all that read EROFS here: `fsck.erofs`, the host's mount and [`rootfs::Image`], whose
/// records must be equal to `expected`.
pub fn compare(image: &File, expected: &record::Records) {
    check(image);
    record::assert_same("read by rootfs::Image", &record::of_image(image), expected);
    assert!(rustix::process::geteuid().is_root(), "the tests mount images: run them as root");
    let mounted = Mounted::new(image);
    record::assert_same("mounted", &record::of_directory(mounted.path()), expected);
}
