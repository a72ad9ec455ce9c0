//! Landlock inside the pod, landlock(7): restrictions of a thread's domain on files.
//!
//! A [`Domain`] is a stack of layers, one for each ruleset that restricts the thread. An access to a file is allowed if
//! each layer that handles it has a rule that allows it, for the file itself or for a directory above. Rules name
//! places of the tree and keep them in use, so a place is found again by its inode.
#![expect(clippy::disallowed_types, reason = "each insertion reserves first")]

use crate::{Dentry, FileType, Inode, PathRef};
use alloc::rc::Rc;
use alloc::vec::Vec;
use hashbrown::HashMap;
use uapi::{Errno, Result};

/// Rights on files, `LANDLOCK_ACCESS_FS_*`.
pub mod access {
    /// Execute a file.
    pub const EXECUTE: u64 = 1 << 0;
    /// Open a file for writing.
    pub const WRITE_FILE: u64 = 1 << 1;
    /// Open a file for reading.
    pub const READ_FILE: u64 = 1 << 2;
    /// Open a directory.
    pub const READ_DIR: u64 = 1 << 3;
    /// Remove a directory, or move it.
    pub const REMOVE_DIR: u64 = 1 << 4;
    /// Remove a name of a file, or move it.
    pub const REMOVE_FILE: u64 = 1 << 5;
    /// Make a character device.
    pub const MAKE_CHAR: u64 = 1 << 6;
    /// Make a directory.
    pub const MAKE_DIR: u64 = 1 << 7;
    /// Make a regular file.
    pub const MAKE_REG: u64 = 1 << 8;
    /// Make a socket.
    pub const MAKE_SOCK: u64 = 1 << 9;
    /// Make a FIFO.
    pub const MAKE_FIFO: u64 = 1 << 10;
    /// Make a block device.
    pub const MAKE_BLOCK: u64 = 1 << 11;
    /// Make a symbolic link.
    pub const MAKE_SYM: u64 = 1 << 12;
    /// Link or move a file to another directory: always denied where no rule allows it.
    pub const REFER: u64 = 1 << 13;
    /// Change the size of a file.
    pub const TRUNCATE: u64 = 1 << 14;
    /// ioctl(2) of a device.
    pub const IOCTL_DEV: u64 = 1 << 15;
    /// All of them.
    pub const ALL: u64 = (1 << 16) - 1;
    /// Rights that apply to files other than directories.
    pub const OF_FILE: u64 = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV;
}
use access::REFER;

/// Maximum number of layers of a domain.
pub const MAX_LAYERS: usize = 16;
/// Number of rights.
const RIGHTS: usize = 16;

/// A rule of one ruleset about a place.
struct Rule {
    /// Keeps the place, and with it the inode, in use.
    _place: PathRef,
    /// Layer and rights, in order of the layers.
    allowed: Vec<(u8, u64)>,
}

/// Rights other than file rights that one ruleset handles.
#[derive(Debug)]
pub struct Layer {
    /// Rights on files that need a rule.
    pub files: u64,
    /// Rights on TCP ports that need a rule.
    pub ports: u64,
    /// Scopes, `LANDLOCK_SCOPE_*`.
    pub scoped: u64,
    /// Rights by TCP port, in order of the ports.
    pub port_rules: Vec<(u16, u64)>,
}

/// Rules about places, by inode.
#[derive(Default)]
pub struct Places(HashMap<usize, Rule>);

/// Identity of an inode; rules hold a reference.
fn key(inode: &Rc<dyn Inode>) -> usize {
    Rc::as_ptr(inode).cast::<()>() as usize
}

impl Places {
    /// Allows more at a place in a layer. ENOMEM.
    pub fn allow(&mut self, place: &PathRef, layer: u8, rights: u64) -> Result<()> {
        self.0.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        let rule =
            self.0.entry(key(place.inode())).or_insert_with(|| Rule { _place: place.clone(), allowed: Vec::new() });
        match rule.allowed.iter_mut().find(|(at, _)| *at == layer) {
            Some((_, allowed)) => *allowed |= rights,
            None => {
                rule.allowed.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
                rule.allowed.push((layer, rights));
            }
        }
        Ok(())
    }

    /// Takes over the rules of others, those of one ruleset as those of `layer`. ENOMEM.
    fn add(&mut self, other: &Self, layer: Option<u8>) -> Result<()> {
        for rule in other.0.values() {
            for &(from, rights) in &rule.allowed {
                self.allow(&rule._place, layer.unwrap_or(from), rights)?;
            }
        }
        Ok(())
    }
}

/// Layers that still deny a right, one bit each; by right.
#[derive(Clone, Copy)]
struct Denied([u16; RIGHTS]);

/// The rights of a set, by number.
fn rights_of(set: u64) -> impl Iterator<Item = usize> {
    (0..RIGHTS).filter(move |right| set >> right & 1 != 0)
}

impl Denied {
    /// Whether all of these rights are allowed.
    fn allows(&self, rights: u64) -> bool {
        rights_of(rights).all(|right| self.0[right] == 0)
    }

    /// Takes a rule into account for these rights.
    fn apply(&mut self, rule: Option<&Rule>, rights: u64) {
        for &(layer, allowed) in rule.iter().flat_map(|rule| &rule.allowed) {
            for right in rights_of(allowed & rights) {
                self.0[right] &= !(1 << layer);
            }
        }
    }

    /// Forgets all but these rights.
    fn keep(&mut self, rights: u64) {
        for right in rights_of(access::ALL & !rights) {
            self.0[right] = 0;
        }
    }
}

/// Domain of a thread.
pub struct Domain {
    layers: Vec<Rc<Layer>>,
    places: Places,
    /// Rights on files that some layer handles.
    files: u64,
}

impl core::fmt::Debug for Domain {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Domain").field("layers", &self.layers).finish_non_exhaustive()
    }
}

impl Domain {
    /// A domain with one more layer. E2BIG, ENOMEM.
    pub fn restricted(outer: Option<&Rc<Self>>, layer: Layer, places: &Places) -> Result<Rc<Self>> {
        let mut layers: Vec<Rc<Layer>> = outer.map_or(Vec::new(), |outer| outer.layers.clone());
        if layers.len() >= MAX_LAYERS {
            return Err(Errno::E2BIG);
        }
        let mut all = Places::default();
        if let Some(outer) = outer {
            all.add(&outer.places, None)?;
        }
        all.add(places, Some(layers.len() as u8))?;
        layers.push(Rc::new(layer));
        let files = layers.iter().fold(0, |files, layer| files | layer.files);
        Ok(Rc::new(Self { layers, places: all, files }))
    }

    /// Whether `self` is `other` or one of its ancestors.
    pub fn contains(&self, other: Option<&Self>) -> bool {
        let last = self.layers.len().wrapping_sub(1);
        match (self.layers.get(last), other.and_then(|other| other.layers.get(last))) {
            (Some(own), Some(theirs)) => Rc::ptr_eq(own, theirs),
            _ => false,
        }
    }

    /// Whether access outside of the domain is denied: a layer has `scope`, and `other` is not inside of it.
    pub fn confines(&self, other: Option<&Self>, scope: u64) -> bool {
        let layers = self.layers.iter().enumerate().filter(|(_, layer)| layer.scoped & scope != 0);
        layers.into_iter().any(|(at, layer)| {
            let theirs = other.and_then(|other| other.layers.get(at));
            !theirs.is_some_and(|theirs| Rc::ptr_eq(layer, theirs))
        })
    }

    /// Whether TCP may use a port for `right` (`LANDLOCK_ACCESS_NET_*`). EACCES.
    pub fn check_port(&self, port: u16, right: u64) -> Result<()> {
        let allows = |layer: &Rc<Layer>| {
            let rule = layer.port_rules.binary_search_by_key(&port, |(of, _)| *of);
            layer.ports & right == 0 || rule.is_ok_and(|at| layer.port_rules[at].1 & right != 0)
        };
        if self.layers.iter().all(allows) { Ok(()) } else { Err(Errno::EACCES) }
    }

    /// The layers that handle these rights, as denying all of them.
    fn denied(&self, rights: u64) -> Denied {
        let mut denied = Denied([0; RIGHTS]);
        for (at, layer) in self.layers.iter().enumerate().filter(|(_, layer)| layer.files != 0) {
            for right in rights_of((layer.files | REFER) & rights) {
                denied.0[right] |= 1 << at;
            }
        }
        denied
    }

    fn rule(&self, place: &Dentry) -> Option<&Rule> {
        self.places.0.get(&key(place.inode()))
    }

    /// The subset of these rights that the domain grants at a place.
    pub fn allowed(&self, place: &PathRef, rights: u64) -> u64 {
        let handled = if self.files == 0 { 0 } else { rights & (self.files | REFER) };
        if handled == 0 {
            return rights;
        }
        let mut denied = self.denied(handled);
        let mut at = place.clone();
        loop {
            denied.apply(self.rule(&at), handled);
            if denied.allows(handled) {
                return rights;
            }
            match at.parent() {
                Some(parent) => at = parent,
                // Files without a name are not restricted.
                None if at.is_deleted() => return rights,
                None => break,
            }
        }
        rights_of(handled).filter(|&right| denied.0[right] != 0).fold(rights, |rights, right| rights & !(1 << right))
    }

    /// Whether any layer has rules for files.
    pub fn has_rules_for_files(&self) -> bool {
        self.files != 0
    }

    /// EACCES unless all of these rights are allowed at a place.
    pub fn check(&self, place: &PathRef, rights: u64) -> Result<()> {
        if self.allowed(place, rights) == rights { Ok(()) } else { Err(Errno::EACCES) }
    }

    /// Checks whether `old` may get a name in `new_dir`, and lose its current one if it is `moved`. `replaced` is the
    /// current file of that name; `exchanged`: it gets the other name. EACCES, and EXDEV if the file would gain rights.
    pub fn check_refer(
        &self,
        old: &PathRef,
        new_dir: &PathRef,
        replaced: Option<&PathRef>,
        moved: bool,
        exchanged: bool,
    ) -> Result<()> {
        if self.files == 0 {
            return Ok(());
        }
        let mut source = 0;
        let mut target = to_make(old.inode().file_type());
        if moved {
            source |= to_remove(old);
            target |= replaced.map_or(0, to_remove);
        }
        if let Some(replaced) = replaced.filter(|_| exchanged) {
            source |= to_make(replaced.inode().file_type());
        }
        let old_dir = old.parent().unwrap_or_else(|| old.clone());
        if old_dir.same(new_dir) {
            return self.check(new_dir, source | target);
        }
        (source, target) = (source | REFER, target | REFER);
        let all = self.files | REFER;
        // Rights denied at both ends up to their common ancestor, and rights granted to the moved files themselves.
        let (mut at_source, mut at_target) = (self.denied_up_to(&old_dir, all), self.denied_up_to(new_dir, all));
        let of_own = |place: &PathRef| {
            let mut denied = self.denied(all);
            denied.apply(self.rule(place), all);
            (denied, place.inode().file_type() == FileType::Directory)
        };
        let old_own = of_own(old);
        let replaced_own = replaced.filter(|_| exchanged).map(of_own);
        let safe = no_more(&at_source, &old_own, &at_target)
            && replaced_own.as_ref().is_none_or(|own| no_more(&at_target, own, &at_source));
        at_source.keep(source);
        at_target.keep(target);
        let without_refer = |denied: &Denied, rights: u64| !denied.allows(rights & !REFER);
        match () {
            () if safe && at_source.allows(source) && at_target.allows(target) => Ok(()),
            () if without_refer(&at_source, source) || without_refer(&at_target, target) => Err(Errno::EACCES),
            () => Err(Errno::EXDEV),
        }
    }

    /// Rights denied in a directory.
    fn denied_up_to(&self, dir: &PathRef, rights: u64) -> Denied {
        let mut denied = self.denied(rights);
        let mut at = dir.clone();
        loop {
            denied.apply(self.rule(&at), rights);
            match at.parent() {
                Some(parent) => at = parent,
                None => return denied,
            }
        }
    }
}

/// Whether a moved file gains no right: rights denied at its source, without a rule for the file itself, must be denied
/// at the target too.
fn no_more(source: &Denied, (own, is_directory): &(Denied, bool), target: &Denied) -> bool {
    let rights = if *is_directory { access::ALL } else { access::OF_FILE };
    rights_of(rights).all(|right| source.0[right] & own.0[right] & !target.0[right] == 0)
}

/// The right to create a file of this type.
pub fn to_make(kind: FileType) -> u64 {
    match kind {
        FileType::Regular => access::MAKE_REG,
        FileType::Directory => access::MAKE_DIR,
        FileType::Symlink => access::MAKE_SYM,
        FileType::Fifo => access::MAKE_FIFO,
        FileType::Socket => access::MAKE_SOCK,
        FileType::CharDevice => access::MAKE_CHAR,
        FileType::BlockDevice => access::MAKE_BLOCK,
    }
}

/// The right to remove a name.
pub fn to_remove(place: &PathRef) -> u64 {
    match place.inode().file_type() {
        FileType::Directory => access::REMOVE_DIR,
        _ => access::REMOVE_FILE,
    }
}
