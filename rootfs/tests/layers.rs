//! What layers over each other mean, case by case. `random_layers.rs` compares random ones with umoci and overlayfs.

mod support;

use support::{archive::Archive, compare, image_of, record};

/// The base of most cases.
fn base() -> Archive {
    Archive::new()
        .directory("usr")
        .directory("usr/lib")
        .file("usr/lib/a", b"a")
        .file("usr/lib/big", &[b'b'; 100_000])
        .symlink("lib", "usr/lib")
        .symlink("outside", "/../..")
        .file("plain", b"plain")
}

/// The names of the layers' image, as `ls -R` would show them: `d` directory, `f` file with content, `l` link.
fn names(layers: &[Archive]) -> String {
    let layers: Vec<Vec<u8>> = layers.iter().map(|layer| layer.clone().end()).collect();
    let (image, _) = image_of(&layers).unwrap_or_else(|e| panic!("{e}"));
    support::check(&image);
    let all = record::of_image(&image);
    let mut out = Vec::new();
    for (name, record) in &all {
        let name = String::from_utf8_lossy(name);
        match record.mode >> 12 {
            _ if name.is_empty() => {}
            0o4 => out.push(format!("{name}/")),
            0o12 => out.push(format!("{name}@")),
            _ => out.push(name.into_owned()),
        }
    }
    out.join(" ")
}

#[test]
fn whiteouts() {
    let over = |layer: Archive| names(&[base(), layer]);
    let all = "lib@ outside@ plain usr/ usr/lib/ usr/lib/a usr/lib/big";
    assert_eq!(over(Archive::new()), all);
    assert_eq!(over(Archive::new().empty("usr/lib/.wh.a")), "lib@ outside@ plain usr/ usr/lib/ usr/lib/big");
    assert_eq!(over(Archive::new().empty("usr/.wh.lib")), "lib@ outside@ plain usr/");
    assert_eq!(over(Archive::new().empty(".wh.lib")), "outside@ plain usr/ usr/lib/ usr/lib/a usr/lib/big");
    assert_eq!(over(Archive::new().empty(".wh..wh..opq")), "");
    assert_eq!(over(Archive::new().empty("./usr/.wh..wh..opq")), "lib@ outside@ plain usr/");
    // What does not exist cannot be hidden, and is not created for it.
    assert_eq!(over(Archive::new().empty("no/such/.wh.dir").empty(".wh.no").empty("no/.wh..wh..opq")), all);
    // The same layer's entries stay, whether they come before or after.
    let new = |layer: Archive| layer.directory("usr/lib").file("usr/lib/new", b"n");
    let expected = "lib@ outside@ plain usr/ usr/lib/ usr/lib/new";
    assert_eq!(over(new(Archive::new()).empty("usr/lib/.wh..wh..opq")), expected);
    assert_eq!(over(new(Archive::new().empty("usr/lib/.wh..wh..opq"))), expected);
    assert_eq!(over(new(Archive::new()).empty("usr/.wh.lib")), expected);
    assert_eq!(over(new(Archive::new().empty("usr/.wh.lib"))), expected);
    assert_eq!(over(new(Archive::new()).empty(".wh..wh..opq")), "usr/ usr/lib/ usr/lib/new");
    assert_eq!(over(Archive::new().file("plain", b"x").empty(".wh.plain")), all);
    assert_eq!(over(Archive::new().empty(".wh.plain").file("plain", b"x")), all);
    // A later layer hides what a whiteout spared.
    let third = Archive::new().empty("usr/lib/.wh.new");
    let spared = new(Archive::new()).empty(".wh..wh..opq");
    assert_eq!(names(&[base(), spared, third]), "usr/ usr/lib/");
    // Names that only look like whiteouts.
    assert_eq!(names(&[Archive::new().file("a.wh.b", b"").file(".whx", b"")]), ".whx a.wh.b");
}

#[test]
fn links_of_lower_layers_lead_nowhere() {
    let over = |layer: Archive| names(&[base(), layer]);
    let rest = "outside@ plain usr/ usr/lib/ usr/lib/a usr/lib/big";
    assert_eq!(over(Archive::new().file("lib/new", b"n")), format!("lib/ lib/new {rest}"));
    // There is no directory of this name, so a whiteout has nothing to hide.
    assert_eq!(over(Archive::new().empty("lib/.wh.a")), format!("lib@ {rest}"));
    assert_eq!(over(Archive::new().empty("lib/.wh..wh..opq")), format!("lib@ {rest}"));
    assert_eq!(over(Archive::new().empty("outside/tmp/.wh.a").empty("plain/.wh.a")), format!("lib@ {rest}"));
    assert_eq!(
        over(Archive::new().empty("plain/x")),
        "lib@ outside@ plain/ plain/x usr/ usr/lib/ usr/lib/a usr/lib/big"
    );
    assert_eq!(over(Archive::new().directory("lib")), format!("lib/ {rest}"));
    // Links of the same layer are followed, inside the tree.
    let same = Archive::new().symlink("l", "usr").symlink("r", "/../../usr/lib").file("l/x", b"").file("r/y", b"");
    assert_eq!(over(same), "l@ lib@ outside@ plain r@ usr/ usr/lib/ usr/lib/a usr/lib/big usr/lib/y usr/x");
    assert_eq!(names(&[Archive::new().symlink("up", "..").file("up/up/x", b"")]), "up@ x");
}

#[test]
fn replaced_types() {
    let over = |layer: Archive| names(&[base(), layer]);
    assert_eq!(over(Archive::new().file("usr", b"now a file")), "lib@ outside@ plain usr");
    assert_eq!(over(Archive::new().symlink("usr/lib", "x")), "lib@ outside@ plain usr/ usr/lib@");
    assert_eq!(over(Archive::new().directory("plain").file("plain/x", b"")).split(' ').nth(2), Some("plain/"));
    // Within one layer too: the last entry of a name counts.
    let twice = Archive::new().directory("d").file("d/x", b"").file("d", b"").directory("d").file("d/y", b"");
    assert_eq!(names(&[twice]), "d/ d/y");
    let file = |layers: &[Archive], name: &str| {
        let layers: Vec<_> = layers.iter().map(|layer| layer.clone().end()).collect();
        rootfs::Image::open(image_of(&layers).unwrap().0).unwrap().read_file(name, 1 << 20).unwrap().unwrap()
    };
    assert_eq!(file(&[Archive::new().file("f", b"one").file("./f", b"two")], "f"), b"two");
    assert_eq!(file(&[base(), Archive::new().file("usr/lib/big", b"small")], "lib/big"), b"small");
}

#[test]
fn hard_links_across_layers() {
    let records = |layers: &[Archive]| {
        let layers: Vec<_> = layers.iter().map(|layer| layer.clone().end()).collect();
        record::of_image(&image_of(&layers).unwrap().0)
    };
    let linked = records(&[base(), Archive::new().link("hard", "usr/lib/big").link("hard2", "lib/a")]);
    assert_eq!((linked[&b"hard"[..]].links, linked[&b"usr/lib/big"[..]].links), (2, 2));
    assert_eq!(linked[&b"usr/lib/big"[..]].same, b"hard");
    assert_eq!(linked[&b"usr/lib/a"[..]].same, b"hard2");
    // One name changes, the other keeps the old file.
    let changed = Archive::new().link("hard", "usr/lib/a").file("usr/lib/a", b"changed");
    let changed = records(&[base(), changed]);
    assert_eq!((changed[&b"hard"[..]].links, changed[&b"usr/lib/a"[..]].links), (1, 1));
    assert_ne!(changed[&b"hard"[..]].content, changed[&b"usr/lib/a"[..]].content);
    // Hidden: the other name stays.
    let hidden = records(&[base(), Archive::new().link("hard", "usr/lib/a"), Archive::new().empty(".wh.usr")]);
    assert_eq!(hidden[&b"hard"[..]].links, 1);
    // To a symbolic link itself, and to itself.
    let own = records(&[base(), Archive::new().link("hard", "lib").link("plain", "plain")]);
    assert_eq!(own[&b"hard"[..]].same, b"hard");
    assert_eq!(own[&b"lib"[..]].same, b"hard");
    assert_eq!(own[&b"plain"[..]].links, 1);
    // Files that AUFS kept for hard links.
    let plnk = Archive::new().directory(".wh..wh.plnk").file(".wh..wh.plnk/1.2", b"x").link("x", ".wh..wh.plnk/1.2");
    let plnk = records(&[plnk.empty(".wh..wh.aufs").link("y", ".wh..wh.plnk/1.2")]);
    assert_eq!(plnk.len(), 3);
    assert_eq!(plnk[&b"x"[..]].links, 2);
}

/// Directories' attributes and times: of the last entry, or of the lower layer where none says anything.
#[test]
fn directories_keep_their_attributes() {
    let (image, _) = image_of(&[
        base().end(),
        Archive::new()
            .pax(&[("mtime", b"7.25"), ("uid", b"70000"), ("SCHILY.xattr.user.x", b"y")])
            .directory("usr/")
            .empty("usr/lib/.wh.a")
            .file("new/dir/file", b"")
            .end(),
    ])
    .unwrap();
    let all = record::of_image(&image);
    let usr = &all[&b"usr"[..]];
    assert_eq!((usr.mtime, usr.uid, usr.xattrs.len(), usr.mode), ((7, 250_000_000), 70000, 1, 0o040_750));
    assert_eq!(all[&b"usr/lib"[..]].mtime, (1, 0));
    let implied = &all[&b"new/dir"[..]];
    assert_eq!((implied.mtime, implied.uid, implied.mode), ((1, 0), 0, 0o040_755));
    compare(&image, &all);
}

/// Room of replaced files goes back to the host.
#[test]
fn replaced_data_takes_no_room() {
    use std::os::unix::fs::MetadataExt;
    let layer = |byte: u8| Archive::new().file("big", &vec![byte; 8 << 20]).end();
    let (image, summary) = image_of(&[layer(1), layer(2), layer(3)]).unwrap();
    let room = image.metadata().unwrap().blocks() * 512;
    assert!(summary.bytes > 24 << 20 && room < 10 << 20, "{summary:?}, {room} bytes on disk");
    compare(&image, &record::of_image(&image));
}
