//! Archives that are wrong, on purpose or not: each gives one line that names the entry, and never a panic.

mod support;

use rootfs::{Error, Fault, Limit, Limits};
use support::{
    archive::{Archive, Header},
    image_of, record, tree_with,
};

/// The error of a layer over nothing.
fn error_with(layer: &[u8], limits: Limits) -> Error {
    let (mut tree, _image) = tree_with(limits);
    let error = tree.apply_layer(layer).expect_err("the layer was taken");
    let line = error.to_string();
    assert!(!line.contains('\n') && line.len() < 400, "{line}");
    error
}

/// The fault of a layer, and the entry that the error names.
fn fault_with(archive: Archive, limits: Limits) -> (String, Fault) {
    match error_with(&archive.end(), limits) {
        Error::Entry { entry, fault } => (entry.to_string(), fault),
        Error::Archive { fault, .. } => (String::new(), fault),
        other => panic!("{other:?}"),
    }
}

fn fault(archive: Archive) -> (String, Fault) {
    fault_with(archive, Limits::default())
}

fn names(archive: Archive) -> Vec<String> {
    let (image, _) = image_of(&[archive.end()]).unwrap_or_else(|e| panic!("{e}"));
    record::of_image(&image).into_keys().skip(1).map(|name| String::from_utf8_lossy(&name).into_owned()).collect()
}

#[test]
fn paths_stay_inside() {
    for name in ["..", "../x", "a/../../x", "/../x", "./../x", "a/b/../../../x"] {
        assert_eq!(fault(Archive::new().file(name, b"")), (format!("'{name}'"), Fault::Outside));
    }
    assert_eq!(fault(Archive::new().file("f", b"").link("l", "../../etc/passwd")), ("'l'".into(), Fault::Outside));
    assert_eq!(fault(Archive::new().link("l", "/etc/passwd")), ("'l'".into(), Fault::NoTarget));
    assert_eq!(
        names(Archive::new().file("/etc/../x", b"").file("//y", b"").file("./z/./w", b"")),
        ["x", "y", "z", "z/w"]
    );
    // Links lead inside the tree, wherever they point to.
    let away = Archive::new().symlink("l", "../../../../tmp").file("l/x", b"").symlink("m", "/etc").file("m/y", b"");
    assert_eq!(names(away), ["etc", "etc/y", "l", "m", "tmp", "tmp/x"]);
    let lasting = Archive::new().symlink("l", "/etc/passwd").file("l", b"a file");
    assert_eq!(names(lasting), ["l"]);
}

#[test]
fn names_that_cannot_be() {
    assert_eq!(fault(Archive::new().file("", b"")).1, Fault::BadName);
    assert_eq!(
        fault(Archive::new().file(&"n".repeat(100), b"").long(b'L', &"n".repeat(256)).file("x", b"")).1,
        Fault::Limit(Limit::Name(255))
    );
    let long = ["n"; 2100].join("/");
    assert_eq!(fault(Archive::new().long(b'L', &long).file("x", b"")).1, Fault::Limit(Limit::Path(4095)));
    assert_eq!(
        fault(Archive::new().long(b'L', &["n"; 1500].join("/")).file("x", b"")).1,
        Fault::Limit(Limit::Depth(1024))
    );
    assert_eq!(fault(Archive::new().pax(&[("path", b"a\0b")]).file("x", b"")).1, Fault::Pax);
    assert_eq!(fault(Archive::new().file(".wh.", b"")).1, Fault::Whiteout);
    assert_eq!(fault(Archive::new().file("d/.wh...", b"")).1, Fault::Whiteout);
    assert_eq!(fault(Archive::new().file(".wh.d/x", b"")).1, Fault::Whiteout);
    assert_eq!(fault(Archive::new().file("./", b"")).1, Fault::Root);
    assert_eq!(fault(Archive::new().symlink("l", "")).1, Fault::Target);
    assert_eq!(fault(Archive::new().long(b'K', &"t".repeat(5000)).symlink("l", "")).1, Fault::Limit(Limit::Path(4095)));
    // Control characters of a name do not reach the terminal.
    assert_eq!(fault(Archive::new().file("../\x1b[2J\n", b"")).0, "'../\\u{1b}[2J\\n'");
}

#[test]
fn links_and_parents_that_cannot_be() {
    assert_eq!(fault(Archive::new().link("l", "later").file("later", b"")), ("'l'".into(), Fault::NoTarget));
    assert_eq!(fault(Archive::new().directory("d").link("l", "d")).1, Fault::LinkToDirectory);
    assert_eq!(fault(Archive::new().link("l", "./")).1, Fault::LinkToDirectory);
    assert_eq!(fault(Archive::new().file("f", b"").file("f/x", b"")).1, Fault::NotDirectory);
    assert_eq!(fault(Archive::new().symlink("a", "b").symlink("b", "a").file("a/x", b"")).1, Fault::Loop);
    assert_eq!(fault(Archive::new().symlink("a", "a/a").file("a/x", b"")).1, Fault::Loop);
    // Each link leads through the one before twice: no path takes forever.
    let mut bomb = Archive::new().symlink("l0", ".");
    for i in 1..60 {
        bomb = bomb.symlink(&format!("l{i}"), &format!("l{0}/l{0}", i - 1));
    }
    assert_eq!(fault(bomb.file("l59/x", b"")).1, Fault::Loop);
}

#[test]
fn broken_headers() {
    let with = |change: &dyn Fn(&mut Header)| {
        let mut header = Header::new("f", b'0', 0);
        change(&mut header);
        fault(Archive::new().raw(&header, b""))
    };
    let name = || "'f'".to_string();
    assert_eq!(with(&|h| _ = h.bytes(124, b"00000000x00")), (name(), Fault::Number("the size")));
    assert_eq!(with(&|h| _ = h.bytes(124, &[0xff; 12])), (name(), Fault::Number("the size")));
    assert_eq!(
        with(&|h| _ = h.bytes(124, b"\x80\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff")),
        (name(), Fault::Number("the size"))
    );
    assert_eq!(
        with(&|h| _ = h.bytes(124, b"\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff")),
        (name(), Fault::Number("the size"))
    );
    assert_eq!(with(&|h| _ = h.bytes(108, b"\x80\0\0\x01\0\0\0\0")), (name(), Fault::Number("uid")));
    assert_eq!(with(&|h| _ = h.bytes(116, b"9999999\0")), (name(), Fault::Number("gid")));
    assert_eq!(with(&|h| _ = h.bytes(100, b"-000644\0")), (name(), Fault::Number("the mode")));
    assert_eq!(with(&|h| h.0[156] = b'M'), (name(), Fault::Type(b'M')));
    assert_eq!(with(&|h| h.0[156] = 0xff), (name(), Fault::Type(0xff)));
    let device = |h: &mut Header| {
        h.0[156] = b'3';
        h.bytes(329, b"0010000\0");
    };
    assert_eq!(with(&device), (name(), Fault::Device));
    let mut broken = Archive::new().file("f", b"").end();
    broken[150] ^= 1;
    assert!(matches!(error_with(&broken, Limits::default()), Error::Archive { offset: 0, fault: Fault::Checksum }));
    let mut second = Archive::new().file("f", b"data").0;
    second.extend([b'x'; 512]);
    assert!(matches!(
        error_with(&second, Limits::default()),
        Error::Archive { offset: 1024, fault: Fault::Checksum | Fault::Number(_) }
    ));
}

/// Every place where an archive can end.
#[test]
fn truncated() {
    let pax = Archive::new().pax(&[("path", b"long/name"), ("SCHILY.xattr.user.x", b"value")]).file("x", &[1; 5000]);
    let gnu = Archive::new().long(b'L', &"n".repeat(200)).file("x", &[2; 700]).directory("d");
    let mut sparse = Header::new("s", b'S', 512);
    sparse.bytes(257, b"ustar  \0").octal(386, 11, 4096).octal(398, 11, 512).octal(483, 11, 8192);
    let sparse = Archive::new().raw(&sparse, &[3; 512]);
    // Where an entry ends, with and without its padding.
    let (first, second) = (pax.0.len(), pax.0.len() + gnu.0.len());
    let file = second - 512;
    let ends = [(0, 0), (first - 120, first), (file - 324, file), (second, second)];
    let whole = [pax.0, gnu.0, sparse.0].concat();
    for end in 0..whole.len() {
        let (mut tree, _image) = tree_with(Limits::default());
        let taken = tree.apply_layer(&whole[..end]);
        let is_end = ends.iter().any(|&(from, to)| (from..=to).contains(&end));
        match taken {
            Ok(()) => assert!(is_end, "{end} bytes were taken"),
            Err(e) => {
                let line = e.to_string();
                assert!(
                    !is_end && (line.contains("middle of this entry") || line.contains("without an entry")),
                    "{end}: {line}"
                );
            }
        }
    }
}

/// Archives that readers take apart in different places.
#[test]
fn desync() {
    let hidden = Archive::new().file("smuggled", b"").0;
    // The PAX size counts for the file, not the size of its header.
    let size = hidden.len().to_string();
    let inner = Archive::new().pax(&[("size", size.as_bytes())]).raw(&Header::new("outer", b'0', 0), &hidden);
    assert_eq!(names(inner.file("after", b"")), ["after", "outer"]);
    // It does not count for a GNU long name in between.
    let between =
        Archive::new().pax(&[("size", b"1024")]).long(b'L', "long").raw(&Header::new("x", b'0', 16), &[b'a'; 1024]);
    assert_eq!(names(between.file("after", b"")), ["after", "long"]);
    // Nor for a PAX header for all entries, which is ignored.
    let mut global = Archive::new().pax(&[("size", b"1024"), ("path", b"everything")]);
    global.0[156] = b'g';
    let sum: u32 =
        global.0[..512].iter().enumerate().map(|(i, &b)| if (148..156).contains(&i) { 32 } else { u32::from(b) }).sum();
    global.0[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    assert_eq!(names(global.file("x", b"data").file("y", b"")), ["x", "y"]);
    // Links and directories have no data, whatever the size says.
    let mut link = Header::new("l", b'2', 512);
    link.text(157, "target");
    let mut archive = Archive::new().raw(&link, b"");
    archive = archive.raw(&Header::new("d", b'5', 512), b"");
    assert_eq!(names(archive.file("x", b"")), ["d", "l", "x"]);
    // Two headers for one entry, or none for a header.
    assert_eq!(fault(Archive::new().pax(&[("path", b"a")]).pax(&[("path", b"b")]).file("x", b"")).1, Fault::Extension);
    assert_eq!(fault(Archive::new().long(b'L', "a").long(b'L', "b").file("x", b"")).1, Fault::Extension);
    assert_eq!(fault(Archive::new().pax(&[("path", b"a")])).1, Fault::Extension);
    // One block of zeros is no end if something follows.
    let mut gap = Archive::new().file("x", b"");
    gap.0.extend([0; 512]);
    assert_eq!(fault(gap.file("y", b"")).1, Fault::Checksum);
    // After the end nothing counts.
    let mut trailing = Archive::new().file("x", b"").end();
    trailing.extend(Archive::new().file("y", b"").0);
    assert_eq!(names(Archive(trailing)), ["x"]);
    // A record whose value is empty takes back what was said before.
    let taken_back = Archive::new().pax(&[("path", b"other"), ("path", b""), ("uid", b"")]).file("x", b"");
    assert_eq!(names(taken_back), ["x"]);
}

#[test]
fn sparse_maps_that_lie() {
    let old = |pairs: &[(u64, u64)], size: u64, real: u64| {
        let mut header = Header::new("s", b'S', size);
        header.bytes(257, b"ustar  \0").octal(483, 11, real);
        for (i, (offset, len)) in pairs.iter().enumerate() {
            header.octal(386 + 24 * i, 11, *offset).octal(398 + 24 * i, 11, *len);
        }
        Archive::new().raw(&header, &vec![1; size as usize])
    };
    for (pairs, size, real) in [
        (&[(0, 512)][..], 1024, 4096),
        (&[(0, 1024)], 512, 4096),
        (&[(4096, 512)], 512, 4096),
        (&[(512, 512), (0, 512)], 1024, 4096),
        (&[(0, 512), (256, 512)], 1024, 4096),
    ] {
        assert_eq!(fault(old(pairs, size, real)), ("'s'".into(), Fault::Sparse), "{pairs:?}");
    }
    let pax =
        |records: &[(&str, &[u8])], data: &[u8]| fault(Archive::new().pax(records).file("GNUSparseFile.0/s", data));
    let version_1 = [
        ("GNU.sparse.major", &b"1"[..]),
        ("GNU.sparse.minor", b"0"),
        ("GNU.sparse.realsize", b"4096"),
        ("GNU.sparse.name", b"s"),
    ];
    for map in [&b""[..], b"1", b"x\n", b"1\n0\n", b"99999999999999999999\n", b"2\n0\n1\n", b"-1\n", b"\n"] {
        assert_eq!(pax(&version_1, map), ("'s'".into(), Fault::Sparse), "{}", map.escape_ascii());
    }
    assert_eq!(pax(&version_1, b"1048577\n"), ("'s'".into(), Fault::Limit(Limit::Segments(1 << 20))));
    let map =
        |map: &'static [u8]| [("GNU.sparse.size", &b"4096"[..]), ("GNU.sparse.name", b"s"), ("GNU.sparse.map", map)];
    assert_eq!(pax(&map(b"0,1,2"), b"x").1, Fault::Sparse);
    assert_eq!(pax(&map(b"0,18446744073709551615"), b"x").1, Fault::Sparse);
    assert_eq!(pax(&map(b"9223372036854775807,9223372036854775807"), b"x").1, Fault::Sparse);
    assert_eq!(pax(&[("GNU.sparse.major", b"2"), ("GNU.sparse.size", b"1")], b"x").1, Fault::Sparse);
    assert_eq!(pax(&[("GNU.sparse.numbytes", b"1")], b"x").1, Fault::Sparse);
}

/// A file of eight exabytes costs nothing, and is refused.
#[test]
fn limits() {
    let sparse = |size: u64| {
        let size = size.to_string();
        Archive::new().pax(&[("GNU.sparse.size", size.as_bytes()), ("GNU.sparse.map", b"0,1")]).file("s", b"x")
    };
    assert_eq!(fault(sparse(1 << 62)).1, Fault::Limit(Limit::File(1 << 43)));
    // One byte at the start of a file of 8 TiB: the image stays small.
    let (image, summary) = image_of(&[sparse(1 << 43).end()]).unwrap();
    assert!(summary.bytes < 256 << 20, "{summary:?}");
    support::check(&image);
    let small = |change: &dyn Fn(&mut Limits)| {
        let mut limits = Limits::default();
        change(&mut limits);
        limits
    };
    let many = |count: u32| (0..count).fold(Archive::new(), |archive, i| archive.empty(&i.to_string()));
    assert_eq!(fault_with(many(11), small(&|l| l.entries = 10)), ("'10'".into(), Fault::Limit(Limit::Entries(10))));
    assert_eq!(fault_with(Archive::new().empty("a/b/c"), small(&|l| l.entries = 2)).1, Fault::Limit(Limit::Entries(2)));
    let big = || Archive::new().file("a", &[0; 600]).file("b", &[0; 600]);
    assert_eq!(fault_with(big(), small(&|l| l.stored = 1000)), ("'b'".into(), Fault::Limit(Limit::Stored(1000))));
    // A size that lies costs nothing either: the limit counts before the data.
    assert_eq!(
        fault_with(Archive::new().raw(&Header::new("f", b'0', 1 << 32), b""), small(&|l| l.stored = 1 << 20)).1,
        Fault::Limit(Limit::Stored(1 << 20))
    );
    assert_eq!(
        fault(Archive::new().raw(&Header::new("h", b'x', 2 << 20), b"")).1,
        Fault::Limit(Limit::Extension(1 << 20))
    );
    let value = vec![b'v'; 70_000];
    assert_eq!(
        fault(Archive::new().pax(&[("SCHILY.xattr.user.x", &value)]).file("f", b"")).1,
        Fault::Limit(Limit::Xattrs(128 << 10))
    );
    let name = format!("SCHILY.xattr.user.{}", "n".repeat(300));
    assert_eq!(fault(Archive::new().pax(&[(&name, b"v")]).file("f", b"")).1, Fault::Limit(Limit::Xattrs(128 << 10)));
    let attributes = (0..5).fold(Archive::new(), |archive, i| {
        archive.pax(&[("SCHILY.xattr.user.x", &value[..1000])]).file(&i.to_string(), b"")
    });
    assert_eq!(
        fault_with(attributes, small(&|l| l.all_xattrs = 3000)),
        ("'2'".into(), Fault::Limit(Limit::AllXattrs(3000)))
    );
}

/// Names that come and go again do not count, nor do their attributes.
#[test]
fn what_is_gone_does_not_count() {
    let limits = Limits { entries: 10, all_xattrs: 2000, ..Limits::default() };
    let (mut tree, _image) = tree_with(limits);
    for _ in 0..50 {
        let mut layer = Archive::new().empty(".wh..wh..opq");
        for i in 0..4 {
            layer = layer.pax(&[("SCHILY.xattr.user.x", &[b'v'; 200])]).file(&format!("d/{i}"), b"x");
            layer = layer.pax(&[("SCHILY.xattr.user.x", &[b'v'; 200])]).directory("d");
        }
        tree.apply_layer(&layer.end()[..]).unwrap();
    }
}

/// Ten thousand layers, and directories as deep as a path can be.
#[test]
fn many_layers_and_deep_directories() {
    let deep = vec!["d"; 1000].join("/");
    let mut layers = vec![Archive::new().long(b'L', &format!("{deep}/f")).file("x", b"deep").end()];
    for i in 0..10_000 {
        layers.push(
            Archive::new().file(&format!("f{}", i % 10), &[1; 100]).empty(&format!(".wh.f{}", (i + 5) % 10)).end(),
        );
    }
    let (image, summary) = image_of(&layers).unwrap();
    assert_eq!(summary.inodes, 1 + 1000 + 1 + 5);
    // `fsck.erofs` 1.5 recurses, and overflows its stack.
    assert_eq!(record::of_image(&image).len(), 1 + 1000 + 1 + 5);
    layers.push(Archive::new().empty(".wh.d").end());
    assert_eq!(image_of(&layers).unwrap().1.inodes, 1 + 5);
}

/// Zeros in an archive take no room in the image.
#[test]
fn a_bomb_of_zeros() {
    use std::{io::Read, os::unix::fs::MetadataExt};
    let size = 4u64 << 30;
    let header = Archive::new().raw(Header::new("bomb", b'0', 0).bytes(124, b"40000000000"), b"").0;
    let (mut tree, image) = tree_with(Limits::default());
    tree.apply_layer(header.chain(std::io::repeat(0).take(size + 1024))).unwrap();
    let summary = tree.write_erofs(&Default::default()).unwrap();
    assert!(summary.bytes > size && image.metadata().unwrap().blocks() < 1000, "{summary:?}");
    support::check(&image);
    let (mut tree, _image) = tree_with(Limits { stored: size - 1, ..Limits::default() });
    let error = tree.apply_layer(header.chain(std::io::repeat(0))).unwrap_err();
    assert_eq!(error.to_string(), "'bomb': the files have more than 4294967295 bytes of data");
}

/// A full disk is an error that says so.
#[test]
fn disk_full() {
    let (image, scratch) = (std::fs::OpenOptions::new().write(true).open("/dev/full"), tempfile::tempfile());
    let mut tree = rootfs::Tree::new(image.unwrap(), scratch.unwrap(), Limits::default());
    let error = tree.apply_layer(&Archive::new().file("f", &[1; 2 << 20]).end()[..]).unwrap_err();
    assert_eq!(error.to_string(), "cannot write the image: No space left on device (os error 28)");
}

/// The way from a path: an archive, a directory, and what is neither.
#[test]
fn erofs_of_paths() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("root.tar");
    std::fs::write(&path, Archive::new().file(".wh.literal", b"").file("etc/passwd", b"root:x:0:0").end()).unwrap();
    let image = rootfs::Image::open(rootfs::erofs_of(&path).unwrap()).unwrap();
    assert!(image.find(".wh.literal").unwrap().is_some());
    assert_eq!(image.read_file("/etc/../etc/passwd", 100).unwrap().as_deref(), Some(&b"root:x:0:0"[..]));
    assert!(image.read_file("/etc/passwd", 5).is_err());
    let image = rootfs::Image::open(rootfs::erofs_of(dir.path()).unwrap()).unwrap();
    assert_eq!(image.find("root.tar").unwrap().map(|stat| stat.size), std::fs::metadata(&path).ok().map(|m| m.len()));
    let line = |path: &std::path::Path| rootfs::erofs_of(path).unwrap_err().to_string();
    std::fs::write(&path, b"\x1f\x8b\x08...").unwrap();
    assert_eq!(line(&path), format!("'{}' is compressed: decompress it first (gzip -d)", path.display()));
    std::fs::write(&path, [b'x'; 2000]).unwrap();
    assert!(line(&path).starts_with("the archive is damaged at byte 0"), "{}", line(&path));
    assert!(line(&dir.path().join("absent")).ends_with("No such file or directory (os error 2)"));
    // Users of an image, through a link that leaves the tree.
    let (mut tree, _image) = tree_with(Limits::default());
    let layer = Archive::new().symlink("etc/passwd", "../../lib/passwd").file("lib/passwd", &[b'u'; 5000]).end();
    tree.apply_layer(&layer[..]).unwrap();
    assert_eq!(tree.read_file("/etc/passwd", 5000).unwrap(), Some(vec![b'u'; 5000]));
    assert!(tree.read_file("etc/passwd", 4999).is_err());
    assert_eq!((tree.read_file("etc", 10).unwrap(), tree.read_file("none/x", 10).unwrap()), (None, None));
}
