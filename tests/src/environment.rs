//! The same environment for a program on the host and in a pod.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result};

/// The environment of every test program.
const VARIABLES: [(&str, &str); 6] =
    [("PATH", "/usr/bin:/bin"), ("HOME", "/tmp"), ("USER", "test"), ("LC_ALL", "C"), ("TZ", "UTC"), ("TERM", "dumb")];

/// Sets the environment of the tests and clears the rest.
pub fn set_variables(command: &mut Command) {
    command.env_clear().envs(VARIABLES);
}

/// A temporary directory of the host, removed with its owner.
#[derive(Debug)]
pub struct Scratch(pub PathBuf);

impl Scratch {
    /// Makes a new empty directory on `/dev/shm` (a tmpfs, like the pod's `/tmp`).
    pub fn new() -> Result<Self> {
        Self::new_in(Path::new("/dev/shm"))
    }

    /// Makes a new empty directory in `parent`.
    pub fn new_in(parent: &Path) -> Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("hull-tests-{}-{number}", std::process::id()));
        std::fs::create_dir(&path).with_context(|| format!("cannot create {}", path.display()))?;
        std::fs::set_permissions(&path, Permissions::from_mode(0o1777))?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Ignore errors: a program may have left a directory without permissions, with a few kilobytes.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
