//! The directory with the programs that are measured, and with bundles for other runtimes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::json;

/// The static workload.
const STATIC: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/static"));

/// A directory of the host that pods see as [`Place::IN_POD`]; removed with this value.
#[derive(Debug)]
pub struct Place {
    /// On the host.
    pub directory: PathBuf,
    /// This binary.
    pub hull: PathBuf,
}

impl Place {
    /// Where pods see it.
    pub const IN_POD: &'static str = "/bench";

    /// Makes the directory.
    pub fn new() -> Result<Self> {
        let directory = std::env::temp_dir().join(format!("hull-bench-{}", std::process::id()));
        fs::create_dir(&directory).with_context(|| format!("cannot create {}", directory.display()))?;
        let place = Self { hull: std::env::current_exe()?, directory };
        let result = place.fill();
        result.with_context(|| format!("cannot prepare {}", place.directory.display()))?;
        Ok(place)
    }

    fn fill(&self) -> Result<()> {
        fs::copy(&self.hull, self.directory.join("hull"))?;
        write_program(&self.directory.join("static"), STATIC)?;
        let bundle = self.bundle();
        fs::create_dir_all(bundle.join("rootfs"))?;
        write_program(&bundle.join("rootfs/static"), STATIC)?;
        fs::write(bundle.join("config.json"), serde_json::to_vec(&oci_config())?)?;
        Ok(())
    }

    /// An OCI bundle of the static program.
    pub fn bundle(&self) -> PathBuf {
        self.directory.join("bundle")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // What remains is a few files in the directory for temporary ones.
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn write_program(path: &Path, bytes: &[u8]) -> Result<()> {
    fs::write(path, bytes)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
    Ok(())
}

/// The least that a container runtime needs to run the static program, with the usual isolation.
fn oci_config() -> serde_json::Value {
    let namespaces = ["pid", "network", "ipc", "uts", "mount"].map(|kind| json!({ "type": kind }));
    json!({
        "ociVersion": "1.0.2",
        "process": { "terminal": false, "user": { "uid": 0, "gid": 0 }, "args": ["/static"], "cwd": "/", "env": [] },
        "root": { "path": "rootfs", "readonly": true },
        "hostname": "bench",
        "mounts": [{ "destination": "/proc", "type": "proc", "source": "proc" }],
        "linux": { "namespaces": namespaces },
    })
}
