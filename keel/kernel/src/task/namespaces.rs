//! The types of namespaces; a pod has one of each.

use uapi::raw::general as g;

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

/// All types that clone(2), unshare(2) and setns(2) accept.
pub const ALL_TYPES: u32 = {
    let (mut all, mut i) = (0, 0);
    while i < TYPES.len() {
        all |= TYPES[i].1;
        i += 1;
    }
    all
};
