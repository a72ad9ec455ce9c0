//! Kernel file systems of the host (proc, sysfs, ...): never part of a grant, wherever they are mounted.
//!
//! Their files control the kernel: `/proc/self/mem` is the monitor's own memory, a file in a control group moves
//! processes. So files are rejected by the type of their file system, not by path.

use super::super::{Errno, Result};
use super::attr;
use rustix::fd::BorrowedFd;
use rustix::fs::{CWD, StatFs, fstatfs};
use std::sync::OnceLock;

/// `f_type` of statfs(2) of such file systems, as `linux/magic.h` and their sources have them.
const KERNEL: [u32; 29] = [
    0x0000_9fa0, // proc
    0x6265_6572, // sysfs
    0x0027_e0eb, // cgroup
    0x6367_7270, // cgroup2
    0x0765_5821, // resctrl
    0x6462_6720, // debugfs
    0x7472_6163, // tracefs
    0xcafe_4a11, // bpf
    0xde5e_81e4, // efivarfs
    0x6165_676c, // pstore
    0x7363_6673, // securityfs
    0x6265_6570, // configfs
    0xf97c_ff8c, // selinuxfs
    0x4341_5d53, // smackfs
    0x5a3c_69f0, // apparmorfs
    0x6e73_6673, // nsfs
    0x5049_4446, // pidfs
    0x6573_5543, // fusectl
    0x4249_4e4d, // binfmt_misc
    0x1980_0202, // mqueue
    0x9584_58f6, // hugetlbfs: its pages are memory of the host
    0x0000_1cd1, // devpts
    0x6e66_7364, // nfsd
    0x6759_6969, // rpc_pipefs
    0xabba_1974, // xenfs
    0x6c6f_6f70, // binderfs
    0x0000_9fa2, // usbfs
    0x454d_444d, // devmem
    0x5345_434d, // secretmem
];

/// `f_type` of tmpfs and of ramfs, and so of devtmpfs.
const IN_MEMORY: [u32; 2] = [0x0102_1994, 0x8584_58f6];

/// The reason for rejecting a grant.
#[derive(Debug, thiserror::Error)]
#[error("belongs to a file system of the host's kernel, which no pod gets")]
pub struct OfKernel;

/// Device number of the devtmpfs on the host's `/dev`, if there is one. Read once, before the jail.
fn of_devices() -> Option<(u32, u32)> {
    static DEVICES: OnceLock<Option<(u32, u32)>> = OnceLock::new();
    *DEVICES.get_or_init(|| {
        let device = |path: &[u8]| attr::at(CWD, path).ok().map(|stat| (stat.stx_dev_major, stat.stx_dev_minor));
        device(b"/dev").filter(|devices| device(b"/") != Some(*devices))
    })
}

/// Whether an open file (`O_PATH` suffices) is in such a file system.
pub fn is_of_kernel(fd: BorrowedFd<'_>) -> Result<bool> {
    let StatFs { f_type, .. } = fstatfs(fd)?;
    let kind = f_type as u32;
    if IN_MEMORY.contains(&kind) {
        let Some(devices) = of_devices() else { return Ok(false) };
        let stat = attr::of_fd(fd)?;
        return Ok((stat.stx_dev_major, stat.stx_dev_minor) == devices);
    }
    Ok(KERNEL.contains(&kind))
}

/// EACCES for a file in such a file system.
pub fn refuse(fd: BorrowedFd<'_>) -> Result<()> {
    if is_of_kernel(fd)? { Err(Errno::ACCESS) } else { Ok(()) }
}
