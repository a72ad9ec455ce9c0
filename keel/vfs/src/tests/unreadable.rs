//! Files that the host does not let the monitor read.

use super::World;
use super::host_dir::HostDir;
use crate::Inode;
use std::format;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::rc::Rc;
use std::vec;
use uapi::Errno;

fn world(name: &str, mode: u32) -> World {
    let host = HostDir::new(name);
    host.write("small", b"content");
    host.write("large", &vec![7; 300_000]);
    host.write("empty", b"");
    for name in ["small", "large", "empty"] {
        fs::set_permissions(host.root.join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    host.public_only.set(true);
    World::new(host)
}

/// What open(2) does once the permissions are checked.
fn open(inode: &Rc<dyn Inode>, reads: bool, writes: bool, cut: bool) -> Result<(), Errno> {
    inode.open(writes)?;
    inode.check_readable(reads, cut)
}

#[test]
fn they_are_not_opened() {
    let w = world("t-unreadable", 0o600);
    for name in ["small", "large"] {
        let layered = w.get(&format!("/h/{name}")).unwrap().inode().clone();
        let through = w.get(&format!("/w/{name}")).unwrap().inode().clone();
        assert_eq!(open(&layered, true, false, false), Err(Errno::EACCES));
        // A write would copy it first, unless it is emptied.
        assert_eq!(open(&layered, false, true, false), Err(Errno::EACCES));
        assert_eq!(open(&layered, true, true, true), Ok(()));
        assert_eq!(open(&through, true, false, false), Err(Errno::EACCES));
        assert_eq!(open(&through, true, true, false), Err(Errno::EACCES));
        assert_eq!(open(&through, false, true, false), Ok(()));
        assert_eq!(open(&through, true, false, false), Err(Errno::EACCES));
        layered.truncate(0).unwrap();
        assert_eq!(open(&layered, true, false, false), Ok(()));
    }
    for path in ["/h/empty", "/w/empty"] {
        assert_eq!(open(w.get(path).unwrap().inode(), true, false, false), Ok(()));
    }
    assert!(w.end());
}

#[test]
fn others_cost_no_trip() {
    for (mode, trips) in [(0o644, 0), (0o604, 1)] {
        let w = world(&format!("t-readable-{mode:o}"), mode);
        for path in ["/h/small", "/w/small", "/h/large", "/w/large"] {
            let inode = w.get(path).unwrap().inode().clone();
            w.host.reset();
            assert_eq!(open(&inode, true, false, false), Ok(()));
            assert_eq!(w.host.trips(), trips, "{path}");
            if path.ends_with("small") {
                assert_eq!(super::content(&*inode).unwrap(), b"content");
            }
        }
        assert!(w.end());
    }
}
