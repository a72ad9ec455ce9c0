//! The rows of images. All that they make lies in the directory of the benchmark: roots, archives, a store, the data of
//! other tools. What must be mounted is mounted in a mount namespace of the command that needs it, so nothing stays
//! mounted however that ends.

mod docker;
mod peers;
pub mod roots;
mod shared;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use crate::catalog::images::{Peer, Work};
use crate::place::Place;
use crate::run::{LIMIT, Side, parse};
use crate::warm;
use docker::Docker;
pub use peers::{has_hybrid_cgroups, start_crun};

/// Starts of a pod in one sample.
const STARTS: u32 = 10;
/// Mounts the image `$1` at `$2`, where a command then runs. Older kernels need a loop device, which mount(8) sets up.
const IN_IMAGE: &str = r#"at=$2; mount -t erofs -o ro "$1" "$at" && shift 2 && mount -t proc proc "$at/proc" &&
    mount --rbind /dev "$at/dev" && mount -t tmpfs tmpfs "$at/tmp" && exec chroot "$at" "$@""#;
/// Runs a command in the directory `$1`.
const IN_DIRECTORY: &str =
    r#"at=$1; shift; mount -t proc proc "$at/proc" && mount --rbind /dev "$at/dev" && exec chroot "$at" "$@""#;

/// What is kept between the rows of images.
#[derive(Debug)]
pub struct Images {
    directory: PathBuf,
    hull: PathBuf,
    docker: Mutex<Option<Docker>>,
}

/// The images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Image {
    /// `/bin/true` alone.
    Small,
    /// 50,000 files and large ones.
    Files,
    /// python, node, java and git, as far as they are installed.
    Programs,
}

impl Image {
    fn name(self) -> &'static str {
        match self {
            Self::Small => "small",
            Self::Files => "files",
            Self::Programs => "programs",
        }
    }
}

/// Why a row can't be measured here. Prepares what it needs.
pub fn unusable(work: Work, place: &Place) -> Option<String> {
    let needs_root = !matches!(work, Work::StartLarge | Work::Shared { .. } | Work::Load(Peer::Docker));
    if needs_root && !rustix::process::geteuid().is_root() {
        return Some("needs root: the other side mounts file systems".into());
    }
    match work {
        Work::Program { program, .. } if !Path::new(program).exists() => Some(format!("there is no {program}")),
        Work::Start(peer) | Work::Load(peer) => {
            place.images().prepare_peer(peer).err().map(|error| format!("{error:#}"))
        }
        _ => None,
    }
}

/// A sample of the rows of `work`, in the order of [`Work::rows`]; not a number if a row does not exist on this side.
pub fn sample(work: Work, side: Side, place: &Place) -> Result<Vec<f64>> {
    let images = place.images();
    match (work, side) {
        (Work::Start(peer), Side::Host) => images.start_peer(peer).map(|ns| vec![ns]),
        (Work::StartLarge, Side::Pod) => images.start(Image::Files).map(|ns| vec![ns]),
        (Work::Start(_), Side::Pod) | (Work::StartLarge, Side::Host) => images.start(Image::Small).map(|ns| vec![ns]),
        (Work::Program { line, .. }, _) => {
            warm::memory();
            images.run(Image::Programs, &["command", line], side)
        }
        (Work::Tree(words) | Work::Data(words), _) => images.run(Image::Files, words, side),
        (Work::Shared { .. }, Side::Host) => Ok(vec![f64::NAN]),
        (Work::Shared { small }, Side::Pod) => shared::measure(images, small).map(|bytes| vec![bytes]),
        (Work::Load(peer), Side::Host) => images.load_peer(peer).map(|ns| vec![ns]),
        (Work::Load(_), Side::Pod) => images.load().map(|ns| vec![ns]),
    }
}

impl Images {
    /// Nothing is made before it is needed.
    pub fn new(place: &Path, hull: &Path) -> Self {
        Self { directory: place.join("images"), hull: hull.to_owned(), docker: Mutex::new(None) }
    }

    fn store(&self) -> PathBuf {
        self.directory.join("store")
    }

    /// `hull VERB`, which must succeed.
    fn hull(&self, store: &Path, words: &[&str]) -> Result<String> {
        let mut command = Command::new(&self.hull);
        output(command.args(words).env("HULL_STORE", store))
    }

    /// The directory that an image is made of, and the image in the store.
    fn prepare(&self, image: Image) -> Result<PathBuf> {
        let root = self.directory.join(image.name());
        if !root.exists() {
            let new = self.directory.join("new");
            let made = self.fill(image, &new).and_then(|()| {
                self.hull(&self.store(), &["import", path(&new)?, image.name()])?;
                fs::rename(&new, &root)?;
                Ok(())
            });
            if made.is_err() {
                // Ignore errors: it is removed with the directory of the benchmark.
                let _ = fs::remove_dir_all(&new);
            }
            made.with_context(|| format!("cannot make the image {}", image.name()))?;
        }
        Ok(root)
    }

    fn fill(&self, image: Image, root: &Path) -> Result<()> {
        fs::create_dir_all(root)?;
        match image {
            Image::Small => roots::small(root),
            Image::Files => roots::files(root, &self.hull),
            Image::Programs => {
                let place = self.directory.parent().context("it lies in the directory of the benchmark")?;
                roots::programs(root, &self.hull, &place.join("repository"))
            }
        }
    }

    /// The EROFS file of an image.
    fn file(&self, image: Image) -> Result<PathBuf> {
        let file = self.hull(&self.store(), &["inspect", "--format", "{{.GraphDriver.Data.File}}", image.name()])?;
        Ok(PathBuf::from(file.trim()))
    }

    /// `hull run IMAGE`.
    fn pod(&self, image: Image) -> Command {
        let mut command = Command::new(&self.hull);
        command.args(["run", "--pull", "never", "--timeout", LIMIT]).env("HULL_STORE", self.store());
        command.arg(image.name()).current_dir("/").stdin(Stdio::null());
        command
    }

    /// Median time from start to exit of a pod, in ns.
    fn start(&self, image: Image) -> Result<f64> {
        self.prepare(image)?;
        let program = if image == Image::Small { "true" } else { "/bench/static" };
        peers::median(STARTS, || {
            let mut command = self.pod(image);
            command.arg(program);
            command
        })
    }

    /// Runs a workload in an image: its numbers.
    fn run(&self, image: Image, words: &[&str], side: Side) -> Result<Vec<f64>> {
        let root = self.prepare(image)?;
        let mut command = match side {
            Side::Pod => self.pod(image),
            Side::Host => {
                let mut command = Command::new("unshare");
                command.args(["-m", "--", "sh", "-c"]);
                if image == Image::Files {
                    let at = self.directory.join("mounted");
                    fs::create_dir_all(&at)?;
                    command.arg(IN_IMAGE).arg("sh").arg(self.file(image)?).arg(at);
                } else {
                    command.arg(IN_DIRECTORY).arg("sh").arg(root);
                }
                // The environment that a pod of an image has.
                command.env_clear().env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
                command.env("HOME", "/root").env("HOSTNAME", "bench");
                command
            }
        };
        parse(&output(command.args(["/bench/hull", "bench-workload"]).args(words).current_dir("/"))?)
    }

    /// An archive of docker's format.
    fn archive(&self) -> Result<PathBuf> {
        let archive = self.directory.join("archive.tar");
        if !archive.exists() {
            let (root, store, new) =
                (self.directory.join("data"), self.directory.join("once"), archive.with_extension("new"));
            roots::data(&root)?;
            self.hull(&store, &["import", path(&root)?, "hull-bench-data"])?;
            self.hull(&store, &["save", "--format", "docker-archive", "-o", path(&new)?, "hull-bench-data"])?;
            fs::remove_dir_all(root)?;
            fs::remove_dir_all(store)?;
            fs::rename(new, &archive)?;
        }
        Ok(archive)
    }

    /// Time of `hull load` into a new store, in ns.
    fn load(&self) -> Result<f64> {
        let (archive, store) = (self.archive()?, self.directory.join("loaded"));
        let start = Instant::now();
        let loaded = self.hull(&store, &["load", "-i", path(&archive)?]);
        let elapsed = start.elapsed();
        fs::remove_dir_all(store)?;
        loaded.map(|_| elapsed.as_nanos() as f64)
    }

    /// The daemon of docker that answers; starts one if there is none.
    fn with_docker<T>(&self, run: impl FnOnce(&Docker) -> Result<T>) -> Result<T> {
        let mut docker = self.docker.lock().unwrap_or_else(PoisonError::into_inner);
        if docker.is_none() {
            *docker = Some(Docker::find_or_start(&self.directory.join("docker"))?);
        }
        run(docker.as_ref().context("it was started")?)
    }
}

/// Standard output of a command that must succeed; the error has the first line of its messages.
fn output(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("cannot start {name}"))?;
    let message = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{name}: {}: {}", output.status, message.lines().next().unwrap_or("no message"));
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A path as text.
fn path(path: &Path) -> Result<&str> {
    path.to_str().context("a path is no text")
}
