//! Images that mkfs.erofs made, and damaged ones.

use super::memory::{Bytes, visit};
use super::{BLOCK, File, Image, Source};
use crate::host::{Export, FIXED_NS, Host};
use crate::io::{KernelDst, KernelSrc};
use crate::node::{Private, Space};
use crate::tests::{HostDir, World, content};
use crate::{FileType, Inode};
use hal::frame::Frame;
use std::boxed::Box;
use std::cell::{Cell, RefCell};
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::string::{String, ToString};
use std::vec::Vec;
use std::{format, vec};
use uapi::Errno;

/// A directory that is removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("keel-erofs-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(path.join("root")).unwrap();
        Self(path)
    }

    fn root(&self) -> PathBuf {
        self.0.join("root")
    }

    /// The image of the directory `root`.
    fn image(&self, options: &[&str]) -> Vec<u8> {
        let image = self.0.join("image");
        let _ = fs::remove_file(&image);
        let made = Command::new("mkfs.erofs").args(options).arg(&image).arg(self.root()).output();
        let made = made.expect("this test needs mkfs.erofs (Debian: erofs-utils)");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        fs::read(image).unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Plants files of all kinds: sizes around pages, a large directory, links.
fn plant(root: &Path) {
    for size in [0, 1, 100, 4000, 4095, 4096, 4097, 8192, 100_000] {
        let bytes: Vec<u8> = (0..size).map(|i| (i % 251) as u8).collect();
        fs::write(root.join(format!("file{size}")), bytes).unwrap();
    }
    fs::create_dir_all(root.join("many")).unwrap();
    for i in 0..1000 {
        fs::write(root.join(format!("many/{i:0width$}", width = 1 + i % 80)), i.to_string()).unwrap();
    }
    fs::create_dir_all(root.join("a/b/c/empty")).unwrap();
    symlink("../file1", root.join("a/link")).unwrap();
    symlink("x".repeat(4000), root.join("a/long")).unwrap();
    fs::hard_link(root.join("file100"), root.join("a/hard")).unwrap();
    Command::new("mkfifo").arg(root.join("a/fifo")).status().unwrap();
}

fn open(bytes: Vec<u8>) -> Result<Rc<File>, Errno> {
    Image::open(Rc::new(Bytes(bytes)), 7)
}

/// Compares a directory of an image with one of the host, and all beneath it.
fn compare(host: &Path, file: &Rc<File>) {
    let mut open: Vec<(PathBuf, Rc<File>)> = vec![(host.into(), file.clone())];
    let mut seen = 0;
    while let Some((path, file)) = open.pop() {
        seen += 1;
        let (meta, attr) = (fs::symlink_metadata(&path).unwrap(), file.attr());
        assert_eq!((meta.mode(), meta.uid(), meta.gid()), (attr.mode, attr.uid, attr.gid), "{path:?}");
        assert_eq!((meta.mtime(), meta.mtime_nsec()), (attr.mtime, i64::from(attr.mtime_ns)), "{path:?}");
        match file.kind() {
            FileType::Directory => {
                let mut names: Vec<_> = fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().file_name()).collect();
                let listing = file.list().unwrap();
                let mut found: Vec<std::ffi::OsString> =
                    listing.iter().map(|e| String::from_utf8(e.name.to_vec()).unwrap().into()).collect();
                names.sort();
                found.sort();
                assert_eq!(names, found, "{path:?}");
                for name in names {
                    let child = file.find(name.as_encoded_bytes()).unwrap();
                    let entry = listing.iter().find(|entry| entry.name == name.as_encoded_bytes()).unwrap();
                    assert_eq!((entry.ino, entry.kind), (child.attr().ino, child.kind()));
                    open.push((path.join(&name), child));
                }
                for name in ["", "-", "no", "zzz", "00"] {
                    assert_eq!(file.find(name.as_bytes()).unwrap_err(), Errno::ENOENT, "{path:?} {name}");
                }
            }
            FileType::Regular => {
                assert_eq!((meta.len(), meta.nlink()), (attr.size, attr.nlink.into()), "{path:?}");
                let wanted = fs::read(&path).unwrap();
                let mut bytes = vec![1; wanted.len() + 10];
                let n = file.read_content(0, &mut KernelDst(&mut bytes)).unwrap();
                assert!(bytes[..n] == wanted[..], "{path:?}");
                for page in 0..meta.len().div_ceil(BLOCK) {
                    let wanted = &wanted[(page * BLOCK) as usize..];
                    for frame in [file.content_pages(page, 1), file.content_copies(page, 1)] {
                        let mut bytes = [1; BLOCK as usize];
                        frame.unwrap()[0].read(0, &mut bytes);
                        let len = wanted.len().min(bytes.len());
                        assert!(bytes[..len] == wanted[..len] && bytes[len..].iter().all(|&b| b == 0), "{path:?}");
                    }
                }
                assert_eq!(file.content_pages(meta.len().div_ceil(BLOCK), 1).unwrap_err(), Errno::ENXIO);
            }
            FileType::Symlink => {
                assert_eq!(
                    fs::read_link(&path).unwrap().into_os_string().as_encoded_bytes(),
                    &*file.link_target().unwrap()
                );
            }
            _ => assert_eq!(attr.rdev, 0),
        }
    }
    assert!(seen > 10);
}

#[test]
fn images_are_read_as_they_were_made() {
    let scratch = Scratch::new("made");
    plant(&scratch.root());
    for options in [&[][..], &["-Eforce-inode-extended"], &["-Eforce-inode-compact", "-T0"], &["-Enoinline_data"]] {
        let image = scratch.image(options);
        let root = open(image).unwrap();
        if options.contains(&"-T0") {
            assert_eq!((root.attr().mtime, root.find(b"file1").unwrap().attr().mtime), (0, 0));
            continue;
        }
        compare(&scratch.root(), &root);
        let hard = root.find(b"a").unwrap().find(b"hard").unwrap();
        assert!(Rc::ptr_eq(&hard, &root.find(b"file100").unwrap()));
        assert_eq!(hard.find(b"x").unwrap_err(), Errno::ENOTDIR);
    }
}

#[test]
fn chunks_and_holes() {
    let scratch = Scratch::new("chunks");
    let mut bytes = vec![0; 1 << 20];
    bytes[300_000..400_000].fill(7);
    bytes[(1 << 20) - 1] = 1;
    fs::write(scratch.root().join("sparse"), &bytes).unwrap();
    plant(&scratch.root());
    let root = open(scratch.image(&["--chunksize=16384"])).unwrap();
    compare(&scratch.root(), &root);
    let file = root.find(b"sparse").unwrap();
    assert_eq!(file.seek_content(300_000, false), Ok(300_000));
    assert_eq!(file.seek_content(bytes.len() as u64 - 1, true), Ok(1 << 20));
    let layer = Private::overlay(2, Space::new(1000)).over(file);
    layer.write_at(500_000, &mut KernelSrc(b"new")).unwrap();
    bytes[500_000..500_003].copy_from_slice(b"new");
    assert!(content(&*layer).unwrap() == bytes);
}

#[test]
fn attributes() {
    let scratch = Scratch::new("attributes");
    for name in ["one", "two", "three"] {
        fs::write(scratch.root().join(name), name).unwrap();
        for (key, value) in [("user.own", name), ("user.shared", "a value that all of them have"), ("trusted.t", "")] {
            let script = "import os, sys; os.setxattr(sys.argv[1], sys.argv[2], sys.argv[3].encode())";
            let path = scratch.root().join(name);
            let set = Command::new("python3").args(["-c", script]).arg(path).args([key, value]).status();
            assert!(set.expect("this test needs python3").success());
        }
    }
    fs::write(scratch.root().join("none"), "").unwrap();
    // With few and with many files that must have an attribute for it to be shared.
    for options in ["-x1", "-x100"] {
        let root = open(scratch.image(&[options])).unwrap();
        for name in ["one", "two", "three"] {
            let file = root.find(name.as_bytes()).unwrap();
            let mut names = file.xattr_names().unwrap();
            names.sort();
            assert_eq!(names, [&b"trusted.t"[..], b"user.own", b"user.shared"]);
            assert_eq!(file.get_xattr(b"user.own").unwrap(), name.as_bytes());
            assert_eq!(file.get_xattr(b"user.shared").unwrap(), b"a value that all of them have");
            assert_eq!(file.get_xattr(b"user.").unwrap_err(), Errno::ENODATA);
            // The layer takes them over with the first change.
            let layer = Private::overlay(2, Space::new(10)).over(file);
            assert_eq!(layer.set_xattr(b"user.own", b"", 1).unwrap_err(), Errno::EEXIST);
            layer.remove_xattr(b"user.own").unwrap();
            assert_eq!(layer.get_xattr(b"user.own").unwrap_err(), Errno::ENODATA);
            assert_eq!(layer.get_xattr(b"user.shared").unwrap(), b"a value that all of them have");
            assert_eq!(layer.list_xattrs().unwrap(), b"trusted.t\0user.shared\0");
        }
        assert_eq!(root.find(b"none").unwrap().xattr_names().unwrap().len(), 0);
    }
}

#[test]
fn what_is_not_supported_is_refused() {
    let scratch = Scratch::new("refused");
    fs::write(scratch.root().join("file"), "text".repeat(10_000)).unwrap();
    assert_eq!(
        open(scratch.image(&["-zlz4"])).and_then(|root| root.find(b"file")?.content_pages(0, 1)).unwrap_err(),
        Errno::EOPNOTSUPP
    );
    let good = scratch.image(&[]);
    let changed = |at: usize, to: u8| {
        let mut bytes = good.clone();
        bytes[1024 + at] = to;
        // Without its checksum, which all but the first cases would not have.
        bytes[1024 + 8] &= !1;
        open(bytes).unwrap_err()
    };
    assert_eq!(open(vec![0; 100]).unwrap_err(), Errno::EINVAL);
    assert_eq!(changed(0, 0), Errno::EINVAL);
    assert_eq!(changed(12, 9), Errno::EOPNOTSUPP);
    for feature in [2, 8, 16, 32, 64, 128] {
        assert_eq!(changed(80, feature), Errno::EOPNOTSUPP);
    }
    assert_eq!(changed(39, 1), Errno::EUCLEAN);
    assert_eq!(changed(15, 255), Errno::EUCLEAN);
    // The checksum.
    let mut bytes = good.clone();
    bytes[1024 + 60] ^= 1;
    assert_eq!(open(bytes).unwrap_err(), Errno::EUCLEAN);
    let mut bytes = good.clone();
    bytes.truncate(bytes.len() - BLOCK as usize);
    assert_eq!(open(bytes).unwrap_err(), Errno::EUCLEAN);
}

#[test]
fn damage_ends_in_an_errno() {
    let scratch = Scratch::new("damage");
    for name in ["a", "b", "c"] {
        fs::create_dir(scratch.root().join(name)).unwrap();
        fs::write(scratch.root().join(name).join("file"), "12345".repeat(1000)).unwrap();
    }
    let good = scratch.image(&[]);
    let mut random = 1_u64;
    for _ in 0..3000 {
        let mut bytes = good.clone();
        for _ in 0..4 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let at = (random >> 33) as usize % bytes.len().min(8192);
            bytes[at] = (random >> 20) as u8;
        }
        visit(bytes);
    }
}

/// An image in memory during whose n-th read another thread runs.
struct Busy {
    bytes: Bytes,
    countdown: Cell<usize>,
    meanwhile: RefCell<Option<Box<dyn FnOnce()>>>,
}

impl Source for Busy {
    fn size(&self) -> u64 {
        self.bytes.size()
    }

    fn page(&self, index: u64) -> Result<Frame, Errno> {
        let left = self.countdown.get();
        self.countdown.set(left.saturating_sub(1));
        if left == 1
            && let Some(meanwhile) = self.meanwhile.take()
        {
            meanwhile();
        }
        self.bytes.page(index)
    }

    fn pages(&self, first: u64, count: u64, size: u64, often: bool) -> Result<Vec<Frame>, Errno> {
        self.bytes.pages(first, count, size, often)
    }

    fn content(&self, index: u64, wanted: u64) -> Result<Option<Frame>, Errno> {
        self.bytes.content(index, wanted)
    }

    fn copies(&self, first: u64, count: u64) -> Result<Vec<Frame>, Errno> {
        self.bytes.copies(first, count)
    }
}

#[test]
fn a_file_is_one_also_for_threads_that_find_it_at_once() {
    let scratch = Scratch::new("busy");
    fs::write(scratch.root().join("file"), "text").unwrap();
    let image = scratch.image(&["-Eforce-inode-extended"]);
    for read in 1..12 {
        let (countdown, meanwhile) = Default::default();
        let source = Rc::new(Busy { bytes: Bytes(image.clone()), countdown, meanwhile });
        let root = Image::open(source.clone(), 1).unwrap();
        let other = Rc::new(RefCell::new(None));
        let (place, directory) = (other.clone(), root.clone());
        source.meanwhile.replace(Some(Box::new(move || drop(place.replace(directory.find(b"file").ok())))));
        source.countdown.set(read);
        let found = root.find(b"file").unwrap();
        let other = other.take();
        assert!(other.is_none_or(|other| Rc::ptr_eq(&other, &found)), "read {read}");
    }
}

/// The image as a file of the host, with a private layer over it.
#[test]
fn a_layer_over_an_image_of_the_host() {
    let scratch = Scratch::new("layer");
    plant(&scratch.root());
    let image = scratch.image(&[]);
    let dir = HostDir::new("erofs-layer");
    dir.write("image", &image);
    let w = World::new(dir);
    let files = Host::new(w.host.clone(), 4096, 8 << 20);
    let host = Export::open(&files, 1, false, FIXED_NS).unwrap();
    let root = Image::open(host.find(b"image", &[]).unwrap().0, 9).unwrap();
    let layer = Private::overlay(3, Space::new(1000)).over(root);
    w.tree.attach(b"/i", layer, "overlay", "overlay", false).unwrap();
    w.list("/i/many");
    w.host.reset();
    // Metadata that was read ahead costs no trip.
    for i in 0..1000 {
        w.get(&format!("/i/many/{i:0width$}", width = 1 + i % 80)).unwrap().inode().attr().unwrap();
    }
    assert!(w.host.trips() < 20, "{} trips", w.host.trips());
    assert_eq!(w.nlink("/i/a/hard"), 2);
    w.write("/i/a/hard", b"changed").unwrap();
    assert_eq!(w.read("/i/file100").unwrap(), "changed");
    w.unlink("/i/file100").unwrap();
    assert_eq!(w.nlink("/i/a/hard"), 1);
    assert_eq!(w.get("/i/file100").unwrap_err(), Errno::ENOENT);
    w.rename("/i/a", "/i/moved").unwrap();
    assert_eq!(w.list("/i/moved/b"), ["c"]);
    assert_eq!(w.read("/i/moved/hard").unwrap(), "changed");
    w.mkdir("/i/a").unwrap();
    assert!(w.list("/i/a").is_empty());
    assert_eq!(w.rmdir("/i/many").unwrap_err(), Errno::ENOTEMPTY);
    w.rmdir("/i/moved/b/c/empty").unwrap();
    assert_eq!(w.rmdir("/i/moved/b/c/empty").unwrap_err(), Errno::ENOENT);
    // The image gets shorter on the host: an errno, once its pages are read again.
    fs::File::options().write(true).open(w.host.root.join("image")).unwrap().set_len(4096).unwrap();
    files.shrink(10_000);
    let late = w.get("/i/file100000").and_then(|file| content(&**file.inode()));
    assert!(matches!(late, Err(Errno::EIO | Errno::EUCLEAN)), "{late:?}");
}

/// An image that is larger than the cache is found there in part when it is read again.
#[test]
fn a_cache_that_is_too_small_keeps_a_part() {
    const FILES: usize = 400;
    let scratch = Scratch::new("part");
    (0..FILES).for_each(|i| fs::write(scratch.root().join(format!("{i}")), [i as u8; 8192]).unwrap());
    let dir = HostDir::new("erofs-part");
    dir.write("image", &scratch.image(&[]));
    let w = World::new(dir);
    let files = Host::new(w.host.clone(), 640, 8 << 20);
    let host = Export::open(&files, 1, false, FIXED_NS).unwrap();
    let root = Image::open(host.find(b"image", &[]).unwrap().0, 9).unwrap();
    let pass = |from: usize| {
        for i in 0..FILES {
            let number = (from + i * 139) % FILES;
            let file = root.find(format!("{number}").as_bytes()).unwrap();
            let mut bytes = [0; 8192];
            assert_eq!(file.read_content(0, &mut KernelDst(&mut bytes)), Ok(8192));
            assert!(bytes.iter().all(|&byte| byte == number as u8), "{number}");
            assert!(files.cached_pages() <= 640);
        }
    };
    pass(0);
    w.host.reset();
    (1..5).for_each(pass);
    let trips = w.host.trips();
    assert!(trips < FILES * 2, "{trips} trips for {} files", FILES * 4);
    // All of it goes if it must.
    while files.shrink(100) > 0 {}
    assert_eq!(files.cached_pages(), 0);
}
