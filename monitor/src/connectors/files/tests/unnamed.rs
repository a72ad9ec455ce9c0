//! Files named by handles: files without a name, and misused handles.

use super::*;

const ALL: u32 = open_flags::READ | open_flags::WRITE | open_flags::UNNAMED;

#[test]
fn a_file_without_a_name_gets_one() {
    let mut rig = Rig::new();
    let handle = match rig.open(RW, ALL, b"sub") {
        Err(Errno::OPNOTSUPP) => return, // the file system does not support O_TMPFILE
        other => other.unwrap(),
    };
    rig.call(request::Write::NUMBER, &[handle, 0], b"text", 0).unwrap();
    let set = AttrChange { valid: set_attr::MODE, mode: 0o640, ..AttrChange::default() };
    rig.call(request::SetAttr::NUMBER, &[RW, handle], bytemuck::bytes_of(&set), 112).unwrap();
    let (_, out) = rig.call(request::Link::NUMBER, &[RW, 0, handle], b"sub/named", 112).unwrap();
    assert_eq!((attrs(&out, 1)[0].mode & 0o7777, attrs(&out, 1)[0].nlink), (0o640, 1));
    assert_eq!(fs::read_to_string(rig.root().join("sub/named")).unwrap(), "text");
    assert_eq!(rig.errno(request::Link::NUMBER, &[RW, 0, handle], b"sub/named"), Errno::EXIST);
    fs::remove_file(rig.root().join("sub/named")).unwrap();
    assert_eq!(rig.errno(request::Link::NUMBER, &[RW, 0, handle], b"sub/again"), Errno::NOENT);
    assert_eq!(rig.errno(request::Link::NUMBER, &[RW, 0, handle], b"../out"), Errno::INVAL);
}

#[test]
fn files_without_a_name_are_made_only_where_files_may_be() {
    let mut rig = Rig::new();
    for export in [RO, PUBLIC] {
        assert_eq!(rig.open(export, ALL, b"sub").unwrap_err(), Errno::ROFS);
    }
    assert_eq!(rig.open(FILE, ALL, b"").unwrap_err(), Errno::NOTDIR);
    assert_eq!(rig.open(RW, ALL, b"hello").unwrap_err(), Errno::NOTDIR);
    assert_eq!(rig.open(RW, ALL, b"up").unwrap_err(), Errno::LOOP);
    for more in [open_flags::CREATE, open_flags::EXCLUSIVE, open_flags::TRUNCATE] {
        assert_eq!(rig.open(RW, ALL | more, b"sub").unwrap_err(), Errno::INVAL);
    }
    assert_eq!(rig.open(RW, open_flags::READ | open_flags::UNNAMED, b"sub").unwrap_err(), Errno::INVAL);
}

#[test]
fn a_handle_stands_for_files_of_its_own_export_only() {
    let mut rig = Rig::new();
    let handle = rig.open(RO, open_flags::READ, b"hello").unwrap();
    // Not even if both exports are the same directory: a read-only grant could be linked into a writable one.
    assert_eq!(rig.errno(request::Link::NUMBER, &[RW, 0, handle], b"sub/stolen"), Errno::BADF);
    let set = AttrChange { valid: set_attr::MODE, mode: 0o777, ..AttrChange::default() };
    assert_eq!(rig.errno(request::SetAttr::NUMBER, &[RW, handle], bytemuck::bytes_of(&set)), Errno::BADF);
    assert_eq!(rig.errno(request::SetAttr::NUMBER, &[RO, handle], bytemuck::bytes_of(&set)), Errno::ROFS);
    assert_eq!(rig.errno(request::SetXattr::NUMBER, &[RW, 0, 6, 0, handle], b"user.av"), Errno::BADF);
    assert_eq!(rig.errno(request::RemoveXattr::NUMBER, &[RW, 0, handle], b"user.a"), Errno::BADF);
    assert_eq!(rig.errno(request::GetXattr::NUMBER, &[RW, 0, handle], b"user.a"), Errno::BADF);
    assert_eq!(rig.errno(request::GetXattr::NUMBER, &[RO, 5, handle], b"hellouser.a"), Errno::INVAL);
    assert_eq!(rig.errno(request::ListXattr::NUMBER, &[RW, handle], b""), Errno::BADF);
    assert_eq!(rig.errno(request::ListXattr::NUMBER, &[RW, 12345], b""), Errno::BADF);
}

#[test]
fn data_and_holes_are_found() {
    let mut rig = Rig::new();
    fs::File::create(rig.root().join("sparse")).unwrap().set_len(1 << 20).unwrap();
    let handle = rig.open(RO, open_flags::READ, b"sparse").unwrap();
    assert_eq!(rig.call(request::Seek::NUMBER, &[handle, 5, 1], b"", 0).unwrap().0.result, 5);
    assert_eq!(rig.errno(request::Seek::NUMBER, &[handle, 0, 0], b""), Errno::NXIO);
    assert_eq!(rig.errno(request::Seek::NUMBER, &[handle, 1 << 20, 1], b""), Errno::NXIO);
    assert_eq!(rig.errno(request::Seek::NUMBER, &[handle, u64::MAX, 1], b""), Errno::INVAL);
    assert_eq!(rig.errno(request::Seek::NUMBER, &[handle, 0, 2], b""), Errno::INVAL);
    let handle = rig.open(RW, open_flags::WRITE, b"sparse").unwrap();
    assert_eq!(rig.errno(request::Seek::NUMBER, &[handle, 0, 1], b""), Errno::BADF);
}
