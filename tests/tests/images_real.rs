//! Images of real systems, written by podman, skopeo and umoci: their programs print in a pod what they print in a chroot of
//! the host.
//!
//! The system is made once of packages and kept in the target directory; see `hull_tests::debian`.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use hull_tests::debian::Debian;
use hull_tests::environment::Scratch;
use hull_tests::hull;
use hull_tests::process::text;
use hull_tests::registry::Registry;
use hull_tests::root::hull_run;

const TARGET: &str = env!("CARGO_TARGET_TMPDIR");
/// The images of podman and umoci.
const PODMAN: &str = "localhost/debian:podman";
const UMOCI: &str = "debian:umoci";

/// The system, and a store with both images of it, which the next run removes.
static DEBIAN: LazyLock<(Debian, PathBuf)> = LazyLock::new(|| {
    let debian = Debian::new(Path::new(TARGET));
    let store = Path::new(TARGET).join("debian-store");
    let _ = fs::remove_dir_all(&store);
    for (archive, name) in [("docker.tar", PODMAN), ("oci.tar", UMOCI)] {
        assert_eq!(load(&store, &debian.archive(archive)), format!("Loaded image: {name}\n"));
    }
    (debian, store)
});

/// The image of umoci in further stores, by the other ways that an image comes into one: from an OCI layout folder, and pulled
/// from a registry, to which the store of the archives pushed it. The blobs are the same.
static OTHER_WAYS: LazyLock<[(PathBuf, String); 2]> = LazyLock::new(|| {
    let (debian, store) = &*DEBIAN;
    let scratch = Scratch::new().unwrap();
    let layout = scratch.0.join("layout");
    fs::create_dir(&layout).unwrap();
    let unpacked = Command::new("tar").arg("-xf").arg(debian.archive("oci.tar")).arg("-C").arg(&layout).status();
    assert!(unpacked.unwrap().success());
    let [folder, pulled] = ["layout", "pulled"].map(|way| Path::new(TARGET).join(format!("debian-store-{way}")));
    for store in [&folder, &pulled] {
        let _ = fs::remove_dir_all(store);
    }
    assert_eq!(load(&folder, &layout), format!("Loaded image: {UMOCI}\n"));
    // It ends here: what is pulled runs without it.
    let registry = Registry::start(&scratch.0.join("registry"));
    let name = format!("{}/systems/{UMOCI}", registry.host);
    hull(store, &["tag", UMOCI, &name]);
    hull(store, &["push", "-q", &name]);
    hull(store, &["rmi", &name]);
    hull(&pulled, &["pull", "-q", &name]);
    [(folder, UMOCI.to_owned()), (pulled, name)]
});

/// A command of `hull` with a store, which must succeed; its output.
#[track_caller]
fn hull(store: &Path, words: &[&str]) -> String {
    let output = Command::new(hull::binary().unwrap()).args(words).env("HULL_STORE", store).output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// `hull load`, which must succeed.
#[track_caller]
fn load(store: &Path, archive: &Path) -> String {
    hull(store, &["load", "-i", archive.to_str().unwrap()])
}

/// Runs a script as a user in a chroot and in a pod of an image; both must print the same and succeed.
#[track_caller]
fn compare(image: &str, user: &str, shared: &Path, script: &str) -> String {
    compare_in(&[(&DEBIAN.1, image)], user, shared, script)
}

/// The same for both images from archives, and for that of umoci from a layout folder and a registry.
#[track_caller]
fn compare_all_ways(user: &str, shared: &Path, script: &str) -> String {
    let others = OTHER_WAYS.iter().map(|(store, name)| (store.as_path(), name.as_str()));
    let images: Vec<_> = [PODMAN, UMOCI].map(|image| (DEBIAN.1.as_path(), image)).into_iter().chain(others).collect();
    compare_in(&images, user, shared, script)
}

/// Runs a script in a chroot, and in a pod of each of some images in stores.
#[track_caller]
fn compare_in(images: &[(&Path, &str)], user: &str, shared: &Path, script: &str) -> String {
    let host = DEBIAN.0.chroot(shared, user, script);
    assert_eq!(host.status, 0, "host: {}{}", text(&host.stdout), text(&host.stderr));
    let host = text(&host.stdout);
    for (store, image) in images {
        compare_pod(store, image, user, shared, script, &host);
    }
    host
}

/// Runs a script in a pod of an image, which must print what the host did.
#[track_caller]
fn compare_pod(store: &Path, image: &str, user: &str, shared: &Path, script: &str, host: &str) {
    let grant = format!("{}:/shared:ro", shared.display());
    let words = ["-u", user, "-w", "/", "-e", "LC_ALL=C", "-e", "HOME=/tmp", "-v", &grant, image, "bash", "-c", script];
    let (code, out, messages) = hull_run(store, &words);
    assert_eq!(code, 0, "pod of {}: {out}{messages}", store.display());
    let other = host.lines().zip(out.lines()).find(|(host, pod)| host != pod);
    assert_eq!(other, None, "{}: {messages}", store.display());
    assert_eq!(host.lines().count(), out.lines().count());
}

#[test]
fn all_files_are_those_of_the_packages() {
    let shared = Scratch::new().unwrap();
    let all = compare_all_ways("root", &shared.0, include_str!("../images/all_files.sh"));
    assert!(all.lines().count() > 5000 && all.contains(" usr/bin/bash\n") && all.contains("usr/bin/su f 4755 0 0 1"));
}

#[test]
fn an_image_of_umoci_runs_as_it_is_configured() {
    let (_, store) = &*DEBIAN;
    assert_eq!(hull_run(store, &[UMOCI]), (0, "postgres\n".into(), String::new()));
    assert_eq!(
        hull_run(store, &[UMOCI, "bash", "-c", "pwd; cd ~ && pwd"]).1,
        "/var/lib/postgresql\n/var/lib/postgresql\n"
    );
}

#[test]
fn shells_and_interpreters() {
    let shared = Scratch::new().unwrap();
    compare(PODMAN, "root", &shared.0, include_str!("../images/bash.sh"));
    compare(UMOCI, "nobody", &shared.0, include_str!("../images/python.sh"));
}

#[test]
fn servers_run_as_their_usual_users() {
    let shared = Scratch::new().unwrap();
    let postgres = compare(UMOCI, "postgres", &shared.0, include_str!("../images/postgres.sh"));
    assert!(postgres.starts_with("postgres\n") && postgres.ends_with("20000\n2\n"), "{postgres}");
    let redis = compare(PODMAN, "redis", &shared.0, include_str!("../images/redis.sh"));
    assert!(redis.starts_with("redis\nOK\n42\n1000\nOK\n42\n"), "{redis}");
    let nginx = compare(PODMAN, "root", &shared.0, include_str!("../images/nginx.sh"));
    assert!(nginx.starts_with("HTTP/1.1 200 OK") && nginx.contains("\nwww-data\n"), "{nginx}");
}

/// A wheel of pip, made by hand: a module and a command.
fn wheel(place: &Path) {
    let script = r#"
import base64, hashlib, sys, zipfile
info = "hull_greeting-1.0.dist-info/"
files = {
    "hull_greeting/__init__.py": "from .words import word\ndef greet(name):\n    return f'{word} {name}'\ndef main():\n    import sys\n    print(greet(*sys.argv[1:]))\n",
    "hull_greeting/words.py": "word = 'hello'\n",
    info + "METADATA": "Metadata-Version: 2.1\nName: hull_greeting\nVersion: 1.0\n",
    info + "WHEEL": "Wheel-Version: 1.0\nGenerator: hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    info + "entry_points.txt": "[console_scripts]\nhull-greeting = hull_greeting:main\n",
}
digest = lambda text: base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
files[info + "RECORD"] = "".join(f"{name},sha256={digest(text)},{len(text)}\n" for name, text in files.items()) + info + "RECORD,,\n"
with zipfile.ZipFile(sys.argv[1] + "/hull_greeting-1.0-py3-none-any.whl", "w") as wheel:
    for name, text in files.items():
        wheel.writestr(name, text)
"#;
    let made = Command::new("python3").args(["-c", script]).arg(place).output().unwrap();
    assert!(made.status.success(), "{}", text(&made.stderr));
}

#[test]
fn java_node_and_packages_of_python() {
    let shared = Scratch::new().unwrap();
    wheel(&shared.0);
    let java = compare_all_ways("nobody", &shared.0, include_str!("../images/java.sh"));
    assert!(java.contains("\na b nobody 17.") && java.matches("exit 5\n").count() == 3, "{java}");
    let node = compare_all_ways("nobody", &shared.0, include_str!("../images/node.sh"));
    assert!(node.contains("\nhello world\n") && node.ends_with("3\nend 5\nexit 5\n"), "{node}");
    let pip = compare_all_ways("root", &shared.0, include_str!("../images/pip.sh"));
    assert!(pip.contains("\nhello world /") && pip.contains("\nhello you\n"), "{pip}");
}

#[test]
fn apt_installs_into_the_private_layer() {
    let shared = Scratch::new().unwrap();
    let script = r#"set -e; cd "$1"; mkdir -p package/DEBIAN package/usr/bin repository
        printf '%s\n' 'Package: hull-greeting' 'Version: 1.0' 'Architecture: all' 'Depends: bash, python3' \
            'Maintainer: Nobody <nobody@localhost>' 'Description: a greeting' >package/DEBIAN/control
        printf '%s\n' '#!/bin/sh' 'mkdir -p /var/lib/hull-greeting' 'chown redis /var/lib/hull-greeting' \
            'echo "configured by $1"' >package/DEBIAN/postinst
        printf '%s\n' '#!/bin/bash' 'echo hello from a package' >package/usr/bin/hull-greeting
        chmod 755 package/DEBIAN/postinst package/usr/bin/hull-greeting
        dpkg-deb --root-owner-group --build package repository/hull-greeting_1.0_all.deb
        cd repository; deb=$(echo *.deb)
        { cat ../package/DEBIAN/control
          echo "Filename: ./$deb
Size: $(stat -c %s "$deb")
SHA256: $(sha256sum "$deb" | cut -d' ' -f1)"; } >Packages"#;
    let made = Command::new("sh").args(["-c", script, "sh"]).arg(&shared.0).output().unwrap();
    assert!(made.status.success(), "{}", text(&made.stderr));
    let out = compare(PODMAN, "root", &shared.0, include_str!("../images/apt.sh"));
    assert!(out.starts_with("hello from a package\nStatus: install ok installed\nVersion: 1.0\n"), "{out}");
    assert!(out.contains("\nSetting up hull-greeting (1.0) ...\n"), "{out}");
    // The image is what it was.
    let (_, store) = &*DEBIAN;
    assert_eq!(hull_run(store, &[PODMAN, "hull-greeting"]).0, 127);
    assert_eq!(hull_run(store, &[PODMAN, "test", "-e", "/var/lib/hull-greeting"]).0, 1);
}

/// Makes an image of a directory in an OCI layout, with umoci.
fn umoci(layout: &Path, script: &str) {
    let output = Command::new("sh").args(["-euc", script]).current_dir(layout).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
}

#[test]
fn a_static_go_program_on_scratch() {
    let scratch = Scratch::new().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("images/hello.go");
    let mut go = Command::new("go");
    go.args(["build", "-o"]).arg(scratch.0.join("hello")).arg(source).env("CGO_ENABLED", "0");
    let built = go.env("GOCACHE", Path::new(TARGET).join("go-cache")).current_dir(&scratch.0).output().unwrap();
    assert!(built.status.success(), "{}", text(&built.stderr));
    umoci(
        &scratch.0,
        "umoci init --layout layout; umoci new --image layout:go; umoci unpack --image layout:go bundle; cp hello bundle/rootfs
        umoci repack --image layout:go bundle
        umoci config --image layout:go --config.entrypoint /hello --config.user 1000:1000 --config.env GREETING=hi",
    );
    let store = scratch.0.join("store");
    load(&store, &scratch.0.join("layout"));
    let host = Command::new(scratch.0.join("hello")).args(["a", "b"]).env("GREETING", "hi").output().unwrap();
    let pod = hull_run(&store, &["go", "a", "b"]);
    assert_eq!(pod, (host.status.code().unwrap(), text(&host.stdout), String::new()));
    assert_eq!(pod.1, "4950 [a b] hi open /etc/none: no such file or directory\n");
}

#[test]
fn a_static_busybox_with_a_second_layer() {
    let scratch = Scratch::new().unwrap();
    umoci(
        &scratch.0,
        "umoci init --layout layout; umoci new --image layout:box; umoci unpack --image layout:box bundle",
    );
    let root = scratch.0.join("bundle/rootfs");
    fs::create_dir_all(root.join("bin")).unwrap();
    fs::create_dir_all(root.join("data/old")).unwrap();
    fs::create_dir(root.join("proc")).unwrap();
    fs::copy("/bin/busybox", root.join("bin/busybox")).expect("this test needs busybox (busybox-static)");
    fs::set_permissions(root.join("bin/busybox"), fs::Permissions::from_mode(0o755)).unwrap();
    symlink("busybox", root.join("bin/sh")).unwrap();
    for name in ["data/old/one", "data/removed", "data/changed"] {
        fs::write(root.join(name), "first\n").unwrap();
    }
    umoci(&scratch.0, "umoci repack --image layout:box --refresh-bundle bundle");
    fs::remove_dir_all(root.join("data/old")).unwrap();
    fs::remove_file(root.join("data/removed")).unwrap();
    fs::write(root.join("data/changed"), "second\n").unwrap();
    fs::write(root.join("data/new"), "new\n").unwrap();
    umoci(
        &scratch.0,
        "umoci repack --image layout:box bundle; umoci config --image layout:box --config.cmd sh --config.cmd=-c --config.cmd 'busybox id -u'",
    );
    let store = scratch.0.join("store");
    load(&store, &scratch.0.join("layout"));
    assert_eq!(hull_run(&store, &["box"]), (0, "0\n".into(), String::new()));
    let script = "set -e; busybox --install -s /bin; cd /data; find . | sort | xargs stat -c '%n %F %h %a %u'; cat changed new; ls -l /bin | wc -l; \
        busybox --list | md5sum; awk 'BEGIN { print 2 * 512 }'; tar -c -f - -C / data | tar -t | sort; seq 5 | tac | sed -n '2,3p' | gzip | zcat";
    let pod = hull_run(&store, &["box", "sh", "-c", script]);
    assert_eq!((pod.0, pod.2.as_str()), (0, ""), "{}", pod.1);
    // The host runs the same in the directory that umoci packed.
    let chroot = r#"mount -t proc proc "$1/proc" && PATH=/bin exec /usr/sbin/chroot "$1" /bin/sh -c "$2""#;
    let mut command = Command::new("unshare");
    let host = command.args(["--mount", "sh", "-c", chroot, "sh"]).arg(&root).arg(script).output().unwrap();
    assert_eq!((host.status.code(), text(&host.stdout), text(&host.stderr)), (Some(0), pod.1.clone(), String::new()));
    assert!(!pod.1.contains("removed") && !pod.1.contains("old") && pod.1.contains("second\nnew\n"), "{}", pod.1);
}

/// A system of musl's C library and busybox, as of Alpine Linux: a program with musl's loader, and the same linked statically.
#[test]
fn programs_of_musl() {
    let scratch = Scratch::new().unwrap();
    umoci(
        &scratch.0,
        "umoci init --layout layout; umoci new --image layout:musl; umoci unpack --image layout:musl bundle",
    );
    let root = scratch.0.join("bundle/rootfs");
    for name in ["bin", "lib", "etc", "tmp", "proc"] {
        fs::create_dir(root.join(name)).unwrap();
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("images/musl.c");
    for (name, option) in [("dynamic", "-O2"), ("static", "-static")] {
        let mut compiler = Command::new("musl-gcc");
        let built = compiler.args([option, "-o"]).arg(root.join("bin").join(name)).arg(&source).output();
        let built = built.expect("this test needs musl-gcc (musl-tools)");
        assert!(built.status.success(), "{}", text(&built.stderr));
    }
    fs::copy("/lib/ld-musl-x86_64.so.1", root.join("lib/ld-musl-x86_64.so.1")).unwrap();
    fs::copy("/bin/busybox", root.join("bin/busybox")).expect("this test needs busybox (busybox-static)");
    symlink("busybox", root.join("bin/sh")).unwrap();
    fs::write(root.join("etc/passwd"), "root:x:0:0:root:/root:/bin/sh\nsomeone:x:7:7::/home:/bin/sh\n").unwrap();
    fs::write(root.join("etc/hosts"), "127.0.0.1 localhost\n").unwrap();
    umoci(
        &scratch.0,
        "chmod 1777 bundle/rootfs/tmp; umoci repack --image layout:musl bundle
        umoci config --image layout:musl --config.env GREETING=hi --config.cmd /bin/dynamic",
    );
    let store = scratch.0.join("store");
    load(&store, &scratch.0.join("layout"));
    for (program, last) in [("/bin/dynamic", "dynamic\n"), ("/bin/static", "static\n")] {
        let pod = hull_run(&store, &["-u", "7", "musl", program, "a"]);
        // Each in namespaces of its own, so that no file of one is left for the next.
        let chroot = r#"mount -t tmpfs -o mode=1777 tmpfs "$1/tmp" && GREETING=hi exec /usr/sbin/chroot --userspec=7:7 "$1" "$2" a"#;
        let mut command = Command::new("unshare");
        let host = command.args(["--mount", "sh", "-c", chroot, "sh"]).arg(&root).arg(program).output().unwrap();
        assert_eq!((host.status.code(), text(&host.stdout)), (Some(7), pod.1.clone()), "{}", text(&host.stderr));
        assert_eq!((pod.0, pod.2.as_str()), (7, ""));
        assert!(pod.1.starts_with(&format!("{program} 2 hi\n28000 8000 0\n")) && pod.1.ends_with(last), "{}", pod.1);
    }
    assert_eq!(hull_run(&store, &["musl"]).0, 7);
}
