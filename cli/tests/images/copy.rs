//! `hull cp`: what an image has reaches the host, and nothing reaches another place than the destination.

use super::support::*;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Command;

/// Lists a tree: names, types, modes, owners, times, links, contents.
const LIST: &str = "cd \"$0\" && find . -mindepth 1 ! -type d -printf '%P %y %m %U:%G %T@ %l %n\n' | sort && \
    find . -mindepth 1 -type d -printf '%P %m %U:%G %T@\n' | sort && find . -type f -exec cksum {} + | sort";

/// An image `t` of a folder `root`.
fn tree(scene: &Scene) {
    let script = "set -e
        umask 022; mkdir -p root/etc root/bin root/deep/a/b
        echo root:x:0:0::/: >root/etc/passwd; chmod 640 root/etc/passwd; touch -d '2001-02-03 04:05:06.7' root/etc/passwd
        ln -s passwd root/etc/link; ln -s /etc root/abs; ln -s ../../../../../../etc root/out
        head -c 300000 /dev/urandom >root/bin/p; ln root/bin/p root/bin/q; chmod 4755 root/bin/p
        truncate -s 100M root/deep/sparse; printf end >>root/deep/sparse
        mkfifo root/deep/fifo; echo x >root/deep/a/b/x; chown -R 1234:567 root/deep/a; chmod 555 root/deep/a
        touch -d 2002-02-02 root/deep/a root/deep root/bin root/etc";
    scene.run("sh", &["-c", script]);
    scene.hull(&["import", "root", "t"]);
}

fn list(scene: &Scene, folder: &str) -> String {
    scene.run("sh", &["-c", LIST, folder])
}

#[test]
fn a_copy_has_what_the_image_has() {
    let scene = Scene::new();
    tree(&scene);
    let original = list(&scene, "root");
    scene.hull(&["cp", "-a", "t:/", "copy"]);
    assert_eq!(list(&scene, "copy"), original);
    // Again over what is there: files are replaced, directories merged.
    scene.write("copy/etc/passwd", b"old");
    scene.hull(&["cp", "-aq", "t:/.", "copy"]);
    assert_eq!(list(&scene, "copy"), original);
    assert!(fs::metadata(scene.path("copy/deep/sparse")).unwrap().blocks() < 1000, "holes stay holes");
    fs::create_dir(scene.path("unpacked")).unwrap();
    scene
        .run("sh", &["-c", &format!("HULL_STORE=store {} cp t:/ - | tar -C unpacked -xp", env!("CARGO_BIN_EXE_hull"))]);
    assert_eq!(list(&scene, "unpacked"), original);
    // Without --archive the files are the caller's, who gets no set-user-id program.
    scene.hull(&["cp", "t:/", "plain"]);
    let data = |name: &str| fs::symlink_metadata(scene.path(name)).unwrap();
    assert_eq!(data("plain/bin/p").permissions().mode() & 0o7777, 0o755);
    assert_eq!((data("plain/deep/a").uid(), data("plain/deep/a").permissions().mode() & 0o7777), (0, 0o555));
    assert_eq!(data("plain/bin/p").ino(), data("plain/bin/q").ino());
    assert_eq!(data("plain/etc/passwd").mtime_nsec(), 700_000_000);
}

#[test]
fn destinations_are_chosen_as_docker_does() {
    let scene = Scene::new();
    tree(&scene);
    let is = |name: &str| scene.path(name).symlink_metadata().is_ok();
    scene.hull(&["cp", "t:/etc/passwd", "file"]);
    fs::create_dir(scene.path("dir")).unwrap();
    scene.hull(&["cp", "t:latest:etc/passwd", "dir"]);
    assert_eq!(fs::read(scene.path("dir/passwd")).unwrap(), fs::read(scene.path("file")).unwrap());
    scene.hull(&["cp", "t:/etc", "dir"]);
    assert!(is("dir/etc/passwd"));
    scene.hull(&["cp", "t:/etc", "new"]);
    assert!(is("new/passwd"));
    scene.hull(&["cp", "t:/bin/.", "new"]);
    assert!(is("new/p") && is("new/passwd"));
    scene.hull(&["cp", "t:/etc/link", "link"]);
    assert_eq!(fs::read_link(scene.path("link")).unwrap().to_str(), Some("passwd"));
    scene.hull(&["cp", "-L", "t:/etc/link", "dir"]);
    assert!(fs::symlink_metadata(scene.path("dir/link")).unwrap().is_file());
    // Links are followed inside the image, also those that lead above its root.
    scene.hull(&["cp", "t:/abs/passwd", "one"]);
    scene.hull(&["cp", "t:/out/passwd", "two"]);
    scene.hull(&["cp", "t:/../out/", "three"]);
    assert_eq!(fs::read(scene.path("one")).unwrap(), fs::read(scene.path("three/passwd")).unwrap());
    // The file that a link of the caller leads to is replaced, not the link.
    std::os::unix::fs::symlink("file", scene.path("alias")).unwrap();
    scene.hull(&["cp", "t:/deep/a/b/x", "alias"]);
    assert_eq!(fs::read_to_string(scene.path("file")).unwrap(), "x\n");
    assert!(scene.path("alias").is_symlink());
    for (words, why) in [
        (["t:/none", "x"], "t:latest:/none: the image has no such file; "),
        (["t:/etc/passwd/", "x"], "no such file"),
        (["none:/etc", "x"], "none: no such image"),
        (["t:/etc/passwd", "none/"], "none/: no such directory"),
        (["t:/etc/passwd", "none/x"], "none/x: its directory does not exist"),
        (["t:/etc", "file"], "file: a directory can't take the place of a file"),
        (["t:/etc/passwd", "/dev/null"], "/dev/null: neither a file nor a directory"),
    ] {
        let line = scene.fails(&["cp", words[0], words[1]]);
        assert!(line.contains(why), "{line}");
        assert!(!is("x") && !is("none"), "{words:?}");
    }
    for (words, why) in [
        (["t:/etc", "u:/etc"], "u:/etc: both name an image; "),
        (["file", "new"], "file: it names no image"),
        (["t:", "new"], "no path follows"),
        (["file", "t:"], "no path follows"),
        ([":/etc", "new"], "the image has no name"),
    ] {
        let output = scene.command(&["cp", words[0], words[1]]).output().unwrap();
        let line = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(125) && line.lines().count() == 1 && line.contains(why), "{line}");
    }
}

#[test]
fn archives_have_the_names_and_attributes_of_docker() {
    let scene = Scene::new();
    let mut layer = tar::Builder::new(Vec::new());
    layer.append_pax_extensions([("SCHILY.xattr.user.color", &b"blue"[..])]).unwrap();
    let mut header = tar::Header::new_ustar();
    header.set_size(2);
    header.set_mode(0o600);
    layer.append_data(&mut header, "dir/file", &b"ab"[..]).unwrap();
    let mut header = tar::Header::new_ustar();
    header.set_size(0);
    header.set_entry_type(tar::EntryType::Char);
    header.set_device_major(1).unwrap();
    header.set_device_minor(3).unwrap();
    layer.append_data(&mut header, "dir/null", &b""[..]).unwrap();
    scene.write("layer.tar", &layer.into_inner().unwrap());
    scene.hull(&["import", "layer.tar", "t"]);
    let hull = env!("CARGO_BIN_EXE_hull");
    let names = |path: &str| scene.run("sh", &["-c", &format!("HULL_STORE=store {hull} cp t:{path} - | tar t")]);
    assert_eq!(names("/dir"), "dir/\ndir/file\ndir/null\n");
    assert_eq!(names("/dir/."), "./\nfile\nnull\n");
    assert_eq!(names("/dir/file"), "file\n");
    let output = scene.command(&["cp", "t:/dir", "-"]).output().unwrap();
    assert!(output.stdout.windows(28).any(|part| part == b"SCHILY.xattr.user.color=blue"));
    // Devices are in archives only.
    let output = scene.command(&["cp", "-a", "t:/dir", "."]).output().unwrap();
    assert!(output.status.success() && String::from_utf8_lossy(&output.stderr).contains("hull: warning: devices"));
    assert!(!scene.path("dir/null").exists());
    let read = "import os; print(os.getxattr('dir/file', 'user.color'))";
    assert_eq!(scene.run("python3", &["-c", read]), "b'blue'\n");
    let line = scene.fails(&["cp", "t:/dir/null", "null"]);
    assert!(line.contains("devices and sockets are not made on the host"), "{line}");
    // A destination that is full.
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let output = scene.command(&["cp", "t:/dir", "-"]).stdout(full).output().unwrap();
    assert!(failed(&output).contains("archive: no space left on device"));
}

#[test]
fn links_of_the_destination_are_not_followed() {
    let scene = Scene::new();
    scene.run("sh", &["-c", "mkdir -p root/sub outside to; echo new >root/sub/file; echo new >root/top"]);
    scene.hull(&["import", "root", "t"]);
    scene.run("sh", &["-c", "echo old >outside/file; ln -s ../outside to/sub; ln -s ../outside/file to/top"]);
    let line = scene.fails(&["cp", "t:/.", "to"]);
    assert!(line.contains("to/sub: not a directory; "), "{line}");
    scene.hull(&["cp", "t:/top", "to/."]);
    assert!(scene.path("to/top").symlink_metadata().unwrap().is_file());
    assert_eq!(fs::read_to_string(scene.path("outside/file")).unwrap(), "old\n");
}

#[test]
fn damaged_images_end_in_one_line() {
    let scene = Scene::new();
    scene.run("sh", &["-c", "mkdir -p root/sub; echo new >root/sub/evilname; ln -s sub/evilname root/link"]);
    scene.hull(&["import", "root", "t"]);
    let path = scene.erofs("t");
    let good = fs::read(&path).unwrap();
    fs::create_dir_all(scene.path("a/b")).unwrap();
    // A name that leads out of the destination.
    let mut bad = good.clone();
    for (at, _) in good.windows(8).enumerate().filter(|(_, part)| *part == b"evilname") {
        bad[at..at + 8].copy_from_slice(b"../../ev");
    }
    fs::write(&path, &bad).unwrap();
    for archive in [false, true] {
        let line = scene.fails(&["cp", "t:/sub", if archive { "-" } else { "a/b" }]);
        assert!(line.contains("a name in a directory is not valid; "), "{line}");
    }
    assert!(!scene.path("ev").exists() && !scene.path("a/ev").exists());
    // One changed byte anywhere: the copy succeeds, or fails in one line.
    let used: Vec<usize> = (1024..good.len()).filter(|&at| good[at] != 0).collect();
    let mut failures = 0;
    for (count, &at) in used.iter().step_by(used.len() / 150 + 1).enumerate() {
        let mut bad = good.clone();
        bad[at] ^= 1 << (count % 8);
        fs::write(&path, &bad).unwrap();
        let output = Command::new("timeout")
            .args(["10", env!("CARGO_BIN_EXE_hull"), "cp", "-q", "t:/", "many"])
            .env("HULL_STORE", scene.store())
            .current_dir(scene.path("a"))
            .output()
            .unwrap();
        if !output.status.success() {
            failed(&output);
            failures += 1;
        }
        let _ = fs::remove_dir_all(scene.path("a/many"));
    }
    assert!(failures > 20, "{failures}");
    assert!(!scene.path("many").exists() && scene.path("a/b").read_dir().unwrap().count() <= 1);
}
