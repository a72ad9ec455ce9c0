//! Mounts by descriptors: open_tree(2), move_mount(2), fsopen(2), fsconfig(2), fsmount(2), fspick(2), mount_setattr(2).

use super::kinds::{self, Kind};
use super::{Admin, old};
use crate::file::place::PathFile;
use crate::file::{Abilities, File, FileOps, anon};
use crate::mm::user;
use crate::task::descriptors;
use crate::task::path::{self, Caller};
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::any::Any;
use core::cell::{Cell, RefCell};
use uapi::raw::general as g;
use uapi::{Errno, Result};
use vfs::mount::{FileSystem, Loose, Namespace, change, flags, namespace};
use vfs::{Attr, Mount, PathRef};

/// Longest value of an option, as in Linux.
const VALUE_MAX: usize = 256;

/// What is set up for fsmount(2), or picked to be changed.
struct Context {
    /// `None`: one that was picked, whose options stay or that programs cannot mount.
    kind: Option<Kind>,
    source: RefCell<Option<Vec<u8>>>,
    options: RefCell<Vec<u8>>,
    read_only: Cell<bool>,
    /// Made by `FSCONFIG_CMD_CREATE`, or picked.
    fs: RefCell<Option<Rc<FileSystem>>>,
    is_picked: bool,
    is_mounted: Cell<bool>,
}

impl FileOps for Context {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn abilities(&self) -> Abilities {
        Abilities::READ
    }

    fn attr(&self) -> Result<Attr> {
        Ok(anon::anon_attr())
    }

    /// Messages about what failed, of which there are none.
    fn read(&self, _file: &File, _dst: &mut dyn vfs::Dst) -> Result<usize> {
        Err(Errno::ENODATA)
    }

    fn link_name(&self) -> Vec<u8> {
        b"anon_inode:[fscontext]".to_vec()
    }
}

impl Context {
    fn install(self, is_closed_on_exec: bool) -> Result<i32> {
        let file = File::new(Rc::new(self), g::O_RDWR, None);
        descriptors::install(file, if is_closed_on_exec { g::O_CLOEXEC } else { 0 })
    }
}

/// fsopen(2).
pub fn sys_fsopen(kind: usize, given: u32) -> Result<i32> {
    Admin::current()?;
    if given & !g::FSOPEN_CLOEXEC != 0 {
        return Err(Errno::EINVAL);
    }
    let kind = Kind::named(&user::read_cstr(kind, abi::layout::PAGE_SIZE)?)?;
    let context = Context {
        kind: Some(kind),
        source: RefCell::default(),
        options: RefCell::default(),
        read_only: Cell::new(false),
        fs: RefCell::default(),
        is_picked: false,
        is_mounted: Cell::new(false),
    };
    context.install(given & g::FSOPEN_CLOEXEC != 0)
}

/// fspick(2).
pub fn sys_fspick(fd: i32, name: usize, given: u32) -> Result<i32> {
    const CLOEXEC: u32 = 1;
    const NOFOLLOW: u32 = 2;
    const EMPTY_PATH: u32 = 8;
    let admin = Admin::current()?;
    path::check_flags(given, 0xf)?;
    let mut at = if given & NOFOLLOW != 0 { g::AT_SYMLINK_NOFOLLOW } else { 0 };
    at |= if given & EMPTY_PATH != 0 { g::AT_EMPTY_PATH } else { 0 };
    let place = admin.caller.resolve_at(fd, &path::read(name)?, at)?.covered();
    if !place.is_mount_root() {
        return Err(Errno::EINVAL);
    }
    let fs = place.mount().fs();
    let context = Context {
        kind: Kind::named(fs.kind.as_bytes()).ok().filter(|kind| *kind != Kind::Overlay),
        source: RefCell::default(),
        options: RefCell::default(),
        read_only: Cell::new(fs.is_read_only()),
        fs: RefCell::new(Some(fs.clone())),
        is_picked: true,
        is_mounted: Cell::new(false),
    };
    context.install(given & CLOEXEC != 0)
}

/// fsconfig(2).
pub fn sys_fsconfig(fd: i32, command: u32, key: usize, value: usize, aux: i32) -> Result<()> {
    const SET_FLAG: u32 = 0;
    const SET_STRING: u32 = 1;
    const SET_BINARY: u32 = 2;
    const SET_FD: u32 = 5;
    const CREATE: u32 = 6;
    const RECONFIGURE: u32 = 7;
    const CREATE_EXCLUSIVE: u32 = 8;
    if fd < 0 {
        return Err(Errno::EINVAL);
    }
    let is_valid = match command {
        SET_FLAG => key != 0 && value == 0 && aux == 0,
        SET_STRING => key != 0 && value != 0 && aux == 0,
        SET_BINARY => key != 0 && value != 0 && aux > 0 && aux <= 1 << 20,
        3 | 4 => key != 0 && value != 0 && (aux == g::AT_FDCWD || aux >= 0),
        SET_FD => key != 0 && value == 0 && aux >= 0,
        CREATE | RECONFIGURE | CREATE_EXCLUSIVE => key == 0 && value == 0 && aux == 0,
        _ => return Err(Errno::EOPNOTSUPP),
    };
    if !is_valid {
        return Err(Errno::EINVAL);
    }
    let file = descriptors::current_file(fd)?;
    let context = file.downcast::<Context>().ok_or(Errno::EINVAL)?;
    let is_made = context.fs.borrow().is_some() && !context.is_picked;
    match command {
        CREATE | CREATE_EXCLUSIVE => {
            if is_made || context.is_picked {
                return Err(Errno::EBUSY);
            }
            let options = context.options.borrow().clone();
            let fs = kinds::make(context.kind.ok_or(Errno::ENODEV)?, &options, &Admin::current()?)?;
            fs.set_read_only(context.read_only.get() || fs.is_fixed.get());
            context.fs.replace(Some(fs));
            Ok(())
        }
        RECONFIGURE => {
            let fs = context.fs.borrow().clone().filter(|_| context.is_picked).ok_or(Errno::EBUSY)?;
            let options = context.options.take();
            kinds::reconfigure(&fs, context.read_only.get(), &options)
        }
        _ if is_made => Err(Errno::EBUSY),
        SET_FLAG | SET_STRING => {
            let key = option_text(key)?;
            let value = if command == SET_STRING { Some(option_text(value)?) } else { None };
            set(context, &key, value.as_deref())
        }
        _ => Err(Errno::EINVAL),
    }
}

/// A key or a value. EFAULT, EINVAL.
fn option_text(address: usize) -> Result<Vec<u8>> {
    let read = user::read_cstr(address, VALUE_MAX);
    read.map_err(|errno| if errno == Errno::ENAMETOOLONG { Errno::EINVAL } else { errno })
}

fn set(context: &Context, key: &[u8], value: Option<&[u8]>) -> Result<()> {
    match (key, value) {
        (b"source", Some(source)) => {
            if context.source.borrow().is_some() {
                return Err(Errno::EINVAL);
            }
            context.source.replace(Some(source.to_vec()));
        }
        (b"ro", None) => context.read_only.set(true),
        (b"rw", None) => context.read_only.set(false),
        _ => {
            let mut one = vfs::memory::copy(key)?;
            if let Some(value) = value {
                vfs::memory::append(&mut one, b"=")?;
                vfs::memory::append(&mut one, value)?;
            }
            kinds::check_options(context.kind.ok_or(Errno::EINVAL)?, &one)?;
            let mut options = context.options.borrow_mut();
            vfs::memory::append(&mut options, &one)?;
            vfs::memory::append(&mut options, b",")?;
        }
    }
    Ok(())
}

/// Flags of a mount from the attributes of mount_setattr(2). EINVAL.
fn flags_of(attributes: u64) -> Result<u32> {
    let has = |attribute: u32| attributes & u64::from(attribute) != 0;
    let mut mount = 0;
    for (attribute, flag) in ATTRIBUTES {
        if has(attribute) {
            mount |= flag;
        }
    }
    mount |= match attributes as u32 & g::MOUNT_ATTR__ATIME {
        g::MOUNT_ATTR_RELATIME => flags::RELATIME,
        g::MOUNT_ATTR_NOATIME => flags::NO_ATIME,
        g::MOUNT_ATTR_STRICTATIME => 0,
        _ => return Err(Errno::EINVAL),
    };
    Ok(mount)
}

/// Attributes of statmount(2) from the flags of a mount.
pub(super) fn attributes_of(mount: u32) -> u64 {
    let set = ATTRIBUTES.iter().filter(|(_, flag)| mount & flag != 0);
    let simple = set.fold(0, |all, (attribute, _)| all | attribute);
    let times = match mount & (flags::RELATIME | flags::NO_ATIME) {
        0 => g::MOUNT_ATTR_STRICTATIME,
        flags::NO_ATIME => g::MOUNT_ATTR_NOATIME,
        _ => g::MOUNT_ATTR_RELATIME,
    };
    u64::from(simple | times)
}

/// Attributes that are one flag.
const ATTRIBUTES: [(u32, u32); 6] = [
    (g::MOUNT_ATTR_RDONLY, flags::READ_ONLY),
    (g::MOUNT_ATTR_NOSUID, flags::NO_SUID),
    (g::MOUNT_ATTR_NODEV, flags::NO_DEV),
    (g::MOUNT_ATTR_NOEXEC, flags::NO_EXEC),
    (g::MOUNT_ATTR_NODIRATIME, flags::NO_DIR_ATIME),
    (g::MOUNT_ATTR_NOSYMFOLLOW, flags::NO_SYMFOLLOW),
];
/// All attributes that fsmount(2) takes.
const SIMPLE: u64 = {
    let (mut all, mut i) = (g::MOUNT_ATTR__ATIME as u64, 0);
    while i < ATTRIBUTES.len() {
        all |= ATTRIBUTES[i].0 as u64;
        i += 1;
    }
    all
};

/// A descriptor of the root of a tree of mounts, which goes with it unless it is moved elsewhere.
fn install(tree: Loose, is_closed_on_exec: bool) -> Result<i32> {
    let place = PathRef::root_of(tree.top());
    let holder = Namespace::anonymous(tree)?;
    let file = File::new(PathFile::holding(place.inode().clone(), holder), g::O_PATH, Some(place));
    descriptors::install(file, if is_closed_on_exec { g::O_CLOEXEC } else { 0 })
}

/// fsmount(2).
pub fn sys_fsmount(fd: i32, given: u32, attributes: u32) -> Result<i32> {
    const CLOEXEC: u32 = 1;
    Admin::current()?;
    path::check_flags(given, CLOEXEC)?;
    if u64::from(attributes) & !SIMPLE != 0 {
        return Err(Errno::EINVAL);
    }
    let mount = flags_of(attributes.into())?;
    let file = descriptors::current_file(fd)?;
    let context = file.downcast::<Context>().ok_or(Errno::EINVAL)?;
    let fs = context.fs.borrow().clone().ok_or(Errno::EINVAL)?;
    if context.is_picked || context.is_mounted.replace(true) {
        return Err(Errno::EBUSY);
    }
    let source = context.source.take().unwrap_or_else(|| b"none".to_vec());
    install(Loose::of(&fs, namespace::name(&source), mount)?, given & CLOEXEC != 0)
}

/// open_tree(2).
pub fn sys_open_tree(fd: i32, name: usize, given: u32) -> Result<i32> {
    let place = tree_place(fd, name, given)?;
    open_tree(place, given, None)
}

fn tree_place(fd: i32, name: usize, given: u32) -> Result<PathRef> {
    const AT: u32 = g::AT_EMPTY_PATH | g::AT_NO_AUTOMOUNT | g::AT_RECURSIVE | g::AT_SYMLINK_NOFOLLOW;
    path::check_flags(given, AT | g::OPEN_TREE_CLONE | g::OPEN_TREE_CLOEXEC)?;
    if given & (g::AT_RECURSIVE | g::OPEN_TREE_CLONE) == g::AT_RECURSIVE {
        return Err(Errno::EINVAL);
    }
    if given & g::OPEN_TREE_CLONE != 0 {
        Admin::current()?;
    }
    Caller::current().resolve_at(fd, &path::read(name)?, given & (g::AT_EMPTY_PATH | g::AT_SYMLINK_NOFOLLOW))
}

fn open_tree(place: PathRef, given: u32, change: Option<&Change>) -> Result<i32> {
    let is_closed_on_exec = given & g::OPEN_TREE_CLOEXEC != 0;
    if given & g::OPEN_TREE_CLONE == 0 {
        if let Some(change) = change {
            change.apply(&Admin::current()?, &place, given & g::AT_RECURSIVE != 0)?;
        }
        let flags = if is_closed_on_exec { g::O_CLOEXEC } else { 0 };
        let file = File::new(PathFile::new(place.inode().clone()), g::O_PATH, Some(place));
        return descriptors::install(file, flags);
    }
    let admin = Admin::current()?;
    let tree = admin.copied(&place, given & g::AT_RECURSIVE != 0, admin.may_use(place.mount()))?;
    if let Some(change) = change {
        change.apply_to(&tree.top().affected(given & g::AT_RECURSIVE != 0)?)?;
    }
    install(tree, is_closed_on_exec)
}

/// move_mount(2).
pub fn sys_move_mount(from_fd: i32, from: usize, to_fd: i32, to: usize, given: u32) -> Result<()> {
    let admin = Admin::current()?;
    path::check_flags(given, g::MOVE_MOUNT__MASK)?;
    // Joining groups, and mounting beneath others.
    if given & (g::MOVE_MOUNT_SET_GROUP | g::MOVE_MOUNT_BENEATH) != 0 {
        return Err(Errno::EINVAL);
    }
    let resolve = |fd, name, follows: u32, empty: u32| {
        let mut at = if given & follows == 0 { g::AT_SYMLINK_NOFOLLOW } else { 0 };
        at |= if given & empty != 0 { g::AT_EMPTY_PATH } else { 0 };
        admin.caller.resolve_at(fd, &path::read_at(name, at)?, at)
    };
    let from = resolve(from_fd, from, g::MOVE_MOUNT_F_SYMLINKS, g::MOVE_MOUNT_F_EMPTY_PATH)?;
    let to = resolve(to_fd, to, g::MOVE_MOUNT_T_SYMLINKS, g::MOVE_MOUNT_T_EMPTY_PATH)?;
    change::shift(&from, &to.covered(), admin.tree())
}

/// What mount_setattr(2) changes.
struct Change {
    set: u32,
    clear: u32,
    propagation: u32,
}

impl Change {
    /// From `struct mount_attr`; `None`: nothing. E2BIG, EFAULT, EINVAL.
    fn read(at: usize, size: usize) -> Result<Option<Self>> {
        const SIZE: usize = 32;
        path::check_struct_size(at, size, SIZE)?;
        let [set, clear, propagation, _user_ns] = user::read::<[u64; 4]>(at)?;
        if [set, clear, propagation] == [0; 3] {
            return Ok(None);
        }
        let kind = u32::try_from(propagation).map_err(|_| Errno::EINVAL)?;
        if kind & !old::PROPAGATION != 0 || kind.count_ones() > 1 {
            return Err(Errno::EINVAL);
        }
        // Ids are not translated here.
        if (set | clear) & !SIMPLE != 0 {
            return Err(Errno::EINVAL);
        }
        let times = u64::from(g::MOUNT_ATTR__ATIME);
        let is_about_times = clear & times != 0;
        if is_about_times && clear & times != times || !is_about_times && set & times != 0 {
            return Err(Errno::EINVAL);
        }
        let all = flags_of(set)?;
        let simple = |attributes: u64| {
            let named = ATTRIBUTES.iter().filter(|(attribute, _)| attributes & u64::from(*attribute) != 0);
            named.fold(0, |all, (_, flag)| all | flag)
        };
        let (set, clear) = match is_about_times {
            true => (all, simple(clear) | flags::RELATIME | flags::NO_ATIME),
            false => (simple(set), simple(clear)),
        };
        Ok(Some(Self { set, clear, propagation: kind }))
    }

    /// Changes a mount, or a tree of them. EINVAL: it is none, or not of this namespace; EPERM; EBUSY: it would be read-only
    /// while files are open for writing.
    fn apply(&self, admin: &Admin, place: &PathRef, recursive: bool) -> Result<()> {
        if !place.is_mount_root() || !admin.may_use(place.mount()) {
            return Err(Errno::EINVAL);
        }
        self.apply_to(&place.mount().affected(recursive)?)?;
        admin.tree().changed();
        Ok(())
    }

    /// All or none.
    fn apply_to(&self, mounts: &[Rc<Mount>]) -> Result<()> {
        let wanted = |mount: &Mount| mount.flags() & !self.clear | self.set;
        for mount in mounts {
            mount.check_flags(wanted(mount))?;
            mount.check_writers(wanted(mount))?;
        }
        for mount in mounts {
            mount.set_flags(wanted(mount))?;
            if self.propagation != 0 {
                old::propagate_as(mount, self.propagation);
            }
        }
        Ok(())
    }
}

/// mount_setattr(2).
pub fn sys_mount_setattr(fd: i32, name: usize, given: u32, at: usize, size: usize) -> Result<()> {
    path::check_flags(given, g::AT_EMPTY_PATH | g::AT_RECURSIVE | g::AT_SYMLINK_NOFOLLOW | g::AT_NO_AUTOMOUNT)?;
    let admin = Admin::current()?;
    let Some(change) = Change::read(at, size)? else { return Ok(()) };
    let name = path::read_at(name, given)?;
    let place = admin.caller.resolve_at(fd, &name, given & (g::AT_EMPTY_PATH | g::AT_SYMLINK_NOFOLLOW))?;
    change.apply(&admin, &place, given & g::AT_RECURSIVE != 0)
}

/// open_tree_attr(2).
pub fn sys_open_tree_attr(fd: i32, name: usize, given: u32, at: usize, size: usize) -> Result<i32> {
    if at == 0 && size != 0 {
        return Err(Errno::EINVAL);
    }
    let change = if at == 0 { None } else { Change::read(at, size)? };
    let place = tree_place(fd, name, given)?;
    open_tree(place, given, change.as_ref())
}
