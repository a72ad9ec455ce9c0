//! A store in a temporary folder, and archives made by hand.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

/// A store and a folder for other files.
pub struct Scene {
    folder: tempfile::TempDir,
}

impl Scene {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn store(&self) -> PathBuf {
        self.path("store")
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut hull = Command::new(env!("CARGO_BIN_EXE_hull"));
        hull.args(arguments).env("HULL_STORE", self.store()).current_dir(self.folder.path()).stdin(Stdio::null());
        hull
    }

    /// Runs `hull`; its output if it succeeds.
    #[track_caller]
    pub fn hull(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs `hull`, which must fail with one line and code 1; the line.
    #[track_caller]
    pub fn fails(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().unwrap();
        failed(&output)
    }

    /// Runs another program in the folder; its output.
    #[track_caller]
    pub fn run(&self, program: &str, arguments: &[&str]) -> String {
        let output = Command::new(program).args(arguments).current_dir(self.folder.path()).output();
        let output = output.unwrap_or_else(|error| panic!("{program} is needed: {error}"));
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{program} {arguments:?}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    }

    pub fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    }

    /// Names of the files in a folder of the store.
    pub fn files(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.store().join(folder)).map(|entries| entries.flatten().collect::<Vec<_>>());
        let mut names: Vec<String> =
            entries.unwrap_or_default().iter().map(|entry| entry.file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Fails if the store has any file of an image.
    #[track_caller]
    pub fn assert_empty(&self, what: &str) {
        for folder in ["blobs/sha256", "erofs", "tmp"] {
            assert_eq!(self.files(folder), [""; 0], "{what}: {folder}");
        }
        assert_eq!(self.hull(&["images", "-q"]), "", "{what}");
    }

    /// A value of `hull inspect`.
    #[track_caller]
    pub fn inspect(&self, name: &str) -> Value {
        serde_json::from_str::<Value>(&self.hull(&["inspect", name])).unwrap()[0].take()
    }

    /// The EROFS file of an image.
    #[track_caller]
    pub fn erofs(&self, name: &str) -> PathBuf {
        PathBuf::from(self.inspect(name)["GraphDriver"]["Data"]["File"].as_str().unwrap())
    }

    /// An OCI layout `layout` with the image `made`: two layers, made by umoci and GNU tar.
    pub fn umoci(&self) {
        let script = "set -e
            mkdir -p one/etc one/bin two/etc
            echo root:x:0:0:root:/root:/bin/sh >one/etc/passwd; echo gone >one/etc/gone
            head -c 300000 /dev/urandom >one/bin/program; chmod 755 one/bin/program; ln one/bin/program one/bin/link
            echo hello >two/etc/motd; : >two/etc/.wh.gone
            tar -C one -cf one.tar .; tar -C two -cf two.tar .
            umoci init --layout layout; umoci new --image layout:made
            umoci raw add-layer --image layout:made one.tar; umoci raw add-layer --image layout:made two.tar
            umoci config --image layout:made --config.cmd /bin/program --config.env A=b";
        self.run("sh", &["-c", script]);
    }
}

/// The line of a command that failed.
#[track_caller]
pub fn failed(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.starts_with("hull: ") && text.contains("; ") && text.lines().count() == 1, "{text}");
    text
}

/// A tar archive.
pub fn tar(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    for (name, bytes) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        // `set_path` refuses the names that hostile archives have.
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_cksum();
        archive.append(&header, *bytes).unwrap();
    }
    archive.into_inner().unwrap()
}

pub fn sha256(bytes: &[u8]) -> String {
    image::Digest::of(bytes).to_string()
}

/// A configuration of layers.
pub fn config(diff_ids: &[String]) -> Vec<u8> {
    json!({ "architecture": "amd64", "os": "linux", "config": {}, "rootfs": { "type": "layers", "diff_ids": diff_ids } })
        .to_string()
        .into_bytes()
}

/// An archive of `docker save`.
pub fn docker(name: &str, layers: &[Vec<u8>]) -> Vec<u8> {
    let config = config(&layers.iter().map(|layer| sha256(layer)).collect::<Vec<_>>());
    let names: Vec<String> = (0..layers.len()).map(|at| format!("{at}/layer.tar")).collect();
    let list = json!([{ "Config": "config.json", "RepoTags": [name], "Layers": names }]).to_string();
    let mut files: Vec<(&str, &[u8])> =
        names.iter().zip(layers).map(|(name, bytes)| (name.as_str(), &bytes[..])).collect();
    files.extend([("config.json", &config[..]), ("manifest.json", list.as_bytes())]);
    tar(&files)
}

/// A descriptor of some bytes.
pub fn descriptor(media_type: &str, bytes: &[u8]) -> Value {
    json!({ "mediaType": format!("application/vnd.oci.image.{media_type}"), "digest": sha256(bytes), "size": bytes.len() })
}

/// An OCI archive of blobs, with an index of descriptors.
pub fn oci(manifests: &[Value], blobs: &[&[u8]]) -> Vec<u8> {
    let index = json!({ "schemaVersion": 2, "manifests": manifests }).to_string();
    let names: Vec<String> = blobs.iter().map(|bytes| sha256(bytes).replace("sha256:", "blobs/sha256/")).collect();
    let mut files = vec![("oci-layout", &br#"{"imageLayoutVersion":"1.0.0"}"#[..]), ("index.json", index.as_bytes())];
    files.extend(names.iter().zip(blobs).map(|(name, bytes)| (name.as_str(), *bytes)));
    tar(&files)
}

/// A manifest.
pub fn manifest(config: &[u8], layers: &[Value]) -> Vec<u8> {
    json!({ "schemaVersion": 2, "config": descriptor("config.v1+json", config), "layers": layers })
        .to_string()
        .into_bytes()
}

/// Packs bytes with gzip.
pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(bytes).unwrap();
    packed.finish().unwrap()
}

/// Checks an EROFS file with Linux's own tool.
#[track_caller]
pub fn fsck(path: &Path) {
    let output = Command::new("fsck.erofs").arg("--extract").arg(path).output().expect("fsck.erofs is needed");
    assert!(output.status.success(), "{}: {}", path.display(), String::from_utf8_lossy(&output.stderr));
}
