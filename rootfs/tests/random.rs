//! Random files with random attributes: the image has exactly what a model of the archive has.

mod support;

use proptest::prelude::*;
use sha2::{Digest, Sha256};
use support::{
    archive::{Archive, Header},
    compare, image_of,
    record::{Record, Records},
};

#[derive(Clone, Debug)]
enum What {
    Directory,
    File {
        size: usize,
        elf: bool,
    },
    /// Size, and where in it the only data are.
    Sparse {
        size: u64,
        at: u64,
        len: u64,
    },
    Symlink(usize),
    Char(u32, u32),
    Block(u32, u32),
    Fifo,
    /// A hard link to one of the files before.
    Link(usize),
}

#[derive(Clone, Debug)]
struct Item {
    /// Which of the directories before it has it.
    parent: usize,
    name: String,
    what: What,
    mode: u32,
    ids: (u32, u32),
    mtime: (i64, u32),
    xattrs: Vec<(String, Vec<u8>)>,
}

fn what() -> impl Strategy<Value = What> {
    let size = prop_oneof![0..5000usize, 4000..4200usize, 60_000..70_000usize, Just(0), Just(4096), Just(65536)];
    let sparse = (1..4_000_000u64).prop_flat_map(|size| (Just(size), 0..size)).prop_flat_map(|(size, at)| {
        (Just(size), Just(at), 0..=(size - at).min(100_000)).prop_map(|(size, at, len)| What::Sparse { size, at, len })
    });
    prop_oneof![
        4 => Just(What::Directory),
        8 => (size, any::<bool>()).prop_map(|(size, elf)| What::File { size, elf }),
        1 => sparse,
        2 => (1..4095usize).prop_map(What::Symlink),
        1 => (0..4096u32, 0..1u32 << 20).prop_map(|(major, minor)| What::Char(major, minor)),
        1 => (0..4096u32, 0..1u32 << 20).prop_map(|(major, minor)| What::Block(major, minor)),
        1 => Just(What::Fifo),
        2 => (0..1000usize).prop_map(What::Link),
    ]
}

fn item() -> impl Strategy<Value = Item> {
    let id = prop_oneof![Just(0), 0..70_000u32, any::<u32>().prop_map(|id| id.min(u32::MAX - 1))];
    let time =
        prop_oneof![3 => Just((1_700_000_000, 0)), 1 => (-100_000_000_000..100_000_000_000i64, 0..1_000_000_000u32)];
    let value =
        prop_oneof![Just(b"the same".to_vec()), proptest::collection::vec(any::<u8>(), 1..50), Just(vec![b'v'; 3000])];
    (
        any::<usize>(),
        "[!-.a-z]{1,20}",
        what(),
        0..0o10000u32,
        (id.clone(), id),
        time,
        proptest::collection::vec(("[a-c]{1,5}", value), 0..3),
    )
        .prop_map(|(parent, name, what, mode, ids, mtime, xattrs)| Item {
            parent,
            name,
            what,
            mode,
            ids,
            mtime,
            xattrs,
        })
}

fn content(size: usize, elf: bool) -> Vec<u8> {
    let mut data: Vec<u8> = (0..size).map(|i| (i / 7 + i % 251) as u8).collect();
    let magic = if elf { *b"\x7fELF" } else { *b"text" };
    let len = size.min(4);
    data[..len].copy_from_slice(&magic[..len]);
    data
}

fn shown(data: &[u8]) -> String {
    format!("{} {:02x?}", data.len(), &Sha256::digest(data)[..8])
}

/// The archive of `items`, and what its image must have.
fn model(items: &[Item]) -> (Vec<u8>, Records) {
    let mut archive = Archive::new();
    let mut all = Records::new();
    let root = Record {
        mode: 0o040_755,
        uid: 0,
        gid: 0,
        mtime: (0, 0),
        links: 2,
        device: (0, 0),
        xattrs: Vec::new(),
        content: String::new(),
        same: Vec::new(),
    };
    all.insert(Vec::new(), root.clone());
    let mut directories = vec![String::new()];
    let mut files: Vec<String> = Vec::new();
    for item in items {
        let parent = &directories[item.parent % directories.len()];
        let path = if parent.is_empty() { item.name.clone() } else { format!("{parent}/{}", item.name) };
        if path.len() > 90 || matches!(&item.name[..], "." | "..") || all.contains_key(path.as_bytes()) {
            continue;
        }
        let mut xattrs: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        for (name, value) in &item.xattrs {
            let name = format!("user.{name}").into_bytes();
            xattrs.retain(|(other, _)| *other != name);
            xattrs.push((name, value.clone()));
        }
        xattrs.sort();
        let mut record = Record {
            mode: item.mode,
            uid: item.ids.0,
            gid: item.ids.1,
            mtime: item.mtime,
            links: 1,
            xattrs,
            same: path.clone().into_bytes(),
            ..root.clone()
        };
        let (seconds, nanos) = item.mtime;
        let time = match (seconds < 0, nanos) {
            (true, 1..) => format!("-{}.{:09}", -seconds - 1, 1_000_000_000 - nanos),
            _ => format!("{seconds}.{nanos:09}"),
        };
        let (uid, gid) = (item.ids.0.to_string(), item.ids.1.to_string());
        let keys: Vec<String> = item.xattrs.iter().map(|(name, _)| format!("SCHILY.xattr.user.{name}")).collect();
        let mut pax: Vec<(&str, &[u8])> =
            vec![("mtime", time.as_bytes()), ("uid", uid.as_bytes()), ("gid", gid.as_bytes())];
        pax.extend(keys.iter().zip(&item.xattrs).map(|(key, (_, value))| (&key[..], &value[..])));
        let header = |kind: u8, size: u64| {
            let mut header = Header::new(&path, kind, size);
            header.octal(100, 7, u64::from(item.mode));
            header
        };
        match &item.what {
            What::Directory => {
                archive = archive.pax(&pax).raw(&header(b'5', 0), b"");
                record.mode |= 0o040_000;
                record.links = 2;
                all.get_mut(parent.as_bytes()).unwrap().links += 1;
                directories.push(path.clone());
            }
            What::File { size, elf } => {
                let data = content(*size, *elf);
                archive = archive.pax(&pax).raw(&header(b'0', *size as u64), &data);
                record.mode |= 0o100_000;
                record.content = shown(&data);
            }
            What::Sparse { size, at, len } => {
                let data = content(*len as usize, false);
                let (real, map) = (size.to_string(), format!("{at},{len}"));
                pax.extend([("GNU.sparse.size", real.as_bytes()), ("GNU.sparse.map", map.as_bytes())]);
                archive = archive.pax(&pax).raw(&header(b'0', *len), &data);
                let mut whole = vec![0; *size as usize];
                whole[*at as usize..(*at + *len) as usize].copy_from_slice(&data);
                record.mode |= 0o100_000;
                record.content = shown(&whole);
            }
            What::Symlink(len) => {
                let target = "t".repeat(*len);
                pax.push(("linkpath", target.as_bytes()));
                archive = archive.pax(&pax).raw(&header(b'2', 0), b"");
                record.mode = 0o120_777;
                record.content = format!("{target:?}");
                // Linux has no attributes of this kind for symbolic links and devices.
                record.xattrs.clear();
            }
            What::Char(major, minor) | What::Block(major, minor) => {
                let kind = if matches!(item.what, What::Char(..)) { b'3' } else { b'4' };
                let mut header = header(kind, 0);
                header.octal(329, 7, u64::from(*major)).octal(337, 7, u64::from(*minor));
                archive = archive.pax(&pax[..3]).raw(&header, b"");
                record.mode |= if kind == b'3' { 0o020_000 } else { 0o060_000 };
                record.device = (*major, *minor);
                record.xattrs.clear();
            }
            What::Fifo => {
                archive = archive.pax(&pax[..3]).raw(&header(b'6', 0), b"");
                record.mode |= 0o010_000;
                record.xattrs.clear();
            }
            What::Link(which) => {
                let Some(target) = files.get(which % files.len().max(1)) else { continue };
                archive = archive.link(&path, target);
                record = all[target.as_bytes()].clone();
            }
        }
        if !matches!(item.what, What::Directory) {
            files.push(path.clone());
        }
        all.insert(path.into_bytes(), record);
    }
    // Names of one inode: how many, and the first in order.
    let mut groups: std::collections::BTreeMap<Vec<u8>, Vec<Vec<u8>>> = Default::default();
    for (name, record) in &all {
        groups.entry(record.same.clone()).or_default().push(name.clone());
    }
    for names in groups.into_values().filter(|names| names.len() > 1) {
        for name in &names {
            let record = all.get_mut(name).unwrap();
            record.links = names.len() as u64;
            record.same = names[0].clone();
        }
    }
    (archive.end(), all)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn images_have_what_archives_have(items in proptest::collection::vec(item(), 1..120)) {
        let (archive, expected) = model(&items);
        let (image, _) = image_of(&[archive]).unwrap();
        compare(&image, &expected);
    }
}

/// Names of many directories, each with more names than a block has.
#[test]
fn large_directories() {
    let mut archive = Archive::new();
    let mut count = 1;
    for directory in ["", "a", "a/b"] {
        for i in 0..2000 {
            archive = archive.empty(&format!("{directory}/{}{i}", ["-", ".", "x", "~"][i % 4]));
            count += 1;
        }
    }
    let (image, summary) = image_of(&[archive.end()]).unwrap();
    assert_eq!(summary.inodes, count + 2);
    compare(&image, &support::record::of_image(&image));
}
