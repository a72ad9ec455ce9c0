//! A plain layer means what GNU tar extracts, and its image is what the host mounts.

mod support;

use std::{fs, path::Path, process::Command};

use support::{compare, image_of, record, run, tree};

/// Makes one of everything below `dir`.
fn make_everything(dir: &Path) {
    let script = r#"
        set -e
        cd "$1"
        umask 022
        mkdir -p usr/lib etc/deep/er empty bin
        for size in 0 1 100 4031 4032 4033 4095 4096 4097 8192 10000 65535 65536 70000 1000000; do
            head -c $size /dev/urandom > usr/lib/random-$size
            { printf '\177ELF'; head -c $size /dev/zero | tr '\0' e; } > usr/lib/elf-$size
        done
        for i in $(seq 1 1500); do echo $i > etc/deep/file-with-a-rather-long-name-$i; done
        ln -s usr/lib lib
        ln -s "$(printf 'x%.0s' $(seq 4050))" long-symlink
        ln -s /absolute/../target etc/abs
        ln usr/lib/random-100 etc/hard1
        ln usr/lib/random-100 hard2
        ln lib hard-symlink
        mknod null c 1 3
        mknod disk b 259 70000
        mkfifo -m 600 fifo
        chmod 4755 usr/lib/random-4096
        chmod 1777 empty
        chown 1000:1000 etc/deep
        chown 100000:70000 etc/hard1
        touch -d '1969-12-31 23:59:58.5 UTC' etc/abs.old
        touch -d '2500-01-01 00:00:00.123456789 UTC' etc/future
        touch -d '2020-02-02 UTC' usr bin
        truncate -s 40M sparse-end
        printf data | dd of=sparse-end bs=1 seek=20000000 conv=notrunc status=none
        truncate -s 100K sparse-all
        printf start > sparse-start; truncate -s 12345 sparse-start
        truncate -s 300M sparse-huge
        printf middle | dd of=sparse-huge bs=1 seek=150000000 conv=notrunc status=none
        python3 - <<'END'
import os
os.setxattr("etc/future", "user.one", b"1")
os.setxattr("etc/future", "user.common", b"same")
os.setxattr("usr/lib", "user.common", b"same")
os.setxattr("etc", "user.empty", b"")
os.setxattr("usr/lib/random-4031", "user.large", b"v" * 3000)
os.setxattr("usr", "trusted.overlay.opaque", b"y")
os.setxattr("usr/lib/elf-100", "security.capability", bytes.fromhex("0000000201000000000000000000000000000000"))
END
        setfacl -m u:1000:rwx,g:2000:r bin
        setfacl -d -m u:1000:rwx bin
        touch "!before-dot" -- "-dash" ".hidden" "$(printf 'new\nline')" "$(printf 'latin\351')"
    "#;
    run(Command::new("bash").args(["-c", script, "bash"]).arg(dir));
}

/// What an image keeps of a directory: attributes but those of `trusted`.
fn expected(dir: &Path, keep: impl Fn(&(Vec<u8>, Vec<u8>)) -> bool) -> record::Records {
    let mut all = record::of_directory(dir);
    for record in all.values_mut() {
        record.xattrs.retain(|xattr| !xattr.0.starts_with(b"trusted.") && keep(xattr));
    }
    all
}

#[test]
fn directory() {
    let dir = tempfile::tempdir().unwrap();
    make_everything(dir.path());
    let (mut tree, image) = tree();
    tree.add_directory(dir.path()).unwrap();
    tree.write_erofs(&Default::default()).unwrap();
    compare(&image, &expected(dir.path(), |_| true));
}

/// What GNU tar writes in each format is read as GNU tar extracts it.
#[test]
fn archives_of_gnu_tar() {
    let dir = tempfile::tempdir().unwrap();
    let (source, out) = (dir.path().join("source"), dir.path().join("out"));
    fs::create_dir(&source).unwrap();
    make_everything(&source);
    // What formats cannot have: times before 1970 or after 2242, large device and user numbers.
    for (format, sparse, remove) in [
        ("posix", Some("1.0"), ""),
        ("posix", Some("0.1"), "sparse-huge"),
        ("posix", Some("0.0"), "sparse-huge"),
        ("posix", None, "sparse-end sparse-huge"),
        ("gnu", Some("1.0"), "sparse-huge"),
        ("gnu", None, "sparse-end sparse-huge"),
        ("oldgnu", Some("1.0"), ""),
        ("ustar", None, "sparse-end sparse-huge etc/abs.old etc/future disk long-symlink"),
        ("v7", None, "sparse-end sparse-huge etc/abs.old etc/future disk long-symlink null fifo"),
    ] {
        let what = format!("{format} {sparse:?}");
        let archive = dir.path().join("archive.tar");
        let mut tar = Command::new("tar");
        tar.arg("-C").arg(&source).arg("-cf").arg(&archive).arg(format!("--format={format}")).arg("--numeric-owner");
        if format == "posix" {
            tar.args(["--xattrs", "--xattrs-include=*"]);
        }
        if let Some(version) = sparse {
            tar.args(["--sparse", &format!("--sparse-version={version}")]);
        }
        tar.args(remove.split_whitespace().map(|name| format!("--exclude=./{name}")));
        run(tar.arg("."));
        fs::create_dir(&out).unwrap();
        let mut extract = Command::new("tar");
        extract.arg("-C").arg(&out).arg("-xpf").arg(&archive).args([
            "--numeric-owner",
            "--xattrs",
            "--xattrs-include=*",
        ]);
        run(&mut extract);
        let (mut tree, image) = tree();
        tree.apply_layer(fs::File::open(&archive).unwrap()).unwrap_or_else(|e| panic!("{what}: {e}"));
        let summary = tree.write_erofs(&Default::default()).unwrap();
        println!("{what}: {summary:?}");
        // An empty value of a PAX record takes the record back.
        compare(&image, &expected(&out, |(_, value)| !value.is_empty()));
        fs::remove_dir_all(&out).unwrap();
    }
}

/// The same archive gives the same bytes, and a different one another UUID.
#[test]
fn reproducible() {
    let layer = |name: &str| support::archive::Archive::new().directory("d").file(name, &[7; 5000]).end();
    let read = |file: &fs::File| fs::read(support::path_of(file)).unwrap();
    let (one, summary) = image_of(&[layer("d/a")]).unwrap();
    let (two, same) = image_of(&[layer("d/a")]).unwrap();
    assert_eq!(read(&one), read(&two));
    assert_eq!(summary, same);
    assert_ne!(image_of(&[layer("d/b")]).unwrap().1.uuid, summary.uuid);
}
