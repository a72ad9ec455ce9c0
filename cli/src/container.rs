//! Pods with a root of their own, as container engines run them: an image or `--root`, and the options that go with it.

use crate::environment::{self, Host, Variables, Wanted};
use crate::failure::{Failure, Result, reason};
use crate::mount::Mount;
use crate::values::{Grant, amount, normal};
use crate::view::View;
use abi::boot::{Container, Tmpfs};
use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, ValueEnum};
use image::oci_spec::image::Config;
use image::{Image, Import, Platform, Reference, Store};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::process::Resource;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

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

    /// Put a file system in memory at AT; options size=BYTES, mode=OCTAL, ro. Repeatable
    #[arg(long, value_name = "AT[:OPTION,...]", value_parser = tmpfs)]
    pub tmpfs: Vec<Tmpfs>,

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
    #[arg(long, value_name = "SIGNAL", value_parser = signal)]
    pub stop_signal: Option<u32>,

    /// Write the pod's id to a new file
    #[arg(long, value_name = "FILE")]
    pub cidfile: Option<PathBuf>,

    /// Ignored: a pod leaves no record that could have labels. Repeatable
    #[arg(short, long, value_name = "KEY[=VALUE]", value_parser = label)]
    pub label: Vec<String>,

    /// Ignored like --label, but the file must be readable. Repeatable
    #[arg(long, value_name = "FILE")]
    pub label_file: Vec<PathBuf>,

    /// Ignored like --label. Repeatable
    #[arg(long, value_name = "KEY[=VALUE]", value_parser = label)]
    pub annotation: Vec<String>,

    /// Resource limit of the program, by the names of prlimit(1); `-1`: no limit. Repeatable
    #[arg(long, value_name = "NAME=SOFT[:HARD]", value_parser = ulimit)]
    pub ulimit: Vec<Ulimit>,

    /// Ignored: a pod leaves nothing behind
    #[arg(long)]
    pub rm: bool,

    /// Ignored: a process of the pod's kernel reaps orphans
    #[arg(long)]
    pub init: bool,
}

/// `--volume`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Volume {
    /// A grant of the host.
    Grant {
        /// What and where.
        grant: Grant,
        /// Changes fail.
        read_only: bool,
    },
    /// A private directory.
    Private(PathBuf),
}

impl Volume {
    /// Parses `[PATH:]AT[:ro|:rw]`.
    pub fn parse(text: OsString) -> std::result::Result<Self, String> {
        let bytes = text.as_bytes();
        let (bytes, read_only) = match bytes.iter().rposition(|&byte| byte == b':') {
            Some(at) if at > 0 && !bytes[at + 1..].contains(&b'/') => {
                let flags: Vec<&[u8]> = bytes[at + 1..].split(|&byte| byte == b',').collect();
                // Labels and propagation have no counterpart, and no effect that a pod could see.
                if let Some(other) = flags.iter().find(|flag| !matches!(**flag, b"ro" | b"rw" | b"z" | b"Z")) {
                    return Err(format!("unknown option {}; write ro or rw", String::from_utf8_lossy(other)));
                }
                (&bytes[..at], flags.contains(&&b"ro"[..]))
            }
            _ => (bytes, false),
        };
        if !bytes.windows(2).any(|pair| pair == b":/") {
            return match normal(Path::new(OsStr::from_bytes(bytes))) {
                Ok(at) => Ok(Self::Private(at)),
                Err(_) => Err("no absolute path in the pod; write PATH:AT, PATH:AT:ro or AT".into()),
            };
        }
        let grant = Grant::parse(OsStr::from_bytes(bytes).to_owned())?;
        if !grant.host.as_os_str().as_bytes().contains(&b'/') && grant.host != Path::new(".") {
            let name = grant.host.display();
            return Err(format!("volumes have no names; name a directory by its path, as in ./{name}"));
        }
        Ok(Self::Grant { grant, read_only })
    }
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

/// Parses `--label`: its key must not be empty.
fn label(text: &str) -> std::result::Result<String, String> {
    match text.split('=').next() {
        Some("") | None => Err("a label has no key; write KEY=VALUE".into()),
        _ => Ok(text.to_owned()),
    }
}

/// Names of signals, in the order of their numbers.
const SIGNALS: [&str; 31] = [
    "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE", "ALRM", "TERM",
    "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO",
    "PWR", "SYS",
];
/// SIGRTMIN and SIGRTMAX of the C library.
const REAL_TIME: (u32, u32) = (34, 64);

/// Parses a signal: a number, or a name with or without `SIG`, in any case.
fn signal(text: &str) -> std::result::Result<u32, String> {
    let name = text.to_ascii_uppercase();
    let name = name.strip_prefix("SIG").unwrap_or(&name);
    let offset = |digits: &str, sign: char| match digits.strip_prefix(sign) {
        Some(digits) => digits.parse().ok(),
        None => digits.is_empty().then_some(0),
    };
    let (first, last) = REAL_TIME;
    let number = match name.parse().ok() {
        Some(number) => Some(number),
        None if name.starts_with("RTMIN") => {
            offset(&name[5..], '+').and_then(|more| first.checked_add(more)).filter(|n| *n <= last)
        }
        None if name.starts_with("RTMAX") => {
            offset(&name[5..], '-').and_then(|less| last.checked_sub(less)).filter(|n| *n >= first)
        }
        None => SIGNALS.iter().position(|known| *known == name).map(|at| at as u32 + 1),
    };
    number
        .filter(|number| (1..=last).contains(number))
        .ok_or_else(|| "not a signal; write a name such as SIGQUIT, or a number".into())
}

/// A file system in memory at a place, with the usual properties.
pub fn tmpfs_at(at: &Path) -> std::result::Result<Tmpfs, String> {
    let at = normal(at)?;
    if at == Path::new("/") {
        return Err("the root can't be replaced; name a directory in it".into());
    }
    Ok(Tmpfs { at: at.as_os_str().as_bytes().to_vec(), mode: 0o1777, size: None, read_only: false })
}

/// Parses `--tmpfs`.
fn tmpfs(text: &str) -> std::result::Result<Tmpfs, String> {
    let (at, options) = text.split_once(':').unwrap_or((text, ""));
    let mut tmpfs = tmpfs_at(Path::new(at))?;
    for option in options.split(',').filter(|option| !option.is_empty()) {
        match option.split_once('=').unwrap_or((option, "")) {
            ("size", value) => tmpfs.size = Some(amount(value)?),
            ("mode", value) => {
                let mode = u32::from_str_radix(value, 8).ok().filter(|mode| *mode <= 0o7777);
                tmpfs.mode = mode.ok_or("not a mode; write octal digits, such as mode=1777")?;
            }
            ("ro", "") => tmpfs.read_only = true,
            // Programs and devices in it run as everywhere in a pod.
            ("rw" | "exec" | "suid" | "dev", "") => {}
            _ => return Err(format!("unknown option {option}; write size=BYTES, mode=OCTAL or ro")),
        }
    }
    Ok(tmpfs)
}

/// A resource limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ulimit {
    /// `RLIMIT_*` number.
    number: usize,
    /// Soft and hard limit.
    limit: (u64, u64),
}

/// Names of limits, in the order of their numbers.
const LIMITS: [&str; 16] = [
    "cpu",
    "fsize",
    "data",
    "stack",
    "core",
    "rss",
    "nproc",
    "nofile",
    "memlock",
    "as",
    "locks",
    "sigpending",
    "msgqueue",
    "nice",
    "rtprio",
    "rttime",
];
const _: () = assert!(Resource::Rttime as usize == LIMITS.len() - 1);

/// Parses `--ulimit`.
fn ulimit(text: &str) -> std::result::Result<Ulimit, String> {
    let wrong = "not a limit; write NAME=SOFT[:HARD] with numbers, such as nofile=1024:4096";
    let (name, values) = text.split_once('=').ok_or(wrong)?;
    let number = LIMITS.iter().position(|known| *known == name);
    let number = number.ok_or_else(|| format!("unknown limit {name}; write one of {}", LIMITS.join(", ")))?;
    let value = |text: &str| match text {
        "-1" | "unlimited" => Ok(u64::MAX),
        digits => digits.parse().map_err(|_| wrong),
    };
    let (soft, hard) = values.split_once(':').unwrap_or((values, values));
    let limit = (value(soft)?, value(hard)?);
    if limit.0 > limit.1 {
        return Err("the soft limit is above the hard one; write SOFT:HARD".into());
    }
    Ok(Ulimit { number, limit })
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
        for volume in self.volumes() {
            if let Volume::Grant { grant, read_only } = volume {
                view.add_volume(grant, *read_only, cwd)?;
            }
        }
        Ok(())
    }

    /// The root that was chosen: that of `--root`, or of the image that the first of `words` names if they do not follow
    /// `--`. Takes the name out of the words. `None`: the view of the host.
    /// `quiet`: fetch an image without a report of progress.
    pub fn choose(&self, words: &mut Vec<OsString>, names_image: bool, quiet: bool) -> Result<Option<Chosen>> {
        if let Some(root) = &self.root {
            let option = format!("--root {}", root.display());
            let chosen =
                |root: PathBuf, is_image, held| Chosen { root, option, is_image, config: Config::default(), held };
            return Ok(Some(match kind(root)? {
                Kind::Directory => chosen(root.clone(), false, None),
                Kind::Image => chosen(root.clone(), true, None),
                Kind::Other => {
                    let image = self.archive(root)?;
                    chosen(image.erofs_path, true, Some(image.erofs))
                }
            }));
        }
        if !names_image || words.is_empty() {
            let given = [
                ("--entrypoint", self.entrypoint.is_some()),
                ("--tmpfs", !self.tmpfs.is_empty()),
                ("--mount type=tmpfs", self.mount.iter().any(|mount| matches!(mount, Mount::Tmpfs(_)))),
                ("--pull", self.pull != Pull::Missing),
                ("--platform", self.platform.is_some()),
                ("--read-only", self.read_only),
                ("--store", self.store.is_some()),
            ];
            return match given.into_iter().find(|(_, is_given)| *is_given) {
                Some((name, _)) => {
                    let why = "it is for pods with a root of their own";
                    Err(Failure::request(
                        name,
                        why,
                        "name an image: hull run [OPTIONS] IMAGE [COMMAND], or --root PATH",
                    ))
                }
                None => Ok(None),
            };
        }
        let name = words.remove(0);
        let image = self.image(&name, words, quiet)?;
        let config = image.config.config().clone().unwrap_or_default();
        let option = format!("image {}", image.name);
        Ok(Some(Chosen { root: image.erofs_path, option, is_image: true, config, held: Some(image.erofs) }))
    }

    /// The image of an archive, which the store keeps without a name: until `hull prune`, the next run finds it.
    fn archive(&self, root: &Path) -> Result<Image> {
        let import = Import { same: true, ..Import::default() };
        let made = Store::open(self.store.as_deref()).and_then(|store| {
            let id = store.import(root, None, &import)?;
            store.resolve(&id.to_string())
        });
        made.map_err(|error| {
            let line = error.to_string();
            let (_, rest) = line.split_once(": ").unwrap_or(("", &line));
            let (why, remedy) =
                rest.split_once("; ").unwrap_or((rest, "name a tar archive, an EROFS image or a directory"));
            Failure::request(format!("--root {}", root.display()), why, remedy)
        })
    }

    /// The image of a name. Fetches it if it is not in the store, or as `--pull` says.
    fn image(&self, name: &OsStr, words: &[OsString], quiet: bool) -> Result<Image> {
        let text = Path::new(name).display().to_string();
        let find = || Store::open(self.store.as_deref()).and_then(|store| store.resolve(&text));
        let found = if self.pull == Pull::Always { Err(image::Error::no_such_image(&text)) } else { find() };
        let found = match found {
            Err(error) if error.is_not_found() && self.pull != Pull::Never => match Reference::parse(&text) {
                Ok(name) => {
                    if self.pull == Pull::Missing {
                        // Ignore write errors on standard error.
                        let _ = writeln!(std::io::stderr(), "hull: {}: not in the store, fetching it", name.familiar());
                    }
                    Store::open(self.store.as_deref())
                        .and_then(|store| crate::images::fetch(&store, &name, self.platform.as_ref(), quiet))
                        .and_then(|()| find())
                }
                // No name of an image: an id.
                Err(_) => Err(error),
            },
            found => found,
        };
        found.map_err(|error| {
            let line = error.to_string();
            let (what, rest) = line.split_once(": ").unwrap_or((&text, &line));
            let (why, remedy) = rest.split_once("; ").unwrap_or((rest, "see hull images"));
            if is_program(name) {
                let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
                let line = format!("hull run -- {text} {}", words.join(" "));
                return Failure::request(what, why, format!("to run the host's program write {}", line.trim_end()));
            }
            Failure::request(what, why, remedy)
        })
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
            read_only: self.read_only,
            directories: self.volumes().filter_map(private).chain(volumes).collect(),
            tmpfs: self.file_systems().cloned().collect(),
        }
    }
}

/// A root for a pod.
#[derive(Debug)]
pub struct Chosen {
    /// A directory or an image.
    root: PathBuf,
    /// As the user named it.
    option: String,
    is_image: bool,
    /// What the image says about its program.
    config: Config,
    /// Keeps the image in its store.
    held: Option<File>,
}

/// Whether a word names a program of the host.
fn is_program(name: &OsStr) -> bool {
    let is_file =
        |path: &Path| path.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0);
    if name.as_bytes().contains(&b'/') {
        return is_file(Path::new(name));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| is_file(&directory.join(name)))
}

/// What a root is.
enum Kind {
    Directory,
    /// An EROFS image.
    Image,
    /// Another file: an archive.
    Other,
}

fn kind(root: &Path) -> Result<Kind> {
    let what = || format!("--root {}", root.display());
    let file = rustix::fs::open(root, OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK, Mode::empty());
    let file = file.map_err(|error| Failure::request(what(), reason(&error.into()), "check the path"))?;
    let stat = rustix::fs::fstat(&file).map_err(|error| Failure::request(what(), error, "check the path"))?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => return Ok(Kind::Directory),
        FileType::RegularFile => {}
        _ => return Err(Failure::request(what(), "neither a directory nor a regular file", "name one of them")),
    }
    if stat.st_size == 0 {
        return Err(Failure::request(what(), "the file is empty", "name a tar archive, an EROFS image or a directory"));
    }
    const MAGIC: [u8; 4] = 0xe0f5_e1e2_u32.to_le_bytes();
    let mut magic = [0; 4];
    let read = rustix::io::pread(&file, &mut magic, 1024);
    Ok(if read.is_ok_and(|n| n == magic.len()) && magic == MAGIC { Kind::Image } else { Kind::Other })
}

/// SIGTERM.
const TERM: u32 = 15;

impl ContainerArgs {
    /// The signal that ends the program: that of the options, of the image, or SIGTERM.
    pub fn stop_signal(&self, chosen: Option<&Chosen>) -> Result<u32> {
        let own = chosen.and_then(|chosen| Some((chosen, chosen.config.stop_signal().as_deref()?)));
        match (self.stop_signal, own.filter(|(_, text)| !text.is_empty())) {
            (Some(signal), _) => Ok(signal),
            (None, None) => Ok(TERM),
            (None, Some((chosen, text))) => signal(text).map_err(|_| {
                let why = format!("its StopSignal {text} is not a signal");
                Failure::request(chosen.option.clone(), why, "choose one with --stop-signal")
            }),
        }
    }

    /// Checks files of labels, and writes the id of the pod to the file of `--cidfile`.
    pub fn record(&self, id: &str) -> Result<()> {
        for file in &self.label_file {
            let fail = |why: String| {
                Failure::request(format!("--label-file {}", file.display()), why, "write KEY=VALUE lines")
            };
            let text = std::fs::read_to_string(file).map_err(|error| fail(reason(&error)))?;
            let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
            lines
                .map(label)
                .collect::<std::result::Result<Vec<_>, _>>()
                .map_err(|_| fail("a label has no key".into()))?;
        }
        let Some(path) = &self.cidfile else { return Ok(()) };
        let written = File::create_new(path).and_then(|mut file| file.write_all(id.as_bytes()));
        written.map_err(|error| {
            let remedy = "name a new file in a directory that can be written";
            Failure::request(format!("--cidfile {}", path.display()), reason(&error), remedy)
        })
    }
}

impl Chosen {
    /// Takes what keeps the image in its store: it is to live as long as the pod.
    pub fn hold(&mut self) -> Option<File> {
        self.held.take()
    }

    /// The environment of a container: `PATH`, its host name, `TERM` on a terminal, the image's variables, and what the
    /// options say. Variables of hull's environment are passed only if they are named, or all with `--env-all`.
    pub fn variables(&self, host: &Host, hostname: &str, is_terminal: bool, wanted: &Wanted) -> Result<Variables> {
        let mut variables = if wanted.all { Variables::clone(host) } else { Variables::new() };
        // These are of the host.
        for name in ["PATH", "HOME", "PWD", "HOSTNAME"] {
            variables.remove(OsStr::new(name));
        }
        let mut forced = Variables::new();
        forced.insert("HOSTNAME".into(), hostname.into());
        if is_terminal {
            let term = host.get(OsStr::new("TERM")).cloned();
            forced.insert("TERM".into(), term.unwrap_or_else(|| "xterm".into()));
        }
        let own = self.config.env().iter().flatten().filter_map(|variable| variable.split_once('='));
        let own = own.filter(|(name, value)| !name.is_empty() && !name.contains('\0') && !value.contains('\0'));
        forced.extend(own.map(|(name, value)| (name.into(), value.into())));
        environment::build_from(variables, host, forced, wanted)
    }

    /// The working directory of a container.
    pub fn directory(&self, wanted: Option<&OsStr>) -> Result<PathBuf> {
        let own = self.config.working_dir().as_deref().filter(|directory| !directory.is_empty()).map(OsStr::new);
        let Some(wanted) = wanted.or(own) else { return Ok("/".into()) };
        normal(Path::new(wanted)).map_err(|why| {
            Failure::request(format!("--workdir {}", Path::new(wanted).display()), why, "name a directory from / on")
        })
    }
}

/// A name for a container: 64 digits, of which the first 12 are its host name.
pub fn id() -> String {
    let mut bytes = [0; 32];
    // Without random bytes the name is only less unique.
    let _ = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn volumes() {
        let parse = |text: &str| Volume::parse(text.into());
        let grant = |host: &str, at: &str, read_only| {
            Ok(Volume::Grant { grant: Grant { host: host.into(), at: Some(at.into()) }, read_only })
        };
        assert_eq!(parse("/a:/b"), grant("/a", "/b", false));
        assert_eq!(parse("./a:/b/:ro"), grant("./a", "/b", true));
        assert_eq!(parse(".:/b:rw,z"), grant(".", "/b", false));
        assert_eq!(parse("/data"), Ok(Volume::Private("/data".into())));
        for (text, why) in [
            ("data:/b", "volumes have no names; name a directory by its path, as in ./data"),
            ("/a:/b:rx", "unknown option rx; write ro or rw"),
            ("data", "no absolute path in the pod; write PATH:AT, PATH:AT:ro or AT"),
            ("/a:/b/../c", "the path in the pod can't contain `..`"),
        ] {
            assert_eq!(parse(text), Err(why.into()), "{text}");
        }
    }

    #[test]
    fn file_systems_in_memory() {
        let expect = |text: &str, mode, size, read_only| {
            assert_eq!(tmpfs(text), Ok(Tmpfs { at: b"/a".to_vec(), mode, size, read_only }), "{text}");
        };
        expect("/a", 0o1777, None, false);
        expect("/a/:size=64m,mode=755,ro", 0o755, Some(64 << 20), true);
        for wrong in ["a", "/", "/a:x", "/a:mode=9", "/a:size=x", "/a:mode=17777"] {
            assert!(tmpfs(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn limits() {
        let expect = |text: &str, number, limit| assert_eq!(ulimit(text), Ok(Ulimit { number, limit }), "{text}");
        expect("nofile=10:20", Resource::Nofile as usize, (10, 20));
        expect("core=-1", Resource::Core as usize, (u64::MAX, u64::MAX));
        expect("rttime=5:unlimited", Resource::Rttime as usize, (5, u64::MAX));
        for wrong in ["nofile", "x=1", "nofile=", "nofile=2:1", "nofile=1:x"] {
            assert!(ulimit(wrong).is_err(), "{wrong}");
        }
    }
}
