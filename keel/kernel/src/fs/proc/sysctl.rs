//! `/proc/sys`: settings of the system. They are read-only, except host and domain name and some of the network and IPC namespaces.

use super::sysctl_net;
use super::sysctl_values::VALUES;
use crate::cred::userns::Ids;
use crate::ipc::{self, mqueue};
use crate::mm;
use crate::random;
use crate::task::cred::cap;
use crate::task::namespaces;
use crate::task::uts;
use crate::task::{self, pid};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use uapi::{Errno, Result};
use vfs::FileType;
use vfs::synth::{Entry, SynthDir, SynthFile};

/// Makes the text of a setting, without the line end.
type Make = fn() -> String;

/// Settings with generated text.
const MADE: [(&str, Make); 12] = [
    ("fs/file-nr", || format!("{}\t0\t9223372036854775807", open_files())),
    ("kernel/domainname", || lossy(uts::here().domain())),
    ("kernel/hostname", || lossy(uts::here().host())),
    ("kernel/ns_last_pid", || format!("{}", pid::last())),
    ("kernel/osrelease", || lossy(uts::system().release)),
    ("kernel/pid_max", || format!("{}", pid::PID_MAX)),
    ("kernel/random/boot_id", boot_id),
    ("kernel/random/uuid", || uuid(random::bytes())),
    ("kernel/version", || lossy(uts::system().version)),
    ("kernel/watchdog_cpumask", || super::status::list(u64::MAX >> (64 - super::system::cpus()))),
    ("vm/max_map_count", || format!("{}", mm::MAX_MAPPINGS)),
    ("vm/mmap_min_addr", || format!("{}", abi::layout::USER_MIN)),
];

fn lossy(text: Vec<u8>) -> String {
    String::from_utf8_lossy(&text).into_owned()
}

/// Descriptors in use: descriptions that are shared count each time.
fn open_files() -> usize {
    let tables = task::process::all().filter_map(|p| p.main_thread()?.try_files());
    tables.map(|files| files.count()).sum()
}

/// A random UUID, RFC 9562 version 4.
fn uuid(mut bytes: [u8; 16]) -> String {
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: Vec<String> = bytes.iter().map(|b| format!("{b:02x}")).collect();
    [&hex[..4], &hex[4..6], &hex[6..8], &hex[8..10], &hex[10..]].map(|part| part.concat()).join("-")
}

static BOOT_ID: hal::cell::Global<core::cell::Cell<Option<[u8; 16]>>> =
    hal::cell::Global::new(core::cell::Cell::new(None));

fn boot_id() -> String {
    let id = BOOT_ID.get().unwrap_or_else(random::bytes);
    BOOT_ID.set(Some(id));
    uuid(id)
}

/// Makes settings before the first program; fails with the name of one, and why it can't be set.
pub fn apply(settings: &[(Vec<u8>, Vec<u8>)]) -> core::result::Result<(), (&[u8], &'static str)> {
    const WRONG: &str = "not a value of this setting; see /proc/sys in a pod";
    for (name, value) in settings {
        let is = |known: &str| known.as_bytes() == &name[..];
        let constant = VALUES.iter().find(|(known, ..)| is(known)).map(|(_, _, value)| String::from(*value));
        let present = constant.or_else(|| MADE.iter().find(|(known, _)| is(known)).map(|(_, make)| make()));
        if let Some(setting) = mqueue::SETTINGS.iter().find(|setting| is(setting.path)) {
            let text = core::str::from_utf8(value).map_err(|_| Errno::EINVAL);
            let changed = text.and_then(|text| setting.change(ipc::Namespace::first().limits(), text.trim()));
            changed.map_err(|_| (&name[..], WRONG))?;
            continue;
        }
        let outcome = match (sysctl_net::SETTINGS.iter().find(|setting| is(setting.path)), present) {
            (Some(setting), _) => {
                let text = core::str::from_utf8(value).map_err(|_| Errno::EINVAL);
                let changed = text.and_then(|text| (setting.change)(&namespaces::net_here().settings, text.trim()));
                changed.map_err(|_| WRONG)
            }
            (None, Some(_)) if is("kernel/domainname") && value.len() <= 64 => {
                uts::here().set_domain(value.clone());
                Ok(())
            }
            (None, Some(present)) if words(present.as_bytes()).eq(words(value)) => Ok(()),
            (None, Some(_)) => Err("the pod's kernel can't change it; leave it out"),
            (None, None) => Err("there is no such setting in a pod; leave it out"),
        };
        outcome.map_err(|why| (&name[..], why))?;
    }
    Ok(())
}

/// The words of a setting.
fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty())
}

/// A directory, with those beneath it.
#[derive(Default)]
struct Directory {
    entries: BTreeMap<&'static str, Item>,
}

enum Item {
    Directory(Rc<Directory>),
    File(u32, Source),
}

#[derive(Clone, Copy)]
enum Source {
    Constant(&'static str),
    Made(Make),
    /// Text that may be replaced.
    Changed(Make, fn(Vec<u8>)),
    /// A setting of the network namespace.
    Network(&'static sysctl_net::Setting),
    /// A setting of the IPC namespace.
    Queues(&'static mqueue::Setting),
}

/// The directory `/proc/sys`.
pub fn directory() -> impl SynthDir {
    let mut root = Directory::default();
    for (path, mode, value) in VALUES {
        root.insert(path, mode, Source::Constant(value));
    }
    for setting in &sysctl_net::SETTINGS {
        root.insert(setting.path, 0o644, Source::Network(setting));
    }
    for setting in &mqueue::SETTINGS {
        root.insert(setting.path, 0o644, Source::Queues(setting));
    }
    for (path, make) in MADE {
        match path {
            "kernel/hostname" => root.insert(path, 0o644, Source::Changed(make, |name| uts::here().set_host(name))),
            "kernel/domainname" => root.insert(path, 0o644, Source::Changed(make, |name| uts::here().set_domain(name))),
            _ => root.insert(path, 0o444, Source::Made(make)),
        }
    }
    Shared(Rc::new(root))
}

impl Directory {
    fn insert(&mut self, path: &'static str, mode: u32, source: Source) {
        match path.split_once('/') {
            None => {
                self.entries.insert(path, Item::File(mode, source));
            }
            Some((first, rest)) => {
                let next = self.entries.entry(first).or_insert_with(|| Item::Directory(Rc::default()));
                // While the tree is built, its directories have no other borrow.
                if let Item::Directory(directory) = next
                    && let Some(directory) = Rc::get_mut(directory)
                {
                    directory.insert(rest, mode, source);
                }
            }
        }
    }
}

struct Shared(Rc<Directory>);

impl SynthDir for Shared {
    fn lookup(&self, name: &[u8]) -> Result<Entry> {
        let name = core::str::from_utf8(name).map_err(|_| Errno::ENOENT)?;
        match self.0.entries.get(name).ok_or(Errno::ENOENT)? {
            Item::Directory(directory) => Ok(Entry::dir(0o555, Shared(directory.clone()))),
            Item::File(mode, source @ (Source::Network(_) | Source::Queues(_))) => {
                // They belong to root of the namespace.
                let owner = match source {
                    Source::Queues(_) => ipc::here().user_ns().clone(),
                    _ => namespaces::net_here().user_ns().clone(),
                };
                let root = |ids| owner.outward(ids, 0).unwrap_or(0);
                let (uid, gid) = (root(Ids::Users), root(Ids::Groups));
                Ok(Entry::file(*mode, Setting(*source)).owned(uid, gid))
            }
            Item::File(mode, source) => Ok(Entry::file(*mode, Setting(*source))),
        }
    }

    fn list(&self) -> Result<Vec<(Vec<u8>, FileType)>> {
        let kind = |item: &Item| match item {
            Item::Directory(_) => FileType::Directory,
            Item::File(..) => FileType::Regular,
        };
        Ok(self.0.entries.iter().map(|(name, item)| (name.as_bytes().to_vec(), kind(item))).collect())
    }

    /// Linux does not count here.
    fn links(&self) -> u32 {
        1
    }
}

struct Setting(Source);

impl SynthFile for Setting {
    fn content(&self) -> Result<Vec<u8>> {
        let mut text = match self.0 {
            Source::Constant(value) => String::from(value),
            Source::Made(make) | Source::Changed(make, _) => make(),
            Source::Network(setting) => (setting.show)(&namespaces::net_here().settings),
            Source::Queues(setting) => format!("{}", setting.show(ipc::here().limits())),
        };
        text.push('\n');
        Ok(text.into_bytes())
    }

    fn is_polled(&self) -> bool {
        true
    }

    fn is_setting(&self) -> bool {
        true
    }

    /// Unsupported settings are read-only, as in a container. EROFS, EPERM, EINVAL.
    fn write(&self, _offset: u64, data: &[u8]) -> Result<usize> {
        let text = || {
            let text = core::str::from_utf8(data).map_err(|_| Errno::EINVAL)?;
            Ok(text.trim_matches(|c: char| c.is_ascii_whitespace() || c == '\0'))
        };
        let change = match self.0 {
            Source::Network(setting) => {
                (setting.change)(&namespaces::net_here().settings, text()?)?;
                return Ok(data.len());
            }
            Source::Queues(setting) => {
                setting.change(ipc::here().limits(), text()?)?;
                return Ok(data.len());
            }
            Source::Changed(_, change) => change,
            _ => return Err(Errno::EROFS),
        };
        if !task::current().cred().capable_in(uts::here().user_ns(), cap::SYS_ADMIN) {
            return Err(Errno::EPERM);
        }
        let line = data.split(|&b| b == b'\n' || b == 0).next().unwrap_or_default();
        // Names have at most 64 bytes.
        change(line[..line.len().min(64)].to_vec());
        Ok(data.len())
    }
}
