//! A small root file system with busybox, as a directory, an image, or an image of a store.

use crate::environment::Scratch;
use crate::hull;
use crate::process::text;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A root file system with busybox, and its image.
#[derive(Debug)]
pub struct Root {
    /// Where it is, with its image and store.
    pub scratch: Scratch,
}

impl Root {
    /// Makes it.
    ///
    /// # Panics
    /// If busybox is not installed.
    #[expect(clippy::new_without_default, reason = "it makes files")]
    pub fn new() -> Self {
        let root = Self { scratch: Scratch::new().unwrap() };
        fs::create_dir_all(root.dir().join("bin")).unwrap();
        fs::copy("/bin/busybox", root.dir().join("bin/busybox")).expect("this test needs busybox (busybox-static)");
        for name in ["sh", "cat", "ls", "id", "stat", "find", "sort", "xargs", "md5sum", "true", "dd", "ln", "mv"] {
            symlink("busybox", root.dir().join("bin").join(name)).unwrap();
        }
        root.file("etc/passwd", "root:x:0:0:root:/root:/bin/sh\nredis:x:101:102::/var/lib/redis:/bin/false\n");
        root.file("etc/group", "root:x:0:\nredis:x:102:\ntty:x:5:redis\n");
        root
    }

    /// Its directory.
    pub fn dir(&self) -> PathBuf {
        self.scratch.0.join("root")
    }

    /// Writes a file of it.
    ///
    /// # Panics
    /// If that fails.
    pub fn file(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.dir().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// Makes an EROFS image of it.
    ///
    /// # Panics
    /// If `mkfs.erofs` is not installed or fails.
    pub fn image(&self, options: &[&str]) -> String {
        let image = self.scratch.0.join("image.erofs");
        let _ = fs::remove_file(&image);
        let made = Command::new("mkfs.erofs").arg("--quiet").args(options).arg(&image).arg(self.dir()).output();
        let made = made.expect("this test needs mkfs.erofs (erofs-utils)");
        assert!(made.status.success(), "{options:?}: {}", text(&made.stderr));
        image.to_str().unwrap().to_owned()
    }
}

/// A store with the image `test`, whose configuration is `config`.
///
/// # Panics
/// If that fails.
pub fn store(root: &Root, config: &str) -> PathBuf {
    let place = root.scratch.0.join("archive");
    fs::create_dir_all(&place).unwrap();
    let sh = |script: &str| {
        let output = Command::new("sh").args(["-c", script]).arg("sh").arg(root.dir()).current_dir(&place).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout).trim().to_owned()
    };
    let digest = sh("tar -C $1 -cf layer.tar . && sha256sum layer.tar | cut -d' ' -f1");
    let rootfs = format!(r#"{{"type": "layers", "diff_ids": ["sha256:{digest}"]}}"#);
    let whole = format!(r#"{{"architecture": "amd64", "os": "linux", "config": {config}, "rootfs": {rootfs}}}"#);
    fs::write(place.join("config.json"), whole).unwrap();
    let manifest = r#"[{"Config": "config.json", "RepoTags": ["test:latest"], "Layers": ["layer.tar"]}]"#;
    fs::write(place.join("manifest.json"), manifest).unwrap();
    sh("tar -cf image.tar manifest.json config.json layer.tar");
    let store = root.scratch.0.join("store");
    let output = Command::new(hull::binary().unwrap())
        .args(["load", "-i"])
        .arg(place.join("image.tar"))
        .env("HULL_STORE", &store)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    store
}

/// `hull run WORDS` with a store.
///
/// # Panics
/// If it does not run.
pub fn hull_run(store: &Path, words: &[&str]) -> (i32, String, String) {
    hull::require_kvm().unwrap();
    let mut command = Command::new(hull::binary().unwrap());
    command
        .args(["run", "--timeout", &format!("{}s", 2 * hull::pod_seconds())])
        .args(words)
        .env("HULL_STORE", store)
        .env("SECRET", "x")
        .current_dir("/");
    let output = command.stdin(Stdio::null()).output().unwrap();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}
