//! A daemon of docker: the one that runs, or one that is started and ended here.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};

use super::peers::timed;
use super::{output, path};
use crate::run::is_installed;

/// The image of the benchmark, in storages of other tools.
pub const IMAGE: &str = "hull-bench-small";
/// The image of the archive that is loaded, as docker knows it.
const LOADED: &str = "hull-bench-data";
/// Within this time a daemon must answer, or end.
const PATIENCE: Duration = Duration::from_secs(30);

/// A daemon.
#[derive(Debug)]
pub struct Docker {
    /// Options of `docker` that reach it.
    options: Vec<String>,
    /// Where the client keeps its settings.
    settings: PathBuf,
    /// The daemon, if it was started here.
    daemon: Option<Child>,
}

impl Docker {
    /// The daemon that `docker` reaches, or a new one with all its files in `place`.
    pub fn find_or_start(place: &Path) -> Result<Self> {
        fs::create_dir_all(place)?;
        let settings = place.join("settings");
        let running = Self { options: Vec::new(), settings: settings.clone(), daemon: None };
        if running.answers() {
            return Ok(running);
        }
        ensure!(is_installed("dockerd"), "dockerd is not installed");
        ensure!(rustix::process::geteuid().is_root(), "needs root: no dockerd runs");
        let socket = format!("unix://{}", path(&place.join("socket"))?);
        let log = fs::File::create(place.join("log"))?;
        // In a mount namespace of its own: its mounts end with it. It ends with this process.
        let mut command = Command::new("unshare");
        command.args([
            "-m",
            "--",
            "setpriv",
            "--pdeathsig",
            "TERM",
            "--",
            "dockerd",
            "--bridge=none",
            "--iptables=false",
            "--host",
            &socket,
        ]);
        command.arg("--data-root").arg(place.join("data")).arg("--exec-root").arg(place.join("exec"));
        command.arg("--pidfile").arg(place.join("pid")).args(["--cgroup-parent", IMAGE]);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let mut docker = Self { options: vec!["--host".into(), socket], settings, daemon: Some(command.spawn()?) };
        let start = Instant::now();
        while !docker.answers() {
            if let Some(status) = docker.daemon.as_mut().and_then(|daemon| daemon.try_wait().ok().flatten()) {
                let log = fs::read_to_string(place.join("log")).unwrap_or_default();
                bail!("dockerd ended with {status}: {}", log.lines().last().unwrap_or("no message"));
            }
            ensure!(start.elapsed() < PATIENCE, "dockerd does not answer");
            sleep(Duration::from_millis(100));
        }
        Ok(docker)
    }

    /// `docker` with its options.
    pub fn words(&self) -> Vec<String> {
        let settings = ["docker".to_owned(), "--config".to_owned(), self.settings.display().to_string()];
        settings.into_iter().chain(self.options.iter().cloned()).collect()
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut all = self.words().into_iter();
        let mut command = Command::new(all.next().unwrap_or_default());
        command.args(all).args(words).stdin(Stdio::null());
        command
    }

    fn answers(&self) -> bool {
        let mut command = self.command(&["version"]);
        command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    }

    /// Makes [`IMAGE`] of a tar archive.
    pub fn import(&self, archive: &Path) -> Result<()> {
        if self.command(&["image", "inspect", IMAGE]).output()?.status.success() {
            return Ok(());
        }
        output(&mut self.command(&["import", path(archive)?, IMAGE])).map(|_| ())
    }

    /// Time of `docker load` of an archive in ns; the image is removed afterwards.
    pub fn load(&self, archive: &Path) -> Result<f64> {
        let loaded = timed(&mut self.command(&["load", "-q", "-i", path(archive)?]));
        output(&mut self.command(&["rmi", "-f", LOADED]))?;
        loaded
    }
}

impl Drop for Docker {
    fn drop(&mut self) {
        // Ignore errors: the image may not be there.
        let _ = self.command(&["rmi", "-f", IMAGE]).stdout(Stdio::null()).stderr(Stdio::null()).status();
        let Some(daemon) = &mut self.daemon else { return };
        // Ignore errors: it may have ended. It ends its containers and its containerd first.
        let _ = rustix::process::kill_process(rustix::process::Pid::from_child(daemon), rustix::process::Signal::TERM);
        let start = Instant::now();
        while matches!(daemon.try_wait(), Ok(None)) {
            if start.elapsed() > PATIENCE {
                let _ = daemon.kill();
                let _ = daemon.wait();
                break;
            }
            sleep(Duration::from_millis(50));
        }
        // Its directory in each hierarchy of control groups, empty now.
        for hierarchy in fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten() {
            let _ = fs::remove_dir(hierarchy.path().join(IMAGE));
        }
    }
}
