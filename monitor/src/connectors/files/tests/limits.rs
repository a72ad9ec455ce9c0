//! Limits of all requests, whatever is granted.

use super::*;

fn set_mode(rig: &mut Rig, path: &[u8], mode: u32) -> Result<u32> {
    let set = AttrChange { valid: set_attr::MODE, mode, ..AttrChange::default() };
    let input = [bytemuck::bytes_of(&set), path].concat();
    rig.call(request::SetAttr::NUMBER, &[RW], &input, 112).map(|(_, out)| attrs(&out, 1)[0].mode & 0o7777)
}

#[test]
fn file_systems_of_the_kernel_are_refused() {
    for path in ["/proc", "/proc/self", "/proc/self/mem", "/proc/version", "/sys", "/sys/kernel", "/dev"] {
        for writable in [false, true] {
            let error = ExportConfig::open(1, Path::new(path), writable, false).unwrap_err();
            assert!(error.get_ref().is_some_and(|inner| inner.is::<OfKernel>()), "{path}: {error}");
        }
    }
    // The host's root, with the kernel file systems mounted.
    let flags = open_flags::READ;
    for (writable, public) in [(true, false), (false, false), (false, true)] {
        let mut rig = Rig::new();
        rig.files = FilesConnector::new(vec![ExportConfig::open(1, Path::new("/"), writable, public).unwrap()]);
        for path in [&b"proc/1/mem"[..], b"proc/version", b"sys/fs/cgroup/x", b"dev/shm/x"] {
            assert_eq!(rig.open(1, flags, path), Err(Errno::ACCESS));
            assert_eq!(rig.errno(request::Fetch::NUMBER, &[1], path), Errno::ACCESS);
            assert_eq!(rig.errno(request::ReadLink::NUMBER, &[1], path), Errno::ACCESS);
            assert_eq!(rig.errno(request::StatFs::NUMBER, &[1], path), Errno::ACCESS);
            assert_eq!(rig.errno(request::ListXattr::NUMBER, &[1], path), Errno::ACCESS);
            if writable {
                assert_eq!(rig.open(1, flags | open_flags::WRITE, path), Err(Errno::ACCESS));
                assert_eq!(rig.errno(request::Unlink::NUMBER, &[1, 0], path), Errno::ACCESS);
                let set = AttrChange { valid: set_attr::MODE, mode: 0o777, ..AttrChange::default() };
                assert_eq!(
                    rig.errno(request::SetAttr::NUMBER, &[1], &[bytemuck::bytes_of(&set), path].concat()),
                    Errno::ACCESS
                );
            }
            let (reply, out) = rig.call(request::Walk::NUMBER, &[1, 0], path, 4096).unwrap();
            assert_eq!((reply.result, reply.extra), (1, [Errno::ACCESS.raw_os_error() as u64, 1]), "{path:?}");
            assert_eq!(attrs(&out, 1)[0].mode & 0o170000, 0o040000);
        }
        for directory in [&b"proc"[..], b"sys", b"sys/fs/cgroup"] {
            assert_eq!(rig.errno(request::ReadDir::NUMBER, &[1, 0], directory), Errno::ACCESS);
            assert_eq!(rig.errno(request::StatFs::NUMBER, &[1], directory), Errno::ACCESS);
        }
        assert!(rig.open(1, flags, b"etc/passwd").is_ok());
    }
}

#[test]
fn files_get_no_rights_of_their_owner() {
    let mut rig = Rig::new();
    rig.call(request::Open::NUMBER, &[RW, 2 | 4, 0o6755], b"opened", 112).unwrap();
    rig.call(request::Mknod::NUMBER, &[RW, 0o106755], b"made", 112).unwrap();
    rig.call(request::Mkdir::NUMBER, &[RW, 0o7755], b"dir", 112).unwrap();
    for (name, mode) in [("opened", 0o755), ("made", 0o755), ("dir", 0o1755)] {
        assert_eq!(fs::metadata(rig.root().join(name)).unwrap().mode() & 0o7777, mode, "{name}");
    }
    assert_eq!(set_mode(&mut rig, b"opened", 0o7711), Ok(0o1711));
    assert_eq!(set_mode(&mut rig, b"dir", 0o6700), Ok(0o2700));
    let value = [1, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let input = [&b"openedsecurity.capability"[..], &value].concat();
    assert_eq!(rig.errno(request::SetXattr::NUMBER, &[RW, 6, 19, 0], &input), Errno::PERM);
    // The host's set-id bits are cleared before the guest can store into the file.
    let path = rig.root().join("opened");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o6755)).unwrap();
    fs::write(&path, [0; 4096]).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o6755)).unwrap();
    let handle = rig.open(RW, open_flags::READ | open_flags::WRITE, b"opened").unwrap();
    let map = |writable| [handle, 0, 4096, abi::layout::WINDOW_BASE as u64, writable];
    rig.call(request::Map::NUMBER, &map(0), b"", 0).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o6755);
    rig.call(request::Map::NUMBER, &map(1), b"", 0).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o755);
    // Unless `--keep-setid` was given.
    let mut kept = ExportConfig::open(1, &rig.root(), true, false).unwrap();
    kept.keep_setid = true;
    rig.files = FilesConnector::new(vec![kept]);
    assert_eq!(set_mode(&mut rig, b"opened", 0o4755), Ok(0o4755));
    rig.call(request::Open::NUMBER, &[RW, 2 | 4, 0o4711], b"other", 112).unwrap();
    assert_eq!(fs::metadata(rig.root().join("other")).unwrap().mode() & 0o7777, 0o4711);
}

#[test]
fn deep_paths_need_no_deep_stack() {
    let mut rig = Rig::new();
    let path = ["d"; 2047].join("/");
    let mut at = rustix::fs::open(rig.root(), rustix::fs::OFlags::PATH, rustix::fs::Mode::empty()).unwrap();
    for _ in 0..2047 {
        rustix::fs::mkdirat(&at, "d", 0o755.into()).unwrap();
        at = rustix::fs::openat(&at, "d", rustix::fs::OFlags::PATH, rustix::fs::Mode::empty()).unwrap();
    }
    let root = rig.root();
    let walk = move || {
        for export in [RW, RO, PUBLIC] {
            let (reply, _) = rig.call(request::ReadDir::NUMBER, &[export, 0], path.as_bytes(), 512).unwrap();
            assert_eq!(reply.result, 0);
            let (reply, _) = rig.call(request::Walk::NUMBER, &[export, 2046], path.as_bytes(), 512).unwrap();
            assert_eq!((reply.result, reply.extra), (1, [0, 2047]));
            rig.call(request::ReadDir::NUMBER, &[export, 0, 1 << 20], b"", 1 << 20).unwrap();
        }
        rig
    };
    // The monitor's threads have larger stacks, but stack use must not depend on the guest.
    let small = std::thread::scope(|scope| {
        std::thread::Builder::new().stack_size(64 << 10).spawn_scoped(scope, || walk().dir).unwrap().join().unwrap()
    });
    // std's remove_dir_all is recursive.
    assert!(std::process::Command::new("rm").args(["-rf", "--"]).arg(root).status().unwrap().success());
    drop(small);
}
