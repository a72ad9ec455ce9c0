//! The pod's view of the host's files.

use crate::failure::{Failure, Result, reason};
use crate::nested;
use crate::values::{Grant, normal};
use abi::boot::{Export, Given, RootLink};
use monitor::connectors::files::{ExportConfig, OfKernel};
use std::collections::BTreeMap;
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// System directories of the host that every pod sees as far as they are world-readable. On a host with merged
/// directories some are symbolic links, and stay links in the pod.
const SYSTEM: [&str; 10] = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/libexec", "/etc", "/opt"];
/// Directories that keel provides itself.
const OWN: [&str; 3] = ["/proc", "/sys", "/dev"];

/// The host's package databases, also in every pod's view.
const PACKAGES: [&str; 3] = ["/var/lib/dpkg", "/var/lib/rpm", "/var/lib/pacman"];
/// Directories whose subdirectories packages create, and the depth. Pods get empty directories of the same names.
const EXPECTED: [(&str, u32); 5] =
    [("/run", 1), ("/var/cache", 1), ("/var/lib", 1), ("/var/log", 1), ("/var/spool", 2)];
/// Excluded: they indicate that systemd or udev runs.
const UNEXPECTED: [&str; 3] = ["/run/systemd", "/run/udev", "/run/user"];
/// Maximum number of such directories: a host may have very many.
const MOST_EXPECTED: usize = 512;

/// A grant at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Granted {
    host: PathBuf,
    writable: bool,
    public_only: bool,
    /// Whether it is the host's own software, which changes rarely.
    settled: bool,
    /// Whether changes fail.
    read_only: bool,
    /// Whether it is an image.
    is_image: bool,
    /// The option as the user wrote it; `None` for a default grant.
    option: Option<String>,
}

impl Granted {
    /// A read-only grant.
    fn new(host: PathBuf, option: Option<String>) -> Self {
        let (writable, public_only, settled, read_only, is_image) = Default::default();
        Self { host, writable, public_only, settled, read_only, is_image, option }
    }
}

/// The caller of hull, as far as the default grants depend on it.
#[derive(Clone, Debug, Default)]
pub struct Caller {
    /// Whether it is root, whose access rights do not show which files a program should see.
    pub root: bool,
    /// Home directories: from `HOME` and from the host's `/etc/passwd`.
    pub homes: Vec<PathBuf>,
}

impl Caller {
    /// The reason if the directory `cwd` is granted by name only.
    fn withholds(&self, cwd: &Path) -> Option<&'static str> {
        if self.homes.iter().any(|home| home == cwd) {
            return Some("it is the home directory");
        }
        if self.homes.iter().any(|home| home.starts_with(cwd)) {
            return Some("the home directory lies in it");
        }
        if cwd.parent() == Some(Path::new("/")) {
            return Some("it lies at the top of the file system");
        }
        let everybody = |path: &Path, bits| path.metadata().is_ok_and(|m| m.permissions().mode() & bits == bits);
        let open = || everybody(cwd, 0o005) && cwd.ancestors().skip(1).all(|above| everybody(above, 0o001));
        (self.root && !open()).then_some("not everybody may read it")
    }
}

/// All files of the host that the pod sees, by place in the pod.
#[derive(Debug, Default)]
pub struct View {
    grants: BTreeMap<PathBuf, Granted>,
    links: BTreeMap<PathBuf, PathBuf>,
}

impl View {
    /// Adds the host's system directories and the current directory; returns the reason if the latter is left out.
    pub fn add_host(&mut self, cwd: &Path, caller: &Caller) -> Option<&'static str> {
        for path in SYSTEM.into_iter().chain(PACKAGES).map(Path::new) {
            let Ok(metadata) = path.symlink_metadata() else { continue };
            if metadata.is_symlink() {
                if let Ok(target) = path.read_link() {
                    self.links.insert(path.into(), target);
                }
            } else if metadata.is_dir() {
                let grant = Granted { public_only: true, settled: true, ..Granted::new(path.into(), None) };
                self.grants.insert(path.into(), grant);
            }
        }
        // Skip `/`, directories that are visible already, and directories that keel provides.
        if cwd == Path::new("/") || self.shows(cwd) || OWN.iter().any(|own| cwd.starts_with(own)) {
            return None;
        }
        let withheld = caller.withholds(cwd);
        if withheld.is_none() {
            let grant = Granted { public_only: caller.root, ..Granted::new(cwd.into(), None) };
            self.grants.insert(cwd.into(), grant);
        }
        withheld
    }

    /// Adds a grant of `--ro` or `--rw`; it replaces a default grant at the same place.
    pub fn add(&mut self, grant: &Grant, writable: bool, cwd: &Path) -> Result<()> {
        let name = if writable { "--rw " } else { "--ro " };
        self.add_as(name, grant, writable, false, cwd)
    }

    /// Adds a grant of a volume: writable, or changes fail. `option` precedes the path in messages.
    pub fn add_volume(&mut self, option: &str, grant: &Grant, read_only: bool, cwd: &Path) -> Result<()> {
        self.add_as(option, grant, !read_only, read_only, cwd)
    }

    /// Adds the root of a container, a directory or an image; `option` is what the user wrote.
    pub fn add_root(&mut self, host: &Path, option: String, is_image: bool) {
        self.grants.insert("/".into(), Granted { is_image, ..Granted::new(host.into(), Some(option)) });
    }

    fn add_as(&mut self, name: &str, grant: &Grant, writable: bool, read_only: bool, cwd: &Path) -> Result<()> {
        let option = format!("{name}{}", grant.host.display());
        let wrong = |why: String, remedy: &str| Failure::request(option.clone(), why, remedy);
        let relative = grant.at.is_none().then(|| nested::relative_place(&grant.host, cwd)).flatten();
        let host = cwd.join(relative.as_ref().map_or(&*grant.host, |(path, _)| path));
        let at = match (&grant.at, relative) {
            (Some(at), _) => at.clone(),
            (None, place) => {
                let place = place.map_or_else(|| host.clone(), |(_, at)| at);
                normal(&real_parent(&place)).map_err(|why| wrong(why, "use PATH:AT"))?
            }
        };
        if OWN.iter().any(|own| at.starts_with(own)) {
            return Err(wrong(format!("the pod has its own {}", at.display()), "choose another place with PATH:AT"));
        }
        if let Some(other) = self.grants.get(&at).filter(|other| other.option.is_some()) {
            let is_same =
                |other: &Path| matches!((other.canonicalize(), host.canonicalize()), (Ok(a), Ok(b)) if a == b);
            if (other.writable, other.read_only) == (writable, read_only) && is_same(&other.host) {
                return Ok(());
            }
            return Err(wrong(format!("something is granted at {} already", at.display()), "grant each place once"));
        }
        self.links.remove(&at);
        // A grant of /var (or beneath) replaces the default grants inside of it.
        let hidden = |place: &Path| place.starts_with("/var") && place != at && place.starts_with(&at);
        self.grants.retain(|place, other| other.option.is_some() || !hidden(place));
        self.grants.insert(at, Granted { writable, read_only, ..Granted::new(host, Some(option)) });
        Ok(())
    }

    /// Whether a path of the pod lies in a grant (not whether the file exists).
    pub fn shows(&self, path: &Path) -> bool {
        let path = match self.links.iter().find_map(|(at, target)| Some((target, path.strip_prefix(at).ok()?))) {
            Some((target, rest)) => Path::new("/").join(target).join(rest),
            None => path.to_owned(),
        };
        self.grants.keys().any(|at| path.starts_with(at))
    }

    /// Directories and files to create in the pod because the host's software expects them.
    pub fn given(&self) -> Vec<Given> {
        let mut all = Vec::new();
        for (path, depth) in EXPECTED {
            if Path::new(path).symlink_metadata().is_ok_and(|data| is_public(&data)) {
                self.expected(Path::new(path), depth, &mut all);
            }
        }
        if self.grants.get(Path::new("/etc")).is_some_and(|grant| grant.settled) {
            let read = |path| std::fs::read_to_string(path).unwrap_or_default();
            let group = read("/etc/group");
            let gid = group.lines().find_map(|line| line.strip_prefix("shadow:")?.split(':').nth(1)?.parse().ok());
            let file = |at: &str, content| Given {
                at: at.into(),
                mode: 0o640,
                uid: 0,
                gid: gid.unwrap_or(0),
                content: Some(content),
            };
            all.push(file("/etc/shadow", locked(&read("/etc/passwd"), ":*:::::::\n")));
            all.push(file("/etc/gshadow", locked(&group, ":*::\n")));
        }
        all
    }

    /// Adds the subdirectories of `path`, recursively, parents first.
    fn expected(&self, path: &Path, depth: u32, all: &mut Vec<Given>) {
        let Ok(entries) = path.read_dir() else { return };
        // d_type tells directories from other files without a stat(2) for each entry.
        let directories = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        let mut names: Vec<PathBuf> = directories.map(|entry| entry.path()).collect();
        names.sort_unstable();
        for path in names {
            let unexpected = UNEXPECTED.iter().any(|other| path == Path::new(other)) || self.shows(&path);
            if unexpected || all.len() >= MOST_EXPECTED {
                continue;
            }
            let Some(data) = path.symlink_metadata().ok().filter(Metadata::is_dir) else { continue };
            all.push(Given {
                at: path.as_os_str().as_bytes().to_vec(),
                mode: data.permissions().mode() & 0o7777,
                uid: data.uid(),
                gid: data.gid(),
                content: None,
            });
            if depth > 1 && is_public(&data) {
                self.expected(&path, depth - 1, all);
            }
        }
    }

    /// Removes the default grant of the current directory if an explicit grant shows it, and finds the places of nested
    /// grants.
    fn arranged(mut self) -> Result<Self> {
        let same = |at: &Path, grant: &Granted| {
            let inner = grant.host.canonicalize().ok();
            let shows = |(outer, other): (&PathBuf, &Granted)| {
                let beneath = at.strip_prefix(outer).ok().filter(|_| other.option.is_some() && outer != at)?;
                Some(other.host.canonicalize().ok()?.join(beneath))
            };
            inner.is_some() && self.grants.iter().any(|(outer, other)| shows((outer, other)) == inner)
        };
        let is_shown = |at: &Path, grant: &Granted| grant.option.is_none() && !grant.settled && same(at, grant);
        let shown: Vec<PathBuf> =
            self.grants.iter().filter(|(at, grant)| is_shown(at, grant)).map(|(at, _)| at.clone()).collect();
        self.grants.retain(|at, _| !shown.contains(at));
        let mut arranged: BTreeMap<PathBuf, Granted> = BTreeMap::new();
        // Parents come before their contents.
        for (at, grant) in std::mem::take(&mut self.grants) {
            let outer = nested::around(&at, arranged.keys().map(PathBuf::as_path)).map(Path::to_owned);
            // keel resolves the links of an image.
            let directory = |outer: &PathBuf| arranged.get(outer).filter(|grant| !grant.is_image);
            let place = match outer.and_then(|outer| Some((directory(&outer)?.host.clone(), outer))) {
                Some((host, outer)) => nested::without_links(&at, &outer, &host).map_err(|error| {
                    let what = grant.option.clone().unwrap_or_else(|| grant.host.display().to_string());
                    let (why, remedy) = match error.kind() {
                        std::io::ErrorKind::InvalidInput => (
                            "a symbolic link leads out of the grant around it".into(),
                            "name the place that it leads to",
                        ),
                        _ => (reason(&error), "choose another place with PATH:AT"),
                    };
                    Failure::request(format!("{what} at {}", at.display()), why, remedy)
                })?,
                None => at,
            };
            if let Some(other) = arranged.insert(place.clone(), grant) {
                let what = other.option.unwrap_or_else(|| other.host.display().to_string());
                let why = format!("something else is granted at {}, too", place.display());
                return Err(Failure::request(what, why, "grant each place once"));
            }
        }
        self.grants = arranged;
        Ok(self)
    }

    /// Opens all grants; returns the exports for the monitor and the mounts for keel.
    pub fn open(self) -> Result<(Vec<ExportConfig>, Vec<Export>, Vec<RootLink>)> {
        let view = self.arranged()?;
        let mut configs = Vec::new();
        let mut exports = Vec::new();
        let places: Vec<PathBuf> = view.grants.keys().cloned().collect();
        for (id, (at, grant)) in (1..).zip(view.grants) {
            let mut config = match ExportConfig::open(id, &grant.host, grant.writable, grant.public_only) {
                Ok(config) => config,
                Err(error) => {
                    let (why, remedy) = match error.kind() {
                        std::io::ErrorKind::Unsupported => {
                            ("neither a directory nor a regular file".into(), "grant the directory around it")
                        }
                        std::io::ErrorKind::NotFound => (reason(&error), "check the path"),
                        _ if error.get_ref().is_some_and(|inner| inner.is::<OfKernel>()) => {
                            (error.to_string(), "grant a directory of another file system")
                        }
                        _ => (reason(&error), "check its permissions"),
                    };
                    let what = grant.option.unwrap_or_else(|| grant.host.display().to_string());
                    return Err(Failure::request(what, why, remedy));
                }
            };
            config.locks = grant.option.is_some() && !grant.is_image;
            for inner in places.iter().filter(|inner| **inner != at && !grant.is_image) {
                let Ok(beneath) = inner.strip_prefix(&at) else { continue };
                config.cover(beneath.as_os_str().as_bytes()).map_err(|error| {
                    let why = format!("a grant can't lie there in {}: {}", at.display(), reason(&error));
                    Failure::request(inner.display().to_string(), why, "choose another place with PATH:AT")
                })?;
            }
            let at = at.as_os_str().as_bytes().to_vec();
            exports.push(Export {
                id,
                at,
                writable: config.writable,
                is_file: config.is_file(),
                settled: grant.settled,
                is_image: grant.is_image,
                read_only: grant.read_only,
                named: grant.option.is_some() && !grant.is_image,
            });
            configs.push(config);
        }
        let bytes = |path: PathBuf| path.into_os_string().as_bytes().to_vec();
        let links = view.links.into_iter().map(|(at, target)| RootLink { at: bytes(at), target: bytes(target) });
        Ok((configs, exports, links.collect()))
    }
}

/// Whether a directory has o+rx.
fn is_public(data: &Metadata) -> bool {
    data.is_dir() && data.permissions().mode() & 0o005 == 0o005
}

/// A line for each name in `list`, with no valid password.
fn locked(list: &str, rest: &str) -> Vec<u8> {
    let names = list.lines().filter_map(|line| line.split_once(':')).map(|(name, _)| name);
    let names = names.filter(|name| !name.is_empty() && !name.starts_with(['+', '-', '#']));
    names.flat_map(|name| [name, rest]).collect::<String>().into_bytes()
}

/// `path` with its parent resolved (no `..`, no symbolic links); the last component stays as the user wrote it. Returns
/// `path` unchanged if the parent does not exist: opening it reports the error.
fn real_parent(path: &Path) -> PathBuf {
    match (path.parent().map(Path::canonicalize), path.file_name()) {
        (Some(Ok(parent)), Some(name)) => parent.join(name),
        // `/`, or a path that ends in `..`.
        _ => path.canonicalize().unwrap_or_else(|_| path.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_view() {
        let mut view = View::default();
        let caller = Caller::default();
        assert_eq!(view.add_host(Path::new("/"), &caller), None);
        assert!(view.grants.contains_key(Path::new("/usr")));
        assert!(!view.grants.contains_key(Path::new("/")));
        assert!(view.grants.values().all(|grant| grant.public_only && grant.settled && !grant.writable));
        assert!(view.shows(Path::new("/bin/sh")));
        assert!(!view.shows(Path::new("/home/x")));
        let count = view.grants.len();
        view.add_host(Path::new("/usr/share"), &caller);
        view.add_host(Path::new("/proc/1"), &caller);
        assert_eq!(view.grants.len(), count);
    }

    #[test]
    fn the_current_directory() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().canonicalize().unwrap();
        let project = home.join("project");
        std::fs::create_dir(&project).unwrap();
        let mode = |path: &Path, mode| std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
        mode(&home, 0o755);
        mode(&project, 0o755);
        let user = Caller { root: false, homes: vec![home.clone()] };
        let root = Caller { root: true, ..Caller::default() };
        let granted = |cwd: &Path, caller: &Caller| {
            let mut view = View::default();
            let withheld = view.add_host(cwd, caller);
            view.grants.get(cwd).map(|grant| (grant.public_only, grant.settled)).ok_or(withheld)
        };
        assert_eq!(granted(&project, &user), Ok((false, false)));
        assert_eq!(granted(&project, &root), Ok((true, false)));
        assert_eq!(granted(&home, &user), Err(Some("it is the home directory")));
        assert_eq!(granted(home.parent().unwrap(), &user), Err(Some("the home directory lies in it")));
        assert_eq!(granted(Path::new("/srv"), &user), Err(Some("it lies at the top of the file system")));
        mode(&project, 0o750);
        assert_eq!(granted(&project, &user), Ok((false, false)));
        assert_eq!(granted(&project, &root), Err(Some("not everybody may read it")));
        mode(&project, 0o755);
        mode(&home, 0o700);
        assert_eq!(granted(&project, &root), Err(Some("not everybody may read it")));
    }

    #[test]
    fn grants_replace_defaults_once() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        std::fs::write(dir.join("file"), "x").unwrap();
        let grant = |text: &str| Grant::parse(text.into()).unwrap();
        let mut view = View::default();
        view.add_host(&dir, &Caller::default());
        view.add(&grant("."), true, &dir).unwrap();
        assert!(view.grants[&dir].writable);
        view.add(&grant("file:/data/f"), false, &dir).unwrap();
        assert!(view.add(&grant("file:/data/f"), true, &dir).is_err());
        assert!(view.add(&grant("/usr:/proc/x"), true, &dir).is_err());
        view.links.insert("/bin".into(), "usr/bin".into());
        view.add(&grant("file:/bin"), false, &dir).unwrap();
        let (configs, exports, links) = view.open().unwrap();
        assert_eq!(configs.len(), exports.len());
        assert!(links.iter().all(|link| link.at != b"/bin"));
        let export = exports.iter().find(|export| export.at == b"/data/f").unwrap();
        assert!(export.is_file && !export.writable);
    }

    #[test]
    fn wrong_paths_are_named() {
        let mut view = View::default();
        view.add(&Grant::parse("/none/such".into()).unwrap(), false, Path::new("/")).unwrap();
        let text = view.open().unwrap_err().to_string();
        assert_eq!(text, "--ro /none/such: no such file or directory; check the path");
        let mut view = View::default();
        view.add(&Grant::parse("/dev/null:/x".into()).unwrap(), true, Path::new("/")).unwrap();
        assert!(view.open().unwrap_err().to_string().contains("neither a directory nor a regular file"));
    }

    #[test]
    fn file_systems_of_the_kernel_are_named() {
        for path in ["/proc", "/sys/kernel", "/proc/self/mem"] {
            let mut view = View::default();
            view.add(&Grant::parse(format!("{path}:/x").into()).unwrap(), true, Path::new("/")).unwrap();
            let text = view.open().unwrap_err().to_string();
            let why = "belongs to a file system of the host's kernel, which no pod gets";
            assert_eq!(text, format!("--rw {path}: {why}; grant a directory of another file system"));
        }
    }
}
