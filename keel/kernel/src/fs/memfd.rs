//! Files in memory without a name: memfd_create(2).

use super::regular::RegularFile;
use super::setup;
use crate::file::File;
use crate::mm::user;
use crate::task;
use crate::task::descriptors;
use crate::task::path;
use uapi::raw::general as g;
use uapi::{Errno, Result};
use vfs::NewNode;
use vfs::node::F_SEAL_EXEC;

/// Maximum length of a name: NAME_MAX without the prefix that `/proc` shows.
const NAME_MAX: usize = 249;

/// memfd_create(2). Huge pages are not supported (ENOSYS, as a Linux without them): files use 4 KiB pages.
pub fn sys_memfd_create(name: usize, flags: u32) -> Result<i32> {
    let huge = flags & g::MFD_HUGETLB != 0;
    let sizes = if huge { g::MFD_HUGE_MASK << g::MFD_HUGE_SHIFT | g::MFD_HUGETLB } else { 0 };
    path::check_flags(flags, sizes | g::MFD_CLOEXEC | g::MFD_ALLOW_SEALING | g::MFD_NOEXEC_SEAL | g::MFD_EXEC)?;
    if flags & (g::MFD_EXEC | g::MFD_NOEXEC_SEAL) == g::MFD_EXEC | g::MFD_NOEXEC_SEAL {
        return Err(Errno::EINVAL);
    }
    let name = user::read_cstr(name, NAME_MAX + 1).map_err(|errno| match errno {
        Errno::ENAMETOOLONG => Errno::EINVAL,
        other => other,
    })?;
    if huge {
        return Err(Errno::ENOSYS);
    }
    let cred = task::current().cred();
    let noexec = flags & g::MFD_NOEXEC_SEAL != 0;
    let mode = if noexec { 0o666 } else { 0o777 };
    let node = setup::memory_files().node(&NewNode::plain(0o100000 | mode, cred.fsuid, cred.fsgid));
    if flags & (g::MFD_ALLOW_SEALING | g::MFD_NOEXEC_SEAL) != 0 {
        node.allow_sealing();
    }
    if noexec {
        node.add_seals(F_SEAL_EXEC)?;
    }
    let place = setup::tree().unnamed(&[b"/memfd:", &name[..]].concat(), node.clone());
    let file = File::new(RegularFile::never_opened(node), g::O_RDWR | g::O_LARGEFILE, Some(place));
    descriptors::install(file, if flags & g::MFD_CLOEXEC != 0 { g::O_CLOEXEC } else { 0 })
}
