//! A real Debian system, made of packages: as a directory, and as archives that other tools write.

use crate::process::{self, Outcome, text};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// What makes it: `make.sh DIRECTORY`.
const MAKE: &str = include_str!("../images/make.sh");
/// Runs a command of the system `$1` in namespaces of its own: `chroot.sh ROOT SHARED COMMAND…`.
const CHROOT: &str = include_str!("../images/chroot.sh");

/// The system.
#[derive(Debug)]
pub struct Debian {
    place: PathBuf,
}

impl Debian {
    /// Makes it in `target` (some minutes at most), unless a run before has.
    ///
    /// # Panics
    /// If the caller is not root, a tool is missing or the mirror of the machine can't be reached.
    pub fn new(target: &Path) -> Self {
        let is_root = fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
        assert!(is_root, "making a Debian system and running its programs in a chroot needs the root user");
        let mut hasher = DefaultHasher::new();
        MAKE.hash(&mut hasher);
        let place = target.join(format!("debian-{:016x}", hasher.finish()));
        if !place.exists() {
            let new = target.join(format!("debian-{}.new", std::process::id()));
            fs::create_dir(&new).unwrap();
            // Its programs that are set-user-id are for root alone.
            fs::set_permissions(&new, fs::Permissions::from_mode(0o700)).unwrap();
            let made =
                Command::new("sh").args(["-c", MAKE, "make.sh"]).arg(&new).stdin(Stdio::null()).output().unwrap();
            if !made.status.success() {
                let _ = fs::remove_dir_all(&new);
                panic!("the Debian system can't be made: {}", text(&made.stderr));
            }
            fs::rename(&new, &place).unwrap();
        }
        Self { place }
    }

    /// An archive of it: `docker.tar` of podman, with the name `localhost/debian:podman`, or `oci.tar` of umoci and skopeo,
    /// with the name `debian:umoci`.
    pub fn archive(&self, name: &str) -> PathBuf {
        self.place.join(name)
    }

    /// Runs a script in its directory, with nothing but loopback as its network. What it changes is forgotten; it sees
    /// `shared` at `/shared`.
    ///
    /// # Panics
    /// If it does not run.
    pub fn chroot(&self, shared: &Path, user: &str, script: &str) -> Outcome {
        let mut command = Command::new("unshare");
        command.args([
            "--mount",
            "--net",
            "--ipc",
            "--uts",
            "--pid",
            "--fork",
            "--kill-child",
            "sh",
            "-c",
            CHROOT,
            "chroot.sh",
        ]);
        command.arg(self.place.join("root")).arg(shared).args([user, script]);
        process::run(&mut command, Stdio::null(), Duration::from_secs(120)).unwrap()
    }
}
