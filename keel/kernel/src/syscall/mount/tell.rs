//! What mounts there are: statmount(2) and listmount(2), of the caller's mount namespace.

use super::new::attributes_of;
use crate::mm::user;
use crate::task::mountns::MountNs;
use crate::task::{self, cred::cap};
use abi::layout::PAGE_SIZE;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::mem::offset_of;
use uapi::raw::general as g;
use uapi::{Errno, Result};
use vfs::attr::split_dev;
use vfs::{Mount, PathRef};

/// Size of the first version of a request.
const FIRST_SIZE: usize = 24;
/// Numbers up to this one are not those of mounts.
const BEFORE_IDS: u64 = 1 << 31;
/// Most numbers that one call lists.
const MOST_LISTED: usize = 1_000_000;
/// The parent of the caller's root.
const ROOT: u64 = u64::MAX;
/// Size of the fixed part of an answer.
const FIXED: usize = size_of::<g::statmount>();
/// What no mount here has: a subtype, options of security modules, translated ids.
const LACKING: u32 =
    g::STATMOUNT_FS_SUBTYPE | g::STATMOUNT_OPT_SEC_ARRAY | g::STATMOUNT_MNT_UIDMAP | g::STATMOUNT_MNT_GIDMAP;
/// What is known of a mount.
const SUPPORTED: u32 = g::STATMOUNT_SB_BASIC
    | g::STATMOUNT_MNT_BASIC
    | g::STATMOUNT_MNT_ROOT
    | g::STATMOUNT_MNT_POINT
    | g::STATMOUNT_FS_TYPE
    | g::STATMOUNT_MNT_NS_ID
    | g::STATMOUNT_MNT_OPTS
    | g::STATMOUNT_SB_SOURCE
    | g::STATMOUNT_OPT_ARRAY
    | LACKING
    | g::STATMOUNT_SUPPORTED_MASK;

/// `struct mnt_id_req`.
struct Request {
    mount: u64,
    param: u64,
}

impl Request {
    /// E2BIG, EFAULT, EINVAL; ENOENT: it is about another namespace.
    fn read(at: usize, seen: &Seen) -> Result<Self> {
        const SIZE: usize = size_of::<g::mnt_id_req>();
        let size = user::read::<u32>(at)? as usize;
        match size {
            _ if size > PAGE_SIZE => return Err(Errno::E2BIG),
            ..FIRST_SIZE => return Err(Errno::EINVAL),
            _ => {}
        }
        // A longer structure is fine if all that is new in it is zero, and a shorter one ends with zeros.
        let rest = user::read_array::<u8>(at.saturating_add(SIZE), size.saturating_sub(SIZE))?;
        if rest.iter().any(|&byte| byte != 0) {
            return Err(Errno::E2BIG);
        }
        let mut bytes = [0; SIZE];
        user::read_bytes(at, &mut bytes[..size.min(SIZE)])?;
        let word = |at: usize| bytes[at..].first_chunk().map_or(0, |word| u64::from_ne_bytes(*word));
        let spare = bytes[offset_of!(g::mnt_id_req, spare)..].first_chunk().map_or(0, |word| u32::from_ne_bytes(*word));
        let mount = word(offset_of!(g::mnt_id_req, mnt_id));
        let namespace = word(offset_of!(g::mnt_id_req, mnt_ns_id));
        if spare != 0 || mount <= BEFORE_IDS {
            return Err(Errno::EINVAL);
        }
        if namespace != 0 && namespace != seen.namespace.inode() {
            return Err(Errno::ENOENT);
        }
        Ok(Self { mount, param: word(offset_of!(g::mnt_id_req, param)) })
    }
}

/// What the caller sees.
struct Seen {
    namespace: Rc<MountNs>,
    root: PathRef,
}

impl Seen {
    fn by_caller() -> Self {
        task::with_current(|me| Self { namespace: me.namespaces().mount.clone(), root: me.fs().root() })
    }

    /// A mount by its number. ENOENT.
    fn find(&self, number: u64) -> Result<Rc<Mount>> {
        let mounts = self.namespace.tree().mounts()?;
        mounts.into_iter().find(|mount| mount.unique_id() == number).ok_or(Errno::ENOENT)
    }

    /// EPERM if a place is not beneath the caller's root, and the caller does not administer the namespace.
    fn check(&self, place: &PathRef) -> Result<()> {
        let administers = || task::with_current(|me| me.cred().capable_in(self.namespace.user_ns(), cap::SYS_ADMIN));
        if place.is_within(&self.root) || administers() { Ok(()) } else { Err(Errno::EPERM) }
    }
}

/// listmount(2). E2BIG, EFAULT, EINVAL, ENOENT, ENOMEM, EOVERFLOW, EPERM.
pub fn sys_listmount(request: usize, out: usize, count: usize, flags: u32) -> Result<usize> {
    if flags & !g::LISTMOUNT_REVERSE != 0 {
        return Err(Errno::EINVAL);
    }
    if count > MOST_LISTED {
        return Err(Errno::EOVERFLOW);
    }
    user::access_ok(out, count * size_of::<u64>())?;
    let seen = Seen::by_caller();
    let Request { mount: parent, param: last } = Request::read(request, &seen)?;
    if last != 0 && last <= BEFORE_IDS {
        return Err(Errno::EINVAL);
    }
    let above = if parent == ROOT { seen.root.clone() } else { PathRef::root_of(&seen.find(parent)?) };
    seen.check(&above)?;
    let mut mounts = seen.namespace.tree().mounts()?;
    if flags & g::LISTMOUNT_REVERSE != 0 {
        mounts.reverse();
        mounts.retain(|mount| last == 0 || mount.unique_id() < last);
    } else {
        mounts.retain(|mount| mount.unique_id() > last);
    }
    mounts.retain(|mount| mount.unique_id() != parent && PathRef::root_of(mount).is_within(&above));
    mounts.truncate(count);
    for (i, mount) in mounts.iter().enumerate() {
        user::write(out + i * size_of::<u64>(), &mount.unique_id())?;
    }
    Ok(mounts.len())
}

/// `struct statmount` with its strings.
struct Answer {
    fixed: [u8; FIXED],
    strings: Vec<u8>,
    mask: u64,
    /// Bytes that the caller has room for.
    room: usize,
}

impl Answer {
    fn put(&mut self, at: usize, bytes: &[u8]) {
        if let Some(place) = self.fixed.get_mut(at..at + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    }

    /// A string, whose offset goes to `at`; an empty one is left out. EOVERFLOW.
    fn put_string(&mut self, what: u32, at: usize, string: &[u8]) -> Result<()> {
        if self.strings.is_empty() {
            // What is not set is an empty string.
            vfs::memory::append(&mut self.strings, &[0])?;
        }
        if string.is_empty() {
            return Ok(());
        }
        let start = self.strings.len() as u32;
        vfs::memory::append(&mut self.strings, string)?;
        if FIXED + self.strings.len() >= self.room {
            return Err(Errno::EOVERFLOW);
        }
        vfs::memory::append(&mut self.strings, &[0])?;
        self.put(at, &start.to_ne_bytes());
        self.mask |= u64::from(what);
        Ok(())
    }
}

/// Sets fields of an answer.
macro_rules! set {
    ($answer:ident, $what:expr, $($field:ident: $value:expr),+) => {{
        $($answer.put(offset_of!(g::statmount, $field), &$value.to_ne_bytes());)+
        $answer.mask |= u64::from($what);
    }};
}

/// Sets what programs wanted of the file system and the mount.
fn describe(answer: &mut Answer, mount: &Rc<Mount>, wanted: u64) -> Result<()> {
    let wants = |what: u32| wanted & u64::from(what) != 0;
    let fs = mount.fs();
    if wants(g::STATMOUNT_SB_BASIC) {
        let (major, minor) = split_dev(fs.dev());
        let flags = if fs.is_read_only() { g::MS_RDONLY } else { 0 };
        let magic = fs.root().inode().statfs()?.kind;
        set!(answer, g::STATMOUNT_SB_BASIC, sb_dev_major: major, sb_dev_minor: minor, sb_magic: magic, sb_flags: flags);
    }
    if wants(g::STATMOUNT_MNT_BASIC) {
        let parent = mount.place().map_or_else(|| mount.clone(), |place| place.mount().clone());
        let mut propagation = 0;
        for (has, flag) in [
            (mount.group_id().is_some(), g::MS_SHARED),
            (mount.master_id().is_some(), g::MS_SLAVE),
            (mount.is_unbindable(), g::MS_UNBINDABLE),
        ] {
            propagation |= if has { flag } else { 0 };
        }
        let propagation = u64::from(if propagation == 0 { g::MS_PRIVATE } else { propagation });
        let (group, master) = (mount.group_id().unwrap_or(0), mount.master_id().unwrap_or(0));
        set!(answer, g::STATMOUNT_MNT_BASIC,
            mnt_id: mount.unique_id(), mnt_parent_id: parent.unique_id(), mnt_id_old: mount.id, mnt_parent_id_old: parent.id,
            mnt_attr: attributes_of(mount.flags()), mnt_propagation: propagation,
            mnt_peer_group: u64::from(group), mnt_master: u64::from(master));
    }
    Ok(())
}

/// Sets the strings that programs wanted.
fn name(answer: &mut Answer, mount: &Rc<Mount>, seen: &Seen, wanted: u64) -> Result<()> {
    let wants = |what: u32| wanted & u64::from(what) != 0;
    let fs = mount.fs();
    let options = fs.options.borrow().clone();
    let options = options.strip_prefix(b",").unwrap_or(&options);
    if wants(g::STATMOUNT_FS_TYPE) {
        answer.put_string(g::STATMOUNT_FS_TYPE, offset_of!(g::statmount, fs_type), fs.kind.as_bytes())?;
    }
    if wants(g::STATMOUNT_MNT_ROOT) {
        let path = mount.root().path_in_fs()?;
        answer.put_string(g::STATMOUNT_MNT_ROOT, offset_of!(g::statmount, mnt_root), &path)?;
    }
    if wants(g::STATMOUNT_MNT_POINT) {
        let place = PathRef::root_of(mount);
        let path = if place.is_within(&seen.root) { place.path(Some(&seen.root))? } else { Vec::new() };
        answer.put_string(g::STATMOUNT_MNT_POINT, offset_of!(g::statmount, mnt_point), &path)?;
    }
    if wants(g::STATMOUNT_MNT_OPTS) {
        answer.put_string(g::STATMOUNT_MNT_OPTS, offset_of!(g::statmount, mnt_opts), options)?;
    }
    if wants(g::STATMOUNT_OPT_ARRAY) {
        let mut list = vfs::memory::copy(options)?;
        list.iter_mut().filter(|byte| **byte == b',').for_each(|byte| *byte = 0);
        let count = if list.is_empty() { 0 } else { list.split(|byte| *byte == 0).count() as u32 };
        answer.put_string(g::STATMOUNT_OPT_ARRAY, offset_of!(g::statmount, opt_array), &list)?;
        answer.put(offset_of!(g::statmount, opt_num), &count.to_ne_bytes());
    }
    if wants(g::STATMOUNT_SB_SOURCE) {
        answer.put_string(g::STATMOUNT_SB_SOURCE, offset_of!(g::statmount, sb_source), &mount.source)?;
    }
    if wants(LACKING) {
        answer.put_string(0, 0, b"")?;
    }
    Ok(())
}

/// statmount(2). E2BIG, EFAULT, EINVAL, ENOENT, ENOMEM, EOVERFLOW, EPERM.
pub fn sys_statmount(request: usize, out: usize, room: usize, flags: u32) -> Result<()> {
    if flags != 0 {
        return Err(Errno::EINVAL);
    }
    let seen = Seen::by_caller();
    let Request { mount, param: wanted } = Request::read(request, &seen)?;
    user::access_ok(out, room)?;
    let mount = seen.find(mount)?;
    seen.check(&PathRef::root_of(&mount))?;
    let mut answer = Answer { fixed: [0; FIXED], strings: Vec::new(), mask: 0, room };
    describe(&mut answer, &mount, wanted)?;
    name(&mut answer, &mount, &seen, wanted)?;
    if wanted & u64::from(g::STATMOUNT_MNT_NS_ID) != 0 {
        set!(answer, g::STATMOUNT_MNT_NS_ID, mnt_ns_id: seen.namespace.inode());
    }
    if wanted & u64::from(g::STATMOUNT_SUPPORTED_MASK) != 0 {
        set!(answer, g::STATMOUNT_SUPPORTED_MASK, supported_mask: u64::from(SUPPORTED));
    }
    let copied = FIXED.min(room);
    let size = (copied + answer.strings.len()) as u32;
    answer.put(offset_of!(g::statmount, size), &size.to_ne_bytes());
    let mask = answer.mask;
    answer.put(offset_of!(g::statmount, mask), &mask.to_ne_bytes());
    if !answer.strings.is_empty() {
        user::write_bytes(out.checked_add(FIXED).ok_or(Errno::EFAULT)?, &answer.strings)?;
    }
    user::write_bytes(out, &answer.fixed[..copied])
}
