//! The root of a pod: a directory, an archive or an image.

use super::{ContainerArgs, Mount, Pull};
use crate::environment::{self, Host, Variables, Wanted};
use crate::failure::{Failure, Result, reason};
use crate::network::Exposed;
use crate::values::normal;
use image::oci_spec::image::Config;
use image::{Image, Import, Reference, Store};
use rustix::fs::{FileType, Mode, OFlags};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A root for a pod.
#[derive(Debug)]
pub struct Chosen {
    /// A directory or an image.
    pub(super) root: PathBuf,
    /// As the user named it.
    pub(super) option: String,
    pub(super) is_image: bool,
    /// What the image says about its program.
    pub(super) config: Config,
    /// Keeps the image in its store.
    pub(super) held: Option<File>,
}

impl Chosen {
    /// Takes what keeps the image in its store: it is to live as long as the pod.
    pub fn hold(&mut self) -> Option<File> {
        self.held.take()
    }

    /// Ports that the image names.
    pub fn exposed(&self) -> Result<Vec<Exposed>> {
        let wrong = |port: &str, why: &str| {
            let why = format!("its ExposedPorts has {port:?}: {why}");
            Failure::request(&self.option, why, "publish ports with --publish HOST:POD")
        };
        let all = self.config.exposed_ports().iter().flatten();
        let (form, parse) = ("not a port", crate::network::expose);
        all.map(|port| parse(port).map_err(|_| wrong(port, form))).collect()
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

impl ContainerArgs {
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
                ("--group-add", !self.group_add.is_empty()),
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
