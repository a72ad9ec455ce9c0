//! Names of the system, as uname(2) gives them.

use abi::boot::PodConfig;
use alloc::vec::Vec;
use core::cell::RefCell;
use hal::cell::Global;

/// Names of the system.
#[derive(Clone, Debug, Default)]
pub struct SystemNames {
    /// `uname -n`.
    pub host: Vec<u8>,
    /// `uname -r`.
    pub release: Vec<u8>,
    /// `uname -v`.
    pub version: Vec<u8>,
    /// Domain name of NIS.
    pub domain: Vec<u8>,
}

static NAMES: Global<RefCell<Option<SystemNames>>> = Global::new(RefCell::new(None));

/// Release if the configuration has none.
const RELEASE: &[u8] = b"6.12.0-hull";

/// Sets the names from the configuration (boot).
pub fn init(config: &PodConfig) {
    let or = |given: &Vec<u8>, other: &[u8]| if given.is_empty() { other.to_vec() } else { given.clone() };
    *NAMES.borrow_mut() = Some(SystemNames {
        host: or(&config.hostname, b"hull"),
        release: or(&config.host_release, RELEASE),
        version: or(&config.host_version, b"#1 SMP"),
        domain: b"(none)".to_vec(),
    });
}

/// Names of the system.
pub fn names() -> SystemNames {
    NAMES.borrow().clone().unwrap_or_default()
}

/// Changes the host name: `/proc/sys/kernel/hostname`. At most 64 bytes.
pub fn set_host(name: Vec<u8>) {
    if let Some(names) = NAMES.borrow_mut().as_mut() {
        names.host = name;
    }
}

/// Changes the domain name: `/proc/sys/kernel/domainname`. At most 64 bytes.
pub fn set_domain(name: Vec<u8>) {
    if let Some(names) = NAMES.borrow_mut().as_mut() {
        names.domain = name;
    }
}
