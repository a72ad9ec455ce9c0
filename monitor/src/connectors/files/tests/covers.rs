//! Nested grants: what the outer export must not reach, by any request.

use super::*;

/// Exports 1 (writable), 2 (read-only), 3 (public) of a directory in which `a/b/hidden`, `a/file` and `new/place` (which do
/// not exist) are covered; 4 is `a` again.
fn rig() -> Rig {
    let mut rig = Rig::new();
    let root = rig.root();
    fs::create_dir_all(root.join("a/b/hidden/deep")).unwrap();
    fs::create_dir_all(root.join("apart/hidden")).unwrap();
    for (file, content) in [("a/b/hidden/secret", "s"), ("a/b/hidden/deep/er", "d"), ("a/file", "f"), ("a/b/open", "o")]
    {
        fs::write(root.join(file), content).unwrap();
    }
    fs::hard_link(root.join("a/file"), root.join("alias")).unwrap();
    let open = |id, writable, public| {
        let mut export = ExportConfig::open(id, &root, writable, public).unwrap();
        for path in [&b"a/b/hidden"[..], b"a/file", b"new/place"] {
            export.cover(path).unwrap();
        }
        export
    };
    let beside = ExportConfig::open(4, &root.join("a"), true, false).unwrap();
    rig.files = FilesConnector::new(vec![open(1, true, false), open(2, false, false), open(3, false, true), beside]);
    rig
}

fn two(first: &[u8], second: &[u8]) -> (u64, Vec<u8>) {
    (first.len() as u64, [first, second].concat())
}

#[test]
fn what_is_covered_is_out_of_reach() {
    let mut rig = rig();
    for export in [1, 2, 3] {
        for path in
            [&b"a/b/hidden"[..], b"a/b/hidden/secret", b"a/b/hidden/deep/er", b"a/file", b"new/place", b"new/place/x"]
        {
            let refused = [Errno::ACCESS, Errno::BUSY, Errno::ROFS];
            assert_eq!(rig.open(export, open_flags::READ, path), Err(Errno::ACCESS), "{path:?}");
            assert_eq!(rig.errno(request::Fetch::NUMBER, &[export], path), Errno::ACCESS);
            assert_eq!(rig.errno(request::ReadDir::NUMBER, &[export, 0], path), Errno::ACCESS);
            assert_eq!(rig.errno(request::ReadLink::NUMBER, &[export], path), Errno::ACCESS);
            assert_eq!(rig.errno(request::StatFs::NUMBER, &[export], path), Errno::ACCESS);
            assert_eq!(rig.errno(request::ListXattr::NUMBER, &[export], path), Errno::ACCESS);
            let write = open_flags::WRITE | open_flags::CREATE | open_flags::TRUNCATE;
            assert!(refused.contains(&rig.open(export, write, path).unwrap_err()));
            let new = open_flags::WRITE | open_flags::CREATE | open_flags::EXCLUSIVE | open_flags::OR_TELL;
            assert!(refused.contains(&rig.open(export, new, path).unwrap_err()));
            assert_eq!(rig.open(export, new, b"alias"), Err(Errno::ACCESS));
            let set = AttrChange { valid: set_attr::MODE | set_attr::SIZE, ..AttrChange::default() };
            let input = [bytemuck::bytes_of(&set), path].concat();
            assert!(refused.contains(&rig.errno(request::SetAttr::NUMBER, &[export], &input)));
            let (len, input) = two(path, b"user.av");
            assert!(refused.contains(&rig.errno(request::SetXattr::NUMBER, &[export, len, 6, 0], &input)));
            for op in [request::Mkdir::NUMBER, request::Unlink::NUMBER] {
                assert!(refused.contains(&rig.errno(op, &[export, 0], path)), "{op:?} {path:?}");
            }
            assert!(refused.contains(&rig.errno(request::Unlink::NUMBER, &[export, 1], path)));
            assert!(refused.contains(&rig.errno(request::Mknod::NUMBER, &[export, 0o100644], path)));
            let (len, input) = two(path, b"target");
            assert!(refused.contains(&rig.errno(request::Symlink::NUMBER, &[export, len], &input)));
            for (from, to) in [(path, &b"moved"[..]), (b"hello", path), (b"apart", path)] {
                let (len, input) = two(from, to);
                for flags in [0, 1, 2] {
                    assert!(
                        refused.contains(&rig.errno(request::Rename::NUMBER, &[export, len, flags], &input)),
                        "{from:?} {to:?}"
                    );
                }
                assert!(refused.contains(&rig.errno(request::Link::NUMBER, &[export, len], &input)), "{from:?} {to:?}");
            }
        }
        // Its attributes are visible, as an entry of its directory, and nothing beyond.
        let (reply, out) = rig.call(request::Walk::NUMBER, &[export, 0], b"a/b/hidden/secret", 4096).unwrap();
        assert_eq!((reply.result, reply.extra), (3, [Errno::ACCESS.raw_os_error() as u64, 3]));
        assert_eq!(attrs(&out, 3)[2].mode & 0o170000, 0o040000);
        assert_eq!(rig.errno(request::Walk::NUMBER, &[export, 3], b"a/b/hidden/secret"), Errno::ACCESS);
        let (reply, _) = rig.call(request::Walk::NUMBER, &[export, 0], b"a/b/hidden", 4096).unwrap();
        assert_eq!((reply.result, reply.extra), (3, [0, 3]));
        // Not by readahead either.
        let (reply, out) =
            rig.call(request::ReadDir::NUMBER, &[export, 0, 1 << 16, 1, 0], b"a\0a/b/hidden/deep", 1 << 16).unwrap();
        let lists = listed_ahead(&out[..reply.result as usize]);
        assert_eq!(lists.iter().map(|list| list.0.as_str()).collect::<Vec<_>>(), ["a/b"]);
        // Neighbouring files are accessible.
        assert!(rig.open(export, open_flags::READ, b"a/b/open").is_ok());
        assert!(rig.open(4, open_flags::READ, b"file").is_ok());
    }
    assert_eq!(fs::read_to_string(rig.root().join("a/b/hidden/secret")).unwrap(), "s");
    assert!(!rig.root().join("moved").exists() && !rig.root().join("new").exists());
}

#[test]
fn other_names_lead_there_neither() {
    let mut rig = rig();
    let root = rig.root();
    // A hard link that the host made.
    assert_eq!(rig.open(1, open_flags::READ, b"alias"), Err(Errno::ACCESS));
    assert_eq!(rig.open(1, open_flags::WRITE | open_flags::TRUNCATE, b"alias"), Err(Errno::ACCESS));
    assert_eq!(rig.errno(request::Fetch::NUMBER, &[1], b"alias"), Errno::ACCESS);
    let (len, input) = two(b"alias", b"second");
    assert_eq!(rig.errno(request::Link::NUMBER, &[1, len], &input), Errno::BUSY);
    assert_eq!(rig.errno(request::Rename::NUMBER, &[1, len, 0], &input), Errno::BUSY);
    // The directories above can't be renamed, so that the covered path stays valid.
    for above in [&b"a"[..], b"a/b"] {
        for (from, to) in [(above, &b"moved"[..]), (b"apart", above)] {
            let (len, input) = two(from, to);
            for flags in [0, 2] {
                assert_eq!(rig.errno(request::Rename::NUMBER, &[1, len, flags], &input), Errno::BUSY);
            }
        }
        assert_eq!(rig.errno(request::Unlink::NUMBER, &[1, 1], above), Errno::BUSY);
    }
    // Missing ones can be created, but only as directories, and no rename may replace their place.
    let (len, input) = two(b"apart", b"new");
    assert_eq!(rig.errno(request::Rename::NUMBER, &[1, len, 0], &input), Errno::BUSY);
    let (len, input) = two(b"new", b"apart");
    assert_eq!(rig.errno(request::Symlink::NUMBER, &[1, len], &input), Errno::BUSY);
    assert_eq!(rig.open(1, open_flags::WRITE | open_flags::CREATE, b"new"), Err(Errno::BUSY));
    rig.call(request::Mkdir::NUMBER, &[1, 0o755], b"new", 112).unwrap();
    assert_eq!(rig.errno(request::Mkdir::NUMBER, &[1, 0o755], b"new/place"), Errno::BUSY);
    assert_eq!(rig.errno(request::Unlink::NUMBER, &[1, 1], b"new"), Errno::BUSY);
    rig.call(request::Mkdir::NUMBER, &[1, 0o755], b"new/other", 112).unwrap();
    // The host moves it; the guest can see it but not open it.
    fs::rename(root.join("a/b/hidden"), root.join("apart/found")).unwrap();
    for path in [&b"apart/found/secret"[..], b"apart/found/deep/er"] {
        assert_eq!(rig.open(1, open_flags::READ, path), Err(Errno::ACCESS));
        assert_eq!(rig.open(2, open_flags::READ, path), Err(Errno::ACCESS));
    }
    assert_eq!(rig.errno(request::Unlink::NUMBER, &[1, 1], b"apart/found"), Errno::BUSY);
    let (len, input) = two(b"apart/found", b"a/x");
    assert_eq!(rig.errno(request::Rename::NUMBER, &[1, len, 0], &input), Errno::BUSY);
    let (reply, _) = rig.call(request::Walk::NUMBER, &[1, 0], b"apart/found/deep/er", 4096).unwrap();
    assert_eq!((reply.result, reply.extra), (2, [Errno::ACCESS.raw_os_error() as u64, 2]));
    let (reply, out) = rig.call(request::ReadDir::NUMBER, &[1, 0, 1 << 16], b"apart", 1 << 16).unwrap();
    assert_eq!(listed_ahead(&out[..reply.result as usize]), [("apart/hidden".to_owned(), vec![])]);
    // Nothing can be created in its place.
    assert_eq!(rig.errno(request::Mkdir::NUMBER, &[1, 0o755], b"a/b/hidden"), Errno::BUSY);
    fs::create_dir(root.join("a/b/hidden")).unwrap();
    assert_eq!(rig.open(1, open_flags::WRITE | open_flags::CREATE, b"a/b/hidden/x"), Err(Errno::BUSY));
    assert_eq!(rig.errno(request::ReadDir::NUMBER, &[1, 0], b"a/b/hidden"), Errno::ACCESS);
}

#[test]
fn only_plain_places_are_covered() {
    let rig = Rig::new();
    let mut export = ExportConfig::open(1, &rig.root(), true, false).unwrap();
    let refused = |export: &mut ExportConfig, path: &[u8]| export.cover(path).unwrap_err().raw_os_error().unwrap();
    assert_eq!(refused(&mut export, b""), Errno::INVAL.raw_os_error());
    assert_eq!(refused(&mut export, b"../x"), Errno::INVAL.raw_os_error());
    assert_eq!(refused(&mut export, b"up/x"), Errno::LOOP.raw_os_error());
    export.cover(b"up").unwrap();
}
