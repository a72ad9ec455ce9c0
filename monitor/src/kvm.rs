//! Opens `/dev/kvm` and detects the kind of KVM.

use crate::error::Error;
use kvm_ioctls::{Cap, Kvm};
use std::arch::x86_64::__cpuid;
use std::fs::File;
use std::io::Read;
use std::sync::OnceLock;

/// Capabilities that a pod requires.
const NEEDED: [(Cap, &str); 4] = [
    (Cap::UserMemory, "user memory"),
    (Cap::Ioeventfd, "ioeventfd"),
    (Cap::ImmediateExit, "immediate exit"),
    (Cap::ExtCpuid, "CPUID"),
];

/// Opens `/dev/kvm` and checks that it can run pods.
pub fn open() -> Result<Kvm, Error> {
    let kvm = Kvm::new().map_err(|error| match error.errno() {
        libc::ENOENT | libc::ENXIO | libc::ENODEV => Error::NoKvm,
        libc::EACCES | libc::EPERM => Error::KvmPermission,
        _ => Error::KvmUnusable(format!("{}; see hull doctor", crate::error::reason(&error.into()))),
    })?;
    let version = kvm.get_api_version();
    if version != kvm_bindings::KVM_API_VERSION as i32 {
        return Err(Error::KvmUnusable(format!("its API version is {version}, not 12; use a Linux kernel's KVM")));
    }
    if let Some((_, name)) = NEEDED.iter().find(|(cap, _)| !kvm.check_extension(*cap)) {
        return Err(Error::KvmUnusable(format!("it lacks {name}; use Linux 5.10 or later")));
    }
    Ok(kvm)
}

/// Whether page faults of the guest are expensive: a software-nested KVM, detected by a processor that does not offer
/// hardware virtualisation to this host (or whose firmware turned it off).
pub fn is_software_nested() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    *ANSWER.get_or_init(|| {
        let intel = __cpuid(1).ecx & 1 << 5 != 0;
        let amd = __cpuid(0x8000_0001).ecx & 1 << 2 != 0;
        !(intel || amd) || !kernel_sees_virtualisation()
    })
}

/// Whether /proc/cpuinfo lists VMX or SVM for the first processor.
fn kernel_sees_virtualisation() -> bool {
    // The entry of one processor is shorter; reading the whole file takes milliseconds on a large machine.
    let mut text = [0; 8192];
    let n = File::open("/proc/cpuinfo").and_then(|mut file| file.read(&mut text)).unwrap_or(0);
    let text = String::from_utf8_lossy(&text[..n]);
    let flags = text.lines().find(|line| line.starts_with("flags")).unwrap_or_default();
    flags.split_ascii_whitespace().any(|flag| flag == "vmx" || flag == "svm")
}
