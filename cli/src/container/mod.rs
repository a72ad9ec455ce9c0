//! Pods with a root of their own, as container engines run them: an image or `--root`, and the options that go with it.

mod chosen;
mod limit;
mod mount;
mod record;
mod stop;
mod tmpfs;
mod volume;

use crate::failure::{Failure, Result};
use crate::values::normal;
use crate::view::View;
use abi::boot::{Container, Tmpfs};
pub use chosen::Chosen;
use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, ValueEnum};
use image::Platform;
pub use limit::Ulimit;
use mount::Mount;
pub use record::id;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use volume::Volume;

/// Options of containers.
#[derive(Args, Debug, Default)]
pub struct ContainerArgs {
    /// Root of the pod: a directory, a tar archive or an EROFS image, of which the pod sees all and nothing else of the
    /// host. Names of users are those of its /etc/passwd
    #[arg(long, value_name = "PATH", conflicts_with = "no_host")]
    pub root: Option<PathBuf>,

    /// Folder of the images [default: $HULL_STORE, or the user's]
    #[arg(long, value_name = "DIR")]
    pub store: Option<PathBuf>,

    /// Program before the words of the command, in place of the image's; an empty one: none
    #[arg(long, value_name = "PROGRAM")]
    pub entrypoint: Option<OsString>,

    /// Grant a host directory or file, writable, or with `:ro` so that changes fail; `AT` alone: a private directory.
    /// Repeatable
    #[arg(short, long, value_name = "[PATH:]AT[:ro]", value_parser = OsStringValueParser::new().try_map(Volume::parse))]
    pub volume: Vec<Volume>,

    /// The same in docker's long form: type=bind|volume|tmpfs,source=PATH,target=AT[,readonly]. Repeatable
    #[arg(long, value_name = "KEY=VALUE,...", value_parser = OsStringValueParser::new().try_map(Mount::parse))]
    pub mount: Vec<Mount>,

    /// Put a file system in memory at AT; options size=BYTES, mode=OCTAL, uid=N, gid=N, ro, noexec, nosuid, nodev. Repeatable
    #[arg(long, value_name = "AT[:OPTION,...]", value_parser = tmpfs::parse)]
    pub tmpfs: Vec<Tmpfs>,

    /// Further group of the program, by name or number. Repeatable
    #[arg(long, value_name = "GROUP", value_parser = group)]
    pub group_add: Vec<String>,

    /// Let changes of the root's files fail
    #[arg(long)]
    pub read_only: bool,

    /// Fetch the image before it runs: always, if it is not in the store, or never
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = Pull::Missing)]
    pub pull: Pull,

    /// Platform of the image: pods run linux/amd64
    #[arg(long, value_name = "OS/ARCH", value_parser = platform)]
    pub platform: Option<Platform>,

    /// Signal that the program gets in place of SIGTERM [default: the image's, else SIGTERM]
    #[arg(long, value_name = "SIGNAL", value_parser = stop::parse)]
    pub stop_signal: Option<u32>,

    /// Write the pod's id to a new file
    #[arg(long, value_name = "FILE")]
    pub cidfile: Option<PathBuf>,

    /// Ignored: a pod leaves no record that could have labels. Repeatable
    #[arg(short, long, value_name = "KEY[=VALUE]", value_parser = record::label)]
    pub label: Vec<String>,

    /// Ignored like --label, but the file must be readable. Repeatable
    #[arg(long, value_name = "FILE")]
    pub label_file: Vec<PathBuf>,

    /// Ignored like --label. Repeatable
    #[arg(long, value_name = "KEY[=VALUE]", value_parser = record::label)]
    pub annotation: Vec<String>,

    /// Resource limit of the program, by the names of prlimit(1); `-1`: no limit. Repeatable
    #[arg(long, value_name = "NAME=SOFT[:HARD]", value_parser = limit::parse)]
    pub ulimit: Vec<Ulimit>,

    /// Ignored: a pod leaves nothing behind
    #[arg(long)]
    pub rm: bool,

    /// The program of an image is not process 1: a process of the pod's kernel is, and reaps orphans
    #[arg(long)]
    pub init: bool,
}

/// When an image is fetched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Pull {
    /// Always, also if the store has it
    Always,
    /// If the store does not have it
    #[default]
    Missing,
    /// Never
    Never,
}

/// Parses `--platform`.
fn platform(text: &str) -> std::result::Result<Platform, String> {
    let platform: Platform = text.parse().map_err(|error: image::Error| error.to_string())?;
    match platform.to_string().as_str() {
        "linux/amd64" | "linux/amd64/v1" => Ok(platform),
        _ => Err("pods run linux/amd64 only; leave it out".into()),
    }
}

/// Parses `--group-add`.
fn group(text: &str) -> std::result::Result<String, String> {
    match text.is_empty() {
        true => Err("a group has no name; write its name or number".into()),
        false => Ok(text.to_owned()),
    }
}

impl ContainerArgs {
    /// Changes limits as `--ulimit` says.
    pub fn limit(&self, mut limits: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
        for Ulimit { number, limit } in &self.ulimit {
            if let Some(place) = limits.get_mut(*number) {
                *place = *limit;
            }
        }
        limits
    }

    /// What `--volume` and `--mount` name.
    fn volumes(&self) -> impl Iterator<Item = &Volume> {
        let long = self.mount.iter().filter_map(|mount| match mount {
            Mount::Volume(volume) => Some(volume),
            Mount::Tmpfs(_) => None,
        });
        self.volume.iter().chain(long)
    }

    /// What `--tmpfs` and `--mount` name.
    fn file_systems(&self) -> impl Iterator<Item = &Tmpfs> {
        let long = self.mount.iter().filter_map(|mount| match mount {
            Mount::Volume(_) => None,
            Mount::Tmpfs(tmpfs) => Some(tmpfs),
        });
        self.tmpfs.iter().chain(long)
    }

    /// Adds the grants of `--volume` and `--mount`.
    pub fn add_volumes(&self, view: &mut View, cwd: &Path) -> Result<()> {
        let short = self.volume.iter().map(|volume| ("--volume ", volume));
        let long = self.mount.iter().filter_map(|mount| match mount {
            Mount::Volume(volume) => Some(("--mount source=", volume)),
            Mount::Tmpfs(_) => None,
        });
        for (option, volume) in short.chain(long) {
            if let Volume::Grant { grant, read_only } = volume {
                view.add_volume(option, grant, *read_only, cwd)?;
            }
        }
        Ok(())
    }

    /// The program of a container and its arguments, from the image's configuration and the words of the command line.
    pub fn program(&self, chosen: &Chosen, words: Vec<OsString>) -> Result<Vec<OsString>> {
        let list = |list: &Option<Vec<String>>| list.iter().flatten().map(OsString::from).collect::<Vec<_>>();
        let (entrypoint, usual) = match &self.entrypoint {
            // Its arguments were made for another program.
            Some(program) => ((!program.is_empty()).then(|| program.clone()).into_iter().collect(), Vec::new()),
            None => (list(chosen.config.entrypoint()), list(chosen.config.cmd())),
        };
        let words = if words.is_empty() { usual } else { words };
        let program: Vec<_> = entrypoint.into_iter().chain(words).collect();
        if program.is_empty() {
            let remedy = "write it after the image's name (with --root: after `--`)";
            return Err(Failure::request(chosen.option.clone(), "it names no program to run", remedy));
        }
        Ok(program)
    }

    /// The container of a root, which is added to the view.
    pub fn container(&self, chosen: &Chosen, user: Option<&str>, view: &mut View, cwd: &Path) -> Container {
        view.add_root(&cwd.join(&chosen.root), chosen.option.clone(), chosen.is_image);
        let private = |volume: &Volume| match volume {
            Volume::Private(at) => Some(at.as_os_str().as_bytes().to_vec()),
            Volume::Grant { .. } => None,
        };
        // What an image keeps in volumes is private to the pod anyway.
        let volumes = chosen.config.volumes().iter().flatten().filter_map(|at| normal(Path::new(at)).ok());
        let volumes = volumes.map(|at| at.into_os_string().into_vec());
        let user = user.or(chosen.config.user().as_deref()).unwrap_or_default();
        Container {
            user: user.as_bytes().to_vec(),
            groups: self.group_add.iter().map(|group| group.clone().into_bytes()).collect(),
            read_only: self.read_only,
            directories: self.volumes().filter_map(private).chain(volumes).collect(),
            tmpfs: self.file_systems().cloned().collect(),
            own_pids: !self.init,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::{self, Wanted};

    fn chosen(json: &str) -> Chosen {
        let config = serde_json::from_str(json).unwrap();
        Chosen { root: "/x".into(), option: "image x".into(), is_image: true, config, held: None }
    }

    fn words(list: &[&str]) -> Vec<OsString> {
        list.iter().map(Into::into).collect()
    }

    #[test]
    fn programs_of_images() {
        let both = chosen(r#"{"Entrypoint": ["a", "b"], "Cmd": ["c"]}"#);
        let program = |entrypoint: Option<&str>, chosen: &Chosen, list: &[&str]| {
            let options = ContainerArgs { entrypoint: entrypoint.map(Into::into), ..Default::default() };
            options.program(chosen, words(list))
        };
        assert_eq!(program(None, &both, &[]).unwrap(), words(&["a", "b", "c"]));
        assert_eq!(program(None, &both, &["x"]).unwrap(), words(&["a", "b", "x"]));
        assert_eq!(program(Some("e"), &both, &[]).unwrap(), words(&["e"]));
        assert_eq!(program(Some("e"), &both, &["x"]).unwrap(), words(&["e", "x"]));
        assert_eq!(program(Some(""), &both, &["x"]).unwrap(), words(&["x"]));
        let text = program(None, &chosen("{}"), &[]).unwrap_err().to_string();
        assert!(text.starts_with("image x: it names no program"), "{text}");
    }

    #[test]
    fn configurations_of_images() {
        let image = chosen(
            r#"{"Env": ["PATH=/p", "A=b=c", "wrong"], "WorkingDir": "/w", "User": "u:g", "Volumes": {"/v": {}}}"#,
        );
        let host = environment::host();
        let set = words(&["A=d"]);
        let wanted = Wanted { set: &set, ..Wanted::default() };
        let variables = image.variables(&host, "box", false, &wanted).unwrap();
        let expected = [("A", "d"), ("HOSTNAME", "box"), ("PATH", "/p")].map(|(k, v)| (k.into(), v.into()));
        assert_eq!(variables.into_iter().collect::<Vec<_>>(), expected);
        assert_eq!(image.directory(None).unwrap(), Path::new("/w"));
        assert_eq!(image.directory(Some("/x/".as_ref())).unwrap(), Path::new("/x"));
        assert!(image.directory(Some("x".as_ref())).is_err());
        let mut view = View::default();
        let container = ContainerArgs::default().container(&image, None, &mut view, Path::new("/"));
        assert_eq!((container.user, container.directories), (b"u:g".to_vec(), vec![b"/v".to_vec()]));
        let container = ContainerArgs::default().container(&image, Some("7"), &mut view, Path::new("/"));
        assert_eq!(container.user, b"7");
    }
}
