//! Names of the system, as uname(2) gives them; uts_namespaces(7).

use crate::cred::{UserNs, userns};
use abi::boot::PodConfig;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::RefCell;
use hal::cell::Global;

/// Inode number of the first UTS namespace, as on Linux.
const FIRST_INODE: u64 = 4_026_531_838;

/// A UTS namespace: the names that programs may change.
#[derive(Debug)]
pub struct Uts {
    inode: u64,
    user_ns: Rc<UserNs>,
    host: RefCell<Vec<u8>>,
    domain: RefCell<Vec<u8>>,
}

/// Release and version of the system, `uname -r` and `uname -v`.
#[derive(Clone, Debug, Default)]
pub struct System {
    /// `uname -r`.
    pub release: Vec<u8>,
    /// `uname -v`.
    pub version: Vec<u8>,
}

static SYSTEM: Global<RefCell<Option<System>>> = Global::new(RefCell::new(None));
static FIRST: Global<RefCell<Option<Rc<Uts>>>> = Global::new(RefCell::new(None));

/// Release if the configuration has none.
const RELEASE: &[u8] = b"6.12.0-hull";

/// Sets the names from the configuration (boot).
pub fn init(config: &PodConfig) {
    let or = |given: &Vec<u8>, other: &[u8]| if given.is_empty() { other.to_vec() } else { given.clone() };
    SYSTEM.replace(Some(System {
        release: or(&config.host_release, RELEASE),
        version: or(&config.host_version, b"#1 SMP"),
    }));
    Uts::first().set_host(or(&config.hostname, b"hull"));
}

/// Release and version.
pub fn system() -> System {
    SYSTEM.borrow().clone().unwrap_or_default()
}

/// The namespace of the running thread; during boot, the first.
pub fn here() -> Rc<Uts> {
    super::try_current().and_then(|me| me.try_namespaces()).map_or_else(Uts::first, |all| all.uts.clone())
}

impl Uts {
    /// The namespace of the pod's first program.
    pub fn first() -> Rc<Self> {
        if let Some(first) = &*FIRST.borrow() {
            return first.clone();
        }
        let first = Rc::new(Self {
            inode: FIRST_INODE,
            user_ns: UserNs::first(),
            host: RefCell::new(b"hull".to_vec()),
            domain: RefCell::new(b"(none)".to_vec()),
        });
        FIRST.replace(Some(first.clone()));
        first
    }

    /// A copy that belongs to a user namespace.
    pub fn copy(&self, user_ns: Rc<UserNs>) -> Rc<Self> {
        Rc::new(Self {
            inode: userns::new_inode(),
            user_ns,
            host: RefCell::new(self.host()),
            domain: RefCell::new(self.domain()),
        })
    }

    /// Number that `/proc/PID/ns/uts` shows.
    pub fn inode(&self) -> u64 {
        self.inode
    }

    /// The user namespace that it belongs to.
    pub fn user_ns(&self) -> &Rc<UserNs> {
        &self.user_ns
    }

    /// `uname -n`.
    pub fn host(&self) -> Vec<u8> {
        self.host.borrow().clone()
    }

    /// Domain name of NIS.
    pub fn domain(&self) -> Vec<u8> {
        self.domain.borrow().clone()
    }

    /// Changes the host name. At most 64 bytes.
    pub fn set_host(&self, name: Vec<u8>) {
        drop(self.host.replace(name));
    }

    /// Changes the domain name. At most 64 bytes.
    pub fn set_domain(&self, name: Vec<u8>) {
        drop(self.domain.replace(name));
    }
}
