//! What a directory or an image has, in a form that can be compared.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::Read,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path, PathBuf},
};

use rootfs::{Image, Kind};
use sha2::{Digest, Sha256};

/// Everything about one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Type and permissions.
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub mtime: (i64, u32),
    pub links: u64,
    /// Major and minor number of devices.
    pub device: (u32, u32),
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    /// Target of a symbolic link, or size and hash of a file.
    pub content: String,
    /// First name, in order, of the same inode.
    pub same: Vec<u8>,
}

pub type Records = BTreeMap<Vec<u8>, Record>;

/// Fails with the first difference.
pub fn assert_same(what: &str, got: &Records, expected: &Records) {
    for (name, record) in expected {
        let shown = String::from_utf8_lossy(name);
        assert_eq!(got.get(name), Some(record), "{what}: '{shown}'");
    }
    for name in got.keys() {
        assert!(expected.contains_key(name), "{what}: '{}' is too much", String::from_utf8_lossy(name));
    }
}

fn hash(mut data: impl Read, size: u64) -> String {
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        let n = data.read(&mut buffer).unwrap();
        if n == 0 {
            return format!("{size} {:02x?}", &hash.finalize()[..8]);
        }
        hash.update(&buffer[..n]);
    }
}

/// Records of a directory of the host.
pub fn of_directory(root: &Path) -> Records {
    let mut all = Records::new();
    let mut todo = vec![PathBuf::new()];
    while let Some(path) = todo.pop() {
        let full = root.join(&path);
        let stat = fs::symlink_metadata(&full).unwrap();
        if stat.is_dir() {
            for entry in fs::read_dir(&full).unwrap() {
                todo.push(path.join(entry.unwrap().file_name()));
            }
        }
        let content = if stat.is_symlink() {
            format!("{:?}", fs::read_link(&full).unwrap())
        } else if stat.is_file() {
            hash(File::open(&full).unwrap(), stat.size())
        } else {
            String::new()
        };
        let is_device = matches!(stat.mode() >> 12, 0o2 | 0o6);
        let device = (rustix::fs::major(stat.rdev()), rustix::fs::minor(stat.rdev()));
        let record = Record {
            mode: stat.mode(),
            uid: stat.uid(),
            gid: stat.gid(),
            mtime: (stat.mtime(), stat.mtime_nsec() as u32),
            links: stat.nlink(),
            device: if is_device { device } else { (0, 0) },
            xattrs: xattrs(&full),
            content,
            same: format!("{}:{}", stat.dev(), stat.ino()).into_bytes(),
        };
        all.insert(path.as_os_str().as_bytes().to_vec(), record);
    }
    by_first_name(all)
}

fn xattrs(path: &Path) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut list = vec![0; 64 << 10];
    let len = rustix::fs::llistxattr(path, &mut list[..]).unwrap_or(0);
    let mut all = Vec::new();
    for name in list[..len].split(|&b| b == 0).filter(|name| !name.is_empty()) {
        let mut value = vec![0; 64 << 10];
        let len = rustix::fs::lgetxattr(path, name, &mut value[..]).unwrap();
        value.truncate(len);
        all.push((name.to_vec(), value));
    }
    all.sort();
    all
}

/// Replaces what identifies an inode by its first name.
fn by_first_name(mut all: Records) -> Records {
    let mut first = BTreeMap::new();
    for (name, record) in &mut all {
        record.same = first.entry(record.same.clone()).or_insert_with(|| name.clone()).clone();
    }
    all
}

/// Records of an image, read by [`Image`].
pub fn of_image(file: &File) -> Records {
    let image = Image::open(file.try_clone().unwrap()).unwrap();
    let mut all = Records::new();
    let mut todo = vec![(Vec::new(), image.root(), image.root())];
    while let Some((path, nid, parent)) = todo.pop() {
        let stat = image.stat(nid).unwrap();
        let mut content = String::new();
        let kind = match stat.kind {
            Kind::Directory => {
                let names = image.names(&stat).unwrap();
                assert!(names.is_sorted_by(|a, b| a.0 < b.0), "names of '{}'", String::from_utf8_lossy(&path));
                for (name, child) in names {
                    match &name[..] {
                        b"." => assert_eq!(child, nid),
                        b".." => assert_eq!(child, parent),
                        _ if path.is_empty() => todo.push((name, child, nid)),
                        _ => todo.push(([&path[..], b"/", &name].concat(), child, nid)),
                    }
                }
                0o040_000
            }
            Kind::File => {
                content = hash(Reader { image: &image, stat: &stat, at: 0 }, stat.size);
                0o100_000
            }
            Kind::Symlink => {
                let target = image.target(&stat).unwrap();
                content = format!("{:?}", Path::new(std::ffi::OsStr::from_bytes(&target)));
                0o120_000
            }
            Kind::Char => 0o020_000,
            Kind::Block => 0o060_000,
            Kind::Fifo => 0o010_000,
            Kind::Socket => 0o140_000,
        };
        let record = Record {
            mode: kind | u32::from(stat.mode),
            uid: stat.uid,
            gid: stat.gid,
            mtime: stat.mtime,
            links: u64::from(stat.links),
            device: stat.device,
            xattrs: image.xattrs(&stat).unwrap(),
            content,
            same: nid.to_string().into_bytes(),
        };
        all.insert(path, record);
    }
    by_first_name(all)
}

struct Reader<'a> {
    image: &'a Image,
    stat: &'a rootfs::Stat,
    at: u64,
}

impl Read for Reader<'_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let n = self.image.read(self.stat, self.at, out).unwrap();
        self.at += n as u64;
        Ok(n)
    }
}
