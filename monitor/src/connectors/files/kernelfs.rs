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

/// Major and minor device number of a file system.
type Device = (u32, u32);

/// The device numbers of the file systems on the host's `/dev` and of each mounted devtmpfs. Read once, before the jail:
/// neither has a path there.
static DEVICES: OnceLock<Vec<Device>> = OnceLock::new();

/// Reads what [`is_of_kernel`] needs of the host. To be called before the jail; later calls have no effect.
pub fn prepare() {
    DEVICES.get_or_init(|| {
        let device = |path: &[u8]| attr::at(CWD, path).ok().map(|stat| (stat.stx_dev_major, stat.stx_dev_minor));
        let dev = device(b"/dev").filter(|devices| device(b"/") != Some(*devices));
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        dev.into_iter().chain(devtmpfs(&mounts)).collect()
    });
}

/// The device numbers of devtmpfs in `/proc/self/mountinfo`.
fn devtmpfs(mounts: &str) -> impl Iterator<Item = Device> {
    mounts.lines().filter_map(|line| {
        let (mount, source) = line.split_once(" - ")?;
        let (major, minor) = mount.split(' ').nth(2)?.split_once(':')?;
        let device = (major.parse().ok()?, minor.parse().ok()?);
        source.starts_with("devtmpfs ").then_some(device)
    })
}

/// Whether an open file (`O_PATH` suffices) is in such a file system.
pub fn is_of_kernel(fd: BorrowedFd<'_>) -> Result<bool> {
    let StatFs { f_type, .. } = fstatfs(fd)?;
    let kind = f_type as u32;
    if IN_MEMORY.contains(&kind) {
        let stat = attr::of_fd(fd)?;
        let devices = DEVICES.get().ok_or(Errno::ACCESS)?;
        return Ok(devices.contains(&(stat.stx_dev_major, stat.stx_dev_minor)));
    }
    Ok(KERNEL.contains(&kind))
}

/// EACCES for a file in such a file system.
pub fn refuse(fd: BorrowedFd<'_>) -> Result<()> {
    if is_of_kernel(fd)? { Err(Errno::ACCESS) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_devtmpfs_is_found_in_the_list_of_mounts() {
        let mounts = "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n\
                      23 22 0:40 / /dev rw,nosuid - tmpfs tmpfs rw,size=65536k\n\
                      24 22 0:6 / /host/dev rw shared:2 master:3 - devtmpfs udev rw,size=4k\n\
                      25 22 0:41 / /a\\040-\\040devtmpfs rw - tmpfs devtmpfs rw\nbroken\n";
        assert_eq!(devtmpfs(mounts).collect::<Vec<_>>(), [(0, 6)]);
    }
}
