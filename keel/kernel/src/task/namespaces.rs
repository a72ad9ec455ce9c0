//! Namespaces of a thread, namespaces(7): mount, UTS, IPC, network and cgroup namespaces, and the PID namespace of its children.
//! The user namespace belongs to the [credentials](crate::cred). The pod has one time namespace.

use super::mountns::{self, MountNs};
use super::pidns::{self, PidNs};
use super::uts::Uts;
use super::{FsContext, Task, cred::cap};
use crate::cred::{Cred, UserNs, userns};
use crate::ipc;
use crate::socket::netns::NetNs;
use alloc::rc::Rc;
use core::cell::RefCell;
use hal::cell::Global;
use uapi::raw::general as g;
use uapi::{Errno, Result};

/// All types that clone(2), unshare(2) and setns(2) accept.
pub const ALL_TYPES: u32 = {
    let (mut all, mut i) = (0, 0);
    while i < TYPES.len() {
        all |= TYPES[i].1;
        i += 1;
    }
    all
};

/// Types by name, as clone(2) has them.
pub const TYPES: [(&str, u32); 8] = [
    ("cgroup", g::CLONE_NEWCGROUP),
    ("ipc", g::CLONE_NEWIPC),
    ("mnt", g::CLONE_NEWNS),
    ("net", g::CLONE_NEWNET),
    ("pid", g::CLONE_NEWPID),
    ("time", g::CLONE_NEWTIME),
    ("user", g::CLONE_NEWUSER),
    ("uts", g::CLONE_NEWUTS),
];

/// Types of which a pod may have several.
const SUPPORTED: u32 = ALL_TYPES & !g::CLONE_NEWTIME;

/// A namespace that is only an identity and an owner.
#[derive(Debug)]
pub struct Plain {
    inode: u64,
    user_ns: Rc<UserNs>,
}

impl Plain {
    /// A namespace with a given inode number.
    pub fn new(inode: u64, user_ns: Rc<UserNs>) -> Rc<Self> {
        Rc::new(Self { inode, user_ns })
    }

    /// The user namespace that it belongs to.
    pub fn user_ns(&self) -> &Rc<UserNs> {
        &self.user_ns
    }
}

/// The namespaces of a thread but for its user namespace. Immutable, replaced as a whole.
#[derive(Clone, Debug)]
pub struct Namespaces {
    /// Host and domain name.
    pub uts: Rc<Uts>,
    /// System V IPC and message queues.
    pub ipc: Rc<ipc::Namespace>,
    /// What paths lead through.
    pub mount: Rc<MountNs>,
    /// Where its next sockets belong.
    pub net: Rc<NetNs>,
    /// The root that `/proc/PID/cgroup` shows.
    pub cgroup: Rc<Plain>,
    /// PID namespace of its next children; `None`: the first. Its own is [`super::Process::pid_ns`].
    pub pid_for_children: Option<Rc<PidNs>>,
}

static FIRST: Global<RefCell<Option<Rc<Namespaces>>>> = Global::new(RefCell::new(None));

impl Namespaces {
    /// The first of each type.
    pub fn first() -> Rc<Self> {
        if let Some(first) = &*FIRST.borrow() {
            return first.clone();
        }
        let cgroup = Plain::new(4_026_531_835, UserNs::first());
        let (uts, ipc, mount, net) = (Uts::first(), ipc::Namespace::first(), MountNs::first(), NetNs::first());
        let first = Rc::new(Self { uts, ipc, mount, net, cgroup, pid_for_children: None });
        FIRST.replace(Some(first.clone()));
        first
    }

    /// Those of the pod's first program, whose PID namespace is `pids`.
    pub fn of_first(pids: Option<Rc<PidNs>>) -> Rc<Self> {
        let first = Self::first();
        if pids.is_none() { first } else { Rc::new(Self { pid_for_children: pids, ..(*first).clone() }) }
    }

    /// Those of a thread that gets new ones of the types in `flags`, which belong to `user_ns`, and has the directories `fs`
    /// alone. EPERM: the caller has no CAP_SYS_ADMIN there; ENOMEM, ENOSPC.
    pub fn create(&self, flags: u32, caller: &Cred, user_ns: &Rc<UserNs>, fs: &FsContext) -> Result<Rc<Self>> {
        if !caller.capable_in(user_ns, cap::SYS_ADMIN) {
            return Err(Errno::EPERM);
        }
        let mut new = self.clone();
        if flags & g::CLONE_NEWUTS != 0 {
            new.uts = self.uts.copy(user_ns.clone());
        }
        if flags & g::CLONE_NEWIPC != 0 {
            new.ipc = ipc::Namespace::create(user_ns.clone());
        }
        if flags & g::CLONE_NEWPID != 0 {
            new.pid_for_children = Some(PidNs::create(self.pid_for_children.clone(), user_ns.clone())?);
        }
        if flags & g::CLONE_NEWCGROUP != 0 {
            new.cgroup = Plain::new(userns::new_inode(), user_ns.clone());
        }
        if flags & g::CLONE_NEWNET != 0 {
            new.net = NetNs::create(user_ns.clone())?;
        }
        if flags & g::CLONE_NEWNS != 0 {
            new.mount = self.mount.copy(user_ns.clone(), fs)?;
        }
        Ok(Rc::new(new))
    }
}

/// The network namespace of the running thread; during boot, the first.
pub fn net_here() -> Rc<NetNs> {
    super::try_current().and_then(|me| me.try_namespaces()).map_or_else(NetNs::first, |all| all.net.clone())
}

/// Checks the types of namespaces that clone(2) or unshare(2) shall make. EPERM: a pod has only one of a type.
pub fn check(flags: u32) -> Result<()> {
    if flags & ALL_TYPES & !SUPPORTED != 0 { Err(Errno::EPERM) } else { Ok(()) }
}

/// What clone(2) or unshare(2) with these flags gives a thread: new credentials with `CLONE_NEWUSER`, new namespaces of other
/// types. With `CLONE_NEWNS`, `fs` is the thread's alone, and moves to the new namespace. EPERM, ENOSPC.
pub fn prepare(me: &Task, flags: u32, fs: &FsContext) -> Result<(Option<Cred>, Option<Rc<Namespaces>>)> {
    check(flags)?;
    let cred = me.cred();
    let new_cred = if flags & g::CLONE_NEWUSER != 0 { Some(enter_new_user(me, &cred)?) } else { None };
    let others = flags & ALL_TYPES & !g::CLONE_NEWUSER;
    let namespaces = if others == 0 {
        None
    } else {
        let user_ns = new_cred.as_ref().map_or(&cred.user_ns, |new| &new.user_ns);
        let caller = new_cred.as_ref().unwrap_or(&cred);
        Some(me.namespaces().create(others, caller, user_ns, fs)?)
    };
    Ok((new_cred, namespaces))
}

/// Credentials in a new user namespace. EPERM: the caller is in a chroot(2), or its ids are not mapped; ENOSPC.
fn enter_new_user(me: &Task, cred: &Cred) -> Result<Cred> {
    if mountns::is_chrooted(me) {
        return Err(Errno::EPERM);
    }
    let mut new = cred.clone();
    new.enter(UserNs::create(cred)?);
    Ok(new)
}

/// A namespace as a file names it.
#[derive(Clone, Debug)]
pub enum Any {
    /// cgroup_namespaces(7).
    Cgroup(Rc<Plain>),
    /// ipc_namespaces(7).
    Ipc(Rc<ipc::Namespace>),
    /// mount_namespaces(7).
    Mount(Rc<MountNs>),
    /// network_namespaces(7).
    Network(Rc<NetNs>),
    /// pid_namespaces(7); `None`: the first.
    Pid(Option<Rc<PidNs>>),
    /// time_namespaces(7): the only one.
    Time,
    /// user_namespaces(7).
    User(Rc<UserNs>),
    /// uts_namespaces(7).
    Uts(Rc<Uts>),
}

impl Any {
    /// The namespace of a thread by the name that it has in `/proc/PID/ns`; `None`: there is no such type, or the thread has
    /// ended.
    pub fn of(task: &Task, name: &[u8]) -> Option<Self> {
        let all = task.try_namespaces()?;
        match name {
            b"pid" => Some(Self::Pid(task.process().pid_ns().cloned())),
            // Before the first process is there, the link leads nowhere.
            b"pid_for_children" => all
                .pid_for_children
                .as_ref()
                .is_none_or(|ns| ns.init() != 0)
                .then(|| Self::Pid(all.pid_for_children.clone())),
            _ => Self::among(&all, &task.cred().user_ns, name),
        }
    }

    /// The namespace of the pod's first program, by the same names.
    pub fn first(name: &[u8]) -> Option<Self> {
        Self::among(&Namespaces::first(), &UserNs::first(), name)
    }

    fn among(all: &Namespaces, user: &Rc<UserNs>, name: &[u8]) -> Option<Self> {
        Some(match name {
            b"cgroup" => Self::Cgroup(all.cgroup.clone()),
            b"ipc" => Self::Ipc(all.ipc.clone()),
            b"mnt" => Self::Mount(all.mount.clone()),
            b"net" => Self::Network(all.net.clone()),
            b"pid" | b"pid_for_children" => Self::Pid(None),
            b"time" | b"time_for_children" => Self::Time,
            b"user" => Self::User(user.clone()),
            b"uts" => Self::Uts(all.uts.clone()),
            _ => return None,
        })
    }

    /// Its type, as clone(2) has it.
    pub fn flag(&self) -> u32 {
        match self {
            Self::Cgroup(_) => g::CLONE_NEWCGROUP,
            Self::Ipc(_) => g::CLONE_NEWIPC,
            Self::Mount(_) => g::CLONE_NEWNS,
            Self::Network(_) => g::CLONE_NEWNET,
            Self::Pid(_) => g::CLONE_NEWPID,
            Self::Time => g::CLONE_NEWTIME,
            Self::User(_) => g::CLONE_NEWUSER,
            Self::Uts(_) => g::CLONE_NEWUTS,
        }
    }

    /// Name of its type, as the target of the link begins.
    pub fn kind(&self) -> &'static str {
        TYPES.iter().find(|(_, flag)| *flag == self.flag()).map_or("", |(name, _)| name)
    }

    /// Its inode number; Linux's for those of the first program.
    pub fn inode(&self) -> u64 {
        match self {
            Self::Cgroup(ns) => ns.inode,
            Self::Ipc(ns) => ns.inode(),
            Self::Mount(ns) => ns.inode(),
            Self::Network(ns) => ns.inode(),
            Self::Pid(ns) => ns.as_ref().map_or(pidns::FIRST_INODE, |ns| ns.inode()),
            Self::Time => 4_026_531_834,
            Self::User(ns) => ns.inode(),
            Self::Uts(ns) => ns.inode(),
        }
    }

    /// The user namespace that it belongs to; of a user namespace, its parent.
    pub fn owner(&self) -> Option<Rc<UserNs>> {
        Some(match self {
            Self::Cgroup(ns) => ns.user_ns.clone(),
            Self::Ipc(ns) => ns.user_ns().clone(),
            Self::Uts(ns) => ns.user_ns().clone(),
            Self::User(ns) => ns.parent()?.clone(),
            Self::Pid(Some(ns)) => ns.user_ns().clone(),
            Self::Mount(ns) => ns.user_ns().clone(),
            Self::Network(ns) => ns.user_ns().clone(),
            Self::Pid(None) | Self::Time => UserNs::first(),
        })
    }
}

/// setns(2): `me` joins these namespaces, the user namespace first. EINVAL: its own user namespace, or several threads share
/// what must not be shared; EPERM.
pub fn join(me: &Rc<Task>, wanted: &[Any]) -> Result<()> {
    let old = me.cred();
    let mut cred = None;
    for any in wanted {
        let Any::User(target) = any else { continue };
        if Rc::ptr_eq(target, &old.user_ns) {
            return Err(Errno::EINVAL);
        }
        // A handle here, and the thread's own.
        if me.process().thread_count() != 1 || Rc::strong_count(&me.fs()) > 2 {
            return Err(Errno::EINVAL);
        }
        if !old.capable_in(target, cap::SYS_ADMIN) {
            return Err(Errno::EPERM);
        }
        let mut new = (*old).clone();
        new.enter(target.clone());
        cred = Some(new);
    }
    let acting = cred.as_ref().unwrap_or(&old);
    let mut namespaces = (*me.namespaces()).clone();
    let mut root = None;
    for any in wanted {
        let Some(owner) = any.owner() else { continue };
        if matches!(any, Any::User(_)) {
            continue;
        }
        if !acting.capable_in(&owner, cap::SYS_ADMIN) || !acting.capable_here(cap::SYS_ADMIN) {
            return Err(Errno::EPERM);
        }
        match any {
            Any::Cgroup(ns) => namespaces.cgroup = ns.clone(),
            Any::Ipc(ns) => namespaces.ipc = ns.clone(),
            Any::Uts(ns) => namespaces.uts = ns.clone(),
            Any::Pid(ns) => {
                // Only its own, and those within: processes never leave theirs upwards.
                let is_below = match (me.process().pid_ns(), ns) {
                    (None, _) => true,
                    (Some(own), Some(ns)) => ns.is_within(own),
                    (Some(_), None) => false,
                };
                if !is_below {
                    return Err(Errno::EINVAL);
                }
                namespaces.pid_for_children = ns.clone();
            }
            Any::Mount(ns) => {
                if !acting.capable_here(cap::SYS_CHROOT) {
                    return Err(Errno::EPERM);
                }
                if Rc::strong_count(&me.fs()) > 2 {
                    return Err(Errno::EINVAL);
                }
                root = Some(ns.tree().root());
                namespaces.mount = ns.clone();
            }
            Any::Network(ns) => namespaces.net = ns.clone(),
            // There is one, which the thread is in.
            Any::Time | Any::User(_) => {}
        }
    }
    if let Some(cred) = cred {
        me.set_cred(cred);
    }
    if let Some(root) = root {
        me.fs().set_cwd(root.clone());
        me.fs().set_root(root);
    }
    me.set_namespaces(Some(Rc::new(namespaces)));
    Ok(())
}
