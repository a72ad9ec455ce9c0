//! Opening `/dev/kvm` and learning what kind of KVM it is.

use crate::error::Error;
use kvm_ioctls::{Cap, Kvm};
use std::io::ErrorKind;

/// Capabilities without which no pod can run.
const NEEDED: [(Cap, &str); 4] = [
    (Cap::UserMemory, "user memory"),
    (Cap::Ioeventfd, "ioeventfd"),
    (Cap::ImmediateExit, "immediate exit"),
    (Cap::ExtCpuid, "CPUID"),
];

/// Opens `/dev/kvm` and checks that it can run pods.
pub fn open() -> Result<Kvm, Error> {
    if let Err(error) = std::fs::OpenOptions::new().read(true).write(true).open("/dev/kvm") {
        return Err(match error.kind() {
            ErrorKind::NotFound => Error::NoKvm,
            ErrorKind::PermissionDenied => Error::KvmPermission,
            _ if error.raw_os_error() == Some(libc::ENXIO) || error.raw_os_error() == Some(libc::ENODEV) => {
                Error::NoKvm
            }
            _ => Error::KvmUnusable(error.to_string()),
        });
    }
    let kvm = Kvm::new().map_err(|e| Error::kvm("open", e))?;
    let version = kvm.get_api_version();
    if version != kvm_bindings::KVM_API_VERSION as i32 {
        return Err(Error::KvmUnusable(format!("its API version is {version}, not 12; use a Linux kernel's KVM")));
    }
    if let Some((_, name)) = NEEDED.iter().find(|(cap, _)| !kvm.check_extension(*cap)) {
        return Err(Error::KvmUnusable(format!("it lacks {name}; use Linux 5.10 or later")));
    }
    Ok(kvm)
}

/// Whether page faults of the guest are expensive: a software-nested KVM, recognised by the
/// hypervisor leaf that the host itself shows without hardware virtualisation.
pub fn is_software_nested() -> bool {
    let flags = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let has = |name: &str| {
        flags.lines().find(|l| l.starts_with("flags")).is_some_and(|l| l.split_ascii_whitespace().any(|f| f == name))
    };
    !has("vmx") && !has("svm")
}
