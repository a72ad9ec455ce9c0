//! `PROCMAP_QUERY`: the mapping at an address, asked of an open `/proc/PID/maps` (Documentation/filesystems/proc.rst).

use super::bound;
use super::maps::Lines;
use crate::file::File;
use crate::mm::area::AreaFlags;
use crate::mm::user;
use abi::layout::PAGE_SIZE;
use core::mem::size_of;
use hal::paging::Prot;
use uapi::{Errno, Result};
use vfs::attr::split_dev;

/// The request: `_IOWR('f', 17, struct procmap_query)`.
pub const PROCMAP_QUERY: u32 = 0xc068_6611;

/// Words of `struct procmap_query`: size, flags, address; start, end, rights, page size, offset, inode number, major and
/// minor number of the device, sizes of the name and the build id; and where these two go.
type Query = [u64; 13];
/// Bytes that a query has at least: up to the address.
const LEAST: usize = 24;

const SHARED: u64 = 8;
/// The next mapping above the address will do.
const OR_NEXT: u64 = 0x10;
/// Only mappings of files.
const OF_FILE: u64 = 0x20;
/// The rights that a mapping must have.
const RIGHTS: u64 = 0xf;

/// Serves the request; `None` if the file is no `maps`. E2BIG, EFAULT, EINVAL, ENAMETOOLONG, ENOENT, ESRCH.
pub fn serve(file: &File, arg: usize) -> Option<Result<usize>> {
    let inode = file.ops.inode()?;
    let opened = vfs::synth::opened(&*inode)?;
    let open = opened.as_any()?.downcast_ref::<bound::Open>().filter(|open| open.answers_queries())?;
    Some(answer(open, arg).map(|()| 0))
}

/// The low and the high half of a word.
fn halves(word: u64) -> (usize, usize) {
    ((word & 0xffff_ffff) as usize, (word >> 32) as usize)
}

fn answer(open: &bound::Open, arg: usize) -> Result<()> {
    let size: u64 = user::read(arg)?;
    let size = usize::try_from(size).ok().filter(|&size| size <= PAGE_SIZE).ok_or(Errno::E2BIG)?;
    if size < LEAST {
        return Err(Errno::EINVAL);
    }
    let known = size.min(size_of::<Query>());
    crate::task::path::check_struct_size(arg, size, known)?;
    let mut query: Query = Query::default();
    user::read_bytes(arg, &mut bytemuck::cast_slice_mut(&mut query)[..known])?;
    let [_, flags, address, .., sizes, name_at, build_at] = query;
    let (name_room, build_room) = halves(sizes);
    let all_or_none = |room: usize, at: u64| (room != 0) == (at != 0);
    if flags & !(RIGHTS | OR_NEXT | OF_FILE) != 0
        || !all_or_none(name_room, name_at)
        || !all_or_none(build_room, build_at)
    {
        return Err(Errno::EINVAL);
    }
    let mm = open.memory().ok_or(Errno::ESRCH)?;
    let rights = |prot: Prot, flags: AreaFlags| {
        let bit = |has: bool, bit: u64| if has { bit } else { 0 };
        let shared = bit(flags.contains(AreaFlags::SHARED), SHARED);
        bit(prot.contains(Prot::READ), 1)
            | bit(prot.contains(Prot::WRITE), 2)
            | bit(prot.contains(Prot::EXEC), 4)
            | shared
    };
    let found = mm.area_from(address as usize, flags & OR_NEXT != 0, |prot, area_flags, of_file| {
        flags & RIGHTS & !rights(prot, area_flags) == 0 && (of_file || flags & OF_FILE == 0)
    });
    let area = found.ok_or(Errno::ENOENT)?;
    let mut lines = Lines::new();
    let (dev, ino) = lines.device(&area);
    let (major, minor) = split_dev(dev);
    let mut name = lines.name(&area.name)?;
    if name_room != 0 && !name.is_empty() {
        name.push(0);
        // A path has at most PATH_MAX bytes.
        if name.len() > name_room.min(PAGE_SIZE) {
            return Err(Errno::ENAMETOOLONG);
        }
        user::write_bytes(name_at as usize, &name)?;
    }
    let name_len = if name_room == 0 { 0 } else { name.len() as u64 };
    // Build ids are not looked for, as Linux does not where the file's first page is not in memory: there is none, 0 bytes.
    let told: Query = [
        size as u64,
        flags,
        address,
        area.start as u64,
        area.end as u64,
        rights(area.prot, area.flags),
        PAGE_SIZE as u64,
        area.offset,
        ino,
        u64::from(major) | u64::from(minor) << 32,
        name_len,
        name_at,
        build_at,
    ];
    user::write_bytes(arg, &bytemuck::cast_slice(&told)[..known])
}
