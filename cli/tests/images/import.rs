//! Root file systems that become images.

use super::support::*;

/// A folder with everything that a layer can have.
const FOLDER: &str = "set -e
    mkdir -p root/etc root/bin root/empty; cd root
    echo root:x:0:0 >etc/passwd; head -c 100000 /dev/urandom >bin/program; chmod 4755 bin/program; ln bin/program bin/link
    ln -s ../etc/passwd bin/symbolic; mkfifo etc/fifo; mknod etc/null c 1 3; chown 12:34 etc/passwd; chmod 1777 empty
    python3 -c 'import os; os.setxattr(\"etc/passwd\", \"user.note\", b\"text\")'; touch -d '2001-02-03 04:05:06.789 UTC' etc/passwd
    name=$(printf 'n%.0s' $(seq 200)); mkdir $name; echo x >$name/$name";

#[test]
fn a_folder_and_its_archive_are_the_same_image() {
    let scene = Scene::new();
    scene.run("sh", &["-c", FOLDER]);
    let changes = ["--change=CMD [\"/bin/program\"]", "-c", "ENV A=b C=d"];
    let id = scene.hull(&[&["import", "root", "folder:1"], &changes[..]].concat());
    assert_eq!(scene.hull(&["images", "-q", "--no-trunc", "folder"]), id);
    assert_eq!(
        scene.hull(&["inspect", "-f", "{{.Config.Cmd}} {{.Config.Env}}", "folder:1"]),
        "[/bin/program] [A=b C=d]\n"
    );
    fsck(&scene.erofs("folder:1"));
    // What umoci unpacks is what was imported.
    scene.hull(&["save", "-o", "saved.tar", "folder:1"]);
    scene.run(
        "sh",
        &["-c", "skopeo copy -q oci-archive:saved.tar:folder:1 oci:layout:x && umoci unpack --image layout:x unpacked"],
    );
    let listing = |folder: &str| {
        let script = "cd $0; find . -printf '%p %y %m %U %G %l %n %T@\\n' | sort; find . -type f | sort | xargs sha256sum; python3 -c 'import os; print(os.getxattr(\"etc/passwd\", \"user.note\"))'";
        scene.run("sh", &["-c", script, folder])
    };
    assert_eq!(listing("unpacked/rootfs"), listing("root"));
    // An archive of it, packed or not.
    scene.run("sh", &["-c", "tar --xattrs -C root -czf root.tar.gz . && zcat root.tar.gz >root.tar"]);
    scene.hull(&["import", "root.tar.gz", "packed"]);
    let input = std::fs::File::open(scene.path("root.tar")).unwrap();
    assert!(scene.command(&["import", "-", "plain"]).stdin(input).status().unwrap().success());
    assert_eq!(scene.inspect("packed")["RootFS"], scene.inspect("plain")["RootFS"]);
    fsck(&scene.erofs("plain"));
    scene.hull(&["prune", "-af"]);
    scene.assert_empty("at the end");
}

#[test]
fn what_is_no_root_file_system() {
    let scene = Scene::new();
    scene.write("text", &b"some text\n".repeat(200));
    scene.fails(&["import", "text", "x"]);
    scene.assert_empty("text");
    scene.write("outside", &tar(&[("../../x", b"x")]));
    assert!(scene.fails(&["import", "outside", "x"]).contains("outside"));
    scene.assert_empty("outside");
    scene.fails(&["import", "missing", "x"]);
    scene.write("root.tar.xz", b"\xfd7zXZ\0..");
    for arguments in [&["import", "root.tar.xz", "x"][..], &["load", "-i", "root.tar.xz"]] {
        assert!(scene.fails(arguments).contains("packed with xz, which Hull does not read"));
        assert!(scene.fails(arguments).contains("; unpack it first"));
    }
    assert!(scene.fails(&["import", "text", "x", "--change", "RUN ls"]).contains("--change RUN ls"));
    let large = scene.fails(&["import", "/usr/bin", "x", "--max-size=1M"]);
    assert!(large.contains("--max-size"), "{large}");
    scene.assert_empty("large");
}
