//! `hull cp` into an image: a new image with one layer more takes over the name.

use super::support::*;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

/// Names, types, modes, owners, times, links and contents, without the root directory.
const LIST: &str = "cd \"$0\" && find . -mindepth 1 -printf '%P %y %m %U:%G %T@ %l %n\n' | sort | sed -E '/ d /s/ [0-9]+$//' && \
    find . -type f -exec cksum {} + | sort";

/// An image `t` with a few directories and links.
fn image(scene: &Scene) {
    let script = "set -e
        umask 022; mkdir -p root/etc root/usr/bin root/srv/data
        echo old >root/etc/motd; echo tool >root/usr/bin/tool; ln -s usr/bin root/bin; ln -s /srv/data root/data
        ln -s motd root/etc/link; ln -s /none root/etc/dangling; ln -s loop root/etc/loop; chmod 750 root/srv/data; chown 7:8 root/srv/data";
    scene.run("sh", &["-c", script]);
    scene.hull(&["import", "root", "t", "-c", "CMD [\"/bin/tool\"]", "-c", "ENV A=b"]);
}

/// The files of an image, as `LIST` shows them.
fn list(scene: &Scene, name: &str) -> String {
    let _ = fs::remove_dir_all(scene.path("unpacked"));
    fs::create_dir(scene.path("unpacked")).unwrap();
    // Archives have the devices, too.
    let hull = env!("CARGO_BIN_EXE_hull");
    scene.run("sh", &["-c", &format!("HULL_STORE=store {hull} cp {name}:/ - | tar -C unpacked -xp")]);
    scene.run("sh", &["-c", LIST, "unpacked"])
}

#[test]
fn the_new_image_takes_over_the_name() {
    let scene = Scene::new();
    image(&scene);
    scene.hull(&["tag", "t", "other:name"]);
    let before = scene.inspect("t");
    let old = list(&scene, "t");
    scene.write("file", b"new\n");
    fs::set_permissions(scene.path("file"), fs::Permissions::from_mode(0o4711)).unwrap();
    let output = scene.command(&["cp", "file", "t:/etc/file"]).output().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(
        output.status.success() && message.starts_with("hull: copied file to a new image t:latest, a layer of "),
        "{message}"
    );
    let after = scene.inspect("t");
    assert_eq!(String::from_utf8(output.stdout).unwrap().trim(), after["Id"].as_str().unwrap());
    assert_ne!(after["Id"], before["Id"]);
    assert_eq!(
        (&after["Config"]["Cmd"], &after["Config"]["Env"]),
        (&before["Config"]["Cmd"], &before["Config"]["Env"])
    );
    let layers = |image: &serde_json::Value| image["RootFS"]["Layers"].as_array().unwrap().clone();
    assert_eq!(layers(&after)[..1], layers(&before)[..]);
    assert_eq!(layers(&after).len(), 2);
    assert!(scene.hull(&["history", "t"]).contains("Copied file to /etc/file"));
    // The old image is what it was, by its other name and by its id.
    assert_eq!(scene.inspect("other:name")["Id"], before["Id"]);
    assert_eq!(list(&scene, before["Id"].as_str().unwrap()), old);
    // The file belongs to root, without the set-user-id bit.
    let new = list(&scene, "t");
    assert!(new.lines().any(|line| line.starts_with("etc/file f 711 0:0 ")), "{new}");
    fsck(&scene.erofs("t"));
    // Other tools read it.
    scene.hull(&["save", "-o", "saved.tar", "t"]);
    scene.run(
        "sh",
        &["-c", "skopeo copy -q oci-archive:saved.tar:t:latest oci:layout:x && umoci unpack --image layout:x bundle"],
    );
    assert_eq!(scene.run("sh", &["-c", LIST, "bundle/rootfs"]), new);
    // Of an image that is named by its id, the new one has no name.
    let id = scene.hull(&["cp", "-q", "file", &format!("{}:/by-id", &before["Id"].as_str().unwrap()[7..20])]);
    assert_eq!(scene.inspect("t")["Id"], after["Id"]);
    assert!(list(&scene, id.trim()).contains("by-id f 711"));
    scene.hull(&["rmi", "-f", "other:name"]);
    scene.hull(&["prune", "-af"]);
    scene.assert_empty("at the end");
}

#[test]
fn all_kinds_of_files() {
    let scene = Scene::new();
    image(&scene);
    let script = "set -e
        umask 022; mkdir -p tree/sub/deep; echo x >tree/sub/x; ln tree/sub/x tree/sub/y; ln -s ../none tree/sub/dangling
        mkfifo tree/fifo; mknod tree/null c 1 3; truncate -s 5M tree/sparse; echo end >>tree/sparse
        chown 12:34 tree/sub/x; chmod 6755 tree/sub/x; chmod 700 tree/sub/deep; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"tree/socket\")'
        long=$(printf 'n%.0s' $(seq 150)); mkdir -p tree/$long/$long; echo long >tree/$long/$long/$long
        touch -h -d '2001-02-03 04:05:06.5 UTC' tree/sub/* tree/sub";
    scene.run("sh", &["-c", script]);
    scene.hull(&["cp", "-aq", "tree", "t:/srv"]);
    scene.run("rm", &["tree/socket"]);
    list(&scene, "t");
    assert_eq!(scene.run("sh", &["-c", LIST, "unpacked/srv/tree"]), scene.run("sh", &["-c", LIST, "tree"]));
    // As an archive, plain and packed, with and without owners.
    let id = scene.inspect("t")["Id"].clone();
    for (pack, options) in [("cat", "-aq"), ("gzip", "-aq"), ("cat", "-q")] {
        scene.run("sh", &["-c", &format!("tar -C tree --posix -cf - . | {pack} >tree.tar")]);
        let input = fs::File::open(scene.path("tree.tar")).unwrap();
        scene.run("sh", &["-c", "mkdir -p empty"]);
        scene.hull(&["cp", "-q", "empty", "t:/from"]);
        assert!(
            scene
                .command(&["cp", options, "-", "t:/from"])
                .stdin(input)
                .stdout(Stdio::null())
                .status()
                .unwrap()
                .success()
        );
        let all = list(&scene, "t");
        let unpacked = scene.run("sh", &["-c", LIST, "unpacked/from"]);
        if options == "-aq" {
            assert_eq!(unpacked, scene.run("sh", &["-c", LIST, "tree"]), "{pack}");
        } else {
            assert!(all.lines().any(|line| line.starts_with("from/sub/y f 755 0:0 981173106.5")), "{all}");
        }
        scene.hull(&["tag", id.as_str().unwrap(), "t"]);
    }
}

#[test]
fn places_are_chosen_as_docker_does() {
    let scene = Scene::new();
    image(&scene);
    let script = "mkdir -p dir/etc dir/usr; echo new >dir/etc/motd; echo more >dir/etc/more; chmod 700 dir/etc; echo f >file; ln -s file link";
    scene.run("sh", &["-c", script]);
    let has = |path: &str| scene.command(&["cp", "-q", &format!("t:{path}"), "-"]).output().unwrap().status.success();
    let content = |path: &str| {
        let _ = fs::remove_file(scene.path("content"));
        scene.hull(&["cp", "-q", &format!("t:{path}"), "content"]);
        fs::read_to_string(scene.path("content")).unwrap()
    };
    let cp = |options: &str, from: &str, to: &str| scene.hull(&["cp", options, from, &format!("t:{to}")]);
    cp("-q", "file", "/etc");
    assert_eq!(content("/etc/file"), "f\n");
    // Links of the image are followed in it, also the last one.
    cp("-q", "file", "bin/copied");
    assert_eq!(content("/usr/bin/copied"), "f\n");
    cp("-q", "file", "/data");
    assert_eq!(content("/srv/data/file"), "f\n");
    cp("-q", "file", "/etc/link");
    assert_eq!(content("/etc/motd"), "f\n");
    cp("-q", "link", "/etc/own-link");
    cp("-qL", "link", "/etc/target");
    assert_eq!((has("/etc/own-link"), content("/etc/target").as_str()), (true, "f\n"));
    // A directory into one, in the place of a new one, and its contents.
    cp("-q", "dir", "/srv");
    assert!(has("/srv/dir/etc/more"));
    cp("-q", "dir", "/srv/new");
    assert!(has("/srv/new/etc/more") && !has("/srv/new/dir"));
    cp("-q", "dir/.", "/");
    assert_eq!((content("/etc/motd"), content("/etc/more")), ("new\n".into(), "more\n".into()));
    let all = list(&scene, "t");
    let line = |name: &str| all.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
    // Directories that were there are as they were.
    assert!(line("etc d ").starts_with("etc d 755 ") && line("srv/data d").starts_with("srv/data d 750 7:8 "));
    assert!(line("bin l").contains(" usr/bin ") && line("etc/own-link l").contains(" file "), "{all}");
    assert!(line("srv/new/etc d").starts_with("srv/new/etc d 700 0:0"));
    cp("-aq", "dir/.", "/");
    assert!(list(&scene, "t").contains("etc d 700 "));
}

#[test]
fn files_without_a_size_are_read_to_their_end() {
    let scene = Scene::new();
    image(&scene);
    for (from, to) in [("/proc/version", "proc"), ("/sys/kernel/mm/transparent_hugepage/enabled", "sys")] {
        scene.hull(&["cp", "-q", from, &format!("t:/{to}")]);
        scene.hull(&["cp", "-q", &format!("t:/{to}"), to]);
        assert_eq!(fs::read(scene.path(to)).unwrap(), fs::read(from).unwrap());
    }
}

#[test]
fn what_is_refused_changes_nothing() {
    let scene = Scene::new();
    image(&scene);
    let script = "mkdir -p dir/bin wh; echo f >dir/bin/x; echo f >file; mkdir motd; echo f >wh/.wh.motd
        mkdir a && echo f >a/x && tar -cf through.tar --transform=s,^a,bin, a/x && tar -Pcf out.tar --transform=s,^a,../a, a/x
        tar -cf wh.tar -C wh .wh.motd; echo text >text.tar
        head -c 9000 /dev/urandom >big; tar -cf - big | head -c 4000 >cut.tar; tar -czf - big | head -c 4000 >packed.tar
        ln a/x a/y; tar -cf links.tar a/x a/y; tar --delete -f links.tar a/x";
    scene.run("sh", &["-c", script]);
    let id = scene.inspect("t")["Id"].clone();
    for (from, to, why) in [
        (
            "file",
            "t:/none/x",
            "t:latest:/none/x: the directory /none does not exist in the image; copy to a directory that exists",
        ),
        ("file", "t:/etc/motd/x", "t:latest:/etc/motd/x: /etc/motd is not a directory of the image; "),
        ("file", "t:/etc/link/", "/etc/motd is not a directory of the image"),
        ("file", "t:/etc/dangling/x", "a link leads to /none, which does not exist in the image"),
        ("file", "t:/etc/loop/x", "its links form a loop"),
        ("file", "t:/none/", "no such directory in the image"),
        ("dir", "t:/etc/motd", "a directory can't take the place of a file"),
        ("dir/.", "t:/", "t:latest:/bin: not a directory; name the directory that it stands for"),
        ("motd", "t:/etc", "t:latest:/etc/motd: not a directory"),
        ("none", "t:/etc", "none: no such file"),
        ("wh", "t:/etc", "names that begin with .wh. mean that a file is removed"),
        ("file", "none:/etc", "none: no such image"),
        ("text.tar", "t:/etc", "hull: standard input: no valid tar archive: "),
        ("cut.tar", "t:/etc", "hull: standard input: no valid tar archive: "),
        ("packed.tar", "t:/etc", "hull: standard input: no valid tar archive: "),
        ("links.tar", "t:/etc", "hull: standard input: "),
        ("wh.tar", "t:/etc", ".wh.motd: in layers"),
        ("through.tar", "t:/", "t:latest:/bin: not a directory"),
        ("out.tar", "t:/etc", "leads out of the destination"),
        ("out.tar", "t:/etc/motd", "not a directory of the image"),
    ] {
        let mut command = scene.command(&["cp", if from.ends_with(".tar") { "-" } else { from }, to]);
        if from.ends_with(".tar") {
            command.stdin(fs::File::open(scene.path(from)).unwrap());
        }
        let line = failed(&command.output().unwrap());
        assert!(line.contains(why), "{from} {to}: {line}");
    }
    assert_eq!(scene.inspect("t")["Id"], id);
    assert_eq!(scene.files("tmp"), [""; 0]);
    // A store that does not exist is not made.
    let other = scene.command(&["cp", "file", "t:/x", "--store", "elsewhere"]).output().unwrap();
    assert!(failed(&other).contains("no such image") && !scene.path("elsewhere").exists());
}

#[test]
fn copies_at_the_same_time_are_all_there() {
    let scene = Scene::new();
    image(&scene);
    let names: Vec<String> = (0..8).map(|at| format!("file{at}")).collect();
    let copies: Vec<_> = names
        .iter()
        .map(|name| {
            scene.write(name, name.as_bytes());
            scene.command(&["cp", name, "t:/etc/"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
        })
        .collect();
    for mut copy in copies {
        assert!(copy.wait().unwrap().success());
    }
    let all = list(&scene, "t");
    assert!(names.iter().all(|name| all.contains(&format!("etc/{name} f 6"))), "{all}");
    assert_eq!(scene.inspect("t")["RootFS"]["Layers"].as_array().unwrap().len(), 9);
}
