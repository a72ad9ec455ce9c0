//! Starts and loads of other tools.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use super::docker::IMAGE;
use super::{Image, Images, STARTS, output, path};
use crate::catalog::images::Peer;
use crate::place::oci_config;
use crate::run::is_installed;
use crate::statistics::summarise;
use crate::workload::starts;

/// Starts of podman and docker in one sample: they take half a second each.
const FEW: u32 = 3;
/// Runs a command without the hybrid hierarchy of control groups, which crun refuses even if it is to use none.
const WITHOUT_HYBRID: &str = r#"umount /sys/fs/cgroup/unified 2>/dev/null; exec "$@""#;

/// Median time from start to exit in ns.
pub fn median(count: u32, make: impl FnMut() -> Command) -> Result<f64> {
    let samples = starts::times(count, make)?;
    Ok(summarise(&samples).context("at least one start")?.median)
}

/// A command in a mount namespace of its own.
fn apart() -> Command {
    let mut command = Command::new("unshare");
    command.args(["-m", "--", "sh", "-c", WITHOUT_HYBRID, "sh"]).stdin(Stdio::null()).current_dir("/");
    command
}

/// Whether the host has control groups of both versions, as crun refuses them.
pub fn has_hybrid_cgroups() -> bool {
    Path::new("/sys/fs/cgroup/unified").exists()
}

/// Median time from start to exit of a container of crun without control groups, in ns.
pub fn start_crun(hull: &Path, bundle: &Path, state: &Path, count: u32) -> Result<f64> {
    start_words(hull, &crun(bundle, state)?, count)
}

/// `crun run` without control groups.
fn crun(bundle: &Path, state: &Path) -> Result<Vec<String>> {
    let state = format!("--root={}", state.join("crun-state").display());
    let id = format!("hull-bench-{}", std::process::id());
    Ok(["crun", "--cgroup-manager=disabled", &state, "run", "--bundle", path(bundle)?, &id].map(String::from).into())
}

/// Median time from start to exit of a command in ns, measured inside of the mount namespace.
fn start_words(hull: &Path, words: &[String], count: u32) -> Result<f64> {
    let line = format!("{count}\n{}", words.join("\n"));
    let printed = output(apart().arg(hull).args(["bench-workload", "starts", &line]))?;
    printed.trim().parse().context("printed no number")
}

impl Images {
    /// Makes what a tool needs, and tries it.
    pub fn prepare_peer(&self, peer: Peer) -> Result<()> {
        let name = match peer {
            Peer::Crun => "crun",
            Peer::Podman => "podman",
            Peer::Docker => "docker",
        };
        ensure!(is_installed(name), "{name} is not installed");
        let root = self.prepare(Image::Small)?;
        let archive = self.directory.join("small.tar");
        if !archive.exists() {
            output(Command::new("tar").args(["-C", path(&root)?, "-cf", path(&archive)?, "."]))?;
        }
        match peer {
            Peer::Crun => {
                let bundle = self.directory.join("crun");
                if !bundle.exists() {
                    fs::create_dir(&bundle)?;
                    output(Command::new("cp").args(["-a", path(&root)?, path(&bundle.join("rootfs"))?]))?;
                    fs::write(bundle.join("config.json"), serde_json::to_vec(&oci_config(&["/bin/true"]))?)?;
                }
            }
            Peer::Podman if !self.podman_place("podman").exists() => {
                let archive = [path(&archive)?.to_owned(), IMAGE.to_owned()];
                output(apart().args(self.podman("podman")).arg("import").args(archive))?;
            }
            Peer::Podman => {}
            Peer::Docker => self.with_docker(|docker| docker.import(&archive))?,
        }
        output(apart().args(self.run_words(peer)?)).map(|_| ())
    }

    fn podman_place(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// `podman` with a storage of its own.
    fn podman(&self, name: &str) -> Vec<String> {
        let place = self.podman_place(name);
        let part = |part: &str| place.join(part).display().to_string();
        ["podman", "--root", &part("root"), "--runroot", &part("run"), "--tmpdir", &part("tmp")]
            .map(String::from)
            .into()
    }

    /// The command that starts a container which does nothing.
    fn run_words(&self, peer: Peer) -> Result<Vec<String>> {
        let mut words = match peer {
            Peer::Crun => return crun(&self.directory.join("crun"), &self.directory),
            Peer::Podman => self.podman("podman"),
            Peer::Docker => self.with_docker(|docker| Ok(docker.words()))?,
        };
        words.extend(["run", "--rm", "--network", "none"].map(String::from));
        if peer == Peer::Podman {
            // Its default limits are above what some machines let root have.
            let more = ["--cgroups=disabled", "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"];
            words.extend(more.map(String::from));
        }
        words.extend([IMAGE, "true"].map(String::from));
        Ok(words)
    }

    /// Median time from start to exit of a container in ns.
    pub fn start_peer(&self, peer: Peer) -> Result<f64> {
        start_words(&self.hull, &self.run_words(peer)?, if peer == Peer::Crun { STARTS } else { FEW })
    }

    /// Time of loading the archive into an empty storage, in ns.
    pub fn load_peer(&self, peer: Peer) -> Result<f64> {
        let archive = self.archive()?;
        match peer {
            Peer::Docker => self.with_docker(|docker| docker.load(&archive)),
            _ => {
                let place = self.podman_place("podman-load");
                let loaded =
                    timed(apart().args(self.podman("podman-load")).args(["load", "-q", "-i", path(&archive)?]));
                fs::remove_dir_all(place)?;
                loaded
            }
        }
    }
}

/// Time of a command that must succeed, in ns.
pub fn timed(command: &mut Command) -> Result<f64> {
    let start = Instant::now();
    output(command)?;
    Ok(start.elapsed().as_nanos() as f64)
}
