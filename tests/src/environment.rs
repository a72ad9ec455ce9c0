//! The same surroundings for a program on the host and in a pod.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result};

/// The environment of every test program.
const VARIABLES: [(&str, &str); 6] =
    [("PATH", "/usr/bin:/bin"), ("HOME", "/tmp"), ("USER", "test"), ("LC_ALL", "C"), ("TZ", "UTC"), ("TERM", "dumb")];

/// Gives `command` the environment of the tests and nothing else.
pub fn set_variables(command: &mut Command) {
    command.env_clear().envs(VARIABLES);
}

/// A directory on the host's `/dev/shm` (a tmpfs, like the pod's `/tmp`), removed with its owner.
#[derive(Debug)]
pub struct Scratch(pub PathBuf);

impl Scratch {
    /// Makes a new empty directory.
    pub fn new() -> Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = PathBuf::from(format!("/dev/shm/hull-tests-{}-{number}", std::process::id()));
        std::fs::create_dir(&path).with_context(|| format!("cannot create {}", path.display()))?;
        std::fs::set_permissions(&path, Permissions::from_mode(0o1777))?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A program may have left a directory without permissions; what remains is in memory only.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
